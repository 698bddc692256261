"""Relative deviances, and their summary by decade, for targets that span many powers of ten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from covary._checks import check_finite, fail
from covary._types import ArrayLike
from covary.metrics.scores import _array, _inputs, _refuse, _representable, _scaled

if TYPE_CHECKING:
    import pandas as pd

_EDGES = np.array([float(f"1e{i}") for i in range(-323, 309)])  # the floats nearest to the powers of ten
_LN10 = float(np.log(10.0))


def relative_deviance(y: ArrayLike, mean: ArrayLike, *, zeros: str = "refuse") -> np.ndarray:
    r"""Compute the relative deviances :math:`\varepsilon_i=(y_i-\hat y_i)/y_i`, with the shape of y (DGP thesis, eq. 1.53).

    The deviance is 1 if 0 is predicted and has no lower bound, so use medians as well as means. y = 0 raises an error, or
    gives NaN with ``zeros="nan"``, which :func:`by_decades` counts separately.

    >>> relative_deviance([1e-30, 2e9], [2e-30, 1e9])
    array([-1. ,  0.5])
    """
    who = "metrics.relative_deviance"
    if zeros not in ("refuse", "nan"):
        raise fail(who, f"zeros is {zeros!r}", "choose 'refuse' or 'nan'", argument="zeros")
    y, error, *_ = _inputs(who, y, mean)
    _refuse(who, (y == 0) & (zeros == "refuse"), "y is 0", "drop such rows, or give zeros='nan' to mark them")
    with np.errstate(over="ignore"):
        return _representable(who, np.divide(error, y, out=np.full(y.shape, np.nan), where=y != 0))


def relative_deviance_log10(y: ArrayLike, mean: ArrayLike, std: ArrayLike | None = None) -> np.ndarray:
    r"""Compute the relative deviances of y > 0 under a model log10 y ~ N(μ, s²) with ``mean`` μ and ``std`` s.

    :math:`\varepsilon=-\mathrm{expm1}(\ln10\,(\mu-\log_{10}y))` for the median prediction :math:`10^\mu`, or, if ``std`` is
    given, for the mean prediction :math:`10^{\mu+\frac12s^2\ln10}` (DGP thesis, eq. 1.53, without computing the powers).

    >>> relative_deviance_log10([1e-30], [-30 + 1e-9]).round(12)
    array([-2.303e-09])
    """
    who = "metrics.relative_deviance_log10"
    y = _array(who, "y", y)
    _refuse(who, y <= 0, "y is not positive", "drop such rows: they have no logarithm")
    _, error, s, _ = _inputs(who, np.log10(y), mean, 1.0 if std is None else std)
    with np.errstate(over="ignore"):
        shift = 0.0 if std is None else 0.5 * (_LN10 * s) ** 2
        return _representable(who, -np.expm1(shift - _LN10 * error))


@dataclass(frozen=True, eq=False)
class Decades:
    """Relative deviances by decade of ``|y|``: one entry per decade, from the smallest to the largest.

    ``decades`` contains the exponents i of ``10^i ≤ |y| < 10^(i+1)``, and ``count`` the number of targets in each. The
    statistics are NaN if the count is 0. Variances divide by the count, and are infinite if they overflow. ``zeros`` is the
    number of targets omitted because they are 0.
    """

    decades: np.ndarray
    count: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    lower_quartile: np.ndarray
    median: np.ndarray
    upper_quartile: np.ndarray
    zeros: int

    def to_frame(self) -> pd.DataFrame:
        """Return a DataFrame with one row per decade."""
        return _frame({k: v for k, v in vars(self).items() if k not in ("decades", "zeros")}, self.decades, "decade")

    def __repr__(self) -> str:
        frame, empty = self.to_frame(), int((self.count == 0).sum())
        title = f"Relative deviance by decade of |y| ({self.zeros} zeros left out, {empty} empty decades not shown)"
        return _text(title, frame.loc[frame["count"] > 0])


def by_decades(y: ArrayLike, deviance: ArrayLike) -> Decades:
    """Summarise relative deviances by the decade ``10^i ≤ |y| < 10^(i+1)`` of their target (DGP thesis, section 1.4.4).

    Targets are compared with the powers of ten, not their logarithms, so exact powers are assigned correctly. Targets that
    are 0 are omitted, whatever their deviance, and counted.

    >>> y = [1.0, 2.0, 1000.0, 0.0]
    >>> found = by_decades(y, relative_deviance(y, [1.5, 2.0, 900.0, 0.0], zeros="nan"))
    >>> found.decades, found.count, found.mean, found.zeros
    (array([0, 1, 2, 3]), array([2, 0, 0, 1]), array([-0.25,   nan,   nan,  0.1 ]), 1)
    """
    who = "metrics.by_decades"
    y = _array(who, "y", y)
    seen = y != 0
    deviance = np.where(seen, _array(who, "deviance", deviance, like=y, finite=False), 0.0)
    check_finite(who, "deviance", deviance)
    if not seen.any():
        raise fail(who, "every y is 0", "give targets that have a decade")
    decade = np.searchsorted(_EDGES, np.abs(y[seen]), side="right") - 324
    decades = np.arange(decade.min(), decade.max() + 1)
    table = np.full((5, len(decades)), np.nan)
    for i in np.unique(decade) - decades[0]:
        e, exponent = _scaled(deviance[seen][decade == decades[i]])
        values = np.array([e.mean(), e.var(), *np.quantile(e, [0.25, 0.5, 0.75])])
        with np.errstate(over="ignore"):
            table[:, i] = np.ldexp(values, exponent * np.array([1, 2, 1, 1, 1]))
    return Decades(decades, np.bincount(decade - decades[0]), *table, zeros=int((~seen).sum()))


def _frame(columns: dict[str, ArrayLike], index: ArrayLike, name: str) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(columns, index=pd.Index(index, name=name))


def _text(title: str, frame: pd.DataFrame) -> str:
    return f"{title}\n\n{frame.to_string(float_format='{:.4g}'.format)}"
