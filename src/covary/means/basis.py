r"""Explicit basis functions (R&W, section 2.7).

The model is :math:`g(x) = f(x) + h(x)^\top\beta`. The weights are :math:`\beta \sim N(b, B)`, so that g is a Gaussian process
again (eq. 2.40), or vague, the limit :math:`B^{-1} \to O` (eq. 2.42). They are never sampled or optimised: the gram projects
them out, which needs no kernel with huge entries, so that they work under every inference.

A :class:`Basis` holds the functions and the covariance B of the weights. Their prior mean b is a mean function,
:class:`BasisMean`, since h(x)ᵀb is what the prior expects of g; :func:`gaussian_weights` gives both:
``GP(kernel, **gaussian_weights(h, mean=b, covariance=B))``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy import linalg

from covary._checks import fail
from covary._module import Module, child, static
from covary._words import counted
from covary.data import Inputs
from covary.means.coordinates import orthogonalising
from covary.means.functions import AbstractMean
from covary.parameters import fixed, real


class WeightPrior(NamedTuple):
    """The covariance of the weights as the gram uses it: β = C γ with γ ~ N(0, I), or flat where not ``proper``."""

    root: np.ndarray  # C of B = C Cᵀ, shape (m, m); a row and column of the identity for a vague weight
    proper: np.ndarray  # one for a weight with a covariance, zero for a vague one

    @property
    def vague(self) -> np.ndarray:
        """Which weights are vague."""
        return np.asarray(self.proper == 0)


class Coordinates(NamedTuple):
    r"""Weights as the gram uses them, :math:`u = R\beta`, so that neither units nor offsets of the columns cost digits.

    With :math:`R^\top R = H^\top H + B^{-1}`, eliminating the weights means inverting
    :math:`R^{-\top}(B^{-1} + H^\top K_y^{-1}H)R^{-1}`, which is as well conditioned as :math:`K_y`; ``log_det`` is what the
    change of coordinates and log det B add to its log determinant.
    """

    prior: WeightPrior
    R: np.ndarray  # (m, m), upper triangular
    precision: np.ndarray  # (m, m): R⁻ᵀB⁻¹R⁻¹, where vague weights have none
    log_det: float
    dependent: bool  # vague weights that these rows cannot tell apart

    def at(self, H: np.ndarray) -> np.ndarray:
        """Basis functions h(x) at any rows, in these coordinates."""
        return linalg.solve_triangular(self.R, np.asarray(H, np.float64).T, trans=1).T.astype(H.dtype)

    def original(self, u: Any) -> np.ndarray:
        """Weights of the basis functions as they were given, (m, ...)."""
        flat = linalg.solve_triangular(self.R, np.asarray(u, np.float64).reshape(len(u), -1))
        return flat.reshape(np.shape(u)).astype(u.dtype)


def coordinates(H: np.ndarray, prior: WeightPrior) -> Coordinates:
    """Those of the basis functions at the rows learned from."""
    own = prior.proper[:, None] * linalg.solve_triangular(prior.root, np.eye(len(prior.root)), lower=True)
    R, dependent = orthogonalising(np.concatenate([H, own.astype(H.dtype)]))
    half = linalg.solve_triangular(R, own.T, trans=1)
    log_det = 2 * float(np.log(np.diagonal(R)).sum() + np.log(np.diagonal(prior.root)).sum())
    return Coordinates(prior, R, half @ half.T, log_det, bool(dependent.any()))


class Evaluated(np.ndarray):
    """H R⁻¹ of shape (n, m) with its coordinates beside it; what is computed from it is a plain array."""

    coordinates: Coordinates

    def __array_finalize__(self, other: Any) -> None:
        self.coordinates = getattr(other, "coordinates", None)  # type: ignore[assignment]

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        out = np.asarray(array)
        return out[()] if return_scalar else out

    def __reduce__(self) -> Any:
        return _evaluated, (np.asarray(self), self.coordinates)


def _evaluated(H: np.ndarray, found: Coordinates) -> Evaluated:
    out = H.view(Evaluated)
    out.coordinates = found
    return out


class Basis(Module):
    r"""Basis functions h(x) whose weights are Gaussian around zero, :math:`\beta \sim N(0, B)`, or vague.

    Any function of the table x (n, d) that returns (n, m), in NumPy. For a prior mean of the weights see
    :func:`gaussian_weights`.

    Parameters
    ----------
    function
        The basis functions.
    covariance
        None (all weights vague), one variance for every weight, one each, or the matrix B (m, m). An infinite variance
        makes that weight vague.

    References
    ----------
    Rasmussen & Williams (2006), eqs. 2.39 to 2.45.

    Examples
    --------
    >>> from covary.data import as_inputs
    >>> Basis(lambda x: x**2).evaluate(as_inputs([[3.0]]))
    array([[9.]])
    """

    function: Callable[[np.ndarray], Any] = static()
    _: KW_ONLY
    covariance: Any = child(None)

    def evaluate(self, X: Inputs) -> np.ndarray:
        """h(x) for every row: shape (n, m)."""
        return _table(self.function, np.asarray(X.x))

    def bind(self, X: Inputs) -> Evaluated:
        """The same at the rows learned from, in coordinates of their own."""
        H = self.evaluate(X)
        found = coordinates(H, self.weight_prior(H.shape[1]))
        return _evaluated(found.at(H), found)

    def weight_prior(self, m: int) -> WeightPrior:
        """The prior of the m weights."""
        who = "means.Basis"
        if self.covariance is None:
            return WeightPrior(np.eye(m), np.zeros(m))
        B = np.asarray(self.covariance, np.float64)
        if B.ndim < 2:
            if B.shape not in ((), (m,)):
                raise fail(who, f"{len(B)} variances are given for {m} basis functions", "give one number, or one each")
            if not (B > 0).all():
                raise fail(who, f"a weight has variance {B[~(B > 0)].ravel()[0]:g}", "give positive numbers")
            B = np.diag(np.broadcast_to(B, (m,)))
        if B.shape != (m, m):
            raise fail(
                who, f"the covariance has shape {B.shape} for {m} basis functions", "give a square matrix of their number"
            )
        flat = np.isinf(np.diagonal(B))
        keep = ~flat
        inner = B[np.ix_(keep, keep)]
        sound = np.isfinite(inner).all() and np.allclose(inner, inner.T, rtol=1e-10, atol=0)
        if not sound or np.any(B[np.ix_(flat, keep)]) or np.any(B[np.ix_(keep, flat)]):
            raise fail(
                who, "the covariance is not symmetric and finite", "tie vague weights to no other, and the rest in pairs"
            )
        root = np.eye(m)
        try:
            root[np.ix_(keep, keep)] = np.linalg.cholesky(inner)
        except np.linalg.LinAlgError:
            raise fail(who, "the covariance is not positive definite", "check its entries, or give variances only") from None
        return WeightPrior(root, keep.astype(np.float64))


class BasisMean(AbstractMean):
    r"""A mean function linear in its weights, :math:`m(x) = h(x)^\top b`, learned or held with ``fixed(b)``.

    Learned, it is the alternative to integrating the weights out; held, it is the prior mean of a :class:`Basis`.

    Parameters
    ----------
    function
        The basis functions, as in :class:`Basis`.
    weights
        One weight each.

    Examples
    --------
    >>> from covary.data import as_inputs
    >>> BasisMean(lambda x: x**2, weights=[0.5]).evaluate(as_inputs([[3.0]]))
    array([4.5])
    """

    function: Callable[[np.ndarray], Any] = static()
    _: KW_ONLY
    weights: Any = real(0.0)

    def check(self, X: Inputs) -> None:
        m = _table(self.function, np.asarray(X.x[:1])).shape[1]
        if np.shape(self.weights) not in ((), (m,)):
            raise fail(
                "means.BasisMean", f"weights has shape {np.shape(self.weights)} for {m} basis functions", "give one each"
            )

    def evaluate(self, X: Inputs) -> np.ndarray:
        H = _table(self.function, np.asarray(X.x))
        return H @ np.broadcast_to(np.asarray(self.weights, H.dtype), H.shape[1:])

    def block(self, X: Inputs) -> Any:
        shape = _table(self.function, np.zeros(X.x.shape)).shape
        like = jax.ShapeDtypeStruct(shape, X.x.dtype)
        H = jax.pure_callback(lambda x: _table(self.function, np.asarray(x)), like, X.x, vmap_method="sequential")
        return H @ jax.numpy.broadcast_to(self.weights, shape[1:])

    def design(self, X: Inputs) -> dict[str, np.ndarray]:
        H = _table(self.function, np.asarray(X.x))
        return {"weights": H if np.ndim(self.weights) else H.sum(1, keepdims=True)}

    def pull(self, X: Inputs, bar: np.ndarray) -> BasisMean:
        slope = _table(self.function, np.asarray(X.x)).T @ bar
        return self.replace(weights=slope if np.ndim(self.weights) else slope.sum())


def gaussian_weights(function: Any, *, mean: Any, covariance: Any) -> dict[str, Any]:
    r"""The parts of a prior :math:`g = f + h^\top\beta` with :math:`\beta \sim N(b, B)`, for ``GP(kernel, **parts)``.

    Parameters
    ----------
    function
        The basis functions, or a :class:`Basis` whose functions are meant.
    mean, covariance
        b (one number, or one each) and B, as in :class:`Basis`.

    Examples
    --------
    >>> parts = gaussian_weights(LinearBasis(), mean=[1.0, 2.0], covariance=[10.0, 0.1])
    >>> sorted(parts)
    ['basis', 'mean']
    """
    h = function.function if isinstance(function, Basis) else function
    return {"mean": BasisMean(h, weights=fixed(np.asarray(mean, np.float64))), "basis": Basis(h, covariance=covariance)}


# the weights, after the data ------------------------------------------------------------------------------------------


class Weights(NamedTuple):
    """Mean (m,) and covariance (m, m) of the weights; of several outputs, means (m, p) and the one covariance of each."""

    mean: np.ndarray
    covariance: np.ndarray


def basis_weights(posterior: Any) -> Weights:
    r"""The posterior of the weights: :math:`\bar\beta` and :math:`(B^{-1} + H K_y^{-1} H^\top)^{-1}`.

    Under an approximate inference they are those of its Gaussian sites. A :class:`BasisMean` of the same functions is
    counted in, so the weights are β, not their difference from b.

    References
    ----------
    Rasmussen & Williams (2006), eqs. 2.41, 2.42 (columns of H are rows here).
    """
    if posterior.bound.basis is None:
        raise fail("basis_weights", "the prior has no explicit basis functions", "give GP(kernel, basis=...)")
    own = posterior.bound.basis.coordinates
    mean, covariance = np.asarray(posterior.basis_weights), own.original(own.original(posterior.factor.project()[1]).T)
    prior, basis = posterior.model.mean, posterior.model.prior.basis
    if isinstance(prior, BasisMean) and prior.function == basis.function:
        start = np.broadcast_to(np.asarray(prior.weights, mean.dtype), mean.shape[:1])
        mean = mean + (start if mean.ndim == 1 else start[:, None])
    return Weights(mean, covariance)


def scale_free_log_evidence(posterior: Any) -> float:
    r"""The log evidence plus :math:`\tfrac12\log|H H^\top|` over the vague weights.

    Under vague weights the log evidence (eq. 2.45) is the log density of what the basis functions leave of y minus that
    term, so its value depends on how they are scaled, although its optimum over hyperparameters does not. This one does not
    depend on it, and compares models with different bases of equally many functions, or the same in other units.

    References
    ----------
    Rasmussen & Williams (2006), eq. 2.45.
    """
    if posterior.bound.basis is None:
        return float(posterior.log_evidence)
    H = posterior.model.prior.basis.evaluate(posterior.bound.X).astype(np.float64)
    H = H[:, posterior.bound.basis.coordinates.prior.vague]
    if posterior.data.weight is not None:  # a row of weight w stands for w equal rows
        H = H * np.sqrt(posterior.data.weight.astype(np.float64))[:, None]
    R = orthogonalising(H)[0]
    outputs = posterior.solved.shift.shape[1] if posterior.solved.shift.ndim == 2 else 1
    return float(posterior.log_evidence + outputs * np.log(np.diagonal(R)).sum())


# ready made -----------------------------------------------------------------------------------------------------------


def _table(function: Any, x: np.ndarray) -> np.ndarray:
    """h(x) as a table, checked."""
    H = np.asarray(function(x), x.dtype)
    if H.ndim != 2 or H.shape[0] != len(x):
        raise fail(
            "means.Basis",
            f"the function gave shape {H.shape} for {counted(len(x), 'row')}",
            "return one row for every row of x",
        )
    return H


def _with_intercept(x: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(x), x.dtype), x])


def _ones(x: np.ndarray) -> np.ndarray:
    return np.ones((len(x), 1), x.dtype)


@dataclass(frozen=True)
class _Powers:
    """1, and the powers of every column up to a degree."""

    degree: int

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.column_stack([np.ones(len(x), x.dtype), *(x**p for p in range(1, self.degree + 1))])


def ConstantBasis(*, covariance: Any = None) -> Basis:
    r"""An unknown offset; vague, predictions do not notice a constant added to y (ordinary kriging).

    .. math:: C_\infty^{-1} = C^{-1} - \frac{C^{-1}n\,n^\top C^{-1}}{n^\top C^{-1}n}, \qquad C_\infty^{-1}n = 0

    with n a column of ones.

    References
    ----------
    Gibbs (1997), eqs. 6.31 to 6.33; Rasmussen & Williams (2006), eq. 2.42.
    """
    return Basis(_ones, covariance=covariance)


def LinearBasis(*, covariance: Any = None) -> Basis:
    """An intercept and one slope per input column; vague weights unless a covariance is given."""
    return Basis(_with_intercept, covariance=covariance)


def PolynomialBasis(degree: int = 2, *, covariance: Any = None) -> Basis:
    """An intercept, then every column, then its squares, up to a degree: 1 + degree · d functions, no products of columns.

    Examples
    --------
    >>> from covary.data import as_inputs
    >>> PolynomialBasis(3).evaluate(as_inputs([[2.0]]))
    array([[1., 2., 4., 8.]])
    """
    if not isinstance(degree, int | np.integer) or degree < 1:
        raise fail("means.PolynomialBasis", f"degree is {degree!r}", "give a whole number from 1 on")
    return Basis(_Powers(int(degree)), covariance=covariance)
