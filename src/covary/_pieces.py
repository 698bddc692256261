"""Pieces of work: data held where they are used, what is finished of a call and what is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from covary._checks import fail

Note = Callable[[int, int], Any]


class Held:
    """A piece of data that is loaded once, where it is used first, and kept there."""

    __slots__ = ("client", "future", "home", "item", "load", "loaded", "value")

    def __init__(self, load: Callable[[Any], Any], item: Any) -> None:
        self.load, self.item = load, item
        self.forget()

    def forget(self) -> None:
        """Give back what was loaded; it is loaded again if it is wanted again."""
        self.value: Any = None
        self.future: Any = None
        self.home: Any = None
        self.client: Any = None
        self.loaded = False

    def here(self) -> Any:
        """The data, in this process."""
        if not self.loaded:
            self.value, self.loaded = self.load(self.item), True
        return self.value


class Pieces:
    """The pieces of one call of ``map``: what is finished, what is left, and who is told."""

    def __init__(self, handles: Sequence[Any], note: Note | None, keep: Any, keys: Sequence[str] | None) -> None:
        self.handles, self.note, self.keep = list(handles), note, keep
        self.keys = None if keys is None else list(keys)
        known = None
        if keep is not None:
            if self.keys is None or len(self.keys) != len(self.handles) or len(set(self.keys)) < len(self.keys):
                raise fail("map", "a ledger was given without one key for each piece", "give keys=, all different")
            known = [keep.get(key) for key in self.keys]
        self.results: list[Any] = [None] * len(self.handles) if known is None else known
        self.left = [i for i in range(len(self.handles)) if known is None or known[i] is None]
        self.done, self.enough = len(self.handles) - len(self.left), False
        if self.done and note is not None:
            note(self.done, len(self.handles))

    def finish(self, i: int, result: Any) -> None:
        """One more is finished: written down, and told; ``enough`` if whoever is told wants no more."""
        self.results[i] = result
        self.done += 1
        if self.keep is not None and self.keys is not None:
            self.keep.put(self.keys[i], result)
        if self.note is not None and self.note(self.done, len(self.handles)) is False:
            self.enough = True

    def name(self, i: int) -> str:
        """What a piece is called in a message: by itself if it can say so, else by its number."""
        handle = self.handles[i]
        item = handle.item if isinstance(handle, Held) else handle
        if type(item).__module__ != "builtins" and "__str__" in vars(type(item)):
            return str(item)
        return f"piece {i + 1} of {len(self.handles)}"

    def kept(self) -> str:
        """Where finished work is, for the end of a message."""
        if self.keep is None:
            return ""
        done = f"the {self.done} finished of {len(self.handles)} pieces are kept in {str(self.keep.folder)!r}"
        return f"; {done}, and the same call goes on from there"
