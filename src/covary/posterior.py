"""The posterior: a Gaussian process again, conditioned on data (R&W, eqs. 2.23, 2.24, 2.38, 2.42)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from covary._checks import NotPositiveDefinite, fail
from covary._memory import check_memory
from covary._precision import precision
from covary._threads import blas_threads
from covary.data import Data, Inputs, as_inputs
from covary.gram.linalg import Lapack
from covary.prediction import Prediction, Spread

CHUNK_BYTES = 2**26


@dataclass(frozen=True)
class Posterior:
    """One Gaussian posterior.

    ``alpha`` are the weights of the mean on the support, ``factor`` the prior times the sites, ``log_evidence`` the
    probability of the data under the model, ``status`` how the inference ended.
    """

    model: Any
    data: Data
    bound: Any
    solved: Any

    @property
    def alpha(self) -> np.ndarray:
        """The weights: E f(x) = m(x) + k(x, X) alpha (R&W, eq. 2.27)."""
        return self.solved.alpha

    @property
    def factor(self) -> Any:
        """The prior times the sites."""
        return self.solved.factor

    @property
    def log_evidence(self) -> float:
        """log p(y | X), exact or as approximated by the inference."""
        return self.solved.log_evidence

    @property
    def status(self) -> str:
        """How the inference ended: ``exact``, ``converged``, or why not."""
        return self.solved.status

    @property
    def basis_weights(self) -> np.ndarray | None:
        """The weights of the explicit basis functions, or None."""
        return self.factor.weights(self.solved.shift) if self.bound.basis is not None else None

    def _inputs(self, X: Any, who: str) -> Inputs:
        inputs = as_inputs(X, who)
        inputs = inputs.with_x(inputs.x.astype(self.data.dtype))
        if inputs.columns != self.data.X.columns:
            raise fail(
                who, f"X has {inputs.columns} columns but the model learned {self.data.X.columns}", "give the same columns"
            )
        self.model.prior.check(inputs)
        return inputs

    def _latent(self, X: Inputs, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        mean, spread = self.bound.conditional(self.factor, self.alpha, X, variance)
        base = self.model.mean.evaluate(X)
        mean = mean + (base if mean.ndim == 1 else base[:, None])
        if self.bound.basis is not None:
            H = self.model.prior.basis.evaluate(X)
            mean = mean + H @ self.basis_weights
            if variance:
                U, inverse, _ = self.factor.project()
                rest = H - self.bound.cross_solve(X, U)
                spread = spread + ((rest @ inverse) * rest).sum(1)
        return mean, spread

    def mean(self, X: Any) -> np.ndarray:
        """The posterior mean of f at new inputs, without its variance (O(n) per row)."""
        inputs = self._inputs(X, "Posterior.mean")
        with precision(self.data.dtype), blas_threads(self.data.rows):
            return np.concatenate([self._latent(part, False)[0] for part in self._chunks(inputs)])

    def _chunks(self, X: Inputs) -> list[Inputs]:
        rows = max(1, CHUNK_BYTES // (self.data.rows * self.data.dtype.itemsize))
        rows = max(256, rows // 256 * 256)
        return [X.take(slice(i, i + rows)) for i in range(0, X.rows, rows)]

    def predict(self, X: Any, *, covariance: bool = False) -> Prediction:
        """Mean and variance of f and of a new y at new inputs, in chunks of bounded memory.

        Parameters
        ----------
        X
            New inputs (m, d).
        covariance
            Also the joint covariance (m, m); this one is not chunked, and refused if it cannot fit.
        """
        inputs = self._inputs(X, "Posterior.predict")
        with precision(self.data.dtype), blas_threads(self.data.rows):
            parts = [self._latent(part) for part in self._chunks(inputs)]
            mean = np.concatenate([p[0] for p in parts])
            variance = np.concatenate([np.asarray(p[1]) for p in parts])
            f = Spread(mean, variance, self.covariance(X) if covariance else None)
            moments = self.model.likelihood.predictive(mean, variance)
        joint = None
        if f.covariance is not None:
            joint = f.covariance + np.diag(moments.variance - variance)
        return Prediction(f, Spread(moments.mean, moments.variance, joint))

    def covariance(self, X: Any) -> np.ndarray:
        """The joint posterior covariance of f at new inputs (R&W, eq. 2.24)."""
        inputs = self._inputs(X, "Posterior.covariance")
        m = inputs.rows
        check_memory(
            "Posterior.covariance", (3 * m * m + 2 * m * self.data.rows) * 8, "ask for fewer rows, or for variances only"
        )
        with precision(self.data.dtype):
            out = self.bound.joint(self.factor, inputs)
            if self.bound.basis is not None:
                U, inverse, _ = self.factor.project()
                rest = self.model.prior.basis.evaluate(inputs) - self.bound.cross_solve(inputs, U)
                out = out + rest @ inverse @ rest.T
        return out

    def sample(self, X: Any, n: int = 1, *, key: int | np.random.Generator) -> np.ndarray:
        """Draws of f at new inputs, jointly: shape (n, m). ``key`` is a seed or a generator."""
        inputs = self._inputs(X, "Posterior.sample")
        mean = self.mean(X)
        root = square_root(self.covariance(X))
        z = np.random.default_rng(key).standard_normal((n, inputs.rows, *mean.shape[1:]))
        return mean[None] + np.einsum("ij,nj...->ni...", root, z)


def square_root(C: np.ndarray) -> np.ndarray:
    """A lower factor of a positive semi-definite covariance; jitter as small as does it (R&W, appendix A.2)."""
    scale = max(float(np.mean(np.diagonal(C))), np.finfo(C.dtype).tiny)
    for jitter in (0.0, *10.0 ** np.arange(-14, -5)):
        A = np.array(C, order="F")
        A.flat[:: len(A) + 1] += jitter * scale
        L = Lapack.cholesky(A)
        if L is not None and np.isfinite(L.flat[:: len(L) + 1]).all():
            return np.tril(L)
    raise NotPositiveDefinite("sample: the covariance is not positive semi-definite; check the kernel.")


def sample_prior(prior: Any, X: Any, n: int = 1, *, key: int | np.random.Generator) -> np.ndarray:
    """Draws of functions from a prior at inputs X: shape (n, m) (R&W, eq. 2.17).

    Examples
    --------
    >>> from covary import GP
    >>> sample_prior(GP("Matern52()"), [[0.0], [0.1], [0.2]], 5, key=0).shape
    (5, 3)
    """
    inputs = as_inputs(X, "sample_prior")
    prior.check(inputs)
    root = square_root(prior.kernel.gram(inputs))
    z = np.random.default_rng(key).standard_normal((n, inputs.rows))
    return prior.mean.evaluate(inputs)[None] + z @ root.T
