"""Stationary kernels: functions of the scaled distance between two inputs.

All of them have a ``lengthscale``: one number, or one per input column (automatic relevance determination). The distance is
Euclidean, :math:`r^2 = \\sum_k (x_k - x'_k)^2/\\ell_k^2`, and k(0) = 1.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from covary._module import Numbers
from covary._types import Array
from covary.data import Inputs
from covary.kernels import host
from covary.kernels.base import AbstractKernel, Traits
from covary.kernels.distance import rounding_floor, scaled_square
from covary.parameters import positive

ROOT3, ROOT5 = 3.0**0.5, 5.0**0.5


UNTYPED: Any = jax.custom_jvp  # JAX 0.11 has no return type for it with nondiff_argnums


def root(s: Array) -> Array:
    """Compute the square root of s ≥ 0, with a derivative of zero instead of infinity at s = 0."""
    positive_part = jnp.where(s > 0, s, 1.0)
    return jnp.where(s > 0, jnp.sqrt(positive_part), 0.0)


class AbstractStationary(AbstractKernel):
    """Base class of kernels of the scaled squared distance; subclasses implement ``profile``."""

    lengthscale: Numbers

    def profile(self, s: Array) -> Array:
        """Return k as a function of s = r², elementwise, with a finite derivative at s = 0."""
        raise NotImplementedError

    def block(self, X: Inputs, Z: Inputs) -> Array:
        return self.profile(scaled_square(X.x, Z.x, self.lengthscale))

    def block_diag(self, X: Inputs) -> Array:
        return jnp.ones(X.rows, X.x.dtype)

    def host_profile(self, s: np.ndarray, slope: bool) -> tuple[np.ndarray, np.ndarray | None]:
        """Return k and, if ``slope``, dk/ds, in NumPy; may overwrite s. For kernels with no parameter but the length-scale."""
        raise NotImplementedError

    @property
    def host(self) -> bool:
        """Whether ``host_profile`` is implemented, by the class that defines the formula or by a subclass of it."""
        kind = next(kind for kind in type(self).__mro__ if {"host_profile", "profile", "block"} & vars(kind).keys())
        return "host_profile" in vars(kind) and kind is not AbstractStationary

    def _host_parts(self, X: Inputs, Z: Inputs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        A, B = host.centred(np.asarray(X.x), np.asarray(Z.x))
        w = np.broadcast_to(1 / np.square(np.asarray(self.lengthscale)), (A.shape[1],)).astype(A.dtype)
        return A, B, w

    def host_block(self, X: Inputs, Z: Inputs) -> np.ndarray:
        return self.host_profile(host.square_distances(*self._host_parts(X, Z)), False)[0]

    def host_pull(self, X: Inputs, Z: Inputs, G: np.ndarray) -> tuple[Self, np.ndarray]:
        A, B, w = self._host_parts(X, Z)
        block, W = self.host_profile(host.square_distances(A, B, w), True)
        assert W is not None
        W *= G
        each = host.sum_squares(W, A, B) * (-2 / np.asarray(self.lengthscale) ** 3)  # w = 1/ℓ²
        return self.replace(lengthscale=each if np.ndim(self.lengthscale) else each.sum()), block


class SquaredExponential(AbstractStationary):
    r"""Squared exponential (Gaussian, RBF) kernel.

    .. math:: k(x, x') = e^{-r^2/2}, \qquad r^2 = \sum_k (x_k - x'_k)^2 / \ell_k^2 .

    Sample paths are analytic, which is often too smooth for measured data: try :class:`Matern52` first.

    Parameters
    ----------
    lengthscale
        Positive: one number, or one per input column.

    References
    ----------
    Rasmussen & Williams (2006), eq. 4.9.

    Examples
    --------
    >>> round(float(SquaredExponential(lengthscale=2.0)([0.0], [1.0])), 6)
    0.882497
    """

    lengthscale: Numbers = positive(1.0)

    @property
    def traits(self) -> Traits:
        return Traits(stationary=True, smoothness=np.inf, isotropic=np.ndim(self.lengthscale) == 0)

    def profile(self, s: Array) -> Array:
        return jnp.exp(-0.5 * s)

    def host_profile(self, s: np.ndarray, slope: bool) -> tuple[np.ndarray, np.ndarray | None]:
        return host.squared_exponential_profile(s, slope)


@jax.custom_jvp
def _matern12(s: Array, floor: Array) -> Array:
    return jnp.exp(-root(s))


@_matern12.defjvp
def _matern12_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (s, floor), (ds, _) = primals, tangents
    k = jnp.exp(-root(s))
    apart = s > floor  # dk/ds is infinite at s = 0, where s does not depend on the parameters
    return k, jnp.where(apart, -k / (2 * jnp.where(apart, root(s), 1.0)), 0.0) * ds


@jax.custom_jvp
def _matern32(s: Array) -> Array:
    t = ROOT3 * root(s)
    return (1 + t) * jnp.exp(-t)


@_matern32.defjvp
def _matern32_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (s,), (ds,) = primals, tangents
    t = ROOT3 * root(s)
    decay = jnp.exp(-t)
    return (1 + t) * decay, -1.5 * decay * ds


@jax.custom_jvp
def _matern52(s: Array) -> Array:
    t = ROOT5 * root(s)
    return (1 + t + t * t / 3) * jnp.exp(-t)


@_matern52.defjvp
def _matern52_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (s,), (ds,) = primals, tangents
    t = ROOT5 * root(s)
    decay = jnp.exp(-t)
    return (1 + t + t * t / 3) * decay, -(5 / 6) * (1 + t) * decay * ds


class Matern12(AbstractStationary):
    r"""Matérn kernel with smoothness 1/2: the exponential (Ornstein–Uhlenbeck) kernel.

    .. math:: k(x, x') = e^{-r}

    For rough, mean-reverting signals: sample paths are continuous and nowhere differentiable.

    Parameters
    ----------
    lengthscale
        Positive: one number, or one per input column.

    References
    ----------
    Rasmussen & Williams (2006), section 4.2.1, eq. 4.14 with ν = 1/2.

    Examples
    --------
    >>> round(float(Matern12(lengthscale=2.0)([0.0], [1.0])), 6)
    0.606531
    """

    lengthscale: Numbers = positive(1.0)

    @property
    def traits(self) -> Traits:
        return Traits(stationary=True, smoothness=0, isotropic=np.ndim(self.lengthscale) == 0)

    def block(self, X: Inputs, Z: Inputs) -> Array:
        s = scaled_square(X.x, Z.x, self.lengthscale)
        return _matern12(s, rounding_floor(X.x, Z.x, self.lengthscale))

    def profile(self, s: Array) -> Array:
        return _matern12(s, jnp.zeros_like(s))


class Matern32(AbstractStationary):
    r"""Matérn kernel with smoothness 3/2.

    .. math:: k(x, x') = (1 + \sqrt3\,r)\, e^{-\sqrt3\,r}

    Sample paths are once mean-square differentiable.

    Parameters
    ----------
    lengthscale
        Positive: one number, or one per input column.

    References
    ----------
    Rasmussen & Williams (2006), eq. 4.17.

    Examples
    --------
    >>> round(float(Matern32(lengthscale=2.0)([0.0], [1.0])), 6)
    0.784888
    """

    lengthscale: Numbers = positive(1.0)

    @property
    def traits(self) -> Traits:
        return Traits(stationary=True, smoothness=1, isotropic=np.ndim(self.lengthscale) == 0)

    def profile(self, s: Array) -> Array:
        return _matern32(s)

    def host_profile(self, s: np.ndarray, slope: bool) -> tuple[np.ndarray, np.ndarray | None]:
        return host.matern32_profile(s, slope)


class Matern52(AbstractStationary):
    r"""Matérn kernel with smoothness 5/2: the default of the estimators.

    .. math:: k(x, x') = \bigl(1 + \sqrt5\,r + \tfrac53 r^2\bigr)\, e^{-\sqrt5\,r}

    Sample paths are twice mean-square differentiable: smooth, but not analytic.

    Parameters
    ----------
    lengthscale
        Positive: one number, or one per input column.

    References
    ----------
    Rasmussen & Williams (2006), eq. 4.17.

    Examples
    --------
    >>> round(float(Matern52(lengthscale=2.0)([0.0], [1.0])), 6)
    0.828649
    """

    lengthscale: Numbers = positive(1.0)

    @property
    def traits(self) -> Traits:
        return Traits(stationary=True, smoothness=2, isotropic=np.ndim(self.lengthscale) == 0)

    def profile(self, s: Array) -> Array:
        return _matern52(s)

    def host_profile(self, s: np.ndarray, slope: bool) -> tuple[np.ndarray, np.ndarray | None]:
        return host.matern52_profile(s, slope)


class RationalQuadratic(AbstractStationary):
    r"""Rational quadratic kernel: a mixture of squared exponentials over length-scales.

    .. math:: k(x, x') = \Bigl(1 + \frac{r^2}{2\alpha}\Bigr)^{-\alpha}

    Small α mixes many scales; α → ∞ is :class:`SquaredExponential`.

    Parameters
    ----------
    lengthscale
        Positive: one number, or one per input column.
    alpha
        Positive: the shape of the mixture.

    References
    ----------
    Rasmussen & Williams (2006), eq. 4.19.

    Examples
    --------
    >>> round(float(RationalQuadratic(lengthscale=2.0, alpha=0.5)([0.0], [1.0])), 6)
    0.894427
    """

    lengthscale: Numbers = positive(1.0)
    _: KW_ONLY
    alpha: Numbers = positive(1.0)

    @property
    def traits(self) -> Traits:
        return Traits(stationary=True, smoothness=np.inf, isotropic=np.ndim(self.lengthscale) == 0)

    def profile(self, s: Array) -> Array:
        x = s / (2 * self.alpha)
        u = 1 + x
        return jnp.exp(-self.alpha * (jnp.log(u) + (x - (u - 1)) / u))  # log1p by Kahan's correction, twice as fast


RBF = SquaredExponential
"""Alias of :class:`SquaredExponential`; its repr is ``SquaredExponential``."""
