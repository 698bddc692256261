"""Excel sheets: text is kept as text even if it looks like a formula; values that a sheet cannot contain raise an error."""

from __future__ import annotations

import datetime as dt
import io
import math
import re
import zipfile
from typing import Any

from covary._checks import is_missing
from covary.tables.table import Frame, bad, wrong

ROWS, COLUMNS, LETTERS = 1_048_576, 16_384, 32_767  # limits of a sheet, and of a cell
WHOLE = 2**53  # Excel rounds integers above this
FIRST = dt.datetime(1900, 3, 1)  # Excel has no dates, or wrong ones, before this day
ELSEWHERE = "write .csv or .parquet"
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def sheet_bytes(frame: Frame) -> bytes:
    """Encode a table as a workbook with one sheet."""
    import openpyxl
    from openpyxl.cell import WriteOnlyCell

    rows, columns = frame.shape
    if rows + 1 > ROWS or columns > COLUMNS:
        what = f"the table has {rows:,} rows and {columns:,} columns, which exceeds the limits of an Excel sheet"
        raise wrong("out", f"{what} ({ROWS - 1:,} and {COLUMNS:,})", ELSEWHERE)
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
    """Return a text cell, even if the text begins with "=" or looks like "#N/A"."""
    cell.data_type = "s"
    return cell


def _column(frame: Frame, j: int, name: str) -> list[Any]:
    return [_checked(value, name, row) for row, value in enumerate(frame.iloc[:, j].astype(object), 1)]


def _checked(value: Any, name: str, row: int) -> Any:
    """Convert a value for a sheet; raise an error if a cell cannot contain it."""
    found = _plain(value)
    if isinstance(found, str) and (len(found) > LETTERS or CONTROL.search(found)):
        why = f"{len(found):,} characters of text" if len(found) > LETTERS else "a control character"
        raise wrong("out", f"column {name!r} contains {why} in row {row}, which an Excel sheet does not support", ELSEWHERE)
    return found


def _plain(value: Any) -> Any:
    """Convert a value to a number, date, boolean, text or None; values that Excel would round become text."""
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
    """Raise an error for formulas without a stored value, which would otherwise be read as missing values."""
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
                raise bad(what, "open it in a spreadsheet program and save it there")
