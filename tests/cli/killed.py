"""A process whose children write one model file and are killed at random times; run by test_kill.

``python killed.py FOLDER FITS WRITES SEED``. FOLDER contains model.covary, other.covary and t.csv. FITS children run ``covary
fit`` over model.covary, and WRITES children write the two models over it in turn. After every kill the file must be the old one
or a new one. This process computes nothing itself, only its children do, because JAX cannot be used across a fork.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas  # noqa: F401
import sklearn.utils.validation  # noqa: F401

import covary.cli.fit
import covary.estimators.regressor
from covary import files
from covary.cli import main as command


def fit() -> None:
    """``covary fit``, as a shell would run it."""
    sys.argv[1:] = ["fit", "t.csv", "-t", "y", "--out", "model.covary", "--restarts", "0", "--error-bars", "no", "-q"]
    command()


def write() -> None:
    """Write one model, then the other, and so on."""
    models = [files.read(name) for name in ("other.covary", "old.covary")]
    Path("begun").touch()
    while True:
        for kind, record, arrays in models:
            files.write("model.covary", kind, record, arrays)


def check() -> None:
    """The file can be used."""
    covary.load("model.covary").predict([[0.0, 0.0]])


def begun(work: Callable[[], None]) -> int:
    """A child that does the work."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        os._exit(code)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill(work: Callable[[], None], seconds: float, kills: int, rng: random.Random, old: bytes) -> None:
    """Fork, wait, kill, look; again and again, at moments spread over so many seconds."""
    kept = parts = 0
    for i in range(kills):
        Path("begun").unlink(missing_ok=True)
        child = begun(work)
        while work is write and not Path("begun").exists():  # the clock starts when the writing does, however busy the machine
            time.sleep(0.001)
        time.sleep(seconds * (i + rng.random()) / kills)
        os.kill(child, signal.SIGKILL)
        assert ended(child) in (0, -signal.SIGKILL)
        if Path("model.covary").read_bytes() == old:
            kept += 1
        else:
            assert ended(begun(check)) == 0
            Path("model.covary").write_bytes(old)
        parts += any(name.endswith(".part") for name in os.listdir("."))
    print(f"{work.__name__}: killed {kills}, {kept} left the old file, {parts} a part beside it")


def main(folder: str, fits: int, writes: int, seed: int) -> None:
    """Both kinds of children, and whether the next writer tidies up after them."""
    os.chdir(folder)
    old = Path("model.covary").read_bytes()
    Path("old.covary").write_bytes(old)
    rng = random.Random(seed)
    if fits:
        assert ended(begun(fit)) == 0  # compiles
        began = time.monotonic()
        assert ended(begun(fit)) == 0
        seconds = time.monotonic() - began
        Path("model.covary").write_bytes(old)
        kill(fit, seconds, fits, rng, old)
    kill(write, 0.06, writes, rng, old)
    files.write("model.covary", *files.read("other.covary"))
    assert ended(begun(check)) == 0
    Path("begun").unlink(missing_ok=True)
    assert not [name for name in os.listdir(".") if name.endswith(".part")]


if __name__ == "__main__":
    main(sys.argv[1], *(int(number) for number in sys.argv[2:5]))
