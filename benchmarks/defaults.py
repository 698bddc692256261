"""covary's defaults compared with other libraries: ``python -m benchmarks.defaults [--splits K] [--jobs 2] [--report]``.

Every result is added at once to ``defaults.jsonl`` in the ``--out`` folder, so that an interrupted run resumes where it
stopped, and splits, tables and methods can be added later. The page ``defaults.md`` is written from that file at the end.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks import tables as real
from benchmarks.default_peers import METHODS, THREADS, Worker
from benchmarks.measure import ROOT, Others, say
from benchmarks.report import Bar, Report, Table, figure, machine, write
from benchmarks.tables import Key, Record, Tabled, append, gap, judge, read, tally

LIMIT = 300.0  # seconds allowed to one fit and its predictions
WON, FASTER = 80.0, 3.0  # per cent of tables won or tied against each library, and the ratio of seconds
COVERAGE = (92.0, 98.0)  # per cent of the test rows inside the 95 % intervals
TEXT = f"""\
Every library is run with its defaults on the same rows in their original units. NLPD is minus
the mean log density of the test rows under the Gaussian predictions, in the units of y: smaller is better. Each fit runs in
a process that has already imported its library; compilation is included in its time. Tables and splits are public:
uci/ from treforevans/uci_datasets, uci_hl/ from Hernández-Lobato & Adams (2015). Tables of more than
{real.LARGEST} rows (among them uci_hl/protein) are excluded, and so are {", ".join(real.LEFT_OUT)},
which have defects described in `benchmarks/tables.py`."""
FIGURES = ("rmse", "nlpd", "coverage", "width", "fit", "predict")
PEERS = tuple(key for key in METHODS if key != "covary")


class Runs:
    """Fits that several threads run one after another, each with the worker of its method; records are written at once."""

    def __init__(self, path: Path, tables: dict[str, Tabled], todo: list[Key], methods: Sequence[str], limit: float) -> None:
        self.path, self.tables, self.todo, self.limit, self.total = path, tables, todo, limit, len(todo)
        self.workers, self.busy = {key: Worker(key) for key in methods}, set[str]()
        self.own, self.versions = real.source(), versions_of(methods)
        self.turn = threading.Condition()

    def take(self) -> Key | None:
        """Return the first task whose worker is free; None at the end."""
        with self.turn:
            while self.todo:
                for task in self.todo:
                    if task[2] not in self.busy:
                        self.todo.remove(task)
                        self.busy.add(task[2])
                        return task
                self.turn.wait()
        return None

    def lane(self, core: int | None) -> None:
        """Run tasks on one core until none are left."""
        while (task := self.take()) is not None:
            name, k, key = task
            X, y, X_new, y_new = self.tables[name].split(k)
            sizes = {"n": len(self.tables[name].y), "d": X.shape[1], "test": len(y_new)}
            source = self.own if key == "covary" else ""
            state = {"version": self.versions[key], "source": source, "date": time.strftime("%Y-%m-%d")}
            state["threads"] = os.environ.get(THREADS[0], "all")
            record = {"table": name, "split": k, "method": key} | sizes | state
            record |= self.workers[key].run(core, self.limit, X, y, X_new, y_new)
            with self.turn:
                if key not in self.busy:  # the run was stopped meanwhile
                    return
                append(self.path, record)
                self.busy.discard(key)
                self.turn.notify_all()
                told = f"NLPD {record['nlpd']:.3f}, {record['fit']:.1f} s" if record["status"] == "ok" else record["reason"]
                done = self.total - len(self.todo) - len(self.busy)
                say(f"[{done}/{self.total}] {name} {k} {METHODS[key].name}: {told}")

    def stop(self) -> None:
        """Start no further task, and end running tasks without a record."""
        with self.turn:
            self.todo.clear()
            for key in self.busy:
                self.workers[key].kill()
            self.busy.clear()
            self.turn.notify_all()

    def run(self, jobs: int) -> None:
        """Run all tasks, ``jobs`` at a time."""
        cores = sorted(os.sched_getaffinity(0)) if jobs > 1 and hasattr(os, "sched_getaffinity") else [None]
        try:
            with ThreadPoolExecutor(jobs) as pool:
                lanes = [pool.submit(self.lane, cores[i % len(cores)]) for i in range(jobs)]
                try:
                    for done in lanes:
                        done.result()
                finally:
                    self.stop()
        finally:  # only after the threads have ended
            for worker in self.workers.values():
                worker.stop()


def versions_of(methods: Sequence[str]) -> dict[str, str]:
    """Return the version of every method."""
    return {key: METHODS[key].version for key in methods}


def collect(
    path: Path,
    names: Iterable[str],
    methods: Sequence[str],
    get: Callable[[str], Tabled],
    splits: int | None,
    jobs: int,
    limit: float,
) -> None:
    """Run the fits that are not in the file yet: the first split of every table, then the second, ...; ``jobs`` at a time."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if jobs > 1:
        os.environ.update(dict.fromkeys(THREADS, "1"))
    path.parent.mkdir(parents=True, exist_ok=True)
    held, tables, versions = read(path)[0], {name: get(name) for name in names}, versions_of(methods)

    def wanted(key: Key) -> bool:
        r = held.get(key)
        return r is None or r["version"] != versions[key[2]] or (r["status"] == "stopped" and r["fit"] < limit)

    every = [(name, k) for name, t in tables.items() for k in range(len(t.tests)) if splits is None or k < splits]
    todo = [(name, k, m) for name, k in sorted(every, key=lambda pair: pair[1]) for m in methods if wanted((name, k, m))]
    total, others = len(todo), Others()
    say(f"{total} fits to do in {path}")
    try:
        with others:
            Runs(path, tables, todo, methods, limit).run(jobs)
    finally:
        if total:
            seconds = time.perf_counter() - others.began
            append(path, {"run": time.strftime("%Y-%m-%d"), "seconds": seconds, "others": others.cores, "machine": machine()})


def per_table(name: str, own: dict[str, dict[int, Record]], verdicts: dict[str, tuple]) -> Table:
    """Return the figures of one table: the mean over the splits, for each method."""
    rows = []
    for key in (key for key in METHODS if key in own):
        records = list(own[key].values())
        good = [r for r in records if r["status"] == "ok"]
        bad = [f"{count} {s}" for s in ("failed", "stopped") if (count := sum(r["status"] == s for r in records))]
        means = {f: float(np.mean([r[f] for r in good])) for f in FIGURES if good}
        cells = [figure(means["rmse"]), f"{means['nlpd']:.3f}", f"{100 * means['coverage']:.1f}"] if good else ["–"] * 3
        cells += [figure(means["width"]), figure(means["fit"]), f"{1e3 * means['predict']:.1f}"] if good else ["–"] * 3
        verdict = gap(verdicts[key]) if key in verdicts else ""
        rows.append([METHODS[key].name, ", ".join([str(len(good)), *bad]), *cells, verdict])
    first = next(r for records in own.values() for r in records.values())
    columns = ("method", "splits", "RMSE", "NLPD", "inside 95 %", "width", "fit, s", "predict, ms", "covary − method, NLPD")
    return Table(f"{name}: n = {first['n']}, d = {first['d']}", columns, rows)


def summary(latest: dict[Key, Record]) -> Report:
    """Return the page: wins and losses, times, and every table."""
    by: dict[str, dict[str, dict[int, Record]]] = {}
    for (name, k, key), r in latest.items():
        by.setdefault(name, {}).setdefault(key, {})[k] = r
    names = sorted(by, key=lambda name: (min(r["n"] for part in by[name].values() for r in part.values()), name))
    peers = [key for key in PEERS if any(key in by[name] for name in names)]
    verdicts = {n: {p: judge(by[n].get("covary", {}), by[n][p]) for p in peers if p in by[n]} for n in names}
    judged = [[v for v in found.values() if v[0] != "not compared"] for found in verdicts.values()]
    hardest = [max(found, key=lambda v: (v[0] == "loss (failed)", v[1] if v[3] else -np.inf)) for found in judged if found]
    short, over, methods, bars = [], [], [], []
    for p in peers:
        words = [verdicts[n][p][0] for n in names if p in verdicts[n]]
        pairs = [(latest[n, k, "covary"], r) for n in names for k, r in by[n].get(p, {}).items() if (n, k, "covary") in latest]
        took = np.array([(a["fit"], b["fit"]) for a, b in pairs if a["status"] == b["status"] == "ok"]).reshape(-1, 2)
        ratios = [took[:, 1].sum() / took[:, 0].sum(), np.median(took[:, 1] / took[:, 0])] if len(took) else []
        decided = [w for w in words if w != "not compared"]
        if decided:
            kept = 100 * sum(not w.startswith("loss") for w in decided) / len(decided)
            bars.append(Bar(f"tables won or tied on NLPD against {METHODS[p].name}", kept, WON, "%", least=True))
        if ratios:
            bars.append(Bar(f"total time of fits: {METHODS[p].name} / covary", float(ratios[0]), FASTER, least=True))
        short.append([METHODS[p].name, *tally(words), *(map(figure, ratios) if ratios else ["–"] * 2)])
    short.append(["the best other library of each table", *tally([v[0] for v in hardest]), "", ""])
    for n in names:
        splits = max(len(part) for part in by[n].values())
        over.append([n, str(splits), *(gap(verdicts[n][p]) if p in verdicts[n] else "" for p in peers)])
    inside = {}
    for key in (key for key in METHODS if key == "covary" or key in peers):
        mine = [r for (_, _, method), r in latest.items() if method == key]
        good = [r for r in mine if r["status"] == "ok"]
        rows = sum(r["test"] for r in good)
        inside[key] = 100 * sum(r["coverage"] * r["test"] for r in good) / rows if rows else float("nan")
        count = [str(sum(r["status"] == s for r in mine)) for s in ("ok", "failed", "stopped")]
        seconds = [figure(sum(r[f] for r in good)) for f in ("fit", "predict")]
        versions = ", ".join(sorted({r["version"] for r in mine}))
        methods.append([METHODS[key].name, versions, *count, f"{inside[key]:.1f}", *seconds])
    what = "test rows inside covary's 95 % intervals"
    bars += [Bar(what, inside["covary"], COVERAGE[0], "%", least=True), Bar(what, inside["covary"], COVERAGE[1], "%")]
    parts = [*heads(short, over, methods, peers), *(per_table(n, by[n], verdicts[n]) for n in names)]
    states = {r["source"] for r in latest.values() if r["source"]}
    mixed = f"\ncovary's results come from {len(states)} versions of its source; `--redo covary` runs them again."
    return Report("Defaults on real tables", TEXT + (mixed if len(states) > 1 else ""), parts, bars)


def heads(short: list, over: list, methods: list, peers: list[str]) -> list[Table]:
    """Return the summary tables."""
    tallied = ("covary against", "tables", "wins", "ties", "losses", "not compared", "by failure", "wins or ties")
    notes = [
        "The mean difference of NLPD over the common splits is compared with its standard error; if it is not larger, the "
        "result is a tie. Splits share most of their rows, so the standard error is an underestimate. With one split (± ?) "
        "the sign decides.",
        "A failed fit counts as a loss: the library with more failures loses the table (by failure). Splits on which "
        "another library exceeded the time limit are excluded; for covary, exceeding the limit would count as a failure.",
        "The best other library of a table is the one with the lowest NLPD on the splits it shares with covary. It is "
        "chosen afterwards.",
        "Seconds: the time of the other library divided by that of covary, for fits that both finished. Fits of other "
        "libraries that were stopped, which are the longest, are not included.",
    ]
    fitted = ("method", "version", "fits", "failed", "stopped", "inside 95 %", "fit, s, total", "predict, s, total")
    return [
        Table("Overview", (*tallied, "seconds, total", "seconds, median"), short, notes),
        Table(
            "NLPD, covary − other library",
            ("table", "splits", *(METHODS[p].name for p in peers)),
            over,
            ["Negative values: covary is better."],
        ),
        Table("The methods", fitted, methods, [f"{METHODS[key].name}: {METHODS[key].note}." for key in ("covary", *peers)]),
    ]


def run(smoke: bool = False) -> Report:
    """Run covary alone on a synthetic table; or, because a whole run takes hours, write the page from existing results."""
    if not smoke:
        return summary(read(ROOT / "docs" / "benchmarks" / real.RESULTS)[0])
    with tempfile.TemporaryDirectory() as out:
        collect(Path(out) / real.RESULTS, ["synthetic"], ["covary"], lambda _: real.synthetic(), None, 1, LIMIT)
        latest = read(Path(out) / real.RESULTS)[0]
    for r in latest.values():
        if r["status"] != "ok":
            raise RuntimeError(f"covary's own fit failed: {r['reason']}")
    return summary(latest)


def chosen(parser: argparse.ArgumentParser, text: str | None, known: Iterable[str], what: str) -> list[str]:
    """Return the requested names, separated by commas; the folder of a table may be omitted."""
    known = list(known)
    if text is None:
        return known
    found = [name for part in text.split(",") for name in known if part in (name, name.split("/")[-1])]
    if missing := [part for part in text.split(",") if part not in {n for name in known for n in (name, name.split("/")[-1])}]:
        parser.error(f"{what} {', '.join(missing)}: not one of {', '.join(known)}")
    return list(dict.fromkeys(found))


def main() -> int:
    """Run the missing fits, then write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.defaults", description=__doc__)
    parser.add_argument("--tables", help="only these, separated by commas (uci/yacht, or yacht for all of that name)")
    parser.add_argument("--methods", help=f"only these, separated by commas: {', '.join(METHODS)}")
    parser.add_argument("--splits", type=int, metavar="K", help="only the first K splits of each table")
    parser.add_argument("--jobs", type=int, choices=(1, 2), default=1, help="2: two fits at a time, each on its own core")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds after which a fit is stopped")
    parser.add_argument("--redo", metavar="METHODS", help="delete the results of these methods on these tables first")
    parser.add_argument("--data", type=Path, help="folder of the tables (default: COVARY_DATA, or data)")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "docs" / "benchmarks", help=f"the folder of {real.RESULTS} and the page"
    )
    parser.add_argument("--report", action="store_true", help="only write the page from existing results")
    parser.add_argument(
        "--smoke", action="store_true", help="run covary alone on a synthetic table of 200 rows, and write nothing"
    )
    options = parser.parse_args()
    if options.smoke:
        print(run(smoke=True).markdown())
        return 0
    results = options.out / real.RESULTS
    if not options.report:
        data = real.folder(options.data)
        if data is None:
            say("The tables were not found; give their folder with --data or COVARY_DATA (see benchmarks/tables.py).")
            return 1
        rows, left = real.find(data)
        names = chosen(parser, options.tables, rows, "--tables")
        methods = chosen(parser, options.methods, METHODS, "--methods")
        redo = chosen(parser, options.redo, METHODS, "--redo") if options.redo else []
        for name, reason in left.items() if options.tables is None else ():
            say(f"{name} is omitted: {reason}.")
        for key in methods:
            if not METHODS[key].present:
                say(f"{METHODS[key].name} is not installed and is omitted.")
        methods = [key for key in methods if METHODS[key].present]
        real.forget(results, redo, names)
        try:
            collect(results, names, methods, lambda name: real.load(data, name), options.splits, options.jobs, options.limit)
        except KeyboardInterrupt:
            say(f"Interrupted. Finished results are in {results}; run the same command again to resume.")
            return 130
    latest, runs = read(results)
    if not latest:
        say(f"There are no results in {results}.")
        return 1
    seconds = sum(r["seconds"] for r in runs)
    write(options.out, "defaults", summary(latest), sum(r["others"] * r["seconds"] for r in runs) / seconds if seconds else 0.0)
    say(f"Written: {options.out / 'defaults.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
