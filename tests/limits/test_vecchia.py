"""Vecchia's approximation: exact with all predecessors, close with fewer, and gradients equal to differences for any k."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from covary import GP, Data, Inputs, Model, condition, learn, log_evidence, log_evidence_and_grad
from covary._precision import precision
from covary.gram.base import Bars
from covary.gram.dense import Dense
from covary.gram.vecchia import NearestNeighbours, Vecchia
from covary.kernels import Matern32, Periodic, SquaredExponential
from covary.likelihoods import Gaussian
from covary.means import Constant, LinearBasis
from covary.parameters import Packing, parameters

RNG = np.random.default_rng(3)
N = 70
X = RNG.random((N, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.normal(size=N)
XS = RNG.random((9, 2))
KERNEL = 1.3 * Matern32(lengthscale=[0.4, 0.9]) + 0.2 * SquaredExponential(lengthscale=0.3).on(1)
MODELS = {
    "mean": Model(GP(KERNEL, mean=Constant(0.3)), likelihood=Gaussian(0.02)),
    "basis": Model(GP(KERNEL, basis=LinearBasis()), likelihood=Gaussian(0.02)),
}
TABLES = {
    "plain": Data(X, Y),
    "weights": Data(X, Y, weight=RNG.uniform(0.4, 3.0, N)),
    "known noise": Data(X, Y, noise_variance=RNG.uniform(0.0, 0.1, N)),
    "two outputs": Data(X, np.column_stack([Y, Y**2 - 1])),
    "tags": Data(Inputs(X, {"output": RNG.integers(0, 2, N)}), Y),
}


def flat(gradient: Any) -> np.ndarray:
    return np.concatenate([np.ravel(p.value) for p in parameters(gradient).values()])


@pytest.mark.parametrize(("table", "ordering"), [*((t, "maxmin") for t in TABLES), ("plain", "random"), ("plain", "given")])
@pytest.mark.parametrize("name", MODELS)
def test_with_every_predecessor_it_is_the_dense_gram(name: str, table: str, ordering: str) -> None:
    model, data = MODELS[name], TABLES[table]
    gram = Vecchia(N, ordering=ordering)
    (value, slope), (dense, dense_slope) = (log_evidence_and_grad(model, data, gram=g) for g in (gram, Dense()))
    assert value == pytest.approx(dense, abs=1e-8)
    np.testing.assert_allclose(flat(slope), flat(dense_slope), rtol=1e-8, atol=1e-8)
    new = Inputs(XS, {"output": np.zeros(9, int)}) if data.X.tags else XS
    post, exact = condition(model, data, gram=gram), condition(model, data)
    np.testing.assert_allclose(post.mean(new), exact.mean(new), atol=1e-8)
    np.testing.assert_allclose(post.predict(new).f.variance, exact.predict(new).f.variance, atol=1e-8)
    np.testing.assert_allclose(post.covariance(new), exact.covariance(new), atol=1e-8)
    np.testing.assert_allclose(post.factor.variance(), exact.factor.variance(), atol=1e-8)
    np.testing.assert_allclose(post.factor.mean(post.solved.shift), exact.factor.mean(exact.solved.shift), atol=1e-8)
    if data.y.ndim == 1:
        left, left_exact = post.leave_one_out(), exact.leave_one_out()
        np.testing.assert_allclose(left.mean, left_exact.mean, atol=1e-8)
        np.testing.assert_allclose(left.variance, left_exact.variance, atol=1e-8)


def by_hand(K: np.ndarray, y: np.ndarray, order: np.ndarray, k: int, x: np.ndarray) -> float:
    """Σ log N(y_i | its k nearest predecessors), from dense conditionals."""
    total = 0.0
    for at, i in enumerate(order):
        before = order[:at]
        near = before[np.argsort(((x[before] - x[i]) ** 2).sum(1))[:k]]
        b = np.linalg.solve(K[np.ix_(near, near)], K[near, i]) if at else np.zeros(0)
        d = K[i, i] - K[near, i] @ b
        total -= 0.5 * (np.log(2 * np.pi * d) + (y[i] - b @ y[near]) ** 2 / d)
    return total


def test_the_evidence_is_the_sum_of_the_conditionals() -> None:
    model = Model(GP(KERNEL), likelihood=Gaussian(0.02))
    gram, _ = Vecchia(6).prepare(model, TABLES["plain"])
    assert gram.settled is not None
    expected = by_hand(KERNEL.gram(X) + 0.02 * np.eye(N), Y, gram.settled.order, 6, X / gram.settled.scale)
    assert log_evidence(model, TABLES["plain"], gram=gram) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("table", ["weights", "two outputs"])
@pytest.mark.parametrize("k", [1, 6])
def test_gradients_are_slopes_whatever_the_number_of_neighbours(k: int, table: str, name: str) -> None:
    model, data = MODELS[name], TABLES[table]
    gram, _ = Vecchia(k, jitter=1e-6 if k == 1 else 0.0).prepare(model, data)
    for each in (gram, gram.thinned(23, key=1)):
        packing = Packing(model)
        theta = packing.pack(model)
        slope = packing.pull(model, log_evidence_and_grad(model, data, gram=each)[1])
        for i in range(len(theta)):
            step = np.eye(len(theta))[i] * 1e-5
            up, down = (log_evidence(packing.unpack(theta + s), data, gram=each) for s in (step, -step))
            assert slope[i] == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_the_gradient_of_the_mean_at_the_rows_is_a_slope(name: str) -> None:
    model, data = MODELS[name], TABLES["plain"]
    gram, _ = Vecchia(6).prepare(model, data)
    bar = RNG.normal(size=N)

    def value(m: Model, noise: np.ndarray, shift: np.ndarray) -> tuple[float, Any]:
        bound = gram.bind(m.prior.kernels, data.X, m.prior.basis)
        sites = replace(m.likelihood.sites(data), variance=noise)
        with precision(np.float64):
            factor = bound.factor(sites)
            return float(bar @ factor.mean(shift)), bound.pull(factor, shift, factor.alpha(shift), Bars(mean=bar))

    noise, one = np.full(N, 0.02), np.eye(N)[4] * 1e-5
    pulled = value(model, noise, Y)[1]
    assert pulled.shift[4] == pytest.approx(
        (value(model, noise, Y + one)[0] - value(model, noise, Y - one)[0]) / 2e-5, rel=1e-6
    )
    slope = (value(model, noise + 0.1 * one, Y)[0] - value(model, noise - 0.1 * one, Y)[0]) / 2e-6
    assert pulled.sites.variance[4] == pytest.approx(slope, rel=1e-5, abs=1e-7)
    first = KERNEL.terms[0]
    ends = [
        model.replace(
            prior=model.prior.replace(
                kernel=KERNEL.replace(terms=(first.replace(variance=first.variance + s), KERNEL.terms[1]))
            )
        )
        for s in (1e-5, -1e-5)
    ]
    slope = (value(ends[0], noise, Y)[0] - value(ends[1], noise, Y)[0]) / 2e-5
    assert float(pulled.kernel.terms[0].variance) == pytest.approx(slope, rel=1e-5, abs=1e-7)


def test_the_error_of_the_evidence_shrinks_with_the_number_of_neighbours() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((600, 2))
    kernel = 1.0 * Matern32(lengthscale=0.3)
    K = kernel.gram(x) + 0.01 * np.eye(600)
    data = Data(x, np.linalg.cholesky(K) @ rng.normal(size=600))
    model = Model(GP(kernel), likelihood=Gaussian(0.01))
    exact = log_evidence(model, data)
    errors = [abs(log_evidence(model, data, gram=Vecchia(k)) - exact) for k in (2, 8, 32, 128)]
    assert errors[0] > 10 * errors[1] > 10 * errors[2]
    assert errors[2] < 1.0
    assert errors[3] < 0.1
    random = abs(log_evidence(model, data, gram=Vecchia(8, ordering="given")) - exact)
    assert errors[1] < random  # coarse to fine beats rows as they come


def test_predictions_come_from_the_nearest_rows() -> None:
    model, data, k = MODELS["mean"], TABLES["plain"], 12
    got = condition(model, data, gram=Vecchia(6, predict_with=k)).predict(XS)
    scale = np.array([0.4, 0.3])  # the shorter length-scale of every column
    for i, x in enumerate(XS):
        near = np.argsort((((X - x) / scale) ** 2).sum(1))[:k]
        C = KERNEL.gram(X[near]) + 0.02 * np.eye(k)
        cross = KERNEL.cross(X[near], x[None])[:, 0]
        assert got.f.mean[i] == pytest.approx(0.3 + cross @ np.linalg.solve(C, Y[near] - 0.3), abs=1e-9)
        assert got.f.variance[i] == pytest.approx(1.5 - cross @ np.linalg.solve(C, cross), abs=1e-9)
    other = condition(model, data, gram=NearestNeighbours(k)).predict(XS)
    np.testing.assert_allclose(other.f.mean, got.f.mean, atol=1e-10)
    np.testing.assert_allclose(other.f.variance, got.f.variance, atol=1e-10)
    twice = condition(model, data, gram=Vecchia(k // 2)).predict(XS)  # as many by default
    np.testing.assert_allclose(twice.f.mean, got.f.mean, atol=1e-10)


def test_the_joint_covariance_is_that_of_the_conditionals() -> None:
    r"""f = B f + rows' share + ε, with each new point given its nearest rows and the nearest new points before it."""
    k, scale = 6, np.array([0.4, 0.3])
    B, D = np.zeros((9, 9)), np.zeros(9)
    for i, x in enumerate(XS):
        rows = np.argsort((((X - x) / scale) ** 2).sum(1))[:k]
        new = np.argsort((((XS[:i] - x) / scale) ** 2).sum(1))[:k]
        both = np.concatenate([X[rows], XS[new]])
        C = KERNEL.gram(both) + np.diag([0.02] * k + [0.0] * len(new))
        cross = KERNEL.cross(both, x[None])[:, 0]
        b = np.linalg.solve(C, cross)
        B[i, new], D[i] = b[k:], 1.5 - cross @ b
    inverse = np.linalg.inv(np.eye(9) - B)
    got = condition(MODELS["mean"], TABLES["plain"], gram=Vecchia(k, predict_with=k)).covariance(XS)
    np.testing.assert_allclose(got, inverse @ np.diag(D) @ inverse.T, atol=1e-9)


def test_the_joint_covariance_takes_repeated_points() -> None:
    new = np.concatenate([XS, XS[:2], XS[:1] + 1e-9])
    post = condition(MODELS["mean"], TABLES["plain"], gram=Vecchia(12))
    C = post.covariance(new)
    assert np.linalg.eigvalsh(C).min() > -1e-10
    np.testing.assert_allclose(C[9:11], C[:2], atol=1e-8)
    np.testing.assert_allclose(C[11], C[0], atol=1e-6)
    exact = condition(MODELS["mean"], TABLES["plain"]).covariance(new)
    assert np.abs(C - exact).max() < 0.1 * np.abs(exact).max()
    assert np.isfinite(post.sample(new, 2, key=0)).all()


def test_only_the_seed_decides_the_order() -> None:
    shuffled = RNG.permutation(N)
    model, data = MODELS["mean"], TABLES["weights"]
    for ordering in ("maxmin", "random"):
        values = [log_evidence(model, d, gram=Vecchia(6, ordering=ordering)) for d in (data, data.take(shuffled))]
        assert values[0] == pytest.approx(values[1], abs=1e-9)
    seeds = [log_evidence(model, data, gram=Vecchia(6, ordering="random").prepare(model, data, key=s)[0]) for s in (0, 1)]
    assert abs(seeds[0] - seeds[1]) > 1e-6


def test_a_thinned_evidence_estimates_the_whole() -> None:
    rng = np.random.default_rng(1)
    x = rng.random((3000, 2))
    data = Data(x, np.sin(6 * x[:, 0]) + 0.2 * rng.normal(size=3000))
    model = Model(GP(1.0 * Matern32(lengthscale=0.4)), likelihood=Gaussian(0.04))
    gram, _ = Vecchia(10).prepare(model, data)
    whole = log_evidence(model, data, gram=gram)
    parts = [log_evidence(model, data, gram=gram.thinned(500, key=s)) for s in range(6)]
    assert np.mean(parts) == pytest.approx(whole, abs=4 * np.std(parts) / 6**0.5)
    assert np.std(parts) < 0.1 * 3000


def test_learning_finds_what_the_dense_gram_finds() -> None:
    rng = np.random.default_rng(5)
    x = rng.random((300, 2))
    kernel = 1.0 * Matern32(lengthscale=0.3)
    y = np.linalg.cholesky(kernel.gram(x) + 0.01 * np.eye(300)) @ rng.normal(size=300)
    start = Model(GP(0.5 * Matern32(lengthscale=0.6)), likelihood=Gaussian(0.05))
    near, exact = (learn(start, Data(x, y), gram=g) for g in (Vecchia(30), Dense()))
    assert near.status == "converged"
    assert log_evidence(near.model, Data(x, y)) > exact.value - 0.1
    assert near.value == pytest.approx(exact.value, abs=1.0)


def test_kernels_that_are_not_stationary_or_repeat_work_too() -> None:
    kernel = 1.0 * Periodic(lengthscale=1.0, period=0.7).on(0) * Matern32().on(1) + 0.5
    model = Model(GP(kernel), likelihood=Gaussian(0.1))
    data = TABLES["plain"]
    assert log_evidence(model, data, gram=Vecchia(N)) == pytest.approx(log_evidence(model, data), abs=1e-8)


def test_a_search_on_some_terms_first_ends_where_one_on_all_does(monkeypatch: pytest.MonkeyPatch):
    """The thinned sum already stands for all rows, and its slope changes when neighbours are looked for again."""
    from covary.gram.vecchia import vecchia as levels

    monkeypatch.setattr(levels, "TERMS", 100)
    rng = np.random.default_rng(3)
    x = rng.uniform(0.0, 6.0, (2000, 3))
    y = np.sin(2 * x[:, 0]) * np.cos(x[:, 1]) + 0.5 * np.sin(3 * x[:, 2]) + 0.3 * rng.normal(size=2000)
    data, model = Data(x, y), Model(GP(1.0 * Matern32(lengthscale=np.ones(3))), likelihood=Gaussian(0.3))
    some = learn(model, data, gram=Vecchia(8))
    whole = learn(some.model, data, gram=Vecchia(8), coarse=False)
    assert len(some.levels) == 2
    judged = [log_evidence(found.model, data, gram=Vecchia(8)) for found in (some, whole)]
    assert judged[0] > judged[1] - 10  # 73 nats below when the coarse Hessian was taken across two sets of neighbours
