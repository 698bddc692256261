"""Call order during a fit: a package calls only packages that it imports from, except through callbacks.

The order is described in docs/contributing/walk.md.
"""

from __future__ import annotations

import gc
import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np
import pytest
from typer.testing import CliRunner

from contracts.test_architecture import PACKAGES, ROOT, SOURCE, package_of
from covary import GPRegressor

CALLBACKS = {  # calls of functions, or of objects with a known protocol, passed as arguments: caller, owner
    ("optimise", "selection"): "the objective, as a function that returns value and gradient",
    ("parameters", "selection"): "the function that rebuild applies to every parameter",
    ("selection", "cli"): "the progress bar",
    ("files", "families"): "encode and decode of a family",
    ("diagnosis", "families"): "the checks of a family",
    ("report", "families"): "the sections of a family",
    ("report", "cli"): "the function that shows arguments as options",
    ("fits", "families"): "the methods of a family",
    ("plots", "families"): "the processes, training rows and predictions of a family",
}
PYTHON, COMMAND = 38, 80  # largest numbers of files
WALK = (ROOT / "docs" / "contributing" / "walk.md").read_text()
RNG = np.random.default_rng(0)
X = RNG.uniform(-3, 3, (40, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=40)


def passed(call: Callable[[], object]) -> tuple[set[str], Counter[tuple[str, str]]]:
    """Return the files whose functions are called, and the number of calls between each pair of packages."""
    files: set[str] = set()
    calls: Counter[tuple[str, str]] = Counter()
    here = str(SOURCE)

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        body = not code.co_flags & inspect.CO_OPTIMIZED  # of a module or a class, executed on import
        if event != "call" or body or not code.co_filename.startswith(here):
            return
        files.add(code.co_filename)
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(here):
            caller = caller.f_back
        if caller is not None:
            calls[package_of(Path(caller.f_code.co_filename)), package_of(Path(code.co_filename))] += 1

    gc.collect()  # finalizers of what earlier tests left would be counted if the collector ran them during the call
    gc.disable()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        gc.enable()
    return files, calls


def counted(files: set[str]) -> list[str]:
    """Return the files that docs/contributing/walk.md counts: all except modules whose names begin with one underscore."""
    names = sorted(str(Path(name).relative_to(SOURCE)) for name in files)
    return [name for name in names if Path(name).name == "__init__.py" or not Path(name).name.startswith("_")]


def test_the_walk_states_the_callbacks_and_the_numbers_of_files() -> None:
    rows = re.findall(r"^\| `(\w+)/?(?:\.py)?` \| `(\w+)/` \| (.+) \|$", WALK, re.MULTILINE)
    assert {(caller, owner): what for caller, owner, what in rows} == CALLBACKS
    assert [int(n) for n in re.findall(r"\| (\d+) \|$", WALK, re.MULTILINE)[:2]] == [PYTHON, COMMAND]


def fit_and_predict() -> None:
    GPRegressor(n_restarts=0).fit(X, Y).predict(X, return_std=True)


def test_call_order_of_a_fit_in_python() -> None:
    fit_and_predict()  # so that lazy imports are done
    files, calls = passed(fit_and_predict)
    check(calls)
    named = counted(files)
    assert len(named) <= PYTHON, f"{len(named)} files: {named}"


def fit_by_the_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str
) -> tuple[set[str], Counter[tuple[str, str]]]:
    from covary.cli.app import app

    monkeypatch.chdir(folder)
    rows = "\n".join(f"{a},{b},{y}" for (a, b), y in zip(X, Y, strict=True))
    Path("table.csv").write_text(f"a,b,y\n{rows}\n")

    def fit() -> None:
        done = CliRunner().invoke(app, ["fit", "table.csv", "--target", "y", "--restarts", "0", *options])
        assert done.exit_code == 0, done.output

    fit()
    return passed(fit)


@pytest.mark.slow
def test_call_order_of_a_fit_with_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(fit_by_the_command(tmp_path, monkeypatch, "--report", "report.html")[1])


def test_call_order_of_a_fit_by_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, calls = fit_by_the_command(tmp_path, monkeypatch)
    check(calls)
    named = counted(files)
    assert len(named) <= COMMAND, f"{len(named)} files: {named}"


def check(calls: Counter[tuple[str, str]]) -> None:
    """Assert that no package calls one below it, except callbacks; private modules are exempt."""
    wrong = [
        f"{caller} calls {owner} {n} times"
        for (caller, owner), n in calls.items()
        if not caller.startswith("_") and not owner.startswith("_") and owner and caller
        if PACKAGES.index(owner) > PACKAGES.index(caller) and (caller, owner) not in CALLBACKS
    ]
    assert not wrong, wrong
