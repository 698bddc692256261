"""The NumPy implementation for small problems agrees with compiled tiles, in values and gradients."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from covary._module import without_marks
from covary._precision import cast, precision
from covary.data import Inputs
from covary.kernels import Linear, Matern12, Matern32, Matern52, Periodic, RationalQuadratic, SquaredExponential, host, tiles
from covary.parameters import parameters

RNG = np.random.default_rng(2)
ELL = np.array([0.7, 1.5, 30.0])
KERNELS = {
    "SE": SquaredExponential(lengthscale=ELL),
    "Matern32": Matern32(lengthscale=ELL),
    "Matern52": Matern52(lengthscale=ELL),
    "one length-scale": 2.5 * Matern52(lengthscale=0.9),
    "sum": 2.0 * Matern52(lengthscale=ELL) + SquaredExponential(lengthscale=0.4),
    "product": 3.0 * (Matern32(lengthscale=ELL) * Matern52(lengthscale=2.0) * SquaredExponential(lengthscale=1.1)),
    "columns": 0.3 * Matern52(lengthscale=[0.5, 2.0]).on(2, 0) + 1.5 * Matern32().on(1),
}
ROUGH = {"Matern12": Matern12(), "Periodic": Periodic(), "RQ": RationalQuadratic(), "Linear": Linear()}


def flat(module) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(p.value)) for p in parameters(module).values()])


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_blocks_and_slopes_agree(name: str, offset: float) -> None:
    kernel = cast(without_marks(KERNELS[name]), np.float64)
    assert kernel.host
    X, Z = Inputs(RNG.normal(size=(31, 3)) + offset), Inputs(RNG.normal(size=(17, 3)) + offset)
    Z.x[:4] = X.x[:4]  # equal rows
    Z.x[4] = X.x[4] + 1e-9  # and close ones
    G = RNG.normal(size=(31, 17))
    with precision(np.float64):
        block, pull = jax.vjp(lambda k: k.block(X, Z), kernel)
        expected = jax.tree_util.tree_map(np.asarray, pull(G)[0])
        block = np.asarray(block)
    bar, again = kernel.host_pull(X, Z, G.copy())
    np.testing.assert_allclose(kernel.host_block(X, Z), block, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(again, block, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(flat(bar), flat(expected), rtol=1e-8, atol=1e-8)
    assert jax.tree_util.tree_structure(bar) == jax.tree_util.tree_structure(expected)


@pytest.mark.parametrize("n", [1, 2, host.STEP, host.STEP + 1, 300])
def test_grams_and_their_gradients_agree_with_the_tiles(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, X = KERNELS["sum"], Inputs(RNG.normal(size=(n, 3)))
    G = np.asfortranarray(RNG.normal(size=(n, n)))
    G = G + G.T
    for i in range(n):
        G[i, i + 1 :] = np.nan  # only the lower triangle is read
    left, right = RNG.normal(size=(n, 2)), RNG.normal(size=(n, 2))
    new = Inputs(RNG.normal(size=(7, 3)))

    def everything() -> list[np.ndarray]:
        gram = np.tril(tiles.gram_lower(kernel, X))
        slopes = [
            flat(tiles.pull_gram(kernel, X, G, -0.5, left, right)),
            flat(tiles.pull_gram(kernel, X, None, 1.0, left, right)),
        ]
        return [gram, tiles.cross(kernel, X, new), tiles.diag(kernel, X), *slopes]

    here = everything()
    monkeypatch.setattr(host, "ROWS", 0)
    for mine, theirs in zip(here, everything(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)


def test_equal_rows_are_at_distance_zero_in_any_number_of_columns() -> None:
    for columns in (1, 5, 40):
        x = RNG.normal(size=(20, columns)) * 1e3 + 1e5
        s = host.square_distances(*host.centred(x, x), np.full(columns, 2.0))
        np.testing.assert_array_equal(np.diagonal(s), 0.0)
        direct = 2.0 * ((x[:, None] - x[None]) ** 2).sum(-1)
        np.testing.assert_allclose(s, direct, rtol=1e-8)


def test_single_precision_stays_single() -> None:
    X = Inputs(RNG.normal(size=(9, 3)).astype(np.float32))
    kernel = cast(without_marks(KERNELS["sum"]), np.float32)
    assert kernel.host_block(X, X).dtype == np.float32
    assert tiles.gram_lower(KERNELS["sum"], X).dtype == np.float32


def test_kernels_that_do_not_know_themselves_in_numpy_say_so() -> None:
    for kernel in ROUGH.values():
        assert not kernel.host
        assert not (kernel + Matern52()).host
        assert not (2.0 * kernel * Matern52()).host


def test_small_problems_compile_nothing() -> None:
    from covary import GPRegressor

    before = dict(tiles.traces)
    X = RNG.normal(size=(37, 5))
    GPRegressor(random_state=0).fit(X, X[:, 0]).predict(X, return_std=True)
    assert tiles.traces == before
