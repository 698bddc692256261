r"""Base class of likelihoods: log p(y | f) of one observation, and default implementations of everything derived from it.

A subclass must only define ``log_prob``, in ``jax.numpy``. Derivatives are computed by automatic differentiation, compiled
for blocks of rows of a fixed size; moments of p(y | f) times a Gaussian, expectations and predictive moments by quadrature;
the distribution of a new observation from a table of its density. Likelihoods with closed forms override these defaults in
NumPy, and tests compare the two.

An observation is a number, or a row (y, size) if the likelihood is ``sized``: ``size`` is the number of trials of a
binomial count, or the exposure of a Poisson count.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import jax
import numpy as np
from scipy import special

from covary._checks import NotPositiveDefinite, fail
from covary._errors import Option, Place, Text
from covary._module import Module, without_marks
from covary._precision import cast, precision
from covary._types import Array, ArrayLike
from covary.data import Rows
from covary.kernels.tiles import map_rows, pull_rows
from covary.likelihoods import quadrature
from covary.likelihoods.differences import slope_over_parameters
from covary.likelihoods.outcomes import Outcomes
from covary.likelihoods.steps import averaged_cdf

FAR, FURTHER = 30.0, 600.0  # latent values at which the limits of log p(y | f) are measured
AVERAGE = 64  # nodes of the Gauss–Hermite rule for expectations of smooth functions of f


class Slopes(NamedTuple):
    """log p(y | f) and its first three derivatives with respect to f, per row."""

    log_prob: np.ndarray
    first: np.ndarray
    second: np.ndarray
    third: np.ndarray


class Coupled(NamedTuple):
    """log p(y | f) of several latent functions: value (n,), gradient (n, L), Hessian and Fisher information (n, L, L)."""

    log_prob: np.ndarray
    first: np.ndarray
    second: np.ndarray
    fisher: np.ndarray


class Moments(NamedTuple):
    """Mean and variance per row (with one column per class if there are several)."""

    mean: np.ndarray
    variance: np.ndarray


class Tilted(NamedTuple):
    """Log normaliser and moments of p(y | f) N(f | mean, variance)."""

    log_z: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


class AbstractLikelihood(Module):
    """Distribution p(y | f) of an observation given the latent function at its input.

    A subclass defines ``log_prob`` and three class attributes: ``support``, the set of possible y (``"real"``,
    ``"positive"``, ``"counts"``, ``"labels"``); ``log_concave``, whether log p(y | f) is concave in f for every y; ``sized``,
    whether an observation is a pair (y, size).
    """

    _elsewhere = {"df": "degrees", "nu": "degrees", "noise": "variance", "deg_free": "degrees", "num_classes": "classes"}
    support = "real"
    log_concave = False
    sized = False
    location = False  # whether p(y | f) depends on the first f only through y − f: the level of y can be subtracted
    smooth = True  # whether log p has a useful second derivative in f, as Laplace's method requires

    @property
    def latents(self) -> int:
        """Number of latent functions that an observation depends on."""
        return 1

    @property
    def has_mean(self) -> np.ndarray:
        """Ones for the latent functions to which the prior's mean function applies, zeros for the others."""
        return np.ones(self.latents)

    # defined by subclasses ---------------------------------------------------------------------------------------------
    def log_prob(self, y: Array, f: Array) -> Array:
        """Return log p(y | f) of one observation, in jax.numpy."""
        raise fail(self._named(), "the class has no method log_prob", "write log_prob(self, y, f), log p(y | f) in jax.numpy")

    def at(self, X: Rows) -> AbstractLikelihood:
        """Return the likelihood of observations at given inputs: itself, unless it depends on the inputs."""
        return self

    # at the data --------------------------------------------------------------------------------------------------
    def log_probs(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Return log p(y | f) for each row of y and latent values (n,), or (n, q) with q values per row."""
        values = f if f.ndim == 2 else f[:, None]
        out = map_rows(_log_probs, cast(without_marks(self), f.dtype), np.ascontiguousarray(values), y)
        return out.reshape(f.shape)

    def slopes(self, y: np.ndarray, f: np.ndarray) -> Slopes:
        """Return log p and its derivatives up to third order, per row."""
        return Slopes(*map_rows(_slopes, cast(without_marks(self), f.dtype), f, y))

    def pull(self, y: np.ndarray, f: np.ndarray, log_prob: np.ndarray, first: np.ndarray, second: np.ndarray) -> Self:
        """Return the gradient of Σ (log_prob·ℓ + first·ℓ′ + second·ℓ″) with respect to the parameters, where ℓ is log p."""
        if not jax.tree_util.tree_leaves(self):
            return self
        if type(self).slopes is AbstractLikelihood.slopes:
            return pull_rows(_three, cast(without_marks(self), f.dtype), (f, y), (log_prob, first, second))

        def value(other: AbstractLikelihood) -> float:
            s = other.slopes(y, f)
            return float((log_prob * s.log_prob + first * s.first + second * s.second).sum())

        return slope_over_parameters(without_marks(self), value)

    def coupled(self, y: np.ndarray, f: np.ndarray) -> Coupled:
        """Return value, gradient, Hessian and Fisher information for several latent functions, f of shape (n, L)."""
        return Coupled(*map_rows(_coupled, cast(without_marks(self), f.dtype), f, y))

    def information_slope(self, f: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return the gradient of Σ weight · Fisher information with respect to f, with weights (n, L, L)."""
        return map_rows(_information_slope, cast(without_marks(self), f.dtype), f, weight)

    def coupled_pull(
        self, y: np.ndarray, f: np.ndarray, weight: np.ndarray, first: np.ndarray, information: np.ndarray
    ) -> Self:
        """Return the parameter gradient of Σ weight · (log p + firstᵀ∇log p + tr(information · Fisher))."""
        if type(self).coupled is AbstractLikelihood.coupled:
            return pull_rows(_coupled_terms, cast(without_marks(self), f.dtype), (f, y, first, information), weight)

        def value(other: AbstractLikelihood) -> float:
            s = other.coupled(y, f)
            each = s.log_prob + (first * s.first).sum(1) + (information * s.fisher).sum((1, 2))
            return float((weight * each).sum())

        return slope_over_parameters(without_marks(self), value)

    def fisher(self, f: Array) -> Array:
        """Return the Fisher information (L, L) at one row of latent values, in jax.numpy; used if L > 1."""
        name = type(self).__name__
        raise fail(f"likelihoods.{name}", "it has several latent functions but no Fisher information", "implement fisher(f)")

    # times a Gaussian -----------------------------------------------------------------------------------------------
    def tilted(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, power: np.ndarray | float | None = None) -> Tilted:
        r"""Return the moments of :math:`p(y\mid f)^{power}\,N(f\mid mean, variance)` per row, by quadrature by default."""
        parts = [_moments(*self.nodes(*part)) for part in _chunked(y, mean, variance, power)]
        log_z, centre, spread = (np.concatenate(c) for c in zip(*parts, strict=True))
        return Tilted(log_z, centre, spread)

    def tilted_pull(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, power: np.ndarray | float | None, bar: np.ndarray
    ) -> Self:
        r"""Return the parameter gradient of :math:`\sum_i bar_i \log\hat Z_i` at constant means and variances."""
        if not jax.tree_util.tree_leaves(self):
            return self
        f, terms = self.nodes(y, mean, variance, power)
        share = np.exp(terms - special.logsumexp(terms, axis=1, keepdims=True))
        share = share * (bar if power is None else bar * power)[:, None]
        return self.pull_nodes(y, f, np.where(np.isfinite(terms), share, 0.0))

    def pull_nodes(self, y: np.ndarray, f: np.ndarray, share: np.ndarray) -> Self:
        """Return the gradient over the parameters of Σ share · log p(y | f) over nodes f (n, q), or (n, q, L)."""
        if self.latents == 1 and type(self).log_probs is not AbstractLikelihood.log_probs:

            def value(other: AbstractLikelihood) -> float:
                with np.errstate(all="ignore"):
                    return float(np.where(share != 0, share * other.log_probs(y, f), 0.0).sum())

            return slope_over_parameters(without_marks(self), value)
        flat, rows = f.reshape(share.size, *f.shape[2:]), np.repeat(np.arange(len(y)), share.shape[1])
        return pull_rows(_log_prob, cast(without_marks(self), flat.dtype), (flat, y[rows]), share.ravel())

    def nodes(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, power: np.ndarray | float | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return nodes (n, q) that resolve p(y | f)^power N(f), and the log of weight times integrand at each."""
        mean, sd = np.asarray(mean, np.float64), np.sqrt(np.asarray(variance, np.float64))
        scale = np.ones_like(mean) if power is None else np.asarray(power, np.float64)

        def slopes(f: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            s = self.slopes(y, f)
            z = (f - mean) / sd
            return scale * s.log_prob - 0.5 * z * z, scale * s.first - z / sd, scale * s.second - 1 / sd**2

        top, curve = quadrature.climb(slopes, mean, sd)
        centre, own = self.shoulder(y, mean, sd) if self.log_concave else self.peak(y, mean)
        reach = quadrature.REACH * sd + np.abs(top - mean) + (0.0 if self.log_concave else np.abs(centre - mean))
        near = quadrature.around(top, np.minimum(1 / np.sqrt(curve), sd), reach)
        low, high = near[:, :1], near[:, -1:]
        more = quadrature.around(np.clip(centre, low[:, 0], high[:, 0]), np.minimum(own, sd), reach)
        marks = np.sort(np.concatenate([near, np.clip(more, low, high)], axis=1), axis=1)
        f, weight = quadrature.fill(marks)
        with np.errstate(divide="ignore"):
            log_weight = np.log(weight) - 0.5 * np.log(2 * np.pi * sd**2)[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            terms = log_weight + scale[:, None] * self.log_probs(y, f) - 0.5 * ((f - mean[:, None]) / sd[:, None]) ** 2
        return f, np.where(np.isnan(terms), -np.inf, terms)

    def shoulder(self, y: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return where log p(y | f), if concave, has its largest curvature within range of the Gaussian, and the width there.

        The decrease of the slope across a grid cell is the integral of the curvature, so even a sharp bend is detected. Cells
        are weighted by the integrand relative to its maximum.
        """
        low, high = mean - quadrature.REACH * sd, mean + quadrature.REACH * sd
        rows, bend = np.arange(len(mean)), np.zeros_like(mean)
        for _ in range(4):
            grid = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, 33)
            with np.errstate(all="ignore"):
                slopes = self.slopes(np.repeat(y, 33, axis=0), grid.ravel())
                value = slopes.log_prob.reshape(grid.shape) - 0.5 * ((grid - mean[:, None]) / sd[:, None]) ** 2
                value = np.nan_to_num(value, nan=-np.inf)
                seen = np.exp(np.maximum(value[:, 1:], value[:, :-1]) - value.max(1, keepdims=True))
                fall = np.nan_to_num(-np.diff(slopes.first.reshape(grid.shape), axis=1) * seen, nan=0.0, posinf=0.0)
            best = fall.argmax(1)
            bend = fall[rows, best] / (grid[rows, best + 1] - grid[rows, best])
            low, high = grid[rows, np.maximum(best - 1, 0)], grid[rows, np.minimum(best + 2, 32)]
        return (low + high) / 2, 1 / np.sqrt(np.maximum(bend, 1e-300))

    def peak(self, y: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the maximum of p(y | f) over f and its width (used if the likelihood is not log-concave)."""

        def slopes(f: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            s = self.slopes(y, f)
            return s.log_prob, s.first, s.second

        away = np.abs(y - start) if self.support == "real" else np.zeros_like(start)
        top, curve = quadrature.climb(slopes, start, np.where(away > 0, away, 1.0))
        return top, 1 / np.sqrt(np.maximum(curve, 1e-300))

    def expected_log_prob(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return E log p(y | f) over N(f | mean, variance), per row."""
        f, weight = self._average(mean, variance)
        return self.log_probs(y, f) @ weight

    # a new observation ----------------------------------------------------------------------------------------------
    def outcomes(self, f: np.ndarray, size: ArrayLike | None = None) -> Outcomes:
        """Return the distribution of y at given latent values (n,) as a table, for likelihoods without closed forms."""
        if self.support not in ("real", "positive", "counts"):
            who = f"likelihoods.{type(self).__name__}"
            raise fail(who, f"its support is {self.support!r}", "implement moments, cdf and sample")
        bare = cast(without_marks(self), np.float64)
        with precision(np.float64):
            return Outcomes.of(self.support, f, lambda y: map_rows(_across, bare, f, _with_size(y, size)))

    def moments(self, f: np.ndarray, size: ArrayLike | None = None) -> Moments:
        """Return the mean and variance of y given f, per row."""
        return Moments(*self.outcomes(f, size).moments())

    def cdf(self, y: np.ndarray, f: np.ndarray, size: ArrayLike | None = None) -> np.ndarray:
        """Return P(Y ≤ y | f), per row."""
        return self.outcomes(f, size).cdf(y)

    def sample(self, f: np.ndarray, rng: np.random.Generator, size: ArrayLike | None = None) -> np.ndarray:
        """Draw one y for every latent value (any shape)."""
        flat = np.ravel(f)
        each = None if size is None else np.broadcast_to(size, np.shape(f)).ravel()
        return self.outcomes(flat, each).sample(rng).reshape(np.shape(f))

    def predictive(self, mean: np.ndarray, variance: np.ndarray, size: ArrayLike | None = None) -> Moments:
        """Return the mean and variance of a new observation if the latent value is N(mean, variance)."""
        f, weight = self._average(mean, variance)
        flat = self.moments(f.ravel(), None if size is None else np.repeat(np.broadcast_to(size, len(f)), f.shape[1]))
        each, own = flat.mean.reshape(f.shape), flat.variance.reshape(f.shape)
        centre = each @ weight
        return Moments(centre, own @ weight + (each - centre[:, None]) ** 2 @ weight)

    def predictive_log_prob(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return the log density (log probability) of new observations if the latent value is N(mean, variance)."""
        return self.tilted(y, mean, np.maximum(variance, 1e-300)).log_z

    def predictive_cdf(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: ArrayLike | None = None
    ) -> np.ndarray:
        """Return P(Y ≤ y) of new observations if the latent value is N(mean, variance)."""
        return averaged_cdf(self, y, mean, variance, size)

    def predictive_quantile(
        self, p: float, mean: np.ndarray, variance: np.ndarray, size: ArrayLike | None = None
    ) -> np.ndarray:
        """Return the smallest y with P(Y ≤ y) ≥ p, per row."""
        whole = self.support in ("counts", "labels")
        found = self.predictive(mean, variance, size)
        centre = np.where(np.isfinite(found.mean), found.mean, 1.0)
        spread = np.sqrt(np.where(np.isfinite(found.variance), found.variance, 1.0)) + 1e-12 * np.abs(centre) + 1e-300
        floor = -np.inf if self.support == "real" else -1.0 if whole else 0.0

        def over(y: np.ndarray) -> np.ndarray:
            inside = y > floor
            within = self.predictive_cdf(np.where(inside, y, np.maximum(centre, spread)), mean, variance, size)
            return np.where(inside, within, 0.0) - p

        low, high = np.maximum(centre - spread, floor), centre + spread
        if whole:
            low, high = np.maximum(np.floor(low), floor), np.ceil(high)
        for _ in range(200):  # find a bracket
            below, above = over(low) >= 0, over(high) < 0
            if not (below.any() or above.any()):
                break
            low, high = np.where(below, low - (high - low), low), np.where(above, high + (high - low), high)
            low = np.maximum(low, floor)
        if not whole:
            return quadrature.crossing(over, low, high)
        while ((high - low) > 1).any():
            middle = np.floor((low + high) / 2)
            right = over(middle) < 0
            low, high = np.where(right, middle, low), np.where(right, high, np.maximum(middle, low + 1))
        return high

    def _average(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        z, weight = quadrature.hermite(AVERAGE)
        return np.asarray(mean)[:, None] + np.sqrt(np.asarray(variance))[:, None] * z, weight

    # before learning ------------------------------------------------------------------------------------------------
    def check(self, y: np.ndarray, who: str) -> None:
        """Raise an error if an observation is impossible; it gives the first such row."""
        values = y[:, 0] if self.sized and y.ndim == 2 else y
        if values.ndim != 1 or (y.ndim == 2 and y.shape[1] != 2):
            do = "give one observation per row, and fit several targets one at a time"
            raise fail(who, Option("y") + (f" has {y.shape[1]} columns" if y.ndim == 2 else f" has shape {y.shape}"), do)
        name = type(self).__name__
        if self.support == "counts":
            do = f"{name} counts are 0, 1, 2 and so on: correct it, or choose another " + Option("likelihood")
            refuse(who, "y", values, (values < 0) | (values != np.floor(values)), do)
        if self.support == "positive":
            refuse(who, "y", values, values <= 0, f"{name} observations are positive; give positive numbers")
        if y.ndim == 2:
            refuse(who, "the size", y[:, 1], y[:, 1] <= 0, "give positive numbers of trials or exposures")

    def open_sides(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return whether p(y | f) tends to a positive constant as f → −∞, and as f → ∞ (one latent function).

        True on one side for labels, for counts of zero or of all trials, and for the lowest and highest levels.
        """
        if self.location:
            return np.zeros(len(y), bool), np.zeros(len(y), bool)
        at = np.broadcast_to(np.array([-FURTHER, -FAR, FAR, FURTHER]), (len(y), 4))
        with np.errstate(all="ignore"):
            low, falling, rising, high = np.nan_to_num(self.log_probs(y, np.ascontiguousarray(at)), nan=-np.inf).T
        return low > falling - 1.0, high > rising - 1.0

    def latent_values(self, y: np.ndarray) -> np.ndarray:
        """Return rough latent values for the observations, used only to set the scales of learning."""
        return np.asarray(y, np.float64)

    def latent_levels(self, level: float) -> np.ndarray:
        """Return the natural scale of each latent function, given that of the rough latent values."""
        return np.full(self.latents, level)

    def calm_levels(self, level: float) -> np.ndarray:
        """Return smaller, safe scales to start from if the natural ones give no posterior mode."""
        return self.latent_levels(level)

    def starting(self, y: np.ndarray) -> dict[str, float | np.ndarray]:
        """Return starting values of the likelihood's own parameters, by name."""
        return {}


def refuse(who: str, what: str, values: np.ndarray, bad: np.ndarray, do: Text) -> None:
    """Raise an error if there are bad entries; it gives the first."""
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        many = f" ({int(bad.sum())} such rows)" if bad.sum() > 1 else ""
        raise fail(who, Option(what) + f" is {values[row]:g} " + Place(row) + many, do)


def split(y: np.ndarray, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return observed values and sizes (1 by default), shaped to broadcast with latent values (n,) or (n, q)."""
    values, size = (y[:, 0], y[:, 1]) if y.ndim == 2 else (y, np.ones(len(y), y.dtype))
    return (values[:, None], size[:, None]) if f.ndim == 2 else (values, size)


def _with_size(y: np.ndarray, size: ArrayLike | None) -> np.ndarray:
    return y if size is None else np.stack([y, np.broadcast_to(np.asarray(size, y.dtype)[:, None], y.shape)], axis=-1)


def _chunked(
    y: np.ndarray, mean: np.ndarray, variance: np.ndarray, power: np.ndarray | float | None
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | float | None]]:
    rows = max(1, quadrature.CHUNK // (4 * quadrature.PANELS * quadrature.NODES))
    spans = [slice(i, i + rows) for i in range(0, len(mean), rows)]
    return [(y[s], mean[s], variance[s], power[s] if isinstance(power, np.ndarray) else power) for s in spans]


def _moments(f: np.ndarray, terms: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    log_z = np.asarray(special.logsumexp(terms, axis=1))
    if np.isneginf(log_z).any():
        what = "an observation is impossible under the model here"
        raise NotPositiveDefinite("likelihoods", what, "check its size and units")
    share = np.exp(terms - log_z[:, None])
    mean = (share * f).sum(1)
    return log_z, mean, (share * (f - mean[:, None]) ** 2).sum(1)


def _log_prob(likelihood: AbstractLikelihood, f: Array, y: Array) -> Array:
    return jax.vmap(lambda value, target: likelihood.log_prob(target, value))(f, y)


def _log_probs(likelihood: AbstractLikelihood, f: Array, y: Array) -> Array:
    return jax.vmap(lambda values, target: jax.vmap(lambda v: likelihood.log_prob(target, v))(values))(f, y)


def _across(likelihood: AbstractLikelihood, f: Array, y: Array) -> Array:
    """Return log p of observations (n, q) at latent values (n,)."""
    return jax.vmap(lambda value, targets: jax.vmap(lambda t: likelihood.log_prob(t, value))(targets))(f, y)


def _slopes(likelihood: AbstractLikelihood, f: Array, y: Array) -> tuple[Array, ...]:
    def point(value: Array, target: Array) -> Array:
        return likelihood.log_prob(target, value)

    first = jax.grad(point)
    second = jax.grad(lambda v, t: first(v, t))
    third = jax.grad(lambda v, t: second(v, t))
    return tuple(jax.vmap(g)(f, y) for g in (point, first, second, third))


def _coupled(likelihood: AbstractLikelihood, f: Array, y: Array) -> tuple[Array, ...]:
    first = jax.grad(likelihood.log_prob, argnums=1)
    second = jax.hessian(likelihood.log_prob, argnums=1)
    each = (jax.vmap(g)(y, f) for g in (likelihood.log_prob, first, second))
    return (*each, jax.vmap(likelihood.fisher)(f))


def _information_slope(likelihood: AbstractLikelihood, f: Array, weight: Array) -> Array:
    return jax.vmap(jax.grad(lambda v, w: (w * likelihood.fisher(v)).sum()))(f, weight)


def _coupled_terms(likelihood: AbstractLikelihood, f: Array, y: Array, first: Array, information: Array) -> Array:
    def row(value: Array, target: Array, move: Array, w: Array) -> Array:
        slope = jax.grad(likelihood.log_prob, argnums=1)(target, value)
        return likelihood.log_prob(target, value) + move @ slope + (w * likelihood.fisher(value)).sum()

    return jax.vmap(row)(f, y, first, information)


def _three(likelihood: AbstractLikelihood, f: Array, y: Array) -> tuple[Array, ...]:
    return _slopes(likelihood, f, y)[:3]
