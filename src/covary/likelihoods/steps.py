"""Averages over a Gaussian of functions with a much narrower step or bend, such as P(Y ≤ y | f) as a function of f."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from covary._types import ArrayLike
from covary.likelihoods import quadrature

if TYPE_CHECKING:
    from covary.likelihoods.base import AbstractLikelihood

REACH = 8.0  # standard deviations; the mass outside is 1e-15
LEAST = 1e-150  # minimum standard deviation
COARSE, FINE, NODES = 4, 6, 8  # panels on each side of the mean and of a step, and nodes in each


def resolved(
    mean: np.ndarray, variance: np.ndarray, centre: np.ndarray, width: np.ndarray, panels: int = FINE
) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights (n, q) that average over N(mean, variance), dense around ``centre`` where a function changes.

    ``centre`` has one point per row (n,), or several (n, k).

    >>> f, weight = resolved(np.array([0.0]), np.array([1e4]), np.array([50.0]), np.array([1e-3]))
    >>> round(float((weight * (f > 50.0)).sum()), 10)
    0.3085375387
    """
    mean = np.asarray(mean, np.float64)
    sd = np.maximum(np.sqrt(np.asarray(variance, np.float64)), np.maximum(1e-12 * np.abs(mean), LEAST))
    low, high = mean - REACH * sd, mean + REACH * sd
    marks = [quadrature.around(mean, sd, REACH * sd, panels=COARSE)]
    for place in np.reshape(centre, (len(mean), -1)).T:
        middle = np.clip(place, low, high)
        extent = REACH * sd + np.abs(middle - mean)
        marks.append(quadrature.around(middle, np.clip(width, 1e-12 * sd, sd), extent, panels=panels))
    marks = np.concatenate(marks, axis=1)
    f, step = quadrature.fill(np.sort(np.clip(marks, low[:, None], high[:, None]), axis=1), NODES)
    weight = step * np.exp(-0.5 * ((f - mean[:, None]) / sd[:, None]) ** 2)
    return f, weight / weight.sum(1, keepdims=True)


def averaged_cdf(
    likelihood: AbstractLikelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: ArrayLike | None = None
) -> np.ndarray:
    """Return P(Y ≤ y) of new observations, assuming that the step of P(Y ≤ y | f) over f is at the mode of p(y | f)."""
    y = np.asarray(y, np.float64)
    each = None if size is None else np.broadcast_to(np.asarray(size, np.float64), y.shape)
    centre, width = likelihood.peak(y if each is None else np.stack([y, each], axis=1), mean)
    f, weight = resolved(mean, variance, centre, width)
    return average(likelihood.cdf, y, each, f, weight)


def average(
    cdf: Callable[..., np.ndarray], y: np.ndarray, size: np.ndarray | None, f: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Return Σ weight · P(Y ≤ y | f) over nodes f (n, q)."""
    q = f.shape[1]
    found = cdf(np.repeat(y, q), f.ravel(), None if size is None else np.repeat(size, q))
    return (found.reshape(f.shape) * weight).sum(1)
