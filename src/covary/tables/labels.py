"""Class labels: reading them from a column, and matching cells with the classes of a fitted model."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from covary._errors import Option
from covary.tables.table import Column, Table, bad, shown

WORDS = {"true": True, "false": False}


def true_or_false(column: Column) -> bool:
    """Return whether all entries of a column are true or false, possibly as text; missing entries are ignored."""
    return _all_true_or_false(column.dropna().tolist())


def labels_of(table: Table, name: str, column: Column, kept: np.ndarray) -> np.ndarray:
    """Return the labels of the kept rows: booleans, integers or text, all of one kind."""
    items = column.tolist()
    if _all_true_or_false(items):
        return np.array([_truth(item) for item in items])
    if all(isinstance(item, Real) and not isinstance(item, bool) for item in items):
        numbers = np.asarray(items, np.float64)
        broken = numbers != np.floor(numbers)
        if broken.any():
            row = int(np.flatnonzero(broken)[0])
            place = int(np.flatnonzero(kept)[row])
            what = f"column {shown(name)} of {table.name!r} is {numbers[row]:g} {table.where(place)}"
            do = "leave " + Option("likelihood", "'classes'") + " out, or give the classes as text or integers"
            raise bad(f"{what}, a measurement rather than a class", do, row=place, column=name)
        return numbers.astype(np.int64) if (np.abs(numbers) < 2**53).all() else numbers
    for row, item in enumerate(items):
        if not isinstance(item, str | bytes | Real | Decimal | date):
            place = int(np.flatnonzero(kept)[row])
            what = f"column {shown(name)} of {table.name!r} contains a {type(item).__name__} {table.where(place)}"
            raise bad(what, "give text or integers", row=place, column=name)
    return np.array([label_text(item) for item in items])


def label_text(label: Any) -> str:
    """Return a label as text, with whitespace normalised and integers written without a decimal point.

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


def probability_titles(classes: np.ndarray) -> list[str]:
    """Return the names of the columns of class probabilities: ``p_`` and the label, unchanged so that no two are equal.

    Examples
    --------
    >>> probability_titles(np.array([1.0, 2.0]))
    ['p_1.0', 'p_2.0']
    """
    return [f"p_{label}" for label in classes.tolist()]


def codes_of(column: Column, classes: np.ndarray) -> np.ndarray:
    """Return the code of the class of each cell: −1 for an unknown class, −2 for a missing cell.

    One file may contain 1 where another contains text or true, so cells and classes are compared as text, as numbers, and
    as booleans.

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
    for depth in range(max(len(n) for n in names)):  # the first name of any class has precedence over all second names
        for code, known in enumerate(names):
            if depth < len(known):
                book.setdefault(known[depth], code)
    found, gone = [], column.isna().to_numpy()
    for cell, missing in zip(column.tolist(), gone, strict=True):
        found.append(-2 if missing else next((book[name] for name in _names(cell) if name in book), -1))
    return np.array(found, dtype=int)


def _names(label: Any) -> list[str]:
    """Return the spellings of a label, most likely first: its text, its number, true or false."""
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
    """Return whether a label is a number with a fractional part, which suggests a measurement and not a class."""
    number = as_number(label)
    return number is not None and not (math.isfinite(number) and number == math.floor(number))


def as_number(item: Any) -> float | None:
    """Convert an item to a number; None if this is not possible, or if the item is a boolean."""
    if isinstance(item, bool | np.bool_):
        return None
    try:
        return float(item)
    except (TypeError, ValueError, OverflowError):
        return None


def _truth(item: Any) -> bool | None:
    """Convert a boolean, or "true" or "false" as text, to bool; None for everything else."""
    if isinstance(item, bool | np.bool_):
        return bool(item)
    return WORDS.get(item.strip().lower()) if isinstance(item, str) else None


def _all_true_or_false(items: list[Any]) -> bool:
    return all(_truth(item) is not None for item in items)
