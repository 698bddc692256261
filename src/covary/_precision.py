"""Settings of JAX: scoped precision, in which every function computes in the precision of its data, and the cache."""

from __future__ import annotations

import os
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


def enable_cache(directory: str | None = None) -> str:
    """Cache compiled code on disk, so that a new process need not compile it again. Sets JAX's global flags.

    Parameters
    ----------
    directory
        The cache directory; by default ``~/.cache/covary``.
    """
    from covary._write import make_folder

    directory = directory or os.path.join(os.path.expanduser("~"), ".cache", "covary")
    make_folder(directory, "enable_cache", argument="directory")
    jax.config.update("jax_compilation_cache_dir", directory)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return directory
