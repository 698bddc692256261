"""Tables as people have them, as the numbers kernels see: :class:`Columns`, fitted on the training table, kept in the file.

Each column of the user's becomes one column of the matrix, in the same order: numbers as they are, true and false as 1 and 0,
dates as time since the first one, categories as codes 0, 1, 2, ... Columns that say where an entry was missing follow at the
end, so that ``kernel.on(j)`` counts the user's columns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from covary._checks import fail, quoted
from covary._words import counted
from covary.estimators.cells import BOOLEAN, CATEGORY, DATE, DURATION, KINDS, NUMBER, Cells, read_cells
from covary.estimators.column import PERIODS, UNITS, Column, fit_column, season_text

MISSING = ("refuse", "drop", "indicator", "impute")


@dataclass
class Mapped:
    """A table as a matrix, and what was done to it: missing entries by column, categories never seen, rows without inputs."""

    x: np.ndarray
    filled: dict[str, np.ndarray] = field(default_factory=dict)  # which rows were given a value
    unseen: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)  # column, category, rows
    gaps: dict[str, np.ndarray] = field(default_factory=dict)  # which rows have no value and get none

    @property
    def gone(self) -> np.ndarray:
        """Which rows cannot be used, for want of an input."""
        return np.any([np.zeros(len(self.x), bool), *self.gaps.values()], axis=0)

    def flags(self) -> np.ndarray:
        """For every row what should be known about it, or an empty text."""
        said: list[list[str]] = [[] for _ in range(len(self.x))]
        for verb, found in (("is missing", self.gaps), ("was missing", self.filled)):
            for name, rows in found.items():
                for i in np.flatnonzero(rows):
                    said[i].append(f"{name} {verb}")
        for name, levels in self.unseen.items():
            for level, rows in levels.items():
                for i in np.flatnonzero(rows):
                    said[i].append(f"{name} {quoted(level)} was never seen")
        return np.array(["; ".join(parts) for parts in said], dtype=object)


@dataclass(frozen=True)
class Columns:
    """How a table becomes the matrix the kernels see; ``estimator.columns_`` after a fit to a frame.

    Parameters
    ----------
    each
        The user's columns, in the order of ``fit``.
    missing
        What is done about missing entries: ``"refuse"``, ``"drop"``, ``"indicator"`` or ``"impute"``.
    dropped
        How many training rows were left out for missing inputs.
    named
        Whether the table had column names.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"depth [m]": [1.0, 2.0, 3.0], "soil": ["clay", "sand", "clay"]})
    >>> columns = Columns.fit("example", table)
    >>> columns.names
    ['depth (m)', 'soil']
    >>> columns.matrix("example", table.iloc[:, ::-1]).x
    array([[1., 0.],
           [2., 1.],
           [3., 0.]])
    """

    each: tuple[Column, ...]
    missing: str = "refuse"
    dropped: int = 0
    named: bool = True

    @staticmethod
    def fit(who: str, table: Any, missing: str = "refuse") -> Columns:
        """The columns of a training table, a frame or an array of numbers."""
        if missing not in MISSING:
            raise fail(who, f"missing is {missing!r}", f"choose one of {', '.join(map(repr, MISSING))}")
        named = hasattr(table, "columns")
        keys = list(table.columns) if named else range(table.shape[1])
        if len(set(map(str, keys))) < len(keys):
            twice = next(n for n in keys if [str(m) for m in keys].count(str(n)) > 1)
            raise fail(who, f"two columns of X are called {twice!r}", "rename one of them")
        cells = {
            str(k): read_cells(who, f"column {k!r} of X", table[k] if named else np.asarray(table)[:, k])  # type: ignore[index]
            for k in keys
        }
        each = tuple(fit_column(who, name, c, missing) for name, c in cells.items())
        gone = np.any([c.missing for c in cells.values()], axis=0).sum() if missing == "drop" else 0
        return Columns(each, missing, int(gone), named)

    # what stands where ---------------------------------------------------------------------------------------------
    @property
    def plain(self) -> bool:
        """Whether the table is numbers, true and false only, and gaps are refused: a matrix as it stands."""
        return self.missing == "refuse" and all(c.kind in (NUMBER, BOOLEAN) for c in self.each)

    @property
    def width(self) -> int:
        """How many columns the matrix has."""
        return len(self.each) + len(self.indicators)

    @property
    def indicators(self) -> list[int]:
        """The user's columns whose gaps have a column of their own in the matrix, after all others."""
        return [j for j, c in enumerate(self.each) if c.indicator]

    @property
    def keys(self) -> list[str]:
        """A name for every column of the matrix: the user's own, and ``"age missing"``."""
        return [c.name for c in self.each] + [f"{self.each[j].name} missing" for j in self.indicators]

    @property
    def names(self) -> list[str]:
        """The same with units, for people."""
        return [c.shown for c in self.each] + [f"{self.each[j].label} missing" for j in self.indicators]

    def places(self, *kinds: str) -> list[int]:
        """The columns of the matrix that hold such kinds; indicators are true or false."""
        found = [j for j, c in enumerate(self.each) if c.kind in kinds]
        return found + (list(range(len(self.each), self.width)) if BOOLEAN in kinds else [])

    # a table as a matrix -------------------------------------------------------------------------------------------
    def matrix(self, who: str, table: Any) -> Mapped:
        """The numbers of a table: columns are found by name, whatever their order; others are ignored."""
        if self.named and not hasattr(table, "columns"):
            what = "X has no column names, but the model was fitted to a table with text, dates or gaps"
            raise fail(who, what, f"give a table with the columns {_few([c.name for c in self.each])}")
        by_name = {str(k): k for k in table.columns} if self.named else {c.name: j for j, c in enumerate(self.each)}
        lacking = [c.name for c in self.each if c.name not in by_name]
        if lacking:
            raise fail(who, f"X has no column {_few(lacking)}", "give every column the model was fitted to")
        rows = len(table)
        out = Mapped(np.empty((rows, self.width)))
        for j, column in enumerate(self.each):
            raw = table[by_name[column.name]] if self.named else np.asarray(table)[:, j]
            self._put(who, column, raw, out, j)
        for place, j in enumerate(self.indicators, len(self.each)):
            out.x[:, place] = out.filled.get(self.each[j].name, np.zeros(rows))
        return out

    def _put(self, who: str, column: Column, raw: Any, out: Mapped, j: int) -> None:
        cells = read_cells(who, f"column {column.name!r} of X", raw, column.kind)
        if column.kind == DATE and cells.aware != column.aware and not cells.missing.all():
            now, then = ("a", "none") if cells.aware else ("no", "one")
            raise fail(who, f"column {column.name!r} of X has {now} time zone but had {then} in fit", "give the same")
        gone = cells.missing
        out.x[:, j] = self._codes(column, cells, out) if column.kind == CATEGORY else column.numbers(cells)
        if not gone.any():
            return
        if column.fill is None:
            out.x[gone, j] = np.nan
            out.gaps[column.name] = gone
        else:
            out.x[gone, j] = column.fill
            out.filled[column.name] = gone

    @staticmethod
    def _codes(column: Column, cells: Cells, out: Mapped) -> np.ndarray:
        """Codes of categories; those the training table did not have get new ones, in the order they come."""
        book = {level: float(i) for i, level in enumerate(column.levels)}
        unknown = {level for level, count in zip(column.levels, column.counts, strict=True) if not count}
        codes = np.array([np.nan if v is None else book.setdefault(v, float(len(book))) for v in cells.values], dtype=float)
        for level in [v for v in book if v in unknown or book[v] >= len(column.levels)]:
            rows = codes == book[level]
            if rows.any():
                out.unseen.setdefault(column.name, {})[level] = rows
        return codes

    def extended(self, mapped: Mapped) -> Columns:
        """The same after rows were added: their new categories are known from now on."""
        each = []
        for j, column in enumerate(self.each):
            new = [v for v in mapped.unseen.get(column.name, {}) if v not in column.levels]
            levels = (*column.levels, *new)
            if column.kind == CATEGORY:
                codes = mapped.x[~np.isnan(mapped.x[:, j]), j].astype(int)
                more = np.bincount(codes, minlength=len(levels))
                counts = tuple(int(n + m) for n, m in zip((*column.counts, *([0] * len(new))), more, strict=True))
                column = dataclasses.replace(column, levels=levels, counts=counts)
            gaps = mapped.filled.get(column.name)
            each.append(column if gaps is None else dataclasses.replace(column, missing=column.missing + int(gaps.sum())))
        return dataclasses.replace(self, each=tuple(each), dropped=self.dropped + int(mapped.gone.sum()))

    def counted(self, gaps: dict[str, int], dropped: int) -> Columns:
        """The same with the gaps of a whole table, of which these columns were learned from a sample."""
        each = tuple(dataclasses.replace(column, missing=gaps.get(column.name, 0)) for column in self.each)
        return dataclasses.replace(self, each=each, dropped=dropped)

    # words ---------------------------------------------------------------------------------------------------------
    def facts(self) -> list[tuple[str, str]]:
        """What the summary says of the columns: those that are no plain numbers, missing entries, seasons."""
        out = [("column", f"{c.label}: {c.words}") for c in self.each if c.words and c.kind != BOOLEAN]
        for c in self.each:
            if c.missing and c.fill is not None:
                beside = ", and marked in a column of their own" if c.indicator else ""
                count = counted(c.missing, "entry", "entries")
                out.append(("missing", f"{c.label}: {count} given {c.filled_with()}{beside}"))
        if self.dropped:
            out.append(("missing", f"{counted(self.dropped, 'row')} left out for missing inputs"))
        return out

    def unmarked(self, mapped: Mapped) -> list[str]:
        """A sentence about gaps that no column marks, since fit had none there."""
        if self.missing != "indicator":
            return []
        found = [c for c in self.each if c.name in mapped.filled and not c.indicator]
        return [f"column {c.name!r} has gaps but had none in fit: given {c.filled_with()}, and not marked" for c in found]

    def season_words(self) -> list[str]:
        """How to ask for the seasons the dates are fine and long enough for."""
        out = []
        for j, c in enumerate(self.each):
            if c.seasons:
                names = repr(c.seasons[0]) if len(c.seasons) == 1 else repr(list(c.seasons))
                texts = " ".join(f"+ {season_text(c, j, s)}" for s in c.seasons)
                what = f"a {c.seasons[0]} season" if len(c.seasons) == 1 else f"{', '.join(c.seasons)} seasons"
                out.append(f"{what} of {c.label}: seasonality={names}, or {texts} in a kernel of your own")
        return out

    # files ---------------------------------------------------------------------------------------------------------
    def to_record(self) -> dict[str, Any]:
        """For JSON; entries that say nothing are left out."""
        blank = Column("")
        each = []
        for c in self.each:
            pairs = ((f.name, getattr(c, f.name)) for f in dataclasses.fields(c))
            each.append({k: list(v) if isinstance(v, tuple) else v for k, v in pairs if k == "name" or v != getattr(blank, k)})
        return {"each": each, "missing": self.missing, "dropped": self.dropped, "named": self.named}

    @staticmethod
    def from_record(record: dict[str, Any]) -> Columns:
        """What :meth:`to_record` wrote, checked."""
        each = []
        for entry in record["each"]:
            given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}
            c = Column(**given)
            texts = (c.name, c.kind, c.unit, c.origin, *c.levels, *c.seasons)
            sound = all(isinstance(v, str) for v in texts)
            sound = sound and c.kind in KINDS and len(c.levels) == len(c.counts) == len(set(c.levels))
            sound = sound and all(isinstance(v, int) and v >= 0 for v in (*c.counts, c.missing))
            sound = sound and set(c.seasons) <= set(PERIODS) and (c.fill is None or bool(np.isfinite(float(c.fill))))
            if c.kind in (DATE, DURATION):
                sound = sound and c.unit in UNITS and (c.kind == DURATION or not np.isnat(np.datetime64(c.origin)))
            if not sound:
                raise ValueError(f"the column {c.name!r}")
            each.append(c)
        if record["missing"] not in MISSING or len({c.name for c in each}) < len(each):
            raise ValueError("the columns")
        return Columns(tuple(each), str(record["missing"]), int(record["dropped"]), bool(record["named"]))


def unseen_words(mapped: Mapped) -> list[str]:
    """A sentence about every column with categories that were never seen."""
    out = []
    for name, levels in mapped.unseen.items():
        rows = int(sum(r.sum() for r in levels.values()))
        few = ", ".join(quoted(v) for v in list(levels)[:5]) + (f" and {len(levels) - 5} more" if len(levels) > 5 else "")
        out.append(f"column {name!r} holds {few} in {counted(rows, 'row')}, never seen in fit: wider error bars there")
    return out


def _few(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:8])) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
