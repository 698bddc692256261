"""Kernels on categories: columns that hold the codes 0, 1, 2, ... of what a row is.

They say how alike categories are and nothing about order or distance. Combine them with kernels on other columns:
``Matern52().on(0) * Categories(4).on(1)`` is one function of column 0 for each of four categories, correlated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any

import jax.numpy as jnp
import numpy as np

from covary._checks import check_finite, fail
from covary._module import Module, static
from covary._words import counted
from covary.data import Inputs
from covary.kernels.base import AbstractKernel, Traits, enough_room, size
from covary.kernels.structure import fold
from covary.parameters import positive, real, unit_interval


def _check_codes(who: str, X: Inputs, levels: int | None = None) -> None:
    """Refuse what is no code: 0, 1, 2, ..., below the number of levels where it is known."""
    x = np.asarray(X.x)
    bad = (x < 0) | (x != np.floor(x)) | (x >= (np.inf if levels is None else levels))
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        allowed = "0, 1, 2, ..." if levels is None else f"0 to {levels - 1}"
        raise fail(who, f"X is {x[row, column]} at row {row}, column {column}", f"give the codes {allowed} of categories")


def _whole(who: str, name: str, value: Any, least: int, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        upper = "" if np.isinf(most) else f" and at most {most}"
        raise fail(who, f"{name} is {value!r}", f"give a whole number of at least {least}{upper}")


class Hamming(AbstractKernel):
    r"""Kernel of the number of columns in which two rows differ.

    .. math:: k(x, x') = \exp\Bigl(-\sum_k [x_k \ne x'_k]/\ell_k\Bigr)

    Valid for any number of categories. With one column it is :class:`Exchangeable` with correlation
    :math:`e^{-1/\ell}`; with one length-scale it is the exponential of the Hamming distance.

    Parameters
    ----------
    lengthscale
        Positive: one number, or one per column; a large one says that a column matters little.

    Examples
    --------
    >>> round(float(Hamming(2.0)([0.0, 1.0, 4.0], [0.0, 2.0, 3.0])), 6)
    0.367879
    """

    lengthscale: Any = positive(1.0)

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=0)

    def check(self, X: Inputs) -> None:
        AbstractKernel.check(self, X)
        _check_codes("kernels.Hamming", X)

    def block(self, X: Inputs, Z: Inputs) -> Any:
        weight = jnp.broadcast_to(1 / jnp.asarray(self.lengthscale), (X.columns,))

        def step(total: Any, part: Any) -> Any:
            w, x, z = part
            return total + w * (x[:, None] != z[None, :])

        return jnp.exp(-fold(step, jnp.zeros((X.rows, Z.rows), X.x.dtype), (weight, X.x.T, Z.x.T)))

    def block_diag(self, X: Inputs) -> Any:
        return jnp.ones(X.rows, X.x.dtype)


class Exchangeable(AbstractKernel):
    r"""Categories that are all equally alike (compound symmetry).

    .. math:: k(x, x') = 1 \text{ if } x = x', \quad \rho \text{ otherwise}

    Group effects with an effect common to all; one input column.

    Parameters
    ----------
    correlation
        ρ, learned between 0 and 1. A negative one, down to −1/(C − 1) for C categories, can be held: ``fixed(-0.2)``.
    levels
        C, the number of categories, if known: codes are then checked, and a negative correlation allowed. Not learned.

    Examples
    --------
    >>> Exchangeable(0.3)([1.0], [2.0]).round(6)
    np.float64(0.3)
    """

    correlation: Any = unit_interval(0.5)
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
            below = f"{lowest:g}" if lowest < 0 else "0 (below it, hold it with fixed(...) and give levels)"
            raise fail(who, f"correlation is {self.correlation}", f"give one number from {below} to 1")

    def block(self, X: Inputs, Z: Inputs) -> Any:
        return jnp.where(X.x[:, 0][:, None] == Z.x[:, 0][None, :], 1.0, jnp.asarray(self.correlation, X.x.dtype))

    def block_diag(self, X: Inputs) -> Any:
        return jnp.ones(X.rows, X.x.dtype)


class Categories(AbstractKernel):
    r"""Categories with a learned correlation matrix of low rank.

    .. math:: k(c, c') = \frac{\delta_{cc'} + l_c \cdot l_{c'}}{\sqrt{(1 + |l_c|^2)(1 + |l_{c'}|^2)}}

    The matrix :math:`L L^\top + I` scaled to a diagonal of one. An intrinsic coregionalisation model has
    :math:`L L^\top + \mathrm{diag}(v)`; its C variances are left out here, since kernels carry none, and with them the scale
    of each row of L, so that every number means something. Rank C − 1 or less; one input column.

    Parameters
    ----------
    levels
        C, the number of categories (structure: not learned).
    rank
        How many columns L has (structure: not learned).
    factor
        L, of shape (levels, rank). One number stands for a matrix of waves of that height, the first column constant:
        all categories equally alike to begin with, and no column zero, from where nothing could be learned.

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
    factor: Any = real(1.0)

    @classmethod
    def makes(cls, given: Mapping[str, Any]) -> float:
        return 0 if np.ndim(given["factor"]) else size(given["levels"]) * size(given["rank"])

    def __post_init__(self) -> None:
        Module.__post_init__(self)
        if np.ndim(self.factor) == 0:
            enough_room(self)
            c, r = np.arange(self.levels)[:, None], np.arange(self.rank)[None, :]
            object.__setattr__(self, "factor", self.factor * np.cos(np.pi * r * (c + 0.5) / self.levels))

    @property
    def traits(self) -> Traits:
        return Traits(smoothness=0, max_columns=1)

    def check(self, X: Inputs) -> None:
        who = "kernels.Categories"
        if X.columns != 1:
            raise fail(
                who, f"X has {counted(X.columns, 'column')} but the kernel is defined on 1", "choose one with .on(column)"
            )
        _whole(who, "levels", self.levels, 2, np.inf)
        _whole(who, "rank", self.rank, 1, self.levels)
        if np.shape(self.factor) != (self.levels, self.rank):
            raise fail(who, f"factor has shape {np.shape(self.factor)}", f"give ({self.levels}, {self.rank})")
        check_finite(who, "factor", np.asarray(self.factor))
        _check_codes(who, X, self.levels)

    def block(self, X: Inputs, Z: Inputs) -> Any:
        own = 1 / (1 + (jnp.asarray(self.factor) ** 2).sum(1))
        unit = self.factor * jnp.sqrt(own)[:, None]
        x, z = (V.x[:, 0].astype(jnp.int32) for V in (X, Z))
        return unit[x] @ unit[z].T + jnp.where(x[:, None] == z[None, :], own[x][:, None], 0.0)

    def block_diag(self, X: Inputs) -> Any:
        return jnp.ones(X.rows, X.x.dtype)
