"""GPClassifier: predictions, samples, decisions, files and summary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, ndtri
from sklearn.metrics import accuracy_score

import covary
from covary import GPClassifier
from covary._checks import CovaryError
from covary.inference import EP, Laplace
from covary.metrics import decide
from unit.classified import HELD, KINDS, NEW, QUICK, THREE, TWO, UP, X, fitted, hill, same

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
    for average in ("exact",) if model.link == "probit" else ("exact", "mackay", "erf5"):
        other = model.predict_proba(NEW, average=average)
        np.testing.assert_allclose(other.sum(1), 1, rtol=1e-9)
        assert (np.abs(other[:, 1] - 0.5) < np.abs(sure)).all()
        np.testing.assert_array_equal(np.sign(other[:, 1] - 0.5), np.sign(mean))
        np.testing.assert_allclose(other[:, 1], model.predict_proba(NEW)[:, 1], atol=0.02)
    np.testing.assert_array_equal(np.sign(sure), np.sign(mean))


@pytest.mark.parametrize("average", ["mackay", "erf5"])
def test_approximations_for_the_logit_are_refused_with_the_probit(average: str) -> None:
    with pytest.raises(CovaryError, match=f"average is '{average}' with the probit link; choose 'exact' or 'map'") as e:
        fitted("probit").predict_proba(NEW, average=average)
    assert e.value.argument == "average"


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
    assert "only one row of class odd: little can be learned about it" in str(rare.summary())
    short = GPClassifier(HELD, fixed="*", inference=Laplace(1)).fit(X, TWO)
    assert "the approximation did not converge (stopped after 1 step)" in str(short.summary())


def test_classes_that_take_turns_along_one_input_are_found() -> None:
    """From a long length-scale alone they look like the toss of a coin."""
    x = np.linspace(0, 20, 200)[:, None]
    y = np.where(np.sin(3 * x[:, 0]) > 0, "up", "down")
    assert GPClassifier(random_state=0).fit(x, y).score(x, y) > 0.9
    three = np.digitize(np.sin(2 * x[:, 0]), [-0.5, 0.5])
    assert GPClassifier(random_state=0).fit(x, three).score(x, three) > 0.8
