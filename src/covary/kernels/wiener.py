"""The integrated Wiener process: cubic smoothing splines as a Gaussian process."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from covary._checks import fail
from covary._errors import Option, Place
from covary._types import Array
from covary.data import Inputs
from covary.kernels.base import AbstractKernel, Traits


class IntegratedWiener(AbstractKernel):
    r"""Integral of a Wiener process started at zero: the kernel of the cubic smoothing spline.

    .. math:: k(x, x') = \tfrac12 |x - x'|\, v^2 + \tfrac13 v^3, \qquad v = \min(x, x'), \quad x, x' \ge 0

    With a constant and a linear basis function with vague weights, the posterior mean of ``s * IntegratedWiener()`` under noise
    of variance σ² is the cubic smoothing spline with penalty λ = σ²/s. It takes one input column of non-negative values.

    References
    ----------
    Rasmussen & Williams (2006), eq. 6.28, section 6.3.1.

    Examples
    --------
    >>> round(float(IntegratedWiener()([2.0], [3.0])), 6)
    4.666667
    """

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=1, max_columns=1)

    def check(self, X: Inputs) -> None:
        AbstractKernel.check(self, X)
        if np.any(np.asarray(X.x) < 0):
            row = int(np.argmax(np.asarray(X.x)[:, 0] < 0))
            what = Option("X") + f" is {X.x[row, 0]} " + Place(row)
            raise fail("kernels.IntegratedWiener", what, "shift the inputs so that all are ≥ 0")

    def block(self, X: Inputs, Z: Inputs) -> Array:
        x, z = X.x[:, 0][:, None], Z.x[:, 0][None, :]
        v, w = jnp.minimum(x, z), jnp.maximum(x, z)  # not |x − z|, which has no derivative at zero
        return v * v * (3 * w - v) / 6

    def block_diag(self, X: Inputs) -> Array:
        return X.x[:, 0] ** 3 / 3
