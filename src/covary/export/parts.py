"""Fitted models taken apart: the arrays an exported file holds, and the lines that put them together again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import linalg

from covary._checks import fail
from covary._words import counted
from covary.export.kernels import WHO, call, source, text
from covary.gram.conditionals import VecchiaBound, residual
from covary.gram.dense import DenseBound, DiagonalFactor, NoiseFactor
from covary.gram.low_rank import LowRankBound
from covary.gram.markov import MarkovBound
from covary.gram.softmax import SoftmaxFactor
from covary.inference.whitened import WhitenedBound
from covary.likelihoods.averages import mixture
from covary.likelihoods.bernoulli import Bernoulli
from covary.likelihoods.gaussian import Gaussian
from covary.likelihoods.quadrature import hermite
from covary.likelihoods.softmax import Softmax
from covary.likelihoods.softmax import _spread as spread_points
from covary.means.functions import Constant, Linear, Zero

ENTRIES = 2**22  # numbers held at a time while predicting
SECONDS = {"years": 31_557_600, "days": 86_400, "hours": 3600, "seconds": 1}


@dataclass
class Parts:
    """What goes into a file: constants, arrays by name, functions to copy, and lines of its own."""

    constants: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)  # lines below the arrays
    names: set[str] = field(default_factory=set)  # functions to copy beyond those the lines call
    rows: int = ENTRIES

    def keep(self, name: str, value: Any) -> str:
        """An array in the file, and how the lines call it."""
        self.arrays[name] = np.ascontiguousarray(np.asarray(value, np.float64))
        return f'ARRAYS["{name}"]'


def take_apart(model: Any, std: bool) -> Parts:
    """The parts of a fitted estimator; what has none is refused in a sentence."""
    if hasattr(model, "classes_"):
        return _classifier(model)
    likelihood = model.model_.likelihood
    if not isinstance(likelihood, Gaussian):
        what = f"the model has a {type(likelihood).__name__} likelihood"
        raise fail(WHO, what, "export goes with Gaussian noise and with classes; save the model with model.save(...) instead")
    if std and model.posterior_.scale is not None:
        what = "the error bars of the model vary from place to place"
        raise fail(WHO, what, "export the mean alone (std=False), fit with local_errors=False, or save the model instead")
    parts = Parts(names={"regression_predict", "regression_answer"})
    outputs = model.posterior_.data.y.shape[1:]
    parts.constants |= {
        "TARGETS": repr(_targets(model, int(np.prod(outputs)) if outputs else 1)),
        "STD": repr(std),
        "NOISE": text(likelihood.variance),
        "LOCATION": _number(model._location),
        "SCALE": _number(model._scale),
    }
    _posterior(parts, model, "", std)
    return parts


def _number(value: Any) -> str:
    return text(value) if np.ndim(value) == 0 else f"np.array({text(value)})"


def _targets(model: Any, count: int) -> list[str]:
    names = getattr(model, "target_names_", None)
    return [str(n) for n in names] if names is not None else ["y"] if count == 1 else [f"y{j + 1}" for j in range(count)]


def columns_of(model: Any) -> list[dict[str, Any]]:
    """The table the model wants, column by column, as the file describes it."""
    known = getattr(model, "columns_", None)
    if known is None:
        names = getattr(model, "feature_names_in_", None)
        return [{"name": None if names is None else str(names[j]), "kind": "number"} for j in range(model.n_features_in_)]
    found = []
    for column in known.each:
        what: dict[str, Any] = {"name": column.name if known.named else None, "kind": column.kind}
        if column.kind == "duration" or column.aware:
            words = "durations" if column.kind == "duration" else "dates with a time zone"
            raise fail(WHO, f"column {column.name!r} holds {words}", "turn it into numbers before the fit, or save the model")
        if column.kind == "category":
            what["levels"] = [str(level) for level in column.levels]
        if column.kind == "date":
            what |= {"origin": str(column.origin), "seconds": SECONDS[column.unit]}
        if column.fill is not None:
            what["fill"] = float(column.fill)
        if column.indicator:
            what["indicator"] = True
        found.append(what)
    return found


# the posterior --------------------------------------------------------------------------------------------------------
def _posterior(parts: Parts, model: Any, tag: str, std: bool) -> None:
    """The lines of ``kernel``, ``mean_function`` and ``posterior`` (with a tag behind their names) of one model."""
    post = model.posterior_
    bound, d = post.bound, post.data.X.columns
    if post.data.X.tags:
        raise fail(WHO, "the inputs carry tags", "export goes with plain columns; save the model instead")
    if bound.basis is not None:
        raise fail(WHO, "the model has explicit basis functions", "use a mean function, or save the model instead")
    kernels = bound.kernels
    for i, kernel in enumerate(kernels):
        name = f"kernel{tag}" if len(kernels) == 1 else f"kernel{tag}_{i}"
        parts.lines += ["", "", f"def {name}(x, z):", f"    return {source(kernel, 'x', 'z', d)}"]
    parts.lines += ["", "", f"def mean_function{tag}(x):", f"    return {_mean(model.model_.mean)}"]
    kind = next((k for k in RULES if isinstance(bound, k)), None)
    if kind is None:
        name = "Markov" if isinstance(bound, MarkovBound) else type(bound).__name__.removesuffix("Bound")
        do = "fit it with method='exact', 'low_rank' or 'vecchia', or save it with model.save(...) instead"
        raise fail(WHO, f"the model was fitted with the method {name}, whose predictions are no sum over rows", do)
    expression = RULES[kind](parts, post, tag, std)
    parts.lines += ["", "", f"def posterior{tag}(x, variance):", f"    return {expression}"]


def _mean(mean: Any) -> str:
    if isinstance(mean, Zero):
        return "np.zeros(len(x))"
    if isinstance(mean, Constant):
        return f"np.full(len(x), {text(mean.value)})"
    if isinstance(mean, Linear):
        return f"x @ np.broadcast_to(np.array({text(mean.weight)}), x.shape[1:]) + {text(mean.value)}"
    what = f"the mean is a {type(mean).__name__}, which holds a function of your own"
    raise fail(WHO, what, "use mean='zero', 'constant' or 'linear', or save the model instead")


def inverse_of(L: Any) -> np.ndarray:
    """The inverse of a lower triangle."""
    L = np.tril(np.asarray(L, np.float64))
    return np.tril(linalg.solve_triangular(L, np.eye(len(L)), lower=True, check_finite=False))


def _dense(parts: Parts, post: Any, tag: str, std: bool) -> str:
    """From the factor of K + S, or of I + W^½ K W^½ and the weights W^½."""
    factor, X = post.factor, parts.keep(f"X{tag}", post.data.X.x)
    parts.rows = min(parts.rows, max(1, ENTRIES // post.data.rows))
    if isinstance(factor, SoftmaxFactor):
        names = [f"kernel{tag}_{c}" if len(post.bound.kernels) > 1 else f"kernel{tag}" for c in range(factor.C)]
        E = [parts.keep(f"E{c}{tag}", np.tril(part)) for c, part in enumerate(factor.E)]
        parts.after.append(f"E{tag} = [lower + np.tril(lower, -1).T for lower in ({', '.join(E)})]")
        L = parts.keep(f"L{tag}", np.tril(factor.M))
        parts.rows = min(parts.rows, max(1, ENTRIES // (factor.C * factor.n)))
        return call("from_softmax", "x", f"[{', '.join(names)}]", X, parts.keep(f"alpha{tag}", post.alpha), f"E{tag}", L)
    if not isinstance(factor, NoiseFactor | DiagonalFactor):
        raise fail(WHO, f"the posterior is a {type(factor).__name__}", "save the model with model.save(...) instead")
    weight = parts.keep(f"weight{tag}", factor.root) if isinstance(factor, DiagonalFactor) else "None"
    L = parts.keep(f"L{tag}", np.tril(np.asarray(factor.L))) if std else "None"
    return call("from_rows", "x", f"kernel{tag}", X, parts.keep(f"alpha{tag}", post.alpha), L, weight, "variance")


def _low_rank(parts: Parts, post: Any, tag: str, std: bool) -> str:
    bound, rule = post.bound, post.bound.gram.rule
    if rule in ("sor+", "nystrom"):
        raise fail(WHO, f"the model was fitted with LowRank(rule={rule!r})", "use rule='fitc', 'vfe', 'dtc' or 'sor'")
    parts.rows = min(parts.rows, max(1, ENTRIES // bound.rank))
    held = parts.keep(f"root{tag}", inverse_of(post.factor.L)) if std else "None"
    arrays = [("Z", bound.Z.x), ("whiten", np.tril(bound.inverse_root)), ("means", bound.mean_weights(post.solved))]
    kept = [parts.keep(f"{name}{tag}", value) for name, value in arrays]
    return call("from_inducing", "x", f"kernel{tag}", *kept, held, rule != "sor", "variance")


def _whitened(parts: Parts, post: Any, tag: str, std: bool) -> str:
    """Variational, in batches; one latent function."""
    bound, q = post.bound, post.factor.q
    if bound.latents != 1:
        what = f"the model has {counted(bound.latents, 'latent function')}, fitted in batches"
        raise fail(WHO, what, "use multi_class='one_vs_rest', or method='exact'")
    parts.rows = min(parts.rows, max(1, ENTRIES // bound.Z.rows))
    arrays = [("Z", bound.Z.x), ("whiten", np.tril(bound.inverses[0])), ("means", q.means[:, 0])]
    kept = [parts.keep(f"{name}{tag}", value) for name, value in arrays]
    root = parts.keep(f"root{tag}", np.tril(q.inverses[0]))
    return call("from_inducing", "x", f"kernel{tag}", *kept, root, True, "variance")


def _vecchia(parts: Parts, post: Any, tag: str, std: bool) -> str:
    bound, factor = post.bound, post.factor
    count = min(bound.gram.predictors, post.data.rows)
    parts.rows = min(parts.rows, max(1, ENTRIES // (count + 1) ** 2))
    arrays = [("X", post.data.X.x), ("rest", residual(factor, post.solved.shift)), ("noise", factor.spread)]
    kept = [parts.keep(f"{name}{tag}", value) for name, value in [*arrays, ("scale", bound.settled.scale)]]
    return call("from_neighbours", "x", f"kernel{tag}", *kept, count, text(bound.gram.jitter), "variance")


RULES = {DenseBound: _dense, LowRankBound: _low_rank, WhitenedBound: _whitened, VecchiaBound: _vecchia}


# classes ----------------------------------------------------------------------------------------------------------------
def _classifier(model: Any) -> Parts:
    parts = Parts(names={"classes_predict", "classes_predict_proba", "classes_answer"})
    parts.constants["CLASSES"] = repr(model.classes_.tolist())
    if not hasattr(model, "estimators_"):
        _posterior(parts, model, "", True)
        parts.lines += ["", "", "def probabilities(x):", *_probabilities(parts, model, "")]
        return parts
    for i, one in enumerate(model.estimators_):
        _posterior(parts, one, f"_{i}", True)
        parts.lines += ["", "", f"def probabilities_{i}(x):", *_probabilities(parts, one, f"_{i}")]
    each = ", ".join(f"probabilities_{i}(x)[:, 1]" for i in range(len(model.estimators_)))
    parts.lines += ["", "", "def probabilities(x):", f"    p = np.maximum(np.stack([{each}], axis=1), np.finfo(float).tiny)"]
    parts.lines.append("    return p / p.sum(1, keepdims=True)")
    return parts


def _probabilities(parts: Parts, model: Any, tag: str) -> list[str]:
    likelihood = model.model_.likelihood
    if isinstance(likelihood, Softmax):
        head = f"    mean, variance = posterior{tag}(x, True)"
        if not isinstance(model.posterior_.factor, SoftmaxFactor):
            what = "the classes were fitted together through inducing inputs"
            raise fail(
                WHO, what, "use multi_class='one_vs_rest' or method='exact', or save the model with model.save(...) instead"
            )
        if likelihood.classes > 3:
            points, _ = spread_points(likelihood.classes - 1)
            half = parts.keep("points", points[: len(points) // 2])
            return [head, f"    return {call('softmax_of_many', 'mean', 'variance', half)}"]
        points, weights = hermite(48)
        held = parts.keep("points", points), parts.keep("weights", weights)
        return [head, f"    return {call('softmax', 'mean', 'variance', *held)}"]
    assert isinstance(likelihood, Bernoulli)
    rest: tuple[str, ...] = ()
    if likelihood.link == "logit":
        widths, log_weights = mixture()
        rest = parts.keep("widths", widths), parts.keep("weights", np.exp(log_weights))
        parts.rows = min(parts.rows, max(1, ENTRIES // len(widths)))
    ends = [call(likelihood.link, sign, "variance", *rest) for sign in ("-mean", "mean")]
    return [
        f"    mean, variance = posterior{tag}(x, True)",
        f"    mean = mean + mean_function{tag}(x)",
        f"    return np.stack([{ends[0]}, {ends[1]}], axis=1)",
    ]
