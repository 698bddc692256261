"""The command with malformed tables: a documented exit code, one error message, no NaN, no leftover file."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from .malformed import KINDS, Case, cases

ALL = list(cases(300))
SAMPLE = 60  # of them in the default suite: every kind at least once


def checked(result: Any, allowed: set[int]) -> str:
    """The one sentence of a failed command (empty if it went well), after everything all ends have in common."""
    assert result.exit_code in allowed, result.output
    assert "Traceback" not in result.output
    assert "Warning" not in result.stderr
    if result.exit_code == 0:
        assert "covary: error" not in result.stderr
        return ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("covary: error: ")
    assert lines[0].endswith((".", "?"))
    assert "--ignore y" not in lines[0]  # the target
    assert len(lines[0]) < 700
    assert result.stdout == ""
    return lines[0]


def advice(sentence: str, options: list[str]) -> list[str]:
    """The options a sentence says to add, so that following it can be tried."""
    if "--drop-missing" in sentence and "--drop-missing" not in options:
        return ["--drop-missing"]
    if "--ignore " in sentence:
        return ["--ignore", shlex.split(sentence.split("--ignore ")[1].removesuffix("."))[0]]
    return []


def follow(call: Callable[..., Any], folder: Path, case: Case) -> str:
    """Fit, take the advice given, predict where fitting went well; how it ended."""
    table = folder / f"table{case.suffix}"
    table.write_bytes(case.data)
    options: list[str] = []
    for _ in range(8):
        result = call("fit", table, "--target", "y", "--max-time", 1, "--out", "model.covary", *options)
        sentence = checked(result, {0, 2, 3, 5})
        assert (result.exit_code == 2) == ("--target: " in sentence and "has no column 'y'" in sentence)
        files = {p.name for p in folder.iterdir()}
        assert files == {table.name} | ({"model.covary"} if result.exit_code == 0 else set())
        if result.exit_code == 0:
            predicted(call, table, options, folder)
            return "fitted"
        more = advice(sentence, options)
        if not more:
            return sentence
        options += more
    raise AssertionError(f"the advice goes round in circles: {options}")


def predicted(call: Callable[..., Any], table: Path, options: list[str], folder: Path) -> None:
    """The model predicts the file it was fitted to, with finite numbers."""
    drop = ["--drop-missing"] if "--drop-missing" in options else []
    result = call("predict", "model.covary", table, "--out", "out.csv", *drop)
    checked(result, {0})
    found = pd.read_csv(folder / "out.csv")
    assert len(found) > 0
    if found.columns[0] == "class":
        p = found[[c for c in found if c.startswith("p_")]].to_numpy()
        assert p.shape[1] >= 2
        np.testing.assert_allclose(p.sum(1), 1, atol=1e-9)
    else:
        assert list(found.columns) in (["mean", "std", "lower", "upper"], ["mean", "std", "lower", "upper", "flag"])
        found = found.drop(columns="flag", errors="ignore")
        assert np.isfinite(found.to_numpy()).all()
        assert (found["std"] >= 0).all()
        assert (found["lower"] <= found["upper"]).all()
    assert {p.name for p in folder.iterdir()} == {table.name, "model.covary", "out.csv"}


def test_there_are_three_hundred_and_they_are_the_same_every_time() -> None:
    again = list(cases(300))
    assert again == ALL
    assert len({c.data for c in ALL}) > 250
    assert len(KINDS) < SAMPLE


@pytest.mark.parametrize("case", ALL[:SAMPLE], ids=lambda c: c.name)
def test_malformed(case: Case, call: Callable[..., Any], tmp_path: Path) -> None:
    follow(call, tmp_path, case)


@pytest.mark.slow
@pytest.mark.parametrize("case", ALL[SAMPLE:], ids=lambda c: c.name)
def test_malformed_all(case: Case, call: Callable[..., Any], tmp_path: Path) -> None:
    follow(call, tmp_path, case)
