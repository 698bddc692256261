"""Validation of the options and inputs of an estimator, and conversion of inputs to the matrix passed to kernels.

scikit-learn's own checks (shapes, feature names, sparse matrices) are part of it, so that its conventions are followed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from sklearn.utils.validation import validate_data

from covary._checks import CovaryError, fail, from_arrow, shown
from covary._errors import Option
from covary._warn import warn
from covary.data import Inputs, as_inputs
from covary.families.gaussian_process.predict import check_unseen
from covary.families.gaussian_process.processes import Processes
from covary.families.gaussian_process.settings import check_arguments, is_number
from covary.fits import Fit
from covary.tables.columns import Columns, check_rows, check_variation, unseen_words
from covary.tables.given import Frame, Table, as_table, check_dimensions, check_entries, frame_numbers, is_frame

VALIDATE: Callable[..., np.ndarray] = validate_data  # type: ignore[assignment]  # scikit-learn declares no types


class Fitting(Protocol):
    """An estimator that reads tables."""

    missing: str
    fit_: Fit[Processes]


def read_new(estimator: Fitting, X: Table) -> np.ndarray:
    """Convert new inputs to a finite float64 array, checked against the columns of the fit.

    A record of :class:`~covary.data.Inputs` is interpreted as the matrix passed to kernels.
    """
    return read_inputs(estimator, X, estimator.fit_.columns)[0]


def read_inputs(estimator: Fitting, X: Table, columns: Columns | None, *, gaps: bool = False) -> tuple[np.ndarray, Columns]:
    """Convert inputs to a finite float64 array (n, d), and return it with the columns.

    The columns are fitted to the inputs if ``columns`` is None. With ``gaps`` and ``missing="drop"``, rows with missing
    inputs are kept as NaN. With ``gaps``, the returned columns include the categories and missing values of these rows.
    """
    who, first = type(estimator).__name__, columns is None
    if isinstance(X, Inputs) and columns is not None:
        return np.asarray(as_inputs(X, who).x, np.float64), columns
    if hasattr(X, "collect") and hasattr(X, "collect_schema"):
        raise fail(who, Option("X") + f" is a {type(X).__name__}, which is evaluated lazily", "collect it first")
    X = from_arrow(X)
    frame = is_frame(X)
    if frame and not len(X.columns):
        raise fail(who, Option("X") + " has no columns", "give at least one")
    check_dimensions(who, X)
    if columns is not None and columns.named and not columns.plain and not frame:
        columns.matrix(who, X)  # raises the error about missing column names
    X = as_table(who, X)
    if columns is None and frame and len(X):
        columns = Columns.fit(who, X, estimator.missing)
    elif columns is None and estimator.missing != "refuse":
        columns = Columns.fit(who, _validated(estimator, X, first=True), estimator.missing)
    if columns is None or columns.array or (frame and not len(X)) or (not frame and columns.named and columns.plain):
        if is_frame(X):
            frame_numbers(who, X, "X")  # only to raise errors about cells: scikit-learn compares the names
        array = _validated(estimator, X, first=first)
        names = getattr(estimator, "feature_names_in_", None)
        check_entries(who, "X", array, names)
        columns = Columns.of_numbers(array.shape[1], names) if columns is None else columns
    else:
        array, columns = _mapped(estimator, columns, X, first=first, gaps=gaps)
        names = columns.keys
    if first:
        check_variation(who, array, names)
    return array, columns


def _validated(estimator: Fitting, X: np.ndarray | Frame, *, first: bool) -> np.ndarray:
    """Run scikit-learn's checks of shapes and names, and return X as an array of numbers."""
    return _asked(estimator, X, reset=first, dtype=np.float64, ensure_all_finite=False)


def _asked(estimator: Fitting, X: np.ndarray | Frame, **options: object) -> np.ndarray:
    """Run scikit-learn's ``validate_data``, and raise its errors in the name of the estimator."""
    try:
        return VALIDATE(estimator, X, **options)
    except CovaryError:
        raise
    except (ValueError, TypeError) as error:
        who, what, do = type(estimator).__name__, " ".join(str(error).split()), ""
        if not options.get("reset"):
            names, count = getattr(estimator, "feature_names_in_", None), getattr(estimator, "n_features_in_", None)
            if names is not None and is_frame(X) and list(X.columns) != list(names):  # scikit-learn lists those that differ
                what, do = str(error), "Give the columns of fit in their order, which feature_names_in_ lists"
            elif np.ndim(X) == 2 and np.shape(X)[1] != count:
                what = Option("X") + f" has {np.shape(X)[1]} features, but {who} is expecting {count} features as input"
                do = "give the columns of fit in their order"
        raise fail(who, what, do, argument="X") from None


def _mapped(
    estimator: Fitting, columns: Columns, X: np.ndarray | Frame, *, first: bool, gaps: bool
) -> tuple[np.ndarray, Columns]:
    """Encode a table with the columns of the fit; report missing values and unseen categories as warnings or errors."""
    who = type(estimator).__name__
    if first or columns.plain:  # plain numbers follow scikit-learn's rule: the same names in the same order
        _asked(estimator, X, reset=first, skip_check_array=True)
    elif not columns.named:
        X = _validated(estimator, X, first=False)
    found = columns.matrix(who, X)
    check_rows(who, columns, found, gaps=gaps)
    if first:
        return found.x, columns
    check_unseen(estimator.fit_, found, who)
    for text in (*unseen_words(found), *columns.unmarked(found)):
        warn(text)
    return found.x, columns.extended(found) if gaps else columns


def check_options(estimator: Any) -> None:
    """Raise an error for options of the wrong type, before any data are read."""
    check_arguments(type(estimator).__name__, estimator.get_params(deep=False))


def check_level(who: str, level: Any) -> float:
    """Return the level as a float, checked to be strictly between 0 and 1."""
    if not (is_number(level) and 0 < level < 1):
        raise fail(who, Option("level") + f" is {shown(level)}", "give a number between 0 and 1, such as 0.95")
    return float(level)
