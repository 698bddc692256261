"""The distribution of an observation as a table made from its log density: for likelihoods without closed forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from covary.likelihoods import quadrature

FIRST, MOST = 256, 2**17  # counts in the first table, and in the largest
GRID, WIDEST = 401, 1e8  # places tried in the search for the peak of a density, and how far out they reach


@dataclass(frozen=True)
class Outcomes:
    """Possible observations (n, q) in rising order and the share of the probability that each stands for."""

    y: np.ndarray
    share: np.ndarray
    whole: bool

    @staticmethod
    def of(support: str, f: np.ndarray, log_prob: Callable[[np.ndarray], np.ndarray]) -> Outcomes:
        """The table at latent values (n,), from log p as a function of observations (n, q)."""
        if support == "counts":
            return _counts(len(f), log_prob)
        return _density(support, np.asarray(f, np.float64), log_prob)

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance per row."""
        mean = (self.share * self.y).sum(1)
        return mean, (self.share * (self.y - mean[:, None]) ** 2).sum(1)

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """P(Y ≤ y) per row; between the nodes of a density by interpolation."""
        if self.whole:
            return np.where(self.y <= y[:, None], self.share, 0.0).sum(1)
        total = np.cumsum(self.share, axis=1)
        middle = total - 0.5 * self.share  # a node stands for the mass around it
        return np.array([np.interp(v, at, to, left=0.0, right=1.0) for v, at, to in zip(y, self.y, middle, strict=True)])

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """One draw per row."""
        u = rng.random(len(self.y))
        total = np.cumsum(self.share, axis=1)
        if self.whole:
            at = (total < u[:, None]).sum(1)
            return self.y[np.arange(len(u)), np.minimum(at, self.y.shape[1] - 1)]
        middle = total - 0.5 * self.share
        return np.array([np.interp(v, to, at) for v, at, to in zip(u, self.y, middle, strict=True)])


def _counts(rows: int, log_prob: Callable[[np.ndarray], np.ndarray]) -> Outcomes:
    """0, 1, 2, … until nothing is left."""
    count = FIRST
    while True:
        y = np.broadcast_to(np.arange(count, dtype=np.float64), (rows, count)).copy()
        share = np.exp(log_prob(y))
        if count >= MOST or (share.sum(1) > 1 - 1e-12).all() or (share[:, -1] < 1e-15 * share.max(1)).all():
            return Outcomes(y, share / share.sum(1, keepdims=True), True)
        count *= 8


def _density(support: str, f: np.ndarray, log_prob: Callable[[np.ndarray], np.ndarray]) -> Outcomes:
    """Panels around the highest place, found on a grid over many orders of magnitude around the latent value and zero."""
    far = np.geomspace(1e-6, WIDEST, GRID // 4)
    if support == "positive":
        grid = np.broadcast_to(np.geomspace(1e-12, 1e12, GRID), (len(f), GRID))
    else:
        around = np.concatenate([-far[::-1], [0.0], far])
        grid = np.sort(np.concatenate([np.broadcast_to(around, (len(f), len(around))), f[:, None] + around], axis=1), axis=1)
    value = _finite(log_prob(np.ascontiguousarray(grid)))
    for _ in range(3):  # zoom in on the highest place
        rows = np.arange(len(f))
        best = value.argmax(1)
        left, right = grid[rows, np.maximum(best - 1, 0)], grid[rows, np.minimum(best + 1, grid.shape[1] - 1)]
        finer = left[:, None] + (right - left)[:, None] * np.linspace(0, 1, 65)
        grid, value = finer, _finite(log_prob(finer))
    best = value.argmax(1)
    top, high = grid[rows, best], value[rows, best]
    width = _half_width(top, high, log_prob, support)
    marks = quadrature.around(top, width, WIDEST * width, panels=24)
    if support == "positive":
        marks = np.sort(np.maximum(marks, top[:, None] * 1e-9), axis=1)
    y, weight = quadrature.fill(marks)
    with np.errstate(divide="ignore"):
        terms = np.log(weight) + _finite(log_prob(y))
    share = np.exp(terms - terms.max(1, keepdims=True))
    return Outcomes(y, share / share.sum(1, keepdims=True), False)


def _half_width(top: np.ndarray, high: np.ndarray, log_prob: Callable[[np.ndarray], np.ndarray], support: str) -> np.ndarray:
    """How far from the top the log density falls by one half."""
    tries = np.geomspace(1e-9, WIDEST, 120) * np.maximum(1.0, np.abs(top))[:, None]
    fallen = _finite(log_prob(top[:, None] + tries)) < high[:, None] - 0.5
    return tries[np.arange(len(top)), np.where(fallen.any(1), fallen.argmax(1), tries.shape[1] - 1)]


def _finite(values: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(values), -np.inf, values)
