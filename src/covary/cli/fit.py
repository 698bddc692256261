"""``covary fit``: a table in, a model file and a summary out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from covary._words import counted
from covary.cli import disk, facts
from covary.cli.columns import Roles
from covary.cli.config import begin_config, end_config
from covary.cli.crew import Crew
from covary.cli.doors import BadUsage, Run
from covary.cli.fitting import in_memory, on_disk
from covary.cli.model_file import save_model, versions
from covary.cli.output import check_apart, check_place, check_table_place, console, is_stream, write_json
from covary.cli.progress import bar
from covary.cli.report import check_page, write_page
from covary.cli.rows import open_words, predict_open
from covary.cli.shown import show_model
from covary.cli.tables import Table, shown
from covary.cli.targets import Asked

QUICK_ROWS = 50_000  # on disk, up to which it is found out what is relevant: that asks all experts several times


def run_fit(
    run: Run,
    data: str,
    *,
    target: Sequence[str],
    out: str | None,
    inputs: Sequence[str],
    ignore: Sequence[str],
    asked: Asked,
    kernel: str | None,
    noise_column: str | None,
    weight_column: str | None,
    size_column: str | None,
    drop_missing: bool,
    error_bars: bool | None,
    seed: int,
    max_time: float | None,
    checkpoint: str | None,
    restarts: int | None,
    as_json: bool,
    quiet: bool,
    missing: str = "refuse",
    categories: Sequence[str] = (),
    seasonality: Sequence[str] = (),
    predictions: str | None = None,
    report: str | None = None,
    save_config: str | None = None,
    config: str | None = None,
    crew: Crew | None = None,
) -> None:
    """Read, learn, write, tell."""
    began = time.perf_counter()
    path = default_out(data) if out is None else out
    check_place(path, data, config)
    if predictions is not None:
        check_table_place(predictions, data, config, option="--predictions")
    if report is not None:
        check_page(report, data, config, option="--report")
    check_apart(
        {
            "--out": path,
            "--predictions": predictions,
            "--report": report,
            "--save-config": save_config,
            "--checkpoint": checkpoint,
        }
    )
    crew = crew or Crew()
    committee = crew.check(asked.method, asked.objective)
    seasons = seasons_asked(seasonality, kernel)
    named = {
        "--out": out,
        "--predictions": predictions,
        "--report": report,
        "--checkpoint": checkpoint,
        "--folder": crew.folder,
    }
    changed = begin_config(data, save_config, config, named)
    with bar(quiet=quiet or as_json) as progress, ExitStack() as stack:
        progress.stage("reading")
        settings: dict[str, Any] = {"checkpoint": checkpoint, "missing": missing, "seasonality": seasons or None}
        searched = (asked, kernel, seed, max_time, restarts)
        chosen: Any = {"target": target, "inputs": inputs, "ignore": ignore}
        source = disk.left_on_disk(data, crew, asked.method, meant=committee)
        if source is None:
            others = {"noise": noise_column, "weight": weight_column, "size": size_column}
            done = in_memory(
                data, crew if committee else None, searched, settings, chosen, others, categories, drop_missing, progress, stack
            )
        else:
            given: Any = {"noise_column": noise_column, "weight_column": weight_column, "size_column": size_column}
            given |= {"categories": categories, "predictions": predictions}
            left = disk.look(source, data, asked, **chosen, **given)
            settings["missing"] = "drop" if drop_missing else missing
            done = on_disk(left, data, path, crew, searched, settings, progress, stack)
        estimator, table, roles = done.estimator, done.table, done.roles
        made = {
            "command": "fit",
            "data": "stdin" if data == "-" else Path(data).name,
            "rows": done.learned,
            "rows dropped": done.dropped,
            "rows without target": done.open,
            "noise column": roles.noise,
            "weight column": roles.weight,
            "size column": roles.size,
            "ignored": [name for name in table.columns if name not in roles.all],
            "missing": missing,
            "categories": done.categories,
            "seasonality": seasons,
            "likelihood": done.found.likelihood,
            "inference": asked.inference,
            "link": asked.link,
            "method": asked.method,
            "objective": asked.objective,
            "kernel": kernel,
            "seed": seed,
            "restarts": estimator.n_restarts,
            "max time": None if max_time == float("inf") else max_time,
            **{name: value for name, value in asdict(crew).items() if value is not None},
            "versions": versions(),
        }
        progress.stage(f"writing {path}")
        replaced = Path(path).exists() and not is_stream(path)
        save_model(estimator, path, made)
        run.written.append(path)
        if source is not None and crew.folder is None:
            disk.clear_others(estimator, f"{path}.rows")
        if save_config is not None:
            end_config(save_config, data, made, roles, out, predictions, report, checkpoint, drop_missing, error_bars)
            run.written.append(save_config)
        if report is not None:
            progress.stage("drawing the report")
            write_page(run, estimator, report)
        opened = None
        if done.rows is not None:
            opened = predict_open(run, estimator, table, roles, done.rows, predictions, progress)
        if quiet and not as_json:
            return
        bars, note = worth_error_bars(estimator, error_bars, max_time)
        progress.stage("finding error bars")
        summary = facts.spoken(facts.summary_of(estimator, error_bars=bars))
        progress.stage("finding what is relevant")
        shares, unsaid = relevance(estimator)
    seconds = time.perf_counter() - began
    if as_json:
        write_json(_json(estimator, summary, bars, shares, table, roles, made, data, path, seconds) | {"predictions": opened})
        return
    words = done.found.words
    extra = [
        ("data", f"{table.name}: {_words(table, made)}"),
        *([("to predict", open_words(made, roles, predictions, opened))] if done.open or predictions else []),
        ("target", ", ".join(roles.targets) + (f" — {words}" if words else "")),
        ("inputs", _few(roles.inputs)),
        *(("note", text) for text in changed),
    ]
    note = "; ".join(text for text in (note, unsaid) if text)
    show_model(summary, shares, len(facts.matrix_names(estimator)), extra=extra, note=note)
    also = "".join(f" and {name}" for name in (save_config, report) if name)
    console().print(f"\n{'replaced' if replaced else 'wrote'} {path}{also} ({seconds:.1f} s in all)")


def relevance(estimator: Any) -> tuple[dict[str, float], str]:
    """How relevant each column is, or why that is not told."""
    bound: Any = facts.parts_of(estimator)[0].posterior_.bound
    if getattr(bound, "elsewhere", False) and bound.rows > QUICK_ROWS:
        return {}, f"relevance is not told: all experts would read their {counted(bound.rows, 'row')} several times"
    return facts.relevance(estimator, facts.matrix_names(estimator)), ""


def default_out(data: str) -> str:
    """``<stem>.covary`` in the current folder.

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


def seasons_asked(given: Sequence[str], kernel: str | None) -> list[str]:
    """The seasons that ``--seasonality`` names."""
    from covary.estimators.column import PERIODS

    names = list(dict.fromkeys(part.strip() for value in given for part in value.split(",") if part.strip()))
    wrong = [name for name in names if name not in PERIODS]
    if wrong:
        raise BadUsage(f"--seasonality is {shown(wrong[0])}; choose from {', '.join(PERIODS)}.")
    if names and kernel is not None:
        raise BadUsage("--seasonality adds to the default kernel, and --kernel gives another; write the season into it.")
    return names


def worth_error_bars(estimator: Any, asked: bool | None, max_time: float | None) -> tuple[bool, str]:
    """Whether to find error bars, and the note where they are left out."""
    if asked is not None:
        return asked, ""
    needed = facts.error_bar_seconds(estimator)
    limit = facts.A_MINUTE if max_time is None else max(1.0, max_time)
    if needed <= limit:
        return True, ""
    from covary.cli.progress import clock

    return False, f"no error bars: they would take about {clock(needed)}; ask for them with --error-bars yes"


def _words(table: Table, made: dict[str, Any]) -> str:
    parts = [counted(made["rows"], "row")]
    if made["rows dropped"]:
        parts.append(f"{made['rows dropped']} left out for missing values")
    return ", ".join([*parts, *table.notes])


def _few(names: list[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _json(
    estimator: Any,
    summary: Any,
    bars: bool,
    shares: dict[str, float],
    table: Table,
    roles: Roles,
    made: dict[str, Any],
    data: str,
    path: str,
    seconds: float,
) -> dict[str, Any]:
    learned = estimator.learned_
    return {
        "model": path,
        "data": data,
        "rows": made["rows"],
        "rows_dropped": made["rows dropped"],
        "rows_without_target": made["rows without target"],
        "notes": list(table.notes),
        "inputs": roles.inputs,
        "targets": roles.targets,
        "columns": facts.column_facts(estimator),
        **facts.model_facts(estimator),
        "parameters": facts.parameter_facts(estimator, summary, error_bars=bars),
        "relevance": shares,
        "status": None if learned is None else learned.status,
        "evaluations": 0 if learned is None else learned.steps,
        "seconds": {"learning": 0.0 if learned is None else learned.seconds, "all": seconds},
        "versions": made["versions"],
    }
