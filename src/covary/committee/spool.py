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
from covary._read import open_plain, read_array, read_header
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


def get(folder: str, number: int, mark: str = "", experts: int | None = None) -> Sorted:
    """A row group that was put there, for so many experts if it is known how many.

    A folder of rows travels with a model file, so nothing in it is believed: numbers are a table of ``<f8`` that is in the
    file, offsets run from 0 to its rows and never back.
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
        what = f"{str(path)!r} is no file of sorted rows ({str(error)[:120]})"
        raise fail("fit", what, "remove it and fit again") from None


def _told(file: Any, left: int) -> str:
    """The text at the end of a file."""
    text = read_array(file, left, dimensions=0)
    if text.dtype.kind != "U" or file.read(1):
        raise ValueError("there is no text at its end")
    return str(text)


def _gaps(told: Any) -> dict[str, int]:
    """How many rows had a gap, by column."""
    if not isinstance(told, dict) or not all(type(n) is int and n >= 0 for n in told.values()):
        raise ValueError("it does not say which rows had a gap")
    return told


def made(folder: Any) -> Path:
    """The folder, made if it is not there."""
    return make_folder(folder, "fit").resolve()


def reached(folder: str) -> None:
    """Refuse a folder that is not there for this worker, or in which it must not write."""
    if not Path(folder).is_dir():
        raise fail("fit", f"the folder {folder!r} cannot be reached from {socket.gethostname()}", SHARED)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise fail("fit", f"the folder {folder!r} cannot be written to from {socket.gethostname()}", SHARED)
