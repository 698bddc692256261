"""What a model says of the rows of a table: output columns, scores where the truth is known, and what should be said."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from covary._checks import CovaryError, NotPositiveDefinite
from covary._words import counted
from covary.cli import scores
from covary.cli.classes import codes_of, label_text
from covary.cli.doors import BadUsage, NoAnswer, sentence
from covary.cli.facts import likelihood_name
from covary.cli.progress import Bar
from covary.cli.tables import Frame, Table, is_text, shown
from covary.data import Inputs

CHUNK, COMMITTEE = 10_000, 100_000  # rows predicted between two looks at the clock; by experts, who may have to read
PARTS = ("mean", "std", "lower", "upper")


@dataclass
class Answer:
    """What a model says of a table: output columns by title, scores by target, and what should be said besides."""

    columns: dict[str, np.ndarray] = field(default_factory=dict)
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    moments: dict[str, scores.Moments] = field(default_factory=dict)  # of the known values, for scores of several parts


@dataclass(frozen=True)
class Question:
    """A model, the rows it is asked about, and how."""

    estimator: Any
    table: Table
    targets: list[str]
    values: Frame
    kept: np.ndarray
    level: float
    latent: bool
    size: np.ndarray | None
    progress: Bar

    def in_parts(self, ask: Callable[[slice], Sequence[np.ndarray]]) -> list[np.ndarray]:
        """What ``ask`` says of some rows, for all of them, with a bar."""
        began, parts, rows = time.perf_counter(), [], len(self.values)
        self.progress.stage("predicting")
        step = COMMITTEE if composite(self.estimator) else CHUNK
        for start in range(0, rows, step):
            try:
                parts.append(ask(slice(start, start + step)))
            except MemoryError:
                raise
            except CovaryError as error:
                raise NoAnswer(sentence(error)) from None
            self.progress.at("predicting", min(1.0, (start + step) / rows), time.perf_counter() - began)
        return [np.concatenate(part) for part in zip(*parts, strict=True)]

    def part(self, rows: slice) -> Inputs:
        """Some rows as the numbers the kernels see."""
        return Inputs(self.values.iloc[rows].to_numpy(np.float64))

    def truth(self, name: str) -> np.ndarray | None:
        """The known values of a target of numbers, NaN where there is none; None if the table does not hold it."""
        if name not in self.table.columns or is_text(self.table.frame[name]):
            return None
        y = self.table.frame.loc[self.kept, name].to_numpy(np.float64, na_value=np.nan)
        return y if np.isfinite(y).any() else None

    def left_out(self, bad: np.ndarray, name: str, what: str) -> str:
        """The sentence about rows that cannot be scored, with the first of them."""
        row = int(np.flatnonzero(self.kept)[int(np.flatnonzero(bad)[0])])
        value, many = self.table.frame[name].iloc[row], int(bad.sum())
        first = f"{shown(label_text(value))} {self.table.where(row)}"
        return f"{name}: {counted(many, 'row')} with {what} ({first}) left out of the scores"


def composite(estimator: Any) -> bool:
    """Whether a model is a committee of experts."""
    return bool(getattr(getattr(getattr(estimator, "posterior_", None), "bound", None), "composite", False))


def output_titles(estimator: Any, targets: list[str], latent: bool = False) -> list[list[str]]:
    """The names of the output columns, a list for each target: four, or the class and the probability of each."""
    if hasattr(estimator, "classes_"):
        if latent and len(estimator.classes_) > 2:
            raise BadUsage(f"--latent goes with two classes, and the model has {len(estimator.classes_)}; leave it out.")
        if not latent:
            return [["class", *(f"p_{label_text(label)}" for label in estimator.classes_.tolist())]]
    heads = [""] if len(targets) == 1 else [f"{name}_" for name in targets]
    return [[f"{head}{part}" for part in PARTS] for head in heads]


def answer_of(q: Question, *, scored: bool = True) -> Answer:
    """The answer of whatever model there is."""
    if hasattr(q.estimator, "classes_"):
        answer = classes(q)
    elif likelihood_name(q.estimator) == "gaussian" and q.estimator.posterior_.scale is None:
        answer = measurements(q)
    else:
        answer = others(q, scored)
    for title, column in answer.columns.items():
        if column.dtype.kind == "f" and not np.isfinite(column).all() and not title.endswith("std"):
            raise NoAnswer("some predictions are not finite; look for inputs far outside the range the model was fitted to.")
    return answer


def measurements(q: Question) -> Answer:
    """Gaussian noise, one target or several."""
    from scipy.special import ndtri

    def ask(rows: slice, latent: bool) -> list[np.ndarray]:
        part = q.part(rows)
        return [np.reshape(a, (part.rows, -1)) for a in q.estimator.predict(part, return_std=True, latent=latent)]

    mean, std = q.in_parts(lambda rows: ask(rows, q.latent))
    if not np.isfinite(std).all():
        raise NoAnswer("some predictions are not finite; look for inputs far outside the range the model was fitted to.")
    half = float(ndtri(0.5 + q.level / 2)) * std
    answer, noisy = Answer(), None if q.latent else (mean, std)
    for j, titles in enumerate(output_titles(q.estimator, q.targets)):
        answer.columns |= dict(zip(titles, (a[:, j] for a in (mean, std, mean - half, mean + half)), strict=True))
    for j, name in enumerate(q.targets):
        truth = q.truth(name)
        if truth is not None:
            noisy = q.in_parts(lambda rows: ask(rows, False)) if noisy is None else noisy
            seen = np.isfinite(truth)
            answer.scores[name] = scores.of_numbers(truth[seen], noisy[0][seen, j], noisy[1][seen, j], q.level)
            answer.moments[name] = scores.moments(truth[seen])
    return answer


def others(q: Question, scored: bool) -> Answer:
    """Another likelihood: intervals from its own quantiles, scores from its own density."""
    from scipy.special import ndtri

    post, answer, name = q.estimator.posterior_, Answer(), q.targets[0]
    truth = q.truth(name) if scored else None
    y = np.full(len(q.values), np.nan) if truth is None else truth
    can_be = scores.possible(post.model.likelihood, y, q.size)
    if (np.isfinite(y) & ~can_be).any():
        answer.notes.append(q.left_out(np.isfinite(y) & ~can_be, name, "a value the model holds impossible"))
    ends = [float(ndtri(0.5 - q.level / 2)), float(ndtri(0.5 + q.level / 2))]

    def ask(rows: slice) -> list[np.ndarray]:
        found = post.predict(q.part(rows), size=None if q.size is None else q.size[rows])
        f, seen = found.f, can_be[rows]
        mean, std = (f.mean, f.std) if f.mean.ndim == 1 else (f.mean[:, 0], f.std[:, 0])  # of noise that varies, the function
        log_prob = np.full(len(mean), np.nan)
        if seen.any():
            log_prob[seen] = _log_prob(found.y, seen, y[rows][seen])
        return [found.y.mean, found.y.std, *found.y.interval(q.level), log_prob, mean, std, *(mean + e * std for e in ends)]

    found = q.in_parts(ask)
    answer.columns = dict(zip(PARTS, found[5:] if q.latent else found[:4], strict=True))
    if not np.isfinite(answer.columns["std"]).all():
        answer.columns["std"] = np.where(np.isfinite(answer.columns["std"]), answer.columns["std"], np.nan)
        answer.notes.append("std is left empty where it is infinite: the noise has tails too long for one")
    if can_be.any():
        mean, _, lower, upper, log_prob = (a[can_be] for a in found[:5])
        answer.scores[name] = scores.of_others(y[can_be], mean, lower, upper, log_prob)
        answer.moments[name] = scores.moments(y[can_be])
    return answer


def _log_prob(observed: Any, rows: np.ndarray, y: np.ndarray) -> Any:
    """The log density of what was observed at some of the rows; −∞ where it is too small for a number."""
    from covary.prediction import Observed, Spread

    latent = Spread(observed.latent.mean[rows], observed.latent.variance[rows])
    size = None if observed.size is None else observed.size[rows]
    some = Observed(observed.mean[rows], observed.variance[rows], observed.likelihood, latent, size)
    try:
        return some.log_prob(y)
    except NotPositiveDefinite:
        return -np.inf


def classes(q: Question) -> Answer:
    """The class and the probability of each, or the latent function of two."""
    known_classes, name = q.estimator.classes_, q.targets[0]

    def ask(rows: slice) -> list[np.ndarray]:
        part = q.part(rows)
        p = q.estimator.predict_proba(part)
        return [p, *q.estimator.predict_latent(part, return_std=True)] if q.latent else [p]

    p, *latent = q.in_parts(ask)
    answer, titles = Answer(), output_titles(q.estimator, q.targets, q.latent)[0]
    if latent:
        from scipy.special import ndtri

        half = float(ndtri(0.5 + q.level / 2)) * latent[1]
        answer.columns = dict(zip(titles, (*latent, latent[0] - half, latent[0] + half), strict=True))
    else:
        decided = known_classes[p.argmax(1)]
        if decided.dtype.kind == "S":
            decided = np.array([label_text(label) for label in decided.tolist()])
        answer.columns = dict(zip(titles, (decided, *p.T), strict=True))
    if name in q.table.columns:
        codes = codes_of(q.table.frame.loc[q.kept, name], known_classes)
        if (codes == -1).any():
            answer.notes.append(q.left_out(codes == -1, name, "a class the model does not know"))
        seen = codes >= 0
        if seen.any():
            answer.scores[name] = scores.of_classes(codes[seen], p[seen], known_classes, q.estimator.class_count_)
    return answer
