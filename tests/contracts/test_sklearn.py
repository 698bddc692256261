"""Compatibility with scikit-learn: its estimator checks, pipelines, searches and meta-estimators."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from covary import GPClassifier, GPRegressor
from covary.kernels import Matern12, Matern52, SquaredExponential

RNG = np.random.default_rng(11)
X = RNG.normal(size=(40, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=40)
QUICK = {"n_restarts": 0, "random_state": 0}


@pytest.mark.filterwarnings("ignore")  # the checks pass lists, renamed columns etc.
@parametrize_with_checks([GPRegressor(), GPClassifier()])
def test_every_check_of_scikit_learn(estimator, check) -> None:
    check(estimator)


def test_in_a_pipeline_with_frames() -> None:
    frame = pd.DataFrame(X, columns=["a", "b"])
    pipe = make_pipeline(StandardScaler(), GPRegressor(**QUICK)).set_output(transform="pandas").fit(frame, Y)
    assert list(pipe[-1].feature_names_in_) == ["a", "b"]
    mean, std = pipe.predict(frame, return_std=True)
    assert mean.shape == std.shape == (40,)
    with pytest.raises(ValueError, match="feature names should match"):
        pipe.predict(frame.rename(columns={"a": "z"}))


def test_grid_search_over_a_kernel_path_and_over_whole_kernels() -> None:
    model = GPRegressor("1.0 * Matern52(lengthscale=fixed(1.0))", **QUICK)
    scales = GridSearchCV(model, {"kernel__lengthscale": [0.01, 0.7]}, cv=3).fit(X, Y)
    assert scales.best_params_ == {"kernel__lengthscale": 0.7}
    assert float(scales.best_estimator_.model_.kernel.kernel.lengthscale) == 0.7  # fixed, as the text says
    kernels = [1.0 * Matern52(), "1.0 * SquaredExponential()", 1.0 * Matern12()]
    chosen = GridSearchCV(GPRegressor(**QUICK), {"kernel": kernels, "mean": ["zero", "constant"]}, cv=3).fit(X, Y)
    assert chosen.best_score_ > 0.7
    assert len(chosen.cv_results_["params"]) == 6
    pipe = Pipeline([("scale", StandardScaler()), ("gp", GPRegressor("Matern52()", **QUICK))])
    pipe.set_params(gp__kernel__lengthscale=3.0)
    assert float(pipe["gp"].kernel.lengthscale) == 3.0


def test_two_processes_are_bit_identical_to_one() -> None:
    model = GPRegressor(**QUICK)
    one, two = (cross_val_predict(model, X, Y, cv=4, n_jobs=jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_clones_are_equal_and_unfitted() -> None:
    model = GPRegressor(2.0 * SquaredExponential(lengthscale=[1.0, 2.0]), priors=None, noise=0.1, **QUICK).fit(X, Y)
    copy = clone(model)
    assert copy.kernel == model.kernel
    assert not hasattr(copy, "posterior_")
    np.testing.assert_array_equal(copy.fit(X, Y).predict(X), model.predict(X))


def test_known_noise_and_weights_are_routed() -> None:
    weight, noise = RNG.uniform(0.5, 2.0, 40), RNG.uniform(0.0, 0.2, 40)
    with sklearn.config_context(enable_metadata_routing=True):
        model = GPRegressor("1.0 * Matern52()", **QUICK).set_fit_request(noise_variance=True, sample_weight=True)
        pipe = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        direct = GPRegressor("1.0 * Matern52()", **QUICK)
        scaled = StandardScaler().fit_transform(X)
        np.testing.assert_array_equal(
            pipe.fit(X, Y, noise_variance=noise, sample_weight=weight).predict(X),
            direct.fit(scaled, Y, noise_variance=noise, sample_weight=weight).predict(scaled),
        )
        model.set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"mean": ["zero", "constant"]}, cv=2)
        search.fit(X, Y, noise_variance=noise, sample_weight=weight)
        assert hasattr(search, "best_params_")


def test_frames_of_polars_and_pandas_and_arrays_agree() -> None:
    names = ["a", "b"]
    frames = [X, pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)]
    models = [GPRegressor(**QUICK).fit(f, Y) for f in frames]
    for frame, model in zip(frames, models, strict=True):
        np.testing.assert_array_equal(model.predict(frame), models[0].predict(X))
    for model in models[1:]:
        assert list(model.feature_names_in_) == names
        assert "kernel.lengthscale[b]" in str(model.summary())
    with pytest.raises(ValueError, match="feature names should match"):
        models[2].predict(pl.DataFrame(X, schema=["a", "c"]))
    series = GPRegressor(**QUICK).fit(frames[2], pl.Series("y", Y))
    np.testing.assert_array_equal(series.predict(frames[2]), models[0].predict(X))


def test_inside_meta_estimators() -> None:
    logged = TransformedTargetRegressor(GPRegressor(**QUICK), func=np.log, inverse_func=np.exp).fit(X, np.exp(Y))
    assert logged.score(X, np.exp(Y)) > 0.9
    both = MultiOutputRegressor(GPRegressor(**QUICK)).fit(X, np.column_stack([Y, -Y]))
    assert both.predict(X).shape == (40, 2)
    assert cross_val_score(GPRegressor(**QUICK), X, Y, cv=3).mean() > 0.7


def test_weight_two_repeats_a_row_and_weight_zero_omits_it() -> None:
    weight = RNG.integers(0, 3, 40)
    weighted = GPRegressor(**QUICK).fit(X, Y, sample_weight=weight)
    repeated = GPRegressor(**QUICK).fit(np.repeat(X, weight, 0), np.repeat(Y, weight))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6)
    assert weighted.log_marginal_likelihood_ == pytest.approx(repeated.log_marginal_likelihood_, rel=1e-9)
    with pytest.raises(ValueError, match="every sample_weight is zero"):
        GPRegressor().fit(X, Y, sample_weight=np.zeros(40))
    with pytest.raises(ValueError, match="sample_weight is -1 at row 2; give zero or more"):
        GPRegressor().fit(X[:3], Y[:3], sample_weight=[1, 1, -1])


def test_update_adds_rows_and_keeps_the_hyperparameters() -> None:
    model = GPRegressor(**QUICK).fit(X[:30], Y[:30])
    held = GPRegressor(
        model.model_.kernel, mean=model.model_.mean, noise=model.model_.likelihood.variance, fixed="*", priors=None
    )
    kernel = repr(model.model_)
    model.update(X[30:], Y[30:])
    assert repr(model.model_) == kernel
    held.fit(X, Y)
    np.testing.assert_allclose(model.predict(X, return_std=True)[1], held.predict(X, return_std=True)[1], rtol=1e-9)
    assert model.log_marginal_likelihood_ == pytest.approx(held.log_marginal_likelihood_, rel=1e-9)
    model.update(X[:5], Y[:5] + 0.1)  # inputs seen before: merged
    assert model.posterior_.data.rows == 40
    assert model.posterior_.data.weight.sum() == 45
    several = GPRegressor(**QUICK).fit(X[:30], np.column_stack([Y, 50 + 9 * Y])[:30])
    several.update(X[30:], np.column_stack([Y, 50 + 9 * Y])[30:])
    assert several.predict(X).shape == (40, 2)
    with pytest.raises(ValueError, match="give the outputs the model was fitted to"):
        several.update(X[:2], Y[:2])
    with pytest.raises(ValueError, match="features"):
        model.update(X[:2, :1], Y[:2])
