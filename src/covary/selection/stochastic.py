"""Learning in batches: what ``learn`` does with variational inference once the coarse levels have shown where to begin."""

from __future__ import annotations

from typing import Any

import numpy as np

from covary.inference.stochastic import Trained
from covary.optimise.clock import Clock
from covary.selection.problem import Objective
from covary.selection.progress import Tracker


def train(
    problem: Objective, theta: np.ndarray, recipe: Any, tie: Any, clock: Clock, checkpoint: Any, key: int, tracker: Tracker
) -> Trained:
    """Hyperparameters, inducing inputs and the variational posterior together, from a coarse optimum.

    Inducing inputs that were chosen for the user move with the rest; those the user gave stay, unless ``learned``. The
    problem's gram is the trained one afterwards.
    """
    packing = problem.packing
    begin = packing.like(packing.unpack(theta), tie=tie)
    left = None if clock.end is None else max(1.0, clock.left())
    rows = problem.data.rows

    def note(step: int, steps: int, value: float) -> None:
        tracker.trained(rows, step, steps, value)
        if clock.interrupted:
            raise KeyboardInterrupt

    found = problem.inference.train(
        begin,
        problem.priors,
        problem.data,
        problem.gram,
        key=key,
        box=problem.box,
        learn_inducing=problem.gram.learned or np.ndim(recipe.inducing) == 0,
        max_time=left,
        note=note,
        checkpoint=checkpoint,
    )
    problem.gram = problem.gram.replace(inducing=found.Z)
    return found
