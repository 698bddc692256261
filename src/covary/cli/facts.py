"""What is said about a fitted model: parameters with error bars, and how relevant each input column is."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from covary.cli.words import in_options

SPOKEN = ("warning", "note", "season", "method")  # facts that give advice
A_MINUTE = 60.0  # seconds that error bars may take unless they are asked for


def parts_of(estimator: Any) -> list[Any]:
    """The models inside: one, or one for each class against the rest."""
    return list(getattr(estimator, "estimators_", [estimator]))


def likelihood_name(estimator: Any) -> str:
    """What ``--likelihood`` calls it."""
    from covary.estimators.observed import NAMES

    if hasattr(estimator, "classes_"):
        return "classes"
    kind = type(estimator.model_.likelihood)
    return next((name for name, known in NAMES.items() if known is kind), kind.__name__)


def model_facts(estimator: Any) -> dict[str, Any]:
    """What a model is, for JSON; ``noise_std`` is that of Gaussian noise, null otherwise."""
    parts = parts_of(estimator)
    likelihood, classes = parts[0].model_.likelihood, None
    kernels = [k for part in parts for k in _kernels(part)]
    if hasattr(estimator, "classes_"):
        pairs = zip(estimator.classes_.tolist(), estimator.class_count_.tolist(), strict=True)
        classes = [{"class": label, "count": int(n) if n == int(n) else n} for label, n in pairs]
    name = likelihood_name(estimator)
    return {
        "task": "regression" if classes is None else "classification",
        "likelihood": name,
        "link": getattr(likelihood, "link", None),
        "inference": type(parts[0].inference_).__name__.lower(),
        "method": {"name": parts[0].method_.name, "why": parts[0].method_.why},
        "classes": classes,
        "kernel": repr(kernels[0]) if len(kernels) == 1 else [repr(k) for k in kernels],
        "log_evidence": float(estimator.log_marginal_likelihood_),
        "noise_std": float(np.sqrt(likelihood.variance)) if name == "gaussian" else None,
    }


def _kernels(part: Any) -> tuple[Any, ...]:
    kernel = part.model_.kernel
    return kernel if isinstance(kernel, tuple) else (kernel,)


def error_bar_seconds(estimator: Any) -> float:
    """How long error bars would take: two evaluations on all rows per parameter, judged by how learning went."""
    total = 0.0
    for learned in (part.learned_ for part in parts_of(estimator)):
        if learned is not None and learned.history and "hessian" not in vars(learned):
            dense = part_is_dense(learned)
            work = sum(_work(rows, dense) for rows, _ in learned.history)
            total += 2 * len(learned.theta) * _work(learned.levels[-1], dense) * learned.seconds / work
    return total


def part_is_dense(learned: Any) -> bool:
    """Whether all rows were handled by one dense matrix."""
    return learned.gram is None or type(learned.gram).__name__ == "Dense"


def _work(rows: int, dense: bool) -> float:
    return float(rows) ** 2 * (rows + 2000.0) if dense else float(rows)


def summary_of(estimator: Any, *, error_bars: bool) -> Any:
    """The estimator's own summary, with error bars or with none."""
    if error_bars:
        return estimator.summary()
    found = _bare(estimator).summary()
    return dataclasses.replace(found, rows=tuple(dataclasses.replace(row, error="") for row in found.rows))


def _bare(estimator: Any) -> Any:
    """A copy whose error bars are not to be computed."""
    bare = copy.copy(estimator)
    if hasattr(estimator, "estimators_"):
        bare.estimators_ = [_bare(part) for part in estimator.estimators_]
    elif estimator.learned_ is not None:
        bare.learned_ = dataclasses.replace(estimator.learned_)
        vars(bare.learned_)["log_errors"] = {}  # it is computed on first access, unless it is there
    return bare


def parameter_facts(estimator: Any, summary: Any, *, error_bars: bool) -> list[dict[str, Any]]:
    """Every parameter with its number, its error bar and what was said about it.

    ``error`` belongs to the logarithm where ``scale`` is "log": the parameter lies within value ×/÷ exp(error).
    """
    from covary.parameters import POSITIVE, parameters

    out = []
    rows = iter(summary.rows)
    for part in parts_of(estimator):
        errors = part.learned_.log_errors if error_bars and part.learned_ is not None else {}
        for path, parameter in parameters(part.model_).items():
            values = np.atleast_1d(np.asarray(parameter.value, np.float64))
            spread = np.ravel(errors.get(path, np.full(values.shape, np.nan)))
            for value, error in zip(values, spread, strict=True):
                row = next(rows)
                out.append(
                    {
                        "name": row.name,
                        "value": float(value),
                        "error": None if parameter.mark.fixed else float(error),
                        "scale": "log" if parameter.space is POSITIVE else "plain",
                        "fixed": bool(parameter.mark.fixed),
                        "note": row.note,
                    }
                )
    return out


def relevance(estimator: Any, names: list[str]) -> dict[str, float]:
    """The share of the function's variation that involves each column, from the most relevant to the least.

    The numbers of :func:`covary.plots.relevance`, which a report shows too.
    """
    from covary.plots.relevance import relevance as found_by

    found = found_by(estimator, names)
    return dict(zip(found.names, found.values.tolist(), strict=True))


def input_names(estimator: Any) -> list[str]:
    """The columns the model was fitted to."""
    names = getattr(estimator, "feature_names_in_", None)
    return [f"x{i}" for i in range(estimator.n_features_in_)] if names is None else [str(name) for name in names]


def rows_of(estimator: Any) -> int:
    """The rows a model was fitted to, those on disk among them."""
    post = parts_of(estimator)[0].posterior_
    return post.bound.rows if getattr(post.bound, "elsewhere", False) else post.data.rows


def matrix_names(estimator: Any) -> list[str]:
    """The columns the kernels see: those of :func:`input_names`, and ``"age missing"`` for gaps that are marked."""
    columns = getattr(estimator, "columns_", None)
    return input_names(estimator) if columns is None or not columns.named else columns.keys


def column_facts(estimator: Any) -> list[dict[str, Any]]:
    """What every input was taken for, for JSON."""
    columns = getattr(estimator, "columns_", None)
    if columns is None:
        return [{"name": name, "kind": "number", "unit": None} for name in input_names(estimator)]
    out = []
    for c in columns.each:
        found: dict[str, Any] = {"name": c.name, "kind": c.kind, "unit": c.unit or None}
        if c.kind == "date":
            found |= {"since": c.origin, "seasons": list(c.seasons)}
        if c.kind == "category":
            found |= {"levels": list(c.levels), "counts": list(c.counts)}
        if c.missing:
            found |= {"missing": c.missing, "filled_with": None if c.fill is None else c.filled_with()}
        out.append(found)
    return out


def spoken(summary: Any) -> Any:
    """The summary in the words of the command: options instead of arguments."""
    said = [(name, in_options(text) if name.rpartition(": ")[2] in SPOKEN else text) for name, text in summary.facts]
    return dataclasses.replace(summary, facts=tuple(said))


def category_levels(estimator: Any) -> dict[str, Sequence[str]]:
    """The categories that a model knows, by column; the labels of its classes under the name of the target."""
    known = getattr(getattr(estimator, "columns_", None), "each", ())
    found: dict[str, Sequence[str]] = {column.name: column.levels for column in known if column.levels}
    if hasattr(estimator, "classes_"):
        found |= {name: [str(c) for c in estimator.classes_.tolist()] for name in target_names(estimator)}
    return found


def target_names(estimator: Any) -> list[str]:
    """What the model predicts."""
    names = getattr(estimator, "target_names_", None)
    if names is not None:
        return [str(name) for name in names]
    if likelihood_name(estimator) != "gaussian":
        return ["y"]
    shape = np.shape(estimator.posterior_.data.y)
    return ["y"] if len(shape) == 1 else [f"y{i}" for i in range(shape[1])]
