"""The terms of a dense gram inside compiled code: a differentiable function for the XLA and the callback backend.

The formulas and hand-written gradients are those of :mod:`covary.gram.base`; only the linear-algebra backend differs.
Used on accelerators by ``learn``, and by samplers that need the evidence inside ``jit``.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from covary._checks import NotPositiveDefinite
from covary._module import without_marks
from covary._precision import cast
from covary._types import Array
from covary.data import Data, Inputs
from covary.gram.base import Bars
from covary.gram.dense import DiagonalFactor, NoiseFactor
from covary.gram.linalg import LANES
from covary.kernels.base import AbstractKernel
from covary.likelihoods.gaussian import Gaussian
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

    H: jax.Array | np.ndarray  # (n, m)
    precision: jax.Array | np.ndarray  # (m, m)
    log_det: jax.Array | float
    vague: jax.Array | int  # the number of vague weights


def projected(model: Model, X: Inputs) -> Projected | None:
    """Return the basis functions of a model at concrete (not traced) inputs, or None if it has none."""
    if model.prior.basis is None:
        return None
    H = model.prior.basis.bind(X)
    own = H.coordinates
    return Projected(np.asarray(H), own.precision.astype(H.dtype), own.log_det, int(own.prior.vague.sum()))


def _solved(C: jax.Array, r: jax.Array, basis: Projected | None) -> tuple[jax.Array, tuple[Array, ...]]:
    """Return the quadratic and the determinant term of log N(r | 0, C) with the weights of a basis integrated out.

    Also return whether C has a valid factor, C⁻¹r (basis projected out), the factor and, with a basis, C⁻¹H and the precision
    of its weights.
    """
    L = jax.lax.linalg.cholesky(C, symmetrize_input=False)
    pivots = jnp.diagonal(L)
    least = jnp.finfo(C.dtype).eps * max(10.0, C.shape[0] ** 0.5) * jnp.diagonal(C).max()
    sound = jnp.isfinite(pivots).all() & (pivots.min() ** 2 > least)
    L = jnp.where(sound, L, jnp.eye(C.shape[0], dtype=C.dtype))
    outputs = r.size // C.shape[0]
    alpha = jax.scipy.linalg.cho_solve((L, True), r)
    logdet = 2 * jnp.log(jnp.where(sound, pivots, 1.0)).sum()
    kept: tuple[Array, ...] = (L,)
    if basis is not None:
        H = jnp.asarray(basis.H)
        U = jax.scipy.linalg.cho_solve((L, True), H)
        A = H.T @ U + jnp.asarray(basis.precision)
        A = (A + A.T) / 2
        sign, more = jnp.linalg.slogdet(A)
        sound &= (sign > 0) & jnp.isfinite(more)
        alpha = alpha - U @ jnp.linalg.solve(A, U.T @ r)
        logdet = logdet + more
        kept = (L, U, A)
    value = -0.5 * ((r * alpha).sum() + outputs * logdet)
    return jnp.where(sound, value, -jnp.inf), (sound, alpha, *kept)


@jax.custom_jvp
def _gaussian(C: jax.Array, r: jax.Array, basis: Projected | None) -> jax.Array:
    return _solved(C, r, basis)[0]


@_gaussian.defjvp
def _gaussian_slope(
    primals: tuple[jax.Array, jax.Array, Projected | None], tangents: tuple[jax.Array, jax.Array, Projected | None]
) -> tuple[jax.Array, jax.Array]:
    """Return the directional derivative by R&W, eq. 5.9, which does not differentiate the factor."""
    C, r, basis = primals
    value, (sound, alpha, L, *more) = _solved(C, r, basis)
    half = jax.scipy.linalg.solve_triangular(L, jnp.eye(L.shape[0], dtype=L.dtype), lower=True)
    R = half.T @ half
    if more:
        U, A = more
        R = R - U @ jnp.linalg.solve(A, U.T)
    a = alpha if alpha.ndim == 2 else alpha[:, None]
    G = jnp.where(sound, 0.5 * (a @ a.T - a.shape[1] * R), 0.0)
    return value, (G * tangents[0]).sum() - (jnp.where(sound, alpha, 0.0) * tangents[1]).sum()


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
    """Return the exact log evidence under Gaussian noise, in jax.numpy: −∞ with zero gradient if K + noise has no factor.

    Parameters
    ----------
    model, data
        The model and data, whose numbers may be tracers; computed in the precision of the inputs.
    jitter
        The jitter added to the diagonal, as a fraction of the mean diagonal of K.
    basis
        The explicit basis functions at these inputs, from :func:`projected`.

    References
    ----------
    Rasmussen & Williams (2006), eqs. 2.30, 2.42, 2.45, 5.9.
    """
    model = cast(without_marks(model), data.dtype)
    assert isinstance(model.likelihood, Gaussian)
    K = model.prior.kernel.block(data.X, data.X)
    mean = model.prior.mean.block(data.X)
    r = data.y - (mean if data.y.ndim == 1 else mean[:, None])
    outputs = r.size // data.rows
    assert isinstance(model.likelihood, Gaussian)
    v = jnp.broadcast_to(jnp.asarray(model.likelihood.variance, data.dtype), (data.rows,))
    v = v if data.noise_variance is None else v + data.noise_variance
    extra = jitter * jax.lax.stop_gradient(jnp.mean(jnp.diagonal(K)))
    spread = (v if data.weight is None else v / data.weight) + extra
    free = data.rows - (0 if basis is None else basis.vague)
    constant = free * jnp.log(2 * jnp.pi) + (0.0 if basis is None else basis.log_det)
    value = _gaussian(K + jnp.diag(spread), r, basis) - 0.5 * outputs * constant + _repeats(v, data, outputs)
    return value.astype(data.dtype)


_value_and_grad = jax.jit(jax.value_and_grad(evidence))


def traced_log_evidence_and_grad(model: Model, data: Data, *, jitter: float = 0.0) -> tuple[float, Model]:
    """Return the exact log evidence and its gradient, computed on the default device in one compiled call."""
    arguments = cast(without_marks(model), data.dtype), data, np.asarray(jitter, data.dtype), projected(model, data.X)
    value, gradient = _value_and_grad(*arguments)
    if not np.isfinite(float(value)):
        raise NotPositiveDefinite("gram.Dense", "K + noise has no Cholesky factor at these parameters")
    return float(value), jax.tree_util.tree_map(np.asarray, gradient)
