"""What was foretold of rows, beside what was seen there: the table that every check of the error bars reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from covary.data import as_inputs
from covary.diagnosis.cavities import Latent, at_new, left_out, share_left
from covary.diagnosis.subject import Subject
from covary.prediction import Mixed, Spread

MOST = 4000  # rows whose distribution is integrated over, where the likelihood is not Gaussian noise
EDGE = 1e-16  # the least probability that becomes a standardised error


@dataclass(frozen=True)
class Foretold:
    """What was foretold of m rows by others, beside what was seen: arrays (m, p) for p outputs, (m, C) for C classes.

    ``kind`` is ``"leave-one-out"``, ``"new rows"`` or ``"in-sample"``, ``how`` says how it was found; ``rows`` are the places
    among the rows given, ``total`` how many those were; ``share`` is what is left of the prior's variance. ``pit`` is the
    probability of an observation below the one seen, uniform if the predictions are right (drawn between its ends where
    observations are whole numbers); ``z`` the same on the scale of a standard normal. Of classes ``y`` holds the codes (m, 1)
    and ``p`` their probabilities; mean, std, pit and z are empty. ``ends`` are those of the 95 % intervals, (m, 1) each, where
    they are not 1.96 standard deviations from the mean; under noise that is not Gaussian they come by ``with_ends``.
    """

    kind: str
    how: str
    rows: np.ndarray = field(repr=False)
    total: int
    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    share: np.ndarray = field(repr=False)
    mean: np.ndarray = field(repr=False)
    std: np.ndarray = field(repr=False)
    pit: np.ndarray = field(repr=False)
    z: np.ndarray = field(repr=False)
    p: np.ndarray | None = field(default=None, repr=False)
    ends: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)
    find_ends: Callable[[], tuple[np.ndarray, np.ndarray]] | None = field(default=None, repr=False, compare=False)

    def with_ends(self) -> Foretold:
        """The same with the ends of the intervals, which take a second or two where noise is not Gaussian."""
        return self if self.ends is not None or self.find_ends is None else replace(self, ends=self.find_ends())

    def __len__(self) -> int:
        return len(self.rows)


def foretell(subject: Subject, X: Any = None, y: Any = None, *, key: int = 0) -> Foretold:
    """Every training row foretold by the others; or new rows, where their truth is given.

    Parameters
    ----------
    subject
        The fit.
    X, y
        New rows and what was seen there: (m, d), and (m,) or (m, p) in the user's units; codes of classes.
    key
        Seed of the rows taken where there are too many, and of the PIT of whole numbers.
    """
    post, data = subject.post, subject.post.data
    new = X is not None
    inputs = as_inputs(X, "diagnose") if new else data.X
    latents = [at_new(part, inputs.x) if new else left_out(part) for part in subject.posteriors]
    sound = np.all([found.sound for found in latents], axis=0)
    if y is None:
        seen = data.y if not new else None
    else:
        seen = np.asarray(y, np.float64)
        if subject.gaussian:
            seen = (seen - subject.location) / subject.scale
    if seen is None:
        raise ValueError("new rows come with what was seen there")
    rng = np.random.default_rng(key)
    rows = np.flatnonzero(sound)
    if not subject.gaussian and len(rows) > MOST:
        rows = np.sort(rng.choice(rows, MOST, replace=False))
    first = latents[0]
    kind = "new rows" if new else "in-sample" if first.how.startswith("with every row") else "leave-one-out"
    share = share_left(post, inputs.take(rows), first.variance[rows])
    common = {"rows": rows, "total": inputs.rows, "x": np.asarray(inputs.x, np.float64)[rows], "share": share}
    if subject.classes is not None:
        codes = _codes(subject, seen, new)[rows]
        p = _probabilities(subject, [_take(found, rows) for found in latents])
        empty = np.empty((len(rows), 0))
        return Foretold(kind, first.how, y=codes[:, None], mean=empty, std=empty, pit=empty, z=empty, p=p, **common)
    seen, first = seen[rows], _take(first, rows)
    ends: Any = None
    find: Any = None
    if subject.gaussian and first.noisy is not None:
        values = seen.reshape(len(rows), -1)
        mean, std = first.mean.reshape(values.shape), np.sqrt(first.noisy)[:, None] * np.ones(values.shape[1])
        z = (values - mean) / np.maximum(std, np.finfo(float).tiny)
        pit = ndtr(z)
        if post.scale is not None:
            stated = post.predict(inputs).y if new else post.leave_one_out().y
            stated = Mixed(stated.mean[rows], stated.variance[rows], None, stated.unsure[rows])
            ends = tuple(edge[:, None] * subject.scale + subject.location for edge in stated.interval())
            std, pit = stated.std[:, None], stated.cdf(seen)[:, None]
            z = ndtri(np.clip(pit, EDGE, 1 - EDGE))
        scale, location = np.atleast_1d(subject.scale), np.atleast_1d(subject.location)
        values, mean, std = values * scale + location, mean * scale + location, std * scale
    else:
        values, mean, std, pit = (v[:, None] for v in _observed(subject, inputs.take(rows), seen, first, rng))
        z = ndtri(np.clip(pit, EDGE, 1 - EDGE))
        size = seen[:, 1] if seen.ndim == 2 else None
        find = partial(_ends, subject.likelihood.at(inputs.take(rows)), first, size)
    return Foretold(kind, first.how, y=values, mean=mean, std=std, pit=pit, z=z, ends=ends, find_ends=find, **common)


def _ends(likelihood: Any, f: Latent, size: Any) -> tuple[np.ndarray, np.ndarray]:
    low, high = (likelihood.predictive_quantile(q, f.mean, f.variance, size)[:, None] for q in (0.025, 0.975))
    return low, high


def _take(found: Latent, rows: np.ndarray) -> Latent:
    noisy = None if found.noisy is None else found.noisy[rows]
    return Latent(found.mean[rows], found.variance[rows], noisy, found.sound[rows], found.how)


def _codes(subject: Subject, y: np.ndarray, new: bool) -> np.ndarray:
    """The number of each row's class."""
    if new or len(subject.posteriors) == 1:
        return np.asarray(y).astype(int)
    each = np.stack([np.asarray(post.data.y) for post in subject.posteriors], axis=1)
    return each.argmax(1)


def _probabilities(subject: Subject, latents: list[Latent]) -> np.ndarray:
    """The probability of every class (m, C)."""
    if len(latents) > 1:
        each = [
            post.model.likelihood.probability(f.mean, f.variance, "exact")
            for post, f in zip(subject.posteriors, latents, strict=True)
        ]
        p = np.maximum(np.stack(each, axis=1), np.finfo(float).tiny)
        return p / p.sum(1, keepdims=True)
    f, likelihood = latents[0], subject.likelihood
    if f.mean.ndim == 2:
        return likelihood.probabilities(f.mean, f.variance, "exact")
    return np.stack([likelihood.probability(s * f.mean, f.variance, "exact") for s in (-1, 1)], axis=1)


def _observed(
    subject: Subject, X: Any, y: np.ndarray, f: Latent, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Observation, mean, spread and PIT under a likelihood of its own."""
    post, likelihood = subject.post, subject.likelihood.at(X)
    size = y[:, 1] if y.ndim == 2 else None
    value = y[:, 0] if y.ndim == 2 else y
    seen = post._observed(Spread(f.mean, f.variance), size, X)
    std = np.asarray(seen.std, np.float64)
    if not np.isfinite(std).all():  # tails so heavy that there is no variance: the half-width of the middle 68 %
        low, high = (likelihood.predictive_quantile(q, f.mean, f.variance, size) for q in (ndtr(-1.0), ndtr(1.0)))
        std = np.where(np.isfinite(std), std, (high - low) / 2)
    upper = likelihood.predictive_cdf(value, f.mean, f.variance, size)
    if subject.discrete:
        below = np.where(value > 0, likelihood.predictive_cdf(np.maximum(value - 1, 0.0), f.mean, f.variance, size), 0.0)
        upper = below + rng.uniform(size=len(value)) * (upper - below)
    return value, np.asarray(seen.mean, np.float64), std, np.clip(upper, 0.0, 1.0)
