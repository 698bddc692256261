r"""Sites with a small precision matrix per row: L latent functions coupled by blocks (for example mean and noise).

The L priors are independent, K = diag(K₁, …, K_L); W has one positive semi-definite block W_i = C_i C_iᵀ per row, and all
results are computed from the Cholesky factor of B = I + Cᵀ K C, of size Ln. Unlike those of the softmax (see
:mod:`covary.gram.softmax`), such blocks have no structure to exploit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from covary._checks import NotPositiveDefinite, fail
from covary.gram.base import AbstractBound, Bars, Kernels, Pulled
from covary.gram.linalg import Lapack
from covary.gram.several import SeveralFactor
from covary.kernels import tiles
from covary.kernels.base import AbstractKernel
from covary.sites import Blocks

if TYPE_CHECKING:
    from covary.means.basis import Evaluated


class BlocksFactor(SeveralFactor):
    """Prior times block sites; shifts, means and alphas have shape (n, L), variances (n, L, L)."""

    def __init__(self, K: list[np.ndarray], sites: Blocks, basis: Evaluated | None = None) -> None:
        if basis is not None:
            raise fail("gram.Dense", "several latent functions do not support explicit basis functions", "use a mean function")
        W = np.asarray(sites.precision)
        self.sites, self.W, self.n, self.L = sites, W, W.shape[0], W.shape[1]
        self.K = [K[c if len(K) > 1 else 0] for c in range(self.L)]
        values, vectors = np.linalg.eigh((W + W.transpose(0, 2, 1)) / 2)
        if (values < -1e-8 * np.abs(values).max(1, keepdims=True)).any():
            raise NotPositiveDefinite("gram.Dense", "a block of site precisions is not positive semi-definite")
        self.C = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]  # W_i = C_i C_iᵀ
        n, m = self.n, self.n * self.L
        B = np.zeros((m, m), order="F")  # ordered latent by latent
        for a in range(self.L):
            for b in range(a + 1):
                inside = sum(self.C[:, c, a, None] * self.K[c] * self.C[None, :, c, b] for c in range(self.L))
                B[a * n : (a + 1) * n, b * n : (b + 1) * n] = inside
        B.flat[:: m + 1] += 1
        L = Lapack.cholesky(B)
        if L is None:
            raise NotPositiveDefinite("gram.Dense", "I + Cᵀ K C has no Cholesky factor", "check the kernel's parameters")
        self.root = L
        self._inverse: np.ndarray | None = None

    def _stack(self, v: np.ndarray) -> np.ndarray:
        return v.T.reshape(self.n * self.L)

    def _rows(self, v: np.ndarray) -> np.ndarray:
        return v.reshape(self.L, self.n).T

    def apply_W(self, v: np.ndarray) -> np.ndarray:
        """Return W v for v of shape (n, L)."""
        return np.einsum("nij,nj->ni", self.W, v)

    def root_W(self, z: np.ndarray) -> np.ndarray:
        """Return C z."""
        return np.einsum("nij,nj->ni", self.C, z)

    def site_blocks(self) -> np.ndarray:
        """Return W of every row: (n, L, L)."""
        return self.W.astype(np.float64)

    def solve(self, B: np.ndarray) -> np.ndarray:
        """Return R B = C (I + Cᵀ K C)⁻¹ Cᵀ B, by the Cholesky factor of the inner matrix."""
        inner = Lapack.solve(self.root, self._stack(np.einsum("nij,ni->nj", self.C, B)))
        return np.einsum("nij,nj->ni", self.C, self._rows(inner))

    def logdet(self) -> float:
        """Return log det(I + K W)."""
        return 2 * float(np.log(np.diagonal(self.root)).sum())

    def inverse(self) -> np.ndarray:
        """Return R as dense blocks (L, L, n, n)."""
        if self._inverse is None:
            full = Lapack.full(Lapack.inverse(self.root)).reshape(self.L, self.n, self.L, self.n)
            found: np.ndarray = np.einsum("nia,anbm,mjb->ijnm", self.C, full, self.C, optimize=True)
            self._inverse = found
            return found
        return self._inverse

    def variance(self) -> np.ndarray:
        """Return the posterior covariance between the latent functions at every training row: (n, L, L)."""
        return self.covariances(self.K, [np.diagonal(K) for K in self.K])

    def covariances(self, Ks: list[np.ndarray], prior: list[np.ndarray]) -> np.ndarray:
        """Return the posterior covariance between latent functions at m points, from K(X, X*) and k(x*, x*) of each."""
        out = np.empty((Ks[0].shape[1], self.L, self.L))
        halves = []  # L⁻¹ Cᵀ K(X, X*); R would make the remaining variance inaccurate if sites are sharp
        for c in range(self.L):
            inside = np.concatenate([self.C[:, c, a, None] * Ks[c] for a in range(self.L)])
            halves.append(Lapack.half_solve(self.root, np.asfortranarray(inside), overwrite=True))
        for c in range(self.L):
            for e in range(self.L):
                out[:, c, e] = -np.einsum("nm,nm->m", halves[c], halves[e])
            out[:, c, c] = np.maximum(out[:, c, c] + prior[c], 0.0)
        return out

    def pull(self, bound: AbstractBound, shift: np.ndarray, bars: Bars) -> Pulled:
        """Return the gradients with respect to the kernels and the shift, with the sites held fixed."""
        a, q, l = self.alpha(shift), bars.quad, bars.logdet
        R = self.inverse() if l else None
        shift_bar, u = -2 * q * self.sigma(shift), None
        if bars.mean is not None:
            sm = self.sigma(np.asarray(bars.mean))
            u, shift_bar = np.asarray(bars.mean) - self.apply_W(sm), shift_bar + sm
        grads = []
        for c in range(self.L):
            G = -q * np.outer(a[:, c], a[:, c])
            if R is not None:
                G += l * R[c, c]
            if u is not None:
                G += 0.5 * (np.outer(u[:, c], a[:, c]) + np.outer(a[:, c], u[:, c]))
            grads.append(G)
        if len(bound.kernels) == 1:
            kernel_bar: AbstractKernel | Kernels = tiles.pull_gram(bound.kernels[0], bound.X, np.sum(grads, axis=0))
        else:
            kernel_bar = tuple(tiles.pull_gram(k, bound.X, G) for k, G in zip(bound.kernels, grads, strict=True))
        return Pulled(kernel_bar, shift_bar, None)
