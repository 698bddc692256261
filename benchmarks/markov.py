"""The evidence of long time series in O(n), compared with celerite2: ``python -m benchmarks.markov --out docs/benchmarks``."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Others, fresh, interleaved, say
from benchmarks.report import Bar, Report, Table, figure, write

SIZES = (1000, 10_000, 100_000, 1_000_000)
JUDGED = 100_000
VALUE, SLOPE = 5.0, 15.0  # limit on the time of evidence and gradient, as a multiple of celerite2's evidence
NOISE = 0.05
KERNELS = {
    "Matern12": "2.0 * Matern12(lengthscale=0.7)",
    "Matern32": "2.0 * Matern32(lengthscale=0.7)",
    "Matern52": "2.0 * Matern52(lengthscale=0.7)",
    "Matern32 × Cosine + Matern12": "2.0 * Matern32(lengthscale=5.0) * Cosine(period=2.0) + 0.5 * Matern12(lengthscale=0.7)",
}
TEXT = """\
A sine with noise at random sorted times, ten per unit of time (`benchmarks/markov.py`). The figures are the time of the log
evidence, or of the evidence and its gradient over all hyperparameters, including the preparation of the data: the best of
several alternating calls in one process, after a first call. celerite2 approximates the Matérn-3/2 kernel by a damped
oscillation of almost zero frequency, in C++, with gradients through its JAX interface. covary computes it exactly, in compiled
JAX."""


def series(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return sorted times and observations."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, n / 10, n))
    return x, np.sin(x) + 0.1 * rng.standard_normal(n)


# each in a separate process -------------------------------------------------------------------------------------------


def one(n: int, kernel: str, repeats: int, peer: bool) -> dict[str, Any]:
    """Return the time of evidence and gradient by covary and celerite2, and of the first call of covary."""
    from covary import GP, Data, Model, log_evidence, log_evidence_and_grad
    from covary.gram.markov import Markov
    from covary.kernels import parse
    from covary.likelihoods import Gaussian

    x, y = series(n)
    model, data, gram = Model(GP(parse(kernel)), likelihood=Gaussian(NOISE)), Data(x[:, None], y), Markov()
    work: dict[str, Any] = {
        "value": lambda: log_evidence(model, data, gram=gram),
        "slope": lambda: log_evidence_and_grad(model, data, gram=gram),
    }
    out: dict[str, Any] = {"cold": interleaved({"cold": work["slope"]}, 1, warm=0)["cold"]}
    if peer:
        work |= celerite(x, y)
    out |= interleaved(work, repeats, budget=40.0)
    mine = work["value"]()
    return out | ({"gap": abs(mine - work["peer"]()) / abs(mine)} if peer else {})


def celerite(x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return celerite2's evidence (C++), and the evidence with gradient (its JAX interface, which sets JAX to 64 bit)."""
    import celerite2
    import celerite2.jax
    import jax
    import jax.numpy as jnp

    noise, start = np.full(len(x), NOISE), np.array([2.0**0.5, 0.7, NOISE])

    def evidence() -> float:
        gp = celerite2.GaussianProcess(celerite2.terms.Matern32Term(sigma=start[0], rho=start[1]), mean=0.0)
        gp.compute(x, diag=noise)
        return float(gp.log_likelihood(y))

    @jax.jit
    @jax.value_and_grad
    def slope(p: Any) -> Any:
        gp = celerite2.jax.GaussianProcess(celerite2.jax.terms.Matern32Term(sigma=p[0], rho=p[1]), mean=0.0)
        gp.compute(x, diag=p[2] * jnp.ones(len(x)))
        return gp.log_likelihood(y)

    return {"peer": evidence, "peer_slope": lambda: jax.block_until_ready(slope(start))}


# the report -----------------------------------------------------------------------------------------------------------


def _measured(n: int, kernel: str, smoke: bool, peer: bool) -> dict[str, Any]:
    arguments = {"n": n, "kernel": kernel, "repeats": 2 if smoke else 15 if n < 1_000_000 else 5, "peer": peer}
    say(f"n = {n}, {kernel}")
    if smoke:
        return one(**arguments) | {"others": 0.0}
    outcome = fresh("benchmarks.markov:one", **arguments)
    if outcome.failure:
        raise RuntimeError(f"n = {n}, {kernel}: {outcome.failure}")
    return outcome.value | {"others": outcome.others}


def run(smoke: bool = False) -> Report:
    """Measure every size; if ``smoke``, covary alone on few rows."""
    peer = not smoke and importlib.util.find_spec("celerite2") is not None
    rows, bars, notes = [], [], []
    for n in (200,) if smoke else SIZES:
        found = _measured(n, KERNELS["Matern32"], smoke, peer)
        cells = [f"{n:,}", *(figure(1e3 * found[k]) if k in found else "–" for k in ("value", "peer", "slope", "peer_slope"))]
        for mine, theirs in (("value", "peer"), ("slope", "peer_slope")):
            cells.append(figure(found[mine] / found[theirs]) if peer else "–")
        rows.append([*cells, figure(found["cold"]), f"{found['gap']:.0e}" if peer else "–", f"{found['others']:.1f}"])
        if peer and n == JUDGED:
            bars.append(Bar(f"evidence: time of covary / celerite2, n = {n:,}", found["value"] / found["peer"], VALUE))
            bars.append(
                Bar(
                    f"evidence and gradient: time of covary / celerite2 (evidence only), n = {n:,}",
                    found["slope"] / found["peer"],
                    SLOPE,
                )
            )
    if not peer:
        notes.append("celerite2 is not installed: no criterion is evaluated.")
    columns = (
        "n",
        "evidence, ms",
        "celerite2",
        "gradient, ms",
        "celerite2",
        "evidence /",
        "gradient /",
        "first, s",
        "difference",
        "background load",
    )
    notes += [
        "*gradient*: evidence and gradient. *evidence /*, *gradient /*: time of covary divided by that of celerite2.",
        "*first*: covary's first evidence with gradient in a process, including compilation.",
        "*difference*: relative difference of the two evidences (celerite2's kernel is an approximation).",
    ]
    tables = [Table("Matérn-3/2 with noise", columns, rows, notes)]
    rows = []
    for name, kernel in KERNELS.items():
        found = _measured(200 if smoke else JUDGED, kernel, smoke, False)
        rows.append(
            [name, *(figure(1e3 * found[k]) for k in ("value", "slope")), figure(found["cold"]), f"{found['others']:.1f}"]
        )
    columns = ("kernel", "evidence, ms", "with gradient, ms", "first, s", "background load")
    tables.append(Table(f"Other kernels, n = {200 if smoke else JUDGED:,}", columns, rows))
    return Report("Long time series", TEXT, tables, bars)


def main() -> int:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.markov", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder to write the page to; if omitted, the page is only printed")
    parser.add_argument("--smoke", action="store_true", help="run covary alone at n = 200, and write nothing")
    options = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    with Others() as others:
        report = run(smoke=options.smoke)
    print(report.markdown())
    if options.out and not options.smoke:
        write(options.out, "markov", report, others.cores)
    return 0


if __name__ == "__main__":
    sys.exit(main())
