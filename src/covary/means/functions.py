"""Mean functions m(x) of the prior: zero, constant, linear or user-defined (R&W, eq. 2.38)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np

from covary._checks import fail
from covary._errors import Option
from covary._module import Module, Numbers, static, without_marks
from covary._precision import cast
from covary._types import Array
from covary._words import counted
from covary.data import Inputs
from covary.kernels.authors import traced_shape
from covary.kernels.tiles import map_rows, pull_rows
from covary.parameters import REAL, named, real

ALIKE = 1e-6  # relative difference below which slopes count as constant


class AbstractMean(Module):
    """Mean function of the inputs: ``evaluate`` returns its values, ``pull`` its gradient with respect to the
    parameters."""

    def evaluate(self, X: Inputs) -> np.ndarray:
        """Return m(x) for every row, with shape (n,)."""
        raise self._lacking("evaluate")

    def pull(self, X: Inputs, bar: np.ndarray) -> Self:
        """Return the gradient of Σ_i bar_i m(x_i) with respect to the parameters, as a mean of the same structure."""
        raise self._lacking("pull")

    def block(self, X: Inputs) -> Array:
        """Return m(x) for every row, in jax.numpy (for compiled code)."""
        raise self._lacking("block")

    def _lacking(self, method: str) -> Exception:
        what = f"the class has no method {method}"
        return fail(self._named(), what, "give a plain function of one point as the mean instead")

    def design(self, X: Inputs) -> dict[str, np.ndarray]:
        r"""Return the columns H (n, k) of every parameter in which the mean is linear, by name: :math:`m = \sum H_p\,p`."""
        return {}

    def check(self, X: Inputs) -> None:
        """Raise an error if the mean's numbers do not fit these inputs."""


class Zero(AbstractMean):
    """Mean function that is zero everywhere."""

    def evaluate(self, X: Inputs) -> np.ndarray:
        return np.zeros(X.rows, X.x.dtype)

    def block(self, X: Inputs) -> Array:
        return jnp.zeros(X.rows, X.x.dtype)

    def pull(self, X: Inputs, bar: np.ndarray) -> Zero:
        return self


class Constant(AbstractMean):
    """Constant mean, learned with the other parameters."""

    value: Numbers = real(0.0)

    def evaluate(self, X: Inputs) -> np.ndarray:
        return np.full(X.rows, self.value, X.x.dtype)

    def block(self, X: Inputs) -> Array:
        return jnp.broadcast_to(self.value, (X.rows,))

    def pull(self, X: Inputs, bar: np.ndarray) -> Constant:
        return self.replace(value=bar.sum())


class Linear(AbstractMean):
    r"""Linear mean, :math:`m(x) = a + \sum_k w_k x_k`.

    Parameters
    ----------
    weight
        One slope per input column, or one number for all.
    value
        The intercept a.
    """

    weight: Numbers = real(0.0)
    _: KW_ONLY
    value: Numbers = real(0.0)

    def check(self, X: Inputs) -> None:
        if np.shape(self.weight) not in ((), (X.columns,)):
            what = f"weight has shape {np.shape(self.weight)} but " + Option("X") + f" has {counted(X.columns, 'column')}"
            raise fail("means.Linear", what, "give one number or one per column", argument="weight")

    def evaluate(self, X: Inputs) -> np.ndarray:
        weight = np.broadcast_to(np.asarray(self.weight, X.x.dtype), (X.columns,))
        return X.x @ weight + np.asarray(self.value, X.x.dtype)

    def block(self, X: Inputs) -> Array:
        return X.x @ jnp.broadcast_to(self.weight, (X.columns,)) + self.value

    def design(self, X: Inputs) -> dict[str, np.ndarray]:
        slopes = X.x if np.ndim(self.weight) else X.x.sum(1, keepdims=True)
        return {"value": np.ones((X.rows, 1)), "weight": slopes}

    def pull(self, X: Inputs, bar: np.ndarray) -> Linear:
        slope = X.x.T @ bar
        return self.replace(weight=slope if np.ndim(self.weight) else slope.sum(), value=bar.sum())


class Function(AbstractMean):
    """Mean defined by a function ``f(x, **parameters)`` of one point (d,), written in jax.numpy."""

    function: Callable[..., Array] = static()
    _: KW_ONLY
    parameters: dict[str, np.ndarray] = named(REAL)

    def check(self, X: Inputs) -> None:
        row = jax.ShapeDtypeStruct((X.columns,), X.x.dtype)
        do = f"it must take one point, of shape ({X.columns},), and return one number, in jax.numpy"
        call = lambda mean, x: mean.function(x, **mean.parameters) * jnp.ones((), x.dtype)  # noqa: E731
        shape = traced_shape("mean", "the function", do, call, without_marks(self), row)
        if shape != ():
            raise fail("mean", f"the function returns {'no number' if shape is None else f'shape {shape}'} at one point", do)

    def evaluate(self, X: Inputs) -> np.ndarray:
        return map_rows(_function_rows, cast(without_marks(self), X.x.dtype), X.x)

    def block(self, X: Inputs) -> Array:
        return _function_rows(self, X.x)

    def design(self, X: Inputs) -> dict[str, np.ndarray]:
        """Return the columns of every parameter whose slopes do not depend on the parameters, to rounding error."""
        elsewhere = {name: 1.3 * np.asarray(value) + 0.7 for name, value in self.parameters.items()}
        here, there = (_function_slopes(self.replace(parameters=p), X.x) for p in (self.parameters, elsewhere))
        found = {}
        for name, H in here.items():
            size = float(np.abs(H).max(initial=0.0))
            if 0 < size < np.inf and np.abs(there[name] - H).max() <= ALIKE * size:
                found[name] = H.reshape(X.rows, -1)
        return found

    def pull(self, X: Inputs, bar: np.ndarray) -> Self:
        return pull_rows(_function_rows, cast(without_marks(self), X.x.dtype), (X.x,), bar)


def _function_rows(mean: Function, x: Array) -> Array:
    return jax.vmap(lambda row: mean.function(row, **mean.parameters))(x)


def _function_slopes(mean: Function, x: Array) -> dict[str, np.ndarray]:
    """Return the gradient with respect to each parameter at every row, with shape (n, ...)."""
    mean = cast(without_marks(mean), x.dtype)
    one = lambda parameters, row: mean.function(row, **parameters) * jnp.ones((), row.dtype)  # noqa: E731
    slopes = jax.vmap(jax.grad(one), in_axes=(None, 0))(mean.parameters, x) if mean.parameters else {}
    return {name: np.asarray(value, np.float64) for name, value in slopes.items()}
