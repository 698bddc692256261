"""Experts where they are worked on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from covary.committee.ledger import Ledger
from covary.executors import as_executor


class Held:
    """Groups of experts, and who works on them.

    Nothing is sent anywhere before the first piece of work. What is pickled is the description alone: whoever reads it back
    works in a process of its own.

    Parameters
    ----------
    executor
        Who does the work: an executor, or what :func:`covary.executors.as_executor` makes one of.
    load, items
        How the rows of a group are got from its description, and the descriptions.
    rows
        The rows of each group.
    experts
        How many experts there are in all of them.
    ledger
        Where finished work is written down, or None.
    """

    def __init__(
        self, executor: Any, load: Any, items: Sequence[Any], rows: list[int], experts: int, ledger: Ledger | None = None
    ) -> None:
        self.executor, self.load, self.items = as_executor(executor), load, list(items)
        self.rows, self.experts, self.ledger = rows, experts, ledger
        self._handles: list[Any] | None = None

    @property
    def total(self) -> int:
        """The rows of all."""
        return sum(self.rows)

    @property
    def handles(self) -> list[Any]:
        """The groups where they are worked on."""
        if self._handles is None:
            self._handles = self.executor.hold(self.load, self.items)
        return self._handles

    def map(
        self, function: Any, *common: Any, which: Sequence[int] | None = None, key: str = "", note: Any = None
    ) -> list[Any]:
        """The function of every group (or of some), in their order; what the ledger has is not computed again."""
        which = range(len(self.items)) if which is None else which
        keys = [f"{key}-{i}" for i in which] if self.ledger is not None and key else None
        keep = None if keys is None else self.ledger
        return self.executor.map(function, [self.handles[i] for i in which], *common, note=note, keep=keep, keys=keys)

    def on(self, executor: Any) -> Held:
        """The same experts, worked on by somebody else."""
        return Held(executor, self.load, self.items, self.rows, self.experts, self.ledger)

    def __getstate__(self) -> dict[str, Any]:
        return {"load": self.load, "items": self.items, "rows": self.rows, "experts": self.experts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(None, **state)
