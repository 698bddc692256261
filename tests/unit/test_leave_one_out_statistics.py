"""Leave-one-out predictions and all statistics of the diagnosis, compared with independent restatements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import comb

from covary import GP, Data, GPRegressor, Model, condition
from covary.diagnosis.association import likeness, neighbours, rank_correlation
from covary.diagnosis.queries import check_queries
from covary.distributions import Gamma, HalfCauchy, InverseGamma, LogNormal, Normal, Uniform
from covary.families.gaussian_process.checks import _score, prior_distance
from covary.families.gaussian_process.judged import judged, left_out
from covary.families.gaussian_process.processes import Process, Processes
from covary.fits import Fit
from covary.gram import Dense
from covary.inference import Exact, Laplace
from covary.kernels import Matern52, fixed
from covary.likelihoods import Gaussian, HeteroscedasticGaussian, Softmax
from covary.tables.columns import Columns

RNG = np.random.default_rng(4)
X = RNG.normal(size=(18, 2))
F = np.sin(2 * X[:, 0]) + X[:, 1]
KERNEL = 1.5 * Matern52(lengthscale=1.2)


def fit_of(post: Any, **more: Any) -> Fit[Processes]:
    part = Process(post, post.model, Exact(), Dense(), None, {}, post.log_evidence)
    return Fit("gaussian_process", Processes((part,)), Columns.of_numbers(post.data.X.columns), **more)


# leave-one-out predictions -------------------------------------------------------------------------------------


def without(model: Model, data: Data, i: int, inference: Any = None) -> Any:
    rest = data.take(np.arange(data.rows) != i)
    post = condition(model, rest) if inference is None else condition(model, rest, inference=inference)
    return post.predict(data.X.x[[i]])


def test_gaussian_rows_left_out_are_those_of_conditioning_again() -> None:
    """Two outputs, known noise and weights: means, noisy variances and the PIT, against conditioning without each row."""
    y = np.stack([F, 2 - F], axis=1) + 0.2 * RNG.normal(size=(18, 2))
    data = Data(X, y, RNG.uniform(0.01, 0.1, 18), RNG.uniform(1, 3, 18))
    model = Model(GP(KERNEL), likelihood=Gaussian(0.05))
    seen = judged(fit_of(condition(model, data), target=("a", "b")))
    for i in range(18):
        alone = without(model, data, i)
        noise = (0.05 + data.noise_variance[i]) / data.weight[i]  # type: ignore[index]
        np.testing.assert_allclose(seen.mean[i], alone.f.mean[0], atol=1e-9)
        np.testing.assert_allclose(seen.std[i] ** 2, alone.f.variance[0] + noise, rtol=1e-9)
        np.testing.assert_allclose(seen.pit[i], stats.norm.cdf(y[i], seen.mean[i], seen.std[i]), atol=1e-12)
        prior = 1.5
        np.testing.assert_allclose(seen.share[i], alone.f.variance[0] / prior, rtol=1e-8)


@pytest.mark.parametrize(
    ("likelihood", "y", "close"),
    [
        (Softmax(3), np.digitize(F, [-0.5, 0.5]).astype(float), 0.35),
        (HeteroscedasticGaussian(), F + 0.1 * RNG.normal(size=18), 0.6),  # its sites hold the expected curvature only
    ],
    ids=["softmax", "heteroscedastic"],
)
def test_several_latent_functions_are_close_to_conditioning_again(likelihood: Any, y: np.ndarray, close: float) -> None:
    """Matrix cavities: much closer to leaving the row out than the posterior with the row in it is."""
    kernel: Any = KERNEL if likelihood.latents == 3 else (KERNEL, KERNEL)
    model, data = Model(GP(kernel), likelihood=likelihood), Data(X, y)
    post = condition(model, data, inference=Laplace())
    found = left_out(post)
    assert found.sound.all()
    inside = post.predict(X).f
    near, far, wide = [], [], []
    for i in range(18):
        alone = without(model, data, i, Laplace()).f
        near.append(np.abs(found.mean[i] - alone.mean[0]).max())
        far.append(np.abs(inside.mean[i] - alone.mean[0]).max())
        wide.append(np.trace(found.variance[i]) / np.trace(alone.variance[0]))
    assert np.mean(near) < close * np.mean(far)
    assert 0.8 < np.median(wide) < 1.2


def test_counts_get_a_uniform_pit() -> None:
    """Drawn between its ends, the PIT of Poisson counts under the right model is uniform; z are its normal scores."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (300, 1))
    f = 1.0 + np.sin(2 * x[:, 0])
    model = GPRegressor("1.0 * Matern52()", likelihood="poisson").fit(x, rng.poisson(np.exp(f)).astype(float))
    seen = model.diagnose().judged
    assert seen is not None
    assert stats.kstest(seen.pit[:, 0], "uniform").pvalue > 0.01
    np.testing.assert_allclose(stats.norm.cdf(seen.z), seen.pit, atol=1e-12)


# statistics -----------------------------------------------------------------------------------------------------


def test_neighbours_are_the_nearest_others() -> None:
    x = RNG.normal(size=(40, 3))
    apart = ((x[:, None] - x) ** 2).sum(2) + np.diag(np.full(40, np.inf))
    assert [set(row) for row in neighbours(x, 4)] == [set(row) for row in np.argsort(apart)[:, :4]]
    equal = np.zeros((6, 1))
    assert all(i not in row for i, row in enumerate(neighbours(equal, 5)))


@pytest.mark.parametrize("columns", [1, 3])
def test_likeness_keeps_its_level_and_sees_structure(columns: int) -> None:
    """p-values of errors without structure are uniform, whatever their law; those of a smooth pattern tiny."""
    rng = np.random.default_rng(columns)
    x = rng.uniform(size=(60, columns))
    p = np.array([likeness(rng.standard_t(2, 60), x)[1] for _ in range(400)])
    assert stats.kstest(p, "uniform").pvalue > 1e-3
    assert likeness(np.sin(6 * x[:, 0]) + 0.3 * rng.normal(size=60), x)[1] < 1e-4


def test_rank_correlation_does_not_mind_constants() -> None:
    assert rank_correlation(np.ones(30), np.arange(30.0)) == (0.0, 1.0)
    assert rank_correlation(np.arange(30.0), np.arange(30.0) ** 3)[0] == pytest.approx(1.0)


def test_the_score_of_stated_noise() -> None:
    """g is the slope of the log evidence over log(factor), I its expected curvature: both restated with dense matrices."""
    rng = np.random.default_rng(1)
    x, n = rng.uniform(-2, 2, (40, 1)), 40
    v = rng.uniform(0.02, 0.2, n)
    y = np.sin(2 * x[:, 0]) + np.sqrt(v) * rng.normal(size=n)
    post = condition(Model(GP(KERNEL), likelihood=Gaussian(fixed(0.0))), Data(x, y, v))
    score, square, freedom = _score(post, v, whole=False)
    K = np.asarray(KERNEL.gram(x))

    def evidence(factor: float) -> float:
        return float(stats.multivariate_normal(np.zeros(n), K + factor * np.diag(v)).logpdf(y))

    P = np.linalg.inv(K + np.diag(v))
    slope = (evidence(np.exp(1e-4)) - evidence(np.exp(-1e-4))) / 2e-4
    assert score == pytest.approx(slope / np.sqrt(0.5 * np.trace(np.diag(v) @ P @ np.diag(v) @ P)), rel=1e-4)
    assert square == pytest.approx(float(y @ P @ y), rel=1e-8)
    assert freedom == n


def test_replicates_know_the_noise() -> None:
    """Rows merged into one: score and quadratic form of the merged rows are those of all of them."""
    rng = np.random.default_rng(2)
    x = np.repeat(rng.uniform(-2, 2, (15, 1)), 3, axis=0)
    y = np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=45)
    model = Model(GP(KERNEL), likelihood=Gaussian(fixed(0.09)))
    each, merged = Data(x, y), Data(x, y).collapse()
    one = _score(condition(model, each), np.full(45, 0.09), whole=True)
    other = _score(condition(model, merged), 0.09 / np.asarray(merged.weight), whole=True)
    np.testing.assert_allclose(other, one, rtol=1e-6)


@pytest.mark.parametrize(
    ("prior", "law"),
    [
        (Normal(1.0, std=2.0), stats.norm(1.0, 2.0)),
        (LogNormal(0.5, scale=0.7), stats.lognorm(0.7, scale=np.exp(0.5))),
        (Gamma(2.0, shape=3.0), stats.gamma(1.5, scale=4 / 3)),
        (InverseGamma(2.0, shape=3.0), stats.invgamma(2.5, scale=3.0)),
        (HalfCauchy(2.0), stats.halfcauchy(scale=2.0)),
    ],
    ids=["normal", "lognormal", "gamma", "inverse gamma", "half-Cauchy"],
)
def test_distance_from_a_prior_is_a_normal_quantile(prior: Any, law: Any) -> None:
    for value in (0.3, 1.0, 4.0):
        assert prior_distance(prior, value) == pytest.approx(float(stats.norm.ppf(law.cdf(value))), abs=1e-6)
    assert stats.norm.logsf(prior_distance(prior, 30.0)) == pytest.approx(float(np.log(law.sf(30.0))), rel=1e-6)
    assert prior_distance(Uniform(0.0, upper=1.0), 0.9) == 0.0


def test_new_rows_beyond_all_training_rows_are_flagged_by_chance_as_often_as_said() -> None:
    """Of exchangeable numbers, P(the k largest are all new) = C(m, k)/C(n + m, k); and no more rows are flagged than that."""
    rng = np.random.default_rng(3)
    n, m = 12, 5
    top = np.array([(np.sort(draw[n:])[::-1] > draw[:n].max()).sum() for draw in rng.uniform(size=(20_000, n + m))])
    for k in (1, 2):
        assert (top >= k).mean() == pytest.approx(comb(m, k) / comb(n + m, k), abs=0.01)
    warned = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x, q = rng.normal(size=(40, 2)), rng.normal(size=(30, 2))
        post = condition(Model(GP("Matern52(lengthscale=0.7)"), likelihood=Gaussian(0.01)), Data(x, np.sin(x[:, 0])))
        warned += check_queries(fit_of(post), q)[0].verdict == "warning"
    assert warned <= 4
