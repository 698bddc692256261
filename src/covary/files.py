"""Model files (``.covary``): a zip of one JSON page and plain arrays. No pickle; nothing is executed on loading.

``model.json`` names the schema, the kind of object and everything that is not an array; ``arrays/<name>.npy`` hold the
numbers (NumPy's own format, so that any tool can read them). Arrays are stored without compression: what a file can make a
reader allocate is then bounded by its own size on disk. A reader believes nothing: names, sizes, shapes, types and checksums
are checked before an array is made, and the object that is rebuilt must repeat predictions written down when it was saved.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from covary._checks import CovaryError, fail
from covary._memory import check_memory
from covary._read import open_plain, read_array
from covary._version import __version__
from covary._write import whole_file

SCHEMA = 2
PAGE, FOLDER = "model.json", "arrays/"
MOST_PAGE, MOST_MEMBERS, MOST_PARTS, MOST_DEPTH = 2**23, 2048, 100_000, 40
TYPES = ("<f8", "<f4", "<i8", "<i4", "|b1")
KINDS = {  # what a file may hold, and where it is defined
    "GPClassifier": "covary.estimators.classifier",
    "GPRegressor": "covary.estimators.regressor",
}


class BadFile(CovaryError):
    """A model file that is damaged, of another kind, or not to be trusted."""


class NeedsFunctions(BadFile):
    """A model file whose kernels or means are functions of the program that saved it."""


def bad(path: Any, what: str, do: str = "use a file written by covary, or save the model again") -> BadFile:
    """The one shape of a message about a file."""
    return BadFile(f"load: {str(path)!r} {what}; {do}.")


def save(estimator: Any, path: str | os.PathLike[str], *, factor: bool | None = None) -> None:
    """Write a fitted estimator to a file, whole or not at all.

    Parameters
    ----------
    estimator
        A fitted estimator.
    path
        Where to; ``model.covary`` by custom.
    factor
        Whether to keep the factor of the covariance (4 n² bytes), so that nothing is computed on loading. By default if
        it takes at most 64 MiB (n ≤ 4,096); without it, loading computes it again.

    Examples
    --------
    >>> import tempfile
    >>> from covary import GPRegressor, load
    >>> model = GPRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/model.covary")
    ...     again = load(f"{folder}/model.covary")
    >>> bool((again.predict([[0.5]]) == model.predict([[0.5]])).all())
    True
    """
    kind = type(estimator).__name__
    if kind not in KINDS or not hasattr(estimator, "_to_file"):
        raise fail("save", f"got {kind}", f"give one of {', '.join(KINDS)}")
    record, arrays = estimator._to_file(factor)
    write(path, kind, record, arrays)


def load(path: str | os.PathLike[str], *, functions: Mapping[str, Callable[..., Any]] | None = None) -> Any:
    """Read what :func:`save` wrote, in this or another process: it predicts the same to the last bit.

    Parameters
    ----------
    path
        The file.
    functions
        The functions of your own that the model uses, by name: of kernels, means and likelihoods made from plain functions.
        A file holds their names only.
    """
    given = dict(functions or {})
    if not all(isinstance(name, str) and callable(f) for name, f in given.items()):
        raise fail("load", "functions holds something that is no function under a name", "give functions={'name': function}")
    if not isinstance(path, str | os.PathLike):
        raise BadFile(f"load: the path is a {type(path).__name__}; give the name of a file.")
    kind, record, arrays = read(path)
    lacking = [str(name)[:60] for name in record.pop("functions", []) if name not in given]
    if lacking:
        inside = ", ".join(f"{name!r}: {name}" for name in lacking[:8])
        what = f"load: {str(path)!r} uses {_named(lacking)} of the program that saved it"
        raise NeedsFunctions(f"{what}; pass functions={{{inside}}}.")
    owner = getattr(importlib.import_module(KINDS[kind]), kind)
    record["beside"] = str(Path(path).resolve().parent)  # files the model speaks of may have moved along with it
    try:
        return owner._from_file(record, arrays, given)
    except BadFile:
        raise
    except CovaryError as error:
        raise BadFile(f"load: {str(path)!r} cannot be used: {_short(str(error).removeprefix('load: '))}") from None
    except MemoryError:
        raise bad(path, "asks for more memory than there is") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RecursionError) as error:
        raise bad(path, f"holds entries that do not fit together ({type(error).__name__})") from None


def _short(text: str) -> str:
    return text if len(text) <= 500 else f"{text[:300]} ... {text[-100:]}"  # what to do stands at the end


def _named(names: list[str]) -> str:
    return f"the function{'s' if len(names) > 1 else ''} {', '.join(map(repr, names[:8]))}"


def write(path: str | os.PathLike[str], kind: str, record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """The container: one JSON page and arrays, written whole or not at all."""
    shapes = {name: list(a.shape) for name, a in arrays.items()}
    page = {"schema": SCHEMA, "kind": kind, "covary": __version__, "arrays": shapes, **record}
    text = json.dumps(page, indent=1, allow_nan=False).encode()
    if len(text) > MOST_PAGE or text.count(b"[") + text.count(b"{") > MOST_PARTS:
        raise fail(
            "save", f"the description of the model takes {len(text)} bytes", f"use fewer columns (under {MOST_PAGE} bytes)"
        )
    with whole_file(path, "save", stream=True) as handle, zipfile.ZipFile(handle, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_member(PAGE), text)
        for name, array in arrays.items():
            with archive.open(_member(f"{FOLDER}{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array, order="C"), version=(1, 0), allow_pickle=False)


def _member(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the same model makes the same bytes


def read(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any], dict[str, np.ndarray]]:
    """The container, checked: its kind, its page and its arrays."""
    path = Path(path)
    if os.path.isdir(path):  # pathlib's raises where a name is too long or a folder above is locked
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
        raise bad(path, "asks for more memory than there is") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, IndexError, RuntimeError, OverflowError) as error:
        raise bad(path, f"is damaged or no model file ({type(error).__name__})") from None
    except Exception as error:  # the zip reader meets arbitrary bytes; whatever it raises, the file is to blame
        raise bad(path, f"is damaged or no model file ({type(error).__name__})") from None


def _read(path: Path, handle: Any) -> tuple[str, dict[str, Any], dict[str, np.ndarray]]:
    size = os.fstat(handle.fileno()).st_size
    check_memory("load", 2 * size, "load it where there is more memory")
    with zipfile.ZipFile(handle) as archive:
        members = archive.infolist()
        if len(members) > MOST_MEMBERS or len({m.filename for m in members}) < len(members):
            raise bad(path, f"has {len(members)} members, or the same one twice")
        for member in members:
            if member.flag_bits & 1 or member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
                raise bad(path, f"has a member {member.filename[:80]!r} that is compressed or encrypted")
            if member.filename != PAGE and not _plain_name(member.filename):
                raise bad(path, f"has a member with the strange name {member.filename[:80]!r}")
        if sum(m.file_size for m in members) > size:
            raise bad(path, "claims more bytes than it has")
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
    """How deep brackets nest, those inside texts not counted."""
    depth = deepest = 0
    for found in re.finditer(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', text, re.DOTALL):  # nothing is kept of where a text could end
        mark = found.group()
        if mark in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif mark in b"]}":
            depth -= 1
    return deepest


def _page(path: Path, text: bytes) -> dict[str, Any]:
    if text.count(b"[") + text.count(b"{") > MOST_PARTS:
        raise bad(path, "has a page with too many parts")
    if _nesting(text) > MOST_DEPTH:  # some parsers give up on deep pages, others go on
        raise bad(path, "has a page nested too deep")
    try:
        page = json.loads(text.decode(), parse_constant=_no_constant)
    except RecursionError:
        raise bad(path, "has a page nested too deep") from None
    if not isinstance(page, dict) or _depth(page) > MOST_DEPTH:
        raise bad(path, "has a page of the wrong form")
    schema, kind, shapes = page.pop("schema", None), page.get("kind"), page.get("arrays")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise bad(path, "names no schema")
    if schema > SCHEMA:
        raise bad(path, f"has schema {schema}, this covary reads up to {SCHEMA}", "load it with a newer covary")
    if not isinstance(kind, str) or kind not in KINDS:
        raise bad(path, f"holds a {str(kind)[:60]!r}, which this covary does not know", "load it with a newer covary")
    if not isinstance(shapes, dict) or not all(_is_shape(s) for s in shapes.values()):
        raise bad(path, "has no table of arrays")
    return page


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _depth(value: Any) -> int:
    deepest, stack = 0, [(value, 1)]
    while stack:
        item, depth = stack.pop()
        deepest = max(deepest, depth)
        inside = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        stack += [(part, depth + 1) for part in inside]
    return deepest


def _is_shape(shape: Any) -> bool:
    return (
        isinstance(shape, list)
        and len(shape) <= 3
        and all(isinstance(s, int) and not isinstance(s, bool) and 0 <= s < 2**40 for s in shape)
    )


def _array(path: Path, name: str, shape: list[int], archive: zipfile.ZipFile) -> np.ndarray:
    member = archive.getinfo(f"{FOLDER}{name}.npy")
    with archive.open(member) as stream:
        try:
            array = read_array(stream, member.file_size, TYPES)
        except ValueError as error:
            raise bad(path, f"has an array {name!r} that cannot be read ({error})") from None
        if stream.read(1) or list(array.shape) != shape or not array.flags.c_contiguous:  # the checksum is checked at the end
            raise bad(path, f"has an array {name!r} of another shape or length than its page says")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise bad(path, f"has an array {name!r} with entries that are not finite")
    return array
