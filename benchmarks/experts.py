"""Four experts on a noise-free product: ``python -m benchmarks.experts --out docs/benchmarks``.

The benchmark of a thesis on distributed Gaussian processes (figure 1.11): f = 4 x1 x2, standard normal inputs, 2,000 training
rows, 1,000 test rows, four experts. It reports 154.12 s for the single process and 5.61 s for the distributed one,
without stating the kernel, the noise or the machine. Here both are run with scikit-learn, in the same run as covary.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measure
from benchmarks.measure import Others, fresh, say
from benchmarks.report import Bar, Report, Table, figure, write

EXPERTS = 4
ROWS, TESTED = 2000, 1000
DIAGONAL, LOW, HIGH = 1e-6, 1e-5, 1e5  # added to the diagonal; bounds of scikit-learn's parameters
NEAR = 0.01  # relative errors below this are counted
CENTRED = 1e-3  # largest median relative error of a histogram that counts as centred at 0
LIMIT = 900.0
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NPROC")  # the last is XLA's
METHODS = {
    "sklearn_exact": "scikit-learn, exact",
    "sklearn_experts": "scikit-learn, 4 experts, algorithm 2",
    "exact": "covary, exact",
    "default": "covary, exact, default kernel and noise",
    "grbcm": "covary, 4 experts, grbcm",
    "rbcm_random": "covary, 4 experts, rbcm, random partition",
    "rbcm": "covary, 4 experts, rbcm, k-means partition",
    "independent": "covary, 4 experts, algorithm 2",
}
TEXT = f"""\
f = 4 x₁ x₂ without noise, standard normal inputs (`numpy.random.RandomState(0)`), {ROWS:,} training rows, {TESTED:,} test rows
and {EXPERTS} experts. This is the benchmark of a thesis that reports 154.12 s for a single process and 5.61 s for a
distributed one, without stating the machine or the kernel. Here both are run with scikit-learn: a squared exponential with one
length-scale and a signal variance, bounds 1e-5 to 1e5, 1e-6 on the diagonal, and L-BFGS from (1, 1). Its four experts have
consecutive rows, are fitted one after another, and are combined by algorithm 2 (the robust committee machine with separate
hyperparameters for each expert), implemented in NumPy. covary uses the same model, and in one row its default kernel and
noise. All methods use one thread. Seconds are the time of fit and prediction with standard deviations. *cold* is the first
call in a fresh process without imports, and *seconds* the best of two more calls (for scikit-learn all calls take equally
long). ε = (y − ŷ)/y is the relative error. It diverges at y = 0, where most targets are, so the table shows medians instead of
means.

The axis of the figure is linear within 1e-6 of 0 and logarithmic beyond, so a wide histogram has two peaks, one for each sign.

![Histograms of relative errors, one for each method](experts.png)"""


def data(rows: int = ROWS, tested: int = TESTED) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training inputs and targets, and test inputs and targets."""
    rng = np.random.RandomState(0)
    X, X_new = rng.randn(rows, 2), rng.randn(tested, 2)
    return X, 4 * X[:, 0] * X[:, 1], X_new, 4 * X_new[:, 0] * X_new[:, 1]


# scikit-learn's -------------------------------------------------------------------------------------------------------
def peer(X: np.ndarray, y: np.ndarray) -> Any:
    """scikit-learn's process, fitted."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    kernel = ConstantKernel(1.0, (LOW, HIGH)) * RBF(1.0, (LOW, HIGH))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the signal variance reaches its bound in every fit
        return GaussianProcessRegressor(kernel, alpha=DIAGONAL).fit(X, y)


def sklearn_exact(X: np.ndarray, y: np.ndarray, X_new: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
    """One process on all rows."""
    found = peer(X, y)
    mean, std = found.predict(X_new, return_std=True)
    return mean, std, str(found.kernel_)


def sklearn_experts(X: np.ndarray, y: np.ndarray, X_new: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
    """Four processes on consecutive rows, one after another, combined by algorithm 2."""
    said = []
    for rows in np.array_split(np.arange(len(y)), EXPERTS):
        found = peer(X[rows], y[rows])
        mean, std = found.predict(X_new, return_std=True)
        prior = found.kernel_.diag(X_new)
        said.append((mean, np.maximum(std**2, 1e-12 * prior), prior))
    mean, variance = algorithm_2(*(np.stack(part) for part in zip(*said, strict=True)))
    return mean, np.sqrt(variance), ""


def algorithm_2(means: np.ndarray, variances: np.ndarray, priors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Algorithm 2 of the thesis, from every expert's mean, variance and prior variance, each of shape (experts, rows)."""
    precision, shift = np.zeros(means.shape[1]), np.zeros(means.shape[1])
    for mean, variance, prior in zip(means, variances, priors, strict=True):
        weight = 0.5 * (np.log(prior) - np.log(variance))
        precision += weight / variance + (1 / len(means) - weight) / prior
        shift += weight * mean / variance
    return shift / precision, 1 / precision


# covary's -------------------------------------------------------------------------------------------------------------
def _fitted(**settings: Any) -> Callable[..., tuple[np.ndarray, np.ndarray, str]]:
    """covary's regressor with the same model and the given method."""

    def call(X: np.ndarray, y: np.ndarray, X_new: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
        from covary import GPRegressor
        from covary.committee import Committee
        from covary.parameters import fixed

        given = dict(settings)
        method = given.pop("committee", None)
        if given.pop("plain", False):
            model = GPRegressor(random_state=0)
        else:
            same = {"noise": fixed(DIAGONAL), "mean": "zero", "priors": None, "n_restarts": 0, "standardise": False}
            how = "exact" if method is None else Committee(EXPERTS, **method)
            model = GPRegressor("1.0*SquaredExponential(lengthscale=1.0)", method=how, random_state=0, **same)
        mean, std = model.fit(X, y).predict(X_new, return_std=True)
        assert model.learned_ is not None
        kernel = re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):.3g}", str(model.model_.kernel))
        return mean, std, f"{kernel}, {model.learned_.steps} evaluations"

    return call


CALLS: dict[str, Callable[..., tuple[np.ndarray, np.ndarray, str]]] = {
    "sklearn_exact": sklearn_exact,
    "sklearn_experts": sklearn_experts,
    "exact": _fitted(),
    "default": _fitted(plain=True),
    "grbcm": _fitted(committee={"rule": "grbcm"}),
    "rbcm_random": _fitted(committee={"rule": "rbcm", "partition": "random"}),
    "rbcm": _fitted(committee={"rule": "rbcm"}),
    "independent": _fitted(committee={"rule": "rbcm", "partition": "arrival", "learning": "independent"}),
}


def one(name: str, rows: int = ROWS, tested: int = TESTED, repeats: int = 2) -> dict[str, Any]:
    """Return the seconds, the errors and all relative errors of one method."""
    from covary.metrics import relative_deviance

    X, y, X_new, y_new = data(rows, tested)
    took = []
    for _ in range(1 + repeats):
        began = time.perf_counter()
        mean, std, said = CALLS[name](X, y, X_new)
        took.append(time.perf_counter() - began)
    off = relative_deviance(y_new, mean)
    return {
        "cold": took[0],
        "seconds": min(took[1:] or took),
        "rmse": float(np.sqrt(((y_new - mean) ** 2).mean())),
        "median": float(np.median(np.abs(off))),
        "middle": float(np.median(off)),
        "near": float((np.abs(off) < NEAR).mean()),
        "inside": float((np.abs(y_new - mean) < 2 * np.sqrt(std**2 + DIAGONAL)).mean()),
        "off": [float(f"{v:.4g}") for v in off],
        "said": said,
    }


# the page -------------------------------------------------------------------------------------------------------------
def picture(path: Path, found: dict[str, dict[str, Any]]) -> None:
    """A histogram of relative errors for each method, on one axis that is linear about 0 and logarithmic beyond."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    knee, edge = 1e-6, 1e-1
    ticks = [-1e-1, -1e-3, -1e-5, 0.0, 1e-5, 1e-3, 1e-1]

    def bent(v: Any) -> Any:
        return np.sign(v) * np.log1p(np.abs(v) / knee)

    bins = np.linspace(-bent(edge), bent(edge), 62)
    names = [name for name in METHODS if name in found]
    fig, axes = plt.subplots((len(names) + 1) // 2, 2, figsize=(8.6, 1.55 * ((len(names) + 1) // 2) + 0.5), sharex=True)
    for ax, name in zip(axes.flat, names, strict=False):
        off = np.array(found[name]["off"])
        shown = np.clip(bent(off), bins[0], bins[-1])
        ax.hist(shown, bins, color="#8A8A8A" if name.startswith("sklearn") else "#0072B2")
        ax.axvline(0, color="#D55E00", lw=1)
        ax.set_title(METHODS[name], fontsize=9, loc="left")
        words = f"median size {found[name]['median']:.1e}"
        ax.text(0.0, 0.93, words, va="top", fontsize=8, color="#555555", transform=ax.transAxes)
        ax.set_yticks([])
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.set_xticks([bent(t) for t in ticks], ["0" if t == 0 else f"{t:.0e}".replace("e-0", "e-") for t in ticks], fontsize=8)
    for ax in axes[-1]:
        ax.set_xlabel("relative error ε = (y − ŷ)/y", fontsize=9)
    fig.tight_layout()
    fig.savefig(path, dpi=130)
    plt.close(fig)


@contextmanager
def on_one_thread() -> Iterator[None]:
    """Processes started inside use one thread, for BLAS and for XLA."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def run(smoke: bool = False, found: dict[str, Any] | None = None, only: tuple[str, ...] = ()) -> Report:
    """Run every method; if ``smoke``, covary alone on 200 rows. The numbers are added to ``found``."""
    found = {} if found is None else found
    notes = []
    for name, title in METHODS.items():
        if only and name not in only:
            continue
        if smoke:
            if name in ("exact", "grbcm", "independent"):
                found[name] = one(name, 200, 50, 0) | {"others": 0.0}
            continue
        with on_one_thread():
            outcome = fresh("benchmarks.experts:one", limit=LIMIT, name=name, repeats=0 if name == "sklearn_exact" else 2)
        if outcome.failure:
            notes.append(f"{title}: {outcome.failure}.")
            continue
        found[name] = outcome.value | {"others": outcome.others}
        say(f"{title}: { ({k: v for k, v in found[name].items() if k != 'off'}) }")
    rows = []
    for name, f in found.items():
        base = found.get("sklearn_exact" if name.startswith("sklearn") else "exact")
        ratio = "–" if base is None else figure(f["rmse"] / base["rmse"])
        cells = [f"{f['rmse']:.1e}", ratio, f"{f['median']:.1e}", f"{f['middle']:+.0e}", f"{100 * f['near']:.1f} %"]
        rows.append([METHODS[name], figure(f["seconds"]), figure(f["cold"]), *cells, f"{f['others']:.1f}"])
    columns = (
        "method",
        "seconds",
        "cold",
        "RMSE",
        "RMSE / exact",
        "median size of ε",
        "median ε",
        "within 0.01",
        "background load",
    )
    notes += [
        "*RMSE / exact* is the ratio to the exact process of the same library.",
        "Partitions by location (k-means) do not suit the robust committee machine here: far from its rows an expert is "
        "overconfident, and the weights do not reflect it. The experts of GRBCM all have rows from the whole domain.",
        *(f"{METHODS[name]}: {f['said']}." for name, f in found.items() if f["said"] and not smoke),
    ]
    bars = [] if smoke else judged(found)
    return Report("Four experts on a noise-free product", TEXT, [Table("Seconds and errors", columns, rows, notes)], bars)


def judged(found: dict[str, dict[str, Any]]) -> list[Bar]:
    """Return the criteria."""
    if not {"sklearn_exact", "sklearn_experts", "exact", "grbcm", "independent"} <= found.keys():
        return []
    peer_, parts, mine = found["sklearn_exact"], found["sklearn_experts"], found["exact"]
    committee, own = found["grbcm"], found["independent"]
    worst = max((f for name, f in found.items() if not name.startswith("sklearn")), key=lambda f: abs(f["middle"]))
    return [
        Bar("time: scikit-learn, 4 experts / covary, exact", parts["seconds"] / mine["seconds"], 1.0, least=True),
        Bar("time: scikit-learn, exact / covary, 4 experts (grbcm)", peer_["seconds"] / committee["seconds"], 20, least=True),
        Bar(
            "time: scikit-learn, exact / covary, 4 experts (grbcm), first call",
            peer_["seconds"] / committee["cold"],
            20,
            least=True,
        ),
        Bar("RMSE: covary, 4 experts (grbcm) / covary, exact", committee["rmse"] / mine["rmse"], 3),
        Bar("RMSE: covary, algorithm 2 / scikit-learn, exact", own["rmse"] / peer_["rmse"], 3),
        Bar("largest absolute median ε of covary's methods", abs(worst["middle"]), CENTRED, unit=""),
    ]


def main() -> int:
    """Measure and write the page with its picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.experts", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder to write the page to; if omitted, the page is only printed")
    parser.add_argument("--smoke", action="store_true", help="run covary alone on 200 rows, and write nothing")
    parser.add_argument(
        "--only", action="append", choices=tuple(METHODS), default=[], help="only this method (may be repeated)"
    )
    parser.add_argument("--wait", type=float, default=0.0, help="seconds to wait for a quiet machine before each measurement")
    options = parser.parse_args()
    measure.patience = options.wait
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    found: dict[str, Any] = {}
    with Others() as others:
        report = run(options.smoke, found, tuple(options.only))
    print(report.markdown())
    if options.out and not options.smoke:
        write(options.out, "experts", report, others.cores)
        picture(options.out / "experts.png", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
