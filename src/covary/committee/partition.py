"""Partitions of rows into experts (W 69): at random, by position, by a column, or in order of arrival.

A partition is fitted once, to the inputs or a sample of them (:func:`splitter`). It then assigns any rows to experts
(``assign``): the rows of a file that is read in pieces, or new inputs to the nearest expert. Distances are measured in
length-scales, since correlation determines which rows are near.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from covary._checks import fail
from covary._errors import Option
from covary._words import counted

PARTITIONS = ("kmeans", "kd_tree", "random", "arrival")  # and "column:NAME"
FITTED, EACH = 20_000, 32  # rows of the sample to which a partition is fitted, and the minimum per expert
NEAR = 2**23  # number of distances computed at a time
ROUNDS, STEP = 60, 0.3  # iterations and step size of balancing the parts


@dataclass(frozen=True)
class Random:
    """Random partition with equally many rows per expert."""

    experts: int
    seed: int
    local = False

    def assign(self, x: np.ndarray, key: int = 0) -> np.ndarray:
        """Return the expert of every row; ``key`` identifies the piece of a table that is read in pieces."""
        rng = np.random.default_rng([self.seed, key])
        deal = (np.arange(len(x)) + rng.integers(self.experts)) % self.experts
        return deal[rng.permutation(len(x))]


@dataclass(frozen=True)
class Centres:
    """Partition by the nearest centre, with weights that make the parts about equally large.

    ``assign`` minimises :math:`\\|x/u - c_j\\|^2 + w_j`. This is a power diagram, whose weights w are raised for parts with
    too many rows and lowered for parts with too few.
    """

    unit: np.ndarray
    centres: np.ndarray
    handicap: np.ndarray
    local = True

    @property
    def experts(self) -> int:
        """Number of experts."""
        return len(self.centres)

    def assign(self, x: np.ndarray, key: int = 0) -> np.ndarray:
        """Return the expert of every row."""
        out = np.empty(len(x), np.int64)
        for start in range(0, len(x), 4096):
            part = slice(start, start + 4096)
            out[part] = np.argmin(self.distances(x[part]), axis=1)
        return out

    def distances(self, x: np.ndarray) -> np.ndarray:
        """Return the distance of every row from every part (n, parts), up to a constant per row."""
        return (self.centres**2).sum(1) + self.handicap - 2 * (x / self.unit) @ self.centres.T

    def among(self, numbers: Sequence[int]) -> Centres:
        """Return the partition restricted to the given experts, those that have rows."""
        return replace(self, handicap=np.where(np.isin(np.arange(self.experts), numbers), self.handicap, np.inf))


@dataclass(frozen=True)
class Tree:
    """Partition by a tree of thresholds (k-d tree): node i splits ``column[i]`` at ``threshold[i]``.

    Negative columns mark leaves. ``unit`` is the length-scale of every column, in which distances from a box are measured.
    """

    column: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    experts: int
    unit: np.ndarray
    local = True

    def assign(self, x: np.ndarray, key: int = 0) -> np.ndarray:
        """Return the expert of every row."""
        node = np.zeros(len(x), np.int64)
        while True:
            inner = self.column[node] >= 0
            if not inner.any():
                return -self.column[node] - 1
            at = np.where(inner, self.column[node], 0)
            value = np.take_along_axis(np.asarray(x), at[:, None], axis=1)[:, 0]
            below = np.where(value <= self.threshold[node], self.left[node], self.right[node])
            node = np.where(inner, below, node)

    @cached_property
    def boxes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lowest and the highest corner of every expert's box (experts, d); infinite on sides without a cut."""
        low = np.full((len(self.column), len(self.unit)), -np.inf)
        high = -low
        for i in np.flatnonzero(self.column >= 0):  # a node precedes its descendants
            for below in (self.left[i], self.right[i]):
                low[below], high[below] = low[i], high[i]
            high[self.left[i], self.column[i]] = low[self.right[i], self.column[i]] = self.threshold[i]
        leaves = np.flatnonzero(self.column < 0)
        leaves = leaves[np.argsort(-self.column[leaves])]
        return low[leaves], high[leaves]

    def distances(self, x: np.ndarray) -> np.ndarray:
        """Return the squared distance of every row from every box (n, parts), which is zero inside."""
        low, high = self.boxes
        out = np.zeros((len(x), len(low)))
        for j in set(self.column[self.column >= 0].tolist()):
            value = x[:, j, None]
            out += (np.maximum(np.maximum(low[:, j] - value, value - high[:, j]), 0.0) / self.unit[j]) ** 2
        return out

    def among(self, numbers: Sequence[int]) -> Tree:
        """Return the tree restricted to the given experts; a node with one empty side is replaced by its other side."""
        if len(numbers) == self.experts:
            return self
        left, right = self.left.copy(), self.right.copy()
        any_of = np.isin(-self.column - 1, numbers)
        for i in np.flatnonzero(self.column >= 0)[::-1]:  # children come after their node
            any_of[i] = any_of[left[i]] or any_of[right[i]]
            if not any_of[left[i]]:
                left[i] = right[i]
            elif not any_of[right[i]]:
                right[i] = left[i]
        return replace(self, left=left, right=right)


Place = Centres | Tree  # spatial partitions
Splitter = Place | Random


class Divides(Protocol):
    """A partition; ``key`` identifies the piece of a table that is read in pieces."""

    def assign(self, x: np.ndarray, key: int = 0) -> np.ndarray:
        """Return the expert of every row."""
        ...


def near(splitter: Place, part: np.ndarray, x: np.ndarray, count: int) -> np.ndarray:
    """Return the experts whose parts are nearest to every row, the nearest first (n, count).

    Parameters
    ----------
    splitter
        A spatial partition.
    part
        The part of every expert; experts share a part if a large part was split again.
    x
        Rows (n, d).
    count
        Number of experts to return per row.
    """
    count, step = min(count, len(part)), max(1, NEAR // max(1, len(part)))
    out = np.empty((len(x), count), np.int64)
    for start in range(0, len(x), step):
        far = splitter.distances(x[start : start + step])[:, part]
        some = np.argpartition(far, count - 1, axis=1)[:, :count]
        some.sort(axis=1)  # the lower index comes first in a tie
        order = np.argsort(np.take_along_axis(far, some, axis=1), axis=1, kind="stable")
        out[start : start + step] = np.take_along_axis(some, order, axis=1)
    return out


def splitter(
    kind: str,
    x: np.ndarray,
    experts: int,
    *,
    unit: np.ndarray | None = None,
    seed: int = 0,
    names: Sequence[str] | None = None,
) -> Splitter | None:
    """Fit a partition into a number of experts to inputs; None for ``"arrival"``, which needs no partition.

    Parameters
    ----------
    kind
        ``"random"``; ``"kmeans"``, compact parts; ``"kd_tree"``, boxes with equally many rows, fast for very many experts;
        ``"column:NAME"``, rows with the same value stay together; ``"arrival"``, in order of arrival.
    x
        Inputs, or a sample of them (n, d).
    experts
        Number of experts.
    unit
        One length-scale per column, in which distances are measured; by default the standard deviations of the columns.
    seed
        Random seed.
    names
        Names of the columns, for ``"column:NAME"``.

    Examples
    --------
    >>> x = np.linspace(0, 1, 12)[:, None]
    >>> splitter("kd_tree", x, 3).assign(x).tolist()
    [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]
    """
    if not isinstance(kind, str) or (kind not in PARTITIONS and not kind.startswith("column:")):
        known = ", ".join(map(repr, PARTITIONS))
        raise fail("Committee", Option("partition") + f" is {kind!r}", f"choose one of {known}, or 'column:NAME'")
    if kind == "arrival":
        return None
    if kind == "random":
        return Random(experts, seed)
    x = np.asarray(x, np.float64)
    if kind.startswith("column:"):
        column = which_column(kind[len("column:") :], names, x.shape[1])
        return _by_column(x, column, experts, column if names is None else repr(str(names[column])))
    spread = x.std(0)
    unit = np.where(spread > 0, spread, 1.0) if unit is None else np.where(spread > 0, unit, 1.0)
    some = x[np.sort(np.random.default_rng(seed).permutation(len(x))[: max(FITTED, EACH * experts)])]
    return _centres(some, unit, experts, seed) if kind == "kmeans" else _tree(some, unit, experts)


def parts(
    kind: str,
    x: np.ndarray,
    experts: int,
    *,
    unit: np.ndarray | None = None,
    seed: int = 0,
    names: Sequence[str] | None = None,
    even: bool = True,
) -> tuple[Splitter | None, list[np.ndarray]]:
    """Fit a partition, and return it with the rows of every expert in their original order; no expert is empty.

    Parameters
    ----------
    kind, x, experts, unit, seed, names
        As in :func:`splitter`.
    even
        Whether to split parts more than twice as large as the mean again (except with ``"column:NAME"``, which keeps equal
        values together). The partition then no longer determines the expert of a new input.
    """
    found = splitter(kind, x, experts, unit=unit, seed=seed, names=names)
    if found is None:
        return None, [np.asarray(p) for p in np.array_split(np.arange(len(x)), experts)]
    label = found.assign(x)
    rows = [np.flatnonzero(label == k) for k in range(found.experts)]
    if found.local and even and not kind.startswith("column:"):
        return found, _evened(rows, np.asarray(x, np.float64))
    return found, rows


def _evened(rows: list[np.ndarray], x: np.ndarray) -> list[np.ndarray]:
    """Halve the largest part until no part is larger than twice the mean."""
    most = 2 * max(1, round(len(x) / len(rows)))
    rows = [r for r in rows if len(r)]
    while max(len(r) for r in rows) > most:
        k = int(np.argmax([len(r) for r in rows]))
        column = int(np.argmax(np.ptp(x[rows[k]], axis=0) / np.maximum(x.std(0), 1e-300)))
        order = rows[k][np.argsort(x[rows[k], column], kind="stable")]
        rows[k : k + 1] = [np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])]
    return rows


def which_column(name: str, names: Sequence[str] | None, columns: int) -> int:
    """Return the index of a column, given by name or by index."""
    known = [] if names is None else [str(n) for n in names]
    if name in known:
        return known.index(name)
    if name.isdigit() and int(name) < columns:
        return int(name)
    given = f"the columns are {', '.join(known[:12])}" if known else f"X has {counted(columns, 'column')}"
    raise fail("Committee", Option("partition") + f" is 'column:{name}'", f"give the name of an input column ({given})")


def _by_column(x: np.ndarray, column: int, experts: int, called: str | int) -> Tree:
    """Split one column into ranges with about equally many rows, keeping equal values together; ``called`` is its name."""
    values, counts = np.unique(x[:, column], return_counts=True)
    if len(values) < experts:
        what = f"column {called} has {counted(len(values), 'distinct value')} for {counted(experts, 'expert')}"
        raise fail("Committee", what, "use fewer experts, or another partition")
    ends = np.searchsorted(np.cumsum(counts), len(x) * np.arange(1, experts) / experts)
    ends = np.clip(np.maximum.accumulate(np.maximum(ends, np.arange(experts - 1))), 0, len(values) - 2)
    for i in range(experts - 2, -1, -1):  # at least one value per range
        ends[i] = min(ends[i], len(values) - experts + i)
    return _threshold_tree(column, (values[ends] + values[ends + 1]) / 2, np.ones(x.shape[1]))


def _threshold_tree(column: int, cuts: np.ndarray, unit: np.ndarray) -> Tree:
    """Build a tree of minimum depth over one column with these thresholds."""
    nodes: list[list[float]] = []

    def grow(low: int, high: int) -> int:
        i = len(nodes)
        nodes.append([-low - 1, 0.0, 0, 0])
        if high > low:
            middle = (low + high) // 2
            nodes[i][:2] = [column, cuts[middle]]
            nodes[i][2], nodes[i][3] = grow(low, middle), grow(middle + 1, high)
        return i

    grow(0, len(cuts))
    return _as_tree(nodes, len(cuts) + 1, unit)


def _as_tree(nodes: list[list[float]], experts: int, unit: np.ndarray) -> Tree:
    table = np.array(nodes, np.float64).reshape(-1, 4)
    column, left, right = (table[:, i].astype(np.int64) for i in (0, 2, 3))
    return Tree(column, table[:, 1], left, right, experts, unit)


def _tree(x: np.ndarray, unit: np.ndarray, experts: int) -> Tree:
    """Build boxes with equally many rows, cutting the column that spans the most length-scales at a quantile."""
    nodes: list[list[float]] = []

    def grow(rows: np.ndarray, first: int, count: int) -> int:
        i = len(nodes)
        nodes.append([-first - 1, 0.0, 0, 0])
        if count == 1:
            return i
        half = count // 2
        z = x[rows]
        low, high = np.quantile(z, [0.05, 0.95], axis=0) if len(rows) else (unit * 0, unit * 0)
        for column in np.argsort(-(high - low) / unit, kind="stable"):
            value = z[:, column]
            cut = _between(np.sort(value), len(rows) * half // count)
            if cut is not None:
                break
        else:  # all rows are equal and cannot be split
            column, cut = 0, float(z[0, 0]) if len(rows) else 0.0
            value = z[:, 0]
        nodes[i][:2] = [column, cut]
        nodes[i][2], nodes[i][3] = grow(rows[value <= cut], first, half), grow(rows[value > cut], first + half, count - half)
        return i

    grow(np.arange(len(x)), 0, experts)
    return _as_tree(nodes, experts, unit)


def _between(ordered: np.ndarray, at: int) -> float | None:
    """Return a threshold between two distinct values, as close to position ``at`` as possible; None if all are equal."""
    if not len(ordered) or ordered[0] == ordered[-1]:
        return None
    at = min(max(at, 1), len(ordered) - 1)
    jumps = np.flatnonzero(ordered[1:] > ordered[:-1]) + 1
    at = int(jumps[np.argmin(np.abs(jumps - at))])
    middle = (ordered[at - 1] + ordered[at]) / 2
    return float(middle if middle < ordered[at] else ordered[at - 1])


def _centres(x: np.ndarray, unit: np.ndarray, experts: int, seed: int) -> Centres:
    """Find centres by k-means, then weights that make the parts of the sample about equally large."""
    from sklearn.cluster import MiniBatchKMeans

    z = x / unit
    different = len(np.unique(z, axis=0))
    if different < experts:
        few = counted(different, "row differs", "rows differ")
        what = Option("partition") + f" is 'kmeans' and only {few} for {counted(experts, 'expert')}"
        raise fail("Committee", what, "use fewer experts, or " + Option("partition", "'random'"))
    means = MiniBatchKMeans(experts, random_state=seed % 2**32, n_init="auto", batch_size=min(len(z), 4096), max_iter=30).fit(z)
    centres = np.asarray(means.cluster_centers_, np.float64)
    square = (centres**2).sum(1) - 2 * z @ centres.T
    handicap = np.zeros(experts)
    typical = float(np.mean(square.min(1) + (z**2).sum(1))) or 1.0
    best, least = handicap, np.inf
    for i in range(ROUNDS):
        share = np.bincount(np.argmin(square + handicap, axis=1), minlength=experts) * experts / len(z)
        if share.max() < least:
            best, least = handicap, float(share.max())
        handicap = handicap + STEP * typical / (1 + 0.1 * i) * (share - 1).clip(-1, 2)
    return Centres(unit, centres, best)
