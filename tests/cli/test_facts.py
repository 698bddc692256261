"""Facts in the summary of a model: relevance compared with known values, and the cost of error bars."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from covary import GPRegressor
from covary.cli.shown import summary_of
from covary.families.gaussian_process.summary import price
from covary.fits import of
from covary.plots import relevance

X = np.random.default_rng(0).normal(size=(60, 3))


def shares(model: Any, names: list[str]) -> dict[str, float]:
    """What the command shows of each column."""
    found = relevance(model, names)
    return dict(zip(found.names, found.values.tolist(), strict=True))


@pytest.fixture(scope="module")
def fitted() -> Any:
    """y = 2 a + b + noise, with c beside it: total shares of the rows there are 0.85, 0.12, 0."""
    y = 2 * X[:, 0] + X[:, 1] + 0.05 * np.random.default_rng(1).normal(size=60)
    return GPRegressor(random_state=0, n_restarts=0).fit(X, y)


def test_relevance_is_sobol_s_total_index(fitted: Any) -> None:
    found = shares(fitted, ["a", "b", "c"])
    assert list(found) == ["a", "b", "c"]
    a, b = 2 * X[:, 0], X[:, 1]
    assert found["a"] == pytest.approx(a.var() / (a + b).var(), abs=0.04)
    assert found["b"] == pytest.approx(b.var() / (a + b).var(), abs=0.02)
    assert found["c"] < 0.01
    assert found == shares(fitted, ["a", "b", "c"])


def test_of_many_columns_the_likely_ones_are_looked_at(fitted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(sys.modules["covary.plots.relevance"], "MOST_COLUMNS", 2)
    assert list(shares(fitted, ["a", "b", "c"])) == ["a", "b"]


def test_a_column_that_never_changes_is_not_relevant() -> None:
    X = np.column_stack([np.linspace(0, 3, 12), np.ones(12)])
    held = ("kernel.variance", "kernel.lengthscale", "mean.value", "likelihood.variance")
    model = GPRegressor("1.0 * Matern52()", noise=0.01, fixed=held).fit(X, np.sin(X[:, 0]))
    assert shares(model, ["x", "one"])["one"] == 0.0
    flat = GPRegressor("1.0 * Matern52()", noise=0.01, fixed=held).fit(X, np.zeros(12))
    assert shares(flat, ["x", "one"]) == {"x": 0.0, "one": 0.0}


def test_error_bars_are_priced_by_how_learning_went(fitted: Any) -> None:
    learned = fitted.learned_
    each = learned.seconds / learned.steps
    assert price(of(fitted)) == pytest.approx(2 * 6 * each)


def test_a_summary_without_error_bars_leaves_the_model_alone(fitted: Any) -> None:
    bare = summary_of(of(fitted), error_bars=False)
    assert [row.error for row in bare.rows] == [""] * 6
    full = summary_of(of(fitted), error_bars=True)
    assert [row.value for row in full.rows] == [row.value for row in bare.rows]
    assert all(row.error for row in full.rows)
