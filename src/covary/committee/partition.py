"""Which expert gets which rows (W 69): at random, by place, by a column, or as they come.

A partition is fitted once, on the inputs at hand or on a sample of them (:func:`splitter`), and then tells of any rows which
expert they belong to (``assign``): the rows of a file that is read in pieces, or new inputs that want the nearest expert.
Places are measured in length-scales, as correlation decides who is near.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from covary._checks import fail
from covary._words import counted

PARTITIONS = ("kmeans", "kd_tree", "random", "arrival")  # and "column:..." of a column
FITTED, EACH = 20_000, 32  # rows of a sample on which places are found, and at least so many for every expert
NEAR = 2**23  # distances that are computed at a time
ROUNDS, STEP = 60, 0.3  # of making parts equally large


@dataclass(frozen=True)
class Random:
    """Rows dealt out at random, equally many to each expert."""

    experts: int
    seed: int
    local = False

    def assign(self, x: np.ndarray, key: int = 0) -> np.ndarray:
        """The expert of every row; ``key`` tells apart the pieces in which rows come."""
        rng = np.random.default_rng([self.seed, key])
        deal = (np.arange(len(x)) + rng.integers(self.experts)) % self.experts
        return deal[rng.permutation(len(x))]


@dataclass(frozen=True)
class Centres:
    """Rows go to the nearest of some centres, each with a handicap that makes the parts about equally large.

    ``assign`` takes the least :math:`\\|x/u - c_j\\|^2 + w_j`: a power diagram, whose handicaps w are raised where too
    many rows come and lowered where too few do.
    """

    unit: np.ndarray
    centres: np.ndarray
    handicap: np.ndarray
    local = True

    @property
    def experts(self) -> int:
        """How many."""
        return len(self.centres)

    def assign(self, x: np.ndarray, key: int = 0) -> np.ndarray:
        """The expert of every row."""
        out = np.empty(len(x), np.int64)
        for start in range(0, len(x), 4096):
            part = slice(start, start + 4096)
            out[part] = np.argmin(self.distances(x[part]), axis=1)
        return out

    def distances(self, x: np.ndarray) -> np.ndarray:
        """How far every row is from every part (n, parts), but for something that all parts have in common."""
        return (self.centres**2).sum(1) + self.handicap - 2 * (x / self.unit) @ self.centres.T

    def among(self, numbers: Sequence[int]) -> Centres:
        """The same with some of the experts alone: those that have rows."""
        return replace(self, handicap=np.where(np.isin(np.arange(self.experts), numbers), self.handicap, np.inf))


@dataclass(frozen=True)
class Tree:
    """Rows go down a tree of thresholds (k-d tree): node i splits ``column[i]`` at ``threshold[i]``; negative: a leaf.

    ``unit`` is the length-scale of every column, in which the distance from a box is measured.
    """

    column: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    experts: int
    unit: np.ndarray
    local = True

    def assign(self, x: np.ndarray, key: int = 0) -> np.ndarray:
        """The expert of every row."""
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
        """The lowest and the highest corner of every expert's box (experts, d): infinite where nothing was cut."""
        low = np.full((len(self.column), len(self.unit)), -np.inf)
        high = -low
        for i in np.flatnonzero(self.column >= 0):  # a node comes before those below it
            for below in (self.left[i], self.right[i]):
                low[below], high[below] = low[i], high[i]
            high[self.left[i], self.column[i]] = low[self.right[i], self.column[i]] = self.threshold[i]
        leaves = np.flatnonzero(self.column < 0)
        leaves = leaves[np.argsort(-self.column[leaves])]
        return low[leaves], high[leaves]

    def distances(self, x: np.ndarray) -> np.ndarray:
        """The squared distance of every row from every box (n, parts), zero inside."""
        low, high = self.boxes
        out = np.zeros((len(x), len(low)))
        for j in set(self.column[self.column >= 0].tolist()):
            value = x[:, j, None]
            out += (np.maximum(np.maximum(low[:, j] - value, value - high[:, j]), 0.0) / self.unit[j]) ** 2
        return out

    def among(self, numbers: Sequence[int]) -> Tree:
        """The same with some of the experts alone, those that have rows: where one side has none, the other is taken."""
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


def near(splitter: Any, part: np.ndarray, x: np.ndarray, count: int) -> np.ndarray:
    """The experts whose parts are nearest to every row, the nearest first (n, count).

    Parameters
    ----------
    splitter
        A partition by place.
    part
        Which part of it every expert has: some may have one together, where a large part was parted again.
    x
        The rows (n, d).
    count
        How many experts.
    """
    count, step = min(count, len(part)), max(1, NEAR // max(1, len(part)))
    out = np.empty((len(x), count), np.int64)
    for start in range(0, len(x), step):
        far = splitter.distances(x[start : start + step])[:, part]
        some = np.argpartition(far, count - 1, axis=1)[:, :count]
        some.sort(axis=1)  # the lower number goes first where two are equally near
        order = np.argsort(np.take_along_axis(far, some, axis=1), axis=1, kind="stable")
        out[start : start + step] = np.take_along_axis(some, order, axis=1)
    return out


def splitter(kind: str, x: np.ndarray, experts: int, *, unit: Any = None, seed: int = 0, names: Any = None) -> Any:
    """A partition into so many experts, fitted to inputs; None for ``"arrival"``, which needs none.

    Parameters
    ----------
    kind
        ``"random"``; ``"kmeans"``, compact parts; ``"kd_tree"``, boxes of equally many rows, quick for very many experts;
        ``"column:NAME"``, rows of one value stay together; ``"arrival"``, as the rows come.
    x
        Inputs, or a sample of them (n, d).
    experts
        How many.
    unit
        One length-scale per column, in which nearness is measured; the columns' spread by default.
    seed
        Of what is random.
    names
        The names of the columns, for ``"column:NAME"``.

    Examples
    --------
    >>> x = np.linspace(0, 1, 12)[:, None]
    >>> splitter("kd_tree", x, 3).assign(x).tolist()
    [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]
    """
    if not isinstance(kind, str) or (kind not in PARTITIONS and not kind.startswith("column:")):
        known = ", ".join(map(repr, PARTITIONS))
        raise fail("Committee", f"partition is {kind!r}", f"choose one of {known}, or 'column:NAME'")
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
    kind: str, x: np.ndarray, experts: int, *, unit: Any = None, seed: int = 0, names: Any = None, even: bool = True
) -> tuple[Any, list[Any]]:
    """The partition, and the rows of every expert in their order, none of them empty.

    Parameters
    ----------
    kind, x, experts, unit, seed, names
        As in :func:`splitter`.
    even
        Whether parts that came out more than twice as large as the mean are parted again (not those of one column's values,
        which stay together); the partition then no longer tells whose a new input is.
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
    """Parts no larger than twice the mean one, where places alone would make them so: the largest is halved."""
    most = 2 * max(1, round(len(x) / len(rows)))
    rows = [r for r in rows if len(r)]
    while max(len(r) for r in rows) > most:
        k = int(np.argmax([len(r) for r in rows]))
        column = int(np.argmax(np.ptp(x[rows[k]], axis=0) / np.maximum(x.std(0), 1e-300)))
        order = rows[k][np.argsort(x[rows[k], column], kind="stable")]
        rows[k : k + 1] = [np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])]
    return rows


def which_column(name: str, names: Any, columns: int) -> int:
    """The number of a column, by name or by number."""
    known = [] if names is None else [str(n) for n in names]
    if name in known:
        return known.index(name)
    if name.isdigit() and int(name) < columns:
        return int(name)
    given = f"the columns are {', '.join(known[:12])}" if known else f"X has {counted(columns, 'column')}"
    raise fail("Committee", f"partition is 'column:{name}'", f"name one that is there ({given})")


def _by_column(x: np.ndarray, column: int, experts: int, called: Any) -> Tree:
    """Consecutive values of one column together, in ranges of about equally many rows; ``called`` is its name."""
    values, counts = np.unique(x[:, column], return_counts=True)
    if len(values) < experts:
        what = f"column {called} has {counted(len(values), 'different value')} for {counted(experts, 'expert')}"
        raise fail("Committee", what, "ask for fewer experts, or part the rows by something else")
    ends = np.searchsorted(np.cumsum(counts), len(x) * np.arange(1, experts) / experts)
    ends = np.clip(np.maximum.accumulate(np.maximum(ends, np.arange(experts - 1))), 0, len(values) - 2)
    for i in range(experts - 2, -1, -1):  # every range at least one value
        ends[i] = min(ends[i], len(values) - experts + i)
    return _threshold_tree(column, (values[ends] + values[ends + 1]) / 2, np.ones(x.shape[1]))


def _threshold_tree(column: int, cuts: np.ndarray, unit: np.ndarray) -> Tree:
    """A tree over one column with these thresholds, as shallow as can be."""
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
    """Boxes of equally many rows: the column that reaches over most length-scales is cut at the fitting quantile."""
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
        else:  # all rows alike: nobody can part them
            column, cut = 0, float(z[0, 0]) if len(rows) else 0.0
            value = z[:, 0]
        nodes[i][:2] = [column, cut]
        nodes[i][2], nodes[i][3] = grow(rows[value <= cut], first, half), grow(rows[value > cut], first + half, count - half)
        return i

    grow(np.arange(len(x)), 0, experts)
    return _as_tree(nodes, experts, unit)


def _between(ordered: np.ndarray, at: int) -> float | None:
    """A threshold between two different values, as near as can be to a place in their order; None if all are equal."""
    if not len(ordered) or ordered[0] == ordered[-1]:
        return None
    at = min(max(at, 1), len(ordered) - 1)
    jumps = np.flatnonzero(ordered[1:] > ordered[:-1]) + 1
    at = int(jumps[np.argmin(np.abs(jumps - at))])
    middle = (ordered[at - 1] + ordered[at]) / 2
    return float(middle if middle < ordered[at] else ordered[at - 1])


def _centres(x: np.ndarray, unit: np.ndarray, experts: int, seed: int) -> Centres:
    """Centres by k-means, then handicaps until the parts of the sample are about equally large."""
    from sklearn.cluster import MiniBatchKMeans

    z = x / unit
    different = len(np.unique(z, axis=0))
    if different < experts:
        few = counted(different, "row differs", "rows differ")
        what = f"partition is 'kmeans' and only {few} for {counted(experts, 'expert')}"
        raise fail("Committee", what, "ask for fewer experts, or partition='random'")
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
