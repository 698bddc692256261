"""Predictions: the latent function f and a new observation y, side by side."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import special

from covary._checks import fail
from covary._memory import check_draws

NODES, WIDEST = 53, 6.5  # of the rule over an uncertain variance, and how many standard deviations it reaches


@dataclass(frozen=True)
class Spread:
    """Mean and variance per row, and the joint covariance where it was asked for."""

    mean: np.ndarray
    variance: np.ndarray
    covariance: np.ndarray | None = None

    @property
    def std(self) -> np.ndarray:
        """The standard deviation per row (of each latent function where there are several)."""
        several = self.variance.ndim == 3  # (m, L, L): covariances between the latent functions of a row
        return np.sqrt(np.einsum("mll->ml", self.variance) if several else self.variance)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """The central Gaussian interval that holds a share ``level`` of the mass."""
        half = special.ndtri(0.5 + level / 2)
        return self.mean - half * self.std, self.mean + half * self.std

    def quantile(self, p: float) -> np.ndarray:
        """The Gaussian quantile."""
        return self.mean + special.ndtri(p) * self.std

    def cdf(self, y: Any) -> np.ndarray:
        """The probability of a value below, one per row."""
        return special.ndtr((np.asarray(y) - self.mean) / self.std)

    def log_prob(self, y: Any) -> np.ndarray:
        """The Gaussian log density of values, one per row (R&W, eq. 2.34 with the sign turned)."""
        return -0.5 * (np.log(2 * np.pi * self.variance) + (np.asarray(y) - self.mean) ** 2 / self.variance)


@dataclass(frozen=True)
class Mixed(Spread):
    r"""A normal distribution whose variance is itself uncertain: longer tails around the same mean and variance.

    .. math:: y \mid h \sim N\bigl(\mu, \sigma^2 e^{h - b/2}\bigr), \qquad h \sim N(0, b)

    ``unsure`` holds b, the variance of the logarithm of the variance, per row; by the trapezoidal rule, which is
    all but exact under a normal density.
    """

    unsure: Any = 0.0

    def _parts(self) -> tuple[np.ndarray, np.ndarray]:
        """The standard deviations of a mixture of normals (m, K), and the logarithms of its weights (K,)."""
        z = np.linspace(-WIDEST, WIDEST, NODES)
        w = np.exp(-0.5 * z**2)
        b = np.broadcast_to(np.asarray(self.unsure, np.float64), self.mean.shape)[:, None]
        return np.sqrt(self.variance)[:, None] * np.exp(0.5 * (np.sqrt(b) * z - b / 2)), np.log(w / w.sum())

    def cdf(self, y: Any) -> np.ndarray:
        """The probability of a value below, one per row."""
        std, log_w = self._parts()
        return (np.exp(log_w) * special.ndtr((np.asarray(y) - self.mean)[:, None] / std)).sum(1)

    def log_prob(self, y: Any) -> np.ndarray:
        """The log density of values, one per row."""
        std, log_w = self._parts()
        z = (np.asarray(y) - self.mean)[:, None] / std
        each = log_w - 0.5 * (np.log(2 * np.pi) + z**2) - np.log(std)
        top = each.max(1)
        return top + np.log(np.exp(each - top[:, None]).sum(1))

    def quantile(self, p: float) -> np.ndarray:
        """The value that an observation stays below with probability p, by bisection."""
        std, log_w = self._parts()
        w, widest = np.exp(log_w), std.max(1) * max(abs(float(special.ndtri(p))), 1e-3)
        low, high = -widest, widest  # deviations from the mean
        for _ in range(60):
            middle = (low + high) / 2
            below = (w * special.ndtr(middle[:, None] / std)).sum(1) < p
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return self.mean + (low + high) / 2

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """The central interval that holds a share ``level`` of the mass."""
        return self.quantile(0.5 - level / 2), self.quantile(0.5 + level / 2)


@dataclass(frozen=True)
class Observed:
    """A new observation under a likelihood that is not Gaussian noise: its whole distribution, latent uncertainty included.

    ``mean`` and ``variance`` are the observation's; for classes ``mean`` holds their probabilities. ``size`` is the number of
    trials or the exposure of every new observation, where the likelihood has one.
    """

    mean: np.ndarray
    variance: np.ndarray
    likelihood: Any = field(repr=False)
    latent: Spread = field(repr=False)
    size: np.ndarray | None = None
    covariance: None = None

    @property
    def std(self) -> np.ndarray:
        """The standard deviation per row."""
        return np.sqrt(self.variance)

    def quantile(self, p: float) -> np.ndarray:
        """The smallest value that an observation stays at or below with probability p, one per row."""
        if not 0 < p < 1:
            raise fail("quantile", f"p is {p}", "give a number between 0 and 1")
        return self.likelihood.predictive_quantile(p, self.latent.mean, self.latent.variance, self.size)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """The quantiles that leave (1 − level)/2 outside on either side."""
        return self.quantile(0.5 - level / 2), self.quantile(0.5 + level / 2)

    def log_prob(self, y: Any) -> np.ndarray:
        """The log density (log probability) of observations, one per row."""
        y = np.asarray(y, np.float64)
        if self.size is not None and y.ndim == 1:
            y = np.stack([y, self.size], axis=1)
        return self.likelihood.predictive_log_prob(y, self.latent.mean, self.latent.variance)

    def sample(self, n: int = 1, *, key: int | np.random.Generator) -> np.ndarray:
        """Draws of observations, row by row independent: shape (n, m)."""
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
    """What the other rows say of each: latent moments without the row, and the log probability of what was seen there.

    ``y`` is the distribution stated of what was seen there, under Gaussian noise.
    """

    mean: np.ndarray
    variance: np.ndarray
    log_prob: np.ndarray
    y: Spread | None = None


@dataclass(frozen=True)
class Prediction:
    """What is believed at new inputs: ``f``, the latent function, and ``y``, a new observation."""

    f: Spread
    y: Any
