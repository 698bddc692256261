r"""Decisions from class probabilities: expected loss and its minimum, rejection, and the cost of decisions.

A loss matrix contains L(c, c'), the cost of deciding c' (a column) if the truth is c (a row): (C, C), or (C, C + 1) with the
cost of rejecting in the last column. Probabilities and ``classes`` are as in :mod:`covary.metrics.classes`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from covary._checks import as_numbers, check_finite, fail
from covary._errors import Option, Place
from covary._types import ArrayLike
from covary._words import counted
from covary.metrics.classes import _classes, _codes, _labels, _probabilities, _sorted
from covary.metrics.curves import _certainty
from covary.metrics.decades import _frame, _text

if TYPE_CHECKING:
    import pandas as pd


def risk(p: ArrayLike, loss: ArrayLike) -> np.ndarray:
    r"""Compute the expected loss :math:`R(c'|x)=\sum_c\mathcal L(c,c')\,p(c|x)` (R&W, section 3.1.1), one column per decision.

    >>> risk([[0.9, 0.1]], [[0, 1], [20, 0]])  # missing the second class costs 20
    array([[2. , 0.9]])
    """
    p = _probabilities("metrics.risk", p)
    return p @ _loss("metrics.risk", loss, p.shape[1])


def decide(
    p: ArrayLike,
    loss: ArrayLike | None = None,
    classes: ArrayLike | Sequence[Hashable] | None = None,
    *,
    rejected: Hashable = None,
) -> np.ndarray:
    r"""Minimise the expected loss: :math:`\operatorname{argmin}_{c'}\sum_c\mathcal L(c,c')\,p(c|x)` (R&W, 3.1.1).

    Without ``loss``, the most probable class. ``classes`` are the labels of the columns, by default 0, 1, ...; the first of
    tied classes is chosen. If rejecting (the extra column) is strictly best, the decision is ``rejected``; with this column
    the array has dtype object.

    >>> decide([0.1, 0.6], [[0, 1], [20, 0]], ["well", "ill"])
    array(['ill', 'ill'], dtype='<U4')
    >>> decide([0.1, 0.6], [[0, 1, 0.3], [1, 0, 0.3]], ["well", "ill"])
    array(['well', None], dtype=object)
    """
    who = "metrics.decide"
    p = _probabilities(who, p)
    size = p.shape[1]
    labels = _classes(who, range(size) if classes is None else classes, size, f"p has {counted(size, 'column')}")
    _other(who, rejected, labels)
    if loss is None:
        return _together(labels)[p.argmax(1)]
    cost = p @ _loss(who, loss, size)
    return (_together(labels) if cost.shape[1] == size else _objects([*labels, rejected]))[cost.argmin(1)]


def reject(p: ArrayLike, threshold: float, *, rule: str = "probability") -> np.ndarray:
    r"""Return a mask of the rows to reject, those with :math:`\max_cp(c|x)<\theta` (R&W, section 3.1.1).

    With ``rule="gap"``, reject rows whose two largest probabilities differ by less than the threshold.

    >>> reject([[0.5, 0.4, 0.1], [0.8, 0.1, 0.1]], 0.6), reject([[0.5, 0.4, 0.1]], 0.1, rule="gap")
    (array([ True, False]), array([ True]))
    """
    who = "metrics.reject"
    if not 0 <= threshold <= 1:
        raise fail(who, f"threshold is {threshold}", "give a number from 0 to 1", argument="threshold")
    return _certainty(who, _probabilities(who, p), rule) < threshold


def empirical_risk(
    y: ArrayLike,
    decisions: ArrayLike,
    loss: ArrayLike | None = None,
    classes: ArrayLike | Sequence[Hashable] | None = None,
    *,
    rejected: Hashable = None,
) -> float:
    r"""Compute the mean loss :math:`\frac1n\sum_i\mathcal L(y_i,c(x_i))`, which estimates the risk (R&W, eq. 3.3).

    The sum in the book is n times this. Without ``loss``, each wrong decision costs 1. ``classes`` are the labels of the rows
    of ``loss``, by default the sorted labels of y; ``rejected`` is the label of its extra column.

    >>> empirical_risk(["ill", "well", "ill"], ["well", "well", None], [[0, 20, 1], [1, 0, 1]])
    7.0
    """
    who = "metrics.empirical_risk"
    truth, made = _pairs(who, y, decisions, rejected)
    if loss is None:
        labels = _order(who, classes, rejected, truth, made)
        table = 1.0 - np.eye(len(labels))
    else:
        table = _loss(who, loss)
        labels = _classes(who, classes, len(table), f"loss has {counted(len(table), 'row')}", truth)
    _other(who, rejected, labels)
    if table.shape[1] == len(labels) and rejected in made:
        what = f"decisions is {rejected!r} " + Place(made.index(rejected)) + " but there is no loss of rejecting"
        raise fail(who, what, "add a column for rejection", argument="decisions")
    columns = [*labels, rejected][: table.shape[1]]
    return float(np.mean(table[_codes(who, "y", truth, labels), _codes(who, "decisions", made, columns)]))


@dataclass(frozen=True, eq=False)
class Confusion:
    """Confusion matrix: counts by true class (rows) and decision (columns), both in the order of ``classes``.

    ``rejected`` contains the number of rejected rows by true class.
    """

    classes: np.ndarray
    counts: np.ndarray
    rejected: np.ndarray

    def to_frame(self) -> pd.DataFrame:
        """Return a DataFrame with one row per true class, and a last column ``(rejected)`` if any are."""
        columns = dict(zip(self.classes.tolist(), self.counts.T, strict=True))
        return _frame({**columns, "(rejected)": self.rejected} if self.rejected.any() else columns, self.classes, "truth")

    def __repr__(self) -> str:
        n = self.counts.sum() + self.rejected.sum()
        return _text(f"Confusion of {counted(n, 'row')}: truth down, decision across", self.to_frame())


def confusion(
    y: ArrayLike, decisions: ArrayLike, *, classes: ArrayLike | Sequence[Hashable] | None = None, rejected: Hashable = None
) -> Confusion:
    r"""Compute the confusion matrix :math:`N_{cc'}=\sum_i[y_i=c][d_i=c']`, and the number of rejected rows per class.

    Decisions are labels, from :func:`decide` or a classifier's ``predict``. ``classes`` gives the order, by default sorted;
    ``rejected`` is the label of rejected rows.

    >>> confusion(["no", "yes", "yes"], decide([0.2, 0.9, 0.4], classes=["no", "yes"])).counts
    array([[1, 0],
           [1, 1]])
    """
    who = "metrics.confusion"
    truth, made = _pairs(who, y, decisions, rejected)
    labels = _order(who, classes, rejected, truth, made)
    _other(who, rejected, labels)
    counts = np.zeros((len(labels), len(labels) + 1), dtype=int)
    np.add.at(counts, (_codes(who, "y", truth, labels), _codes(who, "decisions", made, [*labels, rejected])), 1)
    return Confusion(_together(labels), counts[:, :-1], counts[:, -1])


# parts ----------------------------------------------------------------------------------------------------------


def _loss(who: str, loss: ArrayLike, size: int | None = None) -> np.ndarray:
    """Return a finite table of losses with one row per class, and one column per class or one more."""
    table = as_numbers(who, "loss", loss, "give a table, a row per class").astype(np.float64)
    c = len(table) if size is None and table.ndim == 2 else size or 0
    if c == 0 or table.shape not in ((c, c), (c, c + 1)):
        do = "give a row per class, and a column per class or one more, for rejecting"
        raise fail(who, f"loss has shape {table.shape}" + (f" for {size} classes" if size else ""), do, argument="loss")
    check_finite(who, "loss", table)
    return table


def _pairs(who: str, y: ArrayLike, decisions: ArrayLike, rejected: Hashable) -> tuple[list[Hashable], list[Hashable]]:
    truth, made = _labels(who, "y", y), _labels(who, "decisions", decisions, none=rejected is None)
    if len(truth) != len(made):
        raise fail(who, Option("y") + f" has {len(truth)} labels but decisions has {len(made)}", "give one decision per label")
    return truth, made


def _order(
    who: str,
    classes: ArrayLike | Sequence[Hashable] | None,
    rejected: Hashable,
    y: list[Hashable],
    decisions: list[Hashable],
) -> list[Hashable]:
    """Return the classes as given, or the sorted labels of y and the decisions."""
    labels = _sorted(who, y, [d for d in decisions if d != rejected]) if classes is None else _labels(who, "classes", classes)
    return _classes(who, labels, len(labels), "a label occurs twice")


def _other(who: str, rejected: Hashable, labels: list[Hashable]) -> None:
    if rejected in labels:
        what = f"rejected is {rejected!r}, which is one of the classes"
        raise fail(who, what, "give another label for rejected rows", argument="rejected")


def _objects(labels: list[Hashable]) -> np.ndarray:
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def _together(labels: list[Hashable]) -> np.ndarray:
    """Return an array of labels: of their type if it is a plain one that all share, otherwise of objects, never of text."""
    kinds = {type(label) for label in labels}
    return np.array(labels) if len(kinds) == 1 and kinds < {bool, int, float, str} else _objects(labels)
