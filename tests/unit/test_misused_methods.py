"""Typical mistakes of new users in methods, imports and arithmetic: errors name the class and the argument."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pandas as pd
import pytest

import covary
import covary.kernels
from covary import GPClassifier, GPRegressor, Inputs
from covary._checks import CovaryError
from covary.committee import Parquet
from covary.executors import Dask
from covary.kernels import Matern52, Periodic, parse

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 5, (25, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(25)
LABELS = np.where(Y > 0, "up", "down")


def regressor(kernel: Any = None, **options: Any) -> GPRegressor:
    return GPRegressor(kernel, **{"n_restarts": 0, "random_state": 0, **options})


def sentence(call: Any) -> str:
    with pytest.raises(CovaryError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.fixture(scope="module")
def fitted() -> tuple[Any, Any]:
    return regressor("Matern52()", fixed="*").fit(X, Y), GPClassifier("Matern52()", fixed="*").fit(X, LABELS)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda m, c: m.predict_frame(X, 0.9),
            "GPRegressor.predict_frame: 2 arguments given by position but it takes 1 (X); give",
        ),
        (lambda m, c: c.predict_frame(X, latent=True), "GPClassifier.predict_frame: unknown argument 'latent'; choose from"),
        (
            lambda m, c: m.predict(X, retrun_std=True),
            "GPRegressor.predict: unknown argument 'retrun_std'; did you mean 'return_std'?",
        ),
        (
            lambda m, c: m.predict(X, full_cov=True),
            "GPRegressor.predict: unknown argument 'full_cov'; did you mean 'return_cov'?",
        ),
        (lambda m, c: m.predict(X, return_var=True), "unknown argument 'return_var'; square the standard deviation"),
        (lambda m, c: c.predict(X, return_var=True), "GPClassifier.predict: unknown argument 'return_var'; choose from X."),
        (lambda m, c: m.fit(X), "GPRegressor.fit: 'y' is missing; write fit(X, y)."),
        (lambda m, c: m.fit(X, Y, weights=Y), "GPRegressor.fit: unknown argument 'weights'; did you mean 'sample_weight'?"),
        (lambda m, c: m.save(), "GPRegressor.save: 'path' is missing; write save(path)."),
        (lambda m, c: m.report(file="a.html"), "GPRegressor.report: unknown argument 'file'; did you mean 'path'?"),
        (lambda m, c: c.decide(X), "GPClassifier.decide: 'loss' is missing; write decide(X, loss)."),
        (lambda m, c: GPRegressor.fit(X, Y), "GPRegressor.fit: it is called on the class; write GPRegressor().fit(...)."),
        (lambda m, c: m.kernel_(X, eval_gradient=True), "kernels.Matern52: unknown argument 'eval_gradient'; leave it out"),
        (lambda m, c: m.kernel_(), "kernels.Matern52: 'x' is missing; write k(x)."),
        (lambda m, c: Dask(adress="tcp://x"), "Dask: unknown argument 'adress'; did you mean 'address'?"),
        (lambda m, c: Parquet(), "Parquet: 'path' is missing; write Parquet(path=...)."),
        (lambda m, c: Inputs(), "Inputs: 'x' is missing; write Inputs(x=...)."),
        (lambda m, c: 2.0 * Matern52, "kernels: Matern52 is a class; write Matern52()."),
        (lambda m, c: Matern52 + Periodic, "kernels: Matern52 is a class; write Matern52()."),
    ],
)
def test_methods_name_the_class_and_the_argument(fitted: Any, call: Any, said: str) -> None:
    with pytest.raises(TypeError) as caught:
        call(*fitted)
    assert isinstance(caught.value, CovaryError)
    assert said in str(caught.value)


def test_methods_keep_their_signatures_and_errors_from_inside() -> None:
    assert list(inspect.signature(GPRegressor.predict).parameters)[:3] == ["self", "X", "return_std"]

    class Broken(GPRegressor):
        def predict(self, X: Any) -> Any:  # type: ignore[override]
            return len(3)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="object of type 'int' has no len"):
        Broken().predict(X)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("from covary.kernels import RBF, WhiteKernel", r"'WhiteKernel'; noise belongs to the estimator: GPRegressor\(noise"),
        ("from covary.kernels import ConstantKernel", r"'ConstantKernel'; write a number: 2.0 \* Matern52"),
        ("from covary import Matern52", "'Matern52'; write from covary.kernels import Matern52"),
        ("from covary import GaussianProcessRegressor", "'GaussianProcessRegressor'; write GPRegressor"),
        ("from covary import nonsense", "cannot import name 'nonsense'"),
    ],
)
def test_imports_of_names_from_elsewhere_say_what_to_write(statement: str, said: str) -> None:
    with pytest.raises(ImportError, match=said):
        exec(statement, {})
    assert not hasattr(covary.kernels, "WhiteKernel")
    assert not hasattr(covary, "Matern52")


def test_kernels_are_divided_and_raised_by_numbers_of_any_kind() -> None:
    assert Matern52() / np.int64(4) == Matern52() / np.float32(4) == parse("Matern52()/4") == 0.25 * Matern52()
    assert Matern52() ** 2.0 == parse("Matern52()**2.0") == Matern52() ** 2
    for wrong in (0, "a", None, Matern52(), np.ones(2)):
        assert "a kernel cannot be divided by" in sentence(lambda wrong=wrong: Matern52() / wrong)
    for power in (0.5, 2.5, -1.0, float("nan"), float("inf"), "a"):
        assert "give an integer from 1 to 64" in sentence(lambda power=power: Matern52() ** power)


def test_a_kernel_finds_named_columns_in_the_table_it_is_called_with() -> None:
    table = pd.DataFrame(X, columns=["depth", "heat"])
    k = 2.0 * Matern52().on("heat")
    np.testing.assert_array_equal(k(table), (2.0 * Matern52().on(1))(X))
    np.testing.assert_array_equal(k(table, table[:3]), (2.0 * Matern52().on(1))(X, X[:3]))
    np.testing.assert_array_equal(k.diag(table), np.full(len(X), 2.0))
    assert "column 'het' but X has no such column; did you mean 'heat'?" in sentence(lambda: Matern52().on("het")(table))
    assert "X and Z have different columns" in sentence(lambda: k(table, table[["heat", "depth"]]))
    assert "give its number, counted from 0" in sentence(lambda: k(X))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Matern52().on(depth)", ".on(depth) has a name without quotes; write .on('depth')"),
        ("2^2 * Matern52()", "contains ^; write ** for powers"),
        ("Matern52() + WhiteKernel(0.1)", "no kernel is called 'WhiteKernel'; noise belongs to the estimator"),
    ],
)
def test_kernel_text_of_other_habits_is_answered(text: str, said: str) -> None:
    assert said in sentence(lambda: parse(text))


def test_advice_about_categories_can_be_followed() -> None:
    table = pd.DataFrame(X, columns=["a", "b"]).assign(soil=np.where(np.arange(len(X)) % 2, "clay", "sand"))
    said = sentence(lambda: regressor(Matern52(lengthscale=[1.0, 2.0, 3.0])).fit(table, Y))
    assert "write Hamming().on('soil') for them" in said  # three length-scales do not fit two columns
    said = sentence(lambda: regressor([Matern52()]).fit(table, Y))
    assert said.endswith("write Matern52(lengthscale=1.0).on('a', 'b') * Hamming().on('soil').")
    gap = table.assign(a=np.where(np.arange(len(X)) == 0, np.nan, table["a"]))
    model = regressor("Matern52().on('a')", fixed="*", missing="drop").fit(table, Y)
    assert "a row with a missing input cannot be predicted" in sentence(lambda: model.predict(gap))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: regressor(Matern52()).set_params(kernel__lengthscale="a"),
            "GPRegressor.set_params: kernel: lengthscale is 'a'; give",
        ),
        (
            lambda: regressor(Matern52()).set_params(kernel__lengthscale=None),
            "set_params: kernel: lengthscale is None; give a number",
        ),
        (
            lambda: regressor(Matern52()).set_params(kernel__length=1),
            "GPRegressor.set_params: kernel: no parameter is called 'length'",
        ),
        (lambda: regressor("Matern52()", fixed="length").fit(X, Y), "GPRegressor: fixed: no parameter is called 'length'"),
        (
            lambda: regressor("Matern52()", bounds={"length": (1, 2)}).fit(X, Y),
            "GPRegressor: bounds: no parameter is called 'length'",
        ),
        (
            lambda: regressor("Matern52()", priors={"kernel.lengthscale": 3}).fit(X, Y),
            "GPRegressor: priors: 'kernel.lengthscale' has 3;",
        ),
        (lambda: regressor(lambda a, b: 1.0).fit(X, Y), "write kernels.Function(...) around a function of two points"),
    ],
)
def test_paths_and_functions_are_answered_by_the_estimator(call: Any, said: str) -> None:
    assert said in sentence(call)


def test_columns_in_another_order_are_told_how_to_be_put_right() -> None:
    table = pd.DataFrame(X, columns=["a", "b"])
    model = regressor("Matern52()", fixed="*").fit(table, Y)
    with pytest.raises(CovaryError, match=r"Give the columns of fit in their order, which feature_names_in_ lists\.$"):
        model.predict(table[["b", "a"]])
    np.testing.assert_array_equal(model.predict(table[["b", "a"]][list(model.feature_names_in_)]), model.predict(table))
