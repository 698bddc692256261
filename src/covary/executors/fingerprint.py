"""Fingerprints: hashes of everything that determines a result, which tell whether a checkpoint belongs to a problem."""

from __future__ import annotations

import dis
import hashlib
import inspect
import sysconfig
from collections.abc import Iterable, Mapping
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import TypeAlias

import numpy as np

from covary._checks import fail
from covary._errors import Option

Part: TypeAlias = object
INSTALLED = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))  # folders of libraries


def fingerprint(*parts: Part) -> str:
    """Return a hash of a problem, from the values of its parts.

    Arrays are hashed by their bytes, records by their class and fields, and functions by their code, their default arguments
    and the values of the variables that they use (global ones unless they belong to a library). Parts that cannot be compared
    with those of an earlier call raise an error.
    """
    return _digest(parts, ()).hex()[:32]


def _digest(part: Part, above: tuple[Part, ...]) -> bytes:
    if any(part is other for other in above):  # a function that calls itself
        return b"above".ljust(32)
    contents, inner = _opened(part)
    found = hashlib.sha256(f"{type(part).__qualname__} {len(contents)} ".encode())
    found.update(contents)
    for each in inner:
        found.update(_digest(each, (*above, part)))
    return found.digest()


def _opened(part: Part) -> tuple[bytes, Iterable[Part]]:
    """Return the contents of a part: plain bytes, and further parts."""
    if hasattr(part, "__array__") and not isinstance(part, type):
        array = np.asarray(part)
        shape = repr((array.shape, array.dtype.str)).encode()
        return (shape, array.ravel().tolist()) if array.dtype.hasobject else (shape + array.tobytes(), ())
    if isinstance(part, list | tuple):
        return b"", part
    if isinstance(part, set | frozenset):
        return b"", sorted(part, key=repr)
    if isinstance(part, Mapping):
        return b"", [(key, part[key]) for key in sorted(part, key=repr)]
    if isinstance(part, partial):
        return b"", (part.func, part.args, part.keywords)
    if isinstance(part, MethodType):
        return b"", (part.__func__, part.__self__)
    if isinstance(part, FunctionType):
        return b"", _function(part)
    if isinstance(part, CodeType):
        return part.co_code, (part.co_names, part.co_consts)
    if callable(part) and inspect.unwrap(part) is not part:  # compiled by JAX, for example
        return b"", (inspect.unwrap(part),)
    if hasattr(part, "__dict__") and not isinstance(part, type | ModuleType):
        return b"", (*_class(type(part)), _state(part))
    text = repr(part)
    if " at 0x" in text:
        what = Option("checkpoint") + f" is given but the problem contains a {type(part).__name__}"
        raise fail("Checkpoint", what + ", which cannot be compared with that of an earlier call", "leave checkpoint out")
    return text.encode("utf-8", "surrogateescape"), ()


def _state(part: Part) -> dict[str, Part]:
    """Return the attributes of an object: the fields of a dataclass, with the marks of a module."""
    names = {*getattr(type(part), "__dataclass_fields__", vars(part)), "_marks"}
    return {name: value for name, value in vars(part).items() if name in names}


def _class(kind: type) -> list[Part]:
    """Return the name of a class, and its methods unless it is a class of covary."""
    own = {} if kind.__module__.startswith("covary.") else vars(kind)
    methods = [
        own[name] for name in sorted(own) if isinstance(own[name], FunctionType) and (name == "__call__" or name[0] != "_")
    ]
    return [kind.__module__, kind.__qualname__, *methods]


def _function(function: FunctionType) -> list[Part]:
    """Return what determines the results of a function."""
    code, known = function.__code__, function.__globals__
    found: list[Part] = [function.__module__, function.__qualname__, code, function.__defaults__, function.__kwdefaults__]
    found += [cell.cell_contents for cell in function.__closure__ or ()]
    if not (function.__module__.startswith("covary.") or code.co_filename.startswith(INSTALLED)):
        found += [(name, known[name]) for name in sorted(_globals(code)) if name in known]
    return found


def _globals(code: CodeType) -> set[str]:
    """Return the names of the global variables used by a function and the functions inside it."""
    found = {step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}
    return found.union(*(_globals(inner) for inner in code.co_consts if isinstance(inner, CodeType)))
