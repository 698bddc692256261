"""The stages of a search, in order; :func:`run_search` calls each of them."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from covary._checks import fail
from covary._errors import Option
from covary._threads import blas_threads
from covary.data import Data
from covary.executors.fingerprint import fingerprint
from covary.inference.base import Memory
from covary.inference.condition import as_model, bind, check_room, check_weights
from covary.optimise.base import CONVERGED, STUCK, Result, of_kind
from covary.optimise.lbfgs import lbfgs
from covary.selection.inducing import move_inducing
from covary.selection.journal import Journal
from covary.selection.learned import Learned, Restart
from covary.selection.left_out import ClosedForm
from covary.selection.objectives import LIMITLESS, Objective, WithGradient, box, limitless, natural_coordinates, needed_jitter
from covary.selection.peaks import ROUGH, Peak, Route, further_starts, refine, weigh
from covary.selection.priors import Priors
from covary.selection.starts import spread_equal, starting_values
from covary.selection.state import Levels, Search, Settings, Tracker, coarse_inference
from covary.selection.stochastic import train

FLAT = 0.02  # fraction of the target's spread: a posterior mean that varies less has found no signal
CLEARLY = 2.0  # nats: improvement required for another model to be preferred
MOVED = 0.1  # change of a log length-scale that triggers a new search for neighbours
ROUNDS = 4  # maximum number of new searches for neighbours


def run_search(settings: Settings) -> Learned:
    """Find the hyperparameters after the clock has been started."""
    state = prepare(settings)
    first_level(state)
    climb_all(state)
    weigh_peaks(state)
    try_rivals(state)
    look_again(state)
    settle(state)
    if settings.stochastic:
        return train_in_batches(state)
    best = refine_levels(state)
    best = settle_again(state, best)
    return finish(state, with_inducing(state, best))


def check(settings: Settings) -> None:
    """Raise an error for problems that cannot be searched, before any work is done."""
    model, data, gram, objective = settings.model, settings.data, settings.gram, settings.objective
    first = data.take(slice(0, 1)) if isinstance(data, Data) else data
    bind("learn", model, first, gram.probe())
    check_weights("learn", model, data)
    check_room("learn", model, data, gram)
    if isinstance(objective, WithGradient) and not gram.whole:
        what = f"{type(objective).__name__} is given with " + Option("gram", type(gram).__name__)
        raise fail("learn", what, "it supports the dense gram only: leave gram out, or use Subset(...)")
    if settings.stochastic and not gram.on_inducing:
        raise fail("learn", "SVGP requires " + Option("gram", "LowRank(...)"), f"give one, not {type(gram).__name__}")


def prepare(settings: Settings) -> Search:
    """Set up the problem in natural coordinates, with its box and its levels."""
    began = time.monotonic()
    check(settings)
    data, gram, key = settings.data, settings.gram, settings.key
    model = spread_equal(settings.model)
    settings = replace(settings, model=model)
    priors = Priors(model, settings.priors, who="learn: priors")
    natural = spread_equal(starting_values(model, data))
    packing = natural_coordinates(model, data, settings.tie, priors)
    if packing.size == 0:
        raise fail("learn", "every parameter is fixed", "free one, or call condition directly")
    theta0, centre = packing.pack(model), packing.pack(natural)
    lower, upper = box(packing, priors, data, theta0, centre)
    batches, iterated = settings.stochastic, settings.inference.iterates
    ladder = Levels(data, gram, iterated=iterated, coarse=settings.coarse, batches=batches, key=key)
    if not settings.stochastic and (len(ladder.sizes) == 1 or gram.settles_first):
        ladder.settle(natural, settings.clock)
    inference = coarse_inference(model.likelihood) if settings.stochastic else settings.inference
    problem = Objective(packing, priors, data, inference, gram, settings.objective, (lower, upper))
    journal = None
    if settings.checkpoint is not None and not settings.stochastic:
        journal = Journal(settings.checkpoint, _name(settings, problem), packing.size)
    return Search(
        settings=settings,
        priors=priors,
        natural=natural,
        problem=problem,
        theta0=theta0,
        centre=centre,
        lower=lower,
        upper=upper,
        ladder=ladder,
        levels=ladder.sizes,
        journal=journal,
        began=began,
        tracker=Tracker(ladder.sizes, 1, packing.size, began, ladder.costs()),
    )


def first_level(state: Search) -> None:
    """Determine the jitter required by the initial model, and all starts."""
    settings, problem = state.settings, state.problem
    model, packing, starts = settings.model, problem.packing, settings.starts
    state.plain = state.coarse.function(state.clipped(state.theta0))[0]
    if not np.isfinite(state.plain):
        problem.jitter = needed_jitter(model, settings.data, settings.inference, settings.gram)
        if problem.jitter and isinstance(problem.custom, ClosedForm):
            problem.custom = problem.custom.with_jitter(problem.jitter)
            state.look()
        if model.likelihood.latents > 1:  # there may be no mode
            starts = (*starts, spread_equal(starting_values(model, settings.data, calm=True)))
    rng = np.random.default_rng(settings.key)
    further = further_starts(state.theta0, state.centre, packing, settings.n_restarts, rng)
    state.points = [state.theta0, *(packing.pack(as_model(s)) for s in starts), *(state.clipped(p) for p in further)]
    state.tracker.starts = len(state.points) + len(settings.rivals)


def climb_all(state: Search) -> None:
    """Search from every start on the coarsest level."""
    tolerance = state.fine if state.only else ROUGH
    for i, point in enumerate(state.points):
        state.tracker.start = i
        state.results.append(state.climb(point, tolerance, 500 if i == 0 else 150, state.results))
        if state.late():
            break
    unpack = state.problem.packing.unpack
    state.restarts = [
        Restart(unpack(p), unpack(r.x), -r.value, r.status, r.steps) for p, r in zip(state.points, state.results, strict=False)
    ]


def weigh_peaks(state: Search) -> None:
    """Find the distinct peaks among the end points, and put the one with most of the posterior mass first."""
    with blas_threads(state.levels[0]):
        state.peaks = weigh(state.results, state.coarse.function, state.priors, state.problem.packing, state.clock)


def try_rivals(state: Search) -> None:
    """Optimise every rival from the best point; a rival that explains the data clearly better replaces the model."""
    for i, rival in enumerate(state.settings.rivals):
        best = state.best
        if not np.isfinite(best.value) or state.late():
            break
        state.tracker.start = len(state.points) + i
        held, before = state.problem, state.coarse
        packing = held.packing.like(spread_equal(as_model(rival)), tie=state.settings.tie)
        if packing.names() != held.packing.names():
            raise fail("learn", f"the rival {as_model(rival).kernel!r} has other parameters", "give models with the same ones")
        state.problem = held.of(packing)
        state.look()
        found = state.climb(best.x)
        unpack = packing.unpack
        state.restarts.append(Restart(unpack(best.x), unpack(found.x), -found.value, found.status, found.steps))
        if found.value < best.value - CLEARLY:
            state.results = [found, *(state.climb(p.end.x) for p in state.peaks[1:])]
            weigh_peaks(state)
        else:
            state.problem, state.coarse = held, before


def look_again(state: Search) -> None:
    """Repeat rough searches on few rows that found no signal or did not converge; raise an error if all failed."""
    settings, best = state.settings, state.best
    found = np.isfinite(best.value)
    if settings.objective is None and found and state.problem.spread(best.x, *state.ladder.at(state.levels[0])) < FLAT:
        # a few rows of a rare class can look like noise, as can all rows if the scale is far off
        points = [state.theta0] if len(state.levels) > 1 else []
        points += [] if np.allclose(state.theta0, state.centre) else [state.clipped(state.centre)]
        state.levels = state.levels[-1:]
        state.ladder.settle(state.natural, state.clock)
        state.look()
        ends = [state.climb(p, state.fine, 500) for p in points or [best.x]]
        state.peaks = [Peak(min(ends, key=lambda r: r.value))]
    elif not state.only and len(state.levels) == 1 and found:
        if state.late():
            state.peaks = [Peak(replace(best, status=state.clock.status))]
        else:
            state.peaks = [Peak(min(state.climb(best.x, state.fine, 500), best, key=lambda r: r.value))]
    if not np.isfinite(state.best.value):
        what = "the objective is not finite at any start"
        if state.clock.over():
            raise fail("learn", f"{what} that was tried before the time limit", "allow more time")
        raise fail("learn", what, "check the scales of X and y, or give other starting values")


def settle(state: Search) -> None:
    """Settle the gram (inducing inputs, neighbours) for the best model of the coarsest level."""
    ladder, clock = state.ladder, state.clock
    again = ladder.again(clock)
    if (len(state.levels) > 1 or state.settings.stochastic) and (ladder.settled is None or not clock.over(again)):
        ladder.settle(state.problem.packing.unpack(state.best.x), state.clock)


def train_in_batches(state: Search) -> Learned:
    """Finish a search with variational inference by training on batches of all rows."""
    settings, rows = state.settings, state.settings.data.rows
    problem = state.problem.of(state.problem.packing, inference=settings.inference, gram=state.ladder.now[0])
    trained = train(problem, state.best.x, settings, state.tracker)
    return Learned(
        model=trained.model,
        value=trained.value,
        status=trained.status,
        steps=len(state.history) + trained.steps,
        seconds=state.seconds,
        levels=(*state.levels, rows),
        history=(*state.history, *((rows, value) for _, value in trained.history)),
        restarts=tuple(state.restarts),
        objective=problem,
        theta=trained.theta,
        start=Memory(q=trained.q),
        recipe=settings.gram,
        gram=problem.gram,
    )


def refine_levels(state: Search) -> Result:
    """Refine the best peaks on the finer levels."""
    ladder, problem = state.ladder, state.problem
    route = Route(
        sizes=state.levels,
        on=lambda rung: state.on(rung.rows),
        height=lambda rung, x: problem.value(x, *ladder.at(rung.rows)),
        gain=lambda rung: ladder.gain(rung.rows),
        start=state.theta0,
        lower=state.lower,
        upper=state.upper,
        clock=state.clock,
        arrive=lambda rung, x: ladder.arrive(rung.rows, problem.packing, x),
        need=lambda rung: state.need(rung.rows),
        thinned=state.settings.gram.thins,
        plain_below=state.plain - state.best.value if np.isfinite(state.plain) else 0.0,
    )
    with blas_threads(state.levels[-1]):
        return refine(state.peaks, route)


def settle_again(state: Search, best: Result) -> Result:
    """Recompute the neighbours with the length-scales found, until the length-scales no longer change."""
    ladder, packing, rows = state.ladder, state.problem.packing, state.levels[-1]
    for _ in range(ROUNDS if state.settings.gram.thins else 0):
        moved = np.abs(best.x - ladder.begun(packing)).max()
        if moved < MOVED or state.clock.over(ladder.again(state.clock)):
            break
        ladder.settle(packing.unpack(best.x), state.clock)
        function, note = state.on(rows)
        with blas_threads(rows):
            best = lbfgs(
                function,
                best.x,
                lower=state.lower,
                upper=state.upper,
                tolerance=ladder.gain(rows),
                deadline=state.clock,
                note=note,
            )
    return best


def with_inducing(state: Search, best: Result) -> Result:
    """Optimise the inducing inputs too if they are learned; from here on, the problem uses all rows."""
    gram, problem = state.settings.gram, state.problem
    problem.data, problem.gram = state.ladder.whole()
    if not gram.moves_inducing or state.clock.over():
        return best
    return move_inducing(problem, best, state.box, state.clock, state.on(state.levels[-1]).note)


def finish(state: Search, best: Result) -> Learned:
    """Return the result of the search."""
    problem, data = state.problem, state.settings.data
    ended = of_kind(best.status, CONVERGED, STUCK)
    endless = ended and limitless(problem.packing, state.priors, data, best.x, state.box)
    return Learned(
        model=problem.packing.unpack(best.x),
        value=-best.value,
        status=LIMITLESS if endless else best.status,
        steps=len(state.history),
        seconds=state.seconds,
        levels=state.levels,
        history=tuple(state.history),
        restarts=tuple(state.restarts),
        objective=problem,
        theta=best.x,
        jitter=problem.jitter or 0.0,
        recipe=state.settings.gram,
        gram=problem.gram,
    )


def _name(settings: Settings, problem: Objective) -> str:
    """Return the fingerprint of everything that determines the evaluations of a search and their values."""
    how = (problem.inference, problem.gram, problem.priors.by_path, problem.custom)
    others = [as_model(other) for other in settings.starts], [as_model(other) for other in settings.rivals]
    course = (settings.tie, settings.n_restarts, *others, settings.coarse, settings.key)
    return fingerprint(settings.data, settings.model, *how, *course)
