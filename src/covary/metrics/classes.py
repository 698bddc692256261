r"""Scores of class predictions: log loss, Brier score, information, errors.

Labels y (n,) are strings, whole numbers or booleans. Probabilities p are (n, C), one column per entry of ``classes`` (by
default the sorted labels of y), or (n,), those of the second of two classes; give both columns where tiny probabilities of
the first matter. Decided is the most probable class, of tied ones the first. Nothing is clipped, and no score is NaN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from covary._checks import as_array, as_numbers, check_finite, fail
from covary._words import counted
from covary.metrics.scores import _refuse


def log_loss(y: Any, p: Any, *, classes: Any = None) -> float:
    r"""The mean negative log probability of the true class, :math:`-\frac1n\sum\log p(y_i|x_i)`, in nats (R&W, section 3.7.3).

    Lower is better; infinite, not clipped, if a true class has probability 0.

    >>> round(log_loss(["no", "yes"], [0.5, 0.5]), 6)  # log 2
    0.693147
    >>> log_loss(["no", "yes"], [0.0, 0.0])
    inf
    """
    codes, p, _ = _rows("metrics.log_loss", y, p, classes)
    return float(0.0 - np.mean(_logs(codes, p)))


def brier(y: Any, p: Any, *, classes: Any = None) -> float:
    r"""The Brier score :math:`\frac1n\sum_i\sum_c(p_{ic}-[y_i=c])^2`, from 0, perfect, to 2 (Brier 1950).

    The sum is over all classes: for two of them this is twice the mean of :math:`(p_i-[y_i=1])^2`.

    >>> brier(["no", "yes"], [0.5, 0.5])
    0.5
    """
    codes, p, _ = _rows("metrics.brier", y, p, classes)
    return float(np.mean(np.sum((p - np.eye(p.shape[1])[codes]) ** 2, axis=1)))


def information(y: Any, p: Any, y_train: Any, *, classes: Any = None) -> float:
    r"""The test information, the mean of :math:`\log_2p(y_i|x_i)` plus :func:`baseline_information`, in bits (R&W, eq. 3.76).

    0 is what the class frequencies of training score, the base line's own value is perfect; −inf if a true class has
    probability 0. ``y_train`` holds the labels of training, or the count of each as ``{label: count}``.

    >>> information([3, 5], [[1.0, 0.0], [0.0, 1.0]], y_train={3: 50, 5: 50})
    1.0
    """
    who = "metrics.information"
    codes, p, labels = _rows(who, y, p, classes)
    base = _baseline(who, Counter(labels[i] for i in codes), y_train)
    return float(np.mean(_logs(codes, p)) / np.log(2) + base)


def baseline_information(y: Any, y_train: Any) -> float:
    r"""What the best model without inputs lacks, :math:`-\sum_c\frac{n_*^c}{n_*}\log_2\frac{n^c}n` bits (R&W, eq. 3.76).

    :math:`n^c` counts class c in training and :math:`n_*^c` in y; both are labels, or counts as ``{label: count}``.

    >>> round(baseline_information({3: 418, 5: 355}, {3: 406, 5: 361}), 5)  # threes and fives of the USPS digits
    0.99558
    """
    return _baseline("metrics.baseline_information", _counts("metrics.baseline_information", "y", y), y_train)


def errors(y: Any, p: Any, *, classes: Any = None) -> int:
    r"""The number of rows whose most probable class is not the true one (R&W, section 3.7.3; Williams & Barber, section 5).

    Of tied classes the first is decided, as by ``predict``: a tie is an error only if the first of the tied is not the truth.

    >>> errors(["no", "yes", "yes"], [0.2, 0.5, 0.9])
    1
    """
    codes, p, _ = _rows("metrics.errors", y, p, classes)
    return int(np.sum(p.argmax(1) != codes))


def error_rate(y: Any, p: Any, *, classes: Any = None) -> float:
    r"""The share of :func:`errors`, from 0 to 1 (R&W, section 3.7.4).

    >>> error_rate(["no", "yes"], [0.2, 0.4])
    0.5
    """
    codes, p, _ = _rows("metrics.error_rate", y, p, classes)
    return float(np.mean(p.argmax(1) != codes))


def accuracy(y: Any, p: Any, *, classes: Any = None) -> float:
    r"""The share of rows whose most probable class is the true one, 1 − :func:`error_rate`.

    >>> accuracy(["no", "yes"], [0.2, 0.9])
    1.0
    """
    codes, p, _ = _rows("metrics.accuracy", y, p, classes)
    return float(np.mean(p.argmax(1) == codes))


def errors_sd(count: float, n: int) -> float:
    r"""The binomial standard deviation of e errors in n rows, :math:`\sqrt{e(1-e/n)}` (Gibbs, table 4.1).

    That of the rate is this over n. It is 0 for 0 errors, which does not say that the rate is known.

    >>> round(errors_sd(3, 120), 1), round(errors_sd(68, 332), 1)
    (1.7, 7.4)
    """
    if not 0 <= count <= n or n == 0:
        raise fail(
            "metrics.errors_sd", f"count is {count} of {counted(n, 'row')}", "give a count from 0 to n, of 1 row or more"
        )
    return float(np.sqrt(count * (1 - count / n)))


# parts ----------------------------------------------------------------------------------------------------------


def _rows(who: str, y: Any, p: Any, classes: Any) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    """The column of each row's true class, probabilities (n, C), and the labels of the columns; checked."""
    p, y = _probabilities(who, p), _labels(who, "y", y)
    if len(y) != len(p):
        raise fail(who, f"y has {counted(len(y), 'label')} but p has {counted(len(p), 'row')}", "give one label per row")
    labels = _classes(who, classes, p.shape[1], f"p has {counted(p.shape[1], 'column')}", y)
    return _codes(who, "y", y, labels), p, labels


def _probabilities(who: str, p: Any) -> np.ndarray:
    array = as_numbers(who, "p", p, "give probabilities").astype(np.float64)
    if array.ndim not in (1, 2) or array.size == 0 or array.shape[1:] == (1,):
        do = "give one column for each of two or more classes, or one number per row, that of the second of two"
        raise fail(who, f"p has shape {array.shape}", do)
    check_finite(who, "p", array)
    _refuse(who, (array < 0) | (array > 1 + 1e-6), "p is not between 0 and 1", "give probabilities, not scores or logarithms")
    if array.ndim == 1:
        return np.column_stack([1 - np.minimum(array, 1), array])
    _refuse(who, np.abs(array.sum(1) - 1) > 1e-6, "p does not sum to 1", "give the probabilities of all classes")
    return array


def _labels(who: str, name: str, value: Any, *, none: bool = False) -> list[Any]:
    """One label per entry, as Python has them: nothing is turned into text. Missing ones are refused, None if told not."""
    array = np.asarray(as_array(who, name, value) if np.ma.isMaskedArray(value) else value, dtype=object)
    if array.ndim != 1 or array.size == 0:
        raise fail(who, f"{name} has shape {array.shape}", "give one label per entry")
    items = array.tolist()
    for i, item in enumerate(items):
        if _missing(item) and not (none and item is None):
            raise fail(who, f"{name} is {item} at row {i}", "drop such rows: they have no label")
    return items


def _missing(item: Any) -> bool:
    try:
        hash(item)
        return item is None or not bool(item == item)
    except (TypeError, ValueError):  # pandas' NA, lists
        return True


def _classes(who: str, classes: Any, size: int, what: str, *seen: list[Any]) -> list[Any]:
    """The label of each column: as given, or the sorted labels that were seen."""
    if classes is not None:
        labels = _labels(who, "classes", classes)
        if len(labels) != size or len(set(labels)) != size:
            raise fail(who, f"classes is {_shown(labels)} but {what}", "give one label per column, all different")
        return labels
    labels = _sorted(who, *seen)
    if len(labels) != size:
        raise fail(who, f"y holds {len(labels)} labels but {what}", "give classes, the label of each column in order")
    return labels


def _sorted(who: str, *seen: list[Any]) -> list[Any]:
    try:
        return sorted(set().union(*seen))
    except TypeError:
        raise fail(who, "y holds labels of several kinds, without an order", "give classes, the labels in order") from None


def _codes(who: str, name: str, items: list[Any], labels: list[Any]) -> np.ndarray:
    """The column of each label."""
    index = {label: i for i, label in enumerate(labels)}
    codes = np.array([index.get(item, -1) for item in items])
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        what = f"{name} is {items[row]!r}" + (f" at row {row}" if len(items) > 1 else "")
        raise fail(who, f"{what}, not among the classes {_shown(labels)}", "give classes in full, or drop such rows")
    return codes


def _shown(labels: list[Any]) -> str:
    return f"[{', '.join(map(repr, labels[:6]))}{', ...' if len(labels) > 6 else ''}]"


def _logs(codes: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The log probability of each row's true class; −inf for 0."""
    with np.errstate(divide="ignore"):
        return np.log(p[np.arange(len(p)), codes])


def _counts(who: str, name: str, value: Any) -> Mapping[Any, float]:
    if not isinstance(value, Mapping):
        return Counter(_labels(who, name, value))
    if (
        not all(isinstance(n, int | float | np.integer | np.floating) and 0 <= n < np.inf for n in value.values())
        or sum(value.values()) == 0
    ):
        raise fail(who, f"{name} is {dict(value)}", "give a count of zero or more per label, not all zero")
    return value


def _baseline(who: str, seen: Mapping[Any, float], y_train: Any) -> float:
    """Equation 3.76, of the counts of classes that were seen."""
    train = _counts(who, "y_train", y_train)
    missing = [label for label, n in seen.items() if n > 0 and train.get(label, 0) == 0]
    if missing:
        raise fail(who, f"y_train holds no {missing[0]!r} but y does", "compare with a base line that knows every class of y")
    n, total = sum(seen.values()), sum(train.values())
    return float(sum(k / n * np.log2(total / train[label]) for label, k in seen.items() if k > 0))
