"""Properties of every kernel in the table; stationary kernels are in a separate file.

A test selects the rows to which it applies, and a file the rows that it covers, so that each kernel is compiled by one worker
only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np
import pytest

from covary import kernels
from covary._checks import CovaryError
from covary._module import without_marks
from covary._precision import cast, precision
from covary.data import Inputs
from covary.kernels import CATALOGUE, AbstractKernel, networks, tiles
from covary.parameters import Packing, parameters
from laws.tables import BOOK, EVERY_KERNEL, LOCATED, KernelRow

NAMED = {(row.name, row.columns) for row in EVERY_KERNEL}


def fewest(row: KernelRow) -> bool:
    """Select rows for parameter gradients: for large groups of kernels only the smallest number of columns."""
    return row.told is None or not any((row.name, d) in NAMED for d in range(1, row.columns))


def most(row: KernelRow) -> bool:
    """Select rows for input gradients: for large groups of kernels only the largest number of columns."""
    return row.told is None or not any((row.name, d) in NAMED for d in range(row.columns + 1, 9))


def law(holds: Callable[[KernelRow], bool]) -> Callable[[Any], Any]:
    """Return a decorator for a test of the rows that satisfy a condition."""

    def mark(test: Any) -> Any:
        test.holds = holds
        return test

    return mark


def over(metafunc: pytest.Metafunc, rows: Iterable[KernelRow]) -> None:
    """Parametrise a test by the rows to which it applies."""
    if hasattr(metafunc.function, "holds"):
        metafunc.parametrize("row", [pytest.param(row, id=row.id) for row in rows if metafunc.function.holds(row)])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    over(metafunc, (*BOOK, *LOCATED))


def classes_of(kernel: AbstractKernel) -> set[type]:
    """Return the classes of a kernel and its parts."""
    found, todo = set(), [kernel]
    while todo:
        here = todo.pop()
        found.add(type(here))
        children = (getattr(here, name) for name in type(here)._dynamic_names)
        for child in children:
            todo += [c for c in (child if isinstance(child, tuple) else (child,)) if isinstance(c, AbstractKernel)]
    return found


def test_every_exported_kernel_has_a_row():
    exported = {
        value
        for value in vars(kernels).values()
        if isinstance(value, type) and issubclass(value, AbstractKernel) and value is not AbstractKernel
    }
    tabled = set().union(*(classes_of(row.kernel) for row in EVERY_KERNEL))
    assert exported | set(CATALOGUE.values()) == tabled


@law(lambda row: True)
def test_traits_are_those_of_the_book(row: KernelRow):
    assert row.kernel.traits.smoothness == row.smoothness
    assert row.kernel.traits.stationary is row.stationary


@law(lambda row: True)
def test_gram_is_symmetric_and_positive_semi_definite(row: KernelRow):
    K = row.kernel.gram(row.inputs())
    assert K.shape == (12, 12)
    assert K.dtype == np.float64
    np.testing.assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() >= -1e-12 * len(K) * np.abs(K).max()


def test_a_tensor_product_multiplies_kernels_of_their_own_columns():
    """R&W, section 4.2.4: k(x, x') = k₁(x₁, x₁') k₂(x₂₃, x₂₃')."""
    X = np.random.default_rng(3).normal(size=(7, 3))
    kernel = kernels.tensor((kernels.Matern12(0.5), 0), (kernels.SquaredExponential(0.8), [1, 2]))
    apart = X[:, None] - X[None]
    expected = np.exp(-np.abs(apart[:, :, 0]) / 0.5) * np.exp(-(apart[:, :, 1:] ** 2).sum(-1) / (2 * 0.8**2))
    np.testing.assert_allclose(kernel.gram(X), expected, atol=1e-13)


@law(lambda row: True)
def test_gram_equals_the_formula(row: KernelRow):
    X = row.inputs()
    expected = row.reference(X, X)
    np.testing.assert_allclose(row.kernel.gram(X), expected, rtol=1e-12, atol=1e-13 * np.abs(expected).max())


@law(lambda row: True)
def test_cross_equals_the_formula_and_agrees_with_gram(row: KernelRow):
    X, Z = row.inputs(), row.inputs(7, seed=1)
    expected = row.reference(X, Z)
    cross = row.kernel.cross(X, Z)
    assert cross.shape == (12, 7)
    np.testing.assert_allclose(cross, expected, rtol=1e-12, atol=1e-13 * np.abs(expected).max())
    np.testing.assert_allclose(row.kernel.cross(X, X), row.kernel.gram(X), rtol=1e-14, atol=1e-14)


@law(lambda row: True)
def test_diag_equals_the_diagonal_of_gram(row: KernelRow):
    X = row.inputs()
    expected = np.diagonal(row.reference(X, X))
    np.testing.assert_allclose(row.kernel.diag(X), np.diagonal(row.kernel.gram(X)), rtol=1e-13)
    np.testing.assert_allclose(row.kernel.diag(X), expected, rtol=1e-12)
    with precision(np.float64), jax.default_device(tiles.host_device()):
        if row.stationary:  # diag computes one entry only
            every = row.kernel.block_diag(Inputs(X))
        else:  # compiled as in diag
            every = tiles._diag(cast(without_marks(row.kernel), np.float64), tiles.padded(Inputs(X), tiles.ROWS))
    np.testing.assert_allclose(np.asarray(every)[: len(X)], expected, rtol=1e-12)


@law(lambda row: True)
def test_call_equals_the_entry_of_gram(row: KernelRow):
    X = row.inputs()
    K = row.kernel.gram(X)
    for i, j in ((0, 0), (2, 5), (0, 11)):
        np.testing.assert_allclose(row.kernel(X[i], X[j]), K[i, j], rtol=1e-13)


@law(lambda row: row.stationary)
def test_stationary_kernels_are_invariant_under_shifts(row: KernelRow):
    X = row.inputs()
    shifted = X + np.linspace(0.3, 0.9, row.columns)
    np.testing.assert_allclose(row.kernel.gram(shifted), row.kernel.gram(X), rtol=1e-12, atol=1e-13)


def slope_as_it_is(kernel: AbstractKernel, X: np.ndarray, W: np.ndarray) -> AbstractKernel:
    """Return the gradient of Σ W K over the kernel without compilation, except for long loops."""
    loops = isinstance(kernel, networks.TanhNetwork)
    with jax.enable_x64(True), jax.disable_jit(not loops):
        return jax.grad(lambda k: (W * k.block(Inputs(X), Inputs(X))).sum())(kernel)


def slope_compiled(kernel: AbstractKernel, X: np.ndarray, W: np.ndarray) -> AbstractKernel:
    """Return the same gradient compiled, as in learning: the compiler may fuse and contract operations."""
    return tiles.pull_gram(kernel, Inputs(X), W)


@law(lambda row: fewest(row) and bool(parameters(row.kernel)))
def test_parameter_gradient_equals_finite_differences_with_duplicated_rows(row: KernelRow):
    X = row.inputs()
    X[6:9] = X[2:5]
    W = np.random.default_rng(2).normal(size=(12, 12))
    W = W + W.T
    slope = (slope_as_it_is if row.columns == 1 else slope_compiled)(row.kernel, X, W)
    packing = Packing(row.kernel)
    gradient = packing.pull(row.kernel, slope)
    assert np.isfinite(gradient).all()

    theta, step = packing.pack(row.kernel), 1e-5
    numeric = np.empty(packing.size)
    for i in range(packing.size):
        up, down = theta.copy(), theta.copy()
        up[i] += step
        down[i] -= step
        difference = packing.unpack(up).gram(X) - packing.unpack(down).gram(X)
        numeric[i] = (W * difference).sum() / (2 * step)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-7 * np.abs(numeric).max())


@law(lambda row: most(row) and row.smoothness >= 1)
def test_input_gradient_equals_finite_differences(row: KernelRow):
    X = row.inputs() + 0.1
    Z = np.vstack([row.inputs(11, seed=1), X[:1]])  # one pair at distance zero
    gradient = row.kernel.input_gradient(X, Z)
    assert gradient.shape == (12, 12, row.columns)

    step = 1e-5
    numeric = np.empty_like(gradient)
    for c in range(row.columns):
        shift = step * np.eye(row.columns)[c]
        numeric[:, :, c] = (row.kernel.cross(X + shift, Z) - row.kernel.cross(X - shift, Z)) / (2 * step)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-8 * max(1.0, np.abs(numeric).max()))


@law(lambda row: row.smoothness < 1)
def test_input_gradient_raises_for_rough_kernels(row: KernelRow):
    X = row.inputs()
    with pytest.raises(CovaryError, match="not mean-square differentiable"):
        row.kernel.input_gradient(X, X)


@law(lambda row: row.rows is None)  # codes and places cannot be dates
def test_gram_is_finite_and_positive_semi_definite_at_inputs_of_the_size_of_dates(row: KernelRow):
    X = 4e8 + 5e8 * row.inputs()  # seconds since 1970
    K = row.kernel.gram(X)
    assert np.isfinite(K).all()
    assert np.isfinite(row.kernel.diag(X)).all()
    assert np.linalg.eigvalsh(K).min() >= -1e-7 * len(K) * np.abs(K).max()  # half the digits may be lost


def test_input_gradient_raises_for_tables_with_different_columns():
    with pytest.raises(CovaryError, match="X has 3 columns and Z has 2"):
        kernels.Matern52().input_gradient(np.zeros((2, 3)), np.zeros((2, 2)))
