"""Dask workers for the command, and the cache of compiled code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import covary
from covary._checks import CovaryError
from covary._errors import Option
from covary._words import counted
from covary.cli.errors import BadUsage, usage
from covary.cli.options import FitSettings, PredictSettings
from covary.cli.progress import Bar
from covary.executors import Dask
from covary.tables.table import shown

TIMEOUT = 30.0  # seconds to wait for the reply of a scheduler


def cluster(s: FitSettings | PredictSettings) -> str | None:
    """Return the argument that selects a cluster, ``"scheduler"`` or ``"workers"``, if one is given; both raise an error."""
    if s.scheduler is not None and s.workers is not None:
        what = Option("scheduler") + " connects to a running cluster and " + Option("workers") + " starts one"
        raise usage("scheduler", what, "give one of them")
    if s.scheduler is not None and "://" not in s.scheduler:
        what = Option("scheduler") + f" is {shown(s.scheduler)}"
        raise usage("scheduler", what, "give its address, such as tcp://host:8786")
    return "scheduler" if s.scheduler is not None else "workers" if s.workers is not None else None


@contextmanager
def workers(s: FitSettings | PredictSettings, progress: Bar) -> Iterator[Dask | None]:
    """Connect to the cluster, or start one, and show the address of its dashboard; None for this process."""
    option = cluster(s)
    if option is None:
        yield None
        return
    progress.stage("connecting to the workers" if s.workers is None else f"starting {counted(s.workers, 'worker')}")
    try:
        executor = Dask(s.scheduler, timeout=TIMEOUT) if s.workers is None else Dask(workers=s.workers)
        executor.map(len, [()])
    except CovaryError as error:
        raise error.about(option).turned(BadUsage) from None
    with executor:
        if executor.dashboard is not None:
            progress.say(f"dashboard: {executor.dashboard}")
        yield executor


def enable_cache() -> str | None:
    """Keep compiled code between calls, and return its folder; None if the home folder cannot be written."""
    with suppress(OSError):
        return covary.enable_cache()
    return None
