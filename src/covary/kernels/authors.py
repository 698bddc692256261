"""Checks of user-defined kernels, kernel calls with plain arrays, and argument names of other packages."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from covary._checks import CovaryError, fail, is_traced
from covary._errors import Option, Remedy, Text
from covary._module import Module, without_marks
from covary._precision import precision, traced
from covary._types import Array, ArrayLike
from covary._words import counted
from covary.data import Inputs, Rows

if TYPE_CHECKING:
    from covary.kernels.base import AbstractKernel

ELSEWHERE: dict[str, Text] = {  # names of kernel arguments in other packages, and what to write instead
    "variance": "multiply the kernel by it, as in 2.0 * Matern52()",
    "outputscale": "multiply the kernel by it, as in 2.0 * Matern52()",
    "sigma": "multiply the kernel by the variance, as in sigma**2 * Matern52()",
    "length_scale": "lengthscale",
    "lengthscales": "lengthscale",
    "ls": "lengthscale",
    "l": "lengthscale",
    "length_scale_bounds": "write " + Option("lengthscale", "bounded(1.0, 0.1, 10.0)"),
    "periodicity": "period",
    "period_length": "period",
    "active_dims": "choose columns with .on(0, 2)",
    "ARD": "give one length-scale per column, as in " + Option("lengthscale", "[1.0, 1.0]"),
    "ard_num_dims": "give one length-scale per column, as in " + Option("lengthscale", "[1.0, 1.0]"),
    "input_dim": "leave it out: the number of columns follows from X",
}
ELSEWHERE_IN_CALLS: dict[str, Text] = {  # the same for the arguments of k(X, Z)
    "Y": "z",
    "X2": "z",
    "x2": "z",
    "x1": "x",
    "eval_gradient": "leave it out: jax.grad differentiates k",
    "diag": "write k.diag(X)",
}


def pair(X: Rows) -> Inputs:
    """Return inputs unchanged, and wrap an array as inputs."""
    return X if isinstance(X, Inputs) else Inputs(X)  # type: ignore[arg-type]  # an array, or a tracer


def shape_words(x: ArrayLike) -> str:
    """Describe the shape of a kernel's argument in words."""
    shape = np.shape(x)
    return "one number" if not shape else f"an array of shape {shape}"


def of_tables(block: Callable[..., Array]) -> Callable[..., Array]:
    """Wrap ``block`` so that it also accepts plain arrays, which are passed to ``cross``."""

    @wraps(block)
    def taken(self: AbstractKernel, X: Rows, Z: Rows) -> Array:
        if isinstance(X, Inputs) and isinstance(Z, Inputs):
            return block(self, X, Z)
        return block(self, pair(X), pair(Z)) if traced(self, X, Z) else self.cross(X, Z)

    return taken


def check_block(kernel: AbstractKernel, X: Inputs) -> None:
    """Raise an error if a user-defined ``block`` or function fails or returns the wrong shape."""
    few = [jax.tree_util.tree_map(lambda v, n=n: jax.ShapeDtypeStruct((n, *np.shape(v)[1:]), v.dtype), X) for n in (3, 2)]
    do = "it must take X.x (n, d) and Z.x (m, d) and return k between their rows, in jax.numpy"
    what = "block" if "function" not in vars(kernel) else "the function"
    if what != "block":
        do = "see the documentation for its arguments and return value; use jax.numpy"
    shape = traced_shape(kernel._named(), what, do, lambda k, a, b: k.block(a, b), without_marks(kernel), *few)
    if shape != (3, 2):
        found = f"{what} returns {'no array' if shape is None else f'shape {shape}'} for 3 and 2 rows"
        raise fail(kernel._named(), found, "return k between every row of X and every row of Z, of shape (3, 2)")


def traced_shape(
    who: str, what: str, do: str, call: Callable[..., Array], *args: Module | Inputs | Array | jax.ShapeDtypeStruct
) -> tuple[int, ...] | None:
    """Return the shape that user code returns under JAX, None if it is not an array; convert exceptions to covary's errors."""
    kinds = [leaf.dtype for leaf in jax.tree_util.tree_leaves(args[1:])]
    try:
        with precision(kinds[0]):
            found = jax.eval_shape(call, *args)
    except CovaryError:
        raise
    except jax.errors.TracerArrayConversionError:
        raise _in_numpy(who, what) from None
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise fail(who, f"{what} fails ({reason[:200]})", do) from error
    return getattr(found, "shape", None)


def _in_numpy(who: str, what: str) -> CovaryError:
    return fail(who, f"{what} uses NumPy, which JAX cannot differentiate", "write it with jax.numpy (import jax.numpy as jnp)")


def rows_of(who: str, function: Callable[..., ArrayLike], x: Array) -> np.ndarray:
    """Return a user's function of the rows x (n, d) as a table (n, m), after checking its shape.

    In compiled code, a function that needs NumPy is called back; the result cannot be differentiated over x then.
    """
    if is_traced(x):
        try:
            found = jnp.asarray(function(x), x.dtype)
        except Exception:  # it needs NumPy arrays; a function that fails for another reason fails again
            found = _called_back(who, function, x)
    else:
        with precision(x.dtype):  # for functions in jax.numpy
            found = np.asarray(function(np.asarray(x)), x.dtype)
    if found.ndim != 2 or len(found) != len(x):
        what = f"the function returned shape {found.shape} for {counted(len(x), 'row')}"
        raise fail(who, what, "return one row for every row of x")
    return found  # type: ignore[return-value]  # traced if x is


def _called_back(who: str, function: Callable[..., ArrayLike], x: Array) -> jax.Array:
    """Call a NumPy function from compiled code.

    Numbers are passed as their bits, because the thread of the callback may be in 32-bit mode, where JAX would round them.
    """
    dtype, shape = np.dtype(x.dtype), x.shape
    width = rows_of(who, function, np.zeros(shape, dtype)).shape[1]
    like = jax.ShapeDtypeStruct((shape[0], width, dtype.itemsize // 4), np.uint32)

    def host(bits: Array) -> np.ndarray:
        found = rows_of(who, function, np.array(bits).view(dtype).reshape(shape))
        return np.ascontiguousarray(found).view(np.uint32).reshape(like.shape)

    @jax.custom_jvp
    def call(x: Array) -> jax.Array:
        bits = jax.lax.bitcast_convert_type(x, np.uint32)
        found = jax.pure_callback(host, like, bits, vmap_method="sequential")
        return jax.lax.bitcast_convert_type(found if dtype.itemsize == 8 else found[..., 0], dtype)

    @call.defjvp
    def refuse(primals: tuple[Array], tangents: tuple[Array]) -> tuple[jax.Array, jax.Array]:
        raise _in_numpy(who, "the function")

    return call(x)


NOISE = Remedy("noise kernel", "noise belongs to the estimator: GPRegressor(noise=...)")
KERNELS: dict[str, Text] = {  # names of kernels in other packages, and what to write instead
    "WhiteKernel": NOISE,
    "White": NOISE,
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
ATTRIBUTES = {  # attributes of kernels in other packages, and what to write instead
    "K": "write k(X, Z)",
    "Kdiag": "write k.diag(X)",
    "K_diag": "write k.diag(X)",
    "length_scale": "write k.lengthscale",
    "lengthscales": "write k.lengthscale",
    "variance": "a kernel has a variance only if it is multiplied by one, as in 2.0 * Matern52()",
    "theta": "covary.parameters.parameters(k) lists the parameters",
    "hyperparameters": "covary.parameters.parameters(k) lists the parameters",
    "get_params": "covary.parameters.parameters(k) lists the parameters",
    "set_params": "write k.replace(lengthscale=2.0)",
    "plot": "write covary.plots.plot_kernel(k)",
}
