"""Checks of arguments. Each error states what raised it, what was given and what to do."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from numbers import Integral, Number
from types import ModuleType
from typing import Any

import numpy as np

from covary._errors import CovaryError as CovaryError
from covary._errors import NotEnoughMemory as NotEnoughMemory
from covary._errors import NotNumbers, Option, Phrase, Place, Text, phrase
from covary._errors import NotPositiveDefinite as NotPositiveDefinite
from covary._errors import WrongArguments as WrongArguments
from covary._errors import fail as fail
from covary._types import ArrayLike
from covary._words import counted


def check_object(who: str, name: str, value: Any) -> None:
    """Raise an error if a class is given instead of an instance: ``Matern52`` for ``Matern52()``."""
    if isinstance(value, type):
        raise fail(who, Option(name) + f" is the class {value.__name__}", f"write {value.__name__}()", WrongArguments)


def shown(value: Any, most: int = 60) -> str:
    """Return the ``repr`` of a value for a message, on one line and truncated if it is long."""
    if (isinstance(value, np.ndarray) and value.size > 4) or (hasattr(value, "columns") and hasattr(value, "shape")):
        return f"a table or array of shape {np.shape(value)}"
    try:
        text = repr(_cut(value, most - 2)) if isinstance(value, str) else _cut(repr(value), most)
    except Exception:  # integers of thousands of digits, objects whose repr fails
        text = f"a {type(value).__name__}"
    return text


def _cut(text: str, most: int = 40) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 3] + "..."


def is_traced(value: object) -> bool:
    """Return whether a value is a JAX tracer: under ``jit``, ``grad`` and ``vmap`` its shape is known, its values are not."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.core.Tracer)


def namespace(*values: object) -> ModuleType:
    """Return ``jax.numpy`` if any of the values is a tracer, else NumPy."""
    return sys.modules["jax.numpy"] if any(map(is_traced, values)) else np


# arrays ----------------------------------------------------------------------------------------------------------------
def as_array(who: str, name: Text, value: ArrayLike) -> np.ndarray:
    """Convert the input to an array of any dtype, with masked entries as missing values; raise an error if that fails."""
    argument = _argument(name)
    if hasattr(value, "tocsr") and hasattr(value, "toarray"):
        raise fail(who, argument + " is sparse", f"give a dense array: {name}.toarray()")
    if isinstance(value, Iterator):
        raise fail(who, argument + f" is a {type(value).__name__}, which can be read only once", "give a list or an array")
    rows = isinstance(value, list | tuple) and any(np.ma.isMaskedArray(row) for row in value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a masked entry in a list becomes NaN, as intended
            array = np.ma.asarray(value) if rows or np.ma.isMaskedArray(value) else np.asarray(value)
            if array.dtype.kind in "SU" and isinstance(value, list | tuple):  # a masked entry becomes the text "0.0"
                kept = np.asarray(value, dtype=object)
                array = kept if any(item is np.ma.masked for item in kept.flat) else array
    except Exception as error:
        raise fail(who, *_not_an_array(argument, value, error)) from None
    if np.ma.isMaskedArray(array):
        array = _unmasked(array)
    if array.ndim == 0 and array.dtype.kind in "OSU" and not isinstance(value, Number):
        raise fail(who, argument + f" is of type {type(value).__name__}", "give an array or a list")
    return array


def from_arrow(table: Any) -> Any:
    """Convert a pyarrow table to a pandas DataFrame, which keeps the column names; return anything else unchanged."""
    return table.to_pandas(ignore_metadata=True) if hasattr(table, "column_names") and hasattr(table, "to_pandas") else table


def _unmasked(array: np.ma.MaskedArray) -> np.ndarray:
    """Fill a masked array with NaN, NaT or None. Structured arrays, which no function accepts, are left unchanged."""
    kind = array.dtype.kind
    if kind == "V" or not np.ma.getmaskarray(array).any():
        return np.asarray(array.data)
    if kind in "mM":
        return array.filled(np.array("NaT", array.dtype))  # type: ignore[arg-type]
    if kind in "fciub":
        return (array if kind in "fc" else array.astype(np.float64)).filled(np.nan)  # type: ignore[union-attr]
    out = np.asarray(array.data).astype(object)
    out[np.ma.getmaskarray(array)] = None  # filled(None) would write NumPy's default fill value, "?"
    return out


def _not_an_array(argument: Phrase, value: ArrayLike, error: Exception) -> tuple[Text, str]:
    """Return why the value cannot be converted to an array, and what to do."""
    if isinstance(value, list | tuple) and value:
        lengths = [len(row) if isinstance(row, list | tuple) else len(np.atleast_1d(row)) for row in map(_bare, value)]
        row = next((i for i, n in enumerate(lengths) if n != lengths[0]), None)
        if row is not None:
            what = f"row {row} of " + argument + f" has {counted(lengths[row], 'entry', 'entries')} but row 0 has {lengths[0]}"
            return what, "give rows of equal length"
        return argument + " contains lists or arrays among its entries", "give numbers"
    what = argument + f" cannot be converted to an array ({type(error).__name__}: {_cut(str(error))})"
    return what, "give an array or a list"


def _bare(row: ArrayLike) -> list | tuple | np.ndarray | float:
    """Return a row that has a length unchanged, and a number in place of anything else."""
    return row if isinstance(row, list | tuple | np.ndarray) else 0.0


ENCODE = "encode it as numbers, or leave it out"


def as_numbers(who: str, name: Text, value: ArrayLike, do: Text = ENCODE) -> np.ndarray:
    """Convert to an array of floats, with NaN for missing entries. float32 is kept, all other dtypes become float64.

    ``do`` is the advice given if an entry is text or otherwise not a number.
    """
    if is_traced(value):
        return value if value.dtype.kind == "f" else value.astype(float)  # type: ignore
    array = as_array(who, name, value)
    kind = array.dtype.kind
    if array.dtype == np.float32:
        return array
    if kind in "fiub":
        with np.errstate(over="ignore"):
            return array.astype(np.float64)
    if kind == "c":
        what = _argument(name) + " contains complex numbers"
        raise fail(who, what, "Complex data not supported: give real and imaginary parts separately")
    if kind in "mM":
        what = "dates" if kind == "M" else "durations"
        raise fail(who, _argument(name) + f" contains {what}", "convert them to numbers, such as days since the first")
    if kind not in "OSU":
        what = "has named fields" if array.dtype.names else f"has type {array.dtype}"
        raise fail(who, _argument(name) + f" {what}", "give numbers or a pandas DataFrame")
    return _parsed(who, name, array, do)


def _parsed(who: str, name: Text, array: np.ndarray, do: Text) -> np.ndarray:
    """Parse numbers from text or objects; the error gives the place of the first entry that is not a number."""
    with suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return array.astype(np.float64)
    array, out = array.astype(object), np.empty(array.shape)
    for place in np.ndindex(array.shape):
        out[place] = as_float(who, name, array[place], Place(*place[:2]) if place else None, do)
    return out


def as_float(who: str, name: Text, item: Any, where: Place | None, do: Text = ENCODE) -> float:
    """Convert an object to a float, NaN if it is a missing value; the error for anything else gives its place."""
    if is_missing(item):
        return float("nan")
    what, at = _argument(name), Phrase() if where is None else " " + where
    try:
        return float(item)
    except OverflowError:
        raise fail(who, what + " contains a number too large for double precision" + at, "rescale it") from None
    except Exception as error:
        text = isinstance(item, str | bytes)
        kind = "text" if text else type(item).__name__
        if text or isinstance(error, ValueError):
            raise fail(who, what + f" contains {kind} ({quoted(item)}" + at + ")", do) from None
        what = what + f" contains {kind} ({quoted(item)}" + at + "), but an argument must be a string or a number"
        raise NotNumbers(who, what, do) from None


def _argument(name: Text) -> Phrase:
    """Return a plain name as an :class:`Option`, and a phrase unchanged."""
    return phrase(name if isinstance(name, Phrase) or not isinstance(name, str) else Option(name))


def quoted(item: Any) -> str:
    """Return an entry in quotes, truncated if it is long."""
    try:
        return repr(_cut(str(item)))
    except Exception:  # an object whose str fails
        return f"a {type(item).__name__}"


def is_missing(item: Any) -> bool:
    """Return whether an object represents a missing value."""
    if item is None or type(item).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return True
    if isinstance(item, Decimal):
        return item.is_nan()
    if isinstance(item, np.datetime64 | np.timedelta64):
        return bool(np.isnat(item))
    return isinstance(item, float | np.floating) and bool(item != item)


def check_matrix(who: str, name: str, value: ArrayLike) -> np.ndarray:
    """Return a finite (n, d) array of floats with n ≥ 1 and d ≥ 1. float32 is kept, all other dtypes become float64."""
    array = as_numbers(who, name, value)
    if array.ndim == 1:
        what = Option(name) + f" has one dimension ({counted(array.shape[0], 'entry', 'entries')})"
        raise fail(who, what, f"give a table of rows and columns: {name}.reshape(-1, 1) for one input column")
    if array.ndim != 2:
        raise fail(who, Option(name) + f" has {array.ndim} dimensions", "give a table of rows and columns")
    if array.shape[0] == 0 or array.shape[1] == 0:
        what = Option(name) + f" has {counted(array.shape[0], 'row')} and {counted(array.shape[1], 'column')}"
        raise fail(who, what, "give at least one of each")
    if is_traced(array):
        return array
    check_finite(who, name, array)
    largest = float(np.sqrt(np.finfo(array.dtype).max)) / 1e4  # so that squares and their sums stay finite
    if np.abs(array).max() > largest:
        row, column = (int(i) for i in np.argwhere(np.abs(array) > largest)[0])
        raise fail(who, Option(name) + f" is {array[row, column]:g} " + Place(row, column), "rescale it")
    return array


def check_vector(who: str, name: str, value: ArrayLike, length: int | None = None) -> np.ndarray:
    """Return a finite vector of floats, after checking its length if ``length`` is given."""
    array = as_numbers(who, name, value)
    if array.ndim != 1:
        raise fail(who, Option(name) + f" has shape {array.shape}", "give one number per row")
    if length is not None and array.shape[0] != length:
        raise fail(
            who,
            Option(name)
            + f" has {counted(array.shape[0], 'entry', 'entries')} but "
            + Option("X")
            + f" has {counted(length, 'row')}",
            "give one per row",
        )
    check_finite(who, name, array)
    return array


def check_finite(who: str, name: str, array: np.ndarray) -> None:
    """Raise an error that gives the place of the first NaN or infinity, if there is one."""
    if is_traced(array):
        return
    bad = ~np.isfinite(array)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        count = f" ({counted(int(bad.sum()), 'such entry', 'such entries')} in all)"
        raise fail(who, Option(name) + f" is {array[where]} " + Place(*where[:2]) + count, "drop or fill these rows")


def check_positive(who: str, name: str, value: ArrayLike, *, zero: bool = False) -> None:
    """Raise an error if a number is not positive (or is negative, if ``zero`` is allowed)."""
    if is_traced(value):
        return
    array = as_numbers(who, name, value)
    ok = np.isfinite(array) & ((array >= 0) if zero else (array > 0))
    if not ok.all():
        bound = "zero or more" if zero else "positive"
        raise fail(who, Option(name) + f" is {array[~ok].ravel()[0] if array.ndim else array}", f"give {bound}, finite numbers")


def check_count(who: str, name: str, value: Any, *, least: int = 0, most: int = 2**31) -> int:
    """Return the value as an int, after checking that it is an integer from ``least`` to ``most``."""
    if not isinstance(value, Integral) or isinstance(value, bool | np.bool_) or not least <= int(value) <= most:
        raise fail(who, Option(name) + f" is {shown(value)}", f"give an integer from {least} to {most:,}")
    return int(value)
