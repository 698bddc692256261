"""``--save-config`` and ``--config``: write the settings of a run to a TOML file, and repeat the run.

The file contains every setting, including those determined from the data (inputs, type of the target), and a checksum of the
table: the same table and the same versions give a bit-identical model. Options on the command line take precedence.
Paths in the file are relative to its folder.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, fields
from pathlib import Path

from covary._checks import shown
from covary._errors import Option
from covary._families import Json, options_of
from covary._read import checksum, read_bytes
from covary._version import __version__, versions
from covary._words import meant
from covary.cli.errors import BadUsage, usage
from covary.cli.options import DEFAULT, FitSettings, MissingChoice
from covary.cli.output import check_place, write_bytes

ASIDE = ("config", "save_config", "as_json", "quiet", "debug")  # not settings of the fit
NUMBERS = {"seed": int, "workers": int, "max_time": float}
PLACES = ("data", "out", "predictions", "report", "checkpoint")  # paths
HEAD = "# covary fit --config {name} repeats this run; options on the command line take precedence\n\n"


def entries(family: str) -> list[str]:
    """Return the names of the settings of a fit, in the order of the options."""
    own = [setting.name for setting in options_of(family).settings]
    each = [own if f.name == "own" else [f.name] for f in fields(FitSettings) if f.name not in ASIDE]
    return [name for names in each for name in names]


def _paths(family: str) -> set[str]:
    """Return the names of the settings that are paths."""
    return {*PLACES, *(setting.name for setting in options_of(family).settings if setting.is_path)}


def _lists(family: str) -> set[str]:
    """Return the names of the settings that are lists."""
    plain = {f.name for f in fields(FitSettings) if f.default_factory is not MISSING or f.name == "target"} - {"own"}
    return plain | {setting.name for setting in options_of(family).settings if setting.multiple}


def read_config(path: str, family: str | None = None) -> tuple[dict[str, Json], dict[str, Json]]:
    """Return the settings in a file, as defaults of the options, and its record of how it was made.

    The family of models is that of the file if ``family`` is None.
    """
    try:
        raw = read_bytes(path)
    except FileNotFoundError:
        raise _wrong(f"there is no file {path!r}", "check the name") from None
    except (OSError, ValueError) as error:
        what = f"{path!r} cannot be read ({getattr(error, 'strerror', None) or error})"
        raise _wrong(what, "check the file") from None
    try:
        page = tomllib.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise _wrong(f"{path!r} cannot be read (not text)", "give a TOML file") from None
    except tomllib.TOMLDecodeError as error:
        raise _wrong(f"{path!r} is not TOML ({error})", "correct it") from None
    except RecursionError:
        raise _wrong(f"{path!r} nests values too deeply", "give plain values and lists of text") from None
    except ValueError:  # an integer with thousands of digits
        raise _wrong(f"{path!r} contains a number that is too long", "correct it") from None
    made = page.pop("made", {})
    if page.pop("command", "fit") != "fit":
        raise _wrong(f"{path!r} is for another command", "give a file written by covary fit --save-config")
    family = str(page.get("family", DEFAULT)) if family is None else family
    known = entries(family)
    for name, value in page.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            whose = f" that the family {family!r} does not have" if name in entries(str(page.get("family", DEFAULT))) else ""
            raise _wrong(f"{path!r} has an entry {name!r}{whose}", meant(repr(near[0])) if near else "remove it")
        if (wants := _wants(name, value, family)) is not None:
            given = value.isoformat() if hasattr(value, "isoformat") else shown(value)
            raise _wrong(f"{name!r} of {path!r} is {given}", f"give {wants}")
        if (wants := _allowed(name, value, family)) is not None:
            raise _wrong(f"{name!r} of {path!r} is {shown(value)}", f"give {wants}")
    for name in _lists(family):
        if isinstance(page.get(name), str):
            page[name] = [page[name]]
    for name in _paths(family):
        if isinstance(page.get(name), str) and page[name] != "-":
            page[name] = os.path.normpath(os.path.join(os.path.dirname(path), page[name]))
    return page, made if isinstance(made, dict) else {}


def _wrong(what: str, do: str) -> BadUsage:
    return usage("config", what, do)


def _wants(name: str, value: Json, family: str) -> str | None:
    """Return the type that a setting must have, or None if it has it; other types are never converted to text."""
    if name in _paths(family):
        return None if isinstance(value, str) and value else "the name of a file as text"
    kind = {setting.name: setting.kind for setting in options_of(family).settings}.get(name, str)
    if name in _lists(family):
        entries, kinds = value if isinstance(value, list) else [value], (str, int, float) if kind in (int, float) else (str,)
        return None if all(type(entry) in kinds for entry in entries) else "text or a list of text"
    if isinstance(value, bool) and name != "drop_missing" and kind is not bool:  # would be read as 1 or 0
        return "text or a number"
    return None if isinstance(value, str | bool | int | float) else "text or a number"


def _allowed(name: str, value: Json, family: str) -> str | None:
    """Return the values that a setting may have, or None if it has one of them; the range of a number is checked later."""
    own = {setting.name: setting for setting in options_of(family).settings}
    choices = own[name].choices if name in own else tuple(MissingChoice) if name == "missing" else ()
    values = value if isinstance(value, list) else [value]
    if choices:
        return None if all(each in choices for each in values) else f"one of {', '.join(choices)}"
    kind = own[name].kind if name in own else NUMBERS.get(name)
    if kind not in (int, float):
        return None
    with suppress(ValueError, OverflowError):
        if all(float(each) == kind(each) for each in values):  # type: ignore[arg-type]  # numbers, or text
            return None
    return "a whole number" if kind is int else "a number"


def config_text(settings: Mapping[str, Json], path: str, made: Mapping[str, Json]) -> str:
    """Return the text of the file: the settings that are set, and how it was made.

    Examples
    --------
    >>> print(config_text({"data": "a.csv", "target": ["y"], "seed": 0, "kernel": None}, "run.toml", {"covary": "1.0"}))
    # covary fit --config run.toml repeats this run; options on the command line take precedence
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
    lines, family = ['command = "fit"'], str(settings.get("family", DEFAULT))
    starts = {setting.name: setting.start for setting in options_of(family).settings}
    for name in entries(family):
        value = settings.get(name)
        if value is None or value == [] or (value is False and not starts.get(name)):
            continue
        if name in _paths(family) and isinstance(value, str):
            value = Path(os.path.relpath(value, folder)).as_posix()
        lines.append(f"{name} = {_toml(value)}")
    lines += ["", "[made]", *(f"{name} = {_toml(value)}" for name, value in made.items())]
    name = "".join(c if c.isprintable() else "?" for c in Path(path).name)  # a line break would begin a setting
    return HEAD.format(name=name) + "\n".join(lines) + "\n"


def _toml(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(v) for v in value)}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def changes(made: Mapping[str, Json], data: str) -> list[str]:
    """Describe what has changed since the file was written."""
    out = []
    if "data_sha256" in made and made["data_sha256"] != checksum(data):
        out.append(f"{data} has changed since the configuration was written: the model will differ")
    if "covary" in made and made["covary"] != __version__:
        out.append(
            f"the configuration was written by covary {made['covary']}, this is {__version__}: results may differ slightly"
        )
    return out


def values_of(s: FitSettings) -> dict[str, Json]:
    """Return the settings by name."""
    own = {setting.name: setting.start for setting in options_of(s.family).settings} | dict(s.own)
    return {name: own[name] if name in own else getattr(s, name) for name in entries(s.family)}


def begin_config(s: FitSettings) -> list[str]:
    """Check where a configuration will be written, and describe the changes since the given one was written."""
    if s.save_config is not None:
        if s.data == "-":
            what = Option("save_config") + " describes a run on a file, not on stdin"
            raise usage("save_config", what, "give the name of a file")
        check_place(s.save_config, s.data, argument="save_config")
        values = values_of(s)
        for name in _paths(s.family):
            value, option = values[name], "DATA" if name == "data" else f"--{name}"
            if isinstance(value, str) and not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
                what = f"the name {value!r} of {option} is not UTF-8, which TOML requires"
                raise usage("save_config", what, "rename the file")
    return changes(read_config(s.config, s.family)[1], s.data) if s.config is not None and os.path.exists(s.data) else []


def end_config(s: FitSettings, path: str) -> None:
    """Write the settings of a run, including those determined from the data."""
    found = values_of(s)
    if found["max_time"] == math.inf:
        found["max_time"] = None
    made = versions()
    try:
        note = {"covary": made["covary"], "jax": made["jax"], "data_sha256": checksum(s.data)}
    except OSError as error:
        what = f"{s.data!r} cannot be read for its checksum ({error.strerror})"
        raise usage("save_config", what, "give a regular file") from None
    write_bytes(path, config_text(found, path, note).encode(), "save_config")
