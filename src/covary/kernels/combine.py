"""Kernels that wrap kernels: on some of the columns, tensor products, from a plain function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from typing import Any

import jax
import numpy as np

from covary._checks import fail
from covary._module import child, static
from covary._words import counted
from covary.data import Inputs
from covary.kernels.base import AbstractKernel, Product, Traits, number, with_mark
from covary.parameters import POSITIVE, named


def _indices(columns: Any) -> tuple[int, ...]:
    many = (columns,) if isinstance(columns, int | np.integer) else tuple(columns)
    if not many or any(isinstance(c, bool) or not isinstance(c, int | np.integer) or c < 0 for c in many):
        raise fail("kernels.Columns", f"columns is {columns!r}", "give column numbers, counted from 0")
    return tuple(int(c) for c in many)


class Columns(AbstractKernel):
    r"""A kernel on some of the input columns; written ``kernel.on(0, 2)``.

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
    columns: Any = static(convert=_indices)

    @property
    def traits(self) -> Traits:
        inner = self.kernel.traits
        return Traits(inner.stationary, inner.smoothness)

    def _inner(self, X: Inputs) -> Inputs:
        return X.with_x(X.x[:, list(self.columns)])

    def check(self, X: Inputs) -> None:
        if max(self.columns) >= X.columns:
            raise fail(
                "kernels.Columns",
                f"column {max(self.columns)} is asked for but X has {counted(X.columns, 'column')} (0 to {X.columns - 1})",
                "choose columns that exist",
            )
        self.kernel.check(self._inner(X))

    def block(self, X: Inputs, Z: Inputs) -> Any:
        return self.kernel.block(self._inner(X), self._inner(Z))

    def block_diag(self, X: Inputs) -> Any:
        return self.kernel.block_diag(self._inner(X))

    @property
    def host(self) -> bool:
        return self.kernel.host

    def host_block(self, X: Inputs, Z: Inputs) -> np.ndarray:
        return self.kernel.host_block(self._inner(X), self._inner(Z))

    def host_pull(self, X: Inputs, Z: Inputs, G: np.ndarray) -> tuple[Any, np.ndarray]:
        bar, block = self.kernel.host_pull(self._inner(X), self._inner(Z), G)
        return self.replace(kernel=bar), block

    def __repr__(self) -> str:
        return f"Columns({self.kernel!r}, columns={list(self.columns)})"


def tensor(*parts: tuple[AbstractKernel, Sequence[int] | int]) -> AbstractKernel:
    r"""The tensor product :math:`k_1(x_{A}, x'_{A})\, k_2(x_{B}, x'_{B}) \cdots` over sets of columns (R&W, section 4.2.4).

    Examples
    --------
    >>> from covary.kernels import Matern12, SquaredExponential
    >>> k = tensor((Matern12(), 0), (SquaredExponential(), [1, 2]))
    >>> k.gram([[0.0, 1.0, 2.0]])
    array([[1.]])
    """
    return Product.of(*(Columns(kernel, columns=columns) for kernel, columns in parts))


class Function(AbstractKernel):
    r"""A kernel from any plain function of two points.

    ``f(x, z, **parameters)`` takes two arrays of shape (d,) and returns one number, written with ``jax.numpy``. Named
    positive parameters are learned like any other. That f is symmetric and positive semi-definite is the author's word:
    ``factor`` fails with a sentence where it is not.

    Parameters
    ----------
    function
        The function of two points.
    parameters
        Positive starting values by name, handed to the function by keyword.
    smoothness
        How often the process is mean-square differentiable, if known.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> def laplacian(x, z, scale): return jnp.exp(-jnp.abs(x - z).sum() / scale)
    >>> round(float(Function(laplacian, parameters={"scale": 2.0})([0.0], [1.0])), 6)
    0.606531
    """

    function: Callable[..., Any] = static()
    _: KW_ONLY
    parameters: dict[str, Any] = named(POSITIVE)
    smoothness: float = static(0)

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=self.smoothness)

    def block(self, X: Inputs, Z: Inputs) -> Any:
        def at(x: Any, z: Any) -> Any:
            return self.function(x, z, **self.parameters)

        return jax.vmap(lambda x: jax.vmap(lambda z: at(x, z))(Z.x))(X.x)

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", "function")
        inside = "".join(f", {key}={with_mark(number(v), self.mark_of(key))}" for key, v in self.parameters.items())
        inside += f", smoothness={self.smoothness!r}" if self.smoothness else ""
        return f"Function({name}{inside})"
