"""Model files: models are restored bit by bit, and file contents are never trusted."""

from __future__ import annotations

import io
import json
import os
import re
import resource
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import covary
from covary import GPClassifier, GPRegressor, load, save
from covary._checks import CovaryError
from covary.distributions import Gamma, LogNormal
from covary.files import BadFile, read, read_fit, write_fit
from covary.files.pages import labels_in, labels_out
from covary.fits import FAMILIES, AbstractFamily, Fit, Origin, Registration, Scale, Stored
from covary.inference import Laplace
from covary.kernels import Matern52, Periodic
from covary.means import Linear
from covary.parameters import bounded, fixed
from covary.plots import left_out, plot_fit
from covary.tables import Columns

RNG = np.random.default_rng(3)
X = RNG.normal(size=(30, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=30)
NEW = RNG.normal(size=(9, 2))
FAST = {"n_restarts": 0, "random_state": 0}


def frame(array: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(array, columns=["height", "depth of water"])


CASES = {
    "plain": lambda: GPRegressor(**FAST).fit(X, Y),
    "frame": lambda: GPRegressor(**FAST).fit(frame(X), pd.Series(Y, name="speed")),
    "outputs": lambda: GPRegressor(**FAST).fit(X, np.column_stack([Y, 100 - 3 * Y])),
    "repeated rows": lambda: GPRegressor(**FAST).fit(np.vstack([X, X]), np.concatenate([Y, Y + 0.1])),
    "known noise": lambda: GPRegressor(**FAST).fit(
        X, Y, noise_variance=np.linspace(0.01, 0.1, 30), sample_weight=np.arange(30)
    ),
    "text": lambda: GPRegressor("2*Matern52() + Periodic(period=fixed(1))", mean="linear", noise=fixed(0.02), **FAST).fit(X, Y),
    "marks": lambda: GPRegressor(
        bounded(2.0, 0.1, 10.0) * Matern52(lengthscale=[1.0, 2.0]) + Periodic(period=fixed(2.0)),
        mean=Linear(weight=[0.1, 0.2]),
        priors={"kernel.0.lengthscale": LogNormal(0.0, scale=1.0), "likelihood.variance": Gamma(1.0, shape=2.0)},
        bounds={"likelihood.variance": (1e-4, 1.0)},
        fixed=("kernel.1.lengthscale",),
        **FAST,
    ).fit(X, Y),
    "nothing to learn": lambda: GPRegressor("Matern52()", fixed="*", noise=fixed(0.1), mean="zero", priors=None).fit(X, Y),
    "one row": lambda: GPRegressor(**FAST).fit([[1.0, 2.0]], [3.0]),
}


@pytest.fixture(scope="module")
def plain() -> GPRegressor:
    return CASES["plain"]()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("factor", [True, False])
def test_the_same_model_comes_back(name: str, factor: bool, tmp_path: Path) -> None:
    model = CASES[name]()
    path = tmp_path / "m.covary"
    model.save(path, factor=factor)
    again = load(path)
    new = frame(NEW) if name == "frame" else NEW
    for got, expected in zip(again.predict(new, return_std=True), model.predict(new, return_std=True), strict=True):
        np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(again.predict(new, return_cov=True)[1], model.predict(new, return_cov=True)[1])
    assert again.log_marginal_likelihood_ == model.log_marginal_likelihood_
    assert again.model_ == model.model_
    assert str(again.summary()) == str(model.summary())
    assert repr(again) == repr(model)
    save(again, tmp_path / "twice.covary", factor=factor)
    assert (tmp_path / "twice.covary").read_bytes() == path.read_bytes()


def test_a_loaded_model_goes_on(plain: GPRegressor, tmp_path: Path) -> None:
    plain.save(tmp_path / "m.covary")
    again = load(tmp_path / "m.covary")
    more = CASES["plain"]().update(NEW, np.zeros(9))
    np.testing.assert_array_equal(again.update(NEW, np.zeros(9)).predict(X), more.predict(X))
    refitted = again.fit(X, Y)
    np.testing.assert_array_equal(refitted.predict(NEW), plain.predict(NEW))


def test_a_fresh_process_predicts_the_same_bits(plain: GPRegressor, tmp_path: Path) -> None:
    plain.save(tmp_path / "m.covary")
    np.save(tmp_path / "new.npy", NEW)
    code = (
        "import numpy as np, sys; from covary import load; d = sys.argv[1]; m = load(d + '/m.covary');"
        "np.savez(d + '/out.npz', *m.predict(np.load(d + '/new.npy'), return_std=True))"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    with np.load(tmp_path / "out.npz") as out:
        for got, expected in zip(out.values(), plain.predict(NEW, return_std=True), strict=True):
            assert got.tobytes() == np.asarray(expected).tobytes()


def test_columns_are_checked_by_name_after_loading(tmp_path: Path) -> None:
    CASES["frame"]().save(tmp_path / "m.covary")
    again = load(tmp_path / "m.covary")
    with pytest.raises(ValueError, match="feature names should match"):
        again.predict(frame(NEW).rename(columns={"height": "width"}))


def test_a_thousand_columns(tmp_path: Path) -> None:
    wide = RNG.normal(size=(4, 1000))
    model = GPRegressor(n_restarts=0, max_time=2.0, random_state=0).fit(wide, Y[:4])
    model.save(tmp_path / "m.covary")
    np.testing.assert_array_equal(load(tmp_path / "m.covary").predict(wide), model.predict(wide))


def test_what_cannot_be_saved_or_written_is_said(plain: GPRegressor, tmp_path: Path) -> None:
    with pytest.raises(CovaryError, match="save: the model is a Matern52; give a fitted estimator of covary"):
        save(Matern52(), tmp_path / "m.covary")
    learned = plain.fit_.state.first.learned
    with pytest.raises(CovaryError, match="save: the model is a Learned; give a fitted estimator of covary"):
        save(learned, tmp_path / "m.covary")  # its ``steps`` are a number, not those of a pipeline
    for draw in (plot_fit, left_out):
        with pytest.raises(CovaryError, match="got Learned; give a fitted estimator or a posterior"):
            draw(learned)
    with pytest.raises(CovaryError, match="does not exist; create it, or write elsewhere"):
        plain.save(tmp_path / "nowhere" / "m.covary")
    with pytest.raises(CovaryError, match="is a folder"):
        plain.save(tmp_path)
    assert os.listdir(tmp_path) == []


def test_an_old_file_stays_if_the_new_one_fails(plain: GPRegressor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.covary"
    plain.save(path)
    before = path.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(CovaryError, match=r"was not written \(No space left on device\)"):
        plain.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.covary"]


# hostile files --------------------------------------------------------------------------------------------------


def rewrite(source: Path, change) -> bytes:
    """The container with its members passed through ``change(dict of bytes)``."""
    with zipfile.ZipFile(source) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def page(**changes):
    def change(members: dict[str, bytes]) -> None:
        record = json.loads(members["model.json"])
        for name, value in changes.items():
            at = record
            *above, last = name.split("__")
            for part in above:
                at = at[part]
            at[last] = value
        members["model.json"] = json.dumps(record).encode()

    return change


def array(name: str, value: np.ndarray):
    def change(members: dict[str, bytes]) -> None:
        out = io.BytesIO()
        np.lib.format.write_array(out, np.asarray(value), version=(1, 0))
        members[f"arrays/{name}.npy"] = out.getvalue()

    return change


def header(name: str, text: str):
    def change(members: dict[str, bytes]) -> None:
        raw = text.encode().ljust(118) + b"\n"
        members[f"arrays/{name}.npy"] = b"\x93NUMPY\x01\x00" + len(raw).to_bytes(2, "little") + raw + b"\0" * 64

    return change


def extra(name: str, data: bytes = b"x"):
    def change(members: dict[str, bytes]) -> None:
        members[name] = data

    return change


def raw_page(text: bytes):
    return extra("model.json", text)


HOSTILE = {
    "newer schema": (page(schema=99), "has schema 99; this version of covary reads up to 2; load it with a newer covary"),
    "no schema": (page(schema="1"), "names no schema"),
    "other kind": (page(kind="os.system"), "holds a 'os.system', which this version of covary cannot read"),
    "kernel code": (page(model__kernel="__import__('os').system('true')"), "cannot be parsed"),
    "deep kernel": (page(model__kernel="(" * 300 + "Matern52()" + ")" * 300), "cannot be used"),
    "deep power": (page(model__kernel="Matern52()" + "**9" * 400), "cannot be used"),
    "long kernel": (page(model__kernel="Matern52() + " * 40_000 + "Matern52()"), "characters"),
    "kernel of other columns": (page(model__kernel="Matern52(lengthscale=[1,2,3,4])"), "cannot be used"),
    "unknown mean": (page(model__mean__type="Evil"), "'Evil' is not known"),
    "unknown field": (page(model__mean__values={"__class__": 1}), "unknown entries"),
    "negative noise": (page(model__likelihood__values={"variance": -1.0}), "cannot be used"),
    "text for a number": (page(model__likelihood__values={"variance": "os"}), "do not fit together"),
    "prior unknown": (page(priors={"kernel.lengthscale": ["Evil", {}]}), "the prior 'Evil' is not known"),
    "missing part": (lambda m: m.update({"model.json": m["model.json"].replace(b'"params"', b'"parame"')}), "do not fit"),
    "deep page": (raw_page(b"[" * 5000 + b"]" * 5000), "nested too deep"),
    "very deep page": (raw_page(b'{"a":' * 200_000 + b"1" + b"}" * 200_000), "too many parts"),
    "huge page": (raw_page(b" " * (2**23 + 1)), "too large"),
    "not json": (raw_page(b"\xff\xfe"), "damaged or no model file"),
    "nan in the page": (raw_page(b'{"schema": NaN}'), "damaged or no model file"),
    "no page": (lambda m: m.pop("model.json"), "has no model.json"),
    "path traversal": (extra("../../evil.npy"), "unexpected name '../../evil.npy'"),
    "absolute path": (extra("/tmp/evil.npy"), "unexpected name"),
    "pickle beside": (extra("arrays/evil.pkl"), "unexpected name"),
    "one array too many": (extra("arrays/evil.npy"), "lacks arrays, or has too many"),
    "one array missing": (lambda m: m.pop("arrays/alpha.npy"), "lacks arrays"),
    "absurd shape": (
        header("X", "{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999, 99), }"),
        "declares more bytes",
    ),
    "negative shape": (
        header("X", "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 2), }"),
        "type or shape of an array is not supported",
    ),
    "short array": (header("X", "{'descr': '<f8', 'fortran_order': False, 'shape': (30, 2), }"), "declares more bytes"),
    "objects": (
        header("X", "{'descr': '|O', 'fortran_order': False, 'shape': (30, 2), }"),
        "type or shape of an array is not supported",
    ),
    "code in a header": (header("X", "__import__('os').system('true')"), "type or shape of an array is not supported"),
    "nan in an array": (array("X", np.full((30, 2), np.nan)), "entries that are not finite"),
    "whom to call": (page(params__executor="tcp://127.0.0.1:1"), "the file names the executor 'tcp://127.0.0.1:1'"),
    "where to write": (page(params__folder="/tmp/x"), "there is no argument 'folder' in a model of this kind"),
    "another kind": (page(kind="GPClassifier"), "there is no argument 'likelihood'"),
    "another kind, its arguments too": (
        page(kind="GPClassifier", params={"kernel": None}),
        "is inconsistent about whether it tells classes apart",
    ),
    "classes": (page(classes={"type": "<i8", "labels": [0, 1]}), "whether it tells classes apart"),
    "evidence that is no number": (page(evidence="nan"), "do not fit together"),
    "evidence without end": (page(evidence="inf"), "do not fit together"),
    "evidence beyond floats": (
        lambda m: m.update({"model.json": re.sub(rb'"evidence": [-0-9.e]+', b'"evidence": 1e999', m["model.json"])}),
        "do not fit together",
    ),
    "evidence as text": (page(evidence="1.0"), "do not fit together"),
    "evidence that is true": (page(evidence=True), "do not fit together"),
    "jitter that is no number": (page(jitter="nan"), "do not fit together"),
    "seconds that are no number": (page(learned__seconds="nan"), "do not fit together"),
    "nothing learned": (page(learned={}), "do not fit together"),
    "learned from no rows": (page(learned__levels=[]), "about the rows it was learned from"),
    "learned for ages": (page(learned__seconds=1e308), "about how long it was learned"),
    "observations beyond squares": (array("y", np.full(30, 1e308)), "about its observations"),
    "a prior of lists": (page(priors={"kernel.variance": ["LogNormal", {"location": [0.0, 1.0]}]}), "do not fit together"),
    "a prior beyond floats": (page(priors={"kernel.variance": ["LogNormal", {"scale": 1e308}]}), "do not fit together"),
    "a prior of no width": (page(priors={"kernel.variance": ["LogNormal", {"scale": -1.0}]}), "about the priors"),
    "levels that are text": (page(learned__levels=["7"]), "do not fit together"),
    "an endless matrix": (page(model__kernel="Categories(1000000, rank=100000).on(0)"), "parameters; give at most 1,000,000"),
    "endless orders": (page(params__kernel={"kernel": "Additive(Matern52(), orders=1000000000)"}), "give at most 1,000,000"),
    "matrices in a row": (page(model__kernel=" + ".join(["Categories(1000, rank=900).on(0)"] * 99)), "give at most"),
    "other alpha": (array("alpha", np.full(30, 1e3)), "is inconsistent"),
    "other factor": (array("factor", np.zeros(465)), "is inconsistent about the factor"),
    "other targets": (array("check_mean", np.zeros(5)), "the predictions stored when it was saved"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_in_one_sentence(name: str, plain: GPRegressor, tmp_path: Path) -> None:
    change, message = HOSTILE[name]
    plain.save(tmp_path / "good.covary")
    path = tmp_path / "bad.covary"
    path.write_bytes(rewrite(tmp_path / "good.covary", change))
    with pytest.raises(BadFile) as caught:
        load(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.fixture(scope="module")
def classes() -> GPClassifier:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30, 2))
    return GPClassifier(random_state=0).fit(X, np.digitize(X[:, 0], [-0.4, 0.4]))


HOSTILE_CLASSES = {
    "one class": (page(classes__labels=[1]), "the classes"),
    "a class twice": (page(classes__labels=[0, 1, 1]), "the classes"),
    "labels without end": (page(classes__type="<U500000000", classes__labels=["a", "b", "c"]), "the classes"),
    "classes without rows": (array("class_count", np.zeros(3)), "the classes"),
    "rows of other classes": (array("y", np.full(30, -1.0)), "the classes"),
    "sites beyond squares": (array("shift", np.full((30, 3), 1e308)), "about its observations"),
    "no target": (page(targets=[]), "the names of the targets"),
    "labels beyond floats": (
        lambda m: m.update({"model.json": re.sub(rb'"labels": \[[^]]*]', b'"labels": [0.0, 1.0, 1e999]', m["model.json"])}),
        "do not fit together",
    ),
    "text for a number of steps": (page(inference__structure__max_steps="9"), "Laplace has max_steps = '9'; expected int"),
    "true for a tolerance": (page(inference__structure__tolerance=True), "Laplace has tolerance = True; expected float"),
    "labels of another type": (page(classes__type="<U3"), "the classes"),
    "labels that are cut": (page(classes__type="|i1", classes__labels=[0, 1, 300]), "the classes"),
    "another kind": (page(kind="GPRegressor"), "there is no argument 'class_kernels'"),
    "another kind, its arguments too": (page(kind="GPRegressor", params={}), "whether it tells classes apart"),
    "another likelihood": (
        page(model__likelihood={"type": "Gaussian", "values": {"variance": 1.0}, "marks": {}}),
        "the classes",
    ),
    "labels of objects": (page(classes__type="|O"), "the classes"),
    "code for a label": (page(classes__labels=[0, 1, {"a": 1}]), "neither text nor a number"),
    "unknown likelihood": (page(model__likelihood__type="Evil"), "'Evil' is not known"),
    "strange structure": (page(model__likelihood__structure={"classes": [1]}), "do not fit together"),
    "unknown inference": (page(inference__type="Evil"), "'Evil' is not known"),
    "fewer latents": (page(model__likelihood__structure={"classes": 2}), "cannot be used"),
    "probabilities above one": (array("sites", np.full((30, 3), 2.0)), "the sites"),
    "other sites": (array("sites", np.full((30, 3), 1 / 3)), "is inconsistent"),
    "other shift": (array("shift", np.zeros(30)), "whose shape or length differs from its page"),
}


@pytest.mark.parametrize("name", HOSTILE_CLASSES)
def test_hostile_classifiers_are_refused_in_one_sentence(name: str, classes: GPClassifier, tmp_path: Path) -> None:
    change, message = HOSTILE_CLASSES[name]
    classes.save(tmp_path / "good.covary")
    path = tmp_path / "bad.covary"
    path.write_bytes(rewrite(tmp_path / "good.covary", change))
    with pytest.raises(BadFile) as caught:
        load(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("rows", [0.0, 1e308])
def test_evaluations_on_no_rows_or_endless_ones(rows: float, plain: GPRegressor, tmp_path: Path) -> None:
    plain.save(tmp_path / "good.covary")
    shape = read(tmp_path / "good.covary")[2]["history"].shape
    (tmp_path / "bad.covary").write_bytes(rewrite(tmp_path / "good.covary", array("history", np.full(shape, rows))))
    with pytest.raises(BadFile, match="about the rows it was learned from"):
        load(tmp_path / "bad.covary")


def test_large_whole_labels_come_back(tmp_path: Path) -> None:
    labels = np.where(Y > 0, np.uint64(2**63 + 5), np.uint64(1))
    GPClassifier("Matern52()", fixed="*").fit(X, labels).save(tmp_path / "m.covary")
    assert load(tmp_path / "m.covary").classes_.tolist() == [1, 2**63 + 5]


def test_steps_given_as_a_float_come_back(tmp_path: Path) -> None:
    model = GPClassifier("Matern52()", fixed="*", inference=Laplace(max_steps=50.0, tolerance=1)).fit(X, Y > 0)  # type: ignore[arg-type]
    model.save(tmp_path / "m.covary")
    assert load(tmp_path / "m.covary").inference == Laplace(max_steps=50, tolerance=1)


def most_memory(call) -> int:
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_long_texts_take_no_memory_but_their_own(plain: GPRegressor, tmp_path: Path) -> None:
    plain.save(tmp_path / "good.covary")
    (tmp_path / "long.covary").write_bytes(rewrite(tmp_path / "good.covary", page(note="x" * 500_000 + "\\" * 500_000)))
    assert most_memory(lambda: read(tmp_path / "long.covary")) < 16e6
    labels = ["x" * 5000, *map(str, range(5000))]  # in an array, every label has room for the longest

    def refused() -> None:
        with pytest.raises(CovaryError, match="is inconsistent about the classes"):
            labels_in({"type": "<U4", "labels": labels})

    assert most_memory(refused) < 16e6
    with pytest.raises(CovaryError, match=r"save: the longest label of a class has 5000 characters; shorten the labels\."):
        labels_out(np.array(labels, dtype=object))


def test_memory_that_runs_out_is_the_fault_of_the_file(
    plain: GPRegressor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more(*_: object) -> None:
        raise MemoryError

    plain.save(tmp_path / "m.covary")
    monkeypatch.setattr(GPRegressor, "from_fit", no_more)
    with pytest.raises(BadFile, match="needs more memory than is available"):
        load(tmp_path / "m.covary")


def test_a_zip_bomb_is_refused_before_it_is_opened(plain: GPRegressor, tmp_path: Path) -> None:
    path = tmp_path / "bomb.covary"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.json", b" " * 50_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BadFile, match="compressed or encrypted"):
        load(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB: far less than it would unpack to


OTHERS = {
    "empty": b"",
    "two letters": b"PK",
    "text": b"not a model",
    "empty zip": b"PK\x05\x06" + b"\0" * 18,
    "noise": np.random.default_rng(0).bytes(2000),
}


@pytest.mark.parametrize("content", OTHERS.values(), ids=list(OTHERS))
def test_files_of_other_kinds(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.covary"
    path.write_bytes(content)
    with pytest.raises(BadFile, match=r"damaged or no model file|has no model\.json"):
        load(path)
    with pytest.raises(BadFile, match="does not exist; check the name"):
        load(tmp_path / "nowhere.covary")
    with pytest.raises(BadFile, match="is a folder"):
        load(tmp_path)


def test_truncation_and_bit_flips_never_pass_for_another_model(plain: GPRegressor, tmp_path: Path) -> None:
    """Every damage is refused, or the file still holds the very same numbers (a bit nobody reads)."""
    plain.save(tmp_path / "good.covary")
    good, expected = (tmp_path / "good.covary").read_bytes(), plain.predict(NEW)
    rng, refused = np.random.default_rng(0), 0
    path = tmp_path / "bad.covary"
    for trial in range(400):
        data = bytearray(good)
        if trial % 4 == 0:
            data = data[: rng.integers(0, len(data))]
        elif trial % 4 == 1:  # the directory at the end is where the zip reader can be led astray
            data[rng.integers(len(data) - 1500, len(data))] ^= 1 << rng.integers(8)
        else:
            for _ in range(rng.integers(1, 4)):
                data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        path.write_bytes(bytes(data))
        try:
            got = load(path).predict(NEW)
        except BadFile as error:
            refused += 1
            assert "\n" not in str(error)  # noqa: PT017
            continue
        np.testing.assert_array_equal(got, expected)
    assert refused > 300


# other families -----------------------------------------------------------------------------------------------------------
class Centre(AbstractFamily[np.ndarray]):
    """The mean of every target, whatever the inputs."""

    name = "centre"
    title = "Centre"

    def encode(self, fit: Fit[np.ndarray], *, factor: bool | None = None) -> Stored:
        return Stored({"kept": True}, {"mean": fit.state})

    def decode(self, stored: Stored, fit: Fit[None]) -> np.ndarray:
        assert stored.page["kept"] is True
        return stored.arrays["mean"]


class Careless(Centre):
    """A family that writes what every file has."""

    def encode(self, fit: Fit[np.ndarray], *, factor: bool | None = None) -> Stored:
        return Stored({"targets": []}, {})


FAMILY, CARELESS = Centre(), Careless()


def test_a_family_that_is_registered_can_be_saved_and_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, "centre", Registration(__name__))
    table = pd.DataFrame({"depth [m]": [1.0, 2.0, 3.0], "soil": ["clay", "sand", "clay"]})
    scale = Scale(np.zeros(2), np.ones(2))
    made = {"command": "covary fit"}
    fit = Fit("centre", np.array([1.0, 2.0]), Columns.fit("t", table), ("a", "b"), scale, origin=Origin(made=made))
    write_fit(fit, tmp_path / "m.covary")
    for again in (read_fit(tmp_path / "m.covary"), load(tmp_path / "m.covary")):
        assert (again.family, again.target, again.columns, again.method) == (fit.family, fit.target, fit.columns, fit.method)
        assert again.origin.made == made
        assert again.origin.covary == covary.__version__
        np.testing.assert_array_equal(again.state, fit.state)
    monkeypatch.delitem(FAMILIES, "centre")
    with pytest.raises(
        BadFile, match="holds a model of the family 'centre', which is not installed; install the package that adds it"
    ):
        load(tmp_path / "m.covary")


def test_a_family_writes_under_names_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, "centre", Registration(__name__))
    monkeypatch.setattr(f"{__name__}.FAMILY", CARELESS)
    fit = Fit("centre", np.zeros(1), Columns.of_numbers(1))
    with pytest.raises(CovaryError, match="the family 'centre' writes 'targets', which is a reserved name; rename it"):
        write_fit(fit, tmp_path / "m.covary")


def test_the_record_of_a_fit_is_what_the_file_holds(plain: GPRegressor, tmp_path: Path) -> None:
    plain.save(tmp_path / "m.covary")
    fit = read_fit(tmp_path / "m.covary")
    assert fit.origin.arguments.keys() == plain.get_params(deep=False).keys()
    assert fit.state.first.model == plain.model_
    write_fit(fit, tmp_path / "again.covary")
    assert (tmp_path / "again.covary").read_bytes() == (tmp_path / "m.covary").read_bytes()
