"""A fitted model of any family is a record that files, diagnosis, report, export and the command accept."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

from covary import files, fits, plots
from covary._checks import CovaryError
from covary.cli.app import app
from covary.diagnosis import diagnose
from covary.export import export_model
from covary.report import tables, write_report
from covary.tables.columns import Columns


def test_methods_of_gaussian_processes_take_the_arguments_of_the_base_class() -> None:
    """The type checker does not compare functions that are bound as methods."""
    family = fits.family("gaussian_process")
    for name in [name for name in vars(fits.AbstractFamily) if name[0] != "_" and callable(getattr(family, name))]:
        wanted = inspect.signature(getattr(fits.AbstractFamily(), name)).parameters
        taken = inspect.signature(getattr(family, name)).parameters
        both = [(p.name, p.kind, p.default) for p in wanted.values()], [(p.name, p.kind, p.default) for p in taken.values()]
        assert both[0] == both[1][: len(both[0])], name
        assert all(p.default is not p.empty for p in list(taken.values())[len(wanted) :]), name


# a new family, from a single registration -------------------------------------------------------------------------


@pytest.fixture
def constant() -> Iterator[fits.AnyFit]:
    """A fit of the toy family, which is registered while the test runs."""
    fits.register("constant", "contracts.constant")
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(60, 2)), 3.0 + 0.5 * rng.normal(size=60)
    state, method = fits.family("constant").learn(fits.Observed(x, y))
    yield fits.Fit("constant", state, Columns.of_numbers(2, ["depth", "age"]), ("yield",), method=method)
    fits.FAMILIES.pop("constant")


def test_the_toy_family_is_short_and_printed_in_the_guide() -> None:
    code = Path(__file__).with_name("constant.py").read_text("utf-8")
    guide = Path(__file__).resolve().parents[2] / "docs" / "contributing" / "family.md"
    assert len(code.splitlines()) <= 60
    assert f"```python\n{code}```\n" in guide.read_text("utf-8")


def test_a_family_can_be_saved_and_loaded(constant: fits.AnyFit, tmp_path: Path) -> None:
    files.write_fit(constant, tmp_path / "m.covary")
    again = files.read_fit(tmp_path / "m.covary")
    assert (again.family, again.target, again.columns.names, again.method) == (
        "constant",
        ("yield",),
        ["depth", "age"],
        constant.method,
    )
    x = np.zeros((3, 2))
    before, after = (fits.family_of(fit).predict(fit, x).columns for fit in (constant, again))
    for title in before:
        np.testing.assert_array_equal(before[title], after[title])


def test_a_family_has_a_diagnosis_and_a_summary(constant: fits.AnyFit) -> None:
    found = diagnose(constant, np.array([[0.5, 0.5], [9.0, 0.5]]))
    assert found["coverage"].verdict == "ok"
    assert found["sharpness"].verdict == "warning"  # a constant prediction is uninformative
    assert found.extrapolates is not None
    assert found.extrapolates.tolist() == [False, True]
    assert "outside the training range of depth" in str(found["extrapolation"].sentence)
    assert found["extrapolation"].advice == fits.Advice().beyond
    assert "prior" not in found["extrapolation"].advice
    new = diagnose(constant, np.full((40, 2), 0.5), np.linspace(8.0, 9.0, 40))
    assert "held-out" in str(new["coverage"].sentence)
    assert new["coverage"].verdict == "warning"
    assert "Constant" in str(fits.family_of(constant).summary(constant))
    with pytest.raises(CovaryError, match=r"constant: this family of models has no export; save it with covary\.save instead"):
        export_model(constant, "p.py")


def test_a_family_has_a_report(constant: fits.AnyFit, tmp_path: Path) -> None:
    text = write_report(constant, tmp_path / "r.html").read_text("utf-8")
    assert re.findall(r'<section id="(\w+)"', text) == ["trust", "predictions", "calibration", "residuals", "data", "again"]
    assert "A Constant learned yield from depth and age in 60 rows" in text.replace("\u00a0", " ")
    assert "Gaussian" not in re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    assert "Seed" not in text  # unknown
    made = replace(constant, origin=fits.Origin(made={"seed": 3}))
    assert ("Seed", "3") in tables.versions(made)


def sections(text: str) -> list[str]:
    return re.findall(r'<section id="(\w+)"', text)


def test_the_parameters_of_a_family_are_in_its_report_and_in_json(
    constant: fits.AnyFit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = fits.family_of(constant)
    rows = (fits.Row("mean", "3.1", "", ""), fits.Row("rule", "average", "0.2", ""))
    summary = fits.Summary("Constant", (), rows)
    assert str(summary).splitlines()[3].split() == ["parameter", "value", "±"]
    fixed = fits.Summary("Constant", (), (*rows, fits.Row("n", "2", "", "fixed")))
    assert str(fixed).splitlines()[3].endswith("prior, state")
    assert fixed._repr_html_().count("<tr>") == 4
    each = [(p["name"], p["value"], p["error"], p["fixed"]) for p in found.parameters(constant, fixed, error_bars=True)]
    assert each == [("mean", 3.1, None, False), ("rule", "average", 0.2, False), ("n", 2.0, None, True)]
    assert found.rows(constant) == (60, False)
    monkeypatch.setattr(found, "summary", lambda fit, quick=False: summary)
    monkeypatch.setattr(found, "predict", lambda fit, x, **_: fits.Answer({"mean": x[:, 0], "std": np.ones(len(x))}))
    text = write_report(constant, tmp_path / "r.html").read_text("utf-8")
    assert sections(text)[-4:] == ["inputs", "parameters", "data", "again"]
    assert re.search(r"<code>mean</code>.*?3\.1", text)
    assert "depth matters most" in text


def test_error_bars_of_zero(constant: fits.AnyFit, tmp_path: Path) -> None:
    state = constant.state
    std = np.where(np.arange(60) % 3 == 0, 0.0, 1.0)
    seen = fits.Judged.of_numbers("leave-one-out", "", state.x, state.y, np.full(60, 3.0), std)
    assert np.isinf(seen.z[::3]).all()
    assert set(seen.pit[::3, 0]) <= {0.0, 1.0}
    zero = fits.Judged.of_numbers("leave-one-out", "", state.x, state.y, np.full(60, 3.0), np.zeros(60))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fits.family_of(constant), "judged", lambda fit, x=None, y=None: zero)
        assert diagnose(constant)["coverage"].advice == (
            "Try another model; some error bars are 0, although the predictions are not exact."
        )
        assert len(plots.plot_residuals(constant).collections)
        patch.setattr(fits.family_of(constant), "judged", lambda fit, x=None, y=None: seen)
        text = write_report(constant, tmp_path / "r.html").read_text("utf-8")
    assert {"predictions", "calibration", "residuals"} <= set(sections(text))
    assert "20 rows with an error bar of 0 left out" in text
    assert "nan" not in re.sub(r"<svg.*?</svg>|<style.*?</style>", "", text, flags=re.DOTALL)


def test_predictions_without_error_bars(constant: fits.AnyFit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found, x, y = fits.family_of(constant), constant.state.x, constant.state.y
    monkeypatch.setattr(type(found), "judged", fits.AbstractFamily.judged)
    monkeypatch.setattr(found, "predict", lambda fit, x, **_: fits.Answer({"mean": x[:, 0]}))
    assert {check.verdict for check in diagnose(constant, x, y)} == {"not available"}
    text = write_report(constant, tmp_path / "r.html", x=x, y=y).read_text("utf-8")
    assert sections(text) == ["trust", "predictions", "again"]
    assert "Largest errors" in text
    assert "was not checked: there are no error bars" in text
    alone = fits.Judged.of_numbers("leave-one-out", "", x, y, x[:, 0])
    monkeypatch.setattr(found, "judged", lambda fit, x=None, y=None: alone)
    assert plots.plot_predicted(constant).get_title("left").startswith("R²")
    for plot in (plots.plot_residuals, plots.plot_calibration):
        with pytest.raises(CovaryError, match="the predictions have no error bars; use plot_predicted"):
            plot(constant)


Call = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run the command in a folder with tables: ``data.csv`` of one number, ``two.csv`` of two, ``text.csv`` of names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("covary.enable_cache", lambda directory=None: "nowhere")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"depth": rng.uniform(size=60), "yield": 3.0 + 0.5 * rng.normal(size=60)})
    frame.to_csv("data.csv", index=False)
    frame.assign(age=rng.normal(size=60)).to_csv("two.csv", index=False)
    frame.assign(kind=rng.choice(["a", "b"], 60)).to_csv("text.csv", index=False)

    def called(*arguments: str, code: int = 0) -> Result:
        done = CliRunner().invoke(app, arguments, prog_name="covary")
        assert done.exit_code == code, done.output
        return done

    return called


def test_a_family_works_with_the_command(constant: fits.AnyFit, run: Call) -> None:
    frame = pd.read_csv("data.csv")
    assert "m.covary" in run("fit", "data.csv", "--target", "yield", "--family", "constant", "--out", "m.covary").output
    assert "Constant" in run("info", "m.covary").output
    run("predict", "m.covary", "data.csv", "--out", "p.csv")
    found = pd.read_csv("p.csv")
    np.testing.assert_allclose(found["mean"], frame["yield"].mean(), rtol=1e-5)
    assert {"std", "lower", "upper"} <= set(found)
    run("report", "m.covary", "--out", "r.html")
    assert "A Constant learned yield from depth in 60 rows" in Path("r.html").read_text("utf-8").replace("\u00a0", " ")


def test_a_family_with_two_targets(constant: fits.AnyFit, run: Call) -> None:
    frame = pd.read_csv("two.csv")
    run("fit", "two.csv", "--target", "yield,age", "--family", "constant", "--out", "m.covary")
    assert files.read_fit("m.covary").target == ("yield", "age")
    said = run("predict", "m.covary", "two.csv", "--out", "p.csv").stderr
    assert "yield: R²" in said
    assert "age: R²" in said
    assert list(pd.read_csv("p.csv")) == [
        f"{name}_{part}" for name in ("yield", "age") for part in ("mean", "std", "lower", "upper")
    ]
    np.testing.assert_allclose(pd.read_csv("p.csv")["age_mean"], frame["age"].mean(), rtol=1e-5)
    run("report", "m.covary", "--out", "r.html", "--data", "two.csv")


def test_a_family_with_a_constant_target_and_missing_inputs(constant: fits.AnyFit, run: Call) -> None:
    frame = pd.read_csv("two.csv").assign(depth=lambda f: f["depth"].where(f.index > 4), flat=0.1)
    frame.to_csv("flat.csv", index=False)
    given = ["flat.csv", "--target", "yield,flat", "--family", "constant", "--missing", "impute", "--out", "m.covary"]
    run("fit", *given, "--report", "r.html")
    run("predict", "m.covary", "flat.csv", "--out", "p.csv")
    assert pd.read_csv("p.csv")["flat_mean"].to_numpy() == pytest.approx(0.1)


def test_a_family_of_an_installed_package_is_found_when_a_file_is_read(
    constant: fits.AnyFit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write_fit(constant, tmp_path / "m.covary")
    fits.FAMILIES.pop("constant")
    with pytest.raises(files.BadFile, match="the family 'constant', which is not installed; install the package that adds it"):
        files.read_fit(tmp_path / "m.covary")
    point = EntryPoint("constant", "contracts.constant", "covary.families")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point] if group == point.group else [])
    assert files.read_fit(tmp_path / "m.covary").family == "constant"


def test_a_family_of_numbers_raises_for_classes_and_unsupported_columns(constant: fits.AnyFit, run: Call) -> None:
    said = run("fit", "text.csv", "--target", "kind", "--family", "constant", code=3).stderr
    assert "column 'kind' of 'text.csv' contains text" in said
    said = run("fit", "two.csv", "-t", "yield", "--family", "constant", "--weight-column", "depth", code=2).stderr
    assert "--weight-column cannot be combined with the family 'constant'" in said


class Bare(fits.AbstractFamily[None]):
    """A family without the optional parts: error bars, predictions of training rows, quantiles, export."""

    name, title = "bare", "Bare"

    def predict(self, fit: fits.AnyFit, x: np.ndarray, **_: object) -> fits.Answer:
        return fits.Answer({"place": x[:, 0]})

    def titles(self, fit: fits.AnyFit, *, latent: bool = False) -> list[str]:
        return ["place"]

    def encode(self, fit: fits.AnyFit, *, factor: bool | None = None) -> fits.Stored:
        return fits.Stored({}, {})

    def decode(self, stored: fits.Stored, fit: fits.AnyFit) -> None:
        return None


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> fits.AnyFit:
    monkeypatch.setitem(fits.FAMILIES, "bare", fits.Registration("contracts.bare"))
    monkeypatch.setitem(sys.modules, "contracts.bare", SimpleNamespace(FAMILY=Bare()))  # type: ignore[arg-type]
    return fits.Fit("bare", None, Columns.of_numbers(1, ["depth"]), ("yield",))


def test_a_family_may_predict_its_own_columns(bare: fits.AnyFit, run: Call) -> None:
    files.write_fit(bare, "m.covary")
    run("predict", "m.covary", "data.csv", "--out", "p.csv")  # the table has the target, but there is no mean to score
    assert list(pd.read_csv("p.csv")) == ["place"]


def test_a_family_without_leave_one_out_predictions(bare: fits.AnyFit, run: Call) -> None:
    files.write_fit(bare, "m.covary")
    assert "no leave-one-out predictions" in str(diagnose(bare)["errors"].sentence)
    assert "no means to compare with observations" in str(diagnose(bare, np.zeros((3, 1)), np.zeros(3))["errors"].sentence)
    run("report", "m.covary", "--out", "r.html", "--data", "data.csv")
    assert "Bare" in run("info", "m.covary").output


def test_predictions_may_be_validated_in_another_way(
    constant: fits.AnyFit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = fits.family_of(constant)
    monkeypatch.setattr(
        found, "judged", lambda fit, x=None, y=None: replace(type(found).judged(found, fit, x, y), kind="ten folds")
    )
    assert "(ten folds)" in str(diagnose(constant)["coverage"].sentence)
    assert "predicted (ten folds)" in write_report(constant, tmp_path / "r.html").read_text("utf-8")
