"""The verb ``learn``: find the hyperparameters that explain the data best.

From coarse to fine: a subset of the rows is cheap (cost grows with the cube), so all starts are searched there; the best
one hands its position *and* its Hessian, scaled by the number of rows, to the full problem, which then needs a handful of
evaluations. The search stops when a Newton step would gain less than 0.01 nats.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from covary._checks import check_count, fail
from covary._threads import blas_threads
from covary.data import Data
from covary.gram.base import AbstractGram
from covary.gram.dense import Dense
from covary.gram.low_rank import LowRank
from covary.gram.subset import Subset
from covary.inference.base import AbstractInference
from covary.inference.condition import as_model, bind, check_dense
from covary.inference.exact import Exact
from covary.inference.separation import check_weights
from covary.inference.svgp import SVGP
from covary.model import Model
from covary.optimise.clock import Clock, interruptible
from covary.optimise.lbfgs import lbfgs
from covary.selection.journal import Journal, fingerprint
from covary.selection.levels import GAIN, Levels, coarse_inference
from covary.selection.priors import Priors
from covary.selection.problem import (
    LIMITLESS,
    Objective,
    box,
    difference_hessian,
    limitless,
    natural_coordinates,
    needed_jitter,
)
from covary.selection.progress import Tracker
from covary.selection.search import (
    CLEARLY,
    FLAT,
    MOVED,
    ROUGH,
    ROUNDS,
    Peak,
    further_starts,
    joins,
    move_inducing,
    refine,
    weigh,
)
from covary.selection.starts import spread_equal, starting_values
from covary.selection.stochastic import train


@dataclass(frozen=True)
class Restart:
    """One start of the search, on the coarsest level: where it began, where it ended, and how."""

    start: Any
    model: Any
    value: float
    status: str
    steps: int


@dataclass(frozen=True)
class Learned:
    """A model with learned hyperparameters, and how the search went. The verbs take it wherever they take a model.

    ``value`` is the objective at the end (log evidence plus log priors), ``history`` holds (rows, value) of every
    evaluation, ``restarts`` every start with its end on the coarsest level, ``levels`` the rows of every level, ``gram`` the
    way K was handled with everything settled (which inducing inputs, which neighbours).
    """

    model: Any
    value: float
    status: str
    steps: int
    seconds: float
    levels: tuple[int, ...]
    history: tuple[tuple[int, float], ...] = field(repr=False)
    restarts: tuple[Restart, ...] = field(repr=False)
    objective: Any = field(repr=False)
    theta: np.ndarray = field(repr=False)
    jitter: float = 0.0
    start: Any = field(default=None, repr=False)
    recipe: Any = field(default=None, repr=False)
    gram: Any = field(default=None, repr=False)

    @property
    def prior(self) -> Any:
        """The learned prior."""
        return self.model.prior

    @property
    def kernel(self) -> Any:
        """The learned kernel."""
        return self.model.kernel

    @property
    def likelihood(self) -> Any:
        """The learned likelihood."""
        return self.model.likelihood

    @cached_property
    def hessian(self) -> np.ndarray:
        """The Hessian of minus the objective over the unconstrained vector, by differences of gradients; on first access."""
        data = self.objective.data
        if self.start is not None:  # learned in batches: a bound found by many passes has no differences worth taking
            return np.zeros((len(self.theta),) * 2)
        gram = (
            Dense() if getattr(self.gram, "composite", False) else self.gram
        )  # a committee that came no further than its sample
        with blas_threads(data.rows):
            return difference_hessian(self.objective.at(data, gram), self.theta, step=1e-3, central=True)

    @cached_property
    def log_errors(self) -> dict[str, np.ndarray]:
        """Standard errors of the unconstrained parameters (logarithms of positive ones) by path, from the Hessian.

        Parameters along which the objective does not curve have no error bar: infinity.
        """
        packing = self.objective.packing
        values, vectors = np.linalg.eigh((self.hessian + self.hessian.T) / 2)
        curved = values > 1e-8 * max(values.max(initial=0.0), 1e-300)
        weight = packing.outward(vectors) ** 2
        spread = (weight[:, curved] / values[curved]).sum(1)
        spread[(weight[:, ~curved] > 0.01 * weight.sum(1, keepdims=True)).any(1)] = np.inf
        out = {}
        for slot in packing.slots:
            errors = np.sqrt(spread[slot.start : slot.stop])
            out |= {path: errors.reshape(slot.shape) for path in slot.paths}
        return out


def learn(
    model: Model,
    data: Data,
    *,
    objective: Callable[..., Any] | None = None,
    inference: AbstractInference = Exact(),
    gram: AbstractGram = Dense(),
    priors: Mapping[str, Any] | None = None,
    tie: Sequence[Sequence[str]] = (),
    n_restarts: int = 0,
    starts: Sequence[Any] = (),
    rivals: Sequence[Any] = (),
    max_time: float | Clock | None = None,
    reserve: float = 0.0,
    coarse: bool = True,
    checkpoint: Any = None,
    key: int = 0,
) -> Learned:
    """The model with hyperparameters that maximise the evidence (times the priors).

    Parameters
    ----------
    model
        Where to start; parameters marked ``fixed`` stay, ``bounded`` ones stay inside.
    data
        What was seen.
    objective
        What to maximise instead of the log evidence: a function (model, data) -> number written with JAX, or an object
        with a method ``value_and_grad(model, data)``.
    inference, gram
        As in :func:`condition`.
    priors
        Distributions by parameter path: ``{"kernel.*.lengthscale": LogNormal(0.0, scale=1.0)}``.
    tie
        Groups of paths that share one value.
    n_restarts
        Further starts: one at the data's own scales, one with mostly noise, one with little, then draws around them.
        Where several ends are different peaks, the one that holds most of the posterior is taken (Laplace's method) if
        every positive parameter has a prior, else the highest.
    starts
        Further starting models of the same structure.
    rivals
        Models with the same parameters (a kernel of another smoothness, say): each is searched from the best point on
        the coarsest level, and takes over if it explains the data clearly better (by 2 nats).
    max_time
        Seconds after which the best so far is returned: nothing is begun that would be late, as far as can be told. Or a
        :class:`~covary.optimise.clock.Clock` that runs already.
    reserve
        How many times what :func:`condition` takes to keep back from that, for what follows.
    coarse
        Whether large problems begin on a subset of the rows.
    checkpoint
        A file in which every evaluation is written down. The same call finds them there again, so that a search that was
        killed goes on where it was and ends as it would have ended.
    key
        Seed of the subset and of the restarts.

    Examples
    --------
    >>> import numpy as np
    >>> from covary import GP, Data, Model
    >>> x = np.linspace(0.0, 6.0, 40)[:, None]
    >>> fit = learn(Model(GP("1.0 * Matern52()")), Data(x, np.sin(x[:, 0])))
    >>> fit.status
    'converged'
    """
    check_count("learn", "n_restarts", n_restarts)
    if gram.composite:
        if objective is not None or len(tie):
            what = "an objective or tied parameters are given"
            raise fail("learn", f"{what} with gram={type(gram).__name__}", "it learns by the evidence, untied")
        bind("learn", as_model(model), data.take(slice(0, 1)) if isinstance(data, Data) else data, gram, {})
        left = max(max_time.left(), 0.0) if isinstance(max_time, Clock) else max_time
        left = None if left == np.inf else left
        search = {"n_restarts": n_restarts, "starts": starts, "rivals": rivals, "max_time": left, "key": key}
        return gram.learn(as_model(model), data, inference=inference, priors=priors, checkpoint=checkpoint, **search)
    clock = Clock.of(max_time)
    options = {"objective": objective, "inference": inference, "gram": gram, "priors": priors, "tie": tie, "coarse": coarse}
    options |= {"checkpoint": checkpoint, "key": key, "reserve": reserve}
    with interruptible(clock):
        try:
            return _search(as_model(model), data, clock, n_restarts, tuple(starts), tuple(rivals), **options)
        finally:
            clock.kept = 0.0


def _search(
    model: Any,
    data: Data,
    deadline: Clock,
    n_restarts: int,
    starts: tuple[Any, ...],
    rivals: tuple[Any, ...],
    *,
    objective: Any,
    inference: Any,
    gram: AbstractGram,
    priors: Any,
    tie: Any,
    coarse: bool,
    checkpoint: Any,
    key: int,
    reserve: float,
) -> Learned:
    """The search itself, once the clock runs."""
    began = time.monotonic()
    first = data.take(slice(0, 1)) if isinstance(data, Data) else data
    bind("learn", model, first, Dense() if isinstance(gram, Subset) else gram)  # the checks, before any work
    check_weights("learn", model, data)
    if isinstance(gram, Dense):
        check_dense("learn", model, data)
    model = spread_equal(model)
    attached = Priors(model, priors)
    natural = spread_equal(starting_values(model, data))
    packing = natural_coordinates(model, data, tie, attached)
    if packing.size == 0:
        raise fail("learn", "every parameter is fixed", "free one, or call condition directly")
    theta0, centre = packing.pack(model), packing.pack(natural)
    lower, upper = box(packing, attached, data, theta0, centre)
    stochastic = isinstance(inference, SVGP)
    if hasattr(objective, "value_and_grad") and not isinstance(gram, Dense | Subset):
        what = f"{type(objective).__name__} is given with gram={type(gram).__name__}"
        raise fail("learn", what, "it knows the dense gram only: leave gram out, or use Subset(...)")
    if stochastic and not isinstance(gram, LowRank):
        raise fail("learn", f"SVGP is given with gram={type(gram).__name__}", "give gram=LowRank(...) with it")
    ladder = Levels(data, gram, inference, coarse=coarse, key=key)
    levels: Any = ladder.sizes
    if not stochastic and (len(levels) == 1 or gram.thins or isinstance(gram, Subset)):
        ladder.settle(natural, deadline)
    coarsely = coarse_inference(model.likelihood) if stochastic else inference
    problem = Objective(packing, attached, data, coarsely, gram, objective, (lower, upper))
    rng = np.random.default_rng(key)
    history: list[tuple[int, float]] = []
    journal = None if checkpoint is None or stochastic else Journal(checkpoint, _name(model, data, problem, key), packing.size)

    def need(rows: int) -> float:
        return ladder.seconds(rows, deadline)

    def on(rows: int) -> tuple[Any, Callable[[float], None]]:
        compute = problem.at(*ladder.at(rows))

        def timed(theta: np.ndarray) -> tuple[float, np.ndarray]:
            with deadline.timing(rows):
                found = compute(theta)
            full = need(ladder.sizes[-1])
            told = 0.0 if rows == ladder.sizes[-1] or stochastic else full  # the end of a coarse search is told on all rows
            deadline.kept = reserve * (deadline.took.get("settle", 0.0) + full) + told
            return found

        def note(value: float) -> None:
            history.append((rows, -value))
            tracker.evaluated(rows, -value)

        if journal is None:
            return timed, note
        return journal.kept(rows + 0.001 * len(restarts) + 1e-6 * ladder.version, timed), note

    restarts: list[Restart] = []
    function, note = on(levels[0])
    plain = function(np.clip(theta0, lower, upper))[0]
    if not np.isfinite(plain):
        problem.jitter = needed_jitter(model, data, inference, gram)
        if problem.jitter and hasattr(objective, "jitter"):
            objective = problem.custom = replace(objective, jitter=problem.jitter)
            function, note = on(levels[0])
        if model.likelihood.latents > 1:  # there may be no mode
            starts = (*starts, spread_equal(starting_values(model, data, calm=True)))
    points = [theta0, *(packing.pack(as_model(s)) for s in starts)]
    points += [np.clip(p, lower, upper) for p in further_starts(theta0, centre, packing, n_restarts, rng)]
    tracker = Tracker(levels, len(points) + len(rivals), packing.size, began, ladder.costs())
    only = len(points) + len(rivals) == 1
    fine = GAIN if model.likelihood.log_concave else GAIN / 10  # valleys of the evidence are flatter where modes are several

    def climb(point: np.ndarray, tolerance: float, most: int, known: Sequence[Any] = ()) -> Any:
        with blas_threads(levels[0]):
            return lbfgs(
                function,
                point,
                lower=lower,
                upper=upper,
                tolerance=tolerance,
                max_steps=most,
                deadline=deadline,
                note=note,
                stop=lambda x, value: joins(x, value, known),
            )

    results: list[Any] = []
    for i, point in enumerate(points):
        tracker.start = i
        results.append(climb(point, fine if only else ROUGH, 500 if i == 0 else 150, results))
        if deadline.over(need(levels[0])):
            break
    restarts = [
        Restart(packing.unpack(p), packing.unpack(r.x), -r.value, r.status, r.steps)
        for p, r in zip(points, results, strict=False)
    ]
    with blas_threads(levels[0]):
        peaks = weigh(results, function, attached, packing, deadline)
    best = peaks[0].end
    for i, rival in enumerate(rivals):
        if not np.isfinite(best.value) or deadline.over(need(levels[0])):
            break
        tracker.start = len(points) + i
        held, before = problem, function
        other = packing.like(spread_equal(as_model(rival)), tie=tie)
        if other.names() != packing.names():
            raise fail("learn", f"the rival {rival.kernel!r} has other parameters", "give models with the same ones")
        problem = Objective(other, attached, data, coarsely, gram, objective, (lower, upper))
        problem.jitter = held.jitter
        function, note = on(levels[0])
        found = climb(best.x, ROUGH, 150)
        restarts.append(Restart(other.unpack(best.x), other.unpack(found.x), -found.value, found.status, found.steps))
        if found.value < best.value - CLEARLY:
            ends = [found, *(climb(p.end.x, ROUGH, 150) for p in peaks[1:])]
            with blas_threads(levels[0]):
                packing, peaks = other, weigh(ends, function, attached, other, deadline)
            best = peaks[0].end
        else:
            problem, function = held, before
    if objective is None and np.isfinite(best.value) and problem.spread(best.x, *ladder.at(levels[0])) < FLAT:
        # a few rows of a rare class can look like noise, and so can all rows at a scale far from theirs
        points = [theta0] if len(levels) > 1 else []
        points += [] if np.allclose(theta0, centre) else [np.clip(centre, lower, upper)]
        levels = (levels[-1],)
        ladder.settle(natural, deadline)
        function, note = on(levels[0])
        best = min([climb(p, fine, 500) for p in points] or [climb(best.x, fine, 500)], key=lambda r: r.value)
        peaks = [Peak(best)]
    elif not only and len(levels) == 1 and np.isfinite(best.value):
        late = deadline.over(need(levels[0]))
        best = replace(best, status=deadline.status) if late else min(climb(best.x, fine, 500), best, key=lambda r: r.value)
        peaks = [Peak(best)]
    if not np.isfinite(best.value):
        what = "the objective is not finite at any start"
        if deadline.over():
            raise fail("learn", f"{what} that was tried before max_time ran out", "allow more time")
        raise fail("learn", what, "check the scales of X and y, or give other starting values")
    again = ladder.again(deadline)
    if (len(levels) > 1 or stochastic) and (ladder.settled is None or not deadline.over(again)):
        ladder.settle(packing.unpack(best.x), deadline)
    if stochastic:
        problem = Objective(packing, attached, data, inference, ladder.settled_gram(), objective, (lower, upper))
        at_last = train(problem, best.x, gram, tie, deadline, checkpoint, key, tracker)
        seconds = time.monotonic() - began
        return Learned(
            at_last.model,
            at_last.value,
            at_last.status,
            len(history) + at_last.steps,
            seconds,
            (*levels, data.rows),
            (*history, *((data.rows, v) for _, v in at_last.history)),
            tuple(restarts),
            problem,
            at_last.theta,
            0.0,
            {"q": at_last.q},
            gram,
            problem.gram,
        )
    with blas_threads(levels[-1]):
        refined = refine(
            peaks,
            levels,
            on,
            theta0,
            lower,
            upper,
            deadline,
            lambda rows, x: ladder.arrive(rows, packing, x),
            ladder.gain,
            lambda rows, x: problem.value(x, *ladder.at(rows)),
            gram.thins,
            plain - peaks[0].end.value if np.isfinite(plain) else 0.0,
            need,
        )
    for _ in range(ROUNDS if gram.thins else 0):  # neighbours by the length-scales that were found
        if np.abs(refined.x - ladder.begun(packing)).max() < MOVED or deadline.over(ladder.again(deadline)):
            break
        ladder.settle(packing.unpack(refined.x), deadline)
        function, note = on(levels[-1])
        with blas_threads(levels[-1]):
            step = ladder.gain(levels[-1])
            refined = lbfgs(function, refined.x, lower=lower, upper=upper, tolerance=step, deadline=deadline, note=note)
    problem.data, problem.gram = ladder.whole()
    if getattr(gram, "learned", False) and not deadline.over():
        refined = move_inducing(problem, refined, lower, upper, deadline, on(levels[-1])[1])
    ended = refined.status.startswith(("converged", "stuck"))
    endless = ended and limitless(packing, attached, data, refined.x, (lower, upper))
    return Learned(
        packing.unpack(refined.x),
        -refined.value,
        LIMITLESS if endless else refined.status,
        len(history),
        time.monotonic() - began,
        levels,
        tuple(history),
        tuple(restarts),
        problem,
        refined.x,
        problem.jitter or 0.0,
        None,
        gram,
        problem.gram,
    )


def _name(model: Any, data: Data, problem: Objective, key: int) -> str:
    """What tells this problem from another one."""
    arrays = [data.X.x, data.y, *(v for v in (data.noise_variance, data.weight, data.scatter) if v is not None)]
    custom = getattr(problem.custom, "__qualname__", None) or problem.custom
    settings = (problem.inference, problem.gram, sorted(problem.priors.by_path.items()), custom, key)
    return fingerprint(*arrays, *data.X.tags.values(), model, *settings)
