r"""The Markov gram: exact Gaussian processes on one input in O(n), by a state space model (R&W, appendix B, section 6.3.1).

Rows are sorted by their input and arranged in a grid (see :mod:`covary.gram.markov.recursions`). With k, D, P of the filter
and N of the smoother, a factor computes log det = Σ log D; R B and Σ B by two passes; and, with q = kᵀÑk,

.. math:: R_{ii} = \tfrac wD + \tfrac{w^2}{D^2} q, \qquad \Sigma_{ii} = \tfrac zD\bigl(h^\top k - \tfrac zD q\bigr).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import jax
import numpy as np

from covary._checks import NotPositiveDefinite, fail
from covary._errors import Option
from covary._module import without_marks
from covary._precision import cast, precision
from covary._words import counted
from covary.data import Inputs
from covary.gram.base import (
    DENSE,
    AbstractBound,
    AbstractFactor,
    AbstractGram,
    Bars,
    Kernels,
    Pulled,
    Sited,
    Workspace,
    columns,
)
from covary.gram.markov import recursions
from covary.gram.markov.state_space import measured, why_not
from covary.sites import AbstractSites, Diagonal, Noise

if TYPE_CHECKING:
    from covary.means.basis import Basis, Evaluated

T = TypeVar("T")

WHO = "gram.Markov"
BLOCK = 32  # columns of a joint covariance computed together
LEAST_LANES, LEAST_STEPS = 4, 16  # so that all problems of up to 64 rows share one shape


def rung(count: int) -> int:
    """Round up to one of a few sizes, by at most an eighth, so that problems of similar size share compiled code."""
    step = max(1, 1 << max(0, count.bit_length() - 4))
    return -(-count // step) * step


class Grid:
    """The arrangement of the rows: sorted by their input, split across lanes (parallel segments), and padded."""

    def __init__(self, x: np.ndarray, sequential: bool) -> None:
        n = len(x)
        order = np.argsort(x, kind="stable")
        self.rows, self.order = n, None if (order[1:] > order[:-1]).all() else order
        self.lanes = 1 if sequential else max(LEAST_LANES, 1 << round(np.log2(n) / 2 - 0.5))
        self.steps = rung(max(LEAST_STEPS, -(-n // self.lanes)))
        self.times = x[order]
        full = np.concatenate([self.times, np.full(self.steps * self.lanes - n, self.times[-1])])
        self.t, self.dt = self.tiled(full), self.tiled(np.diff(full, prepend=full[:1]))

    def tiled(self, v: np.ndarray) -> np.ndarray:
        """Reshape sorted and padded rows to (steps, lanes) or (steps, p, lanes)."""
        return np.ascontiguousarray(np.moveaxis(v.reshape(self.lanes, self.steps, *v.shape[1:]), 0, -1))

    def put(self, v: np.ndarray, fill: float = 0.0) -> np.ndarray:
        """Arrange values in the user's order, (n,) or (n, p), on the grid."""
        v = np.asarray(v, self.times.dtype)
        v = v if self.order is None else v[self.order]
        return self.tiled(np.concatenate([v, np.full((self.steps * self.lanes - self.rows, *v.shape[1:]), fill, v.dtype)]))

    def get(self, v: np.ndarray) -> np.ndarray:
        """Return values on the grid in the user's order, the inverse of :meth:`put`."""
        v = np.moveaxis(np.asarray(v), -1, 0)
        flat = v.reshape(-1, *v.shape[2:])[: self.rows]
        if self.order is None:
            return np.array(flat)
        out = np.empty_like(flat)
        out[self.order] = flat
        return out

    def at(self, v: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the entries of the given sorted rows: (..., m)."""
        return np.moveaxis(np.asarray(v)[rows % self.steps, ..., rows // self.steps], 0, -1)


def _arrays(tree: T) -> T:
    """Return NumPy views of compiled results, which do not depend on the precision scope in which they were computed."""
    return jax.tree_util.tree_map(np.asarray, tree)


class MarkovFactor(AbstractFactor):
    """Prior times sites, computed by a Kalman filter (Durbin & Koopman 2012, chapter 4)."""

    def __init__(
        self, bound: MarkovBound, sites: Noise | Diagonal, w: np.ndarray, z: np.ndarray, basis: Evaluated | None = None
    ) -> None:
        self.bound, self.sites, self.basis = bound, sites, basis
        self.grid = grid = bound.grid(sequential=bool((z == 0).any()))
        self.w, self.z = grid.put(w), grid.put(z, 1.0)
        self.A, self.Q, self.P0 = bound.equation(grid)
        with precision(bound.dtype):
            out = recursions.filtered(self.A, self.Q, self.P0, self.w, self.z, bound.h)
            self.k, self.D, self.P, self.F, self.J, log_determinant = _arrays(out)
        self.log_determinant = float(log_determinant)
        self._N: tuple[np.ndarray, np.ndarray] | None = None
        self._held: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        self._check()

    def _check(self) -> None:
        """Raise an error unless every D is well above rounding error."""
        prior = float(np.asarray(self.bound.h) @ self.P0 @ np.asarray(self.bound.h))
        level = np.maximum(self.z, self.w * max(prior, float(np.abs(self.k).max())))
        sound = np.isfinite(self.log_determinant) and bool((10 * np.finfo(self.D.dtype).eps * level < self.D).all())
        if sound:
            return
        cause = "the kernel's scales are far from those of the data"
        if bool((self.z == 0).any()):
            repeated = self.grid.rows - len(np.unique(self.grid.times))
            cause = "the noise is zero at rows that are already determined by the others"
            cause = (
                f"{counted(repeated, 'row of X repeats another', 'rows of X repeat others')} and the noise is zero"
                if repeated
                else cause
            )
        what = f"K + noise is not positive definite: {cause}"
        raise NotPositiveDefinite(WHO, what, "raise the noise variance, merge repeated rows, or check the kernel's scales")

    def _smoothed(self, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return α and Σ B (of observed sites R B and its image), in the shape of B; the last result is cached."""
        if self._held is None or self._held[0] is not B:
            b = self.grid.put(columns(B))
            with precision(self.bound.dtype):
                out = _arrays(recursions.weighed(self.A, self.k, self.D, self.w, self.z, self.F, b, self.bound.h))
            u, f = (self.grid.get(v).reshape(B.shape) for v in out)
            self._held = B, u, f
            return u, f
        return self._held[1], self._held[2]

    def _solve(self, B: np.ndarray) -> np.ndarray:
        spread = self.spread if B.ndim == 1 else self.spread[:, None]
        return self._smoothed(B if self.observed else spread * B)[0]

    def _alpha(self, shift: np.ndarray) -> np.ndarray:
        return self._smoothed(shift)[0]

    def _sigma(self, B: np.ndarray) -> np.ndarray:
        return self._smoothed(B)[1]

    def _logdet(self) -> float:
        return self.log_determinant

    def informed(self) -> tuple[np.ndarray, np.ndarray]:
        """Return N and kᵀÑk on the grid (cached)."""
        if self._N is None:
            with precision(self.bound.dtype):
                found: tuple[np.ndarray, np.ndarray] = _arrays(
                    recursions.informed(self.A, self.k, self.D, self.w, self.F, self.J, self.bound.h)
                )
            self._N = found
            return found
        return self._N

    def _inverse_diagonal(self) -> np.ndarray:
        g = self.w / self.D
        return self.grid.get(g + g * g * self.informed()[1])

    def _variance(self) -> np.ndarray:
        own = np.asarray(self.k)[:, np.flatnonzero(self.bound.h)].sum(1)  # hᵀP h before the row's update
        share = self.z / self.D
        return self.grid.get(share * (own - share * self.informed()[1]))


class MarkovBound(AbstractBound[MarkovFactor]):
    """A kernel of one sorted input as a state space model."""

    def __init__(self, gram: Markov, kernels: Kernels, X: Inputs, basis: Evaluated | None = None) -> None:
        self.gram, self.kernels, self.X, self.basis = gram, kernels, X, basis
        if len(kernels) != 1:
            raise fail(WHO, "several latent functions are not supported", "use " + DENSE)
        if X.columns != 1:
            what = Option("X") + f" has {counted(X.columns, 'column')}"
            raise fail(WHO, what, "give one (the time, say), or use " + DENSE)
        reason = why_not(kernels[0])
        if reason is not None:
            what = reason
            raise fail(WHO, what, "use Matern kernels, Cosine, Constant, Linear, Wiener, their sums and products, or " + DENSE)
        self.dtype = X.x.dtype
        self.kernel = cast(without_marks(kernels[0]), self.dtype)
        self.h = measured(kernels[0])
        self._grids: dict[bool, Grid] = {}
        self._equations: dict[bool, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        self._held: tuple[np.ndarray, Grid, np.ndarray, np.ndarray] | None = None

    @property
    def width(self) -> int:
        return 128  # a few states with their covariances, independent of n

    def grid(self, *, sequential: bool = False) -> Grid:
        """Return the grid; with a single lane if some noise is zero, since a segment of rows may then be singular."""
        if sequential not in self._grids:
            self._grids[sequential] = Grid(np.asarray(self.X.x)[:, 0], sequential)
        return self._grids[sequential]

    def equation(self, grid: Grid) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return A and Q of every row, and the prior covariance of the first (cached)."""
        key = grid.lanes == 1
        if key not in self._equations:
            with precision(self.dtype):
                self._equations[key] = _arrays(recursions.built(self.kernel, grid.t, grid.dt))
        return self._equations[key]

    def factor(self, sites: AbstractSites, *, fixed_jitter: float | None = None) -> MarkovFactor:
        """Return prior times sites; no jitter is ever needed or added."""
        if isinstance(sites, Noise):
            variance = np.asarray(sites.variance)
            return MarkovFactor(self, sites, np.ones_like(variance), variance, self.basis)
        if not isinstance(sites, Diagonal):
            raise fail(WHO, f"sites of kind {type(sites).__name__} are not supported", "use " + DENSE)
        W = np.asarray(sites.precision)
        if np.any(W < 0):
            what = "site precisions are negative"
            raise fail(WHO, what, "use " + DENSE + ", or a log-concave likelihood")
        return MarkovFactor(self, sites, W, np.ones_like(W), self.basis)

    def states(self, v: np.ndarray, grid: Grid | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return r and x of :func:`covary.gram.markov.recursions.states` for v of shape (n,) or (n, p); the last are cached."""
        grid = grid or self.grid()
        if self._held is None or self._held[0] is not v or self._held[1] is not grid:
            b = grid.put(columns(np.asarray(v)))
            with precision(self.dtype):
                self._held = (v, grid, *_arrays(recursions.states(*self.equation(grid), b, self.h)))
        return self._held[2], self._held[3]

    def matvec(self, v: np.ndarray) -> np.ndarray:
        x = self.states(v)[1]
        return self.grid().get(x[:, np.flatnonzero(self.h)].sum(1)).reshape(np.shape(v))

    def pull(self, factor: MarkovFactor, shift: np.ndarray, alpha: np.ndarray, bars: Bars, *, consume: bool = False) -> Pulled:
        if bars.variance is not None:
            raise fail(WHO, "it has no gradient of the marginal variance", "use " + DENSE)
        structured, shift_bar, spread_bar = factor.cotangent(shift, bars)
        left, right = structured.left, structured.right
        if bars.mean is None and factor.basis is None:  # left is a multiple of right: −quad alpha alphaᵀ
            V, S = right, -bars.quad * np.eye(right.shape[1])
        else:
            half = 0.5 * np.eye(right.shape[1])
            V, S = np.concatenate([left, right], 1), np.block([[0 * half, half], [half, 0 * half]])
        grid, (r, x) = factor.grid, self.states(V, factor.grid)
        sums = (factor.A, factor.P, factor.informed()[0], np.asarray(structured.scale, self.dtype), r, x, S.astype(self.dtype))
        with precision(self.dtype):
            bar = _arrays(recursions.pulled(self.kernel, grid.t, grid.dt, *sums))
        return Pulled(bar, shift_bar, factor.like_sites(spread_bar))

    def _between(self, X: Inputs, v: np.ndarray, factor: MarkovFactor | None = None) -> tuple[np.ndarray, np.ndarray | None]:
        """Return k*ᵀ v and, with a factor, the latent variance at new inputs, from the rows adjacent to each."""
        grid, (r, x) = self.grid(), self.states(v)
        t = np.asarray(X.x)[:, 0].astype(self.dtype)
        m = len(t)
        t = np.concatenate([t, np.full(rung(max(m, LEAST_STEPS)) - m, t[-1])])
        left = np.searchsorted(grid.times, t, side="right") - 1
        inside, more = left >= 0, left + 1 < grid.rows
        left, right = np.maximum(left, 0), np.minimum(left + 1, grid.rows - 1)
        back, ahead = np.where(inside, t - grid.times[left], 0), np.where(more, grid.times[right] - t, 0)
        P = N = None
        if factor is not None:
            P, N = factor.grid.at(factor.P, left), factor.grid.at(factor.informed()[0], right) * more
        near = (back, ahead, np.where(more, grid.times[right], t), inside)
        with precision(self.dtype):
            out = recursions.between(
                self.kernel, t, near, grid.at(r, right) * more, grid.at(x, left), P, N, self.h, factor is not None
            )
            mean, variance = _arrays(out)
        return mean[:, :m].T.reshape(m, *np.shape(v)[1:]), None if variance is None else np.maximum(variance[:m], 0.0)

    def conditional(
        self, factor: MarkovFactor, solved: Sited, X: Inputs, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        return self._between(X, solved.alpha, factor if variance else None)

    def cross_solve(self, X: Inputs, B: np.ndarray) -> np.ndarray:
        return self._between(X, B)[0]

    def joint(self, factor: MarkovFactor, X: Inputs) -> np.ndarray:
        n, m = self.X.rows, X.rows
        both = MarkovBound(self.gram, self.kernels, Inputs(np.concatenate([self.X.x, X.x.astype(self.dtype)])))
        w, z = (factor.spread, np.ones(n)) if not factor.observed else (np.ones(n), factor.spread)
        whole = MarkovFactor(both, Diagonal(w), np.concatenate([w, np.zeros(m)]), np.concatenate([z, np.ones(m)]))
        out = np.empty((m, m), self.dtype)
        for start in range(0, m, BLOCK):
            ask = np.zeros((n + m, BLOCK), self.dtype)
            stop = min(start + BLOCK, m)
            ask[np.arange(n + start, n + stop), np.arange(stop - start)] = 1
            out[:, start:stop] = whole._smoothed(ask)[1][n:, : stop - start]
        return (out + out.T) / 2


class Markov(AbstractGram):
    """Exact inference in O(n), for one input column and kernels that correspond to linear stochastic differential equations.

    These are Matern12, Matern32, Matern52, Cosine, Constant, Linear, Wiener and IntegratedWiener, and their sums and products.
    Rows may be in any order, with repeated inputs and gaps. Memory and time grow linearly with n, and with the square to the
    cube of the number of states (one for Matern12, two for Matern32, three for Matern52; sums add, products multiply). If the
    noise is exactly zero at some row, rows are processed sequentially: also exact, but slower.

    References
    ----------
    Rasmussen & Williams (2006), appendix B, section 6.3.1; Hartikainen & Särkkä (2010), *Kalman filtering and smoothing
    solutions to temporal Gaussian process regression models*; Särkkä & García-Fernández (2021), *Temporal parallelization of
    Bayesian smoothers*.

    Examples
    --------
    >>> import numpy as np
    >>> from covary import GP, Data, Model, condition
    >>> from covary.likelihoods import Gaussian
    >>> x = np.linspace(0, 60, 2000)[:, None]
    >>> post = condition(Model(GP("Matern32()"), likelihood=Gaussian(0.01)), Data(x, np.sin(x[:, 0])), gram=Markov())
    >>> post.predict([[30.0]]).f.mean.round(2)
    array([-0.99])
    """

    def bind(self, kernels: Kernels, X: Inputs, basis: Basis | None = None, workspace: Workspace | None = None) -> MarkovBound:
        return MarkovBound(self, kernels, X, None if basis is None else basis.bind(X))
