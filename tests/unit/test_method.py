"""``method="auto"``: every boundary of its rules, and the use of the choice by the estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from covary import GP, Data, GPClassifier, GPRegressor, Model, load
from covary._checks import CovaryError
from covary.committee import Committee
from covary.families.gaussian_process import fitting as rules
from covary.families.gaussian_process.fitting import choose
from covary.gram import Dense, LowRank, Markov, NearestNeighbours, Subset, Vecchia
from covary.inference import EP, SVGP, Exact, Laplace
from covary.likelihoods import Bernoulli, Gaussian, Poisson, Softmax, StudentT

PLENTY = 2**40


def chosen(rows: int, columns: int, likelihood: Any = None, **options: Any) -> rules.Choice:
    """The choice for a table of this shape; its numbers do not matter."""
    likelihood = likelihood or Gaussian(0.1)
    data = Data(np.broadcast_to(np.zeros(columns), (rows, columns)), np.zeros(rows))
    kernel = options.pop("kernel", "Matern52()")
    inference = options.pop("inference", Exact() if isinstance(likelihood, Gaussian) else Laplace())
    free, given = options.pop("free", PLENTY), options.pop("given", False)
    model = Model(GP(kernel), likelihood=likelihood)
    return choose("test", options.pop("method", "auto"), model, data, inference, free=free, given=given)


@pytest.mark.parametrize(
    ("rows", "columns", "likelihood", "name"),
    [
        (rules.EXACT_ROWS, 4, None, "exact"),
        (rules.EXACT_ROWS + 1, rules.NEIGHBOUR_COLUMNS, None, "vecchia"),
        (rules.MARKOV_ROWS, 1, None, "exact"),
        (rules.MARKOV_ROWS + 1, 1, None, "markov"),
        (10**6, 1, None, "markov"),
        (rules.MARKOV_ROWS + 1, 1, Poisson(), "markov"),
        (rules.MARKOV_ROWS + 1, 1, StudentT(), "exact"),  # not log-concave: precisions of either sign
        (rules.EXACT_OTHERS, 2, Bernoulli(), "exact"),
        (rules.EXACT_OTHERS + 1, 2, Bernoulli(), "svgp"),
        (int(rules.EXACT_OTHERS / 3 ** (1 / 3)), 2, Softmax(3), "exact"),
        (int(rules.EXACT_OTHERS / 3 ** (1 / 3)) + 1, 2, Softmax(3), "svgp"),
        (100_000, 20, Bernoulli(), "svgp"),
    ],
)
def test_every_boundary(rows: int, columns: int, likelihood: Any, name: str) -> None:
    choice = chosen(rows, columns, likelihood)
    assert choice.name == name
    assert f"{rows:,}" in choice.why


def test_where_nothing_else_fits_experts_do() -> None:
    data = Data(np.zeros((20_000, 3)), np.zeros(20_000))
    needed = rules.crowd(data)
    assert needed == 20_000 * 8 * (4 * rules.NEIGHBOURS + 6)
    for likelihood in (Gaussian(0.1), Bernoulli()):
        roomy, tight = (chosen(20_000, 3, likelihood, free=int(needed / rules.MEMORY_SHARE) + more) for more in (1, -2))
        assert roomy.name == ("vecchia" if isinstance(likelihood, Gaussian) else "svgp")
        assert tight.name == "committee"
        assert "in memory: split across experts" in tight.why
        assert isinstance(tight.gram, Committee)


@pytest.mark.parametrize(("share", "name"), [(rules.QUIET, "vecchia"), (rules.QUIET + 0.01, "low_rank")])
def test_with_many_inputs_the_share_of_noise_decides(share: float, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "noise_share", lambda model, data, clock: share)
    choice = chosen(rules.EXACT_ROWS + 1, rules.NEIGHBOUR_COLUMNS + 1)
    assert choice.name == name
    assert f"{100 * share:.0f} %" in choice.why


@pytest.mark.parametrize("noise", [0.02, 0.8])
def test_the_share_of_noise_is_found_in_a_sample(noise: float) -> None:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(3000, 4))
    y = np.sqrt(1 - noise) * np.sqrt(2) * np.sin(inputs[:, 0] * 2) + np.sqrt(noise) * rng.normal(size=3000)
    model = Model(GP("1.0 * Matern52(lengthscale=[1, 1, 1, 1])"), likelihood=Gaussian(0.1))
    assert rules.noise_share(model, Data(inputs, y)) == pytest.approx(noise, rel=0.3)


def test_memory_decides_too() -> None:
    rows = 5000
    need = 2 * rows**2 * 8
    assert chosen(rows, 2, free=int(need / rules.MEMORY_SHARE) + 8).name == "exact"
    assert chosen(rows, 2, free=int(need / rules.MEMORY_SHARE) - 8).name == "vecchia"


def test_a_kernel_without_a_state_space_form_is_not_forced_into_one() -> None:
    assert chosen(rules.MARKOV_ROWS + 1, 1, kernel="SquaredExponential()").name == "exact"
    assert chosen(rules.MARKOV_ROWS + 1, 1, kernel="Matern32() + Cosine()").name == "markov"


def test_an_inference_that_was_asked_for_stays() -> None:
    choice = chosen(rules.EXACT_OTHERS + 1, 2, Bernoulli("probit"), inference=EP(), given=True)
    assert isinstance(choice.inference, EP)
    assert isinstance(choice.gram, LowRank)
    assert isinstance(chosen(50, 2, Bernoulli(), inference=SVGP(), given=True).inference, SVGP)


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("exact", Dense),
        ("low_rank", LowRank),
        ("vecchia", Vecchia),
        ("markov", Markov),
        ("subset", Subset),
        (LowRank(7), LowRank),
        (NearestNeighbours(5), NearestNeighbours),
    ],
)
def test_what_is_asked_for_is_done(method: Any, kind: type) -> None:
    choice = chosen(20, 1, method=method)
    assert isinstance(choice.gram, kind)
    assert choice.why == "as requested"


def test_the_settings_of_an_svgp_that_was_given_are_kept() -> None:
    mine = SVGP(steps=7)
    for method in ("auto", "svgp"):
        assert chosen(50, 2, Bernoulli(), inference=mine, given=True, method=method).inference == mine


def test_regression_in_batches_with_the_default_kernel() -> None:
    model = GPRegressor(method=LowRank(12), inference=SVGP(steps=60), random_state=0).fit(X, Y)
    np.testing.assert_allclose(model.predict(NEW), np.sin(3 * NEW[:, 0]), atol=0.6)


def test_svgp_by_name_brings_its_inference() -> None:
    choice = chosen(20, 2, Bernoulli(), method="svgp")
    assert isinstance(choice.inference, SVGP)
    assert isinstance(choice.gram, LowRank)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(CovaryError, match="method is 'magic'"):
        chosen(20, 1, method="magic")


# at the front doors -----------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(5)
X = RNG.uniform(-2, 2, size=(90, 1))
Y = np.sin(3 * X[:, 0]) + 0.1 * RNG.normal(size=90)
NEW = np.linspace(-2.2, 2.2, 9)[:, None]


@pytest.fixture(scope="module")
def exact() -> GPRegressor:
    return GPRegressor("1.0 * Matern52()", method="exact", random_state=0).fit(X, Y)


@pytest.mark.parametrize(
    ("method", "near"),
    [("markov", 1e-4), ("low_rank", 1e-4), (LowRank(25, rule="vfe"), 0.02), ("vecchia", 0.05), ("subset", 1e-4)],
    ids=str,
)
def test_every_method_fits_saves_loads_and_grows(method: Any, near: float, exact: GPRegressor, tmp_path: Any) -> None:
    model = GPRegressor("1.0 * Matern52()", method=method, random_state=0).fit(X, Y)
    mean, std = model.predict(NEW, return_std=True)
    truth = exact.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, truth[0], atol=near)
    np.testing.assert_allclose(std, truth[1], atol=near)
    assert model.method_.name in str(model.summary())
    model.save(tmp_path / "model.covary")
    again = load(tmp_path / "model.covary")
    np.testing.assert_array_equal(again.predict(NEW, return_std=True), (mean, std))
    assert again.method_.name == model.method_.name
    assert again.log_marginal_likelihood_ == model.log_marginal_likelihood_
    model.update(NEW[:2], [3.0, -3.0])
    assert abs(model.predict(NEW)[0] - mean[0]) > 0.1


def test_inducing_inputs_that_were_learned_explain_more() -> None:
    few = LowRank(6, rule="vfe", select="random")
    plain, moved = (
        GPRegressor("1.0 * Matern52()", method=g, random_state=0).fit(X, Y).log_marginal_likelihood_
        for g in (few, few.replace(learned=True))
    )
    assert moved > plain + 5


def test_a_subset_of_the_rows_is_what_is_kept() -> None:
    model = GPRegressor(method=Subset(30), random_state=0).fit(X, Y)
    assert model.posterior_.data.rows == 30
    random, informed = (
        GPRegressor("1.0 * Matern52()", method=Subset(12, select=rule), random_state=0).fit(X, Y)
        for rule in ("random", "entropy")
    )
    assert informed.predict(NEW, return_std=True)[1].max() < random.predict(NEW, return_std=True)[1].max()


def test_classes_through_markov_and_inducing_inputs_are_those_of_the_whole_matrix() -> None:
    labels = Y > 0
    whole = GPClassifier("1.0 * Matern52()", method="exact", random_state=0).fit(X, labels).predict_proba(NEW)
    for method in ("markov", "low_rank"):
        model = GPClassifier("1.0 * Matern52()", method=method, random_state=0).fit(X, labels)
        np.testing.assert_allclose(model.predict_proba(NEW), whole, atol=1e-3)


@pytest.mark.slow
def test_classes_in_batches(tmp_path: Any) -> None:
    labels = np.where(Y > 0.5, "high", np.where(Y < -0.5, "low", "middle"))
    quick = SVGP(steps=150)
    model = GPClassifier("1.0 * Matern52()", class_kernels="shared", method=LowRank(12), inference=quick, random_state=0)
    model.fit(X, labels)
    assert model.method_.name == "LowRank"
    assert (model.predict(X) == labels).mean() > 0.85
    model.save(tmp_path / "model.covary")
    np.testing.assert_allclose(load(tmp_path / "model.covary").predict_proba(NEW), model.predict_proba(NEW), atol=1e-6)


def test_counts_in_batches_have_quantiles() -> None:
    counts = np.random.default_rng(1).poisson(np.exp(Y)).astype(float)
    model = GPRegressor("1.0 * Matern52()", likelihood="poisson", method=LowRank(12), inference=SVGP(steps=150), random_state=0)
    low, high = model.fit(X, counts).predict_quantiles(NEW, (0.05, 0.95))
    assert (high > low).all()
