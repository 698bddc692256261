"""GPClassifier: weights, choices of model and inference, scikit-learn conventions."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit
from sklearn.base import clone, is_classifier
from sklearn.metrics import recall_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from covary import Data, GPClassifier, condition, log_evidence
from covary._checks import CovaryError
from covary.distributions import LogNormal
from covary.inference import EP, Laplace
from covary.kernels import Matern52, bounded, parse
from covary.parameters import Packing, parameters
from unit.classified import HELD, KINDS, NEW, QUICK, THREE, TWO, UP, X, fitted, same

# weights --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["two", "EP", "separate", "one against the rest"])
def test_weight_two_is_the_row_twice_and_weight_zero_is_no_row(kind: str) -> None:
    options, y = KINDS[kind]
    options = {**options, "kernel": HELD, "fixed": ("kernel.0.*",)} if kind == "EP" else options
    weight = np.arange(60) % 3
    weighted = GPClassifier(**options, **QUICK).fit(X, y, sample_weight=weight)
    repeated = GPClassifier(**options, **QUICK).fit(np.repeat(X, weight, 0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.predict_proba(NEW), repeated.predict_proba(NEW), atol=1e-6)
    assert weighted.log_marginal_likelihood_ == pytest.approx(repeated.log_marginal_likelihood_, rel=1e-8)
    np.testing.assert_allclose(weighted.class_count_, repeated.class_count_)


def test_equal_rows_are_merged_without_loss() -> None:
    model = GPClassifier(HELD, fixed="*", **QUICK)
    one = model.fit(np.vstack([X, X]), np.concatenate([TWO, TWO]))
    assert one.posterior_.data.rows == 60
    apart = condition(one.model_, Data(np.vstack([X, X]), np.concatenate([UP, UP])), inference=Laplace())
    assert one.log_marginal_likelihood_ == pytest.approx(apart.log_evidence, rel=1e-6)
    np.testing.assert_allclose(one.predict_latent(NEW), apart.predict(NEW).f.mean, atol=1e-5)
    assert one.class_count_.sum() == 120


@pytest.mark.parametrize("kind", ["two", "separate", "one against the rest"])
def test_weights_by_class_are_weights_by_row(kind: str) -> None:
    options, y = KINDS[kind]
    given = {"yes": 3.0} if kind == "two" else {"low": 3.0, "top": 0.5}
    by_class = GPClassifier(class_weight=given, **options, **QUICK).fit(X, y)
    by_row = GPClassifier(**options, **QUICK).fit(X, y, sample_weight=[given.get(c, 1.0) for c in y])
    same(by_class, by_row)
    both = GPClassifier(class_weight=given, **options, **QUICK).fit(X, y, sample_weight=np.full(60, 2.0))
    twice = GPClassifier(**options, **QUICK).fit(X, y, sample_weight=[2 * given.get(c, 1.0) for c in y])
    same(both, twice)
    nothing = GPClassifier(class_weight=dict.fromkeys(np.unique(y), 1.0), **options, **QUICK).fit(X, y)
    same(nothing, fitted(kind))


@pytest.mark.parametrize("kind", ["separate", "one against the rest"])
def test_a_class_of_weight_zero_is_no_class_however_it_is_said(kind: str) -> None:
    options, y = KINDS[kind]
    by_row = GPClassifier(**options, **QUICK).fit(X, y, sample_weight=(y != "low").astype(float))
    assert by_row.classes_.tolist() == ["middle", "top"]
    by_class = GPClassifier(class_weight={"low": 0.0}, **options, **QUICK).fit(X, y)
    assert by_class.classes_.tolist() == ["middle", "top"]
    same(by_class, by_row)


def test_balanced_weights_raise_the_recall_of_a_rare_class() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 1))
    y = np.where(rng.random(200) < expit(2.0 * x[:, 0] - 3.5), "rare", "common")
    xt = rng.normal(size=(1000, 1))
    yt = np.where(rng.random(1000) < expit(2.0 * xt[:, 0] - 3.5), "rare", "common")
    plain, balanced = (GPClassifier(class_weight=w, **QUICK).fit(x, y) for w in (None, "balanced"))
    recall = [recall_score(yt, m.predict(xt), pos_label="rare") for m in (plain, balanced)]
    assert recall[1] > recall[0] + 0.1
    np.testing.assert_allclose(balanced.class_count_, [100, 100])
    same(
        balanced,
        GPClassifier(class_weight={"rare": 100 / (y == "rare").sum(), "common": 100 / (y != "rare").sum()}, **QUICK).fit(x, y),
        xt,
    )


# choices --------------------------------------------------------------------------------------------------------


def test_inference_by_name_and_as_an_object() -> None:
    same(GPClassifier(inference=Laplace(), **QUICK).fit(X, TWO), fitted("two"))
    same(GPClassifier(inference=EP(), **QUICK).fit(X, TWO), fitted("EP"))
    assert isinstance(fitted("two").inference_, Laplace)
    assert isinstance(fitted("EP").inference_, EP)
    held = {"kernel": HELD, "fixed": "*"}
    parallel = GPClassifier(inference="ep", **held).fit(X, TWO)
    np.testing.assert_allclose(GPClassifier(**held).fit(X, TWO).predict_proba(NEW), parallel.predict_proba(NEW), atol=0.1)
    one_by_one = GPClassifier(inference=EP(schedule="sequential"), **held).fit(X, TWO)
    np.testing.assert_allclose(one_by_one.predict_proba(NEW), parallel.predict_proba(NEW), atol=1e-7)
    assert one_by_one.log_marginal_likelihood_ == pytest.approx(parallel.log_marginal_likelihood_, abs=1e-6)


def test_links() -> None:
    probit, logit = fitted("probit"), fitted("two")
    assert probit.model_.likelihood.link == "probit"
    assert logit.model_.likelihood.link == "logit"
    np.testing.assert_allclose(probit.predict_proba(NEW), logit.predict_proba(NEW), atol=0.1)
    assert np.abs(logit.predict_latent(NEW)).mean() > 1.2 * np.abs(probit.predict_latent(NEW)).mean()


def test_one_model_of_all_classes_and_one_against_the_rest() -> None:
    softmax, rest = fitted("separate"), fitted("one against the rest")
    assert [e.classes_.tolist() for e in rest.estimators_] == [[False, True]] * 3
    assert np.mean(softmax.predict(NEW) == rest.predict(NEW)) > 0.7
    assert rest.log_marginal_likelihood_ == pytest.approx(sum(e.log_marginal_likelihood_ for e in rest.estimators_))
    same(GPClassifier(multi_class="one_vs_rest", **QUICK).fit(X, TWO), fitted("two"))  # two classes need no rest


def test_classes_share_a_kernel_or_have_their_own() -> None:
    assert Packing(fitted("shared").model_).size == 4
    assert Packing(fitted("separate").model_).size == 12
    auto = GPClassifier(**QUICK).fit(X, THREE)
    same(auto, fitted("separate"))
    wide = np.hstack([X, np.random.default_rng(8).normal(size=(60, 31))])  # 3 · 35 parameters are too many
    for choice, size in (("auto", 35), ("separate", 105)):
        model = GPClassifier(class_kernels=choice, max_time=0.5, **QUICK).fit(wide, THREE)
        assert Packing(model.model_).size == size
    assert "one for each of 3 functions" in str(fitted("separate").summary())
    assert fitted("separate").log_marginal_likelihood_ > fitted("shared").log_marginal_likelihood_ - 5


def test_a_list_holds_a_kernel_for_each_class() -> None:
    given = ["Matern52()", 2.0 * Matern52(), "SquaredExponential() + Linear()"]
    model = GPClassifier(given, **QUICK).fit(X, THREE)
    assert [type(k).__name__ for k in model.model_.kernel] == ["Matern52", "Scaled", "Sum"]
    assert Packing(model.model_).size == 1 + 2 + 2
    assert model.kernel is given
    for wrong in (given[:2], given + given[:1]):
        with pytest.raises(CovaryError, match=rf"kernel is a list of {len(wrong)}; give one kernel, or one for each of 3"):
            GPClassifier(wrong, **QUICK).fit(X, THREE)
    with pytest.raises(CovaryError, match="kernel is a list"):
        GPClassifier(given, multi_class="one_vs_rest", **QUICK).fit(X, THREE)
    with pytest.raises(CovaryError, match="kernel is a list"):
        GPClassifier(given, **QUICK).fit(X, TWO)


def test_kernels_as_text_and_paths_of_their_parameters() -> None:
    text = "1.0*Matern52(lengthscale=[1.0, 2.0]) + 0.5*Linear()"
    model = GPClassifier(text, **QUICK).fit(X, TWO)
    same(model, GPClassifier(parse(text), **QUICK).fit(X, TWO))
    assert model.kernel is text
    model = GPClassifier(
        text,
        fixed=("kernel.1.*",),
        bounds={"kernel.0.variance": (0.1, 0.5)},
        priors={"kernel.0.lengthscale": LogNormal(3.0, scale=0.05)},
        **QUICK,
    ).fit(X, TWO)
    found = {path: p.value for path, p in parameters(model.model_).items()}
    assert float(found["kernel.1.variance"]) == 0.5
    assert 0.1 <= float(found["kernel.0.variance"]) <= 0.5
    np.testing.assert_allclose(found["kernel.0.lengthscale"], np.exp(3.0), rtol=0.2)
    summary = str(model.summary())
    for words in ("at its bound", "fixed", "LogNormal(3, 0.05)"):
        assert words in summary
    many = GPClassifier("Matern52()", bounds={"kernel.1.lengthscale": (0.1, 0.2)}, fixed=("kernel.2.*",), **QUICK).fit(X, THREE)
    scales = [float(k.lengthscale) for k in many.model_.kernel]
    assert scales[1] <= 0.2 + 1e-9
    assert scales[2] == 1.0
    marked = GPClassifier(bounded(1.0, 0.9, 1.1) * Matern52(), **QUICK).fit(X, TWO)
    assert 0.9 <= float(parameters(marked.model_)["kernel.variance"].value) <= 1.1


@pytest.mark.parametrize("mean", ["zero", "constant", "linear"])
def test_means_of_the_latent_function(mean: str) -> None:
    model = GPClassifier(mean=mean, **QUICK).fit(X, TWO)
    assert model.score(X, TWO) > 0.7
    assert ("mean." in str(model.summary())) == (mean != "zero")
    prior = GPClassifier("1.0*Matern52()", mean=lambda x: 2.0 + 0.0 * x[0], fixed="*").fit(X, TWO)
    np.testing.assert_allclose(prior.predict_latent([[1e6, 1e6]]), 2.0, atol=1e-6)  # far away the prior's own


def test_nothing_is_learned_where_all_is_fixed() -> None:
    for y in (TWO, THREE):
        model = GPClassifier(HELD, fixed="*").fit(X, y)
        assert model.learned_ is None
        assert "learning" not in str(model.summary())
        kernel = model.model_.kernel
        for one in kernel if isinstance(kernel, tuple) else (kernel,):
            values = {path: np.asarray(p.value).tolist() for path, p in parameters(one).items()}
            assert values == {"0.variance": 2.0, "0.lengthscale": [1.5, 3.0], "1.variance": 1.0}
        assert np.isfinite(model.predict_proba(NEW)).all()


def test_learning_stops_in_time() -> None:
    model = GPClassifier(max_time=1e-3, **QUICK).fit(X, THREE)
    assert "time" in model.learned_.status
    assert np.isfinite(model.predict_proba(NEW)).all()
    assert np.isfinite(model.log_marginal_likelihood_)


def test_the_evidence_is_that_of_the_learned_model() -> None:
    for kind, codes, inference in (
        ("two", UP, Laplace()),
        ("EP", UP, EP()),
        ("separate", np.unique(THREE, return_inverse=True)[1], Laplace()),
    ):
        model = fitted(kind)
        expected = log_evidence(model.model_, Data(X, codes.astype(float)), inference=inference)
        assert model.log_marginal_likelihood_ == pytest.approx(float(expected), rel=1e-8)
        assert model.learned_.status == "converged"
    rest = fitted("one against the rest")
    parts = [
        log_evidence(e.model_, Data(X, np.equal(THREE, c) * 1.0), inference=Laplace())
        for c, e in zip(rest.classes_, rest.estimators_, strict=True)
    ]
    assert rest.log_marginal_likelihood_ == pytest.approx(float(sum(parts)), rel=1e-8)


# leaving one out --------------------------------------------------------------------------------------------------


def test_leaving_one_out_under_ep_is_close_to_fitting_without_each_row() -> None:
    x, y = X[:25], UP[:25].astype(float)
    held = GPClassifier(HELD, fixed="*", inference="ep").fit(x, y)
    left = held.posterior_.leave_one_out()
    for i in range(0, 25, 3):
        rest = np.arange(25) != i
        again = condition(held.model_, Data(x[rest], y[rest]), inference=EP()).predict(x[i : i + 1])
        assert left.mean[i] == pytest.approx(again.f.mean[0], abs=0.1)
        assert left.variance[i] == pytest.approx(again.f.variance[0], rel=0.1)
        assert left.log_prob[i] == pytest.approx(again.y.log_prob(y[i : i + 1])[0], abs=0.05)
    with pytest.raises(CovaryError, match=r"several latent functions .* cross-validate"):
        fitted("separate").posterior_.leave_one_out()


# tables and scikit-learn --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["two", "separate", "one against the rest"])
def test_frames_of_pandas_and_polars(kind: str) -> None:
    options, y = KINDS[kind]
    names = ["height", "depth of water"]
    for make in (lambda a: pd.DataFrame(a, columns=names), lambda a: pl.DataFrame(a, schema=names)):
        model = GPClassifier(**options, **QUICK).fit(make(X), y)
        assert list(model.feature_names_in_) == names
        assert model.n_features_in_ == 2
        np.testing.assert_array_equal(model.predict_proba(make(NEW)), fitted(kind).predict_proba(NEW))
        assert "lengthscale[depth of water]" in str(model.summary())
        assert model.sample_y(make(NEW)).shape == (40, 1)
    with pytest.raises(ValueError, match="feature names should match"):
        GPClassifier(**QUICK).fit(pd.DataFrame(X, columns=names), y).predict(pd.DataFrame(NEW, columns=["h", names[1]]))
    with pytest.raises(ValueError, match="X has 1 features, but GPClassifier is expecting 2"):
        fitted(kind).predict(NEW[:, :1])
    with pytest.raises(ValueError, match="X is NaN at row 0, column 1"):
        fitted(kind).predict_proba([[0.0, np.nan]])


@pytest.mark.parametrize("kind", KINDS)
def test_pickles_and_clones(kind: str) -> None:
    y = KINDS[kind][1]
    again = pickle.loads(pickle.dumps(fitted(kind)))
    same(again, fitted(kind))
    assert str(again.summary()) == str(fitted(kind).summary())
    copy = clone(fitted(kind))
    assert not hasattr(copy, "classes_")
    assert copy.get_params() == fitted(kind).get_params()
    same(copy.fit(X, y), fitted(kind))  # the same bits with the same random_state


def test_the_same_seed_gives_the_same_bits_with_restarts() -> None:
    a, b = (GPClassifier(n_restarts=2, random_state=5).fit(X, TWO) for _ in range(2))
    same(a, b)
    assert a.learned_.value >= fitted("two").learned_.value - 1e-3  # further starts never end lower


def test_scikit_learn_takes_it_for_a_classifier() -> None:
    assert is_classifier(GPClassifier())
    one, two = (cross_val_score(GPClassifier(**QUICK), X, TWO, cv=3, n_jobs=jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(one, two)
    assert one.mean() > 0.65
    p = cross_val_predict(GPClassifier(**QUICK), X, THREE, cv=3, method="predict_proba")
    assert p.shape == (60, 3)
    search = GridSearchCV(
        GPClassifier(HELD, fixed="*"), {"kernel__0__lengthscale": [[0.01, 0.01], [1.5, 3.0]]}, cv=3, scoring="neg_log_loss"
    )
    assert search.fit(X, TWO).best_params_ == {"kernel__0__lengthscale": [1.5, 3.0]}
    pipe = make_pipeline(StandardScaler(), GPClassifier(**QUICK)).fit(X, TWO)
    np.testing.assert_allclose(pipe.predict_proba(NEW), fitted("two").predict_proba(NEW), atol=1e-4)
    assert not hasattr(GPClassifier(), "update")


def test_units_of_the_inputs_do_not_matter() -> None:
    moved = GPClassifier(**QUICK).fit(1e3 * X - 7, TWO)
    np.testing.assert_allclose(moved.predict_proba(1e3 * NEW - 7), fitted("two").predict_proba(NEW), atol=1e-4)


def test_a_second_fit_forgets_the_first() -> None:
    model = GPClassifier(multi_class="one_vs_rest", **QUICK).fit(X, THREE)
    same(model.fit(X, TWO), fitted("two"))
    model.fit(X, THREE)
    same(model.set_params(multi_class="softmax").fit(X, THREE), fitted("separate"))
    assert not hasattr(model, "estimators_")
    model.set_params(multi_class="one_vs_rest").fit(X, THREE)
    same(model, fitted("one against the rest"))
    assert not hasattr(model, "posterior_")
