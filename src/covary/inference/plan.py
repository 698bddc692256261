"""Plans: methods for many rows that combine several models, and implement learning, conditioning and evidence themselves.

A gram represents the matrix of a single model, and ``learn`` and ``condition`` do the rest. A plan can be passed in place of a
gram; these functions then delegate to the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from covary._module import Module
from covary.data import Data
from covary.distributions import AbstractDistribution
from covary.gram.base import AbstractGram
from covary.inference.base import AbstractInference, Memory
from covary.model import Model
from covary.posterior import AbstractPosterior


@runtime_checkable
class HasModel(Protocol):
    """The parts of a ``learn`` result used by conditioning: the learned model and choices that need not be repeated."""

    @property
    def model(self) -> Model:
        """The model."""
        ...

    @property
    def gram(self) -> AbstractGram | AbstractPlan | None:
        """The gram with everything resolved that depends on model and data, if known."""
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
        checkpoint: str | Path | None,
        key: int,
    ) -> HasModel:
        """Learn the hyperparameters, as in :func:`covary.learn`."""
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
