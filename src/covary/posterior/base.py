"""The base class of posteriors: predictions in chunks of bounded memory, draws, and properties of the fit.

Subclasses compute the latent function at a few new inputs (``_latent``) and its joint covariance (``covariance``);
everything that follows from these is implemented here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from covary._checks import NotPositiveDefinite, as_numbers, check_positive, fail, is_traced
from covary._errors import Option, Remedy
from covary._memory import check_draws
from covary._precision import precision
from covary._threads import blas_threads
from covary._words import counted
from covary.data import Data, Inputs, Rows, as_inputs
from covary.gram.linalg import Lapack
from covary.likelihoods.gaussian import Gaussian
from covary.model import Model
from covary.prediction import LeftOut, Mixed, Observed, Prediction, Spread

CROSS_VALIDATE = Remedy("cross-validate", "cross-validate with covary.metrics instead")


CHUNK_BYTES = 2**26


class ErrorScale(Protocol):
    """An input-dependent factor that multiplies the variance of a new observation."""

    def at(self, X: Inputs) -> tuple[np.ndarray, np.ndarray]:
        """Return the factor at new inputs, and the variance of its logarithm."""
        ...

    def left_out(self, X: Inputs) -> tuple[np.ndarray, np.ndarray]:
        """Return the same at the training rows, each predicted from the others."""
        ...


class AbstractPosterior:
    """The posterior distribution of f given data.

    ``model`` was conditioned on ``data``, which is only a sample if the rows are on disk (:attr:`on_disk`). ``scale``, if
    not None, is an input-dependent factor that multiplies the variance of a new observation.
    """

    model: Model
    data: Data
    scale: ErrorScale | None

    # properties that subclasses define --------------------------------------------------------------------------------
    @property
    def log_evidence(self) -> float:
        """log p(y | X), exact or as approximated by the inference."""
        raise NotImplementedError

    @property
    def status(self) -> str:
        """How the inference ended: ``exact``, ``converged``, or the reason for stopping early."""
        raise NotImplementedError

    @property
    def kind(self) -> str:
        """The name of the approximation for many rows: ``Dense``, ``LowRank``, ``Committee``, ..."""
        raise NotImplementedError

    @property
    def rows(self) -> int:
        """The number of rows it was fitted to, including rows on disk."""
        return self.data.rows

    @property
    def on_disk(self) -> bool:
        """Whether the rows are on disk and ``data`` is only a sample of them."""
        return False

    @property
    def width(self) -> int:
        """The number of values that a prediction keeps in memory per new row."""
        raise NotImplementedError

    @property
    def jitter(self) -> float:
        """The jitter added to the diagonal of the matrix, zero if there is no matrix."""
        return 0.0

    @property
    def observed(self) -> bool:
        """Whether the inference treated the noise as Gaussian, so that y is f plus noise of known variance."""
        raise NotImplementedError

    @property
    def noise(self) -> np.ndarray:
        """The noise variance of every row of ``data``, if the noise is Gaussian (:attr:`observed`)."""
        raise NotImplementedError

    @property
    def outputs(self) -> int:
        """The number of outputs that share the latent function."""
        raise NotImplementedError

    def single(self, output: int) -> AbstractPosterior:
        """Return the posterior of one of several outputs."""
        raise NotImplementedError

    # methods that subclasses implement --------------------------------------------------------------------------------
    def _latent(self, X: Inputs, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the mean and, if requested, the variance of f at a few new inputs."""
        raise NotImplementedError

    def covariance(self, X: Rows) -> np.ndarray:
        """Return the joint posterior covariance of f at new inputs (R&W, eq. 2.24)."""
        raise NotImplementedError

    def leave_one_out(self) -> LeftOut:
        """Return the leave-one-out predictions: each row from the other rows, without refitting."""
        raise NotImplementedError

    # derived from these -----------------------------------------------------------------------------------------------
    def _inputs(self, X: Rows, who: str) -> Inputs:
        if is_traced(X.x if isinstance(X, Inputs) else X):
            raise fail(who, Option("X") + " is traced by JAX", "predict outside of jax.grad, jit and vmap")
        inputs = as_inputs(X, who)
        inputs = inputs.with_x(inputs.x.astype(self.data.dtype))
        if inputs.columns != self.data.X.columns:
            what = Option("X") + f" has {counted(inputs.columns, 'column')} but the model was fitted to {self.data.X.columns}"
            raise fail(who, what, "give the same columns")
        self.model.prior.check(inputs)
        return inputs

    def mean(self, X: Rows) -> np.ndarray:
        """Return the posterior mean of f at new inputs, without its variance (O(n) per row)."""
        inputs = self._inputs(X, "Posterior.mean")
        with precision(self.data.dtype), blas_threads(self.data.rows):
            return np.concatenate([self._latent(part, False)[0] for part in self._chunks(inputs)])

    def latent(self, X: Rows) -> Spread:
        """Return the mean and variance of f alone at new inputs."""
        inputs = self._inputs(X, "Posterior.latent")
        with precision(self.data.dtype), blas_threads(self.data.rows):
            return self._spread(inputs)

    def _spread(self, inputs: Inputs) -> Spread:
        parts = [self._latent(part) for part in self._chunks(inputs)]
        return Spread(np.concatenate([p[0] for p in parts]), np.concatenate([np.asarray(p[1]) for p in parts]))

    def _chunks(self, X: Inputs, arrays: int = 1, least: int = 256) -> list[Inputs]:
        """Split rows into chunks of bounded memory; each row needs ``arrays`` arrays as wide as the support."""
        rows = max(1, CHUNK_BYTES // (arrays * self.width * self.data.dtype.itemsize))
        rows = max(least, rows // least * least)
        return [X.take(slice(i, i + rows)) for i in range(0, X.rows, rows)]

    def predict(self, X: Rows, *, covariance: bool = False, size: ArrayLike | None = None) -> Prediction:
        """Predict f and a new y at new inputs: their means and variances, in chunks of bounded memory.

        Parameters
        ----------
        X
            New inputs (m, d).
        covariance
            Also compute the joint covariance (m, m). It is not chunked; an error is raised if it does not fit in memory.
        size
            Trials (binomial) or exposure (counts) of the new observations: one number, or one per row; default 1.
        """
        inputs = self._inputs(X, "Posterior.predict")
        with precision(self.data.dtype), blas_threads(self.data.rows):
            f = self._spread(inputs)
            f = replace(f, covariance=self.covariance(X)) if covariance else f
            return Prediction(f, self._observed(f, size, inputs))

    def _observed(self, f: Spread, size: ArrayLike | None, X: Inputs) -> Spread | Mixed | Observed:
        """Return the predictive distribution of a new observation, from the latent moments."""
        likelihood = self.model.likelihood.at(X)
        each = None if size is None else self._sizes(size, len(f.mean))
        if isinstance(likelihood, Gaussian):
            moments = likelihood.predictive(f.mean, f.variance)
            if self.scale is None:
                joint = None if f.covariance is None else f.covariance + np.diag(moments.variance - f.variance)
                return Spread(moments.mean, moments.variance, joint)
            factor, unsure = self.scale.at(X)
            joint = None
            if f.covariance is not None:
                root = np.sqrt(factor)
                joint = (f.covariance + np.diag(moments.variance - f.variance)) * np.outer(root, root)
            return Mixed(moments.mean, factor * moments.variance, joint, unsure)
        moments = likelihood.predictive(f.mean, f.variance, each)
        return Observed(moments.mean, moments.variance, likelihood, f, each)

    def _sizes(self, size: ArrayLike, rows: int) -> np.ndarray:
        """Check the sizes of new observations (one number, or one per row) and return one per row."""
        who, name = "Posterior.predict", type(self.model.likelihood).__name__
        if not self.model.likelihood.sized:
            raise fail(who, f"size is given but {name} observations have none", "leave it out", argument="size")
        each = as_numbers(who, "size", size).astype(np.float64)
        if each.shape not in ((), (rows,)):
            what = f"size has shape {each.shape} but " + Option("X") + f" has {counted(rows, 'row')}"
            raise fail(who, what, "give one number, or one per row", argument="size")
        check_positive(who, "size", each)
        return np.broadcast_to(each, rows)

    def sample(self, X: Rows, n: int = 1, *, key: int | np.random.Generator) -> np.ndarray:
        """Draw joint samples of f at new inputs: shape (n, m). ``key`` is a seed or a generator."""
        inputs = self._inputs(X, "Posterior.sample")
        mean = self.mean(X)
        check_draws("Posterior.sample", n, mean.size)
        root = square_root(self.covariance(X))
        z = np.random.default_rng(key).standard_normal((n, inputs.rows, *mean.shape[1:]))
        return mean[None] + np.einsum("ij,nj...->ni...", root, z)

    def sample_y(self, X: Rows, n: int = 1, *, key: int | np.random.Generator, size: ArrayLike | None = None) -> np.ndarray:
        """Draw samples of new observations, from joint samples of f: shape (n, m)."""
        rng = np.random.default_rng(key)
        f = self.sample(X, n, key=rng)
        inputs = self._inputs(X, "Posterior.sample_y")
        drawn = self.model.likelihood.at(inputs).sample(f, rng, None if size is None else self._sizes(size, f.shape[1]))
        if self.scale is None:
            return drawn
        mean, (factor, unsure) = self.mean(X), self.scale.at(inputs)
        h = np.sqrt(unsure) * rng.standard_normal(drawn.shape) - unsure / 2
        return mean + np.sqrt(factor * np.exp(h)) * (drawn - mean)


def square_root(C: np.ndarray) -> np.ndarray:
    """Return a lower factor of a positive semi-definite covariance, with as little jitter as possible (R&W, appendix A.2)."""
    scale = max(float(np.mean(np.diagonal(C))), np.finfo(C.dtype).tiny)
    for jitter in (0.0, *10.0 ** np.arange(-14, -5)):
        A = np.array(C, order="F")
        A.flat[:: len(A) + 1] += jitter * scale
        L = Lapack.cholesky(A)
        if L is not None and np.isfinite(L.flat[:: len(L) + 1]).all():
            return np.tril(L)
    raise NotPositiveDefinite("sample", "the covariance is not positive semi-definite", "check the kernel")
