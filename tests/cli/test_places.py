"""Where the command writes: pipes and links as ``--out``, and cells of Excel that look like formulas."""

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
from covary.cli.sheets import sheet_bytes
from covary.cli.tables import read_table

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
    assert "holds a NUL character" in error(call("fit", "t.csv", "-t", "y", "--config", "c.toml"), 2)
    (tmp_path / "same.csv").symlink_to("t.csv")
    assert "also what is read" in error(call("predict", fitted / "one.covary", "t.csv", "--out", "same.csv"), 2)


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
        (pd.DataFrame(np.zeros((1, 16_385))), "more than a sheet of Excel holds"),
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
