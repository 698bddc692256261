r"""Kalman filter and smoother over many segments of rows in parallel, and their gradient.

The rows are arranged in a grid (steps, lanes): a lane is a segment of consecutive rows, and one scan over the steps advances
all lanes. Each lane first runs from a zero start, which gives the map from any start to its end (the associative elements
A, C, J of Särkkä & García-Fernández 2021); a short scan over the lanes then computes the true starts, from which all lanes
run again. Matrices are (rows, columns, lanes), so that all arithmetic is elementwise over the lanes.

A site is a pair (w, z) with :math:`D = z + w\,h^\top P h`: noise of variance s is (1, s) and a precision W is (W, 1), so that
neither zero noise nor zero precision divides by zero; a padding row is (0, 1). With k = P h and P before the row's update,
one form covers both (Durbin & Koopman 2012, section 4.4; de Jong 1989):

.. math::
    e_i = (b_i - w_i h^\top A_i m_{i-1})/D_i,\quad m_i = A_i m_{i-1} + k_i e_i,\quad
    \alpha_i = e_i - \tfrac{w_i}{D_i} k_i^\top \rho_i,\quad \rho_{i-1} = A_i^\top(\rho_i + h\alpha_i).
"""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from covary.gram.markov.state_space import prior, steps
from covary.kernels.base import AbstractKernel

Rows: TypeAlias = tuple[jax.Array, ...]  # several arrays that a scan iterates over together

FEW = 4  # up to this many states, a sum over them is compiled as one operation

traces = {"steps": 0, "filter": 0, "weights": 0, "spread": 0, "states": 0, "pull": 0, "between": 0}  # read by the tests


# small matrices, with the lanes in the last axis ------------------------------------------------------------------
def mm(A: jax.Array, B: jax.Array) -> jax.Array:
    """Return A B for (..., d, e, lanes) and (..., e, f, lanes)."""
    inner = A.shape[-2]
    if inner <= FEW:
        return (A[..., :, :, None, :] * B[..., None, :, :, :]).sum(-3)
    terms = [A[..., :, j, None, :] * B[..., None, j, :, :] for j in range(inner)]
    return sum(terms[1:], terms[0])


def tr(A: jax.Array) -> jax.Array:
    """Return Aᵀ."""
    return jnp.swapaxes(A, -3, -2)


def seen(h: tuple[int, ...], X: jax.Array) -> jax.Array:
    """Return hᵀX for X of shape (d, ...)."""
    rows = [X[i] for i, v in enumerate(h) if v]
    return sum(rows[1:], rows[0])


def along(h: tuple[int, ...], v: jax.Array) -> jax.Array:
    """Return h vᵀ for v of shape (...): (d, ...)."""
    return v[None] * np.asarray(h, v.dtype).reshape(-1, *(1,) * v.ndim)


def _eye(d: int, like: jax.Array) -> jax.Array:
    return jnp.broadcast_to(jnp.eye(d, dtype=like.dtype)[:, :, None], (d, d, like.shape[-1]))


def _chain(F: jax.Array, b: jax.Array, first: jax.Array, *, reverse: bool = False) -> jax.Array:
    """Return the start of every lane, (d, p, lanes): ``first``, then F start + b of the previous lane."""

    def step(x: jax.Array, lane: Rows) -> tuple[jax.Array, jax.Array]:
        return lane[0] @ x + lane[1], x

    lanes = (jnp.moveaxis(F, -1, 0), jnp.moveaxis(b, -1, 0))
    return jnp.moveaxis(jax.lax.scan(step, first, lanes, reverse=reverse)[1], 0, -1)


def _informed(P: jax.Array, J: jax.Array) -> jax.Array:
    """Return (P⁻¹ + J)⁻¹ = U (I + UᵀJU)⁻¹Uᵀ with P = UUᵀ, for positive semi-definite (d, d) P and J, without cancellation."""
    d, eps = P.shape[0], jnp.finfo(P.dtype).eps
    least, columns = d * eps * jnp.diagonal(P), []
    for j in range(d):
        sound = P[j, j] > least[j]
        column = jnp.where(sound, P[:, j] / jnp.sqrt(jnp.where(sound, P[j, j], 1.0)), 0.0)
        columns.append(column)
        P = P - column[:, None] * column[None, :]
    rest = jnp.stack(columns)  # Uᵀ
    S = jnp.eye(d, dtype=P.dtype) + rest @ J @ rest.T
    out = jnp.zeros_like(P)
    for j in range(d):  # Cholesky of S, applied to Uᵀ in the same loop: V = L⁻¹Uᵀ, and VᵀV is the result
        pivot = jnp.sqrt(S[j, j])
        column, row = S[:, j] / pivot, rest[j] / pivot
        S = S - column[:, None] * column[None, :]
        rest = rest - column[:, None] * row[None, :]
        out = out + row[:, None] * row[None, :]
    return out


# the passes --------------------------------------------------------------------------------------------------------
@jax.jit
def built(kernel: AbstractKernel, t: jax.Array, dt: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return A and Q of all rows, and the prior covariance at the first."""
    traces["steps"] += 1
    return *steps(kernel, t, dt), prior(kernel, t[:1, 0])[..., 0]


@partial(jax.jit, static_argnames="h")
def filtered(A: jax.Array, Q: jax.Array, P0: jax.Array, w: jax.Array, z: jax.Array, h: tuple[int, ...]) -> Rows:
    """Run the covariance filter: return k and D of every row, P after it, the elements F and J of every lane, and log det."""
    traces["filter"] += 1
    d, lanes = A.shape[1], A.shape[-1]

    def step(carry: Rows, row: Rows) -> tuple[Rows, Rows]:
        (P, F, J), (A, Q, w, z) = carry, row
        P = (P + tr(P)) / 2  # symmetrised here, after it was stored: after the products they would be computed twice
        P, F = mm(mm(A, P), tr(A)) + Q, mm(A, F)
        k, f = seen(h, P), seen(h, F)
        D = z + w * seen(h, k)
        g = w / D
        P = P - (g * k)[:, None] * k[None]
        F = F - (g * k)[:, None] * f[None]
        J = J + (g * f)[:, None] * f[None]
        return (P, F, J), (k, D, P)

    rows, eye = (A, Q, w, z), _eye(d, A)
    start = P0[..., None]
    if lanes > 1:
        C, F, J = jax.lax.scan(lambda c, x: (step(c, x)[0], None), (0 * eye, eye, 0 * eye), rows)[0]

        def lane(P: jax.Array, element: Rows) -> tuple[jax.Array, jax.Array]:
            C, F, J = element
            return F @ _informed(P, J) @ F.T + C, P

        start = jax.lax.scan(lane, P0, tuple(jnp.moveaxis(v, -1, 0) for v in (C, F, J)))[1]
        start = jnp.moveaxis(start, 0, -1)
    (_, F, J), (k, D, P) = jax.lax.scan(step, (start, eye, 0 * eye), rows)
    return k, D, P, F, J, jnp.log(D).sum()


@partial(jax.jit, static_argnames="h")
def weighed(
    A: jax.Array, k: jax.Array, D: jax.Array, w: jax.Array, z: jax.Array, F: jax.Array, b: jax.Array, h: tuple[int, ...]
) -> tuple[jax.Array, jax.Array]:
    """Return the weights α = b − W Σ b and the mean Σ b (for noise: R b and its image), for b of shape (steps, p, lanes)."""
    traces["weights"] += 1
    d, p, lanes = A.shape[1], *b.shape[1:]

    def forward(m: jax.Array, row: Rows) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        A, k, D, w, b = row
        m = mm(A, m)
        e = (b - w * seen(h, m)) / D
        m = m + k[:, None] * e[None]
        return m, (e, seen(h, m))

    def backward(rho: jax.Array, row: Rows) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        A, k, D, w, e = row
        inner = (k[:, None] * rho).sum(0)
        u = e - w / D * inner
        return mm(tr(A), rho + along(h, u)), (u, inner)

    empty = jnp.zeros((d, p, lanes), b.dtype)
    rows = (A, k, D, w, b)
    ahead = jax.lax.scan(lambda c, x: (forward(c, x)[0], None), empty, rows)[0] if lanes > 1 else empty
    e, seen_ahead = jax.lax.scan(forward, _chain(F, ahead, empty[..., 0]), rows)[1]
    rows = (A, k, D, w, e)
    behind = jax.lax.scan(lambda c, x: (backward(c, x)[0], None), empty, rows, reverse=True)[0] if lanes > 1 else empty
    start = _chain(tr(F), behind, empty[..., 0], reverse=True)
    u, inner = jax.lax.scan(backward, start, rows, reverse=True)[1]
    return u, seen_ahead + (z / D)[:, None] * inner


@partial(jax.jit, static_argnames="h")
def informed(
    A: jax.Array, k: jax.Array, D: jax.Array, w: jax.Array, F: jax.Array, J: jax.Array, h: tuple[int, ...]
) -> tuple[jax.Array, jax.Array]:
    """Return N, the information of a row and all later rows about its state, and kᵀÑk with Ñ that of the later rows only."""
    traces["spread"] += 1

    def backward(M: jax.Array, row: Rows) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        A, k, D, w = row
        M = (M + tr(M)) / 2
        g, Mk = w / D, mm(M, k[:, None])[:, 0]
        q = (k * Mk).sum(0)
        cross = along(h, g * Mk)
        N = M - cross - tr(cross) + along(h, along(h, g + g * g * q))
        return mm(mm(tr(A), N), A), (N, q)

    def lane(M: jax.Array, element: Rows) -> tuple[jax.Array, jax.Array]:
        F, J = element
        return F.T @ M @ F + J, M

    lanes = tuple(jnp.moveaxis(v, -1, 0) for v in (F, J))
    start = jax.lax.scan(lane, jnp.zeros(F.shape[:2], F.dtype), lanes, reverse=True)[1]
    return jax.lax.scan(backward, jnp.moveaxis(start, 0, -1), (A, k, D, w), reverse=True)[1]


@partial(jax.jit, static_argnames="h")
def states(A: jax.Array, Q: jax.Array, P0: jax.Array, v: jax.Array, h: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """Return, for v (steps, p, lanes), r, the sum of Φᵀh v over a row and all later ones, and x = cov(state, f) v."""
    traces["states"] += 1
    d, p, lanes = A.shape[1], *v.shape[1:]

    def backward(rho: jax.Array, row: Rows) -> tuple[jax.Array, jax.Array]:
        A, v = row
        r = rho + along(h, v)
        return mm(tr(A), r), r

    def forward(x: jax.Array, row: Rows) -> tuple[jax.Array, jax.Array]:
        A, Q, r = row
        x = mm(A, x) + mm(Q, r)
        return x, x

    empty = jnp.zeros((d, p, lanes), v.dtype)
    G, behind, ahead = _eye(d, A), empty, empty
    if lanes > 1:
        both = lambda c, x: ((mm(c[0], x[0]), backward(c[1], x)[0]), None)  # noqa: E731
        G, behind = jax.lax.scan(both, (G, empty), (A, v), reverse=True)[0]
    r = jax.lax.scan(backward, _chain(tr(G), behind, empty[..., 0], reverse=True), (A, v), reverse=True)[1]
    if lanes > 1:
        ahead = jax.lax.scan(lambda c, x: (forward(c, x)[0], None), empty, (A, Q, r))[0]
    start = _chain(G, ahead, P0 @ r[0, :, :, 0])
    return r, jax.lax.scan(forward, start, (A, Q, r))[1]


@jax.jit
def pulled(
    kernel: AbstractKernel,
    t: jax.Array,
    dt: jax.Array,
    A: jax.Array,
    P: jax.Array,
    N: jax.Array,
    scale: jax.Array,
    r: jax.Array,
    x: jax.Array,
    S: jax.Array,
) -> AbstractKernel:
    r"""Return the kernel gradient of the sum of :math:`(\mathrm{scale}\,R + V S V^\top) \circ K`, S symmetric.

    With r and x of V's columns (see :func:`states`), the differential of K in terms of the steps is

    .. math:: u^\top dK\,v = \sum_i r^u_i{}^\top dA_i\,x^v_{i-1} + r^v_i{}^\top dA_i\,x^u_{i-1} + r^u_i{}^\top dQ_i\,r^v_i,
        \qquad \mathrm{tr}(R\,dK) = \sum_i \mathrm{tr}(2 P_{i-1}A_i^\top N_i\,dA_i + N_i\,dQ_i)

    (the score of the disturbance smoother: Koopman & Shephard 1992).
    """
    traces["pull"] += 1
    rS = mm(r, S[:, :, None])
    A_bar = 2 * (scale * mm(N, mm(A, _before(P))) + mm(rS, tr(_before(x))))
    Q_bar = scale * N + mm(rS, tr(r))
    back = jax.vjp(lambda k: (*steps(k, t, dt), prior(k, t[:1, 0])[..., 0]), kernel)[1]
    return back((A_bar, Q_bar, Q_bar[0, :, :, 0]))[0]


def _before(V: jax.Array) -> jax.Array:
    """Return the values at the previous row, zero at the first: (steps, ..., lanes)."""
    first = jnp.concatenate([jnp.zeros_like(V[-1:, ..., :1]), V[-1:, ..., :-1]], -1)
    return jnp.concatenate([first, V[:-1]])


@partial(jax.jit, static_argnames=("h", "variance"))
def between(
    kernel: AbstractKernel,
    t: jax.Array,
    near: Rows,
    r: jax.Array,
    x: jax.Array,
    P: jax.Array,
    N: jax.Array,
    h: tuple[int, ...],
    variance: bool,
) -> tuple[jax.Array, jax.Array | None]:
    """Return the mean and variance at new times, from the rows adjacent to them.

    ``near`` contains the distances to the row on the left and on the right, the time of the latter, and whether there is a row
    on the left. Without a row on the right, r and N are zero.
    """
    traces["between"] += 1
    back, ahead, then, inside = near
    (A, Q), (B, _) = steps(kernel, t, back), steps(kernel, then, ahead)
    begin = prior(kernel, t)
    r = mm(tr(B), r)
    mean = seen(h, jnp.where(inside, mm(A, x) + mm(Q, r), mm(begin, r)))
    if not variance:
        return mean, None
    P = jnp.where(inside, mm(mm(A, P), tr(A)) + Q, begin)
    k = seen(h, P)
    toward = mm(B, k[:, None])
    return mean, seen(h, k) - (toward * mm(N, toward)).sum((0, 1))
