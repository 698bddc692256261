"""The values that options choose from."""

from __future__ import annotations

from enum import StrEnum


class ErrorBarsChoice(StrEnum):
    """Whether to find error bars."""

    auto = "auto"
    yes = "yes"
    no = "no"

    @property
    def asked(self) -> bool | None:
        """True, False, or None to judge by the time they take."""
        return {"auto": None, "yes": True, "no": False}[self.value]


class LikelihoodChoice(StrEnum):
    """What the target is."""

    auto = "auto"
    classes = "classes"
    gaussian = "gaussian"
    student_t = "student_t"
    laplace = "laplace"
    heteroscedastic = "heteroscedastic"
    poisson = "poisson"
    negative_binomial = "negative_binomial"
    binomial = "binomial"
    gamma = "gamma"
    ordinal = "ordinal"


class InferenceChoice(StrEnum):
    """How the posterior is found."""

    auto = "auto"
    exact = "exact"
    laplace = "laplace"
    ep = "ep"


class ObjectiveChoice(StrEnum):
    """What the hyperparameters maximise."""

    evidence = "evidence"
    loo = "loo"
    gcv = "gcv"
    kfold = "kfold"


class MethodChoice(StrEnum):
    """What is done about many rows."""

    auto = "auto"
    exact = "exact"
    markov = "markov"
    vecchia = "vecchia"
    low_rank = "low_rank"
    svgp = "svgp"
    subset = "subset"
    committee = "committee"


class RuleChoice(StrEnum):
    """How experts are combined."""

    grbcm = "grbcm"
    rbcm = "rbcm"
    bcm = "bcm"
    gpoe = "gpoe"
    poe = "poe"
    nearest = "nearest"


class LearningChoice(StrEnum):
    """How experts learn."""

    levels = "levels"
    full = "full"
    stochastic = "stochastic"
    independent = "independent"


class MissingChoice(StrEnum):
    """What is done about missing inputs."""

    refuse = "refuse"
    drop = "drop"
    impute = "impute"
    indicator = "indicator"


class LinkChoice(StrEnum):
    """How the latent function of two classes becomes a probability."""

    logit = "logit"
    probit = "probit"
