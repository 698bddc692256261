"""Scores of predictions compared with independent restatements, and the cross-validation tools."""

from __future__ import annotations

import pickle
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from covary import GPRegressor, metrics
from covary._checks import CovaryError
from covary.prediction import Spread

RNG = np.random.default_rng(5)
Y = 3.0 + 2.0 * RNG.normal(size=60)
MEAN = Y + 0.5 * RNG.normal(size=60)
STD = RNG.uniform(0.3, 0.9, size=60)
Y2, MEAN2, STD2 = (np.column_stack([a, 100 * a[::-1]]) for a in (Y, MEAN, STD))

X1 = RNG.uniform(0.0, 6.0, size=(36, 1))
Y1 = 10.0 * np.sin(X1[:, 0]) + 0.5 * RNG.normal(size=36)
NAMES = ("r2", "smse", "rmse", "mae", "nlpd", "crps", "calibration_error", "msll", "coverage")


def quick(variance: float = 40.0) -> GPRegressor:
    return GPRegressor(f"{variance}*Matern52(lengthscale=1.5)", n_restarts=0, fixed=("kernel.*",), random_state=0)


@pytest.fixture(scope="module")
def fitted() -> GPRegressor:
    return quick().fit(X1[:24], Y1[:24])


# errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("y", "mean"), [(Y, MEAN), (Y2, MEAN2), (1e-30 * Y, 1e-30 * MEAN), (1e9 + Y, 1e9 + MEAN)])
def test_errors_are_scikit_learns(y: np.ndarray, mean: np.ndarray) -> None:
    assert metrics.r2(y, mean) == pytest.approx(r2_score(y, mean), rel=1e-12)
    assert metrics.smse(y, mean) == pytest.approx(1 - r2_score(y, mean), rel=1e-9)
    assert metrics.mse(y, mean) == pytest.approx(mean_squared_error(y, mean), rel=1e-12)
    assert metrics.rmse(y, mean) == pytest.approx(np.sqrt(mean_squared_error(y, mean)), rel=1e-12)
    assert metrics.mae(y, mean) == pytest.approx(mean_absolute_error(y, mean), rel=1e-12)


@pytest.mark.parametrize("name", ["mae", "mse", "rmse", "r2", "smse", "nlpd", "crps", "coverage", "pit", "calibration_error"])
def test_what_is_masked_is_not_scored(name: str) -> None:
    hidden = np.arange(60) == 7
    y = np.ma.array(np.where(hidden, 1e6, Y), mask=hidden)
    more = (STD,) if name in ("nlpd", "crps", "coverage", "pit", "calibration_error") else ()
    for given, words in (
        (y, "y is nan at row 7"),
        (Y + 1j, "y contains complex"),
        (pd.date_range("2020", periods=60), "y contains dates"),
    ):
        with pytest.raises(CovaryError, match=words):
            getattr(metrics, name)(given, MEAN, *more)
    with pytest.raises(CovaryError, match="mean is nan at row 7"):
        getattr(metrics, name)(Y, np.ma.array(MEAN, mask=hidden), *more)


def test_masked_rows_are_not_validated_with() -> None:
    hidden = np.arange(36) == 7
    y, rows = np.ma.array(Y1, mask=hidden), [np.ma.array(row, mask=gone) for row, gone in zip(X1, hidden, strict=True)]
    with pytest.raises(CovaryError, match="y is nan at row 7"):
        metrics.cross_validate(quick(), X1, y, cv=3)
    with pytest.raises(CovaryError, match="X is NaN"):
        metrics.cross_validate(quick(), rows, Y1, cv=3)


def test_r2_has_its_landmarks_and_no_units() -> None:
    assert metrics.r2(Y, Y) == 1.0
    assert metrics.r2(Y, np.full(60, Y.mean())) == pytest.approx(0.0, abs=1e-12)
    assert metrics.r2(Y, -MEAN) < 0
    for a, b in ((-3.0, 7.0), (1e-200, 0.0), (1e200, 0.0)):
        assert metrics.r2(a * Y + b, a * MEAN + b) == pytest.approx(metrics.r2(Y, MEAN), rel=1e-12)


def test_errors_do_not_overflow_or_vanish() -> None:
    for c in (1e-300, 1e300):
        assert metrics.rmse(c * Y, c * MEAN) == pytest.approx(c * metrics.rmse(Y, MEAN), rel=1e-12)
        assert metrics.mae(c * Y, c * MEAN) == pytest.approx(c * metrics.mae(Y, MEAN), rel=1e-12)
        assert metrics.crps(c * Y, c * MEAN, c * STD) == pytest.approx(c * metrics.crps(Y, MEAN, STD), rel=1e-12)
        assert metrics.sharpness(c * STD) == pytest.approx(c * np.sqrt(np.mean(STD**2)), rel=1e-12)


# densities and spreads ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("y", "mean", "std"), [(Y, MEAN, STD), (Y2, MEAN2, STD2)])
def test_densities_are_scipys(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> None:
    gauss = stats.norm(mean, std)
    assert metrics.nlpd(y, mean, std) == pytest.approx(-gauss.logpdf(y).mean(), rel=1e-12)
    if y.ndim == 1:
        np.testing.assert_allclose(Spread(mean, std**2).log_prob(y), gauss.logpdf(y), rtol=1e-12)
    np.testing.assert_allclose(metrics.pit(y, mean, std), gauss.cdf(y), rtol=1e-12)
    m, s = np.ravel(mean)[0], np.ravel(std)[0]  # its moments, by integration (DGP thesis, eqs. 1.12 and 1.13)
    at = np.linspace(m - 12 * s, m + 12 * s, 2001)
    density = np.exp(Spread(np.full(2001, m), np.full(2001, s**2)).log_prob(at))
    assert [integrate.trapezoid(density * (at - m) ** k, at) for k in range(3)] == pytest.approx([1, 0, s**2], abs=1e-9 * s**2)
    trivial = stats.norm(Y2.mean(0), Y2.std(0)) if y.ndim == 2 else stats.norm(Y.mean(), Y.std())
    expected = (trivial.logpdf(y) - gauss.logpdf(y)).mean()
    assert metrics.msll(y, mean, std, Y2 if y.ndim == 2 else Y) == pytest.approx(expected, rel=1e-12)
    for level in (0.1, 0.5, 0.95):
        low, high = gauss.interval(level)
        assert metrics.coverage(y, mean, std, level) == np.mean((low <= y) & (y <= high))


def test_nlpd_at_the_ends_of_the_floats() -> None:
    for c in (1e-300, 1e-30, 1e9, 1e300):
        assert metrics.nlpd(c * Y, c * MEAN, c * STD) == pytest.approx(metrics.nlpd(Y, MEAN, STD) + np.log(c), rel=1e-9)
        assert metrics.msll(c * Y, c * MEAN, c * STD, c * Y[:9]) == pytest.approx(metrics.msll(Y, MEAN, STD, Y[:9]), rel=1e-9)
    with pytest.raises(CovaryError, match=r"y is 1e\+150 standard deviations or more from its prediction at row 1"):
        metrics.nlpd([0.0, 1.0], [0.0, 0.0], [1.0, 1e-200])


def test_the_trivial_predictor_scores_one_and_zero() -> None:
    """T17: SMSE ≈ 1 and MSLL ≈ 0; on the training targets themselves the two are exact."""
    train, test = np.random.default_rng(0).normal(5.0, 3.0, size=(2, 4000))
    mean, std = np.full(4000, train.mean()), np.full(4000, train.std())
    assert metrics.smse(test, mean) == pytest.approx(1.0, abs=0.01)
    assert metrics.msll(test, mean, std, train) == pytest.approx(0.0, abs=1e-12)
    assert metrics.smse(train, mean) == pytest.approx(1.0, abs=1e-12)
    assert metrics.msll(test, mean, 2 * std, train) > 0.1


@pytest.mark.parametrize(("y", "mean", "std"), [(0.0, 0.0, 1.0), (1.3, -0.4, 0.7), (-5.0, 1.0, 2.0), (3.0, 0.0, 0.2)])
def test_crps_is_the_integral(y: float, mean: float, std: float) -> None:
    gauss = stats.norm(mean, std)
    below = integrate.quad(lambda t: gauss.cdf(t) ** 2, min(y, mean) - 12 * std, y, points=[mean] if mean < y else None)[0]
    above = integrate.quad(lambda t: gauss.sf(t) ** 2, y, max(y, mean) + 12 * std, points=[mean] if mean > y else None)[0]
    assert metrics.crps([y], [mean], [std]) == pytest.approx(below + above, rel=1e-7)


def test_crps_tends_to_the_absolute_error() -> None:
    assert metrics.crps(Y, MEAN, 1e-320) == pytest.approx(metrics.mae(Y, MEAN), rel=1e-12)
    assert metrics.crps([1.0], [0.0], [1e300]) == pytest.approx(0.2336949772551092 * 1e300, rel=1e-12)


def test_calibration_error_is_the_mean_gap_of_coverages() -> None:
    levels = np.linspace(0.05, 0.95, 19)
    gaps = [abs(metrics.coverage(Y, MEAN, STD, p) - p) for p in levels]
    assert metrics.calibration_error(Y, MEAN, STD) == pytest.approx(np.mean(gaps), abs=1e-12)
    z = np.random.default_rng(1).normal(size=20000)
    assert metrics.calibration_error(z, 0 * z, 1.0) < 0.006
    assert metrics.calibration_error(z, 0 * z, 0.5) > 0.15
    assert metrics.calibration_error(z, 0 * z, 2.0) > 0.15
    assert stats.kstest(metrics.pit(z, 0 * z, 1.0), "uniform").pvalue > 0.01


def test_sharpness_is_rmse_where_variances_are_right() -> None:
    rng = np.random.default_rng(2)
    std = rng.uniform(0.1, 2.0, size=20000)
    assert metrics.rmse(std * rng.normal(size=20000), np.zeros(20000)) == pytest.approx(metrics.sharpness(std), rel=0.03)


def test_lists_and_frames_are_taken() -> None:
    frame = pd.DataFrame({"y": Y, "mean": MEAN, "std": STD}, index=np.arange(60)[::-1])
    assert metrics.nlpd(frame["y"], frame["mean"], frame["std"]) == metrics.nlpd(list(Y), tuple(MEAN), STD)
    assert metrics.crps(Y, MEAN, 0.4) == metrics.crps(Y, MEAN, np.full(60, 0.4))
    assert metrics.rmse(frame[["y"]], frame[["mean"]]) == metrics.rmse(Y, MEAN)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.nlpd([0.0, 1.0], [0.0, 1.0], [1.0, 0.0]), "metrics.nlpd: std is not positive at row 1"),
        (lambda: metrics.crps([[0.0, 1.0]], [[0.0, 1.0]], [[1.0, -1.0]]), "std is not positive at row 0, column 1"),
        (lambda: metrics.sharpness([-1.0]), "metrics.sharpness: std is not positive at row 0"),
        (lambda: metrics.r2([1.0, 1.0], [1.0, 2.0]), "metrics.r2: y is constant; give targets that vary"),
        (lambda: metrics.msll(Y, MEAN, STD, [2.0, 2.0]), "y_train is constant"),
        (lambda: metrics.msll(Y, MEAN, STD, Y2), r"y_train has shape \(60, 2\) but y has \(60,\)"),
        (lambda: metrics.mae(Y, MEAN[:, None]), r"mean has shape \(60, 1\) but y has \(60,\)"),
        (lambda: metrics.mae([], []), r"y has shape \(0,\)"),
        (lambda: metrics.mae(["a"], [1.0]), r"y contains text \(.a. at row 0\)"),
        (lambda: metrics.rmse([1.0, np.nan], [1.0, 1.0]), "y is nan at row 1"),
        (lambda: metrics.pit([1.0], [np.inf], [1.0]), "mean is inf at row 0"),
        (lambda: metrics.mae([1e308], [-1e308]), "too far apart for floats at row 0"),
        (lambda: metrics.mse([1e200], [0.0]), r"the error is 1e\+150 or more at row 0"),
        (lambda: metrics.coverage(Y, MEAN, STD, level=95), "level is 95; give a number between 0 and 1"),
        (lambda: metrics.relative_deviance([1.0, 0.0], [1.0, 1.0]), "y is 0 at row 1"),
        (lambda: metrics.relative_deviance([1e-300], [1e300]), "too far apart for floats at row 0"),
        (lambda: metrics.relative_deviance(Y, MEAN, zeros="drop"), "choose 'refuse' or 'nan'"),
        (lambda: metrics.relative_deviance_log10([1.0, -1.0], [0.0, 0.0]), "y is not positive at row 1"),
        (lambda: metrics.relative_deviance_log10([1.0], [400.0]), "too far apart for floats at row 0"),
        (lambda: metrics.by_decades([0.0], [1.0]), "every y is 0"),
        (lambda: metrics.by_decades([0.0, 1.0], [np.nan, np.nan]), "deviance is nan at row 1"),
        (lambda: metrics.scorer("accuracy"), "choose one of r2, smse"),
        (lambda: metrics.scorer("coverage", level=2.0), "level is 2.0"),
    ],
)
def test_what_has_no_score_is_refused(call: Any, words: str) -> None:
    with pytest.raises(CovaryError, match=words):
        call()


# relative deviance ----------------------------------------------------------------------------------------------


def wide(n: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Inputs, and targets y = 10^g(x) from about 1e-30 to 1e9."""
    x = np.random.default_rng(seed).uniform(0.0, 1.0, size=(n, 1))
    return x, 10.0 ** (-10.5 + 19.0 * np.sin(5.0 * x[:, 0]))


def test_relative_deviance_has_no_units_and_decades_shift() -> None:
    y = wide(200)[1]
    mean = y * (1 + 0.1 * RNG.normal(size=200))
    deviance = metrics.relative_deviance(y, mean)
    np.testing.assert_allclose(deviance, 1 - mean / y, atol=1e-14)
    np.testing.assert_allclose(metrics.relative_deviance(-7.3e5 * y, -7.3e5 * mean), deviance, atol=1e-14)
    found = metrics.by_decades(y, deviance)
    for k in (-5, 1, 12):
        moved = metrics.by_decades(y * 10.0**k, metrics.relative_deviance(y * 10.0**k, mean * 10.0**k))
        np.testing.assert_array_equal(moved.decades, found.decades + k)
        np.testing.assert_array_equal(moved.count, found.count)
        np.testing.assert_allclose(moved.mean, found.mean, atol=1e-13)


def test_exact_powers_land_in_their_own_decade() -> None:
    powers = np.array([float(f"1e{i}") for i in range(-308, 309)])
    found = metrics.by_decades(np.concatenate([powers, -powers]), np.zeros(2 * len(powers)))
    np.testing.assert_array_equal(found.decades, np.arange(-308, 309))
    np.testing.assert_array_equal(found.count, 2)
    below = metrics.by_decades(np.nextafter(powers, 0.0), np.zeros(len(powers)))
    np.testing.assert_array_equal(below.decades, np.arange(-309, 308))
    np.testing.assert_array_equal(below.count, 1)
    assert metrics.by_decades([np.finfo(float).max], [0.0]).decades == [308]
    assert metrics.by_decades([5e-324], [0.0]).decades == [-324]


def test_decades_are_direct_computations() -> None:
    y = np.array([1.0, 9.99, 5.0, -2.0, 0.0, 1000.0, 0.03])
    deviance = np.array([0.1, -0.4, 0.3, 2.0, np.nan, 1e200, 0.5])
    found = metrics.by_decades(y, deviance)
    np.testing.assert_array_equal(found.decades, [-2, -1, 0, 1, 2, 3])
    np.testing.assert_array_equal(found.count, [1, 0, 4, 0, 0, 1])
    here = deviance[:4]
    frame = found.to_frame()
    expected = [4, here.mean(), here.var(), *np.quantile(here, [0.25, 0.5, 0.75])]
    np.testing.assert_allclose(frame.loc[0], expected, rtol=1e-12)
    assert list(frame.columns) == ["count", "mean", "variance", "lower_quartile", "median", "upper_quartile"]
    assert frame.loc[[-1, 1, 2]].drop(columns="count").isna().all(axis=None)
    assert (found.mean[-1], found.variance[-1], found.zeros) == (1e200, 0.0, 1)
    assert "(1 zeros left out, 3 empty decades not shown)" in str(found)
    assert len(str(found).splitlines()) == 2 + 2 + 3
    both = metrics.by_decades([1.0, 1.0], [1e200, -1e200])
    assert (both.mean[0], both.variance[0]) == (0.0, np.inf)


def test_deviances_of_a_model_of_the_logarithm() -> None:
    y = wide(50)[1]
    mu, s = np.log10(y) + 0.05 * RNG.normal(size=50), np.full(50, 0.3)
    np.testing.assert_allclose(metrics.relative_deviance_log10(y, mu), 1 - 10**mu / y, atol=1e-12)
    mean = 10 ** (mu + 0.5 * s**2 * np.log(10))
    np.testing.assert_allclose(metrics.relative_deviance_log10(y, mu, s), 1 - mean / y, atol=1e-12)
    draws = 10 ** (mu[0] + 0.3 * np.random.default_rng(0).normal(size=400000))  # a log-normal's mean and median
    assert np.mean(draws) == pytest.approx(mean[0], rel=0.01)
    assert np.median(draws) == pytest.approx(10 ** mu[0], rel=0.01)
    assert metrics.relative_deviance_log10([1.0], [1e-14])[0] == pytest.approx(-np.log(10) * 1e-14, rel=1e-6)


def test_a_gp_of_the_logarithm_serves_every_decade() -> None:
    """E9: per-decade spread of a GP on log10 y is far below that of a GP on y."""
    X, y = wide(40)
    Xn, yn = wide(150, seed=4)
    log = GPRegressor("100*SquaredExponential(lengthscale=0.2)", n_restarts=0, random_state=0).fit(X, np.log10(y))
    good = metrics.by_decades(yn, metrics.relative_deviance_log10(yn, *log.predict(Xn, return_std=True)))
    raw = GPRegressor("1e17*SquaredExponential(lengthscale=0.2)", n_restarts=0, random_state=0).fit(X, y)
    bad = metrics.by_decades(yn, metrics.relative_deviance(yn, raw.predict(Xn)))
    np.testing.assert_array_equal(good.decades, bad.decades)
    np.testing.assert_array_equal(good.count, np.histogram(np.log10(yn), np.append(good.decades, good.decades[-1] + 1))[0])
    assert good.decades[0] <= -29
    assert good.decades[-1] >= 7
    seen = good.count > 0
    assert np.max(np.abs(good.median[seen])) < 0.1
    low = seen & (good.decades < 0)
    assert np.min(np.abs(bad.median[low])) > 1e3
    assert np.median(bad.variance[low]) > 1e6 * np.median(good.variance[low])


# estimators -----------------------------------------------------------------------------------------------------


def test_scorers_are_the_scores_with_higher_better(fitted: GPRegressor) -> None:
    y = Y1[24:]
    mean, std = fitted.predict(X1[24:], return_std=True)
    got = {name: metrics.scorer(name)(fitted, X1[24:], y) for name in NAMES}
    assert got["r2"] == pytest.approx(fitted.score(X1[24:], y))
    for name in ("smse", "rmse", "mae"):
        assert got[name] == -getattr(metrics, name)(y, mean)
    for name in ("nlpd", "crps", "calibration_error"):
        assert got[name] == -getattr(metrics, name)(y, mean, std)
    assert got["msll"] == pytest.approx(-metrics.msll(y, mean, std, Y1[:24]), rel=1e-12)
    assert got["coverage"] == -abs(metrics.coverage(y, mean, std) - 0.95)
    wide = metrics.scorer("coverage", level=0.5)
    assert pickle.loads(pickle.dumps(wide))(fitted, X1[24:], y) == -abs(metrics.coverage(y, mean, std, 0.5) - 0.5)


def test_msll_scorer_knows_standardised_outputs() -> None:
    y = np.column_stack([Y1, 5.0 - 100 * Y1])
    model = make_pipeline(StandardScaler(), quick(1.0)).fit(X1[:24], y[:24])
    mean, std = model.predict(X1[24:], return_std=True)
    expected = metrics.msll(y[24:], mean, std, y[:24])
    assert metrics.scorer("msll")(model, X1[24:], y[24:]) == pytest.approx(-expected, rel=1e-9)


def test_scorers_refuse_what_they_cannot_score() -> None:
    with pytest.raises(
        CovaryError, match=r"metrics.scorer\('nlpd'\): LinearRegression.predict does not return standard deviations"
    ):
        metrics.scorer("nlpd")(LinearRegression().fit(X1, Y1), X1, Y1)
    with pytest.raises(CovaryError, match="BayesianRidge does not store its training targets"):
        metrics.scorer("msll")(BayesianRidge().fit(X1, Y1), X1, Y1)


def test_scorers_serve_grid_search() -> None:
    grid = {"kernel": ["40*Matern52(lengthscale=1.5)", "40*Matern52(lengthscale=0.01)"]}
    search = GridSearchCV(quick(), grid, scoring=metrics.scorer("nlpd"), cv=2).fit(X1, Y1)
    assert search.best_params_["kernel"] == grid["kernel"][0]
    assert search.best_score_ > search.cv_results_["mean_test_score"].min()
    scores = cross_val_score(quick(), X1, Y1, scoring=metrics.scorer("msll"), cv=2)
    assert scores.min() > 0.3


def test_cross_validation_by_hand() -> None:
    model = BayesianRidge()
    found = metrics.cross_validate(model, X1, Y1, cv=4, level=0.8)
    mean, std, losses = np.zeros(36), np.zeros(36), np.zeros(36)
    for k, (train, test) in enumerate(KFold(4, shuffle=True, random_state=0).split(X1)):
        m, s = model.fit(X1[train], Y1[train]).predict(X1[test], return_std=True)
        mean[test], std[test] = m, s
        trivial = stats.norm(Y1[train].mean(), Y1[train].std())
        losses[test] = trivial.logpdf(Y1[test]) - stats.norm(m, s).logpdf(Y1[test])
        expected = {"r2": r2_score(Y1[test], m), "msll": losses[test].mean(), "coverage": metrics.coverage(Y1[test], m, s, 0.8)}
        for name, value in expected.items():
            assert found.folds[name][k] == pytest.approx(value, rel=1e-9)
    pooled = {name: getattr(metrics, name)(Y1, mean, std) for name in ("nlpd", "crps", "calibration_error")}
    pooled |= {"r2": r2_score(Y1, mean), "smse": 1 - r2_score(Y1, mean), "msll": losses.mean()}
    for name, value in pooled.items():
        assert found.pooled[name] == pytest.approx(value, rel=1e-9)
    assert found.pooled["fit_seconds"] == pytest.approx(found.folds["fit_seconds"].sum())
    np.testing.assert_array_equal(found.rows, 9)


def test_cross_validation_of_a_gp_prints_and_repeats() -> None:
    found = metrics.cross_validate(quick(), pd.DataFrame(X1, columns=["x"]), pd.Series(Y1), cv=3)
    assert found.pooled["r2"] > 0.95
    assert found.pooled["smse"] == pytest.approx(1 - found.pooled["r2"])
    assert found.pooled["msll"] < -1
    frame = found.to_frame()
    assert list(frame.index) == [0, 1, 2, "pooled"]
    assert set(frame.columns) == {"rows", *found.folds}
    assert frame.notna().all(axis=None)
    assert frame.loc["pooled", "rows"] == 36
    assert str(found).startswith("Cross-validation, 3 folds, coverage at level 0.95")
    with joblib.parallel_config("threading"):
        again = metrics.cross_validate(quick(), X1.tolist(), Y1.tolist(), cv=3, n_jobs=2)
    assert again.pooled["nlpd"] == pytest.approx(found.pooled["nlpd"], rel=1e-9)
    other = metrics.cross_validate(quick(), X1, Y1, cv=3, random_state=1)
    assert other.pooled["nlpd"] != found.pooled["nlpd"]


def test_cross_validation_of_several_outputs() -> None:
    found = metrics.cross_validate(quick(1.0), X1, np.column_stack([Y1, 100 * Y1]), cv=3)
    assert 0.9 < found.pooled["r2"] < 1
    assert found.pooled["msll"] < -0.8


def test_cross_validation_refuses_before_it_fits() -> None:
    def check(words: str, estimator: Any, y: np.ndarray, **options: Any) -> None:
        with pytest.raises(CovaryError, match=words):
            metrics.cross_validate(estimator, X1, y, **options)

    check("LinearRegression.predict does not return standard deviations", LinearRegression(), Y1)
    check("X has shape .36, 1. but y has 35 rows", quick(), Y1[:35])
    check("cv is 30 for 36 rows; give a number of folds from 2 to half the rows", quick(), Y1, cv=30)
    check("cv is 1 for 36 rows", quick(), Y1, cv=1)
    check("y of fold 0 is constant", quick(), np.ones(36), cv=3)
    check("level is 95", quick(), Y1, level=95)


# learning curves ------------------------------------------------------------------------------------------------


def test_a_line_through_a_curve_underfits() -> None:
    x = np.random.default_rng(0).uniform(-3, 3, size=(200, 1))
    curve = metrics.learning_curve(LinearRegression(), x, np.cos(x[:, 0]) + 0.5 * x[:, 0])
    assert "underfitting" in curve.verdict
    assert "more data do not help" in curve.verdict
    np.testing.assert_array_equal(curve.sizes, [20, 40, 80, 160])
    assert (curve.validation_nlpd, curve.validation_nlpd_sd) == (None, None)
    assert list(curve.to_frame().columns) == ["training", "training_sd", "validation", "validation_sd"]
    assert curve.verdict in str(curve)


def test_an_interpolator_wants_more_data() -> None:
    x = np.random.default_rng(0).uniform(-2, 2, size=(100, 2))
    y = np.sin(2 * x).sum(1)
    curve = metrics.learning_curve(KNeighborsRegressor(1), x, y, sizes=[10, 20, 40, 80])
    np.testing.assert_allclose(curve.training, 1.0)
    assert curve.verdict.startswith("training R² is 1.00 and validation R² ")
    assert "still rising: more data help" in curve.verdict


def test_pure_noise_is_overfitted() -> None:
    rng = np.random.default_rng(1)
    curve = metrics.learning_curve(KNeighborsRegressor(1), rng.uniform(size=(200, 2)), rng.normal(size=200))
    assert "overfitting" in curve.verdict


def test_the_learning_curve_of_a_gp() -> None:
    curve = metrics.learning_curve(quick(), X1, Y1, sizes=(0.25, 1.0), cv=3)
    np.testing.assert_array_equal(curve.sizes, [6, 24])
    assert curve.validation_nlpd is not None
    assert curve.validation_nlpd_sd is not None
    assert curve.validation_nlpd[1] < curve.validation_nlpd[0]
    assert curve.validation[1] > curve.validation[0]
    assert np.isfinite(curve.to_frame().to_numpy()).all()
    dense = np.linspace(0, 6, 60)[:, None]
    fine = metrics.learning_curve(GaussianProcessRegressor(optimizer=None, alpha=1e-6), dense, np.sin(dense[:, 0]), cv=2)
    assert "near 1: the model fits" in fine.verdict


def test_sizes_are_checked() -> None:
    for sizes in ([0.5], [1, 20], [10, 900], [0.5, 20], [0.5, 0.5]):
        with pytest.raises(CovaryError, match=r"give two or more fractions up to 1.0, or whole numbers of rows from 2 to 28"):
            metrics.learning_curve(LinearRegression(), X1, Y1, sizes=sizes)
    with pytest.raises(CovaryError, match="y of the first 2 training rows of a fold is constant"):
        metrics.learning_curve(LinearRegression(), X1, np.arange(36) // 18.0, sizes=[2, 20])
