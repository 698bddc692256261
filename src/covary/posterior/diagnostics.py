r"""Numerical diagnostics: conditioning, accurate digits, and alternative exact methods for the same mean.

A Gaussian process solves one linear system C a = y. Its accuracy depends on the condition number κ(C), the ratio of the
largest to the smallest eigenvalue; roughly log₁₀ κ digits of a are lost. The loss is along directions in which C is nearly
zero, so the mean kᵀa is usually far more accurate than a itself. Both errors are measured here, not bounded: a is refined once
with a residual in extended precision, and the change is the error before refinement (Golub & Van Loan 2013, section 3.5.3).
The factor's own error E = L Lᵀ − C is measured in the same way, and with it the error tr(C⁻¹E) of the log determinant.

If no precision beyond that of the data exists (``numpy.longdouble`` is double on some machines), the residual has the same
precision, and the number of digits of a is an upper bound rather than a measurement.

References
----------
Gibbs (1997), section 3.1: direct inversion, LU, singular values, and the condition numbers of C, L and U.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, aslinearoperator, eigsh

from covary._checks import fail
from covary._errors import Option
from covary._memory import check_memory
from covary._precision import precision
from covary._threads import blas_threads
from covary._words import counted
from covary.data import Rows, as_inputs
from covary.gram.dense import DenseBound, DiagonalFactor, NoiseFactor
from covary.gram.linalg import Lapack
from covary.kernels import tiles
from covary.posterior.base import AbstractPosterior
from covary.posterior.gaussian import Posterior

SMALL = 500  # up to this many rows all eigenvalues are computed; beyond it only the two extremes, by Lanczos' method
EACH = 200  # rows up to which the error of the log determinant is measured row by row
PROBES = 8  # random vectors used to estimate the error of the log determinant
ROWS = 256  # rows converted to extended precision at a time

# thresholds of trust()
DIGITS = 3.0  # digits of alpha
MEAN = 1e-3  # error of the mean at the rows, as a fraction of the size of the targets
NATS = 0.01  # error of the log determinant: the tolerance of learning
WIDE = 1e-8  # machine epsilon times the range of the pivots above which suspicious() is True
JITTER = 0.01  # jitter as a fraction of the least noise variance


@dataclass(frozen=True)
class Conditioning:
    """The conditioning of a covariance matrix, and the accuracy of results computed with it.

    ``largest`` and ``smallest`` eigenvalue of C; ``lower`` and ``upper``, the condition numbers of the factors of C = L U (the
    ratio of the extreme diagonal entries of a triangular matrix; L has a unit diagonal, so 1); ``jitter``, the amount added to
    the diagonal; ``noise``, the least noise variance (zero if unknown); ``residual``, the relative residual of C a = y;
    ``digits``, the digits of a unchanged by a refinement; ``mean_error``, the change of the mean at the rows, as a fraction of
    the largest target; ``logdet_error``, the error of the log determinant.
    """

    rows: int
    largest: float
    smallest: float
    lower: float
    upper: float
    jitter: float
    noise: float
    residual: float
    digits: float
    mean_error: float
    logdet_error: float

    @property
    def condition(self) -> float:
        """κ(C), infinite if an eigenvalue is not positive."""
        return self.largest / self.smallest if self.smallest > 0 else np.inf

    @property
    def doubts(self) -> tuple[str, ...]:
        """Numerical problems, one clause each; empty if the results can be trusted."""
        out = []
        if not np.isfinite(self.logdet_error):
            return ("the matrix has no Cholesky factor, so there is no evidence and no error bar",)
        if self.jitter > JITTER * self.noise:
            share = f"{self.jitter / self.noise:.1%} of the noise variance" if self.noise > 0 else "where the noise is zero"
            out.append(f"jitter of {self.jitter:.1e} was added, {share}")
        if self.mean_error > MEAN:
            out.append(f"rounding moves the mean by {self.mean_error:.1e} of the targets' size")
        if self.digits < DIGITS:
            out.append(f"the weights alpha have {counted(round(max(self.digits, 0.0)), 'accurate digit')}")
        if self.logdet_error > NATS:
            out.append(f"the log determinant is only accurate to {self.logdet_error:.1e}, so evidences cannot be compared")
        return tuple(out)


def conditioning(subject: AbstractPosterior | np.ndarray, y: ArrayLike | None = None) -> Conditioning:
    """Return the conditioning of a posterior's matrix, or of any symmetric matrix.

    Parameters
    ----------
    subject
        A posterior with a dense matrix (K + S under Gaussian noise; I + W^½ K W^½ under natural sites), or a matrix (n, n).
    y
        The right-hand side for a matrix; ones by default.

    Examples
    --------
    >>> import numpy as np
    >>> found = conditioning(np.diag([4.0, 1.0, 0.5]))
    >>> round(found.condition, 6), found.lower, round(found.upper, 6)
    (8.0, 1.0, 8.0)
    """
    if isinstance(subject, np.ndarray):
        C = _square(subject)
        n, start = len(C), Lapack.cholesky(np.array(C, order="F"))
        target = np.ones(n, C.dtype) if y is None else np.asarray(y, C.dtype)
        if target.shape[:1] != (n,):
            what = Option("y") + f" has shape {target.shape} but the matrix has {counted(n, 'row')}"
            raise fail("posterior.conditioning", what, "give one entry per row")
        return _measured(C, start, target, 0.0, np.zeros(n))
    with precision(subject.data.dtype), blas_threads(subject.data.rows):
        return _measured(*_system(subject))


def _square(C: np.ndarray) -> np.ndarray:
    C = C if C.dtype == np.float32 else np.asarray(C, np.float64)
    if C.ndim != 2 or C.shape[0] != C.shape[1]:
        raise fail("posterior.conditioning", f"the matrix has shape {C.shape}", "give a square one")
    if not np.isfinite(C).all():
        raise fail("posterior.conditioning", "the matrix has entries that are not finite", "check how it was computed")
    return C


class _Matrix(NamedTuple):
    """A posterior with a single dense matrix, its bound gram and its factor."""

    posterior: Posterior
    bound: DenseBound
    factor: NoiseFactor | DiagonalFactor


def _dense(posterior: AbstractPosterior) -> _Matrix | None:
    """Return the parts of a posterior if it has a single dense matrix, otherwise None."""
    if not isinstance(posterior, Posterior):
        return None
    bound, factor = posterior.bound, posterior.factor
    if isinstance(bound, DenseBound) and isinstance(factor, NoiseFactor | DiagonalFactor):
        return _Matrix(posterior, bound, factor)
    return None


def _system(posterior: AbstractPosterior) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, np.ndarray]:
    """Return the matrix of a posterior, its factor, right-hand side, jitter and noise."""
    found = _dense(posterior)
    if found is None:
        what = "the posterior with " + Option("gram", posterior.kind) + " has no single dense matrix here"
        raise fail("posterior.conditioning", what, "use " + Option("gram", "Dense()"))
    posterior, bound, factor = found
    n = posterior.data.rows
    check_memory("posterior.conditioning", 4 * n * n * posterior.data.dtype.itemsize, "use fewer rows")
    if isinstance(factor, DiagonalFactor):
        C = factor._B()
        return C, factor.L, factor.root * (factor.K @ posterior.solved.shift), 0.0, np.zeros(n)
    C, target, s = _noisy(posterior, bound, factor)
    return C, factor.L, target, factor.jitter, s


def _noisy(posterior: Posterior, bound: DenseBound, factor: NoiseFactor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return K + S with its jitter, the residual targets, and S."""
    shift = posterior.solved.shift
    C, s = tiles.mirror(tiles.gram_lower(bound.kernel, posterior.data.X)), np.asarray(factor.spread)
    C.flat[:: len(C) + 1] += s + factor.jitter
    return C, shift if factor.basis is None else shift - np.asarray(factor.basis) @ factor.weights(shift), s


def _measured(C: np.ndarray, L: np.ndarray | None, y: np.ndarray, jitter: float, noise: np.ndarray) -> Conditioning:
    n, noise_least = len(C), float(noise.min())
    low, high = _ends(C, L)
    if L is None:
        upper = np.abs(np.diagonal(linalg.lu_factor(C)[0]))
        ratio = float(upper.max() / upper.min()) if upper.min() > 0 else np.inf
        return Conditioning(n, high, low, 1.0, ratio, jitter, noise_least, np.nan, 0.0, np.inf, np.inf)
    pivots = np.diagonal(L).astype(np.float64)
    a = Lapack.solve(L, np.asfortranarray(y))
    rest = np.asarray(y - _wide(C, a), np.float64)
    change = np.asarray(Lapack.solve(L, np.asfortranarray(rest.astype(C.dtype))), np.float64)
    size, eps = float(np.abs(y).max()), float(np.finfo(C.dtype).eps)
    moved = float(np.linalg.norm(change) / max(np.linalg.norm(a), 1e-300))
    residual = float(np.linalg.norm(rest) / max(high * np.linalg.norm(a) + np.linalg.norm(y), 1e-300))
    mean = noise[:, None] * change.reshape(n, -1)  # the mean at the rows is y − S a
    return Conditioning(
        rows=n,
        largest=high,
        smallest=low,
        lower=1.0,
        upper=float((pivots.max() / pivots.min()) ** 2),
        jitter=jitter,
        noise=noise_least,
        residual=residual,
        digits=float(-np.log10(max(moved, eps))),
        mean_error=float(np.abs(mean).max()) / max(size, 1e-300),
        logdet_error=_determinant(C, L, pivots),
    )


def _wide(C: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return C v in extended precision, computed in blocks of rows."""
    kind = np.float64 if C.dtype == np.float32 else np.longdouble
    w = v.astype(kind)
    return np.concatenate([C[i : i + ROWS].astype(kind) @ w for i in range(0, len(C), ROWS)])


def _determinant(C: np.ndarray, L: np.ndarray, pivots: np.ndarray) -> float:
    """Return the size of tr(C⁻¹E), E = L Lᵀ − C; for many rows Hutchinson's estimate plus twice its standard error."""
    few, lower = len(C) <= EACH, np.tril(L)
    z = np.eye(len(C)) if few else np.where(np.random.default_rng(0).uniform(size=(len(C), PROBES)) < 0.5, -1.0, 1.0)
    E = np.asarray(_wide(lower, _wide(lower.T, z)) - _wide(C, z), np.float64)
    each = (z * Lapack.solve(L, np.asfortranarray(E.astype(C.dtype)))).sum(0)
    sums = np.finfo(C.dtype).eps * 2 * float(np.abs(np.log(pivots)).sum())  # rounding error of summing the logarithms
    if few:
        return float(abs(each.sum()) + sums)
    return float(abs(each.mean()) + 2 * each.std(ddof=1) / np.sqrt(PROBES) + sums)


def _ends(C: np.ndarray, L: np.ndarray | None) -> tuple[float, float]:
    """Return the smallest and the largest eigenvalue."""
    n = len(C)
    if n <= SMALL or L is None:
        values = np.linalg.eigvalsh(C)
        return float(values[0]), float(values[-1])
    inverse = LinearOperator((n, n), matvec=lambda v: Lapack.solve(L, np.asarray(v, C.dtype).ravel()), dtype=C.dtype)  # type: ignore[call-arg]
    return 1 / _largest(inverse, n), _largest(aslinearoperator(C), n)


def _largest(A: LinearOperator, n: int) -> float:
    start = np.random.default_rng(0).standard_normal(n)
    try:
        return float(eigsh(A, k=1, which="LM", v0=start, tol=1e-4, return_eigenvectors=False)[0])  # type: ignore[arg-type]
    except ArpackNoConvergence:  # many eigenvalues close to the extreme: a few power iterations give its size
        for _ in range(30):
            start = A.matvec(start / np.linalg.norm(start))
        return float(np.linalg.norm(start))


# the mean by several methods ------------------------------------------------------------------------------------------------

METHODS = ("cholesky", "lu", "svd", "inverse")


def predict_by(posterior: AbstractPosterior, X: Rows, *, method: str = "cholesky", w_min: float | None = None) -> np.ndarray:
    r"""Return the posterior mean at new inputs by one of several exact methods, for comparison if C is ill-conditioned.

    ``"cholesky"``
        kᵀa with a from the Cholesky factor: the method used by the library.
    ``"lu"``
        C = L U, :math:`d_1 = L^{-1}y`, :math:`d_2 = U^{-\top}k`, mean :math:`d_2\cdot d_1`: accurate for ill-conditioned C,
        O(n²) per point.
    ``"svd"``
        C⁻¹ = V W⁻¹ Uᵀ with 1/w set to zero for w below ``w_min``: singular values below the noise are rounding error.
    ``"inverse"``
        An explicit inverse, which suffers from cancellation.

    Parameters
    ----------
    posterior
        A posterior under Gaussian noise with a dense matrix.
    X
        New inputs (m, d).
    method
        One of the above.
    w_min
        The smallest singular value that is used; by default half the least noise variance including jitter (for noise-free
        data: the rounding error of the largest).

    References
    ----------
    Gibbs (1997), section 3.1, eqs. 3.1 to 3.5.
    """
    who = "posterior.predict_by"
    if method not in METHODS:
        raise fail(who, Option("method") + f" is {method!r}", f"choose one of {', '.join(map(repr, METHODS))}")
    found = _dense(posterior)
    if found is None or not isinstance(found.factor, NoiseFactor):
        what = "the posterior does not come from exact inference with a dense matrix"
        raise fail(who, what, "use " + Option("inference", "Exact()") + " and " + Option("gram", "Dense()"))
    posterior, bound, factor = found.posterior, found.bound, found.factor
    data = posterior.data
    inputs = as_inputs(X, who)
    inputs = inputs.with_x(inputs.x.astype(data.dtype))
    with precision(data.dtype), blas_threads(data.rows):
        base = posterior.mean(inputs) - bound.cross_solve(inputs, posterior.alpha)  # mean function and basis
        k = tiles.cross(bound.kernel, data.X, inputs)
        if method == "cholesky":
            return base + k.T @ posterior.alpha
        C, y, s = _noisy(posterior, bound, factor)
        if method == "lu":
            P, L, U = linalg.lu(C)  # type: ignore[misc]
            d1 = linalg.solve_triangular(L, P.T @ y, lower=True, unit_diagonal=True)
            return base + linalg.solve_triangular(U, k, trans=1).T @ d1
        if method == "inverse":
            return base + k.T @ (linalg.inv(C) @ y)
        U, w, Vt = linalg.svd(C)
        least = 0.5 * (float(s.min()) + factor.jitter) if w_min is None else float(w_min)
        keep = w > max(least, np.finfo(w.dtype).eps * len(w) * w[0] if w_min is None else 0.0)
        return base + (k.T @ Vt[keep].T / w[keep]) @ (U[:, keep].T @ y)


def suspicious(posterior: AbstractPosterior) -> bool:
    """Return whether the O(n²) diagnostics are worthwhile: jitter was added, or squared pivots span more than eight decades."""
    found = _dense(posterior)
    if found is None:
        return False
    pivots = np.diagonal(found.factor.L).astype(np.float64)
    return found.factor.jitter > 0 or float((pivots.max() / pivots.min()) ** 2) * np.finfo(posterior.data.dtype).eps > WIDE


def trust(posterior: AbstractPosterior) -> str:
    """Describe in words whether the numbers of a posterior can be trusted, and if not, why.

    They can if the inference converged, no jitter beyond 1 % of the noise was needed, and despite rounding the mean at the
    rows is accurate to 10⁻³ of the targets, alpha to three digits and the log determinant to 0.01.

    Examples
    --------
    >>> from covary import GP, Data, Model, condition
    >>> from covary.likelihoods import Gaussian
    >>> post = condition(Model(GP("Matern52()"), likelihood=Gaussian(0.01)), Data([[0.0], [1.0]], [0.0, 1.0]))
    >>> trust(post)[:48]
    'The numbers can be trusted: condition number 3.2'
    """
    ended = posterior.status in ("exact", "converged")
    if not ended:
        return f"The numbers cannot be trusted: the inference has not converged ({posterior.status})."
    if _dense(posterior) is None:
        return f"No numerical problems, but {posterior.kind} has no single dense matrix to examine here."
    found = conditioning(posterior)
    if found.doubts:
        size = f"condition number {found.condition:.1e}"
        return f"The numbers cannot all be trusted ({size}): {'; '.join(found.doubts)}. Raise the noise, or merge close rows."
    half = max(0.5 * found.logdet_error, np.finfo(np.float64).eps)
    return (
        f"The numbers can be trusted: condition number {found.condition:.2g}, {found.digits:.0f} digits of alpha, "
        f"log evidence to {half:.0e}."
    )
