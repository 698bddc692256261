"""Parquet tables: reading, early validation, and the rows of each expert."""

from __future__ import annotations

import pickle
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from covary._checks import CovaryError
from covary.committee import shuffle
from covary.committee.shuffle import load, spread
from covary.executors import Serial
from covary.tables.parquet import SOME, Parquet

RNG = np.random.default_rng(5)
N = 1000
TABLE = pd.DataFrame(
    {
        "a": RNG.normal(size=N),
        "b": RNG.integers(0, 9, N),
        "colour": RNG.choice(["red", "green", "blue"], N),
        "y": RNG.normal(size=N),
    }
)
CODES = {"red": 0.0, "green": 1.0, "blue": 2.0}


def encode(frame: pd.DataFrame) -> np.ndarray:
    columns = [frame[c].map(CODES) if c == "colour" else frame[c] for c in frame]
    return np.column_stack([np.asarray(c, float) for c in columns])


@dataclass(frozen=True)
class Stripes:
    """Experts by value of the first input, with some chance that depends on the row group."""

    experts: int

    def assign(self, x: np.ndarray, key: int) -> np.ndarray:
        noise = np.random.default_rng([3, key]).integers(0, 2, len(x))
        return (np.floor(3 * np.abs(x[:, 0])).astype(int) + noise) % self.experts


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The table in three files of several row groups; written in another order than their names'."""
    place = tmp_path / "table"
    place.mkdir()
    TABLE[700:].to_parquet(place / "c.parquet", row_group_size=100, index=False)
    TABLE[:300].to_parquet(place / "a.parquet", row_group_size=77, index=False)
    TABLE[300:700].to_parquet(place / "b.pq", row_group_size=1000, index=False)
    (place / "_SUCCESS").write_text("")
    (place / ".hidden.parquet").write_text("nothing")
    return place


def test_a_folder_is_its_files_by_name(folder: Path) -> None:
    source = Parquet(folder)
    assert source.rows == N
    assert source.names == tuple(TABLE)
    assert [c.rows for c in source.chunks] == [77, 77, 77, 69, 400, 100, 100, 100]
    read = pd.concat([source.read(c, list(TABLE)) for c in source.chunks], ignore_index=True)
    pd.testing.assert_frame_equal(read, TABLE, check_dtype=False)
    assert list(source.read(source.chunks[0], ["y", "a"])) == ["y", "a"]
    assert pickle.loads(pickle.dumps(source)).chunks == source.chunks


def test_a_file_alone_and_some_of_its_columns(folder: Path) -> None:
    source = Parquet(folder / "b.pq", columns=["y", "b"])
    assert (source.rows, source.names) == (400, ("y", "b"))


def test_only_footers_are_read_at_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("rows were read")

    for name in ("read", "read_row_group", "read_row_groups", "iter_batches"):
        monkeypatch.setattr(pq.ParquetFile, name, refuse)
    Parquet(folder).check(["a", "y"], "fit")


def test_widths_units_dictionaries_and_decimals_are_one_kind(tmp_path: Path) -> None:
    import decimal

    import pyarrow as pa
    import pyarrow.parquet as pq

    when = pd.date_range("2020-01-01", periods=3)
    kinds: list[dict[str, Any]] = [
        {"n": pa.array([1, 2, 3], pa.int16()), "t": pa.array(list("xyx")), "d": pa.array(when).cast(pa.timestamp("ms"))},
        {"n": pa.array([1.5, None, 2.0], pa.float32()), "t": pa.array(list("xyx")).dictionary_encode(), "d": pa.array(when)},
        {"n": pa.array([decimal.Decimal("1.25")] * 3), "t": pa.nulls(3), "d": pa.array(when.date)},
    ]
    for k, columns in enumerate(kinds):
        pq.write_table(pa.table(columns), tmp_path / f"{k}.parquet")
    source = Parquet(tmp_path)
    source.check(["n", "t", "d"], "fit")
    read = [source.read(c, ["n", "t", "d"]) for c in source.chunks]
    assert [r["n"].dtype.kind for r in read] == ["i", "f", "f"]
    assert read[1]["t"].tolist() == ["x", "y", "x"]
    assert all(r["d"].dtype.kind == "M" and (r["d"] == when).all() for r in read)
    assert source.empty(["n", "d"]) == {"n": 1, "d": 0}


def test_empty_row_groups_and_columns_of_an_index_are_skipped(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(TABLE[:10].set_index("b", append=True))
    with pq.ParquetWriter(tmp_path / "a.parquet", table.schema) as file:
        for part in (table[:0], table[:4], table[:0], table[4:]):
            file.write_table(part)
    source = Parquet(tmp_path)
    assert [c.rows for c in source.chunks] == [4, 6]
    assert source.chunks[1].group == 3
    assert set(source.names) == {"a", "colour", "y", "b"}


# samples ------------------------------------------------------------------------------------------------------------
def test_a_sample_is_spread_seeded_and_without_repetition(tmp_path: Path) -> None:
    numbered = pd.DataFrame({"row": np.arange(20_000), "v": RNG.normal(size=20_000)})
    numbered.to_parquet(tmp_path / "t.parquet", row_group_size=100)
    source = Parquet(tmp_path)
    sample = source.sample(["row"], 500, seed=1)["row"].to_numpy()
    assert len(set(sample)) == 500
    groups = set(sample // 100)
    assert 25 <= len(groups) <= SOME
    assert (np.histogram(sample, np.linspace(0, 20_000, 9))[0] > 20).all()
    np.testing.assert_array_equal(sample, source.sample(["row"], 500, seed=1)["row"])
    assert set(sample) != set(source.sample(["row"], 500, seed=2)["row"])
    many = source.sample(["row", "v"], 15_000, seed=1)  # more than 32 row groups have
    assert len(set(many["row"])) == 15_000
    assert (many["v"].to_numpy() == numbered["v"].to_numpy()[many["row"]]).all()


def test_a_sample_of_all_rows_is_the_table(folder: Path) -> None:
    assert len(Parquet(folder).sample(["y"], 10 * N, seed=0)) == N
    np.testing.assert_array_equal(Parquet(folder).sample(["y"], N, seed=0)["y"], TABLE["y"])


# what is refused ------------------------------------------------------------------------------------------------------
def refused(words: str, path: Any, columns: Any = None) -> None:
    with pytest.raises(CovaryError, match=words):
        Parquet(path, columns=columns)


def test_bad_places_are_refused_with_a_sentence(tmp_path: Path) -> None:
    refused("there is no file or folder", tmp_path / "absent.parquet")
    refused("has no Parquet files", tmp_path)
    (tmp_path / "a.parquet").write_bytes(b"")
    refused(r"a\.parquet' cannot be read", tmp_path)
    (tmp_path / "a.parquet").write_text("a,b\n1,2\n")
    refused(r"a\.parquet' cannot be read \(damaged, or not a Parquet file\)", tmp_path / "a.parquet")
    TABLE[:10].to_parquet(tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(whole[: len(whole) // 2])
    refused(r"b\.parquet' cannot be read", tmp_path)
    (tmp_path / "b.parquet").unlink()
    (tmp_path / "year=2020").mkdir()
    TABLE[:10].to_parquet(tmp_path / "year=2020" / "a.parquet")
    refused(r"Parquet files in folders inside it \('year=2020/a.parquet'\)", tmp_path)


def test_a_table_without_rows_is_refused(tmp_path: Path) -> None:
    TABLE[:0].to_parquet(tmp_path / "a.parquet")
    refused("has no rows", tmp_path)
    refused("has no rows", tmp_path / "a.parquet")


def test_missing_columns_are_named_with_what_is_like_them(folder: Path) -> None:
    refused(r"has no column 'color'; did you mean 'colour'\?$", folder, ["color"])
    refused(r"has no column 'Y'; did you mean 'y'\?$", folder, ["Y"])
    refused("has no column 'height'; choose from 'a', 'b', 'colour', 'y'", folder, ["height"])


def test_files_that_differ_are_refused_and_named(folder: Path) -> None:
    TABLE[:10].drop(columns="b").to_parquet(folder / "d.parquet")
    source = Parquet(folder)
    source.check(["a", "y"], "fit")
    with pytest.raises(CovaryError, match=r"^fit: 'd\.parquet' has no column 'b'"):
        source.check(["a", "b"], "fit")
    TABLE[:10].assign(b="text").to_parquet(folder / "d.parquet")
    with pytest.raises(CovaryError, match=r"column 'b' contains numbers in 'a\.parquet' and text in 'd\.parquet'"):
        Parquet(folder).check(["b"], "fit")
    TABLE[:10].assign(b=[[1, 2]] * 10).to_parquet(folder / "d.parquet")
    with pytest.raises(CovaryError, match=r"'d\.parquet' has lists or records"):
        Parquet(folder).check(["b"], "fit")


def test_a_column_that_only_a_later_file_has_is_no_secret(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1.0, 2.0], "y": [0.0, 1.0]}).to_parquet(tmp_path / "1.parquet")
    pd.DataFrame({"a": [1.0, 2.0], "z": [3.0, 4.0], "y": [0.0, 1.0]}).to_parquet(tmp_path / "2.parquet")
    source = Parquet(tmp_path)
    assert source.names == ("a", "y", "z")
    source.check(["a", "y"], "predict")
    with pytest.raises(CovaryError, match=r"'1\.parquet' has no column 'z', which '2\.parquet' has; leave the column out"):
        source.check(source.names, "fit")
    assert Parquet(tmp_path, columns=["a", "y"]).names == ("a", "y")


def test_without_pyarrow_a_sentence_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    refused(r"pip install 'covary\[dask\]'", folder)


def test_files_that_changed_or_went_away_meanwhile(folder: Path) -> None:
    source = Parquet(folder)
    TABLE[:20].to_parquet(folder / "a.parquet")
    with pytest.raises(CovaryError, match=r"row group 0 of 'a\.parquet' has changed"):
        source.read(source.chunks[0], ["a"])
    (folder / "a.parquet").unlink()
    with pytest.raises(CovaryError, match=r"put .* where every worker can reach it"):
        source.read(source.chunks[0], ["a"])


# rows of experts ------------------------------------------------------------------------------------------------------
def spreading(folder: Path, tmp_path: Path, **options: Any) -> Any:
    given: dict[str, Any] = {"target": "y", "encode": encode, "splitter": Stripes(7), "experts": 7, "per_batch": 3}
    return spread(Serial(), Parquet(folder), folder=tmp_path / "spool", **(given | options))


def split_directly(table: pd.DataFrame, sizes: list[int], keep: np.ndarray) -> list[np.ndarray]:
    """The same rows in memory: each row group for itself, then joined in their order."""
    out: list[list[np.ndarray]] = [[] for _ in range(7)]
    for key, end in enumerate(np.cumsum(sizes)):
        rows = np.arange(end - sizes[key], end)
        rows = rows[keep[rows]]
        part = table.iloc[rows]
        x = encode(part.drop(columns="y"))
        owner = Stripes(7).assign(x, key)
        for expert in range(7):
            out[expert].append(np.column_stack([x, part["y"]])[owner == expert])
    return [np.concatenate(parts) for parts in out]


SIZES = [77, 77, 77, 69, 400, 100, 100, 100]


def test_experts_get_the_rows_of_a_split_in_memory(folder: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    batches = spreading(folder, tmp_path, note=lambda *v: told.append(v))
    assert [b.experts for b in batches] == [(0, 1, 2), (3, 4, 5), (6,)]
    assert told[-1] == (8, 8)
    expected = split_directly(TABLE, SIZES, np.ones(N, bool))
    for batch in map(pickle.loads, map(pickle.dumps, batches)):
        assert len(pickle.dumps(batch)) < 1000
        for expert, rows, data in zip(batch.experts, batch.rows, load(batch), strict=True):
            np.testing.assert_array_equal(np.column_stack([data.X.x, data.y]), expected[expert])
            assert rows == data.rows
    assert batches.left_out == {}
    assert batches.empty == ()


def test_experts_are_counted_a_few_files_at_a_time(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [(b.experts, b.rows) for b in spreading(folder, tmp_path)]
    monkeypatch.setattr(shuffle, "FILES", 3)
    assert [(b.experts, b.rows) for b in spreading(folder, tmp_path / "again")] == expected
    assert sum(sum(rows) for _, rows in expected) == N


def test_rows_without_target_are_left_out_and_counted_and_gaps_dropped(folder: Path, tmp_path: Path) -> None:
    table = TABLE.copy()
    table.loc[5:14, "y"] = np.nan
    table.loc[10:19, "a"] = np.nan
    table.loc[800:802, "colour"] = None
    table.loc[330:340, "y"] = np.nan
    keep = np.ones(N, bool)
    keep[[*range(5, 20), *range(330, 341), 800, 801, 802]] = False
    for name, rows in (("a.parquet", slice(0, 300)), ("b.pq", slice(300, 700)), ("c.parquet", slice(700, None))):
        group = {"a.parquet": 77, "b.pq": 1000, "c.parquet": 100}[name]
        table[rows].to_parquet(folder / name, row_group_size=group, index=False)
    batches = spreading(folder, tmp_path, missing="drop")
    assert batches.left_out == {"y": 21, "a": 5, "colour": 3}
    expected = split_directly(table, SIZES, keep)
    for batch in batches:
        for expert, data in zip(batch.experts, load(batch), strict=True):
            np.testing.assert_array_equal(np.column_stack([data.X.x, data.y]), expected[expert])
    arrived = spreading(folder, tmp_path, splitter=None, missing="drop")
    rows = np.concatenate([np.column_stack([d.X.x, d.y]) for b in arrived for d in load(b)])
    direct = table[keep]
    np.testing.assert_array_equal(rows, np.column_stack([encode(direct.drop(columns="y")), direct["y"]]))
    assert arrived.left_out == batches.left_out
    for how in (Stripes(7), None):
        with pytest.raises(CovaryError, match=r"^fit: the column 'a' is missing in 5 of 1,000 rows \(and 1 further"):
            spreading(folder, tmp_path, splitter=how)


@pytest.mark.parametrize("missing", ["refuse", "drop", "keep"])
def test_an_infinite_entry_is_refused_and_is_no_gap(missing: str, folder: Path, tmp_path: Path) -> None:
    """Unless another entry of its row is a gap, for which the row is dropped."""
    table = TABLE[700:].copy()
    table.loc[900, "a"] = np.inf
    table.to_parquet(folder / "c.parquet", row_group_size=100, index=False)
    with pytest.raises(CovaryError, match=r"^fit: the column 'a' is infinite in 1 row of row group 2 of 'c\.parquet'; correct"):
        spreading(folder, tmp_path, missing=missing)
    table.loc[900, "colour"] = None
    table.to_parquet(folder / "c.parquet", row_group_size=100, index=False)
    if missing == "drop":
        assert spreading(folder, tmp_path, missing=missing).left_out == {"colour": 1}


def test_gaps_the_footers_know_of_are_refused_before_any_work(folder: Path, tmp_path: Path) -> None:
    TABLE[:300].assign(a=np.where(np.arange(300) < 7, np.nan, 1.0)).to_parquet(folder / "a.parquet")

    class Idle(Serial):
        def map(self, *_: Any, **__: Any) -> list[Any]:
            raise AssertionError("work was begun")

    with pytest.raises(CovaryError, match=r"column 'a' is missing in 7 of 1,000 rows;"):
        spread(
            Idle(),
            Parquet(folder),
            target="y",
            encode=encode,
            splitter=None,
            experts=3,
            folder=tmp_path,
            per_batch=1,
        )


def test_gaps_may_be_left_to_the_encoding(folder: Path, tmp_path: Path) -> None:
    TABLE[:300].assign(a=np.where(np.arange(300) < 7, np.nan, 1.0)).to_parquet(folder / "a.parquet")
    filled = lambda frame: np.nan_to_num(encode(frame), nan=9.0)  # noqa: E731
    batches = spreading(folder, tmp_path, splitter=None, encode=filled, missing="keep")
    assert sum(sum(b.rows) for b in batches) == N
    batches = spreading(folder, tmp_path, splitter=None, missing="keep")
    with pytest.raises(CovaryError, match=r"7 rows of row group 0 of 'a\.parquet' are not finite once encoded"):
        load(batches[0])


@pytest.mark.parametrize("experts", [1, 2, 7, 13, 400, 1000])
def test_as_the_data_arrive_experts_are_equal_stretches(experts: int, folder: Path, tmp_path: Path) -> None:
    batches = spreading(folder, tmp_path, splitter=None, experts=experts, per_batch=5)
    sizes = [n for b in batches for n in b.rows]
    assert len(sizes) == experts
    assert max(sizes) - min(sizes) <= 1
    assert [e for b in batches for e in b.experts] == list(range(experts))
    assert not (tmp_path / "spool").exists()
    some = batches if experts < 100 else [batches[0], batches[len(batches) // 2], batches[-1]]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    for batch in some:
        for expert, data in zip(batch.experts, load(batch), strict=True):
            rows = TABLE.iloc[starts[expert] : starts[expert + 1]]
            np.testing.assert_array_equal(
                np.column_stack([data.X.x, data.y]), np.column_stack([encode(rows[["a", "b", "colour"]]), rows["y"]])
            )


def test_experts_without_rows_are_named_and_in_no_batch(folder: Path, tmp_path: Path) -> None:
    class Few:
        def assign(self, x: np.ndarray, key: int) -> np.ndarray:
            return np.where(x[:, 0] > 0, 5, 2)

    batches = spreading(folder, tmp_path, splitter=Few())
    assert [b.experts for b in batches] == [(2,), (5,)]
    assert batches.empty == (0, 1, 3, 4, 6)
    assert sum(d.rows for b in batches for d in load(b)) == N


def test_a_target_of_words_needs_a_label(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CovaryError, match=r"the target 'colour' contains '.*', which is not a number"):
        spreading(folder, tmp_path, target="colour")
    batches = spreading(folder, tmp_path, target="colour", splitter=None, label=lambda v: v.map(CODES))
    y = np.concatenate([d.y for b in batches for d in load(b)])
    np.testing.assert_array_equal(y, TABLE["colour"].map(CODES))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"experts": 1001}, "1,001 experts for 1,000 rows"),
        ({"experts": 0}, "0 experts"),
        ({"target": "why"}, "has no column 'why'"),
        ({"missing": "impute"}, "choose one of 'refuse', 'drop', 'keep'"),
        ({"experts": 3}, "the splitter gave experts outside 0 to 2"),
        ({"encode": lambda frame: np.ones(3)}, r"encode gave shape \(3,\)"),
    ],
    ids=["too many", "none", "target", "missing", "splitter", "encode"],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], words: str, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CovaryError, match=words):
        spreading(folder, tmp_path, **options)


def test_a_table_of_nothing_but_the_target_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CovaryError, match="no column besides the target 'y'"):
        spread(
            Serial(),
            Parquet(folder, columns=["y"]),
            target="y",
            encode=encode,
            splitter=None,
            experts=1,
            folder=tmp_path,
            per_batch=1,
        )


def test_a_spool_that_a_worker_cannot_reach(folder: Path, tmp_path: Path) -> None:
    batches = spreading(folder, tmp_path)
    for file in (tmp_path / "spool").iterdir():
        file.unlink()
    with pytest.raises(CovaryError, match="a disk that all workers share"):
        load(batches[0])
