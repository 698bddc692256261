"""Unusual and invalid labels and observations: handled correctly, or an error that states the problem and a remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.exceptions import NotFittedError

from covary import GPClassifier, GPRegressor, metrics
from covary._checks import CovaryError
from covary.inference import Exact
from covary.likelihoods import Ordinal, Poisson

RNG = np.random.default_rng(13)
X = RNG.uniform(-3.0, 3.0, (24, 2))
UP = X[:, 0] + 0.8 * RNG.normal(size=24) > 0
TWO = np.where(UP, "yes", "no")
THREE = np.array(["low", "middle", "top"])[np.digitize(X[:, 0] + 0.8 * RNG.normal(size=24), [-1, 1])]
COUNTS = RNG.poisson(3.0, 24).astype(float)
QUICK: dict[str, Any] = {"random_state": 0}
FAST: dict[str, Any] = {"n_restarts": 0, "random_state": 0}


def put(y: Any, value: Any, row: int = 3) -> np.ndarray:
    out = np.array(y, dtype=object if not isinstance(value, float) or np.asarray(y).dtype.kind in "US" else float)
    out[row] = value
    return out


def sound(model: GPClassifier, X: Any) -> np.ndarray:
    p = model.predict_proba(X)
    assert np.isfinite(p).all()
    assert ((p > 0) & (p < 1)).all()
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-9)
    assert np.isfinite(model.decision_function(X)).all()
    assert np.isfinite(model.log_marginal_likelihood_)
    assert "nan" not in str(model.summary()).lower()
    return p


# labels of every kind ---------------------------------------------------------------------------------------------

LABELS: dict[str, tuple[Any, list[Any]]] = {
    "text": (TWO, ["no", "yes"]),
    "a list of text": (TWO.tolist(), ["no", "yes"]),
    "objects": (TWO.astype(object), ["no", "yes"]),
    "whole numbers": (np.where(UP, 7, -3), [-3, 7]),
    "large whole numbers": (np.where(UP, 2**60 + 1, 2**60), [2**60, 2**60 + 1]),
    "large whole numbers as objects": (np.where(UP, 2**60 + 1, 2**60).astype(object), [2**60, 2**60 + 1]),
    "numbers": (np.where(UP, 2.0, 1.0), [1.0, 2.0]),
    "booleans": (UP, [False, True]),
    "small whole numbers": (UP.astype(np.int8), [0, 1]),
    "pandas text": (pd.Series(TWO, dtype="string"), ["no", "yes"]),
    "pandas categories": (pd.Series(TWO, dtype="category"), ["no", "yes"]),
    "pandas whole numbers": (pd.Series(UP.astype(int), dtype="Int64"), [0, 1]),
    "pandas booleans": (pd.Series(UP, dtype="boolean"), [False, True]),
    "polars text": (pl.Series("y", TWO), ["no", "yes"]),
    "polars booleans": (pl.Series("y", UP), [False, True]),
    "odd text": (np.where(UP, "ja, gewiß", ""), ["", "ja, gewiß"]),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_every_kind_come_back_sorted_and_in_their_kind(kind: str) -> None:
    y, classes = LABELS[kind]
    model, plain = (GPClassifier(**QUICK).fit(X, labels) for labels in (y, TWO))
    assert model.classes_.tolist() == classes
    assert [type(c) for c in model.classes_.tolist()] == [type(c) for c in classes]
    assert model.predict(X).dtype == model.classes_.dtype
    assert set(model.predict(X).tolist()) <= set(classes)
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    assert model.class_count_.tolist() == [(~UP).sum(), UP.sum()]


# labels that are refused --------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Any, str]] = {
    "one class": (["a"] * 24, r"GPClassifier: y has only one class \('a'\); give two classes or more\."),
    "one class of numbers": (np.ones(24, int), r"GPClassifier: y has only one class \(1\); give two classes or more\."),
    "None": (put(TWO, None), "GPClassifier: y has no label at row 3; drop this row or fill it"),
    "None in a list": ([None, *TWO[1:]], "GPClassifier: y has no label at row 0"),
    "NaN among numbers": (put(UP, np.nan), r"GPClassifier: y is NaN at row 3; drop these rows or fill them"),
    "NaN among text": (put(TWO, np.nan), "GPClassifier: y has no label at row 3"),
    "NaN in a list of text": ([np.nan, *TWO[1:].tolist()], "GPClassifier: y has no label at row 0"),
    "missing of pandas": (pd.Series(put(TWO, pd.NA), dtype="string"), "GPClassifier: y has no label at row 3"),
    "missing category": (pd.Series(put(TWO, None), dtype="category"), "GPClassifier: y has no label at row 3"),
    "missing whole number": (pd.Series([None, 1, 0] * 8, dtype="Int64"), "GPClassifier: y (is NaN|has no label) at row 0"),
    "missing boolean": (pd.Series([None, True, False] * 8, dtype="boolean"), "GPClassifier: y has no label at row 0"),
    "missing of polars": (pl.Series("y", [None, *TWO[1:]]), "GPClassifier: y has no label at row 0"),
    "infinite": (put(UP, np.inf), "GPClassifier: y is inf at row 3"),
    "numbers and text": (put(TWO, 1), r"GPClassifier: y mixes text \(row 0\) and numbers \(row 3\); give labels of one kind"),
    "numbers and text in a list": ([1, "a"] * 12, r"GPClassifier: y mixes numbers \(row 0\) and text \(row 1\)"),
    "booleans and text in a list": ([True, "a"] * 12, r"GPClassifier: y mixes booleans \(row 0\) and text \(row 1\)"),
    "booleans and numbers": (put(UP.tolist(), 2), r"GPClassifier: y mixes booleans \(row 0\) and numbers \(row 3\)"),
    "measurements": (X[:, 0], "GPClassifier: y is .* at row 0, which looks like a measurement; .* use GPRegressor"),
    "a half": (put(UP, 0.5), "GPClassifier: y is 0.5 at row 3, which looks like a measurement; .* use GPRegressor"),
    "dates": (pd.Series(pd.date_range("2020", periods=24)), "GPClassifier: y has type datetime64.*; give labels"),
    "lists": (pd.Series([[1], [2]] * 12), "GPClassifier: y contains list objects .*; give text, integers or booleans"),
    "complex": (UP + 1j, "Complex data not supported"),
    "nothing": (None, "the target y is None"),
    "fewer labels": (TWO[:23], r"GPClassifier: y has shape \(23,\) but X has 24 rows; give one label per row of X"),
    "two columns": (np.column_stack([TWO, TWO]), r"GPClassifier: y has shape \(24, 2\) but X has 24 rows; give one label"),
    "one hot": (np.eye(3)[np.arange(24) % 3], r"GPClassifier: y has shape \(24, 3\)"),
    "a frame": (pd.DataFrame({"a": TWO, "b": TWO}), r"GPClassifier: y has shape \(24, 2\)"),
    "no dimension": ("yes", "GPClassifier: y is 'yes'; give one entry per row"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_labels_that_cannot_be_used_are_refused_in_a_sentence(name: str) -> None:
    y, message = REFUSED[name]
    with pytest.raises(ValueError, match=message) as found:
        GPClassifier(**QUICK).fit(X, y)
    assert "np." not in str(found.value)
    assert len(str(found.value)) < 300


CHOICES: dict[str, tuple[dict[str, Any], Any, str]] = {
    "link": ({"link": "cauchit"}, TWO, "GPClassifier: link is 'cauchit'; choose 'logit' or 'probit'"),
    "multi_class": ({"multi_class": "ovr"}, THREE, "multi_class is 'ovr'; choose 'softmax' or 'one_vs_rest'"),
    "class_kernels": ({"class_kernels": "own"}, THREE, "class_kernels is 'own'; choose 'auto', 'shared' or 'separate'"),
    "inference": ({"inference": "vb"}, TWO, "GPClassifier: inference is 'vb'; choose .*'laplace', 'ep'"),
    "exact": ({"inference": "exact"}, TWO, "inference is 'exact'; choose 'laplace' or 'ep': classes have no exact posterior"),
    "exact as an object": (
        {"inference": Exact()},
        TWO,
        r"inference\.Exact: the likelihood is Bernoulli; use inference=Laplace",
    ),
    "EP of a softmax": ({"inference": "ep"}, THREE, "EP is for two classes, y has 3; use multi_class='one_vs_rest'"),
    "method": ({"method": "sparse"}, TWO, "method is 'sparse'; choose one of 'auto', 'exact'"),
    "mean": ({"mean": "quadratic"}, TWO, "mean is 'quadratic'; choose"),
    "priors": ({"priors": "flat"}, TWO, "priors is 'flat'; give 'default', None, or distributions by path"),
    "kernel": ({"kernel": "Matern53()"}, TWO, "no kernel is called 'Matern53'"),
    "fixed": ({"fixed": ("kernel.period",)}, TWO, "no parameter is called 'kernel.period'; choose from kernel.0.variance"),
    "class_weight": ({"class_weight": "even"}, TWO, "class_weight is 'even'; give 'balanced', None, or a dict"),
    "a list of weights": ({"class_weight": [1, 2]}, TWO, r"class_weight is \[1, 2\]; give 'balanced', None, or a dict"),
    "a class not there": ({"class_weight": {"maybe": 2}}, TWO, "class_weight names 'maybe', which is not in y"),
    "a negative weight": ({"class_weight": {"yes": -1}}, TWO, "class_weight is .*; give finite numbers, zero or more"),
    "a weight of text": ({"class_weight": {"yes": "much"}}, TWO, "GPClassifier: class_weight is .*; give finite numbers"),
    "every class of weight zero": ({"class_weight": {"yes": 0, "no": 0}}, TWO, "GPClassifier: .*weight.* zero"),
    "one of two classes of weight zero": ({"class_weight": {"yes": 0}}, TWO, r"GPClassifier: .*only one class"),
}


@pytest.mark.parametrize("name", CHOICES)
def test_choices_that_do_not_exist_are_refused_in_a_sentence(name: str) -> None:
    options, y, message = CHOICES[name]
    with pytest.raises(CovaryError, match=message):
        GPClassifier(**options, **QUICK).fit(X, y)


def test_weights_that_leave_nothing_are_refused() -> None:
    for weight, message in (
        (np.zeros(24), "GPClassifier: every sample_weight is zero; give at least one row a positive weight"),
        (UP.astype(float), "GPClassifier: y has only one class"),
        (np.where(UP, 1.0, -1.0), "GPClassifier: sample_weight is -1 at row .*; give zero or more"),
        (np.ones(23), "GPClassifier: sample_weight has 23 entries but X has 24 rows"),
        (put(COUNTS, np.nan), "GPClassifier: sample_weight is nan at row 3"),
    ):
        with pytest.raises(CovaryError, match=message):
            GPClassifier(**QUICK).fit(X, TWO, sample_weight=weight)


@pytest.mark.parametrize("options", [{}, {"link": "probit"}, {"multi_class": "one_vs_rest"}])
def test_an_unknown_average_is_refused_by_its_name(options: dict[str, Any]) -> None:
    model = GPClassifier(**options, **QUICK).fit(X, THREE if "multi_class" in options else TWO)
    with pytest.raises(CovaryError, match="average is 'mean'; choose one of exact, mackay, erf5, map"):
        model.predict_proba(X, average="mean")


def test_a_label_the_model_never_saw_is_refused_when_it_is_scored() -> None:
    model = GPClassifier(**QUICK).fit(X, TWO)
    p, y = model.predict_proba(X[:3]), ["yes", "maybe", "no"]
    for score in (metrics.log_loss, metrics.brier, metrics.accuracy):
        with pytest.raises(CovaryError, match=r"y is 'maybe' at row 1, not among the classes \['no', 'yes'\]"):
            score(y, p, classes=model.classes_)
        with pytest.raises(CovaryError, match="y contains 3 labels but p has 2 columns; give classes"):
            score(y, p)
    with pytest.raises(CovaryError, match="y is 'maybe' at row 1, not among the classes"):
        metrics.confusion(y, model.predict(X[:3]), classes=model.classes_)


UNFITTED: dict[str, Callable[[Any], Any]] = {
    "predict": lambda m: m.predict(X),
    "predict_interval": lambda m: m.predict_interval(X),
    "sample_y": lambda m: m.sample_y(X),
    "summary": lambda m: m.summary(),
    "save": lambda m: m.save("/nowhere/m.covary"),
    "plot": lambda m: m.plot(),
    "predict_proba": lambda m: m.predict_proba(X),
    "predict_log_proba": lambda m: m.predict_log_proba(X),
    "predict_latent": lambda m: m.predict_latent(X),
    "decision_function": lambda m: m.decision_function(X),
    "decide": lambda m: m.decide(X, None),
    "predict_quantiles": lambda m: m.predict_quantiles(X),
    "update": lambda m: m.update(X, COUNTS),
}


@pytest.mark.parametrize("kind", [GPClassifier, GPRegressor])
@pytest.mark.parametrize("method", UNFITTED)
def test_before_fitting_every_method_says_so(kind: Any, method: str) -> None:
    if hasattr(kind, method):
        with pytest.raises(NotFittedError, match=f"{kind.__name__} instance is not fitted yet"):
            UNFITTED[method](kind())


# labels that work ---------------------------------------------------------------------------------------------------

WORKS: dict[str, tuple[Any, Any]] = {
    "two rows": (X[:2], ["a", "b"]),
    "three rows of three classes": (X[:3], ["a", "b", "c"]),
    "a class of one member": (X, put(TWO, "odd")),
    "every row a class of its own": (X[:8], np.arange(8)),
    "one column": (X[:, :1], TWO),
    "a constant column": (np.column_stack([X, np.full(24, 1e6)]), TWO),
    "all columns constant": (np.ones((24, 2)), TWO),
    "duplicate columns": (np.column_stack([X, X]), TWO),
    "rows with both labels": (np.vstack([X, X]), np.concatenate([TWO, np.where(UP, "no", "yes")])),
    "all rows alike": (np.ones((24, 2)), THREE),
    "whole numbers": (np.arange(48).reshape(24, 2), np.arange(24) % 2),
    "booleans": (X > 0, TWO),
    "far from zero": (X + 1e8, TWO),
    "one far row": (np.vstack([X[:23], [[1e12, 0.0]]]), TWO),
    "a column vector of a frame": (X, pd.Series(TWO, index=np.arange(24)[::-1])),
}


@pytest.mark.parametrize("inference", ["laplace", "ep"])
@pytest.mark.parametrize("name", WORKS)
def test_unusual_tables_work(name: str, inference: str) -> None:
    x, y = WORKS[name]
    if inference == "laplace" or len(set(y)) == 2:
        sound(GPClassifier(inference=inference, max_time=5.0, **QUICK).fit(x, y), x)


def test_a_thousand_columns_of_twenty_rows() -> None:
    x = RNG.normal(size=(20, 1000))
    for options, y in (({}, TWO), ({"inference": "ep"}, TWO), ({}, THREE)):
        p = GPClassifier(max_time=5.0, **options, **QUICK).fit(x, y[:20]).predict_proba(x)
        assert np.isfinite(p).all()
        assert ((p > 0) & (p < 1)).all()


def test_rows_with_both_labels_are_undecided() -> None:
    p = sound(GPClassifier(**QUICK).fit(np.vstack([X, X]), np.concatenate([UP, ~UP])), X)
    np.testing.assert_allclose(p, 0.5, atol=0.02)


@pytest.mark.parametrize(
    "options", [{}, {"link": "probit"}, {"inference": "ep"}, {"multi_class": "one_vs_rest"}, {"priors": None}]
)
def test_classes_that_do_not_overlap(options: dict[str, Any]) -> None:
    apart = X[np.abs(X[:, 0]) > 0.4]
    model = GPClassifier(max_time=10.0, **options, **QUICK).fit(apart, apart[:, 0] > 0)
    p = sound(model, np.vstack([apart, 3 * apart]))
    np.testing.assert_array_equal(model.predict(apart), apart[:, 0] > 0)
    assert p.max() < 1 - 1e-12
    assert "the classes do not overlap" in str(model.summary())
    if "link" not in options and "inference" not in options:
        clusters = np.vstack([RNG.normal(size=(10, 2)), RNG.normal(size=(10, 2)) + 50, RNG.normal(size=(10, 2)) - 50])
        three = GPClassifier(max_time=10.0, **options, **QUICK).fit(clusters, np.repeat(["a", "b", "c"], 10))
        sound(three, clusters)
        assert "the classes do not overlap" in str(three.summary())


@pytest.mark.parametrize("scale", [1e8, 1e-8])
def test_units_of_the_inputs_do_not_matter(scale: float) -> None:
    for options, y in (({}, TWO), ({"inference": "ep"}, TWO), ({}, THREE), ({"multi_class": "one_vs_rest"}, THREE)):
        plain, scaled = (GPClassifier(**options, **QUICK).fit(s * X, y).predict_proba(s * X) for s in (1.0, scale))
        np.testing.assert_allclose(scaled, plain, atol=1e-6)
    for name in ("poisson", "student_t"):
        plain, scaled = (GPRegressor(likelihood=name, **FAST).fit(s * X, COUNTS).predict(s * X) for s in (1.0, scale))
        np.testing.assert_allclose(scaled, plain, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e4, 1e-4])
@pytest.mark.parametrize("name", ["student_t", "laplace", "heteroscedastic", "gamma"])
def test_units_of_the_observations_do_not_matter(name: str, scale: float) -> None:
    y = np.exp(0.5 * X[:, 0]) * (1 + 0.1 * RNG.random(24))
    plain, scaled = (GPRegressor(likelihood=name, **FAST).fit(X, s * y) for s in (1.0, scale))
    np.testing.assert_allclose(scaled.predict(X) / scale, plain.predict(X), rtol=1e-2)
    low, high = plain.predict_interval(X, level=0.5)
    np.testing.assert_allclose(scaled.predict_interval(X, level=0.5)[0] / scale, low, atol=0.05 * (high - low).max())


# observations that are refused --------------------------------------------------------------------------------------

ODD: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "negative count": ("poisson", put(COUNTS, -1.0), {}, "GPRegressor: y is -1 at row 3; Poisson counts are 0, 1, 2"),
    "half a count": ("poisson", put(COUNTS, 0.5), {}, r"GPRegressor: y is 0\.5 at row 3; Poisson counts are 0, 1, 2"),
    "negative scattered count": ("negative_binomial", put(COUNTS, -1.0), {}, "y is -1 at row 3; NegativeBinomial counts"),
    "half a scattered count": ("negative_binomial", put(COUNTS, 1.5), {}, r"y is 1\.5 at row 3; NegativeBinomial counts"),
    "a count of text": ("poisson", ["many"] * 24, {}, r"GPRegressor: y contains text \('many' at row 0\)"),
    "a missing count": ("poisson", put(COUNTS, np.nan), {}, "GPRegressor: y is NaN at row 3"),
    "no exposure": ("poisson", COUNTS, {"size": put(COUNTS + 1, 0.0)}, "size is 0 at row 3; give positive numbers"),
    "negative exposure": ("poisson", COUNTS, {"size": -1.0}, "GPRegressor: (the )?size is -1 at row 0"),
    "exposures of other rows": ("poisson", COUNTS, {"size": [1.0, 2.0]}, "size has 2 entries but X has 24 rows"),
    "too few trials": ("binomial", COUNTS, {"size": 1}, "number of successes is .*; give no more successes than trials"),
    "half a trial": ("binomial", 0 * COUNTS, {"size": 2.5}, r"number of trials is 2\.5 .*; give integers, 1 or more"),
    "no trials": ("binomial", COUNTS + 1, {}, r"GPRegressor: y is .* at row .*; give rows \(successes, trials\)"),
    "zero amount": ("gamma", put(COUNTS + 1, 0.0), {}, "y is 0 at row 3; Gamma observations are positive"),
    "negative amount": ("gamma", put(COUNTS + 1, -2.0), {}, "y is -2 at row 3; Gamma observations are positive"),
    "levels below zero": (
        "ordinal",
        np.arange(24) % 3 - 1,
        {},
        "y needs levels 0, 1, 2, ... under an ordinal likelihood; number the levels from 0",
    ),
    "levels and a half": ("ordinal", np.arange(24) % 3 + 0.5, {}, "y needs levels 0, 1, 2, ... under an ordinal"),
    "one level": ("ordinal", np.zeros(24), {}, "y needs levels 0, 1, 2, ... under an ordinal"),
    "a level too many": (Ordinal.of(3), np.arange(24) % 4, {}, "y is 3 at row 3 .*; levels are the whole numbers from 0 to 2"),
    **{
        f"size of {name}": (name, COUNTS + 1, {"size": 2.0}, "GPRegressor: size is given .*; (leave it out|use it with counts)")
        for name in ("gaussian", "student_t", "laplace", "heteroscedastic", "gamma")
    },
    "known noise": ("poisson", COUNTS, {"noise_variance": np.ones(24)}, "noise_variance is given with a Poisson likelihood"),
    "several outputs": ("student_t", np.column_stack([COUNTS, COUNTS]), {}, "y has 2 columns; fit one output at a time"),
    "three outputs": ("poisson", np.ones((24, 3)), {}, "y has 3 columns; fit one output at a time under a Poisson"),
    "an unknown name": ("poison", COUNTS, {}, "likelihood is 'poison'; choose one of gaussian, student_t, .*, or give a"),
    "a class, not an object": (Poisson, COUNTS, {}, r"likelihood is the class Poisson; write Poisson\(\)"),
    "all weights zero": ("poisson", COUNTS, {"sample_weight": np.zeros(24)}, "every sample_weight is zero"),
}


@pytest.mark.parametrize("name", ODD)
def test_observations_that_cannot_be_are_refused_in_a_sentence(name: str) -> None:
    likelihood, y, options, message = ODD[name]
    with pytest.raises(CovaryError, match=message) as found:
        GPRegressor(likelihood=likelihood, **FAST).fit(X, y, **options)
    assert str(found.value).count(";") >= 1


def test_choices_that_do_not_go_with_the_likelihood() -> None:
    for options, message in (
        ({"likelihood": "poisson", "noise": 0.1}, "noise is given with a Poisson likelihood; give the likelihood with its"),
        ({"likelihood": "poisson", "inference": "exact"}, "the likelihood is Poisson; use inference=Laplace"),
        ({"likelihood": "laplace", "inference": "laplace"}, r"DoubleExponential has no curvature .*; use inference=EP\(\)"),
        ({"likelihood": "heteroscedastic", "inference": "ep"}, "HeteroscedasticGaussian has 2 latent functions; use .*Laplace"),
        ({"inference": "variational"}, "inference is 'variational'; choose 'auto', 'exact', 'laplace', 'ep'"),
    ):
        with pytest.raises(CovaryError, match=message):
            GPRegressor(**options, **FAST).fit(X, COUNTS)
    with pytest.raises(CovaryError, match="the data carry known noise variances"):
        GPRegressor(inference="laplace", **FAST).fit(X, COUNTS, noise_variance=np.ones(24))


@pytest.mark.parametrize("method", ["predict", "predict_interval", "sample_y"])
@pytest.mark.parametrize(
    ("name", "size"), [("gaussian", 2.0), ("student_t", 2.0), ("poisson", 0.0), ("poisson", -1.0), ("poisson", [1.0, 2.0])]
)
def test_sizes_are_checked_at_predict_too(name: str, size: Any, method: str) -> None:
    model = GPRegressor("1.0 * Matern52()", likelihood=name, fixed="*").fit(X, COUNTS)
    with pytest.raises(CovaryError, match="size"):
        getattr(model, method)(X, size=size)


OBSERVED: dict[str, tuple[str, Any, Any]] = {
    "no count at all": ("poisson", X, np.zeros(24)),
    "one row": ("poisson", X[:1], [3.0]),
    "two rows": ("negative_binomial", X[:2], [0.0, 9.0]),
    "counts of millions": ("poisson", X, np.round(1e6 * np.exp(X[:, 0] + 0.1 * X[:, 1] ** 2))),
    "equal amounts": ("gamma", X, np.full(24, 3.0)),
    "amounts of many sizes": ("gamma", X, 10.0 ** np.linspace(-12, 12, 24)),
    "equal measurements": ("student_t", X, np.full(24, 3.0)),
    "more than half equal": ("laplace", X, np.where(np.arange(24) < 18, 1.0, X[:, 0])),
    "a level that nobody has": ("ordinal", X, 2.0 * UP),
    "all rows alike": ("student_t", np.ones((24, 2)), X[:, 0]),
    "a constant column": ("poisson", np.column_stack([X, np.ones(24)]), COUNTS),
    "a thousand columns": ("poisson", RNG.normal(size=(20, 1000)), COUNTS[:20]),
}


@pytest.mark.parametrize("name", OBSERVED)
def test_unusual_observations_work(name: str) -> None:
    likelihood, x, y = OBSERVED[name]
    model = GPRegressor(likelihood=likelihood, max_time=10.0, **FAST).fit(x, y)
    mean = model.predict(x)
    q = model.predict_quantiles(x, (0.05, 0.5, 0.95))
    assert np.isfinite(mean).all()
    assert np.isfinite(q).all()
    assert (np.diff(q, axis=0) >= 0).all()
    assert np.isfinite(model.log_marginal_likelihood_)
    assert np.mean((q[0] - 1e-6 * np.abs(y) <= y) & (y <= q[2] + 1e-6 * np.abs(y))) > 0.7


labels = st.one_of(
    st.lists(st.sampled_from(["a", "b", "c", "", None, 1, 2.5, True, float("nan")]), max_size=7),
    arrays.arrays(np.float64, st.integers(0, 7), elements=st.sampled_from([0.0, 1.0, 2.0, 0.5, np.nan, np.inf, -1.0])),
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(y=labels)
def test_any_labels_work_or_are_refused(y: Any) -> None:
    try:
        model = GPClassifier(**QUICK).fit(X[: len(y)], y)
    except ValueError as error:
        sentence = str(error)
        assert len(sentence) < 500
        return
    assert all(v is not None and v == v for v in y)  # nothing missing is taken for a class
    assert len({isinstance(v, str) for v in y}) == 1  # nor a number for text
    assert np.isfinite(model.predict_proba(X)).all()
