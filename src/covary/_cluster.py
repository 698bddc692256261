"""A Dask cluster on this machine, with nothing to set up; and whether the workers of any cluster run what this process runs.

The scheduler lives in this process, the workers are processes of their own, started by a command: so a plain script needs no
``if __name__ == "__main__"``. They end when this process ends, however it ends: they live on their connection to it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from covary._checks import fail
from covary._memory import free_memory
from covary._words import counted

SHARE = 0.9  # of the free memory, for all workers together
LITTLE = 2**28  # bytes that nobody can work with
ONE = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NPROC",
)  # the last is XLA's
KEPT = {"MALLOC_TRIM_THRESHOLD_": 2**28, "MALLOC_MMAP_THRESHOLD_": 2**25}  # bytes
# Dask's workers give back freed memory at once, and take it anew for every matrix: a third more time for experts of 1000 rows
PACKAGES = ("covary", "jax", "numpy", "distributed")


def environment() -> dict[str, str]:
    """The variables a worker starts with: one thread for BLAS and XLA, this process's modules, platform and cache."""
    out = {**os.environ, **dict.fromkeys(ONE, "1")}
    out["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path or os.getcwd() for path in sys.path))
    for name, size in KEPT.items():
        out.setdefault(name, str(size))
    out["DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE"] = "False"  # a paused worker waits for ever if nothing can be put on disk
    out.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if "jax" in sys.modules:
        config = sys.modules["jax"].config
        if config.jax_platforms:
            out["JAX_PLATFORMS"] = config.jax_platforms
        if config.jax_compilation_cache_dir:
            out["JAX_COMPILATION_CACHE_DIR"] = str(config.jax_compilation_cache_dir)
            out["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = str(config.jax_persistent_cache_min_compile_time_secs)
            out["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = str(config.jax_persistent_cache_min_entry_size_bytes)
    return out


def cores() -> int:
    """The cores this process may use."""
    from dask.system import CPU_COUNT

    return max(1, int(CPU_COUNT))


START = 120.0  # seconds that worker processes on this machine may need to start


class Embedded:
    """A scheduler in this process and so many worker processes of one thread each.

    Parameters
    ----------
    workers
        How many.
    memory
        What each may use, in bytes or as text (``"4GiB"``): one that takes more is ended and started again. By default an
        equal share of nine tenths of what is free.
    """

    def __init__(self, workers: int, memory: int | str | None = None) -> None:
        from distributed import LocalCluster

        self.count = workers
        self.memory = int(SHARE * free_memory() / workers) if memory is None else _bytes(memory)
        self.cluster: Any = LocalCluster(
            n_workers=0,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        )
        self.address: str = self.cluster.scheduler_address
        self.folder = Path(tempfile.mkdtemp(prefix="covary-dask-"))
        self.log = self.folder / "workers.log"
        command = [sys.executable, "-m", "distributed.cli.dask_worker", self.address, "--host", "127.0.0.1"]
        command += ["--nworkers", str(workers), "--nthreads", "1", "--memory-limit", str(self.memory), "--no-dashboard"]
        command += ["--local-directory", str(self.folder), "--death-timeout", "60"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for this process, which then says what is to be done
            )
        self.close = weakref.finalize(self, _end, self.cluster, self.process, self.folder)

    def wait(self, client: Any, timeout: float) -> None:
        """Until all workers are there; a sentence with their last words if they do not come."""
        timeout = max(START, timeout)
        until = time.monotonic() + timeout
        while len(client.nthreads()) < self.count:
            ended = self.process.poll() is not None
            if ended or time.monotonic() > until:
                words = self.log.read_text(errors="replace").strip().splitlines()[-1:] or ["they said nothing"]
                when = "ended as they started" if ended else f"did not start within {timeout:.0f} s"
                what = f"its {counted(self.count, 'worker')} {when} ({words[0][:200]})"
                raise fail("Dask", what, "ask for fewer workers, or use Serial()")
            time.sleep(0.05)


def _bytes(memory: int | str) -> int:
    """What a worker may use, as a number."""
    from dask.utils import parse_bytes

    try:
        found = int(parse_bytes(memory))
    except (ValueError, TypeError):
        raise fail("Dask", f"memory is {memory!r}", "give bytes, or text such as '4GiB'") from None
    if found < LITTLE:
        what = f"memory is {memory!r}, less than Python and JAX take without any work"
        raise fail("Dask", what, "give every worker 512MiB or more")
    return found


def _end(cluster: Any, process: subprocess.Popen[bytes], folder: Path) -> None:
    """Close the scheduler, end the workers, remove their folder."""
    with hush(), contextlib.suppress(Exception):
        cluster.close(timeout=5)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(0.5)
    with contextlib.suppress(OSError):  # whoever is left of their group: they have nothing to save
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def hush() -> Iterator[None]:
    """Dask's loggers write nothing meanwhile.

    A cluster that closes gives them their voice back before its event loop has stopped: what the loop then finds closed, it
    would tell the user.
    """
    loggers = [log for name, log in logging.root.manager.loggerDict.items() if name.split(".")[0] == "distributed"]
    handlers = [handler for log in loggers if isinstance(log, logging.Logger) for handler in log.handlers]
    for handler in handlers:
        handler.addFilter(_nothing)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(_nothing)


def _nothing(_: logging.LogRecord) -> bool:
    return False


def connect(address: str, timeout: float) -> Any:
    """A client of the scheduler there."""
    import warnings

    from distributed import Client

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # versions: compared by check_versions, which does not stop at a warning
            return Client(address, timeout=timeout, set_as_default=False)
    except (OSError, TimeoutError, ValueError, TypeError, RuntimeError) as error:
        why = " ".join(str(error).split())[:160] or type(error).__name__
        what = f"no scheduler answers at {address} within {timeout:.0f} s ({why})"
        raise fail(
            "Dask", what, "check the address and that it is running (dask scheduler), or use Dask() for this machine"
        ) from None


def page(client: Any, embedded: bool) -> str | None:
    """Address of the scheduler's page, if it has one (without bokeh it has none)."""
    import importlib.util
    import urllib.request

    if embedded and importlib.util.find_spec("bokeh") is None:
        return None
    link = None
    with contextlib.suppress(Exception):
        if "dashboard" in client.scheduler_info().get("services", {}):
            link = client.dashboard_link
            with urllib.request.urlopen(link, timeout=2) as answer:
                return None if b"needs bokeh" in answer.read(2000) else link
    return link


# versions --------------------------------------------------------------------------------------------------------
@cache
def versions() -> dict[str, str]:
    """What this process runs."""
    import importlib

    found = {name: str(importlib.import_module(name).__version__) for name in PACKAGES}
    return {"python": "{}.{}".format(*sys.version_info), **found}


def check_versions(client: Any) -> None:
    """Refuse workers that run other versions of Python, covary, JAX, NumPy or Dask, saying who has what."""
    packages = PACKAGES

    def installed() -> dict[str, str]:  # travels by value: covary need not be there
        import importlib
        import sys

        found = {"python": "{}.{}".format(*sys.version_info)}
        for name in packages:
            try:
                found[name] = importlib.import_module(name).__version__
            except Exception:
                found[name] = "none"
        return found

    python = {w: ".".join(v["packages"]["python"].split(".")[:2]) for w, v in client.get_versions()["workers"].items()}
    found: dict[str, Any] = {w: {"python": p} for w, p in python.items()}
    if set(python.values()) <= {versions()["python"]}:  # else what travels by value would not arrive
        told = client.run(installed, on_error="return")
        found = {w: v for w, v in told.items() if not isinstance(v, OSError)}  # who left meanwhile is not asked
    wrong = {w: differences(v if isinstance(v, dict) else {}) for w, v in found.items()}
    wrong = {w: names for w, names in wrong.items() if names}
    if wrong:
        worker, names = sorted(wrong.items())[0]
        theirs, ours = listed(names, found[worker] if isinstance(found[worker], dict) else {}), listed(names, versions())
        count = f"{len(wrong)} of {len(found)} workers differ" if len(found) > 1 else "the only worker differs"
        raise fail("Dask", f"the worker {worker} has {theirs}, this process has {ours} ({count})", SAME)


def listed(names: list[str], found: dict[str, str]) -> str:
    """Packages with their versions, in words."""
    return " and ".join(f"no {name}" if found.get(name, "none") == "none" else f"{name} {found[name]}" for name in names)


SAME = "install the same versions everywhere, then start the workers again"


def differences(theirs: dict[str, str]) -> list[str]:
    """The names under which this process runs another version."""
    if not theirs:
        return ["covary"]
    return [name for name, version in versions().items() if name in theirs and theirs[name] != version]


def check_here(theirs: dict[str, str]) -> None:
    """On a worker: refuse work from a process of other versions (for workers that came after the first check)."""
    if theirs != versions():
        names = differences(theirs) or ["covary"]
        what = f"a worker that came later has {listed(names, versions())}, the process that asks has {listed(names, theirs)}"
        raise fail("Dask", what, SAME)
