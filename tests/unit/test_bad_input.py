"""Unusual and invalid tables: handled correctly, or an error that names the row or column and a remedy."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from covary import GP, GPClassifier, GPRegressor
from covary._checks import CovaryError, NotEnoughMemory
from covary.posterior import sample_prior

RNG = np.random.default_rng(5)
X = RNG.normal(size=(20, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=20)
QUICK = {"n_restarts": 0, "random_state": 0}


def sound(model: GPRegressor, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std > 0).all()
    assert np.isfinite(model.log_marginal_likelihood_)
    assert "nan" not in str(model.summary()).lower()
    return mean, std


def put(value: object, row: int = 4, column: int = 1) -> np.ndarray:
    out = X.astype(object) if isinstance(value, str) else X.copy()
    out[row, column] = value
    return out


def frame(**columns: object) -> pd.DataFrame:
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], **columns})


REFUSED = {
    "NaN in X": (put(np.nan), Y, r"X is NaN at row 4, column 1; drop these rows or fill them, or choose how with missing="),
    "inf in X": (put(np.inf), Y, "X is inf at row 4, column 1"),
    "huge X": (put(1e200), Y, "X is 1e[+]200 at row 4, column 1; rescale it"),
    "a column that hardly varies": (X * [1.0, 1e-80, 1.0], Y, r"column 1 of X varies by only .*e-80; rescale it"),
    "targets that are next to nothing": (X, 1e-80 * Y, r"y is at most .*e-80; rescale it"),
    "NaN in a frame": (frame(c=np.where(np.arange(20) > 17, np.nan, 1.0)), Y, r"row 18, column 'c' \(2 such entries in all\)"),
    "NaN in y": (X, np.where(np.arange(20) == 7, np.nan, Y), "y is NaN at row 7;"),
    "NaN in the second output": (X, np.column_stack([Y, np.where(np.arange(20) == 7, np.nan, Y)]), "row 7, column 1"),
    "text": (put("tall"), Y, r"X contains text \('tall' at row 4, column 1\); encode it as numbers, or leave it out"),
    "text among numbers": (frame(c=["x"] + ["1.5"] * 19), Y, r"column 'c' of X contains text among numbers \('x' at row 0\)"),
    "polars names": (pl.DataFrame({"a": X[:, 0], "c": [f"n{i}" for i in range(20)]}), Y, "identifiers rather than categories"),
    "lists in a frame": (frame(c=[[1]] * 20), Y, r"column 'c' of X contains list \('\[1\]' at row 0\)"),
    "dates in an array": (np.array([["2020-01-01"]] * 20, "datetime64[D]"), Y, "X contains dates; convert them to numbers"),
    "text in y": (X, ["cat"] * 20, r"y contains text \('cat' at row 0\)"),
    "missing of pandas": (frame(c=pd.array([1, None] * 10, dtype="Int64")), Y, "X is NaN at row 1, column 'c'"),
    "two columns of one name": (pd.DataFrame(X[:, :2], columns=["a", "a"]), Y, "two columns of X are called 'a'"),
    "ragged rows": ([[1.0, 2.0]] * 3 + [[1.0]], Y[:4], "row 3 of X has 1 entry but row 0 has 2"),
    "no rows": (np.empty((0, 3)), [], r"0 sample\(s\)"),
    "no columns": (np.empty((20, 0)), Y, r"0 feature\(s\)"),
    "one dimension": (X[:, 0], Y, "Reshape your data"),
    "three dimensions": (X[None], Y[None], "X has 3 dimensions"),
    "fewer targets": (X, Y[:19], r"y has shape \(19,\) but X has 20 rows"),
    "no targets": (X, None, "the target y is None"),
    "targets of three dimensions": (X, Y[:, None, None], r"y has shape \(20, 1, 1\)"),
    "complex": (X + 1j, Y, "Complex data not supported"),
    "complex y": (X, Y + 1j, "Complex data not supported"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_used_is_refused_in_a_sentence(name: str) -> None:
    X_bad, y_bad, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        GPRegressor(**QUICK).fit(X_bad, y_bad)


KERNELS = {
    "too many length-scales": ("Matern52(lengthscale=[1,2])", "lengthscale has 2 entries but X has 3 columns"),
    "no length-scale": ("Matern52(lengthscale=[])", "lengthscale"),
    "a column that is not there": ("Matern52().on(7)", "7"),
    "not a kernel": ("Matern53()", "no kernel is called 'Matern53'"),
    "a number": (3, "give a kernel from covary.kernels or its text"),
    "Wiener on negative inputs": ("Wiener().on(0)", "Wiener"),
    "a list of degrees": ("Polynomial(degree=[1,2])", "degree"),
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_that_does_not_fit_is_refused(name: str) -> None:
    kernel, message = KERNELS[name]
    with pytest.raises(CovaryError, match=message):
        GPRegressor(kernel, **QUICK).fit(X, Y)


WORKS = {
    "one row": (X[:1], Y[:1]),
    "two rows": (X[:2], Y[:2]),
    "one column": (X[:, :1], Y),
    "constant target": (X, np.full(20, 3.7)),
    "zero target": (X, np.zeros(20)),
    "constant column": (np.column_stack([X, np.full(20, 1e6)]), Y),
    "all columns constant": (np.ones((20, 2)), Y),
    "duplicate column": (np.column_stack([X, X]), Y),
    "more columns than rows": (RNG.normal(size=(5, 60)), Y[:5]),
    "tiny target": (X, 1e-30 * Y),
    "large target": (X, 1e9 + 1e9 * Y),
    "offset target": (X, 1e9 + Y),
    "thirty-nine decades": (X, 10.0 ** np.linspace(-30, 9, 20)),
    "whole numbers": (np.arange(40).reshape(20, 2), np.arange(20)),
    "booleans": (X > 0, Y > 0),
    "small whole types": (X.astype(np.int8), Y.astype(np.float16)),
    "single precision": (X.astype(np.float32), Y.astype(np.float32)),
    "numbers in an object column": (frame(c=np.array([1, 2.5] * 10, dtype=object)), Y),
    "booleans of pandas": (frame(c=pd.array([True, False] * 10, dtype="boolean")), Y),
    "numbers as text": (np.array([["1", "2.5"], ["3", "4"]]), [1, 2]),
    "lists": ([[1, 2], [3, 4], [5, 7]], [1, 2, 3]),
    "far from zero": (X + 1e8, Y),
    "tiny inputs": (1e-50 * X, Y),
    "large inputs": (1e60 * X, Y),
    "one far row": (np.vstack([X[:19], [[1e12, 0, 0]]]), Y),
    "all rows alike": (np.ones((20, 3)), Y),
    "replicates": (np.repeat(X[:5], 4, 0), Y),
    "one huge target": (X, np.where(np.arange(20) == 3, 1e12, Y)),
    "two outputs, one constant": (X, np.column_stack([Y, np.full(20, 5.0)])),
    "Fortran order": (np.asfortranarray(X), Y),
    "strided": (np.repeat(X, 2, 0)[::2], Y),
    "masked, nothing hidden": (np.ma.array(X), Y),
}


@pytest.mark.parametrize("name", WORKS)
def test_unusual_tables_work(name: str) -> None:
    X_odd, y_odd = WORKS[name]
    model = GPRegressor(**QUICK).fit(X_odd, y_odd)
    mean, std = sound(model, X_odd)
    y = np.asarray(y_odd, float)
    outside = np.abs(mean - y) > 5 * std + 1e-9 * np.abs(y)
    assert outside.mean() <= 0.1


def test_units_do_not_matter() -> None:
    plain = GPRegressor(**QUICK).fit(X, Y)
    mean, std = plain.predict(X, return_std=True)
    for scale in (1e-30, 1e9):
        got, bar = GPRegressor(**QUICK).fit(1e3 * X - 7, scale * Y).predict(1e3 * X - 7, return_std=True)
        np.testing.assert_allclose(got / scale, mean, rtol=1e-3, atol=1e-3 * Y.std())
        np.testing.assert_allclose(bar / scale, std, rtol=1e-2)


def test_a_constant_target_is_predicted_and_the_error_bar_stays_small_but_positive() -> None:
    mean, std = sound(GPRegressor(**QUICK).fit(X, np.full(20, 3.7)), X)
    np.testing.assert_allclose(mean, 3.7, rtol=1e-6)
    assert (std < 3.7).all()


def test_rows_and_columns_at_predict() -> None:
    model = GPRegressor(**QUICK).fit(frame(), Y)
    with pytest.raises(ValueError, match=r"feature names should match.*\n.*unseen at fit time.*\n.*z"):
        model.predict(frame().rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        model.predict(frame()[["b", "a"]])
    bad = frame()
    bad.loc[2, "b"] = np.nan
    with pytest.raises(ValueError, match="row 2, column 'b'"):
        model.predict(bad)
    plain = GPRegressor(**QUICK).fit(X, Y)
    with pytest.raises(ValueError, match="X has 2 features, but GPRegressor is expecting 3"):
        plain.predict(X[:, :2])
    with pytest.raises(CovaryError, match="both return_std and return_cov"):
        plain.predict(X, return_std=True, return_cov=True)


def test_a_fit_that_cannot_fit_says_how_much_it_would_need() -> None:
    with pytest.raises(NotEnoughMemory, match=r"needs \d[\d,]*\.\d GiB and .* GiB are free"):
        GPRegressor(**QUICK, method="exact").fit(np.arange(4_000_000.0)[:, None], np.zeros(4_000_000))


def test_draws_that_cannot_fit_say_how_much_they_would_need() -> None:
    regressor = GPRegressor("Matern52()", fixed="*").fit(X, Y)
    counts = GPRegressor("Matern52()", fixed="*", likelihood="poisson").fit(X, np.arange(20) % 3)
    classes = [GPClassifier("Matern52()", fixed="*").fit(X, np.arange(20) % c) for c in (2, 3)]
    classes.append(GPClassifier("Matern52()", fixed="*", multi_class="one_vs_rest").fit(X, np.arange(20) % 3))
    calls = [lambda m=m: m.sample_y(X, 2 * 10**9) for m in (regressor, counts, *classes)]
    calls += [lambda: counts.sample_y(X, 2 * 10**9, latent=True), lambda: sample_prior(GP("Matern52()"), X, 10**400, key=0)]
    for call in calls:
        with pytest.raises(NotEnoughMemory, match=r"needs \d[\d,]*\.\d GiB and .* GiB are free; use fewer draws at a time"):
            call()


entries = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True, width=64),
    st.floats(-1e3, 1e3),
    st.sampled_from([0.0, 1.0, -1.0, 1e-30, 1e9, 5e-324, 1.7e308]),
)
shapes = st.tuples(st.integers(0, 7), st.integers(0, 3))


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data())
def test_any_table_works_or_is_refused(data: st.DataObject) -> None:
    table = data.draw(arrays.arrays(np.float64, shapes, elements=entries))
    y = data.draw(arrays.arrays(np.float64, st.just(len(table)), elements=entries))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            model = GPRegressor(n_restarts=0, max_time=0.5, random_state=0).fit(table, y)
        except ValueError as error:
            sentence = str(error)
            assert len(sentence) < 500
            return
        mean, std = model.predict(table, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
