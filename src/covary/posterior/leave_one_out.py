r"""Leave-one-out predictions without refitting: the formulas that remove a row from the posterior of all rows.

Under Gaussian noise, with :math:`R = (K + S)^{-1}` and :math:`\alpha = R r`, the rows F of a fold are predicted from all others
by

.. math:: r_F - E[r_F\mid r_{-F}] = C\alpha_F,\qquad \mathrm{cov}[r_F\mid r_{-F}] = C,\qquad C = R_{FF}^{-1}

(R&W, eq. A.11); for single rows :math:`\alpha_i/R_{ii}` and :math:`1/R_{ii}` (eq. 5.12). Under other likelihoods the site
:math:`\exp(b^\top f - \tfrac12 f^\top W f)` of a row is removed from its marginal N(μ, Σ), which leaves the cavity

.. math:: \Sigma_{-i} = (I - \Sigma W)^{-1}\Sigma,\qquad \mu_{-i} = (I - \Sigma W)^{-1}(\mu - \Sigma b),

for one latent function :math:`\sigma_{-i}^2 = (\sigma^{-2} - \tau)^{-1}` (eq. 3.56). This is exact under Gaussian noise,
accurate with EP (section 5.5.3), and a cheaper approximation with Laplace's method and variational inference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from covary._precision import precision
from covary._threads import blas_threads
from covary.gram.linalg import Lapack

if TYPE_CHECKING:
    from covary.posterior.gaussian import Posterior

LEAST = 1e-300  # lower bound on marginal variances, to avoid division by zero
SINGULAR = 1e-12  # threshold on |det(I − ΣW)|; below it a row's site provides all information about the row


def residuals(alpha: np.ndarray, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the leave-one-out residuals under Gaussian noise, and their variances (eq. 5.12).

    ``alpha`` has shape (n,), or (n, p) for several outputs; ``R`` is the diagonal (n,).
    """
    return alpha / (R if alpha.ndim == 1 else R[:, None]), 1 / R


def fold_covariance(P: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray | None, float]:
    """Return C = P⁻¹ for the block of a fold (None without a Cholesky factor), and the least squared pivot of scale P scale."""
    L = Lapack.cholesky(np.asfortranarray(scale[:, None] * P * scale))
    if L is None:
        return None, 0.0
    pivot = float(np.diagonal(L).min()) ** 2
    return scale[:, None] * Lapack.full(Lapack.inverse(L, overwrite=True)) * scale, pivot


def cavity(mean: np.ndarray, variance: np.ndarray, shift: np.ndarray, precisions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return one function's cavity mean and precision at every row (eq. 3.56); improper if the precision is not positive."""
    marginal = np.maximum(variance, LEAST)
    precise = 1 / marginal - precisions
    return (mean / marginal - shift) / np.where(precise > 0, precise, 1.0), precise


def cavity_of_several(
    mean: np.ndarray, covariance: np.ndarray, shift: np.ndarray, precisions: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the cavity mean (n, L) and covariance (n, L, L) of several functions at every row, and where they are proper."""
    one = np.eye(precisions.shape[1])
    M = one - covariance @ precisions
    sound = np.abs(np.linalg.det(M)) > SINGULAR
    M = np.where(sound[:, None, None], M, one)
    left = np.linalg.solve(M, covariance)
    left = (left + left.transpose(0, 2, 1)) / 2
    centre = np.linalg.solve(M, (mean - np.einsum("nij,nj->ni", covariance, shift))[:, :, None])[:, :, 0]
    return centre, left, sound & (np.linalg.eigvalsh(left)[:, 0] > 0)


@dataclass(frozen=True)
class Cavities:
    """Leave-one-out predictions of the latent functions at every row.

    Parameters
    ----------
    mean, variance
        Shape (n,); (n, p) for several outputs, with variances (n,); or (n, L) and (n, L, L) for several functions.
    noisy
        The variance of the observation itself, under Gaussian noise.
    sound
        Mask of the rows with a proper prediction.
    how
        ``"exact"``; ``"approximate"`` if the matrix is; ``"cavity"`` of an approximate posterior; ``"included"`` if nothing was
        removed, since no row has its own site.
    """

    mean: np.ndarray
    variance: np.ndarray
    noisy: np.ndarray | None
    sound: np.ndarray
    how: Literal["exact", "approximate", "cavity", "included"]


def cavities(post: Posterior) -> Cavities:
    """Return the leave-one-out predictions of the latent functions at every row."""
    factor, data, likelihood, shift = post.factor, post.data, post.model.likelihood, post.solved.shift
    with precision(data.dtype), blas_threads(data.rows):
        if post.observed:
            R = np.asarray(factor.diag_inverse())
            error, own = residuals(np.asarray(post.alpha), np.maximum(R, np.finfo(R.dtype).tiny))
            how = "exact" if post.kind in ("Dense", "Markov") else "approximate"
            return Cavities(data.y - error, np.maximum(own - post.noise, 0.0), own, np.isfinite(own), how)
        marginal, mean = np.asarray(factor.variance()), np.asarray(factor.mean(shift))
        base = post.model.mean.evaluate(data.X)
        if marginal.ndim == 1:
            centre, precise = cavity(mean, marginal, np.asarray(shift), np.asarray(factor.spread))
            sound = precise > 0
            return Cavities(centre + base, 1 / np.where(sound, precise, 1.0), None, sound, "cavity")
        base, W = base[:, None] * likelihood.has_mean, factor.site_blocks()
        if W is None or np.shape(shift) != mean.shape:
            return Cavities(mean + base, marginal, None, np.ones(len(mean), bool), "included")
    centre, left, sound = cavity_of_several(mean, marginal, np.asarray(shift), W)
    return Cavities(centre + base, left, None, sound, "cavity")
