"""Predictions: distributions of the latent function f and of a new observation y."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from covary._checks import fail
from covary._memory import check_draws
from covary._types import ArrayLike

if TYPE_CHECKING:
    from covary.likelihoods.base import AbstractLikelihood

NODES, WIDEST = 53, 6.5  # of the quadrature over an uncertain variance, and its range in standard deviations


@dataclass(frozen=True)
class Spread:
    """Mean and variance per row, and the joint covariance if requested."""

    mean: np.ndarray
    variance: np.ndarray
    covariance: np.ndarray | None = None

    @property
    def std(self) -> np.ndarray:
        """The standard deviation per row (of each latent function, if there are several)."""
        several = self.variance.ndim == 3  # (m, L, L): covariances between the latent functions of a row
        return np.sqrt(np.einsum("mll->ml", self.variance) if several else self.variance)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the central Gaussian interval with probability ``level``."""
        half = special.ndtri(0.5 + level / 2)
        return self.mean - half * self.std, self.mean + half * self.std

    def quantile(self, p: float) -> np.ndarray:
        """Return the Gaussian quantile."""
        return self.mean + special.ndtri(p) * self.std

    def cdf(self, y: ArrayLike) -> np.ndarray:
        """Return the probability of a value below y, one per row."""
        return special.ndtr((np.asarray(y) - self.mean) / self.std)

    def log_prob(self, y: ArrayLike) -> np.ndarray:
        """Return the Gaussian log density of values, one per row (minus R&W, eq. 2.34)."""
        return -0.5 * (np.log(2 * np.pi * self.variance) + (np.asarray(y) - self.mean) ** 2 / self.variance)


@dataclass(frozen=True)
class Mixed(Spread):
    r"""Normal distribution whose variance is uncertain: heavier tails with the same mean and variance.

    .. math:: y \mid h \sim N\bigl(\mu, \sigma^2 e^{h - b/2}\bigr), \qquad h \sim N(0, b)

    ``unsure`` is b, the variance of the logarithm of the variance, per row. The integral over h uses the trapezoidal rule,
    which is almost exact under a normal density.
    """

    unsure: np.ndarray | float = 0.0

    def _parts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the standard deviations of the mixture of normals (m, K) and the logarithms of its weights (K,)."""
        z = np.linspace(-WIDEST, WIDEST, NODES)
        w = np.exp(-0.5 * z**2)
        b = np.broadcast_to(np.asarray(self.unsure, np.float64), self.mean.shape)[:, None]
        return np.sqrt(self.variance)[:, None] * np.exp(0.5 * (np.sqrt(b) * z - b / 2)), np.log(w / w.sum())

    def cdf(self, y: ArrayLike) -> np.ndarray:
        """Return the probability of a value below y, one per row."""
        std, log_w = self._parts()
        return (np.exp(log_w) * special.ndtr((np.asarray(y) - self.mean)[:, None] / std)).sum(1)

    def log_prob(self, y: ArrayLike) -> np.ndarray:
        """Return the log density of values, one per row."""
        std, log_w = self._parts()
        z = (np.asarray(y) - self.mean)[:, None] / std
        each = log_w - 0.5 * (np.log(2 * np.pi) + z**2) - np.log(std)
        top = each.max(1)
        return top + np.log(np.exp(each - top[:, None]).sum(1))

    def quantile(self, p: float) -> np.ndarray:
        """Return the value that an observation is below with probability p, by bisection."""
        std, log_w = self._parts()
        w, widest = np.exp(log_w), std.max(1) * max(abs(float(special.ndtri(p))), 1e-3)
        low, high = -widest, widest  # deviations from the mean
        for _ in range(60):
            middle = (low + high) / 2
            below = (w * special.ndtr(middle[:, None] / std)).sum(1) < p
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return self.mean + (low + high) / 2

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the central interval with probability ``level``."""
        return self.quantile(0.5 - level / 2), self.quantile(0.5 + level / 2)


@dataclass(frozen=True)
class Observed:
    """Predictive distribution of a new observation under a non-Gaussian likelihood, including the latent uncertainty.

    ``mean`` and ``variance`` are those of the observation; for classes, ``mean`` contains their probabilities. ``size`` is the
    number of trials or the exposure of each new observation, if the likelihood has one.
    """

    mean: np.ndarray
    variance: np.ndarray
    likelihood: AbstractLikelihood = field(repr=False)
    latent: Spread = field(repr=False)
    size: np.ndarray | None = None
    covariance: None = None

    @property
    def std(self) -> np.ndarray:
        """The standard deviation per row."""
        return np.sqrt(self.variance)

    def quantile(self, p: float) -> np.ndarray:
        """Return the smallest value that an observation is at or below with probability p, one per row."""
        if not 0 < p < 1:
            raise fail("quantile", f"p is {p}", "give a number between 0 and 1", argument="p")
        return self.likelihood.predictive_quantile(p, self.latent.mean, self.latent.variance, self.size)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the interval between the quantiles (1 − level)/2 and (1 + level)/2."""
        return self.quantile(0.5 - level / 2), self.quantile(0.5 + level / 2)

    def log_prob(self, y: ArrayLike) -> np.ndarray:
        """Return the log density (log probability) of observations, one per row."""
        y = np.asarray(y, np.float64)
        if self.size is not None and y.ndim == 1:
            y = np.stack([y, self.size], axis=1)
        return self.likelihood.predictive_log_prob(y, self.latent.mean, self.latent.variance)

    def sample(self, n: int = 1, *, key: int | np.random.Generator) -> np.ndarray:
        """Draw observations, independently for each row: shape (n, m)."""
        rng = np.random.default_rng(key)
        mean, variance = self.latent.mean, self.latent.variance
        check_draws("sample", n, mean.size)
        z = rng.standard_normal((n, *mean.shape))
        if mean.ndim == 1:
            f = mean + np.sqrt(variance) * z
        else:
            values, vectors = np.linalg.eigh(variance)
            f = mean + np.einsum("mij,nmj->nmi", vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :], z)
        return self.likelihood.sample(f, rng, self.size)


@dataclass(frozen=True)
class LeftOut:
    """Leave-one-out predictions: latent moments without the row, and the log probability of its observation.

    ``y`` is the predictive distribution of the observation, under Gaussian noise.
    """

    mean: np.ndarray
    variance: np.ndarray
    log_prob: np.ndarray
    y: Spread | None = None


@dataclass(frozen=True)
class Prediction:
    """Predictive distributions at new inputs: ``f``, the latent function, and ``y``, a new observation."""

    f: Spread
    y: Spread | Observed
