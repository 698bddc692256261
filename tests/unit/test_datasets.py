"""Data sets: the catalogue agrees with the files, and generators with independent restatements of their formulas."""

from __future__ import annotations

import json
import math
from importlib import resources

import numpy as np
import pandas as pd
import pytest

from covary import GP, Data, Model, datasets, log_evidence
from covary._checks import CovaryError
from covary.datasets import catalogue, shipped
from covary.kernels import SquaredExponential
from covary.likelihoods import Gaussian

NAMES = list(catalogue.GENERATORS)
BIG = 4000


def sigma(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def hills(r: pd.Series) -> float:
    parts = [(1, 0.25, 0.3, 0.15), (0.8, 0.7, 0.75, 0.2), (0.6, 0.8, 0.2, 0.1), (-0.7, 0.3, 0.8, 0.15)]
    return sum(h * math.exp(-((r.x1 - a) ** 2 + (r.x2 - b) ** 2) / (2 * w * w)) for h, a, b, w in parts)


def maps(r: pd.Series) -> list[float]:
    a = [math.cos(math.pi * r.x1), math.sin(math.pi * r.x2) - 0.5, math.cos(math.pi * r.x2) * r.x1]
    e = [math.exp(1.5 * v) for v in a]
    return [v / sum(e) for v in e]


# the noise-free target (or the probability of the second class, or of each) of one row
FORMULAS = {
    "step": lambda r: 1.0 if r.x >= 0 else -1.0,
    "cubic": lambda r: r.x * r.x * r.x - r.x,
    "sine": lambda r: 0.5 + math.sin(2 * math.pi * r.x),
    "chirp": lambda r: math.sin((r.x - 2.5) ** 2),
    "two_optima": lambda r: 0.5 * math.sin(3 * r.x),
    "gap": lambda r: 1 + math.sin(1.3 * r.x) + 0.3 * math.cos(3 * r.x),
    "spike": lambda r: (
        0.0 if r.x < 0 else 10 * math.exp(-(((r.x - 0.35) / 0.02) ** 2) / 2) - 3 * math.exp(-(((r.x - 0.5) / 0.1) ** 2) / 2)
    ),
    "neal": lambda r: 0.3 + 0.4 * r.x + 0.5 * math.sin(2.7 * r.x) + 1.1 / (1 + r.x**2),
    "outliers": lambda r: 0.3 + 0.4 * r.x + 0.5 * math.sin(2.7 * r.x) + 1.1 / (1 + r.x**2),
    "sinc": lambda r: math.sin(r.x) / r.x if r.x else 1.0,
    "uneven": lambda r: math.sin(2 * r.x) + 0.6 * math.cos(4.5 * r.x),
    "product": lambda r: 4 * r.x1 * r.x2,
    "decades": lambda r: 10 ** (-10.5 + 9.75 * (r.x1 + math.sin(math.pi * r.x2))),
    "hills": hills,
    "potential": lambda r: (
        sum((1 - math.exp(-r[f"x{k}"])) ** 2 for k in (1, 2, 3, 4)) + 0.1 * sum(r[f"x{k}"] * r[f"x{k + 1}"] for k in (1, 2, 3))
    ),
    "robot_arm": lambda r: [
        2 * math.cos(r.x1) + 1.3 * math.cos(r.x1 + r.x2),
        2 * math.sin(r.x1) + 1.3 * math.sin(r.x1 + r.x2),
    ],
    "friedman": lambda r: 10 * math.sin(math.pi * r.x1 * r.x2) + 20 * (r.x3 - 0.5) ** 2 + 10 * r.x4 + 5 * r.x5,
    "four_points": lambda r: 0.5 * (r.x1 + r.x2) + 0.25 * (abs(r.x1) - abs(r.x2)),
    "logistic": lambda r: sigma(r.x1 + r.x2),
    "switch": lambda r: 1.0 if r.x < 13 else min(1.0, max(0.0, (r.x - 29) / 14)),
    "neal_binary": lambda r: math.exp(-(((r.x1 - 0.4) ** 2 + (r.x2 + 0.3) ** 2) ** 2)),
    "probability_maps": maps,
}
CLASSES = ("logistic", "switch", "neal_binary", "squashed")
UNIFORM = {"sine"}  # noise that is not Gaussian


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_rows_and_everything_finite(name: str) -> None:
    a, b = datasets.load(name), datasets.load(name)
    pd.testing.assert_frame_equal(a, b, check_exact=True)
    fixed = name in ("four_points", "few_labels")
    assert fixed or not a.equals(datasets.load(name, random_state=np.random.default_rng(99)))
    assert np.isfinite(a.to_numpy(float)).all()
    assert a.attrs["targets"] == list(a.columns[a.shape[1] - len(a.attrs["targets"]) :])
    json.dumps(a.attrs)  # so that frames can be written as Parquet
    assert datasets.load(name, 7).shape == (28 if name == "bands" else 7, a.shape[1])
    seeded = datasets.load(name, random_state=np.random.default_rng(5))
    assert seeded.equals(datasets.load(name, random_state=np.random.default_rng(5)))


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_the_truth_is_the_formula(name: str) -> None:
    table = datasets.load(name)
    wanted = np.array([FORMULAS[name](row) for _, row in table.iterrows()])
    np.testing.assert_allclose(table.attrs["truth"], wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", sorted(set(FORMULAS) - {"logistic", "switch", "neal_binary", "probability_maps", "spike"}))
def test_the_noise_has_its_stated_size(name: str) -> None:
    table = datasets.load(name, BIG, noise=0.25)
    seen, truth = table[table.attrs["targets"]].to_numpy(), np.asarray(table.attrs["truth"]).reshape(BIG, -1)
    rest = (np.log10(seen) - np.log10(truth) if name == "decades" else seen - truth).ravel()
    if name == "outliers":
        odd = np.zeros(BIG, bool)
        odd[table.attrs["outliers"]] = True
        assert 0.03 < odd.mean() < 0.07
        assert 0.8 < rest[odd].std() < 1.2
        rest = rest[~odd]
    if name == "gap":
        rest = rest[:-1]
    assert abs(rest.mean()) < 4 * 0.25 / len(rest) ** 0.5
    assert abs(rest.std() / 0.25 - 1) < 4 / (2 * len(rest)) ** 0.5
    if name in UNIFORM:
        assert np.abs(rest).max() < 0.25 * 3**0.5
    exact = datasets.load(name, 50, noise=0.0)
    kept = slice(0, -1) if name == "gap" else [i for i in range(50) if i not in exact.attrs.get("outliers", [])]
    truth = np.asarray(exact.attrs["truth"]).reshape(50, -1)
    assert (exact[exact.attrs["targets"]].to_numpy()[kept] == truth[kept]).all()


@pytest.mark.parametrize("name", CLASSES)
def test_labels_come_with_their_probability(name: str) -> None:
    table = datasets.load(name, 400)
    p, label = np.asarray(table.attrs["truth"]), (table["label"] > 0).to_numpy()
    assert abs((label - p).sum()) < 4 * np.sqrt((p * (1 - p)).sum())
    assert abs(((label - p) * p).sum()) < 4 * np.sqrt((p**3 * (1 - p)).sum()) + 1e-9


def test_three_classes_come_with_their_probabilities() -> None:
    table = datasets.make_probability_maps(BIG)
    p = np.asarray(table.attrs["truth"])
    assert p.min() > 0.04
    assert p.max() < 0.88
    counts = np.bincount(table["label"], minlength=3)
    assert (np.abs(counts - p.sum(0)) < 4 * np.sqrt((p * (1 - p)).sum(0))).all()


def test_rules_of_classes_without_chance() -> None:
    neal = datasets.make_neal_classes(500, noise=0.0)
    for _, r in neal.iterrows():
        near = math.sqrt((r.x1 - 0.4) ** 2 + (r.x2 - 0.5) ** 2) < 0.35
        assert r.label == (0 if near else 1 if 0.8 * r.x1 + 1.8 * r.x2 < 0.6 else 2)
    assert abs(np.mean(datasets.make_neal_classes(20000)["label"] == 1) - 0.1) < 0.03  # the original file has 0.12
    clusters = datasets.make_three_clusters(6000)
    assert clusters["label"].tolist()[::2000] == [1, -1, -1]
    for part, centre in ((clusters[:2000], -6), (clusters[2000:5000], 0), (clusters[5000:], 2)):
        assert abs(part["x"].mean() - centre) < 0.1
        assert abs(part["x"].std() - 0.8) < 0.05
    rings = datasets.make_rings(1000)
    radius = np.hypot(rings["x1"], rings["x2"])
    assert radius[rings["label"] == 1].max() <= 0.45
    assert radius[rings["label"] == -1].min() >= 0.6
    few = datasets.make_few_labels()
    assert few.to_numpy().tolist() == [[0, -1, 1], [0, 1, 0], [1, 0.5, 0]]
    gap = datasets.make_gap()
    assert not gap["x"].between(2.5, 3.5).any()
    assert abs(gap["y"].iloc[-1]) < 0.5
    assert gap["x"].iloc[-1] == 1


def test_a_draw_from_a_process_has_its_covariance() -> None:
    """Over many seeds of the same inputs: squared differences are twice k(0) − k(r) plus the noise."""
    near, far = [], []
    for seed in range(200):
        t = datasets.make_gp(30, lengthscale=2.0, variance=3.0, noise=0.0, random_state=seed)
        x, y = t["x"].to_numpy(), t["y"].to_numpy()
        d = np.abs(x[0] - x[1])
        near.append((y[0] - y[1]) ** 2 / (2 * 3.0 * (1 - math.exp(-(d**2) / 8))))
        far.append(y[2] ** 2 / 3.0)
    assert abs(np.mean(near) - 1) < 0.35
    assert abs(np.mean(far) - 1) < 0.35
    rough = datasets.make_gp(250, columns=2, lengthscale=0.1, variance=10, width=1, kernel="exponential", noise=0.0)
    smooth = datasets.make_gp(250, columns=2, lengthscale=0.1, variance=10, width=1, noise=0.0)
    assert len(rough.columns) == 3
    gaps = {}
    for name, table in (("rough", rough), ("smooth", smooth)):
        X, y = table[["x1", "x2"]].to_numpy(), table["y"].to_numpy()
        r = np.sqrt(((X[:, None] - X[None]) ** 2).sum(2))
        close = (r > 0) & (r < 0.02)
        gaps[name] = ((y[:, None] - y[None, :])[close] ** 2).mean()
    assert gaps["rough"] > 5 * gaps["smooth"]


def _evidence(table: pd.DataFrame, spread: float, lengthscale: float, noise: float) -> tuple[float, float]:
    """The log evidence of a squared exponential: by the textbook, and covary's."""
    x, y = table["x"].to_numpy(), table["y"].to_numpy()
    K = spread**2 * np.exp(-((x[:, None] - x[None]) ** 2) / (2 * lengthscale**2)) + noise * np.eye(len(x))
    own = -0.5 * y @ np.linalg.solve(K, y) - 0.5 * np.linalg.slogdet(K)[1] - 0.5 * len(x) * math.log(2 * math.pi)
    model = Model(GP(spread**2 * SquaredExponential(lengthscale=lengthscale)), likelihood=Gaussian(noise))
    return own, log_evidence(model, Data(x[:, None], y))


def test_evidences_of_the_two_small_sets() -> None:
    """At the parameters the figures print; the evidences themselves are not printed."""
    for found in _evidence(datasets.make_chirp(), 0.59396, 0.27856, 1e-10):
        assert found == pytest.approx(-0.06738, abs=1e-4)
    for found in _evidence(datasets.make_two_optima(), 0.63975, 0.36545, 0.29402):
        assert found == pytest.approx(-21.80509, abs=1e-4)
    table = datasets.make_two_optima()
    noise = log_evidence(Model(GP(1e-12 * SquaredExponential()), likelihood=Gaussian(0.63722)), Data(table[["x"]], table["y"]))
    y = table["y"].to_numpy()
    assert noise == pytest.approx(-0.5 * (y**2).sum() / 0.63722 - 10 * math.log(2 * math.pi * 0.63722), abs=1e-6)
    assert noise == pytest.approx(-23.87231, abs=1e-4)


def test_sequences() -> None:
    t = datasets.make_autoregression(20000, coefficients=(0.5, 0.2), noise=2.0)["y"].to_numpy()
    a, b = 0.5, 0.2  # Yule and Walker
    r1 = a / (1 - b)
    variance = 4 / (1 - a * r1 - b * (a * r1 + b))
    assert abs(t.var() / variance - 1) < 0.08
    assert abs((t[1:] * t[:-1]).mean() / t.var() - r1) < 0.03
    with pytest.raises(CovaryError, match="stationary"):
        datasets.make_autoregression(coefficients=(1.0, 0.1))
    glass = datasets.make_mackey_glass(300, noise=0.0)
    assert (glass["x6"].to_numpy()[6:] == glass["x0"].to_numpy()[:-6]).all()
    assert (glass["y"].to_numpy()[:-6] == glass["x0"].to_numpy()[6:]).all()
    assert 0.2 < glass["y"].min() < 0.6 < 1.1 < glass["y"].max() < 1.5
    still = datasets.make_mackey_glass(50, delay=2.0)["y"]  # a short delay comes to rest where 0.2/(1 + x¹⁰) = 0.1
    assert abs(still - 1).max() < 0.1
    chain = datasets.make_hidden_markov(20000)
    state, symbol = chain["state"].to_numpy(), chain["symbol"].to_numpy()
    for i, row in enumerate(((0.7, 0.3), (0.4, 0.6))):
        assert abs(np.mean(state[1:][state[:-1] == i] == 1) - row[1]) < 0.02
    for i, row in enumerate(((0.5, 0.4, 0.1), (0.1, 0.3, 0.6))):
        assert np.abs(np.bincount(symbol[state == i]) / (state == i).sum() - row).max() < 0.02
    first = [datasets.make_hidden_markov(1, random_state=s)["state"][0] for s in range(400)]
    assert abs(np.mean(first) - 0.4) < 0.1


def test_samples() -> None:
    x = datasets.make_lighthouse(20001, along=2.0, off=0.5)["x"].to_numpy()
    assert np.abs(np.quantile(x, [0.25, 0.5, 0.75]) - [1.5, 2.0, 2.5]).max() < 0.03
    assert abs(datasets.make_coin(BIG)["heads"].mean() - 0.25) < 0.03
    for ensemble, second in (("goe", 4 / math.pi), ("gue", 3 * math.pi / 8), ("poisson", 2.0)):
        s = datasets.make_spacings(20000, ensemble=ensemble)["s"]
        assert abs(s.mean() - 1) < 0.03
        assert abs((s**2).mean() - second) < 0.1
    mixture = datasets.make_mixture(BIG, noise=0.5)
    for i, (weight, mean) in enumerate(zip((0.5, 0.3, 0.2), ((-3, 0), (2, 2), (2, -3)), strict=True)):
        part = mixture[mixture["component"] == i]
        assert abs(len(part) / BIG - weight) < 0.03
        assert np.abs(part[["x1", "x2"]].mean().to_numpy() - mean).max() < 0.08
        assert np.abs(part[["x1", "x2"]].std().to_numpy() - 0.5).max() < 0.05
    bands = datasets.make_bands(20)
    a = bands.attrs
    for _, r in bands.iterrows():
        b = int(r.band)
        assert math.isclose(r.energy, a["offset"][b] + 2 * a["hop"][b] * math.cos(r.k + a["phase"][b]), abs_tol=1e-12)
    assert (bands.groupby("k")["energy"].diff().dropna() >= 0).all()
    assert (bands.groupby("k")["band"].nunique() == 4).all()


def test_clouds() -> None:
    for shape, inner, variance in (("disk", 0.0, 0.25), ("annulus", 0.5, 0.3125), ("circle", 1.0, 0.5)):
        X = datasets.make_cloud(BIG, shape=shape).to_numpy()
        radius = np.hypot(*X.T)
        assert inner - 1e-12 <= radius.min() <= radius.max() <= 1 + 1e-12
        assert np.abs(np.cov(X.T) - variance * np.eye(2)).max() < 0.03
    square = datasets.make_cloud(BIG).to_numpy()
    assert np.abs(np.cov(square.T) - np.eye(2) / 3).max() < 0.03
    edges = datasets.make_cloud(BIG, shape="edges").to_numpy()
    assert abs(np.mean(np.abs(edges[:, 0]) > 0.5) - (1 - 0.5**4)) < 0.02
    sphere = datasets.make_cloud(BIG, shape="sphere").to_numpy()
    assert np.allclose((sphere**2).sum(1), 1)
    assert np.abs(np.cov(sphere.T) - np.eye(3) / 3).max() < 0.03
    table = datasets.make_sensors(50, noise=0.0)
    w, c = np.array(table.attrs["directions"]), np.array(table.attrs["centres"])
    for _, r in table.iterrows():
        for j in range(8):
            inside = w[j, 0] * (r.u1 - c[j, 0]) + w[j, 1] * (r.u2 - c[j, 1])
            assert math.isclose(r[f"s{j + 1}"], math.tanh(4 * inside), abs_tol=1e-12)


# what is shipped -----------------------------------------------------------------------------------------------------
FREE = {"CC BY 4.0", "CC0", "public domain", "unlimited", "BSD-style (Matplotlib)"}


@pytest.mark.parametrize("row", shipped.rows(), ids=lambda r: r["name"])
def test_the_table_agrees_with_the_files(row: dict[str, str]) -> None:
    table = datasets.load(row["name"])
    assert table.shape == (int(row["rows"]), int(row["columns"]))
    assert table.columns[-1] == row["target"]
    assert row["licence"] in FREE
    assert len(row["origin"]) > 20
    doc = catalogue.LOADERS[row["name"]].__doc__ or ""
    for column in table.columns:
        assert f"``{column}``" in doc, column
    short = row["licence"].split()[0].strip("()")
    assert short.lower().replace("-style", "") in doc.lower()
    if row["file"] != "matplotlib":
        size = len(resources.files("covary.datasets").joinpath(row["file"]).read_bytes())
        assert size < 60_000


def test_every_shipped_file_is_in_the_table_and_all_are_small() -> None:
    files = {f.name: f for f in resources.files("covary.datasets").iterdir() if ".csv" in f.name}
    assert set(files) - {"table.csv"} == {r["file"] for r in shipped.rows()} - {"matplotlib"}
    assert sum(len(f.read_bytes()) for f in files.values()) < 250_000
    assert set(catalogue.LOADERS) == {r["name"] for r in shipped.rows()}


def test_some_numbers_of_the_measured_sets() -> None:
    coal = datasets.load_coal()
    assert (coal["disasters"].sum(), coal["year"].iloc[[0, -1]].tolist()) == (191, [1851, 1962])
    assert coal["disasters"][:40].mean() > 3 * coal["disasters"][60:].mean()
    weeks, months = datasets.load_co2_weekly(), datasets.load_co2()
    month = weeks.groupby([weeks["date"].dt.year, weeks["date"].dt.month])["co2_ppm"].mean().dropna()
    assert abs(month.loc[(1990, 6)] - months.query("year == 1990 and month == 6")["co2_ppm"].item()) < 1e-6
    assert weeks["date"].dt.day_name().unique().tolist() == ["Saturday"]
    flights = datasets.load_flights()
    assert (flights["date"].dt.day_name().str[:3] == flights["weekday"]).all()
    assert flights["date"].dt.year.unique().tolist() == [2013]
    land = datasets.load_jacksboro(200)
    assert land.equals(datasets.load_jacksboro(800)[:200])
    assert land["elevation"].between(200, 1100).all()
    assert land["longitude"].between(-84.42, -84.07).all()
    assert abs(datasets.load_yacht()["resistance"].mean() - 10.495) < 0.001
    assert abs(datasets.load_abalone()["rings"].mean() - 9.934) < 0.001
    assert datasets.load_sunspots()["sunspots"].idxmax() == 257  # 1957


def test_available_and_load() -> None:
    table = datasets.available()
    assert table["name"].is_unique
    assert list(table["name"]) == datasets.names() == list(catalogue.LOADERS) + NAMES
    assert (table.loc[table["licence"] != "generated", "name"] == list(catalogue.LOADERS)).all()
    assert {"time series", "spatial", "two classes", "three classes", "counts", "regression"} <= set(table["kind"])
    made = [n for n in vars(datasets) if n.startswith("make_")]
    used = {getattr(f, "func", f).__name__ for _, f in catalogue.GENERATORS.values()}
    assert set(made) == used
    assert datasets.load("circle", 5).equals(datasets.make_cloud(5, shape="circle"))


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (lambda: datasets.load("irs"), r"did you mean 'iris', 'disk' or 'outliers'\?$"),
        (lambda: datasets.load("zzzzzz"), "available"),
        (lambda: datasets.load("iris", 10), "takes no n"),
        (lambda: datasets.load("step", noise=-1), "noise is -1"),
        (lambda: datasets.load("step", 0), "n is 0"),
        (lambda: datasets.load("step", 2.5), "n is 2.5"),
        (lambda: datasets.load("step", slope=2), "takes no slope"),
        (lambda: datasets.make_cloud(shape="cube"), "shape is 'cube'"),
        (lambda: datasets.make_gp(6000), "2,000"),
        (lambda: datasets.make_gp(kernel="rbf"), "kernel is 'rbf'"),
        (lambda: datasets.make_friedman(columns=4), "five or more"),
        (lambda: datasets.make_mixture(weights=(0.5, 0.6)), "with a sum of one"),
        (lambda: datasets.load_jacksboro(0), "n is 0"),
    ],
)
def test_what_makes_no_sense_is_refused(what: object, words: str) -> None:
    with pytest.raises(CovaryError, match=words):
        what()  # type: ignore[operator]
