r"""Rows that come and go: a posterior with some rows more or fewer, in O(n²) instead of O(n³).

Under Gaussian noise the posterior rests on the Cholesky factor of C = K + S. A new row adds a row to it (bordering): with k
the covariances to the old rows and κ its own, noise included,

.. math:: L' = \begin{pmatrix} L & 0 \\ l^\top & \lambda \end{pmatrix}, \qquad L\,l = k, \quad \lambda^2 = \kappa - l^\top l .

A row that goes leaves the factor above it as it is and adds its own column to what is below, a rank-one update
:math:`\tilde L\tilde L^\top = L_3L_3^\top + l_{32}l_{32}^\top`, made by plane rotations (many rows at once: by reflections).
The factor is the better way; the partitioned inverse of the books stands beside it (:func:`grown_inverse`).

References
----------
Gibbs (1997), eqs. A.3 to A.10; Coolen, eqs. 4.19 to 4.21 with the sign corrected; Golub & Van Loan (2013),
section 6.5.
"""

from __future__ import annotations

from itertools import pairwise
from math import hypot
from typing import Any

import numpy as np
from scipy import linalg

from covary._checks import fail
from covary._memory import check_memory
from covary._precision import precision
from covary._threads import blas_threads
from covary._words import counted
from covary.data import Data
from covary.gram.dense import DenseBound, NoiseFactor, sound
from covary.gram.linalg import Lapack
from covary.inference.condition import condition
from covary.inference.exact import Exact
from covary.kernels import tiles
from covary.posterior import Posterior

BLOCK = 16  # columns that reflections are applied to at once
FEW = 10  # rows that are removed by plane rotations, one after the other
MANY = 3  # a removal of more than one row in so many is no cheaper than a new factor


# factors --------------------------------------------------------------------------------------------------------------


def append_rows(L: np.ndarray, cross: np.ndarray, block: np.ndarray) -> np.ndarray | None:
    """The lower factor of C with p rows more; None if there is none to working precision.

    Parameters
    ----------
    L
        The lower factor of C (n, n); what stands above its diagonal is not read.
    cross, block
        Covariances of old and new rows (n, p), and among the new ones (p, p), noise included.
    """
    n, p = cross.shape
    l = Lapack.half_solve(L, np.asfortranarray(cross))
    inner = Lapack.cholesky(np.asfortranarray(block - l.T @ l))
    if inner is None:
        return None
    out = np.empty((n + p, n + p), L.dtype, order="F")
    out[:n, :n], out[n:, :n], out[n:, n:] = L, l.T, np.tril(inner)
    out[:n, n:] = 0
    return out if sound(out, float((out[n:] ** 2).sum(1).max())) else None


def remove_rows(L: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The lower factor of C without some rows and columns, given the factor of C.

    Parameters
    ----------
    L
        The lower factor of C (n, n); what stands above its diagonal is not read, nor written in the result.
    rows
        Which rows go: different numbers from 0 to n − 1.
    """
    n, gone = len(L), np.sort(np.asarray(rows, int))
    kept = np.setdiff1d(np.arange(n), gone)
    out = _without(L, gone)
    first = int(gone[0]) if len(gone) else n
    tail, below = out[first:, first:], kept[first:]
    if len(gone) > FEW and len(below):
        more = np.asfortranarray((L[np.ix_(below, gone)] * (below[:, None] > gone)).T)
        upper = np.asfortranarray(tail.T)
        (tpqrt,) = linalg.get_lapack_funcs(("tpqrt",), (upper, more))
        R = tpqrt(0, min(BLOCK, len(below)), upper, more, overwrite_a=1, overwrite_b=1)[0]
        tail[:] = (R * np.where(np.diagonal(R) < 0, -1.0, 1.0).astype(R.dtype)[:, None]).T
        return out
    for row in gone:
        start = int(np.searchsorted(below, row))
        _rotated(tail[start:, start:], np.ascontiguousarray(L[below[start:], row]))
    return out


def _without(L: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """The lower triangle of L with rows and columns left out, copied in whole pieces."""
    ends = [-1, *gone.tolist(), len(L)]
    spans = [(a + 1, b) for a, b in pairwise(ends) if b > a + 1]
    size = sum(b - a for a, b in spans)
    out, column = np.empty((size, size), L.dtype, order="F"), 0
    for i, (left, right) in enumerate(spans):
        row, wide = column, right - left
        for a, b in spans[i:]:
            out[row : row + b - a, column : column + wide] = L[a:b, left:right]
            row += b - a
        column += wide
    return out


def _rotated(L: np.ndarray, v: np.ndarray) -> None:
    """The factor of L Lᵀ + v vᵀ, over L, by one plane rotation for every column; v is used up."""
    (rot,) = linalg.get_blas_funcs(("rot",), (L, v))
    for j in range(len(v)):
        a, b = float(L[j, j]), float(v[j])
        size = hypot(a, b)
        rot(L[j:, j], v[j:], a / size, b / size, overwrite_x=1, overwrite_y=1)


# inverses -------------------------------------------------------------------------------------------------------------


def grown_inverse(inverse: np.ndarray, cross: np.ndarray, block: np.ndarray) -> np.ndarray:
    r"""The inverse of a matrix with rows added, from the inverse without them (a partitioned inverse).

    .. math:: \mu = (\kappa - k^\top C^{-1}k)^{-1},\quad m = -C^{-1}k\,\mu,\quad M = C^{-1} + m\,\mu^{-1}m^\top

    Kept symmetric; for ill-conditioned matrices use :func:`append_rows`, which loses fewer digits.

    Examples
    --------
    >>> import numpy as np
    >>> C = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 1.5]])
    >>> grown = grown_inverse(np.linalg.inv(C[:2, :2]), C[:2, 2:], C[2:, 2:])
    >>> bool(abs(grown @ C - np.eye(3)).max() < 1e-12)
    True
    """
    u = inverse @ cross
    mu = np.linalg.inv(block - cross.T @ u)
    mu = (mu + mu.T) / 2
    m = -u @ mu
    M = inverse + u @ mu @ u.T
    return np.block([[(M + M.T) / 2, m], [m.T, mu]])


def shrunk_inverse(inverse: np.ndarray, rows: np.ndarray) -> np.ndarray:
    r"""The inverse of a matrix without some rows and columns, :math:`M - m\,\mu^{-1}m^\top`: the same read backwards."""
    gone = np.unique(np.asarray(rows, int))
    kept = np.setdiff1d(np.arange(len(inverse)), gone)
    m = inverse[np.ix_(kept, gone)]
    out = inverse[np.ix_(kept, kept)] - m @ np.linalg.solve(inverse[np.ix_(gone, gone)], m.T)
    return (out + out.T) / 2


# posteriors -----------------------------------------------------------------------------------------------------------


class _Given:
    """A bound whose factor is known already: what :class:`Exact` needs to go on from there."""

    def __init__(self, bound: DenseBound, L: np.ndarray, jitter: float) -> None:
        self.bound, self.basis, self.L, self.jitter = bound, bound.basis, L, jitter

    def factor(self, sites: Any, *, fixed_jitter: float | None = None) -> NoiseFactor:
        return NoiseFactor(self.L, sites, self.basis, self.jitter)

    def correction(self, sites: Any) -> float:
        return 0.0


def _checked(who: str, posterior: Any) -> Any:
    if not isinstance(posterior, Posterior):
        raise fail(who, f"got {type(posterior).__name__}", "give a posterior, as condition(...) returns it")
    if not can_append(posterior):
        raise fail(
            who, "the posterior is not exact with a dense matrix", "condition again, with inference=Exact() and gram=Dense()"
        )
    return posterior


def _finished(posterior: Any, data: Data, L: np.ndarray) -> Posterior:
    """The posterior of other data, whose factor is known."""
    model, gram = posterior.model, posterior.bound.gram
    bound = gram.bind(model.prior.kernels, data.X, model.prior.basis)
    solved = Exact().solve(model, data, _Given(bound, L, posterior.factor.jitter))  # type: ignore[arg-type]
    return Posterior(model, data, bound, solved)


def can_append(posterior: Any) -> bool:
    """Whether a posterior is of the kind that rows can be added to and removed from."""
    return isinstance(posterior.factor, NoiseFactor) and isinstance(posterior.bound, DenseBound)


def append_data(posterior: Any, new: Data) -> Posterior:
    """The same as :func:`append`, for rows that are data already."""
    who = "gram.append"
    old = _checked(who, posterior).data
    new = new if new.dtype == old.dtype else _cast(new, old.dtype)
    data = old.join(new)
    posterior.model.prior.check(data.X)
    check_memory(who, 2 * data.rows**2 * data.dtype.itemsize, "use fewer rows or an approximation such as LowRank(...)")
    with precision(data.dtype), blas_threads(data.rows):
        kernel, factor = posterior.bound.kernel, posterior.factor
        block = tiles.mirror(tiles.gram_lower(kernel, new.X))
        block.flat[:: new.rows + 1] += np.asarray(posterior.model.likelihood.sites(new).variance) + factor.jitter
        L = append_rows(factor.L, tiles.cross(kernel, old.X, new.X), block)
        if L is not None:
            return _finished(posterior, data, L)
    return condition(posterior.model, data, gram=posterior.bound.gram)  # the jitter has to grow


def _cast(data: Data, dtype: Any) -> Data:
    return Data(data.X.with_x(data.X.x.astype(dtype)), data.y, data.noise_variance, data.weight, data.scatter)


def append(posterior: Any, X: Any, y: Any, *, noise_variance: Any = None, weight: Any = None) -> Posterior:
    """The posterior with rows added, at the same hyperparameters: O(n²) a row, equal to conditioning again.

    Parameters
    ----------
    posterior
        What ``condition`` returned with ``Exact()`` and ``Dense()``; it stays as it is.
    X, y
        The new rows and what was observed there.
    noise_variance, weight
        Known noise and weights of the new rows, as in :class:`~covary.data.Data`.

    Examples
    --------
    >>> from covary import GP, Data, Model, condition
    >>> from covary.likelihoods import Gaussian
    >>> post = condition(Model(GP("Matern52()"), likelihood=Gaussian(0.01)), Data([[0.0], [1.0]], [0.0, 1.0]))
    >>> append(post, [[2.0]], [1.5]).predict([[1.5]]).f.mean.round(3)
    array([1.386])
    """
    _checked("gram.append", posterior)
    return append_data(posterior, Data(X, y, noise_variance, weight))


def remove(posterior: Any, rows: Any) -> Posterior:
    """The posterior without some rows, at the same hyperparameters: O(n²) a row, equal to conditioning again.

    Parameters
    ----------
    posterior
        What ``condition`` returned with ``Exact()`` and ``Dense()``; it stays as it is.
    rows
        Which rows go: numbers, or a mask of all rows.
    """
    who = "gram.remove"
    old = _checked(who, posterior).data
    n, gone = old.rows, np.atleast_1d(np.asarray(rows))
    if gone.dtype == bool and gone.shape == (n,):
        gone = np.flatnonzero(gone)
    if not np.issubdtype(gone.dtype, np.integer) or gone.ndim != 1 or len(gone) == 0:
        raise fail(who, f"rows is {rows!r}", f"give numbers of rows, or a mask of all {n}")
    if (gone < -n).any() or (gone >= n).any():
        raise fail(
            who,
            f"row {int(gone[(gone < -n) | (gone >= n)][0])} is not among {counted(n, 'row')}",
            "give numbers of rows there are",
        )
    gone = np.unique(gone % n)
    if len(gone) == n:
        raise fail(who, f"all {n} rows would go", "keep at least one")
    data = old.take(np.setdiff1d(np.arange(n), gone))
    if len(gone) * MANY > n:
        return condition(posterior.model, data, gram=posterior.bound.gram)
    with precision(data.dtype), blas_threads(n):
        return _finished(posterior, data, remove_rows(posterior.factor.L, gone))
