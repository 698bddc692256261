"""The search: starts on a coarse level, the end that holds most of the posterior, and its way up to all rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from covary.optimise.base import Result
from covary.optimise.clock import Clock, over
from covary.optimise.lbfgs import lbfgs
from covary.optimise.quasi_newton import quasi_newton
from covary.parameters import POSITIVE, Packing
from covary.selection.levels import GAIN
from covary.selection.priors import Priors
from covary.selection.problem import difference_hessian

ROUGH = 0.2  # ... while several starts are compared
FLAT = 0.02  # of the target's spread: a posterior mean that varies less has found nothing
NOISY, CRISP = 2.7, -3.0  # nats: a start with more noise than the plain one (75 % of var(y)), and one with less
APART = 0.3  # unconstrained units beyond which two ends are different ones
NEAR = 30.0  # nats below the highest end within which another may still hold more of the posterior
MORE = 0.5  # nats: how much more than the highest another end must hold to be preferred, Laplace's method being rough
CLEARLY = 2.0  # nats: how much more of the data another model must explain to be preferred
MOVED = 0.1  # of a logarithm: how far a length-scale must go for neighbours to be looked for again
ROUNDS = 4  # how often they are looked for again
VALLEY = 0.2  # nats: how far the objective must fall half way between two ends to make them two peaks
MANY = 60  # parameters beyond which a coarse Hessian, an evaluation for each, costs more than it saves
HOPELESS = 20.0  # nats: a plain start so far below the best on few rows is not asked again on all of them
LEAST = 0.05  # the least curvature counted: that of a prior with a standard deviation of 4.5 nats

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]


def further_starts(
    theta0: np.ndarray, centre: np.ndarray, packing: Packing, count: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Further starts: the data's own scales; mostly noise; little noise; then draws around the data's scales.

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
    """An end of a search; the Hessian there and its log determinant, where they were needed."""

    end: Result
    H: np.ndarray | None = None
    log_det: float = 0.0

    def mass(self) -> float:
        r"""The log of the posterior's mass here, by Laplace's method: its height times :math:`|H|^{-1/2}`."""
        return -self.end.value - 0.5 * self.log_det


def weigh(results: list[Result], function: Function, priors: Priors, packing: Packing, deadline: Clock | None) -> list[Peak]:
    r"""The different peaks among the ends of several searches, the one to be taken first (R&W, eq. 5.6; MacKay).

    A narrow peak may be a little higher than a broad one and hold far less of the posterior: the mass near an optimum is its
    height times :math:`|H|^{-1/2}`. The highest is left only for one that holds more. Where priors are not proper on every
    positive parameter there is no mass, and the highest is the only one. Of ends that a rough search cannot tell apart the
    first counts, so that a start drawn at random does not decide where the fine search begins.
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
    """Whether a search has come close to an end that is known, and not above it."""
    return any(value < r.value + 1.0 and np.abs(x - r.x).max() < APART for r in known)


def _one_peak(a: Result, b: Result, function: Function) -> bool:
    """Whether two ends belong to the same peak: close together, or with no valley half way."""
    if np.abs(a.x - b.x).max() < APART:
        return True
    return function((a.x + b.x) / 2)[0] <= max(a.value, b.value) + VALLEY


def refine(
    peaks: list[Peak],
    levels: tuple[int, ...],
    on: Any,
    theta0: np.ndarray,
    lower: Any,
    upper: Any,
    deadline: Any,
    arrive: Callable[[int, np.ndarray], np.ndarray | None],
    gain: Callable[[int], float],
    height: Callable[[int, np.ndarray], float],
    thinned: bool = False,
    plain_below: float = 0.0,
    need: Callable[[int], float] = lambda rows: 0.0,
) -> Result:
    """Carry the best coarse point and its Hessian up the levels; never end below the plain start.

    ``arrive(rows, theta)`` is where to begin on a level whose evidence is of another kind than the one below, so that the
    Hessian means nothing there; None where it is of the same kind. ``gain(rows)`` is what a step must gain on a level,
    ``height(rows, theta)`` the objective without its gradient, ``need(rows)`` the seconds an evaluation there will take. A
    ``thinned`` sum of terms stands for the whole one already, and was settled anew since the peaks were found.
    ``plain_below`` is how far the plain start was below the best on the coarsest level: where that was hopelessly far, more
    rows, which widen the difference, need not be asked.
    """
    best, ask_start = peaks[0].end, plain_below < HOPELESS
    for below, rows in pairwise(levels):
        first = 0 if peaks[0].H is not None or len(best.x) > MANY else len(best.x)  # evaluations for a Hessian
        if over(deadline, first * need(below) + len(peaks) * need(rows)):
            points = [best.x, np.clip(theta0, lower, upper)][: 1 + ask_start]
            return _cut_short(best, points, lambda x: height(levels[-1], x), on(levels[-1])[1], deadline)
        coarser, _ = on(below)
        function, note = on(rows)
        growth = 1.0 if thinned else rows / below
        peak = peaks[0] if len(peaks) == 1 else _promising(peaks, growth, function, note)
        common = {"lower": lower, "upper": upper, "tolerance": gain(rows), "deadline": deadline, "note": note}
        elsewhere = arrive(rows, peak.end.x)
        if elsewhere is not None or (peak.H is None and len(peak.end.x) > MANY):
            best = lbfgs(function, peak.end.x if elsewhere is None else elsewhere, **common)
        else:
            H, base = peak.H, None if thinned else peak.end.gradient
            H = difference_hessian(coarser, peak.end.x, base, step=1e-2) if H is None else H
            best, _ = quasi_newton(function, peak.end.x, H * growth, **common)
        peaks = [Peak(best)]
        if rows == levels[-1] and ask_start and not over(deadline, need(rows)):
            plain = height(rows, np.clip(theta0, lower, upper))
            note(plain)
            if plain < best.value:
                again = lbfgs(function, theta0, lower=lower, upper=upper, tolerance=GAIN, deadline=deadline, note=note)
                best = min(best, again, key=lambda r: r.value)
    return best


def _promising(peaks: list[Peak], growth: float, function: Function, note: Callable[[float], None]) -> Peak:
    """The peak that promises most on more rows: its height there and what a Newton step with its Hessian would add.

    More rows may raise another peak than few rows did, so each gets one evaluation before one of them is followed.
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


def _cut_short(best: Result, points: list[np.ndarray], height: Any, note: Any, clock: Any) -> Result:
    """Time ran out on a coarse level: the best of its point and the plain start, each told on all rows."""
    ends = []
    for x in points:
        value = height(x)
        note(value)
        ends.append(Result(x, value, best.gradient, clock.status, best.steps))
    return min(ends, key=lambda r: r.value)


def move_inducing(problem: Any, best: Result, lower: np.ndarray, upper: np.ndarray, clock: Any, note: Any) -> Result:
    """Search over the hyperparameters and the inducing inputs together, from where both are; the gram keeps the moved ones.

    Inducing inputs are measured in the spread of their columns, so that one step means as much in each.
    """
    gram, data, p = problem.gram, problem.data, len(best.x)
    Z = np.asarray(gram.inducing, np.float64)
    spread = data.X.x.std(0)
    spread = np.where(spread > 0, spread, 1.0)

    def function(x: np.ndarray) -> tuple[float, np.ndarray]:
        moved = gram.replace(inducing=x[p:].reshape(Z.shape) * spread)
        found: dict[str, Any] = {}
        value, slope = problem.at(data, moved, found)(x[:p])
        if "inducing" not in found:
            return value, np.zeros_like(x)
        return value, np.concatenate([slope, -(found["inducing"] * spread).ravel()])

    wide = np.full(Z.size, np.inf)
    end = lbfgs(
        function,
        np.concatenate([best.x, (Z / spread).ravel()]),
        lower=np.concatenate([lower, -wide]),
        upper=np.concatenate([upper, wide]),
        tolerance=GAIN,
        max_steps=200,
        deadline=clock,
        note=note,
    )
    problem.gram = gram.replace(inducing=end.x[p:].reshape(Z.shape) * spread)
    return Result(end.x[:p], end.value, end.gradient[:p], end.status, best.steps + end.steps)
