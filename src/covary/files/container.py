"""Container format of model files: a zip archive of one JSON page and plain arrays, validated on reading.

``model.json`` holds the schema, the kind of object and everything that is not an array; ``arrays/<name>.npy`` hold the
numbers (in NumPy's own format, so that any tool can read them). Arrays are stored uncompressed, which bounds the memory that
reading a file can allocate by its size on disk. Nothing in a file is trusted: names, sizes, shapes, types and checksums
are validated before an array is created, and the rebuilt object must reproduce predictions stored when it was saved.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn

import numpy as np

from covary._checks import CovaryError, fail
from covary._errors import Remedy, Text
from covary._memory import check_memory
from covary._read import open_plain, read_array
from covary._version import __version__
from covary._write import whole_file

if TYPE_CHECKING:
    from covary.fits.family import Json, Page

SCHEMA = 2
PAGE, FOLDER = "model.json", "arrays/"
OWN = ("schema", "kind", "covary", "arrays")  # entries of the page written by :func:`write`
MOST_PAGE, MOST_MEMBERS, MOST_PARTS, MOST_DEPTH, MOST_AXES = 2**23, 2048, 100_000, 40, 3
TYPES = ("<f8", "<f4", "<i8", "<i4", "|b1")


AGAIN = Remedy("fit again", "save the model again")


class BadFile(CovaryError):
    """A model file that is damaged, unsupported or invalid."""


class NeedsFunctions(BadFile):
    """A model file that uses functions defined in the program that saved it."""


def bad(path: str | os.PathLike[str], what: str, do: Text = "use a file written by covary, or " + AGAIN) -> BadFile:
    """Return an error about a file, in the common format."""
    return BadFile("load", f"{str(path)!r} {what}", do, argument="path")


def write(path: str | os.PathLike[str], kind: str, page: Mapping[str, Json], arrays: Mapping[str, np.ndarray]) -> None:
    """Write one JSON page and arrays to a container file atomically; raise an error for what :func:`read` would reject."""
    if len(arrays) >= MOST_MEMBERS:
        raise fail("save", f"the model has {len(arrays)} arrays (at most {MOST_MEMBERS - 1})", "combine some of them")
    for name, array in arrays.items():
        _check_array(name, array)
    shapes = {name: list(a.shape) for name, a in arrays.items()}
    whole = {"schema": SCHEMA, "kind": kind, "covary": __version__, "arrays": shapes, **page}
    try:
        text = json.dumps(whole, indent=1, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        do = "use None, text, finite numbers, true, false, lists, and dicts with keys of text"
        raise fail("save", f"the description of the model cannot be written as JSON ({error})", do) from None
    if _nesting(text) > MOST_DEPTH:
        raise fail("save", f"the description of the model is nested more than {MOST_DEPTH} deep", "store it as arrays")
    if len(text) > MOST_PAGE or text.count(b"[") + text.count(b"{") > MOST_PARTS:
        what = f"the description of the model takes {len(text)} bytes"
        raise fail("save", what, f"use fewer columns (under {MOST_PAGE} bytes)")
    with whole_file(path, "save", stream=True) as handle, zipfile.ZipFile(handle, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_member(PAGE), text)
        for name, array in arrays.items():
            with archive.open(_member(f"{FOLDER}{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array, order="C"), version=(1, 0), allow_pickle=False)


def _check_array(name: str, array: np.ndarray) -> None:
    if not _plain_name(f"{FOLDER}{name}.npy"):
        raise fail("save", f"an array is named {name[:80]!r}", "use at most 60 ASCII letters, digits and underscores")
    if array.dtype.str not in TYPES:
        do = "convert it to float64, float32, int64, int32 or bool"
        raise fail("save", f"the array {name!r} has the type {array.dtype}", do)
    if array.ndim > MOST_AXES:
        raise fail("save", f"the array {name!r} has {array.ndim} dimensions", f"reshape it to at most {MOST_AXES}")
    if not np.isfinite(array).all():
        raise fail("save", f"the array {name!r} has entries that are not finite", "use finite numbers")


def _member(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # constant date: equal models give equal bytes


def read(path: str | os.PathLike[str]) -> tuple[str, Page, dict[str, np.ndarray]]:
    """Read and validate a container file; return its kind, page and arrays."""
    path = Path(path)
    if os.path.isdir(path):  # Path.is_dir raises for long names and inaccessible parent folders
        raise bad(path, "is a folder", "give the name of a model file")
    try:
        with open_plain(path) as handle:
            return _read(path, handle)
    except BadFile:
        raise
    except FileNotFoundError:
        raise bad(path, "does not exist", "check the name") from None
    except OSError as error:
        raise bad(path, f"cannot be read ({error.strerror or error})") from None
    except MemoryError as error:
        if isinstance(error, CovaryError):
            raise
        raise bad(path, "needs more memory than is available") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, IndexError, RuntimeError, OverflowError) as error:
        raise bad(path, f"is damaged or no model file ({type(error).__name__})") from None
    except Exception as error:  # zipfile may raise anything on arbitrary bytes
        raise bad(path, f"is damaged or not a model file ({type(error).__name__})") from None


def _read(path: Path, handle: IO[bytes]) -> tuple[str, Page, dict[str, np.ndarray]]:
    size = os.fstat(handle.fileno()).st_size
    check_memory("load", 2 * size, "load it where there is more memory")
    with zipfile.ZipFile(handle) as archive:
        members = archive.infolist()
        if len(members) > MOST_MEMBERS or len({m.filename for m in members}) < len(members):
            raise bad(path, f"has {len(members)} members, which are too many or not unique")
        for member in members:
            if member.flag_bits & 1 or member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
                raise bad(path, f"has a member {member.filename[:80]!r} that is compressed or encrypted")
            if member.filename != PAGE and not _plain_name(member.filename):
                raise bad(path, f"has a member with the unexpected name {member.filename[:80]!r}")
        if sum(m.file_size for m in members) > size:
            raise bad(path, "declares more bytes than it contains")
        sizes = {m.filename: m.file_size for m in members}
        if sizes.get(PAGE, MOST_PAGE + 1) > MOST_PAGE:
            raise bad(path, f"has no {PAGE}, or one that is too large")
        page = _page(path, archive.read(PAGE))
        shapes = page.pop("arrays")
        if {f"{FOLDER}{name}.npy" for name in shapes} != set(sizes) - {PAGE}:
            raise bad(path, "lacks arrays, or has too many")
        arrays = {name: _array(path, name, shape, archive) for name, shape in shapes.items()}
    return page.pop("kind"), page, arrays


def _plain_name(name: str) -> bool:
    inner = name.removeprefix(FOLDER).removesuffix(".npy")
    return name == f"{FOLDER}{inner}.npy" and inner.isidentifier() and inner.isascii() and len(inner) <= 60


def _nesting(text: bytes) -> int:
    """Return the nesting depth of brackets, ignoring those inside strings."""
    depth = deepest = 0
    for found in re.finditer(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', text, re.DOTALL):  # possessive: no backtracking
        mark = found.group()
        if mark in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif mark in b"]}":
            depth -= 1
    return deepest


def _page(path: Path, text: bytes) -> Page:
    if text.count(b"[") + text.count(b"{") > MOST_PARTS:
        raise bad(path, f"has a {PAGE} with too many parts")
    if _nesting(text) > MOST_DEPTH:  # parsers differ in how they treat deep nesting
        raise bad(path, "has a page nested too deep")
    try:
        page = json.loads(text.decode(), parse_constant=_no_constant)
    except RecursionError:
        raise bad(path, f"has a {PAGE} that is nested too deeply") from None
    if not isinstance(page, dict) or _depth(page) > MOST_DEPTH:
        raise bad(path, f"has a {PAGE} with an invalid structure")
    schema, kind, shapes = page.pop("schema", None), page.get("kind"), page.get("arrays")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise bad(path, "names no schema")
    if schema > SCHEMA:
        raise bad(path, f"has schema {schema}; this version of covary reads up to {SCHEMA}", "load it with a newer covary")
    if not isinstance(kind, str):
        raise bad(path, f"holds a {str(kind)[:60]!r}, which this version of covary cannot read", "load it with a newer covary")
    if not isinstance(shapes, dict) or not all(_is_shape(s) for s in shapes.values()):
        raise bad(path, f"has a {PAGE} without a valid list of arrays")
    return page


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _depth(value: Json) -> int:
    deepest, stack = 0, [(value, 1)]
    while stack:
        item, depth = stack.pop()
        deepest = max(deepest, depth)
        inside = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        stack += [(part, depth + 1) for part in inside]
    return deepest


def _is_shape(shape: Json) -> bool:
    return (
        isinstance(shape, list)
        and len(shape) <= MOST_AXES
        and all(isinstance(s, int) and not isinstance(s, bool) and 0 <= s < 2**40 for s in shape)
    )


def _array(path: Path, name: str, shape: list[int], archive: zipfile.ZipFile) -> np.ndarray:
    member = archive.getinfo(f"{FOLDER}{name}.npy")
    with archive.open(member) as stream:
        try:
            array = read_array(stream, member.file_size, TYPES)
        except ValueError as error:
            raise bad(path, f"has an array {name!r} that cannot be read ({error})") from None
        if stream.read(1) or list(array.shape) != shape or not array.flags.c_contiguous:  # read(1): the end checks the CRC
            raise bad(path, f"has an array {name!r} whose shape or length differs from its page")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise bad(path, f"has an array {name!r} with entries that are not finite")
    return array


def is_model(path: str) -> bool:
    """Return whether a file is a model: by its suffix, else by its first bytes (workbooks are zip archives too)."""
    suffix = Path(path).suffix.lower()
    if suffix in (".covary", ".xlsx"):
        return suffix == ".covary"
    try:
        with open_plain(path) as handle:
            return handle.read(4) == b"PK\x03\x04"
    except (OSError, ValueError):  # no such file, or a NUL in its name: reading it raises the error
        return False
