"""Real-world tables in the command: dates, categories, missing values, missing targets, workbooks, settings."""

from __future__ import annotations

import inspect
import io
import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import covary
from covary.cli import app
from covary.cli.config import entries

from .test_fit import error

Call = Callable[..., Any]
QUICK = ("--restarts", 0, "--error-bars", "no")


def things(rows: int = 40, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"depth [m]": rng.uniform(0, 9, rows).round(4), "soil": rng.choice(["clay", "sand", "silt"], rows)})
    frame["when"] = (pd.Timestamp("2019-02-01") + pd.to_timedelta(rng.integers(0, 2000, rows), "D")).strftime("%Y-%m-%d")
    frame["y"] = np.sin(frame["depth [m]"]) + 2.0 * (frame["soil"] == "sand") + 0.05 * rng.normal(size=rows)
    return frame


def fitted(call: Call, *options: Any) -> dict[str, Any]:
    result = call("fit", "t.csv", "-t", "y", *QUICK, "--json", *options)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def predicted(call: Call, *options: Any) -> tuple[pd.DataFrame, str]:
    result = call("predict", "t.covary", "new.csv", *options)
    assert result.exit_code == 0, result.output
    return pd.read_csv(io.StringIO(result.stdout)), result.stderr


def test_dates_and_categories_from_a_text_file(call: Call) -> None:
    frame = things()
    frame.to_csv("t.csv", index=False)
    found = fitted(call)
    kinds = {c["name"]: (c["kind"], c["unit"]) for c in found["columns"]}
    assert kinds == {"depth [m]": ("number", "m"), "soil": ("category", None), "when": ("date", "years")}
    assert set(found["relevance"]) == {"depth [m]", "soil", "when"}
    own = covary.GPRegressor(n_restarts=0, random_state=0).fit(frame.drop(columns="y"), frame["y"])
    assert found["log_evidence"] == own.log_marginal_likelihood_
    new = frame[["when", "soil", "depth [m]"]][:5].assign(other=1)
    new.loc[2, "soil"] = " granite "
    new.to_csv("new.csv", index=False)
    table, said = predicted(call)
    assert list(table.columns) == ["mean", "std", "lower", "upper", "flag"]
    assert table["flag"].fillna("").tolist() == ["", "", "soil 'granite' was never seen", "", ""]
    assert table["std"][2] > 3 * table["std"].drop(2).max()
    assert "column 'soil' contains 'granite' in 1 row, never seen in fit: wider error bars there" in said
    assert "ignored columns, which are not inputs of the model: 'other'" in said
    text = call("fit", "t.csv", "-t", "y", *QUICK).stdout
    assert "soil: 3 categories (clay, sand, silt)" in text
    assert "kernel.0.lengthscale[depth (m)]" in text
    assert "a yearly season of when: --seasonality yearly, or + Periodic(period=fixed(1)).on(2) in --kernel" in text


def test_numbers_can_be_categories(call: Call) -> None:
    frame = things().assign(zone=lambda f: f["soil"].map({"clay": 30, "sand": 10, "silt": 20})).drop(columns=["soil", "when"])
    frame.to_csv("t.csv", index=False)
    found = fitted(call, "--categories", "zone")
    assert found["columns"][1] == {
        "name": "zone",
        "kind": "category",
        "unit": None,
        "levels": ["10", "20", "30"],
        "counts": found["columns"][1]["counts"],
    }
    pd.DataFrame({"zone": [10, 99], "depth [m]": [2.0, 2.0]}).to_csv("new.csv", index=False)
    assert predicted(call)[0]["flag"].fillna("").tolist() == ["", "zone '99' was never seen"]
    assert "no column 'zon'" in error(call("fit", "t.csv", "-t", "y", "--categories", "zon"), 2)


def test_missing_inputs_by_choice(call: Call) -> None:
    frame = things()
    frame.loc[[4, 7], "depth [m]"] = np.nan
    frame.loc[9, "soil"] = np.nan
    frame.to_csv("t.csv", index=False)
    said = error(call("fit", "t.csv", "-t", "y"), 3)
    assert (
        "'depth [m]' of 't.csv' has no value on line 6 (2 missing in this column, 3 rows with a missing value in all)" in said
    )
    frame[3:6].to_csv("new.csv", index=False)
    fitted(call, "--missing", "drop")
    table, said = predicted(call)
    assert table["flag"].fillna("").tolist() == ["", "depth [m] is missing", ""]
    assert table["mean"].isna().tolist() == [False, True, False]
    assert "1 row with a missing input, left without a prediction" in said
    assert "2 rows with a known value" in said
    assert len(predicted(call, "--drop-missing")[0]) == 2
    found = fitted(call, "--missing", "indicator")
    assert list(found["relevance"]) != []
    assert {"depth [m] missing", "soil missing"} <= set(found["relevance"])
    assert found["columns"][0]["filled_with"].startswith("the median, ")
    table, said = predicted(call)
    assert table["flag"].fillna("").tolist() == ["", "depth [m] was missing", ""]
    assert table["mean"].notna().all()
    assert "depth: 2 entries replaced by the median" in call("info", "t.covary").stdout
    assert fitted(call, "--missing", "impute")["columns"][1]["filled_with"].startswith("the most frequent category, ")
    things().to_csv("t.csv", index=False)
    fitted(call, "--missing", "indicator")
    assert "column 'depth [m]' has missing values but had none in fit: they are replaced by the median" in predicted(call)[1]


def test_rows_without_a_target_are_predicted(call: Call) -> None:
    frame = things()
    full = frame.copy()
    frame.loc[[1, 5], "y"] = np.nan
    frame.to_csv("t.csv", index=False)
    found = fitted(call, "--predictions", "open.csv")
    assert (found["rows"], found["rows_dropped"], found["rows_without_target"], found["predictions"]) == (38, 0, 2, "open.csv")
    table = pd.read_csv("open.csv")
    assert list(table.columns) == [*frame.columns, "mean", "std", "lower", "upper", "flag"]
    pd.testing.assert_frame_equal(table[list(frame.columns)[:3]], frame.iloc[[1, 5], :3].reset_index(drop=True))
    assert (abs(table["mean"] - full["y"][[1, 5]].to_numpy()) < 5 * table["std"]).all()
    text = call("fit", "t.csv", "-t", "y", *QUICK).stdout
    assert "2 rows without y, not used for training; --predictions FILE predicts them" in text
    full.to_csv("t.csv", index=False)
    assert "every row has a value of y" in call("fit", "t.csv", "-t", "y", *QUICK, "--predictions", "none.csv").stdout
    assert not Path("none.csv").exists()
    assert "suffix is not a table format" in error(call("fit", "t.csv", "-t", "y", "--predictions", "p.doc"), 2)


def test_classes_without_a_label_are_predicted(call: Call) -> None:
    frame = things().drop(columns="when").assign(y=lambda f: np.where(f["depth [m]"] > 4, "deep", "flat"))
    frame.loc[3, "y"] = None
    frame.to_csv("t.csv", index=False)
    fitted(call, "--predictions", "open.csv")
    table = pd.read_csv("open.csv")
    assert table["class"].tolist() == ["deep" if frame["depth [m]"][3] > 4 else "flat"]
    assert {"p_deep", "p_flat"} <= set(table.columns)


def test_seasons(call: Call) -> None:
    days = np.arange(0, 1200, 17)
    y = np.sin(2 * np.pi * days / 365.25) + 0.05 * np.random.default_rng(0).normal(size=len(days))
    frame = pd.DataFrame({"when": (pd.Timestamp("2001-05-01") + pd.to_timedelta(days, "D")).strftime("%Y-%m-%d"), "y": y})
    frame.to_csv("t.csv", index=False)
    assert "Periodic" in fitted(call, "--seasonality", "yearly")["kernel"]
    assert "--seasonality is 'monthly'; choose from yearly" in error(
        call("fit", "t.csv", "-t", "y", "--seasonality", "monthly"), 2
    )
    both = ("--seasonality", "yearly", "--kernel", "Matern52()")
    assert "--seasonality adds to the default kernel" in error(call("fit", "t.csv", "-t", "y", *both), 2)


def test_workbooks(call: Call) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    frame = things().astype({"when": "datetime64[us]"})
    frame.to_csv("t.csv", index=False)
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append([])
    for row in [list(frame.columns), *frame.itertuples(index=False)]:
        sheet.append([v.to_pydatetime() if isinstance(v, pd.Timestamp) else v for v in row])
    book.create_sheet("notes")
    book.save("t.xlsx")
    own = fitted(call)
    result = call("fit", "t.xlsx", "-t", "y", *QUICK, "--json", "--out", "x.covary")
    found = json.loads(result.stdout)
    assert found["log_evidence"] == pytest.approx(own["log_evidence"], rel=1e-6)  # a sheet keeps 15 digits
    assert found["notes"] == ["the first of 2 sheets, 'Sheet'"]
    assert call("predict", "x.covary", "t.xlsx", "--out", "p.xlsx").exit_code == 0
    assert len(pd.read_excel("p.xlsx")) == 40
    sheet.cell(5, 1).value = None
    book.save("t.xlsx")
    assert "has no value in row 5 (1 missing" in error(call("fit", "t.xlsx", "-t", "y"), 3)  # as the sheet counts them
    Path("bad.xlsx").write_bytes(b"PK\x03\x04 no")
    assert "damaged or not an Excel workbook" in error(call("fit", "bad.xlsx", "-t", "y"), 3)


def test_a_workbook_without_openpyxl(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    Path("t.xlsx").write_bytes(b"PK")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    assert "needs openpyxl; run pip install 'covary[excel]'" in error(call("fit", "t.xlsx", "-t", "y"), 3)


# settings --------------------------------------------------------------------------------------------------------
def test_a_configuration_knows_every_option_of_fit(call: Call) -> None:
    aside = {"config", "save_config", "as_json", "quiet", "debug"}
    assert set(entries("gaussian_process")) == set(inspect.signature(app.fit).parameters) - aside
    things().to_csv("t.csv", index=False)
    Path("sub").mkdir()
    fitted(call, "--report", "sub/page.html", "--save-config", "run.toml")
    page = tomllib.loads(Path("run.toml").read_text())
    assert (page["report"], page["error_bars"]) == ("sub/page.html", "no")
    Path("sub/page.html").unlink()
    assert call("fit", "--config", "run.toml", "--quiet").exit_code == 0
    assert Path("sub/page.html").exists()


def test_a_configuration_repeats_a_run_to_the_last_bit(call: Call, tmp_path: Path) -> None:
    frame = things()
    frame.loc[3, "depth [m]"] = np.nan
    frame.to_csv("t.csv", index=False)
    Path("sub").mkdir()
    options = ("--missing", "impute", "--seed", 5, "--ignore", "when", "--categories", "soil", "--save-config", "sub/run.toml")
    first = fitted(call, *options)
    page = tomllib.loads(Path("sub/run.toml").read_text())
    assert (page["data"], page["inputs"], page["likelihood"], page["seed"]) == (
        "../t.csv",
        ["depth [m]", "soil"],
        "gaussian",
        5,
    )
    Path("elsewhere").mkdir()
    os.chdir("elsewhere")
    again = call("fit", "--config", "../sub/run.toml", "--out", "again.covary", "--json")
    assert again.exit_code == 0, again.output
    found = json.loads(again.stdout)
    for name in ("log_evidence", "kernel", "rows"):
        assert found[name] == first[name]
    one, two = covary.load(tmp_path / "t.covary"), covary.load("again.covary")
    mean, std = one.predict(frame, return_std=True)
    np.testing.assert_array_equal(two.predict(frame, return_std=True), (mean, std))
    # an option goes before the file; a changed table is said
    kernel = "Matern12().on('depth [m]') * Hamming().on('soil')"
    other = json.loads(call("fit", "--config", "../sub/run.toml", "--kernel", kernel, "--out", "o.covary", "--json").stdout)
    assert "Matern12" in other["kernel"]
    frame[:-1].to_csv("../t.csv", index=False)
    assert "has changed since the configuration was written" in call("fit", "--config", "../sub/run.toml").stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("data = ", "is not TOML"),
        ('data = "t.csv"\ntargets = "y"', "has an entry 'targets'; did you mean 'target'?"),
        ('command = "predict"', "is for another command"),
        ("[kernel]\na = 1", "'kernel' of 'run.toml' is {'a': 1}; give text or a number"),
        ("kernel = 2020-01-01", "'kernel' of 'run.toml' is 2020-01-01; give text or a number"),
        ("checkpoint = nan", "'checkpoint' of 'run.toml' is nan; give the name of a file as text"),
        ('report = ["a", 1]', "'report' of 'run.toml' is ['a', 1]; give the name of a file as text"),
        ("target = [1, 2]", "'target' of 'run.toml' is [1, 2]; give text or a list of text"),
        ("restarts = true", "'restarts' of 'run.toml' is True; give text or a number"),
        ("max_time = false", "'max_time' of 'run.toml' is False; give text or a number"),
        ("data = " + "[" * 20_000 + "]" * 20_000, "nests values too deeply"),
        ("seed = " + "9" * 5000, "contains a number that is too long"),
    ],
    ids=lambda v: v[:20],
)
def test_configurations_that_are_wrong(call: Call, text: str, said: str) -> None:
    Path("run.toml").write_text(text)
    assert said in error(call("fit", "--config", "run.toml"), 2)
    assert [path.name for path in Path().iterdir()] == ["run.toml"]  # nothing was written under the name of a value


def test_a_configuration_written_by_hand(call: Call) -> None:
    things().to_csv("t.csv", index=False)
    Path("run.toml").write_text(
        '\ufeffdata = "t.csv"\ntarget = "y"\nmax_time = 2.5\nkernel = "1.0 * Matern32().on(0)"\nrestarts = 0\n'
    )
    result = call("fit", "--config", "run.toml", "--json", "--error-bars", "no")
    assert result.exit_code == 0, result.output
    assert "Matern32" in json.loads(result.stdout)["kernel"]
    assert call("fit", "--config", "run.toml", "--seed", "x").exit_code == 2
    assert "there is no file" in error(call("fit", "--config", "none.toml"), 2)
    assert "not on stdin" in error(call("fit", "-", "-t", "y", "--save-config", "c.toml", stdin=b"x,y\n1,2\n"), 2)


def test_a_real_series_with_dates_and_gaps(call: Call, shared_data: Path) -> None:
    source = shared_data / "timeseries" / "mauna_loa_weekly_statsmodels.csv.gz"
    frame = pd.read_csv(source)[:400]
    frame.to_csv("t.csv", index=False)
    result = call("fit", "t.csv", "-t", "co2_ppm", *QUICK, "--seasonality", "yearly", "--predictions", "gaps.csv", "--json")
    found = json.loads(result.stdout)
    gaps = int(frame["co2_ppm"].isna().sum())
    assert gaps > 5
    assert (found["rows"], found["rows_without_target"]) == (400 - gaps, gaps)
    filled, around = pd.read_csv("gaps.csv"), frame.set_index("date")["co2_ppm"].interpolate()
    assert len(filled) == gaps
    assert np.abs(filled["mean"] - around[filled["date"]].to_numpy()).max() < 3.0
    assert filled["std"].max() < 3.0
