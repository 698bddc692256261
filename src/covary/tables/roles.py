"""Roles of the columns of a table: which are inputs and which are targets, and their values, checked."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from covary._errors import CovaryError, Option, Text
from covary._words import meant, some
from covary.tables.cells import LARGEST
from covary.tables.table import BadTable, Column, Frame, Table, bad, in_file, is_text, shown, wrong


@dataclass(frozen=True)
class Roles:
    """Column names of a table by role."""

    inputs: list[str]
    targets: list[str]
    noise: str | None = None
    weight: str | None = None
    size: str | None = None

    @property
    def all(self) -> list[str]:
        """All columns that are read."""
        return [*self.inputs, *self.targets, *(c for c in (self.noise, self.weight, self.size) if c is not None)]


def names_of(values: Sequence[str], table: Table, argument: str) -> list[str]:
    """Split options into column names: ``a,b``, or an option given twice; a column whose name has a comma comes first."""
    return [known(name, table, argument) for name in dict.fromkeys(_parts(values, table))]


def _parts(values: Sequence[str], table: Table) -> list[str]:
    each = [[value] if value in table.columns else [part.strip() for part in value.split(",")] for value in values]
    return [part for parts in each for part in parts if part]


def known(name: str, table: Table, argument: str | None = None) -> str:
    """Return the name if the table has such a column, and raise an error otherwise, about the argument that names it."""
    if name in table.columns:
        return name
    what, do = f"{table.name!r} has no column {shown(name)}", _hint(name, table.columns)
    raise bad(what, do) if argument is None else wrong(argument, what, do)


def _hint(name: str, columns: list[str]) -> str:
    same = [c for c in columns if c.lower() == name.lower()]
    if same:
        return meant(f"{shown(same[0])}, in this case")
    close = difflib.get_close_matches(name, columns[:5000], n=1)
    if close:
        return meant(shown(close[0]))
    return f"its columns are {some([shown(c) for c in columns], 8)}"


def choose(
    table: Table,
    *,
    targets: Sequence[str],
    inputs: Sequence[str] = (),
    ignore: Sequence[str] = (),
    noise: str | None = None,
    weight: str | None = None,
    size: str | None = None,
) -> Roles:
    """Determine the role of each column; by default, the inputs are all columns without another role that are not ignored."""
    if len(table.columns) == 1:
        what = f"{table.name!r} has a single column, {shown(table.columns[0])}"
        raise bad(what, "separate columns by commas, semicolons or tabs, and give at least one input besides the target")
    chosen_targets = names_of(targets, table, "target")
    if not chosen_targets:
        raise wrong("target", Option("target") + " is empty", "give the column to predict")
    if len(_parts(targets, table)) > len(chosen_targets):
        raise wrong("target", Option("target") + " names a column twice", "give each target once")
    taken = dict.fromkeys(chosen_targets, "target")
    for argument, name in (("noise_column", noise), ("weight_column", weight), ("size_column", size)):
        if name is not None:
            _take(known(name, table, argument), argument, taken)
    taken = dict.fromkeys(names_of(ignore, table, "ignore"), "ignore") | taken
    chosen = names_of(inputs, table, "inputs")
    for name in chosen:
        _take(name, "inputs", taken)
    if inputs and not chosen:
        raise wrong("inputs", Option("inputs") + " is empty", "give the columns to learn from, or leave it out")
    chosen = chosen or [c for c in table.columns if c not in taken]
    if not chosen:
        do = "give a table with at least one" + (", or ignore fewer columns" if ignore else "")
        raise bad(f"{table.name!r} has no input column left", do)
    return Roles(chosen, chosen_targets, noise, weight, size)


def _take(name: str, argument: str, taken: dict[str, str]) -> None:
    """Note which argument gives a column; raise an error if another one does."""
    if taken.setdefault(name, argument) != argument:
        what = f"the column {shown(name)} is given by " + Option(taken[name]) + " and by " + Option(argument)
        raise wrong(argument, what, "remove it from one of them")


# inputs of every kind ---------------------------------------------------------------------------------------------
def input_frame(
    table: Table,
    names: Sequence[str],
    *,
    kinds: Mapping[str, str] | None = None,
    categories: Collection[str] = (),
    ignorable: Collection[str] = (),
) -> Frame:
    """Return the inputs as numbers, booleans, dates or categories, with missing values kept.

    ``kinds`` gives the kind of each column during fit. The columns in ``categories`` are read as categories regardless of their
    content.
    """
    import pandas as pd

    if not len(table.frame):
        raise bad(f"{table.name!r} has column names but no rows", "give at least one")
    taken = {}
    for name in names:
        column, kind = table.frame[name], None if kinds is None else kinds.get(name)
        if kinds is None and column.isna().all():
            what = f"column {shown(name)} of {table.name!r} is empty"
            raise bad(what, _or("fill it", name, ignorable), column=name)
        if name in categories:
            kind = "category"
        if kind is None and not is_text(column):
            taken[name] = column
        elif kind == "number":
            taken[name] = _numeric(table, name, column, ignorable) if is_text(column) else column
        else:
            taken[name] = _cells(table, name, column, kind, ignorable, declared=name in categories)
    frame = pd.DataFrame(taken, index=table.frame.index)
    numeric = [name for name in names if frame[name].dtype.kind in "iuf"]
    _check_size(table, frame[numeric].fillna(0.0), np.ones(len(frame), bool))
    return frame


def _cells(table: Table, name: str, column: Column, kind: str | None, ignorable: Collection[str], *, declared: bool) -> Column:
    """Convert a column of text, dates or objects to the type of its content."""
    import pandas as pd

    from covary.tables.cells import BOOLEAN, CATEGORY, NUMBER, check_names, label, read_cells

    who, what = "covary", label(name)
    column = column.map(lambda v: " ".join(v.split()) if isinstance(v, str) else v, na_action="ignore")
    try:
        cells = read_cells(who, what, column, kind)
        if cells.kind == CATEGORY and kind is None:
            check_names(who, what, [v for v in cells.values if v is not None])
    except CovaryError as error:
        raise in_file(error, table, remedies=_remedies(name, ignorable)) from None
    values: Any = cells.values
    if cells.kind == BOOLEAN:
        values = pd.array([None if np.isnan(v) else bool(v) for v in values], dtype="boolean")
    elif cells.kind == CATEGORY:
        texts = pd.Series(values, dtype=object)
        values = pd.Categorical(texts, sorted(texts.dropna().unique())) if declared else texts.to_numpy()
    elif cells.kind != NUMBER and cells.aware:
        values = pd.Series(values).dt.tz_localize("UTC").array
    return pd.Series(values, index=column.index)


def _remedies(name: str, ignorable: Collection[str]) -> dict[str, Text]:
    """Return the advice about cells that cannot be read, in terms of options."""
    say = "use " + Option("categories", repr(name))
    if name not in ignorable:
        return {"column as categories": say, "as categories": say}
    ignore = Option("ignore", repr(name))
    return {
        "leave out": "leave it out with " + ignore,
        "column as categories": say + ", or leave the column out with " + ignore,
        "as categories": say,
    }


def check_gaps(table: Table, values: Frame, names: Sequence[str], rows: np.ndarray, ignorable: Collection[str]) -> None:
    """Raise an error about the first missing entry in these columns and rows."""
    missing = values[list(names)].isna().to_numpy(bool) & rows[:, None]
    if missing.any():
        raise _missing(table, names, missing, ignorable, choices=True)


def numbers(
    table: Table,
    names: Sequence[str],
    *,
    drop_missing: bool,
    ignorable: Collection[str] = (),
    labels: Collection[str] = (),
) -> tuple[Frame, np.ndarray]:
    """Return the columns as finite float64, and a mask of the rows that were kept.

    Rows with a missing entry are dropped if ``drop_missing``, and raise an error otherwise. Text and infinity raise an error
    that reports the column and the first such value. The error suggests leaving out the column only if it is in
    ``ignorable``. The columns in ``labels`` contain class labels and are returned unchanged.
    """
    import pandas as pd

    frame = table.frame
    if not len(frame):
        raise bad(f"{table.name!r} has column names but no rows", "give at least one")
    taken = {}
    for name in names:
        column = frame[name]
        if column.isna().all():
            what = f"column {shown(name)} of {table.name!r} is empty"
            raise bad(what, _or("fill it", name, ignorable), column=name)
        if name in labels:
            taken[name] = column
            continue
        if is_text(column):
            column = _numeric(table, name, column, ignorable)
        taken[name] = column.to_numpy(np.float64, na_value=np.nan)
    values = pd.DataFrame(taken, index=frame.index)
    missing: np.ndarray = values.isna().to_numpy()
    kept = np.asarray(~missing.any(1))
    if not kept.all() and not drop_missing:
        raise _missing(table, names, missing, ignorable)
    if not kept.any():
        worst = int(missing.sum(0).argmax())
        count = f"{missing[:, worst].sum()} of {len(frame)} in {shown(names[worst])}"
        what = f"every row of {table.name!r} has a missing value ({count})"
        raise bad(what, _or("fill them", names[worst], ignorable), column=names[worst])
    values = values[kept]
    _check_size(table, values[[name for name in names if name not in labels]], kept)
    return values, kept


def _or(do: Text, name: str, ignorable: Collection[str]) -> Text:
    """Add to an advice that the column can be left out, if it can."""
    return do + ", or leave the column out with " + Option("ignore", repr(name)) if name in ignorable else do


def _numeric(table: Table, name: str, column: Column, ignorable: Collection[str]) -> Column:
    """Convert a column of objects (booleans with missing values, very long integers) to numbers; raise an error for text."""
    import pandas as pd

    number: Any = column
    if column.dtype.kind in "mM":
        kind, odd = "dates or times", ~column.isna()
    else:
        kind = "text"
        number = pd.to_numeric(column.map(_truth, na_action="ignore").astype(object), errors="coerce")
        odd = number.isna() & ~column.isna()
    if not odd.any():
        return number.astype(np.float64)
    row, many = int(np.flatnonzero(odd.to_numpy())[0]), int(odd.sum())
    what = f"{shown(column.iloc[row])} {table.where(row)}" + (f", {many} such values in all" if many > 1 else "")
    do = _or("correct it" if many == 1 else "convert it to numbers", name, ignorable)
    raise bad(f"column {shown(name)} of {table.name!r} contains {kind} ({what})", do, row=row, column=name)


def _truth(value: Any) -> Any:
    """Convert booleans, also as text, to 1 and 0; everything else is returned unchanged."""
    if isinstance(value, str):
        return {"true": 1.0, "false": 0.0}.get(value.strip().lower(), value)
    return float(value) if isinstance(value, bool | np.bool_) else value


def _missing(
    table: Table, names: Sequence[str], missing: np.ndarray, ignorable: Collection[str], *, choices: bool = False
) -> BadTable:
    """Return the error about the first missing entry."""
    row = int(np.flatnonzero(missing.any(1))[0])
    first = int(np.flatnonzero(missing[row])[0])
    name, many, rows = names[first], int(missing[:, first].sum()), int(missing.any(1).sum())
    count = f"{many} missing in this column" + (f", {rows} rows with a missing value in all" if rows > many else "")
    do = "leave such rows out with " + Option("drop_missing")
    if choices and name in ignorable:
        do = do + ", choose what to do with " + Option("missing", "'drop'") + ", impute or indicator"
    what = f"column {shown(name)} of {table.name!r} has no value {table.where(row)} ({count})"
    return bad(what, _or(do, name, ignorable), row=row, column=name)


def _check_size(table: Table, values: Frame, kept: np.ndarray) -> None:
    """Raise an error for infinity, and for numbers whose squares overflow."""
    wild = ~(np.abs(values.to_numpy()) <= LARGEST)
    if wild.any():
        i, j = (int(k) for k in np.argwhere(wild)[0])
        name, value, many, row = str(values.columns[j]), values.iloc[i, j], int(wild[:, j].sum()), int(np.flatnonzero(kept)[i])
        more = f" ({many} such values)" if many > 1 else ""
        do = "rescale the column" if np.isfinite(value) else "correct it, or remove the row"
        raise bad(f"column {shown(name)} of {table.name!r} is {value:g} {table.where(row)}{more}", do, row=row, column=name)


def check_sign(
    table: Table, name: str, values: np.ndarray, kept: np.ndarray, *, option: str = "", positive: bool = False
) -> None:
    """Raise an error for negative values (if ``positive``, also for zero); ``option`` is the argument that gave the column."""
    low = values <= 0 if positive else values < 0
    if low.any():
        i = int(np.flatnonzero(low)[0])
        row, given = int(np.flatnonzero(kept)[i]), ", given by " + Option(option) + "," if option else ""
        what = f"column {shown(name)} of {table.name!r}" + given + f" is {values[i]:g} {table.where(row)}"
        raise bad(what, "give positive numbers" if positive else "give zero or more", row=row, column=name)
