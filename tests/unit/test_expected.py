"""Expectations of log likelihoods under Gaussians, and their derivatives over moments and likelihood parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

from covary.inference.svgp.expected import Rows, expected, expected_pull
from covary.likelihoods import (
    Bernoulli,
    Binomial,
    DoubleExponential,
    Gamma,
    Gaussian,
    HeteroscedasticGaussian,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Softmax,
    StudentT,
)
from covary.parameters import parameters, set_values

RNG = np.random.default_rng(0)
MEAN, VARIANCE = np.array([[0.4], [-1.0], [2.0], [0.3]]), np.array([[0.3], [4.0], [1e-6], [1.0]])
ONE = [
    (Gaussian(0.4), np.array([0.3, -1.0, 2.5, 0.0])),
    (Bernoulli("probit"), np.array([1.0, 0.0, 1.0, 0.0])),
    (Bernoulli("logit"), np.array([1.0, 0.0, 1.0, 0.0])),
    (Binomial(), np.array([[1.0, 4.0], [3.0, 3.0], [0.0, 2.0], [5.0, 9.0]])),
    (Poisson(), np.array([3.0, 0.0, 10.0, 1.0])),
    (Poisson("softplus"), np.array([3.0, 0.0, 10.0, 1.0])),
    (Poisson("square"), np.array([3.0, 0.0, 10.0, 1.0])),
    (NegativeBinomial(1.5), np.array([3.0, 0.0, 10.0, 1.0])),
    (Gamma(2.0), np.array([3.0, 0.1, 10.0, 1.0])),
    (StudentT(0.3, degrees=3.0), np.array([0.3, -5.0, 2.5, 0.0])),
    (DoubleExponential(0.3), np.array([0.3, -5.0, 2.5, 0.0])),
    (Ordinal(-0.5, gaps=[1.5]), np.array([0.0, 2.0, 1.0, 1.0])),
]


def name(value: Any) -> str:
    return f"{type(value).__name__}-{getattr(value, 'link', '')}" if not isinstance(value, np.ndarray) else ""


@pytest.mark.parametrize(("likelihood", "y"), ONE, ids=name)
def test_expectations_of_one_latent_function(likelihood: Any, y: np.ndarray) -> None:
    """The value is the likelihood's own; the slopes are its differences; rows count by their weights."""
    w = np.array([1.0, 2.0, 0.5, 1.0])
    found = expected(likelihood, Rows(y, w), MEAN, VARIANCE)

    def value(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return w * likelihood.expected_log_prob(y, mean[:, 0], variance[:, 0])

    np.testing.assert_allclose(found.value, value(MEAN, VARIANCE), rtol=1e-7, atol=1e-8)
    step = 0.02 * np.sqrt(VARIANCE)
    ahead, back = value(MEAN + step, VARIANCE), value(MEAN - step, VARIANCE)
    far, behind = value(MEAN + 2 * step, VARIANCE), value(MEAN - 2 * step, VARIANCE)
    slope = (8 * (ahead - back) - (far - behind)) / (12 * step[:, 0])
    np.testing.assert_allclose(found.first[:, 0], slope, rtol=2e-6, atol=2e-6)
    wide = [value(MEAN, VARIANCE * (1 + s)) for s in (0.01, -0.01, 0.02, -0.02)]
    slope = (8 * (wide[0] - wide[1]) - (wide[2] - wide[3])) / (0.12 * VARIANCE[:, 0])
    large = np.array([0, 1, 3])  # of the third row, whose variance is 1e-6, differences cannot tell
    np.testing.assert_allclose(found.second[large, 0], slope[large], rtol=2e-6, atol=2e-6)
    if not isinstance(likelihood, DoubleExponential):
        curve = w[2] * likelihood.slopes(y[2:3], MEAN[2]).second[0] / 2
        assert found.second[2, 0] == pytest.approx(curve, rel=1e-3)


@pytest.mark.parametrize(("likelihood", "y"), ONE, ids=name)
def test_expectations_over_the_likelihoods_own_parameters(likelihood: Any, y: np.ndarray) -> None:
    rows = Rows(y, np.array([1.0, 2.0, 0.5, 1.0]))
    found = parameters(expected_pull(likelihood, rows, MEAN, VARIANCE, 3.0))
    for path, parameter in parameters(likelihood).items():
        at = np.asarray(parameter.value)
        for i in np.ndindex(at.shape):
            h = 1e-4 * max(abs(float(at[i])), 0.1)
            up, down = at.copy(), at.copy()
            up[i], down[i] = at[i] + h, at[i] - h
            sums = [expected(set_values(likelihood, {path: v}), rows, MEAN, VARIANCE).value.sum() for v in (up, down)]
            slope = 3 * (sums[0] - sums[1]) / (2 * h)
            assert float(np.asarray(found[path].value)[i]) == pytest.approx(slope, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_expectations_of_a_softmax(classes: int) -> None:
    """Against a great many random draws, the values and the slopes; the latter also against differences of the former."""
    rng = np.random.default_rng(classes)
    mean, variance = rng.normal(0, 1.5, (6, classes)), rng.uniform(0.1, 3, (6, classes))
    y = rng.integers(0, classes, 6).astype(float)
    likelihood, rows = Softmax(classes), Rows(y)
    found = expected(likelihood, rows, mean, variance)
    z = rng.standard_normal((200_000, classes))
    z = np.concatenate([z, -z])
    for i in range(6):
        f = mean[i] + np.sqrt(variance[i]) * z
        log_p = f[:, int(y[i])] - special.logsumexp(f, axis=1)
        p = special.softmax(f, axis=1)
        assert found.value[i] == pytest.approx(log_p.mean(), abs=5e-3)
        np.testing.assert_allclose(found.first[i], (np.arange(classes) == y[i]) - p.mean(0), atol=5e-3)
        np.testing.assert_allclose(found.second[i], -0.5 * (p * (1 - p)).mean(0), atol=5e-3)
    for c in range(classes):
        for array, slope in ((mean, found.first), (variance, found.second)):
            h = np.zeros_like(mean)
            h[:, c] = 1e-4
            up, down = (
                expected(likelihood, rows, mean + h * s * (array is mean), variance + h * s * (array is variance)).value
                for s in (1, -1)
            )
            np.testing.assert_allclose(slope[:, c], (up - down) / 2e-4, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("sd", [1e-9, 0.1, 0.9, 1.1, 2.5, 4.5])
def test_two_classes_are_an_integral_over_their_difference(sd: float) -> None:
    r"""log(e^f + e^g) = f + log(1 + e^(g-f)), and g - f is normal."""
    mean = np.array([[0.0, 0.0], [1.0, -3.0], [-8.0, 20.0], [500.0, 501.0]])
    variance = sd**2 * np.array([[1.0, 1.0], [0.5, 1.0], [1.0, 0.2], [1.0, 0.0]])
    found = expected(Softmax(2), Rows(np.zeros(4)), mean, variance)
    z = np.linspace(-9, 9, 20_001)
    weight = np.exp(-0.5 * z**2) / np.exp(-0.5 * z**2).sum()
    away = (mean[:, 1] - mean[:, 0])[:, None] + np.sqrt(variance.sum(1))[:, None] * z
    p = special.expit(away)
    np.testing.assert_allclose(found.value, -np.logaddexp(0, away) @ weight, atol=3e-6)
    np.testing.assert_allclose(found.first, np.stack([p @ weight, -p @ weight], axis=1), atol=1e-5)
    np.testing.assert_allclose(found.second, -0.5 * np.repeat(((p * (1 - p)) @ weight)[:, None], 2, axis=1), atol=2e-6)


@pytest.mark.slow
def test_classes_of_which_nothing_is_known_have_finite_expectations() -> None:
    mean, variance = np.array([[0.0, 5, -3], [1e5, 0, -1e5], [0, 0, 0]]), np.array([[1e4, 1e3, 1], [1, 1, 1], [0, 0, 1e8]])
    found = expected(Softmax(3), Rows(np.zeros(3)), mean, variance)
    assert all(np.isfinite(v).all() for v in found)
    np.testing.assert_allclose(found.first.sum(1), 0, atol=1e-6)
    assert (found.second <= 0).all()


def test_any_likelihood_of_several_functions_is_averaged_over_points() -> None:
    """The general rule beside the closed forms of Gaussian noise whose level varies."""
    from covary.inference import expected as module

    likelihood, y = HeteroscedasticGaussian(0.5), np.array([0.3, -1.0])
    mean, variance = np.array([[0.1, -0.4], [0.2, 0.5]]), np.array([[0.2, 0.3], [0.5, 0.1]])
    closed = expected(likelihood, Rows(y), mean, variance)
    points = module._several(likelihood, y, mean, variance)
    for one, other in zip(closed, points, strict=True):
        np.testing.assert_allclose(one, other, atol=0.02)
