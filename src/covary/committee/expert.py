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
from covary.committee.rules import AbstractRule, Sums
from covary.data import Data, Inputs
from covary.inference.condition import condition
from covary.kernels import tiles
from covary.parameters import Packing
from covary.posterior import Posterior
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


def same(group: Any) -> Any:
    """What is at hand already."""
    return group


def _model(models: Any, number: int) -> Any:
    """The model of all, or an expert's own."""
    return models[number] if isinstance(models, list) else models


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


def slopes(group: Group, model: Any, recipe: Recipe) -> tuple[float, Any]:
    """The same in the model's shape."""
    total: Any = None
    with one_thread():
        for data in group.rows:
            value, gradient = log_evidence_and_grad(model, data, inference=recipe.inference, gram=recipe.gram)
            total = (value, gradient) if total is None else (total[0] + value, add(total[1], gradient))
    return total


def add(a: Any, b: Any) -> Any:
    """Two gradients of a model's shape, added up."""
    return jax.tree_util.tree_map(np.add, a, b)


def expert(data: Data, model: Any, recipe: Recipe, shared: Data | None) -> Posterior:
    """The posterior of one expert, given its rows and those all experts share."""
    with one_thread():
        rows = data if shared is None else shared.join(data)
        return condition(model, rows, inference=recipe.inference, gram=recipe.gram)


def experts(group: Group, models: Any, recipe: Recipe, shared: Data | None) -> list[Posterior]:
    """The posteriors of a group."""
    pairs = zip(group.numbers, group.rows, strict=True)
    return [expert(data, _model(models, k), recipe, shared) for k, data in pairs]


def heights(group: Group, models: Any, recipe: Recipe, shared: Data | None) -> tuple[list[float], list[str]]:
    """The log evidence of every expert of a group, and how its inference ended."""
    found = [(post.log_evidence, post.status) for post in experts(group, models, recipe, shared)]
    return [value for value, _ in found], [status for _, status in found]


def learned(group: Group, model: Any, recipe: Recipe, priors: Any, restarts: int, key: int) -> list[Any]:
    """Hyperparameters of its own for every expert: (vector, log evidence plus priors, how the search ended)."""
    with one_thread():
        found = [
            learn(model, data, inference=recipe.inference, gram=recipe.gram, priors=priors, n_restarts=restarts, key=key)
            for data in group.rows
        ]
    return [(fit.theta, fit.value, fit.status) for fit in found]


def opinions(
    group: Group,
    models: Any,
    recipe: Recipe,
    rule: AbstractRule,
    X: Inputs,
    shared: Data | None = None,
    start: Spread | None = None,
    kept: list[Posterior] | None = None,
) -> Sums:
    """What the experts of a group say together of new inputs, as sums to be passed on.

    Parameters
    ----------
    group
        The experts.
    models
        The model of all of them, or a list with one for each of the committee.
    recipe, rule
        How they infer, and how they are combined.
    X
        New inputs.
    shared, start
        The rows that all of them share, and what those alone say there; None without.
    kept
        Their posteriors, where they were kept.
    """
    total: Any = None
    with one_thread():
        for i, number in enumerate(group.numbers):
            model = _model(models, number)
            post = expert(group.rows[i], model, recipe, shared) if kept is None else kept[i]
            sums = rule.opinion(post.latent(X), prior(model, X) if start is None else start, number == 0)
            total = sums if total is None else total + sums
    return total


def nearest(
    group: Group, models: Any, recipe: Recipe, X: Inputs, whose: np.ndarray, kept: list[Posterior] | None = None
) -> list[Any]:
    """What every expert of a group says of those new inputs that are its own: (rows, mean, variance)."""
    out = []
    with one_thread():
        for i, number in enumerate(group.numbers):
            rows = np.flatnonzero(whose == number)
            if len(rows):
                post = expert(group.rows[i], _model(models, number), recipe, None) if kept is None else kept[i]
                said = post.latent(X.take(rows))
                out.append((rows, said.mean, said.variance))
    return out


def joints(group: Group, models: Any, recipe: Recipe, X: Inputs, kept: list[Posterior] | None = None) -> list[Any]:
    """Mean and joint covariance of new inputs, of every expert of a group."""
    found = experts(group, models, recipe, None) if kept is None else kept
    with one_thread():
        return [(post.mean(X), post.covariance(X)) for post in found]


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
