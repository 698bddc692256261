"""The command as a process: exit codes, stdout and stderr, signals, pipes, imports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import COMMAND, environment, waves, write

Shell = Callable[..., subprocess.CompletedProcess[bytes]]


def test_fit_and_predict(shell: Shell, tmp_path: Path, home: Path) -> None:
    write(tmp_path / "t.csv", waves())
    done = shell("fit", "t.csv", "--target", "y")
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    assert b"wrote t.covary" in done.stdout
    assert b"\x1b" not in done.stdout
    assert shell("fit", "t.csv", "-t", "y", "--kernel", "RationalQuadratic()", "--out", "other.covary").returncode == 0
    assert any((home / ".cache" / "covary").iterdir())  # compiled code is kept (the default kernel needs none here)
    done = shell("predict", "t.covary", "-", stdin=(tmp_path / "t.csv").read_bytes())
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 26
    assert done.stderr.decode().startswith("y: R² ")


@pytest.mark.slow
def test_where_only_plain_letters_are_known(shell: Shell, tmp_path: Path, fitted: Path) -> None:
    write(tmp_path / "t.csv", waves())
    plain = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = shell("predict", fitted / "one.covary", "t.csv", "--json", env=plain)
    assert json.loads(done.stdout)["rows"] == 25
    assert done.stderr == b""
    for arguments in (["info", fitted / "one.covary"], ["predict", fitted / "one.covary", "t.csv"], ["--help"]):
        done = shell(*arguments, env=plain)
        assert done.returncode == 0, done.stderr
        assert b"Traceback" not in done.stderr


def test_a_fault_in_the_data(shell: Shell, tmp_path: Path) -> None:
    write(tmp_path / "t.csv", [["größe", "y"], ["süß\x07", 1], *[[f"name {i}", i] for i in range(8)]])
    done = shell("fit", "t.csv", "-t", "y", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 3
    assert done.stdout == b""
    assert done.stderr.startswith(b"covary: error: ")
    assert done.stderr.count(b"\n") == 1
    assert rb"gr\xf6\xdfe" in done.stderr
    assert b"\x07" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "code"), [(["predict", "none.covary", "none.csv"], 4), (["fit"], 2)])
def test_exit_codes(shell: Shell, arguments: list[str], code: int) -> None:
    done = shell(*arguments)
    assert done.returncode == code
    assert done.stdout == b""
    assert b"Traceback" not in done.stderr


@pytest.mark.slow
def test_interrupted(tmp_path: Path, home: Path) -> None:
    """Ctrl-C while learning: the best so far is taken, and said to be."""
    write(tmp_path / "t.csv", waves(900))
    code = "from covary.cli import main, progress; progress.Bar.at = lambda *_: open('../learning', 'w').close(); main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "fit", "t.csv", "-t", "y", "--restarts", "500"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment(home),
    )
    until = time.monotonic() + 60
    while not (tmp_path.parent / "learning").exists():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert b"interrupted, " in out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.covary", "t.csv"]


@pytest.mark.slow
def test_a_reader_that_leaves_early(tmp_path: Path, home: Path, fitted: Path) -> None:
    write(tmp_path / "many.csv", waves(5000))
    process = subprocess.Popen(
        [*COMMAND, "predict", fitted / "one.covary", "many.csv", "-q"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment(home),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"mean,std,lower,upper\n"
    process.stdout.close()
    assert process.wait(60) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize(
    "arguments", [["predict", "one.covary", "t.csv", "-q"], ["predict", "one.covary", "t.csv", "--json"], ["info", "t.csv"]]
)
def test_a_disk_that_is_full(tmp_path: Path, home: Path, fitted: Path, arguments: list[str]) -> None:
    write(tmp_path / "t.csv", waves())
    (tmp_path / "one.covary").write_bytes((fitted / "one.covary").read_bytes())
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, cwd=tmp_path, env=environment(home), check=False
        )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(b"covary: error: the output cannot be used (No space left on device)")
    assert done.stderr.count(b"\n") == 1


def test_help_brings_nothing_heavy() -> None:
    """What the command itself imports, beyond what ``import covary`` does."""
    code = """
import sys
import covary
before = set(sys.modules)
from covary.cli.app import app
from typer.main import get_command
get_command(app)
heavy = {"jax", "pandas", "sklearn", "matplotlib", "scipy.stats", "pyarrow", "covary.estimators", "rich.progress"}
assert not (set(sys.modules) - before) & heavy, (set(sys.modules) - before) & heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_it_in_order(
    number: signal.Signals, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import typer

    from covary._write import whole_file
    from covary.cli.errors import end_on_signals, reported

    before = {n: signal.signal(n, signal.SIG_DFL) for n in (signal.SIGTERM, signal.SIGHUP)}
    try:
        end_on_signals()
        with pytest.raises(typer.Exit) as caught, reported(False), whole_file(tmp_path / "t.covary"):
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) is signal.SIG_DFL  # the second one ends it at once
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
        end_on_signals()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        for n, handler in before.items():
            signal.signal(n, handler)
    assert caught.value.exit_code == code
    assert capsys.readouterr().err == f"covary: error: terminated by {number.name}; nothing was written.\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("how", ["-m", "PYTHONPATH"])
def test_modules_beside_the_data_are_not_imported(tmp_path: Path, home: Path, how: str) -> None:
    data, link = tmp_path / "data", tmp_path / "link"
    data.mkdir()
    link.symlink_to(data)
    env = environment(home)
    code = ["-c", "from covary.cli import main; main()"]
    if how == "PYTHONPATH":  # names the current folder, through a link
        env["PYTHONPATH"] = os.pathsep.join([*filter(None, [env.get("PYTHONPATH")]), str(link)])
    (data / "probe.py").write_text("import sys; print(*sys.modules)")
    run = {"cwd": data, "env": env, "capture_output": True, "text": True, "timeout": 120, "check": False}
    probe = ["-m", "probe"] if how == "-m" else ["-P", "-c", "import importlib, re, sys; print(*sys.modules)"]
    before = subprocess.run([sys.executable, *probe], **run).stdout.split()  # by Python, or the script that pip writes
    for name in {*sys.stdlib_module_names, "click", "numpy", "typer", "rich"} - {*before, "runpy", "sitecustomize"}:
        (data / f"{name}.py").write_text(f"raise SystemExit('imported {name}')")
    command = [sys.executable, *(["-m", "covary"] if how == "-m" else ["-P", *code]), "--version"]
    done = subprocess.run(command, **run)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("covary ")
