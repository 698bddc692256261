"""What an inference does: turn model, data and gram into Gaussian sites and the evidence, and give its gradient."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from covary._checks import fail
from covary._module import Module
from covary.data import Data
from covary.gram.base import AbstractBound
from covary.kernels import tiles


@dataclass(frozen=True)
class Solved:
    """A solved inference: the factor, the shift and the weights of its sites, the evidence, and how it went."""

    factor: Any
    shift: np.ndarray
    alpha: np.ndarray
    log_evidence: float
    status: str = "exact"
    steps: int = 0
    extra: dict[str, Any] = field(default_factory=dict)


class AbstractInference(Module):
    """A way to approximate the posterior of the latent values by Gaussian sites."""

    def solve(
        self, model: Any, data: Data, bound: AbstractBound, *, fixed_jitter: float | None = None, memory: Any = None
    ) -> Solved:
        """Find the sites and the evidence.

        What ``memory`` (the caller's dict) holds of the last call shortens the way; approximations leave there as ``spread``
        how much the posterior mean varies over the rows.
        """
        raise NotImplementedError

    def gradient(self, model: Any, data: Data, bound: AbstractBound, solved: Solved, *, consume: bool = False) -> Any:
        """The gradient of the evidence, in the model's shape (and over the inducing inputs, if any)."""
        raise NotImplementedError


def observations(who: str, likelihood: Any, data: Data) -> tuple[np.ndarray, np.ndarray | None]:
    """The checked observations of an approximate inference and their weights; known noise belongs to Gaussian noise alone."""
    if data.noise_variance is not None or data.scatter is not None:
        raise fail(
            who, "the data carry known noise variances or merged rows", "use inference=Exact() with a Gaussian likelihood"
        )
    likelihood.check(data.y, who)
    return data.y, data.weight


def centred(likelihood: Any, y: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Observations and prior means; where only their difference counts, it is taken once, before digits are lost to it."""
    return (y - mean, np.zeros_like(mean)) if likelihood.location else (y, mean)


def prior_spread(bound: Any) -> Any:
    """A typical standard deviation of the prior of every latent function: the unit in which slopes over f are measured."""
    each = np.sqrt([float(np.mean(tiles.diag(kernel, bound.X))) for kernel in bound.kernels])
    each = np.where(each > 0, each, 1.0)
    return each[0] if len(each) == 1 else each


def shaped(model: Any, kernel: Any, mean: Any, likelihood: Any) -> Any:
    """A gradient in the model's shape."""
    return model.replace(prior=model.prior.replace(kernel=kernel, mean=mean), likelihood=likelihood)


def zeros_like(module: Any) -> Any:
    """The same module with every number zero."""
    import jax

    return jax.tree_util.tree_map(np.zeros_like, module)
