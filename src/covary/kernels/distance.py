"""Scaled squared distances whose values are exact near zero and whose slopes are finite there."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

DIRECT_COLUMNS = 16  # up to here differences cost no more than a matrix product (docs/decisions/0003)
CANCELLATION = 10.0  # times √ε: a product-form entry below this fraction of |a|² + |b|² has lost half its digits


def _direct(A: Any, B: Any, w: Any) -> Any:
    """Differences first, scaling after: equal rows are at distance exactly zero, however the compiler rounds products."""
    if A.shape[1] <= DIRECT_COLUMNS:
        total = jnp.zeros((A.shape[0], B.shape[0]), A.dtype)
        for k in range(A.shape[1]):
            total = total + w[k] * (A[:, k][:, None] - B[:, k][None, :]) ** 2
        return total

    def step(total: Any, part: Any) -> tuple[Any, None]:
        a, b, weight = part
        return total + weight * (a[:, None] - b[None, :]) ** 2, None

    return jax.lax.scan(step, jnp.zeros((A.shape[0], B.shape[0]), A.dtype), (A.T, B.T, w))[0]


def _by_product(A: Any, B: Any, w: Any) -> Any:
    norms = (w * A * A).sum(1)[:, None] + (w * B * B).sum(1)[None, :]
    square = jnp.maximum(norms - 2 * (w * A) @ B.T, 0)
    least = CANCELLATION * jnp.finfo(A.dtype).eps ** 0.5
    return jax.lax.cond(jnp.any(square < least * norms), lambda: _direct(A, B, w), lambda: square)


@jax.custom_jvp
def square_distance(A: Any, B: Any, w: Any) -> Any:
    r"""All weighted squared distances :math:`\sum_k w_k (a_{ik} - b_{jk})^2` between the rows of A (n, d) and B (m, d).

    Few columns: sums of squared differences. Many: the matrix-product form :math:`|a|^2 + |b|^2 - 2 a \cdot b`, unless a
    pair in this block lies so close that the subtraction cancels; then the differences again. Slopes of either order are
    matrix products in both modes of differentiation.
    """
    return _direct(A, B, w) if A.shape[1] <= DIRECT_COLUMNS else _by_product(A, B, w)


@square_distance.defjvp
def _square_distance_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (A, B, w), (dA, dB, dw) = primals, tangents
    own_a, own_b = (2 * w * A * dA + dw * A * A).sum(1), (2 * w * B * dB + dw * B * B).sum(1)
    mixed = (dA * w) @ B.T + (A * w) @ dB.T + (A * dw) @ B.T
    return square_distance(A, B, w), own_a[:, None] + own_b[None, :] - 2 * mixed


def _parts(x: Any, z: Any, lengthscale: Any) -> tuple[Any, Any, Any]:
    """Centred inputs (distances do not notice) and weights 1/ℓ²."""
    centre = jax.lax.stop_gradient(z.mean(0))
    return x - centre, z - centre, jnp.broadcast_to(1 / jnp.square(lengthscale), (x.shape[1],))


def scaled_square(x: Any, z: Any, lengthscale: Any) -> Any:
    r""":math:`\sum_k (x_k - z_k)^2/\ell_k^2` for all pairs of rows."""
    return square_distance(*_parts(x, z, lengthscale))


def rounding_floor(x: Any, z: Any, lengthscale: Any) -> Any:
    """Below this a scaled squared distance has slopes made of rounding alone (half the digits of its two norms)."""
    A, B, w = _parts(x, z, lengthscale)
    norms = (w * A * A).sum(1)[:, None] + (w * B * B).sum(1)[None, :]
    return jax.lax.stop_gradient(jnp.finfo(x.dtype).eps * norms)
