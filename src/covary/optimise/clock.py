"""When a search must end: after so many seconds, or when the user says so."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


class Clock:
    """The time left to a search, and whether somebody has asked it to end.

    What is about to be done is asked for with the seconds it is expected to take (``over(need)``), as the last of its kind
    took (``took``, by :meth:`timing`): so a search ends in time rather than an evaluation late. ``kept`` seconds are for what
    follows the search. ``now`` is what tells the time.
    """

    def __init__(self, seconds: float | None = None, *, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self.end = None if seconds is None else now() + seconds
        self.interrupted = False
        self.kept = 0.0
        self.took: dict[Any, float] = {}

    @staticmethod
    def of(limit: Clock | float | None) -> Clock:
        """A clock that runs already, or one that starts now with so many seconds."""
        return limit if isinstance(limit, Clock) else Clock(limit)

    def left(self) -> float:
        """The seconds left, those that are kept excepted."""
        return np.inf if self.end is None else self.end - self.kept - self.now()

    def over(self, need: float = 0.0) -> bool:
        """Whether the search must end now, because what comes next, which takes so many seconds, would be late."""
        return self.interrupted or self.left() < need

    @contextmanager
    def timing(self, what: Any) -> Iterator[None]:
        """Write down how long this block takes."""
        began = self.now()
        yield
        self.took[what] = self.now() - began

    @property
    def status(self) -> str:
        """Why it ended."""
        return "interrupted" if self.interrupted else "out of time"


def over(clock: Clock | float | None, need: float = 0.0) -> bool:
    """Whether a clock, or a moment on :func:`time.monotonic`'s scale, leaves less than these seconds; None never does."""
    if isinstance(clock, Clock):
        return clock.over(need)
    return clock is not None and time.monotonic() + need > clock


class _Ask:
    """What hears the first Ctrl-C: it asks this search to end, and any search of which it is a part."""

    def __init__(self, clock: Clock, before: Any) -> None:
        self.clock, self.before = clock, before

    def __call__(self, number: int, frame: Any) -> None:
        self.clock.interrupted = True
        signal.signal(signal.SIGINT, self.before)
        if isinstance(self.before, _Ask):
            self.before(number, frame)


@contextmanager
def interruptible(clock: Clock) -> Iterator[None]:
    """Inside this block the first Ctrl-C ends the search with the best so far; the second one is an ordinary interrupt.

    Only the main thread hears signals; elsewhere nothing changes.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is None:
        yield
        return
    before: Any = signal.getsignal(signal.SIGINT)
    ask = _Ask(clock, before)
    signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is ask:
            signal.signal(signal.SIGINT, before)
