r"""One-dimensional integrals of a likelihood times a Gaussian, per row, to nearly machine precision.

Panels of Gauss–Legendre nodes grow geometrically from the mode of the integrand, so that a fixed number of nodes resolves both
a spike a thousand times narrower than the Gaussian and a tail a thousand times longer than the spike.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

PANELS, NODES = 8, 10  # per side of a mode; nodes in each
REACH = 9.0  # standard deviations beyond which a Gaussian is negligible in double precision
CHUNK = 2**20  # integrand values in memory at a time


@cache
def legendre(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Gauss–Legendre nodes and weights on (0, 1)."""
    x, w = np.polynomial.legendre.leggauss(count)
    return (x + 1) / 2, w / 2


@cache
def hermite(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Gauss–Hermite nodes and weights that average over a standard normal variable."""
    x, w = np.polynomial.hermite_e.hermegauss(count)
    return x, w / w.sum()


def edges(width: np.ndarray, extent: np.ndarray, count: int = PANELS) -> np.ndarray:
    """Return 0 = e₀ < … < e_count = extent with steps growing by a constant ratio, the first near ``width``: (n, count + 1).

    >>> edges(np.array([1.0]), np.array([7.0]), 3).round(6).tolist()
    [[0.0, 1.0, 3.0, 7.0]]
    """
    goal = np.maximum(extent / width, count)
    low, high = np.zeros_like(goal), np.log(goal)  # bounds of the log ratio; at ratio `goal` the steps are too long
    for _ in range(60):
        middle = (low + high) / 2
        with np.errstate(over="ignore"):
            long = _length(middle, count) > goal
        low, high = np.where(long, low, middle), np.where(long, middle, high)
    steps = np.cumsum(np.exp(low[:, None] * np.arange(count)), axis=1)
    return np.concatenate([np.zeros((len(goal), 1)), steps / steps[:, -1:]], axis=1) * extent[:, None]


def _length(log_ratio: np.ndarray, count: int) -> np.ndarray:
    return np.exp(np.minimum(log_ratio[:, None] * np.arange(count), 700.0)).sum(1)


def fill(marks: np.ndarray, nodes: int = NODES) -> tuple[np.ndarray, np.ndarray]:
    """Return Gauss–Legendre nodes and weights on the panels between sorted marks (n, k): two arrays (n, (k − 1)·nodes)."""
    x, w = legendre(nodes)
    step = np.diff(marks, axis=1)[:, :, None]
    shape = (len(marks), -1)
    return (marks[:, :-1, None] + step * x).reshape(shape), (step * w).reshape(shape)


def around(centre: np.ndarray, width: np.ndarray, extent: np.ndarray, *, panels: int = PANELS) -> np.ndarray:
    """Return sorted marks on both sides of a centre: (n, 2·panels + 1)."""
    side = edges(width, extent, panels)
    return centre[:, None] + np.concatenate([-side[:, :0:-1], side], axis=1)


def climb(
    slopes: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]],
    start: np.ndarray,
    size: np.ndarray,
    steps: int = 25,
) -> tuple[np.ndarray, np.ndarray]:
    """Maximise one nearly concave function per row by safeguarded Newton steps; return the maximum and its curvature (> 0).

    ``slopes`` returns value, first and second derivative per row; ``size`` is the step length where the curvature is not
    positive. An approximate maximum is sufficient, since it is only used to place the nodes.
    """
    x = np.array(start, np.float64)
    value, slope, curve = slopes(x)
    length, before, worse = np.ones_like(x), np.zeros_like(x), np.zeros(x.shape, bool)
    with np.errstate(all="ignore"):
        for _ in range(steps):
            down = np.maximum(-curve, 1e-300)
            step = slope / down
            reach = np.maximum(size, np.abs(x - start))
            step = np.where(-curve > 0, np.clip(step, -100 * reach, 100 * reach), np.sign(slope) * reach)
            if np.all(np.abs(step) < 1e-3 / np.sqrt(down)):
                break
            slow = (step * before > 0) & (np.abs(step) > 0.3 * np.abs(before))  # an exponential tail: take longer steps
            length, before = np.where(slow, 2 * np.maximum(length, 0.5), 1.0), step
            for _ in range(40):
                trial = slopes(x + length * step)
                worse = ~(trial[0] >= value - 1e-12 * np.abs(value))
                if not worse.any():
                    break
                length = np.where(worse, length / 2, length)
            x = np.where(worse, x, x + length * step)
            value, slope, curve = slopes(x)
    return x, np.maximum(-curve, 1e-300)


def crossing(function: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the root of one increasing function per row in a bracket, by Chandrupatla's method (1997).

    >>> crossing(lambda x: x**3 - np.array([8.0, 27.0]), np.zeros(2), np.full(2, 10.0)).round(9)
    array([2., 3.])
    """
    b, a = np.array(low, np.float64), np.array(high, np.float64)
    fb, fa = function(b), function(a)
    c, fc = a.copy(), fa.copy()
    share = np.full_like(a, 0.5)
    for _ in range(100):
        x = a + share * (b - a)
        fx = function(x)
        same = np.sign(fx) == np.sign(fa)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = x, fx
        best = np.where(np.abs(fa) < np.abs(fb), a, b)
        rest = (1e-13 * np.abs(best) + 1e-300) / np.maximum(np.abs(b - a), 1e-300)
        if ((rest > 0.5) | (fa == 0)).all():
            break
        with np.errstate(all="ignore"):
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            curved = (fa / (fb - fa)) * (fc / (fb - fc)) + ((c - a) / (b - a)) * (fa / (fc - fa)) * (fb / (fc - fb))
        quick = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        share = np.clip(np.where(quick, curved, 0.5), np.minimum(rest, 0.5), 1 - np.minimum(rest, 0.5))
        share = np.where(np.isfinite(share), share, 0.5)
    return np.where(np.abs(fa) < np.abs(fb), a, b)
