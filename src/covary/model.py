"""The Gaussian-process prior, and the model: a prior with a likelihood. Neither depends on data or on an algorithm."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from covary._arguments import check_kind
from covary._checks import fail
from covary._module import Module, child
from covary.data import Inputs
from covary.kernels.base import AbstractKernel
from covary.kernels.text import parse
from covary.likelihoods.base import AbstractLikelihood
from covary.likelihoods.gaussian import Gaussian
from covary.means.basis import Basis
from covary.means.functions import AbstractMean, Zero

BASES = ("ConstantBasis", "LinearBasis", "PolynomialBasis")  # functions that return a basis


class GP(Module):
    r"""Gaussian-process prior, :math:`f \sim GP(m, k)` (R&W, eq. 2.14).

    Parameters
    ----------
    kernel
        The covariance function, or its text. A tuple or list of kernels gives one to each latent function of a multi-class
        likelihood.
    mean
        The mean function; zero by default.
    basis
        Explicit basis functions with vague or Gaussian weights, added to the mean and integrated out; none by default.

    Examples
    --------
    >>> GP("2.0 * Matern52()")
    GP(kernel=2.0 * Matern52(lengthscale=1.0), mean=Zero())
    """

    kernel: Any = child()
    _: KW_ONLY
    mean: AbstractMean = child(Zero())
    basis: Basis | None = child(None)

    def __post_init__(self) -> None:
        if isinstance(self.kernel, str):
            object.__setattr__(self, "kernel", parse(self.kernel))
        elif isinstance(self.kernel, list):
            object.__setattr__(self, "kernel", tuple(self.kernel))
        Module.__post_init__(self)

    @property
    def kernels(self) -> tuple[AbstractKernel, ...]:
        """The kernels of the latent functions: one shared by all, or one for each."""
        return self.kernel if isinstance(self.kernel, tuple) else (self.kernel,)

    def check_kinds(self) -> None:
        """Raise an error if the kernel, the mean or the basis is an object of another kind."""
        for kernel in self.kernels or (self.kernel,):
            check_kind("GP", "kernel", kernel, (AbstractKernel,), "Matern52()")
        check_kind("GP", "mean", self.mean, (AbstractMean,), "Function(f)" if callable(self.mean) else "Constant()")
        if self.basis is not None:
            check_kind("GP", "basis", self.basis, (Basis,), "Basis(function)", BASES)

    def check(self, X: Inputs) -> None:
        """Raise an error if the kernel or the mean does not fit these inputs."""
        for kernel in self.kernels:
            kernel.check(X)
        self.mean.check(X)

    def __repr__(self) -> str:
        basis = "" if self.basis is None else f", basis={self.basis!r}"
        return f"GP(kernel={self.kernel!r}, mean={self.mean!r}{basis})"


class Model(Module):
    """Prior over functions and likelihood of the observations.

    Examples
    --------
    >>> from covary.kernels import Matern52
    >>> Model(GP(Matern52())).likelihood
    Gaussian(variance=array(1.))
    """

    prior: GP = child(transparent=True)
    _: KW_ONLY
    likelihood: AbstractLikelihood = child(Gaussian())

    def __post_init__(self) -> None:
        if isinstance(self.prior, AbstractKernel | str):
            raise fail("Model", "prior is a kernel", "write Model(GP(kernel))", argument="prior")
        Module.__post_init__(self)

    def check_kinds(self) -> None:
        """Raise an error if the prior, one of its parts or the likelihood is an object of another kind."""
        check_kind("Model", "prior", self.prior, (GP,), "GP(kernel)")
        self.prior.check_kinds()
        check_kind("Model", "likelihood", self.likelihood, (AbstractLikelihood,), "Gaussian()")

    @property
    def kernel(self) -> Any:
        """The prior's kernel."""
        return self.prior.kernel

    @property
    def mean(self) -> AbstractMean:
        """The prior's mean function."""
        return self.prior.mean

    @property
    def is_gaussian(self) -> bool:
        """Whether the observations have Gaussian noise."""
        return isinstance(self.likelihood, Gaussian)

    @property
    def gaussian(self) -> Gaussian:
        """The likelihood of a model that is known to have Gaussian noise."""
        assert isinstance(self.likelihood, Gaussian)
        return self.likelihood

    @property
    def noise(self) -> float:
        """The variance of Gaussian noise; the mean over rows if it varies."""
        return float(np.mean(self.gaussian.variance))


def shaped(
    model: Model, kernel: AbstractKernel | tuple[AbstractKernel, ...], mean: AbstractMean, likelihood: AbstractLikelihood
) -> Model:
    """Assemble a gradient in the form of the model."""
    return model.replace(prior=model.prior.replace(kernel=kernel, mean=mean), likelihood=likelihood)
