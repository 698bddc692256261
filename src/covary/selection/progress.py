"""How far a search has come, for whoever watches: the command's progress bar, a notebook, a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise

_WATCHER: ContextVar[Callable[[Progress], None] | None] = ContextVar("watcher", default=None)

_COUNTER: ContextVar[Callable[[str, int, int], None] | None] = ContextVar("counter", default=None)

A_START, A_LEVEL = 40, 8  # evaluations a search is expected to take: on the coarsest level, and on each finer one


@dataclass(frozen=True)
class Progress:
    """One evaluation of a search: where it is (``rows`` of ``levels[level]``, start ``start`` of ``starts``), how many
    evaluations it has made, the best value so far on this level, seconds since it began, and a rough ``fraction`` done."""

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
    """Inside this block every search reports each of its evaluations to ``callback``, and work in many pieces (that of a
    committee's experts) reports what it is, how many are finished and how many there are to ``pieces``.

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
    """What an executor calls with (finished, in all) to tell whoever watches; None if nobody does."""
    tell = _COUNTER.get()
    return None if tell is None else lambda done, total: tell(what, done, total)


class Tracker:
    """Keeps count for one search, and tells the watcher if there is one."""

    def __init__(
        self, levels: tuple[int, ...], starts: int, parameters: int, began: float, costs: Sequence[float] | None = None
    ) -> None:
        self.levels, self.starts, self.began = levels, starts, began
        self.callback = _WATCHER.get()
        cost = [float(rows) ** 2 * (rows + 2000.0) for rows in levels] if costs is None else [float(c) for c in costs]
        self.cost = cost
        self.total = starts * A_START * cost[0]
        self.total += sum(parameters * below + A_LEVEL * here for below, here in pairwise(cost))
        self.done, self.steps, self.start, self.level, self.best, self.fraction = 0.0, 0, 0, 0, -float("inf"), 0.0

    def trained(self, rows: int, step: int, steps: int, value: float) -> None:
        """Note a step of so many on batches of rows."""
        if self.callback is None:
            return
        begun = min(0.3, self.fraction)
        fraction = max(self.fraction, min(0.99, begun + (1 - begun) * step / max(steps, 1)))
        self.fraction, self.steps = fraction, self.steps + 1
        levels, seconds = (*self.levels, rows), time.monotonic() - self.began
        self.callback(Progress(rows, levels, len(levels) - 1, 0, self.starts, self.steps, value, seconds, fraction))

    def evaluated(self, rows: int, value: float) -> None:
        """Note one evaluation on so many rows."""
        if self.callback is None:
            return
        level = self.levels.index(rows)
        if level != self.level:
            self.level, self.best = level, -float("inf")
        if level == 0:  # a start that ends early or late does not move the share of the others
            self.done = max(self.done, self.cost[0] * A_START * self.start) + self.cost[0]
        else:
            self.done = max(self.done, self.starts * A_START * self.cost[0]) + self.cost[level]
        self.steps, self.best = self.steps + 1, max(self.best, value)
        self.fraction = max(self.fraction, min(0.99, self.done / max(self.total, 1.05 * self.done)))
        seconds = time.monotonic() - self.began
        self.callback(
            Progress(rows, self.levels, level, self.start, self.starts, self.steps, self.best, seconds, self.fraction)
        )
