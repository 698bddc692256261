"""Limits in which one likelihood becomes another, and the likelihood with two latent functions."""

from __future__ import annotations

import jax
import mpmath
import numpy as np
import pytest
from scipy import special, stats

from covary import likelihoods as lk
from covary._precision import precision

F = np.array([-3.0, -0.4, 0.0, 0.7, 2.0, 6.0])


def same(a, b, near=1e-12):
    """Log probabilities and slopes of two likelihoods at the same places."""
    for mine, theirs in zip(a, b, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=near, atol=near)


@pytest.mark.parametrize("dispersion", [1e-8, 1e-5, 1e-3, 0.0999, 0.1001, 3.0])
def test_negative_binomial_keeps_its_digits_towards_poisson(dispersion):
    y = np.array([0.0, 1.0, 3.0, 20.0, 20.0, 500.0])
    likelihood = lk.NegativeBinomial(dispersion)
    with mpmath.workdps(40):
        a = mpmath.mpf(dispersion)

        def exact(count, f):
            m = mpmath.exp(mpmath.mpf(f))
            growth = sum((mpmath.log1p(k * a) for k in range(int(count))), mpmath.mpf(0))
            return float(growth - mpmath.loggamma(count + 1) + count * mpmath.mpf(f) - (count + 1 / a) * mpmath.log1p(a * m))

        expected = [exact(c, f) for c, f in zip(y, F, strict=True)]
    np.testing.assert_allclose(likelihood.log_probs(y, F), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(lk.AbstractLikelihood.log_probs(likelihood, y, F), expected, rtol=1e-11, atol=1e-11)
    if dispersion <= 1e-8:
        same(likelihood.slopes(y, F), lk.Poisson().slopes(y, F), 3e-4)  # apart by α m² / 2
        mean, variance = F[:4], np.full(4, 0.5)
        np.testing.assert_allclose(likelihood.predictive(mean, variance), lk.Poisson().predictive(mean, variance), rtol=1e-6)
        np.testing.assert_allclose(likelihood.cdf(y[:4], mean), lk.Poisson().cdf(y[:4], mean), atol=1e-7)


def test_one_trial_is_bernoulli_and_two_levels_are_probit():
    y = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0])
    for link in ("logit", "probit"):
        same(lk.Binomial(link).slopes(y, F), lk.Bernoulli(link).slopes(y, F), 1e-11)
        same(lk.Binomial(link).slopes(np.stack([y, np.ones(6)], axis=1), F), lk.Bernoulli(link).slopes(y, F), 1e-11)
    same(lk.Ordinal(0.4, gaps=[]).slopes(y, F), lk.Bernoulli("probit").slopes(y, F - 0.4), 1e-11)
    two = lk.Ordinal(0.4, gaps=[])
    np.testing.assert_allclose(lk.AbstractLikelihood.log_probs(two, y, F), two.log_probs(y, F), rtol=1e-11)
    variance = np.full(6, 1.7)
    for mine, theirs in [(lk.Ordinal.of(2), lk.Bernoulli("probit")), (lk.Binomial("probit"), lk.Bernoulli("probit"))]:
        same(mine.tilted(y, F, variance), theirs.tilted(y, F, variance), 1e-8)
        same(mine.predictive(F, variance), theirs.predictive(F, variance), 1e-10)


def test_student_t_with_many_degrees_is_gaussian():
    y = np.linspace(-2.0, 2.0, 6)
    for degrees, near in ((1e6, 1e-4), (1e12, 1e-9)):
        same(lk.StudentT(0.6, degrees=degrees).slopes(y, F)[:3], lk.Gaussian(0.36).slopes(y, F)[:3], near)


def test_poisson_predicts_the_mean_of_a_log_normal_rate():
    """The mean rate is exp(μ + σ²/2), and draws have it."""
    mean, variance, size = np.array([0.5]), np.array([0.8]), np.array([3.0])
    found = lk.Poisson().predictive(mean, variance, size)
    np.testing.assert_allclose(found.mean, 3.0 * np.exp(0.9))
    np.testing.assert_allclose(found.variance, 3.0 * np.exp(0.9) + 9.0 * np.exp(1.8) * np.expm1(0.8))
    rng = np.random.default_rng(0)
    draws = lk.Poisson().sample(0.5 + np.sqrt(0.8) * rng.standard_normal(200_000), rng, 3.0)
    np.testing.assert_allclose(draws.mean(), found.mean[0], atol=5 * np.sqrt(found.variance[0] / 200_000))


def test_counts_beyond_the_integers_can_be_drawn():
    for likelihood in (lk.Poisson(), lk.NegativeBinomial(0.1)):
        draws = likelihood.sample(np.full(1000, 60.0), np.random.default_rng(0))
        np.testing.assert_allclose(np.log(draws.mean()), 60.0, atol=0.1)


def test_a_power_of_laplace_noise_is_laplace_noise_of_another_scale():
    y, variance, power = np.zeros(6), np.full(6, 2.0), np.full(6, 0.25)
    mine = lk.DoubleExponential(0.3).tilted(y, F, variance, power)
    theirs = lk.DoubleExponential(1.2).tilted(y, F, variance)
    same(mine[1:], theirs[1:])
    np.testing.assert_allclose(mine.log_z, theirs.log_z + np.log(2.4) - 0.25 * np.log(0.6), rtol=1e-12)


def test_laplace_moments_hold_for_any_ratio_of_widths():
    """Noise a million times narrower or wider than the Gaussian: the spike, and the Gaussian tilted by a constant slope."""
    narrow = lk.DoubleExponential(1e-6).tilted(np.zeros(1), np.ones(1), np.ones(1))
    np.testing.assert_allclose(narrow.log_z, stats.norm.logpdf(1.0), rtol=1e-6)
    np.testing.assert_allclose(narrow.variance, 2e-12, rtol=1e-5)
    wide = lk.DoubleExponential(1e6).tilted(np.zeros(1), np.full(1, 9.0), np.ones(1))
    np.testing.assert_allclose(wide.mean, 9.0 - 1e-6, rtol=1e-12)
    np.testing.assert_allclose(wide.variance, 1.0, rtol=1e-12)
    point = lk.DoubleExponential(0.5).predictive_log_prob(np.zeros(2), np.array([0.0, 1.5]), np.zeros(2))
    np.testing.assert_allclose(point, [0.0, -3.0], atol=1e-12)


def test_ordinal_levels_rise_with_the_latent_value():
    likelihood = lk.Ordinal(-1.0, gaps=[0.5, 2.0])
    p = likelihood.probabilities(F, np.full(6, 0.3))
    np.testing.assert_allclose(p.sum(1), 1.0)
    assert (np.diff(p @ np.arange(4.0)) > 0).all()
    np.testing.assert_allclose(likelihood.predictive_cdf(np.full(6, 1.0), F, np.full(6, 0.3)), p[:, :2].sum(1), rtol=1e-12)
    y = np.repeat(np.arange(4.0), [10, 30, 50, 10])
    start = likelihood.replace(**likelihood.starting(y))
    shares = start.probabilities(np.zeros(1), np.ones(1))[0]
    np.testing.assert_allclose(shares, [0.1, 0.3, 0.5, 0.1], atol=0.01)


# two latent functions -----------------------------------------------------------------------------------------------------
NOISY = lk.HeteroscedasticGaussian(0.4)
MEAN = np.array([[0.3, -0.6], [1.0, 0.8]])
COVARIANCE = np.array([[[0.5, 0.2], [0.2, 0.7]], [[1.2, -0.5], [-0.5, 0.4]]])


def grid(k: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (q, 2) and weights over the two latent values of row k."""
    x, w = np.polynomial.hermite_e.hermegauss(90)
    pairs = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
    weight = np.outer(w, w).ravel()
    return MEAN[k] + pairs @ np.linalg.cholesky(COVARIANCE[k]).T, weight / weight.sum()


def test_heteroscedastic_noise_is_gaussian_given_both_functions():
    f = np.array([[0.5, -1.0], [0.0, 2.0]])
    y = np.array([0.1, -2.0])
    expected = stats.norm.logpdf(y, f[:, 0], np.sqrt(0.4 * np.exp(f[:, 1])))
    np.testing.assert_allclose(NOISY.log_probs(y, f), expected)
    np.testing.assert_allclose(NOISY.log_probs(y, np.stack([f, f], axis=1)), np.stack([expected, expected], axis=1))
    with precision(np.float64):
        np.testing.assert_allclose([NOISY.log_prob(a, b) for a, b in zip(y, f, strict=True)], expected)
    np.testing.assert_allclose(NOISY.cdf(y, f), stats.norm.cdf(y, f[:, 0], np.sqrt(0.4 * np.exp(f[:, 1]))))
    assert NOISY.latents == 2
    np.testing.assert_array_equal(NOISY.has_mean, [1.0, 0.0])


def test_fisher_information_is_the_mean_of_the_negative_hessian():
    f = np.array([0.5, -1.3])
    x, w = np.polynomial.hermite_e.hermegauss(20)
    with precision(np.float64):
        y = f[0] + np.sqrt(0.4 * np.exp(f[1])) * x
        hessians = jax.jit(jax.vmap(lambda t: jax.hessian(lambda v: NOISY.log_prob(t, v))(f)))(y)
        expected = -np.einsum("q,qab->ab", w / w.sum(), np.asarray(hessians))
        np.testing.assert_allclose(NOISY.fisher(f), expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(NOISY.fisher(f), np.diag([np.exp(1.3) / 0.4, 0.5]), rtol=1e-12)


def test_heteroscedastic_predictions_are_averages_over_both_functions():
    y = np.array([0.9, -1.4])
    found, log_p = NOISY.predictive(MEAN, COVARIANCE), NOISY.predictive_log_prob(y, MEAN, COVARIANCE)
    expected_log, cdf = NOISY.expected_log_prob(y, MEAN, COVARIANCE), NOISY.predictive_cdf(y, MEAN, COVARIANCE)
    for k in range(2):
        f, w = grid(k)
        own = 0.4 * np.exp(f[:, 1])
        np.testing.assert_allclose(found.mean[k], w @ f[:, 0])
        np.testing.assert_allclose(found.variance[k], w @ (own + (f[:, 0] - MEAN[k, 0]) ** 2), rtol=1e-10)
        np.testing.assert_allclose(np.exp(log_p[k]), w @ stats.norm.pdf(y[k], f[:, 0], np.sqrt(own)), rtol=1e-5)
        np.testing.assert_allclose(expected_log[k], w @ stats.norm.logpdf(y[k], f[:, 0], np.sqrt(own)), rtol=1e-9)
        np.testing.assert_allclose(cdf[k], w @ special.ndtr((y[k] - f[:, 0]) / np.sqrt(own)), rtol=1e-5)
    for p in (0.025, 0.5, 0.8):
        at = NOISY.predictive_quantile(p, MEAN, COVARIANCE)
        np.testing.assert_allclose(NOISY.predictive_cdf(at, MEAN, COVARIANCE), p, rtol=1e-9)
    rng = np.random.default_rng(3)
    f = rng.multivariate_normal(MEAN[0], COVARIANCE[0], 50_000)
    draws = NOISY.sample(f, rng)
    assert draws.shape == (50_000,)
    np.testing.assert_allclose(draws.mean(), found.mean[0], atol=5 * np.sqrt(found.variance[0] / 50_000))
    np.testing.assert_allclose((draws <= y[0]).mean(), cdf[0], atol=0.012)
    NOISY.check(y, "learn")
    assert set(NOISY.starting(y)) == {"variance"}


def test_heteroscedastic_noise_without_doubt_about_the_level_is_gaussian():
    y, mean, gg = np.array([0.9, -1.4]), MEAN, np.array([0.5, 1.2])
    covariance = np.zeros((2, 2, 2))
    covariance[:, 0, 0] = gg
    sd = np.sqrt(gg + 0.4 * np.exp(mean[:, 1]))
    np.testing.assert_allclose(NOISY.predictive_log_prob(y, mean, covariance), stats.norm.logpdf(y, mean[:, 0], sd), rtol=1e-9)
    np.testing.assert_allclose(NOISY.predictive_quantile(0.9, mean, covariance), stats.norm.ppf(0.9, mean[:, 0], sd), rtol=1e-9)
