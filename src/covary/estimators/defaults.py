"""The kernel a table gets when none is given, and the priors of its parts.

Numbers share one Matérn kernel with a length-scale each; categories multiply it by a Hamming kernel with one each, so that
every category has a function of its own, as like the others as the data say; seasons are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from covary._checks import fail, shown
from covary.distributions import LogNormal
from covary.estimators.cells import BOOLEAN, CATEGORY, DATE, DURATION, NUMBER
from covary.estimators.column import PERIODS
from covary.estimators.frames import Columns
from covary.kernels.base import AbstractKernel, Product, Scaled, Sum
from covary.kernels.categorical import Hamming
from covary.kernels.combine import Columns as On
from covary.kernels.parts import owners
from covary.kernels.periodic import Periodic
from covary.kernels.stationary import Matern32, Matern52, SquaredExponential
from covary.likelihoods.gaussian import Gaussian
from covary.parameters import fixed, parameters, rebuild

ALIKE = 2.0  # the median of a category's length-scale: two that differ in one column have correlation exp(−1/2)
CATEGORY_SPREAD = 1.5  # log standard deviation of its prior


def seasons_of(who: str, given: Any, columns: Columns | None) -> list[str]:
    """The seasons asked for, checked against the table."""
    many = given is None or isinstance(given, list | tuple | set)
    names: list[Any] = list(given or ()) if many else [given]
    if not all(isinstance(s, str) and s in PERIODS for s in names):
        raise fail(who, f"seasonality is {shown(given)}", f"choose from {', '.join(map(repr, PERIODS))}")
    if names and (columns is None or not columns.places(DATE)):
        raise fail(who, f"seasonality is {given!r} but no column of X holds dates", "give dates, or write a Periodic kernel")
    return list(dict.fromkeys(names))


def default_kernel(columns: Columns | None, width: int, seasons: Sequence[str] = ()) -> AbstractKernel:
    """The kernel of a table of so many columns, scaled.

    Examples
    --------
    >>> default_kernel(None, 2)
    1.0 * Matern52(lengthscale=[1.0, 1.0])
    """
    categories = [] if columns is None else columns.places(CATEGORY)
    if columns is None or not (categories or seasons):
        return 1.0 * Matern52(lengthscale=np.ones(width))
    numbers = columns.places(NUMBER, BOOLEAN, DATE, DURATION)
    kernel: Any = None
    if numbers:
        smooth = Matern52(lengthscale=np.ones(len(numbers)))
        kernel = smooth.on(*numbers) if categories else smooth
    if categories:
        alike = Hamming(lengthscale=np.full(len(categories), ALIKE)).on(*categories)
        kernel = alike if kernel is None else kernel * alike
    kernel = 1.0 * kernel
    when = columns.places(DATE)[:1]
    for season in seasons:
        period = columns.each[when[0]].period(season)
        kernel = kernel + 1.0 * (SquaredExponential() * Periodic(period=fixed(period))).on(*when)  # type: ignore[arg-type]
    return kernel


def lasting(model: Any, X: np.ndarray, seasons: Sequence[str]) -> Any:
    """The model whose seasons of the default kernel start out as lasting as the table, rather than short like other terms."""
    if not seasons:
        return model
    span = dict(_seasons(model.prior.kernel, X))

    def change(path: str, value: Any, mark: Any) -> tuple[Any, Any]:
        return (np.asarray(span[path]), mark) if path in span and not mark.fixed else (value, mark)

    return rebuild(model, change)


def _seasons(kernel: Any, X: np.ndarray) -> list[tuple[str, float]]:
    """The path of every season's own length-scale, with the span of its dates."""
    found = owners(kernel, X.shape[1])
    out = []
    for (path, first, seen), (_, second, _) in pairwise(found):
        if isinstance(first, SquaredExponential) and isinstance(second, Periodic):
            span = float(np.ptp(X[:, seen[0]]))
            out.append((f"{path}.lengthscale", span if span > 0 else 1.0))
    return out


def own_priors(model: Any, width: int, scale: float) -> dict[str, Any]:
    """Weak priors of the parts of the default kernel that the general rule leaves out: categories, and terms of a sum."""
    out: dict[str, Any] = {}
    for path, kernel, seen in owners(model.prior.kernel, width):
        if isinstance(kernel, Hamming):
            centre = np.log(ALIKE) + 0.5 * np.log(len(seen))
            out[f"{path}.lengthscale"] = [LogNormal(float(centre), scale=CATEGORY_SPREAD)] * len(seen)
        elif isinstance(kernel, Periodic):
            out[f"{path}.lengthscale"] = LogNormal(0.0, scale=1.0)
    if isinstance(model.prior.kernel, Sum) and isinstance(model.likelihood, Gaussian):
        for path in parameters(model):
            if path.startswith("kernel.") and path.endswith(".variance"):
                out[path] = LogNormal(float(2 * np.log(scale)), scale=2.0)
    return out


def rougher(kernel: Any) -> Any:
    """The kernel with Matérn-3/2 in the place of every Matérn-5/2."""
    if isinstance(kernel, Matern52):
        rough: Any = Matern32(lengthscale=kernel.lengthscale)
        for name, mark in kernel._marks:  # type: ignore[attr-defined]
            rough = rough.with_mark(name, mark)
        return rough
    if isinstance(kernel, Sum):
        return kernel.replace(terms=tuple(rougher(k) for k in kernel.terms))
    if isinstance(kernel, Product):
        return kernel.replace(factors=tuple(rougher(k) for k in kernel.factors))
    return kernel.replace(kernel=rougher(kernel.kernel)) if isinstance(kernel, Scaled | On) else kernel
