"""Progress on a terminal: shown only there, after a delay, with the remaining time."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from covary.cli import progress
from covary.cli.errors import say_error

from .conftest import COMMAND, environment, waves, write


class Terminal:
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True


def learn_a_little(bar: Any, seconds: float) -> None:
    from covary.selection.state import _WATCHER

    with progress.learning(bar):
        tell: Any = _WATCHER.get()
        for share in (0.1, 0.25, 0.5):
            facts = {"rows": 400, "levels": (400, 1600), "level": 0, "start": 0, "starts": 2, "steps": 3, "value": -12.5}
            tell(SimpleNamespace(**facts, seconds=100 * share, fraction=share))
            time.sleep(seconds)


@pytest.mark.parametrize(("patience", "appears"), [(0.05, True), (30.0, False)])
def test_it_appears_when_patience_is_over(monkeypatch: pytest.MonkeyPatch, patience: float, appears: bool) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "PATIENCE", patience)
    monkeypatch.setenv("TERM", "xterm-256color")
    with progress.bar() as bar:
        learn_a_little(bar, 0.15)
    if not appears:
        assert stream.text == ""
        return
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.text)
    assert "learning 400/1,600 rows, start 1/2" in plain
    assert "50 %" in plain
    assert "50 s left" in plain


def test_nothing_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    with progress.bar() as bar:
        learn_a_little(bar, 0.03)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress.bar(quiet=True) as bar:
        learn_a_little(bar, 0.03)
    assert sys.stderr.text == ""  # type: ignore[attr-defined]
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_an_error_is_red_on_a_terminal_that_knows_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.delenv("NO_COLOR", raising=False)
    say_error("a; b.")
    monkeypatch.setenv("NO_COLOR", "1")
    say_error("c; d.")
    assert sys.stderr.text == "\x1b[1;31mcovary: error:\x1b[0m a; b.\ncovary: error: c; d.\n"  # type: ignore[attr-defined]


@pytest.mark.slow
def test_an_error_on_a_terminal_is_red_and_the_bar_is_gone(tmp_path: Path, home: Path) -> None:
    """In a real terminal: a sentence in colour, and nothing else."""
    write(tmp_path / "t.csv", waves())
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "fit", "t.csv", "--target", "why"],
        stdout=subprocess.PIPE,
        stderr=follower,
        cwd=tmp_path,
        env=environment(home) | {"TERM": "xterm-256color"},
    )
    os.close(follower)
    seen = b""
    while process.poll() is None or select.select([leader], [], [], 0)[0]:
        if select.select([leader], [], [], 0.1)[0]:
            try:
                seen += os.read(leader, 4096)
            except OSError:
                break
    os.close(leader)
    assert process.wait(60) == 2
    assert process.stdout is not None
    assert process.stdout.read() == b""
    process.stdout.close()
    assert b"\x1b[1;31mcovary: error:\x1b[0m --target: 't.csv' has no column 'why'" in seen
