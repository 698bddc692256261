"""Predictions of an estimator as a data frame, and for tables that do not fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING

from covary._checks import as_numbers, fail
from covary._errors import Option
from covary.estimators.inputs import check_level, read_new
from covary.families.gaussian_process.predict import worked_on
from covary.families.gaussian_process.settings import Executor
from covary.fits import family_of
from covary.tables.given import PerRow, Table
from covary.tables.parquet import Frame, Parquet
from covary.tables.streaming import Answers, stream

if TYPE_CHECKING:
    import pandas as pd

    from covary.estimators.base import GPEstimator


def predict_table(
    estimator: GPEstimator,
    source: Parquet | str | PathLike[str],
    out: str | PathLike[str],
    *,
    columns: Sequence[str] = (),
    level: float = 0.95,
    executor: Executor = None,
    note: Callable[[int, int], None] | None = None,
) -> int:
    """Write the predictions for a table on disk to a Parquet file, and return the number of rows."""
    who, fit = f"{type(estimator).__name__}.predict_table", estimator.fit_
    if not isinstance(source, Parquet):
        source = Parquet(source)
    level, family = check_level(who, level), family_of(fit)
    inputs, titles = [column.name for column in fit.columns.each], family.titles(fit)
    for name in columns:
        if name in titles:
            raise fail(who, f"the column {name!r} is requested and is also an output", "leave it out, or rename it")
    worker = fit if executor is None else worked_on(fit, executor, who)

    def answer(frame: Frame, start: int) -> Answers:
        return family.predict(worker, read_new(estimator, frame), level=level).columns, None

    types = {"class": fit.classes.values.dtype} if fit.classes is not None else {}
    return stream(who, source, out, needed=inputs, kept=columns, answer=answer, types=types, note=note)


def predict_frame(estimator: GPEstimator, X: Table, level: float, size: PerRow = None) -> pd.DataFrame:
    """Return the predictions for a table as a pandas frame with the index of the table."""
    import pandas as pd

    who, fit = f"{type(estimator).__name__}.predict_frame", estimator.fit_
    level = check_level(who, level)
    if size is not None and fit.classes is not None:
        raise fail(who, Option("size") + " is given but does not apply to a classifier", "leave it out")
    sizes = None if size is None else as_numbers(who, "size", size)
    found = family_of(fit).predict(fit, read_new(estimator, X), level=level, size=sizes)
    return pd.DataFrame(found.columns, index=X.index if isinstance(X, pd.DataFrame) else None)
