"""The options of the command: names, help, choices. Nothing heavy is imported, so that help is quick."""

from __future__ import annotations

from typing import Annotated

import typer

from covary.cli.choices import (
    ErrorBarsChoice,
    InferenceChoice,
    LearningChoice,
    LikelihoodChoice,
    LinkChoice,
    MethodChoice,
    MissingChoice,
    ObjectiveChoice,
    RuleChoice,
)

COLUMNS, LEARNING, EXPERTS, OUTPUT = "Columns", "Learning", "Committees of experts", "Output"


# of several commands --------------------------------------------------------------------------------------------
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Table: .csv, .tsv, .txt (tabs), all also .gz; .parquet, or a folder of such files; .xlsx; - is CSV on stdin.",
    ),
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
FileErrorBars = Annotated[
    ErrorBarsChoice,
    typer.Option(
        "--error-bars",
        metavar="auto|yes|no",
        help="Error bars of a model's parameters; auto: if they take less than a minute.",
    ),
]
DropMissing = Annotated[
    bool,
    typer.Option(
        "--drop-missing", rich_help_panel=COLUMNS, help="Leave out rows with a missing value in a column that is used."
    ),
]

# of fit ---------------------------------------------------------------------------------------------------------
Target = Annotated[
    list[str],
    typer.Option("--target", "-t", metavar="NAMES", rich_help_panel=COLUMNS, help="Column to predict; several as y1,y2."),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES", rich_help_panel=COLUMNS, help="Columns to learn from, as a,b,c.", show_default="every other column"
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(metavar="NAMES", rich_help_panel=COLUMNS, help="Columns to leave out, as a,b.", show_default="none"),
]
Categories = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES",
        rich_help_panel=COLUMNS,
        help="Inputs to take for categories whatever they hold (numbers that are codes), as a,b; text is taken so anyway.",
        show_default="none",
    ),
]
Missing = Annotated[
    MissingChoice,
    typer.Option(
        metavar="refuse|drop|impute|indicator",
        rich_help_panel=COLUMNS,
        help="Missing inputs: drop leaves such rows out, and without a prediction later; impute gives them the median, or the "
        "commonest category; indicator does so and marks them in a column of their own. The model remembers it.",
    ),
]
Seasonality = Annotated[
    list[str] | None,
    typer.Option(
        metavar="yearly|weekly|daily",
        rich_help_panel=LEARNING,
        help="Seasons of a column of dates to add to the default kernel, as yearly,weekly.",
        show_default="none",
    ),
]
Predictions = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=OUTPUT,
        help="Table to write: the rows without a target, which are not learned from, with their predictions.",
        show_default="none",
    ),
]
Report = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", rich_help_panel=OUTPUT, help="Page to write, .html: the report of the fit.", show_default="none"
    ),
]
ReportData = Annotated[
    str | None,
    typer.Option(
        "--data",
        "-d",
        metavar="DATA",
        help="Table to hold the model against; without its target, only extrapolation is checked.",
        show_default="leave-one-out",
    ),
]
PageOut = Annotated[
    str | None,
    typer.Option(
        "--out", "-o", metavar="FILE", help="Page to write.", show_default="the model's name with .html, in this folder"
    ),
]
SaveConfig = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=OUTPUT,
        help="Write every setting of this run as TOML, for --config.",
        show_default="none",
    ),
]


def _configured(context: typer.Context, path: str | None) -> str | None:
    """Take what a configuration says for the defaults of all other options."""
    if path is not None and not context.resilient_parsing:
        from covary.cli.config import read_config
        from covary.cli.doors import door

        with door(False):
            context.default_map = {**(context.default_map or {}), **read_config(path)[0]}
    return path


Config = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        callback=_configured,
        is_eager=True,
        help="Settings of an earlier run (--save-config): DATA and --target are then not needed; options go first.",
        show_default="none",
    ),
]

NoiseColumn = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=COLUMNS,
        help="Column of known noise: the standard deviation of each row's target, in the units of the target "
        "(squared inside). The noise that is learned comes on top.",
        show_default="none",
    ),
]
WeightColumn = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=COLUMNS,
        help="Column of weights: a row of weight 2 counts as two equal rows.",
        show_default="every row once",
    ),
]
SizeColumn = Annotated[
    str | None,
    typer.Option(
        "--size-column",
        metavar="NAME",
        rich_help_panel=COLUMNS,
        help="Column of sizes: the trials behind each number of successes, or the exposure (time, area, people) behind each "
        "count.",
        show_default="one each",
    ),
]
Likelihood = Annotated[
    LikelihoodChoice,
    typer.Option(
        metavar="NAME",
        rich_help_panel=LEARNING,
        help="What the target is. auto looks: text, true/false or two different whole numbers are classes, small whole "
        "numbers are counts (negative_binomial), all else is gaussian. Also: student_t and laplace (outliers), heteroscedastic "
        "(noise that varies), poisson, binomial (with --size-column), gamma (positive), ordinal (levels 0, 1, ...), classes.",
    ),
]
Inference = Annotated[
    InferenceChoice,
    typer.Option(
        metavar="auto|exact|laplace|ep",
        rich_help_panel=LEARNING,
        help="How the posterior is found; auto: exact under Gaussian noise, else Laplace's method (ep for laplace noise). "
        "ep is slower and more accurate, for two classes above all.",
    ),
]
Method = Annotated[
    MethodChoice,
    typer.Option(
        metavar="NAME",
        rich_help_panel=LEARNING,
        help="What is done about many rows. auto chooses by rows, inputs, target and memory, and says what and why: exact; "
        "markov (exact, one input); vecchia (nearest neighbours, Gaussian noise); low_rank (inducing inputs); svgp (the same "
        "in batches, any target); subset; committee (experts on parts of the rows).",
    ),
]
Objective = Annotated[
    ObjectiveChoice,
    typer.Option(
        metavar="NAME",
        rich_help_panel=LEARNING,
        help="What the parameters maximise: the evidence; loo, the log density of every row given the others; gcv, generalised "
        "cross-validation; kfold, ten folds. All but the first go with Gaussian noise and the exact method.",
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=LEARNING,
        help="Where learning writes down how far it is (a committee of experts: a folder); the same command, killed and run "
        "again, goes on from there.",
        show_default="none",
    ),
]
Experts = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        rich_help_panel=EXPERTS,
        min=1,
        help="Part the rows among so many experts, each an exact model of its own rows. Each option of this panel means "
        "--method committee.",
        show_default="one for every 1,000 rows",
    ),
]
Rule = Annotated[
    RuleChoice | None,
    typer.Option(
        metavar="grbcm|rbcm|bcm|gpoe|poe|nearest",
        rich_help_panel=EXPERTS,
        help="How experts are combined: (generalised) robust Bayesian committee machine, Bayesian committee machine, "
        "(generalised) product of experts, the nearest expert alone.",
        show_default="grbcm",
    ),
]
Partition = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=EXPERTS,
        help="Who gets which rows: kmeans (compact parts), kd_tree (boxes, quick for thousands of experts), random, arrival "
        "(as they come), column:NAME.",
        show_default="kmeans; kd_tree if the rows stay on disk",
    ),
]
Learning = Annotated[
    LearningChoice | None,
    typer.Option(
        metavar="levels|full|stochastic|independent",
        rich_help_panel=EXPERTS,
        help="How experts learn: together, on a sample and then on more and more of them; to the end on all; a few at a step; "
        "or each for itself.",
        show_default="levels",
    ),
]
Nearest = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        rich_help_panel=EXPERTS,
        help="How many experts are asked about a new row: those nearest to it.",
        show_default="32",
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        rich_help_panel=EXPERTS,
        help="Let the workers of this Dask scheduler do the work (tcp://host:8786); of a Parquet table they read the rows "
        "themselves.",
        show_default="this process",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        rich_help_panel=EXPERTS,
        min=1,
        max=1000,
        help="Start so many worker processes on this machine for it.",
        show_default="this process",
    ),
]
Folder = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        rich_help_panel=EXPERTS,
        help="Where the rows of a Parquet table are sorted by expert, if they stay on disk: a folder that every worker "
        "reaches. The model needs it later.",
        show_default="the model's name with .rows",
    ),
]
Link = Annotated[
    LinkChoice | None,
    typer.Option(
        metavar="logit|probit",
        rich_help_panel=LEARNING,
        help="How the function becomes a probability, of two classes.",
        show_default="logit",
    ),
]
Kernel = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        rich_help_panel=LEARNING,
        help="Kernel, such as '2*Matern52() + Periodic(period=fixed(1)).on(0)'; .on() counts the inputs from 0.",
        show_default="Matern52 (of Gaussian noise, or Matern32 where the evidence prefers it; of classes, plus a constant), "
        "with a length-scale per input",
    ),
]
Restarts = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        rich_help_panel=LEARNING,
        min=0,
        max=1000,
        help="Further starts of the search.",
        show_default="2; 0 for classes",
    ),
]
Seed = Annotated[
    int, typer.Option(metavar="N", rich_help_panel=LEARNING, min=0, max=2**32 - 1, help="Seed of restarts and subsets.")
]
MaxTime = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        rich_help_panel=LEARNING,
        min=0.0,
        help="When learning stops and takes the best so far.",
        show_default="no limit",
    ),
]
ModelOut = Annotated[
    str | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        rich_help_panel=OUTPUT,
        help="Model file to write.",
        show_default="the table's name with .covary, in this folder",
    ),
]

# of predict -----------------------------------------------------------------------------------------------------
ModelFile = Annotated[str, typer.Argument(metavar="MODEL", help="Model file that covary fit wrote.")]
Level = Annotated[float, typer.Option(metavar="SHARE", help="Probability that lower and upper enclose.")]
Latent = Annotated[
    bool,
    typer.Option(
        "--latent",
        help="Error bars of the function itself, without the noise of a new value; of two classes, the function behind the "
        "probability of the second.",
    ),
]
NewSizes = Annotated[
    str | None,
    typer.Option(
        "--size-column",
        metavar="NAME",
        rich_help_panel=COLUMNS,
        help="Column of trials or exposures, for models of counts and successes.",
        show_default="that of the fit, if the table has it",
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES", rich_help_panel=COLUMNS, help="Columns of DATA to copy to the output, as a,b.", show_default="none"
    ),
]
KeepAll = Annotated[bool, typer.Option("--keep-all", rich_help_panel=COLUMNS, help="Copy every column of DATA to the output.")]
TableOut = Annotated[
    str | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        rich_help_panel=OUTPUT,
        help="Table to write; its suffix decides the format; - is stdout.",
        show_default="stdout, as CSV",
    ),
]
