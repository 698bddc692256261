"""Distribution-free tests of errors: rank correlation and similarity of neighbours, with their null distributions."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.spatial import KDTree
from scipy.special import ndtri
from scipy.stats import kruskal, norm, rankdata, spearmanr

MOST = 20_000  # maximum number of rows whose neighbours are searched
NEIGHBOURS = 5  # of each row; two with one input, the previous and the next


def normal_scores(z: np.ndarray) -> np.ndarray:
    """Return the ranks as quantiles of a standard normal, so that an outlier has no more weight than its rank."""
    return ndtri((rankdata(z) - 0.5) / len(z))


def rank_correlation(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Return Spearman's correlation and its two-sided p-value; (0, 1) if a or b is constant."""
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0, 1.0
    found = spearmanr(a, b)
    r, p = float(found[0]), float(found[1])  # type: ignore[arg-type]
    return (r, p) if np.isfinite(r) else (0.0, 1.0)


def group_difference(a: np.ndarray, groups: np.ndarray) -> tuple[float, float]:
    r"""Return how much the ranks of a differ between groups, on the scale of a correlation, and its p-value (Kruskal & Wallis).

    The size is :math:`\sqrt{(H - k + 1)/(n - k)}` for k groups of n rows in total, about 0 if the groups do not differ.

    Examples
    --------
    >>> found, p = group_difference(np.r_[np.arange(20), 50 + np.arange(20)], np.repeat([0.0, 1.0], 20))
    >>> round(found, 2), p < 1e-6
    (0.86, True)
    """
    kinds, codes = np.unique(groups, return_inverse=True)
    n, k = len(a), len(kinds)
    if k < 2 or n <= k or np.ptp(a) == 0:
        return 0.0, 1.0
    statistic, p_value = kruskal(*(a[codes == i] for i in range(k)))
    size = np.sqrt(max(float(statistic) - k + 1, 0.0) / (n - k))
    return float(size), float(p_value)


def neighbours(x: np.ndarray, count: int) -> np.ndarray:
    """Return the indices (n, count) of the nearest other rows of every row."""
    n = len(x)
    found = np.asarray(KDTree(x).query(x, k=count + 1)[1])
    own = found == np.arange(n)[:, None]
    own[~own.any(1), -1] = True  # among many equal rows a row may not find itself: then drop the farthest
    return found[~own].reshape(n, count)


def likeness(z: np.ndarray, x: np.ndarray) -> tuple[float, float, np.ndarray]:
    r"""Return the similarity of errors of neighbouring rows: Moran's I of their normal scores, its one-sided p-value, and the
    mean score of the neighbours of each row.

    .. math:: I = \frac{n}{\sum w_{ij}}\,\frac{\sum_{ij}w_{ij}s_is_j}{\sum_is_i^2}

    Mean and variance are those over all permutations of the errors (Cliff & Ord 1981, chapter 1), so nothing is assumed about
    their distribution. Leave-one-out errors of a correct model are, if anything, negatively correlated between neighbours: the
    test is then conservative.

    Examples
    --------
    >>> x = np.linspace(0, 1, 100)[:, None]
    >>> round(likeness(np.sin(9 * x[:, 0]), x)[0], 2)
    0.98
    """
    n = len(z)
    if np.ptp(z) == 0:
        return 0.0, 1.0, np.zeros(n)
    count = min(2 if x.shape[1] == 1 else NEIGHBOURS, n - 1)
    near, s = neighbours(x, count), normal_scores(z)
    rows = np.repeat(np.arange(n), count)
    A = sparse.csr_matrix((np.ones(n * count), (rows, near.ravel())), (n, n))
    W = (A + A.T) / 2
    total, squares, sums = float(W.sum()), float(2 * W.power(2).sum()), np.asarray(W.sum(1)).ravel()
    found = n / total * float(s @ (W @ s)) / float(s @ s)
    mean, spread = -1 / (n - 1), 4 * float((sums**2).sum())
    fourth = n * float((s**4).sum()) / float((s**2).sum()) ** 2
    first = n * ((n * n - 3 * n + 3) * squares - n * spread + 3 * total**2)
    second = fourth * ((n * n - n) * squares - 2 * n * spread + 6 * total**2)
    variance = (first - second) / ((n - 1) * (n - 2) * (n - 3) * total**2) - mean**2
    p = float(norm.sf((found - mean) / np.sqrt(max(variance, 1e-12))))
    return found, p, s[near].mean(1)
