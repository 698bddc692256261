"""Committees in cases with known results: one expert, two, far from data, independent blocks, and the printed algorithms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covary import GP, Data, Model, condition, learn, log_evidence, log_evidence_and_grad
from covary._checks import CovaryError
from covary.committee import BCM, GRBCM, RBCM, RULES, Committee, GPoE, PoE, combine, entropy_drop, joint_bcm
from covary.committee.settings import posterior as posterior_of
from covary.gram import LowRank
from covary.inference import EP, Exact, Laplace
from covary.likelihoods import Bernoulli, Gaussian, Poisson, Softmax
from covary.means import Constant
from covary.parameters import Packing
from covary.prediction import Spread

RNG = np.random.default_rng(11)
X = RNG.uniform(-2, 2, (60, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(60)
NEW = RNG.uniform(-2.5, 2.5, (25, 2))
MODEL = Model(GP("1.3 * Matern52(lengthscale=[0.8, 1.5])"), likelihood=Gaussian(0.02))
DATA = Data(X, Y)
EXACT_ALONE = ("poe", "gpoe", "bcm", "grbcm", "nearest")


def k(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The kernel of MODEL, written again."""
    r = np.sqrt(5 * ((((a[:, None] - b[None]) / [0.8, 1.5]) ** 2).sum(-1)))
    return 1.3 * (1 + r + r**2 / 3) * np.exp(-r)


def gp(x: np.ndarray, y: np.ndarray, at: np.ndarray, noise: float = 0.02) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance by the textbook."""
    A = np.linalg.inv(k(x, x) + noise * np.eye(len(x)))
    return k(at, x) @ A @ y, k(at, at) - k(at, x) @ A @ k(x, at)


def height(x: np.ndarray, y: np.ndarray, noise: float = 0.02) -> float:
    """The log evidence by the textbook."""
    C = k(x, x) + noise * np.eye(len(x))
    return float(-0.5 * y @ np.linalg.solve(C, y) - 0.5 * np.linalg.slogdet(2 * np.pi * C)[1])


# one expert ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("rule", EXACT_ALONE)
def test_one_expert_is_the_exact_model(rule: str) -> None:
    found = condition(MODEL, DATA, gram=Committee(1, rule=rule))
    exact = condition(MODEL, DATA)
    np.testing.assert_allclose(found.predict(NEW).f.mean, exact.predict(NEW).f.mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.predict(NEW).y.variance, exact.predict(NEW).y.variance, rtol=0, atol=1e-10)
    assert found.log_evidence == pytest.approx(exact.log_evidence, abs=1e-9)
    np.testing.assert_allclose(found.predict(NEW).y.log_prob(NEW[:, 0]), exact.predict(NEW).y.log_prob(NEW[:, 0]), atol=1e-9)


def test_one_robust_expert_is_not_and_by_how_much() -> None:
    mean, covariance = gp(X, Y, NEW)
    v = np.diagonal(covariance)
    beta = 0.5 * (np.log(1.3) - np.log(v))
    precision = beta / v + (1 - beta) / 1.3
    found = condition(MODEL, DATA, gram=Committee(1, rule="rbcm")).predict(NEW).f
    np.testing.assert_allclose(found.variance, 1 / precision, rtol=1e-9)
    np.testing.assert_allclose(found.mean, beta / v * mean / precision, rtol=1e-8, atol=1e-10)
    known, unknown = v < 0.05 * 1.3, v > 0.5 * 1.3
    assert known.any()
    assert unknown.any()
    assert (found.variance[known] < v[known]).all()  # too sure where it knows much
    assert (found.variance[unknown] > v[unknown]).all()  # less sure where it knows little
    same = Spread(np.array([0.7]), np.array([1.3 * np.exp(-2)]))  # the one variance at which its weight is one
    np.testing.assert_allclose(combine("rbcm", [same], Spread(np.zeros(1), np.full(1, 1.3))).variance, same.variance)


@pytest.mark.parametrize(
    ("likelihood", "inference", "y"),
    [
        (Bernoulli("logit"), Laplace(), (Y > 0).astype(float)),
        (Bernoulli("probit"), EP(), (Y > 0).astype(float)),
        (Poisson(), Laplace(), RNG.poisson(np.exp(0.5 * Y)).astype(float)),
        (Softmax(3), Laplace(), np.digitize(Y, [-0.7, 0.7]).astype(float)),
    ],
    ids=["laplace", "ep", "counts", "softmax"],
)
def test_one_expert_under_other_likelihoods(likelihood: Any, inference: Any, y: np.ndarray) -> None:
    model = Model(MODEL.prior, likelihood=likelihood)
    exact = condition(model, Data(X, y), inference=inference)
    for rule in ("bcm", "poe", "grbcm"):
        found = condition(model, Data(X, y), inference=inference, gram=Committee(1, rule=rule))
        np.testing.assert_allclose(found.predict(NEW).f.mean, exact.predict(NEW).f.mean, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found.predict(NEW).y.mean, exact.predict(NEW).y.mean, rtol=0, atol=1e-9)
        assert found.log_evidence == pytest.approx(exact.log_evidence, abs=1e-9)


@pytest.mark.parametrize("rule", ["bcm", "poe", "rbcm"])
def test_experts_on_classes_combine_their_latent_functions(rule: str) -> None:
    """R&W, section 8.4: each expert's approximate posterior of f, combined as in regression, then averaged over."""
    model, labels = Model(MODEL.prior, likelihood=Bernoulli("logit")), (Y > 0).astype(float)
    halves = [condition(model, Data(X[part], labels[part]), inference=Laplace()) for part in (slice(30), slice(30, 60))]
    said = [half.predict(NEW).f for half in halves]
    precision, weighted = np.zeros(25), np.zeros(25)
    for f in said:
        beta = 0.5 * np.log(1.3 / f.variance) if rule == "rbcm" else 1.0
        precision += beta / f.variance - (0.0 if rule == "poe" else beta / 1.3)
        weighted += beta * f.mean / f.variance
    variance = 1 / (precision + (0.0 if rule == "poe" else 1 / 1.3))
    found = condition(model, Data(X, labels), inference=Laplace(), gram=Committee(2, rule=rule, partition="arrival")).predict(
        NEW
    )
    np.testing.assert_allclose(found.f.variance, variance, rtol=1e-8)
    np.testing.assert_allclose(found.f.mean, variance * weighted, atol=1e-9)
    np.testing.assert_allclose(found.y.mean, Bernoulli("logit").predictive(variance * weighted, variance).mean, atol=1e-9)


def test_an_expert_may_be_low_rank() -> None:
    gram = LowRank(20)
    found = condition(MODEL, DATA, gram=Committee(1, rule="bcm", gram=gram))
    alone = condition(MODEL, DATA, gram=gram)
    np.testing.assert_allclose(found.predict(NEW).f.mean, alone.predict(NEW).f.mean, atol=1e-10)
    assert found.log_evidence == pytest.approx(alone.log_evidence)


# two experts and more -------------------------------------------------------------------------------------------------
def test_two_experts_that_share_are_exact() -> None:
    found = condition(MODEL, DATA, gram=Committee(2, rule="grbcm"))
    mean, covariance = gp(X, Y, NEW)
    np.testing.assert_allclose(found.predict(NEW).f.mean, mean, atol=1e-10)
    np.testing.assert_allclose(found.predict(NEW).f.variance, np.diagonal(covariance), atol=1e-10)
    assert found.log_evidence == pytest.approx(height(X, Y), abs=1e-8)


def parted(rule: str, experts: int = 4, **more: Any) -> tuple[Any, list[np.ndarray], np.ndarray | None]:
    """A committee, and who has which rows."""
    post = condition(MODEL, DATA, gram=Committee(experts, rule=rule, **more))
    return post, post.experts.settled.rows, post.experts.settled.shared


@pytest.mark.parametrize("rule", ["poe", "gpoe", "bcm", "rbcm"])
def test_the_rules_are_their_formulas(rule: str) -> None:
    post, rows, _ = parted(rule)
    each = [gp(X[r], Y[r], NEW) for r in rows]
    mu, v = np.stack([m for m, _ in each]), np.stack([np.diagonal(C) for _, C in each])
    M = len(rows)
    beta = {"poe": np.ones_like(v), "gpoe": np.full_like(v, 1 / M), "bcm": np.ones_like(v)}.get(rule)
    beta = 0.5 * (np.log(1.3) - np.log(v)) if beta is None else beta
    correction = 0.0 if rule in ("poe", "gpoe") else (1 - beta.sum(0)) / 1.3
    variance = 1 / ((beta / v).sum(0) + correction)
    found = post.predict(NEW)
    np.testing.assert_allclose(found.f.variance, variance, rtol=1e-8)
    np.testing.assert_allclose(found.f.mean, variance * (beta * mu / v).sum(0), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.y.variance, variance + 0.02, rtol=1e-8)
    expected = -0.5 * (np.log(2 * np.pi * found.y.variance) + (0.3 - found.y.mean) ** 2 / found.y.variance)
    np.testing.assert_allclose(found.y.log_prob(np.full(25, 0.3)), expected)


def test_sharing_experts_are_their_formula() -> None:
    post, rows, shared = parted("grbcm")
    assert shared is not None
    assert sorted(np.concatenate([*rows, shared])) == list(range(60))
    mean, C = gp(X[shared], Y[shared], NEW)
    v0, total, shift, weights = np.diagonal(C), 0.0, 0.0, 0.0
    owner = post.experts.settled.splitter.assign(NEW)  # the nearest expert goes first
    for number, r in enumerate(rows):
        both = np.concatenate([shared, r])
        m, C = gp(X[both], Y[both], NEW)
        v = np.diagonal(C)
        beta = np.where(owner == number, 1.0, 0.5 * (np.log(v0) - np.log(v)))
        total, shift, weights = total + beta / v, shift + beta * m / v, weights + beta
    variance = 1 / (total + (1 - weights) / v0)
    np.testing.assert_allclose(post.predict(NEW).f.variance, variance, rtol=1e-7)
    np.testing.assert_allclose(post.predict(NEW).f.mean, variance * (shift + (1 - weights) * mean / v0), rtol=1e-6, atol=1e-9)
    base = height(X[shared], Y[shared])
    given = [height(X[both], Y[both]) - base for both in (np.concatenate([shared, r]) for r in rows)]
    assert post.log_evidence == pytest.approx(base + sum(given), abs=1e-7)


def test_reference_values() -> None:
    said = [Spread(np.array([m]), np.array([v])) for m, v in ((1.0, 0.5), (2.0, 0.2), (0.0, 0.9))]
    prior = Spread(np.zeros(1), np.ones(1))
    beta = [float(entropy_drop(s, prior)[0]) for s in said]
    np.testing.assert_allclose(beta, [0.34657359, 0.80471896, 0.05268026], atol=1e-8)
    expected = {
        "poe": (1.479452055, 0.123287671),
        "gpoe": (1.479452055, 0.369863014),
        "bcm": (1.963636364, 0.163636364),
        "rbcm": (1.912001276, 0.218756020),
    }
    for rule, (mean, variance) in expected.items():
        found = combine(rule, said, prior)
        np.testing.assert_allclose([found.mean[0], found.variance[0]], [mean, variance], atol=1e-9)


def test_far_from_data() -> None:
    far = np.full((1, 2), 80.0)
    variance = {rule: float(parted(rule)[0].predict(far).f.variance[0]) for rule in RULES if rule != "nearest"}
    assert variance["poe"] == pytest.approx(1.3 / 4, rel=1e-6)
    for rule in ("gpoe", "bcm", "rbcm", "grbcm"):
        assert variance[rule] == pytest.approx(1.3, rel=1e-6)
    entropy = condition(MODEL, DATA, gram=Committee(4, rule=GPoE("entropy"))).predict(far).f
    np.testing.assert_allclose([entropy.variance[0], entropy.mean[0]], [1.3, 0.0], atol=1e-6)


def test_a_mean_function_is_found_again_far_away() -> None:
    model = Model(GP("1.3 * Matern52()", mean=Constant(3.0)), likelihood=Gaussian(0.02))
    for rule in ("bcm", "rbcm", "grbcm", "gpoe"):
        found = condition(model, DATA, gram=Committee(4, rule=rule)).predict(np.full((1, 2), 80.0)).f
        assert found.mean[0] == pytest.approx(3.0)


def test_an_expert_that_knows_nothing() -> None:
    prior = Spread(np.zeros(3), np.ones(3))
    said = [Spread(np.array([0.3, -1.0, 2.0]), np.array([0.2, 0.5, 0.9]))]
    for rule, unchanged in (("rbcm", True), ("bcm", True), ("poe", False)):
        before, after = combine(rule, said, prior), combine(rule, [*said, prior], prior)
        assert np.allclose(before.variance, after.variance) == unchanged
        assert np.allclose(before.mean, after.mean) == unchanged


# sums and trees -------------------------------------------------------------------------------------------------------
@settings(max_examples=60, deadline=None)
@given(st.integers(2, 9), st.integers(0, 10**6), st.sampled_from([PoE(), GPoE(), GPoE("entropy"), BCM(), RBCM(), GRBCM()]))
def test_any_tree_of_experts_is_the_flat_committee(experts: int, seed: int, rule: Any) -> None:
    rng = np.random.default_rng(seed)
    prior = Spread(rng.normal(size=4), rng.uniform(0.5, 2.0, 4))
    said = [Spread(rng.normal(size=4), prior.variance * rng.uniform(0.01, 1.0, 4)) for _ in range(experts)]
    parts = [rule.opinion(s, prior, i == 0) for i, s in enumerate(said)]
    flat = rule.verdict(sum_of(parts))
    while len(parts) > 1:  # join two neighbours at random until one is left
        i = int(rng.integers(len(parts) - 1))
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    tree = rule.verdict(parts[0])
    np.testing.assert_allclose(tree.mean, flat.mean, rtol=1e-12)
    np.testing.assert_allclose(tree.variance, flat.variance, rtol=1e-12)
    if rule.corrected:  # never less sure than what everybody started from
        assert (flat.variance <= prior.variance * (1 + 1e-12)).all()


def sum_of(parts: list[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def test_nesting_finished_answers_is_not_the_same_for_robust_weights() -> None:
    prior = Spread(np.zeros(1), np.ones(1))
    said = [Spread(np.array([m]), np.array([v])) for m, v in ((1.0, 0.5), (2.0, 0.2), (0.0, 0.9), (1.0, 0.3))]
    for rule, same in (("poe", True), ("bcm", True), ("rbcm", False)):
        nested = combine(rule, [combine(rule, said[:2], prior), combine(rule, said[2:], prior)], prior)
        assert np.allclose(nested.variance, combine(rule, said, prior).variance) == same


# where committees are right ---------------------------------------------------------------------------------------------
def test_parts_that_do_not_touch() -> None:
    near, far = RNG.uniform(0, 1, (12, 2)), RNG.uniform(0, 1, (12, 2)) + 100
    x, at = np.concatenate([near, far]), RNG.uniform(0, 1, (5, 2))
    y = np.sin(x.sum(1))
    mean, covariance = gp(x, y, at)
    prior = Spread(np.zeros(5), np.full(5, 1.3))
    said = [Spread(m, np.diagonal(C)) for m, C in (gp(near, y[:12], at), gp(far, y[12:], at))]
    found = combine("bcm", said, prior)
    np.testing.assert_allclose(found.mean, mean, atol=1e-9)
    np.testing.assert_allclose(found.variance, np.diagonal(covariance), atol=1e-9)
    for rule in ("poe", "rbcm"):
        assert not np.allclose(combine(rule, said, prior).variance, np.diagonal(covariance), rtol=1e-3)
    # two uncorrelated one-point experts that each take 0.3 of a unit variance: exactly 0.4 is left, the committee says 0.538
    each = Spread(np.zeros(1), np.full(1, 0.7))
    left = combine("bcm", [each, each], Spread(np.zeros(1), np.ones(1))).variance[0]
    assert left == pytest.approx(1 / (2 / 0.7 - 1))
    assert abs(left - 0.4) > 0.1


def test_sharing_experts_improve_with_rows_where_others_do_not() -> None:
    model = Model(GP("SquaredExponential(lengthscale=0.1)"), likelihood=Gaussian(0.05))
    lost = {rule: {200: 0.0, 1600: 0.0} for rule in ("poe", "rbcm", "grbcm")}
    for seed in range(4):
        rng = np.random.default_rng(seed)
        at = rng.uniform(0, 1, (200, 1))
        truth = np.sin(9 * at[:, 0]) * np.cos(23 * at[:, 0])
        for n in (200, 1600):
            x = rng.uniform(0, 1, (n, 1))
            y = np.sin(9 * x[:, 0]) * np.cos(23 * x[:, 0]) + np.sqrt(0.05) * rng.standard_normal(n)
            for rule, found in lost.items():
                post = condition(model, Data(x, y), gram=Committee(n // 100, rule=rule, partition="random"))
                found[n] -= float(post.predict(at).f.log_prob(truth).mean()) / 4
    assert lost["grbcm"][1600] < lost["grbcm"][200] - 0.1  # nats a row, of the function itself
    assert lost["poe"][1600] > lost["poe"][200] + 3
    assert lost["rbcm"][1600] > lost["rbcm"][200] + 3


# jointly (R&W, eqs. 8.29, 8.30) -------------------------------------------------------------------------------------------
def test_joint_committee_machine_on_a_block() -> None:
    post, rows, _ = parted("bcm", 3)
    each = [gp(X[r], Y[r], NEW) for r in rows]
    K = k(NEW, NEW)
    precision = -2 * np.linalg.inv(K) + sum(np.linalg.inv(C) for _, C in each)
    covariance = np.linalg.inv(precision)
    mean = covariance @ sum(np.linalg.solve(C, m) for m, C in each)
    found = joint_bcm(np.stack([m for m, _ in each]), np.stack([C for _, C in each]), np.zeros(25), K)
    np.testing.assert_allclose(found.covariance, covariance, atol=1e-6)
    np.testing.assert_allclose(found.mean, mean, atol=1e-6)
    np.testing.assert_allclose(post.covariance(NEW), covariance, atol=1e-6)
    one = joint_bcm(np.stack([m[:1] for m, _ in each]), np.stack([C[:1, :1] for _, C in each]), np.zeros(1), K[:1, :1])
    np.testing.assert_allclose(one.variance, post.predict(NEW[:1]).f.variance, rtol=1e-6)  # one input: as input by input
    exact = gp(X, Y, NEW)[1]
    alone = post.predict(NEW).f.variance
    assert np.abs(np.diagonal(covariance) - np.diagonal(exact)).mean() < np.abs(alone - np.diagonal(exact)).mean()


@pytest.mark.parametrize("rule", ["poe", "gpoe", "bcm"])
def test_the_diagonal_of_the_joint_covariance_is_the_variance_where_inputs_do_not_help_each_other(rule: str) -> None:
    """One input alone, or inputs far from each other; within a block the two are different things."""
    post = parted(rule, 3)[0]
    one = post.predict(NEW[:1], covariance=True).f
    np.testing.assert_allclose(one.covariance, one.variance[:, None], rtol=1e-9)
    far = NEW[0] + 1e3 * np.arange(6)[:, None]
    apart = post.predict(far, covariance=True).f
    np.testing.assert_allclose(np.diagonal(apart.covariance), apart.variance, rtol=1e-9)
    block = post.predict(NEW, covariance=True).f
    assert np.abs(np.diagonal(block.covariance) / block.variance - 1).max() > 0.05


def test_how_far_the_diagonal_is_from_the_variances_input_by_input() -> None:
    """The figures of the page about committees: medians of the standard deviation over the exact one."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 6, (120, 1)), axis=0)
    data = Data(x, np.sin(2 * x[:, 0]) + 0.1 * rng.standard_normal(120))
    model, at = Model(GP("Matern52(lengthscale=0.7)"), likelihood=Gaussian(0.01)), np.linspace(-0.5, 6.5, 40)[:, None]
    exact = condition(model, data).predict(at).f.std
    post = condition(model, data, gram=Committee(4, rule="bcm", partition="random", nearest=None))
    f = post.predict(at, covariance=True).f
    assert np.median(f.std / exact) == pytest.approx(0.93, abs=0.01)
    assert np.median(np.sqrt(np.diagonal(f.covariance)) / exact) == pytest.approx(1.0, abs=0.01)


# rows left out ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("rule", ["poe", "gpoe", "bcm", "rbcm", "grbcm", "nearest"])
def test_a_row_left_out_is_what_a_committee_without_it_says(rule: str) -> None:
    post, rows, shared = parted(rule, 4)
    found, said = post.left_out()
    assert sorted(found) == sorted(np.concatenate(rows))
    settled = post.experts.settled
    for i in found[::9]:
        less = replace(settled, rows=[r[r != i] for r in rows])
        other = post.experts.held  # the same experts, one of them without the row
        committee = Committee(4, rule=rule).replace(settled=less)
        without = posterior_of(committee, MODEL, MODEL, DATA, committee.held(DATA), less.common(DATA), Exact())
        expected = without.predict(X[i : i + 1]).f
        where = int(np.flatnonzero(found == i)[0])
        np.testing.assert_allclose(said.mean[where], expected.mean[0], rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(said.variance[where], expected.variance[0], rtol=1e-6)
        assert other.total == 60 - (0 if shared is None else len(shared))


# learning ------------------------------------------------------------------------------------------------------------------
def test_evidence_and_slopes_are_those_of_a_block_diagonal_covariance() -> None:
    settled, _ = Committee(4, rule="rbcm").prepare(MODEL, DATA)
    rows = settled.settled.rows
    block = np.zeros((60, 60))
    for r in rows:
        block[np.ix_(r, r)] = k(X[r], X[r])
    C = block + 0.02 * np.eye(60)
    expected = -0.5 * Y @ np.linalg.solve(C, Y) - 0.5 * np.linalg.slogdet(2 * np.pi * C)[1]
    value, gradient = log_evidence_and_grad(MODEL, DATA, gram=settled)
    assert value == pytest.approx(expected, abs=1e-8)
    assert log_evidence(MODEL, DATA, gram=settled) == pytest.approx(expected, abs=1e-8)
    packing = Packing(MODEL)
    theta = packing.pack(MODEL)
    slope = packing.pull(MODEL, gradient)
    for i in range(packing.size):
        up, down = theta.copy(), theta.copy()
        up[i] += 1e-5
        down[i] -= 1e-5
        change = log_evidence(packing.unpack(up), DATA, gram=settled) - log_evidence(packing.unpack(down), DATA, gram=settled)
        assert slope[i] == pytest.approx(change / 2e-5, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("learning", ["levels", "full"])
def test_one_expert_learns_what_the_exact_model_learns(learning: str) -> None:
    exact = learn(MODEL, DATA)
    found = learn(MODEL, DATA, gram=Committee(1, rule="bcm", learning=learning))
    assert found.value == pytest.approx(exact.value, abs=0.02)
    np.testing.assert_allclose(found.theta, exact.theta, atol=0.15)


def test_stochastic_steps_end_near_the_optimum_of_all_experts() -> None:
    rng = np.random.default_rng(5)
    x = rng.uniform(-3, 3, (1200, 1))
    data = Data(x, np.sin(2 * x[:, 0]) + 0.2 * rng.standard_normal(1200))
    model = Model(GP("1.0 * Matern52()"), likelihood=Gaussian(0.1))
    full = learn(model, data, gram=Committee(12, rule="rbcm", partition="random", learning="full"))
    steps = learn(model, data, gram=Committee(12, rule="rbcm", partition="random", learning="stochastic"))
    settled = full.gram
    gap = log_evidence(full.model, data, gram=settled) - log_evidence(steps.model, data, gram=settled)
    assert abs(gap) < 2.0  # of some hundreds
    assert steps.likelihood.variance == pytest.approx(0.04, rel=0.15)


def test_independent_experts_are_the_printed_algorithm() -> None:
    """Algorithm 2 of the seed, line by line: independent fits, and the accumulation with one prior for each."""
    committee = Committee(3, rule="rbcm", learning="independent")
    fit = learn(MODEL, DATA, gram=committee)
    post = condition(fit, DATA, gram=committee)
    rows, models = post.experts.settled.rows, post.experts.models
    assert len({float(m.likelihood.variance) for m in models.values()}) == 3  # each its own
    M, precision, weighted = 3, np.zeros(25), np.zeros(25)
    for r, model in zip(rows, models.values(), strict=True):
        alone = condition(model, Data(X[r], Y[r])).predict(NEW).f
        prior = float(model.kernel.gram(np.zeros((1, 2)))[0, 0])
        beta = 0.5 * (np.log(prior) - np.log(alone.variance))
        precision += beta / alone.variance + (1 / M - beta) / prior
        weighted += beta / alone.variance * alone.mean
    np.testing.assert_allclose(post.predict(NEW).f.variance, 1 / precision, rtol=1e-7)
    np.testing.assert_allclose(post.predict(NEW).f.mean, weighted / precision, rtol=1e-6, atol=1e-9)
    assert fit.value >= sum(height(X[r], Y[r]) for r in rows)


# several latent functions ---------------------------------------------------------------------------------------------------
def test_several_latent_functions_that_do_not_mix_are_each_a_committee_of_its_own() -> None:
    rng = np.random.default_rng(2)
    prior = Spread(np.zeros((4, 3)), np.tile(np.diag([1.0, 1.0, 1.0]), (4, 1, 1)))
    v = rng.uniform(0.1, 0.9, (2, 4))
    said = [Spread(rng.normal(size=(4, 3)), v[i][:, None, None] * np.eye(3)) for i in range(2)]
    for rule in ("poe", "bcm", "rbcm", "gpoe"):
        found = combine(rule, said, prior)
        for c in range(3):
            alone = combine(rule, [Spread(s.mean[:, c], s.variance[:, c, c]) for s in said], Spread(np.zeros(4), np.ones(4)))
            np.testing.assert_allclose(found.mean[:, c], alone.mean)
            np.testing.assert_allclose(found.variance[:, c, c], alone.variance)


@pytest.mark.parametrize("rule", ["rbcm", "bcm", "nearest"])
def test_leave_one_out_of_all_rows_is_that_of_the_drawn_ones(rule: str) -> None:
    post = parted(rule, 4)[0]
    whole, (rows, said) = post.leave_one_out(), post.left_out(most=20)
    np.testing.assert_allclose(whole.mean[rows], said.mean, rtol=1e-12)
    np.testing.assert_allclose(whole.variance[rows], said.variance, rtol=1e-12)
    np.testing.assert_allclose(whole.y.variance, whole.variance + 0.02)
    expected = -0.5 * (np.log(2 * np.pi * whole.y.variance) + (Y - whole.mean) ** 2 / whole.y.variance)
    np.testing.assert_allclose(whole.log_prob, expected)


def test_rows_that_all_experts_share_cannot_be_left_out() -> None:
    with pytest.raises(CovaryError, match="all experts share some of the rows"):
        parted("grbcm")[0].leave_one_out()
