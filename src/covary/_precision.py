"""The precision scope: every verb computes in the precision of its data, whatever JAX's global flag says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np


@contextmanager
def precision(dtype: Any) -> Iterator[None]:
    """Compute in 64 bit (or not) inside the block only; the flag is local to the thread and put back at the end."""
    with jax.enable_x64(np.dtype(dtype).itemsize == 8):
        yield


def cast(tree: Any, dtype: Any) -> Any:
    """The same tree with every floating array in ``dtype``; tracers and NumPy arrays alike."""

    def convert(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array):
            return leaf.astype(dtype)
        array = np.asarray(leaf)
        return array.astype(dtype) if np.issubdtype(array.dtype, np.floating) else array

    return jax.tree_util.tree_map(convert, tree)
