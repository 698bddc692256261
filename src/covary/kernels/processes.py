"""Brownian bridge and fractional Brownian motion."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from covary._checks import fail
from covary._errors import Option, Place
from covary._module import Numbers
from covary._types import Array
from covary.data import Inputs
from covary.kernels.base import AbstractKernel, Traits
from covary.kernels.distance import square_distance
from covary.parameters import unit_interval


class BrownianBridge(AbstractKernel):
    r"""Brownian bridge: a Wiener process conditioned to be zero at both ends of [0, 1].

    .. math:: k(x, x') = \min(x, x') - x x', \qquad 0 \le x, x' \le 1

    For rough functions with known values at two points. It takes one input column.

    References
    ----------
    Rasmussen & Williams (2006), section 2.9, exercise 2 (Wiener process with f(1) = 0; some printings lack the minus sign).

    Examples
    --------
    >>> BrownianBridge()([0.25], [0.5]).item()
    0.125
    """

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=0, max_columns=1)

    def check(self, X: Inputs) -> None:
        AbstractKernel.check(self, X)
        x = np.asarray(X.x)[:, 0]
        outside = (x < 0) | (x > 1)
        if outside.any():
            row = int(np.argmax(outside))
            what = Option("X") + f" is {x[row]} " + Place(row)
            raise fail("kernels.BrownianBridge", what, "scale the inputs to lie from 0 to 1")

    def block(self, X: Inputs, Z: Inputs) -> Array:
        x, z = X.x[:, 0][:, None], Z.x[:, 0][None, :]
        return jnp.minimum(x, z) * (1 - jnp.maximum(x, z))

    def block_diag(self, X: Inputs) -> Array:
        return X.x[:, 0] * (1 - X.x[:, 0])


@jax.custom_jvp
def power(s: Array, exponent: Array) -> Array:
    """Raise s ≥ 0 to a power between 0 and 1, with derivatives of zero instead of infinity at s = 0."""
    return jnp.exp(exponent * jnp.log(s))


@power.defjvp
def _power_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (s, exponent), (ds, de) = primals, tangents
    k, apart = power(s, exponent), s > 0
    safe = jnp.where(apart, s, 1.0)
    return k, k * jnp.log(safe) * de + jnp.where(apart, exponent * k / safe, 0.0) * ds


class FractionalBrownian(AbstractKernel):
    r"""Fractional Brownian motion started at zero.

    .. math:: k(x, x') = \tfrac12 \bigl(|x|^{2H} + |x'|^{2H} - |x - x'|^{2H}\bigr)

    Increments are stationary, and their variance is the 2H-th power of the distance. H = ½ is the Wiener process. Increments
    are positively correlated for H > ½ and negatively for H < ½. Inputs may have either sign. For several columns
    :math:`|\cdot|` is the Euclidean norm (Lévy's field).

    Parameters
    ----------
    hurst
        H, between 0 and 1.

    References
    ----------
    Mandelbrot & Van Ness (1968); H = ½ is Rasmussen & Williams (2006), section 4.2.3.

    Examples
    --------
    >>> FractionalBrownian(0.5)([2.0], [3.0]).round(6)
    np.float64(2.0)
    """

    hurst: Numbers = unit_interval(0.5)

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=0)

    def check(self, X: Inputs) -> None:
        if np.shape(self.hurst) != () or not 0 < self.hurst < 1:
            what = f"hurst is {self.hurst}"
            raise fail("kernels.FractionalBrownian", what, "give one number between 0 and 1", argument="hurst")

    def block(self, X: Inputs, Z: Inputs) -> Array:
        apart = square_distance(X.x, Z.x, jnp.ones(X.columns, X.x.dtype))
        own = self.block_diag(X)[:, None] + self.block_diag(Z)[None, :]
        return 0.5 * (own - power(apart, self.hurst))

    def block_diag(self, X: Inputs) -> Array:
        return power((X.x**2).sum(1), self.hurst)
