"""Laws that every kernel obeys, over the table of kernels: slopes over parameters."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from covary.data import Inputs
from covary.kernels import AbstractKernel, networks, tiles
from covary.parameters import Packing, parameters
from laws.tables import EVERY_KERNEL, KernelRow

NAMED = {(row.name, row.columns) for row in EVERY_KERNEL}
# slopes of the larger families are compiled for one number of columns, the fewest
FEW = [row for row in EVERY_KERNEL if row.told is None or not any((row.name, d) in NAMED for d in range(1, row.columns))]
LEARNING = [pytest.param(row, id=row.id) for row in FEW if parameters(row.kernel)]


def slope_as_it_is(kernel: AbstractKernel, X: np.ndarray, W: np.ndarray) -> AbstractKernel:
    """The gradient of Σ W K over the kernel, operation by operation; long loops compiled."""
    loops = isinstance(kernel, networks.TanhNetwork)
    with jax.enable_x64(True), jax.disable_jit(not loops):
        return jax.grad(lambda k: (W * k.block(Inputs(X), Inputs(X))).sum())(kernel)


def slope_compiled(kernel: AbstractKernel, X: np.ndarray, W: np.ndarray) -> AbstractKernel:
    """The same as learning sees it: compiled, where the compiler may fuse and contract operations."""
    return tiles.pull_gram(kernel, Inputs(X), W)


@pytest.mark.parametrize("row", LEARNING)
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
