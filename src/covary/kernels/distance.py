"""Scaled squared distances whose values are exact near zero and whose slopes are finite there."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

DIRECT_COLUMNS = 16  # up to here differences cost no more than a matrix product (docs/decisions/0003)
CANCELLATION = 1e-7  # a product-form entry below this fraction of |a|² + |b|² has lost half its digits


def _direct(A: Any, B: Any) -> Any:
    if A.shape[1] <= DIRECT_COLUMNS:
        total = jnp.zeros((A.shape[0], B.shape[0]), A.dtype)
        for column in range(A.shape[1]):
            total = total + (A[:, column][:, None] - B[:, column][None, :]) ** 2
        return total

    def step(total: Any, ab: Any) -> tuple[Any, None]:
        return total + (ab[0][:, None] - ab[1][None, :]) ** 2, None

    return jax.lax.scan(step, jnp.zeros((A.shape[0], B.shape[0]), A.dtype), (A.T, B.T))[0]


def _by_product(A: Any, B: Any) -> Any:
    norms = (A * A).sum(1)[:, None] + (B * B).sum(1)[None, :]
    square = jnp.maximum(norms - 2 * A @ B.T, 0)
    cancelled = square < max(CANCELLATION, jnp.finfo(A.dtype).eps ** 0.5) * norms  # float32 has fewer digits to lose
    return jax.lax.cond(jnp.any(cancelled), lambda: _direct(A, B), lambda: square)


@jax.custom_jvp
def square_distance(A: Any, B: Any) -> Any:
    r"""All squared distances :math:`|a_i - b_j|^2` between the rows of A (n, d) and B (m, d).

    Few columns: sums of squared differences. Many: the matrix-product form :math:`|a|^2 + |b|^2 - 2 a \cdot b`, unless a
    pair in this block lies so close that the subtraction cancels; then the differences again. Slopes of either order are
    matrix products in both modes of differentiation.
    """
    return _direct(A, B) if A.shape[1] <= DIRECT_COLUMNS else _by_product(A, B)


@square_distance.defjvp
def _square_distance_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (A, B), (dA, dB) = primals, tangents
    slope = (A * dA).sum(1)[:, None] + (B * dB).sum(1)[None, :] - dA @ B.T - A @ dB.T
    return square_distance(A, B), 2 * slope


def scaled_square(x: Any, z: Any, lengthscale: Any) -> Any:
    r""":math:`\sum_k (x_k - z_k)^2/\ell_k^2` for all pairs of rows; inputs are centred first (distances do not notice)."""
    centre = jax.lax.stop_gradient(z.mean(0))
    return square_distance((x - centre) / lengthscale, (z - centre) / lengthscale)
