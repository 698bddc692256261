"""Curves of class predictions: reliability and its mean error, error against rejection. Labels and p are as in ``classes``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from covary._checks import fail
from covary._words import counted
from covary.metrics.classes import _baseline, _codes, _counts, _logs, _rows
from covary.metrics.decades import _frame, _text
from covary.metrics.scores import _level


@dataclass(frozen=True, eq=False)
class Reliability:
    """Predicted and observed frequencies of the class ``label``, one entry per bin that holds rows.

    A bin is lower ≤ p < upper (the last also holds p = upper), with ``count`` rows, the mean ``predicted`` probability and
    the ``observed`` share of the class; ``low`` to ``high`` is the Wilson interval of that share at ``level``.
    """

    label: Any
    lower: np.ndarray
    upper: np.ndarray
    count: np.ndarray
    predicted: np.ndarray
    observed: np.ndarray
    low: np.ndarray
    high: np.ndarray
    level: float

    def to_frame(self) -> Any:
        """A pandas table, one row per bin."""
        return _frame({k: v for k, v in vars(self).items() if k not in ("label", "level")}, range(len(self.count)), "bin")

    def __repr__(self) -> str:
        return _text(
            f"Reliability of p({self.label!r}), {counted(int(self.count.sum()), 'row')}, intervals at {self.level:g}",
            self.to_frame(),
        )


def reliability_curve(
    y: Any, p: Any, *, classes: Any = None, of: Any = None, bins: int = 10, strategy: str = "width", level: float = 0.95
) -> Reliability:
    r"""Observed against predicted frequency of one class, by bins of its probability (after Murphy & Winkler 1977).

    On the diagonal if the predictions are calibrated. ``of`` is the class, by default the second of two; the bins have equal
    width on [0, 1], or with ``strategy="count"`` about equal counts. Bins without rows are left out. The interval of a share
    s of n rows is :math:`(s+\frac{z^2}{2n}\pm z\sqrt{s(1-s)/n+z^2/4n^2})/(1+z^2/n)` (Wilson 1927).

    >>> found = reliability_curve(["no", "yes", "yes", "no"], [0.1, 0.85, 0.95, 0.05], bins=2)
    >>> found.predicted.round(3), found.observed, found.count
    (array([0.075, 0.9  ]), array([0., 1.]), array([2, 2]))
    """
    who = "metrics.reliability_curve"
    _level(who, level)
    codes, p, labels = _rows(who, y, p, classes)
    if of is None and len(labels) > 2:
        raise fail(who, f"there are {len(labels)} classes and no choice of one", "give of, the label of a class")
    column = 1 if of is None else _codes(who, "of", [of], labels)[0]
    lower, upper, count, predicted, s = _binned(who, p[:, column], codes == column, bins, strategy)
    z2 = ndtri(0.5 * (1 - level)) ** 2 / count
    half, scale = np.sqrt(z2 * s * (1 - s) + z2**2 / 4), 1 + z2
    low, high = np.maximum(0.0, (s + z2 / 2 - half) / scale), np.minimum(1.0, (s + z2 / 2 + half) / scale)
    return Reliability(labels[column], lower, upper, count, predicted, s, low, high, level)


def expected_calibration_error(
    y: Any, p: Any, *, classes: Any = None, of: Any = None, bins: int = 10, strategy: str = "width"
) -> float:
    r"""The mean gap :math:`\sum_b\frac{n_b}n|\mathrm{observed}_b-\mathrm{predicted}_b|` over bins (Naeini et al. 2015).

    Of the decided class: how often it is right against its probability; or of the class ``of``, as in
    :func:`reliability_curve`. 0 is perfect, and chance adds to it: more so with more bins.

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
    """The error–reject curve, one entry per threshold, from none rejected upwards.

    Rows whose certainty is below ``threshold`` are rejected, a share ``rejected`` of all; of the ``accepted`` others
    ``errors`` are wrong, a share ``error_rate``. ``information`` is theirs, in bits over their own base line, or None without
    labels of training.
    """

    threshold: np.ndarray
    rejected: np.ndarray
    accepted: np.ndarray
    errors: np.ndarray
    error_rate: np.ndarray
    information: np.ndarray | None

    def to_frame(self) -> Any:
        """A pandas table, one row per threshold."""
        return _frame({k: v for k, v in vars(self).items() if k != "threshold" and v is not None}, self.threshold, "threshold")

    def __repr__(self) -> str:
        few = np.unique(np.minimum(np.searchsorted(self.rejected, np.arange(10) / 10), len(self.rejected) - 1))
        shown = f"{len(few)} of {counted(len(self.rejected), 'threshold')} shown"
        title = f"Error–reject curve of {counted(int(self.accepted[0]), 'row')}, {shown}"
        return _text(title, self.to_frame().iloc[few])


def reject_curve(y: Any, p: Any, *, classes: Any = None, rule: str = "probability", y_train: Any = None) -> RejectCurve:
    r"""Error rate (and information) of the rows that are not rejected, by threshold (R&W, section 3.7.3, figure 3.10).

    A row is accepted if its largest probability, or with ``rule="gap"`` that less the second largest, is at least the
    threshold. Every threshold that matters is tried; errors fall as rejections rise if the probabilities are good.

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
        raise fail(who, f"rule is {rule!r}", "choose 'probability' or 'gap'")
    second, first = np.partition(p, -2, axis=1)[:, -2:].T
    return first if rule == "probability" else first - second


def _binned(who: str, p: np.ndarray, hit: np.ndarray, bins: int, strategy: str) -> tuple[np.ndarray, ...]:
    """Lower and upper ends, counts, mean probability and share of hits of the bins that hold rows."""
    if not isinstance(bins, (int, np.integer)) or bins < 1:
        raise fail(who, f"bins is {bins!r}", "give a whole number, 1 or more")
    if strategy not in ("width", "count"):
        raise fail(who, f"strategy is {strategy!r}", "choose 'width' or 'count'")
    edges = np.arange(bins + 1) / bins if strategy == "width" else np.unique(np.quantile(p, np.arange(bins + 1) / bins))
    edges = np.repeat(edges, 2) if len(edges) == 1 else edges
    place = np.clip(np.searchsorted(edges, p, side="right") - 1, 0, len(edges) - 2)
    count = np.bincount(place, minlength=len(edges) - 1)
    full = count > 0
    predicted, observed = (np.bincount(place, w, len(count))[full] / count[full] for w in (p, hit))
    return edges[:-1][full], edges[1:][full], count[full], predicted, observed
