r"""Explicit basis functions (R&W, section 2.7).

The model is :math:`g(x) = f(x) + h(x)^\top\beta`. The weights are :math:`\beta \sim N(b, B)`, so that g is a Gaussian process
(eq. 2.40), or vague, the limit :math:`B^{-1} \to O` (eq. 2.42). They are never sampled or optimised: the gram projects them
out without a kernel with huge entries, so they can be used with every inference method.

A :class:`Basis` contains the functions and the covariance B of the weights. Their prior mean b is represented by a mean
function, :class:`BasisMean`, since h(x)ᵀb is the prior mean of g; :func:`gaussian_weights` creates both:
``GP(kernel, **gaussian_weights(h, mean=b, covariance=B))``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, TypedDict

import jax.numpy as jnp
import numpy as np

from covary._checks import fail, namespace
from covary._errors import Option
from covary._module import Module, Numbers, child, static
from covary._precision import traced
from covary._types import Array, ArrayLike
from covary.data import Inputs
from covary.kernels.authors import rows_of
from covary.means.coordinates import orthogonalising, triangular
from covary.means.functions import AbstractMean
from covary.parameters import fixed, real


class WeightPrior(NamedTuple):
    """Prior of the weights as used by the gram: β = C γ with γ ~ N(0, I), or flat if not ``proper``."""

    root: np.ndarray  # C with B = C Cᵀ, shape (m, m); a row and column of the identity for a vague weight
    proper: np.ndarray  # 1 for a weight with a covariance, 0 for a vague one

    @property
    def vague(self) -> np.ndarray:
        """Mask of the vague weights."""
        return self.proper == 0


class Coordinates(NamedTuple):
    r"""Coordinates of the weights used by the gram, :math:`u = R\beta`, robust to the units and offsets of the columns.

    With :math:`R^\top R = H^\top H + B^{-1}`, eliminating the weights means inverting
    :math:`R^{-\top}(B^{-1} + H^\top K_y^{-1}H)R^{-1}`, which is as well conditioned as :math:`K_y`; ``log_det`` is the
    contribution of the change of coordinates and of log det B to its log determinant.
    """

    prior: WeightPrior
    R: np.ndarray  # (m, m), upper triangular
    precision: np.ndarray  # (m, m): R⁻ᵀB⁻¹R⁻¹, zero for vague weights
    log_det: float
    dependent: np.bool_  # whether these rows cannot distinguish some vague weights

    def at(self, H: np.ndarray) -> np.ndarray:
        """Transform basis functions h(x) of any rows to these coordinates."""
        return triangular(self.R, namespace(H).asarray(H, self.R.dtype).T, trans=1).T.astype(H.dtype)

    def original(self, u: np.ndarray) -> np.ndarray:
        """Return the weights (m, ...) of the original basis functions."""
        flat = triangular(self.R, np.asarray(u, np.float64).reshape(len(u), -1))
        return flat.reshape(np.shape(u)).astype(u.dtype)


def coordinates(H: np.ndarray, prior: WeightPrior) -> Coordinates:
    """Return the coordinates for the basis functions at the training rows."""
    xp = namespace(H, prior.root)
    own = prior.proper[:, None] * triangular(prior.root, np.eye(len(prior.root)), lower=True)
    R, dependent = orthogonalising(xp.concatenate([H, own.astype(H.dtype)]))
    half = triangular(R, own.T, trans=1)
    log_det = 2 * (xp.log(xp.diagonal(R)).sum() + xp.log(xp.diagonal(prior.root)).sum())
    return Coordinates(prior, R, half @ half.T, log_det, dependent.any())


class Evaluated(np.ndarray):
    """H R⁻¹ of shape (n, m) with its coordinates as an attribute; operations on it return plain arrays."""

    coordinates: Coordinates

    def __array_finalize__(self, other: np.ndarray | None) -> None:
        self.coordinates = getattr(other, "coordinates", None)  # type: ignore[assignment]

    def __array_wrap__(self, array: np.ndarray, context: tuple | None = None, return_scalar: bool = False) -> np.ndarray:
        out = np.asarray(array)
        return out[()] if return_scalar else out

    def __reduce__(self) -> tuple[Callable[..., Evaluated], tuple[np.ndarray, Coordinates]]:
        return _evaluated, (np.asarray(self), self.coordinates)


def _evaluated(H: np.ndarray, found: Coordinates) -> Evaluated:
    out = H.view(Evaluated)
    out.coordinates = found
    return out


class Basis(Module):
    r"""Basis functions h(x) whose weights are Gaussian around zero, :math:`\beta \sim N(0, B)`, or vague.

    For a prior mean of the weights see :func:`gaussian_weights`.

    Parameters
    ----------
    function
        The basis functions: any function of the table x (n, d) that returns (n, m), in NumPy, or in jax.numpy to be
        differentiated over x.
    covariance
        None (all weights vague), one variance for all weights, one for each, or the matrix B (m, m). A weight with infinite
        variance is vague.

    References
    ----------
    Rasmussen & Williams (2006), eqs. 2.39 to 2.45.

    Examples
    --------
    >>> from covary.data import as_inputs
    >>> Basis(lambda x: x**2).evaluate(as_inputs([[3.0]]))
    array([[9.]])
    """

    function: Callable[[np.ndarray], ArrayLike] = static()
    _: KW_ONLY
    covariance: ArrayLike | None = child(None)

    def evaluate(self, X: Inputs) -> np.ndarray:
        """Return h(x) for every row, with shape (n, m)."""
        return rows_of("means.Basis", self.function, X.x)

    def bind(self, X: Inputs) -> Evaluated:
        """Return h(x) at the training rows, in their own coordinates."""
        H = self.evaluate(X)
        found = coordinates(H, self.weight_prior(H.shape[1]))
        return _evaluated(found.at(H), found)

    def weight_prior(self, m: int) -> WeightPrior:
        """Return the prior of the m weights, after checks."""
        who = "means.Basis"
        if self.covariance is None:
            return WeightPrior(np.eye(m), np.zeros(m))
        known = not traced(self.covariance)
        B = np.asarray(self.covariance, np.float64) if known else jnp.asarray(self.covariance)
        if B.ndim < 2:
            if B.shape not in ((), (m,)):
                raise fail(who, f"{len(B)} variances are given for {m} basis functions", "give one number, or one for each")
            if known and not (B > 0).all():
                raise fail(who, f"a weight has variance {B[~(B > 0)].ravel()[0]:g}", "give positive numbers")
            B = namespace(B).diag(namespace(B).broadcast_to(B, (m,)))
        if B.shape != (m, m):
            raise fail(who, f"the covariance has shape {B.shape} for {m} basis functions", "give a square matrix of that size")
        if not known:
            return _traced_prior(B)
        flat = np.isinf(np.diagonal(B))
        keep = ~flat
        inner = B[np.ix_(keep, keep)]
        sound = np.isfinite(inner).all() and np.allclose(inner, inner.T, rtol=1e-10, atol=0)
        if not sound or np.any(B[np.ix_(flat, keep)]) or np.any(B[np.ix_(keep, flat)]):
            what = "the covariance is not symmetric and finite"
            raise fail(who, what, "set covariances with vague weights to zero, and make the rest symmetric")
        root = np.eye(m)
        try:
            root[np.ix_(keep, keep)] = np.linalg.cholesky(inner)
        except np.linalg.LinAlgError:
            raise fail(who, "the covariance is not positive definite", "check its entries, or give variances only") from None
        return WeightPrior(root, keep.astype(np.float64))


def _traced_prior(B: Array) -> WeightPrior:
    """Return the prior of the weights with covariance B in jax.numpy: NaN if it is not positive definite."""
    keep = ~jnp.isinf(jnp.diagonal(B))
    root = jnp.linalg.cholesky(jnp.where(keep[:, None] & keep, B, jnp.eye(len(B))))
    return WeightPrior(root, keep.astype(root.dtype))  # type: ignore[arg-type]  # annotated for the host


class BasisMean(AbstractMean):
    r"""Mean function linear in its weights, :math:`m(x) = h(x)^\top b`, learned, or fixed with ``fixed(b)``.

    If learned, it is an alternative to integrating out the weights; if fixed, it is the prior mean of a :class:`Basis`.

    Parameters
    ----------
    function
        The basis functions, as in :class:`Basis`.
    weights
        One weight per basis function.

    Examples
    --------
    >>> from covary.data import as_inputs
    >>> BasisMean(lambda x: x**2, weights=[0.5]).evaluate(as_inputs([[3.0]]))
    array([4.5])
    """

    function: Callable[[np.ndarray], ArrayLike] = static()
    _: KW_ONLY
    weights: Numbers = real(0.0)

    def check(self, X: Inputs) -> None:
        m = self._functions(X.take(slice(0, 1))).shape[1]
        if np.shape(self.weights) not in ((), (m,)):
            what = f"weights has shape {np.shape(self.weights)} for {m} basis functions"
            raise fail("means.BasisMean", what, "give one each", argument="weights")

    def evaluate(self, X: Inputs) -> np.ndarray:
        H = self._functions(X)
        return H @ np.broadcast_to(np.asarray(self.weights, H.dtype), H.shape[1:])

    def block(self, X: Inputs) -> Array:
        H = self._functions(X)
        return H @ jnp.broadcast_to(self.weights, H.shape[1:])

    def _functions(self, X: Inputs) -> np.ndarray:
        return rows_of("means.BasisMean", self.function, X.x)

    def design(self, X: Inputs) -> dict[str, np.ndarray]:
        H = self._functions(X)
        return {"weights": H if np.ndim(self.weights) else H.sum(1, keepdims=True)}

    def pull(self, X: Inputs, bar: np.ndarray) -> BasisMean:
        slope = self._functions(X).T @ bar
        return self.replace(weights=slope if np.ndim(self.weights) else slope.sum())


class PriorOfWeights(TypedDict):
    """Arguments of ``GP`` returned by :func:`gaussian_weights`."""

    mean: BasisMean
    basis: Basis


def gaussian_weights(
    function: Callable[[np.ndarray], ArrayLike] | Basis, *, mean: ArrayLike, covariance: ArrayLike
) -> PriorOfWeights:
    r"""Return the parts of a prior :math:`g = f + h^\top\beta` with :math:`\beta \sim N(b, B)`, for ``GP(kernel, **parts)``.

    Parameters
    ----------
    function
        The basis functions, or a :class:`Basis` that contains them.
    mean, covariance
        b (one number, or one for each) and B, as in :class:`Basis`.

    Examples
    --------
    >>> parts = gaussian_weights(LinearBasis(), mean=[1.0, 2.0], covariance=[10.0, 0.1])
    >>> sorted(parts)
    ['basis', 'mean']
    """
    h = function.function if isinstance(function, Basis) else function
    return {"mean": BasisMean(h, weights=fixed(np.asarray(mean, np.float64))), "basis": Basis(h, covariance=covariance)}


# posterior of the weights ----------------------------------------------------------------------------------------------


class Weights(NamedTuple):
    """Mean (m,) and covariance (m, m) of the weights; for p outputs, means (m, p) and the covariance they share."""

    mean: np.ndarray
    covariance: np.ndarray


def basis_weights(posterior: Any) -> Weights:
    r"""Return the posterior of the weights: :math:`\bar\beta` and :math:`(B^{-1} + H K_y^{-1} H^\top)^{-1}`.

    Approximate inference uses its Gaussian sites. The weights of a ``BasisMean`` of the same functions are added, so the
    result is β, not its difference from b.

    References
    ----------
    Rasmussen & Williams (2006), eqs. 2.41, 2.42 (columns of H are rows here).
    """
    if posterior.bound.basis is None:
        what = "the prior has no explicit basis functions"
        raise fail("basis_weights", what, "give GP(kernel, " + Option("basis", "...") + ")")
    own = posterior.bound.basis.coordinates
    mean, covariance = np.asarray(posterior.basis_weights), own.original(own.original(posterior.factor.project()[1]).T)
    prior, basis = posterior.model.mean, posterior.model.prior.basis
    if isinstance(prior, BasisMean) and prior.function == basis.function:
        start = np.broadcast_to(np.asarray(prior.weights, mean.dtype), mean.shape[:1])
        mean = mean + (start if mean.ndim == 1 else start[:, None])
    return Weights(mean, covariance)


def scale_free_log_evidence(posterior: Any) -> float:
    r"""Return the log evidence plus :math:`\tfrac12\log|H H^\top|` over the vague weights.

    With vague weights the log evidence (eq. 2.45) is the log density of the part of y that the basis functions cannot explain,
    minus that term. Its value therefore depends on their scale, although its optimum over hyperparameters does not. The value
    returned here does not, and can compare models with the same number of basis functions, or with the same functions in other
    units.

    References
    ----------
    Rasmussen & Williams (2006), eq. 2.45.
    """
    if posterior.bound.basis is None:
        return float(posterior.log_evidence)
    H = posterior.model.prior.basis.evaluate(posterior.bound.X).astype(np.float64)
    H = H[:, posterior.bound.basis.coordinates.prior.vague]
    if posterior.data.weight is not None:  # a row of weight w represents w equal rows
        H = H * np.sqrt(posterior.data.weight.astype(np.float64))[:, None]
    R = orthogonalising(H)[0]
    outputs = posterior.solved.shift.shape[1] if posterior.solved.shift.ndim == 2 else 1
    return float(posterior.log_evidence + outputs * np.log(np.diagonal(R)).sum())


# common bases ----------------------------------------------------------------------------------------------------------


def _with_intercept(x: np.ndarray) -> np.ndarray:
    return namespace(x).column_stack([np.ones(len(x), x.dtype), x])


def _ones(x: np.ndarray) -> np.ndarray:
    return np.ones((len(x), 1), x.dtype)


@dataclass(frozen=True)
class _Powers:
    """The constant 1, and the powers of every column up to a degree."""

    degree: int

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return namespace(x).column_stack([np.ones(len(x), x.dtype), *(x**p for p in range(1, self.degree + 1))])


def ConstantBasis(*, covariance: ArrayLike | None = None) -> Basis:
    r"""Create the basis of an unknown offset; if vague, adding a constant to y just shifts predictions (ordinary kriging).

    .. math:: C_\infty^{-1} = C^{-1} - \frac{C^{-1}n\,n^\top C^{-1}}{n^\top C^{-1}n}, \qquad C_\infty^{-1}n = 0

    with n a column of ones.

    References
    ----------
    Gibbs (1997), eqs. 6.31 to 6.33; Rasmussen & Williams (2006), eq. 2.42.
    """
    return Basis(_ones, covariance=covariance)


def LinearBasis(*, covariance: ArrayLike | None = None) -> Basis:
    """Create the basis of an intercept and one slope per input column, with vague weights unless a covariance is given."""
    return Basis(_with_intercept, covariance=covariance)


def PolynomialBasis(degree: int = 2, *, covariance: ArrayLike | None = None) -> Basis:
    """Create the basis of an intercept and the powers of every column up to a degree, without products of columns.

    It has 1 + degree · d functions.

    Examples
    --------
    >>> from covary.data import as_inputs
    >>> PolynomialBasis(3).evaluate(as_inputs([[2.0]]))
    array([[1., 2., 4., 8.]])
    """
    if not isinstance(degree, int | np.integer) or degree < 1:
        raise fail("means.PolynomialBasis", f"degree is {degree!r}", "give an integer, 1 or more", argument="degree")
    return Basis(_Powers(int(degree)), covariance=covariance)
