"""Scaled squared distances, accurate near zero and with finite derivatives there."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from covary._types import Array

DIRECT_COLUMNS = 16  # up to this number of columns differences cost no more than a matrix product (docs/decisions/0003)
CANCELLATION = 10.0  # times √ε: in the product form, an entry below this fraction of |a|² + |b|² has lost half its digits


def _direct(A: Array, B: Array, w: Array) -> Array:
    """Scale after taking differences, so that equal rows have distance exactly zero regardless of how products are rounded."""
    if A.shape[1] <= DIRECT_COLUMNS:
        total = jnp.zeros((A.shape[0], B.shape[0]), A.dtype)
        for k in range(A.shape[1]):
            total = total + w[k] * (A[:, k][:, None] - B[:, k][None, :]) ** 2
        return total

    def step(total: Array, part: tuple[Array, Array, Array]) -> tuple[Array, None]:
        a, b, weight = part
        return total + weight * (a[:, None] - b[None, :]) ** 2, None

    return jax.lax.scan(step, jnp.zeros((A.shape[0], B.shape[0]), A.dtype), (A.T, B.T, w))[0]


def _by_product(A: Array, B: Array, w: Array) -> Array:
    norms = (w * A * A).sum(1)[:, None] + (w * B * B).sum(1)[None, :]
    square = jnp.maximum(norms - 2 * (w * A) @ B.T, 0)
    least = CANCELLATION * jnp.finfo(A.dtype).eps ** 0.5
    return jax.lax.cond(jnp.any(square < least * norms), lambda: _direct(A, B, w), lambda: square)


@jax.custom_jvp
def square_distance(A: Array, B: Array, w: Array) -> Array:
    r"""Return all weighted squared distances :math:`\sum_k w_k (a_{ik} - b_{jk})^2` between the rows of A (n, d) and B (m, d).

    For few columns they are sums of squared differences. For many the matrix-product form
    :math:`|a|^2 + |b|^2 - 2 a \cdot b` is used, unless some pair in this block is so close that the subtraction cancels.
    Derivatives are matrix products in both forward and reverse mode.
    """
    return _direct(A, B, w) if A.shape[1] <= DIRECT_COLUMNS else _by_product(A, B, w)


@square_distance.defjvp
def _square_distance_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (A, B, w), (dA, dB, dw) = primals, tangents
    own_a, own_b = (2 * w * A * dA + dw * A * A).sum(1), (2 * w * B * dB + dw * B * B).sum(1)
    mixed = (dA * w) @ B.T + (A * w) @ dB.T + (A * dw) @ B.T
    return square_distance(A, B, w), own_a[:, None] + own_b[None, :] - 2 * mixed


def _parts(x: Array, z: Array, lengthscale: Array | float) -> tuple[Array, Array, Array]:
    """Return centred inputs, which leave distances unchanged, and the weights 1/ℓ²."""
    centre = jax.lax.stop_gradient(z.mean(0))
    return x - centre, z - centre, jnp.broadcast_to(1 / jnp.square(lengthscale), (x.shape[1],))


def scaled_square(x: Array, z: Array, lengthscale: Array | float) -> Array:
    r"""Return :math:`\sum_k (x_k - z_k)^2/\ell_k^2` for all pairs of rows."""
    return square_distance(*_parts(x, z, lengthscale))


def rounding_floor(x: Array, z: Array, lengthscale: Array) -> Array:
    """Return the scaled squared distance below which derivatives are dominated by rounding (half the digits of the norms)."""
    A, B, w = _parts(x, z, lengthscale)
    norms = (w * A * A).sum(1)[:, None] + (w * B * B).sum(1)[None, :]
    return jax.lax.stop_gradient(jnp.finfo(x.dtype).eps * norms)
