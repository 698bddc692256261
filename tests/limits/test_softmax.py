"""Several classes under Laplace: the softmax model with Cn × Cn matrices, and what must not matter.

R&W is Rasmussen & Williams (2006), W&B Williams & Barber (1998); their known misprints are put right.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy import integrate, linalg, special, stats

from covary import GP, Data, Model, condition, log_evidence, log_evidence_and_grad
from covary.inference import Laplace
from covary.kernels import AbstractKernel, Constant, Linear, Matern32, Matern52, SquaredExponential
from covary.likelihoods import Bernoulli, Softmax
from covary.means import Constant as ConstantMean

RNG = np.random.default_rng(6)
N, C = 14, 3
X = RNG.normal(size=(N, 2))
XS = RNG.normal(size=(6, 2))
CLASSES = np.digitize(X[:, 0] + 0.4 * RNG.normal(size=N), [-0.4, 0.4]).astype(float)
TARGETS = (CLASSES[:, None] == np.arange(C)).astype(float)
KERNEL = 1.7 * Matern52(lengthscale=[0.8, 1.5])
KERNELS = (KERNEL, 2.5 * Matern32(lengthscale=1.1), 0.7 * SquaredExponential(lengthscale=0.8))
EYE = np.eye(N)
MANY = Data(X, CLASSES)


def stacked(kernels: tuple[AbstractKernel, ...]) -> np.ndarray:
    """The Cn × Cn prior covariance, class by class."""
    return linalg.block_diag(*[k.gram(X) for k in kernels])


def curvature(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """W = diag(π) − ΠΠᵀ (R&W, eq. 3.38; W&B, eq. 23 with its sign turned) and Π, from probabilities (n, C)."""
    Pi = np.vstack([np.diag(column) for column in p.T])
    return np.diag(p.T.ravel()) - Pi @ Pi.T, Pi


def softmax_model(kernels: tuple[AbstractKernel, ...] = KERNELS) -> Model:
    return Model(GP(kernels), likelihood=Softmax(len(kernels)))


def test_softmax_mode_evidence_and_predictions() -> None:
    """R&W, eqs. 3.35 to 3.44 with Cn × Cn inverses."""
    post = condition(softmax_model(), MANY, inference=Laplace())
    f, prior = post.predict(X).f.mean, stacked(KERNELS)
    p = special.softmax(f, axis=1)
    np.testing.assert_allclose(post.alpha, TARGETS - p, atol=1e-9)
    np.testing.assert_allclose(f.T.ravel(), prior @ (TARGETS - p).T.ravel(), atol=1e-9)
    W, _ = curvature(p)
    inverse = np.linalg.inv(prior)
    value = (TARGETS * f).sum() - special.logsumexp(f, axis=1).sum() - 0.5 * f.T.ravel() @ inverse @ f.T.ravel()
    value -= 0.5 * np.linalg.slogdet(prior)[1] + 0.5 * np.linalg.slogdet(inverse + W)[1]
    assert post.log_evidence == pytest.approx(value, abs=1e-8)
    inner = W @ np.linalg.inv(np.eye(C * N) + prior @ W)
    got = post.predict(XS).f
    for j in range(len(XS)):
        Q = linalg.block_diag(*[k.cross(X, XS[j : j + 1]) for k in KERNELS])
        np.testing.assert_allclose(got.mean[j], Q.T @ (TARGETS - p).T.ravel(), atol=1e-8)
        np.testing.assert_allclose(got.variance[j], np.diag([1.7, 2.5, 0.7]) - Q.T @ inner @ Q, atol=1e-8)


def test_block_identities_and_the_evidence_of_the_corrected_algorithm() -> None:
    """W&B, eqs. 24 and 25 and R&W, eqs. 3.45 to 3.47, algorithm 3.3, with their signs and the term of M put right."""
    post = condition(softmax_model(), MANY, inference=Laplace())
    f, prior, one = post.predict(X).f.mean, stacked(KERNELS), np.vstack([EYE] * C)
    p = special.softmax(f, axis=1)
    W, Pi = curvature(p)
    A = np.linalg.inv(prior) + np.diag(p.T.ravel())
    Ai = np.linalg.inv(A)
    small = EYE - Pi.T @ Ai @ Pi
    np.testing.assert_allclose(np.linalg.inv(A - Pi @ Pi.T), Ai + Ai @ Pi @ np.linalg.inv(small) @ Pi.T @ Ai, atol=1e-8)
    assert np.linalg.slogdet(A - Pi @ Pi.T)[1] == pytest.approx(np.linalg.slogdet(A)[1] + np.linalg.slogdet(small)[1])
    blocks, halves = [], 0.0
    for c in range(C):
        root = np.sqrt(p[:, c])
        B = EYE + root[:, None] * KERNELS[c].gram(X) * root
        blocks.append(root[:, None] * np.linalg.inv(B) * root)
        halves += 0.5 * np.linalg.slogdet(B)[1]
    M, E = sum(blocks), linalg.block_diag(*blocks)
    np.testing.assert_allclose(M, small, atol=1e-9)
    np.testing.assert_allclose(
        E - E @ one @ np.linalg.inv(M) @ one.T @ E, W @ np.linalg.inv(np.eye(C * N) + prior @ W), atol=1e-9
    )
    a = (TARGETS - p).T.ravel()
    without = (TARGETS * f).sum() - special.logsumexp(f, axis=1).sum() - 0.5 * a @ prior @ a - halves
    last = -0.5 * np.linalg.slogdet(M)[1]
    assert post.log_evidence == pytest.approx(without + last, abs=1e-8)
    assert last > 1.0  # what the printed algorithm leaves out is not small


def test_curvature_of_the_softmax_is_singular() -> None:
    """R&W, exercise 3.10.2; W&B, appendix C: diag(π) − ππᵀ ⪰ 0 with null vector 1, so W ⪰ 0 has rank n(C − 1)."""
    post = condition(softmax_model(), MANY, inference=Laplace())
    p = post.factor.sites.probability
    np.testing.assert_allclose(p, TARGETS - post.alpha, atol=1e-9)  # at the mode the weights are y − π
    np.testing.assert_allclose(p.sum(1), 1.0, atol=1e-9)
    slopes = jax.hessian(lambda f: Softmax(C).log_prob(np.zeros(()), f))
    with jax.enable_x64(True):
        blocks = -np.stack([slopes(row) for row in np.log(p)])
    np.testing.assert_allclose(blocks, [np.diag(row) - np.outer(row, row) for row in p], atol=1e-12)
    assert np.all(p > 0)
    W, _ = curvature(p)
    values = np.linalg.eigvalsh(W)
    assert values.min() > -1e-12
    assert (values > 1e-9).sum() == N * (C - 1)
    np.testing.assert_allclose(W @ np.vstack([EYE] * C), 0.0, atol=1e-9)
    for row in p:
        block = np.diag(row) - np.outer(row, row)
        assert np.linalg.eigvalsh(block).min() > -1e-15
        np.testing.assert_allclose(block @ np.ones(C), 0.0, atol=1e-9)


def test_sums_over_classes() -> None:
    """W&B, section 4: Σ_c (t − π) = 0; with equal kernels Σ_c f̂ = 0, and Σ_c f* keeps its prior variance C k**."""
    apart = condition(softmax_model(), MANY, inference=Laplace())
    np.testing.assert_allclose(apart.alpha.sum(1), 0.0, atol=1e-9)
    post = condition(Model(GP(KERNEL), likelihood=Softmax(3)), MANY, inference=Laplace())
    got = post.predict(XS)
    np.testing.assert_allclose(post.alpha.sum(1), 0.0, atol=1e-9)
    np.testing.assert_allclose(got.f.mean.sum(1), 0.0, atol=1e-8)
    np.testing.assert_allclose(got.f.variance.sum((1, 2)), 3 * 1.7, atol=1e-8)
    np.testing.assert_allclose(got.y.mean.sum(1), 1.0, atol=1e-12)
    assert np.abs(apart.predict(XS).f.mean.sum(1)).max() > 1e-3


def test_a_common_prior_mean_changes_nothing_for_several_classes() -> None:
    """W&B, section 4: only differences between classes are seen."""
    moved = Model(GP(KERNEL, mean=ConstantMean(2.5)), likelihood=Softmax(3))
    value, gradient = log_evidence_and_grad(moved, MANY, inference=Laplace())
    assert value == pytest.approx(log_evidence(Model(GP(KERNEL), likelihood=Softmax(3)), MANY, inference=Laplace()), abs=1e-9)
    assert float(gradient.mean.value) == pytest.approx(0.0, abs=1e-8)


def test_order_of_the_classes_does_not_matter() -> None:
    order = np.array([2, 0, 1])  # the class that takes each place
    one = condition(softmax_model(), MANY, inference=Laplace())
    place = np.argsort(order)
    two = condition(softmax_model(tuple(KERNELS[c] for c in order)), Data(X, place[CLASSES.astype(int)]), inference=Laplace())
    assert two.log_evidence == pytest.approx(one.log_evidence, abs=1e-9)
    np.testing.assert_allclose(two.predict(XS).f.mean, one.predict(XS).f.mean[:, order], atol=1e-8)
    np.testing.assert_allclose(two.predict(XS).f.variance, one.predict(XS).f.variance[:, order][:, :, order], atol=1e-8)
    np.testing.assert_allclose(two.predict(XS).y.mean, one.predict(XS).y.mean[:, order], atol=1e-6)


def test_two_classes_are_logistic_in_the_difference() -> None:
    """Softmax with kernels k₁, k₂ is the logistic model with k₁ + k₂: evidence, mode, variance, probabilities."""
    two = condition(softmax_model(KERNELS[:2]), Data(X, CLASSES > 0), inference=Laplace())  # class 0 is the label +1
    one = condition(
        Model(GP(KERNELS[0] + KERNELS[1]), likelihood=Bernoulli("logit")), Data(X, CLASSES == 0), inference=Laplace()
    )
    assert two.log_evidence == pytest.approx(one.log_evidence, abs=1e-9)
    a, b = two.predict(np.vstack([X, XS])), one.predict(np.vstack([X, XS]))
    np.testing.assert_allclose(a.f.mean[:, 0] - a.f.mean[:, 1], b.f.mean, atol=1e-8)
    d = np.array([1.0, -1.0])
    np.testing.assert_allclose(a.f.variance @ d @ d, b.f.variance, atol=1e-8)

    def average(m: float, s: float) -> float:
        return integrate.quad(lambda f: special.expit(f) * stats.norm.pdf(f, m, s), m - 12 * s, m + 12 * s, epsabs=1e-13)[0]

    exact = [average(m, s) for m, s in zip(b.f.mean, b.f.std, strict=True)]
    np.testing.assert_allclose(b.y.mean, exact, atol=1e-6)
    np.testing.assert_allclose(a.y.mean[:, 0], exact, atol=1e-6)


def test_averaging_can_favour_any_class() -> None:
    """R&W, exercise 3.10.3 with T put right: z = Tf with rows (−1, 1, 0), (−1, 0, 1); π₁ = 1/3 where e^z₂ + e^z₃ = 2."""
    T = np.array([[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    weight = np.outer(weights, weights).ravel() / weights.sum() ** 2
    for c in range(3):
        S = np.eye(3) * 0.1 + 0.05
        S[c, c] = 12.0
        z = grid @ np.linalg.cholesky(T @ S @ T.T).T
        exact = weight @ np.exp(np.column_stack([np.zeros(len(z)), z]) - np.logaddexp(0, np.logaddexp(*z.T))[:, None])
        got = Softmax(3).predictive(np.zeros((1, 3)), S[None]).mean[0]
        np.testing.assert_allclose(got, exact, atol=1e-5)
        assert got.argmax() == c
        assert got[c] > 0.4
    z2 = np.array([-3.0, 0.0, 0.5])
    f = np.column_stack([np.full(3, 0.7), 0.7 + z2, 0.7 + np.log(2 - np.exp(z2))])
    np.testing.assert_allclose(f @ T[0], z2, atol=1e-12)
    np.testing.assert_allclose(Softmax(3).probability(f)[:, 0], 1 / 3, atol=1e-12)


def test_linear_kernels_are_multiple_logistic_regression() -> None:
    """R&W, eq. 3.8: Laplace over the C(D + 1) weights has the same evidence and predictions."""
    kernel = 1.0 * Linear(lengthscale=[0.5, 2.0]) + 3.0 * Constant()
    post = condition(Model(GP(kernel), likelihood=Softmax(3)), MANY, inference=Laplace())
    phi, phis, prior = np.column_stack([X, np.ones(N)]), np.column_stack([XS, np.ones(6)]), np.tile([4.0, 0.25, 3.0], C)
    Phi, w = linalg.block_diag(*[phi] * C), np.zeros(3 * C)
    for _ in range(50):
        p = special.softmax((Phi @ w).reshape(C, N).T, axis=1)
        A = Phi.T @ curvature(p)[0] @ Phi + np.diag(1 / prior)
        w = w + np.linalg.solve(A, Phi.T @ (TARGETS - p).T.ravel() - w / prior)
    f = (Phi @ w).reshape(C, N).T
    value = (TARGETS * f).sum() - special.logsumexp(f, axis=1).sum() - 0.5 * (w**2 / prior).sum()
    value -= 0.5 * np.linalg.slogdet(A)[1] + 0.5 * np.log(prior).sum()
    assert post.log_evidence == pytest.approx(value, abs=1e-8)
    got = post.predict(XS).f
    np.testing.assert_allclose(got.mean, phis @ w.reshape(C, 3).T, atol=1e-7)
    for j in range(6):
        Q = linalg.block_diag(*[phis[j][:, None]] * C)
        np.testing.assert_allclose(got.variance[j], Q.T @ np.linalg.solve(A, Q), atol=1e-7)


def test_gaussian_classes_of_one_shape_are_logistic_in_the_inputs() -> None:
    """R&W, section 3.2: class densities N(μ_c, Σ) with one Σ give a softmax of functions linear in x."""
    root = RNG.normal(size=(2, 2))
    shape, centres, share = root @ root.T + 0.3 * np.eye(2), RNG.normal(size=(C, 2)), np.array([0.5, 0.2, 0.3])
    density = np.stack([s * stats.multivariate_normal(m, shape).pdf(XS) for s, m in zip(share, centres, strict=True)], axis=1)
    W = np.linalg.solve(shape, centres.T)
    linear = XS @ W + np.log(share) - 0.5 * (centres.T * W).sum(0)
    posterior = density / density.sum(1, keepdims=True)
    np.testing.assert_allclose(Softmax(3).probability(linear), posterior, atol=1e-12)
    np.testing.assert_allclose(
        special.expit(linear[:, 0] - linear[:, 1]), posterior[:, 0] / (posterior[:, 0] + posterior[:, 1]), atol=1e-12
    )
