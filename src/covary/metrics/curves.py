"""Reliability and error–reject curves of class predictions. Labels and p are as in :mod:`covary.metrics.classes`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from covary._checks import fail
from covary._types import ArrayLike
from covary._words import counted
from covary.metrics.classes import _baseline, _codes, _counts, _logs, _rows
from covary.metrics.decades import _frame, _text
from covary.metrics.scores import _level

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Reliability:
    """Predicted and observed frequencies of the class ``label``, one entry per non-empty bin.

    A bin is lower ≤ p < upper (the last includes p = upper), with ``count`` rows, the mean ``predicted`` probability and
    the ``observed`` frequency of the class; ``low`` to ``high`` is the Wilson interval of that frequency at ``level``.
    """

    label: Hashable
    lower: np.ndarray
    upper: np.ndarray
    count: np.ndarray
    predicted: np.ndarray
    observed: np.ndarray
    low: np.ndarray
    high: np.ndarray
    level: float

    def to_frame(self) -> pd.DataFrame:
        """Return a DataFrame with one row per bin."""
        return _frame({k: v for k, v in vars(self).items() if k not in ("label", "level")}, range(len(self.count)), "bin")

    def __repr__(self) -> str:
        return _text(
            f"Reliability of p({self.label!r}), {counted(int(self.count.sum()), 'row')}, intervals at {self.level:g}",
            self.to_frame(),
        )


def reliability_curve(
    y: ArrayLike,
    p: ArrayLike,
    *,
    classes: ArrayLike | Sequence[Hashable] | None = None,
    of: Hashable = None,
    bins: int = 10,
    strategy: str = "width",
    level: float = 0.95,
) -> Reliability:
    r"""Compute observed and predicted frequencies of one class by bins of its probability (after Murphy & Winkler 1977).

    The curve is diagonal if the predictions are calibrated. ``of`` is the class, by default the second of two; the bins have
    equal widths on [0, 1], or about equal counts with ``strategy="count"``. Empty bins are omitted. The interval of a frequency
    s in n rows is :math:`(s+\frac{z^2}{2n}\pm z\sqrt{s(1-s)/n+z^2/4n^2})/(1+z^2/n)` (Wilson 1927).

    >>> found = reliability_curve(["no", "yes", "yes", "no"], [0.1, 0.85, 0.95, 0.05], bins=2)
    >>> found.predicted.round(3), found.observed, found.count
    (array([0.075, 0.9  ]), array([0., 1.]), array([2, 2]))
    """
    who = "metrics.reliability_curve"
    _level(who, level)
    codes, p, labels = _rows(who, y, p, classes)
    if of is None and len(labels) > 2:
        raise fail(who, f"there are {len(labels)} classes and none is chosen", "give of, the label of a class")
    column = 1 if of is None else _codes(who, "of", [of], labels)[0]
    lower, upper, count, predicted, s = _binned(who, p[:, column], codes == column, bins, strategy)
    z2 = ndtri(0.5 * (1 - level)) ** 2 / count
    half, scale = np.sqrt(z2 * s * (1 - s) + z2**2 / 4), 1 + z2
    low, high = np.maximum(0.0, (s + z2 / 2 - half) / scale), np.minimum(1.0, (s + z2 / 2 + half) / scale)
    return Reliability(labels[column], lower, upper, count, predicted, s, low, high, level)


def expected_calibration_error(
    y: ArrayLike,
    p: ArrayLike,
    *,
    classes: ArrayLike | Sequence[Hashable] | None = None,
    of: Hashable = None,
    bins: int = 10,
    strategy: str = "width",
) -> float:
    r"""Compute the mean gap :math:`\sum_b\frac{n_b}n|\mathrm{observed}_b-\mathrm{predicted}_b|` of bins (Naeini et al. 2015).

    Compares the accuracy of the predicted class with its probability, or uses the class ``of``, as in
    :func:`reliability_curve`. 0 is perfect; chance increases the value, more with more bins.

    >>> round(expected_calibration_error(["no", "yes"], [0.1, 0.9]), 6)
    0.1
    """
    who = "metrics.expected_calibration_error"
    codes, p, labels = _rows(who, y, p, classes)
    column = p.argmax(1) if of is None else np.full(len(p), _codes(who, "of", [of], labels)[0])
    *_, count, predicted, observed = _binned(who, p[np.arange(len(p)), column], codes == column, bins, strategy)
    return float(np.average(np.abs(observed - predicted), weights=count))


@dataclass(frozen=True, eq=False)
class RejectCurve:
    """Error–reject curve with one entry per threshold, in increasing order, starting with no row rejected.

    Rows whose certainty is below ``threshold`` are rejected; ``rejected`` is their fraction. Of the ``accepted`` rows,
    ``errors`` are wrong, a fraction ``error_rate``. ``information`` is that of the accepted rows, in bits relative to their
    own baseline, or None without training labels.
    """

    threshold: np.ndarray
    rejected: np.ndarray
    accepted: np.ndarray
    errors: np.ndarray
    error_rate: np.ndarray
    information: np.ndarray | None

    def to_frame(self) -> pd.DataFrame:
        """Return a DataFrame with one row per threshold."""
        return _frame({k: v for k, v in vars(self).items() if k != "threshold" and v is not None}, self.threshold, "threshold")

    def __repr__(self) -> str:
        few = np.unique(np.minimum(np.searchsorted(self.rejected, np.arange(10) / 10), len(self.rejected) - 1))
        shown = f"{len(few)} of {counted(len(self.rejected), 'threshold')} shown"
        title = f"Error–reject curve of {counted(int(self.accepted[0]), 'row')}, {shown}"
        return _text(title, self.to_frame().iloc[few])


def reject_curve(
    y: ArrayLike,
    p: ArrayLike,
    *,
    classes: ArrayLike | Sequence[Hashable] | None = None,
    rule: str = "probability",
    y_train: ArrayLike | Mapping[Hashable, float] | None = None,
) -> RejectCurve:
    r"""Compute the error rate (and information) of accepted rows by threshold (R&W, section 3.7.3, figure 3.10).

    A row is accepted if its largest probability, or with ``rule="gap"`` the difference from the second largest, is at least
    the threshold. All distinct thresholds are evaluated. With good probabilities, the errors decrease as more is rejected.

    >>> curve = reject_curve(["no", "yes", "no"], [0.1, 0.9, 0.6])
    >>> curve.threshold, curve.rejected.round(2), curve.error_rate.round(2)
    (array([0.6, 0.9]), array([0.  , 0.33]), array([0.33, 0.  ]))
    """
    who = "metrics.reject_curve"
    codes, p, labels = _rows(who, y, p, classes)
    certain = _certainty(who, p, rule)
    order = np.argsort(-certain, kind="stable")
    last = np.flatnonzero(np.append(np.diff(certain[order]) != 0, True))[::-1]  # the last row accepted at each threshold
    wrong, kept, gain = np.cumsum((p.argmax(1) != codes)[order])[last], last + 1, None
    if y_train is not None:
        train = _counts(who, "y_train", y_train)
        base = {c: _baseline(who, {labels[c]: 1}, train) for c in np.unique(codes)}
        each = _logs(codes, p) / np.log(2) + np.array([base[c] for c in codes])
        gain = np.cumsum(each[order])[last] / kept
    return RejectCurve(certain[order][last], (len(p) - kept) / len(p), kept, wrong, wrong / kept, gain)


# parts ----------------------------------------------------------------------------------------------------------


def _certainty(who: str, p: np.ndarray, rule: str) -> np.ndarray:
    if rule not in ("probability", "gap"):
        raise fail(who, f"rule is {rule!r}", "choose 'probability' or 'gap'", argument="rule")
    second, first = np.partition(p, -2, axis=1)[:, -2:].T
    return first if rule == "probability" else first - second


def _binned(who: str, p: np.ndarray, hit: np.ndarray, bins: int, strategy: str) -> tuple[np.ndarray, ...]:
    """Return lower and upper ends, counts, mean probabilities and frequencies of hits of the non-empty bins."""
    if not isinstance(bins, (int, np.integer)) or bins < 1:
        raise fail(who, f"bins is {bins!r}", "give a whole number, 1 or more", argument="bins")
    if strategy not in ("width", "count"):
        raise fail(who, f"strategy is {strategy!r}", "choose 'width' or 'count'", argument="strategy")
    edges = np.arange(bins + 1) / bins if strategy == "width" else np.unique(np.quantile(p, np.arange(bins + 1) / bins))
    edges = np.repeat(edges, 2) if len(edges) == 1 else edges
    place = np.clip(np.searchsorted(edges, p, side="right") - 1, 0, len(edges) - 2)
    count = np.bincount(place, minlength=len(edges) - 1)
    full = count > 0
    predicted, observed = (np.bincount(place, w, len(count))[full] / count[full] for w in (p, hit))
    return edges[:-1][full], edges[1:][full], count[full], predicted, observed
