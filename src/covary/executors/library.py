"""Types for the parts of Dask used here, as those of Dask are incomplete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypedDict, TypeVar

R = TypeVar("R")
S = TypeVar("S", covariant=True)


class Future(Protocol[S]):
    """A pending result."""

    @property
    def key(self) -> str: ...
    @property
    def status(self) -> str: ...
    def result(self) -> S: ...
    def release(self) -> None: ...
    def add_done_callback(self, function: Callable[[Future[Any]], None]) -> None: ...


class Scheduler(Protocol):
    """A scheduler, as accessed by a client."""

    address: str

    async def ncores(self) -> dict[str, int]: ...
    async def ncores_running(self) -> dict[str, int]: ...


class Loop(Protocol):
    """The event loop in which a client communicates with its scheduler."""

    asyncio_loop: asyncio.AbstractEventLoop


class Worker(TypedDict):
    """A scheduler's information about a worker."""

    memory_limit: int
    status: str
    metrics: dict[str, dict[str, int]]


class About(TypedDict):
    """A scheduler's information about itself."""

    workers: dict[str, Worker]
    services: dict[str, int]


class Client(Protocol):
    """A connection to a scheduler."""

    status: str
    scheduler: Scheduler
    loop: Loop

    @property
    def dashboard_link(self) -> str: ...
    def submit(self, function: Callable[..., R], *arguments: Any, key: str, **options: bool | list[str]) -> Future[R]: ...
    def gather(self, futures: Sequence[Future[R]], *, asynchronous: bool) -> Coroutine[None, None, list[R]]: ...
    def sync(self, function: Callable[[], Coroutine[None, None, R]], *, callback_timeout: float) -> R: ...
    def cancel(self, futures: Sequence[Future[R]]) -> None: ...
    def nthreads(self) -> dict[str, int]: ...
    def scheduler_info(self) -> About: ...
    def get_versions(self) -> Mapping[str, Mapping[str, Mapping[str, Mapping[str, str]]]]: ...
    def run(self, function: Callable[[], R], *, on_error: str) -> dict[str, R | Exception]: ...
    def close(self) -> None: ...
