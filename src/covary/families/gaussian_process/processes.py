"""State of a fit of the Gaussian process family: one process, or one per class against the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from covary._checks import fail
from covary.fits.fit import Model as FittedModel
from covary.fits.fit import of
from covary.gram.base import AbstractGram
from covary.inference.base import AbstractInference
from covary.inference.plan import AbstractPlan
from covary.model import Model
from covary.posterior import AbstractPosterior
from covary.selection.learn import Learned
from covary.selection.priors import Density

FAMILY = "gaussian_process"


@dataclass(frozen=True)
class Process:
    """One Gaussian process, conditioned on data.

    ``learned`` is the record of hyperparameter learning (None if all were fixed), ``gram`` how the covariance matrix K is
    handled, ``log_evidence`` the log marginal likelihood in the user's units, and ``label`` the class separated from the rest.
    """

    posterior: AbstractPosterior
    model: Model
    inference: AbstractInference
    gram: AbstractGram | AbstractPlan
    learned: Learned | None = field(repr=False)
    priors: Mapping[str, Density]
    log_evidence: float
    label: str = ""


@dataclass(frozen=True)
class Processes:
    """All processes of a fit: a single one, or one per class."""

    parts: tuple[Process, ...]

    @property
    def first(self) -> Process:
        """The first process; any others have the same inputs."""
        return self.parts[0]

    @property
    def posteriors(self) -> tuple[AbstractPosterior, ...]:
        """The posterior of each process."""
        return tuple(part.posterior for part in self.parts)

    @property
    def log_evidence(self) -> float:
        """The sum of the log evidences of all processes."""
        return float(sum(part.log_evidence for part in self.parts))


def processes(model: FittedModel, who: str = "covary") -> Processes:
    """Return the Gaussian processes of a fitted model; raise an error for other families."""
    fit = of(model, who)
    if not isinstance(fit.state, Processes):
        raise fail(who, f"the model is of the family {fit.family!r}", "give a Gaussian process")
    return fit.state
