"""The table of likelihoods with independent formulas of log p(y | f); reference integrals, differences and samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from covary import likelihoods as lk
from covary.likelihoods import AbstractLikelihood
from covary.parameters import parameters


@dataclass(frozen=True)
class Row:
    """A likelihood, valid observations, and an independent log p(y | f) as a function of y, size and one latent value."""

    id: str
    likelihood: Any
    y: np.ndarray
    reference: Callable[[Any, Any, Any], Any]

    @property
    def size(self) -> np.ndarray:
        return self.y[:, 1] if self.y.ndim == 2 else np.ones(len(self.y))

    @property
    def value(self) -> np.ndarray:
        return self.y[:, 0] if self.y.ndim == 2 else self.y

    def given(self, rows: int) -> np.ndarray | None:
        """Return the first size repeated for a number of new observations, or None if the likelihood has no sizes."""
        return np.full(rows, self.size[0]) if self.y.ndim == 2 else None


def softplus(f: Any) -> Any:
    return np.log1p(np.exp(f))


def ordinal(thresholds: np.ndarray) -> Callable[..., Any]:
    b = np.concatenate([[-np.inf], thresholds, [np.inf]])

    def log_prob(y: Any, n: Any, f: Any) -> Any:
        j = np.asarray(y).astype(int)
        return np.log(np.abs(np.where(f < b[j], stats.norm.sf(b[j] - f) - stats.norm.sf(b[j + 1] - f),
                                      stats.norm.cdf(b[j + 1] - f) - stats.norm.cdf(b[j] - f))))  # fmt: skip

    return log_prob


def nbinom(alpha: float, rate: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda y, n, f: stats.nbinom.logpmf(y, 1 / alpha, 1 / (1 + alpha * n * rate(f)))


NUMBERS = np.array([-1.3, 0.4, 3.0])
COUNTS = np.array([0.0, 1.0, 7.0])
SIZED = np.array([[0.0, 0.5], [3.0, 2.0], [40.0, 10.0]])
TRIALS = np.array([[0.0, 3.0], [7.0, 10.0], [40.0, 40.0]])
AMOUNTS = np.array([0.05, 1.0, 6.0])
LABELS = np.array([0.0, 1.0])
LEVELS = np.arange(4.0)
UNEVEN = np.array([-0.4, -0.35, 2.65])

TABLE = [
    Row("gaussian", lk.Gaussian(0.3), NUMBERS, lambda y, n, f: stats.norm.logpdf(y, f, np.sqrt(0.3))),
    Row("logit", lk.Bernoulli("logit"), LABELS, lambda y, n, f: stats.logistic.logcdf((2 * y - 1) * f)),
    Row("probit", lk.Bernoulli("probit"), LABELS, lambda y, n, f: stats.norm.logcdf((2 * y - 1) * f)),
    Row("t-4", lk.StudentT(0.5), NUMBERS, lambda y, n, f: stats.t.logpdf(y, 4.0, f, 0.5)),
    Row("t-1", lk.StudentT(0.05, degrees=1.0), NUMBERS, lambda y, n, f: stats.cauchy.logpdf(y, f, 0.05)),
    Row("t-1e9", lk.StudentT(0.8, degrees=1e9), NUMBERS, lambda y, n, f: stats.norm.logpdf(y, f, 0.8)),
    Row("laplace", lk.DoubleExponential(0.7), NUMBERS, lambda y, n, f: stats.laplace.logpdf(y, f, 0.7)),
    Row("laplace-sharp", lk.DoubleExponential(0.02), NUMBERS, lambda y, n, f: stats.laplace.logpdf(y, f, 0.02)),
    Row("poisson", lk.Poisson(), COUNTS, lambda y, n, f: stats.poisson.logpmf(y, np.exp(f))),
    Row("poisson-sized", lk.Poisson(), SIZED, lambda y, n, f: stats.poisson.logpmf(y, n * np.exp(f))),
    Row("poisson-softplus", lk.Poisson("softplus"), SIZED, lambda y, n, f: stats.poisson.logpmf(y, n * softplus(f))),
    Row("poisson-square", lk.Poisson("square"), SIZED, lambda y, n, f: stats.poisson.logpmf(y, n * f * f)),
    Row("negative-binomial", lk.NegativeBinomial(0.4), COUNTS, nbinom(0.4, np.exp)),
    Row("negative-binomial-sized", lk.NegativeBinomial(0.02), SIZED, nbinom(0.02, np.exp)),
    Row("negative-binomial-softplus", lk.NegativeBinomial(2.0, link="softplus"), SIZED, nbinom(2.0, softplus)),
    Row("binomial", lk.Binomial(), TRIALS, lambda y, n, f: stats.binom.logpmf(y, n, special.expit(f))),
    Row("binomial-probit", lk.Binomial("probit"), TRIALS, lambda y, n, f: stats.binom.logpmf(y, n, stats.norm.cdf(f))),
    Row("binomial-one", lk.Binomial(), LABELS, lambda y, n, f: stats.bernoulli.logpmf(y, special.expit(f))),
    Row("gamma-1", lk.Gamma(), AMOUNTS, lambda y, n, f: stats.expon.logpdf(y, scale=np.exp(f))),
    Row("gamma-20", lk.Gamma(20.0), AMOUNTS, lambda y, n, f: stats.gamma.logpdf(y, 20.0, scale=np.exp(f) / 20.0)),
    Row("gamma-softplus", lk.Gamma(3.0, link="softplus"), AMOUNTS,
        lambda y, n, f: stats.gamma.logpdf(y, 3.0, scale=softplus(f) / 3.0)),
    Row("ordinal-4", lk.Ordinal.of(4), LEVELS, ordinal(np.array([-1.0, 0.0, 1.0]))),
    Row("ordinal-uneven", lk.Ordinal(-0.4, gaps=[0.05, 3.0]), LEVELS, ordinal(UNEVEN)),
]  # fmt: skip
ROWS = [pytest.param(row, id=row.id) for row in TABLE]
SMOOTH = [pytest.param(row, id=row.id) for row in TABLE if not isinstance(row.likelihood, lk.DoubleExponential)]
LEARNED = [pytest.param(row, id=row.id) for row in TABLE if parameters(row.likelihood)]
LATENT = np.array([-6.3, -2.1, -0.8, -0.11, 0.13, 0.9, 2.7, 5.2])
CAVITIES = [(0.2, 1.0), (0.6, 1e-4), (-2.0, 0.05), (1.0, 25.0), (-0.5, 1e4), (6.0, 0.3), (-9.0, 4.0), (40.0, 16.0)]


def crossed(row: Row, f: np.ndarray = LATENT) -> tuple[np.ndarray, np.ndarray]:
    """Return every combination of observation and latent value."""
    return np.repeat(row.y, len(f), axis=0), np.tile(f, len(row.y))


def dense(row: Row, log_g: Callable[[np.ndarray], np.ndarray], low: float, high: float, *hints: float) -> tuple[Any, Any]:
    """Return many nodes and log weights between low and high, refined around the hints and the peak of exp(log_g)."""
    wide = high - low
    places = [h for h in hints if low < h < high]
    grid = np.unique(np.concatenate([np.linspace(low, high, 401), *(p + np.linspace(-1, 1, 201) * wide / 200 for p in places)]))
    for _ in range(3):
        grid = np.clip(grid, low, high)
        top = grid[np.argmax(log_g(grid))]
        grid = top + np.linspace(-1, 1, 401) * wide
        wide = wide / 100
    away = np.geomspace(1e-9, 1.0, 150) * (high - low)
    marks = [np.linspace(low, high, 300)] + [p + s * away for p in (*places, top) for s in (-1, 1)]
    marks = np.unique(np.clip(np.concatenate([*marks, places, [top]]), low, high))
    x, w = np.polynomial.legendre.leggauss(10)
    f = (marks[:-1, None] + np.diff(marks)[:, None] * (x + 1) / 2).ravel()
    return f, np.log((np.diff(marks)[:, None] * w / 2).ravel())


def log_prob(row: Row, i: int, f: np.ndarray) -> np.ndarray:
    """Return log p(y_i | f) for many latent values: covary's, tested separately, or the formula if user-defined."""
    if type(row.likelihood).log_probs is not AbstractLikelihood.log_probs:
        return row.likelihood.log_probs(row.y[i : i + 1], f[None, :])[0]
    with np.errstate(all="ignore"):
        return np.nan_to_num(row.reference(row.value[i], row.size[i], f), nan=-np.inf, neginf=-np.inf)


def brute(row: Row, i: int, mean: float, variance: float, power: float = 1.0) -> tuple[float, float, float]:
    """Return log Z, mean and variance of p(y_i | f)^power N(f), without covary's quadrature."""
    sd = np.sqrt(variance)

    def log_g(f: np.ndarray) -> np.ndarray:
        return power * log_prob(row, i, f) - 0.5 * ((f - mean) / sd) ** 2

    f, log_w = dense(row, log_g, mean - 45 * sd, mean + 45 * sd, float(row.value[i]), 0.0)
    terms = log_g(f) + log_w
    log_z = special.logsumexp(terms)
    share = np.exp(terms - log_z)
    centre = (share * f).sum()
    return log_z - 0.5 * np.log(2 * np.pi * variance), centre, (share * (f - centre) ** 2).sum()


def averaging(mean: float, variance: float, *hints: float) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights for N(mean, variance), refined around the hints."""
    sd = np.sqrt(variance)
    f, log_w = dense(TABLE[0], lambda f: -0.5 * ((f - mean) / sd) ** 2, mean - 16 * sd, mean + 16 * sd, *hints)
    w = np.exp(log_w - 0.5 * ((f - mean) / sd) ** 2)
    return f, w / w.sum()


def compare_slopes(likelihood: Any, gradient: Any, total: Callable[[Any], float], near: float) -> None:
    """Compare a gradient over the parameters of a likelihood with central differences of a function of it."""
    slopes = parameters(gradient)
    assert list(slopes) == list(parameters(likelihood))
    for name, parameter in parameters(likelihood).items():
        value = np.asarray(parameter.value)
        for k in range(value.size):
            step = np.zeros(value.size)
            step[k] = 1e-4 * max(abs(value.ravel()[k]), 0.05)
            step = step.reshape(value.shape)
            ends = [total(likelihood.replace(**{name: value + s * step})) for s in (-2, -1, 1, 2)]
            expected = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * step.sum())
            size = np.max(np.abs(ends)) / (abs(value.ravel()[k]) + 0.05)
            np.testing.assert_allclose(np.ravel(slopes[name].value)[k], expected, rtol=near, atol=near * (1e-3 + size))


def check_samples(row: Row, n: int) -> None:
    """Compare moments and distribution of many draws with ``moments`` and ``cdf``."""
    for value in (-1.1, 0.8):
        f = np.full(n, value)
        y = row.likelihood.sample(f, np.random.default_rng(7), row.given(n))
        assert y.shape == (n,)
        assert y.dtype == np.float64
        found = row.likelihood.moments(f[:1], row.given(1))
        if np.isfinite(found.variance[0]):
            np.testing.assert_allclose(y.mean(), found.mean[0], atol=5 * np.sqrt(found.variance[0] / n) + 1e-12)
        at = np.quantile(y, np.linspace(0.02, 0.98, 25), method="inverted_cdf")
        share = (y[None, :] <= at[:, None]).mean(1)
        cdf = row.likelihood.cdf(at, np.full(25, value), row.given(25))
        assert np.abs(share - cdf).max() < np.sqrt(np.log(2 / 1e-6) / (2 * n))
    many = row.likelihood.sample(np.zeros((3, 4)), np.random.default_rng(0), row.given(4))
    assert many.shape == (3, 4)
