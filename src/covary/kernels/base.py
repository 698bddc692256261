"""The base class of kernels, and sums, products and powers of kernels.

A kernel is a covariance function k(x, x'), without data, noise or variance. Subclasses implement one method, ``block``: the
matrix of k between the rows of two inputs, in ``jax.numpy``. The other methods are derived from it: ``gram``, ``cross`` and
``diag`` evaluate it in compiled tiles and return NumPy arrays. Under ``jit`` or ``grad`` they call ``block`` directly.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from functools import reduce
from typing import Any, Self, TypeAlias

import jax
import numpy as np

from covary._arguments import explained_methods
from covary._checks import CovaryError, WrongArguments, check_object, check_positive, fail, shown
from covary._errors import Option
from covary._module import STATIC, Mark, Marked, Module, Numbers, child, modules, static, without_marks
from covary._precision import precision, traced
from covary._types import Array, ArrayLike
from covary._words import counted
from covary.data import Inputs, Rows, as_inputs
from covary.kernels import tiles
from covary.kernels.authors import ATTRIBUTES, ELSEWHERE, ELSEWHERE_IN_CALLS, check_block, of_tables, pair, shape_words
from covary.parameters import POSITIVE, children, plain, positive

Operand: TypeAlias = "AbstractKernel | Marked | ArrayLike"
"""Anything that a kernel can be added to or multiplied by."""


@dataclass(frozen=True)
class Traits:
    """Properties of a kernel: stationarity, smoothness and the number of input columns it is valid for.

    ``stationary``: k depends on x − x' only. ``isotropic``: k depends on ‖x − x'‖ only. ``smoothness`` is the number of times
    the process is mean-square differentiable (infinity for analytic kernels, 0 for continuous, non-differentiable ones).
    ``max_columns`` is the largest number of input columns for which the kernel is valid.
    """

    stationary: bool = False
    smoothness: float = 0
    max_columns: int | None = None
    isotropic: bool = False


def together(parts: list[Traits]) -> Traits:
    """Return the traits of a sum or product of kernels with these traits."""
    limits = [p.max_columns for p in parts if p.max_columns is not None]
    return Traits(
        stationary=all(p.stationary for p in parts),
        smoothness=min(p.smoothness for p in parts),
        max_columns=min(limits, default=None),
        isotropic=all(p.isotropic for p in parts),
    )


def number(value: ArrayLike) -> str:
    """Format a number or an array as text from which it can be read back exactly."""
    array = np.asarray(value)
    return repr(array.tolist())


def marked(module: Module, name: str) -> str:
    """Format the value of a field, inside ``fixed(...)`` or ``bounded(...)`` if it has a mark."""
    return with_mark(number(getattr(module, name)), module.mark_of(name))


def with_mark(text: str, mark: Mark) -> str:
    """Wrap text in ``fixed(...)`` or ``bounded(...)`` according to a mark."""
    if mark.bounds is not None:
        text = f"bounded({text}, {mark.bounds[0]!r}, {mark.bounds[1]!r})"
    return f"fixed({text})" if mark.fixed else text


def size(value: Operand) -> float:
    """Convert a count to a float, and anything else to zero; later checks raise an error for invalid counts."""
    try:
        return max(0.0, float(value)) if isinstance(value, int | float | np.number) else 0.0
    except OverflowError:
        return np.inf


class _KernelClass(type):
    """Metaclass that rejects arithmetic with a class: ``2.0 * Matern52`` raises an error that suggests ``Matern52()``."""

    def _bare(cls, other: Operand) -> Any:
        if isinstance(other, AbstractKernel):
            return NotImplemented  # the other operand raises the error
        raise fail("kernels", f"{cls.__name__} is a class", f"write {cls.__name__}()", WrongArguments)

    __add__ = __radd__ = __mul__ = __rmul__ = __truediv__ = __pow__ = _bare


class AbstractKernel(Module, metaclass=_KernelClass):
    """Base class of covariance functions k(x, x'). A user-defined kernel implements ``block`` and declares its parameters.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from covary.parameters import positive
    >>> class Laplacian(AbstractKernel):
    ...     lengthscale: Any = positive(1.0)
    ...
    ...     def block(self, X, Z):
    ...         return jnp.exp(-jnp.abs(X.x[:, None, :] - Z.x[None, :, :]).sum(-1) / self.lengthscale)
    >>> Laplacian(2.0)([[0.0]], [[0.0], [1.0]]).round(6)
    array([[1.      , 0.606531]])
    """

    __array_ufunc__ = None  # so that numpy_number * kernel calls the kernel's __rmul__
    _elsewhere = ELSEWHERE
    _elsewhere_in = ELSEWHERE_IN_CALLS

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "block" in vars(cls):
            cls.block = of_tables(vars(cls)["block"])

    def __getattr__(self, name: str) -> Any:
        hint = ATTRIBUTES.get(name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{f'; {hint}.' if hint else ''}")

    @property
    def _foreign(self) -> bool:
        """Whether ``block`` is user-defined."""
        return not type(self).__module__.startswith("covary.")

    @property
    def traits(self) -> Traits:
        """Properties of the kernel, as declared by the subclass."""
        return Traits()

    @classmethod
    def makes(cls, given: Mapping[str, Operand]) -> float:
        """Return how many numbers a kernel with these arguments creates, so that short text cannot create very many."""
        return 0

    def block(self, X: Inputs, Z: Inputs) -> Array:
        """Return k between all rows of X and all rows of Z, in jax.numpy: shape (n, m). For plain arrays, see ``cross``."""
        do = "write block(self, X, Z), which returns k between the rows of X.x and of Z.x in jax.numpy"
        raise fail(self._named(), "the class has no method block", do)

    @property
    def host(self) -> bool:
        """Whether the kernel also has a NumPy implementation, for small problems (see ``covary.kernels.host``)."""
        return False

    def host_block(self, X: Inputs, Z: Inputs) -> np.ndarray:
        """Compute ``block`` in NumPy."""
        raise NotImplementedError

    def host_pull(self, X: Inputs, Z: Inputs, G: np.ndarray) -> tuple[Self, np.ndarray]:
        """Return the gradient of Σ_ij G_ij k(x_i, z_j) with respect to the parameters, as a kernel, and the block.

        Both are computed in NumPy.
        """
        raise NotImplementedError

    def block_diag(self, X: Inputs) -> Array:
        """Return k(x, x) for every row of X, in jax.numpy: shape (n,)."""
        return jax.vmap(lambda x: self.block(*(jax.tree_util.tree_map(lambda v: v[None], x),) * 2)[0, 0])(X)

    def check(self, X: Inputs) -> None:
        """Raise an error if the kernel's parameters do not fit these inputs."""
        who, most = self._named(), self.traits.max_columns
        if self._foreign:
            check_block(self, X)
        if most is not None and X.columns > most:
            what = Option("X") + f" has {counted(X.columns, 'column')} but the kernel is defined on {most}"
            raise fail(who, what, "choose one with .on(column)")
        for f in fields(self):
            value = getattr(self, f.name)
            if f.metadata.get("set") is None or isinstance(value, dict):
                continue
            shape = np.shape(value)
            if shape not in ((), (X.columns,)):
                size = counted(shape[0], "entry", "entries") if len(shape) == 1 else f"shape {shape}"
                what = f"{f.name} has {size} but " + Option("X") + f" has {counted(X.columns, 'column')}"
                raise fail(who, what, "give one number or one per column", argument=f.name)
            if f.metadata["set"] is POSITIVE:
                check_positive(who, f.name, value, zero=self.mark_of(f.name).fixed and f.name == "variance")

    def __call__(self, x: Rows, z: Rows | None = None) -> np.ndarray:
        """Return k at two points of shape (d,), or the matrix K (n, m) of two arrays (n, d) and (m, d), as :meth:`cross` does.

        Examples
        --------
        >>> from covary.kernels import SquaredExponential
        >>> k = SquaredExponential()
        >>> float(k([0.0], [1.0]).round(4)), k([[0.0], [1.0]], [[0.0]]).round(4).tolist()
        (0.6065, [[1.0], [0.6065]])
        """
        if isinstance(x, Inputs) or isinstance(z, Inputs):
            return self.gram(x) if z is None else self.cross(x, z)
        shapes = np.shape(x), np.shape(x if z is None else z)
        if len(shapes[0]) == len(shapes[1]) == 2:
            return self.gram(x) if z is None else self.cross(x, z)
        if z is None or max(map(len, shapes)) > 1:
            what = f"it is called with {shape_words(x)}" + ("" if z is None else f" and {shape_words(z)}")
            raise fail(self._named(), what, "give two points (d,), or tables of rows (n, d) and (m, d)")
        if traced(self, x, z):
            return self.block(Inputs(x[None]), Inputs(z[None]))[0, 0]  # type: ignore  # tracers
        return self.cross(np.atleast_1d(x)[None], np.atleast_1d(z)[None])[0, 0]

    def _of_table(self, *tables: Rows) -> AbstractKernel:
        """Return the kernel with the names of columns replaced by their positions in these tables."""
        from covary.kernels.combine import Columns, placed

        by_name = any(isinstance(k, Columns) and any(isinstance(c, str) for c in k.columns) for k in modules(self))
        if not by_name:
            return self
        headers = [
            [str(name) for name in table.columns]  # type: ignore[union-attr]  # a frame
            for table in tables
            if hasattr(table, "to_numpy") and hasattr(table, "columns")
        ]
        if headers and any(header != headers[0] for header in headers):
            what = Option("X") + " and Z have different columns"
            raise fail(self._named(), what, "give both the same columns, in the same order")
        return placed(self, headers[0], self._named()) if headers else self

    def gram(self, X: Rows) -> np.ndarray:
        """Return the symmetric matrix K(X, X) of shape (n, n).

        Examples
        --------
        >>> from covary.kernels import Matern52
        >>> Matern52().gram([[0.0], [1.0]]).round(6)
        array([[1.      , 0.523994],
               [0.523994, 1.      ]])
        """
        if traced(self, X):
            return self.block(pair(X), pair(X))  # type: ignore[return-value]  # a tracer
        inputs, k = as_inputs(X, f"{self._named()}.gram"), self._of_table(X)
        k.check(inputs)
        return tiles.mirror(tiles.gram_lower(k, inputs))

    def cross(self, X: Rows, Z: Rows) -> np.ndarray:
        """Return the matrix K(X, Z) of shape (n, m)."""
        if traced(self, X, Z):
            return self.block(pair(X), pair(Z))  # type: ignore[return-value]  # a tracer
        who = f"{self._named()}.cross"
        left, right = as_inputs(X, who), as_inputs(Z, who, "Z")
        if left.columns != right.columns:
            what = Option("X") + f" has {counted(left.columns, 'column')} and Z has {right.columns}"
            raise fail(who, what, "give both the same columns")
        k = self._of_table(X, Z)
        k.check(left)
        k.check(right)
        return tiles.cross(k, left, right.with_x(right.x.astype(left.x.dtype)))

    def diag(self, X: Rows) -> np.ndarray:
        """Return k(x, x) for every row of X, without computing the matrix."""
        if traced(self, X):
            return self.block_diag(pair(X))  # type: ignore[return-value]  # a tracer
        inputs, k = as_inputs(X, f"{self._named()}.diag"), self._of_table(X)
        k.check(inputs)
        return tiles.diag(k, inputs)

    def input_gradient(self, X: Rows, Z: Rows) -> np.ndarray:
        r"""Return :math:`\partial k(x_i, z_j)/\partial x_i` of shape (n, m, d), which is cov(∂f(x), f(z)) (R&W, section 9.4).

        Raises an error if the process is not mean-square differentiable.
        """
        who = f"{self._named()}.input_gradient"
        if self.traits.smoothness < 1:
            raise fail(who, "the process is not mean-square differentiable", "choose a smoother kernel, such as Matern32")
        left, right = as_inputs(X, who), as_inputs(Z, who, "Z")
        if left.columns != right.columns:
            what = Option("X") + f" has {counted(left.columns, 'column')} and Z has {right.columns}"
            raise fail(who, what, "give both the same columns")
        self.check(left)
        self.check(right)
        with precision(left.x.dtype):
            return np.asarray(_input_gradient(without_marks(self), left.x, right.x.astype(left.x.dtype)))

    def on(self, *columns: int | str) -> AbstractKernel:
        """Return this kernel on some of the input columns: ``Matern52().on(0, 2)``, or by name in an estimator's kernel."""
        from covary.kernels.combine import Columns

        return Columns(self, columns=columns)

    def __add__(self, other: Operand) -> AbstractKernel:
        return Sum.of(self, as_kernel(other))

    def __radd__(self, other: Operand) -> AbstractKernel:
        return self if isinstance(other, int) and other == 0 else Sum.of(as_kernel(other), self)  # sum() begins with 0

    def __mul__(self, other: Operand) -> AbstractKernel:
        return Product.of(self, other) if isinstance(other, AbstractKernel) else Scaled.of(other, self)

    def __rmul__(self, other: Operand) -> AbstractKernel:
        return Product.of(other, self) if isinstance(other, AbstractKernel) else Scaled.of(other, self)

    def __truediv__(self, other: Operand) -> AbstractKernel:
        if isinstance(other, AbstractKernel | Marked) or np.ndim(other) or isinstance(other, str | bool) or other is None:
            raise fail("kernels", f"a kernel cannot be divided by {shown(other)}", "divide it by one number")
        if not other:
            raise fail("kernels", f"a kernel cannot be divided by {shown(other)}", "divide it by a positive number")
        return Scaled.of(1 / other, self)  # type: ignore[operator]  # a number

    def __pow__(self, exponent: float) -> AbstractKernel:
        whole = isinstance(exponent, int | np.integer | float | np.floating) and exponent == exponent // 1
        if isinstance(exponent, bool) or not whole or not 1 <= exponent <= 64:
            raise fail("kernels", f"the power is {exponent!r}", "give an integer from 1 to 64")
        return Power(self, exponent=int(exponent))

    def __repr__(self) -> str:
        inside = []
        for f in fields(self):
            value = getattr(self, f.name)
            text = repr(value) if f.metadata.get(STATIC) else marked(self, f.name)
            inside.append(f"{f.name}={text}")
        return f"{type(self).__name__}({', '.join(inside)})"


explained_methods(AbstractKernel, lambda kernel: kernel._named(), ("__call__", "gram", "cross", "diag"))


@jax.jit
def _input_gradient(kernel: AbstractKernel, X: Array, Z: Array) -> Array:
    point = jax.grad(lambda x, z: kernel.block(Inputs(x[None]), Inputs(z[None]))[0, 0])
    return jax.vmap(lambda x: jax.vmap(lambda z: point(x, z))(Z))(X)


def as_kernel(value: Operand) -> AbstractKernel:
    """Return a kernel unchanged, and convert a number to the constant kernel of that variance."""
    if isinstance(value, AbstractKernel):
        return value
    check_object("kernels", "a term", value)
    from covary.kernels.dot_product import Constant

    return Scaled.of(value, Constant())


class Sum(AbstractKernel):
    r"""Sum of kernels, :math:`k_1 + k_2 + \dots` (R&W, section 4.2.4), written with ``+``."""

    terms: tuple[AbstractKernel, ...] = child(transparent=True)

    @staticmethod
    def of(*kernels: AbstractKernel) -> Sum:
        """Flatten nested sums into one."""
        flat: list[AbstractKernel] = []
        for kernel in kernels:
            flat += kernel.terms if isinstance(kernel, Sum) else (kernel,)
        return Sum(tuple(flat))

    @property
    def traits(self) -> Traits:
        return together([t.traits for t in self.terms])

    def block(self, X: Inputs, Z: Inputs) -> Array:
        return reduce(operator.add, (term.block(X, Z) for term in self.terms))

    def block_diag(self, X: Inputs) -> Array:
        return reduce(operator.add, (term.block_diag(X) for term in self.terms))

    @property
    def host(self) -> bool:
        return all(term.host for term in self.terms)

    def host_block(self, X: Inputs, Z: Inputs) -> np.ndarray:
        return reduce(operator.iadd, (term.host_block(X, Z) for term in self.terms))

    def host_pull(self, X: Inputs, Z: Inputs, G: np.ndarray) -> tuple[Self, np.ndarray]:
        parts = [term.host_pull(X, Z, G) for term in self.terms]
        return self.replace(terms=tuple(bar for bar, _ in parts)), np.sum([block for _, block in parts], axis=0)

    def check(self, X: Inputs) -> None:
        for term in self.terms:
            term.check(X)

    def __repr__(self) -> str:
        return " + ".join(repr(t) for t in self.terms)


class Product(AbstractKernel):
    r"""Product of kernels, :math:`k_1 k_2 \cdots` (R&W, section 4.2.4), written with ``*``."""

    factors: tuple[AbstractKernel, ...] = child(transparent=True)

    @staticmethod
    def of(*kernels: AbstractKernel) -> AbstractKernel:
        """Flatten nested products into one. The variances of factors without marks become one variance in front."""
        flat: list[AbstractKernel] = []
        variance: np.ndarray | None = None
        for kernel in kernels:
            if isinstance(kernel, Scaled) and not kernel._marks:
                variance = kernel.variance if variance is None else variance * kernel.variance
                kernel = kernel.kernel
            flat += kernel.factors if isinstance(kernel, Product) else (kernel,)
        product = Product(tuple(flat))
        return product if variance is None else Scaled(product, variance=variance)

    @property
    def traits(self) -> Traits:
        return together([f.traits for f in self.factors])

    def block(self, X: Inputs, Z: Inputs) -> Array:
        return reduce(operator.mul, (factor.block(X, Z) for factor in self.factors))

    def block_diag(self, X: Inputs) -> Array:
        return reduce(operator.mul, (factor.block_diag(X) for factor in self.factors))

    @property
    def host(self) -> bool:
        return all(factor.host for factor in self.factors)

    def host_block(self, X: Inputs, Z: Inputs) -> np.ndarray:
        return reduce(operator.imul, (factor.host_block(X, Z) for factor in self.factors))

    def host_pull(self, X: Inputs, Z: Inputs, G: np.ndarray) -> tuple[Self, np.ndarray]:
        blocks = [factor.host_block(X, Z) for factor in self.factors]
        out = []
        for i, factor in enumerate(self.factors):
            rest = G.copy()
            for j, block in enumerate(blocks):
                if j != i:
                    rest *= block
            out.append(factor.host_pull(X, Z, rest)[0])
        return self.replace(factors=tuple(out)), np.prod(blocks, axis=0)

    def check(self, X: Inputs) -> None:
        for factor in self.factors:
            factor.check(X)

    def __repr__(self) -> str:
        return " * ".join(_inside_product(f) for f in self.factors)


class Scaled(AbstractKernel):
    r"""Kernel multiplied by a variance, :math:`\sigma^2 k`, written ``2.0 * k``."""

    kernel: AbstractKernel = child(transparent=True)
    _: KW_ONLY
    variance: Numbers = positive(1.0)

    @staticmethod
    def of(variance: Operand, kernel: AbstractKernel) -> Scaled:
        """Scale a kernel. Nested variances without marks become one."""
        if isinstance(variance, Marked):
            return Scaled(kernel, variance=variance)
        check_object("kernels", "a factor", variance)
        try:
            value = plain(None if isinstance(variance, str | AbstractKernel) else variance)
        except (TypeError, ValueError, OverflowError, CovaryError):
            raise fail("kernels", f"a kernel cannot be combined with {variance!r}", "use kernels and numbers") from None
        if np.shape(value) != ():
            raise fail("kernels", f"the variance has shape {np.shape(value)}", "multiply a kernel by one number")
        if isinstance(kernel, Scaled) and not kernel._marks:
            return Scaled(kernel.kernel, variance=value * kernel.variance)
        return Scaled(kernel, variance=value)

    @property
    def traits(self) -> Traits:
        return self.kernel.traits

    def block(self, X: Inputs, Z: Inputs) -> Array:
        return self.variance * self.kernel.block(X, Z)

    def block_diag(self, X: Inputs) -> Array:
        return self.variance * self.kernel.block_diag(X)

    @property
    def host(self) -> bool:
        return self.kernel.host

    def host_block(self, X: Inputs, Z: Inputs) -> np.ndarray:
        K = self.kernel.host_block(X, Z)
        K *= self.variance
        return K

    def host_pull(self, X: Inputs, Z: Inputs, G: np.ndarray) -> tuple[Self, np.ndarray]:
        bar, block = self.kernel.host_pull(X, Z, self.variance * G)
        slope = np.vdot(G, block)
        return self.replace(kernel=bar, variance=slope), self.variance * block

    def check(self, X: Inputs) -> None:
        self.kernel.check(X)
        if np.shape(self.variance) != ():
            what = f"variance has shape {np.shape(self.variance)}"
            raise fail("kernels.Scaled", what, "give one number", argument="variance")
        check_positive("kernels.Scaled", "variance", self.variance, zero=self.mark_of("variance").fixed)

    def __repr__(self) -> str:
        whole = isinstance(self.kernel, Product) and self._marks
        inner = f"({self.kernel!r})" if whole else _inside_product(self.kernel)
        return f"{marked(self, 'variance')} * {inner}"


class Power(AbstractKernel):
    r"""Integer power of a kernel, :math:`k^p`, written ``k ** p``."""

    kernel: AbstractKernel = child(transparent=True)
    _: KW_ONLY
    exponent: int = static(2)

    @property
    def traits(self) -> Traits:
        return self.kernel.traits

    def block(self, X: Inputs, Z: Inputs) -> Array:
        return self.kernel.block(X, Z) ** self.exponent

    def block_diag(self, X: Inputs) -> Array:
        return self.kernel.block_diag(X) ** self.exponent

    def check(self, X: Inputs) -> None:
        self.kernel.check(X)

    def __repr__(self) -> str:
        inner = repr(self.kernel)
        return (
            f"({inner}) ** {self.exponent}"
            if isinstance(self.kernel, Sum | Product | Scaled | Power)
            else f"{inner} ** {self.exponent}"
        )


def inner_kernels(
    kernel: AbstractKernel | tuple[AbstractKernel, ...],
    columns: int | ArrayLike,
    path: str = "kernel",
    *,
    closed: type | tuple[type, ...] = (),
) -> Iterator[tuple[str, AbstractKernel, np.ndarray]]:
    """Yield every inner kernel that is not a sum, product, power or selection of columns: its path, itself and its columns.

    Parameters
    ----------
    kernel
        A kernel, or a tuple of them.
    columns
        Its input columns: their number, or the columns themselves.
    path
        Its path in the model.
    closed
        Types of kernels whose inner kernels are omitted.

    Examples
    --------
    >>> from covary.kernels import Hamming, Matern52
    >>> for path, part, seen in inner_kernels(2.0 * (Matern52().on(0, 2) * Hamming().on(1)), 3):
    ...     print(path, type(part).__name__, seen)
    kernel.0 Matern52 [0 2]
    kernel.1 Hamming [1]
    """
    from covary.kernels.combine import Columns

    seen = np.arange(columns) if isinstance(columns, int | np.integer) else np.asarray(columns)
    if isinstance(kernel, tuple):
        for i, part in enumerate(kernel):
            yield from inner_kernels(part, seen, f"{path}.{i}", closed=closed)
        return
    if not isinstance(kernel, Sum | Product | Scaled | Power | Columns):
        yield path, kernel, seen
        if isinstance(kernel, closed):
            return
    if isinstance(kernel, Columns):
        seen = seen[list(kernel.columns)] if max(kernel.columns) < len(seen) else seen[:0]  # else reported by its own check
    for _, below, value in children(kernel, path):
        if isinstance(value, AbstractKernel) or (isinstance(value, tuple) and value and isinstance(value[0], AbstractKernel)):
            yield from inner_kernels(value, seen, below, closed=closed)


def _inside_product(kernel: AbstractKernel) -> str:
    return f"({kernel!r})" if isinstance(kernel, Sum | Scaled) else repr(kernel)
