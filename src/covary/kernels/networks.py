r"""Kernels of infinitely wide networks with one hidden layer, and random finite networks.

A network :math:`f(x) = \sum_j v_j\, h(u_j \cdot \tilde x)` of H units with :math:`v_j \sim N(0, 1/H)`, inputs
:math:`\tilde x = (1, x)` and :math:`u_j \sim N(0, \mathrm{diag}(b, \ell_1^{-2}, \dots))` has the covariance
:math:`E[h(u\cdot\tilde x)\,h(u\cdot\tilde x')]` and converges to a Gaussian process as H → ∞ (R&W, eqs. 4.25 to 4.27). For
h = erf its kernel is :class:`~covary.kernels.NeuralNetwork`. This module has the kernels for h = tanh and for powers of
rectified linear units, and estimates others by simulation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cache, partial
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from covary._checks import fail
from covary._errors import Option
from covary._module import Numbers, static
from covary._types import Array, ArrayLike
from covary._words import counted
from covary.data import Inputs, Rows, as_inputs
from covary.kernels.base import AbstractKernel, Traits
from covary.kernels.distance import square_distance
from covary.kernels.series import arcsine
from covary.kernels.structure import settled
from covary.parameters import positive

MOST_TERMS = 24
Terms = TypeVar("Terms")  # an array, or several in a tuple

WRITTEN_OUT = 12  # for more terms a loop is used, which is a little slower but compiles in half the time


@cache
def slopes(terms: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Return scales λ and weights w with :math:`\tanh x \approx \sum_i w_i\,\mathrm{erf}(x/\sqrt2\lambda_i)`.

    The logistic density is a mixture of normal densities whose standard deviation is distributed like Kolmogorov's
    statistic (Andrews & Mallows 1974), so tanh is a mixture of error functions. This is Gaussian quadrature in log λ.
    """
    t = np.linspace(np.log(0.12), np.log(6.0), 2001)
    s, k = np.exp(t), np.arange(1, 40)[:, None]
    low = np.exp(-(((2 * k - 1) * np.pi / s) ** 2) / 8)  # two series of the density, each fast where the other is slow
    short = np.sqrt(2 * np.pi) / s**2 * (low * (((2 * k - 1) * np.pi / s) ** 2 / 4 - 1)).sum(0)
    long = 8 * s * ((-1.0) ** (k - 1) * k**2 * np.exp(-2 * (k * s) ** 2)).sum(0)
    mass = np.where(s < 1, short, long) * s
    basis = [np.sqrt(mass / mass.sum())]
    centre, beside = [], []
    for _ in range(terms):  # the three-term recursion of the orthogonal polynomials (Lanczos), then Golub & Welsch
        v = t * basis[-1]
        centre.append(basis[-1] @ v)
        for _ in range(2):
            v = v - np.array(basis).T @ (np.array(basis) @ v)
        beside.append(np.linalg.norm(v))
        basis.append(v / beside[-1])
    nodes, vectors = np.linalg.eigh(np.diag(centre) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1))
    return np.exp(nodes), vectors[0] ** 2


def _tilde(x: Array, lengthscale: Array, bias: Array) -> Array:
    """Return the rows (√b, x/ℓ), whose inner products are the covariances of u·x̃."""
    return jnp.column_stack([jnp.broadcast_to(jnp.sqrt(bias), x.shape[:1]), x / lengthscale])


def _over_terms(terms: int, p: Array, q: Array, start: Terms, step: Callable[[Array, Array], Terms]) -> Terms:
    """Compute Σ_ij w_i w_j step(a_i, b_j) with a = (λ² + p)^-½ and b = (λ² + q)^-½: loop over i, unroll over j if few."""
    scale, weight = (np.asarray(v, p.dtype) for v in slopes(terms))
    a, b = (1 / jnp.sqrt(scale[:, None] ** 2 + v) for v in (p, q))
    each = jnp.asarray(weight)

    def over_j(total: Terms, part: tuple[Array, Array]) -> tuple[Terms, None]:
        def add(total: Terms, other: tuple[Array, Array]) -> tuple[Terms, None]:
            v, column = other
            new = step(row[:, None], column[None, :])
            return jax.tree_util.tree_map(lambda t, s: t + w * v * s, total, new), None

        w, row = part
        return jax.lax.scan(add, total, (each, b), unroll=terms <= WRITTEN_OUT)

    return jax.lax.scan(jax.checkpoint(over_j), start, (each, a))[0]


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _mixture(terms: int, C: Array, p: Array, q: Array) -> Array:
    """Compute the kernel of tanh units from the covariances C of u·x̃ and u·x̃' and their variances p and q."""
    most = 1 - jnp.finfo(C.dtype).eps
    total = _over_terms(terms, p, q, jnp.zeros_like(C), lambda a, b: arcsine(jnp.clip(C * a * b, -most, most)))
    return 2 / jnp.pi * total


@_mixture.defjvp
def _mixture_jvp(terms: int, primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (C, p, q), (dC, dp, dq) = primals, tangents
    most = 1 - jnp.finfo(C.dtype).eps

    def step(a: Array, b: Array) -> tuple[Array, ...]:
        z = jnp.clip(C * a * b, -most, most)
        slope = 1 / jnp.sqrt((1 - z) * (1 + z))
        return slope * (a * b), slope * z * a**2, slope * z * b**2

    by_c, by_p, by_q = _over_terms(terms, p, q, (jnp.zeros_like(C),) * 3, step)
    change = by_c * dC - 0.5 * (by_p * dp[:, None] + by_q * dq[None, :])
    return _mixture(terms, C, p, q), 2 / jnp.pi * change


class TanhNetwork(AbstractKernel):
    r"""Infinitely wide network of tanh units.

    .. math::
        k(x, x') = E[\tanh(u\cdot\tilde x)\tanh(u\cdot\tilde x')]
        \approx \frac2\pi \sum_{ij} w_i w_j \arcsin \frac{c(x, x')}{\sqrt{(\lambda_i^2 + c(x, x))(\lambda_j^2 + c(x', x'))}},
        \qquad c(x, x') = b + \sum_k x_k x'_k/\ell_k^2 .

    Functions level off far from the origin, much like those of :class:`~covary.kernels.NeuralNetwork`. The tanh function is a
    mixture of error functions of different slopes, and a few slopes are enough. The sum is the exact kernel of the activation
    :math:`\sum_i w_i\,\mathrm{erf}(x/\sqrt2\lambda_i)`, so it is positive semi-definite for any number of terms. This
    activation differs from tanh by at most 3e-4, 6e-5, 3e-6, 2e-7, 2e-9, 3e-13 for 3, 4, 6, 8, 12, 20 terms.

    Parameters
    ----------
    lengthscale
        Positive: one number, or one per input column.
    bias
        Positive: b, the variance of the units' biases. ``fixed(0.0)`` means no bias, as in Gibbs.
    terms
        The number of error functions that approximate tanh, 1 to 24 (not learned). Each entry costs terms² arcsines.

    References
    ----------
    Gibbs (1997), eqs. 2.49 to 2.53; Andrews & Mallows (1974) for the mixture.

    Examples
    --------
    >>> round(float(TanhNetwork()([0.0], [1.0])), 4)
    0.3028
    """

    lengthscale: Numbers = positive(1.0)
    _: KW_ONLY
    bias: Numbers = positive(1.0)
    terms: int = static(6)

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=np.inf)

    def check(self, X: Inputs) -> None:
        if isinstance(self.terms, bool) or not isinstance(self.terms, int) or not 1 <= self.terms <= MOST_TERMS:
            what = f"terms is {self.terms!r}"
            raise fail("kernels.TanhNetwork", what, f"give an integer from 1 to {MOST_TERMS}", argument="terms")
        none = self.mark_of("bias").fixed and np.ndim(self.bias) == 0 and self.bias == 0
        AbstractKernel.check(self.replace(bias=1.0) if none else self, X)

    def block(self, X: Inputs, Z: Inputs) -> Array:
        A, B = (_tilde(V.x, self.lengthscale, self.bias) for V in (X, Z))
        return _mixture(self.terms, A @ B.T, (A * A).sum(1), (B * B).sum(1))


@jax.custom_jvp
def _angle(s: Array, floor: Array) -> Array:
    """Return the angle between unit vectors at squared distance s."""
    return 2 * arcsine(jnp.minimum(0.5 * jnp.sqrt(s), 1.0))


@_angle.defjvp
def _angle_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (s, floor), (ds, _) = primals, tangents
    inside = (s > floor) & (s < 4 - floor)  # dθ/ds = 1/(2 sin θ) is infinite at the ends
    sine = jnp.sqrt(jnp.where(inside, s * (1 - 0.25 * s), 1.0))
    return _angle(s, floor), jnp.where(inside, 0.5 / sine, 0.0) * ds


def _sine(s: Array) -> Array:
    return jnp.sqrt(jnp.maximum(s * (1 - 0.25 * s), 0.0))


def _arc0(s: Array, floor: Array) -> Array:
    return 1 - _angle(s, floor) / jnp.pi


@jax.custom_jvp
def _arc1(s: Array, floor: Array) -> Array:
    theta, cosine = _angle(s, floor), 1 - 0.5 * s
    return (_sine(s) + (jnp.pi - theta) * cosine) / jnp.pi


@_arc1.defjvp
def _arc1_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (s, floor), (ds, _) = primals, tangents
    return _arc1(s, floor), -0.5 * _arc0(s, floor) * ds


@jax.custom_jvp
def _arc2(s: Array, floor: Array) -> Array:
    theta, cosine = _angle(s, floor), 1 - 0.5 * s
    return (3 * _sine(s) * cosine + (jnp.pi - theta) * (1 + 2 * cosine**2)) / jnp.pi


@_arc2.defjvp
def _arc2_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (s, floor), (ds, _) = primals, tangents
    return _arc2(s, floor), -2 * _arc1(s, floor) * ds


class ArcCosine(AbstractKernel):
    r"""Arc-cosine kernel: an infinitely wide network of units :math:`\sqrt2\max(0, u)^p`.

    .. math::
        k(x, x') = \frac1\pi |\tilde x|^p |\tilde x'|^p J_p(\theta), \qquad
        J_0 = \pi - \theta,\quad J_1 = \sin\theta + (\pi - \theta)\cos\theta,\quad
        J_2 = 3\sin\theta\cos\theta + (\pi - \theta)(1 + 2\cos^2\theta),

    where θ is the angle between :math:`\tilde x = (\sqrt b, x_1/\ell_1, \dots)` and :math:`\tilde x'`. The units are steps for
    order 0, rectified linear units for order 1 and their squares for order 2. Functions grow like the p-th power of the
    distance from the origin.

    Parameters
    ----------
    order
        p: 0, 1 or 2 (not learned).
    lengthscale
        Positive: one number, or one per input column.
    bias
        Positive: b, the variance of the units' biases.

    References
    ----------
    Cho & Saul (2009), *Kernel methods for deep learning*, eqs. 1 to 8.

    Examples
    --------
    >>> round(float(ArcCosine(1)([0.0], [1.0])), 6)
    1.06831
    """

    order: int = static(1)
    _: KW_ONLY
    lengthscale: Numbers = positive(1.0)
    bias: Numbers = positive(1.0)

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=self.order)

    def check(self, X: Inputs) -> None:
        if isinstance(self.order, bool) or self.order not in (0, 1, 2):
            raise fail("kernels.ArcCosine", f"order is {self.order!r}", "give 0, 1 or 2", argument="order")
        AbstractKernel.check(self, X)

    def block(self, X: Inputs, Z: Inputs) -> Array:
        A, B = (_tilde(V.x, self.lengthscale, self.bias) for V in (X, Z))
        a, b = (jnp.sqrt((V * V).sum(1)) for V in (A, B))
        s = square_distance(settled(A / a[:, None]), settled(B / b[:, None]), jnp.ones(A.shape[1], A.dtype))
        floor = 16 * jnp.finfo(s.dtype).eps ** 2  # equal directions, up to the rounding of unit vectors
        return (_arc0, _arc1, _arc2)[self.order](s, jnp.full((), floor, s.dtype)) * (a[:, None] * b[None, :]) ** self.order

    def block_diag(self, X: Inputs) -> Array:
        own = (_tilde(X.x, self.lengthscale, self.bias) ** 2).sum(1)
        return (1, 1, 3)[self.order] * own**self.order


@dataclass(frozen=True)
class Network:
    """Finite networks with given weights: called with inputs (n, d), they return values (n, draws), in NumPy.

    ``inner`` has shape (draws, units, 1 + d), the bias first, and ``outer`` has shape (draws, units).
    """

    inner: np.ndarray
    outer: np.ndarray
    activation: Callable[[np.ndarray], np.ndarray]

    def __call__(self, X: Rows) -> np.ndarray:
        x = np.asarray(as_inputs(X, "Network").x, np.float64)
        if x.shape[1] + 1 != self.inner.shape[2]:
            columns = self.inner.shape[2] - 1
            what = Option("X") + f" has {counted(x.shape[1], 'column')}, expected {columns}"
            raise fail("Network", what, "give the columns the network was drawn for")
        tilde = np.column_stack([np.ones(len(x)), x])
        return np.stack([self.activation(tilde @ u.T) @ v for u, v in zip(self.inner, self.outer, strict=True)], axis=1)


def _weights(units: int, columns: int, lengthscale: ArrayLike, bias: float, rng: np.random.Generator) -> np.ndarray:
    scale = np.concatenate([[np.sqrt(bias)], 1 / np.broadcast_to(np.asarray(lengthscale, np.float64), (columns,))])
    return rng.normal(size=(units, columns + 1)) * scale


def _whole(who: str, **counts: int) -> None:
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise fail(who, f"{name} is {value!r}", "give an integer of at least 1", argument=name)


def random_network(
    units: int,
    columns: int,
    *,
    activation: Callable[[np.ndarray], np.ndarray] = np.tanh,
    lengthscale: ArrayLike = 1.0,
    bias: float = 1.0,
    draws: int = 1,
    key: int | np.random.Generator,
) -> Network:
    r"""Draw random networks of finitely many units, :math:`f(x) = H^{-1/2} \sum_j v_j\, h(u_j\cdot\tilde x)`.

    The outer weights v are standard normal. The covariance is :math:`E[h h']` for every H, but values are jointly normal only
    in the limit H → ∞.

    Parameters
    ----------
    units, columns
        Number of units H and number of input columns.
    activation
        h, a NumPy function of arrays, bounded or growing no faster than a polynomial.
    lengthscale, bias
        The inner weights have variances ``lengthscale ** -2`` and the biases have variance ``bias``.
    draws
        Number of networks.
    key
        A seed or a generator.

    References
    ----------
    Rasmussen & Williams (2006), eq. 4.25; Neal (1996).

    Examples
    --------
    >>> random_network(50, 1, draws=3, key=0)([[0.0], [1.0]]).shape
    (2, 3)
    """
    _whole("random_network", units=units, columns=columns, draws=draws)
    rng = np.random.default_rng(key)
    inner = _weights(draws * units, columns, lengthscale, bias, rng).reshape(draws, units, columns + 1)
    return Network(inner, rng.normal(size=(draws, units)) / np.sqrt(units), activation)


def simulated_covariance(
    activation: Callable[[np.ndarray], np.ndarray],
    X: Rows,
    Z: Rows | None = None,
    *,
    units: int,
    lengthscale: ArrayLike = 1.0,
    bias: float = 1.0,
    key: int | np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Estimate the kernel :math:`E[h(u\cdot\tilde x)\,h(u\cdot\tilde x')]` of any activation by simulation.

    The estimate is positive semi-definite, because it is the exact covariance of a network with the units drawn. To learn with
    such a kernel, use :class:`~covary.kernels.BasisFunctions` with a function that applies ``activation``.

    Parameters
    ----------
    activation
        h, a NumPy function of arrays.
    X, Z
        Inputs (n, d) and (m, d). Z is X by default.
    units
        Number of units to draw.
    lengthscale, bias, key
        As in :func:`random_network`.

    Returns
    -------
    The matrix (n, m) and the standard error of every entry.

    References
    ----------
    Rasmussen & Williams (2006), eq. 4.27.

    Examples
    --------
    >>> K, error = simulated_covariance(np.sign, [[0.0], [1.0]], units=1000, key=0)
    >>> K[0, 0].item(), bool(abs(K[0, 1] - 0.5) < 4 * error[0, 1])
    (1.0, True)
    """
    _whole("simulated_covariance", units=units)
    tables = [np.asarray(as_inputs(V, "simulated_covariance").x, np.float64) for V in (X, X if Z is None else Z)]
    u = _weights(units, tables[0].shape[1], lengthscale, bias, np.random.default_rng(key))
    left, right = (activation(np.column_stack([np.ones(len(V)), V]) @ u.T) for V in tables)
    K = left @ right.T / units
    spread = np.maximum((left**2) @ (right**2).T / units - K**2, 0.0)
    return K, np.sqrt(spread / units)
