"""Singular and plural nouns in messages agree with the counts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from covary import GPRegressor
from covary._checks import CovaryError
from covary._words import counted
from covary.committee import Committee, Parquet

SEVERAL = re.compile(r"(?<![\d.,])1 (?:\w+ )?(?:rows|columns|experts|entries|evaluations|groups|checks|categories|starts)\b")
ONE = pd.DataFrame({"a": [0.5], "soil": ["clay"]})


@pytest.mark.parametrize(("count", "words"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1000, "1,000 rows")])
def test_a_number_with_its_noun(count: int, words: str) -> None:
    assert counted(count, "row") == words


def test_the_plural_may_be_given() -> None:
    assert [counted(n, "entry", "entries") for n in (1, 2)] == ["1 entry", "2 entries"]


def one_expert(tmp_path: Path) -> str:
    pd.DataFrame({"a": [0.1, 0.2, 0.3], "y": [0.0, 1.0, 2.0]}).to_parquet(tmp_path / "t.parquet")
    source = Parquet(tmp_path / "t.parquet")
    model = GPRegressor("Matern52()", fixed=("*",), method=Committee(1, rule="rbcm", partition="kd_tree")).fit(source, "y")
    return f"{source!r} {model.summary()}"


def one_row(tmp_path: Path) -> str:
    model = GPRegressor("Matern52().on(0) * Hamming().on(1)", max_time=0.0).fit(ONE, [1.0])
    model.report(tmp_path / "r.html")
    return f"{model.summary()} {model.diagnose()} {(tmp_path / 'r.html').read_text('utf-8')}"


def one_gap(tmp_path: Path) -> str:
    table = pd.DataFrame({"a": [0.1, np.nan, 0.3]})
    return str(GPRegressor("Matern52()", fixed=("*",), missing="drop").fit(table, [0.0, 1.0, 2.0]).summary())


def one_column(tmp_path: Path) -> str:
    model = GPRegressor("Matern52()", fixed=("*",)).fit([[0.0], [1.0]], [0.0, 1.0])
    said = [str(model.summary())]
    for call in (
        lambda: GPRegressor("Matern52(lengthscale=[1, 2])").fit([[0.0], [1.0]], [0.0, 1.0]),
        lambda: model.posterior_.predict(np.ones((1, 2)), size=np.ones(3)),
        lambda: GPRegressor("Matern52()").fit([[0.0]], [0.0, 1.0]),
    ):
        with pytest.raises(CovaryError) as error:
            call()
        said.append(str(error.value))
    return " ".join(said)


@pytest.mark.parametrize("said", [one_expert, one_row, one_gap, one_column])
def test_one_is_not_spoken_of_as_many(said: Callable[[Path], str], tmp_path: Path) -> None:
    text = said(tmp_path)
    assert re.search(r"\b1 (row|column|expert)\b", text)
    assert not SEVERAL.findall(text)
