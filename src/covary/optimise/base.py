"""Common types of the optimisers, including the status at the end, time limits and interrupts."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TypeAlias

import numpy as np

Handler: TypeAlias = "Callable[[int, FrameType | None], None] | int | signal.Handlers | None"

# kinds of status of a search or an inference: a status is one of them, also with details after it
CONVERGED, NOT_CONVERGED, STUCK, UNBOUNDED = "converged", "not converged", "stuck", "without limit"
JOINED, OUT_OF_TIME, INTERRUPTED = "joined another start", "out of time", "interrupted"


def of_kind(status: str, *kinds: str) -> bool:
    """Return whether a status, which is plain text in model files, is of one of these kinds.

    Examples
    --------
    >>> of_kind("stuck: no step raises the bound", CONVERGED, STUCK), of_kind("not converged", CONVERGED)
    (True, False)
    """
    return status.startswith(kinds)


class Clock:
    """The time left for a search, and whether it was interrupted.

    Call ``over(need)`` before a task with the number of seconds it is expected to take, usually the time of the previous task
    of its kind (``took``, recorded by :meth:`timing`), so that a search ends on time rather than one evaluation late. ``kept``
    seconds are reserved for the work after the search. ``now`` returns the time.
    """

    def __init__(self, seconds: float | None = None, *, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self.end = None if seconds is None else now() + seconds
        self.interrupted = False
        self.kept = 0.0
        self.took: dict[int | str, float] = {}

    @staticmethod
    def of(limit: Clock | float | None) -> Clock:
        """Return a clock that is already running, or start one with a time limit in seconds."""
        return limit if isinstance(limit, Clock) else Clock(limit)

    def left(self) -> float:
        """Return the seconds left, excluding those that are reserved (``kept``)."""
        return np.inf if self.end is None else self.end - self.kept - self.now()

    def over(self, need: float = 0.0) -> bool:
        """Return whether the search must end now because the next task, which takes ``need`` seconds, would end late."""
        return self.interrupted or self.left() < need

    @contextmanager
    def timing(self, what: int | str) -> Iterator[None]:
        """Record how long this block takes."""
        began = self.now()
        yield
        self.took[what] = self.now() - began

    @property
    def status(self) -> str:
        """The reason for ending: interrupted or out of time."""
        return INTERRUPTED if self.interrupted else OUT_OF_TIME


def over(clock: Clock | float | None, need: float = 0.0) -> bool:
    """Return whether a clock or deadline (in :func:`time.monotonic` time) leaves less than ``need`` seconds; False for None."""
    if isinstance(clock, Clock):
        return clock.over(need)
    return clock is not None and time.monotonic() + need > clock


class _Interrupt:
    """The handler of the first Ctrl-C, which ends this search and any enclosing search."""

    def __init__(self, clock: Clock, before: Handler) -> None:
        self.clock, self.before = clock, before

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.clock.interrupted = True
        signal.signal(signal.SIGINT, self.before)
        if isinstance(self.before, _Interrupt):
            self.before(number, frame)


@contextmanager
def interruptible(clock: Clock) -> Iterator[None]:
    """Let the first Ctrl-C in this block end the search with the best result so far; a second one raises KeyboardInterrupt.

    Only the main thread receives signals; in other threads this has no effect.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is None:
        yield
        return
    before: Handler = signal.getsignal(signal.SIGINT)
    handler = _Interrupt(clock, before)
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is handler:
            signal.signal(signal.SIGINT, before)


Function = Callable[[np.ndarray], tuple[float, np.ndarray]]


@dataclass(frozen=True)
class Result:
    """The result of an optimiser: the final point, value and gradient, the status, and the number of evaluations."""

    x: np.ndarray
    value: float
    gradient: np.ndarray
    status: str
    steps: int


class OutOfTime(Exception):
    """Raised inside a search when its time has run out; the best point so far is kept."""


class Recorder:
    """A wrapper of the objective that counts evaluations, records the best point, and enforces the deadline."""

    def __init__(
        self, function: Function, *, deadline: Clock | float | None = None, note: Callable[[float], None] | None = None
    ) -> None:
        self.function, self.deadline, self.note = function, deadline, note
        self.steps = 0
        self.took = 0.0  # duration of the last evaluation; the next one is not started if it would end too late
        self.best: tuple[float, np.ndarray, np.ndarray] | None = None
        self.last: tuple[np.ndarray, tuple[float, np.ndarray]] | None = None

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        if self.last is not None and np.array_equal(self.last[0], x):
            return self.last[1]  # optimisers evaluate their starting point again
        if self.best is not None and over(self.deadline, self.took):
            raise OutOfTime
        now = self.deadline.now if isinstance(self.deadline, Clock) else time.monotonic
        began = now()
        value, gradient = self.function(x)
        self.took = now() - began
        self.last = (x.copy(), (value, gradient.copy()))
        self.steps += 1
        if np.isfinite(value) and (self.best is None or value < self.best[0]):
            self.best = (value, x.copy(), gradient.copy())
        if self.note is not None:
            self.note(value)
        return value, gradient
