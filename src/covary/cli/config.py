"""``--save-config`` and ``--config``: the settings of a run in a TOML file, and the same run again.

The file names every choice that was made, also those found out from the data (inputs, what the target is), with a checksum of
the table: the same table and the same versions give the same model to the last bit. Options on the command line go first.
Paths in the file are relative to its own folder.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from covary._checks import shown
from covary._read import open_plain, read_bytes
from covary._words import meant
from covary.cli.columns import Roles
from covary.cli.doors import BadUsage
from covary.cli.output import check_place, write_bytes

PATHS = ("data", "out", "predictions", "report", "checkpoint", "folder")
LISTS = ("target", "inputs", "ignore", "categories", "seasonality")
PLAIN = (
    *("noise_column", "weight_column", "size_column", "drop_missing", "missing", "likelihood", "inference", "link"),
    *("method", "objective", "kernel", "restarts", "seed", "max_time", "error_bars"),
    *("experts", "rule", "partition", "learning", "nearest", "scheduler", "workers"),
)
SETTINGS = (*PATHS[:1], *LISTS, *PLAIN, *PATHS[1:])
HEAD = "# covary fit --config {name} repeats this run; options on the command line go first\n\n"


def read_config(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings in a file, ready to be defaults of the options, and what it says about how it was made."""
    try:
        raw = read_bytes(path)
    except FileNotFoundError:
        raise BadUsage(f"--config: there is no file {path!r}; check the name.") from None
    except (OSError, ValueError) as error:
        raise BadUsage(f"--config: {path!r} cannot be read ({getattr(error, 'strerror', None) or error}).") from None
    try:
        page = tomllib.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise BadUsage(f"--config: {path!r} cannot be read (no text).") from None
    except tomllib.TOMLDecodeError as error:
        raise BadUsage(f"--config: {path!r} is no TOML ({error}); correct it.") from None
    except RecursionError:
        raise BadUsage(f"--config: {path!r} nests values too deeply; give plain values and lists of text.") from None
    except ValueError:  # a whole number of thousands of digits
        raise BadUsage(f"--config: {path!r} holds a number that is too long; correct it.") from None
    made = page.pop("made", {})
    if page.pop("command", "fit") != "fit":
        raise BadUsage(f"--config: {path!r} is of another command; give one that covary fit --save-config wrote.")
    for name, value in page.items():
        if name not in SETTINGS:
            near = difflib.get_close_matches(name, SETTINGS, n=1)
            raise BadUsage(f"--config: {path!r} has an entry {name!r}; {meant(repr(near[0])) if near else 'remove it.'}")
        if (wants := _wants(name, value)) is not None:
            given = value.isoformat() if hasattr(value, "isoformat") else shown(value)
            raise BadUsage(f"--config: {name!r} of {path!r} is {given}; give {wants}.")
    for name in LISTS:
        if isinstance(page.get(name), str):
            page[name] = [page[name]]
    for name in PATHS:
        if isinstance(page.get(name), str) and page[name] != "-":
            page[name] = os.path.normpath(os.path.join(os.path.dirname(path), page[name]))
    return page, made if isinstance(made, dict) else {}


def _wants(name: str, value: Any) -> str | None:
    """What a setting should be, where it is not: a value of another type must not become a name as it is printed."""
    if name in PATHS:
        return None if isinstance(value, str) and value else "the name of a file as text"
    if name in LISTS:
        entries = value if isinstance(value, list) else [value]
        return None if all(isinstance(entry, str) for entry in entries) else "text or a list of text"
    if isinstance(value, bool) and name != "drop_missing":  # it would count as 1 or 0
        return "text or a number"
    return None if isinstance(value, str | bool | int | float) else "text or a number"


def config_text(settings: Mapping[str, Any], path: str, made: Mapping[str, Any]) -> str:
    """The file: settings that are set, then how it was made.

    Examples
    --------
    >>> print(config_text({"data": "a.csv", "target": ["y"], "seed": 0, "kernel": None}, "run.toml", {"covary": "1.0"}))
    # covary fit --config run.toml repeats this run; options on the command line go first
    <BLANKLINE>
    command = "fit"
    data = "a.csv"
    target = ["y"]
    seed = 0
    <BLANKLINE>
    [made]
    covary = "1.0"
    <BLANKLINE>
    """
    folder = os.path.dirname(path) or "."
    lines = ['command = "fit"']
    for name in SETTINGS:
        value = settings.get(name)
        if value is None or value == [] or value is False:
            continue
        if name in PATHS:
            value = Path(os.path.relpath(value, folder)).as_posix()
        lines.append(f"{name} = {_toml(value)}")
    lines += ["", "[made]", *(f"{name} = {_toml(value)}" for name, value in made.items())]
    name = "".join(c if c.isprintable() else "?" for c in Path(path).name)  # a line of its own would be a setting
    return HEAD.format(name=name) + "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(v) for v in value)}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def fingerprint(data: str) -> str:
    """The checksum of a table's file; of a folder, that of the names and checksums of its files."""
    if os.path.isdir(data):
        each = [f"{path.name} {fingerprint(str(path))}" for path in sorted(Path(data).iterdir()) if path.is_file()]
        return hashlib.sha256("\n".join(each).encode()).hexdigest()
    try:
        with open_plain(data) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadUsage(f"{data!r} has no checksum for a file of settings ({error.strerror}); give a plain file.") from None


def changes(made: Mapping[str, Any], data: str) -> list[str]:
    """What is not as it was when the file was written."""
    from covary._version import __version__

    out = []
    if "data_sha256" in made and made["data_sha256"] != fingerprint(data):
        out.append(f"{data} has changed since the configuration was written: the model will differ")
    if "covary" in made and made["covary"] != __version__:
        out.append(f"the configuration was written by covary {made['covary']}, this is {__version__}: digits may differ")
    return out


def begin_config(data: str, save: str | None, config: str | None, named: Mapping[str, str | None]) -> list[str]:
    """Check the place of a configuration to be written; what has changed since the one that is used was written."""
    if save is not None:
        if data == "-":
            raise BadUsage("--save-config describes a run on a file, not on stdin; give the name of a file.")
        check_place(save, data, option="--save-config")
        for option, name in {"DATA": data, **named}.items():
            if name is not None and not name.isascii() and any("\ud800" <= c <= "\udfff" for c in name):
                raise BadUsage(f"--save-config: the name {name!r} of {option} is not UTF-8, as TOML must be; rename the file.")
    return changes(read_config(config)[1], data) if config is not None and os.path.exists(data) else []


def end_config(
    path: str,
    data: str,
    made: dict[str, Any],
    roles: Roles,
    out: str | None,
    predictions: str | None,
    report: str | None,
    checkpoint: str | None,
    drop_missing: bool,
    error_bars: bool | None,
) -> None:
    """Write the settings of a run, those found out from the data among them."""
    settings = {name: made.get(name.replace("_", " ")) for name in PLAIN} | {
        "data": data,
        "target": roles.targets,
        "inputs": roles.inputs,
        "categories": made["categories"],
        "seasonality": made["seasonality"],
        "drop_missing": drop_missing,
        "error_bars": {None: "auto", True: "yes", False: "no"}[error_bars],
        "out": out,
        "predictions": predictions,
        "report": report,
        "checkpoint": checkpoint,
        "folder": made.get("folder"),
    }
    note = {"covary": made["versions"]["covary"], "jax": made["versions"]["jax"], "data_sha256": fingerprint(data)}
    write_bytes(path, config_text(settings, path, note).encode())
