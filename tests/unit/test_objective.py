"""Hyperparameters learned by objectives other than the evidence, in the estimators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from covary import GP, Data, GPRegressor, Model, learn, load
from covary._checks import CovaryError
from covary.likelihoods import Gaussian
from covary.selection import GeneralisedCrossValidation, KFold, LeaveOneOut

X = np.linspace(-1, 1, 40)[:, None]
Y = np.sign(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=40)
KERNEL = "1.0 * SquaredExponential()"


@pytest.mark.parametrize(
    ("name", "objective"), [("loo", LeaveOneOut()), ("gcv", GeneralisedCrossValidation()), ("kfold", KFold(10))]
)
def test_a_named_objective_is_what_is_maximised(name: str, objective: Any) -> None:
    """Each model is the best of the three by its own objective, or within a tenth of a nat of it."""
    data = Data(X, Y)
    mine = GPRegressor(KERNEL, objective=name, mean="zero", priors=None, standardise=False, random_state=0).fit(X, Y)
    other = GPRegressor(KERNEL, mean="zero", priors=None, standardise=False, random_state=0).fit(X, Y)
    assert objective(mine.model_, data) > objective(other.model_, data) + 0.1
    assert mine.log_marginal_likelihood_ < other.log_marginal_likelihood_


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"objective": "aic"}, "objective is 'aic'; choose one of 'evidence', 'loo', 'gcv', 'kfold'"),
        (
            {"objective": "loo", "method": "low_rank"},
            "requires the exact method, but the method is 'low_rank'; use method='exact'",
        ),
        (
            {"objective": "loo", "likelihood": "student_t"},
            "requires Gaussian noise and exact inference, but likelihood is 'student_t'",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(CovaryError, match=says):
        GPRegressor(**arguments).fit(X, Y)


def test_an_objective_is_written_with_the_model(tmp_path: Path) -> None:
    file = tmp_path / "model.covary"
    for objective in ("kfold", LeaveOneOut("squared error"), KFold(5, seed=3)):
        GPRegressor(KERNEL, objective=objective, n_restarts=0).fit(X, Y).save(file)
        assert load(file).objective == objective


def test_one_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    model = GPRegressor(KERNEL, n_restarts=0).fit(X, Y).set_params(objective=lambda model, data: 0.0)
    with pytest.raises(CovaryError, match="cannot be written to a file"):
        model.save(tmp_path / "model.covary")


def test_a_checkpoint_knows_its_objective(tmp_path: Path) -> None:
    """Evaluations of the evidence are not those of another objective."""
    model, data = Model(GP(KERNEL), likelihood=Gaussian(0.1)), Data(X, Y)
    learn(model, data, checkpoint=tmp_path / "journal")
    with pytest.raises(CovaryError, match="belongs to another problem"):
        learn(model, data, objective=LeaveOneOut(), checkpoint=tmp_path / "journal")


def test_an_objective_on_dense_rows_refuses_other_grams() -> None:
    from covary.gram import LowRank

    with pytest.raises(CovaryError, match="it supports the dense gram only"):
        learn(Model(GP(KERNEL)), Data(X, Y), objective=LeaveOneOut(), gram=LowRank(5))
