"""The Markov gram against dense algebra: evidence, posterior, leave-one-out and slopes, for every kernel it takes.

Everything is restated here with dense matrices and explicit inverses; steps of the equations with matrix exponentials.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from scipy import integrate, linalg, special

from covary import GP, Data, Model, condition, log_evidence, log_evidence_and_grad
from covary._precision import precision
from covary.gram import Dense
from covary.gram.base import Bars
from covary.gram.markov import Markov
from covary.gram.markov.state_space import lower_gamma, prior, representable, steps
from covary.inference import EP, Laplace
from covary.kernels import Constant, Cosine, Linear, Matern12, Matern32, Matern52, Wiener, fixed
from covary.kernels.wiener import IntegratedWiener
from covary.likelihoods import Bernoulli, Gaussian, Poisson
from covary.means import Constant as ConstantMean
from covary.means import LinearBasis
from covary.sites import Diagonal, Noise

RNG = np.random.default_rng(11)
N = 37
TIMES = RNG.uniform(0, 5, N)  # in no order
TIMES[5] = TIMES[6] = TIMES[20]  # repeated
TIMES[7] += 20  # a gap
X = TIMES[:, None]
Y = np.sin(2 * TIMES) + 0.1 * RNG.normal(size=N)
XS = np.concatenate([RNG.uniform(0, 30, 9), TIMES[:3], [0.0, 26.0]])[:, None]
S = 0.05

KERNELS: dict[str, Any] = {
    "matern12": 2.0 * Matern12(lengthscale=0.7),
    "matern32": 2.0 * Matern32(lengthscale=0.7),
    "matern52": 1.5 * Matern52(lengthscale=1.3),
    "cosine": Cosine(period=3.0) + 0.5 * Matern12(),
    "cosine-matern": 1.3 * (Cosine(period=2.0) * Matern32(lengthscale=2.0)),
    "spline": 0.3 * IntegratedWiener() + 0.1 * Linear(lengthscale=2.0) + 1.0,
    "power": Matern52(lengthscale=2.0).on(0) ** 2,
    "growing": Wiener() * Matern12() + Matern32(lengthscale=0.4) + Constant(),
}
every_kernel = pytest.mark.parametrize("name", KERNELS)


def leaves(tree: Any) -> np.ndarray:
    return np.array([float(v) for v in jax.tree_util.tree_leaves(tree)])


@every_kernel
def test_exact_inference_is_the_dense_one(name: str) -> None:
    kernel = KERNELS[name]
    assert representable(kernel)
    model, data = Model(GP(kernel, mean=ConstantMean(0.3)), likelihood=Gaussian(S)), Data(X, Y)
    post = condition(model, data, gram=Markov())
    K, Ks, Kss = kernel.gram(X), kernel.cross(X, XS), kernel.gram(XS)
    R = np.linalg.inv(K + S * np.eye(N))
    r = Y - 0.3
    evidence = -0.5 * (r @ R @ r - np.linalg.slogdet(R)[1] + N * np.log(2 * np.pi))  # R&W, eq. 2.30
    assert post.log_evidence == pytest.approx(evidence, abs=1e-9, rel=1e-10)
    np.testing.assert_allclose(post.alpha, R @ r, atol=1e-8)
    found, covariance = post.predict(XS).f, Kss - Ks.T @ R @ Ks
    np.testing.assert_allclose(found.mean, 0.3 + Ks.T @ R @ r, atol=1e-8)  # eqs. 2.25, 2.26
    np.testing.assert_allclose(found.variance, np.diag(covariance), atol=1e-8)
    if name in ("matern32", "spline"):
        np.testing.assert_allclose(post.covariance(XS), covariance, atol=1e-8)
        np.testing.assert_allclose(post.bound.cross_solve(Data(XS, XS[:, 0]).X, R @ r), Ks.T @ R @ r, atol=1e-8)
    B = RNG.normal(size=N)
    np.testing.assert_allclose(post.factor.solve(B), R @ B, atol=1e-8)
    np.testing.assert_allclose(post.factor.sigma(B), (K - K @ R @ K) @ B, atol=1e-8)
    np.testing.assert_allclose(post.factor.variance(), np.diag(K - K @ R @ K), atol=1e-9)
    np.testing.assert_allclose(post.bound.matvec(B), K @ B, atol=1e-8)
    left = post.leave_one_out()
    np.testing.assert_allclose(left.mean, Y - R @ r / np.diag(R), atol=1e-8)  # eq. 5.12
    np.testing.assert_allclose(left.variance + S, 1 / np.diag(R), atol=1e-8)


@every_kernel
def test_slopes_are_the_dense_ones(name: str) -> None:
    model, data = Model(GP(KERNELS[name], mean=ConstantMean(0.3)), likelihood=Gaussian(S)), Data(X, Y)
    value, grad = log_evidence_and_grad(model, data, gram=Markov())
    expected, slopes = log_evidence_and_grad(model, data, gram=Dense())
    assert value == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(leaves(grad), leaves(slopes), rtol=1e-7, atol=1e-8)


def test_slope_over_the_lengthscale_by_differences() -> None:
    data, h = Data(X, Y), 1e-5

    def at(lengthscale: float) -> Model:
        return Model(GP(1.7 * Matern52(lengthscale=lengthscale)), likelihood=Gaussian(S))

    slope = (log_evidence(at(0.8 + h), data, gram=Markov()) - log_evidence(at(0.8 - h), data, gram=Markov())) / (2 * h)
    found = log_evidence_and_grad(at(0.8), data, gram=Markov())[1].kernel.kernel.lengthscale
    assert float(found) == pytest.approx(slope, rel=1e-7)


def test_steps_are_matrix_exponentials() -> None:
    """Φ = exp(F dt) and Q = P − ΦPΦᵀ, with the stationary P of FP + PFᵀ + LqLᵀ = 0 (Hartikainen & Särkkä 2010)."""
    for kind, size, rate in ((Matern12, 1, 1.0), (Matern32, 2, 3.0**0.5), (Matern52, 3, 5.0**0.5)):
        lam = rate / 0.6
        F = np.diag(np.full(size - 1, lam), 1)
        F[-1] = {1: [-lam], 2: [-lam, -2 * lam], 3: [-lam, -3 * lam, -3 * lam]}[size]  # (s + λ)^size, states scaled by λ
        L = np.zeros((size, size))
        L[-1, -1] = 1
        P = linalg.solve_continuous_lyapunov(F, -L)
        P /= P[0, 0]
        for dt in (0.0, 0.3, 1.0, 2.0, 40.0):
            with precision(np.float64):
                A, Q = steps(kind(lengthscale=0.6), np.array([dt]), np.array([dt]))
                start = prior(kind(lengthscale=0.6), np.array([dt]))
            np.testing.assert_allclose(A[..., 0], linalg.expm(F * dt), atol=1e-13)
            np.testing.assert_allclose(Q[..., 0], P - linalg.expm(F * dt) @ P @ linalg.expm(F * dt).T, atol=1e-13)
            np.testing.assert_allclose(start[..., 0], P, atol=1e-13)


def test_process_noise_of_short_steps_keeps_its_digits() -> None:
    """Q is the integral of (Φ L)(Φ L)ᵀ; at steps where P − ΦPΦᵀ has no digit left."""
    tau = 1e-5
    with precision(np.float64):
        Q = np.asarray(steps(Matern52(lengthscale=5.0**0.5), np.array([0.0]), np.array([tau]))[1])[..., 0]
    for i, j, leading in ((0, 0, tau**5 / 20), (0, 1, tau**4 / 8), (0, 2, tau**3 / 6), (1, 1, tau**3 / 3), (2, 2, tau)):
        assert Q[i, j] == pytest.approx(16 / 3 * leading, rel=1e-4)
    x = np.array([1e-8, 1e-3, 0.3, 0.999, 1.001, 3.0, 40.0])
    with precision(np.float64):
        for k in (1, 3, 5):
            np.testing.assert_allclose(lower_gamma(k, x), special.gammainc(k, x), rtol=1e-12)


def test_integrated_wiener_is_the_integral_it_says() -> None:
    """R&W, eq. 6.28: the integral of (x − u)₊(x' − u)₊ over u."""
    for x, z in ((0.3, 0.8), (2.0, 2.0), (3.0, 0.0)):
        value = integrate.quad(lambda u, x=x, z=z: max(x - u, 0) * max(z - u, 0), 0, 4, points=[x, z])[0]
        assert float(IntegratedWiener()([x], [z])) == pytest.approx(value, abs=1e-10)
    np.testing.assert_allclose(IntegratedWiener().diag([[2.0]]), [8 / 3])


@pytest.mark.parametrize(
    ("likelihood", "inference"),
    [(Poisson(), Laplace()), (Bernoulli("logit"), Laplace()), (Bernoulli("probit"), EP())],
    ids=["poisson", "logit", "probit-ep"],
)
def test_approximate_inference_is_the_dense_one(likelihood: Any, inference: Any) -> None:
    y = RNG.poisson(np.exp(Y)).astype(float) if isinstance(likelihood, Poisson) else np.sign(Y)
    model, data = Model(GP(KERNELS["matern32"], mean=ConstantMean(0.2)), likelihood=likelihood), Data(X, y)
    post, dense = (condition(model, data, inference=inference, gram=gram) for gram in (Markov(), Dense()))
    assert post.status == "converged"
    assert post.log_evidence == pytest.approx(dense.log_evidence, abs=1e-8)
    found, expected = post.predict(XS, covariance=True).f, dense.predict(XS, covariance=True).f
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-7)
    np.testing.assert_allclose(found.variance, expected.variance, atol=1e-7)
    np.testing.assert_allclose(found.covariance, expected.covariance, atol=1e-7)  # type: ignore[arg-type]
    np.testing.assert_allclose(post.leave_one_out().log_prob, dense.leave_one_out().log_prob, atol=1e-7)
    grads = [leaves(log_evidence_and_grad(model, data, inference=inference, gram=g)[1]) for g in (Markov(), Dense())]
    np.testing.assert_allclose(*grads, rtol=1e-6, atol=1e-7)


def test_sites_that_say_nothing() -> None:
    """Precisions of zero: R = W − WΣW, Σ = (K⁻¹ + W)⁻¹, alpha = b − WΣb, also where b is not zero."""
    kernel = KERNELS["matern52"]
    W, b = np.where(np.arange(N) % 3, RNG.gamma(1.0, size=N), 0.0), RNG.normal(size=N)
    bound = Markov().bind((kernel,), Data(X, Y).X)
    factor = bound.factor(Diagonal(W))
    K = kernel.gram(X)
    sigma = K - K @ np.linalg.inv(np.diag(1 / np.where(W > 0, W, 1e-300)) + K) @ K
    np.testing.assert_allclose(factor.mean(b), sigma @ b, atol=1e-9)
    np.testing.assert_allclose(factor.alpha(b), b - W * (sigma @ b), atol=1e-9)
    np.testing.assert_allclose(factor.variance(), np.diag(sigma), atol=1e-9)
    np.testing.assert_allclose(factor.diag_inverse(), W - W * np.diag(sigma) * W, atol=1e-9)
    np.testing.assert_allclose(factor.solve(b), W * b - W * (sigma @ (W * b)), atol=1e-9)
    assert factor.logdet() == pytest.approx(np.linalg.slogdet(np.eye(N) + K @ np.diag(W))[1], abs=1e-10)


@pytest.mark.parametrize("observed", [True, False])
def test_every_bar_is_pulled(observed: bool) -> None:
    """Quadratic, determinant and mean at once, with basis functions and two outputs: the dense gradient."""
    kernel, basis = 1.5 * Matern32(lengthscale=0.8), LinearBasis()
    shift = RNG.normal(size=(N, 2)) if observed else RNG.normal(size=N)
    sites = Noise(RNG.uniform(0.1, 1, N)) if observed else Diagonal(RNG.uniform(0, 3, N))
    bars = Bars(quad=-0.4, logdet=0.7, mean=RNG.normal(size=shift.shape))
    out = []
    for gram in (Markov(), Dense()):
        bound = gram.bind((kernel,), Data(X, Y).X, basis)
        factor = bound.factor(sites)
        out.append(bound.pull(factor, shift, factor.alpha(shift), bars))
    np.testing.assert_allclose(leaves(out[0].kernel), leaves(out[1].kernel), rtol=1e-7)
    np.testing.assert_allclose(out[0].shift, out[1].shift, atol=1e-8)
    spread = "variance" if observed else "precision"
    np.testing.assert_allclose(getattr(out[0].sites, spread), getattr(out[1].sites, spread), atol=1e-8)


def test_basis_functions_and_several_outputs() -> None:
    Y2 = np.stack([Y, Y**2 + TIMES], axis=1)
    model, data = Model(GP(KERNELS["matern32"], basis=LinearBasis()), likelihood=Gaussian(S)), Data(X, Y2)
    post, dense = condition(model, data, gram=Markov()), condition(model, data, gram=Dense())
    assert post.log_evidence == pytest.approx(dense.log_evidence, abs=1e-8)
    np.testing.assert_allclose(post.basis_weights, dense.basis_weights, atol=1e-8)  # type: ignore[arg-type]
    found, expected = post.predict(XS).f, dense.predict(XS).f
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-8)
    np.testing.assert_allclose(found.variance, expected.variance, atol=1e-8)
    grads = [leaves(log_evidence_and_grad(model, data, gram=g)[1]) for g in (Markov(), Dense())]
    np.testing.assert_allclose(*grads, rtol=1e-7)


def test_spline_posterior_is_the_smoothing_spline() -> None:
    """R&W, section 6.3.1: with vague offset and slope, the mean is the cubic smoothing spline of λ = σ²/s."""
    from scipy.interpolate import make_smoothing_spline

    x = np.sort(RNG.uniform(0, 1, 25))
    y = np.cos(5 * x) + 0.1 * RNG.normal(size=25)
    model = Model(GP(4.0 * IntegratedWiener(), basis=LinearBasis()), likelihood=Gaussian(0.02))
    new = np.linspace(x[0], x[-1], 50)
    found = condition(model, Data(x[:, None], y), gram=Markov()).predict(new[:, None]).f.mean
    np.testing.assert_allclose(found, make_smoothing_spline(x, y, lam=0.02 / 4.0)(new), atol=1e-9)


def test_some_rows_without_noise() -> None:
    kernel, x = KERNELS["matern32"], np.unique(TIMES)[RNG.permutation(N - 2)]
    y = np.cos(x)
    noise = np.where(np.arange(N - 2) % 2, 0.0, 0.1)
    data = Data(x[:, None], y, noise_variance=noise)
    post = condition(Model(GP(kernel), likelihood=Gaussian(fixed(0.0))), data, gram=Markov())
    R = np.linalg.inv(kernel.gram(x[:, None]) + np.diag(noise))
    evidence = -0.5 * (y @ R @ y - np.linalg.slogdet(R)[1] + len(y) * np.log(2 * np.pi))
    assert post.log_evidence == pytest.approx(evidence, rel=1e-8)
    np.testing.assert_allclose(post.predict(x[:, None]).f.mean[noise == 0], y[noise == 0], atol=1e-8)
    np.testing.assert_allclose(post.predict(x[:, None]).f.variance[noise == 0], 0, atol=1e-10)
    Ks = kernel.cross(x[:, None], XS)
    np.testing.assert_allclose(post.predict(XS).f.mean, Ks.T @ R @ y, atol=1e-7)
    np.testing.assert_allclose(post.predict(XS).f.variance, np.diag(kernel.gram(XS) - Ks.T @ R @ Ks), atol=1e-7)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_few_rows(n: int) -> None:
    model, data = Model(GP(KERNELS["matern32"]), likelihood=Gaussian(S)), Data(X[:n], Y[:n])
    value, grad = log_evidence_and_grad(model, data, gram=Markov())
    expected, slopes = log_evidence_and_grad(model, data)
    assert value == pytest.approx(expected, abs=1e-12)
    np.testing.assert_allclose(leaves(grad), leaves(slopes), atol=1e-10)
    found = condition(model, data, gram=Markov()).predict(XS).f
    np.testing.assert_allclose(found.variance, condition(model, data).predict(XS).f.variance, atol=1e-12)


def test_many_lanes_and_wide_gaps() -> None:
    """Several hundred rows over steps from zero to ten thousand length-scales; slopes by hand (R&W, eq. 5.9)."""
    n, scale = 500, 0.7
    x = np.cumsum(RNG.choice([0.0, 1e-9, 1e-3, 0.1, 2.0, 1e4], size=n))
    y = RNG.normal(size=n)
    model, data = Model(GP(1.5 * Matern32(lengthscale=scale)), likelihood=Gaussian(0.2)), Data(x[:, None], y)
    value, grad = log_evidence_and_grad(model, data, gram=Markov())
    t = 3.0**0.5 * np.abs(x[:, None] - x[None, :]) / scale
    K = 1.5 * (1 + t) * np.exp(-t)
    R = np.linalg.inv(K + 0.2 * np.eye(n))
    a = R @ y
    assert value == pytest.approx(-0.5 * (y @ a - np.linalg.slogdet(R)[1] + n * np.log(2 * np.pi)), abs=1e-8)
    G = 0.5 * (np.outer(a, a) - R)
    by_hand = [(G * 1.5 * t * t * np.exp(-t)).sum() / scale, (G * K).sum() / 1.5, np.trace(G)]
    np.testing.assert_allclose(leaves(grad), by_hand, rtol=1e-8)


def test_single_precision() -> None:
    model = Model(GP(KERNELS["matern32"]), likelihood=Gaussian(S))
    x, y = X.astype(np.float32), Y.astype(np.float32)
    post, exact = condition(model, Data(x, y), gram=Markov()), condition(model, Data(X, Y))
    assert post.alpha.dtype == np.float32
    assert post.log_evidence == pytest.approx(exact.log_evidence, abs=2e-3)
    np.testing.assert_allclose(post.predict(XS).f.mean, exact.predict(XS).f.mean, atol=1e-3)
    np.testing.assert_allclose(post.predict(XS).f.variance, exact.predict(XS).f.variance, atol=1e-3)
    grad = log_evidence_and_grad(model, Data(x, y), gram=Markov())[1]
    np.testing.assert_allclose(leaves(grad), leaves(log_evidence_and_grad(model, Data(X, Y))[1]), rtol=1e-2, atol=1e-2)
