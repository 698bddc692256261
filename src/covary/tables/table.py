"""A table as it was read: its columns by name, and the position of each row in the file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from covary._errors import CovaryError, Option, Place, Remedy, Text, phrase

Frame = Any  # a pandas.DataFrame, whose type stubs are too loose to help
Column = Any  # a pandas.Series


class BadTable(CovaryError):
    """The table cannot be read, or cannot be used for the requested purpose."""


class BadChoice(CovaryError):
    """An option is incompatible with the table or with another option."""


def bad(what: Text, do: Text, *, row: int | None = None, column: str | None = None) -> BadTable:
    """Return the error about an unusable table; ``row`` and ``column`` locate the invalid entry, if there is one."""
    place = None if row is None and column is None else Place(row, column)
    return BadTable("table", what, do, place=place)


def wrong(argument: str, what: Text, do: Text) -> BadChoice:
    """Return the error about the invalid value of an argument."""
    return BadChoice("table", what, do, argument=argument)


def passed_on(error: CovaryError) -> BadTable:
    """Convert the error of a reader into an error about a table."""
    return error.turned(BadTable)


def in_file(
    error: CovaryError,
    table: Table,
    rows: np.ndarray | None = None,
    *,
    inputs: Sequence[str] = (),
    target: str | None = None,
    remedies: Mapping[str, Text] | None = None,
) -> BadTable:
    """Reword an error about arrays that came from a table, so that it refers to the file and its lines.

    ``rows`` gives the table row of each array row, ``inputs`` are the columns that became ``X``, ``target`` is the one that
    became ``y``, and ``remedies`` maps the names of remedies to the advice to give here.
    """

    entry = error.place is not None and phrase(error.what).parts[0] == Option("X")
    place = f"column {shown(inputs[0])}" if len(inputs) == 1 else "an entry"
    known = {"X": f"{place} of {table.name!r}" if entry else repr(table.name)}
    if target is not None:
        known["y"] = f"column {shown(target)} of {table.name!r}"

    def said(part: Option | Place | Remedy) -> Text:
        if isinstance(part, Remedy):
            return (remedies or {}).get(part.name, part)
        if isinstance(part, Option):
            return part if part.values else known.get(part.name, part)
        if part.row is None:
            return part
        where = table.where(part.row if rows is None else int(rows[part.row]))
        return where if part.column is None else f"{where}, column {part.column!r}"

    what, do = phrase(error.what).replaced(said), phrase(error.do).replaced(said)
    return BadTable(error.who, what, do, argument=error.argument, place=error.place)


@dataclass(frozen=True)
class Table:
    """A table as it was read: ``frame`` has a name for every column; ``text`` is kept to look up line numbers."""

    name: str
    frame: Frame
    text: str | None = None
    delimiter: str = ","
    notes: tuple[str, ...] = ()
    numbers: Sequence[int] | None = None  # row numbers in the sheet, or in the table of which this is a part

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.frame.columns)

    def where(self, row: int) -> str:
        """Return the position of a row: ``on line 7``, as in a text editor, or ``in row 6`` for formats without lines."""
        if self.text is not None:
            for number, (first, _) in enumerate(records(self.text, self.delimiter)):
                if number == row + 1:
                    return f"on line {first}"
        return f"in row {row + 1 if self.numbers is None else self.numbers[row]}"


def records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (first line, cells) for every record that is not blank; lines are counted from 1."""
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)
    first = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells) or len(cells) > 1:
                yield first, cells
            first = reader.line_num + 1
    except csv.Error:
        return


def is_text(column: Column) -> bool:
    """Return whether the dtype of a column is neither numeric nor boolean."""
    return column.dtype.kind not in "iufb"


def shown(value: object) -> str:
    """Quote a value for a message; long text is truncated."""
    text = str(value)
    return repr(text if len(text) <= 40 else text[:37] + "...")
