"""Kernels from text, through Python's own grammar and a white list; nothing is evaluated.

``parse(repr(kernel))`` gives the kernel back, exact to the last digit. The same notation is used by the estimators, the
command, model files and reports.
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
from covary._module import CONVERT, HELD, STATIC, Mark, Marked
from covary.kernels.authors import KERNELS
from covary.kernels.base import AbstractKernel, Scaled
from covary.kernels.categorical import Categories, Exchangeable, Hamming
from covary.kernels.combine import Columns, Function
from covary.kernels.dot_product import Constant, Linear, Polynomial
from covary.kernels.isotropic import Bessel, GammaExponential, PiecewisePolynomial, SquaredExponentialMixture
from covary.kernels.matern import Matern, MaternHalfInteger
from covary.kernels.metric import FactorMetric
from covary.kernels.networks import ArcCosine, TanhNetwork
from covary.kernels.nonstationary import NeuralNetwork, Wiener
from covary.kernels.periodic import Cosine, Periodic
from covary.kernels.processes import BrownianBridge, FractionalBrownian
from covary.kernels.spectral import Periodised, Spectral, SpectralMixture
from covary.kernels.sphere import GreatCircle, OnSphere, SinePower
from covary.kernels.stationary import Matern12, Matern32, Matern52, RationalQuadratic, SquaredExponential
from covary.kernels.structure import Additive, BasisFunctions, GaussianBasis, Invariant, Normalised
from covary.kernels.varying import (
    ChangePoint,
    FunctionField,
    GaussianField,
    ModulatedSquaredExponential,
    PaciorekSchervish,
    VaryingAmplitude,
    VaryingLengthscale,
)
from covary.kernels.warped import Mapped, Warped
from covary.kernels.wiener import IntegratedWiener
from covary.parameters import bounded, fixed, learned

CATALOGUE: dict[str, Any] = {
    kernel.__name__: kernel
    for kernel in (
        Constant,
        Linear,
        Polynomial,
        SquaredExponential,
        Matern12,
        Matern32,
        Matern52,
        MaternHalfInteger,
        Matern,
        RationalQuadratic,
        GammaExponential,
        SquaredExponentialMixture,
        PiecewisePolynomial,
        Bessel,
        Periodic,
        Cosine,
        Periodised,
        SpectralMixture,
        Spectral,
        NeuralNetwork,
        TanhNetwork,
        ArcCosine,
        Wiener,
        IntegratedWiener,
        BrownianBridge,
        FractionalBrownian,
        VaryingLengthscale,
        PaciorekSchervish,
        ModulatedSquaredExponential,
        VaryingAmplitude,
        ChangePoint,
        Warped,
        Mapped,
        FactorMetric,
        Additive,
        Invariant,
        BasisFunctions,
        GaussianBasis,
        Normalised,
        Hamming,
        Exchangeable,
        Categories,
        GreatCircle,
        SinePower,
        OnSphere,
        Columns,
    )
}
FIELDS = {field.__name__: field for field in (GaussianField, FunctionField)}  # what a kernel may vary with
ALIASES = {"OrnsteinUhlenbeck": Matern12, "RBF": SquaredExponential, "SE": SquaredExponential}
INNER = ("kernel", "before", "after")  # where a kernel stands inside another
MOST_CHARACTERS, MOST_DEPTH = 10_000, 50
MOST_MADE = 10**6  # numbers that the kernels of one text may make by themselves, as Categories(1000, rank=10) makes 10,000
MOST_POWER, LARGEST = 64, 1e300  # of numbers: exponents, and what may come out
WHOLE = 2**53  # whole numbers up to here stay whole
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
    """A kernel from text such as ``"2*Matern52(lengthscale=[1,3]) + Periodic(period=fixed(1))"``.

    Parameters
    ----------
    text
        Sums, products and whole powers of kernels; kernel names with keyword arguments; ``.on(columns)`` with numbers or
        names of columns; numbers and arithmetic with them (``66**2``); ``fixed(value)``, ``learned(value)`` and
        ``bounded(value, lower, upper)``. At most 10,000 characters and 50 levels deep.
    functions
        The functions behind ``Function(name, ...)`` terms, by name.
    most
        How many characters are allowed (model files allow more: a length-scale per column takes room).
    held
        Whether a plain number holds a parameter that is held unless asked otherwise (ν of ``Matern``). False for model files:
        today's say it with a mark, and in older ones a plain number was learned.

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
        reason = getattr(error, "msg", None) or "it is nested too deep"
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
    return fail("kernels.parse", f"{_text(node)} is not understood", _HELP)


def _near(name: str) -> list[str]:
    """Kernels whose names are near to one, whatever its case."""
    lower = {known.lower(): known for known in (*CATALOGUE, *ALIASES)}
    return [lower[found] for found in get_close_matches(name.lower(), lower, 5, 0.4)] or list(CATALOGUE)[:12]


def _bare(name: str) -> CovaryError:
    """A name that stands without brackets, of a kernel or near to one."""
    if name in CATALOGUE or name in ALIASES:
        return fail("kernels.parse", f"{name} stands without brackets", f"write {name}()")
    near = ", ".join(f"{found}()" for found in _near(name)[:3])
    return fail("kernels.parse", f"no kernel is called {name!r}", f"write one such as {near}")


def _computed(op: ast.operator, left: float, right: float, node: ast.expr) -> float:
    """Arithmetic with two numbers, in floats unless the result is a moderate whole number."""
    if isinstance(op, ast.Pow) and abs(right) > MOST_POWER:
        raise fail("kernels.parse", f"the power is {right!r}", f"give a number up to {MOST_POWER}")
    try:
        value: Any = ARITHMETIC[type(op)](float(left), float(right))
    except (ZeroDivisionError, OverflowError):
        value = float("nan")
    if isinstance(value, complex) or not abs(value) <= LARGEST:
        raise fail("kernels.parse", f"{_text(node)} is no finite number", "write the number itself")
    whole = isinstance(left, int) and isinstance(right, int) and not isinstance(op, ast.Div)
    return int(value) if whole and value == int(value) and abs(value) <= WHOLE else value


class _Reader:
    def __init__(self, functions: Mapping[str, Callable[..., Any]], held: bool = True) -> None:
        self.functions, self.held, self.made = functions, held, 0.0

    def read(self, node: ast.expr, depth: int) -> Any:
        if depth > MOST_DEPTH:
            raise fail("kernels.parse", f"the text is nested more than {MOST_DEPTH} deep", "write a flatter expression")
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            if isinstance(node.value, int) and abs(node.value) > sys.float_info.max:
                raise fail("kernels.parse", "the text holds a number of more than 300 digits", "write it as 1.5e300")
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
        # a long chain of sums leans left: walk it in a loop, so that depth counts nesting and not length
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
            raise fail("kernels.parse", f"{_text(node)} holds ^", "write ** for powers")
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
            raise fail("kernels.parse", f"a keyword stands twice among {', '.join(map(str, names))}", "give each once")
        name = node.func.id
        if name == "Function":
            return self.function(node, depth)
        arguments = [self.read(a, depth + 1) for a in node.args]
        marks = {"fixed": fixed, "bounded": bounded, "learned": learned}
        maker = {**marks, **FIELDS, **ALIASES, **CATALOGUE}.get(name)
        if maker is None:
            do = KERNELS.get(name) or f"choose one such as {', '.join(_near(name))}"
            raise fail("kernels.parse", f"no kernel is called {name!r}", do)
        structure = [f for f in fields(maker) if f.metadata.get(STATIC)] if isinstance(maker, type) else []
        options = {f.name for f in structure}
        keywords = {str(k.arg): self.argument(k, options, depth) for k in node.keywords}
        known = {f.name for f in fields(maker)} if isinstance(maker, type) else set()
        if "parameters" in known:  # of a user's function
            keywords["parameters"] = {k: keywords.pop(k) for k in list(keywords) if k not in known}
        single = {f.name for f in structure if f.metadata.get(CONVERT) is None}
        if any(isinstance(getattr(v, "value", v), list) for k, v in keywords.items() if k in single):
            raise fail("kernels.parse", f"{_text(node)} holds a list where one number is expected", _HELP)
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
            raise fail("kernels.parse", f"{_text(node)} holds a value of the wrong shape", _HELP) from None
        for inner in (f for f in INNER if name in CATALOGUE and f in vars(value)):
            if not isinstance(getattr(value, inner), AbstractKernel):
                raise fail("kernels.parse", f"{_text(node)}: {name} takes a kernel as {inner}", _HELP)
        if name in CATALOGUE and not isinstance(vars(value).get("field", GaussianField((0.0,))), tuple(FIELDS.values())):
            raise fail("kernels.parse", f"{_text(node)}: {name} takes a field", "write GaussianField(centres, beta=...)")
        return value

    def bounded(self, name: str, maker: Any, arguments: list[Any], keywords: dict[str, Any]) -> None:
        """Refuse a text that makes more numbers than it may, before they are made."""
        if name not in CATALOGUE:
            return
        try:
            given = inspect.signature(maker).bind(*arguments, **keywords)
        except TypeError:  # the maker says it better
            return
        given.apply_defaults()
        plain = {k: v.value if isinstance(v, Marked) else v for k, v in given.arguments.items()}
        self.made += maker.makes(plain)
        if self.made > MOST_MADE:
            what = f"the text makes {name} of {f'{self.made:,.0f}' if self.made < 1e15 else 'endless'} numbers"
            raise fail("kernels.parse", what, f"ask for at most {MOST_MADE:,} in all, or build the kernel in Python")

    def argument(self, keyword: ast.keyword, options: set[str], depth: int) -> Any:
        """The value of a keyword; words and None only where a kernel has such an option."""
        node = keyword.value
        if keyword.arg == "columns" and isinstance(node, ast.List | ast.Tuple):
            return [self.place(item, depth) for item in node.elts]
        if keyword.arg in options and isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, str)):
            return node.value
        return self.read(node, depth + 1)

    def place(self, node: ast.expr, depth: int) -> Any:
        """A column: its number or its name."""
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
            raise fail("kernels.parse", f"{_text(node)} is not understood", "write Function(name, ...)")
        name = node.args[0].id
        if name not in self.functions:
            raise fail("kernels.parse", f"the function {name!r} is not known here", f"pass functions={{{name!r}: f}}")
        values = {str(k.arg): self.read(k.value, depth + 1) for k in node.keywords}
        smoothness = values.pop("smoothness", 0)
        return Function(self.functions[name], parameters=values, smoothness=smoothness)
