r"""Explicit basis functions with vague weights (R&W, section 2.7).

The model is :math:`g(x) = f(x) + h(x)^\top\beta` with a flat prior over β, the limit :math:`B^{-1} \to O` of eq. 2.42. The
weights are never sampled or optimised: the gram projects them out, so that they work under every inference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from covary._module import Module, static
from covary.data import Inputs


class Basis(Module):
    """Basis functions from any function of the table x (n, d) that returns (n, m), in NumPy.

    Examples
    --------
    >>> from covary.data import as_inputs
    >>> Basis(lambda x: x**2).evaluate(as_inputs([[3.0]]))
    array([[9.]])
    """

    function: Callable[[np.ndarray], Any] = static()

    def evaluate(self, X: Inputs) -> np.ndarray:
        """h(x) for every row: shape (n, m)."""
        return np.asarray(self.function(np.asarray(X.x)), X.x.dtype)


def _with_intercept(x: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(x), x.dtype), x])


def LinearBasis() -> Basis:
    """An intercept and one slope per input column, all with vague weights."""
    return Basis(_with_intercept)
