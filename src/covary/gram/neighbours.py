r"""Who conditions on whom: the order of the rows, and the nearest previous rows of each.

Vecchia's approximation (:mod:`covary.gram.conditionals`) is as good as its ordering and its neighbours. Rows are ordered from
coarse to fine (max-min: each next row is the one farthest from all rows before it; Guinness 2018, Katzfuss & Guinness 2021,
section 3.1), so that every row sees its surroundings at the scale at which they are known so far. Distances are Euclidean in
inputs scaled by the kernel's length-scales, since it is correlation that decides who is near.

For many rows the exact order costs O(n²). Here an O(n log n) scheme takes its place: with :math:`\rho_i` the distance from
row i to its nearest predecessor in some order, the rows with :math:`\rho_i \ge r` are at least r apart (two of them nearer
than r would make the later one's ρ smaller), whatever r. Sorting by ρ, largest first, is therefore an order from coarse to
fine; from a random start three such passes come close to max-min (the first is Matérn's hard-core thinning at all radii
at once). In more than three columns one pass has to do, and where columns are so many that no tree finds neighbours, the
first few hundred rows are max-min and the others follow at random.

Everything starts from the rows in lexicographic order, shuffled by the seed: the order in which a user's rows come does not
matter.

References
----------
Guinness (2018), Permutation and grouping methods for sharpening Gaussian process approximations, Technometrics 60.
Katzfuss & Guinness (2021), A general framework for Vecchia approximations of Gaussian processes, Statistical Science 36.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from covary._checks import fail
from covary._threads import blas_threads
from covary._words import counted
from covary.data import Inputs
from covary.kernels.base import Power, Product, Scaled, Sum
from covary.kernels.combine import Columns
from covary.kernels.stationary import AbstractStationary
from covary.kernels.tiles import threads

EXACT_ROWS = 3000  # up to here the max-min order is exact
PASSES = 3  # of sorting by the distance to the nearest predecessor; one in more than so many columns
TREE_COLUMNS = 16  # columns that vary, up to which a tree finds neighbours faster than all distances do
FIRST = 512  # rows ordered exactly where no tree helps; the others follow at random
BLOCK = 2**24  # neighbours held at a time while a tree is asked
ROWS, CHUNK = 256, 4096  # all distances: so many rows against so many at a time
LARGEST = 0.5 * float(np.finfo(np.float32).max)
ORDERINGS = ("maxmin", "random", "given")


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """The rows in order, and for each the positions of its nearest predecessors (nearest first, −1 where there are none)."""

    order: np.ndarray  # (n,): which row comes first, second, ...
    sets: np.ndarray  # (n, k): positions in that order, all before their own
    scale: np.ndarray  # (d,): what the inputs were divided by
    x: np.ndarray  # (n, d): the inputs this was made for

    def fits(self, X: Inputs) -> bool:
        """Whether these are neighbours of the rows of X."""
        return X.x is self.x or (X.x.shape == self.x.shape and bool(np.array_equal(X.x, self.x)))

    def __repr__(self) -> str:
        return f"<{counted(self.sets.shape[1], 'neighbour')} of {counted(len(self.order), 'row')}>"


def column_scales(kernels: Any, X: Inputs) -> np.ndarray:
    """What each column is divided by: the shortest length-scale of the stationary kernels that see it, or its own spread."""
    x = np.asarray(X.x, np.float64)
    found = np.full(X.columns, np.inf)
    for kernel in kernels if isinstance(kernels, tuple) else (kernels,):
        _shortest(kernel, np.arange(X.columns), found)
    spread = (x - x[0]).std(0)
    return np.where(np.isfinite(found), found, np.where(spread > 0, spread, 1.0))


def _shortest(kernel: Any, columns: np.ndarray, found: np.ndarray) -> None:
    if isinstance(kernel, Sum | Product):
        for part in kernel.terms if isinstance(kernel, Sum) else kernel.factors:
            _shortest(part, columns, found)
    elif isinstance(kernel, Scaled | Power | Columns):
        _shortest(kernel.kernel, columns[list(kernel.columns)] if isinstance(kernel, Columns) else columns, found)
    elif isinstance(kernel, AbstractStationary):
        np.minimum.at(found, columns, np.broadcast_to(np.asarray(kernel.lengthscale, np.float64), columns.shape))


def scaled(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Inputs in length-scales, without the columns that do not vary (they part nobody)."""
    return np.ascontiguousarray((np.asarray(x, np.float64) - np.asarray(x[:1], np.float64)) / scale)


def settle(kernels: Any, X: Inputs, count: int, ordering: str, seed: int = 0) -> Neighbourhoods:
    """Order the rows and find up to ``count`` nearest predecessors of each, at the kernels' present length-scales."""
    if ordering not in ORDERINGS:
        raise fail("gram.Vecchia", f"ordering is {ordering!r}", "choose 'maxmin', 'random' or 'given'")
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise fail("gram.Vecchia", f"neighbours is {count!r}", "give a whole number, one or more")
    scale = column_scales(kernels, X)
    x = scaled(X.x, scale)
    order = np.arange(X.rows) if ordering == "given" else start(x, seed)
    if ordering == "maxmin":
        order = order[maxmin(x[order])]
    return Neighbourhoods(order, previous(x[order], min(int(count), width(X.rows))), scale, X.x)


def width(rows: int) -> int:
    """The most neighbours a row can have, rounded up to a few sizes (so that few shapes are compiled)."""
    return max(1, -(-(rows - 1) // 16) * 16)


def start(x: np.ndarray, seed: int) -> np.ndarray:
    """The rows in an order that the seed decides, and not the order in which they came."""
    return np.lexsort(x.T)[np.random.default_rng(seed).permutation(len(x))]


def maxmin(x: np.ndarray) -> np.ndarray:
    """Rows from coarse to fine: max-min for few rows, and close to it for many (see the module's text)."""
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
    """The first ``count`` rows of the max-min order: from the row nearest the centre, always on to the farthest."""
    norms = (x**2).sum(1)

    def square(point: np.ndarray) -> np.ndarray:
        if len(x) <= EXACT_ROWS:
            return ((x - point) ** 2).sum(1)
        return norms - 2 * (x @ point) + point @ point  # without a copy of x

    order = np.empty(min(count, len(x)), int)
    order[0] = np.argmin(square(x.mean(0)))
    least = np.full(len(x), np.inf)
    for i in range(1, len(order)):
        np.minimum(least, square(x[order[i - 1]]), out=least)
        least[order[i - 1]] = -np.inf  # taken
        order[i] = np.argmax(least)
    return order


def previous(x: np.ndarray, count: int) -> np.ndarray:
    """For every row the ``count`` nearest rows before it, nearest first; −1 where there are not so many."""
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
    """Neighbours in the tree of all rows up to the last of these; enough of them that ``count`` come before each row.

    If ``count`` of the m nearest rows come before a row, they are its nearest predecessors: the result is exact.
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
    _all_pairs(x, rows, count, out)  # rows that many others repeat


def _all_pairs(x: np.ndarray, rows: np.ndarray, count: int, out: np.ndarray) -> None:
    """The same from all distances, by blocks."""

    def work(i: int) -> None:
        part = rows[i : i + ROWS]
        if part[-1]:
            near = nearest(x[part], x[: part[-1]], count, part)
            out[part, : near.shape[1]] = near

    _on_threads(work, range(0, len(rows), ROWS))


def _on_threads(work: Any, items: Any) -> list[Any]:
    """``work`` on every item, each on one of a few threads (NumPy lets go of the interpreter while it computes)."""
    with blas_threads(0), ThreadPoolExecutor(threads()) as pool:
        return list(pool.map(work, items))


def nearest(a: np.ndarray, b: np.ndarray, count: int, before: np.ndarray | None = None) -> np.ndarray:
    """For every row of a the ``count`` nearest rows of b, nearest first, of those numbered below ``before``; −1 for none.

    By chunks of b: what is not nearer than the best ``count`` so far is passed over, which soon is nearly everything. Where
    columns are many a distance is one product in single precision, |a|² + |b|² − 2a·b; the last word is had by differences.
    """
    keep = min(count, len(b))
    best, where = np.full((len(a), keep), np.inf), np.full((len(a), keep), -1)
    norms, kind = (a**2).sum(1), np.float64 if a.shape[1] <= TREE_COLUMNS else np.float32
    left = np.column_stack([-2.0 * a, norms, np.ones(len(a))]).astype(kind)
    slack = 64 * float(np.finfo(kind).eps) * (norms + (b**2).sum(1).max())  # how far the product form may be off
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
    """The nearest of a fixed set of rows, for any new inputs."""

    def __init__(self, x: np.ndarray, scale: np.ndarray) -> None:
        self.x, self.scale, self.origin = scaled(x, scale), scale, np.asarray(x[:1], np.float64)
        self.tree = KDTree(self.x) if _tree_pays(self.x) else None

    def nearest(self, x: np.ndarray, count: int) -> np.ndarray:
        """The ``count`` nearest rows of every new input, nearest first; (m, count)."""
        new = (np.asarray(x, np.float64) - self.origin) / self.scale
        count = min(count, len(self.x))
        if self.tree is not None:
            return np.asarray(self.tree.query(new, k=count, workers=threads())[1]).reshape(len(new), count)
        return np.concatenate(_on_threads(lambda i: nearest(new[i : i + ROWS], self.x, count), range(0, len(new), ROWS)))
