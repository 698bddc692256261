"""The record of a fitted model: what has one, what a model file can contain, estimators of other families."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import covary
from covary import GPClassifier, GPRegressor, files, fits, plots
from covary._checks import CovaryError
from covary.diagnosis import diagnose
from covary.export import export_model
from covary.report import write_report
from covary.tables.columns import Columns

X = np.random.default_rng(0).uniform(0, 100, (40, 1))
Y = np.sin(X[:, 0] / 10)
TABLE = pd.DataFrame({"depth": X[:, 0]})


@pytest.fixture(scope="module")
def model() -> GPRegressor:
    return GPRegressor("Matern52()", fixed="*").fit(X, Y)


# what has a record --------------------------------------------------------------------------------------------------------
USES: dict[str, Callable[[Any], object]] = {
    "covary.fits.of": fits.of,
    "covary.save": lambda model: covary.save(model, "m.covary"),
    "export_model": lambda model: export_model(model, "p.py"),
    "diagnose": diagnose,
    "write_report": lambda model: write_report(model, "r.html"),
    "plot_fit": plots.plot_fit,
    "plot_relevance": plots.plot_relevance,
    "plot_history": plots.plot_history,
}


class Odd:
    """An object with an attribute of the same name."""

    fit_ = 3


@pytest.mark.parametrize("use", USES.values(), ids=list(USES))
def test_pipelines_and_other_objects_are_rejected(
    use: Callable[[Any], object], model: GPRegressor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of the last step of a pipeline predicts from transformed inputs."""
    monkeypatch.chdir(tmp_path)
    pipe = Pipeline([("scaled", StandardScaler().fit(X)), ("model", model)])
    for other, name in ((pipe, "Pipeline"), (Odd(), "Odd"), (GPRegressor(), "GPRegressor")):
        assert not fits.is_fitted(other)
        with pytest.raises(
            CovaryError, match=rf"the model is a {name}; give a|got {name}; give |the {name} is not fitted; fit it"
        ):
            use(other)
    assert not list(tmp_path.iterdir())


def test_a_report_and_a_diagnosis_of_an_estimator(model: GPRegressor, tmp_path: Path) -> None:
    assert str(diagnose(model)) == str(diagnose(model.fit_))
    assert write_report(model, tmp_path / "r.html").exists()


def test_records_are_compared_by_identity(model: GPRegressor) -> None:
    fit = model.fit_
    other = fits.Fit(fit.family, fit.state, fit.columns, scale=fits.Scale(np.zeros(2), np.ones(2)))
    assert len({fit, other, fit}) == 2
    assert fits.Scale(np.zeros(2)) != fits.Scale(np.zeros(2))
    assert fits.Labels(np.arange(2), np.ones(2)) != fits.Labels(np.arange(2), np.ones(2))


def test_a_registered_family_is_not_replaced() -> None:
    fits.register("gaussian_process", *vars(fits.FAMILIES["gaussian_process"]).values())  # the same
    with pytest.raises(CovaryError, match=r"fits\.register: name 'gaussian_process' is that of the family in covary\."):
        fits.register("gaussian_process", "my_package.family")
    assert fits.family("gaussian_process").title == "Gaussian process"


def test_a_file_of_a_built_in_family_is_read_without_searching_installed_packages(
    model: GPRegressor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def search(**_: str) -> None:
        raise AssertionError

    monkeypatch.setattr(importlib.metadata, "entry_points", search)
    for i, saved in enumerate((model, fits.Fit("gaussian_process", model.fit_.state, model.fit_.columns))):
        covary.save(saved, tmp_path / f"{i}.covary")
        covary.load(tmp_path / f"{i}.covary")


# quantiles and draws --------------------------------------------------------------------------------------------------
def test_quantiles_and_draws_of_a_family_are_those_of_its_estimators(model: GPRegressor) -> None:
    family, x = fits.family_of(model.fit_), X[:3] + 1.0
    quantiles = family.quantiles(model.fit_, x, np.array([0.1, 0.9]))
    np.testing.assert_array_equal(quantiles, model.predict_quantiles(x, [0.1, 0.9]))
    seed = int(np.random.default_rng(7).integers(2**31))
    np.testing.assert_array_equal(family.sample(model.fit_, x, 4, key=7), model.sample_y(x, 4, random_state=seed))
    classes = GPClassifier("Matern52()", fixed="*").fit(X, np.where(Y > 0, "yes", "no"))
    seed = int(np.random.RandomState(7).randint(2**31))
    np.testing.assert_array_equal(family.sample(classes.fit_, x, 4, key=seed), classes.sample_y(x, 4, random_state=7))


# another family -------------------------------------------------------------------------------------------------------
class Family(fits.AbstractFamily[fits.Stored]):
    """A family whose state is the content of its file; it predicts zero."""

    name = title = "stored"
    estimators: Mapping[str, str] = MappingProxyType({"Zero": __name__, "Bare": __name__})

    def predict(self, fit: fits.Fit[fits.Stored], x: np.ndarray, **_: object) -> fits.Answer:
        return fits.Answer({"mean": np.zeros(len(x))})

    def encode(self, fit: fits.Fit[fits.Stored], *, factor: bool | None = None) -> fits.Stored:
        return fit.state

    def decode(self, stored: fits.Stored, fit: fits.Fit[None]) -> fits.Stored:
        return stored


FAMILY = Family()


class Bare(BaseEstimator):
    """An estimator that stores a record, but cannot be restored from one."""

    def __init__(self, depth: float = 1.0) -> None:
        self.depth = depth

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> Bare:
        origin = fits.Origin(type(self).__name__, self.get_params(deep=False))
        self.fit_ = fits.Fit("stored", fits.Stored({}, {}), Columns.fit("Zero", X), origin=origin)
        return self


class Zero(fits.AbstractEstimator[fits.Stored], Bare):
    """An estimator of this family."""


@pytest.fixture(autouse=True)
def _family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fits.FAMILIES, "stored", fits.Registration(__name__))


def test_an_estimator_of_another_family_is_saved_and_loaded(tmp_path: Path) -> None:
    zero = Zero(depth=2.0).fit(TABLE, Y)
    covary.save(zero, tmp_path / "m.covary")
    again = covary.load(tmp_path / "m.covary")
    assert type(again) is Zero
    assert (again.depth, again.n_features_in_, again.feature_names_in_.tolist()) == (2.0, 1, ["depth"])
    assert again.fit_.origin.arguments == {"depth": 2.0}


def test_an_estimator_that_cannot_be_loaded_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare, zero = Bare().fit(TABLE, Y), Zero().fit(TABLE, Y)
    with pytest.raises(
        CovaryError, match=r"save: load could not return a Bare; derive Bare from covary\.fits\.AbstractEstimator"
    ):
        covary.save(bare, tmp_path / "m.covary")
    files.write_fit(bare.fit_, tmp_path / "bare.covary")
    assert files.read_fit(tmp_path / "bare.covary").origin.estimator == "Bare"
    with pytest.raises(files.BadFile, match=r"Bare is not a subclass of covary\.fits\.AbstractEstimator"):
        covary.load(tmp_path / "bare.covary")
    covary.save(zero, tmp_path / "zero.covary")
    monkeypatch.setattr(Zero, "__init__", lambda self: None)
    with pytest.raises(files.BadFile, match="there is no argument 'depth'"):
        covary.load(tmp_path / "zero.covary")
    zero.fit_ = fits.Fit("stored", fits.Stored({}, {}), zero.fit_.columns)
    with pytest.raises(CovaryError, match=r"set Origin\.estimator to its name"):
        covary.save(zero, tmp_path / "m.covary")
    monkeypatch.setattr(Family, "estimators", {})
    with pytest.raises(CovaryError, match="the family 'stored' has no estimator 'Zero'; add it to its estimators"):
        covary.save(Zero().fit(TABLE, Y), tmp_path / "m.covary")


# what a file can contain ----------------------------------------------------------------------------------------------
def deep(levels: int) -> list[Any]:
    return [deep(levels - 1)] if levels else []


UNREADABLE: dict[str, tuple[dict[str, Any], dict[str, np.ndarray], str]] = {
    "NaN": ({}, {"a": np.array([np.nan])}, "the array 'a' has entries that are not finite"),
    "infinity": ({}, {"a": np.array([np.inf], np.float32)}, "the array 'a' has entries that are not finite"),
    "text": ({}, {"a": np.array(["q"])}, "the array 'a' has the type <U1; convert it to float64"),
    "complex": ({}, {"a": np.zeros(2, complex)}, "the array 'a' has the type complex128"),
    "objects": ({}, {"a": np.array([None])}, "the array 'a' has the type object"),
    "axes": ({}, {"a": np.zeros((1, 1, 1, 1))}, "the array 'a' has 4 dimensions; reshape it to at most 3"),
    "name": ({}, {"layer.0": np.zeros(2)}, "an array is named 'layer.0'; use at most 60 ASCII letters"),
    "many": ({}, {f"a{i}": np.zeros(1) for i in range(2048)}, "arrays (at most 2047); combine some"),
    "NaN in the page": ({"q": float("nan")}, {}, "cannot be written as JSON"),
    "objects in the page": ({"q": np.int64(3)}, {}, "cannot be written as JSON"),
    "depth": ({"q": deep(60)}, {}, "nested more than 40 deep"),
    **{
        name: ({name: {}}, {}, f"the family 'stored' writes '{name}', which is a reserved name")
        for name in ("schema", "kind", "covary", "arrays", "family", "made", "functions", "classes", "targets")
    },
    "own arrays": ({}, {"class_count": np.ones(2)}, "writes 'class_count', which is a reserved name"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_could_not_be_read_is_not_written(name: str, tmp_path: Path) -> None:
    page, arrays, message = UNREADABLE[name]
    fit = fits.Fit("stored", fits.Stored(page, arrays), Columns.of_numbers(1))
    with pytest.raises(CovaryError, match=re.escape(message)) as caught:
        files.write_fit(fit, tmp_path / "m.covary")
    assert str(caught.value).startswith("save: ")
    assert not list(tmp_path.iterdir())


def test_every_kind_of_array_comes_back(tmp_path: Path) -> None:
    arrays = {name: np.ones((2, 3, 1), name) for name in ("float64", "float32", "int64", "int32", "bool")}
    arrays |= {"layer_0": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "empty": np.zeros((0, 3)), "one": np.array(1.0)}
    page = {"q": [1, "two", None, True, {"a": 0.5}], "depth": deep(30)}
    files.write_fit(fits.Fit("stored", fits.Stored(page, arrays), Columns.of_numbers(1)), tmp_path / "m.covary")
    again = files.read_fit(tmp_path / "m.covary").state
    for name, array in arrays.items():
        np.testing.assert_array_equal(again.arrays[name], array, strict=True)
    assert {name: again.page[name] for name in page} == page


@pytest.mark.parametrize("labels", [["clay", "sand"], [1, 2, 30], [0.5, 2.5], [False, True]])
def test_labels_as_python_objects_come_back(labels: list[Any], tmp_path: Path) -> None:
    classes = fits.Labels(np.array(labels, dtype=object), np.ones(len(labels)))
    files.write_fit(fits.Fit("stored", fits.Stored({}, {}), Columns.of_numbers(1), classes=classes), tmp_path / "m.covary")
    again = files.read_fit(tmp_path / "m.covary").classes
    assert again is not None
    assert again.values.tolist() == labels


def test_labels_of_several_types_are_rejected(tmp_path: Path) -> None:
    classes = fits.Labels(np.array([1, "two"], dtype=object), np.ones(2))
    fit = fits.Fit("stored", fits.Stored({}, {}), Columns.of_numbers(1), classes=classes)
    with pytest.raises(CovaryError, match="save: the labels are of different types; use text or numbers"):
        files.write_fit(fit, tmp_path / "m.covary")
