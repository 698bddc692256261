"""Objectives: functions of a model and data whose gradients are models, and the minimisation problem of a search.

The problem is to minimise −(log evidence + log priors) over the unconstrained vector, inside a box.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import jax
import numpy as np
from scipy.linalg import solve_triangular

from covary._arguments import explained_function
from covary._checks import NotPositiveDefinite, fail
from covary._precision import cast, precision, traced
from covary._types import Array
from covary.data import Data
from covary.gram.base import AbstractGram, Workspace
from covary.gram.dense import Dense
from covary.gram.traced import traced_log_evidence_and_grad
from covary.inference.base import AbstractInference, Gradient, Memory
from covary.inference.condition import as_model, check_both, check_kinds, posed, separated
from covary.inference.exact import Exact
from covary.inference.plan import AbstractPlan
from covary.kernels import tiles
from covary.likelihoods.gaussian import Gaussian
from covary.means.coordinates import orthogonalising
from covary.model import Model
from covary.optimise.base import UNBOUNDED, Function
from covary.parameters import POSITIVE, Frame, Packing, parameters
from covary.selection.priors import Priors
from covary.selection.starts import target_scale, working
from covary.selection.traced import traced_log_evidence

BOX = 12.0  # nats: maximum distance of a positive parameter from the scale of the data
NOISE_FLOOR = 1e-6  # of var(y)
LIMITLESS = f"{UNBOUNDED}: the objective keeps improving as the mean grows; give the mean a prior, or choose another"


@explained_function("log_evidence")
def log_evidence(
    model: Model, data: Data, *, inference: AbstractInference = Exact(), gram: AbstractGram | AbstractPlan = Dense()
) -> float:
    """Compute the log marginal likelihood log p(y | X) (R&W, eq. 2.30), exactly or as approximated by the inference.

    Under ``jax.grad``, ``jax.jit`` and ``jax.vmap`` over models or data, the result is a JAX scalar; this requires exact
    inference with the dense gram and Gaussian noise. Values are not checked then, and no jitter is added: if a matrix has no
    Cholesky factor or numbers overflow, the result is −∞ with zero gradient. Trace it inside ``with jax.enable_x64(True):``,
    unless the data are float32.

    Examples
    --------
    >>> from covary import GP, Data, Model
    >>> round(log_evidence(Model(GP("Matern52()")), Data([[0.0], [1.0]], [0.0, 1.0])), 4)
    -2.7639
    """
    check_kinds("log_evidence", model, data, inference, gram)
    if traced(model, data):
        return traced_log_evidence(as_model(model), data, inference, gram)  # type: ignore[return-value]  # a traced float
    if isinstance(gram, AbstractPlan):
        check_both("log_evidence", as_model(model), data)
        return gram.log_evidence(as_model(model), data, inference)
    with posed("log_evidence", model, data, inference, gram) as (plain, data, _, bound):
        return inference.solve(plain, data, bound).log_evidence


@explained_function("log_evidence_and_grad")
def log_evidence_and_grad(
    model: Model,
    data: Data,
    *,
    inference: AbstractInference = Exact(),
    gram: AbstractGram | AbstractPlan = Dense(),
    fixed_jitter: float | None = None,
    workspace: Memory | None = None,
) -> tuple[float, Model]:
    """Compute the log evidence and its gradient, as a model that holds the derivatives (R&W, eq. 5.9).

    The gradient costs at most about twice as much as the value, for any number of parameters.

    Examples
    --------
    >>> from covary import GP, Data, Model
    >>> value, grad = log_evidence_and_grad(Model(GP("Matern52()")), Data([[0.0], [1.0]], [0.0, 1.0]))
    >>> round(float(grad.kernel.lengthscale), 4)
    0.0376
    """
    check_kinds("log_evidence_and_grad", model, data, inference, gram)
    if isinstance(gram, AbstractPlan):
        gram.refuse("log_evidence_and_grad", {"fixed_jitter": fixed_jitter is not None, "workspace": workspace is not None})
        check_both("log_evidence_and_grad", as_model(model), data)
        return gram.log_evidence_and_grad(as_model(model), data, inference)
    value, gradient = evidence_and_gradient(model, data, inference, gram, fixed_jitter=fixed_jitter, memory=workspace)
    return value, gradient.model


def evidence_and_gradient(
    model: Model,
    data: Data,
    inference: AbstractInference,
    gram: AbstractGram,
    *,
    fixed_jitter: float | None = None,
    memory: Memory | None = None,
) -> tuple[float, Gradient]:
    """Compute the log evidence and its gradient, including that for the inducing inputs if these are learned."""
    with posed("log_evidence_and_grad", model, data, inference, gram, memory) as (model, data, gram, bound):
        if isinstance(inference, Exact) and gram.on_device(data.rows):
            value, slopes = traced_log_evidence_and_grad(model, data, jitter=fixed_jitter or 0.0)
            return value, Gradient(slopes)
        solved = inference.solve(model, data, bound, fixed_jitter=fixed_jitter, memory=memory)
        return solved.log_evidence, inference.gradient(model, data, bound, solved, consume=True)


@runtime_checkable
class WithGradient(Protocol):
    """A user-defined objective with a gradient, as a model that holds the derivatives."""

    def value_and_grad(self, model: Model, data: Data, /) -> tuple[float, Model]: ...


Custom: TypeAlias = Callable[[Model, Data], Array] | WithGradient
Slopes: TypeAlias = Callable[[Model], tuple[jax.Array, Model]]


class Value(NamedTuple):
    """An objective at a point: its value, and its gradients for the vector and for the inducing inputs if learned."""

    value: float
    slope: np.ndarray
    inducing: np.ndarray | None = None


Evidence: TypeAlias = Callable[[Model], Value]


class Objective:
    """Minus (log evidence plus log priors) as a function of the unconstrained vector, for any subset of the rows."""

    def __init__(
        self,
        packing: Packing[Model],
        priors: Priors,
        data: Data,
        inference: AbstractInference,
        gram: AbstractGram,
        custom: Custom | None = None,
        box: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        self.packing, self.priors, self.data = packing, priors, data
        self.box = packing.box() if box is None else box
        self.inference, self.gram, self.custom = inference, gram, custom
        self.jitter: float | None = gram.fixed_jitter

    def of(
        self, packing: Packing[Model], *, inference: AbstractInference | None = None, gram: AbstractGram | None = None
    ) -> Objective:
        """Return the same objective with the parameters of another model, or with another inference or gram."""
        custom, gram = self.custom, gram or self.gram
        other = Objective(packing, self.priors, self.data, inference or self.inference, gram, custom, self.box)
        other.jitter = self.jitter
        return other

    def evidence_on(self, data: Data, gram: AbstractGram | None = None) -> Evidence:
        """Return the objective on these rows and its gradient for the vector, without priors; it is warm-started."""
        if self.custom is not None:
            return self._custom_on(data)
        memory = Memory()

        def evidence(model: Model) -> Value:
            value, slopes = evidence_and_gradient(
                model, data, self.inference, gram or self.gram, fixed_jitter=self.jitter, memory=memory
            )
            return Value(value, self.packing.pull(model, slopes.model), slopes.inducing)

        return evidence

    def spread(self, theta: np.ndarray, data: Data, gram: AbstractGram | None = None) -> float:
        """Return the spread of the posterior mean over these rows, relative to that of the target; infinity if unknown."""
        if isinstance(self.inference, Exact):
            return np.inf
        memory = Memory()
        model = self.packing.unpack(theta)
        try:
            self.height(model, data, memory, gram)
        except NotPositiveDefinite:
            return np.inf
        return memory.spread / target_scale(working(model, data))

    def height(self, model: Model, data: Data, memory: Memory, gram: AbstractGram | None = None) -> float:
        """Compute the evidence without its gradient, with the fixed jitter of the search."""
        with posed("learn", model, data, self.inference, gram or self.gram, Workspace()) as (model, data, _, bound):
            return self.inference.solve(model, data, bound, fixed_jitter=self.jitter, memory=memory).log_evidence

    def value(self, theta: np.ndarray, data: Data, gram: AbstractGram | None = None) -> float:
        """Compute the function to minimise, without its gradient."""
        model = self.packing.unpack(theta)
        on_accelerator = isinstance(self.inference, Exact) and (gram or self.gram).on_device(data.rows)
        if self.custom is not None or on_accelerator:
            return self.at(data, gram)(theta)[0]
        try:
            with np.errstate(all="ignore"):
                value = self.height(model, data, Memory(), gram) + self.priors.log_prob_and_grad(self.packing, model)[0]
        except NotPositiveDefinite:
            return np.inf
        return -value if np.isfinite(value) else np.inf

    def _custom_on(self, data: Data) -> Evidence:
        """Return a user-defined objective on these rows, with the user's gradient or one computed by JAX."""
        custom = self.custom
        if isinstance(custom, WithGradient):

            def given(model: Model) -> Value:
                value, slopes = custom.value_and_grad(model, data)
                return Value(float(value), self.packing.pull(model, slopes))

            return given
        assert custom is not None
        return Differentiated(custom, data, self.packing)

    def evaluated(self, theta: np.ndarray, evidence: Evidence) -> Value:
        """Compute the function to minimise from the result of :meth:`evidence_on`; infinity if the factorisation fails."""
        model = self.packing.unpack(theta)
        try:
            with np.errstate(all="ignore"):
                value, slope, inducing = evidence(model)
        except NotPositiveDefinite:
            return Value(np.inf, np.zeros_like(theta))
        more, own = self.priors.log_prob_and_grad(self.packing, model)
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return Value(np.inf, np.zeros_like(theta))
        return Value(-(value + more), -(slope + own), None if inducing is None else -inducing)

    def at(self, data: Data, gram: AbstractGram | None = None) -> Function:
        """Return the function to minimise on these rows."""
        return Remembering(self, self.evidence_on(data, gram))


class Remembering:
    """An objective on some rows as a function to minimise, which caches its last point."""

    def __init__(self, problem: Objective, evidence: Evidence) -> None:
        self.problem, self.evidence = problem, evidence
        self.last: tuple[np.ndarray, Value] | None = None

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        if self.last is None or not np.array_equal(theta, self.last[0]):
            self.last = np.array(theta), self.problem.evaluated(theta, self.evidence)
        found = self.last[1]
        return found.value, found.slope.copy()


class Differentiated:
    """A user-defined function of model and data, differentiated by JAX and compiled, unless it branches on values."""

    def __init__(self, function: Callable[[Model, Data], Array], data: Data, packing: Packing[Model]) -> None:
        self.data, self.packing = data, packing
        self.plain: Slopes = jax.value_and_grad(lambda model: function(model, data))
        self.call: Slopes = jax.jit(self.plain)

    def __call__(self, model: Model) -> Value:
        given = cast(model, self.data.dtype)
        with precision(self.data.dtype):
            try:
                value, slopes = self._called(given)
            except TypeError as error:
                what = f"the objective fails ({type(error).__name__}: {' '.join(str(error).split())[:200]})"
                do = "give a function (model, data) that returns one number, written with jax.numpy"
                raise fail("learn", what, do) from error
        return Value(float(value), self.packing.pull(model, slopes))

    def _called(self, model: Model) -> tuple[jax.Array, Model]:
        try:
            return self.call(model)
        except jax.errors.ConcretizationTypeError:
            self.call = self.plain
            return self.plain(model)


def difference_hessian(
    function: Function,
    x: np.ndarray,
    gradient: np.ndarray | None = None,
    *,
    step: float,
    central: bool = False,
) -> np.ndarray:
    """Compute the Hessian by differences of gradients: one evaluation per coordinate, two if central."""
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


def natural_coordinates(model: Model, data: Data, tie: Sequence[Sequence[str]], priors: Priors) -> Packing[Model]:
    r"""Return the free parameters as a vector independent of the units of X and y, with orthogonalised mean weights.

    Real parameters of the mean function are scaled by the spread of y. Linear weights of the mean, :math:`m = H\beta`, are
    replaced by their values on the rows: with :math:`H = QR`, :math:`\beta = s R^{-1}u`. A slope along years and the
    intercept at year zero, for example, are searched as the slope and the mean over the data. Weights with bounds keep
    their own coordinates, and those of the other weights are decoupled from them.
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
    R[free:, free:] = np.diag(np.linalg.norm(R[free:, free:], axis=0))  # every bound applies to a single coordinate
    return Packing(model, tie=tie, scale=scale, frame=Frame(paths, spread * solve_triangular(R, np.eye(len(R)))))


def box(
    packing: Packing[Model], priors: Priors, data: Data, theta0: np.ndarray, centre: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds from the model and uniform priors; else ±12 nats around scale and start for positive parameters.

    Gaussian noise stays above its floor, unless it has bounds or a uniform prior.
    """
    (lower, upper), (low, high) = packing.box(), priors.box(packing)
    lower, upper = np.maximum(lower, low), np.minimum(upper, high)
    if np.any(lower > upper):
        name = packing.names()[int(np.argmax(lower > upper))]
        raise fail("learn", f"the bounds and the uniform prior of {name} do not overlap", "widen one of them")
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


def limitless(
    packing: Packing[Model], priors: Priors, data: Data, theta: np.ndarray, bounds: tuple[np.ndarray, np.ndarray]
) -> bool:
    """Return whether the fit keeps improving as unbounded mean weights without priors grow."""
    free = [s for s in packing.slots if s.paths[0].startswith("mean.") and priors.of(s) is None]
    places = [i for s in free for i in range(s.start, s.stop) if np.isneginf(bounds[0][i]) and np.isposinf(bounds[1][i])]
    model = packing.unpack(theta)
    with precision(data.dtype):
        base = model.mean.evaluate(data.X)
        moved = [packing.unpack(theta + np.eye(len(theta))[i]).mean.evaluate(data.X) - base for i in places]
    return separated(model.likelihood, data, np.stack(moved, axis=1)) if moved else False


def needed_jitter(model: Model, data: Data, inference: AbstractInference, gram: AbstractGram) -> float | None:
    """Return the jitter that the start requires, fixed for the whole search; raise an error if no jitter is enough."""
    if gram.fixed_jitter is None:
        return None
    with posed("learn", model, data, inference, gram) as (model, data, _, bound):
        solved = inference.solve(model, data, bound)
        return 10 * solved.factor.jitter / float(np.mean(tiles.diag(bound.kernels[0], bound.X)))
