"""Results on an accelerator agree with those on the CPU; run with ``pytest -m gpu``."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from covary import GP, Data, Model, condition, learn, log_evidence_and_grad
from covary.gram import Dense
from covary.kernels import Matern52, SquaredExponential
from covary.likelihoods import Gaussian

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(jax.default_backend() == "cpu", reason="no accelerator here"),
]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1500, 8))
Y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 2 + X[:, 2] * X[:, 3] + 0.1 * RNG.normal(size=1500)


@pytest.mark.parametrize(
    "kernel", [1.0 * SquaredExponential(lengthscale=np.ones(8)), 2.0 * Matern52(lengthscale=1.5)], ids=repr
)
def test_evidence_and_gradient_agree_with_the_host(kernel: object) -> None:
    model, data = Model(GP(kernel), likelihood=Gaussian(0.05)), Data(X, Y)
    assert Dense().on_device(data.rows)
    assert not Dense().on_device(100)  # compiling would cost more
    device, device_grad = log_evidence_and_grad(model, data)
    host, host_grad = log_evidence_and_grad(model, data, gram=Dense(lane="lapack"))
    assert device == pytest.approx(host, rel=1e-10)
    for a, b in zip(jax.tree_util.tree_leaves(device_grad), jax.tree_util.tree_leaves(host_grad), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7)


def test_learn_on_the_device_ends_where_the_host_ends() -> None:
    model, data = Model(GP(1.0 * SquaredExponential(lengthscale=np.ones(8))), likelihood=Gaussian(0.1)), Data(X, Y)
    device, host = learn(model, data), learn(model, data, gram=Dense(lane="lapack"))
    assert device.value == pytest.approx(host.value, abs=0.05)
    np.testing.assert_allclose(condition(device, data).mean(X[:20]), condition(host, data).mean(X[:20]), atol=0.02)
