"""Every equation we claim has code that can be imported, a test that is collected, and a call at the front door."""

from __future__ import annotations

import ast
import csv
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = list(csv.DictReader((ROOT / "docs" / "coverage.csv").read_text().splitlines()))


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
def test_front_door_call_parses(call: str) -> None:
    ast.parse(call)
