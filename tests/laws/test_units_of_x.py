"""Predictions do not depend on the units of X: kilometres, years since zero, thousandths.

X → aX + b with scales of 1e±9 and offsets of a million standard deviations. With hyperparameters converted
accordingly, predictions agree to 1e-6 of the spread of y; with learned ones, to 1e-3 of it. ``tests/robustness/units_of_x.py``
does the same for random tables.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from covary import GP, Data, GPClassifier, GPRegressor, Model, condition
from covary._precision import precision
from covary.data import as_inputs
from covary.gram import Dense, LowRank, Vecchia
from covary.inference.ep import EP
from covary.inference.exact import Exact
from covary.inference.laplace import Laplace
from covary.kernels import Matern52
from covary.likelihoods import Bernoulli, Gaussian
from covary.means import LinearBasis, PolynomialBasis, basis_weights, scale_free_log_evidence
from covary.means.basis import gaussian_weights
from covary.means.coordinates import orthogonalising
from covary.means.functions import Function, Linear
from covary.parameters import Packing, bound
from covary.selection.learn import learn

CHANGES = [
    (1e9, 0.0),
    (1e-9, 0.0),
    (np.array([1e-3, 1e3]), np.array([2000.0, 0.0])),
    (1.7, 1e6),
    (3e-5, 7.0),
]
NAMES = ["nanounits", "gigaunits", "mixed", "offset", "offset and small"]


class Table(NamedTuple):
    """Rows, targets, and new rows outside their range."""

    X: np.ndarray
    y: np.ndarray
    new: np.ndarray


def table(seed: int = 0, n: int = 30, d: int = 2) -> Table:
    """A slope, a wave and a little noise."""
    rng = np.random.default_rng(seed)
    X, new = rng.normal(size=(n, d)), 2 * rng.normal(size=(12, d))
    y = X @ np.arange(3, 3 - d, -1) + np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n)
    return Table(X, y, new)


def scaled(a: Any, lengthscale: float, d: int) -> np.ndarray:
    """A length-scale in other units."""
    return np.broadcast_to(np.asarray(a, float), (d,)) * lengthscale


def close(first: tuple[Any, Any], second: tuple[Any, Any], spread: float, tolerance: float) -> None:
    for one, other in zip(first, second, strict=True):
        assert np.abs(np.asarray(one) - np.asarray(other)).max() < tolerance * spread


# at given hyperparameters ---------------------------------------------------------------------------------------------

BASES = {"linear": LinearBasis, "quadratic": lambda: PolynomialBasis(2)}
GRAMS = {
    "dense": (Exact, Dense),
    "low rank": (Exact, lambda: LowRank(15)),
    "vecchia": (Exact, lambda: Vecchia(8)),
    "laplace": (Laplace, Dense),
    "ep": (EP, Dense),
}


def conditioned(t: Table, a: Any, b: Any, basis: str, gram: str) -> Any:
    inference, kind = GRAMS[gram]
    exact = inference is Exact
    y = t.y if exact else (t.y + 4 * np.sin(5 * t.X[:, 1]) > 0).astype(float)
    likelihood = Gaussian(0.1) if exact else Bernoulli()
    kernel = 2.0 * Matern52(scaled(a, 1.3, t.X.shape[1]))
    model = Model(GP(kernel, basis=BASES[basis]()), likelihood=likelihood)
    return condition(model, Data(t.X * a + b, y), inference=inference(), gram=kind())


def agree(basis: str, gram: str, a: Any, b: Any) -> None:
    """Compare mean, variance and the scale-free log evidence in both units."""
    t = table()
    here, there = conditioned(t, 1.0, 0.0, basis, gram), conditioned(t, a, b, basis, gram)
    first, second = here.predict(t.new).f, there.predict(t.new * a + b).f
    close((first.mean, first.std), (second.mean, second.std), float(t.y.std()), 1e-6)
    assert scale_free_log_evidence(there) == pytest.approx(scale_free_log_evidence(here), abs=1e-5)


@pytest.mark.parametrize(("a", "b"), CHANGES, ids=NAMES)
@pytest.mark.parametrize("gram", GRAMS)
def test_basis_functions(gram: str, a: Any, b: Any) -> None:
    """An intercept and slopes, with every gram."""
    agree("linear", gram, a, b)


@pytest.mark.parametrize(("a", "b"), [*CHANGES[:2], (9.0, 2005.0)], ids=["nanounits", "gigaunits", "years"])
def test_powers(a: Any, b: Any) -> None:
    """Squares; a million standard deviations away from zero, the variation of a square has only four digits."""
    agree("quadratic", "dense", a, b)


def test_weights_are_those_of_the_given_functions() -> None:
    """β and its covariance, R&W (2.41) and (2.42), restated with dense solves, for Gaussian and vague weights."""
    t = table()
    X = t.X * [0.5, 3.0] + [4.0, -7.0]
    H = np.column_stack([np.ones(len(X)), X])
    for B in (None, np.diag([10.0, 0.3, 2.0])):
        parts = {"basis": LinearBasis()} if B is None else gaussian_weights(LinearBasis(), mean=[1.0, 2.0, 3.0], covariance=B)
        post = condition(Model(GP("2.0 * Matern52(lengthscale=1.3)", **parts), likelihood=Gaussian(0.1)), Data(X, t.y))
        Ky = post.model.kernel.gram(post.data.X) + 0.1 * np.eye(len(X))
        inner, shift = H.T @ np.linalg.solve(Ky, H), H.T @ np.linalg.solve(Ky, t.y)
        if B is not None:
            inner, shift = inner + np.linalg.inv(B), shift + np.linalg.solve(B, [1.0, 2.0, 3.0])
        found = basis_weights(post)
        np.testing.assert_allclose(found.mean, np.linalg.solve(inner, shift), rtol=1e-9)
        np.testing.assert_allclose(found.covariance, np.linalg.inv(inner), rtol=1e-9)


def test_dependent_functions_raise_an_error_in_any_units() -> None:
    """Vague weights of a repeated or constant column are not identifiable."""
    t = table()
    for X in (t.X[:, [0, 0]] * [1.0, 3e7], np.column_stack([t.X[:, 0], np.full(len(t.X), 2.0)])):
        with pytest.raises(ValueError, match="linearly dependent"):
            condition(Model(GP("Matern52()", basis=LinearBasis()), likelihood=Gaussian(0.1)), Data(X, t.y))
        proper = Model(GP("Matern52()", basis=LinearBasis(covariance=10.0)), likelihood=Gaussian(0.1))
        assert np.isfinite(condition(proper, Data(X, t.y)).log_evidence)


def test_dependent_functions_are_detected_at_any_offset() -> None:
    """One quantity in two columns, one of them far from zero: their difference is only rounding error."""
    t = table()
    X = np.column_stack([t.X[:, 0] * 4.7e5 - 1.2e9, t.X[:, 0] * 1.2e-6 - 2e-5])
    with pytest.raises(ValueError, match="linearly dependent"):
        condition(Model(GP("Matern52()", basis=LinearBasis()), likelihood=Gaussian(0.1)), Data(X, t.y))
    H = np.column_stack([np.ones(len(X)), X, t.X[:, 1]])
    R, dependent = orthogonalising(H)
    assert dependent.tolist() == [False, False, True, False]
    Q = np.linalg.solve(R.T, H.T).T
    np.testing.assert_allclose(Q[:, ~dependent].T @ Q[:, ~dependent], np.eye(3), atol=1e-9)
    assert np.abs(Q[:, dependent]).max() < 1e-9


# learned --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b"), CHANGES, ids=NAMES)
@pytest.mark.parametrize("mean", ["constant", "linear"])
def test_learned(mean: str, a: Any, b: Any) -> None:
    """A complete fit; the evidence is the same as well."""
    t = table(1)
    here, there = (GPRegressor(mean=mean).fit(X, t.y) for X in (t.X, t.X * a + b))
    close(here.predict(t.new, return_std=True), there.predict(t.new * a + b, return_std=True), float(t.y.std()), 1e-3)
    assert there.log_marginal_likelihood_ == pytest.approx(here.log_marginal_likelihood_, abs=1e-2)


def test_learned_with_two_columns_of_the_same_quantity() -> None:
    """A slope shared by two columns, with and without offsets."""
    t = table(3)
    X, new = (np.column_stack([x[:, 0], x[:, 0]]) for x in (t.X, t.new))
    a, b = np.array([4.7e5, 1.2e-6]), np.array([-1.2e9, -2e-5])
    here, there = (GPRegressor(mean="linear", n_restarts=0).fit(x, t.y) for x in (X, X * a + b))
    close(here.predict(new, return_std=True), there.predict(new * a + b, return_std=True), float(t.y.std()), 1e-3)
    assert np.abs(there.model_.mean.weight * a).max() < 100


def test_slopes_of_ordinary_tables() -> None:
    """A slope is found in any unit and extrapolated."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 40))
    y = 3 * first + 2 * second + 0.01 * rng.normal(size=40)
    model = GPRegressor(mean="linear").fit(np.column_stack([first, second / 1000]), y)
    assert model.predict([[0.0, 0.02]])[0] == pytest.approx(40.0, abs=0.1)
    years = np.arange(1990.0, 2021.0)
    rise = 10 + 10 / 3 * (years - 1990) + 0.1 * rng.normal(size=31)
    model = GPRegressor(mean="linear").fit(years[:, None], rise)
    mean, std = model.predict([[2020.0], [2035.0]], return_std=True)
    np.testing.assert_allclose(mean, [110.0, 160.0], atol=0.5)
    assert (std < 0.5).all()
    errors = model.learned_.log_errors  # of the slope and of the intercept, which is two thousand years away
    assert errors["mean.weight"][0] < 0.02
    assert errors["mean.value"] == pytest.approx(2005 * errors["mean.weight"][0], rel=0.05)


def test_slopes_of_a_user_defined_function() -> None:
    """The slopes of a user-defined mean function are found as with ``mean="linear"``."""
    t = table(1)
    plane = Function(lambda x, a, b: a + b @ x, parameters={"a": 0.0, "b": np.zeros(2)})
    a, b = np.array([1e-3, 1e6]), np.array([2.0, 0.0])
    here, there = (GPRegressor(mean=plane, n_restarts=0).fit(X, t.y) for X in (t.X, t.X * a + b))
    close(here.predict(t.new, return_std=True), there.predict(t.new * a + b, return_std=True), float(t.y.std()), 1e-3)
    np.testing.assert_allclose(there.model_.mean.parameters["b"] * a, here.model_.mean.parameters["b"], rtol=1e-3)


def test_linear_parameters_of_a_function_are_detected() -> None:
    """Linear parameters are those whose derivatives depend on no parameter."""
    X = as_inputs(table().X)
    with precision(np.float64):
        both = Function(lambda x, a, b, c: a * x[0] + b * jnp.sin(c * x[1]), parameters={"a": 0.0, "b": 1.0, "c": 2.0})
        found = both.design(X)
        assert list(found) == ["a"]
        np.testing.assert_allclose(found["a"], X.x[:, :1])
        assert Function(lambda x: x[0]).design(X) == {}


@pytest.mark.parametrize("mean", [Linear(0.0), Linear(np.zeros(2))], ids=["one slope", "two slopes"])
@pytest.mark.parametrize("limits", [None, {"mean.weight": (-1.0, 2.5)}], ids=["free", "bounded"])
def test_coordinates_of_a_mean(mean: Any, limits: Any) -> None:
    """Packing and unpacking agree, the gradient is that of the objective, and bounds are respected."""
    t = table()
    model = Model(GP("1.0 * Matern52(lengthscale=[1.0, 1.0])", mean=mean), likelihood=Gaussian(0.1))
    model = model if limits is None else bound(model, limits)
    found = learn(model, Data(t.X + np.array([5.0, -100.0]), t.y))
    packing: Packing = found.objective.packing
    assert packing.frame is not None
    np.testing.assert_allclose(packing.pack(packing.unpack(found.theta)), found.theta, rtol=1e-9, atol=1e-12)
    ends = np.stack(packing.box()) * packing.units
    limited = [i for i, name in enumerate(packing.names()) if limits is not None and name.startswith("mean.weight")]
    assert np.isfinite(ends).any(0).nonzero()[0].tolist() == limited
    np.testing.assert_allclose(ends[:, limited], np.tile([[-1.0], [2.5]], len(limited)))
    assert limits is None or float(np.max(found.model.mean.weight)) <= 2.5 * (1 + 1e-12)
    at = found.objective.at(found.objective.data)
    theta = found.theta + 0.1
    slope = at(theta)[1]
    for i in range(len(theta)):
        step = np.zeros(len(theta))
        step[i] = 1e-5
        assert slope[i] == pytest.approx((at(theta + step)[0] - at(theta - step)[0]) / 2e-5, rel=1e-4, abs=1e-4)


def test_classes_in_any_units() -> None:
    """Probabilities of a complete fit."""
    t = table(2, n=40)
    labels = (t.y > 0).astype(int)
    here = GPClassifier().fit(t.X, labels).predict_proba(t.new)
    there = GPClassifier().fit(t.X * [1e9, 1e-6] + [0.0, 3.0], labels).predict_proba(t.new * [1e9, 1e-6] + [0.0, 3.0])
    np.testing.assert_allclose(there, here, atol=1e-3)
