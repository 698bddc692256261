"""Rows foretold by all the others of a committee, without fitting again.

A row is known to one expert alone. What that expert says of it without having seen it (R&W, eq. 5.12) takes the place of what
it says, and all the others say what they say: the sums of the committee lose one part and gain another. Rows that all experts
share cannot be left out like this. Where the rows are on disk, those of the sample at hand are left out, and each expert finds
its own among them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from covary.committee.expert import foretold, places
from covary.committee.rules import Sums
from covary.prediction import Spread

MOST = 1000  # rows that are left out


def left_out(posterior: Any, *, most: int = MOST, key: int = 0) -> tuple[np.ndarray, Spread]:
    """Some rows, drawn by a seed, and what all others say of the latent function there; NaN where Laplace's method cannot say.

    Parameters
    ----------
    posterior
        Of a committee, with one latent function.
    most
        How many rows at most.
    key
        The seed.

    Examples
    --------
    >>> from covary import GP, Data, Model, condition
    >>> from covary.committee import Committee
    >>> x = np.linspace(0.0, 6.0, 60)[:, None]
    >>> post = condition(Model(GP("Matern52()")), Data(x, np.sin(x[:, 0])), gram=Committee(3, rule="bcm"))
    >>> rows, said = left_out(post)
    >>> len(rows), bool((said.variance > post.predict(x).f.variance).all())
    (60, True)
    """
    bound, data = posterior.bound, posterior.data
    whose = None if bound.elsewhere else _whose(bound, data.rows)
    if whose is not None:
        own = whose[0] >= 0
    elif bound.common is None:
        own = np.ones(data.rows, bool)
    else:
        own = places(bound.common, data.X, data.y) < 0
    rows = np.sort(np.random.default_rng(key).permutation(np.flatnonzero(own))[:most])
    X, y = data.X.take(rows), data.y[rows]
    start = None if bound.common is None else bound.common.latent(X)
    asked = bound.asked(X)
    known = None if whose is None else (whose[0][rows], whose[1][rows])
    found = bound.ask(foretold, bound.rule, X, y, known, start, asked, wanted=asked.wanted)
    total: Any = None
    for sums, _ in found:
        total = sums if total is None else total + sums
    mean, variance = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    if total is not None:  # holds as it is where the expert that knows the row is not asked about it
        every = bound.rule.verdict(total)
        mean, variance = every.mean, every.variance
    for _, group in found:
        for mine, alone, spread, new, old in group:
            said = Spread(alone, spread) if total is None else _exchanged(bound.rule, total, mine, new, old)
            mean[mine], variance[mine] = said.mean, said.variance
    return rows, Spread(mean, variance)


def _whose(bound: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Of rows at hand: the expert of each (-1 where all share it), and its place among the expert's rows."""
    owners, place = np.full(count, -1), np.zeros(count, np.int64)
    shared = 0 if bound.shared is None else bound.shared.rows  # they stand before an expert's own
    for number, own in enumerate(bound.settled.rows):
        owners[own], place[own] = number, shared + np.arange(len(own))
    return owners, place


def _exchanged(rule: Any, total: Sums, mine: np.ndarray, new: Sums, old: Sums) -> Spread:
    """The verdict with one expert's opinion exchanged for the one it had without the row."""
    fields = Sums.__dataclass_fields__
    return rule.verdict(Sums(*(getattr(total, name)[mine] - getattr(old, name) + getattr(new, name) for name in fields)))
