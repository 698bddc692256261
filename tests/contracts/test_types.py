"""Limits on open types, silenced type errors, and the length of functions."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "covary"
MOST_ANY = 630
MOST_IGNORED = 90
LONGEST = 80
OPEN = {"Any", "object"}
GENERICS = {  # of Python and NumPy, which are generics of Any if written without arguments
    *("dict", "list", "tuple", "set", "frozenset", "type", "Dict", "List", "Tuple", "Set", "Type", "Callable", "Mapping"),
    *("MutableMapping", "Sequence", "Iterable", "Iterator", "Generator", "Collection", "Counter", "defaultdict", "deque"),
    *("OrderedDict", "partial", "PathLike", "Popen", "ContextVar", "dtype"),
}
ATTRIBUTES = {"np.dtype", "typing.Any", "os.PathLike", "subprocess.Popen"}
Place = tuple[str, str]  # a module and a name in it


def module_of(path: Path) -> str:
    """Return the dotted name of a file's module."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def written(node: ast.expr) -> ast.expr:
    """Return an annotation, parsed if it is text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        with suppress(SyntaxError):  # other text
            return ast.parse(node.value, mode="eval").body
    return node


def annotations(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield every annotation, and the types that are passed to ``cast``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield written(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield written(node.returns)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "cast":
            yield written(node.args[0])


def assigned(node: ast.stmt) -> tuple[str, ast.expr] | None:
    """Return the name and the value of a statement that may define a type alias."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id, written(node.value)
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        return node.target.id, written(node.value)
    return None


class Types:
    """Aliases and generic classes of the package, by module and name."""

    def __init__(self, trees: dict[str, ast.Module]) -> None:
        self.trees = trees
        self.aliases: dict[Place, ast.expr] = {}
        self.classes: set[Place] = set()
        self.generics: set[Place] = set()
        self.imports: dict[Place, Place] = {}
        for module, tree in trees.items():
            for node in ast.walk(tree):
                self._note(module, node)

    def _note(self, module: str, node: ast.AST) -> None:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for name in node.names:
                self.imports[module, name.asname or name.name] = node.module, name.name
        elif isinstance(node, ast.ClassDef):
            self.classes.add((module, node.name))
            bases = [base for base in node.bases if isinstance(base, ast.Subscript) and isinstance(base.value, ast.Name)]
            if any(isinstance(b.value, ast.Name) and b.value.id in ("Generic", "Protocol") for b in bases):
                self.generics.add((module, node.name))
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node in self.trees[module].body:
            found = assigned(node)
            if found is not None and isinstance(found[1], ast.Name | ast.Attribute | ast.Subscript | ast.BinOp):
                self.aliases[module, found[0]] = found[1]

    def origin(self, place: Place) -> Place:
        """Return where a name is defined, through all imports."""
        seen = {place}
        while place in self.imports and self.imports[place] not in seen:
            place = self.imports[place]
            seen.add(place)
        return place

    def count(self, module: str, node: ast.expr, known: frozenset[Place] = frozenset()) -> int:
        """Return the number of open types in an expression, including those in its aliases."""
        if isinstance(node, ast.Subscript):  # the generic has arguments
            inner = self.count(module, node.slice, known)
            head = node.value
            alias = isinstance(head, ast.Name) and self.origin((module, head.id)) in self.aliases
            return inner + (self.count(module, head, known) if alias else 0)
        if isinstance(node, ast.Constant):
            text = written(node)
            return 0 if text is node else self.count(module, text, known)
        if isinstance(node, ast.Attribute):
            return int(ast.unparse(node) in ATTRIBUTES)
        if isinstance(node, ast.Name):
            place = self.origin((module, node.id))
            if place in self.aliases and place not in known:
                return self.count(place[0], self.aliases[place], known | {place})
            return int(
                place in self.generics or (place not in self.classes | set(self.aliases) and place[1] in OPEN | GENERICS)
            )
        return sum(self.count(module, child, known) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))


def trees(folder: Path = SOURCE) -> dict[str, ast.Module]:
    return {module_of(path): ast.parse(path.read_text()) for path in folder.rglob("*.py")}


def test_few_types_are_left_open() -> None:
    found = trees()
    types, packages = Types(found), Counter[str]()
    for module, tree in found.items():
        packages[".".join(module.split(".")[:2])] += sum(types.count(module, a) for a in annotations(tree))
    assert packages.total() <= MOST_ANY, f"{packages.total()} of at most {MOST_ANY}: {packages.most_common(12)}"


def test_aliases_and_bare_generics_are_counted() -> None:
    """Aliases count wherever they are used, through imports, and generics if their arguments are left out."""
    one = "from typing import Any\nTree = Any\nPage = dict[str, Tree]\nclass Box(Generic[T]): ...\n"
    two = "from covary.one import Page as P, Box\ndef f(a: P, b: dict, c: Box, d: Box[int], e: 'list[P]', g: list[int]): ...\n"
    types = Types({"covary.one": ast.parse(one), "covary.two": ast.parse(two)})
    found = [types.count("covary.two", a) for a in annotations(types.trees["covary.two"])]
    assert found == [1, 1, 1, 0, 1, 0]


def test_few_type_errors_are_silenced() -> None:
    found = Counter({path.name: len(re.findall(r"# type: ignore", path.read_text())) for path in SOURCE.rglob("*.py")})
    assert found.total() <= MOST_IGNORED, f"{found.total()} of at most {MOST_IGNORED}: {found.most_common(12)}"


def test_no_function_is_longer_than_a_page() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name} has {length} lines"
        for folder in ("src", "tests", "benchmarks", "docs", "examples")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > LONGEST
    ]
    assert not long, long
