"""``covary predict``: a model file and a table in, predictions with error bars out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from covary._checks import CovaryError
from covary.cli.columns import known, names_of, numbers
from covary.cli.doors import BadData, BadUsage, NoAnswer, Run, sentence
from covary.cli.facts import input_names, target_names
from covary.cli.fit import enable_cache
from covary.cli.model_file import load_model
from covary.cli.output import check_table_place, console, write_json, write_table
from covary.cli.progress import Bar, bar
from covary.cli.tables import Frame, Table, is_text, read_table, shown

CHUNK = 10_000  # rows predicted between two looks at the clock


def run_predict(
    run: Run,
    model: str,
    data: str,
    *,
    out: str | None,
    level: float,
    latent: bool,
    keep: Sequence[str],
    keep_all: bool,
    drop_missing: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Read, predict, score, write."""
    began = time.perf_counter()
    path = "-" if out is None else out
    if path != "-":
        check_table_place(path, None if data == "-" else data)
    if not 0 < level < 1:
        raise BadUsage(f"--level is {level:g}; give a number between 0 and 1, such as 0.95.")
    with bar(quiet=quiet or as_json) as progress:
        progress.stage("reading")
        enable_cache()
        estimator, _ = load_model(model)
        table = read_table(data)
        inputs, targets = input_names(estimator), target_names(estimator)
        _check_columns(table, inputs, model)
        kept_names = table.columns if keep_all else names_of(keep, table)
        titles = output_titles(targets)
        _check_clash(kept_names, titles)
        values, kept = numbers(table, inputs, drop_missing=drop_missing)
        mean, std = predict_in_parts(estimator, values, latent, progress)
        scores = score(estimator, table, targets, values, kept, level, (None if latent else (mean, std)), progress)
    from scipy.special import ndtri

    half = float(ndtri(0.5 + level / 2)) * std
    parts = {"mean": mean, "std": std, "lower": mean - half, "upper": mean + half}
    frame = table.frame.loc[kept, kept_names].copy()
    for j, names in enumerate(titles):
        for name, part in zip(names, ("mean", "std", "lower", "upper"), strict=True):
            frame[name] = parts[part][:, j]
    seconds = time.perf_counter() - began
    if path != "-" or not as_json:
        write_table(frame, path)
    if path != "-":
        run.written.append(path)
    if as_json:
        columns = [name for names in titles for name in names]
        rows = {name: frame[name].to_numpy() for name in columns} if path == "-" else None
        found = {
            "model": model,
            "data": data,
            "out": None if path == "-" else path,
            "rows": len(frame),
            "rows_dropped": int((~kept).sum()),
            "targets": targets,
            "columns": list(frame.columns),
            "level": level,
            "latent": latent,
            "scores": scores,
            "seconds": {"all": seconds},
        }
        write_json(found if rows is None else {**found, "predictions": rows})
    elif not quiet:
        tell(scores, level, len(frame), int((~kept).sum()), path)


def _check_columns(table: Table, inputs: list[str], model: str) -> None:
    lacking = [name for name in inputs if name not in table.columns]
    if len(lacking) == 1:
        known(lacking[0], table)  # raises, with the nearest name
    if lacking:
        few = ", ".join(shown(name) for name in lacking[:8]) + (f" and {len(lacking) - 8} more" if len(lacking) > 8 else "")
        raise BadData(f"{table.name!r} lacks {len(lacking)} of the {len(inputs)} input columns of {model!r}: {few}; add them.")


def output_titles(targets: list[str]) -> list[tuple[str, str, str, str]]:
    """The names of the output columns, four for each target.

    Examples
    --------
    >>> output_titles(["y"]), output_titles(["a", "b"])[1]
    ([('mean', 'std', 'lower', 'upper')], ('b_mean', 'b_std', 'b_lower', 'b_upper'))
    """
    heads = [""] if len(targets) == 1 else [f"{name}_" for name in targets]
    return [(f"{h}mean", f"{h}std", f"{h}lower", f"{h}upper") for h in heads]


def _check_clash(kept: Sequence[str], titles: list[tuple[str, str, str, str]]) -> None:
    clash = [name for names in titles for name in names if name in kept]
    if clash:
        raise BadUsage(f"the kept column {shown(clash[0])} has the name of an output column; rename it, or do not keep it.")


def predict_in_parts(estimator: Any, values: Frame, latent: bool, progress: Bar) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation, (rows, targets), with a bar."""
    began, means, stds = time.perf_counter(), [], []
    progress.stage("predicting")
    for start in range(0, len(values), CHUNK):
        part = values.iloc[start : start + CHUNK]
        try:
            mean, std = estimator.predict(part, return_std=True, latent=latent)
        except MemoryError:
            raise
        except CovaryError as error:
            raise NoAnswer(sentence(error)) from None
        means.append(np.reshape(mean, (len(part), -1)))
        stds.append(np.reshape(std, (len(part), -1)))
        progress.at("predicting", min(1.0, (start + CHUNK) / len(values)), time.perf_counter() - began)
    mean, std = np.concatenate(means), np.concatenate(stds)
    if not (np.isfinite(mean).all() and np.isfinite(std).all()):
        raise NoAnswer("some predictions are not finite; look for inputs far outside the range the model was fitted to.")
    return mean, std


def score(
    estimator: Any,
    table: Table,
    targets: list[str],
    values: Frame,
    kept: np.ndarray,
    level: float,
    found: tuple[np.ndarray, np.ndarray] | None,
    progress: Bar,
) -> dict[str, dict[str, Any]]:
    """R², RMSE, NLPD and coverage of every target the table holds, over the rows that have a value; noise is included."""
    from covary import metrics

    out: dict[str, dict[str, Any]] = {}
    for j, name in enumerate(targets):
        if name not in table.columns or is_text(table.frame[name]):
            continue
        truth = table.frame.loc[kept, name].to_numpy(np.float64, na_value=np.nan)
        seen = np.isfinite(truth)
        if not seen.any():
            continue
        if found is None:
            found = predict_in_parts(estimator, values, False, progress)
        y, mean, std = truth[seen], found[0][seen, j], found[1][seen, j]
        out[name] = {
            "rows": int(seen.sum()),
            "r2": _try(metrics.r2, y, mean),
            "rmse": _try(metrics.rmse, y, mean),
            "nlpd": _try(metrics.nlpd, y, mean, std),
            "coverage": _try(metrics.coverage, y, mean, std, level),
        }
    return out


def _try(metric: Any, *arguments: Any) -> float | None:
    """A score, or None where there is none (constant targets have no R²)."""
    try:
        return float(metric(*arguments))
    except CovaryError:
        return None


def tell(scores: dict[str, dict[str, Any]], level: float, rows: int, dropped: int, path: str) -> None:
    """Scores and the place of the predictions, on stderr."""
    out = console(stderr=True)
    for name, s in scores.items():
        words = [
            f"{label} {s[key]:.4g}" for key, label in (("r2", "R²"), ("rmse", "RMSE"), ("nlpd", "NLPD")) if s[key] is not None
        ]
        if s["coverage"] is not None:
            words.append(f"{100 * s['coverage']:.1f} % inside the {100 * level:g} % intervals")
        out.print(f"{name}: {', '.join(words)} ({s['rows']} rows with a known value)", soft_wrap=True)
    if dropped:
        out.print(f"{dropped} rows with missing inputs were left out", soft_wrap=True)
    if path != "-":
        out.print(f"wrote {rows} predictions to {Path(path)}", soft_wrap=True)
