"""Subset of data: exact with all rows, the entropy rule of the book, and the evidence of the subset."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from covary import GP, Data, Model, condition, learn, log_evidence, log_evidence_and_grad
from covary._checks import CovaryError
from covary.gram import Subset
from covary.gram.subset import informative_rows
from covary.inference import EP, Laplace
from covary.kernels import Matern52
from covary.likelihoods import Bernoulli, Gaussian, Softmax

RNG = np.random.default_rng(2)
X = RNG.uniform(-3, 3, size=(50, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=50)
KERNEL = 1.3 * Matern52([0.8, 1.5])
MODEL = Model(GP(KERNEL), likelihood=Gaussian(0.05))


@pytest.mark.parametrize("select", ["random", "entropy"])
def test_all_rows_are_the_exact_answer(select: str) -> None:
    data, gram = Data(X, Y), Subset(50, select=select)
    value, slope = log_evidence_and_grad(MODEL, data, gram=gram)
    truth, right = log_evidence_and_grad(MODEL, data)
    assert value == truth
    np.testing.assert_array_equal(slope.kernel.kernel.lengthscale, right.kernel.kernel.lengthscale)


def test_the_evidence_is_that_of_the_rows_chosen() -> None:
    post = condition(MODEL, Data(X, Y), gram=Subset(12, select="entropy"))
    rows = np.sort(informative_rows(MODEL, Data(X, Y), 12))
    assert post.data.rows == 12
    assert post.log_evidence == pytest.approx(log_evidence(MODEL, Data(X[rows], Y[rows])), abs=1e-12)


def test_the_entropy_rule_is_the_book_s() -> None:
    """Under Gaussian noise: always the row with the largest posterior variance given those chosen (eq. 8.19)."""
    K = np.asarray(KERNEL.cross(X, X))
    chosen: list[int] = []
    for _ in range(10):
        variance = np.diag(K).copy()
        if chosen:
            C = K[np.ix_(chosen, chosen)] + 0.05 * np.eye(len(chosen))
            variance -= np.einsum("ij,ji->i", K[:, chosen], np.linalg.solve(C, K[chosen]))
        variance[chosen] = -np.inf
        chosen.append(int(np.argmax(variance)))
    assert informative_rows(MODEL, Data(X, Y), 10).tolist() == chosen


def test_known_noise_makes_rows_less_informative() -> None:
    noisy = np.where(np.arange(50) < 25, 1e4, 1e-3)
    rows = informative_rows(MODEL, Data(X, Y, noisy), 10)
    assert (rows >= 25).all()


@pytest.mark.parametrize("inference", [Laplace(), EP()], ids=["laplace", "ep"])
def test_classes_by_informative_rows_beat_random_ones(inference: Any) -> None:
    inputs = np.concatenate([RNG.normal(size=(150, 1)) * 0.05 - 2, RNG.uniform(-2, 2, size=(50, 1))])
    labels = (inputs[:, 0] > 0.3).astype(float)
    model = Model(GP(9.0 * Matern52(0.7)), likelihood=Bernoulli("probit"))
    grid = np.linspace(-2, 2, 60)[:, None]
    spread = []
    for select in ("entropy", "random"):
        post = condition(model, Data(inputs, labels), inference=inference, gram=Subset(20, select=select))
        spread.append(float(post.predict(grid).f.variance.max()))
    assert spread[0] < spread[1]


def test_what_is_learned_from_is_what_is_conditioned_on():
    gram = Subset(30, seed=4)
    fit = learn(MODEL, Data(X, Y), gram=gram, key=7)
    assert condition(fit, Data(X, Y), gram=gram).log_evidence == pytest.approx(fit.value, abs=1e-8)
    assert condition(fit, Data(X, Y), gram=Subset(30)).log_evidence != pytest.approx(fit.value, abs=1e-3)


def test_it_learns_on_its_rows() -> None:
    fit = learn(MODEL, Data(X, Y), gram=Subset(30))
    assert fit.status == "converged"
    assert fit.objective.data.rows == 30


@pytest.mark.parametrize(
    ("gram", "model", "sentence"),
    [
        (Subset(0), MODEL, "rows is 0"),
        (Subset(10, select="best"), MODEL, "select is 'best'"),
        (Subset(10, select="entropy"), Model(GP(KERNEL), likelihood=Softmax(3)), "one latent function"),
    ],
)
def test_what_makes_no_sense_is_refused(gram: Any, model: Any, sentence: str) -> None:
    labels = np.arange(50.0) % 3
    with pytest.raises(CovaryError, match=sentence):
        condition(model, Data(X, labels), inference=Laplace(), gram=gram)
