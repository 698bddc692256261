r"""Laplace's approximation: a Gaussian at the posterior mode (R&W, algorithms 3.1, 3.3, 5.1).

The mode is found in the weights a = K⁻¹(f − m) by Newton steps, far from it with the non-negative part of W, so that every
direction climbs, and by halving a step that does not. The evidence then takes W as it is, negative entries included:

.. math:: \log q = \log p(y\mid\hat f) - a^\top\hat g - \tfrac12\hat g^\top W\hat g - \tfrac12(\mathrm{quad}+\mathrm{logdet}),
    \qquad \hat g = \hat f - m,

which is eq. 3.32 written with the terms of the gram at the sites b = Wĝ + a. Its gradient is the terms' at held sites
plus one implicit part through the mode (eq. 5.23 with the corrected sign).
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from covary._checks import NotPositiveDefinite
from covary._module import static
from covary.data import Data
from covary.gram.base import AbstractBound, Bars
from covary.inference.base import AbstractInference, Solved, check_plain, shaped, zeros_like
from covary.likelihoods.softmax import Softmax as SoftmaxLikelihood
from covary.sites import Diagonal, Softmax


class Laplace(AbstractInference):
    """A Gaussian at the mode, for any likelihood with derivatives.

    Parameters
    ----------
    max_steps
        The most Newton steps.
    tolerance
        Stop when the weights a equal the slope of log p to this relative precision.
    """

    max_steps: int = static(100)
    _: KW_ONLY
    tolerance: float = static(1e-11)

    def solve(self, model: Any, data: Data, bound: AbstractBound, *, fixed_jitter: float | None = None) -> Solved:
        view = _view(model, data)
        zero = view.start()
        a, g, best = zero, zero, view.log_prob(zero)  # algorithm 3.1, line 2
        gain, status, steps = np.inf, "reached max_steps", 0
        while steps < self.max_steps:
            steps += 1
            target, target_g, rest = self.newton(view, bound, a, g, signed=gain < 1.0)
            if rest < self.tolerance:
                status = "converged"
                break
            length = 1.0
            while length > 1e-10:
                new_a, new_g = a + length * (target - a), g + length * (target_g - g)
                value = view.log_prob(new_g) - 0.5 * float((new_a * new_g).sum())
                if value >= best - 1e-12 * max(1.0, abs(best)):
                    break
                length /= 2
            else:
                status = "converged"  # no point along the line is better: rounding decides from here on
                break
            gain, a, g, best = value - best, new_a, new_g, value
        gradient, sites = view.sites(g, signed=True)
        factor = bound.factor(sites)
        shift = view.curvature(sites, g) + gradient
        quad, logdet = factor.quad(shift), factor.logdet()
        inner = float((gradient * g).sum()) + 0.5 * float((view.curvature(sites, g) * g).sum())
        value = view.log_prob(g) - inner - 0.5 * (float(quad) + float(logdet))
        return Solved(factor, shift, factor.alpha(shift), float(value), status, steps, {"mode": g, "view": view})

    @staticmethod
    def newton(view: Any, bound: AbstractBound, a: Any, g: Any, *, signed: bool) -> tuple[Any, Any, float]:
        """The target of one Newton step, and how far a is from ∇ log p, relative to its size.

        Near the mode with the curvature as it is (quadratic convergence), further away, or where that is not positive
        definite, with its non-negative part.
        """
        gradient, sites = view.sites(g, signed=signed)  # line 4
        try:
            factor = bound.factor(sites)  # line 5
        except NotPositiveDefinite:
            gradient, sites = view.sites(g, signed=False)
            factor = bound.factor(sites)
        shift = view.curvature(sites, g) + gradient  # line 6: b
        rest = float(np.abs(gradient - a).max() / (1 + np.abs(gradient).max()))
        return factor.alpha(shift), factor.mean(shift), rest  # lines 7 and 8

    def gradient(self, model: Any, data: Data, bound: AbstractBound, solved: Solved, *, consume: bool = False) -> Any:
        view, g = solved.extra["view"], solved.extra["mode"]
        through_mode = view.determinant_slope(g, solved.factor.variance())  # ∂ log q / ∂f̂ (5.23)
        bars = Bars(quad=-0.5, logdet=-0.5, mean=through_mode)
        pulled = bound.pull(solved.factor, solved.shift, solved.alpha, bars)
        gradient, _ = view.sites(g, signed=True)
        sm = solved.factor.sigma(through_mode)
        mean_bar = gradient + through_mode - view.curvature(solved.factor.sites, sm)
        mean_bar = mean_bar if mean_bar.ndim == 1 else mean_bar.sum(1)
        likelihood = view.pull_likelihood(g, solved.factor, sm)
        return shaped(model, pulled.kernel, model.mean.pull(data.X, mean_bar), likelihood)


def _view(model: Any, data: Data) -> Any:
    check_plain("inference.Laplace", data)
    mean = model.mean.evaluate(data.X)
    return (_Many if isinstance(model.likelihood, SoftmaxLikelihood) else _One)(model.likelihood, data.y, mean)


class _One:
    """A likelihood with one latent function, seen from the mode finder."""

    def __init__(self, likelihood: Any, y: np.ndarray, mean: np.ndarray) -> None:
        self.likelihood, self.y, self.mean = likelihood, y, mean

    def start(self) -> np.ndarray:
        return np.zeros_like(self.y)

    def log_prob(self, g: np.ndarray) -> float:
        return float(self.likelihood.slopes(self.y, self.mean + g).log_prob.sum())

    def sites(self, g: np.ndarray, *, signed: bool) -> tuple[np.ndarray, Diagonal]:
        slopes = self.likelihood.slopes(self.y, self.mean + g)
        return slopes.first, Diagonal(-slopes.second if signed else np.maximum(-slopes.second, 0.0))

    def curvature(self, sites: Diagonal, v: np.ndarray) -> np.ndarray:
        return sites.precision * v

    def determinant_slope(self, g: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """+½ Σ_ii ∂³ log p/∂f³ (algorithm 5.1, line 8, with the corrected sign)."""
        return 0.5 * variance * self.likelihood.slopes(self.y, self.mean + g).third

    def pull_likelihood(self, g: np.ndarray, factor: Any, sm: np.ndarray) -> Any:
        """∂/∂φ of log p − ½ log det(I + KW) at the mode, and the mode's own movement Σ∂∇/∂φ."""
        ones = np.ones_like(self.y)
        return self.likelihood.pull(self.y, self.mean + g, ones, sm, 0.5 * factor.variance())


class _Many:
    """A softmax likelihood, seen from the mode finder; latent values are (n, C)."""

    def __init__(self, likelihood: Any, y: np.ndarray, mean: np.ndarray) -> None:
        self.likelihood, self.mean = likelihood, mean[:, None]
        self.targets = likelihood.targets(y)

    def start(self) -> np.ndarray:
        return np.zeros_like(self.targets)

    def log_prob(self, g: np.ndarray) -> float:
        f = self.mean + g
        top = f.max(1, keepdims=True)
        return float((self.targets * f).sum() - (top[:, 0] + np.log(np.exp(f - top).sum(1))).sum())

    def sites(self, g: np.ndarray, *, signed: bool) -> tuple[np.ndarray, Softmax]:
        p = self.likelihood.probability(self.mean + g)
        return self.targets - p, Softmax(p)

    def curvature(self, sites: Softmax, v: np.ndarray) -> np.ndarray:
        p = np.asarray(sites.probability)
        return p * (v - (p * v).sum(1, keepdims=True))

    def determinant_slope(self, g: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """−½ ∂ tr(Σ_i W_i)/∂f_i with W_i = diag(π) − ππᵀ and Σ_i the (C, C) posterior covariance of row i."""
        p = self.likelihood.probability(self.mean + g)
        slope = np.einsum("ncc->nc", covariance) - 2 * np.einsum("ncd,nd->nc", covariance, p)
        return -0.5 * p * (slope - (p * slope).sum(1, keepdims=True))

    def pull_likelihood(self, g: np.ndarray, factor: Any, sm: np.ndarray) -> Any:
        return zeros_like(self.likelihood)
