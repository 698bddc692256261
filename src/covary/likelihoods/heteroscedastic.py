"""Gaussian noise with input-dependent variance."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from scipy import special

from covary._module import Numbers
from covary._types import Array, ArrayLike
from covary.likelihoods.base import AbstractLikelihood, Coupled, Moments
from covary.likelihoods.steps import resolved
from covary.likelihoods.student_t import robust_spread
from covary.parameters import positive


class HeteroscedasticGaussian(AbstractLikelihood):
    r"""Gaussian noise whose log variance is a second latent function.

    .. math:: y \mid g, h \sim N(g,\; \sigma^2 e^h)

    For measurements that are reliable in some regions but not in others. Each observation depends on two latent functions,
    the mean g and the log noise h, so latent values are rows (g, h). The prior's mean function applies to g, and h has mean
    zero. Not log-concave in (g, h).

    Parameters
    ----------
    variance
        The noise variance σ² at h = 0, in the units of y squared.

    References
    ----------
    Goldberg, Williams & Bishop (1998), *Regression with input-dependent noise*; Rasmussen & Williams (2006), section 9.3.

    Examples
    --------
    >>> import numpy as np
    >>> mean, covariance = np.array([[1.0, 0.0]]), np.array([[[0.2, 0.0], [0.0, 0.5]]])
    >>> HeteroscedasticGaussian(0.1).predictive(mean, covariance).variance.round(6)
    array([0.328403])
    """

    variance: Numbers = positive(1.0)

    location = True

    @property
    def latents(self) -> int:
        return 2

    @property
    def has_mean(self) -> np.ndarray:
        return np.array([1.0, 0.0])

    def log_prob(self, y: Array, f: Array) -> Array:
        return -0.5 * (jnp.log(2 * jnp.pi * self.variance) + f[1] + (y - f[0]) ** 2 * jnp.exp(-f[1]) / self.variance)

    def fisher(self, f: Array) -> Array:
        """Return the Fisher information diag(e^−h/σ², ½) at one row of latent values, in jax.numpy."""
        return jnp.diag(jnp.stack([jnp.exp(-f[1]) / self.variance, jnp.full_like(f[1], 0.5)]))

    def log_probs(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Return log p(y | f) for rows of y and latent values (n, 2), or (n, q, 2)."""
        v, target = float(self.variance), y if f.ndim == 2 else y[:, None]
        with np.errstate(over="ignore"):
            return -0.5 * (np.log(2 * np.pi * v) + f[..., 1] + (target - f[..., 0]) ** 2 * np.exp(-f[..., 1]) / v)

    def coupled(self, y: np.ndarray, f: np.ndarray) -> Coupled:
        v, rest = float(self.variance), y - f[:, 0]
        with np.errstate(over="ignore"):
            w = np.exp(-f[:, 1]) / v
        first = np.stack([rest * w, 0.5 * (rest * rest * w - 1)], axis=1)
        second = np.empty((len(y), 2, 2))
        second[:, 0, 0], second[:, 0, 1], second[:, 1, 1] = -w, -rest * w, -0.5 * rest * rest * w
        second[:, 1, 0] = second[:, 0, 1]
        fisher = np.zeros_like(second)
        fisher[:, 0, 0], fisher[:, 1, 1] = w, 0.5
        return Coupled(self.log_probs(y, f), first, second, fisher)

    def information_slope(self, f: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return np.stack([np.zeros(len(f)), -weight[:, 0, 0] * np.exp(-f[:, 1]) / float(self.variance)], axis=1)

    def expected_log_prob(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return E log p(y | f) over N(f | mean, variance), with means (n, 2) and covariances (n, 2, 2)."""
        v, (gg, gh, hh) = float(self.variance), _parts(variance)
        miss = (y - mean[:, 0] + gh) ** 2 + gg
        with np.errstate(over="ignore"):
            return -0.5 * (np.log(2 * np.pi * v) + mean[:, 1] + miss * np.exp(0.5 * hh - mean[:, 1]) / v)

    def latent_levels(self, level: float) -> np.ndarray:
        return np.array([level, 1.0])  # a standard deviation of 1 for the log noise, whatever the units of y

    def calm_levels(self, level: float) -> np.ndarray:
        """Return scales with nearly constant noise: otherwise it vanishes at the mode if g can interpolate every row."""
        return np.array([level, 0.3])

    # a new observation ------------------------------------------------------------------------------------------------
    def moments(self, f: np.ndarray, size: ArrayLike | None = None) -> Moments:
        """Return the mean and variance of y at latent values (n, 2)."""
        with np.errstate(over="ignore"):
            return Moments(f[..., 0], float(self.variance) * np.exp(f[..., 1]))

    def cdf(self, y: np.ndarray, f: np.ndarray, size: ArrayLike | None = None) -> np.ndarray:
        return special.ndtr((y - f[..., 0]) * np.exp(-0.5 * f[..., 1]) / np.sqrt(float(self.variance)))

    def sample(self, f: np.ndarray, rng: np.random.Generator, size: ArrayLike | None = None) -> np.ndarray:
        """Draw one y for every row (…, 2) of latent values."""
        found = self.moments(np.asarray(f))
        return found.mean + np.sqrt(found.variance) * rng.standard_normal(found.mean.shape)

    def predictive(self, mean: np.ndarray, variance: np.ndarray, size: ArrayLike | None = None) -> Moments:
        r"""Return mean :math:`\mu_g` and variance :math:`s_g^2 + \sigma^2 e^{\mu_h + s_h^2/2}`."""
        gg, _, hh = _parts(variance)
        with np.errstate(over="ignore"):
            return Moments(mean[:, 0], gg + float(self.variance) * np.exp(mean[:, 1] + 0.5 * hh))

    def _mixture(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return standardised values, log variances and log weights (n, q) over h, given which y is Gaussian."""
        v, (gg, gh, hh) = float(self.variance), _parts(variance)
        gain = np.where(hh > 0, gh / np.maximum(hh, 1e-300), 0.0)
        spread = np.maximum(gg - gain * gh, 0.0)
        miss = y - mean[:, 0]
        at = np.log((miss * miss + spread + v) / v)  # value of h from which the noise explains the observation
        h, weight = resolved(mean[:, 1], hh, at, np.ones_like(at))
        with np.errstate(over="ignore", divide="ignore"):
            both = np.maximum(spread[:, None] + v * np.exp(h), 1e-300)
            return (miss[:, None] - gain[:, None] * (h - mean[:, 1:])) / np.sqrt(both), np.log(both), np.log(weight)

    def predictive_log_prob(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return the log density of new observations, integrating over g exactly and over h by quadrature."""
        z, log_both, log_weight = self._mixture(y, mean, variance)
        return special.logsumexp(log_weight - 0.5 * (z * z + log_both), axis=1) - 0.5 * np.log(2 * np.pi)

    def predictive_cdf(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: ArrayLike | None = None
    ) -> np.ndarray:
        z, _, log_weight = self._mixture(y, mean, variance)
        return (np.exp(log_weight) * special.ndtr(z)).sum(1)

    def starting(self, y: np.ndarray) -> dict[str, float | np.ndarray]:
        """Return noise with a fifth of the standard deviation of y."""
        return {"variance": (0.2 * robust_spread(y)) ** 2}


def _parts(variance: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return var g, cov(g, h) and var h from covariances (n, 2, 2)."""
    return variance[:, 0, 0], variance[:, 0, 1], variance[:, 1, 1]
