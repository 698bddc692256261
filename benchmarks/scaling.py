"""Committees with several workers, and on five million rows: ``python -m benchmarks.scaling --out docs/benchmarks``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measure
from benchmarks import scaling_runs as runs
from benchmarks.kept import Kept
from benchmarks.measure import Others, fresh, say
from benchmarks.report import Bar, Report, Table, figure, write
from benchmarks.scaling_model import EACH, LARGEST, PER_WORKER, TESTED, Costs, Plan, passed, picture, point, strong, weak
from benchmarks.scaling_runs import COLUMNS, EVALUATIONS, EXPERTS
from covary.committee.settings import NEAREST

ROWS = 5_000_000  # of the table on disk
SIZES = (20_000, 60_000, 200_000)  # rows of the runs with which the model is compared
SMALL = 4000  # rows of a batch on two workers; covary uses larger batches for larger tables
MEMORY = 4.0  # GiB of any process
LONG = 60.0  # seconds that a job must take for its ratios to be meaningful
LIMIT = 7200.0
TEXT = f"""\
Three measurements with `executor=Dask(...)` on the two cores of one machine; the start of the workers is not counted.

**Overhead, and speed-up with a second worker.** The job consists of {EXPERTS} experts of {EACH:,} rows in {COLUMNS} columns,
{EVALUATIONS} evaluations of the sum of their evidences with its gradient, then a prediction of {runs.TESTED:,} rows by the
robust committee machine. It is run as a loop in one process on one thread, by one worker, and by two.

**Many rows.** {ROWS:,} rows with {COLUMNS} inputs and a target, in Parquet files, are fitted and predicted by two workers:
`GPRegressor(method=Committee(experts, partition="kd_tree"), executor=Dask(workers=2)).fit(Parquet(folder), "y")`.

**More workers.** A model of the cluster (`benchmarks/scaling_model.py`) simulates, event by event, how batches of
experts are sent out and results are returned. The costs of an expert, of a task and of a byte are measured here. The model is
compared with real runs, and then applied to a million rows per worker and to a billion rows.

![Weak and strong scaling, simulated](scaling.png)"""


def sound(value: dict[str, Any]) -> dict[str, Any]:
    """Return the value, or raise an error with the reason of the failure."""
    if value["failure"]:
        raise RuntimeError(value["failure"])
    return value


# the three measurements ------------------------------------------------------------------------------------------------
def workers_table(kept: Kept, bars: list[Bar]) -> Table:
    """Run the job as a loop, with one worker and with two."""
    names = {0: "a loop on one thread", 1: "one worker", 2: "two workers"}
    found = {w: sound(kept.of(f"job {w}", "benchmarks.scaling_runs:job", workers=w)) for w in names}
    alike = len({f["said"] for f in found.values()}) == 1
    rows = [
        [name, *(figure(f[key]) for key in ("seconds", "evaluation", "predict")), figure(found[0]["seconds"] / f["seconds"])]
        for name, f in zip(names.values(), found.values(), strict=True)
    ]
    rows = [[*row, f"{f['others']:.1f}"] for row, f in zip(rows, found.values(), strict=True)]
    bars.append(Bar("duration of the job as a loop on one thread", found[0]["seconds"], LONG, unit="s", least=True))
    bars.append(Bar("time: one worker / loop", found[1]["seconds"] / found[0]["seconds"], 1.3))
    bars.append(Bar("time: one worker / two workers", found[1]["seconds"] / found[2]["seconds"], 1.5, least=True))
    notes = [
        "Sums, means and variances agree to the last bit." if alike else "**The three differ in their last bits.**",
        f"The loop used {found[0]['cores']:.2f} cores.",
    ]
    return Table("One job", ("run as", "seconds", "one evaluation", "prediction", "× the loop", "background load"), rows, notes)


def disk_table(kept: Kept, bars: list[Bar], rows: int) -> tuple[Table, dict[str, Any]]:
    """Fit and predict five million rows."""
    if "disk" not in kept.held:
        with tempfile.TemporaryDirectory(prefix="covary-bench-") as folder:
            made = fresh("benchmarks.scaling_runs:generate", limit=LIMIT, folder=folder, rows=rows)
            say(f"generated: {made.failure or made.value}")
            sound(kept.of("disk", "benchmarks.scaling_runs:on_disk", folder=folder))["bytes"] = made.value["bytes"]
            kept.write()
    f = kept.held["disk"]
    lines = [
        [name, figure(took), _rate(f["rows"] / took) if "sample" not in name and "search" not in name else ""]
        for name, took in f["phases"].items()
    ]
    lines.append(["fit, total", figure(f["fit"]), _rate(f["rows"] / f["fit"])])
    asked = {
        "few": f"predict {runs.FEW} rows by the {NEAREST} nearest experts",
        "near": f"predict {TESTED:,} rows by the 32 nearest experts",
    }
    asked["predict"] = f"predict {TESTED:,} rows by all experts"
    lines += [[title, figure(f[name]), ""] for name, title in asked.items()]
    most = max([f["client"], *f["workers"]])
    bars.append(Bar(f"{f['rows']:,} rows: peak memory of the client and of every worker", most, MEMORY, unit="GiB"))
    low, middle, high = f["sizes"]
    notes = [
        f"{f['experts']:,} experts of {low:,} to {high:,} rows (median {middle:,}), and {f['shared']:,} rows that all of "
        f"them share; {f['chunks']} row groups, {f.get('bytes', 0) / 2**20:.0f} MiB on disk.",
        f"Peak memory: client {f['client']:.2f} GiB, workers {' and '.join(f'{w:.2f}' for w in f['workers'])} GiB.",
        _scored("The 32 nearest experts", *f["scores"]["near"]),
        _scored("All experts", *f["scores"]["predict"]),
        f"The search used {' → '.join(f'{n:,.0f}' for n in f['levels'])} rows, {f['steps']} evaluations.",
        f"Other processes used {f['others']:.1f} cores.",
    ]
    return Table(f"{f['rows']:,} rows on disk, two workers", ("phase", "seconds", "rows per second"), lines, notes), f


def _scored(who: str, rmse: float, nlpd: float, inside: float) -> str:
    best = "at best 0.300 and 0.215, since the noise has standard deviation 0.3"
    return f"{who}: RMSE {rmse:.3f}, NLPD {nlpd:.3f} ({best}), {100 * inside:.1f} % of the new rows inside 95 % intervals."


def _rate(value: float) -> str:
    return f"{value:,.0f}"


def measured(kept: Kept, disk: dict[str, Any]) -> Costs:
    """The costs, with those of reading from the table on disk."""
    f = sound(kept.of("costs", "benchmarks.scaling_runs:costs"))
    read = sum(v for k, v in disk["phases"].items() if k.startswith("rows")) * 2 / disk["rows"]
    own: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in f.items() if k not in ("others", "failure", "hidden")
    }
    return Costs(**own, read=read, collect=0.0, file=disk["collect"] / disk["chunks"])


def played(costs: Costs, what: str, real: dict[str, Any], shared: int = 0, extra: float = 0.0) -> float:
    """The model's wall time of a pass with two workers over experts of these sizes."""
    rows = [np.array(g) + shared for g in real["groups"]]
    took = np.array([float(costs.of(what, r).sum()) + extra for r in rows])
    if what == "predict" and not real["seated"]:  # experts that were not kept are conditioned again
        took += [float(costs.of("condition", r).sum()) for r in rows]
    return passed(took, 2, costs.task + (costs.byte * costs.result if what == "predict" else 0.0))


def checked_table(kept: Kept, costs: Costs, disk: dict[str, Any], bars: list[Bar], sizes: tuple[int, ...]) -> Table:
    """Compare the model with measurements."""
    lines, off = [], []
    titles = {
        "evidence": "all evidences and gradients",
        "condition": "every expert conditions",
        "predict": f"predict {TESTED:,} rows",
    }

    def line(rows: int, title: str, said: float, took: float, others: float) -> None:
        lines.append([f"{rows:,}", title, figure(said), figure(took), f"{said / took:.2f}", f"{others:.1f}"])
        off.append(max(said / took, took / said))

    first = []
    for n in sizes:
        real = sound(kept.of(f"passes {n}", "benchmarks.scaling_runs:passes", rows=n))
        for what, title in titles.items():
            line(n, title, played(costs, what, real), real[what], real["others"])
        first.append(f"{real['first']:.2f} s for {n:,} rows")
    phase = disk["phases"]["every expert reads its rows and conditions"]
    said = played(costs, "condition", disk, disk["shared"], disk["collect"])
    line(disk["rows"], "every expert reads its rows and conditions", said, phase, disk["others"])
    line(
        disk["rows"],
        titles["predict"],
        played(costs, "predict", disk, disk["shared"]),
        disk["predict"],
        disk["others"],
    )
    bars.append(Bar("largest ratio between simulated and measured wall time", max(off), 1.25))
    columns = ("rows", "pass", "simulated, s", "measured, s", "ratio", "background load")
    notes = [
        f"Rows in memory: the best of {runs.TURNS} runs. The first time, when workers take the memory for their experts from "
        f"the system, conditioning took {', '.join(first)}; the model does not include this. Runs on disk were done once.",
    ]
    return Table("The model compared with real runs, two workers", columns, lines, notes)


def simulated_tables(costs: Costs, learning: float) -> list[Table]:
    """Return the costs, and weak and strong scaling."""
    each = [
        [f"{n:,}", *(f"{1e3 * getattr(costs, what)[i]:.1f}" for what in ("evidence", "condition", "predict"))]
        for i, n in enumerate(costs.rows)
    ]
    told = [
        f"A task costs the client and the scheduler {1e3 * costs.task:.2f} ms, and a byte of a result "
        f"{1e9 * costs.byte:.1f} ns. The result of a batch is {costs.result / 1000:.0f} kB for a prediction of {TESTED:,} "
        f"rows. Checking, reading, encoding and sorting a row takes {1e6 * costs.read:.1f} µs; opening a file of sorted "
        f"rows takes {1e6 * costs.file:.0f} µs.",
    ]
    first = Table(
        "Costs of one expert, milliseconds, both cores at work",
        ("rows", "evidence and gradient", "condition", f"predict {TESTED:,} rows"),
        each,
        told,
    )
    rows = []
    for what, points in (("weak", weak), ("strong", strong)):
        for own, small in zip(points(costs, learning), points(costs, learning, SMALL), strict=True):
            if what == "weak" and small["workers"] not in (1, 8, 64, 256, 1024):
                continue
            if what == "strong" and small["workers"] not in (16, 64, 256, 1024, 4096):
                continue
            hours = [figure(p[k] / 60) for p in (own, small) for k in ("fit", "predict")]
            rows.append([what, f"{small['workers']:,}", f"{small['rows']:,}", *hours, f"{small['held']:.2f}"])
    full = point(costs, learning, LARGEST, 256)
    notes = [
        f"Simulated with these costs. Weak: {PER_WORKER:,} rows per worker; strong: {LARGEST:,} rows. Experts of "
        f"{EACH:,} rows that share {EACH:,} more (grbcm), row groups of a million rows; for a prediction every expert is "
        f"used (`nearest=None`) and conditioned again. The search itself ({learning:.0f} s here) uses at most 60,000 rows for "
        f"any n; with learning='full' one evaluation on all of a billion rows takes {full['evaluate'] / 60:.1f} min on 256 "
        "workers.",
        f"The client distributes {1 / costs.task:,.0f} batches of experts per second, which limits the speed-up. Therefore "
        f"the number of rows in a batch grows with the table, from {SMALL:,} up to 64,000; two columns show the times "
        "without this.",
        "The model does not include disks and networks that many workers share, or workers of different speed.",
    ]
    columns = (
        "scaling",
        "workers",
        "rows",
        "fit, min",
        "predict, min",
        "fit, small batches",
        "predict, small batches",
        "rows in memory, GiB",
    )
    return [first, Table("Simulated: minutes by number of workers", columns, rows, notes)]


def run(smoke: bool = False, kept: Path | None = None, found: dict[str, Any] | None = None, rows: int = ROWS) -> Report:
    """Run all measurements; if ``smoke``, the job as a loop and the model with synthetic costs."""
    title = "Committees on several workers"
    if smoke:
        f = runs.job(0, 2, 1, 20)
        made = Costs((500, 1000), (0.02, 0.1), (0.01, 0.05), (0.02, 0.1), 0.002, 1e-9, 56_000, 1e-6, 0.0, 1e-5)
        plan = Plan(made, 1_000_000, 4)
        lines = [["a loop", figure(f["seconds"])], ["simulated, a million rows", figure(plan.condition())]]
        return Report(title, TEXT, [Table("In little", ("what", "seconds"), lines)])
    held, bars = Kept(kept, LIMIT), list[Bar]()
    first = workers_table(held, bars)
    second, disk = disk_table(held, bars, rows)
    costs = measured(held, disk)
    third = checked_table(held, costs, disk, bars, SIZES)
    learning = sum(v for k, v in disk["phases"].items() if k.startswith("search"))
    if found is not None:
        found.update(costs=costs, learning=learning)
    return Report(title, TEXT, [first, second, third, *simulated_tables(costs, learning)], bars)


def main() -> int:
    """Measure and write the page with its picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder to write the page to; if omitted, the page is only printed")
    parser.add_argument("--smoke", action="store_true", help="run a small loop, and write nothing")
    parser.add_argument("--rows", type=int, default=ROWS, help="of the table on disk")
    parser.add_argument("--kept", type=Path, help="file for finished parts, from which an interrupted run resumes")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds to wait for a quiet machine before each measurement")
    options = parser.parse_args()
    measure.patience = options.wait
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    found: dict[str, Any] = {}
    with Others() as others:
        report = run(options.smoke, options.kept, found, options.rows)
    print(report.markdown())
    if options.out and not options.smoke:
        write(options.out, "scaling", report, others.cores)
        picture(options.out / "scaling.png", found["costs"], found["learning"], SMALL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
