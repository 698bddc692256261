"""Time to compute the matrix of a kernel, relative to the squared exponential."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.measure import interleaved
from benchmarks.problem import table
from benchmarks.report import Bar, Report, Table

LIMIT = 3.0
JUDGED = ("Matern12", "Matern32", "Matern52", "RationalQuadratic", "Periodic")
NAMES = ("SquaredExponential", *JUDGED, "NeuralNetwork")


def measure(n: int, columns: int, repeats: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the best time of each matrix: the public call, and the lower triangle in a buffer, as inside a fit."""
    from covary import kernels
    from covary.data import as_inputs
    from covary.kernels.tiles import gram_lower

    X = table(n)[0][:, :columns]
    inputs, out = as_inputs(X), np.empty((n, n), order="F")
    built: dict[str, Any] = {name: getattr(kernels, name)(lengthscale=np.ones(columns)) for name in NAMES}
    whole = interleaved({name: lambda k=k: k.gram(X) for name, k in built.items()}, repeats)
    lower = interleaved({name: lambda k=k: gram_lower(k, inputs, out=out) for name, k in built.items()}, repeats)
    return whole, lower


def run(smoke: bool = False) -> Report:
    """Measure at one column and at eight; the criterion is evaluated for the stricter of the two calls."""
    n = 200 if smoke else 4000
    tables, bars = [], []
    for columns in (1, 8):
        whole, lower = measure(n, columns, 2 if smoke else 7)
        base = NAMES[0]
        rows = []
        for name in NAMES:
            ratios = (f"{whole[name] / whole[base]:.2f}", f"{lower[name] / lower[base]:.2f}")
            rows.append([name, f"{1e3 * whole[name]:.0f}", ratios[0], f"{1e3 * lower[name]:.0f}", ratios[1]])
        heads = ("kernel", "gram, ms", "/ SE", "lower triangle, ms", "/ SE")
        tables.append(Table(f"n = {n}, {columns} column{'s' if columns > 1 else ''}", heads, rows))
        if not smoke:
            worst = max(JUDGED, key=lambda name: lower[name] / lower[base])
            bars.append(
                Bar(f"slowest kernel / SquaredExponential ({worst}), n = {n}, d = {columns}", lower[worst] / lower[base], LIMIT)
            )
    text = (
        "*gram* is the public `kernel.gram(X)`, which returns the whole symmetric matrix in new memory. *lower triangle*\n"
        "computes the same tiles in a buffer that is reused, as inside a fit. The criterion refers to the lower triangle,\n"
        "where no other cost affects the ratio."
    )
    return Report("Kernel matrices", text, tables, bars)
