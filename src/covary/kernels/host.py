"""Squared distances and their weighted sums in NumPy, for small problems.

Up to a few hundred rows most of the time of a compiled tile is padding and dispatch. Kernels that also have a NumPy
implementation (``host_block`` and ``host_pull``) use it instead, which also avoids compiling. Both agree to 1e-12.
"""

from __future__ import annotations

import numpy as np

ROWS = 512  # up to this number of rows NumPy is faster
STEP = 120  # rows and columns at a time: temporaries fit in the cache and are small enough to be reused by the allocator
ENTRIES = 2**20  # a cross-covariance of more entries is left to the compiled tiles, which run on several threads
CANCELLATION = 10.0  # times √ε: below this fraction of |a|² + |b|² a distance is recomputed from differences


def square_distances(A: np.ndarray, B: np.ndarray, w: np.ndarray) -> np.ndarray:
    r"""Return all :math:`\sum_k w_k (a_{ik} - b_{jk})^2`, accurate if two rows are close or equal."""
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


# k as a function of s = r², and dk/ds if ``slope``; these may overwrite s. They are copied into exported files, so they may
# use only NumPy.


def squared_exponential_profile(s: np.ndarray, slope: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """exp(−s/2)."""
    s *= -0.5
    k = np.exp(s, out=s)
    return k, -0.5 * k if slope else None


def matern32_profile(s: np.ndarray, slope: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """(1 + t) exp(−t) with t = √(3 s)."""
    s *= 3
    t = np.sqrt(s, out=s)
    decay = np.exp(-t)
    t += 1
    t *= decay
    return t, -1.5 * decay if slope else None


def matern52_profile(s: np.ndarray, slope: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """(1 + t + t²/3) exp(−t) with t = √(5 s)."""
    s *= 5
    t = np.sqrt(s)
    decay = np.exp(-t)
    t += 1
    s /= 3
    s += t
    s *= decay
    if not slope:
        return s, None
    t *= decay
    t *= -5 / 6
    return s, t


def half_integer_profile(s: np.ndarray, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p(t) exp(−t) with t = √((2p + 1) s), for a polynomial p; also exp(−t) and t, from which derivatives are computed."""
    s *= 2 * len(coefficients) - 1
    t = np.sqrt(s, out=s)
    decay = np.exp(-t)
    return np.polynomial.polynomial.polyval(t, coefficients) * decay, decay, t


def sum_squares(W: np.ndarray, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    r"""Return :math:`\sum_{ij} W_{ij} (a_{ik} - b_{jk})^2` for every column k."""
    return W.sum(1) @ (A * A) + W.sum(0) @ (B * B) - 2 * (A * (W @ B)).sum(0)


def centred(x: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Subtract the mean of the second from both, which leaves distances unchanged and reduces rounding errors."""
    centre = z.mean(0)
    return x - centre, z - centre
