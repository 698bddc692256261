"""Reading untrusted files: pipes, forged headers, archives, sorted rows."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from covary._checks import CovaryError
from covary._read import open_plain, read_array, read_arrays, read_bytes
from covary._write import Unfit, where
from covary.committee import spool
from covary.families.gaussian_process.dealt import _found
from covary.files import BadFile, load
from covary.tables.parquet import Parquet


def npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=(1, 0))
    return out.getvalue()


def forged(descr: str, shape: str, data: bytes = b"\0" * 64, fortran: str = "False") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array("text"),
        np.array(["a", ""]),
        np.array([True, False]),
        np.array(["2020-01-01"], "M8[ns]"),
        np.zeros((0, 3)),
        np.array(1 + 2j),
        np.array([b"bytes"]),
        np.arange(3, dtype=np.uint8),
    ],
)
def test_plain_arrays_come_back_as_they_were(array: np.ndarray) -> None:
    raw = npy(array)
    got = read_array(io.BytesIO(raw), len(raw))
    assert (got.dtype, got.shape, got.flags.f_contiguous) == (array.dtype, array.shape, array.flags.f_contiguous)
    np.testing.assert_array_equal(got, array)
    got[...] = array  # it can be written to


FORGED = {
    "objects": forged("'|O'", "(8,)"),
    "records": forged("[('a', '<f8')]", "(8,)"),
    "records of objects": forged("[('a', '|O')]", "(8,)"),
    "too many": forged("'<f8'", "(9,)"),
    "far too many": forged("'<f8'", "(999999999999, 999999999999)"),
    "long text": forged("'<U500000000'", "()"),
    "text of no width": forged("'<U0'", "(999999999999,)"),
    "negative": forged("'<f8'", "(-1,)"),
    "code": forged("__import__('os').system('true')", "()"),
    "no shape": forged("'<f8'", "8"),
    "nested": forged("'<f8'", "(" * 60),
    "other byte order": forged("'>f8'", "(8,)"),
    "strange width": forged("'<f7'", "(8,)"),
    "void": forged("'|V8'", "(8,)"),
    "many dimensions": forged("'<f8'", "(" + "1, " * 60 + ")"),
    "version": forged("'<f8'", "(8,)").replace(b"NUMPY\x01", b"NUMPY\x02"),
    "cut": forged("'<f8'", "(8,)")[:40],
    "nothing": b"",
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_headers_are_refused(name: str) -> None:
    with pytest.raises(ValueError):
        read_array(io.BytesIO(FORGED[name]), len(FORGED[name]))


ROWS, OFFSETS = np.arange(12.0).reshape(4, 3), np.array([0, 1, 4])
TOLD = npy(np.array('mark {"x": 1}'))
SORTED = {
    "objects": (npy(OFFSETS), forged("'|O'", "(4, 3)", b"\x41" * 96), TOLD),
    "narrow numbers": (npy(OFFSETS), npy(ROWS.astype(np.float32)), TOLD),
    "three dimensions": (npy(OFFSETS), npy(ROWS[None]), TOLD),
    "by columns": (npy(OFFSETS), npy(np.asfortranarray(ROWS)), TOLD),
    "more rows than bytes": (npy(OFFSETS), forged("'<f8'", "(4, 3000)"), TOLD),
    "offsets that are floats": (npy(OFFSETS * 1.0), npy(ROWS), TOLD),
    "a table of offsets": (npy(OFFSETS[None]), npy(ROWS), TOLD),
    "offsets beyond the rows": (npy(np.array([0, 1, 5])), npy(ROWS), TOLD),
    "offsets below zero": (npy(np.array([-4, 1, 4])), npy(ROWS), TOLD),
    "offsets that go back": (npy(np.array([0, 9, 4])), npy(ROWS), TOLD),
    "fewer experts": (npy(np.array([0, 4])), npy(ROWS), TOLD),
    "no offsets": (npy(np.empty(0, np.int64)), npy(ROWS), TOLD),
    "no target": (npy(OFFSETS), npy(ROWS[:, :1]), TOLD),
    "text of no end": (npy(OFFSETS), npy(ROWS), forged("'<U500000000'", "()")),
    "another fit": (npy(OFFSETS), npy(ROWS), npy(np.array("other {}"))),
    "no counts": (npy(OFFSETS), npy(ROWS), npy(np.array('mark {"x": "1"}'))),
    "deep counts": (npy(OFFSETS), npy(ROWS), npy(np.array("mark " + "[" * 100_000))),
    "something behind": (npy(OFFSETS), npy(ROWS), TOLD + b"x"),
    "cut": (npy(OFFSETS), npy(ROWS)[:-8]),
}


@pytest.mark.parametrize("name", SORTED)
def test_forged_rows_are_refused(name: str, tmp_path: Path) -> None:
    spool.put(str(tmp_path), 0, "mark", spool.Sorted(ROWS, OFFSETS, {"x": 1}))
    got = spool.get(str(tmp_path), 0, "mark", 2)
    np.testing.assert_array_equal(got.numbers, ROWS)
    assert got.gaps == {"x": 1}
    spool.place(tmp_path, 0, "mark").write_bytes(b"".join(SORTED[name]))
    with pytest.raises(CovaryError, match=r"is not a file of sorted rows \(.*\); remove it and fit again\."):
        spool.get(str(tmp_path), 0, "mark", 2)


def test_nobody_waits_for_a_pipe(tmp_path: Path) -> None:
    """Each of these would wait for ever for somebody to write into the pipe."""
    path = tmp_path / "rows-000000.spool"
    os.mkfifo(path)
    with pytest.raises(OSError, match="a pipe or a device, not a plain file"):
        open_plain(path)
    with pytest.raises(CovaryError, match="a pipe or a device"):
        spool.get(str(tmp_path), 0)
    with pytest.raises(BadFile, match="a pipe or a device"):
        load(path)
    with pytest.raises(CovaryError, match="a pipe or a device"):
        Parquet(path)
    with pytest.raises(OSError, match="a pipe or a device"):
        open_plain("/dev/zero")


def test_what_a_shell_hands_over_is_read() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"x,y\n")
    os.close(writing)
    assert read_bytes(f"/dev/fd/{reading}") == b"x,y\n"
    os.close(reading)


@pytest.mark.parametrize("how", ["compressed", "claims", "twice", "cut", "no zip"])
def test_archives_that_are_not_what_was_written(how: str, tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    np.savez(path, result=np.array('{"key": "key"}'), a0=np.arange(3.0))
    whole = path.read_bytes()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if how == "compressed" else zipfile.ZIP_STORED) as archive:
        archive.writestr("result.npy", npy(np.array('{"key": "key", "result": {"array": "a0"}}')))
        a0 = {"compressed": npy(np.zeros(10**6)), "claims": forged("'<f8'", "(999999999999,)")}.get(how, npy(np.zeros(2)))
        archive.writestr("a0.npy", a0)
        if how == "twice":
            with pytest.warns(UserWarning, match="Duplicate"):
                archive.writestr("a0.npy", a0)
    if how in ("cut", "no zip"):
        path.write_bytes(whole[: len(whole) // 2] if how == "cut" else b"PK")
    with pytest.raises(ValueError):
        read_arrays(path)


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "\ud800", "loop"], ids=["long", "nul", "half a pair", "loop"])
def test_names_that_no_file_has(name: str, tmp_path: Path) -> None:
    """Also where a model file says that its rows are there."""
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(BadFile):
        load(tmp_path / name)
    with pytest.raises(CovaryError, match="there is no file or folder"):
        Parquet(tmp_path / name)
    assert _found(name, str(tmp_path)) == name
    assert isinstance(where(tmp_path / name), Unfit)
