"""Tables too large to be read at once: Parquet files, read one row group at a time."""

from __future__ import annotations

import difflib
import os
import re
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from covary._arguments import explained
from covary._checks import fail, shown
from covary._read import check_plain
from covary._words import counted, meant
from covary.tables.table import Frame

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".parquet", ".parq", ".pq")
SOME = 32  # number of row groups from which a sample is drawn
KEPT = 2**28  # a row group that is read in parts is cached if it takes fewer bytes than this


@dataclass(frozen=True)
class Chunk:
    """A row group: its file, its index in the file, and its number of rows."""

    file: str
    group: int
    rows: int

    def __str__(self) -> str:
        return f"row group {self.group} of {Path(self.file).name!r}"


class Parquet:
    """Table in a Parquet file, or in all Parquet files of a folder, which are sorted by name.

    Only the footers are read at first. Useful for tables that do not fit into memory, since each worker reads only its row
    groups.

    Parameters
    ----------
    path
        Name of a file or a folder.
    columns
        Columns to use; all by default.

    Examples
    --------
    >>> import tempfile, pandas as pd
    >>> file = tempfile.mkdtemp() + "/table.parquet"
    >>> pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [4.0, 5.0, 6.0]}).to_parquet(file, row_group_size=2)
    >>> table = Parquet(file)
    >>> table.rows, table.names, len(table.chunks)
    (3, ('x', 'y'), 2)
    >>> table.read(table.chunks[1], ["y"])["y"].tolist()
    [6.0]
    """

    def __init__(self, path: str | PathLike[str], *, columns: Sequence[str] | None = None) -> None:
        if not isinstance(path, str | PathLike):
            raise fail("Parquet", f"path is {shown(path)}", "give the name of a file or a folder", argument="path")
        self.path = Path(path)
        self.files = _files(self.path)
        found = [_footer(file) for file in self.files]
        self.chunks = tuple(chunk for chunks, _ in found for chunk in chunks if chunk.rows)
        self.rows = sum(chunk.rows for chunk in self.chunks)
        self._kinds = [kinds for _, kinds in found]  # the type of each column, by file
        self.names = tuple(dict.fromkeys(name for kinds in self._kinds for name in kinds))
        if not self.rows:
            raise fail("Parquet", f"{str(self.path)!r} has no rows", "give a table with rows")
        if columns is not None:
            self.check(columns, "Parquet")
            self.names = tuple(columns)

    def __repr__(self) -> str:
        return f"Parquet({str(self.path)!r}: {counted(self.rows, 'row')} in {counted(len(self.chunks), 'row group')})"

    def check(self, columns: Iterable[str], who: str) -> None:
        """Raise an error if a column is missing from a file, has a different type there, or is nested."""
        for name in columns:
            first: tuple[str, str] | None = None
            for file, kinds in zip(self.files, self._kinds, strict=True):
                if name not in kinds:
                    others = [Path(f).name for f, known in zip(self.files, self._kinds, strict=True) if name in known]
                    if others:
                        what = f"{Path(file).name!r} has no column {name!r}, which {others[0]!r} has"
                        raise fail(who, what, "leave the column out, or write all files with it")
                    raise _missing(who, name, kinds, Path(file).name if len(self.files) > 1 else str(self.path))
                kind = kinds[name]
                if kind in ("several", "nested"):
                    what = "more than one column" if kind == "several" else "lists or records, not single cells,"
                    raise fail(who, f"{Path(file).name!r} has {what} under {name!r}", "rename or unpack it")
                if kind == "nothing":
                    continue
                if first and kind != first[0]:
                    what = f"the column {name!r} contains {first[0]} in {first[1]!r} and {kind} in {Path(file).name!r}"
                    raise fail(who, what, "write the files with the same types")
                first = first or (kind, Path(file).name)

    def empty(self, columns: Iterable[str]) -> dict[str, int]:
        """Count the missing entries of each column according to the footers (NaN values are not counted)."""
        import pyarrow.parquet as pq

        wanted, out = set(columns), dict.fromkeys(columns, 0)
        for file in self.files:
            about = pq.ParquetFile(_handed(file)).metadata
            for g in range(about.num_row_groups):
                group = about.row_group(g)
                for c in range(group.num_columns):
                    column = group.column(c)
                    if column.path_in_schema in wanted and column.statistics is not None and column.statistics.has_null_count:
                        out[column.path_in_schema] += column.statistics.null_count
        return out

    def state(self) -> tuple[tuple[str, int, int], ...]:
        """Return the name, size and modification time of every file; if they change, the table has changed."""
        try:
            each = [(Path(file).name, Path(file).stat()) for file in self.files]
        except OSError as error:
            what = f"{error.filename!r} cannot be read ({error.strerror})"
            raise fail("Parquet", what, "restore it and start again") from None
        return tuple((name, about.st_size, about.st_mtime_ns) for name, about in each)

    def read(self, chunk: Chunk, columns: Sequence[str]) -> Frame:
        """Read columns of one row group."""
        return read(chunk, columns)

    def sample(self, columns: Sequence[str], rows: int, *, seed: int) -> Frame:
        """Draw rows without replacement from row groups spread evenly over the table; all rows if there are fewer."""
        import pandas as pd

        self.check(columns, "sample")
        rng = np.random.default_rng(seed)
        sizes = np.array([chunk.rows for chunk in self.chunks])
        count = min(SOME, len(sizes))
        while True:  # one row group from each of ``count`` equal ranges; more ranges if the row groups are small
            edges = np.linspace(0, len(sizes), count + 1).astype(int)
            chosen = np.array([rng.integers(a, b) for a, b in pairwise(edges)])
            if sizes[chosen].sum() >= rows or count == len(sizes):
                break
            count = min(2 * count, len(sizes))
        ends = np.cumsum(sizes[chosen])
        drawn = np.sort(rng.choice(ends[-1], min(rows, ends[-1]), replace=False))
        parts = []
        for k, end in zip(chosen, ends, strict=True):
            start = end - sizes[k]
            inside = drawn[(drawn >= start) & (drawn < end)] - start
            if len(inside):
                parts.append(read(self.chunks[k], columns).iloc[inside])
        return pd.concat(parts, ignore_index=True)


def read(chunk: Chunk, columns: Sequence[str], start: int = 0, stop: int | None = None) -> Frame:
    """Read the given columns of a row group, in this order, for the rows from ``start`` to ``stop``."""
    columns = list(dict.fromkeys(columns))
    table = _table(chunk, columns, again=stop is not None).slice(start, None if stop is None else stop - start)
    return _in_plain_types(table).to_pandas(ignore_metadata=True, use_threads=False)[columns]


def arrow(chunk: Chunk, columns: Sequence[str]) -> pa.Table:
    """Read the given columns of a row group as an Arrow table, in this order, with the types used by :func:`read`."""
    columns = list(dict.fromkeys(columns))
    return _in_plain_types(_table(chunk, columns, again=False)).select(columns).replace_schema_metadata()


def _in_plain_types(table: pa.Table) -> pa.Table:
    for i, field in enumerate(table.schema):
        plain = _plain(field.type)
        if plain is not None:
            table = table.set_column(i, field.name, table.column(i).cast(plain))
    return table


_last: list[
    tuple[tuple[Chunk, tuple[str, ...], int, int], pa.Table]
] = []  # the row group that was read last, if it is read in parts


def _table(chunk: Chunk, columns: list[str], *, again: bool) -> pa.Table:
    """Read a row group as an Arrow table; if it is read in parts (``again``), it is cached for the next part."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        about = Path(chunk.file).stat()
        key = chunk, tuple(columns), about.st_size, about.st_mtime_ns
        for known, table in _last:
            if known == key:
                return table
        check_plain(chunk.file)
        with pq.ParquetFile(_handed(chunk.file)) as file:
            table = file.read_row_group(chunk.group, columns=columns, use_threads=False)
    except (OSError, pa.ArrowException, IndexError, OverflowError) as error:
        why = getattr(error, "strerror", None) or " ".join(str(error).split())[:120]
        what = f"{chunk} cannot be read on {socket.gethostname()} ({why})"
        raise fail("Parquet", what, f"put {str(Path(chunk.file).parent)!r} where every worker can reach it") from None
    if table.num_rows != chunk.rows or not set(columns) <= set(table.column_names):
        raise fail("Parquet", f"{chunk} has changed during the computation", "do not modify the files, and run it again")
    _last[:] = [(key, table)] if again and table.nbytes < KEPT else []
    return table


# files and their contents -----------------------------------------------------------------------------------------
def _files(path: Path) -> list[str]:
    """Return the full paths of the files; those in a folder are sorted by name."""
    if not os.path.exists(path):  # Path.exists raises if the name is too long or a parent folder is not accessible
        raise fail("Parquet", f"there is no file or folder {str(path)[:300]!r}", "check the name")
    if not path.is_dir():
        return [str(path.resolve())]
    inside = sorted(p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
    shown = [p for p in inside if not any(part.startswith((".", "_")) for part in p.relative_to(path).parts)]
    deeper = [p for p in shown if p.parent != path]
    if deeper:
        what = f"{str(path)!r} has Parquet files in folders inside it ({str(deeper[0].relative_to(path))!r})"
        raise fail("Parquet", what, "put all files into one folder, or give one of these folders")
    if not shown:
        raise fail("Parquet", f"the folder {str(path)!r} has no Parquet files ({', '.join(SUFFIXES)})", "check the name")
    return [str(p.resolve()) for p in shown]


def _handed(file: str) -> str | pa.NativeFile:
    """Return a file in a form that pyarrow can open: its name, if that is valid UTF-8."""
    try:
        file.encode()
        return file
    except UnicodeEncodeError:
        import pyarrow as pa

        return pa.OSFile(os.fsencode(file))


def _footer(file: str) -> tuple[list[Chunk], dict[str, str]]:
    """Return the row groups of a file and the type of each column."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise fail("Parquet", "reading Parquet files needs pyarrow", "run pip install 'covary[dask]'") from None
    try:
        check_plain(file)
        with pq.ParquetFile(_handed(file)) as opened:
            about, schema = opened.metadata, opened.schema_arrow
    except (OSError, pa.ArrowException, ValueError) as error:
        why = getattr(error, "strerror", None) or "damaged, or not a Parquet file"
        raise fail("Parquet", f"{file!r} cannot be read ({why})", "write it again as Parquet, or leave it out") from None
    chunks = [Chunk(file, g, about.row_group(g).num_rows) for g in range(about.num_row_groups)]
    kinds: dict[str, str] = {}
    for field in schema:
        if not re.fullmatch(r"__index_level_\d+__", field.name):
            kinds[field.name] = "several" if field.name in kinds else _kind(field.type)
    return chunks, kinds


def _kind(type_: pa.DataType) -> str:
    """Describe the type of a column, ignoring the width of numbers and the unit of times."""
    import pyarrow.types as t

    if t.is_dictionary(type_):
        return _kind(type_.value_type)
    if t.is_integer(type_) or t.is_floating(type_) or t.is_decimal(type_):
        return "numbers"
    if t.is_timestamp(type_):
        return "dates with a time zone" if type_.tz else "dates"
    tests = {
        "true or false": t.is_boolean,
        "text": lambda v: t.is_string(v) or t.is_large_string(v) or t.is_string_view(v),
        "dates": t.is_date,
        "durations": t.is_duration,
        "nothing": t.is_null,
        "nested": t.is_nested,
    }
    return next((word for word, test in tests.items() if test(type_)), str(type_))


def _plain(type_: pa.DataType) -> pa.DataType | None:
    """Return the type that a column is cast to: float for decimals, the value type for dictionaries; None if not cast."""
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_dictionary(type_):
        return _plain(type_.value_type) or type_.value_type
    if t.is_decimal(type_):
        return pa.float64()
    if t.is_date(type_):
        return pa.timestamp("us")
    return None


def _missing(who: str, name: str, known: Iterable[str], where: str) -> Exception:
    """Return the error about a missing column, with suggestions of similar names."""
    known = list(known)
    close = difflib.get_close_matches(str(name), known, 3, 0.6) or [k for k in known if k.lower() == str(name).lower()]
    if close:
        return fail(who, f"{where!r} has no column {name!r}", meant(*map(repr, close)))
    some = ", ".join(map(repr, known[:8])) + (", ..." if len(known) > 8 else "")
    return fail(who, f"{where!r} has no column {name!r}", f"choose from {some}")


explained(Parquet, "Parquet")
