"""The input columns of a plot: typical rows, and axes for numbers, dates and categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from covary.kernels.base import AbstractKernel, inner_kernels
from covary.tables.column import Column

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONG = 5  # characters of a tick label beyond which fewer ticks are drawn
CROWDED = 24  # characters of all category labels together beyond which they are rotated


def columns_of(kernel: AbstractKernel | None, columns: int) -> tuple[int, ...]:
    """Return the columns a kernel uses according to its structure; all of them if the structure does not determine them.

    Examples
    --------
    >>> from covary.kernels import Matern52
    >>> columns_of(2.0 * (Matern52().on(0) * Matern52().on(2)), 4)
    (0, 2)
    """
    inner = () if kernel is None else inner_kernels(kernel, columns, closed=AbstractKernel)
    return tuple(sorted({int(c) for _, _, seen in inner for c in seen})) or tuple(range(columns))


def typical(x: np.ndarray, coded: set[int]) -> np.ndarray:
    """Return the median of each column, or the most frequent code of a categorical column."""
    middle = np.median(x, axis=0)
    for j in coded:
        kinds, counts = np.unique(x[:, j], return_counts=True)
        middle[j] = kinds[counts.argmax()]
    return middle


def snapped(X: np.ndarray, x: np.ndarray, coded: set[int]) -> np.ndarray:
    """Return new rows with each code replaced by the nearest one in the data."""
    X = np.array(X, np.float64)
    for j in coded:
        kinds = np.unique(x[:, j])
        X[:, j] = kinds[np.abs(X[:, j, None] - kinds).argmin(1)]
    return X


class Scales:
    """The columns of a fitted model as the user wrote them: dates as dates and categories by name.

    Examples
    --------
    >>> import pandas as pd
    >>> from covary import GPRegressor
    >>> days = pd.date_range("2024-01-01", periods=40)
    >>> table = pd.DataFrame({"day": days, "site": ["a", "b"] * 20})
    >>> model = GPRegressor("1.0 * Matern52().on(0) + Hamming().on(1)").fit(table, range(40))
    >>> scales = Scales(model.fit_.columns.each)
    >>> scales.text(0, 10.0), scales.text(1, 1.0), scales.text(7, 2.5)
    ('2024-01-11', 'b', '')
    """

    def __init__(self, each: Sequence[Column] = ()) -> None:
        self.each = tuple(each)

    def levels(self, j: int) -> tuple[str, ...]:
        """Return the categories of a column in the order of their codes; empty for numbers."""
        return tuple(self.each[j].levels) if j < len(self.each) else ()

    def dated(self, j: int) -> bool:
        """Return whether a column contains dates."""
        return j < len(self.each) and self.each[j].kind == "date"

    def dates(self, j: int, values: ArrayLike) -> np.ndarray:
        """Convert numbers of a column to dates."""
        column = self.each[j]
        seconds = np.asarray(values, np.float64) * (86400 / column.period("daily"))
        return np.datetime64(column.origin) + np.round(1e6 * seconds).astype("timedelta64[us]")

    def text(self, j: int, value: float) -> str:
        """Return a date or a category as written in the user's table; an empty text for a number."""
        levels = self.levels(j)
        if levels and 0 <= round(value) < len(levels):
            return levels[round(value)]
        if not self.dated(j):
            return ""
        fine = self.each[j].unit not in ("years", "days")
        return str(self.dates(j, value).astype("datetime64[m]" if fine else "datetime64[D]")).replace("T", " ")

    def tick(self, ax: Axes, j: int) -> None:
        """Set the ticks of the horizontal axis along a column: dates or categories, and fewer ticks for long numbers."""
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

    def _calendar(self, ax: Axes, j: int) -> None:
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
