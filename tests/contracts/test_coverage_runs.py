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
OPERATORS = ("__call__", "__add__")  # special methods that compute; the others make, print or compare an instance
TRIVIAL = (  # methods that check or describe an instance
    *(
        "approximates",
        "at",
        "check",
        "check_kinds",
        "check_model",
        "check_room",
        "cost",
        "count",
        "latent_values",
        "levels",
        "makes",
        "of",
    ),
    *("prepare", "starting", "targets", "thinned"),
)


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

    For a class, its own methods that compute; for a method, also those that override it; for a field, the methods of its
    class.
    """
    found = symbol(path)
    owner, _, name = path.rpartition(".")
    kind = symbol(owner) if "." in path.partition(":")[2] else None
    if not inspect.isclass(found):
        codes = list(own_code(found if kind is None else inspect.getattr_static(kind, name)))
        for other in below(kind) if inspect.isclass(kind) else ():
            codes += own_code(vars(other).get(name))
        if codes or not inspect.isclass(kind):
            return {(code.co_filename, code.co_firstlineno) for code in codes}
        found = kind
    if inspect.isabstract(found) or found.__name__.startswith("Abstract"):
        raise AssertionError(f"{path} is abstract: cite a method")
    codes = [code for name, value in vars(found).items() if computes(name, value) for code in methods_in(found, value)]
    if not codes:
        raise AssertionError(f"{path} has no method that computes: cite a function or a method")
    return {(code.co_filename, code.co_firstlineno) for code in codes}


def computes(name: str, value: object) -> bool:
    """Whether a method of a class may do what the class is for, rather than make, check or describe an instance."""
    if isinstance(value, property | functools.cached_property) or name in TRIVIAL:
        return False
    return name in OPERATORS or not (name.startswith("__") and name.endswith("__"))


def methods_in(kind: type, value: object) -> list[CodeType]:
    """The code of a method that stands in the file of its class: not one that a base class or a decorator gave it."""
    return [code for code in own_code(value) if code.co_filename == sys.modules[kind.__module__].__file__]


def below(kind: type) -> Iterator[type]:
    """Yield all subclasses, direct and indirect."""
    for other in kind.__subclasses__():
        yield other
        yield from below(other)


@pytest.mark.parametrize("path", sorted({row["symbol"] for row in ROWS}))
def test_every_symbol_has_code_that_computes(path: str) -> None:
    assert code_of(path)


@pytest.mark.parametrize("path", ["covary.kernels:AbstractKernel", "covary.model:GP"])
def test_classes_that_compute_nothing_are_no_symbols(path: str) -> None:
    with pytest.raises(AssertionError, match="cite a"):
        code_of(path)


@pytest.mark.slow
def test_a_test_that_only_checks_or_refuses_does_not_count(tmp_path: Path) -> None:
    """A likelihood that is refused, and one whose number of latent functions is asked for, are not tested."""
    wrong = [
        "tests/unit/test_markov.py::test_one_column_one_function_log_concave",
        "tests/unit/test_method.py::test_every_boundary",
    ]
    ran, _ = executed(wrong, tmp_path / "executed.json")
    assert set(ran) == set(wrong)
    assert [test for test in wrong if code_of("covary.likelihoods:Softmax") & ran[test]] == []


def executed(tests: list[str], out: Path) -> tuple[dict[str, set[Place]], list[str]]:
    """Run tests; return the places where the functions begin that each calls, and the skipped tests."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    environment = {**os.environ, "EXECUTED": str(out), "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "contracts.executed", "-q", "-m", "", *tests]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    found = json.loads(out.read_text())
    return {test: {(file, line) for file, line, _ in codes} for test, codes in found["ran"].items()}, found["skipped"]


@pytest.mark.slow
def test_every_cited_test_runs_the_code_it_is_cited_for(tmp_path: Path) -> None:
    ran, skipped = executed(sorted({row["test"] for row in ROWS}), tmp_path / "executed.json")
    missing = {test for test in skipped if not ran.get(test)}
    idle = [
        f"{row['book']}, {row['equation']}: {row['test']} does not run {row['symbol']}"
        for row in ROWS
        if row["test"] not in missing and not code_of(row["symbol"]) & ran.get(row["test"], set())
    ]
    assert not idle, "\n".join(idle)
    if missing:
        pytest.skip("the others do, but these were skipped: " + ", ".join(sorted(missing)))
