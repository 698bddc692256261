"""Encoding of real-world tables as numeric matrices: :class:`Columns`, fitted to the training table, stored in model files.

Each input column becomes one column of the matrix, in the same order: numbers unchanged, booleans as 1 and 0, dates as time
since the first one, categories as codes 0, 1, 2, ... Columns that indicate missing entries follow at the end, so that the
index in ``kernel.on(j)`` refers to the input columns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from covary._checks import fail, quoted
from covary._errors import Option, Remedy
from covary._words import counted, some
from covary.tables.cells import BOOLEAN, CATEGORY, DATE, DURATION, KINDS, NUMBER, SMALLEST, Cells, label, read_cells
from covary.tables.column import PERIODS, UNITS, Column, fit_column, season_text
from covary.tables.given import Frame, check_entries

MISSING = ("refuse", "drop", "indicator", "impute")


@dataclass
class Mapped:
    """A table encoded as a matrix, with its missing entries by column and the categories not seen during fit."""

    x: np.ndarray
    filled: dict[str, np.ndarray] = field(default_factory=dict)  # mask of the imputed rows
    unseen: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)  # column, category, rows
    gaps: dict[str, np.ndarray] = field(default_factory=dict)  # mask of the rows with a missing value that is not imputed

    @property
    def gone(self) -> np.ndarray:
        """Mask of the rows that cannot be used, since an input is missing."""
        return np.any([np.zeros(len(self.x), bool), *self.gaps.values()], axis=0)

    def flags(self) -> np.ndarray:
        """Return a remark about missing values and unseen categories for every row; empty if there is none."""
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
    """Encoding of a table as the matrix passed to kernels; ``estimator.columns_`` after a fit to a frame.

    Parameters
    ----------
    each
        Input columns, in the order of ``fit``.
    missing
        Handling of missing entries: ``"refuse"``, ``"drop"``, ``"indicator"`` or ``"impute"``.
    dropped
        Number of training rows left out because of missing inputs.
    named
        Whether the table had column names.
    texts
        Whether all column names were strings, as scikit-learn requires.

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
    texts: bool = True

    @staticmethod
    def fit(who: str, table: Any, missing: str = "refuse") -> Columns:
        """Fit the encoding to a training table, which is a frame or an array of numbers."""
        if missing not in MISSING:
            raise fail(who, Option("missing") + f" is {missing!r}", f"choose one of {', '.join(map(repr, MISSING))}")
        named = hasattr(table, "columns")
        keys = list(table.columns) if named else range(table.shape[1])
        if len(set(map(str, keys))) < len(keys):
            twice = next(n for n in keys if [str(m) for m in keys].count(str(n)) > 1)
            raise fail(who, "two columns of " + Option("X") + f" are called {twice!r}", "rename one of them")
        cells = {str(k): read_cells(who, f"column {k!r} of X", table[k] if named else np.asarray(table)[:, k]) for k in keys}
        each = tuple(fit_column(who, name, c, missing) for name, c in cells.items())
        gone = np.any([c.missing for c in cells.values()], axis=0).sum() if missing == "drop" else 0
        return Columns(each, missing, int(gone), named, all(isinstance(key, str) for key in keys))

    @staticmethod
    def of_numbers(count: int, names: Sequence[str] | None = None) -> Columns:
        """Return the encoding of ``count`` columns of plain numbers, called x0, x1, ... unless names are given."""
        each = tuple(Column(str(name)) for name in ([f"x{j}" for j in range(count)] if names is None else names))
        return Columns(each, named=names is not None)

    # layout of the matrix ------------------------------------------------------------------------------------------
    @property
    def plain(self) -> bool:
        """Whether all columns are numbers or booleans and missing values raise an error, so that no encoding is needed."""
        return self.missing == "refuse" and all(c.kind in (NUMBER, BOOLEAN) for c in self.each)

    @property
    def array(self) -> bool:
        """Whether the training table was an array of numbers without missing values."""
        return self.plain and not self.named

    @property
    def width(self) -> int:
        """Number of columns of the matrix."""
        return len(self.each) + len(self.indicators)

    @property
    def indicators(self) -> list[int]:
        """Indices of the input columns that have a missing-value indicator at the end of the matrix."""
        return [j for j, c in enumerate(self.each) if c.indicator]

    @property
    def keys(self) -> list[str]:
        """Names of the columns of the matrix: those of the inputs, and ``"age missing"`` for an indicator."""
        return [c.name for c in self.each] + [f"{self.each[j].name} missing" for j in self.indicators]

    @property
    def names(self) -> list[str]:
        """Names of the columns of the matrix with units, for display."""
        return [c.shown for c in self.each] + [f"{self.each[j].label} missing" for j in self.indicators]

    def places(self, *kinds: str) -> list[int]:
        """Return the indices of the columns of the matrix with one of these kinds; indicators are boolean."""
        found = [j for j, c in enumerate(self.each) if c.kind in kinds]
        return found + (list(range(len(self.each), self.width)) if BOOLEAN in kinds else [])

    # a table as a matrix -------------------------------------------------------------------------------------------
    def matrix(self, who: str, table: Any) -> Mapped:
        """Encode a table; columns are matched by name in any order, and additional columns are ignored."""
        if self.named and not hasattr(table, "columns"):
            what = Option("X") + " has no column names, but the model was fitted to a table with text, dates or missing values"
            raise fail(who, what, f"give a table with the columns {some([repr(c.name) for c in self.each], 8)}")
        by_name = {str(k): k for k in table.columns} if self.named else {c.name: j for j, c in enumerate(self.each)}
        lacking = [repr(c.name) for c in self.each if c.name not in by_name]
        if lacking:
            raise fail(who, Option("X") + f" has no column {some(lacking, 8)}", "give every column the model was fitted to")
        rows = len(table)
        out = Mapped(np.empty((rows, self.width)))
        for j, column in enumerate(self.each):
            raw = table[by_name[column.name]] if self.named else np.asarray(table)[:, j]
            self._put(who, column, raw, out, j)
        for place, j in enumerate(self.indicators, len(self.each)):
            out.x[:, place] = out.filled.get(self.each[j].name, np.zeros(rows))
        return out

    def _put(self, who: str, column: Column, raw: Any, out: Mapped, j: int) -> None:
        cells = read_cells(who, label(column.name), raw, column.kind)
        if column.kind == DATE and cells.aware != column.aware and not cells.missing.all():
            now, then = ("a", "none") if cells.aware else ("no", "one")
            what = f"column {column.name!r} of " + Option("X") + f" has {now} time zone but had {then} in fit"
            raise fail(who, what, "give dates of the same kind")
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
        """Return the codes of categories; unseen categories get new codes in order of appearance."""
        book = {level: float(i) for i, level in enumerate(column.levels)}
        unknown = {level for level, count in zip(column.levels, column.counts, strict=True) if not count}
        codes = np.array([np.nan if v is None else book.setdefault(v, float(len(book))) for v in cells.values], dtype=float)
        for level in [v for v in book if v in unknown or book[v] >= len(column.levels)]:
            rows = codes == book[level]
            if rows.any():
                out.unseen.setdefault(column.name, {})[level] = rows
        return codes

    def extended(self, mapped: Mapped) -> Columns:
        """Return the columns after rows were added, including their new categories."""
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
        """Return the columns, fitted to a sample of rows, with the missing-value counts of the whole table."""
        each = tuple(dataclasses.replace(column, missing=gaps.get(column.name, 0)) for column in self.each)
        return dataclasses.replace(self, each=each, dropped=dropped)

    # words ---------------------------------------------------------------------------------------------------------
    def facts(self) -> list[tuple[str, str]]:
        """Return summary entries for columns that are not plain numbers, missing entries and dropped rows."""
        out = [("column", f"{c.label}: {c.words}") for c in self.each if c.words and c.kind != BOOLEAN]
        for c in self.each:
            if c.missing and c.fill is not None:
                marked = ", and marked in an indicator column" if c.indicator else ""
                count = counted(c.missing, "entry", "entries")
                out.append(("missing", f"{c.label}: {count} replaced by {c.filled_with()}{marked}"))
        if self.dropped:
            out.append(("missing", f"{counted(self.dropped, 'row')} left out for missing inputs"))
        return out

    def unmarked(self, mapped: Mapped) -> list[str]:
        """Return a note for every column with missing values but no indicator, since it had none during fit."""
        if self.missing != "indicator":
            return []
        found = [c for c in self.each if c.name in mapped.filled and not c.indicator]
        text = "column {!r} has missing values but had none in fit: they are replaced by {}, without an indicator"
        return [text.format(c.name, c.filled_with()) for c in found]

    def season_words(self) -> list[str]:
        """Return suggestions for the seasons that the dates are dense and long enough to resolve."""
        out: list[str] = []
        for j, c in enumerate(self.each):
            if c.seasons:
                names = repr(c.seasons[0]) if len(c.seasons) == 1 else repr(list(c.seasons))
                texts = " ".join(f"+ {season_text(c, j, s)}" for s in c.seasons)
                what = f"a {c.seasons[0]} season" if len(c.seasons) == 1 else f"{', '.join(c.seasons)} seasons"
                own = Remedy("in the kernel", "in a kernel of your own")
                out.append(f"{what} of {c.label}: " + Option("seasonality", names) + f", or {texts} " + own)
        return out

    # files ---------------------------------------------------------------------------------------------------------
    def to_record(self) -> dict[str, Any]:
        """Return a record for JSON, without entries that have their default value."""
        blank = Column("")
        each = []
        for c in self.each:
            pairs = ((f.name, getattr(c, f.name)) for f in dataclasses.fields(c))
            each.append({k: list(v) if isinstance(v, tuple) else v for k, v in pairs if k == "name" or v != getattr(blank, k)})
        return {"each": each, "missing": self.missing, "dropped": self.dropped, "named": self.named}

    @staticmethod
    def from_record(record: dict[str, Any]) -> Columns:
        """Read and check the output of :meth:`to_record`."""
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
    """Return a note for every column with categories that were not seen during fit."""
    out = []
    for name, levels in mapped.unseen.items():
        rows = int(sum(r.sum() for r in levels.values()))
        few = some([quoted(v) for v in levels], 5)
        out.append(f"column {name!r} contains {few} in {counted(rows, 'row')}, never seen in fit: wider error bars there")
    return out


# the rows of a fit ------------------------------------------------------------------------------------------------
def read_frame(who: str, frame: Frame, missing: str) -> tuple[np.ndarray, Columns]:
    """Fit the encoding to a training frame, and return the matrix with it; rows that are dropped are NaN."""
    columns = Columns.fit(who, frame, missing)
    found = columns.matrix(who, frame)
    check_rows(who, columns, found, gaps=True)
    check_variation(who, found.x, columns.keys)
    return found.x, columns


def check_rows(who: str, columns: Columns, found: Mapped, *, gaps: bool) -> None:
    """Raise an error for unusable entries of X; with ``gaps``, rows with missing inputs are allowed if they are dropped."""
    gone = found.gone
    if not (gaps and columns.missing == "drop"):
        check_entries(who, "X", found.x, columns.keys if columns.named else None, drops=columns.missing == "drop")
    elif gone.all():
        what = "every row of " + Option("X") + " has a missing input"
        raise fail(who, what, "fill some of them, or leave out the columns with the most missing values")
    else:
        check_entries(who, "X", np.where(gone[:, None], 0.0, found.x), columns.keys)


def check_variation(who: str, x: np.ndarray, names: Sequence[str] | np.ndarray | None) -> None:
    """Raise an error for a column of X that varies too little for its differences to be squared."""
    known = x[~np.isnan(x).any(1)]
    spread = np.ptp(known, axis=0) if len(known) else np.zeros(x.shape[1])
    tiny = (spread > 0) & (spread < SMALLEST)
    if tiny.any():
        j = int(np.argmax(tiny))
        column = repr(str(names[j])) if names is not None else j
        raise fail(who, f"column {column} of " + Option("X") + f" varies by only {spread[j]:.1e}", "rescale it")
