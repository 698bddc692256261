"""Tables as people have them, into arrays: what cannot be used is refused in one sentence that names row and column.

scikit-learn's own checks run in between (shapes, feature names, sparse matrices), so that its conventions hold.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from covary._checks import check_vector, fail

LARGEST, SMALLEST = 1e70, 1e-60  # beyond these, squares, their sums and their slopes leave the range of double precision


def read_table(estimator: Any, X: Any, *, reset: bool) -> np.ndarray:
    """Inputs as a finite float64 array (n, d), checked against the columns seen in fit unless ``reset``."""
    who = type(estimator).__name__
    X = _numbers(who, X)
    array: Any = validate_data(estimator, X, reset=reset, dtype=np.float64, ensure_all_finite=False)
    names = getattr(estimator, "feature_names_in_", None)
    check_entries(who, "X", array, names)
    if reset and len(array):
        spread = np.ptp(array, axis=0)
        tiny = (spread > 0) & (spread < SMALLEST)
        if tiny.any():
            j = int(np.argmax(tiny))
            column = repr(str(names[j])) if names is not None else j
            raise fail(who, f"column {column} of X varies by only {spread[j]:.1e}", "rescale it")
    return array


def read_targets(who: str, y: Any, rows: int) -> np.ndarray:
    """Targets as a finite float64 array (n,) or (n, p)."""
    if y is None:
        raise fail(who, "it requires y to be passed, but the target y is None", "give one target per row")
    if hasattr(y, "to_numpy"):
        y = _frame_numbers(who, y, "y") if hasattr(y, "columns") else _column_numbers(who, y, "y")
    array = np.asarray(y)
    if array.dtype.kind in "OSU":
        array = _parse(who, "y", array)
    if array.dtype.kind == "c":
        raise fail(who, "y holds complex numbers", "Complex data not supported: fit real and imaginary part apart")
    if array.dtype.kind not in "fiub":
        raise fail(who, f"y has type {array.dtype}", "give numbers")
    if array.ndim not in (1, 2) or array.shape[0] != rows or (array.ndim == 2 and array.shape[1] == 0):
        raise fail(who, f"y has shape {array.shape} but X has {rows} rows", "give one entry (or one row) of y per row of X")
    array = array.astype(np.float64)
    check_entries(who, "y", array, None)
    largest = np.abs(array).max(initial=0.0)
    if 0 < largest < SMALLEST:
        raise fail(who, f"y is at most {largest:.1e}", "rescale it")
    return array


def read_rows(who: str, name: str, values: Any, rows: int, *, positive: bool = False) -> np.ndarray | None:
    """One number ≥ 0 per row (a single number is meant for every row), or None."""
    if values is None:
        return None
    if isinstance(values, Real):
        values = np.full(rows, values)
    array = check_vector(who, name, values, rows).astype(np.float64)
    if (array < 0).any():
        row = int(np.argmax(array < 0))
        raise fail(who, f"{name} is {array[row]:g} at row {row}", "give zero or more")
    if positive and not (array > 0).any():
        raise fail(who, f"every {name} is zero", "give at least one row a positive weight")
    return array


def check_entries(who: str, name: str, array: np.ndarray, names: Any) -> None:
    """Refuse missing, infinite and absurdly large entries, naming the first place."""
    bad = ~(np.abs(array) <= LARGEST)
    if not bad.any():
        return
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    value = array[where]
    shown = "NaN" if np.isnan(value) else f"{value:g}"
    place = f"row {where[0]}"
    if array.ndim == 2 and (name == "X" or array.shape[1] > 1):
        place += f", column {str(names[where[1]])!r}" if names is not None else f", column {where[1]}"
    count = int(bad.sum())
    more = "" if count == 1 else f" ({count} such entries in all)"
    do = "rescale it" if np.isfinite(value) else "drop these rows or fill them"
    raise fail(who, f"{name} is {shown} at {place}{more}", do)


def _numbers(who: str, X: Any) -> Any:
    """Frames with every column as numbers, arrays of objects parsed; everything else as it is."""
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        names = list(X.columns)
        if len({str(n) for n in names}) < len(names):
            twice = next(n for n in names if [str(m) for m in names].count(str(n)) > 1)
            raise fail(who, f"two columns of X are called {twice!r}", "rename one of them")
        _frame_numbers(who, X, "X")  # only the complaint: scikit-learn converts the frame itself and keeps its names
        return X
    if isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.dtype.kind in "OSU"):
        try:
            array = np.asarray(X)
        except ValueError:  # rows of different lengths
            lengths = [np.size(row) for row in X]
            row = next((i for i, n in enumerate(lengths) if n != lengths[0]), 0)
            what = f"row {row} of X has {lengths[row]} entries but row 0 has {lengths[0]}"
            raise fail(who, what, "give rows of one length") from None
        if array.dtype.kind in "SU" or (array.dtype.kind == "O" and array.ndim == 2):
            return _parse(who, "X", array)
    elif isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        raise fail(who, "X holds dates", "turn them into numbers, such as days since the first")
    return X


def _frame_numbers(who: str, frame: Any, name: str) -> np.ndarray:
    columns = [_column_numbers(who, frame[c], f"column {c!r} of {name}") for c in frame.columns]
    return np.column_stack(columns) if columns else np.empty((len(frame), 0))


def _column_numbers(who: str, column: Any, what: str) -> np.ndarray:
    """One column of a frame as floats, missing entries as NaN."""
    array = np.asarray(column.to_numpy())
    if array.dtype.kind in "fiub":
        return array.astype(np.float64)
    if array.dtype.kind in "mM":
        raise fail(who, f"{what} holds dates", "turn it into numbers, such as days since the first")
    if array.dtype.kind not in "OSU":
        raise fail(who, f"{what} has type {array.dtype}", "give numbers")
    return _parse(who, what, array)


def _parse(who: str, what: str, array: np.ndarray) -> np.ndarray:
    """Numbers from an array of objects; the first entry that is none is named."""
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        pass
    out = np.empty(array.shape)
    for place in np.ndindex(array.shape):
        item = array[place]
        if item is None or type(item).__name__ in ("NAType", "NaTType"):
            out[place] = np.nan
            continue
        try:
            out[place] = float(item)
        except ValueError:
            where = f"row {place[0]}" + (f", column {place[1]}" if len(place) == 2 else "")
            kind = "text" if isinstance(item, str | bytes) else type(item).__name__
            text = repr(str(item))
            text = text if len(text) <= 40 else text[:37] + "..."
            raise fail(who, f"{what} holds {kind} ({text} at {where})", "encode it as numbers, or leave it out") from None
    return out


def read_labels(who: str, y: Any, rows: int) -> np.ndarray:
    """Class labels (n,): text, numbers or booleans, of one kind; missing ones and mixtures are refused."""
    if y is None:
        raise fail(who, "it requires y to be passed, but the target y is None", "give one label per row")
    if hasattr(y, "to_numpy"):
        y = y.to_numpy()
    array = np.asarray(y)
    if array.dtype.kind in "US" and isinstance(y, list | tuple) and array.ndim == 1:
        array = np.array([None, *y], dtype=object)[1:]  # as they are: NumPy would turn numbers among text into text
    if array.ndim == 2 and array.shape[1] == 1:
        from sklearn.utils.validation import column_or_1d

        array = column_or_1d(array, warn=True)
    if array.ndim != 1 or len(array) != rows:
        raise fail(who, f"y has shape {array.shape} but X has {rows} rows", "give one label per row of X")
    if array.dtype.kind == "O":
        array = _one_kind(who, array, y)
    if array.dtype.kind == "c":
        raise fail(who, "y holds complex numbers", "Complex data not supported: give labels")
    if array.dtype.kind == "f":
        check_entries(who, "y", array, None)
        bad = array != np.floor(array)
        if bad.any():
            row = int(np.argmax(bad))
            what = f"y is {array[row]:g} at row {row}, which looks like a measurement"
            raise fail(who, what, "give class labels (Unknown label type: continuous), or use GPRegressor")
    elif array.dtype.kind not in "iubUS":
        raise fail(who, f"y has type {array.dtype}", "give labels: text, whole numbers or booleans")
    return array


def _one_kind(who: str, array: np.ndarray, given: Any) -> np.ndarray:
    """Objects that are all text, all booleans or all numbers, as such an array."""
    kinds: dict[str, int] = {}
    for row, item in enumerate(array):
        if item is None or type(item).__name__ in ("NAType", "NaTType") or (isinstance(item, float) and np.isnan(item)):
            raise fail(who, f"y has no label at row {row}", "drop this row or fill it")
        kind = "text" if isinstance(item, str | bytes) else "numbers" if isinstance(item, Real | np.bool_) else "objects"
        if isinstance(item, bool | np.bool_):
            kind = "booleans"
        kinds.setdefault(kind, row)
    if len(kinds) > 1:
        (a, i), (b, j) = list(kinds.items())[:2]
        raise fail(who, f"y mixes {a} (row {i}) and {b} (row {j})", "give labels of one kind")
    kind = next(iter(kinds), "numbers")
    if kind == "objects":
        raise fail(
            who, f"y holds {type(array[0]).__name__} objects (Unknown label type)", "give text, whole numbers or booleans"
        )
    if kind == "numbers" and all(isinstance(item, Integral) for item in array):
        return np.array([int(item) for item in array])
    return array.astype({"text": str, "booleans": bool, "numbers": np.float64}[kind])
