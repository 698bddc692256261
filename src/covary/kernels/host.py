"""Squared distances and their weighted sums in plain NumPy, for small problems.

Up to a few hundred rows a compiled tile is mostly padding and dispatch: kernels that also know themselves in NumPy
(``host_block`` and ``host_pull``) are evaluated here without either, and without compiling. Both lanes agree to 1e-12.
"""

from __future__ import annotations

import numpy as np

ROWS = 512  # up to here the host is faster
STEP = 120  # rows and columns at a time: temporaries that stay in the cache, and small enough to be reused by the allocator
ENTRIES = 2**20  # a cross-covariance of more entries is left to the compiled tiles, which run on several threads
CANCELLATION = 10.0  # times √ε: below this fraction of |a|² + |b|² a distance is computed again from differences


def square_distances(A: np.ndarray, B: np.ndarray, w: np.ndarray) -> np.ndarray:
    r"""All :math:`\sum_k w_k (a_{ik} - b_{jk})^2`, exact where two rows are close or equal."""
    Aw = A * w
    norm_a, norm_b = (Aw * A).sum(1), (B * B * w).sum(1)
    s = Aw @ B.T
    s *= -2
    s += norm_a[:, None]
    s += norm_b[None, :]
    np.maximum(s, 0, out=s)
    least = CANCELLATION * np.finfo(A.dtype).eps ** 0.5
    close = s < least * (norm_a[:, None] + norm_b[None, :])
    if close.any():
        i, j = np.nonzero(close)
        for start in range(0, len(i), 2**14):
            part = slice(start, start + 2**14)
            s[i[part], j[part]] = ((A[i[part]] - B[j[part]]) ** 2 * w).sum(1)
    return s


def sum_squares(W: np.ndarray, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    r"""For every column k, :math:`\sum_{ij} W_{ij} (a_{ik} - b_{jk})^2`."""
    return W.sum(1) @ (A * A) + W.sum(0) @ (B * B) - 2 * (A * (W @ B)).sum(0)


def centred(x: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both about the mean of the second; distances do not notice, rounding does."""
    centre = z.mean(0)
    return x - centre, z - centre
