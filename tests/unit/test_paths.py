"""Sampled functions: consistency, shapes, memory, and error messages."""

from __future__ import annotations

import pickle
import types
from typing import Any

import numpy as np
import pytest

from covary import GP, Data, Model, condition, paths
from covary._checks import CovaryError
from covary.gram import LowRank
from covary.inference import Laplace
from covary.kernels import Matern52, Periodic, SquaredExponential, Wiener
from covary.likelihoods import Gaussian, Poisson, Softmax
from covary.means import Constant as ConstantMean
from covary.means import LinearBasis
from covary.posterior.paths import draw_paths

RNG = np.random.default_rng(3)
X = np.sort(RNG.uniform(0, 5, 25))[:, None]
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=25)
XS = np.linspace(-1, 6, 700)[:, None]
MODEL = Model(GP(1.3 * Matern52() * Periodic(period=3.0)), likelihood=Gaussian(0.02))


def drawn(post: Any, n: int = 4, **options: Any) -> Any:
    return draw_paths(post.model, post.data, post.bound, post.solved, n, **{"key": 0, "features": 300, **options})


@pytest.fixture(scope="module", params=["dense", "basis", "low-rank", "poisson", "softmax", "outputs"])
def post(request: pytest.FixtureRequest) -> Any:
    kind, prior = request.param, GP(MODEL.kernel, basis=LinearBasis() if request.param == "basis" else None)
    if kind == "poisson":
        return condition(Model(prior, likelihood=Poisson()), Data(X, np.round(np.exp(Y))), inference=Laplace())
    if kind == "softmax":
        return condition(Model(prior, likelihood=Softmax(3)), Data(X, np.arange(25) % 3), inference=Laplace())
    data = Data(X, np.column_stack([Y, -Y]) if kind == "outputs" else Y)
    model = Model(prior, likelihood=Gaussian(0.02))
    return condition(model, data, gram=LowRank(X[::3])) if kind == "low-rank" else condition(model, data)


def test_a_path_is_one_function_however_it_is_asked(post: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    functions = drawn(post)
    whole = functions(XS)
    assert whole.shape == (4, 700, *post.mean(XS[:1]).shape[1:])
    assert whole.dtype == np.float64
    np.testing.assert_array_equal(functions(XS), whole)
    pieces = np.concatenate([functions(XS[:1]), functions(XS[1:260]), functions(XS[260:])], axis=1)
    np.testing.assert_allclose(pieces, whole, atol=1e-10)
    backwards = functions(XS[::-1])[:, ::-1]
    np.testing.assert_allclose(backwards, whole, atol=1e-10)
    monkeypatch.setattr(paths, "CHUNK_BYTES", 1)  # blocks of 256 rows
    np.testing.assert_allclose(functions(XS), whole, atol=1e-10)


def test_the_key_decides(post: Any) -> None:
    one, same, other = (drawn(post, key=key)(XS[:50]) for key in (2, np.random.default_rng(2), 3))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 1e-3
    assert np.abs(one[0] - one[1]).max() > 1e-3


def test_functions_are_as_smooth_as_the_kernel_says() -> None:
    """Second differences of a twice differentiable function fall with the square of the step."""
    functions = drawn(condition(MODEL, Data(X, Y)))
    rough = [np.abs(np.diff(functions((2.0 + step * np.arange(3))[:, None]), 2, axis=1)).max() for step in (1e-2, 1e-3)]
    assert rough[1] == pytest.approx(rough[0] / 100, rel=0.5)


def test_the_prior_mean_is_added() -> None:
    with_mean = Model(GP(MODEL.kernel, mean=ConstantMean(5.0)), likelihood=MODEL.likelihood)
    np.testing.assert_allclose(
        drawn(condition(with_mean, Data(X, Y + 5)))(XS), drawn(condition(MODEL, Data(X, Y)))(XS) + 5, atol=1e-10
    )


def test_matherons_rule_by_hand() -> None:
    """The path is f₀(x) + k(x, X)(K + S)⁻¹(y − f₀(X) − ε), with what was drawn read off the object."""
    functions = drawn(condition(MODEL, Data(X, Y)))
    phi, w = functions.prior.maps[0], functions.prior.weights[0][:, :, 0]
    A = MODEL.kernel.gram(X) + 0.02 * np.eye(25)
    target = functions.correction.solved[0].shift
    epsilon = Y[:, None] - phi(X) @ w - target
    assert epsilon.std() == pytest.approx(0.02**0.5, rel=0.2)
    expected = phi(XS) @ w + MODEL.kernel.cross(XS, X) @ np.linalg.solve(A, target)
    np.testing.assert_allclose(functions(XS), expected.T, atol=1e-10)


def test_inducing_values_of_any_bound() -> None:
    """A bound that offers inducing values, here two latent functions with a kernel each."""
    from covary.data import as_inputs

    Z, kernels = as_inputs(X[::4]), (Matern52(), 0.5 * SquaredExponential(lengthscale=0.7))
    roots = tuple(np.linalg.cholesky(k.gram(Z) + 1e-12 * np.eye(Z.rows)) for k in kernels)
    mean = RNG.normal(size=(Z.rows, 2))
    bound = types.SimpleNamespace(
        kernels=kernels,
        X=as_inputs(X),
        basis=None,
        rule=None,
        conditional=lambda factor, solved, X, variance: (np.zeros((X.rows, 2)), None),
        inducing_posterior=lambda factor, solved: (Z, mean, tuple(0.0 * L for L in roots), roots),
    )
    model = Model(GP(kernels), likelihood=Softmax(2))
    solved = types.SimpleNamespace(factor=None, shift=None, alpha=None)
    functions = draw_paths(model, Data(X, np.zeros(25)), bound, solved, 3, key=0, features=500)
    found = functions(Z.x)  # inducing values without variance are interpolated
    assert found.shape == (3, Z.rows, 2)
    np.testing.assert_allclose(found, np.broadcast_to(mean, found.shape), atol=1e-5)


def test_single_precision_data() -> None:
    data = Data(X.astype(np.float32), Y.astype(np.float32))
    single, double = drawn(condition(MODEL, data))(XS), drawn(condition(MODEL, Data(X, Y)))(XS)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, atol=5e-3)


def test_paths_survive_pickle() -> None:
    functions = drawn(condition(MODEL, Data(X, Y), gram=LowRank(X[::3])))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(functions))(XS), functions(XS))
    assert repr(functions) == "Paths(n=4, outputs=())"
    assert functions.features == 300


def test_bad_input_is_refused() -> None:
    post = condition(MODEL, Data(X, Y))
    for n in (0, 1.5, True):
        with pytest.raises(CovaryError, match=f"sample_functions: n is {n}; give how many functions"):
            drawn(post, n)  # type: ignore[arg-type]
    with pytest.raises(CovaryError, match="count is 0; give an integer"):
        drawn(post, features=0)
    with pytest.raises(CovaryError, match="Paths: X has 2 columns but the functions have 1"):
        drawn(post)([[0.0, 1.0]])
    with pytest.raises(CovaryError, match="Paths: X is nan at row 0"):
        drawn(post)([[np.nan]])


@pytest.mark.parametrize("rule", ["nystrom", "sor+"])
def test_rules_without_a_joint_law_are_refused(rule: str) -> None:
    with pytest.raises(CovaryError, match=rf"sample_functions: rule '{rule.replace('+', '.')}' has no joint covariance"):
        drawn(condition(MODEL, Data(X, Y), gram=LowRank(X[::3], rule=rule)))


def test_kernels_without_features_are_refused() -> None:
    model = Model(GP(Matern52() + Wiener()), likelihood=Gaussian(0.1))
    with pytest.raises(CovaryError, match=r"random_features: Wiener\(\) has no known feature map"):
        drawn(condition(model, Data(X, Y)))
