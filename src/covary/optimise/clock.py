"""When a search must end: after so many seconds, or when the user says so."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Clock:
    """The time left to a search, and whether somebody has asked it to end."""

    def __init__(self, seconds: float | None = None) -> None:
        self.end = None if seconds is None else time.monotonic() + seconds
        self.interrupted = False

    def over(self) -> bool:
        """Whether the search must end now."""
        return self.interrupted or (self.end is not None and time.monotonic() > self.end)

    @property
    def status(self) -> str:
        """Why it ended."""
        return "interrupted" if self.interrupted else "out of time"


def over(clock: Clock | float | None) -> bool:
    """Whether a clock, or a moment on :func:`time.monotonic`'s scale, has passed; None never does."""
    if isinstance(clock, Clock):
        return clock.over()
    return clock is not None and time.monotonic() > clock


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
    signal.signal(signal.SIGINT, _Ask(clock, before))
    try:
        yield
    finally:
        if not clock.interrupted:
            signal.signal(signal.SIGINT, before)
