"""Kernels of mapped inputs: a learned monotone map per column, or a user-defined function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from covary._checks import check_finite, fail
from covary._module import Module, Numbers, child, static
from covary._types import Array
from covary._words import counted
from covary.data import Inputs
from covary.kernels.base import AbstractKernel, Traits
from covary.kernels.structure import evaluated, numbers, settled, written
from covary.parameters import REAL, named, real

MOST_DEPTH = 10  # nested warpings


def _depth(part: AbstractKernel | tuple[AbstractKernel, ...]) -> int:
    """Return the number of nested warpings."""
    if isinstance(part, Module):
        return max((_depth(getattr(part, f.name)) for f in fields(part)), default=0) + isinstance(part, Warped)
    return max(map(_depth, part), default=0) if isinstance(part, tuple) else 0


class AbstractMap(AbstractKernel):
    """Base class of kernels of mapped inputs, k(u(x), u(x')); subclasses implement ``evaluate``."""

    def evaluate(self, x: Array) -> Array:
        """Return the mapped inputs for every row of x (n, d): shape (n, e)."""
        raise NotImplementedError

    def block(self, X: Inputs, Z: Inputs) -> Array:
        return self.kernel.block(X.with_x(self.evaluate(X.x)), Z.with_x(self.evaluate(Z.x)))

    def block_diag(self, X: Inputs) -> Array:
        return self.kernel.block_diag(X.with_x(self.evaluate(X.x)))

    def __repr__(self) -> str:
        return written(self)


class Warped(AbstractMap):
    r"""Kernel on warped inputs: a learned monotone map stretches each column where functions change fast.

    .. math::
        k(f(x), f(x')), \qquad f_l(x) = \sum_j e^{\beta_{lj}}\, \sigma_l \sqrt{\pi/2}\;
        \mathrm{erf}\Bigl(\frac{x_l - a_{lj}}{\sqrt2\,\sigma_l}\Bigr)

    The slope of the map is a sum of Gaussian bumps, :math:`f'_l(x) = \sum_j e^{\beta_{lj}} e^{-(x_l - a_{lj})^2/2\sigma_l^2}`,
    and the local length-scale is that of the kernel divided by this slope. Beyond the outermost centres the slope decreases to
    zero and functions become constant, so the centres should cover all inputs, including those of predictions, about one width
    apart.

    Each :math:`f_l` depends on its column only. (Gibbs integrates densities over paths in all columns, which in general is
    neither independent of the path nor one-to-one.) A common factor of all slopes is equivalent to a length-scale, so fix that
    of the kernel: ``Warped(SquaredExponential(fixed(1.0)), ...)``.

    Parameters
    ----------
    kernel
        The kernel on the warped inputs.
    centres
        The points a: (J,), the same for all columns, or (d, J) (not learned).
    width
        σ, one number or one per column (not learned).
    beta
        The logarithms of the slopes: (J,), the same for all columns, or (d, J). One number is repeated J times.

    References
    ----------
    Gibbs (1997), eqs. 3.86 to 3.89, with one density per column.

    Examples
    --------
    >>> from covary.kernels import SquaredExponential, fixed
    >>> k = Warped(SquaredExponential(fixed(1.0)), centres=[0.0, 1.0, 2.0], width=1.0, beta=[-1.0, 0.0, 1.0])
    >>> k([0.0], [0.5]).round(6), k([1.5], [2.0]).round(6)
    (np.float64(0.695355), np.float64(0.227468))
    """

    kernel: AbstractKernel = child(transparent=True)
    _: KW_ONLY
    centres: Any = static(convert=numbers)
    width: Any = static(1.0, convert=numbers)
    beta: Numbers = real(0.0)

    def __post_init__(self) -> None:
        Module.__post_init__(self)
        if np.ndim(self.beta) == 0:
            object.__setattr__(self, "beta", self.beta * np.ones(np.shape(self.centres)[-1]))

    @property
    def traits(self) -> Traits:
        inner = self.kernel.traits
        return Traits(smoothness=inner.smoothness, max_columns=inner.max_columns)

    def check(self, X: Inputs) -> None:
        who, d = "kernels.Warped", X.columns
        J = (np.shape(self.centres) or (0,))[-1]
        for name in ("centres", "beta"):
            shape = np.shape(getattr(self, name))
            if shape not in ((J,), (d, J)):
                what = f"{name} has shape {shape} for {counted(J, 'centre')} and {counted(d, 'column')}"
                raise fail(who, what, f"give ({J}) or ({d}, {J})", argument=name)
        if np.shape(self.width) not in ((), (d,)) or not np.all(np.asarray(self.width) > 0):
            raise fail(who, f"width is {self.width}", "give one positive number or one per column", argument="width")
        check_finite(who, "beta", np.asarray(self.beta))
        if _depth(self) > MOST_DEPTH:  # compile time doubles with every level
            raise fail(who, f"{_depth(self)} Warped kernels are nested", f"nest at most {MOST_DEPTH}")
        self.kernel.check(X.with_x(evaluated(self, X)))

    def evaluate(self, x: Array) -> Array:
        """Return the warped inputs f(x), in jax.numpy: (n, d)."""
        d = x.shape[1]
        width = np.broadcast_to(np.asarray(self.width, x.dtype), (d,))
        centres = np.broadcast_to(np.asarray(self.centres, x.dtype), (d, np.shape(self.centres)[-1]))
        slope = jnp.broadcast_to(jnp.exp(self.beta), centres.shape)
        each = [
            jax.scipy.special.erf((x[:, k][:, None] - centres[k]) / (2**0.5 * width[k])) @ slope[k] * width[k] for k in range(d)
        ]
        return settled((jnp.pi / 2) ** 0.5 * jnp.stack(each, axis=1))


class Mapped(AbstractMap):
    r"""Kernel on inputs mapped by any function, :math:`k(u(x), u(x'))`. The number of columns may change.

    Parameters
    ----------
    kernel
        The kernel on the mapped inputs.
    function
        ``function(x, **parameters)``, written with ``jax.numpy``: takes the array x (n, d) and returns (n, e), or (n,) for one
        column. Each row of the result may depend only on the same row of x.
    parameters
        Real starting values by name, passed to the function by keyword.
    smoothness
        The number of times the map is differentiable.

    References
    ----------
    Rasmussen & Williams (2006), section 4.2.3 (warping).

    Examples
    --------
    The periodic kernel of R&W, eq. 4.31, is the squared exponential on a circle.

    >>> import jax.numpy as jnp
    >>> from covary.kernels import Periodic, SquaredExponential
    >>> circle = Mapped(SquaredExponential(), lambda x: jnp.concatenate([jnp.cos(x), jnp.sin(x)], axis=1))
    >>> bool(np.isclose(circle([0.3], [1.0]), Periodic(period=2 * np.pi)([0.3], [1.0])))
    True
    """

    kernel: AbstractKernel = child()
    function: Callable[..., Array] = static()
    _: KW_ONLY
    parameters: dict[str, np.ndarray] = named(REAL)
    smoothness: float = static(np.inf)

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=min(self.kernel.traits.smoothness, self.smoothness))

    def evaluate(self, x: Array) -> Array:
        """Return the mapped inputs: (n, e)."""
        u = self.function(x, **self.parameters)
        return settled(u[:, None] if u.ndim == 1 else u)

    def check(self, X: Inputs) -> None:
        u = evaluated(self, X)
        if u.ndim != 2 or len(u) != X.rows:
            raise fail("kernels.Mapped", f"the map returns shape {u.shape} for {counted(X.rows, 'row')}", "return (n, e)")
        check_finite("kernels.Mapped", "the mapped input", u)
        self.kernel.check(X.with_x(u))
