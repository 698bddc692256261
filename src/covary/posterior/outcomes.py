"""Predictive distributions under likelihoods that are not Gaussian, evaluated at the observations."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr

from covary.data import Inputs
from covary.likelihoods.base import AbstractLikelihood


@dataclass(frozen=True)
class Outcomes:
    """Observations ``y``, their predictive mean and standard deviation, and the probabilities P(Y < y) and P(Y ≤ y).

    The two probabilities are equal unless observations are integers (``whole``). ``likelihood`` is the one at the rows,
    ``latent`` has the mean and variance of the latent functions, and ``size`` the trials or exposures.
    """

    y: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    below: np.ndarray
    upto: np.ndarray
    likelihood: AbstractLikelihood = field(repr=False)
    latent: tuple[np.ndarray, np.ndarray] = field(repr=False)
    size: np.ndarray | None = field(repr=False)

    @property
    def whole(self) -> bool:
        """Whether observations are integers, so that the probability integral transform of each is an interval."""
        return _whole(self.likelihood)

    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Compute the ends of the central 95 % intervals."""
        low, high = (self.likelihood.predictive_quantile(q, *self.latent, self.size) for q in (0.025, 0.975))
        return low, high


def outcomes(likelihood: AbstractLikelihood, X: Inputs, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> Outcomes:
    """Evaluate the predictive distributions of observations.

    Parameters
    ----------
    likelihood
        The likelihood.
    X, y
        The inputs and the observations: (n,), or (n, 2) with trials or exposures.
    mean, variance
        The moments of the latent functions.

    Returns
    -------
    The outcomes; if a predictive distribution has no variance, half the width of its central 68 % stands in for its std.
    """
    y, size = (y[:, 0], y[:, 1]) if y.ndim == 2 else (y, None)
    likelihood = likelihood.at(X)
    moments = likelihood.predictive(mean, variance, size)
    std = np.asarray(np.sqrt(moments.variance), np.float64)
    if not np.isfinite(std).all():
        low, high = (likelihood.predictive_quantile(q, mean, variance, size) for q in (ndtr(-1.0), ndtr(1.0)))
        std = np.where(np.isfinite(std), std, (high - low) / 2)
    upto = likelihood.predictive_cdf(y, mean, variance, size)
    below = upto
    if _whole(likelihood):
        below = np.where(y > 0, likelihood.predictive_cdf(np.maximum(y - 1, 0.0), mean, variance, size), 0.0)
    edges = np.clip(below, 0.0, 1.0), np.clip(upto, 0.0, 1.0)
    return Outcomes(y, np.asarray(moments.mean, np.float64), std, *edges, likelihood, (mean, variance), size)


def _whole(likelihood: AbstractLikelihood) -> bool:
    return likelihood.support in ("counts", "labels")
