"""What an attack is, and how a class of them is counted.

A class of attacks is a module beside this one with three names:

- ``TITLE``: what is attacked, as a row of the table in docs/trust.md calls it;
- ``LEAST``: the number of cases below which the class has lost some;
- ``cases(folder)``: the cases, the same every time. A case works in a folder of its own below ``folder`` if it needs one.

A case raises ``AssertionError`` with what went wrong; any other exception is a failure too. What covary may do with bad
input is to raise one of its own errors (:func:`refuses`), or to give an answer that the case checks.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any, NamedTuple

from covary._checks import CovaryError


class Case(NamedTuple):
    """One attack: a name that finds it again, and what runs it."""

    name: str
    run: Callable[[], Any]


class Count(NamedTuple):
    """How a class of attacks ended."""

    title: str
    tried: int
    failed: list[str]  # "name: what went wrong"


def classes() -> list[str]:
    """The names of the modules that hold a class of attacks."""
    own = {"record", "table", "test_attacks", "__init__"}
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in own)


def module(name: str) -> Any:
    """The module of a class."""
    return importlib.import_module(f"attacks.{name}")


def count(name: str, folder: Path) -> Count:
    """Run a class of attacks to its end."""
    found, failed, tried = module(name), [], 0
    folder.mkdir(parents=True, exist_ok=True)
    with chdir(folder):  # what a case writes without being asked to is gone with its folder
        for case in found.cases(folder):
            tried += 1
            try:
                case.run()
            except Exception as error:  # whatever it is, the attack succeeded
                failed.append(f"{case.name}: {type(error).__name__}: {str(error)[:500]}")
    return Count(found.TITLE, tried, failed)


def refuses(call: Callable[[], Any]) -> str:
    """The message with which covary refuses: one of its own errors, one line, with something to do."""
    try:
        found = call()
    except CovaryError as error:
        text = str(error)
        assert "\n" not in text.strip(), f"more than one line: {text!r}"
        assert len(text) < 900, f"too long: {text[:900]!r}"
        return text
    raise AssertionError(f"was taken, and gave {str(found)[:200]!r}")
