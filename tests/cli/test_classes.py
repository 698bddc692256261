"""Classes, counts and other targets in the command: interpretation, output and scores."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import covary
from covary import metrics

from .conftest import write
from .test_fit import error

Call = Callable[..., Any]


def things(rows: int = 30, seed: int = 0) -> pd.DataFrame:
    """Inputs x and z, and a target of every kind that follows a wave in x."""
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(0, 6, rows).round(4), rng.normal(size=rows).round(4)
    wave = 2 * np.sin(x)
    frame = pd.DataFrame({"x": x, "z": z})
    frame["ill"] = np.where(wave + rng.normal(size=rows) > 0, "Yes", "No")
    frame["flag"] = wave + rng.normal(size=rows) > 0
    frame["bit"] = (wave + rng.normal(size=rows) > 0).astype(int)
    frame["size"] = np.array(["low", "mid", "top"])[np.clip(np.round(wave / 2 + 1), 0, 2).astype(int)]
    frame["n"] = rng.poisson(np.exp(0.5 + 0.5 * wave))
    frame["hours"] = rng.uniform(0.5, 3, rows).round(2)
    frame["calls"] = rng.poisson(frame["hours"] * np.exp(0.5 + 0.5 * wave))
    frame["trials"] = rng.integers(1, 12, rows)
    frame["wins"] = rng.binomial(frame["trials"], 1 / (1 + np.exp(-wave)))
    frame["grade"] = np.clip(np.round(wave + 2), 0, 4).astype(int)
    frame["y"] = (wave + 0.1 * rng.standard_t(2, rows)).round(4)
    frame["cost"] = (np.exp(0.5 * wave) * rng.gamma(5, 0.2, rows)).round(4)
    return frame


def fit(call: Call, target: str, *options: Any, rows: int = 30) -> dict[str, Any]:
    """Fit one target of ``things`` and give the JSON back; the model is m.covary."""
    things(rows).to_csv("t.csv", index=False)
    result = call("fit", "t.csv", "-t", target, "--inputs", "x,z", "--out", "m.covary", "--json", *options)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return json.loads(result.stdout, parse_constant=pytest.fail)


def predict(call: Call, *options: Any, model: str = "m.covary", data: str = "new.csv") -> dict[str, Any]:
    result = call("predict", model, data, "--json", *options)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout, parse_constant=pytest.fail)


def new(rows: int = 20) -> pd.DataFrame:
    frame = things(rows, seed=1)
    frame.to_csv("new.csv", index=False)
    return frame


CLASSES = {"ill": ["No", "Yes"], "flag": [False, True], "bit": [0, 1], "size": ["low", "mid", "top"]}


@pytest.mark.parametrize("target", CLASSES)
def test_classes_are_recognised_predicted_and_scored(call: Call, target: str) -> None:
    found = fit(call, target)
    frame = things()
    assert (found["task"], found["likelihood"], found["inference"]) == ("classification", "classes", "laplace")
    counts = frame[target].value_counts()
    assert found["classes"] == [{"class": c, "count": int(counts[c])} for c in CLASSES[target]]
    assert found["noise_std"] is None
    assert list(found["relevance"]) == ["x", "z"]
    own = covary.GPClassifier(random_state=0).fit(frame[["x", "z"]], frame[target])
    model = covary.load("m.covary")
    assert found["log_evidence"] == model.log_marginal_likelihood_ == own.log_marginal_likelihood_
    assert model.classes_.tolist() == CLASSES[target]
    after = new()
    result = call("predict", "m.covary", "new.csv")
    table = pd.read_csv(io.StringIO(result.stdout))
    assert list(table.columns) == ["class", *(f"p_{c}" for c in CLASSES[target])]
    p = model.predict_proba(after[["x", "z"]])
    np.testing.assert_array_equal(table.iloc[:, 1:].to_numpy(), p)
    assert table["class"].tolist() == model.predict(after[["x", "z"]]).tolist()
    scores = predict(call)["scores"][target]
    y, named = after[target].tolist(), {"classes": CLASSES[target]}
    assert scores == {
        "rows": 20,
        "errors": metrics.errors(y, p, **named),
        "error_rate": metrics.error_rate(y, p, **named),
        "log_loss": metrics.log_loss(y, p, **named),
        "information": metrics.information(y, p, frame[target].tolist(), **named),
        "brier": metrics.brier(y, p, **named),
    }
    assert f"{target}: {scores['errors']} error" in result.stderr
    assert "bits, Brier" in result.stderr
    assert "(20 rows with a known class)" in result.stderr


def test_the_line_about_the_target(call: Call) -> None:
    things().to_csv("t.csv", index=False)
    few = things()["ill"].value_counts()
    for target, said in [
        ("ill", f"ill — 2 classes (No {few['No']}, Yes {few['Yes']}); classification"),
        ("bit", "; classification (override with --likelihood gaussian)"),
        ("n", "; negative-binomial regression (override with --likelihood gaussian or classes)"),
        ("y", "; Gaussian regression"),
    ]:
        text = call("fit", "t.csv", "-t", target, "--inputs", "x,z", "--max-time", 0, "--error-bars", "no").stdout
        assert [line for line in text.splitlines() if line.startswith(" target ") and said in line], text


def test_choices_for_classes(call: Call) -> None:
    found = fit(call, "ill", "--inference", "ep", "--link", "probit", "--kernel", "1.0 * Matern32()", "--seed", 3)
    assert (found["inference"], found["link"]) == ("ep", "probit")
    assert "Matern32" in found["kernel"]
    model = covary.load("m.covary")
    assert (model.link, model.inference, model.random_state) == ("probit", "ep", 3)
    assert fit(call, "bit", "--likelihood", "gaussian", "--max-time", 0)["task"] == "regression"
    assert fit(call, "grade", "--likelihood", "classes", "--restarts", 1)["classes"][0]["class"] == 0
    assert len(fit(call, "size")["kernel"]) == 3  # each class learns its own


def test_latent_of_two_classes(call: Call) -> None:
    fit(call, "ill")
    after = new()
    found = predict(call, "--latent")
    mean, std = covary.load("m.covary").predict_latent(after[["x", "z"]], return_std=True)
    assert found["columns"] == ["mean", "std", "lower", "upper"]
    np.testing.assert_array_equal(found["predictions"]["mean"], mean)
    np.testing.assert_array_equal(found["predictions"]["std"], std)
    assert found["scores"] == predict(call)["scores"]
    fit(call, "size")
    assert "--latent requires two classes, and the model has 3" in error(call("predict", "m.covary", "new.csv", "--latent"), 2)


OTHERS = {
    "n": ("negative_binomial", []),
    "calls": ("negative_binomial", ["--size-column", "hours"]),
    "wins": ("binomial", ["--size-column", "trials", "--likelihood", "binomial"]),
    "grade": ("ordinal", ["--likelihood", "ordinal"]),
    "y": ("student_t", ["--likelihood", "student_t"]),
    "cost": ("gamma", ["--likelihood", "gamma"]),
}


@pytest.mark.parametrize("target", [pytest.param(t, marks=pytest.mark.slow) if t in ("calls", "cost") else t for t in OTHERS])
def test_other_likelihoods(call: Call, target: str) -> None:
    name, options = OTHERS[target]
    found = fit(call, target, *options, "--max-time", 3, "--error-bars", "no")
    assert (found["task"], found["likelihood"], found["noise_std"], found["classes"]) == ("regression", name, None, None)
    model, after = covary.load("m.covary"), new()
    assert model.likelihood == name
    X, sized = after[["x", "z"]], {}
    if "--size-column" in options:
        sized = {"size": after[options[1]].to_numpy(float)}
    result = predict(call, "--level", 0.8)  # the column of sizes is known by name
    mean, std = model.predict(X, return_std=True, **sized)
    lower, upper = model.predict_interval(X, 0.8, **sized)
    for part, own in (("mean", mean), ("lower", lower), ("upper", upper)):
        np.testing.assert_array_equal(result["predictions"][part], own)
    said = [v if v is not None else np.inf for v in result["predictions"]["std"]]
    np.testing.assert_array_equal(said, std)
    truth = after[target].to_numpy(float)
    log_prob = model.posterior_.predict(X.to_numpy(), **sized).y.log_prob(truth)
    scores = result["scores"][target]
    assert scores["rows"] == 20
    assert scores["r2"] == metrics.r2(truth, mean)
    assert scores["rmse"] == metrics.rmse(truth, mean)
    np.testing.assert_allclose(scores["nlpd"], -log_prob.mean(), rtol=1e-10)
    assert scores["coverage"] == np.mean((lower <= truth) & (truth <= upper))
    latent = predict(call, "--latent", "--level", 0.8)
    f, spread = model.predict(X, return_std=True, latent=True)
    np.testing.assert_array_equal(latent["predictions"]["mean"], f)
    np.testing.assert_array_equal(latent["predictions"]["upper"], model.predict_interval(X, 0.8, latent=True)[1])
    np.testing.assert_array_equal(latent["predictions"]["std"], spread)
    assert latent["scores"] == {target: scores}


@pytest.mark.slow
@pytest.mark.parametrize(("target", "name"), [("y", "laplace"), ("y", "heteroscedastic"), ("n", "poisson"), ("n", "gaussian")])
def test_the_other_names(call: Call, target: str, name: str) -> None:
    found = fit(call, target, "--likelihood", name, "--max-time", 3, "--error-bars", "no")
    assert found["likelihood"] == name
    assert (found["noise_std"] is None) == (name != "gaussian")
    new()
    for option in ([], ["--latent"]):
        found = predict(call, *option)
        for part in ("mean", "std", "lower", "upper"):
            assert np.isfinite(found["predictions"][part]).all()
            assert len(found["predictions"][part]) == 20
    assert np.isfinite(found["scores"][target]["nlpd"])
    assert "how it was made" in call("info", "m.covary", "--error-bars", "no").stdout


def test_names_are_the_estimators_own() -> None:
    from covary.families.gaussian_process import options
    from covary.families.gaussian_process.settings import LIKELIHOODS
    from covary.tables.targets import KINDS

    assert set(KINDS) == {"classes", *LIKELIHOODS}
    assert set(options.LIKELIHOODS) == {"auto", *KINDS}


@pytest.mark.parametrize("labels", [[1.0, 2.0], ["a  b", "a b"]], ids=["floats", "spaces"])
def test_every_way_of_predicting_gives_the_same_columns(call: Call, labels: list[Any]) -> None:
    """Labels are not changed in the names of columns: two labels that differ in spaces only have two columns."""
    frame = things()
    x, y = frame[["x", "z"]], np.array(labels)[frame["bit"]]
    model = covary.GPClassifier(n_restarts=0).fit(x, y)
    model.save("m.covary")
    x.to_csv("new.csv", index=False)
    x.to_parquet("new.parquet")
    model.predict_table("new.parquet", "out.parquet")
    mine, table = model.predict_frame(x), pd.read_csv(io.StringIO(call("predict", "m.covary", "new.csv").stdout))
    names = ["class", *(f"p_{label}" for label in sorted(labels))]
    assert list(mine) == list(table) == list(pd.read_parquet("out.parquet")) == names
    assert mine["class"].tolist() == model.predict(x).tolist()
    np.testing.assert_array_equal(mine.iloc[:, 1:], model.predict_proba(x))
    np.testing.assert_array_equal(table.iloc[:, 1:], model.predict_proba(x))


def test_an_infinite_std_is_left_empty(call: Call, tmp_path: Path) -> None:
    frame = things()
    noise = covary.likelihoods.StudentT(0.1, degrees=covary.parameters.fixed(1.5))
    model = covary.GPRegressor(likelihood=noise, max_time=1).fit(frame[["x", "z"]], frame["y"])
    model.save("m.covary")
    assert np.isinf(model.predict_frame(new()[["x", "z"]])["std"]).all()
    result = call("predict", "m.covary", "new.csv")
    table = pd.read_csv(io.StringIO(result.stdout))
    assert table["std"].isna().all()
    assert np.isfinite(table[["mean", "lower", "upper"]]).all(axis=None)
    assert "std is left empty where it is infinite" in result.stderr
    found = predict(call)
    assert found["predictions"]["std"] == [None] * 20
    assert len(found["notes"]) == 1


def test_sizes_are_asked_for_by_name(call: Call) -> None:
    fit(call, "wins", *OTHERS["wins"][1], "--max-time", 1, "--error-bars", "no")
    model, after = covary.load("m.covary"), new()
    after.rename(columns={"trials": "games"}).to_csv("new.csv", index=False)
    bare = predict(call)
    assert bare["notes"] == [
        "'new.csv' has no column 'trials': predictions are for a size of 1, and not scored",
        "ignored columns, which are not inputs of the model: 'games'",
    ]
    assert bare["scores"] == {}
    np.testing.assert_array_equal(bare["predictions"]["mean"], model.predict(after[["x", "z"]]))
    named = predict(call, "--size-column", "games")
    own = model.predict(after[["x", "z"]], size=after["trials"])
    np.testing.assert_array_equal(named["predictions"]["mean"], own)
    assert named["size_column"] == "games"
    assert named["scores"]["wins"]["rows"] == 20
    assert "no column 'gams'; did you mean 'games'" in error(call("predict", "m.covary", "new.csv", "--size-column", "gams"), 2)
    assert "give whole numbers of trials" in error(call("predict", "m.covary", "new.csv", "--size-column", "hours"), 3)
    assert "give positive numbers" in error(call("predict", "m.covary", "new.csv", "--size-column", "z"), 3)
    fit(call, "ill")
    assert "--size-column requires counts" in error(call("predict", "m.covary", "new.csv", "--size-column", "hours"), 2)


def test_what_cannot_be_is_not_scored(call: Call) -> None:
    fit(call, "n", "--max-time", 1, "--error-bars", "no")
    after = new().astype({"n": float})
    after.loc[[3, 5], "n"] = [-1.0, 2.5]
    after.loc[7, "n"] = np.nan
    after.to_csv("new.csv", index=False)
    found = predict(call)
    assert found["scores"]["n"]["rows"] == 17
    assert found["notes"] == [
        "n: 2 rows with a value that is impossible under the model ('-1' on line 5) left out of the scores"
    ]


def test_classes_that_were_never_seen(call: Call) -> None:
    fit(call, "ill")
    after = new()
    p = covary.load("m.covary").predict_proba(after[["x", "z"]])
    after.loc[[2, 4, 6], "ill"] = ["maybe", " No ", None]
    after.to_csv("new.csv", index=False)
    result = call("predict", "m.covary", "new.csv")
    assert "ill: 1 row with a class unknown to the model ('maybe' on line 4) left out of the scores" in result.stderr
    assert "(18 rows with a known class)" in result.stderr
    seen = [i for i in range(20) if i not in (2, 6)]
    y = ["No" if i == 4 else after["ill"][i] for i in seen]
    assert predict(call)["scores"]["ill"]["log_loss"] == metrics.log_loss(y, p[seen], classes=["No", "Yes"])
    after.assign(ill="maybe").to_csv("new.csv", index=False)
    assert predict(call)["scores"] == {}


def test_labels_may_be_written_in_another_way(call: Call) -> None:
    from covary.tables.labels import codes_of

    def codes(cells: list[Any], classes: list[Any]) -> list[int]:
        return codes_of(pd.Series(cells), np.array(classes)).tolist()

    assert codes([1, 2, 3], ["1", "2", "yes"]) == [0, 1, -1]
    assert codes([1.0, np.nan, 2.0], [1, 2]) == [0, -2, 1]
    assert codes(["1", "2.0", "x"], [1, 2]) == [0, 1, -1]
    assert codes(["TRUE", " false", "0", "no"], [False, True]) == [1, 0, 0, -1]
    assert codes([1, 0], [False, True]) == [1, 0]
    assert codes([True, False], [0, 1]) == [1, 0]
    assert codes([True], ["False", "TRUE", "maybe"]) == [1]
    assert codes(["01", "1"], ["01", "1"]) == [0, 1]
    assert codes(["a"], [b"a", b"b"]) == [0]
    fit(call, "bit")
    after = new()
    as_numbers = predict(call)["scores"]["bit"]
    after.assign(bit=after["bit"].map({0: "false", 1: "true"})).to_csv("new.csv", index=False)
    assert predict(call)["scores"]["bit"] == as_numbers


def test_a_model_of_one_against_the_rest(call: Call) -> None:
    frame, after = things(), new()
    model = covary.GPClassifier(multi_class="one_vs_rest", random_state=0).fit(frame[["x", "z"]], frame["size"])
    model.save("m.covary")
    result = call("info", "m.covary")
    assert result.exit_code == 0, result.output
    for words in ("one against the rest", "3 classes (low", "low: kernel.0.lengthscale[", "×/÷", "relevance"):
        assert words in result.stdout
    assert "×/÷" not in call("info", "m.covary", "--error-bars", "no").stdout
    found = json.loads(call("info", "m.covary", "--json").stdout, parse_constant=pytest.fail)
    assert (found["rows"], len(found["kernel"]), found["task"]) == (30, 3, "classification")
    assert found["relevance"]["x"] > found["relevance"]["z"]
    assert found["parameters"][0]["name"] == "low: kernel.0.variance"
    assert found["targets"] == ["size"]
    table = pd.DataFrame(predict(call)["predictions"])
    np.testing.assert_array_equal(table.iloc[:, 1:].to_numpy(), model.predict_proba(after[["x", "z"]]))


def test_info_of_classes_and_counts(call: Call) -> None:
    fit(call, "ill", "--weight-column", "trials")
    text = call("info", "m.covary").stdout
    assert "ill — 2 classes (" in text
    assert "weight column" in text
    found = json.loads(call("info", "m.covary", "--json").stdout, parse_constant=pytest.fail)
    assert sum(c["count"] for c in found["classes"]) == things()["trials"].sum()
    assert (found["made"]["likelihood"], found["made"]["inference"]) == ("classes", "auto")
    fit(call, "calls", "--size-column", "hours", "--max-time", 1, "--error-bars", "no")
    text = call("info", "m.covary", "--error-bars", "no").stdout
    assert "calls — negative-binomial regression" in text
    assert "size column" in text
    assert "hours" in text


def test_kept_columns_and_titles(call: Call) -> None:
    fit(call, "ill")
    new().rename(columns={"hours": "p_Yes"}).to_csv("new.csv", index=False)
    assert "'p_Yes' has the name of an output column" in error(call("predict", "m.covary", "new.csv", "--keep", "p_Yes"), 2)
    assert predict(call, "--keep", "ill,x")["columns"] == ["ill", "x", "class", "p_No", "p_Yes"]
    call("predict", "m.covary", "new.csv", "--out", "p.parquet")
    assert pd.read_parquet("p.parquet")["class"].isin(["No", "Yes"]).all()


def cells(labels: list[Any], target: str = "y") -> list[list[Any]]:
    return [["x", target], *([round(0.3 * i % 4, 3), label] for i, label in enumerate(labels))]


@pytest.mark.parametrize(
    ("labels", "options", "code", "said"),
    [
        (["a"] * 6, [], 3, "column 'y' of 't.csv' has only one class ('a'); give rows of two classes or more."),
        ([1] * 6, ["--likelihood", "classes"], 3, "has only one class ('1')"),
        ([0.5, 1.5, 0.5, 1.5], ["--likelihood", "classes"], 3, "is 0.5 on line 2, a measurement rather than a class"),
        ([0.5, 1.5, "high", 2.5], [], 3, "contains text among numbers ('high' on line 4); correct it, or give --likelihood"),
        ([f"id{i}" for i in range(30)], [], 3, "contains 30 different texts in 30 rows, too many to be classes"),
        ([3, 0, -2, 1], ["--likelihood", "poisson"], 3, "column 'y' of 't.csv' is -2 on line 4; Poisson counts are 0, 1, 2"),
        ([3, 0.5, 2, 1], ["--likelihood", "negative_binomial"], 3, "column 'y' of 't.csv' is 0.5 on line 3"),
        ([3, 0, 2, 1], ["--likelihood", "gamma"], 3, "column 'y' of 't.csv' is 0 on line 3"),
        (
            [3, -1, 2, 1],
            ["--likelihood", "ordinal"],
            3,
            "column 'y' of 't.csv' needs levels 0, 1, 2, ... under an ordinal likelihood",
        ),
        ([1, 0, 3, 1], ["--likelihood", "binomial"], 3, "is 3 on line 4, of one trial; name the column of trials"),
        ([1, 9, 3, 1], ["--likelihood", "binomial", "--size-column", "x"], 3, "given by --size-column, is 0 on line 2"),
        (["a", "b"] * 3, ["--likelihood", "poisson"], 3, "column 'y' of 't.csv' contains text ('a' on line 2"),
        (["a", "b"] * 3, ["--inference", "exact"], 2, "--inference exact requires Gaussian noise"),
        (["a", "b", "c"] * 3, ["--inference", "ep"], 2, "--inference ep requires two classes, but 'y' has more"),
        (["a", "b", "c"] * 3, ["--link", "probit"], 2, "--link requires two classes, but 'y' has 3; leave it out."),
        ([0.1, 0.2, 0.3], ["--link", "probit"], 2, "--link requires two classes, but 'y' contains numbers"),
        (
            [0.1, 0.2, 0.3],
            ["--link", "probit", "--likelihood", "gamma"],
            2,
            "--link requires two classes, not --likelihood gamma",
        ),
        (
            ["a", "b"] * 3,
            ["--noise-column", "x"],
            2,
            "--noise-column cannot be combined with classes, and 'y' contains classes",
        ),
        ([1, 0, 3, 1], ["--noise-column", "x", "--likelihood", "poisson"], 2, "--noise-column is the size of Gaussian noise"),
        (["a", "b"] * 3, ["--size-column", "x"], 2, "--size-column cannot be combined with classes"),
        ([0.1, 0.2, 0.3], ["--size-column", "x"], 2, "--size-column requires counts or binomial successes, but 'y' contains"),
        ([0.1, 0.2], ["--size-column", "x", "--likelihood", "gamma"], 2, "not --likelihood gamma; leave one of them out"),
        ([0, 1, 4, 2], ["--inference", "exact"], 2, "leave it out, or add --likelihood gaussian."),
        ([0.1, 0.2], ["--likelihood", "laplace", "--inference", "laplace"], 2, "choose ep, or leave it out."),
        ([0.1, 0.2], ["--likelihood", "heteroscedastic", "--inference", "ep"], 2, "requires one latent function"),
    ],
)
def test_bad_input(call: Call, tmp_path: Path, labels: list[Any], options: list[str], code: int, said: str) -> None:
    table = cells(labels)
    if "x" in options:  # a role of its own for x: another input beside it
        table = [["w", *table[0]], *([i, *row] for i, row in enumerate(table[1:]))]
    write(tmp_path / "t.csv", table)
    assert said in error(call("fit", "t.csv", "-t", "y", *options), code)
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


def test_trials_below_successes(call: Call, tmp_path: Path) -> None:
    write(tmp_path / "t.csv", [["x", "k", "n"], [1, 2, 5], ["", 1, 5], [2, 9, 5], [3, 1, 2]])
    options = ["--size-column", "n", "--likelihood", "binomial", "--drop-missing"]
    said = error(call("fit", "t.csv", "-t", "k", *options), 3)
    assert "the number of successes is 9 on line 4; give no more successes than trials." in said


def test_missing_labels_are_dropped_when_asked(call: Call, tmp_path: Path) -> None:
    write(tmp_path / "t.csv", cells(["a", "b", "", "b", "NA", "a", "a", "b"]))
    found = json.loads(call("fit", "t.csv", "-t", "y", "--json").stdout)  # not learned from, and not dropped either
    assert (found["rows"], found["rows_dropped"], found["rows_without_target"]) == (6, 0, 2)
    found = json.loads(call("fit", "t.csv", "-t", "y", "--drop-missing", "--json").stdout)
    assert found["classes"] == [{"class": "a", "count": 3}, {"class": "b", "count": 3}]
    assert found["rows_dropped"] == 2
    write(tmp_path / "t.csv", cells(["true", "", "false", "True", "FALSE"]))
    found = json.loads(call("fit", "t.csv", "-t", "y", "--drop-missing", "--json").stdout)
    assert [c["class"] for c in found["classes"]] == [False, True]
    write(tmp_path / "t.csv", cells([0, 1, "", 1, 0]))
    found = json.loads(call("fit", "t.csv", "-t", "y", "--drop-missing", "--json").stdout)
    assert [c["class"] for c in found["classes"]] == [0, 1]


def test_mixed_labels_are_text(call: Call, tmp_path: Path) -> None:
    write(tmp_path / "t.csv", cells([1, "yes", 2] * 4))
    found = json.loads(call("fit", "t.csv", "-t", "y", "--json").stdout)
    assert [c["class"] for c in found["classes"]] == ["1", "2", "yes"]
    write(tmp_path / "new.csv", cells([1, 2, 1, 2]))
    assert predict(call, model="t.covary")["scores"]["y"]["rows"] == 4


def test_a_class_of_one_row(call: Call, tmp_path: Path) -> None:
    write(tmp_path / "t.csv", cells(["a", "b"] * 5 + ["rare"]))
    text = call("fit", "t.csv", "-t", "y").stdout
    assert "only one row of class rare" in text
    assert "rare 1" in text


def test_several_targets_are_measurements(call: Call, tmp_path: Path) -> None:
    things().to_csv("t.csv", index=False)
    found = json.loads(call("fit", "t.csv", "-t", "bit,n", "--inputs", "x,z", "--json", "--max-time", 1).stdout)
    assert (found["task"], found["likelihood"]) == ("regression", "gaussian")
    for options, code, said in [
        (["-t", "y,ill"], 3, "column 'ill' of 't.csv' contains text, i.e. classes; fit it by itself."),
        (["-t", "y,n", "--likelihood", "poisson"], 2, "--likelihood poisson requires a single target"),
        (["-t", "y,n", "--size-column", "hours"], 2, "--size-column requires a single target"),
        (["-t", "y,n", "--inference", "ep"], 2, "--inference ep requires a single target"),
    ]:
        assert said in error(call("fit", "t.csv", "--inputs", "x,z", *options), code)


@pytest.mark.parametrize(
    ("values", "counts", "classes"),
    [
        ([0, 1, 2, 5], True, False),
        ([1, 4, 2, 9], True, False),
        ([0, 1, 0, 1], False, True),
        ([-1, 1, 1], False, True),
        ([0, 1], False, False),
        ([0.5, 1.5, 0.5], False, False),
        ([2, 3, 4, 5], False, False),
        ([0, 1, 400], False, False),
        ([0, 1, 2, 2.5], False, False),
        ([-1, 0, 1, 2], False, False),
        ([3, 3, 3], False, False),
    ],
)
def test_the_rules(values: list[float], counts: bool, classes: bool) -> None:
    from covary.tables.targets import looks_like_counts, looks_like_two_classes

    y = np.array(values, float)
    assert (looks_like_counts(y), looks_like_two_classes(y)) == (counts, classes)


def test_known_noise_means_measurements(call: Call) -> None:
    assert fit(call, "bit", "--noise-column", "hours", "--max-time", 0)["likelihood"] == "gaussian"
    assert fit(call, "flag", "--noise-column", "hours", "--max-time", 0)["likelihood"] == "gaussian"


def test_parquet_labels(call: Call, tmp_path: Path) -> None:
    frame = things()
    frame["kind"] = pd.Categorical(frame["ill"])
    frame["when"] = pd.Timestamp("2020-01-01")
    frame["deep"] = [[1.0]] * len(frame)
    frame.to_parquet("t.parquet")
    found = json.loads(call("fit", "t.parquet", "-t", "kind", "--inputs", "x,z", "--json").stdout)
    assert [c["class"] for c in found["classes"]] == ["No", "Yes"]
    assert "dates or times" in error(call("fit", "t.parquet", "-t", "when", "--inputs", "x,z"), 3)
    assert "in row 1; give text" in error(call("fit", "t.parquet", "-t", "deep", "--inputs", "x,z"), 3)


def test_out_of_time_still_gives_a_classifier(call: Call) -> None:
    assert fit(call, "ill", "--max-time", 0)["status"] == "out of time"
    covary.load("m.covary")


def test_help_speaks_of_classes_and_counts(call: Call) -> None:
    for arguments in (["--help"], ["fit", "--help"]):
        text = call(*arguments).stdout
        assert "class" in text
        assert "count" in text
