"""The input columns of a model: their names, which of them hold codes of categories, and rows that keep to those codes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from covary._checks import fail
from covary._words import counted
from covary.kernels.base import AbstractKernel, Power, Product, Scaled, Sum
from covary.kernels.categorical import Categories, Exchangeable, Hamming
from covary.kernels.combine import Columns

LONG = 5  # letters of a tick's label beyond which there are fewer ticks
CROWDED = 24  # letters of all categories together beyond which they are tilted


def names_of(model: Any, columns: int, given: Sequence[Any] | None = None) -> list[str]:
    """The names of the input columns: those given, those seen in ``fit`` (with units), or x0, x1, ..."""
    if given is not None and len(given) != columns:
        raise fail("plots", f"got {counted(len(given), 'name')} for {counted(columns, 'input column')}", "give one for each")
    read = getattr(model, "columns_", None)
    for names in (given, None if read is None else read.names, getattr(model, "feature_names_in_", None)):
        if names is not None and len(names) == columns:
            return [str(name) for name in names]
    return [f"x{i}" for i in range(columns)]


def column_number(who: str, model: Any, column: Any, labels: list[str]) -> int:
    """The number of a column, from its number, the name it is shown by, or the name it had in ``fit``."""
    if isinstance(column, str):
        own = [str(name) for name in getattr(model, "feature_names_in_", [])]
        for names in (labels, own):
            if column in names:
                return names.index(column)
        raise fail(who, f"no column is called {column!r}", f"choose from {', '.join(labels)}")
    if isinstance(column, bool) or not isinstance(column, int | np.integer) or not 0 <= column < len(labels):
        raise fail(who, f"the column asked for is {column!r}", f"give a number from 0 to {len(labels) - 1}, or a name")
    return int(column)


def level_names(model: Any, column: int) -> tuple[str, ...]:
    """The categories of a column in the order of their codes, where the table of ``fit`` had them."""
    each = getattr(getattr(model, "columns_", None), "each", ())
    return tuple(each[column].levels) if column < len(each) else ()


def columns_of(kernel: Any, columns: int) -> tuple[int, ...]:
    """The columns a kernel looks at, as far as its structure says; all of them if it does not.

    Examples
    --------
    >>> from covary.kernels import Matern52
    >>> columns_of(2.0 * (Matern52().on(0) * Matern52().on(2)), 4)
    (0, 2)
    """
    if isinstance(kernel, Columns):
        return tuple(sorted(int(c) for c in kernel.columns))
    if isinstance(kernel, Scaled | Power):
        return columns_of(kernel.kernel, columns)
    parts = kernel.factors if isinstance(kernel, Product) else kernel.terms if isinstance(kernel, Sum) else None
    if parts is None:
        return tuple(range(columns))
    return tuple(sorted({c for part in parts for c in columns_of(part, columns)}))


def coded_columns(kernel: Any, columns: Sequence[int]) -> set[int]:
    """Those of the columns that a kernel takes for codes of categories: values between two codes mean nothing there.

    Examples
    --------
    >>> from covary.kernels import Hamming, Matern52
    >>> coded_columns(Matern52().on(0, 1) * (2.0 * Hamming().on(2)), range(3))
    {2}
    """
    if isinstance(kernel, tuple):
        return {c for part in kernel for c in coded_columns(part, columns)}
    if isinstance(kernel, Hamming | Exchangeable | Categories):
        return set(columns)
    if isinstance(kernel, Columns):
        return coded_columns(kernel.kernel, [columns[int(c)] for c in kernel.columns])
    if not isinstance(kernel, AbstractKernel):
        return set()
    return {c for f in dataclasses.fields(kernel) for c in coded_columns(getattr(kernel, f.name), columns)}


def typical(x: np.ndarray, coded: set[int]) -> np.ndarray:
    """The medians of the columns; of codes the commonest."""
    middle = np.median(x, axis=0)
    for j in coded:
        kinds, counts = np.unique(x[:, j], return_counts=True)
        middle[j] = kinds[counts.argmax()]
    return middle


def snapped(X: np.ndarray, x: np.ndarray, coded: set[int]) -> np.ndarray:
    """New rows with codes moved to the nearest one the data have."""
    X = np.array(X, np.float64)
    for j in coded:
        kinds = np.unique(x[:, j])
        X[:, j] = kinds[np.abs(X[:, j, None] - kinds).argmin(1)]
    return X


class Scales:
    """The columns of a fitted estimator as people know them: dates as dates and categories by name.

    Examples
    --------
    >>> import pandas as pd
    >>> from covary import GPRegressor
    >>> days = pd.date_range("2024-01-01", periods=40)
    >>> table = pd.DataFrame({"day": days, "site": ["a", "b"] * 20})
    >>> scales = Scales(GPRegressor("1.0 * Matern52().on(0) + Hamming().on(1)").fit(table, range(40)))
    >>> scales.text(0, 10.0), scales.text(1, 1.0), scales.text(7, 2.5)
    ('2024-01-11', 'b', '')
    """

    def __init__(self, estimator: Any = None) -> None:
        self.each = tuple(getattr(getattr(estimator, "columns_", None), "each", ()))

    def levels(self, j: int) -> tuple[str, ...]:
        """The categories of a column in the order of their codes; none of numbers."""
        return tuple(self.each[j].levels) if j < len(self.each) else ()

    def dated(self, j: int) -> bool:
        """Whether a column holds dates."""
        return j < len(self.each) and self.each[j].kind == "date"

    def dates(self, j: int, values: Any) -> np.ndarray:
        """The dates behind the numbers of a column."""
        column = self.each[j]
        seconds = np.asarray(values, np.float64) * (86400 / column.period("daily"))
        return np.datetime64(column.origin) + np.round(1e6 * seconds).astype("timedelta64[us]")

    def text(self, j: int, value: float) -> str:
        """A date or a category as the user's table has it; nothing of a number."""
        levels = self.levels(j)
        if levels and 0 <= round(value) < len(levels):
            return levels[round(value)]
        if not self.dated(j):
            return ""
        fine = self.each[j].unit not in ("years", "days")
        return str(self.dates(j, value).astype("datetime64[m]" if fine else "datetime64[D]")).replace("T", " ")

    def tick(self, ax: Any, j: int) -> None:
        """The horizontal axis of a picture along a column: ticks at dates or categories, and not too many of long numbers."""
        from matplotlib.ticker import MaxNLocator

        levels = self.levels(j)
        if levels:
            up = len(levels) > 6 or sum(map(len, levels)) > CROWDED
            ends = ax.get_xlim()
            ax.set_xticks(range(len(levels)), [name if len(name) <= 16 else f"{name[:15]}…" for name in levels])
            ax.tick_params(axis="x", rotation=90 if len(levels) > 6 else 25 if up else 0)
            ax.set_xlim(min(ends[0], -0.4), max(ends[1], len(levels) - 0.6))
        elif self.dated(j):
            self._calendar(ax, j)
        elif max(len(f"{tick:g}") for tick in ax.get_xticks()) > LONG:
            ax.xaxis.set_major_locator(MaxNLocator(4))

    def _calendar(self, ax: Any, j: int) -> None:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num, num2date

        low, high = ax.get_xlim()
        ends = np.asarray(date2num(self.dates(j, [low, high])), np.float64)
        locator = AutoDateLocator(minticks=3, maxticks=7)
        found = np.asarray(locator.tick_values(*(num2date(end) for end in ends)), np.float64)
        found = found[(found >= ends[0]) & (found <= ends[1])]
        form = ConciseDateFormatter(locator)
        labels = form.format_ticks(found.tolist())
        ax.set_xticks(low + (found - ends[0]) / (ends[1] - ends[0]) * (high - low), labels)
        ax.set_xlim(low, high)
        offset = form.get_offset()
        ax.set_xlabel(f"{self.each[j].label}{f', {offset}' if offset else ''}")
