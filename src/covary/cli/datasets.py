"""``covary datasets``: list the data sets of the package, describe one, or write one to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from covary._checks import CovaryError
from covary._errors import Option
from covary._words import counted
from covary.cli.errors import BadUsage, Run, usage
from covary.cli.output import check_table_place, console, write_json, write_table
from covary.cli.shown import facts_table, simple_table
from covary.datasets.plain import first_line, function

KEPT = ("name", "kind", "rows", "columns", "target", "licence")


def complete_names(incomplete: str) -> list[str]:
    """Return the names that begin with the given text, for shell completion."""
    from covary.datasets.catalogue import names

    return [name for name in names() if name.startswith(incomplete)]


def run_datasets(
    run: Run, name: str | None, *, out: str | None, rows: int | None, seed: int | None, as_json: bool, quiet: bool
) -> None:
    """List the data sets, describe one, or write one to a file."""
    if name is None:
        if out is not None or rows is not None or seed is not None:
            what = Option("out") + ", " + Option("n") + " and " + Option("random_state") + " require the name of a data set"
            raise usage("out", what, "covary datasets lists them")
        _all(as_json)
        return
    if out is not None and out != "-":
        check_table_place(out)
    table = _load(name, rows, seed)
    if out is None:
        _one(name, table, as_json)
        return
    targets = table.attrs["targets"]
    facts = _facts(name, table)
    table.attrs = {}
    write_table(table, out)
    if out == "-":
        return
    run.written.append(out)
    if as_json:
        write_json({**facts, "written": out})
    elif not quiet:
        print(f"wrote {out}: {counted(len(table), 'row')} of {', '.join(map(str, table.columns))}")
        if targets:
            print(f"now try: covary fit {_quoted(out)} --target {','.join(targets)}")


def _load(name: str, rows: int | None, seed: int | None) -> Any:
    from covary.datasets import load

    options = {} if seed is None else {"random_state": seed}
    try:
        return load(name, rows, **options)
    except CovaryError as error:
        raise error.turned(BadUsage) from None


def _facts(name: str, table: Any) -> dict[str, Any]:
    """Return the entry of the catalogue, with the rows and columns of the table."""
    from covary.datasets import available

    row = available().set_index("name").loc[name]
    return {
        "name": name,
        "kind": row["kind"],
        "rows": len(table),
        "columns": [str(c) for c in table.columns],
        "targets": list(table.attrs["targets"]),
        "licence": row["licence"],
        "source": row["source"],
    }


def _all(as_json: bool) -> None:
    from covary.datasets import available

    table = available()
    if as_json:
        write_json({"datasets": table.to_dict("records")})
        return
    out = console()
    for title, part in (
        ("measured", table[table["licence"] != "generated"]),
        ("toy problems from textbooks, generated", table[table["licence"] == "generated"]),
    ):
        last = "licence" if title == "measured" else "source"
        cells = [[str(row[c]) for c in (*KEPT[:5], last)] for _, row in part.iterrows()]
        out.print(title, style="bold")
        out.print(simple_table((*KEPT[:5], last), cells, right=(2, 3)))
    out.print("covary datasets NAME describes one; covary datasets NAME --out NAME.csv writes it", style="dim")


def _one(name: str, table: Any, as_json: bool) -> None:
    facts = _facts(name, table)
    if as_json:
        write_json(facts)
        return
    out = console()
    out.print(name, style="bold")
    lines = [("about", first_line(name)), ("kind", facts["kind"]), ("rows", str(facts["rows"]))]
    lines += [("columns", ", ".join(facts["columns"])), ("target", ", ".join(facts["targets"]) or "none")]
    lines += [("licence", facts["licence"]), ("source", facts["source"])]
    out.print(facts_table(lines))
    out.print(
        f"\ncovary datasets {name} --out {name}.csv writes it; in Python, help(covary.datasets.{function(name)}) describes it",
        style="dim",
    )


def _quoted(path: str) -> str:
    import shlex

    return shlex.quote(str(Path(path)))
