"""Training on batches of rows: natural gradients for q, Adam for hyperparameters and inducing inputs.

Salimbeni, Eleftheriadis & Hensman (2018); Kingma & Ba (2015). From one step to the next not q is held but the sites it adds to
the prior, in the manner of Adam, Chang, Khan & Solin (2021): a q that is told by whitened values holds the hyperparameters back
(on a test problem they stood 8 nats below the best bound after 1,500 steps, and 0.01 nats with sites held after 400). Batches
come from a counter-based generator, so that a run is told by its seed and can be broken off and taken up again.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import optimize

from covary._checks import CovaryError, NotPositiveDefinite, fail
from covary._read import read_arrays
from covary._write import Unfit, where, whole_file
from covary.data import Data, Inputs
from covary.inference.collapsed import Sums
from covary.inference.expected import Rows
from covary.inference.variational import Run, Seen
from covary.inference.whitened import Whitened, WhitenedBound
from covary.likelihoods.gaussian import Gaussian

FEWEST, MOST, PASSES = 1500, 10_000, 30  # steps of training, and the passes over the data between the two
HELD = 10  # rows for every inducing input that q remembers
REACH, FINE = 12.0, 1e-6  # how far from where it stands the logarithm of the noise variance is sought, and how finely
SAVED = 30.0  # seconds between two checkpoints


@dataclass(frozen=True)
class Trained:
    """What training found: the vector, the model, the inducing inputs, q, the bound plus log priors, and how it went.

    ``history`` holds (step, bound), as noted; ``status`` is ``finished``, ``reached max_time`` or ``interrupted`` (then q is as
    training left it, and the value an average over the last steps).
    """

    theta: np.ndarray
    model: Any
    Z: np.ndarray
    q: Whitened
    value: float
    status: str
    steps: int
    seconds: float
    history: tuple[tuple[int, float], ...] = field(repr=False)


@dataclass(frozen=True)
class State:
    """Where training stands after so many steps."""

    step: int
    x: np.ndarray  # the unconstrained vector, then the inducing inputs in units of their spread
    first: np.ndarray  # Adam's moments
    second: np.ndarray
    q: Whitened
    before: np.ndarray  # x of the last step, at which q is told
    total: float = 0.0  # the averaged bound, without q's divergence, times ``weight``
    weight: float = 0.0
    history: tuple[tuple[int, float], ...] = ()
    bound: WhitenedBound | None = None  # the kernels and inducing inputs there, if at hand


class Training:
    """One call of :meth:`SVGP.train`."""

    def __init__(
        self, how: Any, packing: Any, priors: Any, data: Data, gram: Any, key: int, box: Any, learn_inducing: bool
    ) -> None:
        self.how, self.packing, self.priors, self.key, self.moving = how, packing, priors, int(key), learn_inducing
        model, n = packing.model, data.rows
        gram, data = gram.prepare(model, data, key=key)
        bound = gram.bind(model.prior.kernels, data.X.take(slice(0, 1)), model.prior.basis)
        Run.of(model, data.take(slice(0, 1)), bound)  # the checks
        self.X, self.rows = data.X.with_x(np.asarray(data.X.x, np.float64)), Rows.of("inference.SVGP", model.likelihood, data)
        self.Z, self.jitter = bound.Z.with_x(np.asarray(bound.Z.x, np.float64)), bound.gram.jitter
        spread = self.Z.x.std(0)
        self.unit = 2.0 ** np.round(np.log2(np.where(spread > 0, spread, 1.0)))  # powers of two: nothing is rounded
        self.batch = min(how.batch_size, n)
        self.natural = how.natural or min(1.0, self.batch / (HELD * self.Z.rows))
        self.total = how.steps or int(np.clip(PASSES * n / self.batch, FEWEST, MOST))
        lower, upper = packing.box() if box is None else box
        free = np.full(self.Z.x.size, np.inf)
        self.lower, self.upper = np.concatenate([lower, -free]), np.concatenate([upper, free])
        alone = [slot.start for slot in packing.slots if slot.paths == ("likelihood.variance",)]
        plain = isinstance(model.likelihood, Gaussian) and self.rows.noise is None
        self.noise = alone[0] if alone and plain else None  # the place in the vector of a noise level for all rows
        self.visited = np.inf  # the least seconds that a visit of one batch took
        self._order: tuple[int, np.ndarray] = (-1, np.empty(0, int))

    def draw(self, step: int) -> np.ndarray:
        """The rows of a step: every pass over the data has an order of its own, told by the seed and its number."""
        per = max(1, self.X.rows // self.batch)
        turn, at = divmod(step, per)
        if self._order[0] != turn:
            generator = np.random.Generator(np.random.Philox(key=np.array([self.key, turn], np.uint64)))
            self._order = turn, generator.permutation(self.X.rows)
        return np.sort(self._order[1][at * self.batch : (at + 1) * self.batch])

    def place(self, x: np.ndarray) -> tuple[Any, Inputs]:
        """Model and inducing inputs at a vector."""
        size = self.packing.size
        return self.packing.unpack(x[:size]), self.Z.with_x(x[size:].reshape(self.Z.x.shape) * self.unit)

    def at(self, x: np.ndarray, rows: Any) -> Run:
        """The model at a vector beside some rows, scaled up to all."""
        model, Z = self.place(x)
        X = self.X.take(rows)
        bound = WhitenedBound(model.prior.kernels, X, Z, self.jitter, model.likelihood.latents)
        return Run(model, X, self.rows.take(rows), bound, self.X.rows / X.rows)

    def begin(self) -> State:
        """The noise and q settled on a few thousand rows; the rest as given.

        Where hyperparameters come from a dense gram, what inducing inputs cannot explain is noise that it did not have; Adam,
        which goes so far a step and no further, may be stopped by a clock before it has raised it to that.
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
        """The vector with the noise that is best beside everything else in it, priors included."""
        assert self.noise is not None
        at = self.noise

        def value(level: float) -> float:
            model = self.place(with_entry(x, at, level))[0]
            return sums.bound(float(model.likelihood.variance)) + self.preferred(model)

        ends = max(self.lower[at], x[at] - REACH), min(self.upper[at], x[at] + REACH)
        found: Any = optimize.minimize_scalar(
            lambda level: -value(level), bounds=ends, method="bounded", options={"xatol": FINE}
        )
        return with_entry(x, at, found.x) if -found.fun > value(float(x[at])) else x

    def preferred(self, model: Any) -> float:
        """The log priors at a model."""
        return 0.0 if self.priors is None else self.priors.log_prob_and_grad(self.packing, model)[0]

    def step(self, state: State, decay: float) -> State:
        """One step on one batch."""
        rows, x, before = self.draw(state.step), state.x, state.before
        moments = state.first, state.second
        for _ in range(30):  # where K(Z, Z) has no factor the last step was too long
            run = self.at(x, rows)
            try:
                _ = run.bound.roots
                break
            except NotPositiveDefinite:
                x, moments = (x + before) / 2, (np.zeros_like(x), state.second)
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
        value = seen.fit + extra  # q's divergence is taken off where the bound is noted
        state = replace(state, step=t, x=new, before=x, first=first, second=second, q=self.follow(run, seen, decay))
        return replace(state, bound=run.bound, total=0.98 * state.total + 0.02 * value, weight=0.98 * state.weight + 0.02)

    def carried(self, state: State, run: Run) -> Whitened:
        """q at the hyperparameters of this step: its sites are those of the last one, where that is a distribution."""
        q = state.q.moved(state.bound or self.at(state.before, slice(0, 1)).bound, run.bound)
        return q if q.proper else state.q

    def follow(self, run: Run, seen: Seen, decay: float) -> Whitened:
        """q after a share of the natural gradient of this batch, halved where it would lower the batch's own bound."""
        assert seen.target is not None
        share = self.natural * decay
        if isinstance(run.model.likelihood, Gaussian):  # a proper q, whatever the share
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

    def run(self, max_time: float | None, note: Any, checkpoint: Any) -> Trained:
        """All steps, and q settled at the end."""
        began = saved = time.monotonic()
        mark = self.fingerprint() if checkpoint is not None else ""
        state = None if checkpoint is None else _load(checkpoint, mark)
        status, stride = "finished", max(1, self.total // 200)
        try:
            state = state or self.begin()
            while state.step < self.total:
                passed = 0.0 if max_time is None else (time.monotonic() - began) / self.given(max_time)
                if passed >= 1:
                    status = "reached max_time"
                    break
                decay = 0.5 * (1 + np.cos(np.pi * max(state.step / self.total, passed)))
                state = self.step(state, decay)
                if state.step % stride == 0 or state.step == self.total:
                    state = replace(state, history=(*state.history, (state.step, state.total / state.weight - state.q.kl)))
                    if note is not None:
                        note(*(state.step, self.total, state.history[-1][1]))
                if checkpoint is not None and time.monotonic() - saved > SAVED:
                    _save(checkpoint, mark, state)
                    saved = time.monotonic()
            if checkpoint is not None:
                _save(checkpoint, mark, state)
            state, q, value = self.end(state)
        except KeyboardInterrupt:
            if state is None:
                raise
            status, q = "interrupted", state.q
            if checkpoint is not None:
                _save(checkpoint, mark, state)
            value = state.total / state.weight - q.kl if state.weight else -np.inf
        model, Z = self.place(state.x)
        took = time.monotonic() - began
        return Trained(state.x[: self.packing.size], model, Z.x, q, value, status, state.step, took, state.history)

    def given(self, max_time: float) -> float:
        """The seconds for steps: a visit of all rows comes after them, which may take half of the time and no more."""
        last = self.visited * self.X.rows / self.batch if np.isfinite(self.visited) else 0.0
        return max(max_time - last, max_time / 2)

    def end(self, state: State) -> tuple[State, Whitened, float]:
        """q settled on all rows, and the noise with it where one visit tells both; the bound there plus log priors."""
        run = self.at(state.x, slice(None))
        if self.noise is None:
            q, seen, _, _ = run.settle(state.q, self.how.tolerance, self.how.max_passes)
            return state, q, seen.value + self.preferred(run.model)
        sums = Sums.of(run)
        x = self.levelled(state.x, sums)
        model = self.place(x)[0]
        level = float(model.likelihood.variance)
        return replace(state, x=x), sums.q(level), sums.bound(level) + self.preferred(model)

    def fingerprint(self) -> str:
        """What must be the same for a run to be taken up again."""
        digest = hashlib.sha256(repr((self.how, self.key, self.moving, self.total, self.jitter)).encode())
        digest.update(repr((self.packing.names(), self.packing.model, getattr(self.priors, "by_path", None))).encode())
        tags = [self.X.tags[name] for name in sorted(self.X.tags)]
        rows = (self.rows.y, self.rows.weight, self.rows.noise, self.rows.scatter)
        for array in (self.X.x, *tags, *rows, self.Z.x, self.lower, self.upper):
            digest.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def with_entry(x: np.ndarray, at: int, value: float) -> np.ndarray:
    """The vector with another number in one place."""
    return np.concatenate([x[:at], [value], x[at + 1 :]])


def _save(path: Any, mark: str, state: State) -> None:
    """The state as plain arrays, whole or not at all."""
    arrays = {name: getattr(state, name) for name in ("x", "first", "second", "before")}
    numbers = np.array([state.step, state.total, state.weight])
    with whole_file(path, "SVGP.train(checkpoint=...)") as file:
        np.savez(
            file,
            **arrays,  # type: ignore[arg-type]
            mark=np.array(mark),
            numbers=numbers,
            shift=state.q.shift,
            precision=np.stack(state.q.precision),
            history=np.array(state.history, np.float64).reshape(-1, 2),
        )


def _load(path: Any, mark: str) -> State | None:
    """The state of a run of the same arguments; None where there is no file."""
    who = "SVGP.train(checkpoint=...)"
    place = where(path, stream=False)
    if isinstance(place, Unfit):
        raise fail(who, *place)
    if place.old is None:
        return None
    try:
        found = read_arrays(place.target)
        if str(found["mark"]) != mark:
            raise fail(
                who, f"{str(path)!r} is of another run (other data, model or options)", "remove it, or name another file"
            )
        numbers = [array for name, array in found.items() if name != "mark"]
        if not all(array.dtype == np.float64 for array in numbers) or not np.isfinite(found["x"]).all():
            raise ValueError("entries that are no numbers")
        q = Whitened(np.asfortranarray(found["shift"]), tuple(np.asfortranarray(P) for P in found["precision"]))
        history = tuple((int(step), float(value)) for step, value in found["history"])
        step, total, weight = (float(v) for v in found["numbers"])
        return State(int(step), found["x"], found["first"], found["second"], q, found["before"], total, weight, history)
    except CovaryError:
        raise
    except (OSError, ValueError, KeyError, TypeError):
        raise fail(who, f"{str(path)!r} is not a checkpoint", "remove it, or name another file") from None
