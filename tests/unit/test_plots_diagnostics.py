"""Diagnostic plots: predictions, residuals, calibration, relevance, dependence, history, compared with restatements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from scipy.special import ndtr
from scipy.stats import norm

from covary import GP, Data, GPClassifier, GPRegressor, Model, condition, metrics, plots
from covary._checks import CovaryError
from covary.gram import LowRank, Vecchia
from covary.inference import EP
from covary.kernels import Linear, Matern52
from covary.likelihoods import Gaussian, Poisson
from covary.means import Constant, LinearBasis
from covary.plots.calibration import _below
from covary.plots.style import BLUE, ORANGE

rng = np.random.default_rng(3)
N = 60
X = rng.uniform(-2, 2, (N, 3))
X[:, 2] = rng.integers(0, 3, N)
Y = np.sin(2 * X[:, 0]) + 0.4 * X[:, 1] + 0.2 * rng.normal(size=N)
POST = condition(Model(GP("2 * Matern52(lengthscale=1.5)", mean=Constant(0.3)), likelihood=Gaussian(0.05)), Data(X, Y))


@pytest.fixture(autouse=True)
def no_windows() -> Iterator[None]:
    mpl.use("Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def figures() -> int:
    import matplotlib.pyplot as plt

    return len(plt.get_fignums())


def points(ax: Any) -> np.ndarray:
    return np.concatenate([c.get_offsets().data for c in ax.collections if len(c.get_offsets()) > 1])


# leave-one-out ---------------------------------------------------------------------------------------------------


def test_left_out_predictions_are_those_without_the_row() -> None:
    found = plots.left_out(POST)
    for i in (0, 17, 59):
        rest = np.arange(N) != i
        y = condition(POST.model, Data(X[rest], Y[rest])).predict(X[i : i + 1]).y
        assert (found.mean[i], found.std[i]) == pytest.approx((y.mean[0], y.std[0]), rel=1e-8)
        assert found.pit[i] == pytest.approx(norm.cdf(Y[i], y.mean[0], y.std[0]), rel=1e-7)
        assert (found.low[i], found.high[i]) == pytest.approx([v[0] for v in y.interval()], rel=1e-8)


def test_left_out_of_counts_are_intervals_that_hold_the_probability_of_what_was_seen() -> None:
    y = rng.poisson(np.exp(X[:, 0])).astype(float)
    post = condition(Model(GP("Matern52()"), likelihood=Poisson()), Data(X, y), inference=EP())
    found, out = plots.left_out(post), post.leave_one_out()
    assert found.pit.shape == (N, 2)
    assert (found.pit[y == 0, 0] == 0).all()
    np.testing.assert_allclose(np.diff(found.pit)[:, 0], np.exp(out.log_prob), rtol=1e-4, atol=1e-8)
    assert (found.low >= 0).all()
    assert (found.low == np.round(found.low)).all()


def test_left_out_classes_are_probabilities_of_the_cavities() -> None:
    labels = np.where(Y > 0, "up", "down")
    model = GPClassifier("4 * Matern52()", fixed="*", inference="ep", link="probit").fit(X, labels)
    found = plots.left_out_classes(model)
    out = model.posterior_.leave_one_out()
    np.testing.assert_allclose(found.p[:, 1], ndtr(out.mean / np.sqrt(1 + out.variance)), rtol=1e-8)
    assert (np.asarray(found.labels)[found.codes] == labels).all()
    three = GPClassifier("4 * Matern52()", fixed="*", multi_class="one_vs_rest").fit(X, X[:, 2].astype(int))
    each = plots.left_out_classes(three)
    np.testing.assert_allclose(each.p.sum(1), 1.0)
    np.testing.assert_array_equal(each.codes, X[:, 2].astype(int))
    softmax = GPClassifier("4 * Matern52()", fixed="*").fit(X, X[:, 2].astype(int))
    with pytest.raises(CovaryError, match="a softmax has no leave-one-out"):
        plots.plot_calibration(softmax)


# predictions and residuals ---------------------------------------------------------------------------------------


def test_predicted_against_observed_marks_what_the_interval_missed() -> None:
    y, mean, std = np.zeros(5), np.array([0.0, 1.0, -1.9, 2.1, -3.0]), np.ones(5)
    ax = plots.plot_predicted(y, mean, std)
    texts = [t.get_text() for t in ax.get_legend().get_texts()]
    assert texts == ["95 % interval contains y (3)", "it does not (2)"]
    assert ax.get_title("left") == "95 % intervals contain 60.0 %"  # y is constant: no R²
    orange = [c for c in ax.collections if len(c.get_facecolor()) and tuple(c.get_facecolor()[0][:3]) == to_rgb(ORANGE)]
    np.testing.assert_allclose(np.sort(orange[0].get_offsets().data[:, 1]), [-3.0, 2.1])


def test_predicted_of_a_model_is_leave_one_out_under_its_scores() -> None:
    ax = plots.plot_predicted(POST)
    found = plots.left_out(POST)
    expected = np.stack([Y, found.mean], axis=1)
    shown = points(ax)
    np.testing.assert_allclose(shown[np.lexsort(shown.T)], expected[np.lexsort(expected.T)])
    r2, held = metrics.r2(Y, found.mean), 100 * metrics.coverage(Y, found.mean, found.std)
    assert ax.get_title("left") == f"R² {r2:.3f}, 95 % intervals contain {held:.1f} %"
    assert ax.get_ylabel() == "y, predicted, leave-one-out"
    assert not plots.plot_predicted(Y, found.mean).get_title("left").count("interval")


def test_residuals_are_standardised_and_their_running_mean_is_of_tenths() -> None:
    z = rng.normal(size=240)
    mean, std = rng.normal(size=240), rng.uniform(1, 2, 240)
    ax = plots.plot_residuals(mean + std * z, mean, std)
    np.testing.assert_allclose(points(ax)[:, 1], z)
    line = next(c for c in ax.lines if len(c.get_xdata()) == 10)
    order = np.argsort(mean).reshape(10, 24)
    np.testing.assert_allclose(line.get_ydata(), z[order].mean(1))
    other = plots.plot_residuals(POST, against=X[:, 1], name="slope")
    np.testing.assert_allclose(points(other)[:, 0], X[:, 1])
    found = plots.left_out(POST)
    np.testing.assert_allclose(points(other)[:, 1], (Y - found.mean) / found.std, rtol=1e-6)
    assert other.get_xlabel() == "slope"


def test_a_wild_observation_keeps_its_distance_in_the_residuals() -> None:
    y = Y.copy()
    y[7] += 50.0
    post = condition(POST.model, Data(X, y))
    found = plots.left_out(post)
    assert found.pit[7] == 1.0
    assert points(plots.plot_residuals(post))[7, 1] == pytest.approx((y[7] - found.mean[7]) / found.std[7])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: plots.plot_predicted([1.0, 2.0], [1.0]), r"y has shape \(2,\) and mean \(1,\)"),
        (lambda: plots.plot_predicted([1.0], [np.nan]), "mean is nan at row 0"),
        (lambda: plots.plot_predicted([1.0], [1.0], [-1.0]), "std is -1.0"),
        (lambda: plots.plot_residuals([1.0], [1.0]), "std is missing"),
        (lambda: plots.plot_residuals([1.0], [1.0], [1.0], against=[1.0, 2.0]), "against has shape"),
        (lambda: plots.plot_predicted("model"), "got str; give a fitted estimator or a posterior"),
        (lambda: plots.plot_calibration(), "nothing is given"),
        (lambda: plots.plot_calibration(POST, pit=[0.5]), "a model and pit are both given"),
        (lambda: plots.plot_pit([1.5]), "pit has values outside 0 to 1"),
        (lambda: plots.plot_pit([[0.6, 0.5]]), "the pairs of pit decrease"),
        (lambda: plots.plot_calibration(pit=[0.5], ax=figure().subplots()), "got 1 axes; give 2"),
        (lambda: plots.plot_relevance(["a"], [0.1, 0.2]), "got 1 name"),
        (lambda: plots.plot_dependence(POST, "depth"), "no column is called 'depth'; choose from x0, x1, x2"),
        (lambda: plots.plot_dependence(POST, 3), "the column is 3"),
        (lambda: plots.plot_dependence(POST, []), r"columns is \[\]"),
        (lambda: plots.plot_dependence(POST, names=["a"]), "got 1 name for 3 input columns"),
        (lambda: plots.plot_history(POST), "got Posterior"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(CovaryError, match=sentence):
        call()
    assert figures() == 0


def figure() -> Any:
    from matplotlib.figure import Figure

    return Figure()


# calibration -----------------------------------------------------------------------------------------------------


def test_pit_histogram_is_a_density_and_the_coverage_curve_the_coverage() -> None:
    z = rng.normal(size=300)
    left, right = plots.plot_calibration(pit=ndtr(z))
    heights = np.array([bar.get_height() for bar in left.patches])
    np.testing.assert_allclose(heights, np.histogram(ndtr(z), len(heights), (0, 1))[0] * len(heights) / 300)
    curve = next(c for c in right.lines if len(c.get_xdata()) > 100)
    level, held = curve.get_data()
    zero = np.zeros(300)
    for i in range(1, 200, 11):
        assert held[i] == pytest.approx(metrics.coverage(z, zero, zero + 1, level[i]))
    assert right.get_title("left") == f"95 % intervals contain {100 * metrics.coverage(z, zero, zero + 1):.1f} %"


def test_pits_of_whole_numbers_count_by_the_part_below() -> None:
    low = rng.uniform(0, 0.8, 40)
    pairs = np.stack([low, low + rng.uniform(0, 0.2, 40)], axis=1)
    spread = (pairs[:, 0] + (np.arange(20000) + 0.5)[:, None] / 20000 * np.diff(pairs)[:, 0]).ravel()
    at = np.linspace(0, 1, 9)
    np.testing.assert_allclose(_below(pairs, at), [(spread <= a).mean() for a in at], atol=1e-4)
    ax = plots.plot_pit(np.column_stack([low, low]), bins=5)  # of no width: as single numbers
    heights = [bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(heights, [bar.get_height() for bar in plots.plot_pit(low, bins=5).patches])


def test_reliability_is_that_of_the_metrics() -> None:
    p = rng.uniform(size=200)
    y = np.where(rng.uniform(size=200) < p, "yes", "no")
    ax = plots.plot_reliability(y, p, bins=5)
    found = metrics.reliability_curve(y, p, bins=5, strategy="count")
    np.testing.assert_allclose(ax.lines[1].get_data(), [found.predicted, found.observed])
    assert ax.get_ylabel() == "observed share of yes"
    table = rng.dirichlet(np.ones(3), 200)
    several = plots.plot_reliability(rng.integers(0, 3, 200), table)
    assert [t.get_text() for t in several.get_legend().get_texts()] == ["0", "1", "2"]


def test_calibration_of_classes_shows_the_probability_of_the_truth() -> None:
    model = GPClassifier("4 * Matern52()", fixed="*").fit(X, Y > 0)
    axes = plots.plot_calibration(model)
    p = plots.left_out_classes(model).p[np.arange(N), (Y > 0).astype(int)]
    assert axes[1].get_title("left") == f"mean log probability {np.log(p).mean():.3f}".replace("-", "−")
    assert sum(bar.get_height() for bar in axes[1].patches) == N


# relevance -------------------------------------------------------------------------------------------------------


def test_relevance_of_a_line_is_its_share_of_variance() -> None:
    x = rng.normal(size=(400, 3))
    post = condition(
        Model(GP(10.0 * Linear(lengthscale=np.ones(3))), likelihood=Gaussian(1e-4)), Data(x, 3 * x[:, 0] + 1.5 * x[:, 1])
    )
    found = plots.relevance(post, ["a", "b", "c"], rows=400)
    assert found.names == ["a", "b", "c"]
    np.testing.assert_allclose(found.values, [0.8, 0.2, 0.0], atol=0.08)
    wide = plots.relevance(condition(post.model.replace(likelihood=Gaussian(900.0)), post.data), rows=400)
    assert wide.errors is not None
    assert found.errors is not None
    assert wide.errors.sum() > 20 * found.errors.sum()


def test_relevance_of_a_column_the_kernel_does_not_see_is_zero() -> None:
    post = condition(Model(GP(Matern52().on(1)), likelihood=Gaussian(0.1)), Data(X, Y))
    found = plots.relevance(post)
    assert found.names[0] == "x1"
    np.testing.assert_allclose(found.values, [1.0, 0.0, 0.0], atol=0.25)
    np.testing.assert_allclose(found.values[1:], 0.0, atol=1e-12)
    assert len(plots.relevance(post, most=2).names) == 2


def test_relevance_without_joint_draws_is_that_of_the_mean() -> None:
    table = pd.DataFrame(X, columns=["depth", "slope", "kind"])
    softmax = GPClassifier("4 * Matern52()", fixed="*").fit(table, np.digitize(X[:, 0], [-0.7, 0.7]))
    found = plots.relevance(softmax)
    assert found.errors is None
    assert found.names[0] == "depth"
    assert ((found.values >= 0) & (found.values <= 1)).all()


def test_relevance_bars_are_sorted_and_their_errors_stay_above_zero() -> None:
    ax = plots.plot_relevance(["a", "b"], [0.02, 0.6], [[0.1, 0.1], [0.05, 0.2]])
    assert [t.get_text() for t in ax.get_yticklabels()] == ["b", "a"]
    ends = np.array([s for c in ax.collections for s in c.get_segments()])
    np.testing.assert_allclose(np.sort(ends[:, :, 0].ravel()), [0.0, 0.07, 0.5, 0.8])
    assert [t.get_text() for t in ax.texts] == ["60 %", "2.0 %"]


# dependence ------------------------------------------------------------------------------------------------------


def by_hand(post: Any, column: int, at: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the average over rows, from the joint covariance of all of them."""
    mean, std = [], []
    for value in at:
        x = rows.copy()
        x[:, column] = value
        f = post.predict(x, covariance=True).f
        mean.append(f.mean.mean())
        std.append(np.sqrt(max(f.covariance.mean(), 0.0)))
    return np.array(mean), np.array(std)


@pytest.mark.parametrize(
    ("prior", "gram"),
    [
        (GP("2 * Matern52(lengthscale=1.5)", mean=Constant(0.3)), None),
        (GP("Linear() + Matern52().on(0)"), None),
        (GP("Matern52()", basis=LinearBasis()), None),
        (GP("Matern52()"), LowRank(inducing=X[::3].copy())),
        (GP("Matern52()"), Vecchia()),
    ],
)
def test_dependence_accounts_for_covariances_between_rows(prior: Any, gram: Any) -> None:
    options = {} if gram is None else {"gram": gram}
    post = condition(Model(prior, likelihood=Gaussian(0.05)), Data(X, Y), **options)
    found = plots.dependence(post, 0, points=7, rows=30, key=4)
    low, high = np.quantile(X[:, 0], [0.01, 0.99])
    np.testing.assert_allclose(found.x, np.linspace(low, high, 7))
    some = np.sort(np.random.default_rng(4).choice(N, 30, replace=False))
    mean, std = by_hand(post, 0, found.x, X[some])
    np.testing.assert_allclose(found.mean, mean, rtol=1e-6, atol=1e-9)
    assert found.high is not None
    np.testing.assert_allclose((found.high - found.mean) / norm.ppf(0.975), std, rtol=1e-5, atol=1e-8)


def test_dependence_on_kinds_is_told_kind_by_kind() -> None:
    found = plots.dependence(POST, 2)
    assert found.levels
    assert found.x.tolist() == [0, 1, 2]
    ax = plots.plot_dependence(POST, "kind", names=["a", "b", "kind"])
    assert ax.get_xlabel() == "kind"
    assert ax.get_xticks().tolist() == [0, 1, 2]


def test_dependence_of_two_classes_is_the_averaged_probability() -> None:
    table = pd.DataFrame(X, columns=["depth", "slope", "kind"])
    model = GPClassifier("4 * Matern52()", fixed="*").fit(table, np.where(Y > 0, "up", "down"))
    found = plots.dependence(model, "depth", points=5)
    for value, mean in zip(found.x, found.mean, strict=True):
        assert mean == pytest.approx(model.predict_proba(table.assign(depth=value))[:, 1].mean(), rel=1e-8)
    assert found.low is not None
    assert found.high is not None
    assert ((found.low > 0) & (found.low < found.mean) & (found.mean < found.high) & (found.high < 1)).all()
    ax = plots.plot_dependence(model, "depth", points=5)
    assert ax.get_ylabel() == "P(up)"


def test_dependence_of_several_classes_adds_to_one() -> None:
    for multi in ("softmax", "one_vs_rest"):
        model = GPClassifier("4 * Matern52()", fixed="*", multi_class=multi).fit(X, np.digitize(Y, [-0.5, 0.5]))
        found = plots.dependence(model, 0, points=5)
        assert found.mean.shape == (5, 3)
        np.testing.assert_allclose(found.mean.sum(1), 1.0)
    axes = plots.plot_dependence(model, [0, 1], points=5)
    assert [t.get_text() for t in axes[0].get_legend().get_texts()] == ["0", "1", "2"]
    assert axes[0].get_ylim() == axes[1].get_ylim()


def test_dependence_of_counts_is_a_rate() -> None:
    post = condition(Model(GP("Matern52()"), likelihood=Poisson()), Data(X, rng.poisson(np.exp(X[:, 0]))), inference=EP())
    found = plots.dependence(post, 0, points=6)
    assert found.low is not None
    assert (found.low > 0).all()
    assert found.mean[-1] > 3 * found.mean[0]
    assert plots.plot_dependence(post, 0, points=4).get_ylabel() == "rate"


# history ---------------------------------------------------------------------------------------------------------


def test_history_is_how_far_below_the_best_of_its_level_each_value_was() -> None:
    model = GPRegressor(n_restarts=2, random_state=0).fit(X, Y)
    assert model.learned_ is not None
    ax = plots.plot_history(model)
    values = np.array([v for _, v in model.learned_.history])
    drawn = next(c for c in ax.lines if c.get_marker() == "o").get_ydata()
    np.testing.assert_allclose(drawn, np.clip(values.max() - values, 1e-3, 1e4))
    assert ax.get_yscale() == "log"
    ends = plots.plot_restarts(model)
    top = max(r.value for r in model.learned_.restarts)
    marks = [c.get_xdata()[0] for c in ends.lines if c.get_marker() in "oD" and len(c.get_xdata()) == 1]
    np.testing.assert_allclose(marks, [top - r.value for r in model.learned_.restarts])
    labels = [t.get_text() for t in ends.get_yticklabels()]
    assert labels == ["start 1", "start 2", "start 3", "Matern32"][: len(labels)]
    with pytest.raises(CovaryError, match="nothing was learned"):
        plots.plot_history(GPRegressor("Matern52()", fixed="*", noise=0.1).fit(X, Y))


# all of them -----------------------------------------------------------------------------------------------------


def test_no_picture_fits_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    model = GPRegressor(random_state=0).fit(X, Y)

    def refuse(*args: Any, **options: Any) -> None:
        raise AssertionError("a picture has fitted something")

    monkeypatch.setattr("scipy.optimize.minimize", refuse)
    monkeypatch.setattr("covary.selection.learn.learn", refuse)
    monkeypatch.setattr("covary.families.gaussian_process.fitting.learn", refuse)
    for draw in (
        plots.plot_predicted,
        plots.plot_residuals,
        plots.plot_calibration,
        plots.plot_relevance,
        plots.plot_dependence,
        plots.plot_components,
        plots.plot_history,
        plots.plot_restarts,
    ):
        draw(model)
    plots.plot_evidence(model, ("kernel.variance", "likelihood.variance"), points=3)


@pytest.mark.parametrize(
    ("draw", "count"),
    [
        (lambda ax: plots.plot_predicted(POST, ax=ax), 1),
        (lambda ax: plots.plot_residuals(POST, ax=ax), 1),
        (lambda ax: plots.plot_calibration(POST, ax), 2),
        (lambda ax: plots.plot_relevance(POST, ax=ax, draws=5), 1),
        (lambda ax: plots.plot_dependence(POST, 0, ax, points=3), 1),
        (lambda ax: plots.plot_dependence(POST, [0, 1], ax, points=3), 2),
        (lambda ax: plots.plot_components(POST, ax, points=5), 1),
        (lambda ax: plots.plot_evidence(POST, ("kernel.variance", "mean.*"), ax, points=3), 1),
    ],
)
def test_pictures_are_drawn_on_the_axes_that_are_given(draw: Any, count: int) -> None:
    axes = figure().subplots(1, count)
    draw(axes)
    assert figures() == 0
    assert all(ax.has_data() for ax in np.ravel(axes))


def test_pictures_for_a_page_take_its_colour_and_have_ids_of_their_own() -> None:
    import matplotlib.pyplot as plt

    from covary.plots.style import CURRENT

    with plots.theme(CURRENT):
        ax = plots.plot_predicted(POST)
        first, second = (plots.svg(ax.figure, title='predictions & "truth"', prefix=p) for p in ("a-", "b-"))
        plt.close(ax.figure)
    assert first.startswith('<svg role="img" aria-label="predictions &amp; &quot;truth&quot;"')
    assert CURRENT not in first
    assert "currentColor" in first
    assert BLUE.lower() in first
    assert first.replace('"a-', '"b-').replace("#a-", "#b-") == second
    assert "<metadata" not in first
