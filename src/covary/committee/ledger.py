"""Checkpoints of a committee: results of finished groups of experts in a folder, from which an interrupted fit resumes."""

from __future__ import annotations

import os
from contextlib import suppress
from os import PathLike
from pathlib import Path

from covary._checks import fail
from covary._write import clear_parts, make_folder
from covary.executors.checkpoint import Checkpoint, Result

PIECES, SAMPLE = "experts.checkpoint", "sample.checkpoint"  # the groups of experts, and the search on the sample


class Ledger:
    """Results of the finished groups of experts of one problem, in a folder with the checkpoint of the search on the sample.

    Parameters
    ----------
    folder
        Folder to use, created if it does not exist. A folder that contains other files raises an error.
    problem
        Fingerprint of the problem. A ledger of another problem raises an error.
    """

    def __init__(self, folder: str | PathLike[str], problem: str) -> None:
        self.place, self.problem = make_folder(folder, "learn", argument="checkpoint"), problem
        known = {PIECES, SAMPLE}
        others = [name for name in os.listdir(self.place) if name not in known and not name.endswith(".part")]
        if others and not (self.place / PIECES).exists():
            do = "give a new or an empty folder"
            raise fail("learn", f"the folder {str(folder)!r} contains other files", do, argument="checkpoint")
        self._pieces = self._opened()

    def _opened(self) -> Checkpoint:
        return Checkpoint(self.place / PIECES, self.problem, kind="experts", who="learn")

    @property
    def sample(self) -> Path:
        """Checkpoint file of the search on the sample."""
        return self.place / SAMPLE

    def get(self, name: str) -> Result:
        """Return the result stored under this name; None if there is none."""
        return self._pieces.get(name)

    def put(self, name: str, result: Result) -> None:
        """Store the result of a finished group."""
        if not self.place.is_dir():
            make_folder(self.place, "learn", argument="checkpoint")
        self._pieces.put(name, result)

    def clear(self) -> None:
        """Remove the results and the checkpoint of the search, and the folder if it is then empty."""
        self._pieces.clear()
        self.sample.unlink(missing_ok=True)
        if self.place.is_dir():
            clear_parts(self.place)
            with suppress(OSError):
                self.place.rmdir()
