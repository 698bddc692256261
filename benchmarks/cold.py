"""A short job in a fresh process (import, fit 100 rows, predict), and the time of one prediction in a running process."""

from __future__ import annotations

import importlib.util
import tempfile

from benchmarks.measure import fresh, interleaved, process_seconds
from benchmarks.problem import table
from benchmarks.report import Bar, Report, Table

WARM, FIRST = 1.0, 2.5  # seconds above scikit-learn
ONE_ROW = 2.0  # milliseconds
REPEATS = 4

DATA = "import sys, numpy as np; from benchmarks.problem import table; X, y = table(100)"
COVARY = f"{DATA}; from covary import GPRegressor; GPRegressor().fit(X, y).predict(X, return_std=True)"
CACHED = f"{DATA}; from covary import GPRegressor, enable_cache; enable_cache(sys.argv[1])"
CACHED += "; GPRegressor().fit(X, y).predict(X, return_std=True)"
SKLEARN = f"""{DATA}
import warnings; warnings.simplefilter("ignore")
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel()
GaussianProcessRegressor(kernel, normalize_y=True).fit(X, y).predict(X, return_std=True)
"""


def one_row(n: int, repeats: int, cache: str) -> float:
    """Return the best time of a prediction with standard deviation at one row, after a first call."""
    from covary import GPRegressor, enable_cache

    enable_cache(cache)
    X, y = table(n)
    model = GPRegressor().fit(X, y)
    return interleaved({"one": lambda: model.predict(X[:1], return_std=True)}, repeats, warm=5)["one"]


def processes(folder: str, smoke: bool, peers: bool) -> dict[str, float]:
    """Return the best wall time of each kind of fresh process; the one with an empty cache fills it for the next."""
    runs: dict[str, tuple[str, str]] = {
        "python and numpy alone": (DATA, ""),
        "scikit-learn": (SKLEARN, ""),
        "import covary alone": (f"{DATA}; import covary", ""),
        "covary, no cache": (COVARY, ""),
        "covary, empty cache": (CACHED, "cache"),
        "covary, warm cache": (CACHED, "cache"),
    }
    if not peers:
        del runs["scikit-learn"]
    if smoke:
        runs = {name: runs[name] for name in ("covary, empty cache", "covary, warm cache")}
    best = dict.fromkeys(runs, float("inf"))
    for turn in range(1 if smoke else REPEATS):
        for name, (code, cache) in runs.items():
            took = process_seconds(code, f"{folder}/{turn}" if cache else "")
            best[name] = min(best[name], took)
    return best


def run(smoke: bool = False) -> Report:
    """Measure, and compare with scikit-learn."""
    peers = not smoke and importlib.util.find_spec("sklearn") is not None
    with tempfile.TemporaryDirectory() as folder:
        times = processes(folder, smoke, peers)
        single = {}
        for n in (100,) if smoke else (100, 2000):
            outcome = fresh("benchmarks.cold:one_row", limit=300, n=n, repeats=20 if smoke else 300, cache=f"{folder}/0")
            if outcome.failure:
                raise RuntimeError(f"the one-row prediction at n = {n} failed: {outcome.failure}")
            single[n] = 1e3 * outcome.value
    base = times.get("scikit-learn")
    rows = [[name, f"{took:.2f}", "" if base is None else f"{took - base:+.2f}"] for name, took in times.items()]
    notes = [
        f"Wall time of the whole process, from the start of the interpreter to its end. Best of {REPEATS} alternating runs."
    ]
    notes.append("scikit-learn: ConstantKernel * RBF with a length-scale per column + WhiteKernel, normalize_y, no restarts.")
    bars = []
    if base is None:
        notes.append("scikit-learn is omitted in this run.")
    else:
        bars.append(
            Bar("cold process, warm cache: time above scikit-learn", times["covary, warm cache"] - base, WARM, unit="s")
        )
        slowest = max(times["covary, empty cache"], times["covary, no cache"])
        bars.append(Bar("cold process, first run: time above scikit-learn", slowest - base, FIRST, unit="s"))
    if not smoke:
        bars += [Bar(f"one-row predict with std, warm, n = {n}", took, ONE_ROW, unit="ms") for n, took in single.items()]
    tables = [
        Table("Import, fit 100 rows, predict them with std", ("process", "seconds", "− scikit-learn"), rows, notes),
        Table("One row, mean and std, warm", ("training rows", "ms"), [[str(n), f"{t:.2f}"] for n, t in single.items()]),
    ]
    text = "Default `GPRegressor()` (Matérn-5/2 with a length-scale per column, priors, restarts) on 100 rows of 8 columns."
    return Report("Cold processes and small predictions", text, tables, bars)
