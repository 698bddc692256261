"""Leave-one-out predictions of a committee, without refitting.

Each row belongs to a single expert. The prediction of that expert without the row (R&W, eq. 5.12) replaces its prediction with
the row, and those of the other experts remain, so that a single term in the sums of the committee changes. Rows shared by all
experts cannot be left out in this way. If the rows are on disk, rows of the sample in memory are left out, and each expert
searches for them among its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from covary.committee.expert import places, without_own
from covary.committee.experts import Experts
from covary.committee.rules import AbstractRule, Sums
from covary.data import Data
from covary.posterior import Combination
from covary.prediction import Spread

if TYPE_CHECKING:
    from covary.committee.members import Members


left_out = Combination.left_out


def leave_one_out(members: Members, data: Data, most: int, key: int) -> tuple[np.ndarray, Spread]:
    """Compute the predictions of :meth:`Combination.left_out` from the experts and their rows, or a sample of them."""
    whose = None if members.on_disk else _whose(members, data.rows)
    if whose is not None:
        own = whose[0] >= 0
    elif members.common is None:
        own = np.ones(data.rows, bool)
    else:
        own = places(members.common, data.X, data.y) < 0
    rows = np.sort(np.random.default_rng(key).permutation(np.flatnonzero(own))[:most])
    X, y = data.X.take(rows), data.y[rows]
    start = None if members.common is None else members.common.latent(X)
    asked = members.asked(X)
    known = None if whose is None else (whose[0][rows], whose[1][rows])
    found = members.ask(without_own, members.rule, X, y, known, start, asked, wanted=asked.wanted)
    each = [sums for sums, _ in found if sums is not None]
    total = sum(each[1:], each[0]) if each else None
    mean, variance = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    if total is not None:  # if the expert that has a row does not predict it, the sums do not change
        every = members.rule.verdict(total)
        mean, variance = every.mean, every.variance
    for _, group in found:
        for mine, alone, spread, new, old in group:
            said = Spread(alone, spread) if total is None else _exchanged(members.rule, total, mine, new, old)
            mean[mine], variance[mine] = said.mean, said.variance
    return rows, Spread(mean, variance)


def _whose(members: Members, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the expert of each row in memory (-1 for shared rows), and the position of the row among the expert's rows."""
    owners, place = np.full(count, -1), np.zeros(count, np.int64)
    shared = 0 if members.shared is None else members.shared.rows  # they come before the expert's other rows
    assert isinstance(members.settled, Experts)
    for number, own in enumerate(members.settled.rows):
        owners[own], place[own] = number, shared + np.arange(len(own))
    return owners, place


def _exchanged(rule: AbstractRule, total: Sums, mine: np.ndarray, new: Sums, old: Sums) -> Spread:
    """Return the combined prediction with the contribution of one expert replaced by its contribution without the row."""
    fields = Sums.__dataclass_fields__
    return rule.verdict(Sums(*(getattr(total, name)[mine] - getattr(old, name) + getattr(new, name) for name in fields)))
