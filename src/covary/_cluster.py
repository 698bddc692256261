"""A Dask cluster on this machine, with nothing to set up; and whether the workers of any cluster run what this process runs.

The scheduler lives in this process, the workers are processes of their own, started by a command: so a plain script needs no
``if __name__ == "__main__"``. They end when this process ends, however it ends. All of them listen on the loopback interface
alone, and talk to nobody who has not the keys that were made for this run.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from covary._checks import CovaryError, fail
from covary._keepers import LOOPBACK
from covary._memory import free_memory
from covary._scratch import Scratch
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
    """The variables a worker starts with: one thread for BLAS and XLA, this process's platform and cache."""
    out = {**os.environ, **dict.fromkeys(ONE, "1")}
    given = [path for path in out.pop("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(path) and not is_current(path)]
    if given and not sys.flags.ignore_environment:  # without entries that stand for the current folder, which comes last
        out["PYTHONPATH"] = os.pathsep.join(given)
    if sys.flags.no_user_site:
        out["PYTHONNOUSERSITE"] = "1"
    for name, size in KEPT.items():
        out.setdefault(name, str(size))
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


def is_current(path: str) -> bool:
    """Whether a path leads to the current folder."""
    try:
        return os.path.samefile(path, os.curdir)
    except OSError:
        return False


# What the process that keeps the workers runs. Without -P, Python looks for modules in the current folder first; here the
# folders of whoever asked come after what is installed, and the covary that works is the one that asks.
BEGIN = """
import importlib.util, json, os, sys
told = json.loads(sys.argv[1])
sys.path += [path for path in told.pop("path") if path not in sys.path]
ours, found = told.pop("covary"), importlib.util.find_spec("covary")
if found is None or os.path.dirname(os.path.abspath(found.origin)) != ours:
    sys.path.insert(0, os.path.dirname(ours))
from covary._keepers import main
main(**told)
"""


def cores() -> int:
    """The cores this process may use."""
    from dask.system import CPU_COUNT

    return max(1, int(CPU_COUNT))


START = 120.0  # seconds that worker processes on this machine may need to start
AGAIN = 60.0  # seconds for the first to be there again when all of them have died
TRIES = 3  # times in a row that whoever keeps them may be killed before one is there


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
        from dask import config
        from distributed import LocalCluster

        self.count, self.left, self.lock = workers, TRIES, threading.RLock()
        self.memory = int(SHARE * free_memory() / workers) if memory is None else _bytes(memory)
        self.scratch = Scratch("covary-dask-")
        self.keys = _keys(self.scratch.path)
        settings = {"distributed.scheduler.http.routes": [], "temporary-directory": str(self.scratch.path)}
        with config.set(settings):  # there always is an HTTP server; this one answers nothing
            self.cluster: Any = LocalCluster(
                n_workers=0,
                threads_per_worker=1,
                processes=True,
                host=LOOPBACK,
                protocol="tls://",
                security=self.security,
                dashboard_address=f"{LOOPBACK}:0",
                scheduler_kwargs={"dashboard": False},
                silence_logs=logging.CRITICAL,
            )
        self.address: str = self.cluster.scheduler_address
        self.log = self.scratch.path / "workers.log"
        started: list[subprocess.Popen[bytes]] = []
        self.started = started
        quiet = contextlib.ExitStack()
        quiet.enter_context(hush())
        self.close = weakref.finalize(self, _end, self.cluster, started, self.scratch, quiet, os.getpid())
        self.begin()

    @property
    def security(self) -> Any:
        """The keys, as Dask wants them."""
        from distributed.security import Security

        return Security(require_encryption=True, **self.keys)

    def begin(self) -> None:
        """Start the process that keeps the workers."""
        told = {"address": self.address, "workers": self.count, "memory": self.memory, "folder": str(self.scratch.path)}
        try:
            here = os.getcwd()
        except OSError:  # it was removed, and workers cannot start there
            here = str(self.scratch.path)
        paths = list(dict.fromkeys(os.path.normpath(os.path.join(here, path)) for path in sys.path))
        more = {"keys": self.keys, "path": paths, "covary": os.path.dirname(os.path.abspath(__file__))}
        _stop(self.started)
        try:
            with open(self.log, "ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-c", BEGIN, json.dumps(told | more)],
                    env=environment(),
                    cwd=here,
                    stdin=subprocess.PIPE,  # ends with this process, and the workers with it
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C is for this process, which then says what is to be done
                    pass_fds=(self.scratch.lifeline,),
                )
        except OSError as error:
            raise self.gone(f"could not be started: {error.strerror}") from None
        self.started.append(process)

    def tend(self, there: int) -> None:
        """Start the workers again if whoever keeps them was killed; a sentence if they cannot be kept."""
        with self.lock:  # several threads may work with these workers
            if there:
                self.left = TRIES
            code = self.started[-1].poll() if self.started else -1  # nobody: the last start failed
            if code is None:
                return
            self.left -= 1
            if code >= 0 or self.left < 0:
                raise self.gone("ended and could not be started again")
            self.begin()

    def wait(self, client: Any, timeout: float) -> None:
        """Until all workers are there; a sentence with their last words if they do not come."""
        timeout = max(START, timeout)
        until = time.monotonic() + timeout
        while (there := len(client.nthreads())) < self.count:
            self.tend(there)
            if time.monotonic() > until:
                raise self.gone(f"did not start within {timeout:.0f} s")
            time.sleep(0.05)

    def forget(self) -> None:
        """In a forked copy of this process: nothing here is its own to close."""
        from distributed.deploy.spec import SpecCluster

        SpecCluster._instances.discard(self.cluster)
        self.close.detach()

    def gone(self, what: str) -> CovaryError:
        """The sentence for workers that are not there, with their last words."""
        words = [""]
        with contextlib.suppress(OSError):
            words += self.log.read_text(errors="replace").strip().splitlines()
        what = f"its {counted(self.count, 'worker')} {what} ({words[-1][:200] or 'they said nothing'})"
        return fail("Dask", what, "ask for fewer workers, or use Serial()")


def _keys(folder: Path) -> dict[str, str]:
    """A key and a certificate made for this run, in files that only this user can read; Dask's names for them."""
    from distributed.security import Security

    try:
        made = Security.temporary()
    except ImportError:
        what = "cryptography, which makes the keys of workers on this machine, is not installed"
        raise fail("Dask", what, "run pip install 'covary[dask]', or use Serial()") from None
    files = {"key": made.tls_worker_key, "cert": made.tls_worker_cert}
    for name, content in files.items():
        with open(os.open(folder / f"{name}.pem", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(content)
    names = {f"tls_{who}_{name}": str(folder / f"{name}.pem") for who in ("client", "scheduler", "worker") for name in files}
    return {"tls_ca_file": str(folder / "cert.pem"), **names}


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


def _end(
    cluster: Any, started: list[subprocess.Popen[bytes]], scratch: Scratch, quiet: contextlib.ExitStack, owner: int
) -> None:
    """End the workers, close the scheduler, remove their folder."""
    if os.getpid() != owner:  # a forked copy of this process
        return
    _stop(started)
    with quiet, hush(), contextlib.suppress(Exception):
        cluster.close(timeout=5)
    scratch.close()


def _stop(started: list[subprocess.Popen[bytes]]) -> None:
    """End who was started, and the workers with them: they have nothing to save."""
    while started:
        process = started.pop()
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@contextlib.contextmanager
def hush() -> Iterator[None]:
    """Dask's loggers write nothing meanwhile.

    A cluster that closes gives them their voice back before its event loop has stopped, and even while another one runs: what
    the loop then finds closed, it would tell the user.
    """
    loggers = [log for name, log in logging.root.manager.loggerDict.items() if name.split(".")[0] == "distributed"]
    handlers = [handler for log in loggers if isinstance(log, logging.Logger) for handler in log.handlers]

    def nothing(_: logging.LogRecord) -> bool:
        return False

    for handler in handlers:
        handler.addFilter(nothing)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(nothing)


def connect(address: str, timeout: float, security: Any = None) -> Any:
    """A client of the scheduler there; without keys of one's own, with those of Dask's configuration."""
    import warnings

    from distributed import Client

    if address.startswith("tls://"):
        _check_keys(address, security)
    try:
        _check_answer(address, timeout, security)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # versions: compared by check_versions, which does not stop at a warning
            return Client(address, timeout=timeout, set_as_default=False, security=security)
    except (OSError, TimeoutError, ValueError, TypeError, RuntimeError) as error:
        why = " ".join(str(error).split())[:160] or type(error).__name__
        what = f"no scheduler answers at {address} within {timeout:.0f} s ({why})"
        keys = ", the keys" if address.startswith("tls://") else ""
        raise fail(
            "Dask", what, f"check the address{keys} and that it is running (dask scheduler), or use Dask() for this machine"
        ) from None


def _check_answer(address: str, timeout: float, security: Any) -> None:
    """Refuse a port where somebody listens and does not answer as Dask does: its client would wait for ever."""
    import asyncio
    import queue

    from dask import config
    from distributed.comm.core import connect as call
    from distributed.security import Security

    if config.get("distributed.client.security-loader", None) or not isinstance(security, Security | None):
        return
    keys = (security or Security()).get_connection_args("client")
    ended: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()

    async def visit() -> None:
        try:
            async with asyncio.timeout(timeout):
                comm = await call(address, timeout=timeout, **keys)
            ended.put(None)
            await comm.close()
        except Exception as error:
            ended.put(error)

    # in a thread: there may be an event loop in this one; nobody waits for a name that is still being looked up
    threading.Thread(target=lambda: asyncio.run(visit()), daemon=True).start()
    error = ended.get()
    if error is not None:
        raise error


def _check_keys(address: str, security: Any) -> None:
    """Refuse an address that wants keys where there are none: Dask's client would say so only as it is thrown away."""
    from dask import config
    from distributed.security import Security

    if security is None and config.get("distributed.client.security-loader", None):
        return
    try:
        what = "none is given" if (security or Security()).get_connection_args("client")["ssl_context"] is None else ""
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        what = f"those that are given cannot be used ({' '.join(str(error).split())[:160]})"
    if what:
        do = "name them in Dask's configuration, under distributed.comm.tls"
        raise fail("Dask", f"the scheduler at {address} wants keys, and {what}", do)


def page(client: Any) -> str | None:
    """Address of the scheduler's page, if it has one (without bokeh it has none)."""
    import urllib.request

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
