"""A user-defined family of models in the command: fit, info, predict and report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from covary import fits

from .conftest import waves, write

Call = Callable[..., Any]


@pytest.fixture(autouse=True)
def _constant() -> Iterator[None]:
    fits.register("constant", "contracts.constant")
    yield
    fits.FAMILIES.pop("constant")


def test_a_family_is_fitted_described_asked_and_reported(call: Call, tmp_path: Path) -> None:
    write(tmp_path / "t.csv", waves())
    result = call("fit", "t.csv", "-t", "y", "--family", "constant", "--json", "--report", "t.html", "--save-config", "t.toml")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["family"], found["rows"], found["inputs"], found["targets"]) == ("constant", 25, ["x", "z"], ["y"])
    assert "<!doctype html>" in (tmp_path / "t.html").read_text()[:100].lower()
    said = call("predict", "t.covary", "t.csv", "--out", "p.csv")
    assert said.exit_code == 0, said.output
    assert "rows with a known value" in said.stderr
    answers = pd.read_csv(tmp_path / "p.csv")
    assert list(answers) == ["mean", "std", "lower", "upper"]
    assert answers["mean"].nunique() == 1
    assert answers["mean"][0] == pytest.approx(pd.read_csv(tmp_path / "t.csv")["y"].mean(), abs=1e-6)
    info = call("info", "t.covary")
    assert info.exit_code == 0, info.output
    assert call("report", "t.covary", "--out", "again.html").exit_code == 0
    again = call("fit", "--config", "t.toml", "--out", "again.covary", "--json")
    assert json.loads(again.stdout)["family"] == "constant"


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--family", "none"], 2, "is not known; choose one of constant, gaussian_process"),
        (["--family", "constant", "--kernel", "Matern52()"], 2, "--kernel is for the family gaussian_process, not 'constant'"),
        (["--family", "constant", "--set", "depth=3"], 2, "is not a setting of the family 'constant'"),
        (
            ["--family", "constant", "--max-time", "3"],
            2,
            "--max-time cannot be combined with the family 'constant'; leave it out",
        ),
        (["--family", "constant", "--checkpoint", "c"], 2, "--checkpoint cannot be combined with the family 'constant'"),
        (["--family", "constant", "--workers", "1"], 2, "--workers cannot be combined with the family 'constant'"),
        (["--family", "constant", "--noise-column", "z"], 2, "--noise-column cannot be combined with the family 'constant'"),
        (["--set", "depth=3"], 2, "is not a setting of the family 'gaussian_process'"),
    ],
)
def test_what_a_family_does_not_take(call: Call, tmp_path: Path, options: list[str], code: int, said: str) -> None:
    write(tmp_path / "t.csv", waves())
    result = call("fit", "t.csv", "-t", "y", *options)
    assert result.exit_code == code
    assert said in result.stderr


def test_a_family_gets_what_it_takes(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns, settings and options of the command reach ``learn``."""
    write(tmp_path / "waves.csv", waves())
    pd.read_csv(tmp_path / "waves.csv").assign(y=range(25), weight=2.0, sd=0.5, trials=3).to_csv(
        tmp_path / "t.csv", index=False
    )
    found = fits.family("constant")
    seen: list[fits.Observed] = []
    learn = found.learn
    takes = fits.Takes(weights=True, noise=True, sizes=True, max_time=True, checkpoint=True)
    monkeypatch.setattr(found, "takes", takes)
    monkeypatch.setattr(found, "learn", lambda observed: (seen.append(observed), learn(observed))[1])
    settings = ["--max-time", 9, "--checkpoint", "c", "--seed", 4]
    for columns in (["--weight-column", "weight", "--noise-column", "sd"], ["--size-column", "trials"]):
        said = call("fit", "t.csv", "-t", "y", "--family", "constant", "--inputs", "x,z", *columns, *settings)
        assert said.exit_code == 0, said.output
    noisy, sized = seen
    assert noisy.names == sized.names == ("x", "z")
    assert (noisy.max_time, noisy.checkpoint, noisy.seed, noisy.executor) == (9.0, "c", 4, None)
    for values, value in ((noisy.weight, 2.0), (noisy.noise, 0.25), (sized.size, 3.0)):
        np.testing.assert_array_equal(values, np.full(25, value))
    assert noisy.size is sized.noise is sized.weight is None
