"""``covary info`` and ``covary demo``, help and version."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import covary
from covary import files

from .conftest import waves, write
from .test_fit import error

Call = Callable[..., Any]


def test_a_table(call: Call, tmp_path: Path) -> None:
    cells = [["x", "name", "flag", "gap"], [1.5, "b", True, ""], [2.5, "[red]a", False, 3], [0.5, "", True, ""]]
    write(tmp_path / "t.csv", cells, ";")
    result = call("info", "t.csv")
    assert result.exit_code == 0, result.output
    for words in ("rows", "3, 2 with a missing value", "semicolons", "true or false", "[red]a", "numbers", "categories"):
        assert words in result.stdout
    found = json.loads(call("info", "t.csv", "--json").stdout, parse_constant=pytest.fail)
    by_name = {c["name"]: c for c in found["columns"]}
    assert found["rows"] == 3
    assert by_name["x"] | {"name": 0} == {
        "name": 0,
        "type": "numbers",
        "usable": True,
        "missing": 0,
        "distinct": 3,
        "least": 0.5,
        "most": 2.5,
    }
    assert (by_name["name"]["type"], by_name["name"]["usable"], by_name["gap"]["missing"]) == ("categories", True, 2)


def test_notes_in_a_model_file_are_not_believed(call: Call, tmp_path: Path, fitted: Path) -> None:
    """Whoever wrote the note of how a model was made: it is shown as it is, and no command fails on it."""
    write(tmp_path / "t.csv", waves())
    for notes in (
        {"command": ["\x1b[31m"], "data": {"a": [1]}, "versions": [5], "kernel": "\ud800", "rows": "many"},
        {"ignored": [{}], "noise column": [], "weight column": {}, "size column": 5},
        {"ignored": 7, "command": None},
    ):
        kind, page, arrays = files.read(fitted / "one.covary")
        files.write(tmp_path / "m.covary", kind, {**page, "made": notes}, arrays)
        for command in (
            ["info", "m.covary"],
            ["info", "m.covary", "--json"],
            ["predict", "m.covary", "t.csv", "--out", "p.csv"],
        ):
            said = call(*command)
            assert said.exit_code == 0, said.output
            assert "\x1b" not in said.output
            assert "--json" not in command or json.loads(said.stdout)


def test_tables_of_other_kinds(call: Call, tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"when": pd.to_datetime(["2020-01-01", "2021-05-01"]), "empty": [None, None], "n": [1, 2], "deep": [[1], [2]]}
    )
    frame.to_parquet(tmp_path / "t.parquet")
    found = json.loads(call("info", "t.parquet", "--json").stdout)
    assert [c["type"] for c in found["columns"]] == ["dates", "empty", "whole numbers", "text"]
    assert "2021-05-01" in call("info", "t.parquet").stdout
    kinds = pd.DataFrame(
        {
            "soil": pd.Series(["sand", None, "clay"], dtype="category"),
            "code": pd.Series([3, 1, 2], dtype="category"),
            "long": pd.to_timedelta([1, 2, 3], "h"),
            "fine": pd.to_datetime(["2020-01-01T00:00:00.000000001"] * 3),
        }
    )
    kinds.to_parquet(tmp_path / "kinds.parquet")
    found = json.loads(call("info", "kinds.parquet", "--json").stdout)
    ends = {c["name"]: (c["least"], c["most"], c["missing"]) for c in found["columns"]}
    assert ends["soil"] == ("clay", "sand", 1)
    assert ends["code"] == (1, 3, 0)
    assert ends["long"] == ("0 days 01:00:00", "0 days 03:00:00", 0)
    assert call("info", "kinds.parquet").exit_code == 0
    frame[["when", "n"]].to_excel(tmp_path / "t.xlsx", index=False)  # a zip archive, and no model
    assert [c["type"] for c in json.loads(call("info", "t.xlsx", "--json").stdout)["columns"]] == ["dates", "whole numbers"]
    assert json.loads(call("info", "-", "--json", stdin=b"a,b\n1,inf\n").stdout)["columns"][1]["most"] is None
    assert call("info", "-", stdin=b"a,b\n").exit_code == 0  # a header alone is worth a look
    assert "there is no file" in error(call("info", "none.csv"), 3)
    assert "cannot be read" in error(call("info", "a\0b.csv"), 3)
    assert "there is no file" in error(call("info", "none.covary"), 4)
    (tmp_path / "empty").mkdir()
    assert "is a folder without Parquet files" in error(call("info", tmp_path / "empty"), 3)


def test_a_model(call: Call, tmp_path: Path) -> None:
    write(tmp_path / "t.csv", waves())
    call("fit", "t.csv", "-t", "y", "--seed", 3, "--kernel", "1.0 * Matern32()", "-q")
    result = call("info", "t.covary")
    for words in (
        "t.covary, ",
        "Matern32",
        "log evidence",
        "×/÷",
        "relevance",
        "how it was made",
        "covary fit",
        "t.csv",
        "numpy",
    ):
        assert words in result.stdout
    found = json.loads(call("info", "t.covary", "--json").stdout, parse_constant=pytest.fail)
    assert (found["inputs"], found["targets"], found["rows"]) == (["x", "z"], ["y"], 25)
    assert found["made"] | {"versions": 0} == {
        "command": "fit",
        "data": "t.csv",
        "rows": 25,
        "rows dropped": 0,
        "rows without target": 0,
        "ignored": [],
        "missing": "refuse",
        "categories": [],
        "seasonality": [],
        "noise column": None,
        "weight column": None,
        "size column": None,
        "likelihood": "gaussian",
        "inference": "auto",
        "method": "auto",
        "objective": "evidence",
        "link": None,
        "kernel": "1.0 * Matern32()",
        "seed": 3,
        "restarts": covary.GPRegressor().n_restarts,
        "max time": None,
        "versions": 0,
        "covary": covary.__version__,
    }
    (tmp_path / "t.covary").rename(tmp_path / "renamed")
    assert "covary fit" in call("info", "renamed").stdout  # known by its bytes
    covary.GPRegressor(random_state=0).fit([[0.0], [1.0]], [0.0, 1.0]).save(tmp_path / "own.covary")
    assert "a program, not the command" in call("info", "own.covary").stdout
    (tmp_path / "bad.covary").write_bytes(b"PK\x03\x04 no")
    assert "bad.covary" in error(call("info", "bad.covary"), 4)


def half(x):
    return 0.5 * x[0]


def test_a_model_with_functions_of_its_own_is_for_python(call: Call, tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0]})
    covary.GPRegressor("Matern52()", mean=half, noise=0.1, fixed="*").fit(frame, [0.0, 1.0, 0.0, 2.0]).save("m.covary")
    frame.to_csv(tmp_path / "t.csv", index=False)
    for arguments in (["info"], ["predict"], ["report"], ["export"]):
        more = {"predict": ["t.csv"], "report": ["--out", "r.html"], "export": ["p.py"]}.get(arguments[0], [])
        said = error(call(*arguments, "m.covary", *more), 4)
        assert "uses the function 'half'" in said
        assert "which the command cannot access; load it in Python and pass functions=..." in said


def test_pipes_in_the_place_of_files(call: Call, tmp_path: Path) -> None:
    """Nobody waits for somebody to write into them."""
    for name, code in {"m.covary": 4, "t.csv": 3, "t.parquet": 3, "nothing": 3}.items():
        os.mkfifo(tmp_path / name)
        assert "a pipe or a device, not a plain file" in error(call("info", name), code)


def test_the_same_model_makes_the_same_bytes(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 0.0)  # how long learning took is in the file
    write(tmp_path / "t.csv", waves())
    for name in ("a.covary", "b.covary"):
        assert call("fit", "t.csv", "-t", "y", "--out", name, "-q").exit_code == 0
    assert (tmp_path / "a.covary").read_bytes() == (tmp_path / "b.covary").read_bytes()


def test_the_machine(call: Call) -> None:
    text = call("info").stdout
    for words in ("covary", covary.__version__, "jax", "numpy", "scipy", "python", "devices", "cores", "GiB", "nowhere"):
        assert words in text
    found = json.loads(call("info", "--json").stdout)
    assert found["cores"] >= 1
    assert found["cache"] == "nowhere"


def test_a_home_that_cannot_be_written(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(directory: str | None = None) -> str:
        raise PermissionError(directory)

    monkeypatch.setattr(covary, "enable_cache", refuse)
    write(tmp_path / "t.csv", waves())
    assert call("fit", "t.csv", "-t", "y", "-q").output == ""
    assert "not cached" in call("info").stdout


@pytest.mark.parametrize("months", [60, pytest.param(521, marks=pytest.mark.slow)])
def test_demo(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, months: int) -> None:
    from covary import datasets

    record = datasets.load_co2()
    monkeypatch.setattr(datasets, "load_co2", lambda: record.iloc[-months:])
    result = call("demo", "--out", "here")
    assert result.exit_code == 0, result.output
    assert "ppm, 95 % between" in result.stdout
    assert sorted(p.name for p in (tmp_path / "here").iterdir()) == ["co2.covary", "co2.csv", "forecast.png", "predictions.csv"]
    table = pd.read_csv(tmp_path / "here" / "predictions.csv")
    assert list(table.columns) == ["decimal_year", "co2_ppm", "std", "lower95", "upper95"]
    assert len(table) == 241
    if months == 521:
        assert table.iloc[-1]["co2_ppm"] == pytest.approx(405, abs=12)
    assert (tmp_path / "here" / "forecast.png").read_bytes().startswith(b"\x89PNG")
    check = call("predict", "here/co2.covary", "here/co2.csv", "--out", "check.csv")
    assert "co2_ppm: R² 0.9" in check.stderr or "co2_ppm: R² 1" in check.stderr
    (tmp_path / "file").write_text("")
    assert "'file' is a file" in error(call("demo", "--out", "file"), 2)


def test_help_and_version(call: Call) -> None:
    assert call("--version").stdout.strip() == f"covary {covary.__version__}"
    text = call("--help").stdout
    for words in ("fit", "predict", "demo", "info", "covary fit houses.csv --target price", "Exit codes", "130"):
        assert words in text
    assert "--noise-column" in call("fit", "--help").stdout
    assert call("--help").stdout == call("-h").stdout
    assert call().exit_code == 2
    assert "Did you mean 'fit'" in call("ft").output


def test_every_option_is_documented() -> None:
    import typer.main

    from covary.cli.app import app

    page = (Path(__file__).parents[2] / "docs" / "command.md").read_text()
    command: Any = typer.main.get_command(app)
    for name, part in command.commands.items():
        assert f"## covary {name}" in page
        for parameter in part.params:
            assert parameter.name == "help" or parameter.help, (name, parameter.name)
            for option in parameter.opts:
                if option.startswith("--") and option not in ("--help", "--debug", "--quiet", "--json"):
                    assert f"`{option}" in page, option
    for option in ("--debug", "--quiet", "--json"):
        assert f"`{option}`" in page
    from covary.cli.errors import CODES

    for code in CODES:
        assert f"| {code} |" in page
