"""Results do not depend on the linear algebra backend (lane), precision, pickling, threads or processes."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

from covary import GP, Data, GPRegressor, Model, condition, log_evidence, log_evidence_and_grad
from covary._precision import precision
from covary.gram import Dense
from covary.gram.traced import terms
from covary.kernels import Matern52, Periodic
from covary.likelihoods import Gaussian
from covary.means import Constant
from covary.sites import Diagonal, Noise

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=60)
KERNEL = 1.4 * Matern52(lengthscale=[0.8, 1.5, 3.0]) + 0.3 * Periodic().on(0)
MODEL = Model(GP(KERNEL, mean=Constant(0.2)), likelihood=Gaussian(0.02))


@pytest.fixture(scope="module")
def fitted() -> GPRegressor:
    return GPRegressor(n_restarts=0, random_state=0).fit(X, Y)


@pytest.mark.parametrize("lane", ["xla", "callback"])
@pytest.mark.parametrize("sites", [Noise(np.full(60, 0.05)), Diagonal(RNG.uniform(0.0, 5.0, 60))], ids=["noise", "diagonal"])
def test_lanes_agree(lane: str, sites: object) -> None:
    """Values and gradients of every term: LAPACK on the host compared with the two compiled backends."""
    from covary.gram.base import Bars

    inputs = Data(X, Y).X
    bound = Dense().bind((KERNEL,), inputs)
    factor = bound.factor(sites)  # type: ignore[arg-type]
    weights = RNG.normal(size=60), RNG.normal(size=60)
    bars = Bars(quad=0.3, logdet=-0.7, mean=weights[0], variance=weights[1])
    host = bound.pull(factor, Y, factor.alpha(Y), bars)
    with precision(np.float64):

        def total(kernel: object, shift: object) -> object:
            t = terms(kernel, inputs, shift, sites, lane=lane)  # type: ignore[arg-type]
            return 0.3 * t.quad - 0.7 * t.logdet + weights[0] @ t.mean + weights[1] @ t.variance

        value, (kernel_bar, shift_bar) = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))(KERNEL, Y)
    expected = 0.3 * factor.quad(Y) - 0.7 * factor.logdet() + weights[0] @ factor.mean(Y) + weights[1] @ factor.variance()
    assert float(value) == pytest.approx(float(expected), rel=1e-10)  # type: ignore[arg-type]
    for a, b in zip(jax.tree_util.tree_leaves(kernel_bar), jax.tree_util.tree_leaves(host.kernel), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(shift_bar, host.shift, rtol=1e-9, atol=1e-9)


def test_device_lane_equals_host_lane() -> None:
    known, weight = RNG.uniform(0.01, 0.1, 60), RNG.uniform(0.5, 2.0, 60)
    for data in (Data(X, Y), Data(X, np.column_stack([Y, -Y]), known, weight)):
        host, host_grad = log_evidence_and_grad(MODEL, data)
        device, device_grad = log_evidence_and_grad(MODEL, data, gram=Dense(lane="xla"))
        assert device == pytest.approx(host, rel=1e-10)
        for a, b in zip(jax.tree_util.tree_leaves(host_grad), jax.tree_util.tree_leaves(device_grad), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


def test_callback_lane_under_vmap() -> None:
    """As used by samplers that run several chains in parallel."""
    inputs = Data(X, Y).X
    with precision(np.float64):
        f = jax.vmap(lambda s: terms(KERNEL, inputs, Y, Noise(s * np.ones(60)), lane="callback").logdet)
        got = f(np.array([0.05, 0.1]))
    for s, value in zip((0.05, 0.1), got, strict=True):
        assert float(value) == pytest.approx(np.linalg.slogdet(KERNEL.gram(X) + s * np.eye(60))[1], rel=1e-10)


def test_float32_data_are_computed_in_float32() -> None:
    single = Data(X.astype(np.float32), Y.astype(np.float32))
    assert KERNEL.gram(X.astype(np.float32)).dtype == np.float32
    assert log_evidence(MODEL, single) == pytest.approx(log_evidence(MODEL, Data(X, Y)), rel=1e-3)
    prediction = condition(MODEL, single).predict(X[:5].astype(np.float32))
    assert prediction.f.mean.dtype == np.float32
    np.testing.assert_allclose(prediction.f.mean, condition(MODEL, Data(X, Y)).predict(X[:5]).f.mean, atol=2e-3)
    gradient = log_evidence_and_grad(MODEL, single)[1]
    exact = log_evidence_and_grad(MODEL, Data(X, Y))[1]
    np.testing.assert_allclose(gradient.kernel.terms[0].kernel.lengthscale, exact.kernel.terms[0].kernel.lengthscale, rtol=2e-2)


def test_estimators_return_float64_for_float32_input(fitted: GPRegressor) -> None:
    assert fitted.predict(X[:3].astype(np.float32)).dtype == np.float64
    assert not jax.config.jax_enable_x64  # type: ignore[attr-defined]


def test_pickle_predicts_bitwise_the_same(fitted: GPRegressor) -> None:
    copy = pickle.loads(pickle.dumps(fitted))
    for a, b in zip(copy.predict(X, return_std=True), fitted.predict(X, return_std=True), strict=True):
        assert np.array_equal(a, b)
    assert copy.model_ == fitted.model_
    assert copy.summary().rows == fitted.summary().rows


def test_threads_predict_bitwise_the_same(fitted: GPRegressor) -> None:
    alone = fitted.predict(X, return_std=True)
    with ThreadPoolExecutor(4) as pool:
        for mean, std in pool.map(lambda _: fitted.predict(X, return_std=True), range(8)):
            assert np.array_equal(mean, alone[0])
            assert np.array_equal(std, alone[1])


def test_processes_predict_bitwise_the_same(fitted: GPRegressor) -> None:
    import joblib

    alone = fitted.predict(X, return_std=True)
    for mean, std in joblib.Parallel(n_jobs=2)(joblib.delayed(fitted.predict)(X, return_std=True) for _ in range(2)):
        assert np.array_equal(mean, alone[0])
        assert np.array_equal(std, alone[1])


def test_results_do_not_depend_on_the_number_of_tile_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    from covary.kernels import tiles

    big = np.random.default_rng(0).normal(size=(700, 3))
    data = Data(big, big[:, 0])
    values = []
    for count in (1, 2, 3):
        monkeypatch.setattr(tiles, "threads", lambda count=count: count)
        value, gradient = log_evidence_and_grad(MODEL, data)
        values.append((value, *(np.asarray(leaf).tobytes() for leaf in jax.tree_util.tree_leaves(gradient))))
    assert values[0] == values[1] == values[2]
