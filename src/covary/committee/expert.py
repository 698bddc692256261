"""What one expert does: evidence of its rows, hyperparameters of its own, and what it says of new inputs.

These functions run where the rows are: in this process, or on the workers of a cluster. They take a batch, the rows of a few
experts, remember nothing between calls, and run on one thread, so that an answer does not depend on who gives it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from covary._checks import NotPositiveDefinite
from covary._precision import precision
from covary._threads import one_thread
from covary._words import counted
from covary.committee.rules import AbstractRule, Sums
from covary.data import Data, Inputs
from covary.inference.condition import condition
from covary.kernels import tiles
from covary.parameters import Packing
from covary.posterior import Posterior, cavities
from covary.prediction import Spread
from covary.selection.learn import learn
from covary.selection.objectives import log_evidence_and_grad


@dataclass(frozen=True)
class Recipe:
    """What every expert of a committee does in the same way."""

    inference: Any
    gram: Any
    jitter: float | None = None


@dataclass(frozen=True)
class Group:
    """Experts that travel together: their numbers in the committee, and the rows of each."""

    numbers: tuple[int, ...]
    rows: tuple[Data, ...]

    def __str__(self) -> str:
        first, last = self.numbers[0], self.numbers[-1]
        which = f"expert {first}" if first == last else f"the experts {first} to {last}"
        return f"{which} ({counted(sum(data.rows for data in self.rows), 'row')})"

    def only(self, wanted: Any) -> Group:
        """Those experts of the group whose numbers are among these."""
        some = [i for i, number in enumerate(self.numbers) if number in wanted]
        return Group(tuple(self.numbers[i] for i in some), tuple(self.rows[i] for i in some))


def same(group: Any) -> Any:
    """What is at hand already."""
    return group


def evidence(group: Group, packing: Packing, recipe: Recipe, theta: np.ndarray) -> tuple[float, np.ndarray]:
    r"""The sum of the experts' log evidences and its gradient over the vector (W, eq. 1.54, as a sum).

    .. math:: \log p(y\mid X,\theta) \approx \sum_k \log p(y^{(k)}\mid X^{(k)},\theta)
    """
    model = packing.unpack(theta)
    value, slope, lent = 0.0, np.zeros(packing.size), dict[str, Any]()
    with one_thread(), np.errstate(all="ignore"):
        for data in group.rows:
            # buffers may be lent again, but no warm start: where an inference begins must not depend on who was before
            lent = {name: lent[name] for name in ("square",) if name in lent}
            try:
                part, gradient = log_evidence_and_grad(
                    model, data, inference=recipe.inference, gram=recipe.gram, fixed_jitter=recipe.jitter, workspace=lent
                )
            except NotPositiveDefinite:
                return -np.inf, np.zeros(packing.size)
            value, slope = value + part, slope + packing.pull(model, gradient)
    return float(value), slope


def slopes(group: Group, model: Any, recipe: Recipe, shared: Data | None) -> tuple[float, Any]:
    """The same in the model's shape, with the rows that all experts share among those of each."""
    total: Any = None
    with one_thread():
        for own in group.rows:
            data = own if shared is None else shared.join(own)
            value, gradient = log_evidence_and_grad(model, data, inference=recipe.inference, gram=recipe.gram)
            total = (value, gradient) if total is None else (total[0] + value, add(total[1], gradient))
    return total


def add(a: Any, b: Any) -> Any:
    """Two gradients of a model's shape, added up."""
    return jax.tree_util.tree_map(np.add, a, b)


def times(factor: float, gradient: Any) -> Any:
    """A gradient of a model's shape, so many times."""
    return jax.tree_util.tree_map(lambda g: factor * np.asarray(g), gradient)


def expert(data: Data, model: Any, recipe: Recipe, shared: Data | None) -> Posterior:
    """The posterior of one expert, given its rows and those all experts share."""
    with one_thread():
        rows = data if shared is None else shared.join(data)
        return condition(model, rows, inference=recipe.inference, gram=recipe.gram)


@dataclass(frozen=True)
class Seat:
    """An expert that is ready to answer: its number in the committee, and its posterior."""

    number: int
    post: Posterior


def seated(group: Group, models: Any, recipe: Recipe, shared: Data | None) -> list[Seat]:
    """The experts of a group, each conditioned on its rows; ``models`` is the model of all, or one each by number."""
    pairs = zip(group.numbers, group.rows, strict=True)
    return [Seat(k, expert(data, models[k] if isinstance(models, dict) else models, recipe, shared)) for k, data in pairs]


@dataclass(frozen=True)
class Call:
    """What it takes to seat a group wherever that is to be: how its rows are got, and what they are conditioned with."""

    load: Any
    item: Any
    models: Any
    recipe: Recipe
    shared: Data | None

    def __str__(self) -> str:
        return str(self.item)


def called(call: Call) -> list[Seat]:
    """A group that takes its seats, to be held."""
    return seated(call.load(call.item), call.models, call.recipe, call.shared)


def freshly(call: Call, wanted: Any, function: Any, *arguments: Any) -> Any:
    """A function of a group that is seated for this once, its rows read for it and forgotten; of those who are ``wanted``."""
    group = call.load(call.item)
    return function(seated(group if wanted is None else group.only(wanted), call.models, call.recipe, call.shared), *arguments)


# what experts are asked ---------------------------------------------------------------------------------------------------
def heights(seats: list[Seat]) -> tuple[list[float], list[str]]:
    """The log evidence of every expert, and how its inference ended."""
    return [seat.post.log_evidence for seat in seats], [seat.post.status for seat in seats]


@dataclass(frozen=True)
class Asked:
    """Who is asked about every new input.

    Parameters
    ----------
    near
        The experts nearest to every input, the nearest first (m, J); None where none is nearer than another.
    everyone
        Whether all experts are asked, or those J.
    first
        Who goes first where none is nearer than another.
    """

    near: np.ndarray | None = None
    everyone: bool = True
    first: int = 0

    def of(self, number: int) -> tuple[np.ndarray | None, Any]:
        """The inputs about which an expert is asked, None for all of them, and whether it goes first there."""
        if self.near is None:
            return None, number == self.first
        if self.everyone:
            return None, self.near[:, 0] == number
        rows = np.flatnonzero((self.near == number).any(1))
        return rows, self.near[rows, 0] == number

    @property
    def wanted(self) -> frozenset[int] | None:
        """The experts who are asked at all; None for all of them."""
        return None if self.everyone or self.near is None else frozenset(np.unique(self.near).tolist())


def opinions(seats: list[Seat], rule: AbstractRule, X: Inputs, start: Spread | None, asked: Asked) -> Sums:
    """What some experts, at least one of whom is asked, say together of new inputs, as sums to be passed on.

    ``start``: what the rows they share say alone.
    """
    total: Any = None
    with one_thread():
        for seat in seats:
            rows, first = asked.of(seat.number)
            if rows is None:
                sums = rule.opinion(seat.post.latent(X), prior(seat.post.model, X) if start is None else start, first)
            elif len(rows):
                here = X.take(rows)
                own = prior(seat.post.model, here) if start is None else Spread(start.mean[rows], start.variance[rows])
                sums = rule.opinion(seat.post.latent(here), own, first).among(rows, X.rows)
            else:
                continue
            total = sums if total is None else total + sums
    return total


def nearest(seats: list[Seat], X: Inputs, whose: np.ndarray) -> list[Any]:
    """What every expert says of those new inputs that are its own: (rows, mean, variance)."""
    out = []
    with one_thread():
        for seat in seats:
            rows = np.flatnonzero(whose == seat.number)
            if len(rows):
                said = seat.post.latent(X.take(rows))
                out.append((rows, said.mean, said.variance))
    return out


def joints(seats: list[Seat], X: Inputs) -> list[np.ndarray]:
    """The joint covariance of new inputs, of every expert."""
    with one_thread():
        return [seat.post.covariance(X) for seat in seats]


def foretold(
    seats: list[Seat],
    rule: AbstractRule,
    X: Inputs,
    y: np.ndarray,
    whose: tuple[np.ndarray, np.ndarray] | None,
    start: Any,
    asked: Asked,
) -> tuple[Any, list[Any]]:
    """What some experts say together of rows, and of those that are its own what each says without having seen them.

    ``whose`` tells the expert of every row of X, and the row's place among all that the expert has; None where nobody knows:
    every expert then looks for them among its rows. The answer for each expert is (rows, mean, variance, opinion without,
    opinion with), for those of its rows about which it is asked. A rule by which one expert answers needs no sums.
    """
    total = None if rule.local else opinions(seats, rule, X, start, asked)
    out = []
    with one_thread():
        for seat in seats:
            about, first = asked.of(seat.number)
            about = np.arange(X.rows) if about is None else about
            if whose is None:
                place = places(seat.post, X.take(about), y[about])
            else:
                place = np.where(whose[0][about] == seat.number, whose[1][about], -1)
            own = place >= 0
            first, rows, place = np.broadcast_to(first, len(about))[own], about[own], place[own]
            if not len(rows):
                continue
            post, here = seat.post, X.take(rows)
            left = left_alone(post)
            alone = Spread(left.mean[place], left.variance[place])
            before = prior(post.model, here) if start is None else Spread(start.mean[rows], start.variance[rows])
            both = rule.opinion(alone, before, first), rule.opinion(post.latent(here), before, first)
            out.append((rows, alone.mean, alone.variance, *both))
    return total, out


def places(post: Posterior, X: Inputs, y: np.ndarray) -> np.ndarray:
    """Where each row of X and y is among those of an expert; -1 where it is not.

    Under Gaussian noise rows with equal inputs are one, whatever their y.
    """
    data = post.data
    known = {row: i for i, row in enumerate(_bytes(data.X.x, None if post.factor.observed else data.y))}
    return np.array([known.get(row, -1) for row in _bytes(X.x, None if post.factor.observed else y)], np.int64)


def _bytes(x: Any, y: Any) -> list[bytes]:
    """Every row as it stands in memory, with one zero."""
    x = np.asarray(x, np.float64)
    both = x if y is None else np.column_stack([x, np.asarray(y, np.float64)])
    return [row.tobytes() for row in both + 0.0]


def left_alone(post: Posterior) -> Spread:
    """What an expert says of each of its rows without having seen it (R&W, eqs. 5.12, 3.56); NaN where it cannot say."""
    if post.factor.observed:
        left = post.leave_one_out()
        return Spread(left.mean, left.variance)
    with precision(post.data.dtype):
        mean, precise = cavities(post)
    return Spread(np.where(precise > 0, mean, np.nan), 1 / np.where(precise > 0, precise, np.nan))


def learned(group: Group, model: Any, recipe: Recipe, priors: Any, max_time: float | None, key: int) -> list[Any]:
    """Hyperparameters of its own for every expert: (vector, log evidence plus priors, how the search ended)."""
    given: Any = {"inference": recipe.inference, "gram": recipe.gram, "priors": priors, "max_time": max_time, "key": key}
    with one_thread():
        found = [learn(model, data, **given, n_restarts=0) for data in group.rows]
    return [(fit.theta, fit.value, fit.status) for fit in found]


def prior(model: Any, X: Inputs) -> Spread:
    """What the prior says of the latent functions at new inputs."""
    likelihood = model.likelihood
    with precision(X.x.dtype):
        mean = model.mean.evaluate(X)
        kernels = model.prior.kernels
        diagonals = [tiles.diag(kernel, X) for kernel in kernels]
    L = likelihood.latents
    if L == 1:
        return Spread(mean, diagonals[0])
    diagonals = diagonals if len(diagonals) == L else diagonals * L
    variance = np.zeros((X.rows, L, L))
    for j, diagonal in enumerate(diagonals):
        variance[:, j, j] = diagonal
    return Spread(mean[:, None] * likelihood.has_mean, variance)
