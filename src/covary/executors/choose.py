"""Executors: ``Serial`` runs work in this process, ``Dask`` on the cores of this machine or on a cluster.

Both keep data where they are used (``hold``) and apply a function to each piece (``map``). Results are returned in the order
of the pieces and do not depend on scheduling.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from numbers import Integral, Real
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVarTuple, cast

from covary._arguments import explained
from covary._checks import fail
from covary._errors import Option
from covary.executors.checkpoint import Store
from covary.executors.library import Client
from covary.executors.pieces import Handles, Held, I, Note, Pieces, R, T

if TYPE_CHECKING:
    from distributed.security import Security

    from covary.executors.cluster import Embedded

Common = TypeVarTuple("Common")


class Executor(Protocol):
    """The interface of executors, and the base class of :class:`Serial` and :class:`Dask`."""

    @property
    def workers(self) -> int:
        """Number of pieces processed concurrently."""
        ...

    def hold(self, load: Callable[[I], T], items: Sequence[I]) -> list[Held[I, T]]:
        """Return one handle per item; ``load(item)`` is evaluated on first use, where the work is done, and kept there."""
        return [Held(load, item) for item in items]

    def map(
        self,
        function: Callable[[T, *Common], R],
        handles: Handles[I, T],
        *common: *Common,
        note: Note | None = None,
        keep: Store | None = None,
        keys: Sequence[str] | None = None,
    ) -> list[R]:
        """Return ``[function(data, *common) for each handle]``; see :meth:`Serial.map`."""
        ...

    def release(self, handles: Handles[I, T]) -> None:
        """Release the data of these handles, wherever they are."""
        for handle in handles:
            if isinstance(handle, Held):
                handle.forget()

    def close(self) -> None:
        """Stop everything that was started."""
        ...


class Settings(NamedTuple):
    """The settings of a :class:`Dask` executor, without its address."""

    workers: int | None = None
    memory: int | str | None = None
    timeout: float = 30.0
    security: Security | None = None


class Serial(Executor):
    """Sequential execution in this process.

    Suitable for small problems and for debugging. It is also the reference for other executors, which give bit-identical
    results (with the same number of XLA threads).

    Examples
    --------
    >>> with Serial() as executor:
    ...     rows = executor.hold(range, [2, 3])
    ...     executor.map(sum, rows)
    [1, 3]
    """

    dashboard = None

    @property
    def workers(self) -> int:
        """One."""
        return 1

    def map(
        self,
        function: Callable[[T, *Common], R],
        handles: Handles[I, T],
        *common: *Common,
        note: Note | None = None,
        keep: Store | None = None,
        keys: Sequence[str] | None = None,
    ) -> list[R]:
        """Return ``[function(data, *common) for each handle]``; handles can be plain values.

        Parameters
        ----------
        function
            The function to apply to each piece of data.
        handles
            From :meth:`hold`, or the data themselves.
        common
            Arguments shared by all calls.
        note
            Called with (finished, total) after each piece. If it returns False, unfinished pieces are skipped and their
            results are None.
        keep, keys
            A store and one key per handle. Stored results are not recomputed, and new ones are stored immediately.
        """
        pieces: Pieces[I, T, R] = Pieces(handles, note, keep, keys)
        for i in pieces.left:
            handle = pieces.handles[i]
            data = cast("T", handle.here() if isinstance(handle, Held) else handle)
            pieces.finish(i, function(data, *common))
            if pieces.enough:
                break
        return pieces.results

    def close(self) -> None:
        """Do nothing."""

    def __enter__(self) -> Serial:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return "Serial()"


class Dask(Executor):
    """Parallel execution on all cores of this machine, or on a Dask cluster.

    Nothing is started before the first use. If a worker dies, its data are loaded and its work is repeated elsewhere. A piece
    that kills its worker repeatedly raises an error.

    Parameters
    ----------
    address
        Address of a scheduler (``"tcp://host:8786"``); None starts worker processes on this machine.
    workers
        Number of workers to start, with one thread each; by default one per core.
    memory
        Memory limit per worker: bytes, or text such as ``"4GiB"``; by default an equal share of the free memory.
    timeout
        Seconds to wait for a response from the scheduler, and for workers if there are none or all have died, before an
        error is raised. Workers on this machine are restarted, which may take up to a minute.
    security
        Keys for a scheduler at ``tls://``: Dask's ``distributed.security.Security``. By default those of Dask's configuration.

    Examples
    --------
    >>> executor = Dask(workers=2)
    >>> executor
    Dask(workers=2)
    >>> executor.close()  # nothing was started
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        memory: int | str | None = None,
        timeout: float = 30.0,
        security: Security | None = None,
    ) -> None:
        if address is None and security is not None:
            what = "security was given without an address"
            raise fail("Dask", what, "leave it out: workers on this machine use their own keys")
        if address is not None and (workers is not None or memory is not None):
            what = "an address was given with workers or memory"
            raise fail("Dask", what, "leave them out: they are set where the workers are started")
        if workers is not None and (isinstance(workers, bool) or not isinstance(workers, Integral) or workers < 1):
            raise fail("Dask", Option("workers") + f" is {workers!r}", "give a positive integer")
        if not isinstance(timeout, Real) or not timeout > 0:
            raise fail("Dask", f"timeout is {timeout!r}", "give a positive number of seconds", argument="timeout")
        self._settings = Settings(None if workers is None else int(workers), memory, timeout, security)
        self._address, self._timeout = address, float(timeout)
        self._lock = threading.RLock()
        self._client: Client | None = None
        self._cluster: Embedded | None = None

    # connection -----------------------------------------------------------------------------------------------------
    @property
    def workers(self) -> int:
        """Current number of worker threads (connects to the scheduler if an address was given); before workers are started
        on this machine, the number to start."""
        if self._client is None and self._address is None:
            return self._settings.workers or _dask("cluster").cores()
        return sum(self._open().nthreads().values())

    @property
    def dashboard(self) -> str | None:
        """Address of the scheduler's dashboard, if connected and available; None for workers on this machine."""
        return None if self._client is None or self._cluster is not None else _dask("cluster").page(self._client)

    def _open(self) -> Client:
        """Return the connected client; on first use, start or find the workers and compare versions."""
        with self._lock:
            if self._client is None:
                try:
                    return self._start()
                except BaseException:
                    self.close()
                    raise
            return self._client

    def _start(self) -> Client:
        if self._address is None:
            count = self._settings.workers or _dask("cluster").cores()
            self._cluster = _dask("cluster").Embedded(count, self._settings.memory)
        address, security = self._address, self._settings.security
        if self._cluster is not None:
            address, security = self._cluster.address, self._cluster.security
        self._client = client = cast("Client", _dask("cluster").connect(address, self._timeout, security))
        self._end = weakref.finalize(self, _quietly, client.close)
        _started().add(self)
        if self._cluster is not None:
            self._cluster.wait(client, self._timeout)
        else:
            self._wait_for_one(client)
        _dask("cluster").check_versions(client)
        return client

    def _wait_for_one(self, client: Client) -> None:
        """Wait for a worker, with one queued task so that an adaptive cluster scales up."""
        if client.nthreads():
            return
        until = time.monotonic() + self._timeout
        asked = client.submit(len, (), key=f"covary-{uuid.uuid4().hex}")
        while not client.nthreads():
            if time.monotonic() > until:
                raise _dask("dealing").nobody(client, self._timeout)
            time.sleep(0.1)
        asked.release()

    # work -----------------------------------------------------------------------------------------------------------
    def map(
        self,
        function: Callable[[T, *Common], R],
        handles: Handles[I, T],
        *common: *Common,
        note: Note | None = None,
        keep: Store | None = None,
        keys: Sequence[str] | None = None,
    ) -> list[R]:
        """Return ``[function(data, *common) for each handle]``, computed in parallel; see :meth:`Serial.map`."""
        pieces: Pieces[I, T, R] = Pieces(handles, note, keep, keys)
        if pieces.left:
            run = _dask("dealing").Run(self._open(), pieces, function, common, timeout=self._timeout, embedded=self._cluster)
            try:
                run.all()
            finally:
                run.cancel()
        return pieces.results

    def close(self) -> None:
        """Disconnect, and stop the workers that were started here. The executor restarts on its next use."""
        with self._lock:
            client, cluster, self._client, self._cluster = self._client, self._cluster, None, None
            if client is not None:
                _quietly(client.close)
            if cluster is not None:
                cluster.close()

    def _forget(self) -> None:
        """Drop references to workers and their threads in a forked copy of this process; they belong to the original."""
        if self._client is not None:
            self._end.detach()
            self._client.status = "closed"
        if self._cluster is not None:
            self._cluster.forget()
        _left.append((self._client, self._cluster))  # garbage collection would close them
        self._client, self._cluster, self._lock = None, None, threading.RLock()

    def __enter__(self) -> Dask:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        shown = self._settings._asdict().items()
        given = {k: v for k, v in shown if v is not None and k != "security" and (k, v) != ("timeout", 30.0)}
        parts = ([repr(self._address)] if self._address else []) + [f"{k}={v!r}" for k, v in given.items()]
        return f"Dask({', '.join(parts)})"

    def __deepcopy__(self, memo: dict[int, Dask]) -> Dask:
        return self  # copies of an estimator share its workers

    def __reduce__(self) -> tuple[Callable[[str | None, Settings], Dask], tuple[str | None, Settings]]:
        return _again, (self._address, self._settings)


# small parts -----------------------------------------------------------------------------------------------------
def _dask(room: str) -> ModuleType:
    """Import a module that requires Dask; raise an error if Dask is not installed."""
    try:
        import cloudpickle  # noqa: F401
        import distributed  # noqa: F401
    except ImportError:
        do = "run pip install 'covary[dask]', or use " + Option("executor", "Serial()")
        raise fail("Dask", "dask.distributed is not installed", do) from None
    return importlib.import_module(f"covary.executors.{room}")


def _quietly(close: Callable[[], None]) -> None:
    with contextlib.suppress(Exception):
        close()


@cache
def _started() -> weakref.WeakSet[Dask]:
    """Return the executors to close at exit, before Dask's own cleanup, which warns about open clients."""
    found: weakref.WeakSet[Dask] = weakref.WeakSet()
    atexit.register(lambda: [executor.close() for executor in list(found)])
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _forget_all(found))
    return found


def _forget_all(started: weakref.WeakSet[Dask]) -> None:
    """Reset executors in a forked copy of this process, whose threads exist only in the original."""
    from concurrent.futures import ThreadPoolExecutor

    from distributed import utils

    utils._offload_executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="Dask-Offload")
    for executor in list(started):
        executor._forget()


_left: list[tuple[Client | None, Embedded | None]] = []


def _again(address: str | None, settings: Settings) -> Dask:
    return Dask(address, **settings._asdict())


_shared: dict[str, Dask] = {}


def as_executor(value: Executor | str | None) -> Executor:
    """Return an executor, given None, ``"serial"``, ``"dask"``, the address of a scheduler, or an executor.

    The same text returns the same executor, so that workers are reused; they end with this process.

    Examples
    --------
    >>> as_executor(None)
    Serial()
    >>> as_executor("tcp://10.0.0.1:8786")
    Dask('tcp://10.0.0.1:8786')
    """
    if value is None or value == "serial":
        return Serial()
    if isinstance(value, str) and (value == "dask" or "://" in value):
        return _shared.setdefault(value, Dask() if value == "dask" else Dask(value))
    if not isinstance(value, str) and all(callable(getattr(value, name, None)) for name in ("hold", "map", "release", "close")):
        return value
    what = f"{value!r} is not an executor"
    raise fail("executor", what, "give None, 'dask', a scheduler's address such as 'tcp://host:8786', or an executor")


explained(Dask, "Dask")
