"""Coordinates of linear weights that do not depend on the units of the columns or on correlations between them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy import linalg

from covary._checks import is_traced
from covary._types import Array


def triangular(R: Array, B: Array, *, trans: int = 0, lower: bool = False) -> np.ndarray:
    """Solve a triangular system by JAX if a matrix is JAX's, else by SciPy."""
    if isinstance(R, jax.Array) or isinstance(B, jax.Array):
        return jax.scipy.linalg.solve_triangular(R, B, trans=trans, lower=lower)  # type: ignore[return-value]
    return linalg.solve_triangular(R, B, trans=trans, lower=lower)


def orthogonalising(H: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Return upper triangular R of :math:`H = QR` with a positive diagonal, and a mask of linearly dependent columns.

    In coordinates :math:`u = R\beta` the columns :math:`H R^{-1} = Q` are orthonormal, whatever the units and offsets of the
    columns. If a column depends linearly on those before it, to rounding error, its diagonal entry is its length instead of
    that of the remainder, so that R is invertible and its coordinate has no effect. The rounding error is estimated from all
    that was subtracted from the column, so two columns of the same quantity, one of them far from zero, are recognised as
    dependent.

    Examples
    --------
    >>> R, dependent = orthogonalising(np.array([[1.0, 2000.0], [1.0, 2010.0]]))
    >>> np.round(np.array([[1.0, 2000.0], [1.0, 2010.0]]) @ np.linalg.inv(R), 3)
    array([[ 0.707, -0.707],
           [ 0.707,  0.707]])
    """
    m = H.shape[1]
    precise = 16 * max(m, 4) * np.finfo(H.dtype if H.dtype.kind == "f" else np.float64).eps
    if is_traced(H):
        return _traced(H, precise)
    triangle: np.ndarray = np.asarray(linalg.qr(np.asarray(H, np.float64), mode="r")[0])[:m]
    whole = triangle * np.where(np.diagonal(triangle) < 0, -1.0, 1.0)[: len(triangle), None]
    length = np.linalg.norm(whole, axis=0)
    R, Q, kept = np.zeros((m, m)), np.zeros((len(whole), 0)), np.zeros(m, bool)
    for j in range(m):
        left, along = whole[:, j], np.zeros(Q.shape[1])
        for _ in range(2):  # the second pass removes the rounding errors of the first
            again = Q.T @ left
            left, along = left - Q @ again, along + again
        taken = np.abs(linalg.solve_triangular(R[np.ix_(kept, kept)], along)) @ length[kept] if kept.any() else 0.0
        rest = np.linalg.norm(left)
        R[kept, j] = along
        if rest > precise * (length[j] + taken):
            R[j, j], kept[j] = rest, True
            Q = np.column_stack([Q, left / rest])
        else:
            R[j, j] = length[j] if length[j] > 0 else 1.0
    if kept.all():
        R = whole
    return R, ~kept


def _traced(H: Array, precise: float) -> tuple[np.ndarray, np.ndarray]:
    """Return R and the mask in jax.numpy; R is a constant for derivatives, and not invertible if columns are dependent."""
    wide = jax.dtypes.canonicalize_dtype(np.float64)
    triangle = jnp.linalg.qr(jax.lax.stop_gradient(H).astype(wide), mode="r")
    R = triangle * jnp.where(jnp.diagonal(triangle) < 0, -1.0, 1.0)[:, None]
    length = jnp.linalg.norm(R, axis=0)
    taken = length @ jnp.abs(triangular(R, jnp.triu(R, 1)))
    return R, ~(jnp.diagonal(R) > precise * (length + taken))  # type: ignore[return-value]  # annotated for the host
