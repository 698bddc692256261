"""Tiles: any number of rows gives the dense matrix, and no number of rows triggers compilation."""

from __future__ import annotations

import numpy as np
import pytest

from covary import GP, Data, Model, log_evidence_and_grad
from covary.data import Inputs
from covary.kernels import Linear, Matern32, Periodic, SquaredExponential, bounded, fixed, host, tiles
from laws import reference as ref


@pytest.fixture(autouse=True)
def _compiled(monkeypatch):
    """The tiles themselves are tested here, also where the NumPy lane would take over."""
    monkeypatch.setattr(host, "ROWS", 0)
    monkeypatch.setattr(SquaredExponential, "host", False)


SIZES = [1, 5, 127, 128, 129, 700]
ELL, SCALE = np.array([0.8, 1.9]), 1.3
KERNEL = 1.7 * Matern32(ELL) + Linear(SCALE)


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 2))


def plain(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """The kernel of this file in NumPy."""
    return 1.7 * ref.matern(X, Z, 1.5, ELL) + ref.linear(X, Z, SCALE)


def slopes(X: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Its slopes over the variance (n, m), the two length-scales (n, m, 2) and the length-scale of the lines (n, m)."""
    t = np.sqrt(3) * ref.distance(X, Z, ELL)
    by_ell = 1.7 * 3 * np.exp(-t)[:, :, None] * ref.differences(X, Z) ** 2 / ELL**3
    return (1 + t) * np.exp(-t), by_ell, -2 * X @ Z.T / SCALE**3


def assert_pulled(bar, X: np.ndarray, Z: np.ndarray, W: np.ndarray) -> None:
    """The gradient of Σ W K is the one from the formulas."""
    by_variance, by_ell, by_scale = slopes(X, Z)
    size = np.abs(W).sum()
    np.testing.assert_allclose(bar.terms[0].variance, (W * by_variance).sum(), rtol=1e-10, atol=1e-12 * size)
    np.testing.assert_allclose(
        bar.terms[0].kernel.lengthscale, (W[:, :, None] * by_ell).sum((0, 1)), rtol=1e-10, atol=1e-12 * size
    )
    np.testing.assert_allclose(bar.terms[1].lengthscale, (W * by_scale).sum(), rtol=1e-10, atol=1e-12 * size)


@pytest.mark.parametrize("n", SIZES)
def test_gram_equals_the_plain_matrix(n: int):
    X = rows(n)
    K = KERNEL.gram(X)
    assert K.shape == (n, n)
    np.testing.assert_allclose(K, plain(X, X), rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(K, K.T)


def test_gram_of_the_large_tile_equals_the_plain_matrix():
    X = rows(1100)
    assert tiles.tile_size(1100) == tiles.LARGE > tiles.tile_size(1024) == tiles.MIDDLE > tiles.tile_size(512) == tiles.SMALL
    np.testing.assert_allclose(KERNEL.gram(X), plain(X, X), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("n", SIZES)
def test_gram_lower_leaves_what_it_does_not_own(n: int):
    X = rows(n)
    out = np.full((n, n), np.nan, order="F")
    assert tiles.gram_lower(KERNEL, Inputs(X), out) is out
    lower = np.tril_indices(n)
    np.testing.assert_allclose(out[lower], plain(X, X)[lower], rtol=1e-11, atol=1e-12)
    size = tiles.tile_size(n)
    assert np.isnan(out[:size, size:]).all()


@pytest.mark.parametrize("n", [1, 511, 512, 513, 700])
def test_mirror_copies_the_lower_triangle(n: int):
    K = np.asfortranarray(np.random.default_rng(n).normal(size=(n, n)))
    expected = np.tril(K) + np.tril(K, -1).T
    assert tiles.mirror(K) is K
    np.testing.assert_array_equal(K, expected)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("m", [1, 16, 17, 300])
def test_cross_equals_the_plain_matrix(n: int, m: int):
    X, Z = rows(n), rows(m, seed=1)
    K = KERNEL.cross(X, Z)
    assert K.shape == (n, m)
    np.testing.assert_allclose(K, plain(X, Z), rtol=1e-11, atol=1e-12)


def test_cross_with_few_columns_against_many_rows_takes_the_thin_tile(monkeypatch):
    shapes = set()
    monkeypatch.setattr(tiles, "_tile", lambda kernel, X, Z: shapes.add((X.rows, Z.rows)) or np.zeros((X.rows, Z.rows)))
    KERNEL.cross(rows(257), rows(16))
    assert shapes == {(tiles.THIN, tiles.WIDE)}
    shapes.clear()
    KERNEL.cross(rows(1500), rows(1))
    assert shapes == {(tiles.THIN, tiles.WIDE)}
    shapes.clear()
    KERNEL.cross(rows(257), rows(17))
    KERNEL.cross(rows(256), rows(16))
    assert shapes == {(tiles.SMALL, tiles.SMALL)}


@pytest.mark.parametrize("n", SIZES)
def test_diag_equals_the_plain_diagonal(n: int):
    X = rows(n)
    np.testing.assert_allclose(KERNEL.diag(X), 1.7 + (X**2).sum(1) / SCALE**2, rtol=1e-13)
    np.testing.assert_allclose((1.7 * Matern32(ELL)).diag(X), np.full(n, 1.7), rtol=1e-15)


@pytest.mark.parametrize("n", [1, 5, 256, 257, 700])
def test_pull_gram_equals_the_formulas(n: int):
    rng = np.random.default_rng(n)
    X, G = rows(n), rng.normal(size=(n, n))
    G = G + G.T
    left, right = rng.normal(size=(n, 1)), rng.normal(size=(n, 1))
    lower_only = np.where(np.tril(np.ones((n, n), bool)), G, np.nan)
    whole = -0.5 * G + 0.5 * (left @ right.T + right @ left.T)
    assert_pulled(tiles.pull_gram(KERNEL, Inputs(X), lower_only, -0.5, left, right), X, X, whole)
    assert_pulled(tiles.pull_gram(KERNEL, Inputs(X), None, 1.0, left, left), X, X, left @ left.T)


@pytest.mark.parametrize(("n", "m"), [(1, 5), (5, 257), (257, 3), (300, 300)])
def test_pull_cross_equals_the_formulas(n: int, m: int):
    X, Z, W = rows(n), rows(m, seed=1), np.random.default_rng(n).normal(size=(n, m))
    bar, x_bar = tiles.pull_cross(KERNEL, Inputs(X), Inputs(Z), W)
    assert_pulled(bar, X, Z, W)
    t = np.sqrt(3) * ref.distance(X, Z, ELL)
    by_x = -1.7 * 3 * np.exp(-t)[:, :, None] * ref.differences(X, Z) / ELL**2 + Z[None] / SCALE**2
    np.testing.assert_allclose(x_bar, (W[:, :, None] * by_x).sum(1), rtol=1e-9, atol=1e-11 * m)


@pytest.mark.parametrize("n", [1, 256, 257])
def test_pull_diag_equals_the_formulas(n: int):
    X, g = rows(n), np.random.default_rng(n).normal(size=n)
    bar = tiles.pull_diag(KERNEL, Inputs(X), g)
    np.testing.assert_allclose(bar.terms[0].variance, g.sum(), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(bar.terms[0].kernel.lengthscale, 0.0)
    np.testing.assert_allclose(bar.terms[1].lengthscale, (g * -2 * (X**2).sum(1)).sum() / SCALE**3, rtol=1e-11)


def evidence(n: int, kernel, seed: int = 0):
    X = rows(n, seed)
    return log_evidence_and_grad(Model(GP(kernel)), Data(X, np.sin(X[:, 0])))


def test_the_number_of_rows_is_not_compiled_for():
    kernel = SquaredExponential() * Periodic(period=3.0)
    kernel.gram(rows(90))
    evidence(90, kernel)
    before = dict(tiles.traces)
    assert before["tile"] >= 1
    assert before["pull"] >= 1
    for n in (90, 91, 500):
        kernel.gram(rows(n))
        evidence(n, kernel)
    assert tiles.traces == before


def test_values_marks_and_data_are_not_compiled_for():
    evidence(60, 2.0 * SquaredExponential(0.5))
    before = dict(tiles.traces)
    evidence(60, 3.0 * SquaredExponential(0.7))
    evidence(60, fixed(3.0) * SquaredExponential(0.7))
    evidence(60, 3.0 * SquaredExponential(bounded(0.7, 0.1, 1.0)))
    evidence(70, 3.0 * SquaredExponential(fixed(0.7)), seed=5)
    (3.0 * SquaredExponential(fixed(0.2))).gram(rows(33, seed=6))
    assert tiles.traces == before


def test_another_structure_is_compiled_for():
    before = dict(tiles.traces)
    (SquaredExponential().on(0) * SquaredExponential().on(1) * SquaredExponential().on(1)).gram(rows(5))
    assert tiles.traces["tile"] == before["tile"] + 1


@pytest.mark.parametrize("n", [5, 300])
def test_float32_inputs_give_float32_close_to_float64(n: int):
    X, Z = rows(n), rows(7, seed=1)
    single, other = X.astype(np.float32), Z.astype(np.float32)
    for given, expected in (
        (KERNEL.gram(single), plain(X, X)),
        (KERNEL.cross(single, other), plain(X, Z)),
        (KERNEL.diag(single), np.diagonal(plain(X, X))),
    ):
        assert given.dtype == np.float32
        np.testing.assert_allclose(given, expected, rtol=1e-5, atol=1e-5)
    assert KERNEL.gram(X).dtype == np.float64
    np.testing.assert_allclose(KERNEL.gram(X), plain(X, X), rtol=1e-11, atol=1e-12)


def test_whole_numbers_are_computed_in_float64():
    X = np.arange(6).reshape(3, 2)
    K = KERNEL.gram(X)
    assert K.dtype == np.float64
    np.testing.assert_allclose(K, plain(X.astype(float), X.astype(float)), rtol=1e-12)
