r"""Gaussian processes by nearest neighbours: Vecchia's approximation for noisy observations.

The joint density of y is a product of conditionals; here each row is conditioned only on its k nearest predecessors N(i) in
some order (Vecchia 1988; Katzfuss & Guinness 2021, eq. 4, "response Vecchia"). With C = K + S,

.. math::
    \log p(y) = \sum_i \log N(y_i \mid b_i^\top y_{N(i)},\, d_i), \qquad
    b_i = C_{NN}^{-1} c_{N i},\quad d_i = C_{ii} - c_{N i}^\top b_i,

so R = (K + S)⁻¹ is replaced by :math:`U^\top D^{-1} U`, where U has ones on its diagonal and −b_i in the columns N(i). This
takes O(n k³) time and O(n k) memory, and is exact for k = n − 1.

The gradient is hand-written. With v = [−b; 1] over the rows (N, i), and :math:`e_i = y_i - b_i^\top y_N`,

.. math::
    \mathrm{d}d_i = v^\top \mathrm{d}C\, v, \qquad \mathrm{d}e_i = -[a; 0]^\top \mathrm{d}C\, v, \qquad a = C_{NN}^{-1} y_N ,

because :math:`C_{NN}\,\mathrm{d}b = \mathrm{d}c - \mathrm{d}C_{NN}\,b` is the first k rows of dC v. For
:math:`F = l\sum_i\log d_i + \sum_c \omega_c\, y_c^\top R\, y_c` the cotangent of the local matrix is therefore w vᵀ with

.. math:: w = \Bigl(\frac{l}{d} - \sum_c \omega_c\frac{e_c^2}{d^2}\Bigr) v - \Bigl[C_{NN}^{-1} Y_N g;\ 0\Bigr],
          \qquad g_c = 2\omega_c e_c/d :

rank one for any number of columns of Y (the same gradients as Guinness 2021, section 2, without a pass per parameter).
Basis functions add columns to Y: the quadratic term is that of y − Hβ, and log det HᵀRH is a quadratic term of H times a root
of (HᵀRH)⁻¹.

References
----------
Vecchia (1988), Estimation and model identification for continuous spatial processes, J. R. Statist. Soc. B 50.
Katzfuss & Guinness (2021), A general framework for Vecchia approximations of Gaussian processes, Statistical Science 36.
Guinness (2021), Gaussian process learning via Fisher scoring of Vecchia's approximation, Statistics and Computing 31.
Datta, Banerjee, Finley & Gelfand (2016), Hierarchical nearest-neighbor Gaussian process models, JASA 111.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import jax
import numpy as np
from scipy import sparse

from covary._checks import NotPositiveDefinite, fail
from covary._errors import Option
from covary._memory import check_memory
from covary._module import without_marks
from covary._precision import cast
from covary._words import counted
from covary.data import Inputs
from covary.gram.base import DENSE, AbstractBound, AbstractFactor, Bars, Kernels, Pulled, Sited, Workspace, absent, columns
from covary.gram.vecchia import local
from covary.gram.vecchia.neighbours import Neighbourhoods, Search, previous, scaled, settle
from covary.kernels import tiles
from covary.kernels.base import AbstractKernel
from covary.sites import AbstractSites, Noise

if TYPE_CHECKING:
    from covary.gram.vecchia.vecchia import Vecchia
    from covary.means.basis import Evaluated

Weighed: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]  # b, d, pivots and factors of a batch

KEEP = 2**28  # maximum bytes of local factors that a search keeps from a value to its gradient
CUT = 1e-10  # relative eigenvalue below which directions of new points' covariances are dropped


class VecchiaFactor(AbstractFactor):
    """R = UᵀD⁻¹U with a sparse U: one column per row in the order of the neighbourhoods, one row per term of the evidence."""

    def __init__(
        self,
        order: np.ndarray,
        terms: np.ndarray,
        below: sparse.csr_array,
        d: np.ndarray,
        sites: Noise,
        basis: Evaluated | None,
    ) -> None:
        self.order, self.terms, self.below, self.d, self.sites, self.basis = order, terms, below, d, sites, basis
        self.scale = len(order) / len(terms)  # extrapolates a thinned sum to all rows
        self.held: tuple[np.ndarray, Sequence[np.ndarray | None]] = (
            np.empty((0, 0)),
            (),
        )  # the weights, and the local factors of every batch if they are kept

    def _solve(self, B: np.ndarray) -> np.ndarray:
        ordered = B[self.order]
        e = (ordered[self.terms] - self.below @ ordered) * (self.scale / (self.d if B.ndim == 1 else self.d[:, None]))
        back = -(self.below.T @ e)
        back[self.terms] += e
        out = np.empty_like(B)
        out[self.order] = back
        return out

    def covariance_times(self, B: np.ndarray) -> np.ndarray:
        """Return R⁻¹ B, by two sparse triangular solves."""
        from scipy.sparse.linalg import spsolve_triangular

        U = sparse.csr_array(sparse.eye_array(len(self.d)) - self.below)
        half = spsolve_triangular(U.T.tocsr(), B[self.order], lower=False, unit_diagonal=True)
        half = spsolve_triangular(U, self.d[:, None] * half, lower=True, unit_diagonal=True)
        out = np.empty_like(half)
        out[self.order] = half
        return out

    def _logdet(self) -> float:
        return self.scale * float(np.log(self.d).sum())

    def _inverse_diagonal(self) -> np.ndarray:
        precise = self.scale / self.d
        ordered = self.below.power(2).T @ precise
        ordered[self.terms] += precise
        out = np.empty_like(ordered)
        out[self.order] = ordered
        return out

    def _variance(self) -> np.ndarray:
        s = np.asarray(self.spread)
        return np.maximum(s - s * s * self._inverse_diagonal(), 0.0)


class VecchiaBound(AbstractBound[VecchiaFactor]):
    """A kernel approximated by conditioning every row on its nearest predecessors."""

    def __init__(
        self, gram: Vecchia, kernels: Kernels, X: Inputs, basis: Evaluated | None = None, workspace: Workspace | None = None
    ) -> None:
        if len(kernels) != 1:
            raise fail("gram.Vecchia", "several latent functions are not supported", "use " + DENSE)
        if gram.predict_with is not None and gram.predict_with < 1:
            what = f"predict_with is {gram.predict_with}"
            raise fail("gram.Vecchia", what, "give a whole number, one or more, or None", argument="predict_with")
        self.gram, self.kernels, self.X, self.basis = gram, kernels, X, basis
        held = None if workspace is None else workspace.neighbourhoods
        settled = gram.settled if held is None else held
        if settled is None or not settled.fits(X):
            settled = settle(kernels, X, gram.neighbours, gram.ordering, gram.seed)
        if workspace is not None:
            workspace.neighbourhoods = settled  # kept during a search, so that its objective does not jump
        self.settled: Neighbourhoods = settled
        self.keep = workspace is not None
        self._search: Search | None = None
        self._latest: VecchiaFactor | None = None
        n, k = settled.sets.shape
        self.terms = np.arange(n)
        if gram.terms is not None and gram.terms < n:  # evenly spaced along the order, from coarse rows to fine ones
            start = np.random.default_rng(gram.seed).random()
            self.terms = ((np.arange(gram.terms) + start) * (n / gram.terms)).astype(int)
        check_memory("gram.Vecchia", 8 * n * k * X.x.dtype.itemsize, "use fewer neighbours, or use fewer rows")

    @property
    def width(self) -> int:
        return 8 * self.settled.sets.shape[1]  # new rows are processed in separate batches

    @property
    def _bare(self) -> AbstractKernel:
        return cast(without_marks(self.kernels[0]), self.X.x.dtype)

    def _jitter(self, rows: int, *more: float) -> np.ndarray | None:
        """Return the relative jitter of every entry of a local diagonal, or None if it is zero."""
        level = self.gram.jitter
        return None if level == 0 else np.append(np.full(rows, level), more).astype(self.X.x.dtype)

    @property
    def _index(self) -> np.ndarray:
        """The rows of X in every local problem: the neighbours, then the row itself."""
        order, sets = self.settled.order, self.settled.sets[self.terms]
        return np.column_stack([np.where(sets >= 0, order[sets], -1), order[self.terms]])

    # the gram interface -----------------------------------------------------------------------------------------
    def factor(self, sites: AbstractSites, *, fixed_jitter: float | None = None) -> VecchiaFactor:
        if not isinstance(sites, Noise):
            what = f"likelihoods other than Gaussian (sites of kind {type(sites).__name__}) are not supported"
            raise fail("gram.Vecchia", what, "use " + Option("gram", "LowRank(...)") + " or " + DENSE)
        noise, bare = np.asarray(sites.variance, self.X.x.dtype), self._bare
        jitter = self._jitter(self.settled.sets.shape[1] + 1)
        n, k = len(self.terms), self.settled.sets.shape[1]
        keep = self.keep and n * k * k * noise.itemsize <= KEEP

        def work(span: tuple[int, int], X: Inputs, there: np.ndarray, rows: np.ndarray) -> Weighed:
            L, cross, own = local.factors(bare, X, noise[rows], there, jitter)
            b, d, pivots = (np.asarray(v)[: span[1] - span[0]] for v in local.solve(L, cross, own, there))
            return b, d, pivots, L if keep else None

        try:
            b, d, pivots, L = zip(*local.each(work, self.X, self._index), strict=True)
        except NotPositiveDefinite:
            raise self._why(noise) from None
        b, d, pivots = np.concatenate(b), np.concatenate(d), np.concatenate(pivots)
        level = float(tiles.diag(self.kernels[0], self.X).max()) + float(noise.max())
        least = np.finfo(noise.dtype).eps * max(10.0, k**0.5) * level
        worst = np.minimum(d, np.minimum(pivots, level))
        if not (worst > least).all():
            raise self._why(noise)
        sets = np.maximum(self.settled.sets[self.terms], 0)  # absent neighbours have no weight
        below = sparse.csr_array((b.ravel(), sets.ravel(), np.arange(0, n * k + 1, k)), shape=(n, self.X.rows))
        factor = VecchiaFactor(self.settled.order, self.terms, below, d, sites, self.basis)
        factor.held = b, L
        factor.jitter = self.gram.jitter
        self._latest = factor
        return factor

    def _why(self, noise: np.ndarray) -> NotPositiveDefinite:
        """Return the error for local matrices that cannot be factorised, with the likely cause."""
        unique = len(np.unique(np.asarray(self.X.x), axis=0))
        cause = "the kernel may not be positive definite, or a length-scale is far too long for these inputs"
        if unique < self.X.rows and noise.min() == 0:
            repeated = counted(self.X.rows - unique, "row of X repeats another", "rows of X repeat others")
            cause = f"{repeated} and the noise is zero there"
        elif noise.min() < 1e-10 * float(tiles.diag(self.kernels[0], self.X).max()):
            cause = f"the noise variance is only {noise.min():.1e}"
        what = f"K + noise is not positive definite among some row's neighbours (jitter {self.gram.jitter:g}): {cause}"
        do = "raise the noise variance, merge repeated rows, or give Vecchia(..., " + Option("jitter", "1e-8") + ")"
        return NotPositiveDefinite("gram.Vecchia", what, do)

    def pull(self, factor: VecchiaFactor, shift: np.ndarray, alpha: np.ndarray, bars: Bars, *, consume: bool = False) -> Pulled:
        if bars.variance is not None:
            raise fail("gram.Vecchia", "it has no gradient of the marginal variance", "use " + DENSE)
        s, a, Y = np.asarray(factor.spread), columns(alpha), columns(shift)
        level = bars.logdet * (shift.shape[1] if shift.ndim == 2 else 1)
        rest = residual(factor, Y)
        parts, omega = [rest], [np.full(Y.shape[1], bars.quad)]
        shift_bar, spread_bar = 2 * bars.quad * a, np.zeros_like(s)
        if factor.basis is not None and not absent(bars.logdet):
            parts.append(factor.basis @ np.linalg.cholesky(factor.project()[1]))
            omega.append(np.full(parts[-1].shape[1], level))
        if bars.mean is not None:  # the mean is r − S R r: a product of two columns, written as a difference of squares
            m = columns(bars.mean)
            u = residual(factor, s[:, None] * m)
            parts += [u + rest, u - rest]
            omega += [np.full(m.shape[1], -0.25), np.full(m.shape[1], 0.25)]
            shift_bar = shift_bar + m - factor.solve(s[:, None] * m)
            spread_bar = spread_bar - (a * m).sum(1)
        kernel_bar, noise_bar = self._pull(factor, np.hstack(parts), np.concatenate(omega), level)
        return Pulled(kernel_bar, shift_bar.reshape(shift.shape), Noise(spread_bar + noise_bar))

    def _pull(self, factor: VecchiaFactor, Y: np.ndarray, omega: np.ndarray, level: float) -> tuple[AbstractKernel, np.ndarray]:
        """Return the gradient of F with respect to the kernel and the noise of every row."""
        dtype = self.X.x.dtype
        Y, omega = Y.astype(dtype, copy=False), (factor.scale * omega).astype(dtype)
        noise, bare, strength = np.asarray(factor.spread, dtype), self._bare, np.asarray(factor.scale * level, dtype)
        jitter = self._jitter(self.settled.sets.shape[1] + 1)
        (b, kept), d, index = factor.held, factor.d, self._index
        size = local.batch(*b.shape)

        def work(span: tuple[int, int], X: Inputs, there: np.ndarray, rows: np.ndarray) -> tuple[AbstractKernel, np.ndarray]:
            m, short = span[1] - span[0], len(rows) - (span[1] - span[0])
            held = np.pad(b[slice(*span)], ((0, short), (0, 0))), np.pad(d[slice(*span)], (0, short), constant_values=1.0)
            L = kept[span[0] // size]
            if L is None:
                L = local.factors(bare, X, noise[rows], there, jitter)[0]
            there[m:] = False  # ignore the padding
            w, v = local.sides(there, *held, L, Y[rows], omega, strength)
            bar = local.pull(bare, X, jitter, w, v)
            return jax.tree_util.tree_map(np.asarray, bar), (np.asarray(w) * np.asarray(v))[:m]

        bars, own = zip(*local.each(work, self.X, index), strict=True)
        own = np.concatenate(own)
        rows = np.where(index >= 0, index, 0)
        return tiles.total(list(bars)), np.bincount(rows.ravel(), own.ravel(), self.X.rows).astype(dtype)

    # new inputs -------------------------------------------------------------------------------------------------
    def _near(self, X: Inputs) -> np.ndarray:
        if self._search is None:
            self._search = Search(self.X.x, self.settled.scale)
        return self._search.nearest(X.x, self.gram.predictors)

    def _weights(self, factor: VecchiaFactor, X: Inputs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the nearest rows of every new input, their weights, and the conditional variance."""
        near = self._near(X)
        short = min(self.gram.predictors, -(-near.shape[1] // 16) * 16) - near.shape[1]
        index = np.pad(near, ((0, 0), (0, short)), constant_values=-1)
        dtype, bare = self.X.x.dtype, self._bare
        noise = np.append(np.asarray(factor.spread, dtype), 0.0).astype(dtype)
        jitter = self._jitter(index.shape[1], 0.0)
        index = np.column_stack([index, np.full(len(near), self.X.rows)])

        def work(span: tuple[int, int], inputs: Inputs, there: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            m = span[1] - span[0]
            b, d, _ = local.solve(*local.factors(bare, inputs, noise[rows], there, jitter), there)
            return np.asarray(b)[:m, : near.shape[1]], np.asarray(d)[:m]

        b, d = zip(*local.each(work, self.X, index, X), strict=True)
        return near, np.concatenate(b), np.maximum(np.concatenate(d), 0.0)

    def conditional(
        self, factor: VecchiaFactor, solved: Sited, X: Inputs, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        near, b, d = self._weights(factor, X)
        rest = residual(factor, solved.shift)
        mean = np.einsum("mk,mk...->m...", b, rest[near])
        return mean, d if variance else None

    def cross_solve(self, X: Inputs, B: np.ndarray) -> np.ndarray:
        if self._latest is None:
            raise fail("gram.Vecchia", "nothing has been factorised yet", "call factor first")
        near, b, _ = self._weights(self._latest, X)
        return np.einsum("mk,mk...->m...", b, self._latest.covariance_times(columns(B))[near])

    def joint(self, factor: VecchiaFactor, X: Inputs) -> np.ndarray:
        r"""Return (I − B)⁻¹ D (I − B)⁻ᵀ, with each new point given its nearest rows and equally many previous new points.

        New points have no noise and may be arbitrarily close, so their local systems are solved in the space of eigenvectors
        with eigenvalues above 1e-10 of the largest.
        """
        from scipy.linalg import solve_triangular

        near, m = self._near(X), X.rows
        others = previous(scaled(X.x, self.settled.scale), min(self.gram.predictors, m))
        noise, kernel, B, D = np.asarray(factor.spread), self.kernels[0], np.eye(m), np.empty(m)
        for i in range(m):
            before = others[i][others[i] >= 0]
            rows = _stacked(self.X.take(near[i]), X.take(np.append(before, i)))
            C = kernel.gram(rows)
            size = len(near[i])
            C.flat[: size * len(C) : len(C) + 1] *= 1 + self.gram.jitter
            C.flat[: size * len(C) : len(C) + 1] += noise[near[i]]
            values, vectors = np.linalg.eigh(C[:-1, :-1])
            good = values > CUT * values[-1]
            half = vectors[:, good].T @ C[:-1, -1]
            b = vectors[:, good] @ (half / values[good])
            D[i] = max(C[-1, -1] - float((half**2 / values[good]).sum()), 0.0)
            B[i, before] -= b[size:]
        root = solve_triangular(B, np.diag(np.sqrt(D)), lower=True, unit_diagonal=True)
        return root @ root.T

    def matvec(self, v: np.ndarray) -> np.ndarray:
        what = "only products with the inverse of K are available, not with K"
        raise fail("gram.Vecchia", what, "use " + Option("gram", "LowRank(...)") + " or " + DENSE)


def residual(factor: VecchiaFactor, Y: np.ndarray) -> np.ndarray:
    """Return y − Hβ, the residual after the fit of the basis functions."""
    return Y if factor.basis is None else Y - factor.basis @ factor.weights(Y)


def _stacked(a: Inputs, b: Inputs) -> Inputs:
    return Inputs(np.concatenate([a.x, b.x]), {name: np.concatenate([tag, b.tags[name]]) for name, tag in a.tags.items()})
