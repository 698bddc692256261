"""``GPRegressor()`` with default settings on large tables: ``python -m benchmarks.automatic --out docs/benchmarks``."""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.class_tables import folder
from benchmarks.measure import Others, fresh, say
from benchmarks.report import Bar, Report, Table, figure, write

TABLES = ("kin40k", "keggundirected", "nycflights13")
METHODS = ("covary", "linear regression", "quantile forest", "scikit-learn's GP, 2,000 rows")
LIMIT, PATIENCE = 1800.0, 400.0  # seconds allowed to covary, and to each other method
TEXT = """\
`GPRegressor(random_state=0).fit(X, y)` with no other argument, compared with a linear regression, a random forest whose
leaves give mean and variance (Meinshausen's quantile forest), and scikit-learn's GP with length-scales per column on 2,000
random rows. The splits are the original one for kin40k (10,000 training rows, 30,000 test rows), the first fold for
keggundirected, and a random tenth for nycflights13. NLPD uses the predictive distribution. *Normal NLPD* uses the normal
distribution with the same mean and variance, which is all that the other methods provide. Columns are standardised for the
other methods. Every fit runs in a separate process; memory is the peak of that process."""


def table(name: str, where: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and test rows of a split."""
    if name == "kin40k":
        held = np.load(where / "gp_splits" / "kin40k.npz")
        X, y, X_new, y_new = (np.asarray(held[k], np.float64) for k in ("X_train", "y_train", "X_test", "y_test"))
        return X, y, X_new, y_new
    if name == "keggundirected":
        held = np.load(where / "uci" / "keggundirected.npz")
        tested = held["fold"] == 0
    else:
        held = np.load(where / "regression" / "nycflights13.npz")
        tested = np.random.default_rng(0).random(len(held["y"])) < 0.1
    X, y = np.asarray(held["X"], np.float64), np.asarray(held["y"], np.float64)
    return X[~tested], y[~tested], X[tested], y[tested]


def gaussian(y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> tuple[float, float]:
    """Return the SMSE and the mean negative log density of a Gaussian."""
    loss = 0.5 * np.log(2 * np.pi * variance) + (y - mean) ** 2 / (2 * variance)
    return float(((y - mean) ** 2).mean() / y.var()), float(loss.mean())


def forest(X: np.ndarray, y: np.ndarray, X_new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of the training targets in the same leaves as a new row."""
    from sklearn.ensemble import RandomForestRegressor

    found = RandomForestRegressor(100, min_samples_leaf=5, n_jobs=2, random_state=0).fit(X, y)
    first, second = np.zeros(len(X_new)), np.zeros(len(X_new))
    for tree in found.estimators_:
        leaf, own = tree.apply(X_new), tree.apply(X)
        size = np.maximum(np.bincount(own, minlength=tree.tree_.node_count), 1)
        first += (np.bincount(own, y, tree.tree_.node_count) / size)[leaf]
        second += (np.bincount(own, y**2, tree.tree_.node_count) / size)[leaf]
    mean = first / len(found.estimators_)
    return mean, np.maximum(second / len(found.estimators_) - mean**2, 1e-6 * y.var())


def one(name: str, method: str, where: str) -> dict[str, Any]:
    """Fit once, and return the time and the scores."""
    X, y, X_new, y_new = table(name, Path(where))
    began = time.perf_counter()
    said = ""
    if method == "covary":
        from covary import GPRegressor

        model: Any = GPRegressor(random_state=0).fit(X, y)
        took = time.perf_counter() - began
        found = model.posterior_.predict(X_new).y
        mean, variance = found.mean, found.variance
        nlpd_own = -float(found.log_prob(y_new).mean())
        scale = model.posterior_.scale
        said = f"{model.method_.name}: {model.method_.why}"
        said += "" if scale is None else f"; error bars vary over the inputs ({scale.gain:.2f} nats per row on held-out rows)"
    else:
        spread = np.where(X.std(0) > 0, X.std(0), 1.0)
        centre = X.mean(0)
        X, X_new = (X - centre) / spread, (X_new - centre) / spread
        if method == "linear regression":
            A = np.column_stack([np.ones(len(X)), X])
            weights = np.linalg.lstsq(A, y, rcond=None)[0]
            mean = np.column_stack([np.ones(len(X_new)), X_new]) @ weights
            variance = np.full(len(mean), float(((y - A @ weights) ** 2).mean()))
        elif method == "quantile forest":
            mean, variance = forest(X, y, X_new)
        else:
            from sklearn.gaussian_process import GaussianProcessRegressor
            from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

            some = np.random.default_rng(0).permutation(len(y))[:2000]
            kernel = ConstantKernel(1.0) * RBF(np.ones(X.shape[1]), (1e-2, 1e4)) + WhiteKernel(0.1, (1e-6, 1e2))
            peer = GaussianProcessRegressor(kernel, normalize_y=True).fit(X[some], y[some])
            mean, std = peer.predict(X_new, return_std=True)
            variance = std**2
        took = time.perf_counter() - began
    smse, nlpd = gaussian(y_new, mean, np.maximum(variance, 1e-300))
    nlpd, by_moments = (nlpd_own, nlpd) if method == "covary" else (nlpd, nlpd)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"seconds": took, "smse": smse, "nlpd": nlpd, "by_moments": by_moments, "peak": peak, "said": said}


def run(smoke: bool = False, data_folder: Path | None = None, tables: tuple[str, ...] = TABLES) -> Report:
    """Run every available table."""
    where, parts, bars = folder(data_folder), [], []
    if smoke:
        return Report("Large tables with default settings", TEXT, [], [])
    for name in tables:
        rows, found = [], {}
        for method in METHODS:
            limit = LIMIT if method == "covary" else PATIENCE
            outcome = fresh("benchmarks.automatic:one", limit=limit, name=name, method=method, where=str(where))
            say(f"{name} {method}: {outcome.failure or outcome.value}")
            if outcome.failure:
                rows.append([method, "", "", "", "", "", outcome.failure])
                continue
            f = found[method] = outcome.value
            peak = f"{f['peak']:.1f}"
            rows.append(
                [
                    method,
                    f"{f['smse']:.4f}",
                    f"{f['nlpd']:.3f}",
                    f"{f['by_moments']:.3f}",
                    figure(f["seconds"]),
                    peak,
                    f"{outcome.others:.1f}",
                ]
            )
        notes = [f"covary chose {found['covary']['said']}."] if "covary" in found else []
        columns = ("method", "SMSE", "NLPD", "normal NLPD", "fit, seconds", "peak, GiB", "background load")
        parts.append(Table(name, columns, rows, notes))
        if "covary" in found:
            mine = found["covary"]
            if name == "kin40k":
                bars.append(Bar("kin40k: SMSE", mine["smse"], 0.02, unit=""))
                bars.append(Bar("kin40k: seconds", mine["seconds"], 600, unit="s"))
            else:
                bars.append(Bar(f"{name}: seconds", mine["seconds"], 900, unit="s"))
                bars.append(Bar(f"{name}: GiB", mine["peak"], 8, unit="GiB"))
                others = [v["nlpd"] for k, v in found.items() if k != "covary"]
                if others:
                    bars.append(Bar(f"{name}: NLPD minus the best of the others", mine["nlpd"] - min(others), 0.0, unit="nats"))
    return Report("Large tables with default settings", TEXT, parts, bars)


def main() -> int:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.automatic", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder to write the page to; if omitted, the page is only printed")
    parser.add_argument("--data", type=Path, help="folder of the tables (default: COVARY_DATA)")
    parser.add_argument("--only", action="append", choices=TABLES, help="only this table (may be repeated)")
    options = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    with Others() as others:
        report = run(False, options.data, tuple(options.only or TABLES))
    print(report.markdown())
    if options.out:
        write(options.out, "automatic", report, others.cores)
    return 0


if __name__ == "__main__":
    sys.exit(main())
