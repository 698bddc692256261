"""The comparison of approximations in the book: ``python -m benchmarks.approximations --out docs/benchmarks``.

Rasmussen & Williams (2006), section 8.3.7: hyperparameters are learned once, from a subset. Every method is then conditioned
on all training rows with m support points, and tested. The time of learning, which is the same for all, is not included.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.class_tables import folder
from benchmarks.measure import Others, say
from benchmarks.report import Bar, Report, Table, figure, write

TABLES = {"kin40k": 0.03, "pol": None}
KERNELS = ("SquaredExponential", "Matern52", "Matern32")
SIZES = (256, 512, 1024, 2048)
NEIGHBOURS = {256: 25, 512: 50, 1024: 100, 2048: 200}
LEARNED_FROM = 2000
METHODS = ("subset", "sor", "dtc", "fitc", "vfe", "svgp", "vecchia")
TITLES = {
    "subset": "subset of data",
    "sor": "subset of regressors",
    "dtc": "projected process",
    "fitc": "FITC",
    "vfe": "VFE",
    "svgp": "SVGP",
    "vecchia": "Vecchia",
}
TEXT = """\
The comparison of Rasmussen & Williams (2006), section 8.3.7, on kin40k (10,000 training rows, 30,000 test rows) and pol
(10,000 and 5,000), with the original splits. The kernel and its hyperparameters are learned once, by maximising the evidence
of 2,000 random rows. Each method is then conditioned on all rows with m support points: a subset of m rows, m inducing inputs
at the centres of k-means, or m/10 neighbours. SMSE is the mean squared error divided by the variance of the targets. MSLL is
the mean log loss minus that of a Gaussian with the mean and variance of the training targets. With fixed inducing inputs and
Gaussian noise, the posteriors of SVGP and VFE are equal, so their results must agree. Seconds are the time to condition and
predict."""


def scores(y: np.ndarray, mean: np.ndarray, variance: np.ndarray, train: np.ndarray) -> tuple[float, float]:
    """SMSE and MSLL (R&W, section 2.5)."""
    loss = 0.5 * np.log(2 * np.pi * variance) + (y - mean) ** 2 / (2 * variance)
    trivial = 0.5 * np.log(2 * np.pi * train.var()) + (y - train.mean()) ** 2 / (2 * train.var())
    return float(((y - mean) ** 2).mean() / y.var()), float((loss - trivial).mean())


def handled(name: str, size: int) -> tuple[Any, Any]:
    """Return the gram and the inference of a method."""
    from covary.gram import LowRank, Subset, Vecchia
    from covary.inference import SVGP, Exact

    if name == "subset":
        return Subset(size), Exact()
    if name == "vecchia":
        return Vecchia(NEIGHBOURS.get(size, max(1, size // 10))), Exact()
    if name == "svgp":
        return LowRank(size, select="kmeans"), SVGP()
    return LowRank(size, rule=name, select="kmeans"), Exact()


def one_table(name: str, data_folder: Path, sizes: tuple[int, ...], smoke: bool) -> tuple[list[list[str]], dict[str, Any], str]:
    """Evaluate every method at every size on one table."""
    import covary.kernels as kernels
    from covary import GP, Data, Model, condition, learn
    from covary.likelihoods import Gaussian

    held = np.load(data_folder / "gp_splits" / f"{name}.npz")
    X, y, X_new, y_new = (np.asarray(held[k], np.float64) for k in ("X_train", "y_train", "X_test", "y_test"))
    spread = X.std(0)
    kept = spread > 0
    X, X_new = X[:, kept] / spread[kept], X_new[:, kept] / spread[kept]
    if smoke:
        X, y, X_new, y_new = X[:300], y[:300], X_new[:200], y_new[:200]
    centre, scale = y.mean(), y.std()
    y, y_new = (y - centre) / scale, (y_new - centre) / scale
    rng = np.random.default_rng(0)
    some = np.sort(rng.permutation(len(y))[:LEARNED_FROM])
    began, fits = time.perf_counter(), {}
    for kernel in KERNELS:
        prior = GP(1.0 * getattr(kernels, kernel)(lengthscale=np.full(X.shape[1], 2.0)))
        fits[kernel] = learn(Model(prior, likelihood=Gaussian(0.01)), Data(X[some], y[some]), n_restarts=0)
        say(f"{name} {kernel}: log evidence {fits[kernel].value:.1f}")
    took = time.perf_counter() - began
    chosen = max(fits, key=lambda kernel: fits[kernel].value)
    fit = fits[chosen]
    rows, curves = [], {}
    for method in METHODS:
        for size in sizes:
            gram, inference = handled(method, size)
            began = time.perf_counter()
            post = condition(fit.model, Data(X, y), gram=gram, inference=inference)
            mean, variance = [], []
            for part in range(0, len(X_new), 5000):
                got = post.predict(X_new[part : part + 5000]).y
                mean.append(got.mean)
                variance.append(got.variance)
            seconds = time.perf_counter() - began
            smse, msll = scores(y_new, np.concatenate(mean), np.concatenate(variance), y)
            support = f"k = {NEIGHBOURS.get(size, max(1, size // 10))}" if method == "vecchia" else f"m = {size}"
            rows.append([TITLES[method], support, f"{smse:.4f}", f"{msll:.3f}", figure(seconds)])
            curves[method, size] = (smse, msll, seconds)
            say(f"{name} {method} {size}: SMSE {smse:.4f}, MSLL {msll:.3f}, {seconds:.1f} s")
    noise = float(fit.likelihood.variance)
    others = ", ".join(f"{kernel} {found.value:.1f}" for kernel, found in fits.items())
    learned = f"Learned from {len(some):,} rows in {took:.1f} s; log evidences {others}; {chosen} is used"
    return rows, curves, f"{learned}, with a noise variance of {noise:.2g} of the variance of the targets."


def picture(path: Path, found: dict[str, dict[Any, Any]], sizes: tuple[int, ...]) -> None:
    """Plot SMSE and MSLL against the number of support points, one column per table."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colours = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000"]
    fig, axes = plt.subplots(2, len(found), figsize=(4.6 * len(found), 6.4), sharex=True, squeeze=False)
    for column, (name, curves) in enumerate(found.items()):
        for row, (label, which) in enumerate((("SMSE", 0), ("MSLL", 1))):
            ax = axes[row, column]
            for i, method in enumerate(METHODS):
                values = [curves[method, size][which] for size in sizes]
                style = {"svgp": ":", "dtc": "--"}.get(method, "-")
                ax.plot(sizes, values, style, marker="o", ms=4, color=colours[i], label=TITLES[method])
            ax.set_xscale("log", base=2)
            if which == 0:
                ax.set_yscale("log")
                ax.yaxis.set_major_formatter("{x:g}")
                ax.yaxis.set_minor_formatter(lambda v, _: f"{v:g}" if f"{v:e}"[0] in "25" else "")
                ax.set_title(name)
            else:  # far from its basis functions a subset of regressors is overconfident, and outside the axes
                shown = [curves[m, s][1] for m in METHODS if m != "sor" for s in sizes]
                room = 0.08 * (max(shown) - min(shown))
                ax.set_ylim(min(shown) - room, max(shown) + 3 * room)
                if curves["sor", sizes[0]][1] > max(shown) + 3 * room:
                    ax.text(
                        0.98,
                        0.97,
                        "subset of regressors: outside the axes",
                        ha="right",
                        va="top",
                        size=8,
                        transform=ax.transAxes,
                    )
            ax.set_ylabel(label)
            ax.grid(alpha=0.3)
            ax.spines[["top", "right"]].set_visible(False)
        axes[1, column].set_xticks(sizes, [str(s) for s in sizes])
        axes[1, column].set_xlabel("support points m (Vecchia: m/10 neighbours)")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="lower center", ncols=4, fontsize=9, frameon=False)
    fig.tight_layout(rect=(0, 0.07, 1, 1))
    fig.savefig(path, dpi=130)
    plt.close(fig)


def run(smoke: bool = False, data_folder: Path | None = None, found: dict[str, Any] | None = None) -> Report:
    """Run every available table; the numbers are added to ``found``."""
    data_folder, found = folder(data_folder), {} if found is None else found
    tables, bars = [], []
    sizes = (16, 32) if smoke else SIZES
    for name, limit in TABLES.items():
        if not (data_folder / "gp_splits" / f"{name}.npz").exists():
            say(f"{name} is not in {data_folder} and is omitted")
            continue
        rows, curves, note = one_table(name, data_folder, sizes, smoke)
        found[name] = curves
        columns = ("method", "support", "SMSE", "MSLL", "seconds")
        tables.append(Table(name, columns, rows, [note]))
        if limit is not None and not smoke:
            best = min(curves[m, s][0] for m in ("sor", "dtc", "fitc", "vfe", "svgp") for s in sizes)
            bars.append(Bar(f"{name}: SMSE of the best inducing-point method", best, limit, unit=""))
            bars.append(Bar(f"{name}: SMSE of Vecchia, k = 200", curves["vecchia", 2048][0], 0.022, unit=""))
    return Report("Approximations for many rows", TEXT, tables, bars)


def main() -> int:
    """Measure and write the page with its picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.approximations", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder to write the page to; if omitted, the page is only printed")
    parser.add_argument("--data", type=Path, help="folder of the tables (default: COVARY_DATA)")
    parser.add_argument("--smoke", action="store_true", help="use a few rows only, and write nothing")
    options = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    found: dict[str, Any] = {}
    with Others() as others:
        report = run(options.smoke, options.data, found)
    print(report.markdown())
    if options.out and not options.smoke and found:
        write(options.out, "approximations", report, others.cores)
        picture(options.out / "approximations.png", found, SIZES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
