"""A journal of evaluations on disk: a search that was killed is run again, and what it knew is not computed again.

A search is a fixed sequence of evaluations for a given problem and seed. So the journal holds no state of the optimiser, only
(rows, parameters) → (value, gradient): the same call finds its own past there and ends where it would have ended.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from covary._checks import fail
from covary._module import Module
from covary._read import open_plain
from covary._write import Unfit, where, whole_file

FORMAT = "covary journal 1"

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]


def fingerprint(*parts: Any) -> str:
    """A short name of a problem: arrays by their bytes, modules by their numbers and structure, all else by its text."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Module):
            leaves, structure = jax.tree_util.tree_flatten(part)
            digest.update(fingerprint(*map(np.asarray, leaves), structure).encode())
        elif isinstance(part, np.ndarray):
            digest.update(repr((part.shape, part.dtype.str)).encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(repr(part).encode())
    return digest.hexdigest()[:32]


class Journal:
    """Evaluations of one problem, each written down as soon as it is made.

    Parameters
    ----------
    path
        The file; created if it is not there.
    problem
        The problem's fingerprint: a file of another problem is refused.
    size
        How many parameters.
    """

    def __init__(self, path: Any, problem: str, size: int) -> None:
        found = where(path, stream=False)
        if isinstance(found, Unfit):
            raise fail("Journal", *found)
        self.name, self.path = str(path), found.target
        self.size, self.known = size, dict[bytes, tuple[float, np.ndarray]]()
        head = json.dumps({"format": FORMAT, "problem": problem, "size": size}).encode() + b"\n"
        if found.old is not None and found.old.st_size:
            self._read(head)
        else:
            with whole_file(self.path, "Journal") as file:
                file.write(head)

    def _read(self, head: bytes) -> None:
        with self._complaining("read"), open_plain(self.path) as file:
            raw = file.read()
        if not raw.startswith(head):
            raise fail(
                "Journal",
                f"the checkpoint {self.name!r} belongs to another problem (other data, model or settings)",
                "give another file name, or remove it",
            )
        width = 8 * (2 + 2 * self.size)
        body = raw[len(head) :]
        whole = len(body) // width * width
        for start in range(0, whole, width):
            record = np.frombuffer(body[start : start + width])
            self.known[record[: 1 + self.size].tobytes()] = (float(record[1 + self.size]), record[2 + self.size :].copy())
        if whole != len(body):  # killed while writing: the last record is dropped
            with whole_file(self.path, "Journal") as file:
                file.write(raw[: len(head) + whole])

    @contextmanager
    def _complaining(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            what = f"the checkpoint {self.name!r} cannot be {what} ({error.strerror or error})"
            raise fail("Journal", what, "free space, or give another file") from None

    def kept(self, level: float, function: Function) -> Function:
        """The function, which looks into the journal first; ``level`` tells apart what is evaluated on other rows."""

        def looked_up(theta: np.ndarray) -> tuple[float, np.ndarray]:
            key = np.concatenate([[float(level)], np.asarray(theta, np.float64)]).tobytes()
            if key in self.known:
                value, gradient = self.known[key]
                return value, gradient.copy()
            value, gradient = function(theta)
            with self._complaining("written to"), open(self.path, "ab") as file:
                file.write(key + np.concatenate([[value], gradient]).tobytes())
            self.known[key] = (float(value), np.array(gradient))
            return value, gradient

        return looked_up
