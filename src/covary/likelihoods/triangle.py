"""Triangular square roots of covariances that may be singular."""

from __future__ import annotations

import numpy as np


def triangle(variance: np.ndarray) -> np.ndarray:
    """Return lower Cholesky factors (n, d, d) of covariances that may be singular: pivots at the rounding error become zero."""
    L, top = np.zeros_like(variance), np.einsum("nii->ni", variance).max(1)
    for j in range(variance.shape[1]):
        rest = variance[:, j:, j] - np.einsum("nik,nk->ni", L[:, j:, :j], L[:, j, :j])
        own = rest[:, 0]
        kept = own > 1e-12 * top
        L[:, j:, j] = np.where(kept[:, None], rest / np.sqrt(np.where(kept, own, 1.0))[:, None], 0.0)
    return L
