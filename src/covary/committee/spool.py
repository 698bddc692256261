"""Rows on disk sorted by expert: one file per row group, with the offset of each expert, the rows, and missing-value counts.

File names contain a mark that identifies the table, the target and the partition. A folder can therefore contain the rows of
several models, and an interrupted fit does not affect the others.
"""

from __future__ import annotations

import json
import os
import socket
from os import PathLike
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from covary._checks import fail
from covary._read import open_plain, read_array, read_header
from covary._write import make_folder, whole_file

MARK = 12  # number of characters of the mark in a file name
SHARED = "give a folder on a disk that all workers share"


class Sorted(NamedTuple):
    """A row group: its rows (not yet read), the offset of each expert, and the number of missing values by column."""

    numbers: np.ndarray
    offsets: np.ndarray
    gaps: dict[str, int]


def place(folder: str | Path, number: int, mark: str = "") -> Path:
    """Return the file of a row group."""
    return Path(folder) / f"rows-{mark[:MARK]}{'-' if mark else ''}{number:06d}.spool"


def spool_files(folder: str, files: int, mark: str = "") -> list[str]:
    """Return the files of a table."""
    return [str(place(folder, number, mark)) for number in range(files)]


def put(folder: str, number: int, mark: str, content: Sorted) -> None:
    """Write a row group, completely or not at all."""
    with whole_file(place(folder, number, mark), "spread") as file:
        np.save(file, content.offsets)
        np.save(file, content.numbers)
        np.save(file, np.array(f"{mark} {json.dumps(content.gaps)}"))


def get(folder: str, number: int, mark: str = "", experts: int | None = None) -> Sorted:
    """Read a row group, and check it against the number of experts if it is given.

    The folder may have been copied with a model file, so its content is validated: the numbers must be an array of ``<f8``
    within the file, and the offsets must increase from 0 to its number of rows.
    """
    path = place(folder, number, mark)
    try:
        with open_plain(path) as file:
            size = os.fstat(file.fileno()).st_size
            offsets = read_array(file, size, ("<i8",), 1)
            header = read_header(file, size - file.tell(), ("<f8",), 2)
            start, rows = file.tell(), header.shape[0]
            if header.fortran or len(offsets) != (max(1, len(offsets)) if experts is None else experts + 1):
                raise ValueError("it was written for other experts")
            if offsets[0] != 0 or offsets[-1] != rows or (np.diff(offsets) < 0).any() or (rows and header.shape[1] < 2):
                raise ValueError("its experts do not have its rows")
            numbers = np.memmap(file, header.dtype, "r", start, header.shape) if rows else np.empty(header.shape)
            file.seek(start + header.nbytes)
            found, _, gaps = _told(file, size - file.tell()).partition(" ")
            if found != mark:
                raise ValueError("it belongs to another fit")
            return Sorted(numbers, offsets, _gaps(json.loads(gaps)))
    except OSError as error:
        what = f"{str(path)!r} cannot be read on {socket.gethostname()} ({error.strerror or error})"
        raise fail("fit", what, SHARED) from None
    except (ValueError, RecursionError) as error:
        what = f"{str(path)!r} is not a file of sorted rows ({str(error)[:120]})"
        raise fail("fit", what, "remove it and fit again") from None


def _told(file: IO[bytes], left: int) -> str:
    """Read the text at the end of a file."""
    text = read_array(file, left, dimensions=0)
    if text.dtype.kind != "U" or file.read(1):
        raise ValueError("there is no text at its end")
    return str(text)


def _gaps(told: dict[str, int] | None) -> dict[str, int]:
    """Return the number of rows with a missing value, by column."""
    if not isinstance(told, dict) or not all(type(n) is int and n >= 0 for n in told.values()):
        raise ValueError("it has no counts of missing values")
    return told


def made(folder: str | PathLike[str]) -> Path:
    """Return the folder, created if it does not exist."""
    return make_folder(folder, "fit", argument="folder").resolve()


def reached(folder: str) -> None:
    """Raise an error if this worker cannot access the folder, or cannot write to it."""
    if not Path(folder).is_dir():
        raise fail("fit", f"the folder {folder!r} cannot be reached from {socket.gethostname()}", SHARED)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise fail("fit", f"the folder {folder!r} cannot be written to from {socket.gethostname()}", SHARED)
