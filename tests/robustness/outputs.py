"""Writing results: every writer with every kind of path, permissions, leftovers of other writers, Excel cells."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from covary import GPRegressor, _write, load
from covary._checks import CovaryError
from covary._write import whole_file
from covary.cli.config import end_config
from covary.cli.options import FitSettings
from covary.cli.output import check_place, check_table_place, write_bytes, write_table
from covary.committee import Parquet
from covary.committee.ledger import Ledger
from covary.committee.spool import Sorted, put
from covary.executors.checkpoint import Checkpoint
from covary.selection.journal import Journal, JournalKey
from covary.tables.files import read_table
from robustness.record import Case, refuses

TITLE = "where results are written: devices, links, names, permissions"
LEAST = 350

FRAME = pd.DataFrame({"label": ["=1+1", "b"], "mean": [1.5, 2.5]})
Writer = Callable[[Any], None]


# what writes ----------------------------------------------------------------------------------------------------------
def table(path: Any) -> None:
    """As ``--out`` of a table does."""
    name = os.fsdecode(path)
    check_table_place(name)
    write_table(FRAME, name)


def checkpoint(path: Any) -> None:
    """As ``--checkpoint`` of a search does, twice: the second reads what the first wrote."""
    for _ in range(2):
        Journal(path, "a problem", 2).kept(JournalKey(0), lambda theta: (1.0, theta))(np.zeros(2))


def state(path: Any) -> None:
    """As a checkpoint of a stochastic search: each state takes the place of the one before."""
    for n in range(2):
        Checkpoint(path, "a problem", kind="training").replace("state", n)
        assert Checkpoint(path, "a problem", kind="training").get("state") == n
    refuses(lambda: Checkpoint(path, "another problem", kind="training"))


def writers(folder: Path) -> dict[str, tuple[Writer, bool, str]]:
    """By name: what writes, whether a stream will do, and the suffix it wants."""
    x = np.linspace(0, 1, 6)[:, None]
    model: Any = GPRegressor("Matern52()", n_restarts=0, random_state=0).fit(x, np.sin(x[:, 0]))
    rows = folder / "rows.parquet"
    pd.DataFrame({"0": x[:, 0]}).to_parquet(rows)
    named: Any = GPRegressor("Matern52()", n_restarts=0, random_state=0)
    named.fit(pd.DataFrame({"0": x[:, 0]}), np.sin(x[:, 0]))
    return {
        "table": (table, True, ".csv"),
        "tsv": (table, True, ".tsv"),
        "gz": (table, True, ".csv.gz"),
        "parquet": (table, True, ".parquet"),
        "sheet": (table, True, ".xlsx"),
        "bytes": (lambda path: write_bytes(path, b"bytes"), True, ""),
        "model": (model.save, True, ".covary"),
        "export": (lambda path: model.export(path), True, ".py"),
        "stream of rows": (lambda path: named.predict_table(Parquet(rows), path), True, ".parquet"),
        "journal": (checkpoint, False, ""),
        "stochastic": (state, False, ""),
    }


# where ----------------------------------------------------------------------------------------------------------------
def taken(here: Path, path: Any, real: Path, write: Writer) -> None:
    """What is written is there, whole, and nothing else is."""
    before = {p.name for p in here.iterdir()}
    write(path)
    assert real.is_file(), "nothing is there"
    assert real.stat().st_size > 0, "an empty file is there"
    left = {p.name for p in here.iterdir()} - before - {real.name}
    assert not left, f"left behind: {left}"


def refused(here: Path, path: Any, write: Writer) -> None:
    """One sentence, and nothing has changed."""
    before = {p.name: os.lstat(p).st_mode for p in here.iterdir()}
    refuses(lambda: write(path))
    assert {p.name: os.lstat(p).st_mode for p in here.iterdir()} == before, "something has changed"


def sent(path: Path, kind: int, write: Writer, reading: bool) -> None:
    """A stream gets what is written and stays what it is."""
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.append(path.read_bytes()), daemon=True)
    if reading:
        thread.start()
    write(path)
    if reading:
        thread.join(60)
        assert b"".join(got), "nothing was sent"
    assert stat.S_IFMT(os.stat(path).st_mode) == kind, "it was replaced"
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def good(here: Path, suffix: str) -> Iterator[tuple[str, Any, Path]]:
    """Places that can be written: a name for the place, what is given, where the file then is."""
    (here / "deep").mkdir()
    for name in ("plain", "two words", "é" * 100, "a\nb", "*?[x]", "~", "-", "\udcff", "x" * (255 - len(suffix)), "'\"`$(x)"):
        yield f"name {name[:12]!r}", here / f"{name}{suffix}", here / f"{name}{suffix}"
    yield "as text", str(here / f"t{suffix}"), here / f"t{suffix}"
    yield "as bytes", os.fsencode(here / f"b{suffix}"), here / f"b{suffix}"
    yield "dots", here / "deep" / ".." / f"d{suffix}", here / f"d{suffix}"
    (here / f"link{suffix}").symlink_to(f"deep/real{suffix}")
    yield "dangling link", here / f"link{suffix}", here / "deep" / f"real{suffix}"
    yield "link", here / f"link{suffix}", here / "deep" / f"real{suffix}"
    (here / f"chain{suffix}").symlink_to(here / f"link{suffix}")
    yield "chain of links", here / f"chain{suffix}", here / "deep" / f"real{suffix}"
    (here / "other").symlink_to("deep")
    yield "linked folder", here / "other" / f"in{suffix}", here / "deep" / f"in{suffix}"


def bad(here: Path, suffix: str) -> Iterator[tuple[str, Any]]:
    """Places that cannot."""
    (here / f"loop{suffix}").symlink_to(f"loop{suffix}")
    yield "link to itself", here / f"loop{suffix}"
    (here / f"p{suffix}").symlink_to(f"q{suffix}")
    (here / f"q{suffix}").symlink_to(f"p{suffix}")
    yield "circle of links", here / f"p{suffix}"
    yield "inside a circle", here / f"p{suffix}" / f"x{suffix}"
    (here / f"lost{suffix}").symlink_to(f"no/where{suffix}")
    yield "link into nowhere", here / f"lost{suffix}"
    (here / f"folder{suffix}").mkdir()
    yield "a folder", here / f"folder{suffix}"
    (here / "file").touch()
    yield "below a file", here / "file" / f"x{suffix}"
    yield "no such folder", here / "none" / f"x{suffix}"
    yield "a slash at the end", f"{here}/x{suffix}/"
    yield "a NUL", f"{here}/a\0b{suffix}"
    yield "a name too long", here / f"{'x' * 300}{suffix}"
    yield "a path too long", here / ("/".join(["x" * 200] * 30) + suffix)
    yield "a socket", _socket(here / f"s{suffix}")


def _socket(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as own:
        folder = os.open(path.parent, os.O_RDONLY)
        own.bind(f"/proc/self/fd/{folder}/{path.name}")  # a socket's name must be short
        os.close(folder)
    return path


def _node(path: Path, kind: int, device: tuple[int, int]) -> Path | None:
    try:
        os.mknod(path, kind | 0o600, os.makedev(*device))
        if kind == stat.S_IFCHR:
            path.write_bytes(b"")
    except OSError:
        return None
    return path


def placed(folder: Path) -> Iterator[Case]:
    """Every writer at every place."""
    for name, (write, stream, suffix) in writers(folder).items():

        def fresh(name: str = name) -> Path:
            fresh.count = getattr(fresh, "count", 0) + 1  # type: ignore[attr-defined]
            here = folder / name.replace(" ", "_") / str(fresh.count)  # type: ignore[attr-defined]
            here.mkdir(parents=True)
            return here

        here = fresh()
        for what, path, real in list(good(here, suffix)):
            yield Case(f"{name}: {what}", lambda p=path, r=real, w=write: taken(r.parent, p, r, w))
        here = fresh()
        for what, path in list(bad(here, suffix)):
            yield Case(f"{name}: {what}", lambda h=here, p=path, w=write: refused(h, p, w))
        for what in (None, 3.5, ""):
            if write is not table or isinstance(what, str):
                yield Case(f"{name}: {what!r}", lambda h=here, p=what, w=write: refused(h, p, w))
        pipe = fresh() / f"pipe{suffix}"
        os.mkfifo(pipe)
        node = _node(fresh() / f"null{suffix}", stat.S_IFCHR, (1, 3))
        disk = _node(fresh() / f"disk{suffix}", stat.S_IFBLK, (7, 250))
        if stream:
            yield Case(f"{name}: a pipe", lambda p=pipe, w=write: sent(p, stat.S_IFIFO, w, True))
        else:
            yield Case(f"{name}: a pipe", lambda p=pipe, w=write: refused(p.parent, p, w))
        if node is not None and stream:
            yield Case(f"{name}: a device", lambda p=node, w=write: sent(p, stat.S_IFCHR, w, False))
        elif node is not None:
            yield Case(f"{name}: a device", lambda p=node, w=write: refused(p.parent, p, w))
        if disk is not None:
            yield Case(f"{name}: a disk", lambda p=disk, w=write: refused(p.parent, p, w))


# permissions and parts ------------------------------------------------------------------------------------------------
def permitted(here: Path, mode: int, mask: int) -> None:
    """The part of a file has its permissions, never wider ones; the file keeps them."""
    before = os.umask(mask)
    try:
        path = here / f"{mode:o}-{mask:o}"
        path.touch()
        path.chmod(mode)
        if not os.access(path, os.W_OK):
            refuses(lambda: write_bytes(path, b"new"))
            return
        for text in (b"new", b"newer"):
            with whole_file(path) as file:
                file.write(text)
                now = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                assert now & ~mode == 0, f"{now:o} is wider than {mode:o}"
            assert stat.S_IMODE(path.stat().st_mode) == mode
            assert path.read_bytes() == text
        with whole_file(here / f"new-{mode:o}-{mask:o}") as file:
            assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o666 & ~mask
    finally:
        os.umask(before)


def cleared(here: Path, name: str, host: str, pid: int, start: int, gone: bool) -> None:
    """A part goes only with a dead writer of this machine."""
    here.mkdir(parents=True, exist_ok=True)
    part = here / f"{_write._prefix(here / name)}{host}.{pid}-{start}.0123abcd.part"
    part.touch()
    with whole_file(here / name) as file:
        file.write(b"x")
    assert part.exists() != gone
    part.unlink(missing_ok=True)


def parts(folder: Path) -> Iterator[Case]:
    """Parts of the living and the dead, here and elsewhere."""
    me, start, host = os.getpid(), _write._start(os.getpid()) or 0, _write._host()
    for name in ("m.covary", "x" * 250, "a.b-c.part"):
        here = folder / name[:9]
        for what, which, pid, began, gone in (
            ("mine", host, me, start, False),
            ("dead", host, 4194303999, 5, True),
            ("its number is taken", host, me, start + 7, bool(start)),
            ("of another machine", "f" * 12, 4194303999, 5, False),
            ("of another machine with my number", "f" * 12, me, start + 7, False),
            ("a number beyond all", host, 10**30, 5, True),
        ):
            yield Case(f"part of {name[:9]}: {what}", lambda a=(here, name, which, pid, began, gone): cleared(*a))


def ledgers(folder: Path) -> Iterator[Case]:
    """Folders for finished work."""
    (folder / "file").touch()
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")
    for what in ("file", "loop", "pipe", "a\0b", "file/below", "x" * 300):
        yield Case(f"ledger: {what[:9]!r}", lambda p=folder / what: refuses(lambda: Ledger(p, "a problem")))
        yield Case(f"rows: {what[:9]!r}", lambda p=folder / what: refuses(lambda: _spooled(str(p))))
    for what in (None, 3.5):
        yield Case(f"ledger: {what!r}", lambda p=what: refuses(lambda: Ledger(p, "a problem")))


def _spooled(path: str) -> None:
    put(path, 1, "mark", Sorted(np.zeros((1, 1)), np.zeros(2, int), {}))


def configured(path: Path) -> None:
    """As ``--save-config`` does."""
    check_place(str(path), argument="save_config")
    end_config(FitSettings(str(path.parent / "t.csv"), ["y"], ["x"]), str(path))


# sheets and text ------------------------------------------------------------------------------------------------------
LETTERS = [
    "=",
    "+",
    "-",
    "@",
    "#",
    "'",
    '"',
    ",",
    ";",
    "\t",
    "1",
    "N/A",
    "A1",
    "(",
    ")",
    " x",
    "é",
    "漢",
    "\n",
    "<",
    "&",
    "_x0041_",
]
LETTERS += ["=1+1", "#REF!", "#N/A", "TRUE", "1e5", "2020-01-01", "\x01", "\ud800", "{", "%"]


def labels(seed: int, suffix: str, here: Path) -> None:
    """Labels of the wildest kind come back from a table as they were, or are refused in a sentence."""
    rng = np.random.default_rng(seed)
    texts = ["k" + "".join(rng.choice(LETTERS, rng.integers(1, 6))) for _ in range(8)]
    texts[:3] = [text[1:].strip() + "z" for text in texts[:3]]  # these begin as formulas do
    name = "=" + str(rng.choice(["a", "SUM(A1)", "n"]))
    path = str(here / f"{seed}{suffix}")
    frame = pd.DataFrame({name: pd.Series(texts, dtype=object), "mean": rng.normal(size=8)})
    try:
        check_table_place(path)
        write_table(frame, path)
    except CovaryError:
        assert any("\x01" in t or "\ud800" in t for t in texts)
        return
    if suffix != ".xlsx" and any("\x01" in t for t in texts):
        return
    found = read_table(path).frame
    assert list(found.columns) == list(frame.columns)
    np.testing.assert_allclose(found["mean"], frame["mean"], rtol=1e-15 if suffix == ".xlsx" else 0.0, atol=0)
    strip = [t.replace("\r", "\n").lstrip(" ") if suffix != ".xlsx" else t for t in texts]
    assert found[name].tolist() == strip, (found[name].tolist(), strip)


def told(model: Any, path: Path) -> None:
    """What came through a pipe is the model."""
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.append(path.read_bytes()), daemon=True)
    thread.start()
    model.save(path)
    thread.join(60)
    again = path.with_name("again.covary")
    again.write_bytes(got[0])
    assert (load(again).predict([[0.3]]) == model.predict([[0.3]])).all()


def cases(folder: Path) -> Iterator[Case]:
    """All of them."""
    for name in ("placed", "modes", "parts", "ledgers", "config", "labels", "pipes"):
        (folder / name).mkdir(parents=True)
    yield from placed(folder / "placed")
    for mode in (0o600, 0o400, 0o640, 0o644, 0o660, 0o666, 0o755, 0o777, 0o200, 0o000, 0o606):
        for mask in (0o022, 0o077, 0o000, 0o027):
            yield Case(f"mode {mode:o}, umask {mask:o}", lambda m=mode, u=mask: permitted(folder / "modes", m, u))
    yield from parts(folder / "parts")
    yield from ledgers(folder / "ledgers")
    (folder / "config" / "t.csv").write_text("x,y\n1,2\n")
    for what, path in list(bad(folder / "config", ".toml")):
        if isinstance(path, Path) or "\0" in path:
            yield Case(f"config: {what}", lambda p=Path(path): refuses(lambda: configured(p)))
    yield Case("config: plain", lambda: configured(folder / "config" / "good.toml"))
    for suffix in (".xlsx", ".csv", ".tsv", ".parquet"):
        for seed in range(12):
            yield Case(f"labels {seed} in {suffix}", lambda s=seed, e=suffix: labels(s, e, folder / "labels"))
    model = GPRegressor("Matern52()", n_restarts=0, random_state=0).fit([[0.0], [1.0]], [0.0, 1.0])
    os.mkfifo(folder / "pipes" / "m.covary")
    yield Case("a model through a pipe is the model", lambda: told(model, folder / "pipes" / "m.covary"))
