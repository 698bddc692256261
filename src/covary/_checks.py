"""Checks at the doors: each failure is one sentence that says who, what was given, what to do."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from numbers import Integral, Number
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


class NotNumbers(CovaryError, TypeError):
    """Entries that no number can be made of; a TypeError too, as ``float`` raises."""


def fail(who: str, what: str, do: str, kind: type[CovaryError] = CovaryError) -> CovaryError:
    """The one shape of a message: ``who: what; do.``, or a question in the place of what to do."""
    return kind(f"{who}: {what}; {do}{'' if do.endswith('?') else '.'}")


def check_object(who: str, name: str, value: Any) -> None:
    """Refuse a class where an object of it is needed: ``Matern52`` for ``Matern52()``."""
    if isinstance(value, type):
        raise fail(who, f"{name} is the class {value.__name__}", f"write {value.__name__}()", WrongArguments)


def shown(value: Any, most: int = 60) -> str:
    """A value as Python writes it, for a message: on one line, cut where it is long."""
    if (isinstance(value, np.ndarray) and value.size > 4) or (hasattr(value, "columns") and hasattr(value, "shape")):
        return f"a table or array of shape {np.shape(value)}"
    try:
        text = repr(_cut(value, most - 2)) if isinstance(value, str) else _cut(repr(value), most)
    except Exception:  # whole numbers of thousands of digits, objects that do not print
        text = f"a {type(value).__name__}"
    return text


def _cut(text: str, most: int = 40) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 3] + "..."


# arrays ----------------------------------------------------------------------------------------------------------------
def as_array(who: str, name: str, value: Any) -> np.ndarray:
    """What was given as an array of whatever kind, masked entries as missing ones; what is no array is refused."""
    if hasattr(value, "tocsr") and hasattr(value, "toarray"):
        raise fail(who, f"{name} is sparse", f"give a dense array: {name}.toarray()")
    if isinstance(value, Iterator):
        raise fail(who, f"{name} is a {type(value).__name__}, which can be read only once", "give a list or an array")
    rows = isinstance(value, list | tuple) and any(np.ma.isMaskedArray(row) for row in value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a masked entry in a list becomes NaN, which is what is wanted
            array = np.ma.asarray(value) if rows or np.ma.isMaskedArray(value) else np.asarray(value)
            if array.dtype.kind in "SU" and isinstance(value, list | tuple):  # there it becomes the text "0.0"
                kept = np.asarray(value, dtype=object)
                array = kept if any(item is np.ma.masked for item in kept.flat) else array
    except Exception as error:
        raise fail(who, *_not_an_array(name, value, error)) from None
    if np.ma.isMaskedArray(array):
        array = _unmasked(array)
    if array.ndim == 0 and array.dtype.kind in "OSU" and not isinstance(value, Number):
        raise fail(who, f"{name} is of type {type(value).__name__}", "give an array or a list")
    return array


def from_arrow(table: Any) -> Any:
    """A table of pyarrow as a frame of pandas, as an array it would lose its names; anything else as it is."""
    return table.to_pandas(ignore_metadata=True) if hasattr(table, "column_names") and hasattr(table, "to_pandas") else table


def _unmasked(array: Any) -> np.ndarray:
    """A masked array with NaN, NaT or None where it is masked; named fields, which nobody takes, as they are."""
    kind = array.dtype.kind
    if kind == "V" or not np.ma.getmaskarray(array).any():
        return np.asarray(array.data)
    if kind in "mM":
        return array.filled(np.array("NaT", array.dtype))
    if kind in "fciub":
        return (array if kind in "fc" else array.astype(np.float64)).filled(np.nan)
    out = np.asarray(array.data).astype(object)
    out[np.ma.getmaskarray(array)] = None  # filled(None) would write NumPy's own fill value, "?"
    return out


def _not_an_array(name: str, value: Any, error: Exception) -> tuple[str, str]:
    """Why nothing could be made of it."""
    if isinstance(value, list | tuple) and value:
        lengths = [len(row) if isinstance(row, list | tuple) else len(np.atleast_1d(row)) for row in map(_bare, value)]
        row = next((i for i, n in enumerate(lengths) if n != lengths[0]), None)
        if row is not None:
            what = f"row {row} of {name} has {counted(lengths[row], 'entry', 'entries')} but row 0 has {lengths[0]}"
            return what, "give rows of one length"
        return f"{name} holds lists or arrays among its entries", "give numbers"
    return f"{name} cannot be made an array ({type(error).__name__}: {_cut(str(error))})", "give an array or a list"


def _bare(row: Any) -> Any:
    """A row whose length can be told; an entry otherwise."""
    return row if isinstance(row, list | tuple | np.ndarray) else 0.0


ENCODE = "encode it as numbers, or leave it out"


def as_numbers(who: str, name: str, value: Any, do: str = ENCODE) -> np.ndarray:
    """An array of floats, NaN where an entry is missing; float32 is kept, everything else becomes float64.

    ``do`` is the advice where an entry is text, or another thing that is no number.
    """
    array = as_array(who, name, value)
    kind = array.dtype.kind
    if array.dtype == np.float32:
        return array
    if kind in "fiub":
        with np.errstate(over="ignore"):
            return array.astype(np.float64)
    if kind == "c":
        raise fail(who, f"{name} holds complex numbers", "Complex data not supported: give real and imaginary part apart")
    if kind in "mM":
        what = "dates" if kind == "M" else "durations"
        raise fail(who, f"{name} holds {what}", "turn them into numbers, such as days since the first")
    if kind not in "OSU":
        what = "has named fields" if array.dtype.names else f"has type {array.dtype}"
        raise fail(who, f"{name} {what}", "give numbers, or a pandas table")
    return _parsed(who, name, array, do)


def _parsed(who: str, name: str, array: np.ndarray, do: str) -> np.ndarray:
    """Numbers from text or objects; the first entry that is none is named."""
    with suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return array.astype(np.float64)
    array, out = array.astype(object), np.empty(array.shape)
    for place in np.ndindex(array.shape):
        where = f"row {place[0]}" if place else "once"
        where += f", column {place[1]}" if len(place) == 2 else ""
        out[place] = as_float(who, name, array[place], where, do)
    return out


def as_float(who: str, name: str, item: Any, where: str, do: str = ENCODE) -> float:
    """An object as a number, NaN where it stands for a gap; a sentence with its place where it is none."""
    if is_missing(item):
        return float("nan")
    try:
        return float(item)
    except OverflowError:
        raise fail(who, f"{name} holds a number too large for double precision at {where}", "rescale it") from None
    except Exception as error:
        text = isinstance(item, str | bytes)
        kind = "text" if text else type(item).__name__
        if text or isinstance(error, ValueError):
            raise fail(who, f"{name} holds {kind} ({quoted(item)} at {where})", do) from None
        what = f"{name} holds {kind} ({quoted(item)} at {where}), but an argument must be a string or a number"
        raise NotNumbers(f"{who}: {what}; {do}.") from None


def quoted(item: Any) -> str:
    """An entry in quotes, cut where it is long."""
    try:
        return repr(_cut(str(item)))
    except Exception:  # an object that does not print
        return f"a {type(item).__name__}"


def is_missing(item: Any) -> bool:
    """Whether an object stands for a gap."""
    if item is None or type(item).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return True
    if isinstance(item, Decimal):
        return item.is_nan()
    if isinstance(item, np.datetime64 | np.timedelta64):
        return bool(np.isnat(item))
    return isinstance(item, float | np.floating) and bool(item != item)


def check_matrix(who: str, name: str, value: Any) -> np.ndarray:
    """A finite (n, d) array of floats with n ≥ 1 and d ≥ 1; float32 is kept, everything else becomes float64."""
    array = as_numbers(who, name, value)
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
    largest = float(np.sqrt(np.finfo(array.dtype).max)) / 1e4  # so that squares and their sums stay finite
    if np.abs(array).max() > largest:
        row, column = (int(i) for i in np.argwhere(np.abs(array) > largest)[0])
        raise fail(who, f"{name} is {array[row, column]:g} at row {row}, column {column}", "rescale it")
    return array


def check_vector(who: str, name: str, value: Any, length: int | None = None) -> np.ndarray:
    """A finite vector of floats, of the given length if one is given."""
    array = as_numbers(who, name, value)
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
    array = as_numbers(who, name, value)
    ok = np.isfinite(array) & ((array >= 0) if zero else (array > 0))
    if not ok.all():
        bound = "zero or more" if zero else "positive"
        raise fail(who, f"{name} is {array[~ok].ravel()[0] if array.ndim else array}", f"give {bound}, finite numbers")


def check_count(who: str, name: str, value: Any, *, least: int = 0, most: int = 2**31) -> int:
    """A whole number within limits."""
    if not isinstance(value, Integral) or isinstance(value, bool | np.bool_) or not least <= int(value) <= most:
        raise fail(who, f"{name} is {shown(value)}", f"give a whole number from {least} to {most:,}")
    return int(value)
