"""The kernel algebra, tested with 200 random expressions.

Every expression is built together with a reference: a plain NumPy function of two tables that applies the same operations to
the matrices of its parts. Expressions are evaluated without compilation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest

from covary import kernels as ks
from covary._module import Marked
from covary.data import Inputs
from covary.kernels import AbstractKernel, bounded, fixed, parse
from covary.parameters import freeze, parameters, rebuild
from laws import reference as ref
from laws import reference_located as located
from laws import reference_stationary as still
from laws import rows_located
from laws.tables import EVERY_KERNEL

COLUMNS = 3
X = np.random.default_rng(99).uniform(0.1, 2.0, (6, COLUMNS))
X[5] = X[0]


@dataclass(frozen=True)
class Grown:
    """A kernel and its reference: a function that returns the matrix between the rows of two tables."""

    kernel: AbstractKernel
    meaning: Callable[[np.ndarray, np.ndarray], np.ndarray]


def positive_number(rng: np.random.Generator) -> float:
    return float(np.exp(rng.uniform(-1, 1)))


def maybe_marked(rng: np.random.Generator, value: Any) -> Any:
    """Return the value, possibly fixed, bounded, or both."""
    kind = rng.integers(5)
    if kind == 0:
        return fixed(value)
    if kind == 1:
        return bounded(value, 1e-3, 1e3)
    if kind == 2:
        both = bounded(value, 0.5 * float(np.min(value)), 50.0)
        return type(both)(both.value, type(both.mark)(fixed=True, bounds=both.mark.bounds))
    return value


def as_some_number(rng: np.random.Generator, value: float) -> tuple[Any, float]:
    """Return a number as a Python or NumPy type, and its exact value."""
    kinds = (float, np.float64, np.float32, lambda v: int(np.ceil(v)), lambda v: np.int64(np.ceil(v)), lambda v: np.array(v))
    number = kinds[rng.integers(len(kinds))](value)
    return number, float(number)


PLAIN = (  # valid on any columns of numbers
    *("Constant", "Linear", "Polynomial", "SquaredExponential", "Matern12", "Matern32", "Matern52", "RationalQuadratic"),
    *("Periodic", "Cosine", "NeuralNetwork", "Wiener", "IntegratedWiener", "MaternHalfInteger", "GammaExponential"),
    *("SquaredExponentialMixture", "ArcCosine", "FractionalBrownian"),
)


def leaf(rng: np.random.Generator, d: int) -> Grown:
    ell = positive_number(rng) if rng.random() < 0.6 else np.exp(rng.uniform(-1, 1, d))
    other, degree = positive_number(rng), int(rng.integers(1, 4))
    size, extra = maybe_marked(rng, ell), maybe_marked(rng, other)
    makers: list[tuple[Callable[[], AbstractKernel], Callable[[Any, Any], Any]]] = [
        (lambda: ks.Constant(), ref.constant),
        (lambda: ks.Linear(size), lambda A, B: ref.linear(A, B, ell)),
        (lambda: ks.Polynomial(degree, bias=extra, lengthscale=size), lambda A, B: ref.polynomial(A, B, degree, other, ell)),
        (lambda: ks.SquaredExponential(size), lambda A, B: ref.squared_exponential(A, B, ell)),
        (lambda: ks.Matern12(size), lambda A, B: ref.matern(A, B, 0.5, ell)),
        (lambda: ks.Matern32(size), lambda A, B: ref.matern(A, B, 1.5, ell)),
        (lambda: ks.Matern52(size), lambda A, B: ref.matern(A, B, 2.5, ell)),
        (lambda: ks.RationalQuadratic(size, alpha=extra), lambda A, B: ref.rational_quadratic(A, B, other, ell)),
        (lambda: ks.Periodic(size, period=extra), lambda A, B: ref.periodic(A, B, ell, other)),
        (lambda: ks.Cosine(extra), lambda A, B: ref.cosine(A, B, other)),
        (lambda: ks.NeuralNetwork(size, bias=extra), lambda A, B: ref.neural_network(A, B, ell, other)),
        (lambda: ks.Wiener().on(d - 1), lambda A, B: ref.wiener(A[:, [d - 1]], B[:, [d - 1]])),
        (lambda: ks.IntegratedWiener().on(d - 1), lambda A, B: ref.integrated_wiener(A[:, [d - 1]], B[:, [d - 1]])),
        (lambda: ks.MaternHalfInteger(degree, lengthscale=size), lambda A, B: still.half_integer(A, B, degree, ell)),
        (lambda: ks.GammaExponential(size, gamma=1.4), lambda A, B: still.gamma_exponential(A, B, 1.4, ell)),
        (
            lambda: ks.SquaredExponentialMixture((0.5, 2.0), weights=(1.0, extra)),
            lambda A, B: still.mixture(A, B, (0.5, 2.0), (1.0, other)),
        )
        if not isinstance(extra, Marked)
        else (lambda: ks.ArcCosine(1, lengthscale=size), lambda A, B: located.arc_cosine(A, B, 1, ell, 1.0)),
        (
            lambda: ks.FractionalBrownian(0.3).on(d - 1),
            lambda A, B: located.fractional_brownian(A[:, [d - 1]], B[:, [d - 1]], 0.3),
        ),
    ]
    make, meaning = makers[rng.integers(len(makers))]
    return Grown(make(), meaning)


def grow(rng: np.random.Generator, depth: int, d: int) -> Grown:
    """Return a random expression on d columns."""
    if depth == 0:
        return leaf(rng, d)
    kind = rng.choice(["sum", "product", "scale", "shift", "power", "on"], p=[0.25, 0.25, 0.2, 0.1, 0.08, 0.12])
    if kind in ("sum", "product"):
        a = grow(rng, depth - 1, d)
        b = grow(rng, int(rng.integers(depth)), d)
        a, b = (a, b) if rng.random() < 0.5 else (b, a)
        if kind == "sum":
            return Grown(a.kernel + b.kernel, lambda A, B: a.meaning(A, B) + b.meaning(A, B))
        return Grown(a.kernel * b.kernel, lambda A, B: a.meaning(A, B) * b.meaning(A, B))
    if kind == "on":
        columns = [int(c) for c in rng.choice(d, size=int(rng.integers(1, d + 1)), replace=False)]
        inner = grow(rng, depth - 1, len(columns))
        return Grown(inner.kernel.on(*columns), lambda A, B: inner.meaning(A[:, columns], B[:, columns]))
    inner = grow(rng, depth - 1, d)
    if kind == "power":
        power = int(rng.integers(1, 4))
        exponent = power if rng.random() < 0.5 else np.int64(power)
        return Grown(inner.kernel**exponent, lambda A, B: inner.meaning(A, B) ** power)
    number, value = as_some_number(rng, positive_number(rng))
    if rng.random() < 0.3:
        number = maybe_marked(rng, value)
    left = rng.random() < 0.5
    if kind == "scale":
        return Grown(number * inner.kernel if left else inner.kernel * number, lambda A, B: value * inner.meaning(A, B))
    return Grown(number + inner.kernel if left else inner.kernel + number, lambda A, B: value + inner.meaning(A, B))


def expression(seed: int) -> Grown:
    """Return the expression for a seed, of depth 1 to 5."""
    return grow(np.random.default_rng(seed), 1 + seed % 5, COLUMNS)


def matrix(kernel: AbstractKernel, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Evaluate the block in 64 bits, without compiling the expression."""
    with jax.enable_x64(True):
        return np.asarray(kernel.block(Inputs(A), Inputs(B)))


SEEDS = range(200)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_expression_means_what_it_says(seed: int):
    grown = expression(seed)
    K = matrix(grown.kernel, X, X)
    size = np.abs(K).max()
    np.testing.assert_allclose(K, grown.meaning(X, X), rtol=1e-11, atol=1e-12 * size)
    np.testing.assert_allclose(K, K.T, rtol=1e-14, atol=1e-14 * size)
    assert np.linalg.eigvalsh((K + K.T) / 2).min() >= -1e-12 * len(K) * size
    with jax.enable_x64(True):
        diagonal = np.asarray(grown.kernel.block_diag(Inputs(X)))
    np.testing.assert_allclose(diagonal, np.diagonal(grown.meaning(X, X)), rtol=1e-11, atol=1e-12 * size)
    grown.kernel.check(Inputs(X))


@pytest.mark.parametrize("seed", SEEDS)
def test_random_expression_reads_back_from_its_text(seed: int):
    kernel = expression(seed).kernel
    again = parse(repr(kernel))
    assert again == kernel
    assert repr(again) == repr(kernel)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_expression_has_unique_and_stable_parameter_paths(seed: int):
    kernel = expression(seed).kernel
    found = parameters(kernel)
    assert len(found) == len(jax.tree_util.tree_leaves(kernel))
    visited: list[str] = []

    def visit(path: str, value: Any, mark: Any) -> Any:
        visited.append(path)
        return value, mark

    assert rebuild(kernel, visit) == kernel
    assert visited == list(found)
    again = parameters(parse(repr(kernel)))
    assert list(again) == list(found)
    for path, parameter in found.items():
        np.testing.assert_array_equal(again[path].value, parameter.value)
        assert again[path].mark == parameter.mark


@pytest.mark.parametrize("seed", range(0, 200, 10))
def test_random_expression_reads_back_after_freezing(seed: int):
    kernel = expression(seed).kernel
    if not parameters(kernel):
        kernel = 2.0 * kernel
    frozen = freeze(kernel, "*")
    again = parse(repr(frozen))
    assert again == frozen
    assert all(p.mark.fixed for p in parameters(again).values())


def test_the_random_expressions_cover_the_grammar():
    text = " ".join(repr(expression(seed).kernel) for seed in SEEDS)
    for piece in ("fixed(", "bounded(", "fixed(bounded(", "**", "Columns(", ") * ", ") + ", "[", *PLAIN):
        assert piece in text, piece


def test_every_kernel_of_the_catalogue_reads_back_from_its_text():
    """Kernels with a user-defined function are parsed with its name."""
    functions = {name: f for name, f in vars(rows_located).items() if callable(f) and name[0] != "_"}
    for row in EVERY_KERNEL:
        if "Function" in row.name or "transform" in repr(row.kernel) or "Spectral(" in repr(row.kernel):
            continue
        assert ks.parse(repr(row.kernel), functions) == row.kernel, row.id


@pytest.mark.parametrize(
    ("kernel", "meaning"),
    [
        (lambda a, b, c: a * b + c, lambda a, b, c: a * b + c),
        (lambda a, b, c: a * (b + c), lambda a, b, c: a * (b + c)),
        (lambda a, b, c: (a + b) * (b + c), lambda a, b, c: (a + b) * (b + c)),
        (lambda a, b, c: (a * b) ** 2 + c, lambda a, b, c: (a * b) ** 2 + c),
        (lambda a, b, c: (a + b) ** 2 * c, lambda a, b, c: (a + b) ** 2 * c),
        (lambda a, b, c: 2 * (a + 3 * b) * (4 * c), lambda a, b, c: 2 * (a + 3 * b) * (4 * c)),
        (lambda a, b, c: 2 + 3 * a + b * c * 5, lambda a, b, c: 2 + 3 * a + b * c * 5),
        (lambda a, b, c: (2 * a) ** 3 * b + c, lambda a, b, c: (2 * a) ** 3 * b + c),
        (lambda a, b, c: fixed(2.0) * (a * b) * c, lambda a, b, c: 2 * a * b * c),
    ],
)
def test_precedence(kernel: Any, meaning: Any):
    members = (ks.Matern52(0.7), ks.Linear(1.3), ks.Periodic(0.9, period=1.7))
    built = kernel(*members)
    expected = meaning(*(matrix(k, X, X) for k in members))
    np.testing.assert_allclose(matrix(built, X, X), expected, rtol=1e-13)
    np.testing.assert_allclose(matrix(parse(repr(built)), X, X), expected, rtol=1e-13)
    assert parse(repr(built)) == built
