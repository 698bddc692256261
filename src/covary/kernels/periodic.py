"""Periodic kernels."""

from __future__ import annotations

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp
import numpy as np

from covary._module import Numbers
from covary._types import Array
from covary.data import Inputs
from covary.kernels.base import AbstractKernel, Traits
from covary.parameters import positive


class Periodic(AbstractKernel):
    r"""Periodic kernel, for functions that repeat exactly, with any shape within the period.

    .. math:: k(x, x') = \exp\Bigl(-\sum_k \frac{2 \sin^2(\pi (x_k - x'_k)/p_k)}{\ell_k^2}\Bigr)

    It is the squared exponential of points on the circle :math:`(\cos, \sin)`. Multiply it by a squared exponential for a
    pattern that changes slowly.

    Parameters
    ----------
    lengthscale
        Positive: the length-scale within a period, in radians of phase; one number, or one per column.
    period
        Positive, in units of the input: one number, or one per column.

    References
    ----------
    Rasmussen & Williams (2006), eq. 4.31, with the period made explicit as in eq. 5.16.

    Examples
    --------
    >>> round(float(Periodic(lengthscale=1.0, period=2.0)([0.0], [0.5])), 6)
    0.367879
    """

    lengthscale: Numbers = positive(1.0)
    _: KW_ONLY
    period: Numbers = positive(1.0)

    @property
    def traits(self) -> Traits:
        return Traits(stationary=True, smoothness=np.inf)

    def block(self, X: Inputs, Z: Inputs) -> Array:
        centre = jax.lax.stop_gradient(Z.x.mean(0))
        weight = jnp.broadcast_to(1 / jnp.square(self.lengthscale), (X.columns,))

        def circle(x: Array) -> Array:
            phase = 2 * jnp.pi * (x - centre) / self.period
            return jnp.concatenate([jnp.cos(phase), jnp.sin(phase)], axis=1)

        # points on unit circles: 2 sin²(δ/2) = 1 − u·u'. As a matrix product, it takes sines per row instead of per pair
        near = (circle(X.x) * jnp.concatenate([weight, weight])) @ circle(Z.x).T
        return jnp.exp(jnp.minimum(near - weight.sum(), 0.0))

    def block_diag(self, X: Inputs) -> Array:
        return jnp.ones(X.rows, X.x.dtype)


class Cosine(AbstractKernel):
    r"""Cosine kernel, for sinusoids of one frequency and any phase.

    .. math:: k(x, x') = \cos\Bigl(2\pi \sum_k (x_k - x'_k)/p_k\Bigr)

    It has rank two: functions are sums of a sine and a cosine. Multiply it by a decaying kernel for a quasi-periodic signal.

    Parameters
    ----------
    period
        Positive, in units of the input: one number, or one per column (a plane wave).

    References
    ----------
    Rasmussen & Williams (2006), section 4.2.1: the covariance whose spectral measure is one frequency (Bochner, eq. 4.5).

    Examples
    --------
    >>> round(float(Cosine(period=3.0)([0.0], [1.0])), 6)
    -0.5
    """

    period: Numbers = positive(1.0)

    @property
    def traits(self) -> Traits:
        return Traits(stationary=True, smoothness=np.inf)

    def block(self, X: Inputs, Z: Inputs) -> Array:
        centre = jax.lax.stop_gradient(Z.x.mean(0))

        def wave(x: Array) -> Array:
            phase = 2 * jnp.pi * ((x - centre) / self.period).sum(1)
            return jnp.stack([jnp.cos(phase), jnp.sin(phase)], axis=1)

        return wave(X.x) @ wave(Z.x).T

    def block_diag(self, X: Inputs) -> Array:
        return jnp.ones(X.rows, X.x.dtype)
