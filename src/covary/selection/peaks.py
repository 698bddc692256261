"""Starting points of a search, the comparison of its end points by posterior mass, and the refinement up to all rows.

Each level passes its position and its Hessian to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from covary.model import Model
from covary.optimise.base import Clock, Function, Result, over
from covary.optimise.lbfgs import lbfgs
from covary.optimise.quasi_newton import quasi_newton
from covary.parameters import POSITIVE, Packing
from covary.selection.objectives import difference_hessian
from covary.selection.priors import Priors

GAIN = 0.01  # nats: stop when a step would gain less
ROUGH = 0.2  # nats: tolerance on the gain of a step while several starts are compared
NOISY, CRISP = 2.7, -3.0  # nats: changes of the noise for a start with more of it (75 % of var(y)), and for one with less
APART = 0.3  # distance in unconstrained units beyond which two end points are considered different
NEAR = 30.0  # nats: end points this close to the highest may still have more posterior mass
MORE = 0.5  # nats: additional log mass required to be preferred to the highest end point, since Laplace's method is approximate
VALLEY = 0.2  # nats: drop of the objective half way between two end points that makes them separate peaks
LEAST = 0.05  # minimum curvature: that of a prior with a standard deviation of 4.5 nats
MANY = 60  # number of parameters beyond which a coarse Hessian, one evaluation each, costs more than it saves
HOPELESS = 20.0  # nats: an initial model this far below the best on few rows is not tried again on all rows


def further_starts(
    theta0: np.ndarray, centre: np.ndarray, packing: Packing[Model], count: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Return further starts: at the scales of the data; with mostly noise; with little noise; then draws around the scales.

    Noise and signal explain the same scatter in different ways, and the evidence often has a peak for each.
    """
    planned = [centre]
    for change in (NOISY, CRISP):
        other = centre.copy()
        for slot in packing.slots:
            if slot.paths[0] == "likelihood.variance" and slot.space is POSITIVE:
                other[slot.start : slot.stop] += change
        planned.append(other)
    planned = [p for p in planned if not np.allclose(p, theta0)][:count]
    return planned + [centre + rng.normal(0.0, 1.5, packing.size) for _ in range(count - len(planned))]


@dataclass(frozen=True)
class Peak:
    """An end point of a search, with the Hessian and its log determinant if they were computed."""

    end: Result
    H: np.ndarray | None = None
    log_det: float = 0.0

    def mass(self) -> float:
        r"""Return the log posterior mass around the peak by Laplace's method: its height times :math:`|H|^{-1/2}`."""
        return -self.end.value - 0.5 * self.log_det


def weigh(
    results: list[Result], function: Function, priors: Priors, packing: Packing[Model], deadline: Clock | None
) -> list[Peak]:
    r"""Return the distinct peaks among the end points of several searches, the preferred one first (R&W, eq. 5.6; MacKay).

    A narrow peak may be slightly higher than a broad one but hold far less of the posterior mass, which is the height times
    :math:`|H|^{-1/2}`. Another peak is preferred to the highest only if it holds more mass. Without proper priors on all
    positive parameters, the mass is undefined and only the highest peak is returned. Of end points that a rough search cannot
    distinguish, the first is used, so that random starts do not determine where the fine search begins.
    """
    lowest = min(results, key=lambda r: r.value)
    best = next(r for r in results if r is lowest or (r.value < lowest.value + ROUGH and np.abs(r.x - lowest.x).max() < APART))
    covered = all(priors.of(slot) is not None for slot in packing.slots if slot.space is POSITIVE)
    rest = [r for r in sorted(results, key=lambda r: r.value) if r is not best and r.value < best.value + NEAR]
    if not covered or not rest or over(deadline):
        return [Peak(best)]
    apart: list[Result] = [best]
    for r in rest:
        if not any(_one_peak(r, other, function) for other in apart):
            apart.append(r)
    if len(apart) == 1:
        return [Peak(best)]
    peaks = []
    for r in apart:
        H = difference_hessian(function, r.x, r.gradient, step=1e-2)
        peaks.append(Peak(r, H, float(np.log(np.maximum(np.linalg.eigvalsh(H), LEAST)).sum())))
    highest = peaks[0].mass()
    return sorted(peaks, key=lambda p: -p.mass() - (MORE if p.mass() == highest else 0.0))


def joins(x: np.ndarray, value: float, known: Sequence[Result]) -> bool:
    """Return whether a search has come close to a known end point, and not above it."""
    return any(value < r.value + 1.0 and np.abs(x - r.x).max() < APART for r in known)


def _one_peak(a: Result, b: Result, function: Function) -> bool:
    """Return whether two end points belong to the same peak: close together, or without a valley half way."""
    if np.abs(a.x - b.x).max() < APART:
        return True
    return function((a.x + b.x) / 2)[0] <= max(a.value, b.value) + VALLEY


def most_promising(peaks: list[Peak], growth: float, function: Function, note: Callable[[float], None]) -> Peak:
    """Return the peak with the best prediction on more rows: its height there plus the gain of a Newton step.

    The highest peak may change with more rows, so each is evaluated once before one is refined.
    """

    def promise(peak: Peak) -> float:
        assert peak.H is not None
        value, gradient = function(peak.end.x)
        note(value)
        if not np.isfinite(value):
            return -np.inf
        curvatures, directions = np.linalg.eigh(peak.H * growth)
        gain = 0.5 * ((directions.T @ gradient) ** 2 / np.maximum(curvatures, LEAST)).sum()
        return -value + gain - 0.5 * peak.log_det

    promises = [promise(peak) for peak in peaks]
    return peaks[int(np.argmax(promises))]


class Level(NamedTuple):
    """The function to minimise on a level, and the callback for each of its values."""

    function: Function
    note: Callable[[float], None]


class Rung(NamedTuple):
    """A level between few rows and all: its index and its number of rows. Two levels may have equally many rows."""

    number: int
    rows: int


def _same_kind(rung: Rung, theta: np.ndarray) -> np.ndarray | None:
    return None


def _no_time(rung: Rung) -> float:
    return 0.0


@dataclass(frozen=True)
class Route:
    """The levels of a search, from coarse to fine, and its operations on each.

    Parameters
    ----------
    sizes
        The rows of every level, from coarse to fine.
    on
        The objective on a level.
    height
        The objective on a level without its gradient, ``height(rung, theta)``.
    gain
        The tolerance on the gain of a step on a level.
    start
        The initial model as a vector; the result is never worse.
    lower, upper
        The box.
    clock
        The clock that limits the search.
    arrive
        ``arrive(rung, theta)`` returns the starting point on a level whose evidence is of a different kind from the level
        below, so that the Hessian does not apply; None if it is of the same kind.
    need
        The estimated seconds per evaluation on a level.
    thinned
        Whether a coarse level is a thinned sum that already estimates the full one (and was recomputed after the peaks were
        found), so that its Hessian is not scaled by the number of rows.
    plain_below
        How far the initial model is below the best point on the coarsest level. If very far, the initial model is not tried
        on more rows, which would only increase the difference.
    """

    sizes: tuple[int, ...]
    on: Callable[[Rung], Level]
    height: Callable[[Rung, np.ndarray], float]
    gain: Callable[[Rung], float]
    start: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    clock: Clock
    arrive: Callable[[Rung, np.ndarray], np.ndarray | None] = _same_kind
    need: Callable[[Rung], float] = _no_time
    thinned: bool = False
    plain_below: float = 0.0

    @property
    def levels(self) -> list[Rung]:
        """All levels, from coarse to fine."""
        return [Rung(number, rows) for number, rows in enumerate(self.sizes)]

    @property
    def plain(self) -> np.ndarray:
        """The initial point, clipped to the box."""
        return np.clip(self.start, self.lower, self.upper)


def refine(peaks: list[Peak], route: Route) -> Result:
    """Refine the best coarse point and its Hessian level by level; the result is never worse than the initial point."""
    best, try_start, levels = peaks[0].end, route.plain_below < HOPELESS, route.levels
    for below, rung in pairwise(levels):
        first = 0 if peaks[0].H is not None or len(best.x) > MANY else len(best.x)  # evaluations for a Hessian
        if over(route.clock, first * route.need(below) + len(peaks) * route.need(rung)):
            return _cut_short(best, [best.x, route.plain][: 1 + try_start], route)
        coarser = route.on(below).function
        level = route.on(rung)
        growth = 1.0 if route.thinned else rung.rows / below.rows
        peak = peaks[0] if len(peaks) == 1 else most_promising(peaks, growth, *level)
        best = _climb(peak, rung, growth, coarser, level, route)
        peaks = [Peak(best)]
        if rung == levels[-1] and try_start and not over(route.clock, route.need(rung)):
            best = _or_plain(best, rung, level, route)
    return best


def _climb(peak: Peak, rung: Rung, growth: float, coarser: Function, level: Level, route: Route) -> Result:
    """Search on one level from a peak of the level below, and return the end point."""
    x, lower, upper, tolerance = peak.end.x, route.lower, route.upper, route.gain(rung)
    elsewhere = route.arrive(rung, x)
    if elsewhere is not None or (peak.H is None and len(x) > MANY):
        begin = x if elsewhere is None else elsewhere
        return lbfgs(
            level.function, begin, lower=lower, upper=upper, tolerance=tolerance, deadline=route.clock, note=level.note
        )
    H, base = peak.H, None if route.thinned else peak.end.gradient
    H = difference_hessian(coarser, x, base, step=1e-2) if H is None else H
    return quasi_newton(
        level.function, x, H * growth, lower=lower, upper=upper, tolerance=tolerance, deadline=route.clock, note=level.note
    )[0]


def _or_plain(best: Result, rung: Rung, level: Level, route: Route) -> Result:
    """Return the best end point, or search from the initial point if that is already better."""
    plain = route.height(rung, route.plain)
    level.note(plain)
    if not plain < best.value:
        return best
    again = lbfgs(
        level.function,
        route.start,
        lower=route.lower,
        upper=route.upper,
        tolerance=GAIN,
        deadline=route.clock,
        note=level.note,
    )
    return min(best, again, key=lambda r: r.value)


def _cut_short(best: Result, points: list[np.ndarray], route: Route) -> Result:
    """Return the best of the coarse point and the initial point, evaluated on all rows, after running out of time."""
    ends, finest = [], route.levels[-1]
    note = route.on(finest).note
    for x in points:
        value = route.height(finest, x)
        note(value)
        ends.append(Result(x, value, best.gradient, route.clock.status, best.steps))
    return min(ends, key=lambda r: r.value)
