"""Scoped precision: every function computes in the precision of its data, independently of JAX's global flag."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax.core import Tracer


@contextmanager
def precision(dtype: Any) -> Iterator[None]:
    """Enable or disable 64-bit computation inside the block. The flag is local to the thread and restored at the end."""
    with jax.enable_x64(np.dtype(dtype).itemsize == 8):
        yield


def cast(tree: Any, dtype: Any) -> Any:
    """Return a copy of a tree with every floating-point array, traced or not, converted to ``dtype``."""

    def convert(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array):
            return leaf.astype(dtype)
        array = np.asarray(leaf)
        return array.astype(dtype) if np.issubdtype(array.dtype, np.floating) else array

    return jax.tree_util.tree_map(convert, tree)


def traced(*trees: Any) -> bool:
    """Return whether any leaf of these trees is a JAX tracer."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree_util.tree_leaves(trees))
