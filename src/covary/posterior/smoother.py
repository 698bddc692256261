r"""Gaussian-process regression as a linear smoother, and the Nadaraya-Watson kernel smoother (R&W, section 2.6).

Under Gaussian noise the posterior mean is linear in the observations: :math:`\bar f = m + H(y - m)` at the training rows,
:math:`\bar f(x) = m(x) + h(x)^\top(y - m)` elsewhere. H, its trace and the weight functions h describe how a fit smooths,
independently of the observed values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from covary._checks import check_positive, check_vector, fail
from covary._errors import Option
from covary._memory import check_memory
from covary._precision import precision
from covary._threads import blas_threads
from covary._words import counted
from covary.data import Inputs, as_inputs
from covary.gram.dense import Dense, DenseBound
from covary.gram.markov import MarkovBound
from covary.kernels import host, tiles
from covary.kernels.base import AbstractKernel
from covary.kernels.text import parse
from covary.likelihoods.gaussian import Gaussian
from covary.posterior import Posterior
from covary.posterior.base import Rows
from covary.sites import Noise

CHUNK_BYTES = 2**26


def _linear(who: str, posterior: Posterior, kinds: tuple[type, ...] = (DenseBound,)) -> Posterior:
    """Return the posterior if its mean is linear in y and its gram has one of these types; otherwise raise an error."""
    if not isinstance(posterior, Posterior):
        raise fail(who, f"got {type(posterior).__name__}", "give a posterior, as condition(model, data) returns")
    if not isinstance(posterior.model.likelihood, Gaussian) or not posterior.observed:
        name = type(posterior.model.likelihood).__name__
        do = "use Gaussian noise with " + Option("inference", "Exact()")
        raise fail(who, f"the mean is not linear in y ({name}, {posterior.status})", do)
    if not isinstance(posterior.bound, kinds):
        what = "the posterior was computed with " + Option("gram", posterior.kind)
        raise fail(who, what, "condition with " + Option("gram", "Dense()"))
    return posterior


def smoother_matrix(posterior: Posterior) -> np.ndarray:
    r"""Return the matrix that maps observations to the posterior mean at the training rows.

    .. math:: H = K(K + S)^{-1} = I - S\,P,\qquad \bar f = m + H(y - m)

    P is :math:`(K+S)^{-1}` with explicit basis functions projected out. The diagonal contains the leverages: the leave-one-out
    prediction of row i is :math:`y_i - (y_i - \bar f_i)/(1 - H_{ii})`.

    Parameters
    ----------
    posterior
        A posterior with Gaussian noise, ``Exact()`` and ``Dense()``.

    References
    ----------
    Rasmussen & Williams (2006), eq. 2.35; Hastie & Tibshirani (1990), section 3.5.

    Examples
    --------
    >>> from covary import GP, Data, Model, condition
    >>> post = condition(Model(GP("Matern52()")), Data([[0.0], [1.0]], [0.0, 1.0]))
    >>> smoother_matrix(post).round(4)
    array([[0.4631, 0.1407],
           [0.1407, 0.4631]])
    """
    post = _linear("smoother_matrix", posterior)
    n = post.data.rows
    check_memory("smoother_matrix", 3 * n * n * post.data.dtype.itemsize, "use fewer rows")
    with precision(post.data.dtype), blas_threads(n):
        H = post.factor.solve(np.eye(n, dtype=post.data.dtype, order="F"))
    H *= -np.asarray(post.factor.spread)[:, None]
    H.flat[:: n + 1] += 1
    return H


def effective_degrees_of_freedom(posterior: Posterior) -> float:
    r"""Return the effective number of parameters of the fit: the trace of the smoother.

    .. math:: \mathrm{tr}\,H = \sum_i\frac{\lambda_i}{\lambda_i + \sigma^2} = n - \sum_i s_iP_{ii}

    It is between 0 (only noise) and n (interpolation); every basis function with a vague weight counts as one.

    Parameters
    ----------
    posterior
        A posterior with Gaussian noise, ``Exact()``, and ``Dense()`` or ``Markov()``.

    References
    ----------
    Rasmussen & Williams (2006), section 2.6; Hastie & Tibshirani (1990), section 3.5.

    Examples
    --------
    >>> from covary import GP, Data, Model, condition
    >>> post = condition(Model(GP("Matern52()")), Data([[0.0], [1.0]], [0.0, 1.0]))
    >>> round(effective_degrees_of_freedom(post), 4)
    0.9263
    """
    post = _linear("effective_degrees_of_freedom", posterior, (DenseBound, MarkovBound))
    with precision(post.data.dtype), blas_threads(post.data.rows):
        inverse = np.asarray(post.factor.diag_inverse(), np.float64)
    return float((1 - np.asarray(post.factor.spread, np.float64) * inverse).sum())


@dataclass(frozen=True)
class Shrinkage:
    """A smoother in its eigendirections: the fit is ``directions @ (factors * coefficients)``, factors in decreasing order."""

    factors: np.ndarray
    directions: np.ndarray = field(repr=False)
    coefficients: np.ndarray = field(repr=False)


def shrinkage(posterior: Posterior) -> Shrinkage:
    r"""Return the shrinkage of every direction of y by the smoother.

    .. math:: \bar f = m + \sum_i \frac{\lambda_i}{\lambda_i + \sigma^2}\,\gamma_i u_i,\qquad
        K = \sum_i\lambda_iu_iu_i^\top,\quad \gamma_i = u_i^\top(y - m)

    Smooth directions have large :math:`\lambda_i` and are retained, rough ones are suppressed. If rows differ in noise, u are
    the eigenvectors of :math:`S^{-1/2}KS^{-1/2}`, the directions are :math:`S^{1/2}u` and
    :math:`\gamma = u^\top S^{-1/2}(y-m)`. Basis functions with vague weights are not shrunk: their factors are one.

    Parameters
    ----------
    posterior
        A posterior with Gaussian noise, ``Exact()`` and ``Dense()``.

    References
    ----------
    Rasmussen & Williams (2006), eq. 2.36.

    Examples
    --------
    >>> from covary import GP, Data, Model, condition
    >>> post = condition(Model(GP("Matern52()")), Data([[0.0], [1.0]], [0.0, 1.0]))
    >>> shrinkage(post).factors.round(4)
    array([0.6038, 0.3225])
    """
    post = _linear("shrinkage", posterior)
    s, n = np.asarray(post.factor.spread, np.float64), post.data.rows
    equal = bool(np.ptp(s) == 0)
    if not equal and (s == 0).any():
        raise fail("shrinkage", "some rows are noise-free and others not", "give every row some noise, or none")
    check_memory("shrinkage", 5 * 8 * n * n, "use fewer rows")
    root = np.sqrt(s)
    with precision(post.data.dtype), blas_threads(n):
        P = np.asarray(post.factor.solve(np.eye(n, dtype=post.data.dtype, order="F")), np.float64)
    A = np.eye(n) - root[:, None] * (P + P.T) / 2 * root[None, :]
    values, vectors = np.linalg.eigh(A)
    factors, vectors = np.clip(values[::-1], 0.0, 1.0), vectors[:, ::-1]
    scale = np.ones(n) if equal else root
    shift = np.asarray(post.solved.shift, np.float64)
    target = shift / (scale if shift.ndim == 1 else scale[:, None])
    coefficients = vectors.T @ target
    return Shrinkage(factors, scale[:, None] * vectors, coefficients)


def weight_function(posterior: Posterior, X: Rows) -> np.ndarray:
    r"""Return the weight of every observation in the posterior mean at new inputs: shape (m, n).

    .. math:: h(x) = (K + S)^{-1}k(x),\qquad \bar f(x) = m(x) + h(x)^\top(y - m)

    The weights do not depend on y. With explicit basis functions, :math:`h^\top = k^\top P + b(x)^\top A^{-1}U^\top`. At the
    training rows they equal :func:`smoother_matrix`.

    Parameters
    ----------
    posterior
        A posterior with Gaussian noise, ``Exact()`` and ``Dense()``.
    X
        New inputs (m, d).

    References
    ----------
    Rasmussen & Williams (2006), section 2.6, figure 2.6.

    Examples
    --------
    >>> from covary import GP, Data, Model, condition
    >>> post = condition(Model(GP("Matern52()")), Data([[0.0], [1.0]], [0.0, 1.0]))
    >>> weight_function(post, [[0.5]]).round(4)
    array([[0.3283, 0.3283]])
    """
    who = "weight_function"
    post = _linear(who, posterior)
    inputs = post._inputs(X, who)
    check_memory(who, 3 * inputs.rows * post.data.rows * post.data.dtype.itemsize, "use fewer rows at a time")
    with precision(post.data.dtype), blas_threads(post.data.rows):
        Ks = tiles.cross(post.bound.kernels[0], post.data.X, inputs)
        out = post.factor.solve(Ks).T
        if post.bound.basis is not None:
            U, inverse, _ = post.factor.project()
            out = out + post.basis_at(inputs) @ inverse @ U.T
    return out


def equivalent_kernel(kernel: AbstractKernel | str, noise: float, grid: Inputs | ArrayLike, n: float) -> np.ndarray:
    r"""Return the weight function of n observations spread evenly over a region, independent of their exact positions.

    .. math:: \frac{g}{n}\,K(K + \sigma_g^2I)^{-1},\qquad \sigma_g^2 = \sigma^2\,\frac gn

    on a fine, even grid of g points: each of the n observations is replaced by several noisier ones with the same information
    in total. Row i contains the weight of an observation at every grid point in the mean at grid point i; times n it is
    :math:`h_n(x, x')` of eq. 7.7, which does not depend on the grid. It becomes narrower with more data or less noise.

    Parameters
    ----------
    kernel
        A kernel, or its text.
    noise
        The noise variance σ² of one observation.
    grid
        Points (g, d) that fill the region evenly.
    n
        The number of observations in the region.

    References
    ----------
    Rasmussen & Williams (2006), section 2.6, figure 2.6d; section 7.1, eq. 7.7; Silverman (1984).

    Examples
    --------
    >>> h = equivalent_kernel("SquaredExponential(lengthscale=0.0632)", 0.1, np.linspace(0, 1, 401)[:, None], 50)
    >>> round(float(50 * h[200, 200]), 1)
    14.5
    """
    who = "equivalent_kernel"
    kernel = parse(kernel) if isinstance(kernel, str) else kernel
    if not isinstance(kernel, AbstractKernel):
        raise fail(who, f"kernel is {kernel!r}", "give a kernel from covary.kernels or its text", argument="kernel")
    check_positive(who, "noise", noise)
    check_positive(who, "n", n)
    inputs = as_inputs(grid, who, "grid")
    kernel.check(inputs)
    g = inputs.rows
    check_memory(who, 4 * 8 * g * g, "use a coarser grid")
    own = float(noise) * g / float(n)
    with precision(inputs.x.dtype), blas_threads(g):
        factor = Dense().bind((kernel,), inputs).factor(Noise(np.full(g, own, inputs.x.dtype)))
        H = factor.solve(np.eye(g, dtype=inputs.x.dtype, order="F"))
    H *= -own
    H.flat[:: g + 1] += 1
    return H * (g / float(n))


class NadarayaWatson:
    r"""The Nadaraya-Watson kernel smoother: every prediction is a weighted mean of nearby observations.

    .. math:: \hat f(x) = \sum_iw_iy_i,\qquad w_i = \frac{\kappa_i}{\sum_j\kappa_j},\qquad \kappa_i = \kappa(|x_i - x|/\ell)

    κ need not be a covariance function. It is a baseline: cheaper than a Gaussian process, but without error bars. If κ is zero
    at all rows, the nearest row is used, which is the limit of a narrow κ.

    Parameters
    ----------
    kernel
        A kernel, its text, or a function κ(r) ≥ 0 of the scaled distance, in NumPy.
    lengthscale
        ℓ, for a function κ: one number, or one per column (kernels have their own).

    References
    ----------
    Nadaraya (1964); Watson (1964); Rasmussen & Williams (2006), section 2.6.

    Examples
    --------
    >>> smooth = NadarayaWatson("SquaredExponential(lengthscale=0.5)").fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
    >>> smooth.predict([[1.0]]).round(4)
    array([0.787])
    >>> box = NadarayaWatson(lambda r: r < 1, lengthscale=1.5).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
    >>> box.predict([[0.0], [9.0]])
    array([0.5, 0. ])
    """

    def __init__(
        self,
        kernel: AbstractKernel | str | Callable[[np.ndarray], np.ndarray] = "SquaredExponential()",
        *,
        lengthscale: ArrayLike = 1.0,
    ) -> None:
        self.kernel = kernel
        self.lengthscale = lengthscale

    def fit(self, X: Inputs | ArrayLike, y: ArrayLike) -> NadarayaWatson:
        """Store the training data: inputs (n, d), observations (n,) or (n, p) (for example one column per class)."""
        who = "NadarayaWatson"
        inputs = as_inputs(X, who)
        kappa = parse(self.kernel) if isinstance(self.kernel, str) else self.kernel
        if isinstance(kappa, AbstractKernel):
            kappa.check(inputs)
        elif not callable(kappa):
            what = f"kernel is {kappa!r}"
            raise fail(who, what, "give a kernel, its text, or a function of the scaled distance", argument="kernel")
        check_positive(who, "lengthscale", self.lengthscale)
        if np.shape(self.lengthscale) not in ((), (inputs.columns,)):
            what = (
                f"lengthscale has shape {np.shape(self.lengthscale)} but "
                + Option("X")
                + f" has {counted(inputs.columns, 'column')}"
            )
            raise fail(who, what, "give one number or one per column", argument="lengthscale")
        y = np.asarray(y)
        if y.ndim == 1:
            y = check_vector(who, "y", y, inputs.rows)
        elif y.ndim != 2 or y.shape[0] != inputs.rows:
            what = Option("y") + f" has shape {y.shape} but " + Option("X") + f" has {counted(inputs.rows, 'row')}"
            raise fail(who, what, "give one row of y per row of X")
        self.kappa_, self.X_, self.y_ = kappa, inputs, y.astype(inputs.x.dtype)
        return self

    def weights(self, X: Inputs | ArrayLike) -> np.ndarray:
        """Return the weight of every training row in the prediction at every new input: shape (m, n), rows sum to one."""
        if not hasattr(self, "X_"):
            raise fail("NadarayaWatson", "it has not been fitted", "call fit(X, y) first")
        inputs = as_inputs(X, "NadarayaWatson")
        if inputs.columns != self.X_.columns:
            what = Option("X") + f" has {counted(inputs.columns, 'column')} but {self.X_.columns} were fitted"
            raise fail("NadarayaWatson", what, "give the same columns")
        return self._weights(inputs.with_x(inputs.x.astype(self.X_.x.dtype)))

    def _weights(self, X: Inputs) -> np.ndarray:
        own = not isinstance(self.kappa_, AbstractKernel)
        scale = np.broadcast_to(1 / np.square(np.asarray(self.lengthscale if own else 1.0, float)), (X.columns,))
        near = host.square_distances(*host.centred(X.x, self.X_.x), scale.astype(X.x.dtype))
        if isinstance(self.kappa_, AbstractKernel):
            with precision(X.x.dtype):
                K = tiles.cross(self.kappa_, self.X_, X).T
        else:
            K = np.asarray(self.kappa_(np.sqrt(near)), X.x.dtype)
        total = K.sum(1, keepdims=True)
        alone = np.zeros_like(K)
        alone[np.arange(len(K)), near.argmin(1)] = 1.0
        return np.where(total > 0, K / np.where(total > 0, total, 1.0), alone)

    def predict(self, X: Inputs | ArrayLike) -> np.ndarray:
        """Return the weighted means at new inputs: (m,), or (m, p)."""
        inputs = as_inputs(X, "NadarayaWatson")
        rows = max(1, CHUNK_BYTES // (8 * 4 * self.X_.rows)) if hasattr(self, "X_") else inputs.rows
        parts = [self.weights(inputs.take(slice(i, i + rows))) @ self.y_ for i in range(0, inputs.rows, rows)]
        return np.concatenate(parts)
