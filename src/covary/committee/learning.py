"""Learning the hyperparameters of a committee, shared by all experts or independent (W 70).

The log evidence of a committee is the sum of its experts' log evidences, which is that of a process whose covariance is zero
between experts. The search begins on a sample of the rows (with all starts and alternative models), and continues on some
of the experts, then on more, each time from the previous optimum and Hessian. An evaluation is a map over groups of experts
and a sum in the order of the experts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from covary._checks import CovaryError
from covary.committee.expert import Priors, Recipe, evidence, learned
from covary.committee.experts import Groups
from covary.executors.fingerprint import fingerprint
from covary.inference.plan import AbstractPlan
from covary.model import Model
from covary.optimise.base import Clock, Result, interruptible
from covary.optimise.quasi_newton import positive_part
from covary.parameters import Packing
from covary.selection.learn import Learned
from covary.selection.objectives import Objective, difference_hessian
from covary.selection.peaks import GAIN, Level, Peak, Route, Rung, refine
from covary.selection.state import Tracker, counting

if TYPE_CHECKING:
    from covary.committee.settings import Committee

FEWEST, SAMPLE = 500, 2000  # limits of the sample on which a search begins, which has as many rows as an expert
SOME, MOST = 16_000, 60_000  # rows of the experts on the next levels; more rows hardly improve a few hyperparameters
PASSES, STEPS = 2, 40  # passes over all experts in a stochastic search, and its minimum number of steps
LONGEST = 0.5  # maximum length of a stochastic step along one coordinate, in nats


def shared(coarse: Learned, held: Groups, recipe: Recipe, committee: Committee, *, max_time: float | None, key: int) -> Learned:
    """Learn shared hyperparameters of all experts, starting at the optimum of the sample."""
    clock = Clock(max_time)
    with interruptible(clock):
        return _shared(coarse, held, recipe, committee, clock, key)


def _shared(coarse: Learned, held: Groups, recipe: Recipe, committee: Committee, clock: Clock, key: int) -> Learned:
    began = time.monotonic()
    problem, packing = coarse.objective, coarse.objective.packing
    below, total = problem.data.rows, held.total
    assert not isinstance(coarse.gram, AbstractPlan)
    on_sample = problem.at(problem.data, coarse.gram)
    lower, upper = problem.box
    if clock.over() or any(start.status == "interrupted" for start in coarse.restarts):
        return replace(coarse, gram=committee, recipe=committee.replace(settled=None))
    H = difference_hessian(on_sample, coarse.theta, step=1e-2)
    order = np.random.default_rng([key, 1]).permutation(len(held.rows))
    sizes = _sizes(total, committee.learning)
    levels, history = (below, *sizes), list(coarse.history)
    tracker = Tracker(levels, 1, packing.size, began, [float(n) for n in levels])

    def on(rung: Rung) -> Level:
        if rung.number == 0:
            return Level(on_sample, lambda value: None)
        which = _enough(order, held.rows, rung.rows)
        share = total / sum(held.rows[i] for i in which)
        function = summed(held, problem, packing, recipe, which, share)

        def note(value: float) -> None:
            history.append((rung.rows, -value))
            tracker.evaluated(rung.number, -value)

        return Level(function, note)

    if committee.learning == "stochastic":
        theta, value, status = _stochastic(
            coarse.theta, H * (total / below), held, problem, packing, recipe, order, clock, history
        )
    else:
        end = Result(coarse.theta, -coarse.value, on_sample(coarse.theta)[1], coarse.status, 0)
        route = Route(
            sizes=levels,
            on=on,
            height=lambda rung, x: on(rung).function(x)[0],
            gain=lambda rung: GAIN * max(1.0, rung.rows / 1000),
            start=coarse.theta,
            lower=lower,
            upper=upper,
            clock=clock,
            plain_below=np.inf,
        )
        found = refine([Peak(end, H)], route)
        theta, value, status = found.x, -found.value, found.status
        if not np.isfinite(found.value):
            what = "the evidence of some experts cannot be computed at the hyperparameters of the sample"
            raise CovaryError("learn", what, "raise the noise, or use fewer and larger experts")
    return replace(
        coarse,
        model=packing.unpack(theta),
        value=float(value),
        status=status,
        steps=len(history),
        seconds=coarse.seconds + time.monotonic() - began,
        levels=levels,
        history=tuple(history),
        theta=theta,
        gram=committee,
        recipe=committee.replace(settled=None),
        curvature=H
        * (total / below),  # the Hessian of the sample, scaled up: two evaluations on all rows per parameter would be too slow
    )


def _sizes(total: int, learning: str) -> tuple[int, ...]:
    """Return the number of rows of each level after the sample."""
    last = total if learning == "full" else min(total, MOST)
    return (SOME, last) if last >= 3 * SOME else (last,)


def _enough(order: np.ndarray, rows: list[int], wanted: float) -> list[int]:
    """Return the first groups in ``order`` that have the wanted number of rows, sorted by expert."""
    count = int(np.searchsorted(np.cumsum([rows[i] for i in order]), wanted)) + 1
    return sorted(int(i) for i in order[: min(count, len(order))])


def summed(
    held: Groups, problem: Objective, packing: Packing[Model], recipe: Recipe, which: Sequence[int], share: float
) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """Return the objective of the search: minus (the sum over groups, scaled up to all rows, plus log priors)."""

    def function(theta: np.ndarray) -> tuple[float, np.ndarray]:
        key = f"evidence-{fingerprint(theta, packing.names())}"
        found = held.map(evidence, packing, recipe, theta, which=which, key=key, note=counting("learning"))
        value, slope = 0.0, np.zeros(packing.size)
        for part, gradient in found:  # in the order of the experts, regardless of which finished first
            value, slope = value + part, slope + gradient
        extra, own = problem.priors.log_prob_and_grad(packing, packing.unpack(theta))
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return np.inf, np.zeros(packing.size)
        return -(share * value + extra), -(share * slope + own)

    return function


def _stochastic(
    theta: np.ndarray,
    H: np.ndarray,
    held: Groups,
    problem: Objective,
    packing: Packing[Model],
    recipe: Recipe,
    order: np.ndarray,
    clock: Clock,
    history: list[tuple[int, float]],
) -> tuple[np.ndarray, float, str]:
    r"""Take a Newton step on one group of experts after another, and average the second half of the iterates.

    .. math:: \theta_{t+1} = \theta_t - t^{-0.6}\,H^{-1}g_t

    With the Hessian H of the sample, no step length needs tuning. With decreasing steps (Robbins and Monro) and averaging
    (Polyak and Ruppert), the iteration converges to the optimum of all experts together.
    """
    lower, upper = problem.box
    inverse = np.linalg.inv(positive_part(H))
    count = max(PASSES * len(order), STEPS)
    value, past = np.inf, list[np.ndarray]()
    for t in range(count):
        if clock.over():
            return theta, -value, clock.status
        i = int(order[t % len(order)])
        value, gradient = summed(held, problem, packing, recipe, [i], held.total / held.rows[i])(theta)
        history.append((held.rows[i], -value))
        if np.isfinite(value):
            step = np.clip(inverse @ gradient, -LONGEST, LONGEST) / (1 + t) ** 0.6
            theta = np.clip(theta - step, lower, upper)
        past.append(theta)
    return np.mean(past[count // 2 :], axis=0), -value, "converged"


def independent(
    coarse: Learned,
    held: Groups,
    recipe: Recipe,
    committee: Committee,
    *,
    priors: Priors | None,
    max_time: float | None,
    key: int,
) -> Learned:
    """Learn independent hyperparameters for every expert, starting at the optimum of the sample (W, algorithm 2).

    Every expert then has a different prior, while all rules except a plain product divide by a common one. The precision of the
    prior is therefore averaged over the experts (:class:`covary.committee.rules.Sums`). Experts not processed before
    the time limit or an interrupt keep the hyperparameters of the sample.
    """
    began, clock, count = time.monotonic(), Clock(max_time), counting("learning")
    if clock.over() or any(start.status == "interrupted" for start in coarse.restarts):
        return replace(coarse, gram=committee, recipe=committee.replace(settled=None))

    def note(done: int, total: int) -> bool:
        if count is not None:
            count(done, total)
        return not clock.over()

    with interruptible(clock):
        own = f"own-{fingerprint(coarse.theta)}"
        groups = held.map(learned, coarse.model, recipe, priors, max_time, key, key=own, note=note)
    late = [[(coarse.theta, 0.0, clock.status)] * len(numbers) for numbers in (item.numbers for item in held.items)]
    found = [one for group, others in zip(groups, late, strict=True) for one in group or others]
    ends = {status for _, _, status in found}
    some = f"{sum(s != 'converged' for _, _, s in found)} of {len(found)} not converged"
    return replace(
        coarse,
        value=float(sum(value for _, value, _ in found)),
        status=clock.status if clock.over() else ends.pop() if len(ends) == 1 else some,
        seconds=coarse.seconds + time.monotonic() - began,
        thetas=np.stack([theta for theta, _, _ in found]),
        gram=committee,
        recipe=committee.replace(settled=None),
    )
