"""Safe reading of untrusted files: regular files and plain arrays only, and never more bytes than the file contains.

NumPy's readers evaluate the header and allocate whatever size it declares. Here a header must match a fixed pattern, and the
size it declares must be present in the file. Invalid content raises ``ValueError``; a file that cannot be read, ``OSError``.
"""

from __future__ import annotations

import errno
import hashlib
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
    """Open a regular file for reading without blocking. Raises ``OSError`` for a pipe, a device or a folder."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        _plain(os.fstat(handle).st_mode, path)
    except BaseException:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def check_plain(path: str | os.PathLike[str]) -> None:
    """Raise ``OSError`` if the path is not a regular file, for readers that open it themselves."""
    _plain(os.stat(path).st_mode, path)


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a regular file, or of a pipe that is already open (``/dev/fd/63``, as from ``<(...)`` in a shell)."""
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
    """Header of an array in a file, checked against the number of bytes present."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool

    @property
    def nbytes(self) -> int:
        """Number of bytes of the array."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: IO[bytes], left: int, types: Sequence[str] | None = None, dimensions: int | None = None) -> Header:
    """Read the header of an array in NumPy's format, version 1.0.

    Parameters
    ----------
    file
        The file, positioned at the beginning of the array.
    left
        Number of bytes from there to the end; an array may not declare more.
    types
        The allowed types, such as ``"<f8"``; all plain types by default.
    dimensions
        The required number of dimensions; any by default.
    """
    start = file.read(10)
    length = int.from_bytes(start[8:10], "little")
    if len(start) < 10 or start[:8] != b"\x93NUMPY\x01\x00" or length > MOST_HEADER:
        raise ValueError("an array was expected but not found")
    found = HEADER.fullmatch(file.read(length))
    if found is None:
        raise ValueError("the type or shape of an array is not supported")
    if types is not None and found[1].decode() not in types:
        raise ValueError(f"an array is of type {found[1].decode()}, expected {' or '.join(types)}")
    shape = tuple(int(size) for size in found[3].decode().split(",") if size.strip())
    if len(shape) > MOST_DIMENSIONS or (dimensions is not None and len(shape) != dimensions):
        raise ValueError(f"an array has {len(shape)} dimensions")
    try:
        header = Header(np.dtype(found[1].decode()), shape, found[2] == b"True")
    except TypeError:
        raise ValueError(f"an array has the unsupported type {found[1].decode()}") from None
    if not header.dtype.itemsize or header.nbytes > left - 10 - length:
        raise ValueError("the header of an array declares more bytes than there are")
    return header


def read_array(
    file: IO[bytes], left: int, types: Sequence[str] | None = None, dimensions: int | None = None
) -> np.ndarray[Any, Any]:
    """Read an array in NumPy's format: its header, as in :func:`read_header`, and its data."""
    header = read_header(file, left, types, dimensions)
    data = file.read(header.nbytes)
    if len(data) != header.nbytes:
        raise ValueError("an array is truncated")
    flat = np.frombuffer(data, header.dtype) if data else np.empty(math.prod(header.shape), header.dtype)
    return (flat.reshape(header.shape[::-1]).T if header.fortran else flat.reshape(header.shape)).copy(order="K")


def read_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray[Any, Any]]:
    """Read the arrays of a file written by ``np.savez``. Compressed members raise an error, since they could be of any size."""
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
                    raise ValueError("it declares more bytes than it has")
                out = {}
                for name, member in zip(names, members, strict=True):
                    with archive.open(member) as file:
                        out[name] = read_array(file, member.file_size)
                        if file.read(1):  # reading to the end verifies the checksum
                            raise ValueError("there are extra bytes after an array")
                return out
        except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, IndexError, RuntimeError, NotImplementedError) as error:
            raise ValueError(f"damaged ({type(error).__name__})") from None
        except OverflowError:
            raise ValueError("damaged") from None


def checksum(path: str) -> str:
    """Return the SHA-256 of a regular file; for a folder, that of the names and checksums of its files."""
    if os.path.isdir(path):
        names = sorted(name for name in os.listdir(path) if os.path.isfile(os.path.join(path, name)))
        each = "\n".join(f"{name} {checksum(os.path.join(path, name))}" for name in names)
        return hashlib.sha256(each.encode()).hexdigest()
    with open_plain(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
