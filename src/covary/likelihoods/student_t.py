"""Student-t noise, which is robust to outliers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from types import ModuleType

import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
from scipy import special

from covary._module import Numbers
from covary._types import Array, ArrayLike
from covary.likelihoods.base import AbstractLikelihood, Moments, Slopes, split
from covary.likelihoods.steps import resolved
from covary.parameters import positive

LARGE = 1e3  # ν/2 above which four terms of the series of log Γ(x + ½) − log Γ(x) have full precision


class StudentT(AbstractLikelihood):
    r"""Student-t noise with scale s and ν degrees of freedom; not log-concave.

    .. math:: p(y\mid f) = \frac{\Gamma(\frac{\nu+1}2)}{\Gamma(\frac\nu2)\sqrt{\nu\pi}\,s}
        \Bigl(1 + \frac{(y-f)^2}{\nu s^2}\Bigr)^{-\frac{\nu+1}2}

    For measurements with outliers: the further out an observation is, the smaller its weight. The posterior can have several
    modes, which treat different observations as outliers.

    Parameters
    ----------
    scale
        The scale s, in the units of y.
    degrees
        The degrees of freedom ν; ν → ∞ is Gaussian noise of variance s², ν = 1 is Cauchy noise. The variance is
        :math:`s^2\nu/(\nu-2)`, infinite for ν ≤ 2.

    References
    ----------
    Rasmussen & Williams (2006), section 9.3; Neal (1997), *Monte Carlo implementation of Gaussian process models*.

    Examples
    --------
    >>> import numpy as np
    >>> StudentT(0.5, degrees=4.0).predictive(np.array([1.0]), np.array([0.5])).variance
    array([1.])
    """

    scale: Numbers = positive(1.0)
    _: KW_ONLY
    degrees: Numbers = positive(4.0)

    location = True

    def log_prob(self, y: Array, f: Array) -> Array:
        nu, z = self.degrees, (y - f) / self.scale
        return _height(nu, jnp, jsp.gammaln) - jnp.log(self.scale) - (nu + 1) / 2 * jnp.log1p(z**2 / nu)

    def log_probs(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        nu, s = float(self.degrees), float(self.scale)
        z = (split(y, f)[0] - f) / s
        return float(_height(nu, np, special.gammaln)) - np.log(s) - (nu + 1) / 2 * np.log1p(z**2 / nu)

    def slopes(self, y: np.ndarray, f: np.ndarray) -> Slopes:
        nu, s = float(self.degrees), float(self.scale)
        z = (split(y, f)[0] - f) / s
        c, w = (nu + 1) / nu, 1 / (1 + z * z / nu)
        u = z * z * w / nu  # in [0, 1], with 1 − u = w
        return Slopes(
            self.log_probs(y, f),
            c * z * w / s,
            c * w * (u - w) / s**2,
            2 * c / nu * z * w * w * (u - 3 * w) / s**3,
        )

    def peak(self, y: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(y, np.float64), np.full(len(y), float(self.scale))

    def expected_log_prob(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        f, weight = resolved(mean, variance, *self.peak(y, mean))
        return (self.log_probs(y, f) * weight).sum(1)

    def moments(self, f: np.ndarray, size: ArrayLike | None = None) -> Moments:
        return Moments(f, np.full_like(f, self._variance()))

    def _variance(self) -> float:
        nu = float(self.degrees)
        return float(self.scale) ** 2 * nu / (nu - 2) if nu > 2 else np.inf

    def cdf(self, y: np.ndarray, f: np.ndarray, size: ArrayLike | None = None) -> np.ndarray:
        return special.stdtr(float(self.degrees), (y - f) / float(self.scale))

    def sample(self, f: np.ndarray, rng: np.random.Generator, size: ArrayLike | None = None) -> np.ndarray:
        return f + float(self.scale) * rng.standard_t(float(self.degrees), np.shape(f))

    def predictive(self, mean: np.ndarray, variance: np.ndarray, size: ArrayLike | None = None) -> Moments:
        return Moments(mean, variance + self._variance())

    def starting(self, y: np.ndarray) -> dict[str, float | np.ndarray]:
        """Return a scale of a fifth of the spread of y, and four degrees of freedom."""
        return {"scale": 0.2 * robust_spread(y), "degrees": 4.0}


def robust_spread(y: np.ndarray) -> float:
    """Estimate the standard deviation from the median absolute deviation; the usual one if more than half of y are equal.

    >>> round(robust_spread(np.array([1.0, 2.0, 3.0, 4.0, 1000.0])), 4)
    1.4826
    """
    spread = 1.4826 * float(np.median(np.abs(y - np.median(y))))
    return spread or float(np.std(y)) or 1.0


def _height(nu: Array | float, xp: ModuleType, gammaln: Callable[..., Array]) -> Array:
    """Return the log density at zero for unit scale."""
    x = nu / 2
    large, small = xp.maximum(x, LARGE), xp.minimum(x, LARGE)
    w = 1 / large
    series = -0.5 * np.log(2 * np.pi) - w * (1 / 8 - w * w / 192)  # log Γ(x + ½)/Γ(x) − ½ log x, plus the normal density
    direct = gammaln(small + 0.5) - gammaln(small) - 0.5 * xp.log(2 * small * np.pi)
    return xp.where(x > LARGE, series, direct)
