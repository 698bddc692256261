"""The last stage of a search with learned inducing inputs: their joint optimisation with the hyperparameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from covary.gram.low_rank import LowRank
from covary.optimise.base import Clock, Result
from covary.optimise.lbfgs import lbfgs
from covary.selection.objectives import Objective
from covary.selection.peaks import GAIN


def move_inducing(
    problem: Objective, best: Result, box: tuple[np.ndarray, np.ndarray], clock: Clock, note: Callable[[float], None]
) -> Result:
    """Optimise the hyperparameters and the inducing inputs jointly from their current values, and update ``problem.gram``.

    Inducing inputs are scaled by the spread of their columns, so that steps are comparable across columns.
    """
    gram, data, p = problem.gram, problem.data, len(best.x)
    assert isinstance(gram, LowRank)
    Z = np.asarray(gram.inducing, np.float64)
    spread = data.X.x.std(0)
    spread = np.where(spread > 0, spread, 1.0)

    def function(x: np.ndarray) -> tuple[float, np.ndarray]:
        moved = gram.replace(inducing=x[p:].reshape(Z.shape) * spread)
        value, slope, inducing = problem.evaluated(x[:p], problem.evidence_on(data, moved))
        if inducing is None:
            return value, np.zeros_like(x)
        return value, np.concatenate([slope, (inducing * spread).ravel()])

    wide = np.full(Z.size, np.inf)
    end = lbfgs(
        function,
        np.concatenate([best.x, (Z / spread).ravel()]),
        lower=np.concatenate([box[0], -wide]),
        upper=np.concatenate([box[1], wide]),
        tolerance=GAIN,
        max_steps=200,
        deadline=clock,
        note=note,
    )
    problem.gram = gram.replace(inducing=end.x[p:].reshape(Z.shape) * spread)
    return Result(end.x[:p], end.value, end.gradient[:p], end.status, best.steps + end.steps)
