"""A Dask cluster on this machine without any setup, connections to schedulers, and checks of the versions on workers.

The scheduler runs in this process and the workers in separate ones, started by a command, so that scripts need no
``if __name__ == "__main__"``. They always end with this process, even if it is killed. They listen only on the loopback
interface, and accept only connections with the keys generated for this run.
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
from typing import TYPE_CHECKING, cast

from covary._checks import CovaryError, fail
from covary._errors import Option
from covary._memory import free_memory
from covary._scratch import Scratch
from covary._words import counted
from covary.executors import library
from covary.executors.keepers import LOOPBACK

if TYPE_CHECKING:
    from distributed import LocalCluster
    from distributed.security import Security

SHARE = 0.9  # of the free memory, for all workers together
LITTLE = 2**28  # bytes: no worker can start with less
ONE = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NPROC",
)  # the last is for XLA
KEPT = {"MALLOC_TRIM_THRESHOLD_": 2**28, "MALLOC_MMAP_THRESHOLD_": 2**25}  # bytes
# By default, Dask's workers release freed memory immediately and reallocate every matrix: 1/3 slower for experts of 1000 rows
PACKAGES = ("covary", "jax", "numpy", "distributed")


def environment() -> dict[str, str]:
    """Return the environment of a worker: one thread for BLAS and XLA, and the JAX platform and cache of this process."""
    out = {**os.environ, **dict.fromkeys(ONE, "1")}
    given = [path for path in out.pop("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(path) and not is_current(path)]
    if given and not sys.flags.ignore_environment:  # without the current folder, which comes last
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
    """Return whether a path is the current folder."""
    try:
        return os.path.samefile(path, os.curdir)
    except OSError:
        return False


# The code of the supervisor process. Without -P, Python searches the current folder first; here the search path of this
# process comes after the installed packages, and workers run the same covary as this process.
BEGIN = """
import importlib.util, json, os, sys
told = json.loads(sys.argv[1])
sys.path += [path for path in told.pop("path") if path not in sys.path]
ours, found = told.pop("covary"), importlib.util.find_spec("covary")
if found is None or os.path.dirname(os.path.abspath(found.origin)) != ours:
    sys.path.insert(0, os.path.dirname(ours))
from covary.executors import library
from covary.executors.keepers import main
main(**told)
"""


def cores() -> int:
    """Return the number of cores available to this process."""
    from dask.system import CPU_COUNT

    return max(1, int(CPU_COUNT))


START = 120.0  # seconds allowed for worker processes on this machine to start
AGAIN = 60.0  # maximum seconds until the first worker has restarted after all have died
TRIES = 3  # maximum number of consecutive restarts of the supervisor without any worker


class Embedded:
    """A scheduler in this process, and worker processes with one thread each.

    Parameters
    ----------
    workers
        Number of workers.
    memory
        Memory limit per worker, in bytes or as text (``"4GiB"``); a worker that exceeds it is restarted. By default an
        equal share of nine tenths of the free memory.
    """

    def __init__(self, workers: int, memory: int | str | None = None) -> None:
        from dask import config
        from distributed import LocalCluster

        self.count, self.left, self.lock = workers, TRIES, threading.RLock()
        self.memory = int(SHARE * free_memory() / workers) if memory is None else _bytes(memory)
        self.scratch = Scratch("covary-dask-")
        self.keys = _keys(self.scratch.path)
        settings = {"distributed.scheduler.http.routes": [], "temporary-directory": str(self.scratch.path)}
        with config.set(settings):  # there is always an HTTP server; this one has no routes
            self.cluster = LocalCluster(
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
    def security(self) -> Security:
        """The keys in the format of Dask."""
        from distributed.security import Security

        return Security(require_encryption=True, **self.keys)

    def begin(self) -> None:
        """Start the supervisor process of the workers."""
        told = {"address": self.address, "workers": self.count, "memory": self.memory, "folder": str(self.scratch.path)}
        try:
            here = os.getcwd()
        except OSError:  # the folder was removed, so workers cannot start there
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
                    stdin=subprocess.PIPE,  # closes when this process ends, which stops the workers
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C is handled by this process only
                    pass_fds=(self.scratch.lifeline,),
                )
        except OSError as error:
            raise self.gone(f"could not be started: {error.strerror}") from None
        self.started.append(process)

    def tend(self, there: int) -> None:
        """Restart the workers if their supervisor was killed; raise an error if that fails repeatedly."""
        with self.lock:  # several threads may use these workers
            if there:
                self.left = TRIES
            code = self.started[-1].poll() if self.started else -1  # none: the last start failed
            if code is None:
                return
            self.left -= 1
            if code >= 0 or self.left < 0:
                raise self.gone("ended and could not be started again")
            self.begin()

    def wait(self, client: library.Client, timeout: float) -> None:
        """Wait for all workers; raise an error with their last output if they do not start in time."""
        timeout = max(START, timeout)
        until = time.monotonic() + timeout
        while (there := len(client.nthreads())) < self.count:
            self.tend(there)
            if time.monotonic() > until:
                raise self.gone(f"did not start within {timeout:.0f} s")
            time.sleep(0.05)

    def forget(self) -> None:
        """Close nothing in a forked copy of this process, which does not own the cluster."""
        from distributed.deploy.spec import SpecCluster

        SpecCluster._instances.discard(self.cluster)
        self.close.detach()

    def gone(self, what: str) -> CovaryError:
        """Return the error for missing workers, with their last output."""
        words = [""]
        with contextlib.suppress(OSError):
            words += self.log.read_text(errors="replace").strip().splitlines()
        what = f"its {counted(self.count, 'worker')} {what} ({words[-1][:200] or 'without output'})"
        return fail("Dask", what, "use fewer workers, or use " + Option("executor", "Serial()"))


def _keys(folder: Path) -> dict[str, str]:
    """Create a key and a certificate for this run, in files readable only by this user; return Dask's settings for them."""
    from distributed.security import Security

    try:
        made = Security.temporary()
    except ImportError:
        what = "cryptography, which generates the keys of workers on this machine, is not installed"
        raise fail("Dask", what, "run pip install 'covary[dask]', or use " + Option("executor", "Serial()")) from None
    files = {"key": made.tls_worker_key, "cert": made.tls_worker_cert}
    for name, content in files.items():
        with open(os.open(folder / f"{name}.pem", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(content)
    names = {f"tls_{who}_{name}": str(folder / f"{name}.pem") for who in ("client", "scheduler", "worker") for name in files}
    return {"tls_ca_file": str(folder / "cert.pem"), **names}


def _bytes(memory: int | str) -> int:
    """Return the memory limit of a worker in bytes."""
    from dask.utils import parse_bytes

    try:
        found = int(parse_bytes(memory))
    except (ValueError, TypeError):
        raise fail("Dask", f"memory is {memory!r}", "give bytes, or text such as '4GiB'", argument="memory") from None
    if found < LITTLE:
        what = f"memory is {memory!r}, less than Python and JAX need when idle"
        raise fail("Dask", what, "give every worker 512MiB or more", argument="memory")
    return found


def _end(
    cluster: LocalCluster, started: list[subprocess.Popen[bytes]], scratch: Scratch, quiet: contextlib.ExitStack, owner: int
) -> None:
    """Stop the workers, close the scheduler, and remove their folder."""
    if os.getpid() != owner:  # a forked copy of this process
        return
    _stop(started)
    with quiet, hush(), contextlib.suppress(Exception):
        cluster.close(timeout=5)
    scratch.close()


def _stop(started: list[subprocess.Popen[bytes]]) -> None:
    """Kill the supervisor processes with their workers, which have nothing to save."""
    while started:
        process = started.pop()
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@contextlib.contextmanager
def hush() -> Iterator[None]:
    """Silence Dask's loggers inside this block.

    A closing cluster re-enables them before its event loop has stopped, and even while another cluster runs; the loop would
    then report closed connections to the user.
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


def connect(address: str, timeout: float, security: Security | None = None) -> library.Client:
    """Return a client of the scheduler at an address, by default with the keys of Dask's configuration."""
    import warnings

    from distributed import Client

    if address.startswith("tls://"):
        _check_keys(address, security)
    try:
        _check_answer(address, timeout, security)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # version mismatches, for which check_versions raises an error
            found = Client(address, timeout=timeout, set_as_default=False, security=security)
            return cast("library.Client", found)
    except (OSError, TimeoutError, ValueError, TypeError, RuntimeError) as error:
        why = " ".join(str(error).split())[:160] or type(error).__name__
        what = f"no scheduler answers at {address} within {timeout:.0f} s ({why})"
        keys = ", the keys" if address.startswith("tls://") else ""
        do = f"check the address{keys} and that it is running (dask scheduler), or use " + Option("executor", "Dask()")
        raise fail("Dask", what, do + " for this machine") from None


def _check_answer(address: str, timeout: float, security: Security | None) -> None:
    """Raise an error for a port that does not respond as a Dask scheduler; its client would wait forever."""
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

    # in a thread, since this one may have an event loop; a daemon, so that a slow name lookup does not delay the exit
    threading.Thread(target=lambda: asyncio.run(visit()), daemon=True).start()
    error = ended.get()
    if error is not None:
        raise error


def _check_keys(address: str, security: Security | None) -> None:
    """Raise an error for an address that requires keys if there are none; Dask's client would report it only on deletion."""
    from dask import config
    from distributed.security import Security

    if security is None and config.get("distributed.client.security-loader", None):
        return
    try:
        what = "none is given" if (security or Security()).get_connection_args("client")["ssl_context"] is None else ""
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        what = f"those given cannot be used ({' '.join(str(error).split())[:160]})"
    if what:
        do = "name them in Dask's configuration, under distributed.comm.tls"
        raise fail("Dask", f"the scheduler at {address} requires keys, and {what}", do)


def page(client: library.Client) -> str | None:
    """Return the address of the scheduler's dashboard, or None without one (it requires bokeh)."""
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
    """Return the versions of Python and of imported packages, as workers report theirs; metadata of packages may differ."""
    import importlib

    found = {name: str(importlib.import_module(name).__version__) for name in PACKAGES}
    return {"python": "{}.{}".format(*sys.version_info), **found}


def check_versions(client: library.Client) -> None:
    """Raise an error if workers run different versions of Python, covary, JAX, NumPy or Dask."""
    packages = PACKAGES

    def installed() -> dict[str, str]:  # pickled by value: workers need not have covary
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
    found: dict[str, dict[str, str] | Exception] = {w: {"python": p} for w, p in python.items()}
    if set(python.values()) <= {versions()["python"]}:  # otherwise functions pickled by value cannot be loaded
        told = client.run(installed, on_error="return")
        found = {w: v for w, v in told.items() if not isinstance(v, OSError)}  # workers that have left are ignored
    wrong = {w: differences(v if isinstance(v, dict) else {}) for w, v in found.items()}
    wrong = {w: names for w, names in wrong.items() if names}
    if wrong:
        worker, names = sorted(wrong.items())[0]
        has = found[worker]
        theirs, ours = listed(names, has if isinstance(has, dict) else {}), listed(names, versions())
        count = f"{len(wrong)} of {len(found)} workers differ" if len(found) > 1 else "the only worker differs"
        raise fail("Dask", f"the worker {worker} has {theirs}, this process has {ours} ({count})", SAME)


def listed(names: list[str], found: dict[str, str]) -> str:
    """Return the text for packages with their versions."""
    return " and ".join(f"no {name}" if found.get(name, "none") == "none" else f"{name} {found[name]}" for name in names)


SAME = "install the same versions everywhere, then start the workers again"


def differences(theirs: dict[str, str]) -> list[str]:
    """Return the names of packages with a different version in this process."""
    if not theirs:
        return ["covary"]
    return [name for name, version in versions().items() if name in theirs and theirs[name] != version]


def check_here(theirs: dict[str, str]) -> None:
    """Raise an error, on a worker, for work from a process with other versions (for workers that joined later)."""
    if theirs != versions():
        names = differences(theirs) or ["covary"]
        what = f"a worker that joined later has {listed(names, versions())}, this process has {listed(names, theirs)}"
        raise fail("Dask", what, SAME)
