"""GPRegressor(likelihood=...): observations with other than Gaussian noise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import clone

import covary
from covary import Data, GPRegressor, condition, log_evidence
from covary._checks import CovaryError
from covary.inference import EP, Laplace
from covary.kernels import Matern52, fixed
from covary.likelihoods import (
    Binomial,
    DoubleExponential,
    Gaussian,
    HeteroscedasticGaussian,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
)
from covary.likelihoods.base import AbstractLikelihood
from covary.parameters import parameters, positive

RNG = np.random.default_rng(21)
QUICK: dict[str, Any] = {"n_restarts": 0, "random_state": 0}
TRIALS = 8
HELD = 1.0 * Matern52(lengthscale=1.5)
HOLD: dict[str, Any] = {"kernel": HELD, "mean": "zero", "fixed": "*", "standardise": False}


def wave(x: np.ndarray) -> np.ndarray:
    return np.sin(1.5 * x[:, 0])


def spread(x: np.ndarray) -> np.ndarray:
    return np.where(x[:, 0] < 0, 0.1, 0.6)


X = RNG.uniform(-3.0, 3.0, (150, 1))
NEW = RNG.uniform(-3.0, 3.0, (200, 1))
FEW = np.linspace(-2.8, 2.8, 5)[:, None]
LEVELS = np.array([-0.7, 0.0, 0.7])

# what is drawn at x, and its mean there
DRAWN: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "gaussian": (lambda x, rng: wave(x) + 0.3 * rng.normal(size=len(x)), wave),
    "student_t": (lambda x, rng: wave(x) + 0.2 * rng.standard_t(3, len(x)), wave),
    "laplace": (lambda x, rng: rng.laplace(wave(x), 0.2), wave),
    "heteroscedastic": (lambda x, rng: wave(x) + spread(x) * rng.normal(size=len(x)), wave),
    "poisson": (lambda x, rng: rng.poisson(np.exp(1 + wave(x))), lambda x: np.exp(1 + wave(x))),
    "negative_binomial": (
        lambda x, rng: rng.poisson(np.exp(2 + wave(x)) * rng.gamma(4.0, 0.25, len(x))),
        lambda x: np.exp(2 + wave(x)),
    ),
    "binomial": (lambda x, rng: rng.binomial(TRIALS, expit(1.5 * wave(x))), lambda x: TRIALS * expit(1.5 * wave(x))),
    "gamma": (lambda x, rng: np.exp(1 + wave(x)) * rng.gamma(4.0, 0.25, len(x)), lambda x: np.exp(1 + wave(x))),
    "ordinal": (lambda x, rng: np.digitize(wave(x) + 0.4 * rng.normal(size=len(x)), LEVELS), None),
}
WHOLE = ("poisson", "negative_binomial", "binomial", "ordinal")
OTHER = [name for name in DRAWN if name != "gaussian"]
SEEN = {name: np.asarray(draw(X, np.random.default_rng(5)), float) for name, (draw, _) in DRAWN.items()}
FITTED: dict[str, GPRegressor] = {}


def size(name: str) -> dict[str, Any]:
    return {"size": TRIALS} if name == "binomial" else {}


def fitted(name: str) -> GPRegressor:
    """One fit of every kind, made when it is first asked for."""
    if name not in FITTED:
        FITTED[name] = GPRegressor(likelihood=name, **QUICK).fit(X, SEEN[name], **size(name))
    return FITTED[name]


# every name -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DRAWN)
def test_every_kind_of_observation_is_predicted_and_its_error_bars_hold(name: str) -> None:
    model, y = fitted(name), np.asarray(DRAWN[name][0](NEW, np.random.default_rng(8)), float)
    mean, std = model.predict(NEW, return_std=True, **size(name))
    np.testing.assert_array_equal(model.predict(NEW, **size(name)), mean)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert np.isfinite(std).all() or name == "student_t"
    levels = (0.05, 0.5, 0.95)
    q = model.predict_quantiles(NEW, levels, **size(name))
    assert q.shape == (3, 200)
    assert np.isfinite(q).all()
    assert ((np.diff(q, axis=0) >= 0) if name in WHOLE else (np.diff(q, axis=0) > 0)).all()
    low, _, high = q
    np.testing.assert_allclose(model.predict_interval(NEW[:3], level=0.9, **size(name)), q[[0, 2], :3])
    inside = np.mean((low <= y) & (y <= high))
    error = 4 * np.sqrt(0.9 * 0.1 / 200)
    assert inside > 0.9 - error
    assert inside < 0.9 + error or name in WHOLE
    if name in WHOLE:
        assert (q == np.floor(q)).all()
        assert (q >= 0).all()
    truth = DRAWN[name][1](NEW) if name != "ordinal" else DRAWN[name][0](NEW, np.random.default_rng(9))
    rest, scale = mean - truth, np.std(truth)
    assert np.sqrt(np.mean(rest**2)) < (0.3 if name != "ordinal" else 0.6) * scale


@pytest.mark.parametrize("name", DRAWN)
def test_the_summary_names_the_likelihood_and_how_it_went(name: str) -> None:
    model = fitted(name)
    text = str(model.summary())
    assert "nan" not in text.lower()
    assert "note" not in text
    if name != "gaussian":
        assert type(model.model_.likelihood).__name__ in text
        assert f"{type(model.inference_).__name__}: converged" in text
    assert isinstance(model.inference_, EP) == (name == "laplace")
    assert model._repr_html_().startswith("<div>")


@pytest.mark.parametrize("name", OTHER)
def test_draws_have_the_predicted_mean_and_quantiles(name: str) -> None:
    model, n = fitted(name), 4000
    draws = model.sample_y(FEW, n, random_state=1, **size(name))
    assert draws.shape == (5, n)
    mean, std = model.predict(FEW, return_std=True, **size(name))
    if np.isfinite(std).all():
        np.testing.assert_allclose(draws.mean(1), mean, atol=5 * std.max() / np.sqrt(n))
    for p in (0.1, 0.5, 0.9):
        q = model.predict_quantiles(FEW, (p,), **size(name))[0][:, None]
        error = 4 * np.sqrt(p * (1 - p) / n)
        assert ((draws <= q).mean(1) > p - error).all()
        assert ((draws < q).mean(1) < p + error).all()
    np.testing.assert_array_equal(
        model.sample_y(FEW, 3, random_state=1, **size(name)), model.sample_y(FEW, 3, random_state=1, **size(name))
    )
    assert model.sample_y(FEW, **size(name)).shape == (5, 1)


@pytest.mark.parametrize("name", OTHER)
def test_the_latent_function_is_on_its_own_scale(name: str) -> None:
    model = fitted(name)
    mean, std = model.predict(FEW, return_std=True, latent=True)
    f = model.posterior_.predict(FEW).f
    np.testing.assert_array_equal(mean, f.mean)
    np.testing.assert_array_equal(std, f.std)
    assert mean.shape == ((5, 2) if name == "heteroscedastic" else (5,))
    low, high = model.predict_interval(FEW, level=0.5, latent=True)
    assert ((low < mean) & (mean < high)).all()
    with pytest.raises(CovaryError, match="return_cov is set but the noise is non-Gaussian; use latent=True, or return_std"):
        model.predict(FEW, return_cov=True)
    if name != "heteroscedastic":
        covariance = model.predict(FEW, return_cov=True, latent=True)[1]
        np.testing.assert_allclose(np.sqrt(np.diag(covariance)), std, rtol=1e-6)
        assert model.sample_y(FEW, 7, latent=True).shape == (5, 7)


@pytest.mark.parametrize("name", OTHER)
def test_the_evidence_is_that_of_the_learned_model(name: str) -> None:
    model = fitted(name)
    y = np.column_stack([SEEN[name], np.full(150, 8.0)]) if name == "binomial" else SEEN[name]
    expected = log_evidence(model.model_, Data(X, y), inference=model.inference_)
    assert model.log_marginal_likelihood_ == pytest.approx(float(expected), rel=1e-6)
    assert model.learned_.status == "converged"


# what each is for -----------------------------------------------------------------------------------------------


def test_rates_are_recovered() -> None:
    for name in ("poisson", "negative_binomial", "gamma"):
        truth = DRAWN[name][1](NEW)
        assert np.mean(np.abs(fitted(name).predict(NEW) / truth - 1)) < 0.25
    assert 0.1 < float(fitted("negative_binomial").model_.likelihood.dispersion) < 0.6  # drawn with 0.25
    assert 2.0 < float(fitted("gamma").model_.likelihood.shape) < 8.0  # drawn with 4
    p = fitted("binomial").predict(NEW)  # of one trial
    assert np.mean(np.abs(p - expit(1.5 * wave(NEW)))) < 0.06


def test_wild_observations_do_not_move_robust_fits() -> None:
    y = wave(X[:40]) + 0.1 * RNG.normal(size=40)
    bad = y.copy()
    bad[[3, 17, 30]] += [30.0, -20.0, 25.0]
    off = {}
    for name in ("gaussian", "student_t", "laplace"):
        model = GPRegressor(likelihood=name, **QUICK).fit(X[:40], bad)
        off[name] = np.sqrt(np.mean((model.predict(NEW) - wave(NEW)) ** 2))
    assert off["student_t"] < 0.15
    assert off["laplace"] < 0.3
    assert off["gaussian"] > 3 * max(off["student_t"], off["laplace"])


def test_an_observation_ever_wilder_counts_ever_less() -> None:
    x, y, rest = X[:40], wave(X[:40]), np.arange(40) != 3
    held = {**HOLD, "likelihood": StudentT(0.2)}
    without = GPRegressor(**held).fit(x[rest], y[rest]).predict(x[3:4])
    off = []
    for far in (1.0, 10.0, 100.0):
        wild = np.where(rest, y, y + far)
        off.append(abs(float((GPRegressor(**held).fit(x, wild).predict(x[3:4]) - without)[0])))
    assert off[2] < off[1] < off[0] < 0.3
    assert off[2] < 1e-3
    gaussian = GPRegressor(**HOLD, noise=0.04).fit(x, wild).predict(x[3:4])
    assert abs(float((gaussian - without)[0])) > 10.0


def test_the_size_of_the_noise_is_recovered_where_it_is() -> None:
    model = fitted("heteroscedastic")
    h = model.predict(NEW, latent=True)[:, 1]
    noise = np.sqrt(float(model.model_.likelihood.variance) * np.exp(h))
    quiet, loud = NEW[:, 0] < -1, NEW[:, 0] > 1
    assert 0.05 < np.median(noise[quiet]) < 0.2
    assert 0.3 < np.median(noise[loud]) < 1.2
    std = model.predict(NEW, return_std=True)[1]
    assert np.median(std[loud]) > 3 * np.median(std[quiet])
    y = DRAWN["heteroscedastic"][0](NEW, np.random.default_rng(8))
    plain = GPRegressor(**QUICK).fit(X, SEEN["heteroscedastic"])
    ours, theirs = (m.posterior_.predict(NEW).y.log_prob(y).mean() for m in (model, plain))
    assert ours > theirs + 0.2


def test_levels_have_probabilities_and_predictions_between_the_first_and_the_last() -> None:
    model = fitted("ordinal")
    assert model.model_.likelihood.levels == 4
    f = model.posterior_.predict(NEW).f
    p = model.model_.likelihood.probabilities(f.mean, f.variance)
    np.testing.assert_allclose(p.sum(1), 1)
    np.testing.assert_allclose(model.predict(NEW), p @ np.arange(4))
    assert set(np.unique(model.sample_y(NEW, 20))) == {0, 1, 2, 3}
    two = GPRegressor(HELD, likelihood="ordinal", fixed=("kernel.*",), **QUICK).fit(X[:30], SEEN["ordinal"][:30] > 1)
    assert two.model_.likelihood.levels == 2
    assert np.isfinite(two.predict(NEW)).all()


# sizes and weights ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["poisson", "negative_binomial"])
def test_counts_scale_with_their_exposure(name: str) -> None:
    exposure = np.random.default_rng(2).uniform(0.5, 20.0, 150)
    rng = np.random.default_rng(3)
    y = rng.poisson(exposure * np.exp(wave(X)) * (rng.gamma(10.0, 0.1, 150) if name != "poisson" else 1.0))
    model = GPRegressor(likelihood=name, **QUICK).fit(X, y, size=exposure)
    one = model.predict(NEW)
    assert np.mean(np.abs(one / np.exp(wave(NEW)) - 1)) < 0.2
    np.testing.assert_allclose(model.predict(NEW, size=10.0), 10 * one, rtol=1e-9)
    each = np.linspace(1, 5, 200)
    np.testing.assert_allclose(model.predict(NEW, size=each), each * one, rtol=1e-9)
    assert (model.predict_quantiles(FEW, 0.9, size=50.0) > model.predict_quantiles(FEW, 0.9)).all()
    draws = model.sample_y(FEW, 4000, random_state=0, size=10.0)
    mean, std = model.predict(FEW, return_std=True, size=10.0)
    assert (np.abs(draws.mean(1) - mean) < 5 * std / np.sqrt(4000)).all()
    same = GPRegressor(likelihood=name, **QUICK).fit(X, np.column_stack([y, exposure]))
    np.testing.assert_array_equal(same.predict(NEW), one)


def test_an_exposure_that_is_everywhere_the_same_only_moves_the_rate() -> None:
    y = SEEN["poisson"]
    plain, sized = fitted("poisson"), GPRegressor(likelihood="poisson", **QUICK).fit(X, y, size=4.0)
    np.testing.assert_allclose(sized.predict(NEW, size=4.0), plain.predict(NEW), rtol=1e-3)
    np.testing.assert_allclose(4 * sized.predict(NEW), plain.predict(NEW), rtol=1e-3)
    np.testing.assert_array_equal(GPRegressor(likelihood="poisson", **QUICK).fit(X, y, size=1).predict(NEW), plain.predict(NEW))


def test_trials_of_the_binomial() -> None:
    model = fitted("binomial")
    one = model.predict(NEW)
    assert ((one > 0) & (one < 1)).all()
    np.testing.assert_allclose(model.predict(NEW, size=TRIALS), TRIALS * one, rtol=1e-9)
    assert model.predict_quantiles(FEW, 0.999, size=TRIALS).max() <= TRIALS
    assert model.sample_y(NEW, 10, size=TRIALS).max() <= TRIALS
    assert set(np.unique(model.sample_y(NEW, 10))) == {0, 1}
    each = np.arange(1, 6)
    assert (model.sample_y(FEW, 500, size=each).max(1) <= each).all()
    trials = np.random.default_rng(1).integers(1, 12, 150)
    y = np.random.default_rng(2).binomial(trials, expit(1.5 * wave(X)))
    varied = GPRegressor(likelihood="binomial", **QUICK).fit(X, y, size=trials)
    assert np.mean(np.abs(varied.predict(NEW) - expit(1.5 * wave(NEW)))) < 0.08
    single = GPRegressor(likelihood="binomial", **QUICK).fit(X, y > trials / 2)
    assert ((single.predict(NEW) > 0) & (single.predict(NEW) < 1)).all()


@pytest.mark.parametrize("name", DRAWN)
def test_weight_two_is_the_row_twice_and_weight_zero_is_no_row(name: str) -> None:
    weight = np.tile([1, 2, 0, 2], 10)
    x, y = X[:40], SEEN[name][:40]
    model = GPRegressor(HELD, likelihood=name, fixed=("kernel.*",), **QUICK)
    held = clone(model)
    model.fit(x, y, sample_weight=weight, **size(name))
    held.fit(np.repeat(x, weight, 0), np.repeat(y, weight), **size(name))
    np.testing.assert_allclose(model.predict(FEW), held.predict(FEW), rtol=1e-6, atol=1e-6)
    assert model.log_marginal_likelihood_ == pytest.approx(held.log_marginal_likelihood_, rel=1e-6)


# inference ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.01, 0.0])
def test_noise_that_varies_and_is_small_beside_the_function(noise: float) -> None:
    """Where the function can pass through every row, noise that is free to vary has no mode: learning starts near one size."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, (60, 2))
    f = np.sin(x[:, 0]) + 0.3 * x[:, 1]
    model = GPRegressor(likelihood="heteroscedastic", **QUICK).fit(x, f + noise * rng.normal(size=60))
    mean, std = model.predict(x, return_std=True)
    assert np.abs(mean - f).max() < 0.05
    assert ((std > 0) & (std < 0.05)).all()


@pytest.mark.parametrize("name", [n for n in OTHER if n not in ("laplace", "heteroscedastic")])
def test_two_approximations_agree_roughly(name: str) -> None:
    likelihood, start = fitted(name).model_.likelihood, fitted(name).model_
    models = [
        GPRegressor(start.kernel, mean=start.mean, likelihood=likelihood, inference=i, fixed="*").fit(
            X[:60], SEEN[name][:60], **size(name)
        )
        for i in ("laplace", "ep")
    ]
    (a, s), (b, t) = (m.predict(FEW, return_std=True, latent=True) for m in models)
    assert (np.abs(a - b) < 0.5 * t).all()
    assert (np.abs(np.log(s / t)) < 0.3).all()
    assert models[0].log_marginal_likelihood_ == pytest.approx(models[1].log_marginal_likelihood_, abs=1.5)
    assert [m.posterior_.status for m in models] == ["converged", "converged"]


@pytest.mark.parametrize("inference", ["laplace", "ep", Laplace(), EP()])
def test_under_gaussian_noise_every_inference_is_exact(inference: Any) -> None:
    y = SEEN["gaussian"]
    repeated = np.vstack([X[:60], X[:10]]), np.concatenate([y[:60], y[:10] + 0.2])
    weight = np.linspace(0.5, 2.0, 70)
    for noise in (fixed(0.09), fixed(1e-4)):
        exact = GPRegressor(HELD, noise=noise, fixed="*").fit(*repeated, sample_weight=weight)
        other = GPRegressor(HELD, noise=noise, fixed="*", inference=inference).fit(*repeated, sample_weight=weight)
        for got, expected in zip(other.predict(NEW, return_std=True), exact.predict(NEW, return_std=True), strict=True):
            np.testing.assert_allclose(got, expected, atol=1e-6)
        np.testing.assert_allclose(other.predict(FEW, return_cov=True)[1], exact.predict(FEW, return_cov=True)[1], atol=1e-6)
        assert other.log_marginal_likelihood_ == pytest.approx(exact.log_marginal_likelihood_, rel=1e-6)
        assert "Gaussian" in str(other.summary())
    learned = GPRegressor(inference=inference, **QUICK).fit(X[:60], y[:60])
    np.testing.assert_allclose(learned.predict(FEW), GPRegressor(**QUICK).fit(X[:60], y[:60]).predict(FEW), atol=0.02)


# more rows, files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OTHER)
def test_update_adds_rows_and_keeps_the_hyperparameters(name: str) -> None:
    y = SEEN[name]
    model = GPRegressor(HELD, likelihood=name, fixed=("kernel.*",), **QUICK).fit(X[:40], y[:40], **size(name))
    before = repr(model.model_)
    model.update(X[40:60], y[40:60], sample_weight=np.full(20, 2.0), **size(name))
    assert repr(model.model_) == before
    rows = [*range(40), *np.repeat(range(40, 60), 2)]
    seen = np.column_stack([y, np.full(150, 8.0)]) if name == "binomial" else y
    whole = condition(model.model_, Data(X[rows], seen[rows]).merge(), inference=model.inference_)
    np.testing.assert_allclose(model.predict(FEW, latent=True), whole.predict(FEW).f.mean, atol=1e-5)
    assert model.log_marginal_likelihood_ == pytest.approx(whole.log_evidence, rel=1e-6)
    with pytest.raises(CovaryError, match=r"GPRegressor\.update: noise_variance requires one output under Gaussian noise"):
        model.update(X[:2], y[:2], noise_variance=[0.1, 0.1], **size(name))


def test_update_takes_sizes_as_fit_does() -> None:
    model = GPRegressor(HELD, likelihood="binomial", fixed="*").fit(X[:40], SEEN["binomial"][:40], size=TRIALS)
    model.update(X[40:42], [1, 0])  # of one trial each
    np.testing.assert_array_equal(model.posterior_.data.y[-2:], [[1, 1], [0, 1]])
    with pytest.raises(CovaryError, match=r"GPRegressor\.update: the number of successes is 9 at row 0"):
        model.update(X[40:41], [9], size=TRIALS)
    model.update(X[42:44], [[2, 5], [3, 5]])  # rows (successes, trials)
    np.testing.assert_array_equal(model.posterior_.data.y[-2:], [[2, 5], [3, 5]])


def test_update_takes_sizes_where_those_before_had_none() -> None:
    model = GPRegressor(HELD, likelihood="poisson", fixed="*").fit(X[:40], SEEN["poisson"][:40])
    with pytest.raises(CovaryError, match=r"GPRegressor\.update: y is -1 at row 1"):
        model.update(X[40:42], [3, -1])
    model.update(X[40:42], [3, 4], size=2.0)  # those before have an exposure of one
    np.testing.assert_array_equal(model.posterior_.data.y[-3:], [[SEEN["poisson"][39], 1], [3, 2], [4, 2]])


@pytest.mark.parametrize("name", OTHER)
def test_a_file_gives_the_model_back(name: str, tmp_path: Path) -> None:
    model = fitted(name)
    model.save(tmp_path / "m.covary")
    again = covary.load(tmp_path / "m.covary")
    for options in ({}, {"latent": True}):
        for got, expected in zip(
            again.predict(FEW, return_std=True, **options), model.predict(FEW, return_std=True, **options), strict=True
        ):
            np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(again.predict_quantiles(FEW, **size(name)), model.predict_quantiles(FEW, **size(name)))
    np.testing.assert_array_equal(again.sample_y(FEW, 3), model.sample_y(FEW, 3))
    assert again.model_ == model.model_
    assert name == "heteroscedastic" or str(again.summary()) == str(model.summary())  # quick ones only
    covary.save(again, tmp_path / "twice.covary")
    assert (tmp_path / "twice.covary").read_bytes() == (tmp_path / "m.covary").read_bytes()
    if name != "heteroscedastic":
        again.update(X[:3] + 0.01, SEEN[name][:3], **size(name))
        assert np.isfinite(again.predict(FEW)).all()


# likelihoods as objects -----------------------------------------------------------------------------------------------

OBJECTS: dict[str, tuple[Any, str, str, float]] = {
    "student_t": (StudentT(0.5, degrees=fixed(7.0)), "student_t", "likelihood.degrees", 7.0),
    "laplace": (DoubleExponential(fixed(0.5)), "laplace", "likelihood.scale", 0.5),
    "gaussian": (Gaussian(fixed(0.2)), "gaussian", "likelihood.variance", 0.2),
    "heteroscedastic": (HeteroscedasticGaussian(fixed(0.3)), "heteroscedastic", "likelihood.variance", 0.3),
    "negative_binomial": (NegativeBinomial(fixed(0.1)), "negative_binomial", "likelihood.dispersion", 0.1),
    "ordinal": (Ordinal(fixed(-1.0), gaps=[1.0, 1.0]), "ordinal", "likelihood.first", -1.0),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_fixed_parameters_of_a_likelihood_stay_and_the_others_are_learned(name: str, tmp_path: Path) -> None:
    likelihood, data, path, value = OBJECTS[name]
    model = GPRegressor(likelihood=likelihood, **QUICK).fit(X[:60], SEEN[data][:60])
    found = parameters(model.model_)
    assert float(found[path].value) == value
    assert found[path].mark.fixed
    assert model.likelihood is likelihood
    if name == "student_t":
        assert 0.1 < float(found["likelihood.scale"].value) < 0.4
    model.save(tmp_path / "m.covary")
    again = covary.load(tmp_path / "m.covary")
    assert again.likelihood == likelihood
    np.testing.assert_array_equal(again.predict(FEW), model.predict(FEW))
    by_path = GPRegressor(likelihood=data, fixed=("likelihood.*",), **QUICK).fit(X[:60], SEEN[data][:60])
    assert all(p.mark.fixed for k, p in parameters(by_path.model_).items() if k.startswith("likelihood."))


def test_links_of_counts() -> None:
    for likelihood in (Poisson("softplus"), NegativeBinomial(0.2, link="softplus")):
        model = GPRegressor(likelihood=likelihood, **QUICK).fit(X[:60], SEEN["poisson"][:60])
        assert np.mean(np.abs(model.predict(NEW) / DRAWN["poisson"][1](NEW) - 1)) < 0.35
    probit = GPRegressor(likelihood=Binomial("probit"), **QUICK).fit(X[:60], SEEN["binomial"][:60], size=TRIALS)
    assert np.mean(np.abs(probit.predict(NEW) - expit(1.5 * wave(NEW)))) < 0.1


class Logistic(AbstractLikelihood):
    """Noise with a logistic density: nothing but ``log_prob`` is written."""

    scale: Any = positive(1.0)

    def log_prob(self, y: Any, f: Any) -> Any:
        z = (y - f) / self.scale
        return -z - 2 * jnp.logaddexp(0.0, -z) - jnp.log(self.scale)


class Counts(AbstractLikelihood):
    """Poisson counts again, from ``log_prob`` alone."""

    support = "counts"

    def log_prob(self, y: Any, f: Any) -> Any:
        from jax.scipy.special import gammaln

        return y * f - jnp.exp(f) - gammaln(y + 1)


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_a_likelihood_of_ones_own_needs_log_prob_only(inference: str, tmp_path: Path) -> None:
    y = wave(X[:50]) + 0.1 * np.random.default_rng(4).logistic(size=50)
    model = GPRegressor(HELD, likelihood=Logistic(0.3), inference=inference, fixed=("kernel.*",), **QUICK).fit(X[:50], y)
    assert 0.05 < float(model.model_.likelihood.scale) < 0.2
    mean, std = model.predict(NEW[:20], return_std=True)
    assert np.sqrt(np.mean((mean - wave(NEW[:20])) ** 2)) < 0.15
    latent = model.predict(NEW[:20], return_std=True, latent=True)[1]
    noise = np.pi**2 / 3 * float(model.model_.likelihood.scale) ** 2
    np.testing.assert_allclose(std**2 - latent**2, noise, rtol=1e-4)
    q = model.predict_quantiles(FEW[:2], (0.1, 0.5, 0.9))
    assert (np.diff(q, axis=0) > 0).all()
    draws = model.sample_y(FEW[:2], 400, random_state=0)
    assert (np.abs((draws <= q[2][:, None]).mean(1) - 0.9) < 4 * np.sqrt(0.09 / 400)).all()
    assert "Logistic" in str(model.summary())
    with pytest.raises(CovaryError, match=r"save: the likelihood Logistic is a user's own; use one of covary\.likelihoods"):
        model.save(tmp_path / "m.covary")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_counts_of_ones_own_are_the_librarys(inference: str) -> None:
    ours, theirs = (
        GPRegressor(**HOLD, likelihood=likelihood, inference=inference).fit(X[:40], SEEN["poisson"][:40])
        for likelihood in (Counts(), Poisson())
    )
    assert ours.log_marginal_likelihood_ == pytest.approx(theirs.log_marginal_likelihood_, rel=1e-6)
    np.testing.assert_allclose(ours.predict(FEW, return_std=True), theirs.predict(FEW, return_std=True), rtol=1e-5)
    np.testing.assert_array_equal(ours.predict_quantiles(FEW), theirs.predict_quantiles(FEW))
    with pytest.raises(CovaryError, match=r"GPRegressor: y is 0\.5 at row 0; Counts counts are 0, 1, 2"):
        GPRegressor(likelihood=Counts()).fit(X[:2], [0.5, 1.0])


def test_frames_and_whole_numbers() -> None:
    frame = pd.DataFrame({"day": X[:60, 0]})
    cases = pd.Series(SEEN["poisson"][:60].astype(int), name="cases")
    model = GPRegressor(likelihood="poisson", **QUICK).fit(frame, cases, size=pd.Series(np.ones(60)))
    assert "lengthscale[day]" in str(model.summary())
    np.testing.assert_allclose(
        model.predict(pd.DataFrame({"day": FEW[:, 0]})),
        GPRegressor(likelihood="poisson", **QUICK).fit(X[:60], SEEN["poisson"][:60]).predict(FEW),
        rtol=1e-9,
    )
