"""Rows with equal inputs are merged without loss: a row of weight w, mean y and scatter S is equivalent to w observations."""

from __future__ import annotations

import numpy as np
import pytest

from covary import GP, Data, Inputs, Model, condition, learn, log_evidence, log_evidence_and_grad
from covary._checks import CovaryError
from covary.gram.low_rank import LowRank
from covary.gram.traced import traced_log_evidence_and_grad
from covary.kernels import Matern52
from covary.likelihoods import Gaussian
from covary.means import Constant
from covary.parameters import fixed, parameters
from covary.selection.starts import column_scales, target_mean, target_scale

RNG = np.random.default_rng(7)
DISTINCT = RNG.normal(size=(12, 2))
GROUP = RNG.integers(0, 12, 40)
X = DISTINCT[GROUP]
Y = np.sin(X[:, 0]) + 0.3 * RNG.normal(size=40) + 2.0
XS = RNG.normal(size=(6, 2))
MODEL = Model(GP(1.3 * Matern52(lengthscale=[0.8, 1.5]), mean=Constant(1.7)), likelihood=Gaussian(0.09))

CASES = {
    "plain": Data(X, Y),
    "known noise": Data(X, Y, noise_variance=np.linspace(0.0, 0.3, 12)[GROUP]),
    "weights": Data(X, Y, weight=RNG.uniform(0.3, 3.0, 40)),
    "two outputs": Data(X, np.column_stack([Y, Y**2]), weight=RNG.uniform(0.3, 3.0, 40)),
    "tags": Data(Inputs(X, {"output": RNG.integers(0, 2, 40)}), Y),
}


def flat(gradient) -> np.ndarray:
    return np.concatenate([np.ravel(p.value) for p in parameters(gradient).values()])


@pytest.mark.parametrize("name", CASES)
def test_merged_rows_have_the_evidence_slopes_and_predictions_of_all_rows(name: str) -> None:
    data = CASES[name]
    merged = data.collapse()
    assert merged.rows < data.rows
    (value, slope), (value_merged, slope_merged) = (log_evidence_and_grad(MODEL, d) for d in (data, merged))
    assert value_merged == pytest.approx(value, rel=1e-11)
    np.testing.assert_allclose(flat(slope_merged), flat(slope), rtol=1e-8, atol=1e-8)
    new = Inputs(XS, {"output": np.zeros(6, int)}) if data.X.tags else XS
    a, b = (condition(MODEL, d).predict(new) for d in (data, merged))
    np.testing.assert_allclose(b.f.mean, a.f.mean, rtol=1e-9)
    np.testing.assert_allclose(b.y.variance, a.y.variance, rtol=1e-9)


@pytest.mark.parametrize("name", ["plain", "known noise", "two outputs"])
def test_the_data_s_own_scales_do_not_depend_on_how_rows_are_written(name: str) -> None:
    data = CASES[name]
    merged = data.collapse()
    np.testing.assert_allclose(column_scales(merged), column_scales(data), rtol=1e-12)
    np.testing.assert_allclose(target_mean(merged), target_mean(data), rtol=1e-12)
    assert target_scale(merged) == pytest.approx(target_scale(data), rel=1e-12)


def test_whole_weights_are_repeated_rows() -> None:
    weight = RNG.integers(1, 5, 40)
    once, often = Data(X, Y, weight=weight), Data(np.repeat(X, weight, 0), np.repeat(Y, weight))
    assert log_evidence(MODEL, once) == pytest.approx(log_evidence(MODEL, often), rel=1e-11)


def test_any_weights_are_powers_of_the_likelihood() -> None:
    r"""∫ N(f | m, K) Π N(y | f, v)^w df = Π (2πv)^{−w/2} |I + K D|^{−1/2} exp(−½ rᵀ(K + D⁻¹)⁻¹r), D = diag(w/v)."""
    known, weight = RNG.uniform(0.01, 0.2, 12), RNG.uniform(0.2, 4.0, 12)
    y = RNG.normal(size=12) + 1.7
    v = 0.09 + known
    K, D = MODEL.kernel.gram(DISTINCT), np.diag(weight / v)
    expected = (
        -0.5 * (weight * np.log(2 * np.pi * v)).sum()
        - 0.5 * np.linalg.slogdet(np.eye(12) + K @ D)[1]
        - 0.5 * (y - 1.7) @ np.linalg.solve(K + np.linalg.inv(D), y - 1.7)
    )
    assert log_evidence(MODEL, Data(DISTINCT, y, known, weight)) == pytest.approx(expected, abs=1e-9)


def test_the_variational_bound_does_not_change_either() -> None:
    gram = LowRank(DISTINCT[:5], rule="vfe")
    values = [log_evidence(MODEL, d, gram=gram) for d in (Data(X, Y), Data(X, Y).collapse())]
    assert values[0] == pytest.approx(values[1], rel=1e-10)


def test_the_compiled_lane_agrees() -> None:
    from covary._precision import precision

    data = CASES["two outputs"].collapse()
    value, slope = log_evidence_and_grad(MODEL, data)
    with precision(np.float64):
        got, its = traced_log_evidence_and_grad(MODEL, data)
    assert got == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(flat(its), flat(slope), rtol=1e-7, atol=1e-7)


def test_merging_twice_is_merging_once_and_joining_is_merging_all() -> None:
    data = Data(X, Y)
    merged = data.collapse()
    assert merged.collapse() is merged
    parts = data.take(slice(0, 25)).collapse().join(data.take(slice(25, 40)).collapse()).collapse()
    assert log_evidence(MODEL, parts) == pytest.approx(log_evidence(MODEL, data), rel=1e-11)
    assert parts.weight is not None
    assert parts.weight.sum() == 40
    with pytest.raises(CovaryError, match="differ in columns"):
        data.join(Data(X[:, :1], Y))


def test_equal_observations_keep_their_value_to_the_last_digit() -> None:
    merged = Data([[1.0]] * 7 + [[-0.0], [0.0]], [0.1] * 7 + [3.0, 3.0]).collapse()
    assert merged.y.tolist() == [0.1, 3.0]
    assert merged.scatter is not None
    assert merged.scatter.tolist() == [0.0, 0.0]


def test_noise_free_rows_may_repeat_themselves_but_not_contradict_themselves() -> None:
    model = Model(GP("Matern52()"), likelihood=Gaussian(fixed(0.0)))
    agree = Data([[0.0], [1.0], [0.0]], [1.0, 2.0, 1.0]).collapse()
    assert log_evidence(model, agree) == pytest.approx(log_evidence(model, Data([[0.0], [1.0]], [1.0, 2.0])))
    with pytest.raises(CovaryError, match="the inputs at row 0 are repeated with different targets; allow some noise"):
        log_evidence(model, Data([[0.0], [1.0], [0.0]], [1.0, 2.0, 1.5]).collapse())


def test_learning_finds_the_same_model() -> None:
    plain, merged = (learn(MODEL, d).model for d in (Data(X, Y), Data(X, Y).collapse()))
    np.testing.assert_allclose(flat(merged), flat(plain), rtol=1e-3)
