"""The dense gram: Cholesky factors and the jitter policy.

Jitter starts at zero and grows only when a factorisation fails, by powers of ten of the mean diagonal, up to a cap; the
amount added is stored on the factor. During learning it does not grow: a failed factorisation is a rejected step, so that the
objective never jumps.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import jax
import numpy as np

from covary._checks import NotPositiveDefinite, fail
from covary._module import static
from covary._words import counted
from covary.data import Data, Inputs
from covary.gram.base import (
    DENSE_ROWS,
    AbstractBound,
    AbstractFactor,
    AbstractGram,
    Bars,
    Cotangent,
    Kernels,
    Pulled,
    Sited,
    Workspace,
    absent,
    dense_cost,
    row_levels,
    some,
)
from covary.gram.linalg import Lapack
from covary.gram.several import SeveralFactor
from covary.kernels import tiles
from covary.kernels.base import AbstractKernel
from covary.kernels.host import ROWS
from covary.likelihoods.gaussian import Gaussian
from covary.likelihoods.softmax import Softmax as SoftmaxLikelihood
from covary.sites import AbstractSites, Blocks, Diagonal, Noise, Softmax

if TYPE_CHECKING:
    from covary.means.basis import Basis, Evaluated
    from covary.model import Model

SHARP = 100.0  # prior variance times site precision above which a site is treated as an observation (no cancellation)


class NoiseFactor(AbstractFactor):
    """K + S = L Lᵀ (R&W, algorithm 2.1)."""

    def __init__(
        self, L: np.ndarray, sites: Noise, basis: Evaluated | None = None, jitter: float = 0.0, lane: type[Lapack] = Lapack
    ) -> None:
        self.L, self.sites, self.basis, self.jitter, self.lane = L, sites, basis, jitter, lane
        self._inverse: np.ndarray | None = None

    def inverse(self, *, consume: bool = False) -> np.ndarray:
        """Return the lower triangle of R = (K + S)⁻¹."""
        if self._inverse is None:
            self._inverse = self.lane.inverse(self.L, overwrite=consume)
        return self._inverse

    def _solve(self, B: np.ndarray) -> np.ndarray:
        return self.lane.solve(self.L, B)

    def _logdet(self) -> float:
        return 2 * self.xp.log(self.xp.diagonal(self.L)).sum()

    def _inverse_diagonal(self) -> np.ndarray:
        return self.xp.diagonal(self.inverse())

    def _variance(self) -> np.ndarray:
        s = self.spread
        return s - s * s * self._inverse_diagonal()

    def _reduction(self, Ks: np.ndarray) -> np.ndarray:
        half = self.lane.half_solve(self.L, Ks, overwrite=True)
        return self.xp.einsum("ij,ij->j", half, half)

    def _full_inverse(self) -> np.ndarray:
        R = self.lane.full(self.inverse())
        if self.basis is None:
            return R
        U, inverse, _ = self.project()
        return R - U @ inverse @ U.T

    def sandwich(self, v: np.ndarray) -> np.ndarray:
        """Return P diag(v) Pᵀ with P = R S."""
        R = self._full_inverse()
        return (R * (self.spread**2 * v)) @ R

    def sandwich_diagonal(self, v: np.ndarray) -> np.ndarray:
        return (self._full_inverse() ** 2) @ (self.spread**2 * v)


class DiagonalFactor(AbstractFactor):
    """Prior times natural sites with precisions ≥ 0, through B = I + W^½ K W^½, which needs no jitter (R&W, eq. 3.26)."""

    def __init__(self, K: np.ndarray, sites: Diagonal, basis: Evaluated | None = None, lane: type[Lapack] = Lapack) -> None:
        self.K, self.sites, self.basis, self.lane = K, sites, basis, lane
        xp = self.xp
        self.root = xp.sqrt(xp.maximum(sites.precision, 0))
        L = lane.cholesky(self._B())
        if L is None:
            what = "I + W½ K W½ has no Cholesky factor"
            raise NotPositiveDefinite("gram.Dense", what, "the kernel is not positive definite here")
        self.L = L
        self._inverse: np.ndarray | None = None
        self._inner: np.ndarray | None = None

    def _B(self) -> np.ndarray:
        """Return I + W^½ K W^½."""
        if self.xp is not np:
            return self.root[:, None] * self.K * self.root[None, :] + self.xp.eye(self.K.shape[0], dtype=self.K.dtype)
        B = np.multiply(self.K, self.root[:, None], order="F")
        B *= self.root[None, :]
        B.flat[:: len(B) + 1] += 1
        return B

    def inner(self) -> np.ndarray:
        """Return the lower triangle of B⁻¹."""
        if self._inner is None:
            self._inner = self.lane.inverse(self.L)
        return self._inner

    def inverse(self, *, consume: bool = False) -> np.ndarray:
        """Return the lower triangle of R = W^½ B⁻¹ W^½."""
        if self._inverse is None:
            found: np.ndarray = self.root[:, None] * self.inner() * self.root[None, :]
            self._inverse = found
            return found
        return self._inverse

    def _solve(self, B: np.ndarray) -> np.ndarray:
        root = self.root if B.ndim == 1 else self.root[:, None]
        return root * self.lane.solve(self.L, root * B)

    def _alpha(self, shift: np.ndarray) -> np.ndarray:
        sharp = self.root**2 * float(self.K[0, 0]) > SHARP if self.xp is np else np.zeros(1, bool)
        if not sharp.any():
            return shift - self._solve(self.lane.times(self.K, shift))  # R&W, algorithm 3.1, line 7: stable for any size of K
        sharp, W = (v if shift.ndim == 1 else v[:, None] for v in (sharp, self.root**2))
        rest = np.where(sharp, 0.0, shift)
        seen = np.where(sharp, shift / np.where(sharp, W, 1.0), 0.0)  # the observations of sharp sites
        return rest + self._solve(seen - self.lane.times(self.K, rest) if rest.any() else seen)

    def _sigma(self, B: np.ndarray) -> np.ndarray:
        return self.lane.times(self.K, self._alpha(B))

    def _logdet(self) -> float:
        return 2 * self.xp.log(self.xp.diagonal(self.L)).sum()

    def _inverse_diagonal(self) -> np.ndarray:
        return self.root**2 * self.xp.diagonal(self.inner())

    def _variance(self) -> np.ndarray:
        """Return diag Σ = (1 − diag B⁻¹)/W for informative sites; for others the diagonal of K − K R K, which costs more."""
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

    def _reduction(self, Ks: np.ndarray) -> np.ndarray:
        half = self.lane.half_solve(self.L, self.root[:, None] * Ks)
        return (half * half).sum(0)

    def full_sigma(self) -> np.ndarray:
        """Return Σ as a dense matrix."""
        return self.sigma(self.xp.eye(self.K.shape[0], dtype=self.K.dtype))

    def sandwich(self, v: np.ndarray) -> np.ndarray:
        """Return P diag(v) Pᵀ with P = I − W Σ."""
        P = self.xp.eye(self.K.shape[0], dtype=self.K.dtype) - self.spread[:, None] * self.full_sigma()
        return (P * v) @ P.T

    def sandwich_diagonal(self, v: np.ndarray) -> np.ndarray:
        return self.xp.diagonal(self.sandwich(v))

    def squared_sigma(self, v: np.ndarray) -> np.ndarray:
        return (self.full_sigma() ** 2) @ v


class SignedFactor(AbstractFactor):
    r"""Prior times natural sites of any sign, by two Cholesky factors.

    The rows of positive precision come first, as in :class:`DiagonalFactor`, and give Σ₊ and R₊. Then follow the rows E of
    negative precision −m: :math:`K^{-1} + W` is positive definite if and only if
    :math:`C = I - m^{1/2} E^T\Sigma_+ E\, m^{1/2}` is. With
    :math:`A = K^{-1}\Sigma_+ E` and :math:`V = A\, m^{1/2} C^{-1/2}`,

    .. math:: K^{-1}\Sigma = K^{-1}\Sigma_+ + V V^T K,
        \qquad R = R_+ - V V^T, \qquad \Sigma = \Sigma_+ + K V V^T K.

    This needs no jitter, no inverse of K or W, and no difference of b and W Σ b, which cancel if the prior is wide.
    """

    def __init__(self, K: np.ndarray, sites: Diagonal, basis: Evaluated | None = None) -> None:
        self.K, self.sites, self.basis = K, sites, basis
        W = np.asarray(sites.precision)
        self.first = DiagonalFactor(K, Diagonal(np.maximum(W, 0)))
        self.rows = rows = np.flatnonzero(W < 0)
        self.root = m = np.sqrt(-W[rows])
        half = Lapack.half_solve(self.first.L, np.asfortranarray(self.first.root[:, None] * K[:, rows]))
        left = K[np.ix_(rows, rows)] - Lapack.times_transposed(half)
        L = Lapack.cholesky(np.asfortranarray(np.eye(len(rows)) - m[:, None] * left * m[None, :]))
        if L is None:
            what = "K⁻¹ + W is not positive definite at these sites"
            raise NotPositiveDefinite("gram.Dense", what, "take a shorter step: the point is not a maximum")
        self.L = L
        A = -self.first.root[:, None] * Lapack.half_solve(self.first.L, half, transposed=True)
        A[rows, np.arange(len(rows))] += 1
        self.V = np.asfortranarray(Lapack.half_solve(L, np.asfortranarray((A * m).T), overwrite=True).T)
        self.log_determinant = self.first._logdet() + 2 * np.log(np.diagonal(L)).sum()
        self._inverse: np.ndarray | None = None

    def inverse(self, *, consume: bool = False) -> np.ndarray:
        """Return the lower triangle of R = W − W Σ W."""
        if self._inverse is None:
            self._inverse = self.first.inverse() - Lapack.times_transposed(np.asfortranarray(self.V.T))
        return self._inverse

    def _solve(self, B: np.ndarray) -> np.ndarray:
        return self.first._solve(B) - self.V @ (self.V.T @ B)

    def _alpha(self, shift: np.ndarray) -> np.ndarray:
        first = self.first._alpha(shift)
        root = self.root if shift.ndim == 1 else self.root[:, None]
        seen = np.asfortranarray(root * (self.K[self.rows] @ first))  # VᵀK shift, from the rows of negative precision only
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


DenseFactor: TypeAlias = "NoiseFactor | DiagonalFactor | SignedFactor | SeveralFactor"


class DenseBound(AbstractBound["DenseFactor"]):
    """K(X, X) of one kernel, computed in tiles and factorised by LAPACK."""

    dense = True

    def __init__(
        self, gram: Dense, kernels: Kernels, X: Inputs, basis: Evaluated | None = None, workspace: Workspace | None = None
    ) -> None:
        self.gram, self.kernels, self.X, self.basis = gram, kernels, X, basis
        self.workspace = workspace
        self._K: dict[int, np.ndarray] = {}
        self._level: float | None = None

    @property
    def kernel(self) -> AbstractKernel:
        """The kernel of the (first) latent function."""
        return self.kernels[0]

    def matrix(self, which: int = 0) -> np.ndarray:
        """Return the full K, cached since natural sites use it repeatedly."""
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

    def diag(self) -> np.ndarray:
        """Return the diagonal of K."""
        return tiles.diag(self.kernel, self.X)

    def factor(self, sites: AbstractSites, *, fixed_jitter: float | None = None) -> DenseFactor:
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
        what = f"sites of kind {type(sites).__name__} are not known"
        raise fail("gram.Dense", what, "use Noise, Diagonal, Blocks or Softmax")

    def _buffer(self) -> np.ndarray | None:
        """Return the n × n buffer of the caller's workspace, or None."""
        if self.workspace is None:
            return None
        n, dtype = self.X.rows, self.X.x.dtype
        held = self.workspace.square
        if held is None or held.shape != (n, n) or held.dtype != dtype:
            held = self.workspace.square = np.empty((n, n), dtype, order="F")
        return held

    def noise_factor(self, sites: Noise, fixed_jitter: float | None) -> NoiseFactor:
        """Return the factor of K + S, adding jitter if necessary."""
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
                raise NotPositiveDefinite("gram.Dense", "K + noise has no Cholesky factor at these parameters")
            start = 1e-14 if self.X.x.dtype == np.float64 else 1e-7
            jitter = max(10 * jitter, start)
            if jitter > self.gram.max_jitter:
                raise _why(self.X, sites, self.gram.max_jitter, float(self.diag().max()))

    def pull(self, factor: DenseFactor, shift: np.ndarray, alpha: np.ndarray, bars: Bars, *, consume: bool = False) -> Pulled:
        if isinstance(factor, SeveralFactor):
            return factor.pull(self, shift, bars)
        plain = factor.observed and factor.basis is None and bars.mean is None and bars.variance is None
        consume = consume and plain  # R may overwrite L only if L is needed for nothing but alpha
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
        return Pulled(kernel_bar, shift_bar, factor.like_sites(spread_bar))

    def conditional(
        self, factor: DenseFactor, solved: Sited, X: Inputs, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        if isinstance(factor, SeveralFactor):
            return factor.conditional(self, solved.alpha, X)
        Ks = tiles.cross(self.kernel, self.X, X)
        mean = Ks.T @ solved.alpha
        if not variance:
            return mean, None
        return mean, np.maximum(self.prior_diag(X) - factor._reduction(Ks), 0.0)

    def prior_diag(self, X: Inputs) -> np.ndarray:
        """Return k(x, x) at new inputs; for a stationary kernel this is one cached number."""
        if not self.kernel.traits.stationary:
            return tiles.diag(self.kernel, X)
        if self._level is None:
            size = self.gram.tile or tiles.tile_size(self.X.rows)
            self._level = float(tiles.diag(self.kernel, self.X.take(slice(0, 1)), size)[0])
        return np.full(X.rows, self._level, X.x.dtype)

    def joint(self, factor: DenseFactor, X: Inputs) -> np.ndarray:
        Ks = tiles.cross(self.kernel, self.X, X)
        out = tiles.mirror(tiles.gram_lower(self.kernel, X)) - Ks.T @ factor._solve(Ks)
        return (out + out.T) / 2

    def cross_solve(self, X: Inputs, B: np.ndarray) -> np.ndarray:
        return tiles.cross(self.kernel, self.X, X).T @ B


def sound(L: np.ndarray, level: float) -> bool:
    """Return whether every pivot of a Cholesky factor is well above rounding error; otherwise the factor is meaningless."""
    pivots = np.einsum("ii->i", L)
    least = np.finfo(L.dtype).eps * max(10.0, len(pivots) ** 0.5) * level
    return bool(np.isfinite(pivots).all() and float(pivots.min()) ** 2 > least)


def _fast(alpha: np.ndarray, shift: np.ndarray, bars: Bars, R: np.ndarray) -> tuple[Cotangent, np.ndarray, np.ndarray]:
    """Return the gradient for noisy observations when R has overwritten the factor (R&W, eq. 5.9)."""
    a = alpha if shift.ndim == 2 else alpha[:, None]
    scale = bars.logdet * a.shape[1]
    spread_bar = scale * np.einsum("ii->i", R) - bars.quad * (a * a).sum(1)
    return Cotangent(scale, -bars.quad * a, a), (2 * bars.quad * a).reshape(shift.shape), spread_bar


def _why(X: Inputs, sites: Noise, cap: float, level: float) -> NotPositiveDefinite:
    """Return the error for a matrix that cannot be factorised, with the likely cause."""
    unique = len(np.unique(np.asarray(X.x), axis=0))
    smallest = float(np.min(np.asarray(sites.variance)))
    cause = "the kernel may not be positive definite, or a length-scale is far too long for these inputs"
    if unique < X.rows and smallest == 0:
        cause = f"{counted(X.rows - unique, 'row of X repeats another', 'rows of X repeat others')} and the noise is zero there"
    elif smallest < 1e-10 * level:
        cause = f"the noise variance is only {smallest:.1e}"
    what = f"K + noise is not positive definite even with jitter {cap:.0e} of its mean diagonal: {cause}"
    return NotPositiveDefinite(
        "gram.Dense", what, "raise the noise variance, merge repeated rows, or check the kernel's scales"
    )


def buffers(model: Model) -> int:
    """Return the peak number of n × n buffers of an evaluation."""
    latents, kernels = model.likelihood.latents, len(model.prior.kernels)
    if isinstance(model.likelihood, Gaussian):
        return 2
    if isinstance(model.likelihood, SoftmaxLikelihood):
        return kernels + 3 * latents + 2
    return kernels + (4 if latents == 1 else 4 * latents**2)


class Dense(AbstractGram):
    """The full covariance matrix: exact, O(n³) time, O(n²) memory.

    Parameters
    ----------
    jitter
        The initial jitter added to the diagonal, as a fraction of its mean; default 0.
    max_jitter
        The largest jitter tried when a factorisation fails.
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

    whole: ClassVar[bool] = True

    @property
    def fixed_jitter(self) -> float:
        return self.jitter

    def bytes_needed(self, model: Model, rows: int, itemsize: int) -> int:
        return buffers(model) * rows**2 * itemsize

    def levels(self, rows: int, coarsest: int | None) -> tuple[int, ...]:
        return (rows,) if coarsest is None else row_levels(rows, coarsest)

    def at(self, data: Data, rows: int, *, key: int = 0) -> tuple[Data, Dense]:
        gram = self if self.tile is not None else self.replace(tile=tiles.tile_size(data.rows))
        return (data if rows == data.rows else some(data, rows, key)), gram

    def cost(self, rows: int) -> float:
        return dense_cost(rows)

    def on_device(self, rows: int) -> bool:
        # if auto, small problems run on the host even if there is an accelerator: compiling for each n would cost more
        return self.lane == "xla" or (self.lane == "auto" and rows > ROWS and jax.default_backend() != "cpu")

    def bind(self, kernels: Kernels, X: Inputs, basis: Basis | None = None, workspace: Workspace | None = None) -> DenseBound:
        return DenseBound(self, kernels, X, None if basis is None else basis.bind(X), workspace)


def on_few_rows(data: Data, rows: int, *, key: int = 0) -> tuple[Data, Dense]:
    """Return the data and the dense gram that replace an approximate gram on a level of few rows."""
    return some(data, rows, key), Dense(tile=tiles.tile_size(DENSE_ROWS))
