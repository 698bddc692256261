"""Edge cases of committees: zero variance, experts less certain than the prior, several outputs, experts with one row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from covary import GP, Data, Model, condition, log_evidence, log_evidence_and_grad
from covary.committee import RULES, Committee, GPoE, combine
from covary.inference import Laplace
from covary.kernels import Matern52
from covary.likelihoods import Gaussian, HeteroscedasticGaussian, Softmax, StudentT
from covary.parameters import Packing
from covary.prediction import Spread

RNG = np.random.default_rng(7)
X = RNG.uniform(-2, 2, (60, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(60)
NEW = RNG.uniform(-2.5, 2.5, (25, 2))
WILD = Y + np.where(np.arange(60) % 4 == 0, RNG.choice([-30.0, 30.0], 60), 0.0)
MODEL = Model(GP("1.3 * Matern52(lengthscale=[0.8, 1.5])"), likelihood=Gaussian(0.02))
EVERY = [*RULES, GPoE("entropy")]


def least(f: Any) -> float:
    """The smallest variance, in any direction."""
    assert np.isfinite(f.mean).all()
    return float(f.variance.min() if f.variance.ndim == 1 else np.linalg.eigvalsh(f.variance).min())


# nothing left to be known ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("rule", EVERY, ids=str)
def test_where_the_prior_is_certain_so_is_the_committee(rule: Any) -> None:
    """A line through the origin is nought there whatever was seen; elsewhere nothing changes."""
    model, origin = Model(GP("Linear()"), likelihood=Gaussian(0.1)), np.array([[0.0, 0.0], [1.0, 1.0]])
    found = condition(model, Data(X, Y), gram=Committee(4, rule=rule)).predict(origin).f
    assert found.mean[0] == pytest.approx(0.0, abs=1e-12)
    assert 0 <= found.variance[0] < 1e-12
    assert found.mean[1] == pytest.approx(condition(model, Data(X, Y)).predict(origin).f.mean[1], abs=0.3)
    classes = Model(GP("Linear()"), likelihood=Softmax(3))
    seen = Data(X, np.digitize(Y, [-0.7, 0.7]).astype(float))
    many = condition(classes, seen, inference=Laplace(), gram=Committee(4, rule=rule)).predict(origin).f
    np.testing.assert_allclose(many.mean[0], 0.0, atol=1e-9)
    assert least(many) >= 0


@pytest.mark.parametrize("rule", RULES)
def test_rows_without_noise_are_said_back(rule: str) -> None:
    model = Model(GP("1.0 * Matern52()"), likelihood=Gaussian(1e-14))
    post = condition(model, Data(X, Y), gram=Committee(4, rule=rule))
    said = post.predict(X).f
    assert least(said) >= 0
    if rule in ("bcm", "rbcm", "grbcm", "nearest"):
        np.testing.assert_allclose(said.mean, Y, atol=1e-3)
    assert np.isfinite(post.left_out()[1].mean).all()


# experts less sure than what they started from -----------------------------------------------------------------------------
@pytest.mark.parametrize("height", [4.0, 4.5, 5.0])
@pytest.mark.parametrize("rule", RULES)
def test_outliers_under_laplace_leave_every_variance_positive(rule: str, height: float) -> None:
    """Laplace's precision of an outlier under Student's t is negative: experts may end up wider than the prior."""
    x = np.sort(np.random.default_rng(0).uniform(0, 4, 40))[:, None]
    data = Data(x, height * np.where(np.arange(40) % 2 == 0, 1.0, -1.0))
    model = Model(GP("1.0 * Matern52()"), likelihood=StudentT(1.0))
    partition = "kmeans" if rule == "nearest" else "random"
    post = condition(model, data, inference=Laplace(), gram=Committee(10, rule=rule, partition=partition))
    found = post.predict(x).f
    assert least(found) > 0
    assert rule == "nearest" or found.variance.max() < 2.0  # no expert alone says more
    said = post.left_out()[1]
    known = np.isfinite(said.mean)
    assert known.any()
    assert (said.variance[known] > 0).all()
    if rule == "bcm":
        assert np.linalg.eigvalsh(post.covariance(x[::4])).min() > -1e-9


@pytest.mark.parametrize("rule", RULES)
def test_noise_that_varies_leaves_every_covariance_positive(rule: str) -> None:
    model = Model(GP((1.0 * Matern52(), 1.0 * Matern52())), likelihood=HeteroscedasticGaussian())
    post = condition(model, Data(X, WILD), inference=Laplace(), gram=Committee(8, rule=rule))
    assert least(post.predict(np.vstack([NEW, X, [[50.0, 50.0]]])).f) > 0


def test_what_unsure_experts_take_off_is_averaged() -> None:
    prior = Spread(np.full(2, 0.5), np.ones(2))
    wide = Spread(np.array([2.0, 2.0]), np.array([4.0, 1.0]))
    found = combine("bcm", [wide] * 5, prior)
    assert found.variance[0] == pytest.approx(4.0)  # the experts' own, not 1 / (5/4 - 4)
    assert found.mean[0] == pytest.approx(0.5 + 5 * (2.0 - 0.5) / 4 / (1 / 4))
    np.testing.assert_allclose([found.mean[1], found.variance[1]], [0.5 + 5 * 1.5, 1.0])  # as sure as the prior: as ever
    alone = combine("bcm", [wide], prior)
    np.testing.assert_allclose([alone.mean, alone.variance], [wide.mean, wide.variance])  # one expert is exact all the same
    C = np.array([[[3.0, 1.0], [1.0, 0.5]]])  # surer in one direction, less sure in another
    many = combine("bcm", [Spread(np.ones((1, 2)), C)] * 6, Spread(np.zeros((1, 2)), np.eye(2)[None]))
    assert np.linalg.eigvalsh(many.variance).min() > 0
    one = combine("bcm", [Spread(np.ones((1, 2)), C)], Spread(np.zeros((1, 2)), np.eye(2)[None]))
    np.testing.assert_allclose(one.variance, C)
    np.testing.assert_allclose(one.mean, 1.0)


# several outputs, single precision ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("rule", EVERY, ids=str)
@pytest.mark.parametrize("rows", [25, 3])
def test_each_of_several_outputs_is_a_committee_of_its_own(rule: Any, rows: int) -> None:
    every = np.stack([Y, -2 * Y, Y**2], axis=1)
    committee = Committee(4, rule=rule)
    found = condition(MODEL, Data(X, every), gram=committee).predict(NEW[:rows]).f
    assert found.mean.shape == (rows, 3)
    for j in range(3):
        alone = condition(MODEL, Data(X, every[:, j]), gram=committee).predict(NEW[:rows]).f
        np.testing.assert_allclose(found.mean[:, j], alone.mean, atol=1e-10)
        np.testing.assert_allclose(found.variance, alone.variance)
    if rule in ("bcm", "poe", "gpoe"):
        both = [condition(MODEL, Data(X, y), gram=committee).covariance(NEW[:4]) for y in (every, Y)]
        np.testing.assert_allclose(*both)


@pytest.mark.parametrize("rule", RULES)
def test_single_precision_is_kept(rule: str) -> None:
    half = Data(X.astype(np.float32), Y)
    found = condition(MODEL, half, gram=Committee(4, rule=rule)).predict(NEW.astype(np.float32)).f
    exact = condition(MODEL, Data(X, Y), gram=Committee(4, rule=rule)).predict(NEW).f
    assert found.mean.dtype == found.variance.dtype == np.float32
    np.testing.assert_allclose(found.mean, exact.mean, atol=2e-3)


# evidence ------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("rule", RULES)
def test_the_evidence_is_that_of_the_posterior_with_its_slopes(rule: str) -> None:
    data, committee = Data(X, Y), Committee(4, rule=rule)
    settled, _ = committee.prepare(MODEL, data)
    assert log_evidence(MODEL, data, gram=committee) == pytest.approx(condition(MODEL, data, gram=committee).log_evidence)
    packing = Packing(MODEL)
    theta, slope = packing.pack(MODEL), packing.pull(MODEL, log_evidence_and_grad(MODEL, data, gram=settled)[1])
    for i in range(packing.size):
        step = 1e-5 * np.eye(packing.size)[i]
        up, down = (log_evidence(packing.unpack(theta + s), data, gram=settled) for s in (step, -step))
        assert slope[i] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("rule", RULES)
def test_experts_of_one_row_each(rule: str) -> None:
    post = condition(MODEL, Data(X[:8], Y[:8]), gram=Committee(8, rule=rule))
    assert least(post.predict(np.vstack([X[:8], NEW])).f) > 0


def test_one_robust_expert_leaves_a_row_out_by_its_rule() -> None:
    post = condition(MODEL, Data(X, Y), gram=Committee(1, rule="rbcm"))
    rows, said = post.left_out()
    other = condition(MODEL, Data(np.delete(X, rows[5], 0), np.delete(Y, rows[5])), gram=Committee(1, rule="rbcm"))
    expected = other.predict(X[rows[5] : rows[5] + 1]).f
    np.testing.assert_allclose([said.mean[5], said.variance[5]], [expected.mean[0], expected.variance[0]], rtol=1e-7)
