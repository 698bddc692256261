"""GPClassifier: the front door of classification, with scikit-learn's habits."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit, ndtri
from sklearn.base import clone, is_classifier
from sklearn.metrics import accuracy_score, recall_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import covary
from covary import Data, GPClassifier, condition, log_evidence
from covary._checks import CovaryError
from covary.distributions import LogNormal
from covary.inference import EP, Laplace
from covary.kernels import Matern52, bounded, parse
from covary.metrics import decide
from covary.parameters import Packing, parameters

RNG = np.random.default_rng(7)
QUICK: dict[str, Any] = {"random_state": 0}
HELD = "2.0*Matern52(lengthscale=[1.5, 3.0]) + 1.0*Constant()"


def hill(x: np.ndarray) -> np.ndarray:
    return 2.0 * np.sin(1.5 * x[:, 0]) + 0.5 * x[:, 1]


X = RNG.uniform(-3.0, 3.0, (60, 2))
NEW = RNG.uniform(-3.0, 3.0, (40, 2))
UP = RNG.random(60) < expit(2 * hill(X))
TWO = np.where(UP, "yes", "no")
THREE = np.array(["low", "middle", "top"])[np.digitize(hill(X) + 0.5 * RNG.normal(size=60), [-0.7, 0.7])]
KINDS: dict[str, tuple[dict[str, Any], np.ndarray]] = {
    "two": ({}, TWO),
    "probit": ({"link": "probit"}, TWO),
    "EP": ({"inference": "ep"}, TWO),
    "shared": ({"class_kernels": "shared"}, THREE),
    "separate": ({"class_kernels": "separate"}, THREE),
    "one against the rest": ({"multi_class": "one_vs_rest"}, THREE),
    "one against the rest, EP": ({"multi_class": "one_vs_rest", "inference": "ep"}, THREE),
}
FITTED: dict[str, GPClassifier] = {}


def fitted(name: str) -> GPClassifier:
    """One fit of every kind, made when it is first asked for."""
    if name not in FITTED:
        options, y = KINDS[name]
        FITTED[name] = GPClassifier(**options, **QUICK).fit(X, y)
    return FITTED[name]


def same(a: Any, b: Any, X: Any = NEW) -> None:
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))


# labels ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_the_most_probable_classes_and_rows_add_up_to_one(kind: str) -> None:
    model, y = fitted(kind), KINDS[kind][1]
    p = model.predict_proba(NEW)
    assert p.shape == (40, len(np.unique(y)))
    assert ((p > 0) & (p < 1)).all()
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-9)
    np.testing.assert_array_equal(model.predict(NEW), model.classes_[p.argmax(1)])
    np.testing.assert_allclose(model.predict_log_proba(NEW), np.log(p))
    assert model.classes_.tolist() == sorted(set(y.tolist()))
    assert model.score(X, y) == accuracy_score(y, model.predict(X)) > 0.7
    assert model.predict_proba(NEW[:1]).shape == (1, p.shape[1])
    np.testing.assert_allclose(model.predict_proba(NEW[3:5]), p[3:5], rtol=1e-12)


def test_classes_keep_their_columns_whatever_their_names() -> None:
    turned = {"low": "z", "middle": "y", "top": "x"}
    model = GPClassifier(class_kernels="shared", **QUICK).fit(X, [turned[c] for c in THREE])
    assert model.classes_.tolist() == ["x", "y", "z"]
    np.testing.assert_allclose(model.predict_proba(NEW)[:, ::-1], fitted("shared").predict_proba(NEW), atol=1e-5)


def test_probabilities_are_good_ones() -> None:
    far = np.random.default_rng(0).uniform(-3, 3, (1000, 2))
    p, truth = fitted("two").predict_proba(far)[:, 1], expit(2 * hill(far))
    assert np.mean(np.abs(p - truth)) < 0.2
    cross = -np.mean(truth * np.log(p) + (1 - truth) * np.log(1 - p))
    assert cross < 0.75 * -np.mean(truth * np.log(UP.mean()) + (1 - truth) * np.log(1 - UP.mean()))


# averages, latent function, intervals -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["two", "probit", "EP"])
def test_the_average_over_the_latent_function_is_less_sure_than_its_mean(kind: str) -> None:
    model = fitted(kind)
    sure = model.predict_proba(NEW, average="map")[:, 1] - 0.5
    mean = model.predict_latent(NEW)
    for average in ("exact", "mackay", "erf5"):
        other = model.predict_proba(NEW, average=average)
        np.testing.assert_allclose(other.sum(1), 1, rtol=1e-9)
        assert (np.abs(other[:, 1] - 0.5) < np.abs(sure)).all()
        np.testing.assert_array_equal(np.sign(other[:, 1] - 0.5), np.sign(mean))
        np.testing.assert_allclose(other[:, 1], model.predict_proba(NEW)[:, 1], atol=0.02)
    np.testing.assert_array_equal(np.sign(sure), np.sign(mean))


def test_the_exact_average_is_the_integral() -> None:
    mean, std = fitted("two").predict_latent(NEW, return_std=True)
    z = np.linspace(-9, 9, 20001)
    weight = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi) * (z[1] - z[0])
    np.testing.assert_allclose(
        fitted("two").predict_proba(NEW)[:, 1], expit(mean[:, None] + std[:, None] * z) @ weight, rtol=1e-6
    )


@pytest.mark.parametrize("kind", ["shared", "separate"])
def test_the_softmax_averages_too(kind: str) -> None:
    model = fitted(kind)
    mean = model.predict_latent(NEW)
    e = np.exp(mean)
    np.testing.assert_allclose(model.predict_proba(NEW, average="map"), e / e.sum(1, keepdims=True), rtol=1e-9)
    assert model.predict_proba(NEW, average="map").max(1).mean() > model.predict_proba(NEW).max(1).mean()
    with pytest.raises(CovaryError, match="average is 'mackay'; choose 'exact' or 'map'"):
        model.predict_proba(NEW, average="mackay")


@pytest.mark.parametrize("kind", ["two", "probit", "EP"])
def test_the_decision_function_rises_with_the_probability_and_is_zero_at_the_border(kind: str) -> None:
    model = fitted(kind)
    value, p = model.decision_function(NEW), model.predict_proba(NEW)[:, 1]
    assert value.shape == (40,)
    order = np.argsort(p)
    assert (np.diff(value[order]) >= 0).all()
    np.testing.assert_array_equal(model.predict(NEW), np.where(value > 0, "yes", "no"))
    np.testing.assert_allclose(value, np.log(p / (1 - p)), rtol=1e-9)


@pytest.mark.parametrize("kind", ["shared", "separate", "one against the rest"])
def test_the_decision_function_of_many_classes_has_a_column_each(kind: str) -> None:
    value, p = fitted(kind).decision_function(NEW), fitted(kind).predict_proba(NEW)
    assert value.shape == p.shape
    np.testing.assert_array_equal(value.argsort(1), p.argsort(1))


@pytest.mark.parametrize("kind", KINDS)
def test_the_latent_function_has_a_column_for_each_of_many_classes(kind: str) -> None:
    model = fitted(kind)
    mean, std = model.predict_latent(NEW, return_std=True)
    shape = (40,) if len(model.classes_) == 2 else (40, 3)
    assert mean.shape == std.shape == shape
    assert (std > 0).all()
    np.testing.assert_allclose(model.predict_latent(NEW), mean, rtol=1e-9, atol=1e-12)
    if hasattr(model, "posterior_"):
        f = model.posterior_.predict(NEW).f
        np.testing.assert_array_equal(mean, f.mean)
        np.testing.assert_array_equal(std, f.std)


@pytest.mark.parametrize("kind", ["two", "probit", "EP"])
def test_intervals_hold_the_probability_at_the_mean_and_grow_with_their_level(kind: str) -> None:
    model = fitted(kind)
    middle = model.predict_proba(NEW, average="map")[:, 1]
    low, high = model.predict_interval(NEW)
    assert ((low > 0) & (low < middle) & (middle < high) & (high < 1)).all()
    inner_low, inner_high = model.predict_interval(NEW, level=0.5)
    assert ((low < inner_low) & (inner_high < high)).all()
    if kind == "two":
        mean, std = model.predict_latent(NEW, return_std=True)
        np.testing.assert_allclose(inner_high, expit(mean + ndtri(0.75) * std), rtol=1e-9)
    for level in (0.0, 1.0, 95):
        with pytest.raises(CovaryError, match=f"predict_interval: level is {level}; give a number between 0 and 1"):
            model.predict_interval(NEW, level=level)


def test_intervals_are_for_two_classes() -> None:
    for kind in ("shared", "one against the rest"):
        with pytest.raises(CovaryError, match="predict_interval: there are 3 classes; use it with two"):
            fitted(kind).predict_interval(NEW)


# draws and decisions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["two", "EP", "shared", "separate", "one against the rest"])
def test_labels_are_drawn_as_often_as_they_are_probable(kind: str) -> None:
    model, n = fitted(kind), 4000
    draws = model.sample_y(NEW[:6], n, random_state=1)
    assert draws.shape == (6, n)
    assert draws.dtype == model.classes_.dtype
    p = model.predict_proba(NEW[:6])
    share = (draws[:, :, None] == model.classes_).mean(1)
    assert (np.abs(share - p) < 4 * np.sqrt(p * (1 - p) / n)).all()
    np.testing.assert_array_equal(model.sample_y(NEW[:6], 5, random_state=2), model.sample_y(NEW[:6], 5, random_state=2))
    assert model.sample_y(NEW[:6]).shape == (6, 1)
    assert (model.sample_y(NEW, 5, random_state=2) != model.sample_y(NEW, 5, random_state=3)).any()


def test_draws_of_two_classes_are_joint() -> None:
    close = np.add(np.repeat(NEW[:1], 2, 0), [[0.0, 0.0], [1e-6, 0.0]])
    model = GPClassifier("25.0*Matern52()", fixed="*", **QUICK).fit(X[:4], [0, 1, 0, 1])
    a, b = model.sample_y(close, 4000, random_state=0)
    assert np.corrcoef(a, b)[0, 1] > 0.5  # the same latent value behind both


@pytest.mark.parametrize("kind", ["two", "separate", "one against the rest"])
def test_decisions_are_those_of_least_expected_loss(kind: str) -> None:
    model = fitted(kind)
    C = len(model.classes_)
    loss = 1.0 - np.eye(C)
    np.testing.assert_array_equal(model.decide(NEW, loss), model.predict(NEW))
    loss[-1, :-1] = 30.0  # to miss the last class is expensive
    p = model.predict_proba(NEW)
    chosen = model.decide(NEW, loss)
    np.testing.assert_array_equal(chosen, decide(p, loss, model.classes_))
    assert (chosen == model.classes_[-1]).sum() > (model.predict(NEW) == model.classes_[-1]).sum()
    np.testing.assert_array_equal(model.decide(NEW, None), model.predict(NEW))


def test_a_further_column_of_the_loss_is_the_cost_of_rejecting() -> None:
    model = fitted("two")
    loss = [[0.0, 1.0, 0.2], [1.0, 0.0, 0.2]]
    unsure = model.predict_proba(NEW).max(1) < 0.8
    assert 0 < unsure.sum() < 40
    np.testing.assert_array_equal(model.decide(NEW, loss), np.where(unsure, None, model.predict(NEW)))
    assert set(model.decide(NEW, loss, rejected="ask")) == {"yes", "no", "ask"}
    with pytest.raises(CovaryError, match=r"loss has shape \(3, 3\) for 2 classes"):
        model.decide(NEW, np.eye(3))


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
    wide = np.hstack([X, RNG.normal(size=(60, 31))])  # 3 · 35 parameters are too many
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


# files ----------------------------------------------------------------------------------------------------------

FILES: dict[str, Callable[[], GPClassifier]] = {
    **{kind: (lambda kind=kind: fitted(kind)) for kind in KINDS},
    "frame": lambda: GPClassifier(**QUICK).fit(pd.DataFrame(X, columns=["a", "b"]), TWO),
    "frame, one against the rest": lambda: GPClassifier(multi_class="one_vs_rest", **QUICK).fit(
        pd.DataFrame(X, columns=["a", "b"]), THREE
    ),
    "weights": lambda: GPClassifier(class_weight={"low": 2.0}, **QUICK).fit(X, THREE, sample_weight=np.linspace(0.1, 2, 60)),
    "weights of booleans": lambda: GPClassifier(class_weight={True: 2.0, False: 0.5}, **QUICK).fit(X, UP),
    "balanced": lambda: GPClassifier(class_weight="balanced", **QUICK).fit(X, TWO),
    "whole numbers": lambda: GPClassifier(**QUICK).fit(X, np.where(UP, 10, -10)),
    "a list of kernels": lambda: GPClassifier(("Matern52()", "Linear()", "2*Matern12()"), **QUICK).fit(X, THREE),
    "objects": lambda: GPClassifier(HELD, inference=EP(power=0.5), mean="constant", fixed="kernel.*").fit(X[:20], TWO[:20]),
    "nothing to learn": lambda: GPClassifier(HELD, fixed="*", inference=Laplace(50)).fit(X, TWO),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_gives_the_model_back(name: str, tmp_path: Path) -> None:
    model, path = FILES[name](), tmp_path / "m.covary"
    model.save(path)
    again = covary.load(path)
    new = pd.DataFrame(NEW, columns=["a", "b"]) if name.startswith("frame") else NEW
    same(again, model, new)
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    assert again.predict(new).dtype == model.predict(new).dtype
    np.testing.assert_array_equal(again.sample_y(new, 3), model.sample_y(new, 3))
    assert again.classes_.dtype == model.classes_.dtype
    assert again.log_marginal_likelihood_ == model.log_marginal_likelihood_
    assert str(again.summary()) == str(model.summary())
    covary.save(again, tmp_path / "twice.covary")
    assert (tmp_path / "twice.covary").read_bytes() == path.read_bytes()
    if name in KINDS or name == "a list of kernels":
        same(again.fit(X, KINDS[name][1] if name in KINDS else THREE), model)


# the summary ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_summary_names_the_classes_and_how_it_went(kind: str) -> None:
    model, y = fitted(kind), KINDS[kind][1]
    text = str(model.summary())
    assert text.startswith("Gaussian-process classification")
    for c in model.classes_:
        assert f"{c} ({(y == c).sum()})" in text
    assert f"{model.log_marginal_likelihood_:.3f}" in text
    assert "nan" not in text.lower()
    assert "note" not in text
    if not hasattr(model, "estimators_"):
        assert f"{type(model.inference_).__name__}: converged" in text
        assert "learning" in text
    html = model._repr_html_()
    assert html.startswith("<div>")
    assert "classes" in html
    assert "GPClassifier" in GPClassifier()._repr_html_()


def test_the_summary_warns_where_the_data_say_little() -> None:
    gap = X[np.abs(X[:, 0]) > 0.2]
    apart = GPClassifier(**QUICK).fit(gap, np.where(gap[:, 0] > 0, "<b>", "a&b"))
    assert "the classes do not overlap" in str(apart.summary())
    assert "&lt;b&gt;" in apart._repr_html_()
    for options, y in (({}, np.digitize(gap[:, 0], [-1, 0])), ({"inference": "ep"}, gap[:, 0] > 0)):
        x = gap[np.abs(gap[:, 0] + 1) > 0.2]
        model = GPClassifier(**options, **QUICK).fit(x, y[np.abs(gap[:, 0] + 1) > 0.2])
        assert "the classes do not overlap" in str(model.summary())
    rare = GPClassifier(**QUICK).fit(X, np.where(np.arange(60) == 3, "odd", TWO))
    assert "one row only of class odd: little can be learned about it" in str(rare.summary())
    short = GPClassifier(HELD, fixed="*", inference=Laplace(1)).fit(X, TWO)
    assert "the approximation did not settle (reached max_steps)" in str(short.summary())
