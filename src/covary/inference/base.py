"""The interface of inference methods: Gaussian sites, the evidence and its gradient from model, data and gram."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from covary._checks import fail
from covary._errors import Option
from covary._module import Module
from covary.data import Data
from covary.gram.base import AbstractBound, Workspace
from covary.kernels import tiles
from covary.likelihoods.base import AbstractLikelihood
from covary.model import Model
from covary.posterior.solved import Solved as Solved

if TYPE_CHECKING:
    from covary.inference.svgp.whitened import Whitened


M = TypeVar("M", bound=Module)


@dataclass
class Memory(Workspace):
    """The state that a search keeps between evaluations on the same rows, to warm-start the next inference.

    ``weights`` are those of the last mode (Laplace), ``sites`` the last precisions and shifts (EP), ``q`` the last variational
    posterior (SVGP), ``spread`` the standard deviation of the last posterior mean over the rows.
    """

    weights: np.ndarray | None = None
    sites: tuple[np.ndarray, np.ndarray] | None = None
    q: Whitened | None = None
    spread: float = np.inf


@dataclass(frozen=True)
class Gradient:
    """The gradient of the evidence, as a model, and with respect to the inducing inputs if these are learned."""

    model: Model
    inducing: np.ndarray | None = None


class AbstractInference(Module):
    """Approximation of the posterior of the latent values by Gaussian sites."""

    iterates: ClassVar[bool] = True  # whether an evaluation takes several factorisations
    in_batches: ClassVar[bool] = False  # whether it learns from batches of rows, and conditions by streaming all rows

    def solve(
        self, model: Model, data: Data, bound: AbstractBound, *, fixed_jitter: float | None = None, memory: Memory | None = None
    ) -> Solved:
        """Compute the sites and the evidence, starting from the last state in ``memory``, which is updated."""
        raise NotImplementedError

    def gradient(self, model: Model, data: Data, bound: AbstractBound, solved: Solved, *, consume: bool = False) -> Gradient:
        """Compute the gradient of the evidence returned by :meth:`solve`; with ``consume``, the factor may be overwritten."""
        raise NotImplementedError


def observations(who: str, likelihood: AbstractLikelihood, data: Data) -> tuple[np.ndarray, np.ndarray | None]:
    """Check and return the observations and weights of an approximate inference; known noise requires Gaussian noise."""
    if data.noise_variance is not None or data.scatter is not None:
        what = "the data carry known noise variances or merged rows"
        raise fail(who, what, "use " + Option("inference", "Exact()") + " with a Gaussian likelihood")
    likelihood.check(data.y, who)
    return data.y, data.weight


def centred(likelihood: AbstractLikelihood, y: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return observations and prior means; if only their difference matters, it is subtracted here to avoid rounding errors."""
    return (y - mean, np.zeros_like(mean)) if likelihood.location else (y, mean)


def prior_spread(bound: AbstractBound) -> float | np.ndarray:
    """Return a typical prior standard deviation per latent function, as a unit for slopes with respect to f."""
    each = np.sqrt([float(np.mean(tiles.diag(kernel, bound.X))) for kernel in bound.kernels])
    each = np.where(each > 0, each, 1.0)
    return each[0] if len(each) == 1 else each


def zeros_like(module: M) -> M:
    """Return the module with all numbers set to zero."""
    import jax

    return jax.tree_util.tree_map(np.zeros_like, module)
