"""The distribution of one call of ``map`` to the workers of a Dask cluster, and errors if it cannot be completed."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import queue
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar, TypeVarTuple

from covary._checks import CovaryError, fail
from covary._errors import Remedy
from covary._words import counted
from covary.executors.cluster import AGAIN, Embedded, check_here, versions
from covary.executors.library import Client, Future
from covary.executors.pieces import Held, I, Pieces, R, T

Common = TypeVarTuple("Common")
F = TypeVar("F")

SMALL = 64 * 1024  # bytes of shared arguments up to which every task carries its own copy
LOOK = 1.0  # seconds between checks of the workers
SILENT = 30.0  # minimum seconds to wait for a scheduler to list its workers
BUSY = ("executing", "long-running", "fetch", "flight", "resumed")  # task states in which a worker is active


class Run(Generic[I, T, R]):
    """One call of ``map``: every worker has one more piece than threads, and gets the next when one is finished.

    Pieces are sent to the worker that holds their data; an idle worker takes over pieces queued for another. Pieces that have
    not been submitted cannot have caused the death of a worker and need not be cancelled. The pieces of a dead worker are
    withdrawn and resubmitted under another key; Dask would keep them for the old address, forever without other workers.
    """

    def __init__(
        self,
        client: Client,
        pieces: Pieces[I, T, R],
        function: Callable[[T, *Common], R],
        common: tuple[*Common],
        *,
        timeout: float,
        embedded: Embedded | None = None,
    ) -> None:
        import cloudpickle
        from dask import config

        self.client, self.pieces, self.timeout, self.address = client, pieces, timeout, client.scheduler.address
        self.embedded = embedded
        self.name, self.token = getattr(function, "__name__", "work"), uuid.uuid4().hex
        self.here = versions()
        shared: bytes = cloudpickle.dumps((function, common))
        large = len(shared) > SMALL  # as a task, not scattered data, so that it is recomputed if a worker dies
        self.shared: bytes | Future[bytes] = self._submit(_same, shared, key=f"common-{self.token}") if large else shared
        self.finished: queue.SimpleQueue[Future[R]] = queue.SimpleQueue()
        self.out: dict[str, tuple[int, str, Future[R]]] = {}  # by key: piece, worker, future; in order of submission
        self.handed = 0
        self.loose = list(pieces.left)  # pieces not assigned to any worker
        self.threads: dict[str, int] = {}  # threads of the connected workers
        self.waiting: dict[str, deque[int]] = {}  # by running worker: its queued pieces
        self.deaths: Counter[int] = Counter()  # by piece: number of workers that died while processing it
        self.allowed = int(config.get("distributed.scheduler.allowed-failures"))
        self.stalled = 0
        self.seen = self.progress = self.looked = time.monotonic()

    def all(self) -> None:
        """Run until every piece is finished, or ``note`` stops the call."""
        self.look()
        while not self.pieces.enough and (self.out or self.loose or any(self.waiting.values())):
            self.take()
            if time.monotonic() - self.looked > LOOK:
                self.look()

    def look(self) -> None:
        """Update the list of workers, assign pieces without a worker, and raise an error instead of waiting forever."""
        if self.client.status in ("closed", "closing"):
            raise self.lost()
        scheduler, patience = self.client.scheduler, max(SILENT, self.timeout)
        try:
            self.threads = self.client.sync(scheduler.ncores, callback_timeout=patience)
            running = self.client.sync(scheduler.ncores_running, callback_timeout=patience)
        except OSError:  # includes TimeoutError
            raise self.lost() from None
        self.looked = time.monotonic()
        if self.embedded is not None:
            self.embedded.tend(len(self.threads))
        for gone in self.waiting.keys() - running.keys():
            self.loose.extend(self.waiting.pop(gone))
        self.recall_from_the_dead()
        if self.threads:
            self.seen = self.looked
        else:
            self.check_nobody()
        for worker in running:
            self.waiting.setdefault(worker, deque())
        if self.waiting:
            self.deal()
        if self.looked - self.progress > self.timeout:
            self.check_idle()

    def deal(self) -> None:
        """Assign every unassigned piece to a worker, and submit pieces to all workers with free slots."""
        for i in sorted(self.loose):
            handle = self.pieces.handles[i]
            home = handle.home if isinstance(handle, Held) and handle.client is self.client else None
            if home not in self.waiting:
                home = min(self.waiting, key=lambda w: len(self.waiting[w]) / self.threads.get(w, 1))
            self.waiting[home].append(i)
        self.loose.clear()
        for worker in list(self.waiting):
            self.feed(worker)

    def recall_from_the_dead(self) -> None:
        """Withdraw the pieces of workers that are gone, and pieces that wait for data on these."""
        for key, (i, worker, future) in list(self.out.items()):
            if future.status != "pending":
                continue
            handle = self.pieces.handles[i]
            if worker not in self.threads:
                self.recall(key)
                self.deaths[i] += 1
                if self.deaths[i] > self.allowed:
                    raise self.killed(i, self.deaths[i], worker)
            elif isinstance(handle, Held) and handle.home not in self.threads:
                self.recall(key)

    def recall(self, key: str) -> None:
        """Withdraw one piece, to be resubmitted under another key."""
        i, _, future = self.out.pop(key)
        self.loose.append(i)
        with contextlib.suppress(Exception):
            self.client.cancel([future])

    def feed(self, worker: str) -> None:
        """Submit pieces for the free slots of a worker: its own first, then the last of the longest queue.

        A piece whose worker has died is only given to an idle worker, so that its next failure can be attributed to it.
        """
        theirs = [i for i, w, _ in self.out.values() if w == worker]
        while worker in self.waiting and len(theirs) <= self.threads.get(worker, 0) and not any(self.deaths[i] for i in theirs):
            mine = self.waiting[worker]
            line = mine or max(self.waiting.values(), key=len)
            if not line:
                return
            i = line[0] if line is mine else line[-1]
            if theirs and self.deaths[i]:
                return
            line.remove(i)
            self.give(i, worker)
            theirs.append(i)

    def give(self, i: int, worker: str) -> None:
        """Submit one piece to a worker."""
        import cloudpickle

        handle = self.pieces.handles[i]
        if not isinstance(handle, Held):
            data: bytes | Future[T] = cloudpickle.dumps(handle)
        else:
            if handle.future is None or handle.client is not self.client or handle.home not in self.threads:
                what = cloudpickle.dumps((handle.load, handle.item))
                key = f"{getattr(handle.load, '__name__', 'load')}-{uuid.uuid4().hex}"
                handle.future = self._submit(_load, self.here, what, key=key, worker=worker)
                handle.home, handle.client = worker, self.client
            data = handle.future
        self.handed += 1
        key = f"{self.name}-{self.token}-{i}-{self.handed}"
        future = self._submit(_call, self.here, self.shared, data, isinstance(handle, Held), key=key, worker=worker)
        self.out[future.key] = i, worker, future
        future.add_done_callback(self.finished.put)

    def _submit(self, function: Callable[..., F], *arguments: Any, key: str, worker: str | None = None) -> Future[F]:
        from dask import config

        where = {} if worker is None else {"workers": [worker]}
        with config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self.client.submit(function, *arguments, key=key, pure=False, **where)

    def take(self) -> None:
        """Wait briefly for finished pieces, record them, and submit the next ones to their workers."""
        from distributed import KilledWorker

        try:
            arrived = [self.finished.get(timeout=LOOK)]
        except queue.Empty:
            return
        while not self.finished.empty():
            arrived.append(self.finished.get())
        coming: list[tuple[int, str, Future[R]]] = []
        for future in arrived:  # done first, so that no worker waits while results are fetched
            if future.key in self.out:  # otherwise it has been withdrawn
                i, worker, _ = self.out.pop(future.key)
                coming.append((i, worker, future))
                if future.status == "finished":
                    self.feed(worker)
        for i, worker, future in coming:
            if future.status == "cancelled":
                raise self.lost()
            try:
                there = self.fetch(future, worker)
            except KilledWorker as error:
                raise self.killed(i, error.allowed_failures + 1, error.last_worker.address) from None
            if there is None:
                self.loose.append(i)
                continue
            self.pieces.finish(i, there[0])
            self.progress = time.monotonic()

    def fetch(self, future: Future[R], worker: str) -> tuple[R] | None:
        """Return the result in a tuple; None if its worker died before it was fetched."""
        if future.status == "error":
            return (future.result(),)  # raises the error of the function
        gathered = self.client.gather([future], asynchronous=True)
        coming = asyncio.run_coroutine_threadsafe(gathered, self.client.loop.asyncio_loop)
        while True:
            done, _ = concurrent.futures.wait([coming], LOOK)
            if done:
                try:
                    return (coming.result()[0],)
                except (asyncio.CancelledError, concurrent.futures.CancelledError):
                    raise self.lost() from None
            self.look()
            if future.status != "finished" or worker not in self.threads:
                with contextlib.suppress(Exception):
                    self.client.cancel([future])
                return None

    def killed(self, i: int, times: int, worker: str) -> CovaryError:
        """Return the error for a piece whose workers died repeatedly."""
        limit = 0 if self.embedded is None else self.embedded.memory
        with contextlib.suppress(Exception):
            limit = limit or max(w["memory_limit"] for w in self.client.scheduler_info()["workers"].values())
        size = f", which may use {limit / 2**30:,.1f} GiB" if limit else ""
        what = f"{self.pieces.name(i)} ended its worker {counted(times, 'time')} (the last was {worker}{size})"
        do = "use more experts, so that each has fewer rows, or larger workers"
        return fail("Dask", f"{what}: most likely it ran out of memory", do + self.pieces.kept())

    def lost(self) -> CovaryError:
        """Return the error for a lost scheduler."""
        what = f"the connection to the scheduler at {self.address} was lost during the computation"
        return fail("Dask", what, "start it again and repeat the call" + self.pieces.kept())

    def check_nobody(self) -> None:
        """Raise an error if there have been no workers for too long."""
        waited = self.looked - self.seen
        if self.embedded is None and waited > self.timeout:
            raise nobody(self.client, self.timeout, self.pieces)
        if self.embedded is not None and waited > AGAIN:
            raise self.embedded.gone(f"ended, and none restarted within {AGAIN:.0f} s")

    def check_idle(self) -> None:
        """Raise an error if all workers are paused for lack of memory; resubmit the pieces if workers are idle."""
        workers = self.client.scheduler_info().get("workers", {}).values()
        counts = [worker.get("metrics", {}).get("task_counts", {}) for worker in workers]
        if not self.out or any(count.get(state, 0) for count in counts for state in BUSY):
            return
        if workers and all(worker.get("status") == "paused" for worker in workers):
            count = counted(len(workers), "worker has", "workers have")
            what = f"{count} paused and none is running: their data take up most of their memory limit"
            raise fail("Dask", what, "use more or larger workers" + self.pieces.kept())
        self.stalled, self.progress = self.stalled + 1, self.looked
        if self.stalled > self.allowed:
            what = f"the scheduler at {self.address} assigns no work to {counted(len(workers), 'idle worker')}"
            raise fail("Dask", what, "start it again and repeat the call" + self.pieces.kept())
        for key, (i, _, _) in list(self.out.items()):
            handle = self.pieces.handles[i]
            if isinstance(handle, Held) and handle.future is not None and handle.future.status != "finished":
                handle.forget()
            self.recall(key)

    def cancel(self) -> None:
        """Cancel unfinished pieces, and forget data that could not be loaded."""
        for handle in self.pieces.handles:
            if isinstance(handle, Held) and handle.future is not None and handle.future.status in ("error", "cancelled"):
                handle.forget()
        with contextlib.suppress(Exception):
            if self.out:
                self.client.cancel([future for _, _, future in self.out.values()])


def nobody(client: Client, timeout: float, pieces: Pieces[I, T, R] | None = None) -> CovaryError:
    """Return the error for a cluster without workers."""
    what = f"the scheduler at {client.scheduler.address} has had no workers for {timeout:.0f} s"
    do = "start some (dask worker ADDRESS --nthreads 1)" + Remedy("wait longer", ", or raise timeout if they take longer")
    if pieces is None:
        return fail("Dask", what, do)
    return fail("Dask", what + f" ({pieces.done} of {len(pieces.handles)} pieces are finished)", do + pieces.kept())


# on the workers --------------------------------------------------------------------------------------------------
def _load(asking: dict[str, str], what: bytes) -> Any:
    import cloudpickle

    check_here(asking)
    load, item = cloudpickle.loads(what)
    return load(item)


def _call(asking: dict[str, str], shared: bytes, data: Any, held: bool) -> Any:
    import cloudpickle

    check_here(asking)
    function, common = cloudpickle.loads(shared)
    return function(data if held else cloudpickle.loads(data), *common)


def _same(value: bytes) -> bytes:
    return value
