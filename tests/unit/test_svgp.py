"""SVGP: q, training on batches, checkpoints, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from covary import GP, Data, Model, condition, log_evidence, log_evidence_and_grad
from covary.distributions import LogNormal
from covary.gram import Dense, LowRank
from covary.inference.base import Memory
from covary.inference.svgp import SVGP, stochastic
from covary.inference.svgp.collapsed import Sums
from covary.inference.svgp.variational import Run
from covary.inference.svgp.whitened import Whitened, symmetric_product, weighted
from covary.kernels import Matern52, SquaredExponential
from covary.likelihoods import (
    Bernoulli,
    Gaussian,
    Poisson,
    Softmax,
    StudentT,
)
from covary.means import Constant
from covary.parameters import Packing, fixed, set_values
from covary.selection.priors import Priors, default_priors

RNG = np.random.default_rng(0)


def test_divergence_is_that_of_two_gaussians() -> None:
    root = RNG.standard_normal((5, 7))
    S, m = root @ root.T / 5 + 0.1 * np.eye(5), RNG.standard_normal(5)
    P = np.linalg.inv(S)
    q = Whitened(np.asfortranarray((P @ m)[:, None]), (np.asfortranarray(np.tril(P)),))
    wanted = 0.5 * (np.trace(S) + m @ m - 5 - np.linalg.slogdet(S)[1])
    assert q.kl == pytest.approx(wanted, rel=1e-10)
    np.testing.assert_allclose(q.means[:, 0], m, atol=1e-10)
    assert Whitened.prior(4, 3).kl == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(q.narrowed(0), np.eye(5) - S, atol=1e-10)
    A, w = RNG.standard_normal((3, 8)), RNG.standard_normal(8)
    np.testing.assert_allclose(weighted(np.asfortranarray(A), w), np.tril((A * w) @ A.T), atol=1e-12)


def test_a_symmetric_product_is_computed_below_its_diagonal() -> None:
    for n in (5, 130, 300):
        A, B = (np.asfortranarray(RNG.standard_normal((7, n))) for _ in range(2))
        C = np.asfortranarray(B @ B.T)
        wanted = np.tril(A.T @ C @ A)
        np.testing.assert_allclose(np.tril(symmetric_product(A, np.asfortranarray(C @ A))), wanted, atol=1e-9 * n)


# training -----------------------------------------------------------------------------------------------------------------
X = RNG.uniform(-2, 2, (400, 2))
F = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
Y = F + 0.2 * RNG.standard_normal(400)
Z = X[:20].copy()


def start(likelihood: Any, mean: float = 0.0) -> Model:
    return Model(GP(1.0 * SquaredExponential(lengthscale=[1.5, 1.5]), mean=Constant(fixed(mean))), likelihood=likelihood)


def test_training_comes_near_the_best_bound() -> None:
    """What a deterministic search over all rows finds for the same inducing inputs is never passed, and nearly reached."""
    from covary import learn

    data, model = Data(X, Y), start(Gaussian(0.3))
    best = learn(model, data, gram=LowRank(Z, rule="vfe")).value
    before = log_evidence(model, data, inference=SVGP(), gram=LowRank(Z))
    how = SVGP(100, steps=300, rate=0.05)
    held = how.train(Packing(model), None, data, LowRank(Z), learn_inducing=False)
    assert held.status == "finished"
    assert best - 0.2 < held.value < best + 1e-3
    assert held.value > before + 150
    np.testing.assert_array_equal(held.Z, Z)
    found = log_evidence(held.model, data, inference=SVGP(), gram=LowRank(held.Z))
    assert held.value == pytest.approx(found, abs=1e-6)
    moved = how.train(Packing(model), None, data, LowRank(Z))
    assert moved.value > best + 0.3
    assert np.abs(moved.Z - Z).max() > 0.01
    assert abs(moved.history[-1][1] - moved.value) < 10


@pytest.mark.parametrize("kind", ["labels", "counts", "classes", "outliers"])
def test_training_with_other_likelihoods(kind: str) -> None:
    likelihood, y = {
        "labels": (Bernoulli("logit"), (F > 0).astype(float)),
        "counts": (Poisson(), np.random.default_rng(1).poisson(np.exp(2 + F)).astype(float)),
        "classes": (Softmax(3), np.digitize(F, [-0.6, 0.6]).astype(float)),
        "outliers": (StudentT(0.5), np.where(np.arange(400) % 20 == 0, Y + 5, Y)),
    }[kind]
    model, data = start(likelihood), Data(X, y)
    before = log_evidence(model, data, inference=SVGP(), gram=LowRank(Z))
    found = SVGP(100, steps=40, rate=0.05).train(Packing(model), None, data, LowRank(Z))
    assert found.status == "finished"
    assert found.value > before + 5
    again = log_evidence(found.model, data, inference=SVGP(), gram=LowRank(found.Z))
    assert again == pytest.approx(found.value, abs=1e-4 * abs(again))


def test_training_with_priors_bounds_and_weights() -> None:
    model = start(Gaussian(0.3))
    data = Data(X, Y, weight=np.full(400, 2.0))
    priors = Priors(model, default_priors(model, data))
    packing = Packing(model)
    lower, upper = np.full(packing.size, -np.inf), np.full(packing.size, np.inf)
    upper[0] = np.log(1.2)  # the kernel's variance
    found = SVGP(100, steps=60, rate=0.1).train(packing, priors, data, LowRank(Z), box=(lower, upper), key=3)
    assert float(found.model.kernel.variance) <= 1.2 + 1e-12
    bound = log_evidence(found.model, data, inference=SVGP(), gram=LowRank(found.Z))
    assert found.value == pytest.approx(bound + priors.log_prob_and_grad(packing, found.model)[0], abs=1e-6)


def test_batches_are_unbiased() -> None:
    """The batches of a pass are all rows, and their gradients average to that of all rows at the same q."""
    model, data = start(Poisson()), Data(X, np.round(np.exp(F)))
    training = stochastic.Training(SVGP(100), Packing(model), None, data, LowRank(Z, learned=True), 0, None, True)
    rows = np.concatenate([training.draw(i) for i in range(4)])
    assert sorted(rows) == list(range(400))
    assert (training.draw(4) != training.draw(0)).any()
    state = training.begin()

    def gradient(rows: Any) -> np.ndarray:
        run = training.at(state.x, rows)
        found, inducing = run.gradient(run.visit(state.q))
        return np.concatenate([training.packing.pull(run.model, found), inducing.ravel()])

    parts = np.mean([gradient(training.draw(i)) for i in range(4)], axis=0)
    np.testing.assert_allclose(parts, gradient(slice(None)), rtol=1e-8, atol=1e-8)


def same(one: Any, other: Any) -> None:
    for field in ("theta", "Z"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
    np.testing.assert_array_equal(one.q.shift, other.q.shift)
    assert one.value == other.value
    assert one.history == other.history


def test_the_same_seed_gives_the_same_result() -> None:
    model, data, how = start(Gaussian(0.3)), Data(X, Y), SVGP(100, steps=12)
    first = how.train(Packing(model), None, data, LowRank(Z), key=5)
    same(first, how.train(Packing(model), None, data, LowRank(Z), key=5))
    assert (first.theta != how.train(Packing(model), None, data, LowRank(Z), key=6).theta).any()


@pytest.mark.parametrize("likelihood", [Gaussian(0.3), Bernoulli("logit")], ids=["numbers", "classes"])
def test_a_run_that_was_interrupted_ends_like_one_that_was_not(likelihood: Any, tmp_path: Path) -> None:
    y = Y if isinstance(likelihood, Gaussian) else (Y > 0).astype(float)
    model, data, how = start(likelihood), Data(X, y), SVGP(100, steps=14)
    whole = how.train(Packing(model), None, data, LowRank(Z))
    path = tmp_path / "run.npz"

    def stop(step: int, steps: int, value: float) -> None:
        assert steps == 14
        if step == 6:
            raise KeyboardInterrupt

    part = how.train(Packing(model), None, data, LowRank(Z), note=stop, checkpoint=path)
    assert part.status == "interrupted"
    assert part.steps == 6
    assert np.isfinite(part.value)
    seen: list[int] = []
    rest = how.train(Packing(model), None, data, LowRank(Z), note=lambda step, *_: seen.append(step), checkpoint=path)
    assert seen == list(range(7, 15))
    assert rest.status == "finished"
    same(whole, rest)
    same(whole, how.train(Packing(model), None, data, LowRank(Z), checkpoint=path))  # nothing left to do


def test_a_run_that_was_killed_goes_on_from_its_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, data, how, path = start(Gaussian(0.3)), Data(X, Y), SVGP(100, steps=14), tmp_path / "run.npz"
    whole = how.train(Packing(model), None, data, LowRank(Z))
    monkeypatch.setattr(stochastic, "SAVED", 0.0)

    def die(step: int, *_: Any) -> None:
        if step == 9:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        how.train(Packing(model), None, data, LowRank(Z), note=die, checkpoint=path)
    seen: list[int] = []
    same(whole, how.train(Packing(model), None, data, LowRank(Z), note=lambda s, *_: seen.append(s), checkpoint=path))
    assert seen[0] == 9  # the step of the crash was not written: it is done again


def test_interruption_without_a_checkpoint_keeps_what_there_is() -> None:
    model, data = start(Gaussian(0.3)), Data(X, Y)

    def stop(step: int, *_: Any) -> None:
        if step == 5:
            raise KeyboardInterrupt

    found = SVGP(100, steps=14).train(Packing(model), None, data, LowRank(Z), note=stop)
    assert (found.status, found.steps) == ("interrupted", 5)
    assert (found.theta != Packing(model).pack(model)).all()


def test_time_runs_out() -> None:
    model, data = start(Gaussian(0.3)), Data(X, Y)
    found = SVGP(100, steps=100_000).train(Packing(model), None, data, LowRank(Z), max_time=0.3)
    assert found.status == "out of time"
    assert 0 < found.steps < 100_000
    assert np.isfinite(found.value)


# noise where the steps are too few for it -------------------------------------------------------------------------------------
WIDE = np.random.default_rng(8).uniform(-3, 3, (3000, 2))
ROUGH = np.sin(2 * WIDE[:, 0]) * np.cos(WIDE[:, 1]) + 0.5 * np.random.default_rng(9).standard_normal(3000)


def far_off(noise: float) -> Model:
    """A start from which a few steps do not lead to the right noise."""
    return Model(GP(1.0 * Matern52(lengthscale=[1.0, 1.0])), likelihood=Gaussian(noise))


def surprise(found: Any) -> float:
    """The mean of squared errors at new rows over the variances stated there; 1 where they are as large as stated."""
    learned, new = Data(WIDE[:2000], ROUGH[:2000]), slice(2000, None)
    said = condition(found.model, learned, inference=SVGP(), gram=LowRank(found.Z)).predict(WIDE[new]).y
    return float(((ROUGH[new] - said.mean) ** 2 / said.variance).mean())


@pytest.mark.parametrize("noise", [0.005, 20.0])
def test_a_run_of_few_steps_is_as_sure_as_it_is_right(noise: float) -> None:
    """What a clock leaves of a run, told by steps. Measured: 0.93; by Adam alone 19 from little noise, 0.017 from much."""
    data = Data(WIDE[:2000], ROUGH[:2000])
    found = SVGP(200, steps=10).train(Packing(far_off(noise)), None, data, LowRank(WIDE[:100].copy()))
    assert found.steps == 10
    assert 0.7 < surprise(found) < 1.2


@pytest.mark.parametrize("noise", [0.005, 20.0])
def test_an_interrupted_run_is_as_sure_as_it_is_right(noise: float) -> None:
    """Measured: 0.83; by Adam alone 20 and 0.018."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    data = Data(WIDE[:2000], ROUGH[:2000])
    found = SVGP(200).train(Packing(far_off(noise)), None, data, LowRank(WIDE[:100].copy()), note=stop)
    assert found.status == "interrupted"
    assert 0.7 < surprise(found) < 1.2


@pytest.mark.parametrize("kind", ["plain", "weighted", "merged"])
def test_sums_of_the_rows_are_the_bound_at_every_noise(kind: str) -> None:
    data = Data(X, Y, weight=np.linspace(0.5, 3, 400)) if kind == "weighted" else Data(X, Y)
    if kind == "merged":
        data = Data(np.concatenate([X, X[:90]]), np.concatenate([Y, Y[:90] + 0.3])).collapse()
    model = start(Gaussian(0.3), mean=0.4)
    training = stochastic.Training(SVGP(100), Packing(model), None, data, LowRank(Z), 0, None, True)
    run = training.at(training.begin().x, slice(None))
    sums = Sums.of(run)
    for noise in (0.01, 0.3, 5.0):
        other = Model(run.model.prior, likelihood=Gaussian(noise))
        assert sums.bound(noise) == pytest.approx(log_evidence(other, data, inference=SVGP(), gram=LowRank(Z)), abs=1e-6)
        q = Run(other, run.X, run.rows, run.bound).settle(None, 1e-7, 5)[0]
        np.testing.assert_allclose(sums.q(noise).means, q.means, atol=1e-9)
        assert sums.q(noise).kl == pytest.approx(q.kl, abs=1e-8)


def test_the_noise_at_the_end_is_the_best_one() -> None:
    """Priors included; bounds are kept, and noise that is fixed or tied is left alone."""
    data, model = Data(X, Y), start(Gaussian(0.3))
    priors = Priors(model, default_priors(model, data) | {"likelihood.variance": LogNormal(np.log(0.5), scale=0.05)})
    packing = Packing(model)
    found = SVGP(100, steps=5).train(packing, priors, data, LowRank(Z))

    def value(noise: float) -> float:
        other = set_values(found.model, {"likelihood.variance": noise})
        bound = log_evidence(other, data, inference=SVGP(), gram=LowRank(found.Z))
        return bound + priors.log_prob_and_grad(packing, other)[0]

    noise = float(found.model.likelihood.variance)
    assert value(noise) == pytest.approx(found.value, abs=1e-6)
    assert value(noise) > max(value(1.003 * noise), value(noise / 1.003))
    lower, upper = np.full(packing.size, -np.inf), np.full(packing.size, np.inf)
    lower[packing.names().index("likelihood.variance")] = np.log(0.2)
    held = SVGP(100, steps=5).train(packing, None, data, LowRank(Z), box=(lower, upper))
    assert float(held.model.likelihood.variance) == pytest.approx(0.2, rel=1e-5)
    still = SVGP(100, steps=5).train(Packing(start(Gaussian(fixed(0.3)))), None, data, LowRank(Z))
    assert float(still.model.likelihood.variance) == 0.3
    tied = Packing(model, tie=[("kernel.variance", "likelihood.variance")])
    both = SVGP(100, steps=5).train(tied, None, data, LowRank(Z)).model
    assert float(both.likelihood.variance) == float(both.kernel.variance)


@pytest.mark.parametrize("noise", [1e-2, 1e-8])
def test_sums_tell_almost_no_noise_from_none(noise: float) -> None:
    """A smooth function seen without noise: sums of squares nearly cancel, and the bound still has its digits."""
    x = np.random.default_rng(0).uniform(-1, 1, (1000, 1))
    data = Data(x, np.sin(3 * x[:, 0]))
    model = Model(GP(1.0 * SquaredExponential(lengthscale=[1.0])), likelihood=Gaussian(noise))
    found = SVGP(256, steps=5).train(Packing(model), None, data, LowRank(np.linspace(-1, 1, 12)[:, None]))
    assert float(found.model.likelihood.variance) < 1e-7
    again = log_evidence(found.model, data, inference=SVGP(), gram=LowRank(found.Z))
    assert found.value == pytest.approx(again, rel=1e-5)


def test_time_is_kept_for_the_visit_of_all_rows() -> None:
    training = stochastic.Training(SVGP(100), Packing(start(Gaussian(0.3))), None, Data(X, Y), LowRank(Z), 0, None, True)
    assert training.given(10.0) == 10.0  # nothing is known of it yet
    training.visited = 0.5  # a batch of 100 rows of 400
    assert training.given(10.0) == 8.0
    assert training.given(3.0) == 1.5  # never more than half


def test_blas_keeps_to_one_thread_where_inducing_inputs_are_few() -> None:
    """A second thread goes on spinning after every product and takes the kernel's core from it."""
    from threadpoolctl import threadpool_info, threadpool_limits

    seen: list[int] = []

    def look(*_: Any) -> None:
        seen.extend(lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas")

    with threadpool_limits(2, user_api="blas"):
        SVGP(100, steps=1).train(Packing(start(Gaussian(0.3))), None, Data(X, Y), LowRank(Z), note=look)
    assert seen
    assert set(seen) == {1}


def test_checkpoints_of_other_runs_and_other_files_are_refused(tmp_path: Path) -> None:
    model, data, path = start(Gaussian(0.3)), Data(X, Y), tmp_path / "run.npz"
    SVGP(100, steps=2).train(Packing(model), None, data, LowRank(Z), checkpoint=path)
    with pytest.raises(ValueError, match=r"belongs to another problem \(other data, model or settings\)"):
        SVGP(100, steps=2).train(Packing(model), None, data, LowRank(Z), checkpoint=path, key=1)
    with pytest.raises(ValueError, match="belongs to another problem"):
        SVGP(100, steps=2).train(Packing(model), None, Data(X, Y + 1), LowRank(Z), checkpoint=path)
    for write in (lambda: path.write_text("not this"), lambda: np.savez(path, mark=np.array("version 0.7"))):
        write()
        with pytest.raises(ValueError, match=r"which is not a checkpoint; give the name of a new file"):
            SVGP(100, steps=2).train(Packing(model), None, data, LowRank(Z), checkpoint=path)
    with pytest.raises(ValueError, match="does not exist"):
        SVGP(100, steps=2).train(Packing(model), None, data, LowRank(Z), checkpoint=tmp_path / "no" / "run.npz")


# what is refused ------------------------------------------------------------------------------------------------------------
def test_bad_input_is_named() -> None:
    data, model = Data(X, Y), Model(GP(Matern52()), likelihood=Gaussian(0.1))
    with pytest.raises(ValueError, match=r"gram=Dense has no inducing inputs; give gram=LowRank\(...\)"):
        log_evidence(model, data, inference=SVGP(), gram=Dense())
    with pytest.raises(ValueError, match="give labels 0 and 1, or -1 and 1"):
        log_evidence(Model(GP(Matern52()), likelihood=Bernoulli()), data, inference=SVGP(), gram=LowRank(Z))
    with pytest.raises(ValueError, match="y has 2 columns; give one observation per row"):
        log_evidence(model, Data(X, np.stack([Y, Y], 1)), inference=SVGP(), gram=LowRank(Z))
    with pytest.raises(ValueError, match="the noise is zero at some rows; give a positive noise variance"):
        log_evidence(Model(GP(Matern52()), likelihood=Gaussian(fixed(0.0))), data, inference=SVGP(), gram=LowRank(Z))
    known = Data(X, np.ones(400), np.full(400, 0.1))
    with pytest.raises(ValueError, match="known noise variances or merged rows"):
        log_evidence(Model(GP(Matern52()), likelihood=Poisson()), known, inference=SVGP(), gram=LowRank(Z))
    pair = Model(GP((Matern52(), Matern52())), likelihood=Softmax(3))
    with pytest.raises(ValueError, match="2 kernels for 3 latent functions; give one, or one each"):
        log_evidence(pair, Data(X, np.arange(400) % 3.0), inference=SVGP(), gram=LowRank(Z))
    for arguments, sentence in (
        ({"batch_size": 0}, "batch_size is 0; give a whole number of 1 or more"),
        ({"batch_size": 2.5}, "batch_size is 2.5"),
        ({"steps": -1}, "steps is -1"),
        ({"rate": 0.0}, "rate is 0.0; give a number above 0 and at most 1"),
        ({"natural": 1.5}, "natural is 1.5"),
    ):
        with pytest.raises(ValueError, match=sentence):
            SVGP(**arguments)


def test_basis_functions_are_refused() -> None:
    from covary.means import Basis

    model = Model(GP(Matern52(), basis=Basis(lambda x: x)), likelihood=Gaussian(0.1))
    with pytest.raises(ValueError, match="explicit basis functions are not supported; use a mean function"):
        log_evidence(model, Data(X, Y), inference=SVGP(), gram=LowRank(Z))


def test_a_search_goes_on_from_the_last_q() -> None:
    """The memory of a search shortens the next evaluation, and does not change what it finds."""
    data, memory = Data(X, (F > 0).astype(float)), Memory()
    model = start(Bernoulli("logit"))
    cold = log_evidence_and_grad(model, data, inference=SVGP(), gram=LowRank(Z))
    for _ in range(2):
        warm = log_evidence_and_grad(model, data, inference=SVGP(), gram=LowRank(Z), workspace=memory)
        assert warm[0] == pytest.approx(cold[0], abs=1e-5)
    assert memory.spread > 0.5
    assert isinstance(memory.q, Whitened)


def test_noise_that_was_settled_is_not_settled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under Gaussian noise the q of a trained model is the best one: conditioning visits the rows once, from nothing twice."""
    data, visits = Data(X, Y), []
    found = SVGP(100, steps=5).train(Packing(start(Gaussian(0.3))), None, data, LowRank(Z))
    plain = Run.visit
    monkeypatch.setattr(Run, "visit", lambda *a, **k: visits.append(1) or plain(*a, **k))

    def value(model: Model, **begun: Any) -> float:
        visits.clear()
        return log_evidence_and_grad(
            model, data, inference=SVGP(), gram=LowRank(found.Z), workspace=Memory(**begun) if begun else None
        )[0]

    begun = value(found.model, q=found.q)
    assert len(visits) == 1
    assert begun == pytest.approx(value(found.model), abs=1e-8)
    assert len(visits) == 2
    other = set_values(found.model, {"likelihood.variance": 0.1})
    assert value(other, q=found.q) == pytest.approx(value(other), abs=1e-8)


def test_gradient_with_the_sites_held_against_differences() -> None:
    """Away from the best q: the bound at the q that the same sites on u make with other hyperparameters."""
    model, data = start(StudentT(0.5)), Data(X[:80], Y[:80])
    how = SVGP(100)
    training = stochastic.Training(how, Packing(model), None, data, LowRank(Z[:7], learned=True), 0, None, True)
    x = training.begin().x
    old = training.at(x, slice(None))
    rng = np.random.default_rng(4)
    root = rng.standard_normal((7, 9))
    q = Whitened(rng.standard_normal((7, 1)), (np.asfortranarray(np.eye(7) + root @ root.T / 3),))

    def value(v: np.ndarray, *, sites: bool) -> float:
        run = training.at(v, slice(None))
        return run.visit(q.moved(old.bound, run.bound) if sites else q).value

    for sites in (False, True):
        found, inducing = old.gradient(old.visit(q), sites=sites)
        slope = np.concatenate([training.packing.pull(old.model, found), (inducing * training.unit).ravel()])
        for i in range(len(x)):
            h = np.zeros_like(x)
            h[i] = 1e-5
            wanted = (value(x + h, sites=sites) - value(x - h, sites=sites)) / 2e-5
            assert slope[i] == pytest.approx(wanted, rel=2e-6, abs=2e-6)
