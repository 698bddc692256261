"""Pieces of work: data kept where they are used, and the finished and remaining pieces of a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, cast

from covary._checks import fail
from covary.executors.checkpoint import Result, Store
from covary.executors.library import Client, Future

I = TypeVar("I")  # a description of data
T = TypeVar("T")  # the data
R = TypeVar("R")  # the result
Note = Callable[[int, int], bool | None]


class Held(Generic[I, T]):
    """A piece of data that is loaded once, where it is first used, and kept there."""

    __slots__ = ("client", "future", "home", "item", "load", "loaded", "value")

    def __init__(self, load: Callable[[I], T], item: I) -> None:
        self.load, self.item = load, item
        self.forget()

    def forget(self) -> None:
        """Release the loaded data; they are reloaded on the next use."""
        self.value: T | None = None
        self.future: Future[T] | None = None
        self.home: str | None = None
        self.client: Client | None = None
        self.loaded = False

    def here(self) -> T:
        """Return the data, loaded in this process."""
        if not self.loaded:
            self.value, self.loaded = self.load(self.item), True
        return cast("T", self.value)


Handles = Sequence[Held[I, T]] | Sequence[T]


class Pieces(Generic[I, T, R]):
    """The pieces of one call of ``map``: finished ones, remaining ones, and the callback for progress."""

    def __init__(self, handles: Handles[I, T], note: Note | None, keep: Store | None, keys: Sequence[str] | None) -> None:
        self.handles: list[Held[I, T] | T] = list(handles)
        self.note, self.keep = note, keep
        self.keys = None if keys is None else list(keys)
        known = None
        if keep is not None:
            if self.keys is None or len(self.keys) != len(self.handles) or len(set(self.keys)) < len(self.keys):
                raise fail("map", "keep was given without a unique key for each piece", "give keys=, all different")
            known = [keep.get(key) for key in self.keys]
        self._found: list[R | None] = [None] * len(self.handles) if known is None else cast("list[R | None]", known)
        self.left = [i for i in range(len(self.handles)) if known is None or known[i] is None]
        self.done, self.enough = len(self.handles) - len(self.left), False
        if self.done and note is not None:
            note(self.done, len(self.handles))

    @property
    def results(self) -> list[R]:
        """The results in the order of the pieces; None for pieces skipped because ``note`` stopped the call."""
        return cast("list[R]", self._found)

    def finish(self, i: int, result: R) -> None:
        """Record, save and report a finished piece; set ``enough`` if ``note`` stops the call."""
        self._found[i] = result
        self.done += 1
        if self.keep is not None and self.keys is not None:
            self.keep.put(self.keys[i], cast("Result", result))
        if self.note is not None and self.note(self.done, len(self.handles)) is False:
            self.enough = True

    def name(self, i: int) -> str:
        """Return the name of a piece for messages: its own text if it has one, else its index."""
        handle = self.handles[i]
        item = handle.item if isinstance(handle, Held) else handle
        if type(item).__module__ != "builtins" and "__str__" in vars(type(item)):
            return str(item)
        return f"piece {i + 1} of {len(self.handles)}"

    def kept(self) -> str:
        """Return the end of a message, on where finished work is saved."""
        if self.keep is None:
            return ""
        done = f"the {self.done} finished of {len(self.handles)} pieces are kept in {str(self.keep.place)!r}"
        return f"; {done}, and the same call resumes there"
