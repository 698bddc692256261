"""One column of a table (pandas, polars, or anything with ``to_numpy``): what it holds, and its values with the gaps kept.

Numbers, true/false, dates, durations and categories are told apart by the column's type, or by its entries where the type
says nothing (text, objects). What is none of these is refused in one sentence.
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

NUMBER, BOOLEAN, DATE, DURATION, CATEGORY = KINDS = ("number", "boolean", "date", "duration", "category")
ISO = re.compile(r"\d{4}[-/]\d{2}([-/]\d{2}([T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?( ?(Z|[+-]\d{2}:?\d{2}))?)?)?")
WORDS = {"true": 1.0, "false": 0.0}
SEVERAL = 5  # rows from which a text of its own for each is a name
FEW, SHARE = 20, 0.5  # different texts, and their share of the rows, above which they are names too


@dataclass(frozen=True, eq=False)
class Cells:
    """The entries of a column: floats (NaN is missing), datetime64 or timedelta64 (NaT), or texts (None)."""

    kind: str
    values: np.ndarray
    levels: tuple[str, ...] = ()  # of a categorical type, in its own order
    aware: bool = False  # dates with a time zone, given here in UTC

    @property
    def missing(self) -> np.ndarray:
        """Which entries are missing."""
        if self.kind == CATEGORY:
            return np.array([v is None for v in self.values], dtype=bool)
        return np.isnan(self.values) if self.kind in (NUMBER, BOOLEAN) else np.isnat(self.values)


def read_cells(who: str, what: str, column: Any, expected: str | None = None) -> Cells:
    """What a column holds; ``expected`` says what it held in fit.

    Parameters
    ----------
    who, what
        Whose message, and what the column is called there: ``"column 'a' of X"``.
    column
        A pandas or polars column, or a NumPy array.
    expected
        The kind of the column when the model was fitted, if it was.

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
    raise fail(
        who, f"{what} holds {names[found.kind]} ({first} at row {row}) but held {names[expected]} in fit", "give the same kind"
    )


def _empty(kind: str, rows: int) -> Cells:
    """Nothing but gaps."""
    if kind == CATEGORY:
        return Cells(kind, np.full(rows, None, dtype=object))
    types = {DATE: "datetime64[us]", DURATION: "timedelta64[us]"}
    return Cells(kind, np.full(rows, "NaT", types[kind]) if kind in types else np.full(rows, np.nan))


def _read(who: str, what: str, column: Any) -> Cells:
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
        raise fail(who, f"{what} holds complex numbers", "Complex data not supported: give real and imaginary part apart")
    if kind not in "OSU":
        raise fail(who, f"{what} has type {array.dtype}", "give numbers, text or dates")
    return _objects(who, what, array.astype(object))


def _entries(who: str, what: str, column: Any) -> np.ndarray:
    """The entries of a column as an array of one dimension."""
    array = as_array(who, what, column.to_numpy() if hasattr(column, "to_numpy") else column)
    if array.ndim != 1:  # structs of polars
        raise fail(who, f"{what} holds records, not single entries", "unpack it, or leave it out")
    return array


def _micro(who: str, what: str, array: np.ndarray) -> np.ndarray:
    """Dates or durations in microseconds, without loss."""
    out = array.astype(f"{array.dtype.kind}8[us]")
    lost = (out.astype(array.dtype) != array) & ~np.isnat(array)
    if lost.any():
        raise fail(who, f"{what} is finer than a microsecond at row {int(np.argmax(lost))}", "turn it into numbers yourself")
    return out


# objects ---------------------------------------------------------------------------------------------------------
def _objects(who: str, what: str, array: np.ndarray) -> Cells:
    """Entries of whatever type: text is looked into, mixtures of kinds are refused."""
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
        return Cells(NUMBER, _spread(gone, [as_float(who, what, v, f"row {i}") for i, v in zip(places, there, strict=True)]))
    if every(dt.date, np.datetime64):
        return _dates(who, what, gone, there)
    if every(dt.timedelta, np.timedelta64):
        values = np.full(len(array), "NaT", "timedelta64[us]")
        values[~gone] = [np.timedelta64(v).astype("timedelta64[us]") for v in there]
        return Cells(DURATION, values)
    if not every(str, Real, Decimal, np.bool_):
        odd = next(i for i in np.flatnonzero(~gone) if not isinstance(array[i], str | bytes | Real | Decimal | np.bool_))
        kind = type(array[odd]).__name__
        raise fail(
            who, f"{what} holds {kind} ({quoted(array[odd])} at row {odd})", "give numbers, text or dates, or leave it out"
        )
    return _text(who, what, array, gone, there)


def _text(who: str, what: str, array: np.ndarray, gone: np.ndarray, there: list[Any]) -> Cells:
    """Text: numbers, true and false, dates, or categories; by its different values, which are fewer."""
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


def _check_mixture(who: str, what: str, array: np.ndarray, gone: np.ndarray, there: list[Any], numbers: dict[Any, Any]) -> None:
    """Refuse a word among measurements: a slip, not a category."""
    found = [numbers[v] for v in there if numbers[v] is not None]
    words = sum(v is None for v in numbers.values())
    few = len(found) <= len(there) / 2 and len(numbers) - words <= words
    if not found or (few and all(v == np.floor(v) for v in found)):
        return
    odd = [i for i, v in zip(np.flatnonzero(~gone), there, strict=True) if numbers[v] is None]
    more = f", {len(odd)} such entries in all" if len(odd) > 1 else ""
    raise fail(
        who,
        f"{what} holds text among numbers ({quoted(array[odd[0]])} at row {odd[0]}{more})",
        "correct it, or make the column categorical",
    )


def check_names(who: str, what: str, texts: Sequence[str]) -> None:
    """Refuse text that names rows (nearly every row has its own): nothing can be learned from it."""
    different, rows = len(set(texts)), len(texts)
    if (different == rows > SEVERAL) or (different > FEW and different > SHARE * rows):
        raise fail(
            who,
            f"{what} holds {different} different texts in {rows} rows, such as {quoted(texts[0])}: "
            "names rather than categories",
            "leave it out (write dates as 2024-12-31, numbers with a point), or make it categorical if you mean it",
        )


def _dates(who: str, what: str, gone: np.ndarray, there: list[Any]) -> Cells:
    """Dates from objects, those with a time zone in UTC."""
    zones = {getattr(v, "tzinfo", None) is not None for v in there}
    if len(zones) > 1:
        raise fail(who, f"{what} holds dates with and without a time zone", "give all of them the same")
    values = np.full(len(gone), "NaT", "datetime64[us]")
    aware = zones == {True}
    if aware:
        there = [v.astimezone(dt.UTC).replace(tzinfo=None) for v in there]
    values[~gone] = [np.datetime64(v).astype("datetime64[us]") for v in there]
    return Cells(DATE, values, aware=aware)


def _iso(text: str) -> dt.datetime:
    """A date from text such as 2024-12-31, 2024-12, 2024/12/31 or 2024-12-31T23:59:59+01:00."""
    text = text.replace("/", "-").replace(" +", "+").replace(" -", "-").replace(" Z", "Z")
    return dt.datetime.fromisoformat(f"{text}-01" if len(text) == 7 else text)


def _number(item: Any) -> float | None:
    if isinstance(item, str) and "_" in item:  # Python's own spelling of numbers, nobody else's
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
def _as_category(who: str, what: str, column: Any) -> Cells:
    """Every entry as a text; the levels of a categorical type in their own order."""
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
            raise fail(who, f"{what} holds {type(item).__name__} at row {i}", "give text, or leave it out") from None
        if text is None:
            text = book[item] = level_text(item)
        values[i] = text
    if len(set(levels)) < len(levels):
        raise CovaryError(f"{who}: {what} has two categories that read the same; rename one.")
    return Cells(CATEGORY, values, levels)


def level_text(item: Any) -> str:
    """What a category is called: text as it is, whole numbers without a point.

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
