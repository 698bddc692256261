r"""Averages of the logistic function over a Gaussian, :math:`\bar\pi = \int \sigma(f)\,N(f\mid\mu, s^2)\,df` (R&W, eq. 3.25).

A logistic variable is a normal one whose standard deviation is twice a Kolmogorov–Smirnov variable (Andrews & Mallows 1974),
so σ is a mixture of cumulative Gaussians of widths 2λ, each of which averages in closed form:

.. math:: \bar\pi = \int p_{KS}(\lambda)\,\Phi\Bigl(\frac{\mu}{\sqrt{s^2 + 4\lambda^2}}\Bigr)\,d\lambda .

A fixed quadrature rule in λ is accurate to rounding error for every μ and s, including the tails, which matter for log scores.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import special

from covary._checks import fail

METHODS = ("exact", "mackay", "erf5", "map")
FARTHEST = 300.0  # the rule is accurate for latent values up to this size (λ up to 14)


@cache
def _rule(panels: int) -> tuple[np.ndarray, np.ndarray]:
    marks = np.concatenate([[0.12, 0.3, 0.5, 0.8], 1.2 + np.arange(panels)])
    x, w = np.polynomial.legendre.leggauss(10)
    step = np.diff(marks)[:, None]
    at = (marks[:-1, None] + step * (x + 1) / 2).ravel()
    weight = (step * w / 2).ravel() * kolmogorov(at)
    return 2 * at, np.log(weight / weight.sum())


def mixture(farthest: float = FARTHEST) -> tuple[np.ndarray, np.ndarray]:
    """Return widths 2λ and log weights of cumulative Gaussians whose sum is the logistic function for |f| ≤ ``farthest``.

    The mass of σ(−f) is at λ near √(f/4), well within three units of it.
    """
    return _rule(int(np.ceil(np.sqrt(min(farthest, FARTHEST) / 4) + 4.0)))


def kolmogorov(x: np.ndarray) -> np.ndarray:
    """Return the density of the Kolmogorov–Smirnov distribution: its series for large x, the dual series for small x."""
    k = np.arange(1, 12)[:, None]
    large = (8 * x * np.where(k % 2 == 1, 1.0, -1.0) * k**2 * np.exp(-2 * (k * x) ** 2)).sum(0)
    odd = (2 * k - 1) ** 2 * np.pi**2
    small = (np.sqrt(2 * np.pi) * (odd / (4 * x**4) - 1 / x**2) * np.exp(-odd / (8 * x**2))).sum(0)
    return np.where(x > 0.8, large, small)


@cache
def five_errors() -> tuple[np.ndarray, np.ndarray]:
    """Return widths λ and coefficients of Williams & Barber's five error functions, exact at 0.6, 2, 3.5, 4.5 and ∞."""
    widths, at = np.array([0.41, 0.4, 0.37, 0.44, 0.39]), np.array([0.6, 2.0, 3.5, 4.5])
    A = np.vstack([special.erf(np.outer(at, widths)), np.ones(5)])
    return widths, np.linalg.solve(A, np.append(2 * special.expit(at) - 1, 1.0))


def average_logistic(mean: np.ndarray, variance: np.ndarray, method: str = "exact") -> np.ndarray:
    r"""Return E σ(f) for f ~ N(mean, variance), elementwise.

    Parameters
    ----------
    mean, variance
        Arrays of equal shape.
    method
        ``"exact"`` (the mixture above), ``"mackay"`` (:math:`\sigma(\kappa\mu)`, :math:`\kappa^2 = 1/(1 + \pi s^2/8)`;
        errors up to 5e-3), ``"erf5"`` (Williams & Barber's five error functions; errors up to 4e-4, inaccurate in the tails),
        ``"map"`` (:math:`\sigma(\mu)`, no averaging).

    Examples
    --------
    >>> average_logistic(np.array([1.0]), np.array([4.0])).round(6)
    array([0.647726])
    """
    mean, variance = np.asarray(mean, np.float64), np.asarray(variance, np.float64)
    if method == "map":
        return special.expit(mean)
    if method == "mackay":
        return special.expit(mean / np.sqrt(1 + np.pi * variance / 8))
    if method == "erf5":
        widths, c = five_errors()
        inside = widths * mean[..., None] / np.sqrt(1 + 2 * widths**2 * variance[..., None])
        return np.clip(0.5 + 0.5 * special.erf(inside) @ c, 0.0, 1.0)
    if method != "exact":
        raise fail("average_logistic", f"method is {method!r}", f"choose one of {', '.join(METHODS)}", argument="method")
    widths, log_weight = mixture(float(np.abs(mean).max(initial=0.0)))
    spread = np.sqrt(variance[..., None] + widths**2)
    out = special.ndtr(mean[..., None] / spread) @ np.exp(log_weight)
    far = np.abs(mean) > FARTHEST  # here σ and its average are exponential, until the Gaussian reaches zero
    if far.any():
        m, v = np.abs(mean[far]), variance[far]
        tail = np.where(v < m, np.exp(np.minimum(v / 2 - m, 0.0)), special.ndtr(-m / np.sqrt(v + np.pi**2 / 3)))
        out[far] = np.where(mean[far] < 0, tail, 1 - tail)
    return out


def tilted_logistic(sign: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log Z, mean and variance of σ(sign · f) N(f), from the mixture of cumulative Gaussians (R&W, eqs. 3.82–3.87)."""
    widths, log_weight = mixture(float(np.abs(mean).max(initial=0.0)))
    m, v = (sign * mean)[:, None], variance[:, None]
    both = v + widths**2
    z = m / np.sqrt(both)
    log_phi = special.log_ndtr(z)
    terms = log_weight + log_phi
    log_z = np.asarray(special.logsumexp(terms, axis=1))
    share = np.exp(terms - log_z[:, None])
    ratio = np.exp(-0.5 * z * z - 0.5 * np.log(2 * np.pi) - log_phi)
    centre = m + v * ratio / np.sqrt(both)
    own = v - v * v * ratio / both * (z + ratio)
    middle = (share * centre).sum(1)
    return log_z, sign * middle, (share * (own + (centre - middle[:, None]) ** 2)).sum(1)
