"""A surface and a curve, both with noise, and models fitted to them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from covary import GPRegressor
from covary.kernels import Matern52

RNG = np.random.default_rng(12)
QUICK: dict[str, Any] = {"n_restarts": 0, "random_state": 0}


def surface(x: np.ndarray) -> np.ndarray:
    return 20.0 + 5.0 * np.sin(2 * x[:, 0]) + 2.0 * x[:, 1]


X = RNG.uniform(-2.0, 2.0, size=(150, 2))
Y = surface(X) + 0.6 * RNG.normal(size=150)
XN = RNG.uniform(-2.0, 2.0, size=(400, 2))
YN = surface(XN) + 0.6 * RNG.normal(size=400)
X1, Y1 = X[:40, :1], 5.0 * np.sin(2 * X[:40, 0]) + 0.3 * RNG.normal(size=40)
KERNEL = 4.0 * Matern52(lengthscale=1.1)


@cache
def of_the_surface() -> GPRegressor:
    """With the defaults."""
    return GPRegressor(random_state=0).fit(X, Y)


@cache
def of_the_line() -> GPRegressor:
    """Of one input."""
    return GPRegressor(KERNEL, **QUICK).fit(X1, Y1)


@cache
def of_several_outputs() -> GPRegressor:
    """Of three outputs, the second being the first in other units."""
    return GPRegressor(KERNEL, **QUICK).fit(X[:60], np.column_stack([Y, 1e3 * Y, -Y + X[:, 0]])[:60])
