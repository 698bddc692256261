"""SVGP: exact cases, and otherwise a lower bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

from covary import GP, Data, Model, condition, log_evidence, log_evidence_and_grad
from covary.gram import LowRank
from covary.inference import EP
from covary.inference.condition import bind
from covary.inference.svgp import SVGP
from covary.kernels import Matern32, Matern52, SquaredExponential
from covary.likelihoods import (
    Bernoulli,
    Binomial,
    DoubleExponential,
    Gaussian,
    HeteroscedasticGaussian,
    NegativeBinomial,
    Poisson,
    Softmax,
    StudentT,
)
from covary.parameters import parameters, set_values
from covary.posterior import Posterior

RNG = np.random.default_rng(3)
X = RNG.uniform(-2, 2, (50, 2))
F = np.sin(2 * X[:, 0]) + X[:, 1]
Y = F + 0.2 * RNG.standard_normal(50)
LABELS = (F > 0).astype(float)
COUNTS = RNG.poisson(np.exp(F)).astype(float)
Z = X[:8] + 0.05
KERNEL = 1.3 * Matern52(lengthscale=[0.8, 1.1])
SHARP = SVGP(tolerance=1e-10)


def conditioned(model: Model, data: Data, gram: LowRank, inference: SVGP = SHARP) -> Posterior:
    """What ``condition`` gives."""
    solved = inference.solve(model, data, bind("condition", model, data, gram))
    return Posterior(model, data, solved.bound, solved)


def smooth(A: np.ndarray, B: np.ndarray, scale: float, lengthscale: float) -> np.ndarray:
    return scale * np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(-1) / lengthscale**2)


def collapsed(seed: int, n: int, m: int) -> tuple[float, float, float]:
    """SVGP's bound, Titsias' in dense NumPy, and the exact log evidence, of a random problem."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 2))
    scale, lengthscale, noise = np.exp(rng.normal(0, 0.5, 3))
    y = np.linalg.cholesky(smooth(x, x, scale, lengthscale) + noise * np.eye(n)) @ rng.standard_normal(n)
    z = rng.uniform(-1, 1, (m, 2))
    model = Model(GP(scale * SquaredExponential(lengthscale=lengthscale)), likelihood=Gaussian(noise))
    bound = log_evidence(model, Data(x, y), inference=SVGP(), gram=LowRank(z))
    Kuf, Kuu, K = smooth(z, x, scale, lengthscale), smooth(z, z, scale, lengthscale), smooth(x, x, scale, lengthscale)
    Q = Kuf.T @ np.linalg.solve(Kuu + 1e-10 * scale * np.eye(m), Kuf)

    def gaussian(C: np.ndarray) -> float:
        return -0.5 * (y @ np.linalg.solve(C, y) + np.linalg.slogdet(C)[1] + n * np.log(2 * np.pi))

    dense = gaussian(Q + noise * np.eye(n)) - 0.5 * float(np.trace(K - Q)) / noise
    return bound, dense, gaussian(K + noise * np.eye(n))


@pytest.mark.parametrize("seed", range(4))
def test_bounds_of_random_problems_rise_towards_the_evidence(seed: int) -> None:
    """Inducing inputs added one after the other, under labels and under noise."""
    rng = np.random.default_rng(100 + seed)
    x = rng.uniform(-1, 1, (24, 2))
    kernel = float(np.exp(rng.normal(0, 0.7))) * SquaredExponential(lengthscale=float(np.exp(rng.normal(0, 0.3))))
    f = np.linalg.cholesky(kernel.gram(x) + 1e-9 * np.eye(24)) @ rng.standard_normal(24)
    labels, noisy = (f + 0.3 * rng.standard_normal(24) > 0).astype(float), f + 0.3 * rng.standard_normal(24)
    for likelihood, y, truth in ((Bernoulli("probit"), labels, EP()), (Gaussian(0.09), noisy, None)):
        model, data = Model(GP(kernel), likelihood=likelihood), Data(x, y)
        bounds = [log_evidence(model, data, inference=SVGP(), gram=LowRank(x[:m])) for m in (1, 2, 4, 9, 16)]
        exact = log_evidence(model, data) if truth is None else log_evidence(model, data, inference=truth)
        assert (np.diff(bounds) > -1e-6).all()
        assert bounds[-1] < exact + 1e-6


@pytest.mark.parametrize("seed", range(6))
def test_gaussian_noise_is_titsias_bound_below_the_evidence(seed: int) -> None:
    bound, dense, exact = collapsed(seed, 30, 6)
    assert bound == pytest.approx(dense, abs=1e-6 * abs(dense))
    assert bound <= exact + 1e-8


def test_gaussian_noise_is_vfe_in_evidence_gradient_and_predictions() -> None:
    model, data, new = Model(GP(KERNEL, mean=_constant(0.3)), likelihood=Gaussian(0.05)), Data(X, Y), X + 0.3
    for weighted in (data, Data(X, Y, weight=np.linspace(0.5, 3, 50)), Data(X, Y, np.linspace(0.0, 0.2, 50))):
        mine, gradient = log_evidence_and_grad(model, weighted, inference=SVGP(), gram=LowRank(Z))
        theirs, other = log_evidence_and_grad(model, weighted, gram=LowRank(Z, rule="vfe"))
        assert mine == pytest.approx(theirs, abs=1e-8)
        for path, slope in parameters(gradient).items():
            np.testing.assert_allclose(slope.value, parameters(other)[path].value, rtol=1e-6, err_msg=path)
        found = conditioned(model, weighted, LowRank(Z)).predict(new, covariance=True)
        wanted = condition(model, weighted, gram=LowRank(Z, rule="vfe")).predict(new, covariance=True)
        np.testing.assert_allclose(found.f.mean, wanted.f.mean, atol=1e-8)
        np.testing.assert_allclose(found.f.variance, wanted.f.variance, atol=1e-8)
        np.testing.assert_allclose(found.f.covariance, wanted.f.covariance, atol=1e-8)


def _constant(value: float) -> Any:
    from covary.means import Constant

    return Constant(value)


def test_inducing_inputs_at_the_rows_under_gaussian_noise_are_exact() -> None:
    model, data = Model(GP(KERNEL), likelihood=Gaussian(0.05)), Data(X, Y)
    posterior, exact = conditioned(model, data, LowRank(X, jitter=0.0)), condition(model, data)
    assert posterior.log_evidence == pytest.approx(exact.log_evidence, abs=1e-8)
    np.testing.assert_allclose(posterior.predict(Z).f.mean, exact.predict(Z).f.mean, atol=1e-8)
    np.testing.assert_allclose(posterior.predict(Z).f.variance, exact.predict(Z).f.variance, atol=1e-8)
    mine, theirs = posterior.leave_one_out(), exact.leave_one_out()
    np.testing.assert_allclose(mine.mean, theirs.mean, atol=1e-7)
    np.testing.assert_allclose(mine.variance, theirs.variance, atol=1e-7)
    np.testing.assert_allclose(mine.log_prob, theirs.log_prob, atol=1e-6)


def test_leave_one_out_of_inducing_inputs_is_the_bound_without_the_row() -> None:
    """Leaving a row out by hand, hyperparameters and Z held."""
    model, keep = Model(GP(KERNEL), likelihood=Gaussian(0.05)), np.arange(50) != 7
    left = conditioned(model, Data(X, Y), LowRank(Z)).leave_one_out()
    refit = conditioned(model, Data(X[keep], Y[keep]), LowRank(Z)).predict(X[7:8])
    assert left.mean[7] == pytest.approx(refit.f.mean[0], abs=1e-8)
    assert left.variance[7] == pytest.approx(refit.f.variance[0], abs=1e-8)


def test_more_inducing_inputs_never_lower_the_bound() -> None:
    for likelihood, y in ((Gaussian(0.05), Y), (Bernoulli("probit"), LABELS), (Poisson(), COUNTS), (StudentT(0.3), Y)):
        model = Model(GP(KERNEL), likelihood=likelihood)
        bounds = [log_evidence(model, Data(X, y), inference=SVGP(), gram=LowRank(X[:m])) for m in (3, 8, 20, 50)]
        assert (np.diff(bounds) > -1e-6).all(), bounds
        assert bounds[-1] - bounds[0] > 5, bounds


@pytest.mark.parametrize(
    ("likelihood", "y", "gap"),
    [
        (Bernoulli("probit"), LABELS, 0.1),  # measured: 0.035 below EP on 50 rows
        (Bernoulli("logit"), LABELS, 0.05),
        (Poisson(), COUNTS, 0.2),
        (NegativeBinomial(2.0), COUNTS, 0.1),
        (DoubleExponential(0.3), Y, 2.0),
        (Binomial(), np.stack([LABELS * 3, np.full(50, 4.0)], 1), 0.1),
    ],
    ids=lambda v: getattr(v, "link", type(v).__name__) if not isinstance(v, float | np.ndarray) else None,
)
def test_inducing_inputs_at_the_rows_come_close_to_ep_from_below(likelihood: Any, y: np.ndarray, gap: float) -> None:
    model, data = Model(GP(KERNEL), likelihood=likelihood), Data(X, y)
    solved = SHARP.solve(model, data, bind("x", model, data, LowRank(X)))
    ep = log_evidence(model, data, inference=EP())
    assert solved.status == "converged"
    assert -gap < solved.log_evidence - ep < 0
    mine = conditioned(model, data, LowRank(X)).predict(Z).f.mean
    np.testing.assert_allclose(mine, condition(model, data, inference=EP()).predict(Z).f.mean, atol=0.15)


def importance(model: Any, data: Data, posterior: Posterior, draws: int = 40_000) -> tuple[float, float]:
    """The log evidence of several latent functions by importance sampling from a wide q, and its standard error."""
    x, L = data.X.x, model.likelihood.latents
    mean, variance = posterior.bound.conditional(posterior.factor, posterior.solved, data.X)
    n, rng = data.rows, np.random.default_rng(0)
    K = smooth(x, x, 1.5, 0.7) + 1e-9 * np.eye(n)
    f, log_weight = np.empty((draws, n, L)), np.zeros(draws)
    for i in range(L):
        # q's covariance between the rows, by hand: prior conditioned on sites as precise as q's marginals
        tau = np.maximum(1 / variance[:, i, i] - np.diagonal(np.linalg.inv(K)), 0.0)
        C = 1.3 * np.linalg.inv(np.linalg.inv(K) + np.diag(tau))
        root = np.linalg.cholesky(C)
        z = rng.standard_normal((draws, n))
        f[:, :, i] = mean[:, i] + z @ root.T
        log_q = -0.5 * (z**2).sum(1) - np.log(np.diagonal(root)).sum()
        half = np.linalg.solve(np.linalg.cholesky(K), f[:, :, i].T)
        log_weight += -0.5 * (half**2).sum(0) - 0.5 * np.linalg.slogdet(K)[1] - log_q
    at = np.take_along_axis(f, data.y.astype(int)[None, :, None], axis=2)[:, :, 0]
    log_weight += (at - special.logsumexp(f, axis=2)).sum(1)
    total = special.logsumexp(log_weight) - np.log(draws)
    share = np.exp(log_weight - special.logsumexp(log_weight))
    return float(total), float(np.sqrt((share**2).sum()))


@pytest.mark.parametrize("classes", [3, 4])
def test_softmax_bound_is_below_the_truth_and_near(classes: int) -> None:
    rng = np.random.default_rng(classes)
    x = rng.uniform(-2, 2, (9, 1))
    y = np.clip(np.floor((x[:, 0] + 2) / 4 * classes), 0, classes - 1)
    model = Model(GP(1.5 * SquaredExponential(lengthscale=0.7)), likelihood=Softmax(classes))
    data = Data(x, y)
    posterior = conditioned(model, data, LowRank(x))
    truth, error = importance(model, data, posterior)
    assert error < 0.05
    assert truth - 0.4 < posterior.log_evidence < truth + 3 * error
    found = posterior.predict(x)
    assert found.f.mean.shape == (9, classes)
    assert found.f.variance.shape == (9, classes, classes)
    np.testing.assert_allclose(found.y.mean.sum(1), 1, atol=1e-6)
    assert (found.y.mean.argmax(1) == y).all()


def test_two_classes_of_a_softmax_are_the_logit_of_their_difference() -> None:
    """f₁ − f₀ has twice the variance: the two bounds differ by what their families can say, and little."""
    softmax = Model(GP(KERNEL), likelihood=Softmax(2))
    logit = Model(GP(2 * KERNEL), likelihood=Bernoulli("logit"))
    data = Data(X, LABELS)
    two, one = conditioned(softmax, data, LowRank(X)), conditioned(logit, data, LowRank(X))
    assert two.log_evidence < one.log_evidence < two.log_evidence + 1.5
    np.testing.assert_allclose(two.predict(Z).y.mean[:, 1], one.predict(Z).y.mean, atol=0.08)


def test_own_kernels_for_every_class() -> None:
    y = RNG.integers(0, 3, 50).astype(float)
    shared = Model(GP(KERNEL), likelihood=Softmax(3))
    each = Model(GP((KERNEL, KERNEL, KERNEL)), likelihood=Softmax(3))
    data = Data(X, y)
    value, gradient = log_evidence_and_grad(shared, data, inference=SHARP, gram=LowRank(Z, learned=True))
    other, split = log_evidence_and_grad(each, data, inference=SHARP, gram=LowRank(Z, learned=True))
    assert other == pytest.approx(value, abs=1e-8)
    total = sum(k.variance for k in split.kernel)
    assert total == pytest.approx(float(gradient.kernel.variance), rel=1e-6)
    assert conditioned(each, data, LowRank(Z)).predict(Z).f.mean.shape == (8, 3)


def test_weights_are_repeated_rows() -> None:
    twice = np.r_[np.arange(50), np.arange(0, 50, 2)]
    weight = np.where(np.arange(50) % 2 == 0, 2.0, 1.0)
    cases = ((Gaussian(0.05), Y), (Bernoulli("logit"), LABELS), (Softmax(3), np.arange(50) % 3.0))
    for likelihood, y in (*cases, (HeteroscedasticGaussian(0.1), Y), (StudentT(0.3), Y)):
        model = Model(GP(KERNEL), likelihood=likelihood)
        one = log_evidence_and_grad(model, Data(X, y, weight=weight), inference=SHARP, gram=LowRank(Z))
        many = log_evidence_and_grad(model, Data(X[twice], y[twice]), inference=SHARP, gram=LowRank(Z))
        assert one[0] == pytest.approx(many[0], abs=1e-7)
        for path, slope in parameters(one[1]).items():
            np.testing.assert_allclose(slope.value, parameters(many[1])[path].value, rtol=1e-5, atol=1e-6, err_msg=path)


def test_merged_rows_under_gaussian_noise_are_all_rows() -> None:
    model = Model(GP(KERNEL), likelihood=Gaussian(0.05))
    full = Data(np.concatenate([X, X[:20]]), np.concatenate([Y, Y[:20] + 0.1]))
    one = log_evidence_and_grad(model, full, inference=SVGP(), gram=LowRank(Z))
    two = log_evidence_and_grad(model, full.collapse(), inference=SVGP(), gram=LowRank(Z))
    assert one[0] == pytest.approx(two[0], abs=1e-8)
    assert float(one[1].likelihood.variance) == pytest.approx(float(two[1].likelihood.variance), rel=1e-8)


SLOPES = [
    (Gaussian(0.05), Y),
    (Bernoulli("probit"), LABELS),
    (Poisson(), COUNTS),
    (StudentT(0.3, degrees=4.0), Y),
    (DoubleExponential(0.3), Y),
    (NegativeBinomial(2.0), COUNTS),
    (Softmax(3), np.arange(50) % 3.0),
    (Softmax(4), np.arange(50) % 4.0),
    (HeteroscedasticGaussian(0.1), Y),
]


@pytest.mark.parametrize(("likelihood", "y"), SLOPES, ids=lambda v: type(v).__name__ if not isinstance(v, np.ndarray) else "")
def test_gradient_against_differences(likelihood: Any, y: np.ndarray) -> None:
    """Hyperparameters, the likelihood's own parameters and inducing inputs; q is optimal, so its own change does not count."""
    kernel = (KERNEL, 0.5 * Matern32(lengthscale=1.0)) if likelihood.latents == 2 else KERNEL
    model, data = Model(GP(kernel, mean=_constant(0.2)), likelihood=likelihood), Data(X, y)

    def value(other: Model, z: np.ndarray = Z) -> float:
        return log_evidence(other, data, inference=SHARP, gram=LowRank(z))

    gram = LowRank(Z, learned=True)
    solved = SHARP.solve(model, data, bound := bind("x", model, data, gram))
    gradient = SHARP.gradient(model, data, bound, solved)
    found = parameters(gradient.model)
    for path, parameter in parameters(model).items():
        at = np.asarray(parameter.value)
        for i in np.ndindex(at.shape):
            h = 1e-4 * abs(float(at[i])) if at[i] else 1e-4
            up, down = at.copy(), at.copy()
            up[i], down[i] = at[i] + h, at[i] - h
            slope = (value(set_values(model, {path: up})) - value(set_values(model, {path: down}))) / (2 * h)
            assert float(np.asarray(found[path].value)[i]) == pytest.approx(slope, rel=3e-6, abs=3e-6), path
    for i in ((0, 0), (5, 1)):
        up, down = Z.copy(), Z.copy()
        up[i], down[i] = Z[i] + 1e-4, Z[i] - 1e-4
        slope = (value(model, up) - value(model, down)) / 2e-4
        assert gradient.inducing[i] == pytest.approx(slope, rel=3e-6, abs=3e-6)


def test_inducing_posterior_is_what_prediction_says_at_the_inducing_inputs() -> None:
    model, data = Model(GP(KERNEL), likelihood=Bernoulli()), Data(X, LABELS)
    posterior = conditioned(model, data, LowRank(Z))
    where, mean, root, L = posterior.bound.inducing_posterior(posterior.factor, posterior.solved)
    found = posterior.predict(Z, covariance=True)
    np.testing.assert_array_equal(where.x, Z)
    np.testing.assert_allclose(mean, found.f.mean, atol=1e-8)
    np.testing.assert_allclose(root @ root.T, found.f.covariance, atol=1e-8)
    np.testing.assert_allclose(L @ L.T, KERNEL.gram(Z), atol=1e-8)
    np.testing.assert_allclose(KERNEL.cross(Z, Z) @ posterior.alpha, mean, atol=1e-7)
    several = conditioned(Model(GP(KERNEL), likelihood=Softmax(3)), Data(X, np.arange(50) % 3.0), LowRank(Z))
    _, mean, roots, bases = several.bound.inducing_posterior(several.factor, several.solved)
    assert mean.shape == (8, 3)
    assert len(roots) == len(bases) == 3
    spread = several.predict(Z).f.variance
    np.testing.assert_allclose((roots[1] ** 2).sum(1), spread[:, 1, 1], atol=1e-8)


def test_many_chunks_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from covary.inference.svgp import variational

    model, data = Model(GP(KERNEL), likelihood=Poisson()), Data(X, COUNTS)
    one = log_evidence_and_grad(model, data, inference=SHARP, gram=LowRank(Z))
    monkeypatch.setattr(variational, "CHUNK", 7)
    for kept in (2**28, 0):
        monkeypatch.setattr(variational, "KEPT", kept)
        many = log_evidence_and_grad(model, data, inference=SHARP, gram=LowRank(Z))
        assert many[0] == pytest.approx(one[0], abs=1e-9)
        np.testing.assert_allclose(many[1].kernel.kernel.lengthscale, one[1].kernel.kernel.lengthscale, rtol=1e-6)


def test_single_precision_data_are_computed_in_double() -> None:
    model = Model(GP(KERNEL), likelihood=Gaussian(0.05))
    short = Data(X.astype(np.float32), Y.astype(np.float32))
    same = Data(short.X.x.astype(np.float64), short.y.astype(np.float64))
    z = Z.astype(np.float32)
    mine = log_evidence(model, short, inference=SVGP(), gram=LowRank(z))
    assert mine == pytest.approx(log_evidence(model, same, inference=SVGP(), gram=LowRank(z.astype(np.float64))), abs=1e-8)
