"""Time limits of searches, with a simulated clock: nothing is started that would exceed the limit."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest

from covary import GP, Data, GPRegressor, Model, learn, log_evidence_and_grad
from covary.families.gaussian_process import fitting
from covary.kernels import Matern52
from covary.likelihoods import Gaussian
from covary.optimise import lbfgs, quasi_newton
from covary.optimise.base import Clock, interruptible, over

RNG = np.random.default_rng(3)
X = RNG.uniform(0, 10, (820, 1))
DATA = Data(X, np.sin(X[:, 0]) + 0.1 * RNG.normal(size=820))
MODEL = Model(GP(1.0 * Matern52(3.0)), likelihood=Gaussian(0.5))


class Watch:
    """The time, which passes only when told to, or by so much whenever it is looked at."""

    def __init__(self, step: float = 0.0) -> None:
        self.time, self.step = 0.0, step

    def __call__(self) -> float:
        self.time += self.step
        return self.time


class Slow:
    """The log evidence at so many seconds a row, whatever the machine."""

    def __init__(self, watch: Watch, seconds: Any) -> None:
        self.watch, self.seconds, self.rows = watch, seconds, []

    def value_and_grad(self, model: Any, data: Data) -> tuple[float, Any]:
        self.watch.time += self.seconds(data.rows)
        self.rows.append(data.rows)
        return log_evidence_and_grad(model, data)


def cubed(rows: int) -> float:
    return 10.0 * (rows / 400) ** 2 * (rows + 2000) / 2400


def test_a_clock_counts_what_comes_next_and_what_is_kept() -> None:
    watch = Watch()
    clock = Clock(100.0, now=watch)
    assert clock.left() == 100
    with clock.timing("step"):
        watch.time += 30
    assert clock.took["step"] == 30
    assert not clock.over(70.0)
    assert clock.over(71.0)
    clock.kept = 50.0
    assert clock.left() == 20
    assert over(clock, 30.0)
    assert not over(clock)
    assert Clock.of(clock) is clock
    assert not Clock(now=watch).over(1e12)


@pytest.mark.parametrize("optimise", ["lbfgs", "quasi_newton"])
def test_no_step_is_begun_that_would_be_late(optimise: str) -> None:
    watch, wide = Watch(), np.full(4, 50.0)

    def slow(x: np.ndarray) -> tuple[float, np.ndarray]:
        watch.time += 10.0
        return float((x**4).sum()), 4 * x**3

    given: Any = {"lower": -wide, "upper": wide, "deadline": Clock(45.0, now=watch), "tolerance": 1e-12}
    x0 = np.array([3.0, 2.0, 5.0, 7.0])
    found = lbfgs(slow, x0, **given) if optimise == "lbfgs" else quasi_newton(slow, x0, np.eye(4), **given)[0]
    assert found.status == "out of time"
    assert watch.time == 40.0
    assert found.steps == 4


@pytest.mark.parametrize("seconds", [120.0, 200.0])
def test_a_search_ends_in_time_on_every_level(seconds: float) -> None:
    watch = Watch()
    slow = Slow(watch, cubed)
    found = learn(MODEL, DATA, objective=slow, max_time=Clock(seconds, now=watch), n_restarts=20)
    assert found.status == "out of time"
    assert watch.time <= seconds
    assert found.history[-1][0] == 820  # told on all rows
    assert found.value == pytest.approx(log_evidence_and_grad(found.model, DATA)[0])


def test_what_follows_the_search_is_kept_back() -> None:
    ends = []
    for reserve in (0.0, 2.0):
        watch = Watch()
        learn(MODEL, DATA, objective=Slow(watch, cubed), max_time=Clock(200.0, now=watch), n_restarts=20, reserve=reserve)
        ends.append(watch.time)
    assert ends[1] <= 200 - 2 * cubed(820) < ends[0] <= 200


def test_time_enough_changes_nothing() -> None:
    some = DATA.take(slice(0, 100))
    free, timed = (learn(MODEL, some, max_time=limit) for limit in (None, Clock(1e9, now=Watch())))
    assert timed.status == free.status == "converged"
    np.testing.assert_array_equal(timed.theta, free.theta)


def test_one_clock_for_the_whole_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choosing, learning, conditioning and local error bars share the seconds; what is left out is said."""
    monkeypatch.setattr(fitting, "EXACT_ROWS", 50)
    X2 = np.column_stack([X[:80], RNG.normal(size=(80, 1))])
    for seconds, said in ((40.0, True), (1e6, False)):
        monkeypatch.setattr(fitting, "Clock", lambda limit, s=seconds: Clock(s, now=Watch(1.0)))
        model = GPRegressor("1.0 * Matern52(lengthscale=[1.0, 1.0])", max_time=1.0, n_restarts=0, random_state=0)
        model.fit(X2, DATA.y[:80])
        assert model.method_.name == "vecchia"
        assert model.learned_ is not None
        assert (model.learned_.status == "out of time") == said
        assert ("the time limit left no time for local error bars" in model.method_.why) == said
        assert np.isfinite(model.predict(X2[:5], return_std=True)).all()


def test_a_clock_that_was_interrupted_leaves_no_handler() -> None:
    before, clock = signal.getsignal(signal.SIGINT), Clock()
    clock.interrupted = True
    with interruptible(clock):
        assert clock.over()
    assert signal.getsignal(signal.SIGINT) is before
