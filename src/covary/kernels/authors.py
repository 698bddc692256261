"""What a kernel of a user's own must do, what every kernel does with tables, and what its arguments are called elsewhere."""

from __future__ import annotations

from functools import wraps
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from covary._checks import CovaryError, fail
from covary._module import without_marks
from covary._precision import precision
from covary.data import Inputs

ELSEWHERE = {  # what the arguments of kernels are called by other packages
    "variance": "multiply the kernel by it, as in 2.0 * Matern52()",
    "outputscale": "multiply the kernel by it, as in 2.0 * Matern52()",
    "sigma": "multiply the kernel by the variance, as in sigma**2 * Matern52()",
    "length_scale": "lengthscale",
    "lengthscales": "lengthscale",
    "ls": "lengthscale",
    "l": "lengthscale",
    "length_scale_bounds": "write lengthscale=bounded(1.0, 0.1, 10.0)",
    "periodicity": "period",
    "period_length": "period",
    "active_dims": "choose columns with .on(0, 2)",
    "ARD": "give one length-scale per column, as in lengthscale=[1.0, 1.0]",
    "ard_num_dims": "give one length-scale per column, as in lengthscale=[1.0, 1.0]",
    "input_dim": "leave it out: the table says how many columns there are",
}


def traced(*trees: Any) -> bool:
    """Whether a tracer of JAX is among these."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree_util.tree_leaves(trees))


def pair(X: Any) -> Inputs:
    """Inputs as they are, or of an array."""
    return X if isinstance(X, Inputs) else Inputs(X)


def shape_words(x: Any) -> str:
    """The shape of what a kernel was asked at."""
    shape = np.shape(x)
    return "one number" if not shape else f"an array of shape {shape}"


def of_tables(block: Any) -> Any:
    """A ``block`` that also takes plain tables, which go the way of ``cross``."""

    @wraps(block)
    def taken(self: Any, X: Any, Z: Any) -> Any:
        if isinstance(X, Inputs) and isinstance(Z, Inputs):
            return block(self, X, Z)
        return block(self, pair(X), pair(Z)) if traced(self, X, Z) else self.cross(X, Z)

    return taken


def check_block(kernel: Any, X: Inputs) -> None:
    """Refuse a user's own ``block`` that is not written in jax.numpy, or gives another shape."""
    few = [jax.tree_util.tree_map(lambda v, n=n: jax.ShapeDtypeStruct((n, *np.shape(v)[1:]), v.dtype), X) for n in (3, 2)]
    try:
        with precision(X.x.dtype):
            found = jax.eval_shape(lambda k, a, b: k.block(a, b), without_marks(kernel), *few)
    except CovaryError:
        raise
    except jax.errors.TracerArrayConversionError:
        what = "block uses NumPy, through which no gradient passes"
        raise fail(kernel._named(), what, "write it with jax.numpy (import jax.numpy as jnp)") from None
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        what = f"block fails ({reason[:200]})"
        do = "it is given X.x (n, d) and Z.x (m, d), and returns k between their rows in jax.numpy"
        raise fail(kernel._named(), what, do) from error
    if getattr(found, "shape", None) != (3, 2):
        shape = getattr(found, "shape", None)
        what = f"block returns {'no array' if shape is None else f'shape {shape}'} for 3 rows and 2"
        raise fail(kernel._named(), what, "return k between every row of X and every row of Z: (3, 2)")
