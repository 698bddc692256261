"""Hyperparameters of a committee: shared by all experts, or each its own (W 70).

The evidence of a committee is the sum of its experts' evidences, that of a process whose covariance is zero between experts. A
search begins on a sample of the rows (with every start and rival model), hands its end and its Hessian to some of the experts,
and then to more; each evaluation is one map over batches of experts and one sum, in the order of the experts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from covary._checks import CovaryError
from covary.committee.expert import Recipe, evidence, learned
from covary.committee.held import Held
from covary.committee.ledger import Ledger
from covary.data import Data
from covary.gram.dense import Dense
from covary.optimise.base import Result
from covary.optimise.clock import Clock, interruptible
from covary.optimise.quasi_newton import positive_part
from covary.parameters import Packing
from covary.selection.journal import fingerprint
from covary.selection.learn import Learned, learn
from covary.selection.levels import GAIN
from covary.selection.problem import Objective, difference_hessian
from covary.selection.progress import Tracker, counting
from covary.selection.search import Peak, refine

FEWEST, SAMPLE = 500, 2000  # rows on which a search begins: as many as an expert has, but not fewer or more than these
SOME, MOST = 16_000, 60_000  # rows of the experts on the next levels; more say nothing more about a few numbers
PASSES, STEPS = 2, 40  # over all experts, and at least so many steps, of a stochastic search
LONGEST = 0.5  # nats: of one stochastic step along one coordinate


def ledger_of(checkpoint: Any, *problem: Any) -> tuple[Ledger | None, Any]:
    """The ledger of finished work in a folder, and the file of the search on the sample beside it."""
    if checkpoint is None:
        return None, None
    return Ledger(checkpoint, fingerprint(*problem)), Path(checkpoint) / "sample.journal"


def start_on_sample(
    model: Any,
    sample: Data,
    *,
    inference: Any,
    priors: Mapping[str, Any] | None,
    n_restarts: int,
    rivals: Sequence[Any],
    starts: Sequence[Any] = (),
    max_time: float | None,
    journal: Any,
    key: int,
) -> Learned:
    """The search on a sample of rows, with every start and rival."""
    return learn(
        model,
        sample,
        inference=inference,
        gram=Dense(),
        priors=priors,
        n_restarts=n_restarts,
        starts=starts,
        rivals=rivals,
        max_time=max_time,
        checkpoint=journal,
        key=key,
    )


def shared(coarse: Learned, held: Held, recipe: Recipe, committee: Any, *, max_time: float | None, key: int) -> Learned:
    """Hyperparameters that all experts share, from where the search on the sample ended."""
    clock = Clock(max_time)
    with interruptible(clock):
        return _shared(coarse, held, recipe, committee, clock, key)


def _shared(coarse: Learned, held: Held, recipe: Recipe, committee: Any, clock: Clock, key: int) -> Learned:
    began = time.monotonic()
    problem, packing = coarse.objective, coarse.objective.packing
    below, total = problem.data.rows, held.total
    on_sample = problem.at(problem.data, coarse.gram)
    lower, upper = problem.box
    if clock.over() or any(start.status == "interrupted" for start in coarse.restarts):
        return replace(coarse, gram=committee, recipe=committee.replace(settled=None))
    H = difference_hessian(on_sample, coarse.theta, step=1e-2)
    order = np.random.default_rng([key, 1]).permutation(len(held.rows))
    sizes = _sizes(total, committee.learning)
    levels: tuple[Any, ...] = (below - 0.5 if below == sizes[0] else below, *sizes)  # told apart by their rows
    history = list(coarse.history)
    tracker = Tracker(levels, 1, packing.size, began, [float(n) for n in levels])

    def on(rows: int) -> tuple[Any, Callable[[float], None]]:
        if rows == levels[0]:
            return on_sample, lambda value: None
        which = _enough(order, held.rows, rows)
        share = total / sum(held.rows[i] for i in which)
        function = summed(held, problem, packing, recipe, which, share)

        def note(value: float) -> None:
            history.append((rows, -value))
            tracker.evaluated(rows, -value)

        return function, note

    if committee.learning == "stochastic":
        theta, value, status = _stochastic(
            coarse.theta, H * (total / below), held, problem, packing, recipe, order, clock, history
        )
    else:
        end = Result(coarse.theta, -coarse.value, on_sample(coarse.theta)[1], coarse.status, 0)
        found = refine(
            [Peak(end, H)],
            levels,
            on,
            coarse.theta,
            lower,
            upper,
            clock,
            lambda rows, x: None,
            lambda rows: GAIN * max(1.0, rows / 1000),
            lambda rows, x: on(rows)[0](x)[0],
            plain_below=np.inf,
        )
        theta, value, status = found.x, -found.value, found.status
        if not np.isfinite(found.value):
            raise CovaryError(
                "learn: some experts have no evidence at the hyperparameters of the sample; raise the noise, or ask for fewer "
                "and larger experts."
            )
    done = replace(
        coarse,
        model=packing.unpack(theta),
        value=float(value),
        status=status,
        steps=len(history),
        seconds=coarse.seconds + time.monotonic() - began,
        levels=(below, *sizes),
        history=tuple(history),
        theta=theta,
        gram=committee,
        recipe=committee.replace(settled=None),
    )
    done.__dict__["hessian"] = H * (total / below)  # that of the sample, grown: an evaluation of all rows for each is too much
    return done


def _sizes(total: int, learning: str) -> tuple[int, ...]:
    """The rows of the levels above the sample."""
    last = total if learning == "full" else min(total, MOST)
    return (SOME, last) if last >= 3 * SOME else (last,)


def _enough(order: np.ndarray, rows: list[int], wanted: float) -> list[int]:
    """The first batches in an order that together have so many rows, in the order of the experts."""
    count = int(np.searchsorted(np.cumsum([rows[i] for i in order]), wanted)) + 1
    return sorted(int(i) for i in order[: min(count, len(order))])


def summed(
    held: Held, problem: Objective, packing: Packing, recipe: Recipe, which: Sequence[int], share: float
) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """Minus (the sum over batches, scaled up to all rows, plus log priors): what a search minimises."""

    def function(theta: np.ndarray) -> tuple[float, np.ndarray]:
        key = f"evidence-{fingerprint(theta, packing.names())}"
        found = held.map(evidence, packing, recipe, theta, which=which, key=key, note=counting("learning"))
        value, slope = 0.0, np.zeros(packing.size)
        for part, gradient in found:  # in the order of the experts, whoever came first
            value, slope = value + part, slope + gradient
        extra, own = problem.priors.log_prob_and_grad(packing, packing.unpack(theta))
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return np.inf, np.zeros(packing.size)
        return -(share * value + extra), -(share * slope + own)

    return function


def _stochastic(
    theta: np.ndarray,
    H: np.ndarray,
    held: Held,
    problem: Objective,
    packing: Packing,
    recipe: Recipe,
    order: np.ndarray,
    clock: Clock,
    history: list[tuple[int, float]],
) -> tuple[np.ndarray, float, str]:
    r"""Newton's step on one group after another, and the mean of where the second half of them came to.

    .. math:: \theta_{t+1} = \theta_t - t^{-0.6}\,H^{-1}g_t

    With the Hessian H of the sample no step length is left to be tuned; shortened like this (Robbins and Monro) and averaged
    (Polyak and Ruppert) the steps come to the optimum of all experts together.
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
    coarse: Learned, held: Held, recipe: Recipe, committee: Any, *, priors: Any, max_time: float | None, key: int
) -> Learned:
    """Hyperparameters of its own for every expert, from where the search on the sample ended (W, algorithm 2).

    Every expert then has a prior of its own, while every rule but a plain product divides by one that all have in common:
    the precision of the prior is averaged over the experts (:class:`covary.committee.rules.Sums`). Experts whose turn has not
    come when the time is over, or the user says so, keep those of the sample.
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
        start={"thetas": np.stack([theta for theta, _, _ in found])},
        gram=committee,
        recipe=committee.replace(settled=None),
    )
