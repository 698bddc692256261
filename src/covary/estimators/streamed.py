"""Predictions of an estimator as a data frame, and for tables that do not fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from covary._checks import fail
from covary._errors import Option
from covary.estimators.inputs import read_new
from covary.families.gaussian_process.predict import moments, probabilities, worked_on
from covary.families.gaussian_process.processes import Processes
from covary.families.gaussian_process.settings import Executor
from covary.fits import Fit
from covary.fits.family import PARTS
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
    if not 0 < level < 1:
        raise fail(who, Option("level") + f" is {level}", "give a number between 0 and 1, such as 0.95")
    inputs, titles = [column.name for column in fit.columns.each], titles_of(fit)
    for name in columns:
        if name in titles:
            raise fail(who, f"the column {name!r} is requested and is also an output", "leave it out, or rename it")
    worker = fit if executor is None else worked_on(fit, executor, who)

    def answer(frame: Frame, start: int) -> Answers:
        return dict(zip(titles, _answer(worker, read_new(estimator, frame), level), strict=True)), None

    types = {"class": fit.classes.values.dtype} if fit.classes is not None else {}
    return stream(who, source, out, needed=inputs, kept=columns, answer=answer, types=types, note=note)


def predict_frame(estimator: GPEstimator, X: Table, level: float, size: PerRow = None) -> pd.DataFrame:
    """Return the predictions for a table as a pandas frame with the index of the table."""
    import pandas as pd

    who, fit = f"{type(estimator).__name__}.predict_frame", estimator.fit_
    if not 0 < level < 1:
        raise fail(who, Option("level") + f" is {level}", "give a number between 0 and 1, such as 0.95")
    if size is not None and fit.classes is not None:
        raise fail(who, Option("size") + " is given but does not apply to a classifier", "leave it out")
    found = _answer(fit, read_new(estimator, X), level, size)
    index = X.index if isinstance(X, pd.DataFrame) else None
    return pd.DataFrame(dict(zip(titles_of(fit), found, strict=True)), index=index)


def titles_of(fit: Fit[Processes]) -> list[str]:
    """Return the names of the output columns: four per target, or the class and the probability of each class."""
    if fit.classes is not None:
        return ["class", *(f"p_{label}" for label in fit.classes.values.tolist())]
    return [f"{name}_{part}" for name in fit.target for part in PARTS] if len(fit.target) > 1 else list(PARTS)


def _answer(fit: Fit[Processes], x: np.ndarray, level: float, size: PerRow = None) -> list[np.ndarray]:
    """Compute the output columns for the inputs x."""
    process = fit.state.first
    if fit.classes is not None:
        p = probabilities(fit, x)
        return [fit.classes.values[p.argmax(1)], *p.T]
    if process.model.is_gaussian and process.posterior.scale is None:
        mean, std = (np.reshape(a, (len(x), -1)) for a in moments(fit, process, x, size=size))
        half = float(ndtri(0.5 + level / 2)) * std
        return [a[:, j] for j in range(mean.shape[1]) for a in (mean, std, mean - half, mean + half)]
    y = process.posterior.predict(x, size=size).y
    return [y.mean, y.std, *y.interval(level)]
