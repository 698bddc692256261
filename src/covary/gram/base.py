r"""The interface between models and covariance matrices: a Gaussian prior N(0, K) times Gaussian sites.

It is the same for every representation of K. A factor is the product of prior and sites. For all kinds of sites
(see :mod:`covary.sites`) it provides

.. math:: \log Z = -\tfrac12(\mathrm{quad} + \mathrm{logdet}),

the posterior :math:`N(\mathrm{mean}, \Sigma)` at the training rows, the weights ``alpha`` with
:math:`E f(x_*) = k_*^\top\alpha`, and :math:`R = (K + W^{-1})^{-1}` with
:math:`\mathrm{var} f(x_*) = k_{**} - k_*^\top R k_*`. For observed sites W⁻¹ = S; for natural ones R = W − WΣW, which needs
no inverse of W.

====================  ==================================  =======================================
                      observed, N(r | f, S)               natural, exp(bᵀf − ½fᵀWf)
====================  ==================================  =======================================
alpha                 R r                                 b − W mean
mean                  r − S alpha                         Σ b
quad                  rᵀ alpha                            −bᵀ mean
logdet                log det(K + S)                      log det(I + K W)
====================  ==================================  =======================================

``pull`` is the hand-written gradient of any function of (quad, logdet, mean, variance):

.. math::
    \bar K = \bar l R - \bar q\,\alpha\alpha^\top + \mathrm{sym}(u\alpha^\top) + P\,\mathrm{diag}(\bar v)\,P^\top,

with :math:`P = I - W\Sigma = R\,W^{-1}` and :math:`u = P\,\bar m`, so gradients exist for every combination of inference and
gram.

Explicit basis functions H are projected out here (R&W, eqs. 2.41 to 2.45): with U = R H, A = B⁻¹ + HᵀU and T = K-to-latent
image of H, R loses U A⁻¹Uᵀ, Σ gains T A⁻¹Tᵀ, logdet gains log det A + log det B, and the weights are β = A⁻¹Hᵀalpha₀. Vague
weights have no B⁻¹ and no log det B; with m of them, n rows of observed sites have n − m degrees of freedom (eq. 2.45).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from covary._checks import NotPositiveDefinite, fail
from covary._errors import Option
from covary._module import Module
from covary.data import Data, Inputs
from covary.gram.linalg import Lapack
from covary.kernels.base import AbstractKernel
from covary.sites import AbstractSites, Diagonal, Noise

if TYPE_CHECKING:
    from covary.gram.vecchia.neighbours import Neighbourhoods
    from covary.means.basis import Basis, Evaluated
    from covary.model import Model

Kernels: TypeAlias = tuple[AbstractKernel, ...]
Roots: TypeAlias = np.ndarray | tuple[np.ndarray, ...]  # of one latent function, or one for each of several
F = TypeVar("F", bound="AbstractFactor")  # the factor type of a gram
COARSEST = 400  # rows below which there is no coarser level
ITERATED = 250  # the same if every evaluation iterates: several factorisations each, so fixed costs matter less
DENSE_ROWS = 2000  # the finest dense level below an approximate one
DENSE = Option("gram", "Dense()")  # advice for what another gram cannot do


@dataclass
class Workspace:
    """State that a search keeps between evaluations on the same rows: a buffer, and the neighbours found at the start."""

    square: np.ndarray | None = None
    neighbourhoods: Neighbourhoods | None = None


@dataclass(frozen=True)
class Bars:
    """Cotangents of the terms of a factor: the derivatives of a scalar with respect to each term."""

    quad: float = 0.0
    logdet: float = 0.0
    mean: np.ndarray | None = None
    variance: np.ndarray | None = None
    correction: float = 0.0


@dataclass(frozen=True)
class Pulled:
    """Gradients with respect to the inputs of a factor: kernel parameters, shift, sites, and inducing inputs if any."""

    kernel: AbstractKernel | Kernels
    shift: np.ndarray
    sites: AbstractSites | None
    inducing: np.ndarray | None = None


@dataclass(frozen=True)
class Cotangent:
    """The gradient with respect to K in structured form: ``scale``·R + left rightᵀ (symmetric in sum) + P diag(sandwich) Pᵀ."""

    scale: float
    left: np.ndarray
    right: np.ndarray
    sandwich: np.ndarray | None = None


def absent(v: float | np.ndarray) -> bool:
    """Return whether a cotangent is a plain zero (always False for a traced one)."""
    return isinstance(v, int | float) and v == 0


def columns(v: np.ndarray) -> np.ndarray:
    """Return a vector as one column, a matrix unchanged."""
    return v[:, None] if v.ndim == 1 else v


class AbstractFactor:
    """Prior times sites, as used by inference and prediction.

    Subclasses for one latent function implement the operations without the basis (those with an underscore); all others are
    implemented here. Subclasses for several functions (:class:`covary.gram.several.SeveralFactor`), and that of the
    variational posterior, override these methods directly: arrays then have shape (n, L), variances (n, L, L), and there is
    no basis.

    The annotations are for NumPy on the host; in compiled code the arrays, and scalars computed from them, are JAX's.
    """

    lane: type[Lapack] = Lapack
    sites: AbstractSites
    basis: Evaluated | None = None  # H of shape (n, m) in the coordinates of its weights, or None
    jitter: float = 0.0

    @property
    def xp(self) -> ModuleType:
        """The array namespace of the linear-algebra backend."""
        return self.lane.xp

    # implemented by subclasses ----------------------------------------------------------------------------------
    def _solve(self, B: np.ndarray) -> np.ndarray:
        """Return R B without the basis."""
        raise NotImplementedError

    def _sigma(self, B: np.ndarray) -> np.ndarray:
        """Return Σ B without the basis (for natural sites only)."""
        raise NotImplementedError

    def _logdet(self) -> float:
        raise NotImplementedError

    def _variance(self) -> np.ndarray:
        """Return the diagonal of Σ without the basis."""
        raise NotImplementedError

    def _inverse_diagonal(self) -> np.ndarray:
        """Return the diagonal of R without the basis."""
        raise NotImplementedError

    def _reduction(self, Ks: np.ndarray) -> np.ndarray:
        """Return the diagonal of KsᵀR Ks without the basis, for Ks of shape (n, m)."""
        return (Ks * self._solve(Ks)).sum(0)

    # public interface -------------------------------------------------------------------------------------------
    @property
    def observed(self) -> bool:
        """Whether the sites are observed (noise) rather than natural."""
        return isinstance(self.sites, Noise)

    @property
    def spread(self) -> np.ndarray:
        """S of observed sites, W of natural ones."""
        if isinstance(self.sites, Noise):
            return self.sites.variance
        assert isinstance(self.sites, Diagonal)
        return self.sites.precision

    def like_sites(self, bar: np.ndarray) -> Noise | Diagonal:
        """Wrap a gradient with respect to S or W in sites of the same type."""
        return Noise(bar) if self.observed else Diagonal(bar)

    def project(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return U = R H, the inverse of A = B⁻¹ + HᵀU, and T, the image of H in the posterior mean."""
        H = self.basis
        assert H is not None
        U = self._solve(H)
        T = self.spread[:, None] * U if self.observed else H - self._sigma(self.spread[:, None] * H)
        return U, self._eliminated(H, H.T @ U)[0], T

    def _eliminated(self, H: Evaluated, M: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the inverse of A = B⁻¹ + M (M = HᵀR H), and the weights' term of logdet; see ``means.basis.Coordinates``."""
        own = H.coordinates
        A = (M + M.T) / 2 + own.precision.astype(M.dtype)
        self._refuse_dependent(H, A)
        return self.xp.linalg.inv(A), self.xp.linalg.slogdet(A)[1] + own.log_det

    def _refuse_dependent(self, H: Evaluated, A: np.ndarray) -> None:
        """Raise an error if basis functions with vague weights are linearly dependent on the rows."""
        if self.xp is not np or not np.isfinite(A).all():
            return
        size = np.sqrt(np.abs(np.diagonal(A)))
        even = A / np.where(size > 0, size, 1.0)[:, None] / np.where(size > 0, size, 1.0)[None, :]
        flat = np.linalg.svd(even, compute_uv=False)[-1] < np.finfo(A.dtype).eps * len(A)
        if flat or H.coordinates.dependent:
            what = "basis functions with vague weights are linearly dependent on these rows"
            raise NotPositiveDefinite("gram", what, "drop some, or give their weights a covariance")

    def solve(self, B: np.ndarray) -> np.ndarray:
        """Return R B = (K + W⁻¹)⁻¹ B, with the basis projected out."""
        out = self._solve(B)
        if self.basis is None:
            return out
        U, inverse, _ = self.project()
        return out - U @ (inverse @ (U.T @ B))

    def sigma(self, B: np.ndarray) -> np.ndarray:
        """Return Σ B, the posterior covariance at the training rows times B."""
        spread = self.spread if B.ndim == 1 else self.spread[:, None]
        out = spread * (B - self._solve(spread * B)) if self.observed else self._sigma(B)
        if self.basis is None:
            return out
        _, inverse, T = self.project()
        return out + T @ (inverse @ (T.T @ B))

    def weights(self, shift: np.ndarray) -> np.ndarray | None:
        """Return the basis weights β, or None."""
        if self.basis is None:
            return None
        inverse = self.project()[1]
        return inverse @ (self.basis.T @ self._alpha(shift))

    def _alpha(self, shift: np.ndarray) -> np.ndarray:
        if self.observed:
            return self._solve(shift)
        return shift - (self.spread if shift.ndim == 1 else self.spread[:, None]) * self._sigma(shift)

    def alpha(self, shift: np.ndarray) -> np.ndarray:
        """Return the weights of the posterior mean: E f(x*) = k*ᵀ alpha (+ h*ᵀβ)."""
        raw = self._alpha(shift)
        if self.basis is None:
            return raw
        U, inverse, _ = self.project()
        return raw - U @ (inverse @ (self.basis.T @ raw))

    def mean(self, shift: np.ndarray) -> np.ndarray:
        """Return the posterior mean at the training rows."""
        spread = self.spread if shift.ndim == 1 else self.spread[:, None]
        return shift - spread * self.alpha(shift) if self.observed else self.sigma(shift)

    def quad(self, shift: np.ndarray) -> float:
        """Return the quadratic term, which contributes −½ quad to log Z. Several columns are summed."""
        return (shift * self.alpha(shift)).sum() if self.observed else -(shift * self.mean(shift)).sum()

    def logdet(self) -> float:
        """Return the determinant term, which contributes −½ logdet to log Z."""
        raw = self._logdet()
        if self.basis is None:
            return raw
        H = self.basis
        return raw + self._eliminated(H, H.T @ self._solve(H))[1]

    def variance(self) -> np.ndarray:
        """Return the posterior variance at the training rows."""
        raw = self._variance()
        if self.basis is None:
            return raw
        _, inverse, T = self.project()
        return raw + ((T @ inverse) * T).sum(1)

    def diag_inverse(self) -> np.ndarray:
        """Return the diagonal of R (used for leave-one-out: R&W, eq. 5.12)."""
        raw = self._inverse_diagonal()
        if self.basis is None:
            return raw
        U, inverse, _ = self.project()
        return raw - ((U @ inverse) * U).sum(1)

    # gradients --------------------------------------------------------------------------------------------------
    def cotangent(self, shift: np.ndarray, bars: Bars) -> tuple[Cotangent, np.ndarray, np.ndarray]:
        """Return the gradients with respect to K (in structured form), the shift, and S or W."""
        xp, spread, f = self.xp, self.spread, np.empty(0)
        a, q, l = columns(self.alpha(shift)), bars.quad, bars.logdet * (shift.shape[1] if shift.ndim == 2 else 1)
        left, right = [-q * a], [a]
        if self.basis is not None and not absent(bars.logdet):
            U, inverse, _ = self.project()
            left.append(-l * (U @ inverse))
            right.append(U)
        if self.observed:
            shift_bar = 2 * q * a
            spread_bar = xp.zeros_like(spread)
        else:
            f = columns(self.mean(shift))
            shift_bar = -2 * q * f
            spread_bar = q * (f * f).sum(1) + (0.0 if absent(bars.logdet) else l * self.variance())
        if bars.mean is not None:
            m = columns(bars.mean)
            if self.observed:
                u = self.solve(spread[:, None] * m)
                shift_bar = shift_bar + m - u
                spread_bar = spread_bar - (a * m).sum(1)
            else:
                sm = self.sigma(m)
                u = m - spread[:, None] * sm
                shift_bar = shift_bar + sm
                spread_bar = spread_bar - (sm * f).sum(1)
            left += [0.5 * u, 0.5 * a]
            right += [a, u]
        structured = Cotangent(l, xp.concatenate(left, 1), xp.concatenate(right, 1), bars.variance)
        if self.observed:
            spread_bar = spread_bar + self.diagonal(structured)
            if bars.variance is not None:
                spread_bar = spread_bar + bars.variance * (1 - 2 * spread * self.diag_inverse())
        elif bars.variance is not None:
            spread_bar = spread_bar - self.squared_sigma(bars.variance)
        return structured, shift_bar.reshape(shift.shape), spread_bar

    def diagonal(self, cotangent: Cotangent) -> np.ndarray:
        """Return the diagonal of a structured gradient with respect to K."""
        out = (cotangent.left * cotangent.right).sum(1)
        if not absent(cotangent.scale):
            out = out + cotangent.scale * self._inverse_diagonal()
        if cotangent.sandwich is not None:
            out = out + self.sandwich_diagonal(cotangent.sandwich)
        return out

    def sandwich_diagonal(self, v: np.ndarray) -> np.ndarray:
        """Return the diagonal of P diag(v) Pᵀ."""
        what = "it has no gradient of the marginal variance"
        raise fail(f"gram.{type(self).__name__}", what, "use " + DENSE)

    def site_blocks(self) -> np.ndarray | None:
        """Return the precisions (n, L, L) of sites on several latent functions; None if the rows have no such sites."""
        return None

    def squared_sigma(self, v: np.ndarray) -> np.ndarray:
        """Return (Σ∘Σ) v."""
        what = "it has no gradient of the marginal variance"
        raise fail(f"gram.{type(self).__name__}", what, "use " + DENSE)


class Sited(Protocol):
    """The part of an inference result that predictions need: the shift of the sites and the weights of the posterior mean."""

    @property
    def shift(self) -> np.ndarray: ...

    @property
    def alpha(self) -> np.ndarray: ...


@runtime_checkable
class HasInducing(Protocol):
    """A bound gram whose posterior is determined by its inducing values, u = f(Z)."""

    def inducing_posterior(self, factor: AbstractFactor, solved: Sited, /) -> tuple[Inputs, np.ndarray, Roots, Roots]:
        """Return Z, the mean of u, a root of its covariance (root rootᵀ) and L, the factor of K(Z, Z).

        For one latent function these are arrays (m,), (m, m) and (m, m); for several (m, L), and tuples with one matrix each.
        The mean function is not included.
        """
        ...


class AbstractBound(Generic[F]):
    """A gram bound to a kernel and inputs, as used by inference. Its factors have type F."""

    kernels: Kernels
    X: Inputs
    basis: Evaluated | None = None
    rule: str | None = None  # of an approximation that has several
    dense: ClassVar[bool] = False  # whether K is a matrix in memory

    @property
    def width(self) -> int:
        """The number of values that a prediction keeps in memory per new row: the rows of the support."""
        return self.X.rows

    def factor(self, sites: AbstractSites, *, fixed_jitter: float | None = None) -> F:
        """Return prior times sites. With ``fixed_jitter``, use exactly this jitter and raise if it fails; else it may grow."""
        raise NotImplementedError

    def matvec(self, v: np.ndarray) -> np.ndarray:
        """Return K v at the training rows."""
        raise NotImplementedError

    def apply(self, v: np.ndarray) -> np.ndarray:
        """Return K v for latent values (n,), or (n, L) of several latent functions, each with its own K."""
        return self.matvec(v)

    def pull(self, factor: F, shift: np.ndarray, alpha: np.ndarray, bars: Bars, *, consume: bool = False) -> Pulled:
        """Return the gradients of a function of the factor's terms; ``consume`` allows overwriting the factor."""
        raise NotImplementedError

    def correction(self, sites: AbstractSites) -> float:
        """Return the term added to the log evidence under a Gaussian likelihood (VFE's trace term)."""
        return 0.0

    def conditional(self, factor: F, solved: Sited, X: Inputs, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the latent mean and, if requested, variance at new inputs, both without mean function and basis.

        ``solved`` contains the ``shift`` of the sites and the weights ``alpha``: most grams compute k*ᵀ alpha; those that
        condition every new point on its own neighbours (Vecchia) need the shift.
        """
        raise NotImplementedError

    def joint(self, factor: F, X: Inputs) -> np.ndarray:
        """Return the latent covariance between new inputs, without basis."""
        raise NotImplementedError

    def cross_solve(self, X: Inputs, B: np.ndarray) -> np.ndarray:
        """Return k*ᵀ B at new inputs for B of shape (n, m)."""
        raise NotImplementedError


# levels of a search, from few rows to all: helpers shared by the grams
Rows = TypeVar("Rows", Data, Inputs)


def row_levels(rows: int, coarsest: int = COARSEST) -> tuple[int, ...]:
    """Return the numbers of rows of the levels, from coarse to fine."""
    if rows < 2 * coarsest:
        return (rows,)
    coarse = max(coarsest, rows // 4)
    return (coarse, rows) if coarse <= 1500 else (max(coarsest, coarse // 4), coarse, rows)


def dense_cost(rows: int) -> float:
    """Return the approximate number of operations of an evaluation with a dense matrix."""
    return float(rows) ** 2 * (rows + 2000.0)


def some(data: Rows, rows: int, key: int) -> Rows:
    """Return a random subset of rows of data or inputs, in their original order."""
    order = np.random.default_rng(key).permutation(data.rows)
    return data.take(np.sort(order[:rows]))


class AbstractGram(Module):
    """A specification of how K is represented; prepared for a model and data, then bound to a kernel and inputs."""

    thins: ClassVar[bool] = False  # whether a coarse level sums only some of the evidence's terms, one per row
    settles_first: ClassVar[bool] = False  # whether a search prepares it before its coarsest level
    whole: ClassVar[bool] = False  # whether K is one dense matrix (of all rows, or of those kept), as closed forms need
    on_inducing: ClassVar[bool] = False  # whether it depends on inducing inputs, which a search chooses once

    @property
    def moves_inducing(self) -> bool:
        """Whether ``learn`` moves the inducing inputs by gradient."""
        return False

    @property
    def fixed_jitter(self) -> float | None:
        """The jitter that a search keeps fixed, as a fraction of the mean diagonal of K; None if there is no jitter."""
        return None

    def bytes_needed(self, model: Model, rows: int, itemsize: int) -> int:
        """Return the peak memory of an evaluation if it grows with the square of the rows, otherwise zero."""
        return 0

    def probe(self) -> AbstractGram:
        """Return the gram that is bound to a single row to check a model."""
        return self

    # used by a search --------------------------------------------------------------------------------------------
    def levels(self, rows: int, coarsest: int | None) -> tuple[int, ...]:
        """Return the numbers of rows that a search evaluates, from coarse to fine: by default only all rows.

        No level has fewer rows than ``coarsest``; None requests only the finest level.
        """
        return (rows,)

    def at(self, data: Data, rows: int, *, key: int = 0) -> tuple[Data, AbstractGram]:
        """Return the data and the gram to evaluate on a level (of the prepared gram)."""
        return (data if rows == data.rows else some(data, rows, key)), self

    def cost(self, rows: int) -> float:
        """Return the approximate number of operations of an evaluation on a level; only ratios matter."""
        return float(rows)

    def approximates(self, rows: int) -> bool:
        """Return whether the evidence on a level is approximate, so that steps with a very small gain are not worthwhile."""
        return False

    def on_device(self, rows: int) -> bool:
        """Return whether this number of rows is computed on the default device rather than by LAPACK on the host."""
        return False

    def unexplained(self, kernels: Kernels, X: Inputs) -> float:
        """Return the prior variance left unexplained by the approximation, averaged over these inputs."""
        return 0.0

    def prepare(self, model: Model, data: Data, *, key: int = 0) -> tuple[AbstractGram, Data]:
        """Return the gram with all choices made that depend on kernel or data (inducing inputs, subset), and its data.

        By default both are returned unchanged.
        """
        return self, data

    def bind(
        self, kernels: Kernels, X: Inputs, basis: Basis | None = None, workspace: Workspace | None = None
    ) -> AbstractBound[Any]:
        """Bind the gram to kernels and inputs; a ``workspace`` provides buffers that the caller owns and reuses."""
        raise NotImplementedError
