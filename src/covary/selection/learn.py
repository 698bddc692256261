"""The function ``learn``, which optimises the hyperparameters.

The search goes from coarse to fine. A subset of the rows is cheap (the cost is cubic), so all starts are searched there. The
best end point *and* its Hessian, scaled by the number of rows, initialise the search on all rows, which then takes only a few
evaluations. The search stops when a Newton step would gain less than 0.01 nats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from os import PathLike
from typing import TypedDict, Unpack, overload

from covary._arguments import explained_function
from covary._checks import check_count, check_object, fail, shown
from covary._errors import Option
from covary.data import Data
from covary.gram.base import AbstractGram
from covary.gram.dense import Dense
from covary.inference.base import AbstractInference
from covary.inference.condition import as_model, check_both, check_kinds
from covary.inference.exact import Exact
from covary.inference.plan import AbstractPlan, HasModel
from covary.model import Model
from covary.optimise.base import Clock, interruptible
from covary.selection.learned import Learned as Learned
from covary.selection.learned import Restart as Restart
from covary.selection.objectives import Custom, WithGradient
from covary.selection.priors import Density
from covary.selection.search import run_search
from covary.selection.state import Settings


class Options(TypedDict, total=False):
    """The arguments of :func:`learn` that apply to every gram and plan."""

    objective: Custom | None
    inference: AbstractInference
    priors: Mapping[str, Density] | None
    tie: Sequence[Sequence[str]]
    n_restarts: int
    starts: Sequence[Model | HasModel]
    rivals: Sequence[Model | HasModel]
    max_time: float | Clock | None
    reserve: float
    coarse: bool
    checkpoint: str | PathLike[str] | None
    key: int


@overload
def learn(model: Model | HasModel, data: Data, *, gram: AbstractGram = ..., **options: Unpack[Options]) -> Learned: ...


@overload
def learn(
    model: Model | HasModel, data: Data, *, gram: AbstractGram | AbstractPlan, **options: Unpack[Options]
) -> HasModel: ...


@explained_function("learn")
def learn(
    model: Model | HasModel,
    data: Data,
    *,
    objective: Custom | None = None,
    inference: AbstractInference = Exact(),
    gram: AbstractGram | AbstractPlan = Dense(),
    priors: Mapping[str, Density] | None = None,
    tie: Sequence[Sequence[str]] = (),
    n_restarts: int = 0,
    starts: Sequence[Model | HasModel] = (),
    rivals: Sequence[Model | HasModel] = (),
    max_time: float | Clock | None = None,
    reserve: float = 0.0,
    coarse: bool = True,
    checkpoint: str | PathLike[str] | None = None,
    key: int = 0,
) -> HasModel:
    """Find the hyperparameters that maximise the evidence (times the priors).

    Parameters
    ----------
    model
        The starting point. Parameters marked ``fixed`` are kept, ``bounded`` ones stay within their bounds.
    data
        The observations.
    objective
        Other objective to maximise: a JAX function (model, data) -> number, or an object with ``value_and_grad(model, data)``.
    inference, gram
        As in :func:`condition`. A plan returns its own record of learning, that of ``Committee`` a ``Learned``.
    priors
        Prior distributions by parameter path: ``{"kernel.*.lengthscale": LogNormal(0.0, scale=1.0)}``.
    tie
        Groups of paths that share one value.
    n_restarts
        Number of additional starts: at the scales of the data, with mostly noise, with little noise, then random draws around
        these scales. The highest of several peaks is used or, if every positive parameter has a prior, the one with the
        largest posterior mass (Laplace).
    starts
        Additional starting models of the same structure.
    rivals
        Alternative models with the same parameters, each optimised from the best point and kept if better by 2 nats.
    max_time
        Approximate time limit in seconds, after which the best model so far is returned; or a running ``Clock``.
    reserve
        Part of ``max_time`` to reserve, in multiples of the duration of :func:`condition`.
    coarse
        Whether large problems start on a subset of the rows.
    checkpoint
        File in which all evaluations are saved; the same call resumes an interrupted search, with the same result.
    key
        Seed of the subset and of the restarts.

    Examples
    --------
    >>> import numpy as np
    >>> from covary import GP, Data, Model
    >>> x = np.linspace(0.0, 6.0, 40)[:, None]
    >>> fit = learn(Model(GP("1.0 * Matern52()")), Data(x, np.sin(x[:, 0])))
    >>> fit.status
    'converged'
    """
    check_kinds("learn", model, data, inference, gram)
    _check_search(objective, n_restarts, starts, rivals, max_time)
    plain = Dense() if isinstance(gram, AbstractPlan) else gram
    course = (priors, tie, n_restarts, tuple(starts), tuple(rivals), reserve, coarse, checkpoint, key)
    given = Settings(as_model(model), data, Clock.of(max_time), objective, inference, plain, *course)
    return _by_plan(gram, given) if isinstance(gram, AbstractPlan) else _by_search(given)


def _by_search(settings: Settings) -> Learned:
    with interruptible(settings.clock):
        try:
            return run_search(settings)
        finally:
            settings.clock.kept = 0.0


def _by_plan(plan: AbstractPlan, given: Settings) -> HasModel:
    refused = {"objective": given.objective is not None, "tie": len(given.tie) > 0}
    plan.refuse("learn", {**refused, "reserve": given.reserve != 0, "coarse": not given.coarse})
    check_both("learn", given.model, given.data)
    left = max(given.clock.left(), 0.0)
    return plan.learn(
        given.model,
        given.data,
        inference=given.inference,
        priors=given.priors,
        n_restarts=given.n_restarts,
        starts=given.starts,
        rivals=given.rivals,
        max_time=None if left == math.inf else left,
        checkpoint=given.checkpoint,
        key=given.key,
    )


def _check_search(
    objective: Custom | None,
    n_restarts: int,
    starts: Sequence[Model | HasModel],
    rivals: Sequence[Model | HasModel],
    max_time: float | Clock | None,
) -> None:
    """Raise an error for arguments of ``learn`` alone that are of another kind."""
    check_count("learn", "n_restarts", n_restarts)
    check_object("learn", "objective", objective)
    if objective is not None and not (callable(objective) or isinstance(objective, WithGradient)):
        do = "give one such as LeaveOneOut(), or a function (model, data) -> number"
        raise fail("learn", Option("objective") + f" is {shown(objective)}", do)
    for name, others in (("starts", starts), ("rivals", rivals)):
        if not isinstance(others, Sequence) or not all(isinstance(as_model(other), Model) for other in others):
            raise fail("learn", Option(name) + f" is {shown(others)}", "give a list of models")
    if not (max_time is None or isinstance(max_time, Clock) or (isinstance(max_time, Real) and max_time >= 0)):
        raise fail("learn", Option("max_time") + f" is {shown(max_time)}", "give a number of seconds, or None")
