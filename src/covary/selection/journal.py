"""A journal of evaluations on disk, so that an interrupted search can be repeated without recomputing them.

A search is a fixed sequence of evaluations for a given problem and seed. The journal therefore holds no optimiser state, only
(part of the search, parameters) → (value, gradient). The same call reads its past evaluations and gives the same result.
"""

from __future__ import annotations

from os import PathLike
from typing import NamedTuple, cast

import numpy as np

from covary.executors.checkpoint import Checkpoint
from covary.optimise.base import Function


class JournalKey(NamedTuple):
    """The part of a search that an evaluation belongs to, which identifies its objective within the search.

    ``rows`` of the level, number of ``starts`` completed on the coarsest level when the objective was created (every rival has
    its own objective), and number of times the gram had been ``settled``.
    """

    rows: int
    starts: int = 0
    settled: int = 0


class Journal:
    """Evaluations of one search, each saved immediately.

    Parameters
    ----------
    path
        The file; created if it does not exist.
    problem
        Fingerprint of the problem; the file of another problem raises an error.
    size
        Number of parameters.
    """

    def __init__(self, path: str | PathLike[str], problem: str, size: int) -> None:
        self._evaluations = Checkpoint(path, f"{problem} {size}", kind="search", who="learn")

    def kept(self, part: JournalKey, function: Function) -> Function:
        """Return the function with lookup of earlier evaluations in this part of the search."""

        def looked_up(theta: np.ndarray) -> tuple[float, np.ndarray]:
            name = f"{part.rows} {part.starts} {part.settled} {np.asarray(theta, np.float64).tobytes().hex()}"
            known = self._evaluations.get(name)
            if known is not None:
                value, gradient = cast("tuple[float, np.ndarray]", known)
                return value, gradient
            value, gradient = function(theta)
            self._evaluations.put(name, (float(value), np.asarray(gradient, np.float64)))
            return value, gradient

        return looked_up
