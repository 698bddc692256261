r"""Kernels on one input as linear stochastic differential equations.

A kernel is *representable* if f is a projection of a Markov process: :math:`f = h^\top x` and, from one input to the next,
:math:`x_i = A_i x_{i-1} + q_i` with :math:`q_i \sim N(0, Q_i)` (R&W, appendix B; Hartikainen & Särkkä 2010). Matérn kernels
have one state per term of their exponential polynomial, sums stack their states, products take Kronecker products (Solin &
Särkkä 2014). States are scaled to be dimensionless: x contains f, f'/λ, f''/λ². Q is never computed as a difference of nearly
equal numbers, so that small steps lose no digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from math import factorial
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from covary.kernels.base import AbstractKernel, Power, Product, Scaled, Sum
from covary.kernels.combine import Columns
from covary.kernels.dot_product import Constant, Linear
from covary.kernels.nonstationary import Wiener
from covary.kernels.periodic import Cosine
from covary.kernels.stationary import UNTYPED, AbstractStationary, Matern12, Matern32, Matern52
from covary.kernels.wiener import IntegratedWiener

Table: TypeAlias = list[list[float]] | list[list[jax.Array]] | list[list[jax.Array | float]]

MOST_STATES = 16
SERIES, TERMS = 1.0, 16  # below SERIES the incomplete gamma function is a series of TERMS terms, above it a difference


# from a kernel to its equation ----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Step:
    """Transition A, process noise Q and prior covariance P at the end of a step: (..., d, d, lanes)."""

    A: jax.Array
    Q: jax.Array
    P: jax.Array


@partial(UNTYPED, nondiff_argnums=(0,))
def lower_gamma(k: int, x: jax.Array) -> jax.Array:
    r"""Return the regularised incomplete gamma function :math:`P(k, x) = 1 - e^{-x}\sum_{j<k} x^j/j!` for integer k, x ≥ 0."""
    if k == 1:
        return -jnp.expm1(-x)
    small = jnp.minimum(x, SERIES)
    series = jnp.zeros_like(x)
    for m in range(TERMS, -1, -1):
        series = factorial(k) / factorial(k + m) + series * small
    total = sum((x**j / factorial(j) for j in range(1, k)), 1.0)
    return jnp.where(x < SERIES, jnp.exp(-small) * small**k / factorial(k) * series, 1 - jnp.exp(-x) * total)


@lower_gamma.defjvp
def _lower_gamma_jvp(k: int, primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    return lower_gamma(k, x), jnp.exp(-x) * x ** (k - 1) / factorial(k - 1) * dx


def _scaled_step(kernel: AbstractStationary, dt: jax.Array, root: float) -> jax.Array:
    """Return λ dt, capped where its exponential is practically zero (so that gaps of any length stay finite)."""
    return jnp.minimum(root * dt / jnp.reshape(kernel.lengthscale, ()), 300.0 if dt.dtype == jnp.float64 else 40.0)


def _matern12(kernel: Matern12, t: jax.Array, dt: jax.Array) -> Step:
    tau = _scaled_step(kernel, dt, 1.0)
    return _made(dt, [[jnp.exp(-tau)]], [[lower_gamma(1, 2 * tau)]], [[1.0]])


def _matern32(kernel: Matern32, t: jax.Array, dt: jax.Array) -> Step:
    tau = _scaled_step(kernel, dt, 3.0**0.5)
    e, x = jnp.exp(-tau), 2 * tau
    top, p1 = lower_gamma(3, x), e * e * x
    p2 = p1 * tau  # p_k = e^{-x} x^k/k!
    A = [[e * (1 + tau), e * tau], [-e * tau, e * (1 - tau)]]
    return _made(dt, A, [[top, p2], [p2, top + 2 * p1]], [[1.0, 0.0], [0.0, 1.0]])


def _matern52(kernel: Matern52, t: jax.Array, dt: jax.Array) -> Step:
    tau = _scaled_step(kernel, dt, 5.0**0.5)
    e, x, half = jnp.exp(-tau), 2 * tau, tau * tau / 2
    top, p1 = lower_gamma(5, x), e * e * x
    p2 = p1 * x / 2
    p3 = p2 * x / 3
    p4 = p3 * x / 4
    A = [
        [e * (1 + tau + half), e * (tau + 2 * half), e * half],
        [-e * half, e * (1 + tau - 2 * half), e * (tau - half)],
        [e * (half - tau), e * (2 * half - 3 * tau), e * (1 - 2 * tau + half)],
    ]
    q13, q23 = -top / 3 - 4 / 3 * p4 + 2 / 3 * p3, p4 - 2 * p3 + 4 / 3 * p2
    Q = [
        [top, p4, q13],
        [p4, top / 3 - 2 / 3 * p4 + 4 / 3 * p3, q23],
        [q13, q23, top + 4 * p3 - 8 / 3 * p2 + 8 / 3 * p1],
    ]
    return _made(dt, A, Q, [[1.0, 0.0, -1 / 3], [0.0, 1 / 3, 0.0], [-1 / 3, 0.0, 1.0]])


def _cosine(kernel: Cosine, t: jax.Array, dt: jax.Array) -> Step:
    phase = 2 * jnp.pi * dt / jnp.reshape(kernel.period, ())
    c, s = jnp.cos(phase), jnp.sin(phase)
    return _made(dt, [[c, -s], [s, c]], [[0.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])


def _constant(kernel: Constant, t: jax.Array, dt: jax.Array) -> Step:
    return _made(dt, [[1.0]], [[0.0]], [[1.0]])


def _linear(kernel: Linear, t: jax.Array, dt: jax.Array) -> Step:
    w = 1 / jnp.reshape(kernel.lengthscale, ()) ** 2
    return _made(dt, [[1.0, dt], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]], [[w * t * t, w * t], [w * t, w]])


def _wiener(kernel: Wiener, t: jax.Array, dt: jax.Array) -> Step:
    return _made(dt, [[1.0]], [[dt]], [[t]])


def _integrated(kernel: IntegratedWiener, t: jax.Array, dt: jax.Array) -> Step:
    def grown(s: jax.Array) -> Table:
        return [[s**3 / 3, s**2 / 2], [s**2 / 2, s]]

    return _made(dt, [[1.0, dt], [0.0, 1.0]], grown(dt), grown(t))


def _sum(kernel: Sum, t: jax.Array, dt: jax.Array) -> Step:
    parts = [_step(term, t, dt) for term in kernel.terms]
    return Step(*(_stacked([getattr(p, name) for p in parts]) for name in ("A", "Q", "P")))


def _scaled(kernel: Scaled, t: jax.Array, dt: jax.Array) -> Step:
    inner = _step(kernel.kernel, t, dt)
    return Step(inner.A, inner.Q * kernel.variance, inner.P * kernel.variance)


def _product(kernel: Product, t: jax.Array, dt: jax.Array) -> Step:
    return _all(_step(factor, t, dt) for factor in kernel.factors)


def _power(kernel: Power, t: jax.Array, dt: jax.Array) -> Step:
    return _all([_step(kernel.kernel, t, dt)] * kernel.exponent)


def _columns(kernel: Columns, t: jax.Array, dt: jax.Array) -> Step:
    return _step(kernel.kernel, t, dt)


def _all(steps: Iterable[Step]) -> Step:
    """Return the product of independent processes: A = A₁⊗A₂, P = P₁⊗P₂, and Q = P − A P Aᵀ = Q₁⊗P₂ + (P₁ − Q₁)⊗Q₂."""
    first, *rest = steps
    for s in rest:
        noise = _kron(first.Q, s.P) + _kron(first.P - first.Q, s.Q)
        first = Step(_kron(first.A, s.A), noise, _kron(first.P, s.P))
    return first


def _kron(M: jax.Array, N: jax.Array) -> jax.Array:
    size = M.shape[-2] * N.shape[-2]
    both = M[..., :, None, :, None, :] * N[..., None, :, None, :, :]
    return both.reshape(*M.shape[:-3], size, size, M.shape[-1])


def _stacked(blocks: list[jax.Array]) -> jax.Array:
    total, before, rows = sum(b.shape[-2] for b in blocks), 0, []
    for block in blocks:
        around = (before, total - before - block.shape[-2])
        rows.append(jnp.pad(block, [(0, 0)] * (block.ndim - 2) + [around, (0, 0)]))
        before += block.shape[-2]
    return jnp.concatenate(rows, -3)


def _made(dt: jax.Array, *tables: Table) -> Step:
    """Convert tables of numbers or arrays like ``dt`` to arrays with rows and columns before the last axis."""

    def table(M: Table) -> jax.Array:
        flat = [jnp.broadcast_to(jnp.asarray(v, dt.dtype), dt.shape) for row in M for v in row]
        return jnp.stack(flat, axis=-2).reshape(*dt.shape[:-1], len(M), len(M), dt.shape[-1])

    return Step(*(table(M) for M in tables))


# for each kernel type: the function that builds its step, and which of its states sum to f
LEAVES: dict[type, tuple[Callable[..., Step], tuple[int, ...]]] = {
    Matern12: (_matern12, (1,)),
    Matern32: (_matern32, (1, 0)),
    Matern52: (_matern52, (1, 0, 0)),
    Cosine: (_cosine, (1, 0)),
    Constant: (_constant, (1,)),
    Linear: (_linear, (1, 0)),
    Wiener: (_wiener, (1,)),
    IntegratedWiener: (_integrated, (1, 0)),
}
NODES: dict[type, Callable[..., Step]] = {Sum: _sum, Scaled: _scaled, Product: _product, Power: _power, Columns: _columns}


def _step(kernel: AbstractKernel, t: jax.Array, dt: jax.Array) -> Step:
    kind = type(kernel)
    return NODES[kind](kernel, t, dt) if kind in NODES else LEAVES[kind][0](kernel, t, dt)


def _children(kernel: AbstractKernel) -> tuple[AbstractKernel, ...]:
    """Return the parts of a composite kernel."""
    return getattr(kernel, "terms", None) or getattr(kernel, "factors", None) or (kernel.kernel,)


def measured(kernel: AbstractKernel) -> tuple[int, ...]:
    """Return h, which selects the states that sum to f by zeros and ones; its length is the number of states."""
    kind = type(kernel)
    if kind in LEAVES:
        return LEAVES[kind][1]
    parts = [measured(part) for part in _children(kernel)]
    if kind is Sum:
        return tuple(v for part in parts for v in part)
    out = (1,)
    for part in parts * (kernel.exponent if kind is Power else 1):
        out = tuple(a * b for a in out for b in part)
    return out


def why_not(kernel: AbstractKernel) -> str | None:
    """Describe the part of a kernel that has no state space model; return None if all parts have one."""
    kind = type(kernel)
    if kind in LEAVES:
        return None
    if kind not in NODES:
        return f"{kind.__name__} has no state space model"
    if kind is Columns and kernel.columns != (0,):
        return f"the part on columns {list(kernel.columns)} uses more than one input column"
    for part in _children(kernel):
        reason = why_not(part)
        if reason is not None:
            return reason
    states = _count(kernel)
    return None if states <= MOST_STATES else f"{states} states are needed, but at most {MOST_STATES} are supported"


def _count(kernel: AbstractKernel) -> int:
    """Return the number of states, without allocating anything of that size."""
    kind = type(kernel)
    if kind in LEAVES:
        return len(LEAVES[kind][1])
    counts = [_count(part) for part in _children(kernel)]
    return sum(counts) if kind is Sum else int(np.prod(counts, dtype=object)) ** (kernel.exponent if kind is Power else 1)


def representable(kernel: AbstractKernel) -> bool:
    """Return whether a kernel of one input column has a state space model in covary.

    Examples
    --------
    >>> from covary.kernels import Matern32, Periodic
    >>> representable(2.0 * Matern32() + 1.0), representable(Matern32() * Periodic())
    (True, False)
    """
    return why_not(kernel) is None


def steps(kernel: AbstractKernel, t: jax.Array, dt: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return A and Q of steps of length ``dt`` that end at ``t`` (arrays of the same shape): (..., d, d, lanes)."""
    step = _step(kernel, t, dt)
    return step.A, step.Q


def prior(kernel: AbstractKernel, t: jax.Array) -> jax.Array:
    """Return the prior covariance of the states at ``t``: (..., d, d, lanes)."""
    return _step(kernel, t, jnp.zeros_like(t)).P
