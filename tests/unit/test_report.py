"""The report: self-contained, correct, and accessible."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import covary
from covary import GPClassifier, GPRegressor
from covary._checks import CovaryError
from covary.cli.errors import BadUsage, Run
from covary.cli.output import save_model
from covary.cli.report import run_report
from covary.committee import Committee
from covary.families.gaussian_process.words import kernel_words
from covary.report.words import listed, number
from covary.tables.table import BadTable

mpl.use("Agg")

HELD = ("kernel.*", "mean.value", "likelihood.variance")
VOID = {"meta", "link", "br", "wbr", "img", "hr", "input"}
FREE = re.compile(r"^(data:,|#)")


class Page(HTMLParser):
    """What a page holds: elements with their attributes, text by element, and whether every element is closed."""

    def __init__(self, path: Path) -> None:
        HTMLParser.__init__(self, convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.source = path.read_text("utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, {k: v or "" for k, v in attrs}))
        if tag not in VOID:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, {k: v or "" for k, v in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.texts[tag][-1] += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def sound(path: Path) -> Page:
    """What every report obeys."""
    page = Page(path)
    assert path.stat().st_size < 3 * 2**20
    assert not page.open
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    for tag, attributes in page.elements:
        assert tag not in ("script", "iframe", "object")
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href", "xlink:href"):
            if name in attributes and not attributes[name].startswith("data:image/png;base64,"):
                assert FREE.match(attributes[name]), attributes[name]
                assert attributes[name] in ("data:,", "#") or attributes[name][1:] in ids
    assert "@import" not in page.source
    assert not re.search(r"url\((?!#)", page.source)
    assert not re.search(r"https?://(?!www\.w3\.org)", page.source)
    assert len(page.all("figure")) == len(page.all("svg"))
    for drawing in page.all("svg"):
        assert drawing["role"] == "img"
        assert len(drawing["aria-label"]) > 20
    assert all(a.get("scope") in ("col", "row") for a in page.all("th"))
    assert len(page.all("h1")) == len(page.all("main")) == len(page.all("nav")) == 1
    assert [tag for tag, a in page.elements if a.get("class") == "skip"] == ["a"]
    words = [text for text in page.texts["p"] if text.strip()]
    assert sum(text in page.texts["div"][0] for text in words[1:4]) == 3  # three sentences lead
    assert "nan" not in re.sub(r"<svg.*?</svg>", "", page.source, flags=re.DOTALL).lower().replace("finance", "")
    return page


def table(rows: int = 60, columns: int = 2, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    x = pd.DataFrame(rng.uniform(-2, 2, (rows, columns)), columns=["dose", "age", "mass", "time"][:columns])
    return x, np.sin(2 * x["dose"].to_numpy()) + 0.2 * rng.normal(size=rows), rng


def test_a_regression_report(tmp_path: Path) -> None:
    """Sentences, tiles, sections, tables; the numbers are those of the leave-one-out predictions."""
    x, y, _ = table(80)
    y[5] += 4.0
    model = GPRegressor("1.0 * Matern52(lengthscale=[1.0, 1.0]) + 1.0 * Linear()", random_state=3).fit(x, y)
    path = model.report(tmp_path / "r.html", title="Dose & response")
    assert path == tmp_path / "r.html"
    page = sound(path)
    assert page.texts["h1"] == ["Dose & response"]
    text = page.source.replace("\u00a0", " ")
    loo = model.posterior_.leave_one_out()
    error = float(np.sqrt(np.mean((y - loo.mean) ** 2)))
    assert f"typical error of {number(error, 3)}" in text
    assert f"explains {100 * (1 - error**2 / y.var()):.0f} %" in text
    for check in model.diagnose().warnings:
        assert check.advice.replace("'", "&#39;") in text
    sections = [a["id"] for a in page.all("section")]
    assert sections == [
        "trust",
        "fit",
        "predictions",
        "calibration",
        "residuals",
        "inputs",
        "kernel",
        "parameters",
        "data",
        "again",
    ]
    assert [a["href"][1:] for a in page.all("a")][1:] == sections
    assert "a linear trend in dose and age" in text
    assert "<dt>Seed</dt><dd>3</dd>" in text
    assert "kernel.<wbr>0.<wbr>lengthscale<wbr>[dose]" in text


def test_the_same_model_gives_the_same_page(tmp_path: Path) -> None:
    x, y, _ = table(40, 1)
    model = GPRegressor("1.0 * Matern52()").fit(x, y)
    assert model.report(tmp_path / "a.html").read_bytes() == model.report(tmp_path / "b.html").read_bytes()


@pytest.mark.parametrize("kind", ["two", "softmax", "one_vs_rest", "one input"])
def test_classification_reports(tmp_path: Path, kind: str) -> None:
    x, f, rng = table(80, 1 if kind == "one input" else 2)
    f = f + 0.3 * rng.normal(size=80)
    labels = np.where(f > 0, "yes", "no") if kind in ("two", "one input") else np.digitize(f, [-0.5, 0.5])
    many = kind if kind in ("softmax", "one_vs_rest") else "softmax"
    model = GPClassifier("4.0 * Matern52()", multi_class=many).fit(x, labels)
    page = sound(model.report(tmp_path / "r.html"))
    seen = model.diagnose().judged
    right = 100 * float((seen.p.argmax(1) == seen.y[:, 0]).mean())  # type: ignore[union-attr]
    assert f"classifies {right:.1f} % of the rows correctly" in page.source.replace("\u00a0", " ")
    assert "predictions" not in [a["id"] for a in page.all("section")]
    assert any("probability" in a["aria-label"] for a in page.all("svg"))


@pytest.mark.parametrize("kind", ["outputs", "poisson", "heteroscedastic", "nothing learned"])
def test_other_regressions(tmp_path: Path, kind: str) -> None:
    x, y, rng = table(60)
    if kind == "outputs":
        model = GPRegressor("1.0 * Matern52()").fit(x, np.stack([y, 50 * y + 10 * rng.normal(size=60)], axis=1))
    elif kind == "poisson":
        size = rng.uniform(1, 5, 60)
        model = GPRegressor("1.0 * Matern52()", likelihood="poisson").fit(x, rng.poisson(size * np.exp(y)), size=size)
    elif kind == "nothing learned":
        model = GPRegressor("1.0 * Matern52()", fixed=HELD, noise=0.04).fit(x, y)
    else:
        model = GPRegressor("1.0 * Matern52()", likelihood=kind, max_time=20).fit(x, y)
    page = sound(model.report(tmp_path / "r.html"))
    assert ("Regression, 2 outputs" in page.source) == (kind == "outputs")


def test_counts_have_intervals_of_counts(tmp_path: Path) -> None:
    """Quantiles of their own distribution, never below zero; years are not cut into thousands."""
    rng = np.random.default_rng(0)
    x = pd.DataFrame({"year": np.arange(1900.0, 1960.0)})
    model: Any = GPRegressor("1.0 * Matern52(lengthscale=20.0)", likelihood="poisson", fixed="*").fit(x, rng.poisson(1.5, 60))
    page = sound(model.report(tmp_path / "r.html"))
    seen: Any = model.diagnose().judged
    assert seen.ends is None
    low, high = seen.with_ends().ends
    assert (low >= 0).all()
    assert (np.round(high) == high).all()
    rate = np.exp(model.posterior_.predict(x.to_numpy()).f.mean)
    assert (np.abs(high[:, 0] - stats.poisson.ppf(0.975, rate)) <= 2).all()
    worst = page.source.split('<table class="worst">')[1].split("</table>")[0]
    assert len(re.findall(r"<td>[\d.]+ \(0 to \d+\)</td>", worst)) >= 5
    assert re.search(r"<td>19\d\d</td>", worst)
    assert "1,9" not in page.source.split('id="data"')[1]


def test_functions_of_several_classes_are_named(tmp_path: Path) -> None:
    x, y, _ = table()
    model: Any = GPClassifier("2.0 * Matern52() + Constant()", class_kernels="separate", fixed="*").fit(
        x, np.array(["low", "mid", "high"])[np.digitize(y, [-0.4, 0.4])]
    )
    page = sound(model.report(tmp_path / "r.html"))
    rows = re.findall(r"<code>kernel\.<wbr>(\d)\..*?</code>(?: <span class=\"of\">(\w+)</span>)?", page.source)
    assert isinstance(model.model_.kernel, tuple)
    assert dict(rows) == {"0": "high", "1": "low", "2": "mid"}
    assert ", one curve for each class." in page.source
    assert "with 95 % of the averaged function" not in page.source.replace("\u00a0", " ")
    assert "−0 %" not in page.source.replace("\u00a0", " ")


def test_a_rough_surface_stays_small(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (300, 2))
    model: Any = GPRegressor("1.0 * Matern12(lengthscale=0.05)", noise=1e-4, fixed="*").fit(x, rng.normal(size=300))
    page = sound(model.report(tmp_path / "r.html"))
    assert len(page.source) < 1_500_000
    assert [a.get("class") for a in page.all("figure")].count("map") == 2
    place = page.source.split('<table class="worst">')[1].split("</table>")[0]
    assert "x0, x1" in place


def test_tiny_and_constant_tables(tmp_path: Path) -> None:
    x = np.linspace(0, 1, 4)[:, None]
    page = sound(GPRegressor().fit(x, x[:, 0] ** 2).report(tmp_path / "few.html"))
    assert "can be relied on" not in page.source
    sound(GPRegressor().fit(np.linspace(0, 1, 30)[:, None], np.ones(30)).report(tmp_path / "flat.html"))


def test_names_are_escaped(tmp_path: Path) -> None:
    x, y, _ = table(40)
    x.columns = ["<script>alert('x')</script>", "a & b"]
    page = sound(GPRegressor("1.0 * Matern52()").fit(x, y).report(tmp_path / "r.html", title="<b>bold</b>"))
    assert page.texts["h1"] == ["<b>bold</b>"]


def test_dollar_signs_in_names_are_no_formulas(tmp_path: Path) -> None:
    x, y, _ = table(40)
    x.columns = ["price $/A$", "a$_$b"]
    page = sound(GPRegressor("1.0 * Matern52()", n_restarts=0).fit(x, y).report(tmp_path / "r.html"))
    assert ">price $/A$</text>" in page.source
    assert ">a$_$b</text>" in page.source
    classifier = GPClassifier("1.0 * Matern52()").fit(x, np.where(y > np.median(y), "more than $_$", "less"))
    figure = classifier.plot().figure
    figure.savefig(tmp_path / "classes.png")
    plt.close(figure)


def test_a_model_from_a_file_and_new_rows(tmp_path: Path) -> None:
    x, y, _ = table(60)
    GPRegressor("1.0 * Matern52()").fit(x, y).save(tmp_path / "m.covary")
    model = covary.load(tmp_path / "m.covary")
    other, truth, _ = table(50, seed=1)
    page = sound(model.report(tmp_path / "new.html", other, truth))
    assert "rows it was not fitted to" in page.source
    page = sound(model.report(tmp_path / "far.html", other + 10))
    assert "lie beyond the data" in page.source
    with pytest.raises(CovaryError, match="without X"):
        model.report(tmp_path / "r.html", y=truth)


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    x, y, _ = table(30)
    model = GPRegressor("1.0 * Matern52()").fit(x, y)
    with pytest.raises(CovaryError, match=r"ends in \.html"):
        model.report(tmp_path / "r.pdf")
    with pytest.raises(CovaryError, match=r"the folder .* does not exist"):
        model.report(tmp_path / "no" / "r.html")


def test_dates_and_categories_are_shown_as_such(tmp_path: Path) -> None:
    """No code of a category and no number of years on an axis or in a table; every label of the target is its name."""
    rng = np.random.default_rng(0)
    days = pd.date_range("1990-01-01", periods=80, freq="30D")
    sites = np.array(["Argovian rock", "Kimmeridgian", "Portlandian"])[rng.integers(0, 3, 80)]
    y = np.sin(np.arange(80) / 9) + 2.0 * (sites == "Portlandian") + 0.2 * rng.normal(size=80)
    model: Any = GPRegressor("1.0 * Matern52().on(0) + 1.0 * Hamming().on(1)").fit(
        pd.DataFrame({"day": days, "site": sites}), y
    )
    model.target_names_ = ["yield"]
    text = sound(model.report(tmp_path / "r.html")).source
    assert "1990-01-01" in text  # the least of the column
    assert str(days[-1])[:10] in text
    assert "y, averaged" not in text
    assert "yield, averaged" in text
    drawings = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    residuals = [d for d in drawings if "residuals of yield against site" in d]
    assert len(residuals) == 1
    assert all(name in residuals[0] for name in set(sites))
    assert ">0.5<" not in residuals[0]
    along = [d for d in drawings if "Partial dependence of the prediction on day" in d]
    assert len(along) == 1
    assert ">1992<" in along[0]
    assert re.search(r"<td>input, categories</td><td class=\"n\"></td><td class=\"n\">most frequent: [AKP]", text)


def test_learning_that_ran_out_of_time_is_said(tmp_path: Path) -> None:
    from dataclasses import replace

    x, y, _ = table(40)
    model: Any = GPRegressor("1.0 * Matern52()").fit(x, y)
    assert "ran out of time" not in model.report(tmp_path / "r.html").read_text("utf-8")
    model.learned_ = replace(model.learned_, status="out of time")
    assert "ran out of time" in " ".join(sound(model.report(tmp_path / "r.html")).texts["p"][1:4])


def test_no_figure_stays_open(tmp_path: Path) -> None:
    import matplotlib.pyplot as plt

    x, y, _ = table(40)
    mine = plt.figure()
    GPRegressor("1.0 * Matern52()").fit(x, y).report(tmp_path / "r.html")
    assert plt.get_fignums() == [mine.number]  # type: ignore[attr-defined]
    plt.close(mine)


def test_many_rows_stay_small_and_quick(tmp_path: Path) -> None:
    """20,000 rows through inducing inputs: the picture thins, the numbers do not."""
    from covary.gram import LowRank

    x, y, _ = table(20_000)
    held: Any = {"fixed": HELD, "noise": 0.04, "method": LowRank(60)}
    model = GPRegressor("1.0 * Matern52(lengthscale=1.0)", **held).fit(x, y)
    page = sound(model.report(tmp_path / "r.html"))
    assert "of 20,000 rows, chosen at random" in page.source


def test_kernels_described_in_words() -> None:
    words = {
        "Matern32(lengthscale=[2.0, 5.0, 900.0])": (
            "a fairly smooth function of a, b and c, varying over about 2 in a, 5 in b and 900 in c"
        ),
        "3.0 * SquaredExponential(lengthscale=4.0).on(1)": "a very smooth function of b, varying over about 4",
        "Periodic(period=12.0).on(0)": "a pattern that repeats in a, every 12",
        "SquaredExponential(lengthscale=9.0).on(0) * Periodic(period=1.0).on(0)": (
            "a very smooth function of a, varying over about 9, times a pattern that repeats in a, every 1"
        ),
        "2.0 * (SquaredExponential(lengthscale=9.0) * Periodic(period=1.0)).on(1)": (
            "a pattern in b that repeats every 1 and changes over about 9"
        ),
        "Constant()": "a constant offset",
        "Linear().on(2)": "a linear trend in c",
    }
    from covary.kernels.text import parse

    for text, said in words.items():
        assert kernel_words(parse(text), ("a", "b", "c")) == said
    assert listed(list("abcde"), 3) == "a, b, c and 2 more"
    assert [number(v, 2) for v in (280.4, 35.06, 3.47)] == ["280", "35", "3.5"]
    assert [number(v) for v in (np.nan, np.inf, 0.0, 1234567.0, 2e9)] == ["–", "∞", "0", "1,234,567", "2e+09"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model file; with a table that holds the truth; with one that does not; and what is refused."""
    x, y, _ = table(60)
    model = GPRegressor("1.0 * Matern52()").fit(x, y)
    model.target_names_ = ["effect"]
    save_model(model, str(tmp_path / "m.covary"), {})
    other, truth, _ = table(40, seed=1)
    other.assign(effect=truth).to_csv(tmp_path / "new.csv", index=False)
    other.to_csv(tmp_path / "open.csv", index=False)
    options: Any = {"title": None, "drop_missing": False, "quiet": False}
    run = Run()
    for data, name in (("new.csv", "b.html"), ("open.csv", "c.html")):
        run_report(run, str(tmp_path / "m.covary"), data=str(tmp_path / data), out=str(tmp_path / name), **options)
        page = sound(tmp_path / name)
        assert page.texts["h1"] == ["Gaussian process of effect"]
    assert run.written == [str(tmp_path / name) for name in ("b.html", "c.html")]
    assert "does not contain effect" in capsys.readouterr().err
    assert "new rows that the model was not fitted to" in (tmp_path / "b.html").read_text("utf-8")
    with pytest.raises(BadUsage, match=r"ends in \.html"):
        run_report(run, str(tmp_path / "m.covary"), data=None, out=str(tmp_path / "r.txt"), **options)
    other[["dose"]].to_csv(tmp_path / "half.csv", index=False)
    with pytest.raises(BadTable, match="no column 'age'"):
        run_report(run, str(tmp_path / "m.covary"), data=str(tmp_path / "half.csv"), out=str(tmp_path / "r.html"), **options)


@pytest.mark.parametrize(("rule", "banded"), [("bcm", True), ("grbcm", False)])
def test_a_committee_says_who_it_is_and_claims_no_band_that_it_has_not(rule: str, banded: bool, tmp_path: Path) -> None:
    x, y, _ = table()
    frame = x.set_axis(["a", "b"], axis=1)
    model = GPRegressor("Matern52()", fixed="*", noise=0.1, method=Committee(3, rule=rule)).fit(frame, y)
    page = sound(model.report(tmp_path / "r.html")).source.replace("\u00a0", " ")
    assert ("with 95 % of the averaged function" in page) == banded
    assert (" with a 95 % band" in page) == banded
    said = f"3, split by kmeans, combined by {rule}; all are used for a new row"
    assert said in page
    assert said in str(model.summary())
    again: Any = GPRegressor("Matern52()", fixed="*", noise=0.1)
    again.set_params(method=Committee(5, rule="nearest", partition="column:b")).fit(
        frame.assign(b=np.arange(len(frame)) % 5), y
    )
    assert "split by column b, combined by nearest; that of its part is used for a new row" in str(again.summary())
    again.save(tmp_path / "m.covary")
    assert str(covary.load(tmp_path / "m.covary").summary()) == str(again.summary())
    again.set_params(method=Committee(4, rule="rbcm", nearest=2), kernel="Matern52()", fixed="*").fit(frame, y)
    assert "4, split by kmeans, combined by rbcm; the 2 nearest are used for a new row" in str(again.summary())
