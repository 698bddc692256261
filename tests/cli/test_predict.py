"""``covary predict``: columns by name, formats, scores, errors."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import covary
from covary import metrics

from .conftest import waves, write
from .test_fit import error

Call = Callable[..., Any]


def new(rows: int = 7) -> list[list[Any]]:
    return waves(rows, seed=1)


def test_csv_on_stdout_by_default(call: Call, tmp_path: Path, fitted: Path) -> None:
    cells = [[row[1], "extra" if i else "name", row[0]] for i, row in enumerate(new())]  # another order, one more, no target
    path = write(tmp_path / "new.csv", cells)
    result = call("predict", fitted / "one.covary", path)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    found = pd.read_csv(io.StringIO(result.stdout))
    assert list(found.columns) == ["mean", "std", "lower", "upper"]
    model = covary.load(fitted / "one.covary")
    frame = pd.read_csv(path)[["x", "z"]]
    mean, std = model.predict(frame, return_std=True)
    low, high = model.predict_interval(frame)
    np.testing.assert_array_equal(found.to_numpy(), np.column_stack([mean, std, low, high]))


@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.txt", "p.csv.gz", "p.parquet"])
def test_formats(call: Call, tmp_path: Path, fitted: Path, name: str) -> None:
    write(tmp_path / "new.csv", new())
    result = call("predict", fitted / "one.covary", "new.csv", "--out", name, "--keep", "z,x")
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert f"wrote 7 predictions to {name}" in result.stderr
    found = (
        pd.read_parquet(tmp_path / name)
        if name.endswith("parquet")
        else pd.read_csv(tmp_path / name, sep=None, engine="python")
    )
    assert list(found.columns) == ["z", "x", "mean", "std", "lower", "upper"]
    assert found["x"].tolist() == [row[0] for row in new()[1:]]


def test_scores_where_the_target_is_known(call: Call, tmp_path: Path, fitted: Path) -> None:
    cells = new(12)
    cells[4][2] = ""
    path = write(tmp_path / "new.csv", cells)
    result = call("predict", fitted / "one.covary", path, "--level", 0.8, "--json")
    found = json.loads(result.stdout, parse_constant=pytest.fail)
    frame = pd.read_csv(path)
    seen = frame["y"].notna()
    mean, std = covary.load(fitted / "one.covary").predict(frame[["x", "z"]], return_std=True)
    y, m, s = frame["y"][seen].to_numpy(), mean[seen], std[seen]
    assert found["scores"]["y"] == {
        "rows": 11,
        "r2": pytest.approx(metrics.r2(y, m)),
        "rmse": pytest.approx(metrics.rmse(y, m)),
        "nlpd": pytest.approx(metrics.nlpd(y, m, s)),
        "coverage": pytest.approx(metrics.coverage(y, m, s, 0.8)),
    }
    assert found["predictions"]["mean"] == mean.tolist()
    latent = json.loads(call("predict", fitted / "one.covary", path, "--level", 0.8, "--json", "--latent").stdout)
    assert latent["scores"] == found["scores"]  # scores are of observations
    assert (np.array(latent["predictions"]["std"]) < np.array(found["predictions"]["std"])).all()
    text = call("predict", fitted / "one.covary", path, "--level", 0.8)
    assert "y: R² " in text.stderr
    assert "inside the 80 % intervals (11 rows with a known value)" in text.stderr
    assert call("predict", fitted / "one.covary", path, "--quiet").stderr == ""
    one = write(tmp_path / "one.csv", cells[:2])  # R² of a single row does not exist
    assert json.loads(call("predict", fitted / "one.covary", one, "--json").stdout)["scores"]["y"]["r2"] is None
    assert "R²" not in call("predict", fitted / "one.covary", one).stderr


def test_a_target_of_text_is_not_scored(call: Call, tmp_path: Path, fitted: Path) -> None:
    write(tmp_path / "new.csv", [["x", "z", "y"], [1, 2, "?"], [2, 1, "unknown"]])
    result = call("predict", fitted / "one.covary", "new.csv")
    assert result.exit_code == 0
    assert result.stderr == ""


def test_several_targets(call: Call, tmp_path: Path, fitted: Path) -> None:
    write(tmp_path / "new.csv", new())
    result = call("predict", fitted / "two.covary", "new.csv", "--keep-all")
    found = pd.read_csv(io.StringIO(result.stdout))
    parts = ["mean", "std", "lower", "upper"]
    assert list(found.columns) == ["x", "z", "y", *(f"y_{p}" for p in parts), *(f"z_{p}" for p in parts)]
    mean, _ = covary.load(fitted / "two.covary").predict(found[["x"]], return_std=True)
    np.testing.assert_array_equal(found[["y_mean", "z_mean"]].to_numpy(), mean)
    assert result.stderr.count("R²") == 2


def test_missing_inputs(call: Call, tmp_path: Path, fitted: Path) -> None:
    cells = new()
    cells[2][0] = ""
    write(tmp_path / "new.csv", cells)
    said = error(call("predict", fitted / "one.covary", "new.csv"), 3)
    assert "column 'x' of 'new.csv' has no value on line 3" in said
    assert "--ignore" not in said
    result = call("predict", fitted / "one.covary", "new.csv", "--drop-missing", "--out", "p.csv", "--keep", "z")
    assert "1 row with missing inputs left out" in result.stderr
    assert len(pd.read_csv(tmp_path / "p.csv")) == 6


def test_stdin_and_a_model_without_names(call: Call, tmp_path: Path, fitted: Path) -> None:
    data = b"x0,x1\n1,2\n3,4\n"
    found = pd.read_csv(io.StringIO(call("predict", fitted / "bare.covary", "-", stdin=data).stdout))
    assert len(found) == 2
    assert "does not have 2 of the 2 input columns" in error(
        call("predict", fitted / "bare.covary", "-", stdin=b"a,b\n1,2\n"), 3
    )


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["none.covary", "new.csv"], 4, "there is no file 'none.covary'"),
        (["new.csv", "new.csv"], 4, "is a table, or a damaged model file; give a model"),
        (["half.covary", "new.csv"], 4, "half.covary"),
        (["-", "new.csv"], 4, "stdin"),
        (["one.covary", "short.csv"], 3, "has no column 'z'; its columns are 'x', 'y'."),
        (["one.covary", "other.csv"], 3, "does not have 2 of the 2 input columns of 'one.covary': 'x', 'z'; add them."),
        (["one.covary", "none.csv"], 3, "there is no file"),
        (["one.covary", "new.csv", "--out", "p.doc"], 2, "is not a table format"),
        (["one.covary", "new.csv", "--out", "p.parquet.gz"], 2, "already compressed"),
        (["one.covary", "new.csv", "--out", "no/p.csv"], 2, "does not exist"),
        (["one.covary", "new.csv", "--out", "new.csv"], 2, "also an input"),
        (["one.covary", "new.csv", "--level", "1.5"], 2, "--level is 1.5"),
        (["one.covary", "new.csv", "--keep", "ex"], 2, "--keep: 'new.csv' has no column 'ex'; did you mean 'x'?"),
        (["one.covary", "clash.csv", "--keep-all"], 2, "'mean' has the name of an output column"),
    ],
)
def test_errors(call: Call, tmp_path: Path, fitted: Path, arguments: list[str], code: int, said: str) -> None:
    whole = (fitted / "one.covary").read_bytes()
    (tmp_path / "one.covary").write_bytes(whole)
    (tmp_path / "half.covary").write_bytes(whole[: len(whole) // 2])
    write(tmp_path / "new.csv", new())
    write(tmp_path / "short.csv", [["x", "y"], [1, 2]])
    write(tmp_path / "other.csv", [["a", "b"], [1, 2]])
    write(tmp_path / "clash.csv", [["x", "z", "mean"], [1, 2, 3]])
    before = sorted((p.name, p.read_bytes()) for p in tmp_path.iterdir())
    assert said in error(call("predict", *arguments), code)
    assert sorted((p.name, p.read_bytes()) for p in tmp_path.iterdir()) == before


def test_far_away_is_the_prior(call: Call, tmp_path: Path, fitted: Path) -> None:
    write(tmp_path / "new.csv", [["x", "z"], [1e30, -1e30], [1e-300, 0]])
    found = pd.read_csv(io.StringIO(call("predict", fitted / "one.covary", "new.csv").stdout))
    assert np.isfinite(found.to_numpy()).all()
    assert "rescale" in error(call("predict", fitted / "one.covary", "-", stdin=b"x,z\n1e200,1\n"), 3)


def test_parts_make_a_whole(call: Call, tmp_path: Path, fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "new.csv", new(23))
    whole = pd.read_csv(io.StringIO(call("predict", fitted / "one.covary", "new.csv").stdout))
    monkeypatch.setattr(sys.modules["covary.fits.family"], "TOGETHER", 5)
    parts = pd.read_csv(io.StringIO(call("predict", fitted / "one.covary", "new.csv").stdout))
    np.testing.assert_allclose(parts, whole, rtol=1e-10)
