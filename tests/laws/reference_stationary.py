"""Stationary covariance functions restated from their formulas in NumPy and SciPy, without covary.

Each function takes two tables of rows, X (n, d) and Z (m, d), and the parameters, and returns the matrix of k (n, m).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad
from scipy.special import gamma as gamma_function
from scipy.special import jv

from laws.reference import differences, distance


def gamma_exponential(X, Z, gamma, lengthscale):
    """R&W, eq. 4.18."""
    return np.exp(-(distance(X, Z, lengthscale) ** gamma))


def half_integer(X, Z, order, lengthscale):
    """R&W, eq. 4.16, term by term."""
    p, t = order, np.sqrt(2 * order + 1) * distance(X, Z, lengthscale)
    f = math.factorial
    total = sum(f(p + i) / (f(i) * f(p - i)) * (2 * t) ** (p - i) for i in range(p + 1))
    return np.exp(-t) * f(p) / f(2 * p) * total


def mixture(X, Z, lengthscales, weights):
    """R&W, below eq. 4.20: a sum over length-scales, with weights that add up to one."""
    parts = [w * np.exp(-(distance(X, Z, ell) ** 2) / 2) for ell, w in zip(lengthscales, weights, strict=True)]
    return sum(parts) / sum(weights)


def piecewise_polynomial(X, Z, degree, lengthscale, columns=None):
    """R&W, eq. 4.21, as printed."""
    r, q = distance(X, Z, lengthscale), degree
    j = (columns or X.shape[1]) // 2 + q + 1
    left = np.maximum(1 - r, 0)
    if q == 0:
        return left**j
    if q == 1:
        return left ** (j + 1) * ((j + 1) * r + 1)
    if q == 2:
        return left ** (j + 2) * ((j**2 + 4 * j + 3) * r**2 + (3 * j + 6) * r + 3) / 3
    cubic = (j**3 + 9 * j**2 + 23 * j + 15) * r**3 + (6 * j**2 + 36 * j + 45) * r**2 + (15 * j + 45) * r + 15
    return left ** (j + 3) * cubic / 15


def bessel(X, Z, order, lengthscale):
    """R&W, section 4.2.1: c (αr)^(−ν) J_ν(αr), c = 2^ν Γ(ν + 1) for k(0) = 1."""
    r = distance(X, Z, lengthscale)
    safe = np.where(r > 0, r, 1.0)
    return np.where(r > 0, gamma_function(order + 1) * (2 / safe) ** order * jv(order, safe), 1.0)


def spectral_mixture(X, Z, weights, means, scales):
    """Wilson & Adams (2013): the inverse Fourier transform of a symmetric mixture of normal densities."""
    tau, total = differences(X, Z), 0.0
    for w, mu, sigma in zip(weights, means, scales, strict=True):
        total = total + w * np.exp(-2 * np.pi**2 * (tau**2 @ np.square(sigma))) * np.cos(2 * np.pi * (tau @ np.asarray(mu)))
    return total


def transform(X, Z, density, highest):
    """R&W, eq. 4.6, by adaptive quadrature over frequencies from 0 to ``highest``, divided by k(0); a product over columns."""
    total = quad(density, 0, highest, epsabs=1e-14, epsrel=1e-14)[0]

    def one(tau):
        return quad(density, 0, highest, weight="cos", wvar=2 * np.pi * tau, epsabs=1e-14, epsrel=1e-14)[0] / total

    return np.prod(np.vectorize(one)(np.abs(differences(X, Z))), axis=2)


def periodised(X, Z, kernel, period):
    """R&W, section 4.2.1: Σ_m k(x + m l), with far more terms than needed; ``kernel`` is a function of x − x'."""
    tau = differences(X, Z)[:, :, 0]
    tau = tau - period * np.round(tau / period)
    return sum(kernel(tau + m * period) for m in range(-200, 201))


def factor_distance(X, Z, loadings, lengthscale):
    """R&W, eqs. 4.22 and 5.2: r with M = ΛΛᵀ + diag(ℓ)⁻²."""
    M = np.asarray(loadings) @ np.asarray(loadings).T + np.diag(np.broadcast_to(lengthscale, X.shape[1:]) ** -2.0)
    delta = differences(X, Z)
    return np.sqrt(np.maximum(np.einsum("nmi,ij,nmj->nm", delta, M, delta), 0))
