"""Squared distances: exact near zero in both forms, with finite derivatives there."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from covary.data import Inputs
from covary.kernels import Matern12, Matern52, RationalQuadratic, tiles
from covary.kernels.distance import DIRECT_COLUMNS, scaled_square, square_distance

COLUMNS = [3, DIRECT_COLUMNS + 1]
OFFSET, SIZE, NEAR = 1e6, 1e3, 1e-9


def direct(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Sums of squared differences of the stored numbers."""
    return ((A[:, None, :] - B[None, :, :]) ** 2).sum(2)


_squares, _scaled = jax.jit(square_distance), jax.jit(scaled_square)


def plain(A: Any, B: Any) -> Any:
    """Distances with unit weights."""
    return square_distance(A, B, jnp.ones(A.shape[1], A.dtype))


def squares(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """What square_distance gives, in the precision of the rows."""
    with jax.enable_x64(A.dtype == np.float64):
        return np.asarray(_squares(A, B, np.ones(A.shape[1], A.dtype)))


def scaled(x: np.ndarray, lengthscale: Any) -> np.ndarray:
    """What scaled_square gives between the rows of one table, in 64 bits."""
    with jax.enable_x64(True):
        return np.asarray(_scaled(x, x, lengthscale))


def rows_with_near_duplicates(columns: int, n: int = 30) -> np.ndarray:
    """Coordinates of size 1e3 round 1e6; row 1 almost equals row 0, row 3 equals row 2."""
    rng = np.random.default_rng(columns)
    x = OFFSET + SIZE * rng.normal(size=(n, columns))
    x[1] = x[0] + NEAR
    x[3] = x[2]
    return x


@pytest.mark.parametrize("columns", COLUMNS)
def test_far_rows_agree_with_direct_differences(columns: int):
    rng = np.random.default_rng(1)
    A, B = rng.normal(size=(20, columns)), rng.normal(size=(15, columns))
    S = squares(A, B)
    assert S.shape == (20, 15)
    np.testing.assert_allclose(S, direct(A, B), rtol=1e-13)


@pytest.mark.parametrize("columns", COLUMNS)
def test_near_duplicates_are_as_exact_as_direct_differences(columns: int):
    x = rows_with_near_duplicates(columns)
    S = scaled(x, 1.0)
    expected = direct(x, x)
    true = sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(x[0], x[1], strict=True))
    assert 0 < float(true) < columns * (2 * NEAR) ** 2
    np.testing.assert_allclose(S[0, 1], float(true), rtol=1e-12)
    np.testing.assert_allclose(S, expected, rtol=1e-12)
    assert S[2, 3] == 0
    assert (np.diagonal(S) == 0).all()


@pytest.mark.parametrize("columns", COLUMNS)
def test_near_duplicates_with_a_lengthscale_are_exact_to_the_rounding_of_the_scaled_inputs(columns: int):
    x = rows_with_near_duplicates(columns)
    lengthscale = np.exp(np.random.default_rng(2).normal(size=columns))
    r = np.sqrt(scaled(x, lengthscale))
    expected = np.sqrt((((x[:, None, :] - x[None, :, :]) / lengthscale) ** 2).sum(2))
    rounding = np.finfo(float).eps * np.abs((x - x.mean(0)) / lengthscale).max() * columns
    np.testing.assert_allclose(r, expected, rtol=1e-12, atol=rounding)
    assert r[2, 3] == 0


@pytest.mark.parametrize("columns", [DIRECT_COLUMNS + 1, 40])
@pytest.mark.parametrize(("dtype", "digits"), [(np.float64, 1e-8), (np.float32, 2e-3)])
def test_the_product_form_keeps_half_the_digits_at_every_distance(columns: int, dtype: type, digits: float):
    rng = np.random.default_rng(3)
    for size in 10.0 ** np.arange(-8, 1):
        A, B = (rng.normal(size=(8, columns)).astype(dtype) for _ in range(2))
        B[5] = A[2] + dtype(size) * rng.normal(size=columns).astype(dtype)
        expected = direct(A.astype(float), B.astype(float))
        np.testing.assert_allclose(squares(A, B), expected, rtol=digits, err_msg=f"neighbours {size} apart")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_pair_of_equal_rows_among_far_ones_is_at_distance_zero(dtype: type):
    rng = np.random.default_rng(4)
    for _ in range(50):
        A, B = ((3 + rng.normal(size=(8, 20))).astype(dtype) for _ in range(2))
        B[5] = A[2]
        assert squares(A, B)[2, 5] == 0


@pytest.mark.parametrize("columns", COLUMNS)
def test_a_large_common_offset_does_not_matter(columns: int):
    x = np.round(np.random.default_rng(5).normal(size=(30, columns)) * 2**20) / 2**20  # so that adding 2^20 is exact
    shifted = x + 2.0**20
    lengthscale = 0.7
    here, there = scaled(x, lengthscale), scaled(shifted, lengthscale)
    np.testing.assert_allclose(there, here, rtol=1e-12)
    np.testing.assert_allclose(here, direct(x, x) / lengthscale**2, rtol=1e-12)


@partial(jax.jit, static_argnums=0)
def slopes(kernel: type, lengthscale: Any, x: Any) -> Any:
    """Slopes of the sum of the gram over the length-scales and over the inputs."""
    return jax.grad(lambda l, x: kernel(l).block(Inputs(x), Inputs(x)).sum(), argnums=(0, 1))(lengthscale, x)


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("kernel", [Matern12, Matern52, RationalQuadratic])
def test_slopes_are_finite_at_equal_and_nearly_equal_rows(columns: int, kernel: type):
    x = rows_with_near_duplicates(columns, 6)
    with jax.enable_x64(True):
        by_scale, by_x = slopes(kernel, np.full(columns, 3000.0), x)
        far_scale, _ = slopes(kernel, np.full(columns, 3000.0), np.delete(x, [1, 3], axis=0)[[0, 0, 1, 1, 2, 3]])
    assert np.isfinite(by_x).all()
    # the same rows with the near duplicates made equal: as good as the same slopes (the rough kernel divides by r)
    np.testing.assert_allclose(by_scale, far_scale, rtol=1e-2 if kernel is Matern12 else 1e-6)


@pytest.mark.parametrize("columns", [3, 20])
def test_slopes_equal_those_of_direct_differences(columns: int):
    rng = np.random.default_rng(6)
    A, B, W = rng.normal(size=(7, columns)), rng.normal(size=(5, columns)), rng.normal(size=(7, 5))
    B[0] = A[0]
    delta = A[:, None, :] - B[None, :, :]
    with jax.enable_x64(True):
        by_a, by_b = jax.jit(jax.grad(lambda a, b: (W * plain(a, b)).sum(), argnums=(0, 1)))(A, B)
        forward = jax.jit(lambda a, b: jax.jvp(plain, (a, b), (jnp.ones_like(a), jnp.zeros_like(b)))[1])(A, B)
    np.testing.assert_allclose(by_a, 2 * (W[:, :, None] * delta).sum(1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(by_b, -2 * (W[:, :, None] * delta).sum(0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(forward, 2 * delta.sum(2), rtol=1e-12, atol=1e-12)


def test_second_slopes_are_those_of_a_square():
    A, B = np.array([[0.3, 0.1]]), np.array([[0.3, 0.1]])
    with jax.enable_x64(True):
        hessian = jax.jit(jax.hessian(lambda a: plain(a, B)[0, 0]))(A).reshape(2, 2)
    np.testing.assert_allclose(hessian, 2 * np.eye(2), rtol=1e-14)


@pytest.mark.parametrize("ard", [False, True], ids=["scalar", "ard"])
@pytest.mark.parametrize("columns", [1, *COLUMNS])
def test_rough_gram_is_exactly_one_where_rows_are_equal(columns: int, ard: bool):
    rng = np.random.default_rng(7)
    x = OFFSET + SIZE * rng.normal(size=(40, columns))
    x[20:] = x[:20]
    K = Matern12(SIZE * (np.exp(0.5 * rng.normal(size=columns)) if ard else 1.3)).gram(x)
    same = np.arange(20)
    assert (np.diagonal(K) == 1).all()
    assert (K[same, same + 20] == 1).all()
    different = ~np.tile(np.eye(20, dtype=bool), (2, 2))
    assert K[different].max() < 1


@pytest.mark.parametrize("ard", [False, True], ids=["scalar", "ard"])
@pytest.mark.parametrize("columns", [1, 3])
def test_rough_slopes_are_exact_where_rows_are_equal(columns: int, ard: bool):
    rng = np.random.default_rng(8)
    x, W = rng.normal(size=(40, columns)), rng.normal(size=(40, 40))
    x[20:], W = x[:20], W + W.T
    lengthscale = np.exp(0.5 * rng.normal(size=columns)) if ard else np.array(0.7)
    slope = tiles.pull_gram(Matern12(lengthscale), Inputs(x), W).lengthscale
    delta = x[:, None, :] - x[None, :, :]
    r = np.sqrt(((delta / lengthscale) ** 2).sum(2))
    by_r = W * np.exp(-r) / np.where(r > 0, r, 1.0)
    expected = (by_r[:, :, None] * delta**2 / lengthscale**3).sum((0, 1))
    np.testing.assert_allclose(slope, expected if ard else expected.sum(), rtol=1e-10, atol=1e-10 * np.abs(expected).max())


def test_one_pair_of_equal_rows_in_different_tiles_is_exact_in_32_bits():
    rng = np.random.default_rng(9)
    for _ in range(20):
        x = (3 + rng.normal(size=(300, 20))).astype(np.float32)
        x[299] = x[1]
        assert Matern12().cross(x[:256], x[256:])[1, 43] == 1
