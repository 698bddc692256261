"""Classes, outliers and counts on real tables: ``python -m benchmarks.classes --out docs/benchmarks [--only NAME,...]``.

Every result is added at once to ``classes.jsonl`` in the ``--out`` folder, so that an interrupted run resumes where it
stopped. The page ``classes.md`` is written from that file at the end. ``--redo`` deletes the results of the chosen experiments
first.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import class_tables as real
from benchmarks.class_methods import EXPERIMENTS, Experiment, number_scores, small
from benchmarks.measure import ROOT, Others, say
from benchmarks.report import Bar, Report, Table, figure, machine, write
from benchmarks.tables import Key, Record, append, forget, read, source

RESULTS = "classes.jsonl"
TEXT = """Published data sets, with targets for the test errors. Every fit uses an estimator, `covary.GPClassifier` or
`covary.GPRegressor`, with its defaults except for `random_state=0` and the settings given in the row. Log probability is the
mean over the test rows, in nats. Information is its gain over the class frequencies, in bits (Rasmussen & Williams 2006,
eq. 3.76). NLPD is minus the mean log density of the test observations. Seconds are the mean time of one fit over the splits,
including compilation in the first. `benchmarks/class_tables.py` describes the sources of the tables, and
`benchmarks/class_methods.py` the methods."""


@dataclass(frozen=True)
class Drawn(Table):
    """A table with a picture below it."""

    image: str = ""

    def markdown(self) -> str:
        """Return the table in Markdown, with its picture."""
        return super().markdown() + (f"\n![{self.title}]({self.image})\n" if self.image else "")


def collect(path: Path, experiments: Mapping[str, Experiment], folder: Path, given: Mapping[str, Path]) -> None:
    """Run the fits that are not in the file yet; omit experiments with missing files, with a message."""
    path.parent.mkdir(parents=True, exist_ok=True)
    held, own = read(path)[0], source()
    others = Others()
    done = 0
    try:
        with others:
            for name, experiment in experiments.items():
                if missing := experiment.missing(folder):
                    say(f"{name} is omitted: {', '.join(missing)} not found; give their folder with --data or COVARY_DATA.")
                    continue
                splits = experiment.splits(given.get(name, folder))
                for k, split in enumerate(splits):
                    for method, make in experiment.methods.items():
                        if held.get((name, k, method), {}).get("status") == "ok":
                            continue
                        record = {"table": name, "split": k, "method": method, "source": own, "date": time.strftime("%Y-%m-%d")}
                        try:
                            record |= {"status": "ok"} | experiment.scores(make, split)
                        except Exception as error:
                            record |= {"status": "failed", "reason": f"{type(error).__name__}: {error}"[:300]}
                        append(path, record)
                        done += 1
                        say(f"{name} {k} {method}: " + told(record))
    finally:
        if done:
            seconds = time.perf_counter() - others.began
            append(path, {"run": time.strftime("%Y-%m-%d"), "seconds": seconds, "others": others.cores, "machine": machine()})


def told(record: Record) -> str:
    """Summarise one result in a line."""
    if record["status"] != "ok":
        return record["reason"]
    shown = f"{record['errors']} errors of {record['test']}" if "errors" in record else f"NLPD {record['nlpd']:.3f}"
    return f"{shown}, {record['fit']:.2f} s"


def mean(records: Sequence[Record], name: str, digits: int) -> str:
    """Return the mean of a figure over the splits, if every split has it."""
    return f"{np.mean([r[name] for r in records]):.{digits}f}" if all(name in r for r in records) else ""


def class_row(records: Sequence[Record]) -> list[str]:
    """Return errors, error rate, log probability and bits."""
    counts = [r["errors"] for r in records]
    rate = 100 * sum(counts) / sum(r["test"] for r in records)
    each = f"{sum(counts)}" if len(counts) == 1 else f"{sum(counts)} ({min(counts)} to {max(counts)})"
    return [each, f"{rate:.1f}", mean(records, "log_prob", 3), mean(records, "bits", 3)]


def number_row(records: Sequence[Record]) -> list[str]:
    """Return NLPD, RMSE and coverage."""
    rows = np.array([r["test"] for r in records])
    nlpd, squared, inside = (np.array([r[f] ** p for r in records]) for f, p in (("nlpd", 1), ("rmse", 2), ("coverage", 1)))
    pooled = [float(np.average(v, weights=rows)) for v in (nlpd, squared, inside)]
    return [f"{pooled[0]:.3f}", figure(np.sqrt(pooled[1])), f"{100 * pooled[2]:.1f}"]


def row(name: str, records: Sequence[Record], bars: Sequence[Bar], numbers: bool) -> list[str]:
    """Return the figures of one method over these splits, with its targets."""
    held = [r for r in records if r["status"] == "ok"]
    failed = len(records) - len(held)
    count = str(len(held)) + (f", {failed} failed" if failed else "")
    asked, met = (", ".join(bar.cells[i] for bar in bars) for i in (2, 3))
    if not held:
        return [name, count, *["–"] * (4 if numbers else 5), asked, met, "–", "–"]
    shown = number_row(held) if numbers else class_row(held)
    took = [figure(np.mean([r[f] for r in held])) for f in ("fit", "predict")]
    return [name, count, *shown, mean(held, "evidence", 2), asked, met, *took]


def outcome(experiment: Experiment, by: Mapping[str, Sequence[Record]]) -> tuple[Table, list[Bar]]:
    """Return the table and the criteria of one experiment."""
    good = {method: [r for r in records if r["status"] == "ok"] for method, records in by.items()}
    good = {method: records for method, records in good.items() if records}
    judged = []
    if experiment.judge:
        try:
            judged = experiment.judge(good)
        except KeyError as error:
            say(f"{experiment.title}: criteria not evaluated, because there is no result of {error}.")
    numbers = experiment.scores is number_scores
    rows = []
    for method, records in by.items():
        rows.append(row(method, records, [bar for name, bar in judged if name == method], numbers))
        if experiment.each:
            rows += [row(f"– split {r['split']}", [r], [], numbers) for r in records]
    scored = ("NLPD", "RMSE", "inside 95 %") if numbers else ("errors", "%", "log prob.", "bits")
    columns = ("method", "splits", *scored, "log evidence", "target", "met", "fit, s", "predict, s")
    return Drawn(experiment.title, columns, rows, experiment.notes, experiment.image), [bar for _, bar in judged]


def bayes_notes() -> list[str]:
    """Describe the best possible result on Neal's classes."""
    rule, drawn = real.BayesRule(), real.simulated(100_000, 0)
    met = 100 * float(np.mean(rule.predict_proba(drawn[:, :4]).argmax(1) != drawn[:, 4]))
    return [
        f"The Bayes error of Neal's generator is {100 * rule.error():.1f} %, by integration over the noise of the inputs, and "
        f"{met:.1f} % of 100,000 simulated cases are misclassified. The row shows the errors of the Bayes rule on the test "
        "rows: "
        "the 600 published rows are easier than a random draw (by three standard deviations), the 1000 current rows of fbm are "
        "not.",
    ]


def summary(latest: Mapping[Key, Record], experiments: Mapping[str, Experiment]) -> Report:
    """Return the page with every experiment that has results."""
    by: dict[str, dict[str, list[Record]]] = {}
    for (name, _, method), r in sorted(latest.items(), key=lambda item: item[0][1]):
        by.setdefault(name, {}).setdefault(method, []).append(r)
    parts, bars = [], []
    for name, experiment in experiments.items():
        if name not in by:
            continue
        ordered = {method: by[name][method] for method in experiment.methods if method in by[name]}
        table, judged = outcome(experiment, ordered)
        if name == "neal":
            table = Drawn(table.title, table.columns, table.rows, [*table.notes, *bayes_notes()])
        parts.append(table)
        bars += judged
    states = {r["source"] for r in latest.values()}
    mixed = f"\nThe results come from {len(states)} versions of the source; `--redo` computes them all with the current one."
    return Report("Classes, outliers and counts", TEXT + (mixed if len(states) > 1 else ""), parts, bars)


def draw_coal(folder: Path, out: Path) -> None:
    """Plot disasters by year, and their estimated rate with its 95 % band."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from scipy.special import ndtri

    from covary import GPRegressor

    years, counts = real.coal_years(folder)
    model = GPRegressor(likelihood="poisson").fit(years[:, None], counts)
    grid = np.linspace(years[0] - 0.5, years[-1] + 0.5, 400)
    rate = model.posterior_.predict(grid[:, None])
    low, high = (np.exp(rate.f.mean + ndtri(p) * rate.f.std) for p in (0.025, 0.975))
    blue, grey = "#0072B2", "#80868B"
    fig, ax = plt.subplots(figsize=(8, 4.2), layout="constrained")
    ax.vlines(years, 0, counts, color=grey, lw=1.2, alpha=0.55, zorder=1)
    ax.plot(years, counts, "o", color=grey, ms=4, mew=0, zorder=3, clip_on=False, label="disasters in a year")
    ax.fill_between(grid, low, high, color=blue, alpha=0.25, lw=0, zorder=2, label="95 % band of the rate")
    ax.plot(grid, rate.y.mean, color=blue, lw=2.2, zorder=4, label="posterior mean of the rate")
    ax.set_xlim(grid[0], grid[-1])
    ax.set_ylim(0, None)
    ax.set_xlabel("year")
    ax.set_ylabel("disasters per year")
    ax.set_title("Coal-mining disasters in Britain: Poisson counts, the log rate a Gaussian process", fontsize=10, loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=9)
    fig.savefig(out / "coal.png", dpi=150)
    plt.close(fig)


def run(smoke: bool = False) -> Report:
    """Run covary alone on synthetic tables; or, because a whole run needs the files, write the page from existing results."""
    if not smoke:
        return summary(read(ROOT / "docs" / "benchmarks" / RESULTS)[0], EXPERIMENTS)
    with tempfile.TemporaryDirectory() as out:
        collect(Path(out) / RESULTS, small(), Path(out), {})
        latest = read(Path(out) / RESULTS)[0]
    for r in latest.values():
        if r["status"] != "ok":
            raise RuntimeError(f"covary's own fit failed on {r['table']}, {r['method']}: {r['reason']}")
    return summary(latest, small())


def main() -> int:
    """Run the missing fits, then write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.classes", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks", help=f"folder of {RESULTS} and the page")
    parser.add_argument("--only", help=f"only these, separated by commas: {', '.join(EXPERIMENTS)}")
    parser.add_argument("--data", type=Path, help="folder of the tables (default: COVARY_DATA, or data)")
    parser.add_argument("--neal-original", type=Path, help="Neal's original file of three classes: 1000 rows, 5 columns")
    parser.add_argument("--redo", action="store_true", help="delete the results of these experiments first")
    parser.add_argument("--report", action="store_true", help="only write the page from existing results")
    parser.add_argument("--smoke", action="store_true", help="run covary alone on synthetic tables, and write nothing")
    options = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if options.smoke:
        print(run(smoke=True).markdown())
        return 0
    names = options.only.split(",") if options.only else list(EXPERIMENTS)
    if wrong := [name for name in names if name not in EXPERIMENTS]:
        parser.error(f"--only {', '.join(wrong)}: is not one of {', '.join(EXPERIMENTS)}")
    given = {}
    if options.neal_original and options.neal_original.exists():
        given["neal_original"] = options.neal_original
    elif "neal_original" in names:
        names.remove("neal_original")
        say("neal_original is omitted: give its file with --neal-original.")
    results, folder = options.out / RESULTS, real.folder(options.data)
    if not options.report:
        chosen = {name: EXPERIMENTS[name] for name in names}
        if options.redo:
            for name in names:
                forget(results, list(EXPERIMENTS[name].methods), [name])
        try:
            collect(results, chosen, folder, given)
        except KeyboardInterrupt:
            say(f"Interrupted. Finished results are in {results}; run the same command again to resume.")
            return 130
        if "coal" in names and not EXPERIMENTS["coal"].missing(folder):
            draw_coal(folder, options.out)
    latest, runs = read(results)
    if not latest:
        say(f"There are no results in {results}.")
        return 1
    seconds = sum(r["seconds"] for r in runs)
    others = sum(r["others"] * r["seconds"] for r in runs) / seconds if seconds else 0.0
    write(options.out, "classes", summary(latest, EXPERIMENTS), others)
    say(f"Written: {options.out / 'classes.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
