"""Gamma likelihood for positive observations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from types import ModuleType

import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
from scipy import special

from covary._module import Numbers, static
from covary._types import Array, ArrayLike
from covary.likelihoods.base import AbstractLikelihood, Moments, Slopes
from covary.likelihoods.rates import HIGHEST, chain, choice, latent, log_rate, log_rate_slopes, rate, rate_moments, stirling
from covary.parameters import positive

STIRLING = 10.0  # shapes above which Stirling's formula has full precision


class Gamma(AbstractLikelihood):
    r"""Gamma distribution of positive observations with mean :math:`m = \lambda(f)` and variance :math:`m^2/a`.

    .. math:: p(y \mid f) = \frac{a^a y^{a - 1}}{\Gamma(a)\,m^a} e^{-a y/m}

    For waiting times, amounts and intensities. The relative error, :math:`1/\sqrt a`, is constant; a = 1 is the exponential
    distribution. Log-concave with the link ``"exp"``, not with ``"softplus"``.

    Parameters
    ----------
    shape
        a > 0.
    link
        ``"exp"``, :math:`\lambda = e^f`, or ``"softplus"``, :math:`\lambda = \log(1 + e^f)`.

    References
    ----------
    McCullagh & Nelder (1989), *Generalized linear models*, section 8.2.

    Examples
    --------
    >>> import numpy as np
    >>> Gamma(4.0).moments(np.log([6.0])).variance.round(6)
    array([9.])
    """

    shape: Numbers = positive(1.0)
    _: KW_ONLY
    link: str = static("exp", convert=choice("Gamma", "exp", "softplus"))

    support = "positive"

    @property
    def log_concave(self) -> bool:
        """Whether log p(y | f) is concave in f: true for the link ``"exp"``."""
        return self.link == "exp"

    def log_prob(self, y: Array, f: Array) -> Array:
        above = jnp.log(y) - log_rate(self.link, f)
        return _height(self.shape, jnp, jsp.gammaln) - jnp.log(y) - self.shape * (jnp.expm1(above) - above)

    def _above(self, y: np.ndarray, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log y and log y/m."""
        log_y = np.log(y if f.ndim == 1 else y[:, None])
        return log_y, log_y - log_rate(self.link, f, np)

    def log_probs(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        log_y, above = self._above(y, f)
        a = float(self.shape)
        return float(_height(a, np, special.gammaln)) - log_y - a * (np.expm1(np.minimum(above, HIGHEST)) - above)

    def slopes(self, y: np.ndarray, f: np.ndarray) -> Slopes:
        above = self._above(y, f)[1]
        a = float(self.shape)
        ratio = a * np.exp(np.minimum(above, HIGHEST))
        return Slopes(self.log_probs(y, f), *chain(self.link, f, ratio - a, -ratio, ratio))

    def peak(self, y: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        at = latent(self.link, np.maximum(y, 1e-300))
        return at, 1 / (np.sqrt(float(self.shape)) * log_rate_slopes(self.link, at)[0])

    def expected_log_prob(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        if self.link != "exp":
            return AbstractLikelihood.expected_log_prob(self, y, mean, variance)
        log_y, above = self._above(y, mean)
        a = float(self.shape)
        with np.errstate(over="ignore"):
            return float(_height(a, np, special.gammaln)) - log_y - a * (np.expm1(above + 0.5 * variance) - above)

    def moments(self, f: np.ndarray, size: ArrayLike | None = None) -> Moments:
        mean = rate(self.link, f)
        with np.errstate(over="ignore"):
            return Moments(mean, mean * mean / float(self.shape))

    def cdf(self, y: np.ndarray, f: np.ndarray, size: ArrayLike | None = None) -> np.ndarray:
        a = float(self.shape)
        with np.errstate(over="ignore"):
            reached = a * np.exp(np.log(np.maximum(y, 1e-300)) - log_rate(self.link, f, np))
        return np.where(y > 0, special.gammainc(a, reached), 0.0)

    def sample(self, f: np.ndarray, rng: np.random.Generator, size: ArrayLike | None = None) -> np.ndarray:
        a = float(self.shape)
        return rate(self.link, np.asarray(f)) * rng.gamma(a, 1 / a, np.shape(f))

    def predictive(self, mean: np.ndarray, variance: np.ndarray, size: ArrayLike | None = None) -> Moments:
        centre, spread = rate_moments(self.link, mean, variance)
        with np.errstate(over="ignore"):
            return Moments(centre, spread + (spread + centre * centre) / float(self.shape))

    def latent_values(self, y: np.ndarray) -> np.ndarray:
        return latent(self.link, np.asarray(y, np.float64))

    def starting(self, y: np.ndarray) -> dict[str, float | np.ndarray]:
        """Return a shape with relative error 0.3 times the standard deviation of log y."""
        return {"shape": float(np.clip(1 / (0.3 * np.log(y).std() + 1e-3) ** 2, 0.5, 1e4))}


def _height(shape: Array | float, xp: ModuleType, gammaln: Callable[..., Array]) -> Array:
    """Return a log a − a − log Γ(a), accurately even if the terms are so large that they would cancel."""
    large, small = xp.maximum(shape, STIRLING), xp.minimum(shape, STIRLING)
    series = 0.5 * xp.log(large / (2 * np.pi)) - stirling(large)
    return xp.where(shape > STIRLING, series, small * xp.log(small) - small - gammaln(small))
