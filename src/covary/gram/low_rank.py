r"""Low-rank grams from m inducing inputs Z: one formula for all rules, evaluated in blocks of rows.

With :math:`\Phi = L_{uu}^{-1}K_{uf}` and :math:`\rho = \mathrm{diag}(K - \Phi^\top\Phi)`, K is replaced by
:math:`\tilde K = \Phi^\top\Phi + \mathrm{diag}(\alpha\rho)`, and the evidence under Gaussian noise S gains
:math:`-\tfrac{1-\alpha}{2\alpha}\sum_i\log(1 + \alpha\rho_i/s_i)`:

==============  =========================  ===========================  ==============================================
rule            α                          evidence term                latent variance at x*
==============  =========================  ===========================  ==============================================
``"sor"``       0                          none (R&W 8.17)              φ*ᵀM⁻¹φ* (R&W 8.15: too small far from Z)
``"sor+"``      0                          nothing                      that of a model with an extra basis function at x*
``"nystrom"``   0                          none                         k** − k*ᵀR k*, exact k* (may be negative)
``"dtc"``       0                          none                         k** − φ*ᵀφ* + φ*ᵀM⁻¹φ* (R&W 8.27)
``"fitc"``      1                          none                         as dtc
``"vfe"``       → 0                        −½ Σ ρ_i/s_i                 as dtc
``"power"``     ``power``                  as above                     as dtc
==============  =========================  ===========================  ==============================================

with :math:`M = I + \Phi w\Phi^\top`, w = 1/(s + αρ) for observed sites and W/(1 + αρW) for natural ones. Everything is
O(n m²) time; rows are processed in blocks, and Φ is recomputed in the backward pass if it is too large to keep, so memory is
O(m² + block·m).

References: R&W chapter 8; Quiñonero-Candela & Rasmussen (2005); Snelson & Ghahramani (2006); Titsias (2009); Bui, Yan & Turner
(2017), eq. 14.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
from scipy import linalg

from covary._checks import NotPositiveDefinite, fail
from covary._errors import Option
from covary._memory import check_memory, free_memory
from covary._module import static
from covary._warn import warn
from covary._words import counted
from covary.data import Data, Inputs, as_inputs
from covary.gram.base import (
    DENSE,
    DENSE_ROWS,
    AbstractBound,
    AbstractFactor,
    AbstractGram,
    Bars,
    Kernels,
    Pulled,
    Sited,
    Workspace,
    dense_cost,
    row_levels,
)
from covary.gram.dense import on_few_rows
from covary.gram.inducing import RULES as SELECTIONS
from covary.gram.inducing import select
from covary.gram.linalg import Lapack
from covary.kernels import tiles
from covary.kernels.base import AbstractKernel
from covary.parameters import real
from covary.sites import AbstractSites, Diagonal, Noise

if TYPE_CHECKING:
    from covary.means.basis import Basis, Evaluated
    from covary.model import Model

T = TypeVar("T")

RULES = ("fitc", "vfe", "dtc", "sor", "sor+", "nystrom", "power")
BLOCK_BYTES = 2**23  # size of one block of Φ
KEEP_BYTES = 2**30  # Φ and K(Z, X) are kept between passes if they are smaller than this in total
SOME_ROWS = 16_000  # rows of the low-rank level between the dense levels and the full data
MAX_JITTER = 1e-6  # as a fraction of the mean diagonal of K(Z, Z)


class LowRankFactor(AbstractFactor):
    """ΦᵀΦ + D times sites, by Woodbury on an m × m matrix."""

    def __init__(self, bound: LowRankBound, sites: Noise | Diagonal) -> None:
        self.bound, self.sites, self.basis, self.jitter = bound, sites, bound.basis, bound.jitter
        natural = isinstance(sites, Diagonal)
        spread = np.asarray(sites.precision if isinstance(sites, Diagonal) else sites.variance)
        if natural and np.any(spread < 0):
            what = "site precisions are negative"
            raise fail("gram.LowRank", what, "use " + DENSE + ", or a log-concave likelihood")
        M = np.zeros((bound.rank,) * 2, spread.dtype, order="F")
        self.w, self.D, self.light = np.empty_like(spread), np.empty_like(spread), np.ones_like(spread)

        def visit(part: slice, Phi: np.ndarray, K: np.ndarray) -> np.ndarray:
            rest = bound.rest[part] = np.maximum(bound.prior[part] - np.einsum("ij,ij->j", Phi, Phi), 0.0)
            D, s = bound.gram.share * rest, spread[part]
            own = 1 + D * s if natural else s + D
            if not natural and np.any(own <= 0):
                do = "give a positive noise variance, or use " + Option("gram", "Dense()")
                raise fail("gram.LowRank", "the noise is zero at some rows", do)
            self.D[part], self.light[part] = D, 1 / own if natural else 1.0
            self.w[part] = s / own if natural else 1 / own
            half = (Phi * np.sqrt(self.w[part])).T
            return half.T @ half

        for partial in bound.visit(visit):
            M += partial
        self.extra = float((np.log1p(self.D * spread) if natural else -np.log(self.w)).sum())
        M.flat[:: len(M) + 1] += 1
        L = Lapack.cholesky(M)
        if L is None:
            what = "I + Φ W Φᵀ has no Cholesky factor"
            raise NotPositiveDefinite("gram.LowRank", what, "the kernel or the sites are not finite")
        self.L = L
        self._inner: np.ndarray | None = None
        self._spanned: np.ndarray | None = None

    def inner(self) -> np.ndarray:
        """Return the full M⁻¹."""
        if self._inner is None:
            self._inner = tiles.mirror(np.asfortranarray(Lapack.inverse(self.L)))
        return self._inner

    def weights_of(self, B: np.ndarray) -> np.ndarray:
        """Return M⁻¹ Φ B, the posterior mean of the whitened inducing values for sites with Gaussian shift B."""
        return Lapack.solve(self.L, self.bound.times(B))

    def spanned(self) -> np.ndarray:
        """Return diag ΦᵀM⁻¹Φ, the posterior variance of the part explained by the inducing values."""
        if self._spanned is None:
            inner = self.inner()
            both = self.bound.visit(lambda part, Phi, K: np.einsum("ji,ij->j", Phi.T @ inner, Phi))
            self._spanned = np.concatenate(list(both))
        return self._spanned

    def _solve(self, B: np.ndarray) -> np.ndarray:
        w = self.w if B.ndim == 1 else self.w[:, None]
        return w * (B - self.bound.back(self.weights_of(w * B)))

    def _sigma(self, B: np.ndarray) -> np.ndarray:
        light, D = (self.light, self.D) if B.ndim == 1 else (self.light[:, None], self.D[:, None])
        return light * (self.bound.back(self.weights_of(light * B)) + D * B)

    def _logdet(self) -> float:
        return self.extra + 2 * float(np.log(np.diagonal(self.L)).sum())

    def _inverse_diagonal(self) -> np.ndarray:
        return self.w - self.w**2 * self.spanned()

    def _variance(self) -> np.ndarray:
        if self.observed:
            s = np.asarray(self.spread)
            return s - s * s * self._inverse_diagonal()
        return self.light**2 * self.spanned() + self.light * self.D


class LowRankBound(AbstractBound[LowRankFactor]):
    """A kernel approximated through inducing inputs, processed in blocks of rows."""

    def __init__(self, gram: LowRank, kernels: Kernels, X: Inputs, basis: Evaluated | None = None) -> None:
        self.gram, self.kernels, self.X, self.basis, self.rule = gram, kernels, X, basis, gram.rule
        self.Z = as_inputs(np.asarray(gram.inducing, X.x.dtype), "gram.LowRank", "inducing")
        if self.Z.columns != X.columns:
            what = f"the inducing inputs have {counted(self.Z.columns, 'column')} and " + Option("X") + f" has {X.columns}"
            raise fail("gram.LowRank", what, "give inducing inputs with the same number of columns", argument="inducing")
        self.kernel, self.rank = kernels[0], self.Z.rows
        item = X.x.dtype.itemsize
        check_memory("gram.LowRank", 4 * item * self.rank**2 + 2 * BLOCK_BYTES, "use fewer inducing inputs")
        self.prior = tiles.diag(self.kernel, X)
        self.rest = np.full_like(self.prior, np.nan)
        several = -(-X.rows // (4 * tiles.threads()))
        step = -(-max(1024, min(several, BLOCK_BYTES // (item * self.rank))) // 512) * 512
        self.parts = [slice(i, min(i + step, X.rows)) for i in range(0, X.rows, step)]
        whole = 2 * item * self.rank * X.rows
        self.keep = whole <= min(KEEP_BYTES, free_memory() // 4)
        self._kept: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._means: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def width(self) -> int:
        return self.rank

    @cached_property
    def _root(self) -> tuple[np.ndarray, float]:
        return cholesky_at(self.kernel, self.Z, self.gram.jitter)

    @property
    def L(self) -> np.ndarray:
        """The Cholesky factor of K(Z, Z)."""
        return self._root[0]

    @cached_property
    def inverse_root(self) -> np.ndarray:
        """L⁻¹, because a product with it takes a third of the time of a triangular solve."""
        (trtri,) = linalg.get_lapack_funcs(("trtri",), (self.L,))
        return trtri(self.L, lower=1)[0]

    @property
    def jitter(self) -> float:
        """The jitter added to K(Z, Z), as a fraction of its mean diagonal."""
        return self._root[1]

    def features(self, X: Inputs) -> np.ndarray:
        """Return L⁻¹ K(Z, X)."""
        return self._both(X)[0]

    def _both(self, X: Inputs) -> tuple[np.ndarray, np.ndarray]:
        """Return L⁻¹ K(Z, X) and K(Z, X)."""
        K = tiles.cross(self.kernel, self.Z, X)
        return (K.T @ self.inverse_root.T).T, K

    def visit(self, work: Callable[[slice, np.ndarray, np.ndarray], T]) -> Iterator[T]:
        """Call ``work(rows, Φ, K(Z, X))`` for every block of rows, on threads, and yield the results in order.

        Both matrices are kept from the first pass if they fit in memory, otherwise recomputed.
        """

        def at(part: slice) -> T:
            both = self._kept.get(part.start)
            if both is None:
                both = self._both(self.X.take(part))
                if self.keep:
                    self._kept[part.start] = both
            return work(part, *both)

        _ = self.inverse_root  # compute it once, before the threads need it
        return tiles.stream(at, self.parts, self.X.x.dtype)

    def times(self, B: np.ndarray) -> np.ndarray:
        """Return Φ B for B of shape (n,) or (n, p)."""
        return sum(self.visit(lambda part, Phi, K: Phi @ B[part]), np.zeros((self.rank, *B.shape[1:]), B.dtype))

    def back(self, c: np.ndarray) -> np.ndarray:
        """Return Φᵀ c."""
        return np.concatenate(list(self.visit(lambda part, Phi, K: Phi.T @ c)))

    def unexplained(self) -> np.ndarray:
        """Return the prior variance of every row that is not explained by the inducing values."""
        if np.isnan(self.rest).any():
            explained = np.concatenate(list(self.visit(lambda part, Phi, K: np.einsum("ij,ij->j", Phi, Phi))))
            self.rest = np.maximum(self.prior - explained, 0.0)
        return self.rest

    def matvec(self, v: np.ndarray) -> np.ndarray:
        D = self.gram.share * self.unexplained()
        return self.back(self.times(v)) + (D if v.ndim == 1 else D[:, None]) * v

    def factor(self, sites: AbstractSites, *, fixed_jitter: float | None = None) -> LowRankFactor:
        if not isinstance(sites, Noise | Diagonal) or len(self.kernels) != 1:
            what = "several kernels" if len(self.kernels) != 1 else f"sites of kind {type(sites).__name__}"
            what = f"{what} are not supported"
            raise fail("gram.LowRank", what, "use " + DENSE + ", or " + Option("inference", "SVGP()"))
        if self.gram.corrected and not isinstance(sites, Noise):
            what = f"rule {self.gram.rule!r} requires a Gaussian likelihood"
            raise fail("gram.LowRank", what, "use " + Option("rule", "'fitc'") + ", or " + Option("inference", "SVGP()"))
        return LowRankFactor(self, sites)

    def correction(self, sites: AbstractSites) -> float:
        if not self.gram.corrected:
            return 0.0
        s, a = np.asarray(sites.variance), self.gram.share  # type: ignore[attr-defined]
        if a == 0:
            return -0.5 * float((self.rest / s).sum())
        return -(1 - a) / (2 * a) * float(np.log1p(a * self.rest / s).sum())

    def pull(self, factor: LowRankFactor, shift: np.ndarray, alpha: np.ndarray, bars: Bars, *, consume: bool = False) -> Pulled:
        gram, kernel, n = self.gram, self.kernel, self.X.rows
        outputs = shift.shape[1] if shift.ndim == 2 else 1
        plain = factor.observed and factor.basis is None and bars.mean is None and bars.variance is None
        if plain:
            a = alpha if shift.ndim == 2 else alpha[:, None]
            scale, left, right = bars.logdet * outputs, -bars.quad * a, a
            shift_bar, spread_bar = (2 * bars.quad * a).reshape(shift.shape), np.zeros(n, shift.dtype)
        else:
            structured, shift_bar, spread_bar = factor.cotangent(shift, bars)
            scale, left, right = structured.scale, structured.left, structured.right
        w, s, share = factor.w, np.asarray(factor.spread), gram.share
        to_left, to_right = self.times(left), self.times(right)
        inner, identity = factor.inner(), np.eye(self.rank)
        total = scale * (identity - inner) + 0.5 * (to_left @ to_right.T + to_right @ to_left.T)
        trace = 0.5 * bars.correction * (1 - share) if gram.corrected else 0.0
        fixed = trace if not share else 0.0  # the trace term if it weights rows by w
        if fixed:
            total += fixed * (np.tril(factor.L) @ np.tril(factor.L).T - identity)
        root = 2.0 * self.inverse_root
        to_cross, sides = (scale * inner + fixed * identity) @ root, 0.5 * np.hstack([to_left, to_right]).T @ root
        prior_bar, spanned, parts, z_bar = -fixed * w, np.empty(n, shift.dtype), [], 0.0

        def visit(part: slice, Phi: np.ndarray, K: np.ndarray) -> tuple[AbstractKernel, np.ndarray, np.ndarray | float]:
            bar = Phi.T @ to_cross  # gradient with respect to K(Z, X_b), transposed: rows first, as in memory
            both = 0.5 * np.einsum("ji,ij->j", bar, K)  # φᵀ(scale·M⁻¹ + fixed)φ for every row
            spanned[part] = (both - fixed * (self.prior[part] - self.rest[part])) / (scale or 1.0)
            bar *= w[part][:, None]
            more = 0.0
            if share:
                own = (left[part] * right[part]).sum(1) + scale * (w[part] - w[part] ** 2 * spanned[part])
                prior_bar[part] = share * own - trace / (s[part] + share * self.rest[part])
                weighted = Phi.T * prior_bar[part][:, None]
                bar -= weighted @ root
                more = Phi @ weighted
            bar += np.hstack([right[part], left[part]]) @ sides
            from_cross, from_inputs = tiles.pull_cross(kernel, self.Z, self.X.take(part), bar.T, inputs=gram.learned)
            return from_cross, np.asarray(from_inputs), more

        for from_cross, z_part, more in self.visit(visit):
            parts.append(from_cross)
            z_bar, total = z_bar + z_part, total - more
        if plain:
            spread_bar = (left * right).sum(1) + scale * (w - w**2 * spanned)
        if trace:
            spread_bar = spread_bar + trace * self.rest / (s * (s + share * self.rest))
        half = _back(self.inverse_root, np.asfortranarray((total + total.T) / 2))
        inner_bar = -_back(self.inverse_root, np.asfortranarray(half.T))  # gradient with respect to K(Z, Z)
        from_inner, z_inner = tiles.pull_cross(kernel, self.Z, self.Z, inner_bar, inputs=gram.learned)
        level = self.jitter * float(np.trace(inner_bar)) / self.rank
        parts += [from_inner, tiles.pull_diag(kernel, self.Z, np.full(self.rank, level))]
        if share or gram.corrected:
            parts.append(tiles.pull_diag(kernel, self.X, prior_bar))
        inducing = np.asarray(z_bar + 2 * z_inner) if gram.learned else None
        return Pulled(tiles.total(parts), shift_bar, factor.like_sites(spread_bar), inducing)

    def mean_weights(self, solved: Sited) -> np.ndarray:
        """Return the posterior mean of the whitened inducing values, Φ alpha; cached for the next prediction."""
        if self._means is None or self._means[0] is not solved.alpha:
            self._means = (solved.alpha, self.times(solved.alpha))
        return self._means[1]

    def inducing_posterior(self, factor: AbstractFactor, solved: Sited) -> tuple[Inputs, np.ndarray, np.ndarray, np.ndarray]:
        """Return the inducing inputs, the posterior mean of their values, a root of its covariance L M⁻¹Lᵀ, and L."""
        assert isinstance(factor, LowRankFactor)
        L = np.tril(self.L)
        root = linalg.solve_triangular(np.tril(factor.L), L.T, lower=True, check_finite=False).T
        return self.Z, L @ self.mean_weights(solved), root, L

    def conditional(
        self, factor: LowRankFactor, solved: Sited, X: Inputs, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        rule = self.gram.rule
        if rule in ("sor+", "nystrom"):
            return _augmented(self, factor, solved, X) if rule == "sor+" else _nystrom(self, factor, solved, X)
        phi = self.features(X)
        mean = _product(phi, self.mean_weights(solved), transposed=True)
        if not variance:
            return mean, None
        half = Lapack.half_solve(np.tril(factor.L), phi)
        spread = np.einsum("ij,ij->j", half, half)
        if rule != "sor":
            spread = spread + np.maximum(tiles.diag(self.kernel, X) - np.einsum("ij,ij->j", phi, phi), 0.0)
        return mean, spread

    def joint(self, factor: LowRankFactor, X: Inputs) -> np.ndarray:
        phi = self.features(X)
        half = Lapack.half_solve(np.tril(factor.L), phi)
        out = half.T @ half
        if self.gram.rule not in ("sor", "sor+", "nystrom"):
            out += tiles.mirror(tiles.gram_lower(self.kernel, X)) - phi.T @ phi
        elif self.gram.rule != "sor":
            what = f"rule {self.gram.rule!r} has no joint covariance"
            raise fail("gram.LowRank", what, "use " + Option("rule", "'dtc'", "'fitc'"))
        return (out + out.T) / 2

    def cross_solve(self, X: Inputs, B: np.ndarray) -> np.ndarray:
        return _product(self.features(X), self.times(B), transposed=True)


def _augmented(bound: LowRankBound, factor: LowRankFactor, solved: Sited, X: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """Predict by subset of regressors with an extra basis function at each new point (R&W, section 8.3.1; O(n m) per point).

    In whitened features the extra one is (k(x, x*) − φᵀφ*)/√δ*, δ* = k** − φ*ᵀφ*, and M grows by one row (R&W, eq. A.12).
    """
    phi = bound.features(X)
    delta = np.maximum(tiles.diag(bound.kernel, X) - np.einsum("ij,ij->j", phi, phi), 0.0)
    far = delta > 1e-12 * np.maximum(delta.max(initial=0.0), 1e-300)
    root = np.sqrt(np.where(far, delta, 1.0))
    across, own = np.zeros_like(phi), np.zeros(X.rows)
    target = np.zeros(X.rows)
    for part in bound.parts:
        Phi = bound.features(bound.X.take(part))
        new = (tiles.cross(bound.kernel, bound.X.take(part), X) - _product(Phi, phi, transposed=True)) / root
        weighted = factor.w[part][:, None] * new
        across += _product(Phi, weighted)
        own += np.einsum("ij,ij->j", new, weighted)
        target += new.T @ solved.alpha[part]  # alpha lacks only the part explained by the new feature
    inside = Lapack.solve(factor.L, np.asfortranarray(across))
    schur = 1 + own - np.einsum("ij,ij->j", across, inside)
    gap = root - np.einsum("ij,ij->j", phi, inside)
    gain = np.where(far, gap / schur, 0.0)
    half = Lapack.half_solve(np.tril(factor.L), phi)
    mean = phi.T @ bound.mean_weights(solved) + gain * target
    return mean, np.einsum("ij,ij->j", half, half) + gain * gap


def _nystrom(bound: LowRankBound, factor: LowRankFactor, solved: Sited, X: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """Predict by the Nyström method: only K of the training rows is approximated (R&W, section 8.3.2). Variances can be < 0."""
    Ks = tiles.cross(bound.kernel, bound.X, X)
    spread = tiles.diag(bound.kernel, X) - factor._reduction(Ks)
    if (spread < 0).any():
        what = f"{int((spread < 0).sum())} of {len(spread)} variances of the Nyström method are negative and set to zero"
        warn(fail("gram.LowRank", what, "use " + Option("rule", "'dtc'", "'fitc'")))
    return Ks.T @ solved.alpha, np.maximum(spread, 0.0)


def cholesky_at(kernel: AbstractKernel, Z: Inputs, jitter: float) -> tuple[np.ndarray, float]:
    """Return the factor of K(Z, Z), and the jitter it needed as a fraction of its mean diagonal."""
    while True:
        Kuu = tiles.gram_lower(kernel, Z)
        Kuu.flat[:: len(Kuu) + 1] += jitter * float(np.mean(np.diagonal(Kuu)))
        L = Lapack.cholesky(Kuu)
        if L is not None and np.isfinite(L.flat[:: len(L) + 1]).all():
            return np.asfortranarray(np.tril(L)), jitter
        jitter = max(10 * jitter, 1e-12)
        if jitter > MAX_JITTER:
            what = "K(Z, Z) is not positive definite"
            raise NotPositiveDefinite("gram.LowRank", what, "spread the inducing inputs wider, or use fewer of them")


def _product(A: np.ndarray, B: np.ndarray, *, transposed: bool = False) -> np.ndarray:
    """Return A B or AᵀB, computed by SciPy's BLAS (see :meth:`Lapack.times`)."""
    if B.ndim == 1:
        (gemv,) = linalg.get_blas_funcs(("gemv",), (A, B))
        return gemv(1.0, A, B, trans=int(transposed))
    (gemm,) = linalg.get_blas_funcs(("gemm",), (A, B))
    return gemm(1.0, A, B, trans_a=int(transposed))


def _back(T: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return TᵀB for a lower triangular T; overwrites B if it is Fortran-ordered."""
    (trmm,) = linalg.get_blas_funcs(("trmm",), (T, B))
    return trmm(1.0, T, B, side=0, lower=1, trans_a=1, overwrite_b=1)


class LowRank(AbstractGram):
    """A low-rank approximation of K by m inducing inputs: O(n m²) time, O(m² + block·m) memory.

    Parameters
    ----------
    inducing
        The number of inducing inputs, chosen from the data by ``select``; or the inputs themselves, of shape (m, d).
    rule
        ``"fitc"`` (keeps the prior variance of every row), ``"vfe"`` (a lower bound on the evidence; Gaussian noise only),
        ``"power"`` (between them, see ``power``), ``"dtc"`` (projected process), ``"sor"`` (subset of regressors, whose
        variances are too small far from Z), ``"sor+"`` (the same with an extra basis function at every new point, which
        corrects the variances at O(n m) each), ``"nystrom"``.
    select
        ``"greedy"`` (repeatedly the row whose variance is least explained: pivoted Cholesky), ``"kmeans"``,
        ``"leverage"``, ``"random"``.
    learned
        Whether :func:`~covary.learn` also optimises the inducing inputs by gradient.
    power
        α of ``rule="power"``: 0 is VFE, 1 is FITC.
    jitter
        The jitter added to the diagonal of K(Z, Z), as a fraction of its mean; increased up to 1e-6 if needed.
    """

    inducing: np.ndarray | int = real()
    _: KW_ONLY
    rule: str = static("fitc")
    select: str = static("greedy")
    learned: bool = static(False)
    power: float = static(0.5)
    jitter: float = static(1e-10)

    on_inducing: ClassVar[bool] = True

    @property
    def moves_inducing(self) -> bool:
        return self.learned

    def levels(self, rows: int, coarsest: int | None) -> tuple[int, ...]:
        """Return dense subsets first (cheaper, and able to resolve short length-scales), then some rows, then all."""
        if coarsest is None or rows <= 2 * DENSE_ROWS:
            return (rows,)
        between = (SOME_ROWS,) if rows >= 4 * SOME_ROWS else ()
        return (*row_levels(DENSE_ROWS, coarsest), *between, rows)

    def at(self, data: Data, rows: int, *, key: int = 0) -> tuple[Data, AbstractGram]:
        if rows == data.rows or rows > DENSE_ROWS:
            return super().at(data, rows, key=key)
        return on_few_rows(data, rows, key=key)

    def cost(self, rows: int) -> float:
        m = float(self.count())
        return 6 * rows * m * (m + 500.0) if rows > DENSE_ROWS else dense_cost(rows)

    def approximates(self, rows: int) -> bool:
        return rows > DENSE_ROWS

    def unexplained(self, kernels: Kernels, X: Inputs) -> float:
        return float(self.bind(kernels, X).unexplained().mean())

    @property
    def share(self) -> float:
        """α, the fraction of the unexplained variance that is treated as noise of its row."""
        return {"fitc": 1.0, "power": float(self.power)}.get(self.rule, 0.0)

    @property
    def corrected(self) -> bool:
        """Whether the evidence has a term for the unexplained variance."""
        return self.rule in ("vfe", "power")

    def check(self) -> None:
        """Raise an error for unknown rules or an invalid power."""
        who = "gram.LowRank"
        if self.rule not in RULES:
            raise fail(who, Option("rule") + f" is {self.rule!r}", f"choose one of {', '.join(map(repr, RULES))}")
        if self.select not in SELECTIONS:
            raise fail(who, Option("select") + f" is {self.select!r}", f"choose one of {', '.join(map(repr, SELECTIONS))}")
        if not 0 <= self.power <= 1:
            raise fail(who, f"power is {self.power!r}", "give a number between 0 (VFE) and 1 (FITC)", argument="power")

    def prepare(self, model: Model, data: Data, *, key: int = 0) -> tuple[LowRank, Data]:
        """Return the gram with its inducing inputs selected, if only their number was given."""
        self.check()
        if np.ndim(self.inducing) > 0:
            return self, data
        noise = getattr(model.likelihood, "variance", None)
        Z = select(self.select, model.prior.kernels[0], data.X, self.count(), noise=noise, key=key)
        return self.replace(inducing=Z), data

    def count(self) -> int:
        """Return the number of inducing inputs."""
        given = np.asarray(self.inducing)
        number = float(given) if given.ndim == 0 else len(given)
        if not (number >= 1 and number == int(number)):
            what = f"inducing is {number!r}"
            raise fail("gram.LowRank", what, "give how many inducing inputs, or an array of them", argument="inducing")
        return int(number)

    def bind(self, kernels: Kernels, X: Inputs, basis: Basis | None = None, workspace: Workspace | None = None) -> LowRankBound:
        self.check()
        gram = self
        if np.ndim(self.inducing) == 0:
            gram = self.replace(inducing=select(self.select, kernels[0], X, self.count()))
        return LowRankBound(gram, kernels, X, None if basis is None else basis.bind(X))
