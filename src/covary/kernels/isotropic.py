"""Further isotropic kernels: γ-exponential, mixtures of scales, compact support and damped oscillations.

Like those of :mod:`covary.kernels.stationary`, they are normalised to k(0) = 1 and take one length-scale or one per column.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, replace
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy.fft import dct
from scipy.special import roots_jacobi

from covary._checks import check_positive, fail
from covary._module import Numbers, static
from covary._types import Array
from covary._words import counted
from covary.data import Inputs
from covary.kernels.base import AbstractKernel, Traits
from covary.kernels.distance import rounding_floor, scaled_square
from covary.kernels.matern import MOST_ORDER, check_one_number
from covary.kernels.series import horner
from covary.kernels.stationary import UNTYPED, AbstractStationary, root
from covary.parameters import positive

HIGHEST_GAMMA = 2.0
PIECES = {  # eq. 4.21: the polynomials in r, constant first, divided by their constant coefficient
    0: lambda j: (1.0,),
    1: lambda j: (1.0, j + 1),
    2: lambda j: (1.0, j + 2, (j * j + 4 * j + 3) / 3),
    3: lambda j: (1.0, j + 3, (6 * j * j + 36 * j + 45) / 15, (j**3 + 9 * j * j + 23 * j + 15) / 15),
}


@jax.custom_jvp
def _gamma_exponential(s: Array, floor: Array, gamma: Array) -> Array:
    apart = s > 0
    log = jnp.log(jnp.where(apart, s, 1.0))
    return jnp.where(apart, jnp.exp(-jnp.exp(gamma / 2 * log)), 1.0)  # XLA's power function takes three times as long


@_gamma_exponential.defjvp
def _gamma_exponential_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (s, floor, gamma), (ds, _, dgamma) = primals, tangents
    apart = s > 0
    log = jnp.log(jnp.where(apart, s, 1.0))
    power = jnp.where(apart, jnp.exp(gamma / 2 * log), 0.0)
    k = jnp.exp(-power)
    rate = jnp.where(gamma < 2, jnp.where(s > floor, jnp.exp((gamma / 2 - 1) * log), 0.0), 1.0)  # infinite at s = 0 if γ < 2
    return _gamma_exponential(s, floor, gamma), -gamma / 2 * k * rate * ds - 0.5 * k * power * log * dgamma


class GammaExponential(AbstractStationary):
    r"""γ-exponential kernel, which includes the Ornstein–Uhlenbeck process (γ = 1) and the squared exponential (γ = 2).

    .. math:: k(x, x') = e^{-r^\gamma}, \qquad 0 < \gamma \le 2

    The process is not mean-square differentiable unless γ = 2, where the kernel is a squared exponential of length-scale
    :math:`\ell/\sqrt2`. For intermediate smoothness use :class:`Matern`.

    Parameters
    ----------
    lengthscale
        Positive: one number, or one per input column.
    gamma
        A number between 0 and 2, kept in this interval while learning.

    References
    ----------
    Rasmussen & Williams (2006), eq. 4.18.

    Examples
    --------
    >>> round(float(GammaExponential(lengthscale=2.0, gamma=1.5)([0.0], [1.0])), 6)
    0.702189
    """

    lengthscale: Numbers = positive(1.0)
    _: KW_ONLY
    gamma: Numbers = positive(1.0)

    def __post_init__(self) -> None:
        AbstractStationary.__post_init__(self)
        mark = self.mark_of("gamma")
        if mark.bounds is None and not mark.fixed:
            bounds = replace(mark, bounds=(0.0, HIGHEST_GAMMA))
            object.__setattr__(self, "_marks", self.with_mark("gamma", bounds)._marks)

    @property
    def traits(self) -> Traits:
        smoothness = np.inf if np.all(np.asarray(self.gamma) >= HIGHEST_GAMMA) else 0
        return Traits(stationary=True, smoothness=smoothness, isotropic=np.ndim(self.lengthscale) == 0)

    def check(self, X: Inputs) -> None:
        AbstractKernel.check(self, X)
        check_one_number("kernels.GammaExponential", "gamma", self.gamma)
        if self.gamma > HIGHEST_GAMMA:
            what = f"gamma is {self.gamma}"
            raise fail("kernels.GammaExponential", what, "give a number above 0 and at most 2", argument="gamma")

    def block(self, X: Inputs, Z: Inputs) -> Array:
        s = scaled_square(X.x, Z.x, self.lengthscale)
        return _gamma_exponential(s, rounding_floor(X.x, Z.x, self.lengthscale), jnp.asarray(self.gamma, s.dtype))

    def profile(self, s: Array) -> Array:
        return _gamma_exponential(s, jnp.zeros_like(s), jnp.asarray(self.gamma, s.dtype))


class SquaredExponentialMixture(AbstractKernel):
    r"""Mixture of squared exponentials over length-scales.

    .. math:: k(x, x') = \sum_q p_q\, e^{-|x - x'|^2/2\ell_q^2}, \qquad p_q = w_q \big/ \textstyle\sum_j w_j

    For processes with a few length-scales. Every isotropic kernel that is valid for any number of columns is such a mixture,
    possibly an infinite one; :class:`RationalQuadratic` is the mixture over a gamma density.

    Parameters
    ----------
    lengthscales
        Positive: one number per component (Q,), or one per component and column (Q, d).
    weights
        Positive: one number per component (Q,). Only their ratios matter. Multiply the kernel by a variance to scale it.

    References
    ----------
    Rasmussen & Williams (2006), section 4.2.1, below eq. 4.20.

    Examples
    --------
    >>> round(float(SquaredExponentialMixture([0.5, 2.0], weights=[1.0, 3.0])([0.0], [1.0])), 6)
    0.695706
    """

    lengthscales: Numbers = positive((0.5, 2.0))
    _: KW_ONLY
    weights: Numbers = positive((1.0, 1.0))

    @property
    def traits(self) -> Traits:
        return Traits(stationary=True, smoothness=np.inf, isotropic=np.ndim(self.lengthscales) == 1)

    def check(self, X: Inputs) -> None:
        who, count, shape = "kernels.SquaredExponentialMixture", np.shape(self.weights), np.shape(self.lengthscales)
        if len(count) != 1 or not count[0]:
            raise fail(who, f"weights has shape {count}", "give one number per component", argument="weights")
        if shape not in (count, (*count, X.columns)):
            need = f"one per weight ({count[0]}), or an array of {counted(count[0], 'row')} and {counted(X.columns, 'column')}"
            raise fail(who, f"lengthscales has shape {shape}", f"give {need}", argument="lengthscales")
        check_positive(who, "lengthscales", self.lengthscales)
        check_positive(who, "weights", self.weights)

    def block(self, X: Inputs, Z: Inputs) -> Array:
        share = self.weights / jnp.sum(self.weights)
        ell, total = jnp.asarray(self.lengthscales), 0.0
        common = scaled_square(X.x, Z.x, 1.0) if ell.ndim == 1 else None
        for q in range(len(ell)):
            s = scaled_square(X.x, Z.x, ell[q]) if common is None else common / ell[q] ** 2
            total = total + share[q] * jnp.exp(-0.5 * s)
        return total  # type: ignore[return-value]

    def block_diag(self, X: Inputs) -> Array:
        return jnp.ones(X.rows, X.x.dtype)


@partial(UNTYPED, nondiff_argnums=(0, 1))
def _compact(power: int, coefficients: tuple[float, ...], s: Array, floor: Array) -> Array:
    """(1 − r)₊^power times a polynomial in r = √s."""
    r = root(s)
    return jnp.maximum(1 - r, 0.0) ** power * horner(coefficients, r)


@_compact.defjvp
def _compact_jvp(
    power: int, coefficients: tuple[float, ...], primals: tuple[Array, ...], tangents: tuple[Array, ...]
) -> tuple[Array, Array]:
    """d/ds = (d/dr)/2r; the bracket (1 − r)p' − power·p has no constant term if the process is differentiable."""
    (s, floor), (ds, _) = primals, tangents
    p = np.polynomial.Polynomial(coefficients)
    bracket = (np.polynomial.Polynomial([1.0, -1.0]) * p.deriv() - power * p).coef / 2  # type: ignore[operator]
    k = _compact(power, coefficients, s, floor)
    if abs(bracket[0]) < 1e-9 * np.abs(bracket).max():
        return k, _compact(power - 1, tuple(bracket[1:].tolist()), s, floor) * ds
    inside = (s > floor) & (s < 1)
    r = jnp.where(inside, root(s), 1.0)
    return k, jnp.where(inside, (1 - r) ** (power - 1) * horner(bracket, r) / r, 0.0) * ds


class PiecewisePolynomial(AbstractStationary):
    r"""Piecewise polynomial kernel of compact support: zero for r ≥ 1, so that gram matrices are sparse.

    .. math:: k(x, x') = (1 - r)_+^{j+q}\, p_q(r), \qquad j = \lfloor D/2 \rfloor + q + 1

    with :math:`p_0 = 1`, :math:`p_1 = (j + 1) r + 1` and so on (eq. 4.21). The process is q times mean-square differentiable.
    The exponent increases with the number D of columns, because the kernel is valid for at most D columns.

    Parameters
    ----------
    degree
        The integer q, from 0 to 3 (not learned).
    lengthscale
        Positive: the distance at which the support ends, one number, or one per input column.
    columns
        D, the largest number of columns for which the kernel must be valid; by default the number of input columns.

    References
    ----------
    Rasmussen & Williams (2006), eq. 4.21; Wendland (2005).

    Examples
    --------
    >>> round(float(PiecewisePolynomial(1)([0.0], [0.3])), 6)
    0.6517
    """

    degree: int = static(2)
    _: KW_ONLY
    lengthscale: Numbers = positive(1.0)
    columns: int | None = static(None)

    @property
    def traits(self) -> Traits:
        return Traits(True, self.degree, self.columns, isotropic=np.ndim(self.lengthscale) == 0)

    def check(self, X: Inputs) -> None:
        who = "kernels.PiecewisePolynomial"
        if isinstance(self.degree, bool) or self.degree not in PIECES:
            raise fail(who, f"degree is {self.degree!r}", "give 0, 1, 2 or 3", argument="degree")
        if self.columns is not None and (not isinstance(self.columns, int) or self.columns < 1):
            raise fail(who, f"columns is {self.columns!r}", "give an integer, 1 or more", argument="columns")
        AbstractKernel.check(self, X)

    def _shape(self, columns: int) -> tuple[int, tuple[float, ...]]:
        j = (self.columns or columns) // 2 + self.degree + 1
        return j + self.degree, tuple(float(c) for c in PIECES[self.degree](j))

    def block(self, X: Inputs, Z: Inputs) -> Array:
        s, floor = (f(X.x, Z.x, self.lengthscale) for f in (scaled_square, rounding_floor))
        return _compact(*self._shape(X.columns), s, floor)

    def profile(self, s: Array) -> Array:
        return _compact(*self._shape(1), s, jnp.zeros_like(s))

    def __repr__(self) -> str:
        text = AbstractStationary.__repr__(self)
        return text if self.columns is not None else text.replace(", columns=None", "")


@lru_cache
def _bessel_pieces(order: float) -> tuple[float, np.ndarray, np.ndarray]:
    r"""Return the point z at which two expansions of :math:`\Gamma(\nu+1) (2/z)^\nu J_\nu(z)` meet, and their coefficients.

    Below z it is a Chebyshev series in z² over [0, z²], from Poisson's integral
    :math:`\propto \int_{-1}^1 (1 - t^2)^{\nu-1/2} \cos zt\,dt` by Gauss–Jacobi quadrature. Above z it is Hankel's expansion in
    1/z (Abramowitz & Stegun 9.1.20, 9.2.5).
    """
    end, size, hankel, best = 20, np.ones(1), np.ones(1), 0
    for end in range(25, 500, 5):
        k = np.arange(1, end)
        hankel = np.cumprod([1.0, *((4 * order**2 - (2 * k - 1) ** 2) / (8 * k * end))])
        height = math.exp(min(math.lgamma(order + 1) + (order + 0.5) * math.log(2 / end), 0.0))
        size = height * np.abs(hankel)
        best = int(np.argmin(size))  # an asymptotic series: its terms decrease, then increase
        if size[best] < 1e-16 and np.finfo(float).eps * size.max() < 1e-16:
            break
    needed = int(np.flatnonzero(size[:best] > 1e-17)[-1]) + 1
    t, w = roots_jacobi(end + 40, order - 0.5, order - 0.5)
    count = end + 30
    angle = np.pi * (np.arange(count) + 0.5) / count
    values = np.cos(end * np.cos(angle / 2)[:, None] * t) @ (w / w.sum())  # at z² = end² (1 + cos angle)/2
    series = dct(values) / count  # type: ignore[operator]
    series[0] /= 2
    return float(end), series[: np.flatnonzero(np.abs(series) > 5e-16)[-1] + 1], hankel[:needed]


@partial(UNTYPED, nondiff_argnums=(0,))
def _bessel(order: float, s: Array) -> Array:
    end, series, hankel = _bessel_pieces(order)
    near = s < end**2
    y = 2 * jnp.where(near, s, 0.0) / end**2 - 1
    first, second = jnp.zeros_like(s), jnp.zeros_like(s)
    for c in series[:0:-1]:  # Clenshaw's recurrence
        first, second = 2 * y * first - second + float(c), first
    low = y * first - second + float(series[0])
    z = jnp.sqrt(jnp.where(near, end**2, s))
    inverse = end / z
    signed = (np.array([1, 1, -1, -1])[np.arange(len(hankel)) % 4] * hankel).tolist()
    P = horner(signed[::2], inverse**2)
    Q = inverse * horner(signed[1::2], inverse**2) if len(hankel) > 1 else 0.0
    phase = z - (order / 2 + 0.25) * math.pi
    height = math.exp(math.lgamma(order + 1) + order * math.log(2 / end)) * math.sqrt(2 / (math.pi * end))
    high = height * inverse ** (order + 0.5) * (P * jnp.cos(phase) - Q * jnp.sin(phase))
    return jnp.where(near, jnp.where(s > 0, low, 1.0), high)


@_bessel.defjvp
def _bessel_jvp(order: float, primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (s,), (ds,) = primals, tangents
    return _bessel(order, s), -_bessel(order + 1, s) / (4 * (order + 1)) * ds


class Bessel(AbstractStationary):
    r"""Bessel kernel: a damped oscillation, negative at some distances.

    .. math:: k(x, x') = \Gamma(\nu + 1) \Bigl(\frac2r\Bigr)^\nu J_\nu(r)

    Functions are band-limited: there is no power above 1/2πℓ cycles per unit. Order 1/2 is sin r/r. For the undamped wave in
    one column, which would be order −1/2, use :class:`Cosine`.

    Parameters
    ----------
    lengthscale
        Positive, 1/α in the reference: one number, or one per input column.
    order
        ν, from 0 to 50 (not learned). The kernel is valid for at most 2ν + 2 columns.

    References
    ----------
    Rasmussen & Williams (2006), section 4.2.1, "Further properties of stationary covariance functions":
    :math:`(\alpha r)^{-\nu} J_\nu(\alpha r)`, valid for ν ≥ (D − 2)/2.

    Examples
    --------
    >>> round(float(Bessel(lengthscale=2.0, order=0.5)([0.0], [1.0])), 6)
    0.958851
    """

    lengthscale: Numbers = positive(1.0)
    _: KW_ONLY
    order: float = static(0.5, convert=float)

    @property
    def traits(self) -> Traits:
        most = math.floor(2 * self.order + 2 + 1e-9)
        return Traits(True, np.inf, most, isotropic=np.ndim(self.lengthscale) == 0)

    def check(self, X: Inputs) -> None:
        if not 0 <= self.order <= MOST_ORDER:
            raise fail("kernels.Bessel", f"order is {self.order}", f"give a number from 0 to {MOST_ORDER}", argument="order")
        AbstractKernel.check(self, X)

    def profile(self, s: Array) -> Array:
        return _bessel(self.order, s)
