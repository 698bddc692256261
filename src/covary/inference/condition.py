r"""The function ``condition``, with the checks of model and data.

One check is for observations that do not bound the level of a function: separated labels, and counts that are all zero. The
likelihood of some observations is largest at f = ∞ or at f = −∞: a label 1, a count of zero, the highest level of a scale. If
some combination δ of basis functions H has this sign at every such row, :math:`s_i h_i^\top\delta \ge 0`, and vanishes at all
others, then the fit always improves with larger weights along δ (Albert & Anderson 1984): vague weights have no proper
posterior, and the weights of a mean function no optimum. The existence of such a δ is decided by a linear program.

References
----------
Albert & Anderson (1984), On the existence of maximum likelihood estimates in logistic regression models, Biometrika 71.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, overload

import numpy as np
from scipy.linalg import solve_triangular

from covary._arguments import check_kind, explained_function
from covary._checks import fail, is_traced
from covary._errors import Option
from covary._memory import check_memory
from covary._precision import precision, traced
from covary._threads import blas_threads
from covary.data import Data
from covary.gram.base import AbstractBound, AbstractGram, Workspace
from covary.gram.dense import Dense
from covary.inference.base import AbstractInference
from covary.inference.exact import Exact
from covary.inference.plan import AbstractPlan, HasModel
from covary.likelihoods.base import AbstractLikelihood
from covary.means.coordinates import orthogonalising
from covary.model import Model
from covary.posterior import AbstractPosterior, Posterior

TOUCHING, CLEARLY = 1e-6, 1e-5  # tolerated violation on the wrong side, and required margin of one row on the right side
GROUP = 5000  # rows tried first: for most tables, few rows are enough to rule out separation


def check_kinds(
    who: str, model: Model | HasModel, data: Data, inference: AbstractInference, gram: AbstractGram | AbstractPlan
) -> None:
    """Raise an error for arguments of another kind; constructors do not look at values, which may be tracers."""
    plain = as_model(model)
    check_pair(who, plain, data)
    plain.check_kinds()
    check_kind(who, "inference", inference, (AbstractInference,), "Exact()")
    check_kind(who, "gram", gram, (AbstractGram, AbstractPlan), "Dense()", ("Committee",))
    for name, part in (("inference", inference), ("gram", gram)):
        if any(map(is_traced, vars(part).values())):
            raise fail(who, Option(name) + " has a traced number", "give a plain one, and trace only the model and the data")


def check_pair(who: str, model: Model, data: Data) -> None:
    """Raise an error unless these are a model and data."""
    if not isinstance(model, Model):  # results of learn are unwrapped by the callers
        what = f"got {type(model).__name__} for the model"
        raise fail(who, what, "give a Model(GP(kernel), " + Option("likelihood", "...") + ")", argument="model")
    if not isinstance(data, Data):
        raise fail(who, f"got {type(data).__name__} for the data", "give Data(X, y)", argument="data")


def check_both(who: str, model: Model, data: Data) -> None:
    """Raise an error unless these are a model and data without tracers, and the model matches the columns."""
    check_pair(who, model, data)
    if traced(model, data):
        raise fail(who, "this function cannot be traced by JAX", "use jax.value_and_grad(log_evidence)")
    model.prior.check(data.X)


def bind(who: str, model: Model, data: Data, gram: AbstractGram, workspace: Workspace | None = None) -> AbstractBound:
    """Check model against data, and bind the gram."""
    check_both(who, model, data)
    if workspace is None:  # a workspace has been checked before
        check_room(who, model, data, gram)
    return gram.bind(model.prior.kernels, data.X, model.prior.basis, workspace)


def check_room(who: str, model: Model, data: Data, gram: AbstractGram) -> None:
    """Raise an error if the matrices of these data do not fit into memory."""
    needed = gram.bytes_needed(model, data.rows, data.dtype.itemsize)
    if needed:
        check_memory(who, needed, "use fewer rows or an approximation such as " + Option("gram", "LowRank(...)"))


def order(bound: AbstractBound, inference: AbstractInference) -> int:
    """Return the order of the matrices passed to BLAS; streamed computations manage their own threads."""
    return bound.X.rows if inference.in_batches else min(bound.width, bound.X.rows)


def as_model(value: Model | HasModel) -> Model:
    """Return the model itself, or the one inside the result of ``learn``; :func:`check_both` rejects everything else."""
    return value.model if isinstance(value, HasModel) else value


def settled(model: Model | HasModel, data: Data, gram: AbstractGram) -> tuple[AbstractGram, Data]:
    """Return the gram with all choices that depend on model and data resolved, and its data.

    A result of ``learn`` with this recipe provides its own choices.
    """
    if not isinstance(data, Data):
        return gram, data  # bind raises the error
    if isinstance(model, HasModel):
        known = model.gram
        if isinstance(known, AbstractGram) and known.on_inducing and model.recipe == gram:
            return known, data  # learned inducing inputs are not chosen again
    inner = as_model(model)
    return gram.prepare(inner, data) if isinstance(inner, Model) else (gram, data)


class Posed(NamedTuple):
    """A checked model with its data, gram and bound gram."""

    model: Model
    data: Data
    gram: AbstractGram
    bound: AbstractBound


@contextmanager
def posed(
    who: str,
    model: Model | HasModel,
    data: Data,
    inference: AbstractInference,
    gram: AbstractGram,
    workspace: Workspace | None = None,
) -> Iterator[Posed]:
    """Check and bind model and data, and set the precision of JAX and the threads of BLAS inside the block."""
    gram, data = settled(model, data, gram)
    plain = as_model(model)
    bound = bind(who, plain, data, gram, workspace)
    with precision(data.dtype), blas_threads(order(bound, inference)):
        yield Posed(plain, data, gram, bound)


@overload
def condition(
    model: Model | HasModel, data: Data, *, inference: AbstractInference = ..., gram: AbstractGram = ...
) -> Posterior: ...


@overload
def condition(
    model: Model | HasModel, data: Data, *, inference: AbstractInference = ..., gram: AbstractGram | AbstractPlan
) -> AbstractPosterior: ...


@explained_function("condition")
def condition(
    model: Model | HasModel,
    data: Data,
    *,
    inference: AbstractInference = Exact(),
    gram: AbstractGram | AbstractPlan = Dense(),
) -> AbstractPosterior:
    """Condition a model on data, at its current hyperparameters, and return the posterior.

    Parameters
    ----------
    model
        Prior and likelihood.
    data
        The observations.
    inference
        Inference method: ``Exact()`` for Gaussian noise, else ``Laplace()`` or ``EP()``.
    gram
        Representation of K: ``Dense()``, ``LowRank(...)``, ``Vecchia(...)``, ``Markov()``, ``Subset(...)``; or a plan that
        combines several models: ``Committee(...)``.

    Examples
    --------
    >>> from covary import GP, Data, Model
    >>> from covary.likelihoods import Gaussian
    >>> post = condition(Model(GP("Matern52()"), likelihood=Gaussian(0.01)), Data([[0.0], [1.0]], [0.0, 1.0]))
    >>> post.predict([[0.5]]).f.mean.round(3)
    array([0.54])
    """
    check_kinds("condition", model, data, inference, gram)
    if isinstance(gram, AbstractPlan):
        check_both("condition", as_model(model), data)
        return gram.condition(model, data, inference)
    begun = model.start if inference.in_batches and isinstance(model, HasModel) else None
    with posed("condition", model, data, inference, gram) as (plain, data, _, bound):
        check_weights("condition", plain, data)
        solved = inference.solve(plain, data, bound, memory=begun)
        return Posterior(plain, data, bound if solved.bound is None else solved.bound, solved)


def separated(likelihood: AbstractLikelihood, data: Data, H: np.ndarray) -> bool:
    """Return whether some combination of the columns of H (n, m) improves the fit indefinitely as it grows."""
    if likelihood.latents > 1 or not H.shape[1]:
        return False
    below, above = likelihood.open_sides(data.y)
    if not (below | above).any():
        return False
    H = np.asarray(H, np.float64)
    R, dependent = orthogonalising(H)
    Q = solve_triangular(R, H.T, trans=1).T[:, ~dependent] * np.sqrt(len(H))  # any basis of the same space is equivalent
    side = above.astype(float) - below
    return all(_beyond(Q[rows], side[rows]) for rows in (slice(0, GROUP), slice(None)) if len(Q) > GROUP or rows.stop)


def _beyond(Q: np.ndarray, side: np.ndarray) -> bool:
    from scipy.optimize import linprog

    open_, shut = side != 0, side == 0
    turned = side[open_, None] * Q[open_]
    limits = {"A_ub": -turned, "b_ub": np.zeros(len(turned))}
    if shut.any():
        limits |= {"A_eq": Q[shut], "b_eq": np.zeros(int(shut.sum()))}
    found = linprog(-turned.mean(0), **limits, bounds=(-1.0, 1.0), method="highs")
    if found.x is None:
        return False
    margin = turned @ found.x
    return bool(margin.max() > CLEARLY and margin.min() > -TOUCHING and np.abs(Q[shut] @ found.x).max(initial=0.0) < TOUCHING)


def check_weights(who: str, model: Model, data: Data) -> None:
    """Raise an error for vague weights of basis functions that the observations do not bound."""
    basis = model.prior.basis
    if basis is None:
        return
    H = basis.evaluate(data.X)
    if separated(model.likelihood, data, H[:, basis.weight_prior(H.shape[1]).vague]):
        raise fail(
            who,
            f"the {type(model.likelihood).__name__} observations are separated by basis functions with vague weights, which "
            "are unbounded: the fit keeps improving as they grow",
            "give the weights a covariance, as in LinearBasis(covariance=100.0)",
        )
