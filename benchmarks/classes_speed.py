"""Time of classification compared with other libraries: ``python -m benchmarks.classes_speed --out docs/benchmarks``."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.class_tables import folder
from benchmarks.measure import Others, fresh, interleaved, say
from benchmarks.report import Bar, Report, Table, figure, write

COLUMNS = 5
DRAWN = "drawn"
PIMA = "pima768"
SIZES = (500, 1000)
PIMA_SIZES = (500, 768)
CLASSES = 6
FASTER, EP_FASTER, BELOW = 8.0, 2.0, 0.05
SETTLED = 0.01  # nats: GPy's rounds of EP and search end when the evidence gains less
ROUNDS = 12
LIMIT = 900.0  # seconds allowed to one fit of one peer
TEXT = """\
The inputs are standard normal, and the labels are drawn from a smooth function of them by the logistic function
(`benchmarks/classes_speed.py`); in the cases named Pima they are the eight measured columns of the Pima table. Every library
learns the same model: a variance times a squared exponential with one length-scale for all columns or one per column, zero
mean, no priors, starting from ones. Each runs in a separate process; import and data are not counted. *covary, cold* is the
first fit of a process, including compilation, and *covary, warm* the best of five more. Other libraries are run twice if the
first fit takes less than a minute, and the better time counts. *Evidence* is covary's approximation (Laplace or EP) at the
final hyperparameters of each library, so that the values can be compared."""


def table(n: int, of: str = DRAWN) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels 0 and 1: five drawn columns, or the first rows of a measured table with standardised columns."""
    if of != DRAWN:
        whole = pd.read_csv(folder() / "classification" / f"{of}.csv.gz")[:n]
        X, y = whole.iloc[:, :-1].to_numpy(np.float64), pd.factorize(whole.iloc[:, -1], sort=True)[0]
        return (X - X.mean(0)) / X.std(0), y
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, COLUMNS))
    latent = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 2 - 0.5 + X[:, 2] * X[:, 3] + X[:, 4] / 2
    return X, (rng.uniform(size=n) < 1 / (1 + np.exp(-3 * latent))).astype(int)


def many(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (n, 4) and labels of six classes, drawn by the softmax of six smooth functions."""
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(99).standard_normal((4, CLASSES))
    weights *= 1.2 / np.linalg.norm(weights, axis=0)
    X = rng.standard_normal((n, 4))
    return X, (5 * np.sin(X @ weights) + rng.gumbel(size=(n, CLASSES))).argmax(1)


def kernel(columns: int, ard: bool, variance: float = 1.0, lengthscale: Any = 1.0) -> Any:
    """covary's kernel."""
    from covary.kernels import SquaredExponential

    return variance * SquaredExponential(lengthscale=np.broadcast_to(lengthscale, columns).copy() if ard else lengthscale)


def sklearn_kernel(columns: int, ard: bool) -> Any:
    """scikit-learn's."""
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    return ConstantKernel(1.0, (1e-5, 1e5)) * RBF(np.ones(columns) if ard else 1.0, (1e-5, 1e5))


def _flat(value: Any) -> list[float]:
    return np.asarray(value, np.float64).reshape(-1).tolist()


def _again(fit: Callable[[], Any], least: float = 60.0) -> tuple[float, Any]:
    """Return the better of two times if the first is short."""
    times = []
    for _ in range(2):
        began = time.perf_counter()
        found = fit()
        times.append(time.perf_counter() - began)
        if times[0] > least:
            break
    return min(times), found


# each in a separate process -------------------------------------------------------------------------------------------


def own(n: int, ard: bool, inference: str, link: str, warm: int = 5, of: str = DRAWN) -> dict[str, Any]:
    """Fit with covary: the first fit, and the best of a few more."""
    from covary import GPClassifier

    X, y = table(n, of)
    times = []
    for _ in range(1 + warm):
        began = time.perf_counter()
        model = GPClassifier(kernel(X.shape[1], ard), inference=inference, link=link, priors=None, random_state=0).fit(X, y)
        times.append(time.perf_counter() - began)
    found = model.model_.kernel
    settled = model.log_marginal_likelihood_ - evidence(n, ard, found.variance, found.kernel.lengthscale, inference, 1e-12, of)
    return {
        "cold": times[0],
        "seconds": min(times[1:], default=times[0]),
        "variance": float(found.variance),
        "lengthscales": _flat(found.kernel.lengthscale),
        "evidence": model.log_marginal_likelihood_,
        "evaluations": model.learned_.steps,
        "settled": abs(settled),
    }


def evidence(
    n: int, ard: bool, variance: Any, lengthscale: Any, inference: str, tolerance: float | None = None, of: str = DRAWN
) -> float:
    """covary's log evidence at these hyperparameters."""
    from covary import GP, Data, Model, log_evidence
    from covary.inference import EP, Laplace
    from covary.likelihoods import Bernoulli

    X, y = table(n, of)
    scales = np.asarray(lengthscale, np.float64) if ard else float(np.squeeze(lengthscale))
    model = Model(
        GP(kernel(X.shape[1], ard, float(variance), scales)),
        likelihood=Bernoulli("logit" if inference == "laplace" else "probit"),
    )
    how = (Laplace if inference == "laplace" else EP)(**({} if tolerance is None else {"tolerance": tolerance}))
    return float(log_evidence(model, Data(X, y.astype(np.float64)), inference=how))


def sklearn(n: int, ard: bool, of: str = DRAWN) -> dict[str, Any]:
    """scikit-learn's GaussianProcessClassifier with its default optimiser, called here to count its evaluations."""
    from scipy.optimize import minimize
    from sklearn.gaussian_process import GaussianProcessClassifier

    X, y = table(n, of)
    count = []

    def optimizer(objective: Any, start: Any, bounds: Any) -> tuple[Any, float]:
        out = minimize(objective, start, method="L-BFGS-B", jac=True, bounds=bounds)  # what "fmin_l_bfgs_b" does
        count.append(int(out.nfev))
        return out.x, out.fun

    def fit() -> Any:
        start = sklearn_kernel(X.shape[1], ard)
        return GaussianProcessClassifier(start, optimizer=optimizer, n_restarts_optimizer=0).fit(X, y)

    took, model = _again(fit)
    found = model.base_estimator_.kernel_
    return {
        "seconds": took,
        "variance": float(found.k1.constant_value),
        "lengthscales": _flat(found.k2.length_scale),
        "evaluations": count[-1],
    }


def gpy(n: int, ard: bool, nested: bool) -> dict[str, Any]:
    """GPy's GPClassification by EP: sites held in every search and matched between (its default), or matched in every step."""
    import GPy
    from GPy.inference.latent_function_inference import EP

    X, y = table(n)
    rounds = []

    def fit() -> Any:
        start = GPy.kern.RBF(COLUMNS, variance=1.0, lengthscale=np.ones(COLUMNS) if ard else 1.0, ARD=ard)
        how = EP(ep_mode="nested" if nested else "alternated")
        model = GPy.models.GPClassification(X, y[:, None], start, inference_method=how)
        last = -np.inf
        for k in range(1 if nested else ROUNDS):
            model.optimize("lbfgsb", max_iters=1000)
            rounds.append(k + 1)
            if float(model.log_likelihood()) - last < SETTLED:
                break
            last = float(model.log_likelihood())
        return model

    took, model = _again(fit)
    return {
        "seconds": took,
        "variance": float(np.squeeze(np.asarray(model.kern.variance))),
        "lengthscales": _flat(model.kern.lengthscale),
        "evaluations": None if nested else f"{rounds[-1]} rounds",
    }


def one(n: int, ard: bool, repeats: int = 9) -> dict[str, float]:
    """Return the milliseconds of one evidence with its gradient by Laplace's method, with all hyperparameters at one."""
    from sklearn.gaussian_process import GaussianProcessClassifier

    from covary import GP, Data, Model, log_evidence_and_grad
    from covary.inference import Laplace
    from covary.likelihoods import Bernoulli

    X, y = table(n)
    peer = GaussianProcessClassifier(sklearn_kernel(COLUMNS, ard), optimizer=None).fit(X, y)
    theta = np.zeros(1 + (COLUMNS if ard else 1))
    model, data = Model(GP(kernel(COLUMNS, ard)), likelihood=Bernoulli("logit")), Data(X, y.astype(np.float64))
    both = {
        "covary": lambda: log_evidence_and_grad(model, data, inference=Laplace()),
        "scikit-learn": lambda: peer.log_marginal_likelihood(theta, eval_gradient=True),
    }
    best = interleaved(both, repeats, budget=30.0)
    gap = abs(both["covary"]()[0] - both["scikit-learn"]()[0])
    return {name: 1e3 * value for name, value in best.items()} | {"gap": float(gap)}


def six(n: int, which: str, warm: int = 2) -> dict[str, Any]:
    """Fit six classes, and score the predictions of a thousand more rows."""
    from covary import GPClassifier, metrics

    X, y = many(n)
    X_new, y_new = many(1000, 1)

    def fit() -> Any:
        if which == "scikit-learn":
            from sklearn.gaussian_process import GaussianProcessClassifier

            return GaussianProcessClassifier(sklearn_kernel(4, False), multi_class="one_vs_rest").fit(X, y)
        return GPClassifier(kernel(4, False), multi_class=which, class_kernels="shared", priors=None, random_state=0).fit(X, y)

    began = time.perf_counter()
    model: Any = fit()
    cold = took = time.perf_counter() - began
    if which == "scikit-learn":
        value = CLASSES * float(model.log_marginal_likelihood_value_)
    else:
        took = min([_seconds(fit) for _ in range(warm)], default=cold)
        value = float(model.log_marginal_likelihood_)
    p = model.predict_proba(X_new)
    loss, errors = metrics.log_loss(y_new, p, classes=model.classes_), metrics.errors(y_new, p, classes=model.classes_)
    return {"cold": cold, "seconds": took, "evidence": value, "loss": loss, "errors": errors}


def _seconds(function: Callable[[], Any]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


# tables -----------------------------------------------------------------------------------------------------------------


def _value(target: str, here: bool = False, **arguments: Any) -> dict[str, Any] | str:
    """Return the result of a fresh process (of this one if ``here``) and the background load, or the reason for failure."""
    if here:
        return globals()[target](**arguments) | {"others": 0.0}
    outcome = fresh(f"benchmarks.classes_speed:{target}", limit=LIMIT, **arguments)
    say(f"{target} {arguments}: {outcome.failure or outcome.value}, others {outcome.others:.1f}")
    return outcome.failure or outcome.value | {"others": outcome.others}


def _own(**arguments: Any) -> dict[str, Any]:
    found = _value("own", **arguments)
    if isinstance(found, str):
        raise RuntimeError(f"covary's own fit {arguments} failed: {found}")
    return found


def fits(n: int, ard: bool, inference: str, smoke: bool, of: str = DRAWN) -> tuple[Table, list[Bar]]:
    """Compare a complete fit by covary and other libraries."""
    link = "logit" if inference == "laplace" else "probit"
    name = "Laplace" if inference == "laplace" else "EP"
    where = "" if of == DRAWN else "Pima, "
    what = f"{where}{name}, {link}, {'one length-scale per column' if ard else 'one length-scale'}, n = {n}"
    more: dict[str, Any] = {} if of == DRAWN else {"of": of}
    mine = _own(here=smoke, n=n, ard=ard, inference=inference, link=link, warm=1 if smoke else 5, **more)
    wanted = (
        {"scikit-learn": ("sklearn", {})}
        if inference == "laplace"
        else {"GPy, EP between searches": ("gpy", {"nested": False}), "GPy, EP in every step": ("gpy", {"nested": True})}
    )
    found, notes = {}, []
    for name, (target, extra) in {} if smoke else wanted.items():
        if importlib.util.find_spec("sklearn" if target == "sklearn" else "GPy") is None:
            notes.append(f"{name} is not installed and is omitted.")
            continue
        value = _value(target, n=n, ard=ard, **extra, **more)
        if isinstance(value, str):
            notes.append(f"{name}: {value}.")
        else:
            found[name] = value | {"evidence": evidence(n, ard, value["variance"], value["lengthscales"], inference, of=of)}
    if found:  # the better of two processes, one before and one after the other libraries
        again = _own(n=n, ard=ard, inference=inference, link=link, **more)
        mine |= {name: min(mine[name], again[name]) for name in ("cold", "seconds", "others")}
    best = max([mine["evidence"], *(f["evidence"] for f in found.values())])

    def row(name: str, took: float, f: dict[str, Any]) -> list[str]:
        ratios = [figure(took / mine[key]) for key in ("seconds", "cold")]
        count = str(f["evaluations"] or "?")
        return [name, figure(took), *ratios, f"{f['evidence']:.3f}", f"{best - f['evidence']:.3f}", count, f"{f['others']:.1f}"]

    rows = [row("covary, warm", mine["seconds"], mine), row("covary, cold", mine["cold"], mine)]
    rows += [row(name, f["seconds"], f) for name, f in found.items()]
    if inference == "ep":
        notes.append(f"covary's log evidence is within {mine['settled']:.0e} of that with a tolerance of 1e-12 in EP.")
    columns = (
        "library",
        "seconds",
        "/ covary warm",
        "/ covary cold",
        "evidence",
        "below best",
        "evaluations",
        "background load",
    )
    bars = []
    level = [f for f in found.values() if f["evidence"] > mine["evidence"] - 0.5]  # libraries that stop early are not compared
    if level:
        fastest, highest = min(f["seconds"] for f in level), max(f["evidence"] for f in found.values())
        peer = "scikit-learn" if inference == "laplace" else "GPy"
        bars = [
            Bar(
                f"{what}: time of {peer} / covary, warm",
                fastest / mine["seconds"],
                FASTER if inference == "laplace" else EP_FASTER,
                least=True,
            ),
            Bar(f"{what}: log evidence of {peer} minus covary", highest - mine["evidence"], BELOW, unit="nats"),
        ]
    elif found:
        notes.append("No other library came within 0.5 nats of covary's evidence: no criterion is evaluated.")
    return Table(f"Whole fit: {what}", columns, rows, notes), bars


def single() -> Table:
    """Compare one evidence with its gradient."""
    rows = []
    for n in SIZES:
        for ard in (False, True):
            found = _value("one", n=n, ard=ard)
            if isinstance(found, str):
                raise RuntimeError(f"one evidence at n = {n} failed: {found}")
            took = [found[name] for name in ("covary", "scikit-learn")]
            kind = "each" if ard else "one"
            rows.append(
                [f"{n}, {kind}", *map(figure, took), figure(took[1] / took[0]), f"{found['gap']:.0e}", f"{found['others']:.1f}"]
            )
    columns = ("n, length-scale", "covary, ms", "scikit-learn, ms", "ratio", "difference, nats", "background load")
    notes = [
        "Both search for the mode from zero, with all hyperparameters at one. Best of nine alternating calls in one process."
    ]
    return Table("One evidence and gradient by Laplace's method", columns, rows, notes)


def classes(n: int, smoke: bool) -> Table:
    """Six classes."""
    rows, mine = [], None
    names = {"softmax": "covary, softmax", "one_vs_rest": "covary, one-vs-rest"}
    names |= {} if smoke else {"scikit-learn": "scikit-learn, one-vs-rest"}
    notes = [
        "The softmax uses one kernel for all classes; one-vs-rest learns one per class. Log loss and errors are those of "
        "1000 test rows.",
        "The log evidence of one-vs-rest is a sum over six models of different labels, and cannot be compared with that of "
        "the softmax.",
    ]
    for which, name in names.items():
        f = _value("six", here=smoke, n=n, which=which, warm=1 if smoke else 2)
        if isinstance(f, str):
            if which != "scikit-learn":
                raise RuntimeError(f"covary's own fit of six classes failed: {f}")
            notes.append(f"{name}: {f}.")
            continue
        mine = mine or f
        times = [figure(f["seconds"]), figure(f["seconds"] / mine["seconds"]), figure(f["cold"])]
        rows.append([name, *times, f"{f['evidence']:.2f}", f"{f['loss']:.4f}", str(f["errors"]), f"{f['others']:.1f}"])
    columns = ("method", "seconds", "/ softmax", "first fit", "evidence", "log loss", "errors", "background load")
    return Table(f"Six classes, four inputs, n = {n}", columns, rows, notes)


def run(smoke: bool = False) -> Report:
    """Measure every size; if ``smoke``, covary alone on few rows."""
    tables, bars = [], []
    plan = (
        [(60, True, "laplace"), (60, False, "ep")] if smoke else [(n, ard, "laplace") for n in SIZES for ard in (False, True)]
    )
    for n, ard, inference in plan if smoke else [*plan, (500, False, "ep"), (500, True, "ep")]:
        part, judged = fits(n, ard, inference, smoke)
        tables.append(part)
        bars += judged
    if not smoke and (folder() / "classification").is_dir():
        for n in PIMA_SIZES:
            for ard in (False, True):
                part, judged = fits(n, ard, "laplace", smoke, PIMA)
                tables.append(part)
                bars += judged
    tables += [classes(60 if smoke else 500, smoke)] if smoke else [single(), classes(500, smoke)]
    return Report("Time of classification", TEXT, tables, bars)


def main() -> int:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.classes_speed", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder to write the page to; if omitted, the page is only printed")
    parser.add_argument("--smoke", action="store_true", help="run covary alone at n = 60, and write nothing")
    options = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    with Others() as others:
        report = run(smoke=options.smoke)
    print(report.markdown())
    if options.out and not options.smoke:
        write(options.out, "classes_speed", report, others.cores)
    return 0


if __name__ == "__main__":
    sys.exit(main())
