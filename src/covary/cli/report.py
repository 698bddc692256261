"""``covary report``: write a report of a model as one HTML page, optionally with checks on the rows of a table."""

from __future__ import annotations

import time
from pathlib import Path

from covary._checks import CovaryError
from covary._errors import Option
from covary._write import NotWritten
from covary.cli.errors import Run, usage
from covary.cli.output import blaming, check_place, console, is_stream, load_model
from covary.cli.progress import bar
from covary.cli.rendering import rendered
from covary.cli.workers import enable_cache
from covary.fits import AnyFit, Fitted, of
from covary.fits.answers import NoAnswer, levels
from covary.fits.new_rows import NewRows, new_rows
from covary.report import write_report
from covary.tables.files import read_table


def run_report(
    run: Run, model: str, *, data: str | None, out: str | None, title: str | None, drop_missing: bool, quiet: bool
) -> None:
    """Read the model and the table, run the checks, and write the page."""
    began = time.perf_counter()
    path = page_name(model) if out is None else out
    check_page(path, model, data)
    with bar(quiet=quiet) as progress:
        progress.stage("reading")
        enable_cache()
        fit, made = load_model(model)
        rows = None if data is None else new_rows(fit, made, read_table(data, levels(fit)), drop_missing)
        progress.stage("diagnosing and drawing")
        with blaming("out"):
            write_page(run, fit, path, rows, title)
    if quiet:
        return
    for note in () if rows is None else rows.notes:
        console(stderr=True).print(note, soft_wrap=True)
    console().print(f"wrote {path} ({time.perf_counter() - began:.1f} s); open it in a browser", soft_wrap=True)


def write_page(run: Run, model: AnyFit | Fitted, path: str, rows: NewRows | None = None, title: str | None = None) -> None:
    """Write the report, and convert errors to those of the command."""
    fit = of(model)
    x, y = (None, None) if rows is None else (fit.columns.matrix("report", rows.x).x, rows.y)
    try:
        write_report(fit, path, x=x, y=y, title=title, say=rendered)
    except (MemoryError, NotWritten):
        raise
    except CovaryError as error:
        raise error.turned(NoAnswer) from None
    run.written.append(path)


def page_name(model: str) -> str:
    """Return ``<stem>.html`` in the current folder.

    Examples
    --------
    >>> page_name("models/houses.covary")
    'houses.html'
    """
    return f"{Path(model).stem or 'report'}.html"


def check_page(path: str, *sources: str | None, argument: str = "out") -> None:
    """Raise an error for a page that cannot be written, before any work is done."""
    if Path(path).suffix.lower() not in (".html", ".htm") and not is_stream(path):
        raise usage(argument, Option(argument) + f" is {path!r}", "give a name that ends in .html")
    check_place(path, *sources, argument=argument)
