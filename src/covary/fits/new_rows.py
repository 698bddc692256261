"""New rows with their observed values, against which a report checks predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from covary._errors import Option
from covary.fits.answers import kinds
from covary.fits.family import Json, family_of
from covary.fits.fit import AnyFit
from covary.tables.labels import codes_of
from covary.tables.roles import input_frame, known
from covary.tables.table import Frame, Table, bad, is_text, shown


@dataclass(frozen=True)
class NewRows:
    """New rows: inputs, observed values if known, and notes about rows left out."""

    x: Frame
    y: np.ndarray | None
    notes: tuple[str, ...] = ()


def new_rows(fit: AnyFit, made: Mapping[str, Json], table: Table, drop_missing: bool) -> NewRows:
    """Return the inputs and the observed values of a table."""
    inputs = [column.name for column in fit.columns.each]
    lacking = [name for name in inputs if name not in table.columns]
    if lacking:
        known(lacking[0], table)  # raises an error that suggests the closest name
    x, kept = input_frame(table, inputs, kinds=kinds(fit)), np.ones(len(table.frame), bool)
    gaps = x.isna().any(axis=1).to_numpy()
    if gaps.any() and fit.columns.missing not in ("impute", "indicator"):
        if not (drop_missing or fit.columns.missing == "drop"):
            row = int(np.flatnonzero(gaps)[0])
            what = f"{table.name!r} has a missing input {table.where(row)} ({int(gaps.sum())} in total)"
            raise bad(what, "fill it, or leave such rows out with " + Option("drop_missing"), row=row)
        x, kept = x[~gaps], ~gaps
    if not len(x):
        raise bad(f"every row of {table.name!r} has a missing value", "fill in some of them")
    notes = [f"rows left out because of a missing input: {int((~kept).sum())}"] if (~kept).any() else []
    if any(name not in table.columns for name in fit.target):
        what = f"{table.name!r} does not contain {fit.target[0]}: the rows are checked for extrapolation only"
        return NewRows(x, None, (*notes, what))
    y, seen, more = _truth(fit, made, table, kept)
    return NewRows(x if y is None else x[seen], y, (*notes, *more))


def _truth(
    fit: AnyFit, made: Mapping[str, Json], table: Table, kept: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray, list[str]]:
    """Return the observed values, a mask of the kept rows that have them, and notes."""
    frame, targets, every = table.frame.loc[kept], list(fit.target), np.ones(int(kept.sum()), bool)
    if fit.classes is not None:
        codes = codes_of(frame[targets[0]], fit.classes.values)
        seen = codes >= 0
        strange = int((codes == -1).sum())
        notes = [f"rows left out because of a class unknown to the model: {strange}"] if strange else []
        return (codes[seen].astype(np.float64) if seen.any() else None), seen, notes
    if any(is_text(frame[name]) for name in targets):
        return None, every, [f"{shown(targets[0])} contains text: only extrapolation is checked"]
    y = frame[targets].to_numpy(np.float64, na_value=np.nan)
    seen, sizes = np.isfinite(y).all(1), family_of(fit).sizes(fit)
    if sizes is not None and sizes.given:
        name = made.get("size column")
        if name not in table.columns:
            return None, seen, ["the table has no column of sizes: only extrapolation is checked"]
        y = np.column_stack([y[:, 0], frame[name].to_numpy(np.float64, na_value=np.nan)])
        seen &= np.isfinite(y).all(1)
    if not seen.any():
        return None, every, ["no row has a known target: only extrapolation is checked"]
    y = y[seen]
    return (y[:, 0] if y.shape[1] == 1 else y), seen, []
