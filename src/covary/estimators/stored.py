"""A fitted GPRegressor as a record and arrays, and back: what stands in a model file."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import numpy as np

from covary import distributions
from covary._checks import CovaryError, fail
from covary._memory import check_memory
from covary._module import STATIC, Mark, Marked, Module, without_marks
from covary._precision import precision
from covary._threads import blas_threads
from covary.data import Data
from covary.gram.dense import Dense, NoiseFactor, sound
from covary.inference.base import Solved
from covary.inference.condition import condition
from covary.inference.exact import Exact, residual
from covary.kernels.base import AbstractKernel
from covary.kernels.text import parse
from covary.likelihoods.gaussian import Gaussian
from covary.means import functions as means
from covary.model import GP, Model
from covary.parameters import Packing
from covary.posterior import Posterior
from covary.selection.learn import Learned, Restart
from covary.selection.priors import Priors
from covary.selection.problem import Objective

MOST_TEXT = 2**18  # characters of a kernel in a file
CHECKED = 5  # rows whose predictions are written down
KEPT = 2**26  # bytes of a factor that are kept without being asked for
MEANS = {c.__name__: c for c in (means.Zero, means.Constant, means.Linear)}
PRIORS = {
    c.__name__: c
    for c in vars(distributions).values()
    if isinstance(c, type) and issubclass(c, distributions.AbstractDistribution) and not c.__name__.startswith("Abstract")
}
LOWEST = -np.finfo(np.float64).max


# small parts ----------------------------------------------------------------------------------------------------
def number(value: Any) -> Any:
    """A number or an array of them for JSON, exact; infinities by name."""
    if np.ndim(value):
        return [number(v) for v in np.asarray(value)]
    value = float(value)
    return value if math.isfinite(value) else repr(value)


def numeric(value: Any) -> Any:
    """What :func:`number` wrote."""
    if isinstance(value, list):
        return [numeric(v) for v in value]
    if value in ("inf", "-inf", "nan"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is no number")
    return float(value)


def encode(module: Module) -> dict[str, Any]:
    """A module without children: its type, its numbers, its marks."""
    fields = {f.name: number(getattr(module, f.name)) for f in dataclasses.fields(module) if not f.metadata.get(STATIC)}  # type: ignore[arg-type]
    marks = {name: {"fixed": m.fixed, "bounds": m.bounds and list(m.bounds)} for name, m in module._marks}  # type: ignore[attr-defined]
    return {"type": type(module).__name__, "values": fields, "marks": marks}


def decode(record: dict[str, Any], known: dict[str, Any]) -> Any:
    """The module, if its type is one of the known ones."""
    if record["type"] not in known:
        raise fail("load", f"{str(record['type'])[:60]!r} is not known", f"expected one of {', '.join(known)}")
    kind = known[record["type"]]
    names = {f.name for f in dataclasses.fields(kind)}
    if not set(record["values"]) <= names or not set(record["marks"]) <= names:
        raise fail("load", f"{record['type']} has entries it does not know", "save the model again")
    values: dict[str, Any] = {name: numeric(v) for name, v in record["values"].items()}
    for name, m in record["marks"].items():
        bounds = None if m["bounds"] is None else (float(numeric(m["bounds"][0])), float(numeric(m["bounds"][1])))
        values[name] = Marked(values[name], Mark(bool(m["fixed"]), bounds))
    return kind(**values)


def encode_prior(prior: Any) -> Any:
    """A distribution, or a list of them."""
    if isinstance(prior, list | tuple):
        return [encode_prior(p) for p in prior]
    return [type(prior).__name__, {f.name: number(getattr(prior, f.name)) for f in dataclasses.fields(prior)}]


def decode_prior(record: Any) -> Any:
    """What :func:`encode_prior` wrote."""
    if len(record) == 2 and isinstance(record[0], str):
        if record[0] not in PRIORS:
            raise fail("load", f"the prior {record[0][:60]!r} is not known", f"expected one of {', '.join(PRIORS)}")
        return PRIORS[record[0]](**{name: numeric(v) for name, v in record[1].items()})
    return [decode_prior(r) for r in record]


def encode_mean(mean: Any) -> dict[str, Any]:
    """A mean function that is not a user's own."""
    if type(mean).__name__ not in MEANS:
        raise fail("save", "the mean is a user's function", "use 'zero', 'constant' or 'linear' in models to be saved")
    return encode(mean)


def encode_model(model: Model) -> dict[str, Any]:
    """Kernel by its text, mean and noise by their numbers."""
    if not isinstance(model.likelihood, Gaussian):
        raise fail("save", f"the likelihood is {type(model.likelihood).__name__}", "only Gaussian noise can be saved")
    return {"kernel": repr(model.kernel), "mean": encode_mean(model.mean), "noise": encode(model.likelihood)}


def decode_model(record: dict[str, Any], functions: dict[str, Any]) -> Model:
    """What :func:`encode_model` wrote."""
    prior = GP(parse(record["kernel"], functions, most=MOST_TEXT), mean=decode(record["mean"], MEANS))
    return Model(prior, likelihood=decode(record["noise"], {"Gaussian": Gaussian}))


# constructor arguments ------------------------------------------------------------------------------------------
def encode_params(params: dict[str, Any]) -> dict[str, Any]:
    """The estimator's own arguments."""
    return {name: _encode_param(name, value) for name, value in params.items()}


def _encode_param(name: str, value: Any) -> Any:
    if name == "kernel" and isinstance(value, AbstractKernel):
        return {"kernel": repr(value)}
    if name == "mean":
        return value if isinstance(value, str) else {"mean": encode_mean(value)}
    if name == "priors" and isinstance(value, dict):
        return {"priors": {path: encode_prior(p) for path, p in value.items()}}
    if name == "noise" and isinstance(value, Marked):
        return {"noise": encode(Gaussian(value))}
    if name == "bounds":
        return value and {path: [number(b) for b in pair] for path, pair in dict(value).items()}
    if name == "fixed":
        return value if isinstance(value, str) else [*(value or ())]
    if name == "random_state":
        return int(value) if isinstance(value, int | np.integer) else None
    return value.item() if isinstance(value, np.generic) else value


def decode_params(record: dict[str, Any], functions: dict[str, Any]) -> dict[str, Any]:
    """What :func:`encode_params` wrote."""
    out = dict(record)
    if isinstance(out["kernel"], dict):
        out["kernel"] = parse(out["kernel"]["kernel"], functions, most=MOST_TEXT)
    if isinstance(out["mean"], dict):
        out["mean"] = decode(out["mean"]["mean"], MEANS)
    if isinstance(out["priors"], dict):
        out["priors"] = {path: decode_prior(p) for path, p in out["priors"]["priors"].items()}
    if isinstance(out["noise"], dict):
        noise = decode(out["noise"]["noise"], {"Gaussian": Gaussian})
        out["noise"] = Marked(float(noise.variance), noise.mark_of("variance"))
    if out["bounds"] is not None:
        out["bounds"] = {path: (numeric(pair[0]), numeric(pair[1])) for path, pair in out["bounds"].items()}
    if isinstance(out["fixed"], list):
        out["fixed"] = tuple(out["fixed"])
    return out


# the whole ------------------------------------------------------------------------------------------------------
def to_file(estimator: Any, factor: bool | None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Everything needed to predict and to go on."""
    post: Posterior = estimator.posterior_
    data, n = post.data, post.data.rows
    names = getattr(estimator, "feature_names_in_", None)
    record = {
        "params": encode_params(estimator.get_params(deep=False)),
        "names": None if names is None else [str(v) for v in names],
        "targets": getattr(estimator, "target_names_", None),
        "model": encode_model(estimator.model_),
        "evidence": number(post.log_evidence),
        "jitter": number(post.factor.jitter),
        "priors": {path: encode_prior(p) for path, p in estimator.priors_.items()},
    }
    arrays = {"X": data.X.x, "y": data.y, "location": estimator._location, "scale": estimator._scale, "alpha": post.alpha}
    optional = {"noise_variance": data.noise_variance, "weight": data.weight, "scatter": data.scatter}
    arrays |= {name: v for name, v in optional.items() if v is not None}
    if factor or (factor is None and 4 * n * (n + 1) <= KEPT):
        arrays["factor"] = np.concatenate([post.factor.L[j:, j] for j in range(n)])  # the lower triangle by columns
    if estimator.learned_ is not None:
        learned = estimator.learned_
        packing = learned.objective.packing
        record["learned"] = {
            "value": number(learned.value),
            "status": learned.status,
            "seconds": number(learned.seconds),
            "levels": list(learned.levels),
            "jitter": None if learned.objective.jitter is None else number(learned.objective.jitter),
            "scale": {path: number(v) for path, v in packing.scale.items()},
            "ends": [r.status for r in learned.restarts],
            "rivals": [None if _alike(r.model, learned.model) else repr(r.model.kernel) for r in learned.restarts],
        }
        arrays |= {
            "theta": learned.theta,
            "lower": np.maximum(learned.objective.box[0], LOWEST),
            "upper": np.minimum(learned.objective.box[1], -LOWEST),
            "history": np.nan_to_num(np.array(learned.history, np.float64).reshape(-1, 2), nan=LOWEST, neginf=LOWEST),
            "starts": np.array([Packing(r.start, scale=packing.scale).pack(r.start) for r in learned.restarts]),
            "stops": np.array([Packing(r.model, scale=packing.scale).pack(r.model) for r in learned.restarts]),
            "results": np.nan_to_num(np.array([[r.value, r.steps] for r in learned.restarts], np.float64), neginf=LOWEST),
        }
    mean, std = estimator._predict(data.X.x[:CHECKED], return_std=True)
    arrays |= {"check_mean": mean, "check_std": std}
    return record, {name: np.asarray(a) for name, a in arrays.items()}


def from_file(kind: type, record: dict[str, Any], arrays: dict[str, np.ndarray], functions: dict[str, Any]) -> Any:
    """The estimator as it was, after every part has been checked against the others."""
    params = decode_params(record["params"], functions)
    estimator = kind(**{name: value for name, value in params.items() if name in kind().get_params(deep=False)})
    optional = {name: arrays.get(name) for name in ("noise_variance", "weight", "scatter")}
    data = Data(arrays["X"], arrays["y"], **optional)
    model = decode_model(record["model"], functions)
    model.prior.check(data.X)
    estimator.n_features_in_ = data.X.columns
    if record["names"] is not None:
        names = [str(v) for v in record["names"]]
        _agree(len(names) == data.X.columns, "the names of the columns")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    if record.get("targets") is not None:
        estimator.target_names_ = [str(v) for v in record["targets"]]
        _agree(len(estimator.target_names_) == int(np.prod(data.y.shape[1:])), "the names of the targets")
    estimator._location, estimator._scale = arrays["location"], arrays["scale"]
    _agree(estimator._location.shape == estimator._scale.shape == data.y.shape[1:], "location and scale")
    _agree(bool((estimator._scale > 0).all()), "the scale")
    estimator.priors_ = {str(path): decode_prior(p) for path, p in record["priors"].items()}
    estimator.model_ = model
    learned = record.get("learned")
    estimator.learned_ = learned and _learned(learned, arrays, model, data, estimator.priors_, functions)
    estimator.posterior_ = _posterior(record, arrays, model, data)
    estimator._finish(data)
    mean, std = estimator._predict(data.X.x[:CHECKED], return_std=True)
    was, bar = arrays["check_mean"], arrays["check_std"]
    _agree(mean.shape == was.shape == std.shape == bar.shape and bool((bar >= 0).all()), "its own predictions")
    near = (np.abs(mean - was) <= 1e-3 * bar + 1e-9 * np.abs(was)).all() and np.allclose(std, bar, rtol=1e-3, atol=0)
    _agree(bool(near), "the predictions written down when it was saved")
    return estimator


def _agree(fits: bool, what: str) -> None:
    if not fits:
        raise CovaryError(f"load: the file does not agree with itself about {what}; save the model again.")


def _posterior(record: dict[str, Any], arrays: dict[str, np.ndarray], model: Model, data: Data) -> Posterior:
    if "factor" not in arrays:
        return condition(model, data)
    n = data.rows
    check_memory("load", 8 * n * n, "load it where there is more memory")
    _agree(arrays["factor"].shape == (n * (n + 1) // 2,), "the factor")
    _agree(arrays["alpha"].shape == data.y.shape, "the weights")
    with precision(data.dtype), blas_threads(n):
        bound = Dense().bind(model.prior.kernels, data.X, model.prior.basis)
        L = np.zeros((n, n), order="F")
        ends = np.cumsum(np.arange(n, 0, -1))
        for j, end in enumerate(ends):
            L[j:, j] = arrays["factor"][end - (n - j) : end]
        _agree(sound(L, float((L**2).sum(1).max())), "the factor")
        likelihood: Any = model.likelihood
        factor = NoiseFactor(L, likelihood.sites(data), bound.basis, float(numeric(record["jitter"])))
        solved = Solved(factor, residual(model, data), np.asfortranarray(arrays["alpha"]), float(numeric(record["evidence"])))
    return Posterior(model, data, bound, solved)


def _alike(a: Any, b: Any) -> bool:
    """Whether two models differ in nothing but numbers."""
    return jax.tree_util.tree_structure(without_marks(a)) == jax.tree_util.tree_structure(without_marks(b))


def _learned(
    record: dict[str, Any],
    arrays: dict[str, np.ndarray],
    model: Model,
    data: Data,
    priors: dict[str, Any],
    functions: dict[str, Any],
) -> Learned:
    packing = Packing(model, scale={str(path): float(numeric(v)) for path, v in record["scale"].items()})
    theta, lower, upper = arrays["theta"], arrays["lower"], arrays["upper"]
    _agree(theta.shape == lower.shape == upper.shape == (packing.size,), "the learned vector")
    lower, upper = np.where(lower <= LOWEST, -np.inf, lower), np.where(upper >= -LOWEST, np.inf, upper)
    gram = Dense()
    problem = Objective(packing, Priors(model, priors), data, Exact(), gram, None, (lower, upper))
    problem.jitter = None if record["jitter"] is None else float(numeric(record["jitter"]))
    history = tuple((int(rows), float(v) if v > LOWEST else -np.inf) for rows, v in arrays["history"])
    ends, results = record["ends"], arrays["results"]
    _agree(arrays["starts"].shape == arrays["stops"].shape == (len(ends), packing.size), "the restarts")
    restarts = []
    for i, end in enumerate(ends):
        text = record["rivals"][i]
        other = model
        if text is not None:
            other = model.replace(prior=model.prior.replace(kernel=parse(text, functions, most=MOST_TEXT)))
        like = Packing(other, scale=packing.scale)
        _agree(like.size == packing.size, "the restarts")
        value, steps = results[i]
        found = (like.unpack(arrays["starts"][i]), like.unpack(arrays["stops"][i]), float(value) if value > LOWEST else -np.inf)
        restarts.append(Restart(*found, str(end), int(steps)))
    levels = tuple(int(v) for v in record["levels"])
    numbers = (float(numeric(record["value"])), str(record["status"]), len(history), float(numeric(record["seconds"])))
    jitter = problem.jitter or 0.0
    return Learned(model, *numbers, levels, history, tuple(restarts), problem, theta, jitter)
