"""How one call of ``map`` is dealt out to the workers of a Dask cluster, and what is said when it cannot be finished."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import queue
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from covary._checks import CovaryError, fail
from covary._cluster import AGAIN, check_here, versions
from covary._pieces import Held, Pieces
from covary._words import counted

SMALL = 64 * 1024  # bytes of what all tasks of a call share, up to which each carries its own copy
LOOK = 1.0  # seconds between looks at who is there
SILENT = 30.0  # seconds at least for a scheduler to say who is there
BUSY = ("executing", "long-running", "fetch", "flight", "resumed")  # states of a worker's tasks in which it does something


class Run:
    """One call of ``map``: every worker has one piece more than it has threads, and gets the next when it has finished one.

    Pieces go where their data are; a worker without any takes over what waits for another. What is not yet handed out cannot
    come under suspicion when a worker dies, and need not be cancelled. What a dead worker had is taken back and handed out
    again under another name: Dask would keep it for the address that is gone, for ever if no other worker was left.
    """

    def __init__(
        self,
        client: Any,
        pieces: Pieces,
        function: Callable[..., Any],
        common: tuple[Any, ...],
        *,
        timeout: float,
        embedded: Any = None,
    ) -> None:
        import cloudpickle
        from dask import config

        self.client, self.pieces, self.timeout, self.address = client, pieces, timeout, client.scheduler.address
        self.embedded = embedded
        self.name, self.token = getattr(function, "__name__", "work"), uuid.uuid4().hex
        self.here = versions()
        self.shared: Any = cloudpickle.dumps((function, common))
        if len(self.shared) > SMALL:  # a task, not scattered data: what a dead worker had of it is made again
            self.shared = self._submit(_same, self.shared, key=f"common-{self.token}")
        self.finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.out: dict[Any, tuple[int, str, Any]] = {}  # by key: piece, worker, future; in the order they were handed out
        self.handed = 0
        self.loose = list(pieces.left)  # pieces that no worker has
        self.threads: dict[str, int] = {}  # of the workers that are there
        self.waiting: dict[str, deque[int]] = {}  # by worker that takes work: pieces that it gets next
        self.deaths: Counter[int] = Counter()  # by piece: workers that died over it
        self.allowed = int(config.get("distributed.scheduler.allowed-failures"))
        self.stalled = 0
        self.seen = self.progress = self.looked = time.monotonic()

    def all(self) -> None:
        """Until every piece is finished, or no more are wanted."""
        self.look()
        while not self.pieces.enough and (self.out or self.loose or any(self.waiting.values())):
            self.take()
            if time.monotonic() - self.looked > LOOK:
                self.look()

    def look(self) -> None:
        """See who is there; deal out pieces that have no worker; refuse to wait for ever."""
        if self.client.status in ("closed", "closing"):
            raise self.lost()
        scheduler, patience = self.client.scheduler, max(SILENT, self.timeout)
        try:
            self.threads = self.client.sync(scheduler.ncores, callback_timeout=patience)
            running = self.client.sync(scheduler.ncores_running, callback_timeout=patience)
        except OSError:  # a TimeoutError is one as well
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
        """Give every piece that has no worker to one, and every worker what it has room for."""
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
        """Take back what workers had that are gone, and what waits for data that they had."""
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

    def recall(self, key: Any) -> None:
        """Take one piece back; it is handed out again under another name."""
        i, _, future = self.out.pop(key)
        self.loose.append(i)
        with contextlib.suppress(Exception):
            self.client.cancel([future])

    def feed(self, worker: str) -> None:
        """Give a worker what it has room for: its own pieces first, then the last of whoever has most waiting.

        A piece over which a worker has died is given to one that has nothing else, so that it alone is to blame the next time.
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
        """Hand out one piece."""
        import cloudpickle

        handle = self.pieces.handles[i]
        if not isinstance(handle, Held):
            data: Any = cloudpickle.dumps(handle)
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

    def _submit(self, function: Callable[..., Any], *arguments: Any, key: str, worker: str | None = None) -> Any:
        from dask import config

        where = {} if worker is None else {"workers": [worker]}
        with config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self.client.submit(function, *arguments, key=key, pure=False, **where)

    def take(self) -> None:
        """Wait a moment for a piece to be finished; write it down, and give its worker the next."""
        from distributed import KilledWorker

        try:
            arrived = [self.finished.get(timeout=LOOK)]
        except queue.Empty:
            return
        while not self.finished.empty():
            arrived.append(self.finished.get())
        coming: list[tuple[int, str, Any]] = []
        for future in arrived:  # first of all, so that no worker waits while results are fetched
            if future.key in self.out:  # else it was taken back meanwhile
                i, worker, _ = self.out.pop(future.key)
                coming.append((i, worker, future))
                if future.status == "finished":
                    self.feed(worker)
        for i, worker, future in coming:
            if future.status == "cancelled":
                raise self.lost()
            try:
                found, result = self.fetch(future, worker)
            except KilledWorker as error:
                raise self.killed(i, error.allowed_failures + 1, error.last_worker.address) from None
            if not found:
                self.loose.append(i)
                continue
            self.pieces.finish(i, result)
            self.progress = time.monotonic()

    def fetch(self, future: Any, worker: str) -> tuple[bool, Any]:
        """Whether a result has come, and the result; it has not if the worker that had it died first."""
        if future.status == "error":
            return True, future.result()  # raises what the function raised
        gathered = self.client.gather([future], asynchronous=True)
        coming = asyncio.run_coroutine_threadsafe(gathered, self.client.loop.asyncio_loop)
        while True:
            done, _ = concurrent.futures.wait([coming], LOOK)
            if done:
                try:
                    return True, coming.result()[0]
                except (asyncio.CancelledError, concurrent.futures.CancelledError):
                    raise self.lost() from None
            self.look()
            if future.status != "finished" or worker not in self.threads:
                with contextlib.suppress(Exception):
                    self.client.cancel([future])
                return False, None

    def killed(self, i: int, times: int, worker: str) -> CovaryError:
        """The sentence for a piece that ended its workers."""
        limit = 0 if self.embedded is None else self.embedded.memory
        with contextlib.suppress(Exception):
            limit = limit or max(w["memory_limit"] for w in self.client.scheduler_info()["workers"].values())
        size = f", which may use {limit / 2**30:,.1f} GiB" if limit else ""
        what = f"{self.pieces.name(i)} ended its worker {counted(times, 'time')} (the last was {worker}{size})"
        do = "use more experts, so that each has fewer rows, or larger workers"
        return fail("Dask", f"{what}: most likely it ran out of memory", do + self.pieces.kept())

    def lost(self) -> CovaryError:
        """The sentence for a scheduler that went away."""
        what = f"the scheduler at {self.address} went away while it was at work"
        return fail("Dask", what, "start it again and repeat the call" + self.pieces.kept())

    def check_nobody(self) -> None:
        """Refuse to wait for workers that do not come."""
        waited = self.looked - self.seen
        if self.embedded is None and waited > self.timeout:
            raise nobody(self.client, self.timeout, self.pieces)
        if self.embedded is not None and waited > AGAIN:
            raise self.embedded.gone(f"ended and none came back within {AGAIN:.0f} s")

    def check_idle(self) -> None:
        """Workers that are there and do nothing: if they have paused for want of memory, say so; else hand out again."""
        workers = self.client.scheduler_info().get("workers", {}).values()
        counts = [worker.get("metrics", {}).get("task_counts", {}) for worker in workers]
        if not self.out or any(count.get(state, 0) for count in counts for state in BUSY):
            return
        if workers and all(worker.get("status") == "paused" for worker in workers):
            count = counted(len(workers), "worker has", "workers have")
            what = f"{count} paused and none is left: what they hold takes most of the memory they may use"
            raise fail("Dask", what, "use more or larger workers" + self.pieces.kept())
        self.stalled, self.progress = self.stalled + 1, self.looked
        if self.stalled > self.allowed:
            what = f"the scheduler at {self.address} gives {counted(len(workers), 'idle worker')} nothing to do"
            raise fail("Dask", what, "start it again and repeat the call" + self.pieces.kept())
        for key, (i, _, _) in list(self.out.items()):
            handle = self.pieces.handles[i]
            if isinstance(handle, Held) and handle.future is not None and handle.future.status != "finished":
                handle.forget()
            self.recall(key)

    def cancel(self) -> None:
        """Take back what is not finished; forget data that could not be loaded."""
        for handle in self.pieces.handles:
            if isinstance(handle, Held) and handle.future is not None and handle.future.status in ("error", "cancelled"):
                handle.forget()
        with contextlib.suppress(Exception):
            if self.out:
                self.client.cancel([future for _, _, future in self.out.values()])


def nobody(client: Any, timeout: float, pieces: Pieces | None = None) -> CovaryError:
    """The sentence for a cluster without workers."""
    what = f"the scheduler at {client.scheduler.address} has had no workers for {timeout:.0f} s"
    do = "start some (dask worker ADDRESS --nthreads 1), or raise timeout if they take longer"
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
