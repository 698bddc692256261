"""Nearest neighbours, compared with GPBoost: ``python -m benchmarks.vecchia --out docs/benchmarks [--smoke]``."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measure
from benchmarks.class_tables import folder
from benchmarks.measure import Others, fresh, say
from benchmarks.report import Bar, Report, Table, figure, write

NEIGHBOURS = 20
YARDSTICK = 60  # neighbours of the evidence that compares the parameters of both packages
TRUE = {"lengthscale": 0.1, "variance": 1.0, "noise": 0.05}
FILE = Path("spatial") / "precip_us_jan2010.npz"
TEXT = """\
Vecchia's approximation with 20 neighbours. Both packages use the same Matérn-3/2 model and the same rows, and their defaults
for everything else. *fit* is the time of the whole search in a fresh process, including the ordering, the search for
neighbours and (for covary) compilation. Log evidences use Vecchia's approximation: *as reported* is the value of the package,
with its order and neighbours, and *60 neighbours* is the value of `covary.log_evidence(..., gram=Vecchia(60))` at the
parameters found, which hardly depends on the choice of neighbours and can be compared. Predictions and log probabilities refer
to noisy observations of held-out rows."""


def made_up(n: int, new: int) -> tuple[np.ndarray, ...]:
    """Return random places in the unit square and a noisy Matérn-3/2 field, drawn with 60 neighbours."""
    from scipy import sparse
    from scipy.sparse.linalg import spsolve_triangular

    from covary import GP, Data, Model
    from covary._precision import precision
    from covary.gram.vecchia import Vecchia
    from covary.kernels import Matern32
    from covary.likelihoods import Gaussian

    rng = np.random.default_rng(0)
    X = rng.random((n + new, 2))
    model = Model(GP(TRUE["variance"] * Matern32(lengthscale=TRUE["lengthscale"])), likelihood=Gaussian(variance=TRUE["noise"]))
    data = Data(X, np.zeros(n + new))
    with precision(np.float64):
        factor = Vecchia(min(60, n - 1), seed=1).bind(model.prior.kernels, data.X).factor(model.likelihood.sites(data))
    below, y = sparse.csr_array(sparse.eye_array(n + new) - factor.below), np.empty(n + new)
    y[factor.order] = spsolve_triangular(below, np.sqrt(factor.d) * rng.standard_normal(n + new), unit_diagonal=True)
    return X[:n], y[:n], X[n:], y[n:]


def rain(n: int, new: int) -> tuple[np.ndarray, ...]:
    """Return the square root of daily rain at stations in the United States, January 2010, with degrees and days as inputs."""
    with np.load(folder() / FILE) as held:
        X = np.column_stack([held["lon"], held["lat"], held["day"]]).astype(float)
        y = np.sqrt(held["precip"].astype(float))
    order = np.random.default_rng(0).permutation(len(y))[: n + new]
    X, y = X[order], y[order] - y[order[:n]].mean()
    return X[:n], y[:n], X[n:], y[n:]


SOURCES = {"simulated field": made_up, "rain": rain}


def model_for(X: np.ndarray, y: np.ndarray) -> Any:
    """Return the model at the scales of the data; one length-scale for two columns, one per column for more."""
    from covary import GP, Data, Model
    from covary.kernels import Matern32
    from covary.likelihoods import Gaussian
    from covary.selection.starts import starting_values

    scale = 1.0 if X.shape[1] == 2 else np.ones(X.shape[1])
    return starting_values(Model(GP(1.0 * Matern32(lengthscale=scale)), likelihood=Gaussian(1.0)), Data(X, y))


def at(parameters: Mapping[str, Any], X: np.ndarray, y: np.ndarray) -> Any:
    """The model at given parameters."""
    from covary import GP, Model
    from covary.kernels import Matern32
    from covary.likelihoods import Gaussian

    scale = np.asarray(parameters["lengthscale"])
    kernel = parameters["variance"] * Matern32(lengthscale=float(scale[0]) if X.shape[1] == 2 else scale)
    return Model(GP(kernel), likelihood=Gaussian(parameters["noise"]))


def scores(mean: np.ndarray, variance: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Root mean square error and mean log probability."""
    log_prob = -0.5 * (np.log(2 * np.pi * variance) + (y - mean) ** 2 / variance)
    return {"rmse": float(np.sqrt(((y - mean) ** 2).mean())), "log_prob": float(log_prob.mean())}


def by_covary(source: str, n: int, new: int) -> dict[str, Any]:
    """Return a complete fit and its predictions."""
    from covary import Data, condition, learn
    from covary.gram.vecchia import Vecchia

    X, y, Xs, ys = SOURCES[source](n, new)
    data, model = Data(X, y), model_for(X, y)
    import jax

    jax.clear_caches()  # removes what was compiled to draw the field
    began = time.perf_counter()
    learned = learn(model, data, gram=Vecchia(NEIGHBOURS))
    fit = time.perf_counter() - began
    found = {
        "lengthscale": np.ravel(learned.kernel.kernel.lengthscale).tolist(),
        "variance": float(learned.kernel.variance),
        "noise": float(learned.likelihood.variance),
    }
    began = time.perf_counter()
    seen = condition(at(found, X, y), data, gram=Vecchia(NEIGHBOURS)).predict(Xs).y
    took = time.perf_counter() - began
    more = {"fit": fit, "predict": took, "own": learned.value, "steps": learned.steps, "found": found}
    return more | scores(seen.mean, seen.variance, ys)


def by_gpboost(source: str, n: int, new: int) -> dict[str, Any]:
    """Return a complete fit and its predictions by GPBoost."""
    import gpboost

    X, y, Xs, ys = SOURCES[source](n, new)
    began = time.perf_counter()
    model = gpboost.GPModel(
        gp_coords=X,
        cov_function="matern" if X.shape[1] == 2 else "matern_ard",
        cov_fct_shape=1.5,
        likelihood="gaussian",
        gp_approx="vecchia",
        num_neighbors=NEIGHBOURS,
        seed=0,
    )
    model.fit(y=y, params={"trace": False})
    fit = time.perf_counter() - began
    values = np.ravel(model.get_cov_pars(format_pandas=False))
    found = {"lengthscale": values[2:].tolist(), "variance": float(values[1]), "noise": float(values[0])}
    own = -float(model.get_current_neg_log_likelihood())
    began = time.perf_counter()
    seen = model.predict(gp_coords_pred=Xs, predict_var=True, predict_response=True)
    took = time.perf_counter() - began
    more = {"fit": fit, "predict": took, "own": own, "steps": int(model._get_num_optim_iter()), "found": found}
    return more | scores(np.ravel(seen["mu"]), np.ravel(seen["var"]), ys)


def yardstick(source: str, n: int, new: int, parameters: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return covary's evidence at several parameters, with more neighbours than were used for learning."""
    from covary import Data, log_evidence
    from covary.gram.vecchia import Vecchia

    X, y, _, _ = SOURCES[source](n, new)
    return [log_evidence(at(p, X, y), Data(X, y), gram=Vecchia(YARDSTICK)) for p in parameters]


def evaluations(n: int, columns: int, neighbours: int, repeats: int) -> dict[str, float]:
    """Return the best time of one evidence and of one with its gradient, with fixed neighbours."""
    from covary import GP, Data, Model, log_evidence, log_evidence_and_grad
    from covary.gram.vecchia import Vecchia
    from covary.inference.base import Memory
    from covary.kernels import Matern32
    from covary.likelihoods import Gaussian

    rng = np.random.default_rng(0)
    X = rng.random((n, columns))
    data = Data(X, np.sin(6 * X).sum(1) + 0.1 * rng.standard_normal(n))
    scale = 0.2 if columns == 2 else np.full(columns, 0.5)
    model = Model(GP(1.0 * Matern32(lengthscale=scale)), likelihood=Gaussian(0.01))
    began = time.perf_counter()
    gram, _ = Vecchia(neighbours).prepare(model, data)
    settled = time.perf_counter() - began
    workspace = Memory()
    best = measure.interleaved(
        {
            "value": lambda: log_evidence(model, data, gram=gram),
            "gradient": lambda: log_evidence_and_grad(model, data, gram=gram, workspace=workspace),
        },
        repeats,
    )
    return {"settle": settled} | best


def compared(source: str, n: int, new: int, smoke: bool) -> tuple[Table, list[Bar]]:
    """Return one table of fits and its criteria."""
    results: dict[str, Any] = {}
    for name, function in {"covary": by_covary, "GPBoost": by_gpboost}.items():
        if name == "GPBoost" and (smoke or importlib.util.find_spec("gpboost") is None):
            continue
        outcome = fresh(f"benchmarks.vecchia:{function.__name__}", source=source, n=n, new=new)
        say(f"{source}, {name}: {outcome.value or outcome.failure}")
        if outcome.value is None and name == "covary":
            raise RuntimeError(outcome.failure)
        results[name] = outcome.value or outcome.failure
    done = {name: r for name, r in results.items() if not isinstance(r, str)}
    found = [r["found"] for r in done.values()]
    common = dict(
        zip(done, fresh("benchmarks.vecchia:yardstick", source=source, n=n, new=new, parameters=found).value, strict=True)
    )
    rows = []
    for name, r in results.items():
        if isinstance(r, str):
            rows.append([name, *("" for _ in range(7)), r])
            continue
        p = r["found"]
        shown = f"ℓ {', '.join(f'{v:.3g}' for v in p['lengthscale'])}; σ² {p['variance']:.3g}; noise {p['noise']:.3g}"
        evidences = (f"{r['own']:.1f}", f"{common[name]:.1f}")
        quality = (f"{r['rmse']:.4f}", f"{r['log_prob']:.4f}")
        rows.append([name, f"{r['fit']:.1f}", str(r["steps"]), *evidences, f"{r['predict']:.2f}", *quality, shown])
    heads = (
        "package",
        "fit, s",
        "steps",
        "evidence, as reported",
        "evidence, 60 neighbours",
        "predict, s",
        "RMSE",
        "log prob.",
        "found",
    )
    notes = [] if "GPBoost" in results else ["GPBoost is not installed, or was not requested."]
    bars = []
    if len(done) == 2 and not smoke:
        ratio = done["covary"]["fit"] / done["GPBoost"]["fit"]
        bars.append(Bar(f"time of a fit: covary / GPBoost, {source}, n = {n:,}", ratio, 1.0))
        gain = common["covary"] - common["GPBoost"]
        bars.append(Bar(f"log evidence (60 neighbours): covary minus GPBoost, {source}", gain, -1.0, "nats", least=True))
    return Table(f"{source}, n = {n:,}, {new:,} rows held out", heads, rows, notes), bars


def run(smoke: bool = False) -> Report:
    """Run the simulated field, the rain if its file is available, and one evaluation."""
    n, new = (400, 50) if smoke else (50_000, 5_000)
    tables, bars = [], []
    table, judged = compared("simulated field", n, new, smoke)
    truth = ", ".join(f"{name} {value:g}" for name, value in TRUE.items())
    tables.append(Table(table.title, table.columns, table.rows, [*table.notes, f"True parameters: {truth}."]))
    bars += judged
    if (folder() / FILE).exists() and not smoke:
        table, judged = compared("rain", 48_743, 5_000, smoke)
        tables.append(table)
        bars += judged
    else:
        tables.append(
            Table("rain", ("package", "reason"), [["all", f"{FILE} is not in the folder of COVARY_DATA, or smoke run"]])
        )
    rows = []
    sizes = ((300, 2, 10, None),) if smoke else ((50_000, 2, 20, 1.5), (10_000, 8, 200, 15.0), (10_000, 8, 30, None))
    for rows_, columns, k, limit in sizes:
        outcome = fresh("benchmarks.vecchia:evaluations", n=rows_, columns=columns, neighbours=k, repeats=2 if k > 100 else 5)
        if outcome.value is None:
            raise RuntimeError(outcome.failure)
        best = outcome.value
        rows.append([f"{rows_:,}", str(columns), str(k), *(figure(best[what]) for what in ("settle", "value", "gradient"))])
        if limit is not None:
            bars.append(Bar(f"evidence and gradient, n = {rows_:,}, d = {columns}, k = {k}", best["gradient"], limit, "s"))
    heads = ("rows", "columns", "neighbours", "order and neighbours, s", "evidence, s", "with gradient, s")
    tables.append(
        Table(
            "One evaluation",
            heads,
            rows,
            ["A search keeps the local factors between value and gradient if they fit in memory."],
        )
    )
    return Report("Gaussian processes by nearest neighbours", TEXT, tables, bars)


def main() -> int:
    """Run, print and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vecchia", description=__doc__)
    parser.add_argument("--out", type=Path, help="write vecchia.md into this folder")
    parser.add_argument("--smoke", action="store_true", help="run covary alone at n = 400, and write nothing")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds to wait for a quiet machine before each measurement")
    options = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    measure.patience = options.wait
    with Others() as others:
        report = run(smoke=options.smoke)
    print(report.markdown())
    if options.out and not options.smoke:
        write(options.out, "vecchia", report, others.cores)
    return 0


if __name__ == "__main__":
    sys.exit(main())
