"""Sampled functions have the mean and covariance of the posterior, by χ² tests that reject a wrong distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from covary import GP, Data, Model, condition
from covary.data import as_inputs
from covary.gram import Dense, LowRank
from covary.inference import EP, Exact, Laplace
from covary.kernels import Linear, Matern12, Matern32, Matern52, Periodic, SquaredExponential, fixed
from covary.kernels.features import random_features
from covary.likelihoods import Bernoulli, Gaussian, HeteroscedasticGaussian, Poisson, Softmax, StudentT
from covary.means import Constant as ConstantMean
from covary.means import LinearBasis
from covary.posterior.paths import draw_paths

RNG = np.random.default_rng(7)
X = np.sort(RNG.uniform(0, 5, 30))[:, None]
Y = np.sin(2 * X[:, 0]) + 0.3 * RNG.normal(size=30)
COUNTS = RNG.poisson(np.exp(1 + np.sin(X[:, 0]))).astype(float)
LABELS = (np.sin(X[:, 0]) + 0.3 * RNG.normal(size=30) > 0).astype(float)
OUTLYING = Y + np.where(np.arange(30) % 9 == 4, 2.0, 0.0)
XS = np.array([[-2.0], [0.4], [1.7], [3.1], [4.4], [6.0], [9.0]])
DRAWS = 600
KERNEL = 1.3 * Matern52(lengthscale=0.8)
X3 = RNG.uniform(0, 3, (40, 3))
Y3 = np.sin(X3[:, 0]) + X3[:, 1] + 0.1 * RNG.normal(size=40)
X3S = RNG.uniform(-0.5, 3.5, (7, 3))


def paths_of(post: Any, n: int = DRAWS, *, key: int = 1, features: int = 4000) -> Any:
    return draw_paths(post.model, post.data, post.bound, post.solved, n, key=key, features=features)


def assert_normal(draws: np.ndarray, mean: np.ndarray, covariance: np.ndarray, level: float = 1e-4) -> None:
    """Draws (n, m) are from N(mean, covariance): the sample's mean and covariance, whitened, by χ² at both ends."""
    n, m = draws.shape
    white = np.linalg.solve(np.linalg.cholesky(covariance), (draws - mean).T)
    centre = n * (white.mean(1) ** 2).sum()
    assert stats.chi2.isf(1 - level, m) < centre < stats.chi2.isf(level, m), "mean"
    spread = white @ white.T / n - np.eye(m)
    apart = n * ((np.diagonal(spread) ** 2).sum() / 2 + (np.tril(spread, -1) ** 2).sum())
    free = m * (m + 1) / 2
    assert stats.chi2.isf(1 - level, free) < apart < stats.chi2.isf(level, free), "covariance"


CASES = {
    "exact": (GP(KERNEL, mean=ConstantMean(0.7)), Gaussian(0.05), Y, {}),
    "smooth": (GP(1.3 * SquaredExponential(lengthscale=0.8)), Gaussian(0.01), Y, {}),
    "rough": (GP(Matern12()), Gaussian(1e-4), Y, {}),
    "sum": (GP(KERNEL + 0.5 * Periodic(period=2.0) + 0.2 * Linear()), Gaussian(0.05), Y, {}),
    "product": (GP(KERNEL * Periodic(period=2.0)), Gaussian(0.05), Y, {}),
    "basis": (GP(KERNEL, basis=LinearBasis()), Gaussian(0.05), Y, {}),
    "poisson": (GP(KERNEL, mean=ConstantMean(1.0)), Poisson(), COUNTS, {"inference": Laplace()}),
    "poisson-basis": (GP(KERNEL, basis=LinearBasis()), Poisson(), COUNTS, {"inference": Laplace()}),
    "probit": (GP(KERNEL), Bernoulli("probit"), LABELS, {"inference": EP()}),
    "student": (GP(KERNEL), StudentT(0.2, degrees=4.0), OUTLYING, {"inference": Laplace()}),
    "student-basis": (GP(KERNEL, basis=LinearBasis()), StudentT(0.2, degrees=4.0), OUTLYING, {"inference": Laplace()}),
    "fitc": (GP(KERNEL, mean=ConstantMean(0.7)), Gaussian(0.05), Y, {"gram": LowRank(X[::3])}),
    "vfe": (GP(KERNEL), Gaussian(0.05), Y, {"gram": LowRank(X[::3], rule="vfe")}),
    "sor": (GP(KERNEL), Gaussian(0.05), Y, {"gram": LowRank(X[::3], rule="sor")}),
    "fitc-basis": (GP(KERNEL, basis=LinearBasis()), Gaussian(0.05), Y, {"gram": LowRank(X[::3])}),
    "sor-basis": (GP(KERNEL, basis=LinearBasis()), Gaussian(0.05), Y, {"gram": LowRank(X[::3], rule="sor")}),
    "fitc-poisson": (GP(KERNEL), Poisson(), COUNTS, {"inference": Laplace(), "gram": LowRank(X[::3])}),
}


def posterior(name: str) -> Any:
    prior, likelihood, y, how = CASES[name]
    return condition(Model(prior, likelihood=likelihood), Data(X, y), **how)


@pytest.mark.parametrize("name", CASES)
def test_draws_have_the_posteriors_mean_and_covariance(name: str) -> None:
    post = posterior(name)
    f = post.predict(XS, covariance=True).f
    assert_normal(paths_of(post)(XS), f.mean, f.covariance)


def test_negative_precisions_are_among_the_cases() -> None:
    assert (np.asarray(posterior("student").factor.spread) < 0).any()
    assert (np.asarray(posterior("student-basis").factor.spread) < 0).any()


def test_a_wrong_law_does_not_pass() -> None:
    """The test's own power: a variance or a mean that is off by a quarter is seen."""
    f = posterior("exact").predict(XS, covariance=True).f
    draws = paths_of(posterior("exact"))(XS)
    with pytest.raises(AssertionError, match="covariance"):
        assert_normal(f.mean + 1.25**0.5 * (draws - f.mean), f.mean, f.covariance)
    with pytest.raises(AssertionError, match="mean"):
        assert_normal(draws + 0.25 * f.std, f.mean, f.covariance)
    with pytest.raises(AssertionError, match="covariance"):
        assert_normal(paths_of(posterior("basis"))(XS), posterior("basis").mean(XS), f.covariance)


def test_three_columns() -> None:
    model = Model(GP(Matern32(lengthscale=[1.0, 2.0, 1.5]) + 0.3 * Linear()), likelihood=Gaussian(0.02))
    post = condition(model, Data(X3, Y3))
    f = post.predict(X3S, covariance=True).f
    assert_normal(paths_of(post)(X3S), f.mean, f.covariance)


def test_weights_and_known_noise() -> None:
    data = Data(X, Y, weight=RNG.uniform(0.5, 4.0, 30), noise_variance=RNG.uniform(0.0, 0.2, 30))
    post = condition(Model(GP(KERNEL), likelihood=Gaussian(0.1)), data)
    f = post.predict(XS, covariance=True).f
    assert_normal(paths_of(post)(XS), f.mean, f.covariance)


def test_several_outputs() -> None:
    post = condition(Model(GP(KERNEL), likelihood=Gaussian(0.05)), Data(X, np.column_stack([Y, Y**2])))
    draws, f = paths_of(post)(XS), post.predict(XS, covariance=True).f
    assert draws.shape == (DRAWS, 7, 2)
    both = np.block([[f.covariance, np.zeros((7, 7))], [np.zeros((7, 7)), f.covariance]])
    assert_normal(draws.transpose(0, 2, 1).reshape(DRAWS, 14), f.mean.T.ravel(), both)


@pytest.mark.parametrize("own", [False, True])
def test_softmax_classes(own: bool) -> None:
    kernel: Any = (KERNEL, 0.6 * Matern32(), KERNEL) if own else KERNEL
    labels = np.floor(X[:, 0] / 5 * 2.99)
    post = condition(Model(GP(kernel), likelihood=Softmax(3)), Data(X, labels, weight=1 + labels), inference=Laplace())
    draws, f = paths_of(post)(XS), post.predict(XS).f
    assert draws.shape == (DRAWS, 7, 3)
    for i in range(len(XS)):
        assert_normal(draws[:, i], f.mean[i], f.variance[i])


def test_mean_and_noise() -> None:
    prior = GP((KERNEL, 0.5 * Matern32(lengthscale=2.0)), mean=ConstantMean(0.4))
    post = condition(Model(prior, likelihood=HeteroscedasticGaussian(0.1)), Data(X, Y), inference=Laplace())
    draws, f = paths_of(post)(XS), post.predict(XS).f
    for i in range(len(XS)):
        assert_normal(draws[:, i], f.mean[i], f.variance[i])


@pytest.mark.parametrize("basis", [None, LinearBasis()])
def test_markov(basis: Any) -> None:
    """An exact gram gives the same draws."""
    markov = pytest.importorskip("covary.gram.markov")
    post = condition(Model(GP(KERNEL, basis=basis), likelihood=Gaussian(0.05)), Data(X, Y), gram=markov.Markov())
    exact = paths_of(condition(post.model, post.data), 5)(XS)
    np.testing.assert_allclose(paths_of(post, 5)(XS), exact, atol=1e-8)


@pytest.mark.parametrize("basis", [None, LinearBasis()])
def test_vecchia(basis: Any) -> None:
    """With all rows for neighbours the same draws; with a few the variance of its own predictions."""
    vecchia = pytest.importorskip("covary.gram.vecchia")
    model, data = Model(GP(KERNEL, basis=basis), likelihood=Gaussian(0.05)), Data(X, Y)
    exact = paths_of(condition(model, data), 3)(XS)
    np.testing.assert_allclose(paths_of(condition(model, data, gram=vecchia.Vecchia(30)), 3)(XS), exact, atol=1e-8)
    post = condition(model, data, gram=vecchia.Vecchia(6))
    draws = paths_of(post)(XS)
    if basis is None:
        f = post.predict(XS).f
        for i in range(len(XS)):
            assert_normal(draws[:, [i]], f.mean[[i]], f.variance[[i], None])


def test_variational() -> None:
    svgp = pytest.importorskip("covary.inference.svgp")
    model, data = Model(GP(KERNEL), likelihood=Bernoulli("probit")), Data(X, LABELS)
    post = condition(model, data, inference=svgp.SVGP(), gram=LowRank(X[::3]))
    bound, inputs = post.solved.bound, as_inputs(XS)
    paths = draw_paths(post.model, post.data, bound, post.solved, DRAWS, key=1, features=4000)
    mean, covariance = bound.conditional(post.factor, post.solved, inputs)[0], bound.joint(post.factor, inputs)
    assert_normal(paths(XS), mean, covariance)


def test_noise_free_data_are_interpolated() -> None:
    smooth = np.sin(2 * X[:, 0])
    post = condition(Model(GP(KERNEL), likelihood=Gaussian(fixed(0.0))), Data(X, smooth))
    assert post.factor.jitter == 0
    np.testing.assert_allclose(paths_of(post, 50)(X), np.broadcast_to(smooth, (50, 30)), atol=1e-6)
    between = paths_of(post, 50)((X[1:] + X[:-1]) / 2)
    assert between.std(0).max() > 0.01


def test_close_to_data_the_small_variance_is_right() -> None:
    """Where the posterior's variance is a thousandth of the prior's, features of high frequency decide; they are there."""
    post = condition(Model(GP(SquaredExponential()), likelihood=Gaussian(1e-6)), Data(X, np.sin(X[:, 0])))
    near = np.array([[X[0, 0] - 0.3], [2.5], [X[-1, 0] + 0.3]])
    f = post.predict(near).f
    assert f.variance.max() < 1e-2
    ratio = paths_of(post, 4000, features=2000)(near).var(0) / f.variance
    np.testing.assert_allclose(ratio, 1.0, atol=0.12)


def deviations(kernel: Any, columns: int, maps: Any, noise: float = 1e-3) -> float:
    """By how much standard deviations given the features are off (root mean square), without sampling.

    A path's variance at x given φ is |φ(x) − b·φ(X)|² + σ²|b|² with b = (K + σ²I)⁻¹k(X, x).
    """
    rng = np.random.default_rng(columns)
    old, new = rng.uniform(0, 3, (80, columns)), rng.uniform(0, 3, (40, columns))
    b = np.linalg.solve(kernel.gram(old) + noise * np.eye(80), kernel.cross(old, new)).T
    exact = 1 - (b * kernel.cross(new, old)).sum(1)
    given = [((phi(new) - b @ phi(old)) ** 2).sum(1) + noise * (b**2).sum(1) for phi in maps]
    return float(np.sqrt(np.mean((np.sqrt(np.array(given) / exact) - 1) ** 2)))


@pytest.mark.parametrize(("columns", "most"), [(1, 0.004), (2, 0.02), (5, 0.025)])
@pytest.mark.parametrize("kernel", [SquaredExponential(lengthscale=1.5), Matern52(lengthscale=1.5), Matern12(lengthscale=1.5)])
def test_given_the_features_standard_deviations_are_close(kernel: Any, columns: int, most: float) -> None:
    """Within what :mod:`covary.posterior.paths` says of 2000 features, over several of their draws."""
    maps = [random_features(kernel, columns, 2000, key=key) for key in range(5)]
    assert deviations(kernel, columns, maps) < most


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_independent_frequencies_would_not_do(columns: int) -> None:
    """Plain random features, written out here for the Matérn kernel (Student t frequencies), are off several times as much."""
    kernel, rng, m = Matern52(lengthscale=1.5), np.random.default_rng(0), 1000
    plain = []
    for _ in range(5):
        omega = rng.standard_normal((m, columns)) / np.sqrt(rng.chisquare(5, (m, 1)) / 5) / 1.5

        def phi(x: np.ndarray, omega: np.ndarray = omega) -> np.ndarray:
            return np.hstack([np.cos(x @ omega.T), np.sin(x @ omega.T)]) / np.sqrt(m)

        plain.append(phi)
    maps = [random_features(kernel, columns, 2 * m, key=key) for key in range(5)]
    assert deviations(kernel, columns, maps) < deviations(kernel, columns, plain) / 3


def test_far_from_data_the_prior_returns() -> None:
    draws = paths_of(posterior("exact"), 2000)(np.array([[60.0], [90.0]]))
    assert_normal(draws, np.full(2, 0.7), 1.3 * np.eye(2))


def test_at_the_features_own_kernel_the_law_is_exact() -> None:
    """A kernel with finitely many features: Matheron's rule alone, on a hundred thousand draws."""
    prior = GP(0.8 * Periodic(lengthscale=1.2, period=3.0) + 0.1 * Linear())
    post = condition(Model(prior, likelihood=Gaussian(0.3)), Data(X, Y), gram=Dense(), inference=Exact())
    few = XS[1:4]
    draws, f = paths_of(post, 100_000)(few), post.predict(few, covariance=True).f
    assert_normal(draws, f.mean, f.covariance)
