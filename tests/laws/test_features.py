"""Random features: unbiased, exact on the diagonal and for kernels with finitely many features, and convergent."""

from __future__ import annotations

import pickle
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from covary import GP, Data, Model, condition
from covary import kernels as ks
from covary._checks import CovaryError
from covary.kernels.features import random_features, waves
from covary.likelihoods import Gaussian
from laws.tables import EVERY_KERNEL, KernelRow


def of(kernel: ks.AbstractKernel):
    """Return the reference of a combination of kernels, each of which has a row in the table."""
    return lambda X, Z: kernel.cross(X, Z)


def more(name: str, columns: int, kernel: ks.AbstractKernel) -> KernelRow:
    return KernelRow(name, columns, kernel, of(kernel))


SE, M32, COS = ks.SquaredExponential(lengthscale=0.9), ks.Matern32(lengthscale=1.1), ks.Cosine(period=2.2)
MORE = (
    more("sum-in-product", 2, 1.3 * (SE + 0.5 * M32) * ks.Periodic(period=1.9).on(0)),
    more("linear-in-product", 2, (0.4 * SE + ks.Linear(lengthscale=1.7).on(1)) * M32),
    more("power-of-sum", 1, (0.7 * SE + 0.2 * COS) ** 2),
    more("columns-in-columns", 3, (SE.on(1) * ks.Matern12().on(0)).on(0, 2) + ks.RationalQuadratic(alpha=0.4).on(2, 1)),
    more("one-column-twice", 1, SE.on(0, 0)),
    more("rough-product", 2, ks.Matern12() * ks.Matern12(lengthscale=[0.5, 2.0])),
)
FINITE = (
    more("cosines", 2, (COS + 0.5 * ks.Constant()) * ks.Cosine(period=[1.1, 3.0])),
    more("power-of-linear", 2, (2.0 * ks.Linear()) ** 2),
    more("linear-times-polynomial", 2, 0.3 * ks.Linear().on(1) * ks.Polynomial(2, bias=0.4)),
    more("power-of-cosine", 1, COS**3),
    more("linear-plus-constant", 2, ks.Linear() + 3.0),
    more("growing-seasons", 2, ks.Linear().on(0) * ks.Periodic(lengthscale=0.8, period=1.2).on(1)),
    more("narrow-periodic", 1, ks.Periodic(lengthscale=0.05, period=1.2)),
    more("linear-of-one-column-twice", 1, ks.Linear().on(0, 0)),
)


SERIES = (("Periodic", 1), ("Spectral", 1), ("Periodised", 1))
SPECTRA = ("Matern", "MaternHalfInteger", "GammaExponential", "SquaredExponentialMixture", "SpectralMixture", "Bessel")
SPECTRA += ("Spectral", "Periodised", "FactorMetric")


def finite(row: KernelRow) -> bool:
    """Return whether the kernel has finitely many features (up to the tail of a Fourier series)."""
    name = row.name.removesuffix("-ard")
    return name in ("Constant", "Linear", "Polynomial-2", "Polynomial-3", "Cosine") or (name, row.columns) in SERIES


def refused(row: KernelRow) -> bool:
    """Return whether the kernel contains a part without a feature map."""
    if row.told is not None:
        return row.name.split("-")[0] not in SPECTRA
    return any(name in row.name for name in ("NeuralNetwork", "Wiener", "Function"))


EXACT = [pytest.param(r, id=r.id) for r in (*(r for r in EVERY_KERNEL if finite(r)), *FINITE)]
DRAWN = [pytest.param(r, id=r.id) for r in (*(r for r in EVERY_KERNEL if not finite(r) and not refused(r)), *MORE)]
REFUSED = [pytest.param(r, id=r.id) for r in EVERY_KERNEL if refused(r)]
ALONE = [p for p in DRAWN if p.values[0].stationary and not p.values[0].id.startswith(("Sum", "columns-in", "linear-in"))]


def estimates(row: KernelRow, count: int, keys: range) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return estimates of the gram from ``count`` features, one for each key; the gram; and the inputs."""
    X = row.inputs(8)
    out = []
    for key in keys:
        phi = random_features(row.kernel, row.columns, count, key=key)(X)
        out.append(phi @ phi.T)
    return np.array(out), row.reference(X, X), X


def rms(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(errors**2)))


@pytest.mark.parametrize("row", EXACT)
def test_finite_features_are_the_kernel(row: KernelRow):
    features = random_features(row.kernel, row.columns, 1000, key=0)
    X = row.inputs()
    phi = features(X)
    assert features.exact
    assert phi.shape == (12, features.count)
    K = row.reference(X, X)
    np.testing.assert_allclose(phi @ phi.T, K, atol=1e-10 * np.abs(K).max())


@pytest.mark.parametrize("row", DRAWN)
def test_features_are_unbiased(row: KernelRow):
    found, K, _ = estimates(row, 120, range(80))
    error = found.std(0, ddof=1) / np.sqrt(len(found))
    assert np.all(np.abs(found.mean(0) - K) <= 5 * error + 1e-10)


@pytest.mark.parametrize("row", DRAWN)
def test_the_diagonal_is_exact(row: KernelRow):
    features = random_features(row.kernel, row.columns, 60, key=3)
    X = row.inputs()
    phi = features(X)
    assert not features.exact
    assert phi.shape == (12, features.count)
    np.testing.assert_allclose((phi**2).sum(1), np.diagonal(row.reference(X, X)), rtol=1e-12)


@pytest.mark.parametrize("row", DRAWN)
def test_the_error_falls_like_one_over_the_root_of_the_number(row: KernelRow):
    (few, K, _), (many, _, _) = estimates(row, 50, range(48)), estimates(row, 800, range(48))
    assert rms(many - K) < 0.33 * rms(few - K)


@pytest.mark.parametrize("row", ALONE)
def test_the_error_is_about_that_of_independent_frequencies(row: KernelRow):
    """var cos ω·τ = (1 + k(2τ))/2 − k(τ)², from m frequencies; unequal powers: up to Σ p² = 9/5 m⁻¹."""
    found, K, X = estimates(row, 200, range(24))
    top = K[0, 0]
    plain = ((top**2 + top * row.reference(2 * X, 2 * X)) / 2 - K**2) / 100
    assert rms(found - K) < 1.1 * np.sqrt(1.8 * plain.mean())


def test_strata_make_the_error_in_one_column_small():
    """One frequency from each stratum: the error of m frequencies falls faster than 1/√m."""
    X = np.linspace(0, 3, 20)[:, None]
    phi = random_features(SE, 1, 400, key=0)(X)
    assert np.abs(phi @ phi.T - SE.gram(X)).max() < 0.01


def test_directions_come_at_right_angles():
    """Yu et al. (2016): within a block of as many frequencies as there are columns."""
    found = waves(SE, 4, 12, np.random.default_rng(0)).frequencies.reshape(3, 4, 4)
    for block in found:
        products = block @ block.T
        np.testing.assert_allclose(products, np.diag(np.diagonal(products)), atol=1e-12)


@pytest.mark.parametrize(("kernel", "freedom"), [(ks.Matern12(), 1), (ks.Matern32(), 3), (ks.Matern52(), 5)])
def test_matern_frequencies_are_students(kernel: ks.AbstractKernel, freedom: int):
    """R&W, eq. 4.15: |ω| has the tails of Student's t, and |ω|²/d in three columns has those of the F distribution."""
    from scipy import stats

    tails = np.array([0.75, 0.5, 0.1, 1e-3])
    for columns, law in ((1, stats.f(1, freedom)), (3, stats.f(3, freedom))):
        found = waves(kernel, columns, 4000, np.random.default_rng(1))
        square = (found.frequencies**2).sum(1) / columns
        beyond = [found.power[square > law.isf(tail)].sum() for tail in tails]
        np.testing.assert_allclose(beyond, tails, rtol=1e-3, atol=3e-4)
        assert square.max() > law.isf(1e-8)  # high frequencies are included, with little power


def test_periodic_powers_are_the_fourier_coefficients():
    """Powers of the harmonics, compared with the discrete Fourier transform of the kernel over one period."""
    kernel = ks.Periodic(lengthscale=0.7, period=3.0)
    found = waves(kernel, 1, 100, np.random.default_rng(0))
    values = kernel.cross(np.linspace(0, 3, 256, endpoint=False)[:, None], [[0.0]])[:, 0]
    coefficients = np.fft.rfft(values).real / 256 * np.where(np.arange(129) > 0, 2, 1)
    harmonics = np.round(found.frequencies[:, 0] * 3 / (2 * np.pi)).astype(int)
    np.testing.assert_allclose(found.power, coefficients[harmonics], atol=1e-14)


def test_a_linear_model_on_exact_features_is_the_process():
    """Weights N(0, I) on φ (R&W, eqs. 2.8, 2.9), compared with the process with the kernel φ·φ'."""
    rng = np.random.default_rng(5)
    kernel = 0.5 * ks.Polynomial(3, bias=0.6) + ks.Periodic(period=1.5).on(0)
    X, Xs, noise = rng.uniform(-1, 1, (40, 2)), rng.uniform(-1, 1, (9, 2)), 0.05
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=40)
    features = random_features(kernel, 2, 500, key=0)
    phi, new = features(X), features(Xs)
    A = phi.T @ phi / noise + np.eye(features.count)
    f = condition(Model(GP(kernel), likelihood=Gaussian(noise)), Data(X, y)).predict(Xs).f
    np.testing.assert_allclose(new @ np.linalg.solve(A, phi.T @ y) / noise, f.mean, atol=1e-8)
    np.testing.assert_allclose((new * np.linalg.solve(A, new.T).T).sum(1), f.variance, atol=1e-8)


def test_exact_terms_are_additional_and_the_others_share_the_count():
    features = random_features(2.0 * SE + COS + ks.Linear() + M32 + 1.0, 1, 100, key=0)
    assert [part.count for part in features.parts] == [50, 2, 1, 50, 1]
    assert features.count == 104


def test_features_depend_on_the_key_only():
    X = np.linspace(0, 1, 5)[:, None]
    one, same, other = (random_features(SE * M32, 1, 50, key=key)(X) for key in (4, np.random.default_rng(4), 5))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 0.01


def test_features_survive_pickle_and_single_precision_inputs():
    features = random_features(SE + ks.Linear(), 2, 50, key=4)
    X = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(features))(X), features(X))
    assert features(X.astype(np.float32)).dtype == np.float64


@pytest.mark.parametrize("row", REFUSED)
def test_kernels_without_a_feature_map_raise_an_error(row: KernelRow):
    known = ("Function", "IntegratedWiener", "Wiener", "NeuralNetwork")
    name = type(row.kernel).__name__ if row.told is not None else next(n for n in known if n in row.name)
    with pytest.raises(CovaryError, match=rf"random_features: {name}\(.*has no known feature map; use stationary"):
        random_features(2.0 * (SE + row.kernel), row.columns, 100, key=0)


def test_an_unregistered_user_defined_kernel_raises_an_error():
    class Own(ks.AbstractKernel):
        @property
        def traits(self) -> ks.Traits:
            return ks.Traits(stationary=True)

        def block(self, X: Any, Z: Any) -> Any:
            return jnp.ones((X.rows, Z.rows))

    with pytest.raises(CovaryError, match=r"random_features: Own\(\) has no known feature map"):
        random_features(SE * Own(), 1, 100, key=0)


def test_invalid_input_raises_an_error():
    with pytest.raises(CovaryError, match="random_features: columns is 0; give an integer, 1 or more"):
        random_features(SE, 0, 10, key=0)
    with pytest.raises(CovaryError, match=r"random_features: count is 1\.5; give an integer, 2 or more"):
        random_features(SE, 1, 1.5, key=0)  # type: ignore[arg-type]
    with pytest.raises(CovaryError, match="random_features: got str for the kernel"):
        random_features("Matern52()", 1, 10, key=0)  # type: ignore[arg-type]
    with pytest.raises(CovaryError, match="lengthscale has 2 entries but X has 3 columns"):
        random_features(ks.Matern52(lengthscale=[1.0, 2.0]), 3, 10, key=0)
    with pytest.raises(CovaryError, match="Features: X has 2 columns, expected 1"):
        random_features(SE, 1, 10, key=0)([[0.0, 1.0]])
    with pytest.raises(CovaryError, match="has 30,045,015 polynomial features; lower the degree"):
        random_features(ks.Polynomial(10), 20, 10, key=0)
    with pytest.raises(CovaryError, match="expands to more than 64 terms"):
        random_features((ks.Linear() + SE) ** 7, 1, 10, key=0)
