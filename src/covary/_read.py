"""Files that may come from anybody, read without trust: plain files, plain arrays, never more than the bytes that are there.

NumPy's own readers allocate what a header claims, and evaluate it; here a header is one line of a fixed form, and what it
claims must be in the file. Whatever is wrong is a ``ValueError``, or an ``OSError`` where the file itself cannot be read.
"""

from __future__ import annotations

import errno
import io
import math
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Sequence
from typing import IO, Any, NamedTuple

import numpy as np

HEADER = re.compile(
    rb"\{'descr': '([<|][biufcSUmM][0-9]{0,12}(?:\[[0-9]{0,9}[A-Za-z]{1,7}\])?)', "
    rb"'fortran_order': (True|False), 'shape': \(((?:[0-9]{1,15}, ?)*(?:[0-9]{1,15})?)\), \} *\n"
)
MOST_HEADER, MOST_DIMENSIONS, MOST_MEMBERS = 4096, 32, 2**16


def open_plain(path: str | os.PathLike[str]) -> io.BufferedReader:
    """A plain file to read from; a pipe, a device or a folder is an ``OSError``, and nobody waits for a writer."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        _plain(os.fstat(handle).st_mode, path)
    except BaseException:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def check_plain(path: str | os.PathLike[str]) -> None:
    """An ``OSError`` where there is no plain file, for readers that open it themselves."""
    _plain(os.stat(path).st_mode, path)


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a plain file, or of a pipe that is open already (``/dev/fd/63``, as a shell hands over ``<(...)``)."""
    if os.path.dirname(os.fspath(path)) in ("/dev/fd", "/proc/self/fd") and stat.S_ISFIFO(os.stat(path).st_mode):
        with open(path, "rb") as pipe:
            return pipe.read()
    with open_plain(path) as file:
        return file.read()


def _plain(mode: int, path: Any) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "a pipe or a device, not a plain file", str(path))


class Header(NamedTuple):
    """What stands before the bytes of an array, checked against how many bytes there are."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool

    @property
    def nbytes(self) -> int:
        """The bytes of the array."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: IO[bytes], left: int, types: Sequence[str] | None = None, dimensions: int | None = None) -> Header:
    """The header of an array in NumPy's format, version 1.0; the file stands where the array begins.

    Parameters
    ----------
    file
        Where it is read from.
    left
        How many bytes there are from here on; no array claims more.
    types
        The types that are allowed (``"<f8"``), if not all plain ones.
    dimensions
        How many the array has, if it is known.
    """
    start = file.read(10)
    length = int.from_bytes(start[8:10], "little")
    if len(start) < 10 or start[:8] != b"\x93NUMPY\x01\x00" or length > MOST_HEADER:
        raise ValueError("there is no array where one is expected")
    found = HEADER.fullmatch(file.read(length))
    if found is None:
        raise ValueError("an array is of a strange type or form")
    if types is not None and found[1].decode() not in types:
        raise ValueError(f"an array is of type {found[1].decode()}, expected {' or '.join(types)}")
    shape = tuple(int(size) for size in found[3].decode().split(",") if size.strip())
    if len(shape) > MOST_DIMENSIONS or (dimensions is not None and len(shape) != dimensions):
        raise ValueError(f"an array has {len(shape)} dimensions")
    try:
        header = Header(np.dtype(found[1].decode()), shape, found[2] == b"True")
    except TypeError:
        raise ValueError(f"an array is of the strange type {found[1].decode()}") from None
    if not header.dtype.itemsize or header.nbytes > left - 10 - length:
        raise ValueError("an array claims more bytes than there are")
    return header


def read_array(
    file: IO[bytes], left: int, types: Sequence[str] | None = None, dimensions: int | None = None
) -> np.ndarray[Any, Any]:
    """An array in NumPy's format: :func:`read_header`, and its numbers."""
    header = read_header(file, left, types, dimensions)
    data = file.read(header.nbytes)
    if len(data) != header.nbytes:
        raise ValueError("an array ends before its end")
    flat = np.frombuffer(data, header.dtype) if data else np.empty(math.prod(header.shape), header.dtype)
    return (flat.reshape(header.shape[::-1]).T if header.fortran else flat.reshape(header.shape)).copy(order="K")


def read_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays that ``np.savez`` wrote; members that are compressed are refused, so that none is larger than the file."""
    with open_plain(path) as raw:
        size = os.fstat(raw.fileno()).st_size
        try:
            with zipfile.ZipFile(raw) as archive:
                members = archive.infolist()
                names = [m.filename.removesuffix(".npy") for m in members]
                if len(members) > MOST_MEMBERS or len(set(names)) < len(names):
                    raise ValueError("it has too many members, or the same one twice")
                if any(m.compress_type != zipfile.ZIP_STORED or m.flag_bits & 1 for m in members):
                    raise ValueError("it has compressed members")
                if sum(m.file_size for m in members) > size:
                    raise ValueError("it claims more bytes than it has")
                out = {}
                for name, member in zip(names, members, strict=True):
                    with archive.open(member) as file:
                        out[name] = read_array(file, member.file_size)
                        if file.read(1):  # the checksum is compared at the end
                            raise ValueError("an array goes on after its end")
                return out
        except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, IndexError, RuntimeError, NotImplementedError) as error:
            raise ValueError(f"damaged ({type(error).__name__})") from None
        except OverflowError:
            raise ValueError("damaged") from None
