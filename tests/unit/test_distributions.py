"""Distributions compared with SciPy, quadrature, differences and samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from covary.distributions import AbstractDistribution, Gamma, HalfCauchy, InverseGamma, LogNormal, Normal, Uniform

# density, SciPy's twin, where it lives. Gibbs (1997, G 21): Ga has shape α/2 and rate α/2m; Ig has shape α/2 + 1 and
# scale αm/2; both have mean m.
TABLE: dict[str, tuple[AbstractDistribution, Any, tuple[float, float]]] = {
    "normal": (Normal(-0.7, std=1.9), stats.norm(-0.7, 1.9), (-np.inf, np.inf)),
    "log-normal": (LogNormal(0.4, scale=0.6), stats.lognorm(0.6, scale=np.exp(0.4)), (0.0, np.inf)),
    "gamma": (Gamma(2.5, shape=3.4), stats.gamma(1.7, scale=2 * 2.5 / 3.4), (0.0, np.inf)),
    "vague gamma": (Gamma(0.3, shape=1.0), stats.gamma(0.5, scale=0.6), (0.0, np.inf)),
    "inverse gamma": (InverseGamma(1.8, shape=5.0), stats.invgamma(3.5, scale=4.5), (0.0, np.inf)),
    "vague inverse gamma": (InverseGamma(0.9, shape=1.2), stats.invgamma(1.6, scale=0.54), (0.0, np.inf)),
    "half-Cauchy": (HalfCauchy(1.4), stats.halfcauchy(scale=1.4), (0.0, np.inf)),
    "uniform": (Uniform(-0.5, upper=2.0), stats.uniform(-0.5, 2.5), (-0.5, 2.0)),
}
QUANTILES = np.array([0.01, 0.1, 0.35, 0.5, 0.8, 0.95, 0.999])
row = pytest.mark.parametrize(("density", "twin", "support"), TABLE.values(), ids=TABLE)


@row
def test_log_density_equals_scipys(density: AbstractDistribution, twin: Any, support: tuple[float, float]) -> None:
    x = twin.ppf(QUANTILES)
    np.testing.assert_allclose(density.log_prob(x), twin.logpdf(x), rtol=1e-12, atol=1e-12)


@row
def test_density_integrates_to_one(density: AbstractDistribution, twin: Any, support: tuple[float, float]) -> None:
    middle = float(twin.median())
    total = 0.0
    for low, high in ((support[0], middle), (middle, support[1])):
        total += integrate.quad(lambda x: np.exp(density.log_prob(x)), low, high, epsabs=1e-10, epsrel=1e-10, limit=200)[0]
    assert total == pytest.approx(1.0, abs=1e-8)


@row
def test_slope_is_the_derivative_of_the_log_density(
    density: AbstractDistribution, twin: Any, support: tuple[float, float]
) -> None:
    x = twin.ppf(QUANTILES)
    step = 1e-6 * np.maximum(np.abs(x), 1e-2)
    numeric = (density.log_prob(x + step) - density.log_prob(x - step)) / (2 * step)
    np.testing.assert_allclose(density.slope(x), numeric, rtol=1e-6, atol=1e-7)


@row
def test_samples_follow_the_density(density: AbstractDistribution, twin: Any, support: tuple[float, float]) -> None:
    draws = density.sample(np.random.default_rng(11), (4000,))
    assert draws.shape == (4000,)
    assert stats.kstest(draws, twin.cdf).pvalue > 0.01
    assert density.sample(np.random.default_rng(0), (2, 3)).shape == (2, 3)
    assert np.shape(density.sample(np.random.default_rng(0))) == ()


@row
@pytest.mark.parametrize("factor", [0.02, 7.0])
def test_scaled_is_the_density_of_the_scaled_variable(
    density: AbstractDistribution, twin: Any, support: tuple[float, float], factor: float
) -> None:
    """p_cx(z) = p_x(z/c)/c."""
    z = factor * twin.ppf(QUANTILES)
    expected = density.log_prob(z / factor) - np.log(factor)
    np.testing.assert_allclose(density.scaled(factor).log_prob(z), expected, rtol=1e-10, atol=1e-10)
    assert type(density.scaled(factor)) is type(density)


@pytest.mark.parametrize("name", ["gamma", "vague gamma", "inverse gamma", "normal"])
def test_the_mean_is_the_parameter_called_mean(name: str) -> None:
    density, twin, _ = TABLE[name]
    assert twin.mean() == pytest.approx(density.mean)  # type: ignore[attr-defined]
    draws = density.sample(np.random.default_rng(5), (40000,))
    assert draws.mean() == pytest.approx(density.mean, abs=5 * twin.std() / 200)  # type: ignore[attr-defined]


def test_inverse_gamma_has_gibbs_variance() -> None:
    """m²/(α/2 − 1)."""
    assert TABLE["inverse gamma"][1].var() == pytest.approx(1.8**2 / (5.0 / 2 - 1))


def test_uniform_is_impossible_outside_and_flat_inside() -> None:
    density = Uniform(1.0, upper=3.0)
    np.testing.assert_array_equal(density.log_prob(np.array([0.999, 3.001, -2.0])), -np.inf)
    np.testing.assert_allclose(density.log_prob(np.array([1.0, 2.0, 3.0])), -np.log(2.0))


@pytest.mark.parametrize("name", [n for n, r in TABLE.items() if r[2][0] == 0.0])
def test_densities_of_positive_numbers_draw_positive_numbers(name: str) -> None:
    assert (TABLE[name][0].sample(np.random.default_rng(2), (1000,)) > 0).all()
