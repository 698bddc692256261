"""Executors: where work is done. ``Serial`` in this process, ``Dask`` on the cores of this machine or on a cluster.

Both hold data where the work is (``hold``) and apply a function to each piece (``map``). Results come back in the order of
the pieces, whoever computed them and when: an answer does not depend on scheduling.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from numbers import Integral, Real
from typing import Any

from covary._arguments import explained
from covary._checks import fail
from covary._pieces import Held, Note, Pieces


class Serial:
    """One after another in this process.

    Good for small problems, for debugging, and as what other executors must agree with to the last bit (with as many threads
    of XLA).

    Examples
    --------
    >>> with Serial() as executor:
    ...     rows = executor.hold(range, [2, 3])
    ...     executor.map(sum, rows)
    [1, 3]
    """

    workers = 1
    dashboard = None

    def hold(self, load: Callable[[Any], Any], items: Sequence[Any]) -> list[Held]:
        """One handle per item; ``load(item)`` is evaluated when it is used first, and kept."""
        return [Held(load, item) for item in items]

    def map(
        self,
        function: Callable[..., Any],
        handles: Sequence[Any],
        *common: Any,
        note: Note | None = None,
        keep: Any = None,
        keys: Sequence[str] | None = None,
    ) -> list[Any]:
        """``[function(data, *common) for each handle]``; plain values will do for handles.

        Parameters
        ----------
        function
            What is done with each piece of data.
        handles
            From :meth:`hold`, or the data themselves.
        common
            What is the same for all of them.
        note
            Called with (finished, in all) after each. If it returns False, what is not finished is left, as None.
        keep, keys
            A ledger and one key for each handle: what the ledger has is not computed again, what is finished is put there
            at once.
        """
        pieces = Pieces(handles, note, keep, keys)
        for i in pieces.left:
            handle = pieces.handles[i]
            pieces.finish(i, function(handle.here() if isinstance(handle, Held) else handle, *common))
            if pieces.enough:
                break
        return pieces.results

    def release(self, handles: Sequence[Any]) -> None:
        """Give back the data of these handles."""
        for handle in handles:
            if isinstance(handle, Held):
                handle.forget()

    def close(self) -> None:
        """Nothing to close."""

    def __enter__(self) -> Serial:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return "Serial()"


class Dask:
    """On all cores of this machine, or on a Dask cluster.

    Nothing starts before the first work. A worker that dies is replaced: what it held is loaded again and what it was doing is
    done again elsewhere. A piece that ends its worker again and again is named in an error.

    Parameters
    ----------
    address
        Of a scheduler (``"tcp://host:8786"``); None starts worker processes on this machine.
    workers
        How many to start, with one thread each; by default one per core.
    memory
        What each of them may use: bytes, or text such as ``"4GiB"``; by default an equal share of what is free.
    timeout
        Seconds to wait for a scheduler to answer, and for its workers where there are none or all have died; then an error
        says so. Workers of this machine that died are started again, for which they have a minute.
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
        security: Any = None,
    ) -> None:
        if address is None and security is not None:
            raise fail("Dask", "security was given without an address", "leave it out: workers of this machine have their own")
        if address is not None and (workers is not None or memory is not None):
            raise fail("Dask", "an address was given with workers or memory", "leave these to whoever starts the workers there")
        if workers is not None and (isinstance(workers, bool) or not isinstance(workers, Integral) or workers < 1):
            raise fail("Dask", f"workers is {workers!r}", "give a whole number, one or more")
        if not isinstance(timeout, Real) or not timeout > 0:
            raise fail("Dask", f"timeout is {timeout!r}", "give a positive number of seconds")
        self._settings: dict[str, Any] = {"workers": None if workers is None else int(workers), "memory": memory}
        self._settings |= {"timeout": timeout, "security": security}
        self._address, self._timeout = address, float(timeout)
        self._lock = threading.RLock()
        self._client: Any = None
        self._cluster: Any = None

    # what is there ------------------------------------------------------------------------------------------------
    @property
    def workers(self) -> int:
        """How many threads of workers there are now (connects to a scheduler whose address was given); before the start on this
        machine, how many there will be."""
        if self._client is None and self._address is None:
            return self._settings["workers"] or _dask("_cluster").cores()
        return sum(self._open().nthreads().values())

    @property
    def dashboard(self) -> str | None:
        """Address of the scheduler's page, if it is connected and has one; workers of this machine have none."""
        return None if self._client is None or self._cluster is not None else _dask("_cluster").page(self._client)

    def _open(self) -> Any:
        """The client, connected; on first use this starts or finds the workers and compares versions."""
        with self._lock:
            if self._client is None:
                try:
                    self._start()
                except BaseException:
                    self.close()
                    raise
            return self._client

    def _start(self) -> None:
        if self._address is None:
            count = self._settings["workers"] or _dask("_cluster").cores()
            self._cluster = _dask("_cluster").Embedded(count, self._settings["memory"])
        address, security = self._address, self._settings["security"]
        if self._cluster is not None:
            address, security = self._cluster.address, self._cluster.security
        self._client = _dask("_cluster").connect(address, self._timeout, security)
        self._end = weakref.finalize(self, _quietly, self._client.close)
        _started().add(self)
        if self._cluster is not None:
            self._cluster.wait(self._client, self._timeout)
        else:
            self._wait_for_one()
        _dask("_cluster").check_versions(self._client)

    def _wait_for_one(self) -> None:
        """Until there is a worker; one task waits for it, so that a cluster that grows with its work does so."""
        if self._client.nthreads():
            return
        until = time.monotonic() + self._timeout
        asked = self._client.submit(len, (), key=f"covary-{uuid.uuid4().hex}")
        while not self._client.nthreads():
            if time.monotonic() > until:
                raise _dask("_dealing").nobody(self._client, self._timeout)
            time.sleep(0.1)
        asked.release()

    # work -----------------------------------------------------------------------------------------------------------
    def hold(self, load: Callable[[Any], Any], items: Sequence[Any]) -> list[Held]:
        """One handle per item; ``load(item)`` is evaluated on a worker when it is used first, and its result stays there."""
        return [Held(load, item) for item in items]

    def map(
        self,
        function: Callable[..., Any],
        handles: Sequence[Any],
        *common: Any,
        note: Note | None = None,
        keep: Any = None,
        keys: Sequence[str] | None = None,
    ) -> list[Any]:
        """``[function(data, *common) for each handle]``, side by side; see :meth:`Serial.map`."""
        pieces = Pieces(handles, note, keep, keys)
        if pieces.left:
            run = _dask("_dealing").Run(self._open(), pieces, function, common, timeout=self._timeout, embedded=self._cluster)
            try:
                run.all()
            finally:
                run.cancel()
        return pieces.results

    def release(self, handles: Sequence[Any]) -> None:
        """Give back the data of these handles, wherever they are."""
        for handle in handles:
            if isinstance(handle, Held):
                handle.forget()

    def close(self) -> None:
        """Disconnect, and end the workers that were started here. Used again, it starts again."""
        with self._lock:
            client, cluster, self._client, self._cluster = self._client, self._cluster, None, None
            if client is not None:
                _quietly(client.close)
            if cluster is not None:
                cluster.close()

    def _forget(self) -> None:
        """In a forked copy of this process: the workers, and the threads that talk to them, are those of the other one."""
        if self._client is not None:
            self._end.detach()
            self._client.status = "closed"
        if self._cluster is not None:
            self._cluster.forget()
        _left.append((self._client, self._cluster))  # what is collected would be closed
        self._client, self._cluster, self._lock = None, None, threading.RLock()

    def __enter__(self) -> Dask:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        given = {k: v for k, v in self._settings.items() if v is not None and k != "security" and (k, v) != ("timeout", 30.0)}
        parts = ([repr(self._address)] if self._address else []) + [f"{k}={v!r}" for k, v in given.items()]
        return f"Dask({', '.join(parts)})"

    def __deepcopy__(self, _: Any) -> Dask:
        return self  # copies of an estimator share its workers

    def __reduce__(self) -> Any:
        return _again, (self._address, self._settings)


# small parts -----------------------------------------------------------------------------------------------------
def _dask(room: str) -> Any:
    """A file that needs Dask; a sentence where that is not installed."""
    try:
        import cloudpickle  # noqa: F401
        import distributed  # noqa: F401
    except ImportError:
        raise fail("Dask", "dask.distributed is not installed", "run pip install 'covary[dask]', or use Serial()") from None
    from covary import _cluster, _dealing

    return {"_cluster": _cluster, "_dealing": _dealing}[room]


def _quietly(close: Callable[[], Any]) -> None:
    with contextlib.suppress(Exception):
        close()


@cache
def _started() -> weakref.WeakSet[Dask]:
    """Who is to be closed when this process ends: before Dask's own closing, which is noisy about clients left open."""
    found: weakref.WeakSet[Dask] = weakref.WeakSet()
    atexit.register(lambda: [executor.close() for executor in list(found)])
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _forget_all(found))
    return found


def _forget_all(started: weakref.WeakSet[Dask]) -> None:
    """In a forked copy of this process: nothing waits for threads that exist only in the original."""
    from concurrent.futures import ThreadPoolExecutor

    from distributed import utils

    utils._offload_executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="Dask-Offload")
    for executor in list(started):
        executor._forget()


_left: list[Any] = []


def _again(address: str | None, settings: dict[str, Any]) -> Dask:
    return Dask(address, **settings)


_shared: dict[str, Dask] = {}


def as_executor(value: Any) -> Serial | Dask:
    """An executor from what people write: None, ``"serial"``, ``"dask"``, the address of a scheduler, or an executor.

    The same text is the same executor, so that workers started once are used again; they end with this process.

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
    raise fail(
        "executor", f"{value!r} is none", "give None, 'dask', a scheduler's address such as 'tcp://host:8786', or an executor"
    )


explained(Dask, "Dask")
