"""The Gaussian processes inside a fit, for plots of posteriors, kernels and learning."""

from __future__ import annotations

from typing import Protocol

from covary.gram.base import AbstractGram
from covary.inference.base import AbstractInference
from covary.inference.plan import AbstractPlan
from covary.posterior import AbstractPosterior
from covary.selection.learned import Learned


class LatentProcess(Protocol):
    """A Gaussian process inside a fit, conditioned on data.

    Attributes
    ----------
    posterior
        The posterior.
    inference, gram
        The arguments of :func:`covary.condition` that gave the posterior.
    learned
        The record of hyperparameter learning; None if nothing was learned.
    """

    @property
    def posterior(self) -> AbstractPosterior: ...

    @property
    def inference(self) -> AbstractInference: ...

    @property
    def gram(self) -> AbstractGram | AbstractPlan: ...

    @property
    def learned(self) -> Learned | None: ...
