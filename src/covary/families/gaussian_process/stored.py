"""Conversion of the state of a fit to a page and arrays of a model file, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import jax
import numpy as np

from covary._memory import check_memory
from covary._module import without_marks
from covary._precision import precision
from covary._threads import blas_threads
from covary.committee.settings import Committee
from covary.data import Data
from covary.families.gaussian_process.committees import committee_again, experts_in, experts_out
from covary.families.gaussian_process.dealt import first_opinion
from covary.families.gaussian_process.encoding import (
    INFERENCES,
    decode_gram,
    decode_kernel,
    decode_model,
    decode_prior,
    encode_gram,
    encode_inference,
    encode_model,
    encode_prior,
)
from covary.families.gaussian_process.encoding import decode as decode_module
from covary.families.gaussian_process.predict import evidence_in_units, moments
from covary.families.gaussian_process.processes import Process, Processes, processes
from covary.families.gaussian_process.settings import Prior
from covary.files.pages import LARGE, Functions, Page, agree, finite, fit_of, functions_of, number, numeric, page_of, whole
from covary.fits import AnyFit, Fit, Labels, Stored
from covary.gram.base import AbstractGram
from covary.gram.dense import Dense, NoiseFactor, sound
from covary.gram.low_rank import LowRankBound
from covary.gram.subset import Subset
from covary.inference.base import AbstractInference, Memory, Solved
from covary.inference.condition import condition
from covary.inference.exact import Exact, residual
from covary.inference.svgp.whitened import Whitened, WhitenedBound, WhitenedFactor
from covary.likelihoods.bernoulli import Bernoulli
from covary.likelihoods.gaussian import Gaussian
from covary.likelihoods.softmax import Softmax as SoftmaxLikelihood
from covary.model import Model
from covary.models.local_scale import LocalScale, conditioned
from covary.parameters import REAL, Frame, Packing
from covary.posterior import AbstractPosterior, Combination, Posterior, with_matrix
from covary.selection.learn import Learned, Restart
from covary.selection.objectives import Objective
from covary.selection.priors import Priors
from covary.sites import AbstractSites, Blocks, Diagonal, Noise, Softmax
from covary.tables.columns import Columns

CHECKED = 5  # rows whose predictions are stored for comparison
KEPT = 2**26  # largest factor in bytes that is stored by default
LOWEST = -np.finfo(np.float64).max


def encode(fit: Fit[Processes], *, factor: bool | None = None) -> Stored:
    """Return everything needed to predict and to update the fit."""
    if len(fit.state.parts) == 1:
        return _encoded(fit, fit.state.first, factor)
    pages: list[Page] = []
    arrays: dict[str, np.ndarray] = {}
    functions: Functions = {}
    for i, one in enumerate(apart(fit)):
        inside = page_of(one, factor=factor)
        pages.append(inside.page)
        arrays |= {f"m{i}_{name}": a for name, a in inside.arrays.items()}
        functions = functions_of(*functions.values(), *inside.functions.values())
    return Stored({"each": pages}, arrays, functions)


def upgrade(page: Page, arrays: Mapping[str, np.ndarray]) -> Page:
    """Return the page of a file with columns and method added if it is of an older version."""
    out = dict(page)
    if "columns" not in page:
        names = page["names"]
        width = arrays["X" if "X" in arrays else "m0_X"].shape[1]
        columns = Columns.of_numbers(width, None if names is None else [str(name) for name in names])
        out["columns"] = columns.to_record()
    if not page.get("method"):
        first = page["each"][0] if "each" in page else {}
        out["method"] = first.get("method", ["exact", ""])
    return out


def apart(fit: Fit[Processes]) -> list[Fit[Processes]]:
    """Return the fits of one-vs-rest models, each with the classes False and True."""
    arguments = {**fit.origin.arguments, "class_weight": None, "checkpoint": None}
    out = []
    for process in fit.state.parts:
        data = process.posterior.data
        counts = np.bincount(np.asarray(data.y, np.int64), data.weight, 2)
        labels = Labels(np.array([False, True]), counts)
        alone = replace(process, label="")
        origin = replace(fit.origin, arguments=arguments, made=None)
        out.append(replace(fit, state=Processes((alone,)), classes=labels, origin=origin))
    return out


def _encoded(fit: Fit[Processes], process: Process, factor: bool | None) -> Stored:
    """Return one model with its data, posterior, record of learning, and a few predictions."""
    post, learned = process.posterior, process.learned
    data = post.data
    page: Page = {
        "model": encode_model(process.model),
        "inference": encode_inference(process.inference),
        "status": post.status,
        "evidence": number(post.log_evidence),
        "jitter": number(post.jitter),
        "priors": {path: encode_prior(p) for path, p in process.priors.items()},
    }
    gram = process.gram if learned is None or learned.gram is None else learned.gram
    if not isinstance(gram, Dense | Subset):
        page["gram"] = encode_gram(gram)
    arrays: dict[str, np.ndarray] = {"X": data.X.x, "y": data.y}
    optional = {"noise_variance": data.noise_variance, "weight": data.weight, "scatter": data.scatter}
    arrays |= {name: v for name, v in optional.items() if v is not None}
    if isinstance(post, Combination):
        assert isinstance(gram, Committee)
        page["experts"], own = experts_out(post, learned, gram)
        arrays |= own
    else:
        arrays |= _solution_out(with_matrix("save", post), factor, with_inducing="gram" in page)
    if isinstance(post.scale, LocalScale):
        page["scale"], own = _scale_out(post.scale)
        arrays |= own
    if learned is not None:
        page["learned"], own = _learned_out(learned)
        arrays |= own
    arrays["check_mean"], arrays["check_std"] = _check(fit, process)
    given = [fit.origin.arguments.get(name) for name in ("kernel", "mean", "likelihood")]
    return Stored(page, arrays, functions_of(*given, process.model))


def _solution_out(post: Posterior, factor: bool | None, *, with_inducing: bool) -> dict[str, np.ndarray]:
    """Return the weights of a posterior, its inducing inputs and sites if any, and optionally its factor."""
    n, arrays = post.data.rows, {"alpha": post.alpha}
    if with_inducing and isinstance(post.bound, LowRankBound | WhitenedBound):
        arrays["inducing"] = post.bound.Z.x
    if isinstance(post.factor, WhitenedFactor):
        q = post.factor.q
        return arrays | {"q_shift": q.shift, "q_precision": np.stack(q.precision)}
    if not isinstance(post.factor.sites, Noise):
        return arrays | {"shift": post.solved.shift, "sites": _site_numbers(post.factor.sites)}
    if isinstance(post.factor, NoiseFactor) and (factor or (factor is None and 4 * n * (n + 1) <= KEPT)):
        arrays["factor"] = np.concatenate([post.factor.L[j:, j] for j in range(n)])  # the lower triangle by columns
    return arrays


def _learned_out(learned: Learned) -> tuple[Page, dict[str, np.ndarray]]:
    """Return the record of learning."""
    packing = learned.objective.packing
    page: Page = {
        "value": number(learned.value),
        "status": learned.status,
        "seconds": number(learned.seconds),
        "levels": list(learned.levels),
        "jitter": None if learned.objective.jitter is None else number(learned.objective.jitter),
        "scale": {path: number(v) for path, v in packing.scale.items()},
        "ends": [r.status for r in learned.restarts],
        "rivals": [_other_kernel(r.model, learned.model) for r in learned.restarts],
    }
    arrays = {
        "theta": learned.theta,
        "lower": np.maximum(learned.objective.box[0], LOWEST),
        "upper": np.minimum(learned.objective.box[1], -LOWEST),
        "history": np.nan_to_num(np.array(learned.history, np.float64).reshape(-1, 2), nan=LOWEST, neginf=LOWEST),
        **_packed(learned),
        "results": np.nan_to_num(np.array([[r.value, r.steps] for r in learned.restarts], np.float64), neginf=LOWEST),
    }
    if packing.frame is not None:
        page["frame"], arrays["frame"] = list(packing.frame.paths), packing.frame.matrix
    return page, arrays


def _packed(learned: Learned) -> dict[str, np.ndarray]:
    """Return the initial and final parameters of every start, unchanged if they were read from a file."""
    if isinstance(learned, Reread):
        return learned.ends
    ends = {"starts": [r.start for r in learned.restarts], "stops": [r.model for r in learned.restarts]}
    scale = learned.objective.packing.scale
    return {name: np.array([Packing(model, scale=scale).pack(model) for model in models]) for name, models in ends.items()}


def _check(fit: AnyFit, process: Process) -> tuple[np.ndarray, np.ndarray]:
    """Return a few predictions to be compared on loading; only those of the first expert if rows are on disk."""
    post = process.posterior
    x = post.data.X.take(slice(CHECKED))
    if isinstance(post, Combination) and post.on_disk:
        return first_opinion(post.experts, x)
    return moments(fit, process, x.x, latent=True)


def _site_numbers(sites: AbstractSites) -> np.ndarray:
    """Return the parameters of sites; their weights, if any, are those of the data."""
    if isinstance(sites, Softmax):
        return np.asarray(sites.probability)
    assert isinstance(sites, Diagonal | Blocks)
    return np.asarray(sites.precision)


def decode(stored: Stored, fit: Fit[None]) -> Processes:
    """Return the stored processes; raise an error if their parts are inconsistent."""
    page = stored.page
    if "each" not in page:
        return Processes((_decoded(page, stored, fit),))
    agree(fit.classes is not None and len(page["each"]) == len(fit.classes.values), "the classes")
    assert fit.classes is not None
    parts = []
    for i, (inside, label) in enumerate(zip(page["each"], fit.classes.values.tolist(), strict=True)):
        agree("each" not in inside, "the classes")
        own = {k[len(f"m{i}_") :]: a for k, a in stored.arrays.items() if k.startswith(f"m{i}_")}
        one = fit_of(inside, own, stored.functions, stored.beside, fit.family, fit.origin.estimator)
        parts.append(replace(processes(one).first, label=str(label)))
    return Processes(tuple(parts))


def _decoded(page: Page, stored: Stored, fit: Fit[None]) -> Process:
    arrays, functions = stored.arrays, stored.functions
    agree(len(fit.target) == fit.scale.scale.size, "the names of the targets")
    optional = {name: arrays.get(name) for name in ("noise_variance", "weight", "scatter")}
    data = Data(arrays["X"], arrays["y"], **optional)
    agree(all(np.abs(arrays[name]).max(initial=0.0) < LARGE for name in ("y", "shift") if name in arrays), "its observations")
    model = decode_model(page["model"], functions)
    inference = decode_module(page["inference"], INFERENCES) if "inference" in page else Exact()  # the only one in schema 1
    if fit.classes is not None:
        count, likelihood = len(fit.classes.values), model.likelihood
        two = isinstance(likelihood, Bernoulli) and count == 2
        agree(two or (isinstance(likelihood, SoftmaxLikelihood) and count == likelihood.classes), "the classes")
        agree(bool(np.isin(data.y, np.arange(count)).all()), "the classes")
    else:
        agree(fit.scale.scale.shape == (data.y.shape[1:] if isinstance(inference, Exact) else ()), "location and scale")
    model.prior.check(data.X)
    if not isinstance(inference, Exact):
        model.likelihood.check(data.y, "load")
    agree(fit.columns.width == data.X.columns, "the columns")
    said = finite(page["evidence"]), str(page.get("status", "converged"))
    priors = {str(path): decode_prior(p) for path, p in page["priors"].items()}
    gram = decode_gram(page["gram"], arrays.get("inducing")) if "gram" in page else Dense()
    if isinstance(gram, Committee):
        gram = experts_in(page["experts"], arrays, gram, data, fit, stored.beside)
    learned = None
    if page.get("learned") is not None:
        learned = _learned(page["learned"], arrays, model, data, priors, functions, inference, gram)
    if isinstance(gram, Committee):
        packing = learned and learned.objective.packing
        post = committee_again(gram, arrays, model, data, inference, packing, said)
        gram = gram.replace(settled=None)
    else:
        post = _posterior(said, finite(page["jitter"]), arrays, model, data, inference, gram)
    if "scale" in page and isinstance(post, Posterior):
        post = replace(post, scale=_scale_in(page["scale"], arrays, data.X.columns))
    process = Process(post, model, inference, gram, learned, priors, evidence_in_units(post, data, fit.scale))
    mean, std = _check(fit, process) if "inference" in page else moments(fit, process, data.X.x[:CHECKED])
    was, bar = arrays["check_mean"], arrays["check_std"]
    agree(mean.shape == was.shape == std.shape == bar.shape and bool((bar >= 0).all()), "its own predictions")
    near = (np.abs(mean - was) <= 1e-3 * bar + 1e-9 * np.abs(was)).all() and np.allclose(std, bar, rtol=1e-3, atol=1e-9)
    agree(bool(near), "the predictions stored when it was saved")
    return process


def _scale_out(scale: LocalScale) -> tuple[Page, dict[str, np.ndarray]]:
    """Return the local scale of the errors as a record and arrays."""
    post = scale.posterior
    numbers = {name: number(getattr(scale, name)) for name in ("level", "power", "gain")}
    arrays = {"scale_unit": scale.unit, "scale_X": post.data.X.x, "scale_y": post.data.y}
    known = post.data.noise_variance
    assert known is not None
    return {**numbers, "model": encode_model(post.model)}, arrays | {"scale_noise": known}


def _scale_in(record: Page, arrays: dict[str, np.ndarray], columns: int) -> LocalScale:
    """Return the local scale written by :func:`_scale_out`."""
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
    inference: AbstractInference,
    gram: AbstractGram,
) -> AbstractPosterior:
    if "q_shift" in arrays:
        q = Whitened(arrays["q_shift"], tuple(arrays["q_precision"]))
        return condition(Started(model, Memory(q=q)), data, inference=inference, gram=gram)
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
        agree(isinstance(model.likelihood, Gaussian), "its likelihood")
        assert isinstance(model.likelihood, Gaussian)
        factor = NoiseFactor(L, model.likelihood.sites(data), bound.basis, jitter)
        solved = Solved(factor, residual(model, data), np.asfortranarray(arrays["alpha"]), said[0])
    return Posterior(model, data, bound, solved)


@dataclass(frozen=True)
class Reread(Learned):
    """Result of a search read from a file, with its stored vectors ``ends``, which recomputation may not reproduce exactly."""

    ends: dict[str, np.ndarray] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Started:
    """Model with the starting point of its inference."""

    model: Model
    start: Memory
    gram: None = None
    recipe: None = None


def _from_sites(
    said: tuple[float, str], arrays: dict[str, np.ndarray], model: Model, data: Data, gram: AbstractGram
) -> Posterior:
    """Return the posterior of an approximate inference from its stored sites; the factor is recomputed."""
    n, latents = data.rows, model.likelihood.latents
    shape = (n,) if latents == 1 else (n, latents)
    numbers, shift = arrays["sites"], arrays["shift"]
    agree(shift.shape == arrays["alpha"].shape == shape, "the weights")
    if isinstance(model.likelihood, SoftmaxLikelihood):
        agree(numbers.shape == shape and bool((numbers >= 0).all() and (numbers <= 1).all()), "the sites")
        sites: Softmax | Diagonal | Blocks = Softmax(numbers, data.weight)
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


def _other_kernel(model: Model, best: Model) -> str | list[str] | None:
    """Return the kernel of a start if its structure differs from the best model's, else None."""
    return None if _alike(model, best) else encode_model(model)["kernel"]


def _alike(a: Model, b: Model) -> bool:
    """Return whether two models differ only in parameter values."""
    return jax.tree_util.tree_structure(without_marks(a)) == jax.tree_util.tree_structure(without_marks(b))


def _learned(
    record: Page,
    arrays: dict[str, np.ndarray],
    model: Model,
    data: Data,
    priors: Mapping[str, Prior],
    functions: Functions,
    inference: AbstractInference,
    gram: AbstractGram | Committee,
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
    represented = gram.gram if isinstance(gram, Committee) else gram
    problem = Objective(packing, Priors(model, priors), data, inference, represented, None, (lower, upper))
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
    agree("hessian" not in arrays or arrays["hessian"].shape == (packing.size,) * 2, "the curvature of its evidence")
    return Reread(
        model,
        *numbers,
        levels=levels,
        history=history,
        restarts=tuple(restarts),
        objective=problem,
        theta=theta,
        jitter=jitter,
        gram=gram,
        thetas=arrays.get("expert_thetas"),
        curvature=arrays.get("hessian"),
        ends={name: arrays[name] for name in ("starts", "stops")},
    )
