"""Rows foretold by all the others of a committee, without fitting again.

A row is known to one expert alone. What that expert says of it without having seen it (R&W, eq. 5.12) takes the place of what
it says, and all the others say what they say: the sums of the committee lose one part and gain another. Rows that all experts
share cannot be left out like this.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from covary.committee.expert import without
from covary.committee.rules import Sums
from covary.prediction import Spread

MOST = 1000  # rows that are left out


def left_out(posterior: Any, *, most: int = MOST, key: int = 0) -> tuple[np.ndarray, Spread]:
    """Some rows, drawn by a seed, and what all others say of the latent function there; NaN where Laplace's method cannot say.

    Parameters
    ----------
    posterior
        Of a committee whose rows are at hand, with one latent function.
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
    owners = np.full(data.rows, -1)
    places = np.zeros(data.rows, np.int64)
    for number, own in enumerate(bound.settled.rows):
        owners[own], places[own] = number, np.arange(len(own))
    rows = np.random.default_rng(key).permutation(np.flatnonzero(owners >= 0))[:most]
    rows = np.sort(rows)
    X = data.X.take(rows)
    start = None if bound.common is None else bound.common.latent(X)
    asked = bound.asked(X)
    total = None if bound.rule.local else bound.opinions(X)
    mean, variance = np.empty(len(rows)), np.empty(len(rows))
    if total is not None:  # holds as it is where the expert that knows the row is not asked about it
        every = bound.rule.verdict(total)
        mean, variance = every.mean, every.variance
    shared = 0 if bound.shared is None else bound.shared.rows  # they stand before an expert's own
    for group in bound.ask(without, bound.rule, X, owners[rows], shared + places[rows], start, asked):
        for mine, alone, spread, new, old in group:
            said = Spread(alone, spread) if total is None else _exchanged(bound.rule, total, mine, new, old)
            mean[mine], variance[mine] = said.mean, said.variance
    return rows, Spread(mean, variance)


def _exchanged(rule: Any, total: Sums, mine: np.ndarray, new: Sums, old: Sums) -> Spread:
    """The verdict with one expert's opinion exchanged for the one it had without the row."""
    fields = Sums.__dataclass_fields__
    return rule.verdict(Sums(*(getattr(total, name)[mine] - getattr(old, name) + getattr(new, name) for name in fields)))
