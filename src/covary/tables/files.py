"""Reading and writing tables: CSV, TSV, tab-separated text (also gzipped), Parquet (files, folders to read) and Excel sheets.

Delimiter, decimal comma, encoding and byte-order mark are detected. Files that cannot be read raise an error.
"""

from __future__ import annotations

import csv
import io
import os
import re
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from covary._errors import CovaryError, NotEnoughMemory, fail
from covary._memory import free_memory
from covary._read import read_bytes
from covary._words import GAPS, counted
from covary.tables.parquet import SUFFIXES, Parquet
from covary.tables.sheets import refuse_uncomputed, sheet_bytes
from covary.tables.table import BadTable, Frame, Table, bad, is_text, passed_on, records, shown

FORMATS = ".csv, .tsv, .txt (tabs), each also with .gz, .parquet or .xlsx"
DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t", "": ","}
NAMES = {",": "commas", ";": "semicolons", "\t": "tabs"}
Levels = Mapping[str, Collection[str]]  # the categories of columns, by name


def read_table(source: str, levels: Levels | None = None) -> Table:
    """Read the table in a file, or from stdin for ``-``.

    ``levels`` are the categories of a fitted model, by column: a text such as ``NA`` is not a missing value if it is one
    of the categories of its column.
    """
    levels = levels or {}
    if source == "-":
        return parse_text(_stdin(), "stdin", ",", levels)
    if os.path.isdir(source):  # pathlib would interpret an empty name as the current folder
        return _folder(source)
    suffix = table_suffix(source)
    if suffix is None:
        kind = Path(source).suffix
        raise bad(f"{source!r} has the suffix {kind!r}, which is not supported", f"give {FORMATS}")
    data = _bytes(source)
    if suffix == ".parquet":
        return _parquet(data, source)
    if suffix == ".xlsx":
        return _excel(data, source, levels)
    if data[:2] == b"\x1f\x8b":
        data = _unzipped(data, source)
    return parse_text(data, source, DELIMITERS[suffix], levels)


def table_bytes(frame: Frame, path: str) -> bytes:
    """Encode a table in the format given by the suffix (CSV for stdout); numbers keep all their digits."""
    suffix = ".csv" if path == "-" else table_suffix(path)
    if suffix == ".parquet":
        stream = io.BytesIO()
        frame.to_parquet(stream, engine="pyarrow", index=False)
        return stream.getvalue()
    if suffix == ".xlsx":
        return sheet_bytes(frame)
    text = frame.to_csv(index=False, sep=DELIMITERS[suffix or ""], lineterminator="\n")
    data = text.encode()
    if path.lower().endswith(".gz"):
        import gzip

        return gzip.compress(data, mtime=0)
    return data


def table_suffix(source: str) -> str | None:
    """Return the suffix that determines the format, without ``.gz``; None if it is not supported."""
    path = Path(source)
    suffix = path.suffix.lower()
    if suffix == ".gz":
        suffix = Path(path.stem).suffix.lower()
    return suffix if suffix in DELIMITERS or suffix in (".parquet", ".xlsx") else None


def is_parquet(source: str) -> bool:
    """Return whether a table is a Parquet file, by its suffix, or a folder, which must contain such files."""
    return source != "-" and (os.path.isdir(source) or table_suffix(source) == ".parquet")


def open_parquet(source: str) -> Parquet:
    """Open a Parquet file, or all Parquet files in a folder; only the footers are read."""
    if os.path.isdir(source) and not any(p.suffix.lower() in SUFFIXES for p in Path(source).rglob("*")):
        raise bad(f"{source!r} is a folder without Parquet files ({', '.join(SUFFIXES)})", "give the name of a file")
    try:
        return Parquet(source)
    except CovaryError as error:
        raise passed_on(error) from None


def head_of(source: Parquet, name: str, notes: tuple[str, ...] = ()) -> Table:
    """Return the columns of a table on disk, as a table without rows."""
    import pandas as pd

    return Table(name, pd.DataFrame({column: [] for column in source.names}), notes=notes)


def _folder(source: str) -> Table:
    """Read all Parquet files in a folder as one table."""
    import pandas as pd

    found = open_parquet(source)
    try:
        found.check(found.names, "Parquet")
    except CovaryError as error:
        raise passed_on(error) from None
    frame = pd.concat([found.read(chunk, found.names) for chunk in found.chunks], ignore_index=True)
    return Table(source, frame, notes=(counted(len(found.files), "Parquet file"),))


def _stdin() -> bytes:
    stream = getattr(sys.stdin, "buffer", None)
    return b"" if stream is None else stream.read()


def _bytes(source: str) -> bytes:
    try:
        return read_bytes(source)
    except FileNotFoundError:
        raise bad(f"there is no file {source!r}", "check the name") from None
    except (OSError, ValueError) as error:
        raise bad(f"{source!r} cannot be read ({getattr(error, 'strerror', None) or error})", "check the file") from None


def _unzipped(data: bytes, source: str) -> bytes:
    import gzip
    import zlib

    most, parts = free_memory() // 8, []  # cells take several times the memory of their text
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            while part := stream.read(2**24):
                parts.append(part)
                if (most := most - len(part)) < 0:
                    what = f"{source!r} unzips to more than {sum(map(len, parts)) / 2**30:,.1f} GiB"
                    raise fail("table", f"{what}, which is too much for this machine", "take fewer rows", NotEnoughMemory)
        return b"".join(parts)
    except (OSError, EOFError, zlib.error):
        raise bad(f"{source!r} is damaged: it cannot be unzipped completely", "download or copy it again") from None


def decode(data: bytes, name: str) -> str:
    """Decode text: UTF-8, UTF-16 with a byte-order mark, otherwise Latin-1; raise an error for binary data."""
    for magic, kind in ((b"PAR1", "a Parquet file"), (b"PK\x03\x04", "a zip archive, perhaps a workbook or a model")):
        if data.startswith(magic):
            raise bad(f"{name!r} is {kind}, not a text table", f"give {FORMATS}")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = data.decode("utf-16", "replace")
    else:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = data.decode("latin-1")
    strange = len(re.findall(r"[\x00-\x08\x0e-\x1f\x7f\ufffd]", text))
    if "\x00" in text or strange > max(2, len(text) // 200):
        raise bad(f"{name!r} is not a text table: it contains binary data", f"give {FORMATS}")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _gaps(title: str, levels: Levels) -> list[str]:
    """Return the texts that represent a missing value in a column of this name."""
    return [text for text in GAPS if text not in levels.get(title, ())]


def parse_text(data: bytes, name: str, usual: str, levels: Levels | None = None) -> Table:
    """Parse a table from delimited text."""
    text = decode(data, name)
    if not text.strip():
        raise bad(f"{name!r} is empty", "give a header line with column names and a line for every row")
    mark = re.match(r"\s*sep=([,;\t])\n", text)  # spreadsheets write this line
    delimiter = mark[1] if mark else sniff(text, usual)
    if mark:
        text = "\n" * mark[0].count("\n") + text[mark.end() :]
    header = _header(text, delimiter, name)
    gaps = [_gaps(title, levels or {}) for title in header]
    frame, decimal = _frame(text, delimiter, gaps, name)
    for i, none in enumerate(gaps):  # missing-value texts with spaces around them count too
        if len(frame) and is_text(frame[i]):
            frame[i] = frame[i].mask([isinstance(v, str) and v.strip() in none for v in frame[i]])
    notes = [f"columns are separated by {NAMES[delimiter]}"] if delimiter != usual else []
    notes += ["numbers have a decimal comma"] if decimal == "," else []
    frame, more = _named(frame, header, name)
    return Table(name, frame, text, delimiter, (*notes, *more))


def sniff(text: str, usual: str) -> str:
    """Return the most frequent of comma, semicolon and tab outside quotes in the header line; ``usual`` breaks ties."""
    line = next(line for line in io.StringIO(text) if line.strip())
    bare = re.sub(r'"[^"]*"', "", line)
    return max(NAMES, key=lambda d: (bare.count(d), d == usual))


def _header(text: str, delimiter: str, name: str) -> list[str]:
    csv.field_size_limit(2**30)
    line, cells = next(records(text, delimiter), (1, []))
    header = [" ".join(cell.split()) for cell in cells]
    if not any(header):
        raise bad(f"{name!r} has no column names on line {line}", "begin with a header line")
    if all(_is_number(cell) for cell in header if cell):
        what = f"{name!r} has numbers ({shown(header[0] or header[-1])}, ...) on line {line} where column names are expected"
        raise bad(what, "begin with a header line")
    return header


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def _frame(text: str, delimiter: str, gaps: list[list[str]], name: str) -> tuple[Frame, str]:
    """Parse the cells below the header; decimal commas are assumed if this makes more columns numeric."""
    frame = _parse(text, delimiter, gaps, name, ".")
    words = [c for c in frame if is_text(frame[c])]
    if delimiter != "," and words and frame[words].map(lambda v: isinstance(v, str) and "," in v).any(axis=None):
        other = _parse(text, delimiter, gaps, name, ",")
        if sum(is_text(other[c]) for c in other) < len(words):
            return other, ","
    return frame, "."


def _parse(text: str, delimiter: str, gaps: list[list[str]], name: str, decimal: str) -> Frame:
    import warnings

    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", pd.errors.ParserWarning)
        exact: Any = {} if int(pd.__version__.split(".")[0]) >= 3 else {"float_precision": "round_trip"}
        try:
            return pd.read_csv(
                io.StringIO(text),
                sep=delimiter,
                decimal=decimal,
                header=0,
                names=list(range(len(gaps))),
                index_col=False,
                low_memory=False,
                skipinitialspace=True,
                keep_default_na=False,
                na_values=list(GAPS) if all(len(some) == len(GAPS) for some in gaps) else dict(enumerate(gaps)),
                **exact,
            )
        except (pd.errors.ParserError, pd.errors.ParserWarning, pd.errors.EmptyDataError, ValueError, csv.Error) as error:
            raise _ragged(text, delimiter, len(gaps), name, error) from None


def _ragged(text: str, delimiter: str, width: int, name: str, error: Exception) -> BadTable:
    """Return the error that explains why the text could not be split into cells."""
    header, first = 1, ""
    for i, (line, cells) in enumerate(records(text, delimiter)):
        if i == 0:
            header, first = line, cells[0]
        if len(cells) > width:
            names = f"its header has {counted(width, 'column')}"
            do = "correct the line or the header, or put quotes around cells that contain the delimiter"
            if width == 1:
                names = f"line {header}, {shown(first)}, is read as its header"
                do = f"begin with the column names (separated by {NAMES[delimiter]}), and remove the lines above them"
            return bad(f"{name!r} has {len(cells)} cells on line {line} but {names}", do, row=i)
    if text.count('"') % 2:
        return bad(f"{name!r} has an opening quotation mark without a closing one", "close it, or remove it")
    return bad(f"{name!r} cannot be split into columns ({' '.join(str(error).split())[:120]})", "check the file")


def _named(frame: Frame, header: list[str], name: str) -> tuple[Frame, list[str]]:
    """Name the columns of a frame; unnamed columns that are empty or number the rows are left out."""
    import numpy as np

    notes, keep = [], []
    for i, title in enumerate(header):
        if title:
            keep.append(i)
        elif frame[i].isna().all():
            continue
        elif frame[i].dtype.kind in "iu" and (np.diff(frame[i]) == 1).all() and frame[i].iloc[0] in (0, 1):
            notes.append(f"column {i + 1} has no name and numbers the rows: left out")
        else:
            raise bad(f"column {i + 1} of {name!r} has no name", "name it in the header line")
    titles = [header[i] for i in keep]
    check_unique(titles, name)
    frame = frame[keep]
    frame.columns = titles
    return frame, notes


def check_unique(titles: list[str], name: str) -> None:
    """Raise an error if two columns have the same name."""
    if len(set(titles)) < len(titles):
        twice = next(t for i, t in enumerate(titles) if t in titles[:i])
        places = [i + 1 for i, t in enumerate(titles) if t == twice]
        raise bad(f"{name!r} has two columns called {shown(twice)} (columns {places[0]} and {places[1]})", "rename one")


def _parquet(data: bytes, name: str) -> Table:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise bad(f"{name!r} is Parquet, which needs pyarrow", "run pip install 'covary[parquet]'") from None
    if not data:
        raise bad(f"{name!r} is empty", "give a table with columns and rows")
    try:
        table = pq.read_table(io.BytesIO(data), use_pandas_metadata=False)
        check_unique(table.column_names, name)
        for i, field in enumerate(table.schema):
            if pa.types.is_decimal(field.type):
                table = table.set_column(i, field.name, table.column(i).cast(pa.float64()))
        frame = table.to_pandas(ignore_metadata=True)
    except BadTable:
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, NotImplementedError, KeyError):
        raise bad(f"{name!r} is damaged or not a Parquet file", "write it again") from None
    index = [c for c in frame.columns if re.fullmatch(r"__index_level_\d+__", str(c))]
    return Table(name, frame.drop(columns=index))


def _excel(data: bytes, name: str, levels: Levels) -> Table:
    """Read the first sheet of a workbook; its first non-empty row contains the column names."""
    import zipfile

    try:
        import openpyxl
    except ImportError:
        raise bad(f"{name!r} is an Excel workbook, which needs openpyxl", "run pip install 'covary[excel]'") from None
    try:
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        sheets = [sheet.title for sheet in book.worksheets]
        cells = [list(row) for row in book.worksheets[0].iter_rows(values_only=True)] if sheets else []
        refuse_uncomputed(data, cells, name)
    except BadTable:
        raise
    except (zipfile.BadZipFile, KeyError, ValueError, OSError, TypeError, AttributeError):
        raise bad(f"{name!r} is damaged or not an Excel workbook", "save it again") from None
    rows = [(i, row) for i, row in enumerate(cells, 1) if any(cell is not None and str(cell).strip() for cell in row)]
    if not rows:
        raise bad(f"{name!r} is empty", "give a row with column names and a row for every observation")
    notes = [f"the first of {len(sheets)} sheets, {shown(sheets[0])}"] if len(sheets) > 1 else []
    return _sheet(rows, name, notes, levels)


def _sheet(rows: list[tuple[int, list[Any]]], name: str, notes: list[str], levels: Levels) -> Table:
    """Build a table from the rows of a sheet, given with their row numbers."""
    import pandas as pd

    first, head = rows[0]
    header = [" ".join(str(cell).split()) if cell is not None else "" for cell in head]
    if all(isinstance(cell, int | float) for cell in head if cell is not None):
        raise bad(f"{name!r} has numbers in row {first} where column names are expected", "begin with a row of names")
    width = max(len(row) for _, row in rows)
    header += [""] * (width - len(header))
    columns = []
    for j in range(width):
        column, none = [row[j] if j < len(row) else None for _, row in rows[1:]], _gaps(header[j], levels)
        gaps = [None if isinstance(v, str) and v.strip() in none else v for v in column]
        columns.append(pd.Series(gaps, dtype=object).infer_objects() if gaps else pd.Series([], dtype=float))
    frame = pd.DataFrame(dict(enumerate(columns)))
    frame, more = _named(frame, header, name)
    return Table(name, frame, notes=(*notes, *more), numbers=tuple(i for i, _ in rows[1:]))
