"""Checks at the doors: each failure is one sentence that says who, what was given, what to do."""

from __future__ import annotations

from typing import Any

import numpy as np

from covary._words import counted


class CovaryError(ValueError):
    """Base of every error covary raises on purpose; a ValueError, so that callers need not know it."""


class NotPositiveDefinite(CovaryError):
    """A covariance matrix could not be factorised, and jitter within the allowed cap did not help."""


class NotEnoughMemory(CovaryError, MemoryError):
    """A computation would need more memory than the machine has free."""


class WrongArguments(CovaryError, TypeError):
    """A constructor was given arguments it does not take, or a class where an object is needed."""


def fail(who: str, what: str, do: str, kind: type[CovaryError] = CovaryError) -> CovaryError:
    """The one shape of a message: ``who: what; do.``, or a question in the place of what to do."""
    return kind(f"{who}: {what}; {do}{'' if do.endswith('?') else '.'}")


def check_object(who: str, name: str, value: Any) -> None:
    """Refuse a class where an object of it is needed: ``Matern52`` for ``Matern52()``."""
    if isinstance(value, type):
        raise fail(who, f"{name} is the class {value.__name__}", f"write {value.__name__}()", WrongArguments)


def shown(value: Any, most: int = 60) -> str:
    """A value as an error message shows it: short, on one line."""
    if (isinstance(value, np.ndarray) and value.size > 4) or (hasattr(value, "columns") and hasattr(value, "shape")):
        return f"a table or array of shape {np.shape(value)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= most else text[: most - 3] + "..."


def check_matrix(who: str, name: str, value: Any) -> np.ndarray:
    """A finite (n, d) array of floats with n ≥ 1 and d ≥ 1; float32 is kept, everything else becomes float64."""
    try:
        array = np.asarray(value)
        if array.dtype != np.float32:
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise fail(who, f"{name} holds entries that are not numbers", "encode text and categories as numbers first") from None
    if array.ndim == 1:
        raise fail(
            who,
            f"{name} has one dimension ({counted(array.shape[0], 'entry', 'entries')})",
            f"give a table of rows and columns: {name}.reshape(-1, 1) for one input column",
        )
    if array.ndim != 2:
        raise fail(who, f"{name} has {array.ndim} dimensions", "give a table of rows and columns")
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise fail(
            who,
            f"{name} has {counted(array.shape[0], 'row')} and {counted(array.shape[1], 'column')}",
            "give at least one of each",
        )
    check_finite(who, name, array)
    return array


def check_vector(who: str, name: str, value: Any, length: int | None = None) -> np.ndarray:
    """A finite vector of floats, of the given length if one is given."""
    try:
        array = np.asarray(value)
        if array.dtype != np.float32:
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise fail(who, f"{name} holds entries that are not numbers", "encode it as numbers first") from None
    if array.ndim != 1:
        raise fail(who, f"{name} has shape {array.shape}", "give one number per row")
    if length is not None and array.shape[0] != length:
        raise fail(
            who,
            f"{name} has {counted(array.shape[0], 'entry', 'entries')} but X has {counted(length, 'row')}",
            "give one per row",
        )
    check_finite(who, name, array)
    return array


def check_finite(who: str, name: str, array: np.ndarray) -> None:
    """Refuse NaN and infinity, naming the first place."""
    bad = ~np.isfinite(array)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        place = f"row {where[0]}" + (f", column {where[1]}" if len(where) > 1 else "")
        raise fail(
            who,
            f"{name} is {array[where]} at {place} ({counted(int(bad.sum()), 'such entry', 'such entries')} in all)",
            "drop or fill these rows",
        )


def check_positive(who: str, name: str, value: Any, *, zero: bool = False) -> None:
    """Refuse numbers that are not positive (or not ≥ 0 where zero is allowed)."""
    array = np.asarray(value)
    ok = np.isfinite(array) & ((array >= 0) if zero else (array > 0))
    if not ok.all():
        bound = "zero or more" if zero else "positive"
        raise fail(who, f"{name} is {array[~ok].ravel()[0] if array.ndim else array}", f"give {bound}, finite numbers")
