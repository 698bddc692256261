"""Predictions for tables that need not fit into memory: read and written row group by row group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from covary._checks import CovaryError, fail
from covary._write import Unfit, where, whole_file
from covary.committee.sources import Chunk, Frame, Parquet, arrow, read
from covary.estimators.inputs import read_table
from covary.likelihoods.gaussian import Gaussian

TOGETHER = 20_000  # rows up to which small row groups are answered in one go
PARTS = ("mean", "std", "lower", "upper")
Answers = tuple[dict[str, np.ndarray], np.ndarray | None]


def predict_table(
    estimator: Any,
    source: Any,
    out: Any,
    *,
    columns: Sequence[str] = (),
    level: float = 0.95,
    executor: Any = None,
    note: Callable[[int, int], Any] | None = None,
) -> int:
    """What an estimator says of every row of a table on disk, as a Parquet file; how many rows it wrote."""
    who = f"{type(estimator).__name__}.predict_table"
    if not isinstance(source, Parquet):
        source = Parquet(source)
    if not 0 < level < 1:
        raise fail(who, f"level is {level}", "give a number between 0 and 1, such as 0.95")
    inputs, titles = input_names(estimator), titles_of(estimator)
    for name in columns:
        if name in titles:
            raise fail(who, f"the column {name!r} is asked for and is also an output", "leave it out, or rename it")
    worker = working(estimator, executor)

    def answer(frame: Frame, start: int) -> Answers:
        found = _classes(worker, frame) if hasattr(worker, "classes_") else _numbers(worker, frame, level)
        return dict(zip(titles, found, strict=True)), None

    types = {"class": estimator.classes_.dtype} if hasattr(estimator, "classes_") else {}
    return stream(who, source, out, needed=inputs, kept=columns, answer=answer, types=types, note=note)


def predict_frame(estimator: Any, X: Any, level: float, size: Any = None) -> Any:
    """What an estimator says of the rows of a table, as a pandas frame with the table's index."""
    import pandas as pd

    who = f"{type(estimator).__name__}.predict_frame"
    if not 0 < level < 1:
        raise fail(who, f"level is {level}", "give a number between 0 and 1, such as 0.95")
    if size is not None and hasattr(estimator, "classes_"):
        raise fail(who, "size is given but classes have none", "leave it out")
    found = _classes(estimator, X) if hasattr(estimator, "classes_") else _numbers(estimator, X, level, size)
    index = X.index if hasattr(X, "iloc") else None
    return pd.DataFrame(dict(zip(titles_of(estimator), found, strict=True)), index=index)


def input_names(estimator: Any) -> list[str]:
    """The columns a model was fitted to; x0, x1, ... where they had no names."""
    names = getattr(estimator, "feature_names_in_", None)
    return [f"x{i}" for i in range(estimator.n_features_in_)] if names is None else [str(name) for name in names]


def titles_of(estimator: Any) -> list[str]:
    """The names of the output columns: four for each target, or the class and the probability of each."""
    if hasattr(estimator, "classes_"):
        return ["class", *(f"p_{label}" for label in estimator.classes_.tolist())]
    shape = np.shape(estimator._location)
    names = getattr(estimator, "target_names_", None) or [f"y{j}" for j in range(shape[0] if shape else 1)]
    return [f"{name}_{part}" for name in names for part in PARTS] if len(names) > 1 else list(PARTS)


def working(estimator: Any, executor: Any) -> Any:
    """The estimator, its committee worked on by an executor if one is given; the one that was given stays as it is."""
    if executor is None:
        return estimator
    bound = getattr(getattr(estimator, "posterior_", None), "bound", None)
    if not getattr(bound, "composite", False):
        what = "executor is given and the model is no committee: it works in this process"
        raise fail(f"{type(estimator).__name__}.predict_table", what, "leave it out")
    other = copy(estimator)
    other.posterior_ = replace(estimator.posterior_, bound=bound.on(executor))  # type: ignore[union-attr]
    return other


def _numbers(estimator: Any, frame: Any, level: float, size: Any = None) -> list[np.ndarray]:
    """Mean, standard deviation and both ends of the interval, for every target."""
    from scipy.special import ndtri

    if isinstance(estimator.model_.likelihood, Gaussian) and estimator.posterior_.scale is None:
        mean, std = (np.reshape(a, (len(a), -1)) for a in estimator.predict(frame, return_std=True, size=size))
        half = float(ndtri(0.5 + level / 2)) * std
        return [a[:, j] for j in range(mean.shape[1]) for a in (mean, std, mean - half, mean + half)]
    y = estimator.posterior_.predict(read_table(estimator, frame, reset=False), size=size).y
    return [y.mean, y.std, *y.interval(level)]


def _classes(estimator: Any, frame: Any) -> list[np.ndarray]:
    """The most probable class, and the probability of each."""
    p = estimator.predict_proba(frame)
    return [estimator.classes_[p.argmax(1)], *p.T]


# reading and writing ----------------------------------------------------------------------------------------------
def stream(
    who: str,
    source: Parquet,
    out: Any,
    *,
    needed: Sequence[str],
    kept: Sequence[str],
    answer: Callable[[Frame, int], Answers],
    types: Mapping[str, Any],
    note: Callable[[int, int], Any] | None = None,
) -> int:
    """Write a Parquet file with an answer for every row of a table, whole or not at all; how many rows it has.

    Parameters
    ----------
    who
        Whose error messages.
    source
        The table.
    out
        The file; a row group for each of the table, small ones joined.
    needed
        Columns that are read and handed to ``answer``.
    kept
        Columns that are copied, in front.
    answer
        From a frame and the number of its first row to columns by title, and which rows they are for (None: all).
    types
        The NumPy type of columns that are no floats.
    note
        Called with (rows finished, rows in all).
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    source.check(dict.fromkeys([*needed, *kept]), who)
    _apart(who, source, out)
    writer: Any = None
    start = written = 0
    with whole_file(out, who, stream=True) as file:
        try:
            for chunks in _joined(source.chunks):
                frame = _frame(chunks, needed)
                try:
                    columns, rows = answer(frame, start)
                except CovaryError as error:
                    raise _placed(error, chunks, source) from None
                copies = pa.concat_tables([arrow(c, kept) for c in chunks], promote_options="permissive") if kept else None
                table = _table(columns, types, copies if copies is None or rows is None else copies.filter(pa.array(rows)))
                if writer is None:
                    writer = pq.ParquetWriter(file, table.schema)
                if table.num_rows:
                    writer.write_table(table.cast(writer.schema), row_group_size=table.num_rows)
                start, written = start + len(frame), written + table.num_rows
                if note is not None:
                    note(start, source.rows)
        finally:
            if writer is not None:
                writer.close()
    return written


def _joined(chunks: Sequence[Chunk]) -> Iterator[list[Chunk]]:
    """Row groups one by one, small ones that follow each other together."""
    held: list[Chunk] = []
    for chunk in chunks:
        if held and sum(c.rows for c in held) + chunk.rows > TOGETHER:
            yield held
            held = []
        held.append(chunk)
    yield held


def _frame(chunks: Sequence[Chunk], columns: Sequence[str]) -> Frame:
    import pandas as pd

    parts = [read(chunk, columns) for chunk in chunks]
    return parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)


def _table(columns: dict[str, np.ndarray], types: Mapping[str, Any], copies: Any) -> Any:
    """Copied columns and answers as one Arrow table; missing answers are null."""
    import pyarrow as pa

    out = {} if copies is None else {name: copies.column(name) for name in copies.column_names}
    for title, values in columns.items():
        kind = np.dtype(types.get(title, np.float64))
        if kind.kind == "S":
            values = np.array([v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values], dtype=object)
        type_ = pa.string() if kind.kind in "USO" else pa.from_numpy_dtype(kind)
        out[title] = pa.array(values, type=type_, from_pandas=True)
    return pa.table(out)


def _apart(who: str, source: Parquet, out: Any) -> None:
    """Refuse to write over the table that is read, or into it."""
    found = where(out)
    if isinstance(found, Unfit):
        raise fail(who, *found)
    place = found.target
    if str(place) in source.files or (source.path.is_dir() and place.parent == source.path.resolve()):
        raise fail(who, f"{str(out)!r} is a part of the table that is read", "write to another place")


def _placed(error: CovaryError, chunks: Sequence[Chunk], source: Parquet) -> CovaryError:
    """An error with the row group in which rows were counted, where there are several."""
    if " row " not in str(error) or len(source.chunks) == 1:
        return error
    return type(error)(f"{str(error).rstrip('.')} (rows are counted from {chunks[0]}).")
