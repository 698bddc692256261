"""Poisson likelihood for counts."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from scipy import special

from covary._module import static
from covary._types import Array, ArrayLike
from covary.likelihoods import quadrature
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
from covary.likelihoods.steps import average, averaged_cdf, resolved

LARGE = 50.0  # counts above which Stirling's formula has full precision


class Poisson(AbstractLikelihood):
    r"""Counts with rate λ(f), :math:`p(y \mid f) = (s\lambda)^y e^{-s\lambda} / y!`, s the exposure (Diggle et al. 1998).

    For independent events such as cases, calls or particles. An observation is a count, or a row (count, exposure). With the
    link ``"exp"`` the rate is :math:`e^f` and the predicted mean count :math:`s\,e^{\mu + \sigma^2/2}`. For overdispersed
    counts use :class:`NegativeBinomial`.

    Parameters
    ----------
    link
        ``"exp"``: multiplicative effects. ``"softplus"``, :math:`\lambda = \log(1 + e^f)`: additive effects at large rates, and
        moderate predictions far from the data. ``"square"``, :math:`\lambda = f^2`: also additive, but f and −f are equivalent
        and y > 0 is impossible at f = 0, so p(y | f) has two peaks: give the prior a mean away from zero.

    References
    ----------
    Rasmussen & Williams (2006), section 9.3; Diggle, Tawn & Moyeed (1998), *Model-based geostatistics*.

    Examples
    --------
    >>> import numpy as np
    >>> Poisson().predictive(np.array([0.0]), np.array([2.0]), size=np.array([10.0])).mean.round(4)
    array([27.1828])
    """

    link: str = static("exp", convert=choice("Poisson", "exp", "softplus", "square"))

    support = "counts"
    sized = True

    @property
    def log_concave(self) -> bool:
        """Whether log p(y | f) is concave in f: true for every link except the square."""
        return self.link != "square"

    def log_prob(self, y: Array, f: Array) -> Array:
        count, size = pair(y)
        eta = log_rate(self.link, f)
        mean = size * (f * f if self.link == "square" else jnp.exp(eta))
        some = jnp.where(count > 0, count * jnp.where(count > 0, eta, 0.0), 0.0)
        return some + count * jnp.log(size) - mean - gammaln(count + 1)

    def log_probs(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        count, size = split(y, f)
        with np.errstate(over="ignore"):
            mean = size * rate(self.link, f)
        eta = log_rate(self.link, f, np)
        some = count * np.where(count > 0, eta, 0.0)
        plain = some + count * np.log(size) - mean - special.gammaln(count + 1)
        large = np.maximum(count, LARGE)  # large counts use the deviance, since the terms would cancel: u = log(mean / count)
        with np.errstate(over="ignore", invalid="ignore"):
            u = np.where(count > 0, eta, 0.0) + np.log(size) - np.log(large)
            far = -large * (np.expm1(u) - u) - 0.5 * np.log(2 * np.pi * large) - stirling(large)
        return np.where(count >= LARGE, far, plain)

    def slopes(self, y: np.ndarray, f: np.ndarray) -> Slopes:
        count, size = split(y, f)
        value = self.log_probs(y, f)
        if self.link == "square":
            a, b, c = (np.where(count > 0, count * s, 0.0) for s in log_rate_slopes("square", np.where(count > 0, f, 1.0)))
            return Slopes(value, a - 2 * size * f, b - 2 * size, c)
        with np.errstate(over="ignore"):
            mean = size * rate(self.link, f)
        return Slopes(value, *chain(self.link, f, count - mean, -mean, -mean))

    def nodes(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, power: np.ndarray | float | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        if self.link != "square":
            return AbstractLikelihood.nodes(self, y, mean, variance, power)
        # |f|^2yp exp(−sp f²) N(f) is log-concave on each side of zero, and its two modes solve a quadratic equation
        mean, variance = np.asarray(mean, np.float64), np.asarray(variance, np.float64)
        scale = np.ones_like(mean) if power is None else np.asarray(power, np.float64)
        count, size = split(y, mean)
        sharp = 2 * scale * size + 1 / variance
        half = 0.5 * mean / variance
        root = np.maximum(np.abs(half) + np.sqrt(half * half + 2 * scale * count * sharp), 1e-150)
        sides = []
        for sign in (-1.0, 1.0):
            top = sign * np.where(sign * half >= 0, root / sharp, 2 * scale * count / root)
            width = 1 / np.sqrt(sharp + 2 * scale * count / np.maximum(top * top, 1e-300))
            marks = quadrature.around(top, np.maximum(width, 1e-6 / np.sqrt(sharp)), quadrature.REACH / np.sqrt(sharp))
            sides.append(quadrature.fill(np.sort(sign * np.maximum(sign * marks, 0.0), axis=1)))
        f, weight = (np.concatenate(part, axis=1) for part in zip(*sides, strict=True))
        with np.errstate(divide="ignore"):
            log_weight = np.log(weight) - 0.5 * np.log(2 * np.pi * variance)[:, None]
        terms = log_weight + scale[:, None] * self.log_probs(y, f) - 0.5 * (f - mean[:, None]) ** 2 / variance[:, None]
        return f, np.where(np.isnan(terms), -np.inf, terms)

    def peak(self, y: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        count, size = split(y, start)
        some = np.maximum(count, 0.0) + 0.5
        at = latent(self.link, some / size)
        width = 1 / (log_rate_slopes(self.link, at)[0] * np.sqrt(some))
        return (np.where(start < 0, -at, at) if self.link == "square" else at), width

    def expected_log_prob(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        if self.link == "exp":
            count, size = split(y, mean)
            fall = size * rate("exp", mean + 0.5 * variance)
            return count * (mean + np.log(size)) - fall - special.gammaln(count + 1)
        zero, width = np.zeros_like(mean), np.full_like(mean, 1e-9 if self.link == "square" else 1.0)
        f, weight = resolved(mean, variance, zero, width, panels=24)
        return (self.log_probs(y, f) * weight).sum(1)

    def moments(self, f: np.ndarray, size: ArrayLike | None = None) -> Moments:
        with np.errstate(over="ignore"):
            mean = rate(self.link, f) * (1.0 if size is None else size)
        return Moments(mean, mean)

    def cdf(self, y: np.ndarray, f: np.ndarray, size: ArrayLike | None = None) -> np.ndarray:
        return np.where(y < 0, 0.0, special.gammaincc(np.floor(np.maximum(y, 0.0)) + 1, self.moments(f, size).mean))

    def sample(self, f: np.ndarray, rng: np.random.Generator, size: ArrayLike | None = None) -> np.ndarray:
        return poisson_draws(rng, self.moments(np.asarray(f), size).mean)

    def predictive(self, mean: np.ndarray, variance: np.ndarray, size: ArrayLike | None = None) -> Moments:
        s = 1.0 if size is None else np.asarray(size)
        centre, spread = rate_moments(self.link, mean, variance)
        with np.errstate(over="ignore"):
            return Moments(s * centre, s * centre + s * s * spread)

    def predictive_cdf(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: ArrayLike | None = None
    ) -> np.ndarray:
        if self.link != "square":
            return averaged_cdf(self, y, mean, variance, size)
        s = np.broadcast_to(1.0 if size is None else np.asarray(size, np.float64), np.shape(y))
        at, width = self.peak(np.stack([y, s], axis=1), mean)
        f, weight = resolved(mean, variance, np.stack([-at, at], axis=1), width)
        return average(self.cdf, y, s, f, weight)

    def latent_values(self, y: np.ndarray) -> np.ndarray:
        count, size = split(y, y[..., 0] if y.ndim == 2 else y)
        return latent(self.link, (count + 0.5) / size)
