"""Non-stationary and structured covariance functions, restated in plain NumPy from the books, without covary.

Each function takes two tables of rows, X (n, d) and Z (m, d), and the parameters, and returns the matrix of k (n, m). The
functions are deliberately simple and slow: loops over pairs, determinants, sums over sets.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.stats import norm

from laws.reference import differences, distance


def _pairs(X, Z, one):
    """Return the matrix of a function of two rows."""
    return np.array([[one(x, z) for z in Z] for x in X])


def _tilde(x, lengthscale, bias):
    return np.concatenate([[np.sqrt(bias)], x / np.broadcast_to(np.asarray(lengthscale, float), x.shape)])


def tanh_network(X, Z, lengthscale, bias, step=0.06, far=8.4):
    """Gibbs eqs. 2.49-2.53: E[tanh(u) tanh(v)] over the bivariate normal, by the trapezoidal rule in the plane."""
    nodes = np.arange(-far, far + step / 2, step)
    weight = norm.pdf(nodes) * step

    def one(x, z):
        a, b = _tilde(x, lengthscale, bias), _tilde(z, lengthscale, bias)
        own, other = np.sqrt(a @ a), np.sqrt(b @ b)
        across = a @ b / own
        left = np.sqrt(max(other**2 - across**2, 0.0))
        inner = np.tanh(across * nodes[:, None] + left * nodes[None, :]) @ weight
        return (weight * np.tanh(own * nodes) * inner).sum()

    return _pairs(X, Z, one)


def arc_cosine(X, Z, order, lengthscale, bias):
    """Cho & Saul (2009), eqs. 3 and 5-7; the angle by Kahan's formula, exact for small angles."""

    def one(x, z):
        a, b = _tilde(x, lengthscale, bias), _tilde(z, lengthscale, bias)
        p, q = np.linalg.norm(a), np.linalg.norm(b)
        t = 2 * np.arctan2(np.linalg.norm(a * q - b * p), np.linalg.norm(a * q + b * p))
        j = (
            np.pi - t,
            np.sin(t) + (np.pi - t) * np.cos(t),
            3 * np.sin(t) * np.cos(t) + (np.pi - t) * (1 + 2 * np.cos(t) ** 2),
        )
        return (p * q) ** order * j[order] / np.pi

    return _pairs(X, Z, one)


def field(X, centres, width, beta):
    """Gibbs eqs. 3.83 and 3.88: exp(Σ_j β_j ψ_j(x)) as (n, d), the same in every column if β is a list."""
    beta, width = np.atleast_2d(beta), np.broadcast_to(np.asarray(width, float), X.shape[1:])
    out = np.zeros((len(X), len(beta)))
    for j, centre in enumerate(centres):
        psi = np.array([np.exp(-0.5 * sum((x[k] - centre[k]) ** 2 / width[k] ** 2 for k in range(len(x)))) for x in X])
        out += psi[:, None] * beta[:, j]
    return np.broadcast_to(np.exp(out), X.shape)


def gibbs(X, Z, scales):
    """Gibbs eq. 3.82 = R&W eq. 4.32, for a function ``scales`` of a table that returns r_l(x) as (n, d)."""
    r, q = scales(X), scales(Z)
    K = np.ones((len(X), len(Z)))
    for k in range(X.shape[1]):
        total = np.add.outer(r[:, k] ** 2, q[:, k] ** 2)
        K *= np.sqrt(2 * np.outer(r[:, k], q[:, k]) / total) * np.exp(-(np.subtract.outer(X[:, k], Z[:, k]) ** 2) / total)
    return K


def paciorek_schervish(X, Z, isotropic, matrices):
    """R&W eqs. 4.33-4.34, for a function of distance and a function of a table that returns Σ(x) as (n, d, d)."""
    S, T = matrices(X), matrices(Z)
    K = np.empty((len(X), len(Z)))
    for i in range(len(X)):
        for j in range(len(Z)):
            delta, both = X[i] - Z[j], S[i] + T[j]
            q = delta @ np.linalg.solve(both / 2, delta)
            front = 2 ** (len(delta) / 2) * (np.linalg.det(S[i]) * np.linalg.det(T[j])) ** 0.25 / np.linalg.det(both) ** 0.5
            K[i, j] = front * isotropic(np.sqrt(q))
    return K


def modulated_squared_exponential(X, Z, width, spread):
    """R&W eq. 4.30 without its constant."""
    width, spread = (np.broadcast_to(np.asarray(v, float), X.shape[1:]) for v in (width, spread))
    local, far = 2 * width**2 + width**4 / spread**2, 2 * spread**2 + width**2

    def one(x, z):
        return np.exp(-(x**2 / (2 * far)).sum() - ((x - z) ** 2 / (2 * local)).sum() - (z**2 / (2 * far)).sum())

    return _pairs(X, Z, one)


def change_point(X, Z, before, after, at, width, column):
    """(1 - s) k₁ (1 - s') + s k₂ s' with the logistic s by a hyperbolic tangent."""
    s, t = (0.5 * (1 + np.tanh((V[:, column] - at) / (2 * width))) for V in (X, Z))
    return np.outer(1 - s, 1 - t) * before(X, Z) + np.outer(s, t) * after(X, Z)


def warp(X, centres, width, beta):
    """Gibbs eqs. 3.86-3.88, one density per column: ∫ Σ_j e^β_j ψ_j by the normal distribution function."""
    centres, beta = (np.broadcast_to(np.atleast_2d(v), (X.shape[1], np.shape(v)[-1])) for v in (centres, beta))
    width = np.broadcast_to(np.asarray(width, float), X.shape[1:])
    columns = [
        sum(
            np.exp(b) * width[k] * np.sqrt(2 * np.pi) * norm.cdf(X[:, k], a, width[k])
            for a, b in zip(centres[k], beta[k], strict=True)
        )
        for k in range(X.shape[1])
    ]
    return np.stack(columns, axis=1)


def brownian_bridge(X, Z):
    """min(x, x') - x x' (R&W, section 2.9)."""
    return np.minimum.outer(X[:, 0], Z[:, 0]) - np.outer(X[:, 0], Z[:, 0])


def fractional_brownian(X, Z, hurst):
    """½(|x|^2H + |x'|^2H - |x - x'|^2H)."""
    own, other = (np.linalg.norm(V, axis=1) ** (2 * hurst) for V in (X, Z))
    return 0.5 * (np.add.outer(own, other) - distance(X, Z, 1.0) ** (2 * hurst))


def invariant(X, Z, inner, group):
    """The average of k(M x, M' x') over all pairs of a group's matrices."""
    return np.mean([inner(X @ np.transpose(M), Z @ np.transpose(N)) for M in group for N in group], axis=0)


def printed_symmetry(X, Z, group, lengthscale):
    """Gibbs eq. 6.37 as printed: exp(-Σ_s |x - M_s x'|²/2r²)."""
    return np.exp(-sum(distance(X, Z @ np.transpose(M), lengthscale) ** 2 for M in group) / 2)


def gaussian_basis(X, Z, centres, width, weight):
    """R&W eq. 4.11: Σ_c s_c φ_c(x) φ_c(x')."""
    weight = np.broadcast_to(np.asarray(weight, float), (len(centres),))
    phi, psi = (np.exp(-(distance(V, np.asarray(centres), width) ** 2) / 2) for V in (X, Z))
    return sum(w * np.outer(a, b) for w, a, b in zip(weight, phi.T, psi.T, strict=True))


def additive(X, Z, one_column, orders, weight):
    """Duvenaud et al. (2011), eq. 7: over all sets of columns; ``one_column(k, x, z)`` is the kernel of column k."""
    each = [one_column(k, X[:, [k]], Z[:, [k]]) for k in range(X.shape[1])]
    return sum(
        w * sum(np.prod([each[k] for k in chosen], axis=0) for chosen in combinations(range(X.shape[1]), order))
        for w, order in zip(weight, orders, strict=True)
    )


def normalised(X, Z, inner):
    """R&W eq. 4.35."""
    return inner(X, Z) / np.sqrt(np.outer(np.diagonal(inner(X, X)), np.diagonal(inner(Z, Z))))


def hamming(X, Z, lengthscale):
    """exp(-Σ over differing columns of 1/ℓ)."""
    return np.exp(-((differences(X, Z) != 0) / np.asarray(lengthscale)).sum(2))


def exchangeable(X, Z, correlation):
    """One on the diagonal, ρ elsewhere, looked up in the matrix of all codes."""
    codes = 1 + int(max(X.max(), Z.max()))
    R = np.full((codes, codes), correlation)
    np.fill_diagonal(R, 1.0)
    return R[np.ix_(X[:, 0].astype(int), Z[:, 0].astype(int))]


def categories(X, Z, factor):
    """L Lᵀ + I scaled to a diagonal of one, looked up."""
    B = np.asarray(factor) @ np.transpose(factor) + np.eye(len(factor))
    R = B / np.sqrt(np.outer(np.diagonal(B), np.diagonal(B)))
    return R[np.ix_(X[:, 0].astype(int), Z[:, 0].astype(int))]


def great_circle(X, Z):
    """The angle between places by Vincenty's formula on the sphere, exact at all distances."""

    def one(x, z):
        (p, a), (q, b) = np.deg2rad(x), np.deg2rad(z)
        east = np.cos(q) * np.sin(b - a)
        north = np.cos(p) * np.sin(q) - np.sin(p) * np.cos(q) * np.cos(b - a)
        return np.arctan2(np.hypot(east, north), np.sin(p) * np.sin(q) + np.cos(p) * np.cos(q) * np.cos(b - a))

    return _pairs(X, Z, one)


def on_sphere(X):
    """Points in space from latitude and longitude."""
    latitude, longitude = np.deg2rad(X).T
    return np.stack([np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)], axis=1)
