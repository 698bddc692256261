"""``covary fit``: files, output and exit codes."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import covary
from covary.fits import family

from .conftest import waves, write

Call = Callable[..., Any]


def error(result: Any, code: int) -> str:
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert result.stderr.startswith("covary: error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_with_a_target_alone(call: Call, tmp_path: Path) -> None:
    write(tmp_path / "sales.csv", waves())
    result = call("fit", "sales.csv", "--target", "y")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    for words in ("log evidence", "noise", "kernel.lengthscale[x]", "×/÷", "relevance", "wrote sales.covary", "converged"):
        assert words in result.stdout
    model = covary.load(tmp_path / "sales.covary")
    assert list(model.feature_names_in_) == ["x", "z"]
    assert model.target_names_ == ["y"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["sales.covary", "sales.csv"]
    assert "replaced sales.covary" in call("fit", "sales.csv", "--target", "y").stdout


def test_the_model_is_the_library_s_own(call: Call, tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", waves())
    assert call("fit", path, "--target", "y", "--out", "m.covary", "--quiet").output == ""
    frame = pd.read_csv(path)
    own = covary.GPRegressor(random_state=0).fit(frame[["x", "z"]], frame["y"])
    new = pd.DataFrame({"x": [0.5, 2.0], "z": [0.0, 1.0]})
    np.testing.assert_array_equal(covary.load(tmp_path / "m.covary").predict(new), own.predict(new))


def test_json_is_strict_and_complete(call: Call, tmp_path: Path) -> None:
    write(tmp_path / "t.csv", waves())
    result = call("fit", "t.csv", "--target", "y", "--json")
    assert result.stderr == ""
    found = json.loads(result.stdout, parse_constant=pytest.fail)
    assert found["model"] == "t.covary"
    assert (found["rows"], found["inputs"], found["targets"]) == (25, ["x", "z"], ["y"])
    model = covary.load(tmp_path / "t.covary")
    assert found["log_evidence"] == model.log_marginal_likelihood_
    assert found["kernel"] == repr(model.model_.kernel)
    assert found["noise_std"] == pytest.approx(0.05, rel=0.6)
    by_name = {p["name"]: p for p in found["parameters"]}
    errors = model.learned_.log_errors
    np.testing.assert_allclose(by_name["kernel.lengthscale[x]"]["error"], errors["kernel.lengthscale"][0], rtol=1e-6)
    assert by_name["mean.value"]["scale"] == "plain"
    assert list(found["relevance"]) == ["x", "z"]
    assert found["relevance"]["x"] > 0.8
    assert found["relevance"]["z"] < 0.2
    assert 0 < found["seconds"]["learning"] <= found["seconds"]["all"]


def test_error_bars_can_be_left_out(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "t.csv", waves())
    found = json.loads(call("fit", "t.csv", "--target", "y", "--json", "--error-bars", "no").stdout)
    assert all(p["error"] is None for p in found["parameters"])
    monkeypatch.setattr(family("gaussian_process"), "price", lambda fit: 100.0)
    text = call("fit", "t.csv", "--target", "y").stdout
    assert "they would take about 1 min 40 s; compute them with --error-bars yes" in text
    assert "×/÷" not in text
    assert "×/÷" in call("fit", "t.csv", "--target", "y", "--error-bars", "yes").stdout


def test_several_targets_inputs_ignore_and_stdin(call: Call, tmp_path: Path) -> None:
    cells = [[*row, row[2] * 2 if i else "y 2", "text"] for i, row in enumerate(waves())]
    cells[0][-1] = "name"
    path = write(tmp_path / "t.csv", cells)
    result = call("fit", "-", "--target", "y,y 2", "--ignore", "name", "--json", stdin=path.read_bytes())
    assert result.exit_code == 0, result.output
    model = covary.load(tmp_path / "model.covary")
    assert model.target_names_ == ["y", "y 2"]
    assert list(model.feature_names_in_) == ["x", "z"]
    assert call("fit", path, "-t", "y", "-t", "y 2", "--inputs", "z,x", "--out", "two.covary", "-q").exit_code == 0
    assert list(covary.load(tmp_path / "two.covary").feature_names_in_) == ["z", "x"]


def test_known_noise_is_a_standard_deviation_and_weights_are_counts(call: Call, tmp_path: Path) -> None:
    cells = [[*row, 0.3 if i else "sd", float(i % 3) if i else "w"] for i, row in enumerate(waves())]
    path = write(tmp_path / "t.csv", cells)
    assert call("fit", path, "--target", "y", "--noise-column", "sd", "--weight-column", "w", "-q").exit_code == 0
    model = covary.load(tmp_path / "t.covary")
    assert list(model.feature_names_in_) == ["x", "z"]
    frame = pd.read_csv(path)
    own = covary.GPRegressor(random_state=0).fit(
        frame[["x", "z"]], frame["y"], noise_variance=frame["sd"] ** 2, sample_weight=frame["w"]
    )
    assert model.log_marginal_likelihood_ == own.log_marginal_likelihood_
    assert "zero or more" in error(
        call("fit", write(tmp_path / "u.csv", [["x", "y", "w"], [1, 2, -1]]), "-t", "y", "--weight-column", "w"), 3
    )
    assert "every value in 'w' is zero" in error(
        call("fit", write(tmp_path / "u.csv", [["x", "y", "w"], [1, 2, 0]]), "-t", "y", "--weight-column", "w"), 2
    )
    assert "a single target" in error(call("fit", path, "-t", "y,z", "--noise-column", "sd"), 2)


def test_missing_rows_are_dropped_when_asked(call: Call, tmp_path: Path) -> None:
    cells = waves()
    cells[3][0], cells[5][2] = "", "NA"
    write(tmp_path / "t.csv", cells)
    said = error(call("fit", "t.csv", "--target", "y"), 3)
    assert "column 'x' of 't.csv' has no value on line 4 (1 missing in this column); leave such rows out" in said
    assert "--missing drop, impute or indicator" in said
    result = call("fit", "t.csv", "--target", "y", "--drop-missing")
    assert "23 rows, 2 left out for missing values" in result.stdout


def test_text_columns_say_what_to_do(call: Call, tmp_path: Path) -> None:
    cells = [[*row, f"{i} Elm" if i else "the street"] for i, row in enumerate(waves())]
    write(tmp_path / "t.csv", cells)
    said = error(call("fit", "t.csv", "--target", "y"), 3)
    assert "column 'the street' of 't.csv' contains 25 distinct texts in 25 rows, such as '1 Elm': identifiers" in said
    assert "leave it out with --ignore 'the street'" in said
    assert call("fit", "t.csv", "--target", "y", "--ignore", "the street", "-q").exit_code == 0
    cells[9][3] = "12.5"
    write(tmp_path / "t.csv", [[*row[:3], "1.5" if i % 9 else "n.a."] for i, row in enumerate(cells)])
    said = error(call("fit", "t.csv", "--target", "y"), 3)
    assert "column 'n.a.' of 't.csv' contains text among numbers ('n.a.' on line 10, 2 such entries in all)" in said
    assert "use --categories n.a., or leave the column out with --ignore n.a." in said


def test_kernels(call: Call, tmp_path: Path) -> None:
    write(tmp_path / "t.csv", waves())
    result = call("fit", "t.csv", "-t", "y", "--kernel", "1.0 * Matern32()", "--restarts", 0, "--json")
    assert "Matern32" in json.loads(result.stdout)["kernel"]
    assert "--kernel: no kernel is called 'Mattern'" in error(call("fit", "t.csv", "-t", "y", "--kernel", "Mattern()"), 2)
    assert "3 entries but the input table has 2 columns" in error(
        call("fit", "t.csv", "-t", "y", "--kernel", "Matern52(lengthscale=[1,2,3])"), 2
    )
    assert "column 4" in error(call("fit", "t.csv", "-t", "y", "--kernel", "Matern52().on(4)"), 2)


def test_kernels_by_name_and_categories(call: Call, tmp_path: Path) -> None:
    rows = [f"{i / 4},{'clay' if i % 3 else 'sand'},{i % 5}" for i in range(15)]
    (tmp_path / "soil.csv").write_text("\n".join(["depth,soil,y", *rows]))
    fit = ("fit", "soil.csv", "-t", "y", "--restarts", 0, "--json", "--kernel")
    said = error(call(*fit, "2*Matern52()"), 2)
    assert "--kernel has Matern52 on 'soil', where 'soil.csv' contains categories" in said
    assert "write (2*Matern52()).on('depth') * Hamming().on('soil')." in said
    assert "--kernel: the kernel uses column 'dept'" in error(call(*fit, "Matern52().on('dept')"), 2)
    assert "unknown argument 'ell'" in error(call(*fit, "Matern52(ell=1)"), 2)
    found = call(*fit, "fixed(3**2) * Matern52().on('depth') * Hamming().on('soil')")
    assert "fixed(9.0) * Columns(Matern52(" in json.loads(found.stdout)["kernel"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["t.csv", "-t", "why"], 2, "'t.csv' has no column 'why'; its columns are 'x', 'z', 'y'."),
        (["none.csv", "-t", "y"], 3, "there is no file 'none.csv'"),
        (["t.csv", "-t", "y", "--out", "no/such/m.covary"], 2, "the folder 'no/such' does not exist"),
        (["t.csv", "-t", "y", "--report", "no/r.html"], 2, "--report: the folder 'no' does not exist"),
        (["t.csv", "-t", "y", "--save-config", "no/c.toml"], 2, "--save-config: the folder 'no' does not exist"),
        (["t.csv", "-t", "y", "--predictions", "no/p.csv"], 2, "--predictions: the folder 'no' does not exist"),
        (["t.csv", "-t", "y", "--predictions", "-"], 2, "--predictions is '-', whose suffix is not a table format"),
        (["t.csv", "-t", "y", "--out", "t.csv"], 2, "which is also an input"),
        (["t.csv", "-t", "y", "--out", "."], 2, "is a folder"),
    ],
)
def test_errors(call: Call, tmp_path: Path, arguments: list[str], code: int, said: str) -> None:
    path = write(tmp_path / "t.csv", waves())
    before = path.read_bytes()
    assert said in error(call("fit", *arguments), code)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize(
    "arguments", [["--seed", "-1"], ["--restarts", "x"], ["--max-time", "-3"], ["--error-bars", "maybe"], ["--bogus"]]
)
def test_wrong_usage_is_typer_s(call: Call, tmp_path: Path, arguments: list[str]) -> None:
    write(tmp_path / "t.csv", waves())
    result = call("fit", "t.csv", "-t", "y", *arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_library_errors_become_codes(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from covary._checks import CovaryError, NotEnoughMemory, NotPositiveDefinite

    write(tmp_path / "t.csv", waves())
    for raised, code, said in [
        (CovaryError("learn", "no", "try"), 5, "error: no; try."),
        (NotPositiveDefinite("gram", "no", "try"), 5, "error: no; try."),
        (NotEnoughMemory("learn", "9 GiB", "fewer"), 6, "error: 9 GiB; fewer."),
        (MemoryError(), 6, "ran out of memory"),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory\nwhile"), 6, "ran out of memory"),
        (np.linalg.LinAlgError("SVD"), 5, "linear algebra failed (SVD)"),
        (
            ZeroDivisionError("oh\nno"),
            1,
            "something went wrong inside covary (ZeroDivisionError: oh no); run again with --debug",
        ),
        (KeyboardInterrupt(), 130, "interrupted; nothing was written."),
    ]:

        def fail(*_: Any, raised: BaseException = raised, **__: Any) -> None:
            warnings.warn("never seen", stacklevel=1)
            raise raised

        with monkeypatch.context() as patch:
            patch.setattr("covary.families.gaussian_process.tables.learn_regression", fail)
            assert said in error(call("fit", "t.csv", "-t", "y"), code)
            shown = call("fit", "t.csv", "-t", "y", "--debug")
            assert shown.exit_code == code
            assert "Traceback" in shown.stderr
        assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


def test_what_had_been_written_is_said_when_interrupted(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    write(tmp_path / "t.csv", waves())
    monkeypatch.setattr("covary.cli.shown.relevance", interrupt)
    assert "interrupted; already written: t.covary." in error(call("fit", "t.csv", "-t", "y"), 130)
    covary.load(tmp_path / "t.covary")


def test_out_of_time_still_gives_a_model(call: Call, tmp_path: Path) -> None:
    write(tmp_path / "t.csv", waves())
    found = json.loads(call("fit", "t.csv", "-t", "y", "--max-time", 0, "--json").stdout)
    assert found["status"] == "out of time"
    covary.load(tmp_path / "t.covary")


def test_another_objective(call: Call, tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", waves())
    assert call("fit", path, "--target", "y", "--objective", "loo", "--quiet", "--save-config", "t.toml").exit_code == 0
    frame = pd.read_csv(path)
    own = covary.GPRegressor(objective="loo", random_state=0).fit(frame[["x", "z"]], frame["y"])
    new = pd.DataFrame({"x": [0.5, 2.0], "z": [0.0, 1.0]})
    np.testing.assert_array_equal(covary.load(tmp_path / "t.covary").predict(new), own.predict(new))
    assert 'objective = "loo"' in (tmp_path / "t.toml").read_text()
    pd.DataFrame({"x": range(20), "n": [0, 1, 2, 3, 4] * 4}).to_csv(tmp_path / "c.csv", index=False)
    said = error(call("fit", "c.csv", "--target", "n", "--objective", "loo"), 2)
    assert "--objective loo requires Gaussian noise" in said
