"""Batches of small problems, a row conditioned on its neighbours, compiled for one batch size.

A problem has k neighbours followed by the target row; absent neighbours are independent of everything with variance one. See
:mod:`covary.gram.vecchia.conditionals` for the formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from covary._checks import NotPositiveDefinite
from covary._threads import blas_threads
from covary._types import Array
from covary.data import Inputs
from covary.kernels import tiles
from covary.kernels.base import AbstractKernel

T = TypeVar("T")
Work: TypeAlias = Callable[[tuple[int, int], Inputs, np.ndarray, np.ndarray], T]

ENTRIES = 2**18  # entries of the local matrices computed per batch

traces = {"blocks": 0, "pull": 0}  # how often each was traced; read by the tests


def blocks(kernel: AbstractKernel, X: Inputs, jitter: Array | None) -> Array:
    """Return the local matrices of K, (rows, k + 1, k + 1), with relative ``jitter`` on the diagonals, if any."""
    K = jax.vmap(lambda x: kernel.block(x, x))(X)
    return K if jitter is None else K + jitter * jnp.eye(K.shape[-1], dtype=K.dtype) * K


@jax.jit
def noisy(
    kernel: AbstractKernel, X: Inputs, noise: jax.Array, there: jax.Array, jitter: Array | None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the local parts of K + S: among neighbours, between neighbours and target row, and the target's variance."""
    traces["blocks"] += 1
    both = there[:, :, None] & there[:, None, :]
    own = jnp.where(there, noise, 1.0)[:, :, None] * jnp.eye(noise.shape[1], dtype=noise.dtype)
    C = jnp.where(both, blocks(kernel, X, jitter), 0.0) + own
    return C[:, :-1, :-1], C[:, :-1, -1], C[:, -1, -1]


def factors(
    kernel: AbstractKernel, X: Inputs, noise: np.ndarray, there: np.ndarray, jitter: np.ndarray | None
) -> tuple[np.ndarray, jax.Array, jax.Array]:
    """Return the local Cholesky factors and the rest of the local matrices; raise ``NotPositiveDefinite`` if one has no factor.

    NumPy computes the factors: the compiled version uses a shared thread pool, in which two simultaneous callers deadlock
    (observed with jaxlib 0.10.2).
    """
    C, cross, own = noisy(kernel, X, noise, there, jitter)
    try:
        return np.linalg.cholesky(np.asarray(C)), cross, own
    except np.linalg.LinAlgError:
        raise NotPositiveDefinite("gram.Vecchia", "K + noise has no Cholesky factor among some row's neighbours") from None


def _forward(L: jax.Array, B: jax.Array) -> jax.Array:
    """Return L⁻¹ B for every local factor: (rows, k, k) and (rows, k)."""

    def step(j: jax.Array, x: jax.Array) -> jax.Array:
        row = jax.lax.dynamic_index_in_dim(L, j, 1, False)  # from index j on, x is still B
        known = (jnp.where(jnp.arange(L.shape[1]) < j, row, 0.0) * x).sum(1)
        at = jax.lax.dynamic_index_in_dim(x, j, 1, False) - known
        return jax.lax.dynamic_update_index_in_dim(x, at / jax.lax.dynamic_index_in_dim(row, j, 1, False), j, 1)

    return jax.lax.fori_loop(0, L.shape[1], step, B)


def _backward(L: jax.Array, B: jax.Array) -> jax.Array:
    """Return L⁻ᵀ B, also computed by rows of L."""
    k = L.shape[1]

    def step(i: jax.Array, x: jax.Array) -> jax.Array:
        j = k - 1 - i
        row = jax.lax.dynamic_index_in_dim(L, j, 1, False)
        at = jax.lax.dynamic_index_in_dim(x, j, 1, False) / jax.lax.dynamic_index_in_dim(row, j, 1, False)
        x = x - jnp.where(jnp.arange(k) < j, row, 0.0) * at[:, None]
        return jax.lax.dynamic_update_index_in_dim(x, at, j, 1)

    return jax.lax.fori_loop(0, k, step, B)


@jax.jit
def solve(L: jax.Array, cross: jax.Array, own: jax.Array, there: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the weights b, variances d, and the smallest squared pivot of every local factor (infinite without neighbours)."""
    half = _forward(L, cross)
    pivots = jnp.min(jnp.where(there[:, :-1], jnp.diagonal(L, axis1=1, axis2=2), jnp.inf), axis=1) ** 2
    return _backward(L, half), own - (half**2).sum(1), pivots


@jax.jit
def sides(
    there: jax.Array, b: jax.Array, d: jax.Array, L: jax.Array, Y: jax.Array, omega: jax.Array, level: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return the factors w and v of the local cotangents (see :mod:`covary.gram.vecchia.conditionals`)."""
    e = Y[:, -1] - (b[:, :, None] * Y[:, :-1]).sum(1)
    g = 2 * omega * e / d[:, None]
    a = _backward(L, _forward(L, (Y[:, :-1] * g[:, None, :]).sum(2)))
    one = jnp.ones((len(b), 1), b.dtype)
    v = jnp.where(there, jnp.concatenate([-b, one], 1), 0.0)
    w = (level / d - (omega * e**2).sum(1) / d**2)[:, None] * v
    return w - jnp.where(there, jnp.concatenate([a, 0 * one], 1), 0.0), v


@jax.jit
def pull(kernel: AbstractKernel, X: Inputs, jitter: Array | None, w: Array, v: Array) -> AbstractKernel:
    """Return the gradient with respect to the kernel; compiled separately from :func:`sides`, else computed once per entry."""
    traces["pull"] += 1
    return jax.vjp(lambda k: blocks(k, X, jitter), kernel)[1](w[:, :, None] * v[:, None, :])[0]


def _beside(rows: Inputs, own: Inputs) -> Inputs:
    """Combine (b, k) neighbours and (b,) target rows into local problems (b, k + 1)."""
    tags = {name: np.column_stack([tag, own.tags[name]]) for name, tag in rows.tags.items()}
    return Inputs(np.concatenate([rows.x, own.x[:, None]], 1), tags)


def batch(rows: int, k: int) -> int:
    """Return the number of local problems of k neighbours per batch: a power of two, so that few shapes are compiled."""
    fits = 2 ** int(np.log2(max(8, ENTRIES // (k + 1) ** 2)))
    return min(fits, 2048, 2 ** int(np.ceil(np.log2(max(16, rows)))))


def each(work: Work[T], X: Inputs, index: np.ndarray, own: Inputs | None = None) -> list[T]:
    """Call ``work(span, inputs, there, rows)`` for batches of local problems, padded to one size, on a few threads.

    ``index`` contains the rows of X in each problem, −1 for none; the last one is the target row, or a placeholder if the
    target rows are new inputs, given as ``own``.
    """
    n, k = index.shape[0], index.shape[1] - 1
    size = batch(n, k)

    def one(span: tuple[int, int]) -> T:
        part = index[span[0] : span[1]]
        if len(part) < size:
            part = np.concatenate([part, np.repeat(part[-1:], size - len(part), 0)])
        there = part >= 0
        rows = np.where(there, part, part[:, -1:] if own is None else 0)
        if own is None:
            inputs = X.take(rows)
        else:
            inputs = _beside(X.take(rows[:, :-1]), own.take(np.minimum(span[0] + np.arange(size), own.rows - 1)))
        return work(span, inputs, there, rows)

    with blas_threads(0):
        return tiles._run(one, tiles._spans(n, size), X.x.dtype, size * (k + 1) ** 2)
