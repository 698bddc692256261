"""A ledger of finished pieces of work: one small file each, so that work that was broken off goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from covary._checks import fail
from covary._read import open_plain, read_arrays
from covary._write import clear_parts, make_folder, whole_file

FORMAT = "covary ledger 1"
HEAD = "ledger.json"
OURS = re.compile(r"\.?[0-9a-f]{32}\.npz(\..*\.part)?")


class Ledger:
    """Finished pieces of work of one problem in a folder, each written whole or not at all.

    A result is built of tuples, lists, dicts, numbers, text, true, false, None and NumPy arrays; it comes back with every
    bit in place. Files are plain arrays and JSON, no pickle.

    Parameters
    ----------
    folder
        Where; created if it is not there. A folder that holds something else is refused.
    problem
        Fingerprint of the problem: a ledger of another one is refused.

    Examples
    --------
    >>> import tempfile
    >>> ledger = Ledger(tempfile.mkdtemp(), "a fingerprint")
    >>> ledger.put("expert 3", (1.5, np.arange(3)))
    >>> ledger.get("expert 3")
    (1.5, array([0, 1, 2]))
    >>> ledger.get("expert 4") is None
    True
    """

    def __init__(self, folder: Any, problem: str) -> None:
        self.folder, self.problem = make_folder(folder, "Ledger"), problem
        self._head = json.dumps({"format": FORMAT, "problem": problem}).encode() + b"\n"
        head = self.folder / HEAD
        if head.exists():
            if not self._is_ours(head):
                what = f"the checkpoint {str(folder)!r} belongs to another problem (other data, model or settings)"
                raise fail("Ledger", what, "give another folder, or remove it")
            return
        if any(not OURS.fullmatch(name) for name in os.listdir(self.folder) if HEAD not in name):
            raise fail("Ledger", f"the folder {str(folder)!r} holds other files", "give a new or an empty folder")
        self._begin()

    def _is_ours(self, head: Path) -> bool:
        """Whether a folder says that it holds pieces of this problem."""
        try:
            with open_plain(head) as file:
                return file.read(len(self._head) + 1) == self._head
        except OSError as error:
            raise fail("Ledger", f"{str(head)!r} cannot be read ({error.strerror})", "give another folder") from None

    def _begin(self) -> None:
        """The folder, with a file in it that says whose it is."""
        make_folder(self.folder, "Ledger")
        with whole_file(self.folder / HEAD, "Ledger") as file:
            file.write(self._head)

    def _path(self, key: str) -> Path:
        return self.folder / (hashlib.sha256(key.encode()).hexdigest()[:32] + ".npz")

    def get(self, key: str) -> Any | None:
        """What was put there under this key; None if nothing was, or if it cannot be read any more."""
        try:
            arrays = read_arrays(self._path(key))
            told = json.loads(str(arrays["result"]))
            return _opened(told["result"], arrays) if told["key"] == key else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def put(self, key: str, result: Any) -> None:
        """Write down what was found; it is on disk when this returns."""
        arrays: dict[str, np.ndarray] = {}
        told = json.dumps({"key": key, "result": _closed(result, arrays)})
        if not (self.folder / HEAD).exists():
            self._begin()
        with whole_file(self._path(key), "Ledger") as file:
            np.savez(file, allow_pickle=False, result=np.array(told), **arrays)  # pyright: ignore[reportArgumentType]

    def clear(self) -> None:
        """Remove everything that was put there, and the folder if nothing else is in it."""
        if self.folder.is_dir():
            clear_parts(self.folder)
            for path in list(self.folder.iterdir()):
                if OURS.fullmatch(path.name) and path.suffix == ".npz":
                    path.unlink(missing_ok=True)
            if [path.name for path in self.folder.iterdir()] == [HEAD]:
                (self.folder / HEAD).unlink()
                with suppress(OSError):
                    self.folder.rmdir()


def _closed(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """A result as JSON, with its arrays taken out."""
    if value is None or isinstance(value, bool | str) or type(value) in (int, float):
        return value
    if isinstance(value, tuple | list):
        return {"list" if isinstance(value, list) else "tuple": [_closed(v, arrays) for v in value]}
    if isinstance(value, dict):
        return {"dict": [[_closed(k, arrays), _closed(v, arrays)] for k, v in value.items()]}
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__"):
        array = np.asarray(value)
        if array.dtype.kind in "biufcSUmM":
            name = f"a{len(arrays)}"
            arrays[name] = array
            return {"scalar" if isinstance(value, np.generic) else "array": name}
    raise fail(
        "Ledger", f"a result holds {type(value).__name__}", "return numbers, text, arrays, and tuples, lists, dicts of them"
    )


def _opened(told: Any, arrays: Any) -> Any:
    """What :func:`_closed` wrote."""
    if not isinstance(told, dict):
        return told
    ((kind, value),) = told.items()
    if kind in ("array", "scalar"):
        return arrays[value] if kind == "array" else arrays[value][()]
    if kind == "dict":
        return {_opened(k, arrays): _opened(v, arrays) for k, v in value}
    parts = [_opened(v, arrays) for v in value]
    return tuple(parts) if kind == "tuple" else parts
