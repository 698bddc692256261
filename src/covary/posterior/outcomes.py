"""Predictive distributions under likelihoods that are not Gaussian, evaluated at the observations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from covary.likelihoods.base import AbstractLikelihood


class Outcomes(NamedTuple):
    """The predictive mean and standard deviation of every observation, and the probabilities P(Y < y) and P(Y ≤ y).

    The two probabilities are equal unless observations are integers.
    """

    mean: np.ndarray
    std: np.ndarray
    below: np.ndarray
    upto: np.ndarray


def outcomes(
    likelihood: AbstractLikelihood, y: np.ndarray, size: np.ndarray | None, mean: np.ndarray, variance: np.ndarray
) -> Outcomes:
    """Evaluate the predictive distributions of observations.

    Parameters
    ----------
    likelihood
        The likelihood at the rows of the observations.
    y, size
        The observations, and their trials or exposures.
    mean, variance
        The moments of the latent functions.

    Returns
    -------
    The outcomes; if a predictive distribution has no variance, half the width of its central 68 % stands in for its std.
    """
    moments = likelihood.predictive(mean, variance, size)
    std = np.asarray(np.sqrt(moments.variance), np.float64)
    if not np.isfinite(std).all():
        low, high = (likelihood.predictive_quantile(q, mean, variance, size) for q in (ndtr(-1.0), ndtr(1.0)))
        std = np.where(np.isfinite(std), std, (high - low) / 2)
    upto = likelihood.predictive_cdf(y, mean, variance, size)
    below = upto
    if likelihood.support in ("counts", "labels"):
        below = np.where(y > 0, likelihood.predictive_cdf(np.maximum(y - 1, 0.0), mean, variance, size), 0.0)
    return Outcomes(np.asarray(moments.mean, np.float64), std, np.clip(below, 0.0, 1.0), np.clip(upto, 0.0, 1.0))
