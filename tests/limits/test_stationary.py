"""Stationary kernels at parameters where they equal another kernel, or where the value is known."""

from __future__ import annotations

import jax
import mpmath
import numpy as np
import pytest
from scipy.special import gamma, jv, kv, roots_genlaguerre

from covary._checks import CovaryError
from covary.data import Inputs
from covary.kernels.dot_product import Linear
from covary.kernels.isotropic import Bessel, GammaExponential, PiecewisePolynomial, SquaredExponentialMixture
from covary.kernels.matern import Matern, MaternHalfInteger, OrnsteinUhlenbeck
from covary.kernels.metric import FactorMetric
from covary.kernels.periodic import Periodic
from covary.kernels.spectral import Periodised, Spectral, SpectralMixture
from covary.kernels.spectrum import spectral_density
from covary.kernels.stationary import Matern12, Matern32, Matern52, RationalQuadratic, SquaredExponential
from covary.parameters import Packing, bounded, fixed, parameters
from laws import reference as ref

mpmath.mp.dps = 40
RNG = np.random.default_rng(11)
X = RNG.normal(size=(25, 3))
LINE = np.linspace(0, 6, 40)[:, None]


def along(kernel, r: np.ndarray) -> np.ndarray:
    """k at these distances in one column."""
    return kernel.cross(np.asarray(r, float)[:, None], [[0.0]])[:, 0]


def exact_matern(s, nu):
    """Eq. 4.14 at r² = s in forty digits."""
    nu = mpmath.mpf(nu)
    z = mpmath.sqrt(2 * nu * mpmath.mpf(s))
    return 2 ** (1 - nu) / mpmath.gamma(nu) * z**nu * mpmath.besselk(nu, z)


@jax.jit
def _profile(kernel, s):
    return kernel.profile(s)


def profile(kernel, r: np.ndarray) -> np.ndarray:
    """k as a function of the distance itself: no coordinates, so no rounding of differences."""
    with jax.enable_x64(True):
        return np.asarray(_profile(kernel, np.square(r)))


@jax.jit
def slope_over_smoothness(s, nu):
    """dk/dν at distances √s, by the kernel's own rule."""
    return jax.jvp(lambda v: Matern(nu=v).profile(s), (nu,), (jax.numpy.ones_like(nu),))[1]


@jax.jit
def first_and_second_slope(x, nu):
    """k' and k'' in one column, at the distance x."""

    def k(x):
        return Matern(nu=nu).block(Inputs(x.reshape(1, 1)), Inputs(jax.numpy.zeros((1, 1))))[0, 0]

    return jax.value_and_grad(jax.grad(k))(x)


# the Matérn class ----------------------------------------------------------------------------------------------------

SMOOTHNESS = [0.02, 0.1, 0.3, 0.5, 0.77, 1 - 1e-9, 1.0, 1.2, 1.5, 1.5 + 1e-9, 2.0, 2.49, 3.0, 5.3, 9.99, 10.0, 14.0, 30.0]
ARGUMENTS = np.array([*10.0 ** np.arange(-12, 0), 0.4, 0.9, 1.5, 1.99, 2.01, 2.6, 4.0, 8.0, 20.0, 60.0, 700.0])


@pytest.mark.parametrize("nu", SMOOTHNESS)
def test_any_smoothness_equals_the_bessel_function(nu: float):
    r = ARGUMENTS / np.sqrt(2 * nu)
    expected = np.array([float(exact_matern(x**2, nu)) for x in r])
    np.testing.assert_allclose(profile(Matern(nu=nu), r), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("nu", SMOOTHNESS)
def test_the_slope_over_smoothness_equals_that_of_the_bessel_function(nu: float):
    s = np.array([1e-8, 1e-3, 0.2, 0.7, 1.4, 3.0, 9.0, 40.0])
    expected = [float(mpmath.diff(lambda v, x=x: exact_matern(x, v), mpmath.mpf(nu), h=mpmath.mpf(10) ** -14)) for x in s]
    with jax.enable_x64(True):
        found = slope_over_smoothness(s, np.float64(nu))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize(("nu", "closed"), [(0.5, Matern12), (1.5, Matern32), (2.5, Matern52)])
def test_any_smoothness_contains_the_closed_forms(nu: float, closed):
    ell = np.array([0.7, 2.0, 1.1])
    np.testing.assert_allclose(Matern(ell, nu=nu).gram(X), closed(ell).gram(X), rtol=0, atol=1e-14)
    if nu > 1:
        found, expected = Matern(ell, nu=nu).input_gradient(X, X), closed(ell).input_gradient(X, X)
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_matern_becomes_squared_exponential():
    """The error falls like 1/ν, and at ν = 10⁶ little is left of it."""
    se = along(SquaredExponential(), LINE[:, 0])
    errors = [np.abs(along(Matern(nu=nu), LINE[:, 0]) - se).max() for nu in (1e2, 1e3, 1e4, 1e6)]
    assert errors[0] > 9 * errors[1] > 80 * errors[2]
    assert errors[3] < 1e-6


@pytest.mark.parametrize("nu", [1.05, 1.5, 1.8, 2.0, 2.3, 7.0, 25.0])
def test_the_second_derivative_at_zero_is_the_variance_of_the_slope(nu: float):
    """−k''(0) = ν/(ν − 1): two terms of the power series of eq. 4.14; and the first derivative is zero there."""
    with jax.enable_x64(True):
        first, second = first_and_second_slope(np.zeros(()), np.float64(nu))
    assert float(first) == 0.0
    assert float(second) == pytest.approx(-nu / (nu - 1), rel=1e-11)


@pytest.mark.parametrize(("nu", "smoothness"), [(0.3, 0), (1.0, 0), (1.0001, 1), (2.0, 1), (2.5, 2), (3.5, 3)])
def test_smoothness_is_the_largest_whole_number_below_nu(nu: float, smoothness: int):
    assert Matern(nu=nu).traits.smoothness == smoothness


@pytest.mark.parametrize("order", [0, 1, 2, 3, 4, 7, 15, 50])
def test_half_integers_equal_the_bessel_function(order: int):
    r, nu = np.linspace(0.01, 4, 50), order + 0.5
    z = np.sqrt(2 * nu) * r
    expected = 2 ** (1 - nu) / gamma(nu) * z**nu * kv(nu, z)
    kernel = MaternHalfInteger(order)
    np.testing.assert_allclose(along(kernel, r), expected, rtol=1e-12)
    with jax.enable_x64(True):  # the compiled lane, and its slope: the two lanes agree
        found, slope = (np.asarray(v) for v in jax.jit(jax.vmap(jax.value_and_grad(kernel.profile)))(r**2))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    host = kernel.host_profile(r**2, True)[1]
    np.testing.assert_allclose(host, slope, rtol=1e-12)


def test_half_integers_of_low_order_are_the_named_classes():
    for order, named in enumerate((Matern12(1.3), Matern32(1.3), Matern52(1.3))):
        np.testing.assert_allclose(MaternHalfInteger(order, lengthscale=1.3).gram(X), named.gram(X), atol=1e-14)
    assert OrnsteinUhlenbeck is Matern12


# distances -----------------------------------------------------------------------------------------------------------


def test_rational_quadratic_becomes_squared_exponential():
    se = along(SquaredExponential(), LINE[:, 0])
    errors = [np.abs(along(RationalQuadratic(alpha=a), LINE[:, 0]) - se).max() for a in (1e2, 1e3, 1e6)]
    assert errors[0] > 9 * errors[1]
    assert errors[2] < 1e-6


@pytest.mark.parametrize("alpha", [0.7, 2.5])
def test_a_gamma_mixture_of_squared_exponentials_is_rational_quadratic(alpha: float):
    """Eq. 4.20 by Gauss and Laguerre's rule: τ = ℓ⁻² ~ Gamma(α, mean 1)."""
    t, w = roots_genlaguerre(60, alpha - 1)
    keep = w > 1e-18 * w.max()
    mixture = SquaredExponentialMixture(np.sqrt(alpha / t[keep]), weights=w[keep])
    np.testing.assert_allclose(along(mixture, LINE[:20, 0]), along(RationalQuadratic(alpha=alpha), LINE[:20, 0]), atol=1e-9)


def test_only_the_ratios_of_the_mixture_weights_matter():
    a, b = (SquaredExponentialMixture([0.5, 2.0], weights=w).gram(X) for w in ([1.0, 3.0], [10.0, 30.0]))
    np.testing.assert_allclose(a, b, rtol=1e-14)
    np.testing.assert_array_equal(np.diagonal(a), 1.0)


def test_gamma_exponential_at_its_two_ends():
    np.testing.assert_allclose(GammaExponential(1.3, gamma=1.0).gram(X), Matern12(1.3).gram(X), atol=1e-15)
    se = SquaredExponential(1.3 / np.sqrt(2))  # no factor 2 in eq. 4.18
    np.testing.assert_allclose(GammaExponential(1.3, gamma=2.0).gram(X), se.gram(X), atol=1e-15)
    found = GammaExponential(1.3, gamma=2.0).input_gradient(X, X)
    np.testing.assert_allclose(found, se.input_gradient(X, X), atol=1e-14)


def test_gamma_stays_between_its_ends():
    assert Packing(GammaExponential(gamma=1.5)).box()[1][1] == pytest.approx(np.log(2))
    assert repr(GammaExponential(gamma=1.5)) == "GammaExponential(lengthscale=1.0, gamma=bounded(1.5, 0.0, 2.0))"
    assert parameters(GammaExponential(gamma=bounded(1.5, 0.5, 1.8)))["gamma"].mark.bounds == (0.5, 1.8)
    assert parameters(GammaExponential(gamma=fixed(1.5)))["gamma"].mark.fixed
    with pytest.raises(CovaryError, match=r"kernels\.GammaExponential: gamma is 2\.1; give a number above 0 and at most 2"):
        GammaExponential(gamma=2.1).gram(X)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (1, [0.7, 0.6517, 0.5411854, 0.4428190711]),
        (2, [0.49, 0.52822, 0.45294865, 0.37551913714]),
        (3, [0.49, 0.52822, 0.45294865, 0.37551913714]),
    ],
)
def test_piecewise_polynomials_at_three_tenths(columns: int, expected: list[float]):
    """Values of eq. 4.21 worked out by hand."""
    point = np.zeros((1, columns))
    point[0, -1] = 0.3
    for degree, value in enumerate(expected):
        found = PiecewisePolynomial(degree).cross(point, np.zeros((1, columns)))[0, 0]
        assert found == pytest.approx(value, abs=1e-12)
        same = PiecewisePolynomial(degree, columns=columns).cross([[0.3]], [[0.0]])[0, 0]
        assert same == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_piecewise_polynomials_end(degree: int):
    kernel = PiecewisePolynomial(degree, lengthscale=2.0)
    assert np.all(along(kernel, np.linspace(2, 50, 30)) == 0)
    assert np.all(along(kernel, np.linspace(0, 1.9, 30)) > 0)
    K = kernel.gram(np.random.default_rng(degree).uniform(0, 20, (300, 2)))
    assert (K == 0).mean() > 0.9
    assert np.linalg.eigvalsh(K)[0] > -1e-12


def test_a_piecewise_polynomial_is_no_covariance_beyond_its_columns():
    """The triangle (1 − r)₊, valid in one column, has a negative eigenvalue in the plane; asked there the kernel refuses."""
    grid = np.stack(np.meshgrid(np.arange(8), np.arange(8)), -1).reshape(-1, 2) * 0.7
    assert np.linalg.eigvalsh(np.maximum(1 - ref.distance(grid, grid, 1.0), 0))[0] < -0.01
    with pytest.raises(CovaryError, match="X has 2 columns but the kernel is defined on 1"):
        PiecewisePolynomial(0, columns=1).gram(grid)
    assert np.linalg.eigvalsh(PiecewisePolynomial(0).gram(grid))[0] > -1e-12


@pytest.mark.parametrize("order", [0.0, 0.5, 1.0, 2.3, 5.0, 12.0])
def test_bessel_equals_its_function(order: float):
    r = np.concatenate([np.linspace(1e-3, 60, 400), [24.999, 25.001, 300.0, 1e4]])
    expected = gamma(order + 1) * (2 / r) ** order * jv(order, r)
    np.testing.assert_allclose(profile(Bessel(order=order), r), expected, rtol=0, atol=1e-13)
    with jax.enable_x64(True):  # d/dr (r^−ν J_ν) = −r^−ν J_(ν+1)
        slope = np.asarray(jax.jit(jax.vmap(jax.grad(lambda x: Bessel(order=order).profile(x**2))))(r))
    np.testing.assert_allclose(slope, -gamma(order + 1) * 2**order * r**-order * jv(order + 1, r), rtol=0, atol=1e-12)


def test_bessel_of_order_one_half_is_the_cardinal_sine():
    r = np.linspace(0.01, 80, 200)
    np.testing.assert_allclose(along(Bessel(2.0, order=0.5), r), np.sin(r / 2) / (r / 2), atol=1e-13)
    with pytest.raises(CovaryError, match="X has 4 columns but the kernel is defined on 3"):
        Bessel(order=0.5).gram(np.zeros((2, 4)))


# spectra and metrics -------------------------------------------------------------------------------------------------


def test_spectral_mixture_is_a_sum_of_damped_waves():
    """Wilson & Adams (2013), eq. 12: Σ_q w_q cos(2π τ·μ_q) ∏_p exp(−2π² τ_p² σ_qp²)."""
    weights, means, scales = [0.7, 1.6], RNG.normal(size=(2, 3)), np.array([[0.1, 0.3, 0.2], [0.4, 0.05, 0.15]])
    gap = X[:, None] - X[None]
    expected = sum(
        w * np.cos(2 * np.pi * gap @ m) * np.exp(-2 * np.pi**2 * (gap * s) ** 2).prod(-1)
        for w, m, s in zip(weights, means, scales, strict=True)
    )
    np.testing.assert_allclose(SpectralMixture(weights, means=means, scales=scales).gram(X), expected, atol=1e-12)


def test_a_component_at_frequency_zero_is_squared_exponential():
    scale = np.array([0.1, 0.3, 0.2])
    kernel = SpectralMixture([1.7], means=np.zeros((1, 3)), scales=scale[None])
    np.testing.assert_allclose(kernel.gram(X), 1.7 * SquaredExponential(1 / (2 * np.pi * scale)).gram(X), rtol=1e-12)


def test_a_narrow_component_is_a_wave():
    kernel = SpectralMixture([1.0], means=[0.4], scales=[1e-9])
    np.testing.assert_allclose(along(kernel, LINE[:, 0]), np.cos(2 * np.pi * 0.4 * LINE[:, 0]), atol=1e-12)


def test_quadrature_over_a_normal_density_is_squared_exponential():
    def normal(s, scale):
        return jax.numpy.exp(-((s / scale) ** 2) / 2)

    kernel = Spectral(normal, highest=3.0, nodes=64, parameters={"scale": 0.3})
    np.testing.assert_allclose(kernel.gram(X), SquaredExponential(1 / (2 * np.pi * 0.3)).gram(X), atol=1e-13)
    assert repr(kernel) == "Spectral(normal, highest=3.0, nodes=64, scale=0.3)"
    with pytest.raises(CovaryError, match="the density is not finite and ≥ 0 at every frequency"):
        Spectral(lambda s: s - 1.0, highest=2.0).gram(X)


@pytest.mark.parametrize("inner", [SquaredExponential(0.4), 1.5 * Matern32(0.3), Matern(0.2, nu=0.8)])
def test_periodised_kernels_repeat_and_are_covariances(inner):
    kernel = Periodised(inner, period=1.3, terms=30)
    points = RNG.uniform(-20, 20, (60, 1))
    K = kernel.gram(points)
    np.testing.assert_allclose(kernel.cross(points + 5 * 1.3, points), K, atol=1e-12)
    assert np.linalg.eigvalsh(K)[0] > -1e-11
    assert K[0, 0] > inner.gram(points)[0, 0]
    np.testing.assert_allclose(kernel.diag(points), np.diagonal(K), rtol=1e-13)


def test_periodised_spectra_are_the_density_at_whole_multiples():
    """Poisson's sum: Σ_m k(x + mp) = Σ_n S(n/p)/p cos 2πnx/p."""
    inner, period = Matern52(0.4), 1.3
    n = np.arange(4000)
    power = spectral_density(inner, n / period) / period * np.where(n > 0, 2, 1)
    x = np.linspace(0, 3, 50)
    expected = np.cos(2 * np.pi * np.outer(x, n) / period) @ power
    np.testing.assert_allclose(along(Periodised(inner, period=period, terms=20), x), expected, atol=1e-12)


def test_periodised_kernels_must_fall_off():
    with pytest.raises(CovaryError, match=r"0\.0\d+ of k\(0\) is left after 4 periods; raise terms"):
        Periodised(Matern12(1.0), period=1.0, terms=4).gram(LINE)
    with pytest.raises(CovaryError, match=r"is not stationary; give a stationary kernel, a function of x − x'"):
        Periodised(Linear()).gram(LINE)
    with pytest.raises(CovaryError, match=r"1 of k\(0\) is left after 8 periods"):
        Periodised(Periodic(), period=2.0).gram(LINE)


def test_a_metric_without_factors_is_one_lengthscale_per_column():
    ell = np.array([0.7, 2.0, 1.1])
    for inner, plain in ((Matern52(), Matern52(ell)), (RationalQuadratic(alpha=0.6), RationalQuadratic(ell, alpha=0.6))):
        kernel = FactorMetric(inner, loadings=np.zeros((3, 2)), lengthscale=ell)
        np.testing.assert_allclose(kernel.gram(X), plain.gram(X), rtol=1e-13)


def test_a_metric_of_factors_alone_is_the_kernel_of_the_projections():
    loadings = RNG.normal(size=(3, 2))
    kernel = FactorMetric(Matern32(), loadings=loadings, lengthscale=fixed(np.inf))
    np.testing.assert_allclose(kernel.gram(X), Matern32().gram(X @ loadings), rtol=1e-12)


def test_the_metric_of_the_book():
    """Figure 5.1: Λ = (1, −1)ᵀ, ℓ = 6: the function varies fastest across the line x₁ = x₂."""
    kernel = FactorMetric(SquaredExponential(), loadings=[[1.0], [-1.0]], lengthscale=6.0)
    along_it, across = kernel.cross([[0.0, 0.0]], [[1.0, 1.0], [1.0, -1.0]])[0]
    assert along_it == pytest.approx(np.exp(-1 / 36))
    assert across == pytest.approx(np.exp(-(2 / 36 + 4) / 2))


def test_a_metric_learns_its_factors_and_not_the_inner_lengthscale():
    kernel = FactorMetric(RationalQuadratic(), loadings=[[1.0], [0.5]])
    free = [name for name, p in parameters(kernel).items() if not p.mark.fixed]
    assert free == ["loadings", "lengthscale", "kernel.alpha"]
    with pytest.raises(CovaryError, match="is not isotropic; give an isotropic kernel with one length-scale"):
        FactorMetric(Matern52([1.0, 2.0]), loadings=[[1.0], [0.5]]).gram(X[:, :2])
    with pytest.raises(CovaryError, match=r"loadings has shape \(2, 1\) but X has 3 columns; give one row per column"):
        kernel.gram(X)


def test_squared_exponential_is_the_limit_of_gaussian_basis_functions():
    """Eq. 4.13: a dense grid of bumps of width ℓ has the length-scale √2 ℓ, and variance √π ℓ per unit of prior density."""
    ell, step = 0.5, 0.01
    centres = np.arange(-20, 20, step)
    phi = np.exp(-((LINE - centres) ** 2) / (2 * ell**2)) * np.sqrt(step)
    expected = np.sqrt(np.pi) * ell * SquaredExponential(np.sqrt(2) * ell).gram(LINE)
    np.testing.assert_allclose(phi @ phi.T, expected, atol=1e-13)


BAD = [
    (Matern(nu=[1.0, 2.0, 3.0]), r"kernels\.Matern: nu has shape \(3,\); give one number"),
    (Matern(nu=-1.0), r"kernels\.Matern: nu is -1\.0; give positive"),
    (MaternHalfInteger(-1), r"kernels\.MaternHalfInteger: order is -1; give an integer from 0 to 50"),
    (MaternHalfInteger(1.5), r"order is 1\.5"),
    (PiecewisePolynomial(4), r"kernels\.PiecewisePolynomial: degree is 4; give 0, 1, 2 or 3"),
    (Bessel(order=-0.5), r"kernels\.Bessel: order is -0\.5; give a number from 0 to 50"),
    (SquaredExponentialMixture([1.0, 2.0], weights=[1.0]), r"lengthscales has shape \(2,\); give one per weight \(1\)"),
    (SpectralMixture([1.0], means=[0.1], scales=[0.2]), r"means has shape \(1,\); give an array of 1 row .* and 3 columns"),
    (SpectralMixture([1.0], means=np.zeros((1, 3)), scales=np.zeros((1, 3))), r"scales is 0\.0; give positive"),
    (Periodised(Matern52()), "X has 3 columns but the kernel is defined on 1"),
    (Spectral(abs, nodes=0), "nodes is 0; give an integer from 1 to 10,000"),
]


@pytest.mark.parametrize(("kernel", "message"), BAD, ids=[type(k).__name__ + str(i) for i, (k, _) in enumerate(BAD)])
def test_bad_numbers_are_refused(kernel, message: str):
    with pytest.raises(CovaryError, match=message):
        kernel.gram(X)
