"""The problem a search solves: minus (log evidence plus log priors) over the unconstrained vector, inside a box."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from scipy.linalg import solve_triangular

from covary._checks import NotPositiveDefinite, fail
from covary._precision import cast, precision
from covary._threads import blas_threads
from covary.data import Data
from covary.gram.dense import Dense
from covary.gram.traced import on_device
from covary.inference.condition import bind, order, settled
from covary.inference.exact import Exact
from covary.inference.separation import separated
from covary.likelihoods.gaussian import Gaussian
from covary.means.coordinates import orthogonalising
from covary.parameters import POSITIVE, Frame, Packing, parameters
from covary.selection.objectives import log_evidence_and_grad
from covary.selection.priors import Priors
from covary.selection.starts import target_scale, working

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]

BOX = 12.0  # nats: how far a positive parameter may go from the data's own scale
NOISE_FLOOR = 1e-6  # of var(y)
LIMITLESS = "without limit: the further the mean moves the better it explains the data; give it a prior, or another mean"


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

    def evidence(self, model: Any, data: Data, workspace: dict[str, Any], gram: Any = None) -> tuple[float, np.ndarray]:
        """The value and its gradient over the vector, without priors."""
        if self.custom is not None:
            return self.by_autodiff(model, data, workspace)
        value, gradient = log_evidence_and_grad(
            model, data, inference=self.inference, gram=gram or self.gram, fixed_jitter=self.jitter, workspace=workspace
        )
        return value, self.packing.pull(model, gradient)

    def spread(self, theta: np.ndarray, data: Data, gram: Any = None) -> float:
        """How much the posterior mean varies over these rows, in units of the target's spread; infinite if nobody tells."""
        if isinstance(self.inference, Exact):
            return np.inf
        memory: dict[str, Any] = {}
        model = self.packing.unpack(theta)
        try:
            self.height(model, data, memory, gram)
        except NotPositiveDefinite:
            return np.inf
        return memory.get("spread", np.inf) / target_scale(working(model, data))

    def height(self, model: Any, data: Data, memory: dict[str, Any], gram: Any = None) -> float:
        """The evidence alone, as the search sees it."""
        gram, data = settled(model, data, gram or self.gram)
        bound = bind("learn", model, data, gram, {})
        with precision(data.dtype), blas_threads(order(bound, self.inference)):
            return self.inference.solve(model, data, bound, fixed_jitter=self.jitter, memory=memory).log_evidence

    def value(self, theta: np.ndarray, data: Data, gram: Any = None) -> float:
        """What is minimised, without its gradient."""
        model = self.packing.unpack(theta)
        on_accelerator = isinstance(self.inference, Exact) and on_device(gram or self.gram, data.rows)
        if self.custom is not None or on_accelerator:
            return self.at(data, gram)(theta)[0]
        try:
            with np.errstate(all="ignore"):
                value = self.height(model, data, {}, gram) + self.priors.log_prob_and_grad(self.packing, model)[0]
        except NotPositiveDefinite:
            return np.inf
        return -value if np.isfinite(value) else np.inf

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
                    try:
                        value, gradient = function(cast(model, data.dtype))
                    except jax.errors.ConcretizationTypeError:
                        workspace["objective"] = plain
                        value, gradient = plain(cast(model, data.dtype))
                except TypeError as error:
                    what = f"the objective fails ({type(error).__name__}: {' '.join(str(error).split())[:200]})"
                    do = "give a function (model, data) that returns one number, written with jax.numpy"
                    raise fail("learn", what, do) from error
        return float(value), self.packing.pull(model, gradient)

    def at(
        self, data: Data, gram: Any = None, workspace: dict[str, Any] | None = None
    ) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        """The function to minimise on these rows; a model that cannot be factorised is worth infinity.

        Asked the same twice running, it answers from memory.
        """
        workspace = {} if workspace is None else workspace
        last: list[Any] = [None, None]

        def function(theta: np.ndarray) -> tuple[float, np.ndarray]:
            if last[0] is None or not np.array_equal(theta, last[0]):
                last[1] = compute(theta)
                last[0] = np.array(theta)
            value, slope = last[1]
            return value, slope.copy()

        def compute(theta: np.ndarray) -> tuple[float, np.ndarray]:
            model = self.packing.unpack(theta)
            try:
                with np.errstate(all="ignore"):
                    value, gradient = self.evidence(model, data, workspace, gram)
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


def natural_coordinates(model: Any, data: Data, tie: Any, priors: Priors) -> Packing:
    r"""The free parameters as a vector in which none depends on the units of X and y, and weights of a mean not on each other.

    Real parameters of the mean function are measured in units of y's spread. Those a mean is linear in, :math:`m = H\beta`,
    are given by the values they have on the rows: with :math:`H = QR`, :math:`\beta = s R^{-1}u`. A slope along years and the
    intercept at year zero are then searched as the slope and the mean over the data. Weights with bounds keep a coordinate
    each, and the others are freed of them.
    """
    spread = target_scale(working(model, data))
    scale = {path: spread for path, p in parameters(model).items() if path.startswith("mean.") and p.space is not POSITIVE}
    packing = Packing(model, tie=tie, scale=scale)
    limited = np.any(np.isfinite([*packing.box(), *priors.box(packing)]), axis=0)
    alone = {s.paths[0]: bool(limited[s.start : s.stop].any()) for s in packing.slots if len(s.paths) == 1}
    with precision(data.dtype):
        design = {f"mean.{name}": H for name, H in model.mean.design(data.X).items()}
    paths = tuple(sorted((path for path in design if path in alone), key=lambda path: alone[path]))
    if not paths:
        return packing
    H = np.concatenate([design[path] for path in paths], axis=1).astype(np.float64)
    weight = np.ones(len(H)) if data.weight is None else data.weight.astype(np.float64)
    R = orthogonalising(H * np.sqrt(weight / weight.sum())[:, None])[0]
    free = sum(design[path].shape[1] for path in paths if not alone[path])
    R[free:, free:] = np.diag(np.linalg.norm(R[free:, free:], axis=0))  # bounds are bounds of one coordinate each
    return Packing(model, tie=tie, scale=scale, frame=Frame(paths, spread * solve_triangular(R, np.eye(len(R)))))


def box(packing: Packing, priors: Priors, data: Data, theta0: np.ndarray, centre: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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


def limitless(packing: Packing, priors: Priors, data: Data, theta: np.ndarray, bounds: tuple[np.ndarray, np.ndarray]) -> bool:
    """Whether weights of the mean function with neither prior nor bounds explain the data the better the larger they are."""
    free = [s for s in packing.slots if s.paths[0].startswith("mean.") and priors.of(s) is None]
    places = [i for s in free for i in range(s.start, s.stop) if np.isneginf(bounds[0][i]) and np.isposinf(bounds[1][i])]
    model = packing.unpack(theta)
    with precision(data.dtype):
        base = model.mean.evaluate(data.X)
        moved = [packing.unpack(theta + np.eye(len(theta))[i]).mean.evaluate(data.X) - base for i in places]
    return separated(model.likelihood, data, np.stack(moved, axis=1)) if moved else False


def needed_jitter(model: Any, data: Data, inference: Any, gram: Any) -> float | None:
    """How much jitter the start needs (it is then held for the whole search), or an error that says why none helps."""
    if not isinstance(gram, Dense):
        return None
    bound_gram = bind("learn", model, data, gram)
    with precision(data.dtype):
        solved = inference.solve(model, data, bound_gram)
    scale = float(np.mean(bound_gram.diag()))  # type: ignore[attr-defined]
    return 10 * getattr(solved.factor, "jitter", 0.0) / scale
