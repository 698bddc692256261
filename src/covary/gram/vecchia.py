r"""Gaussian processes by nearest neighbours: Vecchia's approximation of the noisy observations.

The joint density of y is a product of conditionals; each row here keeps only its k nearest predecessors N(i) in some order
(Vecchia 1988; Katzfuss & Guinness 2021, eq. 4, "response Vecchia"). With C = K + S,

.. math::
    \log p(y) = \sum_i \log N(y_i \mid b_i^\top y_{N(i)},\, d_i), \qquad
    b_i = C_{NN}^{-1} c_{N i},\quad d_i = C_{ii} - c_{N i}^\top b_i,

so R = (K + S)⁻¹ is replaced by :math:`U^\top D^{-1} U`, U having ones on its diagonal and −b_i in the columns N(i). Everything
is O(n k³) time and O(n k) memory, and with k = n − 1 nothing is approximated.

The gradient, by hand. With v = [−b; 1] over the rows (N, i), and :math:`e_i = y_i - b_i^\top y_N`,

.. math::
    \mathrm{d}d_i = v^\top \mathrm{d}C\, v, \qquad \mathrm{d}e_i = -[a; 0]^\top \mathrm{d}C\, v, \qquad a = C_{NN}^{-1} y_N ,

because :math:`C_{NN}\,\mathrm{d}b = \mathrm{d}c - \mathrm{d}C_{NN}\,b` is the first k rows of dC v. For
:math:`F = l\sum_i\log d_i + \sum_c \omega_c\, y_c^\top R\, y_c` the cotangent of the local matrix is therefore w vᵀ with

.. math:: w = \Bigl(\frac{l}{d} - \sum_c \omega_c\frac{e_c^2}{d^2}\Bigr) v - \Bigl[C_{NN}^{-1} Y_N g;\ 0\Bigr],
          \qquad g_c = 2\omega_c e_c/d :

rank one, whatever the number of columns of Y (the same gradients as Guinness 2021, section 2, without a pass per parameter).
Basis functions add columns: the quadratic term is that of y − Hβ, and log det HᵀRH is one of H times a root of (HᵀRH)⁻¹.

References
----------
Vecchia (1988), Estimation and model identification for continuous spatial processes, J. R. Statist. Soc. B 50.
Katzfuss & Guinness (2021), A general framework for Vecchia approximations of Gaussian processes, Statistical Science 36.
Guinness (2021), Gaussian process learning via Fisher scoring of Vecchia's approximation, Statistics and Computing 31.
Datta, Banerjee, Finley & Gelfand (2016), Hierarchical nearest-neighbor Gaussian process models, JASA 111.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from covary._checks import NotPositiveDefinite, fail
from covary._memory import check_memory
from covary._module import static, without_marks
from covary._precision import cast
from covary._threads import blas_threads
from covary.data import Data, Inputs
from covary.gram.base import AbstractBound, AbstractFactor, AbstractGram, Bars, Pulled, absent, columns
from covary.gram.neighbours import Neighbourhoods, Search, previous, scaled, settle
from covary.kernels import tiles
from covary.sites import AbstractSites, Noise

ENTRIES = 2**18  # of the local matrices computed at a time
KEEP = 2**28  # bytes of local factors that a search keeps from a value to its gradient
CUT = 1e-10  # of the largest: eigenvalues of new points' covariances below this carry nothing

traces = {"blocks": 0, "pull": 0}  # how often each was traced; read by the tests


def _blocks(kernel: Any, X: Inputs, jitter: Any) -> Any:
    """The local matrices of K, (rows, k + 1, k + 1), with their diagonals raised by fractions of themselves, if any."""
    K = jax.vmap(lambda x: kernel.block(x, x))(X)
    return K if jitter is None else K + jitter * jnp.eye(K.shape[-1], dtype=K.dtype) * K


@jax.jit
def _noisy(kernel: Any, X: Inputs, noise: Any, there: Any, jitter: Any) -> tuple[Any, Any, Any]:
    """The local matrices of K + S: among neighbours, with the row in question, its own variance.

    Absent neighbours are independent of everything and of variance one.
    """
    traces["blocks"] += 1
    both = there[:, :, None] & there[:, None, :]
    own = jnp.where(there, noise, 1.0)[:, :, None] * jnp.eye(noise.shape[1], dtype=noise.dtype)
    C = jnp.where(both, _blocks(kernel, X, jitter), 0.0) + own
    return C[:, :-1, :-1], C[:, :-1, -1], C[:, -1, -1]


def _local(kernel: Any, X: Inputs, noise: Any, there: Any, jitter: Any) -> tuple[np.ndarray, Any, Any]:
    """The local Cholesky factors, what else the local matrices hold; ``NotPositiveDefinite`` if one has no factor.

    The factors are NumPy's: the compiled ones share one pool of threads, and two callers at once wait for each other for
    ever (seen with jaxlib 0.10.2).
    """
    C, cross, own = _noisy(kernel, X, noise, there, jitter)
    try:
        return np.linalg.cholesky(np.asarray(C)), cross, own
    except np.linalg.LinAlgError:
        raise NotPositiveDefinite("gram.Vecchia: K + noise has no Cholesky factor among some row's neighbours.") from None


def _forward(L: Any, B: Any) -> Any:
    """L⁻¹ B for every local factor: (rows, k, k) and (rows, k)."""

    def step(j: Any, x: Any) -> Any:
        row = jax.lax.dynamic_index_in_dim(L, j, 1, False)  # x is B from j on: the row ends at j
        known = (jnp.where(jnp.arange(L.shape[1]) < j, row, 0.0) * x).sum(1)
        at = jax.lax.dynamic_index_in_dim(x, j, 1, False) - known
        return jax.lax.dynamic_update_index_in_dim(x, at / jax.lax.dynamic_index_in_dim(row, j, 1, False), j, 1)

    return jax.lax.fori_loop(0, L.shape[1], step, B)


def _backward(L: Any, B: Any) -> Any:
    """L⁻ᵀ B, by rows of L as well."""
    k = L.shape[1]

    def step(i: Any, x: Any) -> Any:
        j = k - 1 - i
        row = jax.lax.dynamic_index_in_dim(L, j, 1, False)
        at = jax.lax.dynamic_index_in_dim(x, j, 1, False) / jax.lax.dynamic_index_in_dim(row, j, 1, False)
        x = x - jnp.where(jnp.arange(k) < j, row, 0.0) * at[:, None]
        return jax.lax.dynamic_update_index_in_dim(x, at, j, 1)

    return jax.lax.fori_loop(0, k, step, B)


@jax.jit
def _solve_local(L: Any, cross: Any, own: Any) -> tuple[Any, Any, Any]:
    """Weights b, variances d, and the least pivot of every local factor."""
    half = _forward(L, cross)
    pivots = jnp.min(jnp.diagonal(L, axis1=1, axis2=2), axis=1) ** 2
    return _backward(L, half), own - (half**2).sum(1), pivots


@jax.jit
def _sides(there: Any, b: Any, d: Any, L: Any, Y: Any, omega: Any, level: Any) -> tuple[Any, Any]:
    """The two sides w and v of the local cotangents (see the module's text)."""
    e = Y[:, -1] - (b[:, :, None] * Y[:, :-1]).sum(1)
    g = 2 * omega * e / d[:, None]
    a = _backward(L, _forward(L, (Y[:, :-1] * g[:, None, :]).sum(2)))
    one = jnp.ones((len(b), 1), b.dtype)
    v = jnp.where(there, jnp.concatenate([-b, one], 1), 0.0)
    w = (level / d - (omega * e**2).sum(1) / d**2)[:, None] * v
    return w - jnp.where(there, jnp.concatenate([a, 0 * one], 1), 0.0), v


@jax.jit
def _pull_local(kernel: Any, X: Inputs, jitter: Any, w: Any, v: Any) -> Any:
    """The gradient over the kernel's parameters; compiled apart from the sides, which would else be computed per entry."""
    traces["pull"] += 1
    return jax.vjp(lambda k: _blocks(k, X, jitter), kernel)[1](w[:, :, None] * v[:, None, :])[0]


class VecchiaFactor(AbstractFactor):
    """R = UᵀD⁻¹U, with U sparse; columns of U in the order of the neighbourhoods, and a row for every term there is."""

    def __init__(self, order: np.ndarray, terms: np.ndarray, below: Any, d: np.ndarray, sites: Noise, basis: Any) -> None:
        self.order, self.terms, self.below, self.d, self.sites, self.basis = order, terms, below, d, sites, basis
        self.scale = len(order) / len(terms)  # a thinned sum stands for the whole
        self.held: tuple[Any, Any] = None, ()  # the weights, and the local factors batch by batch where they are kept

    def _solve(self, B: np.ndarray) -> np.ndarray:
        ordered = B[self.order]
        e = (ordered[self.terms] - self.below @ ordered) * (self.scale / (self.d if B.ndim == 1 else self.d[:, None]))
        back = -(self.below.T @ e)
        back[self.terms] += e
        out = np.empty_like(B)
        out[self.order] = back
        return out

    def covariance_times(self, B: np.ndarray) -> np.ndarray:
        """R⁻¹ B: two sparse triangular solves."""
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


class VecchiaBound(AbstractBound):
    """A kernel seen through every row's nearest predecessors."""

    def __init__(
        self, gram: Vecchia, kernels: tuple[Any, ...], X: Inputs, basis: Any = None, workspace: dict[str, Any] | None = None
    ) -> None:
        if len(kernels) != 1:
            raise fail("gram.Vecchia", "several latent functions are not supported", "use gram=Dense()")
        if gram.predict_with is not None and gram.predict_with < 1:
            raise fail("gram.Vecchia", f"predict_with is {gram.predict_with}", "give a whole number, one or more, or None")
        self.gram, self.kernels, self.X, self.basis = gram, kernels, X, basis
        settled = gram.settled if workspace is None else workspace.get("neighbourhoods", gram.settled)
        if settled is None or not settled.fits(X):
            settled = settle(kernels, X, gram.neighbours, gram.ordering, gram.seed)
        if workspace is not None:
            workspace["neighbourhoods"] = settled  # a search keeps them, so that its objective does not jump
        self.settled: Neighbourhoods = settled
        self.keep = workspace is not None
        self._search: Search | None = None
        self._latest: VecchiaFactor | None = None
        n, k = settled.sets.shape
        self.terms = np.arange(n)
        if gram.terms is not None and gram.terms < n:  # evenly along the order, from coarse rows to fine ones
            start = np.random.default_rng(gram.seed).random()
            self.terms = ((np.arange(gram.terms) + start) * (n / gram.terms)).astype(int)
        check_memory("gram.Vecchia", 8 * n * k * X.x.dtype.itemsize, "ask for fewer neighbours, or use fewer rows")

    @property
    def width(self) -> int:
        return 8 * self.settled.sets.shape[1]  # new rows are taken in batches of their own

    # batches of local problems ----------------------------------------------------------------------------------
    @staticmethod
    def _size(rows: int, k: int) -> int:
        """How many local problems of k neighbours make a batch: powers of two, so that few shapes are compiled."""
        fits = 2 ** int(np.log2(max(8, ENTRIES // (k + 1) ** 2)))
        return min(fits, 2048, 2 ** int(np.ceil(np.log2(max(16, rows)))))

    def _each(self, work: Any, index: np.ndarray, own: Inputs | None = None) -> list[Any]:
        """``work(span, inputs, there, rows)`` for batches of local problems, padded to one size, on a few threads.

        ``index`` holds the rows of X that each problem involves, −1 for none; the last of each is the row in question, or
        that row of ``own``, new inputs.
        """
        n, k = index.shape[0], index.shape[1] - 1
        size = self._size(n, k)

        def one(span: tuple[int, int]) -> Any:
            part = index[span[0] : span[1]]
            if len(part) < size:
                part = np.concatenate([part, np.repeat(part[-1:], size - len(part), 0)])
            there = part >= 0
            rows = np.where(there, part, part[:, -1:] if own is None else 0)
            if own is None:
                inputs = self.X.take(rows)
            else:
                inputs = _beside(self.X.take(rows[:, :-1]), own.take(np.minimum(span[0] + np.arange(size), own.rows - 1)))
            return work(span, inputs, there, rows)

        with blas_threads(0):
            return tiles._run(one, tiles._spans(n, size), self.X.x.dtype, size * (k + 1) ** 2)

    @property
    def _bare(self) -> Any:
        return cast(without_marks(self.kernels[0]), self.X.x.dtype)

    def _jitter(self, rows: int, *more: float) -> np.ndarray | None:
        """The fraction added to every entry of a local diagonal; None where there is none."""
        level = self.gram.jitter
        return None if level == 0 else np.append(np.full(rows, level), more).astype(self.X.x.dtype)

    @property
    def _index(self) -> np.ndarray:
        """The rows of X in every local problem: the neighbours, then the row itself."""
        order, sets = self.settled.order, self.settled.sets[self.terms]
        return np.column_stack([np.where(sets >= 0, order[sets], -1), order[self.terms]])

    # the contract -----------------------------------------------------------------------------------------------
    def factor(self, sites: AbstractSites, *, fixed_jitter: float | None = None) -> VecchiaFactor:
        if not isinstance(sites, Noise):
            raise fail(
                "gram.Vecchia", f"sites of kind {type(sites).__name__} are not supported", "use gram=LowRank(...) or Dense()"
            )
        noise, bare = np.asarray(sites.variance, self.X.x.dtype), self._bare
        jitter = self._jitter(self.settled.sets.shape[1] + 1)
        n, k = len(self.terms), self.settled.sets.shape[1]
        keep = self.keep and n * k * k * noise.itemsize <= KEEP

        def work(span: tuple[int, int], X: Inputs, there: np.ndarray, rows: np.ndarray) -> Any:
            L, cross, own = _local(bare, X, noise[rows], there, jitter)
            b, d, pivots = (np.asarray(v)[: span[1] - span[0]] for v in _solve_local(L, cross, own))
            return b, d, pivots, L if keep else None

        try:
            b, d, pivots, L = zip(*self._each(work, self._index), strict=True)
        except NotPositiveDefinite:
            raise NotPositiveDefinite(self._why(noise)) from None
        b, d, pivots = np.concatenate(b), np.concatenate(d), np.concatenate(pivots)
        level = float(tiles.diag(self.kernels[0], self.X).max()) + float(noise.max())
        least = np.finfo(noise.dtype).eps * max(10.0, k**0.5) * level
        worst = np.minimum(d, np.minimum(pivots, level))
        if not (worst > least).all():
            raise NotPositiveDefinite(self._why(noise))
        sets = np.maximum(self.settled.sets[self.terms], 0)  # absent neighbours have no weight
        below = sparse.csr_array((b.ravel(), sets.ravel(), np.arange(0, n * k + 1, k)), shape=(n, self.X.rows))
        factor = VecchiaFactor(self.settled.order, self.terms, below, d, sites, self.basis)
        factor.held = b, L
        factor.jitter = self.gram.jitter
        self._latest = factor
        return factor

    def _why(self, noise: np.ndarray) -> str:
        """The likely cause of local matrices that cannot be factorised, in one sentence."""
        unique = len(np.unique(np.asarray(self.X.x), axis=0))
        cause = "the kernel may not be positive definite, or a length-scale is far too long for these inputs"
        if unique < self.X.rows and noise.min() == 0:
            cause = f"{self.X.rows - unique} rows of X repeat others and the noise is zero there"
        elif noise.min() < 1e-10:
            cause = f"the noise variance is only {noise.min():.1e}"
        return (
            f"gram.Vecchia: K + noise is not positive definite among some row's neighbours (jitter {self.gram.jitter:g}): "
            f"{cause}; raise the noise variance, merge repeated rows, or give Vecchia(..., jitter=1e-8)."
        )

    def pull(self, factor: Any, shift: Any, alpha: Any, bars: Bars, *, consume: bool = False) -> Pulled:
        if bars.variance is not None:
            raise fail("gram.Vecchia", "it has no gradient of the marginal variance", "use gram=Dense()")
        s, a, Y = np.asarray(factor.spread), columns(alpha), columns(shift)
        level = bars.logdet * (shift.shape[1] if shift.ndim == 2 else 1)
        rest = _residual(factor, Y)
        parts, omega = [rest], [np.full(Y.shape[1], bars.quad)]
        shift_bar, spread_bar = 2 * bars.quad * a, np.zeros_like(s)
        if factor.basis is not None and not absent(bars.logdet):
            parts.append(factor.basis @ np.linalg.cholesky(factor.project()[1]))
            omega.append(np.full(parts[-1].shape[1], level))
        if bars.mean is not None:  # the mean is r − S R r: a product of two columns, from two squares
            m = columns(bars.mean)
            u = _residual(factor, s[:, None] * m)
            parts += [u + rest, u - rest]
            omega += [np.full(m.shape[1], -0.25), np.full(m.shape[1], 0.25)]
            shift_bar = shift_bar + m - factor.solve(s[:, None] * m)
            spread_bar = spread_bar - (a * m).sum(1)
        kernel_bar, noise_bar = self._pull(factor, np.hstack(parts), np.concatenate(omega), level)
        return Pulled(kernel_bar, shift_bar.reshape(shift.shape), Noise(spread_bar + noise_bar))

    def _pull(self, factor: Any, Y: np.ndarray, omega: np.ndarray, level: float) -> tuple[Any, np.ndarray]:
        """The gradient of F over the kernel and over the noise of every row."""
        dtype = self.X.x.dtype
        Y, omega = Y.astype(dtype, copy=False), (factor.scale * omega).astype(dtype)
        noise, bare, strength = np.asarray(factor.spread, dtype), self._bare, np.asarray(factor.scale * level, dtype)
        jitter = self._jitter(self.settled.sets.shape[1] + 1)
        (b, kept), d, index = factor.held, factor.d, self._index
        size = self._size(*b.shape)

        def work(span: tuple[int, int], X: Inputs, there: np.ndarray, rows: np.ndarray) -> Any:
            m, short = span[1] - span[0], len(rows) - (span[1] - span[0])
            held = np.pad(b[slice(*span)], ((0, short), (0, 0))), np.pad(d[slice(*span)], (0, short), constant_values=1.0)
            L = kept[span[0] // size]
            if L is None:
                L = _local(bare, X, noise[rows], there, jitter)[0]
            there[m:] = False  # what was padded counts for nothing
            w, v = _sides(there, *held, L, Y[rows], omega, strength)
            bar = _pull_local(bare, X, jitter, w, v)
            return jax.tree_util.tree_map(np.asarray, bar), (np.asarray(w) * np.asarray(v))[:m]

        bars, own = zip(*self._each(work, index), strict=True)
        own = np.concatenate(own)
        rows = np.where(index >= 0, index, 0)
        return tiles.total(list(bars)), np.bincount(rows.ravel(), own.ravel(), self.X.rows).astype(dtype)

    # new inputs -------------------------------------------------------------------------------------------------
    def _near(self, X: Inputs) -> np.ndarray:
        if self._search is None:
            self._search = Search(self.X.x, self.settled.scale)
        return self._search.nearest(X.x, self.gram.predictors)

    def _weights(self, factor: Any, X: Inputs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The nearest rows of every new input, their weights, and the variance that is left."""
        near = self._near(X)
        short = min(self.gram.predictors, -(-near.shape[1] // 16) * 16) - near.shape[1]
        index = np.pad(near, ((0, 0), (0, short)), constant_values=-1)
        dtype, bare = self.X.x.dtype, self._bare
        noise = np.append(np.asarray(factor.spread, dtype), 0.0).astype(dtype)
        jitter = self._jitter(index.shape[1], 0.0)
        index = np.column_stack([index, np.full(len(near), self.X.rows)])

        def work(span: tuple[int, int], inputs: Inputs, there: np.ndarray, rows: np.ndarray) -> Any:
            m = span[1] - span[0]
            b, d, _ = _solve_local(*_local(bare, inputs, noise[rows], there, jitter))
            return np.asarray(b)[:m, : near.shape[1]], np.asarray(d)[:m]

        b, d = zip(*self._each(work, index, X), strict=True)
        return near, np.concatenate(b), np.maximum(np.concatenate(d), 0.0)

    def conditional(self, factor: Any, solved: Any, X: Inputs, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        near, b, d = self._weights(factor, X)
        rest = _residual(factor, solved.shift)
        mean = np.einsum("mk,mk...->m...", b, rest[near])
        return mean, d if variance else None

    def cross_solve(self, X: Inputs, B: Any) -> np.ndarray:
        if self._latest is None:
            raise fail("gram.Vecchia", "nothing has been factorised yet", "call factor first")
        near, b, _ = self._weights(self._latest, X)
        return np.einsum("mk,mk...->m...", b, self._latest.covariance_times(columns(B))[near])

    def joint(self, factor: Any, X: Inputs) -> np.ndarray:
        r"""Each new point given its nearest rows and as many of the new points before it: (I − B)⁻¹ D (I − B)⁻ᵀ.

        New points have no noise and may be as close as one likes, so their local systems are solved in the space of
        eigenvalues above 1e-10 of the largest.
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

    def matvec(self, v: Any) -> Any:
        raise fail("gram.Vecchia", "it knows K only through its inverse", "use gram=LowRank(...) or Dense()")


def _residual(factor: Any, Y: np.ndarray) -> np.ndarray:
    """y − Hβ: what is left when the basis functions have explained what they can."""
    return Y if factor.basis is None else Y - factor.basis @ factor.weights(Y)


def _beside(rows: Inputs, own: Inputs) -> Inputs:
    """Local problems: (b, k) neighbours and the (b,) rows in question, as (b, k + 1)."""
    tags = {name: np.column_stack([tag, own.tags[name]]) for name, tag in rows.tags.items()}
    return Inputs(np.concatenate([rows.x, own.x[:, None]], 1), tags)


def _stacked(a: Inputs, b: Inputs) -> Inputs:
    return Inputs(np.concatenate([a.x, b.x]), {name: np.concatenate([tag, b.tags[name]]) for name, tag in a.tags.items()})


class Vecchia(AbstractGram):
    """Every row given its k nearest predecessors: O(n k³) time, O(n k) memory; Gaussian noise only.

    Good where inputs are few (space, time) and rows many. The search for neighbours uses the length-scales of the model it
    is prepared for (or bound to) and is then kept; prepare again when they have moved much.

    Parameters
    ----------
    neighbours
        How many predecessors a row is conditioned on, k; at most n − 1 are used.
    ordering
        ``"maxmin"`` (from coarse to fine), ``"random"``, or ``"given"``: as the rows come.
    jitter
        What is added to the diagonal, as a fraction of the prior variance; zero.
    seed
        Seed of the ordering, where :meth:`prepare` is not told another.
    predict_with
        How many of the nearest rows a prediction is given; twice ``neighbours`` if None.
    settled
        The order and the neighbours, as :meth:`prepare` leaves them.
    terms
        How many of the n conditionals the evidence adds up (and scales by n over their number); None for all of them.

    References
    ----------
    Vecchia (1988); Katzfuss & Guinness (2021), eq. 4 and section 3.1.

    Examples
    --------
    >>> import numpy as np
    >>> from covary import GP, Data, Model, log_evidence
    >>> x = np.linspace(0.0, 1.0, 200)[:, None]
    >>> data, model = Data(x, np.sin(6 * x[:, 0])), Model(GP("Matern32(lengthscale=0.3)"))
    >>> bool(abs(log_evidence(model, data, gram=Vecchia(20)) - log_evidence(model, data)) < 1.0)
    True
    """

    neighbours: int = static(30)
    _: KW_ONLY
    ordering: str = static("maxmin")
    jitter: float = static(0.0)
    seed: int = static(0)
    predict_with: int | None = static(None)
    settled: Neighbourhoods | None = static(None)
    terms: int | None = static(None)

    thins: ClassVar[bool] = True

    @property
    def predictors(self) -> int:
        """How many of the nearest rows a prediction is given."""
        return 2 * self.neighbours if self.predict_with is None else self.predict_with

    def thinned(self, terms: int, *, key: int = 0) -> Vecchia:
        """The same with so many terms of its evidence, taken evenly along the order: an estimate for a coarse search."""
        return self.replace(terms=int(terms), seed=key)

    def prepare(self, model: Any, data: Data, *, key: int = 0) -> tuple[Vecchia, Data]:
        """The same with order and neighbours settled for the model's present length-scales, and the data as they are.

        One that is settled for these inputs stays as it is; ``gram.replace(settled=None)`` forgets.
        """
        if self.settled is not None and self.settled.fits(data.X):
            return self, data
        settled = settle(model.prior.kernels, data.X, self.neighbours, self.ordering, key)
        return self.replace(seed=key, settled=settled), data

    def bind(
        self, kernels: tuple[Any, ...], X: Inputs, basis: Any = None, workspace: dict[str, Any] | None = None
    ) -> VecchiaBound:
        return VecchiaBound(self, kernels, X, None if basis is None else basis.evaluate(X), workspace)


class NearestNeighbours(AbstractGram):
    """Predictions from the k nearest rows alone, and the evidence of rows in random order given as many before each.

    What :class:`Vecchia` does, without the ordering: the quickest gram there is for very many rows.

    Parameters
    ----------
    neighbours
        How many rows a prediction uses, k.
    jitter, seed
        As in :class:`Vecchia`.

    References
    ----------
    Datta, Banerjee, Finley & Gelfand (2016), eqs. 3-5.
    """

    neighbours: int = static(30)
    _: KW_ONLY
    jitter: float = static(0.0)
    seed: int = static(0)

    def prepare(self, model: Any, data: Data, *, key: int = 0) -> tuple[Vecchia, Data]:
        """A :class:`Vecchia` gram in random order, settled."""
        return self._random().prepare(model, data, key=key)

    def _random(self) -> Vecchia:
        return Vecchia(self.neighbours, ordering="random", jitter=self.jitter, seed=self.seed, predict_with=self.neighbours)

    def bind(
        self, kernels: tuple[Any, ...], X: Inputs, basis: Any = None, workspace: dict[str, Any] | None = None
    ) -> VecchiaBound:
        return self._random().bind(kernels, X, basis, workspace)
