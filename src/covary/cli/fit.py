"""``covary fit``: fit a model to a table, write the model file and print a summary."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from covary._checks import CovaryError
from covary._version import versions
from covary._words import counted, some
from covary._write import Place, where
from covary.cli.config import begin_config, end_config
from covary.cli.errors import NUMERICAL, Run
from covary.cli.options import FitSettings
from covary.cli.output import (
    blaming,
    check_apart,
    check_place,
    check_table_place,
    console,
    is_stream,
    save_model,
    write_json,
    write_table,
)
from covary.cli.progress import Bar, bar, learning
from covary.cli.rendering import ended, located, rendered
from covary.cli.report import check_page, write_page
from covary.cli.shown import Told
from covary.cli.workers import cluster, enable_cache, workers
from covary.fits import AnyFit, Json, Outcome, Request, Task, family
from covary.fits.answers import Question, predicted
from covary.fits.learning import settings_of
from covary.tables.observed import Names
from covary.tables.table import bad, shown


def run_fit(run: Run, s: FitSettings) -> None:
    """Read the table, fit the model, write it, and show its summary."""
    began = time.perf_counter()
    path = default_out(s.data) if s.out is None else s.out
    check_outputs(s, path)
    changed = begin_config(s)
    with bar(quiet=s.quiet or s.as_json) as progress, ExitStack() as stack:
        progress.stage("reading")
        enable_cache()
        task = prepare(s, path)
        started = time.perf_counter()
        done = learn(s, task, progress, stack)
        learned = time.perf_counter() - started
        made = note_of(s, task, done)
        fit = replace(done.fit, origin=replace(done.fit.origin, made=made))
        progress.stage(f"writing {path}")
        replaced = Path(path).exists() and not is_stream(path)
        save_model(fit, path, made)
        run.written.append(path)
        task.written(fit)
        if s.save_config is not None:
            end_config(settled(s, task), s.save_config)
            run.written.append(s.save_config)
        if s.report is not None:
            progress.stage("drawing the report")
            with blaming("report"):
                write_page(run, fit, s.report)
        opened = predict_open(run, fit, task, s.predictions, progress)
        if s.quiet and not s.as_json:
            return
        told = Told.of(fit, s.error_bars.asked, s.max_time, progress)
    seconds = {"learning": learned, "all": time.perf_counter() - began}
    if s.as_json:
        write_json(_json(told, task, done, made, s.data, path, seconds) | {"predictions": opened})
        return
    words, targets = rendered(task.words), ", ".join(task.roles.targets)
    extra = [
        ("data", f"{task.table.name}: {_words(task, done)}"),
        *([("to predict", open_words(task, done, s.predictions, opened))] if done.open or s.predictions else []),
        ("target", f"{targets} — {words}" if words else targets),
        ("inputs", some(task.roles.inputs, 12)),
        *(("note", text) for text in changed),
    ]
    told.show(extra)
    also = "".join(f" and {name}" for name in (s.save_config, s.report) if name)
    console().print(f"\n{'replaced' if replaced else 'wrote'} {path}{also} ({seconds['all']:.1f} s in total)")


def check_outputs(s: FitSettings, path: str) -> None:
    """Raise an error for files that cannot be written, before any work is done."""
    check_place(path, s.data, s.config)
    if s.predictions is not None:
        check_table_place(s.predictions, s.data, s.config, argument="predictions")
    if s.report is not None:
        check_page(s.report, s.data, s.config, argument="report")
    if s.checkpoint is not None and isinstance(where(s.checkpoint), Place):  # of a committee it is a folder
        check_place(s.checkpoint, s.data, s.config, argument="checkpoint")
    names = ("predictions", "report", "save_config", "checkpoint")
    check_apart({"out": path, **{name: getattr(s, name) for name in names}})


def prepare(s: FitSettings, path: str) -> Task[object]:
    """Read and check the table, and return the fit that is ready to run; the model will be written to ``path``."""
    found = family(s.family)
    names = Names(s.target, s.inputs, s.ignore, s.categories, s.noise_column, s.weight_column, s.size_column)
    return found.prepare(
        Request(
            source=s.data,
            names=names,
            missing=str(s.missing),
            drop_missing=s.drop_missing,
            options=s.own,
            settings=settings_of(found, s.settings),
            seed=s.seed,
            max_time=s.max_time,
            checkpoint=s.checkpoint,
            workers=cluster(s),
            predictions=s.predictions is not None,
            path=path,
        )
    )


def learn(s: FitSettings, task: Task[object], progress: Bar, stack: ExitStack) -> Outcome[object]:
    """Run a fit; an error about its arrays is reworded for the table."""
    stack.enter_context(task.scope())
    executor = stack.enter_context(workers(s, progress))
    try:
        with learning(progress):
            return task.run(executor)
    except MemoryError:
        raise
    except CovaryError as error:  # about the data if the table is at fault, otherwise about the computation
        places, roles = None if task.rows is None else task.rows.places, task.roles
        about = located(error, task.table, places, roles.inputs, roles.targets[0])
        raise ended(error, NUMERICAL, shown=about) from None


def settled(s: FitSettings, task: Task[object]) -> FitSettings:
    """Return the settings with the values that were determined from the table, which repeat the same run."""
    own = {**s.own, **task.options}
    roles, categories = task.roles, list(task.categories)
    return replace(s, target=roles.targets, inputs=roles.inputs, ignore=[], categories=categories, own=own)


def note_of(s: FitSettings, task: Task[object], done: Outcome[object]) -> dict[str, Json]:
    """Return the note in a model file: the table, and every setting of the fit."""
    found: dict[str, Json] = {
        "categories": task.categories,
        "max_time": None if s.max_time == np.inf else s.max_time,
        **task.options,
    }
    return {
        "command": "fit",
        "data": "stdin" if s.data == "-" else Path(s.data).name,
        "rows": done.learned,
        "rows dropped": done.dropped,
        "rows without target": done.open,
        "ignored": [name for name in task.table.columns if name not in task.roles.all],
        **{name.replace("_", " "): found.get(name, value) for name, value in s.noted().items()},
        "versions": versions(),
    }


def default_out(data: str) -> str:
    """Return ``<stem>.covary`` in the current folder.

    Examples
    --------
    >>> default_out("tables/sales.csv.gz"), default_out("-")
    ('sales.covary', 'model.covary')
    """
    name = Path(data).name
    stem = Path(name).stem
    if name.lower().endswith(".gz"):
        stem = Path(stem).stem
    return "model.covary" if data == "-" or not stem else f"{stem}.covary"


# rows without a target --------------------------------------------------------------------------------------------
def predict_open(run: Run, fit: AnyFit, task: Task[object], path: str | None, progress: Bar) -> str | None:
    """Predict the rows without a target, write them with all their columns, and return the path; None if there are none."""
    rows, table = task.rows, task.table
    if path is None or rows is None or not rows.open.any():
        return None
    size, name = None, task.roles.size
    if name is not None:
        size = table.frame.loc[rows.open, name].to_numpy(np.float64, na_value=np.nan)
        if not (size > 0).all():
            what = f"column {shown(name)} of {table.name!r} lacks a positive size in a row without a target"
            raise bad(what, "fill it", column=name)
    found = predicted(Question(fit, scored=False), table, rows.inputs, rows.open, size, progress)
    frame = table.frame[rows.open].copy()
    for title, column in found.columns.items():
        frame[f"predicted {title}" if title in frame.columns else title] = column
    write_table(frame, path, "predictions")
    run.written.append(path)
    return path


def open_words(task: Task[object], done: Outcome[object], path: str | None, written: str | None) -> str:
    """Describe what was done with the rows without a target."""
    if not done.open:
        return f"none: every row has a value of {task.roles.targets[0]}, so {path} was not written"
    what = f"{counted(done.open, 'row')} without {' or '.join(task.roles.targets)}, not used for training"
    return f"{what}; predictions in {written}" if written else f"{what}; --predictions FILE predicts them"


# words ------------------------------------------------------------------------------------------------------------
def _words(task: Task[object], done: Outcome[object]) -> str:
    parts = [counted(done.learned, "row")]
    if done.dropped:
        parts.append(f"{done.dropped} left out for missing values")
    return ", ".join([*parts, *task.table.notes])


def _json(
    told: Told,
    task: Task[object],
    done: Outcome[object],
    made: dict[str, Json],
    data: str,
    path: str,
    seconds: dict[str, float],
) -> dict[str, Json]:
    """Return the result as JSON, with the facts of learning that the family knows."""
    learning = told.family.learning(told.fit)
    return {
        "model": path,
        "data": data,
        "rows": done.learned,
        "rows_dropped": done.dropped,
        "rows_without_target": done.open,
        "notes": list(task.table.notes),
        "inputs": task.roles.inputs,
        "targets": task.roles.targets,
        **told.json(),
        **({} if learning.steps is None else {"status": learning.status, "evaluations": learning.steps}),
        "seconds": seconds if learning.seconds is None else {**seconds, "learning": learning.seconds},
        "versions": made["versions"],
    }
