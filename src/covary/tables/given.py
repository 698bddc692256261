"""Validation of arrays and frames passed by the user; errors report the row and column of the invalid entry."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from numbers import Integral, Real
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeGuard, cast

import numpy as np

from covary._checks import ENCODE, as_array, as_numbers, check_vector, fail, is_missing, shown
from covary._errors import Option, Place, Remedy, Text
from covary._words import counted
from covary.data import Inputs
from covary.tables.cells import LARGEST, SMALLEST

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from covary.tables.parquet import Parquet

CLASSES = "use GPClassifier for classes, or give numbers"  # if the target is text


class Series(Protocol):
    """One column of a frame from pandas, polars or a similar library."""

    def to_numpy(self) -> np.ndarray: ...

    def __array__(self) -> np.ndarray: ...

    def __len__(self) -> int: ...


class Frame(Protocol):
    """A table with named columns from pandas, polars or a similar library."""

    @property
    def columns(self) -> Collection[str]: ...

    def to_numpy(self) -> np.ndarray: ...

    def __array__(self) -> np.ndarray: ...

    def __getitem__(self, name: str, /) -> Series: ...

    def __iter__(self) -> Iterator[str]: ...

    def __len__(self) -> int: ...


Table: TypeAlias = "ArrayLike | Frame | Inputs | Parquet"
Targets: TypeAlias = "ArrayLike | Frame | Series | str"
PerRow: TypeAlias = "ArrayLike | Series | None"


def is_frame(X: object) -> TypeGuard[Frame]:
    """Return whether a table is a data frame."""
    return hasattr(X, "columns") and hasattr(X, "to_numpy")


def is_series(y: object) -> TypeGuard[Series]:
    """Return whether the targets are a column of a data frame."""
    return hasattr(y, "to_numpy")


def names_of(y: Targets) -> tuple[str, ...]:
    """Return the names of the target columns, for reports, files and frames; empty if they are not strings."""
    if is_frame(y):
        names = list(y.columns)
        return tuple(names) if all(isinstance(name, str) and name for name in names) else ()
    name = getattr(y, "name", None) if hasattr(y, "to_numpy") else None
    return (name,) if isinstance(name, str) and name else ()


def check_dimensions(who: str, X: Table) -> None:
    """Raise an error for a single column, row or number instead of a table; scikit-learn checks for too many dimensions."""
    if hasattr(X, "to_frame") and not hasattr(X, "columns"):
        what = Option("X") + f" is one column ({getattr(X, 'name', None)!r})"
        raise fail(who, what, "Reshape your data: X.to_frame() makes it a table")
    if isinstance(X, list | tuple) and X and all(isinstance(v, Real) for v in X):
        X = np.asarray(X)
    array = np.asarray(X) if isinstance(X, Real | np.ndarray) else None
    if array is not None and array.ndim < 2:
        what = (
            Option("X") + f" has one dimension ({counted(array.size, 'entry', 'entries')})"
            if array.ndim
            else Option("X") + " is a single number"
        )
        raise fail(who, what, "Reshape your data: X.reshape(-1, 1) for one column, X.reshape(1, -1) for one row")


def as_table(who: str, X: Table) -> np.ndarray | Frame:
    """Convert the input to an array of numbers; frames are returned unchanged."""
    if is_frame(X):
        return X
    array = as_array(who, "X", cast("ArrayLike", X))
    if array.ndim != 2:
        what = "one dimension" if array.ndim == 1 else f"{array.ndim} dimensions"
        do = "give a table of rows and columns: X.reshape(-1, 1) if it is one column"
        raise fail(who, Option("X") + f" has {what} (Expected 2D array. Reshape your data)", do)
    if array.dtype.kind == "M":
        what = Option("X") + " contains dates"
        raise fail(who, what, "convert them to numbers, or give a pandas or polars table with date columns")
    return as_numbers(who, "X", array)


def frame_numbers(who: str, frame: Frame, name: str, do: str = ENCODE) -> np.ndarray:
    columns = [as_numbers(who, f"column {c!r} of " + Option(name), frame[c].to_numpy(), do) for c in frame.columns]
    return np.column_stack(columns) if columns else np.empty((len(frame), 0))


def rows_kept(X: np.ndarray, *others: np.ndarray | None) -> tuple[np.ndarray, *tuple[np.ndarray | None, ...]]:
    """Remove the rows with missing inputs from X and from the per-row arrays."""
    gone = np.isnan(X).any(1)
    if not gone.any():
        return X, *others
    return X[~gone], *(None if a is None else a[~gone] for a in others)


def read_targets(who: str, y: Targets | None, rows: int) -> np.ndarray:
    """Convert targets to a finite float64 array of shape (n,) or (n, p)."""
    if y is None:
        raise fail(who, "it requires y to be passed, but the target y is None", "give one target per row")
    _check_given(who, y)
    array = frame_numbers(who, y, "y", CLASSES) if is_frame(y) else as_numbers(who, "y", _plain(y), CLASSES)
    if array.ndim not in (1, 2) or array.shape[0] != rows or (array.ndim == 2 and array.shape[1] == 0):
        what = Option("y") + f" has shape {array.shape} but " + Option("X") + f" has {counted(rows, 'row')}"
        raise fail(who, what, "give one entry (or one row) of y per row of X")
    array = array.astype(np.float64)
    check_entries(who, "y", array, None)
    largest = np.abs(array).max(initial=0.0)
    if 0 < largest < SMALLEST:
        raise fail(who, Option("y") + f" is at most {largest:.1e}", "rescale it")
    return array


def _check_given(who: str, y: Targets) -> None:
    """Raise an error for a single value, such as the name of a column, instead of one value per row."""
    if isinstance(y, str | bytes | Real) or (isinstance(y, np.ndarray) and y.ndim == 0):
        value = y.item() if isinstance(y, np.ndarray) else y
        what = Option("y") + f" is {shown(value)}"
        raise fail(who, what, "give one entry per row, such as table['y'], and the other columns as X")


def _plain(y: Targets) -> Targets:
    """Convert a column of a table to an array."""
    if is_series(y):
        with suppress(Exception):  # pyarrow arrays with missing values or text cannot be viewed; as_array copies them
            return y.to_numpy()
    return y


def read_rows(who: str, name: str, values: PerRow, rows: int, *, positive: bool = False) -> np.ndarray | None:
    """Convert the values to one number ≥ 0 per row (a single number is repeated for every row); None is returned unchanged."""
    if values is None:
        return None
    array = as_numbers(who, name, values)
    array = check_vector(who, name, np.full(rows, array) if array.ndim == 0 else array, rows).astype(np.float64)
    if (array < 0).any():
        row = int(np.argmax(array < 0))
        raise fail(who, Option(name) + f" is {array[row]:g} " + Place(row), "give zero or more")
    check_entries(who, name, array, None)
    if positive and not (array > 0).any():
        raise fail(who, "every " + Option(name) + " is zero", "give at least one row a positive weight")
    return array


def check_entries(
    who: str, name: str, array: np.ndarray, names: Sequence[str] | np.ndarray | None, *, drops: bool = False
) -> None:
    """Raise an error for missing, infinite or extremely large entries.

    The error reports the first such entry. ``drops`` means that rows with missing inputs are left out of fits.
    """
    bad = ~(np.abs(array) <= LARGEST)
    if not bad.any():
        return
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    value = array[where]
    shown = "NaN" if np.isnan(value) else f"{value:g}"
    place = Place(where[0])
    if array.ndim == 2 and (name == "X" or array.shape[1] > 1):
        place = Place(where[0], where[1] if names is None else str(names[where[1]]))
    count = int(bad.sum())
    more = "" if count == 1 else f" ({count} such entries in all)"
    do: Text = "rescale it" if np.isfinite(value) else "drop these rows or fill them"
    if np.isnan(value) and name == "X" and drops:
        do = (
            do
            + ": "
            + Option("missing", "'drop'")
            + " leaves rows out of the fit, but a row with a missing input cannot be predicted"
        )
    elif np.isnan(value) and name == "X":
        do = do + ", or choose how with " + Option("missing", "'drop'", "'indicator'", "'impute'")
        do = do + Remedy("of the constructor", " in the constructor, before fitting")
    elif np.isinf(value) and name == "X":
        do = "correct or drop such rows: infinity does not count as missing"
    elif np.isnan(value) and name == "y":
        do += " (rows without a target can be predicted after the fit)"
    raise fail(who, Option(name) + f" is {shown} " + place + more, do)


def read_labels(who: str, y: Targets | None, rows: int) -> np.ndarray:
    """Return class labels (n,) of one kind: text, numbers or booleans; missing or mixed labels raise an error."""
    if y is None:
        raise fail(who, "it requires y to be passed, but the target y is None", "give one label per row")
    _check_given(who, y)
    array = as_array(who, "y", _plain(y))
    if array.dtype.kind in "US" and isinstance(y, list | tuple) and array.ndim == 1:
        array = np.array([None, *y], dtype=object)[1:]  # unchanged: NumPy would convert numbers among text to text
    if array.ndim == 2 and array.shape[1] == 1:
        from sklearn.utils.validation import column_or_1d

        array = column_or_1d(array, warn=True)
    if array.ndim != 1 or len(array) != rows:
        what = Option("y") + f" has shape {array.shape} but " + Option("X") + f" has {counted(rows, 'row')}"
        raise fail(who, what, "give one label per row of X")
    if array.dtype.kind == "O":
        array = _one_kind(who, array, y)
    if array.dtype.kind == "c":
        raise fail(who, Option("y") + " contains complex numbers", "Complex data not supported: give labels")
    if array.dtype.kind == "f":
        check_entries(who, "y", array, None)
        bad = array != np.floor(array)
        if bad.any():
            row = int(np.argmax(bad))
            what = Option("y") + f" is {array[row]:g} " + Place(row) + ", which looks like a measurement"
            do = "give class labels (Unknown label type: continuous), or " + Remedy("regression", "use GPRegressor")
            raise fail(who, what, do)
    elif array.dtype.kind not in "iubUS":
        raise fail(who, Option("y") + f" has type {array.dtype}", "give labels: text, integers or booleans")
    return array


def read_known(who: str, y: Targets, rows: int, classes: np.ndarray) -> np.ndarray:
    """Return class labels, checked to be of the kind that the model was fitted to: text, bytes or numbers."""
    labels = read_labels(who, y, rows)
    kinds = [a.dtype.kind if a.dtype.kind in "US" else "n" for a in (labels, classes)]
    if kinds[0] != kinds[1]:
        words = {"U": "text", "S": "bytes", "n": "numbers or booleans"}
        what = Option("y") + f" contains {words[kinds[0]]} but the classes are {words[kinds[1]]}"
        raise fail(who, what, "give labels of that type")
    return labels


def _one_kind(who: str, array: np.ndarray, given: Targets) -> np.ndarray:
    """Convert objects that are all text, all booleans or all numbers to an array of that type."""
    kinds: dict[str, int] = {}
    for row, item in enumerate(array):
        if is_missing(item):
            what = Option("y") + " has no label " + Place(row)
            raise fail(who, what, "drop this row or fill it (it can be predicted after the fit)")
        kind = "text" if isinstance(item, str | bytes) else "numbers" if isinstance(item, Real | np.bool_) else "objects"
        if isinstance(item, bool | np.bool_):
            kind = "booleans"
        kinds.setdefault(kind, row)
    if len(kinds) > 1:
        (a, i), (b, j) = list(kinds.items())[:2]
        raise fail(who, Option("y") + f" mixes {a} (row {i}) and {b} (row {j})", "give labels of one kind")
    kind = next(iter(kinds), "numbers")
    if kind == "objects":
        what = Option("y") + f" contains {type(array[0]).__name__} objects (Unknown label type)"
        raise fail(who, what, "give text, integers or booleans")
    if kind == "numbers" and all(isinstance(item, Integral) for item in array):
        return np.array([int(item) for item in array])
    return as_numbers(who, "y", array) if kind == "numbers" else array.astype(str if kind == "text" else bool)
