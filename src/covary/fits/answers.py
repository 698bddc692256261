"""Predictions for the rows of a table, with flags, notes, and scores if the table contains the true values."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from covary._errors import CovaryError, Option, Text
from covary._words import counted
from covary.fits import scores
from covary.fits.family import AbstractFamily, Answer, Json, family_of
from covary.fits.fit import AnyFit
from covary.tables.columns import Columns, Mapped, unseen_words
from covary.tables.labels import codes_of, label_text, probability_titles
from covary.tables.observed import spread
from covary.tables.roles import check_gaps, check_sign, input_frame, known, numbers
from covary.tables.table import Frame, Table, bad, in_file, is_text, shown, wrong

FLAG = "flag"


class NoAnswer(CovaryError):
    """Error raised if predictions are not finite or cannot be computed."""


class Watch(Protocol):
    """Progress display."""

    def stage(self, text: str) -> None: ...

    def at(self, text: str, fraction: float, seconds: float) -> None: ...


@dataclass
class Predicted:
    """Predictions for the rows of a table: output columns by title, scores by target, and notes."""

    columns: dict[str, np.ndarray] = field(default_factory=dict)
    scores: dict[str, dict[str, scores.Score]] = field(default_factory=dict)
    notes: list[Text] = field(default_factory=list)
    moments: dict[str, scores.Moments] = field(default_factory=dict)  # of the known values, to combine scores of parts


@dataclass(frozen=True)
class Question:
    """A request for predictions; ``size`` is the column of trials or exposures, if any."""

    fit: AnyFit
    level: float = 0.95
    latent: bool = False
    size: str | None = None
    drop_missing: bool = False
    scored: bool = True

    @property
    def inputs(self) -> list[str]:
        """The names of the input columns."""
        return [column.name for column in self.fit.columns.each]

    @property
    def family(self) -> AbstractFamily[object]:
        """The family of the fit."""
        return family_of(self.fit)

    @property
    def titles(self) -> list[str]:
        """The names of the output columns, without the flag."""
        return self.family.titles(self.fit, latent=self.latent)

    @property
    def reads(self) -> set[str]:
        """The columns that are used, including those of known targets."""
        return {*self.inputs, *self.fit.target, *([] if self.size is None else [self.size])}

    def answer(self, table: Table, watch: Watch) -> tuple[Predicted, np.ndarray]:
        """Return predictions and a mask of the rows predicted; raise an error for missing values that are not allowed."""
        given, kept = input_frame(table, self.inputs, kinds=kinds(self.fit)), np.ones(len(table.frame), bool)
        if self.drop_missing:
            kept = ~given.isna().any(axis=1).to_numpy()
        elif self.fit.columns.missing == "refuse":
            check_gaps(table, given, self.inputs, kept, ())
        size = None
        if self.size is not None:
            values, there = numbers(table, [self.size], drop_missing=self.drop_missing)
            kept = kept & there
            size = self._sizes(table, values.reindex(table.frame.index)[kept][self.size].to_numpy(), kept)
        if not kept.any():
            raise bad(f"every row of {table.name!r} has a missing value", "fill in the missing values")
        return predicted(self, table, given, kept, size, watch), kept

    def _sizes(self, table: Table, size: np.ndarray, kept: np.ndarray) -> np.ndarray:
        assert self.size is not None
        check_sign(table, self.size, size, kept, positive=True)
        sizes, broken = self.family.sizes(self.fit), size != np.floor(size)
        if sizes is not None and sizes.whole and broken.any():
            i = int(np.flatnonzero(broken)[0])
            row = int(np.flatnonzero(kept)[i])
            what = f"column {shown(self.size)} of {table.name!r} is {size[i]:g} {table.where(row)}"
            raise bad(what, "give whole numbers of trials", row=row, column=self.size)
        return size


# tables and fits --------------------------------------------------------------------------------------------------
def can_flag(fit: AnyFit) -> bool:
    """Return whether individual rows may be flagged."""
    return fit.columns.missing != "refuse" or bool(fit.columns.places("category"))


def kinds(fit: AnyFit) -> dict[str, str]:
    """Return the kind of each input column in the training data."""
    return {column.name: column.kind for column in fit.columns.each}


def levels(fit: AnyFit) -> dict[str, Sequence[str]]:
    """Return the categories seen during fit by column, and the class labels under the name of the target."""
    found: dict[str, Sequence[str]] = {column.name: column.levels for column in fit.columns.each if column.levels}
    if fit.classes is not None:
        found |= {name: [str(label) for label in fit.classes.values.tolist()] for name in fit.target}
    return found


def size_name(fit: AnyFit, made: Mapping[str, Json], table: Table, given: str | None) -> tuple[str | None, list[Text]]:
    """Return the column of trials or exposures, if any, and a note if it is missing but the model was fitted with sizes."""
    sizes = family_of(fit).sizes(fit)
    if given is not None:
        if sizes is None:
            name = family_of(fit).facts(fit).get("likelihood", fit.family)
            what = Option("size_column") + f" requires counts or binomial successes, but the model is {name}"
            raise wrong("size_column", what, "leave it out")
        return known(given, table, "size_column"), []
    if sizes is None or not sizes.given:
        return None, []
    usual = made.get("size column")
    if isinstance(usual, str) and usual in table.columns:
        return usual, []
    lacks = (
        f"{table.name!r} has no column {shown(usual)}"
        if isinstance(usual, str)
        else "no " + Option("size_column") + " is given"
    )
    return None, [lacks + ": predictions are for a size of 1, and not scored"]


# predictions ------------------------------------------------------------------------------------------------------
def predicted(q: Question, table: Table, inputs: Frame, rows: np.ndarray, size: np.ndarray | None, watch: Watch) -> Predicted:
    """Predict some rows of a table, with a ``flag`` column if individual rows may need one."""
    columns = q.fit.columns
    found = mapped(q, table, inputs, rows)
    gone = found.gone
    if gone.all():
        raise bad(f"every row of {table.name!r} lacks an input of the model", "fill in some of them")
    kept = rows.copy()
    kept[np.flatnonzero(rows)[gone]] = False
    size, truth = None if size is None else size[~gone], Truth.of(q, table, kept)
    x = found.x[~gone]
    out = Predicted(notes=_notes(columns, found))
    answer = _in_parts(q, x, size, truth.y, watch)
    of_new = answer
    if q.latent and truth.known.any():  # scores refer to new observations
        of_new = _in_parts(Question(q.fit, q.level), x, size, truth.y, watch)
    truth.judge(of_new, out)
    out.notes += answer.notes
    out.columns = {title: spread(column, ~gone) for title, column in answer.columns.items()}
    if can_flag(q.fit):
        out.columns[FLAG] = found.flags()
    return out


def mapped(q: Question, table: Table, inputs: Frame, rows: np.ndarray) -> Mapped:
    """Return some rows of a table as the numeric inputs of the model."""
    try:
        found = q.fit.columns.matrix("table", inputs[rows])
        q.family.check(q.fit, found)
    except CovaryError as error:
        raise in_file(error, table, np.flatnonzero(rows)) from None
    return found


def _notes(columns: Columns, found: Mapped) -> list[Text]:
    notes: list[Text] = [*unseen_words(found), *columns.unmarked(found)]
    filled = int(np.any([np.zeros(len(found.x), bool), *found.filled.values()], axis=0).sum())
    gone = int(found.gone.sum())
    if filled:
        notes.append(f"{counted(filled, 'row')} with a missing input, imputed as during fit: see column {FLAG}")
    if gone:
        notes.append(f"{counted(gone, 'row')} with a missing input, left without a prediction: see column {FLAG}")
    return notes


def _in_parts(q: Question, x: np.ndarray, size: np.ndarray | None, truth: np.ndarray | None, watch: Watch) -> Answer:
    """Return the predictions of the family, computed for some rows at a time."""
    began, parts, rows = time.perf_counter(), list[Answer](), len(x)
    watch.stage("predicting")
    for part in _parts(rows, q.family.together(q.fit)):
        given = [None if a is None else a[part] for a in (size, truth)]
        try:
            parts.append(q.family.predict(q.fit, x[part], level=q.level, latent=q.latent, size=given[0], truth=given[1]))
        except MemoryError:
            raise
        except CovaryError as error:
            raise error.turned(NoAnswer) from None
        watch.at("predicting", min(1.0, part.stop / rows), time.perf_counter() - began)
    columns = {title: np.concatenate([part.columns[title] for part in parts]) for title in parts[0].columns}
    notes = dict.fromkeys(note for part in parts for note in part.notes)
    for title, column in columns.items():
        if title.endswith("std") and np.isinf(column).any():
            columns[title] = np.where(np.isfinite(column), column, np.nan)
            notes["std is left empty where it is infinite: the noise is heavy-tailed"] = None
        elif column.dtype.kind == "f" and not np.isfinite(column).all() and not title.endswith("std"):
            what = "some predictions are not finite"
            raise NoAnswer("predict", what, "look for inputs far outside the range the model was fitted to")
    known = [part.log_prob for part in parts if part.log_prob is not None]
    return Answer(columns, tuple(notes), np.concatenate(known) if len(known) == len(parts) else None)


def _parts(rows: int, step: int) -> Iterator[slice]:
    return (slice(start, start + step) for start in range(0, rows, step))


# known values -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Truth:
    """Known target values of the predicted rows: numbers (NaN if unknown), or class codes."""

    q: Question
    table: Table
    kept: np.ndarray
    y: np.ndarray | None
    codes: np.ndarray | None = None

    @staticmethod
    def of(q: Question, table: Table, kept: np.ndarray) -> Truth:
        """Read the known values of the kept rows of a table."""
        names = [name for name in q.fit.target if name in table.columns]
        if not q.scored or not names:
            return Truth(q, table, kept, None)
        if q.fit.classes is not None:
            return Truth(q, table, kept, None, codes_of(table.frame.loc[kept, names[0]], q.fit.classes.values))
        y = np.full((int(kept.sum()), len(q.fit.target)), np.nan)
        for j, name in enumerate(q.fit.target):
            if name in names and not is_text(table.frame[name]):
                y[:, j] = table.frame.loc[kept, name].to_numpy(np.float64, na_value=np.nan)
        y[~np.isfinite(y)] = np.nan
        return Truth(q, table, kept, None if np.isnan(y).all() else y[:, 0] if y.shape[1] == 1 else y)

    @property
    def known(self) -> np.ndarray:
        """A mask of the known values."""
        if self.codes is not None:
            return self.codes >= 0
        return np.zeros(1, bool) if self.y is None else np.isfinite(self.y)

    def judge(self, answer: Answer, out: Predicted) -> None:
        """Add scores of predictions to ``out``, and notes about rows left out of them."""
        if self.codes is not None:
            self._classes(self.codes, answer, out)
        elif self.y is not None:
            several = len(self.q.fit.target) > 1
            for j, name in enumerate(self.q.fit.target):
                self._numbers(name, j if several else None, answer, out)

    def _numbers(self, name: str, j: int | None, answer: Answer, out: Predicted) -> None:
        assert self.y is not None
        y, log_prob = (a if a is None or j is None else a[:, j] for a in (self.y, answer.log_prob))
        assert y is not None
        seen, head = np.isfinite(y), "" if j is None else f"{name}_"
        if log_prob is not None:
            impossible = seen & np.isnan(log_prob)
            if impossible.any():
                out.notes.append(self._left_out(impossible, name, "a value that is impossible under the model"))
            seen = seen & ~impossible
        own = [f"{head}{part}" for part in ("mean", "lower", "upper")]
        if seen.any() and (log_prob is not None or not answer.columns.keys().isdisjoint(own)):
            mean, lower, upper = (None if part is None else part[seen] for part in map(answer.columns.get, own))
            out.scores[name] = scores.of_numbers(y[seen], mean, lower, upper, None if log_prob is None else log_prob[seen])
            out.moments[name] = scores.moments(y[seen])

    def _classes(self, codes: np.ndarray, answer: Answer, out: Predicted) -> None:
        classes, name = self.q.fit.classes, self.q.fit.target[0]
        assert classes is not None
        if (codes == -1).any():
            out.notes.append(self._left_out(codes == -1, name, "a class unknown to the model"))
        seen, own = codes >= 0, probability_titles(classes.values)
        if seen.any() and answer.columns.keys() >= set(own):
            p = np.stack([answer.columns[title] for title in own], axis=1)
            out.scores[name] = scores.of_classes(codes[seen], p[seen], classes.values, classes.counts)

    def _left_out(self, wrong: np.ndarray, name: str, what: str) -> str:
        """Return a note about rows that cannot be scored, with the first of them."""
        row = int(np.flatnonzero(self.kept)[int(np.flatnonzero(wrong)[0])])
        first = f"{shown(label_text(self.table.frame[name].iloc[row]))} {self.table.where(row)}"
        return f"{name}: {counted(int(wrong.sum()), 'row')} with {what} ({first}) left out of the scores"
