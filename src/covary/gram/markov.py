r"""The Markov gram: exact Gaussian processes on one input in O(n), by a state space model (R&W, appendix B, section 6.3.1).

Rows are sorted by their input and stand in a grid (see :mod:`covary.gram.recursions`). With k, D, P of the filter and N of the
smoother, everything a factor owes is there: log det = Σ log D; R B and Σ B by two passes; and, with q = kᵀÑk,

.. math:: R_{ii} = \tfrac wD + \tfrac{w^2}{D^2} q, \qquad \Sigma_{ii} = \tfrac zD\bigl(h^\top k - \tfrac zD q\bigr).
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from covary._checks import NotPositiveDefinite, fail
from covary._module import without_marks
from covary._precision import cast, precision
from covary._words import counted
from covary.data import Inputs
from covary.gram import recursions
from covary.gram.base import AbstractBound, AbstractFactor, AbstractGram, Bars, Pulled, columns
from covary.gram.state_space import measured, why_not
from covary.sites import AbstractSites, Diagonal, Noise

WHO = "gram.Markov"
BLOCK = 32  # columns of a joint covariance at a time
LEAST_LANES, LEAST_STEPS = 4, 16  # up to 64 rows share one shape


def rung(count: int) -> int:
    """The next of a few sizes: at most an eighth more, so that problems of like size share what was compiled."""
    step = max(1, 1 << max(0, count.bit_length() - 4))
    return -(-count // step) * step


class Grid:
    """Where the rows stand: sorted by their input, lane by lane, padded."""

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
        """Rows of the grid's full number, sorted, as (steps, lanes) or (steps, p, lanes)."""
        return np.ascontiguousarray(np.moveaxis(v.reshape(self.lanes, self.steps, *v.shape[1:]), 0, -1))

    def put(self, v: Any, fill: float = 0.0) -> np.ndarray:
        """Values in the user's order, (n,) or (n, p), onto the grid."""
        v = np.asarray(v, self.times.dtype)
        v = v if self.order is None else v[self.order]
        return self.tiled(np.concatenate([v, np.full((self.steps * self.lanes - self.rows, *v.shape[1:]), fill, v.dtype)]))

    def get(self, v: Any) -> np.ndarray:
        """What :meth:`put` put, in the user's order."""
        v = np.moveaxis(np.asarray(v), -1, 0)
        flat = v.reshape(-1, *v.shape[2:])[: self.rows]
        if self.order is None:
            return np.array(flat)
        out = np.empty_like(flat)
        out[self.order] = flat
        return out

    def at(self, v: Any, rows: np.ndarray) -> np.ndarray:
        """The entries of sorted rows: (..., m)."""
        return np.moveaxis(np.asarray(v)[rows % self.steps, ..., rows // self.steps], 0, -1)


def _arrays(tree: Any) -> Any:
    """NumPy views of what was compiled, so that nothing depends on the precision scope it was made in."""
    return jax.tree_util.tree_map(np.asarray, tree)


class MarkovFactor(AbstractFactor):
    """Prior times sites, filtered (Durbin & Koopman 2012, chapter 4)."""

    def __init__(self, bound: MarkovBound, sites: Noise | Diagonal, w: np.ndarray, z: np.ndarray, basis: Any = None) -> None:
        self.bound, self.sites, self.basis = bound, sites, basis
        self.grid = grid = bound.grid(sequential=bool((z == 0).any()))
        self.w, self.z = grid.put(w), grid.put(z, 1.0)
        self.A, self.Q, self.P0 = bound.equation(grid)
        with precision(bound.dtype):
            out = recursions.filtered(self.A, self.Q, self.P0, self.w, self.z, bound.h)
            self.k, self.D, self.P, self.F, self.J, log_determinant = _arrays(out)
        self.log_determinant = float(log_determinant)
        self._N: Any = None
        self._held: tuple[Any, ...] = (None,)
        self._check()

    def _check(self) -> None:
        """Every D must stand clear of rounding."""
        prior = float(np.asarray(self.bound.h) @ self.P0 @ np.asarray(self.bound.h))
        level = np.maximum(self.z, self.w * max(prior, float(np.abs(self.k).max())))
        sound = np.isfinite(self.log_determinant) and bool((10 * np.finfo(self.D.dtype).eps * level < self.D).all())
        if sound:
            return
        cause = "the kernel's scales are far from those of the data"
        if bool((self.z == 0).any()):
            repeated = self.grid.rows - len(np.unique(self.grid.times))
            cause = "the noise is zero at rows that the others determine already"
            cause = (
                f"{counted(repeated, 'row of X repeats another', 'rows of X repeat others')} and the noise is zero"
                if repeated
                else cause
            )
        raise NotPositiveDefinite(
            f"{WHO}: K + noise is not positive definite: {cause}; raise the noise variance, merge repeated rows, or check the "
            "kernel's scales."
        )

    def _smoothed(self, B: Any) -> tuple[np.ndarray, np.ndarray]:
        """α and Σ B of natural sites, R B of observed ones, in the shape of B; the last ones are kept."""
        if self._held[0] is not B:
            b = self.grid.put(columns(B))
            with precision(self.bound.dtype):
                out = _arrays(recursions.weighed(self.A, self.k, self.D, self.w, self.z, self.F, b, self.bound.h))
            self._held = (B, *(self.grid.get(v).reshape(B.shape) for v in out))
        return self._held[1], self._held[2]

    def _solve(self, B: Any) -> np.ndarray:
        spread = self.spread if B.ndim == 1 else self.spread[:, None]
        return self._smoothed(B if self.observed else spread * B)[0]

    def _alpha(self, shift: Any) -> np.ndarray:
        return self._smoothed(shift)[0]

    def _sigma(self, B: Any) -> np.ndarray:
        return self._smoothed(B)[1]

    def _logdet(self) -> float:
        return self.log_determinant

    def informed(self) -> tuple[np.ndarray, np.ndarray]:
        """N and kᵀÑk on the grid, kept."""
        if self._N is None:
            with precision(self.bound.dtype):
                self._N = _arrays(recursions.informed(self.A, self.k, self.D, self.w, self.F, self.J, self.bound.h))
        return self._N

    def _inverse_diagonal(self) -> np.ndarray:
        g = self.w / self.D
        return self.grid.get(g + g * g * self.informed()[1])

    def _variance(self) -> np.ndarray:
        own = np.asarray(self.k)[:, np.flatnonzero(self.bound.h)].sum(1)  # hᵀP h before the row
        share = self.z / self.D
        return self.grid.get(share * (own - share * self.informed()[1]))


class MarkovBound(AbstractBound):
    """A kernel of one sorted input as a state space model."""

    def __init__(self, gram: Markov, kernels: tuple[Any, ...], X: Inputs, basis: Any = None) -> None:
        self.gram, self.kernels, self.X, self.basis = gram, kernels, X, basis
        if len(kernels) != 1:
            raise fail(WHO, "several latent functions are not supported", "use gram=Dense()")
        if X.columns != 1:
            raise fail(WHO, f"X has {counted(X.columns, 'column')}", "give one (the time, say), or use gram=Dense()")
        reason = why_not(kernels[0])
        if reason is not None:
            raise fail(
                WHO, reason, "use Matern kernels, Cosine, Constant, Linear, Wiener, their sums and products, or gram=Dense()"
            )
        self.dtype = X.x.dtype
        self.kernel = cast(without_marks(kernels[0]), self.dtype)
        self.h = measured(kernels[0])
        self._grids: dict[bool, Grid] = {}
        self._equations: dict[bool, Any] = {}
        self._held: tuple[Any, ...] = (None, None)

    @property
    def width(self) -> int:
        return 128  # a few states with their covariances, whatever n

    def grid(self, *, sequential: bool = False) -> Grid:
        """The rows in lanes; in one lane where some noise is zero, since a stretch of rows alone may then be singular."""
        if sequential not in self._grids:
            self._grids[sequential] = Grid(np.asarray(self.X.x)[:, 0], sequential)
        return self._grids[sequential]

    def equation(self, grid: Grid) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A and Q of every row, and the prior covariance of the first, kept."""
        key = grid.lanes == 1
        if key not in self._equations:
            with precision(self.dtype):
                self._equations[key] = _arrays(recursions.built(self.kernel, grid.t, grid.dt))
        return self._equations[key]

    def factor(self, sites: AbstractSites, *, fixed_jitter: float | None = None) -> MarkovFactor:
        """Prior times sites; no jitter is ever needed or added."""
        if isinstance(sites, Noise):
            variance = np.asarray(sites.variance)
            return MarkovFactor(self, sites, np.ones_like(variance), variance, self.basis)
        if not isinstance(sites, Diagonal):
            raise fail(WHO, f"sites of kind {type(sites).__name__} are not supported", "use gram=Dense()")
        W = np.asarray(sites.precision)
        if np.any(W < 0):
            raise fail(WHO, "site precisions are negative", "use gram=Dense(), or a log-concave likelihood")
        return MarkovFactor(self, sites, W, np.ones_like(W), self.basis)

    def states(self, v: Any, grid: Grid | None = None) -> tuple[np.ndarray, np.ndarray]:
        """For v of shape (n,) or (n, p): r and x of :func:`covary.gram.recursions.states`; the last ones are kept."""
        grid = grid or self.grid()
        if self._held[0] is not v or self._held[1] is not grid:
            b = grid.put(columns(np.asarray(v)))
            with precision(self.dtype):
                self._held = (v, grid, *_arrays(recursions.states(*self.equation(grid), b, self.h)))
        return self._held[2], self._held[3]

    def matvec(self, v: np.ndarray) -> np.ndarray:
        x = self.states(v)[1]
        return self.grid().get(x[:, np.flatnonzero(self.h)].sum(1)).reshape(np.shape(v))

    def pull(self, factor: Any, shift: Any, alpha: Any, bars: Bars, *, consume: bool = False) -> Pulled:
        if bars.variance is not None:
            raise fail(WHO, "it has no gradient of the marginal variance", "use gram=Dense()")
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
        return Pulled(bar, shift_bar, type(factor.sites)(spread_bar))

    def _between(self, X: Inputs, v: Any, factor: Any = None) -> tuple[np.ndarray, np.ndarray | None]:
        """k*ᵀ v and, with a factor, the latent variance at new inputs, from the rows next to each."""
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

    def conditional(self, factor: Any, solved: Any, X: Inputs, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        return self._between(X, solved.alpha, factor if variance else None)

    def cross_solve(self, X: Inputs, B: Any) -> np.ndarray:
        return self._between(X, B)[0]

    def joint(self, factor: Any, X: Inputs) -> np.ndarray:
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
    """Exact and O(n), for one input column and kernels that are linear stochastic differential equations.

    Matern12, Matern32, Matern52, Cosine, Constant, Linear, Wiener and IntegratedWiener, their sums and products; rows in any
    order, repeated inputs and gaps included. Memory and time grow with n and with the square to the cube of the number of
    states (one for Matern12, two for Matern32, three for Matern52; sums add, products multiply). With noise of exactly zero at
    some row the rows are walked through one by one, exactly as well but more slowly.

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

    def bind(
        self, kernels: tuple[Any, ...], X: Inputs, basis: Any = None, workspace: dict[str, Any] | None = None
    ) -> MarkovBound:
        return MarkovBound(self, kernels, X, None if basis is None else basis.bind(X))
