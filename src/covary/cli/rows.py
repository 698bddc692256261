"""Which rows of a table are learned from, and what a model says of the others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from covary._checks import CovaryError
from covary._words import counted
from covary.cli.answers import Answer, Question, answer_of
from covary.cli.columns import Roles, check_gaps, input_frame, numbers
from covary.cli.doors import BadData, Run, sentence
from covary.cli.output import write_table
from covary.cli.tables import Frame, Table, shown

FLAG = "flag"


@dataclass(frozen=True)
class Rows:
    """The rows learned from (inputs, targets and the rest), which they are, and which ones lack the target only."""

    values: Frame
    kept: np.ndarray
    open: np.ndarray
    inputs: Frame  # of every row


def rows_of(
    table: Table, roles: Roles, labels: list[str], *, drop_missing: bool, missing: str, categories: Collection[str]
) -> Rows:
    """Rows with a target, and with whatever else is needed; gaps in the inputs are dealt with as ``missing`` says."""
    import pandas as pd

    inputs = input_frame(table, roles.inputs, categories=categories, ignorable=roles.inputs)
    rest = [name for name in roles.all if name not in roles.inputs]
    known = ~table.frame[roles.targets].isna().any(axis=1).to_numpy()
    other, kept = numbers(table, rest, drop_missing=True, labels=labels)
    gaps = inputs.isna().to_numpy(bool)
    if drop_missing:
        kept = kept & ~gaps.any(1)
        if not kept.any():
            worst = int(gaps.sum(0).argmax())
            count = f"{gaps[:, worst].sum()} of {len(gaps)} in {shown(roles.inputs[worst])}"
            raise BadData(f"every row of {table.name!r} has a missing value ({count}); fill them, or ignore the column.")
        known = np.ones(len(known), bool)
    else:
        check_gaps(table, table.frame, [name for name in rest if name not in roles.targets], known, ())
        if missing == "refuse":
            check_gaps(table, inputs, roles.inputs, np.ones(len(known), bool), roles.inputs)
    values = pd.concat([inputs[kept], other.loc[inputs.index[kept]]], axis=1)
    return Rows(values, kept, ~known, inputs)


def can_flag(estimator: Any) -> bool:
    """Whether rows of a table may have something to be said about them."""
    columns = getattr(estimator, "columns_", None)
    return columns is not None and (columns.missing != "refuse" or bool(columns.places("category")))


def kinds_of(estimator: Any) -> dict[str, str]:
    """What each input held in fit; numbers where a program fitted an array."""
    columns = getattr(estimator, "columns_", None)
    return {} if columns is None else {c.name: c.kind for c in columns.each}


def answered(
    estimator: Any,
    table: Table,
    inputs: Frame,
    rows: np.ndarray,
    *,
    targets: list[str],
    level: float,
    latent: bool,
    size: np.ndarray | None,
    progress: Any,
    scored: bool = True,
) -> Answer:
    """What the model says of some rows, with a ``flag`` for each where the model may have something to say about it."""
    import pandas as pd

    columns = getattr(estimator, "columns_", None)
    if columns is None:
        gone, flags, notes, values = np.zeros(int(rows.sum()), bool), None, [], inputs[rows]
    else:
        found = _found(estimator, columns, inputs[rows], table)
        gone, flags, notes = found.gone, found.flags() if can_flag(estimator) else None, _notes(columns, found)
        if gone.all():
            raise BadData(f"every row of {table.name!r} lacks an input of the model; fill some.")
        values = pd.DataFrame(found.x, columns=columns.keys)[~gone]
    kept = rows.copy()
    kept[np.flatnonzero(rows)[gone]] = False
    size = None if size is None else size[~gone]
    answer = answer_of(Question(estimator, table, targets, values, kept, level, latent, size, progress), scored=scored)
    answer.columns = {title: _spread(column, ~gone) for title, column in answer.columns.items()}
    if flags is not None:
        answer.columns[FLAG] = flags
    answer.notes[:0] = notes
    return answer


def _found(estimator: Any, columns: Any, inputs: Frame, table: Table) -> Any:
    from covary.estimators.inputs import check_unseen

    try:
        found = columns.matrix("covary", inputs)
        check_unseen(estimator, found)
    except CovaryError as error:
        text = sentence(error)
        raise BadData(text.split(": ", 1)[-1].replace(" of X ", f" of {table.name!r} ", 1)) from None
    return found


def _notes(columns: Any, found: Any) -> list[str]:
    from covary.estimators.frames import unseen_words

    notes = [*unseen_words(found), *columns.unmarked(found)]
    filled, gone = int(np.any([[False] * len(found.x), *found.filled.values()], axis=0).sum()), int(found.gone.sum())
    if filled:
        notes.append(f"{counted(filled, 'row')} with a missing input filled in as in fit: see the column {FLAG}")
    if gone:
        notes.append(f"{counted(gone, 'row')} with a missing input left without a prediction: see the column {FLAG}")
    return notes


def _spread(column: np.ndarray, there: np.ndarray) -> np.ndarray:
    """A column with empty entries where there is no prediction."""
    if there.all():
        return column
    out = np.full(len(there), np.nan) if column.dtype.kind == "f" else np.full(len(there), None, dtype=object)
    out[there] = column
    return out


# rows without a target --------------------------------------------------------------------------------------------
def predict_open(
    run: Run, estimator: Any, table: Table, roles: Roles, rows: Rows, path: str | None, progress: Any
) -> str | None:
    """Predict the rows without a target and write them with all their columns; where to, if there were any."""
    if path is None or not rows.open.any():
        return None
    size = None
    if roles.size is not None:
        size = table.frame.loc[rows.open, roles.size].to_numpy(np.float64, na_value=np.nan)
        if not (size > 0).all():
            raise BadData(f"column {shown(roles.size)} of {table.name!r} has no size for a row to be predicted; fill it.")
    asked: Any = {"targets": roles.targets, "level": 0.95, "latent": False, "size": size, "progress": progress}
    answer = answered(estimator, table, rows.inputs, rows.open, **asked, scored=False)
    frame = table.frame[rows.open].copy()
    for title, column in answer.columns.items():
        frame[f"predicted {title}" if title in frame.columns else title] = column
    write_table(frame, path)
    run.written.append(path)
    return path


def open_words(made: dict[str, Any], roles: Roles, path: str | None, written: str | None) -> str:
    """What became of the rows without a target."""
    count = made["rows without target"]
    if not count:
        return f"no row lacks a {roles.targets[0]}: {path} was not written"
    what = f"{counted(count, 'row')} without {' or '.join(roles.targets)}, not learned from"
    return f"{what}; predictions in {written}" if written else f"{what}; --predictions FILE predicts them"
