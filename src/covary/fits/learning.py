"""Learning from tables for the command: the request to a family of models, its result, and the default implementation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic

import numpy as np

from covary._errors import Option, Text
from covary._families import Json
from covary._words import counted
from covary.executors import Dask, Serial
from covary.fits.fit import Fit, Labels, Scale, State
from covary.tables import targets
from covary.tables.columns import Columns
from covary.tables.observed import Names, Observations, Rows
from covary.tables.roles import Roles
from covary.tables.table import Table, shown, wrong
from covary.tables.targets import class_words

if TYPE_CHECKING:
    from covary.fits.family import AbstractFamily

Executor = Dask | Serial | None


@dataclass(frozen=True)
class Takes:
    """The data and the general settings that a family supports; the command checks them before learning begins.

    Parameters
    ----------
    fewest, most
        Number of targets; ``most=None`` is any number.
    kinds
        Kinds of target: ``"numbers"``, ``"classes"``.
    weights, noise, sizes
        Whether rows may have weights, a known noise, and a number of trials or an exposure.
    max_time, checkpoint, workers
        Whether learning can be limited in time, resumed after an interruption, and distributed.
    """

    fewest: int = 1
    most: int | None = None
    kinds: tuple[str, ...] = ("numbers",)
    weights: bool = False
    noise: bool = False
    sizes: bool = False
    max_time: bool = False
    checkpoint: bool = False
    workers: bool = False


@dataclass(frozen=True)
class Observed:
    """Training rows of a table, and the settings of the fit.

    Parameters
    ----------
    x, y
        Inputs (n, d) as numbers and targets (n,) or (n, p); classes are coded 0, 1, ...
    names
        Names of the input columns.
    weight, noise, size
        Weight, known noise variance, and trials or exposure of each row.
    labels
        The classes.
    settings
        Values of the settings of the family, by name.
    options
        Values of the options of the family, by name.
    seed, max_time, checkpoint, executor
        As in the estimators.
    """

    x: np.ndarray
    y: np.ndarray
    names: tuple[str, ...] = ()
    weight: np.ndarray | None = None
    labels: Labels | None = None
    seed: int = 0
    settings: Mapping[str, Json] = field(default_factory=dict)
    noise: np.ndarray | None = None
    size: np.ndarray | None = None
    options: Mapping[str, Json] = field(default_factory=dict)
    max_time: float | None = None
    checkpoint: str | None = None
    executor: Executor = None


@dataclass(frozen=True)
class Request:
    """Table to fit, and the settings of the fit.

    Parameters
    ----------
    source
        Name of the file; ``-`` reads CSV from stdin.
    names
        Names of the columns for each role.
    missing, drop_missing
        Treatment of missing inputs, and whether to leave out rows with any missing value.
    options
        Values of the options of the family, by name.
    settings
        Values of the settings of the family, by name.
    seed, max_time, checkpoint
        As in the estimators.
    workers
        The argument that selects a cluster, ``"scheduler"`` or ``"workers"``; None for this process.
    predictions
        Whether rows without a target are to be predicted.
    path
        Model file that will be written.
    """

    source: str
    names: Names
    missing: str = "refuse"
    drop_missing: bool = False
    options: Mapping[str, Json] = field(default_factory=dict)
    settings: Mapping[str, Json] = field(default_factory=dict)
    seed: int = 0
    max_time: float | None = None
    checkpoint: str | None = None
    workers: str | None = None
    predictions: bool = False
    path: str = ""


@dataclass(frozen=True)
class Outcome(Generic[State]):
    """Fit to a table, and how many of its rows were used, dropped, and without a target."""

    fit: Fit[State]
    learned: int
    dropped: int
    open: int


def _nothing(fit: Fit[object]) -> None:
    pass


@dataclass(frozen=True)
class Task(Generic[State]):
    """Fit of a table that has been read and checked, and only needs to be run.

    Parameters
    ----------
    table, roles
        The table, and the roles of its columns.
    words
        Description of the target.
    run
        Function that fits the model with an executor.
    options
        Values of options that were determined from the table, by name.
    categories
        Input columns that were declared to be categories.
    rows
        The rows, unless they stay on disk.
    scope
        Function that returns a context manager, entered from before the fit until the model is written.
    written
        Function called with the fit after the model has been written.
    """

    table: Table
    roles: Roles
    words: Text
    run: Callable[[Executor], Outcome[State]]
    options: Mapping[str, Json] = field(default_factory=dict)
    categories: Sequence[str] = ()
    rows: Rows | None = None
    scope: Callable[[], AbstractContextManager[object]] = nullcontext
    written: Callable[[Fit[State]], None] = _nothing


# rows in memory, for families of any kind ------------------------------------------------------------------------------
def prepared(family: AbstractFamily[State], request: Request) -> Task[State]:
    """Read and check the table of a request, and return the fit as a task that calls ``family.learn``."""
    check_taken(family, request)
    given = observations(request, kind_of(family, request))
    check_targets(family, given.roles)
    frame, y, labels, words = given.rows.values[given.roles.inputs], given.found.y, None, ""
    columns = Columns.fit(family.name, frame, request.missing)
    mapped = columns.matrix(family.name, frame)
    if given.found.likelihood == "classes":
        classes, counts = np.unique(y, return_counts=True)
        labels, words = Labels(classes, counts.astype(np.float64)), class_words(classes, counts)
        y = np.searchsorted(classes, y)
    elif len(given.roles.targets) == 1:
        words = f"numbers {np.min(y):.6g} to {np.max(y):.6g}"
    kept, per_row = ~mapped.gone, (given.weight, given.noise_variance, given.size)
    y = np.asarray(y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y, np.float64)[kept]
    weight, noise, size = (None if values is None else values[kept] for values in per_row)

    def run(executor: Executor) -> Outcome[State]:
        observed = Observed(
            mapped.x[kept],
            y,
            tuple(columns.keys),
            weight,
            labels,
            request.seed,
            request.settings,
            noise,
            size,
            request.options,
            request.max_time,
            request.checkpoint,
            executor,
        )
        state, method = family.learn(observed)
        count = len(given.roles.targets)
        scale = Scale(np.zeros(count), np.ones(count)) if count > 1 else Scale()
        return outcome(given, Fit(family.name, state, columns, tuple(given.roles.targets), scale, labels, method))

    return Task(given.table, given.roles, words, run, categories=given.categories, rows=given.rows)


def observations(request: Request, asked: targets.Asked) -> Observations:
    """Read the table of a request."""
    missing, drop = request.missing, request.drop_missing
    return Observations.read(request.source, request.names, asked, missing=missing, drop_missing=drop)


def outcome(given: Observations, fit: Fit[State]) -> Outcome[State]:
    """Return a fit to rows in memory with its row counts."""
    rows = given.rows
    return Outcome(fit, len(rows.values), int((~rows.kept & ~rows.open).sum()), int(rows.open.sum()))


def settings_of(family: AbstractFamily[State], given: Sequence[str]) -> dict[str, Json]:
    """Read the settings of a family from ``NAME=VALUE``."""
    out, known = {setting.name: setting.start for setting in family.settings}, {s.name: s for s in family.settings}
    several: dict[str, list[Json]] = {}
    for text in given:
        name, equals, value = text.partition("=")
        setting = known.get(name)
        if setting is None or not equals:
            what = Option("settings") + f" {shown(text)} is not a setting of the family {family.name!r}"
            names = "; ".join(f"{setting.name}: {setting.help}" for setting in family.settings)
            raise wrong("settings", what, f"its settings are {names}" if names else "it has none; leave it out")
        try:
            out[name] = setting.read(value)
        except ValueError:
            raise wrong(
                "settings", Option("settings") + f" {shown(text)} has a wrong value", f"give {setting.allowed}"
            ) from None
        if setting.multiple:
            out[name] = several[name] = [*several.get(name, []), out[name]]
    return out


def kind_of(family: AbstractFamily[State], request: Request) -> targets.Asked:
    """Return the kind of target of a family that supports only one kind; otherwise it is determined from the table.

    Numbers with a column of trials or exposures are counts.
    """
    kinds = {"numbers": "gaussian" if request.names.size is None else "poisson", "classes": "classes"}
    return targets.Asked(kinds[family.takes.kinds[0]] if len(family.takes.kinds) == 1 else "auto")


def check_taken(family: AbstractFamily[State], request: Request) -> None:
    """Raise an error if a family does not support a column for a role other than input and target, or a setting."""
    takes, names = family.takes, request.names
    for option, value, fine in (
        ("weight_column", names.weight, takes.weights),
        ("noise_column", names.noise, takes.noise),
        ("size_column", names.size, takes.sizes),
        ("max_time", request.max_time, takes.max_time),
        ("checkpoint", request.checkpoint, takes.checkpoint),
        (request.workers or "workers", request.workers, takes.workers),
    ):
        if value is not None and not fine:
            what = Option(option) + f" cannot be combined with the family {family.name!r}"
            raise wrong(option, what, "leave it out")


def check_targets(family: AbstractFamily[State], roles: Roles) -> None:
    """Raise an error if a family does not support the number of targets."""
    takes, count, most = family.takes, len(roles.targets), family.takes.most
    if count < takes.fewest or (most is not None and count > most):
        span = f"{takes.fewest}" if most == takes.fewest else f"{takes.fewest} or more" if most is None else f"at most {most}"
        what = Option("target") + f" names {counted(count, 'column')} and the family {family.name!r} takes {span}"
        raise wrong("target", what, "give a supported number of columns")
