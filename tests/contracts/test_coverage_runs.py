"""Every test cited in docs/coverage.csv runs the code of its symbol."""

from __future__ import annotations

import functools
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from contracts.test_coverage import ROOT, ROWS, symbol

Place = tuple[str, int]
MAKING = ("__init__", "__post_init__", "__repr__", "traits")  # of a class with other methods: run by whoever only makes one


def own_code(found: object) -> Iterator[CodeType]:
    """Yield the code of a function, a method or a property, without its wrappers."""
    if isinstance(found, functools.partial):
        yield from own_code(found.func)
    elif isinstance(found, property):
        yield from own_code(found.fget)
    elif isinstance(found, functools.cached_property):
        yield from own_code(found.func)
    elif isinstance(found, staticmethod | classmethod):
        yield from own_code(found.__func__)
    elif callable(found) and not inspect.isclass(found):
        for other in getattr(found, "registry", {}).values():  # the kinds of a functools.singledispatch
            yield from own_code(other)
        inner = inspect.unwrap(found)
        if isinstance(inner, FunctionType):
            yield inner.__code__
        elif inner is not found:
            yield from own_code(inner)


def code_of(path: str) -> set[Place]:
    """Return the places where the code of a symbol begins.

    For a class, its own methods, except those that only make an instance; for a method, also those that override it; for a
    field, the methods of its class.
    """
    found = symbol(path)
    if not inspect.isclass(found):
        owner, _, name = path.rpartition(".")
        codes = list(own_code(inspect.getattr_static(symbol(owner), name) if "." in path.partition(":")[2] else found))
        kind = symbol(owner) if "." in path.partition(":")[2] else None
        if inspect.isclass(kind):
            for other in below(kind):
                codes += own_code(vars(other).get(name))
        if codes or not inspect.isclass(kind):
            return {(code.co_filename, code.co_firstlineno) for code in codes}
        found = kind
    kinds = [found, *below(found)] if inspect.isabstract(found) or found.__name__.startswith("Abstract") else [found]
    methods = [(name, code) for kind in kinds for name, value in vars(kind).items() for code in methods_in(kind, value)]
    working = [code for name, code in methods if name not in MAKING] or [code for _, code in methods]
    if not working:
        raise AssertionError(f"{path} has no code of its own: cite a function or a method")
    return {(code.co_filename, code.co_firstlineno) for code in working}


def methods_in(kind: type, value: object) -> list[CodeType]:
    """The code of a method that stands in the file of its class: not one that a base class or a decorator gave it."""
    return [code for code in own_code(value) if code.co_filename == sys.modules[kind.__module__].__file__]


def below(kind: type) -> Iterator[type]:
    """Yield all subclasses, direct and indirect."""
    for other in kind.__subclasses__():
        yield other
        yield from below(other)


@pytest.mark.slow
def test_every_cited_test_runs_the_code_it_is_cited_for(tmp_path: Path) -> None:
    wanted = sorted({row["test"] for row in ROWS})
    out = tmp_path / "executed.json"
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    environment = {**os.environ, "EXECUTED": str(out), "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "contracts.executed", "-q", "-m", "", *wanted]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    found = json.loads(out.read_text())
    ran = {test: {(file, line) for file, line, _ in codes} for test, codes in found["ran"].items()}
    missing = {test for test in found["skipped"] if not ran.get(test)}
    idle = [
        f"{row['book']}, {row['equation']}: {row['test']} does not run {row['symbol']}"
        for row in ROWS
        if row["test"] not in missing and not code_of(row["symbol"]) & ran.get(row["test"], set())
    ]
    assert not idle, "\n".join(idle)
    if missing:
        pytest.skip("the others do, but these were skipped: " + ", ".join(sorted(missing)))
