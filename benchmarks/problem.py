"""The problems that are measured: a regression table with eight columns, and a monthly series for the CO2 kernel.

.. math:: y = \\sin 2x_1 + x_2^2/2 + x_3 x_4 + x_5/2 + 0.1\\,\\varepsilon,\\qquad x \\sim N(0, I_8)

The model has zero mean, one variance, one length-scale per column, Gaussian noise and no priors. The search starts with all
hyperparameters at one and the noise variance at e⁻².
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

COLUMNS = 8
START_NOISE = float(np.exp(-2.0))


def table(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs (n, 8) and observations (n,)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, COLUMNS))
    signal = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 2 + X[:, 2] * X[:, 3] + X[:, 4] / 2
    return X, signal + 0.1 * rng.standard_normal(n)


def model(variance: float = 1.0, lengthscales: Sequence[float] | None = None, noise: float = START_NOISE) -> Any:
    """Return the model at these hyperparameters."""
    from covary import GP, Model
    from covary.kernels import SquaredExponential
    from covary.likelihoods import Gaussian

    scales = np.ones(COLUMNS) if lengthscales is None else np.asarray(lengthscales, np.float64)
    return Model(GP(variance * SquaredExponential(lengthscale=scales)), likelihood=Gaussian(noise))


def evidence_at(n: int, variance: float, lengthscales: Sequence[float], noise: float) -> float:
    """Return covary's log evidence at the final hyperparameters of a library, so that values can be compared."""
    from covary import Data, log_evidence

    return log_evidence(model(variance, lengthscales, noise), Data(*table(n)))


def series(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return a series like the Mauna Loa record with n rows: trend, season, slow irregularities and noise; x in years."""
    rng = np.random.default_rng(seed)
    t = np.linspace(1958.0, 2004.0, n)
    s = t - 1958.0
    y = -26 + 0.8 * s + 0.012 * s**2 + 2.8 * np.sin(2 * np.pi * t) + 0.7 * np.cos(4 * np.pi * t) + 0.5 * np.sin(1.7 * s)
    return t[:, None], y + 0.25 * rng.standard_normal(n)


def co2_model() -> Any:
    """Return the CO2 kernel of Rasmussen & Williams (2006), eqs. 5.15 to 5.19, at its published values, with a fixed period."""
    from covary import GP, Model
    from covary.kernels import Periodic, RationalQuadratic, SquaredExponential
    from covary.likelihoods import Gaussian
    from covary.parameters import fixed

    trend = 66.0**2 * SquaredExponential(lengthscale=67.0)
    season = 2.4**2 * (SquaredExponential(lengthscale=90.0) * Periodic(lengthscale=1.3, period=fixed(1.0)))
    medium = 0.66**2 * RationalQuadratic(lengthscale=1.2, alpha=0.78)
    short = 0.18**2 * SquaredExponential(lengthscale=1.6 / 12)
    return Model(GP(trend + season + medium + short), likelihood=Gaussian(0.19**2))
