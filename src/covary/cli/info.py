"""``covary info``: what a model file or a table holds, or what this machine offers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from covary._read import open_plain
from covary._words import counted
from covary.cli import facts
from covary.cli.doors import BadData
from covary.cli.fit import relevance, worth_error_bars
from covary.cli.fitting import enable_cache
from covary.cli.model_file import load_model, versions
from covary.cli.output import console, write_json
from covary.cli.progress import bar
from covary.cli.shown import facts_table, show_model, simple_table
from covary.cli.tables import Table, is_text, read_table, table_suffix
from covary.cli.targets import KINDS, class_words

MOST_LINES = 200
NOTED = (
    *("data", "rows", "rows dropped", "rows without target", "noise column", "weight column", "size column"),
    *("missing", "categories", "seasonality"),
    *("likelihood", "inference", "link", "method", "objective", "kernel", "seed", "restarts", "max time"),
    *("experts", "rule", "partition", "learning", "nearest", "scheduler", "workers", "folder"),
)


def run_info(path: str | None, *, error_bars: bool | None, as_json: bool, quiet: bool) -> None:
    """Tell about a file, or about the machine."""
    if path is None:
        _machine(as_json)
    elif path != "-" and _is_model(path):
        _model(path, error_bars, as_json, quiet)
    else:
        with bar(quiet=quiet or as_json) as progress:
            progress.stage("reading")
            table = read_table(path)
        _table(table, as_json)


def _is_model(path: str) -> bool:
    """By suffix, else by the bytes it begins with."""
    if Path(path).suffix.lower() == ".covary":
        return True
    if table_suffix(path) == ".xlsx":  # a zip archive too
        return False
    try:
        with open_plain(path) as handle:
            return handle.read(4) == b"PK\x03\x04"
    except FileNotFoundError:
        raise BadData(f"there is no file {path!r}; check the name.") from None
    except (OSError, ValueError):  # a name with a NUL among them: the table's reader says so
        return False


# a model --------------------------------------------------------------------------------------------------------
def _model(path: str, error_bars: bool | None, as_json: bool, quiet: bool) -> None:
    with bar(quiet=quiet or as_json) as progress:
        progress.stage("reading")
        enable_cache()
        estimator, made = load_model(path)
        inputs, targets = facts.input_names(estimator), facts.target_names(estimator)
        bars, note = worth_error_bars(estimator, error_bars, None)
        progress.stage("finding error bars")
        summary = facts.spoken(facts.summary_of(estimator, error_bars=bars))
        progress.stage("finding what is relevant")
        shares, unsaid = relevance(estimator)
        note = "; ".join(text for text in (note, unsaid) if text)
    if as_json:
        write_json(
            {
                "model": path,
                "bytes": Path(path).stat().st_size,
                "rows": facts.rows_of(estimator),
                "inputs": inputs,
                "targets": targets,
                "columns": facts.column_facts(estimator),
                **facts.model_facts(estimator),
                "parameters": facts.parameter_facts(estimator, summary, error_bars=bars),
                "relevance": shares,
                "made": made,
            }
        )
        return
    few = ", ".join(inputs[:12]) + (f" and {len(inputs) - 12} more" if len(inputs) > 12 else "")
    target = f"{', '.join(targets)} — {target_words(estimator)}"
    extra = [("file", f"{path}, {size(Path(path).stat().st_size)}"), ("target", target), ("inputs", few)]
    show_model(summary, shares, len(facts.matrix_names(estimator)), extra=extra, note=note)
    console().print("\nhow it was made", style="bold")
    console().print(facts_table(_how(made)))


def target_words(estimator: Any) -> str:
    """What the target was taken for."""
    if hasattr(estimator, "classes_"):
        return f"{class_words(estimator.classes_, estimator.class_count_)}; {KINDS['classes']}"
    return KINDS.get(facts.likelihood_name(estimator), "regression")


def _how(made: dict[str, Any]) -> list[tuple[str, str]]:
    """The note in the file, as lines."""
    if "command" not in made:
        return [("by", "a program, not by the command"), ("covary", str(made.get("covary") or "unknown"))]
    lines = [("by", f"covary {made['command']}")]
    for name in NOTED:
        value = made.get(name)
        if value not in (None, [], "refuse") and (value or not name.startswith("rows")):
            lines.append((name, ", ".join(map(str, value)) if isinstance(value, list) else str(value)))
    found = made.get("versions")
    if isinstance(found, dict):
        lines.append(("versions", ", ".join(f"{name} {value}" for name, value in found.items())))
    return lines


# a table --------------------------------------------------------------------------------------------------------
def _table(table: Table, as_json: bool) -> None:
    columns = [_column(name, table.frame[name]) for name in table.columns]
    if as_json:
        write_json({"data": table.name, "rows": len(table.frame), "notes": list(table.notes), "columns": columns})
        return
    out = console()
    gaps = int(table.frame.isna().any(axis=1).sum())
    lines = [("rows", f"{len(table.frame)}" + (f", {gaps} with a missing value" if gaps else ", none with a missing value"))]
    lines += [("columns", str(len(columns))), *(("note", note) for note in table.notes)]
    out.print(table.name, style="bold")
    out.print(facts_table(lines))
    rows = [
        (c["name"], c["type"], str(c["missing"] or ""), str(c["distinct"]), _short(c["least"]), _short(c["most"]))
        for c in columns
    ]
    titles = ("column", "type", "missing", "distinct", "least", "most")
    out.print(simple_table(titles, rows[:MOST_LINES], right=(2, 3, 4, 5)))
    if len(rows) > MOST_LINES:
        out.print(f"  and {len(rows) - MOST_LINES} more: --json lists all", style="dim")


def _column(name: str, column: Any) -> dict[str, Any]:
    """Type, gaps and range of one column."""
    kind, usable = _kind(column)
    there = column.dropna()
    least = most = None
    if kind in ("text", "categories", "dates") and column.dtype.kind != "M":
        texts = there.astype(object).map(str)  # of categories, pandas would keep their order, or that they have none
        least, most, distinct = texts.min(), texts.max(), texts.nunique()
    else:
        distinct = there.nunique()
        if len(there):
            ends: list[Any] = [there.min(), there.max()]
            least, most = (v.item() if hasattr(v, "item") else v if isinstance(v, int | float) else str(v) for v in ends)
    return {
        "name": name,
        "type": kind,
        "usable": usable,
        "missing": int(column.isna().sum()),
        "distinct": int(distinct),
        "least": least,
        "most": most,
    }


def _kind(column: Any) -> tuple[str, bool]:
    """What a column holds, and whether it can be an input as it is."""
    from covary._checks import CovaryError
    from covary.estimators.cells import CATEGORY, check_names, read_cells

    if not len(column.dropna()):
        return "empty", False
    if not is_text(column):
        return {"f": "numbers", "b": "true or false"}.get(column.dtype.kind, "whole numbers"), True
    try:
        found = read_cells("info", name := "the column", column)
        if found.kind == CATEGORY:
            check_names("info", name, [v for v in found.values if v is not None])
    except CovaryError:
        return "text", False
    words = {"boolean": "true or false", "number": "numbers", "date": "dates", "duration": "durations"}
    return words.get(found.kind, "categories"), True


def _short(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 24 else text[:21] + "..."


# the machine ----------------------------------------------------------------------------------------------------
def _machine(as_json: bool) -> None:
    import jax

    from covary._memory import GIB, free_memory

    found = {
        "versions": versions(),
        "devices": [f"{d.platform}: {d.device_kind}" for d in jax.devices()],
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_free_gib": round(free_memory() / GIB, 2),
        "cache": enable_cache(),
    }
    if as_json:
        write_json(found)
        return
    lines = [*found["versions"].items(), ("devices", ", ".join(found["devices"])), ("cores", str(found["cores"]))]
    lines += [("free memory", f"{found['memory_free_gib']:.1f} GiB")]
    lines += [("compiled code", found["cache"] or "not kept: the home folder cannot be written")]
    console().print(facts_table(lines))


def size(count: int) -> str:
    """Bytes as a person says them.

    Examples
    --------
    >>> size(900), size(2_500_000)
    ('900 bytes', '2.5 MB')
    """
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return counted(count, "byte")
