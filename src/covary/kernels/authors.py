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
ELSEWHERE_IN_CALLS = {  # ... and those of k(X, Z)
    "Y": "z",
    "X2": "z",
    "x2": "z",
    "x1": "x",
    "eval_gradient": "leave it out: jax.grad differentiates k",
    "diag": "write k.diag(X)",
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
    """Refuse a ``block`` of a user's own, or one that runs a user's function, if it fails or gives another shape."""
    few = [jax.tree_util.tree_map(lambda v, n=n: jax.ShapeDtypeStruct((n, *np.shape(v)[1:]), v.dtype), X) for n in (3, 2)]
    do = "it is given X.x (n, d) and Z.x (m, d), and returns k between their rows in jax.numpy"
    what = "block" if "function" not in vars(kernel) else "the function"
    if what != "block":
        do = "see its documentation for what it is given and returns, in jax.numpy"
    shape = traced_shape(kernel._named(), what, do, lambda k, a, b: k.block(a, b), without_marks(kernel), *few)
    if shape != (3, 2):
        said = f"{what} returns {'no array' if shape is None else f'shape {shape}'} for 3 rows and 2"
        raise fail(kernel._named(), said, "return k between every row of X and every row of Z: (3, 2)")


def traced_shape(who: str, what: str, do: str, call: Any, *args: Any) -> Any:
    """The shape that code of a user's own gives under JAX, None if no array; what it raises becomes one sentence."""
    kinds = [leaf.dtype for leaf in jax.tree_util.tree_leaves(args[1:])]
    try:
        with precision(kinds[0]):
            found = jax.eval_shape(call, *args)
    except CovaryError:
        raise
    except jax.errors.TracerArrayConversionError:
        said = f"{what} uses NumPy, through which no gradient passes"
        raise fail(who, said, "write it with jax.numpy (import jax.numpy as jnp)") from None
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise fail(who, f"{what} fails ({reason[:200]})", do) from error
    return getattr(found, "shape", None)


KERNELS = {  # what kernels are called by other packages
    "WhiteKernel": "noise belongs to the estimator: GPRegressor(noise=...)",
    "White": "noise belongs to the estimator: GPRegressor(noise=...)",
    "ConstantKernel": "write a number: 2.0 * Matern52()",
    "ScaleKernel": "write a number: 2.0 * Matern52()",
    "Bias": "write Constant()",
    "ExpSineSquared": "write Periodic()",
    "PeriodicKernel": "write Periodic()",
    "StdPeriodic": "write Periodic()",
    "DotProduct": "write Linear() + Constant()",
    "RBFKernel": "write SquaredExponential()",
    "ExpQuad": "write SquaredExponential()",
    "MaternKernel": "write Matern52()",
    "Exponential": "write Matern12()",
    "RatQuad": "write RationalQuadratic()",
    "Coregion": "write Categories(levels)",
    "Coregionalize": "write Categories(levels)",
}
ATTRIBUTES = {  # what is asked of kernels of other packages
    "K": "write k(X, Z)",
    "Kdiag": "write k.diag(X)",
    "K_diag": "write k.diag(X)",
    "length_scale": "write k.lengthscale",
    "lengthscales": "write k.lengthscale",
    "variance": "kernels carry none of their own: 2.0 * Matern52() has one",
    "theta": "covary.parameters.parameters(k) lists the numbers",
    "hyperparameters": "covary.parameters.parameters(k) lists the numbers",
    "get_params": "covary.parameters.parameters(k) lists the numbers",
    "set_params": "write k.replace(lengthscale=2.0)",
    "plot": "write covary.plots.plot_kernel(k)",
}
