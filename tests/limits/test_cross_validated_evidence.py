"""Cross-validation objectives compared with conditioning again without the rows, and gradients with differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from covary import GP, Data, Model, condition, learn, log_evidence
from covary._checks import CovaryError, NotPositiveDefinite
from covary.gram import LowRank
from covary.inference import EP, Laplace
from covary.kernels import Linear, Matern32, Matern52, Periodic, SquaredExponential, fixed
from covary.likelihoods import Bernoulli, Gaussian, Poisson, Softmax
from covary.means import Constant, Function, LinearBasis
from covary.means import Linear as LinearMean
from covary.parameters import Packing
from covary.selection.left_out import GeneralisedCrossValidation, KFold, LeaveOneOut

RNG = np.random.default_rng(31)
N = 26
X = RNG.uniform(0, 3, size=(N, 2))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * RNG.normal(size=N)
KERNEL = 1.3 * Matern52(lengthscale=[0.9, 1.7])
KNOWN, WEIGHT = RNG.uniform(0.01, 0.2, N), RNG.uniform(0.5, 3.0, N)

MODELS = {
    "plain": Model(GP(KERNEL), likelihood=Gaussian(0.05)),
    "constant mean": Model(GP(KERNEL, mean=Constant(0.4)), likelihood=Gaussian(0.05)),
    "linear mean, a sum": Model(
        GP(0.7 * SquaredExponential() + 0.2 * Linear().on(1), mean=LinearMean([0.2, 0.1])), likelihood=Gaussian(0.1)
    ),
    "own mean, a product": Model(
        GP(
            0.7 * SquaredExponential() * Periodic(period=2.0).on(0),
            mean=Function(lambda x, a: a * x[0] ** 2, parameters={"a": 0.3}),
        ),
        likelihood=Gaussian(0.1),
    ),
    "basis": Model(GP(KERNEL, basis=LinearBasis()), likelihood=Gaussian(0.05)),
    "basis and mean": Model(GP(KERNEL, mean=Constant(0.4), basis=LinearBasis()), likelihood=Gaussian(0.05)),
}
DATA = {
    "plain": Data(X, Y),
    "known noise": Data(X, Y, KNOWN),
    "weights": Data(X, Y, KNOWN, WEIGHT),
    "two outputs": Data(X, np.column_stack([Y, Y**2])),
}
OBJECTIVES = {
    "log density": LeaveOneOut(),
    "squared error": LeaveOneOut("squared error"),
    "gcv": GeneralisedCrossValidation(),
    "five folds": KFold(5, seed=3),
    "five folds, squared error": KFold(5, "squared error", seed=3),
}


def noise_at(model: Model, data: Data) -> np.ndarray:
    """The noise variance of every row's mean, written out."""
    v = np.full(data.rows, float(model.likelihood.variance)) + (0.0 if data.noise_variance is None else data.noise_variance)
    return v / (1.0 if data.weight is None else data.weight)


def refitted(model: Model, data: Data, folds: Any) -> tuple[np.ndarray, np.ndarray]:
    """Error and variance (noise included) of every row, from conditioning on the rest."""
    error, variance = np.zeros((data.rows, data.y.reshape(data.rows, -1).shape[1])), np.zeros(data.rows)
    for rows in folds:
        rest = np.setdiff1d(np.arange(data.rows), rows)
        f = condition(model, data.take(rest)).predict(data.X.take(rows)).f
        error[rows] = (data.y[rows] - f.mean).reshape(len(rows), -1)
        variance[rows] = f.variance + noise_at(model, data)[rows]
    return error, variance


def by_hand(model: Model, data: Data, folds: Any, loss: str) -> float:
    error, variance = refitted(model, data, folds)
    w = np.ones(data.rows) if data.weight is None else data.weight
    if loss == "squared error":
        count = w.sum() * error.shape[1]
        return -0.5 * count * np.log((w[:, None] * error**2).sum() / count)
    v = noise_at(model, data) * w
    more = -0.5 * error.shape[1] * ((w - 1) * np.log(2 * np.pi * v) + np.log(w)).sum()
    return stats.norm.logpdf(error, 0, np.sqrt(variance)[:, None]).sum() + more


def slopes_agree(objective: Any, model: Model, data: Data, step: float = 1e-5) -> None:
    packing = Packing(model)
    theta = packing.pack(model)
    value, gradient = objective.value_and_grad(model, data)
    assert value == objective(model, data)
    slope = packing.pull(model, gradient)
    for i, name in enumerate(packing.names()):
        move = np.zeros(packing.size)
        move[i] = step
        up, down = (objective(packing.unpack(theta + s * move), data) for s in (1, -1))
        assert slope[i] == pytest.approx((up - down) / (2 * step), rel=1e-6, abs=1e-6), name


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("loss", ["log density", "squared error"])
def test_leave_one_out_is_conditioning_again_without_each_row(model: Model, data: Data, loss: str) -> None:
    """R&W, eqs. 5.10–5.12; with mean functions, known noise, weights, outputs and vague basis functions."""
    expected = by_hand(model, data, [[i] for i in range(N)], loss)
    assert LeaveOneOut(loss)(model, data) == pytest.approx(expected, abs=1e-8)
    assert KFold(N, loss)(model, data) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("loss", ["log density", "squared error"])
def test_folds_are_conditioning_again_without_each(model: Model, data: Data, loss: str) -> None:
    objective = KFold(5, loss, seed=3)
    folds = objective.rows(data)
    assert sorted(np.concatenate(folds)) == list(range(N))
    assert {len(f) for f in folds} == {5, 6}
    expected = by_hand(model, data, folds, loss)
    assert objective(model, data) == pytest.approx(expected, abs=1e-8)
    assert objective._refits(model, data)[0].sum() == pytest.approx(by_hand(model, data, folds, "log density"), abs=1e-8)
    error = refitted(model, data, folds)[0]
    w = np.ones(N) if data.weight is None else data.weight
    assert objective.error(model, data) == pytest.approx((w[:, None] * error**2).sum() / (w.sum() * error.shape[1]))


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_slopes_against_differences(objective: Any, model: Model, data: Data) -> None:
    """R&W, eq. 5.14, for all parameters by one product: T71."""
    if isinstance(objective, GeneralisedCrossValidation) and (data.noise_variance is not None or data.weight is not None):
        with pytest.raises(CovaryError, match=r"use LeaveOneOut\(\), which supports them"):
            objective.value_and_grad(model, data)
        return
    slopes_agree(objective, model, data)


def test_slope_by_the_book() -> None:
    """R&W, eq. 5.14, one parameter after the other, with the derivative of K by differences."""
    kernel, noise = KERNEL, 0.05
    model, data = Model(GP(kernel), likelihood=Gaussian(noise)), Data(X, Y)
    gradient = LeaveOneOut().value_and_grad(model, data)[1]
    R = np.linalg.inv(kernel.gram(X) + noise * np.eye(N))
    alpha, p = R @ Y, np.diag(R)

    def book(dK: np.ndarray) -> float:
        Z = R @ dK
        return float(((alpha * (Z @ alpha) - 0.5 * (1 + alpha**2 / p) * np.diag(Z @ R)) / p).sum())

    assert float(gradient.likelihood.variance) == pytest.approx(book(np.eye(N)), rel=1e-9)
    assert float(gradient.kernel.variance) == pytest.approx(book(kernel.gram(X) / 1.3), rel=1e-9)


@pytest.mark.parametrize("size", [300, 700])
def test_every_lane_of_the_kernel_agrees(size: int) -> None:
    """Few rows in NumPy, more by compiled tiles: the same slopes as differences."""
    rng = np.random.default_rng(size)
    x = rng.normal(size=(size, 3))
    data = Data(x, np.sin(x[:, 0]) + 0.1 * rng.normal(size=size))
    model = Model(GP(1.0 * Matern32(lengthscale=[1.0, 2.0, 3.0]), mean=Constant(0.1)), likelihood=Gaussian(0.02))
    packing = Packing(model)
    theta, move = packing.pack(model), rng.normal(size=packing.size)
    for objective in (LeaveOneOut(), KFold(4)):
        slope = packing.pull(model, objective.value_and_grad(model, data)[1]) @ move
        up, down = (objective(packing.unpack(theta + s * 1e-5 * move), data) for s in (1, -1))
        assert slope == pytest.approx((up - down) / 2e-5, rel=1e-6)


def test_merged_rows_are_left_out_with_all_they_stand_for() -> None:
    """A row of weight w is w observations: their joint density given all other rows."""
    x = np.repeat(np.linspace(0, 3, 7), [1, 3, 2, 1, 4, 1, 2])[:, None]
    y = np.cos(x[:, 0]) + 0.3 * np.random.default_rng(2).normal(size=len(x))
    kernel, noise = 1.1 * Matern32(), 0.09
    model, merged = Model(GP(kernel), likelihood=Gaussian(noise)), Data(x, y).collapse()
    C = kernel.gram(x) + noise * np.eye(len(x))
    total, square = 0.0, 0.0
    for place in np.unique(x):
        out = x[:, 0] == place
        A = C[np.ix_(out, ~out)] @ np.linalg.inv(C[np.ix_(~out, ~out)])
        mean, cov = A @ y[~out], C[np.ix_(out, out)] - A @ C[np.ix_(~out, out)]
        total += stats.multivariate_normal(mean, cov).logpdf(y[out])
        square += ((y[out] - mean) ** 2).sum()
    assert LeaveOneOut()(model, merged) == pytest.approx(total, abs=1e-8)
    assert KFold(merged.rows)(model, merged) == pytest.approx(total, abs=1e-8)
    assert LeaveOneOut("squared error").error(model, merged) == pytest.approx(square / len(x), rel=1e-10)
    for objective in (LeaveOneOut(), LeaveOneOut("squared error"), KFold(3), KFold(3, "squared error")):
        slopes_agree(objective, model, merged)


def test_noise_free_data_can_be_left_out() -> None:
    model, data = Model(GP(1.0 * Matern32(lengthscale=0.7)), likelihood=Gaussian(fixed(0.0))), Data(X, Y)
    error, variance = refitted(model, data, [[i] for i in range(N)])
    expected = stats.norm.logpdf(error[:, 0], 0, np.sqrt(variance)).sum()
    assert LeaveOneOut()(model, data) == pytest.approx(expected, abs=1e-8)
    slopes_agree(LeaveOneOut(), model, data)


def test_it_agrees_with_the_posterior_s_own_and_does_not_see_a_row_s_target() -> None:
    """T72: μ_i does not depend on y_i."""
    model, data = MODELS["basis and mean"], DATA["plain"]
    assert LeaveOneOut()(model, data) == pytest.approx(condition(model, data).leave_one_out().log_prob.sum(), abs=1e-9)
    moved = Y.copy()
    moved[4] += 10.0
    before, after = (condition(model, Data(X, y)).leave_one_out().mean for y in (Y, moved))
    assert after[4] == pytest.approx(before[4], abs=1e-10)
    assert abs(after[5] - before[5]) > 1e-3


def test_gcv_is_its_definition() -> None:
    """R 106 with the smoother written out; leverages all equal make it the leave-one-out error."""
    for model in (MODELS["constant mean"], MODELS["basis"]):
        shift = Y - (0.4 if model is MODELS["constant mean"] else 0.0)
        A = KERNEL.gram(X) + 0.05 * np.eye(N)
        R = np.linalg.inv(A)
        if model.prior.basis is not None:
            H = np.column_stack([np.ones(N), X])
            R = R - R @ H @ np.linalg.inv(H.T @ R @ H) @ H.T @ R
        smoother = np.eye(N) - 0.05 * R
        gcv = ((shift - smoother @ shift) ** 2).mean() / (1 - np.trace(smoother) / N) ** 2
        found = GeneralisedCrossValidation()
        assert found.error(model, Data(X, Y)) == pytest.approx(gcv, rel=1e-10)
        assert found(model, Data(X, Y)) == pytest.approx(-0.5 * N * np.log(gcv), rel=1e-10)
    ring = Data(np.arange(12.0)[:, None], np.random.default_rng(0).normal(size=12))
    circle = Model(GP(1.0 * Periodic(period=fixed(12.0))), likelihood=Gaussian(0.3))
    assert GeneralisedCrossValidation().error(circle, ring) == pytest.approx(LeaveOneOut("squared error").error(circle, ring))


def test_squared_errors_do_not_know_the_overall_scale() -> None:
    """R&W, section 5.4.2: kernel and noise times the same number change nothing (and the log density does notice)."""
    data = DATA["plain"]
    one, many = (Model(GP(s * KERNEL), likelihood=Gaussian(s * 0.05)) for s in (1.0, 7.0))
    for objective in (LeaveOneOut("squared error"), GeneralisedCrossValidation(), KFold(5, "squared error")):
        assert objective(one, data) == pytest.approx(objective(many, data), abs=1e-8)
    assert LeaveOneOut()(one, data) - LeaveOneOut()(many, data) > 1.0
    error, _ = refitted(one, data, [[i] for i in range(N)])
    for model in (one, many):
        assert LeaveOneOut("squared error").error(model, data) == pytest.approx((error**2).mean(), rel=1e-8)


def test_in_expectation_rows_left_out_are_predicted_better_than_new_rows() -> None:
    """R&W, exercise 5.6.2 (T74): E Σ log p(y_i | rest) ≥ E log p(y), by draws and by Hadamard's inequality."""
    model, rng = MODELS["plain"], np.random.default_rng(1)
    C = KERNEL.gram(X) + 0.05 * np.eye(N)
    gap = 0.5 * (np.log(np.diag(np.linalg.inv(C))).sum() + np.linalg.slogdet(C)[1])
    draws = np.linalg.cholesky(C) @ rng.normal(size=(N, 300))
    found = np.array([LeaveOneOut()(model, Data(X, y)) - log_evidence(model, Data(X, y)) for y in draws.T])
    assert gap > 0
    assert found.mean() == pytest.approx(gap, abs=4 * found.std() / 300**0.5)


# learning -------------------------------------------------------------------------------------------------------


def step_data(seed: int) -> Data:
    x = np.linspace(-1, 1, 64)[:, None]
    return Data(x, np.where(x[:, 0] > 0, 1.0, -1.0) + 0.1 * np.random.default_rng(seed).normal(size=64))


@pytest.mark.parametrize("seed", [0, 1])
def test_a_step_makes_leave_one_out_choose_shorter_scales_and_less_noise(seed: int) -> None:
    """R&W, figures 5.9 and 5.10: the evidence of a wrong model prefers long scales and much noise."""
    data, start = step_data(seed), Model(GP(1.0 * SquaredExponential(lengthscale=0.3)), likelihood=Gaussian(0.05))
    by_evidence = learn(start, data, n_restarts=2)
    by_rows = learn(start, data, objective=LeaveOneOut(), n_restarts=2)
    assert by_rows.status == by_evidence.status == "converged"
    assert by_rows.value == pytest.approx(LeaveOneOut()(by_rows.model, data))
    assert by_rows.value > LeaveOneOut()(by_evidence.model, data)
    assert by_rows.kernel.kernel.lengthscale < by_evidence.kernel.kernel.lengthscale
    assert by_rows.likelihood.variance < by_evidence.likelihood.variance


@pytest.mark.parametrize(
    "objective",
    [
        LeaveOneOut(),
        KFold(5),
        LeaveOneOut("squared error"),
        GeneralisedCrossValidation(),
    ],
    ids=["log density", "folds", "squared error", "gcv"],
)
def test_learning_from_coarse_to_fine(objective: Any) -> None:
    """The coarse levels end where a search on all rows alone ends, in nats of the objective."""
    rng = np.random.default_rng(5)
    x = rng.uniform(0, 4, size=(820, 2))
    data = Data(x, 3 * np.sin(2 * x[:, 0]) * np.cos(x[:, 1]) + 0.3 * rng.normal(size=820))
    scaled = isinstance(objective, KFold) or objective == LeaveOneOut()
    variance: Any = 9.0 if scaled else fixed(9.0)
    start = Model(GP(variance * SquaredExponential(lengthscale=[1.0, 1.0]), mean=Constant(0.0)))
    fine = learn(start, data, objective=objective, coarse=False)
    coarse = learn(start, data, objective=objective)
    assert len(coarse.levels) > 1
    assert fine.status == coarse.status == "converged"
    assert abs(fine.value - coarse.value) < 0.1
    assert coarse.value == pytest.approx(objective(coarse.model, data))
    if scaled:
        assert coarse.likelihood.variance == pytest.approx(0.09, rel=0.25)
    else:
        assert objective.error(coarse.model, data) == pytest.approx(0.09, rel=0.25)


# refusals -------------------------------------------------------------------------------------------------------


def test_other_models_have_values_by_folds_only() -> None:
    labels, counts = np.where(Y > 0.5, 1.0, -1.0), np.random.default_rng(0).poisson(np.exp(Y)).astype(float)
    for likelihood, y, inference in ((Bernoulli(), labels, EP()), (Poisson(), counts, Laplace())):
        model, data = Model(GP(KERNEL), likelihood=likelihood), Data(X, y)
        for objective in (LeaveOneOut(), GeneralisedCrossValidation()):
            with pytest.raises(CovaryError, match=f"the likelihood is {type(likelihood).__name__}; use Gaussian noise"):
                objective(model, data)
        folds = KFold(4, inference=inference)
        expected = 0.0
        for rows in folds.rows(data):
            rest = np.setdiff1d(np.arange(N), rows)
            seen = condition(model, Data(X[rest], y[rest]), inference=inference).predict(X[rows])
            expected += seen.y.log_prob(y[rows]).sum()
        assert folds(model, data) == pytest.approx(expected, abs=1e-9)
        with pytest.raises(CovaryError, match="only Gaussian noise and exact algebra"):
            folds.value_and_grad(model, data)
    with pytest.raises(CovaryError, match="a squared error is requested for Bernoulli observations"):
        KFold(4, "squared error", inference=EP())(Model(GP(KERNEL), likelihood=Bernoulli()), Data(X, labels))
    three = Model(GP(KERNEL), likelihood=Softmax(3))
    with pytest.raises(CovaryError, match="the likelihood is Softmax"):
        LeaveOneOut()(three, Data(X, np.digitize(Y, [0.0, 0.8]).astype(float)))
    rough = KFold(4, gram=LowRank(N))(MODELS["plain"], DATA["plain"])
    assert rough == pytest.approx(KFold(4)(MODELS["plain"], DATA["plain"]), abs=1e-4)


def test_what_cannot_be_done_is_said() -> None:
    model, data = MODELS["plain"], DATA["plain"]
    with pytest.raises(CovaryError, match="loss is 'absolute'; choose 'log density' or 'squared error'"):
        LeaveOneOut("absolute")(model, data)
    with pytest.raises(CovaryError, match="loss is 'absolute'"):
        KFold(3, "absolute")(model, data)
    with pytest.raises(CovaryError, match="k is 27 for 26 rows"):
        KFold(27)(model, data)
    with pytest.raises(CovaryError, match=r"give Data\(X, y\)"):
        LeaveOneOut()(model, (X, Y))  # type: ignore[arg-type]
    twice = Data(np.concatenate([X, X]), np.concatenate([Y, Y]))
    with pytest.raises(NotPositiveDefinite, match="raise the noise or the jitter"):
        LeaveOneOut()(Model(GP(KERNEL), likelihood=Gaussian(fixed(0.0))), twice)
    assert np.isfinite(LeaveOneOut(jitter=1e-6)(Model(GP(KERNEL), likelihood=Gaussian(fixed(0.0))), twice))
    single = np.zeros((6, 1))
    single[2] = 1.0  # only this row tells the slope
    lone = Model(GP(1.0 * Matern52(), basis=LinearBasis()), likelihood=Gaussian(0.1))
    with pytest.raises(CovaryError, match="without row 2, the others do not determine the basis functions' weights"):
        LeaveOneOut()(lone, Data(single, np.arange(6.0)))
    with pytest.raises(CovaryError, match="do not determine the basis functions' weights; give more rows, or more folds"):
        KFold(6)(lone, Data(single, np.arange(6.0)))
    with pytest.raises(CovaryError, match="the error is exactly zero"):
        LeaveOneOut("squared error")(model, Data(X, np.zeros(N)))
