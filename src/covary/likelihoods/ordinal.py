"""Ordinal likelihood for ordered levels."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr
from scipy import special

from covary._checks import fail
from covary._module import Numbers
from covary._types import Array, ArrayLike
from covary.likelihoods.base import AbstractLikelihood, Moments, Slopes, Tilted, refuse, split
from covary.likelihoods.probit import mills
from covary.parameters import positive, real


class Ordinal(AbstractLikelihood):
    r"""Ordered levels 0, …, r − 1: intervals of a noisy latent value between thresholds :math:`b_1 < \dots < b_{r-1}`.

    .. math:: p(y = j \mid f) = \Phi(b_{j+1} - f) - \Phi(b_j - f), \qquad b_0 = -\infty,\ b_r = \infty

    For grades, ratings and stages, of which only the order is meaningful. The noise has unit scale: Chu & Ghahramani's σ is
    redundant with the variance of the kernel, and their model with σ, thresholds b and kernel k is this one with b/σ and k/σ².
    The thresholds are parameterised by the first one and the gaps between neighbours, which keeps them in order. The first is
    redundant with a constant mean of the prior, so learn only one of the two. Two levels are equivalent to a probit
    :class:`Bernoulli` with a bias. Log-concave.

    Parameters
    ----------
    first
        The threshold between the levels 0 and 1.
    gaps
        The r − 2 distances between neighbouring thresholds, positive.

    References
    ----------
    Rasmussen & Williams (2006), section 9.3; Chu & Ghahramani (2005), *Gaussian processes for ordinal regression*.

    Examples
    --------
    >>> import numpy as np
    >>> grades = Ordinal.of(4)
    >>> grades.thresholds
    array([-1.,  0.,  1.])
    >>> grades.probabilities(np.array([0.0]), np.array([1.0])).round(4)
    array([[0.2398, 0.2602, 0.2602, 0.2398]])
    """

    first: Numbers = real(-0.5)
    _: KW_ONLY
    gaps: Numbers = positive((1.0,))

    support = "labels"
    log_concave = True

    @classmethod
    def of(cls, levels: int) -> Ordinal:
        """Create the likelihood for a number of levels, with thresholds one unit apart and centred at zero."""
        if levels < 2 or levels != int(levels):
            raise fail("likelihoods.Ordinal", f"the number of levels is {levels}", "give an integer, 2 or more")
        return cls(-0.5 * (levels - 2), gaps=np.ones(int(levels) - 2))

    @property
    def levels(self) -> int:
        """The number of levels r."""
        return int(np.shape(self.gaps)[0]) + 2

    @property
    def thresholds(self) -> np.ndarray:
        """The r − 1 thresholds in increasing order."""
        return float(self.first) + np.append(0.0, np.cumsum(np.asarray(self.gaps)))

    def log_prob(self, y: Array, f: Array) -> Array:
        b = self.first + jnp.append(0.0, jnp.cumsum(self.gaps))
        level, last = jnp.asarray(y).astype(int), self.levels - 1
        lowest, highest = level == 0, level == last
        upper, lower = b[jnp.minimum(level, last - 1)] - f, b[jnp.maximum(level - 1, 0)] - f
        upper, lower = jnp.where(highest, lower + 1, upper), jnp.where(lowest, upper - 1, lower)
        flip = upper + lower > 0  # compute in the tail where both are small
        a, c = jnp.where(flip, -lower, upper), jnp.where(flip, -upper, lower)
        large: Any = log_ndtr(a)
        between = large + jnp.log(-jnp.expm1(log_ndtr(c) - large))
        return jnp.where(lowest, log_ndtr(upper), jnp.where(highest, log_ndtr(-lower), between))

    def _between(self, y: np.ndarray, f: np.ndarray, scale: np.ndarray | float = 1.0) -> Slopes:
        """Return log(Φ(a) − Φ(c)) and its derivatives in f, with a, c = (thresholds around the level − f)/scale."""
        level = split(y, f)[0].astype(int)
        b = np.concatenate([[-np.inf], self.thresholds, [np.inf]])
        upper, lower = ((edge - f) / scale for edge in (b[level + 1], b[level]))
        flip = upper + lower > 0
        a, c = np.where(flip, -lower, upper), np.where(flip, -upper, lower)
        alone = np.isneginf(c)
        A, C = mills(a), mills(np.where(alone, a - 1, c))
        gap = np.where(alone, -np.inf, C.log_phi - A.log_phi)
        part = -np.expm1(gap)
        k = np.exp(gap) / part
        D, E = C.first - A.first, C.second - A.second
        kk = k * (1 + k)
        first = -A.first + k * D
        second = A.second - kk * D * D - k * E
        third = -A.third + kk * (1 + 2 * k) * D * D * D + 3 * kk * D * E + k * (C.third - A.third)
        sign = np.where(flip, -1.0, 1.0) / scale
        return Slopes(A.log_phi + np.log(part), sign * first, second / scale**2, sign * third / scale**2)

    def log_probs(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return self._between(y, f).log_prob

    def slopes(self, y: np.ndarray, f: np.ndarray) -> Slopes:
        return self._between(y, f)

    def tilted(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, power: np.ndarray | float | None = None) -> Tilted:
        """Return the moments, from the derivatives of the likelihood with noise variance 1 + ``variance``."""
        if power is not None:
            return AbstractLikelihood.tilted(self, y, mean, variance, power)
        s = self._between(y, mean, np.sqrt(1 + variance))
        return Tilted(s.log_prob, mean + variance * s.first, variance + variance**2 * s.second)

    def peak(self, y: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        b = self.thresholds
        centres = np.concatenate([[b[0] - 1], 0.5 * (b[1:] + b[:-1]), [b[-1] + 1]])
        return centres[np.asarray(y).astype(int)], np.ones(len(y))

    def probabilities(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return the probability of every level (n, r) if the latent value is N(mean, variance)."""
        z = (self.thresholds - np.asarray(mean)[:, None]) / np.sqrt(1 + np.asarray(variance))[:, None]
        end = np.full((len(z), 1), np.inf)
        z = np.concatenate([-end, z, end], axis=1)
        a, c = z[:, 1:], z[:, :-1]
        with np.errstate(invalid="ignore"):
            flip = a + c > 0
        return np.where(flip, special.ndtr(-c) - special.ndtr(-a), special.ndtr(a) - special.ndtr(c))

    def moments(self, f: np.ndarray, size: ArrayLike | None = None) -> Moments:
        return self.predictive(f, np.zeros_like(f))

    def cdf(self, y: np.ndarray, f: np.ndarray, size: ArrayLike | None = None) -> np.ndarray:
        return self.predictive_cdf(y, f, np.zeros_like(f))

    def sample(self, f: np.ndarray, rng: np.random.Generator, size: ArrayLike | None = None) -> np.ndarray:
        noisy = np.asarray(f) + rng.standard_normal(np.shape(f))
        return np.searchsorted(self.thresholds, noisy).astype(np.float64)

    def predictive(self, mean: np.ndarray, variance: np.ndarray, size: ArrayLike | None = None) -> Moments:
        """Return the mean and variance of the level as a number."""
        p, level = self.probabilities(mean, variance), np.arange(self.levels, dtype=np.float64)
        centre = p @ level
        return Moments(centre, (p * (level - centre[:, None]) ** 2).sum(1))

    def predictive_cdf(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: ArrayLike | None = None
    ) -> np.ndarray:
        level = np.clip(np.floor(y), -1, self.levels - 1).astype(int)
        edge = np.concatenate([[-np.inf], self.thresholds, [np.inf]])[level + 1]
        return special.ndtr((edge - mean) / np.sqrt(1 + variance))

    def check(self, y: np.ndarray, who: str) -> None:
        AbstractLikelihood.check(self, y, who)
        wrong = (y < 0) | (y >= self.levels) | (y != np.floor(y))
        refuse(who, "y", y, wrong, f"levels are the whole numbers from 0 to {self.levels - 1}: correct it")

    def latent_values(self, y: np.ndarray) -> np.ndarray:
        """Return normal scores: Gaussian quantiles of the mid-ranks of the levels."""
        order = np.sort(y)
        middle = np.searchsorted(order, y) + np.searchsorted(order, y, side="right")
        return np.sqrt(2.0) * special.ndtri(0.5 * middle / len(y))

    def starting(self, y: np.ndarray) -> dict[str, float | np.ndarray]:
        """Return thresholds that reproduce the observed frequencies of levels for a latent variance of one."""
        counts = np.array([(y == j).sum() for j in range(self.levels)]) + 0.5
        b = np.sqrt(2.0) * special.ndtri(np.cumsum(counts)[:-1] / counts.sum())
        return {"first": float(b[0]), "gaps": np.diff(b)}
