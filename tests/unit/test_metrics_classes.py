"""Scores of class predictions and decisions compared with independent restatements, and the cross-validation tools."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.metrics import accuracy_score, brier_score_loss, confusion_matrix
from sklearn.metrics import log_loss as sklearn_log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from covary import metrics
from covary._checks import CovaryError

RNG = np.random.default_rng(7)
NAMES = np.array(["ash", "birch", "cedar"])
P3 = RNG.dirichlet([1.0, 2.0, 1.5], size=80)
Y3 = NAMES[[RNG.choice(3, p=p) for p in P3]]
P2 = RNG.uniform(0.02, 0.98, size=90)
Y2 = np.where(RNG.uniform(size=90) < P2, "yes", "no")
TRAIN3 = np.repeat(NAMES, [20, 50, 30])
LOSS = np.array([[0.0, 1.0, 7.0], [2.0, 0.0, 3.0], [10.0, 4.0, 0.0]])

XC = np.vstack([RNG.normal(m, 1.0, size=(30, 2)) for m in ([0, 0], [2, 0], [0, 2])])
YC = np.repeat(NAMES, 30)


def calibrated(n: int = 200_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    p = rng.uniform(size=n)
    return rng.uniform(size=n) < p, p


# scores ---------------------------------------------------------------------------------------------------------


def test_scores_are_loops() -> None:
    index = {name: c for c, name in enumerate(NAMES)}
    loss = squares = bits = wrong = 0.0
    for label, row in zip(Y3, P3, strict=True):
        loss -= math.log(row[index[label]]) / 80
        squares += sum((row[c] - (NAMES[c] == label)) ** 2 for c in range(3)) / 80
        bits += (math.log2(row[index[label]]) - math.log2({"ash": 0.2, "birch": 0.5, "cedar": 0.3}[label])) / 80
        wrong += max(range(3), key=lambda c, row=row: row[c]) != index[label]
    assert metrics.log_loss(Y3, P3) == pytest.approx(loss, rel=1e-12)
    assert metrics.brier(Y3, P3) == pytest.approx(squares, rel=1e-12)
    assert metrics.information(Y3, P3, TRAIN3) == pytest.approx(bits, rel=1e-12)
    assert metrics.errors(Y3, P3) == wrong
    assert metrics.error_rate(Y3, P3) == wrong / 80
    assert metrics.accuracy(Y3, P3) == pytest.approx(1 - wrong / 80)


def test_scores_are_scikit_learns() -> None:
    assert metrics.log_loss(Y3, P3) == pytest.approx(sklearn_log_loss(Y3, P3), rel=1e-12)
    assert metrics.log_loss(Y2, P2) == pytest.approx(sklearn_log_loss(Y2, P2), rel=1e-12)
    assert metrics.brier(Y2, P2) == pytest.approx(2 * brier_score_loss(Y2, P2, pos_label="yes"), rel=1e-12)
    assert metrics.accuracy(Y3, P3) == accuracy_score(Y3, NAMES[P3.argmax(1)])


def test_the_baseline_of_the_digits() -> None:
    """T42: R&W's 0.9956 bits from the counts; the base line itself scores zero, and certainty scores the base line."""
    train, y = np.repeat([3, 5], [406, 361]), np.repeat([3, 5], [418, 355])
    by_hand = -418 / 773 * math.log2(406 / 767) - 355 / 773 * math.log2(361 / 767)
    assert by_hand == pytest.approx(0.99558, abs=5e-6)
    for test in (y, {3: 418, 5: 355}):
        for counts in (train, {3: 406, 5: 361}, {5: 722.0, 3: 812.0, 8: 0}):
            assert metrics.baseline_information(test, counts) == pytest.approx(by_hand, rel=1e-12)
    assert metrics.information(y, np.full(773, 361 / 767), train) == pytest.approx(0.0, abs=1e-12)
    assert metrics.information(y, 1.0 * (y == 5), train) == pytest.approx(by_hand, rel=1e-12)


def test_probability_zero_of_the_truth_is_infinitely_bad() -> None:
    y, p = ["a", "b", "a"], [[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]]
    assert metrics.log_loss(y, p) == math.inf
    assert metrics.information(y, p, {"a": 1, "b": 1}) == -math.inf
    assert metrics.brier(["b"], [[1.0, 0.0]], classes=["a", "b"]) == 2.0
    assert math.copysign(1, metrics.log_loss(["a", "b"], [0.0, 1.0])) == 1.0
    tiny = 2.0**-170  # two columns keep what 1 − p would lose
    assert metrics.log_loss([0, 1], [[tiny, 1.0], [0.0, 1.0]]) == pytest.approx(85 * math.log(2), rel=1e-12)


def test_of_tied_classes_the_first_is_decided() -> None:
    assert metrics.errors(["a", "b"], [0.5, 0.5]) == 1
    assert metrics.errors(["a", "b"], [0.5, 0.5], classes=["b", "a"]) == 1
    assert metrics.errors(["a", "a"], [0.5, 0.5], classes=["a", "b"]) == 0
    assert metrics.errors(["a", "a"], [0.5, 0.5], classes=["b", "a"]) == 2
    np.testing.assert_array_equal(metrics.decide([0.5, 0.5], classes=["b", "a"]), ["b", "b"])


@pytest.mark.parametrize(("count", "n", "sd"), [(3, 120, 1.7), (68, 332, 7.4), (70, 332, 7.4), (8, 120, 2.7), (50, 214, 6.2)])
def test_error_bars_of_error_counts(count: int, n: int, sd: float) -> None:
    """The crabs, Pima and glass rows of Gibbs, table 4.1, and of Williams & Barber."""
    assert metrics.errors_sd(count, n) == pytest.approx(sd, abs=0.051)
    assert metrics.errors_sd(count, n) / n == pytest.approx(math.sqrt(count / n * (1 - count / n) / n), rel=1e-12)
    assert metrics.errors_sd(0, n) == metrics.errors_sd(n, n) == 0.0


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series, pd.Categorical, lambda y: np.array(y, dtype=object)])
@pytest.mark.parametrize("names", [("no", "yes"), (0, 1), (False, True), (-1, 1), (2.0, 2.5), (b"0", b"1")])
def test_labels_of_any_type(kind: Any, names: tuple[Any, Any]) -> None:
    y = kind([names[int(label == "yes")] for label in Y2])
    assert metrics.log_loss(y, P2) == metrics.log_loss(Y2, P2)
    assert metrics.log_loss(y, np.column_stack([P2, 1 - P2]), classes=names[::-1]) == pytest.approx(metrics.log_loss(Y2, P2))
    found = metrics.confusion(y, metrics.decide(P2, classes=names))
    np.testing.assert_array_equal(found.counts, confusion_matrix(Y2, np.where(P2 > 0.5, "yes", "no")))
    assert tuple(found.classes.tolist()) == names


def test_labels_are_not_turned_into_text() -> None:
    assert metrics.errors([1, "a"], [0.1, 0.9], classes=[1, "a"]) == 0
    assert metrics.decide([0.1, 0.9], classes=[1, "a"]).tolist() == [1, "a"]
    with pytest.raises(CovaryError, match=r"y is '1' at row 0, not among the classes \[0, 1\]"):
        metrics.log_loss(["1", "0"], [0.5, 0.5], classes=[0, 1])


# curves ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("strategy", "theirs"), [("width", "uniform"), ("count", "quantile")])
def test_reliability_is_scikit_learns_and_its_interval_scipys(strategy: str, theirs: Any) -> None:
    found = metrics.reliability_curve(Y2, P2, bins=7, strategy=strategy, level=0.9)
    observed, predicted = calibration_curve(Y2, P2, n_bins=7, strategy=theirs, pos_label="yes")
    np.testing.assert_allclose(found.predicted, predicted, rtol=1e-12)
    np.testing.assert_allclose(found.observed, observed, rtol=1e-12)
    for share, n, low, high in zip(found.observed, found.count, found.low, found.high, strict=True):
        interval = binomtest(round(share * n), int(n)).proportion_ci(0.9, method="wilson")
        assert (low, high) == pytest.approx((interval.low, interval.high), abs=1e-12)
    assert found.count.sum() == 90
    assert np.ptp(found.count) <= 1 or strategy == "width"
    assert list(found.to_frame().columns) == ["lower", "upper", "count", "predicted", "observed", "low", "high"]
    assert str(found).startswith("Reliability of p('yes'), 90 rows, intervals at 0.9")


def test_reliability_of_one_of_several_classes_by_hand() -> None:
    found = metrics.reliability_curve(Y3, P3, of="cedar", bins=4)
    for i, (low, high) in enumerate(zip(found.lower, found.upper, strict=True)):
        rows = (low <= P3[:, 2]) & (P3[:, 2] < high)
        assert found.count[i] == rows.sum() > 0
        assert found.predicted[i] == pytest.approx(P3[rows, 2].mean())
        assert found.observed[i] == pytest.approx(np.mean(Y3[rows] == "cedar"))
    assert found.label == "cedar"
    gaps = np.abs(found.observed - found.predicted)
    error = metrics.expected_calibration_error(Y3, P3, of="cedar", bins=4)
    assert error == pytest.approx(np.sum(found.count * gaps) / 80, rel=1e-12)


def test_bins_hold_their_lower_end_and_empty_ones_are_left_out() -> None:
    found = metrics.reliability_curve([0, 1, 1, 1], [0.3, 0.6, 0.7, 1.0])
    np.testing.assert_array_equal(found.lower, [0.3, 0.6, 0.7, 0.9])
    np.testing.assert_array_equal(found.count, 1)
    flat = metrics.reliability_curve([0, 1, 1], [0.4, 0.4, 0.4], strategy="count")
    assert (flat.lower, flat.upper, flat.count) == ([0.4], [0.4], [3])
    assert (flat.predicted[0], flat.observed[0]) == pytest.approx((0.4, 2 / 3))


def test_calibration_error_of_the_decided_class() -> None:
    top, right = P3.max(1), NAMES[P3.argmax(1)] == Y3
    expected = 0.0
    for k in range(10):
        rows = (k / 10 <= top) & (top < (k + 1) / 10)
        expected += abs(np.sum(right[rows]) - np.sum(top[rows])) / 80
    assert metrics.expected_calibration_error(Y3, P3) == pytest.approx(expected, rel=1e-12)
    y, p = calibrated()
    assert metrics.expected_calibration_error(y, p) < 0.005
    assert metrics.expected_calibration_error(y, p, of=True, strategy="count") < 0.005
    assert metrics.expected_calibration_error(y, p**3 / (p**3 + (1 - p) ** 3)) > 0.1
    found = metrics.reliability_curve(y, p)
    assert np.sum((found.low <= found.predicted) & (found.predicted <= found.high)) >= 8


def test_the_error_reject_curve_falls_on_calibrated_data() -> None:
    """T44: with p uniform, the rows of max p ≥ θ are a share 2 − 2θ, a share (1 − θ)/2 of them wrong."""
    y, p = calibrated()
    curve = metrics.reject_curve(y, p, y_train=[True, False])
    shares = np.arange(10) / 10
    at = np.searchsorted(curve.rejected, shares)
    assert np.all(np.diff(curve.error_rate[at]) < 0)
    np.testing.assert_allclose(curve.threshold[at], 0.5 + shares / 2, atol=0.005)
    np.testing.assert_allclose(curve.error_rate[at], (1 - curve.threshold[at]) / 2, atol=0.005)
    assert curve.information is not None
    assert np.all(np.diff(curve.information[at]) > 0)
    assert curve.information[0] == pytest.approx(metrics.information(y, p, [True, False]), rel=1e-9)
    assert len(str(curve).splitlines()) == 2 + 2 + 10


@pytest.mark.parametrize("rule", ["probability", "gap"])
def test_the_error_reject_curve_by_hand(rule: Any) -> None:
    p = np.round(P3, 2)
    p[:, 2] = 1 - p[:, 0] - p[:, 1]
    p = np.abs(p)
    curve = metrics.reject_curve(Y3, p, rule=rule, y_train=TRAIN3)
    assert np.all(np.diff(curve.threshold) > 0)
    assert curve.information is not None
    for i, threshold in enumerate(curve.threshold):
        kept = ~metrics.reject(p, threshold, rule=rule)
        ordered = np.sort(p, axis=1)
        certain = ordered[:, 2] - (ordered[:, 1] if rule == "gap" else 0.0)
        np.testing.assert_array_equal(kept, certain >= threshold)
        assert (curve.accepted[i], curve.rejected[i]) == (kept.sum(), np.mean(~kept))
        assert curve.errors[i] == metrics.errors(Y3[kept], p[kept], classes=NAMES)
        assert curve.error_rate[i] == metrics.error_rate(Y3[kept], p[kept], classes=NAMES)
        gain = metrics.information(Y3[kept], p[kept], TRAIN3, classes=NAMES)
        assert curve.information[i] == pytest.approx(gain, rel=1e-9, abs=1e-12)
    assert curve.rejected[0] == 0
    assert list(curve.to_frame().columns) == ["rejected", "accepted", "errors", "error_rate", "information"]
    assert "information" not in metrics.reject_curve(Y3, p).to_frame()


# decisions ------------------------------------------------------------------------------------------------------


def test_decisions_are_brute_force() -> None:
    expected, costs = [], np.zeros((80, 3))
    for i, row in enumerate(P3):
        for decision in range(3):
            costs[i, decision] = sum(LOSS[truth, decision] * row[truth] for truth in range(3))
        expected.append(NAMES[min(range(3), key=lambda c, i=i: costs[i, c])])
    np.testing.assert_allclose(metrics.risk(P3, LOSS), costs, rtol=1e-12)
    np.testing.assert_array_equal(metrics.decide(P3, LOSS, NAMES), expected)
    np.testing.assert_array_equal(metrics.decide(P3, LOSS), [list(NAMES).index(e) for e in expected])
    zero_one = 1 - np.eye(3)
    np.testing.assert_array_equal(metrics.decide(P3, zero_one, NAMES), NAMES[P3.argmax(1)])
    np.testing.assert_array_equal(metrics.decide(P3, classes=NAMES), NAMES[P3.argmax(1)])


def test_a_cost_of_rejecting_is_a_threshold() -> None:
    """With zero-one loss and cost d of rejecting, rows of max p < 1 − d are rejected (Chow 1970)."""
    loss = np.column_stack([1 - np.eye(3), np.full(3, 0.45)])
    decided = metrics.decide(P3, loss, NAMES)
    np.testing.assert_array_equal(decided == None, metrics.reject(P3, 0.55))  # noqa: E711
    np.testing.assert_array_equal(metrics.decide(P3, loss, NAMES, rejected="unsure") == "unsure", metrics.reject(P3, 0.55))
    assert 0 < metrics.reject(P3, 0.55).sum() < 80
    assert metrics.risk(P2, [[0, 1, 0.1], [1, 0, 0.1]]).shape == (90, 3)
    assert metrics.decide([0.5], [[0, 1, 0.5], [1, 0, 0.5]], ["a", "b"]).tolist() == ["a"]  # a tie is not rejected


def test_the_least_risk_is_the_least_empirical_risk() -> None:
    y, p = calibrated(20_000)
    loss = np.array([[0.0, 1.0, 0.4], [5.0, 0.0, 0.4]])
    best = metrics.empirical_risk(y, metrics.decide(p, loss, [False, True]), loss)
    assert best == pytest.approx(metrics.risk(p, loss).min(1).mean(), abs=0.02)
    assert best < metrics.empirical_risk(y, metrics.decide(p, loss[:, :2], [False, True]), loss)
    assert best < metrics.empirical_risk(y, p > 0.5, loss)
    assert metrics.empirical_risk(y, p > 0.5) == metrics.error_rate(y, p)


def test_empirical_risk_by_hand() -> None:
    y, decisions = ["ash", "birch", "cedar", "cedar"], ["ash", "cedar", "ash", "?"]
    loss = np.column_stack([LOSS, [1.0, 1.0, 2.0]])
    assert metrics.empirical_risk(y, decisions, loss, rejected="?") == (0 + 3 + 10 + 2) / 4
    assert metrics.empirical_risk(y[:3], decisions[:3], LOSS, NAMES) == 13 / 3
    assert metrics.empirical_risk(y[1:3], ["ash", "cedar"], LOSS, NAMES) == 1.0


def test_confusion_is_scikit_learns_with_rejected_rows_apart() -> None:
    decided = NAMES[P3.argmax(1)]
    found = metrics.confusion(Y3, decided)
    np.testing.assert_array_equal(found.counts, confusion_matrix(Y3, decided))
    np.testing.assert_array_equal(found.rejected, 0)
    assert metrics.errors(Y3, P3) == found.counts.sum() - np.trace(found.counts)
    order = NAMES[::-1]
    again = metrics.confusion(Y3, decided, classes=order)
    np.testing.assert_array_equal(again.counts, confusion_matrix(Y3, decided, labels=order))
    undecided = metrics.reject(P3, 0.6)
    with_reject = metrics.confusion(Y3, [None if out else d for out, d in zip(undecided, decided, strict=True)])
    for i, name in enumerate(NAMES):
        assert with_reject.rejected[i] == sum(Y3[undecided] == name)
    assert list(with_reject.to_frame().columns) == [*NAMES, "(rejected)"]
    assert list(found.to_frame().columns) == list(found.to_frame().index) == list(NAMES)
    assert with_reject.to_frame().to_numpy().sum() == 80
    assert str(with_reject).startswith("Confusion of 80 rows: truth down, decision across")


# bad input ------------------------------------------------------------------------------------------------------


AB = ["a", "b"]
HALF = [0.5, 0.5]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.log_loss(AB, [[0.5, 0.4], [0.5, 0.5]]), "metrics.log_loss: p does not sum to 1 at row 0"),
        (lambda: metrics.brier(AB, [[0.5, 0.5], [-0.1, 1.1]]), "p is not between 0 and 1 at row 1, column 0"),
        (lambda: metrics.errors(AB, [0.5, 1.5]), "p is not between 0 and 1 at row 1 .*; give probabilities, not scores"),
        (lambda: metrics.accuracy(AB, [np.nan, 0.5]), "p is nan at row 0"),
        (lambda: metrics.error_rate(AB, ["x", "y"]), "p contains text .*; give probabilities"),
        (lambda: metrics.log_loss(AB, [[0.5], [0.5]]), r"p has shape \(2, 1\); give one column for each of two or more"),
        (lambda: metrics.log_loss([], []), r"p has shape \(0,\)"),
        (lambda: metrics.log_loss(["a"], HALF), "y has 1 label but p has 2 rows; give one label per row"),
        (lambda: metrics.log_loss([["a"], ["b"]], HALF), r"y has shape \(2, 1\); give one label per entry"),
        (lambda: metrics.log_loss(["a", "a"], HALF), "y contains 1 label but p has 2 columns; give classes"),
        (lambda: metrics.log_loss(AB, HALF, classes=["a", "c"]), r"y is 'b' at row 1, not among the classes \['a', 'c'\]"),
        (lambda: metrics.log_loss(AB, HALF, classes=["a"]), r"classes is \['a'\] but p has 2 columns"),
        (lambda: metrics.log_loss(AB, HALF, classes=["a", "a"]), r"classes is \['a', 'a'\] .* all different"),
        (
            lambda: metrics.log_loss([1, "a"], HALF),
            "y contains labels of different types, which cannot be sorted; give classes",
        ),
        (lambda: metrics.log_loss(["a", None], HALF), "y is None at row 1; drop such rows"),
        (lambda: metrics.log_loss([1.0, np.nan], HALF), "y is nan at row 1"),
        (lambda: metrics.log_loss(pd.Series([1, None], dtype="Int64"), HALF), "y is <NA> at row 1"),
        (lambda: metrics.information(AB, HALF, ["a", "a"]), "metrics.information: y_train does not contain 'b' but y does"),
        (lambda: metrics.baseline_information(AB, {"a": 3, "b": -1}), "give a count of zero or more per label"),
        (lambda: metrics.baseline_information({"a": 0}, {"a": 1}), "metrics.baseline_information: y is {'a': 0}"),
        (lambda: metrics.errors_sd(5, 4), "count is 5 of 4 rows"),
        (lambda: metrics.reliability_curve(Y3, P3), "there are 3 classes and none is chosen; give of"),
        (lambda: metrics.reliability_curve(AB, HALF, of="c"), r"of is 'c', not among the classes \['a', 'b'\]"),
        (lambda: metrics.reliability_curve(AB, HALF, bins=0), "bins is 0; give a whole number, 1 or more"),
        (lambda: metrics.reliability_curve(AB, HALF, level=95), "level is 95"),
        (lambda: metrics.expected_calibration_error(AB, HALF, strategy="x"), "choose 'width' or 'count'"),
        (lambda: metrics.reject_curve(AB, HALF, rule="x"), "choose 'probability' or 'gap'"),
        (
            lambda: metrics.reject_curve(AB, HALF, y_train=["b"]),
            "metrics.reject_curve: y_train does not contain 'a' but y does",
        ),
        (lambda: metrics.reject(HALF, 1.5), "threshold is 1.5; give a number from 0 to 1"),
        (lambda: metrics.risk(HALF, LOSS), r"metrics.risk: loss has shape \(3, 3\) for 2 classes; give a row per class"),
        (lambda: metrics.risk(HALF, [[0, 1], [np.inf, 0]]), "loss is inf at row 1, column 0"),
        (lambda: metrics.decide(HALF, [["x", 1], [1, 0]]), "loss contains text .*; give a table, a row per class"),
        (lambda: metrics.decide(HALF, classes=AB, rejected="a"), "rejected is 'a', which is one of the classes"),
        (lambda: metrics.empirical_risk(AB, ["a"]), "y has 2 labels but decisions has 1"),
        (lambda: metrics.empirical_risk(AB, ["a", None]), "decisions is None at row 1 but there is no loss of rejecting"),
        (lambda: metrics.empirical_risk(AB, AB, [1, 2]), r"loss has shape \(2,\); give a row per class"),
        (lambda: metrics.empirical_risk(AB, ["a", "c"], [[0, 1], [1, 0]]), "decisions is 'c' at row 1, not among the classes"),
        (lambda: metrics.empirical_risk(AB, AB, LOSS), "y contains 2 labels but loss has 3 rows; give classes"),
        (lambda: metrics.confusion(AB, ["a", None], rejected="?"), "decisions is None at row 1"),
        (lambda: metrics.confusion(AB, AB, classes=["a", "b", "a"]), "all different"),
        (lambda: metrics.scorer("brier", y_train=AB), "y_train is given for 'brier'; leave it out"),
    ],
)
def test_what_has_no_score_is_refused(call: Any, words: str) -> None:
    with pytest.raises(CovaryError, match=words):
        call()


# estimators -----------------------------------------------------------------------------------------------------


def test_scorers_are_the_scores_with_higher_better() -> None:
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(XC[::2], YC[::2])
    X, y = XC[1::2], YC[1::2]
    p = model.predict_proba(X)
    for name in ("log_loss", "brier", "error_rate"):
        assert metrics.scorer(name)(model, X, y) == -getattr(metrics, name)(y, p)
    score = pickle.loads(pickle.dumps(metrics.scorer("information", y_train=YC[::2])))
    assert score(model, X, y) == metrics.information(y, p, YC[::2]) > 0.5
    assert metrics.scorer("log_loss")(model, X[:5], y[:5]) == -metrics.log_loss(y[:5], p[:5], classes=NAMES)
    bayes = GaussianNB().fit(XC[10:], YC[10:])  # keeps the counts of its training labels
    assert metrics.scorer("information")(bayes, X, y) == metrics.information(y, bayes.predict_proba(X), YC[10:])


def test_scorers_refuse_what_they_cannot_score() -> None:
    with pytest.raises(CovaryError, match=r"metrics.scorer\('brier'\): BayesianRidge does not provide class probabilities"):
        metrics.scorer("brier")(BayesianRidge().fit(XC, np.arange(90)), XC, YC)
    with pytest.raises(
        CovaryError, match="LogisticRegression does not store the counts of its training labels; give y_train to scorer"
    ):
        metrics.scorer("information")(LogisticRegression().fit(XC, YC), XC, YC)


def test_scorers_serve_grid_search() -> None:
    search = GridSearchCV(LogisticRegression(), {"C": [1e-6, 1.0]}, scoring=metrics.scorer("log_loss"), cv=3).fit(XC, YC)
    assert search.best_params_ == {"C": 1.0}
    theirs = cross_val_score(LogisticRegression(), XC, YC, scoring="neg_log_loss", cv=3)
    ours = cross_val_score(LogisticRegression(), XC, YC, scoring=metrics.scorer("log_loss"), cv=3)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_cross_validation_of_a_classifier_by_hand() -> None:
    found = metrics.cross_validate(LogisticRegression(), pd.DataFrame(XC, columns=["u", "v"]), pd.Series(YC), cv=4)
    p, gain = np.zeros((90, 3)), np.zeros(90)
    for k, (train, test) in enumerate(StratifiedKFold(4, shuffle=True, random_state=0).split(XC, YC)):
        p[test] = LogisticRegression().fit(XC[train], YC[train]).predict_proba(XC[test])
        gain[test] = metrics.information(YC[test], p[test], YC[train])
        assert found.folds["log_loss"][k] == pytest.approx(sklearn_log_loss(YC[test], p[test]), rel=1e-9)
        assert found.folds["information"][k] == pytest.approx(gain[test[0]], rel=1e-9)
        assert found.rows[k] == len(test)
    for name in ("log_loss", "brier", "error_rate"):
        assert found.pooled[name] == pytest.approx(getattr(metrics, name)(YC, p), rel=1e-9)
    assert found.pooled["information"] == pytest.approx(gain.mean(), rel=1e-9)
    assert found.pooled["fit_seconds"] == pytest.approx(found.folds["fit_seconds"].sum())
    assert found.level is None
    assert str(found).startswith("Cross-validation, 4 folds\n")
    columns = ["rows", "log_loss", "brier", "error_rate", "information", "fit_seconds"]
    assert list(found.to_frame().columns) == columns
    again = metrics.cross_validate(LogisticRegression(), XC.tolist(), YC.tolist(), cv=4)
    assert again.pooled["log_loss"] == found.pooled["log_loss"]
    binary = metrics.cross_validate(LogisticRegression(), XC, YC == "ash", cv=3)
    assert 0 < binary.pooled["information"] < 0.95


def test_cross_validation_of_classifiers_refuses_before_it_fits() -> None:
    def check(words: str, estimator: Any, y: Any, **options: Any) -> None:
        with pytest.raises(CovaryError, match=words):
            metrics.cross_validate(estimator, XC, y, **options)

    check("metrics.cross_validate: LinearSVC does not provide class probabilities; use an estimator that has", LinearSVC(), YC)
    check("cv is 3 but y is 'oak' in only 2 rows; give fewer folds", LogisticRegression(), [*YC[:88], "oak", "oak"], cv=3)
    check("X has shape .90, 2. but y has 89 rows", LogisticRegression(), YC[:89])
    check("y is None at row 89", LogisticRegression(), [*YC[:89], None])
    check("cv is 1 for 90 rows", LogisticRegression(), YC, cv=1)


def test_masked_labels_and_probabilities_are_refused() -> None:
    y, p = np.array(["a", "b", "a"]), np.array([[0.7, 0.3], [0.4, 0.6], [0.9, 0.1]])
    hidden = np.array([False, True, False])
    for labels in (np.ma.array(y, mask=hidden), list(np.ma.array(y, mask=hidden))):
        for score in (metrics.accuracy, metrics.log_loss, metrics.brier):
            with pytest.raises(ValueError, match=r"y is .* at row 1"):
                score(labels, p, classes=["a", "b"])
    with pytest.raises(ValueError, match="p is nan at row 1"):
        metrics.brier(y, np.ma.array(p, mask=np.column_stack([hidden, hidden])))
    with pytest.raises(ValueError, match="loss is nan at row 0, column 1"):
        metrics.risk(p, np.ma.array([[0.0, 1.0], [1.0, 0.0]], mask=[[False, True], [False, False]]))
