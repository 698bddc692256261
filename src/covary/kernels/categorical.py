"""Kernels on categories: columns that contain the codes 0, 1, 2, ... of the categories.

They describe how similar categories are, without an order or a distance. Combine them with kernels on other columns:
``Matern52().on(0) * Categories(4).on(1)`` models four correlated functions of column 0, one for each category.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any

import jax.numpy as jnp
import numpy as np

from covary._checks import check_finite, fail
from covary._errors import Option, Place
from covary._memory import check_memory
from covary._module import Module, Numbers, static
from covary._types import Array
from covary._words import counted
from covary.data import Inputs
from covary.kernels.base import AbstractKernel, Operand, Traits, size
from covary.kernels.structure import fold
from covary.parameters import positive, real, unit_interval


def _check_codes(who: str, X: Inputs, levels: int | None = None) -> None:
    """Raise an error if an entry is not a code: 0, 1, 2, ..., below the number of levels if it is known."""
    x = np.asarray(X.x)
    bad = (x < 0) | (x != np.floor(x)) | (x >= (np.inf if levels is None else levels))
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        allowed = "0, 1, 2, ..." if levels is None else f"0 to {levels - 1}"
        raise fail(who, Option("X") + f" is {x[row, column]} " + Place(row, column), f"give the codes {allowed} of categories")


def _whole(who: str, name: str, value: Any, least: int, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        upper = "" if np.isinf(most) else f" and at most {most}"
        raise fail(who, f"{name} is {value!r}", f"give an integer of at least {least}{upper}", argument=name)


class Hamming(AbstractKernel):
    r"""Kernel of the number of columns in which two rows differ.

    .. math:: k(x, x') = \exp\Bigl(-\sum_k [x_k \ne x'_k]/\ell_k\Bigr)

    Valid for any number of categories. With one column it is :class:`Exchangeable` with correlation
    :math:`e^{-1/\ell}`; with one length-scale it is the exponential of the Hamming distance.

    Parameters
    ----------
    lengthscale
        Positive: one number, or one per column. The larger it is, the less the column matters.

    Examples
    --------
    >>> round(float(Hamming(2.0)([0.0, 1.0, 4.0], [0.0, 2.0, 3.0])), 6)
    0.367879
    """

    lengthscale: Numbers = positive(1.0)

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=0)

    def check(self, X: Inputs) -> None:
        AbstractKernel.check(self, X)
        _check_codes("kernels.Hamming", X)

    def block(self, X: Inputs, Z: Inputs) -> Array:
        weight = jnp.broadcast_to(1 / jnp.asarray(self.lengthscale), (X.columns,))

        def step(total: Array, part: tuple[Array, Array, Array]) -> Array:
            w, x, z = part
            return total + w * (x[:, None] != z[None, :])

        return jnp.exp(-fold(step, jnp.zeros((X.rows, Z.rows), X.x.dtype), (weight, X.x.T, Z.x.T)))

    def block_diag(self, X: Inputs) -> Array:
        return jnp.ones(X.rows, X.x.dtype)


class Exchangeable(AbstractKernel):
    r"""Kernel of equally similar categories (compound symmetry).

    .. math:: k(x, x') = 1 \text{ if } x = x', \quad \rho \text{ otherwise}

    Group effects plus an effect common to all groups. It takes one input column.

    Parameters
    ----------
    correlation
        ρ, learned between 0 and 1. A negative one, down to −1/(C − 1) for C categories, must be fixed: ``fixed(-0.2)``.
    levels
        C, the number of categories (not learned). If given, the codes are checked and a negative correlation is allowed.

    Examples
    --------
    >>> Exchangeable(0.3)([1.0], [2.0]).round(6)
    np.float64(0.3)
    """

    correlation: Numbers = unit_interval(0.5)
    _: KW_ONLY
    levels: int | None = static(None)

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=0, max_columns=1)

    def check(self, X: Inputs) -> None:
        AbstractKernel.check(self, X)
        who = "kernels.Exchangeable"
        if self.levels is not None:
            _whole(who, "levels", self.levels, 2, np.inf)
        _check_codes(who, X, self.levels)
        held = self.mark_of("correlation").fixed
        lowest = -1 / (self.levels - 1) if held and self.levels is not None else 0.0
        if np.shape(self.correlation) != () or not lowest <= self.correlation <= 1:
            below = f"{lowest:g}" if lowest < 0 else "0 (for a negative one, use fixed(...) and give levels)"
            raise fail(who, f"correlation is {self.correlation}", f"give one number from {below} to 1", argument="correlation")

    def block(self, X: Inputs, Z: Inputs) -> Array:
        return jnp.where(X.x[:, 0][:, None] == Z.x[:, 0][None, :], 1.0, jnp.asarray(self.correlation, X.x.dtype))

    def block_diag(self, X: Inputs) -> Array:
        return jnp.ones(X.rows, X.x.dtype)


class Categories(AbstractKernel):
    r"""Kernel of categories with a learned correlation matrix of low rank.

    .. math:: k(c, c') = \frac{\delta_{cc'} + l_c \cdot l_{c'}}{\sqrt{(1 + |l_c|^2)(1 + |l_{c'}|^2)}}

    This is the matrix :math:`L L^\top + I`, scaled to a diagonal of one. An intrinsic coregionalisation model has
    :math:`L L^\top + \mathrm{diag}(v)`. Its C variances are omitted here, since kernels have no variance, and with them the
    scale of each row of L, so that every parameter is identifiable. The rank is C − 1 at most. It takes one input column.

    Parameters
    ----------
    levels
        C, the number of categories (not learned).
    rank
        The number of columns of L (not learned).
    factor
        L, of shape (levels, rank). One number gives a matrix of cosines of that amplitude whose first column is constant:
        all categories start equally similar, and no column starts at zero, where its gradient would vanish.

    References
    ----------
    Bonilla, Chai & Williams (2008), *Multi-task Gaussian process prediction*, for the low-rank form.

    Examples
    --------
    >>> Categories(3, factor=[[1.0], [1.0], [-1.0]]).gram([[0.0], [1.0], [2.0]])
    array([[ 1. ,  0.5, -0.5],
           [ 0.5,  1. , -0.5],
           [-0.5, -0.5,  1. ]])
    """

    levels: int = static(2)
    _: KW_ONLY
    rank: int = static(1)
    factor: Numbers = real(1.0)

    @classmethod
    def makes(cls, given: Mapping[str, Operand]) -> float:
        return 0 if np.ndim(given["factor"]) else size(given["levels"]) * size(given["rank"])  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        Module.__post_init__(self)
        if np.ndim(self.factor) == 0:
            if (count := self.makes(vars(self))) > 2**17:
                check_memory("kernels.Categories", int(min(32 * count, 2**80)), "give smaller integers")
            c, r = np.arange(self.levels)[:, None], np.arange(self.rank)[None, :]
            object.__setattr__(self, "factor", self.factor * np.cos(np.pi * r * (c + 0.5) / self.levels))

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=0, max_columns=1)

    def check(self, X: Inputs) -> None:
        who = "kernels.Categories"
        if X.columns != 1:
            what = Option("X") + f" has {counted(X.columns, 'column')} but the kernel is defined on 1"
            raise fail(who, what, "choose one with .on(column)")
        _whole(who, "levels", self.levels, 2, np.inf)
        _whole(who, "rank", self.rank, 1, self.levels)
        if np.shape(self.factor) != (self.levels, self.rank):
            what = f"factor has shape {np.shape(self.factor)}"
            raise fail(who, what, f"give ({self.levels}, {self.rank})", argument="factor")
        check_finite(who, "factor", np.asarray(self.factor))
        _check_codes(who, X, self.levels)

    def block(self, X: Inputs, Z: Inputs) -> Array:
        own = 1 / (1 + (jnp.asarray(self.factor) ** 2).sum(1))
        unit = self.factor * jnp.sqrt(own)[:, None]
        x, z = (V.x[:, 0].astype(jnp.int32) for V in (X, Z))
        return unit[x] @ unit[z].T + jnp.where(x[:, None] == z[None, :], own[x][:, None], 0.0)

    def block_diag(self, X: Inputs) -> Array:
        return jnp.ones(X.rows, X.x.dtype)
