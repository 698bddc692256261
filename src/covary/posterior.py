"""The posterior: a Gaussian process again, conditioned on data (R&W, eqs. 2.23, 2.24, 2.38, 2.42)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from covary._checks import NotPositiveDefinite, as_numbers, check_positive, fail
from covary._memory import check_draws, check_memory
from covary._precision import precision
from covary._threads import blas_threads
from covary._words import counted
from covary.components import Components, Reader, component_at, covariances_at, labels, slopes_at, which_term
from covary.data import Data, Inputs, as_inputs
from covary.gram.linalg import Lapack
from covary.kernels.tiles import SMALL
from covary.likelihoods.gaussian import Gaussian
from covary.paths import Paths, draw_paths
from covary.prediction import LeftOut, Mixed, Observed, Prediction, Spread

CHUNK_BYTES = 2**26


@dataclass(frozen=True)
class Posterior:
    """One Gaussian posterior.

    ``alpha`` are the weights of the mean on the support, ``factor`` the prior times the sites, ``log_evidence`` the
    probability of the data under the model, ``status`` how the inference ended. ``scale``, where there is one, says by what
    the variance of a new observation is multiplied from place to place (:mod:`covary.models.local_scale`).
    """

    model: Any
    data: Data
    bound: Any
    solved: Any
    scale: Any = None

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
        if self.bound.basis is None:
            return None
        return self.bound.basis.coordinates.original(self.factor.weights(self.solved.shift))

    def basis_at(self, X: Inputs) -> np.ndarray:
        """The explicit basis functions at new inputs, in the coordinates of the factor."""
        return self.bound.basis.coordinates.at(self.model.prior.basis.evaluate(X))

    def _inputs(self, X: Any, who: str) -> Inputs:
        inputs = as_inputs(X, who)
        inputs = inputs.with_x(inputs.x.astype(self.data.dtype))
        if inputs.columns != self.data.X.columns:
            raise fail(
                who,
                f"X has {counted(inputs.columns, 'column')} but the model learned {self.data.X.columns}",
                "give the same columns",
            )
        self.model.prior.check(inputs)
        return inputs

    def _latent(self, X: Inputs, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        mean, spread = self.bound.conditional(self.factor, self.solved, X, variance)
        base = self.model.mean.evaluate(X)
        likelihood = self.model.likelihood
        several = mean.ndim == 2 and likelihood.latents > 1  # outputs of one function all have its mean
        mean = mean + (base if mean.ndim == 1 else base[:, None] * likelihood.has_mean if several else base[:, None])
        if self.bound.basis is not None:
            H = self.basis_at(X)
            mean = mean + H @ self.factor.weights(self.solved.shift)
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

    def latent(self, X: Any) -> Spread:
        """Mean and variance of f alone at new inputs."""
        inputs = self._inputs(X, "Posterior.latent")
        with precision(self.data.dtype), blas_threads(self.data.rows):
            return self._spread(inputs)

    def _spread(self, inputs: Inputs) -> Spread:
        parts = [self._latent(part) for part in self._chunks(inputs)]
        return Spread(np.concatenate([p[0] for p in parts]), np.concatenate([np.asarray(p[1]) for p in parts]))

    def _chunks(self, X: Inputs, arrays: int = 1, least: int = 256) -> list[Inputs]:
        """Rows taken together where every one needs so many arrays as wide as the support."""
        rows = max(1, CHUNK_BYTES // (arrays * self.bound.width * self.data.dtype.itemsize))
        rows = max(least, rows // least * least)
        return [X.take(slice(i, i + rows)) for i in range(0, X.rows, rows)]

    def predict(self, X: Any, *, covariance: bool = False, size: Any = None) -> Prediction:
        """Mean and variance of f and of a new y at new inputs, in chunks of bounded memory.

        Parameters
        ----------
        X
            New inputs (m, d).
        covariance
            Also the joint covariance (m, m); this one is not chunked, and refused if it cannot fit.
        size
            Trials (binomial) or exposure (counts) of the new observations: one number, or one per row; one by default.
        """
        inputs = self._inputs(X, "Posterior.predict")
        with precision(self.data.dtype), blas_threads(self.data.rows):
            f = self._spread(inputs)
            f = replace(f, covariance=self.covariance(X)) if covariance else f
            return Prediction(f, self._observed(f, size, inputs))

    def _observed(self, f: Spread, size: Any, X: Inputs) -> Any:
        """A new observation, from the latent moments."""
        likelihood = self.model.likelihood.at(X)
        if size is not None:
            size = self._sizes(size, len(f.mean))
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
        moments = likelihood.predictive(f.mean, f.variance, size)
        return Observed(moments.mean, moments.variance, likelihood, f, size)

    def _sizes(self, size: Any, rows: int) -> np.ndarray:
        """The sizes of new observations, checked: one number, or one per row."""
        who, name = "Posterior.predict", type(self.model.likelihood).__name__
        if not self.model.likelihood.sized:
            raise fail(who, f"size is given but {name} observations have none", "leave it out")
        size = as_numbers(who, "size", size).astype(np.float64)
        if size.shape not in ((), (rows,)):
            raise fail(who, f"size has shape {size.shape} but X has {counted(rows, 'row')}", "give one number, or one per row")
        check_positive(who, "size", size)
        return np.broadcast_to(size, rows)

    def leave_one_out(self) -> LeftOut:
        r"""What the other rows say of each row, without fitting again.

        With site precision τ and marginal N(μ, σ²), taking the site out leaves the cavity
        :math:`\sigma_{-i}^2 = (\sigma^{-2} - \tau)^{-1}` (R&W, eq. 3.56); under Gaussian noise that is exact (eq. 5.12), from
        EP's cavities accurate (section 5.4.2), from Laplace's sites a cheaper approximation.
        """
        who, factor, likelihood = "Posterior.leave_one_out", self.factor, self.model.likelihood
        if likelihood.latents != 1 or self.solved.shift.ndim != 1:
            raise fail(who, "the model has several latent functions or outputs", "cross-validate with covary.metrics instead")
        with precision(self.data.dtype), blas_threads(self.data.rows):
            if factor.observed:
                R, s = factor.diag_inverse(), np.asarray(factor.spread)
                own = 1 / R  # variance of the noisy target without its row
                mean, variance = self.data.y - self.alpha * own, np.maximum(own - s, 0.0)
                y = Spread(mean, own)
                if self.scale is not None:
                    factor, unsure = self.scale.left_out(self.data.X)
                    y = Mixed(mean, factor * own, None, unsure)
                return LeftOut(mean, variance, y.log_prob(self.data.y), y)
            mean, precise = cavities(self)
            if (precise <= 0).any():
                raise fail(who, "some rows have no proper cavity", "cross-validate with covary.metrics instead")
            log_z = likelihood.tilted(self.data.y, mean, 1 / precise, self.data.weight).log_z
        return LeftOut(mean, 1 / precise, log_z)

    def covariance(self, X: Any) -> np.ndarray:
        """The joint posterior covariance of f at new inputs (R&W, eq. 2.24)."""
        inputs = self._inputs(X, "Posterior.covariance")
        if self.model.likelihood.latents > 1:
            raise fail(
                "Posterior.covariance", "the model has several latent functions", "predict gives their covariance row by row"
            )
        m = inputs.rows
        check_memory(
            "Posterior.covariance", (3 * m * m + 2 * m * self.data.rows) * 8, "ask for fewer rows, or for variances only"
        )
        with precision(self.data.dtype):
            out = self.bound.joint(self.factor, inputs)
            if self.bound.basis is not None:
                U, inverse, _ = self.factor.project()
                rest = self.basis_at(inputs) - self.bound.cross_solve(inputs, U)
                out = out + rest @ inverse @ rest.T
        return out

    def component(self, which: int | str, X: Any, *, covariance: bool = False) -> Spread:
        r"""The posterior of one additive term of the kernel (R&W, section 5.4.3).

        For :math:`k = \sum_j k_j` the function is a sum of independent :math:`f_j`, and what was seen of their sum says of each

        .. math:: E f_j(x) = k_j(x, X)\,\alpha,\qquad
            \mathrm{cov}(f_j(x), f_j(x')) = k_j(x, x') - k_j(x, X)\,R\,k_j(X, x').

        Good for showing a trend and a season apart. The means add up to the latent mean without the mean function.

        Parameters
        ----------
        which
            The term's number, its name (see :meth:`components`), or any piece of its text that no other term holds.
            Explicit basis functions are called ``"basis"``.
        X
            New inputs (m, d).
        covariance
            Also the joint covariance (m, m).

        Examples
        --------
        >>> from covary import GP, Data, Model, condition
        >>> post = condition(Model(GP("Linear() + Periodic()")), Data([[0.0], [1.0], [2.5]], [0.0, 1.0, 2.0]))
        >>> post.component("Linear", [[4.0]]).mean.round(2)
        array([2.62])
        """
        who = "Posterior.component"
        inputs, reader = self._inputs(X, who), Reader(who, self)
        names, kernels = labels(self)
        kernel = kernels[which_term(who, which, names, kernels)]
        with precision(self.data.dtype), blas_threads(self.data.rows):
            if covariance:
                m = inputs.rows
                check_memory(who, (3 * m * m + 3 * m * self.bound.width) * 8, "ask for fewer rows, or for variances only")
                mean, joint = component_at(reader, self, kernel, inputs, True)
                return Spread(mean, np.maximum(np.diagonal(joint), 0.0), joint)
            parts = [component_at(reader, self, kernel, part, False) for part in self._chunks(inputs, 3)]
        return Spread(np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]))

    def components(self, X: Any, *, covariance: bool = False) -> Components:
        r"""The posterior of every additive term of the kernel, as :meth:`component` gives it.

        Parameters
        ----------
        X
            New inputs (m, d).
        covariance
            Also the covariances between the terms at every input, (m, J, J); all of them together add up to the variance of f.
            :math:`\mathrm{cov}(f_i(x), f_j(x)) = \delta_{ij}k_j(x, x) - k_i(x, X)\,R\,k_j(X, x)`: what one term explains the
            other need not, so terms are mostly anticorrelated.

        Examples
        --------
        >>> from covary import GP, Data, Model, condition
        >>> post = condition(Model(GP("Linear() + Periodic()")), Data([[0.0], [1.0], [2.5]], [0.0, 1.0, 2.0]))
        >>> found = post.components([[3.0], [4.0]])
        >>> found.names
        ('Linear', 'Periodic')
        >>> bool(np.allclose(found.mean.sum(0), post.mean([[3.0], [4.0]])))
        True
        """
        who = "Posterior.components"
        inputs, reader = self._inputs(X, who), Reader(who, self)
        names, kernels = labels(self)
        with precision(self.data.dtype), blas_threads(self.data.rows):
            chunks = self._chunks(inputs, 2 + len(kernels) if covariance else 3)
            each = [[component_at(reader, self, kernel, part, False) for part in chunks] for kernel in kernels]
            between = [covariances_at(reader, self, kernels, part) for part in chunks] if covariance else None
        mean, variance = (np.stack([np.concatenate([p[i] for p in parts]) for parts in each]) for i in (0, 1))
        return Components(names, kernels, mean, variance, None if between is None else np.concatenate(between))

    def derivative(self, X: Any, *, covariance: bool = False) -> Spread:
        r"""The posterior of the slopes of f at new inputs: mean and variance (m, d), one for every column.

        .. math:: E\,\partial_af(x) = \partial_am(x) + \partial_ak(x, X)\,\alpha,\qquad
            \mathrm{cov}(\partial_af, \partial_bf) = \partial_a\partial'_bk(x, x) - \partial_ak(x, X)\,R\,\partial_bk(X, x)

        The derivative of a Gaussian process is one (R&W, section 9.4); it exists where the kernel's smoothness is 1 or more,
        and a rougher kernel is refused. Slopes of the mean function are by automatic differentiation where it is written with
        JAX, else, as those of explicit basis functions, by differences.

        Parameters
        ----------
        X
            New inputs (m, d).
        covariance
            Also the covariances between the slopes at every input, (m, d, d).

        References
        ----------
        Rasmussen & Williams (2006), eq. 9.1, sections 4.1.1 and 9.4.

        Examples
        --------
        >>> from covary import GP, Data, Model, condition
        >>> from covary.likelihoods import Gaussian
        >>> x = np.linspace(0.0, 6.0, 20)[:, None]
        >>> post = condition(Model(GP("SquaredExponential()"), likelihood=Gaussian(1e-6)), Data(x, np.sin(x[:, 0])))
        >>> slope = post.derivative([[1.0]])
        >>> bool(abs(slope.mean[0, 0] - np.cos(1.0)) < 0.001)
        True
        """
        who = "Posterior.derivative"
        inputs, reader = self._inputs(X, who), Reader(who, self)
        if reader.kernel.traits.smoothness < 1:
            raise fail(who, "the process is not mean-square differentiable", "choose a smoother kernel, such as Matern32")
        with precision(self.data.dtype), blas_threads(self.data.rows):
            parts = [slopes_at(reader, self, part) for part in self._chunks(inputs, 3 * inputs.columns, SMALL)]
        mean, joint = (np.concatenate([p[i] for p in parts]) for i in (0, 1))
        return Spread(mean, np.maximum(np.einsum("iaa->ia", joint), 0.0), joint if covariance else None)

    def sample(self, X: Any, n: int = 1, *, key: int | np.random.Generator) -> np.ndarray:
        """Draws of f at new inputs, jointly: shape (n, m). ``key`` is a seed or a generator."""
        inputs = self._inputs(X, "Posterior.sample")
        mean = self.mean(X)
        check_draws("Posterior.sample", n, mean.size)
        root = square_root(self.covariance(X))
        z = np.random.default_rng(key).standard_normal((n, inputs.rows, *mean.shape[1:]))
        return mean[None] + np.einsum("ij,nj...->ni...", root, z)

    def sample_functions(self, n: int = 1, *, key: int | np.random.Generator, features: int = 2000) -> Paths:
        """Draws of whole functions, to be evaluated wherever and as often as you like: ``paths(X)`` has shape (n, m).

        By Matheron's rule: a draw from the prior (random Fourier features) plus the update that the data ask for; O(1) per
        new row in the number of other rows, where :meth:`sample` needs the joint covariance. See :mod:`covary.paths`.
        """
        return draw_paths(self.model, self.data, self.bound, self.solved, n, key=key, features=features)

    def sample_y(self, X: Any, n: int = 1, *, key: int | np.random.Generator, size: Any = None) -> np.ndarray:
        """Draws of new observations, jointly through f: shape (n, m)."""
        rng = np.random.default_rng(key)
        f = self.sample(X, n, key=rng)
        inputs = self._inputs(X, "Posterior.sample_y")
        drawn = self.model.likelihood.at(inputs).sample(f, rng, None if size is None else self._sizes(size, f.shape[1]))
        if self.scale is None:
            return drawn
        mean, (factor, unsure) = self.mean(X), self.scale.at(inputs)
        h = np.sqrt(unsure) * rng.standard_normal(drawn.shape) - unsure / 2
        return mean + np.sqrt(factor * np.exp(h)) * (drawn - mean)


def cavities(post: Posterior) -> tuple[np.ndarray, np.ndarray]:
    """Mean and precision of f at every row with its own site taken out (R&W, eq. 3.56); improper where that is not positive."""
    shift, marginal = post.solved.shift, post.factor.variance()
    precise = 1 / marginal - np.asarray(post.factor.spread)
    mean = (post.factor.mean(shift) / marginal - shift) / precise
    return mean + post.model.mean.evaluate(post.data.X), precise


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
    check_draws("sample_prior", n, inputs.rows)
    rng = np.random.default_rng(key)
    root = square_root(prior.kernel.gram(inputs))
    out = prior.mean.evaluate(inputs)[None] + rng.standard_normal((n, inputs.rows)) @ root.T
    if prior.basis is None:
        return out
    H = prior.basis.evaluate(inputs)
    weights = prior.basis.weight_prior(H.shape[1])
    if weights.vague.any():
        raise fail("sample_prior", "vague weights have no prior to draw from", "give the basis a covariance")
    return out + rng.standard_normal((n, len(weights.proper))) @ (H @ weights.root).T
