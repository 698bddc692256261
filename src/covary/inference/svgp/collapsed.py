r"""Gaussian noise: the bound at the optimal q as a function of the noise variance, from one pass over the rows (Titsias 2009).

With a = L⁻¹k(Z, x), row weights w and residuals r, Φ = Σ w a aᵀ = U Λ Uᵀ, c = UᵀΣ w a r and three numbers are sufficient for
every variance v:

.. math::
    -\tfrac12\Bigl(W\log 2\pi v + \sum_j\log(1 + \lambda_j/v)
    + \frac1v\Bigl(\sum w r^2 + \sum w\,(k(x, x) - a^\top a)\Bigr) - \sum_j\frac{c_j^2}{v(v + \lambda_j)}\Bigr)

The optimal v is found by a scalar search, and the optimal q follows at no further cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from covary.inference.svgp.variational import CHUNK, Run
from covary.inference.svgp.whitened import Whitened, times, weighted


@dataclass(frozen=True)
class Sums:
    """The sufficient sums over rows: W, Σ w r² + Σ w (k(x, x) − aᵀa), Σ w a r and Φ (its lower triangle)."""

    count: float
    missed: float
    shift: np.ndarray
    inner: np.ndarray

    @staticmethod
    def of(run: Run) -> Sums:
        """Compute the sums in one pass over the rows of a run, unscaled and with a single noise level."""
        m = run.bound.Z.rows
        shift, inner, count, missed = np.zeros(m), np.zeros((m, m), order="F"), 0.0, 0.0
        for start in range(0, run.X.rows, CHUNK):
            part = slice(start, start + CHUNK)
            (A, prior), *_ = run.features(start)
            rows = run.seen.take(part)
            w = np.ones(len(rows.y)) if rows.weight is None else rows.weight
            r = rows.y - run.prior_mean[part, 0]
            rest = np.maximum(prior - np.einsum("ij,ij->j", A, A), 0.0)
            count, missed = count + float(w.sum()), missed + float(w @ (r * r + rest))
            missed += 0.0 if rows.scatter is None else float(rows.scatter.sum())
            shift += times(A, w * r)
            inner += weighted(A, w)
        return Sums(count, missed, shift, inner)

    @cached_property
    def _turned(self) -> tuple[np.ndarray, np.ndarray]:
        """Return Λ and c."""
        values, vectors = linalg.eigh(self.inner, lower=True, driver="evd")
        return np.maximum(values, 0.0), times(vectors, self.shift, left=True)

    def bound(self, v: float) -> float:
        """Compute the bound at the optimal q."""
        values, c = self._turned
        fit = self.missed / v - float((c * c / (v * (v + values))).sum())
        return -0.5 * (self.count * np.log(2 * np.pi * v) + float(np.log1p(values / v).sum()) + fit)

    def q(self, v: float) -> Whitened:
        """Return the optimal q."""
        inner = self.inner / v
        inner.flat[:: len(inner) + 1] += 1
        return Whitened(np.asfortranarray(self.shift[:, None] / v), (inner,))
