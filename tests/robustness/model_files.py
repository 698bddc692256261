"""Model files and their row files: damaged, forged or exchanged; and kernel text that would take too much memory.

Every file here was written by covary and then changed, in one place at a time or at random. ``load`` must raise an
error or return a model with unchanged predictions. It must not crash, hang, allocate what the file merely claims, or let the
file choose hosts to contact and places to write to.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import resource
import shutil
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import covary
from covary import GPClassifier, GPRegressor
from covary._checks import CovaryError, NotEnoughMemory
from covary.committee import Committee, Parquet
from covary.executors.checkpoint import Checkpoint
from covary.files import BadFile
from covary.kernels import parse
from covary.kernels.text import CATALOGUE
from robustness.record import Case, refuses

TITLE = "model files and row files, damaged or forged"
LEAST = 3500
MOST = 2**29  # bytes of memory that no case may add, whatever its file says
SEED = 20261116

X = np.random.default_rng(0).uniform(-1, 1, (24, 2))
Y = np.sin(3 * X[:, 0]) + X[:, 1]
NEW = np.random.default_rng(1).uniform(-1, 1, (5, 2))

# values that take the place of any entry of a page
STRANGE: list[Any] = [
    None, True, -1, 0, 2**31 - 1, 2**63, 10**30, 1e308, -0.5, "", "nan", "inf", "-inf", "1e999", "__import__('os')", "../../x",
    "\x00", "x" * 5000, [], {}, [[]], [None], {"type": "Evil"}, {"function": "f"}, ["a", "b"], [1, 2, 3],
]  # fmt: skip


OTHER = re.compile(r"^model\.likelihood\.(values|structure)|^columns\.each\.\d+\.levels")  # noise, link, names: another model


def spoken(model: Any, new: Any) -> np.ndarray:
    """What a model says of new rows."""
    if hasattr(model, "classes_"):
        return model.predict_proba(new)
    return np.stack(model.predict(new, return_std=True))


@contextmanager
def bounded() -> Iterator[None]:
    """Inside, memory beyond a bound cannot be had, and pipes are never waited for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    used = next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmData" in line)
    resource.setrlimit(resource.RLIMIT_DATA, (used * 1024 + MOST, hard))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def one_sentence(error: CovaryError) -> None:
    """A message is one line, and short."""
    assert "\n" not in str(error), f"more than one line: {str(error)!r}"
    assert len(str(error)) < 900, f"too long: {str(error)[:900]!r}"


def repeats_or_refuses(path: Path, new: Any, said: np.ndarray | None) -> None:
    """The file is refused in one sentence, or says what the model said; arguments never name a place or a machine.

    ``said`` is None where the entry that was changed makes another sound model of the file: nobody signs a file.
    """
    with bounded():
        try:
            model = covary.load(path)
        except (BadFile, NotEnoughMemory) as error:
            one_sentence(error)
            return
        try:
            got = spoken(model, new)
        except CovaryError:
            return
    assert model.checkpoint is None, f"a checkpoint is taken from the file: {model.checkpoint!r}"
    assert model.executor in (None, "serial", "dask"), f"an executor is taken from the file: {model.executor!r}"
    assert np.isfinite(got).all(), "predictions that are not finite"
    assert np.isfinite(model.log_marginal_likelihood_), "an evidence that is not finite"
    if said is not None:
        np.testing.assert_allclose(got, said, rtol=1e-2, atol=1e-2, err_msg="other predictions than when it was saved")


def members_of(path: Path) -> dict[str, bytes]:
    """The parts of a model file."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, members: dict[str, bytes], page: Any = None) -> Path:
    """A model file of these parts, with another page if one is given."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, json.dumps(page) if page is not None and name == "model.json" else data)
    return path


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every entry of a page."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield (*above, key)
        yield from places(item, (*above, key))


def changed(page: Any, way: tuple[Any, ...], value: Any = None, *, gone: bool = False) -> Any:
    """The page with another entry there, or without it."""
    page = json.loads(json.dumps(page))
    at = page
    for key in way[:-1]:
        at = at[key]
    if gone:
        del at[way[-1]]
    else:
        at[way[-1]] = value
    return page


def twice(x: Any) -> Any:
    """A function of the program's own."""
    return 2 * x[0]


def models() -> dict[str, Any]:
    """One of each form that a page takes."""
    held: dict[str, Any] = {"random_state": 0, "n_restarts": 0}
    table = pd.DataFrame({"a": X[:, 0], "soil": ["clay", "sand", "NA"] * 8})
    return {
        "plain": (GPRegressor(**held).fit(X, Y), NEW),
        "outputs": (GPRegressor("Matern52()", fixed="*", **held).fit(X, np.column_stack([Y, -Y])), NEW),
        "columns": (GPRegressor(fixed="*", **held).fit(table, Y), table[:5]),
        "low rank": (GPRegressor("Matern52()", method=covary.gram.LowRank(6), fixed="*", **held).fit(X, Y), NEW),
        "counts": (GPRegressor("Matern52()", likelihood="poisson", fixed="*", **held).fit(X, np.arange(24) % 4), NEW),
        "two classes": (GPClassifier("Matern52()", fixed="*", random_state=0).fit(X, np.where(Y > 0, "yes", "no")), NEW),
        "three classes": (GPClassifier("Matern52()", fixed="*", random_state=0).fit(X, np.digitize(Y, [-0.5, 0.5])), NEW),
        "experts": (GPRegressor("Matern52()", method=Committee(3, rule="rbcm"), fixed="*", **held).fit(X, Y), NEW),
    }


# pages --------------------------------------------------------------------------------------------------------------------
def pages(folder: Path, fitted: dict[str, Any]) -> Iterator[Case]:
    """Every entry of every page, taken out or replaced; of long lists the first entries."""
    rng = random.Random(SEED)
    for name, (model, new) in fitted.items():
        model.save(folder / f"{name}.covary")
        members, said = members_of(folder / f"{name}.covary"), spoken(model, new)
        page = json.loads(members["model.json"])
        ways = [way for way in places(page) if not any(isinstance(key, int) and key > 1 for key in way)]
        for way in ways:
            chosen = rng.sample(STRANGE, 3)
            more: list[tuple[str, Any]] = [("gone", changed(page, way, gone=True))]
            more += [(repr(value)[:30], changed(page, way, value)) for value in chosen]
            for what, other in more:
                own = None if what != "gone" and OTHER.search(".".join(map(str, way))) else said

                def run(other: Any = other, members: Any = members, new: Any = new, said: Any = own) -> None:
                    repeats_or_refuses(write(folder / "bad.covary", members, other), new, said)

                yield Case(f"{name}: {'.'.join(map(str, way))} is {what}", run)


def bytes_of(folder: Path, fitted: dict[str, Any]) -> Iterator[Case]:
    """Bits turned, bytes cut out, parts exchanged between files."""
    rng = random.Random(SEED)
    files = {name: (folder / f"{name}.covary").read_bytes() for name in fitted}
    for name, (model, new) in fitted.items():
        said, whole = spoken(model, new), files[name]
        for i in range(25):
            data = bytearray(whole)
            for _ in range(rng.choice([1, 1, 4, 30])):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            if i % 3 == 2:
                start = rng.randrange(len(data))
                del data[start : start + rng.randrange(1, 400)]

            def run(data: bytes = bytes(data), new: Any = new, said: Any = said) -> None:
                (folder / "bad.covary").write_bytes(data)
                repeats_or_refuses(folder / "bad.covary", new, said)

            yield Case(f"{name}: bytes at random, {i}", run)
        others = [other for other in fitted if other != name]
        for other in others:
            parts = members_of(folder / f"{name}.covary")
            theirs = members_of(folder / f"{other}.covary")
            mixed = {**parts, "model.json": theirs["model.json"]}

            def run(mixed: Any = mixed, new: Any = new) -> None:
                write(folder / "bad.covary", mixed)
                refuses(lambda: covary.load(folder / "bad.covary"))

            if set(parts) != set(theirs) or parts["model.json"] != theirs["model.json"]:
                yield Case(f"{name}: with the page of {other}", run)


def kinds(folder: Path, fitted: dict[str, Any]) -> Iterator[Case]:
    """Pages under the name of the other kind, as they are and with arguments and classes made to fit."""
    for name, (model, _) in fitted.items():
        members = members_of(folder / f"{name}.covary")
        page = json.loads(members["model.json"])
        other = "GPRegressor" if isinstance(model, GPClassifier) else "GPClassifier"
        labels = {"type": "<i8", "labels": [0, 1]}
        without = {key: value for key, value in page.items() if key != "classes"}
        for what, forged in {
            "as it is": {**page, "kind": other},
            "no arguments": {**page, "kind": other, "params": {}},
            "classes too": {**page, "kind": other, "params": {}, "classes": labels},
            "no classes": {**without, "kind": other, "params": {}},
            "no kind": {**page, "kind": "BaseEstimator"},
        }.items():

            def run(members: Any = members, forged: Any = forged) -> None:
                write(folder / "bad.covary", members, forged)
                refuses(lambda: covary.load(folder / "bad.covary"))

            yield Case(f"{name}: another kind, {what}", run)


# arguments ------------------------------------------------------------------------------------------------------------
def arguments(folder: Path) -> Iterator[Case]:
    """Whom to call and where to write."""
    members = members_of(folder / "plain.covary")
    page = json.loads(members["model.json"])
    trap = folder / "trap"
    for name, value in {
        "executor": "tcp://127.0.0.1:9",
        "executor ": "/tmp/scheduler.json",
        "executor  ": {"address": "tcp://127.0.0.1:9"},
        "folder": str(trap),
        "client": "tcp://127.0.0.1:9",
        "_who": "x",
        "__class__": "x",
    }.items():

        def run(name: str = name.strip(), value: Any = value) -> None:
            write(folder / "bad.covary", members, changed(page, ("params", name), value))
            refuses(lambda: covary.load(folder / "bad.covary"))

        yield Case(f"argument {name.strip()} = {value!r}", run)
    committee = {
        "type": "Committee", "experts": 2, "rule": "rbcm", "weights": None, "partition": "kmeans", "names": None,
        "learning": "levels", "nearest": None, "gram": {"type": "Dense", "values": {}, "marks": {}, "structure": {}},
    }  # fmt: skip
    for name, value in {
        "checkpoint": str(trap / "file"),
        "method": {"method": {**committee, "folder": str(trap)}},
        "method ": {"method": {**committee, "executor": "tcp://127.0.0.1:9", "table": str(trap)}},
    }.items():

        def run(name: str = name.strip(), value: Any = value) -> None:
            write(folder / "bad.covary", members, changed(page, ("params", name), value))
            again = covary.load(folder / "bad.covary")
            again.set_params(n_restarts=0, fixed="*").fit(X, Y)
            method = again.method
            assert not trap.exists(), "fit wrote where the file said"
            assert again.checkpoint is None
            assert isinstance(method, str) or (method.folder is None and method.executor is None)

        yield Case(f"argument {name.strip()} = {str(value)[:60]}", run)


# rows on disk -----------------------------------------------------------------------------------------------------------
def npy(array: Any) -> bytes:
    """An array as ``np.save`` writes it."""
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array), version=(1, 0))
    return out.getvalue()


def header(descr: str, shape: str, data: bytes = b"", fortran: str = "False") -> bytes:
    """An array that claims something."""
    text = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def signed(path: Path, rows: Path) -> None:
    """Make the model file agree with the row file as it is now."""
    from covary.families.gaussian_process.dealt import signature

    members = members_of(path)
    known = np.array([signature(rows)], np.int64)
    write(path, {**members, "arrays/expert_files.npy": npy(known)})


def forged_headers(offsets: np.ndarray, numbers: np.ndarray, told: bytes) -> dict[str, bytes]:
    """Row files whose arrays claim other types and shapes."""
    n, raw = len(numbers), numbers.tobytes()
    forged: dict[str, bytes] = {}
    for descr in ("'|O'", "[('a', '|O')]", "'<f4'", "'>f8'", "'<U1'", "'<i8'", "'|V8'", "'<c16'", "'<M8[ns]'", "('<f8', (2,))"):
        forged[f"numbers of {descr}"] = npy(offsets) + header(descr, f"({n}, 3)", raw) + told
        forged[f"offsets of {descr}"] = header(descr, f"({len(offsets)},)", offsets.tobytes()) + npy(numbers) + told
    for shape in (
        f"({n},)",
        f"({n}, 3, 1)",
        f"({n}, 2)",
        f"({n}, 4)",
        "(999999999999, 3)",
        "(-1, 3)",
        f"({n}, 0)",
        "()",
        "(0, 3)",
    ):
        forged[f"numbers of shape {shape}"] = npy(offsets) + header("'<f8'", shape, raw) + told
    for text in ("True", "1", "None", "__import__('os')"):
        forged[f"order {text}"] = npy(offsets) + header("'<f8'", f"({n}, 3)", raw, text) + told
    return forged


def forged_contents(offsets: np.ndarray, numbers: np.ndarray, told: bytes, mark: str) -> dict[str, bytes]:
    """Row files whose arrays have other values."""
    forged: dict[str, bytes] = {}
    for name, other in {
        "floats": offsets * 1.0, "a table": offsets[None], "backwards": offsets[::-1], "negative": offsets - 1,
        "far": offsets * 10**15, "none": offsets[:0], "few": offsets[:2], "many": np.repeat(offsets, 10),
        "short": np.minimum(offsets, len(numbers) - 1), "true": offsets > 0,
        "least": np.where(offsets == 0, np.iinfo(np.int64).min, offsets),
    }.items():  # fmt: skip
        forged[f"offsets {name}"] = npy(other) + npy(numbers) + told
    for name, text in {
        "another fit": "0" * 32 + " {}", "nothing": "", "no json": f"{mark} {{", "a list": f"{mark} []",
        "deep": f"{mark} " + "[" * 50_000, "text": f'{mark} {{"a": "1"}}', "negative": f'{mark} {{"a": -1}}',
        "far": f'{mark} {{"a": 1e999}}',
    }.items():  # fmt: skip
        forged[f"told {name}"] = npy(offsets) + npy(numbers) + npy(np.array(text))
    forged["told without end"] = npy(offsets) + npy(numbers) + header("'<U500000000'", "()")
    forged["told objects"] = npy(offsets) + npy(numbers) + header("'|O'", "()", b"\x80\x04N.")
    forged["not a number"] = npy(offsets) + npy(np.where(np.arange(3) == 1, np.nan, numbers)) + told
    forged["infinite"] = npy(offsets) + npy(np.where(np.arange(3) == 2, np.inf, numbers)) + told
    return forged


def forgeries(good: bytes, mark: str) -> dict[str, bytes]:
    """Forge a row file in many ways."""
    stream = io.BytesIO(good)
    offsets, numbers = np.load(stream), np.load(stream)
    told = npy(np.array(f"{mark} {{}}"))
    forged = forged_headers(offsets, numbers, told)
    forged |= forged_contents(offsets, numbers, told, mark)
    forged["something behind"] = good + b"\0"
    rng = random.Random(SEED)
    for i in range(60):
        data = bytearray(good)
        for _ in range(rng.choice([1, 2, 20])):
            data[rng.randrange(min(len(data), 600) if i % 2 else len(data))] ^= 1 << rng.randrange(8)
        forged[f"bits at random {i}"] = bytes(data[: rng.randrange(len(data))] if i % 10 == 9 else data)
    return forged


def on_disk(folder: Path) -> Iterator[Case]:
    """Row files beside a model, forged so that the model file knows their size and checksum."""
    cells = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y})
    cells.to_parquet(folder / "t.parquet")
    method = Committee(3, rule="rbcm", partition="kd_tree", folder=str(folder / "rows"))
    model: Any = GPRegressor("Matern52()", method=method, fixed="*", noise=0.1).fit(Parquet(folder / "t.parquet"), "y")
    model.save(folder / "disk.covary")
    new = cells[["a", "b"]][:5]
    said, (rows,) = spoken(model, new), list((folder / "rows").glob("*.spool"))
    good, mark = rows.read_bytes(), model.posterior_.experts.settled.batches[0].where.mark
    forged = forgeries(good, mark)
    for name, data in forged.items():

        def run(data: bytes = data, name: str = name) -> None:
            here = folder / "case"
            shutil.rmtree(here, ignore_errors=True)
            shutil.copytree(folder / "rows", here / "rows")
            moved = here / "rows" / rows.name
            moved.write_bytes(data)
            page = changed(
                json.loads(members_of(folder / "disk.covary")["model.json"]), ("experts", "dealt", "folder"), str(here / "rows")
            )
            write(here / "m.covary", members_of(folder / "disk.covary"), page)
            signed(here / "m.covary", moved)
            with bounded():
                try:
                    model = covary.load(here / "m.covary")
                    got = spoken(model, new)
                except CovaryError as error:
                    one_sentence(error)
                    return
            assert np.isfinite(got).all()
            if "bits" not in name:
                np.testing.assert_allclose(got, said, rtol=1e-2, atol=1e-2)

        yield Case(f"rows: {name}", run)
    yield from descriptions(folder, new, said)


def descriptions(folder: Path, new: Any, said: np.ndarray) -> Iterator[Case]:
    """What the page says of rows on disk: how many files, where, under which mark."""
    members = members_of(folder / "disk.covary")
    page = json.loads(members["model.json"])
    values: dict[str, list[Any]] = {
        "files": [2**31 - 1, 10**12, 0, -1, "1", 1.0, True, None, [], 2],
        "mark": ["../../../x", "", "zz", None, "/", 7, "0" * 100, "\x00"],
        "folder": ["/dev", "/proc/self", "", "\x00", "/dev/zero", "..", None, 5, str(folder / "pipes")],
        "shift": [5, -1, "0", None], "common": [None, 7], "merge": [None],
        "left_out": [{"a": -1}, {"a": "x"}, [], None, {"a": 1e300}],
    }  # fmt: skip
    for name, each in values.items():
        for value in each:

            def run(name: str = name, value: Any = value) -> None:
                write(folder / "bad.covary", members, changed(page, ("experts", "dealt", name), value))
                repeats_or_refuses(folder / "bad.covary", new, said)

            yield Case(f"rows: {name} is {value!r}"[:80], run)


def pipes(folder: Path) -> Iterator[Case]:
    """Pipes and devices in the place of files: nobody waits."""
    os.mkfifo(folder / "pipe")
    os.mkfifo(folder / "pipe.parquet")
    for path in (folder / "pipe", Path("/dev/zero"), Path("/dev/null"), folder, Path("/dev/stdin")):
        yield Case(f"a model in {path.name}", lambda path=path: refuses(lambda: covary.load(path)))
    for path in (folder / "pipe.parquet", Path("/dev/zero"), Path("/dev/null")):
        yield Case(f"a table in {path.name}", lambda path=path: refuses(lambda: Parquet(path)))

    def checkpoint() -> None:
        model = GPRegressor("Matern52()", checkpoint=str(folder / "pipe"), n_restarts=0)
        refuses(lambda: model.fit(X, Y))

    yield Case("a checkpoint that is a pipe", checkpoint)

    def rows() -> None:
        (folder / "pipes").mkdir(exist_ok=True)
        page = json.loads(members_of(folder / "disk.covary")["model.json"])["experts"]["dealt"]
        os.mkfifo(folder / "pipes" / f"rows-{page['mark'][:12]}-000000.spool")
        members = members_of(folder / "disk.covary")
        forged = changed(json.loads(members["model.json"]), ("experts", "dealt", "folder"), str(folder / "pipes"))
        write(folder / "bad.covary", members, forged)
        assert "a pipe or a device" in refuses(lambda: covary.load(folder / "bad.covary"))

    yield Case("rows that are a pipe", rows)


# stores ---------------------------------------------------------------------------------------------------------------
def checkpoints(folder: Path) -> Iterator[Case]:
    """Finished pieces of work that are not what was written: forgotten, given back as they were, or all of them refused."""
    rng = random.Random(SEED)
    path = folder / "work.checkpoint"
    result = (1.5, {"a": np.arange(4.0)}, ["text", None, True], np.float64(2.0))
    Checkpoint(path, "problem").put("key", result)
    good = path.read_bytes()
    for i in range(80):
        data = bytearray(good)
        for _ in range(rng.choice([1, 3, 20])):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)

        def run(data: bytes = bytes(data[: rng.randrange(len(data))] if i % 8 == 7 else data)) -> None:
            path.write_bytes(data)
            with bounded():
                try:
                    got = Checkpoint(path, "problem").get("key")
                except CovaryError as error:  # the line that names the problem is another one
                    one_sentence(error)
                    return
            assert got is None or repr(got) == repr(result), f"gave {got!r}"

        yield Case(f"checkpoint: bits at random {i}", run)


# text -----------------------------------------------------------------------------------------------------------------
def texts() -> Iterator[Case]:
    """Whole numbers far too large, negative, or no numbers, in every whole argument of every kernel."""
    from dataclasses import fields

    plain = {"kernel": "Matern52()", "before": "Matern52()", "after": "Matern52()", "field": "GaussianField([0.0, 1.0])"}
    plain |= {"centres": "[0.0, 1.0]", "group": "[[[1.0]]]", "columns": "[0]"}
    sizes = [
        "1000000000",
        "10**9",
        "1e300",
        "-5",
        "inf",
        "-inf",
        "9" * 400,
        "fixed(1000000000)",
        "bounded(1000000000, 1, 2)",
        "[1000000000]",
    ]
    for name, kernel in CATALOGUE.items():
        known = [f.name for f in fields(kernel)]
        if {"function", "density"} & set(known):
            continue
        given = ", ".join(f"{key}={plain[key]}" for key in known if key in plain)
        whole = [f.name for f in fields(kernel) if f.metadata.get("static") and f.name not in plain]
        for argument in whole:
            for value in sizes:
                text = f"{name}({given}{', ' if given else ''}{argument}={value})"

                def run(text: str = text) -> None:
                    with bounded():
                        try:
                            found = parse(text)
                            found.gram(np.array([[0.1], [0.2]]))
                        except CovaryError as error:
                            one_sentence(error)

                yield Case(f"text: {text[:90]}", run)
    many = {
        "matrices": " + ".join(["Categories(1000, rank=900)"] * 300),
        "one matrix": "Categories(1000000, rank=100000)",
        "orders": "Additive(Matern52(), orders=1000000000)",
        "powers": "Matern52()" + "**64" * 60,
        "sums": "+".join(["Matern52()"] * 900),
    }
    for name, text in many.items():

        def run(text: str = text, name: str = name) -> None:
            with bounded():
                if name == "sums":
                    assert len(parse(text).terms) == 900
                else:
                    assert ("nested" if name == "powers" else "give at most") in refuses(lambda: parse(text))

        yield Case(f"text: {name}", run)


# functions ------------------------------------------------------------------------------------------------------------
def functions(folder: Path) -> Iterator[Case]:
    """Files that name functions of a program: none is found by its name alone."""
    model = GPRegressor("Matern52()", mean=twice, fixed="*").fit(X, Y)
    model.save(folder / "own.covary")
    members = members_of(folder / "own.covary")
    page = json.loads(members["model.json"])
    for name in ("twice", "eval", "exec", "os.system", "__import__", "jax", "", "lambda", "print"):
        text = re.sub('"twice"', json.dumps(name), json.dumps(page))

        def run(text: str = text) -> None:
            write(folder / "bad.covary", members, json.loads(text))
            refuses(lambda: covary.load(folder / "bad.covary"))
            hidden = {key: value for key, value in json.loads(text).items() if key != "functions"}
            write(folder / "bad.covary", members, hidden)
            refuses(lambda: covary.load(folder / "bad.covary"))

        yield Case(f"a function called {name!r}", run)


def cases(folder: Path) -> Iterator[Case]:
    """All of them."""
    fitted = models()
    yield from pages(folder, fitted)
    yield from bytes_of(folder, fitted)
    yield from kinds(folder, fitted)
    yield from arguments(folder)
    yield from on_disk(folder)
    yield from pipes(folder)
    yield from checkpoints(folder)
    yield from functions(folder)
    yield from texts()
