"""The command line itself: commands, options, help. The work is done in the files beside this one."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from covary.cli.doors import CODES, door

EPILOG = """
[bold]A first example[/bold] (any CSV with a header line will do):

[cyan]covary info houses.csv[/cyan]
    what is in the table
[cyan]covary fit houses.csv --target price[/cyan]
    learns from every other column and writes houses.covary
[cyan]covary predict houses.covary new.csv --out predictions.csv[/cyan]
    mean, std, lower and upper for every row

No data at hand? [cyan]covary demo[/cyan] forecasts atmospheric CO2.

[bold]Exit codes[/bold]
"""
EPILOG += "\n".join(f"{code:>5}  {words}" for code, words in CODES.items())

app = typer.Typer(
    name="covary",
    help="Learning from data with honest error bars: Gaussian processes for tables of numbers.",
    epilog=EPILOG,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


class ErrorBarsChoice(StrEnum):
    """Whether to find error bars."""

    auto = "auto"
    yes = "yes"
    no = "no"

    @property
    def asked(self) -> bool | None:
        """True, False, or None to judge by the time they take."""
        return {"auto": None, "yes": True, "no": False}[self.value]


COLUMNS, LEARNING, OUTPUT = "Columns", "Learning", "Output"

Data = Annotated[
    str, typer.Argument(metavar="DATA", help="Table: .csv, .tsv, .txt (tabs), each also .gz; .parquet; - for CSV on stdin.")
]
Json = Annotated[bool, typer.Option("--json", rich_help_panel=OUTPUT, help="Print one JSON object on stdout instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", rich_help_panel=OUTPUT, help="Print nothing but errors.")]
Debug = Annotated[bool, typer.Option("--debug", rich_help_panel=OUTPUT, help="Show the traceback of an error.")]
ErrorBars = Annotated[
    ErrorBarsChoice,
    typer.Option(
        "--error-bars",
        metavar="auto|yes|no",
        rich_help_panel=OUTPUT,
        help="Error bars of the parameters in the summary; auto: if they take less than a minute, or than --max-time.",
    ),
]
DropMissing = Annotated[
    bool,
    typer.Option(
        "--drop-missing", rich_help_panel=COLUMNS, help="Leave out rows with a missing value in a column that is used."
    ),
]


def _version(asked: bool) -> None:
    if asked:
        from covary._version import __version__

        typer.echo(f"covary {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    del version


@app.command(epilog="Example: [cyan]covary fit houses.csv --target price --ignore id,street --out price.covary[/cyan]")
def fit(
    data: Data,
    target: Annotated[
        list[str],
        typer.Option("--target", "-t", metavar="NAMES", rich_help_panel=COLUMNS, help="Column to predict; several as y1,y2."),
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES", rich_help_panel=COLUMNS, help="Columns to learn from, as a,b,c.", show_default="every other column"
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", rich_help_panel=COLUMNS, help="Columns to leave out, as a,b.", show_default="none"),
    ] = None,
    noise_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=COLUMNS,
            help="Column of known noise: the standard deviation of each row's target, in the units of the target "
            "(squared inside). The noise that is learned comes on top.",
            show_default="none",
        ),
    ] = None,
    weight_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=COLUMNS,
            help="Column of weights: a row of weight 2 counts as two equal rows.",
            show_default="every row once",
        ),
    ] = None,
    drop_missing: DropMissing = False,
    kernel: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            rich_help_panel=LEARNING,
            help="Kernel, such as '2*Matern52() + Periodic(period=fixed(1)).on(0)'; .on() counts the inputs from 0.",
            show_default="Matern52, or Matern32 where the evidence prefers it, with a length-scale per input",
        ),
    ] = None,
    restarts: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            rich_help_panel=LEARNING,
            min=0,
            max=1000,
            help="Further starts of the search.",
            show_default="as many as GPRegressor makes by itself",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", rich_help_panel=LEARNING, min=0, max=2**32 - 1, help="Seed of restarts and subsets.")
    ] = 0,
    max_time: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            rich_help_panel=LEARNING,
            min=0.0,
            help="When learning stops and takes the best so far.",
            show_default="no limit",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            rich_help_panel=OUTPUT,
            help="Model file to write.",
            show_default="the table's name with .covary, in this folder",
        ),
    ] = None,
    error_bars: ErrorBars = ErrorBarsChoice.auto,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Learn from a table and write a model file.

    Every column but the target is an input unless --inputs or --ignore say otherwise; all must be numbers or true/false.
    """
    with door(debug) as run:
        from covary.cli.fit import run_fit

        run_fit(
            run,
            data,
            target=target,
            out=out,
            inputs=inputs or [],
            ignore=ignore or [],
            kernel=kernel,
            noise_column=noise_column,
            weight_column=weight_column,
            drop_missing=drop_missing,
            error_bars=error_bars.asked,
            seed=seed,
            max_time=max_time,
            restarts=restarts,
            as_json=as_json,
            quiet=quiet,
        )


@app.command(epilog="Example: [cyan]covary predict houses.covary new.csv --keep id --out predictions.parquet[/cyan]")
def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model file that covary fit wrote.")],
    data: Data,
    level: Annotated[float, typer.Option(metavar="SHARE", help="Probability that lower and upper enclose.")] = 0.95,
    latent: Annotated[
        bool, typer.Option("--latent", help="Error bars of the function itself, without the noise of a new value.")
    ] = False,
    drop_missing: DropMissing = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES", rich_help_panel=COLUMNS, help="Columns of DATA to copy to the output, as a,b.", show_default="none"
        ),
    ] = None,
    keep_all: Annotated[
        bool, typer.Option("--keep-all", rich_help_panel=COLUMNS, help="Copy every column of DATA to the output.")
    ] = False,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            rich_help_panel=OUTPUT,
            help="Table to write; its suffix decides the format; - is stdout.",
            show_default="stdout, as CSV",
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict every row of a table: mean, std, lower, upper.

    Columns are matched by name; others are ignored. If the table also holds the target, scores are printed on stderr.
    """
    with door(debug) as run:
        from covary.cli.predict import run_predict

        run_predict(
            run,
            model,
            data,
            out=out,
            level=level,
            latent=latent,
            keep=keep or [],
            keep_all=keep_all,
            drop_missing=drop_missing,
            as_json=as_json,
            quiet=quiet,
        )


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write to.")] = Path("demo"),
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit 43 years of atmospheric CO2 and forecast 20 more.

    Writes predictions.csv, forecast.png, the data (co2.csv) and the model (co2.covary).
    """
    with door(debug) as run:
        from covary.cli.demo import run_demo
        from covary.cli.fit import enable_cache

        enable_cache()
        paths = run_demo(out, say=_nothing if quiet else print, quiet=quiet)
        run.written += [str(path) for path in paths]
        if not quiet:
            print(f"now try: covary info {paths[3]}")
            print(f"         covary predict {paths[3]} {paths[2]} --out {out / 'check.csv'}")


def _nothing(_: Any) -> None:
    pass


@app.command(
    epilog="Examples: [cyan]covary info houses.csv[/cyan], [cyan]covary info houses.covary[/cyan], [cyan]covary info[/cyan]"
)
def info(
    file: Annotated[
        str | None, typer.Argument(metavar="MODEL|DATA", help="A model file or a table.", show_default="this machine")
    ] = None,
    error_bars: ErrorBars = ErrorBarsChoice.auto,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    debug: Debug = False,
) -> None:
    """Tell what a model file or a table holds; with neither, versions, devices, memory and cache."""
    with door(debug):
        from covary.cli.info import run_info

        run_info(file, error_bars=error_bars.asked, as_json=as_json, quiet=quiet)
