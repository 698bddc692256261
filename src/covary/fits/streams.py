"""Predictions from Parquet to Parquet by row group, for tables of any size in bounded memory."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from covary._words import counted
from covary.fits import scores
from covary.fits.answers import FLAG, Predicted, Question, Watch, can_flag
from covary.fits.fit import AnyFit
from covary.tables.parquet import Parquet
from covary.tables.streaming import Answers, stream
from covary.tables.table import Frame, Table

MOST_NOTES = 8


def predict_stream(
    q: Question, source: Parquet, head: Table, path: str, keep: Sequence[str], watch: Watch
) -> tuple[Predicted, int, int]:
    """Write predictions for all rows of a table; return scores and notes, rows written, and rows left out.

    Parameters
    ----------
    q
        The fit and the request.
    source, head
        The table on disk, and the names of its columns as a table without rows.
    path
        The Parquet file to write.
    keep
        Columns of the table to copy.
    watch
        The progress display.
    """
    share, said = _Share(watch, source.rows), list[Predicted]()
    needed = [name for name in head.columns if name in q.reads]

    def answer(frame: Frame, start: int) -> Answers:
        share.start, share.here = start, len(frame)
        part = Table(head.name, frame, numbers=range(start + 1, start + len(frame) + 1))
        if _nothing_to_predict(q, frame):
            return _no_predictions(q, frame)
        found, kept = q.answer(part, share)
        said.append(Predicted({}, found.scores, found.notes, found.moments))
        return found.columns, None if kept.all() else kept

    rows = stream("predict", source, path, needed=needed, kept=keep, answer=answer, types=_types(q.fit))
    return _joined(said), rows, source.rows - rows


class _Share:
    """Progress of the whole table while one part of it is predicted."""

    def __init__(self, watch: Watch, rows: int) -> None:
        self.watch, self.rows, self.start, self.here = watch, rows, 0, 0
        self.began = time.perf_counter()

    def stage(self, text: str) -> None:
        """Do nothing: the stage of the whole table continues."""

    def at(self, text: str, fraction: float, seconds: float) -> None:
        """Report the progress of this part as progress of the whole table."""
        done = self.start + fraction * self.here
        self.watch.at(f"{text} {int(done):,}/{self.rows:,} rows", done / self.rows, time.perf_counter() - self.began)


def _types(fit: AnyFit) -> dict[str, DTypeLike]:
    """Return the types of non-numeric columns."""
    found: dict[str, DTypeLike] = {FLAG: np.dtype(object)}
    return found if fit.classes is None else found | {"class": fit.classes.values.dtype}


def _nothing_to_predict(q: Question, frame: Frame) -> bool:
    """Return whether every row of a part has a missing input and thus gets no prediction."""
    left_out = q.drop_missing or q.fit.columns.missing == "drop"
    return left_out and bool(frame[q.inputs].isna().any(axis=1).all())


def _no_predictions(q: Question, frame: Frame) -> Answers:
    """Return the columns of a part without predictions: no rows, or empty ones."""
    rows = 0 if q.drop_missing else len(frame)
    columns: dict[str, np.ndarray] = {title: np.full(rows, None, dtype=object) for title in q.titles}
    if can_flag(q.fit):
        columns[FLAG] = q.fit.columns.matrix("predict", frame[q.inputs]).flags()[:rows]
    return columns, np.zeros(len(frame), bool) if q.drop_missing else None


def _joined(said: list[Predicted]) -> Predicted:
    """Combine the scores and notes of all parts."""
    out = Predicted()
    for name in dict.fromkeys(name for part in said for name in part.scores):
        having = [part for part in said if name in part.scores]
        known = [part.moments[name] for part in having if name in part.moments]
        out.scores[name] = scores.together([part.scores[name] for part in having], known)
    notes = list(dict.fromkeys(note for part in said for note in part.notes))
    more = [f"and {counted(len(notes) - MOST_NOTES, 'more note')}"] if len(notes) > MOST_NOTES else []
    out.notes = [*notes[:MOST_NOTES], *more]
    return out
