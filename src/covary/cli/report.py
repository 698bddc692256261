"""``covary report``: a model file in, one HTML page out; with a table, the model is held against its rows."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import covary
from covary._checks import CovaryError
from covary._write import NotWritten
from covary.cli.classes import codes_of
from covary.cli.columns import input_frame, known, numbers
from covary.cli.doors import BadData, BadUsage, NoAnswer, Run, sentence
from covary.cli.facts import category_levels, input_names, likelihood_name, target_names
from covary.cli.model_file import load_model
from covary.cli.output import check_place, console, is_stream
from covary.cli.progress import bar
from covary.cli.rows import kinds_of
from covary.cli.tables import Frame, Table, is_text, read_table, shown
from covary.cli.targets import SIZED
from covary.cli.words import in_options


def run_report(
    run: Run, model: str, *, data: str | None, out: str | None, title: str | None, drop_missing: bool, quiet: bool
) -> None:
    """Read, diagnose, draw, write."""
    began = time.perf_counter()
    path = page_name(model) if out is None else out
    check_page(path, model, data)
    with bar(quiet=quiet) as progress:
        progress.stage("reading")
        with suppress(OSError):
            covary.enable_cache()
        estimator, made = load_model(model)
        X, y, notes = None, None, []
        if data is not None:
            X, y, notes = new_rows(estimator, made, read_table(data, category_levels(estimator)), model, drop_missing)
        progress.stage("diagnosing and drawing")
        write_page(run, estimator, path, X, y, title)
    if quiet:
        return
    for note in notes:
        console(stderr=True).print(note, soft_wrap=True)
    console().print(f"wrote {path} ({time.perf_counter() - began:.1f} s); open it in a browser", soft_wrap=True)


def write_page(run: Run, estimator: Any, path: str, X: Any = None, y: Any = None, title: str | None = None) -> None:
    """The report itself, with the errors of the command."""
    try:
        estimator._report(path, X, y, title, in_options)
    except (MemoryError, NotWritten):
        raise
    except CovaryError as error:
        raise NoAnswer(sentence(error)) from None
    run.written.append(path)


def page_name(model: str) -> str:
    """``<stem>.html`` in the current folder.

    Examples
    --------
    >>> page_name("models/houses.covary")
    'houses.html'
    """
    return f"{Path(model).stem or 'report'}.html"


def check_page(path: str, *sources: str | None, option: str = "--out") -> None:
    """Refuse a page that could not be written, before any work is done."""
    if Path(path).suffix.lower() not in (".html", ".htm") and not is_stream(path):
        raise BadUsage(f"the report is to be called {path!r}; give a name that ends with .html.")
    check_place(path, *sources, option=option)


def new_rows(
    estimator: Any, made: dict[str, Any], table: Table, model: str, drop_missing: bool
) -> tuple[Frame, Any, list[str]]:
    """The inputs of a table, what was seen there (None if the table does not say), and what should be said."""
    inputs, targets = input_names(estimator), target_names(estimator)
    lacking = [name for name in inputs if name not in table.columns]
    if lacking:
        known(lacking[0], table)  # raises, with the nearest name
    columns = getattr(estimator, "columns_", None)
    if columns is None:
        values, kept = numbers(table, inputs, drop_missing=drop_missing)
        X = values[inputs]
    else:
        X, kept = input_frame(table, inputs, kinds=kinds_of(estimator)), np.ones(len(table.frame), bool)
        gaps = X.isna().any(axis=1).to_numpy()
        if gaps.any() and columns.missing not in ("impute", "indicator"):
            if not (drop_missing or columns.missing == "drop"):
                row = int(np.flatnonzero(gaps)[0])
                what = f"{table.name!r} lacks an input {table.where(row)} ({int(gaps.sum())} in all)"
                raise BadData(f"{what}; fill it, or leave such rows out with --drop-missing.")
            X, kept = X[~gaps], ~gaps
    if not len(X):
        raise BadData(f"every row of {table.name!r} has a missing value; fill some.")
    notes = [f"rows left out for a missing input: {int((~kept).sum())}"] if (~kept).any() else []
    if any(name not in table.columns for name in targets):
        return X, None, [*notes, f"{table.name!r} does not hold {targets[0]}: the rows are checked for extrapolation only"]
    y, seen, more = _truth(estimator, made, table, targets, kept)
    return (X, None, notes + more) if y is None else (X[seen], y, notes + more)


def _truth(
    estimator: Any, made: dict[str, Any], table: Table, targets: list[str], kept: np.ndarray
) -> tuple[Any, np.ndarray, list[str]]:
    """What was seen, in which of the kept rows, and what should be said."""
    frame = table.frame.loc[kept]
    if hasattr(estimator, "classes_"):
        codes = codes_of(frame[targets[0]], estimator.classes_)
        seen = codes >= 0
        strange = int((codes == -1).sum())
        notes = [f"rows left out for a class the model does not know: {strange}"] if strange else []
        return (estimator.classes_[codes[seen]] if seen.any() else None), seen, notes
    if any(is_text(frame[name]) for name in targets):
        return None, np.ones(len(frame), bool), [f"{shown(targets[0])} is text here: only extrapolation is checked"]
    y = frame[targets].to_numpy(np.float64, na_value=np.nan)
    seen = np.isfinite(y).all(1)
    if likelihood_name(estimator) in SIZED and np.ndim(estimator.posterior_.data.y) == 2:
        name = made.get("size column")
        if name not in table.columns:
            return None, seen, ["the table has no column of sizes: only extrapolation is checked"]
        y = np.column_stack([y[:, 0], frame[name].to_numpy(np.float64, na_value=np.nan)])
        seen &= np.isfinite(y).all(1)
    if not seen.any():
        return None, np.ones(len(frame), bool), ["no row has a known target: only extrapolation is checked"]
    y = y[seen]
    return (y[:, 0] if y.shape[1] == 1 else y), seen, []
