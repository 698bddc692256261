"""Rows of the table of kernels: the Matérn class, further isotropic kernels, spectra, metrics.

Each row is (name, columns, kernel, its restatement in NumPy, smoothness from the book, whether stationary).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from covary.kernels.isotropic import Bessel, GammaExponential, PiecewisePolynomial, SquaredExponentialMixture
from covary.kernels.matern import Matern, MaternHalfInteger
from covary.kernels.metric import FactorMetric
from covary.kernels.spectral import Periodised, Spectral, SpectralMixture
from covary.kernels.stationary import Matern12, Matern32, Matern52, SquaredExponential
from covary.parameters import fixed
from laws import reference as ref
from laws import reference_stationary as own

INF = np.inf
ELL = np.array([0.6, 1.7, 0.9])
MEANS, SCALES = np.array([[0.3, -0.2, 0.1], [0.9, 0.4, 0.0]]), np.array([[0.2, 0.1, 0.3], [0.05, 0.2, 0.1]])
LOADINGS = np.array([[0.8, -0.2], [-0.5, 0.4], [0.3, 0.9]])
LOW_RANK = np.array([[0.9], [-0.6], [0.4]])


def bump(s: Any, width: Any, centre: Any) -> Any:
    """A spectral density with one peak away from zero, up to a factor."""
    return jnp.exp(-(((s - centre) / width) ** 2) / 2)


def bump_of(s: float) -> float:
    """Return the density at width 0.3 and centre 0.5."""
    return float(np.exp(-(((s - 0.5) / 0.3) ** 2) / 2))


def _spread(d: int) -> list[tuple[str, int, Any, Any, float, bool]]:
    """Kernels with one length-scale, and with one per column if there are several columns."""
    rows: list[tuple[str, Any, Any, float]] = []
    for suffix, ell in (("", 0.8), ("-ard", ELL[:d])) if d > 1 else (("", 0.8),):
        rows += [
            (f"Matern-rough{suffix}", Matern(ell, nu=0.3), lambda X, Z, e=ell: ref.matern(X, Z, 0.3, e), 0),
            (f"Matern-whole{suffix}", Matern(ell, nu=2.0), lambda X, Z, e=ell: ref.matern(X, Z, 2.0, e), 1),
            (f"Matern{suffix}", Matern(ell, nu=2.7), lambda X, Z, e=ell: ref.matern(X, Z, 2.7, e), 2),
            (f"Matern-smooth{suffix}", Matern(ell, nu=13.5), lambda X, Z, e=ell: own.half_integer(X, Z, 13, e), 13),
            (
                f"MaternHalfInteger-0{suffix}",
                MaternHalfInteger(0, lengthscale=ell),
                lambda X, Z, e=ell: ref.matern(X, Z, 0.5, e),
                0,
            ),
            (
                f"MaternHalfInteger-3{suffix}",
                MaternHalfInteger(3, lengthscale=ell),
                lambda X, Z, e=ell: ref.matern(X, Z, 3.5, e),
                3,
            ),
            (
                f"GammaExponential{suffix}",
                GammaExponential(ell, gamma=1.4),
                lambda X, Z, e=ell: own.gamma_exponential(X, Z, 1.4, e),
                0,
            ),
            (
                f"GammaExponential-2{suffix}",
                GammaExponential(ell, gamma=fixed(2.0)),
                lambda X, Z, e=ell: own.gamma_exponential(X, Z, 2.0, e),
                INF,
            ),
            (f"Bessel{suffix}", Bessel(ell / 3, order=0.5), lambda X, Z, e=ell: own.bessel(X, Z, 0.5, e / 3), INF),
            (f"Bessel-2{suffix}", Bessel(ell, order=2.2), lambda X, Z, e=ell: own.bessel(X, Z, 2.2, e), INF),
        ]
        for q in range(4):
            rows.append(
                (
                    f"PiecewisePolynomial-{q}{suffix}",
                    PiecewisePolynomial(q, lengthscale=2.5 * ell),
                    lambda X, Z, e=ell, q=q: own.piecewise_polynomial(X, Z, q, 2.5 * e),
                    q,
                )
            )
        rows.append(
            (
                f"PiecewisePolynomial-columns{suffix}",
                PiecewisePolynomial(1, lengthscale=2.5 * ell, columns=5),
                lambda X, Z, e=ell: own.piecewise_polynomial(X, Z, 1, 2.5 * e, 5),
                1,
            )
        )
    return [(name, d, kernel, same, smoothness, True) for name, kernel, same, smoothness in rows]


def _with_tables(d: int) -> list[tuple[str, int, Any, Any, float, bool]]:
    """Kernels with parameters other than one number or one number per column."""
    scales, weights = np.array([0.4, 1.1, 3.0]), np.array([0.5, 1.2, 0.3])
    per_column = np.array([[0.5, 1.3, 0.8], [2.0, 0.7, 1.5]])[:, :d]
    means, widths, loadings = MEANS[:, :d], SCALES[:, :d], LOADINGS[:d]
    density = Spectral(bump, highest=3.0, nodes=48, parameters={"width": 0.3, "centre": 0.5})
    return [
        (
            "SquaredExponentialMixture",
            d,
            SquaredExponentialMixture(scales, weights=weights),
            lambda X, Z: own.mixture(X, Z, scales, weights),
            INF,
            True,
        ),
        (
            "SquaredExponentialMixture-ard",
            d,
            SquaredExponentialMixture(per_column, weights=weights[:2]),
            lambda X, Z: own.mixture(X, Z, per_column, weights[:2]),
            INF,
            True,
        ),
        (
            "SpectralMixture",
            d,
            SpectralMixture([0.7, 1.6], means=means, scales=widths),
            lambda X, Z: own.spectral_mixture(X, Z, [0.7, 1.6], means, widths),
            INF,
            True,
        ),
        ("Spectral", d, density, lambda X, Z: own.transform(X, Z, bump_of, 3.0), INF, True),
        (
            "FactorMetric",
            d,
            FactorMetric(Matern52(), loadings=loadings, lengthscale=1.3),
            lambda X, Z: matern52(own.factor_distance(X, Z, loadings, 1.3)),
            2,
            True,
        ),
        (
            "FactorMetric-ard",
            d,
            FactorMetric(Matern12(), loadings=LOW_RANK[:d], lengthscale=ELL[:d]),
            lambda X, Z: np.exp(-own.factor_distance(X, Z, LOW_RANK[:d], ELL[:d])),
            0,
            True,
        ),
        (
            "FactorMetric-low-rank",
            d,
            FactorMetric(SquaredExponential(), loadings=LOW_RANK[:d], lengthscale=fixed(INF)),
            lambda X, Z: np.exp(-(own.factor_distance(X, Z, LOW_RANK[:d], INF) ** 2) / 2),
            INF,
            True,
        ),
    ]


def matern52(r: np.ndarray) -> np.ndarray:
    """R&W, eq. 4.17, as a function of the distance."""
    return (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r)


def matern32(r: np.ndarray) -> np.ndarray:
    """R&W, eq. 4.17, as a function of the distance."""
    return (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r)


ONE_COLUMN = [
    (
        "SpectralMixture-flat",
        1,
        SpectralMixture([0.7, 1.6], means=[0.3, 0.9], scales=[0.2, 0.05]),
        lambda X, Z: own.spectral_mixture(X, Z, [0.7, 1.6], [[0.3], [0.9]], [[0.2], [0.05]]),
        INF,
        True,
    ),
    (
        "Periodised",
        1,
        Periodised(SquaredExponential(0.6), period=1.3),
        lambda X, Z: own.periodised(X, Z, lambda t: np.exp(-(t**2) / 0.72), 1.3),
        INF,
        True,
    ),
    (
        "Periodised-rough",
        1,
        Periodised(1.5 * Matern12(0.4) + Matern32(0.3), period=1.7, terms=12),
        lambda X, Z: own.periodised(X, Z, lambda t: 1.5 * np.exp(-np.abs(t) / 0.4) + matern32(np.abs(t) / 0.3), 1.7),
        0,
        True,
    ),
]

ROWS = [*_spread(1), *_spread(3), *_with_tables(1), *_with_tables(3), *ONE_COLUMN]
