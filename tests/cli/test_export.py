"""``covary export``: from a model file to a Python file that predicts by itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import covary

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


def test_mistakes_are_one_sentence(call: Call, tmp_path: Path, fitted: Path) -> None:
    assert "ends in .py" in error(call("export", fitted / "one.covary", "predictor.txt"), 2)
    assert "the file to write: the folder 'no' does not exist" in error(call("export", fitted / "one.covary", "no/p.py"), 2)
    assert "there is no file" in error(call("export", "none.covary", "p.py"), 4)
    counts: Any = covary.GPRegressor(likelihood="poisson", fixed=("*",)).fit(np.arange(20.0)[:, None], np.arange(20) % 5)
    counts.save(tmp_path / "counts.covary")
    assert "Poisson likelihood" in error(call("export", "counts.covary", "p.py"), 4)
    assert not (tmp_path / "p.py").exists()
