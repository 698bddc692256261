"""kill -9 at any time during ``covary fit`` over an existing model leaves the old file or the new one, never half."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import covary

from .conftest import COMMAND, environment, waves, write


def prepared(folder: Path) -> None:
    """A table, a model to be replaced, and another one; both large enough for writing to take a while."""
    write(folder / "t.csv", waves())
    X = np.random.default_rng(0).normal(size=(300, 2))
    for name, noise in (("model.covary", 0.1), ("other.covary", 0.2)):
        fixed = ("kernel.variance", "kernel.lengthscale", "mean.value", "likelihood.variance")
        covary.GPRegressor("1.0 * Matern52()", noise=noise, fixed=fixed).fit(X, X[:, 0]).save(folder / name)


@pytest.mark.parametrize(("fits", "writes"), [(3, 10), pytest.param(25, 300, marks=pytest.mark.slow)])
def test_killed(tmp_path: Path, home: Path, fits: int, writes: int) -> None:
    """Many kills in one process that forks; see killed.py."""
    prepared(tmp_path)
    script = Path(__file__).with_name("killed.py")
    done = subprocess.run(
        [sys.executable, script, tmp_path, str(fits), str(writes), "0"],
        capture_output=True,
        text=True,
        env=environment(home),
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr
    found = re.search(r"fit: killed (\d+), (\d+) left the old file.*\nwrite: killed (\d+), .* (\d+) a part", done.stdout)
    assert found is not None, done.stdout
    assert (int(found[1]), int(found[3])) == (fits, writes)
    assert int(found[2]) >= 1 or fits < 10  # moments before the end of learning
    assert int(found[4]) > writes // 5  # moments in the middle of writing


def fit_command(folder: Path, home: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, "fit", "t.csv", "-t", "y", "--out", "model.covary", "--restarts", "0", "-q"],
        cwd=folder,
        env=environment(home),
    )


@pytest.mark.slow
def test_fifty_commands_killed(tmp_path: Path, home: Path) -> None:
    """The command itself, each time from the shell, killed at moments spread over its whole duration."""
    prepared(tmp_path)
    old = (tmp_path / "model.covary").read_bytes()
    assert fit_command(tmp_path, home).wait(120) == 0
    began = time.monotonic()
    assert fit_command(tmp_path, home).wait(120) == 0
    whole = time.monotonic() - began
    rng, kept, kills = random.Random(0), 0, 50
    for i in range(kills):
        (tmp_path / "model.covary").write_bytes(old)
        process = fit_command(tmp_path, home)
        if i < 40:
            time.sleep(1.1 * whole * (i + rng.random()) / 40)
        else:  # the moment it begins to write, or a little later
            while process.poll() is None and not list(tmp_path.glob(".model.covary.*")):
                time.sleep(0.0005)
            time.sleep(rng.uniform(0.0, 0.01))
        process.kill()
        assert process.wait(60) in (0, -signal.SIGKILL)
        same = (tmp_path / "model.covary").read_bytes() == old
        kept += same
        assert covary.load(tmp_path / "model.covary").posterior_.data.rows == (300 if same else 25)
    assert kept >= kills // 4
    assert fit_command(tmp_path, home).wait(120) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.covary", "other.covary", "t.csv"]  # no part is left behind
