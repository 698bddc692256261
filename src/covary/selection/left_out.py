r"""Cross-validation scores as objectives for :func:`covary.learn` (R&W, section 5.4.2).

With :math:`R = (K + S)^{-1}` and :math:`\alpha = R r`, r = y − m(X), the rows F of a fold are predicted from all others with

.. math:: r_F - E[r_F\mid r_{-F}] = e_F = C\alpha_F,\qquad \mathrm{cov}[r_F\mid r_{-F}] = C,\qquad C = R_{FF}^{-1},

(the partitioned inverse, R&W, eq. A.11), so one factorisation of all rows is enough for every fold; for single rows this is
eq. 5.12. Explicit basis functions with vague weights turn R into :math:`P = R - U M^{-1}U^\top` and change nothing else: P is
the limit of :math:`(K + S + HBH^\top)^{-1}`.

The gradient in the book (eq. 5.14) takes one matrix product per hyperparameter; here one product covers all of them. From
:math:`dP = -P\,dK\,P` and :math:`d\alpha = -P\,dK\,\alpha + P\,dr`, a score with slopes :math:`\bar\alpha` and
:math:`\bar P` (block-diagonal, a block for each fold) has

.. math:: \bar K = -\mathrm{sym}(u\alpha^\top) - P\bar P P,\qquad \bar r = u,\qquad \bar S = \mathrm{diag}\,\bar K,
    \qquad u = P\bar\alpha,

and the kernel is differentiated once, with :math:`\bar K`. For the terms of a fold, with slopes :math:`\bar e`, and
:math:`\bar c` with respect to the diagonal of C: :math:`\bar\alpha_F = C\bar e` and
:math:`\bar P_{FF} = -C\,\mathrm{diag}(\bar c)\,C - \mathrm{sym}(\bar\alpha_Fe_F^\top)`.

A row of weight w is left out with all the observations it represents; known noise belongs to its row.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self, TypeAlias

import numpy as np
from scipy import linalg

from covary._checks import NotPositiveDefinite, fail
from covary._errors import Option
from covary._memory import check_memory
from covary._precision import precision
from covary._threads import blas_threads
from covary._words import counted
from covary.data import Data
from covary.gram.base import AbstractGram, columns
from covary.gram.dense import Dense, DenseBound
from covary.gram.linalg import Lapack
from covary.inference.base import AbstractInference
from covary.inference.condition import as_model, bind, condition
from covary.inference.exact import Exact, residual
from covary.kernels import tiles
from covary.likelihoods.gaussian import Gaussian
from covary.model import Model, shaped
from covary.posterior.leave_one_out import fold_covariance, residuals

Folds: TypeAlias = list[np.ndarray]  # the rows of every fold

LOSSES = ("log density", "squared error")
UNSETTLED = 1e-10  # relative to R: rounding error in P where the other rows do not determine a basis weight


class _Parts(NamedTuple):
    """P, full; alpha (n, p); the diagonal of R, which equals that of P without a basis; the bound gram."""

    P: np.ndarray
    alpha: np.ndarray
    alone: np.ndarray
    bound: DenseBound


class _Slopes(NamedTuple):
    """A score with its slopes: in alpha (n, p), and in P as a diagonal (n,) or as one block per fold."""

    value: float
    alpha: np.ndarray
    P: np.ndarray | list[np.ndarray]
    repeats: bool  # whether the scatter within rows of weight w is included


def _solve(who: str, model: Model, data: Data, jitter: float) -> _Parts:
    """Compute the inverse that all scores use, by one factorisation with fixed jitter, so that the objective is continuous."""
    bound, likelihood = bind(who, model, data, Dense()), model.gaussian
    assert isinstance(bound, DenseBound)
    n, item = data.rows, data.dtype.itemsize
    check_memory(who, 4 * n * n * item, "use fewer rows")
    sites, shift = likelihood.sites(data), residual(model, data)
    try:
        factor = bound.noise_factor(sites, jitter)
    except NotPositiveDefinite:
        what = "K + noise has no Cholesky factor at these parameters"
        raise NotPositiveDefinite(who, what, "raise the noise or the jitter") from None
    alpha = columns(factor.alpha(shift))
    projected = None if bound.basis is None else factor.project()[:2]
    P = tiles.mirror(factor.inverse(consume=True))
    diagonal = np.diagonal(P).astype(np.float64)
    if projected is not None:
        U, inverse = projected
        P -= U @ inverse @ U.T
    return _Parts(P, alpha, diagonal, bound)


def _gradient(model: Model, data: Data, parts: _Parts, slopes: _Slopes, folds: Folds | None = None) -> Model:
    """Return the gradient as a model: one matrix product and one kernel pullback, however many parameters there are."""
    P, alpha = parts.P, parts.alpha
    u = Lapack.times(P, np.asfortranarray(slopes.alpha))
    if folds is None:  # P diag(b) P with b ≥ 0, its lower triangle
        (syrk,) = linalg.get_blas_funcs(("syrk",), (P,))
        G = syrk(1.0, np.multiply(P, np.sqrt(slopes.P), order="F"), lower=1)
    else:
        half = np.empty_like(P, order="F")
        for rows, block in zip(folds, slopes.P, strict=True):
            half[rows] = block @ P[rows]
        G = Lapack.times(P, half)
    own = -(u * alpha).sum(1) - np.einsum("ii->i", G)
    kernel = tiles.pull_gram(parts.bound.kernel, data.X, G, -1.0, -u, alpha, parts.bound.gram.tile)
    noise = float((own if data.weight is None else own / data.weight).sum())
    if slopes.repeats:
        noise += model.gaussian.repeats(data)[1]
    return shaped(model, kernel, model.mean.pull(data.X, -u.sum(1)), model.likelihood.replace(variance=noise))


def _log_density(e: np.ndarray, c: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Return Σ log N(e | 0, c) over rows and outputs, and its slopes in e (n, p) and c (n,)."""
    c = c[:, None]
    value = -0.5 * (np.log(2 * np.pi * c) + e * e / c).sum()
    return float(value), -e / c, (0.5 * (e * e / c - 1) / c).sum(1)


def _mean_square(e: np.ndarray, data: Data) -> tuple[float, np.ndarray, float]:
    """Return the mean squared error over all observations, its slope in e, and the number of observations."""
    w = np.ones(len(e)) if data.weight is None else data.weight.astype(np.float64)
    count = float(w.sum()) * e.shape[1]
    scatter = 0.0 if data.scatter is None else float(data.scatter.sum())
    return (float((w[:, None] * e * e).sum()) + scatter) / count, 2 * w[:, None] * e / count, count


def _profiled(who: str, error: float, count: float) -> tuple[float, float]:
    """Return −(count/2) log(error), the log density under the best common variance up to constants, and its slope."""
    if error <= 0:
        raise fail(who, "the error is exactly zero", "the data are noise-free: use the log evidence")
    return -0.5 * count * float(np.log(error)), -0.5 * count / error


def _value(who: str, loss: str, e: np.ndarray, c: np.ndarray, model: Model, data: Data) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the objective for errors e with variances c, and its slopes over both."""
    if loss == "log density":
        value, e_bar, c_bar = _log_density(e, c)
        return value + model.gaussian.repeats(data)[0], e_bar, c_bar
    error, e_bar, count = _mean_square(e, data)
    value, slope = _profiled(who, error, count)
    return value, slope * e_bar, np.zeros(len(e))


def _gaussian(who: str, model: Model, data: Data) -> Model:
    """Return the model if its rows can be left out in closed form; raise an error otherwise."""
    model = as_model(model)
    if not isinstance(data, Data):
        raise fail(who, f"got {type(data).__name__} for the data", "give Data(X, y)")
    if not isinstance(model.likelihood, Gaussian) or len(model.prior.kernels) != 1:
        what = type(model.likelihood).__name__
        raise fail(who, f"the likelihood is {what}", "use Gaussian noise, or learn by the log evidence")
    return model


def _check_loss(who: str, loss: str) -> None:
    if loss not in LOSSES:
        raise fail(who, Option("loss") + f" is {loss!r}", f"choose {' or '.join(map(repr, LOSSES))}")


def _block_inverse(who: str, parts: _Parts, rows: np.ndarray) -> np.ndarray:
    """Return the covariance of a fold given all others, P_FF⁻¹."""
    scale = 1 / np.sqrt(parts.alone[rows])
    C, pivot = fold_covariance(parts.P[np.ix_(rows, rows)], scale)
    vague = parts.bound.basis is not None
    if C is None and not vague:
        raise NotPositiveDefinite(who, "the inverse of K + noise is inaccurate", "raise the noise or the jitter")
    if C is None or (vague and pivot <= UNSETTLED):
        first = f"without row {rows[0]}" if len(rows) == 1 else f"without the fold of row {rows[0]}"
        what = f"{first}, the others do not determine the basis functions' weights"
        raise fail(who, what, "give more rows, or more folds")
    return C


class ClosedForm:
    """A base class for closed-form scores, with or without gradient; subclasses implement ``_slopes``."""

    jitter: float

    def with_jitter(self, jitter: float) -> Self:
        """Return a copy with this jitter."""
        return replace(self, jitter=jitter)  # type: ignore[type-var]  # every closed form is a dataclass

    @property
    def _who(self) -> str:
        return type(self).__name__

    def _folds(self, data: Data) -> Folds | None:
        return None

    def _slopes(self, parts: _Parts, model: Model, data: Data, folds: Folds | None) -> _Slopes:
        raise NotImplementedError

    def __call__(self, model: Model, data: Data) -> float:
        """Return the objective."""
        model = _gaussian(self._who, model, data)
        with precision(data.dtype), blas_threads(data.rows):
            return self._slopes(_solve(self._who, model, data, self.jitter), model, data, self._folds(data)).value

    def value_and_grad(self, model: Model, data: Data) -> tuple[float, Model]:
        """Return the objective and its gradient, as a model that holds the derivatives."""
        model = _gaussian(self._who, model, data)
        folds = self._folds(data)
        with precision(data.dtype), blas_threads(data.rows):
            parts = _solve(self._who, model, data, self.jitter)
            slopes = self._slopes(parts, model, data, folds)
            return slopes.value, _gradient(model, data, parts, slopes, folds)


@dataclass(frozen=True)
class LeaveOneOut(ClosedForm):
    r"""Leave-one-out cross-validation of every row.

    .. math:: L_{\rm LOO} = \sum_i \log N(y_i\mid\mu_i, \sigma_i^2),\qquad
        \mu_i = y_i - \frac{\alpha_i}{P_{ii}},\quad \sigma_i^2 = \frac1{P_{ii}}

    the log pseudo-likelihood, considered more robust to misspecification than the evidence. With ``loss="squared error"``
    it is :math:`-\tfrac n2\log\bigl(\tfrac1n\sum_i (y_i-\mu_i)^2\bigr)`, a decreasing function of the mean squared error
    in nats, as the search requires. The squared error does not depend on the common scale of kernel and noise: keep one of
    them fixed. Gaussian noise only; O(n³) for value and gradient together, for any number of parameters.

    Parameters
    ----------
    loss
        ``"log density"`` or ``"squared error"``.
    jitter
        Constant added to the diagonal of K, as a fraction of its mean; it is not increased automatically.

    References
    ----------
    Rasmussen & Williams (2006), eqs. 5.10–5.14, section 5.4.2; Sundararajan & Keerthi (2001).

    Examples
    --------
    >>> from covary import GP, Data, Model, learn
    >>> data = Data([[0.0], [1.0], [3.0]], [0.0, 1.0, 0.5])
    >>> round(LeaveOneOut()(Model(GP("Matern52()")), data), 4)
    -4.0374
    >>> learn(Model(GP("Matern52()")), data, objective=LeaveOneOut()).status
    'converged'
    """

    loss: str = "log density"
    jitter: float = 0.0

    def error(self, model: Model, data: Data) -> float:
        """Return the mean squared error itself, in the units of y squared."""
        model = _gaussian(self._who, model, data)
        with precision(data.dtype), blas_threads(data.rows):
            parts = _solve(self._who, model, data, self.jitter)
        return _mean_square(residuals(parts.alpha, self._diagonal(parts))[0], data)[0]

    def _diagonal(self, parts: _Parts) -> np.ndarray:
        p = np.diagonal(parts.P).astype(np.float64)
        if (p <= UNSETTLED * parts.alone).any():
            what = f"without row {int((p / parts.alone).argmin())}, the others do not determine the basis functions' weights"
            raise fail(self._who, what, "give more rows, or fewer basis functions")
        return p

    def _slopes(self, parts: _Parts, model: Model, data: Data, folds: Folds | None) -> _Slopes:
        _check_loss(self._who, self.loss)
        p = self._diagonal(parts)
        e, c = residuals(parts.alpha, p)
        value, e_bar, c_bar = _value(self._who, self.loss, e, c, model, data)
        dtype, wide = parts.P.dtype, p[:, None]  # e = alpha/p, c = 1/p
        p_bar = -(e_bar * e / wide).sum(1) - c_bar / p**2
        return _Slopes(value, (e_bar / wide).astype(dtype), p_bar.astype(dtype), self.loss == "log density")


@dataclass(frozen=True)
class GeneralisedCrossValidation(ClosedForm):
    r"""Generalised cross-validation of the linear smoother :math:`\hat y = Hy`, :math:`H = K(K + \sigma^2I)^{-1}`.

    .. math:: \mathrm{GCV} = \frac{\tfrac1n\lVert(I-H)\,r\rVert^2}{\bigl(\tfrac1n\mathrm{tr}(I-H)\bigr)^2}
        = \frac{n\,\alpha^\top\alpha}{(\mathrm{tr}\,P)^2}

    The leave-one-out squared error with every leverage replaced by their mean. The objective is
    :math:`-\tfrac n2\log\mathrm{GCV}`, in nats; the criterion itself is :meth:`error`. Like the squared error, it does not
    depend on the common scale of kernel and noise. It assumes equal noise: known noise per row and weights raise an error.

    Parameters
    ----------
    jitter
        Constant added to the diagonal of K, as a fraction of its mean; it is not increased automatically.

    References
    ----------
    Craven & Wahba (1979); Rasmussen & Williams (2006), section 5.4.2; Wahba (1990), section 4.3.

    Examples
    --------
    >>> from covary import GP, Data, Model
    >>> data = Data([[0.0], [1.0], [3.0]], [0.0, 1.0, 0.5])
    >>> round(GeneralisedCrossValidation().error(Model(GP("Matern52()")), data), 4)
    0.4071
    """

    jitter: float = 0.0

    def error(self, model: Model, data: Data) -> float:
        """Return the criterion itself, in the units of y squared."""
        return float(np.exp(-2 * self(model, data) / (data.rows * (data.y.shape[1] if data.y.ndim == 2 else 1))))

    def _slopes(self, parts: _Parts, model: Model, data: Data, folds: Folds | None) -> _Slopes:
        if any(v is not None for v in (data.noise_variance, data.weight, data.scatter)):
            what = "the data have known noise, weights or merged rows"
            raise fail(self._who, what, "use LeaveOneOut(), which supports them")
        n, count = data.rows, parts.alpha.size
        square, trace = float((parts.alpha.astype(np.float64) ** 2).sum()), float(np.diagonal(parts.P).sum())
        value, slope = _profiled(self._who, square * n * n / (count * trace**2), count)
        alpha_bar = parts.alpha * (2 * slope * n * n / (count * trace**2))
        return _Slopes(value, alpha_bar, np.full(n, count / trace, parts.P.dtype), False)


@dataclass(frozen=True)
class KFold(ClosedForm):
    r"""k-fold cross-validation: every row is predicted from the other folds.

    .. math:: \sum_F\sum_{i\in F}\log p(y_i\mid y_{-F})

    With ``loss="squared error"`` it is :math:`-\tfrac n2\log` of the mean squared error, which :meth:`error` returns. The
    value is available for any model, by conditioning k times with ``inference`` and ``gram``. Under Gaussian noise with
    ``Exact()`` and ``Dense()``, one factorisation is enough for all folds, and there is a gradient for :func:`covary.learn`.
    k = n is :class:`LeaveOneOut`.

    Parameters
    ----------
    k
        Number of folds, equal in size to within one row.
    loss
        ``"log density"`` or ``"squared error"``.
    seed
        Seed of the random assignment of rows to folds.
    inference, gram
        As in :func:`covary.condition`.
    jitter
        Constant added to the diagonal of K, as a fraction of its mean; it is not increased automatically.

    References
    ----------
    Rasmussen & Williams (2006), section 5.3; eq. A.11 for the closed form.

    Examples
    --------
    >>> from covary import GP, Data, Model
    >>> data = Data([[0.0], [1.0], [3.0]], [0.0, 1.0, 0.5])
    >>> round(KFold(3)(Model(GP("Matern52()")), data), 4)
    -4.0374
    """

    k: int = 10
    loss: str = "log density"
    seed: int = 0
    inference: AbstractInference = field(default_factory=Exact)
    gram: AbstractGram = field(default_factory=Dense)
    jitter: float = 0.0

    def rows(self, data: Data) -> list[np.ndarray]:
        """Return the rows of every fold."""
        if isinstance(self.k, bool) or not isinstance(self.k, int | np.integer) or not 2 <= self.k <= data.rows:
            what = f"k is {self.k!r} for {counted(data.rows, 'row')}"
            raise fail("KFold", what, "give a number of folds from 2 to the number of rows", argument="k")
        return [np.sort(f) for f in np.array_split(np.random.default_rng(self.seed).permutation(data.rows), self.k)]

    def _folds(self, data: Data) -> Folds | None:
        return self.rows(data)

    def _closed(self, model: Model) -> bool:
        plain = isinstance(self.inference, Exact) and isinstance(self.gram, Dense)
        return plain and isinstance(model.likelihood, Gaussian)

    def __call__(self, model: Model, data: Data) -> float:
        """Return the objective."""
        _check_loss("KFold", self.loss)
        if self._closed(as_model(model)):
            return ClosedForm.__call__(self, model, data)
        if self.loss == "log density":
            return float(self._refits(model, data)[0].sum())
        return _profiled(self._who, self.error(model, data), self._count(data))[0]

    def value_and_grad(self, model: Model, data: Data) -> tuple[float, Model]:
        """Return the objective and its gradient, as a model that holds the derivatives."""
        if not self._closed(as_model(model)):
            what = "only Gaussian noise and exact algebra have a gradient of cross-validation"
            raise fail("KFold", what, "maximise the log evidence, and use this value to compare models")
        return ClosedForm.value_and_grad(self, model, data)

    def error(self, model: Model, data: Data) -> float:
        """Return the mean squared error itself, in the units of y squared."""
        model = as_model(model)
        if model.likelihood.support == "labels" or model.likelihood.sized:
            name = type(model.likelihood).__name__
            what = f"a squared error is requested for {name} observations"
            raise fail("KFold", what, "use " + Option("loss", "'log density'"))
        if not self._closed(model):
            return _mean_square(columns(self._refits(model, data)[1]), data)[0]
        with precision(data.dtype), blas_threads(data.rows):
            parts = _solve("KFold", model, data, self.jitter)
            e = np.empty(parts.alpha.shape)
            for rows in self.rows(data):
                e[rows] = _block_inverse("KFold", parts, rows) @ parts.alpha[rows]
        return _mean_square(e, data)[0]

    @staticmethod
    def _count(data: Data) -> float:
        weight = data.rows if data.weight is None else float(data.weight.sum())
        return weight * (data.y.shape[1] if data.y.ndim == 2 else 1)

    def _refits(self, model: Model, data: Data) -> tuple[np.ndarray, np.ndarray]:
        """Return the log density of every row and its error, by conditioning on the other folds."""
        model = as_model(model)
        density, error, likelihood = np.zeros(data.rows), np.zeros(data.y.shape), model.likelihood
        for rows in self.rows(data):
            rest, out = np.setdiff1d(np.arange(data.rows), rows), data.take(rows)
            seen = condition(model, data.take(rest), inference=self.inference, gram=self.gram).predict(out.X)
            if isinstance(likelihood, Gaussian):
                e = columns(out.y - seen.f.mean)
                c = columns(seen.f.variance + np.asarray(likelihood.sites(out).variance))
                density[rows] = -0.5 * (np.log(2 * np.pi * c) + e * e / c).sum(1)
                error[rows] = e.reshape(out.y.shape)
            else:
                density[rows] = seen.y.log_prob(out.y) * (1.0 if out.weight is None else out.weight)
                if likelihood.support != "labels" and not likelihood.sized:
                    error[rows] = out.y - seen.y.mean
        if isinstance(likelihood, Gaussian) and data.rows:
            density[0] += likelihood.repeats(data)[0]
        return density, error

    def _slopes(self, parts: _Parts, model: Model, data: Data, folds: Folds | None) -> _Slopes:
        assert folds is not None
        e, c = np.empty(parts.alpha.shape), np.empty(data.rows)
        blocks = []
        for rows in folds:
            C = _block_inverse("KFold", parts, rows)
            e[rows], c[rows] = C @ parts.alpha[rows], np.diagonal(C)
            blocks.append(C)
        value, e_bar, c_bar = _value(self._who, self.loss, e, c, model, data)
        dtype, alpha_bar, P_bar = parts.P.dtype, np.empty_like(parts.alpha), []
        for rows, C in zip(folds, blocks, strict=True):
            bar = C @ e_bar[rows]
            both = bar @ e[rows].T
            alpha_bar[rows] = bar
            P_bar.append((-(C * c_bar[rows]) @ C - (both + both.T) / 2).astype(dtype))
        return _Slopes(value, alpha_bar, P_bar, self.loss == "log density")
