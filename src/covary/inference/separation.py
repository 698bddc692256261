r"""Observations that leave a function's level without limit: separated labels, and counts that are all zero.

Some observations are as probable as can be at f = ∞ or at f = −∞: a label 1, a count of zero, the highest level of a scale. If
some combination δ of basis functions H points that way at every such row, :math:`s_i h_i^\top\delta \ge 0`, and vanishes at all
others, then larger weights along δ explain everything better and better (Albert & Anderson 1984): vague weights have no
posterior, and those of a mean function no best value. Whether there is such a δ is a linear program.

References
----------
Albert & Anderson (1984), On the existence of maximum likelihood estimates in logistic regression models, Biometrika 71.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from covary._checks import fail
from covary.data import Data
from covary.means.coordinates import orthogonalising

TOUCHING, CLEARLY = 1e-6, 1e-5  # what a row on the wrong side is excused, and how far one must be on the right one
GROUP = 5000  # rows that are asked first: most tables show on few that nothing is separated


def separated(likelihood: Any, data: Data, H: np.ndarray) -> bool:
    """Whether some combination of the columns of H (n, m) fits all observations the better the larger it is, without end."""
    if likelihood.latents > 1 or not H.shape[1]:
        return False
    below, above = likelihood.open_sides(data.y)
    if not (below | above).any():
        return False
    H = np.asarray(H, np.float64)
    R, dependent = orthogonalising(H)
    Q = solve_triangular(R, H.T, trans=1).T[:, ~dependent] * np.sqrt(len(H))  # any basis of the same space will do
    side = above.astype(float) - below
    return all(_beyond(Q[rows], side[rows]) for rows in (slice(0, GROUP), slice(None)) if len(Q) > GROUP or rows.stop)


def _beyond(Q: np.ndarray, side: np.ndarray) -> bool:
    from scipy.optimize import linprog

    open_, shut = side != 0, side == 0
    turned = side[open_, None] * Q[open_]
    limits: dict[str, Any] = {"A_ub": -turned, "b_ub": np.zeros(len(turned))}
    if shut.any():
        limits |= {"A_eq": Q[shut], "b_eq": np.zeros(int(shut.sum()))}
    found = linprog(-turned.mean(0), **limits, bounds=(-1.0, 1.0), method="highs")
    if found.x is None:
        return False
    margin = turned @ found.x
    return bool(margin.max() > CLEARLY and margin.min() > -TOUCHING and np.abs(Q[shut] @ found.x).max(initial=0.0) < TOUCHING)


def check_weights(who: str, model: Any, data: Any) -> None:
    """Refuse vague weights of basis functions that the observations leave without limit."""
    basis = getattr(getattr(model, "prior", None), "basis", None)
    if basis is None or not isinstance(data, Data):
        return
    H = basis.evaluate(data.X)
    if separated(model.likelihood, data, H[:, basis.weight_prior(H.shape[1]).vague]):
        raise fail(
            who,
            f"the {type(model.likelihood).__name__} observations are separated by basis functions with vague weights, which "
            "have no limit: the larger they are, the better every row is explained",
            "give the weights a covariance, as in LinearBasis(covariance=100.0)",
        )
