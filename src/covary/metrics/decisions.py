r"""Decisions from class probabilities: the expected loss and its least, rejection, and what decisions cost.

A loss matrix holds L(c, c'), the cost of deciding c' (a column) where the truth is c (a row): (C, C), or (C, C + 1) where the
last column is the cost of rejecting. Probabilities and ``classes`` are as in :mod:`covary.metrics.classes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from covary._checks import as_numbers, check_finite, fail
from covary._words import counted
from covary.metrics.classes import _classes, _codes, _labels, _probabilities, _sorted
from covary.metrics.curves import _certainty
from covary.metrics.decades import _frame, _text


def risk(p: Any, loss: Any) -> np.ndarray:
    r"""The expected loss :math:`R(c'|x)=\sum_c\mathcal L(c,c')\,p(c|x)` of each decision, one column each (R&W, section 3.1.1).

    >>> risk([[0.9, 0.1]], [[0, 1], [20, 0]])  # to miss the second class costs 20
    array([[2. , 0.9]])
    """
    p = _probabilities("metrics.risk", p)
    return p @ _loss("metrics.risk", loss, p.shape[1])


def decide(p: Any, loss: Any = None, classes: Any = None, *, rejected: Any = None) -> np.ndarray:
    r"""The decisions of least expected loss, :math:`\arg\min_{c'}\sum_c\mathcal L(c,c')\,p(c|x)` (R&W, section 3.1.1).

    Without ``loss`` the most probable class. ``classes`` are the labels of the columns, by default 0, 1, ...; of ties the
    first is decided. Where rejecting, the extra column, is strictly best, the decision is ``rejected``; the array then holds
    objects.

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


def reject(p: Any, threshold: float, *, rule: str = "probability") -> np.ndarray:
    r"""Which rows to leave undecided: those with :math:`\max_cp(c|x)<\theta` (R&W, section 3.1.1).

    With ``rule="gap"`` those whose two largest probabilities differ by less than the threshold.

    >>> reject([[0.5, 0.4, 0.1], [0.8, 0.1, 0.1]], 0.6), reject([[0.5, 0.4, 0.1]], 0.1, rule="gap")
    (array([ True, False]), array([ True]))
    """
    who = "metrics.reject"
    if not 0 <= threshold <= 1:
        raise fail(who, f"threshold is {threshold}", "give a number from 0 to 1")
    return _certainty(who, _probabilities(who, p), rule) < threshold


def empirical_risk(y: Any, decisions: Any, loss: Any = None, classes: Any = None, *, rejected: Any = None) -> float:
    r"""The mean loss :math:`\frac1n\sum_i\mathcal L(y_i,c(x_i))`, the data's estimate of the risk of R&W, eq. 3.3.

    The book's sum is n times this. Without ``loss`` each wrong decision costs 1. ``classes`` are the labels of the rows of
    ``loss``, by default the sorted labels of y; ``rejected`` is the label of its extra column.

    >>> empirical_risk(["ill", "well", "ill"], ["well", "well", None], [[0, 20, 1], [1, 0, 1]])
    7.0
    """
    who = "metrics.empirical_risk"
    y, decisions = _pairs(who, y, decisions, rejected)
    if loss is None:
        labels = _order(who, classes, rejected, y, decisions)
        table = 1.0 - np.eye(len(labels))
    else:
        table = _loss(who, loss)
        labels = _classes(who, classes, len(table), f"loss has {counted(len(table), 'row')}", y)
    _other(who, rejected, labels)
    if table.shape[1] == len(labels) and rejected in decisions:
        what = f"decisions is {rejected!r} at row {decisions.index(rejected)} but there is no loss of rejecting"
        raise fail(who, what, "give a loss with an extra column for it")
    columns = [*labels, rejected][: table.shape[1]]
    return float(np.mean(table[_codes(who, "y", y, labels), _codes(who, "decisions", decisions, columns)]))


@dataclass(frozen=True, eq=False)
class Confusion:
    """Counts of rows by true class (rows) and decision (columns), both in the order of ``classes``.

    ``rejected`` counts, by true class, the rows left undecided.
    """

    classes: np.ndarray
    counts: np.ndarray
    rejected: np.ndarray

    def to_frame(self) -> Any:
        """A pandas table, one row per true class, and a last column ``(rejected)`` if any are."""
        columns = dict(zip(self.classes.tolist(), self.counts.T, strict=True))
        return _frame({**columns, "(rejected)": self.rejected} if self.rejected.any() else columns, self.classes, "truth")

    def __repr__(self) -> str:
        n = self.counts.sum() + self.rejected.sum()
        return _text(f"Confusion of {counted(n, 'row')}: truth down, decision across", self.to_frame())


def confusion(y: Any, decisions: Any, *, classes: Any = None, rejected: Any = None) -> Confusion:
    r"""How often class c was decided to be c', :math:`N_{cc'}=\sum_i[y_i=c][d_i=c']`, and how often it was rejected.

    Decisions are labels: of :func:`decide`, or of a classifier's ``predict``. ``classes`` gives the order, by default sorted;
    ``rejected`` is the label of rejected rows.

    >>> confusion(["no", "yes", "yes"], decide([0.2, 0.9, 0.4], classes=["no", "yes"])).counts
    array([[1, 0],
           [1, 1]])
    """
    who = "metrics.confusion"
    y, decisions = _pairs(who, y, decisions, rejected)
    labels = _order(who, classes, rejected, y, decisions)
    _other(who, rejected, labels)
    counts = np.zeros((len(labels), len(labels) + 1), dtype=int)
    np.add.at(counts, (_codes(who, "y", y, labels), _codes(who, "decisions", decisions, [*labels, rejected])), 1)
    return Confusion(_together(labels), counts[:, :-1], counts[:, -1])


# parts ----------------------------------------------------------------------------------------------------------


def _loss(who: str, loss: Any, size: int | None = None) -> np.ndarray:
    """A finite table of losses with a row per class, and a column per class or one more."""
    table = as_numbers(who, "loss", loss, "give a table, a row per class").astype(np.float64)
    c = len(table) if size is None and table.ndim == 2 else size or 0
    if c == 0 or table.shape not in ((c, c), (c, c + 1)):
        do = "give a row per class, and a column per class or one more, for rejecting"
        raise fail(who, f"loss has shape {table.shape}" + (f" for {size} classes" if size else ""), do)
    check_finite(who, "loss", table)
    return table


def _pairs(who: str, y: Any, decisions: Any, rejected: Any) -> tuple[list[Any], list[Any]]:
    y, decisions = _labels(who, "y", y), _labels(who, "decisions", decisions, none=rejected is None)
    if len(y) != len(decisions):
        raise fail(who, f"y has {len(y)} labels but decisions has {len(decisions)}", "give one decision per label")
    return y, decisions


def _order(who: str, classes: Any, rejected: Any, y: list[Any], decisions: list[Any]) -> list[Any]:
    """The classes as given, or the sorted labels of both sides."""
    labels = _sorted(who, y, [d for d in decisions if d != rejected]) if classes is None else _labels(who, "classes", classes)
    return _classes(who, labels, len(labels), "a label is there twice")


def _other(who: str, rejected: Any, labels: list[Any]) -> None:
    if rejected in labels:
        raise fail(who, f"rejected is {rejected!r}, which is one of the classes", "give another label for rejected rows")


def _objects(labels: list[Any]) -> np.ndarray:
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def _together(labels: list[Any]) -> np.ndarray:
    """An array of labels: of their own type if they share a plain one, else of objects, never turned into text."""
    kinds = {type(label) for label in labels}
    return np.array(labels) if len(kinds) == 1 and kinds < {bool, int, float, str} else _objects(labels)
