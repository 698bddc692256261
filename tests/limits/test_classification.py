"""Limits and identities of classification by Laplace and expectation propagation.

Everything is restated here with dense matrices, explicit inverses and quadrature. R&W is Rasmussen & Williams (2006), W&B
Williams & Barber (1998).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from covary import GP, Data, Model, condition, log_evidence, log_evidence_and_grad
from covary.gram import Dense
from covary.inference import EP, Exact, Laplace
from covary.kernels import AbstractKernel, Constant, Linear, Matern32, Matern52, SquaredExponential
from covary.likelihoods import Bernoulli, Gaussian, Softmax, StudentT
from covary.means import Constant as ConstantMean
from covary.parameters import Packing
from covary.sites import Diagonal

RNG = np.random.default_rng(5)
N, C = 14, 3
X = RNG.normal(size=(N, 2))
XS = RNG.normal(size=(6, 2))
Y = np.where(X[:, 0] - 0.5 * X[:, 1] + 0.7 * RNG.normal(size=N) > 0, 1.0, -1.0)
CLASSES = np.digitize(X[:, 0] + 0.4 * RNG.normal(size=N), [-0.4, 0.4]).astype(float)
TARGETS = (CLASSES[:, None] == np.arange(C)).astype(float)
KERNEL = 1.7 * Matern52(lengthscale=[0.8, 1.5])
KERNELS = (KERNEL, 2.5 * Matern32(lengthscale=1.1), 0.7 * SquaredExponential(lengthscale=0.8))
K, KS = KERNEL.gram(X), KERNEL.cross(X, XS)
EYE = np.eye(N)
DATA, MANY = Data(X, Y), Data(X, CLASSES)
WAYS = [("logit", Laplace()), ("probit", Laplace()), ("probit", EP())]
every_link = pytest.mark.parametrize("link", ["logit", "probit"])
every_way = pytest.mark.parametrize(("link", "inference"), WAYS, ids=["laplace-logit", "laplace-probit", "ep-probit"])


def binary(link: str, kernel: AbstractKernel = KERNEL) -> Model:
    return Model(GP(kernel), likelihood=Bernoulli(link))


def log_sigmoid(link: str, z: Any) -> Any:
    return special.log_expit(z) if link == "logit" else special.log_ndtr(z)


def slopes(link: str, y: np.ndarray, f: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """∇ log p, W = −∇∇ log p and ∇∇∇ log p (R&W, eqs. 3.15, 3.16)."""
    z = y * f
    if link == "logit":
        p = special.expit(f)
        return (y + 1) / 2 - p, p * (1 - p), -p * (1 - p) * (1 - 2 * p)
    r = np.sqrt(2 / np.pi) / special.erfcx(-z / np.sqrt(2))
    return y * r, r * (r + z), y * r * (2 * r**2 + 3 * z * r + z**2 - 1)


def natural_sites(post: Any) -> tuple[np.ndarray, np.ndarray]:
    """Precision and precision times mean of every Gaussian site: W or τ̃, and b or ν̃."""
    return np.asarray(post.factor.spread), np.asarray(post.solved.shift)


def cavities(post: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the posterior without each site (R&W, eq. 3.56), from inverses."""
    tau, nu = natural_sites(post)
    return cavities_of(np.linalg.inv(np.linalg.inv(K) + np.diag(tau)), tau, nu)


def cavities_of(S: np.ndarray, tau: np.ndarray, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    variance = 1 / (1 / np.diag(S) - tau)
    return variance * (S @ nu / np.diag(S) - nu), variance


def average(link: str, mean: float, variance: float) -> float:
    """∫ σ(f) N(f | mean, variance) df by adaptive quadrature."""
    s = np.sqrt(variance)
    ends = mean - 12 * s, mean + 12 * s
    return integrate.quad(lambda f: np.exp(log_sigmoid(link, f)) * stats.norm.pdf(f, mean, s), *ends, epsabs=1e-13)[0]


# likelihoods -----------------------------------------------------------------------------------------------------


@every_link
def test_slopes_of_the_likelihood(link: str) -> None:
    """R&W, eqs. 3.15 and 3.16 and their third derivatives, far into both tails."""
    f = np.concatenate([np.linspace(-40, 40, 161), [1e-9, -300.0, 300.0]])
    for sign in (1.0, -1.0):
        y = np.full_like(f, sign)
        got = Bernoulli(link).slopes(y, f)
        first, W, third = slopes(link, y, f)
        np.testing.assert_allclose(got.log_prob, log_sigmoid(link, y * f), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(got.first, first, rtol=1e-10, atol=1e-14)
        near = np.abs(f) < 41  # beyond, the formula above cancels
        np.testing.assert_allclose(-got.second[near], W[near], rtol=1e-7, atol=1e-12)
        np.testing.assert_allclose(got.third[near], third[near], rtol=1e-5, atol=1e-8)
        assert np.all(-got.second >= 0)
        assert np.all(-got.second <= (0.25 if link == "logit" else 1.0))


def test_probit_is_a_step_seen_through_unit_noise() -> None:
    """R&W, exercise 3.10.1: ∫ 1[y f̃ > 0] N(f̃ | f, 1) df̃ = Φ(yf); averaged over f ~ N(m, v) the noise is 1 + v."""
    for y, mean, variance in [(1.0, 0.7, 1e-12), (-1.0, 0.7, 1e-12), (1.0, -1.3, 2.0), (-1.0, 2.2, 5.0)]:
        spread = np.sqrt(1 + variance)
        ends = (0.0, mean + 12 * spread) if y > 0 else (mean - 12 * spread, 0.0)
        step = integrate.quad(stats.norm.pdf, *ends, args=(mean, spread))[0]
        got = Bernoulli("probit").tilted(np.array([y]), np.array([mean]), np.array([variance]))
        assert float(np.exp(got.log_z[0])) == pytest.approx(step, abs=1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_moments_of_a_sigmoid_times_a_gaussian(seed: int) -> None:
    """R&W, eqs. 3.82 to 3.87: Φ((x − m)/v) N(x | μ, σ²) for either sign of v, by quadrature."""
    rng = np.random.default_rng(seed)
    m, mu, s = rng.normal(scale=1.5, size=3) * [1, 1, 0] + [0, 0, rng.uniform(0.3, 3)]
    v = rng.uniform(0.4, 2.0) * (1 if seed % 2 else -1)

    def moment(power: int) -> float:
        return integrate.quad(
            lambda x: x**power * special.ndtr((x - m) / v) * stats.norm.pdf(x, mu, s), mu - 12 * s, mu + 12 * s, epsabs=1e-13
        )[0]

    Z, first, second = (moment(k) for k in range(3))
    at = [np.array([value]) for value in (np.sign(v), (mu - m) / abs(v), s**2 / v**2)]
    log_z, mean, variance = (float(np.ravel(part)[0]) for part in Bernoulli("probit").tilted(*at)[:3])
    assert np.exp(log_z) == pytest.approx(Z, rel=1e-9)
    assert m + abs(v) * mean == pytest.approx(first / Z, abs=1e-8)
    assert v**2 * variance == pytest.approx(second / Z - (first / Z) ** 2, rel=1e-7)


@every_link
def test_averaged_probability_is_the_integral(link: str) -> None:
    """R&W, eqs. 3.25 and 3.82."""
    mean, variance = (a.ravel() for a in np.meshgrid([-6.0, -1.5, 0.0, 0.4, 3.0], [0.01, 0.5, 3.0, 12.0]))
    exact = [average(link, m, v) for m, v in zip(mean, variance, strict=True)]
    np.testing.assert_allclose(Bernoulli(link).predictive(mean, variance).mean, exact, rtol=0.0, atol=1e-6)


def test_mackays_formula_is_exact_at_zero_and_close_elsewhere() -> None:
    """R&W, section 3.4.2: λ(κ f̄) with κ² = 1/(1 + πv/8)."""
    mean, variance = (a.ravel() for a in np.meshgrid(np.linspace(-8, 8, 33), [0.1, 1.0, 5.0, 25.0]))
    mackay = special.expit(mean / np.sqrt(1 + np.pi * variance / 8))
    likelihood = Bernoulli("logit")
    got = likelihood.predictive(mean, variance).mean
    np.testing.assert_allclose(likelihood.probability(mean, variance, "mackay"), mackay, atol=1e-12)
    np.testing.assert_allclose(got[mean == 0], 0.5, atol=1e-12)
    np.testing.assert_allclose(got, mackay, atol=0.02)
    np.testing.assert_allclose(got + got[::-1].reshape(4, -1)[::-1].ravel(), 1.0, atol=1e-9)  # π(−μ) = 1 − π(μ)


# two classes, Laplace --------------------------------------------------------------------------------------------


@every_link
def test_mode_is_stationary_and_the_evidence_is_the_formula(link: str) -> None:
    """R&W, eqs. 3.12, 3.17, 3.20 and 3.32, written with K⁻¹ and (K⁻¹ + W)⁻¹."""
    post = condition(binary(link), DATA, inference=Laplace())
    assert post.status == "converged"
    f = post.predict(X).f.mean
    first, W, _ = slopes(link, Y, f)
    np.testing.assert_allclose(post.alpha, first, atol=1e-9)
    np.testing.assert_allclose(f, K @ first, atol=1e-9)
    np.testing.assert_allclose(post.solved.mode, f, atol=1e-9)
    np.testing.assert_allclose(natural_sites(post)[0], W, atol=1e-9)
    inverse = np.linalg.inv(K)
    value = log_sigmoid(link, Y * f).sum() - 0.5 * f @ inverse @ f
    value -= 0.5 * np.linalg.slogdet(K)[1] + 0.5 * np.linalg.slogdet(inverse + np.diag(W))[1]
    assert post.log_evidence == pytest.approx(value, abs=1e-9)
    covariance = np.linalg.inv(inverse + np.diag(W))
    np.testing.assert_allclose(post.predict(X).f.variance, np.diag(covariance), atol=1e-9)
    np.testing.assert_allclose(post.covariance(X), covariance, atol=1e-9)


@every_link
def test_the_mode_is_the_only_one(link: str) -> None:
    """Ψ is concave (W&B, appendix A): another optimiser comes to the same place from anywhere."""
    L, f = np.linalg.cholesky(K), condition(binary(link), DATA, inference=Laplace()).predict(X).f.mean

    def minus(u: np.ndarray) -> float:
        return 0.5 * u @ u - log_sigmoid(link, Y * (L @ u)).sum()

    def slope(u: np.ndarray) -> np.ndarray:
        return u - L.T @ slopes(link, Y, L @ u)[0]

    def curvature(u: np.ndarray) -> np.ndarray:
        return EYE + L.T @ (slopes(link, Y, L @ u)[1][:, None] * L)

    for seed in range(3):
        start = 3 * np.random.default_rng(seed).normal(size=N)
        found = optimize.minimize(minus, start, jac=slope, hess=curvature, method="trust-exact", options={"gtol": 1e-11})
        np.testing.assert_allclose(L @ found.x, f, atol=1e-7)


@every_way
def test_averaging_softens_and_never_changes_sides(link: str, inference: Any) -> None:
    """R&W, section 3.4.2 and figure 3.9; W&B, section 3: π̄ lies between ½ and σ(f̄), and is ½ far from all data."""
    post = condition(binary(link), DATA, inference=inference)
    there = post.predict(np.vstack([XS, X]))
    plug = np.exp(log_sigmoid(link, there.f.mean))
    assert np.all(np.sign(there.y.mean - 0.5) == np.sign(there.f.mean))
    assert np.all(np.abs(there.y.mean - 0.5) < np.abs(plug - 0.5))
    far = post.predict([[1e4, -1e4]])
    assert far.y.mean[0] == pytest.approx(0.5, abs=1e-9)
    assert far.f.variance[0] == pytest.approx(1.7)


@every_link
def test_eigenvalues_of_B(link: str) -> None:
    """R&W, section 3.4.3: between 1 and 1 + n max W max K, where W ≤ ¼ for the logistic and ≤ 1 for the probit."""
    post = condition(binary(link, 40.0 * KERNEL), DATA, inference=Laplace())
    W, _ = natural_sites(post)
    assert np.all(W > 0)
    L = np.tril(post.factor.L)
    np.testing.assert_allclose(L @ L.T, EYE + np.sqrt(W)[:, None] * (40 * K) * np.sqrt(W), atol=1e-10)
    values = np.linalg.eigvalsh(L @ L.T)
    assert values.min() >= 1 - 1e-12
    assert values.max() <= 1 + N * 40 * K.max() * (0.25 if link == "logit" else 1.0)
    assert values.max() > 1.5


@every_link
def test_three_forms_of_the_predictive_variance(link: str) -> None:
    """R&W, eqs. 3.24, 3.27 to 3.29; W&B, appendix A: also as the last entry of the inverse with the new row in it."""
    post = condition(binary(link), DATA, inference=Laplace())
    W, _ = natural_sites(post)
    B = EYE + np.sqrt(W)[:, None] * K * np.sqrt(W)
    R = np.sqrt(W)[:, None] * np.linalg.inv(B) * np.sqrt(W)
    np.testing.assert_allclose(R, np.linalg.inv(K + np.diag(1 / W)), atol=1e-10)
    np.testing.assert_allclose(K - K @ R @ K, np.linalg.inv(np.linalg.inv(K) + np.diag(W)), atol=1e-10)
    np.testing.assert_allclose(post.factor.solve(EYE), R, atol=1e-10)
    np.testing.assert_allclose(post.factor.sigma(EYE), K - K @ R @ K, atol=1e-10)
    assert post.factor.logdet() == pytest.approx(np.linalg.slogdet(B)[1], abs=1e-10)
    got = post.predict(XS).f
    np.testing.assert_allclose(got.variance, 1.7 - np.diag(KS.T @ R @ KS), atol=1e-10)
    f = K @ post.alpha
    for j in range(len(XS)):
        Kp = KERNEL.gram(np.vstack([X, XS[j]]))
        joint = np.linalg.inv(np.linalg.inv(Kp) + np.diag(np.append(W, 0.0)))
        assert got.variance[j] == pytest.approx(joint[-1, -1], abs=1e-9)
        assert got.mean[j] == pytest.approx((joint @ np.append(W * f + post.alpha, 0.0))[-1], abs=1e-9)


def test_weights_carry_the_sign_of_their_label() -> None:
    """W&B, appendix A: t − π is in (−1, 1) with the label's sign, so |f̄*| ≤ Σ|k|; a well-explained row weighs little."""
    post = condition(binary("logit"), DATA, inference=Laplace())
    assert np.all(Y * post.alpha > 0)
    assert np.all(np.abs(post.alpha) < 1)
    assert np.all(np.abs(post.predict(XS).f.mean) <= np.abs(KS).sum(0))
    margin = Y * post.predict(X).f.mean
    np.testing.assert_array_equal(np.argsort(margin), np.argsort(-np.abs(post.alpha)))


@every_way
def test_turning_every_label_turns_everything(link: str, inference: Any) -> None:
    model = binary(link)
    one, two = (condition(model, Data(X, s * Y), inference=inference) for s in (1, -1))
    assert one.log_evidence == pytest.approx(two.log_evidence, abs=1e-10)
    a, b = one.predict(XS), two.predict(XS)
    np.testing.assert_allclose(a.f.mean, -b.f.mean, atol=1e-9)
    np.testing.assert_allclose(a.f.variance, b.f.variance, atol=1e-9)
    np.testing.assert_allclose(a.y.mean, 1 - b.y.mean, atol=1e-9)


@every_way
def test_units_of_the_inputs_do_not_matter(link: str, inference: Any) -> None:
    scaled = binary(link, 1.7 * Matern52(lengthscale=[80.0, 0.15]))
    one = condition(binary(link), DATA, inference=inference)
    two = condition(scaled, Data(X * [100.0, 0.1], Y), inference=inference)
    assert one.log_evidence == pytest.approx(two.log_evidence, abs=1e-9)
    np.testing.assert_allclose(one.predict(XS).y.mean, two.predict(XS * [100.0, 0.1]).y.mean, atol=1e-9)


def test_a_larger_prior_variance_hardens_the_mode() -> None:
    """W&B, section 2: v0 sets how hard the classifier is; log p(y | f̂) can only grow with it."""
    before = -np.inf
    for scale in (0.1, 1.0, 10.0, 100.0, 1000.0):
        f = condition(binary("logit", scale * KERNEL), DATA, inference=Laplace()).predict(X).f.mean
        fit = log_sigmoid("logit", Y * f).sum()
        assert fit > before + 0.1
        before = fit
    assert np.all(Y * f > 1)


def test_newton_step_with_well_explained_rows() -> None:
    """R&W, eq. 3.19 and exercise 3.10.4: rows with W = 0 and no slope follow the others as K₂₁K₁₁⁻¹f₁."""
    one, two = np.arange(9), np.arange(9, N)
    f = RNG.normal(size=N)
    first, W, _ = slopes("logit", Y, f)
    W[two], first[two] = 0.0, 0.0
    factor = Dense().bind((KERNEL,), DATA.X).factor(Diagonal(W))
    step = factor.mean(W * f + first)
    K11 = K[np.ix_(one, one)]
    inner = K11 @ np.linalg.solve(np.eye(9) + W[one, None] * K11, W[one] * f[one] + first[one])
    np.testing.assert_allclose(step[one], inner, atol=1e-10)
    np.testing.assert_allclose(step[two], K[np.ix_(two, one)] @ np.linalg.solve(K11, inner), atol=1e-9)


@every_way
def test_separable_classes_stay_finite(link: str, inference: Any) -> None:
    """R&W, section 3.2: without a prior the weights run away; under one they are finite, however wide it is."""
    x = np.linspace(-3, 3, 16)[:, None]
    size = []
    for width in (1.0, 1e2, 1e4):
        post = condition(binary(link, width * Linear()), Data(x, np.sign(x[:, 0])), inference=inference)
        assert post.status == "converged"
        assert np.isfinite(post.log_evidence)
        size.append(post.predict([[1.0]]).f.mean[0])
        assert 0.5 < post.predict([[1.0]]).y.mean[0] < 1
    assert size[0] < size[1] < size[2] < 1e3


@every_link
def test_linear_kernel_is_bayesian_classification_in_weight_space(link: str) -> None:
    """R&W, eq. 3.6: Laplace over the weights has the same evidence, means and variances."""
    kernel = 1.0 * Linear(lengthscale=[0.5, 2.0]) + 3.0 * Constant()
    post = condition(binary(link, kernel), DATA, inference=Laplace())
    Phi, Phis, prior = np.column_stack([X, np.ones(N)]), np.column_stack([XS, np.ones(6)]), np.array([4.0, 0.25, 3.0])
    w = np.zeros(3)
    for _ in range(50):
        first, W, _ = slopes(link, Y, Phi @ w)
        A = Phi.T @ (W[:, None] * Phi) + np.diag(1 / prior)
        w = w + np.linalg.solve(A, Phi.T @ first - w / prior)
    value = log_sigmoid(link, Y * (Phi @ w)).sum() - 0.5 * (w**2 / prior).sum()
    value -= 0.5 * np.linalg.slogdet(A)[1] + 0.5 * np.log(prior).sum()
    assert post.log_evidence == pytest.approx(value, abs=1e-8)
    got = post.predict(XS).f
    np.testing.assert_allclose(got.mean, Phis @ w, atol=1e-8)
    np.testing.assert_allclose(got.variance, np.diag(Phis @ np.linalg.solve(A, Phis.T)), atol=1e-8)


# Gaussian noise, and gradients -----------------------------------------------------------------------------------

TARGET = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
WILD = TARGET + np.where(np.arange(N) == 4, 5.0, 0.0)


@pytest.mark.parametrize("inference", [Laplace(), EP()], ids=["laplace", "ep"])
def test_gaussian_noise_makes_every_inference_exact(inference: Any) -> None:
    model, data = Model(GP(KERNEL, mean=ConstantMean(0.3)), likelihood=Gaussian(0.08)), Data(X, TARGET)
    exact, post = condition(model, data, inference=Exact()), condition(model, data, inference=inference)
    assert post.log_evidence == pytest.approx(exact.log_evidence, abs=1e-8)
    np.testing.assert_allclose(post.alpha, exact.alpha, atol=1e-7)
    for one, two in ((post.predict(XS).f, exact.predict(XS).f), (post.predict(XS).y, exact.predict(XS).y)):
        np.testing.assert_allclose(one.mean, two.mean, atol=1e-8)
        np.testing.assert_allclose(one.variance, two.variance, atol=1e-8)
    packing = Packing(model)
    ours, theirs = (packing.pull(model, log_evidence_and_grad(model, data, inference=how)[1]) for how in (inference, Exact()))
    np.testing.assert_allclose(ours, theirs, atol=1e-7)


def of(likelihood: Any, kernel: Any = KERNEL) -> Model:
    return Model(GP(kernel, mean=ConstantMean(0.2)), likelihood=likelihood)


GRADIENTS = {
    "laplace-logit": (of(Bernoulli("logit")), DATA, Laplace()),
    "laplace-probit": (of(Bernoulli("probit")), DATA, Laplace()),
    "laplace-softmax-shared": (of(Softmax(3)), MANY, Laplace()),
    "laplace-softmax-apart": (of(Softmax(3), KERNELS), MANY, Laplace()),
    "laplace-student": (of(StudentT(0.3, degrees=4.0)), Data(X, WILD), Laplace()),
    "laplace-gaussian": (of(Gaussian(0.1)), Data(X, TARGET), Laplace()),
    "ep-probit": (of(Bernoulli("probit")), DATA, EP()),
    "ep-logit": (of(Bernoulli("logit")), DATA, EP()),
    "ep-gaussian": (of(Gaussian(0.1)), Data(X, TARGET), EP()),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient_of_the_evidence(name: str) -> None:
    """R&W, algorithms 5.1 (with the sign of eq. 5.23 put right) and 5.2, W&B, appendices B and C: against differences."""
    model, data, inference = GRADIENTS[name]
    packing, step = Packing(model), 1e-4
    theta = packing.pack(model)
    _, gradient = log_evidence_and_grad(model, data, inference=inference)
    slope = packing.pull(model, gradient)
    for i, path in enumerate(packing.names()):
        move = step * np.eye(packing.size)[i]
        up, down = (log_evidence(packing.unpack(theta + s * move), data, inference=inference) for s in (1, -1))
        assert slope[i] == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-6), path


@every_link
def test_the_part_through_the_mode_is_not_small(link: str) -> None:
    """R&W, eqs. 5.21 to 5.24, restated with inverses: explicit part plus +½ Σ_ii ∇³ log p through ∂f̂/∂θ."""
    model = binary(link)
    f = condition(model, DATA, inference=Laplace()).predict(X).f.mean
    first, W, third = slopes(link, Y, f)
    inverse = np.linalg.inv(K)
    S = np.linalg.inv(inverse + np.diag(W))
    slope = K / 1.7  # ∂K/∂v of v times a kernel
    explicit = 0.5 * f @ inverse @ slope @ inverse @ f - 0.5 * np.trace(np.linalg.inv(np.diag(1 / W) + K) @ slope)
    implicit = 0.5 * (np.diag(S) * third) @ np.linalg.solve(EYE + K * W, slope @ first)
    _, gradient = log_evidence_and_grad(model, DATA, inference=Laplace())
    assert float(gradient.kernel.variance) == pytest.approx(explicit + implicit, abs=1e-8)
    assert abs(implicit) > 0.01 * abs(explicit)
