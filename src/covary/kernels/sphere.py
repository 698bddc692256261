"""Kernels on the sphere, for two columns: latitude and longitude in degrees.

Distances are angles or chords on the unit sphere (times 6371 km on Earth), accurate near zero, across the date line, at the
poles and between antipodes. Not every isotropic kernel is valid with the great-circle distance; the smooth Matérn kernels are
not. The kernels in this module are valid. For smooth functions use :class:`OnSphere`, which is valid with any kernel.
"""

from __future__ import annotations

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp
import numpy as np

from covary._checks import fail
from covary._errors import Option, Place
from covary._module import Numbers, child, static
from covary._types import Array
from covary._words import counted
from covary.data import Inputs
from covary.kernels.base import AbstractKernel, Traits
from covary.kernels.distance import square_distance
from covary.kernels.processes import power
from covary.kernels.series import arcsine
from covary.kernels.structure import settled, written
from covary.parameters import positive, unit_interval

FAMILIES = ("exponential", "wendland")


def unit_vectors(x: Array) -> Array:
    """Convert latitude and longitude in degrees (n, 2) to points on the unit sphere (n, 3)."""
    latitude, longitude = jnp.deg2rad(x[:, 0]), jnp.deg2rad(jnp.mod(x[:, 1], 360.0))
    level = jnp.cos(latitude)
    return settled(jnp.stack([level * jnp.cos(longitude), level * jnp.sin(longitude), jnp.sin(latitude)], axis=1))


def _check_places(who: str, X: Inputs) -> None:
    if X.columns != 2:
        what = Option("X") + f" has {counted(X.columns, 'column')}"
        raise fail(who, what, "give latitude and longitude in degrees, if necessary with .on(i, j)")
    latitude = np.asarray(X.x)[:, 0]
    if (np.abs(latitude) > 90).any():
        row = int(np.argmax(np.abs(latitude) > 90))
        raise fail(who, f"the latitude is {latitude[row]} " + Place(row), "give degrees from -90 to 90, latitude first")


def _chords(X: Inputs, Z: Inputs) -> tuple[Array, Array]:
    """Return squared distances between points, and between points and antipodes. They sum to four."""
    A, B, one = unit_vectors(X.x), unit_vectors(Z.x), jnp.ones(3, X.x.dtype)
    return square_distance(A, B, one), square_distance(A, -B, one)


@jax.custom_jvp
def angle(s: Array, t: Array) -> Array:
    """Return the angle between unit vectors, given the squared distances s and, to the antipode, t; accurate at both ends."""
    near = 2 * arcsine(0.5 * jnp.sqrt(jnp.minimum(s, t)))
    return jnp.where(s <= t, near, jnp.pi - near)


@angle.defjvp
def _angle_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (s, t), (ds, _) = primals, tangents
    inside = jnp.minimum(s, t) > 16 * jnp.finfo(s.dtype).eps ** 2  # dθ/ds = 1/(2 sin θ) is infinite at the ends
    return angle(s, t), jnp.where(inside, 1 / jnp.sqrt(jnp.where(inside, s * t, 1.0)), 0.0) * ds


@jax.custom_jvp
def _wendland(s: Array, t: Array, lengthscale: Array) -> Array:
    tau = angle(s, t) / lengthscale
    return (1 + 4 * tau) * jnp.maximum(1 - tau, 0.0) ** 4


@_wendland.defjvp
def _wendland_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (s, t, lengthscale), (ds, _, dl) = primals, tangents
    theta = angle(s, t)
    tau = theta / lengthscale
    over_sine = 0.5 / jnp.sinc(theta / jnp.pi)  # θ/(2 sin θ)
    fall = 20 * jnp.maximum(1 - tau, 0.0) ** 3
    return _wendland(s, t, lengthscale), fall * (tau**2 / lengthscale * dl - over_sine / lengthscale**2 * ds)


class GreatCircle(AbstractKernel):
    r"""Kernel of the great-circle distance θ.

    .. math:: k = e^{-\theta/\ell} \quad\text{(exponential)}, \qquad
        k = (1 + 4\theta/\ell)\,(1 - \theta/\ell)_+^4 \quad\text{(wendland)}

    The exponential kernel is not mean-square differentiable and is valid for every length-scale. Wendland's kernel is once
    mean-square differentiable, zero beyond ℓ and valid only for ℓ ≤ π: learn it with ``bounded(1.0, 0.01, 3.14)``.

    Parameters
    ----------
    lengthscale
        Positive, in radians: one number.
    family
        "exponential" or "wendland" (not learned).

    References
    ----------
    Gneiting (2013), *Strictly and non-strictly positive definite functions on spheres*, table 1.

    Examples
    --------
    >>> paris, sydney = [48.86, 2.35], [-33.87, 151.21]
    >>> round(6371 * -float(np.log(GreatCircle()(paris, sydney))))
    16961
    """

    lengthscale: Numbers = positive(1.0)
    _: KW_ONLY
    family: str = static("exponential")

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=1 if self.family == "wendland" else 0, max_columns=2)

    def check(self, X: Inputs) -> None:
        who = "kernels.GreatCircle"
        _check_places(who, X)
        if self.family not in FAMILIES:
            raise fail(who, f"family is {self.family!r}", f"choose from {', '.join(FAMILIES)}", argument="family")
        if np.shape(self.lengthscale) != ():
            raise fail(who, f"lengthscale has shape {np.shape(self.lengthscale)}", "give one number", argument="lengthscale")
        AbstractKernel.check(self, X)
        if self.family == "wendland" and not self.lengthscale <= np.pi:
            what = f"lengthscale is {self.lengthscale}"
            raise fail(who, what, "give at most π, beyond which this family is not valid", argument="lengthscale")

    def block(self, X: Inputs, Z: Inputs) -> Array:
        s, t = _chords(X, Z)
        if self.family == "wendland":
            return _wendland(s, t, jnp.asarray(self.lengthscale, s.dtype))
        return jnp.exp(-angle(s, t) / self.lengthscale)

    def block_diag(self, X: Inputs) -> Array:
        return jnp.ones(X.rows, X.x.dtype)


class SinePower(AbstractKernel):
    r"""Sine-power kernel of the great-circle distance, :math:`k = 1 - \sin^{2H}(\theta/2)`.

    For rough functions without a length-scale: locally they resemble fractional Brownian motion of index H, and antipodes are
    uncorrelated.

    Parameters
    ----------
    hurst
        H, between 0 and 1.

    References
    ----------
    Soubeyrand, Enjalbert & Sache (2008); Gneiting (2013), table 1.

    Examples
    --------
    >>> SinePower(0.5)([90.0, 0.0], [0.0, 33.0]).round(6)
    np.float64(0.292893)
    """

    hurst: Numbers = unit_interval(0.5)

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=0, max_columns=2)

    def check(self, X: Inputs) -> None:
        _check_places("kernels.SinePower", X)
        if np.shape(self.hurst) != () or not 0 < self.hurst < 1:
            raise fail("kernels.SinePower", f"hurst is {self.hurst}", "give one number between 0 and 1", argument="hurst")

    def block(self, X: Inputs, Z: Inputs) -> Array:
        return 1 - power(0.25 * _chords(X, Z)[0], self.hurst)

    def block_diag(self, X: Inputs) -> Array:
        return jnp.ones(X.rows, X.x.dtype)


class OnSphere(AbstractKernel):
    r"""Kernel on the sphere, evaluated between points of the unit sphere in three dimensions.

    .. math:: k(u(x), u(x')), \qquad u = (\cos\phi\cos\lambda, \cos\phi\sin\lambda, \sin\phi)

    Distances are chords, which are close to arcs if they are short, so length-scales are in units of the radius. Functions are
    as smooth as those of the kernel.

    Parameters
    ----------
    kernel
        A kernel on three columns.

    References
    ----------
    Rasmussen & Williams (2006), section 4.2.3 (warping); Gneiting (2013), section 4 on chords.

    Examples
    --------
    >>> from covary.kernels import Matern52
    >>> k = OnSphere(Matern52(0.5))
    >>> bool(np.isclose(k([10.0, 179.0], [10.0, -179.0]), k([10.0, 0.0], [10.0, 2.0]), rtol=1e-12))
    True
    """

    kernel: AbstractKernel = child(transparent=True)

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=self.kernel.traits.smoothness, max_columns=2)

    def check(self, X: Inputs) -> None:
        _check_places("kernels.OnSphere", X)
        self.kernel.check(X.with_x(np.zeros((X.rows, 3), np.asarray(X.x).dtype)))

    def block(self, X: Inputs, Z: Inputs) -> Array:
        return self.kernel.block(X.with_x(unit_vectors(X.x)), Z.with_x(unit_vectors(Z.x)))

    def block_diag(self, X: Inputs) -> Array:
        return self.kernel.block_diag(X.with_x(unit_vectors(X.x)))

    def __repr__(self) -> str:
        return written(self)
