"""Executors in one process, and checkpoints: order of results, loading once, skipping of finished work, errors."""

from __future__ import annotations

import copy
import json
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from covary._checks import CovaryError
from covary.committee.ledger import Ledger
from covary.executors import Dask, Serial, as_executor
from covary.executors.checkpoint import FRAME, INNER, Checkpoint

LOADED: list[int] = []
DONE: list[int] = []


def load(item: int) -> np.ndarray:
    LOADED.append(item)
    return np.arange(item)


def total(rows: np.ndarray, factor: float, shift: float = 0.0) -> float:
    DONE.append(len(rows))
    if len(rows) == 13:
        raise CovaryError("total", "there are thirteen rows")
    return factor * float(rows.sum()) + shift


@pytest.fixture(autouse=True)
def _fresh() -> None:
    LOADED.clear()
    DONE.clear()


def test_results_come_in_the_order_of_the_handles_and_data_are_loaded_once() -> None:
    with Serial() as executor:
        handles = executor.hold(load, [3, 1, 2])
        assert LOADED == []
        assert executor.map(total, handles, 2.0) == [6.0, 0.0, 2.0]
        assert executor.map(total, handles[::-1], 1.0, 5.0) == [6.0, 5.0, 8.0]
        assert LOADED == [3, 1, 2]
        executor.release(handles[:1])
        assert executor.map(total, handles, 1.0) == [3.0, 0.0, 1.0]
        assert LOADED == [3, 1, 2, 3]
        assert executor.workers == 1


def test_plain_values_will_do_for_handles_and_none_is_a_result() -> None:
    assert Serial().map(total, [np.ones(2), np.ones(3)], 3.0) == [6.0, 9.0]
    assert Serial().map(lambda v: None, [1, 2]) == [None, None]
    assert Serial().map(total, []) == []


def test_progress_is_told_after_each() -> None:
    told: list[tuple[int, int]] = []
    Serial().map(total, [np.ones(n) for n in (1, 2, 3)], 1.0, note=lambda *v: told.append(v))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_work_ends_when_whoever_is_told_has_enough() -> None:
    seen: list[int] = []
    found = Serial().map(lambda v: seen.append(v) or v + 1, [1, 2, 3, 4], note=lambda done, _: done < 2)
    assert (found, seen) == ([2, 3, None, None], [1, 2])


def test_an_error_is_raised_as_it_is_and_what_was_finished_is_kept(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "kept", "p")
    rows = [np.ones(n) for n in (2, 13, 3)]
    with pytest.raises(CovaryError, match=r"^total: there are thirteen rows\.$"):
        Serial().map(total, rows, 1.0, keep=ledger, keys=["a", "b", "c"])
    assert ledger.get("a") == 2.0
    assert ledger.get("c") is None


def test_what_the_ledger_has_is_neither_loaded_nor_computed_again(tmp_path: Path) -> None:
    keys = ["one", "two", "three/with:strange*signs"]
    told: list[tuple[int, int]] = []
    first = Serial()
    kept, again = Ledger(tmp_path / "whole", "p"), Ledger(tmp_path / "some", "p")
    whole = first.map(total, first.hold(load, [4, 5, 6]), 2.0, keep=kept, keys=keys)
    assert DONE == [4, 5, 6]
    for key in (keys[0], keys[2]):
        again.put(key, Ledger(tmp_path / "whole", "p").get(key))
    LOADED.clear()
    DONE.clear()
    second = Serial()
    note = lambda *v: told.append(v)  # noqa: E731
    assert second.map(total, second.hold(load, [4, 5, 6]), 2.0, keep=again, keys=keys, note=note) == whole
    assert (LOADED, DONE) == ([5], [5])
    assert told == [(2, 3), (3, 3)]


@pytest.mark.parametrize("keys", [None, ["a"], ["a", "a"]], ids=str)
def test_a_ledger_needs_a_key_for_each(keys: Any, tmp_path: Path) -> None:
    with pytest.raises(CovaryError, match="a unique key for each piece"):
        Serial().map(total, [np.ones(1), np.ones(2)], 1.0, keep=Ledger(tmp_path, "p"), keys=keys)


# the ledger -------------------------------------------------------------------------------------------------------
ODD = np.float64(0.1) + np.float64(0.2)
RESULTS: list[Any] = [
    1.0,
    0.1 + 0.2,
    float("inf"),
    -3,
    2**70,
    "text with 'quotes' and ä",
    True,
    (),
    [],
    {},
    (1.0, [2, "three", None], {"a": (np.arange(3.0), False), "b": []}),
    np.array(5.0),
    np.arange(6, dtype=np.int32).reshape(2, 3),
    np.array([True, False]),
    np.array(["a", "bc"]),
    np.empty((0, 3)),
    np.array([np.nan, np.inf, -0.0, 5e-324]),
    ODD,
    np.float32(0.1),
    np.int64(7),
    {"nested": {"deep": [(np.float32([1.5]),)]}},
]


def same(a: Any, b: Any) -> bool:
    """Equal in type, structure and every bit."""
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, np.ndarray | np.generic):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("result", RESULTS, ids=lambda v: type(v).__name__)
def test_a_result_comes_back_with_every_bit_in_place(result: Any, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "p")
    ledger.put("key", result)
    assert same(Ledger(tmp_path, "p").get("key"), result)


def test_jax_arrays_come_back_as_numpy(tmp_path: Path) -> None:
    import jax.numpy as jnp

    ledger = Ledger(tmp_path, "p")
    ledger.put("key", (jnp.arange(3.0),))
    assert same(ledger.get("key"), (np.arange(3, dtype=np.float32),))


@pytest.mark.parametrize("result", [object(), {1: {2}}, np.array([object()]), lambda: 0], ids=lambda v: type(v).__name__)
def test_what_cannot_be_written_is_refused_and_leaves_nothing(result: Any, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "p")
    with pytest.raises(CovaryError, match="return numbers, text, arrays"):
        ledger.put("key", result)
    assert [p.name for p in tmp_path.iterdir()] == ["experts.checkpoint"]


def test_a_ledger_of_another_problem_is_refused(tmp_path: Path) -> None:
    Ledger(tmp_path / "a", "p")
    with pytest.raises(CovaryError, match="belongs to another problem"):
        Ledger(tmp_path / "a", "q")


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(CovaryError, match="contains other files"):
        Ledger(tmp_path, "p")
    with pytest.raises(CovaryError, match="is a file"):
        Ledger(tmp_path / "notes.txt", "p")
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_a_damaged_entry_counts_as_absent(tmp_path: Path) -> None:
    path = tmp_path / "work.checkpoint"
    checkpoint = Checkpoint(path, "p")
    checkpoint.put("first", 1.0)
    before = path.stat().st_size
    checkpoint.put("key", np.arange(100.0))
    checkpoint.put("last", 2.0)
    whole = path.read_bytes()
    for place in (before, before + 12, before + 50, before + 300):  # in its length, its name, its text, its numbers
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        again = Checkpoint(path, "p")
        assert (again.get("first"), again.get("key")) == (1.0, None)
        again.put("key", 3.0)
        assert Checkpoint(path, "p").get("key") == 3.0


@pytest.mark.parametrize(
    ("told", "arrays"),
    [
        ({"array": 1}, [["<f8", [2]]]),
        ({"array": 0}, [["<f8", [10**9]]]),
        ({"array": 0}, [["<f8", [-1]]]),
        ({"array": 0}, [["|O", [2]]]),
        ({"array": "a"}, []),
        ({"set": [1]}, []),
        ({"tuple": 1}, []),
        ({}, []),
    ],
    ids=str,
)
def test_a_record_that_is_not_what_was_written_counts_as_absent(told: Any, arrays: Any, tmp_path: Path) -> None:
    path = tmp_path / "work.checkpoint"
    Checkpoint(path, "p").put("first", 1.0)
    head = json.dumps({"name": "key", "result": told, "arrays": arrays}).encode()
    body = INNER.pack(len(head)) + head + bytes(16)
    with path.open("ab") as file:
        file.write(FRAME.pack(len(body), zlib.crc32(body)) + body)
    again = Checkpoint(path, "p")
    assert (again.get("first"), again.get("key")) == (1.0, None)


def test_a_record_that_was_cut_off_is_dropped_and_others_are_added_after_the_last_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "work.checkpoint"
    checkpoint = Checkpoint(path, "p")
    checkpoint.put("first", 1.0)
    before = path.stat().st_size
    checkpoint.put("key", np.arange(100.0))
    whole = path.read_bytes()
    for end in range(before, len(whole), 37):
        path.write_bytes(whole[:end])
        again = Checkpoint(path, "p")
        assert (again.get("first"), again.get("key")) == (1.0, None)
        assert path.stat().st_size == before
        again.put("key", "again")
        assert Checkpoint(path, "p").get("key") == "again"


@pytest.mark.parametrize("kind", ["experts", "search"])
def test_a_checkpoint_of_another_kind_is_refused_and_left_alone(kind: str, tmp_path: Path) -> None:
    from covary.selection.journal import Journal

    path = tmp_path / "experts.checkpoint"
    if kind == "experts":
        Ledger(tmp_path, "p 2")
        with pytest.raises(CovaryError, match="belongs to another problem"):
            Journal(path, "p", 2)
    else:
        Journal(path, "p", 2)
        with pytest.raises(CovaryError, match="belongs to another problem"):
            Ledger(tmp_path, "p 2")
    before = path.read_bytes()
    path.write_bytes(b"precious")
    with pytest.raises(CovaryError, match="is not a checkpoint; give the name of a new file"):
        Ledger(tmp_path, "p")
    assert (path.read_bytes(), before[:1]) == (b"precious", b"{")


def test_clear_removes_what_was_put_and_nothing_else(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "a", "p")
    ledger.put("key", 1.0)
    (tmp_path / "a" / "mine.txt").write_text("mine")
    ledger.clear()
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["mine.txt"]
    (tmp_path / "a" / "mine.txt").unlink()
    assert Ledger(tmp_path / "a", "p").get("key") is None
    other = Ledger(tmp_path / "b", "p")
    other.put("key", 1.0)
    other.clear()
    assert not (tmp_path / "b").exists()
    other.put("key", 2.0)  # it can be used again
    assert Ledger(tmp_path / "b", "p").get("key") == 2.0


# what people write ------------------------------------------------------------------------------------------------
def test_executors_from_what_people_write() -> None:
    assert isinstance(as_executor(None), Serial)
    assert isinstance(as_executor("serial"), Serial)
    assert isinstance(as_executor("dask"), Dask)
    assert as_executor("dask") is as_executor("dask")  # workers that were started once are used again
    assert as_executor("tcp://h:1") is not as_executor("tcp://h:2")
    own = Dask(workers=1)
    assert as_executor(own) is own
    for wrong in ("threads", 4, object(), "8786"):
        with pytest.raises(CovaryError, match="scheduler's address"):
            as_executor(wrong)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": 0}, "workers is 0"),
        ({"workers": True}, "workers is True"),
        ({"workers": 1.5}, "workers is 1.5"),
        ({"timeout": 0.0}, "timeout is 0.0"),
        ({"timeout": "long"}, "timeout is 'long'; give a positive number"),
        ({"address": "tcp://h:1", "workers": 2}, "with workers or memory"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(CovaryError, match=words):
        Dask(**options)


@pytest.mark.parametrize(
    ("memory", "words"), [("lots", "give bytes, or text such as '4GiB'"), (-5, "512MiB or more"), ("1kB", "less than Python")]
)
def test_memory_nobody_can_work_with_is_refused_before_a_worker_starts(memory: Any, words: str) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(CovaryError, match=words), Dask(workers=np.int64(1), memory=memory) as executor:
        executor.map(len, [()])


def test_nothing_starts_before_the_first_work(tmp_path: Path) -> None:
    executor = Dask("tcp://127.0.0.1:1", timeout=1.0)
    handles = executor.hold(load, [1, 2])
    assert executor.map(total, [], 1.0) == []
    ledger = Ledger(tmp_path, "p")
    ledger.put("a", 1.0)
    ledger.put("b", 2.0)
    assert executor.map(total, handles, 1.0, keep=ledger, keys=["a", "b"]) == [1.0, 2.0]
    assert executor.dashboard is None
    assert Dask(workers=3).workers == 3
    executor.close()


def test_workers_keep_freed_memory_unless_someone_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask's own setting, 64 KiB, would have every matrix taken from the system anew."""
    _cluster = pytest.importorskip("covary.executors.cluster")
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "1000")
    told = _cluster.environment()
    assert int(told["MALLOC_TRIM_THRESHOLD_"]) >= 2**27
    assert told["MALLOC_MMAP_THRESHOLD_"] == "1000"


def test_workers_do_not_look_into_the_current_folder_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever names it in PYTHONPATH; other folders that are named there stay."""
    _cluster = pytest.importorskip("covary.executors.cluster")
    for name in ("here", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    named = [
        "",
        ".",
        "lib",
        f"{tmp_path}/here",
        f"{tmp_path}/here/",
        f"{tmp_path}/link",
        f"{tmp_path}/other/../here",
        f"{tmp_path}/other",
    ]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(named))
    assert _cluster.environment()["PYTHONPATH"] == f"{tmp_path}/other"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(named[:-1]))
    assert "PYTHONPATH" not in _cluster.environment()


def test_copies_share_the_workers_and_pickles_start_their_own() -> None:
    executor = Dask(workers=2, memory="1GiB", timeout=5.0)
    assert copy.deepcopy(executor) is executor
    again = pickle.loads(pickle.dumps(executor))
    assert repr(again) == repr(executor) == "Dask(workers=2, memory='1GiB', timeout=5.0)"


def test_without_dask_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(CovaryError, match=r"covary\[dask\]"):
        Dask(workers=1).map(total, [np.ones(1)], 1.0)
