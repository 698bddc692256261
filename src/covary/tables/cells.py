"""Reading one column of a table (pandas, polars, or anything with ``to_numpy``): its kind and its values.

The kind (numbers, booleans, dates, durations or categories) follows from the dtype of the column, or from its entries if the
dtype is not specific (text, objects). Any other content raises an error. Missing values are kept.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from covary._checks import CovaryError, as_array, as_float, fail, is_missing, quoted
from covary._errors import Option, Phrase, Place, Remedy, Text

NUMBER, BOOLEAN, DATE, DURATION, CATEGORY = KINDS = ("number", "boolean", "date", "duration", "category")
LEAVE_OUT = Remedy("leave out", "leave it out")
ISO = re.compile(r"\d{4}[-/]\d{2}([-/]\d{2}([T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?( ?(Z|[+-]\d{2}:?\d{2}))?)?)?")
LARGEST, SMALLEST = 1e70, 1e-60  # beyond these, squares, their sums and their derivatives overflow or underflow
WORDS = {"true": 1.0, "false": 0.0}
SEVERAL = 5  # text that differs in every row is treated as identifiers in tables with more rows than this
FEW, SHARE = 20, 0.5  # so is text with more distinct values than this number and this fraction of the rows


@dataclass(frozen=True, eq=False)
class Cells:
    """Entries of a column: floats (NaN if missing), datetime64 or timedelta64 (NaT), or strings (None)."""

    kind: str
    values: np.ndarray
    levels: tuple[str, ...] = ()  # of a categorical dtype, in the order of the dtype
    aware: bool = False  # the dates have a time zone; the values are in UTC

    @property
    def missing(self) -> np.ndarray:
        """Mask of the missing entries."""
        if self.kind == CATEGORY:
            return np.array([v is None for v in self.values], dtype=bool)
        return np.isnan(self.values) if self.kind in (NUMBER, BOOLEAN) else np.isnat(self.values)


def label(column: str) -> Phrase:
    """Return the name of a column for error messages."""
    return f"column {column!r} of " + Option("X")


def read_cells(who: str, what: Text, column: Any, expected: str | None = None) -> Cells:
    """Read a column and determine its kind.

    Parameters
    ----------
    who, what
        Name of the caller and of the column, such as ``"column 'a' of X"``, for error messages.
    column
        A pandas or polars column, or a NumPy array.
    expected
        If given, the kind of the column during fit.

    Examples
    --------
    >>> import pandas as pd
    >>> read_cells("fit", "column 'when'", pd.Series(["2020-01-31", "2020-02-29"])).kind
    'date'
    >>> read_cells("fit", "column 'colour'", pd.Series(["red", "blue", "red"])).kind
    'category'
    """
    if expected == CATEGORY:
        return _as_category(who, what, column)
    found = _read(who, what, column)
    if expected is None or found.kind == expected or (expected, found.kind) == (NUMBER, BOOLEAN):
        return found
    if found.missing.all():
        return _empty(expected, len(found.values))
    if (expected, found.kind) == (BOOLEAN, NUMBER) and np.isin(found.values[~found.missing], (0.0, 1.0)).all():
        return Cells(BOOLEAN, found.values)
    row = int(np.flatnonzero(~found.missing)[0])
    names = {NUMBER: "numbers", BOOLEAN: "true or false", DATE: "dates", DURATION: "durations", CATEGORY: "text"}
    first = quoted(np.asarray(column, dtype=object)[row])
    what = what + f" contains {names[found.kind]} ({first} " + Place(row) + f") but contained {names[expected]} during fit"
    raise fail(who, what, "give values of the same kind")


def _empty(kind: str, rows: int) -> Cells:
    """Return a column in which every entry is missing."""
    if kind == CATEGORY:
        return Cells(kind, np.full(rows, None, dtype=object))
    types = {DATE: "datetime64[us]", DURATION: "timedelta64[us]"}
    return Cells(kind, np.full(rows, "NaT", types[kind]) if kind in types else np.full(rows, np.nan))


def _read(who: str, what: Text, column: Any) -> Cells:
    dtype = getattr(column, "dtype", None)
    name = str(dtype)
    if name == "category" or name.startswith(("Categorical", "Enum")):
        return _as_category(who, what, column)
    if name.startswith("period["):
        column = column.dt.to_timestamp()
    zone = getattr(dtype, "tz", None) or getattr(dtype, "time_zone", None)
    if zone is not None and hasattr(column, "dt") and hasattr(column.dt, "tz_convert"):  # pandas; polars gives UTC
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    array = _entries(who, what, column)
    kind = array.dtype.kind
    if kind == "b":
        return Cells(BOOLEAN, array.astype(np.float64))
    if kind in "fiu":
        return Cells(NUMBER, array.astype(np.float64))
    if kind in "mM":
        return Cells(DATE if kind == "M" else DURATION, _micro(who, what, array), aware=zone is not None)
    if kind == "c":
        what = what + " contains complex numbers"
        raise fail(who, what, "Complex data not supported: give real and imaginary parts separately")
    if kind not in "OSU":
        raise fail(who, what + f" has type {array.dtype}", "give numbers, text or dates")
    return _objects(who, what, array.astype(object))


def _entries(who: str, what: Text, column: Any) -> np.ndarray:
    """Return the entries of a column as a one-dimensional array."""
    array = as_array(who, what, column.to_numpy() if hasattr(column, "to_numpy") else column)
    if array.ndim != 1:  # structs of polars
        raise fail(who, what + " contains records, not single values", "unpack it, or " + LEAVE_OUT)
    return array


def _micro(who: str, what: Text, array: np.ndarray) -> np.ndarray:
    """Convert dates or durations to microseconds; raise an error if precision is lost."""
    out = array.astype(f"{array.dtype.kind}8[us]")
    lost = (out.astype(array.dtype) != array) & ~np.isnat(array)
    if lost.any():
        place = Place(int(np.argmax(lost)))
        raise fail(who, what + " has a resolution finer than a microsecond " + place, "convert it to numbers")
    return out


# objects ---------------------------------------------------------------------------------------------------------
def _objects(who: str, what: Text, array: np.ndarray) -> Cells:
    """Read entries of any type: text is parsed, and mixtures of kinds raise an error."""
    gone = np.array([is_missing(item) for item in array], dtype=bool)
    there = [item.decode("utf-8", "replace") if isinstance(item, bytes) else item for item in array[~gone]]
    types = set(map(type, there))
    if not types:
        return _empty(NUMBER, len(array))

    def every(*kinds: Any) -> bool:
        return all(issubclass(t, kinds) for t in types)

    if every(bool, np.bool_):
        return Cells(BOOLEAN, _spread(gone, [float(v) for v in there]))
    if every(Real, Decimal, np.bool_):
        places = np.flatnonzero(~gone)
        return Cells(NUMBER, _spread(gone, [as_float(who, what, v, Place(int(i))) for i, v in zip(places, there, strict=True)]))
    if every(dt.date, np.datetime64):
        return _dates(who, what, gone, there)
    if every(dt.timedelta, np.timedelta64):
        values = np.full(len(array), "NaT", "timedelta64[us]")
        values[~gone] = [np.timedelta64(v).astype("timedelta64[us]") for v in there]
        return Cells(DURATION, values)
    if not every(str, Real, Decimal, np.bool_):
        odd = next(i for i in np.flatnonzero(~gone) if not isinstance(array[i], str | bytes | Real | Decimal | np.bool_))
        kind = type(array[odd]).__name__
        what = what + f" contains {kind} ({quoted(array[odd])} " + Place(odd) + ")"
        raise fail(who, what, "give numbers, text or dates, or " + LEAVE_OUT)
    return _text(who, what, array, gone, there)


def _text(who: str, what: Text, array: np.ndarray, gone: np.ndarray, there: list[Any]) -> Cells:
    """Read text as numbers, booleans, dates or categories; only its distinct values are parsed."""
    different = set(there)
    numbers = {item: _number(item) for item in different}
    if None not in numbers.values():
        return Cells(NUMBER, _spread(gone, [numbers[v] for v in there]))
    if all(isinstance(v, str) and v.strip().lower() in WORDS for v in different if not isinstance(v, bool | np.bool_)):
        return Cells(BOOLEAN, _spread(gone, [WORDS[str(v).strip().lower()] for v in there]))
    if all(isinstance(v, str) and ISO.fullmatch(v.strip()) for v in different):
        try:
            dates = {v: _iso(v.strip()) for v in different}
        except ValueError:
            dates = {}
        if dates:
            return _dates(who, what, gone, [dates[v] for v in there])
    _check_mixture(who, what, array, gone, there, numbers)
    values = np.full(len(array), None, dtype=object)
    values[~gone] = [level_text(v) for v in there]
    return Cells(CATEGORY, values)


def _check_mixture(
    who: str, what: Text, array: np.ndarray, gone: np.ndarray, there: list[Any], numbers: dict[Any, Any]
) -> None:
    """Raise an error for text among measurements, which is more likely a typing error than a category."""
    found = [numbers[v] for v in there if numbers[v] is not None]
    words = sum(v is None for v in numbers.values())
    few = len(found) <= len(there) / 2 and len(numbers) - words <= words
    if not found or (few and all(v == np.floor(v) for v in found)):
        return
    odd = [i for i, v in zip(np.flatnonzero(~gone), there, strict=True) if numbers[v] is None]
    more = f", {len(odd)} such entries in all" if len(odd) > 1 else ""
    what = what + f" contains text among numbers ({quoted(array[odd[0]])} " + Place(odd[0]) + f"{more})"
    raise fail(who, what, "correct it, or " + Remedy("column as categories", "make the column categorical"))


def check_names(who: str, what: Text, texts: Sequence[str]) -> None:
    """Raise an error for text that identifies rows (nearly every row differs): no model can learn from it."""
    different, rows = len(set(texts)), len(texts)
    if (different == rows > SEVERAL) or (different > FEW and different > SHARE * rows):
        raise fail(
            who,
            what + f" contains {different} distinct texts in {rows} rows, such as {quoted(texts[0])}: "
            "identifiers rather than categories",
            LEAVE_OUT
            + " (write dates as 2024-12-31, and numbers with a decimal point), or "
            + Remedy("as categories", "make it categorical")
            + " if this is intended",
        )


def _dates(who: str, what: Text, gone: np.ndarray, there: list[Any]) -> Cells:
    """Read dates from objects; dates with a time zone are converted to UTC."""
    zones = {getattr(v, "tzinfo", None) is not None for v in there}
    if len(zones) > 1:
        raise fail(who, what + " contains dates with and without a time zone", "give all dates a time zone, or none")
    values = np.full(len(gone), "NaT", "datetime64[us]")
    aware = zones == {True}
    if aware:
        there = [v.astimezone(dt.UTC).replace(tzinfo=None) for v in there]
    values[~gone] = [np.datetime64(v).astype("datetime64[us]") for v in there]
    return Cells(DATE, values, aware=aware)


def _iso(text: str) -> dt.datetime:
    """Parse a date such as 2024-12-31, 2024-12, 2024/12/31 or 2024-12-31T23:59:59+01:00."""
    text = text.replace("/", "-").replace(" +", "+").replace(" -", "-").replace(" Z", "Z")
    return dt.datetime.fromisoformat(f"{text}-01" if len(text) == 7 else text)


def _number(item: Any) -> float | None:
    if isinstance(item, str) and "_" in item:  # float would accept Python's digit separators
        return None
    try:
        return float(item)
    except (TypeError, ValueError, OverflowError):
        return None


def _spread(gone: np.ndarray, values: list[Any]) -> np.ndarray:
    out = np.full(len(gone), np.nan)
    out[~gone] = values
    return out


# categories ------------------------------------------------------------------------------------------------------
def _as_category(who: str, what: Text, column: Any) -> Cells:
    """Read every entry as text; the levels of a categorical dtype keep their order."""
    dtype = getattr(column, "dtype", None)
    levels: tuple[str, ...] = ()
    declared = getattr(dtype, "categories", None)
    if str(dtype) == "category":
        levels = tuple(level_text(v) for v in declared)  # type: ignore[union-attr]
        column = column.astype(object)
    elif str(dtype).startswith("Enum"):
        levels = tuple(str(v) for v in declared)  # type: ignore[union-attr]
    array = _entries(who, what, column).astype(object)
    book: dict[Any, Any] = {}
    values = np.full(len(array), None, dtype=object)
    for i, item in enumerate(array):
        if is_missing(item):
            continue
        try:
            text = book.get(item)
        except TypeError:
            raise fail(who, what + f" contains {type(item).__name__} " + Place(i), "give text, or " + LEAVE_OUT) from None
        if text is None:
            text = book[item] = level_text(item)
        values[i] = text
    if len(set(levels)) < len(levels):
        raise CovaryError(who, what + " has two categories with the same text", "rename one")
    return Cells(CATEGORY, values, levels)


def level_text(item: Any) -> str:
    """Return the name of a category: text unchanged, integers without a decimal point.

    Examples
    --------
    >>> level_text("a"), level_text(2.0), level_text(True), level_text(b"b")
    ('a', '2', 'True', 'b')
    """
    if isinstance(item, bytes):
        return item.decode("utf-8", "replace")
    if isinstance(item, Real) and not isinstance(item, bool | np.bool_):
        try:
            number = float(item)
        except OverflowError:
            return quoted(item)[1:-1]
        return str(int(number)) if np.isfinite(number) and number == np.floor(number) else repr(number)
    return str(item)
