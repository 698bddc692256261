"""Spectral densities compared with numerical transforms, upcrossings with draws, eigenfunctions with analytic ones."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import comb, j0
from scipy.stats import norm

from covary._checks import CovaryError
from covary.kernels.base import AbstractKernel
from covary.kernels.combine import Function
from covary.kernels.dot_product import Linear
from covary.kernels.isotropic import Bessel, SquaredExponentialMixture
from covary.kernels.matern import Matern, MaternHalfInteger
from covary.kernels.metric import FactorMetric
from covary.kernels.periodic import Cosine, Periodic
from covary.kernels.spectral import Spectral, SpectralMixture
from covary.kernels.spectrum import (
    eigenfunctions,
    expected_upcrossings,
    is_positive_semidefinite,
    kernel_pca,
    spectral_density,
    squared_exponential_eigensystem,
)
from covary.kernels.stationary import Matern12, Matern32, Matern52, RationalQuadratic, SquaredExponential

DECAYING = [
    SquaredExponential(0.7),
    Matern12(0.7),
    Matern32(1.4),
    Matern52(0.7),
    Matern(0.9, nu=0.8),
    Matern(0.9, nu=12.0),
    MaternHalfInteger(4, lengthscale=0.8),
    SquaredExponentialMixture([0.5, 2.0], weights=[1.0, 3.0]),
    1.7 * Matern32(0.6) + 0.3 * SquaredExponential(1.1),
]
FREQUENCIES = np.array([0.05, 0.2, 0.45, 1.0])
NODES, WEIGHTS = np.polynomial.legendre.leggauss(2000)


def radial(kernel: AbstractKernel, columns: int, end: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distances up to ``end``, dense at zero, with k there and the weights of a sum over them."""
    t = (NODES + 1) / 2
    r = end * t**3
    x = np.zeros((len(r), columns))
    x[:, 0] = r
    return r, kernel.cross(x, np.zeros((1, columns)))[:, 0], WEIGHTS / 2 * 3 * end * t**2


@pytest.mark.parametrize("kernel", DECAYING, ids=repr)
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_density_is_the_transform_of_the_kernel(kernel: AbstractKernel, columns: int):
    """Eq. 4.8, S(s) = 2π s^(1 − D/2) ∫ k(r) J_(D/2−1)(2πrs) r^(D/2) dr, its Bessel functions for D = 1, 2, 3 written out."""
    r, k, w = radial(kernel, columns, 40.0)
    phase = 2 * np.pi * np.outer(FREQUENCIES, r)
    wave = {1: 2 * np.cos(phase), 2: 2 * np.pi * r * j0(phase), 3: 2 * r * np.sin(phase) / FREQUENCIES[:, None]}[columns]
    np.testing.assert_allclose(spectral_density(kernel, FREQUENCIES, columns), wave @ (w * k), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    "kernel",
    [*DECAYING, RationalQuadratic(0.7, alpha=1.3), RationalQuadratic(0.7, alpha=0.4), RationalQuadratic(0.7, alpha=60.0)],
    ids=repr,
)
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_density_adds_up_to_the_variance(kernel: AbstractKernel, columns: int):
    """∫ S(s) ds = k(0), over shells of D dimensions."""
    t = np.linspace(-60, 40, 10_001)
    s = np.exp(t)
    shell = {1: 2.0, 2: 2 * np.pi * s, 3: 4 * np.pi * s**2}[columns]
    total = (t[1] - t[0]) * (spectral_density(kernel, s, columns) * shell * s).sum()  # the trapezoidal rule in log s
    assert total == pytest.approx(kernel.diag(np.zeros((1, columns)))[0], rel=1e-9)


@pytest.mark.parametrize("alpha", [1.3, 2.0, 2.5])
def test_density_of_the_rational_quadratic(alpha: float):
    kernel = RationalQuadratic(0.7, alpha=alpha)
    for s in FREQUENCIES:
        direct = quad(lambda r: 2 * (1 + r**2 / (0.98 * alpha)) ** -alpha, 0, np.inf, weight="cos", wvar=2 * np.pi * s)[0]
        assert spectral_density(kernel, s) == pytest.approx(direct, rel=1e-6)
    assert spectral_density(RationalQuadratic(alpha=0.5), 0.0) == np.inf  # not integrable
    at_zero = quad(lambda r: 2 * (1 + r**2 / (0.98 * alpha)) ** -alpha, 0, np.inf)[0]
    assert spectral_density(kernel, 0.0) == pytest.approx(at_zero, rel=1e-9)


def plane(kernel: AbstractKernel, end: float, count: int = 400) -> tuple[np.ndarray, np.ndarray, float]:
    """Frequency vectors on a grid of the plane, the density there, and the area of a cell."""
    axis = np.linspace(-end, end, count)
    s = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    return s, spectral_density(kernel, s, 2), (axis[1] - axis[0]) ** 2


@pytest.mark.parametrize(
    "kernel",
    [
        SquaredExponential([0.5, 1.3]),
        FactorMetric(SquaredExponential(), loadings=[[0.8], [-0.6]], lengthscale=[0.9, 1.5]),
        FactorMetric(2.0 * SquaredExponential(1.2), loadings=[[0.8, 0.1], [-0.6, 0.3]]),
        SpectralMixture([0.7, 1.6], means=[[0.3, -0.2], [0.9, 0.4]], scales=[[0.2, 0.1], [0.1, 0.2]]),
        SquaredExponentialMixture([[0.5, 1.3], [0.9, 0.4]], weights=[1.0, 2.0]),
    ],
    ids=repr,
)
def test_the_kernel_is_the_transform_of_its_density_in_the_plane(kernel: AbstractKernel):
    """Eq. 4.6 by the trapezoidal rule, which is exact to rounding for smooth densities that fall off."""
    s, density, cell = plane(kernel, 4.0)
    tau = np.array([[0.0, 0.0], [0.3, 0.1], [-0.4, 0.9], [1.0, 1.0]])
    found = cell * np.cos(2 * np.pi * tau @ s.T) @ density
    np.testing.assert_allclose(found, kernel.cross(tau, np.zeros((1, 2)))[:, 0], atol=1e-10)


def test_one_lengthscale_per_column_stretches_the_density():
    s, ell = np.random.default_rng(0).normal(size=(5, 3)), np.array([0.5, 1.3, 2.0])
    plain = spectral_density(Matern32(), np.linalg.norm(s * ell, axis=1), 3)
    np.testing.assert_allclose(spectral_density(Matern32(ell), s, 3), np.prod(ell) * plain, rtol=1e-13)


@pytest.mark.parametrize(("order", "columns"), [(0.5, 1), (1.0, 1), (1.0, 2), (2.3, 3)])
def test_a_bessel_kernel_is_band_limited(order: float, columns: int):
    """Eq. 4.7 over |s| < 1/2πℓ gives the kernel back; beyond there is nothing."""
    kernel, ell = Bessel(0.8, order=order), 0.8
    edge = 1 / (2 * np.pi * ell)
    angle = np.pi / 4 * (NODES + 1)
    s, w = edge * np.sin(angle), WEIGHTS * np.pi / 4 * edge * np.cos(angle)  # smooth out the edge
    density = spectral_density(kernel, s, columns)
    for r in (0.3, 1.0, 4.0):
        phase = 2 * np.pi * r * s
        wave = {1: 2 * np.cos(phase), 2: 2 * np.pi * s * j0(phase), 3: 2 * s * np.sin(phase) / r}[columns]
        x = np.zeros((1, columns))
        x[0, 0] = r
        assert wave @ (w * density) == pytest.approx(kernel.cross(x, np.zeros((1, columns)))[0, 0], abs=1e-9)
    assert spectral_density(kernel, 1.01 * edge, columns) == 0.0
    with pytest.raises(CovaryError, match="in 3 columns has all its power on a sphere; raise the order"):
        spectral_density(Bessel(order=0.5), 0.1, 3)


def test_the_density_of_a_kernel_by_quadrature_is_its_own_normalised():
    def bump(s, width):
        return 3 * jnp.exp(-(((s - 0.5) / width) ** 2) / 2)

    kernel = Spectral(bump, highest=3.0, parameters={"width": 0.2})
    mass = 2 * 0.2 * np.sqrt(2 * np.pi) * (norm.cdf(12.5) - norm.cdf(-2.5))
    expected = np.exp(-(((0.4 - 0.5) / 0.2) ** 2) / 2) / mass
    assert spectral_density(kernel, -0.4) == pytest.approx(expected, rel=1e-10)
    assert spectral_density(kernel, [[0.4, 3.2]], 2) == 0.0


def test_kernels_without_a_density_are_named():
    for kernel in (Cosine(), Periodic(), SquaredExponential() * Matern12()):
        with pytest.raises(CovaryError, match=r"spectral_density: .* has no spectral density in closed form"):
            spectral_density(kernel, 0.1)
    with pytest.raises(CovaryError, match=r"s has shape \(2,\); give frequency vectors \(m, 2\)"):
        spectral_density(Matern52([1.0, 2.0]), [0.1, 0.2], 2)
    with pytest.raises(CovaryError, match=r"the metric of FactorMetric\(.*\) is singular"):
        spectral_density(FactorMetric(loadings=[[1.0], [1.0]], lengthscale=1e9), [[0.1, 0.1]], 2)


# crossings -----------------------------------------------------------------------------------------------------------


def test_upcrossings_by_the_formula():
    assert expected_upcrossings(SquaredExponential(0.4)) == pytest.approx(1 / (2 * np.pi * 0.4), rel=1e-12)
    assert expected_upcrossings(3.0 * SquaredExponential(0.4), 1.2) == pytest.approx(
        np.exp(-(1.2**2) / 6) / (2 * np.pi * 0.4), rel=1e-12
    )
    for kernel, bend in (  # −k''(0), by hand
        (Matern32(0.5), 3 / 0.25),
        (Matern52(0.5), 5 / 3 / 0.25),
        (Matern(0.5, nu=1.25), 5.0 / 0.25),
        (RationalQuadratic(0.5, alpha=0.3), 1 / 0.25),
        (Bessel(0.5, order=1.0), 1 / 4 / 0.25),
        (Cosine(0.5), (2 * np.pi / 0.5) ** 2),
        (0.5 * Matern32(0.5) + 0.5 * SquaredExponential(), 0.5 * 3 / 0.25 + 0.5),
    ):
        assert expected_upcrossings(kernel) == pytest.approx(np.sqrt(bend) / (2 * np.pi), rel=1e-9)


def test_rough_processes_cross_infinitely_often():
    assert expected_upcrossings(Matern12()) == np.inf
    assert expected_upcrossings(Matern(nu=0.9) + SquaredExponential()) == np.inf
    with pytest.raises(CovaryError, match="is not stationary"):
        expected_upcrossings(Linear())


@pytest.mark.parametrize("level", [0.0, 0.8])
def test_upcrossings_of_draws(level: float):
    """Crossings counted on 600 draws over ten units; a grid of 0.02 misses of the order of 1e-4 of them."""
    kernel, x = SquaredExponential(0.5), np.arange(0, 10, 0.02)[:, None]
    L = np.linalg.cholesky(kernel.gram(x) + 1e-10 * np.eye(len(x)))
    f = L @ np.random.default_rng(3).normal(size=(len(x), 600))
    counts = ((f[:-1] < level) & (f[1:] >= level)).sum(0) / (x[-1, 0] - x[0, 0])
    error = counts.std(ddof=1) / np.sqrt(len(counts))
    assert abs(counts.mean() - expected_upcrossings(kernel, level)) < 4 * error


# eigenfunctions ------------------------------------------------------------------------------------------------------

A, B = 1.0, 3.0  # the book's figure 4.7: σ² = 1/4a, ℓ² = 1/2b
SYSTEM = squared_exponential_eigensystem((2 * B) ** -0.5, (4 * A) ** -0.5, 40)
HERMITE, MASS = np.polynomial.hermite_e.hermegauss(150)
POINTS, MASS = 0.5 * HERMITE, MASS / MASS.sum()  # a rule for averages over N(0, 1/4)


def test_analytic_eigenvalues():
    expected = [0.5485837704, 0.2476396173, 0.1117885423, 0.0504631623, 0.0227798905]
    np.testing.assert_allclose(SYSTEM.eigenvalues[:5], expected, atol=1e-10)
    assert SYSTEM.eigenvalues.sum() == pytest.approx(1.0, abs=1e-12)


def test_analytic_eigenfunctions_solve_the_equation_and_are_orthonormal():
    """Eq. 4.36 and ∫ φ_i φ_j p = δ_ij, by Gauss and Hermite's rule; φ_k has k zeros; Mercer's sum is the kernel."""
    phi = SYSTEM(POINTS)[:, :12]
    np.testing.assert_allclose(phi.T * MASS @ phi, np.eye(12), atol=1e-10)
    at = np.linspace(-1, 1, 7)
    k = np.exp(-((at[:, None] - POINTS) ** 2) * B)
    np.testing.assert_allclose(k * MASS @ phi, SYSTEM(at)[:, :12] * SYSTEM.eigenvalues[:12], atol=1e-12)
    dense = SYSTEM(np.linspace(-4, 4, 4000))[:, :12]
    assert [(np.diff(np.sign(column)) != 0).sum() for column in dense.T] == list(range(12))
    np.testing.assert_allclose(
        SYSTEM(at) * SYSTEM.eigenvalues @ SYSTEM(at).T, np.exp(-((at[:, None] - at) ** 2) * B), atol=1e-9
    )


def test_eigenvalues_in_several_columns():
    """Products of one-column eigenvalues, each as often as the book says; the sum over all is one."""
    products = np.sort(np.multiply.outer(SYSTEM.eigenvalues, SYSTEM.eigenvalues).ravel())[::-1]
    values, often = SYSTEM.distinct(2)
    np.testing.assert_array_equal(often[:4], [1, 2, 3, 4])
    np.testing.assert_allclose(np.repeat(values[:5], often[:5].astype(int)), products[:15], rtol=1e-12)
    values, often = SYSTEM.distinct(3)
    assert values @ often == pytest.approx(1.0, abs=1e-9)
    assert often[:6].sum() == comb(5 + 3, 3)


def test_numerical_eigenfunctions_become_the_analytic_ones():
    """Rows at the quantiles of the density; the error falls with their number (eqs. 4.42 to 4.44)."""
    at, errors = np.linspace(-0.8, 0.8, 9), []
    for n in (100, 400, 1600):
        X = 0.5 * norm.ppf((np.arange(n) + 0.5) / n)[:, None]
        found = eigenfunctions(SquaredExponential((2 * B) ** -0.5), X, 5)
        values, exact = found(at[:, None]), SYSTEM(at)[:, :5]
        values = values * np.sign((values * exact).sum(0))
        errors.append((np.abs(found.eigenvalues - SYSTEM.eigenvalues[:5]).max(), np.abs(values - exact).max()))
    assert errors[0][0] > 3 * errors[1][0] > 9 * errors[2][0]
    assert errors[2][0] < 1e-3
    assert errors[2][1] < 0.05
    np.testing.assert_allclose(found(X).T @ found(X) / len(X), np.eye(5), atol=1e-9)


def test_large_eigenvalues_are_overestimated_on_average():
    """E of the sum of the l largest is at least the truth: ten rows at a time, the standard error allowed for."""
    rng, kernel = np.random.default_rng(0), SquaredExponential((2 * B) ** -0.5)
    found = np.array([eigenfunctions(kernel, rng.normal(0, 0.5, (10, 1)), 3).eigenvalues for _ in range(300)])
    for count in (1, 2, 3):
        sums = found[:, :count].sum(1)
        assert sums.mean() > SYSTEM.eigenvalues[:count].sum() - 3 * sums.std() / np.sqrt(300)


def test_features_of_all_eigenfunctions_are_the_gram():
    X = np.random.default_rng(1).normal(size=(12, 2))
    phi = eigenfunctions(Matern32(), X, 12).features(X)
    np.testing.assert_allclose(phi @ phi.T, Matern32().gram(X), atol=1e-12)


@pytest.mark.parametrize(("kernel", "times"), [(Matern12(0.5), 0), (Matern32(0.5), 1), (Matern(0.5, nu=1.8), 1.3)])
def test_eigenvalues_decay_as_fast_as_the_process_is_smooth(kernel: AbstractKernel, times: float):
    """λ_i ∝ i^−(2r + 2) for r derivatives, the exponent 2ν + 1 of the spectrum with ν = r + 1/2."""
    X = ((np.arange(1500) + 0.5) / 1500)[:, None]
    values = eigenfunctions(kernel, X, 90).eigenvalues
    i = np.arange(1, 91)
    slope = np.polyfit(np.log(i[40:]), np.log(values[40:]), 1)[0]
    assert slope == pytest.approx(-(2 * times + 2), rel=0.05)


def test_kernel_components_by_hand():
    rng = np.random.default_rng(2)
    X, new, kernel = rng.normal(size=(20, 2)), rng.normal(size=(4, 2)), Matern52(1.3)
    found = kernel_pca(kernel, X, 3)
    values, vectors = np.linalg.eigh(kernel.gram(X))
    expected = kernel.cross(new, X) @ vectors[:, ::-1][:, :3] / np.sqrt(values[::-1][:3])
    np.testing.assert_allclose(found.eigenvalues, values[::-1][:3], rtol=1e-10)
    np.testing.assert_allclose(np.abs(found(new)), np.abs(expected), atol=1e-10)
    np.testing.assert_allclose((found(X) ** 2).sum(0), found.eigenvalues, rtol=1e-10)


def test_centred_linear_kernel_components_are_principal_components():
    rng = np.random.default_rng(4)
    X, new = rng.normal(size=(30, 3)) * [3.0, 1.0, 0.3] + 5.0, rng.normal(size=(6, 3))
    found = kernel_pca(Linear(), X, 2, centre=True)
    _, singular, axes = np.linalg.svd(X - X.mean(0), full_matrices=False)
    np.testing.assert_allclose(found.eigenvalues, singular[:2] ** 2, rtol=1e-9)
    np.testing.assert_allclose(np.abs(found(new)), np.abs((new - X.mean(0)) @ axes[:2].T), atol=1e-8)


def test_too_many_components_are_refused():
    X = np.random.default_rng(5).normal(size=(30, 3))
    with pytest.raises(CovaryError, match="kernel_pca: only 3 eigenvalues are above rounding error; give 3 or fewer"):
        kernel_pca(Linear(), X, 5)
    with pytest.raises(CovaryError, match="eigenfunctions: count is 31; give an integer from 1 to the number of rows, 30"):
        eigenfunctions(Linear(), X, 31)
    with pytest.raises(CovaryError, match="squared_exponential_eigensystem: spread is 0"):
        squared_exponential_eigensystem(1.0, 0, 3)


def test_positive_definiteness_by_number():
    """Section 4.2.3: the sigmoid tanh(a + b x·x') is no covariance."""

    def sigmoid(x, z):
        return jnp.tanh(0.5 + 0.7 * x @ z)

    X = np.random.default_rng(6).normal(size=(60, 2))
    assert is_positive_semidefinite(SquaredExponential(), X)
    assert is_positive_semidefinite(Linear(), X)
    assert not is_positive_semidefinite(Function(sigmoid), X)
