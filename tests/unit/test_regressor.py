"""GPRegressor: the front door of regression, with scikit-learn's habits."""

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
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score

from covary import GP, Data, GPRegressor, Model, condition, log_evidence
from covary._checks import CovaryError
from covary.distributions import LogNormal
from covary.estimators.summary import _short_kernel
from covary.kernels import Matern52, bounded, fixed, parse
from covary.likelihoods import Gaussian
from covary.means import Constant
from covary.parameters import parameters

RNG = np.random.default_rng(12)
QUICK: dict[str, Any] = {"n_restarts": 0, "random_state": 0}


def surface(x: np.ndarray) -> np.ndarray:
    return 20.0 + 5.0 * np.sin(2 * x[:, 0]) + 2.0 * x[:, 1]


X = RNG.uniform(-2.0, 2.0, size=(150, 2))
Y = surface(X) + 0.6 * RNG.normal(size=150)
XN = RNG.uniform(-2.0, 2.0, size=(400, 2))
YN = surface(XN) + 0.6 * RNG.normal(size=400)
X1, Y1 = X[:40, :1], 5.0 * np.sin(2 * X[:40, 0]) + 0.3 * RNG.normal(size=40)
KERNEL = 4.0 * Matern52(lengthscale=1.1)


@pytest.fixture(scope="module")
def fitted() -> GPRegressor:
    return GPRegressor(random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def line() -> GPRegressor:
    return GPRegressor(KERNEL, **QUICK).fit(X1, Y1)


@pytest.fixture(scope="module")
def several() -> GPRegressor:
    return GPRegressor(KERNEL, **QUICK).fit(X[:60], np.column_stack([Y, 1e3 * Y, -Y + X[:, 0]])[:60])


# defaults -------------------------------------------------------------------------------------------------------


def test_defaults_predict_well_and_know_how_well(fitted: GPRegressor) -> None:
    mean, std = fitted.predict(XN, return_std=True)
    assert fitted.score(XN, YN) > 0.9
    low, high = fitted.predict_interval(XN, level=0.95)
    assert 0.90 <= np.mean((low <= YN) & (high >= YN)) <= 0.99
    inside = np.mean(np.abs(surface(XN) - mean) <= 1.96 * fitted.predict(XN, return_std=True, latent=True)[1])
    assert inside > 0.85
    assert 0.5 < np.median(std) < 0.8  # the noise has 0.6


def test_defaults_are_one_lengthscale_per_column_and_a_constant_mean(fitted: GPRegressor) -> None:
    found = parameters(fitted.model_)
    assert list(found) == ["kernel.variance", "kernel.lengthscale", "mean.value", "likelihood.variance"]
    assert found["kernel.lengthscale"].value.shape == (2,)
    assert 15.0 < float(found["mean.value"].value) < 25.0
    assert np.sqrt(float(found["likelihood.variance"].value)) == pytest.approx(0.6, rel=0.2)
    assert set(fitted.priors_) == {"kernel.lengthscale", "kernel.variance", "likelihood.variance"}


def test_fit_returns_itself_and_keeps_what_it_was_given() -> None:
    kernel = "4.0*Matern52(lengthscale=1.1)"
    model = GPRegressor(kernel, fixed=("kernel.*",), **QUICK)
    assert model.fit(X1, Y1) is model
    assert model.kernel is kernel
    assert model.get_params()["fixed"] == ("kernel.*",)
    assert model.n_features_in_ == 1
    with pytest.raises(NotFittedError):
        GPRegressor().predict(X1)


# predictions ----------------------------------------------------------------------------------------------------


def test_shapes_of_predictions_of_one_output(fitted: GPRegressor) -> None:
    mean, std = fitted.predict(XN[:7], return_std=True)
    also, cov = fitted.predict(XN[:7], return_cov=True)
    assert (mean.shape, std.shape, cov.shape) == ((7,), (7,), (7, 7))
    np.testing.assert_allclose(fitted.predict(XN[:7]), mean, rtol=1e-12)
    np.testing.assert_allclose(also, mean, rtol=1e-12)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), std, rtol=1e-8)
    np.testing.assert_allclose(cov, cov.T)
    assert fitted.predict(XN[:1]).shape == (1,)


def test_latent_leaves_the_noise_out(fitted: GPRegressor) -> None:
    noise = float(fitted.model_.likelihood.variance)
    _, std = fitted.predict(XN[:7], return_std=True)
    _, latent = fitted.predict(XN[:7], return_std=True, latent=True)
    np.testing.assert_allclose(std**2 - latent**2, noise, rtol=1e-9)
    _, cov = fitted.predict(XN[:7], return_cov=True)
    _, inner = fitted.predict(XN[:7], return_cov=True, latent=True)
    np.testing.assert_allclose(cov - inner, noise * np.eye(7), atol=1e-9)


def test_predictions_are_the_posteriors(fitted: GPRegressor) -> None:
    post = condition(fitted.model_, Data(X, Y)).predict(XN[:7])
    mean, std = fitted.predict(XN[:7], return_std=True)
    np.testing.assert_allclose(mean, post.y.mean, rtol=1e-9)
    np.testing.assert_allclose(std, post.y.std, rtol=1e-9)


@pytest.mark.parametrize(("level", "half"), [(0.95, 1.959964), (0.5, 0.674490)])
def test_intervals_are_central(fitted: GPRegressor, level: float, half: float) -> None:
    for latent in (False, True):
        mean, std = fitted.predict(XN[:7], return_std=True, latent=latent)
        low, high = fitted.predict_interval(XN[:7], level=level, latent=latent)
        np.testing.assert_allclose(low, mean - half * std, rtol=1e-5)
        np.testing.assert_allclose(high, mean + half * std, rtol=1e-5)


@pytest.mark.parametrize("latent", [False, True])
def test_samples_have_the_predicted_moments(fitted: GPRegressor, latent: bool) -> None:
    mean, cov = fitted.predict(XN[:4], return_cov=True, latent=latent)
    draws = fitted.sample_y(XN[:4], 20000, random_state=3, latent=latent)
    assert draws.shape == (4, 20000)
    std = np.sqrt(np.diag(cov))
    np.testing.assert_allclose(draws.mean(1), mean, atol=5 * std.max() / np.sqrt(20000))
    np.testing.assert_allclose(np.cov(draws) / np.outer(std, std), cov / np.outer(std, std), atol=0.05)
    np.testing.assert_array_equal(fitted.sample_y(XN[:4], 3, random_state=1), fitted.sample_y(XN[:4], 3, random_state=1))


def test_score_is_the_share_of_variance_explained(fitted: GPRegressor) -> None:
    assert fitted.score(XN, YN) == pytest.approx(r2_score(YN, fitted.predict(XN)))


def test_several_outputs_share_one_kernel(several: GPRegressor) -> None:
    mean, std = several.predict(XN[:5], return_std=True)
    _, cov = several.predict(XN[:5], return_cov=True)
    assert (mean.shape, std.shape, cov.shape) == ((5, 3), (5, 3), (5, 5, 3))
    assert several.predict(XN[:5]).shape == (5, 3)
    assert several.sample_y(XN[:5], 6).shape == (5, 3, 6)
    low, high = several.predict_interval(XN[:5])
    assert low.shape == high.shape == (5, 3)
    np.testing.assert_allclose(mean[:, 1], 1e3 * mean[:, 0], rtol=1e-7)  # the second output is the first in other units
    np.testing.assert_allclose(std[:, 1], 1e3 * std[:, 0], rtol=1e-7)
    np.testing.assert_allclose(np.sqrt(np.einsum("iij->ij", cov)), std, rtol=1e-7)
    draws = several.sample_y(XN[:5], 4000, random_state=0)
    np.testing.assert_allclose(draws.std(2), std, rtol=0.1)
    assert several.score(XN, np.column_stack([YN, 1e3 * YN, -YN + XN[:, 0]])) > 0.8


def test_one_column_of_outputs_is_one_output_of_shape_n_1(line: GPRegressor) -> None:
    got = GPRegressor(KERNEL, mean="zero", standardise=False, priors=None, noise=0.1, **QUICK).fit(X1, Y1[:, None])
    flat = GPRegressor(KERNEL, mean="zero", standardise=False, priors=None, noise=0.1, **QUICK).fit(X1, Y1)
    assert got.predict(X1[:3]).shape == (3, 1)
    np.testing.assert_allclose(got.predict(X1[:3])[:, 0], flat.predict(X1[:3]), rtol=1e-6)
    assert got.log_marginal_likelihood_ == pytest.approx(flat.log_marginal_likelihood_, abs=1e-6)


def test_known_noise_is_added_and_weights_count() -> None:
    known, weight = np.linspace(0.1, 2.0, 40), np.linspace(0.5, 3.0, 40)
    held = GPRegressor(KERNEL, mean="zero", fixed="*", noise=fixed(0.3), priors=None).fit(X1, Y1, known, weight)
    assert held.learned_ is None
    K = KERNEL.gram(X1) + np.diag((known + 0.3) / weight)
    np.testing.assert_allclose(held.predict(X1[:3]), KERNEL.gram(X1)[:3] @ np.linalg.solve(K, Y1), rtol=1e-8)
    with pytest.raises(CovaryError, match="noise_variance has 3 entries but X has 40 rows"):
        GPRegressor().fit(X1, Y1, noise_variance=[0.1, 0.2, 0.3])


def test_known_noise_of_several_standardised_outputs_is_refused() -> None:
    both = np.column_stack([Y1, 100 * Y1])
    with pytest.raises(CovaryError, match="set standardise=False, or fit one output at a time"):
        GPRegressor(KERNEL, **QUICK).fit(X1, both, noise_variance=np.full(40, 0.1))
    plain = GPRegressor(KERNEL, fixed="kernel.*", standardise=False, **QUICK).fit(X1, both, noise_variance=np.full(40, 0.1))
    assert plain.predict(X1[:2]).shape == (2, 2)


# evidence and units ---------------------------------------------------------------------------------------------


def test_the_bare_model_is_the_books() -> None:
    """No mean, no priors, no scaling, nothing learned: the evidence of the kernel as it stands."""
    bare = GPRegressor(
        KERNEL, mean="zero", standardise=False, priors=None, n_restarts=0, noise=fixed(0.2), fixed=("kernel.*",)
    ).fit(X1, Y1)
    assert bare.learned_ is None
    model = Model(GP(KERNEL), likelihood=Gaussian(0.2))
    assert bare.log_marginal_likelihood_ == pytest.approx(log_evidence(model, Data(X1, Y1)), rel=1e-12)
    post = condition(model, Data(X1, Y1)).predict(X1[:5] + 0.1)
    mean, std = bare.predict(X1[:5] + 0.1, return_std=True)
    np.testing.assert_allclose(mean, post.y.mean, rtol=1e-10)
    np.testing.assert_allclose(std, post.y.std, rtol=1e-10)


def test_the_bare_model_starts_at_its_own_numbers() -> None:
    bare = GPRegressor(KERNEL, mean="zero", standardise=False, priors=None, n_restarts=0, noise=0.2).fit(X1, Y1)
    start = bare.learned_.restarts[0].start
    assert float(start.kernel.variance) == pytest.approx(4.0)
    assert float(start.kernel.kernel.lengthscale) == pytest.approx(1.1)
    assert float(start.likelihood.variance) == pytest.approx(0.2)
    assert bare.log_marginal_likelihood_ == pytest.approx(log_evidence(bare.model_, Data(X1, Y1)), abs=1e-9)
    assert bare.log_marginal_likelihood_ == pytest.approx(bare.learned_.value, abs=1e-9)  # no priors in it


def test_the_evidence_is_in_the_units_of_y(line: GPRegressor, several: GPRegressor) -> None:
    assert line.log_marginal_likelihood_ == pytest.approx(log_evidence(line.model_, Data(X1, Y1)), abs=1e-8)
    big = GPRegressor(1e6 * KERNEL, **QUICK).fit(X1, 1e3 * Y1)
    assert big.log_marginal_likelihood_ == pytest.approx(line.log_marginal_likelihood_ - 40 * np.log(1e3), abs=0.05)
    y = np.column_stack([Y, 1e3 * Y, -Y + X[:, 0]])[:60]  # one standardised output at a time, then the change of units
    scale = y.std(0)
    each = [log_evidence(several.model_, Data(X[:60], (y[:, j] - y[:, j].mean()) / scale[j])) for j in range(3)]
    assert several.log_marginal_likelihood_ == pytest.approx(sum(each) - 60 * np.log(scale).sum(), rel=1e-9)


def test_defaults_do_not_depend_on_units() -> None:
    one = GPRegressor(**QUICK).fit(X[:60], Y[:60])
    two = GPRegressor(**QUICK).fit(X[:60] * [1e-3, 500.0], 1e5 * Y[:60] - 7e5)
    mean, std = one.predict(XN[:5], return_std=True)
    other, other_std = two.predict(XN[:5] * [1e-3, 500.0], return_std=True)
    np.testing.assert_allclose(other, 1e5 * mean - 7e5, rtol=1e-2)
    np.testing.assert_allclose(other_std, 1e5 * std, rtol=2e-2)
    assert two.log_marginal_likelihood_ == pytest.approx(one.log_marginal_likelihood_ - 60 * np.log(1e5), abs=0.1)


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
    ],
)
def test_the_summary_writes_the_kernel_without_its_numbers(kernel: str, short: str) -> None:
    assert _short_kernel(parse(kernel)) == short


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
        ({"kernel": Matern52([1.0, 2.0])}, "lengthscale has 2 entries but X has 1 columns"),
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
        (X1[:, 0], Y1, "Expected 2D array"),
    ],
    ids=["hole in X", "infinity in y", "rows", "no columns"],
)
def test_wrong_data_are_refused(x: Any, y: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        GPRegressor().fit(x, y)


def test_wrong_questions_are_refused(line: GPRegressor) -> None:
    with pytest.raises(CovaryError, match="both return_std and return_cov are set; ask for one of them"):
        line.predict(X1, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="X has 2 features, but GPRegressor is expecting 1"):
        line.predict(X)
    with pytest.raises(ValueError, match="NaN"):
        line.predict(HOLE)
    for level in (0.0, 1.0, 95):
        with pytest.raises(CovaryError, match="give a number between 0 and 1"):
            line.predict_interval(X1, level=level)
