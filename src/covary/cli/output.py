"""What comes out: tables in files or on stdout, one strict JSON object, text for people."""

from __future__ import annotations

import io
import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covary._checks import CovaryError
from covary._write import Place, Unfit, make_folder, where, whole_file
from covary.cli.doors import BadUsage, sentence
from covary.cli.sheets import sheet_bytes
from covary.cli.tables import DELIMITERS, FORMATS, Frame, table_suffix

if TYPE_CHECKING:
    from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    """Where people read: colours only on a terminal, wide enough lines elsewhere."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else 140, highlight=False, markup=False, emoji=False)


def check_place(path: str, *sources: str | None, option: str = "--out") -> None:
    """Refuse a file that could not be written, or is read or a part of what is read, before any work is done."""
    found = where(path)
    if isinstance(found, Unfit):
        raise BadUsage(f"{option}: {found.what}; {found.do}.")
    for source in sources:
        if source is None or source == "-" or not os.path.exists(source):
            continue
        if found.old is not None and found.target.samefile(source):
            raise BadUsage(f"{option} is {path!r}, which is also what is read; write to another file.")
        if os.path.isdir(source) and found.target.parent.samefile(source) and table_suffix(path) == ".parquet":
            raise BadUsage(f"{option} is {path!r}, a part of the table that is read; write to another folder.")


def check_apart(outputs: Mapping[str, str | None]) -> None:
    """Refuse two options, by name, that would write to one file: the later one would replace the earlier."""
    taken: dict[Path, str] = {}
    for option, path in outputs.items():
        found = None if path is None else where(path)
        if isinstance(found, Place) and not found.stream:
            if found.target in taken:
                raise BadUsage(
                    f"{option} is {path!r}, to which {taken[found.target]} writes as well; give them different names."
                )
            taken[found.target] = option


def check_table_place(path: str, *sources: str | None, option: str = "--out") -> None:
    """As :func:`check_place`, for a table: its suffix must name a format."""
    if table_suffix(path) is None or (table_suffix(path) == "" and not is_stream(path)):
        known = f"{FORMATS}, or - for stdout" if option == "--out" else FORMATS
        raise BadUsage(f"{option} is {path!r}, whose suffix names no table format; give {known}.")
    if table_suffix(path) == ".parquet":
        if Path(path).suffix.lower() == ".gz":
            raise BadUsage(f"{option} is {path!r}; Parquet is compressed inside, so give .parquet alone.")
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise BadUsage("writing Parquet needs pyarrow; run pip install 'covary[parquet]'.") from None
    if table_suffix(path) == ".xlsx":
        try:
            import openpyxl  # noqa: F401
        except ImportError:
            raise BadUsage("writing Excel needs openpyxl; run pip install 'covary[excel]'.") from None
    check_place(path, *sources, option=option)


def is_stream(path: str) -> bool:
    """Whether a name is that of a FIFO, a device or an open descriptor, which are written to and never replaced."""
    found = where(path)
    return isinstance(found, Place) and found.stream


def table_bytes(frame: Frame, path: str) -> bytes:
    """A table in the format the suffix names (CSV for stdout); numbers with every digit."""
    suffix = ".csv" if path == "-" else table_suffix(path)
    if suffix == ".parquet":
        stream = io.BytesIO()
        frame.to_parquet(stream, engine="pyarrow", index=False)
        return stream.getvalue()
    if suffix == ".xlsx":
        return sheet_bytes(frame)
    text = frame.to_csv(index=False, sep=DELIMITERS[suffix or ""], lineterminator="\n")
    data = text.encode()
    if path.lower().endswith(".gz"):
        import gzip

        return gzip.compress(data, mtime=0)
    return data


def write_table(frame: Frame, path: str) -> None:
    """Write a table whole or not at all; ``-`` is stdout."""
    try:
        data = table_bytes(frame, path)
    except UnicodeEncodeError as error:
        what = f"a label holds the character {error.object[error.start]!r}, which no file of text can hold"
        raise BadUsage(f"{what}; rename it.") from None
    if path == "-":
        write_stdout(data.decode())
    else:
        write_bytes(path, data)


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    try:
        with whole_file(path, stream=True) as handle:
            handle.write(data)
    except CovaryError as error:
        raise BadUsage(sentence(error)) from None


def new_folder(path: str | Path, option: str, *, parents: bool = True) -> None:
    """Make a folder, unless it is there."""
    try:
        make_folder(path, option, parents=parents)
    except CovaryError as error:
        raise BadUsage(sentence(error)) from None


def write_stdout(text: str) -> None:
    """Text on stdout as UTF-8, whatever the terminal's encoding."""
    sys.stdout.flush()
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:
        sys.stdout.write(text)
    else:
        stream.write(text.encode())
        stream.flush()


def write_json(value: Any) -> None:
    """One JSON object on stdout; what is not finite becomes null."""
    text = json.dumps(strict(value), indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    write_stdout(text.encode(errors="backslashreplace").decode())  # half a surrogate pair is escaped


def strict(value: Any) -> Any:
    """The value as JSON knows it."""
    if isinstance(value, dict):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy
        return strict(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
