"""Predictions of likelihoods for real or positive observations do not depend on the units of y."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from covary import GP, Data, GPRegressor, Model, condition
from covary.gram import Dense, LowRank, Markov, Vecchia
from covary.gram.linalg import Lapack
from covary.inference import EP, SVGP, Exact, Laplace
from covary.likelihoods import StudentT
from robustness.units_of_y import NAMES, Table, Units, learned_case, posterior_case, table

LARGE, SMALL, TURNED = (1e10, 1e6), (2.0**-30, -1e6), (-3.3e-8, 50.0)  # a, and b in standard deviations of a·y

WAYS: list[tuple[str, Any, Any, tuple[float, float]]] = [
    ("gaussian", Exact(), Dense(), LARGE),
    ("gaussian", Exact(), Vecchia(8), LARGE),
    ("gaussian", Exact(), LowRank(8, rule="vfe"), SMALL),
    ("gaussian", Exact(), Markov(), TURNED),
    ("student_t", Laplace(), Dense(), LARGE),
    ("student_t", EP(), Dense(), SMALL),
    ("laplace", EP(), Dense(), LARGE),
    ("laplace", SVGP(), LowRank(8), SMALL),
    ("heteroscedastic", Laplace(), Dense(), SMALL),
    ("heteroscedastic", SVGP(), LowRank(8), TURNED),
    ("gamma", Laplace(), Dense(), LARGE),
    ("gamma", EP(), LowRank(8), SMALL),
]


def some(name: str, seed: int, *, columns: int) -> Table:
    t = table(name, seed, rows=(30, 40))
    return Table(name, t.X[:, :columns], t.y, t.new[:, :columns], t.observed)


def units(name: str, scaled: tuple[float, float], t: Table) -> Units:
    a, b = scaled
    return Units(abs(a), 0.0) if name == "gamma" else Units(a, b * abs(a) * t.spread)


@pytest.mark.parametrize(("name", "inference", "gram", "scaled"), WAYS)
def test_a_posterior_in_other_units(name: str, inference: Any, gram: Any, scaled: tuple[float, float]) -> None:
    t = some(name, 5, columns=1)
    posterior_case(t, units(name, scaled, t), inference, gram)


@pytest.mark.parametrize(("name", "scaled"), [("student_t", (1e10, 0.0)), ("heteroscedastic", (1e-9, 1e3)), ("gamma", SMALL)])
def test_a_fit_in_other_units(name: str, scaled: tuple[float, float]) -> None:
    t = some(name, 3, columns=1)
    learned_case(t, units(name, scaled, t), n_restarts=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scaled", [LARGE, SMALL, TURNED])
def test_fits_in_other_units(name: str, scaled: tuple[float, float]) -> None:
    t = table(name, 17, rows=(50, 60))
    learned_case(t, units(name, scaled, t))


def test_units_do_not_matter_with_a_constant_column_and_an_outlier() -> None:
    t = some("student_t", 6, columns=1)
    X, new = (np.column_stack([x, np.full(len(x), 7.0)]) for x in (t.X, t.new))
    y = t.y.copy()
    y[3] += 40 * t.spread
    far = Table("student_t", X, y, new, t.observed)
    posterior_case(far, units("student_t", LARGE, far), Laplace(), Dense())


def test_a_wide_prior_loses_no_digits_if_sites_are_negative() -> None:
    """Outliers under Student-t noise have negative precisions; the mode is found however wide the prior."""
    t = table("student_t", 9066)
    for width in (10.0, 100.0, 1000.0):
        kernel = f"{width} * Matern52(lengthscale={(8 * t.X.std(0)).tolist()})"
        post = condition(Model(GP(kernel), likelihood=StudentT(0.02, degrees=2.5)), Data(t.X, t.y), inference=Laplace())
        assert post.status == "converged"
        factor, W = post.factor, np.asarray(post.factor.sites.precision)
        assert (W < 0).any()
        K, rng = post.model.kernel.gram(post.data.X), np.random.default_rng(0)
        b = W * rng.normal(size=len(W))
        a = factor.alpha(b)
        np.testing.assert_allclose(a + W * (K @ a), b, atol=1e-10 * np.abs(b).max())  # (I + WK) a = b
        np.testing.assert_allclose(factor.solve(b), Lapack.full(factor.inverse()) @ b, atol=1e-9 * np.abs(W * b).max())
        Sigma = np.linalg.inv(np.linalg.inv(K) + np.diag(W))
        np.testing.assert_allclose(factor.variance(), np.diagonal(Sigma), rtol=1e-4)


def test_a_fit_to_negated_targets() -> None:
    """Fits to −y and y agree; they differed when the mode was found for some hyperparameters only."""
    t = table("student_t", 9066)
    for u in (Units(-1.0, 0.0), Units(1e3, 1e6)):
        learned_case(t, u, n_restarts=1)


def test_a_fit_that_ended_at_a_jump_is_reported() -> None:
    """Where a mode of Laplace's method vanishes, the evidence has a spike and learning cannot converge."""
    t = some("gaussian", 5, columns=1)
    model = GPRegressor(n_restarts=0).fit(t.X, t.y)
    assert "jumps" not in str(model.summary())
    model.learned_ = replace(model.learned_, status="stuck: no step is better, but the slope is 1e+04")
    assert "at a discontinuity of its objective" in str(model.summary())


def test_the_mode_of_mean_and_noise_is_found_in_few_steps() -> None:
    """A typical table on which Fisher scoring alone takes more than a hundred steps from every start."""
    t = table("heteroscedastic", 629, rows=(15, 60))
    model = GPRegressor(likelihood="heteroscedastic", n_restarts=0).fit(t.X, t.y)
    assert model.learned_ is not None
    assert model.learned_.status == "converged"
    solved = condition(model.model_, model.posterior_.data, inference=Laplace()).solved
    assert solved.status == "converged"
    assert solved.steps < 50
