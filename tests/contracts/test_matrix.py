"""Likelihood × inference × gram: every cell agrees with its neighbour, or refuses with a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from covary import GP, Data, Model, condition, log_evidence, log_evidence_and_grad
from covary._checks import CovaryError
from covary.gram import Dense, LowRank
from covary.inference import EP, Exact, Laplace
from covary.kernels import Matern52
from covary.likelihoods import Bernoulli, Gaussian, Softmax, StudentT

RNG = np.random.default_rng(5)
X = RNG.normal(size=(20, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=20)
KERNEL = 1.2 * Matern52(lengthscale=0.8)

LIKELIHOODS: dict[str, tuple[Any, np.ndarray]] = {
    "gaussian": (Gaussian(0.1), Y),
    "student": (StudentT(0.2), Y + 5.0 * (np.arange(20) == 3)),
    "probit": (Bernoulli("probit"), np.sign(Y)),
    "logit": (Bernoulli("logit"), np.sign(Y)),
    "softmax": (Softmax(3), np.digitize(Y, [-0.4, 0.4]).astype(float)),
}
INFERENCES: dict[str, Any] = {"exact": Exact(), "laplace": Laplace(), "ep": EP()}
GRAMS: dict[str, Any] = {"dense": Dense(), "fitc": LowRank(X, jitter=0.0), "vfe": LowRank(X, rule="vfe", jitter=0.0)}

NO_EXACT, NO_TILTED = "use Laplace\\(\\) or EP\\(\\)", "its tilted moments are not known"
VFE_ONLY = "rule 'vfe' goes with a Gaussian likelihood only"
REFUSED = {
    **{(lik, "exact", g): NO_EXACT for lik in ("student", "probit", "logit", "softmax") for g in GRAMS},
    **{(lik, "ep", g): NO_TILTED for lik in ("student", "logit", "softmax") for g in GRAMS},
    **{(lik, inf, "vfe"): VFE_ONLY for lik in LIKELIHOODS for inf in ("laplace", "ep")},
    ("student", "laplace", "fitc"): "site precisions are negative",
    ("softmax", "laplace", "fitc"): "sites of kind Softmax are not supported",
    ("softmax", "laplace", "vfe"): "sites of kind Softmax are not supported",
}
CELLS = [(lik, inf, g) for lik in LIKELIHOODS for inf in INFERENCES for g in GRAMS]


@pytest.mark.parametrize("cell", CELLS, ids="-".join)
def test_cell(cell: tuple[str, str, str]) -> None:
    """With the inducing inputs at the data every gram is the dense one; what cannot be done says so."""
    likelihood, y = LIKELIHOODS[cell[0]]
    model, data = Model(GP(KERNEL), likelihood=likelihood), Data(X, y)
    inference, gram = INFERENCES[cell[1]], GRAMS[cell[2]]
    if cell in REFUSED:
        with pytest.raises(CovaryError, match=REFUSED[cell]):
            log_evidence(model, data, inference=inference, gram=gram)
        return
    value, gradient = log_evidence_and_grad(model, data, inference=inference, gram=gram)
    expected, slope = log_evidence_and_grad(model, data, inference=inference)
    assert value == pytest.approx(expected, abs=1e-7)
    assert float(gradient.kernel.kernel.lengthscale) == pytest.approx(float(slope.kernel.kernel.lengthscale), abs=1e-5)
    a, b = (condition(model, data, inference=inference, gram=g).predict(X[:3]).f for g in (gram, Dense()))
    np.testing.assert_allclose(a.mean, b.mean, atol=1e-6)
    np.testing.assert_allclose(a.variance, b.variance, atol=1e-6)


@pytest.mark.parametrize("inference", [Laplace(), EP()], ids=["laplace", "ep"])
def test_with_gaussian_noise_every_inference_is_exact(inference: Any) -> None:
    model, data = Model(GP(KERNEL), likelihood=Gaussian(0.1)), Data(X, Y)
    value, gradient = log_evidence_and_grad(model, data, inference=inference)
    exact, slope = log_evidence_and_grad(model, data)
    assert value == pytest.approx(exact, abs=1e-8)
    assert float(gradient.kernel.kernel.lengthscale) == pytest.approx(float(slope.kernel.kernel.lengthscale), abs=1e-7)
    a, b = (condition(model, data, inference=i).predict(X[:3] + 0.1).f for i in (inference, Exact()))
    np.testing.assert_allclose(a.mean, b.mean, atol=1e-7)
    np.testing.assert_allclose(a.variance, b.variance, atol=1e-7)


@pytest.mark.parametrize("inference", [Laplace(), EP()], ids=["laplace", "ep"])
def test_known_noise_is_not_dropped_silently(inference: Any) -> None:
    model = Model(GP(KERNEL), likelihood=Gaussian(0.1))
    with pytest.raises(CovaryError, match="known noise variances or weights"):
        log_evidence(model, Data(X, Y, noise_variance=np.full(20, 0.1)), inference=inference)
