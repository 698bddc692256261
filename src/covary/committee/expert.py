"""Computations of the experts: log evidence, independent hyperparameters, and predictions at new inputs.

These functions run where the rows are: in this process, or on the workers of a cluster. They take a group of experts with their
rows, keep no state between calls, and run on one thread, so that a result does not depend on where it was computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar, TypeVarTuple

import jax
import numpy as np

from covary._checks import NotPositiveDefinite
from covary._precision import precision
from covary._threads import one_thread
from covary._words import counted
from covary.committee.rules import AbstractRule, Sums
from covary.data import Data, Inputs
from covary.gram.base import AbstractGram
from covary.inference.base import AbstractInference, Memory
from covary.inference.condition import condition
from covary.kernels import tiles
from covary.model import Model
from covary.parameters import Packing
from covary.posterior import Posterior, cavities
from covary.prediction import Spread
from covary.selection.learn import learn
from covary.selection.objectives import log_evidence, log_evidence_and_grad
from covary.selection.priors import Density


class Numbered(Protocol):
    """Description of a group of experts."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """Indices of the experts in the committee."""
        ...


I = TypeVar("I", bound=Numbered)
R = TypeVar("R")
Common = TypeVarTuple("Common")
Models = Model | dict[int, Model]  # the model of all experts, or one per expert by its index
Priors = Mapping[str, Density]


@dataclass(frozen=True)
class Recipe:
    """Settings that are the same for all experts of a committee."""

    inference: AbstractInference
    gram: AbstractGram
    jitter: float | None = None


@dataclass(frozen=True)
class Group:
    """Experts that are processed together: their indices in the committee, and the rows of each."""

    numbers: tuple[int, ...]
    rows: tuple[Data, ...]

    def __str__(self) -> str:
        first, last = self.numbers[0], self.numbers[-1]
        which = f"expert {first}" if first == last else f"experts {first} to {last}"
        return f"{which} ({counted(sum(data.rows for data in self.rows), 'row')})"

    def only(self, wanted: frozenset[int]) -> Group:
        """Return the group restricted to the experts in ``wanted``."""
        some = [i for i, number in enumerate(self.numbers) if number in wanted]
        return Group(tuple(self.numbers[i] for i in some), tuple(self.rows[i] for i in some))


def evidence(group: Group, packing: Packing[Model], recipe: Recipe, theta: np.ndarray) -> tuple[float, np.ndarray]:
    r"""Return the sum of the experts' log evidences and its gradient in the packed parameters (W, eq. 1.54, as a sum).

    .. math:: \log p(y\mid X,\theta) \approx \sum_k \log p(y^{(k)}\mid X^{(k)},\theta)
    """
    model = packing.unpack(theta)
    value, slope, lent = 0.0, np.zeros(packing.size), Memory()
    with one_thread(), np.errstate(all="ignore"):
        for data in group.rows:
            # buffers are reused, but not warm starts: the start of an inference must not depend on the previous expert
            lent = Memory(square=lent.square)
            try:
                part, gradient = log_evidence_and_grad(
                    model, data, inference=recipe.inference, gram=recipe.gram, fixed_jitter=recipe.jitter, workspace=lent
                )
            except NotPositiveDefinite:
                return -np.inf, np.zeros(packing.size)
            value, slope = value + part, slope + packing.pull(model, gradient)
    return float(value), slope


def slopes(group: Group, model: Model, recipe: Recipe, shared: Data | None) -> tuple[float, Model]:
    """Return the sum of the experts' log evidences and its gradient as a model; ``shared`` rows are added to each expert."""
    total: tuple[float, Model] | None = None
    with one_thread():
        for own in group.rows:
            data = own if shared is None else shared.join(own)
            value, gradient = log_evidence_and_grad(model, data, inference=recipe.inference, gram=recipe.gram)
            total = (value, gradient) if total is None else (total[0] + value, add(total[1], gradient))
    assert total is not None
    return total


def height(group: Group, model: Model, recipe: Recipe, shared: Data | None) -> float:
    """Return the sum of the experts' log evidences; ``shared`` rows are added to each expert."""
    with one_thread():
        rows = (own if shared is None else shared.join(own) for own in group.rows)
        return sum(log_evidence(model, data, inference=recipe.inference, gram=recipe.gram) for data in rows)


def add(a: Model, b: Model) -> Model:
    """Add two gradients that have the structure of a model."""
    return jax.tree_util.tree_map(np.add, a, b)


def times(factor: float, gradient: Model) -> Model:
    """Multiply a gradient that has the structure of a model by a factor."""
    return jax.tree_util.tree_map(lambda g: factor * np.asarray(g), gradient)


def expert(data: Data, model: Model, recipe: Recipe, shared: Data | None) -> Posterior:
    """Compute the posterior of one expert, given its rows and the rows shared by all experts."""
    with one_thread():
        rows = data if shared is None else shared.join(data)
        return condition(model, rows, inference=recipe.inference, gram=recipe.gram)


@dataclass(frozen=True)
class Seat:
    """An expert conditioned on its rows: its index in the committee, and its posterior."""

    number: int
    post: Posterior


def seated(group: Group, models: Models, recipe: Recipe, shared: Data | None) -> list[Seat]:
    """Condition the experts of a group on their rows; ``models`` is the model of all, or one per expert by index."""
    pairs = zip(group.numbers, group.rows, strict=True)
    return [Seat(k, expert(data, models[k] if isinstance(models, dict) else models, recipe, shared)) for k, data in pairs]


@dataclass(frozen=True)
class Call(Generic[I]):
    """Arguments to condition a group of experts on any worker: how to load its rows, and the models and settings."""

    load: Callable[[I], Group]
    item: I
    models: Models
    recipe: Recipe
    shared: Data | None

    def __str__(self) -> str:
        return str(self.item)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Indices of the experts in the committee."""
        return self.item.numbers


def called(call: Call[I]) -> list[Seat]:
    """Load the rows of a group and condition its experts, to be kept on a worker."""
    return seated(call.load(call.item), call.models, call.recipe, call.shared)


def freshly(
    call: Call[I], wanted: frozenset[int] | None, function: Callable[[list[Seat], *Common], R], *arguments: *Common
) -> R:
    """Load and condition a group (only the ``wanted`` experts), apply a function to it, and discard it."""
    group = call.load(call.item)
    return function(seated(group if wanted is None else group.only(wanted), call.models, call.recipe, call.shared), *arguments)


# what experts compute ----------------------------------------------------------------------------------------------------
def heights(seats: list[Seat]) -> tuple[list[float], list[str]]:
    """Return the log evidence of every expert, and the status of its inference."""
    return [seat.post.log_evidence for seat in seats], [seat.post.status for seat in seats]


@dataclass(frozen=True)
class Asked:
    """Selection of the experts that predict each new input.

    Parameters
    ----------
    near
        The experts nearest to every input, the nearest first (m, J); None if experts have no position.
    everyone
        Whether all experts predict every input, or only the J nearest ones.
    first
        Index of the first expert if experts have no position.
    """

    near: np.ndarray | None = None
    everyone: bool = True
    first: int = 0

    def of(self, number: int) -> tuple[np.ndarray | None, np.ndarray | bool]:
        """Return the inputs that an expert predicts (None for all of them), and whether it is the first expert there."""
        if self.near is None:
            return None, number == self.first
        if self.everyone:
            return None, self.near[:, 0] == number
        rows = np.flatnonzero((self.near == number).any(1))
        return rows, self.near[rows, 0] == number

    @property
    def wanted(self) -> frozenset[int] | None:
        """Experts that predict at least one of the inputs; None for all."""
        return None if self.everyone or self.near is None else frozenset(np.unique(self.near).tolist())


def opinions(seats: list[Seat], rule: AbstractRule, X: Inputs, start: Spread | None, asked: Asked) -> Sums:
    """Return the predictions of some experts as partial sums; at least one of the experts must predict an input.

    ``start`` is the prediction from the shared rows alone.
    """
    total: Sums | None = None
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
    assert total is not None
    return total


def nearest(seats: list[Seat], X: Inputs, whose: np.ndarray) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return the prediction of every expert at the new inputs assigned to it: (rows, mean, variance)."""
    out = []
    with one_thread():
        for seat in seats:
            rows = np.flatnonzero(whose == seat.number)
            if len(rows):
                said = seat.post.latent(X.take(rows))
                out.append((rows, said.mean, said.variance))
    return out


def joints(seats: list[Seat], X: Inputs) -> list[np.ndarray]:
    """Return the joint covariance of the new inputs under every expert."""
    with one_thread():
        return [seat.post.covariance(X) for seat in seats]


class Alone(NamedTuple):
    """Leave-one-out predictions of rows of one expert, and its contributions to the sums without and with each row."""

    rows: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    without: Sums
    with_it: Sums


def without_own(
    seats: list[Seat],
    rule: AbstractRule,
    X: Inputs,
    y: np.ndarray,
    whose: tuple[np.ndarray, np.ndarray] | None,
    start: Spread | None,
    asked: Asked,
) -> tuple[Sums | None, list[Alone]]:
    """Return the sums of the experts' predictions of some rows, and the leave-one-out predictions of each expert.

    ``whose`` gives the expert of every row of X, and the position of the row among the rows of that expert. If it is None,
    each expert searches for the rows among its own. The leave-one-out predictions of an expert cover the rows that it both
    has and predicts. A rule by which a single expert predicts needs no sums.
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
            out.append(Alone(rows, alone.mean, alone.variance, *both))
    return total, out


def places(post: Posterior, X: Inputs, y: np.ndarray) -> np.ndarray:
    """Return the position of each row of X and y among the rows of an expert; -1 if it is not among them.

    With Gaussian noise, rows with equal inputs are merged, so that y is not compared.
    """
    data = post.data
    known = {row: i for i, row in enumerate(_bytes(data.X.x, None if post.factor.observed else data.y))}
    return np.array([known.get(row, -1) for row in _bytes(X.x, None if post.factor.observed else y)], np.int64)


def _bytes(x: np.ndarray, y: np.ndarray | None) -> list[bytes]:
    """Return every row as bytes, with negative zeros replaced by zero."""
    x = np.asarray(x, np.float64)
    both = x if y is None else np.column_stack([x, np.asarray(y, np.float64)])
    return [row.tobytes() for row in both + 0.0]


def left_alone(post: Posterior) -> Spread:
    """Return the leave-one-out predictions of an expert for its rows; NaN if the cavity distribution is improper."""
    left = cavities(post)
    keep = left.sound if left.noisy is None else np.ones(len(left.mean), bool)
    return Spread(np.where(keep, left.mean, np.nan), np.where(keep, left.variance, np.nan))


def learned(
    group: Group, model: Model, recipe: Recipe, priors: Priors | None, max_time: float | None, key: int
) -> list[tuple[np.ndarray, float, str]]:
    """Learn the hyperparameters of every expert separately: (vector, log evidence plus log priors, status)."""
    inference, gram = recipe.inference, recipe.gram
    with one_thread():
        found = [
            learn(model, data, inference=inference, gram=gram, priors=priors, max_time=max_time, key=key, n_restarts=0)
            for data in group.rows
        ]
    return [(fit.theta, fit.value, fit.status) for fit in found]


def prior(model: Model, X: Inputs) -> Spread:
    """Return mean and variance of the latent functions at new inputs under the prior."""
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
