"""Output of the command: pipes and links as ``--out``, and Excel cells that look like formulas."""

from __future__ import annotations

import datetime as dt
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from covary.cli.output import table_bytes
from covary.tables.files import read_table
from covary.tables.sheets import sheet_bytes

from .conftest import waves, write
from .test_fit import error

Call = Callable[..., Any]


def test_predictions_go_through_a_pipe(call: Call, tmp_path: Path, fitted: Path) -> None:
    write(tmp_path / "new.csv", waves(7, seed=1))
    plain = call("predict", fitted / "one.covary", "new.csv").stdout
    for name in ("pipe", "pipe.csv"):
        os.mkfifo(tmp_path / name)
        got: list[str] = []
        thread = threading.Thread(target=lambda to=got, path=tmp_path / name: to.append(path.read_text()), daemon=True)
        thread.start()
        assert call("predict", fitted / "one.covary", "new.csv", "--out", name).exit_code == 0
        thread.join()
        assert got == [plain]
        assert stat.S_ISFIFO((tmp_path / name).stat().st_mode)


def test_a_name_that_cannot_be_is_said_before_any_work(call: Call, tmp_path: Path, fitted: Path) -> None:
    write(tmp_path / "t.csv", waves(7, seed=1))
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    assert "--out: 'loop.csv' cannot be written (Too many levels" in error(
        call("predict", fitted / "one.covary", "t.csv", "--out", "loop.csv"), 2
    )
    (tmp_path / "c.toml").write_text('out = "a\\u0000b"\n')
    assert "contains a NUL character" in error(call("fit", "t.csv", "-t", "y", "--config", "c.toml"), 2)
    (tmp_path / "same.csv").symlink_to("t.csv")
    assert "also an input" in error(call("predict", fitted / "one.covary", "t.csv", "--out", "same.csv"), 2)


QUICK = ("--kernel", "Matern52()", "--restarts", "0", "--quiet")


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [
        ("--out", "--save-config", "same.toml"),
        ("--out", "--report", "same.html"),
        ("--out", "--predictions", "same.csv"),
        ("--out", "--checkpoint", "same"),
        ("--report", "--save-config", "same.html"),
    ],
)
def test_two_outputs_under_one_name_are_refused(call: Call, tmp_path: Path, first: str, second: str, name: str) -> None:
    """The later one replaced the earlier one, and the command said that both were written."""
    write(tmp_path / "t.csv", waves(7, seed=1))
    (tmp_path / f"link-{name}").symlink_to(name)
    done = call("fit", "t.csv", "-t", "y", *QUICK, first, name, second, f"./link-{name}")
    assert f"to which {first} writes as well" in error(done, 2) or f"to which {second} writes as well" in error(done, 2)
    assert not (tmp_path / name).exists()


def test_nothing_that_is_read_is_written_over(call: Call, tmp_path: Path, fitted: Path) -> None:
    pytest.importorskip("pyarrow")
    cells = waves(7, seed=1)
    write(tmp_path / "t.csv", cells)
    model = tmp_path / "m.covary"
    model.write_bytes((fitted / "one.covary").read_bytes())
    for name in ("m.csv", "m.html"):
        (tmp_path / name).symlink_to("m.covary")
    (tmp_path / "c.toml").write_text('data = "t.csv"\ntarget = "y"\n')
    (tmp_path / "parts").mkdir()
    pd.DataFrame(cells[1:], columns=cells[0]).to_parquet(tmp_path / "parts" / "a.parquet")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for arguments, words in {
        ("predict", "m.covary", "t.csv", "--out", "m.csv"): "also an input",
        ("report", "m.covary", "--data", "t.csv", "--out", "m.html"): "also an input",
        ("fit", "--config", "c.toml", *QUICK, "--out", "c.toml"): "also an input",
        ("predict", "m.covary", "parts", "--out", "parts/a.parquet"): "a part of the input table",
        ("predict", "m.covary", "parts", "--out", "parts/new.parquet"): "a part of the input table",
        ("fit", "parts", "-t", "y", *QUICK, "--out", "parts/a.parquet"): "a part of the input table",
    }.items():
        assert words in error(call(*arguments), 2)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_an_empty_name_is_not_the_current_folder(call: Call, tmp_path: Path, fitted: Path) -> None:
    """As a shell gives it where a variable is not set."""
    pytest.importorskip("pyarrow")
    cells = waves(7, seed=1)
    pd.DataFrame(cells[1:], columns=cells[0]).to_parquet(tmp_path / "a.parquet")
    for arguments in (("fit", "", "-t", "y", *QUICK), ("predict", fitted / "one.covary", ""), ("info", "")):
        assert "there is no file ''" in error(call(*arguments), 3)
    assert "--folder is empty" in error(call("fit", "a.parquet", "-t", "y", *QUICK, "--experts", "2", "--folder", ""), 2)


def test_names_that_are_not_utf8(call: Call, tmp_path: Path, fitted: Path) -> None:
    pytest.importorskip("pyarrow")
    cells = waves(7, seed=1)
    write(tmp_path / "t.csv", cells)
    write(tmp_path / "\udcff.csv", cells)
    (tmp_path / "\udcff.parquet").write_bytes(table_bytes(pd.DataFrame(cells[1:], columns=cells[0]), "t.parquet"))
    assert call("predict", fitted / "one.covary", "\udcff.parquet", "--out", "p.parquet").exit_code == 0
    done = call("fit", "\udcff.csv", "-t", "y", *QUICK, "--save-config", "c.toml")
    assert "of DATA is not UTF-8" in error(done, 2)
    for name in ("\udcff.toml", "two\nlines = 1.toml"):
        assert call("fit", "t.csv", "-t", "y", *QUICK, "--save-config", name, "--out", "m.covary").exit_code == 0
        assert call("fit", "--config", name, "--quiet").exit_code == 0


def test_what_cannot_be_written_is_wrong_usage(call: Call, tmp_path: Path, fitted: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    write(tmp_path / "t.csv", waves(7, seed=1))
    for arguments in (("export", fitted / "one.covary", "/dev/full"), ("report", fitted / "one.covary", "--out", "/dev/full")):
        assert "'/dev/full' was not written (No space left on device)" in error(call(*arguments), 2)
    for name, words in {"/dev/fd/99999999999999999999": "no such descriptor", f"{tmp_path}/": "is a folder"}.items():
        assert words in error(call("fit", "t.csv", "-t", "y", *QUICK, "--out", name), 2)


def test_text_in_a_sheet_stays_text(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    when = dt.datetime(2020, 1, 2, 3, 4, 5)
    frame = pd.DataFrame(
        {
            "=label": ["=1+1", "#N/A!", "'=a", "+1", "=HYPERLINK(1)"],
            "number": [1.5, np.inf, np.nan, -0.0, 1e300],
            "whole": [1, 2**53 + 1, -5, 10**25, 0],
            "when": pd.to_datetime([when, None, when, when, when]),
            "zone": [when.replace(tzinfo=dt.UTC)] * 5,
            "old": [dt.date(1850, 1, 1), dt.datetime(1850, 1, 1), None, dt.date(2020, 1, 1), "x"],
            "flag": [True, False, None, pd.NA, np.bool_(True)],
        }
    )
    (tmp_path / "t.xlsx").write_bytes(table_bytes(frame, "t.xlsx"))
    cells = list(openpyxl.load_workbook(tmp_path / "t.xlsx").active.iter_rows())
    assert [c.value for c in cells[0]] == list(frame.columns)
    assert {c.data_type for c in cells[0]} == {"s"}
    assert [row[0].value for row in cells[1:]] == frame["=label"].tolist()
    assert {row[0].data_type for row in cells[1:]} == {"s"}
    assert [row[1].value for row in cells[1:]] == [1.5, "inf", None, 0, 1e300]
    assert [row[2].value for row in cells[1:]] == [1, "9007199254740993", -5, "10000000000000000000000000", 0]
    assert [row[3].value for row in cells[1:]] == [when, None, when, when, when]
    assert cells[1][4].value == "2020-01-02 03:04:05+00:00"
    assert [row[5].value for row in cells[1:]][:2] == ["1850-01-01", "1850-01-01 00:00:00"]
    assert [row[6].value for row in cells[1:]] == [True, False, None, None, True]
    back = read_table(str(tmp_path / "t.xlsx"))
    assert back.frame["=label"].tolist() == frame["=label"].tolist()


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (pd.DataFrame({"a": ["ok", "x\x01"]}), "a control character in row 2"),
        (pd.DataFrame({"a": ["x" * 32_768]}), "32,768 characters of text in row 1"),
        (pd.DataFrame({"a": ["\ud800"]}, dtype=object), "a control character in row 1"),
        (pd.DataFrame(np.zeros((1, 16_385))), "which exceeds the limits of an Excel sheet"),
    ],
)
def test_what_a_sheet_cannot_hold_is_refused(frame: pd.DataFrame, words: str) -> None:
    pytest.importorskip("openpyxl")
    with pytest.raises(ValueError, match=words):
        sheet_bytes(frame)


def test_formulas_are_read_by_their_stored_values(call: Call, tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["x", "y"], [1, 2], [3, "=A3+1"], [4, None]):
        book.active.append(row)
    book.save("t.xlsx")  # as a program writes it: nothing is computed
    assert "has a formula in B3 whose value is not stored" in error(call("fit", "t.xlsx", "-t", "y"), 3)
    import zipfile

    with zipfile.ZipFile("t.xlsx") as old, zipfile.ZipFile("s.xlsx", "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b"<v></v>", b"<v>4</v>").replace(b"<v />", b"<v>4</v>"))
    assert read_table("s.xlsx").frame["y"].tolist()[:2] == [2, 4]
