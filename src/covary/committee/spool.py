"""Sorted rows on disk: one file for every row group, with where each expert begins, the rows, and the gaps that were found.

Files are named by a mark, in which table, target and parts are contained: a folder may hold the rows of several models, and a
fit that is broken off costs none of them anything.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from covary._checks import fail
from covary._write import make_folder, whole_file

MARK = 12  # characters of the mark that stand in a name
SHARED = "give a folder on a disk that all workers share"


class Sorted(NamedTuple):
    """A row group: its rows, not yet read, where each expert begins among them, and how many had a gap by column."""

    numbers: np.ndarray
    offsets: np.ndarray
    gaps: dict[str, int]


def place(folder: str | Path, number: int, mark: str = "") -> Path:
    """The file of a row group."""
    return Path(folder) / f"rows-{mark[:MARK]}{'-' if mark else ''}{number:06d}.spool"


def spool_files(folder: str, files: int, mark: str = "") -> list[str]:
    """The files of a table."""
    return [str(place(folder, number, mark)) for number in range(files)]


def put(folder: str, number: int, mark: str, content: Sorted) -> None:
    """Write a row group, whole or not at all."""
    with whole_file(place(folder, number, mark), "spread") as file:
        np.save(file, content.offsets)
        np.save(file, content.numbers)
        np.save(file, np.array(f"{mark} {json.dumps(content.gaps)}"))


def get(folder: str, number: int, mark: str = "") -> Sorted:
    """A row group that was put there."""
    path = place(folder, number, mark)
    try:
        with open(path, "rb") as file:
            offsets = np.load(file, allow_pickle=False)
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            start = file.tell()
            numbers = np.memmap(file, dtype, "r", start, shape) if shape[0] else np.empty(shape)
            file.seek(start + numbers.nbytes)
            found, _, gaps = str(np.load(file, allow_pickle=False)).partition(" ")
            if found != mark:
                raise ValueError("it belongs to another fit")
            return Sorted(numbers, offsets, json.loads(gaps))
    except (OSError, ValueError, EOFError) as error:
        what = f"{str(path)!r} cannot be read on {socket.gethostname()} ({getattr(error, 'strerror', None) or error})"
        raise fail("fit", what, SHARED) from None


def made(folder: Any) -> Path:
    """The folder, made if it is not there."""
    return make_folder(folder, "fit").resolve()


def reached(folder: str) -> None:
    """Refuse a folder that is not there for this worker, or in which it must not write."""
    if not Path(folder).is_dir():
        raise fail("fit", f"the folder {folder!r} cannot be reached from {socket.gethostname()}", SHARED)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise fail("fit", f"the folder {folder!r} cannot be written to from {socket.gethostname()}", SHARED)
