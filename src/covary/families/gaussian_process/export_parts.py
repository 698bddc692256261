"""Parts of an exported predictor: the arrays of a fitted model, and the code lines that use them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from covary._checks import fail
from covary._errors import Option
from covary._words import counted
from covary.export.kernels import SAVE, WHO, call, source, text
from covary.families.gaussian_process.processes import Process, Processes
from covary.fits import Fit, Labels
from covary.gram.dense import DenseBound, DiagonalFactor, NoiseFactor
from covary.gram.low_rank import LowRankBound, LowRankFactor
from covary.gram.markov import MarkovBound
from covary.gram.softmax import SoftmaxFactor
from covary.gram.vecchia.conditionals import VecchiaBound, VecchiaFactor, residual
from covary.inference.svgp.whitened import WhitenedBound, WhitenedFactor
from covary.likelihoods.averages import mixture
from covary.likelihoods.bernoulli import Bernoulli
from covary.likelihoods.gaussian import Gaussian
from covary.likelihoods.quadrature import hermite
from covary.likelihoods.softmax import Softmax
from covary.likelihoods.softmax import _spread as spread_points
from covary.means.functions import AbstractMean, Constant, Linear, Zero
from covary.posterior import Posterior, with_matrix
from covary.tables.column import UNITS

ENTRIES = 2**22  # numbers held at a time while predicting


@dataclass
class Parts:
    """Content of a file: constants, arrays by name, functions to copy, and code lines."""

    constants: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)  # lines below the arrays
    names: set[str] = field(default_factory=set)  # functions to copy in addition to those that the lines call
    rows: int = ENTRIES

    def keep(self, name: str, value: ArrayLike) -> str:
        """Add an array to the file; return the expression for it."""
        self.arrays[name] = np.ascontiguousarray(np.asarray(value, np.float64))
        return f'ARRAYS["{name}"]'


def take_apart(fit: Fit[Processes], std: bool) -> Parts:
    """Return the parts of a fitted model; raise an error if it cannot be exported."""
    if fit.classes is not None:
        return _classifier(fit.state, fit.classes)
    process = fit.state.first
    likelihood = process.model.likelihood
    if not isinstance(likelihood, Gaussian):
        what = f"the model has a {type(likelihood).__name__} likelihood"
        raise fail(WHO, what, "only models with Gaussian noise or classes can be exported; " + SAVE)
    if std and process.posterior.scale is not None:
        what = "the error bars of the model vary with the inputs"
        raise fail(
            WHO,
            what,
            "export the mean alone with "
            + Option("std", "False")
            + ", fit with "
            + Option("local_errors", "False")
            + ", or "
            + SAVE,
        )
    parts = Parts(names={"regression_predict", "regression_answer"})
    parts.constants |= {
        "TARGETS": repr(list(fit.target)),
        "STD": repr(std),
        "NOISE": text(likelihood.variance),
        "LOCATION": _number(fit.scale.location),
        "SCALE": _number(fit.scale.scale),
    }
    _posterior(parts, process, "", std)
    return parts


def _number(value: ArrayLike) -> str:
    return text(value) if np.ndim(value) == 0 else f"np.array({text(value)})"


Described = dict[str, str | float | bool | list[str] | None]  # a column, as the file describes it


def columns_of(fit: Fit[Processes]) -> list[Described]:
    """Return descriptions of the input columns for the file."""
    found = []
    for column in fit.columns.each:
        what: Described = {"name": column.name if fit.columns.named else None, "kind": column.kind}
        if column.kind == "duration" or column.aware:
            words = "durations" if column.kind == "duration" else "dates with a time zone"
            raise fail(
                WHO, f"column {column.name!r} contains {words}", "turn it into numbers before the fit, or save the model"
            )
        if column.kind == "category":
            what["levels"] = [str(level) for level in column.levels]
        if column.kind == "date":
            what |= {"origin": str(column.origin), "seconds": int(UNITS[column.unit])}
        if column.fill is not None:
            what["fill"] = float(column.fill)
        if column.indicator:
            what["indicator"] = True
        found.append(what)
    return found


# the posterior --------------------------------------------------------------------------------------------------------
def _posterior(parts: Parts, process: Process, tag: str, std: bool) -> None:
    """Add ``kernel``, ``mean_function`` and ``posterior`` of one model, with ``tag`` appended to their names."""
    post = process.posterior
    do = "fit it with " + Option("method", "'exact'", "'low_rank'", "'vecchia'") + ", or " + SAVE
    if not isinstance(post, Posterior):
        raise fail(WHO, f"the model was fitted with the method {post.kind}, which cannot be exported", do)
    bound, d = post.bound, post.data.X.columns
    if post.data.X.tags:
        raise fail(WHO, "the inputs have tags", "only plain columns can be exported; " + SAVE)
    if bound.basis is not None:
        raise fail(WHO, "the model has explicit basis functions", "use a mean function, or " + SAVE)
    kernels = bound.kernels
    for i, kernel in enumerate(kernels):
        name = f"kernel{tag}" if len(kernels) == 1 else f"kernel{tag}_{i}"
        parts.lines += ["", "", f"def {name}(x, z):", f"    return {source(kernel, 'x', 'z', d)}"]
    parts.lines += ["", "", f"def mean_function{tag}(x):", f"    return {_mean(process.model.mean)}"]
    kind = next((k for k in RULES if isinstance(bound, k)), None)
    if kind is None:
        name = "Markov" if isinstance(bound, MarkovBound) else type(bound).__name__.removesuffix("Bound")
        raise fail(WHO, f"the model was fitted with the method {name}, which cannot be exported", do)
    expression = RULES[kind](parts, post, tag, std)
    parts.lines += ["", "", f"def posterior{tag}(x, variance):", f"    return {expression}"]


def _mean(mean: AbstractMean) -> str:
    if isinstance(mean, Zero):
        return "np.zeros(len(x))"
    if isinstance(mean, Constant):
        return f"np.full(len(x), {text(mean.value)})"
    if isinstance(mean, Linear):
        return f"x @ np.broadcast_to(np.array({text(mean.weight)}), x.shape[1:]) + {text(mean.value)}"
    what = f"the mean is a {type(mean).__name__}, which contains a function of your own"
    raise fail(WHO, what, "use " + Option("mean", "'zero'", "'constant'", "'linear'") + ", or " + SAVE)


def inverse_of(L: ArrayLike) -> np.ndarray:
    """Return the inverse of a lower-triangular matrix."""
    L = np.tril(np.asarray(L, np.float64))
    return np.tril(linalg.solve_triangular(L, np.eye(len(L)), lower=True, check_finite=False))


def _dense(parts: Parts, post: Posterior, tag: str, std: bool) -> str:
    """Return the expression for the factor of K + S, or for that of I + W^½ K W^½ with the weights W^½."""
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
        raise fail(WHO, f"the posterior is a {type(factor).__name__}", SAVE)
    weight = parts.keep(f"weight{tag}", factor.root) if isinstance(factor, DiagonalFactor) else "None"
    L = parts.keep(f"L{tag}", np.tril(np.asarray(factor.L))) if std else "None"
    return call("from_rows", "x", f"kernel{tag}", X, parts.keep(f"alpha{tag}", post.alpha), L, weight, "variance")


def _low_rank(parts: Parts, post: Posterior, tag: str, std: bool) -> str:
    bound, factor = post.bound, post.factor
    assert isinstance(bound, LowRankBound)
    assert isinstance(factor, LowRankFactor)
    rule = bound.gram.rule
    if rule in ("sor+", "nystrom"):
        raise fail(
            WHO,
            "the model was fitted with " + Option("rule", repr(rule)),
            "use " + Option("rule", "'fitc'", "'vfe'", "'dtc'", "'sor'"),
        )
    parts.rows = min(parts.rows, max(1, ENTRIES // bound.rank))
    held = parts.keep(f"root{tag}", inverse_of(factor.L)) if std else "None"
    arrays = [("Z", bound.Z.x), ("whiten", np.tril(bound.inverse_root)), ("means", bound.mean_weights(post.solved))]
    kept = [parts.keep(f"{name}{tag}", value) for name, value in arrays]
    return call("from_inducing", "x", f"kernel{tag}", *kept, held, rule != "sor", "variance")


def _whitened(parts: Parts, post: Posterior, tag: str, std: bool) -> str:
    """Return the expression for variational inference in batches, with one latent function."""
    bound, factor = post.bound, post.factor
    assert isinstance(bound, WhitenedBound)
    assert isinstance(factor, WhitenedFactor)
    q = factor.q
    if bound.latents != 1:
        what = f"the model has {counted(bound.latents, 'latent function')}, fitted in batches"
        raise fail(WHO, what, "use " + Option("multi_class", "'one_vs_rest'") + ", or " + Option("method", "'exact'"))
    parts.rows = min(parts.rows, max(1, ENTRIES // bound.Z.rows))
    arrays = [("Z", bound.Z.x), ("whiten", np.tril(bound.inverses[0])), ("means", q.means[:, 0])]
    kept = [parts.keep(f"{name}{tag}", value) for name, value in arrays]
    root = parts.keep(f"root{tag}", np.tril(q.inverses[0]))
    return call("from_inducing", "x", f"kernel{tag}", *kept, root, True, "variance")


def _vecchia(parts: Parts, post: Posterior, tag: str, std: bool) -> str:
    bound, factor = post.bound, post.factor
    assert isinstance(bound, VecchiaBound)
    assert isinstance(factor, VecchiaFactor)
    count = min(bound.gram.predictors, post.data.rows)
    parts.rows = min(parts.rows, max(1, ENTRIES // (count + 1) ** 2))
    arrays = [("X", post.data.X.x), ("rest", residual(factor, post.solved.shift)), ("noise", factor.spread)]
    kept = [parts.keep(f"{name}{tag}", value) for name, value in [*arrays, ("scale", bound.settled.scale)]]
    return call("from_neighbours", "x", f"kernel{tag}", *kept, count, text(bound.gram.jitter), "variance")


RULES = {DenseBound: _dense, LowRankBound: _low_rank, WhitenedBound: _whitened, VecchiaBound: _vecchia}


# classes ----------------------------------------------------------------------------------------------------------------
def _classifier(state: Processes, labels: Labels) -> Parts:
    parts = Parts(names={"classes_predict", "classes_predict_proba", "classes_answer"})
    parts.constants["CLASSES"] = repr(labels.values.tolist())
    if len(state.parts) == 1:
        _posterior(parts, state.first, "", True)
        parts.lines += ["", "", "def probabilities(x):", *_probabilities(parts, state.first, "")]
        return parts
    for i, one in enumerate(state.parts):
        _posterior(parts, one, f"_{i}", True)
        parts.lines += ["", "", f"def probabilities_{i}(x):", *_probabilities(parts, one, f"_{i}")]
    each = ", ".join(f"probabilities_{i}(x)[:, 1]" for i in range(len(state.parts)))
    parts.lines += ["", "", "def probabilities(x):", f"    p = np.maximum(np.stack([{each}], axis=1), np.finfo(float).tiny)"]
    parts.lines.append("    return p / p.sum(1, keepdims=True)")
    return parts


def _probabilities(parts: Parts, process: Process, tag: str) -> list[str]:
    likelihood = process.model.likelihood
    if isinstance(likelihood, Softmax):
        head = f"    mean, variance = posterior{tag}(x, True)"
        if not isinstance(with_matrix(WHO, process.posterior).factor, SoftmaxFactor):
            what = "the classes were fitted together through inducing inputs"
            raise fail(
                WHO,
                what,
                "use " + Option("multi_class", "'one_vs_rest'") + " or " + Option("method", "'exact'") + ", or " + SAVE,
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
