"""Likelihoods by name, as the front doors and the command take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from covary._checks import check_object, fail
from covary.likelihoods import (
    Binomial,
    DoubleExponential,
    Gamma,
    Gaussian,
    HeteroscedasticGaussian,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
)
from covary.likelihoods.base import AbstractLikelihood

MOST_LEVELS = 50

NAMES: dict[str, Any] = {
    "gaussian": Gaussian,
    "student_t": StudentT,
    "laplace": DoubleExponential,
    "heteroscedastic": HeteroscedasticGaussian,
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
    "binomial": Binomial,
    "gamma": Gamma,
    "ordinal": Ordinal,
}


def named_likelihood(who: str, likelihood: Any, y: np.ndarray) -> AbstractLikelihood:
    """The likelihood a user asked for, by name or as it is."""
    if isinstance(likelihood, AbstractLikelihood):
        return likelihood
    check_object(who, "likelihood", likelihood)
    if not isinstance(likelihood, str) or likelihood not in NAMES:
        raise fail(who, f"likelihood is {likelihood!r}", f"choose one of {', '.join(NAMES)}, or give a likelihood")
    if likelihood == "ordinal":
        levels = np.unique(y)
        if len(levels) < 2 or (levels != np.floor(levels)).any() or levels[0] < 0:
            raise fail(who, "an ordinal y needs levels 0, 1, 2, ...", "number the levels from 0")
        if levels[-1] >= MOST_LEVELS:
            raise fail(who, f"an ordinal y has levels up to {levels[-1]:g}", f"number them from 0, {MOST_LEVELS} at most")
        return Ordinal.of(int(levels[-1]) + 1)
    return NAMES[likelihood]()
