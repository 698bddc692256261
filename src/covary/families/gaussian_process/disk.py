"""Fitting to tables larger than memory: columns are learned from a sample, committees read the rest from disk."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from covary._checks import fail
from covary._errors import Option
from covary._scratch import Scratch
from covary.committee.experts import Dealt, Table
from covary.committee.partition import EACH
from covary.committee.settings import Committee
from covary.committee.shuffle import refuse_infinite, refuse_known_gaps
from covary.gram.base import AbstractGram
from covary.inference.plan import AbstractPlan
from covary.tables.codes import Codes, Encoder
from covary.tables.columns import Columns
from covary.tables.given import Frame, Series, Targets
from covary.tables.parquet import Parquet

if TYPE_CHECKING:
    import pandas as pd

SAMPLE, MOST = 20_000, 500_000  # smallest and largest sample to learn columns, start and partition from
WHOLE = 50_000  # largest number of rows to read into memory


@dataclass
class Reader:
    """Reader of a table on disk for fitting: first a sample, then a source of all rows for a committee."""

    source: Parquet
    target: str
    committee: Committee
    scratch: Scratch | None = None  # a temporary folder for sorted rows

    def sample(self, columns: list[str], seed: int, missing: str) -> tuple[Frame, Series]:
        """Return inputs and targets of a sample of rows with known targets; raise an error for infinite values."""
        frame = self.source.sample([*columns, self.target], self.enough(), seed=seed)
        frame = frame[frame[self.target].notna()].reset_index(drop=True)
        if not len(frame):
            raise fail("fit", f"the target {self.target!r} is missing in every row of a sample", "give a column with values")
        used = frame.dropna(subset=columns) if missing == "drop" else frame
        refuse_infinite(used, columns, self.target, "a sample of the table")
        return frame[columns], frame[self.target]

    def enough(self) -> int:
        """Return the number of rows of the sample, which the partition needs for every expert."""
        experts = self.committee.count(self.source.rows)
        return int(np.clip(EACH * experts, SAMPLE, MOST))

    def table(self, who: str, columns: Columns, classes: np.ndarray | None, merge: bool) -> Table:
        """Return the source of rows for a committee."""
        label = None if classes is None else Codes(classes, self.target, who)
        missing = {"refuse": "refuse", "drop": "drop"}.get(columns.missing, "keep")
        names = [column.name for column in columns.each]
        source = Parquet(self.source.path, columns=[*names, self.target])
        return Table(source, self.target, Encoder(columns, who), label, self._place(), missing, merge)

    def _place(self) -> str:
        """Return the folder for sorted rows: the one given, or a temporary one."""
        if self.committee.folder is not None:
            return str(Path(self.committee.folder).resolve())
        self.scratch = Scratch("covary-rows-")
        return str(self.scratch.path)

    def goes_with(self, dealt: Dealt) -> None:
        """Remove a temporary folder together with ``dealt``, which all copies of a fit share."""
        if self.scratch is not None:
            weakref.finalize(dealt, self.scratch.close)


def read_source(who: str, X: Parquet, y: Targets, method: AbstractGram | AbstractPlan | str, missing: str) -> Reader | None:
    """Return a reader of the table, validated; None if the table is to be read into memory instead."""
    if not isinstance(y, str):
        what = Option("X") + f" is a table on disk and y is {type(y).__name__}"
        raise fail(who, what, "give the name of the target's column as y")
    X.check([y], who)
    inputs = [name for name in X.names if name != y]
    if not inputs:
        raise fail(who, f"the table has no column other than the target {y!r}", "give at least one input")
    X.check(inputs, who)
    if method != "committee" and not isinstance(method, Committee) and (X.rows <= WHOLE or method != "auto"):
        return None
    committee = method if isinstance(method, Committee) else Committee(partition="kd_tree")
    committee.replace(table=X).check(X.rows)
    if missing == "refuse":
        refuse_known_gaps(X, inputs, y)
    return Reader(X, y, committee)


def whole(X: Parquet, y: str) -> tuple[pd.DataFrame, pd.Series]:
    """Read a table into memory; return inputs and target."""
    import pandas as pd

    frame = pd.concat([X.read(chunk, X.names) for chunk in X.chunks], ignore_index=True)
    frame = frame[frame[y].notna()].reset_index(drop=True)
    return frame[[name for name in X.names if name != y]], frame[y]  # type: ignore[return-value]
