"""The Markov gram: errors for unsupported input, and the number of compilations."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from covary import GP, Data, Model, condition, log_evidence, log_evidence_and_grad
from covary._checks import CovaryError, NotPositiveDefinite
from covary.gram.markov import Grid, Markov, recursions, rung
from covary.gram.markov.state_space import MOST_STATES, measured, representable, why_not
from covary.inference import Laplace
from covary.kernels import Constant, Cosine, Linear, Matern12, Matern32, Matern52, Periodic, SquaredExponential, fixed
from covary.kernels.wiener import IntegratedWiener
from covary.likelihoods import Gaussian, Softmax, StudentT
from covary.sites import Diagonal

X = np.linspace(0, 3, 12)[:, None]
Y = np.sin(X[:, 0])


@pytest.mark.parametrize(
    ("kernel", "sentence"),
    [
        (Matern32() * Periodic(), "Periodic has no state space model; use Matern kernels"),
        (2.0 * (SquaredExponential() + 1.0), "SquaredExponential has no state space model"),
        (Matern52() ** 3, f"27 states are needed, but at most {MOST_STATES} are supported"),
        (Matern52() ** 64, "states are needed"),
    ],
)
def test_kernels_without_a_state_space_model(kernel: Any, sentence: str) -> None:
    assert not representable(kernel)
    with pytest.raises(CovaryError, match=sentence):
        log_evidence(Model(GP(kernel)), Data(X, Y), gram=Markov())


def test_one_column_one_function_log_concave() -> None:
    two = np.hstack([X, X])
    with pytest.raises(CovaryError, match=r"gram.Markov: X has 2 columns; give one"):
        log_evidence(Model(GP(Matern32())), Data(two, Y), gram=Markov())
    assert why_not(Matern32().on(1)) == "the part on columns [1] uses more than one input column"
    classes = Model(GP(Matern32()), likelihood=Softmax(3))
    with pytest.raises(CovaryError, match="sites of kind Softmax are not supported; use gram=Dense"):
        condition(classes, Data(X, np.arange(12) % 3), inference=Laplace(), gram=Markov())
    with pytest.raises(CovaryError, match="site precisions are negative"):
        Markov().bind((Matern32(),), Data(X, Y).X).factor(Diagonal(-np.ones(12)))
    robust = Model(GP(Matern32()), likelihood=StudentT(0.1))
    with pytest.raises(CovaryError, match="site precisions are negative"):
        condition(robust, Data(X, Y + 9.0 * (np.arange(12) == 4)), inference=Laplace(), gram=Markov())


def test_repeated_rows_without_noise_are_refused() -> None:
    model = Model(GP(Matern32()), likelihood=Gaussian(fixed(0.0)))
    with pytest.raises(NotPositiveDefinite, match="12 rows of X repeat others and the noise is zero"):
        log_evidence(model, Data(np.vstack([X, X]), np.tile(Y, 2)), gram=Markov())
    with pytest.raises(NotPositiveDefinite, match="the noise is zero at rows that are already determined by the others"):
        log_evidence(Model(GP(Linear()), likelihood=Gaussian(fixed(0.0))), Data(X, Y), gram=Markov())


def test_negative_inputs_of_the_spline_are_refused() -> None:
    with pytest.raises(CovaryError, match=r"kernels.IntegratedWiener: X is -1.0 at row 0; shift the inputs"):
        log_evidence(Model(GP(IntegratedWiener())), Data(X - 1, Y), gram=Markov())
    with pytest.raises(CovaryError, match="X has 2 columns but the kernel is defined on 1"):
        IntegratedWiener().gram(np.hstack([X, X]))


def test_which_states_are_seen() -> None:
    assert measured(Matern32() + Matern12() + Constant()) == (1, 0, 1, 1)
    assert measured(Cosine() * Matern32() * 2.0) == (1, 0, 0, 0)
    assert measured((Matern12() + Constant()) ** 2) == (1, 1, 1, 1)


def test_rows_come_back_from_the_grid_in_their_order() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 17, 333):
        x, v = rng.integers(0, 9, n).astype(float), rng.normal(size=(n, 2))
        for sequential in (False, True):
            grid = Grid(x, sequential)
            np.testing.assert_array_equal(grid.get(grid.put(v)), v)
            np.testing.assert_array_equal(grid.at(grid.put(x), np.arange(n)), np.sort(x))
            assert (grid.dt >= 0).all()
            assert grid.dt.sum() == pytest.approx(x.max() - x.min())
    assert len({rung(n) for n in range(1000, 2000)}) <= 9


def test_few_compiled_shapes() -> None:
    rng = np.random.default_rng(1)
    model = Model(GP(1.3 * Matern12(lengthscale=0.4)), likelihood=Gaussian(0.1))
    counts = []
    for n in (900, 901, 950):
        x = rng.uniform(0, 50, (n, 1))
        data = Data(x, np.sin(x[:, 0]))
        log_evidence_and_grad(model, data, gram=Markov())
        post = condition(model, data, gram=Markov())
        post.predict(x[:200])
        post.factor.variance()
        counts.append(dict(recursions.traces))
    assert counts[0] == counts[1] == counts[2]
    assert min(counts[0].values()) > 0


def test_a_posterior_outlives_its_precision_scope() -> None:
    post = condition(Model(GP(Matern52()), likelihood=Gaussian(0.1)), Data(X, Y), gram=Markov())
    again = pickle.loads(pickle.dumps(post))
    np.testing.assert_array_equal(again.predict(X).f.variance, post.predict(X).f.variance)
    assert isinstance(post.factor.k, np.ndarray)
    assert post.factor.k.dtype == np.float64
