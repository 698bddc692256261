"""Local error bars: the process behind them, estimators, files, and cases in which they are not used."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from scipy import integrate, stats

import covary
from covary import GP, Data, GPRegressor, Model, condition
from covary._checks import CovaryError
from covary.likelihoods import Gaussian
from covary.models.local_scale import CLEARLY, errors, local_scale, scales
from covary.prediction import Mixed, Spread


def drawn(n: int, seed: int = 0, varying: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A sine under noise whose standard deviation runs from 0.02 to 1 along x, or is 0.3 everywhere."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 10, n))
    std = 0.02 * 50 ** (x / 10) if varying else np.full(n, 0.3)
    return x[:, None], np.sin(x) + std * rng.normal(size=n), std


@pytest.fixture(scope="module")
def model() -> GPRegressor:
    x, y, _ = drawn(600)
    return GPRegressor("SquaredExponential(lengthscale=2.0)", local_errors=True, random_state=0).fit(x, y)


def held(x: np.ndarray, y: np.ndarray, noise: float) -> covary.Posterior:
    return condition(Model(GP("SquaredExponential(lengthscale=2.0)"), likelihood=Gaussian(noise)), Data(x, y))


def test_the_factors_follow_the_true_variance() -> None:
    x, y, std = drawn(800)
    post = held(x, y, float((std**2).mean()))
    scale = local_scale(post)
    assert scale is not None
    assert scale.gain > 10 * CLEARLY
    ratio = scale.factor(x) * float((std**2).mean()) / std**2
    assert 0.5 < np.exp(np.log(ratio).mean()) < 2.0
    assert np.log(ratio).std() < 0.6  # the true log variance itself varies by 2.2


def test_one_noise_level_is_left_alone() -> None:
    kept = sum(local_scale(held(*drawn(600, seed, varying=False)[:2], 0.09)) is not None for seed in range(5))
    assert kept == 0


def test_errors_are_those_of_leaving_out_one_after_the_other() -> None:
    x, y, _ = drawn(30)
    post = held(x, y, 0.2)
    _, q = errors(post)
    for i in (0, 11, 29):
        rest = np.delete(np.arange(30), i)
        p = held(x[rest], y[rest], 0.2).predict(x[[i]]).y
        assert q[i] == pytest.approx(float((y[i] - p.mean[0]) ** 2 / p.variance[0]), rel=1e-8)


def test_merged_rows_count_with_their_scatter() -> None:
    rng = np.random.default_rng(0)
    x, y = np.repeat(np.arange(10.0), 4)[:, None], rng.normal(size=40)
    merged = Data(x, y).collapse()
    post = condition(Model(GP("SquaredExponential()"), likelihood=Gaussian(0.7)), merged)
    w, q = errors(post)
    left = post.leave_one_out()
    groups = y.reshape(10, 4)
    within = ((groups - groups.mean(1, keepdims=True)) ** 2).mean(1) / 0.7
    assert (w == 4).all()
    np.testing.assert_allclose(q, within + (groups.mean(1) - left.mean) ** 2 / (left.variance + 0.7), rtol=1e-9)


def test_prediction_left_out_draws_and_covariance_agree(model: GPRegressor) -> None:
    x, y, _ = drawn(600)
    plain = GPRegressor("SquaredExponential(lengthscale=2.0)", local_errors=False, random_state=0).fit(x, y)
    new = np.array([[0.5], [5.0], [9.5]])
    (mean, std), (mean0, std0) = (m.predict(new, return_std=True) for m in (model, plain))
    np.testing.assert_array_equal(mean, mean0)
    np.testing.assert_allclose(std**2, std0**2 * model.posterior_.scale.factor(new))
    assert std[2] > 10 * std[0]
    assert std0[2] < 1.1 * std0[0]
    _, cov = model.predict(new, return_cov=True)
    np.testing.assert_allclose(np.diag(cov), std**2)
    draws = model.sample_y(new, 40_000, random_state=0).T
    np.testing.assert_allclose(draws.std(0), std, rtol=0.05)
    for p, q in zip((0.05, 0.5, 0.9), model.predict_quantiles(new, (0.05, 0.5, 0.9)), strict=True):
        np.testing.assert_allclose((draws < q).mean(0), p, atol=0.01)
    left = model.posterior_.leave_one_out()
    assert left.log_prob.mean() > plain.posterior_.leave_one_out().log_prob.mean() + 0.3
    assert abs(np.mean(left.y.cdf(model.posterior_.data.y) < 0.1) - 0.1) < 0.04
    assert np.isfinite(model.diagnose()["coverage"].value)
    assert "vary with the inputs" in str(model.summary())


def test_the_mixture_is_one_of_normals() -> None:
    """Density, distribution and quantiles against integration over the uncertain variance."""
    mean, variance, b = 0.7, 2.0, 1.3
    y = Mixed(np.full(3, mean), np.full(3, variance), None, np.full(3, b))

    def over(f) -> float:
        def inside(h: float) -> float:
            return stats.norm.pdf(h, 0, np.sqrt(b)) * f(stats.norm(mean, np.sqrt(variance * np.exp(h - b / 2))))

        return integrate.quad(inside, -12, 12, epsabs=1e-12)[0]

    at = np.array([-3.0, 0.9, 6.0])
    np.testing.assert_allclose(np.exp(y.log_prob(at)), [over(lambda n, v=v: n.pdf(v)) for v in at], rtol=1e-8)
    np.testing.assert_allclose(y.cdf(at), [over(lambda n, v=v: n.cdf(v)) for v in at], rtol=1e-8)
    assert over(lambda n: n.var()) == pytest.approx(variance, rel=1e-8)
    low, high = y.interval(0.9)
    np.testing.assert_allclose(y.cdf(high) - y.cdf(low), 0.9, atol=1e-10)
    certain = Mixed(at, np.ones(3), None, np.zeros(3))
    np.testing.assert_allclose(certain.quantile(0.2), Spread(at, np.ones(3)).quantile(0.2), atol=1e-10)
    np.testing.assert_allclose(certain.log_prob(0.3), Spread(at, np.ones(3)).log_prob(0.3), rtol=1e-12)


def test_it_is_written_and_read(model: GPRegressor, tmp_path) -> None:
    model.save(tmp_path / "m.covary")
    again = covary.load(tmp_path / "m.covary")
    new = np.linspace(-1, 11, 50)[:, None]
    for a, b in zip(model.predict(new, return_std=True), again.predict(new, return_std=True), strict=True):
        np.testing.assert_array_equal(a, b)
    updated = deepcopy(model).update([[20.0]], [0.3])
    assert updated.posterior_.scale is not None
    assert np.isfinite(updated.posterior_.leave_one_out().log_prob).all()


def test_the_choice_is_checked() -> None:
    x, y, _ = drawn(40)
    with pytest.raises(CovaryError, match="local_errors is 'yes'; choose"):
        GPRegressor(local_errors="yes").fit(x, y)
    with pytest.raises(CovaryError, match="several outputs"):
        GPRegressor(local_errors=True).fit(x, np.stack([y, y], axis=1))
    with pytest.raises(CovaryError, match="StudentT likelihood"):
        GPRegressor(likelihood="student_t", local_errors=True).fit(x, y)
    assert GPRegressor().fit(x, y).posterior_.scale is None  # few rows: one noise level, as stated


def test_scales_are_the_learned_ones_or_those_of_the_columns() -> None:
    X = Data(np.random.default_rng(0).normal(size=(50, 2)) * [1.0, 10.0], np.zeros(50)).X
    np.testing.assert_array_equal(scales(covary.kernels.parse("2*Matern52(lengthscale=[1,3])"), X), [1.0, 3.0])
    np.testing.assert_allclose(scales(covary.kernels.parse("Linear()"), X), X.x.std(0) * np.sqrt(2))


def test_a_file_of_numpy_alone_refuses_them(tmp_path) -> None:
    x, y, _ = drawn(60)
    model = GPRegressor("SquaredExponential(lengthscale=2.0)", local_errors=True, random_state=0).fit(x, y)
    with pytest.raises(CovaryError, match="vary with the inputs"):
        model.export(tmp_path / "p.py")
    model.export(tmp_path / "p.py", std=False)
