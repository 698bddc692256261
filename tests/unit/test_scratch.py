"""Temporary folders are removed with their process, however it ends, or cleaned up later."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from covary._checks import CovaryError
from covary._scratch import Scratch


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_closed_or_forgotten_it_is_gone(place: Path) -> None:
    scratch = Scratch("covary-test-")
    (scratch.path / "a").write_text("b")
    assert scratch.path.stat().st_mode & 0o777 == 0o700
    scratch.close()
    scratch.close()
    Scratch("covary-test-")
    assert not list(place.iterdir())


@pytest.mark.parametrize("how", ["os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 15)"])
def test_it_goes_with_its_process(how: str, place: Path) -> None:
    code = f"import os\nfrom covary._scratch import Scratch\ns = Scratch('covary-test-')\n(s.path / 'a').mkdir()\n{how}"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(place)}, check=False)
    end = time.monotonic() + 60
    while list(place.iterdir()):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_forked_copy_removes_nothing(place: Path) -> None:
    code = """
import os
from covary._scratch import Scratch
scratch = Scratch("covary-test-")
if os.fork() == 0:
    raise SystemExit
os.wait()
print(scratch.path.exists())
"""
    env = {**os.environ, "TMPDIR": str(place)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr
    assert not list(place.iterdir())


def test_what_the_dead_left_is_swept_up_and_nothing_else(place: Path) -> None:
    ghost = subprocess.Popen([sys.executable, "-c", ""])
    ghost.wait()
    names = [f"{ghost.pid}-a", f"{ghost.pid}-b", f"{os.getpid()}-c", "letters"]
    dead, held, mine, other = (place / f"covary-test-{name}" for name in names)
    for path in (dead, held, mine, other):
        path.mkdir()
    link = place / f"covary-test-{ghost.pid}-d"
    link.symlink_to(mine)
    lock = os.open(held, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    Scratch("covary-test-").close()
    os.close(lock)
    assert sorted(place.iterdir()) == sorted([held, mine, other, link])


def test_nowhere_to_write_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(CovaryError, match=r"^fit: cannot create a temporary folder .*; set TMPDIR"):
        Scratch("covary-test-")
