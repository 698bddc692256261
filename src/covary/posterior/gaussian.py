"""The posterior: a Gaussian process again, conditioned on data (R&W, eqs. 2.23, 2.24, 2.38, 2.42)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from covary._arguments import check_kind, explained_function
from covary._checks import fail
from covary._errors import Option
from covary._memory import check_draws, check_memory
from covary._precision import precision
from covary._threads import blas_threads
from covary.data import Data, Inputs, as_inputs
from covary.gram.base import AbstractBound, AbstractFactor
from covary.kernels.tiles import SMALL
from covary.model import GP, Model
from covary.posterior.base import CROSS_VALIDATE, AbstractPosterior, ErrorScale, Rows, square_root
from covary.posterior.components import Components, Reader, component_at, covariances_at, labels, slopes_at, which_term
from covary.posterior.leave_one_out import cavities
from covary.posterior.paths import Paths, draw_paths
from covary.posterior.solved import Solved
from covary.prediction import LeftOut, Mixed, Spread


@dataclass(frozen=True)
class Posterior(AbstractPosterior):
    """A Gaussian posterior.

    ``alpha`` are the weights of the mean on the support, ``factor`` the prior times the sites, ``log_evidence`` the log
    marginal likelihood, ``status`` how the inference ended. ``scale``, if not None, is an input-dependent factor that
    multiplies the variance of a new observation (:mod:`covary.models.local_scale`).
    """

    model: Model
    data: Data
    bound: AbstractBound
    solved: Solved
    scale: ErrorScale | None = None

    @property
    def alpha(self) -> np.ndarray:
        """The weights: E f(x) = m(x) + k(x, X) alpha (R&W, eq. 2.27)."""
        return self.solved.alpha

    @property
    def factor(self) -> AbstractFactor:
        """The prior times the sites."""
        return self.solved.factor

    @property
    def log_evidence(self) -> float:
        """log p(y | X), exact or as approximated by the inference."""
        return self.solved.log_evidence

    @property
    def status(self) -> str:
        """How the inference ended: ``exact``, ``converged``, or the reason for stopping early."""
        return self.solved.status

    @property
    def kind(self) -> str:
        """How K is handled: ``Dense``, ``LowRank``, ..."""
        return type(self.bound).__name__.removesuffix("Bound")

    @property
    def width(self) -> int:
        """The number of values that a prediction keeps in memory per new row: the rows of the support."""
        return self.bound.width

    @property
    def jitter(self) -> float:
        """The jitter added to the diagonal of the matrix."""
        return float(self.factor.jitter or 0.0)

    @property
    def observed(self) -> bool:
        """Whether the sites are noise of known variance rather than an approximation."""
        return self.factor.observed

    @property
    def noise(self) -> np.ndarray:
        """The noise variance of every row, if the noise is Gaussian."""
        return np.asarray(self.factor.spread)

    @property
    def outputs(self) -> int:
        """The number of outputs that share the latent function."""
        shift = self.solved.shift
        return shift.shape[1] if shift.ndim == 2 and self.model.likelihood.latents == 1 else 1

    def single(self, output: int) -> Posterior:
        """Return the posterior of one of several outputs."""
        data, solved = self.data, self.solved
        shift = np.ascontiguousarray(solved.shift[:, output])
        alone = Data(data.X, data.y[:, output], data.noise_variance, data.weight)
        return replace(self, data=alone, solved=replace(solved, shift=shift, alpha=solved.alpha[:, output].copy()))

    @property
    def basis_weights(self) -> np.ndarray | None:
        """The weights of the explicit basis functions, or None."""
        basis = self.bound.basis
        return None if basis is None else basis.coordinates.original(np.asarray(self.factor.weights(self.solved.shift)))

    def basis_at(self, X: Inputs) -> np.ndarray:
        """Return the explicit basis functions at new inputs, in the coordinates of the factor."""
        basis, seen = self.model.prior.basis, self.bound.basis
        assert basis is not None
        assert seen is not None
        return seen.coordinates.at(basis.evaluate(X))

    def _latent(self, X: Inputs, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        mean, spread = self.bound.conditional(self.factor, self.solved, X, variance)
        base = self.model.mean.evaluate(X)
        likelihood = self.model.likelihood
        several = mean.ndim == 2 and likelihood.latents > 1  # outputs that share one function all have its mean
        mean = mean + (base if mean.ndim == 1 else base[:, None] * likelihood.has_mean if several else base[:, None])
        if self.bound.basis is not None:
            H = self.basis_at(X)
            mean = mean + H @ self.factor.weights(self.solved.shift)
            if variance:
                U, inverse, _ = self.factor.project()
                rest = H - self.bound.cross_solve(X, U)
                spread = spread + ((rest @ inverse) * rest).sum(1)
        return mean, spread

    def leave_one_out(self) -> LeftOut:
        r"""Return the leave-one-out predictions: each row from the other rows, without refitting.

        With site precision τ and marginal N(μ, σ²), removing the site leaves the cavity
        :math:`\sigma_{-i}^2 = (\sigma^{-2} - \tau)^{-1}` (R&W, eq. 3.56). This is exact under Gaussian noise (eq. 5.12),
        accurate with EP (section 5.5.3), and a cheaper approximation with Laplace's method.
        """
        who, data, likelihood = "Posterior.leave_one_out", self.data, self.model.likelihood
        if likelihood.latents != 1 or self.solved.shift.ndim != 1:
            raise fail(who, "the model has several latent functions or outputs", CROSS_VALIDATE)
        with precision(data.dtype), blas_threads(data.rows):
            left = cavities(self)
            if left.noisy is None:
                if not left.sound.all():
                    raise fail(who, "some rows have no proper cavity", CROSS_VALIDATE)
                log_z = likelihood.tilted(data.y, left.mean, left.variance, data.weight).log_z
                return LeftOut(left.mean, left.variance, log_z)
            y: Spread = Spread(left.mean, left.noisy)
            if self.scale is not None:
                factor, unsure = self.scale.left_out(data.X)
                y = Mixed(left.mean, factor * left.noisy, None, unsure)
            return LeftOut(left.mean, left.variance, y.log_prob(data.y), y)

    def covariance(self, X: Rows) -> np.ndarray:
        """Return the joint posterior covariance of f at new inputs (R&W, eq. 2.24)."""
        inputs = self._inputs(X, "Posterior.covariance")
        if self.model.likelihood.latents > 1:
            what = "the model has several latent functions"
            raise fail("Posterior.covariance", what, "use predict for their covariance at each row")
        m = inputs.rows
        check_memory(
            "Posterior.covariance", (3 * m * m + 2 * m * self.data.rows) * 8, "predict fewer rows at a time, or variances only"
        )
        with precision(self.data.dtype):
            out = self.bound.joint(self.factor, inputs)
            if self.bound.basis is not None:
                U, inverse, _ = self.factor.project()
                rest = self.basis_at(inputs) - self.bound.cross_solve(inputs, U)
                out = out + rest @ inverse @ rest.T
        return out

    def component(self, which: int | str, X: Rows, *, covariance: bool = False) -> Spread:
        r"""Return the posterior of one additive term of the kernel (R&W, section 5.4.3).

        For :math:`k = \sum_j k_j` the function is a sum of independent :math:`f_j`, and observations of the sum give

        .. math:: E f_j(x) = k_j(x, X)\,\alpha,\qquad
            \mathrm{cov}(f_j(x), f_j(x')) = k_j(x, x') - k_j(x, X)\,R\,k_j(X, x').

        It separates a trend from a season, for example. The means add up to the latent mean without the mean function.

        Parameters
        ----------
        which
            The index of the term, its name (see :meth:`components`), or any substring of its text that no other term
            contains. Explicit basis functions are called ``"basis"``.
        X
            New inputs (m, d).
        covariance
            Also compute the joint covariance (m, m).

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
                check_memory(who, (3 * m * m + 3 * m * self.bound.width) * 8, "predict fewer rows at a time, or variances only")
                mean, joint = component_at(reader, self, kernel, inputs, True)
                return Spread(mean, np.maximum(np.diagonal(joint), 0.0), joint)
            parts = [component_at(reader, self, kernel, part, False) for part in self._chunks(inputs, 3)]
        return Spread(np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]))

    def components(self, X: Rows, *, covariance: bool = False) -> Components:
        r"""Return the posterior of every additive term of the kernel; see :meth:`component`.

        Parameters
        ----------
        X
            New inputs (m, d).
        covariance
            Also compute the covariances between the terms at every input, (m, J, J); their sum is the variance of f.
            :math:`\mathrm{cov}(f_i(x), f_j(x)) = \delta_{ij}k_j(x, x) - k_i(x, X)\,R\,k_j(X, x)`: the terms compete to
            explain the data, so they are mostly anticorrelated.

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

    def derivative(self, X: Rows, *, covariance: bool = False) -> Spread:
        r"""Return the posterior of the gradient of f at new inputs: mean and variance (m, d), one for every column.

        .. math:: E\,\partial_af(x) = \partial_am(x) + \partial_ak(x, X)\,\alpha,\qquad
            \mathrm{cov}(\partial_af, \partial_bf) = \partial_a\partial'_bk(x, x) - \partial_ak(x, X)\,R\,\partial_bk(X, x)

        The derivative of a Gaussian process is again one (R&W, section 9.4). It exists if the kernel's smoothness is at least
        1; an error is raised for rougher kernels. The mean function is differentiated automatically if it is written with
        JAX, otherwise, like explicit basis functions, by finite differences.

        Parameters
        ----------
        X
            New inputs (m, d).
        covariance
            Also compute the covariances between the partial derivatives at every input, (m, d, d).

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

    def sample_functions(self, n: int = 1, *, key: int | np.random.Generator, features: int = 2000) -> Paths:
        """Draw whole functions, which can be evaluated at any inputs, repeatedly: ``paths(X)`` has shape (n, m).

        Uses Matheron's rule: a draw from the prior (random Fourier features) plus an update from the data. The cost of a new
        row does not depend on the other new rows, whereas :meth:`sample` needs their joint covariance. See
        ``covary.posterior.paths``.
        """
        return draw_paths(self.model, self.data, self.bound, self.solved, n, key=key, features=features)


def with_matrix(who: str, posterior: AbstractPosterior) -> Posterior:
    """Return the posterior if it is based on a single matrix; raise an error for a combination of experts."""
    if not isinstance(posterior, Posterior):
        what = "the posterior was computed with " + Option("gram", posterior.kind) + ", which has no single matrix"
        raise fail(who, what, "condition with " + Option("gram", "Dense()"))
    return posterior


@explained_function("sample_prior")
def sample_prior(prior: GP, X: Rows, n: int = 1, *, key: int | np.random.Generator) -> np.ndarray:
    """Draw samples of functions from a prior at inputs X: shape (n, m) (R&W, eq. 2.17).

    Examples
    --------
    >>> from covary import GP
    >>> sample_prior(GP("Matern52()"), [[0.0], [0.1], [0.2]], 5, key=0).shape
    (5, 3)
    """
    check_kind("sample_prior", "prior", prior, (GP,), "GP(kernel)")
    prior.check_kinds()
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
