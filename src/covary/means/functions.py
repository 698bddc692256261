"""Mean functions m(x) of the prior: zero, constant, linear, the user's own (R&W, eq. 2.38)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from covary._checks import fail
from covary._module import Module, static, without_marks
from covary._precision import cast
from covary._words import counted
from covary.data import Inputs
from covary.kernels.authors import traced_shape
from covary.kernels.tiles import map_rows, pull_rows
from covary.parameters import REAL, named, real

ALIKE = 1e-6  # how little slopes differ that count as the same everywhere, relative to the largest


class AbstractMean(Module):
    """A function of the inputs; ``evaluate`` gives its values, ``pull`` its gradient over the parameters."""

    def evaluate(self, X: Inputs) -> np.ndarray:
        """m(x) for every row: shape (n,)."""
        raise self._lacking("evaluate")

    def pull(self, X: Inputs, bar: np.ndarray) -> Any:
        """The gradient of Σ_i bar_i m(x_i) over the parameters, in the mean's own shape."""
        raise self._lacking("pull")

    def block(self, X: Inputs) -> Any:
        """m(x) for every row, in jax.numpy (for compiled code)."""
        raise self._lacking("block")

    def _lacking(self, method: str) -> Exception:
        return fail(
            self._named(), f"the class has no method {method}", "give a plain function of one point as the mean instead"
        )

    def design(self, X: Inputs) -> dict[str, np.ndarray]:
        r"""The columns H (n, k) of every parameter the mean is linear in, by its name: :math:`m = \sum H_p\,p`."""
        return {}

    def check(self, X: Inputs) -> None:
        """Raise a sentence if the mean's numbers do not fit these inputs."""


class Zero(AbstractMean):
    """The mean that is zero everywhere."""

    def evaluate(self, X: Inputs) -> np.ndarray:
        return np.zeros(X.rows, X.x.dtype)

    def block(self, X: Inputs) -> Any:
        return jnp.zeros(X.rows, X.x.dtype)

    def pull(self, X: Inputs, bar: np.ndarray) -> Zero:
        return self


class Constant(AbstractMean):
    """A constant mean, learned with the other parameters."""

    value: Any = real(0.0)

    def evaluate(self, X: Inputs) -> np.ndarray:
        return np.full(X.rows, self.value, X.x.dtype)

    def block(self, X: Inputs) -> Any:
        return jnp.broadcast_to(self.value, (X.rows,))

    def pull(self, X: Inputs, bar: np.ndarray) -> Constant:
        return self.replace(value=bar.sum())


class Linear(AbstractMean):
    r"""A linear mean, :math:`m(x) = a + \sum_k w_k x_k`.

    Parameters
    ----------
    weight
        One slope per input column (or one number for all).
    value
        The intercept a.
    """

    weight: Any = real(0.0)
    _: KW_ONLY
    value: Any = real(0.0)

    def check(self, X: Inputs) -> None:
        if np.shape(self.weight) not in ((), (X.columns,)):
            raise fail(
                "means.Linear",
                f"weight has shape {np.shape(self.weight)} but X has {counted(X.columns, 'column')}",
                "give one number or one per column",
            )

    def evaluate(self, X: Inputs) -> np.ndarray:
        weight = np.broadcast_to(np.asarray(self.weight, X.x.dtype), (X.columns,))
        return X.x @ weight + np.asarray(self.value, X.x.dtype)

    def block(self, X: Inputs) -> Any:
        return X.x @ jnp.broadcast_to(self.weight, (X.columns,)) + self.value

    def design(self, X: Inputs) -> dict[str, np.ndarray]:
        slopes = X.x if np.ndim(self.weight) else X.x.sum(1, keepdims=True)
        return {"value": np.ones((X.rows, 1)), "weight": slopes}

    def pull(self, X: Inputs, bar: np.ndarray) -> Linear:
        slope = X.x.T @ bar
        return self.replace(weight=slope if np.ndim(self.weight) else slope.sum(), value=bar.sum())


class Function(AbstractMean):
    """A mean from any plain function ``f(x, **parameters)`` of one point (d,), written with jax.numpy."""

    function: Callable[..., Any] = static()
    _: KW_ONLY
    parameters: dict[str, Any] = named(REAL)

    def check(self, X: Inputs) -> None:
        row = jax.ShapeDtypeStruct((X.columns,), X.x.dtype)
        do = f"it is given one point, of shape ({X.columns},), and returns one number, in jax.numpy"
        call = lambda mean, x: mean.function(x, **mean.parameters) * jnp.ones((), x.dtype)  # noqa: E731
        shape = traced_shape("mean", "the function", do, call, without_marks(self), row)
        if shape != ():
            raise fail("mean", f"the function returns {'no number' if shape is None else f'shape {shape}'} at one point", do)

    def evaluate(self, X: Inputs) -> np.ndarray:
        return map_rows(_function_rows, cast(without_marks(self), X.x.dtype), X.x)

    def block(self, X: Inputs) -> Any:
        return _function_rows(self, X.x)

    def design(self, X: Inputs) -> dict[str, np.ndarray]:
        """The slopes over every parameter whose slopes are the same wherever the parameters are, to rounding."""
        elsewhere = {name: 1.3 * np.asarray(value) + 0.7 for name, value in self.parameters.items()}
        here, there = (_function_slopes(self.replace(parameters=p), X.x) for p in (self.parameters, elsewhere))
        found = {}
        for name, H in here.items():
            size = float(np.abs(H).max(initial=0.0))
            if 0 < size < np.inf and np.abs(there[name] - H).max() <= ALIKE * size:
                found[name] = H.reshape(X.rows, -1)
        return found

    def pull(self, X: Inputs, bar: np.ndarray) -> Any:
        return pull_rows(_function_rows, cast(without_marks(self), X.x.dtype), (X.x,), bar)


def _function_rows(mean: Function, x: Any) -> Any:
    return jax.vmap(lambda row: mean.function(row, **mean.parameters))(x)


def _function_slopes(mean: Function, x: Any) -> dict[str, np.ndarray]:
    """The gradient over the parameters at every row: (n, ...) each."""
    mean = cast(without_marks(mean), x.dtype)
    one = lambda parameters, row: mean.function(row, **parameters) * jnp.ones((), row.dtype)  # noqa: E731
    slopes = jax.vmap(jax.grad(one), in_axes=(None, 0))(mean.parameters, x) if mean.parameters else {}
    return {name: np.asarray(value, np.float64) for name, value in slopes.items()}
