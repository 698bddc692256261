"""Committees on a local cluster: bit-identical to one process, even if workers die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cluster.machines import PATH, Cluster, until
from covary import GPRegressor
from covary.committee import Committee, Parquet
from covary.executors import Dask

RNG = np.random.default_rng(8)
X = RNG.uniform(-3, 3, (900, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(900)
NEW = pd.DataFrame(RNG.uniform(-3, 3, (40, 2)), columns=["a", "b"])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows in two Parquet files."""
    folder = tmp_path_factory.mktemp("table")
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y})
    frame[:400].to_parquet(folder / "one.parquet", row_group_size=130)
    frame[400:].to_parquet(folder / "two.parquet", row_group_size=200)
    return folder


def fitted(table: Path, executor: Any, **more: Any) -> Any:
    """A committee of nine, fitted to the table."""
    committee = Committee(9, rule="grbcm", partition="kd_tree", folder=str(more.pop("folder")))
    model = GPRegressor("1.0 * Matern52(lengthscale=[1.0, 1.0])", method=committee, executor=executor, n_restarts=0, **more)
    return model.set_params(random_state=0).fit(Parquet(table), "y")


def numbers(model: Any) -> tuple[bytes, ...]:
    """Everything that must not depend on who did the work."""
    mean, std = model.predict(NEW, return_std=True)
    return model.learned_.theta.tobytes(), mean.tobytes(), std.tobytes(), np.float64(model.log_marginal_likelihood_).tobytes()


@pytest.fixture(scope="module")
def expected(table: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, ...]:
    return numbers(fitted(table, None, folder=tmp_path_factory.mktemp("rows")))


def test_a_cluster_gives_the_bits_of_one_process(
    cluster: Cluster, table: Path, tmp_path: Path, expected: tuple[bytes, ...]
) -> None:
    with Dask(cluster.address) as executor:
        until(lambda: executor.workers == 3)
        model = fitted(table, executor, folder=tmp_path)
        assert model.posterior_.rows == 900
        assert numbers(model) == expected


def test_a_worker_killed_in_the_middle_of_a_fit_changes_no_bit(
    cluster: Cluster, table: Path, tmp_path: Path, expected: tuple[bytes, ...]
) -> None:
    with Dask(cluster.address) as executor:
        until(lambda: executor.workers >= 2)
        killed = threading.Event()
        real = executor.map

        def watched(function: Any, *rest: Any, **more: Any) -> Any:
            if function.__name__ == "evidence" and not killed.is_set():
                killed.set()
                threading.Timer(0.05, cluster.kill).start()  # while the experts are at work
            return real(function, *rest, **more)

        executor.map = watched  # type: ignore[method-assign]
        assert numbers(fitted(table, executor, folder=tmp_path)) == expected
        assert killed.is_set()
    cluster.start()


SCRIPT = """
import sys
from pathlib import Path
from cluster import test_committee as t
from covary.committee import held
from covary.executors import Dask

real, count = held.Held.map, [0]

def slowly(self, function, *rest, **more):
    if function.__name__ == "evidence":
        count[0] += 1
        print("evaluation", count[0], flush=True)
        if count[0] == int(sys.argv[4]):
            import time
            time.sleep(600)
    return real(self, function, *rest, **more)

held.Held.map = slowly
model = t.fitted(Path(sys.argv[1]), Dask(sys.argv[2]), folder=Path(sys.argv[3]) / "rows", checkpoint=sys.argv[3] + "/kept")
print("done", t.numbers(model)[0].hex(), flush=True)
"""


@pytest.mark.slow
def test_a_client_killed_and_started_again_goes_on(
    cluster: Cluster, table: Path, tmp_path: Path, expected: tuple[bytes, ...]
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(table), cluster.address, str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": PATH}
    with subprocess.Popen([*command, "2"], env=env, stdout=subprocess.PIPE, text=True) as first:
        until(lambda: "evaluation 2" in first.stdout.readline())  # type: ignore[union-attr]
        first.send_signal(signal.SIGKILL)
    kept = (tmp_path / "kept" / "experts.checkpoint").read_bytes()
    assert kept.count(b"evidence-") > 1  # the experts of the first evaluation
    again = subprocess.run([*command, "0"], env=env, capture_output=True, text=True, timeout=300, check=False)
    assert again.returncode == 0, again.stderr[-2000:]
    assert again.stdout.splitlines()[-1] == f"done {expected[0].hex()}"
