"""Errors and advice as data: what raised the error, what was given and what to do. The text is rendered when it is shown.

Python shows ``who: what; do.``. The command shows the same facts with the names of its options and the line of the file.
Messages are never parsed: whatever may be rendered differently is a separate part, an :class:`Option`, a :class:`Place` or a
:class:`Remedy`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Self, SupportsIndex, TypeVar


class _Part:
    """Part of a phrase. Adding text to it gives a phrase."""

    def __add__(self, other: Part | Phrase) -> Phrase:
        return Phrase((self,)) + other  # type: ignore[arg-type]

    def __radd__(self, other: str) -> Phrase:
        return Phrase((other, self))  # type: ignore[arg-type]


@dataclass(frozen=True, init=False)
class Option(_Part):
    """Argument, with its recommended values as Python code: ``method='exact'`` in Python, ``--method exact`` in the command.

    Examples
    --------
    >>> str(Option("method", "'exact'")), str(Option("n_restarts"))
    ("method='exact'", 'n_restarts')
    >>> str(Option("link", "'logit'", "'probit'"))
    "link='logit' or 'probit'"
    """

    name: str
    values: tuple[str, ...]

    def __init__(self, name: str, *values: str) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "values", values)

    @property
    def value(self) -> str:
        """The values to choose from, as text."""
        return either(self.values)

    def __str__(self) -> str:
        return f"{self.name}={self.value}" if self.values else self.name


def either(values: Sequence[str]) -> str:
    """Join the values to choose from, with "or" before the last.

    Examples
    --------
    >>> either(["1"]), either(["1", "2", "3"])
    ('1', '1, 2 or 3')
    """
    return " or ".join([*([", ".join(values[:-1])] if values[1:] else []), *values[-1:]])


@dataclass(frozen=True, init=False)
class Place(_Part):
    """Position of an entry in an argument: ``at row 5, column 'b'`` in Python, the line of the file in the command.

    Rows are counted from 0 in the input as given.

    Examples
    --------
    >>> str(Place(5, "b")), str(Place(2)), str(Place(column=1))
    ("at row 5, column 'b'", 'at row 2', 'in column 1')
    """

    row: int | None
    column: str | int | None

    def __init__(self, row: SupportsIndex | None = None, column: str | SupportsIndex | None = None) -> None:
        object.__setattr__(self, "row", None if row is None else index(row))
        object.__setattr__(self, "column", column if column is None or isinstance(column, str) else index(column))

    def __str__(self) -> str:
        if self.row is None:
            return "" if self.column is None else f"in column {self.column!r}"
        return f"at row {self.row}" + ("" if self.column is None else f", column {self.column!r}")


@dataclass(frozen=True)
class Remedy(_Part):
    """Advice that the command words differently from Python: its name, and the text shown in Python.

    Examples
    --------
    >>> print("correct it, or " + Remedy("leave out", "leave it out"))
    correct it, or leave it out
    """

    name: str
    text: str

    def __str__(self) -> str:
        return self.text


Part = str | Option | Place | Remedy
Kind = TypeVar("Kind", bound="CovaryError")


class Phrase(str):
    """Text whose arguments and places remain objects, built by addition: ``"use " + Option("gram", "Dense()")``.

    The string itself is the text shown in Python; ``parts`` has the objects it was built from.

    Examples
    --------
    >>> advice = "use " + Option("method", "'exact'") + ", or fewer rows"
    >>> print(advice)
    use method='exact', or fewer rows
    >>> advice.said(lambda part: f"--{part.name}" if isinstance(part, Option) else str(part))
    'use --method, or fewer rows'
    """

    parts: tuple[Part, ...]

    def __new__(cls, parts: Iterable[Part] = ()) -> Self:
        """Join the parts into a phrase."""
        held = tuple(parts)
        self = super().__new__(cls, "".join(map(str, held)))
        self.parts = held
        return self

    def __getnewargs__(self) -> tuple[tuple[Part, ...]]:  # type: ignore[override]
        return (self.parts,)

    def __add__(self, other: Text) -> Phrase:
        return Phrase((*self.parts, *phrase(other).parts))

    def __radd__(self, other: Part) -> Phrase:
        return Phrase((other, *self.parts))

    def said(self, render: Render) -> str:
        """Return the text, with arguments and places rendered by ``render``."""
        return "".join(part if isinstance(part, str) else render(part) for part in self.parts)

    def replaced(self, by: Callable[[Option | Place | Remedy], Text]) -> Phrase:
        """Return a copy with arguments, places and remedies replaced."""
        return joined([part if isinstance(part, str) else by(part) for part in self.parts], "")


Text = str | Option | Place | Remedy
Render = Callable[[Option | Place | Remedy], str]


def said(text: Text, render: Render) -> str:
    """Return a text, with its arguments and places rendered by ``render``."""
    return phrase(text).said(render)


def phrase(text: Text) -> Phrase:
    """Convert a text to a phrase."""
    return text if isinstance(text, Phrase) else Phrase((text,))


def joined(texts: Iterable[Text], between: str = ", ") -> Phrase:
    """Join several texts into a phrase, separated by ``between``.

    Examples
    --------
    >>> str(joined(["free it", Option("n_restarts", "3")]))
    'free it, n_restarts=3'
    """
    parts: list[Part] = []
    for text in texts:
        parts += [*([between] if parts and between else []), *phrase(text).parts]
    return Phrase(tuple(parts))


class CovaryError(ValueError):
    """Base class of the errors that covary raises deliberately, a subclass of ValueError.

    Parameters
    ----------
    who
        The class or function that raised the error: ``kernels.Matern52``, ``GPRegressor.fit``.
    what
        What was given.
    do
        What to do about it. No full stop is added after a question mark.
    argument
        The name of the invalid argument; by default the one that ``what`` begins with.
    place
        The position of the invalid entry; by default the first one in ``what``.

    Examples
    --------
    >>> error = CovaryError("GPRegressor", Option("X") + " is nan " + Place(5, "b"), "drop or fill these rows")
    >>> print(error)
    GPRegressor: X is nan at row 5, column 'b'; drop or fill these rows.
    >>> error.argument, error.place
    ('X', Place(row=5, column='b'))
    """

    def __init__(self, who: str, what: Text, do: Text = "", *, argument: str | None = None, place: Place | None = None) -> None:
        super().__init__(who, what, do)
        parts = phrase(what).parts
        first = parts[0]
        if argument is None and isinstance(first, Option) and not first.values:
            argument = first.name
        if place is None:
            place = next((part for part in parts if isinstance(part, Place)), None)
        self.who, self.what, self.do, self.argument, self.place = who, what, do, argument, place

    def __str__(self) -> str:
        return f"{self.who}: {self.message()}"

    @property
    def package(self) -> str:
        """What ``who`` begins with: ``kernels`` of ``kernels.Matern52``."""
        return self.who.partition(".")[0]

    @property
    def subject(self) -> str:
        """What follows the package in ``who``: ``Matern52`` of ``kernels.Matern52``."""
        return self.who.partition(".")[2]

    def message(self, render: Render = str) -> str:
        """Return the message without ``who``, with arguments and places rendered by ``render``."""
        what, do = said(self.what, render), said(self.do, render)
        between = "; " if do and not what.endswith("\n") else ""
        text = what + between + do
        return text if text.endswith((".", "?")) else f"{text}."

    def about(self, argument: str) -> Self:
        """Return a copy of the error that blames another argument."""
        return type(self)(self.who, self.what, self.do, argument=argument, place=self.place)

    def turned(self, kind: type[Kind]) -> Kind:
        """Return a copy of the error of another class."""
        return kind(self.who, self.what, self.do, argument=self.argument, place=self.place)

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (type(self), self.who, self.what, self.do, self.argument, self.place)


def _again(kind: type[CovaryError], who: str, what: Text, do: Text, argument: str | None, place: Place | None) -> CovaryError:
    """Rebuild an error from another process."""
    return kind(who, what, do, argument=argument, place=place)


class NotPositiveDefinite(CovaryError):
    """Raised if a covariance matrix cannot be factorised, even with the largest jitter allowed."""


class NotEnoughMemory(CovaryError, MemoryError):
    """Raised if a computation would need more memory than is free."""


class WrongArguments(CovaryError, TypeError):
    """Raised for arguments that a constructor does not accept, or for a class given instead of an instance."""


class NotNumbers(CovaryError, TypeError):
    """Raised for entries that cannot be converted to numbers; also a TypeError, as ``float`` raises."""


def fail(
    who: str,
    what: Text,
    do: Text,
    kind: type[CovaryError] = CovaryError,
    *,
    argument: str | None = None,
    place: Place | None = None,
) -> CovaryError:
    """Create an error from what raised it, what was given and what to do."""
    return kind(who, what, do, argument=argument, place=place)
