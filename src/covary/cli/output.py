"""Output of the command: tables, JSON and text on stdout; and model files."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covary import files
from covary._checks import CovaryError
from covary._errors import Option
from covary._write import NotWritten, Place, Unfit, where, whole_file
from covary.cli.errors import BadModel, BadUsage, usage
from covary.fits import AnyFit, Fitted, Json, of
from covary.tables.files import FORMATS, table_bytes, table_suffix
from covary.tables.table import Frame

if TYPE_CHECKING:
    from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    """Return a console for text: with colours only on a terminal, and with long lines elsewhere."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else 140, highlight=False, markup=False, emoji=False)


def check_place(path: str, *sources: str | None, argument: str = "out") -> None:
    """Raise an error for an output that cannot be written, or that is an input or part of one, before any work is done."""
    found, given = where(path), Option(argument) + f" is {path!r}"
    if isinstance(found, Unfit):
        raise usage(argument, *found)
    for source in sources:
        if source is None or source == "-" or not os.path.exists(source):
            continue
        if found.old is not None and found.target.samefile(source):
            raise usage(argument, given + ", which is also an input", "write to another file")
        if os.path.isdir(source) and found.target.parent.samefile(source) and table_suffix(path) == ".parquet":
            raise usage(argument, given + ", a part of the input table", "write to another folder")


def check_apart(outputs: Mapping[str, str | None]) -> None:
    """Raise an error if two options, by argument, would write to the same file."""
    taken: dict[Path, str] = {}
    for argument, path in outputs.items():
        found = None if path is None else where(path)
        if isinstance(found, Place) and not found.stream:
            if found.target in taken:
                what = Option(argument) + f" is {path!r}, to which " + Option(taken[found.target]) + " writes as well"
                raise usage(argument, what, "give them different names")
            taken[found.target] = argument


def check_table_place(path: str, *sources: str | None, argument: str = "out") -> None:
    """Raise an error as in :func:`check_place`, and if the suffix of a table is not a known format."""
    given = Option(argument) + f" is {path!r}"
    if table_suffix(path) is None or (table_suffix(path) == "" and not is_stream(path)):
        known = f"{FORMATS}, or - for stdout" if argument == "out" else FORMATS
        raise usage(argument, given + ", whose suffix is not a table format", f"give {known}")
    if table_suffix(path) == ".parquet":
        if Path(path).suffix.lower() == ".gz":
            raise usage(argument, given + "; Parquet is already compressed", "give .parquet alone")
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise usage(argument, "writing Parquet needs pyarrow", "run pip install 'covary[parquet]'") from None
    if table_suffix(path) == ".xlsx":
        try:
            import openpyxl  # noqa: F401
        except ImportError:
            raise usage(argument, "writing Excel needs openpyxl", "run pip install 'covary[excel]'") from None
    check_place(path, *sources, argument=argument)


def is_stream(path: str) -> bool:
    """Return whether a path is a FIFO, a device or an open descriptor, which are written to and never replaced."""
    found = where(path)
    return isinstance(found, Place) and found.stream


def write_table(frame: Frame, path: str, argument: str = "out") -> None:
    """Write a table completely or not at all; ``-`` is stdout."""
    try:
        data = table_bytes(frame, path)
    except UnicodeEncodeError as error:
        what = f"a label contains the character {error.object[error.start]!r}, which cannot be written to a text file"
        raise usage("", what, "rename it") from None
    if path == "-":
        write_stdout(data.decode())
    else:
        write_bytes(path, data, argument)


def write_bytes(path: str | Path, data: bytes, argument: str = "out") -> None:
    """Write a file completely or not at all."""
    with blaming(argument), whole_file(path, stream=True) as handle:
        handle.write(data)


@contextmanager
def blaming(argument: str) -> Iterator[None]:
    """Name the option in errors about a file that cannot be written."""
    try:
        yield
    except NotWritten as error:
        raise error.about(argument) from None


def write_stdout(text: str) -> None:
    """Write text to stdout as UTF-8, whatever the encoding of the terminal."""
    sys.stdout.flush()
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:
        sys.stdout.write(text)
    else:
        stream.write(text.encode())
        stream.flush()


def write_json(value: Any) -> None:
    """Write one JSON object to stdout; non-finite numbers become null."""
    text = json.dumps(strict(value), indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    write_stdout(text.encode(errors="backslashreplace").decode())  # half a surrogate pair is escaped


def strict(value: Any) -> Any:
    """Convert a value to strict JSON."""
    if isinstance(value, dict):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy
        return strict(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


# model files --------------------------------------------------------------------------------------------------------
def save_model(model: AnyFit | Fitted, path: str, made: Mapping[str, Json]) -> None:
    """Write the model, completely or not at all, with a record of how it was made."""
    fit = of(model)
    try:
        with blaming("out"):
            files.write_fit(replace(fit, origin=replace(fit.origin, made=made)), path)
    except (MemoryError, NotWritten):
        raise
    except CovaryError as error:
        raise error.turned(BadUsage) from None


def load_model(path: str) -> tuple[AnyFit, dict[str, Json]]:
    """Return the model in a file, and how it was made (empty if a program wrote the file)."""
    if path == "-":
        raise BadModel("covary", "a model cannot be read from stdin", "give the name of a file")
    if not os.path.exists(path):
        raise BadModel("covary", f"there is no file {path!r}", "check the name, or create a model with covary fit")
    try:
        fit = files.read_fit(path)
    except files.NeedsFunctions as error:
        do = "load it in Python and pass " + Option("functions", "...")
        raise BadModel(error.who, error.what + ", which the command cannot access", do) from None
    except files.BadFile:
        if table_suffix(path):
            what = f"{path!r} is a table, or a damaged model file"
            raise BadModel("covary", what, "give a model, which covary fit writes, as MODEL") from None
        raise
    made = {**(fit.origin.made or {}), "covary": fit.origin.covary or None}
    return fit, {name: value for name, value in made.items() if _sound(name, value)}


def _sound(name: str, value: Json) -> bool:
    """Return whether a recorded value has the right type: names of columns must be text, even in a forged file."""
    if name == "ignored":
        return isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    return not name.endswith(" column") or value is None or isinstance(value, str)
