"""Views of likelihoods for the mode search of Laplace's method: one latent function, a softmax, or blocks.

Each view computes the weighted log likelihood at latent values g (prior mean subtracted), its slope and curvature as sites,
and the contributions of the determinant and the likelihood's parameters to the gradient of the evidence.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import jax
import numpy as np

from covary._checks import fail
from covary._errors import Option
from covary.data import Data
from covary.gram.base import AbstractBound, AbstractFactor
from covary.gram.several import SeveralFactor
from covary.inference.base import centred, observations, zeros_like
from covary.likelihoods.base import AbstractLikelihood, Slopes
from covary.likelihoods.base import Coupled as CoupledSlopes
from covary.likelihoods.softmax import Softmax as SoftmaxLikelihood
from covary.model import Model
from covary.sites import AbstractSites, Blocks, Diagonal, Softmax


def view(model: Model, data: Data) -> AbstractView:
    """Return the view for the likelihood of the model."""
    who = "inference.Laplace"
    likelihood = model.likelihood
    y, weight = observations(who, likelihood, data)
    if not likelihood.smooth:
        what = f"{type(likelihood).__name__} has no curvature in f for Laplace's method to use"
        raise fail(who, what, "use " + Option("inference", "EP()"))
    y, mean = centred(likelihood, y, model.mean.evaluate(data.X))
    if isinstance(likelihood, SoftmaxLikelihood):
        return Many(likelihood, y, mean, weight)
    return One(likelihood, y, mean, weight) if likelihood.latents == 1 else Coupled(likelihood, y, mean, weight)


S = TypeVar("S", bound=AbstractSites)


class AbstractView(Generic[S]):
    """The likelihood of all rows at latent values g, with the prior mean subtracted."""

    likelihood: AbstractLikelihood

    def start(self) -> np.ndarray:
        """Return the initial latent values: zero."""
        raise NotImplementedError

    def log_prob(self, g: np.ndarray) -> float:
        """Compute the weighted log likelihood."""
        raise NotImplementedError

    def sites(self, g: np.ndarray, *, signed: bool) -> tuple[np.ndarray, S]:
        """Compute the slope, and the curvature as sites (its non-negative part unless ``signed``)."""
        raise NotImplementedError

    def unit(self, spread: float | np.ndarray, sites: S) -> float | np.ndarray:
        """Return the unit of f when basis functions allow values beyond the spread of the prior."""
        return spread

    def curvature(self, sites: S, v: np.ndarray) -> np.ndarray:
        """Compute W v."""
        raise NotImplementedError

    def newton(self, g: np.ndarray, gradient: np.ndarray, factor: AbstractFactor) -> np.ndarray | None:
        """Return the weights of a Newton step with the true curvature; None if the sites already hold it."""
        return None

    def determinant_slope(self, g: np.ndarray, factor: AbstractFactor, bound: AbstractBound) -> np.ndarray:
        """Compute the slope of −½ log det(I + KW) with respect to the mode."""
        raise NotImplementedError

    def pull_likelihood(self, g: np.ndarray, factor: AbstractFactor, sm: np.ndarray) -> AbstractLikelihood:
        """Compute the gradient of the evidence for the likelihood's parameters; ``sm`` is Σ times the slope in f̂."""
        raise NotImplementedError


class One(AbstractView[Diagonal]):
    """A likelihood with one latent function."""

    def __init__(self, likelihood: AbstractLikelihood, y: np.ndarray, mean: np.ndarray, weight: np.ndarray | None) -> None:
        self.likelihood, self.y, self.mean = likelihood, y, mean
        self.weight = np.ones_like(mean) if weight is None else weight
        self._at: tuple[np.ndarray, Slopes] | None = None

    def start(self) -> np.ndarray:
        return np.zeros_like(self.mean)

    def slopes(self, g: np.ndarray) -> Slopes:
        """Return value and slopes at g; those at the last g are cached."""
        if self._at is None or self._at[0] is not g:
            self._at = (g, self.likelihood.slopes(self.y, self.mean + g))
        return self._at[1]

    def log_prob(self, g: np.ndarray) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            value = float((self.weight * self.slopes(g).log_prob).sum())
        return value if np.isfinite(value) else -np.inf

    def sites(self, g: np.ndarray, *, signed: bool) -> tuple[np.ndarray, Diagonal]:
        s = self.slopes(g)
        W = -self.weight * s.second
        return self.weight * s.first, Diagonal(W if signed and not self.likelihood.log_concave else np.maximum(W, 0.0))

    def unit(self, spread: float | np.ndarray, sites: Diagonal) -> float | np.ndarray:
        """Return the unit of f with basis functions: the larger of the prior spread and a typical observation error."""
        precise = float(np.abs(sites.precision).mean())
        return max(float(spread), precise**-0.5) if precise > 0 else spread

    def curvature(self, sites: Diagonal, v: np.ndarray) -> np.ndarray:
        return sites.precision * v

    def determinant_slope(self, g: np.ndarray, factor: AbstractFactor, bound: AbstractBound) -> np.ndarray:
        """Compute +½ Σ_ii ∂³ log p/∂f³ (algorithm 5.1, line 8, with the corrected sign)."""
        return 0.5 * factor.variance() * self.weight * self.slopes(g).third

    def pull_likelihood(self, g: np.ndarray, factor: AbstractFactor, sm: np.ndarray) -> AbstractLikelihood:
        """Compute ∂/∂φ of log p − ½ log det(I + KW) at the mode, including the change of the mode Σ∂∇/∂φ."""
        if not jax.tree_util.tree_leaves(self.likelihood):
            return self.likelihood
        w = self.weight
        return self.likelihood.pull(self.y, self.mean + g, w, w * sm, 0.5 * w * factor.variance())


class Many(AbstractView[Softmax]):
    """A softmax likelihood; latent values are (n, C)."""

    def __init__(self, likelihood: SoftmaxLikelihood, y: np.ndarray, mean: np.ndarray, weight: np.ndarray | None) -> None:
        self.softmax = likelihood
        self.likelihood, self.mean, self.given = likelihood, mean[:, None], weight
        self.weight = np.ones((len(mean), 1)) if weight is None else weight[:, None]
        self.targets = likelihood.targets(y)

    def start(self) -> np.ndarray:
        return np.zeros_like(self.targets)

    def log_prob(self, g: np.ndarray) -> float:
        f = self.mean + g
        top = f.max(1, keepdims=True)
        each = (self.targets * f).sum(1) - top[:, 0] - np.log(np.exp(f - top).sum(1))
        return float((self.weight[:, 0] * each).sum())

    def sites(self, g: np.ndarray, *, signed: bool) -> tuple[np.ndarray, Softmax]:
        p = self.softmax.probability(self.mean + g)
        return self.weight * (self.targets - p), Softmax(p, self.given)

    def curvature(self, sites: Softmax, v: np.ndarray) -> np.ndarray:
        p = np.asarray(sites.probability)
        return self.weight * p * (v - (p * v).sum(1, keepdims=True))

    def determinant_slope(self, g: np.ndarray, factor: AbstractFactor, bound: AbstractBound) -> np.ndarray:
        """Compute −½ ∂ tr(Σ_i W_i)/∂f_i with W_i = diag(π) − ππᵀ and Σ_i the (C, C) posterior covariance of row i."""
        p, covariance = self.softmax.probability(self.mean + g), factor.variance()
        slope = np.einsum("ncc->nc", covariance) - 2 * np.einsum("ncd,nd->nc", covariance, p)
        return -0.5 * self.weight * p * (slope - (p * slope).sum(1, keepdims=True))

    def pull_likelihood(self, g: np.ndarray, factor: AbstractFactor, sm: np.ndarray) -> AbstractLikelihood:
        return zeros_like(self.likelihood)


class Coupled(AbstractView[Blocks]):
    """A likelihood with L latent functions per observation and (L, L) blocks of Fisher information.

    The true curvature may be indefinite (for mean and noise it always is), so steps and the determinant use its expectation,
    the Fisher information; the derivative of the mode with respect to the parameters uses the true curvature.
    """

    def __init__(self, likelihood: AbstractLikelihood, y: np.ndarray, mean: np.ndarray, weight: np.ndarray | None) -> None:
        self.likelihood, self.y = likelihood, y
        self.mean = mean[:, None] * likelihood.has_mean
        self.weight = np.ones(len(mean)) if weight is None else weight
        self._at: tuple[np.ndarray, CoupledSlopes] | None = None

    def start(self) -> np.ndarray:
        return np.zeros_like(self.mean)

    def at(self, g: np.ndarray) -> CoupledSlopes:
        """Return value, slopes and curvatures at g; those at the last g are cached."""
        if self._at is None or self._at[0] is not g:
            self._at = (g, self.likelihood.coupled(self.y, self.mean + g))
        return self._at[1]

    def log_prob(self, g: np.ndarray) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            value = float((self.weight * self.at(g).log_prob).sum())
        return value if np.isfinite(value) else -np.inf

    def sites(self, g: np.ndarray, *, signed: bool) -> tuple[np.ndarray, Blocks]:
        found = self.at(g)
        return self.weight[:, None] * found.first, Blocks(self.weight[:, None, None] * found.fisher)

    def curvature(self, sites: Blocks, v: np.ndarray) -> np.ndarray:
        return np.einsum("nij,nj->ni", np.asarray(sites.precision), v)

    def determinant_slope(self, g: np.ndarray, factor: AbstractFactor, bound: AbstractBound) -> np.ndarray:
        """Compute (I + WK)(I + HK)⁻¹ s, with s = −½ ∂ tr(Σ_i W_i)/∂f_i.

        H is the true curvature at the mode and W the Fisher information in the factor. Multiplication by P = (I + WK)⁻¹ in
        the gram then gives (I + HK)⁻¹ s, the cotangent of K (R&W, eq. 5.24).
        """
        f = self.mean + g
        s = self.likelihood.information_slope(f, -0.5 * self.weight[:, None, None] * factor.variance())
        assert isinstance(factor, SeveralFactor)
        u = self.true_solve(g, s, factor)
        return u + factor.apply_W(factor.apply_K(u))

    def newton(self, g: np.ndarray, gradient: np.ndarray, factor: AbstractFactor) -> np.ndarray | None:
        """Return the weights (I + HK)⁻¹(Hg + ∇) of a Newton step with the true curvature, which converges quadratically."""
        if not isinstance(factor, SeveralFactor):
            return None
        H = -self.weight[:, None, None] * self.at(g).second
        try:
            return self.true_solve(g, np.einsum("nij,nj->ni", H, g) + gradient, factor).astype(g.dtype)
        except np.linalg.LinAlgError:
            return None

    def true_solve(self, g: np.ndarray, s: np.ndarray, factor: SeveralFactor) -> np.ndarray:
        """Compute (I + HK)⁻¹ s with H the true curvature at g."""
        H = -self.weight[:, None, None] * self.at(g).second
        n, latents = s.shape
        A = np.eye(n * latents)
        for i in range(latents):
            for j in range(latents):
                A[i * n : (i + 1) * n, j * n : (j + 1) * n] += H[:, i, j, None] * factor.K[j]
        return np.linalg.solve(A, s.T.ravel()).reshape(latents, n).T

    def pull_likelihood(self, g: np.ndarray, factor: AbstractFactor, sm: np.ndarray) -> AbstractLikelihood:
        return self.likelihood.coupled_pull(self.y, self.mean + g, self.weight, sm, -0.5 * factor.variance())
