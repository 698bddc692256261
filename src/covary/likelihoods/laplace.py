"""Laplace noise, the likelihood of least absolute deviations."""

from __future__ import annotations

from typing import NamedTuple, Self

import jax.numpy as jnp
import numpy as np
from scipy import special

from covary._module import Numbers
from covary._types import Array, ArrayLike
from covary.likelihoods.base import AbstractLikelihood, Moments, Slopes, Tilted, split
from covary.likelihoods.probit import Mills, mills
from covary.likelihoods.student_t import robust_spread
from covary.parameters import positive


class DoubleExponential(AbstractLikelihood):
    r"""Laplace (double-exponential) noise, :math:`p(y\mid f) = \frac1{2b} e^{-|y - f|/b}`, with variance :math:`2b^2`.

    For measurements with outliers. Safer than :class:`StudentT` because it is log-concave, so the posterior has a single
    mode. It fits medians instead of means. The log density has a kink at f = y and no curvature elsewhere, so Laplace's method
    cannot estimate the width of the posterior: use expectation propagation, whose moments have a closed form (two truncated
    Gaussians).

    Parameters
    ----------
    scale
        b > 0, in the units of y.

    References
    ----------
    Kuss (2006), *Gaussian process models for robust regression, classification, and reinforcement learning*, chapter 5.

    Examples
    --------
    >>> import numpy as np
    >>> tilted = DoubleExponential(1.0).tilted(np.array([0.0]), np.array([2.0]), np.array([1.0]))
    >>> tilted.mean.round(6), tilted.variance.round(6)
    (array([1.161089]), array([0.767357]))
    """

    scale: Numbers = positive(1.0)

    log_concave = True
    location = True
    smooth = False

    def log_prob(self, y: Array, f: Array) -> Array:
        return -jnp.abs(y - f) / self.scale - jnp.log(2 * self.scale)

    def log_probs(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        b = float(self.scale)
        return -np.abs(split(y, f)[0] - f) / b - np.log(2 * b)

    def slopes(self, y: np.ndarray, f: np.ndarray) -> Slopes:
        zero = np.zeros_like(f)
        return Slopes(self.log_probs(y, f), np.sign(split(y, f)[0] - f) / float(self.scale), zero, zero)

    def tilted(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, power: np.ndarray | float | None = None) -> Tilted:
        """Return the moments of two Gaussians with means shifted by ± variance/b towards y, each truncated at y."""
        b, p = float(self.scale), 1.0 if power is None else power
        s = _sides(mean - y, variance, p / b)
        log_z = np.logaddexp(s.below, s.above)
        share, rest = np.exp(s.above - log_z), np.exp(s.below - log_z)
        up, down = s.right.excess, s.left.excess
        inner = share * s.right.spread + rest * s.left.spread + share * rest * (up + down) ** 2
        return Tilted(log_z - p * np.log(2 * b), y + s.sd * (share * up - rest * down), variance * inner)

    def tilted_pull(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, power: np.ndarray | float | None, bar: np.ndarray
    ) -> Self:
        b, p = float(self.scale), 1.0 if power is None else power
        s = _sides(mean - y, variance, p / b)
        log_z = np.logaddexp(s.below, s.above)
        away = s.sd * (np.exp(s.above - log_z) * s.right.excess + np.exp(s.below - log_z) * s.left.excess)  # E |y − f|
        return self.replace(scale=np.asarray((bar * p * (away / b - 1) / b).sum()))

    def peak(self, y: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(y, np.float64), np.full(len(y), float(self.scale))

    def expected_log_prob(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        b, d, sd = float(self.scale), y - mean, np.maximum(np.sqrt(variance), 1e-150)
        away = sd * np.sqrt(2 / np.pi) * np.exp(-0.5 * (d / sd) ** 2) + d * special.erf(d / (sd * np.sqrt(2)))
        return -away / b - np.log(2 * b)

    def moments(self, f: np.ndarray, size: ArrayLike | None = None) -> Moments:
        return Moments(f, np.full_like(f, 2 * float(self.scale) ** 2))

    def cdf(self, y: np.ndarray, f: np.ndarray, size: ArrayLike | None = None) -> np.ndarray:
        z = (y - f) / float(self.scale)
        tail = 0.5 * np.exp(-np.abs(z))
        return np.where(z < 0, tail, 1 - tail)

    def sample(self, f: np.ndarray, rng: np.random.Generator, size: ArrayLike | None = None) -> np.ndarray:
        return rng.laplace(f, float(self.scale))

    def predictive(self, mean: np.ndarray, variance: np.ndarray, size: ArrayLike | None = None) -> Moments:
        return Moments(mean, variance + 2 * float(self.scale) ** 2)

    def predictive_cdf(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: ArrayLike | None = None
    ) -> np.ndarray:
        s = _sides(mean - y, variance, 1 / float(self.scale))
        return np.clip(special.ndtr((y - mean) / s.sd) - 0.5 * np.exp(s.below) + 0.5 * np.exp(s.above), 0.0, 1.0)

    def starting(self, y: np.ndarray) -> dict[str, float | np.ndarray]:
        """Return a scale of 0.15 times the standard deviation of y, so that the noise has a fifth of it."""
        return {"scale": 0.15 * robust_spread(y)}


class _Sides(NamedTuple):
    """Log masses of e^{−c|f − y|} N(f) below and above y, and the Mills ratios of the two shifted Gaussians at y."""

    below: np.ndarray
    above: np.ndarray
    left: Mills
    right: Mills
    sd: np.ndarray


def _sides(d: np.ndarray, variance: np.ndarray, c: np.ndarray | float) -> _Sides:
    """Return both sides for d = mean − y and c, the slope of the log density."""
    sd = np.maximum(np.sqrt(variance), 1e-150)
    shift = c * sd
    left, right = -d / sd - shift, d / sd - shift
    return _Sides(_mass(left, d / sd, shift), _mass(right, -d / sd, shift), mills(left), mills(right), sd)


def _mass(z: np.ndarray, away: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Return away·shift + shift²/2 + log Φ(z) for z = −away − shift, without the cancellation of squares for z ≪ 0."""
    with np.errstate(over="ignore", divide="ignore"):
        far = np.log(0.5 * special.erfcx(np.maximum(-z, 0.0) / np.sqrt(2.0))) - 0.5 * away * away
    near = shift * (np.minimum(away, -shift) + 0.5 * shift) + special.log_ndtr(np.maximum(z, 0.0))
    return np.where(z < 0, far, near)
