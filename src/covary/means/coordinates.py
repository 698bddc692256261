"""Coordinates of linear weights that do not depend on the units of the columns, nor on how the columns go together."""

from __future__ import annotations

import numpy as np
from scipy import linalg


def orthogonalising(H: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""R of :math:`H = QR`, upper triangular with a positive diagonal, and which columns depend on those before them.

    In coordinates :math:`u = R\beta` the columns :math:`H R^{-1} = Q` are orthonormal: whatever units columns are in, and
    however far from zero. A column that depends on those before it, to rounding, counts with its own length instead of
    what is left of it, so that R can be inverted and moving along its coordinate changes nothing.

    Examples
    --------
    >>> R, dependent = orthogonalising(np.array([[1.0, 2000.0], [1.0, 2010.0]]))
    >>> np.round(np.array([[1.0, 2000.0], [1.0, 2010.0]]) @ np.linalg.inv(R), 3)
    array([[ 0.707, -0.707],
           [ 0.707,  0.707]])
    """
    n, m = H.shape
    precise = np.finfo(H.dtype if H.dtype.kind == "f" else np.float64).eps
    R = np.zeros((m, m))
    R[: min(n, m)] = linalg.qr(np.asarray(H, np.float64), mode="r")[0][:m]
    R *= np.where(np.diagonal(R) < 0, -1.0, 1.0)[:, None]
    length = np.linalg.norm(R, axis=0)
    dependent = np.diagonal(R) <= 16 * max(m, 4) * precise * length
    np.fill_diagonal(R, np.where(dependent, np.where(length > 0, length, 1.0), np.diagonal(R)))
    return R, dependent
