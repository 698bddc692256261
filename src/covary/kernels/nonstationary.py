"""Kernels that know where they are: infinite neural network, Wiener process."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import jax.numpy as jnp
import numpy as np

from covary._checks import fail
from covary.data import Inputs
from covary.kernels.base import AbstractKernel, Traits
from covary.kernels.series import arcsine
from covary.parameters import positive


class NeuralNetwork(AbstractKernel):
    r"""Neural-network (arcsine) kernel: a one-layer network of error-function units, infinitely wide.

    .. math::
        k(x, x') = \frac2\pi \arcsin \frac{2\tilde x^\top \Sigma \tilde x'}
        {\sqrt{(1 + 2\tilde x^\top\Sigma\tilde x)(1 + 2\tilde x'^\top\Sigma\tilde x')}},
        \qquad \tilde x = (1, x),\quad \Sigma = \mathrm{diag}(b, \ell_1^{-2}, \dots, \ell_d^{-2}) .

    Functions that level off far from the origin; sharp steps when the length-scale is small.

    Parameters
    ----------
    lengthscale
        Positive: one number, or one per input column.
    bias
        Positive: b, the variance of the units' offsets.

    References
    ----------
    Rasmussen & Williams (2006), eq. 4.29.

    Examples
    --------
    >>> round(float(NeuralNetwork()([0.0], [1.0])), 6)
    0.345455
    """

    lengthscale: Any = positive(1.0)
    _: KW_ONLY
    bias: Any = positive(1.0)

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=np.inf)

    def _self(self, X: Inputs) -> Any:
        return 2 * (self.bias + ((X.x / self.lengthscale) ** 2).sum(1))

    def block(self, X: Inputs, Z: Inputs) -> Any:
        def unit(V: Inputs) -> Any:
            tilde = jnp.column_stack([jnp.full(V.rows, 2 * self.bias) ** 0.5, 2**0.5 * V.x / self.lengthscale])
            return tilde / jnp.sqrt(1 + self._self(V))[:, None]

        most = 1 - jnp.finfo(X.x.dtype).eps  # rounding may carry the product past one, where arcsine ends
        return 2 / jnp.pi * arcsine(jnp.clip(unit(X) @ unit(Z).T, -most, most))

    def block_diag(self, X: Inputs) -> Any:
        own = self._self(X)
        return 2 / jnp.pi * arcsine(jnp.minimum(own / (1 + own), 1 - jnp.finfo(X.x.dtype).eps))


class Wiener(AbstractKernel):
    r"""Wiener process (Brownian motion) started at zero.

    .. math:: k(x, x') = \min(x, x'), \qquad x, x' \ge 0

    A random walk in continuous time: one input column, no negative values.

    References
    ----------
    Rasmussen & Williams (2006), section 4.2.3.

    Examples
    --------
    >>> float(Wiener()([2.0], [3.0]))
    2.0
    """

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=0, max_columns=1)

    def check(self, X: Inputs) -> None:
        AbstractKernel.check(self, X)
        if np.any(np.asarray(X.x) < 0):
            row = int(np.argmax(np.asarray(X.x)[:, 0] < 0))
            raise fail("kernels.Wiener", f"X is {X.x[row, 0]} at row {row}", "shift the inputs so that all are ≥ 0")

    def block(self, X: Inputs, Z: Inputs) -> Any:
        return jnp.minimum(X.x[:, 0][:, None], Z.x[:, 0][None, :])

    def block_diag(self, X: Inputs) -> Any:
        return X.x[:, 0]
