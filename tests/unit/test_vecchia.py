"""Vecchia's approximation: orders, neighbours, unusual tables, and errors."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest

from covary import GP, Data, Inputs, Model, condition, learn, log_evidence, log_evidence_and_grad
from covary._checks import CovaryError, NotPositiveDefinite
from covary.gram import local, neighbours
from covary.gram.vecchia import NearestNeighbours, Vecchia
from covary.inference import EP, Laplace
from covary.kernels import Linear, Matern32, Periodic, SquaredExponential
from covary.likelihoods import Bernoulli, Gaussian
from covary.parameters import fixed

RNG = np.random.default_rng(11)


def squares(x: np.ndarray) -> np.ndarray:
    square = ((x[:, None] - x[None]) ** 2).sum(-1)
    square[np.arange(len(x))[None, :] >= np.arange(len(x))[:, None]] = np.inf
    return square


@pytest.mark.parametrize("columns", [1, 3, 20])
@pytest.mark.parametrize("count", [1, 7, 40])
def test_neighbours_are_those_of_brute_force(columns: int, count: int) -> None:
    x = RNG.random((1200, columns)) * 50
    x[700:730] = x[:30]  # ties
    x[800:900] = x[5]
    near = neighbours.previous(x, count)
    square = squares(x)
    expected = np.sort(square, 1)[:, :count]
    got = np.where(near >= 0, np.take_along_axis(square, np.maximum(near, 0).astype(int), 1), np.inf)
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    assert all(len(set(row[row >= 0])) == (row >= 0).sum() for row in near)
    new = RNG.random((50, columns)) * 50
    found = neighbours.Search(x, np.ones(columns)).nearest(new, count)
    own = ((new[:, None] - x[None]) ** 2).sum(-1)
    np.testing.assert_allclose(np.take_along_axis(own, found, 1), np.sort(own, 1)[:, :count], rtol=1e-10)


def test_few_rows_are_in_the_max_min_order() -> None:
    x = RNG.random((200, 2))
    order = neighbours.maxmin(x)
    assert sorted(order) == list(range(200))
    for i in range(1, 200):
        gaps = ((x[:, None] - x[order[:i]][None]) ** 2).sum(-1).min(1)
        assert gaps[order[i]] == pytest.approx(gaps.max(), rel=1e-12)


def spacing(x: np.ndarray, rows: int) -> tuple[float, float]:
    """How far apart the first rows are, and how far the others are from them."""
    from scipy.spatial import cKDTree

    tree = cKDTree(x[:rows])
    return float(tree.query(x[:rows], k=2)[0][:, 1].min()), float(tree.query(x)[0].max())


def test_many_rows_are_ordered_from_coarse_to_fine() -> None:
    x = np.random.default_rng(3).random((6000, 2))
    close, exact = x[neighbours.maxmin(x)], x[neighbours.farthest(x, 6000)]
    assert sorted(map(tuple, close)) == sorted(map(tuple, x))
    for rows in (30, 300, 3000):
        (apart, hole), (most, least), (random, _) = spacing(close, rows), spacing(exact, rows), spacing(x, rows)
        assert apart > 0.7 * most
        assert apart > 3 * random
        assert hole < 2.2 * least


def test_many_columns_are_ordered_too() -> None:
    x = RNG.normal(size=(4000, 20))
    order = neighbours.maxmin(x)
    assert sorted(order) == list(range(4000))
    assert spacing(x[order], 100)[0] > 1.2 * spacing(x, 100)[0]


def test_columns_are_measured_in_the_shortest_length_scale_that_sees_them() -> None:
    x = RNG.normal(size=(30, 4)) * np.array([1.0, 1.0, 5.0, 0.0])
    kernel = 2.0 * Matern32(lengthscale=[3.0, 0.5]).on(0, 1) * Linear().on(2) + SquaredExponential(lengthscale=2.0).on(0)
    scale = neighbours.column_scales(kernel, Inputs(x))
    np.testing.assert_allclose(scale, [2.0, 0.5, x[:, 2].std(), 1.0])
    np.testing.assert_allclose(neighbours.column_scales(Periodic(), Inputs(x))[:3], x[:, :3].std(0))


MODEL = Model(GP(1.0 * Matern32(lengthscale=0.5)), likelihood=Gaussian(0.05))


@pytest.mark.parametrize("rows", [1, 2, 3, 17, 40])
def test_small_tables_and_more_neighbours_than_rows(rows: int) -> None:
    x, y = RNG.random((rows, 2)), RNG.normal(size=rows)
    data = Data(x, y)
    for gram in (Vecchia(100), NearestNeighbours(100)):
        assert log_evidence(MODEL, data, gram=gram) == pytest.approx(log_evidence(MODEL, data), abs=1e-9)
        got, exact = condition(MODEL, data, gram=gram).predict(x + 0.01), condition(MODEL, data).predict(x + 0.01)
        np.testing.assert_allclose(got.f.mean, exact.f.mean, atol=1e-9)
        np.testing.assert_allclose(got.f.variance, exact.f.variance, atol=1e-9)


def test_repeated_rows_constant_columns_and_one_hot_blocks() -> None:
    x = np.column_stack([RNG.integers(0, 5, 200) / 5, np.ones(200), np.eye(4)[RNG.integers(0, 4, 200)]])
    data = Data(x, RNG.normal(size=200))
    assert log_evidence(MODEL, data, gram=Vecchia(200)) == pytest.approx(log_evidence(MODEL, data), abs=1e-8)
    few = log_evidence(MODEL, data, gram=Vecchia(15))
    assert np.isfinite(few)
    assert np.isfinite(condition(MODEL, data, gram=Vecchia(15)).predict(x).f.variance).all()


def test_noise_free_rows_are_met_exactly() -> None:
    model = Model(GP(1.0 * Matern32(lengthscale=0.5)), likelihood=Gaussian(fixed(0.0)))
    x = RNG.random((80, 2))
    data = Data(x, np.sin(4 * x[:, 0]))
    got = condition(model, data, gram=Vecchia(15)).predict(x)
    np.testing.assert_allclose(got.f.mean, data.y, atol=1e-8)
    assert got.f.variance.max() < 1e-8


def test_matrices_without_a_factor_are_refused_with_their_cause() -> None:
    x = np.repeat(RNG.random((20, 2)), 2, axis=0)
    data = Data(x, RNG.normal(size=40))
    bare = Model(GP(1.0 * Matern32()), likelihood=Gaussian(fixed(0.0)))
    with pytest.raises(NotPositiveDefinite, match="20 rows of X repeat others and the noise is zero"):
        log_evidence(bare, data, gram=Vecchia(5))
    assert np.isfinite(log_evidence(bare, data, gram=Vecchia(5, jitter=1e-8)))
    smooth = Model(GP(1.0 * SquaredExponential(lengthscale=100.0)), likelihood=Gaussian(fixed(0.0)))
    with pytest.raises(NotPositiveDefinite, match="noise variance is only"):
        log_evidence(smooth, Data(RNG.random((60, 2)), RNG.normal(size=60)), gram=Vecchia(20))


def test_what_it_cannot_do_is_said() -> None:
    data = Data(RNG.random((20, 1)), RNG.integers(0, 2, 20))
    model = Model(GP(1.0 * Matern32()), likelihood=Bernoulli())
    for inference in (Laplace(), EP()):
        with pytest.raises(CovaryError, match=r"gram.Vecchia: .*use gram=LowRank\(...\) or gram=Dense\(\)"):
            condition(model, data, inference=inference, gram=Vecchia(5))
    data = Data(data.X, RNG.normal(size=20))
    with pytest.raises(CovaryError, match="ordering is 'sorted'; choose 'maxmin'"):
        log_evidence(MODEL, data, gram=Vecchia(5, ordering="sorted"))
    with pytest.raises(CovaryError, match="predict_with is 0; give a whole number"):
        condition(MODEL, data, gram=Vecchia(5, predict_with=0))
    for wrong in (0, -1, 2.5, True):
        with pytest.raises(CovaryError, match=r"neighbours is .*; give a whole number"):
            log_evidence(MODEL, data, gram=Vecchia(wrong))  # type: ignore[arg-type]


def test_a_prepared_gram_keeps_its_neighbours_and_serves_other_rows_too() -> None:
    x = RNG.random((90, 2)) * [1.0, 10.0]
    data = Data(x, RNG.normal(size=90))
    gram, same = Vecchia(4).prepare(MODEL, data, key=3)
    assert same is data
    assert gram.prepare(MODEL, data)[0] is gram
    other = Model(GP(1.0 * Matern32(lengthscale=[9.0, 0.1])), likelihood=Gaussian(0.05))
    fresh = gram.replace(settled=None)
    kept, moved = (log_evidence(other, data, gram=g) for g in (gram, fresh))
    assert abs(kept - moved) > 1e-3
    part = data.take(slice(0, 50))
    assert log_evidence(MODEL, part, gram=gram) == pytest.approx(log_evidence(MODEL, part, gram=fresh), abs=1e-12)


def test_shapes_are_compiled_once_for_tables_of_like_size() -> None:
    before = None
    for rows in (700, 701, 900):
        x = RNG.random((rows, 2))
        log_evidence_and_grad(MODEL, Data(x, x[:, 0]), gram=Vecchia(9))
        assert before is None or local.traces == before
        before = dict(local.traces)


def test_single_precision_follows_the_data() -> None:
    x = RNG.random((150, 2)).astype(np.float32)
    y = np.sin(5 * x[:, 0]).astype(np.float32)
    post = condition(MODEL, Data(x, y), gram=Vecchia(12))
    assert post.mean(x).dtype == np.float32
    double = condition(MODEL, Data(x.astype(float), y.astype(float)), gram=Vecchia(12))
    np.testing.assert_allclose(post.mean(x), double.mean(x.astype(float)), atol=1e-4)


def test_posteriors_travel_and_threads_agree() -> None:
    x = RNG.random((3000, 2))
    post = condition(MODEL, Data(x, np.sin(5 * x[:, 0])), gram=Vecchia(25))
    expected = post.predict(x[:600]).f
    again = pickle.loads(pickle.dumps(post)).predict(x[:600]).f
    np.testing.assert_array_equal(again.variance, expected.variance)
    results: dict[int, np.ndarray] = {}
    workers = [threading.Thread(target=lambda i=i: results.update({i: post.predict(x[:600]).f.mean})) for i in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert len(results) == 3
    for value in results.values():
        np.testing.assert_array_equal(value, expected.mean)


def test_a_search_over_some_of_the_terms_conditions_on_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    from covary.gram.vecchia import vecchia as levels

    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (1200, 2))
    data = Data(X, np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.normal(size=1200))
    model = Model(GP("1.0 * Matern52()"), likelihood=Gaussian(0.1))
    whole = learn(model, data, gram=Vecchia(10))
    for name, value in (("TERMS", 100), ("COARSE_TERMS", 150), ("MOST_TERMS", 600)):
        monkeypatch.setattr(levels, name, value)
    some = learn(model, data, gram=Vecchia(10))
    assert some.levels == (100, 600)
    post = condition(some, data, gram=Vecchia(10))
    assert post.data.rows == 1200
    assert post.log_evidence > whole.value - 3.0  # nats, of about a thousand
    assert abs(some.value - post.log_evidence) < 0.1 * abs(post.log_evidence)
