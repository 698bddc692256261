"""Plots of models: components, evidence over two parameters, priors, kernels, spectra and matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

from covary import GP, Data, GPClassifier, GPRegressor, Model, condition, log_evidence, plots
from covary._checks import CovaryError
from covary.inference import Laplace
from covary.kernels import Hamming, Linear, Matern32, Matern52, Periodic, SquaredExponential, Wiener, spectral_density
from covary.likelihoods import Gaussian
from covary.means import LinearBasis
from covary.parameters import set_values
from covary.plots.columns import columns_of
from covary.plots.kernel import fewest_columns, reach
from covary.plots.source import coded_columns

rng = np.random.default_rng(8)
T = np.sort(rng.uniform(0, 5, 40))[:, None]
Y = 0.3 * T[:, 0] + np.sin(2 * np.pi * T[:, 0]) + 0.1 * rng.normal(size=40)
PARTS = (4.0 * SquaredExponential(3.0), Periodic(period=1.0))
POST = condition(Model(GP(PARTS[0] + PARTS[1]), likelihood=Gaussian(0.02)), Data(T, Y))


@pytest.fixture(autouse=True)
def no_windows() -> Iterator[None]:
    mpl.use("Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def edges(ax: Any, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the band over the grid x."""
    corners = ax.collections[0].get_paths()[0].vertices
    inside = [corners[np.isclose(corners[:, 0], at)][:, 1] for at in x]
    return np.array([v.min() for v in inside]), np.array([v.max() for v in inside])


# components ------------------------------------------------------------------------------------------------------


def test_components_are_terms_less_their_mean_over_the_rows() -> None:
    axes = plots.plot_components(POST, points=7)
    inverse = np.linalg.inv(POST.model.kernel.gram(T) + 0.02 * np.eye(40))
    share = POST.components(T).share()
    for ax, kernel, (name, part) in zip(axes, PARTS, share.items(), strict=True):
        assert ax.get_title("left") == f"{name}: {100 * part:.{0 if part >= 0.1 else 1}f} % of the variance"
        x, mean = ax.lines[0].get_data()
        c = kernel.cross(T, x[:, None]) - kernel.cross(T, T).mean(1)[:, None]
        np.testing.assert_allclose(mean, c.T @ inverse @ Y, atol=1e-8)
        prior = 1.0 * kernel.diag(x[:, None]) - 2 * kernel.cross(x[:, None], T).mean(1) + kernel.gram(T).mean()
        std = np.sqrt(prior - np.einsum("ij,ik,kj->j", c, inverse, c))
        low, high = edges(ax, x)
        np.testing.assert_allclose(high - low, 2 * 1.959964 * std, rtol=1e-5)
    assert [ax.get_xlabel() for ax in axes] == ["", "x0"]


def test_components_with_a_basis_and_of_several_columns() -> None:
    post = condition(Model(GP(PARTS[1], basis=LinearBasis()), likelihood=Gaussian(0.02)), Data(T, Y))
    axes = plots.plot_components(post, points=5)
    assert axes[1].get_title("left").startswith("basis: ")
    x, mean = axes[1].lines[0].get_data()
    assert post.basis_weights is not None
    slope = post.basis_weights[1]
    np.testing.assert_allclose(mean, slope * (x - T.mean()), rtol=1e-6, atol=1e-9)
    X = rng.uniform(-1, 1, (30, 4))
    model = Model(GP("Matern52().on(2) + Matern52().on(0, 1) + Linear()"), likelihood=Gaussian(0.1))
    axes = plots.plot_components(condition(model, Data(X, X[:, 0] * X[:, 1] + X[:, 2])), names=list("abcd"), points=5)
    assert [(ax.get_xlabel(), ax.get_ylabel()) for ax in axes] == [("c", ""), ("a", "b"), ("rows, sorted", "")]
    assert (np.diff(axes[2].lines[0].get_ydata()) >= 0).all()


def test_columns_of_a_kernel_are_read_from_its_structure() -> None:
    assert columns_of(2.0 * (Matern52().on(3) * Periodic().on(1)), 5) == (1, 3)
    assert columns_of(Matern52().on(0) + Linear(), 3) == (0, 1, 2)
    assert columns_of(Matern52().on(1) ** 2, 3) == (1,)
    assert coded_columns((1.0 + 2.0 * (Matern52().on(0) * Hamming().on(4, 2)), Linear()), 5) == {2, 4}


def test_categories_are_never_asked_about_between_two_codes() -> None:
    pd = pytest.importorskip("pandas")
    kind = rng.choice(["clay", "sand", "silt"], 40)
    table = pd.DataFrame({"depth": T[:, 0], "kind": kind})
    y = Y + (kind == "silt")
    model = GPRegressor("Matern52().on(0) * Hamming().on(1)", fixed="*", noise=0.1).fit(table, y)
    ax = plots.plot_dependence(model, "kind")
    assert [t.get_text() for t in ax.get_xticklabels()] == ["clay", "sand", "silt"]
    plots.plot_dependence(model, "depth", points=4)
    plots.plot_relevance(model, draws=5)
    plots.plot_components(model, points=5)
    plots.plot_fit(model.posterior_)
    classes = GPClassifier("4 * (Matern52().on(0) * Hamming().on(1))", fixed="*").fit(table, y > 1)
    plots.plot_classes(classes, points=5)
    plots.plot_dependence(classes, points=3)


def test_a_single_column_is_all_there_is() -> None:
    assert plots.relevance(POST).values.tolist() == [1.0]
    found = plots.dependence(POST, 0, points=9)
    f = POST.predict(found.x[:, None]).f
    assert found.high is not None
    np.testing.assert_allclose(found.mean, f.mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.high, f.interval()[1], rtol=1e-7)


# evidence --------------------------------------------------------------------------------------------------------


def test_evidence_contours_are_the_evidence_with_the_model_marked() -> None:
    paths = ("kernel.0.lengthscale", "likelihood.variance")
    ax = plots.plot_evidence(POST, paths, points=5, spans=((1.0, 9.0), (0.01, 0.1)))
    values = [
        log_evidence(set_values(POST.model, {paths[0]: a, paths[1]: b}), POST.data)
        for a in np.geomspace(1.0, 9.0, 5)
        for b in np.geomspace(0.01, 0.1, 5)
    ]
    assert ax.get_title("left") == f"log evidence, at most {max(values):.2f}; cross: the model".replace("-", "−")
    assert (ax.lines[0].get_xdata()[0], ax.lines[0].get_ydata()[0]) == pytest.approx((3.0, 0.02))
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_xlim() == pytest.approx((1.0, 9.0))


def test_evidence_of_entries_by_name_and_of_another_inference() -> None:
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(rng.uniform(-1, 1, (25, 2)), columns=["depth", "slope"])
    model = GPRegressor("Matern52(lengthscale=[1, 2])", fixed="*", noise=0.1).fit(X, X["depth"])
    ax = plots.plot_evidence(model, ("kernel.lengthscale[slope]", "kernel.lengthscale[0]"), points=3)
    assert (ax.lines[0].get_xdata()[0], ax.lines[0].get_ydata()[0]) == (2.0, 1.0)
    classes = GPClassifier("4 * Matern52()", fixed="*").fit(X, X["depth"] > 0)
    spans = ((4.0, 8.0), (1.0, 2.0))
    ax = plots.plot_evidence(classes, ("kernel.variance", "kernel.lengthscale"), points=2, spans=spans)
    post = classes.posterior_
    there = [
        log_evidence(set_values(post.model, {"kernel.variance": v, "kernel.lengthscale": r}), post.data, inference=Laplace())
        for v in spans[0]
        for r in spans[1]
    ]
    assert f"{max(there):.2f}".replace("-", "−") in ax.get_title("left")
    with pytest.raises(CovaryError, match="the noise is not Gaussian; give inference"):
        plots.plot_evidence(post, ("kernel.variance", "kernel.lengthscale"))


@pytest.mark.parametrize(
    ("paths", "options", "sentence"),
    [
        (("kernel.scale", "likelihood.variance"), {}, "no parameter is called 'kernel.scale'; choose from kernel.0.variance"),
        (("kernel.*.lengthscale", "likelihood.variance"), {}, "matches several parameters"),
        (("likelihood.variance", "likelihood.variance"), {}, "both paths are 'likelihood.variance'"),
        (("likelihood.variance",), {}, "give the paths of two parameters"),
        (("kernel.0.lengthscale[2]", "likelihood.variance"), {}, r"kernel.0.lengthscale has no entry '2'"),
        (
            ("kernel.0.lengthscale", "likelihood.variance"),
            {"spans": ((-1, 1), (1, 2))},
            "the span of kernel.0.lengthscale is -1 to 1",
        ),
    ],
)
def test_evidence_over_what_is_not_there_is_refused(paths: Any, options: Any, sentence: str) -> None:
    with pytest.raises(CovaryError, match=sentence):
        plots.plot_evidence(POST, paths, **options)


# kernels ---------------------------------------------------------------------------------------------------------


def test_prior_samples_with_the_band_that_holds_them() -> None:
    ax = plots.plot_prior("4.0 * Matern52(lengthscale=2.0)", samples=200, points=30, over=(0.0, 6.0))
    drawn = np.array([line.get_ydata() for line in ax.lines])
    assert drawn.shape == (200, 30)
    low, high = edges(ax, ax.lines[0].get_xdata())
    np.testing.assert_allclose(high, 2 * 1.96, rtol=1e-3)
    assert 0.9 < ((drawn > low) & (drawn < high)).mean() < 0.99
    again = plots.plot_prior("4.0 * Matern52(lengthscale=2.0)", samples=1, points=30, over=(0.0, 6.0), key=0)
    other = plots.plot_prior("4.0 * Matern52(lengthscale=2.0)", samples=1, points=30, over=(0.0, 6.0), key=1)
    assert not np.allclose(again.lines[0].get_ydata(), other.lines[0].get_ydata())


def test_prior_of_two_columns_is_a_map_and_of_more_refused() -> None:
    ax = plots.plot_prior(Matern52([1.0, 4.0]))
    field = ax.images[0].get_array()
    across, up = (np.abs(np.diff(field, axis=a)).mean() for a in (1, 0))
    assert across > 2 * up  # the first column has the shorter length-scale
    with pytest.raises(CovaryError, match="the kernel has 3 input columns"):
        plots.plot_prior(Matern52([1.0, 2.0, 3.0]))


def test_kernel_against_distance_with_its_spectrum() -> None:
    left, right = plots.plot_kernel(2.0 * Matern32(lengthscale=3.0))
    r, k = left.lines[0].get_data()
    np.testing.assert_allclose(k, 2 * (1 + np.sqrt(3) * r / 3) * np.exp(-np.sqrt(3) * r / 3), rtol=1e-10, atol=1e-12)
    s, density = right.lines[0].get_data()
    np.testing.assert_allclose(density, spectral_density(2.0 * Matern32(lengthscale=3.0), s))
    assert density[-1] / density[0] == pytest.approx(1e-3, rel=0.1)


def test_kernels_without_a_spectrum_and_kernels_that_know_where_they_are() -> None:
    ax = plots.plot_kernel(Periodic(period=2.0))
    assert ax.get_xlabel() == "distance"
    ax = plots.plot_kernel(Wiener(), at=[1.0, 2.0], over=(0.0, 3.0))
    x = ax.lines[0].get_xdata()
    np.testing.assert_allclose(ax.lines[1].get_ydata(), np.minimum(x, 2.0))
    with pytest.raises(CovaryError, match="has no spectral density in closed form"):
        plots.plot_spectrum(Periodic())
    with pytest.raises(CovaryError, match="along is 1 and the kernel has 1 column"):
        plots.plot_kernel(Matern32(), along=1)
    with pytest.raises(CovaryError, match="got int; give a kernel"):
        plots.plot_kernel(3)


def test_a_kernel_of_several_columns_is_drawn_along_one() -> None:
    kernel = SquaredExponential([1.0, 5.0])
    assert fewest_columns("test", kernel) == 2
    left, right = plots.plot_kernel(kernel, along=1)
    r, k = left.lines[0].get_data()
    np.testing.assert_allclose(k, np.exp(-(r**2) / 50), atol=1e-12)
    assert reach(kernel, 2, 1)[1] == pytest.approx(10 * 5 * np.sqrt(2 * np.log(2)), rel=0.03)
    s, density = right.lines[0].get_data()
    np.testing.assert_allclose(density, 10 * np.pi * np.exp(-2 * (5 * np.pi * s) ** 2), rtol=1e-10)


def test_gram_is_the_matrix_by_order_of_the_input() -> None:
    X = rng.permutation(T)
    drawn = plots.plot_gram(PARTS[0], X).images[0].get_array()
    np.testing.assert_allclose(drawn, PARTS[0].gram(T))
    after = plots.plot_gram(POST)
    np.testing.assert_allclose(after.images[0].get_array(), POST.covariance(T))
    assert after.images[0].get_clim()[0] == -after.images[0].get_clim()[1]
    many = plots.plot_gram(PARTS[0], np.linspace(0, 1, 1000)[:, None])
    assert many.images[0].get_array().shape == (334, 334)
    with pytest.raises(CovaryError, match="X is missing"):
        plots.plot_gram(PARTS[0])
