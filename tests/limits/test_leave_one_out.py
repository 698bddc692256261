"""Closed-form leave-one-out predictions compared with refitting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

from covary import GP, Data, Model, condition
from covary._checks import CovaryError
from covary.inference import EP, Exact, Laplace
from covary.kernels import Matern52
from covary.likelihoods import Bernoulli, Gaussian, Poisson, Softmax
from covary.means import Constant

RNG = np.random.default_rng(9)
X = RNG.normal(size=(16, 2))
F = np.sin(2 * X[:, 0]) + X[:, 1]
KERNEL = 1.5 * Matern52(lengthscale=1.2)


def refitted(model: Model, y: np.ndarray, inference: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    mean, variance, log_prob = [], [], []
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        prediction = condition(model, Data(X[rest], y[rest]), inference=inference).predict(X[[i]])
        mean.append(prediction.f.mean[0])
        variance.append(prediction.f.variance[0])
        log_prob.append(prediction.y.log_prob(y[[i]])[0])
    return np.array(mean), np.array(variance), np.array(log_prob)


@pytest.mark.parametrize("inference", [Exact(), Laplace(), EP()], ids=["exact", "laplace", "ep"])
def test_under_gaussian_noise_it_is_exact(inference: Any) -> None:
    """R&W, eqs. 5.10–5.12: the closed form is what refitting without each row gives."""
    model = Model(GP(KERNEL, mean=Constant(0.4)), likelihood=Gaussian(0.05))
    y = F + 0.2 * RNG.normal(size=16)
    found = condition(model, Data(X, y), inference=inference).leave_one_out()
    mean, variance, log_prob = refitted(model, y, inference)
    np.testing.assert_allclose(found.mean, mean, atol=1e-6)
    np.testing.assert_allclose(found.variance, variance, atol=1e-6)
    np.testing.assert_allclose(found.log_prob, log_prob, atol=1e-6)


@pytest.mark.parametrize(
    ("likelihood", "y"),
    [(Bernoulli("probit"), np.sign(F)), (Bernoulli("logit"), np.sign(F)), (Poisson(), RNG.poisson(np.exp(F)).astype(float))],
    ids=["probit", "logit", "poisson"],
)
def test_cavities_of_ep_are_close_to_refitting(likelihood: Any, y: np.ndarray) -> None:
    """R&W, section 5.5.3: a cavity is EP's own answer without the row, up to what the other sites remember of it."""
    model = Model(GP(KERNEL), likelihood=likelihood)
    found = condition(model, Data(X, y), inference=EP()).leave_one_out()
    mean, _, log_prob = refitted(model, y, EP())
    assert np.abs(found.log_prob - log_prob).max() < 0.12
    assert abs(found.log_prob.sum() - log_prob.sum()) < 0.05 * abs(log_prob.sum())
    assert np.abs(found.mean - mean).max() < 0.25
    rough = condition(model, Data(X, y), inference=Laplace()).leave_one_out()
    assert abs(rough.log_prob.sum() - log_prob.sum()) < 0.15 * abs(log_prob.sum())


def test_cavities_are_the_posterior_without_a_site() -> None:
    """R&W, eq. 3.56 and section 5.5.3: N(μ₋ᵢ, σ²₋ᵢ) by explicit inverses, and log Φ(yᵢ μ₋ᵢ/√(1 + σ²₋ᵢ)) (eq. 3.58)."""
    y = np.sign(F)
    post = condition(Model(GP(KERNEL), likelihood=Bernoulli("probit")), Data(X, y), inference=EP())
    tau, nu = np.asarray(post.factor.spread), np.asarray(post.solved.shift)
    mean, variance = np.zeros(16), np.zeros(16)
    for i in range(16):
        others = np.arange(16) != i
        S = np.linalg.inv(np.linalg.inv(KERNEL.gram(X)) + np.diag(tau * others))
        mean[i], variance[i] = (S @ (nu * others))[i], S[i, i]
    found = post.leave_one_out()
    np.testing.assert_allclose(found.mean, mean, atol=1e-8)
    np.testing.assert_allclose(found.variance, variance, atol=1e-8)
    np.testing.assert_allclose(found.log_prob, special.log_ndtr(y * mean / np.sqrt(1 + variance)), atol=1e-8)


def test_several_latent_functions_say_what_to_do() -> None:
    post = condition(
        Model(GP(KERNEL), likelihood=Softmax(3)), Data(X, np.digitize(F, [-0.5, 0.5]).astype(float)), inference=Laplace()
    )
    with pytest.raises(CovaryError, match=r"cross-validate with covary\.metrics"):
        post.leave_one_out()
