"""The options of the command, each declared once; those of fit and predict are fields of their settings.

Nothing heavy is imported, so that ``--help`` is fast.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Generic, TypeVar, cast, get_type_hints

import typer
from typer.core import TyperCommand
from typer.main import get_command

from covary._errors import CovaryError, fail
from covary._families import Json as Value
from covary._families import Setting, options_of, owner
from covary.cli.errors import reported, usage

COLUMNS, LEARNING, EXPERTS, OUTPUT = "Columns", "Learning", "Committees of experts", "Output"
DEFAULT = "gaussian_process"  # the family if none is given
S = TypeVar("S")
_column, _learning, _experts, _output = (
    functools.partial(typer.Option, rich_help_panel=panel) for panel in (COLUMNS, LEARNING, EXPERTS, OUTPUT)
)


class ErrorBarsChoice(StrEnum):
    """Choice of computing error bars."""

    auto = "auto"
    yes = "yes"
    no = "no"

    @property
    def asked(self) -> bool | None:
        """True, False, or None to decide by the time required."""
        return {"auto": None, "yes": True, "no": False}[self.value]


# treatment of missing inputs
MissingChoice = StrEnum("MissingChoice", "refuse drop impute indicator")


class Taking(Generic[S]):
    """Command whose options are the fields of a record, called with the record.

    A field ``own`` represents the options of a family of models.
    """

    def __init__(self, settings: type[S], work: Callable[[S], None], family: str = DEFAULT) -> None:
        functools.update_wrapper(self, work)
        self.__annotations__ = {}  # those of the signature are used instead
        self.settings, self.work, self.hints = settings, work, get_type_hints(settings, include_extras=True)
        self.family = family

    def __call__(self, **given: object) -> None:
        own = {name: given.pop(name) for name in list(given) if name not in self.hints}
        plain = {name: str(value) if isinstance(value, StrEnum) else value for name, value in own.items()}
        self.work(self.settings(**given, **({"own": plain} if "own" in self.hints else {})))

    @property
    def __signature__(self) -> inspect.Signature:
        found: list[inspect.Parameter] = []
        for f in fields(self.settings):  # type: ignore[arg-type]
            found += self._own() if f.name == "own" else [self._parameter(f)]
        return inspect.Signature(found)

    def _parameter(self, f: Field[object]) -> inspect.Parameter:
        default = [] if f.default_factory is not MISSING else inspect.Parameter.empty if f.default is MISSING else f.default
        return inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=self.hints[f.name])

    def _own(self) -> list[inspect.Parameter]:
        options = options_of(self.family)
        for setting in options.settings:
            if setting.name in self.hints:
                what = f"the family {self.family!r} declares {setting.option}, which every family has"
                raise fail("covary", what, "rename it", argument="family")
        return [_own_parameter(setting, options.title) for setting in options.settings]


def taking(settings: type[S]) -> Callable[[Callable[[S], None]], Taking[S]]:
    """Return a decorator that turns a function of one record into a command."""
    return lambda work: Taking(settings, work)


# options that families declare ------------------------------------------------------------------------------------
class OfFamily(TyperCommand):
    """Command with the options of the family of models that its arguments name."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Declare the options of the family; settings of a configuration become the defaults of all options."""
        name, path = (_given(args, option) for option in ("--family", "--config"))
        if ctx.resilient_parsing:  # completion on the command line
            with suppress(CovaryError):
                self._declare(name or DEFAULT)
            return super().parse_args(ctx, args)
        with reported(False):
            page: Mapping[str, Value] = {}
            if path is not None:
                from covary.cli.config import read_config

                page, _ = read_config(path, name)
                ctx.default_map = {**(ctx.default_map or {}), **page}
            family = str(name or page.get("family", DEFAULT))
            self._declare(family)
            self._refuse_others(ctx, family, args)
        return super().parse_args(ctx, args)

    def _declare(self, family: str) -> None:
        assert self.callback is not None
        taking = inspect.unwrap(self.callback, stop=lambda f: isinstance(f, Taking))
        if family != taking.family:
            app = typer.Typer(add_completion=False)
            app.command()(Taking(taking.settings, taking.work, family))
            made = get_command(app)
            self.params, self.callback = made.params, made.callback

    def _refuse_others(self, ctx: typer.Context, family: str, args: list[str]) -> None:
        """Raise an error for options of other families."""
        known = {text for param in self.get_params(ctx) for text in (*param.opts, *param.secondary_opts)}
        for option in (text.partition("=")[0] for text in args if text.startswith("--")):
            if option not in known and (other := owner(option)) is not None:
                what, do = f"{option} is for the family {other}, not {family!r}", f"leave it out, or give --family {other}"
                raise usage("", what, do)


def _given(args: list[str], option: str) -> str | None:
    """Return the value of an option among the arguments of a command; None if it is not given."""
    found = None
    for text, after in pairwise([*args, ""]):
        if text == option:
            found = after
        elif text.startswith(f"{option}="):
            found = text.removeprefix(f"{option}=")
    return found


def _own_parameter(setting: Setting, title: str) -> inspect.Parameter:
    kind, default = setting.kind, setting.start
    if setting.choices:
        names = cast("type[StrEnum]", StrEnum(setting.name, [(choice, choice) for choice in setting.choices]))
        kind, default = names, default if default is None or setting.multiple else names(str(default))
    option = typer.Option(
        *setting.flags,
        help=setting.help,
        rich_help_panel=setting.panel or title,
        metavar=setting.metavar or None,
        show_default=setting.show_default or True,
        min=setting.minimum,
        max=setting.maximum,
    )
    taken = list[kind] if setting.multiple else kind if default is not None else kind | None  # type: ignore[valid-type]
    return inspect.Parameter(setting.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[taken, option])


# of several commands --------------------------------------------------------------------------------------------
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Table: .csv, .tsv, .txt (tabs), all also .gz; .parquet, or a folder of such files; .xlsx; - is CSV on stdin.",
    ),
]
Json = Annotated[bool, _output("--json", help="Print one JSON object on stdout instead of text.")]
Quiet = Annotated[bool, _output("--quiet", "-q", help="Print errors only.")]
Debug = Annotated[bool, _output("--debug", help="Show the traceback of an error.")]
FileErrorBars = Annotated[
    ErrorBarsChoice,
    typer.Option(
        "--error-bars",
        metavar="auto|yes|no",
        help="Error bars of a model's parameters; auto: if they take less than a minute.",
    ),
]
DropMissing = Annotated[bool, _column("--drop-missing", help="Leave out rows with a missing value in a column that is used.")]
ModelFile = Annotated[str, typer.Argument(metavar="MODEL", help="Model file that covary fit wrote.")]
ReportData = Annotated[
    str | None,
    typer.Option(
        "--data",
        "-d",
        metavar="DATA",
        help="Table of new rows to check the model on; without its target, only extrapolation is checked.",
        show_default="leave-one-out",
    ),
]
PageOut = Annotated[
    str | None,
    typer.Option(
        "--out", "-o", metavar="FILE", help="Page to write.", show_default="the model's name with .html, in the current folder"
    ),
]
Scheduler = Annotated[
    str | None,
    _experts(
        metavar="ADDRESS",
        help="Run on the workers of this Dask scheduler (tcp://host:8786); they read the rows of a Parquet table themselves.",
        show_default="this process",
    ),
]
Workers = Annotated[
    int | None,
    _experts(
        metavar="N", min=1, max=1000, help="Start this number of worker processes on this machine.", show_default="this process"
    ),
]


@dataclass(frozen=True)
class FitSettings:
    """Settings of ``covary fit``."""

    data: Data
    target: Annotated[list[str], _column("--target", "-t", metavar="NAMES", help="Column to predict, or several: y1,y2.")]
    inputs: Annotated[
        list[str], _column(metavar="NAMES", help="Columns to use as inputs: a,b,c.", show_default="every other column")
    ] = field(default_factory=list)
    ignore: Annotated[list[str], _column(metavar="NAMES", help="Columns to leave out: a,b.", show_default="none")] = field(
        default_factory=list
    )
    noise_column: Annotated[
        str | None,
        _column(
            metavar="NAME",
            help="Column of known noise: the standard deviation of each row's target, in the units of the target "
            "(squared internally). The learned noise is added to it.",
            show_default="none",
        ),
    ] = None
    weight_column: Annotated[
        str | None,
        _column(
            metavar="NAME",
            help="Column of weights: a row of weight 2 counts as two identical rows.",
            show_default="1 for every row",
        ),
    ] = None
    size_column: Annotated[
        str | None,
        _column(
            "--size-column",
            metavar="NAME",
            help="Column of sizes: the number of trials for each number of successes, or the exposure (time, area, people) "
            "for each count.",
            show_default="1 for every row",
        ),
    ] = None
    categories: Annotated[
        list[str],
        _column(
            metavar="NAMES",
            help="Inputs to treat as categories even if they are numbers: a,b; text always is.",
            show_default="none",
        ),
    ] = field(default_factory=list)
    missing: Annotated[
        MissingChoice,
        _column(
            metavar="refuse|drop|impute|indicator",
            help="Missing inputs: drop leaves such rows out of the fit and of predictions; impute fills in the median or the "
            "most frequent category; indicator does the same and adds an indicator column. The model stores the choice.",
        ),
    ] = MissingChoice.refuse
    drop_missing: DropMissing = False
    family: Annotated[
        str,
        _learning(
            metavar="NAME",
            help="Family of models, from covary or an installed package; with --help, its options are listed.",
        ),
    ] = DEFAULT
    settings: Annotated[
        list[str],
        _learning(
            "--set",
            metavar="NAME=VALUE",
            help="A setting of the family that has no option of its own; may be repeated.",
            show_default="none",
        ),
    ] = field(default_factory=list)
    own: Mapping[str, Value] = field(default_factory=dict)  # the options of families, by name
    scheduler: Scheduler = None
    workers: Workers = None
    seed: Annotated[int, _learning(metavar="N", min=0, max=2**32 - 1, help="Seed of restarts and subsets.")] = 0
    max_time: Annotated[
        float | None,
        _learning(
            metavar="SECONDS",
            min=0.0,
            help="Time limit after which learning stops with the best parameters so far.",
            show_default="no limit",
        ),
    ] = None
    checkpoint: Annotated[
        str | None,
        _learning(
            metavar="FILE",
            help="Checkpoint file for learning (a folder for a committee of experts); if the command is interrupted and "
            "run again, it resumes.",
            show_default="none",
        ),
    ] = None
    out: Annotated[
        str | None,
        _output(
            "--out",
            "-o",
            metavar="FILE",
            help="Model file to write.",
            show_default="the table's name with .covary, in the current folder",
        ),
    ] = None
    predictions: Annotated[
        str | None,
        _output(
            metavar="FILE",
            help="Table to write: the rows without a target, with their predictions.",
            show_default="none",
        ),
    ] = None
    report: Annotated[
        str | None, _output(metavar="FILE", help="HTML page to write (.html): the report of the fit.", show_default="none")
    ] = None
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Settings of an earlier run (--save-config): DATA and --target are not required; options take precedence.",
            show_default="none",
        ),
    ] = None
    save_config: Annotated[
        str | None, _output(metavar="FILE", help="Write every setting of this run as TOML, for --config.", show_default="none")
    ] = None
    error_bars: Annotated[
        ErrorBarsChoice,
        _output(
            "--error-bars",
            metavar="auto|yes|no",
            help="Error bars of the parameters in the summary; auto: if they take less than a minute, or less than --max-time.",
        ),
    ] = ErrorBarsChoice.auto
    as_json: Json = False
    quiet: Quiet = False
    debug: Debug = False

    def noted(self) -> dict[str, Value]:
        """Return the settings recorded in a model file, by name; some only if they are given."""
        names = ("noise_column", "weight_column", "size_column", "missing", "categories")
        found: dict[str, Value] = {name: getattr(self, name) for name in names}
        found["missing"] = str(self.missing)
        if self.family != DEFAULT:
            found["family"] = self.family
        if self.settings:
            found["settings"] = self.settings
        for setting in options_of(self.family).settings:
            if setting.noted or self.own.get(setting.name, setting.start) != setting.start:
                found[setting.name] = self.own.get(setting.name, setting.start)
        found |= {name: getattr(self, name) for name in ("scheduler", "workers") if getattr(self, name) is not None}
        return found | {"seed": self.seed, "max_time": self.max_time}


@dataclass(frozen=True)
class PredictSettings:
    """Settings of ``covary predict``."""

    model: ModelFile
    data: Data
    level: Annotated[float, typer.Option(metavar="PROBABILITY", help="Probability of the interval from lower to upper.")] = 0.95
    latent: Annotated[
        bool,
        typer.Option(
            "--latent",
            help="Error bars of the latent function, without observation noise; for two classes, predict the latent function "
            "of the second class.",
        ),
    ] = False
    size_column: Annotated[
        str | None,
        _column(
            "--size-column",
            metavar="NAME",
            help="Column of trials or exposures, for models of counts and successes.",
            show_default="that of the fit, if the table has it",
        ),
    ] = None
    drop_missing: DropMissing = False
    keep: Annotated[
        list[str], _column(metavar="NAMES", help="Columns of DATA to copy to the output: a,b.", show_default="none")
    ] = field(default_factory=list)
    keep_all: Annotated[bool, _column("--keep-all", help="Copy every column of DATA to the output.")] = False
    scheduler: Scheduler = None
    workers: Workers = None
    out: Annotated[
        str | None,
        _output(
            "--out",
            "-o",
            metavar="FILE",
            help="Table to write; the suffix determines the format; - is stdout.",
            show_default="stdout, as CSV",
        ),
    ] = None
    as_json: Json = False
    quiet: Quiet = False
    debug: Debug = False
