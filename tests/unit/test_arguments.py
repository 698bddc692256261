"""X, y, weights and options of the wrong kind; tests/robustness/arguments.py covers thousands of cases."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from covary import Data, GPClassifier, GPRegressor
from covary._checks import CovaryError
from covary.kernels import Matern52
from covary.parameters import fixed

X = np.linspace(0, 3, 8)[:, None]
Y = np.sin(X[:, 0])
HELD: dict[str, Any] = {"kernel": "Matern52()", "fixed": ("*",)}


@pytest.fixture(scope="module")
def model() -> Any:
    return GPRegressor(**HELD).fit(X, Y)


@pytest.fixture(scope="module")
def classes() -> Any:
    return GPClassifier(**HELD).fit(X, Y > 0.5)


def test_a_masked_entry_is_a_missing_one(model: Any) -> None:
    hidden = np.ma.array(np.where(X > 2.6, 99.0, X), mask=X > 2.6)
    for call in (
        lambda: GPRegressor(**HELD).fit(hidden, Y),
        lambda: model.predict(hidden),
        lambda: Data(hidden, Y),
        lambda: model.predict(list(hidden)),
    ):
        with pytest.raises(CovaryError, match=r"X is (NaN|nan) at row 7"):
            call()
    for name, call in {
        "y": lambda v: GPRegressor(**HELD).fit(X, v),
        "sample_weight": lambda v: GPRegressor(**HELD).fit(X, Y, sample_weight=v),
        "weight": lambda v: Data(X, Y, weight=v),
    }.items():
        with pytest.raises(CovaryError, match=f"{name} is (NaN|nan) at row 7"):
            call(hidden[:, 0])
    filled = GPRegressor(fixed=("*",), missing="impute").fit(hidden, Y).predict(hidden)
    gaps = np.where(X > 2.6, np.nan, X)
    np.testing.assert_array_equal(filled, GPRegressor(fixed=("*",), missing="impute").fit(gaps, Y).predict(gaps))


def test_a_masked_label_is_no_class(classes: Any) -> None:
    """NumPy's fill values, "?" and "N/A", would be classes of their own."""
    text, hidden = np.where(Y > 0.5, "high", "low"), np.arange(8) == 3
    for labels in (text, text.astype(object), text.astype(bytes), (Y > 0.5).astype(int), Y > 0.5):
        masked = np.ma.array(labels, mask=hidden)
        for given in (masked, list(masked)):
            for call in (GPClassifier(**HELD).fit, classes.score):
                with pytest.raises(CovaryError, match=r"y (has no label|is NaN) at row 3"):
                    call(X, given)
    for value in (np.ma.array(Y.astype(object), mask=hidden), np.ma.array(Y.astype(str), mask=hidden)):
        with pytest.raises(CovaryError, match="y is NaN at row 3"):
            GPRegressor(**HELD).fit(X, value)
    with pytest.raises(CovaryError, match="X is NaN at row 1, column 0"):
        GPRegressor(**HELD).fit([["1.5"], [np.ma.masked]], Y[:2])
    with pytest.raises(CovaryError, match="lengthscale has masked entries; give a number for each"):
        Matern52(fixed(np.ma.array([1.0, 2.0], mask=[True, False])))


def test_tables_of_arrow_keep_their_names() -> None:
    """As arrays, columns in another order gave other predictions without a word."""
    pa = pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": X[:, 0], "b": np.cos(5 * X[:, 0])})
    model, table = GPRegressor(**HELD).fit(frame, Y), pa.Table.from_pandas(frame)
    np.testing.assert_array_equal(model.predict(table), model.predict(frame))
    for swapped in (table.select(["b", "a"]), table.select(["b", "a"]).to_batches()[0]):
        with pytest.raises(CovaryError, match="same order"):
            model.predict(swapped)
    mixed = pd.DataFrame({"kind": ["x", "y"] * 4, "when": pd.date_range("2020", periods=8), "number": X[:, 0]})
    found = GPRegressor(fixed=("*",)).fit(pa.Table.from_pandas(mixed), Y).predict(pa.Table.from_pandas(mixed))
    np.testing.assert_array_equal(found, GPRegressor(fixed=("*",)).fit(mixed, Y).predict(mixed))


def test_columns_that_hold_no_single_entries() -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(CovaryError, match="column 'a' of X contains records, not single values"):
        GPRegressor(**HELD).fit(polars.DataFrame({"a": [{"b": 1.0}] * 8}), Y)
    for table in (polars.DataFrame(), pd.DataFrame(index=range(8))):
        with pytest.raises(CovaryError, match="X has no columns; give at least one"):
            GPRegressor(**HELD).fit(table, Y)
    texts = pd.DataFrame({"a": pd.Series([np.ma.masked, *"xyxyxyx"], dtype=object)})
    with pytest.raises(CovaryError, match="X is NaN at row 0, column 'a'"):
        GPRegressor(fixed=("*",)).fit(texts, Y)


def test_columns_of_arrow_are_targets() -> None:
    pa = pytest.importorskip("pyarrow")
    labels = np.where(Y > 0.5, "high", "low")
    np.testing.assert_array_equal(GPClassifier(**HELD).fit(X, pa.array(labels)).classes_, ["high", "low"])
    for value, words in ((pa.array([None, *Y[1:]]), "y is NaN at row 0"), (pa.array(labels), "y contains text")):
        with pytest.raises(CovaryError, match=words):
            GPRegressor(**HELD).fit(X, value)
    with pytest.raises(CovaryError, match="y has no label at row 0"):
        GPClassifier(**HELD).fit(X, pa.array([None, *labels[1:]]))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([*Y[:-1], 10**400], "y contains a number too large for double precision at row 7"),
        ([*Y[:-1], 10**6000], "y contains a number too large"),
        ([*Y[:-1], Decimal("sNaN")], "y is NaN at row 7"),
        ([*Y[:-1], 1j], "y contains complex"),
        (sparse.csr_matrix(Y), r"y is sparse; give a dense array: y.toarray\(\)"),
        ((v for v in Y), "y is a generator"),
        (np.zeros(8, dtype=[("a", float)]), "y has named fields"),
        (pd.Series(pd.date_range("2020", periods=8)), "y contains dates"),
        ([[1.0, 2.0], [3.0]] * 4, "row 1 of y has 1 entry but row 0 has 2"),
        (np.array(1.0), "y is 1.0; give one entry per row"),
        (b"abc", "y is b'abc'; give one entry per row"),
        (pd.Series([*range(7), None], dtype="Int64"), "y is NaN at row 7"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_targets_of_the_wrong_kind(model: Any, value: Any, words: str) -> None:
    for verb in (GPRegressor(**HELD).fit, model.score):
        with pytest.raises(CovaryError, match=words):
            verb(X, value)


def test_a_list_that_holds_itself_is_refused(model: Any, classes: Any) -> None:
    own: list[Any] = [1.0]
    own.append(own)
    for call in (model.score, classes.score):
        with pytest.raises(CovaryError, match="y contains lists or arrays"):
            call(X, [own] * 8)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_restarts": 10**400}, "n_restarts is 1000"),
        ({"n_restarts": 0.5}, "n_restarts is 0.5; give an integer"),
        ({"max_time": "soon"}, "max_time is 'soon'; give a positive number of seconds"),
        ({"fixed": 5}, "fixed is 5; give paths"),
        ({"bounds": {"kernel.lengthscale": 1}}, "give bounds by path"),
        ({"priors": 5}, "priors is 5"),
        ({"noise": "loud"}, "noise is 'loud'; give positive, finite numbers"),
        ({"method": np.zeros(3)}, "method is array"),
        ({"random_state": -1}, "random_state is -1; give an integer"),
        ({"objective": 5}, "objective is 5; choose 'evidence'"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_options_of_the_wrong_kind(options: dict[str, Any], words: str) -> None:
    with pytest.raises(CovaryError, match=words):
        GPRegressor(**options).fit(X, Y)


def test_scores_are_those_of_scikit_learn(model: Any, classes: Any) -> None:
    from sklearn.metrics import accuracy_score, r2_score

    weight = np.arange(8.0)
    assert model.score(X, Y + 0.3, weight) == r2_score(Y + 0.3, model.predict(X), sample_weight=weight)
    labels = np.arange(8) % 2 == 0
    assert classes.score(X, labels, weight) == accuracy_score(labels, classes.predict(X), sample_weight=weight)
    with pytest.raises(CovaryError, match="y contains text but the classes are numbers or booleans"):
        classes.score(X, ["a"] * 8)


def test_two_rows_that_disagree_at_one_place_under_wide_tails() -> None:
    """Half-way between the two the posterior has a saddle, and no maximum."""
    found = GPRegressor(likelihood="student_t", n_restarts=0, random_state=0).fit(np.ones((2, 1)), [0.0, 1.0])
    low, high = found.predict_interval([[1.0]])
    assert low[0] < found.predict([[1.0]])[0] < high[0]
