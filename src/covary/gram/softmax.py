r"""The softmax site: C latent functions coupled by :math:`W = D - \Pi\Pi^\top` (R&W, section 3.5).

.. math:: R = E - E\,\mathbf 1\,(\textstyle\sum_c E_c)^{-1}\,\mathbf 1^\top E,\qquad
    E_c = D_c^{1/2}(I + D_c^{1/2}K_cD_c^{1/2})^{-1}D_c^{1/2}

(eqs. 3.45–3.47), so the time is O(C n³) and no Cn × Cn matrix is ever formed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from covary._checks import NotPositiveDefinite, fail
from covary.gram.base import AbstractBound, Bars, Pulled
from covary.gram.linalg import Lapack
from covary.gram.several import SeveralFactor
from covary.kernels import tiles
from covary.sites import Softmax

if TYPE_CHECKING:
    from covary.means.basis import Evaluated


class SoftmaxFactor(SeveralFactor):
    """Prior times a softmax site; shifts, means and alphas have shape (n, C), variances (n, C, C)."""

    def __init__(self, K: list[np.ndarray], sites: Softmax, basis: Evaluated | None = None) -> None:
        if basis is not None:
            raise fail("gram.Dense", "a softmax likelihood does not support explicit basis functions", "use a mean function")
        pi = np.asarray(sites.probability)
        self.sites, self.pi, self.n, self.C = sites, pi, *pi.shape
        self.weight = np.ones(self.n) if sites.weight is None else np.asarray(sites.weight)
        self.K = [K[c if len(K) > 1 else 0] for c in range(self.C)]
        self.E: list[np.ndarray] = []
        determinant = 0.0
        for c in range(self.C):  # R&W algorithm 3.3, the loop over classes
            root = np.sqrt(self.weight * pi[:, c])
            B = np.multiply(self.K[c], root[:, None], order="F")
            B *= root[None, :]
            B.flat[:: self.n + 1] += 1
            L = Lapack.cholesky(B)
            if L is None:
                what = "I + D½ K D½ has no Cholesky factor"
                raise NotPositiveDefinite("gram.Dense", what, "the kernel is not positive definite")
            determinant += 2 * np.log(np.diagonal(L)).sum()
            E = tiles.mirror(Lapack.inverse(L, overwrite=True))
            E *= root[:, None]
            E *= root[None, :]
            self.E.append(E)
        M = Lapack.cholesky(np.array(np.sum(self.E, axis=0), order="F"))
        if M is None:
            raise NotPositiveDefinite("gram.Dense", "class probabilities are numerically 0 or 1", "lower the kernel's variance")
        self.M = M
        self._halves: list[np.ndarray] | None = None
        self.log_determinant = determinant + 2 * np.log(np.diagonal(M)).sum() - np.log(self.weight).sum()

    def apply_W(self, v: np.ndarray) -> np.ndarray:
        """Return W v for v of shape (n, C)."""
        return self.weight[:, None] * self.pi * (v - (self.pi * v).sum(1, keepdims=True))

    def root_W(self, z: np.ndarray) -> np.ndarray:
        """Return C z with C = √w (D^½ − π√πᵀ): CCᵀ = w(D − ππᵀ) because π sums to one."""
        root = np.sqrt(self.pi)
        return np.sqrt(self.weight)[:, None] * (root * z - self.pi * (root * z).sum(1, keepdims=True))

    def site_blocks(self) -> np.ndarray:
        """Return W of every row: (n, C, C)."""
        p, w = self.pi.astype(np.float64), self.weight.astype(np.float64)
        return w[:, None, None] * (p[:, :, None] * np.eye(self.C) - p[:, :, None] * p[:, None, :])

    def solve(self, B: np.ndarray) -> np.ndarray:
        """Return R B for B of shape (n, C)."""
        Ev = np.stack([Lapack.times(E, B[:, c]) for c, E in enumerate(self.E)], axis=1)
        inner = Lapack.solve(self.M, Ev.sum(1))
        return Ev - np.stack([Lapack.times(E, inner) for E in self.E], axis=1)

    def logdet(self) -> float:
        """Return log det(I + K W)."""
        return self.log_determinant

    def halves(self) -> list[np.ndarray]:
        """Return M^(−½) E_c for every class; these matrices couple the classes."""
        if self._halves is None:
            self._halves = [Lapack.half_solve(self.M, E) for E in self.E]
        return self._halves

    def variance(self) -> np.ndarray:
        """Return the posterior covariance between classes at every training row: (n, C, C)."""
        half = [Lapack.times(self.K[c], H.T).T for c, H in enumerate(self.halves())]
        out = np.empty((self.n, self.C, self.C))
        for c in range(self.C):
            for e in range(c + 1):
                out[:, c, e] = out[:, e, c] = np.einsum("ij,ij->j", half[c], half[e])
            out[:, c, c] += self._alone(c)
        return out

    def _alone(self, c: int) -> np.ndarray:
        """Return diag(K_c − K_c E_c K_c), as (1 − diag B⁻¹)/D for rows informative about the class, otherwise directly."""
        D, K = self.weight * self.pi[:, c], self.K[c]
        with np.errstate(divide="ignore", invalid="ignore"):
            rest = 1 - np.diagonal(self.E[c]) / D
            out = rest / D
        quiet = np.flatnonzero(~(rest >= 1e-3))
        if len(quiet):
            Ks = K[:, quiet]
            out[quiet] = K[quiet, quiet] - np.einsum("ij,ij->j", Ks, Lapack.times(self.E[c], Ks))
        return out

    def covariances(self, Ks: list[np.ndarray], prior: list[np.ndarray]) -> np.ndarray:
        """Return posterior covariances between classes at m points, from K(X, X*) and k(x*, x*) of every class (eq. 3.43)."""
        b = [Lapack.times(self.E[c], Ks[c]) for c in range(self.C)]
        half = [Lapack.half_solve(self.M, np.asfortranarray(part), overwrite=False) for part in b]
        out = np.empty((Ks[0].shape[1], self.C, self.C))
        for c in range(self.C):
            for e in range(c + 1):
                out[:, c, e] = out[:, e, c] = (half[c] * half[e]).sum(0)
            out[:, c, c] += prior[c] - (b[c] * Ks[c]).sum(0)
        return out

    def pull(self, bound: AbstractBound, shift: np.ndarray, bars: Bars) -> Pulled:
        """Return the gradients with respect to the kernels and the shift, with the sites held fixed."""
        if bars.variance is not None:
            raise fail("gram.Dense", "a softmax site has no gradient of the marginal variance", "keep the sites fixed")
        a, q, l = self.alpha(shift), bars.quad, bars.logdet
        shift_bar = -2 * q * self.sigma(shift)
        u = None
        if bars.mean is not None:
            sm = self.sigma(bars.mean)
            u = bars.mean - self.apply_W(sm)
            shift_bar = shift_bar + sm
        left = [-q * a[:, [c]] if u is None else np.stack([-q * a[:, c], u[:, c]], axis=1) for c in range(self.C)]
        right = [a[:, [c]] if u is None else np.stack([a[:, c], a[:, c]], axis=1) for c in range(self.C)]
        kernels = bound.kernels
        if len(kernels) > 1:
            pulled = [tiles.pull_gram(k, bound.X, self._own_inverse(c), l, left[c], right[c]) for c, k in enumerate(kernels)]
            return Pulled(tuple(pulled), shift_bar, None)
        total = self._own_inverse(0)
        for c in range(1, self.C):
            total += self._own_inverse(c)
        both = np.concatenate(left, axis=1), np.concatenate(right, axis=1)
        return Pulled(tiles.pull_gram(next(iter(kernels)), bound.X, total, l, *both), shift_bar, None)

    def _own_inverse(self, c: int) -> np.ndarray:
        """Return the lower triangle of R_cc = E_c − E_c M⁻¹ E_c, in a new buffer."""
        (syrk,) = linalg.get_blas_funcs(("syrk",), (self.E[c],))
        return syrk(-1.0, self.halves()[c], beta=1.0, c=self.E[c].copy(order="F"), trans=1, lower=1, overwrite_c=1)
