"""``covary fit``: a table in, a model file and a summary out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from covary._checks import CovaryError
from covary.cli import facts
from covary.cli.columns import Roles, check_sign, choose, in_the_file, names_of
from covary.cli.config import begin_config, end_config
from covary.cli.doors import BadData, BadUsage, NoAnswer, Run, sentence
from covary.cli.model_file import save_model, versions
from covary.cli.output import check_place, check_table_place, console, write_json
from covary.cli.progress import bar, learning
from covary.cli.report import check_page, write_page
from covary.cli.rows import open_words, predict_open, rows_of
from covary.cli.shown import show_model
from covary.cli.tables import Table, read_table, shown
from covary.cli.targets import Asked, Target, label_columns, recognise


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
) -> None:
    """Read, learn, write, tell."""
    began = time.perf_counter()
    path = default_out(data) if out is None else out
    check_place(path, None if data == "-" else data)
    if predictions is not None:
        check_table_place(predictions, None if data == "-" else data)
    if report is not None:
        check_page(report, None if data == "-" else data)
    seasons = seasons_asked(seasonality, kernel)
    changed = begin_config(data, save_config, config)
    with bar(quiet=quiet or as_json) as progress:
        progress.stage("reading")
        table = read_table(data)
        roles = choose(
            table,
            targets=target,
            inputs=inputs,
            ignore=ignore,
            noise=noise_column,
            weight=weight_column,
            size=size_column,
        )
        labels = label_columns(table, roles, asked)
        enable_cache()
        if kernel is not None and missing != "indicator":
            check_kernel(kernel, len(roles.inputs))
        named = names_of(categories, table)
        rows = rows_of(table, roles, labels, drop_missing=drop_missing, missing=missing, categories=named)
        values, kept = rows.values, rows.kept
        found = recognise(table, roles, values, kept, labels, asked)
        estimator = unfitted(found, asked, kernel, seed, max_time, restarts)
        estimator.set_params(method=asked.method, checkpoint=checkpoint, missing=missing, seasonality=seasons or None)
        learn_from(estimator, found, table, roles, values, kept, progress)
        made = {
            "command": "fit",
            "data": "stdin" if data == "-" else Path(data).name,
            "rows": len(values),
            "rows dropped": int((~kept & ~rows.open).sum()),
            "rows without target": int(rows.open.sum()),
            "noise column": roles.noise,
            "weight column": roles.weight,
            "size column": roles.size,
            "ignored": [name for name in table.columns if name not in roles.all],
            "missing": missing,
            "categories": named,
            "seasonality": seasons,
            "likelihood": found.likelihood,
            "inference": asked.inference,
            "link": asked.link,
            "method": asked.method,
            "objective": asked.objective,
            "kernel": kernel,
            "seed": seed,
            "restarts": estimator.n_restarts,
            "max time": max_time,
            "versions": versions(),
        }
        progress.stage(f"writing {path}")
        replaced = Path(path).exists()
        save_model(estimator, path, made)
        run.written.append(path)
        if save_config is not None:
            end_config(save_config, data, made, roles, out, predictions, checkpoint, drop_missing)
            run.written.append(save_config)
        if report is not None:
            progress.stage("drawing the report")
            write_page(run, estimator, report)
        opened = predict_open(run, estimator, table, roles, rows, predictions, progress)
        if quiet and not as_json:
            return
        bars, note = worth_error_bars(estimator, error_bars, max_time)
        progress.stage("finding error bars")
        summary = facts.spoken(facts.summary_of(estimator, error_bars=bars))
        progress.stage("finding what is relevant")
        shares = facts.relevance(estimator, facts.matrix_names(estimator))
    seconds = time.perf_counter() - began
    if as_json:
        write_json(_json(estimator, summary, bars, shares, table, roles, made, data, path, seconds) | {"predictions": opened})
        return
    extra = [
        ("data", f"{table.name}: {_words(table, made)}"),
        *([("to predict", open_words(made, roles, predictions, opened))] if made["rows without target"] or predictions else []),
        ("target", ", ".join(roles.targets) + (f" — {found.words}" if found.words else "")),
        ("inputs", _few(roles.inputs)),
        *(("note", text) for text in changed),
    ]
    show_model(summary, shares, len(facts.matrix_names(estimator)), extra=extra, note=note)
    also = "".join(f" and {name}" for name in (save_config, report) if name)
    console().print(f"\n{'replaced' if replaced else 'wrote'} {path}{also} ({seconds:.1f} s in all)")


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


def enable_cache() -> str | None:
    """Keep compiled code between calls, where the home folder allows it."""
    import covary

    with suppress(OSError):
        return covary.enable_cache()
    return None


def check_kernel(text: str, columns: int) -> None:
    """Refuse a kernel that cannot be read, or that does not fit the number of inputs, as wrong usage."""
    from covary.data import Inputs
    from covary.kernels.text import parse
    from covary.model import GP

    try:
        GP(parse(text)).check(Inputs(np.zeros((1, columns))))
    except CovaryError as error:
        raise BadUsage(f"--kernel: {sentence(error)}") from None


def seasons_asked(given: Sequence[str], kernel: str | None) -> list[str]:
    """The seasons that ``--seasonality`` names."""
    from covary.estimators.frames import PERIODS

    names = list(dict.fromkeys(part.strip() for value in given for part in value.split(",") if part.strip()))
    wrong = [name for name in names if name not in PERIODS]
    if wrong:
        raise BadUsage(f"--seasonality is {shown(wrong[0])}; choose from {', '.join(PERIODS)}.")
    if names and kernel is not None:
        raise BadUsage("--seasonality adds to the default kernel, and --kernel gives another; write the season into it.")
    return names


def unfitted(found: Target, asked: Asked, kernel: str | None, seed: int, max_time: float | None, restarts: int | None) -> Any:
    """The estimator for a target, with what was asked for."""
    from covary.estimators.classifier import GPClassifier
    from covary.estimators.regressor import GPRegressor

    if found.likelihood == "classes":
        how = "laplace" if asked.inference == "auto" else asked.inference
        estimator: Any = GPClassifier(kernel, inference=how, link=asked.link or "logit", max_time=max_time, random_state=seed)
    else:
        options: dict[str, Any] = {"likelihood": found.likelihood, "inference": asked.inference, "objective": asked.objective}
        estimator = GPRegressor(kernel, **options, max_time=max_time, random_state=seed)
    return estimator if restarts is None else estimator.set_params(n_restarts=restarts)


def learn_from(estimator: Any, found: Target, table: Table, roles: Roles, values: Any, kept: np.ndarray, progress: Any) -> None:
    """Fit the estimator, which then knows its columns by name."""
    options: dict[str, Any] = {}
    if roles.noise is not None:
        noise = values[roles.noise].to_numpy()
        check_sign(table, roles.noise, noise, kept, option="--noise-column")
        options["noise_variance"] = noise**2
    if roles.weight is not None:
        options["sample_weight"] = weight = values[roles.weight].to_numpy()
        check_sign(table, roles.weight, weight, kept, option="--weight-column")
        if not (weight > 0).any():
            raise BadUsage(f"--weight-column: every number of {roles.weight!r} is zero; give some rows a weight.")
    if roles.size is not None:
        options["size"] = values[roles.size].to_numpy()
        check_sign(table, roles.size, options["size"], kept, option="--size-column", positive=True)
    elif found.likelihood == "binomial" and (found.y > 1).any():
        row = int(np.flatnonzero(found.y > 1)[0])
        what = f"column {shown(roles.targets[0])} of {table.name!r} is {found.y[row]:g}"
        where = table.where(int(np.flatnonzero(kept)[row]))
        raise BadData(f"{what} {where}, of one trial; name the column of trials with --size-column.")
    y = found.y[:, 0] if found.y.ndim == 2 and found.y.shape[1] == 1 else found.y
    try:
        with learning(progress):
            estimator.fit(values[roles.inputs], y, **options)
    except MemoryError:
        raise
    except CovaryError as error:  # the estimator's own complaints are about the data, all others about the computation
        who = f"{type(estimator).__name__}: "
        text = sentence(error)
        if not text.startswith(who):
            raise NoAnswer(text) from None
        raise BadData(in_the_file(text.removeprefix(who), table, kept, roles.targets[0])) from None
    estimator.target_names_ = list(roles.targets)
    if not np.isfinite(estimator.log_marginal_likelihood_):
        raise NoAnswer("learning ended without a finite evidence; look for columns of extreme size, and rescale them.")


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
    parts = [f"{made['rows']} rows"]
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
