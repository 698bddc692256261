"""Noise that depends on the inputs through basis functions."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy import stats

from covary import GP, Data, Model, condition, learn, log_evidence, log_evidence_and_grad
from covary._checks import CovaryError
from covary.gram import LowRank, Markov, Vecchia
from covary.inference import EP, SVGP, Laplace
from covary.kernels import Matern32, Matern52
from covary.likelihoods import Gaussian
from covary.likelihoods.noise_basis import BasisNoise, Bumps
from covary.parameters import Packing, fixed, parameters

RNG = np.random.default_rng(4)
N = 25
X, XS = RNG.uniform(-1, 1, (N, 2)), RNG.uniform(-1, 1, (6, 2))
Y = np.sin(3 * X[:, 0]) + 0.2 * RNG.normal(size=N)
KERNEL = 1.3 * Matern52(lengthscale=[0.9, 1.7])
BETA = np.array([1.2, -0.8, 0.4])
CENTRES = np.array([[-0.5, 0.0], [0.5, 0.0], [0.0, 0.7]])


def phi(x: np.ndarray) -> np.ndarray:
    """The bumps, written again."""
    return np.stack([np.exp(-0.5 * (((x - a) / [0.5, 0.9]) ** 2).sum(1)) for a in CENTRES], axis=1)


def noise(x: np.ndarray) -> np.ndarray:
    return 0.03 * np.exp(phi(x) @ BETA)


NOISE = BasisNoise.bumps(CENTRES, width=[0.5, 0.9], level=0.03).replace(weights=BETA)
MODEL = Model(GP(KERNEL), likelihood=NOISE)
KNOWN, WEIGHT = RNG.uniform(0.0, 0.1, N), RNG.uniform(0.5, 3.0, N)
DATA: dict[str, Data] = {
    "plain": Data(X, Y),
    "known noise": Data(X, Y, KNOWN),
    "weights": Data(X, Y, None, WEIGHT),
    "known noise, weights, scatter": Data(X, Y, KNOWN, WEIGHT, RNG.uniform(0, 1, N)),
    "two outputs": Data(X, np.column_stack([Y, Y**2]), KNOWN, WEIGHT),
}


def test_formula() -> None:
    np.testing.assert_allclose(NOISE.noise_at(XS), noise(XS), rtol=1e-13)
    assert list(parameters(MODEL)) == ["kernel.variance", "kernel.lengthscale", "likelihood.level", "likelihood.weights"]
    one = BasisNoise.bumps([0.0, 1.0], width=0.5, level=2.0)
    np.testing.assert_array_equal(one.noise_at([[0.3], [7.0]]), 2.0)  # no weight yet
    assert one.function == Bumps(((0.0,), (1.0,)), 0.5)
    assert pickle.loads(pickle.dumps(NOISE)) == NOISE


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_evidence_and_slopes(data: Data) -> None:
    """The evidence of observations with these variances, written out, and every derivative against differences."""
    v = noise(X) + (0.0 if data.noise_variance is None else KNOWN)
    w = np.ones(N) if data.weight is None else WEIGHT
    S = np.zeros(N) if data.scatter is None else data.scatter
    outputs = data.y.reshape(N, -1).T
    A = KERNEL.gram(X) + np.diag(v / w)
    value = sum(stats.multivariate_normal(np.zeros(N), A).logpdf(y) for y in outputs)
    value -= 0.5 * (len(outputs) * ((w - 1) * np.log(2 * np.pi * v) + np.log(w)) + S / v).sum()
    assert log_evidence(MODEL, data) == pytest.approx(value, abs=1e-9)
    packing = Packing(MODEL)
    theta = packing.pack(MODEL)
    slope = packing.pull(MODEL, log_evidence_and_grad(MODEL, data)[1])
    assert packing.size == 7
    for i in range(7):
        move = 1e-5 * np.eye(7)[i]
        up, down = (log_evidence(packing.unpack(theta + s * move), data) for s in (1, -1))
        assert slope[i] == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-6), packing.names()[i]


def test_predictions_and_left_out_rows() -> None:
    post = condition(MODEL, Data(X, Y))
    A, k = KERNEL.gram(X) + np.diag(noise(X)), KERNEL.cross(X, XS)
    got = NOISE.predict(post, XS, covariance=True)
    mean, cov = k.T @ np.linalg.solve(A, Y), KERNEL.gram(XS) - k.T @ np.linalg.solve(A, k)
    np.testing.assert_allclose(got.f.mean, mean, atol=1e-10)
    np.testing.assert_allclose(got.f.covariance, cov, atol=1e-10)
    np.testing.assert_allclose(got.y.variance, np.diag(cov) + noise(XS), atol=1e-10)
    np.testing.assert_allclose(got.y.covariance, cov + np.diag(noise(XS)), atol=1e-10)
    np.testing.assert_allclose(post.mean(XS), mean, atol=1e-10)
    keep = np.arange(N) != 7
    left = stats.norm(
        A[7, keep] @ np.linalg.solve(A[np.ix_(keep, keep)], Y[keep]),
        np.sqrt(A[7, 7] - A[7, keep] @ np.linalg.solve(A[np.ix_(keep, keep)], A[keep, 7])),
    )
    assert post.leave_one_out().log_prob[7] == pytest.approx(left.logpdf(Y[7]), abs=1e-9)
    rows = NOISE.at(XS)
    np.testing.assert_allclose(rows.predictive(got.f.mean, got.f.variance).variance, got.y.variance, atol=1e-12)
    np.testing.assert_allclose(rows.moments(got.f.mean).variance, noise(XS))
    np.testing.assert_allclose(rows.cdf(got.f.mean + np.sqrt(noise(XS)), got.f.mean), stats.norm.cdf(1.0))
    np.testing.assert_allclose(rows.predictive_cdf(got.y.mean + got.y.std, got.f.mean, got.f.variance), stats.norm.cdf(1.0))
    draws = rows.sample(np.zeros((20_000, 6)), np.random.default_rng(0))
    np.testing.assert_allclose(draws.var(0), noise(XS), rtol=0.05)


def test_no_weights_is_plain_noise() -> None:
    flat = Model(GP(KERNEL), likelihood=NOISE.replace(weights=np.zeros(3)))
    plain = Model(GP(KERNEL), likelihood=Gaussian(0.03))
    assert log_evidence(flat, Data(X, Y)) == pytest.approx(log_evidence(plain, Data(X, Y)), abs=1e-12)
    a, b = log_evidence_and_grad(flat, Data(X, Y))[1], log_evidence_and_grad(plain, Data(X, Y))[1]
    assert float(a.likelihood.level) == pytest.approx(float(b.likelihood.variance), rel=1e-10)


@pytest.mark.parametrize("size", [1e2, 1e5])
def test_positive_whatever_the_weights(size: float) -> None:
    for dtype in (np.float64, np.float32):
        got = NOISE.replace(weights=size * BETA).noise_at(XS.astype(dtype))
        assert (got > 0).all()
        assert np.isfinite(got).all()


def test_other_grams_take_noise_row_by_row() -> None:
    data, exact = Data(X, Y), log_evidence(MODEL, Data(X, Y))
    assert log_evidence(MODEL, data, gram=LowRank(X, jitter=0.0)) == pytest.approx(exact, abs=1e-7)
    assert log_evidence(MODEL, data, gram=Vecchia(N - 1)) == pytest.approx(exact, abs=1e-8)
    line = Model(GP(1.0 * Matern32()), likelihood=BasisNoise(0.05, function=lambda x: x, weights=[1.5]))
    assert log_evidence(line, Data(X[:, :1], Y), gram=Markov()) == pytest.approx(
        log_evidence(line, Data(X[:, :1], Y)), abs=1e-8
    )


def test_noise_that_grows_is_found() -> None:
    """Standard deviation 0.05 at the left, 0.5 at the right: the learned noise follows, and the evidence is far higher."""
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0, 1, 150))[:, None]
    true = 0.05 * 10 ** x[:, 0]
    y = np.sin(6 * x[:, 0]) + true * rng.normal(size=150)
    start = Model(GP(1.0 * Matern52()), likelihood=BasisNoise(0.05, function=lambda v: v - 0.5, weights=[0.0]))
    found = learn(start, Data(x, y))
    got = np.sqrt(found.model.likelihood.noise_at(x))
    np.testing.assert_allclose(got, true, rtol=0.35)
    assert float(found.model.likelihood.weights[0]) == pytest.approx(2 * np.log(10), abs=1.0)
    plain = learn(Model(GP(1.0 * Matern52()), likelihood=Gaussian(0.05)), Data(x, y))
    assert log_evidence(found.model, Data(x, y)) > log_evidence(plain.model, Data(x, y)) + 20
    post = condition(found.model, Data(x, y))
    new = np.linspace(0.02, 0.98, 400)[:, None]
    seen = np.sin(6 * new[:, 0]) + 0.05 * 10 ** new[:, 0] * rng.normal(size=400)
    low, high = found.model.likelihood.predict(post, new).y.interval(0.95)
    inside = (seen > low) & (seen < high)
    for half in (inside[:200], inside[200:]):
        assert 0.9 < half.mean() < 0.99
    bumps = Model(GP(1.0 * Matern52()), likelihood=BasisNoise.bumps(np.linspace(0, 1, 4), width=0.4, level=0.05))
    smooth = learn(bumps, Data(x, y)).model.likelihood.noise_at(x)
    np.testing.assert_allclose(np.sqrt(smooth[10:140]), true[10:140], rtol=0.5)


def test_single_precision() -> None:
    small = condition(MODEL, Data(X.astype(np.float32), Y))
    got = NOISE.predict(small, XS)
    assert got.y.variance.dtype == np.float32
    np.testing.assert_allclose(got.y.variance, NOISE.predict(condition(MODEL, Data(X, Y)), XS).y.variance, rtol=1e-3)


def test_predictions_and_draws_have_the_noise_of_their_place() -> None:
    post = condition(MODEL, Data(X, Y))
    np.testing.assert_allclose(post.predict(XS).y.variance, NOISE.predict(post, XS).y.variance, rtol=1e-12)
    drawn = post.sample_y(XS, 20_000, key=0)
    np.testing.assert_allclose(drawn.var(0), NOISE.predict(post, XS).y.variance, rtol=0.06)


def test_whatever_needs_one_variance_gets_a_sentence() -> None:
    """Nothing may quietly use one noise variance for all rows."""
    data, svgp = Data(X, Y), LowRank(X[:5])
    for call in (
        lambda: condition(MODEL, data, inference=Laplace()),
        lambda: condition(MODEL, data, inference=EP()),
        lambda: condition(MODEL, data, inference=SVGP(), gram=svgp),
        lambda: NOISE.log_prob(0.0, 0.0),
        lambda: NOISE.predictive(Y, np.ones(N)),
    ):
        with pytest.raises(CovaryError, match="the noise depends on the inputs"):
            call()


@pytest.mark.parametrize(
    ("likelihood", "says"),
    [
        (lambda: BasisNoise(function=lambda x: x, weights=[1.0]), r"weights has shape \(1,\) for 2 basis functions"),
        (lambda: BasisNoise(function=lambda x: x[:, 0], weights=[1.0]), r"returned shape \(25,\) for 25 rows"),
        (lambda: BasisNoise(fixed(0.0), function=lambda x: x, weights=[1.0, 0.0]), "level is 0"),
        (lambda: BasisNoise.bumps([0.0, 1.0], width=0.5), "centres have 1 column but X has 2"),
        (lambda: BasisNoise.bumps([0.0, 1.0], width=-0.5), "width is -0.5"),
    ],
)
def test_bad_numbers_are_refused(likelihood: Any, says: str) -> None:
    with pytest.raises(CovaryError, match=says):
        condition(Model(GP(KERNEL), likelihood=likelihood()), Data(X, Y))
