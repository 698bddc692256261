"""A fit whose rows stay on disk: a Parquet table too large to be read whole, or workers who read it themselves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from covary._checks import CovaryError
from covary._words import counted
from covary.cli.columns import Roles, choose, numbers
from covary.cli.crew import Crew
from covary.cli.doors import BadData, BadUsage, sentence
from covary.cli.output import new_folder
from covary.cli.tables import Table, is_parquet, open_parquet
from covary.cli.targets import Asked, Target, label_columns, recognise

SAMPLE = 20_000  # rows of the target from which it is found out what it is
SHARE = 0.7  # of the free memory that a table and its fit may take
NUMBERS = 120  # kept for every row by a fit in memory, besides those of its columns


@dataclass(frozen=True)
class Left:
    """A table whose rows stay where they are: its columns, what each is for, and what the target is."""

    source: Any
    table: Table
    roles: Roles
    found: Target


def left_on_disk(data: str, crew: Crew, method: str, *, meant: bool) -> Any:
    """The table, if its rows are to stay on disk; None if it is to be read whole.

    They stay where --scheduler, --workers or --folder are given, where a committee is meant and the table has more rows than
    are read whole, and where nothing else would fit into memory.
    """
    if not is_parquet(data):
        if crew.folder is not None:
            raise BadUsage(f"--folder is for rows that stay in Parquet files, and {data!r} is none; leave it out.")
        return None
    from covary.estimators.tables import WHOLE

    placed = crew.cluster is not None or crew.folder is not None
    if placed or meant:
        source = open_parquet(data)
        return source if placed or source.rows > WHOLE else None
    if method != "auto":
        return None
    with suppress(BadData):  # reading it whole says what is wrong
        source = open_parquet(data)
        return source if too_large(source.rows, len(source.names)) else None
    return None


def too_large(rows: int, columns: int) -> bool:
    """Whether a table and what a fit keeps for every row would not fit into memory."""
    from covary._memory import free_memory

    return 8 * rows * (NUMBERS + 4 * columns) > SHARE * free_memory()


def look(
    source: Any, data: str, asked: Asked, *, target: Sequence[str], inputs: Sequence[str], ignore: Sequence[str], **refused: Any
) -> Left:
    """Which columns are for what, and what the target is by a sample of it; what cannot be had from disk is refused."""
    import pandas as pd

    for option, given in refused.items():
        if given:
            what = f"--{option.replace('_', '-')} does not go with rows that stay on disk ({source.rows:,} in {data!r})"
            raise BadUsage(f"{what}; leave it out, or fit a table that is read whole.")
    head = Table(data, pd.DataFrame({name: [] for name in source.names}), notes=_files(source))
    roles = choose(head, targets=target, inputs=inputs, ignore=ignore)
    if len(roles.targets) > 1:
        raise BadUsage("several targets do not go with rows that stay on disk; fit them one at a time.")
    try:
        source.check(roles.all, "fit")
        sample = source.sample(roles.targets, SAMPLE, seed=0)
    except CovaryError as error:
        raise BadData(sentence(error)) from None
    some = Table(data, sample)
    labels = label_columns(some, roles, asked)
    values, kept = numbers(some, roles.targets, drop_missing=True, labels=labels)
    found = recognise(some, roles, values, kept, labels, asked)
    if len(sample) < source.rows and found.words:
        found = replace(found, words=f"{found.words} (by a sample of {counted(len(sample), 'row')})")
    return Left(source, head, roles, found)


def _files(source: Any) -> tuple[str, ...]:
    files = f"{len(source.files)} files, " if len(source.files) > 1 else ""
    return (f"{files}{counted(len(source.chunks), 'row group')}, left on disk",)


@contextmanager
def room(given: str | None, model: str) -> Iterator[str]:
    """The folder for rows sorted by expert: the one that was given, or one beside the model; gone again if the fit fails.

    Once the model is written it needs the folder, whatever happens then: a report that cannot be drawn, Ctrl-C.
    """
    if given == "":
        raise BadUsage("--folder is empty; give the name of a folder.")
    before = _file(model)
    folder = Path(f"{model}.rows" if given is None else given)
    new = not folder.exists()
    new_folder(folder, "--folder", parents=False)
    try:
        yield str(folder)
    except BaseException:
        if new and _file(model) == before:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    with suppress(OSError):
        folder.rmdir()  # as the data arrive nothing is sorted, and nothing is in it


def _file(model: str) -> tuple[int, int] | None:
    """What tells a model file from one that took its place; None if there is none."""
    try:
        about = Path(model).stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns


def clear_others(estimator: Any, folder: str) -> None:
    """Remove from the folder beside a model the sorted rows of fits before it, which nobody needs once it is written."""
    from covary.committee.shuffle import Spool
    from covary.committee.spool import spool_files

    where = estimator.posterior_.bound.settled.batches[0].where
    mine = spool_files(where.folder, where.files, where.mark) if isinstance(where, Spool) else []
    names = {Path(file).name for file in mine}
    for file in Path(folder).glob("rows-*.spool"):
        if file.name not in names:
            with suppress(OSError):
                file.unlink()


def complaint(error: CovaryError, data: str) -> tuple[str, bool]:
    """What the library says of a table on disk, and whether the table is to blame."""
    text = sentence(error)
    who, _, rest = text.partition(": ")
    if who in ("GPRegressor", "GPClassifier", "fit", "Parquet", "spread", "sample"):
        return f"{who}: " + rest.replace(" of X ", f" of {data!r} ", 1), True
    return text, False


def rows_of_experts(estimator: Any, target: str, rows: int) -> tuple[int, int, int]:
    """How many rows were learned from, left out for gaps, and without a target."""
    settled = estimator.posterior_.bound.settled
    learned, open_ = settled.rows, int(settled.left_out.get(target, 0))
    return learned, rows - learned - open_, open_
