"""Fixtures for tests of the command: a runner in this process, one in a subprocess, and small tables."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from covary._errors import CovaryError

COMMAND = [sys.executable, "-c", "from covary.cli import main; main()"]


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX's cache is a setting of the whole process: tests in this process leave it alone."""
    import covary

    monkeypatch.setattr(covary, "enable_cache", lambda directory=None: "nowhere")


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run the command in this process, in a folder of its own: ``call("fit", "a.csv", "--target", "y")``."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: Any, stdin: bytes | None = None) -> Any:
        from covary.cli.app import app

        return CliRunner().invoke(app, [str(a) for a in arguments], input=stdin, prog_name="covary")

    return run


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home folder shared by the processes of this session, so that they share compiled code."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def shell(tmp_path: Path, home: Path) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Run the command in a process of its own."""

    def run(*arguments: Any, stdin: bytes = b"", env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*COMMAND, *(str(a) for a in arguments)],
            input=stdin,
            capture_output=True,
            cwd=tmp_path,
            env=environment(home) | (env or {}),
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model file of one target, and one of two, in a folder of their own."""
    folder = tmp_path_factory.mktemp("fitted")
    import pandas as pd

    import covary

    cells = waves()
    frame = pd.DataFrame(cells[1:], columns=cells[0])
    one: Any = covary.GPRegressor(random_state=0).fit(frame[["x", "z"]], frame["y"])
    one.target_names_ = ["y"]
    one.save(folder / "one.covary")
    two: Any = covary.GPRegressor(random_state=0).fit(frame[["x"]], frame[["y", "z"]].to_numpy())
    two.target_names_ = ["y", "z"]
    two.save(folder / "two.covary")
    covary.GPRegressor(random_state=0).fit(frame[["x", "z"]].to_numpy(), frame["y"]).save(folder / "bare.covary")
    return folder


@contextmanager
def refused(kind: type[CovaryError], match: str) -> Iterator[pytest.ExceptionInfo[CovaryError]]:
    """As ``pytest.raises``, of the message that the command would show."""
    from covary.cli.errors import verdict

    with pytest.raises(kind) as caught:
        yield caught
    assert re.search(match, verdict(caught.value)[1]), verdict(caught.value)[1]


def environment(home: Path) -> dict[str, str]:
    """The variables a process of the command is started with."""
    return {**os.environ, "HOME": str(home), "JAX_PLATFORMS": "cpu", "PYTHONWARNINGS": "default"}


def waves(rows: int = 25, seed: int = 0, columns: Sequence[str] = ("x", "z", "y")) -> list[list[Any]]:
    """A small table as rows of cells, header first: y is a wave in x, z matters little."""
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(0, 6, rows), rng.normal(size=rows)
    y = np.sin(x) + 0.1 * z + 0.05 * rng.normal(size=rows)
    return [list(columns), *([round(float(v), 5) for v in row] for row in zip(x, z, y, strict=True))]


def write(path: Path, cells: list[list[Any]], delimiter: str = ",") -> Path:
    """The table as text."""
    path.write_text("\n".join(delimiter.join(str(c) for c in row) for row in cells) + "\n")
    return path
