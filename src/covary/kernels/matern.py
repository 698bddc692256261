r"""The Matérn class: any smoothness, fixed or learned, and the half-integer members in closed form.

A Matérn kernel is a mixture of squared exponentials (a change of variable in the integral of :math:`K_\nu`):

.. math:: k(x) = \frac{2^{1-\nu}}{\Gamma(\nu)} z^\nu K_\nu(z)
    = \frac1{\Gamma(\nu)} \int_0^\infty u^{\nu-1} e^{-u - x/u}\,du, \qquad x = \frac{z^2}4 = \frac{\nu r^2}2 .

Three formulas give it to 1e-13 for all ν > 0 and all r. The derivatives with respect to x and ν have the same
form.

* x ≥ 1, ν < 10: the trapezoidal rule in log u, which converges geometrically. It has four nodes per octave, so that four
  exponentials and their repeated squares give all 48: :math:`e^{-x/(u/2)} = (e^{-x/u})^2`.
* x < 1, ν < 10: the power series :math:`R(x) + E\,S(x)` with :math:`E = (x^\varepsilon - 1)/\varepsilon` and
  ε = ν − n, where n is the nearest integer. The two series of :math:`I_{-\nu}` and :math:`I_\nu` are added term by term in
  closed form, which avoids cancellation if ν is an integer and both have poles.
* ν ≥ 10: the trapezoidal rule in log u on 40 nodes between the two ends of the gamma density.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import zeta

from covary._checks import fail
from covary._module import Numbers, static
from covary._types import Array, ArrayLike
from covary.data import Inputs
from covary.kernels import host
from covary.kernels.base import AbstractKernel, Traits
from covary.kernels.distance import rounding_floor, scaled_square
from covary.kernels.series import horner
from covary.kernels.stationary import UNTYPED, AbstractStationary, Matern12, root
from covary.parameters import positive

SERIES = 14  # terms of the series in x < 1: the next one is below 1/14!²
DEGREE = 35  # of the polynomials in ε
OCTAVES, PER_OCTAVE, TOP = 12, 4, 6  # nodes u = 2⁶, 2^(6 − 1/4), …: e⁻ᵘ and e^(−x/u) are negligible beyond either end
SMOOTH, NODES, AT_ONCE, NOTHING = 10.0, 40, 20, 37.0  # for ν from 10: 40 nodes, out to e⁻³⁷ of the density's maximum
MOST_ORDER = 50
LEARNED = (0.1, 10.0)  # bounds of ν if it is learned
LOG_U = math.log(2) * (TOP - np.arange(OCTAVES * PER_OCTAVE) / PER_OCTAVE)


def _expm1_over(y: Array) -> Array:
    """(eʸ − 1)/y, analytic at zero."""
    near = jnp.abs(y) < 0.7
    series = horner([1 / math.factorial(k + 1) for k in range(15)], jnp.where(near, y, 0.0))
    far = jnp.where(near, 1.0, y)
    return jnp.where(near, series, jnp.expm1(far) / far)


def _log_gamma_over(e: np.ndarray) -> np.ndarray:
    """log Γ(1 + e)/e for 0 < |e| < 1 (Abramowitz & Stegun 6.1.33)."""
    k = np.arange(2, 60)
    tail = np.polynomial.polynomial.polyval(e, (-1.0) ** k * (zeta(k) - 1) / k)
    return e * tail + (1 - np.euler_gamma) - np.log1p(e) / e


def _terms(n: int, e: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Coefficients of R and S at ν = n + ε, from :math:`I_{-\nu}` and :math:`I_\nu` (Abramowitz & Stegun 9.6.2, 9.6.10).

    With m = j − n and D = (log Γ(1+j+ε)/Γ(1+j) + log Γ(1+m)/Γ(1+m−ε))/ε, the terms in xʲ for j ≥ n add up to
    c(x^ε e^(−εD) − 1)/ε, c = Γ(1−ε)/(j! Γ(1+m−ε) Π_(i<n)(i−ν)). For j < n there is only xʲ/(j! (1−ν)⋯(j−ν)).
    """
    R, S = [np.ones_like(e)], [np.zeros_like(e)]
    product = np.ones_like(e)
    for j in range(1, SERIES):
        if j < n:
            product = product * (j - n - e)
            R.append(1 / (math.factorial(j) * product))
            S.append(np.zeros_like(e))
            continue
        falling = sum((-np.log1p(-e / i) / e for i in range(1, j - n + 1)), np.zeros_like(e))
        D = sum(np.log1p(e / i) / e for i in range(1, j + 1)) + _log_gamma_over(e) + falling + _log_gamma_over(-e)
        c = np.exp(e * falling) / (math.factorial(j) * math.factorial(j - n) * product)
        R.append(c * np.expm1(-e * D) / e)
        S.append(c * np.exp(-e * D))
    return np.array(R), np.array(S)


@lru_cache
def _table() -> np.ndarray:
    """Return the coefficients of R and S as Chebyshev series in ε: (n, degree, 2, j)."""
    t = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))  # Chebyshev nodes
    fit = np.linalg.inv(np.polynomial.chebyshev.chebvander(t, DEGREE))
    at = [_terms(n, 0.75 * t - 0.25 if n == 1 else 0.5 * t) for n in range(1, int(SMOOTH) + 1)]
    return np.einsum("kp,nrjp->nkrj", fit, np.array(at))


def _split(nu: Array) -> tuple[Array, Array]:
    """Return the integer n ≥ 1 nearest to ν, and ν − n."""
    whole = jnp.clip(jnp.round(jax.lax.stop_gradient(nu)), 1.0, SMOOTH)
    return whole, nu - whole


def _series(nu: Array) -> Array:
    """Return the coefficients of R and S: (2, j)."""
    n, e = _split(nu)
    t = jnp.where(n < 2, (e + 0.25) / 0.75, 2 * e)  # ν in (0, 3/2], else within 1/2 of n
    table = jnp.asarray(_table(), e.dtype)[n.astype(int) - 1]

    def clenshaw(k: Array, pair: tuple[Array, Array]) -> tuple[Array, Array]:
        return 2 * t * pair[0] - pair[1] + table[DEGREE - k], pair[0]

    first, second = jax.lax.fori_loop(0, DEGREE, clenshaw, (jnp.zeros_like(table[0]), jnp.zeros_like(table[0])))
    return t * first - second + table[0]


def _near(x: Array, nu: Array, slopes: bool) -> tuple[Array, ...]:
    """Evaluate the power series for x ≤ 1: k, or dk/dx and dk/dν. At x = 0 an infinite derivative is replaced by zero."""
    (R, S), (R_nu, S_nu) = jax.jvp(_series, (nu,), (jnp.ones_like(nu),))
    _, e = _split(nu)
    apart = x > 0
    log = jnp.log(jnp.where(apart, x, 1.0))
    growth, growth_nu = jax.jvp(lambda e: log * _expm1_over(e * log), (e,), (jnp.ones_like(e),))
    E = jnp.where(apart, growth, jnp.where(e > 0, -1 / jnp.where(e > 0, e, 1.0), 0.0))
    if not slopes:
        return (horner(R, x) + E * horner(S, x),)
    power = jnp.arange(1, SERIES, dtype=R.dtype)
    S_x = horner(S[1:], x) * jnp.where(apart, 1 + e * E, 0.0)  # S dE/dx = S x^(ε−1)
    by_x = horner(power * R[1:], x) + E * horner(power * S[1:], x) + S_x
    by_nu = horner(R_nu, x) + E * horner(S_nu, x) + jnp.where(apart, growth_nu, 0.0) * horner(S, x)
    return by_x, by_nu


def _mixture(x: Array, weights: Array) -> Array:
    """Evaluate Σ_j w_j e^(−x/u_j) over the nodes u_j, which halve every PER_OCTAVE steps."""
    parts = []
    for first in range(PER_OCTAVE):
        E = jnp.maximum(
            jnp.exp(-x * math.exp(-LOG_U[first])), 1e-300
        )  # the maximum prevents XLA from turning the squares into exponentials
        part = weights[first] * E
        for j in range(first + PER_OCTAVE, len(LOG_U), PER_OCTAVE):
            E = E * E
            part = part + weights[j] * E
        parts.append(part)
    return sum(parts[1:], parts[0])


def _rough(x: Array, nu: Array, slopes: bool) -> tuple[Array, ...]:
    """ν < 10: the series if x < 1, otherwise the mixture on fixed nodes."""

    v = jnp.asarray(LOG_U, nu.dtype)  # explicit dtype: XLA does not mix 64-bit constants with 32-bit values

    def density(nu: Array) -> Array:
        return math.log(2) / PER_OCTAVE * jnp.exp(nu * v - jnp.exp(v) - jax.scipy.special.gammaln(nu))

    w, w_nu = jax.jvp(density, (nu,), (jnp.ones_like(nu),))
    close = _near(jnp.minimum(x, 1.0), nu, slopes)
    rows = (-w * jnp.exp(-v), w_nu) if slopes else (w,)
    return tuple(jnp.where(x < 1, a, _mixture(x, b)) for a, b in zip(close, rows, strict=True))


def _smooth(x: Array, nu: Array, slopes: bool) -> tuple[Array, ...]:
    """ν ≥ 10: the mixture on nodes that follow the gamma density."""
    at = jax.lax.stop_gradient(nu)
    level = NOTHING - jax.scipy.special.gammaln(at)

    def newton(_: Array, ends: Array) -> Array:  # from outside: the log density is concave, so no step passes the root
        return ends - (at * ends - jnp.exp(ends) + level) / (at - jnp.exp(ends))

    outside = jnp.stack([-level / at, jnp.log(at + NOTHING + jnp.sqrt(2 * NOTHING * at))])
    low, high = jax.lax.fori_loop(0, 6, newton, outside)
    v = low + (high - low) * jnp.linspace(0, 1, NODES, dtype=nu.dtype)
    w, w_nu = jax.jvp(lambda nu: jax.nn.softmax(nu * v - jnp.exp(v)), (nu,), (jnp.ones_like(nu),))
    rate = jnp.exp(-v).reshape(-1, AT_ONCE)
    rows = [row.reshape(-1, AT_ONCE) for row in ((-w * jnp.exp(-v), w_nu) if slopes else (w,))]

    def step(i: Array, total: tuple[Array, ...]) -> tuple[Array, ...]:
        for j in range(AT_ONCE):
            E = jnp.exp(-x * rate[i, j])
            total = tuple(t + row[i, j] * E for t, row in zip(total, rows, strict=True))
        return total

    return jax.lax.fori_loop(0, NODES // AT_ONCE, step, tuple(jnp.zeros_like(x) for _ in rows))


def _either(x: Array, nu: Array, slopes: bool) -> tuple[Array, ...]:
    return jax.lax.cond(nu < SMOOTH, partial(_rough, slopes=slopes), partial(_smooth, slopes=slopes), x, nu)


@jax.custom_jvp
def matern(s: Array, floor: Array, nu: Array) -> Array:
    """Evaluate the kernel at s = r² for a scalar ν; for ``floor`` see :func:`covary.kernels.distance.rounding_floor`."""
    return jnp.where(s > 0, _either(nu * s / 2, nu, False)[0], 1.0)


@matern.defjvp
def _matern_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (s, floor, nu), (ds, _, dnu) = primals, tangents
    by_x, by_nu = _either(nu * s / 2, nu, True)
    by_s = jnp.where((nu > 1) | (s > floor), nu / 2 * by_x, 0.0)  # infinite at s = 0 for ν ≤ 1
    return matern(s, floor, nu), by_s * ds + jnp.where(s > 0, by_nu + s / 2 * by_x, 0.0) * dnu


def check_one_number(who: str, name: str, value: ArrayLike) -> None:
    """Raise an error if an array is given for a scalar parameter."""
    if np.shape(value) != ():
        raise fail(who, f"{name} has shape {np.shape(value)}", "give one number", argument=name)


class Matern(AbstractStationary):
    r"""Matérn kernel of any smoothness ν, which is fixed unless ``learned(...)`` is given.

    .. math:: k(x, x') = \frac{2^{1-\nu}}{\Gamma(\nu)} \bigl(\sqrt{2\nu}\,r\bigr)^\nu K_\nu\bigl(\sqrt{2\nu}\,r\bigr)

    The process is m times mean-square differentiable for every m < ν; ν → ∞ gives :class:`SquaredExponential`. Accurate to
    1e-13. For ν = 1/2, 3/2 and 5/2 use :class:`Matern12`, :class:`Matern32` and :class:`Matern52`, which are several times
    faster.

    Parameters
    ----------
    lengthscale
        Positive: one number, or one per input column.
    nu
        Positive: the smoothness ν. A plain number is fixed. ``learned(1.5)`` starts there and learns it between 0.1 and 10,
        ``bounded(1.5, 0.5, 4)`` within the given bounds. Data rarely distinguish values above 7/2.

    References
    ----------
    Rasmussen & Williams (2006), eq. 4.14 and table 4.1.

    Examples
    --------
    >>> round(float(Matern(lengthscale=2.0, nu=0.8)([0.0], [1.0])), 6)
    0.695767
    """

    lengthscale: Numbers = positive(1.0)
    _: KW_ONLY
    nu: Numbers = positive(1.5, held=LEARNED)

    @property
    def traits(self) -> Traits:
        smoothness = float(np.ceil(np.min(self.nu)) - 1)  # the largest integer below ν
        return Traits(stationary=True, smoothness=smoothness, isotropic=np.ndim(self.lengthscale) == 0)

    def check(self, X: Inputs) -> None:
        if np.isposinf(self.nu).any():
            raise fail("kernels.Matern", "nu is inf", "use SquaredExponential(), which is the limit", argument="nu")
        AbstractKernel.check(self, X)
        check_one_number("kernels.Matern", "nu", self.nu)

    def block(self, X: Inputs, Z: Inputs) -> Array:
        s = scaled_square(X.x, Z.x, self.lengthscale)
        return matern(s, rounding_floor(X.x, Z.x, self.lengthscale), jnp.asarray(self.nu, s.dtype))

    def profile(self, s: Array) -> Array:
        return matern(s, jnp.zeros_like(s), jnp.asarray(self.nu, s.dtype))


@lru_cache
def _polynomial(order: int) -> tuple[float, ...]:
    """Return the coefficients of eq. 4.16 in t = √(2ν) r: p!/(2p)! (p+i)!/(i! (p−i)!) 2^(p−i) for t^(p−i)."""
    f, p = math.factorial, order
    return tuple(f(p) * f(2 * p - m) * 2**m / (f(2 * p) * f(p - m) * f(m)) for m in range(p + 1))


@partial(UNTYPED, nondiff_argnums=(0,))
def _half_integer(order: int, u: Array, floor: Array) -> Array:
    """ν = order + 1/2 at u = t² = 2ν r²."""
    t = root(u)
    return horner(_polynomial(order), t) * jnp.exp(-t)


@_half_integer.defjvp
def _half_integer_jvp(order: int, primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    """dk_ν/du = −k_(ν−1)/(4(ν−1)): d(z^ν K_ν)/dz = −z^ν K_(ν−1)."""
    (u, floor), (du, _) = primals, tangents
    k = _half_integer(order, u, floor)
    if order:
        return k, -_half_integer(order - 1, u, floor) / (4 * order - 2) * du
    apart = u > floor
    return k, jnp.where(apart, -k / (2 * jnp.where(apart, root(u), 1.0)), 0.0) * du


class MaternHalfInteger(AbstractStationary):
    r"""Matérn kernel with ν = p + 1/2: a polynomial of order p times an exponential.

    .. math:: k(x, x') = e^{-t} \frac{p!}{(2p)!} \sum_{i=0}^p \frac{(p+i)!}{i!\,(p-i)!} (2t)^{p-i}, \qquad t = \sqrt{2\nu}\,r

    The process is p times mean-square differentiable. Orders 0, 1 and 2 are :class:`Matern12`, :class:`Matern32` and
    :class:`Matern52`. In one column it is a continuous-time autoregressive process of order p + 1.

    Parameters
    ----------
    order
        The integer p, from 0 to 50 (not learned).
    lengthscale
        Positive: one number, or one per input column.

    References
    ----------
    Rasmussen & Williams (2006), eq. 4.16.

    Examples
    --------
    >>> round(float(MaternHalfInteger(3, lengthscale=2.0)([0.0], [1.0])), 6)
    0.846308
    """

    order: int = static(3)
    _: KW_ONLY
    lengthscale: Numbers = positive(1.0)

    @property
    def traits(self) -> Traits:
        return Traits(stationary=True, smoothness=self.order, isotropic=np.ndim(self.lengthscale) == 0)

    def check(self, X: Inputs) -> None:
        p = self.order
        if isinstance(p, bool) or not isinstance(p, int | np.integer) or not 0 <= p <= MOST_ORDER:
            what = f"order is {p!r}"
            raise fail("kernels.MaternHalfInteger", what, f"give an integer from 0 to {MOST_ORDER}", argument="order")
        AbstractKernel.check(self, X)

    def block(self, X: Inputs, Z: Inputs) -> Array:
        twice = 2 * self.order + 1  # 2ν
        s, floor = (f(X.x, Z.x, self.lengthscale) for f in (scaled_square, rounding_floor))
        return _half_integer(self.order, twice * s, twice * floor)

    def profile(self, s: Array) -> Array:
        return _half_integer(self.order, (2 * self.order + 1) * s, jnp.zeros_like(s))

    def host_profile(self, s: np.ndarray, slope: bool) -> tuple[np.ndarray, np.ndarray | None]:
        p, twice = int(self.order), 2 * int(self.order) + 1
        k, decay, t = host.half_integer_profile(s, np.asarray(_polynomial(p)))
        if not slope:
            return k, None
        lower = np.polynomial.polynomial.polyval(t, _polynomial(p - 1)) if p else 1 / np.where(t > 0, t, np.inf)
        return k, -twice / (4 * p - 2 if p else 2) * decay * lower


OrnsteinUhlenbeck = Matern12
"""Alias of :class:`Matern12` (R&W, section 4.2.1); its repr is ``Matern12``."""
