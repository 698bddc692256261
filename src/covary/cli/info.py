"""``covary info``: describe a model file, a table or this machine."""

from __future__ import annotations

import os
from pathlib import Path

from covary._version import versions
from covary._words import size, some
from covary.cli.options import DEFAULT
from covary.cli.output import console, load_model, write_json
from covary.cli.progress import bar
from covary.cli.shown import Told, facts_table, simple_table
from covary.cli.workers import enable_cache
from covary.files import is_model
from covary.fits import AnyFit, Json, family_of
from covary.tables.described import described
from covary.tables.files import read_table
from covary.tables.table import Table
from covary.tables.targets import KINDS, class_words

MOST_LINES = 200


def run_info(path: str | None, *, error_bars: bool | None, as_json: bool, quiet: bool) -> None:
    """Describe a file, or the machine."""
    if path is None:
        _machine(as_json)
    elif path != "-" and is_model(path):
        _model(path, error_bars, as_json, quiet)
    else:
        with bar(quiet=quiet or as_json) as progress:
            progress.stage("reading")
            table = read_table(path)
        _table(table, as_json)


# a model --------------------------------------------------------------------------------------------------------
def _model(path: str, error_bars: bool | None, as_json: bool, quiet: bool) -> None:
    with bar(quiet=quiet or as_json) as progress:
        progress.stage("reading")
        enable_cache()
        fit, made = load_model(path)
        told = Told.of(fit, error_bars, None, progress)
    inputs, length = [column.name for column in fit.columns.each], Path(path).stat().st_size
    if as_json:
        rows, _ = told.family.rows(fit)
        page = {"model": path, "bytes": length, "rows": rows, "inputs": inputs, "targets": list(fit.target), **told.json()}
        write_json({**page, "made": made})
        return
    target = f"{', '.join(fit.target)} — {target_words(fit)}"
    told.show([("file", f"{path}, {size(length)}"), ("target", target), ("inputs", some(inputs, 12))])
    console().print("\nhow it was made", style="bold")
    console().print(facts_table(_how(made)))


def target_words(fit: AnyFit) -> str:
    """Describe the type of the target."""
    if fit.classes is not None:
        return f"{class_words(fit.classes.values, fit.classes.counts)}; {KINDS['classes']}"
    return KINDS.get(str(family_of(fit).facts(fit).get("likelihood")), "regression")


def _how(made: dict[str, Json]) -> list[tuple[str, str]]:
    """Return the origin of the model, from the file, as names and values."""
    if "command" not in made:
        return [("by", "a program, not the command"), ("covary", str(made.get("covary") or "unknown"))]
    lines = [("by", f"covary {made['command']}")]
    for name, value in made.items():
        if name in ("command", "ignored", "versions", "covary"):
            continue
        if value not in (None, [], "refuse", DEFAULT) and (value or not name.startswith("rows")):
            lines.append((name, ", ".join(map(str, value)) if isinstance(value, list) else str(value)))
    found = made.get("versions")
    if isinstance(found, dict):
        lines.append(("versions", ", ".join(f"{name} {value}" for name, value in found.items())))
    return lines


# a table --------------------------------------------------------------------------------------------------------
def _table(table: Table, as_json: bool) -> None:
    columns = [described(name, table.frame[name]) for name in table.columns]
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
        (str(c["name"]), str(c["type"]), str(c["missing"] or ""), str(c["distinct"]), _short(c["least"]), _short(c["most"]))
        for c in columns
    ]
    titles = ("column", "type", "missing", "distinct", "min", "max")
    out.print(simple_table(titles, rows[:MOST_LINES], right=(2, 3, 4, 5)))
    if len(rows) > MOST_LINES:
        out.print(f"  and {len(rows) - MOST_LINES} more: --json lists all", style="dim")


def _short(value: Json) -> str:
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
    lines += [("compiled code", found["cache"] or "not cached: the home folder is not writable")]
    console().print(facts_table(lines))
