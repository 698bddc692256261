"""The functions that are copied into exported files."""

from __future__ import annotations

import ast
import inspect
import re

from covary.export import formulas, rules
from covary.kernels import host
from covary.likelihoods import triangle

# names of types that exported files do not define
OWN = ("Kernel", "Profile", "ArrayLike", "Moments", "Answer", "Table", "Entries", "Entry", "Described", "Callable", "Sequence")
MODULES = ("base64", "csv", "datetime", "io", "math", "sys", "zlib")


def copies(wanted: set[str]) -> str:
    """Return the source of the given functions of :mod:`covary.kernels.host`, :mod:`covary.export.formulas`,
    :mod:`covary.likelihoods.triangle` and :mod:`covary.export.rules`, and of all functions that they call."""
    found: dict[str, tuple[int, str, set[str]]] = {}
    for place, module in enumerate((host, formulas, triangle, rules)):
        text = inspect.getsource(module)
        lines = text.splitlines()
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                body = "\n".join(lines[node.lineno - 1 : node.end_lineno])
                found[node.name] = (place * 10_000 + node.lineno, body, used)
    chosen: set[str] = set()
    todo = [name for name in wanted if name in found]
    while todo:
        name = todo.pop()
        if name not in chosen:
            chosen.add(name)
            todo += [other for other in found[name][2] if other in found]
    text = "".join(f"\n\n\n{found[name][1]}" for name in sorted(chosen, key=lambda n: found[n][0]))
    text = re.sub(r"\bdef (?:regression|classes)_(predict|predict_proba|answer)\(", r"def \1(", text)
    return re.sub(rf"(: |-> |\[|, )(?:{'|'.join(OWN)})\b", r"\1Any", text) + "\n"
