"""Committees of experts on the command line: what was asked for, and who does the work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from covary._checks import CovaryError
from covary._words import counted
from covary.cli.doors import BadData, BadUsage, sentence
from covary.cli.tables import shown

TIMEOUT = 30.0  # seconds that a scheduler may take to answer
ON_DISK = "kd_tree"  # the partition of rows that stay on disk: quick for thousands of experts


@dataclass(frozen=True)
class Crew:
    """What was said about experts and where they work; None where nothing was."""

    experts: int | None = None
    rule: str | None = None
    partition: str | None = None
    learning: str | None = None
    nearest: int | None = None
    scheduler: str | None = None
    workers: int | None = None
    folder: str | None = None

    @property
    def asked(self) -> str | None:
        """The first option that asks for a committee."""
        return next((f"--{name}" for name, value in asdict(self).items() if value is not None), None)

    @property
    def cluster(self) -> str | None:
        """The option that names a cluster or starts one."""
        return "--scheduler" if self.scheduler is not None else "--workers" if self.workers is not None else None

    def check_cluster(self) -> None:
        """Refuse two clusters, and addresses that are none."""
        if self.scheduler is not None and self.workers is not None:
            raise BadUsage("--scheduler names a cluster that runs and --workers starts one; give one of them.")
        if self.scheduler is not None and "://" not in self.scheduler:
            raise BadUsage(f"--scheduler is {shown(self.scheduler)}; give its address, such as tcp://host:8786.")

    def check(self, method: str, objective: str) -> bool:
        """Whether a committee is meant; what contradicts itself is refused."""
        self.check_cluster()
        if self.asked is not None and method not in ("auto", "committee"):
            what = f"{self.asked} is for a committee of experts, and --method is {method}"
            raise BadUsage(f"{what}; leave one of them out, or say --method committee.")
        meant = self.asked is not None or method == "committee"
        if meant and objective != "evidence":
            what = f"--objective {objective} goes with the exact method, not with a committee of experts"
            raise BadUsage(f"{what}; leave one of them out.")
        return meant

    def committee(self, rows: int, inputs: Sequence[str], folder: str | None = None) -> Any:
        """The committee that was asked for, for so many rows; ``folder`` if they stay on disk."""
        from covary.committee.settings import Committee

        partition = self.partition
        if partition is not None and partition.startswith("column:"):
            name = partition.removeprefix("column:")
            if name not in inputs:
                known = ", ".join(shown(c) for c in inputs[:8]) + (f" and {len(inputs) - 8} more" if len(inputs) > 8 else "")
                raise BadData(f"--partition names the column {shown(name)}, which is no input; the inputs are {known}.")
        given: dict[str, Any] = {"rule": self.rule, "partition": partition, "learning": self.learning, "folder": folder}
        given["nearest"] = self.nearest
        if folder is not None and partition is None:
            given["partition"] = ON_DISK
        made = Committee(self.experts, **{name: value for name, value in given.items() if value is not None})
        try:
            (made if folder is None else made.replace(table=folder)).check(rows)
        except CovaryError as error:
            raise BadUsage(sentence(error)) from None
        return made

    @contextmanager
    def at_work(self, progress: Any) -> Iterator[Any]:
        """Who works: None for this process, or a cluster, which has answered; its page is told."""
        if self.cluster is None:
            yield None
            return
        from covary.executors import Dask

        progress.stage("calling the workers" if self.workers is None else f"starting {counted(self.workers, 'worker')}")
        try:
            executor = Dask(self.scheduler, timeout=TIMEOUT) if self.workers is None else Dask(workers=self.workers)
            executor.map(len, [()])
        except CovaryError as error:
            raise BadUsage(f"{self.cluster}: {sentence(error)}") from None
        with executor:
            if executor.dashboard is not None:
                progress.say(f"dashboard: {executor.dashboard}")
            yield executor
