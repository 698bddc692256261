"""Commands, options and help texts of the command line; the other modules of this package do the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from covary.cli import options as o
from covary.cli.errors import CODES, reported

EPILOG = """
[bold]A first example[/bold] (any CSV with a header line will do):

[cyan]covary info houses.csv[/cyan]
    shows the columns of the table
[cyan]covary fit houses.csv --target price[/cyan]
    fits a model to all other columns and writes houses.covary
[cyan]covary predict houses.covary new.csv --out predictions.csv[/cyan]
    mean, std, lower and upper for every row; for classes, the class and the probability of each
[cyan]covary report houses.covary[/cyan]
    one HTML page: accuracy, warnings and the effect of each input

The target may be a number, a class (yes/no, names) or a count (0, 1, 2, ...): fit detects the type and reports it.
No data yet? [cyan]covary demo[/cyan] forecasts atmospheric CO2; [cyan]covary datasets[/cyan] lists tables to try.

[bold]Exit codes[/bold]
"""
EPILOG += "\n".join(f"{code:>5}  {words}" for code, words in CODES.items())

app = typer.Typer(
    name="covary",
    help="Gaussian processes for tables: predict numbers, classes and counts with error bars.",
    epilog=EPILOG,
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from covary._version import __version__

        typer.echo(f"covary {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    del version


@app.command(
    cls=o.OfFamily, epilog="Example: [cyan]covary fit houses.csv --target price --ignore id,street --out price.covary[/cyan]"
)
@o.taking(o.FitSettings)
def fit(settings: o.FitSettings) -> None:
    """Fit a model to a table and write a model file.

    All columns except the target are inputs, unless --inputs or --ignore say
    otherwise; inputs are numbers, true/false, dates (2024-12-31) or categories
    (text). Rows without a target are not used for training. The target may also
    be a class (text, true/false, or two different whole numbers such as 0 and
    1): the model then predicts the probability of every class. Small
    non-negative integers are treated as counts. The output shows the detected type
    of the target; --likelihood overrides it.
    """
    with reported(settings.debug) as run:
        from covary.cli.fit import run_fit

        run_fit(run, settings)


@app.command(epilog="Example: [cyan]covary predict houses.covary new.csv --keep id --out predictions.parquet[/cyan]")
@o.taking(o.PredictSettings)
def predict(settings: o.PredictSettings) -> None:
    """Predict every row of a table: mean, std, lower, upper; for classes, the class and the probability of each.

    Columns are matched by name; others are ignored. If the table also contains
    the target, scores are printed on stderr. From Parquet to Parquet (--out
    FILE.parquet) tables of any size are predicted, row group by row group.
    """
    with reported(settings.debug) as run:
        from covary.cli.predict import run_predict

        run_predict(run, settings)


@app.command(epilog="Example: [cyan]covary report houses.covary --data test.csv --out houses.html[/cyan]")
def report(
    model: o.ModelFile,
    data: o.ReportData = None,
    out: o.PageOut = None,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Heading of the page.")] = None,
    drop_missing: o.DropMissing = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Write the report of a model: one self-contained HTML page.

    It describes and assesses the fit, with checks, warnings and the effect of each input.
    """
    with reported(debug) as run:
        from covary.cli.report import run_report

        run_report(run, model, data=data, out=out, title=title, drop_missing=drop_missing, quiet=quiet)


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Output folder.")] = Path("demo"),
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Fit 43 years of atmospheric CO2 and forecast 20 more.

    Writes predictions.csv, forecast.png, the data (co2.csv) and the model (co2.covary).
    """
    with reported(debug) as run:
        from covary.cli.demo import run_demo
        from covary.cli.workers import enable_cache

        enable_cache()
        paths = run_demo(out, say=_nothing if quiet else print, quiet=quiet)
        run.written += [str(path) for path in paths]
        if not quiet:
            print(f"now try: covary info {paths[3]}")
            print(f"         covary predict {paths[3]} {paths[2]} --out {out / 'check.csv'}")


def _nothing(_: str) -> None:
    pass


@app.command(
    epilog="Examples: [cyan]covary info houses.csv[/cyan], [cyan]covary info houses.covary[/cyan], [cyan]covary info[/cyan]"
)
def info(
    file: Annotated[
        str | None, typer.Argument(metavar="MODEL|DATA", help="A model file or a table.", show_default="this machine")
    ] = None,
    error_bars: o.FileErrorBars = o.ErrorBarsChoice.auto,
    as_json: o.Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", rich_help_panel=o.OUTPUT, help="Do not show progress.")] = False,
    debug: o.Debug = False,
) -> None:
    """Describe a model file or a table; without a file, versions, devices, memory and cache."""
    with reported(debug):
        from covary.cli.info import run_info

        run_info(file, error_bars=error_bars.asked, as_json=as_json, quiet=quiet)


def _dataset_names(incomplete: str) -> list[str]:
    from covary.cli.datasets import complete_names

    return complete_names(incomplete)


@app.command(
    epilog="Examples: [cyan]covary datasets[/cyan], [cyan]covary datasets iris --out iris.csv[/cyan], "
    "[cyan]covary datasets step --rows 200 --seed 1 --out step.csv[/cyan]"
)
def datasets(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A data set.", show_default="list them", autocompletion=_dataset_names)
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Table to write; the suffix determines the format; - is CSV on stdout."
        ),
    ] = None,
    rows: Annotated[int | None, typer.Option(metavar="N", min=1, help="Number of rows of a generated data set.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="Seed of a generated data set.")] = None,
    as_json: o.Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", rich_help_panel=o.OUTPUT, help="Do not report the file written.")
    ] = False,
    debug: o.Debug = False,
) -> None:
    """List the data sets that come with covary, describe one, or write one to a file.

    A few measured data sets (with source and licence) and toy problems from textbooks, which are generated.
    """
    with reported(debug) as run:
        from covary.cli.datasets import run_datasets

        run_datasets(run, name, out=out, rows=rows, seed=seed, as_json=as_json, quiet=quiet)


@app.command(
    epilog="Example: [cyan]covary export houses.covary predictor.py[/cyan], then [cyan]python predictor.py new.csv[/cyan]"
)
def export(
    model: o.ModelFile,
    out: Annotated[str, typer.Argument(metavar="FILE", help="Python file to write, .py.")],
    std: Annotated[bool, typer.Option("--std/--no-std", help="Include error bars (a larger file).")] = True,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Write a model as one Python file that needs NumPy only and gives the same predictions.

    The file has predict(X, return_std=True) (classes: predict_proba) and is itself a command: python FILE new.csv
    """
    with reported(debug) as run:
        from covary.cli.export import run_export

        run_export(run, model, out, std=std, as_json=as_json, quiet=quiet)
