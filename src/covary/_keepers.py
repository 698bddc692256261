"""The process that keeps the workers of this machine: it starts them, replaces those that die, and ends with whoever asked.

It is started by :class:`covary._cluster.Embedded` and imports nothing else of covary, so that it is there quickly.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import threading
from typing import Any

TRIES = 3  # starts of a worker that may fail in a row
LOOPBACK = "127.0.0.1"
SETTINGS = {
    "distributed.worker.http.routes": [],  # Dask always starts an HTTP server; this one answers nothing
    "distributed.worker.memory.pause": False,  # a paused worker waits for ever if nothing can be put on disk
}


def main(address: str, workers: int, memory: int, folder: str, keys: dict[str, str]) -> None:
    """Keep so many workers at this scheduler, until standard input ends or none can be started any more."""
    import dask.config
    from distributed.security import Security

    threading.Thread(target=_end_with_parent, daemon=True).start()
    options: dict[str, Any] = {
        "nthreads": 1,
        "memory_limit": memory,
        "local_directory": folder,
        "host": LOOPBACK,
        "dashboard_address": f"{LOOPBACK}:0",
        "dashboard": False,
        "security": Security(require_encryption=True, **keys),
    }

    async def all_of_them() -> None:
        await asyncio.gather(*(_keep(address, options) for _ in range(workers)))

    with dask.config.set(SETTINGS):
        asyncio.run(all_of_them())


async def _keep(address: str, options: dict[str, Any]) -> None:
    """One worker after another: a nanny starts it again when it dies, and a new nanny comes where that failed."""
    from distributed import Nanny

    failed = 0
    while True:
        try:
            async with Nanny(address, **options) as nanny:
                failed = 0
                await nanny.finished()
        except Exception:
            failed += 1
            if failed == TRIES:
                raise
        await asyncio.sleep(0.2)


def _end_with_parent() -> None:
    """When the process that asked is gone, however it ended, standard input ends, and so does this whole group."""
    parent = os.getppid()
    while os.getppid() == parent:  # a forked copy of it may still hold the pipe
        if select.select([0], [], [], 1.0)[0] and not os.read(0, 1):
            break
    os.killpg(0, signal.SIGKILL)
