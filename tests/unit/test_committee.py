"""Committees in the estimators: partitions, files, copies, invalid arguments, unsupported methods."""

from __future__ import annotations

import pickle
import signal
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import covary
from covary import GP, Data, GPClassifier, GPRegressor, Model, condition, learn, log_evidence_and_grad
from covary._checks import CovaryError
from covary.committee import Committee, GPoE, Parquet, combine
from covary.committee.partition import Random, parts, splitter
from covary.data import Inputs
from covary.distributions import LogNormal
from covary.gram import LowRank
from covary.inference import SVGP
from covary.inference.base import Memory
from covary.kernels import tiles
from covary.likelihoods import Gaussian
from covary.means import Basis
from covary.prediction import Spread

RNG = np.random.default_rng(4)
X = RNG.normal(size=(240, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(240)
NEW = RNG.normal(size=(30, 2))
KINDS = ("kmeans", "kd_tree", "random", "arrival", "column:1")


# partitions -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_every_row_has_one_expert_and_parts_are_about_equal(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    experts = int(rng.integers(1, 13))
    x = rng.normal(size=(int(rng.integers(60, 400)), 2)) ** 3
    rows = parts(kind, x, experts, seed=seed)[1]
    assert sorted(np.concatenate(rows)) == list(range(len(x)))
    assert all((np.diff(r) > 0).all() for r in rows)
    sizes = [len(r) for r in rows]
    assert min(sizes) > 0
    assert max(sizes) <= 2 * max(1, round(len(x) / experts))
    if kind in ("random", "arrival", "kd_tree"):
        assert max(sizes) - min(sizes) <= (1 if kind != "kd_tree" else 2 + experts)
    again = parts(kind, x, experts, seed=seed)[1]
    assert all((a == b).all() for a, b in zip(rows, again, strict=True))


def test_another_seed_deals_otherwise_and_pieces_differ() -> None:
    deal = Random(4, 0)
    assert (deal.assign(X, 0) != deal.assign(X, 1)).any()
    assert (Random(4, 1).assign(X) != deal.assign(X)).any()
    assert sorted(np.bincount(deal.assign(X[:10]))) == [2, 2, 3, 3]


def test_places_are_measured_in_length_scales() -> None:
    x = RNG.uniform(0, 1, (400, 2))
    for kind in ("kmeans", "kd_tree"):
        rows = parts(kind, x, 4, unit=np.array([1e-3, 1e3]))[1]  # the second column parts nobody
        spans = sorted((float(x[r, 0].min()), float(x[r, 0].max())) for r in rows)
        assert all(low[1] <= high[0] for low, high in pairwise(spans))


def test_rows_of_one_value_stay_together() -> None:
    x = np.stack([RNG.integers(0, 9, 300).astype(float), RNG.normal(size=300)], axis=1)
    rows = parts("column:0", x, 3, even=False)[1]
    assert len(set.union(*(set(x[r, 0]) for r in rows))) == sum(len(set(x[r, 0])) for r in rows) == 9
    assert parts("column:city", x, 3, names=["city", "age"])[1][0].tolist() == rows[0].tolist()


def test_rows_of_one_value_stay_together_however_many_they_are() -> None:
    x = np.stack([np.r_[np.zeros(200), 1, 2, 3].astype(float), RNG.normal(size=203)], axis=1)
    rows = parts("column:0", x, 3)[1]
    assert [len(r) for r in rows] == [200, 1, 2]


def test_equal_rows_and_wild_columns_are_parted_all_the_same() -> None:
    for x in (np.zeros((50, 1)), np.repeat(RNG.normal(size=(5, 2)), 20, axis=0)):
        rows = parts("kd_tree", x, 4)[1]
        assert sorted(np.concatenate(rows)) == list(range(len(x)))
        assert max(map(len, rows)) <= 2 * round(len(x) / 4)
    with pytest.raises(CovaryError, match="only 5 rows differ for 8 experts; use fewer"):
        parts("kmeans", np.repeat(RNG.normal(size=(5, 2)), 20, axis=0), 8)


def test_a_partition_tells_whose_a_new_input_is() -> None:
    for kind in ("kmeans", "kd_tree", "column:0"):
        found = splitter(kind, X, 5)
        whose = found.assign(NEW)
        assert whose.min() >= 0
        assert whose.max() < 5
        assert (found.assign(X[:7]) == found.assign(X)[:7]).all()


@pytest.mark.parametrize("kind", ["kd_tree", "kmeans"])
def test_a_part_without_rows_falls_to_an_expert_that_has_some(kind: str) -> None:
    found = splitter(kind, X, 6)
    every = found.assign(NEW)
    for numbers in ([0, 1, 2, 3, 4, 5], [1, 4], [3]):
        whose = found.among(numbers).assign(NEW)
        assert set(whose.tolist()) <= set(numbers)
        stay = np.isin(every, numbers)
        np.testing.assert_array_equal(whose[stay], every[stay])


def test_just_outside_a_few_repeated_places_the_nearest_expert_speaks_not_the_prior() -> None:
    x = np.repeat([[0.0], [1.0], [2.0]], 20, axis=0)
    post = condition(
        Model(GP("Matern52()"), likelihood=Gaussian(0.01)),
        Data(x, x[:, 0]),
        gram=Committee(7, rule="nearest", partition="kd_tree"),
    )
    found = post.predict([[2.1], [-0.1], [1.1]]).f
    assert (found.variance < 0.2).all()
    np.testing.assert_allclose(found.mean, [2.1, -0.1, 1.1], atol=0.3)


# estimators -------------------------------------------------------------------------------------------------------------
SETTINGS = [
    Committee(4),
    Committee(4, rule="rbcm", learning="independent"),
    Committee(3, rule="nearest", partition="kd_tree"),
    Committee(5, rule=GPoE("entropy"), partition="random", gram=LowRank(20)),
    Committee(4, rule="bcm", partition="column:0"),
]


@pytest.mark.parametrize("committee", SETTINGS, ids=["grbcm", "independent", "nearest", "gpoe", "bcm"])
def test_a_fit_is_saved_loaded_pickled_and_cloned(committee: Committee, tmp_path: Path) -> None:
    model = GPRegressor("1.0 * Matern52()", method=committee, n_restarts=0, random_state=0).fit(X, Y)
    truth = np.sin(2 * NEW[:, 0]) + NEW[:, 1]
    assert model.score(NEW, truth) > 0.9
    mean, std = model.predict(NEW, return_std=True)
    model.save(tmp_path / "m.covary")
    for other in (covary.load(tmp_path / "m.covary"), pickle.loads(pickle.dumps(model))):
        again, bar = other.predict(NEW, return_std=True)
        np.testing.assert_array_equal(again, mean)
        np.testing.assert_array_equal(bar, std)
        assert other.log_marginal_likelihood_ == model.log_marginal_likelihood_
        assert str(other.summary()) == str(model.summary())
    assert repr(clone(model).method) == repr(committee)
    assert model.method_.name == "committee"
    before = model.predict(NEW)
    model.update(NEW[:5], truth[:5])
    assert model.posterior_.rows == 245
    assert np.abs(model.predict(NEW[:5]) - truth[:5]).mean() < np.abs(before[:5] - truth[:5]).mean() + 0.05


@pytest.mark.parametrize("rule", ["rbcm", "nearest"])
def test_experts_keep_their_own_hyperparameters_when_rows_are_added(rule: str, tmp_path: Path) -> None:
    committee = Committee(4, rule=rule, learning="independent", partition="kd_tree")
    model = GPRegressor("1.0 * Matern52()", method=committee, n_restarts=0, random_state=0).fit(X, Y)
    own = {k: float(m.likelihood.variance) for k, m in model.posterior_.experts.models.items()}
    before, far = model.predict(NEW), np.array([[30.0, 30.0], [X[0, 0], X[0, 1]]])
    model.update(far, [3.0, Y[0]])  # one of them is there already
    bound = model.posterior_.experts
    assert {k: float(m.likelihood.variance) for k, m in bound.models.items()} == own
    assert bound.rows == 241
    np.testing.assert_allclose(model.predict(NEW), before, atol=0.02)
    assert model.predict(far)[0] == pytest.approx(3.0, abs=0.3)
    model.save(tmp_path / "m.covary")
    np.testing.assert_array_equal(covary.load(tmp_path / "m.covary").predict(NEW), model.predict(NEW))


def test_several_outputs_are_reported_saved_and_predicted(tmp_path: Path) -> None:
    model = GPRegressor("1.0 * Matern52()", method=Committee(3), n_restarts=0, random_state=0)
    model.fit(X, np.stack([Y, 1 - Y], axis=1))
    mean, std = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean.sum(1), 1.0, atol=1e-3)
    np.testing.assert_allclose(std[:, 0], std[:, 1])
    model.report(tmp_path / "report.html")
    model.save(tmp_path / "m.covary")
    np.testing.assert_array_equal(covary.load(tmp_path / "m.covary").predict(NEW), mean)


def test_classes_and_counts(tmp_path: Path) -> None:
    two = GPClassifier(method=Committee(3, rule="rbcm"), random_state=0).fit(X, np.where(Y > 0, "up", "down"))
    truth = np.sin(2 * NEW[:, 0]) + NEW[:, 1]
    assert two.score(NEW, np.where(truth > 0, "up", "down")) > 0.85
    two.save(tmp_path / "two.covary")
    np.testing.assert_array_equal(covary.load(tmp_path / "two.covary").predict_proba(NEW), two.predict_proba(NEW))
    three = GPClassifier(method=Committee(3), class_kernels="shared", random_state=0).fit(X, np.digitize(Y, [-1, 1]))
    p = three.predict_proba(NEW)
    np.testing.assert_allclose(p.sum(1), 1)
    assert three.score(NEW, np.digitize(truth, [-1, 1])) > 0.7
    far = three.predict_proba(np.full((1, 2), 60.0))[0]
    assert far.max() < 0.75
    counts = GPRegressor(likelihood="poisson", method=Committee(3, rule="bcm"), random_state=0)
    counts.fit(X, RNG.poisson(np.exp(0.5 * Y)))
    assert np.corrcoef(counts.predict(NEW), np.exp(0.5 * truth))[0, 1] > 0.8
    each = GPClassifier(method=Committee(2, rule="bcm"), multi_class="one_vs_rest", random_state=0)
    assert each.fit(X[:90], np.digitize(Y[:90], [-1, 1])).predict_proba(NEW).shape == (30, 3)


def test_rows_are_parted_by_a_named_column() -> None:
    frame = pd.DataFrame({"a": X[:, 0], "station": RNG.integers(0, 4, 240)})
    model = GPRegressor("1.0 * Matern52()", method=Committee(4, rule="bcm", partition="column:station"), n_restarts=0)
    rows = model.fit(frame, Y).posterior_.experts.settled.rows
    kept = model.posterior_.data.X.x[:, 1]
    assert [len(set(kept[r])) for r in rows] == [1, 1, 1, 1]
    with pytest.raises(CovaryError, match=r"'column:city'; give the name of an input column \(the columns are a, station\)"):
        GPRegressor(method=Committee(4, partition="column:city")).fit(frame, Y)


def test_a_column_with_too_few_values_is_called_by_its_name(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": X[:, 0], "station": np.arange(240) % 2, "y": Y})
    frame.to_parquet(tmp_path / "t.parquet")
    for which in ("station", "1"):
        model = GPRegressor("Matern52()", fixed=("*",), method=Committee(3, rule="bcm", partition=f"column:{which}"))
        for table, target in ((frame[["a", "station"]], Y), (Parquet(tmp_path / "t.parquet"), "y")):
            with pytest.raises(CovaryError, match=r"^Committee: column 'station' has 2 distinct values for 3 experts; use"):
                model.fit(table, target)
    with pytest.raises(CovaryError, match=r"^Committee: column 1 has 2 distinct values for 3 experts; use"):
        model.fit(frame[["a", "station"]].to_numpy(), Y)


def test_a_committee_by_a_named_column_comes_back_from_its_file(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": X[:, 0], "station": np.arange(240) % 4})
    model = GPRegressor("Matern52()", fixed=("*",), method=Committee(4, rule="bcm", partition="column:station")).fit(frame, Y)
    model.save(tmp_path / "m.covary")
    again = covary.load(tmp_path / "m.covary")
    assert again.method_.gram.partition == again.method.partition == "column:station"
    np.testing.assert_allclose(again.predict(frame[:9]), model.predict(frame[:9]), rtol=1e-10)


def test_by_name_and_with_an_executor() -> None:
    model = GPRegressor("1.0 * Matern52()", method="committee", executor="serial", n_restarts=0).fit(X, Y)
    assert model.posterior_.experts.count == 1  # few rows, one expert
    exact = GPRegressor("1.0 * Matern52()", method="exact", n_restarts=0).fit(X, Y)
    np.testing.assert_allclose(model.predict(NEW), exact.predict(NEW), atol=0.02)
    with pytest.raises(CovaryError, match="executor is given but the method 'exact' runs in this process"):
        GPRegressor(executor="serial", method="exact").fit(X, Y)


def test_estimated_cost_falls_by_the_square_of_the_number_of_experts() -> None:
    """DGP thesis, 2:505: O(n³) becomes O(n³/M²), which is linear in n for experts of one size."""
    assert Committee(1, rule="bcm").seconds(20_000) == pytest.approx(16 * Committee(4, rule="bcm").seconds(20_000))
    assert Committee(20, rule="bcm").seconds(20_000) == pytest.approx(2 * Committee(10, rule="bcm").seconds(10_000))


def test_much_work_gets_every_core_and_large_experts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Committee().seconds(5_000) < 20
    assert Committee().seconds(200_000) > 120
    assert Committee(2, rule="bcm").seconds(200_000) > 100 * Committee(200, rule="bcm").seconds(200_000)
    monkeypatch.setattr("covary._memory.free_memory", lambda: 200_000)
    with pytest.raises(CovaryError, match="the largest expert has 120 rows: use more experts"):
        condition(Model(GP("Matern52()")), Data(X, Y), gram=Committee(2, rule="bcm"))


def test_hundreds_of_experts_compile_once() -> None:
    model = Model(GP("1.0 * Matern52(lengthscale=[1.0, 1.0])"), likelihood=Gaussian(0.1))
    x = RNG.normal(size=(900, 2))
    data = Data(x, x[:, 0])
    committee = Committee(9, rule="rbcm", partition="random")
    condition(model, data, gram=committee).predict(NEW)
    covary.log_evidence_and_grad(model, data, gram=committee)
    before = dict(tiles.traces)
    for experts in (10, 11, 12):  # other numbers, other sizes of experts
        many = committee.replace(experts=experts)
        condition(model, data, gram=many).predict(NEW)
        covary.log_evidence_and_grad(model, data, gram=many)
    assert tiles.traces == before


def test_a_search_that_was_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from covary.committee import learning

    model, data = Model(GP("1.0 * Matern52()"), likelihood=Gaussian(0.1)), Data(X, Y)
    committee, calls = Committee(4, rule="rbcm"), []
    plain = learn(model, data, gram=committee)
    real = learning.evidence

    def dying(group: Any, *rest: Any) -> Any:
        calls.append(group.numbers)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(group, *rest)

    monkeypatch.setattr(learning, "evidence", dying)
    with pytest.raises(KeyboardInterrupt):
        learn(model, data, gram=committee, checkpoint=tmp_path / "kept")
    assert list((tmp_path / "kept").iterdir())
    again = learn(model, data, gram=committee, checkpoint=tmp_path / "kept")
    np.testing.assert_array_equal(again.theta, plain.theta)
    fresh = len(calls) - 2
    calls[:] = [None] * 9  # not to die again
    learn(model, data, gram=committee, checkpoint=tmp_path / "other")
    assert fresh == len(calls) - 9 - 1  # what was finished was not done again
    calls.clear()
    with pytest.raises(KeyboardInterrupt):
        learn(model, data, gram=committee, checkpoint=tmp_path / "left")
    with pytest.raises(CovaryError, match="another problem"):
        learn(model, Data(X, Y + 1), gram=committee, checkpoint=tmp_path / "left")
    with pytest.raises(CovaryError, match="another problem"):
        learn(model, Data(Inputs(X, {"output": np.zeros(len(X), int)}), Y), gram=committee, checkpoint=tmp_path / "left")
    for other in (
        {"rivals": [model]},
        {"starts": [model]},
        {"n_restarts": 1},
        {"priors": {"likelihood.variance": LogNormal(0.0)}},
    ):
        with pytest.raises(CovaryError, match="another problem"):
            learn(model, data, gram=committee, checkpoint=tmp_path / "left", **other)


@pytest.mark.parametrize("rule", ["rbcm", "grbcm"])
def test_the_evidence_alone_is_that_with_its_gradient(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from covary.inference.exact import Exact

    model, data, committee = Model(GP("1.0 * Matern52()"), likelihood=Gaussian(0.1)), Data(X, Y), Committee(4, rule=rule)
    value, _ = covary.log_evidence_and_grad(model, data, gram=committee)
    assert value == pytest.approx(condition(model, data, gram=committee).log_evidence, rel=1e-12)
    monkeypatch.delattr(Exact, "gradient")  # not computed, so not needed
    assert covary.log_evidence(model, data, gram=committee) == pytest.approx(value, rel=1e-12)


def test_the_evidence_checks_that_the_experts_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covary._memory.free_memory", lambda: 1e4)
    model = Model(GP("1.0 * Matern52()"), likelihood=Gaussian(0.1))
    for verb in (covary.log_evidence, covary.log_evidence_and_grad):
        with pytest.raises(CovaryError, match="use more experts"):
            verb(model, Data(X, Y), gram=Committee(2, rule="rbcm"))


class Hands:
    """Ctrl-C, once, when some expert begins."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        from covary.committee import expert

        self.real, self.at, self.begun = expert.learn, at, 0
        monkeypatch.setattr(expert, "learn", self)

    def __call__(self, *args: Any, **options: Any) -> Any:
        self.begun += 1
        if self.begun == self.at:
            signal.raise_signal(signal.SIGINT)
        return self.real(*args, **options)


def test_ctrl_c_ends_the_search_of_all_experts_not_of_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("covary.committee.experts.TOGETHER", 40)  # so that groups are small
    model, data = Model(GP("1.0 * Matern52()"), likelihood=Gaussian(0.1)), Data(X, Y)
    committee = Committee(8, rule="rbcm", partition="random", learning="independent")
    hands = Hands(monkeypatch, 3)
    before = signal.getsignal(signal.SIGINT)
    fit = learn(model, data, gram=committee, checkpoint=tmp_path / "kept")
    assert signal.getsignal(signal.SIGINT) is before
    assert (fit.status, hands.begun) == ("interrupted", 3)
    post = condition(fit, data, gram=committee)
    assert len({float(m.likelihood.variance) for m in post.experts.models.values()}) == 4  # three of their own, the sample's
    assert np.isfinite(post.predict(NEW).f.variance).all()
    again = learn(model, data, gram=committee, checkpoint=tmp_path / "kept")  # goes on from there
    assert again.status == "converged"
    assert hands.begun == 3 + 5  # what was finished is not done again
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("learning", ["levels", "full", "stochastic", "independent"])
def test_a_search_that_is_out_of_time_ends_on_its_sample(learning: str) -> None:
    committee, x = Committee(4, rule="rbcm", learning=learning), np.tile(X, (3, 1)) + np.repeat([[0.0], [9.0], [18.0]], 240, 0)
    model = GPRegressor("1.0 * Matern52()", method=committee, n_restarts=0, max_time=1e-9).fit(x, np.tile(Y, 3))
    assert model.learned_.status == "out of time"
    assert "out of time" in str(model.summary())
    assert np.isfinite(model.predict(NEW, return_std=True)[1]).all()


# tables on disk ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("partition", ["kd_tree", "random", "arrival"])
def test_a_table_on_disk_is_the_same_committee(partition: str, tmp_path: Path) -> None:
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y}).to_parquet(tmp_path / "t.parquet", row_group_size=70)
    committee = Committee(4, rule="rbcm", partition=partition)
    source = Parquet(tmp_path / "t.parquet")
    found = GPRegressor("1.0 * Matern52()", method=committee, n_restarts=0, random_state=0).fit(source, "y")
    frame = pd.DataFrame({"a": NEW[:, 0], "b": NEW[:, 1]})
    assert found.score(frame, np.sin(2 * NEW[:, 0]) + NEW[:, 1]) > 0.9
    assert found.posterior_.on_disk
    assert found.posterior_.rows == 240
    groups = found.posterior_.experts.held.map(lambda group: group)
    rows = np.concatenate([np.column_stack([d.X.x, d.y]) for group in groups for d in group.rows])
    np.testing.assert_array_equal(np.unique(rows, axis=0), np.unique(np.column_stack([X, Y]), axis=0))
    if partition == "arrival":  # then the rows of each expert are known, and so is the whole
        model = found.model_
        data = Data(X, Y)
        here = condition(model, data, gram=Committee(4, rule="rbcm", partition="arrival"))
        np.testing.assert_allclose(found.predict(frame), here.predict(NEW).f.mean, atol=1e-9)
        assert found.posterior_.log_evidence == pytest.approx(here.log_evidence)


def test_experts_on_disk_that_share_rows_do_not_see_them_twice(tmp_path: Path) -> None:
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y}).to_parquet(tmp_path / "t.parquet", row_group_size=70)
    found = GPRegressor("1.0 * Matern52()", method=Committee(4, partition="kd_tree"), n_restarts=0, random_state=0)
    found.fit(Parquet(tmp_path / "t.parquet"), "y")
    bound = found.posterior_.experts
    own = np.concatenate([d.X.x for group in bound.held.map(lambda group: group) for d in group.rows])
    assert 20 < bound.shared.rows < 120
    assert len(own) + bound.shared.rows == 240
    assert not set(map(tuple, own)) & set(map(tuple, bound.shared.X.x))


def test_small_tables_are_read_whole(tmp_path: Path) -> None:
    pd.DataFrame({"a": X[:60, 0], "y": Y[:60]}).to_parquet(tmp_path / "t.parquet")
    model = GPRegressor("1.0 * Matern52()").fit(Parquet(tmp_path / "t.parquet"), "y")
    assert model.method_.name == "exact"
    with pytest.raises(CovaryError, match="y is ndarray; give the name of the target's column"):
        GPRegressor().fit(Parquet(tmp_path / "t.parquet"), Y)
    with pytest.raises(CovaryError, match=r"'z'"):
        GPRegressor().fit(Parquet(tmp_path / "t.parquet"), "z")


# what makes no sense ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("committee", "words"),
    [
        (Committee(0), "experts is 0; give a positive integer"),
        (Committee(2.5), "experts is 2.5"),
        (Committee(500), "500 experts for 240 rows; use at most one expert per distinct row"),
        (Committee(3, rule="vote"), "rule is 'vote'; choose one of 'poe', 'gpoe', 'bcm', 'rbcm', 'grbcm', 'nearest'"),
        (Committee(3, rule=GPoE("evenly")), "the weights of GPoE are 'evenly'; choose 'equal' or 'entropy'"),
        (Committee(3, partition="heaps"), "partition is 'heaps'; choose one of"),
        (Committee(3, partition="column:7"), "partition is 'column:7'; give the name of an input column"),
        (Committee(3, learning="fast"), "learning is 'fast'; choose one of 'levels', 'full', 'stochastic', 'independent'"),
        (Committee(3, rule="nearest", partition="random"), "use a spatial partition"),
        (Committee(3, learning="independent"), "use rule='rbcm', or learn shared hyperparameters"),
        (Committee(3, gram=Committee(2)), "the gram of an expert is a committee"),
        (Committee(3, executor=7), "executor"),
    ],
)
def test_bad_settings_are_refused_before_any_work(committee: Committee, words: str) -> None:
    with pytest.raises(CovaryError) as caught:
        GPRegressor(method=committee).fit(X, Y)
    assert words in str(caught.value)


def test_local_errors_are_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covary.committee.settings.Committee.learn", lambda *_, **__: pytest.fail("work began"))
    with pytest.raises(CovaryError, match="local_errors is True with a committee of experts"):
        GPRegressor(method=Committee(3), local_errors=True).fit(X, Y)


def test_models_that_experts_cannot_share_are_refused() -> None:
    basis = Model(GP("Matern52()", basis=Basis(lambda x: x)), likelihood=Gaussian(0.1))
    with pytest.raises(CovaryError, match="explicit basis functions, whose weights experts cannot share"):
        condition(basis, Data(X, Y), gram=Committee(2))
    basis = Model(GP("Matern52()"), likelihood=Gaussian(0.1))
    with pytest.raises(CovaryError, match="the inference is SVGP"):
        condition(basis, Data(X, Y), inference=SVGP(), gram=Committee(2))
    for given in ({"objective": lambda m, d: 0.0}, {"tie": [["a", "b"]]}, {"coarse": False}, {"reserve": 1.0}):
        with pytest.raises(CovaryError, match=f"{next(iter(given))} is given with gram=Committee, which does not use it"):
            learn(basis, Data(X, Y), gram=Committee(2), **given)
    for given in ({"fixed_jitter": 1e3}, {"workspace": Memory()}):
        with pytest.raises(CovaryError, match=f"{next(iter(given))} is given with gram=Committee, which does not use it"):
            log_evidence_and_grad(basis, Data(X, Y), gram=Committee(2), **given)
    with pytest.raises(CovaryError, match="needs the positions of the experts"):
        combine("nearest", [Spread(np.zeros(1), np.ones(1))], Spread(np.zeros(1), np.ones(1)))
    with pytest.raises(CovaryError, match="said is empty"):
        combine("poe", [], Spread(np.zeros(1), np.ones(1)))


def test_what_a_committee_cannot_say() -> None:
    post = condition(Model(GP("Matern52()"), likelihood=Gaussian(0.1)), Data(X, Y), gram=Committee(3, rule="rbcm"))
    with pytest.raises(CovaryError, match="under RBCM several inputs have no joint covariance; use rule='bcm'"):
        post.covariance(NEW)
    with pytest.raises(CovaryError, match="Committee: a combination of experts has no single matrix"):
        post.factor.diag_inverse()
    joint = condition(post.model, post.data, gram=Committee(3, rule="bcm"))
    assert joint.sample(NEW[:4], 3, key=0).shape == (3, 4)


def test_several_ends_of_the_search_are_compared_on_the_sample() -> None:
    """The search begins on fewer rows than the committee has: its experts' rows are not among them."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (900, 1))
    model = GPRegressor("Matern52()", method=Committee(3), n_restarts=1, priors=None, random_state=0)
    model.fit(x, np.sin(3 * x[:, 0]) + 0.3 * rng.normal(size=900))
    learned: Any = model.learned_
    assert learned.objective.data.rows < 900
    packing, (first, *_) = learned.objective.packing, learned.restarts
    far = replace(first, model=packing.unpack(packing.pack(first.model) + 2.0))
    model.learned_ = replace(learned, restarts=(first, far))
    assert model.diagnose()["peaks"].sentence == "2 starts of the search found no equally good alternative."
    assert "combined by grbcm" in str(model.summary())
