"""The integrated Wiener process: cubic smoothing splines as a Gaussian process."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from covary._checks import fail
from covary.data import Inputs
from covary.kernels.base import AbstractKernel, Traits


class IntegratedWiener(AbstractKernel):
    r"""Integral of a Wiener process started at zero: the kernel of the cubic smoothing spline.

    .. math:: k(x, x') = \tfrac12 |x - x'|\, v^2 + \tfrac13 v^3, \qquad v = \min(x, x'), \quad x, x' \ge 0

    With a constant and a slope of vague weights as basis functions, the posterior mean of ``s * IntegratedWiener()`` under
    noise of variance σ² is the cubic smoothing spline of penalty λ = σ²/s. One input column, no negative values.

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
            raise fail("kernels.IntegratedWiener", f"X is {X.x[row, 0]} at row {row}", "shift the inputs so that all are ≥ 0")

    def block(self, X: Inputs, Z: Inputs) -> Any:
        x, z = X.x[:, 0][:, None], Z.x[:, 0][None, :]
        v, w = jnp.minimum(x, z), jnp.maximum(x, z)  # not |x − z|, whose slope at zero is none
        return v * v * (3 * w - v) / 6

    def block_diag(self, X: Inputs) -> Any:
        return X.x[:, 0] ** 3 / 3
