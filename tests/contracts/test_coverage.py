"""Every row of docs/coverage.csv has a symbol that can be imported, a test that exists, and a call that parses."""

from __future__ import annotations

import ast
import builtins
import csv
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import covary

ROOT = Path(__file__).resolve().parents[2]
ROWS = list(csv.DictReader((ROOT / "docs" / "coverage.csv").read_text().splitlines()))


PACKAGES = ["covary", *(f"covary.{m.name}" for m in pkgutil.iter_modules(covary.__path__) if not m.name.startswith("_"))]
MODULES = ("datasets", "metrics", "selection")  # names of modules in the calls; other names in lower case are the reader's own


def symbol(path: str) -> object:
    module, _, name = path.partition(":")
    found: object = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def test_the_table_is_not_empty() -> None:
    assert len(ROWS) > 40
    assert set(ROWS[0]) == {"book", "equation", "symbol", "test", "call"}
    assert all(all(row.values()) for row in ROWS)


@pytest.mark.parametrize("path", sorted({row["symbol"] for row in ROWS}))
def test_symbol_can_be_imported(path: str) -> None:
    assert symbol(path) is not None


@pytest.mark.parametrize("test", sorted({row["test"] for row in ROWS}))
def test_test_exists(test: str) -> None:
    file, _, name = test.partition("::")
    functions = {n.name for n in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(n, ast.FunctionDef)}
    assert name in functions


@pytest.mark.parametrize("call", sorted({row["call"] for row in ROWS}))
def test_call_parses(call: str) -> None:
    ast.parse(call)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["call"])
def test_call_uses_what_exists(row: dict[str, str]) -> None:
    """Every name can be imported, from a package or the module of the symbol, and is called with arguments it takes."""
    for node in ast.walk(ast.parse(row["call"])):
        if isinstance(node, ast.Call):
            places = called(node.func, row)
            root = node.func.value if isinstance(node.func, ast.Attribute) else node.func
            if isinstance(node.func, ast.Name) or (isinstance(root, ast.Name) and root.id in MODULES):
                assert places, f"{ast.unparse(node.func)} cannot be imported"
            assert not places or any(takes(place, node) for place in places), f"{ast.unparse(node)} has other arguments"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call):
            kinds = [kind for kind in called(node.value.func, row) if inspect.isclass(kind)]
            assert not kinds or any(hasattr(kind, node.attr) for kind in kinds), f"{node.attr} is no method"


def called(node: ast.expr, row: dict[str, str]) -> list[object]:
    """What a name, or an attribute of a module, may stand for."""
    if isinstance(node, ast.Attribute):
        places = [place for place in called(node.value, row) if inspect.ismodule(place)]
        return [getattr(place, node.attr) for place in places if hasattr(place, node.attr)]
    if not isinstance(node, ast.Name):
        return []
    if hasattr(builtins, node.id):
        return [getattr(builtins, node.id)]
    modules = [importlib.import_module(name) for name in [*PACKAGES, row["symbol"].partition(":")[0]]]
    return [getattr(module, node.id) for module in modules if hasattr(module, node.id)]


def takes(place: object, call: ast.Call) -> bool:
    """Whether something can be called with as many arguments and with these names."""
    named = {word.arg: None for word in call.keywords if word.arg is not None}
    assert callable(place)
    signature = inspect.signature(place)
    bind = signature.bind if len(named) == len(call.keywords) else signature.bind_partial
    try:
        bind(*call.args, **named)
    except TypeError:
        return False
    return True
