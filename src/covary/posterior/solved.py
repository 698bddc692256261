"""The result of an inference, from which a posterior is built."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covary.gram.base import AbstractBound, AbstractFactor


@dataclass(frozen=True)
class Solved:
    """The result of an inference: the factor, the shift and the weights of its sites, the evidence, and the status.

    An inference whose gradient needs more than this returns its own record with additional fields.

    Parameters
    ----------
    factor
        Prior times sites.
    shift, alpha
        The residual (observed sites) or b (natural ones), and the weights of the posterior mean.
    log_evidence
        log p(y | X), exact or approximate.
    status, steps
        How the iterations ended, and their number.
    mode
        The latent values at the mode, without the prior mean, if the inference finds one.
    bound
        The bound gram used for predictions, if it differs from the one used for the inference.
    """

    factor: AbstractFactor
    shift: np.ndarray
    alpha: np.ndarray
    log_evidence: float
    status: str = "exact"
    steps: int = 0
    mode: np.ndarray | None = None
    bound: AbstractBound | None = None
