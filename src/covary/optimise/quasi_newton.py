r"""A quasi-Newton search that starts with a given Hessian (from a coarser problem) and stops by expected gain.

It uses dense BFGS updates of the Hessian, and steps projected onto the box. It stops when :math:`\tfrac12 g^\top H^{-1}g`, the
expected gain of a full step, falls below the tolerance: the natural unit if the function is a log probability. It is
implemented here because SciPy's L-BFGS-B does not accept an initial Hessian (docs/decisions/0004).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from covary._words import counted
from covary.optimise.base import OUT_OF_TIME, Clock, Function, OutOfTime, Recorder, Result

LONGEST = 2.0  # the longest step along one coordinate, in nats


def positive_part(H: np.ndarray, floor: float = 1e-3) -> np.ndarray:
    """Return H with the absolute values of its eigenvalues, raised to at least ``floor``."""
    values, vectors = np.linalg.eigh((H + H.T) / 2)
    return (vectors * np.maximum(np.abs(values), floor)) @ vectors.T


def quasi_newton(
    function: Function,
    x0: np.ndarray,
    hessian: np.ndarray,
    *,
    lower: np.ndarray,
    upper: np.ndarray,
    tolerance: float = 0.01,
    max_steps: int = 100,
    deadline: Clock | float | None = None,
    note: Callable[[float], None] | None = None,
) -> tuple[Result, np.ndarray]:
    """Minimise from x0 with an initial Hessian; return the result and the final Hessian."""
    record = Recorder(function, deadline=deadline, note=note)
    x, H = np.clip(x0, lower, upper), positive_part(hessian)
    status = f"stopped after {counted(max_steps, 'evaluation')}"
    try:
        value, gradient = record(x)
        if not np.isfinite(value):
            return Result(x, np.inf, np.zeros_like(x), "failed at the start", record.steps), H
        while record.steps < max_steps:
            free = ~(((x <= lower) & (gradient > 0)) | ((x >= upper) & (gradient < 0)))
            if not free.any():
                status = "converged"
                break
            step = np.zeros_like(x)
            step[free] = -np.linalg.solve(H[np.ix_(free, free)], gradient[free])
            if -0.5 * float(gradient @ step) < tolerance:
                status = "converged"
                break
            step *= min(1.0, LONGEST / max(np.abs(step).max(), 1e-300))
            moved = _line(record, x, value, gradient, step, lower, upper)
            if moved is None:
                status = "converged"  # no point along the line is better: the rest is rounding error
                break
            new_x, new_value, new_gradient = moved
            s, y = new_x - x, new_gradient - gradient
            x, value, gradient = new_x, new_value, new_gradient
            H = _update(H, s, y)
    except OutOfTime:
        status = deadline.status if isinstance(deadline, Clock) else OUT_OF_TIME
    assert record.best is not None
    value, x, gradient = record.best
    return Result(x, value, gradient, status, record.steps), H


def _line(
    record: Recorder, x: np.ndarray, value: float, gradient: np.ndarray, step: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray] | None:
    """Return a point along the step with sufficient decrease (Armijo's condition), or None."""
    length = 1.0
    for _ in range(12):
        new = np.clip(x + length * step, lower, upper)
        promised = float(gradient @ (new - x))
        new_value, new_gradient = record(new)
        if np.isfinite(new_value) and new_value <= value + 1e-4 * promised:
            return new, new_value, new_gradient
        if np.isfinite(new_value):  # the minimum of the interpolating parabola
            curve = new_value - value - promised
            length *= float(np.clip(-promised / (2 * curve), 0.1, 0.5)) if curve > 0 else 0.5
        else:
            length *= 0.25
    return None


def _update(H: np.ndarray, s: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the Hessian after Powell's damped BFGS update."""
    Hs = H @ s
    sHs, sy = float(s @ Hs), float(s @ y)
    if sHs <= 0:
        return H
    if sy < 0.2 * sHs:
        share = 0.8 * sHs / (sHs - sy)
        y = share * y + (1 - share) * Hs
        sy = float(s @ y)
    return H - np.outer(Hs, Hs) / sHs + np.outer(y, y) / sy
