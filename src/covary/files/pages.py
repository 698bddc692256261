"""Conversion of a fit to a page and arrays, and back: entries shared by all fits, plus those of its family."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from covary._checks import fail
from covary._errors import Option, Remedy
from covary._module import Module
from covary.files.container import OWN
from covary.fits import Fit, Labels, Method, Origin, Scale, Stored, family, family_of
from covary.fits import Functions as Functions
from covary.fits import Page as Page
from covary.tables.columns import Columns

OLDEST = "gaussian_process"  # the family of files that do not name one
ENTRIES = ("params", "names", "targets", "columns", "method", "family", "made", "classes", "functions")  # shared by all fits
ARRAYS = ("location", "scale", "class_count")
LARGE = 1e150  # upper limit for numbers of the data, whose squares must be finite


def page_of(fit: Fit, *, factor: bool | None = None) -> Stored:
    """Return a fit as the content of a model file."""
    found = family_of(fit)
    page: Page = {
        "params": found.encode_arguments(fit.origin.arguments),
        "names": [c.name for c in fit.columns.each] if fit.columns.named and fit.columns.texts else None,
        "targets": list(fit.target) if fit.origin.named else None,
        "columns": fit.columns.to_record(),
        "method": [fit.method.name, fit.method.why],
    }
    if fit.family != OLDEST:
        page["family"] = fit.family
    if fit.origin.made is not None:
        page["made"] = dict(fit.origin.made)
    arrays: dict[str, np.ndarray] = {}
    if fit.classes is None:
        arrays |= {"location": fit.scale.location, "scale": fit.scale.scale}
    else:
        page["classes"] = labels_out(fit.classes.values)
        arrays["class_count"] = np.asarray(fit.classes.counts, np.float64)
    inside = found.encode(fit, factor=factor)
    if inside.functions:
        page["functions"] = sorted(inside.functions)
    twice = sorted((inside.page.keys() & {*OWN, *ENTRIES}) | (inside.arrays.keys() & set(ARRAYS)))
    if twice:
        raise fail("save", f"the family {fit.family!r} writes {twice[0]!r}, which is a reserved name", "rename it")
    arrays |= {name: np.asarray(a) for name, a in inside.arrays.items()}
    return Stored({**page, **inside.page}, arrays, inside.functions)


def fit_of(
    page: Page,
    arrays: dict[str, np.ndarray],
    functions: Functions,
    beside: str,
    name: str,
    estimator: str,
) -> Fit:
    """Return the fit written by :func:`page_of`, validated.

    Parameters
    ----------
    page, arrays
        The content of the file.
    functions
        The user's functions by name.
    beside
        The folder of the file.
    name, estimator
        The family, and the estimator that made the fit, if any.
    """
    found = family(name)
    made = page.get("made")
    version = str(page.get("covary", ""))[:60]
    arguments = found.decode_arguments(page["params"], functions)
    origin = Origin(estimator, arguments, made if isinstance(made, dict) else None, version)
    page = found.upgrade(page, arrays)
    classes = None
    if "classes" in page:
        agree("class_count" in arrays, "whether it tells classes apart")
        classes = Labels(labels_in(page["classes"]), arrays["class_count"])
        agree(classes.counts.shape == classes.values.shape and (classes.counts >= 0).all(), "the classes")
        agree(0 < classes.counts.sum() < LARGE, "the classes")
    else:
        agree({"location", "scale"} <= set(arrays), "location and scale")
    scale = Scale() if classes is not None else Scale(arrays["location"], arrays["scale"])
    agree(scale.location.shape == scale.scale.shape and scale.scale.ndim <= 1, "location and scale")
    agree(bool((scale.scale > 0).all()), "the scale")
    outputs = scale.scale.size if scale.scale.ndim else None  # a scalar scale may be shared by all
    targets = page.get("targets")
    origin = replace(origin, named=targets is not None)
    if targets is None:
        targets = ["y"] if outputs in (None, 1) else [f"y{j}" for j in range(outputs)]
    agree(isinstance(targets, list) and outputs in (None, len(targets)), "the names of the targets")
    method, why = (str(text) for text in page["method"])
    fit = Fit(name, None, _columns(page), tuple(map(str, targets)), scale, classes, Method(method, why), origin)
    return replace(fit, state=found.decode(Stored(page, arrays, functions, beside), fit))


def _columns(page: Page) -> Columns:
    """Return the columns of a page, which are named if the table had column names."""
    names, columns = page["names"], Columns.from_record(page["columns"])
    if names is None:
        return replace(columns, texts=False) if columns.named else columns
    agree([str(name) for name in names] == [c.name for c in columns.each], "the names of the columns")
    return columns


# entries ------------------------------------------------------------------------------------------------------------
FEW = 2**20  # bytes that class labels may always take, even if a shorter text type would hold them
MOST_LABELS = 2**26  # bytes that class labels may take: one long label widens all entries of the array


def agree(fits: Any, what: str) -> None:
    """Raise an error if parts of a file are inconsistent."""
    if not fits:
        raise fail("load", f"the file is inconsistent about {what}", Remedy("fit again", "save the model again"))


def number(value: Any) -> Any:
    """Return a number, or an array of them, for JSON without rounding; infinities by name."""
    if np.ndim(value):
        return [number(v) for v in np.asarray(value)]
    value = float(value)
    if math.isnan(value):
        raise fail("save", "a number of the model is NaN", "fit it again, with checked data")
    return value if math.isfinite(value) else repr(value)


def numeric(value: Any) -> Any:
    """Return the numbers written by :func:`number`."""
    if isinstance(value, list):
        return [numeric(v) for v in value]
    return float(value) if value in ("inf", "-inf") else finite(value)


def finite(value: Any) -> float:
    """Return a finite number; text, booleans and 1e999 raise an error."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{str(value)[:40]!r} is not a finite number")
    return float(value)


def whole(value: Any, most: int, least: int = 0) -> int:
    """Return an integer within bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{str(value)[:40]!r} is not an integer from {least} to {most}")
    return value


def option(value: Any) -> Any:
    """Return an option for JSON: None, a boolean, text or a number."""
    value = value.item() if isinstance(value, np.generic | np.ndarray) and np.ndim(value) == 0 else value
    if not (value is None or isinstance(value, str | bool | int | float)):
        raise fail("save", f"an option is {str(value)[:60]!r}", "give None, text, a number, true or false")
    return value if not isinstance(value, float) or math.isfinite(value) else None


def simple(value: Any) -> Any:
    """Return the option written by :func:`option`."""
    if value is None or isinstance(value, str | bool):
        return value
    return whole(value, 2**63 - 1, -(2**63)) if isinstance(value, int) else finite(value)


def plain(value: Any) -> Any:
    """Return a label for JSON: text, a number or a boolean."""
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, str | bool | int | float):
        raise fail("save", f"the label {value!r} is neither text nor a number", "use text or numbers as labels")
    return value


def labels_out(classes: np.ndarray) -> dict[str, Any]:
    """Return class labels and their type for JSON."""
    labels = [plain(c) for c in classes]
    if _room(labels) > MOST_LABELS:
        what = f"the longest label of a class has {max(map(len, map(str, labels)))} characters"
        raise fail("save", what, "shorten the labels")
    own = classes.dtype.kind != "O" and classes.nbytes <= FEW  # the text type may be wider than any label
    kept = classes if own else np.array(labels)
    if kept.tolist() != labels:
        raise fail("save", "the labels are of different types", "use text or numbers as labels")
    return {"type": kept.dtype.str, "labels": labels}


def _room(labels: list[Any]) -> int:
    """Return the size in bytes of labels as an array, in which every entry is as wide as the longest."""
    return 4 * len(labels) * max((len(v) for v in labels if isinstance(v, str)), default=1)


def labels_in(record: dict[str, Any]) -> np.ndarray:
    """Return the labels written by :func:`labels_out`, in a type no wider than they need."""
    given = [finite(v) if isinstance(v, float) else plain(v) for v in record["labels"]]
    agree(_room(given) <= MOST_LABELS, "the classes")
    type_ = np.dtype(str(record["type"])[:20])
    if type_.kind in "iu" and given and all(type(v) is int for v in given):  # NumPy may turn large integers into floats
        agree(all(np.iinfo(type_).min <= v <= np.iinfo(type_).max for v in given), "the classes")
        labels = np.array(given, type_)
    else:
        labels = np.array(given)
    agree(type_.kind in "Ubiuf" and labels.dtype.kind in "Ubiuf" and len(labels) >= 2, "the classes")
    agree((type_.kind == "U") == (labels.dtype.kind == "U"), "the classes")
    agree(len(labels) * type_.itemsize <= max(FEW, labels.nbytes), "the classes")
    with np.errstate(all="ignore"):
        classes = labels.astype(type_)
    agree(bool((classes == labels).all()) and len(np.unique(classes)) == len(labels), "the classes")
    return classes


# functions ------------------------------------------------------------------------------------------------------------
def function_name(function: Any) -> str:
    """Return the name under which a user's function is stored; raise an error if it has none."""
    name = getattr(function, "__name__", None)
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
        what = "a lambda" if name == "<lambda>" else f"a {type(function).__name__} without a name"
        what = f"the model uses {what} as a function"
        raise fail("save", what, "write it with def: load(path, " + Option("functions", "...") + ") then finds it by name")
    return name


def function_given(name: Any, functions: Functions) -> Callable[..., Any]:
    """Return the user's function with a given name."""
    if name not in functions:
        what = f"the function {str(name)[:60]!r} is not known here"
        raise fail("load", what, "pass " + Option("functions", f"{{{str(name)[:60]!r}: f}}"))
    return functions[name]


def functions_of(*parts: Any) -> Functions:
    """Return the user's functions inside kernels, means and likelihoods, by name."""
    found: Functions = {}
    for function in _functions(parts):
        name = function_name(function)
        if found.setdefault(name, function) is not function:
            raise fail("save", f"the model uses two functions named {name!r}", "give them different names")
    return found


def _functions(part: Any) -> Iterator[Any]:
    if isinstance(part, Module):
        for f in dataclasses.fields(part):
            yield from _functions(getattr(part, f.name))
    elif isinstance(part, tuple | list):
        for item in part:
            yield from _functions(item)
    elif callable(part):
        yield part
