"""Contracts between sites, gram, terms, posterior and prediction, for every kind of method, with gradients.

Each member is held against dense algebra written here, in plain NumPy, with no shortcut.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize, special, stats

from covary import GP, Data, Inputs, Model, condition, log_evidence, log_evidence_and_grad
from covary._checks import CovaryError
from covary.gram import Bars, Dense, LowRank
from covary.inference import EP, Exact, Laplace
from covary.kernels import AbstractKernel, Matern32, Matern52, SquaredExponential, Traits, fixed
from covary.likelihoods import Bernoulli, Gaussian, Softmax, StudentT
from covary.means import Constant, LinearBasis
from covary.parameters import Packing, positive
from covary.sites import Diagonal, Noise

RNG = np.random.default_rng(7)
X = RNG.normal(size=(24, 2))
XS = RNG.normal(size=(5, 2))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * RNG.normal(size=24)
LABELS = np.where(Y + 0.3 * RNG.normal(size=24) > 0, 1.0, -1.0)
CLASSES = np.digitize(Y, [-0.5, 0.5]).astype(float)
KERNEL = 1.3 * Matern52(lengthscale=[0.9, 1.7])
Z = RNG.normal(size=(7, 2))


def slopes_agree(model: Model, data: Data, step: float = 1e-5, tolerance: float = 2e-6, **how: Any) -> None:
    """Assert that every derivative of the evidence equals its central difference."""
    packing = Packing(model)
    theta = packing.pack(model)
    _, gradient = log_evidence_and_grad(model, data, **how)
    slope = packing.pull(model, gradient)
    for i, name in enumerate(packing.names()):
        move = np.zeros(packing.size)
        move[i] = step
        up, down = (log_evidence(packing.unpack(theta + s * move), data, **how) for s in (1, -1))
        assert slope[i] == pytest.approx((up - down) / (2 * step), rel=tolerance, abs=tolerance), name


def normal_log_density(y: np.ndarray, C: np.ndarray) -> float:
    return float(stats.multivariate_normal(np.zeros(len(y)), C, allow_singular=False).logpdf(y))


# Gaussian, exact ------------------------------------------------------------------------------------------------


def test_a_list_of_kernels_is_a_tuple_of_kernels() -> None:
    data, kernels = Data(X, CLASSES), [KERNEL, Matern52(), Matern32()]
    listed, tupled = (Model(GP(many), likelihood=Softmax(3)) for many in (kernels, tuple(kernels)))
    assert repr(listed) == repr(tupled)
    assert log_evidence(listed, data, inference=Laplace()) == log_evidence(tupled, data, inference=Laplace())


def test_exact_evidence_predictions_and_slopes() -> None:
    model = Model(GP(KERNEL, mean=Constant(0.3)), likelihood=Gaussian(0.05))
    data = Data(X, Y)
    K, Ks, Kss = KERNEL.gram(X), KERNEL.cross(X, XS), KERNEL.gram(XS)
    A = K + 0.05 * np.eye(24)
    assert log_evidence(model, data) == pytest.approx(normal_log_density(Y - 0.3, A), abs=1e-9)
    post = condition(model, data)
    prediction = post.predict(XS, covariance=True)
    cov = Kss - Ks.T @ np.linalg.solve(A, Ks)
    np.testing.assert_allclose(prediction.f.mean, 0.3 + Ks.T @ np.linalg.solve(A, Y - 0.3), atol=1e-10)
    np.testing.assert_allclose(post.mean(XS), prediction.f.mean, atol=1e-12)
    np.testing.assert_allclose(prediction.f.covariance, cov, atol=1e-10)
    np.testing.assert_allclose(prediction.f.variance, np.diag(cov), atol=1e-10)
    np.testing.assert_allclose(prediction.y.variance, np.diag(cov) + 0.05, atol=1e-10)
    np.testing.assert_allclose(post.alpha, np.linalg.solve(A, Y - 0.3), atol=1e-10)
    slopes_agree(model, data)


def test_exact_with_known_noise_weights_and_two_outputs() -> None:
    model = Model(GP(KERNEL), likelihood=Gaussian(0.05))
    known, weight = RNG.uniform(0.01, 0.1, 24), RNG.uniform(0.5, 3.0, 24)
    data = Data(X, np.column_stack([Y, Y**2]), known, weight)
    A = KERNEL.gram(X) + np.diag((0.05 + known) / weight)
    repeats = ((weight - 1) * np.log(2 * np.pi * (0.05 + known)) + np.log(weight)).sum()  # two outputs, half each
    expected = normal_log_density(Y, A) + normal_log_density(Y**2, A) - repeats
    assert log_evidence(model, data) == pytest.approx(expected, abs=1e-9)
    slopes_agree(model, data)
    mean = condition(model, data).predict(XS).f.mean
    np.testing.assert_allclose(mean, KERNEL.cross(X, XS).T @ np.linalg.solve(A, np.column_stack([Y, Y**2])), atol=1e-10)


def test_exact_noise_free_interpolates() -> None:
    model = Model(GP(1.0 * Matern32(lengthscale=0.7)), likelihood=Gaussian(fixed(0.0)))
    data = Data(X, Y)
    post = condition(model, data)
    K = model.kernel.gram(X)
    assert post.log_evidence == pytest.approx(normal_log_density(Y, K), abs=1e-8)
    assert post.factor.jitter == 0.0
    at_data = post.predict(X).f
    np.testing.assert_allclose(at_data.mean, Y, atol=1e-9)
    np.testing.assert_allclose(at_data.variance, 0.0, atol=1e-9)
    slopes_agree(model, data)


# three-class softmax, Laplace -----------------------------------------------------------------------------------


def dense_softmax(kernels: list[AbstractKernel]) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Laplace for C classes with Cn × Cn matrices: evidence, mode (n, C), K and W."""
    n, C = len(X), 3
    K = np.zeros((C * n, C * n))
    for c in range(C):
        K[c * n : (c + 1) * n, c * n : (c + 1) * n] = kernels[c].gram(X)
    targets = (CLASSES[None, :] == np.arange(C)[:, None]).astype(float).ravel()
    f = np.zeros(C * n)
    for _ in range(60):
        p = special.softmax(f.reshape(C, n), axis=0).ravel()
        P = np.vstack([np.diag(p[c * n : (c + 1) * n]) for c in range(C)])
        W = np.diag(p) - P @ P.T
        f = K @ np.linalg.solve(np.eye(C * n) + W @ K, W @ f + targets - p)
    quad = f @ np.linalg.lstsq(K, f, rcond=None)[0]
    fit = targets @ f - special.logsumexp(f.reshape(C, n), axis=0).sum()
    return fit - 0.5 * quad - 0.5 * np.linalg.slogdet(np.eye(C * n) + K @ W)[1], f.reshape(C, n).T, K, W


@pytest.mark.parametrize("shared", [True, False])
def test_softmax_laplace(shared: bool) -> None:
    kernels = [KERNEL] * 3 if shared else [KERNEL, 2.0 * Matern32(lengthscale=1.1), 0.7 * SquaredExponential(lengthscale=0.8)]
    model = Model(GP(KERNEL if shared else tuple(kernels)), likelihood=Softmax(3))
    data = Data(X, CLASSES)
    evidence, mode, K, W = dense_softmax(kernels)
    assert log_evidence(model, data, inference=Laplace()) == pytest.approx(evidence, abs=1e-8)
    post = condition(model, data, inference=Laplace())
    np.testing.assert_allclose(post.solved.mode, mode, atol=1e-7)
    slopes_agree(model, data, inference=Laplace(), tolerance=1e-5)
    n, m = len(X), len(XS)
    prediction = post.predict(XS).f
    R = W @ np.linalg.inv(np.eye(3 * n) + K @ W)
    for j in range(m):
        Q = np.zeros((3 * n, 3))
        for c in range(3):
            Q[c * n : (c + 1) * n, c] = kernels[c].cross(X, XS[j : j + 1])[:, 0]
        prior = np.diag([kernels[c].gram(XS[j : j + 1])[0, 0] for c in range(3)])
        np.testing.assert_allclose(prediction.variance[j], prior - Q.T @ R @ Q, atol=1e-8)
        residual = (CLASSES[:, None] == np.arange(3)[None, :]) - special.softmax(mode, axis=1)
        np.testing.assert_allclose(prediction.mean[j], Q.T @ residual.T.ravel(), atol=1e-6)
    np.testing.assert_allclose(post.predict(XS).y.mean.sum(1), 1.0, atol=1e-12)


def test_softmax_with_two_classes_is_binary_logistic_with_the_sum_of_kernels() -> None:
    two = Model(GP((KERNEL, 0.5 * Matern32())), likelihood=Softmax(2))
    one = Model(GP(KERNEL + 0.5 * Matern32()), likelihood=Bernoulli("logit"))
    a = log_evidence(two, Data(X, (LABELS > 0).astype(float)), inference=Laplace())
    assert a == pytest.approx(log_evidence(one, Data(X, LABELS), inference=Laplace()), abs=1e-8)


# Student-t, Laplace with negative W -----------------------------------------------------------------------------


def test_student_t_laplace_with_negative_curvature() -> None:
    wild = Y.copy()
    wild[[3, 11]] += [4.0, -5.0]
    model = Model(GP(KERNEL, mean=Constant(0.1)), likelihood=StudentT(0.2, degrees=4.0))
    data = Data(X, wild)
    K, nu, s = KERNEL.gram(X), 4.0, 0.2

    def minus(a: np.ndarray) -> float:
        f = 0.1 + K @ a
        return -(stats.t(nu, f, s).logpdf(wild).sum() - 0.5 * a @ K @ a)

    post = condition(model, data, inference=Laplace())
    assert post.status == "converged"
    g = post.solved.mode
    r = wild - 0.1 - g
    gradient = (nu + 1) * r / (nu * s**2 + r**2)
    np.testing.assert_allclose(g, K @ gradient, atol=1e-6)  # stationary: f̂ = K ∇log p
    assert minus(gradient) <= optimize.minimize(minus, gradient, method="BFGS").fun + 1e-6
    W = (nu + 1) * (nu * s**2 - r**2) / (nu * s**2 + r**2) ** 2
    assert (W < 0).any()
    evidence = stats.t(nu, 0.1 + g, s).logpdf(wild).sum() - 0.5 * gradient @ g
    evidence -= 0.5 * np.linalg.slogdet(np.eye(24) + K * W[None, :])[1]
    assert post.log_evidence == pytest.approx(evidence, abs=1e-8)
    Ks = KERNEL.cross(X, XS)
    R = np.diag(W) @ np.linalg.inv(np.eye(24) + K @ np.diag(W))
    prediction = post.predict(XS).f
    np.testing.assert_allclose(prediction.mean, 0.1 + Ks.T @ gradient, atol=1e-6)
    np.testing.assert_allclose(prediction.variance, KERNEL.diag(XS) - np.diag(Ks.T @ R @ Ks), atol=1e-6)
    slopes_agree(model, data, inference=Laplace(), tolerance=2e-5)


def test_student_t_tends_to_gaussian() -> None:
    t = Model(GP(KERNEL), likelihood=StudentT(np.sqrt(0.05), degrees=1e6))
    g = Model(GP(KERNEL), likelihood=Gaussian(0.05))
    assert log_evidence(t, Data(X, Y), inference=Laplace()) == pytest.approx(log_evidence(g, Data(X, Y)), abs=1e-3)


# probit, expectation propagation --------------------------------------------------------------------------------


def dense_ep(K: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Sequential EP with dense algebra after every site: evidence (R&W, eq. 3.65), site means and variances."""
    n = len(y)
    tau, nu = np.zeros(n), np.zeros(n)
    for _ in range(60):
        for i in range(n):
            S = np.linalg.inv(np.linalg.inv(K) + np.diag(tau))
            mu = S @ nu
            t = 1 / S[i, i] - tau[i]
            m = (mu[i] / S[i, i] - nu[i]) / t
            z = y[i] * m / np.sqrt(1 + 1 / t)
            ratio = np.exp(stats.norm.logpdf(z) - stats.norm.logcdf(z))
            mean = m + y[i] / t * ratio / np.sqrt(1 + 1 / t)
            variance = 1 / t - ratio / t**2 / (1 + 1 / t) * (z + ratio)
            tau[i], nu[i] = 1 / variance - t, mean / variance - m * t
    S = np.linalg.inv(np.linalg.inv(K) + np.diag(tau))
    mu = S @ nu
    t = 1 / np.diag(S) - tau
    m = (mu / np.diag(S) - nu) / t
    spread, site = 1 / t + 1 / tau, nu / tau
    value = normal_log_density(site, K + np.diag(1 / tau)) + n / 2 * np.log(2 * np.pi)
    value += (
        stats.norm.logcdf(y * m / np.sqrt(1 + 1 / t)).sum()
        + 0.5 * np.log(spread).sum()
        + ((m - site) ** 2 / (2 * spread)).sum()
    )
    return value, site, 1 / tau


def test_probit_ep() -> None:
    model = Model(GP(KERNEL), likelihood=Bernoulli("probit"))
    data = Data(X, LABELS)
    K, Ks = KERNEL.gram(X), KERNEL.cross(X, XS)
    value, site, spread = dense_ep(K, LABELS)
    post = condition(model, data, inference=EP())
    assert post.status == "converged"
    assert post.log_evidence == pytest.approx(value, abs=1e-7)
    A = K + np.diag(spread)
    prediction = post.predict(XS)
    np.testing.assert_allclose(prediction.f.mean, Ks.T @ np.linalg.solve(A, site), atol=1e-6)
    np.testing.assert_allclose(prediction.f.variance, KERNEL.diag(XS) - np.diag(Ks.T @ np.linalg.solve(A, Ks)), atol=1e-6)
    p = special.ndtr(prediction.f.mean / np.sqrt(1 + prediction.f.variance))
    np.testing.assert_allclose(prediction.y.mean, p, atol=1e-12)
    slopes_agree(model, data, inference=EP(), tolerance=2e-5)
    slopes_agree(Model(GP(KERNEL, mean=Constant(0.4)), likelihood=Bernoulli("probit")), data, inference=EP(), tolerance=2e-5)


@pytest.mark.parametrize(
    ("labels", "exact", "ep", "laplace"),
    [([1, 1], -1.0429419, -1.0466949, -1.1109710), ([1, -1], -1.9133604, -1.9122371, -1.9560394)],
)
def test_two_labels_known_answers(labels: list[int], exact: float, ep: float, laplace: float) -> None:
    """K = [[4, 3], [3, 4]]: the orthant probability, and the values of EP and Laplace's method (computed independently)."""
    distance = np.sqrt(-2 * np.log(0.75))
    model = Model(GP(4.0 * SquaredExponential()), likelihood=Bernoulli("probit"))
    data = Data([[0.0], [distance]], labels)
    assert log_evidence(model, data, inference=EP()) == pytest.approx(ep, abs=1e-6)
    assert log_evidence(model, data, inference=Laplace()) == pytest.approx(laplace, abs=1e-6)
    assert np.log(0.25 + np.arcsin(labels[0] * labels[1] * 3 / 5) / (2 * np.pi)) == pytest.approx(exact, abs=1e-6)


# low rank: FITC and VFE -----------------------------------------------------------------------------------------


def nystrom(X1: np.ndarray, X2: np.ndarray) -> np.ndarray:
    Kuu = KERNEL.gram(Z) + 1e-10 * 1.3 * np.eye(len(Z))
    return KERNEL.cross(X1, Z) @ np.linalg.solve(Kuu, KERNEL.cross(Z, X2))


@pytest.mark.parametrize("rule", ["fitc", "vfe"])
def test_low_rank(rule: str) -> None:
    model = Model(GP(KERNEL), likelihood=Gaussian(0.05))
    data, gram = Data(X, Y), LowRank(Z, rule=rule)
    Q, rest = nystrom(X, X), 1.3 - np.diag(nystrom(X, X))
    A = Q + (np.diag(rest) if rule == "fitc" else 0) + 0.05 * np.eye(24)
    expected = normal_log_density(Y, A) - (0.5 * rest.sum() / 0.05 if rule == "vfe" else 0)
    assert log_evidence(model, data, gram=gram) == pytest.approx(expected, abs=1e-6)
    prediction = condition(model, data, gram=gram).predict(XS, covariance=True).f
    Qs = nystrom(X, XS)
    np.testing.assert_allclose(prediction.mean, Qs.T @ np.linalg.solve(A, Y), atol=1e-7)
    np.testing.assert_allclose(prediction.covariance, KERNEL.gram(XS) - Qs.T @ np.linalg.solve(A, Qs), atol=1e-7)
    np.testing.assert_allclose(prediction.variance, np.diag(prediction.covariance), atol=1e-9)
    slopes_agree(model, data, gram=gram, tolerance=2e-5)


@pytest.mark.parametrize("rule", ["fitc", "vfe"])
def test_low_rank_slopes_over_inducing_inputs(rule: str) -> None:
    model, data = Model(GP(KERNEL), likelihood=Gaussian(0.05)), Data(X, Y)
    bound = LowRank(Z, rule=rule, learned=True).bind((KERNEL,), data.X)
    solved = Exact().solve(model, data, bound)
    slope = Exact().gradient(model, data, bound, solved).inducing
    assert slope is not None
    for i, k in [(0, 0), (3, 1), (6, 0)]:
        move = np.zeros_like(Z)
        move[i, k] = 1e-5
        up, down = (log_evidence(model, data, gram=LowRank(Z + s * move, rule=rule)) for s in (1, -1))
        assert slope[i, k] == pytest.approx((up - down) / 2e-5, rel=2e-5, abs=2e-5)


@pytest.mark.parametrize("rule", ["fitc", "vfe"])
def test_low_rank_at_all_inputs_is_exact(rule: str) -> None:
    model, data = Model(GP(KERNEL), likelihood=Gaussian(0.05)), Data(X, Y)
    gram = LowRank(X, rule=rule, jitter=0.0)
    value, gradient = log_evidence_and_grad(model, data, gram=gram)
    exact_value, exact_gradient = log_evidence_and_grad(model, data)
    assert value == pytest.approx(exact_value, abs=1e-8)
    np.testing.assert_allclose(gradient.kernel.kernel.lengthscale, exact_gradient.kernel.kernel.lengthscale, atol=1e-6)
    assert float(gradient.likelihood.variance) == pytest.approx(float(exact_gradient.likelihood.variance), rel=1e-6)


@pytest.mark.parametrize("inference", [EP(), Laplace()])
def test_low_rank_under_other_inferences(inference: Any) -> None:
    """FITC under EP and Laplace is the dense inference with FITC's K."""
    model, data = Model(GP(KERNEL), likelihood=Bernoulli("probit")), Data(X, LABELS)
    K = nystrom(X, X) + np.diag(1.3 - np.diag(nystrom(X, X)))
    got = log_evidence(model, data, inference=inference, gram=LowRank(Z))
    if isinstance(inference, EP):
        assert got == pytest.approx(dense_ep(K, LABELS)[0], abs=1e-6)
    else:
        f = np.zeros(24)
        for _ in range(50):
            z = LABELS * f
            ratio = np.exp(stats.norm.logpdf(f) - stats.norm.logcdf(z))
            W = ratio**2 + z * ratio
            f = K @ np.linalg.solve(np.eye(24) + W[:, None] * K, W * f + LABELS * ratio)
        value = (
            stats.norm.logcdf(LABELS * f).sum()
            - 0.5 * f @ np.linalg.solve(K, f)
            - 0.5 * np.linalg.slogdet(np.eye(24) + K * W)[1]
        )
        assert got == pytest.approx(value, abs=1e-6)
    slopes_agree(model, data, inference=inference, gram=LowRank(Z), tolerance=2e-5)


def test_low_rank_raises_for_unsupported_combinations() -> None:
    data = Data(X, Y)
    with pytest.raises(CovaryError, match="rule 'vfe' requires a Gaussian likelihood"):
        log_evidence(Model(GP(KERNEL), likelihood=Bernoulli()), Data(X, LABELS), inference=EP(), gram=LowRank(Z, rule="vfe"))
    with pytest.raises(CovaryError, match="noise is zero"):
        log_evidence(Model(GP(KERNEL), likelihood=Gaussian(fixed(0.0))), data, gram=LowRank(Z, rule="vfe"))


# explicit basis with vague weights ------------------------------------------------------------------------------

H = np.column_stack([np.ones(24), X])
HS = np.column_stack([np.ones(5), XS])


@pytest.mark.parametrize("gram", [Dense(), LowRank(Z)], ids=["dense", "low rank"])
def test_vague_basis_is_generalised_least_squares(gram: Any) -> None:
    """R&W, eqs. 2.42 and 2.45, written out."""
    model, data = Model(GP(KERNEL, basis=LinearBasis()), likelihood=Gaussian(0.05)), Data(X, Y)
    Q = nystrom(X, X)
    K = KERNEL.gram(X) if isinstance(gram, Dense) else Q + np.diag(1.3 - np.diag(Q))
    Ks = KERNEL.cross(X, XS) if isinstance(gram, Dense) else nystrom(X, XS)
    A = K + 0.05 * np.eye(24)
    Ai = np.linalg.inv(A)
    M = H.T @ Ai @ H
    beta = np.linalg.solve(M, H.T @ Ai @ Y)
    quad = Y @ Ai @ Y - Y @ Ai @ H @ np.linalg.solve(M, H.T @ Ai @ Y)
    value = -0.5 * (quad + np.linalg.slogdet(A)[1] + np.linalg.slogdet(M)[1] + (24 - 3) * np.log(2 * np.pi))
    assert log_evidence(model, data, gram=gram) == pytest.approx(value, abs=1e-7)
    post = condition(model, data, gram=gram)
    np.testing.assert_allclose(post.basis_weights, beta, atol=1e-7)
    rest = HS.T - H.T @ Ai @ Ks
    prediction = post.predict(XS, covariance=True).f
    np.testing.assert_allclose(prediction.mean, HS @ beta + Ks.T @ Ai @ (Y - H @ beta), atol=1e-7)
    cov = KERNEL.gram(XS) - Ks.T @ Ai @ Ks + rest.T @ np.linalg.solve(M, rest)
    np.testing.assert_allclose(prediction.covariance, cov, atol=1e-7)
    np.testing.assert_allclose(prediction.variance, np.diag(cov), atol=1e-7)
    slopes_agree(model, data, gram=gram, tolerance=2e-5)


class WideLinear(AbstractKernel):
    """c (1 + x·x'): the proper prior that tends to the vague basis for large c."""

    variance: Any = positive(1.0)

    @property
    def traits(self) -> Traits:
        return Traits()

    def block(self, A: Inputs, B: Inputs) -> Any:
        return self.variance * (1 + A.x @ B.x.T)


@pytest.mark.parametrize(
    ("likelihood", "inference", "y"),
    [(Bernoulli("probit"), EP(), LABELS), (Bernoulli("logit"), Laplace(), LABELS), (StudentT(0.3), Laplace(), Y)],
    ids=["ep", "laplace", "signed laplace"],
)
def test_vague_basis_under_every_inference(likelihood: Any, inference: Any, y: np.ndarray) -> None:
    c = 1e6
    vague = Model(GP(KERNEL, basis=LinearBasis()), likelihood=likelihood)
    proper = Model(GP(KERNEL + WideLinear(c)), likelihood=likelihood)
    data = Data(X, y)
    limit = log_evidence(proper, data, inference=inference) + 1.5 * np.log(c)
    assert log_evidence(vague, data, inference=inference) == pytest.approx(limit, abs=1e-4)
    post = condition(vague, data, inference=inference)
    W, b = np.asarray(post.factor.spread), post.solved.shift  # universal kriging on the sites, as one bordered system
    border = np.block([[W[:, None] * KERNEL.gram(X) + np.eye(24), W[:, None] * H], [H.T, np.zeros((3, 3))]])
    right, weighted = np.vstack([KERNEL.cross(X, XS), HS.T]), np.vstack([W[:, None] * KERNEL.cross(X, XS), HS.T])
    got = post.predict(XS).f
    np.testing.assert_allclose(got.mean, right.T @ np.linalg.solve(border, np.concatenate([b, np.zeros(3)])), atol=1e-7)
    np.testing.assert_allclose(got.variance, KERNEL.diag(XS) - np.diag(right.T @ np.linalg.solve(border, weighted)), atol=1e-7)
    slopes_agree(vague, data, inference=inference, tolerance=5e-5)


# the terms themselves -------------------------------------------------------------------------------------------

SITES = [
    Noise(RNG.uniform(0.05, 0.3, 24)),
    Diagonal(RNG.uniform(0.0, 4.0, 24) * (RNG.uniform(size=24) > 0.2)),
    Diagonal(np.where(RNG.uniform(size=24) > 0.8, -0.15, 3.0)),
]


@pytest.mark.parametrize("basis", [None, LinearBasis()], ids=["plain", "basis"])
@pytest.mark.parametrize("sites", SITES, ids=["noise", "diagonal", "signed"])
def test_terms_pull_every_cotangent(sites: Any, basis: Any) -> None:
    """The hand-written gradient of a random function of (quad, logdet, mean, variance), against differences."""
    inputs = Data(X, Y).X
    bars = Bars(quad=0.7, logdet=-0.4, mean=RNG.normal(size=24), variance=RNG.normal(size=24))

    def value(kernel: AbstractKernel, shift: np.ndarray, where: Any) -> float:
        factor = Dense().bind((kernel,), inputs, basis).factor(where)
        out = bars.quad * factor.quad(shift) + bars.logdet * factor.logdet()
        return float(out + bars.mean @ factor.mean(shift) + bars.variance @ factor.variance())

    bound = Dense().bind((KERNEL,), inputs, basis)
    factor = bound.factor(sites)
    pulled = bound.pull(factor, Y, factor.alpha(Y), bars)
    eps = 1e-6
    up, down = (value((1.3 + s * eps) * Matern52(lengthscale=[0.9, 1.7]), Y, sites) for s in (1, -1))
    assert float(pulled.kernel.variance) == pytest.approx((up - down) / (2 * eps), rel=1e-5, abs=1e-5)
    up, down = (value(1.3 * Matern52(lengthscale=[0.9 + s * eps, 1.7]), Y, sites) for s in (1, -1))
    assert float(pulled.kernel.kernel.lengthscale[0]) == pytest.approx((up - down) / (2 * eps), rel=1e-5, abs=1e-5)
    name = "variance" if isinstance(sites, Noise) else "precision"
    spread = getattr(sites, name)
    for i in (0, 5, 17):
        move = np.zeros(24)
        move[i] = eps
        up, down = (value(KERNEL, Y + s * move, sites) for s in (1, -1))
        assert pulled.shift[i] == pytest.approx((up - down) / (2 * eps), rel=1e-5, abs=1e-5)
        if spread[i] > 2 * eps or spread[i] < 0:
            up, down = (value(KERNEL, Y, type(sites)(spread + s * move)) for s in (1, -1))
            assert getattr(pulled.sites, name)[i] == pytest.approx((up - down) / (2 * eps), rel=1e-5, abs=1e-5)


# inputs ---------------------------------------------------------------------------------------------------------


class TwoOutputs(AbstractKernel):
    """Intrinsic coregionalisation: uses the tag ``output`` in addition to the numbers."""

    mixing: Any = positive(0.5)

    @property
    def traits(self) -> Traits:
        return Traits()

    def block(self, A: Inputs, B: Inputs) -> Any:
        same = A.tags["output"][:, None] == B.tags["output"][None, :]
        return Matern52().block(A, B) * (same + self.mixing * (1 - same))


def test_tags_are_passed_through_the_whole_pipeline() -> None:
    tags = (np.arange(24) % 2).astype(int)
    inputs = Inputs(X, {"output": tags})
    model, data = Model(GP(TwoOutputs(0.6)), likelihood=Gaussian(0.1)), Data(inputs, Y)
    same = tags[:, None] == tags[None, :]
    K = Matern52().gram(X) * np.where(same, 1.0, 0.6)
    assert log_evidence(model, data) == pytest.approx(normal_log_density(Y, K + 0.1 * np.eye(24)), abs=1e-9)
    slopes_agree(model, data)
    new = Inputs(XS, {"output": np.array([0, 1, 0, 1, 1])})
    Ks = Matern52().cross(X, XS) * np.where(tags[:, None] == new.tags["output"][None, :], 1.0, 0.6)
    mean = condition(model, data).predict(new).f.mean
    np.testing.assert_allclose(mean, Ks.T @ np.linalg.solve(K + 0.1 * np.eye(24), Y), atol=1e-10)
