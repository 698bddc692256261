"""One column of a table: its type, and the encoding of its entries as numbers."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

import numpy as np

from covary._checks import fail
from covary._words import counted
from covary.tables.cells import BOOLEAN, CATEGORY, DATE, DURATION, LEAVE_OUT, NUMBER, Cells, check_names, label

UNITS = {"years": 365.25 * 86400.0, "days": 86400.0, "hours": 3600.0, "seconds": 1.0}
PERIODS = {"yearly": 365.25 * 86400.0, "weekly": 7 * 86400.0, "daily": 86400.0}
LONG = 3  # a unit is used if the span covers at least this many of it
HEADER = re.compile(r"(.*[^\s\[(])\s*(?:\[([^\[\]()]{1,20})\]|\(([^\[\]()]{1,20})\))")


@dataclass(frozen=True)
class Column:
    """An input column: its type and its numeric encoding.

    ``unit`` is taken from a header such as ``depth [m]``, or is the unit in which dates and durations are counted.
    ``levels`` are the categories in the order of their codes, and ``counts`` the number of training rows in each.
    ``fill`` is the encoded value that replaces missing entries, and ``missing`` the number of entries missing during fit.
    ``seasons`` are the seasons that the dates are dense and long enough to resolve.
    """

    name: str
    kind: str = NUMBER
    unit: str = ""
    origin: str = ""
    aware: bool = False
    levels: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    fill: float | None = None
    missing: int = 0
    indicator: bool = False
    seasons: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Name without the unit."""
        found = HEADER.fullmatch(self.name)
        return found[1] if found and self.kind == NUMBER else self.name

    @property
    def shown(self) -> str:
        """Name with the unit, for display."""
        return f"{self.label} ({self.unit})" if self.unit else self.name

    @property
    def words(self) -> str:
        """How the column was interpreted; empty for plain numbers."""
        if self.kind == DATE:
            return f"{self.unit} since {self.origin.removesuffix('T00:00:00.000000')}{' UTC' if self.aware else ''}"
        if self.kind == CATEGORY:
            few = ", ".join(self.levels[:6]) + (", ..." if len(self.levels) > 6 else "")
            return f"{counted(len(self.levels), 'category', 'categories')} ({few})"
        return {BOOLEAN: "true or false, as 1 and 0", DURATION: f"a duration in {self.unit}"}.get(self.kind, "")

    def period(self, season: str) -> float:
        """Return the length of a season in the unit of the dates."""
        return PERIODS[season] / UNITS[self.unit]

    def numbers(self, cells: Cells) -> np.ndarray:
        """Encode entries that are not categories as numbers; missing entries become NaN."""
        if self.kind == DATE:
            return (cells.values - np.datetime64(self.origin)) / np.timedelta64(round(UNITS[self.unit]), "s")
        if self.kind == DURATION:
            return cells.values / np.timedelta64(round(UNITS[self.unit]), "s")
        return cells.values

    def filled_with(self) -> str:
        """Describe the value that replaces missing entries."""
        if self.kind == CATEGORY and self.fill is not None:
            return f"the most frequent category, {self.levels[int(self.fill)]}"
        if self.kind == BOOLEAN:
            return "the more frequent value, " + ("true" if self.fill else "false")
        return f"the median, {self.fill:.6g}{' ' + self.unit if self.unit else ''}"


def fit_column(who: str, name: str, cells: Cells, missing: str) -> Column:
    """Determine the type of a training column, and how its missing values are handled."""
    gone = cells.missing
    what = label(name)
    if gone.all():
        raise fail(who, what + " is empty", LEAVE_OUT)
    some = cells.values[~gone]
    count = int(gone.sum())
    if cells.kind == CATEGORY:
        if not cells.levels:
            check_names(who, what, list(some))
        levels = cells.levels or tuple(sorted(set(some)))
        found = dict(zip(*np.unique(some.astype(str), return_counts=True), strict=True))
        counts = tuple(int(found.get(level, 0)) for level in levels)
        column = Column(name, CATEGORY, levels=levels, counts=counts, missing=count)
        fill = float(np.argmax(counts))
    else:
        column = _measured(name, cells, some, count)
        values = column.numbers(Cells(cells.kind, some))
        fill = float(values.mean() >= 0.5) if cells.kind == BOOLEAN else float(np.median(values))
    if missing in ("impute", "indicator"):
        column = dataclasses.replace(column, fill=fill, indicator=missing == "indicator" and count > 0)
    return column


def _measured(name: str, cells: Cells, some: np.ndarray, count: int) -> Column:
    """Build a column of numbers, dates or durations, with its unit."""
    if cells.kind in (NUMBER, BOOLEAN):
        found = HEADER.fullmatch(name) if cells.kind == NUMBER else None
        return Column(name, cells.kind, unit=(found[2] or found[3]).strip() if found else "", missing=count)
    if cells.kind == DURATION:
        longest = float(np.abs(some / np.timedelta64(1, "s")).max())
        return Column(name, DURATION, unit=_unit(longest, UNITS), missing=count)
    origin = some.min()
    times = np.unique((some - origin) / np.timedelta64(1, "s"))
    span = float(times[-1])
    spacing = float(np.median(np.diff(times))) if len(times) > 1 else np.inf
    seasons = tuple(s for s, p in PERIODS.items() if span >= 2 * p and spacing <= p / 3)
    return Column(name, DATE, _unit(span, UNITS), str(origin), cells.aware, missing=count, seasons=seasons)


def _unit(span: float, units: dict[str, float]) -> str:
    """Return the largest unit that the span covers several times."""
    if span == 0:
        return "days"
    return next((name for name, size in units.items() if span >= LONG * size), "seconds")


def season_text(column: Column, j: int, season: str) -> str:
    """Return the kernel of a season as text."""
    return f"Periodic(period=fixed({column.period(season):.10g})).on({j})"
