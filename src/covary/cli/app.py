"""The command line itself: commands, options, help. The work is done in the files beside this one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from covary.cli import options as o
from covary.cli.doors import CODES, door

EPILOG = """
[bold]A first example[/bold] (any CSV with a header line will do):

[cyan]covary info houses.csv[/cyan]
    what is in the table
[cyan]covary fit houses.csv --target price[/cyan]
    learns from every other column and writes houses.covary
[cyan]covary predict houses.covary new.csv --out predictions.csv[/cyan]
    mean, std, lower and upper for every row; of classes, the class and the probability of each
[cyan]covary report houses.covary[/cyan]
    one HTML page: how good it is, whether to trust it, what each input does

The target may be a number, a class (yes/no, names) or a count (0, 1, 2, ...): fit finds out, and says so.
No data at hand? [cyan]covary demo[/cyan] forecasts atmospheric CO2; [cyan]covary datasets[/cyan] lists tables to try.

[bold]Exit codes[/bold]
"""
EPILOG += "\n".join(f"{code:>5}  {words}" for code, words in CODES.items())

app = typer.Typer(
    name="covary",
    help="Learning from data with honest error bars: Gaussian processes for tables; they predict numbers, classes and counts.",
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
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    del version


@app.command(epilog="Example: [cyan]covary fit houses.csv --target price --ignore id,street --out price.covary[/cyan]")
def fit(
    data: o.Data,
    target: o.Target,
    inputs: o.Inputs = None,
    ignore: o.Ignore = None,
    noise_column: o.NoiseColumn = None,
    weight_column: o.WeightColumn = None,
    size_column: o.SizeColumn = None,
    categories: o.Categories = None,
    missing: o.Missing = o.MissingChoice.refuse,
    drop_missing: o.DropMissing = False,
    likelihood: o.Likelihood = o.LikelihoodChoice.auto,
    inference: o.Inference = o.InferenceChoice.auto,
    link: o.Link = None,
    method: o.Method = o.MethodChoice.auto,
    objective: o.Objective = o.ObjectiveChoice.evidence,
    experts: o.Experts = None,
    rule: o.Rule = None,
    partition: o.Partition = None,
    learning: o.Learning = None,
    nearest: o.Nearest = None,
    scheduler: o.Scheduler = None,
    workers: o.Workers = None,
    folder: o.Folder = None,
    kernel: o.Kernel = None,
    seasonality: o.Seasonality = None,
    restarts: o.Restarts = None,
    seed: o.Seed = 0,
    max_time: o.MaxTime = None,
    checkpoint: o.Checkpoint = None,
    out: o.ModelOut = None,
    predictions: o.Predictions = None,
    report: o.Report = None,
    config: o.Config = None,
    save_config: o.SaveConfig = None,
    error_bars: o.ErrorBars = o.ErrorBarsChoice.auto,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Learn from a table and write a model file.

    Every column but the target is an input unless --inputs or --ignore say
    otherwise; inputs are numbers, true/false, dates (2024-12-31) or categories
    (text). Rows without a target are not learned from. The target may also be a
    class (text, true/false, or two different whole numbers such as 0 and 1): the
    model then gives the probability of every class. Small whole numbers from 0 up
    are taken for counts. What the target is taken for is said, and --likelihood
    takes it for something else.
    """
    with door(debug) as run:
        from covary.cli.crew import Crew
        from covary.cli.fit import run_fit
        from covary.cli.targets import Asked

        run_fit(
            run,
            data,
            target=target,
            out=out,
            inputs=inputs or [],
            ignore=ignore or [],
            asked=Asked(likelihood.value, inference.value, None if link is None else link.value, method.value, objective.value),
            kernel=kernel,
            noise_column=noise_column,
            weight_column=weight_column,
            size_column=size_column,
            drop_missing=drop_missing,
            error_bars=error_bars.asked,
            seed=seed,
            max_time=max_time,
            checkpoint=checkpoint,
            restarts=restarts,
            as_json=as_json,
            quiet=quiet,
            missing=missing.value,
            categories=categories or [],
            seasonality=seasonality or [],
            predictions=predictions,
            report=report,
            save_config=save_config,
            config=config,
            crew=Crew(
                experts, rule and rule.value, partition, learning and learning.value, nearest, scheduler, workers, folder
            ),
        )


@app.command(epilog="Example: [cyan]covary predict houses.covary new.csv --keep id --out predictions.parquet[/cyan]")
def predict(
    model: o.ModelFile,
    data: o.Data,
    level: o.Level = 0.95,
    latent: o.Latent = False,
    size_column: o.NewSizes = None,
    drop_missing: o.DropMissing = False,
    keep: o.Keep = None,
    keep_all: o.KeepAll = False,
    scheduler: o.Scheduler = None,
    workers: o.Workers = None,
    out: o.TableOut = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Predict every row of a table: mean, std, lower, upper; of classes, the class and the probability of each.

    Columns are matched by name; others are ignored. If the table also holds the target, scores are printed on stderr.
    From Parquet to Parquet (--out FILE.parquet) tables of any size go through, row group by row group.
    """
    with door(debug) as run:
        from covary.cli.crew import Crew
        from covary.cli.predict import run_predict

        run_predict(
            run,
            model,
            data,
            out=out,
            level=level,
            latent=latent,
            size_column=size_column,
            keep=keep or [],
            keep_all=keep_all,
            drop_missing=drop_missing,
            as_json=as_json,
            quiet=quiet,
            crew=Crew(scheduler=scheduler, workers=workers),
        )


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
    """Write the report of a model: one HTML page that needs nothing else.

    What was fitted and how good it is, whether to trust it, what each input does.
    """
    with door(debug) as run:
        from covary.cli.report import run_report

        run_report(run, model, data=data, out=out, title=title, drop_missing=drop_missing, quiet=quiet)


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder to write to.")] = Path("demo"),
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Fit 43 years of atmospheric CO2 and forecast 20 more.

    Writes predictions.csv, forecast.png, the data (co2.csv) and the model (co2.covary).
    """
    with door(debug) as run:
        from covary.cli.demo import run_demo
        from covary.cli.fitting import enable_cache

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
    error_bars: o.FileErrorBars = o.ErrorBarsChoice.auto,
    as_json: o.Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", rich_help_panel=o.OUTPUT, help="Show no progress.")] = False,
    debug: o.Debug = False,
) -> None:
    """Tell what a model file or a table holds; with neither, versions, devices, memory and cache."""
    with door(debug):
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
        typer.Option("--out", "-o", metavar="FILE", help="Table to write; its suffix names the format, - is CSV on stdout."),
    ] = None,
    rows: Annotated[int | None, typer.Option(metavar="N", min=1, help="How many rows, of those that are generated.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="Seed of those that are generated.")] = None,
    as_json: o.Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", rich_help_panel=o.OUTPUT, help="Do not say what was written.")
    ] = False,
    debug: o.Debug = False,
) -> None:
    """List the data sets that come with covary, tell about one, or write one to a file.

    A few measured sets (with origin and licence) and the toy problems of the books, which are generated.
    """
    with door(debug) as run:
        from covary.cli.datasets import run_datasets

        run_datasets(run, name, out=out, rows=rows, seed=seed, as_json=as_json, quiet=quiet)


@app.command(
    epilog="Example: [cyan]covary export houses.covary predictor.py[/cyan], then [cyan]python predictor.py new.csv[/cyan]"
)
def export(
    model: o.ModelFile,
    out: Annotated[str, typer.Argument(metavar="FILE", help="Python file to write, .py.")],
    std: Annotated[bool, typer.Option("--std/--no-std", help="With error bars (the file is then larger).")] = True,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Write a model as one Python file that needs NumPy only and predicts the same.

    The file has predict(X, return_std=True) (classes: predict_proba) and is a command of its own: python FILE new.csv
    """
    with door(debug) as run:
        from covary.cli.export import run_export

        run_export(run, model, out, std=std, as_json=as_json, quiet=quiet)
