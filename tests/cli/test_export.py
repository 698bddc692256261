"""``covary export``: from a model file to a standalone Python file."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import covary
from covary._words import GAPS

from .conftest import waves, write
from .test_fit import error

Call = Callable[..., Any]


def test_from_a_table_to_a_predictor(call: Call, tmp_path: Path, fitted: Path) -> None:
    result = call("export", fitted / "one.covary", "predictor.py")
    assert result.exit_code == 0, result.output
    assert "wrote predictor.py (" in result.stdout
    assert "mean within" in result.stdout
    assert "python predictor.py new.csv predictions.csv" in result.stdout
    write(tmp_path / "new.csv", waves(7, seed=5))
    run = [sys.executable, "-I", "predictor.py", "new.csv", "out.csv"]
    assert subprocess.run(run, cwd=tmp_path, check=False).returncode == 0
    call("predict", fitted / "one.covary", "new.csv", "--out", "same.csv")
    here, there = pd.read_csv(tmp_path / "out.csv"), pd.read_csv(tmp_path / "same.csv")
    np.testing.assert_allclose(here, there[["mean", "std"]], rtol=1e-9)


def test_json_several_targets_and_no_error_bars(call: Call, tmp_path: Path, fitted: Path) -> None:
    found = json.loads(call("export", fitted / "two.covary", "p.py", "--json").stdout)
    assert found["written"] == "p.py"
    assert found["bytes"] == (tmp_path / "p.py").stat().st_size
    assert max(found["deviation"].values()) < 1e-10
    done = subprocess.run(
        [sys.executable, "p.py", "-"], input="x\n1\n", cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("y_mean,y_std,z_mean,z_std\n")
    assert call("export", fitted / "one.covary", "q.py", "--no-std", "-q").stdout == ""
    assert (tmp_path / "q.py").stat().st_size < (tmp_path / "p.py").stat().st_size + 10_000


NAMES = [*GAPS, "NaT", "Null", "NAN", "n/A", "missing", "-", "0", "a b", "true"]


@pytest.mark.filterwarnings("ignore:.*never seen in fit")
def test_categories_that_read_like_gaps(call: Call, tmp_path: Path) -> None:
    """The model, the command and the exported file agree on every text, whether the model knows it or not."""
    many = pd.DataFrame({"x": np.linspace(0, 1, 3 * len(NAMES)), "soil": pd.Series(NAMES * 3, dtype="category")})
    few = many[~many["soil"].isin(NAMES[:-4])].astype({"soil": str}).astype({"soil": "category"})
    new = pd.DataFrame({"x": 0.5, "soil": NAMES})
    quoted = "".join(f'0.5,"{text}"\n' for text in NAMES)
    (tmp_path / "new.csv").write_text(f"x,soil\n{quoted}", encoding="utf-8")
    for frame in (many, few):
        y = frame["x"] + 3 * frame["soil"].cat.codes
        model: Any = covary.GPRegressor("Matern32().on(0) + 4.0 * Hamming().on(1)", noise=0.1, fixed="*").fit(frame, y)
        expected = model.predict(new)
        model.save(tmp_path / "m.covary")
        model.export(tmp_path / "predictor.py")
        space: dict[str, Any] = {"__name__": "predictor"}
        exec((tmp_path / "predictor.py").read_text("utf-8"), space)
        for table in (new, {"x": [0.5] * len(NAMES), "soil": NAMES}):
            np.testing.assert_allclose(space["predict"](table), expected, rtol=1e-9)
        for gap in (None, np.nan, pd.NA, pd.NaT):
            with pytest.raises(ValueError, match="nan at row 0"):
                space["predict"](pd.DataFrame({"x": [0.5], "soil": [gap]}))
        known = np.array([text not in GAPS or frame is many for text in NAMES])
        said = call("predict", "m.covary", "new.csv", "--out", "p.csv", "--drop-missing")
        assert said.exit_code == 0, said.output
        np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["mean"], expected[known], rtol=1e-9)
        read = space["read_csv"](tmp_path / "new.csv")
        assert [cell is not None for cell in read["soil"]] == known.tolist()
        kept = {name: [v for v, ok in zip(column, known, strict=True) if ok] for name, column in read.items()}
        np.testing.assert_allclose(space["predict"](kept), expected[known], rtol=1e-9)
    assert "missing" in error(call("predict", "m.covary", "new.csv"), 3)


def test_gaps_and_digits_in_csv_files(call: Call, tmp_path: Path) -> None:
    """Spaces around a gap, or spaces alone, are a gap for the exported file as they are for the command."""
    frame = pd.DataFrame({"x": np.linspace(0, 1, 24), "soil": ["clay", "sand", None] * 8, "depth": [1.0, 2.0, None, 4.0] * 6})
    model: Any = covary.GPRegressor("Matern32().on(0) + 4.0 * Hamming().on(1) + Linear().on(2)", missing="impute", fixed="*")
    model.fit(frame, frame["x"]).save(tmp_path / "m.covary")
    model.export(tmp_path / "predictor.py")
    space: dict[str, Any] = {"__name__": "predictor"}
    exec((tmp_path / "predictor.py").read_text("utf-8"), space)
    cells = ["NA ", '" NA "', '"NA "', '" "', '"\t"', "\u2028", "\xa0", " NA", ""]
    rows = [f"0.5,{cell},2.0\n0.5,sand,{cell}\n" for cell in cells]
    (tmp_path / "new.csv").write_text("x,soil,depth\n" + "".join(rows) + '0.5,"sand ", 3\n', encoding="utf-8")
    assert call("predict", "m.covary", "new.csv", "--out", "p.csv").exit_code == 0
    found = space["predict"](space["read_csv"](tmp_path / "new.csv"))
    np.testing.assert_allclose(found, pd.read_csv(tmp_path / "p.csv")["mean"], rtol=1e-9)
    (tmp_path / "new.csv").write_text("x,soil,depth\n0.5,sand,\u0661\n", encoding="utf-8")  # a digit that tables do not have
    assert "contains text" in error(call("predict", "m.covary", "new.csv"), 3)
    with pytest.raises(ValueError, match="which is not a number"):
        space["predict"](space["read_csv"](tmp_path / "new.csv"))


def test_mistakes_are_one_sentence(call: Call, tmp_path: Path, fitted: Path) -> None:
    assert "ends in .py" in error(call("export", fitted / "one.covary", "predictor.txt"), 2)
    assert "FILE: the folder 'no' does not exist" in error(call("export", fitted / "one.covary", "no/p.py"), 2)
    assert "there is no file" in error(call("export", "none.covary", "p.py"), 4)
    counts: Any = covary.GPRegressor(likelihood="poisson", fixed=("*",)).fit(np.arange(20.0)[:, None], np.arange(20) % 5)
    counts.save(tmp_path / "counts.covary")
    assert "Poisson likelihood" in error(call("export", "counts.covary", "p.py"), 4)
    assert not (tmp_path / "p.py").exists()
