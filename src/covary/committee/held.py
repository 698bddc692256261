"""Groups of experts on their workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypedDict, TypeVar, TypeVarTuple

from covary.committee.expert import I
from covary.committee.ledger import Ledger
from covary.executors import as_executor
from covary.executors.choose import Executor
from covary.executors.pieces import Held as Piece
from covary.executors.pieces import Note

T = TypeVar("T")
R = TypeVar("R")
Common = TypeVarTuple("Common")


class Description(TypedDict, Generic[I, T]):
    """Pickled state of groups of experts."""

    load: Callable[[I], T]
    items: list[I]
    rows: list[int]
    experts: int


class Held(Generic[I, T]):
    """Groups of experts, and the executor that works on them.

    Nothing is sent to workers before the first computation. Only the descriptions of the groups are pickled; after unpickling,
    the computations run in the current process.

    Parameters
    ----------
    executor
        An executor, or an argument of :func:`covary.executors.as_executor`.
    load, items
        Function that loads the rows of a group from its description, and the descriptions.
    rows
        Number of rows of each group.
    experts
        Total number of experts.
    ledger
        Checkpoint for finished results, or None.
    """

    def __init__(
        self,
        executor: Executor | str | None,
        load: Callable[[I], T],
        items: Sequence[I],
        rows: list[int],
        experts: int,
        ledger: Ledger | None = None,
    ) -> None:
        self.executor, self.load, self.items = as_executor(executor), load, list(items)
        self.rows, self.experts, self.ledger = rows, experts, ledger
        self._handles: list[Piece[I, T]] | None = None

    @property
    def total(self) -> int:
        """Total number of rows."""
        return sum(self.rows)

    @property
    def handles(self) -> list[Piece[I, T]]:
        """Handles of the groups on their workers."""
        if self._handles is None:
            self._handles = self.executor.hold(self.load, self.items)
        return self._handles

    def map(
        self,
        function: Callable[[T, *Common], R],
        *common: *Common,
        which: Sequence[int] | None = None,
        key: str = "",
        note: Note | None = None,
    ) -> list[R]:
        """Apply a function to every group (or to those in ``which``), in order; stored results are not recomputed."""
        which = range(len(self.items)) if which is None else which
        keys = [f"{key}-{i}" for i in which] if self.ledger is not None and key else None
        keep = None if keys is None else self.ledger
        return self.executor.map(function, [self.handles[i] for i in which], *common, note=note, keep=keep, keys=keys)

    def on(self, executor: Executor | str | None) -> Held[I, T]:
        """Return the same experts on another executor."""
        return Held(executor, self.load, self.items, self.rows, self.experts, self.ledger)

    def __getstate__(self) -> Description[I, T]:
        return {"load": self.load, "items": self.items, "rows": self.rows, "experts": self.experts}

    def __setstate__(self, state: Description[I, T]) -> None:
        self.__init__(None, **state)
