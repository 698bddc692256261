"""Tables as people have them, into arrays: what cannot be used is refused in one sentence that names row and column.

scikit-learn's own checks run in between (shapes, feature names, sparse matrices), so that its conventions hold.
"""

from __future__ import annotations

from contextlib import suppress
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from covary._checks import ENCODE, CovaryError, as_array, as_numbers, check_vector, fail, from_arrow, is_missing, shown
from covary._warn import warn
from covary._words import counted
from covary.data import Inputs, as_inputs
from covary.estimators.frames import Columns, Mapped, unseen_words

CLASSES = "use GPClassifier for classes, or give numbers"  # where a target is text
LARGEST, SMALLEST = 1e70, 1e-60  # beyond these, squares, their sums and their slopes leave the range of double precision


def read_table(estimator: Any, X: Any, *, reset: bool, gaps: bool = False) -> np.ndarray:
    """Inputs as a finite float64 array (n, d), checked against the columns seen in fit unless ``reset``.

    Frames go through :class:`~covary.estimators.frames.Columns`; a record of :class:`~covary.data.Inputs` is taken as the
    numbers the kernels see. With ``gaps``, rows with missing inputs are kept as NaN where ``missing="drop"`` says so.
    """
    who = type(estimator).__name__
    columns = getattr(estimator, "columns_", None)
    if isinstance(X, Inputs) and not reset:
        return np.asarray(as_inputs(X, who).x, np.float64)
    if hasattr(X, "collect") and hasattr(X, "collect_schema"):
        raise fail(who, f"X is a {type(X).__name__}, which is not computed yet", "collect it first")
    X = from_arrow(X)
    frame = is_frame(X)
    if frame and not len(X.columns):
        raise fail(who, "X has no columns", "give at least one")
    _check_dimensions(who, X)
    if columns is not None and not reset and columns.named and not columns.plain and not frame:
        columns.matrix(who, X)  # only the complaint: there are no names
    X = _numbers(who, X)
    if reset:
        missing = getattr(estimator, "missing", "refuse")
        if frame and len(X) and len(X.columns):
            columns = estimator.columns_ = Columns.fit(who, X, missing)
        elif missing != "refuse":
            array: Any = _validated(estimator, X, reset=True, dtype=np.float64, ensure_all_finite=False)
            columns = estimator.columns_ = Columns.fit(who, array, missing)
    if columns is None or (frame and not len(X)) or (not frame and columns.named and columns.plain):
        if frame:
            _frame_numbers(who, X, "X")  # only the complaint: scikit-learn compares the names
        array = _validated(estimator, X, reset=reset, dtype=np.float64, ensure_all_finite=False)
        names = getattr(estimator, "feature_names_in_", None)
        check_entries(who, "X", array, names)
    else:
        array, names = _mapped(estimator, columns, X, reset=reset, gaps=gaps), columns.keys
    if reset and len(array):
        spread = np.ptp(array[~np.isnan(array).any(1)], axis=0)
        tiny = (spread > 0) & (spread < SMALLEST)
        if tiny.any():
            j = int(np.argmax(tiny))
            column = repr(str(names[j])) if names is not None else j
            raise fail(who, f"column {column} of X varies by only {spread[j]:.1e}", "rescale it")
    return array


def _check_dimensions(who: str, X: Any) -> None:
    """Refuse a single column, row or number where a table is needed; arrays of more dimensions are scikit-learn's to refuse."""
    if hasattr(X, "to_frame") and not hasattr(X, "columns"):
        raise fail(who, f"X is one column ({getattr(X, 'name', None)!r})", "Reshape your data: X.to_frame() is a table of one")
    if isinstance(X, list | tuple) and X and all(isinstance(v, Real) for v in X):
        X = np.asarray(X)
    array: Any = np.asarray(X) if isinstance(X, Real | np.ndarray) else None
    if array is not None and array.ndim < 2:
        what = f"X has one dimension ({counted(array.size, 'entry', 'entries')})" if array.ndim else "X is a single number"
        raise fail(who, what, "Reshape your data: X.reshape(-1, 1) for one column, X.reshape(1, -1) for one row")


def _validated(estimator: Any, X: Any, **options: Any) -> Any:
    """scikit-learn's own checks (columns as in fit, at least one row); its messages, from whoever complains."""
    try:
        return validate_data(estimator, X, **options)
    except CovaryError:
        raise
    except (ValueError, TypeError) as error:
        text = str(error) if "feature names" in str(error) else " ".join(str(error).split())
        if "should match those that were passed during fit" in text:  # scikit-learn's list, and what to do
            text = f"{text.rstrip()}\nGive the columns of fit in their order, which feature_names_in_ lists."
        raise CovaryError(f"{type(estimator).__name__}: {text}") from None


def is_frame(X: Any) -> bool:
    """Whether a table has named columns of their own types."""
    return hasattr(X, "columns") and hasattr(X, "to_numpy")


def _mapped(estimator: Any, columns: Columns, X: Any, *, reset: bool, gaps: bool) -> np.ndarray:
    """A table as the numbers the kernels see; what should be known about it is a warning or a refusal."""
    who = type(estimator).__name__
    if reset or columns.plain:  # of plain numbers, scikit-learn's own rule: the same names in the same order
        _validated(estimator, X, reset=reset, skip_check_array=True)
    elif not columns.named:
        X = _validated(estimator, X, reset=False, dtype=np.float64, ensure_all_finite=False)
    found = columns.matrix(who, X)
    gone = found.gone
    if not (gaps and columns.missing == "drop"):
        check_entries(who, "X", found.x, columns.keys if columns.named else None, drops=columns.missing == "drop")
    elif gone.all():
        raise fail(who, "every row of X has a missing input", "fill some, or leave the columns out that have most of them")
    else:
        check_entries(who, "X", np.where(gone[:, None], 0.0, found.x), columns.keys)
    if not reset:
        check_unseen(estimator, found)
        for text in (*unseen_words(found), *columns.unmarked(found)):
            warn(text)
        if gaps:
            estimator.columns_ = columns.extended(found)
    return found.x


def check_unseen(estimator: Any, found: Mapped) -> None:
    """Refuse categories that fit did not see where the kernel knows a fixed number of categories only."""
    if not found.unseen or not hasattr(estimator, "model_"):  # one against the rest: the default kernel's own
        return
    try:
        estimator.model_.prior.check(Inputs(np.nan_to_num(found.x)))
    except CovaryError:
        name, levels = next(iter(found.unseen.items()))
        what = f"column {name!r} of X holds {next(iter(levels))!r}, never seen in fit, and the kernel knows no further category"
        do = "use Hamming() or Exchangeable() without levels, or leave the row out"
        raise fail(type(estimator).__name__, what, do) from None


def rows_kept(X: np.ndarray, *others: Any) -> tuple[Any, ...]:
    """X and whatever goes with its rows, without the rows whose inputs are missing."""
    gone = np.isnan(X).any(1)
    if not gone.any():
        return X, *others
    return X[~gone], *(None if a is None else a[~gone] for a in others)


def read_targets(who: str, y: Any, rows: int) -> np.ndarray:
    """Targets as a finite float64 array (n,) or (n, p)."""
    if y is None:
        raise fail(who, "it requires y to be passed, but the target y is None", "give one target per row")
    _check_given(who, y)
    array = _frame_numbers(who, y, "y", CLASSES) if is_frame(y) else as_numbers(who, "y", _plain(y), CLASSES)
    if array.ndim not in (1, 2) or array.shape[0] != rows or (array.ndim == 2 and array.shape[1] == 0):
        raise fail(
            who, f"y has shape {array.shape} but X has {counted(rows, 'row')}", "give one entry (or one row) of y per row of X"
        )
    array = array.astype(np.float64)
    check_entries(who, "y", array, None)
    largest = np.abs(array).max(initial=0.0)
    if 0 < largest < SMALLEST:
        raise fail(who, f"y is at most {largest:.1e}", "rescale it")
    return array


def _check_given(who: str, y: Any) -> None:
    """Refuse one value, such as the name of a column, where one per row is needed."""
    if isinstance(y, str | bytes | Real) or (isinstance(y, np.ndarray) and y.ndim == 0):
        value = y.item() if isinstance(y, np.ndarray) else y
        raise fail(who, f"y is {shown(value)}", "give one entry per row, such as table['y'], and the other columns as X")


def _plain(y: Any) -> Any:
    """A column of a table as an array."""
    if hasattr(y, "to_numpy"):
        with suppress(Exception):  # an array of pyarrow with gaps, or of text; as_array has it copied
            return y.to_numpy()
    return y


def read_rows(who: str, name: str, values: Any, rows: int, *, positive: bool = False) -> np.ndarray | None:
    """One number ≥ 0 per row (a single number is meant for every row), or None."""
    if values is None:
        return None
    array = as_numbers(who, name, values)
    array = check_vector(who, name, np.full(rows, array) if array.ndim == 0 else array, rows).astype(np.float64)
    if (array < 0).any():
        row = int(np.argmax(array < 0))
        raise fail(who, f"{name} is {array[row]:g} at row {row}", "give zero or more")
    check_entries(who, name, array, None)
    if positive and not (array > 0).any():
        raise fail(who, f"every {name} is zero", "give at least one row a positive weight")
    return array


def check_entries(who: str, name: str, array: np.ndarray, names: Any, *, drops: bool = False) -> None:
    """Refuse missing, infinite and absurdly large entries, naming the first place; ``drops``: gaps are left out of fits."""
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
    if np.isnan(value) and name == "X" and drops:
        do += ": missing='drop' leaves rows out of the fit, and a row without an input cannot be predicted"
    elif np.isnan(value) and name == "X":
        do += ", or say how with missing='drop', 'indicator' or 'impute'"
    elif np.isinf(value) and name == "X":
        do = "correct or drop such rows: infinite is not missing"
    elif np.isnan(value) and name == "y":
        do += " (rows without a target can be predicted after the fit)"
    raise fail(who, f"{name} is {shown} at {place}{more}", do)


def _numbers(who: str, X: Any) -> Any:
    """Anything but a frame as an array of numbers; frames as they are."""
    if is_frame(X):
        return X
    array = as_array(who, "X", X)
    if array.ndim != 2:
        what = "one dimension" if array.ndim == 1 else f"{array.ndim} dimensions"
        do = "give a table of rows and columns: X.reshape(-1, 1) if it is one column"
        raise fail(who, f"X has {what} (Expected 2D array. Reshape your data)", do)
    if array.dtype.kind == "M":
        raise fail(who, "X holds dates", "turn them into numbers, or give a pandas or polars table, whose dates are read")
    return as_numbers(who, "X", array)


def _frame_numbers(who: str, frame: Any, name: str, do: str = ENCODE) -> np.ndarray:
    columns = [as_numbers(who, f"column {c!r} of {name}", frame[c].to_numpy(), do) for c in frame.columns]
    return np.column_stack(columns) if columns else np.empty((len(frame), 0))


def read_labels(who: str, y: Any, rows: int) -> np.ndarray:
    """Class labels (n,): text, numbers or booleans, of one kind; missing ones and mixtures are refused."""
    if y is None:
        raise fail(who, "it requires y to be passed, but the target y is None", "give one label per row")
    _check_given(who, y)
    array = as_array(who, "y", _plain(y))
    if array.dtype.kind in "US" and isinstance(y, list | tuple) and array.ndim == 1:
        array = np.array([None, *y], dtype=object)[1:]  # as they are: NumPy would turn numbers among text into text
    if array.ndim == 2 and array.shape[1] == 1:
        from sklearn.utils.validation import column_or_1d

        array = column_or_1d(array, warn=True)
    if array.ndim != 1 or len(array) != rows:
        raise fail(who, f"y has shape {array.shape} but X has {counted(rows, 'row')}", "give one label per row of X")
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


def read_known(who: str, y: Any, rows: int, classes: np.ndarray) -> np.ndarray:
    """Class labels of the kind the model was fitted to: text, bytes, or numbers."""
    labels = read_labels(who, y, rows)
    kinds = [a.dtype.kind if a.dtype.kind in "US" else "n" for a in (labels, classes)]
    if kinds[0] != kinds[1]:
        words = {"U": "text", "S": "bytes", "n": "numbers or booleans"}
        raise fail(who, f"y holds {words[kinds[0]]} but the classes are {words[kinds[1]]}", "give the labels of fit")
    return labels


def _one_kind(who: str, array: np.ndarray, given: Any) -> np.ndarray:
    """Objects that are all text, all booleans or all numbers, as such an array."""
    kinds: dict[str, int] = {}
    for row, item in enumerate(array):
        if is_missing(item):
            raise fail(who, f"y has no label at row {row}", "drop this row or fill it (it can be predicted after the fit)")
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
    return as_numbers(who, "y", array) if kind == "numbers" else array.astype(str if kind == "text" else bool)
