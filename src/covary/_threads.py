"""BLAS threads: one for small matrices, where a second only adds waiting.

Two threads gain nothing below a few hundred rows, and on a busy machine (cross-validation, several notebooks) they wait
for each other: factorising 545 rows was seen to take seconds instead of milliseconds.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

FEW_ROWS = 600

_lock = threading.Lock()


class _Alone(threading.local):
    """Whether this thread has been asked to work alone."""

    depth = 0


_alone = _Alone()
_held: dict[str, Any] = {"count": 0, "limit": None}


@cache
def _controller() -> Any:
    """The BLAS libraries of this process, looked up once (5 ms)."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def blas_threads(rows: int) -> Iterator[None]:
    """Inside the block BLAS uses one thread if there are few rows; the setting before is put back at the end."""
    if rows > FEW_ROWS:
        yield
        return
    with _lock:
        if _held["count"] == 0:
            _held["limit"] = _controller().limit(limits=1, user_api="blas")
            _held["limit"].__enter__()
        _held["count"] += 1
    try:
        yield
    finally:
        with _lock:
            _held["count"] -= 1
            if _held["count"] == 0:
                _held["limit"].__exit__(None, None, None)
                _held["limit"] = None


def alone() -> bool:
    """Whether the caller works inside :func:`one_thread`."""
    return _alone.depth > 0


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside the block BLAS and tiles use one thread, however many rows there are: for those who work side by side."""
    _alone.depth += 1
    try:
        with blas_threads(1):
            yield
    finally:
        _alone.depth -= 1
