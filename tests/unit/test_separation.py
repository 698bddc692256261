"""Separable observations raise an error if weights are vague, and are reported if weights are learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from covary import GP, Data, GPClassifier, GPRegressor, Model, condition, learn
from covary._checks import CovaryError
from covary.distributions import Normal
from covary.inference import EP, Laplace
from covary.inference.condition import separated
from covary.likelihoods import Bernoulli, Binomial, Gamma, Gaussian, NegativeBinomial, Ordinal, Poisson, StudentT
from covary.means import ConstantBasis, Linear, LinearBasis

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
SIDE = (X[:, 0] + X[:, 1] > 0).astype(float)
MIXED = (X[:, 0] + RNG.normal(size=30) > 0).astype(float)
ZEROS, TRIALS = np.zeros(30), np.full(30, 5.0)
H = np.column_stack([np.ones(30), X])

SEPARATED = [
    (Bernoulli(), SIDE),
    (Bernoulli(link="logit"), SIDE),
    (Binomial(), np.stack([5 * SIDE, TRIALS], axis=1)),
    (Poisson(), ZEROS),
    (Poisson(link="softplus"), ZEROS),
    (NegativeBinomial(), ZEROS),
    (Ordinal.of(2), SIDE),
    (Ordinal.of(3), 2 * SIDE),
]
PROPER = [
    (Bernoulli(), MIXED),
    (Binomial(), np.stack([1 + 3 * SIDE, TRIALS], axis=1)),
    (Poisson(), np.eye(30)[0] + np.eye(30)[7] + np.eye(30)[12] + np.eye(30)[20]),
    (Ordinal.of(3), np.digitize(X[:, 0] + X[:, 1], [-0.5, 0.5]).astype(float)),
    (Gamma(), 1 + SIDE),
    (Gaussian(), SIDE),
    (StudentT(), SIDE),
]


def name(value: Any) -> str:
    return type(value).__name__ if not isinstance(value, np.ndarray) else ""


@pytest.mark.parametrize(("likelihood", "y"), SEPARATED, ids=name)
@pytest.mark.parametrize("inference", [Laplace(), EP()], ids=name)
def test_vague_weights_without_limit_are_refused(likelihood: Any, y: np.ndarray, inference: Any) -> None:
    model = Model(GP("1.0 * Matern52()", basis=LinearBasis()), likelihood=likelihood)
    for verb in (condition, learn):
        with pytest.raises(CovaryError, match=r"separated.*give the weights a covariance"):
            verb(model, Data(X, y), inference=inference)


@pytest.mark.parametrize(("likelihood", "y"), PROPER, ids=name)
def test_weights_with_a_limit_are_not(likelihood: Any, y: np.ndarray) -> None:
    assert not separated(likelihood, Data(X, y), H)


def test_only_what_is_vague_counts() -> None:
    data = Data(X, SIDE)
    apart = GP("1.0 * Matern52()", basis=LinearBasis(covariance=100.0))
    found = condition(Model(apart, likelihood=Bernoulli()), data, inference=Laplace())
    p = np.asarray(found.predict(X).y.mean)
    assert found.status == "converged"
    assert ((p > 0.5) == SIDE).all()
    partly = GP("1.0 * Matern52()", basis=LinearBasis(covariance=np.array([np.inf, 10.0, 10.0])))
    assert condition(Model(partly, likelihood=Bernoulli()), data, inference=Laplace()).status == "converged"
    assert condition(Model(GP("1.0 * Matern52()", basis=ConstantBasis()), likelihood=Bernoulli()), data, inference=EP()).status


def test_separation_does_not_depend_on_units_and_sees_ties() -> None:
    far = 1e6 + 1e-3 * X
    for inputs in (X, far, X * 1e9, X * 1e-9, X * 1e-14, X * [1e-14, 1e14]):
        columns = np.column_stack([np.ones(30), inputs])
        assert separated(Bernoulli(), Data(inputs, SIDE), columns)
        assert not separated(Bernoulli(), Data(inputs, MIXED), columns)
    x = np.array([[-2.0], [-1.0], [0.0], [0.0], [1.0], [2.0]])
    quasi, crossed = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0]), np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    columns = np.column_stack([np.ones(6), x])
    assert separated(Bernoulli(), Data(x, quasi), columns)
    assert not separated(Bernoulli(), Data(x, crossed), columns)


def test_separation_agrees_with_a_search_over_directions() -> None:
    """In the plane every direction can be tried."""
    turns = np.linspace(0, 2 * np.pi, 20_001)
    directions = np.stack([np.cos(turns), np.sin(turns)])
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(6, 2)), rng.integers(0, 2, 6).astype(float)
        margin = ((2 * y - 1)[:, None] * (x @ directions)).min(0).max()
        if abs(margin) > 1e-3:
            assert separated(Bernoulli(), Data(x, y), x) == (margin > 0)


def test_a_learned_mean_without_limit_is_not_called_converged() -> None:
    model = GPClassifier("1.0 * Matern52()", mean="linear", n_restarts=0, random_state=0).fit(X, SIDE)
    assert model.learned_ is not None
    assert model.learned_.status.startswith("without limit")
    assert "the mean is unbounded" in str(model.summary())
    counts = GPRegressor("1.0 * Matern52()", likelihood="poisson", n_restarts=0).fit(X, ZEROS)
    assert counts.learned_ is not None
    assert counts.learned_.status.startswith("without limit")
    start = Model(GP("1.0 * Matern52()", mean=Linear(weight=np.zeros(2))), likelihood=Bernoulli())
    priors = {"mean.weight": Normal(0.0, std=5.0), "mean.value": Normal(0.0, std=5.0)}
    assert learn(start, Data(X, SIDE), inference=Laplace(), priors=priors).status == "converged"
