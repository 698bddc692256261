"""A training table read into memory: its columns by role, its training rows and its target."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from covary._errors import Option
from covary._words import some
from covary.tables.files import read_table
from covary.tables.roles import Roles, check_gaps, check_sign, choose, input_frame, names_of, numbers
from covary.tables.table import Frame, Table, bad, shown, wrong
from covary.tables.targets import Asked, Target, label_columns, recognise


@dataclass(frozen=True)
class Rows:
    """Training rows of a table.

    ``values`` has all columns of the training rows, ``kept`` marks these rows in the table, ``open`` marks the rows
    that lack only the target, and ``inputs`` has the input columns of every row.
    """

    values: Frame
    kept: np.ndarray
    open: np.ndarray
    inputs: Frame

    @property
    def places(self) -> np.ndarray:
        """Indices of the training rows in the table."""
        return np.flatnonzero(self.kept)


def rows_of(
    table: Table, roles: Roles, labels: Sequence[str], *, drop_missing: bool, missing: str, categories: Collection[str]
) -> Rows:
    """Select the rows that have a target and all other required values; ``missing`` decides about missing inputs."""
    import pandas as pd

    inputs = input_frame(table, roles.inputs, categories=categories, ignorable=roles.inputs)
    rest = [name for name in roles.all if name not in roles.inputs]
    known = ~table.frame[roles.targets].isna().any(axis=1).to_numpy()
    other, kept = numbers(table, rest, drop_missing=True, labels=labels)
    gaps = inputs.isna().to_numpy(bool)
    if drop_missing:
        kept = kept & ~gaps.any(1)
        if not kept.any():
            worst = int(gaps.sum(0).argmax())
            count = f"{gaps[:, worst].sum()} of {len(gaps)} in {shown(roles.inputs[worst])}"
            what = f"every row of {table.name!r} has a missing value ({count})"
            raise bad(what, "fill them, or ignore the column", column=roles.inputs[worst])
        known = np.ones(len(known), bool)
    else:
        check_gaps(table, table.frame, [name for name in rest if name not in roles.targets], known, ())
        if missing == "refuse":
            check_gaps(table, inputs, roles.inputs, np.ones(len(known), bool), roles.inputs)
    values = pd.concat([inputs[kept], other.loc[inputs.index[kept]]], axis=1)
    return Rows(values, kept, ~known, inputs)


def spread(column: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Expand a column of predictions to all rows; rows without a prediction get a missing value."""
    if there.all():
        return column
    out = np.full(len(there), np.nan) if column.dtype.kind == "f" else np.full(len(there), None, dtype=object)
    out[there] = column
    return out


@dataclass(frozen=True)
class Names:
    """Column names by role, as passed by the user: ``"a,b"`` means two columns."""

    targets: Sequence[str]
    inputs: Sequence[str] = ()
    ignore: Sequence[str] = ()
    categories: Sequence[str] = ()
    noise: str | None = None
    weight: str | None = None
    size: str | None = None


@dataclass(frozen=True)
class Observations:
    """A table with the roles of its columns, its training rows and its target."""

    table: Table
    roles: Roles
    rows: Rows
    found: Target
    categories: list[str]

    @staticmethod
    def read(source: str, names: Names, asked: Asked, *, missing: str = "refuse", drop_missing: bool = False) -> Observations:
        """Read a table from a file.

        Parameters
        ----------
        source
            Name of the file; ``-`` reads CSV from stdin.
        names
            Names of the columns for each role.
        asked
            What the user specified about the target.
        missing
            How to handle missing inputs.
        drop_missing
            Whether to leave out rows with a missing value in any column.
        """
        table, columns = read_table(source), {"noise": names.noise, "weight": names.weight, "size": names.size}
        roles = choose(table, targets=names.targets, inputs=names.inputs, ignore=names.ignore, **columns)
        labels = label_columns(table, roles, asked)
        categories = names_of(names.categories, table, "categories")
        others = [name for name in categories if name not in roles.inputs]
        if others:
            what = Option("categories") + f" names the column {shown(others[0])}, which is no input"
            raise wrong("categories", what, f"the inputs are {some([shown(c) for c in roles.inputs], 8)}")
        rows = rows_of(table, roles, labels, drop_missing=drop_missing, missing=missing, categories=categories)
        return Observations(table, roles, rows, recognise(table, roles, rows.values, rows.kept, labels, asked), categories)

    def column(self, name: str, option: str, *, positive: bool = False) -> np.ndarray:
        """Return the values of the column given by an option, checked to be non-negative."""
        values = self.rows.values[name].to_numpy()
        check_sign(self.table, name, values, self.rows.kept, option=option, positive=positive)
        return values

    @property
    def noise_variance(self) -> np.ndarray | None:
        """Known noise variance of the rows, if a column of standard deviations was given."""
        return None if self.roles.noise is None else self.column(self.roles.noise, "noise_column") ** 2

    @property
    def size(self) -> np.ndarray | None:
        """Trials or exposure of the rows, if a column of them was given."""
        return None if self.roles.size is None else self.column(self.roles.size, "size_column", positive=True)

    @property
    def weight(self) -> np.ndarray | None:
        """Weights of the rows, if a weight column was given."""
        if self.roles.weight is None:
            return None
        weight = self.column(self.roles.weight, "weight_column")
        if not (weight > 0).any():
            what = Option("weight_column") + f": every value in {self.roles.weight!r} is zero"
            raise wrong("weight_column", what, "give at least one row a positive weight")
        return weight
