"""Limits and properties of exact regression that follow from probability theory."""

from __future__ import annotations

import numpy as np
import pytest

from covary import GP, Data, Model, condition, log_evidence, sample_prior
from covary.kernels import Constant, Linear, Matern12, Matern52, RationalQuadratic, SquaredExponential, Wiener, fixed
from covary.likelihoods import Gaussian
from covary.means import Constant as ConstantMean
from covary.means import LinearBasis

RNG = np.random.default_rng(11)
X = np.sort(RNG.uniform(0, 5, 18))[:, None]
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=18)
XS = np.linspace(-1, 6, 9)[:, None]
MODEL = Model(GP(1.2 * Matern52(lengthscale=0.9)), likelihood=Gaussian(0.02))


def test_predictive_log_densities_chain_to_the_evidence() -> None:
    """log p(y) = Σ log p(y_i | y_<i) (R&W, exercise 5.6.2)."""
    total = float(-0.5 * (np.log(2 * np.pi * 1.22) + Y[0] ** 2 / 1.22))
    for i in range(1, 18):
        post = condition(MODEL, Data(X[:i], Y[:i]))
        total += float(post.predict(X[i : i + 1]).y.log_prob(Y[i])[0])
    assert log_evidence(MODEL, Data(X, Y)) == pytest.approx(total, abs=1e-9)


def test_targets_of_a_squared_exponential_have_its_covariance_and_the_noise() -> None:
    """cov(y_p, y_q) = σ_f² exp(−(x_p − x_q)²/2ℓ²) + σ_n² δ_pq (R&W, eq. 2.31), in the evidence and far from the data."""
    model = Model(GP(1.44 * SquaredExponential(lengthscale=0.7)), likelihood=Gaussian(0.09))
    C = 1.44 * np.exp(-((X - X.T) ** 2) / (2 * 0.7**2)) + 0.09 * np.eye(18)
    expected = -0.5 * (Y @ np.linalg.solve(C, Y) + np.linalg.slogdet(2 * np.pi * C)[1])
    assert log_evidence(model, Data(X, Y)) == pytest.approx(expected, abs=1e-9)
    far = condition(model, Data(X, Y)).predict(np.array([[50.0], [50.7]]), covariance=True)
    assert far.f.covariance is not None
    np.testing.assert_allclose(far.f.covariance, 1.44 * np.exp([[0.0, -0.5], [-0.5, 0.0]]), atol=1e-12)
    np.testing.assert_allclose(far.y.variance, 1.53, atol=1e-12)


def test_variance_never_grows_with_data() -> None:
    before = MODEL.kernel.diag(XS)
    for i in range(1, 19):
        after = condition(MODEL, Data(X[:i], Y[:i])).predict(XS).f.variance
        assert np.all(after <= before + 1e-12)
        before = after


def test_variance_does_not_depend_on_targets_and_mean_is_linear_in_them() -> None:
    one, two = condition(MODEL, Data(X, Y)).predict(XS).f, condition(MODEL, Data(X, Y**3)).predict(XS).f
    both = condition(MODEL, Data(X, 2 * Y - 3 * Y**3)).predict(XS).f
    np.testing.assert_array_equal(one.variance, two.variance)
    np.testing.assert_allclose(both.mean, 2 * one.mean - 3 * two.mean, atol=1e-10)


def test_marginalisation() -> None:
    """Predictions at a subset are the block of the joint ones."""
    post = condition(MODEL, Data(X, Y))
    joint, part = post.predict(XS, covariance=True).f, post.predict(XS[2:5], covariance=True).f
    np.testing.assert_allclose(part.mean, joint.mean[2:5], atol=1e-12)
    np.testing.assert_allclose(part.covariance, joint.covariance[2:5, 2:5], atol=1e-12)


def test_two_observations_at_one_input_are_their_mean_with_half_the_noise() -> None:
    twice = condition(MODEL, Data(np.vstack([X, X]), np.concatenate([Y, Y + 0.3]))).predict(XS).f
    once = condition(MODEL, Data(X, Y + 0.15, weight=np.full(18, 2.0))).predict(XS).f
    np.testing.assert_allclose(twice.mean, once.mean, atol=1e-9)
    np.testing.assert_allclose(twice.variance, once.variance, atol=1e-9)


def test_far_from_data_the_prior_returns() -> None:
    model = Model(GP(1.2 * Matern52(lengthscale=0.9), mean=ConstantMean(7.0)), likelihood=Gaussian(0.02))
    far = condition(model, Data(X, Y)).predict([[1e6]])
    assert far.f.mean[0] == pytest.approx(7.0)
    assert far.f.variance[0] == pytest.approx(1.2)
    assert far.y.variance[0] == pytest.approx(1.22)


def test_scaling_signal_and_noise_together_leaves_the_mean() -> None:
    scaled = Model(GP(12.0 * Matern52(lengthscale=0.9)), likelihood=Gaussian(0.2))
    a, b = condition(MODEL, Data(X, Y)).predict(XS).f, condition(scaled, Data(X, Y)).predict(XS).f
    np.testing.assert_allclose(a.mean, b.mean, atol=1e-10)
    np.testing.assert_allclose(10 * a.variance, b.variance, atol=1e-10)


def test_linear_kernel_is_bayesian_linear_regression() -> None:
    """Weight space and function space agree (R&W, eqs. 2.8, 2.9)."""
    model = Model(GP(1.0 * Linear(lengthscale=0.5) + 4.0 * Constant()), likelihood=Gaussian(0.1))
    prediction = condition(model, Data(X, Y)).predict(XS).f
    Phi, Phis = np.column_stack([X, np.ones(18)]), np.column_stack([XS, np.ones(9)])
    A = Phi.T @ Phi / 0.1 + np.diag([0.25, 0.25])
    np.testing.assert_allclose(prediction.mean, Phis @ np.linalg.solve(A, Phi.T @ Y) / 0.1, atol=1e-9)
    np.testing.assert_allclose(prediction.variance, np.diag(Phis @ np.linalg.solve(A, Phis.T)), atol=1e-8)


def test_vague_basis_follows_any_line_added_to_the_targets() -> None:
    model = Model(GP(1.2 * Matern52(), basis=LinearBasis()), likelihood=Gaussian(0.02))
    plain = condition(model, Data(X, Y)).predict(XS).f
    tilted = condition(model, Data(X, Y + 5 - 3 * X[:, 0])).predict(XS).f
    np.testing.assert_allclose(tilted.mean, plain.mean + 5 - 3 * XS[:, 0], atol=1e-8)
    np.testing.assert_allclose(tilted.variance, plain.variance, atol=1e-10)


def test_rational_quadratic_tends_to_squared_exponential() -> None:
    np.testing.assert_allclose(RationalQuadratic(alpha=1e7).gram(X), SquaredExponential().gram(X), atol=1e-6)


def test_exponential_kernel_without_noise_looks_only_at_neighbours() -> None:
    """The Markov property (R&W, exercise 4.5.1)."""
    model = Model(GP(1.0 * Matern12()), likelihood=Gaussian(fixed(0.0)))
    weights = np.linalg.solve(model.kernel.gram(X), model.kernel.cross(X, [[2.0]])[:, 0])
    right = int(np.searchsorted(X[:, 0], 2.0))
    np.testing.assert_allclose(np.delete(weights, [right - 1, right]), 0.0, atol=1e-9)
    mean = condition(model, Data(X, Y)).predict([[2.0]]).f.mean[0]
    assert mean == pytest.approx(weights @ Y, abs=1e-9)


def test_wiener_pinned_at_one_is_the_brownian_bridge() -> None:
    """min(x, x') − x x' (R&W, exercise 2.9.3)."""
    t = np.linspace(0.1, 0.9, 5)[:, None]
    post = condition(Model(GP(1.0 * Wiener()), likelihood=Gaussian(fixed(0.0))), Data([[1.0]], [0.0]))
    np.testing.assert_allclose(post.covariance(t), np.minimum(t, t.T) - t * t.T, atol=1e-12)


def test_prior_draws_have_the_kernel_as_covariance() -> None:
    draws = sample_prior(GP(MODEL.kernel, mean=ConstantMean(2.0)), X, 40_000, key=0)
    np.testing.assert_allclose(np.cov(draws.T), MODEL.kernel.gram(X), atol=0.05)
    np.testing.assert_allclose(draws.mean(0), 2.0, atol=0.03)


def test_posterior_draws_have_the_posterior_moments() -> None:
    post = condition(MODEL, Data(X, Y))
    draws = post.sample(XS, 40_000, key=1)
    np.testing.assert_allclose(draws.mean(0), post.mean(XS), atol=0.03)
    np.testing.assert_allclose(np.cov(draws.T), post.covariance(XS), atol=0.05)


def test_prediction_in_chunks_is_prediction_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from covary.posterior import base as module

    post = condition(MODEL, Data(X, Y))
    many = np.linspace(-1, 6, 1000)[:, None]
    whole = post.predict(many).f
    monkeypatch.setattr(module, "CHUNK_BYTES", 1)
    parts = post.predict(many).f
    np.testing.assert_allclose(parts.mean, whole.mean, atol=1e-13)
    np.testing.assert_allclose(parts.variance, whole.variance, atol=1e-13)


def test_evidence_is_a_density_over_targets() -> None:
    """∫ p(y) dy = 1 for two rows (R&W, figure 5.2)."""
    grid = np.linspace(-9, 9, 181)
    step = grid[1] - grid[0]
    model = Model(GP(1.0 * Matern52()), likelihood=Gaussian(0.1))
    K = model.kernel.gram(X[:2]) + 0.1 * np.eye(2)
    one = log_evidence(model, Data(X[:2], [0.4, -0.2]))
    quad = np.array([0.4, -0.2]) @ np.linalg.solve(K, [0.4, -0.2])
    shift = one + 0.5 * quad  # log p(y) = shift − ½ yᵀK⁻¹y
    u, v = np.meshgrid(grid, grid)
    pairs = np.stack([u.ravel(), v.ravel()])
    assert np.exp(shift - 0.5 * (pairs * np.linalg.solve(K, pairs)).sum(0)).sum() * step**2 == pytest.approx(1.0, abs=1e-6)


def test_repeated_rows_without_noise_are_not_factorised_by_luck() -> None:
    """Two different targets at one input and no noise: jitter is added and told, and the mean lies between them."""
    model = Model(GP(1.0 * Matern52()), likelihood=Gaussian(fixed(0.0)))
    post = condition(model, Data(np.vstack([X, X]), np.concatenate([Y, Y + 0.1])))
    assert post.factor.jitter > 0
    np.testing.assert_allclose(post.predict(X).f.mean, Y + 0.05, atol=0.02)
