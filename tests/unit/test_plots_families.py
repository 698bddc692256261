"""Plots of a fitted model of another family, which provides predictions only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.special import expit

from covary._checks import CovaryError
from covary.fits import FAMILIES, AbstractFamily, Answer, AnyFit, Fit, Judged, Labels, Registration, Training
from covary.plots import (
    dependence,
    left_out,
    left_out_classes,
    plot_calibration,
    plot_classes,
    plot_components,
    plot_dependence,
    plot_evidence,
    plot_fit,
    plot_gram,
    plot_history,
    plot_predicted,
    plot_relevance,
    plot_residuals,
    relevance,
)
from covary.tables.columns import Columns

NAMES = ["depth", "age"]


@dataclass(frozen=True)
class Line:
    """A line through the origin along each column, and the rows it was found from."""

    slopes: np.ndarray
    x: np.ndarray
    y: np.ndarray


class Lines(AbstractFamily[Line]):
    """Straight lines, or of two classes the logistic function of one."""

    name, title = "lines", "Line"

    def predict(self, fit: Fit[Line], x: np.ndarray, **_: object) -> Answer:
        mean = x @ fit.state.slopes
        if fit.classes is not None:
            p = expit(4 * mean)
            return Answer(dict(zip(self.titles(fit), (fit.classes.values[(p > 0.5).astype(int)], 1 - p, p), strict=True)))
        return Answer({"mean": mean, "std": np.full(len(x), 0.1), "lower": mean - 0.2, "upper": mean + 0.2})

    def judged(self, fit: Fit[Line], x: np.ndarray | None = None, y: np.ndarray | None = None) -> Judged:
        x, y = (fit.state.x, fit.state.y) if x is None or y is None else (x, y)
        columns = self.predict(fit, x).columns
        if fit.classes is not None:
            p = np.stack([columns["p_no"], columns["p_yes"]], axis=1)
            return Judged.of_classes("leave-one-out", "", x, y, p)
        return Judged.of_numbers("leave-one-out", "", x, y, columns["mean"], columns["std"])

    def training(self, fit: Fit[Line]) -> Training:
        return Training(x=fit.state.x, y=fit.state.y[:, None])


FAMILY = Lines()


def line(columns: int, classes: bool = False) -> AnyFit:
    rng = np.random.default_rng(0)
    slopes = np.array([2.0, 0.5])[:columns]
    x = rng.uniform(-1, 1, (50, columns))
    y = x @ slopes + 0.1 * rng.normal(size=50)
    labels = Labels(np.array(["no", "yes"]), np.array([25.0, 25.0])) if classes else None
    state = Line(slopes, x, (y > 0).astype(float) if classes else y)
    return Fit("lines", state, Columns.of_numbers(columns, NAMES[:columns]), ("hit",), classes=labels)


@pytest.fixture(autouse=True)
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(FAMILIES, "lines", Registration(__name__))
    yield
    plt.close("all")


def test_leave_one_out_predictions_are_those_of_the_family() -> None:
    fit = line(2)
    found = left_out(fit)
    np.testing.assert_array_equal(found.mean, fit.state.x @ fit.state.slopes)
    np.testing.assert_allclose(found.high - found.low, 2 * 1.96 * 0.1, rtol=1e-4)
    assert plot_predicted(fit).get_title("left").startswith("R² 0.9")
    plot_residuals(fit)
    assert plot_calibration(fit)[1].get_title("left").startswith("95 % intervals contain 9")
    codes, p, labels = left_out_classes(line(2, classes=True))
    assert labels == ["no", "yes"]
    assert (p.argmax(1) == codes).mean() > 0.9
    plot_calibration(line(1, classes=True))
    with pytest.raises(CovaryError, match="the model is a classifier"):
        left_out(line(1, classes=True))


def test_relevance_and_dependence_are_those_of_the_predictions() -> None:
    fit = line(2)
    found = relevance(fit)
    assert found.names == NAMES
    assert found.errors is None
    np.testing.assert_allclose(found.values, [16 / 17, 1 / 17], atol=0.05)  # of the variance of 2 x + x / 2
    plot_relevance(fit)
    curve = dependence(fit, "depth", points=5)
    np.testing.assert_allclose(np.diff(curve.mean), 2 * np.diff(curve.x))
    assert curve.low is None
    assert [ax.get_xlabel() for ax in plot_dependence(fit)] == NAMES
    assert plot_dependence(line(2, classes=True), "age").get_ylabel() == "probability"


def test_the_fit_is_drawn_from_its_predictions() -> None:
    ax = plot_fit(line(1))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("depth", "hit")
    assert [a.get_title() for a in plot_fit(line(2))] == ["mean of hit", "standard deviation of new observations"]
    assert plot_classes(line(1, classes=True)).get_ylabel() == "probability"
    plot_classes(line(2, classes=True))
    with pytest.raises(CovaryError, match=r"the model is a classifier; use covary\.plots\.plot_classes"):
        plot_fit(line(1, classes=True))


def test_pictures_of_posteriors_name_the_family() -> None:
    fit = line(1)
    calls = (plot_components, plot_gram, plot_history, lambda model: plot_evidence(model, ("a", "b")))
    for draw in calls:
        with pytest.raises(CovaryError, match="the model is of the family 'lines'; give a Gaussian process"):
            draw(fit)
    with pytest.raises(CovaryError, match="the model is of the family 'lines'; give a Gaussian process"):
        plot_fit(fit, samples=2)


def test_a_family_without_training_rows_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lines, "training", lambda self, fit: Training(x=np.empty((0, 1)), y=np.empty((0, 1))))
    with pytest.raises(CovaryError, match="the family 'lines' does not provide its training rows; use predict"):
        plot_fit(line(1))
