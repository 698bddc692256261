r"""The ordering of the rows, and the nearest predecessors of each row.

The accuracy of Vecchia's approximation (:mod:`covary.gram.vecchia.conditionals`) depends on the ordering and the neighbours.
Rows are ordered from coarse to fine (max-min: each next row is the one farthest from all rows before it; Guinness 2018,
Katzfuss & Guinness 2021, section 3.1), so that the neighbours of a row surround it at the resolution reached so far. Distances
are Euclidean in inputs scaled by the kernel's length-scales, since neighbours should be highly correlated.

For many rows the exact order costs O(n²). An O(n log n) scheme replaces it: with :math:`\rho_i` the distance from row i to its
nearest predecessor in some order, the rows with :math:`\rho_i \ge r` are at least r apart for every r (if two of them were
closer, the later one's ρ would be smaller). Sorting by decreasing ρ therefore gives an order from coarse to fine; from a random
start three such passes come close to max-min (the first is Matérn's hard-core thinning at all radii simultaneously). For more
than three columns only one pass is used, and for so many columns that a tree does not help, the first few hundred rows are
max-min and the others follow at random.

The algorithm starts from the rows in lexicographic order, shuffled by the seed, so that the order of the user's rows does not
matter.

References
----------
Guinness (2018), Permutation and grouping methods for sharpening Gaussian process approximations, Technometrics 60.
Katzfuss & Guinness (2021), A general framework for Vecchia approximations of Gaussian processes, Statistical Science 36.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy.spatial import KDTree

from covary._checks import fail
from covary._threads import blas_threads
from covary._words import counted
from covary.data import Inputs
from covary.kernels.base import AbstractKernel, inner_kernels
from covary.kernels.stationary import AbstractStationary
from covary.kernels.tiles import threads

T = TypeVar("T")
R = TypeVar("R")

EXACT_ROWS = 3000  # up to this many rows the max-min order is exact
PASSES = 3  # sorting passes by the distance to the nearest predecessor; only one for more columns than this
TREE_COLUMNS = 16  # up to this many varying columns a tree is faster than computing all distances
FIRST = 512  # rows ordered exactly if a tree does not help; the others follow at random
BLOCK = 2**24  # neighbours held in memory while a tree is queried
ROWS, CHUNK = 256, 4096  # block size for all distances: ROWS rows against CHUNK rows
LARGEST = 0.5 * float(np.finfo(np.float32).max)
ORDERINGS = ("maxmin", "random", "given")


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """The order of the rows, and the positions of each row's nearest predecessors (nearest first, padded with −1)."""

    order: np.ndarray  # (n,): the index of the first row, the second, ...
    sets: np.ndarray  # (n, k): positions in that order, all before the row's own
    scale: np.ndarray  # (d,): the scales by which the inputs were divided
    x: np.ndarray  # (n, d): the inputs it was computed for

    def fits(self, X: Inputs) -> bool:
        """Return whether these are neighbours of the rows of X."""
        return X.x is self.x or (X.x.shape == self.x.shape and bool(np.array_equal(X.x, self.x)))

    def __repr__(self) -> str:
        return f"<{counted(self.sets.shape[1], 'neighbour')} of {counted(len(self.order), 'row')}>"


def column_scales(kernels: tuple[AbstractKernel, ...], X: Inputs) -> np.ndarray:
    """Return each column's scale: the shortest length-scale of the stationary kernels that use it, or its std."""
    x = np.asarray(X.x, np.float64)
    found = np.full(X.columns, np.inf)
    for _, kernel, seen in inner_kernels(kernels, X.columns, closed=AbstractKernel):
        if isinstance(kernel, AbstractStationary):
            np.minimum.at(found, seen, np.broadcast_to(np.asarray(kernel.lengthscale, np.float64), seen.shape))
    spread = (x - x[0]).std(0)
    return np.where(np.isfinite(found), found, np.where(spread > 0, spread, 1.0))


def scaled(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return inputs in units of the scales, relative to the first row."""
    return np.ascontiguousarray((np.asarray(x, np.float64) - np.asarray(x[:1], np.float64)) / scale)


def settle(kernels: tuple[AbstractKernel, ...], X: Inputs, count: int, ordering: str, seed: int = 0) -> Neighbourhoods:
    """Order the rows and find up to ``count`` nearest predecessors of each, for the kernels' current length-scales."""
    if ordering not in ORDERINGS:
        raise fail("gram.Vecchia", f"ordering is {ordering!r}", "choose 'maxmin', 'random' or 'given'", argument="ordering")
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise fail("gram.Vecchia", f"neighbours is {count!r}", "give a whole number, one or more", argument="neighbours")
    scale = column_scales(kernels, X)
    x = scaled(X.x, scale)
    order = np.arange(X.rows) if ordering == "given" else start(x, seed)
    if ordering == "maxmin":
        order = order[maxmin(x[order])]
    return Neighbourhoods(order, previous(x[order], min(int(count), width(X.rows))), scale, X.x)


def width(rows: int) -> int:
    """Return the maximum number of neighbours of a row, rounded up to a multiple of 16 (so that few shapes are compiled)."""
    return max(1, -(-(rows - 1) // 16) * 16)


def start(x: np.ndarray, seed: int) -> np.ndarray:
    """Return a random order of the rows that depends on the seed but not on the original order."""
    return np.lexsort(x.T)[np.random.default_rng(seed).permutation(len(x))]


def maxmin(x: np.ndarray) -> np.ndarray:
    """Order rows from coarse to fine: max-min for few rows, close to it for many (see the module docstring)."""
    n = len(x)
    if n <= EXACT_ROWS:
        return farthest(x, n)
    if not _tree_pays(x):
        first = farthest(x, FIRST)
        return np.concatenate([first, np.setdiff1d(np.arange(n), first)])
    order = np.arange(n)
    for _ in range(PASSES if _varying(x) <= PASSES else 1):
        near = previous(x[order], 1)[:, 0]
        rho = np.sqrt(((x[order] - x[order[near]]) ** 2).sum(1))
        rho[0] = np.inf
        order = order[np.argsort(-rho, kind="stable")]
    return order


def farthest(x: np.ndarray, count: int) -> np.ndarray:
    """Return the first ``count`` rows of the max-min order: the row nearest the centre, then always the farthest."""
    norms = (x**2).sum(1)

    def square(point: np.ndarray) -> np.ndarray:
        if len(x) <= EXACT_ROWS:
            return ((x - point) ** 2).sum(1)
        return norms - 2 * (x @ point) + point @ point  # does not copy x

    order = np.empty(min(count, len(x)), int)
    order[0] = np.argmin(square(x.mean(0)))
    least = np.full(len(x), np.inf)
    for i in range(1, len(order)):
        np.minimum(least, square(x[order[i - 1]]), out=least)
        least[order[i - 1]] = -np.inf  # already used
        order[i] = np.argmax(least)
    return order


def previous(x: np.ndarray, count: int) -> np.ndarray:
    """Return the ``count`` nearest rows before every row, nearest first, padded with −1."""
    n = len(x)
    out = np.full((n, count), -1, np.int32)
    done = min(n, max(256, 4 * count))
    _all_pairs(x, np.arange(done), count, out)
    if not _tree_pays(x):
        _all_pairs(x, np.arange(done, n), count, out)
        return out
    while done < n:
        stop = min(n, 2 * done)
        _by_tree(x, np.arange(done, stop), count, out)
        done = stop
    return out


def _varying(x: np.ndarray) -> int:
    return int((np.ptp(x, 0) > 0).sum())


def _tree_pays(x: np.ndarray) -> bool:
    return _varying(x) <= TREE_COLUMNS


def _by_tree(x: np.ndarray, rows: np.ndarray, count: int, out: np.ndarray) -> None:
    """Find predecessors with a tree of all rows up to the last of these, querying more neighbours where too few come before.

    If ``count`` of the m nearest rows come before a row, they are its nearest predecessors, so the result is exact.
    """
    tree = KDTree(x[: rows[-1] + 1])
    ask = min(tree.n, count + count // 2 + 2)
    for _ in range(3):
        lacking = []
        for part in np.array_split(rows, max(1, len(rows) * ask // BLOCK + 1)):
            near = np.asarray(tree.query(x[part], k=ask, workers=threads())[1]).reshape(len(part), ask)
            before = near < part[:, None]
            enough = before.sum(1) >= count
            first = np.argsort(~before[enough], axis=1, kind="stable")[:, :count]
            out[part[enough]] = np.take_along_axis(near[enough], first, 1)
            lacking.append(part[~enough])
        rows = np.concatenate(lacking)
        if not len(rows):
            return
        ask = min(tree.n, 2 * ask)
    _all_pairs(x, rows, count, out)  # rows with many duplicates


def _all_pairs(x: np.ndarray, rows: np.ndarray, count: int, out: np.ndarray) -> None:
    """Find predecessors by computing all distances, in blocks."""

    def work(i: int) -> None:
        part = rows[i : i + ROWS]
        if part[-1]:
            near = nearest(x[part], x[: part[-1]], count, part)
            out[part, : near.shape[1]] = near

    _on_threads(work, range(0, len(rows), ROWS))


def _on_threads(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Apply ``work`` to every item on a few threads (NumPy releases the GIL while it computes)."""
    with blas_threads(0), ThreadPoolExecutor(threads()) as pool:
        return list(pool.map(work, items))


def nearest(a: np.ndarray, b: np.ndarray, count: int, before: np.ndarray | None = None) -> np.ndarray:
    """Return the ``count`` nearest rows of b for every row of a, nearest first, with index below ``before``; −1 for none.

    Computed in chunks of b: rows that are not nearer than the best ``count`` so far are skipped, which soon applies to
    nearly all. With many columns distances are screened by a product in single precision, |a|² + |b|² − 2a·b, then computed
    from differences.
    """
    keep = min(count, len(b))
    best, where = np.full((len(a), keep), np.inf), np.full((len(a), keep), -1)
    norms, kind = (a**2).sum(1), np.float64 if a.shape[1] <= TREE_COLUMNS else np.float32
    left = np.column_stack([-2.0 * a, norms, np.ones(len(a))]).astype(kind)
    slack = 64 * float(np.finfo(kind).eps) * (norms + (b**2).sum(1).max())  # error bound of the product form
    for j in range(0, len(b), CHUNK):
        chunk = b[j : j + CHUNK]
        square = left @ np.column_stack([chunk, np.ones(len(chunk)), (chunk**2).sum(1)]).astype(kind).T
        if before is not None and j + len(chunk) > before.min():
            square[np.arange(j, j + len(chunk))[None, :] >= before[:, None]] = np.inf
        if j == 0 and keep < len(chunk):
            limit = np.partition(square, keep - 1, axis=1)[:, keep - 1] + 2 * slack
        else:
            limit = best[:, -1] + slack
        row, column = np.nonzero(square <= np.minimum(limit, LARGEST).astype(kind)[:, None])
        if not len(row):
            continue
        starts = np.searchsorted(row, np.arange(len(a)))
        place = np.arange(len(row)) - starts[row]
        new, index = np.full((len(a), place.max() + 1), np.inf), np.full((len(a), place.max() + 1), -1)
        new[row, place] = ((a[row] - chunk[column]) ** 2).sum(1)
        index[row, place] = j + column
        both, at = np.hstack([best, new]), np.hstack([where, index])
        first = np.argsort(both, axis=1, kind="stable")[:, :keep]
        best, where = np.take_along_axis(both, first, 1), np.take_along_axis(at, first, 1)
    return where


class Search:
    """A search for the nearest of a fixed set of rows, for any new inputs."""

    def __init__(self, x: np.ndarray, scale: np.ndarray) -> None:
        self.x, self.scale, self.origin = scaled(x, scale), scale, np.asarray(x[:1], np.float64)
        self.tree = KDTree(self.x) if _tree_pays(self.x) else None

    def nearest(self, x: np.ndarray, count: int) -> np.ndarray:
        """Return the ``count`` nearest rows of every new input, nearest first; (m, count)."""
        new = (np.asarray(x, np.float64) - self.origin) / self.scale
        count = min(count, len(self.x))
        if self.tree is not None:
            return np.asarray(self.tree.query(new, k=count, workers=threads())[1]).reshape(len(new), count)
        return np.concatenate(_on_threads(lambda i: nearest(new[i : i + ROWS], self.x, count), range(0, len(new), ROWS)))
