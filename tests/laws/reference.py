"""Covariance functions restated in plain NumPy from Rasmussen & Williams (2006), chapter 4, without covary.

Each function takes two tables of rows, X (n, d) and Z (m, d), and the parameters, and returns the matrix of k (n, m),
computed from differences of single rows. The functions are deliberately simple and slow.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gamma, kv


def differences(X, Z):
    """Return all differences x - z, of shape (n, m, d)."""
    return X[:, None, :] - Z[None, :, :]


def distance(X, Z, lengthscale):
    """r with r² = (x - z)ᵀ M (x - z), M = diag(lengthscale)⁻² (section 4.2.1, eq. 4.22; eq. 5.2)."""
    M = np.diag(np.broadcast_to(np.asarray(lengthscale, float), X.shape[1:]) ** -2.0)
    delta = differences(X, Z)
    return np.sqrt(np.einsum("nmi,ij,nmj->nm", delta, M, delta))


def constant(X, Z):
    """Table 4.1 with σ₀² = 1."""
    return np.ones((len(X), len(Z)))


def linear(X, Z, lengthscale):
    """Table 4.1: Σ_d σ_d² x_d x'_d with σ_d = 1/ℓ_d."""
    variance = np.broadcast_to(np.asarray(lengthscale, float), X.shape[1:]) ** -2.0
    return np.einsum("ni,i,mi->nm", X, variance, Z)


def polynomial(X, Z, degree, bias, lengthscale):
    """Section 4.2.2: (σ₀² + xᵀ Σ_p x')^p."""
    return (bias + linear(X, Z, lengthscale)) ** degree


def squared_exponential(X, Z, lengthscale):
    """Eq. 4.9."""
    return np.exp(-(distance(X, Z, lengthscale) ** 2) / 2)


def matern(X, Z, nu, lengthscale):
    """Eq. 4.14, with the modified Bessel function, for any ν; the limit 1 at r = 0."""
    t = np.sqrt(2 * nu) * distance(X, Z, lengthscale)
    safe = np.where(t > 0, t, 1.0)
    return np.where(t > 0, 2 ** (1 - nu) / gamma(nu) * safe**nu * kv(nu, safe), 1.0)


def rational_quadratic(X, Z, alpha, lengthscale):
    """Eq. 4.19."""
    return (1 + distance(X, Z, lengthscale) ** 2 / (2 * alpha)) ** -alpha


def periodic(X, Z, lengthscale, period):
    """Eq. 4.31 for every column, with the period of eq. 5.16 made explicit."""
    return np.exp(-(2 * np.sin(np.pi * differences(X, Z) / period) ** 2 / np.asarray(lengthscale) ** 2).sum(2))


def cosine(X, Z, period):
    """Eq. 4.5 with all the spectral mass at the frequency 1/period."""
    return np.cos(2 * np.pi * (differences(X, Z) / period).sum(2))


def neural_network(X, Z, lengthscale, bias):
    """Eq. 4.29 with Σ = diag(σ₀², ℓ⁻²)."""
    sigma = np.diag([bias, *np.broadcast_to(np.asarray(lengthscale, float), X.shape[1:]) ** -2.0])
    A, B = (np.column_stack([np.ones(len(rows)), rows]) for rows in (X, Z))
    own_a, own_b = (np.einsum("ni,ij,nj->n", rows, sigma, rows) for rows in (A, B))
    return 2 / np.pi * np.arcsin(2 * A @ sigma @ B.T / np.sqrt(np.outer(1 + 2 * own_a, 1 + 2 * own_b)))


def wiener(X, Z):
    """Section 4.2.3: min(x, x')."""
    return np.minimum.outer(X[:, 0], Z[:, 0])


def integrated_wiener(X, Z):
    """Eq. 6.28: the covariance of ∫₀ˣ w(u) du, ∫∫ min(u, v) du dv, in closed form."""
    small, large = np.minimum.outer(X[:, 0], Z[:, 0]), np.maximum.outer(X[:, 0], Z[:, 0])
    return small**2 * (3 * large - small) / 6


def laplacian(X, Z, scale):
    """exp(-|x - z|₁ / scale): a product of exponential kernels, one per column (sections 4.2.1 and 4.2.4)."""
    return np.exp(-np.abs(differences(X, Z)).sum(2) / scale)
