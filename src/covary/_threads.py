"""Limit on the number of BLAS threads: one thread for small matrices, for which more only add overhead.

Below a few hundred rows a second thread gains nothing, and on a busy machine (cross-validation, several notebooks) the threads
wait for each other: factorising 545 rows has taken seconds instead of milliseconds.
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
    """Depth of nested :func:`one_thread` blocks in this thread."""

    depth = 0


_alone = _Alone()
_held: dict[str, Any] = {"count": 0, "limit": None}


@cache
def _controller() -> Any:
    """Return the controller of this process's BLAS libraries, created once (5 ms)."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def blas_threads(rows: int) -> Iterator[None]:
    """Use one BLAS thread inside the block if there are few rows, and restore the previous setting at the end."""
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
    """Return whether the caller is inside a :func:`one_thread` block."""
    return _alone.depth > 0


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread for BLAS and tiles inside the block, for any number of rows. For code that runs in parallel workers."""
    _alone.depth += 1
    try:
        with blas_threads(1):
            yield
    finally:
        _alone.depth -= 1
