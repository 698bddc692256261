"""The verb ``learn``: find the hyperparameters that explain the data best.

From coarse to fine: a subset of the rows is cheap (cost grows with the cube), so all starts are searched there; the best
one hands its position *and* its Hessian, scaled by the number of rows, to the full problem, which then needs a handful of
evaluations. The search stops when a Newton step would gain less than 0.01 nats.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import jax
import numpy as np

from covary._checks import CovaryError, NotPositiveDefinite, fail
from covary._memory import check_memory
from covary._precision import cast, precision
from covary._threads import blas_threads
from covary.data import Data
from covary.gram.base import AbstractGram
from covary.gram.dense import Dense
from covary.inference.base import AbstractInference
from covary.inference.condition import as_model, bind
from covary.inference.exact import Exact
from covary.kernels.tiles import tile_size
from covary.likelihoods.gaussian import Gaussian
from covary.model import Model
from covary.optimise.base import Result
from covary.optimise.lbfgs import lbfgs
from covary.optimise.quasi_newton import quasi_newton
from covary.parameters import POSITIVE, Packing, parameters
from covary.selection.objectives import log_evidence_and_grad
from covary.selection.priors import Priors
from covary.selection.progress import Tracker
from covary.selection.starts import spread_equal, starting_values, target_scale

GAIN = 0.01  # nats: stop when a step would gain less
BOX = 12.0  # nats: how far a positive parameter may go from the data's own scale
NOISE_FLOOR = 1e-6  # of var(y)
COARSEST = 400  # rows below which there is no coarser level


@dataclass(frozen=True)
class Restart:
    """One start of the search, on the coarsest level: where it began, where it ended, and how."""

    start: Any
    model: Any
    value: float
    status: str
    steps: int


@dataclass(frozen=True)
class Learned:
    """A model with learned hyperparameters, and how the search went. The verbs take it wherever they take a model.

    ``value`` is the objective at the end (log evidence plus log priors), ``history`` holds (rows, value) of every
    evaluation, ``restarts`` every start with its end on the coarsest level, ``levels`` the rows of every level.
    """

    model: Any
    value: float
    status: str
    steps: int
    seconds: float
    levels: tuple[int, ...]
    history: tuple[tuple[int, float], ...] = field(repr=False)
    restarts: tuple[Restart, ...] = field(repr=False)
    objective: Any = field(repr=False)
    theta: np.ndarray = field(repr=False)
    jitter: float = 0.0

    @property
    def prior(self) -> Any:
        """The learned prior."""
        return self.model.prior

    @property
    def kernel(self) -> Any:
        """The learned kernel."""
        return self.model.kernel

    @property
    def likelihood(self) -> Any:
        """The learned likelihood."""
        return self.model.likelihood

    @cached_property
    def hessian(self) -> np.ndarray:
        """The Hessian of minus the objective over the unconstrained vector, by differences of gradients; on first access."""
        data = self.objective.data
        with blas_threads(data.rows):
            return difference_hessian(self.objective.at(data), self.theta, step=1e-3, central=True)

    @cached_property
    def log_errors(self) -> dict[str, np.ndarray]:
        """Standard errors of the unconstrained parameters (logarithms of positive ones) by path, from the Hessian.

        Parameters along which the objective does not curve have no error bar: infinity.
        """
        packing = self.objective.packing
        values, vectors = np.linalg.eigh((self.hessian + self.hessian.T) / 2)
        curved = values > 1e-8 * max(values.max(initial=0.0), 1e-300)
        weight = vectors**2
        spread = (weight[:, curved] / values[curved]).sum(1)
        spread[(weight[:, ~curved] > 0.01).any(1)] = np.inf
        out = {}
        for slot in packing.slots:
            errors = np.sqrt(spread[slot.start : slot.stop]) * packing.scale.get(slot.paths[0], 1.0)
            out |= {path: errors.reshape(slot.shape) for path in slot.paths}
        return out


class Objective:
    """Minus (log evidence plus log priors) over the unconstrained vector, for any subset of the rows."""

    def __init__(
        self,
        packing: Packing,
        priors: Priors,
        data: Data,
        inference: Any,
        gram: Any,
        custom: Callable[..., Any] | None = None,
        box: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        self.packing, self.priors, self.data = packing, priors, data
        self.box = packing.box() if box is None else box
        self.inference, self.gram, self.custom = inference, gram, custom
        self.jitter: float | None = gram.jitter if isinstance(gram, Dense) else None

    def evidence(self, model: Any, data: Data, workspace: dict[str, Any]) -> tuple[float, np.ndarray]:
        """The value and its gradient over the vector, without priors."""
        if self.custom is not None:
            return self.by_autodiff(model, data, workspace)
        value, gradient = log_evidence_and_grad(
            model, data, inference=self.inference, gram=self.gram, fixed_jitter=self.jitter, workspace=workspace
        )
        return value, self.packing.pull(model, gradient)

    def by_autodiff(self, model: Any, data: Data, workspace: dict[str, Any]) -> tuple[float, np.ndarray]:
        """A user's objective, differentiated by JAX; compiled once, unless it branches on numbers."""
        method = getattr(self.custom, "value_and_grad", None)
        if method is not None:
            value, gradient = method(model, data)
        else:
            with precision(data.dtype):
                plain = jax.value_and_grad(lambda m: self.custom(m, data))  # type: ignore[misc]
                function = workspace.setdefault("objective", jax.jit(plain))
                try:
                    value, gradient = function(cast(model, data.dtype))
                except jax.errors.ConcretizationTypeError:
                    workspace["objective"] = plain
                    value, gradient = plain(cast(model, data.dtype))
        return float(value), self.packing.pull(model, gradient)

    def at(self, data: Data) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        """The function to minimise on these rows; a model that cannot be factorised is worth infinity."""
        workspace: dict[str, Any] = {}

        def function(theta: np.ndarray) -> tuple[float, np.ndarray]:
            model = self.packing.unpack(theta)
            try:
                with np.errstate(all="ignore"):
                    value, gradient = self.evidence(model, data, workspace)
            except NotPositiveDefinite:
                return np.inf, np.zeros_like(theta)
            extra, slope = self.priors.log_prob_and_grad(self.packing, model)
            if not (np.isfinite(value) and np.isfinite(gradient).all()):
                return np.inf, np.zeros_like(theta)
            return -(value + extra), -(gradient + slope)

        return function


def difference_hessian(
    function: Callable[[np.ndarray], tuple[float, np.ndarray]],
    x: np.ndarray,
    gradient: np.ndarray | None = None,
    *,
    step: float,
    central: bool = False,
) -> np.ndarray:
    """The Hessian from differences of gradients: one evaluation a coordinate, two if central."""
    H = np.empty((len(x), len(x)))
    base = function(x)[1] if gradient is None and not central else gradient
    for i in range(len(x)):
        ahead = x.copy()
        ahead[i] += step
        up = function(ahead)
        if central:
            back = x.copy()
            back[i] -= step
            down = function(back)
            H[i] = (up[1] - down[1]) / (2 * step) if np.isfinite(up[0] + down[0]) else 0.0
        else:
            H[i] = (up[1] - base) / step if np.isfinite(up[0]) else 0.0
    return (H + H.T) / 2


def _levels(rows: int) -> tuple[int, ...]:
    """The numbers of rows from coarse to fine."""
    if rows <= 2 * COARSEST:
        return (rows,)
    coarse = max(COARSEST, rows // 4)
    return (coarse, rows) if coarse <= 1500 else (max(COARSEST, coarse // 4), coarse, rows)


def learn(
    model: Model,
    data: Data,
    *,
    objective: Callable[..., Any] | None = None,
    inference: AbstractInference = Exact(),
    gram: AbstractGram = Dense(),
    priors: Mapping[str, Any] | None = None,
    tie: Sequence[Sequence[str]] = (),
    n_restarts: int = 0,
    starts: Sequence[Any] = (),
    max_time: float | None = None,
    coarse: bool = True,
    key: int = 0,
) -> Learned:
    """The model with hyperparameters that maximise the evidence (times the priors).

    Parameters
    ----------
    model
        Where to start; parameters marked ``fixed`` stay, ``bounded`` ones stay inside.
    data
        What was seen.
    objective
        What to maximise instead of the log evidence: a function (model, data) -> number written with JAX, or an object
        with a method ``value_and_grad(model, data)``.
    inference, gram
        As in :func:`condition`.
    priors
        Distributions by parameter path: ``{"kernel.*.lengthscale": LogNormal(0.0, scale=1.0)}``.
    tie
        Groups of paths that share one value.
    n_restarts
        Further starts: one at the data's own scales, the others drawn around it.
    starts
        Further starting models of the same structure.
    max_time
        Seconds after which the best so far is returned.
    coarse
        Whether large problems begin on a subset of the rows.
    key
        Seed of the subset and of the restarts.

    Examples
    --------
    >>> import numpy as np
    >>> from covary import GP, Data, Model
    >>> x = np.linspace(0.0, 6.0, 40)[:, None]
    >>> fit = learn(Model(GP("1.0 * Matern52()")), Data(x, np.sin(x[:, 0])))
    >>> fit.status
    'converged'
    """
    began = time.monotonic()
    deadline = None if max_time is None else began + max_time
    model = as_model(model)
    bind("learn", model, data.take(slice(0, 1)) if isinstance(data, Data) else data, gram)  # the checks, before any work
    if isinstance(gram, Dense):
        check_memory("learn", 2 * data.rows**2 * data.dtype.itemsize, "use fewer rows or an approximation such as LowRank(...)")
    model = spread_equal(model)
    attached = Priors(model, priors)
    natural = spread_equal(starting_values(model, data))
    packing = Packing(model, tie=tie, scale=_scales(model, data))
    if packing.size == 0:
        raise fail("learn", "every parameter is fixed", "free one, or call condition directly")
    theta0, centre = packing.pack(model), packing.pack(natural)
    lower, upper = _box(packing, attached, data, theta0, centre)
    levels = _levels(data.rows) if coarse and isinstance(gram, Dense) else (data.rows,)
    if isinstance(gram, Dense) and gram.tile is None:
        gram = gram.replace(tile=tile_size(data.rows))
    problem = Objective(packing, attached, data, inference, gram, objective, (lower, upper))
    rng = np.random.default_rng(key)
    order = rng.permutation(data.rows)
    history: list[tuple[int, float]] = []

    def on(rows: int) -> tuple[Any, Callable[[float], None]]:
        part = data if rows == data.rows else data.take(np.sort(order[:rows]))

        def note(value: float) -> None:
            history.append((rows, -value))
            tracker.evaluated(rows, -value)

        return problem.at(part), note

    function, note = on(levels[0])
    if not np.isfinite(function(np.clip(theta0, lower, upper))[0]):
        problem.jitter = _needed_jitter(model, data, inference, gram)
    points = [theta0, *(packing.pack(as_model(s)) for s in starts)]
    points += [np.clip(p, lower, upper) for p in _restarts(theta0, centre, packing, n_restarts, rng)]
    tracker = Tracker(levels, len(points), packing.size, began)
    results = []
    for i, point in enumerate(points):
        tracker.start = i
        spare = 500 if i == 0 else 150
        with blas_threads(levels[0]):
            found = lbfgs(
                function, point, lower=lower, upper=upper, tolerance=GAIN, max_steps=spare, deadline=deadline, note=note
            )
        results.append(found)
        if deadline is not None and time.monotonic() > deadline:
            break
    best = min(results, key=lambda r: r.value)
    restarts = tuple(
        Restart(packing.unpack(p), packing.unpack(r.x), -r.value, r.status, r.steps)
        for p, r in zip(points, results, strict=False)
    )
    if not np.isfinite(best.value):
        raise CovaryError(
            "learn: the objective is not finite at any start; check the scales of X and y, or give other starting values."
        )
    with blas_threads(levels[-1]):
        refined = _refine(best, levels, on, theta0, lower, upper, deadline)
    return Learned(
        packing.unpack(refined.x),
        -refined.value,
        refined.status,
        len(history),
        time.monotonic() - began,
        levels,
        tuple(history),
        restarts,
        problem,
        refined.x,
        problem.jitter or 0.0,
    )


def _refine(
    best: Result, levels: tuple[int, ...], on: Any, theta0: np.ndarray, lower: Any, upper: Any, deadline: Any
) -> Result:
    """Carry the best coarse point and its Hessian up the levels; never end below the plain start."""
    for below, rows in pairwise(levels):
        if deadline is not None and time.monotonic() > deadline:
            return _cut_short(best, on(levels[-1]), np.clip(theta0, lower, upper))
        function, _ = on(below)
        H = difference_hessian(function, best.x, best.gradient, step=1e-2) * (rows / below)
        function, note = on(rows)
        best, _ = quasi_newton(function, best.x, H, lower=lower, upper=upper, tolerance=GAIN, deadline=deadline, note=note)
        if rows == levels[-1]:
            plain, _ = function(np.clip(theta0, lower, upper))
            note(plain)
            if plain < best.value:
                again = lbfgs(function, theta0, lower=lower, upper=upper, tolerance=GAIN, deadline=deadline, note=note)
                best = min(best, again, key=lambda r: r.value)
    return best


def _cut_short(best: Result, full: Any, start: np.ndarray) -> Result:
    """Time ran out on a coarse level: the better of its point and the plain start, each told on all rows."""
    function, note = full
    ends = []
    for x in (best.x, start):
        value, gradient = function(x)
        note(value)
        ends.append(Result(x, value, gradient, "out of time", best.steps))
    return min(ends, key=lambda r: r.value)


def _scales(model: Any, data: Data) -> dict[str, float]:
    """Real parameters of the mean function are measured in units of y's spread."""
    spread = target_scale(data)
    return {path: spread for path, p in parameters(model).items() if path.startswith("mean.") and p.space is not POSITIVE}


def _box(packing: Packing, priors: Priors, data: Data, theta0: np.ndarray, centre: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds and uniform priors; elsewhere ±12 nats round the data's scale and the start for positive parameters.

    Gaussian noise stays above its floor, unless bounds or a uniform prior say where it may go.
    """
    (lower, upper), (low, high) = packing.box(), priors.box(packing)
    lower, upper = np.maximum(lower, low), np.minimum(upper, high)
    if np.any(lower > upper):
        name = packing.names()[int(np.argmax(lower > upper))]
        raise fail("learn", f"the bounds and the uniform prior of {name} have nothing in common", "widen one of them")
    first, second = np.clip(theta0, lower, upper), np.clip(centre, lower, upper)
    for slot in packing.slots:
        if slot.space is POSITIVE:
            part = slice(slot.start, slot.stop)
            free_low, free_high = np.isneginf(lower[part]), np.isposinf(upper[part])
            lowest = np.minimum(first[part], second[part]) - BOX
            if isinstance(packing.model.likelihood, Gaussian) and "likelihood.variance" in slot.paths:
                lowest = np.where(free_high, np.log(NOISE_FLOOR * target_scale(data) ** 2), lowest)
            lower[part] = np.where(free_low, lowest, lower[part])
            upper[part] = np.where(free_high, np.maximum(first[part], second[part]) + BOX, upper[part])
    return lower, upper


def _restarts(
    theta0: np.ndarray, centre: np.ndarray, packing: Packing, count: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Further starts: the data's own scales (unless the plain start is there already), then draws around them."""
    out = [] if np.allclose(theta0, centre) or not count else [centre.copy()]
    return out + [centre + rng.normal(0.0, 1.5, packing.size) for _ in range(count - len(out))]


def _needed_jitter(model: Any, data: Data, inference: Any, gram: Any) -> float | None:
    """How much jitter the start needs (it is then held for the whole search), or an error that says why none helps."""
    if not isinstance(gram, Dense):
        return None
    bound_gram = bind("learn", model, data, gram)
    with precision(data.dtype):
        solved = inference.solve(model, data, bound_gram)
    scale = float(np.mean(bound_gram.diag()))  # type: ignore[attr-defined]
    return 10 * getattr(solved.factor, "jitter", 0.0) / scale
