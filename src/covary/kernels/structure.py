"""Kernels with structure: invariant under a group, with finitely many basis functions, additive over columns, normalised.

The functions at the beginning are also used by other modules of kernels that wrap kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, fields
from functools import cache, singledispatch
from itertools import pairwise
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from covary._checks import check_positive, fail
from covary._errors import Option, Place
from covary._memory import check_memory
from covary._module import STATIC, Module, Numbers, child, static, without_marks
from covary._precision import cast, precision
from covary._types import Array, ArrayLike, Nested
from covary._words import counted
from covary.data import Inputs
from covary.kernels import tiles
from covary.kernels.authors import traced_shape
from covary.kernels.base import AbstractKernel, Operand, Power, Product, Scaled, Sum, Traits, marked, number, size, with_mark
from covary.kernels.distance import DIRECT_COLUMNS, square_distance
from covary.kernels.dot_product import Constant
from covary.parameters import REAL, fixed, named, positive

Carry = TypeVar("Carry")
Part = TypeVar("Part")  # an array, or several in a tuple

MOST_IMAGES = 10**6  # evaluations of kernels inside nested group averages, for one covariance


def numbers(value: ArrayLike) -> Nested:
    """Convert numbers to static structure: nested tuples of floats."""
    array = np.asarray(value, np.float64)
    return float(array) if array.ndim == 0 else tuple(numbers(item) for item in array)


def points(value: ArrayLike) -> Nested:
    """Convert points to static structure, one row each; a flat list contains points of one column."""
    array = np.asarray(value, np.float64)
    return numbers(array[:, None] if array.ndim == 1 else array)


def _lists(value: Nested) -> float | list:
    return [_lists(item) for item in value] if isinstance(value, tuple) else value


def written(module: Module) -> str:
    """Format a module as text: children and functions by position, everything else by keyword."""
    inside = []
    for f in fields(module):
        value = getattr(module, f.name)
        if isinstance(value, Module):
            inside.append(repr(value))
        elif isinstance(value, dict):
            inside += [f"{key}={with_mark(number(v), module.mark_of(key))}" for key, v in value.items()]
        elif callable(value):
            inside.append(getattr(value, "__name__", "function"))
        else:
            text = repr(_lists(value)) if f.metadata.get(STATIC) else marked(module, f.name)
            inside.append(f"{f.name}={text}")
    return f"{type(module).__name__}({', '.join(inside)})"


def fold(step: Callable[[Carry, Part], Carry], start: Carry, columns: Part) -> Carry:
    """Apply ``step`` successively along the first axis of arrays, which is over columns: unrolled for few, a loop for many."""
    count = jax.tree_util.tree_leaves(columns)[0].shape[0]
    if count <= DIRECT_COLUMNS:
        for k in range(count):
            start = step(start, jax.tree_util.tree_map(lambda v, k=k: v[k], columns))
        return start
    return jax.lax.scan(jax.checkpoint(lambda carry, part: (step(carry, part), None)), start, columns, unroll=4)[0]


def evaluated(module: Any, X: Inputs) -> np.ndarray:
    """Evaluate a user-defined function at the rows of X, in NumPy, for checks."""
    x = np.asarray(X.x)
    do = "it must take the array x (n, d), and use jax.numpy"
    traced_shape(module._named(), "the function", do, lambda m, x: m.evaluate(x), without_marks(module), x)
    with precision(x.dtype):
        return np.asarray(cast(module, x.dtype).evaluate(jnp.asarray(x)))


def settled(u: Array) -> Array:
    """Return the same numbers, rounded before any further operation.

    A compiler may fuse a product and a subsequent difference into one rounding, so that the distance between equal computed
    points is not zero. It does not optimise across a clip.
    """
    most = jnp.finfo(u.dtype).max
    return jnp.clip(u, -most, most)


@singledispatch
def profile(kernel: AbstractKernel, s: Array) -> Array:
    """Evaluate an isotropic kernel as a function of the squared distance s."""
    return kernel.profile(s / jnp.square(kernel.lengthscale))


@profile.register
def _(kernel: Constant, s: Array) -> Array:
    return jnp.ones_like(s)


@profile.register
def _(kernel: Scaled, s: Array) -> Array:
    return kernel.variance * profile(kernel.kernel, s)


@profile.register
def _(kernel: Power, s: Array) -> Array:
    return profile(kernel.kernel, s) ** kernel.exponent


@profile.register
def _(kernel: Sum, s: Array) -> Array:
    return sum((profile(term, s) for term in kernel.terms[1:]), profile(kernel.terms[0], s))


@profile.register
def _(kernel: Product, s: Array) -> Array:
    return math.prod((profile(factor, s) for factor in kernel.factors[1:]), start=profile(kernel.factors[0], s))


def check_isotropic(who: str, kernel: AbstractKernel) -> None:
    """Raise an error if a kernel is not isotropic or not valid in every dimension."""
    leaves = [kernel]
    while leaves:
        leaf = leaves.pop()
        if isinstance(leaf, Sum | Product):
            leaves += leaf.terms if isinstance(leaf, Sum) else leaf.factors
        elif isinstance(leaf, Scaled | Power):
            leaves.append(leaf.kernel)
        elif not (leaf.traits.isotropic and (hasattr(leaf, "profile") or isinstance(leaf, Constant))):
            do = "give an isotropic kernel with one length-scale, such as Matern52()"
            raise fail(who, f"{type(leaf).__name__} is not isotropic", do)
        elif leaf.traits.max_columns is not None:
            what = f"{type(leaf).__name__} is not valid in every dimension"
            raise fail(who, what, "choose a kernel that is, such as Matern52()")


@cache
def _orthogonal(group: Nested) -> bool:
    M = np.array(group)
    return bool(np.allclose(M @ M.transpose(0, 2, 1), np.eye(M.shape[1]), atol=1e-10))


@cache
def _complaint(group: Nested, form: str) -> str | None:
    """Return why these matrices are not a group (or, for the printed form, not closed under inverses), or None if they are."""
    M = np.array(group)
    if M.ndim != 3 or M.shape[1] != M.shape[2]:
        return f"group has shape {M.shape}"
    if not np.abs(np.linalg.det(M)).min() > 1e-8:
        return "a matrix of the group is singular"
    needed = np.linalg.inv(M) if form == "printed" else (M[:, None] @ M[None]).reshape(-1, *M.shape[1:])
    near = np.array([np.abs(one - M).max((1, 2)).min() for one in needed])
    if not near.max() <= 1e-8:
        i, j = divmod(int(np.argmax(near)), len(M))
        return (
            f"the inverse of matrix {j}" + " is not in the group"
            if form == "printed"
            else (f"the product of the matrices {i} and {j} is not in the group")
        )
    return None


def _images(part: AbstractKernel | tuple[AbstractKernel, ...]) -> int:
    """Return the number of evaluations of inner kernels for one covariance, which multiplies for nested group averages."""
    if isinstance(part, tuple):
        return sum(map(_images, part))
    if not isinstance(part, AbstractKernel):
        return 0
    inner = sum(_images(getattr(part, f.name)) for f in fields(part)) or 1
    return inner * (np.shape(part.group) or (1,))[0] ** 2 if isinstance(part, Invariant) else inner


class Invariant(AbstractKernel):
    r"""Kernel averaged over a finite group of matrices, for functions invariant under its symmetries.

    .. math:: k_G(x, x') = \frac1S \sum_s k(x, M_s x') \qquad\text{or}\qquad \frac1{S^2} \sum_{s,t} k(M_s x, M_t x')

    The first form is used if k is isotropic and all :math:`M_s` are orthogonal, since both forms are then equal. Otherwise the
    second form is used.

    ``form="printed"`` is the formula printed in Gibbs (1997), which sums the squared distances inside the kernel,
    :math:`k(\sum_s |x - M_s x'|^2)`. **Warning**: it is degenerate if :math:`\sum_s M_s = 0`, as for every point group with an
    inversion: it then depends only on ‖x‖² + ‖x'‖², and the squared exponential has rank one. If the matrices are not a group
    it need not be positive semi-definite. It is provided to reproduce his results.

    Parameters
    ----------
    kernel
        The kernel to be averaged.
    group
        The matrices, of shape (S, d, d), which must include the product of any two (for the printed form, all inverses). Not
        learned.
    form
        "orbit" or "printed".

    References
    ----------
    Gibbs (1997), eq. 6.37, which is ``form="printed"``; the orbit sum is the invariant kernel it was intended to be.

    Examples
    --------
    >>> from covary.kernels import SquaredExponential
    >>> even = Invariant(SquaredExponential(), group=[[[1.0]], [[-1.0]]])
    >>> bool(even([0.3], [1.2]) == even([-0.3], [1.2]))
    True
    """

    kernel: AbstractKernel = child(transparent=True)
    _: KW_ONLY
    group: Any = static(convert=numbers)
    form: str = static("orbit")

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=self.kernel.traits.smoothness)

    def check(self, X: Inputs) -> None:
        who = "kernels.Invariant"
        complaint = _complaint(self.group, self.form)
        if complaint is not None:
            raise fail(who, complaint, "give the matrices of a group, of shape (S, d, d)")
        if len(self.group[0]) != X.columns:
            size = len(self.group[0])
            what = f"the matrices are {size} by {size} but " + Option("X") + f" has {counted(X.columns, 'column')}"
            raise fail(who, what, "give d by d matrices")
        if self.form not in ("orbit", "printed"):
            raise fail(who, f"form is {self.form!r}", 'choose "orbit" or "printed"', argument="form")
        times = _images(self)
        if times > MOST_IMAGES and times > len(self.group) ** 2:
            what = f"nested Invariant kernels take {times:,} evaluations for one covariance"
            raise fail(who, what, f"nest fewer of them, for at most {MOST_IMAGES:,}")
        if self.form == "printed":
            check_isotropic(who, self.kernel)
        self.kernel.check(X)

    @property
    def _one_sided(self) -> bool:
        return self.kernel.traits.isotropic and _orthogonal(self.group)

    def block(self, X: Inputs, Z: Inputs) -> Array:
        M = jnp.asarray(self.group, X.x.dtype)
        zero, one = jnp.zeros((X.rows, Z.rows), X.x.dtype), jnp.ones(X.columns, X.x.dtype)
        images = settled(jnp.einsum("sij,nj->sni", M, Z.x, precision="highest"))
        if self.form == "printed":
            return profile(self.kernel, fold(lambda sum, z: sum + square_distance(X.x, z, one), zero, images))
        total = fold(lambda sum, z: sum + self._against(X, Z.with_x(z), M), zero, images)
        return total / (len(M) if self._one_sided else len(M) ** 2)

    def _against(self, X: Inputs, Z: Inputs, M: Array) -> Array:
        if self._one_sided:
            return self.kernel.block(X, Z)
        images = settled(jnp.einsum("sij,nj->sni", M, X.x, precision="highest"))
        zero = jnp.zeros((X.rows, Z.rows), X.x.dtype)
        return fold(lambda sum, x: sum + self.kernel.block(X.with_x(x), Z), zero, images)

    def __repr__(self) -> str:
        return written(self)


class AbstractBasis(AbstractKernel):
    """Base class of kernels of finitely many functions with independent weights; subclasses implement ``evaluate``."""

    def evaluate(self, x: Array) -> Array:
        """Evaluate the basis functions at every row of x (n, d): shape (n, m)."""
        raise NotImplementedError

    def block(self, X: Inputs, Z: Inputs) -> Array:
        return (self.evaluate(X.x) * self.weight) @ self.evaluate(Z.x).T

    def block_diag(self, X: Inputs) -> Array:
        return (self.evaluate(X.x) ** 2 * self.weight).sum(1)

    def __repr__(self) -> str:
        return written(self)


class BasisFunctions(AbstractBasis):
    r"""Kernel of finitely many basis functions with independent Gaussian weights.

    .. math:: k(x, x') = \sum_j s_j\, \phi_j(x)\, \phi_j(x')

    This is Bayesian linear regression on the functions :math:`\phi_j`. The rank of the gram matrix is at most the number of
    functions.

    Parameters
    ----------
    function
        ``function(x, **parameters)``, written with ``jax.numpy``: takes the array x (n, d) and returns (n, m). Each row of the
        result may depend only on the same row of x.
    weight
        Positive: the variances s, one number (fixed at 1 by default, since the kernel's variance is equivalent) or one each.
    parameters
        Real starting values by name, passed to the function by keyword.
    smoothness
        The number of times the functions are differentiable.

    References
    ----------
    Rasmussen & Williams (2006), section 2.1.2, below eq. 2.12; Gibbs (1997), eq. 2.39.

    Examples
    --------
    >>> BasisFunctions(lambda x: x**2)([2.0], [3.0]).item()
    36.0
    """

    function: Callable[..., Array] = static()
    _: KW_ONLY
    weight: Numbers = positive(fixed(1.0))
    parameters: dict[str, np.ndarray] = named(REAL)
    smoothness: float = static(np.inf)

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=self.smoothness)

    def evaluate(self, x: Array) -> Array:
        """Evaluate the functions at every row: (n, m)."""
        return self.function(x, **self.parameters)

    def check(self, X: Inputs) -> None:
        if "weight" in self.parameters:
            raise fail("kernels.BasisFunctions", "a parameter is called 'weight'", "choose another name")
        phi = evaluated(self, X)
        if phi.ndim != 2 or len(phi) != X.rows:
            who = "kernels.BasisFunctions"
            raise fail(who, f"the function returns shape {phi.shape} for {counted(X.rows, 'row')}", "return (n, m)")
        _check_weight("kernels.BasisFunctions", self.weight, phi.shape[1])


def _check_weight(who: str, weight: Array, count: int) -> None:
    if np.shape(weight) not in ((), (count,)):
        what = f"weight has shape {np.shape(weight)} for {counted(count, 'function')}"
        raise fail(who, what, "give one number or one each", argument="weight")
    check_positive(who, "weight", weight)


class GaussianBasis(AbstractBasis):
    r"""Kernel of Gaussian radial basis functions at given centres.

    .. math:: k(x, x') = \sum_j s_j\, e^{-|x - c_j|^2/2w^2}\, e^{-|x' - c_j|^2/2w^2}

    This is the prior of radial basis function networks. As the number of centres increases it converges to a squared
    exponential of length-scale :math:`\sqrt2\,w`. Far from all centres the prior variance is zero, which is rarely intended.

    Parameters
    ----------
    centres
        The points c, of shape (J, d), or (J,) for one column (not learned).
    width
        Positive: w, one number or one per column.
    weight
        Positive: the variances s, one number (fixed at 1 by default) or one per centre.

    References
    ----------
    Rasmussen & Williams (2006), eqs. 4.10 to 4.13; Gibbs (1997), eqs. 2.40 to 2.42 (his r is √2 w).

    Examples
    --------
    >>> round(float(GaussianBasis([0.0, 1.0])([0.0], [0.0])), 6)
    1.367879
    """

    centres: Any = static(convert=points)
    _: KW_ONLY
    width: Numbers = positive(1.0)
    weight: Numbers = positive(fixed(1.0))

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=np.inf)

    def evaluate(self, x: Array) -> Array:
        """Evaluate the functions at every row: (n, J)."""
        weight = jnp.broadcast_to(1 / jnp.square(self.width), (x.shape[1],))
        return jnp.exp(-0.5 * square_distance(x, jnp.asarray(self.centres, x.dtype), weight))

    def check(self, X: Inputs) -> None:
        check_centres("kernels.GaussianBasis", self.centres, X)
        _check_weight("kernels.GaussianBasis", self.weight, len(self.centres))
        AbstractKernel.check(self.replace(weight=1.0), X)


def check_centres(who: str, centres: Array, X: Inputs) -> None:
    """Raise an error if the centres do not have the columns of X."""
    shape = np.shape(centres)
    if len(shape) != 2 or shape[1] != X.columns:
        what = f"centres has shape {shape} but " + Option("X") + f" has {counted(X.columns, 'column')}"
        raise fail(who, what, "give one row per centre", argument="centres")


def _orders(value: Any) -> tuple[int, ...]:
    if np.ndim(value) == 0 and size(value) > 2**17:
        check_memory("kernels.Additive", 64 * int(min(size(value), 2**70)), "give at most the number of columns as orders")
    many = range(1, int(value) + 1) if np.ndim(value) == 0 else value
    return tuple(int(order) for order in many)


class Additive(AbstractKernel):
    r"""Additive (functional ANOVA) kernel: all interactions of the given orders between columns.

    .. math:: k(x, x') = \sum_{r \in \text{orders}} w_r \sum_{i_1 < \dots < i_r} k_{i_1} k_{i_2} \cdots k_{i_r},
        \qquad k_i = k(x_i, x'_i)

    For functions of many columns that are sums of functions of a few; the weights show which orders matter. The sums over sets
    of columns are elementary symmetric polynomials, computed in :math:`d r` steps.

    Parameters
    ----------
    kernel
        A kernel of one column. Its parameters are one number for all columns, or one per column.
    orders
        The highest order, or a list of orders (not learned).
    weight
        Positive: one per order (one number is repeated). They are variances, so do not multiply the kernel by another one.

    References
    ----------
    Rasmussen & Williams (2006), section 4.2.4; Duvenaud, Nickisch & Rasmussen (2011), *Additive Gaussian processes*, eq. 8
    (computed by a recursion over columns, which adds only positive terms, instead of Newton's formulae).

    Examples
    --------
    >>> from covary.kernels import SquaredExponential
    >>> Additive(SquaredExponential(), orders=2)([0.0, 0.0, 0.0], [0.0, 0.0, 0.0]).item()
    6.0
    """

    kernel: AbstractKernel = child(transparent=True)
    _: KW_ONLY
    orders: Any = static(1, convert=_orders)
    weight: Numbers = positive(1.0)

    @classmethod
    def makes(cls, given: Mapping[str, Operand]) -> float:
        return 0 if np.ndim(given["orders"]) else size(given["orders"])  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        Module.__post_init__(self)
        if np.ndim(self.weight) == 0:
            object.__setattr__(self, "weight", self.weight * np.ones(len(self.orders)))

    @property
    def traits(self) -> Traits:
        inner = self.kernel.traits
        return Traits(stationary=inner.stationary, smoothness=inner.smoothness)

    def _column(self, k: int) -> AbstractKernel:
        return jax.tree_util.tree_map(lambda v: v[k] if np.ndim(v) else v, self.kernel)

    def check(self, X: Inputs) -> None:
        who, d = "kernels.Additive", X.columns
        if not self.orders or len(set(self.orders)) < len(self.orders) or not 1 <= min(self.orders) <= max(self.orders) <= d:
            some = ", ".join(map(str, self.orders[:8])) + (", ..." if len(self.orders) > 8 else "")
            what = f"orders are [{some}] but " + Option("X") + f" has {counted(d, 'column')}"
            raise fail(who, what, f"give different orders from 1 to {d}", argument="orders")
        if np.shape(self.weight) != (len(self.orders),):
            what = f"weight has shape {np.shape(self.weight)}"
            raise fail(who, what, f"give one per order: {len(self.orders)}", argument="weight")
        check_positive(who, "weight", self.weight)
        if any(np.shape(leaf) not in ((), (d,)) for leaf in jax.tree_util.tree_leaves(self.kernel)):
            raise fail(who, "the kernel has an array that is not one per column", f"give one number or {d}, one per column")
        for k in range(d):
            self._column(k).check(X.with_x(X.x[:, k : k + 1]))

    def block(self, X: Inputs, Z: Inputs) -> Array:
        each = jax.tree_util.tree_map(lambda v: v if np.ndim(v) else jnp.broadcast_to(v, (X.columns,)), self.kernel)

        def step(sums: list[Array], part: tuple[AbstractKernel, Array, Array]) -> list[Array]:
            kernel, x, z = part
            k = kernel.block(X.with_x(x[:, None]), Z.with_x(z[:, None]))
            return [sums[0], *(high + k * low for low, high in pairwise(sums))]

        shape = (X.rows, Z.rows)
        start: list[Array] = [jnp.ones(shape, X.x.dtype)] + [jnp.zeros(shape, X.x.dtype)] * max(self.orders)
        sums = fold(step, start, (each, X.x.T, Z.x.T))
        return sum(self.weight[i] * sums[order] for i, order in enumerate(self.orders))  # type: ignore[return-value]

    def __repr__(self) -> str:
        return written(self)


class Normalised(AbstractKernel):
    r"""Kernel divided by its standard deviations: the same correlations, with variance one everywhere.

    .. math:: \tilde k(x, x') = k(x, x') / \sqrt{k(x, x)\, k(x', x')}

    Parameters
    ----------
    kernel
        A kernel whose variance is positive everywhere.

    References
    ----------
    Rasmussen & Williams (2006), eq. 4.35.

    Examples
    --------
    >>> from covary.kernels import Polynomial
    >>> round(float(Normalised(Polynomial(2))([0.0], [1.0])), 6)
    0.5
    """

    kernel: AbstractKernel = child(transparent=True)

    @property
    def traits(self) -> Traits:
        return self.kernel.traits

    def check(self, X: Inputs) -> None:
        self.kernel.check(X)
        variance = tiles.diag(self.kernel, X)  # already checked above; checking again on every level would take 2^depth checks
        if not (variance > 0).all():
            row = int(np.argmin(variance > 0))
            raise fail("kernels.Normalised", f"the variance is {variance[row]} " + Place(row), "add a constant to the kernel")

    def block(self, X: Inputs, Z: Inputs) -> Array:
        scale = (1 / jnp.sqrt(self.kernel.block_diag(V)) for V in (X, Z))
        return self.kernel.block(X, Z) * next(scale)[:, None] * next(scale)[None, :]

    def block_diag(self, X: Inputs) -> Array:
        return jnp.ones(X.rows, X.x.dtype)

    def __repr__(self) -> str:
        return written(self)
