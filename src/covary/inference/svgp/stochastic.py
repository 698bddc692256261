"""Training on batches of rows: natural gradients for q, Adam for hyperparameters and inducing inputs.

Salimbeni, Eleftheriadis & Hensman (2018); Kingma & Ba (2015). Between steps, the sites that q adds to the prior are held fixed
instead of q itself, following Adam, Chang, Khan & Solin (2021). Holding q over whitened values slows the hyperparameters down
(on a test problem the bound was 8 nats below the optimum after 1,500 steps, but 0.01 nats after 400 steps with fixed sites).
Batches come from a counter-based generator, so that a run is determined by its seed and can be interrupted and resumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
from scipy import optimize

from covary._checks import NotPositiveDefinite
from covary._types import Parts
from covary.data import Data, Inputs
from covary.executors.checkpoint import Checkpoint, Result
from covary.executors.fingerprint import fingerprint
from covary.inference.svgp.collapsed import Sums
from covary.inference.svgp.expected import Rows
from covary.inference.svgp.variational import Run, Seen
from covary.inference.svgp.whitened import Whitened, WhitenedBound
from covary.likelihoods.gaussian import Gaussian
from covary.model import Model
from covary.optimise.base import INTERRUPTED, OUT_OF_TIME
from covary.parameters import Packing

if TYPE_CHECKING:
    from covary.gram.low_rank import LowRank
    from covary.inference.svgp.svgp import SVGP

FEWEST, MOST, PASSES = 1500, 10_000, 30  # minimum and maximum number of training steps, and passes over the data in between
HELD = 10  # rows per inducing input over which q averages
REACH, FINE = 12.0, 1e-6  # half-width and tolerance of the search for the log noise variance
SAVED = 30.0  # seconds between checkpoints


class HasPriors(Protocol):
    """Priors over the parameters of a packing."""

    def log_prob_and_grad(self, packing: Packing[Model], model: Model, /) -> tuple[float, np.ndarray]:
        """Compute the log density and its gradient with respect to the unconstrained vector."""
        ...


@dataclass(frozen=True)
class Trained:
    """The result of training: the vector, the model, the inducing inputs, q, the bound plus log priors, and a record.

    ``history`` holds (step, bound) as reported to ``note``; ``status`` is ``finished``, ``out of time`` or
    ``interrupted`` (q is then not re-optimised, and the value is an average over the last steps).
    """

    theta: np.ndarray
    model: Model
    Z: np.ndarray
    q: Whitened
    value: float
    status: str
    steps: int
    seconds: float
    history: tuple[tuple[int, float], ...] = field(repr=False)


@dataclass(frozen=True)
class State:
    """The state of training after a number of steps."""

    step: int
    x: np.ndarray  # the unconstrained vector, then the inducing inputs in units of their spread
    first: np.ndarray  # Adam's moments
    second: np.ndarray
    q: Whitened
    before: np.ndarray  # x of the last step, at which q is defined
    total: float = 0.0  # the averaged bound, without the divergence of q, times ``weight``
    weight: float = 0.0
    history: tuple[tuple[int, float], ...] = ()
    bound: WhitenedBound | None = None  # the kernels and inducing inputs there, if available


class Training:
    """One call of :meth:`SVGP.train`."""

    def __init__(
        self,
        how: SVGP,
        packing: Packing[Model],
        priors: HasPriors | None,
        data: Data,
        gram: LowRank,
        key: int,
        box: tuple[np.ndarray, np.ndarray] | None,
        learn_inducing: bool,
    ) -> None:
        self.how, self.packing, self.priors, self.key, self.moving = how, packing, priors, int(key), learn_inducing
        model, n = packing.model, data.rows
        gram, data = gram.prepare(model, data, key=key)
        self.X, self.rows = data.X.with_x(np.asarray(data.X.x, np.float64)), Rows.of("inference.SVGP", model.likelihood, data)
        bound = gram.bind(model.prior.kernels, data.X.take(slice(0, 1)), model.prior.basis)
        Run.of(model, data.take(slice(0, 1)), bound)  # the other checks
        self.Z, self.jitter = bound.Z.with_x(np.asarray(bound.Z.x, np.float64)), bound.gram.jitter
        spread = self.Z.x.std(0)
        self.unit = 2.0 ** np.round(np.log2(np.where(spread > 0, spread, 1.0)))  # powers of two, to avoid rounding
        self.batch = min(how.batch_size, n)
        self.natural = how.natural or min(1.0, self.batch / (HELD * self.Z.rows))
        self.total = how.steps or int(np.clip(PASSES * n / self.batch, FEWEST, MOST))
        lower, upper = packing.box() if box is None else box
        free = np.full(self.Z.x.size, np.inf)
        self.lower, self.upper = np.concatenate([lower, -free]), np.concatenate([upper, free])
        alone = [slot.start for slot in packing.slots if slot.paths == ("likelihood.variance",)]
        plain = isinstance(model.likelihood, Gaussian) and self.rows.noise is None
        self.noise = alone[0] if alone and plain else None  # the index in the vector of a noise level common to all rows
        self.visited = np.inf  # minimum seconds per pass over one batch
        self._order: tuple[int, np.ndarray] = (-1, np.empty(0, int))

    def draw(self, step: int) -> np.ndarray:
        """Return the rows of a step; every pass over the data has its own order, from the seed and the pass number."""
        per = max(1, self.X.rows // self.batch)
        turn, at = divmod(step, per)
        if self._order[0] != turn:
            generator = np.random.Generator(np.random.Philox(key=np.array([self.key, turn], np.uint64)))
            self._order = turn, generator.permutation(self.X.rows)
        return np.sort(self._order[1][at * self.batch : (at + 1) * self.batch])

    def place(self, x: np.ndarray) -> tuple[Model, Inputs]:
        """Return the model and the inducing inputs at a vector."""
        size = self.packing.size
        return self.packing.unpack(x[:size]), self.Z.with_x(x[size:].reshape(self.Z.x.shape) * self.unit)

    def at(self, x: np.ndarray, rows: Parts) -> Run:
        """Return a run of the model at a vector on some rows, scaled to all rows."""
        model, Z = self.place(x)
        X = self.X.take(rows)
        bound = WhitenedBound(model.prior.kernels, X, Z, self.jitter, model.likelihood.latents)
        return Run(model, X, self.rows.take(rows), bound, self.X.rows / X.rows)

    def begin(self) -> State:
        """Optimise the noise and q on a few thousand rows, and return the initial state.

        If the hyperparameters were learned with a dense gram, the noise must increase by the variance that inducing inputs
        cannot explain. The step size of Adam is limited, so the time limit could stop it before the noise is large enough.
        """
        x = np.concatenate([self.packing.pack(self.packing.model), (self.Z.x / self.unit).ravel()])
        x = np.clip(x, self.lower, self.upper)
        generator = np.random.Generator(np.random.Philox(key=np.array([self.key, 2**64 - 1], np.uint64)))
        count = min(self.X.rows, max(4 * self.Z.rows, 2 * self.batch))
        some = np.sort(generator.permutation(self.X.rows)[:count])
        if self.noise is not None:
            x = self.levelled(x, Sums.of(self.at(x, some)))
        q, _, _, _ = self.at(x, some).settle(None, 1e-2, 30)
        zero = np.zeros_like(x)
        return State(0, x, zero, zero, q, x)

    def levelled(self, x: np.ndarray, sums: Sums) -> np.ndarray:
        """Return the vector with the optimal noise given all other parameters, including priors."""
        assert self.noise is not None
        at = self.noise

        def value(level: float) -> float:
            model = self.place(with_entry(x, at, level))[0]
            return sums.bound(_noise(model)) + self.preferred(model)

        ends = max(self.lower[at], x[at] - REACH), min(self.upper[at], x[at] + REACH)
        found: optimize.OptimizeResult = optimize.minimize_scalar(
            lambda level: -value(level), bounds=ends, method="bounded", options={"xatol": FINE}
        )
        return with_entry(x, at, found.x) if -found.fun > value(float(x[at])) else x

    def preferred(self, model: Model) -> float:
        """Return the log priors at a model."""
        return 0.0 if self.priors is None else self.priors.log_prob_and_grad(self.packing, model)[0]

    def step(self, state: State, decay: float) -> State:
        """Take one step on one batch."""
        rows, x, before = self.draw(state.step), state.x, state.before
        moments = state.first, state.second
        run = self.at(x, rows)
        for _ in range(29):  # if K(Z, Z) has no factor, the last step was too long
            try:
                _ = run.bound.roots
                break
            except NotPositiveDefinite:
                x, moments = (x + before) / 2, (np.zeros_like(x), state.second)
                run = self.at(x, rows)
        q, began = self.carried(state, run), time.monotonic()
        seen = run.visit(q)
        self.visited = min(self.visited, time.monotonic() - began)
        gradient, inducing = run.gradient(seen, inputs=self.moving, sites=True)
        size = self.packing.size
        slope = np.concatenate([self.packing.pull(run.model, gradient), np.zeros(self.Z.x.size)])
        extra = 0.0
        if self.priors is not None:
            extra, more = self.priors.log_prob_and_grad(self.packing, run.model)
            slope[:size] += more
        if self.moving:
            slope[size:] = (inducing * self.unit).ravel()
        t = state.step + 1
        first, second = 0.9 * moments[0] + 0.1 * slope, 0.999 * moments[1] + 0.001 * slope**2
        move = first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.999**t)) + 1e-12)
        new = np.clip(x + self.how.rate * decay * move, self.lower, self.upper)
        value = seen.fit + extra  # the divergence of q is subtracted when the bound is reported
        state = replace(state, step=t, x=new, before=x, first=first, second=second, q=self.follow(run, seen, decay))
        return replace(state, bound=run.bound, total=0.98 * state.total + 0.02 * value, weight=0.98 * state.weight + 0.02)

    def carried(self, state: State, run: Run) -> Whitened:
        """Return q at the hyperparameters of this step, with the sites of the last step if the result is proper."""
        q = state.q.moved(state.bound or self.at(state.before, slice(0, 1)).bound, run.bound)
        return q if q.proper else state.q

    def follow(self, run: Run, seen: Seen, decay: float) -> Whitened:
        """Return q after a fraction of a natural-gradient step, halved if it would lower the bound of this batch."""
        assert seen.target is not None
        share = self.natural * decay
        if isinstance(run.model.likelihood, Gaussian):  # q is proper for any fraction
            return seen.q.towards(seen.target, share)
        for _ in range(10):
            try:
                q = run.centred(seen.q.towards(seen.target, share))
                if run.visit(q, target=False).value >= seen.value:
                    return q
            except NotPositiveDefinite:
                pass
            share /= 2
        return seen.q

    def run(
        self,
        max_time: float | None,
        note: Callable[[int, int, float], None] | None,
        checkpoint: str | PathLike[str] | None,
    ) -> Trained:
        """Run all steps, and optimise q at the end."""
        began = saved = time.monotonic()
        store = None if checkpoint is None else Checkpoint(checkpoint, self.fingerprint(), kind="training", who="SVGP.train")
        state = None if store is None else _saved(store)
        status, stride = "finished", max(1, self.total // 200)
        try:
            state = state or self.begin()
            while state.step < self.total:
                passed = 0.0 if max_time is None else (time.monotonic() - began) / self.given(max_time)
                if passed >= 1:
                    status = OUT_OF_TIME
                    break
                decay = 0.5 * (1 + np.cos(np.pi * max(state.step / self.total, passed)))
                state = self.step(state, decay)
                if state.step % stride == 0 or state.step == self.total:
                    state = replace(state, history=(*state.history, (state.step, state.total / state.weight - state.q.kl)))
                    if note is not None:
                        note(*(state.step, self.total, state.history[-1][1]))
                if store is not None and time.monotonic() - saved > SAVED:
                    _save(store, state)
                    saved = time.monotonic()
            if store is not None:
                _save(store, state)
            state, q, value = self.end(state)
        except KeyboardInterrupt:
            if state is None:
                raise
            status, q = INTERRUPTED, state.q
            if store is not None:
                _save(store, state)
            value = state.total / state.weight - q.kl if state.weight else -np.inf
        model, Z = self.place(state.x)
        took = time.monotonic() - began
        return Trained(state.x[: self.packing.size], model, Z.x, q, value, status, state.step, took, state.history)

    def given(self, max_time: float) -> float:
        """Return the seconds for the steps; at most half of the time is reserved for the final pass over all rows."""
        last = self.visited * self.X.rows / self.batch if np.isfinite(self.visited) else 0.0
        return max(max_time - last, max_time / 2)

    def end(self, state: State) -> tuple[State, Whitened, float]:
        """Optimise q on all rows, and the noise if one pass is enough for both; return them with the bound plus log priors."""
        run = self.at(state.x, slice(None))
        if self.noise is None:
            q, seen, _, _ = run.settle(state.q, self.how.tolerance, self.how.max_passes)
            return state, q, seen.value + self.preferred(run.model)
        sums = Sums.of(run)
        x = self.levelled(state.x, sums)
        model = self.place(x)[0]
        level = _noise(model)
        return replace(state, x=x), sums.q(level), sums.bound(level) + self.preferred(model)

    def fingerprint(self) -> str:
        """Return a hash of everything that must be unchanged for a run to be resumed."""
        how = self.how, self.key, self.moving, self.total, self.jitter
        return fingerprint(*how, self.packing, self.priors, self.X, self.rows, self.Z, self.lower, self.upper)


def _noise(model: Model) -> float:
    """Return the variance of Gaussian noise."""
    assert isinstance(model.likelihood, Gaussian)
    return float(model.likelihood.variance)


def with_entry(x: np.ndarray, at: int, value: float) -> np.ndarray:
    """Return the vector with one entry replaced."""
    return np.concatenate([x[:at], [value], x[at + 1 :]])


def _save(store: Checkpoint, state: State) -> None:
    """Save the state in place of the previous one."""
    arrays: dict[Result, Result] = {name: getattr(state, name) for name in ("x", "first", "second", "before")}
    arrays |= {"shift": state.q.shift, "precision": np.stack(state.q.precision)}
    arrays["history"] = np.array(state.history, np.float64).reshape(-1, 2)
    store.replace("state", (state.step, float(state.total), float(state.weight), arrays))


def _saved(store: Checkpoint) -> State | None:
    """Return the state that was saved last, or None."""
    found = cast("tuple[int, float, float, dict[str, np.ndarray]] | None", store.get("state"))
    if found is None:
        return None
    step, total, weight, arrays = found
    q = Whitened(np.asfortranarray(arrays["shift"]), tuple(np.asfortranarray(P) for P in arrays["precision"]))
    history = tuple((int(step), float(value)) for step, value in arrays["history"])
    return State(step, arrays["x"], arrays["first"], arrays["second"], q, arrays["before"], total, weight, history)
