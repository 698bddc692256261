r"""Adding rows to a posterior and removing them, in O(n²) instead of O(n³).

Under Gaussian noise the posterior depends on the Cholesky factor of C = K + S. A new row appends a row to it (bordering): with
k the covariances to the old rows and κ its own variance, noise included,

.. math:: L' = \begin{pmatrix} L & 0 \\ l^\top & \lambda \end{pmatrix}, \qquad L\,l = k, \quad \lambda^2 = \kappa - l^\top l .

Removing a row leaves the factor above it unchanged and adds its column to the part below, a rank-one update
:math:`\tilde L\tilde L^\top = L_3L_3^\top + l_{32}l_{32}^\top` by plane rotations (by reflections for many rows together).
The partitioned inverse is also available (:func:`grown_inverse`), but updating the factor is more accurate.

References
----------
Gibbs (1997), eqs. A.3 to A.10; Coolen, eqs. 4.19 to 4.21 with the sign corrected; Golub & Van Loan (2013),
section 6.5.
"""

from __future__ import annotations

from itertools import pairwise
from math import hypot

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from covary._checks import fail
from covary._errors import Option
from covary._memory import check_memory
from covary._precision import precision
from covary._threads import blas_threads
from covary._words import counted
from covary.data import Data
from covary.gram.dense import Dense, DenseBound, NoiseFactor, sound
from covary.gram.linalg import Lapack
from covary.inference.condition import condition
from covary.inference.exact import Exact
from covary.kernels import tiles
from covary.likelihoods.gaussian import Gaussian
from covary.model import Model
from covary.posterior import AbstractPosterior, Posterior
from covary.posterior.base import Rows
from covary.sites import Noise

BLOCK = 16  # block size of the reflections
FEW = 10  # maximum number of rows removed by plane rotations, one at a time
MANY = 3  # if more than one row in three is removed, a new factor is no more expensive


# factors --------------------------------------------------------------------------------------------------------------


def append_rows(L: np.ndarray, cross: np.ndarray, block: np.ndarray) -> np.ndarray | None:
    """Return the lower factor of C with p rows added; None if it does not exist in working precision.

    Parameters
    ----------
    L
        The lower factor of C (n, n); entries above the diagonal are not read.
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
    """Return the lower factor of C without some rows and columns, given the factor of C.

    Parameters
    ----------
    L
        The lower factor of C (n, n); entries above the diagonal are neither read nor written in the result.
    rows
        The rows to remove: distinct indices from 0 to n − 1.
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
    """Return the lower triangle of L without some rows and columns, copied in blocks."""
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
    """Overwrite L with the factor of L Lᵀ + v vᵀ, by one plane rotation per column; v is overwritten too."""
    (rot,) = linalg.get_blas_funcs(("rot",), (L, v))
    for j in range(len(v)):
        a, b = float(L[j, j]), float(v[j])
        size = hypot(a, b)
        rot(L[j:, j], v[j:], a / size, b / size, overwrite_x=1, overwrite_y=1)


# inverses -------------------------------------------------------------------------------------------------------------


def grown_inverse(inverse: np.ndarray, cross: np.ndarray, block: np.ndarray) -> np.ndarray:
    r"""Return the inverse of a matrix with rows added, from the inverse without them (a partitioned inverse).

    .. math:: \mu = (\kappa - k^\top C^{-1}k)^{-1},\quad m = -C^{-1}k\,\mu,\quad M = C^{-1} + m\,\mu^{-1}m^\top

    The result is symmetric. For ill-conditioned matrices use :func:`append_rows`, which is more accurate.

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


# posteriors -----------------------------------------------------------------------------------------------------------


class _Given:
    """A bound gram with a known factor, with the interface that :class:`Exact` uses."""

    def __init__(self, bound: DenseBound, L: np.ndarray, jitter: float) -> None:
        self.bound, self.basis, self.L, self.jitter = bound, bound.basis, L, jitter

    def factor(self, sites: Noise, *, fixed_jitter: float | None = None) -> NoiseFactor:
        return NoiseFactor(self.L, sites, self.basis, self.jitter)

    def correction(self, sites: Noise) -> float:
        return 0.0


def _checked(who: str, posterior: AbstractPosterior) -> tuple[Posterior, DenseBound, NoiseFactor]:
    """Return the posterior with its bound gram and factor; raise an error if its rows cannot be updated."""
    if not isinstance(posterior, Posterior):
        raise fail(who, f"got {type(posterior).__name__}", "give a posterior returned by condition(...)")
    bound, factor = posterior.bound, posterior.factor
    if not (isinstance(bound, DenseBound) and isinstance(factor, NoiseFactor)):
        what = "the posterior is not exact with a dense matrix"
        raise fail(who, what, "condition again, with " + Option("inference", "Exact()") + " and " + Option("gram", "Dense()"))
    return posterior, bound, factor


def _finished(model: Model, gram: Dense, jitter: float, data: Data, L: np.ndarray) -> Posterior:
    """Return the posterior of other data with a known factor."""
    bound = gram.bind(model.prior.kernels, data.X, model.prior.basis)
    solved = Exact().solve(model, data, _Given(bound, L, jitter))  # type: ignore[arg-type]
    return Posterior(model, data, bound, solved)


def can_append(posterior: AbstractPosterior) -> bool:
    """Return whether rows can be added to a posterior and removed from it."""
    gaussian = isinstance(posterior, Posterior)
    return gaussian and isinstance(posterior.factor, NoiseFactor) and isinstance(posterior.bound, DenseBound)


def append_data(posterior: AbstractPosterior, new: Data) -> Posterior:
    """Add rows given as data, as :func:`append`."""
    who = "gram.append"
    post, bound, factor = _checked(who, posterior)
    old, likelihood = post.data, post.model.likelihood
    assert isinstance(likelihood, Gaussian)
    new = new if new.dtype == old.dtype else _cast(new, old.dtype)
    data = old.join(new)
    post.model.prior.check(data.X)
    do = "use fewer rows or an approximation such as " + Option("gram", "LowRank(...)")
    check_memory(who, 2 * data.rows**2 * data.dtype.itemsize, do)
    with precision(data.dtype), blas_threads(data.rows):
        block = tiles.mirror(tiles.gram_lower(bound.kernel, new.X))
        block.flat[:: new.rows + 1] += np.asarray(likelihood.sites(new).variance) + factor.jitter
        L = append_rows(factor.L, tiles.cross(bound.kernel, old.X, new.X), block)
        if L is not None:
            return _finished(post.model, bound.gram, factor.jitter, data, L)
    return condition(post.model, data, gram=bound.gram)  # more jitter is required


def _cast(data: Data, dtype: np.dtype) -> Data:
    return Data(data.X.with_x(data.X.x.astype(dtype)), data.y, data.noise_variance, data.weight, data.scatter)


def append(
    posterior: AbstractPosterior,
    X: Rows,
    y: ArrayLike,
    *,
    noise_variance: ArrayLike | None = None,
    weight: ArrayLike | None = None,
) -> Posterior:
    """Return the posterior with rows added, at the same hyperparameters; O(n²) per row, equal to conditioning again.

    Parameters
    ----------
    posterior
        The result of ``condition`` with ``Exact()`` and ``Dense()``; it is not modified.
    X, y
        The new rows and their observations.
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


def remove(posterior: AbstractPosterior, rows: ArrayLike) -> Posterior:
    """Return the posterior without some rows, at the same hyperparameters; O(n²) per row, equal to conditioning again.

    Parameters
    ----------
    posterior
        The result of ``condition`` with ``Exact()`` and ``Dense()``; it is not modified.
    rows
        The rows to remove: indices, or a mask of all rows.
    """
    who = "gram.remove"
    post, bound, factor = _checked(who, posterior)
    old = post.data
    n, gone = old.rows, np.atleast_1d(np.asarray(rows))
    if gone.dtype == bool and gone.shape == (n,):
        gone = np.flatnonzero(gone)
    if not np.issubdtype(gone.dtype, np.integer) or gone.ndim != 1 or len(gone) == 0:
        raise fail(who, f"rows is {rows!r}", f"give numbers of rows, or a mask of all {n}", argument="rows")
    if (gone < -n).any() or (gone >= n).any():
        what = f"row {int(gone[(gone < -n) | (gone >= n)][0])} is out of range for {counted(n, 'row')}"
        raise fail(who, what, "give valid row indices")
    gone = np.unique(gone % n)
    if len(gone) == n:
        raise fail(who, f"all {n} rows would be removed", "keep at least one")
    data = old.take(np.setdiff1d(np.arange(n), gone))
    if len(gone) * MANY > n:
        return condition(post.model, data, gram=bound.gram)
    with precision(data.dtype), blas_threads(n):
        return _finished(post.model, bound.gram, factor.jitter, data, remove_rows(factor.L, gone))
