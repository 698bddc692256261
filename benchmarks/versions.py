"""Compare the speed of two versions of covary, one case for each page: ``python -m benchmarks.versions COMMIT [--out DIR]``.

Each version runs in a separate process. Calls of the two versions alternate, so that background load affects both.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import ROOT, Others, say
from benchmarks.problem import co2_model, model, series, table
from benchmarks.report import Bar, Report, Table, figure, write

SLOWER = 1.05
DONE = "seconds: "
Case = Callable[[int], Callable[[], object]]


# the cases: each prepares a call for n rows -----------------------------------------------------------------------------
def evidence(n: int) -> Callable[[], object]:
    """One evidence with its gradient, in a buffer that is reused."""
    import covary.inference.base
    from covary import Data, log_evidence_and_grad

    memory: Any = getattr(covary.inference.base, "Memory", dict)  # a dictionary in version 0.6 and before
    start, data, workspace = model(), Data(*table(n)), memory()
    return lambda: log_evidence_and_grad(start, data, workspace=workspace)


def grams(n: int) -> Callable[[], object]:
    """The matrix of a Matérn kernel with eight length-scales."""
    from covary.kernels import Matern32

    X, kernel = table(n)[0], Matern32(lengthscale=np.ones(8))
    return lambda: kernel.gram(X)


def kernel_costs(n: int) -> Callable[[], object]:
    """The matrix of the CO2 kernel, a sum of four terms."""
    X, kernel = series(n)[0], co2_model().kernel
    return lambda: kernel.gram(X)


def fit(n: int) -> Callable[[], object]:
    """``learn`` with eight length-scales."""
    from covary import Data, learn

    data = Data(*table(n))
    return lambda: learn(model(), data)


def defaults(n: int) -> Callable[[], object]:
    """``GPRegressor`` with its defaults, fit and prediction."""
    from covary import GPRegressor

    X, y = table(n)
    return lambda: GPRegressor(random_state=0).fit(X, y).predict(X, return_std=True)


def one_row(n: int) -> Callable[[], object]:
    """A prediction at one row by a fitted ``GPRegressor``."""
    from covary import GPRegressor

    X, y = table(n)
    fitted = GPRegressor(random_state=0).fit(X, y)
    return lambda: fitted.predict(X[:1], return_std=True)


def classes(n: int) -> Callable[[], object]:
    """``GPClassifier`` on two classes, fit and probabilities."""
    from covary import GPClassifier

    X, y = table(n)
    return lambda: GPClassifier(random_state=0).fit(X, y > 0).predict_proba(X)


def several_classes(n: int) -> Callable[[], object]:
    """``GPClassifier`` on three classes, fit and probabilities."""
    from covary import GPClassifier

    X, y = table(n)
    labels = np.digitize(y, [-0.5, 1.0])
    return lambda: GPClassifier(random_state=0).fit(X, labels).predict_proba(X)


def ep(n: int) -> Callable[[], object]:
    """Expectation propagation with its gradient."""
    from covary import GP, Data, Model, log_evidence_and_grad
    from covary.inference import EP
    from covary.kernels import SquaredExponential
    from covary.likelihoods import Bernoulli

    X, y = table(n)
    start = Model(GP(1.0 * SquaredExponential(lengthscale=np.full(8, 2.0))), likelihood=Bernoulli(link="probit"))
    data = Data(X, np.where(y > 0, 1.0, -1.0))
    return lambda: log_evidence_and_grad(start, data, inference=EP())


def approximations(n: int) -> Callable[[], object]:
    """``learn`` and ``condition`` with 100 inducing inputs."""
    from covary import Data, condition, learn
    from covary.gram import LowRank

    X, y = table(n)
    data = Data(X, y)

    def call() -> object:
        gram = LowRank(X[:100])
        return condition(learn(model(), data, gram=gram), data, gram=gram).predict(X).y

    return call


def markov(n: int) -> Callable[[], object]:
    """One evidence with its gradient of a Matérn process in time."""
    from covary import GP, Data, Model, log_evidence_and_grad
    from covary.gram import Markov
    from covary.kernels import Matern32
    from covary.likelihoods import Gaussian

    data = Data(*series(n))
    start = Model(GP(2.0 * Matern32(lengthscale=0.7)), likelihood=Gaussian(0.1))
    return lambda: log_evidence_and_grad(start, data, gram=Markov())


def svgp(n: int) -> Callable[[], object]:
    """Two hundred steps of stochastic variational inference."""
    from covary import Data, condition
    from covary.gram import LowRank
    from covary.inference import SVGP

    X, y = table(n)
    data = Data(X, y)
    return lambda: condition(model(), data, inference=SVGP(steps=200), gram=LowRank(X[:64]))


def vecchia(n: int) -> Callable[[], object]:
    """``condition`` with fifteen neighbours per row, and predictions."""
    from covary import Data, condition
    from covary.gram.vecchia import Vecchia

    X, y = table(n)
    data = Data(X, y)
    return lambda: condition(model(), data, gram=Vecchia(15)).predict(X).y


def experts(n: int) -> Callable[[], object]:
    """A committee of experts of 500 rows: ``fit`` and predictions."""
    from covary import GPRegressor
    from covary.committee import Committee

    X, y = table(n)
    return lambda: GPRegressor(method=Committee(n // 500), random_state=0).fit(X, y).predict(X, return_std=True)


def automatic(n: int) -> Callable[[], object]:
    """``GPRegressor`` with many rows, for which it chooses the method itself."""
    return defaults(n)


CASES: dict[str, tuple[Case, int, int]] = {  # page, or part of a page: case, rows, calls
    "evidence": (evidence, 2000, 24),
    "grams": (grams, 3000, 40),
    "kernel_costs": (kernel_costs, 2000, 40),
    "fit": (fit, 1000, 5),
    "defaults": (defaults, 400, 6),
    "cold (one row, warm)": (one_row, 400, 200),
    "classes": (classes, 300, 6),
    "classes (three)": (several_classes, 200, 4),
    "classes_speed (EP)": (ep, 500, 8),
    "approximations, low_rank": (approximations, 3000, 4),
    "markov": (markov, 50_000, 30),
    "svgp": (svgp, 4000, 40),
    "vecchia": (vecchia, 4000, 5),
    "experts, committee_tables": (experts, 4000, 3),
    "automatic": (automatic, 3000, 2),
}
COLD = {  # whole processes: page, code, repeats
    "import covary": ("import covary", 9),
    "covary --help": ("import sys; sys.argv = ['covary', '--help']; from covary.cli import main; main()", 5),
    "covary fit --help": ("import sys; sys.argv = ['covary', 'fit', '--help']; from covary.cli import main; main()", 5),
    "cold": (
        "from benchmarks.problem import table; from covary import GPRegressor; X, y = table(200); "
        "GPRegressor().fit(X, y).predict(X, return_std=True)",
        4,
    ),
}


# the two versions -------------------------------------------------------------------------------------------------------
def environment(source: Path) -> dict[str, str]:
    """Return the environment of a process that imports covary from this folder."""
    return {"JAX_PLATFORMS": "cpu"} | dict(os.environ) | {"PYTHONPATH": os.pathsep.join((str(source), str(ROOT)))}


class Version:
    """A process that runs cases with one version of covary on request."""

    def __init__(self, source: Path) -> None:
        self.source = source
        command = [sys.executable, "-m", "benchmarks.versions", "--serve"]
        self.process = subprocess.Popen(
            command, env=environment(source), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def seconds(self, name: str, n: int) -> float:
        """Return the time of the next call of a case; the first request also prepares the case and calls it once, untimed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{n} {name}\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith(DONE):
                return float(line[len(DONE) :])
        raise RuntimeError(f"{name}: the version in {self.source} stopped")

    def cold(self, code: str) -> float:
        """Return the wall time of a fresh process."""
        began = time.perf_counter()
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment(self.source), cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return time.perf_counter() - began

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)


def serve() -> None:
    """Run the cases named on standard input."""
    prepared: dict[str, Callable[[], object]] = {}
    for line in sys.stdin:
        n, name = line.rstrip("\n").split(" ", 1)
        if name not in prepared:
            prepared.clear()
            prepared[name] = CASES[name][0](int(n))
            prepared[name]()
        began = time.perf_counter()
        prepared[name]()
        print(f"{DONE}{time.perf_counter() - began}", flush=True)


def source_of(commit: str, folder: Path) -> Path:
    """Unpack the source of a commit into a folder and return its path."""
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


# the report -------------------------------------------------------------------------------------------------------------
def paired(old: Callable[[], float], new: Callable[[], float], repeats: int) -> tuple[float, float]:
    """Return the best time of each version; they take turns, and each is called first in every other round."""
    best = [float("inf"), float("inf")]
    for turn in range(repeats):
        for which in (0, 1) if turn % 2 else (1, 0):
            best[which] = min(best[which], (old, new)[which]())
    return best[0], best[1]


def compare(before: Path, after: Path, only: str, smoke: bool) -> tuple[list[list[str]], list[Bar]]:
    """Return a table row and a criterion for each case."""
    found: dict[str, tuple[float, float]] = {}
    old, new = Version(before), Version(after)
    try:
        for name, (_, n, repeats) in CASES.items():
            if only in name:
                rows = 200 if smoke else n
                found[f"{name}, n = {rows:,}"] = paired(
                    lambda name=name, rows=rows: old.seconds(name, rows),
                    lambda name=name, rows=rows: new.seconds(name, rows),
                    1 if smoke else repeats,
                )
                say(f"{name}: {found[f'{name}, n = {rows:,}']}")
        for name, (code, repeats) in COLD.items():
            if only in name and not smoke:
                found[name] = paired(lambda code=code: old.cold(code), lambda code=code: new.cold(code), repeats)
                say(f"{name}: {found[name]}")
    finally:
        old.close()
        new.close()
    rows_ = [[name, figure(1e3 * a), figure(1e3 * b), f"{b / a:.3f}"] for name, (a, b) in found.items()]
    return rows_, [Bar(name, b / a, SLOWER) for name, (a, b) in found.items()]


def run(smoke: bool = False, commit: str = "HEAD", only: str = "") -> Report:
    """Compare this version with that of a commit; with ``smoke``, one case with itself."""
    here = ROOT / "src"
    with tempfile.TemporaryDirectory() as folder:
        before = here if smoke else source_of(commit, Path(folder))
        rows, bars = compare(before, here, "grams" if smoke else only, smoke)
    text = (
        f"This version compared with commit `{commit}`: the best time of several calls. The two versions run in separate\n"
        "processes and take turns. A case has the name of the benchmark page on the same subject."
    )
    heads = ("case", "before, ms", "now, ms", "now / before")
    return Report(
        "Comparison with the previous version", text, [Table("Milliseconds and ratios", heads, rows)], () if smoke else bars
    )


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions", description=__doc__)
    parser.add_argument("commit", nargs="?", default="HEAD", help="the version to compare with")
    parser.add_argument("--only", default="", help="only the cases whose names contain this")
    parser.add_argument("--out", type=Path, help="write the page into this folder")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options: Any = parser.parse_args()
    if options.serve:
        return serve()
    with Others() as others:
        report = run(commit=options.commit, only=options.only)
    print(report.markdown())
    if options.out:
        write(options.out, "versions", report, others.cores)
    return None


if __name__ == "__main__":
    main()
