"""What a target is: classes, counts or measurements. Found out from its values unless it is said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from covary.cli.classes import as_number, fractional, label_text, labels_of, names_classes, true_or_false
from covary.cli.columns import Roles
from covary.cli.doors import BadData, BadUsage
from covary.cli.tables import Frame, Table, shown

KINDS = {  # what --likelihood takes beside auto, and what is said of it
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
SIZED = ("poisson", "negative_binomial", "binomial")
FEWEST, LOWEST, TYPICAL = 3, 1, 30  # counts: different values at least, smallest value and mean at most
MOST_CLASSES = 20  # different texts that are classes without a question, even if nearly every row has its own


@dataclass(frozen=True)
class Asked:
    """What was said about the target on the command line."""

    likelihood: str = "auto"
    inference: str = "auto"
    link: str | None = None
    method: str = "auto"
    objective: str = "evidence"


@dataclass(frozen=True)
class Target:
    """What the target is: the values to learn from, the likelihood by name, and the words about it."""

    likelihood: str
    y: np.ndarray
    words: str


def looks_like_counts(y: np.ndarray) -> bool:
    """The rule by which numbers are taken for counts.

    All are whole and not negative, at least three of them differ, the smallest is 0 or 1, and their mean is at most 30: larger
    counts are as well described by Gaussian noise.

    Examples
    --------
    >>> looks_like_counts(np.array([0, 2, 5, 1])), looks_like_counts(np.array([1990, 1991, 1993]))
    (True, False)
    """
    return (
        _whole(y)
        and len(np.unique(y)) >= FEWEST
        and bool(y.min() <= LOWEST)  # years, sizes and temperatures seldom come near zero
        and bool(y.mean() <= TYPICAL)
    )


def looks_like_two_classes(y: np.ndarray) -> bool:
    """The rule by which numbers are taken for classes: two different whole numbers, one of them more than once."""
    return len(y) > 2 and len(np.unique(y)) == 2 and bool((y == np.floor(y)).all())


def _whole(y: np.ndarray) -> bool:
    return bool(((y >= 0) & (y == np.floor(y))).all())


# before the numbers are read ------------------------------------------------------------------------------------
def label_columns(table: Table, roles: Roles, asked: Asked) -> list[str]:
    """Which targets are read as classes whatever they hold; combinations that make no sense are refused."""
    _check_usage(roles, asked)
    words = [name for name in roles.targets if names_classes(table.frame[name])]
    if len(roles.targets) > 1:
        for name in words:
            if not true_or_false(table.frame[name]):
                raise BadData(f"column {shown(name)} of {table.name!r} holds text, which means classes; fit it by itself.")
        return []
    if asked.likelihood == "classes":
        return roles.targets
    if asked.likelihood != "auto" or not words:
        return []
    if not true_or_false(table.frame[words[0]]):
        _check_text(table, words[0])
    elif roles.noise is not None:  # true and false are 1 and 0 where the noise is known
        return []
    return words


def _check_usage(roles: Roles, asked: Asked) -> None:
    """Options that contradict each other, whatever the table holds."""
    name = f"--likelihood {asked.likelihood}"
    if len(roles.targets) > 1:
        if asked.likelihood not in ("auto", "gaussian"):
            raise BadUsage(f"{name} goes with one target; fit the targets one at a time.")
        for option, given in (
            ("--noise-column", roles.noise),
            ("--size-column", roles.size),
            (f"--inference {asked.inference}", asked.inference in ("laplace", "ep")),
        ):
            if given:
                raise BadUsage(f"{option} goes with one target; fit the targets one at a time.")
    if roles.noise is not None and asked.likelihood not in ("auto", "gaussian"):
        raise BadUsage(f"--noise-column is the size of Gaussian noise and does not go with {name}; leave one of them out.")
    if roles.size is not None and asked.likelihood not in ("auto", *SIZED):
        raise BadUsage(f"--size-column goes with counts and binomial successes, not with {name}; leave one of them out.")
    if asked.link is not None and asked.likelihood not in ("auto", "classes"):
        raise BadUsage(f"--link goes with two classes, not with {name}; leave one of them out.")


# after they are read --------------------------------------------------------------------------------------------
def recognise(table: Table, roles: Roles, values: Frame, kept: np.ndarray, labels: list[str], asked: Asked) -> Target:
    """What the target is, by what was asked for or by its values."""
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
    """A target of numbers; None where they are two classes."""
    kind, other = asked.likelihood, ""
    if kind == "auto":
        kind = "gaussian"
        if roles.size is not None:
            if not _whole(y):
                what = f"{shown(roles.targets[0])} holds other numbers"
                raise BadUsage(f"--size-column goes with counts and binomial successes, but {what}; leave it out.")
            kind, other = "negative_binomial", " (override with --likelihood binomial if the sizes are trials)"
        elif roles.noise is None and looks_like_two_classes(y):
            return None
        elif roles.noise is None and looks_like_counts(y):
            kind, other = "negative_binomial", " (override with --likelihood gaussian or classes)"
    what = {"poisson": "counts", "negative_binomial": "counts", "binomial": "successes", "ordinal": "levels"}.get(kind)
    span = f"{y.min():.6g} to {y.max():.6g}"
    return Target(kind, y, f"{what or 'numbers'} {span}; {KINDS[kind]}{other}")


def _classes(labels: np.ndarray, other: str = "") -> Target:
    """Classes, with how many rows each has."""
    override = f" (override with --likelihood {other})" if other else ""
    return Target("classes", labels, f"{class_words(*np.unique(labels, return_counts=True))}; classification{override}")


def class_words(classes: Any, counts: Any) -> str:
    """How many classes there are and how many rows each has.

    Examples
    --------
    >>> class_words(["No", "Yes"], [132, 68])
    '2 classes (No 132, Yes 68)'
    """
    names = [label_text(c) for c in classes]
    parts = [f"{c if len(c) <= 40 else c[:37] + '...'} {n:g}" for c, n in zip(names, counts, strict=True)]
    more = f" and {len(parts) - 10} more" if len(parts) > 10 else ""
    return f"{len(parts)} class{'es' * (len(parts) > 1)} ({', '.join(parts[:10])}{more})"


def _check_text(table: Table, name: str) -> None:
    """Refuse text that was hardly meant as classes: a word among measurements, or a text of its own for nearly every row."""
    column = table.frame[name]
    there = np.flatnonzero(~column.isna().to_numpy())
    items = column.dropna().tolist()
    if any(fractional(item) for item in items):
        odd = [i for i, item in enumerate(items) if as_number(item) is None]
        more = f", {len(odd)} such values in all" if len(odd) > 1 else ""
        raise BadData(
            f"column {shown(name)} of {table.name!r} holds text among numbers ({shown(items[odd[0]])} "
            f"{table.where(int(there[odd[0]]))}{more}); correct it, or say --likelihood classes if these are classes."
        )
    different = len({label_text(item) for item in items})
    if different > MOST_CLASSES and 2 * different > len(items):
        raise BadData(
            f"column {shown(name)} of {table.name!r} holds {different} different texts in {len(items)} rows, too many to be "
            "taken for classes; choose another target, or say --likelihood classes."
        )


def _check_classes(table: Table, roles: Roles, found: Target, asked: Asked) -> None:
    name = roles.targets[0]
    if found.likelihood != "classes":
        if asked.link is not None:
            raise BadUsage(f"--link goes with two classes, but {shown(name)} holds numbers; leave it out.")
        return
    for option, given in (("--noise-column", roles.noise), ("--size-column", roles.size)):
        if given is not None:
            raise BadUsage(f"{option} does not go with classes, and {shown(name)} names classes; leave it out.")
    classes = np.unique(found.y)
    if len(classes) < 2:
        raise BadData(
            f"column {shown(name)} of {table.name!r} holds one class only ({shown(label_text(classes[0]))}); "
            "give rows of two classes or more."
        )
    if asked.link is not None and len(classes) > 2:
        raise BadUsage(f"--link goes with two classes, but {shown(name)} holds {len(classes)}; leave it out.")


def _check_inference(name: str, found: Target, asked: Asked) -> None:
    kind, how = found.likelihood, asked.inference
    what = "classes" if kind == "classes" else KINDS[kind]
    if how == "exact" and kind != "gaussian":
        more = "; leave it out" if asked.likelihood != "auto" else "; leave it out, or add --likelihood gaussian"
        more = "; leave it out" if kind == "classes" and found.y.dtype.kind in "US" else more
        raise BadUsage(f"--inference exact goes with Gaussian noise, but {shown(name)} is fitted as {what}{more}.")
    if asked.objective != "evidence" and kind != "gaussian":
        raise BadUsage(f"--objective {asked.objective} goes with Gaussian noise, but {shown(name)} is fitted as {what}.")
    if how == "laplace" and kind == "laplace":
        raise BadUsage("--inference laplace finds no curvature in Laplace noise; choose ep, or leave it out.")
    if how == "ep" and (kind == "heteroscedastic" or (kind == "classes" and len(np.unique(found.y)) > 2)):
        which = "two classes" if kind == "classes" else "one latent function"
        raise BadUsage(f"--inference ep goes with {which}, but {shown(name)} has more; choose laplace, or leave it out.")
