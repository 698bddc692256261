"""Closed forms of model selection compared with the evidence."""

from __future__ import annotations

import numpy as np
import pytest

from covary import GP, Data, Model, log_evidence
from covary._checks import CovaryError
from covary.kernels import Linear, Matern52
from covary.likelihoods import Bernoulli, Gaussian
from covary.selection.closed_forms import best_scale, kernel_alignment

RNG = np.random.default_rng(2)
X = RNG.normal(size=(15, 2))
Y = 3.0 * np.sin(X[:, 0]) + 0.3 * RNG.normal(size=15)


def test_the_best_scale_is_the_top_of_the_evidence() -> None:
    """R&W, exercise 5.6.1: no other common factor of kernel and noise explains the data better."""
    found = best_scale(Model(GP(Matern52(lengthscale=0.7)), likelihood=Gaussian(0.2)), Data(X, Y))

    def at(scale: float) -> float:
        return log_evidence(Model(GP(scale * Matern52(lengthscale=0.7)), likelihood=Gaussian(0.2 * scale)), Data(X, Y))

    assert at(found.scale) == pytest.approx(found.log_evidence, abs=1e-10)
    assert all(at(found.scale * factor) < found.log_evidence for factor in (0.9, 0.99, 1.01, 1.1))
    K = Matern52(lengthscale=0.7).gram(X) + 0.2 * np.eye(15)
    assert found.scale == pytest.approx(Y @ np.linalg.inv(K) @ Y / 15, rel=1e-10)


def test_the_best_scale_refuses_what_does_not_scale() -> None:
    with pytest.raises(CovaryError, match="learn the scale instead"):
        best_scale(Model(GP("Matern52()"), likelihood=Bernoulli()), Data(X, np.sign(Y)))
    with pytest.raises(CovaryError, match="learn the scale instead"):
        best_scale(Model(GP("Matern52()")), Data(X, Y, noise_variance=np.ones(15)))
    with pytest.raises(CovaryError, match="observations that vary"):
        best_scale(Model(GP("Matern52()")), Data(X, np.zeros(15)))


def test_alignment_lies_between_minus_one_and_one() -> None:
    """R&W, eq. 5.28: one for K ∝ yyᵀ; never more by Cauchy and Schwarz; and the formula."""
    y = np.sign(Y)
    assert kernel_alignment(Linear(), y[:, None], y) == pytest.approx(1.0, abs=1e-12)
    for scale in (0.01, 0.5, 20.0):
        K = Matern52(lengthscale=scale).gram(X)
        direct = sum(y[i] * K[i, j] * y[j] for i in range(15) for j in range(15)) / (15 * np.sqrt((K**2).sum()))
        assert kernel_alignment(Matern52(lengthscale=scale), X, y) == pytest.approx(direct, abs=1e-12)
        assert abs(direct) <= 1
    with pytest.raises(CovaryError, match="labels -1 and 1"):
        kernel_alignment(Linear(), X, np.arange(15))
