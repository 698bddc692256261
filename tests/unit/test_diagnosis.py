"""The diagnosis: every statistic against an independent restatement, and the verdicts on simulated problems."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import comb

import covary
from covary import GP, Data, GPClassifier, GPRegressor, Model, condition
from covary._checks import CovaryError
from covary.diagnosis import Subject, diagnose, foretell
from covary.diagnosis.association import group_difference, likeness, neighbours, rank_correlation
from covary.diagnosis.cavities import left_out
from covary.diagnosis.classes import check_classes
from covary.diagnosis.fitting import _score, prior_distance
from covary.diagnosis.foretold import Foretold
from covary.diagnosis.queries import check_queries
from covary.diagnosis.record import LEVEL
from covary.distributions import Gamma, HalfCauchy, InverseGamma, LogNormal, Normal, Uniform
from covary.estimators.assessed import subject_of
from covary.gram import LowRank
from covary.inference import SVGP, Laplace
from covary.kernels import Matern52, bounded, fixed
from covary.likelihoods import Gaussian, HeteroscedasticGaussian, Softmax

mpl.use("Agg")

RNG = np.random.default_rng(4)
X = RNG.normal(size=(18, 2))
F = np.sin(2 * X[:, 0]) + X[:, 1]
KERNEL = 1.5 * Matern52(lengthscale=1.2)


def subject(post: Any, **more: Any) -> Subject:
    return Subject((post,), (None,), ({},), columns=tuple(f"x{i}" for i in range(post.data.X.columns)), **more)


# rows foretold by the others ------------------------------------------------------------------------------------


def without(model: Model, data: Data, i: int, inference: Any = None) -> Any:
    rest = data.take(np.arange(data.rows) != i)
    post = condition(model, rest) if inference is None else condition(model, rest, inference=inference)
    return post.predict(data.X.x[[i]])


def test_gaussian_rows_left_out_are_those_of_conditioning_again() -> None:
    """Two outputs, known noise and weights: means, noisy variances and the PIT, against conditioning without each row."""
    y = np.stack([F, 2 - F], axis=1) + 0.2 * RNG.normal(size=(18, 2))
    data = Data(X, y, RNG.uniform(0.01, 0.1, 18), RNG.uniform(1, 3, 18))
    model = Model(GP(KERNEL), likelihood=Gaussian(0.05))
    seen = foretell(subject(condition(model, data), targets=("a", "b")))
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
    seen = model.diagnose().foretold
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
        warned += check_queries(subject(post), q)[0].verdict == "warning"
    assert warned <= 4


# simulated problems ---------------------------------------------------------------------------------------------

WANTED = {"noise": "noise", "outliers": "outliers", "varying": "heteroscedastic", "beyond": "extrapolation"}


def problem(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any]:
    """A smooth random function seen with noise; inputs, observations, new inputs, and the noise that is stated."""
    rng = np.random.default_rng([seed, 77])
    n, d = int(rng.integers(80, 151)), int(rng.integers(1, 4))
    x, queries = rng.uniform(-2, 2, (n, d)), rng.uniform(-2, 2, (50, d))
    W, phase = rng.normal(size=(30, d)) * rng.uniform(0.6, 1.2), rng.uniform(0, 2 * np.pi, 30)
    f = np.cos(x @ W.T + phase) @ rng.normal(size=30) * np.sqrt(2 / 30)
    s = rng.uniform(0.1, 0.3)
    e, stated = s * rng.normal(size=n), None
    if kind == "noise":
        stated = fixed(float(s**2) * (9.0 if seed % 2 else 1 / 9))
    elif kind == "outliers":
        wild = rng.choice(n, max(3, n // 25), replace=False)
        e[wild] += rng.choice([-1, 1], len(wild)) * rng.uniform(6, 12, len(wild)) * s
    elif kind == "varying":
        e *= np.exp(0.75 * x[:, 0])
    elif kind == "beyond":
        queries[:10, 0] = rng.uniform(4, 6, 10)
    return x, f + e, queries, stated


def warnings_on(kind: str, seed: int) -> set[str]:
    x, y, queries, stated = problem(kind, seed)
    kernel = "1.0 * SquaredExponential()" if seed % 2 else "1.0 * Matern52()"
    found = GPRegressor(kernel, noise=stated).fit(x, y).diagnose(queries)
    return {check.name for check in found.warnings}


def test_warnings_are_right_on_forty_problems() -> None:
    """Eight of each kind: the intended warning fires in nine of ten, and no more than one right model is warned about."""
    fired = {kind: sum(want in warnings_on(kind, seed) for seed in range(8)) for kind, want in WANTED.items()}
    assert sum(fired.values()) >= 0.9 * 32, fired
    assert sum(bool(warnings_on("right", seed)) for seed in range(8)) <= 1


@pytest.mark.slow
def test_warnings_are_right_on_many_problems() -> None:
    """Twenty of each kind, and a hundred right models of which one in twenty may be warned about."""
    for kind, want in WANTED.items():
        assert sum(want in warnings_on(kind, seed) for seed in range(100, 120)) >= 18, kind
    assert sum(bool(warnings_on("right", seed)) for seed in range(100, 200)) <= 5


# what each check says -------------------------------------------------------------------------------------------


def fitted(change: Callable[[np.random.Generator, np.ndarray], np.ndarray] | None = None, **options: Any) -> Any:
    rng = np.random.default_rng(5)
    x = rng.uniform(-3, 3, (100, 2))
    y = np.sin(2 * x[:, 0]) + 0.3 * x[:, 1] + 0.1 * rng.normal(size=100)
    y = y if change is None else change(rng, y)
    return GPRegressor("1.0 * Matern52(lengthscale=[1.0, 1.0])", **options).fit(x, y)


def test_every_check_says_what_it_found() -> None:
    found = fitted().diagnose([[0.0, 0.0]])
    assert found.ok
    assert len(found) == 13
    for check in found:
        assert check.sentence.endswith(".")
        assert check.verdict in ("ok", "warning", "not available")
        assert check.value is None or np.isfinite(check.value)
        assert not check.advice
    assert found["coverage"].value == pytest.approx(
        float((np.abs(found.foretold.z) <= stats.norm.ppf(0.975)).mean())  # type: ignore[union-attr]
    )
    assert "No warning" in str(found)
    assert list(found.to_frame()["name"]) == [check.name for check in found]
    with pytest.raises(CovaryError, match="choose one of coverage"):
        found["nonsense"]


def test_every_picture_draws() -> None:
    import matplotlib.pyplot as plt

    found = fitted(lambda rng, y: y + np.where(np.arange(100) == 7, 5.0, 0.0)).diagnose([[0.0, 0.0], [9.0, 9.0]])
    drawn = 0
    for check in found:
        if check.draw is None:
            with pytest.raises(CovaryError, match="no picture"):
                check.plot()
            continue
        ax = check.plot()
        assert ax.get_xlabel()
        plt.close(ax.figure)
        drawn += 1
    assert drawn >= 8


def test_a_wild_row_is_named_and_reaches_the_summary() -> None:
    model = fitted(lambda rng, y: y + np.where(np.arange(100) == 7, 5.0, 0.0))
    check = model.diagnose()["outliers"]
    assert check.verdict == "warning"
    assert "rows 7," in check.sentence
    assert "student_t" in check.advice
    assert check.sentence in str(model.summary())
    robust = fitted(lambda rng, y: y + np.where(np.arange(100) == 7, 5.0, 0.0), likelihood="student_t")
    assert robust.diagnose()["outliers"].verdict == "ok"


def test_structure_that_a_kernel_cannot_see_is_found() -> None:
    rng = np.random.default_rng(6)
    x = np.sort(rng.uniform(0, 10, 120))[:, None]
    model = GPRegressor("1.0 * Linear()").fit(x, np.sin(2 * x[:, 0]) + 0.2 * rng.normal(size=120))
    check = model.diagnose()["structure"]
    assert check.verdict == "warning"
    assert "neighbouring rows are alike" in check.sentence


SMOOTH: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "wave": lambda x: np.sin(3 * x[:, 0]),
    "bump": lambda x: 7 + 2 * np.exp(-4 * x[:, 0] ** 2),
    "cubic": lambda x: x[:, 0] ** 3 - x[:, 0],
    "surface": lambda x: np.sin(3 * x[:, 0]) * np.cos(2 * x[:, 1]) + x[:, 0],
}


@pytest.mark.parametrize("name", SMOOTH)
def test_wide_error_bars_round_tiny_errors_are_a_note(name: str) -> None:
    """A smooth function without noise under the default kernel: no warning, a note, and error bars that hold every row."""
    x = np.random.default_rng(1).uniform(-1, 1, (80, 2 if name == "surface" else 1))
    model = GPRegressor(random_state=0).fit(x, SMOOTH[name](x))
    found = model.diagnose()
    assert found.ok, found
    seen: Any = found.foretold
    assert np.abs(seen.z).max() < 4
    error, spread = np.sqrt(np.square(seen.y - seen.mean).mean()), seen.y.std()
    assert 1 - (error / spread) ** 2 > 0.999
    note = found["coverage50"]
    assert note.verdict == "note"
    assert note.ok
    assert "wider than needed" in note.sentence
    assert f"at most {100 * np.abs(seen.y - seen.mean).max() / spread:.2g} %" in note.sentence
    assert "SquaredExponential" in note.advice
    assert "warning" not in str(model.summary())
    assert "  note " in str(found)


def test_small_errors_are_still_warned_about() -> None:
    """Tiny noise whose error bars are right on the whole, but not row by row; noise that is stated; one row far out."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (120, 1))
    f = np.sin(3 * x[:, 0])
    varying = GPRegressor(random_state=0).fit(x, f + 0.004 * np.exp(2 * x[:, 0]) * rng.normal(size=120)).diagnose()
    assert "heteroscedastic" in {check.name for check in varying.warnings}
    stated = GPRegressor(noise=fixed(1e-3), random_state=0).fit(x, f).diagnose()
    assert "coverage" in {check.name for check in stated.warnings} or "noise" in {check.name for check in stated.warnings}
    wild = GPRegressor(random_state=0).fit(x, f + np.where(np.arange(120) == 7, 0.05, 0.0)).diagnose()
    assert "outliers" in {check.name for check in wild.warnings}
    smooth = GPRegressor("1.0 * SquaredExponential()", random_state=0).fit(x, f + 0.01 * rng.normal(size=120)).diagnose()
    assert smooth.ok
    assert "note" not in {check.verdict for check in smooth}


def test_nothing_to_learn_is_said() -> None:
    model = fitted(lambda rng, y: rng.normal(size=100))
    assert model.diagnose()["sharpness"].verdict == "warning"


def test_a_prior_the_data_contradict_is_named() -> None:
    wrong = {"kernel.lengthscale": LogNormal(np.log(500.0), scale=0.5)}
    check = fitted(priors=wrong).diagnose()["priors"]
    assert check.verdict == "warning"
    assert "kernel.lengthscale" in check.sentence
    assert check.threshold == 3.0
    assert fitted().diagnose()["priors"].threshold == 5.0


def test_a_parameter_at_its_bound_is_named() -> None:
    x = np.linspace(0, 6, 60)[:, None]
    y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    kernel = 1.0 * Matern52(lengthscale=bounded(0.2, 0.1, 0.3))
    check = GPRegressor(kernel).fit(x, y).diagnose()["bounds"]
    assert check.verdict == "warning"
    assert "kernel.lengthscale = 0.3 at its upper bound" in check.sentence
    free = GPRegressor("1.0 * SquaredExponential()").fit(x, np.sin(x[:, 0])).diagnose()["bounds"]
    assert free.verdict == "ok"  # noise at its floor is what noise-free data look like


def test_two_explanations_of_few_rows_are_found() -> None:
    """Few rows: wiggles without noise, or noise without wiggles (R&W, figure 5.5)."""
    rng = np.random.default_rng(2)
    x = np.sort(rng.uniform(-6, 6, 7))[:, None]
    y = np.sin(0.9 * x[:, 0]) + 0.25 * rng.normal(size=7)
    options: Any = {"priors": None, "mean": "zero", "random_state": 0}
    model = GPRegressor("1.0 * SquaredExponential()", n_restarts=6, **options).fit(x, y)
    check = model.diagnose()["peaks"]
    assert check.verdict == "warning"
    assert "Another explanation is only" in check.sentence
    alone = GPRegressor("1.0 * SquaredExponential()", n_restarts=0, **options).fit(x, y)
    assert alone.diagnose()["peaks"].verdict == "not available"


def test_digits_that_are_lost_are_said() -> None:
    x = np.linspace(0, 1, 40)[:, None]
    model = Model(GP("SquaredExponential(lengthscale=3.0)"), likelihood=Gaussian(fixed(1e-14)))
    found = diagnose(subject(condition(model, Data(x, np.sin(6 * x[:, 0])))))
    assert found["conditioning"].verdict == "warning"


def test_few_rows_and_constants_are_not_judged() -> None:
    x = np.linspace(0, 1, 5)[:, None]
    few = GPRegressor().fit(x, np.sin(x[:, 0])).diagnose()
    assert few["coverage"].verdict == "not available"
    assert "too few" in few["coverage"].sentence
    flat = GPRegressor().fit(np.linspace(0, 1, 30)[:, None], np.ones(30)).diagnose()
    assert flat["pit"].sentence == "The observations do not vary."


def test_too_little_to_learn_from_is_a_warning() -> None:
    """Of so few rows nothing is tested, and 95 % intervals hold far fewer: silence would read as approval."""
    x = np.linspace(0, 1, 40)[:, None]
    few = GPRegressor().fit(x[:5], np.sin(x[:5, 0]))
    assert few.diagnose().warnings[0].sentence.startswith("5 rows are too few to tell whether the error bars hold")
    assert "too few to tell" in str(few.summary())
    assert "data" not in [check.name for check in few.diagnose(x[5:], np.sin(x[5:, 0]))]  # tested on rows enough
    assert GPRegressor(fixed=("*",)).fit(x[:5], np.sin(x[:5, 0])).diagnose().ok  # nothing was learned from so few
    classes = GPClassifier().fit(x[:6], list("ababab")).diagnose()
    assert classes["data"].sentence == "6 rows are too few to tell whether the probabilities are right."
    flat = GPRegressor().fit(x, np.stack([np.sin(x[:, 0]), np.ones(40)], axis=1)).diagnose()
    assert flat["data"].sentence.startswith("The observations of y1 do not vary: there is nothing to learn")
    assert GPRegressor(likelihood="poisson").fit(x, np.zeros(40)).diagnose().ok  # no counts at all is a count


def test_categories_have_no_order() -> None:
    """Noise that is larger in one category is found between categories, whatever their codes; no error grows with a code."""
    rng = np.random.default_rng(12)
    x, kind = rng.uniform(-2, 2, 240), np.array(["a", "b", "c"])[rng.integers(0, 3, 240)]
    table = pd.DataFrame({"x": x, "kind": kind})
    calm = np.sin(2 * x) + 0.2 * rng.normal(size=240)
    wild = np.sin(2 * x) + np.where(kind == "b", 0.8, 0.1) * rng.normal(size=240)
    kernel = "1.0 * Matern52().on(0) + 0.1 * Hamming().on(1)"
    assert GPRegressor(kernel).fit(table, calm).diagnose()["heteroscedastic"].verdict == "ok"
    check = GPRegressor(kernel).fit(table, wild).diagnose()["heteroscedastic"]
    assert check.verdict == "warning"
    assert "differ in size between categories of kind" in check.sentence
    sizes, codes = np.abs(rng.normal(size=90)), rng.integers(0, 3, 90).astype(float)
    found, chance = group_difference(sizes, codes)
    again = group_difference(sizes, np.array([7.0, 3.0, 5.0])[codes.astype(int)])
    np.testing.assert_allclose(again, (found, chance))


def test_the_advice_fits_the_noise() -> None:
    """Noise that was learned is not asked to be freed; noise that is held is."""
    rng = np.random.default_rng(13)
    x = rng.uniform(-3, 3, (200, 1))
    y = np.sin(x[:, 0]) + 0.1 * rng.standard_t(2, size=200)
    learned = GPRegressor("1.0 * Matern52()").fit(x, y).diagnose()["coverage50"]
    assert learned.verdict == "warning"
    assert "student_t" in learned.advice
    assert "Let the noise" not in learned.advice
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=200)
    held = GPRegressor("1.0 * Matern52()", noise=fixed(1.0)).fit(x, y).diagnose()["coverage50"]
    assert held.advice == "Let the noise be learned."


# classes and new rows -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("many", ["softmax", "one_vs_rest"])
def test_classes_are_judged(many: str) -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(120, 2))
    labels = np.array(["low", "mid", "high"])[
        np.digitize(np.sin(2 * x[:, 0]) + x[:, 1] + 0.4 * rng.normal(size=120), [-0.6, 0.6])
    ]
    model = GPClassifier("4.0 * Matern52()", multi_class=many).fit(x, labels)
    found = model.diagnose(np.array([[0.0, 0.0], [30.0, 0.0], [31.0, 3.0]]))
    assert found["calibration"].verdict == "ok"
    assert found["sharpness"].value > 0.2  # type: ignore[operator]
    assert found.extrapolates.tolist() == [False, True, True]  # type: ignore[union-attr]
    assert found["extrapolation"].verdict == "warning"
    np.testing.assert_allclose(found.foretold.p.sum(1), 1.0)  # type: ignore[union-attr]


def test_probabilities_that_are_wrong_are_found() -> None:
    """Labels of a third of the new rows are exchanged: the model is too sure of them."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(300, 2))
    labels = np.where(x[:, 0] + 0.1 * rng.normal(size=300) > 0, "yes", "no")
    model = GPClassifier("9.0 * SquaredExponential()").fit(x[:150], labels[:150])
    assert model.diagnose(x[150:], labels[150:])["calibration"].verdict == "ok"
    swapped = np.where(rng.uniform(size=150) < 0.33, np.where(labels[150:] == "yes", "no", "yes"), labels[150:])
    check = model.diagnose(x[150:], swapped)["calibration"]
    assert check.verdict == "warning"
    assert "too sure" in check.sentence
    with pytest.raises(CovaryError, match="does not know"):
        model.diagnose(x[:1], ["perhaps"])


def test_classes_named_right_more_often_than_said() -> None:
    """Every class is as frequent as foretold, and the likeliest is right far more often: too cautious."""
    rng = np.random.default_rng(14)
    codes, other = rng.integers(0, 3, 200), fitted()
    p = np.full((200, 3), 0.25)
    p[np.arange(200), codes] = 0.5
    empty = np.empty((200, 0))
    common: Any = {"x": rng.normal(size=(200, 2)), "share": np.ones(200), "mean": empty, "std": empty, "pit": empty, "z": empty}
    seen = Foretold("new rows", "", np.arange(200), 200, y=codes[:, None].astype(float), p=p, **common)
    for inference, said in (("Laplace", "inference='ep'"), ("EP", "recalibrate")):
        whose = replace(subject_of(other), classes=np.array(["a", "b", "c"]), inference=inference)
        check = check_classes(whose, seen)[0]
        assert check.verdict == "warning"
        assert "too cautious" in check.sentence
        assert said in check.advice


def test_new_rows_with_their_truth_replace_leaving_out() -> None:
    model, rng = fitted(), np.random.default_rng(9)
    x = rng.uniform(-3, 3, (60, 2))
    y = np.sin(2 * x[:, 0]) + 0.3 * x[:, 1] + 0.6 * rng.normal(size=60)  # six times the noise learned from
    found = model.diagnose(x, y)
    assert found.foretold.kind == "new rows"  # type: ignore[union-attr]
    mean, std = model.predict(x, return_std=True)
    np.testing.assert_allclose(found.foretold.z[:, 0], (y - mean) / std, rtol=1e-9)  # type: ignore[union-attr]
    assert found["coverage"].verdict == "warning"
    assert "too narrow" in found["coverage"].sentence
    with pytest.raises(CovaryError, match="without X"):
        model.diagnose(y=y)
    with pytest.raises(CovaryError, match="shape"):
        model.diagnose(x, np.stack([y, y], axis=1))


@pytest.mark.parametrize("method", [LowRank(30), "vecchia", "markov", "svgp", "subset"], ids=str)
def test_every_method_has_a_diagnosis(method: Any) -> None:
    rng = np.random.default_rng(10)
    x = rng.uniform(-3, 3, (150, 1))
    y = np.sin(2 * x[:, 0]) + 0.2 * rng.normal(size=150)
    held: Any = {"noise": fixed(0.04), "mean": "zero", "fixed": ("kernel.*",), "random_state": 0}
    if method == "svgp":
        method, held["inference"] = LowRank(20), SVGP()
    found = GPRegressor("0.7 * Matern52(lengthscale=1.5)", method=method, **held).fit(x, y).diagnose([[0.0], [20.0]])
    assert found.foretold.kind == "leave-one-out"  # type: ignore[union-attr]
    assert 0.9 <= found["coverage"].value <= 1.0  # type: ignore[operator]
    assert found.extrapolates.tolist() == [False, True]  # type: ignore[union-attr]


def test_a_model_from_a_file_is_judged_the_same(tmp_path: Any) -> None:
    model = fitted()
    model.save(tmp_path / "m.covary")
    again = covary.load(tmp_path / "m.covary").diagnose()
    assert again.to_frame().equals(model.diagnose().to_frame())


def test_the_level_is_shared() -> None:
    """Seven tests share one false alarm in a hundred (Bonferroni)."""
    assert pytest.approx(0.01) == 7 * LEVEL
