"""Evaluation of kernels in compiled tiles of a fixed size, so that the compiled code does not depend on the number of rows.

A kernel is compiled twice for any n: its tile, and the vector-Jacobian product of the tile. The latter recomputes what it
needs, so a gradient stores no intermediate of size n × n. Tiles run on a few threads and write into one buffer.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

import jax
import jax.numpy as jnp
import numpy as np

from covary._module import Module, without_marks
from covary._precision import cast, precision
from covary._threads import alone, blas_threads
from covary._types import Array, DTypeLike
from covary.data import Inputs
from covary.kernels import host

if TYPE_CHECKING:
    from jaxlib._jax import Device

    from covary.kernels.base import AbstractKernel

Kernel = TypeVar("Kernel", bound="AbstractKernel")
Tree = TypeVar("Tree")  # arrays in tuples, modules, or alone
Result = TypeVar("Result")
Item = TypeVar("Item")
Span = tuple[int, int]

SMALL, MIDDLE, LARGE = 128, 256, 512  # the sizes of a tile
THIN, WIDE = 16, 1024  # for a few rows against many, as in predictions at a few points
ROWS = 256  # blocks of rows, for functions of one row
ALONE = 200_000  # entries below which one thread is faster than starting a second

traces = {"tile": 0, "pull": 0}  # number of times each was traced, for tests


@jax.jit
def _tile(kernel: AbstractKernel, X: Inputs, Z: Inputs) -> Array:
    traces["tile"] += 1
    return kernel.block(X, Z)


@jax.jit
def _pull(kernel: Kernel, X: Inputs, Z: Inputs, G: Array, scale: Array, low_rank: tuple[Array, ...], diagonal: Array) -> Kernel:
    """Return the gradient of a block and its mirror image. Only one triangle of a diagonal block is read."""
    traces["pull"] += 1
    left_x, right_x, left_z, right_z = low_rank
    row, column = jax.lax.broadcasted_iota(int, G.shape, 0), jax.lax.broadcasted_iota(int, G.shape, 1)
    G = scale * G + 0.5 * (left_x @ right_z.T + right_x @ left_z.T)
    inside = jnp.where(column > row, 2.0, jnp.where(column == row, 1.0, 0.0)) * diagonal + 2.0 * (1 - diagonal)
    G = jnp.where(inside > 0, inside.astype(G.dtype) * G, 0.0)
    return jax.vjp(lambda k: k.block(X, Z), kernel)[1](G)[0]


@jax.jit
def _pull_inputs(kernel: Kernel, X: Inputs, Z: Inputs, G: Array) -> tuple[Kernel, Array]:
    traces["pull"] += 1
    kernel_bar, x_bar = jax.vjp(lambda k, x: k.block(X.with_x(x), Z), kernel, X.x)[1](G)
    return kernel_bar, x_bar


@jax.jit
def _pull_block(kernel: Kernel, X: Inputs, Z: Inputs, G: Array) -> Kernel:
    traces["pull"] += 1
    return jax.vjp(lambda k: k.block(X, Z), kernel)[1](G)[0]


@jax.jit
def _diag(kernel: AbstractKernel, X: Inputs) -> Array:
    return kernel.block_diag(X)


@jax.jit
def _diag_pull(kernel: Kernel, X: Inputs, g: Array) -> Kernel:
    return jax.vjp(lambda k: k.block_diag(X), kernel)[1](g)[0]


def tile_size(rows: int) -> int:
    """Return the tile size for this many rows. Padding is small, and problems of similar size share compiled code."""
    return SMALL if rows <= 512 else MIDDLE if rows <= 1024 else LARGE


def cross_size(rows: int, columns: int) -> tuple[int, int]:
    """Return the tile shape for a cross matrix: as for a gram, but larger for very many columns if it pads few rows."""
    if columns < 2 * LARGE:
        return tile_size(rows), tile_size(rows)
    fitting = [size for size in (LARGE, MIDDLE, SMALL) if -rows % size <= rows // 8]
    return (fitting or [SMALL])[0], LARGE


def host_device() -> Device:
    """Return the device that tiles run on: the CPU, even if an accelerator is the default."""
    return jax.local_devices(backend="cpu")[0]


def threads() -> int:
    """Return the number of threads that evaluate tiles: the cores this process may use, at most four."""
    return min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1))


def padded(X: Inputs, multiple: int) -> Inputs:
    """Return the inputs with the last row repeated up to a multiple of the tile size."""
    short = -X.rows % multiple
    if not short:
        return X
    rows = np.concatenate([np.arange(X.rows), np.full(short, X.rows - 1)])
    return X.take(rows)


@cache
def _pool(process: int, count: int) -> ThreadPoolExecutor:
    """Return the thread pool of this process (a forked one gets another), because starting threads costs as much as a tile."""
    return ThreadPoolExecutor(count, thread_name_prefix="covary-tiles")


def _run(work: Callable[[Item], Result], items: Iterable[Item], dtype: DTypeLike, entries: int) -> list[Result]:
    """Apply ``work`` to items of ``entries`` entries each, in the given precision, on threads if that is faster."""
    items = list(items)
    device = host_device()

    def scoped(item: Item) -> Result:
        with precision(dtype), jax.default_device(device):
            return work(item)

    count = min(threads(), len(items)) if len(items) * entries > ALONE and not _within.worker and not alone() else 1
    if count <= 1:
        return [scoped(item) for item in items]
    return list(_pool(os.getpid(), count).map(scoped, items))


class _Within(threading.local):
    """Whether this thread is a worker of :func:`stream`, which then evaluates its tiles itself."""

    worker = False


_within = _Within()


def stream(work: Callable[[Item], Result], items: Sequence[Item], dtype: DTypeLike) -> Iterator[Result]:
    """Apply ``work`` to every item, one item per thread, and yield the results in order.

    BLAS uses one thread meanwhile, because its threads and those of the tiles would otherwise compete for the same cores. This
    is faster only for code that releases the interpreter lock (NumPy's products do, SciPy's do not).
    """
    device = host_device()

    def scoped(item: Item) -> Result:
        _within.worker = True
        try:
            with precision(dtype), jax.default_device(device):
                return work(item)
        finally:
            _within.worker = False

    count = 1 if _within.worker or alone() else min(threads(), len(items))
    if count <= 1:
        yield from map(work, items)
        return
    with blas_threads(0):
        yield from _pool(os.getpid(), count).map(scoped, items)


def _spans(rows: int, step: int) -> list[Span]:
    return [(start, min(start + step, rows)) for start in range(0, rows, step)]


def total(parts: list[Tree]) -> Tree:
    """Return the sum of trees, in order, so that results do not depend on scheduling."""
    return jax.tree_util.tree_map(lambda *leaves: sum(np.asarray(leaf) for leaf in leaves), *parts)


def gram_lower(kernel: AbstractKernel, X: Inputs, out: np.ndarray | None = None, tile: int | None = None) -> np.ndarray:
    """Write K(X, X) to the lower triangle of a Fortran-ordered buffer, leaving entries above the diagonal blocks unchanged."""
    n, dtype = X.rows, X.x.dtype
    size = tile or tile_size(n)
    out = np.empty((n, n), dtype, order="F") if out is None else out
    if n <= host.ROWS and kernel.host:
        bare = cast(without_marks(kernel), dtype)
        parts = {span: X.take(slice(*span)) for span in _spans(n, host.STEP)}
        for (i, i_end), (j, j_end) in _lower_pairs(n, host.STEP):
            out[i:i_end, j:j_end] = bare.host_block(parts[j, j_end], parts[i, i_end]).T
        return out
    bare, full = cast(without_marks(kernel), dtype), padded(X, size)

    def work(pair: tuple[Span, Span]) -> None:
        (i, i_end), (j, j_end) = pair
        part = np.asarray(_tile(bare, full.take(slice(j, j + size)), full.take(slice(i, i + size))))
        out[i:i_end, j:j_end] = part[: j_end - j, : i_end - i].T

    _run(work, _lower_pairs(n, size), dtype, size * size)
    return out


def _lower_pairs(rows: int, size: int) -> list[tuple[Span, Span]]:
    spans = _spans(rows, size)
    return [(a, b) for b in spans for a in spans if a[0] >= b[0]]


def mirror(K: np.ndarray) -> np.ndarray:
    """Copy the lower triangle of a square buffer onto the upper one, in place, by blocks."""
    n = K.shape[0]
    for start, stop in _spans(n, SMALL):
        block = K[start:stop, start:stop]
        block[...] = np.tril(block) + np.tril(block, -1).T
        K[start:stop, stop:] = K[stop:, start:stop].T
    return K


def cross(kernel: AbstractKernel, X: Inputs, Z: Inputs, out: np.ndarray | None = None) -> np.ndarray:
    """Write K(X, Z) of shape (n, m) to a Fortran-ordered buffer."""
    n, m, dtype = X.rows, Z.rows, X.x.dtype
    out = np.empty((n, m), dtype, order="F") if out is None else out
    bare = cast(without_marks(kernel), dtype)
    if n <= host.ROWS and n * m <= host.ENTRIES and kernel.host and not _within.worker:
        parts = {span: X.take(slice(*span)) for span in _spans(n, host.STEP)}
        for j, j_end in _spans(m, host.STEP):
            part = Z.take(slice(j, j_end))
            for (i, i_end), rows in parts.items():
                out[i:i_end, j:j_end] = bare.host_block(part, rows).T
        return out
    thin = m <= THIN and n > MIDDLE
    rows, columns = (WIDE, THIN) if thin else cross_size(n, m)
    full_x, full_z = padded(X, rows), padded(Z, columns)

    def work(pair: tuple[Span, Span]) -> None:
        (i, i_end), (j, j_end) = pair
        tile = np.asarray(_tile(bare, full_z.take(slice(j, j + columns)), full_x.take(slice(i, i + rows))))
        out[i:i_end, j:j_end] = tile[: j_end - j, : i_end - i].T

    _run(work, [(a, b) for b in _spans(m, columns) for a in _spans(n, rows)], dtype, rows * columns)
    return out


def diag(kernel: AbstractKernel, X: Inputs, tile: int | None = None) -> np.ndarray:
    """Return the diagonal of K(X, X), without computing the matrix. If it is constant only one entry is computed."""
    n, dtype = X.rows, X.x.dtype
    bare = cast(without_marks(kernel), dtype)
    if kernel.traits.stationary and kernel.host:
        first = X.take(slice(0, 1))
        return np.full(n, bare.host_block(first, first)[0, 0], dtype)
    if kernel.traits.stationary:
        first = padded(X.take(slice(0, 1)), tile or SMALL)
        with precision(dtype), jax.default_device(host_device()):
            return np.full(n, np.asarray(_tile(bare, first, first))[0, 0], dtype)
    full = padded(X, ROWS)
    parts = _run(lambda s: np.asarray(_diag(bare, full.take(slice(s[0], s[0] + ROWS)))), _spans(n, ROWS), dtype, ROWS)
    return np.concatenate(parts)[:n]


def pull_gram(
    kernel: Kernel,
    X: Inputs,
    G: np.ndarray | None,
    scale: float = 1.0,
    left: np.ndarray | None = None,
    right: np.ndarray | None = None,
    tile: int | None = None,
) -> Kernel:
    """Return the gradient, with respect to the kernel's parameters, of Σ_ij C_ij K_ij with C = scale·G + sym(left rightᵀ).

    G is symmetric and only its lower triangle is read; it may be None. No second n × n matrix is formed.
    """
    n, dtype = X.rows, X.x.dtype
    size = tile or tile_size(n)
    if n <= host.ROWS and kernel.host:
        return _pull_on_host(cast(without_marks(kernel), dtype), X, G, scale, left, right)
    bare, full = cast(without_marks(kernel), dtype), padded(X, size)
    short = full.rows - n

    def column_block(v: np.ndarray | None) -> np.ndarray:
        return np.pad(np.zeros((n, 1), dtype) if v is None else v.astype(dtype, copy=False), ((0, short), (0, 0)))

    sides = column_block(left), column_block(right)
    empty = np.zeros((size, size), dtype) if G is None else None
    level = np.asarray(scale, dtype)

    def work(pair: tuple[Span, Span]) -> Kernel:
        (i, i_end), (j, j_end) = pair
        if G is None:
            block = empty
        else:
            part = block = G[i:i_end, j:j_end].T
            if part.shape != (size, size):
                block = np.zeros((size, size), dtype)
                block[: j_end - j, : i_end - i] = part
        rows, cols = slice(i, i + size), slice(j, j + size)
        low_rank = (sides[0][cols], sides[1][cols], sides[0][rows], sides[1][rows])
        bar = _pull(bare, full.take(cols), full.take(rows), block, level, low_rank, np.asarray(float(i == j), dtype))
        return jax.tree_util.tree_map(np.asarray, bar)

    return total(_run(work, _lower_pairs(n, size), dtype, size * size))


def _pull_on_host(
    bare: Kernel, X: Inputs, G: np.ndarray | None, scale: float, left: np.ndarray | None, right: np.ndarray | None
) -> Kernel:
    """Compute :func:`pull_gram` in NumPy, by blocks of the transposed lower triangle; off-diagonal entries count twice."""
    n, dtype, parts = X.rows, X.x.dtype, []
    rows = {span: X.take(slice(*span)) for span in _spans(n, host.STEP)}
    for (i, i_end), (j, j_end) in _lower_pairs(n, host.STEP):
        C = np.zeros((j_end - j, i_end - i), dtype) if G is None else 2 * scale * G[i:i_end, j:j_end].T
        if i == j:  # one triangle of a diagonal block is read, and its diagonal counts once
            C = np.triu(C)
        if left is not None and right is not None:
            both = left[j:j_end] @ right[i:i_end].T + right[j:j_end] @ left[i:i_end].T
            C += np.triu(both) if i == j else both
        if i == j:
            np.einsum("ii->i", C)[...] *= 0.5
        parts.append(bare.host_pull(rows[j, j_end], rows[i, i_end], C)[0])
    return total(parts)


def pull_cross(
    kernel: Kernel, X: Inputs, Z: Inputs, G: np.ndarray, *, inputs: bool = True
) -> tuple[Kernel, np.ndarray | float]:
    """Return the gradient of Σ_ij G_ij k(x_i, z_j) with respect to the kernel's parameters, and to X (0 unless ``inputs``)."""
    n, m, dtype = X.rows, Z.rows, X.x.dtype
    rows, columns = (MIDDLE, MIDDLE) if inputs else cross_size(n, m)
    bare, full_x, full_z = cast(without_marks(kernel), dtype), padded(X, rows), padded(Z, columns)

    def work(pair: tuple[Span, Span]) -> tuple[Kernel, np.ndarray | None]:
        (i, i_end), (j, j_end) = pair
        some_x, some_z = full_x.take(slice(i, i + rows)), full_z.take(slice(j, j + columns))
        if inputs:
            block = np.zeros((rows, columns), dtype)
            block[: i_end - i, : j_end - j] = G[i:i_end, j:j_end]
            bar, x_bar = _pull_inputs(bare, some_x, some_z, block)
            return jax.tree_util.tree_map(np.asarray, bar), np.asarray(x_bar)[: i_end - i]
        block = G[i:i_end, j:j_end].T  # G is Fortran-ordered, so its transpose is contiguous
        if block.shape != (columns, rows):
            block = np.zeros((columns, rows), dtype)
            block[: j_end - j, : i_end - i] = G[i:i_end, j:j_end].T
        bar = _pull_block(bare, some_z, some_x, block)
        return jax.tree_util.tree_map(np.asarray, bar), None

    pairs = [(a, b) for a in _spans(n, rows) for b in _spans(m, columns)]
    parts = _run(work, pairs, dtype, rows * columns)
    if not inputs:
        return total([bar for bar, _ in parts]), 0.0
    x_bar = np.zeros_like(X.x)
    for ((i, i_end), _), (_, moved) in zip(pairs, parts, strict=True):
        x_bar[i:i_end] += moved
    return total([bar for bar, _ in parts]), x_bar


def pull_diag(kernel: Kernel, X: Inputs, g: np.ndarray) -> Kernel:
    """Return the gradient of Σ_i g_i k(x_i, x_i) with respect to the kernel's parameters."""
    dtype = X.x.dtype
    if kernel.traits.stationary and X.rows > 1:  # one number for all rows
        return pull_diag(kernel, X.take(slice(0, 1)), np.asarray(g).sum(keepdims=True))
    bare, full = cast(without_marks(kernel), dtype), padded(X, ROWS)

    def work(span: Span) -> Kernel:
        part = np.zeros(ROWS, dtype)
        part[: span[1] - span[0]] = g[span[0] : span[1]]
        return jax.tree_util.tree_map(np.asarray, _diag_pull(bare, full.take(slice(span[0], span[0] + ROWS)), part))

    return total(_run(work, _spans(X.rows, ROWS), dtype, ROWS))


@overload
def map_rows(function: Callable[..., tuple[Array, ...]], parameters: Module, *rows: np.ndarray) -> tuple[np.ndarray, ...]: ...
@overload
def map_rows(function: Callable[..., Array], parameters: Module, *rows: np.ndarray) -> np.ndarray: ...
def map_rows(
    function: Callable[..., Array | tuple[Array, ...]], parameters: Module, *rows: np.ndarray
) -> np.ndarray | tuple[np.ndarray, ...]:
    """Apply a function of (parameters, rows...) to blocks of rows of a fixed size. The first axis of every output is the rows.

    ``function`` must be a module-level function, because it is the key of the cache of compiled code.
    """
    n, dtype = rows[0].shape[0], np.asarray(rows[0]).dtype

    def work(span: Span) -> np.ndarray | tuple[np.ndarray, ...]:
        blocks = [_pad_rows(np.asarray(r)[span[0] : span[1]]) for r in rows]
        out = _compiled_rows(function)(parameters, *blocks)
        return jax.tree_util.tree_map(lambda v: np.asarray(v)[: span[1] - span[0]], out)

    dtype = dtype if np.issubdtype(dtype, np.floating) else np.float64
    parts = _run(work, _spans(n, ROWS), dtype, ROWS)
    return jax.tree_util.tree_map(lambda *blocks: np.concatenate(blocks), *parts)


def pull_rows(
    function: Callable[..., Array | tuple[Array, ...]],
    parameters: Tree,
    rows: tuple[np.ndarray, ...],
    bars: np.ndarray | tuple[np.ndarray, ...],
) -> Tree:
    """Return the gradient of Σ bars · function(parameters, rows...) with respect to the parameters."""
    n = rows[0].shape[0]

    def work(span: Span) -> Tree:
        blocks = [_pad_rows(np.asarray(r)[span[0] : span[1]]) for r in rows]
        cotangents = jax.tree_util.tree_map(lambda b: _pad_rows(np.asarray(b)[span[0] : span[1]], zero=True), bars)
        out = _compiled_rows_pull(function)(parameters, tuple(blocks), cotangents)
        return jax.tree_util.tree_map(np.asarray, out)

    return total(_run(work, _spans(n, ROWS), np.asarray(rows[0]).dtype, ROWS))


def _pad_rows(block: np.ndarray, *, zero: bool = False) -> np.ndarray:
    short = ROWS - block.shape[0]
    if not short:
        return block
    filler = np.zeros((short, *block.shape[1:]), block.dtype) if zero else np.repeat(block[-1:], short, axis=0)
    return np.concatenate([block, filler])


_compiled: dict[tuple[str, Callable[..., object]], Callable[..., Any]] = {}


def _compiled_rows(function: Callable[..., Result]) -> Callable[..., Result]:
    return _compiled.setdefault(("map", function), jax.jit(function))


def _pulled(
    function: Callable[..., Result], parameters: Tree, rows: tuple[Array, ...], bars: Array | tuple[Array, ...]
) -> Tree:
    return jax.vjp(lambda p: function(p, *rows), parameters)[1](bars)[0]


def _compiled_rows_pull(function: Callable[..., Result]) -> Callable[..., Any]:
    return _compiled.setdefault(("pull", function), jax.jit(partial(_pulled, function)))
