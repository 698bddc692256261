"""Parsing of kernels from text, with Python's grammar and a list of allowed names. No code is evaluated.

``parse(repr(kernel))`` returns the same kernel exactly. The notation is the same in the estimators, the command, model files
and reports.
"""

from __future__ import annotations

import ast
import inspect
import operator
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from covary._checks import CovaryError, fail
from covary._errors import Option
from covary._module import CONVERT, HELD, STATIC, Mark, Marked
from covary.kernels.authors import KERNELS
from covary.kernels.base import AbstractKernel, Scaled
from covary.kernels.combine import Columns, Function
from covary.kernels.dot_product import Constant
from covary.kernels.stationary import Matern12, SquaredExponential
from covary.kernels.varying import FunctionField, GaussianField
from covary.parameters import bounded, fixed, learned

CATALOGUE: dict[str, type[AbstractKernel]] = {}  # the kernels exported by covary.kernels, which fills this table
FIELDS = {field.__name__: field for field in (GaussianField, FunctionField)}  # the fields of nonstationary kernels
ALIASES = {"OrnsteinUhlenbeck": Matern12, "RBF": SquaredExponential, "SE": SquaredExponential}
COMMON = ["Matern52", "Matern32", "SquaredExponential", "RationalQuadratic", "Periodic", "Linear", "Constant", "Additive"]
INNER = ("kernel", "before", "after")  # the arguments that take a kernel
MOST_CHARACTERS, MOST_DEPTH = 10_000, 50
MOST_MADE = 10**6  # numbers that the kernels of one text may create, as Categories(1000, rank=10) creates 10,000
MOST_POWER, LARGEST = 64, 1e300  # largest exponent and result of arithmetic with numbers
WHOLE = 2**53  # integers up to this size stay integers
ARITHMETIC = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def parse(
    text: str,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    *,
    most: int = MOST_CHARACTERS,
    held: bool = True,
) -> AbstractKernel:
    """Parse a kernel from text such as ``"2*Matern52(lengthscale=[1,3]) + Periodic(period=fixed(1))"``.

    Parameters
    ----------
    text
        Sums, products and integer powers of kernels; kernel names with keyword arguments; ``.on(columns)`` with indices or
        names of columns; numbers and arithmetic with them (``66**2``); ``fixed(value)``, ``learned(value)`` and
        ``bounded(value, lower, upper)``. At most 10,000 characters and 50 levels deep.
    functions
        The functions of ``Function(name, ...)`` terms, by name.
    most
        Maximum number of characters. Model files allow more, since they may contain a length-scale per column.
    held
        Whether a plain number fixes a parameter that is fixed unless ``learned`` (ν of ``Matern``). False for model files:
        current ones mark it explicitly, and in older ones a plain number was learned.

    Examples
    --------
    >>> parse("2*Matern52(lengthscale=[1,3])")
    2.0 * Matern52(lengthscale=[1.0, 3.0])
    >>> parse("66**2 * SquaredExponential(67)")
    4356.0 * SquaredExponential(lengthscale=67.0)
    """
    if not isinstance(text, str):
        raise fail("kernels.parse", f"got {type(text).__name__}", "give the kernel as text")
    if len(text) > most:
        raise fail("kernels.parse", f"the text has {len(text)} characters", f"give at most {most}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = getattr(error, "msg", None) or "it is nested too deeply"
        raise fail("kernels.parse", f"{_short(text)} is not a kernel expression ({reason})", _HELP) from None
    result = _Reader(functions or {}, held).read(tree, 0)
    if isinstance(result, int | float):
        result = Scaled.of(result, Constant())
    if not isinstance(result, AbstractKernel):
        raise fail("kernels.parse", f"{_short(text)} is not a kernel", _HELP)
    return result


_HELP = "write something like 2.0 * Matern52(lengthscale=1.0) + Periodic(period=fixed(1.0))"


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _text(node: ast.expr) -> str:
    try:
        return _short(ast.unparse(node))
    except RecursionError:
        return "a part of the text"


def _unknown(node: ast.expr) -> CovaryError:
    return fail("kernels.parse", f"{_text(node)} cannot be parsed", _HELP)


def _near(name: str) -> list[str]:
    """Return kernels with similar names, ignoring case."""
    lower = {known.lower(): known for known in (*CATALOGUE, *ALIASES)}
    return [lower[found] for found in get_close_matches(name.lower(), lower, 5, 0.4)] or COMMON


def _bare(name: str) -> CovaryError:
    """Return the error for a name without parentheses, of a kernel or similar to one."""
    if name in CATALOGUE or name in ALIASES:
        return fail("kernels.parse", f"{name} is missing parentheses", f"write {name}()", argument=name)
    near = ", ".join(f"{found}()" for found in _near(name)[:3])
    return fail("kernels.parse", f"no kernel is called {name!r}", f"write one such as {near}")


def _computed(op: ast.operator, left: float, right: float, node: ast.expr) -> float:
    """Compute with two numbers, in floats unless the result is an integer of moderate size."""
    if isinstance(op, ast.Pow) and abs(right) > MOST_POWER:
        raise fail("kernels.parse", f"the power is {right!r}", f"give a number up to {MOST_POWER}")
    try:
        value: Any = ARITHMETIC[type(op)](float(left), float(right))
    except (ZeroDivisionError, OverflowError):
        value = float("nan")
    if isinstance(value, complex) or not abs(value) <= LARGEST:
        raise fail("kernels.parse", f"{_text(node)} is not a finite number", "write the number itself")
    whole = isinstance(left, int) and isinstance(right, int) and not isinstance(op, ast.Div)
    return int(value) if whole and value == int(value) and abs(value) <= WHOLE else value


class _Reader:
    def __init__(self, functions: Mapping[str, Callable[..., Any]], held: bool = True) -> None:
        self.functions, self.held, self.made = functions, held, 0.0

    def read(self, node: ast.expr, depth: int) -> Any:
        if depth > MOST_DEPTH:
            raise fail("kernels.parse", f"the text is nested more than {MOST_DEPTH} levels deep", "write a flatter expression")
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            if isinstance(node.value, int) and abs(node.value) > sys.float_info.max:
                raise fail("kernels.parse", "the text contains a number of more than 300 digits", "write it as 1.5e300")
            return node.value
        if isinstance(node, ast.Name) and node.id in self.functions:
            return self.functions[node.id]
        if isinstance(node, ast.Name) and node.id == "inf":
            return float("inf")
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            value = self.read(node.operand, depth + 1)
            if isinstance(value, int | float):
                return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.List | ast.Tuple):
            items = [self.read(item, depth + 1) for item in node.elts]
            if all(isinstance(item, int | float) for item in items):
                return items
            if items and all(isinstance(item, list) and len(item) == len(items[0]) for item in items):  # a matrix
                return items
        if isinstance(node, ast.BinOp):
            return self.combine(node, depth)
        if isinstance(node, ast.Call):
            return self.call(node, depth)
        if isinstance(node, ast.Name):
            raise _bare(node.id)
        raise _unknown(node)

    def combine(self, node: ast.BinOp, depth: int) -> Any:
        # a long chain of sums nests to the left: traverse it in a loop, so that depth counts nesting and not length
        chain: list[tuple[ast.operator, ast.expr]] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp):
            chain.append((left.op, left.right))
            left = left.left
        value = self.read(left, depth + 1)
        for op, right_node in reversed(chain):
            right = self.read(right_node, depth + 1)
            value = self.apply(op, value, right, node)
        return value

    def apply(self, op: ast.operator, left: Any, right: Any, node: ast.expr) -> Any:
        kernels = isinstance(left, AbstractKernel) or isinstance(right, AbstractKernel)
        usable = all(isinstance(v, AbstractKernel | int | float | Marked) for v in (left, right))
        if usable and kernels and isinstance(op, ast.Add):
            return left + right
        if usable and kernels and isinstance(op, ast.Mult):
            return left * right
        if isinstance(op, ast.Div) and isinstance(left, AbstractKernel) and isinstance(right, int | float):
            return left / right
        if isinstance(op, ast.Pow) and isinstance(left, AbstractKernel) and isinstance(right, int | float):
            return left**right
        if isinstance(left, int | float) and isinstance(right, int | float) and type(op) in ARITHMETIC:
            return _computed(op, left, right, node)
        if isinstance(op, ast.BitXor):
            raise fail("kernels.parse", f"{_text(node)} contains ^", "write ** for powers")
        raise _unknown(node)

    def call(self, node: ast.Call, depth: int) -> Any:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "on" and not node.keywords:
            kernel = self.read(node.func.value, depth + 1)
            if isinstance(kernel, AbstractKernel):
                return Columns(kernel, columns=[self.place(a, depth) for a in node.args])
        names = [k.arg for k in node.keywords]
        if not isinstance(node.func, ast.Name) or None in names:
            raise _unknown(node)
        if len(set(names)) < len(names):
            raise fail("kernels.parse", f"a keyword is repeated in {', '.join(map(str, names))}", "give each once")
        name = node.func.id
        if name == "Function":
            return self.function(node, depth)
        arguments = [self.read(a, depth + 1) for a in node.args]
        marks = {"fixed": fixed, "bounded": bounded, "learned": learned}
        maker = {**marks, **FIELDS, **ALIASES, **CATALOGUE}.get(name)
        if maker is None:
            do = KERNELS.get(name) or f"choose a kernel such as {', '.join(_near(name))}"
            raise fail("kernels.parse", f"no kernel is called {name!r}", do)
        structure = [f for f in fields(maker) if f.metadata.get(STATIC)] if isinstance(maker, type) else []
        options = {f.name for f in structure}
        keywords = {str(k.arg): self.argument(k, options, depth) for k in node.keywords}
        known = {f.name for f in fields(maker)} if isinstance(maker, type) else set()
        if "parameters" in known:  # of a user-defined function
            keywords["parameters"] = {k: keywords.pop(k) for k in list(keywords) if k not in known}
        single = {f.name for f in structure if f.metadata.get(CONVERT) is None}
        if any(isinstance(getattr(v, "value", v), list) for k, v in keywords.items() if k in single):
            raise fail("kernels.parse", f"{_text(node)} contains a list where one number is expected", _HELP)
        self.bounded(name, maker, arguments, keywords)
        if not self.held and isinstance(maker, type):
            for f in (f for f in fields(maker) if HELD in f.metadata and isinstance(keywords.get(f.name), int | float)):
                keywords[f.name] = Marked(keywords[f.name], Mark(bounds=(0.0, float("inf"))))
        try:
            value = self.nested_fixed(*arguments, **keywords) if name == "fixed" else maker(*arguments, **keywords)
        except CovaryError:
            raise
        except TypeError:
            raise fail("kernels.parse", f"{name} does not take these arguments", _HELP) from None
        except (ValueError, OverflowError):
            raise fail("kernels.parse", f"{_text(node)} contains a value of the wrong shape", _HELP) from None
        for inner in (f for f in INNER if name in CATALOGUE and f in vars(value)):
            if not isinstance(getattr(value, inner), AbstractKernel):
                raise fail("kernels.parse", f"{_text(node)}: {name} takes a kernel as {inner}", _HELP)
        if name in CATALOGUE and "field" in vars(value) and not isinstance(value.field, tuple(FIELDS.values())):
            raise fail("kernels.parse", f"{_text(node)}: {name} takes a field", "write GaussianField(centres, beta=...)")
        return value

    def bounded(self, name: str, maker: Any, arguments: list[Any], keywords: dict[str, Any]) -> None:
        """Raise an error if a text would create too many numbers, before they are created."""
        if name not in CATALOGUE:
            return
        try:
            given = inspect.signature(maker).bind(*arguments, **keywords)
        except TypeError:  # the constructor raises a better error
            return
        given.apply_defaults()
        plain = {k: v.value if isinstance(v, Marked) else v for k, v in given.arguments.items()}
        self.made += maker.makes(plain)
        if self.made > MOST_MADE:
            what = f"with {name} the kernel has {f'{self.made:,.0f}' if self.made < 1e15 else 'too many'} parameters"
            raise fail("kernels.parse", what, f"give at most {MOST_MADE:,} in all, or build the kernel in Python")

    def argument(self, keyword: ast.keyword, options: set[str], depth: int) -> Any:
        """Return the value of a keyword. Strings and None are allowed only for options of the kernel."""
        node = keyword.value
        if keyword.arg == "columns" and isinstance(node, ast.List | ast.Tuple):
            return [self.place(item, depth) for item in node.elts]
        if keyword.arg in options and isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, str)):
            return node.value
        return self.read(node, depth + 1)

    def place(self, node: ast.expr, depth: int) -> Any:
        """Return the index or the name of a column."""
        if isinstance(node, ast.Name):
            raise fail("kernels.parse", f".on({node.id}) has a name without quotes", f"write .on({node.id!r})")
        named = isinstance(node, ast.Constant) and isinstance(node.value, str)
        return node.value if named else self.read(node, depth + 1)  # type: ignore[attr-defined]

    @staticmethod
    def nested_fixed(*arguments: Any) -> Any:
        if len(arguments) == 1 and isinstance(arguments[0], Marked):
            inner = arguments[0]
            return Marked(inner.value, type(inner.mark)(fixed=True, bounds=inner.mark.bounds))
        return fixed(*arguments)

    def function(self, node: ast.Call, depth: int) -> Any:
        if len(node.args) != 1 or not isinstance(node.args[0], ast.Name):
            raise fail("kernels.parse", f"{_text(node)} cannot be parsed", "write Function(name, ...)")
        name = node.args[0].id
        if name not in self.functions:
            what = f"the function {name!r} is not defined"
            raise fail("kernels.parse", what, "pass " + Option("functions", f"{{{name!r}: f}}"))
        values = {str(k.arg): self.read(k.value, depth + 1) for k in node.keywords}
        smoothness = values.pop("smoothness", 0)
        return Function(self.functions[name], parameters=values, smoothness=smoothness)
