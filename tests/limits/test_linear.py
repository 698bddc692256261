"""Weight space compared with function space: the equivalent Gaussian process, evidence, features and kernels."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

from covary import GP, Data, Model, condition
from covary._checks import CovaryError
from covary.kernels import Linear, Matern52, SquaredExponential
from covary.likelihoods import Gaussian
from covary.models.linear import (
    BayesianLinear,
    FeatureKernel,
    density_by_draws,
    features_of,
    moment_matched,
    symmetric_root,
)

RNG = np.random.default_rng(3)
N, D = 18, 3
X, XS = RNG.normal(size=(N, D)), RNG.normal(size=(6, D))
Y = X @ [1.0, -0.5, 0.2] + 0.3 * RNG.normal(size=N)


def cubes(x: Any) -> Any:
    """1, x, x², x³ of every column, and two features that others make up."""
    one = jnp.ones((x.shape[0], 1), x.dtype)
    base = jnp.concatenate([one, x, x**2, x**3], 1)
    return jnp.concatenate([base, x[:, :1] + x[:, 1:2], 2 * one], 1)


def bumps(x: Any) -> Any:
    """Forty Gaussian bumps: more features than rows."""
    centres = np.linspace(-3, 3, 40)
    return jnp.exp(-0.5 * (x[:, :1] - centres) ** 2 / 0.25)


W = RNG.normal(size=(12, 12))
MODELS: dict[str, BayesianLinear] = {
    "columns": BayesianLinear(prior_covariance=0.7, noise_variance=0.09),
    "one variance each": BayesianLinear(prior_covariance=[0.5, 2.0, 0.0], noise_variance=0.09),
    "matrix, dependent": BayesianLinear(cubes, prior_covariance=W[:, :5] @ W[:, :5].T / 5, noise_variance=0.2),
    "more than rows": BayesianLinear(bumps, prior_covariance=1.5, noise_variance=0.05),
}


def phi(model: BayesianLinear, x: np.ndarray) -> np.ndarray:
    return x if model.features is None else np.asarray(model.features(x), np.float64)


def sigma_p(model: BayesianLinear, m: int) -> np.ndarray:
    B = np.asarray(model.prior_covariance)
    return B if B.ndim == 2 else np.diag(np.broadcast_to(B, m))


@pytest.fixture(autouse=True)
def double() -> Any:
    from covary._precision import precision

    with precision(np.float64):  # the features above are jax.numpy
        yield


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_both_routes_are_the_textbook(model: BayesianLinear) -> None:
    """R&W, eqs. 2.11 and 2.12; evidence and joint covariance (exercise 2.9.2)."""
    F, Fs, s = phi(model, X), phi(model, XS), model.noise_variance
    B = sigma_p(model, F.shape[1])
    C, Ks = F @ B @ F.T + s * np.eye(N), F @ B @ Fs.T
    mean, cov = Ks.T @ np.linalg.solve(C, Y), Fs @ B @ Fs.T - Ks.T @ np.linalg.solve(C, Ks)
    value = stats.multivariate_normal(np.zeros(N), C).logpdf(Y)
    found = {route: model.condition(X, Y, route=route) for route in ("primal", "dual")}
    for post in found.values():
        got = post.predict(XS, covariance=True)
        np.testing.assert_allclose(got.f.mean, mean, atol=1e-10)
        np.testing.assert_allclose(got.f.covariance, cov, atol=1e-10)
        np.testing.assert_allclose(got.f.variance, np.diag(cov), atol=1e-10)
        np.testing.assert_allclose(got.y.variance, np.diag(cov) + s, atol=1e-10)
        np.testing.assert_allclose(got.y.covariance, cov + s * np.eye(6), atol=1e-10)
        assert post.log_evidence == pytest.approx(value, abs=1e-9)
        np.testing.assert_allclose(post.weights, B @ F.T @ np.linalg.solve(C, Y), atol=1e-10)
        np.testing.assert_allclose(post.covariance, B - B @ F.T @ np.linalg.solve(C, F @ B), atol=1e-10)
        assert post.effective == pytest.approx(np.trace(np.linalg.solve(C, F @ B @ F.T)), abs=1e-10)
    assert model.condition(X, Y).route == ("primal" if F.shape[1] <= N else "dual")


def test_weights_are_ridge_regression() -> None:
    """R&W, eqs. 2.7, 2.8: A = XXᵀ/σ² + Σ_p⁻¹; the mean is the minimum of the penalised squares."""
    B, s = np.array([[1.0, 0.3, 0.0], [0.3, 0.5, 0.1], [0.0, 0.1, 2.0]]), 0.09
    post = BayesianLinear(prior_covariance=B, noise_variance=s).condition(X, Y)
    A = X.T @ X / s + np.linalg.inv(B)
    np.testing.assert_allclose(post.covariance, np.linalg.inv(A), atol=1e-10)
    np.testing.assert_allclose(post.weights, np.linalg.solve(A, X.T @ Y) / s, atol=1e-10)
    ridge = optimize.minimize(
        lambda w: ((Y - X @ w) ** 2).sum() / (2 * s) + w @ np.linalg.solve(B, w) / 2, np.zeros(3), tol=1e-12
    )
    np.testing.assert_allclose(post.weights, ridge.x, atol=1e-5)


def test_the_gaussian_process_with_a_linear_kernel() -> None:
    model, s = BayesianLinear(prior_covariance=[4.0, 0.25, 1.0], noise_variance=0.09), 0.09
    gp = condition(Model(GP(Linear(lengthscale=[0.5, 2.0, 1.0])), likelihood=Gaussian(s)), Data(X, Y))
    post = model.condition(X, Y)
    np.testing.assert_allclose(post.predict(XS).f.mean, gp.predict(XS).f.mean, atol=1e-10)
    np.testing.assert_allclose(post.predict(XS).f.variance, gp.predict(XS).f.variance, atol=1e-10)
    np.testing.assert_allclose(post.predict(XS).y.variance, gp.predict(XS).y.variance, atol=1e-10)
    assert post.log_evidence == pytest.approx(gp.log_evidence, abs=1e-9)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_the_gaussian_process_with_the_kernel_of_the_features(model: BayesianLinear) -> None:
    """R&W, section 2.1.2: k = φᵀΣ_pφ'. Coolen, eqs. 3.43 = 4.22."""
    kernel = model.kernel(D)
    F = phi(model, X)
    np.testing.assert_allclose(kernel.gram(X), F @ sigma_p(model, F.shape[1]) @ F.T, atol=1e-10)
    np.testing.assert_allclose(kernel.diag(X), np.diag(kernel.gram(X)), atol=1e-10)
    gp = condition(Model(GP(kernel), likelihood=Gaussian(model.noise_variance)), Data(X, Y))
    post = model.condition(X, Y)
    np.testing.assert_allclose(post.predict(XS).f.mean, gp.predict(XS).f.mean, atol=1e-9)
    np.testing.assert_allclose(post.predict(XS).f.variance, gp.predict(XS).f.variance, atol=1e-9)
    assert post.log_evidence == pytest.approx(gp.log_evidence, abs=1e-8)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_covariance_of_the_outputs_and_its_inverse(model: BayesianLinear) -> None:
    """Coolen, eq. 4.7 and the inverse from the weights' side."""
    C = model.output_covariance(X)
    F = phi(model, X)
    np.testing.assert_allclose(C, F @ sigma_p(model, F.shape[1]) @ F.T + model.noise_variance * np.eye(N), atol=1e-10)
    np.testing.assert_allclose(C @ model.output_precision(X), np.eye(N), atol=1e-8)


def test_prediction_through_the_larger_inverse() -> None:
    """Coolen, eqs. 4.16, 4.17: the last row of the inverse of n + 1 outputs gives mean and error bar (noise included)."""
    model = MODELS["columns"]
    post = model.condition(X, Y).predict(XS)
    for i in range(3):
        C1 = np.linalg.inv(model.output_covariance(np.vstack([X, XS[i : i + 1]])))
        assert -C1[-1, :-1] @ Y / C1[-1, -1] == pytest.approx(post.y.mean[i], abs=1e-10)
        assert C1[-1, -1] ** -0.5 == pytest.approx(post.y.std[i], abs=1e-10)


# hyperparameters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["columns", "matrix, dependent", "more than rows"])
def test_learned_scale_and_noise_maximise_the_evidence(name: str) -> None:
    """A stationary point of the evidence written out, MacKay's two conditions, and nothing near it is better."""
    model = MODELS[name]
    best = model.learn(X, Y)
    F = phi(model, X)
    B = sigma_p(model, F.shape[1])
    K = F @ B @ F.T

    def value(theta: np.ndarray) -> float:
        a, s = np.exp(theta)
        return float(stats.multivariate_normal(np.zeros(N), a * K + s * np.eye(N)).logpdf(Y))

    ratio = float(np.max(np.asarray(best.prior_covariance)) / np.max(np.asarray(model.prior_covariance)))
    theta = np.log([ratio, best.noise_variance])
    post = best.condition(X, Y)
    assert post.log_evidence == pytest.approx(value(theta), abs=1e-8)
    for move in ([1e-4, 0.0], [0.0, 1e-4]):
        slope = (value(theta + move) - value(theta - np.array(move))) / 2e-4
        assert abs(slope) < 1e-5
    grid = [value(theta + np.array([a, s])) for a in np.linspace(-4, 4, 25) for s in np.linspace(-4, 4, 25)]
    assert post.log_evidence >= max(grid) - 1e-9
    assert post.white @ post.white == pytest.approx(post.effective, rel=1e-5)
    miss = Y - F @ post.weights
    assert miss @ miss / best.noise_variance == pytest.approx(N - post.effective, rel=1e-5)
    assert 0 < post.effective < min(N, F.shape[1])


def test_evidence_in_closed_form() -> None:
    """Coolen, eq. 3.73 corrected: log p(D | α, β) from the N × N matrix A = αI + βΦᵀΦ."""
    alpha, beta = 1 / 0.7, 1 / 0.09
    A, b = alpha * np.eye(D) + beta * X.T @ X, beta * X.T @ Y
    value = 0.5 * (D * np.log(alpha) + N * np.log(beta) - N * np.log(2 * np.pi) - np.linalg.slogdet(A)[1])
    value += -0.5 * beta * Y @ Y + 0.5 * b @ np.linalg.solve(A, b)
    assert MODELS["columns"].condition(X, Y).log_evidence == pytest.approx(value, abs=1e-9)


def test_the_evidence_prefers_the_true_order() -> None:
    """On average over data, evidence picks the degree that made them; training error always the largest."""
    rng, picks = np.random.default_rng(0), []
    for _ in range(40):
        x = rng.uniform(-1, 1, (30, 1))
        y = x[:, 0] - 2 * x[:, 0] ** 2 + 0.2 * rng.normal(size=30)
        models = [BayesianLinear(lambda v, p=p: v ** np.arange(p + 1), noise_variance=0.04) for p in range(7)]
        posts = [m.condition(x, y) for m in models]
        picks.append(int(np.argmax([p.log_evidence for p in posts])))
        errors = [((y - np.polynomial.Polynomial.fit(x[:, 0], y, p)(x[:, 0])) ** 2).sum() for p in range(7)]
        assert np.argmin(errors) == 6
    assert np.bincount(picks, minlength=7).argmax() == 2


def test_error_bars_never_grow_with_data() -> None:
    """Nor are they ever below the noise."""
    model = MODELS["columns"]
    last = np.sqrt((model.whitened(XS) ** 2).sum(1) + 0.09)
    for n in (1, 4, 9, N):
        now = model.condition(X[:n], Y[:n]).predict(XS).y.std
        assert (now <= last + 1e-12).all()
        assert (now >= 0.3).all()
        last = now


def test_no_noise() -> None:
    model = BayesianLinear(bumps, noise_variance=0.0)
    x = np.linspace(-2, 2, 7)[:, None]
    post = model.condition(x, np.sin(x[:, 0]))
    assert post.route == "dual"
    got = post.predict(x).f
    np.testing.assert_allclose(got.mean, np.sin(x[:, 0]), atol=1e-9)
    np.testing.assert_allclose(got.variance, 0.0, atol=1e-9)
    with pytest.raises(CovaryError, match="18 rows of 3 features"):
        BayesianLinear(noise_variance=0.0).condition(X, Y)
    with pytest.raises(CovaryError, match="divides by the noise"):
        model.condition(x, x[:, 0], route="primal")


# features and kernels ---------------------------------------------------------------------------------------------------


def test_features_of_a_kernel() -> None:
    """R&W, section 2.1.2: ψ = Σ_p^½φ with a symmetric root; a kernel's features from its eigenvectors."""
    B = sigma_p(MODELS["matrix, dependent"], 12)
    root = symmetric_root(B)
    np.testing.assert_allclose(root, root.T, atol=1e-12)
    np.testing.assert_allclose(root @ root, B, atol=1e-10)
    kernel = 1.7 * Matern52(lengthscale=0.8)
    psi = features_of(kernel, X)
    np.testing.assert_allclose(psi(X) @ psi(X).T, kernel.gram(X), atol=1e-10)
    near = psi(XS) @ psi(XS).T
    k = kernel.cross(X, XS)
    np.testing.assert_allclose(near, k.T @ np.linalg.solve(kernel.gram(X), k), atol=1e-8)
    line = np.linspace(0, 1, 30)[:, None]
    assert features_of(SquaredExponential(), line)(line).shape[1] < 20  # of lower rank, to rounding
    few = FeatureKernel(cubes).gram(np.vstack([X, XS]))
    assert np.linalg.matrix_rank(few) == 10  # of 12 features two are made up of others


def test_a_dense_grid_of_bumps_is_the_squared_exponential() -> None:
    """Coolen, eq. 4.30: σ = 0.3, spacing 0.05, between 0.1 and 0.4."""
    s, spacing = 0.3, 0.05
    centres = np.arange(-4, 5, spacing)
    kernel = FeatureKernel(lambda x: jnp.exp(-0.5 * (x - centres) ** 2 / s**2) * np.sqrt(spacing / (2 * np.pi * s**2)))
    exact = np.exp(-0.09 / (4 * s**2)) / (2 * s * np.sqrt(np.pi))
    assert exact == pytest.approx(0.7323188, abs=1e-7)
    assert float(kernel([0.1], [0.4])) == pytest.approx(exact, abs=1e-9)


def test_moments_of_a_linear_model_are_its_kernel() -> None:
    """Coolen, eqs. 4.28, 4.29: from draws of the prior to (4.7); a prior mean shows as the mean function."""
    draws = np.random.default_rng(0).normal(size=(40_000, D)) * [2.0, 0.5, 1.0] + [1.0, 0.0, 0.0]
    gp = moment_matched(lambda x, w: x @ w, draws)
    np.testing.assert_allclose(gp.kernel.gram(XS), XS @ np.diag([4.0, 0.25, 1.0]) @ XS.T, atol=0.3)
    np.testing.assert_allclose(gp.kernel.gram(XS), XS @ np.cov(draws.T, bias=True) @ XS.T, atol=1e-8)
    np.testing.assert_allclose(gp.mean.evaluate(Data(XS, np.zeros(6)).X), XS @ draws.mean(0), atol=1e-10)
    some = moment_matched(lambda x, w: jnp.tanh(x @ w[:3]) * w[3], np.random.default_rng(1).normal(size=(500, 4)))
    assert np.linalg.eigvalsh(some.kernel.gram(X)).min() > -1e-10
    assert np.isfinite(condition(Model(some, likelihood=Gaussian(0.1)), Data(X, Y)).log_evidence)


def test_prediction_as_a_ratio_of_joint_densities() -> None:
    """Coolen, eqs. 4.2, 4.3: averages over the prior give the predictive density of the linear model."""
    x, y = X[:4, :1], Y[:4]
    model = BayesianLinear(noise_variance=0.5)
    want = model.condition(x, y).predict(XS[:1, :1]).y
    w = np.random.default_rng(2).normal(size=(200_000, 1))
    grid = want.mean[0] + want.std[0] * np.linspace(-3, 3, 13)
    got = density_by_draws(w @ x.T, y, (w @ XS[:1, :1].T)[:, 0], grid, noise_variance=0.5)
    np.testing.assert_allclose(got, stats.norm(want.mean[0], want.std[0]).pdf(grid), rtol=0.02)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: BayesianLinear(prior_covariance=[1.0, 2.0]).condition(X, Y), r"shape \(2,\) for 3 features"),
        (lambda: BayesianLinear(prior_covariance=-np.eye(3)).condition(X, Y), "not positive semi-definite"),
        (lambda: BayesianLinear(noise_variance=-1.0).condition(X, Y), "noise_variance is -1"),
        (lambda: BayesianLinear().condition(X, Y[:3]), "3 entries but X has 18"),
        (lambda: BayesianLinear().condition(X, Y, route="both"), "route is 'both'"),
        (lambda: BayesianLinear(lambda x: x[:, 0]).condition(X, Y), r"shape \(18,\)"),
        (lambda: BayesianLinear().learn(X, np.zeros(N)), "all zero"),
    ],
)
def test_what_cannot_be_done_says_so(call: Any, says: str) -> None:
    with pytest.raises(CovaryError, match=says):
        call()
