"""A full metric instead of length-scales: factor-analysis distances and linear dimensionality reduction."""

from __future__ import annotations

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp
import numpy as np

from covary._checks import check_finite, check_positive, fail
from covary._errors import Option
from covary._module import Mark, Numbers, child
from covary._types import Array
from covary._words import counted
from covary.data import Inputs
from covary.kernels.base import AbstractKernel, Traits, marked
from covary.kernels.distance import DIRECT_COLUMNS
from covary.kernels.stationary import SquaredExponential
from covary.parameters import positive, real

WHO = "kernels.FactorMetric"


class FactorMetric(AbstractKernel):
    r"""Isotropic kernel on the factor-analysis distance.

    .. math:: r^2 = (x - x')^\top M (x - x'), \qquad M = \Lambda\Lambda^\top + \mathrm{diag}(\ell)^{-2}

    For functions that vary fast along a few directions, the columns of Λ, which need not be parallel to the axes. The distance
    is computed as that between the points :math:`(x/\ell, \Lambda^\top x)`.

    Parameters
    ----------
    kernel
        An isotropic kernel. Its length-scale, which is redundant given Λ and ℓ, is fixed at its value.
    loadings
        Λ, real: d rows, and one column per direction. Do not start it at zero, where its gradient is zero.
    lengthscale
        Positive: one number, or one per input column. With ``fixed(inf)`` only the low-rank part remains, which gives linear
        dimensionality reduction.

    References
    ----------
    Rasmussen & Williams (2006), eqs. 4.22 and 5.2 (M₃).

    Examples
    --------
    >>> k = FactorMetric(SquaredExponential(), loadings=[[1.0], [-1.0]], lengthscale=6.0)
    >>> k.cross([[0.0, 0.0]], [[1.0, 1.0], [1.0, -1.0]]).round(6)  # slow along (1, 1), fast across
    array([[0.972604, 0.131628]])
    """

    kernel: AbstractKernel = child(SquaredExponential(), transparent=True)
    _: KW_ONLY
    loadings: Numbers = real(((1.0,),))
    lengthscale: Numbers = positive(1.0)

    def __post_init__(self) -> None:
        AbstractKernel.__post_init__(self)
        if "lengthscale" in getattr(self.kernel, "_dynamic_names", ()) and not self.kernel.mark_of("lengthscale").fixed:
            object.__setattr__(self, "kernel", self.kernel.with_mark("lengthscale", Mark(fixed=True)))

    @property
    def traits(self) -> Traits:
        inner = self.kernel.traits
        return Traits(inner.stationary, inner.smoothness, inner.max_columns)

    def check(self, X: Inputs) -> None:
        shape, ell = np.shape(self.loadings), np.asarray(self.lengthscale)
        if not self.kernel.traits.isotropic:
            raise fail(WHO, f"{self.kernel!r} is not isotropic", "give an isotropic kernel with one length-scale")
        if len(shape) != 2 or shape[0] != X.columns or not shape[1]:
            what = f"loadings has shape {shape} but " + Option("X") + f" has {counted(X.columns, 'column')}"
            raise fail(WHO, what, "give one row per column of " + Option("X"), argument="loadings")
        check_finite(WHO, "loadings", np.asarray(self.loadings))
        if ell.shape not in ((), (X.columns,)):
            raise fail(WHO, f"lengthscale has shape {ell.shape}", "give one number or one per column", argument="lengthscale")
        if not (self.mark_of("lengthscale").fixed and np.all(ell == np.inf)):
            check_positive(WHO, "lengthscale", ell)
        self.kernel.check(X)

    def _mapped(self, X: Inputs, centre: Array) -> Inputs:
        x, loadings = X.x - centre, jnp.asarray(self.loadings)
        if X.columns <= DIRECT_COLUMNS:  # not a matrix product, whose rounding may differ between equal rows
            along = sum(x[:, c][:, None] * loadings[c] for c in range(X.columns))
        else:
            along = x @ loadings
        return X.with_x(jnp.concatenate([x / self.lengthscale, along], axis=1))

    def block(self, X: Inputs, Z: Inputs) -> Array:
        centre = jax.lax.stop_gradient(Z.x.mean(0))
        return self.kernel.block(self._mapped(X, centre), self._mapped(Z, centre))

    def block_diag(self, X: Inputs) -> Array:
        return self.kernel.block_diag(self._mapped(X, jax.lax.stop_gradient(X.x.mean(0))))

    def __repr__(self) -> str:
        return f"FactorMetric({self.kernel!r}, loadings={marked(self, 'loadings')}, lengthscale={marked(self, 'lengthscale')})"
