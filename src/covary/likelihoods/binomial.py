"""Binomial likelihood: successes in a number of trials."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.scipy.special import gammaln
from scipy import special

from covary._module import static
from covary._types import Array, ArrayLike
from covary.likelihoods.base import AbstractLikelihood, Moments, Slopes, refuse, split
from covary.likelihoods.probit import mills
from covary.likelihoods.rates import choice, pair
from covary.likelihoods.steps import resolved


class Binomial(AbstractLikelihood):
    r"""Successes in n trials, :math:`p(y \mid f) = \binom ny \pi^y (1 - \pi)^{n - y}`, :math:`\pi = \sigma(f)`.

    For proportions with known denominators, such as responses per dose or wins per season. An observation is a row
    (successes, trials), or just 0 or 1 for a single trial, as in :class:`Bernoulli`. Log-concave.

    Parameters
    ----------
    link
        ``"logit"``, :math:`\sigma(f) = 1/(1 + e^{-f})`: f is the log odds. ``"probit"``, :math:`\sigma = \Phi`, the cumulative
        Gaussian.

    References
    ----------
    Rasmussen & Williams (2006), eqs. 3.15 and 3.16, summed over trials.

    Examples
    --------
    >>> import numpy as np
    >>> Binomial().predictive(np.array([0.0]), np.array([1.0]), size=np.array([10.0])).mean.round(6)
    array([5.])
    """

    link: str = static("logit", convert=choice("Binomial", "logit", "probit"))

    support = "counts"
    log_concave = True
    sized = True

    def log_prob(self, y: Array, f: Array) -> Array:
        count, size = pair(y)
        log_sigma: Any = jax.scipy.special.log_ndtr if self.link == "probit" else jax.nn.log_sigmoid
        ways = gammaln(size + 1) - gammaln(count + 1) - gammaln(size - count + 1)
        return ways + count * log_sigma(f) + (size - count) * log_sigma(-f)

    def log_probs(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        count, size = split(y, f)
        log_sigma = special.log_ndtr if self.link == "probit" else special.log_expit
        ways = -np.log1p(size) - special.betaln(size - count + 1, count + 1)
        return ways + count * log_sigma(f) + (size - count) * log_sigma(-f)

    def slopes(self, y: np.ndarray, f: np.ndarray) -> Slopes:
        count, size = split(y, f)
        value = self.log_probs(y, f)
        if self.link == "probit":
            up, down, rest = mills(f), mills(-f), size - count
            return Slopes(
                value,
                count * up.first - rest * down.first,
                count * up.second + rest * down.second,
                count * up.third - rest * down.third,
            )
        p, q = special.expit(f), special.expit(-f)
        return Slopes(value, count * q - (size - count) * p, -size * p * q, size * p * q * (p - q))

    def peak(self, y: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        count, size = split(y, start)
        at, slope = self._latent(count, size)
        p = self._sigma(at)
        return at, np.sqrt(p * (1 - p) / size) / slope

    def _sigma(self, f: np.ndarray) -> np.ndarray:
        return special.ndtr(f) if self.link == "probit" else special.expit(f)

    def _latent(self, count: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the latent value for a count, shrunk towards π = ½ by half a trial, and dπ/df at that value."""
        p = (np.clip(count, 0.0, size) + 0.5) / (size + 1)
        if self.link == "probit":
            f = special.ndtri(p)
            return f, np.exp(-0.5 * f * f) / np.sqrt(2 * np.pi)
        return special.logit(p), p * (1 - p)

    def moments(self, f: np.ndarray, size: ArrayLike | None = None) -> Moments:
        n = 1.0 if size is None else np.asarray(size)
        p, q = self._sigma(f), self._sigma(-f)
        return Moments(n * p, n * p * q)

    def cdf(self, y: np.ndarray, f: np.ndarray, size: ArrayLike | None = None) -> np.ndarray:
        n = np.ones_like(f) if size is None else np.broadcast_to(np.asarray(size), np.shape(f))
        k = np.clip(np.floor(y), 0.0, np.maximum(n - 1, 0.0))
        inside = special.betainc(n - k, k + 1, self._sigma(-np.asarray(f)))
        return np.where(y < 0, 0.0, np.where(np.floor(y) >= n, 1.0, inside))

    def sample(self, f: np.ndarray, rng: np.random.Generator, size: ArrayLike | None = None) -> np.ndarray:
        n = np.asarray(1 if size is None else size, np.int64)
        return rng.binomial(n, self._sigma(np.asarray(f))).astype(np.float64)

    def predictive(self, mean: np.ndarray, variance: np.ndarray, size: ArrayLike | None = None) -> Moments:
        r"""Return :math:`n\bar\pi` and :math:`n\bar\pi(1 - \bar\pi) + n(n - 1)\operatorname{var}\pi`, by quadrature."""
        n = 1.0 if size is None else np.asarray(size)
        f, weight = resolved(mean, variance, np.zeros_like(mean), np.ones_like(mean))
        each = self._sigma(f)
        p, q = (weight * each).sum(1), (weight * self._sigma(-f)).sum(1)
        return Moments(n * p, n * p * q + n * (n - 1) * (weight * (each - p[:, None]) ** 2).sum(1))

    def check(self, y: np.ndarray, who: str) -> None:
        AbstractLikelihood.check(self, y, who)
        if y.ndim == 1:
            refuse(who, "y", y, y > 1, "give rows (successes, trials), or 0 and 1 for single trials")
            return
        count, size = y[:, 0], y[:, 1]
        refuse(who, "the number of trials", size, (size < 1) | (size != np.floor(size)), "give integers, 1 or more")
        refuse(who, "the number of successes", count, count > size, "give no more successes than trials")

    def latent_values(self, y: np.ndarray) -> np.ndarray:
        return self._latent(*split(y, y[..., 0] if y.ndim == 2 else y))[0]
