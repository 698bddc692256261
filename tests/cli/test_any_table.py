"""The command with arbitrary tables (hypothesis): a documented exit code, one error message, no traceback, no NaN."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

CELLS = st.one_of(
    st.floats(-1e6, 1e6).map(lambda v: f"{v:.6g}"),
    st.integers(-5, 5).map(str),
    st.sampled_from(["", "NA", "nan", "inf", "-1e400", "1e-320", "true", "False", "x", "1,5", '"a""b"', "2020-01-01", "é"]),
)
NAMES = st.sampled_from(["a", "b", "y", "z", "", "a", "1.5", "long name", '"q"'])


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    """Text with some cells, most rows as long as the header, some not."""
    width, rows = draw(st.integers(1, 4)), draw(st.integers(0, 8))
    delimiter = draw(st.sampled_from([",", ",", ";", "\t"]))
    header = [*(draw(NAMES) for _ in range(width - 1)), "y"]
    lines = [header]
    plain = draw(st.booleans())  # half of the tables are numbers all through, and are fitted
    for _ in range(rows):
        length = width if plain else draw(st.sampled_from([width] * 6 + [max(1, width - 1), width + 1]))
        lines.append([draw(st.floats(-1e3, 1e3).map(repr) if plain else CELLS) for _ in range(length)])
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "latin-1", "utf-16"]))
    return draw(st.sampled_from(["\n", "\r\n"])).join(delimiter.join(line) for line in lines).encode(encoding)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=tables())
def test_any_table(data: bytes) -> None:
    from covary.cli.app import app

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("t.csv").write_bytes(data)
            fit = CliRunner().invoke(app, ["fit", "t.csv", "--target", "y", "--max-time", "0.3", "--drop-missing", "-q"])
            assert fit.exit_code in (0, 3, 5), fit.output
            assert "Traceback" not in fit.output
            assert Path("t.covary").exists() == (fit.exit_code == 0)
            if fit.exit_code:
                assert fit.stderr.startswith("covary: error: ")
                assert len(fit.stderr.splitlines()) == 1
                return
            predict = CliRunner().invoke(app, ["predict", "t.covary", "t.csv", "--out", "p.csv", "--drop-missing", "-q"])
            assert predict.exit_code == 0, predict.output
            found = pd.read_csv("p.csv")
            assert np.isfinite(found.drop(columns=["class", "flag"], errors="ignore").to_numpy()).all()
            assert sorted(os.listdir()) == ["p.csv", "t.covary", "t.csv"]
        finally:
            os.chdir(before)
