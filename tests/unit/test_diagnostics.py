"""Condition numbers and accuracy, compared with multiprecision arithmetic and the example of the book."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

from covary import GP, Data, Model, condition
from covary._checks import CovaryError
from covary.gram import LowRank
from covary.inference import EP, Laplace
from covary.kernels import Matern52, SquaredExponential
from covary.likelihoods import Bernoulli, Gaussian, StudentT
from covary.means import Constant
from covary.means.basis import LinearBasis
from covary.parameters import fixed
from covary.posterior.diagnostics import Conditioning, conditioning, predict_by, suspicious, trust

RNG = np.random.default_rng(2)
N = 30
X, XS = RNG.normal(size=(N, 2)), RNG.normal(size=(5, 2))
Y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 2.0
KERNEL = 1.3 * Matern52(lengthscale=[0.9, 1.7])


def smooth(noise: float, n: int = N) -> Any:
    """Ill-conditioned: a smooth kernel on a fine grid, with next to no noise."""
    x = np.linspace(0, 1, n)[:, None]
    return Model(GP(1.0 * SquaredExponential(lengthscale=0.5)), likelihood=Gaussian(fixed(noise))), Data(x, np.sin(6 * x[:, 0]))


@pytest.mark.parametrize(
    ("r", "of_c", "of_u"), [(1.0, 46.7, 1.98), (2.0, 3.31e5, 97.2), (3.0, 3.86e8, 1.12e4), (5.0, 4.2e12, 2.5e7)]
)
def test_the_books_example(r: float, of_c: float, of_u: float) -> None:
    """Gibbs, figure 3.1: x_j = j, ten points; κ(C) far above κ(U), κ(L) = 1 always."""
    x = np.arange(10.0)[:, None]
    found = conditioning(SquaredExponential(lengthscale=r).gram(x))
    assert found.condition == pytest.approx(of_c, rel=0.02)
    assert found.upper == pytest.approx(of_u, rel=0.02)
    assert found.lower == 1.0
    assert found.digits < 17 - np.log10(found.upper)


def exact_solution(C: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """C⁻¹y and log det C with sixty digits."""
    with mpmath.workdps(60):
        A = mpmath.matrix(C.tolist())
        a = mpmath.lu_solve(A, mpmath.matrix(y.tolist()))
        return np.array([float(v) for v in a]), float(mpmath.log(mpmath.det(A)))


@pytest.mark.parametrize("noise", [1e-2, 1e-6, 1e-9, 1e-12])
def test_measured_errors_are_the_errors(noise: float) -> None:
    """Digits of alpha, error of the mean and of the log determinant, against sixty digits."""
    model, data = smooth(noise, 24)
    post = condition(model, data)
    assert post.factor.jitter == 0
    C = model.kernel.gram(data.X.x) + noise * np.eye(24)
    a, logdet = exact_solution(C, data.y)
    found = conditioning(post)
    error = np.linalg.norm(post.alpha - a) / np.linalg.norm(a)
    assert found.digits == pytest.approx(-np.log10(max(error, 2e-16)), abs=0.6)
    real = abs(float(post.factor.logdet()) - logdet)
    assert found.logdet_error == pytest.approx(real, rel=0.3, abs=2e-13)
    assert found.mean_error == pytest.approx(noise * np.abs(post.alpha - a).max() / np.abs(data.y).max(), rel=0.7, abs=1e-15)
    assert found.condition == pytest.approx(np.linalg.cond(C), rel=0.05)
    assert found.residual < 1e-15


@pytest.mark.parametrize(("noise", "sound"), [(1e-6, True), (1e-12, True), (1e-14, False)])
def test_numbers_are_trusted_where_three_digits_of_alpha_are_right(noise: float, sound: bool) -> None:
    model, data = smooth(noise, 24)
    post = condition(model, data)
    a, _ = exact_solution(model.kernel.gram(data.X.x) + noise * np.eye(24), data.y)
    assert (np.linalg.norm(post.alpha - a) < 1e-3 * np.linalg.norm(a)) == sound
    assert trust(post).startswith("The numbers can be trusted") == sound


def test_random_signs_bound_the_error_of_the_log_determinant(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = smooth(1e-10, 150)
    post = condition(model, data)
    exact = conditioning(post).logdet_error
    monkeypatch.setattr("covary.posterior.diagnostics.EACH", 10)
    assert 0.5 * exact < conditioning(post).logdet_error < 1e-2


def test_lanczos_finds_the_ends() -> None:
    x = np.random.default_rng(0).normal(size=(700, 2))
    post = condition(Model(GP(KERNEL), likelihood=Gaussian(0.01)), Data(x, x[:, 0]))
    values = np.linalg.eigvalsh(KERNEL.gram(x) + 0.01 * np.eye(700))
    found = conditioning(post)
    assert found.largest == pytest.approx(values[-1], rel=1e-3)
    assert found.smallest == pytest.approx(values[0], rel=1e-2)


def test_sites_of_other_likelihoods() -> None:
    """I + W^½ K W^½ is never ill-conditioned (R&W, section 3.4.3)."""
    labels = np.where(Y > 2, 1.0, -1.0)
    for inference in (Laplace(), EP()):
        post = condition(Model(GP(1e4 * KERNEL), likelihood=Bernoulli("probit")), Data(X, labels), inference=inference)
        W = np.asarray(post.factor.spread)
        B = np.eye(N) + np.sqrt(W)[:, None] * (1e4 * KERNEL).gram(X) * np.sqrt(W)
        found = conditioning(post)
        assert found.condition == pytest.approx(np.linalg.cond(B), rel=1e-6)
        assert found.smallest >= 1 - 1e-9
        assert "can be trusted" in trust(post)


# one mean, four ways ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["cholesky", "lu", "svd", "inverse"])
def test_all_ways_agree_where_they_should(method: str) -> None:
    for prior in (GP(KERNEL), GP(KERNEL, mean=Constant(1.5)), GP(KERNEL, basis=LinearBasis())):
        post = condition(Model(prior, likelihood=Gaussian(0.05)), Data(X, Y))
        np.testing.assert_allclose(predict_by(post, XS, method=method), post.mean(XS), atol=1e-10)
    two = condition(Model(GP(KERNEL), likelihood=Gaussian(0.05)), Data(X, np.column_stack([Y, Y**2])))
    np.testing.assert_allclose(predict_by(two, XS, method=method), two.mean(XS), atol=1e-9)


def test_an_explicit_inverse_is_the_worst_way() -> None:
    """Gibbs, section 3.1: indirect LU keeps digits that direct inversion loses; a cut at the noise keeps the SVD sane."""
    model, data = smooth(1e-13, 40)
    post = condition(model, data)
    new = np.linspace(0.02, 0.98, 25)[:, None]
    errors = {
        m: np.abs(predict_by(post, new, method=m) - np.sin(6 * new[:, 0])).max() for m in ("cholesky", "lu", "svd", "inverse")
    }
    assert errors["cholesky"] < 1e-4
    assert errors["lu"] < 1e-4
    assert errors["svd"] < 1e-4
    assert errors["inverse"] > 10 * max(errors["cholesky"], errors["lu"])
    # few singular values kept: a smoother, and worse, answer that still is one
    coarse = predict_by(post, new, method="svd", w_min=1e-2)
    kept = np.linalg.eigvalsh(model.kernel.gram(data.X.x))
    assert (kept > 1e-2).sum() < 6
    values, V = np.linalg.eigh(model.kernel.gram(data.X.x) + 1e-13 * np.eye(40))
    top = values > 1e-2
    want = model.kernel.cross(new, data.X.x) @ (V[:, top] / values[top]) @ (V[:, top].T @ data.y)
    np.testing.assert_allclose(coarse, want, atol=1e-9)


# sentences ----------------------------------------------------------------------------------------------------------------


def test_sentences() -> None:
    post = condition(Model(GP(KERNEL), likelihood=Gaussian(0.05)), Data(X, Y))
    assert trust(post).startswith("The numbers can be trusted: condition number")
    assert conditioning(post).doubts == ()
    model, data = smooth(0.0, 40)
    jittered = condition(model, data)
    assert jittered.factor.jitter > 0
    assert "jitter of" in trust(jittered)
    assert "where the noise is zero" in trust(jittered)
    assert "merge close rows" in trust(jittered)
    low = condition(Model(GP(KERNEL), likelihood=Gaussian(0.05)), Data(X, Y), gram=LowRank(X[:5]))
    assert "LowRank has no single dense matrix" in trust(low)
    outlying = np.where(np.arange(N) == 3, 40.0, Y)
    signed = condition(Model(GP(KERNEL), likelihood=StudentT(0.1)), Data(X, outlying), inference=Laplace())
    assert "no single dense matrix" in trust(signed)
    stopped = condition(Model(GP(KERNEL), likelihood=Bernoulli()), Data(X, np.sign(Y - 2)), inference=Laplace(max_steps=1))
    assert "has not converged (stopped after 1 step)" in trust(stopped)


def test_the_quick_look_misses_no_doubt() -> None:
    for n in (20, 60):
        for noise in 10.0 ** -np.arange(1.0, 15.0):
            post = condition(*smooth(noise, n))
            assert suspicious(post) or conditioning(post).doubts == (), (n, noise)
    fine = condition(Model(GP(KERNEL), likelihood=Gaussian(0.05)), Data(X, Y))
    assert not suspicious(fine)
    assert not suspicious(condition(fine.model, Data(X, Y), gram=LowRank(X[:5])))


def test_every_doubt_is_said() -> None:
    fine: dict[str, Any] = {
        "rows": 3, "largest": 1.0, "smallest": 0.1, "lower": 1.0, "upper": 10.0, "jitter": 0.0, "noise": 0.1,
        "residual": 1e-16, "digits": 12.0, "mean_error": 1e-12, "logdet_error": 1e-12,
    }  # fmt: skip
    assert Conditioning(**fine).doubts == ()
    assert Conditioning(**{**fine, "smallest": -1e-18}).condition == np.inf
    for change, says in (
        ({"jitter": 1e-2}, "10.0% of the noise variance"),
        ({"mean_error": 0.1}, "moves the mean by"),
        ({"digits": 1.2}, "1 accurate digit"),
        ({"logdet_error": 0.5}, "evidences cannot be compared"),
        ({"logdet_error": np.inf}, "no Cholesky factor"),
    ):
        assert any(says in d for d in Conditioning(**{**fine, **change}).doubts), says


def test_a_matrix_without_a_factor() -> None:
    found = conditioning(np.array([[1.0, 2.0], [2.0, 1.0]]))
    assert found.condition == np.inf
    assert found.digits == 0
    assert found.smallest == pytest.approx(-1.0)
    assert found.doubts[0].startswith("the matrix has no Cholesky factor")


def test_single_precision_is_measured_too() -> None:
    model, _ = smooth(1e-4)
    x = np.linspace(0, 1, N)[:, None]
    single = condition(model, Data(x.astype(np.float32), np.sin(6 * x[:, 0])))
    double = condition(model, Data(x, np.sin(6 * x[:, 0])))
    assert conditioning(single).digits < conditioning(double).digits - 5
    assert 0 < conditioning(single).digits < 7


def test_bad_questions() -> None:
    post = condition(Model(GP(KERNEL), likelihood=Gaussian(0.05)), Data(X, Y))
    low = condition(Model(GP(KERNEL), likelihood=Gaussian(0.05)), Data(X, Y), gram=LowRank(X[:5]))
    for call, says in (
        (lambda: predict_by(post, XS, method="qr"), "method is 'qr'"),
        (lambda: predict_by(low, XS), "does not come from exact inference with a dense matrix"),
        (lambda: conditioning(low), "gram=LowRank"),
        (lambda: conditioning(np.ones((2, 3))), r"shape \(2, 3\)"),
        (lambda: conditioning(np.array([[np.nan]])), "not finite"),
        (lambda: conditioning(np.eye(3), np.ones(2)), r"y has shape \(2,\)"),
    ):
        with pytest.raises(CovaryError, match=says):
            call()
