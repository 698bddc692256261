r"""Laplace's approximation: a Gaussian at the posterior mode (R&W, algorithms 3.1, 3.3, 5.1).

The mode is found by Newton steps in the weights a = K⁻¹(f − m). Far from the mode, only the non-negative part of W is used, so
that every step is an ascent direction, and steps that do not improve are halved. The evidence uses the full W, including
negative entries:

.. math:: \log q = \log p(y\mid\hat f) - \tfrac12 a^\top\hat g - \tfrac12\mathrm{logdet}, \qquad \hat g = \hat f - m

(eq. 3.32). Its gradient is that of the gram's terms at fixed sites b = Wĝ + a, plus one implicit part through the mode
(eq. 5.23 with the corrected sign).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from covary._checks import NotPositiveDefinite, fail
from covary._errors import Option
from covary._module import static
from covary._words import counted
from covary.data import Data
from covary.gram.base import AbstractBound, AbstractFactor, Bars
from covary.inference import modes
from covary.inference.base import AbstractInference, Gradient, Memory, Solved, prior_spread
from covary.inference.modes import AbstractView
from covary.model import Model, shaped
from covary.optimise.base import CONVERGED, STUCK
from covary.sites import AbstractSites, Diagonal

SEARCHING = 1e-6  # tolerance within a search: the error of the evidence is its square, that of the gradient the same
CHORD = 0.3  # a factor is reused while a step with it leaves less than this fraction of the difference
POWERS = 30  # power iterations for the direction away from a saddle
NEAR = 0.1  # difference below which steps with the true curvature are tried instead of its expectation
AT_MODE = 1e-4  # smallest difference between weights and slopes not attributed to rounding


@dataclass(frozen=True)
class AtMode(Solved):
    """The result of Laplace's method, with the view of the likelihood."""

    _: KW_ONLY
    view: AbstractView


class Laplace(AbstractInference):
    """Laplace's approximation, a Gaussian at the mode, for any likelihood with derivatives.

    Parameters
    ----------
    max_steps
        Maximum number of Newton steps.
    tolerance
        Stop when the weights a equal the slope of log p to this precision, both per standard deviation of the prior and
        relative to the largest slope.
    """

    max_steps: int = static(300)
    _: KW_ONLY
    tolerance: float = static(1e-9)

    def solve(
        self, model: Model, data: Data, bound: AbstractBound, *, fixed_jitter: float | None = None, memory: Memory | None = None
    ) -> Solved:
        view = modes.view(model, data)
        a, g, best, status, steps, rest = self.climb(view, bound, *self.begin(view, bound, memory), memory)  # algorithm 3.1
        while True:
            gradient, sites = view.sites(g, signed=True)
            try:
                factor = bound.factor(sites)
                break
            except NotPositiveDefinite:  # a saddle between several modes
                aside = (
                    None if memory is not None and memory.weights is not None else self.aside(view, bound, sites, a, g, best)
                )
                if aside is None or steps > 10 * self.max_steps:
                    raise
            a, g, best, status, more, rest = self.climb(view, bound, *aside, memory)
            steps += more
        Wg = view.curvature(sites, g)
        shift = Wg + gradient
        value = best - 0.5 * float(factor.logdet())  # algorithm 3.1, line 10
        if memory is not None:
            if status != CONVERGED and rest > AT_MODE:  # a rejected step
                raise NotPositiveDefinite("inference.Laplace", f"the search for the mode did not converge ({status})")
            memory.weights, memory.spread = gradient, float(np.std(g, axis=0).max())
        return AtMode(factor, shift, factor.alpha(shift), float(value), status, steps, g, view=view)

    def climb(
        self, view: AbstractView, bound: AbstractBound, a: np.ndarray, g: np.ndarray, best: float, memory: Memory | None
    ) -> tuple[np.ndarray, np.ndarray, float, str, int, float]:
        """Take Newton steps from weights a and latent values g; return both, the objective, status, steps and residual."""
        gain, status, steps, level, least = np.inf, f"stopped after {counted(self.max_steps, 'step')}", 0, 0, np.inf
        rest, held, near = np.inf, None, NEAR
        spread = prior_spread(bound)
        while True:
            signed = gain < 1.0
            gradient, sites = view.sites(g, signed=signed)  # line 4
            unit = spread if bound.basis is None else view.unit(spread, sites)
            last, rest = rest, self.rest(unit, gradient, a)
            if rest < (self.tolerance if memory is None else max(self.tolerance, SEARCHING)):
                status = CONVERGED
                break
            if steps >= self.max_steps:
                break
            steps += 1
            if rest < near and held is not None and bound.basis is None:
                exact = view.newton(g, gradient, held)
                if exact is not None:
                    new_g = bound.apply(exact)
                    value, size = self.height(view, exact, new_g)
                    if value >= best - 1e-12 * size and self.rest(unit, view.sites(new_g, signed=True)[0], exact) < 0.5 * rest:
                        gain, a, g, best = value - best, exact, new_g, value
                        continue
                    if rest < SEARCHING:  # the limit of precision: other steps would move away again
                        status = CONVERGED
                        break
                near = 0.1 * rest  # still too far away
            held = held if rest < CHORD * last else None  # near the mode, one factor is reused for several steps
            target, target_g, held = self.newton(view, bound, g, gradient, sites, signed, held)
            length = 1.0
            while length > 1e-10:
                new_a, new_g = a + length * (target - a), g + length * (target_g - g)
                value, size = self.height(view, new_a, new_g)
                if value >= best - 1e-12 * size:  # up to rounding
                    break
                length /= 2
            else:
                # no point along the line is better: the rest is rounding error
                status = CONVERGED if rest < AT_MODE else f"{STUCK}: weights and slopes differ by {rest:.0e}"
                break
            gain, a, g, best = value - best, new_a, new_g, value
            flat = gain < 1e-13 * size and rest > 0.95 * least
            level, least = level + 1 if flat else 0, min(least, rest)
            if level == 3:
                status = CONVERGED if rest < AT_MODE else f"{STUCK}: weights and slopes differ by {rest:.0e}"
                break
        return a, g, best, status, steps, rest

    @staticmethod
    def rest(unit: float | np.ndarray, gradient: np.ndarray, a: np.ndarray) -> float:
        """Return the difference of weights and slopes per unit of f, relative to the largest slope; zero at the mode."""
        return float(np.abs(unit * (gradient - a)).max() / (1 + np.abs(unit * gradient).max()))

    @staticmethod
    def height(view: AbstractView, a: np.ndarray, g: np.ndarray) -> tuple[float, float]:
        """Compute the objective log p(y|f) − ½ aᵀg and the size of its terms, a scale for rounding errors in any units of y."""
        parts = a * g
        return view.log_prob(g) - 0.5 * float(parts.sum()), 1 + len(g) + float(np.abs(parts).sum())

    @staticmethod
    def aside(
        view: AbstractView, bound: AbstractBound, sites: AbstractSites, a: np.ndarray, g: np.ndarray, best: float
    ) -> tuple[np.ndarray, np.ndarray, float] | None:
        """Return a higher point next to a saddle, along the direction of upward curvature; None if there is none.

        With W = W₊ − M and Σ₊ = (K⁻¹ + W₊)⁻¹, the direction is v = Σ₊M½c, where c is the first eigenvector of M½Σ₊M½; its
        weights are K⁻¹v = M½c − W₊v.
        """
        if not isinstance(sites, Diagonal) or bound.basis is not None:
            return None
        W = np.asarray(sites.precision)
        above = np.maximum(W, 0.0)
        factor, half = bound.factor(sites.replace(precision=above)), np.sqrt(np.maximum(-W, 0.0))
        c = half * (1 + 1e-3 * np.arange(len(W)) / len(W))
        for _ in range(POWERS):
            c = half * factor.sigma(half * c)
            c = c / np.linalg.norm(c)
        v = factor.sigma(half * c)
        u, size = half * c - above * v, np.sqrt(float(factor.variance().max())) / np.abs(v).max()
        steps = [sign * size * 2.0**k for k in range(4, -24, -1) for sign in (1, -1)]
        tried = [(view.log_prob(g + t * v) - 0.5 * float(((a + t * u) * (g + t * v)).sum()), t) for t in steps]
        value, t = max(tried)
        return (a + t * u, g + t * v, value) if value > best + 1e-12 * (1 + abs(best)) else None

    @staticmethod
    def begin(view: AbstractView, bound: AbstractBound, memory: Memory | None) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the starting point: the weights of the last mode if it is unique and they are better than zero, else zero."""
        zero = view.start()
        best = view.log_prob(zero)
        if not np.isfinite(best):
            name = type(view.likelihood).__name__
            what = f"the observations are impossible under {name} where f is the prior mean"
            raise fail("inference.Laplace", what, "give the prior a different mean, such as " + Option("mean", "'constant'"))
        a = None if memory is None else memory.weights
        if a is None or a.shape != zero.shape or bound.basis is not None or not view.likelihood.log_concave:
            return zero, zero, best
        g = bound.apply(a)
        value = view.log_prob(g) - 0.5 * float((a * g).sum())
        return (a, g, value) if value > best else (zero, zero, best)

    @staticmethod
    def newton(
        view: AbstractView,
        bound: AbstractBound,
        g: np.ndarray,
        gradient: np.ndarray,
        sites: AbstractSites,
        signed: bool,
        held: AbstractFactor | None = None,
    ) -> tuple[np.ndarray, np.ndarray, AbstractFactor]:
        """Return the target of one Newton step, as weights and as latent values, and the factor used.

        Near the mode, the full curvature is used (quadratic convergence); further away, or if it is not positive definite,
        its non-negative part. With a factor ``held`` from an earlier step, it is a chord step, O(n²).
        """
        try:
            factor = bound.factor(sites) if held is None else held  # line 5
        except NotPositiveDefinite:
            if not signed:
                raise
            gradient, sites = view.sites(g, signed=False)
            factor = bound.factor(sites)
        shift = view.curvature(factor.sites, g) + gradient  # line 6: b
        a = factor.alpha(shift)  # line 7
        return a, (bound.apply(a) if bound.basis is None else factor.mean(shift)), factor  # line 8

    def gradient(self, model: Model, data: Data, bound: AbstractBound, solved: Solved, *, consume: bool = False) -> Gradient:
        assert isinstance(solved, AtMode)
        view, g, factor = solved.view, solved.mode, solved.factor
        assert g is not None
        through_mode = view.determinant_slope(g, factor, bound)  # ∂ log q / ∂f̂ (5.23)
        bars = Bars(quad=-0.5, logdet=-0.5, mean=through_mode)
        pulled = bound.pull(factor, solved.shift, solved.alpha, bars)
        gradient, _ = view.sites(g, signed=True)
        sm = factor.sigma(through_mode)
        mean_bar = gradient + through_mode - view.curvature(factor.sites, sm)
        mean_bar = mean_bar if mean_bar.ndim == 1 else mean_bar @ model.likelihood.has_mean
        likelihood = view.pull_likelihood(g, factor, sm)
        gradient_of_model = shaped(model, pulled.kernel, model.mean.pull(data.X, mean_bar), likelihood)
        return Gradient(gradient_of_model, pulled.inducing)
