"""The dense gram: Cholesky factors, and the one jitter policy.

Jitter starts at zero and grows only when a factorisation fails, by powers of ten of the mean diagonal, up to a cap; how
much was added is kept on the factor. While learning it does not grow: a failed factor there is a rejected step, so that the
objective never jumps.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from covary._checks import NotPositiveDefinite, fail
from covary._module import static
from covary._words import counted
from covary.data import Inputs
from covary.gram.base import AbstractBound, AbstractFactor, AbstractGram, Bars, Cotangent, Pulled, absent
from covary.gram.linalg import Lapack
from covary.kernels import tiles
from covary.sites import AbstractSites, Blocks, Diagonal, Noise, Softmax

SHARP = 100.0  # prior variance times the least site precision beyond which sites are read as observations (no cancelling)


class NoiseFactor(AbstractFactor):
    """K + S = L Lᵀ (R&W, algorithm 2.1)."""

    def __init__(self, L: Any, sites: Noise, basis: Any = None, jitter: float = 0.0, lane: Any = Lapack) -> None:
        self.L, self.sites, self.basis, self.jitter, self.lane = L, sites, basis, jitter, lane
        self._inverse: Any = None

    def inverse(self, *, consume: bool = False) -> Any:
        """R = (K + S)⁻¹, its lower triangle."""
        if self._inverse is None:
            self._inverse = self.lane.inverse(self.L, overwrite=consume)
        return self._inverse

    def _solve(self, B: Any) -> Any:
        return self.lane.solve(self.L, B)

    def _logdet(self) -> Any:
        return 2 * self.xp.log(self.xp.diagonal(self.L)).sum()

    def _inverse_diagonal(self) -> Any:
        return self.xp.diagonal(self.inverse())

    def _variance(self) -> Any:
        s = self.spread
        return s - s * s * self._inverse_diagonal()

    def _reduction(self, Ks: Any) -> Any:
        half = self.lane.half_solve(self.L, Ks, overwrite=True)
        return self.xp.einsum("ij,ij->j", half, half)

    def _full_inverse(self) -> Any:
        R = self.lane.full(self.inverse())
        if self.basis is None:
            return R
        U, inverse, _ = self.project()
        return R - U @ inverse @ U.T

    def sandwich(self, v: Any) -> Any:
        """P diag(v) Pᵀ with P = R S."""
        R = self._full_inverse()
        return (R * (self.spread**2 * v)) @ R

    def sandwich_diagonal(self, v: Any) -> Any:
        return (self._full_inverse() ** 2) @ (self.spread**2 * v)


class DiagonalFactor(AbstractFactor):
    """Prior times natural sites with precisions ≥ 0, through B = I + W^½ K W^½, which needs no jitter (R&W, eq. 3.26)."""

    def __init__(self, K: Any, sites: Diagonal, basis: Any = None, lane: Any = Lapack) -> None:
        self.K, self.sites, self.basis, self.lane = K, sites, basis, lane
        xp = self.xp
        self.root = xp.sqrt(xp.maximum(sites.precision, 0))
        L = lane.cholesky(self._B())
        if L is None:
            raise NotPositiveDefinite(
                "gram.Dense: I + W½ K W½ has no Cholesky factor; the kernel is not positive definite here."
            )
        self.L = L
        self._inverse: Any = None
        self._inner: Any = None

    def _B(self) -> Any:
        """I + W^½ K W^½."""
        if self.xp is not np:
            return self.root[:, None] * self.K * self.root[None, :] + self.xp.eye(self.K.shape[0], dtype=self.K.dtype)
        B = np.multiply(self.K, self.root[:, None], order="F")
        B *= self.root[None, :]
        B.flat[:: len(B) + 1] += 1
        return B

    def inner(self) -> Any:
        """B⁻¹, its lower triangle."""
        if self._inner is None:
            self._inner = self.lane.inverse(self.L)
        return self._inner

    def inverse(self, *, consume: bool = False) -> Any:
        """R = W^½ B⁻¹ W^½, its lower triangle."""
        if self._inverse is None:
            self._inverse = self.root[:, None] * self.inner() * self.root[None, :]
        return self._inverse

    def _solve(self, B: Any) -> Any:
        root = self.root if B.ndim == 1 else self.root[:, None]
        return root * self.lane.solve(self.L, root * B)

    def _alpha(self, shift: Any) -> Any:
        sharp = self.root**2 * float(self.K[0, 0]) > SHARP if self.xp is np else np.zeros(1, bool)
        if not sharp.any():
            return shift - self._solve(self.lane.times(self.K, shift))  # R&W, algorithm 3.1, line 7: sound however large K is
        sharp, W = (v if shift.ndim == 1 else v[:, None] for v in (sharp, self.root**2))
        rest = np.where(sharp, 0.0, shift)
        seen = np.where(sharp, shift / np.where(sharp, W, 1.0), 0.0)  # where a site is sharp: what it observed
        return rest + self._solve(seen - self.lane.times(self.K, rest) if rest.any() else seen)

    def _sigma(self, B: Any) -> Any:
        return self.lane.times(self.K, self._alpha(B))

    def _logdet(self) -> Any:
        return 2 * self.xp.log(self.xp.diagonal(self.L)).sum()

    def _inverse_diagonal(self) -> Any:
        return self.root**2 * self.xp.diagonal(self.inner())

    def _variance(self) -> Any:
        """diag Σ = (1 − diag B⁻¹)/W where a site says something; elsewhere K − K R K, which costs more."""
        if self.xp is not np:
            half = self.lane.half_solve(self.L, self.root[:, None] * self.K)
            return self.xp.diagonal(self.K) - (half * half).sum(0)
        rest = 1 - np.diagonal(self.inner())
        quiet = rest < (1e-3 if self.K.dtype == np.float64 else 0.1)
        with np.errstate(divide="ignore", invalid="ignore"):
            out = rest / self.root**2
        if quiet.any():
            rows = np.flatnonzero(quiet)
            half = self.lane.half_solve(self.L, np.asfortranarray(self.root[:, None] * self.K[:, rows]), overwrite=True)
            out[rows] = self.K[rows, rows] - np.einsum("ij,ij->j", half, half)
        return out

    def _reduction(self, Ks: Any) -> Any:
        half = self.lane.half_solve(self.L, self.root[:, None] * Ks)
        return (half * half).sum(0)

    def full_sigma(self) -> Any:
        """Σ, dense."""
        return self.sigma(self.xp.eye(self.K.shape[0], dtype=self.K.dtype))

    def sandwich(self, v: Any) -> Any:
        """P diag(v) Pᵀ with P = I − W Σ."""
        P = self.xp.eye(self.K.shape[0], dtype=self.K.dtype) - self.spread[:, None] * self.full_sigma()
        return (P * v) @ P.T

    def sandwich_diagonal(self, v: Any) -> Any:
        return self.xp.diagonal(self.sandwich(v))

    def squared_sigma(self, v: Any) -> Any:
        return (self.full_sigma() ** 2) @ v


class SignedFactor(AbstractFactor):
    r"""Prior times natural sites of any sign, by two Cholesky factors.

    The rows of positive precision first, as in :class:`DiagonalFactor`: they give Σ₊ and R₊. Then the rows E of negative
    precision −m: :math:`K^{-1} + W` is positive definite exactly when :math:`C = I - m^{1/2} E^T\Sigma_+ E\, m^{1/2}` is. With
    :math:`A = K^{-1}\Sigma_+ E` and :math:`V = A\, m^{1/2} C^{-1/2}`,

    .. math:: K^{-1}\Sigma = K^{-1}\Sigma_+ + V V^T K,
        \qquad R = R_+ - V V^T, \qquad \Sigma = \Sigma_+ + K V V^T K.

    No jitter, no inverse of K or W, and no difference of b and W Σ b, which cancel where the prior is wide.
    """

    def __init__(self, K: Any, sites: Diagonal, basis: Any = None) -> None:
        self.K, self.sites, self.basis = K, sites, basis
        W = np.asarray(sites.precision)
        self.first = DiagonalFactor(K, Diagonal(np.maximum(W, 0)))
        self.rows = rows = np.flatnonzero(W < 0)
        self.root = m = np.sqrt(-W[rows])
        half = Lapack.half_solve(self.first.L, np.asfortranarray(self.first.root[:, None] * K[:, rows]))
        left = K[np.ix_(rows, rows)] - Lapack.times_transposed(half)
        L = Lapack.cholesky(np.asfortranarray(np.eye(len(rows)) - m[:, None] * left * m[None, :]))
        if L is None:
            raise NotPositiveDefinite(
                "gram.Dense: K⁻¹ + W is not positive definite at these sites; the point is no maximum, take a shorter step."
            )
        self.L = L
        A = -self.first.root[:, None] * Lapack.half_solve(self.first.L, half, transposed=True)
        A[rows, np.arange(len(rows))] += 1
        self.V = np.asfortranarray(Lapack.half_solve(L, np.asfortranarray((A * m).T), overwrite=True).T)
        self.log_determinant = self.first._logdet() + 2 * np.log(np.diagonal(L)).sum()
        self._inverse: Any = None

    def inverse(self, *, consume: bool = False) -> np.ndarray:
        """R = W − W Σ W, its lower triangle."""
        if self._inverse is None:
            self._inverse = self.first.inverse() - Lapack.times_transposed(np.asfortranarray(self.V.T))
        return self._inverse

    def _solve(self, B: np.ndarray) -> np.ndarray:
        return self.first._solve(B) - self.V @ (self.V.T @ B)

    def _alpha(self, shift: np.ndarray) -> np.ndarray:
        first = self.first._alpha(shift)
        root = self.root if shift.ndim == 1 else self.root[:, None]
        seen = np.asfortranarray(root * (self.K[self.rows] @ first))  # VᵀK shift, from the smaller of the two
        return first + self.V @ Lapack.half_solve(self.L, seen, overwrite=True)

    def _sigma(self, B: np.ndarray) -> np.ndarray:
        return Lapack.times(self.K, self._alpha(B))

    def _logdet(self) -> float:
        return self.log_determinant

    def _inverse_diagonal(self) -> np.ndarray:
        return self.first._inverse_diagonal() - np.einsum("ij,ij->i", self.V, self.V)

    def _variance(self) -> np.ndarray:
        more = Lapack.times(self.K, self.V)
        return self.first._variance() + np.einsum("ij,ij->i", more, more)

    def sandwich(self, v: np.ndarray) -> np.ndarray:
        P = np.eye(len(self.K)) - self.spread[:, None] * self.sigma(np.eye(len(self.K)))
        return (P * v) @ P.T

    def sandwich_diagonal(self, v: np.ndarray) -> np.ndarray:
        return np.diagonal(self.sandwich(v))

    def squared_sigma(self, v: np.ndarray) -> np.ndarray:
        return (self.sigma(np.eye(len(self.K))) ** 2) @ v


class DenseBound(AbstractBound):
    """K(X, X) of one kernel, computed by tiles, factorised by LAPACK."""

    def __init__(
        self, gram: Dense, kernels: tuple[Any, ...], X: Inputs, basis: Any = None, workspace: dict[str, Any] | None = None
    ) -> None:
        self.gram, self.kernels, self.X, self.basis = gram, kernels, X, basis
        self.workspace = workspace
        self._K: dict[int, np.ndarray] = {}
        self._level: float | None = None

    @property
    def kernel(self) -> Any:
        """The kernel of the (first) latent function."""
        return self.kernels[0]

    def matrix(self, which: int = 0) -> np.ndarray:
        """K, full and kept (natural sites use it again and again)."""
        if which not in self._K:
            self._K[which] = tiles.mirror(tiles.gram_lower(self.kernels[which], self.X))
        return self._K[which]

    def matvec(self, v: np.ndarray) -> np.ndarray:
        return Lapack.times(self.matrix(), v)

    def apply(self, v: np.ndarray) -> np.ndarray:
        if v.ndim == 1:
            return Lapack.times(self.matrix(), v)
        many = len(self.kernels) > 1
        return np.stack([Lapack.times(self.matrix(c if many else 0), v[:, c]) for c in range(v.shape[1])], axis=1)

    def sqrt_matvec(self, z: np.ndarray) -> np.ndarray:
        """A square root of K times z (sampling, whitening)."""
        return np.tril(self.noise_factor(Noise(np.zeros(self.X.rows, self.X.x.dtype)), None).L) @ z

    def diag(self) -> np.ndarray:
        """The diagonal of K."""
        return tiles.diag(self.kernel, self.X)

    def factor(self, sites: AbstractSites, *, fixed_jitter: float | None = None) -> Any:
        if isinstance(sites, Noise):
            return self.noise_factor(sites, fixed_jitter)
        if isinstance(sites, Softmax):
            from covary.gram.softmax import SoftmaxFactor

            kernels = range(len(self.kernels))
            return SoftmaxFactor([self.matrix(i) for i in kernels], sites, self.basis)
        if isinstance(sites, Blocks):
            from covary.gram.blocks import BlocksFactor

            return BlocksFactor([self.matrix(i) for i in range(len(self.kernels))], sites, self.basis)
        if isinstance(sites, Diagonal):
            if np.any(np.asarray(sites.precision) < 0):
                return SignedFactor(self.matrix(), sites, self.basis)
            return DiagonalFactor(self.matrix(), sites, self.basis)
        raise fail(
            "gram.Dense", f"sites of kind {type(sites).__name__} are not known", "use Noise, Diagonal, Blocks or Softmax"
        )

    def _buffer(self) -> np.ndarray | None:
        """The caller's n × n buffer, if it lends one."""
        if self.workspace is None:
            return None
        n, dtype = self.X.rows, self.X.x.dtype
        held = self.workspace.get("square")
        if held is None or held.shape != (n, n) or held.dtype != dtype:
            held = self.workspace["square"] = np.empty((n, n), dtype, order="F")
        return held

    def noise_factor(self, sites: Noise, fixed_jitter: float | None) -> NoiseFactor:
        """The factor of K + S, under the jitter policy."""
        buffer, scale = self._buffer(), None
        jitter = self.gram.jitter if fixed_jitter is None else fixed_jitter
        while True:
            buffer = tiles.gram_lower(self.kernel, self.X, out=buffer, tile=self.gram.tile)
            diagonal = np.einsum("ii->i", buffer)
            scale = float(np.mean(diagonal)) if scale is None else scale
            diagonal += np.asarray(sites.variance) + jitter * scale
            level = float(diagonal.max())
            L = Lapack.cholesky(buffer)
            if L is not None and sound(L, level):
                return NoiseFactor(L, sites, self.basis, jitter * scale)
            if fixed_jitter is not None:
                raise NotPositiveDefinite("gram.Dense: K + noise has no Cholesky factor at these parameters.")
            start = 1e-14 if self.X.x.dtype == np.float64 else 1e-7
            jitter = max(10 * jitter, start)
            if jitter > self.gram.max_jitter:
                raise NotPositiveDefinite(_why(self.X, sites, self.gram.max_jitter, float(self.diag().max())))

    def pull(self, factor: Any, shift: Any, alpha: Any, bars: Bars, *, consume: bool = False) -> Pulled:
        if isinstance(factor.sites, Softmax | Blocks):
            return factor.pull(self, shift, bars)
        plain = factor.observed and factor.basis is None and bars.mean is None and bars.variance is None
        consume = consume and plain  # R may be written over L only where nothing but alpha is needed of L
        R = factor.inverse(consume=consume) if not absent(bars.logdet) or bars.variance is not None else None
        if R is not None and plain:
            structured, shift_bar, spread_bar = _fast(alpha, shift, bars, R)
        else:
            structured, shift_bar, spread_bar = factor.cotangent(shift, bars)
        G, scale = R, structured.scale
        if structured.sandwich is not None:
            assert R is not None
            G, scale = scale * np.tril(R) + factor.sandwich(structured.sandwich), 1.0
        kernel_bar = tiles.pull_gram(self.kernel, self.X, G, scale, structured.left, structured.right, self.gram.tile)
        return Pulled(kernel_bar, shift_bar, type(factor.sites)(spread_bar))

    def conditional(self, factor: Any, solved: Any, X: Inputs, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        if isinstance(factor.sites, Softmax | Blocks):
            return factor.conditional(self, solved.alpha, X)
        Ks = tiles.cross(self.kernel, self.X, X)
        mean = Ks.T @ solved.alpha
        if not variance:
            return mean, None
        return mean, np.maximum(self.prior_diag(X) - factor._reduction(Ks), 0.0)

    def prior_diag(self, X: Inputs) -> np.ndarray:
        """k(x, x) at new inputs; of a stationary kernel one number, kept."""
        if not self.kernel.traits.stationary:
            return tiles.diag(self.kernel, X)
        if self._level is None:
            size = self.gram.tile or tiles.tile_size(self.X.rows)
            self._level = float(tiles.diag(self.kernel, self.X.take(slice(0, 1)), size)[0])
        return np.full(X.rows, self._level, X.x.dtype)

    def joint(self, factor: Any, X: Inputs) -> np.ndarray:
        Ks = tiles.cross(self.kernel, self.X, X)
        out = tiles.mirror(tiles.gram_lower(self.kernel, X)) - Ks.T @ factor._solve(Ks)
        return (out + out.T) / 2

    def cross_solve(self, X: Inputs, B: Any) -> np.ndarray:
        return tiles.cross(self.kernel, self.X, X).T @ B


def sound(L: np.ndarray, level: float) -> bool:
    """Whether every pivot of a Cholesky factor stands clear of rounding; one that does not is luck, not a factor."""
    pivots = np.einsum("ii->i", L)
    least = np.finfo(L.dtype).eps * max(10.0, len(pivots) ** 0.5) * level
    return bool(np.isfinite(pivots).all() and float(pivots.min()) ** 2 > least)


def _fast(alpha: np.ndarray, shift: np.ndarray, bars: Bars, R: np.ndarray) -> tuple[Cotangent, Any, Any]:
    """The gradient over noisy observations when R has been written over the factor (R&W, eq. 5.9)."""
    a = alpha if shift.ndim == 2 else alpha[:, None]
    scale = bars.logdet * a.shape[1]
    spread_bar = scale * np.einsum("ii->i", R) - bars.quad * (a * a).sum(1)
    return Cotangent(scale, -bars.quad * a, a), (2 * bars.quad * a).reshape(shift.shape), spread_bar


def _why(X: Inputs, sites: Noise, cap: float, level: float) -> str:
    """The likely cause of a matrix that cannot be factorised, in one sentence."""
    unique = len(np.unique(np.asarray(X.x), axis=0))
    smallest = float(np.min(np.asarray(sites.variance)))
    cause = "the kernel may not be positive definite, or a length-scale is far too long for these inputs"
    if unique < X.rows and smallest == 0:
        cause = f"{counted(X.rows - unique, 'row of X repeats another', 'rows of X repeat others')} and the noise is zero there"
    elif smallest < 1e-10 * level:
        cause = f"the noise variance is only {smallest:.1e}"
    return (
        f"gram.Dense: K + noise is not positive definite even with jitter {cap:.0e} of its mean diagonal: {cause}; "
        "raise the noise variance, merge repeated rows, or check the kernel's scales."
    )


class Dense(AbstractGram):
    """The whole matrix: exact, O(n³) time, O(n²) memory.

    Parameters
    ----------
    jitter
        What is added to the diagonal from the start, as a fraction of its mean; zero.
    max_jitter
        How far it may grow when a factorisation fails.
    lane
        ``"lapack"`` (on the host), ``"xla"`` (on the default device), or ``"auto"``: LAPACK on a CPU, XLA on an accelerator.
    tile
        The size of a compiled tile; by default chosen from n.
    """

    jitter: float = static(0.0)
    _: KW_ONLY
    max_jitter: float = static(1e-6)
    lane: str = static("auto")
    tile: int | None = static(None)

    def bind(
        self, kernels: tuple[Any, ...], X: Inputs, basis: Any = None, workspace: dict[str, Any] | None = None
    ) -> DenseBound:
        return DenseBound(self, kernels, X, None if basis is None else basis.bind(X), workspace)
