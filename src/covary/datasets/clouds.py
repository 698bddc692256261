"""Clouds of points without targets, for vector quantisation and self-organising maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from covary._types import Seed
from covary.datasets.frames import check, frame, generator, one_of

if TYPE_CHECKING:
    import pandas as pd

SHAPES = ("square", "disk", "annulus", "circle", "edges", "sphere")


def make_cloud(n: int = 1000, *, noise: float = 0.0, shape: str = "square", random_state: Seed = 0) -> pd.DataFrame:
    r"""Points of a simple shape, uniformly distributed unless stated otherwise.

    Parameters
    ----------
    noise
        The standard deviation of the noise added to the coordinates.
    shape
        ``"square"``, [−1, 1]²; ``"disk"``, ‖x‖ < 1; ``"annulus"``, ½ < ‖x‖ < 1; ``"circle"``, ‖x‖ = 1; ``"edges"``, the square
        with :math:`|x_1| = u^{1/4}`, u uniform, so that most points lie near its left and right edges; ``"sphere"``, ‖x‖ = 1
        in three dimensions.

    References
    ----------
    Coolen, section 2.1, figures 2.2 to 2.9, and section 2.4, figures 2.14 and 2.16. ``"edges"`` is defined here.

    Examples
    --------
    >>> make_cloud(3, shape="sphere").columns.tolist()
    ['x1', 'x2', 'x3']
    """
    n, rng = check("make_cloud", n, noise), generator(random_state)
    one_of("make_cloud", "shape", shape, SHAPES)
    if shape in ("square", "edges"):
        X = rng.uniform(-1, 1, (n, 2))
        if shape == "edges":
            X[:, 0] = np.sign(X[:, 0]) * np.abs(X[:, 0]) ** 0.25
    elif shape == "sphere":
        X = rng.standard_normal((n, 3))
        X /= np.sqrt((X**2).sum(1, keepdims=True))
    else:
        inner = {"disk": 0.0, "annulus": 0.5, "circle": 1.0}[shape]
        radius, angle = np.sqrt(rng.uniform(inner**2, 1, n)), rng.uniform(0, 2 * np.pi, n)
        X = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    X = X + noise * rng.standard_normal(X.shape)
    source = "Coolen, section 2.4" if shape == "sphere" else "Coolen, section 2.1"
    return frame({f"x{k + 1}": X[:, k] for k in range(X.shape[1])}, source=source, noise=noise, targets=0)


def make_sensors(n: int = 500, *, noise: float = 0.05, sensors: int = 8, random_state: Seed = 0) -> pd.DataFrame:
    r"""Positions in the unit square measured by many saturating sensors, to be recovered by a self-organising map.

    .. math:: s_j = \tanh\bigl(4\,w_j\cdot(u - c_j)\bigr) + \varepsilon

    with unit vectors w and centres c drawn once. Columns ``s1`` … and targets ``u1``, ``u2``, the hidden position.

    Parameters
    ----------
    sensors
        The number of sensors.

    References
    ----------
    Coolen, section 2.4 (sensor fusion, mentioned as an application). The sensors are chosen here.

    Examples
    --------
    >>> make_sensors(5).attrs["targets"]
    ['u1', 'u2']
    """
    n, rng = check("make_sensors", n, noise), generator(random_state)
    angle, centre = rng.uniform(0, 2 * np.pi, sensors), rng.random((sensors, 2))
    w = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    u = rng.random((n, 2))
    s = np.tanh(4 * (u @ w.T - (w * centre).sum(1))) + noise * rng.standard_normal((n, sensors))
    columns = {**{f"s{j + 1}": s[:, j] for j in range(sensors)}, "u1": u[:, 0], "u2": u[:, 1]}
    table = frame(columns, source="Coolen, section 2.4", noise=noise, targets=2)
    table.attrs |= {"directions": w.tolist(), "centres": centre.tolist()}
    return table
