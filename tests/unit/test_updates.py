"""Adding and removing rows: the updated posterior equals the one conditioned again."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import pytest
from scipy import linalg

from covary import GP, Data, Model, condition
from covary._checks import CovaryError
from covary.gram import LowRank
from covary.inference import Laplace
from covary.inference.updates import append, append_rows, grown_inverse, remove, remove_rows
from covary.kernels import Matern52, SquaredExponential
from covary.likelihoods import Bernoulli, Gaussian
from covary.means import Constant
from covary.means.basis import LinearBasis

RNG = np.random.default_rng(8)
N = 40
X, XS = RNG.normal(size=(N, 2)), RNG.normal(size=(6, 2))
Y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.normal(size=N)
KNOWN, WEIGHT = RNG.uniform(0.01, 0.1, N), RNG.uniform(0.5, 3.0, N)
KERNEL = 1.3 * Matern52(lengthscale=[0.9, 1.7])
MODELS: dict[str, Model] = {
    "plain": Model(GP(KERNEL), likelihood=Gaussian(0.02)),
    "mean": Model(GP(KERNEL, mean=Constant(0.4)), likelihood=Gaussian(0.02)),
    "vague basis": Model(GP(KERNEL, basis=LinearBasis()), likelihood=Gaussian(0.02)),
    "proper basis": Model(GP(KERNEL, basis=LinearBasis(covariance=2.0)), likelihood=Gaussian(0.02)),
}
DATA: dict[str, Any] = {
    "plain": lambda rows: Data(X[rows], Y[rows]),
    "known noise, weights": lambda rows: Data(X[rows], Y[rows], KNOWN[rows], WEIGHT[rows]),
    "two outputs": lambda rows: Data(X[rows], np.column_stack([Y, Y**2])[rows]),
}


def same(got: Any, want: Any, tolerance: float = 1e-10) -> None:
    """Two posteriors say the same, everywhere it matters."""
    assert got.data.rows == want.data.rows
    assert got.log_evidence == pytest.approx(want.log_evidence, abs=tolerance * 100, rel=tolerance)
    np.testing.assert_allclose(got.alpha, want.alpha, atol=tolerance * 100)
    np.testing.assert_allclose(np.tril(got.factor.L), np.tril(want.factor.L), atol=tolerance)
    a, b = got.predict(XS, covariance=True), want.predict(XS, covariance=True)
    np.testing.assert_allclose(a.f.mean, b.f.mean, atol=tolerance)
    np.testing.assert_allclose(a.f.covariance, b.f.covariance, atol=tolerance)
    np.testing.assert_allclose(a.y.variance, b.y.variance, atol=tolerance)
    if got.data.y.ndim == 1:
        np.testing.assert_allclose(got.leave_one_out().log_prob, want.leave_one_out().log_prob, atol=tolerance * 100)


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_appended_and_removed_are_as_new(model: Model, data: Any) -> None:
    whole = condition(model, data(np.arange(N)))
    new = data(np.arange(33, N))
    start = condition(model, data(np.arange(33)))
    held = start.factor.L.copy()
    same(append(start, new.X, new.y, noise_variance=new.noise_variance, weight=new.weight), whole)
    np.testing.assert_array_equal(start.factor.L, held)  # the old posterior is untouched
    for gone in ([39], [0], [17], [5, 6, 7], [0, 3, 20, 38, 39], list(range(1, 37, 3))):
        kept = np.setdiff1d(np.arange(N), gone)
        same(remove(whole, gone), condition(model, data(kept)))
    mask = np.zeros(N, bool)
    mask[[2, 9]] = True
    same(remove(whole, mask), condition(model, data(~mask)))
    same(remove(whole, -1), condition(model, data(np.arange(N - 1))))
    same(remove(whole, np.arange(10, N)), condition(model, data(np.arange(10))))  # so many that it starts afresh


def test_one_at_a_time_in_any_order() -> None:
    """Growth one by one gives the batch; what arrives and leaves again leaves no trace."""
    model = MODELS["plain"]
    order = np.random.default_rng(0).permutation(N)
    post = condition(model, Data(X[order[:1]], Y[order[:1]]))
    for i in order[1:]:
        post = append(post, X[[i]], Y[[i]])
    want = condition(model, Data(X, Y))
    np.testing.assert_allclose(post.predict(XS).f.mean, want.predict(XS).f.mean, atol=1e-10)
    np.testing.assert_allclose(post.predict(XS).f.variance, want.predict(XS).f.variance, atol=1e-10)
    back = remove(append(want, XS, np.ones(6)), np.arange(N, N + 6))
    same(back, want)


def test_variance_never_grows_with_a_row() -> None:
    post = condition(MODELS["plain"], Data(X[:2], Y[:2]))
    last = post.predict(XS).f.variance
    for i in range(2, 12):
        post = append(post, X[[i]], Y[[i]])
        now = post.predict(XS).f.variance
        assert (now <= last + 1e-12).all()
        last = now


def test_a_row_that_repeats_another_without_noise_needs_jitter() -> None:
    """Bordering fails there; the posterior is then conditioned again, with its jitter on record."""
    from covary.parameters import fixed

    model = Model(GP(1.0 * SquaredExponential()), likelihood=Gaussian(fixed(0.0)))
    post = condition(model, Data([[0.0], [1.0]], [0.0, 1.0]))
    assert post.factor.jitter == 0
    again = append(post, [[1.0]], [1.0])
    assert again.factor.jitter > 0
    np.testing.assert_allclose(again.predict([[1.0]]).f.mean, 1.0, atol=1e-6)
    kept = append(again, [[3.0]], [0.0])  # the jitter that was needed is kept for new rows
    assert kept.factor.jitter == again.factor.jitter
    assert np.tril(kept.factor.L)[3] @ np.tril(kept.factor.L)[3] == pytest.approx(1 + again.factor.jitter, rel=1e-14)


# factors and inverses -----------------------------------------------------------------------------------------------------

C = KERNEL.gram(X) + 0.02 * np.eye(N)


@pytest.mark.parametrize("p", [1, 4])
def test_partitioned_inverse(p: int) -> None:
    """Gibbs, eqs. A.3 to A.10 and Coolen, eqs. 4.19 to 4.21 (sign corrected), written out for one row."""
    n = N - p
    Ci = np.linalg.inv(C[:n, :n])
    k, kappa = C[:n, n:], C[n:, n:]
    grown = grown_inverse(Ci, k, kappa)
    np.testing.assert_allclose(grown, np.linalg.inv(C), atol=1e-10)
    np.testing.assert_array_equal(grown, grown.T)
    if p == 1:
        mu = 1 / (kappa[0, 0] - k[:, 0] @ Ci @ k[:, 0])
        m = -mu * Ci @ k[:, 0]
        M = Ci + np.outer(m, m) / mu
        np.testing.assert_allclose(grown, np.block([[M, m[:, None]], [m[None, :], np.array([[mu]])]]), atol=1e-12)
        assert mu**-0.5 == pytest.approx(np.linalg.cholesky(C)[-1, -1], rel=1e-12)  # Coolen: the error bar √s


def test_factors_read_nothing_above_the_diagonal() -> None:
    L = np.linalg.cholesky(C)
    dirty = np.asfortranarray(L + np.triu(RNG.normal(size=(N, N)), 1))
    for gone in ([0], [39], [4, 5, 20], [37, 38, 39], list(range(0, N, 3))):
        kept = np.setdiff1d(np.arange(N), gone)
        got = np.tril(remove_rows(dirty, np.array(gone)))
        np.testing.assert_allclose(got, np.linalg.cholesky(C[np.ix_(kept, kept)]), atol=1e-12)
        assert (np.diagonal(got) > 0).all()
    np.testing.assert_array_equal(np.tril(remove_rows(dirty, np.array([], int))), L)
    grown = append_rows(np.asfortranarray(dirty[:30, :30]), C[:30, 30:], C[30:, 30:])
    np.testing.assert_allclose(np.tril(grown), L, atol=1e-12)  # type: ignore[arg-type]
    assert append_rows(np.asfortranarray(L), C[:, :1], C[:1, :1]) is None  # the first row again, noise and all


def test_single_precision_stays_single() -> None:
    model, data = MODELS["plain"], Data(X.astype(np.float32), Y)
    whole = condition(model, data)
    assert whole.factor.L.dtype == np.float32
    got = append(remove(whole, [3, 4]), X[[3, 4]], Y[[3, 4]])
    assert got.factor.L.dtype == np.float32
    np.testing.assert_allclose(got.predict(XS).f.mean, whole.predict(XS).f.mean, atol=1e-4)


@pytest.mark.slow
def test_cost_is_quadratic() -> None:
    """At 2000 rows one more row takes far less than a new factor (measured: a tenth)."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2001, 3)), rng.normal(size=2001)
    model = Model(GP(1.0 * Matern52()), likelihood=Gaussian(0.1))
    start = condition(model, Data(x[:2000], y[:2000]))

    def best(work: Any) -> float:
        times = []
        for _ in range(4):
            begin = perf_counter()
            work()
            times.append(perf_counter() - begin)
        return min(times)

    fresh = best(lambda: condition(model, Data(x, y)))
    assert best(lambda: append(start, x[2000:], y[2000:])) < 0.5 * fresh
    assert best(lambda: remove(start, [1900])) < 0.7 * fresh


def test_what_cannot_be_updated_says_so() -> None:
    post = condition(MODELS["plain"], Data(X, Y))
    with pytest.raises(CovaryError, match="row 40 is out of range for 40"):
        remove(post, 40)
    with pytest.raises(CovaryError, match="all 40 rows would be removed"):
        remove(post, np.arange(N))
    with pytest.raises(CovaryError, match="give numbers of rows"):
        remove(post, [0.5])
    with pytest.raises(CovaryError, match="got ndarray"):
        append(X, X, Y)
    with pytest.raises(CovaryError, match="differ in columns"):
        append(post, X[:, :1], Y)
    labels = np.where(Y > 0, 1.0, -1.0)
    for other in (
        condition(MODELS["plain"], Data(X, Y), gram=LowRank(X[:5])),
        condition(Model(GP(KERNEL), likelihood=Bernoulli()), Data(X, labels), inference=Laplace()),
    ):
        with pytest.raises(CovaryError, match="not exact with a dense matrix"):
            append(other, XS, np.ones(6))


def test_reflections_are_stable() -> None:
    """Near singular: a removed row costs no more digits than a new factor would."""
    x = np.linspace(0, 1, 60)[:, None]
    A = SquaredExponential(lengthscale=0.5).gram(x) + 1e-12 * np.eye(60)
    L = linalg.cholesky(A, lower=True)
    for gone in (np.array([20, 21]), np.arange(3, 50, 4)):
        kept = np.setdiff1d(np.arange(60), gone)
        got = np.tril(remove_rows(np.asfortranarray(L), gone))
        backward = np.abs(got @ got.T - A[np.ix_(kept, kept)]).max()
        assert backward < 60 * np.finfo(float).eps
