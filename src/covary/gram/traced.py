"""The terms of a dense gram inside compiled code: one differentiable function for the XLA and the callback lane.

The formulas are those of :mod:`covary.gram.base`, with the same hand-written gradients; only the algebra underneath differs.
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
from covary.data import Data, Inputs
from covary.gram.base import Bars
from covary.gram.dense import Dense, DiagonalFactor, NoiseFactor
from covary.gram.linalg import LANES
from covary.kernels.host import ROWS
from covary.sites import AbstractSites, Diagonal, Noise


class Terms(NamedTuple):
    """The four terms of a factor; −½(quad + logdet) is log Z."""

    quad: Any
    logdet: Any
    mean: Any
    variance: Any


def _factor(lane: str, observed: bool, K: Any, spread: Any) -> Any:
    engine = LANES[lane]
    if observed:
        return NoiseFactor(engine.cholesky(K + jnp.diag(spread)), Noise(spread), lane=engine)
    return DiagonalFactor(K, Diagonal(spread), lane=engine)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _terms(lane: str, observed: bool, K: Any, shift: Any, spread: Any) -> Terms:
    factor = _factor(lane, observed, K, spread)
    return Terms(factor.quad(shift), factor.logdet(), factor.mean(shift), factor.variance())


def _forward(lane: str, observed: bool, K: Any, shift: Any, spread: Any) -> tuple[Terms, Any]:
    return _terms(lane, observed, K, shift, spread), (K, shift, spread)


def _backward(lane: str, observed: bool, kept: Any, bars: Terms) -> tuple[Any, Any, Any]:
    K, shift, spread = kept
    factor = _factor(lane, observed, K, spread)
    structured, shift_bar, spread_bar = factor.cotangent(shift, Bars(*bars))
    both = structured.left @ structured.right.T
    K_bar = structured.scale * factor.inverse() + 0.5 * (both + both.T) + factor.sandwich(structured.sandwich)
    return K_bar, shift_bar, spread_bar


_terms.defvjp(_forward, _backward)


def terms(kernel: Any, X: Inputs, shift: Any, sites: AbstractSites, *, lane: str = "xla") -> Terms:
    """(quad, logdet, mean, variance) of N(0, K) times sites, differentiable over kernel, inputs, shift and sites.

    Parameters
    ----------
    kernel, X
        The kernel and the inputs K is made from.
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


def on_device(gram: Any, rows: int) -> bool:
    """Whether a dense gram of so many rows computes on the default device rather than by LAPACK on the host.

    Left to choose, small problems stay on the host also beside an accelerator: compiling for each n costs more than they do.
    """
    if not isinstance(gram, Dense) or gram.lane not in ("xla", "auto"):
        return False
    return gram.lane == "xla" or (rows > ROWS and jax.default_backend() != "cpu")


@jax.custom_vjp
def _gaussian(K: Any, r: Any, s: Any) -> Any:
    L = jnp.linalg.cholesky(K + jnp.diag(s))
    alpha = jax.scipy.linalg.cho_solve((L, True), r)
    outputs = r.size // K.shape[0]
    return -0.5 * ((r * alpha).sum() + outputs * (2 * jnp.log(jnp.diagonal(L)).sum() + K.shape[0] * jnp.log(2 * jnp.pi)))


def _gaussian_forward(K: Any, r: Any, s: Any) -> tuple[Any, Any]:
    L = jnp.linalg.cholesky(K + jnp.diag(s))
    alpha = jax.scipy.linalg.cho_solve((L, True), r)
    outputs = r.size // K.shape[0]
    value = -0.5 * ((r * alpha).sum() + outputs * (2 * jnp.log(jnp.diagonal(L)).sum() + K.shape[0] * jnp.log(2 * jnp.pi)))
    return value, (L, alpha)


def _gaussian_backward(kept: Any, bar: Any) -> tuple[Any, Any, Any]:
    L, alpha = kept
    a = alpha if alpha.ndim == 2 else alpha[:, None]
    R = jax.scipy.linalg.cho_solve((L, True), jnp.eye(L.shape[0], dtype=L.dtype))
    G = 0.5 * bar * (a @ a.T - a.shape[1] * R)  # R&W, eq. 5.9
    return G, -bar * alpha, jnp.diagonal(G)


_gaussian.defvjp(_gaussian_forward, _gaussian_backward)


@jax.jit
def _value_and_grad(model: Any, X: Inputs, y: Any, known: Any, weight: Any, jitter: Any) -> Any:
    def value(m: Any) -> Any:
        K = m.prior.kernel.block(X, X)
        mean = m.prior.mean.block(X)
        extra = jitter * jax.lax.stop_gradient(jnp.mean(jnp.diagonal(K)))
        return _gaussian(K, y - (mean if y.ndim == 1 else mean[:, None]), (m.likelihood.variance + known) / weight + extra)

    return jax.value_and_grad(value)(model)


def traced_log_evidence_and_grad(model: Any, data: Data, *, jitter: float = 0.0) -> tuple[float, Any]:
    """The exact log evidence and its gradient, computed on the default device in one compiled call."""
    zeros, ones = np.zeros(data.rows, data.dtype), np.ones(data.rows, data.dtype)
    value, gradient = _value_and_grad(
        cast(without_marks(model), data.dtype),
        data.X,
        data.y,
        zeros if data.noise_variance is None else data.noise_variance,
        ones if data.weight is None else data.weight,
        np.asarray(jitter, data.dtype),
    )
    if not np.isfinite(float(value)):
        raise NotPositiveDefinite("gram.Dense: K + noise has no Cholesky factor at these parameters.")
    gradient = jax.tree_util.tree_map(np.asarray, gradient)
    more, slope = model.likelihood.repeats(data)
    likelihood = gradient.likelihood.replace(variance=gradient.likelihood.variance + slope)
    return float(value) + more, gradient.replace(likelihood=likelihood)
