"""Fits to tables as the command requests them: to rows in memory, or by a committee of experts whose rows stay on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from covary._checks import CovaryError
from covary._errors import Option
from covary._families import Json
from covary._memory import free_memory
from covary._words import counted, some
from covary.committee.experts import Dealt
from covary.committee.folders import clear, folder_for
from covary.committee.settings import Committee
from covary.committee.shuffle import Spool
from covary.committee.spool import spool_files
from covary.data import Inputs
from covary.families.gaussian_process import disk
from covary.families.gaussian_process.classes import check_choices, learn_classes
from covary.families.gaussian_process.options import Chosen
from covary.families.gaussian_process.processes import Processes
from covary.families.gaussian_process.regression import check_disk, learn_regression
from covary.families.gaussian_process.settings import CLASSIFIER, REGRESSOR, Rows, Settings, check_arguments, seed_of
from covary.fits import Fit, Origin, Outcome, Request, Task
from covary.fits.answers import NoAnswer
from covary.fits.learning import Executor, observations, outcome
from covary.kernels.combine import placed
from covary.kernels.text import parse
from covary.model import GP
from covary.posterior import Combination
from covary.tables.column import PERIODS
from covary.tables.columns import read_frame
from covary.tables.files import head_of, is_parquet, open_parquet
from covary.tables.given import Frame, Targets, read_labels, read_rows, read_targets, rows_kept
from covary.tables.parquet import Parquet
from covary.tables.roles import Roles, choose, numbers
from covary.tables.table import BadTable, Table, bad, passed_on, shown, wrong
from covary.tables.targets import Asked, Target, label_columns, recognise

SAMPLE = 20_000  # rows from which the kind of target of a table on disk is determined
SHARE = 0.7  # fraction of the free memory available to a table and its fit
NUMBERS = 120  # numbers per row kept by a fit in memory, in addition to those of the columns
ON_DISK = "kd_tree"  # default partition of rows that stay on disk: fast for thousands of experts
EXPERTS = ("experts", "rule", "partition", "learning", "nearest")  # options that request a committee


def prepare(request: Request) -> Task[Processes]:
    """Read and check a table, and return the fit that is ready to run."""
    own = Chosen.of(request.options)
    committee = wants_committee(request, own)
    seasons_of(own)
    source = left_on_disk(request, own, committee)
    return in_memory(request, own, committee) if source is None else on_disk(request, own, source)


# options --------------------------------------------------------------------------------------------------------------
def wants_committee(request: Request, own: Chosen) -> bool:
    """Return whether the options request a committee; options that contradict each other raise an error."""
    given = [name for name in EXPERTS if getattr(own, name) is not None]
    given += [name for name in (request.workers, "folder" if own.folder is not None else None) if name]
    if given and own.method not in ("auto", "committee"):
        what = Option(given[0]) + " is for a committee of experts, and " + Option("method") + f" is {own.method}"
        raise wrong(given[0], what, "leave one of them out, or use " + Option("method", "'committee'"))
    meant = bool(given) or own.method == "committee"
    if meant and own.objective != "evidence":
        what = Option("objective", f"'{own.objective}'") + " requires the exact method, not a committee of experts"
        raise wrong("objective", what, "leave one of them out")
    return meant


def seasons_of(own: Chosen) -> list[str]:
    """Return the seasons to add to the default kernel."""
    names = list(dict.fromkeys(part.strip() for value in own.seasonality for part in value.split(",") if part.strip()))
    unknown = [name for name in names if name not in PERIODS]
    if unknown:
        raise wrong("seasonality", Option("seasonality") + f" is {shown(unknown[0])}", f"choose from {', '.join(PERIODS)}")
    if names and own.kernel is not None:
        what = Option("seasonality") + " adds to the default kernel, and " + Option("kernel") + " gives another"
        raise wrong("seasonality", what, "write the season into it")
    return names


@contextmanager
def blaming_kernel(own: Chosen) -> Iterator[None]:
    """Name the option in errors about the kernel, if it was given."""
    try:
        yield
    except CovaryError as error:
        raise (error.about("kernel") if own.kernel is not None and error.package == "kernels" else error) from None


def check_kernel(request: Request, own: Chosen, inputs: Sequence[str]) -> None:
    """Raise an error for a kernel that cannot be parsed or does not fit the inputs."""
    if own.kernel is None or request.missing == "indicator":  # which adds inputs
        return
    with blaming_kernel(own):
        GP(placed(parse(own.kernel), list(inputs), "kernels.parse")).check(Inputs(np.zeros((1, len(inputs)))))


def settings_of(request: Request, own: Chosen, likelihood: str) -> Settings:
    """Return the arguments of the estimator that corresponds to the options, with the default method."""
    given: dict[str, Any] = {
        "kernel": own.kernel,
        "inference": own.inference,
        "max_time": request.max_time,
        "random_state": request.seed,
        "checkpoint": request.checkpoint,
        "seasonality": seasons_of(own) or None,
        "missing": request.missing,
    }
    if own.restarts is not None:
        given["n_restarts"] = own.restarts
    if likelihood != "classes":
        return replace(REGRESSOR, **given, likelihood=likelihood, objective=own.objective)
    inference = "laplace" if own.inference == "auto" else own.inference
    return replace(CLASSIFIER, **given | {"inference": inference}, link=own.link or "logit")


def committee_of(own: Chosen, rows: int, inputs: Sequence[str], folder: str | None = None) -> Committee:
    """Return the committee for a number of rows, which stay on disk if there is a ``folder``."""
    if own.partition is not None and own.partition.startswith("column:"):
        name = own.partition.removeprefix("column:")
        if name not in inputs:
            what = Option("partition") + f" names the column {shown(name)}, which is no input"
            raise wrong("partition", what, f"the inputs are {some([shown(c) for c in inputs], 8)}")
    given: dict[str, Any] = {
        "rule": own.rule,
        "partition": own.partition if folder is None or own.partition is not None else ON_DISK,
        "learning": own.learning,
        "folder": folder,
        "nearest": own.nearest,
    }
    made = Committee(own.experts, **{name: value for name, value in given.items() if value is not None})
    (made if folder is None else made.replace(table=folder)).check(rows)
    return made


def noted(own: Chosen, settings: Settings, likelihood: str) -> dict[str, Json]:
    """Return the values of options that were determined from the table."""
    return {"likelihood": likelihood, "restarts": settings.n_restarts, "seasonality": seasons_of(own)}


# rows in memory -------------------------------------------------------------------------------------------------------
def in_memory(request: Request, own: Chosen, committee: bool) -> Task[Processes]:
    """Return the fit to a table that is read completely."""
    if request.workers is not None and own.method != "committee" and all(getattr(own, name) is None for name in EXPERTS):
        what = Option(request.workers) + " is for committees of experts, or a Parquet table"
        raise wrong(request.workers, what, "leave it out, or use " + Option("method", "'committee'"))
    given = observations(request, asked_of(own))
    roles, found = given.roles, given.found
    check_kernel(request, own, roles.inputs)
    settings = settings_of(request, own, found.likelihood)
    method = committee_of(own, len(given.rows.values), roles.inputs) if committee else own.method
    settings = replace(settings, method=method)
    noise, weight, size = given.noise_variance, given.weight, given.size
    if roles.size is None and found.likelihood == "binomial" and (found.y > 1).any():
        i = int(np.flatnonzero(found.y > 1)[0])
        row, name = int(np.flatnonzero(given.rows.kept)[i]), roles.targets[0]
        what = f"column {shown(name)} of {given.table.name!r} is {found.y[i]:g} {given.table.where(row)}, of one trial"
        raise bad(what, "name the column of trials with " + Option("size_column"), row=row, column=name)
    y = found.y[:, 0] if found.y.ndim == 2 and found.y.shape[1] == 1 else found.y

    def run(executor: Executor) -> Outcome[Processes]:
        rows = given.rows.values[roles.inputs]
        with blaming_kernel(own):
            fit = learn(replace(settings, executor=executor), rows, y, roles.targets, noise=noise, weight=weight, size=size)
        return outcome(given, fit)

    options = noted(own, settings, found.likelihood)
    return Task(given.table, roles, found.words, run, options, given.categories, given.rows)


def asked_of(own: Chosen) -> Asked:
    """Return what the options specify about the target."""
    return Asked(own.likelihood, own.inference, own.link, own.objective)


def learn(
    settings: Settings,
    X: Frame,
    y: Targets,
    targets: Sequence[str],
    *,
    noise: np.ndarray | None = None,
    weight: np.ndarray | None = None,
    size: np.ndarray | None = None,
    reader: disk.Reader | None = None,
) -> Fit[Processes]:
    """Fit a Gaussian process to a frame, as the estimator with these settings does."""
    who, classes = settings.who, settings.who == CLASSIFIER.who
    check_arguments(who, settings.arguments)
    if classes:
        check_choices(settings)
    else:
        check_disk(settings, reader is not None, noise_variance=noise, sample_weight=weight, size=size)
    x, columns = read_frame(who, X, settings.missing)
    seen = read_labels(who, y, len(x)) if classes else read_targets(who, y, len(x))
    counts = read_rows(who, "sample_weight", weight, len(x), positive=True)
    others = read_rows(who, "noise_variance", noise, len(x)), counts, read_rows(who, "size", size, len(x))
    x, seen, noise, weight, size = rows_kept(x, seen, *others)
    assert seen is not None
    rows = Rows(x, seen, columns, tuple(targets), noise, weight, size, reader)
    origin = Origin(who, settings.arguments)
    fit = learn_classes(settings, rows, origin) if classes else learn_regression(settings, rows, origin)
    if not np.isfinite(fit.state.log_evidence):
        what = "learning did not reach a finite evidence"
        raise NoAnswer("fit", what, "rescale columns with extreme values")
    return fit


# rows on disk ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Left:
    """Table whose rows stay on disk: the roles of its columns, and the target according to a sample."""

    source: Parquet
    table: Table
    roles: Roles
    found: Target


def left_on_disk(request: Request, own: Chosen, committee: bool) -> Parquet | None:
    """Return the table if its rows stay on disk, or None if it is to be read completely.

    The rows stay on disk if workers or a folder are given, if a committee is requested and the table has more rows than are
    read completely, and if a fit would not fit in memory.
    """
    if not is_parquet(request.source):
        if own.folder is not None:
            what = Option("folder") + f" is for rows that stay in Parquet files, and {request.source!r} is not one"
            raise wrong("folder", what, "leave it out")
        return None
    placed = request.workers is not None or own.folder is not None
    if placed or committee:
        source = open_parquet(request.source)
        return source if placed or source.rows > disk.WHOLE else None
    if own.method != "auto":
        return None
    with suppress(BadTable):  # raised again when the table is read
        source = open_parquet(request.source)
        return source if too_large(source.rows, len(source.names)) else None
    return None


def too_large(rows: int, columns: int) -> bool:
    """Return whether a table and its fit would not fit in memory."""
    return 8 * rows * (NUMBERS + 4 * columns) > SHARE * free_memory()


def look(request: Request, own: Chosen, source: Parquet) -> Left:
    """Assign the columns of a table on disk, and determine the kind of target from a sample."""
    names = request.names
    each = {"noise_column": names.noise, "weight_column": names.weight, "size_column": names.size}
    for name, value in {**each, "categories": names.categories, "predictions": request.predictions}.items():
        if value:
            what = Option(name) + f" cannot be combined with rows that stay on disk ({source.rows:,} in {request.source!r})"
            raise wrong(name, what, "leave it out, or fit a table that is read into memory")
    files = f"{len(source.files)} files, " if len(source.files) > 1 else ""
    head = head_of(source, request.source, (f"{files}{counted(len(source.chunks), 'row group')}, left on disk",))
    roles = choose(head, targets=names.targets, inputs=names.inputs, ignore=names.ignore)
    if len(roles.targets) > 1:
        raise wrong("target", "several targets cannot be fitted to rows that stay on disk", "fit them one at a time")
    try:
        source.check(roles.all, "fit")
        sample = source.sample(roles.targets, SAMPLE, seed=0)
    except CovaryError as error:
        raise passed_on(error) from None
    table, asked = Table(request.source, sample), asked_of(own)
    labels = label_columns(table, roles, asked)
    values, kept = numbers(table, roles.targets, drop_missing=True, labels=labels)
    found = recognise(table, roles, values, kept, labels, asked)
    if len(sample) < source.rows and found.words:
        found = replace(found, words=found.words + f" (by a sample of {counted(len(sample), 'row')})")
    return Left(source, head, roles, found)


def on_disk(request: Request, own: Chosen, source: Parquet) -> Task[Processes]:
    """Return the fit of a committee whose experts read their rows from disk."""
    left = look(request, own, source)
    inputs, target = left.roles.inputs, left.roles.targets[0]
    check_kernel(request, own, inputs)
    settings = settings_of(request, own, left.found.likelihood)
    folder = f"{request.path}.rows" if own.folder is None else own.folder
    method = committee_of(own, source.rows, inputs, folder)
    if folder == "":
        raise wrong("folder", Option("folder") + " is empty", "give the name of a folder")
    settings = replace(settings, method=method, missing="drop" if request.drop_missing else request.missing)

    def run(executor: Executor) -> Outcome[Processes]:
        who, table = settings.who, Parquet(source.path, columns=[*inputs, target])
        reader = disk.read_source(who, table, target, method, settings.missing)
        assert reader is not None
        seed = seed_of(who, settings.random_state)
        X, y = reader.sample([name for name in table.names if name != target], seed, settings.missing)
        with blaming_kernel(own):
            fit = learn(replace(settings, executor=executor), X, y, [target], reader=reader)
        dealt = dealt_of(fit)
        open_ = int(dealt.left_out.get(target, 0))
        return Outcome(fit, dealt.rows, source.rows - dealt.rows - open_, open_)

    options = noted(own, settings, left.found.likelihood)
    scope = partial(folder_for, request.path, folder)
    task = Task(left.table, left.roles, left.found.words, run, options, scope=scope)
    return task if own.folder is not None else replace(task, written=partial(clear_others, folder=folder))


def dealt_of(fit: Fit[Processes]) -> Dealt:
    """Return the assignment of rows to the experts of a committee."""
    post = fit.state.first.posterior
    assert isinstance(post, Combination)
    return post.experts.settled


def clear_others(fit: Fit[Processes], folder: str) -> None:
    """Remove the sorted rows of earlier fits from the folder of a model."""
    where = dealt_of(fit).batches[0].where
    mine = spool_files(where.folder, where.files, where.mark) if isinstance(where, Spool) else []
    clear(folder, mine)
