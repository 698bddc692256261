r"""Links from a latent value to a positive rate, in terms of the logarithm η of the rate.

==============  ======================  =======================
link            rate                    η′, η″, η‴
==============  ======================  =======================
``"exp"``       :math:`e^f`             1, 0, 0
``"softplus"``  :math:`\log(1 + e^f)`   from σ(f) and the rate
``"square"``    :math:`f^2`             2/f, −2/f², 4/f³
==============  ======================  =======================

Derivatives with respect to η are converted to derivatives with respect to f by :func:`chain`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy import special

from covary._checks import fail
from covary._types import Array
from covary.likelihoods.steps import resolved

LOW = -15.0  # below this, two terms of the series of log log(1 + e^f) are sufficient
LARGE = 1e15  # larger counts are normally distributed to double precision
HIGHEST = 700.0  # larger log rates are reduced to this, so that products of rates stay finite


def choice(who: str, *names: str) -> Callable[[Any], str]:
    """Return a converter that checks the name of a link."""

    def convert(value: Any) -> str:
        if value not in names:
            what = f"link is {value!r}"
            raise fail(f"likelihoods.{who}", what, f"choose {' or '.join(repr(n) for n in names)}", argument="link")
        return value

    return convert


def pair(y: Array) -> tuple[Array, Array]:
    """Split an observation, a number or a row (y, size), into value and size inside a traced function."""
    return (y[0], y[1]) if jnp.ndim(y) else (y, 1.0)


def log_rate(link: str, f: Array, xp: ModuleType = jnp) -> Array:
    """Return η, in jax.numpy or NumPy."""
    if link == "exp":
        return f
    if link == "square":
        safe = xp.where(f == 0, 1.0, f)
        return xp.where(f == 0, -xp.inf, 2 * xp.log(xp.abs(safe)))
    e = xp.exp(xp.minimum(f, LOW))
    return xp.where(f < LOW, f - e * (0.5 - 5 / 24 * e), xp.log(xp.logaddexp(xp.maximum(f, LOW), 0.0)))


def rate(link: str, f: np.ndarray) -> np.ndarray:
    """Return the rate."""
    if link == "exp":
        return np.exp(np.minimum(f, HIGHEST if f.dtype == np.float64 else 80.0))
    return f * f if link == "square" else np.logaddexp(f, 0.0)


def latent(link: str, value: np.ndarray) -> np.ndarray:
    """Return the latent value for a positive rate (the positive one, if there are two)."""
    if link == "exp":
        return np.log(value)
    return np.sqrt(value) if link == "square" else value + np.log(-np.expm1(-value))


def log_rate_slopes(link: str, f: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return η′, η″ and η‴."""
    if link == "exp":
        return np.ones_like(f), np.zeros_like(f), np.zeros_like(f)
    if link == "square":
        with np.errstate(divide="ignore", over="ignore"):
            return 2 / f, -2 / (f * f), 4 / (f * f * f)
    near, e = np.maximum(f, LOW), np.exp(np.minimum(f, LOW))
    p, x = special.expit(near), np.logaddexp(near, 0.0)
    a, b = p / x, p * (1 - p) / x
    third = b * (1 - 2 * p) - 3 * a * b + 2 * a * a * a
    return (
        np.where(f < LOW, 1 - e * (0.5 - 5 / 12 * e), a),
        np.where(f < LOW, -e * (0.5 - 5 / 6 * e), b - a * a),
        np.where(f < LOW, -e * (0.5 - 5 / 3 * e), third),
    )


def chain(
    link: str, f: np.ndarray, first: np.ndarray, second: np.ndarray, third: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Convert derivatives with respect to η to derivatives with respect to f."""
    if link == "exp":
        return first, second, third
    a, b, c = log_rate_slopes(link, f)
    return first * a, second * a * a + first * b, third * a * a * a + 3 * second * a * b + first * c


def rate_moments(link: str, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and variance of the rate if the latent value is N(mean, variance)."""
    if link == "square":
        return mean * mean + variance, 2 * variance * (2 * mean * mean + variance)
    if link == "exp":
        with np.errstate(over="ignore", divide="ignore"):
            return np.exp(mean + 0.5 * variance), np.exp(2 * mean + variance + np.log(np.expm1(variance)))
    f, weight = resolved(mean, variance, np.zeros_like(mean), np.ones_like(mean))
    x = rate(link, f)
    centre = (weight * x).sum(1)
    return centre, (weight * (x - centre[:, None]) ** 2).sum(1)


def stirling(x: Array) -> Array:
    """Return the remainder of Stirling's formula, log Γ(x) − (x − ½) log x + x − ½ log 2π, for x ≥ 10."""
    w = 1 / (x * x)
    return (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w * (1 / 1188 - w * 691 / 360360))))) / x


def poisson_draws(rng: np.random.Generator, rate: np.ndarray) -> np.ndarray:
    """Draw Poisson counts as floats, also for rates above the largest integer."""
    small = rng.poisson(np.minimum(rate, LARGE)).astype(np.float64)
    large = rate > LARGE
    return np.where(large, rate + np.sqrt(rate) * rng.standard_normal(np.shape(rate)), small) if np.any(large) else small
