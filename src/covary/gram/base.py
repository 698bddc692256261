r"""The wall between models and large n: a Gaussian prior N(0, K) meets Gaussian sites, whatever way K is handled.

A factor is the product of prior and sites. Whatever the sites (see :mod:`covary.sites`), it gives

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

``pull`` is the gradient of any function of (quad, logdet, mean, variance), by hand:

.. math::
    \bar K = \bar l R - \bar q\,\alpha\alpha^\top + \mathrm{sym}(u\alpha^\top) + P\,\mathrm{diag}(\bar v)\,P^\top,

with :math:`P = I - W\Sigma = R\,W^{-1}` and :math:`u = P\,\bar m`; so gradients exist for every inference × gram pair.

Explicit basis functions H are projected out here (R&W, eqs. 2.41 to 2.45): with U = R H, A = B⁻¹ + HᵀU and T = K-to-latent
image of H, R loses U A⁻¹Uᵀ, Σ gains T A⁻¹Tᵀ, logdet gains log det A + log det B, and the weights are β = A⁻¹Hᵀalpha₀. Vague
weights have no B⁻¹ and no log det B; observed sites with n rows and m of them leave n − m free (eq. 2.45).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from covary._checks import NotPositiveDefinite, fail
from covary._module import Module
from covary.data import Data, Inputs
from covary.gram.linalg import Lapack
from covary.sites import AbstractSites, Noise


@dataclass(frozen=True)
class Bars:
    """Cotangents of the terms of a factor: how much the quantity in question moves with each of them."""

    quad: float = 0.0
    logdet: float = 0.0
    mean: Any = None
    variance: Any = None
    correction: float = 0.0


@dataclass(frozen=True)
class Pulled:
    """Gradients over what made a factor: the kernel's parameters, the shift, the sites, the inducing inputs if any."""

    kernel: Any
    shift: Any
    sites: Any
    inducing: Any = None


@dataclass(frozen=True)
class Cotangent:
    """The gradient over K in structured form: ``scale``·R + left rightᵀ (symmetric in sum) + P diag(sandwich) Pᵀ."""

    scale: float
    left: Any
    right: Any
    sandwich: Any = None


def absent(v: Any) -> bool:
    """Whether a cotangent is a plain zero (a traced one never is)."""
    return isinstance(v, int | float) and v == 0


def columns(v: Any) -> Any:
    """A vector as one column; a matrix as it is."""
    return v[:, None] if v.ndim == 1 else v


class AbstractFactor:
    """Prior times sites. Kinds supply four raw operations without the basis; everything else is written here once."""

    lane: Any = Lapack
    sites: AbstractSites
    basis: Any = None  # H of shape (n, m) in the coordinates of its weights, or None
    jitter: float = 0.0

    @property
    def xp(self) -> Any:
        """The array namespace of the lane."""
        return self.lane.xp

    # what a kind of gram writes ---------------------------------------------------------------------------------
    def _solve(self, B: Any) -> Any:
        """R B without the basis."""
        raise NotImplementedError

    def _sigma(self, B: Any) -> Any:
        """Σ B without the basis (natural sites only; observed sites need none)."""
        raise NotImplementedError

    def _logdet(self) -> Any:
        raise NotImplementedError

    def _variance(self) -> Any:
        """The diagonal of Σ without the basis."""
        raise NotImplementedError

    def _inverse_diagonal(self) -> Any:
        """The diagonal of R without the basis."""
        raise NotImplementedError

    def _reduction(self, Ks: Any) -> Any:
        """The diagonal of KsᵀR Ks without the basis, for Ks of shape (n, m)."""
        return (Ks * self._solve(Ks)).sum(0)

    # what everyone uses -----------------------------------------------------------------------------------------
    @property
    def observed(self) -> bool:
        """Whether the sites are observed (noise) rather than natural."""
        return isinstance(self.sites, Noise)

    @property
    def spread(self) -> Any:
        """S of observed sites, W of natural ones."""
        return self.sites.variance if isinstance(self.sites, Noise) else self.sites.precision  # type: ignore[attr-defined]

    def project(self) -> tuple[Any, Any, Any]:
        """U = R H, the Cholesky-free inverse of M = HᵀU, and T, the image of H in the posterior mean."""
        H = self.basis
        U = self._solve(H)
        T = self.spread[:, None] * U if self.observed else H - self._sigma(self.spread[:, None] * H)
        return U, self._eliminated(H.T @ U)[0], T

    def _eliminated(self, M: Any) -> tuple[Any, Any]:
        """From M = HᵀR H: the inverse of A = B⁻¹ + M, and what the weights add to logdet; see ``means.basis.Coordinates``."""
        own = self.basis.coordinates
        A = (M + M.T) / 2 + own.precision.astype(M.dtype)
        self._refuse_dependent(A)
        return self.xp.linalg.inv(A), self.xp.linalg.slogdet(A)[1] + own.log_det

    def _refuse_dependent(self, A: Any) -> None:
        """Basis functions with vague weights that the rows cannot tell apart have no weights."""
        if self.xp is not np or not np.isfinite(A).all():
            return
        size = np.sqrt(np.abs(np.diagonal(A)))
        even = A / np.where(size > 0, size, 1.0)[:, None] / np.where(size > 0, size, 1.0)[None, :]
        flat = np.linalg.svd(even, compute_uv=False)[-1] < np.finfo(A.dtype).eps * len(A)
        if flat or self.basis.coordinates.dependent:
            raise NotPositiveDefinite(
                "gram: basis functions with vague weights are linearly dependent on these rows; drop some, or give their "
                "weights a covariance."
            )

    def solve(self, B: Any) -> Any:
        """R B = (K + W⁻¹)⁻¹ B, basis projected out."""
        out = self._solve(B)
        if self.basis is None:
            return out
        U, inverse, _ = self.project()
        return out - U @ (inverse @ (U.T @ B))

    def sigma(self, B: Any) -> Any:
        """Σ B, the posterior covariance at the training rows times B."""
        spread = self.spread if B.ndim == 1 else self.spread[:, None]
        out = spread * (B - self._solve(spread * B)) if self.observed else self._sigma(B)
        if self.basis is None:
            return out
        _, inverse, T = self.project()
        return out + T @ (inverse @ (T.T @ B))

    def weights(self, shift: Any) -> Any:
        """The basis weights β, or None."""
        if self.basis is None:
            return None
        inverse = self.project()[1]
        return inverse @ (self.basis.T @ self._alpha(shift))

    def _alpha(self, shift: Any) -> Any:
        if self.observed:
            return self._solve(shift)
        return shift - (self.spread if shift.ndim == 1 else self.spread[:, None]) * self._sigma(shift)

    def alpha(self, shift: Any) -> Any:
        """The weights of the posterior mean: E f(x*) = k*ᵀ alpha (+ h*ᵀβ)."""
        raw = self._alpha(shift)
        if self.basis is None:
            return raw
        U, inverse, _ = self.project()
        return raw - U @ (inverse @ (self.basis.T @ raw))

    def mean(self, shift: Any) -> Any:
        """The posterior mean at the training rows."""
        spread = self.spread if shift.ndim == 1 else self.spread[:, None]
        return shift - spread * self.alpha(shift) if self.observed else self.sigma(shift)

    def quad(self, shift: Any) -> Any:
        """The quadratic term: −½ quad is its share of log Z. Several columns are added up."""
        return (shift * self.alpha(shift)).sum() if self.observed else -(shift * self.mean(shift)).sum()

    def logdet(self) -> Any:
        """The determinant term: −½ logdet is its share of log Z."""
        raw = self._logdet()
        if self.basis is None:
            return raw
        H = self.basis
        return raw + self._eliminated(H.T @ self._solve(H))[1]

    def variance(self) -> Any:
        """The posterior variance at the training rows."""
        raw = self._variance()
        if self.basis is None:
            return raw
        _, inverse, T = self.project()
        return raw + ((T @ inverse) * T).sum(1)

    def diag_inverse(self) -> Any:
        """The diagonal of R (leave-one-out: R&W, eq. 5.12)."""
        raw = self._inverse_diagonal()
        if self.basis is None:
            return raw
        U, inverse, _ = self.project()
        return raw - ((U @ inverse) * U).sum(1)

    # gradients --------------------------------------------------------------------------------------------------
    def cotangent(self, shift: Any, bars: Bars) -> tuple[Cotangent, Any, Any]:
        """The gradient over K in structured form, over the shift, and over S or W."""
        xp, spread = self.xp, self.spread
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

    def diagonal(self, cotangent: Cotangent) -> Any:
        """The diagonal of a structured gradient over K."""
        out = (cotangent.left * cotangent.right).sum(1)
        if not absent(cotangent.scale):
            out = out + cotangent.scale * self._inverse_diagonal()
        if cotangent.sandwich is not None:
            out = out + self.sandwich_diagonal(cotangent.sandwich)
        return out

    def sandwich_diagonal(self, v: Any) -> Any:
        """The diagonal of P diag(v) Pᵀ."""
        raise fail(f"gram.{type(self).__name__}", "it has no gradient of the marginal variance", "use gram=Dense()")

    def squared_sigma(self, v: Any) -> Any:
        """(Σ∘Σ) v."""
        raise fail(f"gram.{type(self).__name__}", "it has no gradient of the marginal variance", "use gram=Dense()")


class AbstractBound:
    """A gram bound to a kernel and inputs: what inference works with."""

    kernels: tuple[Any, ...]
    X: Inputs
    basis: Any = None

    @property
    def width(self) -> int:
        """How many numbers a prediction holds for every new row: the rows of the support."""
        return self.X.rows

    def factor(self, sites: AbstractSites, *, fixed_jitter: float | None = None) -> AbstractFactor:
        """Prior times sites. With ``fixed_jitter`` exactly that much is added, and failure raises; else it may grow."""
        raise NotImplementedError

    def matvec(self, v: Any) -> Any:
        """K v at the training rows."""
        raise NotImplementedError

    def apply(self, v: Any) -> Any:
        """K v for latent values (n,), or (n, L) of several latent functions, each with its own K."""
        return self.matvec(v)

    def pull(self, factor: Any, shift: Any, alpha: Any, bars: Bars, *, consume: bool = False) -> Pulled:
        """Gradients of a function of the factor's terms; ``consume`` lets it overwrite the factor."""
        raise NotImplementedError

    def correction(self, sites: AbstractSites) -> float:
        """What is added to the evidence under a Gaussian likelihood (VFE's trace term)."""
        return 0.0

    def conditional(self, factor: Any, solved: Any, X: Inputs, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        """The latent mean and, if asked for, variance at new inputs, both without mean function and basis.

        ``solved`` carries the ``shift`` of the sites and the weights ``alpha``: most kinds give k*ᵀ alpha, those that
        condition every new point on its own neighbours (Vecchia) need the shift.
        """
        raise NotImplementedError

    def joint(self, factor: Any, X: Inputs) -> np.ndarray:
        """The latent covariance between new inputs, without basis."""
        raise NotImplementedError

    def cross_solve(self, X: Inputs, B: Any) -> np.ndarray:
        """k*ᵀ B at new inputs for B of shape (n, m)."""
        raise NotImplementedError


class AbstractGram(Module):
    """A recipe for handling K; prepared for a model and data, then bound to a kernel and inputs, by the verbs."""

    composite: ClassVar[bool] = False  # whether it is many models in one, which learn and condition in a way of their own
    thins: ClassVar[bool] = False  # whether the evidence is a sum over rows that may be thinned for a coarse search

    def thinned(self, terms: int, *, key: int = 0) -> AbstractGram:
        """The same with so many terms of its evidence, scaled up (kinds whose ``thins`` is true)."""
        raise NotImplementedError

    def learn(self, model: Any, data: Data, **search: Any) -> Any:
        """What ``learn`` returns (composite kinds)."""
        raise NotImplementedError

    def condition(self, model: Any, data: Data, inference: Any) -> Any:
        """What ``condition`` returns (composite kinds)."""
        raise NotImplementedError

    def evidence(self, model: Any, data: Data, inference: Any) -> tuple[float, Any]:
        """The log evidence and its gradient (composite kinds)."""
        raise NotImplementedError

    def prepare(self, model: Any, data: Data, *, key: int = 0) -> tuple[AbstractGram, Data]:
        """What the verbs really use: the gram with everything settled that depends on kernel or data (which inducing
        inputs, which subset), and the data it is for. By default both as they are.
        """
        return self, data

    def bind(
        self, kernels: tuple[Any, ...], X: Inputs, basis: Any = None, workspace: dict[str, Any] | None = None
    ) -> AbstractBound:
        """The gram of these kernels at these inputs; a ``workspace`` lends buffers that the caller owns and reuses."""
        raise NotImplementedError
