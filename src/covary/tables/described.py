"""Short description of the columns of a table: type, missing values and range."""

from __future__ import annotations

from covary._errors import CovaryError
from covary.tables.cells import CATEGORY, check_names, read_cells
from covary.tables.columns import Columns
from covary.tables.table import Column, is_text


def described(name: str, column: Column) -> dict[str, str | float | bool | None]:
    """Return the type, number of missing values and range of one column."""
    kind, usable = _kind(column)
    there = column.dropna()
    least = most = None
    if kind in ("text", "categories", "dates") and column.dtype.kind != "M":
        texts = there.astype(object).map(str)  # on categories, min and max would need an order
        least, most, distinct = texts.min(), texts.max(), texts.nunique()
    else:
        distinct = there.nunique()
        if len(there):
            ends = [there.min(), there.max()]
            least, most = (v.item() if hasattr(v, "item") else v if isinstance(v, int | float) else str(v) for v in ends)
    return {
        "name": name,
        "type": kind,
        "usable": usable,
        "missing": int(column.isna().sum()),
        "distinct": int(distinct),
        "least": least,
        "most": most,
    }


def _kind(column: Column) -> tuple[str, bool]:
    """Return the type of a column, and whether it can be used as an input without changes."""
    if not len(column.dropna()):
        return "empty", False
    if not is_text(column):
        return {"f": "numbers", "b": "true or false"}.get(column.dtype.kind, "whole numbers"), True
    try:
        found = read_cells("info", name := "the column", column)
        if found.kind == CATEGORY:
            check_names("info", name, [v for v in found.values if v is not None])
    except CovaryError:
        return "text", False
    words = {"boolean": "true or false", "number": "numbers", "date": "dates", "duration": "durations"}
    return words.get(found.kind, "categories"), True


def column_facts(columns: Columns) -> list[dict[str, str | int | list[str] | list[int] | None]]:
    """Describe how each input column was interpreted, for JSON output."""
    out = []
    for c in columns.each:
        found: dict[str, str | int | list[str] | list[int] | None] = {"name": c.name, "kind": c.kind, "unit": c.unit or None}
        if c.kind == "date":
            found |= {"since": c.origin, "seasons": list(c.seasons)}
        if c.kind == "category":
            found |= {"levels": list(c.levels), "counts": list(c.counts)}
        if c.missing:
            found |= {"missing": c.missing, "filled_with": None if c.fill is None else c.filled_with()}
        out.append(found)
    return out
