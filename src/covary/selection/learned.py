"""The result of a search: the learned model and a record of the search."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from covary._threads import blas_threads
from covary.gram.base import AbstractGram
from covary.gram.dense import Dense
from covary.inference.base import Memory
from covary.inference.plan import AbstractPlan
from covary.kernels.base import AbstractKernel
from covary.likelihoods.base import AbstractLikelihood
from covary.model import GP, Model
from covary.selection.objectives import Objective, difference_hessian


@dataclass(frozen=True)
class Restart:
    """One start of the search on the coarsest level: its starting model, final model, value and status."""

    start: Model
    model: Model
    value: float
    status: str
    steps: int


@dataclass(frozen=True)
class Learned:
    """A model with learned hyperparameters and a record of the search, accepted wherever a model is.

    ``value`` is the final objective (log evidence plus log priors), ``history`` holds (rows, value) of every evaluation,
    ``restarts`` every start and its end point on the coarsest level, ``levels`` the number of rows of every level. ``gram`` is
    the representation of K with all choices resolved (inducing inputs, neighbours). ``start`` is an initial state for
    variational inference, ``thetas`` has one vector per expert of a committee whose experts learned separately, and
    ``curvature`` is the Hessian if it is available without further evaluations.
    """

    model: Model
    value: float
    status: str
    steps: int
    seconds: float
    levels: tuple[int, ...]
    history: tuple[tuple[int, float], ...] = field(repr=False)
    restarts: tuple[Restart, ...] = field(repr=False)
    objective: Objective = field(repr=False)
    theta: np.ndarray = field(repr=False)
    jitter: float = 0.0
    start: Memory | None = field(default=None, repr=False)
    recipe: AbstractGram | AbstractPlan | None = field(default=None, repr=False)
    gram: AbstractGram | AbstractPlan | None = field(default=None, repr=False)
    thetas: np.ndarray | None = field(default=None, repr=False)
    curvature: np.ndarray | None = field(default=None, repr=False)

    @property
    def prior(self) -> GP:
        """The learned prior."""
        return self.model.prior

    @property
    def kernel(self) -> AbstractKernel | tuple[AbstractKernel, ...]:
        """The learned kernel."""
        return self.model.kernel

    @property
    def likelihood(self) -> AbstractLikelihood:
        """The learned likelihood."""
        return self.model.likelihood

    @property
    def in_pieces(self) -> bool:
        """Whether the model was learned on batches or by separate experts; the Hessian is not computed then."""
        return self.start is not None or self.thetas is not None

    @property
    def hessian_is_known(self) -> bool:
        """Whether :attr:`hessian` is available without further evaluations."""
        return self.curvature is not None or "hessian" in vars(self)

    @cached_property
    def hessian(self) -> np.ndarray:
        """The Hessian of minus the objective for the unconstrained vector, by gradient differences on first access."""
        data = self.objective.data
        if self.curvature is not None:
            return self.curvature
        if self.in_pieces:
            return np.zeros((len(self.theta),) * 2)
        gram = Dense() if isinstance(self.gram, AbstractPlan) else self.gram  # the plan learned from a sample only
        with blas_threads(data.rows):
            return difference_hessian(self.objective.at(data, gram), self.theta, step=1e-3, central=True)

    @cached_property
    def log_errors(self) -> dict[str, np.ndarray]:
        """Standard errors of the unconstrained parameters (logarithms of positive ones) by path, from the Hessian.

        The error is infinite for parameters along which the objective has no curvature.
        """
        packing = self.objective.packing
        values, vectors = np.linalg.eigh((self.hessian + self.hessian.T) / 2)
        curved = values > 1e-8 * max(values.max(initial=0.0), 1e-300)
        weight = packing.outward(vectors) ** 2
        spread = (weight[:, curved] / values[curved]).sum(1)
        spread[(weight[:, ~curved] > 0.01 * weight.sum(1, keepdims=True)).any(1)] = np.inf
        out = {}
        for slot in packing.slots:
            errors = np.sqrt(spread[slot.start : slot.stop])
            out |= {path: errors.reshape(slot.shape) for path in slot.paths}
        return out
