"""Plans: methods for many rows that combine several models, and implement learning, conditioning and evidence themselves.

A gram represents the matrix of a single model, and ``learn`` and ``condition`` do the rest. A plan can be passed in place of a
gram; these functions then delegate to the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Protocol, runtime_checkable

from covary._checks import fail
from covary._errors import Option
from covary._module import Module
from covary.data import Data
from covary.distributions import AbstractDistribution
from covary.gram.base import AbstractGram
from covary.inference.base import AbstractInference, Memory
from covary.model import Model
from covary.posterior import AbstractPosterior


@runtime_checkable
class HasModel(Protocol):
    """The parts of a ``learn`` result used by conditioning: the learned model and choices already resolved."""

    @property
    def model(self) -> Model:
        """The model."""
        ...

    @property
    def gram(self) -> AbstractGram | AbstractPlan | None:
        """The gram with all choices that depend on model and data resolved, if known."""
        ...

    @property
    def recipe(self) -> AbstractGram | AbstractPlan | None:
        """The gram or plan that was passed to ``learn``, from which ``gram`` was prepared."""
        ...

    @property
    def start(self) -> Memory | None:
        """Initial state for an iterative inference on the same rows."""
        ...


class AbstractPlan(Module):
    """A method for many rows with its own implementation of learning, conditioning and evidence."""

    def refuse(self, who: str, given: Mapping[str, bool]) -> None:
        """Raise an error for the first argument that is given, by name, because plans do not have it."""
        for name in (name for name, used in given.items() if used):
            what = Option(name) + " is given with " + Option("gram", type(self).__name__)
            raise fail(who, what + ", which does not use it", "leave it out")

    def learn(
        self,
        model: Model,
        data: Data,
        *,
        inference: AbstractInference,
        priors: Mapping[str, AbstractDistribution | Sequence[AbstractDistribution]] | None,
        n_restarts: int,
        starts: Sequence[Model | HasModel],
        rivals: Sequence[Model | HasModel],
        max_time: float | None,
        checkpoint: str | PathLike[str] | None,
        key: int,
    ) -> HasModel:
        """Learn the hyperparameters, as in :func:`covary.learn`, and return a record that has at least the learned model."""
        raise NotImplementedError

    def condition(self, model: Model | HasModel, data: Data, inference: AbstractInference) -> AbstractPosterior:
        """Return the posterior; a model learned by this plan may contain more than hyperparameters."""
        raise NotImplementedError

    def log_evidence_and_grad(self, model: Model, data: Data, inference: AbstractInference) -> tuple[float, Model]:
        """Return the log evidence and its gradient, as a model that holds the derivatives."""
        raise NotImplementedError

    def log_evidence(self, model: Model, data: Data, inference: AbstractInference) -> float:
        """Return the log evidence."""
        raise NotImplementedError
