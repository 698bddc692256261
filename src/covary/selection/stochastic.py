"""Learning in batches with variational inference, after the coarse levels have provided a starting point."""

from __future__ import annotations

import numpy as np

from covary.gram.low_rank import LowRank
from covary.inference.svgp import SVGP
from covary.inference.svgp.stochastic import Trained
from covary.selection.objectives import Objective
from covary.selection.state import Settings, Tracker


def train(problem: Objective, theta: np.ndarray, settings: Settings, tracker: Tracker) -> Trained:
    """Train hyperparameters, inducing inputs and the variational posterior together, from a coarse optimum.

    Inducing inputs that were chosen automatically are trained too; given ones are kept, unless ``learned``. Afterwards
    ``problem.gram`` is the trained gram.
    """
    packing, gram, asked, clock = problem.packing, problem.gram, settings.gram, settings.clock
    assert isinstance(problem.inference, SVGP)
    assert isinstance(gram, LowRank)
    assert isinstance(asked, LowRank)
    begin = packing.like(packing.unpack(theta), tie=settings.tie)
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
        gram,
        key=settings.key,
        box=problem.box,
        learn_inducing=gram.learned or np.ndim(asked.inducing) == 0,
        max_time=left,
        note=note,
        checkpoint=settings.checkpoint,
    )
    problem.gram = gram.replace(inducing=found.Z)
    return found
