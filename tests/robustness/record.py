"""Definition of a robustness case, and counting of groups of cases.

A group of cases is a module in this folder with three names:

- ``TITLE``: the input that is varied, as in the table of docs/trust.md;
- ``LEAST``: the minimum number of cases, so that lost cases are noticed;
- ``cases(folder)``: the cases, always the same. A case that needs files uses a separate folder inside ``folder``.

A case raises ``AssertionError`` with a description of the failure; any other exception is a failure too. With bad input covary
must raise one of its own errors (:func:`refuses`), or return an answer that the case checks.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any, NamedTuple

from covary._checks import CovaryError


class Case(NamedTuple):
    """A case: a name to identify it, and a function that runs it."""

    name: str
    run: Callable[[], Any]


class Count(NamedTuple):
    """Result of a group of cases."""

    title: str
    tried: int
    failed: list[str]  # "name: what went wrong"


def classes() -> list[str]:
    """Return the names of the modules with groups of cases."""
    own = {"record", "table", "test_robustness", "__init__"}
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in own)


def module(name: str) -> Any:
    """Import the module of a group."""
    return importlib.import_module(f"robustness.{name}")


def count(name: str, folder: Path) -> Count:
    """Run all cases of a group."""
    found, failed, tried = module(name), [], 0
    folder.mkdir(parents=True, exist_ok=True)
    with chdir(folder):  # unexpected output of a case is removed with this folder
        for case in found.cases(folder):
            tried += 1
            try:
                case.run()
            except Exception as error:  # any exception is a failure
                failed.append(f"{case.name}: {type(error).__name__}: {str(error)[:500]}")
    return Count(found.TITLE, tried, failed)


def refuses(call: Callable[[], Any]) -> str:
    """Return the message of the error that covary raises: one of its own, on one line."""
    try:
        found = call()
    except CovaryError as error:
        text = str(error)
        assert "\n" not in text.strip(), f"more than one line: {text!r}"
        assert len(text) < 900, f"too long: {text[:900]!r}"
        return text
    raise AssertionError(f"was taken, and gave {str(found)[:200]!r}")
