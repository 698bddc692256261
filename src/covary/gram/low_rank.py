r"""Low-rank grams from m inducing inputs Z: FITC and VFE from one formula.

With :math:`\Phi = L_{uu}^{-1}K_{uf}`, K is replaced by :math:`\tilde K = \Phi^\top\Phi + D`: D = diag(K − ΦᵀΦ) for FITC
(R&W, eq. 8.24), D = 0 for VFE, whose evidence gains the trace term −½ Σ(k_ii − q_ii)/s_i (Titsias 2009). Everything is
O(n m²).
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from covary._checks import NotPositiveDefinite, fail
from covary._module import static
from covary.data import Inputs, as_inputs
from covary.gram.base import AbstractBound, AbstractFactor, AbstractGram, Bars, Pulled
from covary.gram.linalg import Lapack
from covary.kernels import tiles
from covary.parameters import real
from covary.sites import AbstractSites, Diagonal, Noise


class LowRankFactor(AbstractFactor):
    """ΦᵀΦ + D times sites, by Woodbury on an m × m matrix."""

    def __init__(self, Phi: np.ndarray, D: np.ndarray, sites: Noise | Diagonal, basis: Any = None) -> None:
        self.Phi, self.D, self.sites, self.basis = Phi, D, sites, basis
        if isinstance(sites, Noise):
            own = np.asarray(sites.variance) + D
            if np.any(own <= 0):
                raise fail("gram.LowRank", "the noise is zero at some rows", "give a positive noise variance, or use Dense()")
            self.w, self.extra = 1 / own, float(np.log(own).sum())
        else:
            W = np.asarray(sites.precision)
            if np.any(W < 0):
                raise fail("gram.LowRank", "site precisions are negative", "use gram=Dense(), or a log-concave likelihood")
            self.w, self.extra = W / (1 + D * W), float(np.log1p(D * W).sum())
        M = (Phi * self.w) @ Phi.T
        M.flat[:: len(M) + 1] += 1
        self.L = Lapack.cholesky(np.asfortranarray(M))
        self.half = Lapack.half_solve(self.L, np.asfortranarray(Phi * self.w))  # type: ignore[arg-type]

    def _solve(self, B: np.ndarray) -> np.ndarray:
        w = self.w if B.ndim == 1 else self.w[:, None]
        return w * B - self.half.T @ (self.half @ B)

    def _K(self, B: np.ndarray) -> np.ndarray:
        return self.Phi.T @ (self.Phi @ B) + (self.D if B.ndim == 1 else self.D[:, None]) * B

    def _sigma(self, B: np.ndarray) -> np.ndarray:
        KB = self._K(B)
        return KB - self._K(self._solve(KB))

    def _logdet(self) -> float:
        return self.extra + 2 * float(np.log(np.diagonal(self.L)).sum())  # type: ignore[arg-type]

    def _inverse_diagonal(self) -> np.ndarray:
        return self.w - (self.half**2).sum(0)

    def _variance(self) -> np.ndarray:
        if self.observed:
            s = self.spread
            return s - s * s * self._inverse_diagonal()
        D, w, Phi = self.D, self.w, self.Phi  # diag(K̃ − K̃RK̃), with R = w − halfᵀhalf
        G = self.half @ Phi.T  # m × m: half Φᵀ
        left = G @ Phi + self.half * D  # half K̃
        quad = ((Phi @ (w[:, None] * Phi.T)) @ Phi * Phi).sum(0) + 2 * D * w * (Phi**2).sum(0) + D * D * w
        return (Phi**2).sum(0) + D - quad + (left**2).sum(0)


class LowRankBound(AbstractBound):
    """A kernel seen through inducing inputs."""

    def __init__(self, gram: LowRank, kernels: tuple[Any, ...], X: Inputs, basis: Any = None) -> None:
        self.gram, self.kernels, self.X, self.basis = gram, kernels, X, basis
        self.Z = as_inputs(np.asarray(gram.inducing, X.x.dtype), "gram.LowRank", "inducing")
        if len(kernels) != 1:
            raise fail("gram.LowRank", "several latent functions are not supported", "use gram=Dense()")
        kernel = kernels[0]
        Kuu = tiles.gram_lower(kernel, self.Z)
        level = gram.jitter * float(np.mean(np.diagonal(Kuu)))
        Kuu.flat[:: len(Kuu) + 1] += level
        L = Lapack.cholesky(Kuu)
        if L is None:
            raise NotPositiveDefinite(
                "gram.LowRank: K(Z, Z) is not positive definite; spread the inducing inputs wider, or raise jitter."
            )
        self.L = L
        self.Phi = Lapack.half_solve(L, tiles.cross(kernel, self.Z, X), overwrite=True)
        self.prior = tiles.diag(kernel, X)
        self.rest = np.maximum(self.prior - (self.Phi**2).sum(0), 0.0)
        self.D = self.rest if gram.rule == "fitc" else np.zeros_like(self.rest)

    def matvec(self, v: np.ndarray) -> np.ndarray:
        return self.Phi.T @ (self.Phi @ v) + (self.D if v.ndim == 1 else self.D[:, None]) * v

    def factor(self, sites: AbstractSites, *, fixed_jitter: float | None = None) -> LowRankFactor:
        if not isinstance(sites, Noise | Diagonal):
            raise fail("gram.LowRank", f"sites of kind {type(sites).__name__} are not supported", "use gram=Dense()")
        if self.gram.rule == "vfe" and not isinstance(sites, Noise):
            raise fail("gram.LowRank", "rule 'vfe' goes with a Gaussian likelihood only", "use rule='fitc'")
        return LowRankFactor(self.Phi, self.D, sites, self.basis)

    def correction(self, sites: AbstractSites) -> float:
        if self.gram.rule != "vfe":
            return 0.0
        return -0.5 * float((self.rest / np.asarray(sites.variance)).sum())  # type: ignore[attr-defined]

    def pull(self, factor: Any, shift: Any, alpha: Any, bars: Bars, *, consume: bool = False) -> Pulled:
        structured, shift_bar, spread_bar = factor.cotangent(shift, bars)
        kernel = self.kernels[0]
        V = _back(self.L, self.Phi)  # Kuu⁻¹ Kuf
        c, left, right = structured.scale, structured.left, structured.right
        VQ = 0.5 * ((V @ left) @ right.T + (V @ right) @ left.T) + c * factor._solve(V.T).T
        prior_bar = np.zeros_like(self.prior)
        q_bar = np.zeros_like(self.prior)
        if self.gram.rule == "fitc":
            prior_bar = factor.diagonal(structured)
            q_bar = -prior_bar
        if self.gram.rule == "vfe" and bars.correction:
            s = np.asarray(factor.sites.variance)
            prior_bar, q_bar = -0.5 * bars.correction / s, 0.5 * bars.correction / s
            spread_bar = spread_bar + 0.5 * bars.correction * self.rest / s**2
        VQ += V * q_bar
        cross_bar = 2 * VQ  # over K(Z, X)
        inner_bar = -VQ @ V.T  # over K(Z, Z)
        from_cross, z_bar = tiles.pull_cross(kernel, self.Z, self.X, cross_bar)
        from_inner, z_inner = tiles.pull_cross(kernel, self.Z, self.Z, inner_bar)
        from_diag = tiles.pull_diag(kernel, self.X, prior_bar)
        level = self.gram.jitter * float(np.trace(inner_bar)) / self.Z.rows
        from_jitter = tiles.pull_diag(kernel, self.Z, np.full(self.Z.rows, level))
        total = tiles.total([from_cross, from_inner, from_diag, from_jitter])
        return Pulled(total, shift_bar, type(factor.sites)(spread_bar), z_bar + 2 * z_inner)

    def conditional(self, factor: Any, alpha: Any, X: Inputs, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        Ku = tiles.cross(self.kernels[0], self.Z, X)
        mean = Ku.T @ (_back(self.L, self.Phi) @ alpha)
        if not variance:
            return mean, None
        return mean, np.maximum(tiles.diag(self.kernels[0], X) - (Ku * (self.inner(factor) @ Ku)).sum(0), 0.0)

    def inner(self, factor: Any) -> np.ndarray:
        """V R Vᵀ with V = Kuu⁻¹Kuf: what prediction subtracts, on the inducing inputs."""
        V = _back(self.L, self.Phi)
        return V @ factor._solve(V.T)

    def joint(self, factor: Any, X: Inputs) -> np.ndarray:
        Ku = tiles.cross(self.kernels[0], self.Z, X)
        out = tiles.mirror(tiles.gram_lower(self.kernels[0], X)) - Ku.T @ self.inner(factor) @ Ku
        return (out + out.T) / 2

    def cross_solve(self, X: Inputs, B: Any) -> np.ndarray:
        return tiles.cross(self.kernels[0], self.Z, X).T @ (_back(self.L, self.Phi) @ B)


def _back(L: np.ndarray, B: np.ndarray) -> np.ndarray:
    """L⁻ᵀ B."""
    from scipy.linalg import solve_triangular

    return solve_triangular(L, B, lower=True, trans=1, check_finite=False)


class LowRank(AbstractGram):
    """K through m inducing inputs: O(n m²) time.

    Parameters
    ----------
    inducing
        The inducing inputs Z, of shape (m, d).
    rule
        ``"fitc"`` (keeps the prior variance of every row) or ``"vfe"`` (a lower bound on the evidence; Gaussian only).
    jitter
        What is added to the diagonal of K(Z, Z), as a fraction of its mean.
    """

    inducing: Any = real()
    _: KW_ONLY
    rule: str = static("fitc")
    jitter: float = static(1e-10)

    def bind(
        self, kernels: tuple[Any, ...], X: Inputs, basis: Any = None, workspace: dict[str, Any] | None = None
    ) -> LowRankBound:
        if self.rule not in ("fitc", "vfe"):
            raise fail("gram.LowRank", f"rule is {self.rule!r}", "choose 'fitc' or 'vfe'")
        return LowRankBound(self, kernels, X, None if basis is None else basis.evaluate(X))
