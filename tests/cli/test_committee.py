"""Committees of experts in the command: rows on disk, workers, streamed predictions, and errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import covary
from covary import GPRegressor
from covary.committee import Committee, Parquet

Call = Callable[..., Any]
HELD = ["--kernel", "fixed(1.0) * Matern52(lengthscale=fixed([1, 3]))", "--restarts", "0", "--error-bars", "no"]


def frame(rows: int = 320, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(0, 6, (2, rows))
    y = np.sin(a) + 0.2 * b + 0.1 * rng.normal(size=rows)
    return pd.DataFrame({"a": a, "b": b, "y": y})


def error(result: Any, code: int) -> str:
    """The one sentence of a command that was refused."""
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return " ".join(result.stderr.split())


@pytest.fixture
def table(tmp_path: Path) -> pd.DataFrame:
    """t.parquet and, as two files, parts/; new.parquet."""
    cells = frame()
    cells.to_parquet(tmp_path / "t.parquet", row_group_size=70)
    (tmp_path / "parts").mkdir()
    cells[:200].to_parquet(tmp_path / "parts" / "1.parquet", row_group_size=70)
    cells[200:].to_parquet(tmp_path / "parts" / "2.parquet")
    frame(50, 1).to_parquet(tmp_path / "new.parquet", row_group_size=20)
    return cells


def means(path: Any) -> np.ndarray:
    return covary.load(path).predict(frame(20, 2)[["a", "b"]])


# fitting --------------------------------------------------------------------------------------------------------------
def test_rows_left_on_disk_give_the_model_of_the_library(call: Call, table: pd.DataFrame, tmp_path: Path) -> None:
    options = ["--experts", "4", "--rule", "rbcm", "--partition", "kd_tree", "--folder", "rows", "--out", "m.covary"]
    result = call("fit", "parts", "-t", "y", *options, *HELD)
    assert result.exit_code == 0, result.output
    assert "320 rows, 2 files, 4 row groups, left on disk" in result.stdout
    assert "320 × 2 columns on disk" in result.stdout
    method = Committee(4, rule="rbcm", partition="kd_tree", folder=str(tmp_path / "own"))
    model = GPRegressor(HELD[1], method=method, n_restarts=0, random_state=0).fit(Parquet("parts"), "y")
    np.testing.assert_array_equal(means("m.covary"), model.predict(frame(20, 2)[["a", "b"]]))
    assert len(list((tmp_path / "rows").glob("*.spool"))) == 4
    found = json.loads(call("info", "m.covary", "--json").stdout)
    assert (found["rows"], found["method"]["name"], found["made"]["rule"]) == (320, "committee", "rbcm")


def test_the_folder_is_beside_the_model_and_gone_if_the_fit_fails(
    call: Call, table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covary.families.gaussian_process.disk.WHOLE", 100)  # larger tables stay on disk
    (tmp_path / "out").mkdir()
    assert call("fit", "t.parquet", "-t", "y", "--experts", 3, "--out", "out/m.covary", "-q", *HELD).exit_code == 0
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["m.covary", "m.covary.rows"]
    stale = tmp_path / "out" / "m.covary.rows" / "rows-000077.spool"
    stale.touch()
    assert call("fit", "t.parquet", "-t", "y", "--experts", 3, "--out", "out/m.covary", "-q", *HELD).exit_code == 0
    assert not stale.exists()
    (tmp_path / "out" / "m.covary.rows").rename(tmp_path / "gone")
    assert "cannot be read" in error(call("predict", "out/m.covary", "new.parquet"), 4)
    arrival = ["--partition", "arrival", "--rule", "poe"]
    assert call("fit", "t.parquet", "-t", "y", *arrival, "--out", "out/b.covary", "-q", *HELD).exit_code == 0
    assert not (tmp_path / "out" / "b.covary.rows").exists()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device", "disk")

    monkeypatch.setattr("covary.committee.shuffle.np.save", full)
    assert call("fit", "t.parquet", "-t", "y", "--experts", 3, "--out", "out/c.covary", *HELD).exit_code != 0
    assert not list((tmp_path / "out").glob("c.covary*"))


@pytest.mark.parametrize("before", [True, False])
def test_rows_stay_with_a_model_that_was_written_before_an_interrupt(
    before: bool, call: Call, table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    if before:  # a model of rows in memory, which has no folder
        table.to_csv("t.csv", index=False)
        assert call("fit", "t.csv", "-t", "y", "--out", "m.covary", "-q", *HELD).exit_code == 0
    monkeypatch.setattr("covary.cli.shown.relevance", stop)
    command = ["fit", "t.parquet", "-t", "y", "--experts", 3, "--workers", 1, "--out", "m.covary", *HELD]
    assert "already written: m.covary" in error(call(*command), 130)
    assert np.isfinite(means("m.covary")).all()
    monkeypatch.setattr("covary.cli.fit.save_model", stop)
    assert "nothing was written" in error(call(*command[: -len(HELD) - 1], "n.covary", *HELD), 130)
    assert not (tmp_path / "n.covary.rows").exists()


@pytest.mark.slow
def test_a_fit_that_is_broken_off_costs_the_model_before_it_nothing(
    call: Call, table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other parts are sorted into the same folder; those of the model that is there stay until another is written."""

    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    command = ["fit", "t.parquet", "-t", "y", "--workers", 1, "--out", "m.covary", "-q", *HELD]
    assert call(*command, "--experts", 3).exit_code == 0
    said, files = means("m.covary"), sorted((tmp_path / "m.covary.rows").iterdir())
    with monkeypatch.context() as patched:
        patched.setattr("covary.cli.fit.save_model", stop)
        assert call(*command, "--experts", 5).exit_code == 130
    assert len(list((tmp_path / "m.covary.rows").iterdir())) == 2 * len(files)
    np.testing.assert_array_equal(means("m.covary"), said)
    assert call(*command, "--experts", 4).exit_code == 0
    assert not set(files) & set((tmp_path / "m.covary.rows").iterdir())
    assert len(list((tmp_path / "m.covary.rows").iterdir())) == len(files)
    assert np.isfinite(means("m.covary")).all()
    assert call(*command, "--partition", "arrival", "--rule", "poe").exit_code == 0  # nothing is sorted for it
    assert not (tmp_path / "m.covary.rows").exists()
    assert np.isfinite(means("m.covary")).all()


def test_a_table_that_is_read_whole_is_parted_in_memory(call: Call, table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_csv("t.csv", index=False)
    for data, out in (("t.csv", "csv.covary"), ("t.parquet", "one.covary"), ("parts", "parts.covary")):
        done = call("fit", data, "-t", "y", "--rule", "nearest", "--experts", 4, "--out", out, "--json", *HELD)
        assert json.loads(done.stdout)["method"]["name"] == "committee"
    model = GPRegressor(HELD[1], method=Committee(4, rule="nearest"), n_restarts=0, random_state=0)
    expected = model.fit(table[["a", "b"]], table["y"]).predict(frame(20, 2)[["a", "b"]])
    for out in ("csv.covary", "one.covary", "parts.covary"):
        np.testing.assert_array_equal(means(out), expected)
    done = json.loads(call("fit", "t.csv", "-t", "y", "--partition", "column:b", "--experts", 3, "--json", *HELD).stdout)
    assert done["method"]["name"] == "committee"
    assert json.loads(call("fit", "parts", "-t", "y", "--json", *HELD).stdout)["method"]["name"] == "exact"


def test_how_many_are_asked(call: Call, table: pd.DataFrame) -> None:
    for nearest, out in ((1, "few.covary"), (2, "two.covary"), (4, "all.covary")):
        options = ["--rule", "rbcm", "--experts", 4, "--nearest", nearest, "--out", out]
        assert call("fit", "t.parquet", "-t", "y", *options, *HELD).exit_code == 0
    model = GPRegressor(HELD[1], method=Committee(4, rule="rbcm", nearest=2), n_restarts=0, random_state=0)
    expected = model.fit(table[["a", "b"]], table["y"]).predict(frame(20, 2)[["a", "b"]])
    np.testing.assert_array_equal(means("two.covary"), expected)
    assert (means("few.covary") != means("all.covary")).any()


def test_what_fits_into_no_memory_stays_on_disk_by_itself(
    call: Call, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covary.families.gaussian_process.tables.too_large", lambda rows, columns: rows > 300)
    found = json.loads(call("fit", "t.parquet", "-t", "y", "--json", *HELD).stdout)
    assert found["method"]["name"] == "committee"
    assert "left on disk" in found["notes"][0]


def test_classes_and_gaps_on_disk(call: Call, table: pd.DataFrame, tmp_path: Path) -> None:
    cells = table.assign(y=np.where(table.y > 0.6, "high", "low"))
    cells.loc[[5, 250], "a"] = np.nan
    cells.loc[[6, 7, 8], "y"] = None
    cells.to_parquet("g.parquet", row_group_size=70)
    options = ["--experts", 3, "--folder", "rows", "--rule", "rbcm", "--json", "--out", "m.covary"]
    found = json.loads(call("fit", "g.parquet", "-t", "y", "--missing", "drop", *options, *HELD).stdout)
    assert (found["task"], found["rows"], found["rows_dropped"], found["rows_without_target"]) == ("classification", 315, 2, 3)
    assert call("predict", "m.covary", "new.parquet", "--out", "p.parquet").exit_code == 0
    assert set(pd.read_parquet("p.parquet")["class"]) == {"high", "low"}


def test_a_target_judged_by_a_sample_says_so(
    call: Call, table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covary.families.gaussian_process.tables.SAMPLE", 100)
    table.assign(kind=np.where(table["y"] > 0.5, "high", "low")).drop(columns="y").to_parquet("k.parquet")
    options = ["--experts", 4, "--rule", "rbcm", "--folder", "r", "--out", "m.covary", *HELD]
    said = " ".join(call("fit", "k.parquet", "-t", "kind", *options).stdout.split())
    assert "; classification (by a sample of 100 rows)" in said


def test_the_settings_of_a_run_repeat_it(call: Call, table: pd.DataFrame, tmp_path: Path) -> None:
    options = ["--experts", 3, "--rule", "gpoe", "--partition", "random", "--learning", "full", "--folder", "rows"]
    done = call("fit", "parts", "-t", "y", *options, "--out", "m.covary", "--save-config", "run.toml", "-q", *HELD)
    assert done.exit_code == 0, done.output
    text = (tmp_path / "run.toml").read_text()
    for line in (
        "experts = 3",
        'rule = "gpoe"',
        'partition = "random"',
        'learning = "full"',
        'folder = "rows"',
        'data = "parts"',
    ):
        assert line in text
    before = means("m.covary")
    assert call("fit", "--config", "run.toml", "--out", "again.covary", "-q").exit_code == 0
    np.testing.assert_array_equal(means("again.covary"), before)
    (tmp_path / "parts" / "2.parquet").unlink()
    assert "has changed since the configuration" in call("fit", "--config", "run.toml", "--out", "again.covary").stdout


def test_a_run_that_was_broken_off_goes_on(
    call: Call, table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from covary.committee import learning

    plain, calls, limit = learning.evidence, [0], [10**9]

    def counted(*arguments: Any) -> Any:
        if calls[0] >= limit[0]:
            raise KeyboardInterrupt
        calls[0] += 1
        return plain(*arguments)

    monkeypatch.setattr("covary.committee.experts.TOGETHER", 60)
    monkeypatch.setattr(learning, "evidence", counted)
    command = ["fit", "t.parquet", "-t", "y", "--experts", 6, "--rule", "rbcm", "--folder", "rows", "--restarts", 0, "-q"]
    assert call(*command, "--out", "a.covary").exit_code == 0
    whole, calls[0], limit[0] = calls[0], 0, 7
    interrupted = call(*command, "--out", "b.covary", "--checkpoint", "kept")
    assert "nothing was written" in error(interrupted, 130)
    assert (tmp_path / "kept").is_dir()
    limit[0] = 10**9
    assert call(*command, "--out", "b.covary", "--checkpoint", "kept").exit_code == 0
    assert calls[0] == whole  # seven of them before the interruption, and none of these again
    assert not list((tmp_path / "kept").glob("*.npz"))
    np.testing.assert_array_equal(means("a.covary"), means("b.covary"))
    Path("file").touch()
    assert "--checkpoint: 'file' is a file" in error(call(*command, "--out", "b.covary", "--checkpoint", "file"), 2)


def test_progress_counts_row_groups_and_groups_of_experts(table: pd.DataFrame, tmp_path: Path) -> None:
    from covary.cli.progress import Bar, learning

    told: list[str] = []

    class Listening(Bar):
        def at(self, text: str, fraction: float, seconds: float) -> None:
            assert 0 <= fraction <= 1
            told.append(text)

    model = GPRegressor("Matern52()", method=Committee(4, rule="poe", partition="kd_tree"), n_restarts=0, random_state=0)
    with pytest.MonkeyPatch.context() as patch, learning(Listening(False)):
        patch.setattr("covary.committee.experts.TOGETHER", 80)
        model.fit(Parquet(tmp_path / "t.parquet"), "y")
    assert "sorting rows 5/5" in told
    assert any(text.endswith("rows, 4/4 groups of experts") for text in told)
    assert told[-1] == "conditioning 4/4"


# a cluster ----------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Two workers of this machine, as a cluster that runs already."""
    from dask import config

    from covary.executors import Dask

    with Dask(workers=2) as executor:
        executor.map(len, [()])
        keys = executor._cluster.keys
        names = {"ca-file": "tls_ca_file", "client.key": "tls_client_key", "client.cert": "tls_client_cert"}
        with config.set({f"distributed.comm.tls.{name}": keys[key] for name, key in names.items()}):
            yield executor._cluster.address


def test_workers_of_a_scheduler_change_no_bit(
    address: str, call: Call, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covary.executors.Dask.dashboard", "http://somewhere:8787/status")
    options = ["--experts", 4, "--rule", "rbcm", "--out"]
    done = call("fit", "t.parquet", "-t", "y", "--scheduler", address, *options, "m.covary", *HELD)
    assert done.exit_code == 0, done.output
    assert "dashboard: http://somewhere:8787/status" in done.stderr
    assert call("fit", "t.parquet", "-t", "y", "--folder", "rows", *options, "s.covary", "-q", *HELD).exit_code == 0
    np.testing.assert_array_equal(means("m.covary"), means("s.covary"))
    assert call("predict", "m.covary", "new.parquet", "--out", "p.parquet", "--scheduler", address, "-q").exit_code == 0
    expected = covary.load("s.covary").predict(frame(50, 1)[["a", "b"]])
    np.testing.assert_array_equal(pd.read_parquet("p.parquet")["mean"], expected)


def test_workers_of_other_versions_are_refused(
    address: str, call: Call, table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from covary.executors import cluster

    monkeypatch.setattr(cluster, "versions", lambda found=cluster.versions(): {**found, "covary": "99.0"})
    said = error(call("fit", "t.parquet", "-t", "y", "--scheduler", address, "--out", "m.covary"), 2)
    assert "this process has covary 99.0" in said
    assert "install the same versions everywhere" in said
    assert not list(tmp_path.glob("m.covary*"))


def test_workers_are_started_and_ended(call: Call, table: pd.DataFrame) -> None:
    from covary.executors import cluster

    table.to_csv("t.csv", index=False)
    started: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        plain = cluster.Embedded.__init__

        def begin(self: Any, *arguments: Any) -> None:
            plain(self, *arguments)
            started.append(self)

        patch.setattr(cluster.Embedded, "__init__", begin)
        assert call("fit", "t.csv", "-t", "y", "--workers", 1, "--experts", 4, "--out", "w.covary", "-q", *HELD).exit_code == 0
    assert [one.count for one in started] == [1]
    assert not started[0].started
    assert call("fit", "t.csv", "-t", "y", "--experts", 4, "--out", "m.covary", "-q", *HELD).exit_code == 0
    np.testing.assert_array_equal(means("w.covary"), means("m.covary"))


# predictions --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("small", [False, True])
def test_streamed_predictions_are_those_of_a_table_read_whole(
    small: bool, call: Call, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    if small:
        monkeypatch.setattr("covary.tables.streaming.TOGETHER", 20)
    cells = frame(60, 3)
    cells["soil"] = np.where(np.arange(60) % 3 == 0, "clay", "sand")
    cells.to_csv("train.csv", index=False)
    assert call("fit", "train.csv", "-t", "y", "-o", "m.covary", "--missing", "drop", "-q", "--restarts", 0).exit_code == 0
    new = frame(50, 1).assign(soil="sand", id=np.arange(50))
    new.loc[[3, 44], "b"] = np.nan
    new.loc[range(20, 40), "a"] = np.nan  # a whole row group without
    new.loc[45, "soil"] = "peat"
    new.to_parquet("new.parquet", row_group_size=20)
    new.to_csv("new.csv", index=False)
    for options in ([], ["--latent", "--level", "0.5"], ["--drop-missing"]):
        told = []
        for data, out in (("new.parquet", "p.parquet"), ("new.csv", "p.csv")):
            done = call("predict", "m.covary", data, "--out", out, "--keep", "id,soil", "--json", *options)
            assert done.exit_code == 0, done.output
            told.append(json.loads(done.stdout))
        streamed, whole = pd.read_parquet("p.parquet"), pd.read_csv("p.csv")
        assert list(streamed) == list(whole) == told[0]["columns"] == told[1]["columns"]
        assert streamed["flag"].fillna("").tolist() == whole["flag"].fillna("").tolist()
        numbers = ["id", "mean", "std", "lower", "upper"]
        np.testing.assert_allclose(streamed[numbers], whole[numbers], rtol=1e-10)
        for name in ("rows", "rows_dropped", "notes") if not small else ("rows", "rows_dropped"):
            assert told[0][name] == told[1][name]
        for name, value in told[1]["scores"]["y"].items():
            assert told[0]["scores"]["y"][name] == pytest.approx(value, rel=1e-9)
    about = pq.ParquetFile("p.parquet").metadata
    assert about.num_row_groups == (2 if small else 1)  # of the second, no row is left


@pytest.mark.parametrize("kind", ["classes", "counts"])
def test_streamed_predictions_of_classes_and_counts(
    kind: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covary.tables.streaming.TOGETHER", 20)
    cells, new = frame(40, 3), frame(50, 1)
    for each in (cells, new):
        each["y"] = np.where(each.y > 0.6, 1, 0) if kind == "classes" else np.maximum(np.round(2 * each.y), 0).astype(int)
    new.loc[7, "y"] = 5 if kind == "classes" else -1  # no such class, no such count
    cells.to_csv("train.csv", index=False)
    new.to_parquet("new.parquet", row_group_size=20)
    new.to_csv("new.csv", index=False)
    assert call("fit", "train.csv", "-t", "y", "-o", "m.covary", "-q", *HELD).exit_code == 0
    told = [
        json.loads(call("predict", "m.covary", data, "--out", out, "--json").stdout)
        for data, out in (("new.parquet", "p.parquet"), ("new.csv", "p.csv"))
    ]
    np.testing.assert_allclose(pd.read_parquet("p.parquet"), pd.read_csv("p.csv"), rtol=1e-10)
    assert told[0]["notes"] == [note.replace("on line 9", "in row 8") for note in told[1]["notes"]]
    for name, value in told[1]["scores"]["y"].items():
        assert told[0]["scores"]["y"][name] == pytest.approx(value, rel=1e-9)


def test_places_are_counted_through_the_whole_table_and_nothing_is_written(
    call: Call, table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covary.tables.streaming.TOGETHER", 20)
    assert call("fit", "t.parquet", "-t", "y", "-o", "m.covary", "-q", *HELD).exit_code == 0
    new = frame(50, 1)
    new.loc[47, "a"] = np.nan
    new.to_parquet("new.parquet", row_group_size=20)
    assert "has no value in row 48" in error(call("predict", "m.covary", "new.parquet", "-o", "p.parquet"), 3)
    new.drop(columns="a").to_parquet("less.parquet")
    assert "has no column 'a'" in error(call("predict", "m.covary", "less.parquet", "-o", "p.parquet"), 3)
    assert "is also an input" in error(call("predict", "m.covary", "t.parquet", "-o", "t.parquet"), 2)
    assert "part of the input table" in error(call("predict", "m.covary", "parts", "-o", "parts/p.parquet"), 2)
    assert "is for committees of experts, but 'm.covary' is not one; leave it out" in error(
        call("predict", "m.covary", "t.parquet", "-o", "p.parquet", "--workers", 1), 2
    )
    assert not (tmp_path / "p.parquet").exists()
    assert not list(tmp_path.rglob("*.part"))


# bad input ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["t.parquet", "-t", "z", "--experts", 4, "--folder", "r"], 2, "has no column 'z'; its columns are 'a', 'b', 'y'"),
        (["t.parquet", "-t", "y", "--inputs", "a,bb", "--folder", "r"], 2, "no column 'bb'; did you mean 'b'?"),
        (["mixed", "-t", "y", "--folder", "r"], 3, "the column 'b' contains numbers in '1.parquet' and text in '2.parquet'"),
        (["mixed", "-t", "y"], 3, "the column 'b' contains numbers in '1.parquet' and text in '2.parquet'"),
        (["fewer", "-t", "y", "--folder", "r"], 3, "'2.parquet' has no column 'b'"),
        (
            ["null.parquet", "-t", "y", "--folder", "r"],
            3,
            "'b' is missing in 2 of 320 rows; fill them, or use --missing drop",
        ),
        (["nan.parquet", "-t", "y", "--folder", "r"], 3, "error: an entry of 'nan.parquet' is NaN in row"),
        (["t.parquet", "-t", "y", "--experts", 321, "--folder", "r"], 2, "--experts: 321 experts for 320 rows"),
        (["t.csv", "-t", "y", "--experts", 321], 2, "--experts: 321 experts for 320 rows"),
        (["t.parquet", "-t", "y", "--experts", 0], 2, "--experts"),
        (["t.parquet", "-t", "y", "--nearest", 0], 2, "--nearest"),
        (["t.parquet", "-t", "y", "--rule", "vote"], 2, "'grbcm', 'rbcm', 'bcm', 'gpoe', 'poe'"),
        (["t.parquet", "-t", "y", "--learning", "slowly"], 2, "'levels', 'full'"),
        (["t.parquet", "-t", "y", "--partition", "halves"], 2, "--partition is 'halves'; choose one of 'kmeans'"),
        (["t.parquet", "-t", "y", "--partition", "column:c"], 2, "'c', which is no input; the inputs are 'a', 'b'"),
        (["t.parquet", "-t", "y", "--rule", "nearest", "--partition", "random"], 2, "use a spatial partition"),
        (["t.parquet", "-t", "y", "--partition", "arrival", "--folder", "r"], 2, "share rows drawn from the whole table"),
        (
            ["t.parquet", "-t", "y", "--rule", "rbcm", "--method", "vecchia"],
            2,
            "--rule is for a committee of experts, and --method is vecchia",
        ),
        (["t.parquet", "-t", "y", "--workers", 2, "--method", "exact"], 2, "--workers is for a committee"),
        (["t.parquet", "-t", "y", "--experts", 4, "--objective", "loo"], 2, "--objective loo requires the exact method"),
        (
            ["t.parquet", "-t", "y", "--scheduler", "tcp://h:1", "--workers", 2],
            2,
            "--scheduler connects to a running cluster and --workers starts one",
        ),
        (["t.parquet", "-t", "y", "--scheduler", "host"], 2, "give its address, such as tcp://host:8786"),
        (
            ["t.parquet", "-t", "y", "--scheduler", "tcp://127.0.0.1:9"],
            2,
            "--scheduler: no scheduler answers at tcp://127.0.0.1:9",
        ),
        (["t.csv", "-t", "y", "--folder", "r"], 2, "--folder is for rows that stay in Parquet files"),
        (["t.parquet", "-t", "y", "--folder", "t.csv"], 2, "is a file"),
        (["t.parquet", "-t", "y", "--folder", "no/where"], 2, "cannot be created"),
        (
            ["t.parquet", "-t", "y", "--folder", "r", "--weight-column", "b"],
            2,
            "--weight-column cannot be combined with rows that stay on disk",
        ),
        (["t.parquet", "-t", "y", "--folder", "r", "--predictions", "p.csv"], 2, "--predictions cannot be combined with rows"),
        (["t.parquet", "-t", "y,a", "--folder", "r"], 2, "fit them one at a time"),
        (["empty", "-t", "y"], 3, "is a folder without Parquet files"),
    ],
)
def test_bad_input_is_one_sentence_before_any_work(
    arguments: list[Any],
    code: int,
    words: str,
    call: Call,
    table: pd.DataFrame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for folder in ("mixed", "fewer"):
        (tmp_path / folder).mkdir()
        table[:200].to_parquet(tmp_path / folder / "1.parquet")
    table[200:].assign(b="x").to_parquet(tmp_path / "mixed" / "2.parquet")
    table[200:].drop(columns="b").to_parquet(tmp_path / "fewer" / "2.parquet")
    (tmp_path / "empty").mkdir()
    gaps = table.copy()
    gaps.loc[[1, 2], "b"] = np.nan
    gaps.to_parquet("null.parquet")  # pandas writes NaN as null, which footers count
    pq.write_table(pa.table({name: pa.array(gaps[name].to_numpy()) for name in gaps}), "nan.parquet")
    table.to_csv("t.csv", index=False)
    monkeypatch.setattr("covary.cli.workers.TIMEOUT", 1.0)
    monkeypatch.setattr("covary.committee.settings.learn", lambda *_, **__: pytest.fail("work began"))
    said = error(call("fit", *arguments, "--out", "m.covary"), code)
    shown = " ".join(said.replace("│", " ").split())
    assert words in shown
    assert not list(tmp_path.glob("m.covary*"))
    assert not (tmp_path / "r").exists()


def test_a_column_with_too_few_values_is_called_by_its_name(call: Call, table: pd.DataFrame) -> None:
    table.assign(half=np.arange(320) % 2).to_csv("t.csv", index=False)
    options = ["--partition", "column:half", "--experts", 3, "--rule", "bcm", "--ignore", "b", "--quiet"]
    said = error(call("fit", "t.csv", "-t", "y", *options, *HELD), 2)
    assert "--experts: column 'half' has 2 distinct values for 3 experts; use fewer" in said


def test_empty_row_groups_are_fine(call: Call, table: pd.DataFrame) -> None:
    whole = pa.Table.from_pandas(table)
    with pq.ParquetWriter("gappy.parquet", whole.schema) as writer:
        for start, stop in ((0, 100), (100, 100), (100, 320)):
            writer.write_table(whole.slice(start, stop - start))
    assert pq.ParquetFile("gappy.parquet").metadata.num_row_groups == 3
    options = ["--experts", 4, "--rule", "rbcm", "--folder"]
    assert call("fit", "gappy.parquet", "-t", "y", *options, "r1", "--out", "m.covary", "-q", *HELD).exit_code == 0
    assert call("predict", "m.covary", "gappy.parquet", "--out", "p.parquet", "-q").exit_code == 0
    assert len(pd.read_parquet("p.parquet")) == 320


def test_gaps_that_only_a_reader_finds_are_refused(
    call: Call, table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NaN as a number, in none of the rows of the sample."""
    gaps = table.copy()
    gaps.loc[311, "b"] = np.nan
    pq.write_table(pa.table({name: pa.array(gaps[name].to_numpy()) for name in gaps}), "nan.parquet", row_group_size=40)
    monkeypatch.setattr("covary.families.gaussian_process.disk.SAMPLE", 20)
    monkeypatch.setattr("covary.families.gaussian_process.disk.EACH", 1)
    options = ["--experts", 4, "--rule", "rbcm", "--folder", "r", "--out", "m.covary"]
    said = error(call("fit", "nan.parquet", "-t", "y", *options, *HELD), 3)
    assert "the column 'b' is missing in 1 of 320 rows" in said
    assert "use --missing drop" in said
    assert not (tmp_path / "r").exists()
    done = json.loads(call("fit", "nan.parquet", "-t", "y", *options, *HELD, "--missing", "drop", "--json").stdout)
    assert (done["rows"], done["rows_dropped"]) == (319, 1)
