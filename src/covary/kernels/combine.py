"""Kernels on some of the columns, tensor products, and kernels from a plain function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, fields
from difflib import get_close_matches
from typing import Any, Self

import jax
import numpy as np

from covary._checks import fail, shown
from covary._errors import Option
from covary._module import STATIC, Module, child, static
from covary._types import Array
from covary._words import counted
from covary.data import Inputs
from covary.kernels.base import AbstractKernel, Product, Traits, number, with_mark
from covary.parameters import POSITIVE, named


def _places(columns: int | str | Iterable[int | str]) -> tuple[int | str, ...]:
    """Convert columns given by index or by name to a tuple."""
    many = (columns,) if isinstance(columns, int | np.integer | str) else tuple(columns)
    if len(many) == 1 and isinstance(many[0], list | tuple):  # .on([0, 2])
        many = tuple(many[0])
    known = [isinstance(c, str) or (isinstance(c, int | np.integer) and not isinstance(c, bool) and c >= 0) for c in many]
    if not many or not all(known):
        what = f"columns is {columns!r}"
        raise fail("kernels.Columns", what, "give numbers of columns, counted from 0, or their names", argument="columns")
    return tuple(c if isinstance(c, str) else int(c) for c in many)


class Columns(AbstractKernel):
    r"""Kernel on some of the input columns, written ``kernel.on(0, 2)``, or ``kernel.on("depth")`` in an estimator.

    Parameters
    ----------
    kernel
        The kernel.
    columns
        Column indices, counted from 0, or names, which the estimators look up in the table passed to ``fit``.

    References
    ----------
    Rasmussen & Williams (2006), section 4.2.4 (direct sums and tensor products over sub-inputs).

    Examples
    --------
    >>> from covary.kernels import Matern52, Periodic
    >>> Matern52().on(0) * Periodic().on(1)
    Columns(Matern52(lengthscale=1.0), columns=[0]) * Columns(Periodic(lengthscale=1.0, period=1.0), columns=[1])
    """

    kernel: AbstractKernel = child(transparent=True)
    _: KW_ONLY
    columns: Any = static(convert=_places)

    @property
    def traits(self) -> Traits:
        inner = self.kernel.traits
        return Traits(inner.stationary, inner.smoothness)

    def _inner(self, X: Inputs) -> Inputs:
        return X.with_x(X.x[:, list(self.columns)])

    def check(self, X: Inputs) -> None:
        names = [c for c in self.columns if isinstance(c, str)]
        if names:
            what = f"column {shown(names[0])} is given by name, but the inputs have no names"
            raise fail("kernels.Columns", what, "give its number, counted from 0")
        if max(self.columns) >= X.columns:
            raise fail(
                "kernels.Columns",
                f"column {max(self.columns)} is requested but "
                + Option("X")
                + f" has {counted(X.columns, 'column')} (0 to {X.columns - 1})",
                "choose columns that exist",
            )
        self.kernel.check(self._inner(X))

    def block(self, X: Inputs, Z: Inputs) -> Array:
        return self.kernel.block(self._inner(X), self._inner(Z))

    def block_diag(self, X: Inputs) -> Array:
        return self.kernel.block_diag(self._inner(X))

    @property
    def host(self) -> bool:
        return self.kernel.host

    def host_block(self, X: Inputs, Z: Inputs) -> np.ndarray:
        return self.kernel.host_block(self._inner(X), self._inner(Z))

    def host_pull(self, X: Inputs, Z: Inputs, G: np.ndarray) -> tuple[Self, np.ndarray]:
        bar, block = self.kernel.host_pull(self._inner(X), self._inner(Z), G)
        return self.replace(kernel=bar), block

    def __repr__(self) -> str:
        return f"Columns({self.kernel!r}, columns={list(self.columns)})"


def placed(kernel: Any, names: Sequence[str] | None, who: str) -> Any:
    """Return the kernel with the names of columns replaced by their positions in a table.

    Examples
    --------
    >>> from covary.kernels import Matern52
    >>> placed(2.0 * Matern52().on("b"), ["a", "b"], "example")
    2.0 * Columns(Matern52(lengthscale=1.0), columns=[1])
    """
    if isinstance(kernel, tuple):
        return tuple(placed(item, names, who) for item in kernel)
    if not isinstance(kernel, Module):
        return kernel
    inner = {f.name: getattr(kernel, f.name) for f in fields(kernel) if not f.metadata.get(STATIC)}
    changes = {name: placed(value, names, who) for name, value in inner.items() if isinstance(value, Module | tuple)}
    if isinstance(kernel, Columns):
        changes["columns"] = [_number(c, names, who) for c in kernel.columns]
    return kernel.replace(**changes) if changes else kernel


def _number(column: int | str, names: Sequence[str] | None, who: str) -> int:
    """Return the position of a column."""
    if isinstance(column, int):
        return column
    if names is None:
        what = f"the kernel uses column {column!r} but " + Option("X") + " has no names"
        raise fail(who, what, "give its number, counted from 0")
    if column not in names:
        near = get_close_matches(column, names, 1)
        do = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(map(repr, names))}"
        raise fail(who, f"the kernel uses column {column!r} but " + Option("X") + " has no such column", do)
    return list(names).index(column)


def tensor(*parts: tuple[AbstractKernel, Sequence[int] | int]) -> AbstractKernel:
    r"""Return the tensor product :math:`k_1(x_{A}, x'_{A})\, k_2(x_{B}, x'_{B}) \cdots` over sets of columns.

    See R&W, section 4.2.4.

    Examples
    --------
    >>> from covary.kernels import Matern12, SquaredExponential
    >>> k = tensor((Matern12(), 0), (SquaredExponential(), [1, 2]))
    >>> k.gram([[0.0, 1.0, 2.0]])
    array([[1.]])
    """
    return Product.of(*(Columns(kernel, columns=columns) for kernel, columns in parts))


class Function(AbstractKernel):
    r"""Kernel from a function of two points.

    ``f(x, z, **parameters)`` takes two arrays of shape (d,) and returns one number, written with ``jax.numpy``. Named
    positive parameters are learned like any other. The function must be symmetric and positive semi-definite; this is not
    checked, but factorising the covariance matrix raises an error if it is not positive definite.

    Parameters
    ----------
    function
        The function of two points.
    parameters
        Positive starting values by name, passed to the function by keyword.
    smoothness
        The number of times the process is mean-square differentiable, if known.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> def laplacian(x, z, scale): return jnp.exp(-jnp.abs(x - z).sum() / scale)
    >>> round(float(Function(laplacian, parameters={"scale": 2.0})([0.0], [1.0])), 6)
    0.606531
    """

    function: Callable[..., Array] = static()
    _: KW_ONLY
    parameters: dict[str, np.ndarray] = named(POSITIVE)
    smoothness: float = static(0)

    @property
    def _foreign(self) -> bool:
        return True

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=self.smoothness)

    def block(self, X: Inputs, Z: Inputs) -> Array:
        def at(x: Array, z: Array) -> Array:
            return self.function(x, z, **self.parameters)

        return jax.vmap(lambda x: jax.vmap(lambda z: at(x, z))(Z.x))(X.x)

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", "function")
        inside = "".join(f", {key}={with_mark(number(v), self.mark_of(key))}" for key, v in self.parameters.items())
        inside += f", smoothness={self.smoothness!r}" if self.smoothness else ""
        return f"Function({name}{inside})"
