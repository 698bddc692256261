"""Texts for people are never parsed: what a program needs of an error, a status or a note is a part of its own."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

import covary

SOURCE = Path(covary.__file__).parent
PARTS = ("who", "what", "do", "note", "sentence", "message", "status")  # attributes that hold such texts
TESTS = ("startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "replace", "find", "index")
ALLOWED = {
    "_errors.py": "defines what the name of a source consists of",
    "optimise/base.py": "defines the kinds of status, which is plain text in model files",
    "families/gaussian_process/sections.py": "prints minus signs in the report",
    "cli/errors.py": "JAX says in the text alone that memory is exhausted",
}


def taken_apart(code: str) -> list[str]:
    """Return the expressions that examine the text of an error, a status or a note."""
    nodes = [n for n in ast.walk(ast.parse(code)) if isinstance(n, ast.ExceptHandler | ast.Assign | ast.Compare | ast.Call)]
    caught = {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
    held = {"status"}  # variables with such a text
    for node in nodes:
        if isinstance(node, ast.Assign) and _is_text(node.value, caught, held):
            held |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return [ast.unparse(node) for node in nodes if _examines(node, lambda part: _is_text(part, caught, held))]


def _examines(node: ast.AST, is_text: Callable[[ast.AST], bool]) -> bool:
    match node:
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[text]):
            return is_text(text)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re")), args=given):
            return any(map(is_text, given))
        case ast.Call(func=ast.Attribute(value=text, attr=how), args=given):
            return (how in TESTS or (how == "split" and bool(given))) and is_text(text)
    return False


def _is_text(node: ast.AST, caught: set[str], held: set[str]) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=name)]) if name in caught:
            return True
        case ast.Call(func=ast.Name(id="str"), args=[inner]) | ast.Call(func=ast.Attribute(value=ast.Constant()), args=[inner]):
            return _is_text(inner, caught, held)
        case ast.Call(func=ast.Attribute(value=inner, attr="split" | "strip" | "lower" | "message")):
            return _is_text(inner, caught, held)
        case ast.Attribute(attr=name):
            return name in PARTS
        case ast.Name(id=name):
            return name in held
    return False


def test_no_text_is_taken_apart() -> None:
    found = {str(path.relative_to(SOURCE)): taken_apart(path.read_text("utf-8")) for path in sorted(SOURCE.rglob("*.py"))}
    assert {path: lines for path, lines in found.items() if lines and path not in ALLOWED} == {}
    assert all(found[path] for path in ALLOWED)


@pytest.mark.parametrize(
    "code",
    [
        "try: f()\nexcept E as error:\n    found = 'word' in str(error)",
        "try: f()\nexcept E as error:\n    text = ' '.join(str(error).split())\n    found = text.startswith('word')",
        "name = error.who.removeprefix('kernels.')",
        "note = re.sub('a', 'b', row.note)",
        "stuck = part.learned.status.startswith('stuck')",
        "fine = 'ABNORMAL' not in str(out.message)",
        "text = str(error.what).partition(';')",
    ],
)
def test_each_way_to_take_a_text_apart_is_found(code: str) -> None:
    assert taken_apart(code)
