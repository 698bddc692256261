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
from covary.cli.columns import Roles, check_sign, choose, numbers
from covary.cli.doors import BadData, BadUsage, NoAnswer, Run, sentence
from covary.cli.model_file import save_model, versions
from covary.cli.output import check_place, console, write_json
from covary.cli.progress import bar, learning
from covary.cli.shown import show_model
from covary.cli.tables import Table, read_table


def run_fit(
    run: Run,
    data: str,
    *,
    target: Sequence[str],
    out: str | None,
    inputs: Sequence[str],
    ignore: Sequence[str],
    kernel: str | None,
    noise_column: str | None,
    weight_column: str | None,
    drop_missing: bool,
    error_bars: bool | None,
    seed: int,
    max_time: float | None,
    restarts: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Read, learn, write, tell."""
    began = time.perf_counter()
    path = default_out(data) if out is None else out
    check_place(path, None if data == "-" else data)
    with bar(quiet=quiet or as_json) as shown:
        shown.stage("reading")
        table = read_table(data)
        roles = choose(table, targets=target, inputs=inputs, ignore=ignore, noise=noise_column, weight=weight_column)
        if roles.noise is not None and len(roles.targets) > 1:
            raise BadUsage("--noise-column goes with one target; fit the targets one at a time.")
        enable_cache()
        if kernel is not None:
            check_kernel(kernel, len(roles.inputs))
        values, kept = numbers(table, roles.all, drop_missing=drop_missing, ignorable=roles.inputs)
        estimator = learn_from(table, roles, values, kept, shown, kernel, seed, max_time, restarts)
        made = {
            "command": "fit",
            "data": "stdin" if data == "-" else Path(data).name,
            "rows": len(values),
            "rows dropped": int((~kept).sum()),
            "noise column": roles.noise,
            "weight column": roles.weight,
            "kernel": kernel,
            "seed": seed,
            "restarts": estimator.n_restarts,
            "max time": max_time,
            "versions": versions(),
        }
        shown.stage(f"writing {path}")
        replaced = Path(path).exists()
        save_model(estimator, path, made)
        run.written.append(path)
        if quiet and not as_json:
            return
        bars, note = worth_error_bars(estimator, error_bars, max_time)
        shown.stage("finding error bars")
        summary = facts.summary_of(estimator, error_bars=bars)
        shown.stage("finding what is relevant")
        shares = facts.relevance(estimator, roles.inputs)
    seconds = time.perf_counter() - began
    if as_json:
        write_json(_json(estimator, summary, bars, shares, table, roles, made, data, path, seconds))
        return
    extra = [
        ("data", f"{table.name}: {_words(table, made)}"),
        ("target", ", ".join(roles.targets)),
        ("inputs", _few(roles.inputs)),
    ]
    show_model(summary, shares, len(roles.inputs), extra=extra, note=note)
    console().print(f"\n{'replaced' if replaced else 'wrote'} {path} ({seconds:.1f} s in all)")


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


def learn_from(
    table: Table,
    roles: Roles,
    values: Any,
    kept: np.ndarray,
    shown: Any,
    kernel: str | None,
    seed: int,
    max_time: float | None,
    restarts: int | None,
) -> Any:
    """A fitted estimator that knows its columns by name."""
    from covary.estimators.regressor import GPRegressor

    y = values[roles.targets].to_numpy()
    noise = weight = None
    if roles.noise is not None:
        noise = values[roles.noise].to_numpy()
        check_sign(table, roles.noise, noise, kept, option="--noise-column")
    if roles.weight is not None:
        weight = values[roles.weight].to_numpy()
        check_sign(table, roles.weight, weight, kept, option="--weight-column")
        if not (weight > 0).any():
            raise BadUsage(f"--weight-column: every number of {roles.weight!r} is zero; give some rows a weight.")
    estimator = GPRegressor(kernel, max_time=max_time, random_state=seed)
    if restarts is not None:
        estimator.set_params(n_restarts=restarts)
    try:
        with learning(shown):
            estimator.fit(
                values[roles.inputs],
                y[:, 0] if y.shape[1] == 1 else y,
                noise_variance=None if noise is None else noise**2,
                sample_weight=weight,
            )
    except MemoryError:
        raise
    except CovaryError as error:  # the estimator's own complaints are about the data, all others about the computation
        kind = BadData if str(error).startswith("GPRegressor:") else NoAnswer
        raise kind(sentence(error).removeprefix("GPRegressor: ")) from None
    estimator.target_names_ = list(roles.targets)  # type: ignore[attr-defined]
    if not np.isfinite(estimator.log_marginal_likelihood_):
        raise NoAnswer("learning ended without a finite evidence; look for columns of extreme size, and rescale them.")
    return estimator


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
        "notes": list(table.notes),
        "inputs": roles.inputs,
        "targets": roles.targets,
        "kernel": repr(estimator.model_.kernel),
        "log_evidence": float(estimator.log_marginal_likelihood_),
        "noise_std": float(np.sqrt(estimator.model_.likelihood.variance)),
        "parameters": facts.parameter_facts(estimator, summary, error_bars=bars),
        "relevance": shares,
        "status": None if learned is None else learned.status,
        "evaluations": 0 if learned is None else learned.steps,
        "seconds": {"learning": 0.0 if learned is None else learned.seconds, "all": seconds},
        "versions": made["versions"],
    }
