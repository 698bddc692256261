"""Explicit basis functions: Gaussian weights, the vague limit, and both under every inference and gram.

The truth is dense algebra written here: β ~ N(b, B) makes g a Gaussian process with mean h·b and kernel k + hᵀB h'.
"""

from __future__ import annotations

import pickle
from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats

from covary import GP, Data, Inputs, Model, condition, log_evidence, log_evidence_and_grad
from covary._checks import CovaryError
from covary._precision import precision
from covary.gram import Bars, Dense, LowRank, Markov, Subset, Vecchia
from covary.inference import EP, Exact, Laplace
from covary.kernels import AbstractKernel, Matern32, Matern52, Traits
from covary.likelihoods import Bernoulli, Gaussian, Poisson, StudentT
from covary.means.basis import (
    Basis,
    BasisMean,
    ConstantBasis,
    LinearBasis,
    PolynomialBasis,
    basis_weights,
    gaussian_weights,
    scale_free_log_evidence,
)
from covary.parameters import Packing, parameters
from covary.sites import Diagonal, Noise

RNG = np.random.default_rng(11)
N, NEW = 22, 5
X, XS = RNG.normal(size=(N, 2)), RNG.normal(size=(NEW, 2))
Y = np.sin(2 * X[:, 0]) + 1.5 * X[:, 1] + 2.0 + 0.2 * RNG.normal(size=N)
LABELS = np.where(Y - 2.0 + 0.3 * RNG.normal(size=N) > 0, 1.0, -1.0)
COUNTS = RNG.poisson(np.exp(np.clip(Y - 1.0, -2, 2))).astype(float)
KERNEL = 1.3 * Matern52(lengthscale=[0.9, 1.7])
S = 0.05
H, HS = np.column_stack([np.ones(N), X]), np.column_stack([np.ones(NEW), XS])
MEAN = np.array([0.7, -0.4, 1.1])
ROOT = np.array([[1.1, 0.0, 0.0], [0.3, 0.8, 0.0], [-0.5, 0.2, 0.6]])
B = ROOT @ ROOT.T


def proper(kernel: Any = KERNEL, likelihood: Any = None, covariance: Any = B, mean: Any = MEAN) -> Model:
    parts = gaussian_weights(LinearBasis(), mean=mean, covariance=covariance)
    return Model(GP(kernel, **parts), likelihood=likelihood or Gaussian(S))


def slopes_agree(model: Model, data: Data, step: float = 1e-5, tolerance: float = 2e-6, **how: Any) -> None:
    """Every derivative of the evidence equals its central difference."""
    packing = Packing(model)
    theta = packing.pack(model)
    slope = packing.pull(model, log_evidence_and_grad(model, data, **how)[1])
    for i, name in enumerate(packing.names()):
        move = np.zeros(packing.size)
        move[i] = step
        up, down = (log_evidence(packing.unpack(theta + s * move), data, **how) for s in (1, -1))
        assert slope[i] == pytest.approx((up - down) / (2 * step), rel=tolerance, abs=tolerance), name


def log_normal(y: np.ndarray, C: np.ndarray) -> float:
    return float(stats.multivariate_normal(np.zeros(len(y)), C).logpdf(y))


# Gaussian noise -------------------------------------------------------------------------------------------------------

GRAMS: dict[str, Any] = {
    "dense": Dense(),
    "low rank": LowRank(X, jitter=0.0),
    "vecchia": Vecchia(N - 1, predict_with=N),
    "subset": Subset(N),
}


@pytest.mark.parametrize("gram", GRAMS.values(), ids=GRAMS)
def test_gaussian_weights_are_a_wider_kernel(gram: Any) -> None:
    """Evidence (R&W, eq. 2.43), predictions and weights (2.41), left-out rows, slopes: all of GP(h·b, k + hᵀB h')."""
    model, data = proper(), Data(X, Y)
    K, Ks, Kss = KERNEL.gram(X) + H @ B @ H.T, KERNEL.cross(X, XS) + H @ B @ HS.T, KERNEL.gram(XS) + HS @ B @ HS.T
    A, rest = K + S * np.eye(N), Y - H @ MEAN
    post = condition(model, data, gram=gram)
    assert post.log_evidence == pytest.approx(log_normal(rest, A), abs=1e-8)
    prediction = post.predict(XS, covariance=True).f
    np.testing.assert_allclose(prediction.mean, HS @ MEAN + Ks.T @ np.linalg.solve(A, rest), atol=1e-9)
    cov = Kss - Ks.T @ np.linalg.solve(A, Ks)
    np.testing.assert_allclose(prediction.covariance, cov, atol=1e-9)
    np.testing.assert_allclose(prediction.variance, np.diag(cov), atol=1e-9)
    weights = basis_weights(post)
    Ki = np.linalg.inv(KERNEL.gram(X) + S * np.eye(N))
    inner = np.linalg.inv(np.linalg.inv(B) + H.T @ Ki @ H)
    np.testing.assert_allclose(weights.covariance, inner, atol=1e-9)
    np.testing.assert_allclose(weights.mean, inner @ (H.T @ Ki @ Y + np.linalg.solve(B, MEAN)), atol=1e-9)
    left = post.leave_one_out()
    for i in (0, 7):
        keep = np.arange(N) != i
        Ai, k = A[np.ix_(keep, keep)], K[keep, i]
        assert left.mean[i] == pytest.approx(H[i] @ MEAN + k @ np.linalg.solve(Ai, rest[keep]), abs=1e-8)
        assert left.variance[i] == pytest.approx(K[i, i] - k @ np.linalg.solve(Ai, k), abs=1e-8)
    slopes_agree(model, data, gram=gram, tolerance=2e-5)


def test_on_a_line_by_recursion() -> None:
    kernel, x = 1.3 * Matern32(lengthscale=0.7), X[:, :1]
    h = np.column_stack([np.ones(N), x])
    model = Model(GP(kernel, **gaussian_weights(LinearBasis(), mean=0.5, covariance=[4.0, 0.3])), likelihood=Gaussian(S))
    A = kernel.gram(x) + h @ np.diag([4.0, 0.3]) @ h.T + S * np.eye(N)
    assert log_evidence(model, Data(x, Y), gram=Markov()) == pytest.approx(log_normal(Y - h @ [0.5, 0.5], A), abs=1e-8)
    slopes_agree(model, Data(x, Y), gram=Markov(), tolerance=2e-5)


def test_two_forms_of_the_evidence() -> None:
    """R&W, eqs. 2.43 and 2.44 (b = 0), both written out, and what the library gives."""
    Ky = KERNEL.gram(X) + S * np.eye(N)
    Ki = np.linalg.inv(Ky)
    A = np.linalg.inv(B) + H.T @ Ki @ H
    C = Ki @ H @ np.linalg.solve(A, H.T @ Ki)
    dets = np.linalg.slogdet(Ky)[1] + np.linalg.slogdet(B)[1] + np.linalg.slogdet(A)[1]
    by_244 = -0.5 * (Y @ Ki @ Y - Y @ C @ Y + dets + N * np.log(2 * np.pi))
    by_243 = log_normal(Y, Ky + H @ B @ H.T)
    assert by_244 == pytest.approx(by_243, abs=1e-9)
    assert log_evidence(proper(mean=0.0), Data(X, Y)) == pytest.approx(by_243, abs=1e-9)


def test_vague_weights_are_the_limit() -> None:
    """R&W, eq. 2.45 = limit of 2.43 + ½ log|B| + (m/2) log 2π; predictions (2.42) do not depend on b."""
    data, c = Data(X, Y), 1e7
    vague = condition(Model(GP(KERNEL, basis=LinearBasis()), likelihood=Gaussian(S)), data)
    wide = condition(proper(covariance=c), data)
    assert wide.log_evidence + 1.5 * np.log(2 * np.pi * c) == pytest.approx(vague.log_evidence, abs=1e-5)
    shifted = condition(proper(covariance=np.inf), data)
    for other, tolerance in ((wide, 1e-6), (shifted, 1e-9)):
        np.testing.assert_allclose(other.predict(XS).f.mean, vague.predict(XS).f.mean, atol=tolerance)
        np.testing.assert_allclose(other.predict(XS).f.variance, vague.predict(XS).f.variance, atol=tolerance)
        np.testing.assert_allclose(basis_weights(other).mean, basis_weights(vague).mean, atol=tolerance)
    assert shifted.log_evidence == pytest.approx(vague.log_evidence, abs=1e-9)
    move = np.array([3.0, -2.0, 5.0])
    moved = condition(vague.model, Data(X, Y + H @ move))
    np.testing.assert_allclose(moved.predict(XS).f.mean, vague.predict(XS).f.mean + HS @ move, atol=1e-9)
    assert moved.log_evidence == pytest.approx(vague.log_evidence, abs=1e-9)


def test_some_weights_vague() -> None:
    """An infinite variance is a vague weight: the offset vague, the slopes as part of the kernel."""
    data, slopes = Data(X, Y), np.array([[0.5, 0.1], [0.1, 0.3]])
    covariance = np.array([[np.inf, 0.0, 0.0], [0.0, 0.5, 0.1], [0.0, 0.1, 0.3]])
    got = condition(Model(GP(KERNEL, basis=LinearBasis(covariance=covariance)), likelihood=Gaussian(S)), data)
    inner = Model(GP(KERNEL + Sloped(slopes), basis=ConstantBasis()), likelihood=Gaussian(S))
    want = condition(inner, data)
    assert got.log_evidence == pytest.approx(want.log_evidence, abs=1e-8)
    np.testing.assert_allclose(got.predict(XS).f.mean, want.predict(XS).f.mean, atol=1e-9)
    np.testing.assert_allclose(got.predict(XS).f.variance, want.predict(XS).f.variance, atol=1e-9)
    assert scale_free_log_evidence(got) == pytest.approx(want.log_evidence + 0.5 * np.log(N), abs=1e-8)
    slopes_agree(got.model, data)


def test_known_noise_weights_and_two_outputs() -> None:
    both, known = np.column_stack([Y, Y**2]), RNG.uniform(0.01, 0.2, N)
    A = KERNEL.gram(X) + H @ B @ H.T + np.diag(S + known)
    post = condition(proper(), Data(X, both, known))
    expected = sum(log_normal(c - H @ MEAN, A) for c in both.T)
    assert post.log_evidence == pytest.approx(expected, abs=1e-8)
    Ks = KERNEL.cross(X, XS) + H @ B @ HS.T
    want = (HS @ MEAN)[:, None] + Ks.T @ np.linalg.solve(A, both - (H @ MEAN)[:, None])
    np.testing.assert_allclose(post.predict(XS).f.mean, want, atol=1e-9)
    assert basis_weights(post).mean.shape == (3, 2)
    slopes_agree(post.model, Data(X, both, known))


# other likelihoods ----------------------------------------------------------------------------------------------------


class Sloped(AbstractKernel):
    """xᵀ B x', written as a kernel."""

    matrix: Any

    @property
    def traits(self) -> Traits:
        return Traits()

    def block(self, A: Inputs, Z: Inputs) -> Any:
        return A.x @ self.matrix @ Z.x.T


class Wide(AbstractKernel):
    """(1, x)ᵀ B (1, x'), written as a kernel."""

    matrix: Any

    @property
    def traits(self) -> Traits:
        return Traits()

    def block(self, A: Inputs, Z: Inputs) -> Any:
        import jax.numpy as jnp

        left, right = (jnp.concatenate([jnp.ones((v.rows, 1), v.x.dtype), v.x], 1) for v in (A, Z))
        return left @ self.matrix @ right.T


CASES: dict[str, tuple[Any, Any, np.ndarray]] = {
    "ep": (Bernoulli("probit"), EP(), LABELS),
    "laplace": (Bernoulli("logit"), Laplace(), LABELS),
    "poisson": (Poisson(), Laplace(), COUNTS),
    "signed laplace": (StudentT(0.3), Laplace(), Y),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gaussian_weights_under_every_inference(case: tuple[Any, Any, np.ndarray]) -> None:
    likelihood, inference, y = case
    data, b = Data(X, y), 0.2 * MEAN
    model = proper(likelihood=likelihood, mean=b)
    inside = Model(GP(KERNEL + Wide(B), mean=BasisMean(LinearBasis().function, weights=b)), likelihood=likelihood)
    got, want = condition(model, data, inference=inference), condition(inside, data, inference=inference)
    assert got.log_evidence == pytest.approx(want.log_evidence, abs=1e-6)
    np.testing.assert_allclose(got.predict(XS).f.mean, want.predict(XS).f.mean, atol=1e-6)
    np.testing.assert_allclose(got.predict(XS).f.variance, want.predict(XS).f.variance, atol=1e-6)
    if not isinstance(likelihood, StudentT):
        a, c = got.leave_one_out(), want.leave_one_out()
        np.testing.assert_allclose(a.mean, c.mean, atol=1e-6)
        np.testing.assert_allclose(a.log_prob, c.log_prob, atol=1e-6)
    R = np.linalg.inv(KERNEL.gram(X) + np.diag(1 / np.asarray(got.factor.spread)))
    inner = np.linalg.inv(np.linalg.inv(B) + H.T @ R @ H)
    weights = basis_weights(got)
    np.testing.assert_allclose(weights.covariance, inner, atol=1e-6)
    np.testing.assert_allclose(weights.mean, b + B @ H.T @ want.alpha, atol=1e-5)
    slopes_agree(model, data, inference=inference, tolerance=5e-5)


SITES = {
    "noise": Noise(RNG.uniform(0.05, 0.3, N)),
    "diagonal": Diagonal(RNG.uniform(0.0, 4.0, N) * (RNG.uniform(size=N) > 0.2)),
    "signed": Diagonal(np.where(RNG.uniform(size=N) > 0.8, -0.15, 3.0)),
}


@pytest.mark.parametrize("sites", SITES.values(), ids=SITES)
def test_terms_and_their_gradients(sites: Any) -> None:
    """Quadratic, determinant, mean and variance of the factor, and the gradient of a random function of them."""
    bars = Bars(quad=0.7, logdet=-0.4, mean=RNG.normal(size=N), variance=RNG.normal(size=N))
    basis, inputs = LinearBasis(covariance=B), Data(X, Y).X

    def terms(kernel: Any, where: Any, with_basis: Any) -> Any:
        factor = Dense().bind((kernel,), inputs, with_basis).factor(where)
        return factor, [factor.quad(Y), factor.logdet(), factor.mean(Y), factor.variance()]

    def value(kernel: Any, where: Any) -> float:
        q, l, m, v = terms(kernel, where, basis)[1]
        return float(bars.quad * q + bars.logdet * l + bars.mean @ m + bars.variance @ v)

    factor, got = terms(KERNEL, sites, basis)
    wanted = terms(KERNEL + Wide(B), sites, None)[1]
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)
    assert type(got[2]) is np.ndarray
    pulled = Dense().bind((KERNEL,), inputs, basis).pull(factor, Y, factor.alpha(Y), bars)
    eps, name = 1e-6, "variance" if isinstance(sites, Noise) else "precision"
    up, down = (value(1.3 * Matern52(lengthscale=[0.9 + s * eps, 1.7]), sites) for s in (1, -1))
    assert float(pulled.kernel.kernel.lengthscale[0]) == pytest.approx((up - down) / (2 * eps), rel=1e-5, abs=1e-5)
    spread = np.asarray(getattr(sites, name))
    i = int(np.flatnonzero(np.abs(spread) > 0.01)[3])
    move = np.eye(N)[i] * eps
    up, down = (value(KERNEL, type(sites)(spread + s * move)) for s in (1, -1))
    assert getattr(pulled.sites, name)[i] == pytest.approx((up - down) / (2 * eps), rel=1e-5, abs=1e-5)


# the offset, and the size of the basis functions ------------------------------------------------------------------------


def test_a_vague_constant_is_ordinary_kriging() -> None:
    """Gibbs, eqs. 6.31 to 6.33: C∞⁻¹ = C⁻¹ − C⁻¹n nᵀC⁻¹/(nᵀC⁻¹n), C∞⁻¹n = 0; predictions are those of ordinary kriging."""
    post = condition(Model(GP(KERNEL, basis=ConstantBasis()), likelihood=Gaussian(S)), Data(X, Y))
    ones, C, k = np.ones(N), KERNEL.gram(X) + S * np.eye(N), KERNEL.cross(X, XS)
    Ci = np.linalg.inv(C)
    limit = Ci - np.outer(Ci @ ones, ones @ Ci) / (ones @ Ci @ ones)
    np.testing.assert_allclose(post.factor.solve(np.eye(N)), limit, atol=1e-9)
    np.testing.assert_allclose(post.factor.solve(ones), 0.0, atol=1e-10)
    np.testing.assert_allclose(post.alpha, limit @ Y, atol=1e-9)
    u, theta = Ci @ ones, 1e10
    finite = Ci - theta * np.outer(u, u) / (1 + theta * ones @ u)  # (C + θ₂ n nᵀ)⁻¹
    np.testing.assert_allclose(finite, limit, atol=1e-9)
    near = np.linalg.inv(C + 1e3 * np.outer(ones, ones))
    np.testing.assert_allclose(near, Ci - 1e3 * np.outer(u, u) / (1 + 1e3 * ones @ u), atol=1e-9)
    system = np.block([[C, ones[:, None]], [ones[None, :], np.zeros((1, 1))]])  # weights that add up to one
    solution = np.linalg.solve(system, np.vstack([k, np.ones((1, NEW))]))
    np.testing.assert_allclose(solution[:N].sum(0), 1.0, atol=1e-10)
    got = post.predict(XS).f
    np.testing.assert_allclose(got.mean, solution[:N].T @ Y, atol=1e-9)
    variance = KERNEL.diag(XS) - (solution * np.vstack([k, np.ones((1, NEW))])).sum(0)
    np.testing.assert_allclose(got.variance, variance, atol=1e-9)


@pytest.mark.parametrize("inference", [Exact(), Laplace()])
def test_evidence_that_does_not_depend_on_the_scaling(inference: Any) -> None:
    likelihood, y = (Gaussian(S), Y) if isinstance(inference, Exact) else (Bernoulli("logit"), LABELS)
    mix = np.array([[2.0, 1.0, 0.0], [0.0, 3.0, -1.0], [0.5, 0.0, 4.0]])
    plain = Model(GP(KERNEL, basis=LinearBasis()), likelihood=likelihood)
    mixed = Model(GP(KERNEL, basis=Basis(lambda x: np.column_stack([np.ones(len(x)), x]) @ mix)), likelihood=likelihood)
    a, b = (condition(m, Data(X, y), inference=inference) for m in (plain, mixed))
    assert abs(a.log_evidence - b.log_evidence) > 1.0
    assert scale_free_log_evidence(a) == pytest.approx(scale_free_log_evidence(b), abs=1e-8)
    if isinstance(inference, Exact):  # the density of what is orthogonal to the basis functions
        Q = np.linalg.qr(H, mode="complete")[0][:, 3:]
        projected = log_normal(Q.T @ Y, Q.T @ (KERNEL.gram(X) + S * np.eye(N)) @ Q)
        assert scale_free_log_evidence(a) == pytest.approx(projected, abs=1e-9)
        assert scale_free_log_evidence(condition(Model(GP(KERNEL)), Data(X, Y))) == log_evidence(Model(GP(KERNEL)), Data(X, Y))


def test_scale_free_evidence_counts_merged_rows_as_often_as_they_stand() -> None:
    twice, y = np.vstack([X, X[:4]]), np.concatenate([Y, Y[:4] + 0.1])
    model = Model(GP(KERNEL, basis=LinearBasis()), likelihood=Gaussian(S))
    apart, merged = (condition(model, d) for d in (Data(twice, y), Data(twice, y).collapse()))
    assert scale_free_log_evidence(apart) == pytest.approx(scale_free_log_evidence(merged), abs=1e-8)


# the parts ------------------------------------------------------------------------------------------------------------


def test_learned_weights_are_a_mean_function() -> None:
    model = Model(GP(KERNEL, mean=BasisMean(PolynomialBasis(2).function, weights=np.full(5, 0.1))), likelihood=Gaussian(S))
    assert "mean.weights" in parameters(model)
    columns = np.column_stack([np.ones(N), X, X**2])
    np.testing.assert_array_equal(PolynomialBasis(2).evaluate(Data(X, Y).X), columns)
    assert log_evidence(model, Data(X, Y)) == pytest.approx(
        log_normal(Y - columns @ np.full(5, 0.1), KERNEL.gram(X) + S * np.eye(N)), abs=1e-9
    )
    slopes_agree(model, Data(X, Y))
    with precision(np.float64):  # in compiled code
        found = jax.jit(lambda m, x: m.block(Inputs(x)))(model.mean, X)
        np.testing.assert_allclose(found, columns @ np.full(5, 0.1), rtol=1e-12)


def test_a_posterior_survives_pickling() -> None:
    post = condition(proper(), Data(X, Y))
    again = pickle.loads(pickle.dumps(post))
    np.testing.assert_array_equal(again.predict(XS).f.variance, post.predict(XS).f.variance)
    assert LinearBasis(covariance=B) == LinearBasis(covariance=B)
    assert PolynomialBasis(3) == PolynomialBasis(3) != PolynomialBasis(2)


def test_single_precision() -> None:
    model, small = proper(), Data(X.astype(np.float32), Y)
    post = condition(model, small)
    assert post.predict(XS).f.mean.dtype == np.float32
    np.testing.assert_allclose(post.predict(XS).f.mean, condition(model, Data(X, Y)).predict(XS).f.mean, atol=2e-3)


@pytest.mark.parametrize(
    ("covariance", "says"),
    [
        ([1.0, 2.0], "2 variances are given for 3"),
        ([1.0, 0.0, 1.0], "variance 0"),
        (-1.0, "variance -1"),
        (np.eye(2), r"shape \(2, 2\) for 3"),
        (np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), "not symmetric"),
        (np.array([[np.inf, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), "set covariances with vague weights to zero"),
        (np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), "not positive definite"),
    ],
)
def test_bad_covariances_are_refused(covariance: Any, says: str) -> None:
    with pytest.raises(CovaryError, match=says):
        condition(Model(GP(KERNEL, basis=LinearBasis(covariance=covariance))), Data(X, Y))


def test_dependent_functions_are_refused_only_if_vague() -> None:
    def twice(x: np.ndarray) -> np.ndarray:
        return np.column_stack([x, x[:, 0] - x[:, 1]])

    with pytest.raises(CovaryError, match="linearly dependent"):
        condition(Model(GP(KERNEL, basis=Basis(twice))), Data(X, Y))
    post = condition(Model(GP(KERNEL, basis=Basis(twice, covariance=1.0)), likelihood=Gaussian(S)), Data(X, Y))
    T = twice(X)
    assert post.log_evidence == pytest.approx(log_normal(Y, KERNEL.gram(X) + T @ T.T + S * np.eye(N)), abs=1e-9)
    with pytest.raises(CovaryError, match="returned shape"):
        condition(Model(GP(KERNEL, basis=Basis(lambda x: x[:, 0]))), Data(X, Y))
    with pytest.raises(CovaryError, match="no explicit basis"):
        basis_weights(condition(Model(GP(KERNEL)), Data(X, Y)))
    with pytest.raises(CovaryError, match="degree is 0"):
        PolynomialBasis(0)
    with pytest.raises(CovaryError, match="weights has shape"):
        condition(Model(GP(KERNEL, mean=BasisMean(LinearBasis().function, weights=[1.0, 2.0]))), Data(X, Y))
