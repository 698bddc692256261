"""Options of the estimators, checked once when ``fit`` begins: of the wrong kind, each is one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from covary._checks import check_count, check_object, fail, is_missing, shown
from covary._module import Marked

MOST_RESTARTS = 10_000


def _paths(value: Any) -> bool:
    each = [value] if isinstance(value, str) else value
    return isinstance(each, Sequence | set | frozenset) and all(isinstance(path, str) for path in each)


def _boxes(value: Any) -> bool:
    if value is None:
        return True
    if not isinstance(value, Mapping) or not all(isinstance(path, str) for path in value):
        return False
    pairs = [pair for pair in value.values() if isinstance(pair, Sequence | np.ndarray) and len(pair) == 2]
    return len(pairs) == len(value) and all(isinstance(end, Real) for pair in pairs for end in pair)


def _number(value: Any) -> bool:
    kinds: Any = (Real,)
    return isinstance(value, kinds) and not isinstance(value, bool | np.bool_) and abs(value) < 1e300


KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "standardise": (lambda v: isinstance(v, bool | np.bool_), "give True or False"),
    "fixed": (_paths, "give paths of parameters as text: ('kernel.period',)"),
    "bounds": (_boxes, "give bounds by path: {'likelihood.variance': (1e-4, 1.0)}"),
    "priors": (
        lambda v: v is None or isinstance(v, str) or (isinstance(v, Mapping) and all(isinstance(path, str) for path in v)),
        "give 'default', None, or distributions by path",
    ),
    "noise": (
        lambda v: v is None or isinstance(v, Marked) or _number(v) or (isinstance(v, np.ndarray) and v.size == 1),
        "give positive, finite numbers",
    ),
    "max_time": (
        lambda v: v is None or (_number(v) and v >= 0) or (isinstance(v, float) and v == np.inf),
        "give a positive number of seconds, or None",
    ),
    "checkpoint": (lambda v: v is None or (isinstance(v, str | PathLike) and str(v) != ""), "give the name of a file, or None"),
    "seasonality": (
        lambda v: v is None or _paths(v),
        "choose 'yearly', 'weekly', 'daily', or a list of these",
    ),
    "objective": (
        lambda v: isinstance(v, str) or (callable(v) and not isinstance(v, type)),
        "choose 'evidence', 'loo', 'gcv', 'kfold', or give an objective from covary.selection",
    ),
    "mean": (lambda v: not isinstance(v, type | np.ndarray), "choose 'zero', 'constant', 'linear', or give a function"),
}


def check_options(estimator: Any) -> None:
    """Refuse options of the wrong kind, before anything is read."""
    who, given = type(estimator).__name__, estimator.get_params(deep=False)
    for name, value in given.items():
        if name != "kernel" and (hasattr(value, "columns") or (isinstance(value, np.ndarray) and np.ndim(value))):
            raise fail(who, f"{name} is {shown(value)}", "give data to fit(X, y)")
        check_object(who, name, value)
        ok, do = KINDS.get(name, (lambda v: True, "give another value"))
        if (is_missing(value) and value is not None) or not ok(value):
            raise fail(who, f"{name} is {shown(value)}", do)
    check_count(who, "n_restarts", given["n_restarts"], most=MOST_RESTARTS)
    if given["random_state"] is not None:
        random_of(who, given["random_state"])


def random_of(who: str, random_state: Any) -> np.random.RandomState:
    """scikit-learn's rule for seeds."""
    try:
        return check_random_state(random_state)
    except (ValueError, TypeError, OverflowError):
        what = f"random_state is {shown(random_state)}"
        raise fail(who, what, "give a whole number from 0 to 2**32 - 1, a RandomState, or None") from None


def check_level(who: str, level: Any) -> float:
    """A probability strictly between 0 and 1."""
    if not (_number(level) and 0 < level < 1):
        raise fail(who, f"level is {shown(level)}", "give a number between 0 and 1, such as 0.95")
    return float(level)
