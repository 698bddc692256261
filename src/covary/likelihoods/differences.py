"""Gradients over a likelihood's parameters from differences of its NumPy formulas: nothing to compile.

The five-point rule has an error of h⁴, so with steps of a thousandth of the parameter it is right to eleven digits or so; the
law tests hold it against automatic differentiation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

STEP = 1e-3
RULE = ((-2, 1 / 12), (-1, -8 / 12), (1, 8 / 12), (2, -1 / 12))  # places in steps, and weights


def slope_over_parameters(likelihood: Any, value: Callable[[Any], float]) -> Any:
    """The gradient of ``value(likelihood)`` over every number of the likelihood, in its shape."""
    leaves, shape = jax.tree_util.tree_flatten(likelihood)
    out = []
    for at, leaf in enumerate(leaves):
        array = np.array(leaf, np.float64)
        gradient = np.zeros_like(array)
        for i in np.ndindex(array.shape):
            step = STEP * (abs(float(array[i])) or 1.0)
            for places, weight in RULE:
                moved = array.copy()
                moved[i] += places * step
                other = jax.tree_util.tree_unflatten(shape, [*leaves[:at], moved, *leaves[at + 1 :]])
                gradient[i] += weight / step * value(other)
        out.append(gradient)
    return jax.tree_util.tree_unflatten(shape, out)
