"""The supervisor process of the workers on this machine, which starts them, replaces dead ones, and ends with its parent.

It is started by :class:`covary.executors.cluster.Embedded` and imports nothing else of covary, so that it starts quickly.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import threading
from typing import Any

TRIES = 3  # maximum number of consecutive failed starts of a worker
LOOPBACK = "127.0.0.1"
SETTINGS = {
    "distributed.worker.http.routes": [],  # Dask always starts an HTTP server; this one has no routes
    "distributed.worker.memory.pause": False,  # a paused worker waits forever if nothing can be spilled to disk
}


def main(address: str, workers: int, memory: int, folder: str, keys: dict[str, str]) -> None:
    """Keep ``workers`` workers running for this scheduler, until standard input closes or a worker cannot be started."""
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
    """Keep one worker running: a nanny restarts it when it dies, and is replaced by a new nanny if that fails."""
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
    """Kill this process group when the parent process ends, which closes standard input."""
    parent = os.getppid()
    while os.getppid() == parent:  # a forked copy of the parent may still hold the pipe
        if select.select([0], [], [], 1.0)[0] and not os.read(0, 1):
            break
    os.killpg(0, signal.SIGKILL)
