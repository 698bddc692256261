"""Columns by name: which are inputs, which are targets, and their numbers, checked."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from covary._checks import CovaryError
from covary._words import meant
from covary.cli.doors import BadData, BadUsage, sentence
from covary.cli.tables import Column, Frame, Table, is_text, shown


@dataclass(frozen=True)
class Roles:
    """What each column of a table is for."""

    inputs: list[str]
    targets: list[str]
    noise: str | None = None
    weight: str | None = None
    size: str | None = None

    @property
    def all(self) -> list[str]:
        """Every column that is read."""
        return [*self.inputs, *self.targets, *(c for c in (self.noise, self.weight, self.size) if c is not None)]


def names_of(values: Sequence[str], table: Table) -> list[str]:
    """Column names from options: ``a,b`` or the option given twice; a name with a comma in it is tried whole first."""
    found: list[str] = []
    for value in values:
        parts = [value] if value in table.columns else [part.strip() for part in value.split(",")]
        found += [known(part, table) for part in parts if part]
    return list(dict.fromkeys(found))


def known(name: str, table: Table) -> str:
    """The name, if the table has such a column."""
    if name in table.columns:
        return name
    raise BadData(f"{table.name!r} has no column {shown(name)}; {_hint(name, table.columns)}")


def _hint(name: str, columns: list[str]) -> str:
    same = [c for c in columns if c.lower() == name.lower()]
    if same:
        return meant(f"{shown(same[0])}, in this case")
    close = difflib.get_close_matches(name, columns[:5000], n=1)
    if close:
        return meant(shown(close[0]))
    few = ", ".join(shown(c) for c in columns[:8])
    return f"its columns are {few}" + (f" and {len(columns) - 8} more." if len(columns) > 8 else ".")


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
    """Inputs and targets by name; without ``inputs``, every column that has no other role and is not ignored."""
    if len(table.columns) == 1:
        raise BadData(
            f"{table.name!r} has a single column, {shown(table.columns[0])}; "
            "separate columns by commas, semicolons or tabs, and give at least one input beside the target."
        )
    chosen_targets = names_of(targets, table)
    if not chosen_targets:
        raise BadUsage("--target names no column; give the column to predict.")
    left_out = names_of(ignore, table)
    others = [known(c, table) for c in (noise, weight, size) if c is not None]
    taken = set(chosen_targets) | set(others)
    if len(taken) < len(chosen_targets) + len(others):
        options = "--target, --noise-column, --weight-column and --size-column"
        raise BadUsage(f"one column is given two roles by {options}; give each its own.")
    if inputs:
        chosen = names_of(inputs, table)
        both = [c for c in chosen if c in taken or c in left_out]
        if both:
            raise BadUsage(f"the column {shown(both[0])} is named by --inputs and by another option; leave it out of one.")
    else:
        chosen = [c for c in table.columns if c not in taken and c not in left_out]
    if not chosen:
        raise BadData(f"{table.name!r} leaves no input column; give a table with one, or ignore fewer.")
    return Roles(chosen, chosen_targets, noise, weight, size)


# inputs of every kind ---------------------------------------------------------------------------------------------
def input_frame(
    table: Table,
    names: Sequence[str],
    *,
    kinds: Mapping[str, str] | None = None,
    categories: Collection[str] = (),
    ignorable: Collection[str] = (),
) -> Frame:
    """The inputs as a model reads them: numbers, true/false, dates or texts that are categories, gaps as they are.

    ``kinds`` says what each column held in fit; ``categories`` are to be taken for such whatever they hold.
    """
    import pandas as pd

    if not len(table.frame):
        raise BadData(f"{table.name!r} has column names but no rows; give at least one.")
    taken = {}
    for name in names:
        column, kind = table.frame[name], None if kinds is None else kinds.get(name)
        if kinds is None and column.isna().all():
            raise BadData(f"column {shown(name)} of {table.name!r} is empty; {_or('fill it', name, ignorable)}.")
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
    """A column of text, dates or objects as what it holds."""
    import pandas as pd

    from covary.estimators.cells import BOOLEAN, CATEGORY, NUMBER, check_names, read_cells

    who, what = "covary", f"column {name!r} of X"
    column = column.map(lambda v: " ".join(v.split()) if isinstance(v, str) else v, na_action="ignore")
    try:
        cells = read_cells(who, what, column, kind)
        if cells.kind == CATEGORY and kind is None:
            check_names(who, what, [v for v in cells.values if v is not None])
    except CovaryError as error:
        text = sentence(error).removeprefix(f"{who}: ")
        text = re.sub(r"\bat row (\d+)", lambda m: table.where(int(m[1])), text).replace(" of X ", f" of {table.name!r} ", 1)
        option = f"with --ignore {shlex.quote(name)}"
        text = text.replace("leave it out", f"leave it out {option}" if name in ignorable else "leave it out")
        say = f"say --categories {shlex.quote(name)}"
        other = f"{say}, or leave the column out {option}" if name in ignorable else say
        text = text.replace("make the column categorical", other).replace("make it categorical", say)
        raise BadData(text) from None
    values: Any = cells.values
    if cells.kind == BOOLEAN:
        values = pd.array([None if np.isnan(v) else bool(v) for v in values], dtype="boolean")
    elif cells.kind == CATEGORY:
        texts = pd.Series(values, dtype=object)
        values = pd.Categorical(texts, sorted(texts.dropna().unique())) if declared else texts.to_numpy()
    elif cells.kind != NUMBER and cells.aware:
        values = pd.Series(values).dt.tz_localize("UTC").array
    return pd.Series(values, index=column.index)


def check_gaps(table: Table, values: Frame, names: Sequence[str], rows: np.ndarray, ignorable: Collection[str]) -> None:
    """Refuse missing entries of these columns in these rows, naming the first and what can be done."""
    missing = values[list(names)].isna().to_numpy(bool) & rows[:, None]
    if missing.any():
        raise BadData(_missing(table, names, missing, ignorable, choices=True))


def numbers(
    table: Table,
    names: Sequence[str],
    *,
    drop_missing: bool,
    ignorable: Collection[str] = (),
    labels: Collection[str] = (),
) -> tuple[Frame, np.ndarray]:
    """The columns as finite float64, and which rows were kept: rows with a missing entry are dropped or refused.

    Text is refused, naming the column and the first such value; so is infinity. Leaving a column out is advised for the
    ``ignorable`` ones only. The columns in ``labels`` name classes and stay as they are.
    """
    import pandas as pd

    frame = table.frame
    if not len(frame):
        raise BadData(f"{table.name!r} has column names but no rows; give at least one.")
    taken = {}
    for name in names:
        column = frame[name]
        if column.isna().all():
            raise BadData(f"column {shown(name)} of {table.name!r} is empty; {_or('fill it', name, ignorable)}.")
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
        raise BadData(_missing(table, names, missing, ignorable))
    if not kept.any():
        worst = int(missing.sum(0).argmax())
        count = f"{missing[:, worst].sum()} of {len(frame)} in {shown(names[worst])}"
        raise BadData(
            f"every row of {table.name!r} has a missing value ({count}); {_or('fill them', names[worst], ignorable)}."
        )
    values = values[kept]
    _check_size(table, values[[name for name in names if name not in labels]], kept)
    return values, kept


def _or(do: str, name: str, ignorable: Collection[str]) -> str:
    """What to do, or which option leaves the column out."""
    return f"{do}, or leave the column out with --ignore {shlex.quote(name)}" if name in ignorable else do


def _numeric(table: Table, name: str, column: Column, ignorable: Collection[str]) -> Column:
    """Numbers from a column of mixed objects (true and false with gaps, very long integers), or the sentence about its text."""
    import pandas as pd

    number: Any = column
    if column.dtype.kind in "mM":
        kind, bad = "dates or times", ~column.isna()
    else:
        kind = "text"
        number = pd.to_numeric(column.map(_truth, na_action="ignore").astype(object), errors="coerce")
        bad = number.isna() & ~column.isna()
    if not bad.any():
        return number.astype(np.float64)
    row, many = int(np.flatnonzero(bad.to_numpy())[0]), int(bad.sum())
    what = f"{shown(column.iloc[row])} {table.where(row)}" + (f", {many} such values in all" if many > 1 else "")
    do = _or("correct it" if many == 1 else "turn it into numbers", name, ignorable)
    raise BadData(f"column {shown(name)} of {table.name!r} holds {kind} ({what}); {do}.")


def _truth(value: Any) -> Any:
    """1 and 0 for true and false, also as words; everything else as it is."""
    if isinstance(value, str):
        return {"true": 1.0, "false": 0.0}.get(value.strip().lower(), value)
    return float(value) if isinstance(value, bool | np.bool_) else value


def _missing(
    table: Table, names: Sequence[str], missing: np.ndarray, ignorable: Collection[str], *, choices: bool = False
) -> str:
    row = int(np.flatnonzero(missing.any(1))[0])
    first = int(np.flatnonzero(missing[row])[0])
    name, many, rows = names[first], int(missing[:, first].sum()), int(missing.any(1).sum())
    count = f"{many} missing in this column" + (f", {rows} rows with a gap in all" if rows > many else "")
    do = "leave such rows out with --drop-missing"
    if choices and name in ignorable:
        do += ", choose what to do with --missing drop, impute or indicator"
    do = _or(do, name, ignorable)
    return f"column {shown(name)} of {table.name!r} has no value {table.where(row)} ({count}); {do}."


def _check_size(table: Table, values: Frame, kept: np.ndarray) -> None:
    """Refuse infinity, and numbers whose squares leave the range of floats."""
    from covary.estimators.inputs import LARGEST

    bad = ~(np.abs(values.to_numpy()) <= LARGEST)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        value, many = values.iloc[row, column], int(bad[:, column].sum())
        where = table.where(int(np.flatnonzero(kept)[row]))
        more = f" ({many} such values)" if many > 1 else ""
        do = "rescale the column" if np.isfinite(value) else "correct it, or remove the row"  # type: ignore[arg-type]
        raise BadData(f"column {shown(values.columns[column])} of {table.name!r} is {value:g} {where}{more}; {do}.")


def check_sign(
    table: Table, name: str, values: np.ndarray, kept: np.ndarray, *, option: str = "", positive: bool = False
) -> None:
    """Refuse a noise or weight column below zero, a size column at zero too."""
    bad = values <= 0 if positive else values < 0
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        where, given = table.where(int(np.flatnonzero(kept)[row])), f", given by {option}," if option else ""
        do = "give positive numbers" if positive else "give zero or more"
        raise BadData(f"column {shown(name)} of {table.name!r}{given} is {values[row]:g} {where}; {do}.")


def in_the_file(text: str, table: Table, kept: np.ndarray, target: str) -> str:
    """What an estimator says of rows and y, as the lines and the column of the file."""
    rows = np.flatnonzero(kept)
    text = re.sub(r"\bat row (\d+)", lambda m: table.where(int(rows[int(m[1])])), text)
    text = text.replace(" of X ", f" of {table.name!r} ")
    return re.sub(r"^(an ordinal )?y\b", lambda _: f"column {shown(target)} of {table.name!r}", text)
