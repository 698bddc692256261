"""Kernels whose length-scale or amplitude varies over the input space.

The varying quantity is a *field*: a positive function of the input, either the exponential of a sum of Gaussian bumps with
learned heights (:class:`GaussianField`) or a user-defined function (:class:`FunctionField`).

A linear model whose slopes vary over the input space (R&W, section 4.2.3) needs no separate kernel: it is the product
``Linear() * k``, where k is the kernel of the slopes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from covary._checks import check_finite, fail
from covary._errors import Option, Place
from covary._module import Module, Numbers, child, static
from covary._types import Array
from covary._words import counted
from covary.data import Inputs
from covary.kernels.base import AbstractKernel, Traits, together
from covary.kernels.distance import scaled_square, square_distance
from covary.kernels.structure import check_centres, check_isotropic, evaluated, fold, numbers, points, profile, written
from covary.parameters import REAL, named, positive, real

MOST_FULL = 6  # columns of a field of full matrices, whose factorisation is unrolled: d³/6 operations per entry


class GaussianField(Module):
    r"""Positive field: the exponential of a sum of Gaussian bumps.

    .. math:: g_l(x) = \exp\Bigl(\sum_j \beta_{lj}\, \psi_j(x)\Bigr), \qquad
        \psi_j(x) = \exp\Bigl(-\tfrac12 \sum_k (x_k - a_{jk})^2/\sigma_k^2\Bigr)

    Far from all centres the field is one.

    Parameters
    ----------
    centres
        The points a, of shape (J, d), or (J,) for one column (not learned).
    width
        σ, one number or one per column (not learned).
    beta
        The heights: (J,) for one field for all columns, or (d, J) for one field per column. One number is repeated J times.

    References
    ----------
    Gibbs (1997), eqs. 3.83 and 3.88.

    Examples
    --------
    >>> from covary.kernels import Matern52
    >>> VaryingAmplitude(Matern52(), GaussianField([0.0, 5.0], width=2.0, beta=[1.0, -1.0]))([0.0], [0.0]).round(6)
    np.float64(6.767462)
    """

    centres: Any = static(convert=points)
    _: KW_ONLY
    width: Any = static(1.0, convert=numbers)
    beta: Numbers = real(0.0)

    def __post_init__(self) -> None:
        Module.__post_init__(self)
        if np.ndim(self.beta) == 0:
            object.__setattr__(self, "beta", self.beta * np.ones(len(self.centres)))

    @property
    def smoothness(self) -> float:
        """Number of times the field is differentiable."""
        return np.inf

    def evaluate(self, x: Array) -> Array:
        """Evaluate the field at every row: (n,), or (n, d) if there is one per column."""
        weight = jnp.broadcast_to(1 / jnp.square(jnp.asarray(self.width, x.dtype)), (x.shape[1],))
        psi = jnp.exp(-0.5 * square_distance(x, jnp.asarray(self.centres, x.dtype), weight))
        return jnp.exp(psi @ self.beta.T)

    def check(self, who: str, X: Inputs) -> None:
        """Raise an error if the field's parameters do not fit these inputs."""
        check_centres(who, self.centres, X)
        if np.shape(self.width) not in ((), (X.columns,)) or not np.all(np.asarray(self.width) > 0):
            raise fail(who, f"the field's width is {self.width}", "give one positive number or one per column")
        J = len(self.centres)
        if np.shape(self.beta) not in ((J,), (X.columns, J)):
            what = f"beta has shape {np.shape(self.beta)} for {J} centres"
            raise fail(who, what, f"give ({J}) or ({X.columns}, {J})", argument="beta")
        check_finite(who, "beta", np.asarray(self.beta))

    def __repr__(self) -> str:
        return written(self)


class FunctionField(Module):
    """Field given by a user-defined function.

    Parameters
    ----------
    function
        ``function(x, **parameters)``, written with ``jax.numpy``: takes the array x (n, d) and returns positive numbers (n,) or
        (n, d), or positive definite matrices (n, d, d) if the kernel accepts them. Each row of the result may depend only on
        the same row of x.
    parameters
        Real starting values by name, passed to the function by keyword.
    smoothness
        The number of times the function is differentiable.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> field = FunctionField(lambda x, slope: jnp.exp(slope * x[:, 0]), parameters={"slope": 0.2})
    >>> VaryingLengthscale(field)([0.0], [1.0]).round(6)
    np.float64(0.662824)
    """

    function: Callable[..., Array] = static()
    _: KW_ONLY
    parameters: dict[str, np.ndarray] = named(REAL)
    smoothness: float = static(np.inf)

    def evaluate(self, x: Array) -> Array:
        """Evaluate the field at every row."""
        return self.function(x, **self.parameters)

    def check(self, who: str, X: Inputs) -> None:
        """Raise an error if the values of the function do not have the shape of a field or are not finite."""
        value = evaluated(self, X)
        shapes = ((X.rows,), (X.rows, X.columns), (X.rows, X.columns, X.columns))
        if value.shape not in shapes:
            do = "return (n,), (n, d) or (n, d, d)"
            what = f"the field returns shape {value.shape} for {counted(X.rows, 'row')} and {counted(X.columns, 'column')}"
            raise fail(who, what, do)
        check_finite(who, "the field", value)

    def __repr__(self) -> str:
        return written(self)


def _check_scales(who: str, field: Any, X: Inputs, *, full: bool) -> None:
    """Raise an error if a field is not positive, or consists of matrices and ``full`` is False."""
    field.check(who, X)
    if isinstance(field, GaussianField):
        return
    value = evaluated(field, X)
    if value.ndim < 3:
        if not (value > 0).all():
            row = int(np.argmin((value > 0).reshape(X.rows, -1).all(1)))
            raise fail(who, f"the field is {value[row]} " + Place(row), "return positive numbers")
        return
    if not full or X.columns > MOST_FULL:
        what = "give a field of shape (n,) or (n, d)"
        raise fail(who, f"the field returns {X.columns} by {X.columns} matrices", what)
    lowest = np.linalg.eigvalsh(value)[:, 0]
    if not (lowest > 0).all() or not np.allclose(value, value.transpose(0, 2, 1), rtol=1e-6):
        row = int(np.argmin(lowest))
        raise fail(who, "the field's matrix " + Place(row) + " is not symmetric positive definite", "return matrices that are")


def _factor(entry: Callable[[int, int], Array], right: list[Array]) -> tuple[Array, Array]:
    """Return |A| and bᵀA⁻¹b for symmetric matrices A by LDLᵀ factorisation, with each entry as a separate array."""
    lower: dict[tuple[int, int], Array] = {}
    determinant, quadratic, pivots, y = 1.0, 0.0, [], []
    for i in range(len(right)):
        for j in range(i + 1):
            part = entry(i, j) - sum(lower[i, k] * lower[j, k] * pivots[k] for k in range(j))
            if j < i:
                lower[i, j] = part / pivots[j]
            else:
                pivots.append(part)
        y.append(right[i] - sum(lower[i, k] * y[k] for k in range(i)))
        determinant, quadratic = determinant * pivots[i], quadratic + y[i] ** 2 / pivots[i]
    return determinant, quadratic  # type: ignore[return-value]


@jax.custom_jvp
def _columns(g: Array, h: Array, x: Array, z: Array, weight: Array) -> tuple[Array, Array]:
    """Return Π 2gh/(g² + h²) and Σ 2w(x − z)²/(g² + h²) over columns, which are the first axis: (d, n), (d, m), (d,)."""

    def step(carry: tuple[Array, Array], part: tuple[Array, ...]) -> tuple[Array, Array]:
        (product, quadratic), (a, b, u, v, w) = carry, part
        inverse = 2 / (a[:, None] ** 2 + b[None, :] ** 2)
        return product * (a[:, None] * b[None, :] * inverse), quadratic + w * (u[:, None] - v[None, :]) ** 2 * inverse

    shape = (g.shape[1], h.shape[1])
    return fold(step, (jnp.ones(shape, g.dtype), jnp.zeros(shape, g.dtype)), (g, h, x, z, weight))


@_columns.defjvp
def _columns_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    product, quadratic = _columns(*primals)

    # tangents are broadcast by products with ones, so that in reverse mode sums over rows are products, not slow reductions
    one, other = jnp.ones((1, product.shape[1]), product.dtype), jnp.ones((product.shape[0], 1), product.dtype)

    def step(carry: tuple[Array, Array], part: tuple[tuple[Array, ...], tuple[Array, ...]]) -> tuple[Array, Array]:
        (up, change), ((a, b, u, v, w), (da, db, du, dv, dw)) = carry, part
        da, du, db, dv = da[:, None] @ one, du[:, None] @ one, other @ db[None, :], other @ dv[None, :]
        a, b, apart = a[:, None], b[None, :], u[:, None] - v[None, :]
        inverse = 2 / (a**2 + b**2)
        near = w * (apart * inverse) ** 2
        up = up + (1 / a - a * inverse) * da + (1 / b - b * inverse) * db
        change = change + apart**2 * inverse * dw - near * (a * da + b * db)
        return up, change + 2 * w * apart * inverse * (du - dv)

    up, change = fold(step, (jnp.zeros_like(product), jnp.zeros_like(product)), (primals, tangents))
    return (product, quadratic), (product * up, change)


def local_scales(X: Inputs, Z: Inputs, g: Array, h: Array, lengthscale: Array) -> tuple[Array, Array]:
    r"""Return the prefactor and the quadratic form of R&W, eqs. 4.33 and 4.34.

    :math:`|\Sigma|^{1/4}|\Sigma'|^{1/4}/|\bar\Sigma|^{1/2}` and :math:`\Delta^\top\bar\Sigma^{-1}\Delta` with
    :math:`\bar\Sigma = (\Sigma + \Sigma')/2`, where Σ is given by fields g at X and h at Z: local scales (n,) or (n, d) in
    units of the length-scale, or matrices (n, d, d).
    """
    d = X.columns
    if g.ndim == 1:
        mean = 0.5 * (g[:, None] ** 2 + h[None, :] ** 2)
        ratio = g[:, None] * h[None, :] / mean
        whole = ratio ** (d // 2) if d > 1 else jnp.ones((), ratio.dtype)
        return whole * jnp.sqrt(ratio) if d % 2 else whole, scaled_square(X.x, Z.x, lengthscale) / mean
    centre = jax.lax.stop_gradient(Z.x.mean(0))
    x, z = X.x - centre, Z.x - centre  # scaled after the difference, which is exactly zero for equal rows
    weight = jnp.broadcast_to(1 / jnp.square(lengthscale), (d,))
    if g.ndim == 2:
        product, quadratic = _columns(g.T, h.T, x.T, z.T, weight)
        return jnp.sqrt(product), quadratic
    own = [_factor(lambda i, j, v=v: v[:, i, j], [v[:, 0, 0] * 0] * d)[0] for v in (g, h)]
    mean, quadratic = _factor(
        lambda i, j: 0.5 * (g[:, i, j][:, None] + h[:, i, j][None, :]), [x[:, i][:, None] - z[:, i][None, :] for i in range(d)]
    )
    return (own[0] ** 0.25)[:, None] * (own[1] ** 0.25)[None, :] / jnp.sqrt(mean), quadratic


class VaryingLengthscale(AbstractKernel):
    r"""Gibbs' kernel: a squared exponential whose length-scales vary over the input space.

    .. math::
        k(x, x') = \prod_l \Bigl(\frac{2 r_l(x) r_l(x')}{r_l^2(x) + r_l^2(x')}\Bigr)^{1/2}
        \exp\Bigl(-\sum_l \frac{(x_l - x'_l)^2}{r_l^2(x) + r_l^2(x')}\Bigr), \qquad r_l(x) = \ell_l\, g_l(x)

    The variance is one everywhere, and a constant field gives the squared exponential. If r changes over a distance shorter
    than r, the prefactor makes functions jagged; :class:`~covary.kernels.Warped` is then easier to interpret.

    Parameters
    ----------
    field
        g: a :class:`GaussianField`, or a :class:`FunctionField` that returns (n,) or (n, d).
    lengthscale
        Positive: ℓ, one number or one per column. Fix it with ``fixed(1.0)`` if the field already has a scale.

    References
    ----------
    Gibbs (1997), eqs. 2.25 and 3.82 (whose slope, eq. 3.84, lacks a factor ½ in print); Rasmussen & Williams (2006), eq. 4.32.

    Examples
    --------
    >>> round(float(VaryingLengthscale(GaussianField([0.0, 1.0], beta=[0.5, -0.5]))([0.0], [1.0])), 6)
    0.605688
    """

    field: Any = child()
    _: KW_ONLY
    lengthscale: Numbers = positive(1.0)

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=self.field.smoothness)

    def check(self, X: Inputs) -> None:
        AbstractKernel.check(self, X)
        _check_scales("kernels.VaryingLengthscale", self.field, X, full=False)

    def factors(self, X: Inputs, Z: Inputs) -> tuple[Array, Array]:
        """Return the two factors of the kernel, in jax.numpy: the prefactor (Gibbs, eq. 3.85) and the exponential."""
        prefactor, quadratic = local_scales(X, Z, self.field.evaluate(X.x), self.field.evaluate(Z.x), self.lengthscale)
        return prefactor, jnp.exp(-0.5 * quadratic)

    def block(self, X: Inputs, Z: Inputs) -> Array:
        prefactor, exponential = self.factors(X, Z)
        return prefactor * exponential

    def block_diag(self, X: Inputs) -> Array:
        return jnp.ones(X.rows, X.x.dtype)

    def __repr__(self) -> str:
        return written(self)


class PaciorekSchervish(AbstractKernel):
    r"""Isotropic kernel with a metric that varies over the input space.

    .. math::
        k_{NS}(x, x') = \frac{|\Sigma(x)|^{1/4} |\Sigma(x')|^{1/4}}{|\bar\Sigma|^{1/2}}\, k\bigl(\sqrt{Q}\bigr), \qquad
        \bar\Sigma = \tfrac12(\Sigma(x) + \Sigma(x')), \quad Q = (x - x')^\top \bar\Sigma^{-1} (x - x')

    With the squared exponential and diagonal Σ it is :class:`VaryingLengthscale`. With a Matérn kernel, functions are as smooth
    as those of that kernel.

    Parameters
    ----------
    kernel
        An isotropic kernel that is valid in every dimension, or sums and products of such kernels.
    field
        Σ as a field: (n,) or (n, d) are local length-scales, Σ(x) = diag(g_l(x)²); (n, d, d) is Σ(x) itself, for up to six
        columns.

    References
    ----------
    Rasmussen & Williams (2006), eqs. 4.33 and 4.34; Paciorek & Schervish (2004).

    Examples
    --------
    >>> from covary.kernels import Matern32
    >>> round(float(PaciorekSchervish(Matern32(), GaussianField([0.0, 1.0], beta=[0.5, -0.5]))([0.0], [1.0])), 6)
    0.48464
    """

    kernel: AbstractKernel = child()
    field: Any = child()

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=min(self.kernel.traits.smoothness, self.field.smoothness))

    def check(self, X: Inputs) -> None:
        check_isotropic("kernels.PaciorekSchervish", self.kernel)
        self.kernel.check(X)
        _check_scales("kernels.PaciorekSchervish", self.field, X, full=True)

    def block(self, X: Inputs, Z: Inputs) -> Array:
        one = jnp.ones((), X.x.dtype)
        prefactor, quadratic = local_scales(X, Z, self.field.evaluate(X.x), self.field.evaluate(Z.x), one)
        return prefactor * profile(self.kernel, quadratic)

    def block_diag(self, X: Inputs) -> Array:
        return profile(self.kernel, jnp.zeros(X.rows, X.x.dtype))

    def __repr__(self) -> str:
        return written(self)


class ModulatedSquaredExponential(AbstractKernel):
    r"""Squared exponential that decays away from the origin, from infinitely many Gaussian units with normal centres.

    .. math::
        k(x, x') = e^{-|x|^2/2\sigma_m^2}\, e^{-|x - x'|^2/2\sigma_s^2}\, e^{-|x'|^2/2\sigma_m^2}, \qquad
        \sigma_s^2 = 2\sigma_g^2 + \sigma_g^4/\sigma_u^2, \quad \sigma_m^2 = 2\sigma_u^2 + \sigma_g^2

    It is the covariance of :math:`e^{-|x - u|^2/2\sigma_g^2}` over :math:`u \sim N(0, \sigma_u^2 I)`, without the constant
    factor :math:`(\sigma_e/\sigma_u)^d`, where :math:`\sigma_e^{-2} = 2\sigma_g^{-2} + \sigma_u^{-2}`, since kernels have no
    variance. A large spread gives the squared exponential of length-scale :math:`\sqrt2\,\sigma_g`.

    Parameters
    ----------
    width
        Positive: :math:`\sigma_g`, the width of the units; one number, or one per column.
    spread
        Positive: :math:`\sigma_u`, the standard deviation of their centres; one number, or one per column.

    References
    ----------
    Rasmussen & Williams (2006), eq. 4.30.

    Examples
    --------
    >>> round(float(ModulatedSquaredExponential(1.0, spread=2.0)([0.0], [1.0])), 6)
    0.757465
    """

    width: Numbers = positive(1.0)
    _: KW_ONLY
    spread: Numbers = positive(1.0)

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=np.inf)

    def _envelope(self, X: Inputs) -> Array:
        return (X.x**2 / (2 * jnp.square(self.spread) + jnp.square(self.width))).sum(1)

    def block(self, X: Inputs, Z: Inputs) -> Array:
        local = jnp.sqrt(2.0 + jnp.square(self.width / self.spread)) * self.width
        outer = self._envelope(X)[:, None] + self._envelope(Z)[None, :]
        return jnp.exp(-0.5 * (scaled_square(X.x, Z.x, local) + outer))

    def block_diag(self, X: Inputs) -> Array:
        return jnp.exp(-self._envelope(X))


class VaryingAmplitude(AbstractKernel):
    r"""Kernel whose amplitude varies over the input space, :math:`a(x)\, k(x, x')\, a(x')`.

    Parameters
    ----------
    kernel
        The kernel k.
    field
        a: a :class:`GaussianField` with beta of shape (J,), or a :class:`FunctionField` that returns (n,), of either sign.

    References
    ----------
    Rasmussen & Williams (2006), section 4.2.4 (vertical rescaling).

    Examples
    --------
    >>> from covary.kernels import Matern52
    >>> VaryingAmplitude(Matern52(), FunctionField(lambda x: x[:, 0]))([2.0], [2.0]).item()
    4.0
    """

    kernel: AbstractKernel = child()
    field: Any = child()

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=min(self.kernel.traits.smoothness, self.field.smoothness))

    def check(self, X: Inputs) -> None:
        self.kernel.check(X)
        self.field.check("kernels.VaryingAmplitude", X)
        if (shape := evaluated(self.field, X).shape) != (X.rows,):
            what = f"the field has shape {shape} for {counted(X.rows, 'row')}"
            raise fail("kernels.VaryingAmplitude", what, "give one number per row")

    def block(self, X: Inputs, Z: Inputs) -> Array:
        return self.field.evaluate(X.x)[:, None] * self.kernel.block(X, Z) * self.field.evaluate(Z.x)[None, :]

    def block_diag(self, X: Inputs) -> Array:
        return self.field.evaluate(X.x) ** 2 * self.kernel.block_diag(X)

    def __repr__(self) -> str:
        return written(self)


class ChangePoint(AbstractKernel):
    r"""Kernel that changes smoothly from one kernel to another around a point.

    .. math:: k = (1 - s(x))\,k_1(x, x')\,(1 - s(x')) + s(x)\,k_2(x, x')\,s(x'), \qquad s(x) = 1/(1 + e^{-(x_c - t)/w})

    The two processes are independent, and are weighted by 1 − s and s.

    Parameters
    ----------
    before, after
        The kernels before and after the change.
    at
        t, the location of the change.
    width
        Positive: w, the width of the change, nine tenths of which is within 3w of t.
    column
        c, the input column along which the change occurs (not learned).

    References
    ----------
    Rasmussen & Williams (2006), section 4.2.4 (rescaling and sums); Osborne, Garnett & Roberts (2010) for change points.

    Examples
    --------
    >>> from covary.kernels import Constant, Matern12
    >>> ChangePoint(Matern12(), Constant(), at=5.0, width=0.1)([9.0], [8.0]).round(6)
    np.float64(1.0)
    """

    before: AbstractKernel = child()
    after: AbstractKernel = child()
    _: KW_ONLY
    at: Numbers = real(0.0)
    width: Numbers = positive(1.0)
    column: int = static(0)

    @property
    def traits(self) -> Traits:
        inner = together([self.before.traits, self.after.traits])
        return Traits(smoothness=inner.smoothness, max_columns=inner.max_columns)

    def check(self, X: Inputs) -> None:
        who = "kernels.ChangePoint"
        if isinstance(self.column, bool) or not isinstance(self.column, int) or not 0 <= self.column < X.columns:
            what = f"column is {self.column!r} but " + Option("X") + f" has {counted(X.columns, 'column')}"
            raise fail(who, what, "count columns from 0")
        for name in ("at", "width"):
            if np.shape(getattr(self, name)) != ():
                raise fail(who, f"{name} has shape {np.shape(getattr(self, name))}", "give one number", argument=name)
        AbstractKernel.check(self, X)
        self.before.check(X)
        self.after.check(X)

    def _shares(self, X: Inputs) -> tuple[Array, Array]:
        z = (X.x[:, self.column] - self.at) / self.width
        return jax.nn.sigmoid(-z), jax.nn.sigmoid(z)

    def block(self, X: Inputs, Z: Inputs) -> Array:
        (p, s), (q, t) = self._shares(X), self._shares(Z)
        return p[:, None] * self.before.block(X, Z) * q[None, :] + s[:, None] * self.after.block(X, Z) * t[None, :]

    def block_diag(self, X: Inputs) -> Array:
        p, s = self._shares(X)
        return p**2 * self.before.block_diag(X) + s**2 * self.after.block_diag(X)

    def __repr__(self) -> str:
        return written(self)
