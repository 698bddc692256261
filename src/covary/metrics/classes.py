r"""Scores of class predictions: log loss, Brier score, information, errors.

Labels y (n,) are strings, integers or booleans. Probabilities p are (n, C), with one column per entry of ``classes`` (by
default the sorted labels of y), or (n,) for the second of two classes; give both columns if tiny probabilities of the first
matter. The predicted class is the most probable one, the first if several are tied. Nothing is clipped, and no score is NaN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from covary._checks import as_array, as_numbers, check_finite, fail
from covary._errors import Option, Phrase, Place
from covary._types import ArrayLike
from covary._words import counted
from covary.metrics.scores import _refuse


def log_loss(y: ArrayLike, p: ArrayLike, *, classes: ArrayLike | Sequence[Hashable] | None = None) -> float:
    r"""Compute the mean negative log probability of the true class, :math:`-\frac1n\sum\log p(y_i|x_i)` (R&W, section 3.7.3).

    In nats; lower is better. Infinite, without clipping, if a true class has probability 0.

    >>> round(log_loss(["no", "yes"], [0.5, 0.5]), 6)  # log 2
    0.693147
    >>> log_loss(["no", "yes"], [0.0, 0.0])
    inf
    """
    codes, p, _ = _rows("metrics.log_loss", y, p, classes)
    return float(0.0 - np.mean(_logs(codes, p)))


def brier(y: ArrayLike, p: ArrayLike, *, classes: ArrayLike | Sequence[Hashable] | None = None) -> float:
    r"""Compute the Brier score :math:`\frac1n\sum_i\sum_c(p_{ic}-[y_i=c])^2`, from 0 (perfect) to 2 (Brier 1950).

    The sum is over all classes, so for two classes it is twice the mean of :math:`(p_i-[y_i=1])^2`.

    >>> brier(["no", "yes"], [0.5, 0.5])
    0.5
    """
    codes, p, _ = _rows("metrics.brier", y, p, classes)
    return float(np.mean(np.sum((p - np.eye(p.shape[1])[codes]) ** 2, axis=1)))


def information(
    y: ArrayLike,
    p: ArrayLike,
    y_train: ArrayLike | Mapping[Hashable, float],
    *,
    classes: ArrayLike | Sequence[Hashable] | None = None,
) -> float:
    r"""Compute the mean of :math:`\log_2p(y_i|x_i)` plus :func:`baseline_information`, in bits (R&W, eq. 3.76).

    This is the test information: 0 for predicting the training class frequencies, the value of the baseline if perfect; −inf
    if a true class has probability 0. ``y_train`` contains the training labels, or their counts as ``{label: count}``.

    >>> information([3, 5], [[1.0, 0.0], [0.0, 1.0]], y_train={3: 50, 5: 50})
    1.0
    """
    who = "metrics.information"
    codes, p, labels = _rows(who, y, p, classes)
    base = _baseline(who, Counter(labels[i] for i in codes), y_train)
    return float(np.mean(_logs(codes, p)) / np.log(2) + base)


def baseline_information(y: ArrayLike, y_train: ArrayLike | Mapping[Hashable, float]) -> float:
    r"""Compute the baseline of the information, :math:`-\sum_c\frac{n_*^c}{n_*}\log_2\frac{n^c}n` bits (R&W, eq. 3.76).

    The loss of the best model without inputs: :math:`n^c` training rows and :math:`n_*^c` rows of y have class c. Give both as
    labels, or as counts ``{label: count}``.

    >>> round(baseline_information({3: 418, 5: 355}, {3: 406, 5: 361}), 5)  # threes and fives of the USPS digits
    0.99558
    """
    return _baseline("metrics.baseline_information", _counts("metrics.baseline_information", "y", y), y_train)


def errors(y: ArrayLike, p: ArrayLike, *, classes: ArrayLike | Sequence[Hashable] | None = None) -> int:
    r"""Count the rows whose most probable class is not the true one (R&W, section 3.7.3; Williams & Barber, section 5).

    Ties are resolved in favour of the first class, as in ``predict``, so a tie is an error only if that class is wrong.

    >>> errors(["no", "yes", "yes"], [0.2, 0.5, 0.9])
    1
    """
    codes, p, _ = _rows("metrics.errors", y, p, classes)
    return int(np.sum(p.argmax(1) != codes))


def error_rate(y: ArrayLike, p: ArrayLike, *, classes: ArrayLike | Sequence[Hashable] | None = None) -> float:
    r"""Compute the fraction of :func:`errors`, from 0 to 1 (R&W, section 3.7.4).

    >>> error_rate(["no", "yes"], [0.2, 0.4])
    0.5
    """
    codes, p, _ = _rows("metrics.error_rate", y, p, classes)
    return float(np.mean(p.argmax(1) != codes))


def accuracy(y: ArrayLike, p: ArrayLike, *, classes: ArrayLike | Sequence[Hashable] | None = None) -> float:
    r"""Compute the fraction of rows whose most probable class is the true one, 1 − :func:`error_rate`.

    >>> accuracy(["no", "yes"], [0.2, 0.9])
    1.0
    """
    codes, p, _ = _rows("metrics.accuracy", y, p, classes)
    return float(np.mean(p.argmax(1) == codes))


def errors_sd(count: float, n: int) -> float:
    r"""Compute the binomial standard deviation of e errors in n rows, :math:`\sqrt{e(1-e/n)}` (Gibbs, table 4.1).

    Divide by n for that of the error rate. It is 0 for 0 errors, although the rate is then still uncertain.

    >>> round(errors_sd(3, 120), 1), round(errors_sd(68, 332), 1)
    (1.7, 7.4)
    """
    if not 0 <= count <= n or n == 0:
        what = f"count is {count} of {counted(n, 'row')}"
        raise fail("metrics.errors_sd", what, "give a count from 0 to n, of 1 row or more", argument="count")
    return float(np.sqrt(count * (1 - count / n)))


# parts ----------------------------------------------------------------------------------------------------------


def _rows(
    who: str, y: ArrayLike, p: ArrayLike, classes: ArrayLike | Sequence[Hashable] | None
) -> tuple[np.ndarray, np.ndarray, list[Hashable]]:
    """Return the column of each row's true class, probabilities (n, C), and the labels of the columns, after checks."""
    p, seen = _probabilities(who, p), _labels(who, "y", y)
    if len(seen) != len(p):
        what = Option("y") + f" has {counted(len(seen), 'label')} but p has {counted(len(p), 'row')}"
        raise fail(who, what, "give one label per row")
    labels = _classes(who, classes, p.shape[1], f"p has {counted(p.shape[1], 'column')}", seen)
    return _codes(who, "y", seen, labels), p, labels


def _probabilities(who: str, p: ArrayLike) -> np.ndarray:
    array = as_numbers(who, "p", p, "give probabilities").astype(np.float64)
    if array.ndim not in (1, 2) or array.size == 0 or array.shape[1:] == (1,):
        do = "give one column for each of two or more classes, or one number per row, that of the second of two"
        raise fail(who, f"p has shape {array.shape}", do, argument="p")
    check_finite(who, "p", array)
    _refuse(who, (array < 0) | (array > 1 + 1e-6), "p is not between 0 and 1", "give probabilities, not scores or logarithms")
    if array.ndim == 1:
        return np.column_stack([1 - np.minimum(array, 1), array])
    _refuse(who, np.abs(array.sum(1) - 1) > 1e-6, "p does not sum to 1", "give the probabilities of all classes")
    return array


def _labels(who: str, name: str, value: ArrayLike | Sequence[Hashable], *, none: bool = False) -> list[Hashable]:
    """Return the labels as a list, keeping their types. Missing ones raise an error, except None if ``none`` is true."""
    array = np.asarray(as_array(who, name, value) if np.ma.isMaskedArray(value) else value, dtype=object)
    if array.ndim != 1 or array.size == 0:
        raise fail(who, f"{name} has shape {array.shape}", "give one label per entry", argument=name)
    items = array.tolist()
    for i, item in enumerate(items):
        if _missing(item) and not (none and item is None):
            raise fail(who, f"{name} is {item} " + Place(i), "drop such rows: they have no label", argument=name)
    return items


def _missing(item: Hashable) -> bool:
    try:
        hash(item)
        return item is None or not bool(item == item)
    except (TypeError, ValueError):  # pandas' NA, lists
        return True


def _classes(
    who: str, classes: ArrayLike | Sequence[Hashable] | None, size: int, what: str, *seen: list[Hashable]
) -> list[Hashable]:
    """Return the label of each column: ``classes`` if given, otherwise the sorted labels in ``seen``."""
    if classes is not None:
        labels = _labels(who, "classes", classes)
        if len(labels) != size or len(set(labels)) != size:
            what = f"classes is {_shown(labels)} but {what}"
            raise fail(who, what, "give one label per column, all different", argument="classes")
        return labels
    labels = _sorted(who, *seen)
    if len(labels) != size:
        what = Option("y") + f" contains {counted(len(labels), 'label')} but {what}"
        raise fail(who, what, "give classes, the label of each column in order")
    return labels


def _sorted(who: str, *seen: list[Hashable]) -> list[Hashable]:
    try:
        return sorted(set().union(*seen))  # type: ignore[type-var]
    except TypeError:
        what = Option("y") + " contains labels of different types, which cannot be sorted"
        raise fail(who, what, "give classes, the labels in order") from None


def _codes(who: str, name: str, items: list[Hashable], labels: list[Hashable]) -> np.ndarray:
    """Return the column of each label."""
    index = {label: i for i, label in enumerate(labels)}
    codes = np.array([index.get(item, -1) for item in items])
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        what = f"{name} is {items[row]!r}" + (" " + Place(row) if len(items) > 1 else Phrase())
        what = what + f", not among the classes {_shown(labels)}"
        raise fail(who, what, "give all classes, or drop such rows", argument=name)
    return codes


def _shown(labels: list[Hashable]) -> str:
    return f"[{', '.join(map(repr, labels[:6]))}{', ...' if len(labels) > 6 else ''}]"


def _logs(codes: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return the log probability of each row's true class, −inf for probability 0."""
    with np.errstate(divide="ignore"):
        return np.log(p[np.arange(len(p)), codes])


def _counts(who: str, name: str, value: ArrayLike | Mapping[Hashable, float]) -> Mapping[Hashable, float]:
    if not isinstance(value, Mapping):
        return Counter(_labels(who, name, value))
    if (
        not all(isinstance(n, int | float | np.integer | np.floating) and 0 <= n < np.inf for n in value.values())
        or sum(value.values()) == 0
    ):
        raise fail(who, f"{name} is {dict(value)}", "give a count of zero or more per label, not all zero", argument=name)
    return value


def _baseline(who: str, seen: Mapping[Hashable, float], y_train: ArrayLike | Mapping[Hashable, float]) -> float:
    """Compute the baseline of R&W, eq. 3.76, from counts of classes."""
    train = _counts(who, "y_train", y_train)
    missing = [label for label, n in seen.items() if n > 0 and train.get(label, 0) == 0]
    if missing:
        what = f"y_train does not contain {missing[0]!r} but y does"
        raise fail(who, what, "use a baseline that has every class of y", argument="y_train")
    n, total = sum(seen.values()), sum(train.values())
    return float(sum(k / n * np.log2(total / train[label]) for label, k in seen.items() if k > 0))
