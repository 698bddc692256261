"""The terms of a dense gram inside compiled code: a differentiable function for the XLA and the callback backend.

The formulas and hand-written gradients are those of :mod:`covary.gram.base`; only the linear-algebra backend differs.
Used on accelerators by ``learn``, and by samplers that need the evidence inside ``jit``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from covary._checks import NotPositiveDefinite, is_traced
from covary._module import without_marks
from covary._precision import cast
from covary._types import Array
from covary.data import Data, Inputs
from covary.gram.base import Bars
from covary.gram.dense import DiagonalFactor, NoiseFactor
from covary.gram.linalg import LANES
from covary.kernels.base import AbstractKernel
from covary.likelihoods.gaussian import Gaussian
from covary.means.basis import coordinates
from covary.model import Model
from covary.sites import AbstractSites, Diagonal, Noise


class Terms(NamedTuple):
    """The four terms of a factor; −½(quad + logdet) is log Z."""

    quad: jax.Array
    logdet: jax.Array
    mean: jax.Array
    variance: jax.Array


def _factor(lane: str, observed: bool, K: Any, spread: Any) -> Any:
    """Return a factor of JAX arrays; its annotations are for NumPy on the host."""
    engine: Any = LANES[lane]
    if observed:
        return NoiseFactor(engine.cholesky(K + jnp.diag(spread)), Noise(spread), lane=engine)
    return DiagonalFactor(K, Diagonal(spread), lane=engine)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _terms(lane: str, observed: bool, K: jax.Array, shift: jax.Array, spread: jax.Array) -> Terms:
    factor = _factor(lane, observed, K, spread)
    return Terms(factor.quad(shift), factor.logdet(), factor.mean(shift), factor.variance())


def _forward(
    lane: str, observed: bool, K: jax.Array, shift: jax.Array, spread: jax.Array
) -> tuple[Terms, tuple[jax.Array, jax.Array, jax.Array]]:
    return _terms(lane, observed, K, shift, spread), (K, shift, spread)


def _backward(
    lane: str, observed: bool, kept: tuple[jax.Array, jax.Array, jax.Array], bars: Terms
) -> tuple[jax.Array, jax.Array, jax.Array]:
    K, shift, spread = kept
    factor = _factor(lane, observed, K, spread)
    structured, shift_bar, spread_bar = factor.cotangent(shift, Bars(*bars))  # type: ignore[arg-type]
    both = structured.left @ structured.right.T
    K_bar = structured.scale * factor.inverse() + 0.5 * (both + both.T) + factor.sandwich(structured.sandwich)
    return K_bar, shift_bar, spread_bar


_terms.defvjp(_forward, _backward)


def terms(kernel: AbstractKernel, X: Inputs, shift: jax.Array, sites: AbstractSites, *, lane: str = "xla") -> Terms:
    """Return (quad, logdet, mean, variance) of N(0, K) times sites, differentiable in kernel, inputs, shift and sites.

    Parameters
    ----------
    kernel, X
        The kernel and the inputs that define K.
    shift
        The residual of observed sites, b of natural ones; shape (n,).
    sites
        :class:`~covary.sites.Noise`, or :class:`~covary.sites.Diagonal` with precisions ≥ 0.
    lane
        ``"xla"`` or ``"callback"``.
    """
    observed = isinstance(sites, Noise)
    spread = sites.variance if isinstance(sites, Noise) else sites.precision  # type: ignore[attr-defined]
    return _terms(lane, observed, kernel.block(X, X), shift, spread)


class Projected(NamedTuple):
    """Explicit basis functions at the training rows, in their own coordinates (see ``means.basis.Coordinates``)."""

    H: Array  # (n, m)
    precision: Array  # (m, m)
    log_det: Array | float
    vague: Array | np.integer  # the number of vague weights
    dependent: Array | np.bool_


def projected(model: Model, X: Inputs) -> Projected | None:
    """Return the basis functions of a model at the training rows, or None if it has none."""
    basis = model.prior.basis
    if basis is None:
        return None
    H = basis.evaluate(X)
    own = coordinates(H, basis.weight_prior(H.shape[1]))
    return Projected(own.at(H), own.precision.astype(H.dtype), own.log_det, own.prior.vague.sum(), own.dependent)


class _Solved(NamedTuple):
    """The terms of log N(r | 0, C) with the weights of a basis integrated out."""

    value: jax.Array  # −½(quad + logdet); −∞ if C has no valid factor
    L: jax.Array
    alpha: jax.Array  # C⁻¹(r − H beta)
    U: jax.Array  # C⁻¹H
    A: jax.Array
    beta: jax.Array


def _solved(C: jax.Array, r: jax.Array, H: jax.Array, P: jax.Array) -> _Solved:
    L = jax.lax.linalg.cholesky(C, symmetrize_input=False)
    pivots = jnp.diagonal(L)
    least = jnp.finfo(C.dtype).eps * max(10.0, C.shape[0] ** 0.5) * jnp.diagonal(C).max()
    sound = pivots.min() ** 2 > least
    alpha = jax.scipy.linalg.cho_solve((L, True), r)
    U, A, beta = H, P, r[:0]
    logdet = 2 * jnp.log(pivots).sum()
    if H.shape[1]:
        U = jax.scipy.linalg.cho_solve((L, True), H)
        A = H.T @ U + P
        A = (A + A.T) / 2
        sign, more = jnp.linalg.slogdet(A)
        beta = jnp.linalg.solve(A, U.T @ r)
        alpha, logdet, sound = alpha - U @ beta, logdet + more, sound & (sign > 0)
    value = -0.5 * ((r * alpha).sum() + (r.size // C.shape[0]) * logdet)
    return _Solved(jnp.where(sound & jnp.isfinite(value), value, -jnp.inf), L, alpha, U, A, beta)


@jax.custom_jvp
def _gaussian(C: jax.Array, r: jax.Array, H: jax.Array, P: jax.Array) -> jax.Array:
    return _solved(C, r, H, P).value


@_gaussian.defjvp
def _gaussian_slope(
    primals: tuple[jax.Array, jax.Array, jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array, jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """Return the directional derivative by R&W, eq. 5.9, which does not differentiate the factor."""
    value, L, alpha, U, A, beta = _solved(*primals)
    half = jax.scipy.linalg.solve_triangular(L, jnp.eye(L.shape[0], dtype=L.dtype), lower=True)
    R = half.T @ half
    a, b = (v if v.ndim == 2 else v[:, None] for v in (alpha, beta))
    outputs, (C, r, H, P) = a.shape[1], tangents
    slope = -(alpha * r).sum()
    if U.shape[1]:
        inverse = jnp.linalg.inv(A)
        R = R - U @ inverse @ U.T
        slope += ((a @ b.T - outputs * U @ inverse) * H).sum() - 0.5 * ((b @ b.T + outputs * inverse) * P).sum()
    return value, slope + 0.5 * ((a @ a.T - outputs * R) * C).sum()


def _repeats(v: jax.Array, data: Data, outputs: int) -> jax.Array | float:
    """Return the term of rows that represent several observations: :meth:`Gaussian.repeats`, in jax.numpy."""
    if data.weight is None and data.scatter is None:
        return 0.0
    w = 1.0 if data.weight is None else data.weight
    S = 0.0 if data.scatter is None else data.scatter
    noisy = v > 0
    safe = jnp.where(noisy, v, 1.0)
    each = outputs * ((w - 1) * jnp.log(2 * jnp.pi * safe) + jnp.log(w)) + S / safe
    return jnp.where(noisy, -0.5 * each, jnp.where(S > 0, -jnp.inf, 0.0)).sum()


def evidence(
    model: Model, data: Data, jitter: jax.Array | np.ndarray | float = 0.0, basis: Projected | None = None
) -> jax.Array:
    """Return the exact log evidence under Gaussian noise, in jax.numpy.

    It is −∞, with zero derivatives, if K + noise has no Cholesky factor or the numbers overflow.

    Parameters
    ----------
    model, data
        The model and data, whose numbers may be tracers; computed in the precision of the inputs.
    jitter
        The jitter added to the diagonal, as a fraction of the mean diagonal of K.
    basis
        The explicit basis functions at these inputs, from :func:`projected`; computed here if None.

    References
    ----------
    Rasmussen & Williams (2006), eqs. 2.30, 2.42, 2.45, 5.9.
    """
    return _flat_where_infinite(_evidence, model, data, jitter, basis)


def _flat_where_infinite(
    function: Callable[..., jax.Array], *args: Model | Data | Projected | Array | float | None
) -> jax.Array:
    """Call a function with all its derivatives replaced by zero where its value is −∞.

    There the derivatives of intermediate results may be infinite or NaN, and so is zero times them. Therefore the gradient is
    computed here, in reverse mode even for a derivative in one direction, and replaced before it is multiplied by anything.
    """
    leaves, tree = jax.tree_util.tree_flatten(args)
    traced = {i: leaf for i, leaf in enumerate(leaves) if is_traced(leaf)}

    def plain(moved: dict[int, jax.Array]) -> jax.Array:
        return function(*jax.tree_util.tree_unflatten(tree, [moved.get(i, leaf) for i, leaf in enumerate(leaves)]))

    def slope(primals: tuple[dict[int, jax.Array]], tangents: tuple[dict[int, jax.Array]]) -> tuple[jax.Array, jax.Array]:
        (values,), (directions,) = primals, tangents
        along = {i: v for i, v in directions.items() if not isinstance(v, SymbolicZero)}
        value, pull = jax.vjp(lambda moved: plain(values | moved), {i: values[i] for i in along})
        (gradient,) = pull(jnp.ones_like(value))
        parts = [(jnp.where(value > -jnp.inf, gradient[i], 0.0) * v).sum() for i, v in along.items()]
        return value, sum(parts[1:], parts[0]).astype(value.dtype)

    guarded = jax.custom_jvp(plain)
    guarded.defjvp(slope, symbolic_zeros=True)
    return guarded(traced)


def _evidence(model: Model, data: Data, jitter: Array | float, basis: Projected | None) -> jax.Array:
    basis = projected(model, data.X) if basis is None else basis
    model = cast(without_marks(model), data.dtype)
    assert isinstance(model.likelihood, Gaussian)
    K = model.prior.kernel.block(data.X, data.X)
    mean = model.prior.mean.block(data.X)
    r = data.y - (mean if data.y.ndim == 1 else mean[:, None])
    outputs = r.size // data.rows
    v = jnp.asarray(model.likelihood.variances(data))
    extra = jitter * jax.lax.stop_gradient(jnp.mean(jnp.diagonal(K)))
    spread = (v if data.weight is None else v / data.weight) + extra
    free, H, P, value = data.rows, jnp.zeros((data.rows, 0), data.dtype), jnp.zeros((0, 0), data.dtype), 0.0
    if basis is not None:
        free, H, P = free - basis.vague, jnp.asarray(basis.H), jnp.asarray(basis.precision)
        value = jnp.where(basis.dependent, -jnp.inf, -0.5 * outputs * basis.log_det)
    value += _gaussian(K + jnp.diag(spread), r, H, P) - 0.5 * outputs * free * jnp.log(2 * jnp.pi)
    value += _repeats(v, data, outputs)
    return jnp.where(jnp.isnan(value), -jnp.inf, value).astype(data.dtype)


_value_and_grad = jax.jit(jax.value_and_grad(evidence))


def traced_log_evidence_and_grad(model: Model, data: Data, *, jitter: float = 0.0) -> tuple[float, Model]:
    """Return the exact log evidence and its gradient, computed on the default device in one compiled call."""
    arguments = cast(without_marks(model), data.dtype), data, np.asarray(jitter, data.dtype), projected(model, data.X)
    value, gradient = _value_and_grad(*arguments)
    if not np.isfinite(float(value)):
        raise NotPositiveDefinite("gram.Dense", "K + noise has no Cholesky factor at these parameters")
    return float(value), jax.tree_util.tree_map(np.asarray, gradient)
