"""Sheets of Excel, cell by cell: text stays text, also where it begins like a formula; what a sheet cannot hold is refused."""

from __future__ import annotations

import datetime as dt
import io
import math
import re
import zipfile
from typing import Any

from covary._checks import is_missing
from covary.cli.doors import BadData, BadUsage

ROWS, COLUMNS, LETTERS = 1_048_576, 16_384, 32_767  # of a sheet, and of a cell
WHOLE = 2**53  # above which a sheet would round whole numbers
FIRST = dt.datetime(1900, 3, 1)  # before which Excel knows no dates, or wrong ones
ELSEWHERE = "write .csv or .parquet"
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def sheet_bytes(frame: Any) -> bytes:
    """A table as a workbook of one sheet."""
    import openpyxl
    from openpyxl.cell import WriteOnlyCell

    rows, columns = frame.shape
    if rows + 1 > ROWS or columns > COLUMNS:
        what = f"the table has {rows:,} rows and {columns:,} columns, more than a sheet of Excel holds"
        raise BadUsage(f"{what} ({ROWS - 1:,} and {COLUMNS:,}); {ELSEWHERE}.")
    names = [str(name) for name in frame.columns]
    cells = (
        [_checked(name, name, 0) for name in names],
        *zip(*(_column(frame, j, name) for j, name in enumerate(names)), strict=True),
    )
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("Sheet1")
    for row in cells:
        sheet.append([_text(WriteOnlyCell(sheet, value)) if isinstance(value, str) else value for value in row])
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def _text(cell: Any) -> Any:
    """A cell of text, also if it begins with "=" or reads like "#N/A"."""
    cell.data_type = "s"
    return cell


def _column(frame: Any, j: int, name: str) -> list[Any]:
    return [_checked(value, name, row) for row, value in enumerate(frame.iloc[:, j].astype(object), 1)]


def _checked(value: Any, name: str, row: int) -> Any:
    """A value as a sheet knows it, if it can hold it."""
    found = _plain(value)
    if isinstance(found, str) and (len(found) > LETTERS or CONTROL.search(found)):
        why = f"{len(found):,} characters of text" if len(found) > LETTERS else "a control character"
        raise BadUsage(f"column {name!r} holds {why} in row {row}, which a sheet of Excel cannot hold; {ELSEWHERE}.")
    return found


def _plain(value: Any) -> Any:
    """A value as a sheet knows it: a number, a date, true or false, text, or nothing; text where it would be rounded."""
    if is_missing(value):
        return None
    if hasattr(value, "item"):  # NumPy
        value = value.item()
    if hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime(warn=False)
    if isinstance(value, bool | str | dt.timedelta):
        return value
    if isinstance(value, int):
        return value if abs(value) <= WHOLE else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dt.datetime):
        return value if value.tzinfo is None and value >= FIRST else value.isoformat(" ")
    if isinstance(value, dt.date):
        return value if value >= FIRST.date() else value.isoformat()
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def refuse_uncomputed(data: bytes, cells: list[list[Any]], name: str) -> None:
    """Refuse formulas whose values are not stored: a program wrote them, and they would be read as gaps."""
    import openpyxl

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        sheets = [member for member in archive.namelist() if member.startswith("xl/worksheets/")]
        if not any(re.search(rb"<f[\s/>]", archive.read(member)) for member in sheets):
            return
    book = openpyxl.load_workbook(io.BytesIO(data), read_only=True)
    for i, row in enumerate(book.worksheets[0].iter_rows()):
        for j, cell in enumerate(row):
            if getattr(cell, "data_type", "") == "f" and cells[i][j] is None:
                what = f"{name!r} has a formula in {cell.coordinate} whose value is not stored"
                raise BadData(f"{what}; open it in a spreadsheet program and save it there.")
