"""GPRegressor: arguments, scikit-learn conventions, summary, plots, invalid input."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from covary import GPRegressor
from covary._checks import CovaryError
from covary._module import Mark
from covary.distributions import LogNormal
from covary.families.gaussian_process.summary import _note, _short_kernel
from covary.kernels import Matern52, bounded, fixed, parse
from covary.means import Constant
from covary.parameters import parameters
from unit.regressed import KERNEL, QUICK, X1, XN, Y1, X, Y, of_several_outputs, of_the_line, of_the_surface


@pytest.fixture
def fitted() -> GPRegressor:
    return of_the_surface()


@pytest.fixture
def line() -> GPRegressor:
    return of_the_line()


@pytest.fixture
def several() -> GPRegressor:
    return of_several_outputs()


# arguments ------------------------------------------------------------------------------------------------------


def test_a_kernel_may_be_text(line: GPRegressor) -> None:
    text = GPRegressor("4.0 * Matern52(lengthscale=1.1)", **QUICK).fit(X1, Y1)
    assert text.model_ == line.model_
    held = GPRegressor("fixed(4.0) * Matern52(lengthscale=bounded(1.1, 1.0, 1.2))", **QUICK).fit(X1, Y1)
    assert float(held.model_.kernel.variance) == 4.0
    assert 1.0 <= float(held.model_.kernel.kernel.lengthscale) <= 1.2


@pytest.mark.parametrize(
    ("mean", "paths"),
    [
        ("zero", []),
        ("constant", ["mean.value"]),
        ("linear", ["mean.weight", "mean.value"]),
        (Constant(fixed(1.5)), ["mean.value"]),
        (lambda x: 3.0 * jnp.cos(x[0]), []),
    ],
    ids=["zero", "constant", "linear", "object", "function"],
)
def test_means(mean: Any, paths: list[str]) -> None:
    model = GPRegressor(KERNEL, mean=mean, **QUICK).fit(X1, Y1)
    assert [path for path in parameters(model.model_) if path.startswith("mean")] == paths
    far = model.predict([[1e6]])[0]  # where the data say nothing, the mean is all there is
    found = {path: float(np.squeeze(p.value)) for path, p in parameters(model.model_).items()}
    if mean == "zero":
        assert far == pytest.approx(0.0, abs=1e-9)
    elif mean == "constant":
        assert far == pytest.approx(found["mean.value"])
    elif mean == "linear":
        assert far == pytest.approx(found["mean.value"] + 1e6 * found["mean.weight"])
    elif callable(mean):
        assert far == pytest.approx(3.0 * np.cos(1e6), abs=1e-6)
    else:
        assert far == found["mean.value"] == 1.5


def test_fixed_bounds_and_noise_are_kept() -> None:
    model = GPRegressor(
        KERNEL, fixed=("kernel.variance",), bounds={"kernel.lengthscale": (2.0, 3.0)}, noise=fixed(0.25), **QUICK
    ).fit(X1, Y1)
    found = {path: float(p.value) for path, p in parameters(model.model_).items()}
    assert found["kernel.variance"] == 4.0
    assert 2.0 - 1e-9 <= found["kernel.lengthscale"] <= 3.0 + 1e-9
    assert found["likelihood.variance"] == 0.25
    assert float(model.learned_.restarts[0].start.likelihood.variance) == 0.25
    start = GPRegressor(KERNEL, noise=0.7, **QUICK).fit(X1, Y1).learned_.restarts[0].start
    assert float(start.likelihood.variance) == pytest.approx(0.7)
    inside = GPRegressor(KERNEL, noise=bounded(0.7, 0.5, 0.9), **QUICK).fit(X1, Y1)
    assert 0.5 - 1e-9 <= float(inside.model_.likelihood.variance) <= 0.9 + 1e-9


def test_priors_are_the_users_or_none_or_default(line: GPRegressor) -> None:
    none = GPRegressor(KERNEL, priors=None, **QUICK).fit(X1, Y1)
    assert none.priors_ == {}
    assert none.learned_.value == pytest.approx(none.log_marginal_likelihood_, abs=1e-8)
    tight = LogNormal(float(np.log(0.2)), scale=0.01)
    pulled = GPRegressor(KERNEL, priors={"*.lengthscale": tight}, **QUICK).fit(X1, Y1)
    assert float(pulled.model_.kernel.kernel.lengthscale) == pytest.approx(0.2, rel=0.05)
    assert pulled.priors_ == {"kernel.lengthscale": tight}
    assert "LogNormal(-1.61, 0.01)" in str(pulled.summary())
    assert list(line.priors_) == ["kernel.lengthscale", "kernel.variance", "likelihood.variance"]


def test_the_same_random_state_gives_the_same_answer() -> None:
    one, two = (GPRegressor(KERNEL, n_restarts=4, random_state=5).fit(X1, Y1) for _ in range(2))
    other = GPRegressor(KERNEL, n_restarts=4, random_state=6).fit(X1, Y1)
    assert one.model_ == two.model_
    np.testing.assert_array_equal(one.predict(X1), two.predict(X1))
    assert [r.value for r in one.learned_.restarts] == [r.value for r in two.learned_.restarts]
    assert one.learned_.history != other.learned_.history


def test_max_time_still_gives_a_model() -> None:
    model = GPRegressor(KERNEL, n_restarts=100, max_time=0.05, random_state=0).fit(X1, Y1)
    assert len(model.learned_.restarts) < 100
    assert np.isfinite(model.predict(X1)).all()


# scikit-learn's habits ------------------------------------------------------------------------------------------


def test_parameters_inside_the_kernel_are_set_by_path() -> None:
    model = GPRegressor("4.0 * Matern52() + Matern52()", noise=0.1)
    model.set_params(kernel__0__lengthscale=2.5, kernel__1__lengthscale=fixed(0.3), noise=0.2)
    assert repr(model.kernel) == "4.0 * Matern52(lengthscale=2.5) + Matern52(lengthscale=fixed(0.3))"
    assert model.noise == 0.2
    with pytest.raises(CovaryError, match=re.escape("no parameter is called '0.length'")):
        model.set_params(kernel__0__length=1.0)
    with pytest.raises(CovaryError, match="kernel is None; set a kernel before its parameters"):
        GPRegressor().set_params(kernel__lengthscale=1.0)
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(kernels=1)


def test_setting_a_parameter_leaves_the_kernel_it_came_from() -> None:
    model = GPRegressor(KERNEL)
    model.set_params(kernel__lengthscale=9.0)
    assert float(model.kernel.kernel.lengthscale) == 9.0
    assert float(KERNEL.kernel.lengthscale) == 1.1


def test_clone_is_unfitted_and_equal_in_its_parameters(line: GPRegressor) -> None:
    copy = clone(line)
    assert copy.kernel == KERNEL
    assert not hasattr(copy, "posterior_")
    assert {k: repr(v) for k, v in copy.get_params().items()} == {k: repr(v) for k, v in line.get_params().items()}
    np.testing.assert_array_equal(copy.fit(X1, Y1).predict(X1), line.predict(X1))


def test_cross_validation() -> None:
    scores = cross_val_score(GPRegressor(KERNEL, **QUICK), X1, Y1, cv=3)
    assert scores.shape == (3,)
    assert scores.min() > 0.8


def test_grid_search_over_a_lengthscale() -> None:
    held = GPRegressor(KERNEL, fixed=("*",), noise=0.1, mean="zero")
    search = GridSearchCV(held, {"kernel__lengthscale": [0.01, 1.0, 50.0]}, cv=3).fit(X1, Y1)
    assert search.best_params_ == {"kernel__lengthscale": 1.0}
    assert float(search.best_estimator_.model_.kernel.kernel.lengthscale) == 1.0


def test_frames_give_their_names_to_the_summary() -> None:
    frame = pd.DataFrame(X[:60], columns=["depth", "time"])
    model = GPRegressor(**QUICK).fit(frame, pd.Series(Y[:60], name="yield"))
    text = str(model.summary())
    assert "kernel.lengthscale[depth]" in text
    assert "kernel.lengthscale[time]" in text
    np.testing.assert_array_equal(model.predict(pd.DataFrame(XN[:3], columns=["depth", "time"])).shape, (3,))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pd.DataFrame(XN[:3], columns=["time", "depth"]))


# summary --------------------------------------------------------------------------------------------------------


def test_the_summary_tells_everything(fitted: GPRegressor) -> None:
    text = str(fitted.summary())
    assert f"{fitted.log_marginal_likelihood_:.3f}" in text
    for path in ("kernel.variance", "kernel.lengthscale[0]", "kernel.lengthscale[1]", "mean.value", "likelihood.variance"):
        assert path in text
    for value in (float(fitted.model_.kernel.variance), *fitted.model_.kernel.kernel.lengthscale):
        assert f"{value:.4g}" in text
    for word in ("Matern52", "150 × 2 columns", "jitter", "none", "converged", "LogNormal", "×/÷", "standard deviation"):
        assert word in text
    errors = fitted.learned_.log_errors
    assert f"×/÷ {np.exp(float(errors['likelihood.variance'])):.3g}" in text


def test_the_summary_marks_what_is_fixed_and_what_is_at_its_bound() -> None:
    model = GPRegressor(
        KERNEL, fixed=("kernel.variance",), bounds={"kernel.lengthscale": (3.0, 4.0)}, priors=None, **QUICK
    ).fit(X1, Y1)
    rows = {row.name: row for row in model.summary().rows}
    assert (rows["kernel.variance"].note, rows["kernel.variance"].error) == ("fixed", "")
    assert rows["kernel.lengthscale"].note == "at its bound"
    assert rows["mean.value"].note == ""


@pytest.mark.parametrize(
    ("kernel", "short"),
    [
        ("2.0 * Matern52() + 1e-05 * Periodic(period=fixed(1.0))", "Matern52() + Periodic()"),
        ("bounded(1.0, 0.5, 2.0) * Matern52(fixed([1.0, 2.0]))", "Matern52()"),
        ("fixed(bounded(1.0, 0.5, 2.0)) * Matern52() + 3.0", "Matern52() + Constant()"),
        ("2.0 * (Matern52() + fixed(3.0) * Periodic()) * Linear()", "(Matern52() + Periodic()) * Linear()"),
        ("4.0 * Linear() ** 3 * Matern52()", "Linear() ** 3 * Matern52()"),
        ("Columns(Matern52(), columns=[0, 2])", "Matern52().on(0, 2)"),
        ("Periodised(2.0 * Matern52(), period=3.0).on(1)", "Periodised(Matern52()).on(1)"),
        (
            "2.0 * ((3.0 * Linear() + Matern52()).on(0) * Linear()).on(1, 2) ** 2",
            "((Linear() + Matern52()).on(0) * Linear()).on(1, 2) ** 2",
        ),
    ],
)
def test_the_summary_writes_the_kernel_without_its_numbers(kernel: str, short: str) -> None:
    assert _short_kernel(parse(kernel)) == short


def test_rounding_errors_of_priors_are_shown_as_zero() -> None:
    assert _note(Mark(), LogNormal(-3e-17, scale=2.0), None, 0) == "LogNormal(0, 2)"
    assert _note(Mark(), LogNormal(-3e-17, scale=2e-17), None, 0) == "LogNormal(-3e-17, 2e-17)"


def test_the_summary_of_a_model_with_nothing_to_learn() -> None:
    model = GPRegressor(KERNEL, fixed="*", noise=0.1).fit(X1, Y1)
    text = str(model.summary())
    assert f"{model.log_marginal_likelihood_:.3f}" in text
    assert "learning" not in text
    assert text.count("fixed") == 4


def test_notebooks_show_the_summary(line: GPRegressor) -> None:
    page = line._repr_html_()
    assert page.count("<table>") == 2
    assert f"{line.log_marginal_likelihood_:.3f}" in page
    assert "kernel.lengthscale" in page
    assert "GPRegressor()" in GPRegressor()._repr_html_()


# pictures -------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_windows() -> Iterator[None]:
    mpl.use("Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def test_plot_of_one_input_draws_mean_bands_and_data(line: GPRegressor) -> None:
    ax = line.plot()
    curve = ax.lines[0]
    np.testing.assert_allclose(curve.get_ydata(), line.predict(np.asarray(curve.get_xdata())[:, None]), rtol=1e-9)
    assert curve.get_xdata()[0] < X1.min() < X1.max() < curve.get_xdata()[-1]
    bands, points = ax.collections[:2], ax.collections[2]
    np.testing.assert_allclose(points.get_offsets(), np.column_stack([X1[:, 0], Y1]))
    wide, narrow = (np.ptp(band.get_paths()[0].vertices[:, 1]) for band in bands)
    assert wide > narrow
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["95 % of new observations", "95 % of the function", "mean", "data (40)"]
    low, high = line.predict_interval(np.asarray(curve.get_xdata())[:, None])
    band = bands[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == pytest.approx((low.min(), high.max()))


def test_plot_draws_on_the_axes_it_is_given_and_adds_samples(line: GPRegressor) -> None:
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    assert line.plot(ax=ax, samples=3) is ax
    assert len(ax.lines) == 4
    assert ax.get_xlabel() == "x0"


def test_plot_of_two_inputs_draws_two_maps(fitted: GPRegressor) -> None:
    axes = fitted.plot()
    assert [ax.get_title() for ax in axes] == ["mean", "standard deviation of the function"]
    for ax in axes:
        offsets = [c.get_offsets() for c in ax.collections if len(c.get_offsets()) == 150]
        np.testing.assert_allclose(offsets[0], X)
    assert (axes[0].get_xlabel(), axes[0].get_ylabel()) == ("x0", "x1")
    with pytest.raises(CovaryError, match="got 1 axes; give a pair"):
        fitted.plot(ax=axes[0])


def test_plots_that_cannot_be_drawn_are_refused(several: GPRegressor) -> None:
    x = np.column_stack([X1, X1**2, X1**3])
    three = GPRegressor(KERNEL, fixed="*", noise=0.1).fit(x, Y1)
    with pytest.raises(CovaryError, match=re.escape("the model has 3 input columns; plot models with one or two")):
        three.plot()
    with pytest.raises(CovaryError, match="the model has several outputs"):
        several.plot()


# bad input ------------------------------------------------------------------------------------------------------

HOLE = np.where(np.arange(40)[:, None] == 3, np.nan, X1)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"method": "magic"},
            "GPRegressor: method is 'magic'; choose one of 'auto', 'exact', 'low_rank', 'svgp', 'vecchia', 'markov', 'subset'",
        ),
        ({"mean": "median"}, "GPRegressor: mean is 'median'; choose 'zero', 'constant', 'linear', or give a function."),
        ({"mean": 3.0}, "GPRegressor: mean is 3.0"),
        ({"mean": ["zero"]}, "GPRegressor: mean is ['zero']"),
        ({"kernel": 3.0}, "GPRegressor: kernel is 3.0; give a kernel from covary.kernels or its text."),
        ({"kernel": "Matern99()"}, "Matern99"),
        ({"kernel": Matern52([1.0, 2.0])}, "lengthscale has 2 entries but X has 1 column"),
        ({"priors": "none"}, "GPRegressor: priors is 'none'; give 'default', None, or distributions by path."),
        ({"priors": {"kernel.scale": LogNormal()}}, "priors: no parameter is called 'kernel.scale'"),
        ({"priors": {"kernel.lengthscale": 1.0}}, "give a distribution from covary.distributions."),
        ({"noise": -0.1}, "GPRegressor: noise is -0.1; give positive, finite numbers."),
        ({"noise": 0.0}, "GPRegressor: noise is 0.0; give positive, finite numbers."),
        ({"noise": np.nan}, "GPRegressor: noise is nan; give positive, finite numbers."),
        ({"noise": fixed(-1.0)}, "variance is -1.0"),
        ({"fixed": ("kernel.scale",)}, "no parameter is called 'kernel.scale'"),
        ({"bounds": {"kernel.scale": (0.1, 1.0)}}, "no parameter is called 'kernel.scale'"),
        ({"bounds": {"kernel.lengthscale": (1.0, 0.1)}}, "give lower < upper"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_wrong_arguments_are_refused_with_a_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CovaryError, match=re.escape(sentence)):
        GPRegressor(**QUICK, **options).fit(X1, Y1)


@pytest.mark.parametrize(
    ("x", "y", "sentence"),
    [
        (HOLE, Y1, "X is NaN at row"),
        (X1, np.where(np.arange(40) == 3, np.inf, Y1), "y is inf at row 3"),
        (X1, Y1[:-1], "give one entry .or one row. of y per row of X"),
        (X1[:, 0], Y1, "X has one dimension .* Reshape your data"),
    ],
    ids=["hole in X", "infinity in y", "rows", "no columns"],
)
def test_wrong_data_are_refused(x: Any, y: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        GPRegressor().fit(x, y)


def test_wrong_questions_are_refused(line: GPRegressor) -> None:
    with pytest.raises(CovaryError, match="both return_std and return_cov are set; set one of them"):
        line.predict(X1, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="X has 2 features, but GPRegressor is expecting 1"):
        line.predict(X)
    with pytest.raises(ValueError, match="NaN"):
        line.predict(HOLE)
    for level in (0.0, 1.0, 95):
        with pytest.raises(CovaryError, match="give a number between 0 and 1"):
            line.predict_interval(X1, level=level)
