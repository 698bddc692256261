"""The settings of a search, the state passed between its stages, and progress reports.

Progress is reported to the progress bar of the command line, a notebook or a log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import pairwise
from os import PathLike

import numpy as np

from covary._precision import precision
from covary._threads import blas_threads
from covary.data import Data
from covary.gram.base import COARSEST, DENSE_ROWS, ITERATED, AbstractGram, row_levels, some
from covary.gram.dense import on_few_rows
from covary.inference.base import AbstractInference
from covary.inference.ep import EP
from covary.inference.exact import Exact
from covary.inference.laplace import Laplace
from covary.inference.plan import HasModel
from covary.likelihoods.base import AbstractLikelihood
from covary.likelihoods.gaussian import Gaussian
from covary.model import Model
from covary.optimise.base import Clock, Result
from covary.optimise.lbfgs import lbfgs
from covary.parameters import POSITIVE, Packing
from covary.selection.journal import Journal, JournalKey
from covary.selection.learned import Restart
from covary.selection.objectives import Custom, Objective
from covary.selection.peaks import GAIN, ROUGH, Level, Peak, joins
from covary.selection.priors import Density, Priors

_WATCHER: ContextVar[Callable[[Progress], None] | None] = ContextVar("watcher", default=None)

_COUNTER: ContextVar[Callable[[str, int, int], None] | None] = ContextVar("counter", default=None)

A_START, A_LEVEL = 40, 8  # expected number of evaluations: on the coarsest level, and on each finer one


@dataclass(frozen=True)
class Progress:
    """One evaluation of a search: its position (``rows`` of ``levels[level]``, start ``start`` of ``starts``), the number of
    evaluations so far, the best value on this level, the elapsed seconds, and the approximate ``fraction`` completed."""

    rows: int
    levels: tuple[int, ...]
    level: int
    start: int
    starts: int
    steps: int
    value: float
    seconds: float
    fraction: float


@contextmanager
def watching(callback: Callable[[Progress], None], pieces: Callable[[str, int, int], None] | None = None) -> Iterator[None]:
    """Report every evaluation of every search inside this block to ``callback``.

    Work in many pieces, such as the experts of a committee, calls ``pieces`` with its name, the number of finished pieces
    and the total number.

    Examples
    --------
    >>> from covary import GP, Data, Model, learn
    >>> seen = []
    >>> with watching(seen.append):
    ...     fit = learn(Model(GP("Matern52()")), Data([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0]))
    >>> len(seen) == fit.steps and 0 < seen[-1].fraction <= 1
    True
    """
    token, other = _WATCHER.set(callback), _COUNTER.set(pieces)
    try:
        yield
    finally:
        _WATCHER.reset(token)
        _COUNTER.reset(other)


def counting(what: str) -> Callable[[int, int], None] | None:
    """Return the function that an executor calls with (finished, total) to report progress; None without a watcher."""
    tell = _COUNTER.get()
    return None if tell is None else lambda done, total: tell(what, done, total)


class Tracker:
    """The progress of one search, reported to the watcher if there is one."""

    def __init__(
        self, levels: tuple[int, ...], starts: int, parameters: int, began: float, costs: Sequence[float] | None = None
    ) -> None:
        self.levels, self.starts, self.parameters, self.began = levels, starts, parameters, began
        self.callback = _WATCHER.get()
        cost = [float(rows) ** 2 * (rows + 2000.0) for rows in levels] if costs is None else [float(c) for c in costs]
        self.cost = cost
        self.done, self.steps, self.start, self.level, self.best, self.fraction = 0.0, 0, 0, 0, -float("inf"), 0.0

    @property
    def total(self) -> float:
        """The expected cost of the search."""
        finer = sum(self.parameters * below + A_LEVEL * here for below, here in pairwise(self.cost))
        return self.starts * A_START * self.cost[0] + finer

    def trained(self, rows: int, step: int, steps: int, value: float) -> None:
        """Record one of ``steps`` steps on batches of rows."""
        if self.callback is None:
            return
        begun = min(0.3, self.fraction)
        fraction = max(self.fraction, min(0.99, begun + (1 - begun) * step / max(steps, 1)))
        self.fraction, self.steps = fraction, self.steps + 1
        levels, seconds = (*self.levels, rows), time.monotonic() - self.began
        self.callback(Progress(rows, levels, len(levels) - 1, 0, self.starts, self.steps, value, seconds, fraction))

    def evaluated(self, level: int, value: float) -> None:
        """Record one evaluation on a level, given its index."""
        if self.callback is None:
            return
        if level != self.level:
            self.level, self.best = level, -float("inf")
        if level == 0:  # every start has the same share, whenever it ends
            self.done = max(self.done, self.cost[0] * A_START * self.start) + self.cost[0]
        else:
            self.done = max(self.done, self.starts * A_START * self.cost[0]) + self.cost[level]
        self.steps, self.best = self.steps + 1, max(self.best, value)
        self.fraction = max(self.fraction, min(0.99, self.done / max(self.total, 1.05 * self.done)))
        seconds = time.monotonic() - self.began
        self.callback(
            Progress(
                self.levels[level], self.levels, level, self.start, self.starts, self.steps, self.best, seconds, self.fraction
            )
        )


@dataclass(frozen=True)
class Settings:
    """The arguments of ``learn``; see there."""

    model: Model
    data: Data
    clock: Clock
    objective: Custom | None
    inference: AbstractInference
    gram: AbstractGram
    priors: Mapping[str, Density] | None
    tie: Sequence[Sequence[str]]
    n_restarts: int
    starts: tuple[Model | HasModel, ...]
    rivals: tuple[Model | HasModel, ...]
    reserve: float
    coarse: bool
    checkpoint: str | PathLike[str] | None
    key: int

    @property
    def stochastic(self) -> bool:
        """Whether the search ends with training on batches of rows."""
        return self.inference.in_batches


@dataclass
class Search:
    """The state of one search.

    ``problem`` is the current objective (a rival that replaces the model has its own), ``natural`` the model at the scales of
    the data, ``theta0`` and ``centre`` the initial and the natural model as vectors, ``levels`` the rows of the remaining
    levels, ``coarse`` the objective on the first of them, ``plain`` its value at ``theta0``, ``points`` all starts,
    ``results`` their end points, and ``peaks`` the distinct ones of these, the best first.
    """

    settings: Settings
    priors: Priors
    natural: Model
    problem: Objective
    theta0: np.ndarray
    centre: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    ladder: Levels
    levels: tuple[int, ...]
    journal: Journal | None
    began: float
    tracker: Tracker
    coarse: Level = field(init=False)
    plain: float = np.inf
    points: list[np.ndarray] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    peaks: list[Peak] = field(default_factory=list)
    history: list[tuple[int, float]] = field(default_factory=list)
    restarts: list[Restart] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.look()

    @property
    def clock(self) -> Clock:
        """The clock that limits the search."""
        return self.settings.clock

    @property
    def best(self) -> Result:
        """The best end point so far."""
        return self.peaks[0].end

    @property
    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of the vector."""
        return self.lower, self.upper

    @property
    def seconds(self) -> float:
        """The elapsed time of the search in seconds."""
        return time.monotonic() - self.began

    @property
    def only(self) -> bool:
        """Whether there is one start and nothing to compare it with."""
        return len(self.points) + len(self.settings.rivals) == 1

    @property
    def fine(self) -> float:
        """The final tolerance on the gain of a step; smaller if modes can be multiple, where valleys are flatter."""
        return GAIN if self.settings.model.likelihood.log_concave else GAIN / 10

    def need(self, rows: int) -> float:
        """Estimate the seconds per evaluation on a level."""
        return self.ladder.seconds(rows, self.clock)

    def late(self) -> bool:
        """Return whether there is no time for another evaluation on the first level."""
        return self.clock.over(self.need(self.levels[0]))

    def clipped(self, theta: np.ndarray) -> np.ndarray:
        """Clip a point to the box."""
        return np.clip(theta, self.lower, self.upper)

    def on(self, rows: int) -> Level:
        """Return the objective on a level, with timing, journal and progress reports."""
        compute, clock, finest = self.problem.at(*self.ladder.at(rows)), self.clock, self.ladder.sizes[-1]
        closing = rows != finest and not self.settings.stochastic  # an interrupted coarse search is evaluated on all rows

        def timed(theta: np.ndarray) -> tuple[float, np.ndarray]:
            with clock.timing(rows):
                found = compute(theta)
            full = self.need(finest)
            after = full if closing else 0.0
            clock.kept = self.settings.reserve * (clock.took.get("settle", 0.0) + full) + after
            return found

        def note(value: float) -> None:
            self.history.append((rows, -value))
            self.tracker.evaluated(self.tracker.levels.index(rows), -value)

        if self.journal is None:
            return Level(timed, note)
        part = JournalKey(rows, starts=len(self.restarts), settled=self.ladder.version)
        return Level(self.journal.kept(part, timed), note)

    def look(self) -> None:
        """Rebuild the objective on the first level after a change of the problem, the levels or the settled gram."""
        self.coarse = self.on(self.levels[0])

    def climb(self, point: np.ndarray, tolerance: float = ROUGH, most: int = 150, known: Sequence[Result] = ()) -> Result:
        """Search on the first level from one point; the search stops early when it approaches a known end point."""
        with blas_threads(self.levels[0]):
            return lbfgs(
                self.coarse.function,
                point,
                lower=self.lower,
                upper=self.upper,
                tolerance=tolerance,
                max_steps=most,
                deadline=self.clock,
                note=self.coarse.note,
                stop=lambda x, value: joins(x, value, known),
            )


# levels -------------------------------------------------------------------------------------------------------------
def coarse_inference(likelihood: AbstractLikelihood) -> AbstractInference:
    """Return the inference that replaces variational inference on the few rows of a coarse level."""
    if isinstance(likelihood, Gaussian):
        return Exact()
    return Laplace() if likelihood.smooth else EP()


class Levels:
    """The levels of one search as defined by its gram; dense ones if training in batches follows.

    Parameters
    ----------
    data, gram
        The data to learn from, and the representation of K.
    iterated
        Whether every evaluation takes several factorisations.
    coarse
        Whether there are levels below the finest.
    batches
        Whether training in batches follows, which is not a level.
    key
        Seed of random subsets.
    """

    def __init__(
        self, data: Data, gram: AbstractGram, *, iterated: bool, coarse: bool = True, batches: bool = False, key: int = 0
    ) -> None:
        self.data, self.gram, self.key, self.batches = data, gram, key, batches
        self.settled: tuple[AbstractGram, Data] | None = None
        self.model: Model | None = None
        self.version = 0  # number of calls of settle
        coarsest = ITERATED if iterated else COARSEST
        if batches:
            self.sizes = row_levels(min(data.rows, DENSE_ROWS // 2), coarsest)
        else:
            self.sizes = gram.levels(data.rows, coarsest if coarse else None)

    def gain(self, rows: int) -> float:
        """Return the tolerance on the gain of a step: if K is approximated, at least 0.00001 nats per row."""
        return GAIN * max(1.0, rows / 1000) if self.gram.approximates(rows) else GAIN

    def costs(self) -> list[float]:
        """Return the approximate cost of an evaluation on each level, in operations."""
        return [self.gram.cost(rows) for rows in self.sizes]

    def settle(self, model: Model, clock: Clock) -> None:
        """Prepare the parts of the gram that depend on the kernel (inducing inputs, neighbours, a subset) for this model."""
        self.version += 1
        with clock.timing("settle"):
            self.settled, self.model = self.gram.prepare(model, self.data, key=self.key), model

    def seconds(self, rows: int, clock: Clock) -> float:
        """Estimate the duration of an evaluation on this level from the last one there, or from those on another level."""
        if rows in clock.took:
            return clock.took[rows]
        costs = dict(zip(self.sizes, self.costs(), strict=True))
        known = [size for size in self.sizes if size in clock.took]
        return clock.took[known[-1]] * costs[rows] / costs[known[-1]] if known and rows in costs else 0.0

    def again(self, clock: Clock) -> float:
        """Estimate the time to settle once more and to evaluate once on the finest level."""
        return clock.took.get("settle", 0.0) + self.seconds(self.sizes[-1], clock)

    def begun(self, packing: Packing[Model]) -> np.ndarray:
        """Return the vector of the model last passed to :meth:`settle`."""
        assert self.model is not None
        return packing.pack(self.model)

    @property
    def now(self) -> tuple[AbstractGram, Data]:
        """The gram as last settled, and its data."""
        return self.settled or (self.gram, self.data)

    def whole(self) -> tuple[Data, AbstractGram]:
        """Return the data and gram of the final posterior: all rows, unless the gram itself uses fewer."""
        gram, data = self.now
        return (data, gram) if gram.thins else self.at(self.sizes[-1])

    def at(self, rows: int) -> tuple[Data, AbstractGram]:
        """Return the data and the gram of this level."""
        gram, data = self.now
        return on_few_rows(data, rows, key=self.key) if self.batches else gram.at(data, rows, key=self.key)

    def arrive(self, rows: int, packing: Packing[Model], theta: np.ndarray) -> np.ndarray | None:
        """Return the start on the first level with an approximate K above an exact one; None on all other levels.

        A few inducing inputs leave variance unexplained that a dense subset explains. It is added to the initial noise;
        otherwise a very small noise found on the subset could stop the search immediately.
        """
        if self.gram.approximates(self.sizes[0]) or rows != next(filter(self.gram.approximates, self.sizes), None):
            return None
        gram, data = self.now
        theta, model = theta.copy(), packing.unpack(theta)
        with precision(data.dtype):
            left = gram.unexplained(model.prior.kernels, some(data.X, DENSE_ROWS, self.key))
        for slot in packing.slots:
            if slot.paths[0] == "likelihood.variance" and slot.space is POSITIVE:
                part = slice(slot.start, slot.stop)
                theta[part] = np.log(np.exp(theta[part]) + left)
        return theta
