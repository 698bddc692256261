"""Type of a target: classes, counts or measurements, determined from its values unless it is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from covary._errors import Option, Phrase, Text
from covary._words import some
from covary.tables.labels import as_number, fractional, label_text, labels_of, true_or_false
from covary.tables.roles import Roles
from covary.tables.table import BadChoice, Column, Frame, Table, bad, is_text, shown, wrong

KINDS = {  # values of --likelihood besides auto, and their descriptions
    "classes": "classification",
    "gaussian": "Gaussian regression",
    "student_t": "Student-t regression",
    "laplace": "regression with Laplace noise",
    "heteroscedastic": "regression with noise that varies",
    "poisson": "Poisson regression",
    "negative_binomial": "negative-binomial regression",
    "binomial": "binomial regression",
    "gamma": "gamma regression",
    "ordinal": "ordinal regression",
}
SIZES = "counts or binomial successes"
SIZED = ("poisson", "negative_binomial", "binomial")
FEWEST, LOWEST, TYPICAL = 3, 1, 30  # counts: minimum of distinct values, maximum of the smallest value and of the mean
MOST_CLASSES = 20  # distinct texts always accepted as classes, even if nearly every row has a different one


@dataclass(frozen=True)
class Asked:
    """Settings of the target from the command line."""

    likelihood: str = "auto"
    inference: str = "auto"
    link: str | None = None
    objective: str = "evidence"


@dataclass(frozen=True)
class Target:
    """Target: training values, name of the likelihood, and description."""

    likelihood: str
    y: np.ndarray
    words: Text


def looks_like_counts(y: np.ndarray) -> bool:
    """Return whether numbers are treated as counts.

    They are if all are non-negative integers, at least three are distinct, the smallest is 0 or 1, and the mean is at most 30:
    Gaussian noise describes larger counts equally well.

    Examples
    --------
    >>> looks_like_counts(np.array([0, 2, 5, 1])), looks_like_counts(np.array([1990, 1991, 1993]))
    (True, False)
    """
    return (
        _whole(y)
        and len(np.unique(y)) >= FEWEST
        and bool(y.min() <= LOWEST)  # years, sizes and temperatures are rarely near zero
        and bool(y.mean() <= TYPICAL)
    )


def looks_like_two_classes(y: np.ndarray) -> bool:
    """Return whether numbers are treated as classes: two distinct integers, one of them more than once."""
    return len(y) > 2 and len(np.unique(y)) == 2 and bool((y == np.floor(y)).all())


def _whole(y: np.ndarray) -> bool:
    return bool(((y >= 0) & (y == np.floor(y))).all())


# before the numbers are read ------------------------------------------------------------------------------------
def names_classes(column: Column) -> bool:
    """Return whether a column can only contain classes: booleans, or text that is not all numbers."""
    if column.dtype.kind == "b":
        return True
    if not is_text(column) or column.dtype.kind in "mM":
        return False
    items = column.dropna().tolist()
    return bool(items) and (true_or_false(column) or any(as_number(item) is None for item in items))


def label_columns(table: Table, roles: Roles, asked: Asked) -> list[str]:
    """Return the targets to read as class labels, and raise an error for inconsistent options."""
    _check_usage(roles, asked)
    words = [name for name in roles.targets if names_classes(table.frame[name])]
    if len(roles.targets) > 1:
        for name in words:
            if not true_or_false(table.frame[name]):
                what = f"column {shown(name)} of {table.name!r} contains text, i.e. classes"
                raise bad(what, "fit it by itself", column=name)
        return []
    if asked.likelihood == "classes":
        return roles.targets
    if asked.likelihood != "auto" or not words:
        return []
    if not true_or_false(table.frame[words[0]]):
        _check_text(table, words[0])
    elif roles.noise is not None:  # true and false are 1 and 0 if the noise is known
        return []
    return words


def _check_usage(roles: Roles, asked: Asked) -> None:
    """Raise an error for options that contradict each other, whatever the table contains."""
    likelihood = Option("likelihood", repr(asked.likelihood))
    if len(roles.targets) > 1:
        if asked.likelihood not in ("auto", "gaussian"):
            raise _one_target(likelihood)
        for option, given in (
            (Option("noise_column"), roles.noise),
            (Option("size_column"), roles.size),
            (Option("inference", repr(asked.inference)), asked.inference in ("laplace", "ep")),
        ):
            if given:
                raise _one_target(option)
    one = "leave one of them out"
    if roles.noise is not None and asked.likelihood not in ("auto", "gaussian"):
        what = Option("noise_column") + " is the size of Gaussian noise and cannot be combined with " + likelihood
        raise wrong("noise_column", what, one)
    if roles.size is not None and asked.likelihood not in ("auto", *SIZED):
        raise wrong("size_column", Option("size_column") + f" requires {SIZES}, not " + likelihood, one)
    if asked.link is not None and asked.likelihood not in ("auto", "classes"):
        raise wrong("link", Option("link") + " requires two classes, not " + likelihood, one)


def _one_target(option: Option) -> BadChoice:
    return wrong(option.name, option + " requires a single target", "fit the targets one at a time")


# after they are read --------------------------------------------------------------------------------------------
def recognise(table: Table, roles: Roles, values: Frame, kept: np.ndarray, labels: list[str], asked: Asked) -> Target:
    """Return the type of the target, from the options or from its values."""
    if len(roles.targets) > 1:
        return Target("gaussian", values[roles.targets].to_numpy(), "")
    name = roles.targets[0]
    column = values[name]
    if labels:
        found = _classes(labels_of(table, name, column, kept))
    else:
        found = _numbers(table, roles, column.to_numpy(), asked)
        if found is None:  # two different numbers
            found = _classes(labels_of(table, name, column, kept), "gaussian")
    _check_classes(table, roles, found, asked)
    _check_inference(name, found, asked)
    return found


def _numbers(table: Table, roles: Roles, y: np.ndarray, asked: Asked) -> Target | None:
    """Return a target of numbers; None if they are two classes."""
    kind = asked.likelihood
    other: Text = ""
    if kind == "auto":
        kind = "gaussian"
        if roles.size is not None:
            if not _whole(y):
                what = Option("size_column") + f" requires {SIZES}, but {shown(roles.targets[0])} contains other numbers"
                raise wrong("size_column", what, "leave it out")
            kind, other = "negative_binomial", _override("binomial", " if the sizes are trials")
        elif roles.noise is None and looks_like_two_classes(y):
            return None
        elif roles.noise is None and looks_like_counts(y):
            kind, other = "negative_binomial", _override("gaussian", " or classes")
    what = {"poisson": "counts", "negative_binomial": "counts", "binomial": "successes", "ordinal": "levels"}.get(kind)
    span = f"{y.min():.6g} to {y.max():.6g}"
    return Target(kind, y, f"{what or 'numbers'} {span}; {KINDS.get(kind, f'{kind} regression')}" + other)


def _classes(labels: np.ndarray, other: str = "") -> Target:
    """Return a target of classes."""
    words = f"{class_words(*np.unique(labels, return_counts=True))}; classification"
    return Target("classes", labels, words + (_override(other) if other else ""))


def _override(likelihood: str, more: str = "") -> Phrase:
    return " (override with " + Option("likelihood", repr(likelihood)) + f"{more})"


def class_words(classes: Any, counts: Any) -> str:
    """Return the number of classes and of rows in each.

    Examples
    --------
    >>> class_words(["No", "Yes"], [132, 68])
    '2 classes (No 132, Yes 68)'
    """
    names = [label_text(c) for c in classes]
    parts = [f"{c if len(c) <= 40 else c[:37] + '...'} {n:g}" for c, n in zip(names, counts, strict=True)]
    return f"{len(parts)} class{'es' * (len(parts) > 1)} ({some(parts, 10)})"


def _check_text(table: Table, name: str) -> None:
    """Raise an error for text that is unlikely to be classes: words among numbers, or different text in nearly every row."""
    column, classes = table.frame[name], Option("likelihood", "'classes'")
    there = np.flatnonzero(~column.isna().to_numpy())
    items = column.dropna().tolist()
    if any(fractional(item) for item in items):
        odd = [i for i, item in enumerate(items) if as_number(item) is None]
        more, row = f", {len(odd)} such values in all" if len(odd) > 1 else "", int(there[odd[0]])
        place = f"{table.where(row)}{more}"
        what = f"column {shown(name)} of {table.name!r} contains text among numbers ({shown(items[odd[0]])} {place})"
        raise bad(what, "correct it, or give " + classes + " if these are classes", row=row, column=name)
    different = len({label_text(item) for item in items})
    if different > MOST_CLASSES and 2 * different > len(items):
        what = f"column {shown(name)} of {table.name!r} contains {different} different texts in {len(items)} rows"
        do = "choose another target, or give " + classes
        raise bad(f"{what}, too many to be classes", do, column=name)


def _check_classes(table: Table, roles: Roles, found: Target, asked: Asked) -> None:
    name, link, out = roles.targets[0], Option("link"), "leave it out"
    if found.likelihood != "classes":
        if asked.link is not None:
            raise wrong("link", link + f" requires two classes, but {shown(name)} contains numbers", out)
        return
    for option, given in ((Option("noise_column"), roles.noise), (Option("size_column"), roles.size)):
        if given is not None:
            raise wrong(option.name, option + f" cannot be combined with classes, and {shown(name)} contains classes", out)
    classes = np.unique(found.y)
    if len(classes) < 2:
        what = f"column {shown(name)} of {table.name!r} has only one class ({shown(label_text(classes[0]))})"
        raise bad(what, "give rows of two classes or more", column=name)
    if asked.link is not None and len(classes) > 2:
        raise wrong("link", link + f" requires two classes, but {shown(name)} has {len(classes)}", out)


def _check_inference(name: str, found: Target, asked: Asked) -> None:
    kind, how = found.likelihood, asked.inference
    what = "classes" if kind == "classes" else KINDS.get(kind, f"{kind} regression")
    option = Option("inference", repr(how))
    if how == "exact" and kind != "gaussian":
        fixed = asked.likelihood != "auto" or (kind == "classes" and found.y.dtype.kind in "US")
        do = "leave it out" if fixed else "leave it out, or add " + Option("likelihood", "'gaussian'")
        raise wrong("inference", option + f" requires Gaussian noise, but {shown(name)} is fitted as {what}", do)
    if asked.objective != "evidence" and kind != "gaussian":
        objective = Option("objective", repr(asked.objective))
        raise wrong("objective", objective + f" requires Gaussian noise, but {shown(name)} is fitted as {what}", "leave it out")
    if how == "laplace" and kind == "laplace":
        what = "inference"
        raise wrong(what, option + " is not possible with Laplace noise, which has no curvature", "choose ep, or leave it out")
    if how == "ep" and (kind == "heteroscedastic" or (kind == "classes" and len(np.unique(found.y)) > 2)):
        which = "two classes" if kind == "classes" else "one latent function"
        raise wrong("inference", option + f" requires {which}, but {shown(name)} has more", "choose laplace, or leave it out")
