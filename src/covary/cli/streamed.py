"""Predictions from Parquet to Parquet, row group by row group: a table of any size in bounded memory."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from covary._checks import CovaryError
from covary._words import counted
from covary._write import NotWritten
from covary.cli import scores
from covary.cli.answers import Answer
from covary.cli.doors import BadData, BadUsage, Failure, sentence
from covary.cli.rows import FLAG, can_flag
from covary.cli.tables import Frame, Table

MOST_NOTES = 8


class Share:
    """A bar of which one part of the table moves its share."""

    def __init__(self, bar: Any, rows: int) -> None:
        self.bar, self.rows, self.start, self.here = bar, rows, 0, 0
        self.began = time.perf_counter()

    def stage(self, text: str) -> None:
        """The stage of the whole goes on."""

    def at(self, text: str, fraction: float, seconds: float) -> None:
        """A share of this part is done."""
        done = self.start + fraction * self.here
        self.bar.at(f"{text} {int(done):,}/{self.rows:,} rows", done / self.rows, time.perf_counter() - self.began)


def in_stream(request: Any, source: Any, head: Table, path: str, progress: Any) -> tuple[Answer, int, int]:
    """Write what a model says of every row of a table; scores and notes of the whole, rows written, rows left out.

    Parameters
    ----------
    request
        What is asked of whom: ``answer(table, progress)`` gives an answer and the rows it is for.
    source, head
        The table on disk, and the names of its columns as a table without rows.
    path
        The Parquet file to write.
    progress
        The bar.
    """
    from covary.estimators.streamed import stream

    share, said = Share(progress, source.rows), list[Answer]()
    needed = [name for name in head.columns if name in request.reads]

    def answer(frame: Frame, start: int) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
        share.start, share.here = start, len(frame)
        part = Table(head.name, frame, numbers=range(start + 1, start + len(frame) + 1))
        if _nothing_to_ask(request, frame):
            return _no_answers(request, frame)
        found, kept = request.answer(part, share)
        said.append(Answer({}, found.scores, found.notes, found.moments))
        return found.columns, None if kept.all() else kept

    estimator = request.estimator
    types: dict[str, Any] = {FLAG: np.dtype(object)}
    if hasattr(estimator, "classes_"):
        types["class"] = estimator.classes_.dtype
    try:
        rows = stream("predict", source, path, needed=needed, kept=request.kept, answer=answer, types=types)
    except Failure:
        raise
    except (MemoryError, NotWritten):
        raise
    except CovaryError as error:
        text = sentence(error)
        raise (BadUsage if repr(path) in text else BadData)(text) from None
    return _joined(said), rows, source.rows - rows


def _nothing_to_ask(request: Any, frame: Frame) -> bool:
    """Whether every row of a part lacks an input and is to be left out, or without a prediction."""
    left_out = request.drop_missing or getattr(getattr(request.estimator, "columns_", None), "missing", "") == "drop"
    return left_out and bool(frame[request.inputs].isna().any(axis=1).all())


def _no_answers(request: Any, frame: Frame) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """The columns of such a part: no rows at all, or rows without predictions."""
    rows = 0 if request.drop_missing else len(frame)
    columns: dict[str, np.ndarray] = {title: np.full(rows, None, dtype=object) for title in request.titles}
    if can_flag(request.estimator):
        flags = request.estimator.columns_.matrix("predict", frame[request.inputs]).flags()
        columns[FLAG] = flags[:rows]
    return columns, np.zeros(len(frame), bool) if request.drop_missing else None


def _joined(said: list[Answer]) -> Answer:
    """Scores and notes of all parts."""
    out = Answer()
    for name in dict.fromkeys(name for part in said for name in part.scores):
        having = [part for part in said if name in part.scores]
        known = [part.moments[name] for part in having if name in part.moments]
        out.scores[name] = scores.together([part.scores[name] for part in having], known)
    notes = list(dict.fromkeys(note for part in said for note in part.notes))
    more = [f"and {counted(len(notes) - MOST_NOTES, 'more such note')}"] if len(notes) > MOST_NOTES else []
    out.notes = notes[:MOST_NOTES] + more
    return out
