"""Export of a predictor as a Python file: its arrays and code lines, and the comparison of its predictions with the model's."""

from __future__ import annotations

import base64
import datetime
import os
import re
import zlib
from dataclasses import dataclass, field
from types import ModuleType

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from covary._checks import CovaryError, fail
from covary._errors import Option
from covary._version import __version__
from covary._words import GAPS, counted
from covary._write import whole_file
from covary.data import Inputs
from covary.export.copied import MODULES, copies
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
from covary.posterior import Posterior, class_probabilities, with_matrix
from covary.tables.column import UNITS

MOST = 2**26  # bytes of arrays in a file, enough for 4,096 rows with error bars
CHECKED = 64  # rows at which a file is compared with the model when it is written
WIDE = 116  # characters in a line of packed numbers
ENTRIES = 2**22  # numbers held at a time while predicting


def write_predictor(
    fit: Fit[Processes], path: str | os.PathLike[str], *, std: bool = True, tolerance: float = 1e-10
) -> dict[str, float]:
    """Write the predictor of a Gaussian process; see :func:`covary.export.export_model`."""
    parts = take_apart(fit, std)
    size = sum(a.nbytes // (2 if _lower(a) else 1) for a in parts.arrays.values())
    if size > MOST:
        do = (
            "give "
            + Option("std", "False")
            + ", which leaves the error bars out, or fit with "
            + Option("method", "'low_rank'", "'vecchia'")
        )
        raise fail(WHO, f"the file would hold {size / 2**20:.0f} MiB of numbers (at most {MOST // 2**20})", do)
    columns = columns_of(fit)
    body = _body(parts, columns)
    off = _compare(fit, body, std)
    worst = max(off.values())
    if not worst <= tolerance:
        what = f"predictions would differ from the model's by {worst:.0e} of the scale of y: the matrix is nearly singular"
        raise fail(WHO, what, "allow more noise, or give " + Option("tolerance", f"{10.0 ** np.ceil(np.log10(worst)):.0e}"))
    with whole_file(path, WHO, stream=True) as handle:
        handle.write((_head(fit, columns, off) + body).encode("utf-8", "backslashreplace"))
    return off


# the text of the file ---------------------------------------------------------------------------------------------------
def _head(fit: Fit[Processes], columns: list[Described], off: dict[str, float]) -> str:
    """Return the head of the file, with a docstring that describes it."""
    part = fit.state.first
    kernel, names = part.model.kernel, [c["name"] for c in columns]
    rows = counted(part.posterior.data.rows, "row")
    facts = {"model": f"{fit.origin.estimator}, method {fit.method.name}, {rows}"}
    facts["kernel"] = "; ".join(map(repr, kernel)) if isinstance(kernel, tuple) else repr(kernel)
    if fit.classes is not None:
        facts["classes"] = ", ".join(map(str, fit.classes.values.tolist()))
        use = "predict_proba; p = predict_proba(X)"
    else:
        noise = f"standard deviation {np.sqrt(part.model.noise):.6g}"
        facts["noise"] = noise + (" of standardised outputs" if fit.scale.scale.ndim else "")
        use = "predict; mean, std = predict(X, return_std=True)" if "std" in off else "predict; mean = predict(X)"
    facts["columns"] = f"{len(names)}, without names" if None in names else ", ".join(map(_described, columns))
    facts["checked"] = ", ".join(f"{name} within {value:.0e}" for name, value in off.items()) + " of the model's"
    lines = [f"Predictions of a covary model, with NumPy alone. Written by covary {__version__}, {datetime.date.today()}.", ""]
    lines += [f"    {name:<9}{_cut(value)}" for name, value in facts.items()]
    lines += ["", f"    from predictor import {use}", "    python predictor.py new.csv predictions.csv"]
    text = "\n".join(lines).replace("\\", "/").replace('"""', "'''")
    return f'#!/usr/bin/env python3\n"""{text}\n"""\n'


def _described(column: Described) -> str:
    return str(column["name"]) if column["kind"] in ("number", "boolean") else f"{column['name']} ({column['kind']})"


def _cut(text: str) -> str:
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= 1000 else text[:997] + "..."


def _body(parts: Parts, columns: list[Described]) -> str:
    """Return the file below its head."""
    constants = {"COLUMNS": _spread(columns), "GAPS": repr(GAPS), "ROWS": repr(parts.rows), **parts.constants}
    own = "\n".join(parts.lines)
    copied = copies({*parts.names, "unpack", "main", *re.findall(r"\b([a-z]\w*)\(", own)})
    head = ["from __future__ import annotations", "", *(f"import {m}" for m in MODULES)]
    head += ["from pathlib import Path", "from typing import Any", "", "import numpy as np", ""]
    head += [f"{name} = {value}" for name, value in constants.items()]
    arrays = ["", "", "ARRAYS = {", *(_packed(name, a) for name, a in parts.arrays.items()), "}"]
    arrays += parts.after
    end = ["", "", 'if __name__ == "__main__":', "    sys.exit(main(sys.argv[1:]))", ""]
    return "\n".join(head) + copied + own + "\n".join(arrays + end)


def _spread(columns: list[Described]) -> str:
    return "[\n" + "".join(f"    {c!r},\n" for c in columns) + "]"


def _lower(a: np.ndarray) -> bool:
    return a.ndim == 2 and a.shape[0] == a.shape[1] > 1 and not np.triu(a, 1).any()


def _packed(name: str, a: np.ndarray) -> str:
    flat = a[np.tril_indices(len(a))] if _lower(a) else a.ravel()
    text = base64.b64encode(zlib.compress(flat.astype("<f8").tobytes(), 6)).decode()
    lines = [f'        "{text[i : i + WIDE]}"' for i in range(0, len(text), WIDE)]
    return f'    "{name}": unpack(\n        {a.shape},\n' + "\n".join(lines) + ",\n    ),"


# comparison with the model ----------------------------------------------------------------------------------------------
def _compare(fit: Fit[Processes], body: str, std: bool) -> dict[str, float]:
    """Return the largest differences between predictions of the file and of the model, at inputs between rows of the data."""
    space = vars(ModuleType("exported"))
    exec(compile(body, "exported predictor", "exec"), space)
    space["matrix"] = lambda X: X
    x, posteriors = _places(fit, columns_of(fit)), fit.state.posteriors
    if fit.classes is not None:
        p = class_probabilities(posteriors, [post.predict(x).f for post in posteriors])
        return {"probability": float(np.abs(space["predict_proba"](x) - p).max())}
    units, post = fit.scale.scale, fit.state.first.posterior
    scale = np.std(post.data.y, axis=0) * units
    scale = np.where(scale > 0, scale, 1.0)
    if not std:
        mean = post.mean(x) * units + fit.scale.location
        return {"mean": float((np.abs(space["predict"](x) - mean) / scale).max())}
    y = post.predict(x).y
    there = y.mean * units + fit.scale.location, (y.std if y.mean.ndim == 1 else y.std[:, None]) * units
    here = space["predict"](x, return_std=True)
    return {name: float((np.abs(a - b) / scale).max()) for name, a, b in zip(("mean", "std"), here, there, strict=True)}


def _places(fit: Fit[Processes], columns: list[Described]) -> np.ndarray:
    """Return inputs for the comparison: between pairs of rows for numbers and dates, equal to rows in other columns."""
    part = fit.state.first
    X, rng = np.asarray(part.posterior.data.X.x, np.float64), np.random.default_rng(0)
    a, b = (X[rng.integers(0, len(X), CHECKED)] for _ in range(2))
    kinds = [c["kind"] for c in columns] + ["boolean"] * (X.shape[1] - len(columns))  # missing-value indicators come last
    between = a + rng.random((CHECKED, 1)) * (b - a)
    x = np.where([kind in ("number", "date") for kind in kinds], between, a)
    try:
        part.model.prior.check(Inputs(x))
    except CovaryError:  # codes, which have no values in between
        return a
    return x


# the parts of the file -------------------------------------------------------------------------------------------------
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
        about: Described = {"name": column.name if fit.columns.named else None, "kind": column.kind}
        if column.kind == "duration" or column.aware:
            words = "durations" if column.kind == "duration" else "dates with a time zone"
            what = f"column {column.name!r} contains {words}"
            raise fail(WHO, what, "turn it into numbers before the fit, or save the model")
        if column.kind == "category":
            about["levels"] = [str(level) for level in column.levels]
        if column.kind == "date":
            about |= {"origin": str(column.origin), "seconds": int(UNITS[column.unit])}
        if column.fill is not None:
            about["fill"] = float(column.fill)
        if column.indicator:
            about["indicator"] = True
        found.append(about)
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
        what = "the model was fitted with " + Option("rule", repr(rule))
        raise fail(WHO, what, "use " + Option("rule", "'fitc'", "'vfe'", "'dtc'", "'sor'"))
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
            do = "use " + Option("multi_class", "'one_vs_rest'") + " or " + Option("method", "'exact'") + ", or " + SAVE
            raise fail(WHO, what, do)
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
