"""``covary predict``: a model file and a table in, predictions with error bars out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from covary._words import counted
from covary.cli.answers import Answer, composite, output_titles
from covary.cli.columns import check_gaps, check_sign, input_frame, known, names_of, numbers
from covary.cli.crew import Crew
from covary.cli.doors import BadData, BadUsage, Run
from covary.cli.facts import category_levels, input_names, likelihood_name, target_names
from covary.cli.fitting import enable_cache
from covary.cli.model_file import load_model
from covary.cli.output import check_table_place, console, write_json, write_table
from covary.cli.progress import bar
from covary.cli.rows import FLAG, answered, can_flag, kinds_of
from covary.cli.scores import words
from covary.cli.streamed import in_stream
from covary.cli.tables import Frame, Table, is_parquet, open_parquet, read_table, shown, table_suffix
from covary.cli.targets import SIZED


def run_predict(
    run: Run,
    model: str,
    data: str,
    *,
    out: str | None,
    level: float,
    latent: bool,
    size_column: str | None,
    keep: Sequence[str],
    keep_all: bool,
    drop_missing: bool,
    as_json: bool,
    quiet: bool,
    crew: Crew | None = None,
) -> None:
    """Read, predict, score, write."""
    began = time.perf_counter()
    path = "-" if out is None else out
    if path != "-":
        check_table_place(path, data, model)
    if not 0 < level < 1:
        raise BadUsage(f"--level is {level:g}; give a number between 0 and 1, such as 0.95.")
    if crew is not None:
        crew.check_cluster()
    with bar(quiet=quiet or as_json) as progress, ExitStack() as stack:
        progress.stage("reading")
        enable_cache()
        estimator, made = load_model(model)
        source = open_parquet(data) if is_parquet(data) and table_suffix(path) == ".parquet" else None
        table = read_table(data, category_levels(estimator)) if source is None else head_of(source, data)
        inputs, targets = input_names(estimator), target_names(estimator)
        _check_columns(table, inputs, model)
        kept_names = table.columns if keep_all else names_of(keep, table)
        _check_clash(kept_names, [*output_titles(estimator, targets, latent), [FLAG] if can_flag(estimator) else []])
        sized, notes = size_name(estimator, made, table, size_column)
        if crew is not None and crew.cluster:
            if not composite(estimator):
                raise BadUsage(f"{crew.cluster} is for committees of experts, and {model!r} is none; leave it out.")
            from covary.estimators.streamed import working

            estimator = working(estimator, stack.enter_context(crew.at_work(progress)))
        request = Request(estimator, inputs, targets, kept_names, sized, level, latent, drop_missing, scored=not notes)
        if source is None:
            answer, kept = request.answer(table, progress)
            columns, rows, dropped = [*kept_names, *answer.columns], int(kept.sum()), int((~kept).sum())
        else:
            answer, rows, dropped = in_stream(request, source, table, path, progress)
            columns = [*kept_names, *request.titles, *([FLAG] if can_flag(estimator) else [])]
        answer.notes[:0] = notes
        unused = _unused(table, made, {*inputs, *targets, *sized, *kept_names})
        if unused:
            answer.notes.append(f"not inputs of the model, and ignored: {_few(unused)}")
    if source is None and (path != "-" or not as_json):
        frame = table.frame.loc[kept, kept_names].copy()
        for title, column in answer.columns.items():
            frame[title] = column
        write_table(frame, path)
    if path != "-":
        run.written.append(path)
    seconds = time.perf_counter() - began
    if as_json:
        found = {
            "model": model,
            "data": data,
            "out": None if path == "-" else path,
            "rows": rows,
            "rows_dropped": dropped,
            "targets": targets,
            "columns": columns,
            "level": level,
            "latent": latent,
            "size_column": sized[0] if sized else None,
            "scores": answer.scores,
            "notes": answer.notes,
            "seconds": {"all": seconds},
        }
        write_json(found if path != "-" else {**found, "predictions": answer.columns})
    elif not quiet:
        tell(answer, level, rows, dropped, path)


def head_of(source: Any, name: str) -> Table:
    """The columns of a table on disk, as a table without rows."""
    import pandas as pd

    return Table(name, pd.DataFrame({column: [] for column in source.names}))


@dataclass(frozen=True)
class Request:
    """What is asked of a model, about whatever rows."""

    estimator: Any
    inputs: list[str]
    targets: list[str]
    kept: list[str]
    sized: list[str]
    level: float
    latent: bool
    drop_missing: bool
    scored: bool

    @property
    def titles(self) -> list[str]:
        """The names of the columns of an answer, but for the flag."""
        return [title for titles in output_titles(self.estimator, self.targets, self.latent) for title in titles]

    @property
    def reads(self) -> set[str]:
        """The columns an answer looks at, the known targets among them."""
        return {*self.inputs, *self.targets, *self.sized}

    def answer(self, table: Table, progress: Any) -> tuple[Answer, np.ndarray]:
        """What the model says, and of which rows."""
        given, kept, size = _rows(self.estimator, table, self.inputs, self.sized, self.drop_missing)
        asked: Any = {"targets": self.targets, "level": self.level, "latent": self.latent, "size": size}
        return answered(self.estimator, table, given, kept, **asked, progress=progress, scored=self.scored), kept


def _rows(
    estimator: Any, table: Table, inputs: list[str], sized: list[str], drop_missing: bool
) -> tuple[Frame, np.ndarray, np.ndarray | None]:
    """The inputs, which rows are predicted, and their sizes; gaps are refused unless the model or an option says otherwise."""
    columns = getattr(estimator, "columns_", None)
    if columns is None:
        values, kept = numbers(table, list(dict.fromkeys([*inputs, *sized])), drop_missing=drop_missing)
        return values[inputs].reindex(table.frame.index), kept, _sizes(estimator, table, sized, values, kept)
    given, kept = input_frame(table, inputs, kinds=kinds_of(estimator)), np.ones(len(table.frame), bool)
    if drop_missing:
        kept = ~given.isna().any(axis=1).to_numpy()
    elif columns.missing == "refuse":
        check_gaps(table, given, inputs, kept, ())
    if sized:
        values, there = numbers(table, sized, drop_missing=drop_missing)
        kept = kept & there
        return given, kept, _sizes(estimator, table, sized, values.reindex(table.frame.index)[kept], kept)
    if not kept.any():
        raise BadData(f"every row of {table.name!r} has a missing value; fill them.")
    return given, kept, None


def _check_columns(table: Table, inputs: list[str], model: str) -> None:
    lacking = [name for name in inputs if name not in table.columns]
    if len(lacking) == 1:
        known(lacking[0], table)  # raises, with the nearest name
    if lacking:
        count = f"{len(lacking)} of the {counted(len(inputs), 'input column')} of {model!r}"
        raise BadData(f"{table.name!r} lacks {count}: {_few(lacking)}; add them.")


def _check_clash(kept: Sequence[str], titles: list[list[str]]) -> None:
    clash = [name for names in titles for name in names if name in kept]
    if clash:
        raise BadUsage(f"the kept column {shown(clash[0])} has the name of an output column; rename it, or do not keep it.")


# sizes: trials and exposures ------------------------------------------------------------------------------------
def size_name(estimator: Any, made: dict[str, Any], table: Table, given: str | None) -> tuple[list[str], list[str]]:
    """The column of sizes, if there is one, and what to say if the model was fitted with sizes and there is none."""
    name = likelihood_name(estimator)
    if given is not None:
        if name not in SIZED:
            raise BadUsage(f"--size-column goes with counts and binomial successes, not with a model of {name}; leave it out.")
        return [known(given, table)], []
    if name not in SIZED or np.ndim(estimator.posterior_.data.y) == 1:
        return [], []
    usual = made.get("size column")
    if isinstance(usual, str) and usual in table.columns:
        return [usual], []
    lacks = f"{table.name!r} has no column {shown(usual)}" if isinstance(usual, str) else "no --size-column is given"
    return [], [f"{lacks}: predictions are for a size of 1, and not scored"]


def _sizes(estimator: Any, table: Table, sized: list[str], values: Frame, kept: np.ndarray) -> np.ndarray | None:
    if not sized:
        return None
    size = values[sized[0]].to_numpy()
    check_sign(table, sized[0], size, kept, positive=True)
    broken = size != np.floor(size)
    if likelihood_name(estimator) == "binomial" and broken.any():
        row = int(np.flatnonzero(broken)[0])
        where = table.where(int(np.flatnonzero(kept)[row]))
        raise BadData(f"column {shown(sized[0])} of {table.name!r} is {size[row]:g} {where}; give whole numbers of trials.")
    return size


def _unused(table: Table, made: dict[str, Any], used: set[str]) -> list[str]:
    """Columns that have no part in this, nor had in the table of the fit, as far as that is known."""
    if not isinstance(made.get("ignored"), list):
        return []
    known = used | {*made["ignored"], *(made.get(f"{what} column") for what in ("noise", "weight", "size"))}
    return [name for name in table.columns if name not in known]


def _few(names: Sequence[str]) -> str:
    return ", ".join(shown(name) for name in names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def tell(answer: Answer, level: float, rows: int, dropped: int, path: str) -> None:
    """Scores and the place of the predictions, on stderr."""
    out = console(stderr=True)
    for name, found in answer.scores.items():
        out.print(f"{name}: {words(found, level)}", soft_wrap=True)
    for note in answer.notes:
        out.print(note, soft_wrap=True)
    if dropped:
        out.print(f"{counted(dropped, 'row')} with missing inputs left out", soft_wrap=True)
    if path != "-":
        out.print(f"wrote {counted(rows, 'prediction')} to {Path(path)}", soft_wrap=True)
