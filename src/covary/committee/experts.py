"""Assignment of rows to experts, for rows in memory and for rows of a table on disk."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict

import numpy as np

from covary.committee.expert import Group
from covary.committee.held import Held
from covary.committee.ledger import Ledger
from covary.committee.partition import Divides, Place, Random, Splitter, near
from covary.committee.partition import splitter as fitted
from covary.committee.shuffle import Batch, Encode, Label, load, spread, survey
from covary.data import Data, Inputs
from covary.executors.choose import Executor
from covary.executors.pieces import Note
from covary.tables.parquet import Parquet

TOGETHER, MANY, MOST = 4000, 5000, 64_000  # rows per group of experts: up to MOST if there would be more than MANY groups


def together(rows: int) -> int:
    """Return the number of rows per group for a table on disk, so that there are thousands of groups and not a million."""
    return int(np.clip(rows // MANY, TOGETHER, MOST))


class HowRead(TypedDict):
    """Arguments that define how the rows of a table on disk are read as numbers."""

    target: str
    encode: Encode
    missing: str
    label: Label | None


def by_place(splitter: Splitter | None) -> Place:
    """Return the partition, which must be spatial."""
    assert splitter is not None
    assert not isinstance(splitter, Random)
    return splitter


@dataclass(frozen=True)
class Experts:
    """Rows in memory: those of every expert, the shared rows, and the partition that divided them."""

    rows: list[np.ndarray] = field(repr=False)
    shared: np.ndarray | None = field(default=None, repr=False)
    splitter: Splitter | None = field(default=None, repr=False)

    def groups(self, data: Data) -> list[Group]:
        """Return the experts with their rows in groups, which depend only on the rows."""
        out: list[list[int]] = []
        held = TOGETHER
        for k, rows in enumerate(self.rows):
            if not len(rows):
                continue  # a part without rows
            if held + len(rows) > TOGETHER:
                out.append([])
                held = 0
            out[-1].append(k)
            held += len(rows)
        return [Group(tuple(numbers), tuple(data.take(self.rows[k]) for k in numbers)) for numbers in out]

    def numbers(self) -> list[int]:
        """Indices of the experts that have rows."""
        return [k for k, rows in enumerate(self.rows) if len(rows)]

    def near(self, x: np.ndarray, X: Inputs, count: int) -> np.ndarray:
        """Return the ``count`` nearest experts for every row of x, the nearest first; ``X`` are the training inputs."""
        numbers = np.array(self.numbers())
        splitter = by_place(self.splitter)
        part = splitter.assign(np.asarray(X.x, np.float64)[[self.rows[k][0] for k in numbers]])
        return numbers[near(splitter, part, x, count)]

    def largest(self) -> int:
        """Return the number of rows of the largest expert, including the shared rows."""
        return max((len(rows) for rows in self.rows), default=0) + (0 if self.shared is None else len(self.shared))

    def common(self, data: Data) -> Data | None:
        """Return the rows shared by all experts."""
        return None if self.shared is None else data.take(self.shared)

    def held(self, executor: Executor | str | None, data: Data, ledger: Ledger | None = None, *, alone: bool = False) -> Groups:
        """Return the groups of experts on their workers; if ``alone``, the shared rows form an expert of their own."""
        groups: list[Item] = [*self.groups(data)]
        shared = self.common(data)
        if alone and shared is not None:
            groups.append(Group((len(self.rows),), (shared,)))
        sizes = [sum(d.rows for d in group_of(g).rows) for g in groups]
        return Held(executor, group_of, groups, sizes, len(self.rows), ledger)


@dataclass(frozen=True)
class Table:
    """A table on disk, and the encoding of its rows as numbers.

    Parameters
    ----------
    source
        A :class:`covary.tables.parquet.Parquet`.
    target
        Name of the column to predict.
    encode
        Function that encodes the inputs of a frame as numbers; must be picklable.
    label
        Function that encodes targets as numbers; None if they are numbers.
    folder
        Folder into which rows are sorted by expert; every worker needs access to it.
    missing
        Handling of rows with a missing input: ``"refuse"``, ``"drop"`` or ``"keep"`` (``encode`` fills it).
    merge
        Whether to merge rows with equal inputs into one row of larger weight (Gaussian noise).
    """

    source: Parquet
    target: str
    encode: Encode = field(repr=False)
    label: Label | None = field(default=None, repr=False)
    folder: str = ""
    missing: str = "refuse"
    merge: bool = True

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.source.rows

    @property
    def _reading(self) -> HowRead:
        return HowRead(target=self.target, encode=self.encode, missing=self.missing, label=self.label)

    def _mark(self, splitter: Divides | None) -> str:
        """Return an identifier of the sorted rows, which depends on the table, the partition and the encoding."""
        what = splitter, self.source.names, self.target, self.missing, self.encode, self.label, self.source.state()
        return hashlib.sha256(pickle.dumps(what)).hexdigest()[:32]

    def survey(self, executor: Executor, kind: str, experts: int, note: Note | None = None) -> None:
        """Check all rows, and the folder if the partition sorts them, before the longer computations begin.

        Missing values, invalid values and too few rows raise an error.
        """
        folder = None if kind == "arrival" else self.folder
        survey(executor, self.source, experts=experts, folder=folder, note=note, **self._reading)

    def deal(
        self,
        executor: Executor,
        kind: str,
        experts: int,
        x: np.ndarray,
        *,
        unit: np.ndarray | None,
        seed: int,
        shared: bool,
        names: Sequence[str] | None = None,
        note: Note | None = None,
    ) -> Dealt:
        """Assign every row to an expert; the partition is fitted to a sample of inputs, and shared rows are random."""
        own = experts - 1 if shared else experts
        part = fitted(kind, x, own, unit=unit, seed=seed, names=names)
        splitter: Divides | None = part
        if shared:
            assert part is not None  # the partition "arrival" has raised an error
            splitter = WithCommon(part, own, 1 / experts, seed)
        mean = max(1, self.rows // experts)
        batches = spread(
            executor,
            self.source,
            splitter=splitter,
            experts=experts,
            folder=self.folder,
            per_batch=max(1, together(self.rows) // mean),
            mark=self._mark(splitter),
            note=note,
            **self._reading,
        )
        return Dealt.of(list(batches), shared, part, self.merge, dict(batches.left_out), dict(batches.classes))


@dataclass(frozen=True)
class WithCommon:
    """A partition that assigns a random fraction of the rows to expert 0, and the others by position."""

    inner: Divides
    experts: int
    share: float
    seed: int
    local = False

    def assign(self, x: np.ndarray, key: int = 0) -> np.ndarray:
        """Return the expert of every row."""
        drawn = np.random.default_rng([self.seed, key, 7]).random(len(x)) < self.share
        return np.where(drawn, 0, 1 + self.inner.assign(x, key))


@dataclass(frozen=True)
class Dealt:
    """Rows on disk: descriptions of the groups of experts and of the rows they share.

    ``shift`` is 1 if expert 0 of the partition has the shared rows, so that the committee numbers the others from there.
    ``classes`` is the number of rows of each class, if they were counted.
    """

    batches: tuple[Batch, ...] = field(repr=False)
    first: Batch | None = field(default=None, repr=False)
    splitter: Splitter | None = field(default=None, repr=False)
    merge: bool = True
    left_out: dict[str, int] = field(default_factory=dict)
    shift: int = 0
    classes: dict[int, int] = field(default_factory=dict)

    @staticmethod
    def of(
        batches: list[Batch],
        shared: bool,
        splitter: Splitter | None,
        merge: bool,
        left_out: dict[str, int],
        classes: dict[int, int],
    ) -> Dealt:
        """Build the assignment from batches, in which expert 0 has the shared rows, if there are any."""
        if not shared or batches[0].experts[0] != 0:
            return Dealt(tuple(batches), None, splitter, merge, left_out, int(shared), classes)
        head, rest = batches[0], batches[1:]
        first = replace(head, experts=head.experts[:1], rows=head.rows[:1])
        if len(head.experts) > 1:
            rest.insert(0, replace(head, experts=head.experts[1:], rows=head.rows[1:]))
        return Dealt(tuple(rest), first, splitter, merge, left_out, 1, classes)

    @property
    def count(self) -> int:
        """Number of experts that have rows."""
        return sum(len(batch.experts) for batch in self.batches)

    @property
    def rows(self) -> int:
        """Number of rows, including the shared rows."""
        every = self.batches if self.first is None else (self.first, *self.batches)
        return sum(sum(batch.rows) for batch in every)

    def numbers(self) -> list[int]:
        """Indices of the experts that have rows."""
        return [number - self.shift for batch in self.batches for number in batch.experts]

    def near(self, x: np.ndarray, X: Inputs, count: int) -> np.ndarray:
        """Return the ``count`` nearest experts for every row of x, the nearest first."""
        numbers = np.array(self.numbers())  # of the experts and also of their parts, since none was split again
        return numbers[near(by_place(self.splitter), numbers, x, count)]

    def largest(self) -> int:
        """Return the number of rows of the largest expert, including the shared rows."""
        own = max((rows for batch in self.batches for rows in batch.rows), default=0)
        return own + (0 if self.first is None else self.first.rows[0])

    def common(self, data: Data) -> Data | None:
        """Return the rows shared by all experts, read in this process."""
        return None if self.first is None else collect(Piece(self.first, 0, self.merge)).rows[0]

    def held(self, executor: Executor | str | None, data: Data, ledger: Ledger | None = None, *, alone: bool = False) -> Groups:
        """Return the groups of experts on their workers, which read the rows themselves."""
        pieces: list[Item] = [Piece(batch, self.shift, self.merge) for batch in self.batches]
        sizes = [sum(batch.rows) for batch in self.batches]
        if alone and self.first is not None:
            pieces.append(Piece(self.first, -self.count, self.merge))
            sizes.append(sum(self.first.rows))
        return Held(executor, group_of, pieces, sizes, self.count, ledger)


@dataclass(frozen=True)
class Piece:
    """A batch, the offset of its expert numbers, and whether rows with equal inputs are merged."""

    batch: Batch
    shift: int
    merge: bool

    def __str__(self) -> str:
        return str(self.batch)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Indices of the experts in the committee."""
        return tuple(number - self.shift for number in self.batch.experts)


Item = Group | Piece  # rows in memory, or the description of rows on disk
Groups = Held[Item, Group]


def group_of(item: Item) -> Group:
    """Return the rows of a group of experts, reading them on this worker if they are on disk."""
    return item if isinstance(item, Group) else collect(item)


def collect(piece: Piece) -> Group:
    """Read the rows of a group of experts on this worker."""
    rows = load(piece.batch)
    return Group(piece.numbers, tuple(data.collapse() if piece.merge else data.merge() for data in rows))
