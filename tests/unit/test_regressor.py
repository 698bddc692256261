"""GPRegressor: defaults, predictions, evidence and units."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score

from covary import GP, Data, GPRegressor, Model, condition, datasets, log_evidence
from covary._checks import CovaryError
from covary.kernels import fixed
from covary.likelihoods import Gaussian
from covary.parameters import parameters
from unit.regressed import KERNEL, QUICK, X1, XN, Y1, YN, X, Y, of_several_outputs, of_the_line, of_the_surface, surface


@pytest.fixture
def fitted() -> GPRegressor:
    return of_the_surface()


@pytest.fixture
def line() -> GPRegressor:
    return of_the_line()


@pytest.fixture
def several() -> GPRegressor:
    return of_several_outputs()


# defaults -------------------------------------------------------------------------------------------------------


def test_defaults_predict_well_and_know_how_well(fitted: GPRegressor) -> None:
    mean, std = fitted.predict(XN, return_std=True)
    assert fitted.score(XN, YN) > 0.9
    low, high = fitted.predict_interval(XN, level=0.95)
    assert 0.90 <= np.mean((low <= YN) & (high >= YN)) <= 0.99
    inside = np.mean(np.abs(surface(XN) - mean) <= 1.96 * fitted.predict(XN, return_std=True, latent=True)[1])
    assert inside > 0.85
    assert 0.5 < np.median(std) < 0.8  # the noise has 0.6


def test_defaults_are_one_lengthscale_per_column_and_a_constant_mean(fitted: GPRegressor) -> None:
    found = parameters(fitted.model_)
    assert list(found) == ["kernel.variance", "kernel.lengthscale", "mean.value", "likelihood.variance"]
    assert found["kernel.lengthscale"].value.shape == (2,)
    assert 15.0 < float(found["mean.value"].value) < 25.0
    assert np.sqrt(float(found["likelihood.variance"].value)) == pytest.approx(0.6, rel=0.2)
    assert set(fitted.priors_) == {"kernel.lengthscale", "kernel.variance", "likelihood.variance"}


def test_fit_returns_itself_and_keeps_what_it_was_given() -> None:
    kernel = "4.0*Matern52(lengthscale=1.1)"
    model = GPRegressor(kernel, fixed=("kernel.*",), **QUICK)
    assert model.fit(X1, Y1) is model
    assert model.kernel is kernel
    assert model.get_params()["fixed"] == ("kernel.*",)
    assert model.n_features_in_ == 1
    with pytest.raises(NotFittedError):
        GPRegressor().predict(X1)


# predictions ----------------------------------------------------------------------------------------------------


def test_shapes_of_predictions_of_one_output(fitted: GPRegressor) -> None:
    mean, std = fitted.predict(XN[:7], return_std=True)
    also, cov = fitted.predict(XN[:7], return_cov=True)
    assert (mean.shape, std.shape, cov.shape) == ((7,), (7,), (7, 7))
    np.testing.assert_allclose(fitted.predict(XN[:7]), mean, rtol=1e-12)
    np.testing.assert_allclose(also, mean, rtol=1e-12)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), std, rtol=1e-8)
    np.testing.assert_allclose(cov, cov.T)
    assert fitted.predict(XN[:1]).shape == (1,)


def test_latent_leaves_the_noise_out(fitted: GPRegressor) -> None:
    noise = float(fitted.model_.likelihood.variance)
    _, std = fitted.predict(XN[:7], return_std=True)
    _, latent = fitted.predict(XN[:7], return_std=True, latent=True)
    np.testing.assert_allclose(std**2 - latent**2, noise, rtol=1e-9)
    _, cov = fitted.predict(XN[:7], return_cov=True)
    _, inner = fitted.predict(XN[:7], return_cov=True, latent=True)
    np.testing.assert_allclose(cov - inner, noise * np.eye(7), atol=1e-9)


def test_predictions_are_the_posteriors(fitted: GPRegressor) -> None:
    post = condition(fitted.model_, Data(X, Y)).predict(XN[:7])
    mean, std = fitted.predict(XN[:7], return_std=True)
    np.testing.assert_allclose(mean, post.y.mean, rtol=1e-9)
    np.testing.assert_allclose(std, post.y.std, rtol=1e-9)


@pytest.mark.parametrize(("level", "half"), [(0.95, 1.959964), (0.5, 0.674490)])
def test_intervals_are_central(fitted: GPRegressor, level: float, half: float) -> None:
    for latent in (False, True):
        mean, std = fitted.predict(XN[:7], return_std=True, latent=latent)
        low, high = fitted.predict_interval(XN[:7], level=level, latent=latent)
        np.testing.assert_allclose(low, mean - half * std, rtol=1e-5)
        np.testing.assert_allclose(high, mean + half * std, rtol=1e-5)


@pytest.mark.parametrize("latent", [False, True])
def test_samples_have_the_predicted_moments(fitted: GPRegressor, latent: bool) -> None:
    mean, cov = fitted.predict(XN[:4], return_cov=True, latent=latent)
    draws = fitted.sample_y(XN[:4], 20000, random_state=3, latent=latent)
    assert draws.shape == (4, 20000)
    std = np.sqrt(np.diag(cov))
    np.testing.assert_allclose(draws.mean(1), mean, atol=5 * std.max() / np.sqrt(20000))
    np.testing.assert_allclose(np.cov(draws) / np.outer(std, std), cov / np.outer(std, std), atol=0.05)
    np.testing.assert_array_equal(fitted.sample_y(XN[:4], 3, random_state=1), fitted.sample_y(XN[:4], 3, random_state=1))


def test_score_is_the_share_of_variance_explained(fitted: GPRegressor) -> None:
    assert fitted.score(XN, YN) == pytest.approx(r2_score(YN, fitted.predict(XN)))


def test_several_outputs_share_one_kernel(several: GPRegressor) -> None:
    mean, std = several.predict(XN[:5], return_std=True)
    _, cov = several.predict(XN[:5], return_cov=True)
    assert (mean.shape, std.shape, cov.shape) == ((5, 3), (5, 3), (5, 5, 3))
    assert several.predict(XN[:5]).shape == (5, 3)
    assert several.sample_y(XN[:5], 6).shape == (5, 3, 6)
    low, high = several.predict_interval(XN[:5])
    assert low.shape == high.shape == (5, 3)
    np.testing.assert_allclose(mean[:, 1], 1e3 * mean[:, 0], rtol=1e-7)  # the second output is the first in other units
    np.testing.assert_allclose(std[:, 1], 1e3 * std[:, 0], rtol=1e-7)
    np.testing.assert_allclose(np.sqrt(np.einsum("iij->ij", cov)), std, rtol=1e-7)
    draws = several.sample_y(XN[:5], 4000, random_state=0)
    np.testing.assert_allclose(draws.std(2), std, rtol=0.1)
    assert several.score(XN, np.column_stack([YN, 1e3 * YN, -YN + XN[:, 0]])) > 0.8


def test_one_column_of_outputs_is_one_output_of_shape_n_1(line: GPRegressor) -> None:
    got = GPRegressor(KERNEL, mean="zero", standardise=False, priors=None, noise=0.1, **QUICK).fit(X1, Y1[:, None])
    flat = GPRegressor(KERNEL, mean="zero", standardise=False, priors=None, noise=0.1, **QUICK).fit(X1, Y1)
    assert got.predict(X1[:3]).shape == (3, 1)
    np.testing.assert_allclose(got.predict(X1[:3])[:, 0], flat.predict(X1[:3]), rtol=1e-6)
    assert got.log_marginal_likelihood_ == pytest.approx(flat.log_marginal_likelihood_, abs=1e-6)


def test_known_noise_is_added_and_weights_count() -> None:
    known, weight = np.linspace(0.1, 2.0, 40), np.linspace(0.5, 3.0, 40)
    held = GPRegressor(KERNEL, mean="zero", fixed="*", noise=fixed(0.3), priors=None).fit(X1, Y1, known, weight)
    assert held.learned_ is None
    K = KERNEL.gram(X1) + np.diag((known + 0.3) / weight)
    np.testing.assert_allclose(held.predict(X1[:3]), KERNEL.gram(X1)[:3] @ np.linalg.solve(K, Y1), rtol=1e-8)
    with pytest.raises(CovaryError, match="noise_variance has 3 entries but X has 40 rows"):
        GPRegressor().fit(X1, Y1, noise_variance=[0.1, 0.2, 0.3])


def test_known_noise_of_several_standardised_outputs_is_refused() -> None:
    both = np.column_stack([Y1, 100 * Y1])
    with pytest.raises(CovaryError, match="set standardise=False, or fit one output at a time"):
        GPRegressor(KERNEL, **QUICK).fit(X1, both, noise_variance=np.full(40, 0.1))
    plain = GPRegressor(KERNEL, fixed="kernel.*", standardise=False, **QUICK).fit(X1, both, noise_variance=np.full(40, 0.1))
    assert plain.predict(X1[:2]).shape == (2, 2)


# evidence and units ---------------------------------------------------------------------------------------------


def test_the_bare_model_is_the_books() -> None:
    """No mean, no priors, no scaling, nothing learned: the evidence of the kernel as it stands."""
    bare = GPRegressor(
        KERNEL, mean="zero", standardise=False, priors=None, n_restarts=0, noise=fixed(0.2), fixed=("kernel.*",)
    ).fit(X1, Y1)
    assert bare.learned_ is None
    model = Model(GP(KERNEL), likelihood=Gaussian(0.2))
    assert bare.log_marginal_likelihood_ == pytest.approx(log_evidence(model, Data(X1, Y1)), rel=1e-12)
    post = condition(model, Data(X1, Y1)).predict(X1[:5] + 0.1)
    mean, std = bare.predict(X1[:5] + 0.1, return_std=True)
    np.testing.assert_allclose(mean, post.y.mean, rtol=1e-10)
    np.testing.assert_allclose(std, post.y.std, rtol=1e-10)


def test_the_bare_model_starts_at_its_own_numbers() -> None:
    bare = GPRegressor(KERNEL, mean="zero", standardise=False, priors=None, n_restarts=0, noise=0.2).fit(X1, Y1)
    start = bare.learned_.restarts[0].start
    assert float(start.kernel.variance) == pytest.approx(4.0)
    assert float(start.kernel.kernel.lengthscale) == pytest.approx(1.1)
    assert float(start.likelihood.variance) == pytest.approx(0.2)
    assert bare.log_marginal_likelihood_ == pytest.approx(log_evidence(bare.model_, Data(X1, Y1)), abs=1e-9)
    assert bare.log_marginal_likelihood_ == pytest.approx(bare.learned_.value, abs=1e-9)  # no priors in it


def test_the_evidence_is_in_the_units_of_y(line: GPRegressor, several: GPRegressor) -> None:
    assert line.log_marginal_likelihood_ == pytest.approx(log_evidence(line.model_, Data(X1, Y1)), abs=1e-8)
    big = GPRegressor(1e6 * KERNEL, **QUICK).fit(X1, 1e3 * Y1)
    assert big.log_marginal_likelihood_ == pytest.approx(line.log_marginal_likelihood_ - 40 * np.log(1e3), abs=0.05)
    y = np.column_stack([Y, 1e3 * Y, -Y + X[:, 0]])[:60]  # one standardised output at a time, then the change of units
    scale = y.std(0)
    each = [log_evidence(several.model_, Data(X[:60], (y[:, j] - y[:, j].mean()) / scale[j])) for j in range(3)]
    assert several.log_marginal_likelihood_ == pytest.approx(sum(each) - 60 * np.log(scale).sum(), rel=1e-9)


def test_defaults_do_not_depend_on_units() -> None:
    one = GPRegressor(**QUICK).fit(X[:60], Y[:60])
    two = GPRegressor(**QUICK).fit(X[:60] * [1e-3, 500.0], 1e5 * Y[:60] - 7e5)
    mean, std = one.predict(XN[:5], return_std=True)
    other, other_std = two.predict(XN[:5] * [1e-3, 500.0], return_std=True)
    np.testing.assert_allclose(other, 1e5 * mean - 7e5, rtol=1e-2)
    np.testing.assert_allclose(other_std, 1e5 * std, rtol=2e-2)
    assert two.log_marginal_likelihood_ == pytest.approx(one.log_marginal_likelihood_ - 60 * np.log(1e5), abs=0.1)


def test_a_season_round_a_trend_is_not_taken_for_noise() -> None:
    """From a long length-scale alone the search ends at the trend, hundreds of nats below."""
    co2 = datasets.load_co2()
    t, y = co2["decimal_year"].to_numpy(), co2["co2_ppm"].to_numpy()
    model = GPRegressor(random_state=0).fit(t[:, None], y)
    assert np.sqrt(float(model.model_.likelihood.variance)) < 0.5  # ppm; the season has three
    assert len(model.learned_.restarts) == 5  # the plain one, a short length-scale, more noise, less, a rougher kernel
    wind = np.random.default_rng(0).normal(size=len(t))
    table = pd.DataFrame({"when": pd.to_datetime(co2[["year", "month"]].assign(day=15)), "wind": wind})
    dated = GPRegressor(random_state=0).fit(table, y)  # along the dates, whatever else there is
    assert np.sqrt(float(dated.model_.likelihood.variance)) < 0.5
    numbered = GPRegressor(random_state=0).fit(np.column_stack([wind, t]), y)  # a time that is a number among others
    assert np.sqrt(float(numbered.model_.likelihood.variance)) < 0.5
    bounded = GPRegressor("1.0 * Matern52(lengthscale=bounded(8.0, 2.0, 20.0))", random_state=0).fit(t[:, None], y)
    assert all(2.0 <= float(r.start.kernel.kernel.lengthscale) <= 20.0 for r in bounded.learned_.restarts)
    asked = GPRegressor("1.0 * Matern52(lengthscale=8.0)", n_restarts=1, random_state=0).fit(t[:60, None], y[:60])
    assert len(asked.learned_.restarts) == 2
