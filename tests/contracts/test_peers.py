"""Code of other libraries in docs/coming_from.md: all of it parses; that of scikit-learn gives the same results."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as theirs

from covary import GPRegressor
from covary import kernels as ours

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming_from.md"
BLOCK = re.compile(r"^```python(?: peer (?P<peer>[^\n]+))?\n(?P<code>.*?)^```$", re.M | re.S)
BLOCKS = [(found["peer"], found["code"]) for found in BLOCK.finditer(PAGE.read_text("utf-8"))]
X = np.random.default_rng(1).normal(size=(6, 2))


def test_every_peer_has_code_and_all_of_it_is_python() -> None:
    peers = [peer for peer, _ in BLOCKS if peer]
    assert {"scikit-learn", "GPyTorch", "GPy"} == set(peers)
    assert len(peers) >= 6
    for _, code in BLOCKS:
        ast.parse(code)


def test_every_peer_block_is_followed_by_covary_code() -> None:
    for (peer, _), (after, code) in zip(BLOCKS, [*BLOCKS[1:], (None, "")], strict=True):
        if peer:
            assert after is None
            assert "GP" in code


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_s_code_runs_with_the_page_s_data() -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(BLOCKS[0][1], space)
    made = []
    for peer, code in BLOCKS:
        if peer == "scikit-learn":
            exec(code, space)
            made.append(type(space["model"]).__name__)
    assert made == ["GaussianProcessRegressor", "GaussianProcessClassifier"]
    assert space["mean"].shape == space["std"].shape == (5,)
    mean, std = GPRegressor().fit(space["X"], space["y"]).predict(space["X_new"], return_std=True)
    assert (np.abs(mean - space["mean"]) < 2 * std).all()
    np.testing.assert_allclose(space["p"].sum(1), 1.0)


@pytest.mark.parametrize(
    ("them", "us"),
    [
        (theirs.ConstantKernel(2.5) * theirs.RBF([0.7, 2.0]), 2.5 * ours.SquaredExponential([0.7, 2.0])),
        (theirs.Matern(1.3, nu=2.5), ours.Matern52(1.3)),
        (theirs.Matern(1.3, nu=1.7), ours.Matern(1.3, nu=1.7)),
        (theirs.RationalQuadratic(0.8, 1.9), ours.RationalQuadratic(0.8, alpha=1.9)),
        (theirs.DotProduct(2.0), ours.Linear() + 4.0 * ours.Constant()),
    ],
    ids=lambda kernel: repr(kernel),
)
def test_the_table_of_kernels_is_right(them: Any, us: Any) -> None:
    np.testing.assert_allclose(_cross(us, X), them(X), rtol=1e-9)


def test_the_same_on_one_column() -> None:
    x = X[:, :1]
    np.testing.assert_allclose(_cross(ours.Periodic(0.9, period=1.4), x), theirs.ExpSineSquared(0.9, 1.4)(x), rtol=1e-9)


def test_the_table_is_right_about_noise() -> None:
    """A WhiteKernel is ``noise=``; with ``alpha`` scikit-learn's error bars exclude the noise, as with ``latent=True``."""
    y, new = np.sin(X[:, 0]), X + 0.3
    kernel, text = theirs.ConstantKernel(1.5) * theirs.RBF(1.2), "1.5 * SquaredExponential(1.2)"
    model = GPRegressor(text, noise=0.1, mean="zero", standardise=False, fixed="*").fit(X, y)
    white = GaussianProcessRegressor(kernel + theirs.WhiteKernel(0.1), optimizer=None).fit(X, y)
    np.testing.assert_allclose(model.predict(new, return_std=True), white.predict(new, return_std=True), rtol=1e-6)
    alpha = GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None).fit(X, y)
    np.testing.assert_allclose(model.predict(new, return_std=True, latent=True), alpha.predict(new, return_std=True), rtol=1e-6)


def _cross(kernel: Any, x: np.ndarray) -> np.ndarray:
    from covary._precision import precision
    from covary.data import as_inputs
    from covary.kernels import tiles

    inputs = as_inputs(x, "test")
    with precision(np.float64):
        return np.asarray(tiles.cross(kernel, inputs, inputs))
