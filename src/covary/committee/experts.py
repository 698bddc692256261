"""Who has which rows: experts whose rows are at hand, and experts whose rows were dealt out of a table on disk."""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from covary.committee.expert import Group, same
from covary.committee.held import Held
from covary.committee.partition import near
from covary.committee.partition import splitter as fitted
from covary.committee.shuffle import Batch, load, spread, survey
from covary.data import Data, Inputs

TOGETHER, MANY, MOST = 4000, 5000, 64_000  # rows of experts that travel together: more where there would be so many groups


def together(rows: int) -> int:
    """How many rows of a table on disk travel together: the client hands out some thousand groups, not a million."""
    return int(np.clip(rows // MANY, TOGETHER, MOST))


@dataclass(frozen=True)
class Experts:
    """Rows at hand: those of every expert, those all of them share, and the partition that parted them."""

    rows: list[np.ndarray] = field(repr=False)
    shared: np.ndarray | None = field(default=None, repr=False)
    splitter: Any = field(default=None, repr=False)

    def groups(self, data: Data) -> list[Group]:
        """The experts with their rows, those that travel together in one: settled by the rows alone, whoever does the work."""
        out: list[list[int]] = []
        held = TOGETHER
        for k, rows in enumerate(self.rows):
            if not len(rows):
                continue  # a place where nobody is
            if held + len(rows) > TOGETHER:
                out.append([])
                held = 0
            out[-1].append(k)
            held += len(rows)
        return [Group(tuple(numbers), tuple(data.take(self.rows[k]) for k in numbers)) for numbers in out]

    def numbers(self) -> list[int]:
        """The experts that have rows."""
        return [k for k, rows in enumerate(self.rows) if len(rows)]

    def near(self, x: np.ndarray, X: Inputs, count: int) -> np.ndarray:
        """So many experts for every row of x, the nearest first; ``X`` are the inputs they learned from."""
        numbers = np.array(self.numbers())
        part = self.splitter.assign(np.asarray(X.x, np.float64)[[self.rows[k][0] for k in numbers]])
        return numbers[near(self.splitter, part, x, count)]

    def largest(self) -> int:
        """The rows of the largest expert, those it shares included."""
        return max((len(rows) for rows in self.rows), default=0) + (0 if self.shared is None else len(self.shared))

    def common(self, data: Data) -> Data | None:
        """The rows that all experts share."""
        return None if self.shared is None else data.take(self.shared)

    def held(self, executor: Any, data: Data, ledger: Any = None, *, alone: bool = False) -> Held:
        """Every group of experts, ready to be worked on; the rows they share as an expert of their own if ``alone``."""
        groups, shared = self.groups(data), self.common(data)
        if alone and shared is not None:
            groups.append(Group((len(self.rows),), (shared,)))
        return Held(executor, same, groups, [sum(d.rows for d in g.rows) for g in groups], len(self.rows), ledger)


@dataclass(frozen=True)
class Table:
    """A table on disk, and how its rows become numbers.

    Parameters
    ----------
    source
        A :class:`covary.committee.sources.Parquet`.
    target
        The column to foretell.
    encode
        The inputs of a frame as numbers; must be picklable.
    label
        Targets as numbers, where they are not; None.
    folder
        Where rows are sorted by expert: a folder that every worker reaches.
    missing
        What is done with rows that have a gap in an input: ``"refuse"``, ``"drop"`` or ``"keep"`` (``encode`` fills it).
    merge
        Whether rows with equal inputs become one of larger weight (Gaussian noise).
    """

    source: Any
    target: str
    encode: Any = field(repr=False)
    label: Any = field(default=None, repr=False)
    folder: str = ""
    missing: str = "refuse"
    merge: bool = True

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.source.rows

    @property
    def _reading(self) -> dict[str, Any]:
        return {"target": self.target, "encode": self.encode, "missing": self.missing, "label": self.label}

    def _mark(self, splitter: Any) -> str:
        """A name of these rows parted like this: another table, other parts, or rows read in another way have another."""
        what = splitter, self.source.names, self.target, self.missing, self.encode, self.label, self.source.state()
        return hashlib.sha256(pickle.dumps(what)).hexdigest()[:32]

    def survey(self, executor: Any, kind: str, experts: int, note: Any = None) -> None:
        """Look at all rows once, for gaps, strange values, too few of them, and for the folder of a partition that sorts them:
        quick beside what follows, and before it."""
        folder = None if kind == "arrival" else self.folder
        survey(executor, self.source, experts=experts, folder=folder, note=note, **self._reading)

    def deal(
        self,
        executor: Any,
        kind: str,
        experts: int,
        x: np.ndarray,
        *,
        unit: Any,
        seed: int,
        shared: bool,
        names: Any = None,
        note: Any = None,
    ) -> Dealt:
        """Every row to an expert: the partition is fitted to a sample of inputs, the rows that all share are random."""
        own = experts - 1 if shared else experts
        part = fitted(kind, x, own, unit=unit, seed=seed, names=names)
        splitter = WithCommon(part, own, 1 / experts, seed) if shared else part
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
    """A partition in which expert 0 gets a share of all rows, drawn at random, and the others the rest by place."""

    inner: Any
    experts: int
    share: float
    seed: int
    local = False

    def assign(self, x: np.ndarray, key: int = 0) -> np.ndarray:
        """The expert of every row."""
        drawn = np.random.default_rng([self.seed, key, 7]).random(len(x)) < self.share
        return np.where(drawn, 0, 1 + self.inner.assign(x, key))


@dataclass(frozen=True)
class Dealt:
    """Rows on disk: groups of experts by description, and the description of the rows they share.

    ``shift`` is 1 where expert 0 was to have those rows, and the committee counts the others from there; ``classes`` are the
    rows of each class by its number, where they were counted.
    """

    batches: tuple[Batch, ...] = field(repr=False)
    first: Batch | None = field(default=None, repr=False)
    splitter: Any = field(default=None, repr=False)
    merge: bool = True
    left_out: dict[str, int] = field(default_factory=dict)
    shift: int = 0
    classes: dict[int, int] = field(default_factory=dict)

    @staticmethod
    def of(
        batches: list[Batch], shared: bool, splitter: Any, merge: bool, left_out: dict[str, int], classes: dict[int, int]
    ) -> Dealt:
        """From batches in which expert 0 has the rows that all share, if they do and any were drawn."""
        if not shared or batches[0].experts[0] != 0:
            return Dealt(tuple(batches), None, splitter, merge, left_out, int(shared), classes)
        head, rest = batches[0], batches[1:]
        first = replace(head, experts=head.experts[:1], rows=head.rows[:1])
        if len(head.experts) > 1:
            rest.insert(0, replace(head, experts=head.experts[1:], rows=head.rows[1:]))
        return Dealt(tuple(rest), first, splitter, merge, left_out, 1, classes)

    @property
    def count(self) -> int:
        """How many experts have rows."""
        return sum(len(batch.experts) for batch in self.batches)

    @property
    def rows(self) -> int:
        """How many rows were dealt out."""
        every = self.batches if self.first is None else (self.first, *self.batches)
        return sum(sum(batch.rows) for batch in every)

    def numbers(self) -> list[int]:
        """The experts that have rows."""
        return [number - self.shift for batch in self.batches for number in batch.experts]

    def near(self, x: np.ndarray, X: Inputs, count: int) -> np.ndarray:
        """So many experts for every row of x, the nearest first."""
        numbers = np.array(self.numbers())  # of experts, and of their parts: none was parted again
        return numbers[near(self.splitter, numbers, x, count)]

    def largest(self) -> int:
        """The rows of the largest expert, those it shares included."""
        own = max((rows for batch in self.batches for rows in batch.rows), default=0)
        return own + (0 if self.first is None else self.first.rows[0])

    def common(self, data: Data) -> Data | None:
        """The rows that all experts share, read here."""
        return None if self.first is None else collect(Piece(self.first, 0, self.merge)).rows[0]

    def held(self, executor: Any, data: Data, ledger: Any = None, *, alone: bool = False) -> Held:
        """Every group of experts, ready to be worked on: the workers read the rows themselves."""
        pieces = [Piece(batch, self.shift, self.merge) for batch in self.batches]
        if alone and self.first is not None:
            pieces.append(Piece(self.first, -self.count, self.merge))
        return Held(executor, collect, pieces, [sum(piece.batch.rows) for piece in pieces], self.count, ledger)


@dataclass(frozen=True)
class Piece:
    """A batch, by how much its experts are numbered down, and whether equal inputs are merged."""

    batch: Batch
    shift: int
    merge: bool

    def __str__(self) -> str:
        return str(self.batch)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The experts, as the committee counts them."""
        return tuple(number - self.shift for number in self.batch.experts)


def collect(piece: Piece) -> Group:
    """The rows of a group of experts, read where they are worked on."""
    rows = load(piece.batch)
    return Group(piece.numbers, tuple(data.collapse() if piece.merge else data.merge() for data in rows))
