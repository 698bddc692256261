"""One column of a table: what it holds, and how its entries become numbers."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

import numpy as np

from covary._checks import fail
from covary._words import counted
from covary.estimators.cells import BOOLEAN, CATEGORY, DATE, DURATION, NUMBER, Cells, check_names

UNITS = {"years": 365.25 * 86400.0, "days": 86400.0, "hours": 3600.0, "seconds": 1.0}
PERIODS = {"yearly": 365.25 * 86400.0, "weekly": 7 * 86400.0, "daily": 86400.0}
LONG = 3  # how many of a unit a span must have for the unit to be used
HEADER = re.compile(r"(.*[^\s\[(])\s*(?:\[([^\[\]()]{1,20})\]|\(([^\[\]()]{1,20})\))")


@dataclass(frozen=True)
class Column:
    """One column of the user's: what it holds and how it becomes numbers.

    ``unit`` is that of a header such as ``depth [m]``, or what dates and durations are counted in; ``levels`` are the
    categories in the order of their codes, ``counts`` how many training rows each has; ``fill`` is what a missing entry is
    given, as it stands in the matrix, and ``missing`` how many entries were missing in fit; ``seasons`` are those that the
    dates are fine and long enough for.
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
        """The name without its unit."""
        found = HEADER.fullmatch(self.name)
        return found[1] if found and self.kind == NUMBER else self.name

    @property
    def shown(self) -> str:
        """The name with its unit, for people."""
        return f"{self.label} ({self.unit})" if self.unit else self.name

    @property
    def words(self) -> str:
        """What the column was taken for; nothing for plain numbers."""
        if self.kind == DATE:
            return f"{self.unit} since {self.origin.removesuffix('T00:00:00.000000')}{' UTC' if self.aware else ''}"
        if self.kind == CATEGORY:
            few = ", ".join(self.levels[:6]) + (", ..." if len(self.levels) > 6 else "")
            return f"{counted(len(self.levels), 'category', 'categories')} ({few})"
        return {BOOLEAN: "true or false, as 1 and 0", DURATION: f"a duration in {self.unit}"}.get(self.kind, "")

    def period(self, season: str) -> float:
        """A season's length in the unit of the dates."""
        return PERIODS[season] / UNITS[self.unit]

    def numbers(self, cells: Cells) -> np.ndarray:
        """Numbers from entries that are no categories; NaN where missing."""
        if self.kind == DATE:
            return (cells.values - np.datetime64(self.origin)) / np.timedelta64(round(UNITS[self.unit]), "s")
        if self.kind == DURATION:
            return cells.values / np.timedelta64(round(UNITS[self.unit]), "s")
        return cells.values

    def filled_with(self) -> str:
        """What missing entries are given, in words."""
        if self.kind == CATEGORY and self.fill is not None:
            return f"the commonest category, {self.levels[int(self.fill)]}"
        if self.kind == BOOLEAN:
            return "the commoner value, " + ("true" if self.fill else "false")
        return f"the median, {self.fill:.6g}{' ' + self.unit if self.unit else ''}"


def fit_column(who: str, name: str, cells: Cells, missing: str) -> Column:
    """What a column of the training table is, and what will be done with its gaps."""
    gone = cells.missing
    what = f"column {name!r} of X"
    if gone.all():
        raise fail(who, f"{what} is empty", "leave it out")
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
    """A column of numbers, dates or durations with its unit."""
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
    """The largest unit of which the span has a few."""
    if span == 0:
        return "days"
    return next((name for name, size in units.items() if span >= LONG * size), "seconds")


def season_text(column: Column, j: int, season: str) -> str:
    """The kernel of a season, as text."""
    return f"Periodic(period=fixed({column.period(season):.10g})).on({j})"
