"""Type aliases for annotations only.

They are strings at run time, so that annotating an array requires no import of NumPy or JAX. Write
``from covary._types import Array`` and combine them inside annotations (``Array | None``), not in expressions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import jax
    import numpy as np
    from numpy import typing as npt

Array: TypeAlias = "np.ndarray | jax.Array"
"""An array of NumPy (on the host) or of JAX (in compiled code). Code for only one of them uses the specific type."""

ArrayLike: TypeAlias = "npt.ArrayLike | jax.Array"
"""Anything that can be converted to an array: numbers, lists, arrays, DataFrames."""

DTypeLike: TypeAlias = "npt.DTypeLike"
"""Anything that specifies a dtype: ``np.float64``, ``"float32"``."""

Seed: TypeAlias = "int | np.integer | np.random.Generator | np.random.RandomState | None"
"""A seed or a random number generator."""

Nested: TypeAlias = "float | tuple[Nested, ...]"
"""An array as static structure: nested tuples of numbers."""

Parts: TypeAlias = "int | slice | np.ndarray"
"""A selection of rows: an index, a slice, or an array of indices or booleans."""
