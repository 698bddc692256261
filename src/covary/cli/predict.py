"""``covary predict``: predictions with error bars for the rows of a table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from covary._errors import Option
from covary._words import counted, some
from covary.cli.errors import Run, usage
from covary.cli.options import PredictSettings
from covary.cli.output import blaming, check_table_place, console, load_model, write_json, write_table
from covary.cli.progress import bar
from covary.cli.rendering import rendered
from covary.cli.workers import cluster, enable_cache, workers
from covary.fits import Json, family_of
from covary.fits.answers import FLAG, Predicted, Question, can_flag, levels, size_name
from covary.fits.scores import words
from covary.fits.streams import predict_stream
from covary.tables.files import head_of, is_parquet, open_parquet, read_table, table_suffix
from covary.tables.roles import known, names_of
from covary.tables.table import Table, bad, shown


def run_predict(run: Run, s: PredictSettings) -> None:
    """Read the model and the table, predict, compute scores, and write the predictions."""
    began = time.perf_counter()
    path = "-" if s.out is None else s.out
    if path != "-":
        check_table_place(path, s.data, s.model)
    if not 0 < s.level < 1:
        raise usage("level", Option("level") + f" is {s.level:g}", "give a number between 0 and 1, such as 0.95")
    option = cluster(s)
    with bar(quiet=s.quiet or s.as_json) as progress, ExitStack() as stack:
        progress.stage("reading")
        enable_cache()
        fit, made = load_model(s.model)
        source = open_parquet(s.data) if is_parquet(s.data) and table_suffix(path) == ".parquet" else None
        table = read_table(s.data, levels(fit)) if source is None else head_of(source, s.data)
        q = Question(fit, s.level, s.latent, drop_missing=s.drop_missing)
        if s.latent and not q.family.latent:
            what = Option("latent") + f" is not for the family {fit.family!r}, which predicts observations only"
            raise usage("latent", what, "leave it out")
        _check_columns(table, q.inputs, s.model)
        kept = table.columns if s.keep_all else names_of(s.keep, table, "keep")
        titles = [*q.titles, *([FLAG] if can_flag(fit) else [])]
        _check_clash(kept, titles)
        size, notes = size_name(fit, made, table, s.size_column)
        if option is not None:
            if not family_of(fit).parallel(fit):
                raise usage(
                    option, Option(option) + f" is for committees of experts, but {s.model!r} is not one", "leave it out"
                )
            executor = stack.enter_context(workers(s, progress))
            q = q if executor is None else replace(q, fit=family_of(fit).working(fit, executor))
        q = replace(q, size=size, scored=not notes)
        if source is None:
            found, there = q.answer(table, progress)
            titles, rows, dropped = list(found.columns), int(there.sum()), int((~there).sum())
            if path != "-" or not s.as_json:
                progress.close()
                write_table(table.frame.loc[there, kept].assign(**found.columns), path)
        else:
            with blaming("out"):
                found, rows, dropped = predict_stream(q, source, table, path, kept, progress)
        unused = _unused(table, made, {*q.reads, *kept})
        more = [f"ignored columns, which are not inputs of the model: {some(list(map(shown, unused)), 8)}"] if unused else []
        found.notes = [*notes, *found.notes, *more]
    if path != "-":
        run.written.append(path)
    if s.as_json:
        page: dict[str, Json] = {
            "model": s.model,
            "data": s.data,
            "out": None if path == "-" else path,
            "rows": rows,
            "rows_dropped": dropped,
            "targets": list(fit.target),
            "columns": [*kept, *titles],
            "level": s.level,
            "latent": s.latent,
            "size_column": size,
            "scores": found.scores,
            "notes": [rendered(note) for note in found.notes],
            "seconds": {"all": time.perf_counter() - began},
        }
        write_json(page if path != "-" else {**page, "predictions": found.columns})
    elif not s.quiet:
        show(found, s.level, rows, dropped, path)


def _check_columns(table: Table, inputs: list[str], model: str) -> None:
    lacking = [name for name in inputs if name not in table.columns]
    if len(lacking) == 1:
        known(lacking[0], table)  # raises an error that suggests the nearest name
    if lacking:
        count = f"{len(lacking)} of the {counted(len(inputs), 'input column')} of {model!r}"
        raise bad(f"{table.name!r} does not have {count}: {some(list(map(shown, lacking)), 8)}", "add them")


def _check_clash(kept: Sequence[str], titles: Sequence[str]) -> None:
    clash = [name for name in titles if name in kept]
    if clash:
        what = f"the kept column {shown(clash[0])} has the name of an output column"
        raise usage("keep", what, "rename it, or leave it out of " + Option("keep"))


def _unused(table: Table, made: dict[str, Json], used: set[str]) -> list[str]:
    """Return the columns that are used neither here nor, as far as is known, in the table of the fit."""
    ignored = made.get("ignored")
    if not isinstance(ignored, list):
        return []
    others = [made.get(f"{what} column") for what in ("noise", "weight", "size")]
    return [name for name in table.columns if name not in used and name not in ignored and name not in others]


def show(found: Predicted, level: float, rows: int, dropped: int, path: str) -> None:
    """Print the scores and the output file on stderr."""
    out = console(stderr=True)
    for name, scores in found.scores.items():
        out.print(f"{name}: {words(scores, level)}", soft_wrap=True)
    for note in found.notes:
        out.print(rendered(note), soft_wrap=True)
    if dropped:
        out.print(f"{counted(dropped, 'row')} with missing inputs left out", soft_wrap=True)
    if path != "-":
        out.print(f"wrote {counted(rows, 'prediction')} to {Path(path)}", soft_wrap=True)
