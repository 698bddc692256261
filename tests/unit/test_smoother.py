"""Gaussian-process regression as a linear smoother; the kernel smoother."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import integrate

from covary import GP, Data, Model, condition
from covary._checks import CovaryError
from covary.gram import Dense, LowRank, Markov
from covary.inference import EP, Laplace
from covary.kernels import Matern12, Matern32, Matern52, SquaredExponential, fixed
from covary.likelihoods import Bernoulli, Gaussian
from covary.means import Constant, LinearBasis
from covary.posterior.smoother import (
    NadarayaWatson,
    effective_degrees_of_freedom,
    equivalent_kernel,
    shrinkage,
    smoother_matrix,
    weight_function,
)
from covary.selection.left_out import GeneralisedCrossValidation, LeaveOneOut

RNG = np.random.default_rng(20)
N = 28
X = RNG.uniform(0, 3, size=(N, 2))
XS = RNG.uniform(0, 3, size=(6, 2))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.normal(size=N)
KERNEL = 1.3 * Matern52(lengthscale=[0.9, 1.7])
MODELS = {
    "plain": Model(GP(KERNEL), likelihood=Gaussian(0.05)),
    "mean": Model(GP(KERNEL, mean=Constant(0.4)), likelihood=Gaussian(0.05)),
    "basis": Model(GP(KERNEL, mean=Constant(0.4), basis=LinearBasis()), likelihood=Gaussian(0.05)),
    "noise-free": Model(GP(1.0 * Matern32()), likelihood=Gaussian(fixed(0.0))),
}
DATA = {"plain": Data(X, Y), "known noise": Data(X, Y, RNG.uniform(0.01, 0.3, N), RNG.uniform(0.5, 2.0, N))}
BOTH = [(m, d) for m in MODELS for d in DATA if not (m == "noise-free" and d == "known noise")]


@pytest.mark.parametrize(("m", "d"), BOTH)
def test_the_smoother_gives_the_mean_whatever_was_seen(m: str, d: str) -> None:
    """R&W, eq. 2.35, T11: H y and h(x)ᵀy are the posterior mean, also of other observations."""
    model, data = MODELS[m], DATA[d]
    post = condition(model, data)
    H, h = smoother_matrix(post), weight_function(post, XS)
    np.testing.assert_allclose(weight_function(post, X), H, atol=1e-8)
    for y in (Y, RNG.normal(size=N)):
        other = condition(model, Data(X, y, data.noise_variance, data.weight))
        base = 0.4 if m in ("mean", "basis") else 0.0
        np.testing.assert_allclose(base + H @ (y - base), other.mean(X), atol=1e-8)
        np.testing.assert_allclose(base + h @ (y - base), other.mean(XS), atol=1e-8)


def test_the_smoother_is_its_formula() -> None:
    K, s = KERNEL.gram(X), 0.05
    values, vectors = np.linalg.eigh(K)
    post = condition(MODELS["plain"], DATA["plain"])
    H = K @ np.linalg.inv(K + s * np.eye(N))
    np.testing.assert_allclose(smoother_matrix(post), H, atol=1e-10)
    np.testing.assert_allclose(weight_function(post, XS), np.linalg.solve(K + s * np.eye(N), KERNEL.cross(X, XS)).T, atol=1e-10)
    found = shrinkage(post)  # eq. 2.36
    np.testing.assert_allclose(found.factors, (values / (values + s))[::-1], atol=1e-10)
    np.testing.assert_allclose(np.abs(found.coefficients), np.abs(vectors.T @ Y)[::-1], atol=1e-7)
    assert effective_degrees_of_freedom(post) == pytest.approx((values / (values + s)).sum(), rel=1e-10)


@pytest.mark.parametrize(("m", "d"), BOTH)
def test_directions_put_the_fit_together(m: str, d: str) -> None:
    post = condition(MODELS[m], DATA[d])
    found = shrinkage(post)
    fit = found.directions @ (found.factors * found.coefficients)
    np.testing.assert_allclose(fit, smoother_matrix(post) @ post.solved.shift, atol=1e-8)
    assert ((found.factors >= 0) & (found.factors <= 1)).all()
    assert (np.diff(found.factors) <= 1e-12).all()
    assert found.factors.sum() == pytest.approx(effective_degrees_of_freedom(post), abs=1e-8)
    assert effective_degrees_of_freedom(post) == pytest.approx(np.trace(smoother_matrix(post)), abs=1e-8)
    if m == "basis":
        np.testing.assert_allclose(found.factors[:3], 1.0, atol=1e-8)


def test_degrees_of_freedom_run_from_none_to_all() -> None:
    """T10: between 0 and n, → n as the noise goes, at least the number of vague basis functions."""
    previous = float(N)
    for noise in (1e-10, 1e-4, 1e-2, 1.0, 1e2, 1e6):
        found = effective_degrees_of_freedom(condition(Model(GP(KERNEL), likelihood=Gaussian(noise)), DATA["plain"]))
        assert 0 < found <= previous
        previous = found
        if noise == 1e-10:
            assert found == pytest.approx(N, abs=1e-6)
    assert previous < 1e-3
    vague = Model(GP(KERNEL, basis=LinearBasis()), likelihood=Gaussian(1e6))
    assert effective_degrees_of_freedom(condition(vague, DATA["plain"])) == pytest.approx(3.0, abs=1e-3)
    line = Data(X[:, :1], Y)
    one = Model(GP(1.3 * Matern32()), likelihood=Gaussian(0.05))
    dense, markov = (effective_degrees_of_freedom(condition(one, line, gram=gram)) for gram in (Dense(), Markov()))
    assert markov == pytest.approx(dense, rel=1e-8)


@pytest.mark.parametrize(("m", "d"), [b for b in BOTH if b[0] != "noise-free"])
def test_leverages_give_rows_left_out(m: str, d: str) -> None:
    """y_i − μ_i = (y_i − f̂_i)/(1 − H_ii), against conditioning again; GCV has the mean leverage in their place."""
    model, data = MODELS[m], DATA[d]
    post = condition(model, data)
    H = smoother_matrix(post)
    error = (Y - post.mean(X)) / (1 - np.diag(H))
    for i in range(N):
        rest = np.arange(N) != i
        assert Y[i] - condition(model, data.take(rest)).mean(X[[i]])[0] == pytest.approx(error[i], abs=1e-8)
    if d == "plain":
        assert LeaveOneOut("squared error").error(model, data) == pytest.approx((error**2).mean(), rel=1e-9)
        gcv = ((Y - post.mean(X)) ** 2).mean() / (1 - np.trace(H) / N) ** 2
        assert GeneralisedCrossValidation().error(model, data) == pytest.approx(gcv, rel=1e-9)


def test_two_outputs_share_the_smoother() -> None:
    post = condition(MODELS["plain"], Data(X, np.column_stack([Y, Y**2])))
    np.testing.assert_allclose(smoother_matrix(post) @ np.column_stack([Y, Y**2]), post.mean(X), atol=1e-9)
    found = shrinkage(post)
    np.testing.assert_allclose(found.directions @ (found.factors[:, None] * found.coefficients), post.mean(X), atol=1e-9)


# figure 2.6 -----------------------------------------------------------------------------------------------------

ELL = 0.0632
SE = SquaredExponential(lengthscale=ELL)


def test_weight_functions_of_figure_2_6() -> None:
    """E6: side lobes below zero; cut off by the edge; with much noise the kernel's own width, lower and without lobes."""
    x = np.sort(np.random.default_rng(3).uniform(size=50))[:, None]
    data = Data(x, np.zeros(50))
    little, much = (condition(Model(GP(SE), likelihood=Gaussian(v)), data) for v in (0.1, 10.0))
    a, b = weight_function(little, [[0.5], [0.05]])
    c = weight_function(much, [[0.5]])[0]
    assert a.min() < -0.05 * a.max()
    assert np.abs(x[a.argmax(), 0] - 0.5) < 0.05
    assert x[b.argmax(), 0] < 0.12
    assert c.max() < 0.3 * a.max()
    assert c.min() > -0.05 * c.max()
    assert abs(c).sum() < abs(a).sum()


@pytest.mark.parametrize(("n", "height"), [(10, 11.1508), (50, 14.5012), (250, 17.1867)])
def test_equivalent_kernels_of_figure_2_6(n: int, height: float) -> None:
    """The height on the infinite line is ∫ S/(S + σ²/n) ds; three unit intervals are as good."""
    grid = np.linspace(-1.0, 2.0, 901)
    h = 3 * n * equivalent_kernel(SE, 0.1, grid[:, None], 3 * n)[450] / 3
    assert grid[450] == pytest.approx(0.5)
    spectrum = lambda s: (2 * np.pi) ** 0.5 * ELL * np.exp(-2 * (np.pi * ELL * s) ** 2)  # noqa: E731
    wiener = lambda s: spectrum(s) / (spectrum(s) + 0.1 / n)  # noqa: E731
    exact = 2 * integrate.quad(wiener, 0, 40, limit=400)[0]
    assert exact == pytest.approx(height, abs=1e-3)  # eqs. 7.9, 7.11
    assert h[450] == pytest.approx(height, rel=5e-3)
    assert h.sum() * (grid[1] - grid[0]) == pytest.approx(wiener(0.0), rel=1e-2)


def test_more_data_make_equivalent_kernels_narrower() -> None:
    grid = np.linspace(0, 1, 301)[:, None]
    few, many = (n * equivalent_kernel(SE, 0.1, grid, n)[150] for n in (10, 250))
    width = [np.flatnonzero(h[150:] < h[150] / 2)[0] for h in (few, many)]
    assert width[1] < width[0]


def test_refining_the_grid_changes_nothing() -> None:
    """T12: the rows of g and of 2g points agree, on the scale of the n observations."""
    coarse = (np.arange(200) + 0.5)[:, None] / 200
    fine = (np.arange(600) + 0.5)[:, None] / 600
    a = equivalent_kernel("Matern52(lengthscale=0.2)", 0.1, coarse, 40)
    b = equivalent_kernel("Matern52(lengthscale=0.2)", 0.1, fine, 40)[1::3, 1::3]
    assert np.abs(a - b).max() < 2e-3 * np.abs(a).max()


def test_exponential_kernel_has_a_closed_form() -> None:
    """R&W, eq. 7.10: h(r) = α/(vβ) e^(−β|r|), β² = α² + 2α/v, v = σ²/ρ."""
    alpha, noise, n, length = 2.0, 0.5, 80, 8.0
    v = noise * length / n
    beta = (alpha**2 + 2 * alpha / v) ** 0.5
    grid = np.linspace(-4, 4, 1601)
    h = n / length * equivalent_kernel(Matern12(lengthscale=1 / alpha), noise, grid[:, None], n)[800]
    near = np.abs(grid) < 2
    np.testing.assert_allclose(h[near], alpha / (v * beta) * np.exp(-beta * np.abs(grid[near])), atol=6e-3 * h.max())


def test_weight_function_of_even_points_is_the_equivalent_kernel() -> None:
    """R&W, exercise 7.7.3: n + 1 points on (−½, ½)."""
    n = 100
    x = np.linspace(-0.5, 0.5, n + 1)[:, None]
    kernel = SquaredExponential(lengthscale=0.1)
    h = weight_function(condition(Model(GP(kernel), likelihood=Gaussian(0.1)), Data(x, np.zeros(n + 1))), [[0.0]])[0]
    fine = (np.arange(909) + 0.5)[:, None] / 909 - 0.5
    equal = equivalent_kernel(kernel, 0.1, fine, n + 1)[454]
    assert np.abs(h - equal[4::9]).max() < 0.02 * h.max()


# the kernel smoother --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "kappa"),
    [
        ("SquaredExponential(lengthscale=0.4)", lambda r: np.exp(-0.5 * r**2 / 0.16)),
        (Matern12(lengthscale=0.4), lambda r: np.exp(-r / 0.4)),
        (lambda r: np.maximum(1 - r**2, 0), lambda r: np.maximum(1 - (r / 0.9) ** 2, 0)),
    ],
    ids=["text", "kernel", "Epanechnikov"],
)
def test_kernel_smoother_is_a_loop(kernel: Any, kappa: Any) -> None:
    """R&W, section 2.6."""
    for y in (Y, np.column_stack([Y > 0.5, Y <= 0.5]).astype(float)):
        smooth = NadarayaWatson(kernel, lengthscale=0.9).fit(X, y)
        found = smooth.predict(XS)
        for i, x in enumerate(XS):
            k = kappa(np.sqrt(((X - x) ** 2).sum(1)))
            np.testing.assert_allclose(found[i], (k @ y) / k.sum(), rtol=1e-8)
        w = smooth.weights(XS)
        np.testing.assert_allclose(w.sum(1), 1.0)
        np.testing.assert_allclose(smooth.predict(np.repeat(XS, 3, axis=0)), np.repeat(found, 3, axis=0))


def test_kernel_smoother_far_away_takes_the_nearest_row() -> None:
    smooth = NadarayaWatson(SquaredExponential(lengthscale=0.01)).fit([[0.0], [1.0]], [3.0, 5.0])
    np.testing.assert_allclose(smooth.predict([[40.0], [-40.0], [0.01]]), [5.0, 3.0, 3.0])
    wide = NadarayaWatson(lambda r: r < 1, lengthscale=[1.0, 100.0]).fit([[0.0, 0.0], [3.0, 0.0]], [1.0, 2.0])
    np.testing.assert_allclose(wide.predict([[0.0, 50.0], [3.0, 50.0]]), [1.0, 2.0])


def test_kernel_smoother_is_consistent_on_a_schedule() -> None:
    """ℓ → 0 and nℓ → ∞: the error falls."""
    rng, errors = np.random.default_rng(0), []
    z = np.linspace(0.2, 0.8, 50)[:, None]
    for n in (100, 1000, 10_000):
        x = rng.uniform(size=(n, 1))
        y = np.sin(6 * x[:, 0]) + 0.3 * rng.normal(size=n)
        fit = NadarayaWatson(lambda r: r < 1, lengthscale=0.5 * n**-0.2).fit(x, y).predict(z)
        errors.append(np.abs(fit - np.sin(6 * z[:, 0])).mean())
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < errors[0] / 3


# refusals -------------------------------------------------------------------------------------------------------


def test_what_cannot_be_done_is_said() -> None:
    with pytest.raises(CovaryError, match="got Model; give a posterior"):
        smoother_matrix(MODELS["plain"])  # type: ignore[arg-type]
    labels = condition(Model(GP(KERNEL), likelihood=Bernoulli()), Data(X, np.sign(Y)), inference=EP())
    for function in (smoother_matrix, effective_degrees_of_freedom, shrinkage):
        with pytest.raises(CovaryError, match="the mean is not linear in y"):
            function(labels)
    sites = condition(MODELS["plain"], DATA["plain"], inference=Laplace())
    with pytest.raises(CovaryError, match=r"use Gaussian noise with inference=Exact\(\)"):
        weight_function(sites, XS)
    low = condition(MODELS["plain"], DATA["plain"], gram=LowRank(10))
    with pytest.raises(CovaryError, match=r"gram=LowRank; condition with gram=Dense\(\)"):
        effective_degrees_of_freedom(low)
    mixed = condition(MODELS["noise-free"], Data(X, Y, np.linspace(0, 1, N)))
    with pytest.raises(CovaryError, match="some rows are noise-free and others not"):
        shrinkage(mixed)
    with pytest.raises(CovaryError, match="noise is 0"):
        equivalent_kernel(SE, 0.0, X, 10)
    with pytest.raises(CovaryError, match="kernel is 3; give a kernel"):
        equivalent_kernel(3, 0.1, X, 10)
    with pytest.raises(CovaryError, match=r"it has not been fitted; call fit\(X, y\) first"):
        NadarayaWatson().predict(X)
    with pytest.raises(CovaryError, match="X has 1 column but 2 were fitted"):
        NadarayaWatson().fit(X, Y).predict(X[:, :1])
    with pytest.raises(CovaryError, match="kernel is 3; give a kernel, its text, or a function"):
        NadarayaWatson(3).fit(X, Y)  # type: ignore[arg-type]
    with pytest.raises(CovaryError, match="lengthscale has shape"):
        NadarayaWatson(lambda r: r, lengthscale=[1.0, 1.0, 1.0]).fit(X, Y)
    with pytest.raises(CovaryError, match="give one row of y per row of X"):
        NadarayaWatson().fit(X, np.zeros((3, 2)))
