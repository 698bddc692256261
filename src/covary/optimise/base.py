"""What every optimiser takes and returns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from covary.optimise.clock import Clock, over

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]


@dataclass(frozen=True)
class Result:
    """Where an optimiser ended: the point, the value, the gradient there, how it ended, how many evaluations it took."""

    x: np.ndarray
    value: float
    gradient: np.ndarray
    status: str
    steps: int


class OutOfTime(Exception):
    """Raised inside a search when its time is spent; the best point so far is kept."""


class Recorder:
    """A function with memory: counts evaluations, keeps the best point, turns failures into rejected steps."""

    def __init__(
        self, function: Function, *, deadline: Clock | float | None = None, note: Callable[[float], Any] | None = None
    ) -> None:
        self.function, self.deadline, self.note = function, deadline, note
        self.steps = 0
        self.took = 0.0  # by the last evaluation: the next one is not begun where as much would be late
        self.best: tuple[float, np.ndarray, np.ndarray] | None = None
        self.last: tuple[np.ndarray, tuple[float, np.ndarray]] | None = None

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        if self.last is not None and np.array_equal(self.last[0], x):
            return self.last[1]  # optimisers ask for their start again
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
