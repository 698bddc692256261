"""Expectation propagation: the printed algorithm, its identities, and the exact evidence of small problems.

Everything is restated here with dense matrices, explicit inverses and quadrature. R&W is Rasmussen & Williams (2006).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

from covary import GP, Data, Model, condition, log_evidence
from covary.gram import Dense
from covary.inference import EP, Laplace
from covary.kernels import AbstractKernel, Linear, Matern52, SquaredExponential, fixed
from covary.likelihoods import Bernoulli, Gaussian
from covary.means import Constant as ConstantMean
from covary.sites import Diagonal

RNG = np.random.default_rng(5)
N = 14
X = RNG.normal(size=(N, 2))
XS = RNG.normal(size=(6, 2))
Y = np.where(X[:, 0] - 0.5 * X[:, 1] + 0.7 * RNG.normal(size=N) > 0, 1.0, -1.0)
KERNEL = 1.7 * Matern52(lengthscale=[0.8, 1.5])
K = KERNEL.gram(X)
EYE = np.eye(N)
DATA = Data(X, Y)
every_link = pytest.mark.parametrize("link", ["logit", "probit"])


def binary(link: str, kernel: AbstractKernel = KERNEL) -> Model:
    return Model(GP(kernel), likelihood=Bernoulli(link))


def log_sigmoid(link: str, z: Any) -> Any:
    return special.log_expit(z) if link == "logit" else special.log_ndtr(z)


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


def sequential_ep(K: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """R&W, algorithm 3.5 with the corrected solve, for the probit: evidence by eqs. 3.73 to 3.75, τ̃ and ν̃."""
    n = len(y)
    tau, nu, S, mu = np.zeros(n), np.zeros(n), K.copy(), np.zeros(n)
    for _ in range(100):
        before = np.concatenate([tau, nu])
        for i in range(n):
            t, v = 1 / S[i, i] - tau[i], mu[i] / S[i, i] - nu[i]
            z = y[i] * v / t / np.sqrt(1 + 1 / t)
            r = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - special.log_ndtr(z))
            variance = 1 / t - r / t**2 / (1 + 1 / t) * (z + r)
            step = 1 / variance - t - tau[i]
            tau[i] += step
            nu[i] = (v / t + y[i] * r / t / np.sqrt(1 + 1 / t)) / variance - v
            S = S - step / (1 + step * S[i, i]) * np.outer(S[:, i], S[:, i])
            mu = S @ nu
        root = np.sqrt(tau)
        L = np.linalg.cholesky(np.eye(n) + root[:, None] * K * root)
        V = np.linalg.solve(L, root[:, None] * K)
        S = K - V.T @ V
        mu = S @ nu
        if np.abs(np.concatenate([tau, nu]) - before).max() < 1e-9:
            break
    t = 1 / np.diag(S) - tau
    m = (mu / np.diag(S) - nu) / t
    value = 0.5 * np.log1p(tau / t).sum() - np.log(np.diag(L)).sum()  # 3.73
    value += 0.5 * nu @ (S @ nu - nu / (t + tau))  # 3.74
    value += 0.5 * (m * t / (tau + t)) @ (tau * m - 2 * nu)  # 3.75
    return float(value + special.log_ndtr(y * m / np.sqrt(1 + 1 / t)).sum()), tau, nu


def test_ep_is_the_fixed_point_of_the_printed_algorithm() -> None:
    """R&W, algorithm 3.5; eqs. 3.73 to 3.75 add up to 3.65; every site has a positive precision."""
    post = condition(binary("probit"), DATA, inference=EP())
    assert post.status == "converged"
    tau, nu = natural_sites(post)
    value, tau0, nu0 = sequential_ep(K, Y)
    np.testing.assert_allclose(tau, tau0, atol=1e-7)
    np.testing.assert_allclose(nu, nu0, atol=1e-7)
    assert np.all(tau > 0)
    mean, variance = cavities(post)
    A, spread = K + np.diag(1 / tau), variance + 1 / tau
    direct = -0.5 * np.linalg.slogdet(A)[1] - 0.5 * (nu / tau) @ np.linalg.solve(A, nu / tau)
    direct += special.log_ndtr(Y * mean / np.sqrt(1 + variance)).sum()
    direct += 0.5 * np.log(spread).sum() + ((mean - nu / tau) ** 2 / (2 * spread)).sum()
    assert direct == pytest.approx(value, abs=1e-9)
    assert post.log_evidence == pytest.approx(direct, abs=1e-8)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ep_converges_where_sites_pull_against_each_other(seed: int) -> None:
    """The rows of R&W, figure 3.6 (drawn anew): many sites share one broad posterior, so moving them all at once overshoots."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.normal(m, 0.8, n) for m, n in ((-6, 20), (0, 30), (2, 10))])[:, None]
    y = np.repeat([1.0, -1.0, 1.0], [20, 30, 10])
    model = binary("probit", 49.0 * SquaredExponential(lengthscale=2.6))
    post = condition(model, Data(x, y), inference=EP())
    assert post.status == "converged"
    assert post.log_evidence == pytest.approx(sequential_ep(model.kernel.gram(x), y)[0], abs=1e-6)


@pytest.mark.parametrize("width", [1.0, 1e2, 1e4])
def test_ep_on_separable_classes(width: float) -> None:
    """R&W, section 3.2: sixteen sites on one weight, which only the prior keeps finite."""
    x = np.linspace(-3, 3, 16)[:, None]
    post = condition(binary("probit", width * Linear()), Data(x, np.sign(x[:, 0])), inference=EP())
    assert post.status == "converged"
    value, tau, nu = sequential_ep(width * x @ x.T, np.sign(x[:, 0]))
    assert post.log_evidence == pytest.approx(value, abs=1e-7)
    weight = (x[:, 0] @ nu) / (1 / width + (x[:, 0] ** 2) @ tau)
    assert post.predict([[1.0]]).f.mean[0] == pytest.approx(weight, rel=1e-5)


def test_ep_matches_the_moments_of_every_tilted_distribution() -> None:
    """R&W, eqs. 3.53 to 3.59: at the fixed point the marginals are the tilted moments."""
    post = condition(binary("probit"), DATA, inference=EP())
    mean, variance = cavities(post)
    got = post.predict(X).f
    for i in range(N):
        ends = mean[i] - 12 * np.sqrt(variance[i]), mean[i] + 12 * np.sqrt(variance[i])

        def moment(power: int, i: int = i, ends: tuple[float, float] = ends) -> float:
            spread = np.sqrt(variance[i])
            return integrate.quad(
                lambda f: f**power * special.ndtr(Y[i] * f) * stats.norm.pdf(f, mean[i], spread), *ends, epsabs=1e-13
            )[0]

        Z, first, second = (moment(k) for k in range(3))
        assert got.mean[i] == pytest.approx(first / Z, abs=1e-7)
        assert got.variance[i] == pytest.approx(second / Z - (first / Z) ** 2, abs=1e-7)


def test_a_cavity_does_not_know_its_own_site() -> None:
    """R&W, exercise 3.10.5: any other site i leaves cavity i where it was."""
    post = condition(binary("probit"), DATA, inference=EP())
    tau, nu = natural_sites(post)
    mean, variance = cavities(post)
    for i in (0, 7, 13):
        other_tau, other_nu = tau.copy(), nu.copy()
        other_tau[i], other_nu[i] = 3.0, -1.5
        factor = Dense().bind((KERNEL,), DATA.X).factor(Diagonal(other_tau))
        m, v = cavities_of(factor.sigma(EYE), other_tau, other_nu)
        assert m[i] == pytest.approx(mean[i], abs=1e-9)
        assert v[i] == pytest.approx(variance[i], abs=1e-9)
        assert abs(m[i - 1] - mean[i - 1]) > 1e-6


def test_cavities_tell_what_leaving_a_row_out_would() -> None:
    """R&W, section 5.5.3: Φ(y μ₋ᵢ/√(1 + σ²₋ᵢ)) is p(yᵢ | the others), nearly."""
    mean, variance = cavities(condition(binary("probit"), DATA, inference=EP()))
    short = special.ndtr(mean / np.sqrt(1 + variance))
    refit = [
        condition(binary("probit"), Data(np.delete(X, i, 0), np.delete(Y, i)), inference=EP()).predict(X[i : i + 1]).y.mean[0]
        for i in range(N)
    ]
    np.testing.assert_allclose(short, refit, atol=0.01)


def test_ep_predicts_like_regression_on_its_sites() -> None:
    """R&W, eqs. 3.60, 3.61: GP regression on μ̃ with known noise variances 1/τ̃; eq. 3.63 for the probability."""
    post = condition(binary("probit"), DATA, inference=EP())
    tau, nu = natural_sites(post)
    sites = condition(Model(GP(KERNEL), likelihood=Gaussian(fixed(0.0))), Data(X, nu / tau, noise_variance=1 / tau))
    one, two = post.predict(XS), sites.predict(XS)
    np.testing.assert_allclose(one.f.mean, two.f.mean, atol=1e-9)
    np.testing.assert_allclose(one.f.variance, two.f.variance, atol=1e-9)
    np.testing.assert_allclose(one.y.mean, special.ndtr(two.f.mean / np.sqrt(1 + two.f.variance)), atol=1e-9)


def test_one_label_is_exact_under_ep() -> None:
    """One row, whatever the prior mean: Φ(y m/√(1 + v)), ½ for mean zero."""
    for m in (0.0, 0.8):
        model = Model(GP(KERNEL, mean=ConstantMean(m)), likelihood=Bernoulli("probit"))
        for y in (1, -1):
            got = log_evidence(model, Data(X[:1], [y]), inference=EP())
            assert got == pytest.approx(special.log_ndtr(y * m / np.sqrt(2.7)), abs=1e-10)


@every_link
@pytest.mark.parametrize("n", [1, 2, 3])
def test_ep_evidence_by_quadrature(link: str, n: int) -> None:
    """∫ p(y | f) N(f | 0, K) df with 60 points per dimension: all labellings add to one, EP is close to each."""
    model = binary(link, 1.5 * KERNEL)
    z, w = np.polynomial.hermite_e.hermegauss(60)
    L = np.linalg.cholesky(1.5 * K[:n, :n])
    f = np.stack(np.meshgrid(*[z] * n, indexing="ij"), axis=-1).reshape(-1, n) @ L.T
    weight = np.prod(np.stack(np.meshgrid(*[w / w.sum()] * n, indexing="ij"), axis=-1).reshape(-1, n), axis=1)
    total = 0.0
    for code in range(2**n):
        y = np.where([code >> i & 1 for i in range(n)], 1.0, -1.0)
        exact = np.log(weight @ np.exp(log_sigmoid(link, y * f).sum(1)))
        total += np.exp(exact)
        got = log_evidence(model, Data(X[:n], y), inference=EP())
        assert got == pytest.approx(exact, abs=1e-6 if n == 1 else 0.01)
    assert total == pytest.approx(1.0, abs=1e-9)


@every_link
def test_ep_evidence_by_importance_sampling(link: str) -> None:
    """Twenty rows: the evidence by 200 000 draws from a widened Gaussian at the mode."""
    rng = np.random.default_rng(17)
    x = rng.normal(size=(20, 2))
    y = np.where(np.sin(2 * x[:, 0]) + 0.4 * rng.normal(size=20) > 0, 1.0, -1.0)
    model = binary(link, 3.0 * KERNEL)
    prior = model.kernel.gram(x)
    post = condition(model, Data(x, y), inference=Laplace())
    proposal = stats.multivariate_t(prior @ post.alpha, 1.2 * post.covariance(x), df=12, seed=18)
    f = proposal.rvs(200_000)
    log_w = log_sigmoid(link, y * f).sum(1) + stats.multivariate_normal(np.zeros(20), prior).logpdf(f) - proposal.logpdf(f)
    top = log_w.max()
    exact = top + np.log(np.exp(log_w - top).mean())
    error = np.exp(log_w - top).std() / np.exp(log_w - top).mean() / np.sqrt(len(log_w))
    assert error < 0.03
    assert abs(log_evidence(model, Data(x, y), inference=EP()) - exact) <= max(0.1, 3 * error)
    assert post.log_evidence < exact - 0.1


def test_ep_evidence_is_flat_for_very_large_prior_variances() -> None:
    """R&W, section 3.7.2: once f is far from zero almost surely, only its sign matters."""
    labels = np.sign(X[:, 0])
    values = [log_evidence(binary("probit", s * KERNEL), Data(X, labels), inference=EP()) for s in (1e4, 1e5, 1e6)]
    assert abs(values[2] - values[1]) < 0.4 * abs(values[1] - values[0])
    assert values[2] == pytest.approx(values[1], abs=0.02)
