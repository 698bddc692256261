"""What a likelihood is: log p(y | f) of one observation, and what is derived from it.

Authors write ``log_prob`` in ``jax.numpy``. Its slopes come from automatic differentiation, compiled for blocks of rows
of one fixed size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from covary._checks import fail
from covary._module import Module, without_marks
from covary._precision import cast
from covary.kernels.tiles import map_rows, pull_rows


class Slopes(NamedTuple):
    """log p(y | f) and its first three derivatives over f, one row each."""

    log_prob: Any
    first: Any
    second: Any
    third: Any


class Moments(NamedTuple):
    """Mean and variance, one row each (an array per class where there are several)."""

    mean: np.ndarray
    variance: np.ndarray


class Tilted(NamedTuple):
    """Normaliser and moments of p(y | f) N(f | mean, variance)."""

    log_z: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


class AbstractLikelihood(Module):
    """p(y | f): how an observation depends on the latent function at its input."""

    @property
    def latents(self) -> int:
        """How many latent functions one observation depends on."""
        return 1

    def log_prob(self, y: Any, f: Any) -> Any:
        """log p(y | f) of one observation, in jax.numpy."""
        raise NotImplementedError

    def slopes(self, y: np.ndarray, f: np.ndarray) -> Slopes:
        """log p and its derivatives to third order at every row."""
        return Slopes(*map_rows(_slopes, cast(without_marks(self), f.dtype), f, y))

    def pull(self, y: np.ndarray, f: np.ndarray, log_prob: np.ndarray, first: np.ndarray, second: np.ndarray) -> Any:
        """The gradient over the likelihood's parameters of Σ (log_prob·log p + first·p′ + second·p″), given the weights."""
        return pull_rows(_three, cast(without_marks(self), f.dtype), (f, y), (log_prob, first, second))

    def tilted(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> Tilted:
        """Moments of the likelihood times a Gaussian over f, one row each."""
        raise fail(f"likelihoods.{type(self).__name__}", "its tilted moments are not known", "use inference=Laplace()")

    def predictive(self, mean: np.ndarray, variance: np.ndarray) -> Moments:
        """Moments of a new observation when the latent value has these moments."""
        raise NotImplementedError


def _slopes(likelihood: AbstractLikelihood, f: Any, y: Any) -> Any:
    def point(value: Any, target: Any) -> Any:
        return likelihood.log_prob(target, value)

    first = jax.grad(point)
    second = jax.grad(lambda v, t: first(v, t))
    third = jax.grad(lambda v, t: second(v, t))
    return tuple(jax.vmap(g)(f, y) for g in (point, first, second, third))


def _three(likelihood: AbstractLikelihood, f: Any, y: Any) -> Any:
    return _slopes(likelihood, f, y)[:3]
