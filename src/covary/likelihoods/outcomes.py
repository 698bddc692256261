"""Distributions of observations tabulated from their log density, for likelihoods without closed forms.

Densities are tabulated on panels around their mode (for positive observations, as functions of the logarithm). Counts are
tabulated individually up to 255, and above that as a density, since their probabilities then change slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from covary.likelihoods import quadrature

FIRST = 256  # counts that are tabulated individually
WIDEST = 1e8  # extent of the panels in widths, and of the search for the mode around the latent value and zero
SIDE = 24  # panels on either side of the peak
LOGS = 700.0  # bound on |log y| for positive observations

LogProb = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Panels:
    """Density per row: panels between marks (n, k + 1), and the nodes in them with the mass of each (n, k, q)."""

    marks: np.ndarray
    at: np.ndarray
    mass: np.ndarray

    def below(self, x: np.ndarray) -> np.ndarray:
        """Return the mass to the left of x per row: complete panels plus the integrated polynomial within one."""
        k = np.clip((self.marks <= x[:, None]).sum(1) - 1, 0, self.mass.shape[1] - 1)
        rows = np.arange(len(x))
        left, right = self.marks[rows, k], self.marks[rows, k + 1]
        t = np.clip((x - left) / np.maximum(right - left, 1e-300), 0.0, 1.0)
        return self._before()[rows, k] + _part(t, self.mass[rows, k])

    def place(self, mass: np.ndarray) -> np.ndarray:
        """Return x for a given mass to its left, the inverse of :meth:`below`, by bisection."""
        before, rows = self._before(), np.arange(len(mass))
        k = np.clip((before[:, 1:] < mass[:, None]).sum(1), 0, self.mass.shape[1] - 1)
        inside, goal = self.mass[rows, k], mass - before[rows, k]
        low, high = np.zeros_like(goal), np.ones_like(goal)
        for _ in range(40):
            t = (low + high) / 2
            short = _part(t, inside) < goal
            low, high = np.where(short, t, low), np.where(short, high, t)
        left, right = self.marks[rows, k], self.marks[rows, k + 1]
        return left + (right - left) * (low + high) / 2

    def _before(self) -> np.ndarray:
        total = np.cumsum(self.mass.sum(2), axis=1)
        return np.concatenate([np.zeros((len(total), 1)), total], axis=1)


def _part(t: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Return the mass on the first fraction t of a panel from masses (n, q) at its nodes, by Legendre polynomials."""
    q = mass.shape[1]
    nodes, order = quadrature.legendre(q)[0], 2 * np.arange(q) + 1
    high = np.polynomial.legendre.legvander(2 * t - 1, q)
    integral = np.concatenate([t[:, None], (high[:, 2:] - high[:, :-2]) / (2 * order[1:])], axis=1)
    basis = (integral * order) @ np.polynomial.legendre.legvander(2 * nodes - 1, q - 1).T
    return np.clip((basis * mass).sum(1), 0.0, mass.sum(1))


@dataclass(frozen=True)
class Outcomes:
    """Probabilities of the counts 0, 1, … (n, 256), if any, and panels for larger counts or for continuous y."""

    support: str
    shares: np.ndarray
    panels: Panels | None

    @staticmethod
    def of(support: str, f: np.ndarray, log_prob: LogProb) -> Outcomes:
        """Tabulate the distribution at latent values (n,), given log p as a function of observations (n, q)."""
        f = np.asarray(f, np.float64)
        if support == "counts":
            return _counts(f, log_prob)
        panels = _positive(f, log_prob) if support == "positive" else _real(f, log_prob)
        total = panels.mass.sum((1, 2))
        return Outcomes(support, np.zeros((len(f), 0)), _scaled(panels, 1 / total))

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and variance per row."""
        n, count = self.shares.shape
        y, share = np.broadcast_to(np.arange(count, dtype=np.float64), (n, count)), self.shares
        if self.panels is not None:
            at = np.exp(self.panels.at) if self.support == "positive" else self.panels.at
            y = np.concatenate([y, at.reshape(n, -1)], axis=1)
            share = np.concatenate([share, self.panels.mass.reshape(n, -1)], axis=1)
        y = np.where(share > 0, y, 0.0)
        mean = (share * y).sum(1)
        return mean, (share * (y - mean[:, None]) ** 2).sum(1)

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """Return P(Y ≤ y) per row."""
        y = np.asarray(y, np.float64)
        if self.support == "positive":
            return np.where(y > 0, self._beyond(np.log(np.maximum(y, 1e-300))), 0.0)
        if self.support == "real":
            return self._beyond(y)
        k = np.floor(y)
        some = np.where(np.arange(self.shares.shape[1]) <= k[:, None], self.shares, 0.0).sum(1)
        return some + np.where(k >= self.shares.shape[1], self._beyond(k + 0.5), 0.0)

    def _beyond(self, x: np.ndarray) -> np.ndarray:
        return np.zeros_like(x) if self.panels is None else self.panels.below(x)

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """Draw one observation per row."""
        u = rng.random(len(self.shares))
        if self.support != "counts":
            assert self.panels is not None
            x = self.panels.place(u)
            return np.exp(x) if self.support == "positive" else x
        total = np.cumsum(self.shares, axis=1)
        few = np.minimum((total < u[:, None]).sum(1), total.shape[1] - 1).astype(np.float64)
        if self.panels is None:
            return few
        return np.where(u < total[:, -1], few, np.round(self.panels.place(u - total[:, -1])))


def _counts(f: np.ndarray, log_prob: LogProb) -> Outcomes:
    """Tabulate the counts 0, 1, 2, … individually and, if needed, panels from 255.5 on."""
    first = np.broadcast_to(np.arange(FIRST, dtype=np.float64), (len(f), FIRST)).copy()
    share = np.exp(_finite(log_prob(first)))
    if (share.sum(1) > 1 - 1e-12).all():
        return Outcomes("counts", share / share.sum(1, keepdims=True), None)
    grid = np.broadcast_to(np.geomspace(FIRST, 1e15, 400), (len(f), 400))
    panels = _around(grid, log_prob, FIRST - 0.5, np.inf, relative=True)
    scale = 1 / (share.sum(1) + panels.mass.sum((1, 2)))
    return Outcomes("counts", share * scale[:, None], _scaled(panels, scale))


def _real(f: np.ndarray, log_prob: LogProb) -> Panels:
    far = np.geomspace(1e-6, WIDEST, 100)
    around = np.concatenate([-far[::-1], [0.0], far])
    both = [np.broadcast_to(around, (len(f), len(around))), f[:, None] + around]
    return _around(np.sort(np.concatenate(both, axis=1), axis=1), log_prob, -np.inf, np.inf, relative=True)


def _positive(f: np.ndarray, log_prob: LogProb) -> Panels:
    steps = np.linspace(-40.0, 40.0, 161)
    both = [np.broadcast_to(steps, (len(f), len(steps))), np.clip(f, -600, 600)[:, None] + steps]
    grid = np.sort(np.concatenate(both, axis=1), axis=1)
    return _around(grid, lambda x: log_prob(np.exp(x)) + x, -LOGS, LOGS, relative=False)


def _around(grid: np.ndarray, log_prob: LogProb, low: float, high: float, *, relative: bool) -> Panels:
    """Return panels around the mode of a density, which is found on successively finer grids."""
    rows = np.arange(len(grid))
    value = _finite(log_prob(np.ascontiguousarray(grid)))
    for _ in range(3):
        best = value.argmax(1)
        left, right = grid[rows, np.maximum(best - 1, 0)], grid[rows, np.minimum(best + 1, grid.shape[1] - 1)]
        grid = left[:, None] + (right - left)[:, None] * np.linspace(0, 1, 65)
        value = _finite(log_prob(grid))
    best = value.argmax(1)
    top, peak = grid[rows, best], value[rows, best]
    tries = (
        np.geomspace(1e-9, 1e8 if relative else 1e2, 120)
        * (np.maximum(1.0, np.abs(top)) if relative else np.ones(len(top)))[:, None]
    )
    fallen = np.ones_like(tries, dtype=bool)
    for side in (-1, 1):  # distance at which the log density has fallen by one half, on its slower side
        at = top[:, None] + side * tries
        inside = (at > low) & (at < high)
        drop = _finite(log_prob(np.where(inside, at, top[:, None]))) < peak[:, None] - 0.5
        fallen &= np.where(inside, drop, True)
    width = tries[rows, np.where(fallen.any(1), fallen.argmax(1), tries.shape[1] - 1)]
    marks = np.clip(quadrature.around(top, width, WIDEST * width, panels=SIDE), low, high)
    at, weight = quadrature.fill(marks)
    with np.errstate(divide="ignore"):
        mass = np.exp(np.log(weight) + _finite(log_prob(at)))
    shape = (len(marks), 2 * SIDE, -1)
    return Panels(marks, at.reshape(shape), mass.reshape(shape))


def _scaled(panels: Panels, scale: np.ndarray) -> Panels:
    return Panels(panels.marks, panels.at, panels.mass * scale[:, None, None])


def _finite(values: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(values), -np.inf, values)
