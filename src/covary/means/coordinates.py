"""Coordinates of linear weights that do not depend on the units of the columns, nor on how the columns go together."""

from __future__ import annotations

import numpy as np
from scipy import linalg


def orthogonalising(H: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""R of :math:`H = QR`, upper triangular with a positive diagonal, and which columns depend on those before them.

    In coordinates :math:`u = R\beta` the columns :math:`H R^{-1} = Q` are orthonormal: whatever units columns are in, and
    however far from zero. A column that depends on those before it, to rounding, counts with its own length instead of
    what is left of it, so that R can be inverted and moving along its coordinate changes nothing. What rounding may leave of
    a column is measured by all that was taken off it: two columns of one quantity, one of them far from zero, are as
    dependent as they were near it.

    Examples
    --------
    >>> R, dependent = orthogonalising(np.array([[1.0, 2000.0], [1.0, 2010.0]]))
    >>> np.round(np.array([[1.0, 2000.0], [1.0, 2010.0]]) @ np.linalg.inv(R), 3)
    array([[ 0.707, -0.707],
           [ 0.707,  0.707]])
    """
    m = H.shape[1]
    precise = 16 * max(m, 4) * np.finfo(H.dtype if H.dtype.kind == "f" else np.float64).eps
    whole: np.ndarray = np.asarray(linalg.qr(np.asarray(H, np.float64), mode="r")[0])[:m]
    whole = whole * np.where(np.diagonal(whole) < 0, -1.0, 1.0)[: len(whole), None]
    length = np.linalg.norm(whole, axis=0)
    R, Q, kept = np.zeros((m, m)), np.zeros((len(whole), 0)), np.zeros(m, bool)
    for j in range(m):
        left, along = whole[:, j], np.zeros(Q.shape[1])
        for _ in range(2):  # the second time takes off what rounding left
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
