"""The kernel a user gives: from text or as an object, its columns by name, categories never as numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from inspect import isfunction
from typing import Any

import numpy as np

from covary._checks import check_object, fail, shown
from covary._module import modules
from covary.estimators.cells import CATEGORY
from covary.estimators.frames import Columns
from covary.kernels.base import AbstractKernel, Power, Product, Scaled, Sum
from covary.kernels.categorical import Categories, Exchangeable, Hamming
from covary.kernels.combine import Columns as On
from covary.kernels.combine import Function, placed
from covary.kernels.dot_product import Constant
from covary.kernels.structure import BasisFunctions, Normalised
from covary.kernels.text import parse
from covary.kernels.warped import Mapped
from covary.parameters import parameters

OF_CATEGORIES = (Hamming, Exchangeable, Categories, Constant)  # whatever codes say of order, these do not hear it
TRANSPARENT = (Sum, Product, Scaled, Power, Normalised)  # which see what their parts see
OWN = (Function, BasisFunctions, Mapped)  # a user's function, which may know codes for what they are
SHOWN = 4  # columns that advice spells out


def check_bounds(who: str, bounds: Mapping[str, Any], model: Any) -> None:
    """Refuse bounds of a parameter that is held, on which they would do nothing."""
    found = parameters(model)
    for path in bounds:
        if path in found and found[path].mark.fixed:
            value = shown(np.asarray(found[path].value).tolist())
            do = f"write {path.rpartition('.')[2]}=bounded(...) or learned(...) to learn it, or leave the bounds out"
            raise fail(who, f"{path!r} is given bounds but held at {value}", do)


def read_kernel(who: str, kernel: Any, names: Sequence[str] | None) -> Any:
    """A kernel from an argument, or a tuple of them from a list: parsed, and its columns looked up by name."""
    if isinstance(kernel, list | tuple):
        return tuple(read_kernel(who, part, names) for part in kernel)
    check_object(who, "kernel", kernel)
    found = parse(kernel) if isinstance(kernel, str) else kernel
    if not isinstance(found, AbstractKernel):
        arrays = np.ndim(found) > 0 or hasattr(found, "columns")
        do = "give a kernel from covary.kernels or its text"
        if arrays:
            do = "give data to fit(X, y), and a kernel from covary.kernels or its text here"
        elif isfunction(found):
            do = "write kernels.Function(...) around a function of two points"
        raise fail(who, f"kernel is {shown(found)}", do)
    return placed(found, names, who)


def check_categories(who: str, kernel: Any, given: Any, columns: Columns | None) -> None:
    """Refuse a kernel that would take the codes of categories for numbers, with what to write instead."""
    places = [] if columns is None else columns.places(CATEGORY)
    if columns is None or not places:
        return
    wrong = _misread(kernel, np.arange(columns.width), set(places))
    if wrong is None:
        return
    leaf, seen = wrong
    names = [columns.keys[j] for j in places if j in seen]
    what = f"kernel has {type(leaf).__name__} on {_list(names)}, where X holds categories, not numbers"
    raise fail(who, what, f"write {_instead(given, columns, places)}")


def _misread(kernel: Any, seen: np.ndarray, categories: set[int]) -> tuple[Any, set[int]] | None:
    """The first kernel inside that takes codes for numbers, and the columns it sees."""
    if isinstance(kernel, tuple):
        return next((found for part in kernel if (found := _misread(part, seen, categories))), None)
    if isinstance(kernel, On):
        if max(kernel.columns) >= len(seen):
            return None  # refused by its own check
        return _misread(kernel.kernel, seen[list(kernel.columns)], categories)
    if isinstance(kernel, TRANSPARENT):
        parts = kernel.terms if isinstance(kernel, Sum) else kernel.factors if isinstance(kernel, Product) else (kernel.kernel,)
        return _misread(tuple(parts), seen, categories)
    columns = {int(j) for j in seen}
    if isinstance(kernel, OF_CATEGORIES) or not columns & categories:
        return None
    own = isinstance(kernel, OWN) or not type(kernel).__module__.startswith("covary.")
    return None if own and columns <= categories else (kernel, columns)


def _instead(given: Any, columns: Columns, categories: list[int]) -> str:
    """The kernel to write in the place of one that takes codes for numbers."""
    numbers = [j for j in range(columns.width) if j not in categories]
    hamming = f"Hamming().on({_list([columns.keys[j] for j in categories], SHOWN)})"
    if not numbers:
        return hamming
    parts = given if isinstance(given, list | tuple) else [given]
    first: Any = parts[0]
    text = first if isinstance(first, str) else repr(first)
    kernel: Any = parse(text) if isinstance(first, str) else first
    per_column = any(np.ndim(p.value) for p in parameters(kernel).values())
    if len(parts) > 1 or per_column or len(text) > 60 or any(isinstance(m, On) for m in modules(kernel)):
        return f"{hamming} for them, multiplied by kernels that stand on the other columns with .on(...)"
    inner = text if re.fullmatch(r"\w+\([^()]*\)", text) else f"({text})"
    return f"{inner}.on({_list([columns.keys[j] for j in numbers], SHOWN)}) * {hamming}"


def _list(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")
