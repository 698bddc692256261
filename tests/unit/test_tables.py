"""Models of tables on disk: files that restore predictions or explain why not, and predictions from Parquet to Parquet."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import covary
from covary import GPClassifier, GPRegressor
from covary._checks import CovaryError
from covary.committee import Committee, Parquet, settings, spool
from covary.committee.experts import together
from covary.committee.spool import spool_files
from covary.families.gaussian_process import disk as tables
from covary.files import BadFile

KERNEL = "1.0 * Matern52(lengthscale=[1, 3]).on(0, 1) * Hamming().on(2)"


def frame(rows: int = 360, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(0, 6, (2, rows))
    soil = rng.choice(["clay", "sand"], rows)
    y = np.sin(a) + 0.2 * b + (soil == "sand") + 0.1 * rng.normal(size=rows)
    return pd.DataFrame({"a": a, "b": b, "soil": soil, "y": y, "label": np.where(y > 0.9, "high", "low")})


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two Parquet files, five row groups."""
    folder = tmp_path_factory.mktemp("table") / "parts"
    folder.mkdir()
    cells = frame()
    cells[:200].to_parquet(folder / "1.parquet", row_group_size=80)
    cells[200:].to_parquet(folder / "2.parquet", row_group_size=80)
    return folder


def fitted(table: Path, folder: Any, kind: Any = GPRegressor, **settings: Any) -> Any:
    target = "y" if kind is GPRegressor else "label"
    options: dict[str, Any] = {"partition": "kd_tree", **settings}
    method = Committee(4, folder=None if folder is None else str(folder), **options)
    fixed = ("kernel.*", "likelihood.variance") if kind is GPRegressor else ("kernel.*",)
    model = kind(KERNEL, method=method, n_restarts=0, random_state=0, fixed=fixed)
    if kind is GPRegressor:
        model.set_params(noise=0.02)
    return model.fit(Parquet(table, columns=["a", "b", "soil", target]), target)


@pytest.fixture(scope="module")
def saved(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model file, and beside it the rows of its experts."""
    folder = tmp_path_factory.mktemp("saved")
    fitted(table, folder / "rows", rule="rbcm").save(folder / "m.covary")
    return folder


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (GPRegressor, {"rule": "rbcm"}),
        (GPRegressor, {"rule": "grbcm", "partition": "kmeans"}),
        (GPRegressor, {"rule": "gpoe", "partition": "arrival"}),
        (GPRegressor, {"rule": "nearest", "learning": "independent"}),
        (GPClassifier, {"rule": "rbcm", "partition": "arrival"}),
        (GPClassifier, {"rule": "grbcm"}),
    ],
)
def test_a_loaded_model_predicts_the_same_to_the_last_bit(
    kind: Any, settings: dict[str, Any], table: Path, tmp_path: Path
) -> None:
    model, new = fitted(table, tmp_path / "rows", kind, **settings), frame(40, 1)[["a", "b", "soil"]]
    assert model.posterior_.on_disk
    model.save(tmp_path / "m.covary")
    again = covary.load(tmp_path / "m.covary")
    ask = (lambda m: m.predict(new, return_std=True)) if kind is GPRegressor else (lambda m: (m.predict_proba(new),))
    for one, other in zip(ask(model), ask(again), strict=True):
        np.testing.assert_array_equal(one, other)
    assert again.log_marginal_likelihood_ == model.log_marginal_likelihood_
    assert str(again.summary()) == str(model.summary())
    again.save(tmp_path / "again.covary")
    for one, other in zip(ask(model), ask(covary.load(tmp_path / "again.covary")), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", [GPRegressor, GPClassifier])
@pytest.mark.parametrize("rule", ["rbcm", "nearest"])
def test_rows_on_disk_are_left_out_like_rows_at_hand(kind: Any, rule: str, table: Path, tmp_path: Path) -> None:
    on_disk, cells = fitted(table, tmp_path / "rows", kind, rule=rule), frame()
    target = "y" if kind is GPRegressor else "label"
    at_hand = kind(**{**on_disk.get_params(deep=False), "method": Committee(4, rule=rule, partition="kd_tree")})
    at_hand.fit(cells[["a", "b", "soil"]], cells[target])
    (rows, said), (expected, other) = on_disk.posterior_.left_out(), at_hand.posterior_.left_out()
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_allclose(said.mean, other.mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(said.variance, other.variance, rtol=1e-6)
    on_disk.save(tmp_path / "m.covary")
    again = covary.load(tmp_path / "m.covary").posterior_.left_out()[1]
    np.testing.assert_array_equal(again.mean, said.mean)


def test_a_report_from_disk_does_not_judge_rows_by_themselves(tmp_path: Path) -> None:
    """Rows of a rough function, of which each says much about itself: in sample the error bars would seem too wide."""
    rng = np.random.default_rng(0)
    x = np.tile(rng.uniform(0, 1, 300), 2)  # every input twice
    cells = pd.DataFrame({"x": x, "y": np.sin(200 * x) + 0.5 * rng.normal(size=600)})
    cells.to_parquet(tmp_path / "t.parquet", row_group_size=200)
    method = Committee(4, partition="kd_tree", folder=str(tmp_path / "rows"))
    model = GPRegressor("1.0 * Matern32(lengthscale=0.01)", noise=0.25, fixed=("*",), method=method, random_state=0)
    model.fit(Parquet(tmp_path / "t.parquet"), "y")
    seen = model.diagnose().judged
    assert seen is not None
    assert seen.kind == "leave-one-out"
    bound = model.posterior_.experts
    rows, said = model.posterior_.left_out()
    shared = np.isin(model.posterior_.data.X.x[:, 0], bound.shared.X.x[:, 0])
    assert 0 < shared.sum() < 200
    np.testing.assert_array_equal(rows, np.flatnonzero(~shared))  # what all share cannot be left out
    assert (said.variance > 1.2 * model.posterior_.latent(model.posterior_.data.X.take(rows)).variance).mean() > 0.9


def test_rows_in_a_temporary_folder_are_not_saved(table: Path, tmp_path: Path) -> None:
    with pytest.raises(CovaryError, match=r"temporary folder.*permanent folder: folder="):
        fitted(table, None, rule="rbcm").save(tmp_path / "m.covary")
    assert not list(tmp_path.iterdir())


def forged(source: Path, **changes: Any) -> Path:
    """A copy of a model file beside it, whose description of rows on disk says something else."""
    path = source.with_name("forged.covary")
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "model.json":
                page = json.loads(data)
                page["experts"]["dealt"] |= changes
                data = json.dumps(page).encode()
            new.writestr(name, data)
    return path


def test_what_a_file_says_of_rows_on_disk_is_not_believed(saved: Path, tmp_path: Path) -> None:
    for changes in ({"files": 2**31 - 1}, {"files": "1"}, {"files": True}, {"mark": "../../x"}, {"left_out": {"a": 1e300}}):
        with pytest.raises(BadFile, match="save the model again"):
            covary.load(forged(saved / "m.covary", **changes))
    page = json.loads(zipfile.ZipFile(saved / "m.covary").read("model.json"))["experts"]["dealt"]
    os.mkfifo(tmp_path / f"rows-{page['mark'][:12]}-000000.spool")
    with pytest.raises(BadFile, match="a pipe or a device, not a plain file"):
        covary.load(forged(saved / "m.covary", folder=str(tmp_path)))


def test_a_loaded_model_sorts_rows_where_its_own_are(saved: Path, tmp_path: Path) -> None:
    """Not where the file says: that folder may be anybody's."""
    moved = shutil.copytree(saved, tmp_path / "moved")
    model = covary.load(forged(moved / "m.covary", folder=str(tmp_path / "nowhere" / "rows")))
    assert model.method.folder == str(moved / "rows")
    model.save(tmp_path / "again.covary")
    assert not (tmp_path / "nowhere").exists()


def test_rows_that_moved_along_are_found_and_rows_that_are_gone_are_named(saved: Path, tmp_path: Path) -> None:
    new = frame(10, 2)[["a", "b", "soil"]]
    expected = covary.load(saved / "m.covary").predict(new)
    moved = shutil.copytree(saved, tmp_path / "moved")
    (saved / "rows").rename(saved / "elsewhere")
    try:
        np.testing.assert_array_equal(covary.load(moved / "m.covary").predict(new), expected)
        with pytest.raises(BadFile, match=r"rows-[0-9a-f]{12}-000000\.spool', which cannot be read.*fit again"):
            covary.load(saved / "m.covary")
    finally:
        (saved / "elsewhere").rename(saved / "rows")


def test_rows_of_another_fit_are_not_taken_for_its_own(saved: Path, table: Path, tmp_path: Path) -> None:
    """Its own stay where they are; files in their place, of the same size with another content, are noticed."""
    place = Path(shutil.copytree(saved / "rows", tmp_path / "rows"))
    shutil.copy(saved / "m.covary", tmp_path)
    (saved / "rows").rename(saved / "elsewhere")
    try:
        covary.load(tmp_path / "m.covary")
        cells = frame()
        (tmp_path / "other").mkdir()
        cells.assign(y=-cells.y)[:200].to_parquet(tmp_path / "other" / "1.parquet", row_group_size=80)
        cells.assign(y=-cells.y)[200:].to_parquet(tmp_path / "other" / "2.parquet", row_group_size=80)
        mine = sorted(place.iterdir())
        fitted(tmp_path / "other", place, rule="rbcm")
        covary.load(tmp_path / "m.covary")
        theirs = sorted(set(place.iterdir()) - set(mine))
        assert [file.stat().st_size for file in mine] == [file.stat().st_size for file in theirs]
        for file, other in zip(mine, theirs, strict=True):
            other.replace(file)
        with pytest.raises(BadFile, match=r"spool'.*has changed since the model was saved"):
            covary.load(tmp_path / "m.covary")
    finally:
        (saved / "elsewhere").rename(saved / "rows")


def test_a_table_that_changed_is_not_read_as_it_arrives(table: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(table, tmp_path / "copy"))
    fitted(copy, None, rule="rbcm", partition="arrival").save(tmp_path / "m.covary")
    covary.load(tmp_path / "m.covary")
    frame()[:200].to_parquet(copy / "1.parquet", row_group_size=50)
    with pytest.raises(BadFile, match=r"1\.parquet'.*has changed"):
        covary.load(tmp_path / "m.covary")


def test_a_file_does_not_tell_its_reader_whom_to_call(table: Path, tmp_path: Path) -> None:
    model = fitted(table, tmp_path / "rows", rule="rbcm")
    model.set_params(executor="tcp://10.1.2.3:8786").save(tmp_path / "m.covary")
    assert covary.load(tmp_path / "m.covary").executor is None


def test_more_experts_than_rows_and_known_gaps_are_refused_before_a_row_is_read(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = frame()
    cells.loc[7, "b"] = np.nan
    cells.to_parquet(tmp_path / "gaps.parquet")
    monkeypatch.setattr(Parquet, "sample", lambda *_, **__: pytest.fail("rows were read"))
    with pytest.raises(CovaryError, match="400 experts for 360 rows"):
        GPRegressor(method=Committee(400)).fit(Parquet(table), "y")
    with pytest.raises(CovaryError, match=r"column 'b' is missing in 1 of 360 rows"):
        GPRegressor(method=Committee(4)).fit(Parquet(tmp_path / "gaps.parquet"), "y")


def test_what_only_a_reader_finds_is_refused_before_the_search_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a row that the sample does not have: NaN as a number, a category, a class."""
    monkeypatch.setattr(tables, "SAMPLE", 40)
    monkeypatch.setattr(tables, "EACH", 10)
    monkeypatch.setattr(settings, "learn", lambda *_, **__: pytest.fail("the search began"))
    cells = frame()
    strange = {"b": np.nan, "soil": "peat", "label": "middling"}
    for column, value in strange.items():
        odd = cells.copy()
        odd.loc[311, column] = value
        pq.write_table(pa.table({name: pa.array(odd[name].to_numpy()) for name in odd}), tmp_path / f"{column}.parquet")
    sampled = Parquet(tmp_path / "b.parquet").sample(["b"], 40, seed=0)
    assert sampled["b"].notna().all()
    for column, words in (
        ("b", "the column 'b' is missing in 1 of 360 rows"),
        ("soil", "column 'soil' contains 'peat', which is not in the first sample of rows"),
        ("label", "the target 'label' contains 'middling', which is not in the first sample of rows"),
    ):
        kind, target = (GPClassifier, "label") if column == "label" else (GPRegressor, "y")
        source = Parquet(tmp_path / f"{column}.parquet", columns=["a", "b", "soil", target])
        with pytest.raises(CovaryError, match=words):
            kind(method=Committee(4, partition="kd_tree"), random_state=0).fit(source, target)


@pytest.mark.parametrize(("rule", "partition"), [("rbcm", "arrival"), ("grbcm", "kd_tree")])
def test_every_row_of_a_class_is_counted(rule: str, partition: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those of the first sample alone, nor those that are left out; and the file knows."""
    monkeypatch.setattr(tables, "SAMPLE", 40)
    monkeypatch.setattr(tables, "EACH", 10)
    cells = frame()
    cells.loc[[3, 50], "label"] = None
    cells.loc[[7, 50, 311], "b"] = np.nan
    cells.to_parquet(tmp_path / "t.parquet", row_group_size=80)
    method = Committee(4, rule=rule, partition=partition, folder=str(tmp_path / "rows"))
    model = GPClassifier(KERNEL, fixed=("kernel.*",), method=method, missing="drop", random_state=0)
    model.fit(Parquet(tmp_path / "t.parquet", columns=["a", "b", "soil", "label"]), "label")
    used = cells.dropna(subset=["b", "label"])["label"]
    assert len(used) == 356
    expected = [(used == label).sum() for label in ("high", "low")]
    assert model.class_count_.tolist() == expected
    assert f"high ({expected[0]})" in str(model.summary())
    model.save(tmp_path / "m.covary")
    assert covary.load(tmp_path / "m.covary").class_count_.tolist() == expected


@pytest.mark.parametrize("partition", ["kd_tree", "arrival"])
@pytest.mark.parametrize("missing", ["impute", "drop"])
def test_gaps_are_counted_in_the_whole_table_not_in_the_sample(
    missing: str, partition: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "SAMPLE", 100)
    cells = frame(300)
    cells.loc[::3, "a"], cells.loc[::5, "soil"], cells.loc[::2, "y"] = np.nan, None, np.nan
    cells.to_parquet(tmp_path / "t.parquet", row_group_size=60)
    method = Committee(3, rule="rbcm", partition=partition, folder=str(tmp_path / "rows"))
    model = GPRegressor(KERNEL, noise=0.02, fixed=("*",), n_restarts=0, method=method, missing=missing, random_state=0)
    model.fit(Parquet(tmp_path / "t.parquet", columns=["a", "b", "soil", "y"]), "y")
    known = cells[cells["y"].notna()]
    said = [words for title, words in model.columns_.facts() if title == "missing"]
    if missing == "drop":
        assert said == [f"{int(known[['a', 'soil']].isna().any(axis=1).sum())} rows left out for missing inputs"]
    else:
        assert [words.split(" replaced by ")[0] for words in said] == ["a: 50 entries", "soil: 30 entries"]
        assert known[["a", "soil"]].isna().sum().tolist() == [50, 30]
    model.save(tmp_path / "m.covary")
    assert covary.load(tmp_path / "m.covary").columns_ == model.columns_


@pytest.mark.parametrize(("rows", "expected"), [(360, 4000), (20_000_000, 4000), (10**8, 20_000), (10**9, 64_000)])
def test_groups_of_experts_grow_with_the_table(rows: int, expected: int) -> None:
    assert together(rows) == expected


# predictions from table to table ------------------------------------------------------------------------------------
@pytest.fixture
def new(tmp_path: Path) -> Path:
    frame(90, 3).to_parquet(tmp_path / "new.parquet", row_group_size=20)
    return tmp_path / "new.parquet"


def test_numbers_are_predicted_row_group_by_row_group(
    saved: Path, new: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covary.tables.streaming.TOGETHER", 40)
    model, told = covary.load(saved / "m.covary"), list[tuple[int, int]]()
    out = tmp_path / "p.parquet"
    count = model.predict_table(new, out, columns=["label", "a"], level=0.8, note=lambda *n: told.append(n))
    found, cells = pd.read_parquet(out), frame(90, 3)
    mean, std = model.predict(cells[["a", "b", "soil"]], return_std=True)
    low, high = model.predict_interval(cells[["a", "b", "soil"]], 0.8)
    assert count == 90
    assert told == [(40, 90), (80, 90), (90, 90)]
    assert list(found) == ["label", "a", "mean", "std", "lower", "upper"]
    assert found["label"].tolist() == cells["label"].tolist()
    assert found["a"].tolist() == cells["a"].tolist()
    np.testing.assert_allclose(found[["mean", "std", "lower", "upper"]], np.stack([mean, std, low, high], axis=1), rtol=1e-10)
    about = pq.ParquetFile(out).metadata
    assert [about.row_group(g).num_rows for g in range(about.num_row_groups)] == [40, 40, 10]


def test_classes_are_predicted_with_their_probabilities(new: Path, tmp_path: Path) -> None:
    cells = frame(60, 4)
    model = GPClassifier(KERNEL, fixed=("kernel.*",)).fit(cells[["a", "b", "soil"]], cells["label"])
    model.predict_table(Parquet(new), tmp_path / "p.parquet")
    found, asked = pd.read_parquet(tmp_path / "p.parquet"), frame(90, 3)[["a", "b", "soil"]]
    assert list(found) == ["class", "p_high", "p_low"]
    assert found["class"].tolist() == model.predict(asked).tolist()
    np.testing.assert_allclose(found[["p_high", "p_low"]], model.predict_proba(asked), rtol=1e-12)


def test_whole_number_classes_counts_and_several_targets(new: Path, tmp_path: Path) -> None:
    cells, out = frame(40, 5), tmp_path / "p.parquet"
    X = cells[["a", "b"]]
    GPClassifier("Matern52()", fixed=("*",)).fit(X, (cells["y"] > 0.9).astype(int)).predict_table(new, out)
    assert pd.read_parquet(out)["class"].dtype.kind == "i"
    counts = GPRegressor("Matern52()", likelihood="poisson", fixed=("*",)).fit(X, np.round(np.abs(cells["y"]) * 3))
    counts.predict_table(new, out, level=0.5)
    low, high = counts.predict_interval(frame(90, 3)[["a", "b"]], 0.5)
    np.testing.assert_array_equal(pd.read_parquet(out)[["lower", "upper"]], np.stack([low, high], axis=1))
    two = GPRegressor("Matern52()", fixed=("*",), noise=0.1).fit(X, cells[["y", "a"]].to_numpy())
    two.predict_table(new, out)
    assert list(pd.read_parquet(out))[::4] == ["y0_mean", "y1_mean"]


def test_what_cannot_be_predicted_is_said_and_nothing_is_written(saved: Path, new: Path, tmp_path: Path) -> None:
    model, out = covary.load(saved / "m.covary"), tmp_path / "p.parquet"
    cells = frame(90, 3)
    cells.loc[50, "b"] = np.nan
    cells.to_parquet(tmp_path / "gap.parquet", row_group_size=20)
    cells.rename(columns={"b": "bb"}).to_parquet(tmp_path / "other.parquet")
    for source, words, options in (
        ("gap.parquet", r"NaN at row 50, column 'b'.*rows are counted from row group 0", {}),
        ("other.parquet", r"no column 'b'; did you mean 'bb'\?", {}),
        ("new.parquet", "level is 2", {"level": 2}),
        ("new.parquet", "'mean' is requested and is also an output", {"columns": ["mean"]}),
        ("new.parquet", "no column 'c'", {"columns": ["c"]}),
        ("none.parquet", "there is no file or folder", {}),
    ):
        with pytest.raises(CovaryError, match=words):
            model.predict_table(tmp_path / source, out, **options)
    with pytest.raises(CovaryError, match="part of the table being read"):
        model.predict_table(new, new)
    with pytest.raises(CovaryError, match="not a committee"):
        GPRegressor("Matern52()", fixed=("*",)).fit([[0.0], [1.0]], [0.0, 1.0]).predict_table(new, out, executor="serial")
    assert not out.exists()
    assert not list(tmp_path.glob(".*"))


# what experts on disk would not see, or would see wrongly ------------------------------------------------------------------
def test_what_goes_by_rows_is_refused_with_a_table(table: Path) -> None:
    ones = np.ones(360)
    for name in ("sample_weight", "noise_variance", "size"):
        with pytest.raises(CovaryError, match=f"{name} is given with a table on disk; leave it out"):
            GPRegressor(method=Committee(4, partition="kd_tree")).fit(Parquet(table, columns=["a", "y"]), "y", **{name: ones})


def test_a_name_alone_is_no_table(table: Path) -> None:
    for name in (table, str(table)):
        with pytest.raises(CovaryError, match=r"GPRegressor: X is '.*parts'; give rows of numbers, or Parquet\(\.\.\.\)"):
            GPRegressor().fit(name, "y")


def test_an_infinite_target_is_refused_wherever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "SAMPLE", 20)
    monkeypatch.setattr(tables, "EACH", 1)
    cells = frame()[["a", "y"]]
    cells.loc[311, "y"] = np.inf  # not in the sample
    cells.to_parquet(tmp_path / "t.parquet", row_group_size=40)
    for partition in ("kd_tree", "arrival"):
        model = GPRegressor(method=Committee(4, rule="rbcm", partition=partition), missing="drop", random_state=0)
        with pytest.raises(CovaryError, match="the target 'y' is infinite in 1 row of row group 7"):
            model.fit(Parquet(tmp_path / "t.parquet"), "y")


@pytest.mark.parametrize("missing", ["refuse", "drop", "impute"])
@pytest.mark.parametrize("column", ["a", "y"])
def test_an_infinite_entry_is_refused_inside_the_first_sample_and_outside(
    column: str, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "SAMPLE", 20)
    monkeypatch.setattr(tables, "EACH", 1)
    model = GPRegressor("Matern52()", fixed=("*",), method=Committee(4, rule="rbcm"), missing=missing, random_state=0)
    cells, file = frame()[["a", "y"]], tmp_path / "t.parquet"
    cells.to_parquet(file, row_group_size=40)
    drawn: list[pd.DataFrame] = []
    sample = Parquet.sample
    monkeypatch.setattr(Parquet, "sample", lambda *a, **k: drawn.append(sample(*a, **k)) or drawn[-1])
    model.fit(Parquet(file), "y")
    inside = cells["a"].isin(drawn[0]["a"]).to_numpy()
    for row, where in ((inside.argmax(), "a sample of the table"), (inside.argmin(), r"row group 0 of 't\.parquet'")):
        odd = cells.copy()
        odd.loc[row, column] = np.inf
        odd.to_parquet(file, row_group_size=40)
        with pytest.raises(
            CovaryError, match=f"'{column}' is infinite in 1 row of {where}; correct or drop .* does not count as missing"
        ):
            model.fit(Parquet(file), "y")
        with pytest.raises(CovaryError, match=f"is inf at row {row}"):
            model.fit(odd[["a"]], odd["y"])


def test_sorting_that_was_broken_off_goes_on_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that were sorted stay; those of another table, of other parts or read in another way are sorted anew."""
    cells = frame()
    cells.loc[[7, 50, 311], "b"] = np.nan
    cells.to_parquet(tmp_path / "t.parquet", row_group_size=40)
    whole_file, written = spool.whole_file, list[str]()
    most = 4

    def write(place: Path, who: str) -> Any:
        if len(written) == most:
            raise RuntimeError("broken off")
        written.append(place.name)
        return whole_file(place, who)

    def fit(folder: str, missing: str = "drop", **options: Any) -> Any:
        method = Committee(4, rule="grbcm", folder=str(tmp_path / folder), **options)
        model = GPClassifier(KERNEL, fixed=("kernel.*",), method=method, missing=missing, random_state=0)
        return model.fit(Parquet(tmp_path / "t.parquet", columns=["a", "b", "soil", "label"]), "label")

    monkeypatch.setattr(spool, "whole_file", write)
    with pytest.raises(RuntimeError, match="broken off"):
        fit("rows")
    most = 99
    again = fit("rows")
    assert len(set(written)) == len(written) == 9
    once = fit("other")
    assert again.class_count_.tolist() == once.class_count_.tolist()
    assert again.posterior_.experts.settled.left_out == once.posterior_.experts.settled.left_out == {"b": 3}
    new = frame(9, 1)[["a", "b", "soil"]]
    np.testing.assert_array_equal(again.predict_proba(new), once.predict_proba(new))
    for options in ({"partition": "kd_tree"}, {"missing": "impute"}):
        written.clear()
        fit("rows", **options)
        assert len(written) == 9


def test_a_folder_may_hold_the_rows_of_several_models(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covary.committee.members.KEPT", 0.0)  # experts read their rows whenever they are asked
    first = fitted(table, tmp_path / "rows", rule="rbcm")
    said, new = first.predict(frame(5, 1)), frame(5, 1)
    count = len(list((tmp_path / "rows").iterdir()))
    again = fitted(table, tmp_path / "rows", rule="bcm")  # the same rows for everybody
    assert len(list((tmp_path / "rows").iterdir())) == count
    other = fitted(table, tmp_path / "rows", rule="rbcm", partition="random")
    alone = fitted(table, tmp_path / "own", rule="rbcm", partition="random")
    np.testing.assert_array_equal(other.predict(new), alone.predict(new))
    np.testing.assert_array_equal(first.predict(new), said)
    assert np.isfinite(again.predict(new)).all()
    rows = first.posterior_.experts.settled.batches[0].where
    theirs = other.posterior_.experts.settled.batches[0].where
    wrong = Path(spool_files(theirs.folder, 1, theirs.mark)[0])
    Path(spool_files(rows.folder, 1, rows.mark)[0]).write_bytes(wrong.read_bytes())
    with pytest.raises(CovaryError, match=r"is not a file of sorted rows \(it belongs to another fit\)"):
        first.predict(new)


def test_a_folder_that_cannot_be_is_said_before_the_search_begins(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def search(*_: Any, **__: Any) -> Any:
        raise AssertionError("the search has begun")

    monkeypatch.setattr(settings, "learn", search)
    (tmp_path / "file").touch()
    with pytest.raises(CovaryError, match="cannot be created"):
        fitted(table, tmp_path / "file" / "rows")
    monkeypatch.setattr("os.access", lambda *_: False)  # a worker that may not write there
    with pytest.raises(CovaryError, match=r"cannot be written to from .*; give a folder on a disk that all workers share"):
        fitted(table, tmp_path / "rows")
    with pytest.raises(AssertionError, match="the search has begun"):  # nothing is sorted
        fitted(table, None, rule="rbcm", partition="arrival")


def test_a_table_that_changed_outside_the_sample_is_another_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from covary.committee import learning

    def dying(*_: Any) -> Any:
        raise KeyboardInterrupt

    path, real = tmp_path / "t.parquet", learning.evidence
    frame().to_parquet(path)
    options: dict[str, Any] = {"n_restarts": 0, "random_state": 0, "checkpoint": str(tmp_path / "kept")}
    model = GPRegressor("1.0 * Matern52()", method=Committee(4, partition="kd_tree"), **options)
    monkeypatch.setattr(learning, "evidence", dying)
    with pytest.raises(KeyboardInterrupt):
        model.fit(Parquet(path, columns=["a", "y"]), "y")
    monkeypatch.setattr(learning, "evidence", real)
    monkeypatch.setattr(Parquet, "state", lambda _: (("t.parquet", 1, 1),))  # rows the sample has not seen
    with pytest.raises(CovaryError, match="belongs to another problem"):
        model.fit(Parquet(path, columns=["a", "y"]), "y")


@pytest.mark.parametrize("seed", range(6))
def test_tables_of_a_few_rows(seed: int, tmp_path: Path) -> None:
    """So few that nobody, or everybody, may be drawn for the rows that all share."""
    cells = frame(6, seed)
    cells.to_parquet(tmp_path / "t.parquet", row_group_size=2)
    for rule in ("grbcm", "rbcm", "nearest"):
        method = Committee(3, rule=rule, partition="kd_tree")
        model = GPRegressor("1.0 * Matern52()", method=method, n_restarts=0, random_state=seed, fixed=("kernel.*",))
        model.fit(Parquet(tmp_path / "t.parquet", columns=["a", "b", "y"]), "y")
        assert model.posterior_.rows == 6
        mean, std = model.predict(cells[["a", "b"]], return_std=True)
        assert np.isfinite(mean).all()
        assert (std > 0).all()
