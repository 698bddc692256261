"""Batch prediction from Parquet to Parquet, one row group at a time, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from covary._errors import CovaryError, fail
from covary._write import Unfit, where, whole_file
from covary.tables.parquet import Chunk, Parquet, arrow, read
from covary.tables.table import Frame

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

TOGETHER = 20_000  # small row groups are processed together up to this number of rows
Answers = tuple[dict[str, np.ndarray], np.ndarray | None]


def stream(
    who: str,
    source: Parquet,
    out: str | PathLike[str],
    *,
    needed: Sequence[str],
    kept: Sequence[str],
    answer: Callable[[Frame, int], Answers],
    types: Mapping[str, DTypeLike],
    note: Callable[[int, int], None] | None = None,
) -> int:
    """Write a Parquet file with a result for every row of a table, and return the number of rows.

    The file is written completely or not at all.

    Parameters
    ----------
    who
        Name of the caller, for error messages.
    source
        Table to read.
    out
        File to write. It has the row groups of the table, with small ones joined.
    needed
        Columns to read and pass to ``answer``.
    kept
        Columns to copy to the front of the output.
    answer
        Function of a frame and the index of its first row. It returns the output columns by title, and a mask of the rows
        they belong to (None: all).
    types
        NumPy types of the output columns that are not floats.
    note
        If given, called with (rows finished, total number of rows).
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    source.check(dict.fromkeys([*needed, *kept]), who)
    _apart(who, source, out)
    writer: pq.ParquetWriter | None = None
    start = written = 0
    with whole_file(out, who, stream=True) as file:
        try:
            for chunks in _joined(source.chunks):
                frame = _frame(chunks, needed)
                try:
                    columns, rows = answer(frame, start)
                except CovaryError as error:
                    raise _placed(error, chunks, source) from None
                copies = pa.concat_tables([arrow(c, kept) for c in chunks], promote_options="permissive") if kept else None
                table = _table(columns, types, copies if copies is None or rows is None else copies.filter(pa.array(rows)))
                if writer is None:
                    writer = pq.ParquetWriter(file, table.schema)
                if table.num_rows:
                    writer.write_table(table.cast(writer.schema), row_group_size=table.num_rows)
                start, written = start + len(frame), written + table.num_rows
                if note is not None:
                    note(start, source.rows)
        finally:
            if writer is not None:
                writer.close()
    return written


def _joined(chunks: Sequence[Chunk]) -> Iterator[list[Chunk]]:
    """Yield lists of consecutive row groups; small ones are joined."""
    held: list[Chunk] = []
    for chunk in chunks:
        if held and sum(c.rows for c in held) + chunk.rows > TOGETHER:
            yield held
            held = []
        held.append(chunk)
    yield held


def _frame(chunks: Sequence[Chunk], columns: Sequence[str]) -> Frame:
    import pandas as pd

    parts = [read(chunk, columns) for chunk in chunks]
    return parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)


def _table(columns: dict[str, np.ndarray], types: Mapping[str, DTypeLike], copies: pa.Table | None) -> pa.Table:
    """Combine copied columns and results in an Arrow table; missing results are null."""
    import pyarrow as pa

    out = {} if copies is None else {name: copies.column(name) for name in copies.column_names}
    for title, values in columns.items():
        kind = np.dtype(types.get(title, np.float64))
        if kind.kind == "S":
            values = np.array([v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values], dtype=object)
        type_ = pa.string() if kind.kind in "USO" else pa.from_numpy_dtype(kind)
        out[title] = pa.array(values, type=type_, from_pandas=True)
    return pa.table(out)


def _apart(who: str, source: Parquet, out: str | PathLike[str]) -> None:
    """Raise an error if the output would overwrite the input table, or be written into it."""
    found = where(out)
    if isinstance(found, Unfit):
        raise fail(who, *found, argument="out")
    place = found.target
    if str(place) in source.files or (source.path.is_dir() and place.parent == source.path.resolve()):
        raise fail(who, f"{str(out)!r} is part of the table being read", "write to another file", argument="out")


def _placed(error: CovaryError, chunks: Sequence[Chunk], source: Parquet) -> CovaryError:
    """Add to an error the row group from which rows are counted, if there are several."""
    if error.place is None or error.place.row is None or len(source.chunks) == 1:
        return error
    do = error.do + f" (rows are counted from {chunks[0]})"
    return type(error)(error.who, error.what, do, argument=error.argument, place=error.place)
