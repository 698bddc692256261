"""Components of a posterior: additive terms of the kernel, and derivatives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import mpmath
import numpy as np
import pandas as pd
import pytest

from covary import GP, Data, Inputs, Model, condition
from covary._checks import CovaryError
from covary.gram import Dense, LowRank, Markov, Vecchia
from covary.inference import EP, SVGP, Exact, Laplace
from covary.kernels import (
    Constant,
    Cosine,
    Function,
    IntegratedWiener,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    NeuralNetwork,
    Periodic,
    Polynomial,
    RationalQuadratic,
    SquaredExponential,
)
from covary.likelihoods import Bernoulli, Gaussian, HeteroscedasticGaussian, Poisson, StudentT
from covary.means import AbstractMean, Basis, LinearBasis
from covary.means import Constant as ConstantMean
from covary.means import Function as FunctionMean
from covary.means import Linear as LinearMean
from covary.posterior.components import mean_slopes, mixed_slopes, slope_covariances, term_names, terms

RNG = np.random.default_rng(12)
N = 30
X = RNG.uniform(0, 3, size=(N, 2))
XS = RNG.uniform(0, 3, size=(7, 2))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.normal(size=N)
PARTS = (1.3 * Matern52(lengthscale=[0.9, 1.7]), 0.4 * Linear().on(1), 0.6 * SquaredExponential() * Periodic(period=2.0).on(0))
KERNEL = PARTS[0] + PARTS[1] + PARTS[2]

OBSERVED: dict[str, tuple[Any, np.ndarray, Any]] = {
    "exact": (Gaussian(0.05), Y, Exact()),
    "laplace": (Poisson(), RNG.poisson(np.exp(Y)).astype(float), Laplace()),
    "laplace, not concave": (StudentT(0.15, degrees=3.0), Y + (np.arange(N) == 4) * 3.0, Laplace()),
    "ep": (Bernoulli("probit"), np.where(Y > 0.4, 1.0, -1.0), EP()),
}


def matrices(post: Any) -> tuple[np.ndarray, np.ndarray]:
    """alpha and R, from the sites alone."""
    K, spread = post.model.kernel.gram(post.data.X), np.asarray(post.factor.spread)
    S = np.diag(spread if post.factor.observed else 1 / spread)
    R = np.linalg.inv(K + S)
    target = post.solved.shift if post.factor.observed else post.solved.shift / spread
    return R @ target, R


# terms ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", OBSERVED.values(), ids=OBSERVED)
def test_components_are_their_formulas_under_every_inference(case: Any) -> None:
    """R&W, section 5.4.3: k_j alpha and k_j − k_j R k_j, between terms −k_i R k_j."""
    likelihood, y, inference = case
    post = condition(Model(GP(KERNEL, mean=ConstantMean(0.3)), likelihood=likelihood), Data(X, y), inference=inference)
    alpha, R = matrices(post)
    found = post.components(XS, covariance=True)
    assert found.names == ("Matern52", "Linear.on(1)", "SquaredExponential * Periodic.on(0)")
    for i, part in enumerate(PARTS):
        C = part.cross(X, XS)
        joint = part.gram(XS) - C.T @ R @ C
        one = post.component(i, XS, covariance=True)
        np.testing.assert_allclose(one.mean, C.T @ alpha, atol=1e-8)
        np.testing.assert_allclose(one.covariance, joint, atol=1e-8)
        np.testing.assert_allclose(found.mean[i], C.T @ alpha, atol=1e-8)
        np.testing.assert_allclose(found.variance[i], np.diag(joint), atol=1e-8)
        for j, other in enumerate(PARTS):
            between = (i == j) * part.diag(XS) - np.einsum("ni,nm,mi->i", C, R, other.cross(X, XS))
            np.testing.assert_allclose(found.covariance[:, i, j], between, atol=1e-8)
    f = post.predict(XS).f
    np.testing.assert_allclose(found.mean.sum(0), f.mean - 0.3, atol=1e-9)
    np.testing.assert_allclose(found.covariance.sum((1, 2)), f.variance, atol=1e-9)
    assert sum(found.share().values()) == pytest.approx(1.0)


@pytest.mark.parametrize("gram", [Dense(), LowRank(N)], ids=["dense", "low rank"])
def test_basis_functions_are_a_component(gram: Any) -> None:
    """A basis with weights of variance 10⁷ in the kernel is the vague one, term by term."""
    data, wide = Data(X, Y), 1e7 * Constant() + 1e7 * Linear()
    vague = condition(Model(GP(PARTS[0] + PARTS[1], basis=LinearBasis()), likelihood=Gaussian(0.05)), data, gram=gram)
    proper = condition(Model(GP(PARTS[0] + PARTS[1] + wide), likelihood=Gaussian(0.05)), data)
    found, near = vague.components(XS, covariance=True), proper.components(XS, covariance=True)
    assert found.names == ("Matern52", "Linear.on(1)", "basis")
    np.testing.assert_allclose(found.mean[:2], near.mean[:2], atol=1e-4)
    np.testing.assert_allclose(found.mean[2], near.mean[2:].sum(0), atol=1e-4)
    np.testing.assert_allclose(found.covariance[:, :2, :2], near.covariance[:, :2, :2], atol=1e-4)
    np.testing.assert_allclose(found.covariance[:, 2, 2], near.covariance[:, 2:, 2:].sum((1, 2)), atol=1e-4)
    np.testing.assert_allclose(found.covariance[:, 0, 2], near.covariance[:, 0, 2:].sum(1), atol=1e-4)
    f = vague.predict(XS).f
    np.testing.assert_allclose(found.mean.sum(0), f.mean, atol=1e-8)
    np.testing.assert_allclose(found.covariance.sum((1, 2)), f.variance, atol=1e-6)
    np.testing.assert_allclose(
        vague.component("basis", XS).mean, np.column_stack([np.ones(7), XS]) @ vague.basis_weights, atol=1e-8
    )


def test_two_outputs_share_the_variance() -> None:
    post = condition(Model(GP(KERNEL), likelihood=Gaussian(0.05)), Data(X, np.column_stack([Y, Y**2])))
    found = post.components(XS)
    assert found.mean.shape == (3, 7, 2)
    np.testing.assert_allclose(found.mean.sum(0), post.mean(XS), atol=1e-10)
    alone = condition(Model(GP(KERNEL), likelihood=Gaussian(0.05)), Data(X, Y**2)).components(XS)
    np.testing.assert_allclose(found.mean[:, :, 1], alone.mean, atol=1e-10)
    np.testing.assert_allclose(found.variance, alone.variance, atol=1e-10)


@pytest.mark.parametrize("rule", ["fitc", "vfe", "dtc"])
def test_inducing_inputs_at_every_row_are_the_dense_components(rule: str) -> None:
    model, data = Model(GP(KERNEL), likelihood=Gaussian(0.05)), Data(X, Y)
    exact = condition(model, data).components(XS, covariance=True)
    near = condition(model, data, gram=LowRank(X, rule=rule)).components(XS, covariance=True)
    np.testing.assert_allclose(near.mean, exact.mean, atol=1e-5)
    np.testing.assert_allclose(near.covariance, exact.covariance, atol=1e-5)
    few = condition(model, data, gram=LowRank(8, rule=rule))
    found = few.components(XS, covariance=True)
    np.testing.assert_allclose(found.mean.sum(0), few.mean(XS), atol=1e-8)
    np.testing.assert_allclose(found.covariance.sum((1, 2)), few.predict(XS).f.variance, atol=1e-6)
    batches = condition(model, data, inference=SVGP(), gram=LowRank(8))
    np.testing.assert_allclose(batches.components(XS).mean.sum(0), batches.mean(XS), atol=1e-8)


def test_terms_and_their_names() -> None:
    A, B, C = Matern52(), Periodic(), Linear()
    assert terms(A) == (A,)
    assert terms(2.0 * (A + 3.0 * B).on(0)) == (2.0 * A.on(0), 2.0 * (3.0 * B).on(0))
    assert terms(A + B * (A + C)) == (A, B * (A + C))
    np.testing.assert_allclose(
        sum(t.gram(XS) for t in terms(2.0 * ((A + 3.0 * B).on(0) + C))), (2.0 * ((A + 3.0 * B).on(0) + C)).gram(XS)
    )

    def wave(x: Any, z: Any) -> Any:
        return jnp.cos(x[0] - z[0])

    many = (A, 2.0 * A, B**2, B * (A + C), (A * B).on(0, 1), A.on(1), (A + B) ** 2, Function(wave))
    assert term_names(many) == (
        "Matern52",
        "Matern52 2",
        "Periodic ** 2",
        "Periodic * (Matern52 + Linear)",
        "(Matern52 * Periodic).on(0, 1)",
        "Matern52.on(1)",
        "(Matern52 + Periodic) ** 2",
        "wave",
    )


def test_components_are_found_by_number_name_or_text() -> None:
    kernel = 2.0 * SquaredExponential(lengthscale=3.0) + SquaredExponential(lengthscale=0.5) + 0.3 * Periodic()
    post = condition(Model(GP(kernel), likelihood=Gaussian(0.1)), Data(X, Y))
    found = post.components(XS)
    assert [name for name, _ in found] == ["SquaredExponential", "SquaredExponential 2", "Periodic"]
    assert len(found) == 3
    for which in (1, -2, "SquaredExponential 2", "lengthscale=0.5"):
        np.testing.assert_array_equal(post.component(which, XS).mean, found.mean[1])
        np.testing.assert_array_equal(found[which].variance, found.variance[1])
    with pytest.raises(CovaryError, match="several terms contain 'lengthscale'; choose one of 'SquaredExponential', "):
        post.component("lengthscale", XS)
    with pytest.raises(CovaryError, match="no term contains 'Wiener'"):
        found["Wiener"]
    with pytest.raises(CovaryError, match="give a number from 0 to 2, or a name"):
        post.component(3, XS)
    flat = condition(Model(GP(kernel), likelihood=Gaussian(0.1)), Data(X, np.zeros(N)))
    with pytest.raises(CovaryError, match="the posterior mean is the same at all these inputs"):
        flat.components(XS).share()


def test_trend_and_season_are_told_apart() -> None:
    t = np.linspace(0, 12, 150)[:, None]
    trend, season = 0.3 * t[:, 0], 1.5 * np.sin(2 * np.pi * t[:, 0])
    y = trend + season + 0.1 * np.random.default_rng(0).normal(size=150)
    post = condition(Model(GP(1.0 * Linear() + 2.0 * Periodic(lengthscale=1.0)), likelihood=Gaussian(0.01)), Data(t, y))
    found = post.components(t)
    assert np.abs(found["Linear"].mean - trend).max() < 0.25
    assert np.abs(found["Periodic"].mean - found["Periodic"].mean.mean() - season).max() < 0.25
    share = found.share()
    expected = np.cov(trend, trend + season)[0, 1] / (trend + season).var(ddof=1)
    assert share["Linear"] == pytest.approx(expected, abs=0.05)


def test_the_season_of_carbon_dioxide_is_the_book_s(shared_data: Path) -> None:
    """R&W, figures 5.6 and 5.7: 5.5 ppm from peak to peak in 1958, 7 in 2003; highest mid May, lowest early October."""
    table = pd.read_csv(shared_data / "timeseries" / "mauna_loa_1958_2004.csv.gz").query("year <= 2003")
    t, y = (table["year"] + (table["month"] - 0.5) / 12).to_numpy()[:, None], table["co2_ppm"].to_numpy()
    kernel = (
        66.0**2 * SquaredExponential(67.0)
        + 2.4**2 * (SquaredExponential(90.0) * Periodic(1.3))
        + 0.66**2 * RationalQuadratic(1.2, alpha=0.78)
        + 0.18**2 * SquaredExponential(1.6 / 12)
    )
    post = condition(Model(GP(kernel), likelihood=Gaussian(0.19**2)), Data(t, y - y.mean()))
    days = np.arange(365) / 365
    for year, height in ((1958, 5.5), (2003, 7.0)):
        season = post.component("Periodic", (year + days)[:, None], covariance=True)
        assert np.ptp(season.mean) == pytest.approx(height, abs=0.35)
        assert 125 < season.mean.argmax() < 145  # 6 to 25 May
        assert 268 < season.mean.argmin() < 285  # 26 September to 12 October
        top, low = season.mean.argmax(), season.mean.argmin()
        swing = season.covariance[top, top] + season.covariance[low, low] - 2 * season.covariance[top, low]
        assert swing < 0.2**2 < 1.0 < season.variance.min()  # the swing is known well, the level is the trend's as much
    found = post.components(t)
    assert found.names == ("SquaredExponential", "SquaredExponential * Periodic", "RationalQuadratic", "SquaredExponential 2")
    assert np.ptp(found[0].mean) == pytest.approx(60.0, abs=5.0)  # the trend, from 315 to 375 ppm
    assert np.abs(found[2].mean).max() < 1.7  # figure 5.6: medium-term irregularities stay within ±1.5 ppm or so


# slopes ---------------------------------------------------------------------------------------------------------

SMOOTH = {
    "se": 1.2 * SquaredExponential(lengthscale=[0.8, 1.5]),
    "matern32": Matern32(lengthscale=0.9),
    "matern52": 0.7 * Matern52(lengthscale=[0.8, 1.5]),
    "rq": RationalQuadratic(lengthscale=1.1, alpha=0.6),
    "periodic": Periodic(lengthscale=0.9, period=[2.0, 3.0]),
    "cosine": Cosine(period=[2.0, 3.0]),
    "linear": Linear(lengthscale=[1.0, 2.0]),
    "polynomial": Polynomial(3, bias=0.5, lengthscale=1.5),
    "network": NeuralNetwork(lengthscale=0.7),
    "spline": 0.8 * IntegratedWiener().on(1),
    "sum": Matern52() + 0.5 * Periodic().on(0) + 0.1 * IntegratedWiener().on(1),
    "product": SquaredExponential() * Periodic(period=2.0).on(0),
    "power": Matern32() ** 2,
}


@pytest.mark.parametrize("kernel", SMOOTH.values(), ids=SMOOTH)
def test_covariances_of_slopes_against_differences_of_the_kernel(kernel: Any) -> None:
    """R&W, eq. 9.1: ∂k/∂x and, at equal points, ∂²k/∂x∂x′, which min, max and clips do not give by themselves."""
    here = Inputs(XS)
    np.testing.assert_allclose(slope_covariances(kernel, here, Inputs(X)), kernel.input_gradient(XS, X), atol=1e-10)
    own = mixed_slopes(kernel, here)
    h = 1e-4
    for a in range(2):
        for b in range(2):
            E = np.eye(2) * h
            # the slope of f(x + h e) − f(x − h e) with itself; one-sided limits leave O(h)
            parts = [sa * sb * np.diag(kernel.cross(XS + sa * E[a], XS + sb * E[b])) for sa in (1, -1) for sb in (1, -1)]
            rough = kernel.traits.smoothness < 2
            np.testing.assert_allclose(own[:, a, b], sum(parts) / (4 * h * h), rtol=5e-3 if rough else 1e-4, atol=1e-5)


def test_second_derivatives_of_exact_kernels() -> None:
    """−k″(0) in closed form: R&W, section 4.1.1, eq. 9.1."""
    x = Inputs(XS)
    w = 1 / np.array([0.8, 1.5]) ** 2
    for kernel, slope in (
        (SquaredExponential(lengthscale=[0.8, 1.5]), np.diag(w)),
        (Matern32(lengthscale=[0.8, 1.5]), 3 * np.diag(w)),
        (Matern52(lengthscale=[0.8, 1.5]), 5 / 3 * np.diag(w)),
        (RationalQuadratic(lengthscale=[0.8, 1.5], alpha=0.3), np.diag(w)),
        (Periodic(lengthscale=0.7, period=[2.0, 3.0]), np.diag((2 * np.pi / np.array([2.0, 3.0])) ** 2 / 0.49)),
        (2.0 * Linear(lengthscale=[0.8, 1.5]), 2 * np.diag(w)),
    ):
        np.testing.assert_allclose(mixed_slopes(kernel, x), np.broadcast_to(slope, (7, 2, 2)), rtol=1e-8, atol=1e-9)
    spline = mixed_slopes(IntegratedWiener(), Inputs(XS[:, 1:]))[:, 0, 0]
    np.testing.assert_allclose(spline, XS[:, 1], rtol=1e-8)
    single = mixed_slopes(SquaredExponential(lengthscale=2.0), Inputs(XS.astype(np.float32)))
    np.testing.assert_allclose(single, np.broadcast_to(np.eye(2) / 4, (7, 2, 2)), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "inference_name"),
    [*(("sum", inference) for inference in OBSERVED), ("se", "exact"), ("network", "exact"), ("product", "ep")],
)
def test_slopes_against_differences_of_the_posterior(name: str, inference_name: str) -> None:
    (likelihood, y, inference), kernel = OBSERVED[inference_name], SMOOTH[name]
    mean = FunctionMean(lambda x, a: a * x[0] ** 2 + x[1], parameters={"a": 0.2})
    post = condition(Model(GP(kernel, mean=mean), likelihood=likelihood), Data(X, y), inference=inference)
    found, h = post.derivative(XS, covariance=True), 1e-4
    for i, x in enumerate(XS):
        ends = np.concatenate([x + h * np.eye(2), x - h * np.eye(2)])
        D = np.array([[1, 0, -1, 0], [0, 1, 0, -1]]) / (2 * h)
        np.testing.assert_allclose(found.mean[i], D @ post.mean(ends), rtol=1e-4, atol=1e-5)
        joint = D @ post.covariance(ends) @ D.T
        np.testing.assert_allclose(found.covariance[i], joint, rtol=2e-3, atol=2e-4)
    np.testing.assert_array_equal(found.variance, np.einsum("iaa->ia", found.covariance))
    assert found.std.shape == (7, 2)


def test_slopes_to_many_digits() -> None:
    """Against the same algebra in 40 digits (mpmath), squared exponential."""
    mpmath.mp.dps = 40
    x, z = [0.1, 0.7, 1.1, 2.0], mpmath.mpf("0.9")
    y, noise, ell = [0.3, -0.2, 0.5, 0.1], mpmath.mpf("0.01"), mpmath.mpf("0.6")
    k = lambda a, b: mpmath.exp(-((mpmath.mpf(a) - mpmath.mpf(b)) ** 2) / (2 * ell**2))  # noqa: E731
    A = mpmath.matrix(4, 4)
    for i in range(4):
        for j in range(4):
            A[i, j] = k(x[i], x[j]) + (noise if i == j else 0)
    c = mpmath.matrix([k(z, a) * (mpmath.mpf(a) - z) / ell**2 for a in x])
    mean = (c.T * mpmath.lu_solve(A, mpmath.matrix(y)))[0]
    variance = 1 / ell**2 - (c.T * mpmath.lu_solve(A, c))[0]
    post = condition(
        Model(GP(SquaredExponential(lengthscale=0.6)), likelihood=Gaussian(0.01)), Data(np.array(x)[:, None], np.array(y))
    )
    found = post.derivative([[0.9]])
    assert found.mean[0, 0] == pytest.approx(float(mean), rel=1e-12)
    assert found.variance[0, 0] == pytest.approx(float(variance), rel=1e-10)


@pytest.mark.parametrize("gram", [Dense(), LowRank(X)], ids=["dense", "inducing inputs at every row"])
@pytest.mark.parametrize("basis", [None, LinearBasis(), Basis(lambda x: np.sin(x))], ids=["none", "linear", "sines"])
def test_slopes_with_mean_functions_basis_and_inducing_inputs(gram: Any, basis: Any) -> None:
    model = Model(GP(SMOOTH["matern52"], mean=LinearMean([0.3, -0.2], value=1.0), basis=basis), likelihood=Gaussian(0.05))
    post, h = condition(model, Data(X, Y), gram=gram), 1e-4
    found = post.derivative(XS, covariance=True)
    for i, x in enumerate(XS):
        ends = np.concatenate([x + h * np.eye(2), x - h * np.eye(2)])
        D = np.array([[1, 0, -1, 0], [0, 1, 0, -1]]) / (2 * h)
        np.testing.assert_allclose(found.mean[i], D @ post.mean(ends), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found.covariance[i], D @ post.covariance(ends) @ D.T, rtol=2e-3, atol=5e-4)


class Plain(AbstractMean):
    """A mean that knows its values in NumPy only."""

    def evaluate(self, X: Inputs) -> np.ndarray:
        return np.sin(X.x[:, 0]) * X.x[:, 1]


def test_slopes_of_mean_functions_that_jax_cannot_differentiate() -> None:
    truth = np.column_stack([np.cos(XS[:, 0]) * XS[:, 1], np.sin(XS[:, 0])])
    np.testing.assert_allclose(mean_slopes(Plain(), Inputs(XS)), truth, atol=1e-9)
    np.testing.assert_allclose(mean_slopes(Plain(), Inputs(XS.astype(np.float32))), truth, atol=1e-6)
    own = FunctionMean(lambda x: jnp.sin(x[0]) * x[1])
    np.testing.assert_allclose(mean_slopes(own, Inputs(XS)), truth, atol=1e-14)
    np.testing.assert_array_equal(mean_slopes(ConstantMean(2.0), Inputs(XS)), np.zeros((7, 2)))


def test_slopes_of_a_known_function_fall_within_their_error_bars() -> None:
    rng = np.random.default_rng(4)
    x = rng.uniform(-2, 2, size=(120, 2))
    y = np.sin(x[:, 0]) * np.cos(2 * x[:, 1]) + 0.05 * rng.normal(size=120)
    post = condition(Model(GP(1.0 * SquaredExponential()), likelihood=Gaussian(0.0025)), Data(x, y))
    z = rng.uniform(-1.8, 1.8, size=(400, 2))
    truth = np.column_stack([np.cos(z[:, 0]) * np.cos(2 * z[:, 1]), -2 * np.sin(z[:, 0]) * np.sin(2 * z[:, 1])])
    found = post.derivative(z)
    assert np.mean(np.abs(found.mean - truth) < 2 * found.std) > 0.9
    assert np.abs(found.mean - truth).mean() < 0.1


def test_slopes_in_single_precision_and_with_two_outputs() -> None:
    model = Model(GP(SMOOTH["matern52"]), likelihood=Gaussian(0.05))
    exact = condition(model, Data(X, Y)).derivative(XS)
    single = condition(model, Data(X.astype(np.float32), Y.astype(np.float32))).derivative(XS)
    assert single.mean.dtype == single.variance.dtype == np.float32
    np.testing.assert_allclose(single.mean, exact.mean, atol=1e-3)
    np.testing.assert_allclose(single.variance, exact.variance, atol=1e-3)
    both = condition(model, Data(X, np.column_stack([Y, -Y]))).derivative(XS)
    np.testing.assert_allclose(both.mean, np.stack([exact.mean, -exact.mean], axis=2), atol=1e-10)
    np.testing.assert_allclose(both.variance, exact.variance, atol=1e-10)


def test_many_rows_are_taken_in_pieces() -> None:
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(900, 3)), rng.normal(size=(1000, 3))
    kernel = 1.0 * Matern52() + 0.5 * Linear()
    post = condition(Model(GP(kernel), likelihood=Gaussian(0.05)), Data(x, np.sin(x[:, 0])))
    whole, some = post.derivative(z), post.derivative(z[500:520])
    np.testing.assert_allclose(whole.mean[500:520], some.mean, atol=1e-10)
    np.testing.assert_allclose(whole.variance[500:520], some.variance, atol=1e-10)
    np.testing.assert_allclose(post.components(z).mean.sum(0), post.mean(z), atol=1e-10)


# refusals -------------------------------------------------------------------------------------------------------


def test_what_cannot_be_done_is_said() -> None:
    data = Data(X, Y)
    rough = condition(Model(GP(Matern12() + Matern52()), likelihood=Gaussian(0.05)), data)
    with pytest.raises(CovaryError, match="the process is not mean-square differentiable; choose a smoother kernel"):
        rough.derivative(XS)
    line = Data(X[:, :1], Y)
    for gram, x, seen in ((Markov(), XS[:, :1], line), (Vecchia(10), XS, data), (LowRank(9, rule="nystrom"), XS, data)):
        post = condition(Model(GP(1.0 * Matern52()), likelihood=Gaussian(0.05)), seen, gram=gram)
        for method in (post.derivative, post.components):
            with pytest.raises(CovaryError, match=r"condition with gram=Dense\(\) or gram=LowRank"):
                method(x)
    two = condition(Model(GP((Matern52(), Matern52())), likelihood=HeteroscedasticGaussian()), data, inference=Laplace())
    with pytest.raises(CovaryError, match="the model has several latent functions"):
        two.components(XS)
