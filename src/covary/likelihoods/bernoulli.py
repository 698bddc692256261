"""Bernoulli likelihood for two classes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from covary._checks import fail
from covary._errors import Option
from covary._module import static
from covary._types import Array, ArrayLike
from covary.likelihoods.averages import FARTHEST, average_logistic, tilted_logistic
from covary.likelihoods.base import AbstractLikelihood, Moments, Slopes, Tilted


def _link(value: Any) -> str:
    if value not in ("probit", "logit"):
        raise fail("likelihoods.Bernoulli", f"link is {value!r}", "choose 'probit' or 'logit'", argument="link")
    return value


class Bernoulli(AbstractLikelihood):
    r"""Two classes, :math:`p(y = \pm1 \mid f) = \sigma(y f)` (R&W, eqs. 3.5, 3.15, 3.16).

    Labels above zero are the class +1, the others −1, so both 0/1 and ±1 are accepted. The probit is equivalent to a step
    function with unit Gaussian noise on f (R&W, exercise 3.10.1); the logit is more robust to mislabelled rows.

    Parameters
    ----------
    link
        ``"probit"``, the cumulative Gaussian Φ, or ``"logit"``, the logistic function.

    Examples
    --------
    >>> Bernoulli("probit").predictive(np.array([1.0]), np.array([3.0])).mean.round(4)
    array([0.6915])
    """

    link: str = static("probit", convert=_link)

    support = "labels"
    log_concave = True

    def log_prob(self, y: Array, f: Array) -> Array:
        z = jnp.where(y > 0, f, -f)
        return jax.scipy.special.log_ndtr(z) if self.link == "probit" else -jnp.logaddexp(0.0, -z)

    def log_probs(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        sign = _sign(y) if f.ndim == 1 else _sign(y)[:, None]
        z = sign * f
        return special.log_ndtr(z) if self.link == "probit" else -np.logaddexp(0.0, -z)

    def slopes(self, y: np.ndarray, f: np.ndarray) -> Slopes:
        """Return the derivatives of R&W, eqs. 3.15 and 3.16, and the third ones."""
        sign = _sign(y)
        z = sign * f
        if self.link == "logit":
            p, q = special.expit(z), special.expit(-z)
            return Slopes(-np.logaddexp(0.0, -z), sign * q, -p * q, sign * p * q * (p - q))
        log_p = special.log_ndtr(z)
        r = np.exp(-0.5 * z * z - 0.5 * np.log(2 * np.pi) - log_p)
        far = np.minimum(z, -30.0)  # where r + z cancels, use the asymptotic series of log Φ
        second = np.where(z < -30, -1 + far**-2.0 - 6 * far**-4.0 + 50 * far**-6.0, -r * (r + z))
        third = np.where(z < -30, -2 * far**-3.0 + 24 * far**-5.0 - 300 * far**-7.0, r * (2 * r * r + 3 * z * r + z * z - 1))
        r = np.where(z < -30, -far - 1 / far + 2 * far**-3.0 - 10 * far**-5.0, r)
        return Slopes(log_p, sign * r, second, sign * third)

    def tilted(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, power: np.ndarray | float | None = None) -> Tilted:
        """Return the moments of Φ times a Gaussian (R&W, eq. 3.58); the logistic function is a mixture of such terms."""
        if power is not None:
            return AbstractLikelihood.tilted(self, y, mean, variance, power)
        sign = _sign(y)
        if self.link == "logit":
            if np.abs(mean).max(initial=0.0) > FARTHEST:
                return AbstractLikelihood.tilted(self, y, mean, variance)
            return Tilted(*tilted_logistic(sign, mean, variance))
        spread = np.sqrt(1 + variance)
        z = sign * mean / spread
        log_z = special.log_ndtr(z)
        ratio = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_z)
        return Tilted(
            log_z,
            mean + sign * variance * ratio / spread,
            variance - variance**2 * ratio / (1 + variance) * (z + ratio),
        )

    def moments(self, f: np.ndarray, size: ArrayLike | None = None) -> Moments:
        p = special.ndtr(f) if self.link == "probit" else special.expit(f)
        return Moments(p, p * (1 - p))

    def cdf(self, y: np.ndarray, f: np.ndarray, size: ArrayLike | None = None) -> np.ndarray:
        return np.where(y >= 1, 1.0, np.where(y < 0, 0.0, 1 - self.moments(f).mean))

    def sample(self, f: np.ndarray, rng: np.random.Generator, size: ArrayLike | None = None) -> np.ndarray:
        return (rng.random(np.shape(f)) < self.moments(f).mean).astype(np.float64)

    def probability(self, mean: np.ndarray, variance: np.ndarray, average: str = "exact") -> np.ndarray:
        """Return the probability of the class +1, averaged over f (R&W, eqs. 3.25, 3.63, 3.82) or at its mean (``"map"``).

        For the probit ``"exact"`` is a closed form, and its approximations are refused; for the logit see
        ``covary.likelihoods.averages.average_logistic``.
        """
        if self.link == "logit":
            return average_logistic(mean, variance, average)
        if average not in ("exact", "map"):
            what = f"average is {average!r} with the probit link"
            raise fail("likelihoods.Bernoulli", what, "choose 'exact' or 'map'", argument="average")
        return special.ndtr(mean if average == "map" else mean / np.sqrt(1 + variance))

    def predictive(self, mean: np.ndarray, variance: np.ndarray, size: ArrayLike | None = None) -> Moments:
        """Return the averaged probability of the class +1, and the variance of the 0/1 label."""
        p = self.probability(mean, variance)
        return Moments(p, p * (1 - p))

    def check(self, y: np.ndarray, who: str) -> None:
        if y.ndim != 1:
            raise fail(who, Option("y") + f" has shape {y.shape}", "give one label per row")
        kinds = np.unique(y)
        if len(kinds) > 2 or not (set(kinds) <= {0.0, 1.0} or set(kinds) <= {-1.0, 1.0}):
            what = Option("y") + f" contains {', '.join(f'{k:g}' for k in kinds[:5])}"
            raise fail(who, what, "give labels 0 and 1, or -1 and 1")

    def latent_values(self, y: np.ndarray) -> np.ndarray:
        return _sign(y) * (1.0 if self.link == "probit" else 1.7)


def _sign(y: np.ndarray) -> np.ndarray:
    return np.where(y > 0, 1.0, -1.0)
