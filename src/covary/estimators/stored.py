"""A fitted estimator as a record and arrays, and back: what stands in a model file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
from sklearn.base import is_classifier

from covary._memory import check_memory
from covary._module import without_marks
from covary._precision import precision
from covary._threads import blas_threads
from covary.committee.settings import Committee
from covary.data import Data
from covary.estimators.arguments import decode_params, encode_params
from covary.estimators.committees import committee_again, experts_in, experts_out
from covary.estimators.dealt import first_opinion
from covary.estimators.encoding import (
    INFERENCES,
    decode,
    decode_gram,
    decode_kernel,
    decode_model,
    decode_prior,
    encode_gram,
    encode_inference,
    encode_model,
    encode_prior,
)
from covary.estimators.entries import (
    Functions,
    agree,
    finite,
    functions_of,
    labels_in,
    labels_out,
    number,
    numeric,
    whole,
)
from covary.estimators.frames import Columns
from covary.estimators.method import Choice
from covary.gram.dense import Dense, NoiseFactor, sound
from covary.gram.subset import Subset
from covary.inference.base import Solved
from covary.inference.condition import condition
from covary.inference.exact import Exact, residual
from covary.inference.whitened import Whitened, WhitenedFactor
from covary.likelihoods.bernoulli import Bernoulli
from covary.likelihoods.softmax import Softmax as SoftmaxLikelihood
from covary.model import Model
from covary.models.local_scale import LocalScale, conditioned
from covary.parameters import REAL, Frame, Packing
from covary.posterior import Posterior
from covary.selection.learn import Learned, Restart
from covary.selection.priors import Priors
from covary.selection.problem import Objective
from covary.sites import Blocks, Diagonal, Noise, Softmax

CHECKED = 5  # rows whose predictions are written down
KEPT = 2**26  # bytes of a factor that are kept without being asked for
LARGE = 1e150  # no number of the data is as large: its square would be infinite
LOWEST = -np.finfo(np.float64).max


def to_file(estimator: Any, factor: bool | None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Everything needed to predict and to go on."""
    names, params = getattr(estimator, "feature_names_in_", None), estimator.get_params(deep=False)
    used = functions_of(*(params.get(name) for name in ("kernel", "mean", "likelihood")), getattr(estimator, "model_", ()))
    record: dict[str, Any] = {
        "params": encode_params(params),
        **({"functions": sorted(used)} if used else {}),
        "names": None if names is None else [str(v) for v in names],
        "targets": getattr(estimator, "target_names_", None),
    }
    if hasattr(estimator, "columns_"):
        record["columns"] = estimator.columns_.to_record()
    arrays: dict[str, Any] = {}
    if hasattr(estimator, "classes_"):
        record["classes"] = labels_out(estimator.classes_)
        arrays["class_count"] = np.asarray(estimator.class_count_, np.float64)
    if hasattr(estimator, "estimators_"):
        record["each"] = []
        for i, one in enumerate(estimator.estimators_):
            inside, own = to_file(one, factor)
            record["each"].append(inside)
            arrays |= {f"m{i}_{name}": a for name, a in own.items()}
        return record, arrays
    fitted, own = _fitted(estimator, factor)
    return record | fitted, {name: np.asarray(a) for name, a in (arrays | own).items()}


def _fitted(estimator: Any, factor: bool | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """One model with its data, its posterior and how it was learned."""
    post: Posterior = estimator.posterior_
    data, n = post.data, post.data.rows
    record: dict[str, Any] = {
        "model": encode_model(estimator.model_),
        "inference": encode_inference(estimator.inference_),
        "status": post.status,
        "evidence": number(post.log_evidence),
        "jitter": number(post.factor.jitter),
        "priors": {path: encode_prior(p) for path, p in estimator.priors_.items()},
    }
    gram = estimator.method_.gram if estimator.learned_ is None else estimator.learned_.gram
    record["method"] = [estimator.method_.name, estimator.method_.why]
    if not isinstance(gram, Dense | Subset):
        record["gram"] = encode_gram(gram)
    arrays: dict[str, Any] = {"X": data.X.x, "y": data.y, "alpha": post.alpha}
    if "gram" in record and hasattr(post.bound, "Z"):
        arrays["inducing"] = post.bound.Z.x
    if hasattr(estimator, "_location"):
        arrays |= {"location": estimator._location, "scale": estimator._scale}
    optional = {"noise_variance": data.noise_variance, "weight": data.weight, "scatter": data.scatter}
    arrays |= {name: v for name, v in optional.items() if v is not None}
    if isinstance(post.factor, WhitenedFactor):
        q = post.factor.q
        arrays |= {"q_shift": q.shift, "q_precision": np.stack(q.precision)}
        return _with_learned(estimator, record, arrays, data)
    if isinstance(gram, Committee):
        record["experts"], own = experts_out(post, estimator.learned_, gram)
        return _with_learned(estimator, record, arrays | own, data)
    if post.scale is not None:
        record["scale"], own = _scale_out(post.scale)
        arrays |= own
    if not isinstance(post.factor.sites, Noise):
        arrays |= {"shift": post.solved.shift, "sites": _site_numbers(post.factor.sites)}
    elif isinstance(post.factor, NoiseFactor) and (factor or (factor is None and 4 * n * (n + 1) <= KEPT)):
        arrays["factor"] = np.concatenate([post.factor.L[j:, j] for j in range(n)])  # the lower triangle by columns
    return _with_learned(estimator, record, arrays, data)


def _with_learned(
    estimator: Any, record: dict[str, Any], arrays: dict[str, Any], data: Data
) -> tuple[dict[str, Any], dict[str, Any]]:
    """How it was learned, and a few predictions, added."""
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
            "rivals": [_other_kernel(r.model, learned.model) for r in learned.restarts],
        }
        if packing.frame is not None:
            record["learned"]["frame"], arrays["frame"] = list(packing.frame.paths), packing.frame.matrix
        arrays |= {
            "theta": learned.theta,
            "lower": np.maximum(learned.objective.box[0], LOWEST),
            "upper": np.minimum(learned.objective.box[1], -LOWEST),
            "history": np.nan_to_num(np.array(learned.history, np.float64).reshape(-1, 2), nan=LOWEST, neginf=LOWEST),
            **_packed(learned),
            "results": np.nan_to_num(np.array([[r.value, r.steps] for r in learned.restarts], np.float64), neginf=LOWEST),
        }
    arrays |= dict(zip(("check_mean", "check_std"), _check(estimator, data), strict=True))
    return record, arrays


def _packed(learned: Any) -> dict[str, np.ndarray]:
    """Where every start began and ended; as it was read, if it was: logarithms of exponentials need not be the same bits."""
    if "packed" in learned.__dict__:
        return learned.__dict__["packed"]
    ends = {"starts": [r.start for r in learned.restarts], "stops": [r.model for r in learned.restarts]}
    scale = learned.objective.packing.scale
    return {name: np.array([Packing(model, scale=scale).pack(model) for model in models]) for name, models in ends.items()}


def _check(estimator: Any, data: Data) -> tuple[np.ndarray, np.ndarray]:
    """A few predictions, written down so that a reader can compare; where rows are on disk, those of the first expert."""
    bound = estimator.posterior_.bound
    if getattr(bound, "elsewhere", False):
        return first_opinion(bound, data.X.take(slice(CHECKED)))
    if hasattr(estimator, "_predict"):
        return estimator._predict(data.X.x[:CHECKED], return_std=True, latent=True)
    f = estimator.posterior_.predict(data.X.x[:CHECKED]).f
    return f.mean, f.std


def _site_numbers(sites: Any) -> np.ndarray:
    """The numbers of natural sites: their weights, if any, are those of the data."""
    return np.asarray(sites.probability if isinstance(sites, Softmax) else sites.precision)


def from_file(kind: type, record: dict[str, Any], arrays: dict[str, np.ndarray], functions: Functions) -> Any:
    """The estimator as it was, after every part has been checked against the others."""
    estimator = kind(**decode_params(record["params"], kind().get_params(deep=False), functions))
    if "columns" in record:
        estimator.columns_ = Columns.from_record(record["columns"])
    agree(("classes" in record) == is_classifier(estimator), "whether it tells classes apart")
    if "classes" in record:
        _classes(estimator, record["classes"], arrays)
    if "each" in record:
        estimator.estimators_ = [
            from_file(kind, inside, {k[len(f"m{i}_") :]: a for k, a in arrays.items() if k.startswith(f"m{i}_")}, functions)
            for i, inside in enumerate(record["each"])
        ]
        agree(len(estimator.estimators_) == len(estimator.classes_) and is_classifier(estimator), "the classes")
        estimator.n_features_in_ = estimator.estimators_[0].n_features_in_
        estimator.log_marginal_likelihood_ = float(sum(e.log_marginal_likelihood_ for e in estimator.estimators_))
    else:
        _read_fitted(estimator, record, arrays, functions)
    if record["names"] is not None:
        names = [str(v) for v in record["names"]]
        agree(len(names) == estimator.n_features_in_, "the names of the columns")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    if record.get("targets") is not None:
        estimator.target_names_ = [str(v) for v in record["targets"]]
        agree(estimator.target_names_, "the names of the targets")
    return estimator


def _classes(estimator: Any, record: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    estimator.classes_, estimator.class_count_ = labels_in(record), arrays["class_count"]
    agree(estimator.class_count_.shape == estimator.classes_.shape and (estimator.class_count_ >= 0).all(), "the classes")
    agree(0 < estimator.class_count_.sum() < LARGE, "the classes")


def _read_fitted(estimator: Any, record: dict[str, Any], arrays: dict[str, np.ndarray], functions: Functions) -> None:
    optional = {name: arrays.get(name) for name in ("noise_variance", "weight", "scatter")}
    data = Data(arrays["X"], arrays["y"], **optional)
    agree(all(np.abs(arrays[name]).max(initial=0.0) < LARGE for name in ("y", "shift") if name in arrays), "its observations")
    model = decode_model(record["model"], functions)
    inference = decode(record["inference"], INFERENCES) if "inference" in record else Exact()  # schema 1 knew no other
    if is_classifier(estimator):
        likelihood: Any = model.likelihood
        two = isinstance(likelihood, Bernoulli) and len(estimator.classes_) == 2
        several = isinstance(likelihood, SoftmaxLikelihood) and len(estimator.classes_) == likelihood.classes
        agree(two or several, "the classes")
        agree(bool(np.isin(data.y, np.arange(len(estimator.classes_))).all()), "the classes")
    else:
        agree({"location", "scale"} <= set(arrays), "location and scale")
    model.prior.check(data.X)
    if not isinstance(inference, Exact):
        model.likelihood.check(data.y, "load")
    said = finite(record["evidence"]), str(record.get("status", "converged"))
    estimator.n_features_in_, estimator.inference_ = data.X.columns, inference
    if hasattr(estimator, "columns_"):
        agree(estimator.columns_.width == data.X.columns, "the columns")
        estimator.n_features_in_ = len(estimator.columns_.each)
    if "location" in arrays:
        estimator._location, estimator._scale = arrays["location"], arrays["scale"]
        outputs = data.y.shape[1:] if isinstance(inference, Exact) else ()
        agree(estimator._location.shape == estimator._scale.shape == outputs, "location and scale")
        agree(bool((estimator._scale > 0).all()), "the scale")
        if record.get("targets") is not None:
            agree(len(record["targets"]) == int(np.prod(outputs)), "the names of the targets")
    estimator.priors_ = {str(path): decode_prior(p) for path, p in record["priors"].items()}
    estimator.model_ = model
    gram = decode_gram(record["gram"], arrays.get("inducing")) if "gram" in record else Dense()
    name, why = (str(v) for v in record.get("method", ("exact", "")))
    learned = record.get("learned")
    if isinstance(gram, Committee):
        gram = experts_in(record["experts"], arrays, gram, data, estimator, record.get("beside"))
    estimator.method_ = Choice(name, gram.replace(settled=None) if isinstance(gram, Committee) else gram, inference, why)
    if learned is not None:
        learned = _learned(learned, arrays, model, data, estimator.priors_, functions, inference, gram)
    estimator.learned_ = learned
    if isinstance(gram, Committee):
        packing = estimator.learned_ and estimator.learned_.objective.packing
        estimator.posterior_ = committee_again(gram, arrays, model, data, inference, packing, said)
    else:
        estimator.posterior_ = _posterior(said, finite(record["jitter"]), arrays, model, data, inference, gram)
    if "scale" in record:
        estimator.posterior_ = replace(estimator.posterior_, scale=_scale_in(record["scale"], arrays, data.X.columns))
    estimator._finish(data)
    mean, std = _check(estimator, data) if "inference" in record else estimator._predict(data.X.x[:CHECKED], return_std=True)
    was, bar = arrays["check_mean"], arrays["check_std"]
    agree(mean.shape == was.shape == std.shape == bar.shape and bool((bar >= 0).all()), "its own predictions")
    near = (np.abs(mean - was) <= 1e-3 * bar + 1e-9 * np.abs(was)).all() and np.allclose(std, bar, rtol=1e-3, atol=1e-9)
    agree(bool(near), "the predictions written down when it was saved")


def _scale_out(scale: LocalScale) -> tuple[dict[str, Any], dict[str, Any]]:
    """The local scale of the errors, as record and arrays."""
    post = scale.posterior
    numbers = {name: number(getattr(scale, name)) for name in ("level", "power", "gain")}
    arrays = {"scale_unit": scale.unit, "scale_X": post.data.X.x, "scale_y": post.data.y}
    return {**numbers, "model": encode_model(post.model)}, arrays | {"scale_noise": post.data.noise_variance}


def _scale_in(record: dict[str, Any], arrays: dict[str, np.ndarray], columns: int) -> LocalScale:
    """What :func:`_scale_out` wrote."""
    level, power, gain = (finite(record[name]) for name in ("level", "power", "gain"))
    unit, seen = arrays["scale_unit"], Data(arrays["scale_X"], arrays["scale_y"], arrays["scale_noise"])
    model = decode_model(record["model"], {})
    model.prior.check(seen.X)
    sound = unit.shape == (columns,) and seen.X.columns == columns and bool((unit > 0).all()) and seen.y.ndim == 1
    agree(sound and level > 0 and 0 <= power <= 1, "the local scale of its errors")
    return LocalScale(conditioned(model, seen), unit, level, power, gain)


def _posterior(
    said: tuple[float, str],
    jitter: float,
    arrays: dict[str, np.ndarray],
    model: Model,
    data: Data,
    inference: Any,
    gram: Any,
) -> Posterior:
    if "q_shift" in arrays:
        q = Whitened(arrays["q_shift"], tuple(arrays["q_precision"]))
        begun: Any = Started(model, {"q": q})
        return condition(begun, data, inference=inference, gram=gram)
    if "sites" in arrays:
        return _from_sites(said, arrays, model, data, gram)
    if "factor" not in arrays:
        return condition(model, data, inference=inference, gram=gram)
    n = data.rows
    check_memory("load", 8 * n * n, "load it where there is more memory")
    agree(arrays["factor"].shape == (n * (n + 1) // 2,), "the factor")
    agree(arrays["alpha"].shape == data.y.shape, "the weights")
    with precision(data.dtype), blas_threads(n):
        bound = Dense().bind(model.prior.kernels, data.X, model.prior.basis)
        L = np.zeros((n, n), order="F")
        ends = np.cumsum(np.arange(n, 0, -1))
        for j, end in enumerate(ends):
            L[j:, j] = arrays["factor"][end - (n - j) : end]
        agree(sound(L, float((L**2).sum(1).max())), "the factor")
        likelihood: Any = model.likelihood
        factor = NoiseFactor(L, likelihood.sites(data), bound.basis, jitter)
        solved = Solved(factor, residual(model, data), np.asfortranarray(arrays["alpha"]), said[0])
    return Posterior(model, data, bound, solved)


class Started(NamedTuple):
    """A model, and where its inference begins."""

    model: Model
    start: Any


def _from_sites(said: tuple[float, str], arrays: dict[str, np.ndarray], model: Model, data: Data, gram: Any) -> Posterior:
    """The posterior of an approximate inference: its sites are in the file, the factor is made anew."""
    n, latents = data.rows, model.likelihood.latents
    shape = (n,) if latents == 1 else (n, latents)
    numbers, shift = arrays["sites"], arrays["shift"]
    agree(shift.shape == arrays["alpha"].shape == shape, "the weights")
    if isinstance(model.likelihood, SoftmaxLikelihood):
        agree(numbers.shape == shape and bool((numbers >= 0).all() and (numbers <= 1).all()), "the sites")
        sites: Any = Softmax(numbers, data.weight)
    else:
        agree(numbers.shape == (shape if latents == 1 else (n, latents, latents)), "the sites")
        sites = Diagonal(numbers) if latents == 1 else Blocks(numbers)
    if isinstance(gram, Dense):
        check_memory("load", 8 * n * n * (2 + latents), "load it where there is more memory")
    with precision(data.dtype), blas_threads(n):
        bound = gram.bind(model.prior.kernels, data.X, model.prior.basis)
        factor = bound.factor(sites)
    solved = Solved(factor, shift, arrays["alpha"], *said)
    return Posterior(model, data, bound, solved)


def _other_kernel(model: Any, best: Any) -> Any:
    """The kernel of a start whose structure is another than the best one's, or None."""
    return None if _alike(model, best) else encode_model(model)["kernel"]


def _alike(a: Any, b: Any) -> bool:
    """Whether two models differ in nothing but numbers."""
    return jax.tree_util.tree_structure(without_marks(a)) == jax.tree_util.tree_structure(without_marks(b))


def _learned(
    record: dict[str, Any],
    arrays: dict[str, np.ndarray],
    model: Model,
    data: Data,
    priors: dict[str, Any],
    functions: Functions,
    inference: Any,
    gram: Any,
) -> Learned:
    packing = Packing(model, scale={str(path): finite(v) for path, v in record["scale"].items()})
    if "frame" in record:
        frame = Frame(tuple(str(path) for path in record["frame"]), arrays["frame"])
        sizes = {s.paths[0]: s.stop - s.start for s in packing.slots if s.space is REAL}
        agree(len(set(frame.paths)) == len(frame.paths), "the learned vector")
        order = sum(sizes[path] for path in frame.paths)
        agree(frame.matrix.shape == (order, order) and bool(np.diagonal(frame.matrix).all()), "the learned vector")
        packing = Packing(model, scale=packing.scale, frame=frame)
    theta, lower, upper = arrays["theta"], arrays["lower"], arrays["upper"]
    agree(theta.shape == lower.shape == upper.shape == (packing.size,), "the learned vector")
    lower, upper = np.where(lower <= LOWEST, -np.inf, lower), np.where(upper >= -LOWEST, np.inf, upper)
    problem = Objective(packing, Priors(model, priors), data, inference, gram, None, (lower, upper))
    problem.jitter = None if record["jitter"] is None else finite(record["jitter"])
    history = tuple((int(rows), float(v) if v > LOWEST else -np.inf) for rows, v in arrays["history"])
    ends, results = record["ends"], arrays["results"]
    agree(arrays["starts"].shape == arrays["stops"].shape == (len(ends), packing.size), "the restarts")
    restarts = []
    for i, end in enumerate(ends):
        text = record["rivals"][i]
        other = model
        if text is not None:
            other = model.replace(prior=model.prior.replace(kernel=decode_kernel(text, functions)))
        like = Packing(other, scale=packing.scale)
        agree(like.size == packing.size, "the restarts")
        value, steps = results[i]
        found = (like.unpack(arrays["starts"][i]), like.unpack(arrays["stops"][i]), float(value) if value > LOWEST else -np.inf)
        restarts.append(Restart(*found, str(end), int(steps)))
    levels = tuple(whole(v, 2**53, 1) for v in record["levels"])
    seen = arrays["history"][:, 0]
    agree(levels and bool(((seen >= 1) & (seen <= 2**53)).all()), "the rows it was learned from")
    agree(0 <= finite(record["seconds"]) <= 1e12, "how long it was learned")
    with np.errstate(all="ignore"):
        agree(not np.isnan(problem.priors.log_prob_and_grad(packing, model)[0]), "the priors")
    numbers = (float(numeric(record["value"])), str(record["status"]), len(history), finite(record["seconds"]))
    jitter = problem.jitter or 0.0
    own = {"thetas": arrays["expert_thetas"]} if "expert_thetas" in arrays else None
    found = Learned(model, *numbers, levels, history, tuple(restarts), problem, theta, jitter, own, None, gram)
    found.__dict__["packed"] = {name: arrays[name] for name in ("starts", "stops")}
    if "hessian" in arrays:
        agree(arrays["hessian"].shape == (packing.size,) * 2, "the curvature of its evidence")
        found.__dict__["hessian"] = arrays["hessian"]
    return found
