"""A local cluster: a scheduler and single-threaded worker processes that can be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PATH = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))  # processes run what the tests run
ONE = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NPROC"), "1")


def until(true: object, seconds: float = 300.0) -> None:
    """Wait for something to become true; the limit only tells a test that hangs from one on a busy machine."""
    end = time.monotonic() + seconds
    while not true():  # type: ignore[operator]
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


class Cluster:
    """A scheduler and its workers, each a process that can be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.workers = folder, list[subprocess.Popen[bytes]]()
        file = folder / "scheduler.json"
        self.scheduler = self._process("dask_scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
        until(lambda: file.exists() and file.read_text().endswith("}"))
        self.address: str = json.loads(file.read_text())["address"]

    def _process(self, program: str, *arguments: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{program}", "--host", "127.0.0.1", *arguments]
        found = {**os.environ, **ONE, "JAX_PLATFORMS": "cpu", "PYTHONPATH": PATH, **(env or {})}
        with open(self.folder / "log.txt", "ab") as log:
            return subprocess.Popen(command, env=found, cwd=self.folder, stdout=log, stderr=log)

    def start(self, count: int = 1, env: dict[str, str] | None = None) -> None:
        """So many workers more."""
        for _ in range(count):
            options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(self.folder))
            self.workers.append(self._process("dask_worker", self.address, *options, env=env))

    def kill(self) -> None:
        """One worker less, at once."""
        worker = self.workers.pop(0)
        worker.kill()
        worker.wait()

    def close(self) -> None:
        """Nobody is left."""
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@contextmanager
def cluster_in(folder: Path, workers: int) -> Iterator[Cluster]:
    """A cluster for a while."""
    cluster = Cluster(folder)
    try:
        cluster.start(workers)
        yield cluster
    finally:
        cluster.close()
