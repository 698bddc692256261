"""Numeric encoding of tables that are read in pieces, with columns and classes determined beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from covary._checks import fail
from covary.tables.columns import Columns

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Encoder:
    """Encoder of the inputs of a frame as numbers, with columns fitted to a sample of the rows."""

    columns: Columns
    who: str

    def __call__(self, frame: pd.DataFrame) -> np.ndarray:
        found = self.columns.matrix(self.who, frame)
        if found.unseen:
            name, levels = next(iter(found.unseen.items()))
            what = f"column {name!r} contains {next(iter(levels))!r}, which is not in the first sample of rows"
            raise fail(self.who, what, "leave such rare rows out, or merge rare categories into one")
        return found.x


@dataclass(frozen=True)
class Codes:
    """Encoder of labels as the integer codes of their classes."""

    classes: np.ndarray
    target: str
    who: str

    def __call__(self, labels: np.ndarray | pd.Series) -> np.ndarray:
        values = np.asarray(labels)
        if self.classes.dtype.kind in "US":
            values = values.astype(str)
        codes = np.minimum(np.searchsorted(self.classes, values), len(self.classes) - 1)
        strange = self.classes[codes] != values
        if strange.any():
            first = values[strange][:1].tolist()[0]  # a Python value: the repr of a NumPy string begins with np.str_
            what = f"the target {self.target!r} contains {first!r}, which is not in the first sample of rows"
            raise fail(self.who, what, "leave such rows out, or merge rare classes into one")
        return codes.astype(np.float64)
