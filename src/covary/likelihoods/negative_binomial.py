"""Negative binomial likelihood for overdispersed counts."""

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
from covary.likelihoods.base import AbstractLikelihood, Moments, Slopes, split
from covary.likelihoods.rates import (
    chain,
    choice,
    latent,
    log_rate,
    log_rate_slopes,
    pair,
    poisson_draws,
    rate,
    rate_moments,
    stirling,
)
from covary.parameters import positive

STIRLING = 10.0  # arguments of log Γ above which Stirling's formula has full precision


class NegativeBinomial(AbstractLikelihood):
    r"""Counts with mean :math:`m = s\lambda(f)` and variance :math:`m + \alpha m^2`, s the exposure.

    .. math:: p(y \mid f) = \frac{\Gamma(y + 1/\alpha)}{y!\,\Gamma(1/\alpha)}
        \frac{(\alpha m)^y}{(1 + \alpha m)^{y + 1/\alpha}}

    A Poisson count whose rate is multiplied by an independent Gamma variable with mean 1 and variance α. For counts with more
    variance than :class:`Poisson` allows; α → 0 gives Poisson. An observation is a count, or a row (count,
    exposure). Log-concave with the link ``"exp"``, not with ``"softplus"``.

    Parameters
    ----------
    dispersion
        α > 0.
    link
        ``"exp"``, :math:`\lambda = e^f`, or ``"softplus"``, :math:`\lambda = \log(1 + e^f)`.

    References
    ----------
    Cameron & Trivedi (2013), *Regression analysis of count data*, chapter 3 (the model NB2).

    Examples
    --------
    >>> import numpy as np
    >>> NegativeBinomial(0.5).moments(np.log([4.0])).variance.round(6)
    array([12.])
    """

    dispersion: Numbers = positive(1.0)
    _: KW_ONLY
    link: str = static("exp", convert=choice("NegativeBinomial", "exp", "softplus"))

    support = "counts"
    sized = True

    @property
    def log_concave(self) -> bool:
        """Whether log p(y | f) is concave in f: true for the link ``"exp"``."""
        return self.link == "exp"

    def log_prob(self, y: Array, f: Array) -> Array:
        count, size = pair(y)
        eta = log_rate(self.link, f) + jnp.log(size)
        many = 1 / self.dispersion
        odds = jnp.logaddexp(0.0, eta + jnp.log(self.dispersion))  # log(1 + αm)
        return _growth(count, self.dispersion, jnp, jsp.gammaln) - jsp.gammaln(count + 1) + count * (eta - odds) - many * odds

    def _parts(self, y: np.ndarray, f: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Return the count, log m, log αm and 1/α."""
        count, size = split(y, f)
        alpha = float(self.dispersion)
        eta = np.asarray(log_rate(self.link, f, np) + np.log(size))
        return count, eta, eta + np.log(alpha), 1 / alpha

    def log_probs(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        count, eta, t, many = self._parts(y, f)
        odds = np.logaddexp(0.0, t)
        constant = _growth(count, float(self.dispersion), np, special.gammaln) - special.gammaln(count + 1)
        return constant + count * (eta - odds) - many * odds

    def slopes(self, y: np.ndarray, f: np.ndarray) -> Slopes:
        count, _, t, many = self._parts(y, f)
        p, q = special.expit(t), special.expit(-t)
        bend = (count + many) * p * q
        return Slopes(self.log_probs(y, f), *chain(self.link, f, count * q - many * p, -bend, bend * (p - q)))

    def peak(self, y: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        count, size = split(y, start)
        some = np.maximum(count, 0.0) + 0.5
        at = latent(self.link, some / size)
        return at, np.sqrt(1 / some + float(self.dispersion)) / log_rate_slopes(self.link, at)[0]

    def moments(self, f: np.ndarray, size: ArrayLike | None = None) -> Moments:
        with np.errstate(over="ignore"):
            mean = rate(self.link, f) * (1.0 if size is None else size)
            return Moments(mean, mean * (1 + float(self.dispersion) * mean))

    def cdf(self, y: np.ndarray, f: np.ndarray, size: ArrayLike | None = None) -> np.ndarray:
        alpha = float(self.dispersion)
        p = special.expit(log_rate(self.link, f, np) + np.log(alpha * (1.0 if size is None else np.asarray(size))))
        return np.where(y < 0, 0.0, special.betaincc(np.floor(np.maximum(y, 0.0)) + 1, 1 / alpha, p))

    def sample(self, f: np.ndarray, rng: np.random.Generator, size: ArrayLike | None = None) -> np.ndarray:
        alpha = float(self.dispersion)
        mean = self.moments(np.asarray(f), size).mean
        return poisson_draws(rng, mean * rng.gamma(1 / alpha, alpha, np.shape(mean)))

    def predictive(self, mean: np.ndarray, variance: np.ndarray, size: ArrayLike | None = None) -> Moments:
        s = 1.0 if size is None else np.asarray(size)
        alpha = float(self.dispersion)
        centre, spread = rate_moments(self.link, mean, variance)
        with np.errstate(over="ignore"):
            return Moments(s * centre, s * centre + s * s * (spread * (1 + alpha) + alpha * centre * centre))

    def latent_values(self, y: np.ndarray) -> np.ndarray:
        count, size = split(y, y[..., 0] if y.ndim == 2 else y)
        return latent(self.link, (count + 0.5) / size)

    def starting(self, y: np.ndarray) -> dict[str, float | np.ndarray]:
        """Return half the dispersion estimated for a constant rate."""
        count, size = split(y, y[..., 0] if y.ndim == 2 else y)
        each = count / size
        mean = max(float(each.mean()), 1e-3)
        return {"dispersion": float(np.clip(0.5 * (each.var() / mean - 1) / mean, 0.05, 2.0))}


def _growth(count: Array, alpha: Array | float, xp: ModuleType, gammaln: Callable[..., Array]) -> Array:
    """Return log Γ(y + 1/α) − log Γ(1/α) + y log α, accurately even if α is so small that the first two terms cancel."""
    many = xp.maximum(1 / alpha, STIRLING)
    small = 1 / many
    series = (many + count - 0.5) * xp.log1p(small * count) - count + stirling(many + count) - stirling(many)
    few = xp.minimum(1 / alpha, STIRLING)
    return xp.where(alpha * STIRLING < 1, series, gammaln(count + few) - gammaln(few) + count * xp.log(alpha))
