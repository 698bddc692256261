"""Numbers of another library: GPy 1.15's VarDTC and FITC on a fixed problem (Matern52 with two length-scales, noise 0.08).

GPy adds 1e-8 (VarDTC) and 1e-6 (FITC) to the diagonal of K(Z, Z); the same is added here.
"""

from __future__ import annotations

import numpy as np
import pytest

from covary import GP, Data, Model, condition
from covary.gram import LowRank
from covary.kernels import Matern52
from covary.likelihoods import Gaussian

I = np.arange(60)
X = np.stack([np.sin(1.3 * I) * 2, np.cos(0.7 * I) + 0.02 * I], 1)
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.1 * np.cos(5.0 * I)
Z = np.stack([np.linspace(-2, 2, 9), np.cos(np.arange(9))], 1)
NEW = np.array([[0.3, 0.2], [1.5, -0.4]])

JITTER = {"vfe": 1e-8 / 1.7, "fitc": 1e-6 / 1.7}
GPY = {
    "vfe": (-219.11029171598335, [0.44639656514201526, -0.20468936028128668], [0.08596386033170278, 0.5517088397601977]),
    "fitc": (-49.241610503303946, [0.5566435796739612, -0.20155927585515274], [0.11483061733191269, 0.5578387395881201]),
}


@pytest.mark.parametrize("rule", GPY)
def test_evidence_and_predictions(rule: str) -> None:
    value, mean, variance = GPY[rule]
    model = Model(GP(1.7 * Matern52([0.9, 1.4])), likelihood=Gaussian(0.08))
    post = condition(model, Data(X, Y), gram=LowRank(Z, rule=rule, jitter=JITTER[rule]))
    got = post.predict(NEW).f
    assert post.log_evidence == pytest.approx(value, abs=1e-6)
    np.testing.assert_allclose(got.mean, mean, atol=1e-6)
    np.testing.assert_allclose(got.variance, variance, atol=1e-6)
