"""Nonstationary kernels: infinite neural network, Wiener process."""

from __future__ import annotations

from dataclasses import KW_ONLY

import jax.numpy as jnp
import numpy as np

from covary._checks import fail
from covary._errors import Option, Place
from covary._module import Numbers
from covary._types import Array
from covary.data import Inputs
from covary.kernels.base import AbstractKernel, Traits
from covary.kernels.series import arcsine
from covary.parameters import positive


class NeuralNetwork(AbstractKernel):
    r"""Neural-network (arcsine) kernel: an infinitely wide network of error-function units.

    .. math::
        k(x, x') = \frac2\pi \arcsin \frac{2\tilde x^\top \Sigma \tilde x'}
        {\sqrt{(1 + 2\tilde x^\top\Sigma\tilde x)(1 + 2\tilde x'^\top\Sigma\tilde x')}},
        \qquad \tilde x = (1, x),\quad \Sigma = \mathrm{diag}(b, \ell_1^{-2}, \dots, \ell_d^{-2}) .

    Functions level off far from the origin, and have sharp steps if the length-scale is small.

    Parameters
    ----------
    lengthscale
        Positive: one number, or one per input column.
    bias
        Positive: b, the variance of the units' biases.

    References
    ----------
    Rasmussen & Williams (2006), eq. 4.29.

    Examples
    --------
    >>> round(float(NeuralNetwork()([0.0], [1.0])), 6)
    0.345455
    """

    lengthscale: Numbers = positive(1.0)
    _: KW_ONLY
    bias: Numbers = positive(1.0)

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=np.inf)

    def _self(self, X: Inputs) -> Array:
        return 2 * (self.bias + ((X.x / self.lengthscale) ** 2).sum(1))

    def block(self, X: Inputs, Z: Inputs) -> Array:
        def unit(V: Inputs) -> Array:
            tilde = jnp.column_stack([jnp.full(V.rows, 2 * self.bias) ** 0.5, 2**0.5 * V.x / self.lengthscale])
            return tilde / jnp.sqrt(1 + self._self(V))[:, None]

        most = 1 - jnp.finfo(X.x.dtype).eps  # rounding may bring the product above one, outside the domain of arcsine
        return 2 / jnp.pi * arcsine(jnp.clip(unit(X) @ unit(Z).T, -most, most))

    def block_diag(self, X: Inputs) -> Array:
        own = self._self(X)
        return 2 / jnp.pi * arcsine(jnp.minimum(own / (1 + own), 1 - jnp.finfo(X.x.dtype).eps))


class Wiener(AbstractKernel):
    r"""Wiener process (Brownian motion) started at zero.

    .. math:: k(x, x') = \min(x, x'), \qquad x, x' \ge 0

    A random walk in continuous time. It takes one input column of non-negative values.

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
            what = Option("X") + f" is {X.x[row, 0]} " + Place(row)
            raise fail("kernels.Wiener", what, "shift the inputs so that all are ≥ 0")

    def block(self, X: Inputs, Z: Inputs) -> Array:
        return jnp.minimum(X.x[:, 0][:, None], Z.x[:, 0][None, :])

    def block_diag(self, X: Inputs) -> Array:
        return X.x[:, 0]
