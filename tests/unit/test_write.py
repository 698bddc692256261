"""Writing files: links, devices, unusual names, permissions, and leftovers of other writers."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from covary import _write
from covary._checks import CovaryError
from covary._write import make_folder, whole_file
from covary.committee.ledger import Ledger
from covary.selection.journal import Journal, JournalKey


def put(path: object, text: bytes = b"new", **options: bool) -> None:
    with whole_file(path, "test", **options) as file:
        file.write(text)


def refused(path: object, **options: bool) -> str:
    with pytest.raises(CovaryError) as caught:
        put(path, **options)
    return str(caught.value)


def reader(fifo: Path) -> tuple[threading.Thread, list[bytes]]:
    """A thread that reads what comes through a FIFO."""
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.append(fifo.read_bytes()), daemon=True)
    thread.start()
    return thread, got


# links ----------------------------------------------------------------------------------------------------------------
def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("deep/real")
    (tmp_path / "again").symlink_to(tmp_path / "link")
    put(tmp_path / "again")
    assert (tmp_path / "deep" / "real").read_bytes() == b"new"
    assert os.readlink(tmp_path / "link") == "deep/real"
    (tmp_path / "dangling").symlink_to("deep/made")
    put(tmp_path / "dangling")
    assert (tmp_path / "deep" / "made").read_bytes() == b"new"
    assert (tmp_path / "dangling").is_symlink()
    (tmp_path / "lost").symlink_to("nowhere/file")
    assert "nowhere' does not exist" in refused(tmp_path / "lost")


def test_a_read_only_folder_is_found_out_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write everywhere: what the system says is put in its place."""
    asked = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path and asked(path, mode))
    found = _write.where(tmp_path / "file")
    assert isinstance(found, _write.Unfit)
    assert "its folder is read-only" in found.what


def test_a_folder_with_a_slash_is_a_folder(tmp_path: Path) -> None:
    assert "is a folder" in refused(f"{tmp_path}/")
    assert "no such descriptor" in refused("/dev/fd/99999999999999999999")


def test_a_circle_of_links_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for path in (tmp_path / "a", tmp_path / "a" / "file"):
        assert "(Too many levels of symbolic links)" in refused(path)
    with pytest.raises(CovaryError, match="cannot be created"):
        make_folder(tmp_path / "a" / "b", "test")


# names ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a\0b", "contains a NUL character"),
        ("", "is empty"),
        ("x" * 256, "File name too long"),
        ("file/inside", "does not exist"),
        ("new/", "the folder 'new' does not exist"),
        (None, "of type NoneType"),
        (3.5, "of type float"),
    ],
)
def test_names_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: object, words: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert words in refused(name)
    assert os.listdir(tmp_path) == ["file"]
    with pytest.raises(CovaryError):
        Journal(name, "a problem", 1)
    if name not in ("", "new/", "x" * 256):
        with pytest.raises(CovaryError):
            Ledger(name, "a problem")


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127, "a\nb", "*?[", "\udcff", ".part", "a b", "~", "-"])
def test_odd_names_are_taken_as_they_are(tmp_path: Path, name: str) -> None:
    for text in (b"one", b"two"):
        put(tmp_path / name, text)
        assert (tmp_path / name).read_bytes() == text
    assert os.listdir(tmp_path) == [name]
    assert os.listdir(os.fsencode(tmp_path)) == [os.fsencode(name)]


# devices and pipes ----------------------------------------------------------------------------------------------------
def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    assert "which cannot be read back" in refused(fifo)
    with pytest.raises(CovaryError, match="cannot be read back"):
        Journal(fifo, "a problem", 1)
    thread, got = reader(fifo)
    put(fifo, b"x" * 300_000, stream=True)
    thread.join()
    assert got == [b"x" * 300_000]
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


def test_nothing_is_sent_if_the_work_fails() -> None:
    read, write = os.pipe()

    def work() -> None:
        with whole_file(f"/dev/fd/{write}", stream=True) as file:
            file.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    os.close(write)
    assert os.read(read, 10) == b""
    os.close(read)


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    null, disk = tmp_path / "null", tmp_path / "disk"
    try:
        os.mknod(null, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.mknod(disk, stat.S_IFBLK | 0o600, os.makedev(7, 200))
        null.write_bytes(b"")
    except PermissionError:
        null, disk = Path("/dev/null"), Path("/dev/loop0")  # nobody but root could replace these
    put(null, stream=True)
    assert stat.S_ISCHR(null.stat().st_mode)
    assert "cannot be read back" in refused(null)
    if disk.exists():
        assert "a socket or a block device, not a file" in refused(disk, stream=True)


def test_open_descriptors_get_what_is_written_after_what_was(tmp_path: Path) -> None:
    code = "from covary._write import whole_file\nprint('before')\nfor n in ('out', 'out', 'err'):\n"
    code += "    with whole_file('/dev/std' + n, stream=True) as file:\n        file.write(b'new')\nprint('after')"
    with open(tmp_path / "kept", "wb") as kept:
        done = subprocess.run([sys.executable, "-c", code], stdout=kept, stderr=subprocess.PIPE, check=True)
    assert (tmp_path / "kept").read_bytes() == b"before\nnewnewafter\n"
    assert done.stderr == b"new"


# permissions ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o666, 0o700])
def test_a_part_is_no_wider_than_the_file(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    with whole_file(path) as file:
        file.write(b"new")
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == mode
    assert stat.S_IMODE(path.stat().st_mode) == mode
    before = os.umask(0o027)
    try:
        with whole_file(tmp_path / "fresh") as file:
            assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o640
    finally:
        os.umask(before)


def test_a_group_that_cannot_be_kept_gets_what_everybody_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o664)
    old = path.stat()
    monkeypatch.setattr(os, "fchown", lambda *_: (_ for _ in ()).throw(PermissionError(1, "no")))
    other = os.stat_result((*old[:5], old.st_gid + 1, *old[6:]))
    with _write._made(tmp_path / "part", other) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o644


def test_a_read_only_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write to every file
    assert "is read-only" in refused(tmp_path / "file")


# parts of other writers -----------------------------------------------------------------------------------------------
def test_only_parts_of_dead_writers_of_this_machine_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host, me, start = _write._host(), os.getpid(), _write._start(os.getpid())
    dead = [f".m.{host}.4194303999-17.0123abcd.part", f".m.{host}.{me}-{(start or 1) + 1}.0123abcd.part"]
    kept = [
        f".m.{host}.{me}-{start}.0123abcd.part",  # alive
        f".m.{'0' * 12}.4194303999-17.0123abcd.part",  # of another machine
        f".other.{host}.4194303999-17.0123abcd.part",  # of another file
        ".m.4194303999-0123abcd.part",  # nobody knows whose
    ]
    for name in dead[: 2 if start else 1] + kept:
        (tmp_path / name).touch()
    put(tmp_path / "m")
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, "m"])


def test_machines_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    here = _write._host.__wrapped__()
    monkeypatch.setattr("socket.gethostname", lambda: "another")
    assert _write._host.__wrapped__() != here


def test_a_finished_ledger_leaves_what_another_machine_is_writing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "kept", "a problem")
    ledger.put("one", 1.0)
    part = tmp_path / "kept" / f".experts.checkpoint.{'0' * 12}.17-17.0123abcd.part"
    part.touch()
    ledger.clear()
    assert sorted(os.listdir(tmp_path / "kept")) == [part.name]


def test_a_checkpoint_that_cannot_be_written_any_more_is_said(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "kept", "a problem", 1)
    journal._evaluations.place = tmp_path / "gone" / "kept"
    with pytest.raises(CovaryError, match=r"the folder '.*gone' does not exist"):
        journal.kept(JournalKey(0), lambda theta: (1.0, theta))(np.zeros(1))
