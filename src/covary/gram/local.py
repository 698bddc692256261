"""Many small problems at once: a row given its neighbours, in compiled batches of one size.

A problem has k neighbours and the row in question last; absent neighbours are independent of everything and of variance one.
The formulas are those of :mod:`covary.gram.conditionals`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from covary._checks import NotPositiveDefinite
from covary._threads import blas_threads
from covary.data import Inputs
from covary.kernels import tiles

ENTRIES = 2**18  # of the local matrices computed at a time

traces = {"blocks": 0, "pull": 0}  # how often each was traced; read by the tests


def blocks(kernel: Any, X: Inputs, jitter: Any) -> Any:
    """The local matrices of K, (rows, k + 1, k + 1), with their diagonals raised by fractions of themselves, if any."""
    K = jax.vmap(lambda x: kernel.block(x, x))(X)
    return K if jitter is None else K + jitter * jnp.eye(K.shape[-1], dtype=K.dtype) * K


@jax.jit
def noisy(kernel: Any, X: Inputs, noise: Any, there: Any, jitter: Any) -> tuple[Any, Any, Any]:
    """The local matrices of K + S: among neighbours, with the row in question, its own variance."""
    traces["blocks"] += 1
    both = there[:, :, None] & there[:, None, :]
    own = jnp.where(there, noise, 1.0)[:, :, None] * jnp.eye(noise.shape[1], dtype=noise.dtype)
    C = jnp.where(both, blocks(kernel, X, jitter), 0.0) + own
    return C[:, :-1, :-1], C[:, :-1, -1], C[:, -1, -1]


def factors(kernel: Any, X: Inputs, noise: Any, there: Any, jitter: Any) -> tuple[np.ndarray, Any, Any]:
    """The local Cholesky factors, what else the local matrices hold; ``NotPositiveDefinite`` if one has no factor.

    The factors are NumPy's: the compiled ones share one pool of threads, and two callers at once wait for each other for
    ever (seen with jaxlib 0.10.2).
    """
    C, cross, own = noisy(kernel, X, noise, there, jitter)
    try:
        return np.linalg.cholesky(np.asarray(C)), cross, own
    except np.linalg.LinAlgError:
        raise NotPositiveDefinite("gram.Vecchia: K + noise has no Cholesky factor among some row's neighbours.") from None


def _forward(L: Any, B: Any) -> Any:
    """L⁻¹ B for every local factor: (rows, k, k) and (rows, k)."""

    def step(j: Any, x: Any) -> Any:
        row = jax.lax.dynamic_index_in_dim(L, j, 1, False)  # x is B from j on: the row ends at j
        known = (jnp.where(jnp.arange(L.shape[1]) < j, row, 0.0) * x).sum(1)
        at = jax.lax.dynamic_index_in_dim(x, j, 1, False) - known
        return jax.lax.dynamic_update_index_in_dim(x, at / jax.lax.dynamic_index_in_dim(row, j, 1, False), j, 1)

    return jax.lax.fori_loop(0, L.shape[1], step, B)


def _backward(L: Any, B: Any) -> Any:
    """L⁻ᵀ B, by rows of L as well."""
    k = L.shape[1]

    def step(i: Any, x: Any) -> Any:
        j = k - 1 - i
        row = jax.lax.dynamic_index_in_dim(L, j, 1, False)
        at = jax.lax.dynamic_index_in_dim(x, j, 1, False) / jax.lax.dynamic_index_in_dim(row, j, 1, False)
        x = x - jnp.where(jnp.arange(k) < j, row, 0.0) * at[:, None]
        return jax.lax.dynamic_update_index_in_dim(x, at, j, 1)

    return jax.lax.fori_loop(0, k, step, B)


@jax.jit
def solve(L: Any, cross: Any, own: Any, there: Any) -> tuple[Any, Any, Any]:
    """Weights b, variances d, and the least pivot of every local factor; infinite where there are no neighbours."""
    half = _forward(L, cross)
    pivots = jnp.min(jnp.where(there[:, :-1], jnp.diagonal(L, axis1=1, axis2=2), jnp.inf), axis=1) ** 2
    return _backward(L, half), own - (half**2).sum(1), pivots


@jax.jit
def sides(there: Any, b: Any, d: Any, L: Any, Y: Any, omega: Any, level: Any) -> tuple[Any, Any]:
    """The two sides w and v of the local cotangents (see :mod:`covary.gram.conditionals`)."""
    e = Y[:, -1] - (b[:, :, None] * Y[:, :-1]).sum(1)
    g = 2 * omega * e / d[:, None]
    a = _backward(L, _forward(L, (Y[:, :-1] * g[:, None, :]).sum(2)))
    one = jnp.ones((len(b), 1), b.dtype)
    v = jnp.where(there, jnp.concatenate([-b, one], 1), 0.0)
    w = (level / d - (omega * e**2).sum(1) / d**2)[:, None] * v
    return w - jnp.where(there, jnp.concatenate([a, 0 * one], 1), 0.0), v


@jax.jit
def pull(kernel: Any, X: Inputs, jitter: Any, w: Any, v: Any) -> Any:
    """The gradient over the kernel's parameters; compiled apart from the sides, which would else be computed per entry."""
    traces["pull"] += 1
    return jax.vjp(lambda k: blocks(k, X, jitter), kernel)[1](w[:, :, None] * v[:, None, :])[0]


def _beside(rows: Inputs, own: Inputs) -> Inputs:
    """Local problems: (b, k) neighbours and the (b,) rows in question, as (b, k + 1)."""
    tags = {name: np.column_stack([tag, own.tags[name]]) for name, tag in rows.tags.items()}
    return Inputs(np.concatenate([rows.x, own.x[:, None]], 1), tags)


def batch(rows: int, k: int) -> int:
    """How many local problems of k neighbours make a batch: powers of two, so that few shapes are compiled."""
    fits = 2 ** int(np.log2(max(8, ENTRIES // (k + 1) ** 2)))
    return min(fits, 2048, 2 ** int(np.ceil(np.log2(max(16, rows)))))


def each(work: Any, X: Inputs, index: np.ndarray, own: Inputs | None = None) -> list[Any]:
    """``work(span, inputs, there, rows)`` for batches of local problems, padded to one size, on a few threads.

    ``index`` holds the rows of X that each problem involves, −1 for none; the last of each is the row in question, or
    that row of ``own``, new inputs.
    """
    n, k = index.shape[0], index.shape[1] - 1
    size = batch(n, k)

    def one(span: tuple[int, int]) -> Any:
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
