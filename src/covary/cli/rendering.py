"""Errors and advice as the command shows them: options instead of arguments, lines of the file instead of rows.

One table maps arguments to options. Messages are data (:mod:`covary._errors`) and their text is never parsed.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covary._checks import NotEnoughMemory, NotPositiveDefinite
from covary._errors import CovaryError, Option, Place, Remedy, Text, either, phrase, said
from covary._families import declared
from covary._write import NotWritten
from covary.cli.errors import DATA, MEMORY, MODEL, NUMERICAL, USAGE, BadModel, BadUsage
from covary.cli.options import MissingChoice
from covary.tables.table import BadChoice, BadTable, Table, in_file

if TYPE_CHECKING:
    import numpy as np

PLAIN = {  # arguments in Python and the options that set them, for all families
    "missing": "--missing",
    "categories": "--categories",
    "max_time": "--max-time",
    "random_state": "--seed",
    "noise_variance": "--noise-column",
    "sample_weight": "--weight-column",
    "size": "--size-column",
    "checkpoint": "--checkpoint",
    "config": "--config",
    "save_config": "--save-config",
    "report": "--report",
    "keep": "--keep",
    "file": "FILE",
    "executor": "--workers",
    "workers": "--workers",
    "scheduler": "--scheduler",
    "level": "--level",
    "n": "--rows",
    # for tables, which only the command reads from files
    "target": "--target",
    "inputs": "--inputs",
    "family": "--family",
    "settings": "--set",
    "ignore": "--ignore",
    "drop_missing": "--drop-missing",
    "latent": "--latent",
    "noise_column": "--noise-column",
    "weight_column": "--weight-column",
    "size_column": "--size-column",
    "out": "--out",
    "predictions": "--predictions",
}
WORDS = {"X": "the input table", "y": "the target"}
ON_DATA = ("Data", "Inputs", "Parquet", "covary", "fit", "predict", "sample", "spread", "table")


@dataclass(frozen=True)
class Names:
    """Names in the command that differ from those in Python, from the command and from the families.

    ``options`` maps arguments to options; ``choices`` are the values of an option, which may be fewer than those of the
    argument; the others are documented in :class:`covary._families.Options`.
    """

    options: Mapping[str, str]
    choices: Mapping[str, tuple[str, ...]]
    values: Mapping[tuple[str, str], str]
    python: tuple[str, ...]
    remedies: Mapping[str, str]
    sources: Mapping[str, str]
    data: tuple[str, ...]


def names() -> Names:
    """Return the names, including those that families declare."""
    options, each = dict(PLAIN), [found for _, found in declared()]
    choices: dict[str, tuple[str, ...]] = {"missing": tuple(MissingChoice)}
    values = {
        ("executor", "Serial"): "no --workers",
        ("executor", "Dask"): "--workers",
        ("std", "False"): "--no-std",
        ("latent", "True"): "--latent",
    }
    remedies = {
        "stated noise": (
            "Check --noise-column (standard deviations, not variances), or leave it out: the noise is then estimated from the "
            "data."
        ),
        "fit again": "fit it again",
        "save instead": "use covary predict instead",
        "catalogue": "covary datasets lists them",
        "cross-validate": "cross-validate instead (in Python, with covary.metrics)",
        "wait longer": "",  # the command has no such option
        "of the constructor": "",
    }
    sources: dict[str, str] = {}
    for found in each:
        for setting in found.settings:
            name = setting.argument or setting.name
            options[name] = setting.option
            if setting.choices:
                choices[name] = choices.get(name, ()) + setting.choices
        values, remedies, sources = {**values, **found.values}, {**remedies, **found.remedies}, {**sources, **found.sources}
    python = (
        "estimator",
        "functions",
        "name",
        "return_cov",
        "return_std",
        "theta",
        "tolerance",
        *(name for found in each for name in found.python),
    )
    return Names(options, choices, values, python, remedies, sources, ON_DATA + tuple(w for f in each for w in f.data))


def rendered(text: Text) -> str:
    """Render advice, or any other text, on one line as the command shows it.

    Examples
    --------
    >>> rendered("Use " + Option("likelihood", "'student_t'", "'heteroscedastic'") + ", or transform y.")
    'Use --likelihood student_t or heteroscedastic, or transform y.'
    >>> rendered("Allow more: a sum of kernels, " + Option("mean", "'linear'") + ", or a missing input.")
    "Allow more: a sum of kernels, mean='linear' (in Python), or a missing input."
    """
    return " ".join(said(text, part_of).split())


def part_of(part: Option | Place | Remedy) -> str:
    """Render an argument as its option, and a remedy in terms of the command."""
    if isinstance(part, Remedy):
        return names().remedies.get(part.name, part.text)
    if isinstance(part, Place):
        return str(part)
    return option_of(part)


def option_of(part: Option) -> str:
    """Render an argument as its option; arguments without one are marked "in Python".

    Examples
    --------
    >>> option_of(Option("gram", "Dense()")), option_of(Option("seasonality", "['yearly', 'weekly']"))
    ('--method exact', '--seasonality yearly,weekly')
    >>> option_of(Option("rule", "'dtc'")), option_of(Option("X"))
    ("rule='dtc' (in Python)", 'the input table')
    """
    known = names()
    option = known.options.get(part.name)
    if not part.values:
        return WORDS.get(part.name) or option or f"{part.name} (in Python)" * (part.name in known.python) or part.name
    named = [known.values.get((part.name, value.partition("(")[0])) for value in part.values]
    if all(named):
        return either([text for text in named if text])
    if option is None and part.name not in known.python:  # a parameter of a kernel, with the same text in both
        return str(part)
    plain = [_plain(value) for value in part.values]
    if option is None or None in plain or not set(plain) <= set(known.choices.get(part.name, plain)):
        return f"{part} (in Python)"
    return option if plain == ["..."] else f"{option} {either([shlex.quote(text) for text in plain if text is not None])}"


def _plain(value: str) -> str | None:
    """Render a value as typed after an option; None if the option cannot have it."""
    try:
        found = ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return value
    if found is None:
        return None
    if isinstance(found, list | tuple):
        return ",".join(map(str, found))
    return "..." if found is ... else str(found)


def message(error: CovaryError) -> str:
    """Render an error in terms of options; it begins with the option that caused it, unless it names that elsewhere.

    Examples
    --------
    >>> message(CovaryError("gram.Vecchia", "several latent functions are not supported", "use " + Option("gram", "Dense()")))
    '--method vecchia: several latent functions are not supported; use --method exact.'
    """
    text = " ".join(error.message(part_of).split())
    first = phrase(error.what).parts[0]
    if isinstance(first, Option) and option_of(first).startswith("--"):
        return text
    parts = (*phrase(error.what).parts, *phrase(error.do).parts)
    named = any(isinstance(part, Option) and part.name == error.argument in names().options for part in parts)
    kernel = error.subject if error.package == "kernels" and error.subject != "parse" else None
    return ": ".join(part for part in (None if named else option_at_fault(error), kernel, text) if part)


def option_at_fault(error: CovaryError) -> str | None:
    """Return the option that an error comes from: that of its argument, or of what raised it; None if there is none."""
    known = names()
    return known.options.get(error.argument or "") or known.sources.get(error.who)


def located(
    error: CovaryError,
    table: Table,
    rows: np.ndarray | None = None,
    inputs: Sequence[str] = (),
    target: str | None = None,
) -> CovaryError:
    """Return an error about arrays from a table as one about the table; return other errors unchanged."""
    about = error.package in names().data or error.place is not None
    return in_file(error, table, rows, inputs=inputs, target=target) if about else error


def code_of(error: CovaryError, otherwise: int = DATA) -> int:
    """Return the exit code of an error, by its type, or by its cause (an option or the data); ``otherwise`` if unknown."""
    from covary.files.container import BadFile
    from covary.fits.answers import NoAnswer

    if isinstance(error, NotEnoughMemory):
        return MEMORY
    if isinstance(error, NotWritten | BadChoice):
        return USAGE
    if isinstance(error, NotPositiveDefinite | NoAnswer):
        return NUMERICAL
    if isinstance(error, BadFile):
        return MODEL
    if isinstance(error, BadTable) or error.place is not None:
        return DATA
    if option_at_fault(error):
        return USAGE
    return DATA if error.argument in WORDS or error.package in names().data else otherwise


def ended(error: CovaryError, otherwise: int = DATA, *, shown: CovaryError | None = None) -> CovaryError:
    """Return an error whose class has the exit code of its cause; ``shown`` is the error to return, if different."""
    from covary.fits.answers import NoAnswer

    kinds = {USAGE: BadUsage, DATA: BadTable, MODEL: BadModel, NUMERICAL: NoAnswer, MEMORY: NotEnoughMemory}
    return (error if shown is None else shown).turned(kinds[code_of(error, otherwise)])
