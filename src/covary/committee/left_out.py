"""Rows foretold by all the others of a committee, without fitting again.

A row is known to one expert alone. What that expert says of it without having seen it (R&W, eq. 5.12) takes the place of what
it says, and all the others say what they say: the sums of the committee lose one part and gain another. Rows that all experts
share cannot be left out like this.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from covary.committee.expert import prior, same
from covary.committee.rules import Sums
from covary.prediction import Spread

MOST = 1000  # rows that are left out


def left_out(posterior: Any, *, most: int = MOST, key: int = 0) -> tuple[np.ndarray, Spread]:
    """Some rows, drawn by a seed, and what all others say of the latent function there.

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
    local = bound.rule.local or bound.held.experts == 1
    total = None if local else bound.opinions(X)
    mean, variance = np.empty(len(rows)), np.empty(len(rows))
    shared = 0 if bound.shared is None else bound.shared.rows  # they stand before an expert's own
    kept = bound.posteriors()
    for i, group in enumerate(bound.held.map(same)):
        found = bound.experts_of(group) if kept is None else kept[i]
        for number, post in zip(group.numbers, found, strict=True):
            mine = np.flatnonzero(owners[rows] == number)
            if not len(mine):
                continue
            out = post.leave_one_out()
            at = shared + places[rows[mine]]
            alone = Spread(out.mean[at], out.variance[at])
            if local and bound.common is None:
                mean[mine], variance[mine] = alone.mean, alone.variance
                continue
            here = X.take(mine)
            own = prior(post.model, here) if start is None else Spread(start.mean[mine], start.variance[mine])
            said = post.latent(here)
            verdict = _exchanged(bound.rule, total, mine, said, alone, own, number == 0)
            mean[mine], variance[mine] = verdict.mean, verdict.variance
    return rows, Spread(mean, variance)


def _exchanged(
    rule: Any, total: Sums | None, mine: np.ndarray, said: Spread, alone: Spread, own: Spread, first: bool
) -> Spread:
    """The verdict with one expert's opinion exchanged for the one it had without the row."""
    new = rule.opinion(alone, own, first)
    if total is None:
        return rule.verdict(new)
    old = rule.opinion(said, own, first)
    fields = [name for name in Sums.__dataclass_fields__ if name != "experts"]
    parts = [getattr(total, name)[mine] - getattr(old, name) + getattr(new, name) for name in fields]
    return rule.verdict(Sums(*parts, total.experts))
