"""The smallest parts of a model file: numbers, labels, names of functions. What is read is checked where it is read."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from covary._checks import CovaryError, fail
from covary._module import Module

FEW = 2**20  # bytes that the labels of classes may take beyond what they need
MOST_LABELS = 2**26  # bytes that the labels of classes may take: a long one among many short ones asks for far more than it is
Functions = dict[str, Callable[..., Any]]


def agree(fits: Any, what: str = "its experts") -> None:
    """Refuse a file whose parts do not fit together."""
    if not fits:
        raise CovaryError(f"load: the file does not agree with itself about {what}; save the model again.")


def number(value: Any) -> Any:
    """A number or an array of them for JSON, exact; infinities by name."""
    if np.ndim(value):
        return [number(v) for v in np.asarray(value)]
    value = float(value)
    if math.isnan(value):
        raise fail("save", "a number of the model is NaN", "fit it again, with checked data")
    return value if math.isfinite(value) else repr(value)


def numeric(value: Any) -> Any:
    """What :func:`number` wrote."""
    if isinstance(value, list):
        return [numeric(v) for v in value]
    return float(value) if value in ("inf", "-inf") else finite(value)


def finite(value: Any) -> float:
    """A finite number, and nothing that only becomes one: no text, no true or false, no 1e999."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{str(value)[:40]!r} is no finite number")
    return float(value)


def whole(value: Any, most: int, least: int = 0) -> int:
    """A whole number between two others."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{str(value)[:40]!r} is no whole number from {least} to {most}")
    return value


def option(value: Any) -> Any:
    """An option for JSON: None, true or false, text or a number."""
    value = value.item() if isinstance(value, np.generic | np.ndarray) and np.ndim(value) == 0 else value
    if not (value is None or isinstance(value, str | bool | int | float)):
        raise fail("save", f"an option is {str(value)[:60]!r}", "give None, text, a number, true or false")
    return value if not isinstance(value, float) or math.isfinite(value) else None


def simple(value: Any) -> Any:
    """What :func:`option` wrote."""
    if value is None or isinstance(value, str | bool):
        return value
    return whole(value, 2**63 - 1, -(2**63)) if isinstance(value, int) else finite(value)


def plain(value: Any) -> Any:
    """A label for JSON: text, a whole number, a number, true or false."""
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, str | bool | int | float):
        raise fail("save", f"the label {value!r} is neither text nor a number", "use such labels in models to be saved")
    return value


def labels_out(classes: np.ndarray) -> dict[str, Any]:
    """The labels of classes and their type."""
    labels = [plain(c) for c in classes]
    if _room(labels) > MOST_LABELS:
        raise fail(
            "save", f"the longest label of a class has {max(map(len, map(str, labels)))} characters", "shorten the labels"
        )
    kept = classes if classes.nbytes <= FEW else np.array(labels)  # text may be declared far wider than any label is
    return {"type": kept.dtype.str, "labels": labels}


def _room(labels: list[Any]) -> int:
    """The bytes of labels as an array, in which every text has room for the longest one."""
    return 4 * len(labels) * max((len(v) for v in labels if isinstance(v, str)), default=1)


def labels_in(record: dict[str, Any]) -> np.ndarray:
    """What :func:`labels_out` wrote: a type asks for no more room than its labels do."""
    given = [finite(v) if isinstance(v, float) else plain(v) for v in record["labels"]]
    agree(_room(given) <= MOST_LABELS, "the classes")
    type_ = np.dtype(str(record["type"])[:20])
    if type_.kind in "iu" and given and all(type(v) is int for v in given):  # together, NumPy would make floats of large ones
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
    """The name under which a user's function stands in a file; one without a name cannot be asked for again."""
    name = getattr(function, "__name__", None)
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
        what = "a lambda" if name == "<lambda>" else f"a {type(function).__name__} without a name"
        raise fail("save", f"the model uses {what} as a function", "write it with def: load(path, functions=...) asks by name")
    return name


def function_given(name: Any, functions: Functions) -> Callable[..., Any]:
    """The user's function of a name."""
    if name not in functions:
        raise fail("load", f"the function {str(name)[:60]!r} is not known here", f"pass functions={{{str(name)[:60]!r}: f}}")
    return functions[name]


def functions_of(*parts: Any) -> Functions:
    """The user's functions inside kernels, means and likelihoods by name."""
    found: Functions = {}
    for function in _functions(parts):
        name = function_name(function)
        if found.setdefault(name, function) is not function:
            raise fail("save", f"the model uses two functions called {name!r}", "give them different names")
    return found


def _functions(part: Any) -> Iterator[Any]:
    if isinstance(part, Module):
        for f in dataclasses.fields(part):  # type: ignore[arg-type]
            yield from _functions(getattr(part, f.name))
    elif isinstance(part, tuple | list):
        for item in part:
            yield from _functions(item)
    elif callable(part):
        yield part
