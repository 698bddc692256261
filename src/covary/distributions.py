"""Densities used as priors: log density, its derivative and samples, in closed form.

Each is a density of the parameter itself, in the user's units. Learning maximises over the unconstrained coordinate (the
logarithm of a positive parameter), whose density includes the Jacobian; :mod:`covary.selection.priors` adds it.
"""

from __future__ import annotations

from dataclasses import KW_ONLY

import numpy as np
from scipy import special

from covary._checks import namespace
from covary._module import Module, static
from covary._types import Array


class AbstractDistribution(Module):
    """Density on the real line or on the positive half-line. ``log_prob`` may be traced by JAX."""

    def log_prob(self, x: Array) -> Array:
        """Return the log density at x, elementwise."""
        raise NotImplementedError

    def slope(self, x: Array) -> Array:
        """Return the derivative of the log density at x, elementwise."""
        raise NotImplementedError

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> np.ndarray:
        """Draw samples of the given shape."""
        raise NotImplementedError

    def scaled(self, factor: float) -> AbstractDistribution:
        """Return the density of ``factor`` times the variable, as for a change of units."""
        raise NotImplementedError


class Normal(AbstractDistribution):
    r"""Normal density, :math:`N(x \mid \mu, \sigma^2)` with ``mean`` μ and ``std`` σ."""

    mean: float = static(0.0)
    _: KW_ONLY
    std: float = static(1.0)

    def log_prob(self, x: Array) -> Array:
        return -0.5 * ((x - self.mean) / self.std) ** 2 - np.log(self.std) - 0.5 * np.log(2 * np.pi)

    def slope(self, x: Array) -> Array:
        return -(x - self.mean) / self.std**2

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> np.ndarray:
        return rng.normal(self.mean, self.std, shape)

    def scaled(self, factor: float) -> Normal:
        return Normal(self.mean * factor, std=self.std * factor)


class LogNormal(AbstractDistribution):
    r"""Log-normal density: :math:`\log x \sim N(\mu, \sigma^2)` with ``location`` μ and ``scale`` σ."""

    location: float = static(0.0)
    _: KW_ONLY
    scale: float = static(1.0)

    def log_prob(self, x: Array) -> Array:
        log = namespace(x).log
        z = (log(x) - self.location) / self.scale
        return -0.5 * z**2 - log(self.scale * x) - 0.5 * np.log(2 * np.pi)

    def slope(self, x: Array) -> Array:
        return -((np.log(x) - self.location) / self.scale**2 + 1) / x

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> np.ndarray:
        return np.exp(rng.normal(self.location, self.scale, shape))

    def scaled(self, factor: float) -> LogNormal:
        return LogNormal(self.location + float(np.log(factor)), scale=self.scale)


class Gamma(AbstractDistribution):
    r"""Gamma density in the parameterisation of Gibbs (1997, section 2.4; G 21).

    .. math:: Ga(x \mid m, \alpha) = \frac{(\alpha/2m)^{\alpha/2}}{\Gamma(\alpha/2)} x^{\alpha/2-1} e^{-\alpha x/2m}

    ``mean`` is m; ``shape`` is α, twice the usual shape parameter: small α is vague.
    """

    mean: float = static(1.0)
    _: KW_ONLY
    shape: float = static(2.0)

    def log_prob(self, x: Array) -> Array:
        k, rate = self.shape / 2, self.shape / (2 * self.mean)
        return k * np.log(rate) - special.gammaln(k) + (k - 1) * namespace(x).log(x) - rate * x

    def slope(self, x: Array) -> Array:
        return (self.shape / 2 - 1) / x - self.shape / (2 * self.mean)

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> np.ndarray:
        return rng.gamma(self.shape / 2, 2 * self.mean / self.shape, shape)

    def scaled(self, factor: float) -> Gamma:
        return Gamma(self.mean * factor, shape=self.shape)


class InverseGamma(AbstractDistribution):
    r"""Inverse Gamma density in the parameterisation of Gibbs (1997, section 2.4; G 21).

    .. math:: Ig(x \mid m, \alpha) = \frac{(\alpha m/2)^{\alpha/2+1}}{\Gamma(\alpha/2+1)} x^{-(\alpha/2+2)} e^{-\alpha m/2x}

    ``mean`` is m; ``shape`` is α. The variance is m²/(α/2 − 1), infinite for α ≤ 2: small α is vague.
    """

    mean: float = static(1.0)
    _: KW_ONLY
    shape: float = static(2.0)

    def log_prob(self, x: Array) -> Array:
        k, scale = self.shape / 2 + 1, self.shape * self.mean / 2
        return k * np.log(scale) - special.gammaln(k) - (k + 1) * namespace(x).log(x) - scale / x

    def slope(self, x: Array) -> Array:
        return -(self.shape / 2 + 2) / x + self.shape * self.mean / 2 / x**2

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> np.ndarray:
        return self.shape * self.mean / 2 / rng.gamma(self.shape / 2 + 1, 1.0, shape)

    def scaled(self, factor: float) -> InverseGamma:
        return InverseGamma(self.mean * factor, shape=self.shape)


class HalfCauchy(AbstractDistribution):
    r"""Half-Cauchy density on x ≥ 0, :math:`2 / (\pi s (1 + x^2/s^2))` with ``scale`` s."""

    scale: float = static(1.0)

    def log_prob(self, x: Array) -> Array:
        return np.log(2 / (np.pi * self.scale)) - namespace(x).log1p((x / self.scale) ** 2)

    def slope(self, x: Array) -> Array:
        return -2 * x / (self.scale**2 + x**2)

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> np.ndarray:
        return np.abs(self.scale * rng.standard_cauchy(shape))

    def scaled(self, factor: float) -> HalfCauchy:
        return HalfCauchy(self.scale * factor)


class Uniform(AbstractDistribution):
    """Uniform density on [lower, upper]; learning keeps the parameter inside."""

    lower: float = static(0.0)
    _: KW_ONLY
    upper: float = static(1.0)

    def log_prob(self, x: Array) -> Array:
        xp = namespace(x)
        inside = (xp.asarray(x) >= self.lower) & (xp.asarray(x) <= self.upper)
        return xp.where(inside, -np.log(self.upper - self.lower), -np.inf)

    def slope(self, x: Array) -> Array:
        return np.zeros_like(np.asarray(x, dtype=np.float64))

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> np.ndarray:
        return rng.uniform(self.lower, self.upper, shape)

    def scaled(self, factor: float) -> Uniform:
        return Uniform(self.lower * factor, upper=self.upper * factor)
