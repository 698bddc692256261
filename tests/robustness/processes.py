"""Adverse conditions for scripts and the command: modules next to the data, signals at any time, leftover temporary folders."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import psutil

from robustness.clusters import LIMIT, until
from robustness.record import Case

TITLE = "scripts and the command: modules next to the data, signals, temporary folders"
LEAST = 62


# modules next to the data ------------------------------------------------------------------------------------------
# not those that "python -m" itself imports before any module runs (contextlib, functools, types, warnings, ...)
NAMES = [
    "click",
    "json",
    "random",
    "statistics",
    "typing",
    "enum",
    "re",
    "copy",
    "numbers",
    "secrets",
    "string",
    "queue",
    "calendar",
    "socket",
    "ssl",
    "select",
    "logging",
    "tempfile",
    "numpy",
    "pandas",
    "jax",
    "scipy",
    "sklearn",
    "typer",
    "rich",
    "distributed",
    "dask",
    "cloudpickle",
    "tornado",
    "psutil",
    "yaml",
    "toolz",
    "msgpack",
    "cryptography",
    "matplotlib",
    "jinja2",
    "msvcrt",
    "nt",
    "uvloop",
    "bokeh",
]
SCRIPT = """
import sys
from covary.executors import Dask
with Dask(workers=1) as executor:
    print(executor.map(len, ["ab"]))
"""


def shadowed(folder: Path, name: str, how: str) -> None:
    """A module beside the data that is named like an installed one is not run."""
    folder.mkdir()
    for each in NAMES if name == "all" else [name]:
        (folder / f"{each}.py").write_text(f"open({str(folder / 'ran')!r}, 'a').write({each!r} + ' ')\n")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment["PYTHONPATH"] = os.pathsep if how == "empty entry" else ""
    (folder / "t.csv").write_text("x,y\n" + "".join(f"{k},{k % 3}\n" for k in range(30)))
    if how == "workers":
        (folder / "mine").mkdir()
        (folder / "mine" / "script.py").write_text(SCRIPT)
        command = [sys.executable, str(folder / "mine" / "script.py")]
    elif how == "command":
        command = [str(Path(sys.executable).with_name("covary")), "fit", "t.csv", "-t", "y", "-q"]
        command += ["--experts", "2", "--workers", "1"]
    else:
        command = [sys.executable, "-m", "covary", "--version"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert not (folder / "ran").exists(), f"ran {(folder / 'ran').read_text()}"
    assert done.returncode == 0, done.stderr[-500:]


def own_module(folder: Path) -> None:
    """A function of a module beside the script is found by the workers all the same."""
    folder.mkdir()
    (folder / "ours.py").write_text("def twice(x):\n    return 2 * x\n")
    (folder / "script.py").write_text(
        "import ours\nfrom covary.executors import Dask\nwith Dask(workers=1) as e:\n    print(e.map(ours.twice, [1, 2]))\n"
    )
    done = subprocess.run(
        [sys.executable, str(folder / "script.py")], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.stdout == "[2, 4]\n", done.stderr[-500:]


# signals ------------------------------------------------------------------------------------------------------------
ENDED = """
import os, signal, sys, time
how = sys.argv[1]
if how == "own handler":
    signal.signal(signal.SIGTERM, lambda *_: (print("mine", flush=True), sys.exit(7)))
from covary.executors import Dask
def rest(number):
    import os, time
    time.sleep(0.1)
    return os.getpid()
executor = Dask(workers=2)
print("begun", flush=True)
if how == "starting":
    executor.map(rest, range(600))
print(*set(executor.map(rest, range(6))), flush=True)
if how == "exception":
    raise RuntimeError("mine")
if how == "_exit":
    os._exit(3)
if how == "fork":
    if os.fork() == 0:
        sys.exit(0)
    os.wait()
    print(executor.map(rest, range(2)) != [], flush=True)
    sys.exit(0)
if how == "working":
    executor.map(rest, range(6000))
time.sleep(600)
"""
ROWS = """
import sys, time, numpy as np, pandas as pd
from covary import GPRegressor
from covary.committee import Committee, Parquet
rng = np.random.default_rng(0)
pd.DataFrame(rng.normal(size=(200, 3)), columns=["a", "b", "y"]).to_parquet("t.parquet")
fixed = ("kernel.variance", "kernel.lengthscale", "likelihood.variance")
model = GPRegressor("1.0 * Matern52()", method=Committee(2, partition="kd_tree"), fixed=fixed, n_restarts=0)
model.fit(Parquet("t.parquet"), "y")
print("begun", flush=True)
if sys.argv[1] != "by itself":
    time.sleep(600)
"""


def heard() -> None:
    """Signals that nohup, or a shell in the background, has ignored."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def running(folder: Path, script: str, how: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A script with a folder for temporary files of its own."""
    (folder / "tmp").mkdir(parents=True)
    (folder / "script.py").write_text(script)
    command = [sys.executable, str(folder / "script.py"), how]
    pipe = subprocess.PIPE
    environment = {**os.environ, "TMPDIR": str(folder / "tmp")}
    process = subprocess.Popen(command, env=environment, cwd=folder, stdout=pipe, stderr=pipe, text=True, preexec_fn=heard)
    try:
        yield process, folder / "tmp"
    finally:
        process.kill()
        process.communicate()


def ended(folder: Path, how: str, number: int | None, code: int) -> None:
    """However a script ends: its workers end, its folder is removed, and a handler of its own is heard."""
    with running(folder, ENDED, how) as (process, place):
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        found: list[int] = []
        if how == "starting":
            until(lambda: list(place.glob("covary-dask-*/*.pem")), "the keys")
            time.sleep(random.Random(number).uniform(0, 1.5))
        else:
            found = [int(pid) for pid in process.stdout.readline().split()]
            assert found
        if how == "working":
            time.sleep(0.3)
        if number is not None:
            process.send_signal(number)
        said, errors = process.communicate(timeout=LIMIT)
        assert process.returncode == code, (process.returncode, errors[-500:])
        if how == "own handler":
            assert said == "mine\n"
        if how == "fork":
            assert said == "True\n"
        until(lambda: not any(map(psutil.pid_exists, found)), "the workers' end")
        until(lambda: not list(place.iterdir()), f"an empty folder, not {[p.name for p in place.iterdir()]}")


def rows_go(folder: Path, how: str, number: int | None) -> None:
    """The folder into which the rows of a table on disk are sorted goes with its process."""
    with running(folder, ROWS, how) as (process, place):
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        if number is not None:
            process.send_signal(number)
        process.communicate(timeout=LIMIT)
        until(lambda: not list(place.iterdir()), f"an empty folder, not {[p.name for p in place.iterdir()]}")


def command_ended(folder: Path, number: int, code: int) -> None:
    """The command says that it was ended, and leaves nothing behind."""
    (folder / "tmp").mkdir(parents=True)
    rng = np.random.default_rng(0)
    lines = "\n".join(",".join(f"{v:.6f}" for v in row) for row in rng.normal(size=(3000, 3)))
    (folder / "t.csv").write_text("a,b,y\n" + lines + "\n")
    command = [sys.executable, "-m", "covary", "fit", "t.csv", "-t", "y", "--experts", "8", "--workers", "1"]
    environment = {**os.environ, "TMPDIR": str(folder / "tmp")}
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True, preexec_fn=heard)
    try:
        until(lambda: list((folder / "tmp").glob("covary-dask-*/workers.log")), "the workers")
        process.send_signal(number)
        _, errors = process.communicate(timeout=LIMIT)
        if number != signal.SIGINT or process.returncode != 0:  # Ctrl-C during the search ends it with the best so far
            assert process.returncode == code, (process.returncode, errors[-300:])
            assert errors.strip().splitlines()[-1].startswith("covary: error: "), errors[-300:]
        until(lambda: not list((folder / "tmp").iterdir()), "an empty folder")
        assert not list(folder.glob("*.covary"))
    finally:
        process.kill()
        process.communicate()


def swept(folder: Path) -> None:
    """What a killed process and its shell left is removed by the next; what somebody has is not."""
    import fcntl

    from covary._scratch import Scratch

    folder.mkdir()
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        ghost = subprocess.Popen([sys.executable, "-c", ""])
        ghost.wait()
        dead, held, mine = (folder / f"covary-dask-{n}" for n in (f"{ghost.pid}-a", f"{ghost.pid}-b", f"{os.getpid()}-c"))
        other = folder / "covary-dask-letters"
        for path in (dead, held, mine, other):
            path.mkdir()
            (path / "key.pem").touch()
        lock = os.open(held, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_SH)
        scratch = Scratch("covary-dask-")
        assert not dead.exists()
        assert all(path.exists() for path in (held, mine, other))
        os.close(lock)
        scratch.close()
    finally:
        tempfile.tempdir = before


def cases(folder: Path) -> Iterator[Case]:
    """All of them, the same every time."""
    for name in NAMES:
        yield Case(f"{name}.py, python -m", partial(shadowed, folder / f"m-{name}", name, "module"))
    yield Case("all of them, workers", partial(shadowed, folder / "workers", "all", "workers"))
    yield Case("all of them, the command", partial(shadowed, folder / "command", "all", "command"))
    yield Case("a module of one's own", partial(own_module, folder / "own"))
    term, hangup, interrupt, dead = signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL
    for n, (how, number, code) in enumerate(
        [
            ("idle", term, -term),
            ("idle", hangup, -hangup),
            ("idle", interrupt, -interrupt),
            ("idle", dead, -dead),
            ("working", term, -term),
            ("working", dead, -dead),
            ("starting", term, -term),
            ("starting", dead, -dead),
            ("own handler", term, 7),
            ("exception", None, 1),
            ("_exit", None, 3),
            ("fork", None, 0),
        ]
    ):
        yield Case(f"a script, {how}, {number}", partial(ended, folder / f"ended{n}", how, number, code))
    for n, (how, number) in enumerate([("by itself", None), ("waits", term), ("waits", dead)]):
        yield Case(f"sorted rows, {how}, {number}", partial(rows_go, folder / f"rows{n}", how, number))
    for number in (term, hangup, interrupt):
        yield Case(f"the command, {number}", partial(command_ended, folder / f"command{number}", number, 128 + number))
    yield Case("folders of the dead", partial(swept, folder / "swept"))
