"""How one call of ``map`` is dealt out to the workers of a Dask cluster, and what is said when it cannot be finished."""

from __future__ import annotations

import contextlib
import queue
import time
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

from covary._checks import CovaryError, fail
from covary._cluster import check_here, versions
from covary._pieces import Held, Pieces
from covary._words import counted

SMALL = 64 * 1024  # bytes of what all tasks of a call share, up to which each carries its own copy
LOOK = 1.0  # seconds between looks at who is there


class Run:
    """One call of ``map``: every worker has one piece more than it has threads, and gets the next when it has finished one.

    Pieces go where their data are; a worker without any takes over what waits for another. What is not yet handed out cannot
    come under suspicion when a worker dies, and need not be cancelled.
    """

    def __init__(
        self, client: Any, pieces: Pieces, function: Callable[..., Any], common: tuple[Any, ...], *, timeout: float
    ) -> None:
        import cloudpickle

        self.client, self.pieces, self.timeout, self.address = client, pieces, timeout, client.scheduler.address
        self.name, self.token = getattr(function, "__name__", "work"), uuid.uuid4().hex
        self.here = versions()
        self.shared: Any = cloudpickle.dumps((function, common))
        if len(self.shared) > SMALL:  # a task, not scattered data: what a dead worker had of it is made again
            self.shared = self._submit(_same, self.shared, key=f"common-{self.token}")
        self.finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.out: dict[Any, tuple[int, str, Any]] = {}  # by key: piece, worker, future; in the order they were handed out
        self.coming: dict[Any, int] = {}  # by key: finished pieces whose results are being fetched
        self.threads: dict[str, int] = {}
        self.waiting: dict[str, deque[int]] = {}
        self.seen = self.progress = self.looked = time.monotonic()

    def all(self) -> None:
        """Until every piece is finished, or no more are wanted."""
        loose = list(self.pieces.left)
        self.look(loose)
        while not self.pieces.enough and (self.out or loose or any(self.waiting.values())):
            self.take()
            if time.monotonic() - self.looked > LOOK:
                self.look(loose)

    def look(self, loose: list[int]) -> None:
        """See who is there; deal out pieces that have no worker; refuse to wait for ever."""
        self.looked = time.monotonic()
        if self.client.status in ("closed", "closing"):
            raise self.lost()
        try:
            self.threads = self.client.nthreads()
        except OSError:
            raise self.lost() from None
        for gone in self.waiting.keys() - self.threads.keys():
            loose.extend(self.waiting.pop(gone))
        if self.threads:
            self.seen = self.looked
        elif self.looked - self.seen > self.timeout:
            raise nobody(self.client, self.timeout, self.pieces)
        else:
            return
        for worker in self.threads:
            self.waiting.setdefault(worker, deque())
        for i in sorted(loose):
            handle = self.pieces.handles[i]
            home = handle.home if isinstance(handle, Held) and handle.client is self.client else None
            if home not in self.waiting:
                home = min(self.waiting, key=lambda w: len(self.waiting[w]) / self.threads[w])
            self.waiting[home].append(i)
        loose.clear()
        for worker in self.threads:
            self.feed(worker)
        if self.looked - self.progress > self.timeout:
            self.check_paused()

    def feed(self, worker: str) -> None:
        """Give a worker what it has room for: its own pieces first, then the last of whoever has most waiting."""
        room = self.threads.get(worker, 0) + 1 - sum(1 for _, w, _ in self.out.values() if w == worker)
        while worker in self.threads and room > 0:
            if not self.waiting[worker]:
                other = max(self.waiting, key=lambda w: len(self.waiting[w]))
                if not self.waiting[other]:
                    return
                i = self.waiting[other].pop()
            else:
                i = self.waiting[worker].popleft()
            self.give(i, worker)
            room -= 1

    def give(self, i: int, worker: str) -> None:
        """Hand out one piece."""
        import cloudpickle

        handle = self.pieces.handles[i]
        if not isinstance(handle, Held):
            data: Any = cloudpickle.dumps(handle)
        else:
            if handle.future is None or handle.client is not self.client:
                what = cloudpickle.dumps((handle.load, handle.item))
                key = f"{getattr(handle.load, '__name__', 'load')}-{uuid.uuid4().hex}"
                handle.future = self._submit(_load, self.here, what, key=key, worker=worker)
                handle.home, handle.client = worker, self.client
            data = handle.future
        key = f"{self.name}-{self.token}-{i}"
        future = self._submit(_call, self.here, self.shared, data, isinstance(handle, Held), key=key, worker=worker)
        self.out[future.key] = i, worker, future
        future.add_done_callback(self.finished.put)

    def _submit(self, function: Callable[..., Any], *arguments: Any, key: str, worker: str | None = None) -> Any:
        from dask import config

        where = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
        with config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self.client.submit(function, *arguments, key=key, pure=False, **where)

    def take(self) -> None:
        """Wait a moment for a piece to be finished; write it down, and give its worker the next."""
        from distributed import CancelledError, KilledWorker

        try:
            arrived = [self.finished.get(timeout=LOOK)]
        except queue.Empty:
            return
        while not self.finished.empty():
            arrived.append(self.finished.get())
        for future in arrived:  # first of all, so that no worker waits while results are fetched
            i, worker, _ = self.out[future.key]
            if future.status == "finished":
                self.coming[future.key] = i
                del self.out[future.key]
                self.feed(worker)
        for future in arrived:
            i = self.coming[future.key] if future.key in self.coming else self.out[future.key][0]
            try:
                result = future.result(timeout=max(10.0, self.timeout))
            except KilledWorker as error:
                raise self.killed(error, i) from None
            except CancelledError:
                raise self.lost() from None
            except TimeoutError:
                if future.status == "error":  # the function's own
                    raise
                self.out[future.key] = i, "", future  # its worker died with it; it is being computed again
                self.finished.put(future)
                continue
            finally:
                self.coming.pop(future.key, None)
            self.out.pop(future.key, None)
            self.pieces.finish(i, result)
            self.progress = time.monotonic()

    def killed(self, error: Any, i: int) -> CovaryError:
        """The sentence for a piece that ended its workers: of those lost together the one handed out first was being done."""
        from distributed import KilledWorker

        for j, _, future in self.out.values():
            if future.status == "error" and isinstance(future.exception(), KilledWorker):
                i = j
                break
        limit = getattr(error.last_worker, "memory_limit", 0)
        size = f", which may use {limit / 2**30:,.1f} GiB" if limit else ""
        what = (
            f"{self.pieces.name(i)} ended its worker {counted(error.allowed_failures + 1, 'time')} (the last was "
            f"{error.last_worker.address}{size}): most likely it ran out of memory"
        )
        return fail("Dask", what, "use more experts, so that each has fewer rows, or larger workers" + self.pieces.kept())

    def lost(self) -> CovaryError:
        """The sentence for a scheduler that went away."""
        what = f"the scheduler at {self.address} went away while it was at work"
        return fail("Dask", what, "start it again and repeat the call" + self.pieces.kept())

    def check_paused(self) -> None:
        """Refuse to wait for workers all of which have stopped taking work for want of memory."""
        workers = self.client.scheduler_info().get("workers", {}).values()
        busy = any(w.get("metrics", {}).get("task_counts", {}).get("executing", 0) for w in workers)
        if workers and not busy and all(w.get("status") == "paused" for w in workers):
            count = counted(len(workers), "worker has", "workers have")
            what = f"{count} paused and none is left: what they hold takes most of the memory they may use"
            raise fail("Dask", what, "use more or larger workers" + self.pieces.kept())

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
