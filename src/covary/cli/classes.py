"""Class labels: from a column of a table, and from a table's cells to the classes a model knows."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from covary.cli.doors import BadData
from covary.cli.tables import Column, Table, is_text, shown

WORDS = {"true": True, "false": False}


def names_classes(column: Column) -> bool:
    """Whether a column can only be read as classes: true and false, or text that is not all numbers."""
    if column.dtype.kind == "b":
        return True
    if not is_text(column) or column.dtype.kind in "mM":
        return False
    items = column.dropna().tolist()
    return bool(items) and (_all_true_or_false(items) or any(as_number(item) is None for item in items))


def true_or_false(column: Column) -> bool:
    """Whether a column holds nothing but true and false, also as words (missing entries aside)."""
    return _all_true_or_false(column.dropna().tolist())


def labels_of(table: Table, name: str, column: Column, kept: np.ndarray) -> np.ndarray:
    """The labels of the rows that were kept: booleans, whole numbers or text, all of one kind."""
    items = column.tolist()
    if _all_true_or_false(items):
        return np.array([_truth(item) for item in items])
    if all(isinstance(item, Real) and not isinstance(item, bool) for item in items):
        numbers = np.asarray(items, np.float64)
        broken = numbers != np.floor(numbers)
        if broken.any():
            row = int(np.flatnonzero(broken)[0])
            where = table.where(int(np.flatnonzero(kept)[row]))
            raise BadData(
                f"column {shown(name)} of {table.name!r} is {numbers[row]:g} {where}, a measurement rather than a class; "
                "leave --likelihood classes out, or name the classes by text or whole numbers."
            )
        return numbers.astype(np.int64) if (np.abs(numbers) < 2**53).all() else numbers
    for row, item in enumerate(items):
        if not isinstance(item, str | bytes | Real | Decimal | date):
            where = table.where(int(np.flatnonzero(kept)[row]))
            raise BadData(
                f"column {shown(name)} of {table.name!r} holds a {type(item).__name__} {where}; give text or whole numbers."
            )
    return np.array([label_text(item) for item in items])


def label_text(label: Any) -> str:
    """A label as text: spaces at the ends gone, whole numbers without a point.

    Examples
    --------
    >>> label_text(" ill  now "), label_text(2.0), label_text(True), label_text(b"b")
    ('ill now', '2', 'True', 'b')
    """
    if isinstance(label, bytes):
        label = label.decode("utf-8", "replace")
    if isinstance(label, str):
        return " ".join(label.split())
    if isinstance(label, int | np.integer | np.bool_) or not isinstance(label, Real):
        return str(label)
    number = float(label)
    return str(int(number)) if math.isfinite(number) and number == math.floor(number) else repr(number)


def codes_of(column: Column, classes: np.ndarray) -> np.ndarray:
    """The number of each cell's class: −1 for a class that is not among them, −2 for a missing cell.

    A file may have 1 where another had text or true: cells and classes are compared as text, as numbers, and as true or false.

    Examples
    --------
    >>> import pandas as pd
    >>> codes_of(pd.Series([1, 0, 7]), np.array(["0", "1", "yes"])).tolist()
    [1, 0, -1]
    >>> codes_of(pd.Series(["TRUE", None, "false"]), np.array([False, True])).tolist()
    [1, -2, 0]
    """
    book: dict[str, int] = {}
    names = [_names(label) for label in classes.tolist()]
    for depth in range(max(len(n) for n in names)):  # what a class is called first goes before what it may also be called
        for code, known in enumerate(names):
            if depth < len(known):
                book.setdefault(known[depth], code)
    found, gone = [], column.isna().to_numpy()
    for cell, missing in zip(column.tolist(), gone, strict=True):
        found.append(-2 if missing else next((book[name] for name in _names(cell) if name in book), -1))
    return np.array(found, dtype=int)


def _names(label: Any) -> list[str]:
    """What a label may be called, the likeliest first: its text, its number, true or false."""
    text = label_text(label)
    number, out = as_number(label), [text]
    if number is not None:
        out.append(label_text(number))
    if text.lower() in WORDS:
        out += [text.lower(), "1" if WORDS[text.lower()] else "0"]
    elif number in (0.0, 1.0):
        out.append("true" if number else "false")
    return out


def fractional(label: Any) -> bool:
    """Whether a label is a number that is not whole, as measurements are and classes are not."""
    number = as_number(label)
    return number is not None and not (math.isfinite(number) and number == math.floor(number))


def as_number(item: Any) -> float | None:
    """The number an item is or spells; None if it is none (true and false are none)."""
    if isinstance(item, bool | np.bool_):
        return None
    try:
        return float(item)
    except (TypeError, ValueError, OverflowError):
        return None


def _truth(item: Any) -> bool | None:
    """True and false, also as words; None for everything else."""
    if isinstance(item, bool | np.bool_):
        return bool(item)
    return WORDS.get(item.strip().lower()) if isinstance(item, str) else None


def _all_true_or_false(items: list[Any]) -> bool:
    return all(_truth(item) is not None for item in items)
