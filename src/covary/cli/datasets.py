"""``covary datasets``: what comes with the package, and any of it as a file to work with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from covary._checks import CovaryError
from covary._words import counted
from covary.cli.doors import BadUsage, Run, sentence
from covary.cli.output import check_table_place, console, write_json, write_table
from covary.cli.shown import facts_table, simple_table

SIGNS = {  # of mathematics in docstrings
    "varepsilon": "ε",
    "sim": "~",
    "mid": "|",
    "sum": "Σ",
    "ell": "ℓ",
    "bigl": "",
    "bigr": "",
    "mathrm": "",
    "alpha": "α",
    "delta": "δ",
    "mu": "μ",
    "pi": "π",
    "sigma": "σ",
    "theta": "θ",
}
KEPT = ("name", "kind", "rows", "columns", "target", "licence")


def complete_names(incomplete: str) -> list[str]:
    """The names that begin like this, for the shell."""
    from covary.datasets.catalogue import names

    return [name for name in names() if name.startswith(incomplete)]


def run_datasets(
    run: Run, name: str | None, *, out: str | None, rows: int | None, seed: int | None, as_json: bool, quiet: bool
) -> None:
    """List the data sets, tell about one, or write one to a file."""
    if name is None:
        if out is not None or rows is not None or seed is not None:
            raise BadUsage("--out, --rows and --seed go with the name of a data set; covary datasets lists them.")
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
        raise BadUsage(sentence(error)) from None


def _facts(name: str, table: Any) -> dict[str, Any]:
    """What the catalogue says, of the table at hand."""
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
        ("toy problems of the books, generated", table[table["licence"] == "generated"]),
    ):
        last = "licence" if title == "measured" else "source"
        cells = [[str(row[c]) for c in (*KEPT[:5], last)] for _, row in part.iterrows()]
        out.print(title, style="bold")
        out.print(simple_table((*KEPT[:5], last), cells, right=(2, 3)))
    out.print("covary datasets NAME tells more; covary datasets NAME --out NAME.csv writes it", style="dim")


def _one(name: str, table: Any, as_json: bool) -> None:
    facts = _facts(name, table)
    if as_json:
        write_json(facts)
        return
    out = console()
    out.print(name, style="bold")
    lines = [("what", _first_line(name)), ("kind", facts["kind"]), ("rows", str(facts["rows"]))]
    lines += [("columns", ", ".join(facts["columns"])), ("target", ", ".join(facts["targets"]) or "none")]
    lines += [("licence", facts["licence"]), ("source", facts["source"])]
    out.print(facts_table(lines))
    out.print(
        f"\ncovary datasets {name} --out {name}.csv writes it; in Python, help(covary.datasets.{_function(name)}) says more",
        style="dim",
    )


def _function(name: str) -> str:
    from covary.datasets.catalogue import GENERATORS, LOADERS

    found: Any = LOADERS[name] if name in LOADERS else GENERATORS[name][1]
    return getattr(found, "func", found).__name__


def _first_line(name: str) -> str:
    """The first sentence of the docstring, without the marks of mathematics."""
    import covary.datasets

    return plainly((getattr(covary.datasets, _function(name)).__doc__ or "").strip().splitlines()[0])


def plainly(text: str) -> str:
    r"""A line of a docstring as a terminal can show it.

    Examples
    --------
    >>> plainly(r"A chirp, :math:`y = \tfrac12\sin\bigl(2\pi x^2\bigr) + \varepsilon`.")
    'A chirp, y = ½ sin(2π x^2) + ε.'
    """
    text = re.sub(r":\w+:`(?:make_)?([^`]*)`", r"\1", text.replace("\\tfrac12", "½")).replace("`", "")
    text = re.sub(r"(?<=[\w½])\\(sin|exp|tan)", r" \\\1", text)
    text = re.sub(r"\\(sin|exp|tan)(?=\\(?!big))", r"\\\1 ", text)
    text = re.sub(r"\\([A-Za-z]+)", lambda found: SIGNS.get(found[1], found[1]), text)
    return re.sub(r"\{(\w+)\}", r"\1", text).replace("{", "(").replace("}", ")").replace("\\", "")


def _quoted(path: str) -> str:
    import shlex

    return shlex.quote(str(Path(path)))
