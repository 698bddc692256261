"""Fast elementwise functions for matrices, as polynomials and rational functions."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from covary._types import Array

# arcsin x = x + x P(x²)/Q(x²) for |x| ≤ 1/2, to 2⁻⁵⁸ (the coefficients of fdlibm's e_asin.c); XLA's is ten times slower
_P = (1.66666666666666657415e-01, -3.25565818622400915405e-01, 2.01212532134862925881e-01, -4.00555345006794114027e-02)
_P = (*_P, 7.91534994289814532176e-04, 3.47933107596021167570e-05)
_Q = (1.0, -2.40339491173441421878, 2.02094576023350569471, -6.88283971605453293030e-01, 7.70381505559019352791e-02)


def horner(coefficients: Sequence[float] | Array, x: Array) -> Array:
    """Evaluate the polynomial with these coefficients, the constant first."""
    total = coefficients[-1] + 0 * x
    for c in reversed(range(len(coefficients) - 1)):
        total = total * x + coefficients[c]
    return total


@jax.custom_jvp
def arcsine(x: Array) -> Array:
    """Compute the arcsine by a rational function, several times faster than XLA's."""
    size = jnp.abs(x)
    large = size > 0.5
    y = jnp.where(large, 0.5 * (1 - size), x * x)
    r = jnp.where(large, jnp.sqrt(y), size)
    small = r + r * y * horner(_P, y) / horner(_Q, y)
    return jnp.copysign(jnp.where(large, 0.5 * jnp.pi - 2 * small, small), x)


@arcsine.defjvp
def _arcsine_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (x,), (dx,) = primals, tangents
    return arcsine(x), dx / jnp.sqrt((1 - x) * (1 + x))
