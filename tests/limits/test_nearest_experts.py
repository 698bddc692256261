"""The nearest experts of a new input compared with a brute-force search; all experts if none is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from covary import GP, Data, GPRegressor, Model, condition
from covary._checks import CovaryError
from covary.committee import RULES, Committee, Parquet, combine
from covary.committee.partition import near, splitter
from covary.data import Inputs
from covary.inference import Laplace
from covary.likelihoods import Gaussian, Softmax
from covary.prediction import Spread

RNG = np.random.default_rng(5)
X = RNG.standard_normal((400, 3)) * [1.0, 2.0, 0.5]
Y = np.sin(X[:, 0]) + 0.3 * X[:, 1] * X[:, 2] + 0.1 * RNG.standard_normal(400)
NEW = RNG.standard_normal((30, 3)) * [1.2, 2.4, 0.6]
UNIT = np.array([0.5, 2.0, 1.0])
MODEL = Model(GP("1.2 * Matern52(lengthscale=[0.9, 1.4, 1.1])"), likelihood=Gaussian(0.02))
DATA = Data(X, Y)
SPOKEN = tuple(rule for rule in RULES if rule != "nearest")


# who is near --------------------------------------------------------------------------------------------------------
def test_the_nearest_boxes_are_those_of_brute_force() -> None:
    tree = splitter("kd_tree", X, 11, unit=UNIT)
    low, high = tree.boxes
    assert (tree.assign(X) == np.argmax(((low < X[:, None]) & (X[:, None] <= high)).all(2), axis=1)).all()
    inside = np.clip(NEW[:, None], low, high)  # the nearest point of every box
    far = (((NEW[:, None] - inside) / UNIT) ** 2).sum(2)
    np.testing.assert_allclose(tree.distances(NEW), far, atol=1e-12)
    found = near(tree, np.arange(11), NEW, 4)
    assert (found[:, 0] == tree.assign(NEW)).all()
    np.testing.assert_allclose(np.take_along_axis(far, found, axis=1), np.sort(far, axis=1)[:, :4], atol=1e-12)


def test_the_nearest_centres_are_those_of_brute_force() -> None:
    parts = splitter("kmeans", X, 9, unit=UNIT, seed=1)
    far = ((NEW[:, None] / UNIT - parts.centres) ** 2).sum(2) + parts.handicap
    found = near(parts, np.arange(9), NEW, 5)
    assert (found == np.argsort(far, axis=1)[:, :5]).all()
    assert (found[:, 0] == parts.assign(NEW)).all()


def test_many_inputs_are_taken_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = splitter("kd_tree", X, 11, unit=UNIT)
    whole = near(tree, np.arange(11), NEW, 3)
    monkeypatch.setattr("covary.committee.partition.NEAR", 30)
    assert (near(tree, np.arange(11), NEW, 3) == whole).all()


def test_experts_of_a_part_that_was_parted_again_are_equally_near() -> None:
    x = np.concatenate([RNG.normal(0, 0.01, (300, 1)), [[5.0], [6.0], [7.0]]])
    post = condition(Model(GP("Matern52()")), Data(x, x[:, 0]), gram=Committee(4, rule="rbcm", nearest=2))
    settled = post.experts.settled
    assert len(settled.rows) > settled.splitter.experts - 1
    first = np.array([[0.0], [7.0]])
    found = settled.near(first, post.data.X, 2)
    asked = [np.concatenate([x[settled.rows[k]] for k in row]) for row in found]
    assert np.abs(asked[0]).max() < 1  # both have rows from the crowd
    assert 7.0 in asked[1]


# what they say -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["kmeans", "kd_tree", "column:1"])
@pytest.mark.parametrize("rule", SPOKEN)
def test_those_asked_are_a_committee_of_their_own(rule: str, kind: str) -> None:
    post = condition(MODEL, DATA, gram=Committee(8, rule=rule, partition=kind, nearest=3))
    bound = post.experts
    found = post.latent(NEW)
    owners = bound.asked(Inputs(NEW)).near
    assert owners.shape == (30, 3)
    seats = {seat.number: seat.post for group in bound.ask(list) for seat in group}
    for i in range(0, 30, 3):
        here = NEW[i : i + 1]
        start = Spread(np.zeros(1), np.full(1, 1.2)) if bound.common is None else bound.common.latent(here)
        alone = combine(rule, [seats[number].latent(here) for number in owners[i]], start)
        np.testing.assert_allclose(found.mean[i], alone.mean[0], rtol=1e-9)
        np.testing.assert_allclose(found.variance[i], alone.variance[0], rtol=1e-9)


@pytest.mark.parametrize("rule", SPOKEN)
def test_as_many_as_there_are_is_all_of_them(rule: str) -> None:
    every = condition(MODEL, DATA, gram=Committee(6, rule=rule, nearest=None))
    many = every.experts.held.experts
    same = condition(MODEL, DATA, gram=Committee(6, rule=rule, nearest=many))
    few = condition(MODEL, DATA, gram=Committee(6, rule=rule, nearest=many - 1))
    assert (same.latent(NEW).mean == every.latent(NEW).mean).all()
    assert not (few.latent(NEW).mean == every.latent(NEW).mean).all()
    assert same.log_evidence == few.log_evidence == every.log_evidence


def test_rows_without_a_place_ask_everybody() -> None:
    few = condition(MODEL, DATA, gram=Committee(6, rule="rbcm", partition="random", nearest=2))
    every = condition(MODEL, DATA, gram=Committee(6, rule="rbcm", partition="random", nearest=None))
    assert (few.latent(NEW).variance == every.latent(NEW).variance).all()


def test_several_latent_functions() -> None:
    labels = (X[:, 0] > 0.5).astype(float) + (X[:, 0] > -0.5)
    model = Model(GP("2.0 * Matern52()"), likelihood=Softmax(3))
    data = Data(X[:120], labels[:120])
    every = condition(model, data, inference=Laplace(), gram=Committee(5, rule="grbcm", nearest=None)).latent(NEW)
    some = condition(model, data, inference=Laplace(), gram=Committee(5, rule="grbcm", nearest=3)).latent(NEW)
    assert some.mean.shape == every.mean.shape == (30, 3)
    assert some.variance.shape == (30, 3, 3)
    assert np.isfinite(some.variance).all()
    assert np.abs(some.mean - every.mean).mean() < 0.2 * np.abs(every.mean).mean()


def test_a_row_left_out_is_predicted_by_the_nearest_experts() -> None:
    whole = Committee(8, rule="rbcm", nearest=2)
    settled, _ = whole.prepare(MODEL, DATA)
    post = condition(MODEL, DATA, gram=whole)
    rows, said = post.left_out(most=40)
    owners = post.experts.asked(DATA.X.take(rows)).near
    prior = Spread(np.zeros(1), np.full(1, 1.2))
    for i in (0, 7, 19, 39):
        here, told = X[rows[i]][None], []
        for number in owners[i]:
            own = np.setdiff1d(settled.settled.rows[number], rows[i])
            told.append(condition(MODEL, DATA.take(own)).latent(here))
        alone = combine("rbcm", told, prior)
        np.testing.assert_allclose([said.mean[i], said.variance[i]], [alone.mean[0], alone.variance[0]], rtol=1e-6)


def test_few_experts_work_for_few_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where experts are not kept, only those who are asked condition again."""
    import covary.committee.expert as room

    monkeypatch.setattr("covary.committee.members.KEPT", 0.0)
    post = condition(MODEL, DATA, gram=Committee(20, rule="rbcm", nearest=3))
    inner, count = room.condition, []

    def counted(*given: Any, **named: Any) -> Any:
        count.append(1)
        return inner(*given, **named)

    monkeypatch.setattr(room, "condition", counted)
    post.latent(NEW[:1])
    assert len(count) == 3


def test_a_table_on_disk_and_a_file_say_the_same(tmp_path: Any) -> None:
    import pandas as pd

    import covary

    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=100)
    method = Committee(8, partition="kd_tree", nearest=2, folder=str(tmp_path / "rows"))
    model = GPRegressor(method=method, n_restarts=0, random_state=0).fit(Parquet(str(tmp_path / "t.parquet")), "y")
    new = pd.DataFrame(NEW, columns=["a", "b", "c"])
    mean, std = model.predict(new, return_std=True)
    assert model.posterior_.experts.some
    model.save(tmp_path / "m.covary")
    again = covary.load(tmp_path / "m.covary")
    assert again.posterior_.experts.nearest == 2
    assert (again.predict(new, return_std=True)[1] == std).all()
    assert np.corrcoef(mean, np.sin(NEW[:, 0]) + 0.3 * NEW[:, 1] * NEW[:, 2])[0, 1] > 0.9


@pytest.mark.parametrize("nearest", [0, -1, 2.5, True, "all"])
def test_what_is_no_number_of_experts(nearest: Any) -> None:
    with pytest.raises(CovaryError, match=r"Committee: nearest is .* give a positive integer, or None"):
        condition(MODEL, DATA, gram=Committee(8, nearest=nearest))


def test_no_joint_covariance_by_different_experts() -> None:
    post = condition(MODEL, DATA, gram=Committee(8, rule="bcm", nearest=3))
    with pytest.raises(CovaryError, match="different inputs are predicted by different experts"):
        post.predict(NEW, covariance=True)
    whole = condition(MODEL, DATA, gram=Committee(8, rule="bcm", nearest=None))
    assert whole.predict(NEW, covariance=True).f.covariance is not None
