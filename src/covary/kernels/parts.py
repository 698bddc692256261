"""The kernels an expression is made of, each with the path of its numbers and the columns it sees."""

from __future__ import annotations

from typing import Any

import numpy as np

from covary.kernels.base import AbstractKernel, Power, Product, Scaled, Sum
from covary.kernels.combine import Columns
from covary.kernels.metric import FactorMetric
from covary.kernels.spectral import Periodised
from covary.kernels.sphere import OnSphere
from covary.kernels.warped import Mapped, Warped
from covary.parameters import children

COMBINATIONS = (Sum, Product, Scaled, Power, Columns)
ELSEWHERE = (Mapped, Warped, OnSphere, FactorMetric, Periodised)  # inside which scales are others


def owners(kernel: Any, columns: Any, path: str = "kernel") -> list[tuple[str, AbstractKernel, np.ndarray]]:
    """Every kernel inside that is no combination, with the path its numbers are under and the columns it sees.

    What is inside a kernel that changes the inputs (a map, a sphere) is left out: the columns' scales mean nothing there.

    Parameters
    ----------
    kernel
        A kernel, or a tuple of them.
    columns
        The columns it sees: their number, or the columns themselves.
    path
        The path it is under.

    Examples
    --------
    >>> from covary.kernels import Hamming, Matern52
    >>> for path, part, seen in owners(2.0 * (Matern52().on(0, 2) * Hamming().on(1)), 3):
    ...     print(path, type(part).__name__, seen)
    kernel.0 Matern52 [0 2]
    kernel.1 Hamming [1]
    """
    seen = np.arange(columns) if np.ndim(columns) == 0 else np.asarray(columns)
    if isinstance(kernel, tuple):
        return [item for i, k in enumerate(kernel) for item in owners(k, seen, f"{path}.{i}")]
    found: list[tuple[str, AbstractKernel, np.ndarray]] = []
    if not isinstance(kernel, COMBINATIONS):
        found.append((path, kernel, seen))
    if isinstance(kernel, ELSEWHERE):
        return found
    inner = seen[list(kernel.columns)] if isinstance(kernel, Columns) else seen
    for _, below, value in children(kernel, path):
        if isinstance(value, AbstractKernel) or (isinstance(value, tuple) and value and isinstance(value[0], AbstractKernel)):
            found += owners(value, inner, below)
    return found
