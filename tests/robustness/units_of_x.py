"""Random tables in random units: predictions do not depend on scale and origin of X."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from covary import GP, Data, GPClassifier, GPRegressor, Model, condition
from covary.gram import Dense, LowRank, Markov, Vecchia
from covary.kernels import Matern32, Matern52, RationalQuadratic, SquaredExponential
from covary.likelihoods import Gaussian
from covary.means import LinearBasis
from robustness import units_of_y
from robustness.record import Case

TITLE = "units of X: fits to aX + b against fits to X"
LEAST = 280

KERNELS = [None, None, None, SquaredExponential, RationalQuadratic, Matern32]  # None: the default
OTHERS = ["student_t", "laplace", "heteroscedastic", "gamma", "poisson", "classes"]
METHODS = {"vecchia": 12, "low_rank": 12, "svgp": 3}  # of how many tables each


def cases(folder: Path) -> Iterator[Case]:
    """Whole fits with the exact method, some with every other one, explicit basis functions, and other likelihoods."""
    for seed in range(185):
        yield Case(f"exact-{seed}", partial(learned, seed, "exact"))
    for method, tables in METHODS.items():
        for seed in range(tables):
            yield Case(f"{method}-{seed}", partial(learned, 1000 + seed, method))
    for seed in range(40):
        yield Case(f"basis-{seed}", partial(with_basis, 2000 + seed))
    for seed in range(30):
        yield Case(f"{OTHERS[seed % len(OTHERS)]}-{seed}", partial(under_another, 3000 + seed, OTHERS[seed % len(OTHERS)]))


def table(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns of several kinds, a target of several kinds, and new rows around and beyond."""
    d = int(rng.integers(1, 5))
    columns = [
        lambda n: rng.normal(size=n),
        lambda n: rng.uniform(-1, 1, n),
        lambda n: rng.integers(0, 6, n).astype(float),
        lambda n: rng.standard_t(3, n),
        lambda n: np.arange(n) / n,
    ]
    kinds = [columns[int(rng.integers(len(columns)))] for _ in range(d)]
    X, new = (np.column_stack([kind(m) for kind in kinds]) for m in (n, 20))
    if d > 1 and rng.random() < 0.15:
        X[:, 1] = new[:, 1] = 2.0  # does not vary
    w = rng.normal(size=d)
    noise = 10 ** rng.uniform(-2.5, 0)
    targets = [X @ w, np.sin(3 * X @ w), (X @ w > 0).astype(float), np.zeros(n)]
    y = targets[int(rng.integers(4))] + (rng.random() < 0.5) * (X @ w) + noise * rng.normal(size=n)
    return X, y, new


def units(rng: np.random.Generator, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A scale between 1e-9 and 1e9 for every column, and an offset of up to a million standard deviations."""
    a = 10 ** rng.uniform(-9, 9, X.shape[1]) * (1 if rng.random() < 0.5 else -1)
    b = rng.normal(size=X.shape[1]) * a * 10 ** rng.uniform(-1, 6, X.shape[1]) * (rng.random() < 0.6)
    return a, b


def learned(seed: int, method: str) -> None:
    """A whole fit: 1e-3 of the spread of y for the exact method, 0.01 nats a row for the others."""
    rng = np.random.default_rng(seed)
    X, y, new = table(rng, int(rng.integers(15, 120)) if method == "exact" else 150)
    a, b = units(rng, X)
    given: dict[str, Any] = {"mean": "linear" if rng.random() < 0.5 else "constant", "method": method, "random_state": 0}
    kind = KERNELS[int(rng.integers(len(KERNELS)))] if method == "exact" else None

    def fitted(X: np.ndarray, length: np.ndarray) -> GPRegressor:
        return GPRegressor(None if kind is None else 1.0 * kind(length), **given).fit(X, y)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        length = np.where(np.ptp(X, axis=0) > 0, np.abs(a), 1.0)  # a column that does not vary has no scale to start from
        here, there = fitted(X, np.ones(len(a))), fitted(X * a + b, length)
        first, second = here.predict(new, return_std=True), there.predict(new * a + b, return_std=True)
    if method == "exact":
        off = max(float(np.abs(p - q).max()) for p, q in zip(first, second, strict=True)) / float(y.std())
        assert off < 1e-3, f"predictions differ by {off:.2g} of the spread of y ({kind}, {given})"
    else:
        density = [-0.5 * ((y_new - m) / s) ** 2 - np.log(s) for (m, s) in (first, second) for y_new in [first[0] + first[1]]]
        off = float(np.abs(density[0] - density[1]).mean())
        assert off < 0.01, f"densities differ by {off:.2g} nats a row ({given})"


def with_basis(seed: int) -> None:
    """Vague weights at given hyperparameters: 1e-6 of the spread of y."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(12, 60)), int(rng.integers(1, 4))
    X, new = rng.normal(size=(n, d)), 2 * rng.normal(size=(10, d))
    y = X @ rng.normal(size=d) + np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n)
    a, b = units(rng, X)
    length = np.exp(rng.normal(size=d))
    grams = [Dense(), LowRank(10), Vecchia(6), *([Markov()] if d == 1 else [])]
    gram = grams[int(rng.integers(len(grams)))]

    def at(a: Any, b: Any) -> Any:
        model = Model(GP(2.0 * Matern52(np.abs(a) * length), basis=LinearBasis()), likelihood=Gaussian(0.1))
        return condition(model, Data(X * a + b, y), gram=gram).predict(new * a + b).f

    first, second = at(np.ones(d), np.zeros(d)), at(a, b)
    off = max(float(np.abs(p - q).max()) for p, q in ((first.mean, second.mean), (first.std, second.std))) / float(y.std())
    assert off < 1e-6, f"predictions differ by {off:.2g} of the spread of y ({gram})"


def under_another(seed: int, name: str) -> None:
    """A whole fit under another likelihood: 1e-3 of the spread of y, or of a probability."""
    rng = np.random.default_rng(seed)
    t = units_of_y.table(name, seed, rows=(15, 60))
    a, b = units(rng, t.X)
    mean = "linear" if rng.random() < 0.5 else "constant"
    y, size = t.y, t.spread
    if name == "poisson":
        y = rng.poisson(np.exp(np.clip(y, -3, 4))).astype(float)
        size = float(y.std()) or 1.0
    fits: list[Any] = []
    for X in (t.X, t.X * a + b):
        if name == "classes":
            fits.append(GPClassifier(mean=mean, random_state=0).fit(X, np.digitize(y, np.quantile(y, [0.3, 0.7]))))
        else:
            fits.append(GPRegressor(likelihood=name, mean=mean, random_state=0).fit(X, y))
    if name == "classes":
        first, second = fits[0].predict_proba(t.new), fits[1].predict_proba(t.new * a + b)
        size = 1.0
    else:
        first, second = (np.stack(f.predict(x, return_std=True)) for f, x in zip(fits, (t.new, t.new * a + b), strict=True))
    units_of_y.agree("the prediction", second, first, size, 1e-3)
