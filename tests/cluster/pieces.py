"""Functions that the workers run in the tests; the workers import this module, so it imports nothing from the tests."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np


def load(number: int) -> np.ndarray:
    """Rows that are the same wherever they are loaded."""
    return np.random.default_rng(number).normal(size=(40, 3))


def evaluate(rows: np.ndarray, theta: np.ndarray, pause: float = 0.0, log: str | None = None) -> tuple[float, np.ndarray]:
    """Something with many digits; leaves a file in ``log`` each time it is done."""
    time.sleep(pause)
    scaled = rows * np.asarray(theta).ravel()[:3]
    gram = np.exp(-0.5 * ((scaled[:, None] - scaled[None]) ** 2).sum(-1)) + 0.1 * np.eye(len(rows))
    value, vector = float(np.linalg.slogdet(gram)[1]), np.linalg.solve(gram, rows[:, 0])
    if log is not None:
        (Path(log) / uuid.uuid4().hex).touch()
    return value, vector


def fail_at(number: int, where: int, pause: float = 0.0) -> int:
    """Refuses one of its pieces."""
    time.sleep(pause)
    if number == where:
        from covary._checks import CovaryError

        raise CovaryError("pieces", f"piece {number} is refused")
    return number


def fill(number: int, greedy: int, pause: float = 0.0) -> int:
    """Takes memory without end at one of its pieces."""
    time.sleep(pause)
    if number == greedy:
        held = []
        while True:
            held.append(np.ones(2**22))
            time.sleep(0.02)
    return number


def late(number: int, error: str) -> int:
    """Raises an error that an executor might take for its own."""
    raise {"timeout": TimeoutError, "os": OSError, "key": KeyError}[error]("mine")


def pid(_: Any) -> int:
    """Who does it."""
    time.sleep(0.1)
    return os.getpid()


def and_me(home: int) -> tuple[int, int]:
    """Who loaded it, and who has it now."""
    time.sleep(0.02)
    return home, os.getpid()


def threads(_: Any) -> dict[str, Any]:
    """How many threads numerical libraries use here."""
    from threadpoolctl import threadpool_info

    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NPROC")
    return {"pools": max(p["num_threads"] for p in threadpool_info()), **{n: os.environ.get(n) for n in names}}


def encode(frame: Any) -> np.ndarray:
    """A table of numbers as it is."""
    return frame.to_numpy(float)


class Signs:
    """Four experts, by the signs of two inputs."""

    def assign(self, x: np.ndarray, key: int) -> np.ndarray:
        """The expert of every row."""
        return 2 * (x[:, 0] > 0) + (x[:, 1] > 0)


def total(experts: list[Any]) -> list[tuple[int, float]]:
    """Rows of each expert, and a number that depends on all of them and their order."""
    return [(data.rows, float(np.cumsum(data.X.x[:, 0] * data.y).sum())) for data in experts]
