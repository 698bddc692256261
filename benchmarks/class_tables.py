"""The tables of ``benchmarks.classes`` with their splits, and Neal's generator of three classes with its Bayes rule.

The files are read from the folder given by ``COVARY_DATA``, by default ``data`` in the repository, as gzipped CSV with a header
or as NumPy archives:

- ``classification/``: ``pima_tr``, ``pima_te``, ``crabs``, ``fgl``, ``synth_tr``, ``synth_te`` from the R package MASS, the
  folds of ``fgl`` (``cv_group``) from probml/pmtkdata; ``usps.npz`` from the R package ElemStatLearn, pixels times 1000;
- ``regression/``: ``mcycle`` from MASS; ``neal_netgp.npz`` with ``cdata`` and ``odata`` from radfordneal/fbm;
- ``timeseries/coal_disasters`` from the R package boot.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import ROOT

MEASURED = ["FL", "RW", "CL", "CW", "BD"]  # of a crab
THREES, FIVES = 406, 361  # training rows, as in Rasmussen & Williams (2006), section 3.7.3
NOISE = 0.1  # on Neal's inputs


@dataclass(frozen=True)
class Split:
    """Training and test rows of a split."""

    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray


def folder(given: Path | None = None) -> Path:
    """Return the folder of the tables: as given, or ``COVARY_DATA``, or ``data``."""
    return given or Path(os.environ.get("COVARY_DATA") or ROOT / "data")


def frame(path: Path, name: str) -> Any:
    """Read one CSV table."""
    import pandas as pd

    return pd.read_csv(path / f"{name}.csv.gz")


def splits_of(X: np.ndarray, y: np.ndarray, tests: list[np.ndarray]) -> list[Split]:
    """Return one split per set of test rows; the remaining rows are training rows."""
    out = []
    for test in tests:
        tested = np.zeros(len(y), bool)
        tested[test] = True
        out.append(Split(X[~tested], y[~tested], X[tested], y[tested]))
    return out


def others(rows: int, chosen: np.ndarray) -> np.ndarray:
    """Return the rows that were not chosen."""
    return np.setdiff1d(np.arange(rows), chosen)


def pima(path: Path) -> list[Split]:
    """Diabetes among Pima women: Ripley's 200 and 332."""
    train, test = (frame(path, f"classification/pima_{part}") for part in ("tr", "te"))
    parts = [(t.drop(columns="type").to_numpy(np.float64), t["type"].to_numpy(str)) for t in (train, test)]
    return [Split(*parts[0], *parts[1])]


def crabs(path: Path, colour: bool = False, splits: int = 20) -> list[Split]:
    """The sex of crabs: 20 random rows of every species and sex for training, 120 for testing; seeds 0, 1, ..."""
    held = frame(path, "classification/crabs")
    X, y = held[MEASURED].to_numpy(np.float64), held["sex"].to_numpy(str)
    group = (held["sp"] + held["sex"]).to_numpy(str)
    if colour:
        X = np.column_stack([X, (held["sp"] == "O").to_numpy(np.float64)])
    tests = []
    for seed in range(splits):
        rng = np.random.default_rng(seed)
        chosen = np.concatenate([rng.permutation(np.flatnonzero(group == g))[:20] for g in np.unique(group)])
        tests.append(others(len(y), chosen))
    return splits_of(X, y, tests)


def glass(path: Path) -> list[Split]:
    """Forensic glass, six classes: Ripley's ten folds."""
    held = frame(path, "classification/fgl")
    fold = held["cv_group"].to_numpy(int)
    X = held.drop(columns=["type", "cv_group"]).to_numpy(np.float64)
    return splits_of(X, held["type"].to_numpy(str), [np.flatnonzero(fold == k) for k in np.unique(fold)])


def synth(path: Path) -> list[Split]:
    """Ripley's two mixtures of two Gaussians: 250 and 1000."""
    train, test = (frame(path, f"classification/synth_{part}") for part in ("tr", "te"))
    parts = [(t[["xs", "ys"]].to_numpy(np.float64), t["yc"].to_numpy(int)) for t in (train, test)]
    return [Split(*parts[0], *parts[1])]


def digits(path: Path) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the USPS images, training images first, and the number of training images."""
    with np.load(path / "classification/usps.npz", allow_pickle=False) as held:
        X = np.concatenate([held["X_train_milli"], held["X_test_milli"]]) / 1000.0
        y = np.concatenate([held["y_train"], held["y_test"]]).astype(int)
        return X, y, len(held["y_train"])


def threes_and_fives(path: Path, splits: int = 3) -> list[Split]:
    """USPS threes against fives, all 1540 together, in random halves; seeds 0, 1, ..."""
    X, y, _ = digits(path)
    X, y = X[(y == 3) | (y == 5)], y[(y == 3) | (y == 5)]
    tests = []
    for seed in range(splits):
        rng = np.random.default_rng(seed)
        chosen = [rng.permutation(np.flatnonzero(y == digit))[:count] for digit, count in ((3, THREES), (5, FIVES))]
        tests.append(others(len(y), np.concatenate(chosen)))
    return splits_of(X, y, tests)


def ten_digits(path: Path, rows: int = 1000, shuffled: bool = False) -> list[Split]:
    """``rows`` random training images of the 7291, and the 2007 test images; if ``shuffled``, all images are mixed before."""
    X, y, count = digits(path)
    rng = np.random.default_rng(0)
    if shuffled:
        order = rng.permutation(len(y))
        X, y = X[order], y[order]
    chosen = rng.permutation(count)[:rows]
    return [Split(X[chosen], y[chosen], X[count:], y[count:])]


def mcycle(path: Path, folds: int = 5) -> list[Split]:
    """Acceleration of a helmet over time in a crash: random folds."""
    held = frame(path, "regression/mcycle")
    X, y = held[["times"]].to_numpy(np.float64), held["accel"].to_numpy(np.float64)
    order = np.random.default_rng(0).permutation(len(y))
    return splits_of(X, y, [np.sort(part) for part in np.array_split(order, folds)])


def outliers(path: Path) -> list[Split]:
    """Neal's regression with outliers: 100 and 1000."""
    with np.load(path / "regression/neal_netgp.npz", allow_pickle=False) as held:
        X, y = held["odata"][:, :-1], held["odata"][:, -1]
    return [Split(X[:100], y[:100], X[100:], y[100:])]


def coal_years(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Coal-mining disasters in Britain: the middle of every year, and the number of disasters in it."""
    dates = frame(path, "timeseries/coal_disasters")["date"].to_numpy(np.float64)
    years = np.arange(np.floor(dates.min()), np.floor(dates.max()) + 1)
    return years + 0.5, np.histogram(dates, np.append(years, years[-1] + 1))[0].astype(np.float64)


def coal(path: Path) -> list[Split]:
    """All years are both training and test rows."""
    years, counts = coal_years(path)
    return [Split(years[:, None], counts, years[:, None], counts)]


# Neal's three classes -----------------------------------------------------------------------------------------------


def three_classes(values: np.ndarray) -> list[Split]:
    """Four inputs and a class: the first 400 rows are training rows."""
    X, y = values[:, :4], values[:, 4].astype(int)
    return [Split(X[:400], y[:400], X[400:], y[400:])]


def neal(path: Path) -> list[Split]:
    """The 1400 rows that radfordneal/fbm currently contains."""
    with np.load(path / "regression/neal_netgp.npz", allow_pickle=False) as held:
        return three_classes(held["cdata"])


def regions(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the class of a point given its first two inputs before noise (Neal 1997)."""
    inside = (a - 0.4) ** 2 + (b - 0.5) ** 2 < 0.35**2
    return np.where(inside, 0, np.where(0.8 * a + 1.8 * b < 0.6, 1, 2))


def simulated(rows: int, seed: int) -> np.ndarray:
    """Draw rows from Neal's generator: four inputs with noise, and the class."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(rows, 4))
    return np.column_stack([x + NOISE * rng.standard_normal(x.shape), regions(x[:, 0], x[:, 1])])


class BayesRule:
    """The Bayes rule: the class probabilities given the generator, with the noise integrated over a grid of the square."""

    classes_ = np.arange(3)

    def __init__(self, points: int = 600) -> None:
        self.nodes = (np.arange(points) + 0.5) / points
        shown = regions(self.nodes[:, None], self.nodes[None, :])
        self.areas = np.stack([shown == c for c in range(3)]).astype(np.float64)

    def fit(self, X: np.ndarray, y: np.ndarray) -> BayesRule:
        """Do nothing, because the rule has no parameters."""
        return self

    def _reach(self, z: np.ndarray) -> np.ndarray:
        """Return the density of an input observed with noise, given its position before: (z, nodes)."""
        density = np.exp(-0.5 * ((z[:, None] - self.nodes) / NOISE) ** 2) / (NOISE * np.sqrt(2 * np.pi))
        return density / len(self.nodes)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return the probability of each class at inputs with noise."""
        a, b = self._reach(X[:, 0]), self._reach(X[:, 1])
        joint = np.stack([((a @ area) * b).sum(1) for area in self.areas], axis=1)
        return joint / joint.sum(1, keepdims=True)

    def error(self) -> float:
        """Return the fraction of new cases that the rule misclassifies."""
        z, step = np.linspace(-6 * NOISE, 1 + 6 * NOISE, 801, retstep=True)
        reach = self._reach(z)
        return float(1 - np.max([reach @ area @ reach.T for area in self.areas], axis=0).sum() * step**2)
