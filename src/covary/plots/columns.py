"""The input columns of a model: their names, which of them hold codes of categories, and rows that keep to those codes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from covary._checks import fail
from covary.kernels.base import AbstractKernel, Power, Product, Scaled, Sum
from covary.kernels.categorical import Categories, Exchangeable, Hamming
from covary.kernels.combine import Columns


def names_of(model: Any, columns: int, given: Sequence[Any] | None = None) -> list[str]:
    """The names of the input columns: those given, those seen in ``fit`` (with units), or x0, x1, ..."""
    if given is not None and len(given) != columns:
        raise fail("plots", f"got {len(given)} names for {columns} input columns", "give one for each")
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
