"""Low-rank grams compared with dense algebra: exact cases, bounds, and invariance under streaming."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from covary import GP, Data, Model, condition, log_evidence, log_evidence_and_grad
from covary._checks import CovaryError
from covary.data import as_inputs
from covary.gram import Dense, LowRank, low_rank
from covary.gram.inducing import greedy, select
from covary.inference import EP, Laplace
from covary.kernels import Linear, Matern52, SquaredExponential
from covary.likelihoods import Bernoulli, Gaussian, Poisson

RNG = np.random.default_rng(11)
X = RNG.uniform(-2.0, 2.0, size=(40, 2))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.1 * RNG.normal(size=40)
Z = RNG.uniform(-2.0, 2.0, size=(9, 2))
NEW = np.array([[0.3, 0.2], [1.5, -0.4], [-1.9, 1.9], [30.0, 30.0]])
KERNEL = 1.7 * Matern52([0.9, 1.4])
NOISE = 0.08
MODEL = Model(GP(KERNEL), likelihood=Gaussian(NOISE))
DATA = Data(X, Y)
RULES = ("sor", "sor+", "dtc", "fitc", "vfe", "power")


def k(a: Any, b: Any) -> np.ndarray:
    return np.asarray(KERNEL.cross(np.asarray(a), np.asarray(b)))


def dense(rule: str, power: float = 0.5) -> tuple[float, np.ndarray, np.ndarray]:
    """Evidence, mean and variance at NEW by dense algebra (R&W 8.14-8.17, 8.27; Snelson & Ghahramani; Titsias; Bui et al.)."""
    n = len(X)
    Q = k(X, Z) @ np.linalg.solve(k(Z, Z), k(Z, X))
    rest = np.diag(k(X, X) - Q)
    share = {"fitc": 1.0, "power": power}.get(rule, 0.0)
    C = Q + np.diag(share * rest) + NOISE * np.eye(n)
    value = -0.5 * (Y @ np.linalg.solve(C, Y) + np.linalg.slogdet(C)[1] + n * np.log(2 * np.pi))
    if rule == "vfe":
        value -= 0.5 * rest.sum() / NOISE
    if rule == "power":
        value -= (1 - power) / (2 * power) * np.log1p(power * rest / NOISE).sum()
    Qs = k(X, Z) @ np.linalg.solve(k(Z, Z), k(Z, NEW))
    if rule == "sor+":  # one more basis function at every new point
        means, spreads = [], []
        for x in NEW:
            more = np.vstack([Z, x])
            P = k(X, more) @ np.linalg.solve(k(more, more), k(more, X)) + NOISE * np.eye(n)
            cross = k(X, more) @ np.linalg.solve(k(more, more), k(more, x[None]))
            own = k(x[None], more) @ np.linalg.solve(k(more, more), k(more, x[None]))
            means.append(float((cross.T @ np.linalg.solve(P, Y)).item()))
            spreads.append(float((own - cross.T @ np.linalg.solve(P, cross)).item()))
        return value, np.array(means), np.array(spreads)
    mean = Qs.T @ np.linalg.solve(C, Y)
    own = np.diag(k(NEW, Z) @ np.linalg.solve(k(Z, Z), k(Z, NEW))) if rule == "sor" else np.diag(k(NEW, NEW))
    return value, mean, own - np.einsum("ij,ij->j", Qs, np.linalg.solve(C, Qs))


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_its_dense_formula(rule: str) -> None:
    value, mean, variance = dense(rule)
    post = condition(MODEL, DATA, gram=LowRank(Z, rule=rule, jitter=0.0))
    got = post.predict(NEW).f
    assert post.log_evidence == pytest.approx(value, abs=1e-8)
    np.testing.assert_allclose(got.mean, mean, atol=1e-8)
    np.testing.assert_allclose(got.variance, variance, atol=1e-8)


@pytest.mark.parametrize("rule", ["sor", "dtc", "vfe", "fitc"])
def test_products_are_with_the_nystrom_matrix(rule: str) -> None:
    """R&W, eq. 8.4: K_nm K_mm⁻¹ K_mn; FITC has the diagonal of K itself."""
    Q = k(X, Z) @ np.linalg.solve(k(Z, Z), k(Z, X))
    if rule == "fitc":
        np.fill_diagonal(Q, 1.7)
    B = np.random.default_rng(0).normal(size=(40, 3))
    bound = condition(MODEL, DATA, gram=LowRank(Z, rule=rule, jitter=0.0)).bound
    np.testing.assert_allclose(bound.matvec(B), Q @ B, atol=1e-9)
    np.testing.assert_allclose(bound.matvec(B[:, 0]), Q @ B[:, 0], atol=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_with_all_rows_as_inducing_inputs_nothing_is_approximated(rule: str) -> None:
    gram = LowRank(X, rule=rule, jitter=0.0)
    exact, near = condition(MODEL, DATA), condition(MODEL, DATA, gram=gram)
    assert near.log_evidence == pytest.approx(exact.log_evidence, abs=1e-8)
    np.testing.assert_allclose(near.predict(NEW).f.mean, exact.predict(NEW).f.mean, atol=1e-8)
    if rule != "sor":
        np.testing.assert_allclose(near.predict(NEW).f.variance, exact.predict(NEW).f.variance, atol=1e-8)
    slopes, truth = (log_evidence_and_grad(MODEL, DATA, **given)[1] for given in ({"gram": gram}, {}))
    np.testing.assert_allclose(slopes.kernel.kernel.lengthscale, truth.kernel.kernel.lengthscale, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(slopes.kernel.variance, truth.kernel.variance, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(slopes.likelihood.variance, truth.likelihood.variance, rtol=1e-6, atol=1e-8)


def test_subset_of_regressors_forgets_its_variance_and_the_repair_restores_it() -> None:
    far = len(NEW) - 1
    plain, repaired = (condition(MODEL, DATA, gram=LowRank(Z, rule=r)).predict(NEW).f.variance[far] for r in ("sor", "sor+"))
    assert plain < 1e-6
    assert repaired == pytest.approx(1.7, abs=1e-6)


def test_projected_process_has_the_mean_and_the_evidence_of_subset_of_regressors() -> None:
    one, other = (condition(MODEL, DATA, gram=LowRank(Z, rule=r)) for r in ("sor", "dtc"))
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-10)
    np.testing.assert_allclose(one.predict(NEW).f.mean, other.predict(NEW).f.mean, atol=1e-10)
    assert (other.predict(NEW).f.variance >= one.predict(NEW).f.variance).all()


def test_power_goes_from_vfe_to_fitc() -> None:
    for power, rule in ((0.0, "vfe"), (1.0, "fitc")):
        ends = [log_evidence(MODEL, DATA, gram=g) for g in (LowRank(Z, rule="power", power=power), LowRank(Z, rule=rule))]
        assert ends[0] == pytest.approx(ends[1], abs=1e-9)
    small = log_evidence(MODEL, DATA, gram=LowRank(Z, rule="power", power=1e-5))
    assert small == pytest.approx(log_evidence(MODEL, DATA, gram=LowRank(Z, rule="vfe")), abs=1e-2)


@pytest.mark.parametrize("rule", ["sor", "dtc", "fitc", "vfe", "power"])
def test_slopes_over_parameters_and_inducing_inputs(rule: str) -> None:
    from covary.inference import Exact

    gram = LowRank(Z, rule=rule, learned=True, jitter=0.0)
    bound = gram.bind((KERNEL,), DATA.X)
    solved = Exact().solve(MODEL, DATA, bound)
    found = Exact().gradient(MODEL, DATA, bound, solved)
    slope = found.model

    def value(change: dict[str, float], move: Any = 0.0) -> float:
        scales = np.array([0.9 + change.get("first", 0.0), 1.4])
        kernel = (1.7 + change.get("variance", 0.0)) * Matern52(scales)
        model = Model(GP(kernel), likelihood=Gaussian(NOISE + change.get("noise", 0.0)))
        return log_evidence(model, DATA, gram=LowRank(Z + move, rule=rule, jitter=0.0))

    for name, got in (
        ("first", slope.kernel.kernel.lengthscale[0]),
        ("variance", slope.kernel.variance),
        ("noise", slope.likelihood.variance),
    ):
        step = 1e-5
        assert float(got) == pytest.approx((value({name: step}) - value({name: -step})) / (2 * step), rel=1e-5, abs=1e-5)
    for i, j in ((0, 0), (5, 1)):
        move = np.zeros_like(Z)
        move[i, j] = 1e-5
        got = found.inducing[i, j]
        assert got == pytest.approx((value({}, move) - value({}, -move)) / 2e-5, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("rule", ["fitc", "vfe", "sor+"])
@pytest.mark.parametrize("keep", [2**30, 0])
def test_blocks_of_rows_change_nothing(rule: str, keep: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole_value, whole_slope = log_evidence_and_grad(MODEL, BIG, gram=LowRank(Z, rule=rule))
    whole = condition(MODEL, BIG, gram=LowRank(Z, rule=rule)).predict(NEW).f
    monkeypatch.setattr(low_rank, "BLOCK_BYTES", 1)  # the least: 1024 rows a block
    monkeypatch.setattr(low_rank, "KEEP_BYTES", keep)
    value, slope = log_evidence_and_grad(MODEL, BIG, gram=LowRank(Z, rule=rule))
    part = condition(MODEL, BIG, gram=LowRank(Z, rule=rule)).predict(NEW).f
    assert value == pytest.approx(whole_value, abs=1e-7)
    np.testing.assert_allclose(slope.kernel.kernel.lengthscale, whole_slope.kernel.kernel.lengthscale, rtol=1e-9)
    np.testing.assert_allclose(slope.likelihood.variance, whole_slope.likelihood.variance, rtol=1e-9)
    np.testing.assert_allclose(part.mean, whole.mean, atol=1e-9)
    np.testing.assert_allclose(part.variance, whole.variance, atol=1e-9)


MANY = RNG.uniform(-2.0, 2.0, size=(2500, 2))
BIG = Data(MANY, np.sin(2 * MANY[:, 0]) + 0.1 * RNG.normal(size=2500))


@pytest.mark.parametrize("seed", range(6))
def test_vfe_stays_below_the_evidence_and_rises_with_every_inducing_input(seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(50, 3))
    data = Data(inputs, np.cos(inputs[:, 0]) + 0.2 * rng.normal(size=50))
    model = Model(GP(rng.uniform(0.5, 2.0) * SquaredExponential(rng.uniform(0.7, 2.0, 3))), likelihood=Gaussian(0.05))
    exact = log_evidence(model, data)
    order = rng.permutation(50)
    values = [log_evidence(model, data, gram=LowRank(inputs[order[:m]], rule="vfe")) for m in (1, 3, 8, 20, 35, 50)]
    assert all(b >= a - 1e-6 for a, b in pairwise(values))
    assert max(values) <= exact + 1e-5
    assert values[-1] == pytest.approx(exact, abs=1e-3)


@pytest.mark.parametrize("inference", [Laplace(), EP()], ids=["laplace", "ep"])
def test_generalised_fitc_with_all_rows_is_exact_under_other_likelihoods(inference: Any) -> None:
    labels = (Y > 0.5).astype(float)
    model = Model(GP(KERNEL), likelihood=Bernoulli("probit"))
    full, near = (condition(model, Data(X, labels), inference=inference, gram=g) for g in (Dense(), LowRank(X, jitter=0)))
    assert near.log_evidence == pytest.approx(full.log_evidence, abs=1e-7)
    np.testing.assert_allclose(near.predict(NEW).f.variance, full.predict(NEW).f.variance, atol=1e-6)


def test_counts_through_inducing_inputs_have_the_right_slopes() -> None:
    counts = np.random.default_rng(3).poisson(np.exp(0.4 * Y)).astype(float)
    data = Data(X, counts)

    def model(scale: float) -> Model:
        return Model(GP(0.8 * Matern52([scale, 1.4])), likelihood=Poisson())

    _, slope = log_evidence_and_grad(model(0.9), data, inference=Laplace(), gram=LowRank(Z))
    up, down = (log_evidence(model(0.9 + s), data, inference=Laplace(), gram=LowRank(Z)) for s in (1e-5, -1e-5))
    assert slope.kernel.kernel.lengthscale[0] == pytest.approx((up - down) / 2e-5, rel=1e-5)


# which inducing inputs ------------------------------------------------------------------------------------------------


def test_the_greedy_rule_is_a_pivoted_cholesky_factorisation() -> None:
    got = greedy(KERNEL, as_inputs(X, "test"), 6)
    K = k(X, X)
    chosen: list[int] = []
    for _ in range(6):
        if chosen:
            rest = np.diag(K) - np.einsum("ij,ji->i", K[:, chosen], np.linalg.solve(K[np.ix_(chosen, chosen)], K[chosen]))
        else:
            rest = np.diag(K).copy()
        chosen.append(int(np.argmax(rest)))
    assert got.tolist() == chosen
    line = np.outer(np.arange(1.0, 13.0), [1.0, -2.0])  # rank one: every further pivot is nearly zero
    assert greedy(Linear(), as_inputs(line, "test"), 6).tolist() == [11]


@pytest.mark.parametrize("count", [12, 30])
def test_leverage_scores_are_the_weights_of_the_draw(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a row i the score (k_ii − k_iS (K_SS + λI)⁻¹ k_Si)/λ; where S is all rows, it is [K (K + λI)⁻¹]_ii."""
    rng, calls = np.random.default_rng(2), []

    class Recorder:
        def choice(self, n: int, size: int, replace: bool, p: np.ndarray | None = None) -> np.ndarray:
            got = rng.choice(n, size, replace=replace, p=p)
            calls.append((got, p))
            return got

    monkeypatch.setattr(np.random, "default_rng", lambda key: Recorder())
    found = select("leverage", KERNEL, as_inputs(X, "test"), count, noise=NOISE)
    (sample, _), (drawn, p) = calls
    S, ridge = X[np.sort(sample)], NOISE * np.eye(len(sample))
    score = (1.7 - np.einsum("ij,ji->i", k(X, S), np.linalg.solve(k(S, S) + ridge, k(S, X)))) / NOISE
    np.testing.assert_allclose(p, score / score.sum(), rtol=1e-9)
    if len(sample) == len(X):
        np.testing.assert_allclose(score, np.diag(k(X, X) @ np.linalg.inv(k(X, X) + ridge)), rtol=1e-7)
    assert len(sample) == min(2 * count, len(X))
    np.testing.assert_array_equal(found, X[np.sort(drawn)])


@pytest.mark.parametrize("rule", ["greedy", "kmeans", "leverage", "random"])
def test_rules_give_distinct_places_among_the_data(rule: str) -> None:
    found = select(rule, KERNEL, as_inputs(X, "test"), 7, key=1)
    assert found.shape == (7, 2)
    assert len(np.unique(found, axis=0)) == 7
    assert (found >= X.min(0) - 1e-9).all()
    assert (found <= X.max(0) + 1e-9).all()
    np.testing.assert_array_equal(found, select(rule, KERNEL, as_inputs(X, "test"), 7, key=1))


def test_good_rules_leave_no_row_behind() -> None:
    inputs = np.concatenate([RNG.normal(size=(400, 2)) * 0.1, RNG.normal(size=(30, 2)) + 4])
    left = {}
    for rule in ("greedy", "random", "leverage", "kmeans"):
        each = []
        for key in range(5):
            some = select(rule, KERNEL, as_inputs(inputs, "test"), 15, key=key)
            each.append((1.7 - np.einsum("ij,ji->i", k(inputs, some), np.linalg.solve(k(some, some), k(some, inputs)))).max())
        left[rule] = np.mean(each)
    assert left["greedy"] < 0.6 * left["random"]
    assert left["leverage"] < left["random"]
    assert left["kmeans"] < left["random"]


@pytest.mark.parametrize("rule", ["greedy", "kmeans", "leverage", "random"])
def test_more_inducing_inputs_than_distinct_rows_are_the_rows(rule: str) -> None:
    twice = np.repeat(X[:5], 3, axis=0)
    found = select(rule, KERNEL, as_inputs(twice, "test"), 40)
    assert found.shape == (5, 2)
    data = Data(twice, np.arange(15.0))
    near, exact = (log_evidence(MODEL, data, gram=g) for g in (LowRank(40, select=rule, jitter=0.0), Dense()))
    assert near == pytest.approx(exact, abs=1e-7)


def test_all_rows_alike_and_constant_columns() -> None:
    same = Data(np.ones((12, 2)), np.arange(12.0))
    exact = log_evidence(MODEL, same)
    assert log_evidence(MODEL, same, gram=LowRank(4, jitter=0.0)) == pytest.approx(exact, abs=1e-7)
    column = np.column_stack([X[:, 0], np.full(40, 3.0)])
    post = condition(MODEL, Data(column, Y), gram=LowRank(10))
    assert np.isfinite(post.predict(column[:3]).f.variance).all()


def test_duplicate_inducing_inputs_get_the_jitter_they_need() -> None:
    post = condition(MODEL, DATA, gram=LowRank(np.vstack([Z, Z]), rule="vfe", jitter=0.0))
    once = condition(MODEL, DATA, gram=LowRank(Z, rule="vfe", jitter=0.0))
    assert post.factor.jitter > 0
    assert post.log_evidence == pytest.approx(once.log_evidence, abs=1e-4)


@pytest.mark.parametrize(
    ("gram", "sentence"),
    [
        (LowRank(Z, rule="sparse"), "rule is 'sparse'"),
        (LowRank(5, select="best"), "select is 'best'"),
        (LowRank(0), "give how many inducing inputs"),
        (LowRank(2.5), "give how many inducing inputs"),
        (LowRank(Z[:, :1]), "1 column and X has 2"),
        (LowRank(Z, rule="power", power=1.5), "between 0"),
    ],
)
def test_what_makes_no_sense_is_refused(gram: Any, sentence: str) -> None:
    with pytest.raises(CovaryError, match=sentence):
        condition(MODEL, DATA, gram=gram)


def test_zero_noise_needs_the_whole_matrix() -> None:
    from covary.kernels import fixed

    model = Model(GP(KERNEL), likelihood=Gaussian(fixed(0.0)))
    with pytest.raises(CovaryError, match="the noise is zero"):
        condition(model, DATA, gram=LowRank(Z, rule="vfe"))


@pytest.mark.filterwarnings("ignore:.*Nyström")
def test_the_nystrom_method_replaces_only_the_covariance_of_the_rows() -> None:
    """R&W, section 8.3.2, in dense algebra; the covariance with new inputs is exact, and a negative variance becomes zero."""
    C = k(X, Z) @ np.linalg.solve(k(Z, Z), k(Z, X)) + NOISE * np.eye(len(X))
    cross = k(X, NEW)
    variance = 1.7 - np.einsum("ij,ij->j", cross, np.linalg.solve(C, cross))
    got = condition(MODEL, DATA, gram=LowRank(Z, rule="nystrom", jitter=0.0)).predict(NEW).f
    np.testing.assert_allclose(got.mean, cross.T @ np.linalg.solve(C, Y), atol=1e-8)
    np.testing.assert_allclose(got.variance, np.maximum(variance, 0.0), atol=1e-8)
    assert variance.max() > 0.1


def test_nystrom_warns_where_its_variance_is_negative() -> None:
    line = np.linspace(0, 1, 50)[:, None]
    model = Model(GP(SquaredExponential(0.1)), likelihood=Gaussian(1e-3))
    with pytest.warns(UserWarning, match="Nyström"):
        condition(model, Data(line, np.sin(9 * line[:, 0])), gram=LowRank(line[:6], rule="nystrom")).predict(line)
