"""Time of a complete fit: covary, cold and warm, and other libraries, from the same start."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.measure import fresh, say
from benchmarks.peers import PEERS, Fit, fit
from benchmarks.problem import model, table
from benchmarks.report import Bar, Report, Table, figure

SIZES = (200, 1000, 2000, 4000)
JUDGED = 2000
FASTER, BELOW = 8.0, 0.05
LIMIT = 600.0  # seconds allowed to one fit of one peer


def covary(n: int, warm: int) -> dict[str, Any]:
    """Return the time of the first fit in this process, including compilation, and the best of a few more."""
    from covary import Data, learn

    data = Data(*table(n))
    times = []
    for _ in range(1 + warm):
        began = time.perf_counter()
        learned = learn(model(), data)
        times.append(time.perf_counter() - began)
    full = sum(rows == n for rows, _ in learned.history)
    best = min(times[1:], default=times[0])
    return {"cold": times[0], "warm": best, "evidence": learned.value, "steps": learned.steps, "full": full}


def own_fit(n: int, warm: int) -> dict[str, Any]:
    """Fit with covary in a separate process."""
    outcome = fresh("benchmarks.fit:covary", limit=LIMIT, n=n, warm=warm)
    if outcome.failure:
        raise RuntimeError(f"covary's own fit at n = {n} failed: {outcome.failure}")
    say(f"n = {n}, covary: {outcome.value}, others {outcome.others:.1f}")
    return outcome.value | {"others": outcome.others}


def peer_fits(n: int) -> tuple[dict[str, Fit], list[str]]:
    """Fit with every installed library that is compared at this n, and return notes on all of them."""
    fits: dict[str, Fit] = {}
    notes = []
    for key, peer in PEERS.items():
        if not peer.present:
            notes.append(f"{peer.name} is not installed and is omitted.")
        elif n > peer.largest:
            notes.append(f"{peer.name} is omitted at n = {n} to keep the run short.")
        else:
            found = fit(key, n, LIMIT)
            say(f"n = {n}, {peer.name}: {found}")
            if isinstance(found, str):
                notes.append(f"{peer.name}: {found}.")
            else:
                fits[key] = found
                notes.append(f"{peer.name}: {peer.note}.")
    return fits, notes


def compare(n: int, smoke: bool) -> tuple[Table, list[Bar]]:
    """Return one table: covary, before and after the other libraries (the better of the two counts), and the others."""
    own = own_fit(n, 1 if smoke else 3)
    fits, remarks = ({}, []) if smoke else peer_fits(n)
    if fits:
        again = own_fit(n, 2)
        own |= {name: min(own[name], again[name]) for name in ("cold", "warm", "others")}
    best = max([own["evidence"], *(f.evidence for f in fits.values())])

    def row(name: str, took: float, evidence: float, count: str, others: float) -> list[str]:
        ratios = (figure(took / own["warm"]), figure(took / own["cold"]))
        return [name, f"{took:.2f}", *ratios, f"{evidence:.3f}", f"{best - evidence:.3f}", count, f"{others:.1f}"]

    steps = f"{own['steps']} ({own['full']} at n)"
    rows = [row(f"covary, {name}", own[name], own["evidence"], steps, own["others"]) for name in ("warm", "cold")]
    for key, f in sorted(fits.items(), key=lambda item: item[1].seconds):
        rows.append(row(PEERS[key].name, f.seconds, f.evidence, str(f.evaluations or "?"), f.others))
    columns = (
        "library",
        "seconds",
        "/ covary warm",
        "/ covary cold",
        "evidence",
        "below best",
        "evaluations",
        "background load",
    )
    notes = [
        "evidence: `covary.log_evidence` at the final hyperparameters of each library. below best: difference to the best "
        "library.",
        "background load: mean number of cores used by other processes.",
        *remarks,
    ]
    bars = []
    if n == JUDGED and fits:
        fastest = min(f.seconds for f in fits.values())
        highest = max(f.evidence for f in fits.values())
        bars = [
            Bar(f"time of a fit: fastest other library / covary, warm, n = {n}", fastest / own["warm"], FASTER, least=True),
            Bar(f"time of a fit: fastest other library / covary, cold, n = {n}", fastest / own["cold"], FASTER, least=True),
            Bar(f"log evidence of the best other library minus covary, n = {n}", highest - own["evidence"], BELOW, unit="nats"),
        ]
    return Table(f"n = {n}", columns, rows, notes), bars


def run(smoke: bool = False) -> Report:
    """Measure every size, and compare with the targets at one of them."""
    tables, bars = [], []
    for n in (200,) if smoke else SIZES:
        part, judged = compare(n, smoke)
        tables.append(part)
        bars += judged
    text = (
        "Every library fits the same model (zero mean, one variance, eight length-scales, noise) from the same start in a "
        "separate\n"
        "process; import and data are not counted. *covary, cold* is the first fit of a process, including compilation: "
        "the better of\n"
        "two processes, one before and one after the other libraries. *covary, warm* is the best of five more fits. The "
        "other libraries\n"
        "take long and are run once, so background load affects them more. GPJax compiles inside its fit."
    )
    return Report("Time of a complete fit", text, tables, bars)
