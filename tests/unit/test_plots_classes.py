"""Plots of class probabilities and of fits with non-Gaussian noise agree with the models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from scipy import special

from covary import GPClassifier, GPRegressor
from covary._checks import CovaryError
from covary.likelihoods import Bernoulli, Binomial, NegativeBinomial, Ordinal, Poisson, StudentT
from covary.means import Constant
from covary.plots import plot_classes, plot_fit, plot_series
from covary.plots.classes import MANY

rng = np.random.default_rng(5)
N = 60
X = rng.uniform(-2, 2, (N, 5))
F = 2 * np.sin(1.5 * X[:, 0]) - X[:, 1]
TWO = np.where(F + 0.5 * rng.normal(size=N) > 0, "wet", "dry")
THREE = np.digitize(F + 0.3 * rng.normal(size=N), [-1, 1])
KERNEL = "4 * Matern52(lengthscale=1.5)"


@pytest.fixture(autouse=True)
def no_windows() -> Iterator[None]:
    mpl.use("Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def classifier(X: Any, y: Any, **options: Any) -> GPClassifier:
    return GPClassifier(KERNEL, fixed="*", **options).fit(X, y)


def figures() -> int:
    import matplotlib.pyplot as plt

    return len(plt.get_fignums())


def texts(legend: Any) -> list[str]:
    return [text.get_text() for text in legend.get_texts()]


def band(collection: Any, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The edges of a filled band over the grid x."""
    corners = collection.get_paths()[0].vertices
    inside = [corners[np.isclose(corners[:, 0], at)][:, 1] for at in x]
    return np.array([v.min() for v in inside]), np.array([v.max() for v in inside])


def centres(image: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The inputs at the centres of an image's pixels."""
    left, right, bottom, top = image.get_extent()
    a, b = (right - left) / shape[1] / 2, (top - bottom) / shape[0] / 2
    u, v = np.linspace(left + a, right - a, shape[1]), np.linspace(bottom + b, top - b, shape[0])
    return np.stack(np.meshgrid(u, v), axis=-1)


# two inputs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"inference": "ep"}, {"inference": "ep", "link": "probit"}])
def test_map_of_two_classes_is_predict_proba_with_contours_and_data(options: dict[str, Any]) -> None:
    table = pd.DataFrame(X[:, :2], columns=["depth", "slope"])
    model = classifier(table, TWO, **options)
    ax = model.plot(points=21)
    assert figures() == 1
    (image,) = ax.images
    values = np.asarray(image.get_array())
    grid = centres(image, values.shape)
    p = model.predict_proba(pd.DataFrame(grid.reshape(-1, 2), columns=["depth", "slope"]))[:, 1]
    np.testing.assert_allclose(values.ravel(), p, atol=1e-10)
    assert image.get_clim() == (0, 1)
    low, high = X[:, :2].min(0), X[:, :2].max(0)
    pad = 0.05 * (high - low)
    np.testing.assert_allclose([ax.get_xlim(), ax.get_ylim()], np.stack([low - pad, high + pad], axis=1))
    lines = {float(c.levels[0]): float(c.get_linewidth()[0]) for c in ax.collections if hasattr(c, "levels")}
    assert set(lines) == {0.1, 0.5, 0.9}
    assert lines[0.5] > 2 * lines[0.1] == 2 * lines[0.9]
    for name, points in zip(("dry", "wet"), [c for c in ax.collections if not hasattr(c, "levels")], strict=True):
        np.testing.assert_allclose(points.get_offsets(), X[name == TWO, :2])
    assert texts(ax.get_legend()) == ["dry", "wet"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("depth", "slope")
    bar = image.colorbar.ax
    assert bar.get_title() == "P(wet)"


def test_colours_and_shapes_of_the_points_tell_the_classes_apart() -> None:
    ax = classifier(X[:, :2], TWO).plot(points=9)
    dry, wet = [c for c in ax.collections if not hasattr(c, "levels")]
    np.testing.assert_allclose(dry.get_facecolor()[0][:3], to_rgb(MANY[0]))
    np.testing.assert_allclose(wet.get_facecolor()[0][:3], to_rgb(MANY[1]))
    assert dry.get_paths()[0].vertices.shape != wet.get_paths()[0].vertices.shape


def test_contours_that_are_not_reached_are_left_out() -> None:
    model = GPClassifier("0.01 * Matern52()", fixed="*").fit(X[:, :2], TWO)
    ax = model.plot(points=9)
    assert not [c for c in ax.collections if hasattr(c, "levels") and c.levels[0] != 0.5]


def regions(model: Any, ax: Any, palette: Any, finer: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The classes and strengths that a map's colours show at the nodes of its grid, and what the model says there."""
    (image,) = ax.images
    colours = np.asarray(image.get_array(), float)[..., :3]
    nodes = centres(image, colours.shape[:2])[::finer, ::finer]
    away = 1 - colours[::finer, ::finer].reshape(-1, 1, 3)
    full = 1 - np.array([to_rgb(c) for c in palette[: len(model.classes_)]])
    strength = (away * full).sum(2) / (full**2).sum(1)
    best = np.abs(away - strength[..., None] * full).max(2).argmin(1)
    return best, strength[np.arange(len(best)), best], model.predict_proba(nodes.reshape(-1, 2))


@pytest.mark.parametrize("scheme", ["softmax", "one_vs_rest"])
def test_map_of_three_classes_shows_the_most_probable_and_how_probable(scheme: str) -> None:
    model = classifier(X[:, :2], THREE, multi_class=scheme)
    ax = plot_classes(model, points=11, names=["east", "north"])
    best, strength, p = regions(model, ax, MANY)
    np.testing.assert_array_equal(best, p.argmax(1))
    np.testing.assert_allclose(strength, 0.62 * (p.max(1) - 1 / 3) / (2 / 3), atol=1e-6)
    assert texts(ax.get_legend()) == ["0", "1", "2"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("east", "north")
    dots = [c for c in ax.collections if not hasattr(c, "levels")]
    for c, points in enumerate(dots):
        np.testing.assert_allclose(points.get_offsets(), X[c == THREE, :2])


def test_borders_lie_where_two_classes_are_equally_probable() -> None:
    model = classifier(X[:, :2], THREE)
    ax = model.plot()
    borders = [c for c in ax.collections if hasattr(c, "levels")]
    assert len(borders) == 3
    for one in borders:
        places = np.concatenate([path.vertices for path in one.get_paths()])[::7]
        p = np.sort(model.predict_proba(places), axis=1)
        np.testing.assert_allclose(p[:, -1], p[:, -2], atol=5e-3)


def test_ten_classes_have_ten_looks() -> None:
    angle = rng.uniform(0, 2 * np.pi, 80)
    y = (angle / (2 * np.pi) * 10).astype(int)
    model = classifier(2 * np.stack([np.cos(angle), np.sin(angle)], axis=1), y, multi_class="one_vs_rest")
    ax = model.plot(points=11)
    best, _, p = regions(model, ax, MANY)
    clear = p.max(1) > 0.2  # paler colours than that are too close to white to be told apart
    np.testing.assert_array_equal(best[clear], p.argmax(1)[clear])
    assert texts(ax.get_legend()) == [str(c) for c in range(10)]
    dots = [c for c in ax.collections if not hasattr(c, "levels")]
    looks = {(tuple(d.get_facecolor()[0]), d.get_paths()[0].vertices.tobytes()) for d in dots}
    assert len(looks) == 10


def test_a_constant_column_beside_another_is_drawn() -> None:
    flat = np.column_stack([X[:, 0], np.full(N, 3.0)])
    for y in (TWO, THREE):
        ax = classifier(flat, y, multi_class="one_vs_rest").plot(points=9)
        np.testing.assert_allclose(ax.get_ylim(), (2.95, 3.05))


# one input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_curve_of_one_input_has_its_band_and_the_data(inference: str) -> None:
    labels = TWO == "wet"
    model = classifier(X[:, :1], labels, inference=inference)
    ax = model.plot(points=50)
    curve = ax.lines[0]
    x = np.asarray(curve.get_xdata())
    np.testing.assert_allclose(curve.get_ydata(), model.predict_proba(x[:, None])[:, 1])
    low, high = band(ax.collections[0], x)
    np.testing.assert_allclose((low, high), model.predict_interval(x[:, None]))
    assert (low < curve.get_ydata()).all()
    assert (curve.get_ydata() < high).all()
    for value, marks in zip((False, True), ax.collections[1:], strict=True):
        where = marks.get_offsets()
        np.testing.assert_allclose(where[:, 0], X[labels == value, 0])
        assert (where[:, 1] > 1).all() if value else (where[:, 1] < 0).all()
    assert texts(ax.get_legend()) == ["95 % interval", "mean", f"False ({(~labels).sum()})", f"True ({labels.sum()})"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x0", "P(True)")


@pytest.mark.parametrize("scheme", ["softmax", "one_vs_rest"])
def test_one_input_and_several_classes_have_a_curve_each(scheme: str) -> None:
    model = classifier(X[:, :1], THREE.astype(float), multi_class=scheme)
    ax = model.plot(points=20)
    assert len(ax.lines) == 3
    x = np.asarray(ax.lines[0].get_xdata())
    np.testing.assert_allclose(np.stack([c.get_ydata() for c in ax.lines], axis=1), model.predict_proba(x[:, None]))
    assert texts(ax.get_legend()) == ["0", "1", "2"]
    assert ax.get_ylabel() == "probability"
    places = [marks.get_offsets()[:, 1] for marks in ax.collections]
    assert len({float(p[0]) for p in places}) == 3  # a row each, below the curves
    assert max(p.max() for p in places) < 0


def test_a_constant_input_alone_is_drawn() -> None:
    ax = classifier(np.full((N, 1), 2.0), TWO).plot()
    np.testing.assert_allclose(ax.get_xlim(), (1.95, 2.05))


# more inputs -----------------------------------------------------------------------------------------------------


def test_five_inputs_have_a_panel_each_the_most_relevant_first() -> None:
    table = pd.DataFrame(X, columns=list("abcde"))
    model = GPClassifier("4 * Matern52(lengthscale=[1, 3, 50, 50, 50])", fixed="*").fit(table, TWO)
    axes = model.plot(points=30)
    assert len(axes) == 5
    assert figures() == 1
    assert [ax.get_xlabel() for ax in axes][:2] == ["a", "b"]
    assert {ax.get_xlabel() for ax in axes} == set("abcde")
    moved = []
    for ax in axes:
        column = "abcde".index(ax.get_xlabel())
        x = np.asarray(ax.lines[0].get_xdata())
        rows = np.tile(np.median(X, axis=0), (30, 1))
        rows[:, column] = x
        rows = pd.DataFrame(rows, columns=list("abcde"))
        p = model.predict_proba(rows)[:, 1]
        np.testing.assert_allclose(ax.lines[0].get_ydata(), p)
        low, high = band(ax.collections[0], x)
        np.testing.assert_allclose((low, high), model.predict_interval(rows))
        assert ((low < p) & (p < high)).all()
        np.testing.assert_allclose(ax.collections[1].get_offsets()[:, 0], X[TWO == "dry", column])
        moved.append(np.ptp(p))
    assert np.all(np.diff(moved) < 0.01)
    figure = axes[0].figure
    assert texts(figure.legends[0])[2:] == [f"dry ({(TWO == 'dry').sum()})", f"wet ({(TWO == 'wet').sum()})"]
    assert "medians" in figure.get_supxlabel()
    assert axes[0].get_ylabel() == "P(wet)"
    assert len(figure.axes) == 5  # no empty panel is left


@pytest.mark.parametrize("scheme", ["softmax", "one_vs_rest"])
def test_several_classes_and_inputs_have_a_curve_for_each_class_in_every_panel(scheme: str) -> None:
    model = classifier(X[:, :3], THREE, multi_class=scheme)
    axes = plot_classes(model, points=10)
    assert len(axes) == 3
    rows = np.tile(np.median(X[:, :3], axis=0), (10, 1))
    rows[:, int(axes[0].get_xlabel()[1])] = axes[0].lines[0].get_xdata()
    np.testing.assert_allclose(np.stack([c.get_ydata() for c in axes[0].lines], axis=1), model.predict_proba(rows))
    assert texts(axes[0].figure.legends[0]) == ["0", "1", "2"]


def test_nine_panels_at_most_and_constant_columns_have_none() -> None:
    wide = rng.normal(size=(N, 12))
    wide[:, 4] = 1.0
    assert len(classifier(wide, TWO).plot(points=5)) == 9
    assert len(classifier(wide, TWO).plot(points=5, panels=20)) == 11
    flat = np.column_stack([X[:, 0], np.ones(N), X[:, 1]])
    axes = classifier(flat, TWO).plot(points=5)
    assert {ax.get_xlabel() for ax in axes} == {"x0", "x2"}
    assert len(classifier(np.ones((N, 3)), TWO).plot(points=5)) == 3


# axes and refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("columns", "y"), [(1, TWO), (1, THREE), (2, TWO), (2, THREE), (4, TWO), (4, THREE)])
def test_axes_that_are_given_are_drawn_on_and_no_figure_is_opened(columns: int, y: np.ndarray) -> None:
    model = classifier(X[:, :columns], y, multi_class="one_vs_rest")
    given = Figure().subplots(1, 2) if columns > 2 else Figure().subplots()
    assert model.plot(ax=given, points=8) is given
    assert figures() == 0
    first = given[0] if columns > 2 else given
    assert len(texts(first.get_legend())) == (4 if y is TWO and columns != 2 else len(np.unique(y)))
    if columns > 2:
        assert given[0].get_ylim() == given[1].get_ylim()
        assert given[1].lines


def test_what_cannot_be_drawn_is_refused_and_no_figure_is_opened() -> None:
    two, four = classifier(X[:, :2], TWO), classifier(X[:, :4], TWO)
    with pytest.raises(CovaryError, match=r"got 2 axes .* give a single one"):
        two.plot(ax=Figure().subplots(1, 2))
    with pytest.raises(CovaryError, match="got 1 name for 2 input columns"):
        two.plot(names=["a"])
    with pytest.raises(CovaryError, match="points is 1; give four or more"):
        two.plot(points=1)
    with pytest.raises(CovaryError, match="panels is 0"):
        four.plot(panels=0)
    with pytest.raises(CovaryError, match="the model is a classifier; use"):
        plot_fit(classifier(X[:, :1], THREE).posterior_)
    assert figures() == 0


# fits under other noise ------------------------------------------------------------------------------------------

x1 = np.sort(rng.uniform(0, 6, N))[:, None]
g = np.sin(x1[:, 0])
SIZE = rng.integers(4, 30, N).astype(float)
SEEN: dict[str, Any] = {
    "student_t": (g + 0.1 * rng.standard_t(3, N), "function"),
    "laplace": (g + 0.1 * rng.laplace(size=N), "function"),
    "heteroscedastic": (g + 0.1 * np.exp(g) * rng.normal(size=N), "function"),
    "poisson": (rng.poisson(np.exp(g + 1)).astype(float), "rate"),
    "negative_binomial": (rng.poisson(np.exp(g + 1) * rng.gamma(3, 1 / 3, N)).astype(float), "rate"),
    "gamma": (np.exp(g) * rng.gamma(5, 0.2, N), "mean"),
    "binomial": (rng.binomial(1, special.expit(2 * g)).astype(float), "probability"),
    "ordinal": (np.clip(np.round(1 + 1.4 * g), 0, 2), "mean"),
}


def regressor(likelihood: Any, X: np.ndarray, y: np.ndarray, mean: Any = "constant") -> GPRegressor:
    kernel = "Matern52(lengthscale=1.5)"
    return GPRegressor(kernel, likelihood=likelihood, mean=mean, fixed="*", standardise=False).fit(X, y)


@pytest.mark.parametrize("name", SEEN)
def test_bands_of_other_noise_are_quantiles_on_the_scale_of_y(name: str) -> None:
    y, what = SEEN[name]
    model = regressor(name, x1, y)
    ax = model.plot(points=20)
    assert texts(ax.get_legend()) == ["95 % of new observations", f"95 % of the {what}", "mean", f"data ({N})"]
    x = np.asarray(ax.lines[0].get_xdata())
    prediction = model.posterior_.predict(x[:, None])
    np.testing.assert_allclose(ax.lines[0].get_ydata(), prediction.y.mean)
    corners = ax.collections[0].get_paths()[0].vertices[:, 1]
    low, high = prediction.y.interval()
    np.testing.assert_allclose((corners.min(), corners.max()), (low.min(), high.max()))
    inner = band(ax.collections[1], x)
    f_low, f_high = (v if v.ndim == 1 else v[:, 0] for v in prediction.f.interval())
    if what == "function":
        np.testing.assert_allclose(inner, (f_low, f_high))
    else:
        likelihood = model.model_.likelihood
        np.testing.assert_allclose(inner, (likelihood.moments(f_low).mean, likelihood.moments(f_high).mean))
    assert ((inner[0] < prediction.y.mean) & (prediction.y.mean < inner[1])).all()
    np.testing.assert_allclose(ax.collections[2].get_offsets(), np.column_stack([x1[:, 0], y]))
    assert ax.get_ylabel() == ("level" if name == "ordinal" else "y")


@pytest.mark.parametrize(
    ("likelihood", "count", "what"),
    [
        (Poisson(), rng.poisson(SIZE * np.exp(g)), "rate"),
        (NegativeBinomial(0.1), rng.poisson(SIZE * np.exp(g)), "rate"),
        (Binomial(), rng.binomial(SIZE.astype(int), special.expit(2 * g)), "probability"),
    ],
)
def test_sized_observations_are_drawn_per_size(likelihood: Any, count: np.ndarray, what: str) -> None:
    model = regressor(likelihood, x1, np.column_stack([count, SIZE]).astype(float))
    ax = model.plot(points=10)
    usual = float(np.sort(SIZE)[N // 2])
    assert texts(ax.get_legend())[:2] == [f"95 % of new observations of size {usual:g}", f"95 % of the {what}"]
    assert ax.get_ylabel() == "y / size"
    np.testing.assert_allclose(ax.collections[2].get_offsets()[:, 1], count / SIZE)
    x = np.asarray(ax.lines[0].get_xdata())
    one = model.posterior_.predict(x[:, None]).y
    np.testing.assert_allclose(ax.lines[0].get_ydata(), one.mean)
    corners = ax.collections[0].get_paths()[0].vertices[:, 1]
    many = model.posterior_.predict(x[:, None], size=usual).y
    np.testing.assert_allclose(corners.max(), many.quantile(0.975).max() / usual)
    wide = np.ptp(corners)
    narrow = np.ptp(model.plot(points=10, size=1e4).collections[0].get_paths()[0].vertices[:, 1])
    assert narrow < wide  # larger samples scatter less


def test_a_square_link_has_the_quantiles_of_the_rate() -> None:
    model = regressor(Poisson("square"), x1, rng.poisson((1 + g) ** 2).astype(float), mean=Constant(1.0))
    ax = model.plot(points=10)
    x = np.asarray(ax.lines[0].get_xdata())
    f = model.posterior_.predict(x[:, None]).f
    low, high = band(ax.collections[1], x)
    for edge, share in ((low, 0.025), (high, 0.975)):
        below = special.ndtr((np.sqrt(edge) - f.mean) / f.std) - special.ndtr((-np.sqrt(edge) - f.mean) / f.std)
        np.testing.assert_allclose(below, share, atol=2e-3)


def test_draws_are_on_the_scale_of_y() -> None:
    model = regressor("gamma", x1, SEEN["gamma"][0])
    ax = plot_series(model.posterior_, np.linspace(0, 6, 15), samples=3, key=2, data=False)
    draws = np.stack([line.get_ydata() for line in ax.lines[1:]])
    np.testing.assert_allclose(draws, np.exp(model.posterior_.sample(np.linspace(0, 6, 15)[:, None], 3, key=2)))
    assert "draws" in texts(ax.get_legend())
    assert len(ax.collections) == 2


def test_two_classes_are_drawn_as_a_probability() -> None:
    posterior = regressor(Bernoulli("logit"), x1, np.where(g > 0, 1.0, -1.0)).posterior_
    ax = plot_fit(posterior, points=9)
    assert "95 % of the probability" in texts(ax.get_legend())
    assert set(ax.collections[2].get_offsets()[:, 1]) == {0.0, 1.0}


@pytest.mark.parametrize("name", ["student_t", "heteroscedastic", "poisson", "ordinal"])
def test_maps_of_other_noise_show_mean_and_spread_of_y(name: str) -> None:
    h = np.sin(X[:, 0]) * X[:, 1]
    y = {"poisson": rng.poisson(np.exp(h)), "ordinal": np.clip(np.round(1 + h), 0, 2)}.get(name, h + 0.1 * rng.normal(size=N))
    model = regressor(name, X[:, :2], y.astype(float))
    axes = model.plot()
    mean = "mean of level" if name == "ordinal" else "mean"
    assert [ax.get_title() for ax in axes] == [mean, "standard deviation of new observations"]
    u = np.stack(np.meshgrid(*(np.linspace(*np.array(lim), 80) for lim in (axes[0].get_xlim(), axes[0].get_ylim()))), -1)
    seen = model.posterior_.predict(u.reshape(-1, 2)).y
    for ax, values in zip(axes, (seen.mean, seen.std), strict=True):
        levels = ax.collections[0].levels
        assert levels[0] <= values.min() + 1e-6
        assert levels[-1] >= values.max() - 1e-6
    np.testing.assert_allclose(axes[1].collections[0].levels[[0, -1]], (seen.std.min(), seen.std.max()), rtol=1e-6)


def test_noise_without_a_variance_shows_the_spread_of_the_function_and_wild_points_do_not_take_the_colours() -> None:
    y = np.sin(X[:, 0])
    y[3] = 1e4
    axes = regressor(StudentT(0.2, degrees=1.5), X[:, :2], y).plot()
    assert axes[1].get_title() == "standard deviation of the function"
    assert axes[0].collections[0].levels[-1] < 10


def test_map_of_sized_observations_is_per_size() -> None:
    count = rng.binomial(SIZE.astype(int), special.expit(X[:, 0])).astype(float)
    axes = regressor(Binomial(), X[:, :2], np.column_stack([count, SIZE])).plot()
    assert axes[0].get_title() == "mean of y / size"
    assert axes[0].collections[0].levels[-1] <= 1
    assert f"of size {np.sort(SIZE)[N // 2]:g}" in axes[1].get_title()


def test_levels_of_an_ordinal_fit_are_whole_numbers() -> None:
    ax = regressor(Ordinal.of(4), x1, np.clip(np.round(1.5 + 1.5 * g), 0, 3)).plot(points=9)
    assert ax.get_yticks().tolist() == [0, 1, 2, 3]
