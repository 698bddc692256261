"""Non-stationary and structured kernels at parameters where they equal another known kernel."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest
from scipy import integrate, special
from scipy.stats import kurtosis

from covary import kernels as ks
from covary._checks import CovaryError
from covary.data import Inputs
from covary.kernels.categorical import Categories, Exchangeable, Hamming
from covary.kernels.networks import ArcCosine, TanhNetwork, random_network, simulated_covariance, slopes
from covary.kernels.processes import BrownianBridge, FractionalBrownian
from covary.kernels.sphere import GreatCircle, OnSphere, SinePower
from covary.kernels.structure import Additive, BasisFunctions, GaussianBasis, Invariant, Normalised
from covary.kernels.varying import (
    ChangePoint,
    FunctionField,
    GaussianField,
    ModulatedSquaredExponential,
    PaciorekSchervish,
    VaryingAmplitude,
    VaryingLengthscale,
)
from covary.kernels.warped import Mapped, Warped
from laws import reference as ref
from laws import reference_located as own
from laws.rows_located import places

RNG = np.random.default_rng(11)
X1 = np.sort(RNG.uniform(-2.0, 2.0, (9, 1)), axis=0)
X3 = RNG.uniform(-1.5, 1.5, (10, 3))


def rectified(u):
    return np.sqrt(2) * np.maximum(u, 0)


ACTIVATIONS = {
    "erf": (special.erf, ks.NeuralNetwork([0.9, 1.4, 2.0], bias=0.6)),
    "tanh": (np.tanh, TanhNetwork([0.9, 1.4, 2.0], bias=0.6)),
    "step": (lambda u: np.sqrt(2.0) * (u > 0), ArcCosine(0, lengthscale=[0.9, 1.4, 2.0], bias=0.6)),
    "rectified": (rectified, ArcCosine(1, lengthscale=[0.9, 1.4, 2.0], bias=0.6)),
    "squared": (lambda u: np.sqrt(2.0) * np.maximum(u, 0) ** 2, ArcCosine(2, lengthscale=[0.9, 1.4, 2.0], bias=0.6)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_simulated_units_have_the_kernel_of_the_infinite_network(name: str):
    activation, kernel = ACTIVATIONS[name]
    K, error = simulated_covariance(activation, X3, units=200_000, lengthscale=[0.9, 1.4, 2.0], bias=0.6, key=3)
    assert np.abs((K - kernel.gram(X3)) / np.where(error > 0, error, 1.0)).max() < 4.5  # 55 entries, correlated
    assert error.max() < 0.02 * np.abs(K).max()
    assert np.linalg.eigvalsh(K).min() > -1e-12 * K.max()


@pytest.mark.parametrize("name", ["erf", "tanh"])
def test_finite_networks_have_the_covariance_for_any_width_and_become_normal(name: str):
    activation, kernel = ACTIVATIONS[name]
    draws, X = 20_000, X3[:4]
    tails = []
    for units in (1, 30):
        f = random_network(units, 3, activation=activation, lengthscale=[0.9, 1.4, 2.0], bias=0.6, draws=draws, key=units)(X)
        assert f.shape == (4, draws)
        products = f[:, None, :] * f[None, :, :]
        error = products.std(2) / np.sqrt(draws)
        assert np.abs((products.mean(2) - kernel.gram(X)) / error).max() < 4.5
        tails.append(kurtosis(f, axis=1).mean())
    assert tails[0] > 1.0  # one unit: a product of a normal weight and a bounded number
    assert abs(tails[1]) < 0.3 * tails[0]


def test_random_networks_refuse_wrong_numbers():
    with pytest.raises(CovaryError, match="units is 0"):
        random_network(0, 1, key=0)
    with pytest.raises(CovaryError, match="expected 2; give the columns the network was drawn for"):
        random_network(3, 2, key=0)([[1.0]])


@pytest.mark.parametrize(("terms", "promised"), [(3, 3.1e-4), (4, 5.6e-5), (6, 2.8e-6), (8, 1.8e-7), (12, 1.4e-9), (20, 3e-13)])
def test_error_functions_stand_for_tanh_as_promised(terms: int, promised: float):
    scale, weight = slopes(terms)
    x = np.linspace(-12, 12, 6001)
    approximate = special.erf(x[:, None] / (np.sqrt(2) * scale)) @ weight
    assert np.abs(approximate - np.tanh(x)).max() < promised
    assert weight.min() > 0
    np.testing.assert_allclose(weight.sum(), 1.0, rtol=1e-13)


@pytest.mark.parametrize("lengthscale", [10.0, 1.0, 0.2])
def test_tanh_network_is_accurate_for_slow_and_fast_units(lengthscale: float):
    expected = own.tanh_network(X1, X1, lengthscale, 0.5, step=0.02)
    np.testing.assert_allclose(TanhNetwork(lengthscale, bias=0.5).gram(X1), expected, atol=3e-6)
    np.testing.assert_allclose(TanhNetwork(lengthscale, bias=0.5, terms=12).gram(X1), expected, atol=2e-9)


def test_tanh_network_of_steep_units_is_that_of_steps():
    kernel = TanhNetwork(1e-6, bias=1e12)
    tilde = np.column_stack([np.ones(9), X1])
    cosine = tilde @ tilde.T / np.sqrt(np.outer((tilde**2).sum(1), (tilde**2).sum(1)))
    np.testing.assert_allclose(kernel.gram(X1), 2 / np.pi * np.arcsin(np.minimum(cosine, 1.0)), atol=2e-6)


def test_tanh_network_without_offsets_is_odd():
    kernel = TanhNetwork(0.7, bias=ks.fixed(0.0))
    np.testing.assert_allclose(kernel.cross(-X1, X1), -kernel.gram(X1), rtol=1e-13)
    assert kernel([0.0], [0.0]) == 0.0


def test_steep_tanh_network_is_positive_semi_definite():
    X = RNG.normal(size=(150, 2))
    for terms in (1, 2, 6):
        K = TanhNetwork(0.05, terms=terms).gram(X)
        assert np.linalg.eigvalsh(K).min() > -1e-12 * len(K)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_arc_cosine_is_homogeneous_without_length_scales(order: int):
    kernel, twice = ArcCosine(order, bias=1e-300), ArcCosine(order, lengthscale=0.5, bias=1e-300)
    np.testing.assert_allclose(twice.gram(X3), 4.0**order * kernel.gram(X3), rtol=1e-12)
    opposite = kernel.cross(X3, -X3)[range(10), range(10)] / (X3**2).sum(1) ** order
    np.testing.assert_allclose(opposite, 0.0, atol=3e-8)  # J(π) = 0, to half the digits


def test_dense_gaussian_basis_is_a_squared_exponential_of_root_two_length_scale():
    width, step = 0.4, 0.1
    centres = np.arange(-6.0, 6.0, step)
    kernel = GaussianBasis(centres, width=width, weight=step)
    expected = np.sqrt(np.pi) * width * ks.SquaredExponential(np.sqrt(2) * width).gram(X1)
    np.testing.assert_allclose(kernel.gram(X1), expected, rtol=1e-12)
    sparse = GaussianBasis(np.arange(-6.0, 6.0, 3.0), width=width, weight=3.0).gram(X1)
    assert np.abs(sparse - expected).max() > 0.1  # few centres are not


def test_basis_functions_are_bayesian_linear_regression():
    def quadratic(x):
        return x[:, :1] ** np.arange(3)

    kernel = BasisFunctions(quadratic, weight=[4.0, 2.0, 0.5])
    w = RNG.normal(size=(3, 400_000)) * np.sqrt([[4.0], [2.0], [0.5]])
    f = quadratic(X1[:3]) @ w
    np.testing.assert_allclose(kernel.gram(X1[:3]), f @ f.T / w.shape[1], rtol=0.02)
    assert np.linalg.matrix_rank(kernel.gram(X1)) == 3


@pytest.mark.parametrize("beta", [np.full(3, 0.0), np.zeros((3, 3))])
def test_constant_field_is_a_squared_exponential(beta):
    centres, ell = RNG.normal(size=(3, 3)), np.array([0.7, 1.1, 2.0])
    flat = VaryingLengthscale(GaussianField(centres, beta=beta), lengthscale=ell)
    np.testing.assert_allclose(flat.gram(X3), ks.SquaredExponential(ell).gram(X3), rtol=1e-13)
    wide = VaryingLengthscale(GaussianField(centres, width=1e6, beta=beta + 0.1))  # every bump is one everywhere
    expected = ks.SquaredExponential(np.exp(0.3)).gram(X3)
    np.testing.assert_allclose(wide.gram(X3), expected, rtol=1e-10)


@pytest.mark.parametrize("shape", [(4,), (3, 4)])
def test_paciorek_and_schervish_with_a_squared_exponential_is_gibbs(shape):
    field = GaussianField(RNG.normal(size=(4, 3)), width=0.8, beta=RNG.normal(size=shape))
    gibbs = VaryingLengthscale(field, lengthscale=ks.fixed(1.0))
    np.testing.assert_allclose(PaciorekSchervish(ks.SquaredExponential(), field).gram(X3), gibbs.gram(X3), rtol=1e-13)


def test_full_matrices_that_are_diagonal_are_length_scales():
    field = GaussianField(RNG.normal(size=(4, 3)), width=0.8, beta=RNG.normal(size=(3, 4)))

    def matrices(x):
        return jax.vmap(jax.numpy.diag)(field.evaluate(x) ** 2)

    full = PaciorekSchervish(ks.Matern52(), FunctionField(matrices))
    np.testing.assert_allclose(full.gram(X3), PaciorekSchervish(ks.Matern52(), field).gram(X3), rtol=1e-12)


def test_one_field_is_the_same_field_in_every_column_whatever_their_number():
    for d in (1, 2, 3, 4, 18):
        X, centres, beta = RNG.normal(size=(6, d)), RNG.normal(size=(3, d)), RNG.normal(size=3)
        one = VaryingLengthscale(GaussianField(centres, width=3.0, beta=beta), lengthscale=2.0)
        each = VaryingLengthscale(GaussianField(centres, width=3.0, beta=np.tile(beta, (d, 1))), lengthscale=2.0)
        np.testing.assert_allclose(one.gram(X), each.gram(X), rtol=1e-12)
        expected = own.gibbs(X, X, lambda V: 2.0 * own.field(V, centres, 3.0, beta))  # noqa: B023
        np.testing.assert_allclose(each.gram(X), expected, rtol=1e-12)


def test_slope_of_gibbs_kernel_is_the_corrected_formula():
    centres, beta = RNG.normal(size=(4, 2)), RNG.normal(size=(2, 4))
    X = RNG.normal(size=(5, 2))
    kernel = VaryingLengthscale(GaussianField(centres, width=0.9, beta=beta))
    with jax.enable_x64(True):
        slope = np.asarray(jax.jit(jax.jacobian(lambda k: k.block(Inputs(X), Inputs(X))))(kernel).field.beta)
    K, r = own.gibbs(X, X, lambda V: own.field(V, centres, 0.9, beta)), own.field(X, centres, 0.9, beta)
    psi = np.exp(-0.5 * ((X[:, None] - centres[None]) ** 2).sum(2) / 0.81)
    assert slope.shape == (5, 5, 2, 4)
    for m, n, a, b in itertools.product(range(5), range(5), range(2), range(4)):
        p, q = r[m, a] ** 2, r[n, a] ** 2
        front = 0.5 * (p - q) / (p + q) * (psi[n, b] - psi[m, b])  # printed without the half (Gibbs, eq. 3.84)
        apart = 2 * (X[m, a] - X[n, a]) ** 2 / (p + q) ** 2 * (p * psi[m, b] + q * psi[n, b])
        np.testing.assert_allclose(slope[m, n, a, b], K[m, n] * (front + apart), rtol=1e-10, atol=1e-14)


def test_factors_of_gibbs_kernel():
    kernel = VaryingLengthscale(GaussianField([-1.0, 1.0], beta=[1.0, -1.0]))
    with jax.enable_x64(True):
        front, fall = (np.asarray(v) for v in jax.jit(kernel.factors)(Inputs(X1), Inputs(X1)))
    r = own.field(X1, [[-1.0], [1.0]], 1.0, [1.0, -1.0])[:, 0]
    np.testing.assert_allclose(front, np.sqrt(2 * np.outer(r, r) / np.add.outer(r**2, r**2)), rtol=1e-13)
    np.testing.assert_allclose(front * fall, kernel.gram(X1), rtol=1e-13)


def test_modulated_squared_exponential_against_quadrature():
    g, u = 0.7, 1.3
    e = (2 / g**2 + 1 / u**2) ** -0.5
    kernel = (e / u) * ModulatedSquaredExponential(g, spread=u)

    def integrand(c, x, z):
        return np.exp(-((x - c) ** 2 + (z - c) ** 2) / (2 * g**2) - c**2 / (2 * u**2)) / np.sqrt(2 * np.pi * u**2)

    for x, z in ((0.0, 0.0), (0.3, -1.1), (2.0, 1.5)):
        value = integrate.quad(integrand, -12, 12, args=(x, z), epsabs=1e-14, epsrel=1e-12, limit=200)[0]
        np.testing.assert_allclose(kernel([x], [z]), value, rtol=1e-10)
    columns = np.prod([ModulatedSquaredExponential(g, spread=u).gram(X3[:, [k]]) for k in range(3)], axis=0)
    np.testing.assert_allclose(ModulatedSquaredExponential(g, spread=u).gram(X3), columns, rtol=1e-12)


def test_modulated_squared_exponential_of_wide_spread_is_stationary():
    wide = ModulatedSquaredExponential(0.7, spread=1e8)
    np.testing.assert_allclose(wide.gram(X3), ks.SquaredExponential(0.7 * np.sqrt(2)).gram(X3), rtol=1e-12)


def test_warp_of_equal_bumps_is_a_straight_line_inside():
    spacing = 0.5
    kernel = Warped(ks.Matern52(), centres=np.arange(-6.0, 6.1, spacing), width=spacing, beta=np.log(0.8))
    slope = 0.8 * np.sqrt(2 * np.pi)  # Σ ψ of bumps one width apart, but for a ripple of 5e-9
    np.testing.assert_allclose(kernel.gram(X1), ks.Matern52(1 / slope).gram(X1), rtol=1e-7)


def test_warp_is_monotone_with_the_densities_as_slopes():
    centres, beta = np.array([-1.0, 0.0, 1.0]), np.array([0.5, -1.0, 0.3])
    kernel = Warped(ks.SquaredExponential(), centres=centres, width=0.6, beta=beta)
    x = np.linspace(-2, 2, 41)[:, None]
    with jax.enable_x64(True):
        slope = np.asarray(jax.jit(jax.vmap(jax.grad(lambda v: kernel.evaluate(v[None])[0, 0])))(x))[:, 0]
    density = (np.exp(beta) * np.exp(-((x - centres) ** 2) / 0.72)).sum(1)
    np.testing.assert_allclose(slope, density, rtol=1e-12)
    f = lambda v: own.warp(np.array([[v]]), centres, 0.6, beta)[0, 0]  # noqa: E731
    np.testing.assert_allclose(
        f(1.3) - f(-0.4),
        integrate.quad(lambda v: (np.exp(beta) * np.exp(-((v - centres) ** 2) / 0.72)).sum(), -0.4, 1.3)[0],
        rtol=1e-9,
    )


def test_warped_kernel_in_a_product_is_exact_at_equal_rows():
    warped = Warped(ks.Matern32(0.7), centres=[-1.0, 0.0, 1.0], beta=[0.1, 0.2, 0.3])
    kernel = VaryingAmplitude(warped, FunctionField(lambda x: 1 + x[:, 0] ** 2))
    X = np.vstack([X3, X3])
    gradient = kernel.input_gradient(X, X)
    expected = np.zeros((20, 20, 3))
    expected[:, :, 0] = (2 * X[:, 0] * (1 + X[:, 0] ** 2))[:, None]  # ½ d/dx of the variance
    same = np.all(X[:, None] == X[None], axis=2)
    np.testing.assert_allclose(gradient[same], expected[same], rtol=1e-9, atol=1e-9)


def test_map_onto_a_circle_is_the_periodic_kernel():
    kernel = Mapped(ks.SquaredExponential(0.8), lambda x: jax.numpy.concatenate([jax.numpy.cos(x), jax.numpy.sin(x)], 1))
    np.testing.assert_allclose(kernel.gram(X1), ks.Periodic(0.8, period=2 * np.pi).gram(X1), rtol=1e-12)


def test_change_point_far_from_the_change_is_its_parts():
    before, after = 2.0 * ks.Matern32(0.5), ks.SquaredExponential(3.0)
    kernel = ChangePoint(before, after, at=10.0, width=0.1)
    early, late = X1, X1 + 20
    np.testing.assert_allclose(kernel.gram(early), before.gram(early), rtol=1e-13)
    np.testing.assert_allclose(kernel.gram(late), after.gram(late), rtol=1e-13)
    np.testing.assert_allclose(kernel.cross(early, late), 0.0, atol=1e-30)
    middle = np.array([[10.0]])
    np.testing.assert_allclose(kernel.gram(middle), (before.gram(middle) + after.gram(middle)) / 4)


@pytest.mark.parametrize("d", [3, 18])
def test_additive_kernel_of_one_order_is_a_sum_or_a_product(d: int):
    X, ell = RNG.normal(size=(6, d)), RNG.uniform(1, 2, d)
    each = [ks.Matern32(ell[k]).gram(X[:, [k]]) for k in range(d)]
    kernel = ks.Matern32(ell)
    np.testing.assert_allclose(Additive(kernel, orders=1).gram(X), np.sum(each, axis=0), rtol=1e-12)
    np.testing.assert_allclose(Additive(kernel, orders=[d]).gram(X), np.prod(each, axis=0), rtol=1e-12)
    pairs = sum(each[i] * each[j] for i in range(d) for j in range(i))
    both = Additive(kernel, orders=2, weight=[0.3, 0.2])
    np.testing.assert_allclose(both.gram(X), 0.3 * np.sum(each, axis=0) + 0.2 * pairs, rtol=1e-12)
    np.testing.assert_allclose(np.diagonal(Additive(kernel, orders=d).gram(X)), 2.0**d - 1, rtol=1e-12)


def cubic_group():
    """The 48 signed permutations of three axes."""
    return [
        np.diag(signs) @ np.eye(3)[list(order)]
        for order in itertools.permutations(range(3))
        for signs in itertools.product((1.0, -1.0), repeat=3)
    ]


@pytest.mark.parametrize("kernel", [ks.Matern52(0.9), ks.SquaredExponential([0.9, 1.3, 0.7])])
def test_invariant_kernel_does_not_notice_the_group(kernel):
    group = cubic_group() if kernel.traits.isotropic else cubic_group()[:8]
    invariant = Invariant(kernel, group=group)
    K = invariant.gram(X3)
    for M in group[:: len(group) // 5]:
        np.testing.assert_allclose(invariant.cross(X3 @ M.T, X3), K, rtol=1e-12)
    assert np.linalg.eigvalsh(K).min() > 0
    assert np.linalg.matrix_rank(K) == 10
    np.testing.assert_allclose(K, own.invariant(X3, X3, kernel.cross, group), rtol=1e-12)


def test_printed_symmetric_kernel_of_a_full_point_group_has_rank_one():
    kernel = Invariant(ks.SquaredExponential(3.0), group=cubic_group(), form="printed")
    K = kernel.gram(X3)
    assert np.linalg.matrix_rank(K) == 1  # Gibbs, eq. 6.37, with Σ M = 0
    a = np.exp(-48 * (X3**2).sum(1) / 18)
    np.testing.assert_allclose(K, np.outer(a, a), rtol=1e-10)


def test_normalised_kernel_is_the_correlation():
    kernel = 3.0 * ks.Polynomial(2) + ks.Matern32()
    K, R = kernel.gram(X3), Normalised(kernel).gram(X3)
    scale = np.sqrt(np.diagonal(K))
    np.testing.assert_allclose(R, K / np.outer(scale, scale), rtol=1e-13)
    np.testing.assert_allclose(Normalised(kernel).diag(X3), 1.0)
    steady = Normalised(5.0 * ks.Matern52())
    np.testing.assert_allclose(steady.gram(X3), ks.Matern52().gram(X3), rtol=1e-13)


def test_brownian_bridge_is_a_wiener_process_that_comes_back():
    x, end = RNG.uniform(0, 1, (8, 1)), np.array([[1.0]])
    wiener = ks.Wiener()
    to_end = wiener.cross(x, end)
    conditioned = wiener.gram(x) - to_end @ np.linalg.solve(wiener.gram(end), to_end.T)
    np.testing.assert_allclose(BrownianBridge().gram(x), conditioned, atol=1e-15)
    np.testing.assert_array_equal(BrownianBridge().diag(np.array([[0.0], [1.0]])), 0.0)


def test_fractional_brownian_motion_of_one_half_is_a_wiener_process():
    x = RNG.uniform(0, 3, (8, 1))
    np.testing.assert_allclose(FractionalBrownian(0.5).gram(x), ks.Wiener().gram(x), atol=1e-14)
    for hurst in (0.2, 0.8):
        K = FractionalBrownian(hurst).gram(X3)
        variance = np.add.outer(np.diagonal(K), np.diagonal(K)) - 2 * K  # of increments
        np.testing.assert_allclose(variance, ref.distance(X3, X3, 1.0) ** (2 * hurst), atol=1e-13)


def test_exchangeable_and_hamming_are_the_same_on_one_column():
    codes = np.arange(5.0)[:, None]
    np.testing.assert_allclose(Hamming(2.0).gram(codes), Exchangeable(np.exp(-0.5)).gram(codes), rtol=1e-14)
    lowest = Exchangeable(ks.fixed(-0.25), levels=5)
    values = np.linalg.eigvalsh(lowest.gram(codes))
    assert abs(values[0]) < 1e-14  # at the end of the valid range: effects that add up to zero
    np.testing.assert_allclose(values[1:], 1.25, rtol=1e-13)
    many = RNG.integers(0, 3, (9, 20)).astype(float)
    np.testing.assert_allclose(Hamming(4.0).gram(many), own.hamming(many, many, 4.0), rtol=1e-13)


def test_categories_reach_every_correlation_of_low_rank():
    codes = np.arange(3.0)[:, None]
    far = Categories(3, rank=2, factor=1e8 * np.array([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]))
    np.testing.assert_allclose(far.gram(codes), [[1, 0.6, -1], [0.6, 1, -0.6], [-1, -0.6, 1]], atol=1e-12)
    np.testing.assert_allclose(Categories(3, factor=0.0).gram(codes), np.eye(3))
    start = Categories(4, rank=3)
    assert start.factor.shape == (4, 3)
    assert (np.abs(start.factor).max(0) > 0.5).all()  # no column from where nothing is learned
    np.testing.assert_allclose(Categories(4).gram(np.arange(4.0)[:, None]), 0.5 + 0.5 * np.eye(4), rtol=1e-14)


def test_great_circle_distance_is_exact_everywhere():
    def distance(a, b):
        return -np.log(GreatCircle()(a, b))

    np.testing.assert_allclose(distance([90.0, 12.0], [-90.0, -77.0]), np.pi, rtol=1e-15)
    np.testing.assert_allclose(distance([33.0, 20.0], [-33.0, -160.0]), np.pi, rtol=1e-15)
    np.testing.assert_allclose(
        distance([33.0, 20.0], [-33.0, -160.0 + 1e-6]), np.pi - np.deg2rad(1e-6) * np.cos(np.deg2rad(33)), rtol=1e-14
    )
    np.testing.assert_allclose(distance([90.0, 0.0], [90.0, 123.0]), 0.0, atol=1e-15)
    np.testing.assert_allclose(distance([0.0, 179.5], [0.0, -179.5]), np.deg2rad(1.0), rtol=1e-12)
    near = 1 - GreatCircle(1e-9)([51.0, 7.0], [51.0, 7.0 + 1e-9])
    np.testing.assert_allclose(-np.log1p(-near), 1e9 * np.deg2rad(1e-9) * np.cos(np.deg2rad(51)), rtol=2e-6)
    X = np.round(places(20) * 1024) / 1024  # so that whole turns can be added without rounding
    turn = np.array([0.0, 360.0])
    for kernel in (GreatCircle(0.5), GreatCircle(2.0, family="wendland"), SinePower(0.3), OnSphere(ks.Matern32(0.4))):
        np.testing.assert_allclose(kernel.cross(X + turn, X - 2 * turn), kernel.gram(X), rtol=1e-13)


def test_kernels_of_great_circle_distance_are_valid_where_smooth_ones_are_not():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.rad2deg(np.arcsin(rng.uniform(-1, 1, 150))), rng.uniform(-180, 180, 150)])
    for kernel in (GreatCircle(0.3), GreatCircle(20.0), GreatCircle(np.pi, family="wendland"), SinePower(0.9), SinePower(0.1)):
        assert np.linalg.eigvalsh(kernel.gram(X)).min() > -1e-12
    smooth = np.exp(-(own.great_circle(X, X) ** 2) / 2)  # a squared exponential of the arc
    assert np.linalg.eigvalsh(smooth).min() < -1e-3
    assert np.linalg.eigvalsh(OnSphere(ks.SquaredExponential()).gram(X)).min() > -1e-12  # of the chord


def test_wendland_on_the_sphere_has_the_slopes_of_its_series_at_equal_places():
    kernel, at = GreatCircle(2.0, family="wendland"), np.array([40.0, 10.0])
    with jax.enable_x64(True):

        def k(x, z):
            return kernel.block(Inputs(x[None]), Inputs(z[None]))[0, 0]

        second = np.asarray(jax.jit(jax.jacobian(jax.grad(k), argnums=1))(at, at))  # cov(f', f') of k = 1 - 10 (θ/ℓ)² + …
    metric = np.diag([1.0, np.cos(np.deg2rad(40.0)) ** 2]) * np.deg2rad(1.0) ** 2
    np.testing.assert_allclose(second, 20 / 4.0 * metric, rtol=1e-10, atol=1e-16)


def no_rows(x):
    return x[:2]


REFUSED = {
    "terms": (TanhNetwork(terms=0), X1, "terms is 0"),
    "order": (ArcCosine(3), X1, "order is 3"),
    "bridge": (BrownianBridge(), np.array([[0.5], [1.5]]), "X is 1.5 at row 1"),
    "hurst": (FractionalBrownian(1.0), X1, "hurst is 1.0"),
    "beta": (VaryingLengthscale(GaussianField([0.0, 1.0], beta=[1.0, 2.0, 3.0])), X1, r"beta has shape \(3,\) for 2 centres"),
    "centres": (VaryingLengthscale(GaussianField([0.0, 1.0])), X3, r"centres has shape \(2, 1\) but X has 3 columns"),
    "width": (VaryingLengthscale(GaussianField([0.0], width=-1.0)), X1, "width is -1.0"),
    "field": (VaryingLengthscale(FunctionField(lambda x: x[:, 0])), X1, "the field is -.* at row 0"),
    "field-shape": (VaryingLengthscale(FunctionField(no_rows)), X1, r"the field returns shape \(2, 1\)"),
    "matrices": (VaryingLengthscale(FunctionField(lambda x: x[:, :, None] ** 2)), X1, "the field returns 1 by 1 matrices"),
    "amplitude": (
        VaryingAmplitude(ks.Matern52(), GaussianField([0.0], beta=[[0.1]])),
        X1,
        r"the field has shape \(9, 1\)",
    ),
    "ard": (PaciorekSchervish(ks.Matern52([1.0, 2.0, 3.0]), GaussianField([[0.0] * 3])), X3, "Matern52 is not isotropic"),
    "linear": (PaciorekSchervish(ks.Linear(), GaussianField([0.0])), X1, "Linear is not isotropic"),
    "column": (ChangePoint(ks.Matern12(), ks.Matern12(), column=1), X1, "column is 1 but X has 1 column"),
    "warp": (Warped(ks.Matern52(), centres=[0.0, 1.0], beta=[1.0]), X1, r"beta has shape \(1,\) for 2 centres"),
    "map": (Mapped(ks.Matern52(), no_rows), X1, r"the map returns shape \(2, 1\) for 9 rows"),
    "group": (
        Invariant(ks.Matern52(), group=[np.eye(2), [[0.0, -1.0], [1.0, 0.0]]]),
        X3[:, :2],
        "the product of the matrices 1 and 1 is not in the group",
    ),
    "inverse": (
        Invariant(ks.Matern52(), group=[np.eye(2), [[0.0, -1.0], [1.0, 0.0]]], form="printed"),
        X3[:, :2],
        "the inverse of matrix 1 is not in the group",
    ),
    "group-size": (Invariant(ks.Matern52(), group=[np.eye(2)]), X3, "the matrices are 2 by 2 but X has 3 columns"),
    "form": (Invariant(ks.Matern52(), group=[np.eye(3)], form="x"), X3, "form is 'x'"),
    "basis": (BasisFunctions(no_rows), X1, r"the function returns shape \(2, 1\) for 9 rows"),
    "weight": (GaussianBasis([0.0, 1.0], weight=[1.0, 2.0, 3.0]), X1, r"weight has shape \(3,\) for 2 functions"),
    "orders": (Additive(ks.Matern52(), orders=4), X3, "orders are .* but X has 3 columns"),
    "per-column": (Additive(ks.Matern52([1.0, 2.0]), orders=2), X3, "an array that is not one per column"),
    "no-variance": (Normalised(ks.Linear()), np.zeros((2, 1)), "the variance is 0.0 at row 0"),
    "codes": (Hamming(), np.array([[0.5]]), "X is 0.5 at row 0, column 0; give the codes 0, 1, 2"),
    "levels": (Categories(3), np.array([[0.0], [3.0]]), "X is 3.0 at row 1, column 0; give the codes 0 to 2"),
    "factor": (Categories(3, factor=[[1.0], [2.0]]), np.array([[0.0]]), r"factor has shape \(2, 1\)"),
    "rank": (Categories(3, rank=4), np.array([[0.0]]), "rank is 4"),
    "correlation": (
        Exchangeable(ks.fixed(-0.6), levels=3),
        np.array([[0.0]]),
        "correlation is -0.6; give one number from -0.5",
    ),
    "learned": (Exchangeable(-0.1, levels=3), np.array([[0.0]]), "correlation is -0.1"),
    "latitude": (GreatCircle(), np.array([[120.0, 10.0]]), "the latitude is 120.0 at row 0"),
    "places": (OnSphere(ks.Matern52()), X3, "X has 3 columns; give latitude and longitude"),
    "family": (GreatCircle(family="gaussian"), np.array([[0.0, 0.0]]), "family is 'gaussian'"),
    "wendland": (GreatCircle(4.0, family="wendland"), np.array([[0.0, 0.0]]), "beyond which this family is not valid"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_kernels_refuse_what_does_not_fit_with_a_sentence(name: str):
    kernel, X, sentence = REFUSED[name]
    with pytest.raises(CovaryError, match=sentence):
        kernel.gram(X)
