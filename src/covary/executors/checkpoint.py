"""Checkpoints: finished pieces of work in one file, so that interrupted work can be resumed.

The file starts with a line of JSON that names the kind of work and the problem. Records are appended to it, each with its
length and a checksum. The file of another problem or kind raises an error. A record truncated by an interruption is dropped
when the file is opened again; a damaged one is ignored. Records are JSON and plain arrays, without pickle.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Protocol, Union

import numpy as np

from covary._checks import fail
from covary._errors import Option
from covary._families import Json
from covary._read import open_plain
from covary._write import NotWritten, Unfit, where, whole_file

FORMAT = "covary checkpoint 1"
BEGIN = b'{"format": "covary checkpoint'  # of every checkpoint, whatever the version of the format
FRAME = struct.Struct("<QI")  # before a record: its length, and its CRC-32
INNER = struct.Struct("<I")  # before the JSON of a record: its length
KINDS = "biufcSUmM"  # of arrays that can be written


class HasArray(Protocol):
    """An array of another library, which is read back as a NumPy array."""

    def __array__(self) -> np.ndarray: ...


Result = Union[  # noqa: UP007  (the type is recursive)
    None,
    bool,
    int,
    float,
    str,
    np.ndarray,
    np.generic,
    HasArray,
    tuple["Result", ...],
    list["Result"],
    Mapping["Result", "Result"],
]


class Store(Protocol):
    """A store in which an executor saves finished pieces and looks them up."""

    @property
    def place(self) -> Path:
        """The file or folder, for messages."""
        ...

    def get(self, name: str) -> Result:
        """Return the result stored under this name, or None."""
        ...

    def put(self, name: str, result: Result) -> None:
        """Store a finished piece."""
        ...


class Checkpoint:
    """Finished pieces of one problem in a file, each appended immediately.

    Results consist of tuples, lists, dicts, numbers, text, booleans, None and NumPy arrays, and are read back bit for bit.

    Parameters
    ----------
    path
        The file; created if it does not exist.
    problem
        Fingerprint of the problem; the checkpoint of another problem raises an error.
    kind
        Kind of content; a checkpoint of another kind raises an error.
    who
        Name that error messages start with.

    Examples
    --------
    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/work.checkpoint"
    >>> Checkpoint(path, "a fingerprint").put("expert 3", (1.5, np.arange(3)))
    >>> again = Checkpoint(path, "a fingerprint")
    >>> again.get("expert 3")
    (1.5, array([0, 1, 2]))
    >>> again.get("expert 4") is None
    True
    """

    def __init__(self, path: str | PathLike[str], problem: str, *, kind: str = "work", who: str = "Checkpoint") -> None:
        found = where(path, stream=False)
        if isinstance(found, Unfit):
            raise fail(who, *found, argument="checkpoint")
        self.name, self.place, self.who = str(path), found.target, who
        self._known: dict[str, bytes] = {}
        self._head = json.dumps({"format": FORMAT, "kind": kind, "problem": problem}).encode() + b"\n"
        if found.old is not None and found.old.st_size:
            self._read()
        else:
            self._begin()

    def _begin(self) -> None:
        try:
            with whole_file(self.place, self.who) as file:
                file.write(self._head)
        except NotWritten as error:
            raise error.about("checkpoint") from None

    def _read(self) -> None:
        """Index the records, and truncate an incomplete one at the end."""
        with self._complaining("read"), open_plain(self.place) as file:
            if (head := file.read(len(self._head))) != self._head:
                if not head.startswith(BEGIN):  # any file: never advise to remove it
                    what = Option("checkpoint") + f" is {self.name!r}, which is not a checkpoint"
                    raise fail(self.who, what, "give the name of a new file")
                what = Option("checkpoint") + f" {self.name!r} belongs to another problem (other data, model or settings)"
                raise fail(self.who, what, "give another name, or remove it")
            raw = file.read()
        start = 0
        while start + FRAME.size <= len(raw):
            length, check = FRAME.unpack_from(raw, start)
            body = raw[start + FRAME.size : start + FRAME.size + length]
            if len(body) < length:
                break
            start += FRAME.size + length
            name = _name_of(body) if zlib.crc32(body) == check else None
            if name is not None:
                self._known[name] = body
        if start < len(raw):
            with self._complaining("written to"):
                os.truncate(self.place, len(self._head) + start)

    @contextmanager
    def _complaining(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            what = Option("checkpoint") + f" {self.name!r} cannot be {doing} ({error.strerror or error})"
            raise fail(self.who, what, "free space, or give another file") from None

    def get(self, name: str) -> Result:
        """Return the result stored under this name; None if there is none, or if it is not readable."""
        body = self._known.get(name)
        if body is None:
            return None
        try:
            (length,) = INNER.unpack_from(body)
            record = json.loads(body[INNER.size : INNER.size + length])
            return _opened(record["result"], _arrays_of(record["arrays"], body[INNER.size + length :]))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
            return None

    def put(self, name: str, result: Result) -> None:
        """Append a finished piece to the file."""
        body = self._body(name, result)
        if not self.place.exists():
            self._begin()
        with self._complaining("written to"), open(self.place, "ab") as file:
            file.write(FRAME.pack(len(body), zlib.crc32(body)) + body)
        self._known[name] = body

    def replace(self, name: str, result: Result) -> None:
        """Replace the contents of the file with one result, completely or not at all."""
        body = self._body(name, result)
        with whole_file(self.place, self.who) as file:
            file.write(self._head + FRAME.pack(len(body), zlib.crc32(body)) + body)
        self._known = {name: body}

    def _body(self, name: str, result: Result) -> bytes:
        arrays: list[np.ndarray] = []
        told = self._closed(result, arrays)
        shapes = [[array.dtype.str, list(array.shape)] for array in arrays]
        head = json.dumps({"name": name, "result": told, "arrays": shapes}).encode()
        return INNER.pack(len(head)) + head + b"".join(array.tobytes() for array in arrays)

    def clear(self) -> None:
        """Discard all results, and remove the file."""
        self._known.clear()
        with suppress(OSError):
            self.place.unlink(missing_ok=True)

    def _closed(self, value: Result, arrays: list[np.ndarray]) -> Json:
        """Convert a result to JSON, with its arrays appended to ``arrays``."""
        if value is None or isinstance(value, bool | str) or type(value) in (int, float):
            return value  # type: ignore[return-value]
        if isinstance(value, tuple | list):
            return {"list" if isinstance(value, list) else "tuple": [self._closed(v, arrays) for v in value]}
        if isinstance(value, Mapping):
            return {"dict": [[self._closed(k, arrays), self._closed(v, arrays)] for k, v in value.items()]}
        if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__"):
            array = np.asarray(value)
            if array.dtype.kind in KINDS:
                arrays.append(array)
                return {"scalar" if isinstance(value, np.generic) else "array": len(arrays) - 1}
        do = "return numbers, text, arrays, and tuples, lists, dicts of them"
        raise fail(self.who, f"a result contains {type(value).__name__}", do)


def _name_of(body: bytes) -> str | None:
    """Return the name of a record, if it has one."""
    try:
        (length,) = INNER.unpack_from(body)
        return str(json.loads(body[INNER.size : INNER.size + length])["name"])
    except (struct.error, ValueError, KeyError, TypeError, RecursionError):
        return None


def _arrays_of(shapes: Sequence[tuple[str, Sequence[int]]], raw: bytes) -> list[np.ndarray]:
    """Return the arrays after the JSON of a record; raise a ValueError if they do not match its description."""
    arrays, start = [], 0
    for kind, shape in shapes:
        dtype, count = np.dtype(kind), int(np.prod(shape, dtype=np.int64))
        if dtype.kind not in KINDS or not 0 <= dtype.itemsize * count <= len(raw) - start:
            raise ValueError("an array has an invalid type or size")
        flat = np.frombuffer(raw, dtype, count, start) if count and dtype.itemsize else np.empty(count, dtype)
        arrays.append(flat.reshape(shape).copy())
        start += dtype.itemsize * count
    return arrays


def _opened(told: Json, arrays: list[np.ndarray]) -> Result:
    """Restore a result from the output of :meth:`Checkpoint._closed`."""
    if not isinstance(told, dict):
        return told  # type: ignore[return-value]
    ((kind, value),) = told.items()
    if kind in ("array", "scalar") and isinstance(value, int):
        return arrays[value] if kind == "array" else arrays[value][()]
    if kind not in ("dict", "list", "tuple") or not isinstance(value, list):
        raise ValueError("an entry of unknown kind")
    if kind == "dict":
        return {_opened(k, arrays): _opened(v, arrays) for k, v in value}  # type: ignore[misc]
    parts = [_opened(v, arrays) for v in value]
    return tuple(parts) if kind == "tuple" else parts
