"""A user-defined family of models in the command: fit, info, predict and report."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from contracts.constant import Constant, Family
from covary import fits

from .conftest import waves, write

Call = Callable[..., Any]


@pytest.fixture(autouse=True)
def _constant() -> Iterator[None]:
    fits.register("constant", "contracts.constant")
    yield
    fits.FAMILIES.pop("constant", None)


def test_a_family_is_fitted_described_asked_and_reported(call: Call, tmp_path: Path) -> None:
    write(tmp_path / "t.csv", waves())
    result = call("fit", "t.csv", "-t", "y", "--family", "constant", "--json", "--report", "t.html", "--save-config", "t.toml")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["family"], found["rows"], found["inputs"], found["targets"]) == ("constant", 25, ["x", "z"], ["y"])
    assert "<!doctype html>" in (tmp_path / "t.html").read_text()[:100].lower()
    said = call("predict", "t.covary", "t.csv", "--out", "p.csv")
    assert said.exit_code == 0, said.output
    assert "rows with a known value" in said.stderr
    answers = pd.read_csv(tmp_path / "p.csv")
    assert list(answers) == ["mean", "std", "lower", "upper"]
    assert answers["mean"].nunique() == 1
    assert answers["mean"][0] == pytest.approx(pd.read_csv(tmp_path / "t.csv")["y"].mean(), abs=1e-6)
    info = call("info", "t.covary")
    assert info.exit_code == 0, info.output
    assert call("report", "t.covary", "--out", "again.html").exit_code == 0
    again = call("fit", "--config", "t.toml", "--out", "again.covary", "--json")
    assert json.loads(again.stdout)["family"] == "constant"


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--family", "none"], 2, "is not known; choose one of constant, gaussian_process"),
        (["--family", "constant", "--kernel", "Matern52()"], 2, "--kernel is for the family gaussian_process, not 'constant'"),
        (["--family", "constant", "--set", "depth=3"], 2, "is not a setting of the family 'constant'"),
        (
            ["--family", "constant", "--max-time", "3"],
            2,
            "--max-time cannot be combined with the family 'constant'; leave it out",
        ),
        (["--family", "constant", "--checkpoint", "c"], 2, "--checkpoint cannot be combined with the family 'constant'"),
        (["--family", "constant", "--workers", "1"], 2, "--workers cannot be combined with the family 'constant'"),
        (["--family", "constant", "--noise-column", "z"], 2, "--noise-column cannot be combined with the family 'constant'"),
        (["--set", "depth=3"], 2, "is not a setting of the family 'gaussian_process'"),
    ],
)
def test_what_a_family_does_not_take(call: Call, tmp_path: Path, options: list[str], code: int, said: str) -> None:
    write(tmp_path / "t.csv", waves())
    result = call("fit", "t.csv", "-t", "y", *options)
    assert result.exit_code == code
    assert said in result.stderr


def test_a_family_gets_what_it_takes(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns, settings and options of the command reach ``learn``."""
    write(tmp_path / "waves.csv", waves())
    pd.read_csv(tmp_path / "waves.csv").assign(y=range(25), weight=2.0, sd=0.5, trials=3).to_csv(
        tmp_path / "t.csv", index=False
    )
    found = fits.family("constant")
    seen: list[fits.Observed] = []
    learn = found.learn
    takes = fits.Takes(weights=True, noise=True, sizes=True, max_time=True, checkpoint=True)
    monkeypatch.setattr(found, "takes", takes)
    monkeypatch.setattr(found, "learn", lambda observed: (seen.append(observed), learn(observed))[1])
    settings = ["--max-time", 9, "--checkpoint", "c", "--seed", 4]
    for columns in (["--weight-column", "weight", "--noise-column", "sd"], ["--size-column", "trials"]):
        said = call("fit", "t.csv", "-t", "y", "--family", "constant", "--inputs", "x,z", *columns, *settings)
        assert said.exit_code == 0, said.output
    noisy, sized = seen
    assert noisy.names == sized.names == ("x", "z")
    assert (noisy.max_time, noisy.checkpoint, noisy.seed, noisy.executor) == (9.0, "c", 4, None)
    for values, value in ((noisy.weight, 2.0), (noisy.noise, 0.25), (sized.size, 3.0)):
        np.testing.assert_array_equal(values, np.full(25, value))
    assert noisy.size is sized.noise is sized.weight is None


# families of installed packages, which have options ----------------------------------------------------------------
class Near(Family):
    """A family with options and settings, some of which are named as those of Gaussian processes."""

    name, title = "near", "Near"
    settings = (
        fits.Setting("k", "neighbours", int, 5, minimum=1),
        fits.Setting("weights", "how", str, "uniform", ("uniform", "distance")),
        fits.Setting("scaled", "whether", bool, False),
        fits.Setting("power", "of distances", float, 2.0, maximum=9.0),
    )

    def __init__(self) -> None:
        self.seen: list[fits.Observed] = []

    def learn(self, observed: fits.Observed) -> tuple[Constant, fits.Method]:
        self.seen.append(observed)
        return super().learn(observed)


OPTIONS = fits.Options(
    (
        fits.Setting("neighbours", "Number of neighbours.", int, 5, minimum=1),
        fits.Setting("method", "Search.", str, "brute", ("brute", "tree")),
        fits.Setting("sorted", "Whether to sort the rows.", bool, True),
        fits.Setting("sizes", "Sizes.", int, multiple=True),
    ),
    title="Neighbours",
)


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> Iterator[Near]:
    """A family in modules of another package, which is not installed."""
    found = Near()
    light = SimpleNamespace(OPTIONS=OPTIONS, NEAR=fits.Registration("near_family", "near_light"), WRONG="text")
    for name, module in {"near_family": SimpleNamespace(FAMILY=found, OPTIONS=OPTIONS), "near_light": light}.items():
        monkeypatch.setitem(sys.modules, name, module)  # type: ignore[arg-type]
    yield found
    fits.FAMILIES.pop("near", None)


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Install families by name, as entry points; their reading is an error if there are none."""

    def installed(**values: str) -> None:
        def points(group: str) -> list[EntryPoint]:
            assert values, "entry points were read"
            return [EntryPoint(name, value, group) for name, value in values.items() if group == "covary.families"]

        monkeypatch.setattr("importlib.metadata.entry_points", points)

    return installed


@pytest.mark.parametrize("value", ["near_family", "near_family:FAMILY", "near_light:NEAR"])
def test_an_installed_family_with_options(
    call: Call, tmp_path: Path, near: Near, install: Callable[..., None], value: str
) -> None:
    install(near=value)
    write(tmp_path / "t.csv", waves())
    given = ["t.csv", "-t", "y", "--family", "near", "--out", "t.covary"]
    own = ["--neighbours", 3, "--no-sorted", "--sizes", 1, "--sizes", 2, "--set", "k=4", "--set", "scaled=true"]
    result = call("fit", *given, *own, "--save-config", "t.toml", "--json")
    assert result.exit_code == 0, result.output
    assert near.seen[0].options == {"neighbours": 3, "method": "brute", "sorted": False, "sizes": [1, 2]}
    assert near.seen[0].settings == {"k": 4, "weights": "uniform", "scaled": True, "power": 2.0}
    page = json.loads(result.stdout)
    assert page["seconds"]["learning"] > 0
    assert not {"status", "evaluations"} & set(page)
    text = (tmp_path / "t.toml").read_text()
    assert [line for line in text.splitlines() if line.startswith(("neighbours", "method", "sorted", "sizes", "like"))] == [
        "neighbours = 3",
        'method = "brute"',
        "sorted = false",
        "sizes = [1, 2]",
    ]
    if value != "near_family":
        return
    again = call("fit", "--config", "t.toml", "--out", "again.covary", "--method", "tree")
    assert again.exit_code == 0, again.output
    assert near.seen[1].options == {**near.seen[0].options, "method": "tree"}
    assert json.loads(call("info", "t.covary", "--json").stdout)["rows"] == 25
    refused = call("predict", "t.covary", "t.csv", "--latent")
    assert refused.exit_code == 2
    assert "--latent is not for the family 'near'" in refused.stderr
    other = call("fit", "--config", "t.toml", "--family", "constant")
    assert other.exit_code == 2
    assert "has an entry 'neighbours' that the family 'constant' does not have; remove it" in other.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--neighbours", "3"], "--neighbours is for the family near, not 'gaussian_process'"),
        (["--family", "near", "--kernel", "Matern52()"], "--kernel is for the family gaussian_process, not 'near'"),
        (["--family", "near", "--method", "auto"], "'brute'"),
        (["--family", "near", "--neighbours", "0"], "1"),
        (["--family", "near", "--set", "k=abc"], "--set 'k=abc' has a wrong value; give a whole number, at least 1"),
        (["--family", "near", "--set", "k=0"], "give a whole number, at least 1"),
        (["--family", "near", "--set", "k=1.5"], "give a whole number, at least 1"),
        (["--family", "near", "--set", "weights=5"], "give one of uniform, distance"),
        (["--family", "near", "--set", "scaled=1"], "give true or false"),
        (["--family", "near", "--set", "power=nan"], "give a number, at most 9"),
        (["--family", "near", "--set", "power=10"], "give a number, at most 9"),
        (["--family", "broken"], "the family 'broken' of models cannot be imported from nowhere_at_all (ModuleNotFoundError"),
        (["--family", "lost"], "the family 'lost' of models cannot be imported from near_light:LOST (AttributeError"),
        (
            ["--family", "text"],
            "the family 'text' has a str at near_light:WRONG; define an instance of covary.fits.family.AbstractFamily",
        ),
        (
            ["--family", "other"],
            "the family 'near' in near_family:FAMILY is registered as 'other'; register it by its own name",
        ),
        (["--family", "nothing"], "--family 'nothing' is not known; choose one of broken, constant, gaussian_process"),
        (["--family", "reserved"], "the family 'reserved' declares --seed, which every family has; rename it"),
    ],
)
def test_wrong_options_and_installed_families(
    call: Call, tmp_path: Path, near: Near, install: Callable[..., None], options: list[str], said: str
) -> None:
    values = {"lost": "near_light:LOST", "text": "near_light:WRONG", "other": "near_family:FAMILY", "broken": "nowhere_at_all"}
    install(near="near_family", **values)
    reserved = SimpleNamespace(OPTIONS=fits.Options((fits.Setting("seed", "Seed."),)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "reserved", reserved)  # type: ignore[arg-type]
        patch.setitem(fits.FAMILIES, "reserved", fits.Registration("reserved", "reserved"))
        write(tmp_path / "t.csv", waves())
        result = call("fit", "t.csv", "-t", "y", *options)
    for name in values:
        fits.FAMILIES.pop(name, None)
    assert result.exit_code == 2, result.output
    assert said in result.stderr


def test_the_help_lists_the_options_of_the_family(call: Call, near: Near, install: Callable[..., None]) -> None:
    install()  # entry points are not read for families of covary
    said = call("fit", "--help").stdout
    assert "--kernel" in said
    assert "--neighbours" not in said
    install(near="near_family")
    said = call("fit", "--family=near", "--help").stdout
    assert "--neighbours" in said
    assert "Neighbours" in said  # the panel
    assert "--kernel" not in said


def test_a_file_of_a_family_that_cannot_be_imported(call: Call, tmp_path: Path, install: Callable[..., None]) -> None:
    write(tmp_path / "t.csv", waves())
    call("fit", "t.csv", "-t", "y", "--family", "constant")
    fits.FAMILIES.pop("constant")
    install(constant="nowhere_at_all")
    result = call("predict", "t.covary", "t.csv")
    fits.register("constant", "contracts.constant")
    assert result.exit_code == 4
    assert "the family 'constant' of models cannot be imported from nowhere_at_all" in result.stderr
    assert "install or update the package that adds it" in result.stderr
