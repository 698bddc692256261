"""From a table to a fitted model: read whole, or left on disk to the experts of a committee."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from covary._checks import CovaryError, NotPositiveDefinite
from covary.cli import disk
from covary.cli.columns import Roles, check_sign, choose, in_the_file, names_of
from covary.cli.crew import Crew
from covary.cli.doors import BadData, BadUsage, NoAnswer, sentence
from covary.cli.progress import learning
from covary.cli.rows import Rows, rows_of
from covary.cli.tables import Table, read_table, shown
from covary.cli.targets import Asked, Target, label_columns, recognise
from covary.cli.words import complaint


@dataclass
class Done:
    """A fitted model, the table it was fitted to, and what became of the rows; ``rows`` itself if they were read whole."""

    estimator: Any
    table: Table
    roles: Roles
    found: Target
    learned: int
    dropped: int
    open: int
    categories: list[str]
    rows: Rows | None = None


def in_memory(
    data: str,
    crew: Crew | None,
    searched: Any,
    settings: dict[str, Any],
    chosen: dict[str, Any],
    others: dict[str, Any],
    categories: Sequence[str],
    drop_missing: bool,
    progress: Any,
    stack: ExitStack,
) -> Done:
    """A table read whole, and what was learned from it; ``crew`` if by a committee."""
    asked, kernel, *_ = searched
    missing = settings["missing"]
    table = read_table(data)
    roles = choose(table, targets=chosen["target"], inputs=chosen["inputs"], ignore=chosen["ignore"], **others)
    labels = label_columns(table, roles, asked)
    enable_cache()
    if kernel is not None and missing != "indicator":
        check_kernel(kernel, roles.inputs)
    named = names_of(categories, table)
    rows = rows_of(table, roles, labels, drop_missing=drop_missing, missing=missing, categories=named)
    values, kept = rows.values, rows.kept
    found = recognise(table, roles, values, kept, labels, asked)
    estimator = unfitted(found, *searched).set_params(method=asked.method, **settings)
    if crew is not None:
        estimator.set_params(method=crew.committee(len(values), roles.inputs))
        estimator.set_params(executor=stack.enter_context(crew.at_work(progress)))
    learn_from(estimator, found, table, roles, values, kept, progress)
    dropped, open_ = int((~kept & ~rows.open).sum()), int(rows.open.sum())
    return Done(estimator, table, roles, found, len(values), dropped, open_, named, rows)


def on_disk(
    left: disk.Left,
    data: str,
    path: str,
    crew: Crew,
    searched: Any,
    settings: dict[str, Any],
    progress: Any,
    stack: ExitStack,
) -> Done:
    """A committee that reads its rows itself."""
    from covary.committee.sources import Parquet

    roles, source, kernel = left.roles, left.source, searched[1]
    enable_cache()
    if kernel is not None and settings["missing"] != "indicator":
        check_kernel(kernel, roles.inputs)
    folder = f"{path}.rows" if crew.folder is None else crew.folder
    committee = crew.committee(source.rows, roles.inputs, folder)
    estimator = unfitted(left.found, *searched).set_params(**settings)
    stack.enter_context(disk.room(crew.folder, path))
    estimator.set_params(method=committee, executor=stack.enter_context(crew.at_work(progress)))
    try:
        with learning(progress):
            estimator.fit(Parquet(source.path, columns=[*roles.inputs, *roles.targets]), roles.targets[0])
    except MemoryError:
        raise
    except CovaryError as error:
        raise refused(error, *disk.complaint(error, data)) from None
    learned, dropped, open_ = disk.rows_of_experts(estimator, roles.targets[0], source.rows)
    return Done(estimator, left.table, roles, left.found, learned, dropped, open_, [])


def refused(error: CovaryError, text: str, data: bool) -> CovaryError:
    """An error of a fit: an option is to blame, which the sentence then begins with, the table, or the computation."""
    computing = isinstance(error, NotPositiveDefinite) or text.startswith("inference.")
    if complaint(text).startswith("--") and not computing:
        return BadUsage(text)
    return BadData(text) if data else NoAnswer(text)


def enable_cache() -> str | None:
    """Keep compiled code between calls, where the home folder allows it."""
    import covary

    with suppress(OSError):
        return covary.enable_cache()
    return None


def check_kernel(text: str, inputs: Sequence[str]) -> None:
    """Refuse a kernel that cannot be read, or that does not fit the inputs, as wrong usage."""
    from covary.data import Inputs
    from covary.kernels.combine import placed
    from covary.kernels.text import parse
    from covary.model import GP

    try:
        GP(placed(parse(text), list(inputs), "kernels.parse")).check(Inputs(np.zeros((1, len(inputs)))))
    except CovaryError as error:
        raise BadUsage(f"--kernel: {sentence(error)}") from None


def unfitted(found: Target, asked: Asked, kernel: str | None, seed: int, max_time: float | None, restarts: int | None) -> Any:
    """The estimator for a target, with what was asked for."""
    from covary.estimators.classifier import GPClassifier
    from covary.estimators.regressor import GPRegressor

    if found.likelihood == "classes":
        how = "laplace" if asked.inference == "auto" else asked.inference
        estimator: Any = GPClassifier(kernel, inference=how, link=asked.link or "logit", max_time=max_time, random_state=seed)
    else:
        options: dict[str, Any] = {"likelihood": found.likelihood, "inference": asked.inference, "objective": asked.objective}
        estimator = GPRegressor(kernel, **options, max_time=max_time, random_state=seed)
    return estimator if restarts is None else estimator.set_params(n_restarts=restarts)


def learn_from(estimator: Any, found: Target, table: Table, roles: Roles, values: Any, kept: np.ndarray, progress: Any) -> None:
    """Fit the estimator, which then knows its columns by name."""
    options: dict[str, Any] = {}
    if roles.noise is not None:
        noise = values[roles.noise].to_numpy()
        check_sign(table, roles.noise, noise, kept, option="--noise-column")
        options["noise_variance"] = noise**2
    if roles.weight is not None:
        options["sample_weight"] = weight = values[roles.weight].to_numpy()
        check_sign(table, roles.weight, weight, kept, option="--weight-column")
        if not (weight > 0).any():
            raise BadUsage(f"--weight-column: every number of {roles.weight!r} is zero; give some rows a weight.")
    if roles.size is not None:
        options["size"] = values[roles.size].to_numpy()
        check_sign(table, roles.size, options["size"], kept, option="--size-column", positive=True)
    elif found.likelihood == "binomial" and (found.y > 1).any():
        row = int(np.flatnonzero(found.y > 1)[0])
        what = f"column {shown(roles.targets[0])} of {table.name!r} is {found.y[row]:g}"
        where = table.where(int(np.flatnonzero(kept)[row]))
        raise BadData(f"{what} {where}, of one trial; name the column of trials with --size-column.")
    y = found.y[:, 0] if found.y.ndim == 2 and found.y.shape[1] == 1 else found.y
    try:
        with learning(progress):
            estimator.fit(values[roles.inputs], y, **options)
    except MemoryError:
        raise
    except CovaryError as error:  # the estimator's own complaints are about the data, all others about the computation
        who = f"{type(estimator).__name__}: "
        text = sentence(error)
        mine = text.startswith(who)
        if mine:
            text = who + in_the_file(text.removeprefix(who), table, kept, roles.targets[0])
        raise refused(error, text, mine) from None
    estimator.target_names_ = list(roles.targets)
    if not np.isfinite(estimator.log_marginal_likelihood_):
        raise NoAnswer("learning ended without a finite evidence; look for columns of extreme size, and rescale them.")
