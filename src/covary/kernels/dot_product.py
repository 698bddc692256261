"""Kernels of the dot product: constant, linear, polynomial."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Self

import jax.numpy as jnp
import numpy as np

from covary._checks import fail
from covary._module import Numbers, static
from covary._types import Array
from covary.data import Inputs
from covary.kernels.base import AbstractKernel, Traits
from covary.parameters import positive


class Constant(AbstractKernel):
    r"""Constant kernel, :math:`k(x, x') = 1`, for an unknown offset. ``k + 4.0`` adds ``4.0 * Constant()``.

    References
    ----------
    Rasmussen & Williams (2006), table 4.1.

    Examples
    --------
    >>> (4.0 * Constant()).gram([[0.0], [1.0]])
    array([[4., 4.],
           [4., 4.]])
    """

    @property
    def host(self) -> bool:
        return True

    def host_block(self, X: Inputs, Z: Inputs) -> np.ndarray:
        return np.ones((X.rows, Z.rows), X.x.dtype)

    def host_pull(self, X: Inputs, Z: Inputs, G: np.ndarray) -> tuple[Self, np.ndarray]:
        return self, self.host_block(X, Z)

    @property
    def traits(self) -> Traits:
        return Traits(stationary=True, smoothness=np.inf, isotropic=True)

    def block(self, X: Inputs, Z: Inputs) -> Array:
        return jnp.ones((X.rows, Z.rows), X.x.dtype)

    def block_diag(self, X: Inputs) -> Array:
        return jnp.ones(X.rows, X.x.dtype)


class Linear(AbstractKernel):
    r"""Linear kernel: straight lines through the origin.

    .. math:: k(x, x') = \sum_k x_k x'_k / \ell_k^2

    This is Bayesian linear regression with weight variances :math:`1/\ell_k^2`. Add a constant for the intercept.

    Parameters
    ----------
    lengthscale
        Positive: one number, or one per input column. A very large one removes the column.

    References
    ----------
    Rasmussen & Williams (2006), section 4.2.2 and table 4.1.

    Examples
    --------
    >>> float(Linear(lengthscale=2.0)([2.0], [3.0]))
    1.5
    """

    lengthscale: Numbers = positive(1.0)

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=np.inf)

    def block(self, X: Inputs, Z: Inputs) -> Array:
        return (X.x / self.lengthscale) @ (Z.x / self.lengthscale).T

    def block_diag(self, X: Inputs) -> Array:
        return ((X.x / self.lengthscale) ** 2).sum(1)


class Polynomial(AbstractKernel):
    r"""Polynomial kernel of degree p.

    .. math:: k(x, x') = \Bigl(b + \sum_k x_k x'_k/\ell_k^2\Bigr)^p

    Functions are polynomials of degree at most p. The variance grows rapidly with the inputs, so scale them to [−1, 1].

    Parameters
    ----------
    degree
        An integer from 1 to 20 (not learned).
    bias
        Positive: b, the weight of the lower degrees.
    lengthscale
        Positive: one number, or one per input column.

    References
    ----------
    Rasmussen & Williams (2006), section 4.2.2 and table 4.1.

    Examples
    --------
    >>> float(Polynomial(2, bias=1.0)([2.0], [3.0]))
    49.0
    """

    degree: int = static(2)
    _: KW_ONLY
    bias: Numbers = positive(1.0)
    lengthscale: Numbers = positive(1.0)

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=np.inf)

    def check(self, X: Inputs) -> None:
        if not isinstance(self.degree, int | np.integer) or not 1 <= self.degree <= 20:
            raise fail("kernels.Polynomial", f"degree is {self.degree!r}", "give an integer from 1 to 20", argument="degree")
        AbstractKernel.check(self, X)

    def block(self, X: Inputs, Z: Inputs) -> Array:
        return (self.bias + (X.x / self.lengthscale) @ (Z.x / self.lengthscale).T) ** self.degree

    def block_diag(self, X: Inputs) -> Array:
        return (self.bias + ((X.x / self.lengthscale) ** 2).sum(1)) ** self.degree
