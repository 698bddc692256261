r"""Kernels defined by their spectrum: Gaussian mixtures, arbitrary densities by quadrature, and periodised kernels.

By Bochner's theorem a stationary kernel is the Fourier transform of a positive measure over frequencies s, in cycles per
unit of input (R&W, eq. 4.5): :math:`k(\tau) = \int S(s) \cos(2\pi s \cdot \tau)\,ds`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp
import numpy as np

from covary._checks import check_finite, check_positive, fail
from covary._errors import Option
from covary._module import Numbers, child, static
from covary._types import Array
from covary._words import counted
from covary.data import Inputs
from covary.kernels.base import AbstractKernel, Traits, marked, number, with_mark
from covary.kernels.distance import scaled_square
from covary.kernels.matern import check_one_number
from covary.kernels.stationary import SquaredExponential
from covary.parameters import POSITIVE, named, positive, real


def _centred(X: Inputs, Z: Inputs) -> tuple[Array, Array]:
    """Subtract the mean of the second from both, which leaves stationary kernels unchanged and reduces rounding errors."""
    centre = jax.lax.stop_gradient(Z.x.mean(0))
    return X.x - centre, Z.x - centre


class SpectralMixture(AbstractKernel):
    r"""Spectral mixture kernel, whose spectrum is a mixture of normal densities.

    .. math:: k(x, x') = \sum_q w_q \cos\bigl(2\pi\,\mu_q\cdot\tau\bigr)
        \exp\Bigl(-2\pi^2 \sum_k \sigma_{qk}^2 \tau_k^2\Bigr), \qquad \tau = x - x'

    It can approximate any stationary kernel, and finds and extrapolates patterns: each component is a quasi-periodic wave. The
    weights are the variances of the components, k(0) = Σ w, so the kernel needs no variance in front. The evidence has many
    local optima: start the means at peaks of the data's periodogram, or use many restarts.

    Parameters
    ----------
    weights
        Positive: one number per component (Q,).
    means
        Frequencies μ in cycles per unit: (Q, d), or (Q,) for one column.
    scales
        Positive, the widths σ of the peaks, in cycles per unit: (Q, d), or (Q,) for one column.

    References
    ----------
    Wilson & Adams (2013), *Gaussian process kernels for pattern discovery and extrapolation*, eqs. 10 to 12 (with the
    cosine of the whole phase, as eq. 11 symmetrised gives it); Rasmussen & Williams (2006), eq. 4.5.

    Examples
    --------
    >>> round(float(SpectralMixture([2.0], means=[0.5], scales=[0.1])([0.0], [1.0])), 6)
    -1.641737
    """

    weights: Numbers = positive((1.0,))
    _: KW_ONLY
    means: Numbers = real((1.0,))
    scales: Numbers = positive((1.0,))

    @property
    def traits(self) -> Traits:
        return Traits(stationary=True, smoothness=np.inf)

    def check(self, X: Inputs) -> None:
        who, count = "kernels.SpectralMixture", np.shape(self.weights)
        if len(count) != 1 or not count[0]:
            raise fail(who, f"weights has shape {count}", "give one number per component", argument="weights")
        for name in ("means", "scales"):
            shape = np.shape(getattr(self, name))
            if shape != (*count, X.columns) and (shape != count or X.columns > 1):
                need = f"an array of {counted(count[0], 'row')} (one per weight) and {counted(X.columns, 'column')}"
                raise fail(who, f"{name} has shape {shape}", f"give {need}", argument=name)
        check_finite(who, "means", np.asarray(self.means))
        check_positive(who, "scales", self.scales)
        check_positive(who, "weights", self.weights)

    def block(self, X: Inputs, Z: Inputs) -> Array:
        x, z = _centred(X, Z)
        means, scales = (jnp.reshape(v, (-1, X.columns)) for v in (self.means, self.scales))

        def wave(v: Array, mean: Array) -> Array:
            phase = 2 * jnp.pi * v @ mean
            return jnp.stack([jnp.cos(phase), jnp.sin(phase)], axis=1)

        total = 0.0
        for q in range(len(means)):  # as a matrix product, it takes cosines per row instead of per pair
            decay = jnp.exp(-0.5 * scaled_square(x, z, 1 / (2 * jnp.pi * scales[q])))
            total = total + self.weights[q] * (wave(x, means[q]) @ wave(z, means[q]).T) * decay
        return total  # type: ignore[return-value]

    def block_diag(self, X: Inputs) -> Array:
        return jnp.broadcast_to(jnp.sum(self.weights), (X.rows,)).astype(X.x.dtype)


class Spectral(AbstractKernel):
    r"""Stationary kernel with any spectral density, by quadrature over frequencies.

    .. math:: k(x, x') = \prod_k \frac{\int_0^F S(s) \cos(2\pi s (x_k - x'_k))\,ds}{\int_0^F S(s)\,ds}

    ``density(s, **parameters)`` takes frequencies in cycles per unit and returns numbers ≥ 0, written with ``jax.numpy``.
    Named positive parameters are learned like any other. The kernel is normalised to k(0) = 1. The Gauss–Legendre rule gives a
    finite sum of waves, which is positive semi-definite for any density and approximates the integral accurately up to
    distances of about nodes/(4 highest).

    Parameters
    ----------
    density
        The function S of frequency, the same for every column.
    highest
        F, the frequency above which there is no power, in cycles per unit.
    nodes
        Number of frequencies.
    parameters
        Positive starting values by name, passed to the function by keyword.

    References
    ----------
    Rasmussen & Williams (2006), eqs. 4.5 and 4.6; Gibbs (1997), section 2.3 (positive-definite functions by Bochner).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> def lorentzian(s, width): return 1 / (1 + (s / width) ** 2)
    >>> k = Spectral(lorentzian, highest=200.0, nodes=800, parameters={"width": 0.2})
    >>> round(float(k([0.0], [1.0])), 2)  # exp(-2π·0.2·1)
    0.28
    """

    density: Callable[..., Array] = static()
    _: KW_ONLY
    highest: float = static(1.0, convert=float)
    nodes: int = static(64)
    parameters: dict[str, np.ndarray] = named(POSITIVE)

    @property
    def traits(self) -> Traits:
        return Traits(stationary=True, smoothness=np.inf)

    def check(self, X: Inputs) -> None:
        who = "kernels.Spectral"
        check_positive(who, "highest", self.highest)
        if isinstance(self.nodes, bool) or not isinstance(self.nodes, int) or not 1 <= self.nodes <= 10_000:
            raise fail(who, f"nodes is {self.nodes!r}", "give an integer from 1 to 10,000", argument="nodes")
        for name, value in self.parameters.items():
            check_one_number(who, name, value)
            check_positive(who, name, value)
        with jax.enable_x64(True):
            power = np.asarray(self.power()[1])
        if power.shape != (self.nodes,) or not np.isfinite(power).all() or power.min() < 0 or power.sum() == 0:
            raise fail(who, "the density is not finite and ≥ 0 at every frequency", "return one number ≥ 0 per entry of s")

    def power(self, dtype: np.dtype | type = float) -> tuple[Array, Array]:
        """Return the frequencies in cycles per unit, and their fractions of the power; both (nodes,)."""
        t, w = np.polynomial.legendre.leggauss(self.nodes)
        s = jnp.asarray(self.highest / 2 * (t + 1), dtype)
        power = jnp.asarray(w, dtype) * self.density(s, **self.parameters)
        return s, power / power.sum()

    def block(self, X: Inputs, Z: Inputs) -> Array:
        x, z = _centred(X, Z)
        s, power = self.power(x.dtype)
        total = 1.0
        for k in range(X.columns):
            a, b = (2 * jnp.pi * v[:, k][:, None] * s for v in (x, z))
            total = total * ((jnp.cos(a) * power) @ jnp.cos(b).T + (jnp.sin(a) * power) @ jnp.sin(b).T)
        return total  # type: ignore[return-value]

    def block_diag(self, X: Inputs) -> Array:
        return jnp.ones(X.rows, X.x.dtype)

    def __repr__(self) -> str:
        name = getattr(self.density, "__name__", "density")
        inside = "".join(f", {key}={with_mark(number(v), self.mark_of(key))}" for key, v in self.parameters.items())
        return f"Spectral({name}, highest={self.highest!r}, nodes={self.nodes!r}{inside})"


class Periodised(AbstractKernel):
    r"""Stationary kernel of one column made periodic by summing shifted copies.

    .. math:: k_{\mathbb T}(x - x') = \sum_{m=-M}^{M} k(x - x' + m\,p)

    The process has period p, and its spectrum is that of k at the integer multiples of 1/p. The sum is not normalised, so its
    value at zero exceeds k(0). :class:`Periodic` is another, cheaper periodic kernel; this one keeps the smoothness of k.

    Parameters
    ----------
    kernel
        A stationary kernel that decays within M periods.
    period
        Positive, in units of the input.
    terms
        M. An error is raised if k after M periods is not below 1e-6 of its value at zero.

    References
    ----------
    Rasmussen & Williams (2006), section 4.2.1, "Further properties of stationary covariance functions", and section B.2.2.

    Examples
    --------
    >>> k = Periodised(SquaredExponential(0.2), period=1.0)
    >>> round(float(k([0.0], [0.5])), 6), round(float(k([0.0], [7.5])), 6)
    (0.087874, 0.087874)
    """

    kernel: AbstractKernel = child(SquaredExponential(0.25), transparent=True)
    _: KW_ONLY
    period: Numbers = positive(1.0)
    terms: int = static(8)

    @property
    def traits(self) -> Traits:
        return Traits(stationary=True, smoothness=self.kernel.traits.smoothness, max_columns=1)

    def check(self, X: Inputs) -> None:
        who = "kernels.Periodised"
        if X.columns > 1:
            what = Option("X") + f" has {counted(X.columns, 'column')} but the kernel is defined on 1"
            raise fail(who, what, "choose one with .on(column)")
        if not self.kernel.traits.stationary:
            raise fail(who, f"{self.kernel!r} is not stationary", "give a stationary kernel, a function of x − x'")
        if isinstance(self.terms, bool) or not isinstance(self.terms, int) or not 1 <= self.terms <= 1000:
            raise fail(who, f"terms is {self.terms!r}", "give an integer from 1 to 1000", argument="terms")
        check_one_number(who, "period", self.period)
        check_positive(who, "period", self.period)
        self.kernel.check(X)
        top, left = self.kernel.cross([[0.0]], [[0.0], [self.terms * float(self.period)]])[0]
        if not abs(left) <= 1e-6 * top:
            part = f"{abs(left) / top:.1g} of k(0) is left after {self.terms} periods"
            raise fail(who, part, "raise terms, or shorten the length-scale")

    def _sum(self, x: Array, z: Array) -> Array:
        @jax.checkpoint  # gradients recompute each copy instead of storing all of them
        def add(total: Array, m: Array) -> tuple[Array, None]:
            both = [self.kernel.block(Inputs(x + shift), Inputs(z)) for shift in (m * self.period, -m * self.period)]
            return total + both[0] + both[1], None

        return jax.lax.scan(add, self.kernel.block(Inputs(x), Inputs(z)), jnp.arange(1, self.terms + 1, dtype=x.dtype))[0]

    def block(self, X: Inputs, Z: Inputs) -> Array:
        def wrapped(x: Array) -> Array:
            return x - self.period * jax.lax.stop_gradient(jnp.floor(x / self.period))

        return self._sum(*map(wrapped, _centred(X, Z)))

    def block_diag(self, X: Inputs) -> Array:
        zero = jnp.zeros((1, 1), X.x.dtype)
        return jnp.broadcast_to(self._sum(zero, zero)[0, 0], (X.rows,))

    def __repr__(self) -> str:
        return f"Periodised({self.kernel!r}, period={marked(self, 'period')}, terms={self.terms})"
