"""Fitting to tables on disk that need not fit into memory: a sample tells what the columns are, committees read the rest."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from covary._checks import fail
from covary._scratch import Scratch
from covary.committee.experts import Table
from covary.committee.partition import EACH
from covary.committee.settings import Committee
from covary.committee.shuffle import refuse_infinite, refuse_known_gaps
from covary.committee.sources import Parquet
from covary.estimators.frames import Columns

SAMPLE, MOST = 20_000, 500_000  # rows from which the columns, the start and the partition are learned, with many experts more
WHOLE = 50_000  # rows up to which a table is read whole


@dataclass(frozen=True)
class Encoder:
    """The inputs of a frame as numbers, by columns that were learned from a sample."""

    columns: Columns
    who: str

    def __call__(self, frame: Any) -> np.ndarray:
        found = self.columns.matrix(self.who, frame)
        if found.unseen:
            name, levels = next(iter(found.unseen.items()))
            what = f"column {name!r} holds {next(iter(levels))!r}, which the first sample of rows did not"
            raise fail(self.who, what, "leave such rare rows out, or join rare categories into one")
        return found.x


@dataclass(frozen=True)
class Codes:
    """Labels as the numbers of their classes."""

    classes: np.ndarray
    target: str
    who: str

    def __call__(self, labels: Any) -> np.ndarray:
        values = np.asarray(labels)
        if self.classes.dtype.kind in "US":
            values = values.astype(str)
        codes = np.minimum(np.searchsorted(self.classes, values), len(self.classes) - 1)
        strange = self.classes[codes] != values
        if strange.any():
            first = values[strange][:1].tolist()[0]  # a plain value: NumPy's would say np.str_
            what = f"the target {self.target!r} holds {first!r}, which the first sample of rows did not"
            raise fail(self.who, what, "leave such rows out, or join rare classes into one")
        return codes.astype(np.float64)


@dataclass
class Reader:
    """A table that an estimator is being fitted to: its sample, and later what reads the rest."""

    source: Parquet
    target: str
    committee: Committee

    def sample(self, columns: list[str], seed: int, missing: str) -> tuple[Any, Any]:
        """Inputs and targets of a sample of rows whose target is known, none of them infinite where it is used."""
        frame = self.source.sample([*columns, self.target], self.enough(), seed=seed)
        frame = frame[frame[self.target].notna()].reset_index(drop=True)
        if not len(frame):
            raise fail("fit", f"the target {self.target!r} is missing in every row of a sample", "give a column with values")
        used = frame.dropna(subset=columns) if missing == "drop" else frame
        refuse_infinite(used, columns, self.target, "a sample of the table")
        return frame[columns], frame[self.target]

    def enough(self) -> int:
        """The rows of the sample: places need some for every expert."""
        experts = self.committee.count(self.source.rows)
        return int(np.clip(EACH * experts, SAMPLE, MOST))

    def table(self, estimator: Any, merge: bool) -> Table:
        """What a committee deals its rows from."""
        columns, who = estimator.columns_, type(estimator).__name__
        label = Codes(estimator.classes_, self.target, who) if hasattr(estimator, "classes_") else None
        missing = {"refuse": "refuse", "drop": "drop"}.get(columns.missing, "keep")
        names = [column.name for column in columns.each]
        source = Parquet(self.source.path, columns=[*names, self.target])
        return Table(source, self.target, Encoder(columns, who), label, self._place(estimator), missing, merge)

    def _place(self, estimator: Any) -> str:
        """The folder for sorted rows: the one that was given, or one that ends with the estimator."""
        if self.committee.folder is not None:
            return str(Path(self.committee.folder).resolve())
        spool = Scratch("covary-rows-")
        weakref.finalize(estimator, spool.close)
        return str(spool.path)


def read_source(estimator: Any, X: Parquet, y: Any) -> Reader | None:
    """The table as a reader, checked; None where it is small enough to be read whole by a method of its own."""
    who = type(estimator).__name__
    if not isinstance(y, str):
        raise fail(who, f"X is a table on disk and y is {type(y).__name__}", "give the name of the target's column as y")
    X.check([y], who)
    inputs = [name for name in X.names if name != y]
    if not inputs:
        raise fail(who, f"the table has no column but the target {y!r}", "give at least one input")
    X.check(inputs, who)
    method = estimator.method
    if method != "committee" and not isinstance(method, Committee) and (X.rows <= WHOLE or method != "auto"):
        return None
    committee = method if isinstance(method, Committee) else Committee(partition="kd_tree")
    committee.replace(table=X).check(X.rows)
    if estimator.missing == "refuse":
        refuse_known_gaps(X, inputs, y)
    return Reader(X, y, committee)


def whole(X: Parquet, y: str) -> tuple[Any, Any]:
    """A table read whole: inputs and target."""
    import pandas as pd

    frame = pd.concat([X.read(chunk, X.names) for chunk in X.chunks], ignore_index=True)
    frame = frame[frame[y].notna()].reset_index(drop=True)
    return frame[[name for name in X.names if name != y]], frame[y]
