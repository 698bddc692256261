"""Averages over four or more classes: as accurate as along principal axes, also for singular covariances."""

from __future__ import annotations

import numpy as np
from scipy import special

from covary.export import rules
from covary.likelihoods import Softmax
from covary.likelihoods.softmax import _spread
from covary.likelihoods.triangle import triangle


def latents(classes: int, scale: float, rows: int = 16) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(classes)
    A = rng.normal(size=(rows, classes, classes))
    own = rng.uniform(0.2, 1.8, (rows, 1, classes)) * np.eye(classes)
    return np.sqrt(scale) * rng.normal(size=(rows, classes)), scale * (0.3 * A @ A.transpose(0, 2, 1) / classes + 0.7 * own)


def by_sampling(mean: np.ndarray, variance: np.ndarray, count: int = 8192) -> np.ndarray:
    """Another rule: all C functions, their own roots, many more quasi-random points with other scrambles."""
    from scipy.stats import qmc

    out = np.zeros_like(mean)
    roots = np.linalg.cholesky(variance)
    for seed in range(50, 54):
        z = special.ndtri(qmc.Sobol(mean.shape[1], scramble=True, rng=seed).random(count))
        for sign in (1, -1):
            f = mean[:, None] + sign * np.einsum("ncd,sd->nsc", roots, z)
            out += special.softmax(f, axis=2).mean(1) / 8
    return out


def along_axes(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The same points along the principal axes of the differences."""
    C = mean.shape[1]
    T = np.eye(C)[:-1] - np.eye(C)[-1]
    values, vectors = np.linalg.eigh(T @ variance @ T.T)
    f = (mean @ T.T)[:, None] + np.einsum("ncd,sd->nsc", vectors * np.sqrt(values)[:, None], _spread(C - 1)[0])
    return special.softmax(np.concatenate([f, np.zeros((*f.shape[:2], 1))], axis=2), axis=2).mean(1)


def test_averages_are_as_accurate_as_along_principal_axes() -> None:
    """Typical errors of the same points along either, over classes and sizes; which is ahead varies from case to case."""
    ratios = []
    for classes, scale, most in (
        (4, 1.0, 1e-4),
        (4, 10.0, 5e-4),
        (6, 1.0, 2e-4),
        (6, 10.0, 1e-3),
        (9, 1.0, 2e-4),
        (9, 10.0, 2e-3),
    ):
        mean, variance = latents(classes, scale)
        exact = by_sampling(mean, variance)
        found, other = Softmax(classes).probabilities(mean, variance), along_axes(mean, variance)
        np.testing.assert_allclose(found.sum(1), 1.0, atol=1e-12)
        error, others = (float(np.sqrt(np.square(p - exact).mean())) for p in (found, other))
        assert error < most
        ratios.append(error / others)
    assert np.exp(np.log(ratios).mean()) < 1.0
    assert max(ratios) < 1.4


def test_triangles_are_roots_also_of_singular_covariances() -> None:
    _, variance = latents(6, 3.0)
    np.testing.assert_allclose(triangle(variance), np.linalg.cholesky(variance), atol=1e-12)
    A = np.random.default_rng(0).normal(size=(5, 6, 2))
    A[0] = 0.0
    A[1, 0] = 0.0
    flat = A @ A.transpose(0, 2, 1)
    L = triangle(flat)
    np.testing.assert_allclose(L @ L.transpose(0, 2, 1), flat, atol=1e-9)
    assert (np.triu(L, 1) == 0).all()
    assert np.isfinite(L).all()
    np.testing.assert_array_equal(L, rules.triangle(flat))


def test_no_spread_is_the_probability_itself() -> None:
    mean, _ = latents(5, 4.0)
    np.testing.assert_allclose(Softmax(5).probabilities(mean, np.zeros((16, 5, 5))), special.softmax(mean, axis=1), atol=1e-12)


def test_the_exported_rule_is_the_model_s() -> None:
    mean, variance = latents(6, 10.0, 150)
    points = _spread(5)[0]
    found = rules.softmax_of_many(mean, variance, points[: len(points) // 2])
    np.testing.assert_allclose(found, Softmax(6).probabilities(mean, variance), atol=1e-13)
    np.testing.assert_array_equal(points[: len(points) // 2], -points[len(points) // 2 :])
