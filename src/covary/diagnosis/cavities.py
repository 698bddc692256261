r"""Every row foretold by the others: what is left of the posterior when a row's own site is taken out of it.

With marginal N(μ, Σ) and site exp(bᵀf − ½fᵀWf) at a row, the cavity is

.. math:: \Sigma_{-i} = (I - \Sigma W)^{-1}\Sigma,\qquad \mu_{-i} = (I - \Sigma W)^{-1}(\mu - \Sigma b)

for one latent function and for several. Under Gaussian noise that is exact (R&W, eqs. 5.10 to 5.12); of EP it is the cavity
(eq. 3.56), of Laplace's method and of variational inference an approximation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from covary._precision import precision
from covary._threads import blas_threads
from covary._words import counted
from covary.committee.left_out import MOST
from covary.committee.left_out import left_out as committee_left_out
from covary.kernels import tiles
from covary.sites import Softmax


class Latent(NamedTuple):
    """What is believed of f at some rows: means (m,), (m, p) or (m, L); variances (m,) or (m, L, L); own noise or None.

    ``noisy`` is the variance of the observation itself under Gaussian noise; ``sound`` says which rows have an answer;
    ``how`` in one clause how it was found.
    """

    mean: np.ndarray
    variance: np.ndarray
    noisy: np.ndarray | None
    sound: np.ndarray
    how: str


def left_out(post: Any) -> Latent:
    """The latent moments at every training row without that row."""
    if getattr(post.bound, "composite", False):
        return _of_committee(post)
    factor, data = post.factor, post.data
    with precision(data.dtype), blas_threads(data.rows):
        if factor.observed:
            own = 1 / np.maximum(np.asarray(factor.diag_inverse(), np.float64), np.finfo(np.float64).tiny)
            s = np.asarray(factor.spread, np.float64)
            alpha = np.asarray(post.alpha, np.float64)
            mean = data.y - alpha * (own if alpha.ndim == 1 else own[:, None])
            exact = type(post.bound).__name__ in ("DenseBound", "MarkovBound")
            how = "exact, without fitting again" if exact else "within the approximation of the matrix, without fitting again"
            return Latent(mean, np.maximum(own - s, 0.0), own, np.isfinite(own), how)
        marginal, mean = np.asarray(factor.variance(), np.float64), np.asarray(factor.mean(post.solved.shift), np.float64)
        base, likelihood = post.model.mean.evaluate(data.X), post.model.likelihood
        if marginal.ndim == 1:
            precise = 1 / np.maximum(marginal, 1e-300) - np.asarray(factor.spread, np.float64)
            sound = precise > 0
            kept = np.where(sound, precise, 1.0)
            centre = (mean / np.maximum(marginal, 1e-300) - post.solved.shift) / kept
            return Latent(
                centre + base, 1 / kept, None, sound, "by taking its own part out of the approximation, without fitting again"
            )
        shift, W = np.asarray(post.solved.shift), _precisions(factor)
        if W is None or shift.shape != mean.shape:
            sound = np.ones(len(mean), bool)
            how = "with every row among those learned from: with many rows for each inducing input that matters little"
            return Latent(mean + base[:, None] * likelihood.has_mean, marginal, None, sound, how)
    M = np.eye(W.shape[1]) - marginal @ W
    sound = np.abs(np.linalg.det(M)) > 1e-12
    M = np.where(sound[:, None, None], M, np.eye(W.shape[1]))
    cavity = np.linalg.solve(M, marginal)
    cavity = (cavity + cavity.transpose(0, 2, 1)) / 2
    centre = np.linalg.solve(M, (mean - np.einsum("nij,nj->ni", marginal, shift))[:, :, None])[:, :, 0]
    sound &= np.linalg.eigvalsh(cavity)[:, 0] > 0
    how = "by taking its own part out of the approximation, without fitting again"
    return Latent(centre + base[:, None] * likelihood.has_mean, cavity, None, sound, how)


def _of_committee(post: Any) -> Latent:
    """Some rows without themselves; where experts cannot leave one out, with it."""
    data, likelihood = post.data, post.model.likelihood
    if likelihood.latents == 1 and data.y.ndim == 1:
        rows, said = committee_left_out(post)
        mean, variance, sound = np.zeros(data.rows), np.ones(data.rows), np.zeros(data.rows, bool)
        known = np.isfinite(said.mean) & (said.variance > 0)
        rows = rows[known]
        mean[rows], variance[rows], sound[rows] = said.mean[known], said.variance[known], True
        noisy = variance + np.asarray(post.factor.spread, np.float64) if post.factor.observed else None
        how = f"by all others of its committee, without fitting again ({counted(len(rows), 'row')} drawn at random)"
        return Latent(mean, variance, noisy, sound, how)
    rows = np.sort(np.random.default_rng(0).permutation(data.rows)[:MOST])
    said = post.latent(data.X.take(rows))
    mean, variance = np.zeros((data.rows, *said.mean.shape[1:])), np.ones((data.rows, *said.variance.shape[1:]))
    sound = np.zeros(data.rows, bool)
    mean[rows], variance[rows], sound[rows] = said.mean, said.variance, True
    how = "with every row among those learned from: among many experts that matters little"
    return Latent(mean, variance, variance + post.factor.spread if post.factor.observed else None, sound, how)


def _precisions(factor: Any) -> np.ndarray | None:
    """The site precisions (n, L, L) of several latent functions; None where the factor has none."""
    sites = getattr(factor, "sites", None)
    if sites is None:
        return None
    if not isinstance(sites, Softmax):
        return np.asarray(sites.precision, np.float64)
    p = np.asarray(sites.probability, np.float64)
    W = p[:, :, None] * np.eye(p.shape[1]) - p[:, :, None] * p[:, None, :]
    return W if sites.weight is None else np.asarray(sites.weight)[:, None, None] * W


def at_new(post: Any, X: np.ndarray) -> Latent:
    """The latent moments at new rows."""
    f = post.predict(X).f
    noisy = None
    if post.factor.observed:
        noisy = f.variance + float(post.model.likelihood.variance)
    return Latent(f.mean, f.variance, noisy, np.ones(len(X), bool), "rows that were not learned from")


def prior_variance(post: Any, X: Any) -> np.ndarray:
    """k(x, x) at every row, added up over the latent functions."""
    kernels = post.model.prior.kernels
    with precision(post.data.dtype):
        each = [np.asarray(tiles.diag(kernel, X), np.float64) for kernel in kernels]
    latents = post.model.likelihood.latents
    return np.sum(each, axis=0) if len(each) > 1 else each[0] * latents


def share_left(post: Any, X: Any, variance: np.ndarray) -> np.ndarray:
    """The share of the prior's variance that the data have left."""
    total = np.einsum("nll->n", variance) if variance.ndim == 3 else variance
    prior = prior_variance(post, X)
    return np.clip(total / np.where(prior > 0, prior, 1.0), 0.0, 1.0)
