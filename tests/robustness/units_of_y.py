"""Fits to a·y + b compared with fits to y: predictions agree, and the log evidence changes by −n log |a|.

There are two parts. Posteriors at fixed hyperparameters, converted like y, agree to 1e-6 of its standard deviation for every
likelihood, inference and gram. Fits by :class:`covary.GPRegressor` with learned hyperparameters agree to 1e-3, or to 0.01 nats
per row of a test set if K is approximated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from covary import GP, Data, GPRegressor, Model, condition
from covary.gram import Dense, LowRank, Markov, Vecchia
from covary.inference import EP, SVGP, Exact, Laplace
from covary.likelihoods import DoubleExponential, Gamma, Gaussian, HeteroscedasticGaussian, StudentT
from covary.means import Constant
from covary.posterior import Posterior
from robustness.record import Case

TITLE = "units of y: fits to a·y + b against fits to y"
LEAST = 250

POWERS = (2.0**30, 2.0**-30, 2.0**12, -(2.0**-7))
FACTORS = (1e9, 1e-9, 1e3, 1e-6, -1.0, 254.0, -3.3e-8, 7.7e8, 1e10)
OFFSETS = (0.0, 0.0, 1.0, -50.0, 1e3, -1e6, 1e6)  # in standard deviations of y
QUANTILES = (0.05, 0.5, 0.95)
NAMES = ("gaussian", "student_t", "laplace", "heteroscedastic", "gamma")
FIXED, LEARNED = 1e-6, 1e-3  # of the standard deviation of y
ROW = 0.01  # nats


@dataclass(frozen=True)
class Table:
    """Rows to learn from and rows to predict, with a likelihood that fits them."""

    name: str
    X: np.ndarray
    y: np.ndarray
    new: np.ndarray
    observed: np.ndarray

    @property
    def spread(self) -> float:
        return float(self.y.std())


@dataclass(frozen=True)
class Units:
    """y in other units: a·y + b."""

    a: float
    b: float

    def __call__(self, y: np.ndarray) -> np.ndarray:
        return self.a * y + self.b

    def __str__(self) -> str:
        return f"{self.a:.3g}*y{self.b:+.3g}"


def table(name: str, seed: int, *, rows: tuple[int, int] = (15, 120)) -> Table:
    """A random table: a smooth function of up to four columns of different scales, some of them constant, and noise."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(*rows, endpoint=True)), int(rng.integers(1, 4, endpoint=True))
    scale = 10.0 ** rng.uniform(-2, 2, d)
    x = rng.uniform(-1, 1, (n + 20, d))
    if d > 1 and rng.random() < 0.3:
        x[:, -1] = 0.7  # a constant column
    f = np.sin(3 * x[:, 0] + rng.uniform(0, 6)) + 0.5 * (x @ rng.normal(size=d))
    level = float(rng.choice([0.02, 0.1, 0.3, 1.0]))
    noise = {
        "student_t": rng.standard_t(3, n + 20),
        "laplace": rng.laplace(size=n + 20),
        "heteroscedastic": rng.normal(size=n + 20) * np.exp(x[:, 0]),
    }.get(name, rng.normal(size=n + 20))
    y = f + level * noise
    if name == "gamma":
        y = rng.gamma(1 / level**2, level**2 * np.exp(f))
    return Table(name, x[:n] * scale, y[:n], x[n:] * scale, y[n:])


def units(name: str, table: Table, rng: np.random.Generator) -> Units:
    """Other units that the likelihood allows: only a positive factor for Gamma."""
    a = float(rng.choice(POWERS if rng.random() < 0.4 else FACTORS))
    if name == "gamma":
        return Units(abs(a), 0.0)
    return Units(a, float(rng.choice(OFFSETS)) * abs(a) * table.spread)


def model(table: Table, u: Units, kernel: str = "Matern52") -> Model:
    """A plausible model of the table, in these units."""
    spread, lengths = table.spread * abs(u.a), np.where(np.ptp(table.X, axis=0) > 0, table.X.std(0), 1.0)
    shape = f"{kernel}(lengthscale={(1.5 * lengths).tolist() if len(lengths) > 1 else float(1.5 * lengths[0])})"
    centre = float(np.mean(table.y) * u.a + u.b)
    likelihoods: dict[str, Any] = {
        "gaussian": Gaussian((0.2 * spread) ** 2),
        "student_t": StudentT(0.1 * spread, degrees=4.0),
        "laplace": DoubleExponential(0.15 * spread),
        "heteroscedastic": HeteroscedasticGaussian((0.2 * spread) ** 2),
        "gamma": Gamma(8.0),
    }
    own = 1.0 if table.name == "gamma" else spread**2
    kernel_: Any = f"{own!r} * {shape}"
    if table.name == "gamma":
        centre = float(np.log(np.mean(table.y)) + np.log(u.a))
    if table.name == "heteroscedastic":
        kernel_ = tuple(GP(k).kernel for k in (kernel_, f"0.5 * {shape}"))
    return Model(GP(kernel_, mean=Constant(centre)), likelihood=likelihoods[table.name])


# fixed hyperparameters ------------------------------------------------------------------------------------------------------
def stated(post: Posterior, X: np.ndarray) -> dict[str, np.ndarray]:
    """What a posterior says of new observations."""
    y = post.predict(X).y
    out = {"mean": y.mean, "std": y.std}
    return out | {f"quantile {p}": y.quantile(p) for p in QUANTILES}


def agree(what: str, found: np.ndarray, expected: np.ndarray, size: float, tolerance: float) -> None:
    """Raise unless two arrays are the same up to this share of a size; infinities must meet infinities."""
    assert not np.isnan(found).any(), f"{what} is NaN"
    assert np.array_equal(np.isfinite(found), np.isfinite(expected)), f"{what} is infinite in one of the two"
    finite = np.isfinite(expected)
    off = float(np.abs(found[finite] - expected[finite]).max(initial=0.0)) / size
    assert off <= tolerance, f"{what} differs by {off:.1e} of the standard deviation of y"


def compare(found: dict[str, np.ndarray], plain: dict[str, np.ndarray], u: Units, t: Table, tolerance: float) -> None:
    """Predictions for a·y + b against those for y, in the units of a·y + b."""
    size = abs(u.a) * t.spread
    for key, value in plain.items():
        other = key
        if key.startswith("quantile") and u.a < 0:  # the order is turned round
            other = f"quantile {round(1 - float(key.split()[1]), 3)}"
        if other in found:
            agree(key, found[other], abs(u.a) * value if key == "std" else u(value), size, tolerance)


def posterior_case(t: Table, u: Units, inference: Any, gram: Any, kernel: str = "Matern52") -> None:
    """The posterior at fixed hyperparameters, in two units."""
    plain, other = Units(1.0, 0.0), Data(t.X, u(t.y))
    one = condition(model(t, plain, kernel), Data(t.X, t.y), inference=inference, gram=gram)
    two = condition(model(t, u, kernel), other, inference=inference, gram=gram)
    settled = [post.status == "exact" or post.status.startswith("converged") for post in (one, two)]
    assert settled[0] == settled[1], f"status {two.status!r} instead of {one.status!r}"
    compare(stated(two, t.new), stated(one, t.new), u, t, FIXED if settled[0] else LEARNED)
    moved, expected = two.log_evidence - one.log_evidence, -len(t.y) * np.log(abs(u.a))
    assert abs(moved - expected) < 1e-6 * (1 + abs(one.log_evidence) + abs(expected)), (
        f"log evidence off by {moved - expected:.1e}"
    )
    density = one.predict(t.new).y.log_prob(t.observed) - np.log(abs(u.a))
    found = two.predict(t.new).y.log_prob(u(t.observed))
    assert np.abs(found - density).max() < (1e-5 if settled[0] else LEARNED), (
        f"log density off by {np.abs(found - density).max():.1e}"
    )


# learned --------------------------------------------------------------------------------------------------------------------
def fit(t: Table, u: Units, **options: Any) -> GPRegressor:
    """A fit to the table in these units; starting values that are given are converted too."""
    return GPRegressor(likelihood=t.name, random_state=0, **options).fit(t.X, u(t.y))


def given(t: Table, u: Units) -> dict[str, Any]:
    """Starting values as numbers, so that nothing is taken from the spread of y but the priors."""
    start = model(t, u)
    out: dict[str, Any] = {"kernel": start.prior.kernel, "mean": start.prior.mean, "likelihood": start.likelihood}
    return out


def said(fitted: GPRegressor, X: np.ndarray) -> dict[str, np.ndarray]:
    """What a fitted estimator says of new observations."""
    mean, std = fitted.predict(X, return_std=True)
    return {"mean": mean, "std": std} | dict(
        zip((f"quantile {p}" for p in QUANTILES), fitted.predict_quantiles(X, QUANTILES), strict=True)
    )


def learned_case(t: Table, u: Units, *, standardise: bool = True, **options: Any) -> None:
    """A fit in two units, the hyperparameters learned."""
    fits = []
    for units_ in (Units(1.0, 0.0), u):
        own = {} if standardise else given(t, units_)
        estimator = GPRegressor(**({"likelihood": t.name} | own), standardise=standardise, random_state=0, **options)
        fits.append(estimator.fit(t.X, units_(t.y)))
    one, two = fits
    compare(said(two, t.new), said(one, t.new), u, t, LEARNED)
    assert one.learned_ is not None
    assert two.learned_ is not None
    moved = two.learned_.value - one.learned_.value + len(t.y) * np.log(abs(u.a))
    assert abs(moved) < ROW, f"log evidence plus log priors off by {moved:.1e}"


def approximate_case(t: Table, u: Units, **options: Any) -> None:
    """The same where K is approximated: the log density of new observations."""
    one, two = (fit(t, units_, **options) for units_ in (Units(1.0, 0.0), u))
    before = one.posterior_.predict(t.new).y.log_prob(t.observed)
    after = two.posterior_.predict(t.new).y.log_prob(u(t.observed)) + np.log(abs(u.a))
    off = float(np.abs(after - before).mean())
    assert off < ROW, f"{off:.1e} nats a row"


def cases(folder: Path) -> Iterator[Case]:
    """Random tables; which way of computing each is given is random too, within what its likelihood allows."""
    rng = np.random.default_rng(8)
    dense, few, vfe = Dense(), LowRank(12), LowRank(12, rule="vfe")
    ways: dict[str, list[Any]] = {
        "gaussian": [(Exact(), dense), (Exact(), Vecchia(10)), (Exact(), few), (Exact(), vfe), (EP(), dense), (SVGP(), few)],
        "student_t": [(Laplace(), dense), (EP(), dense), (SVGP(), few)],
        "laplace": [(EP(), dense), (SVGP(), few), (EP(), few)],
        "heteroscedastic": [(Laplace(), dense), (SVGP(), few)],
        "gamma": [(Laplace(), dense), (EP(), dense), (SVGP(), few), (Laplace(), few)],
    }
    for i in range(150):
        name = NAMES[i % len(NAMES)]
        t = table(name, 1000 + i)
        u = units(name, t, rng)
        options = ways[name]
        inference, gram = options[int(rng.integers(len(options)))]
        if name == "gaussian" and t.X.shape[1] == 1 and rng.random() < 0.5:
            gram = Markov()
            inference = Exact()
        label = f"fixed {i}: {name} {type(inference).__name__} {type(gram).__name__} n={len(t.y)} {u}"
        yield Case(label, partial(posterior_case, t, u, inference, gram))
    for i in range(80):
        name = NAMES[i % len(NAMES)]
        t = table(name, 2000 + i, rows=(15, 60) if name == "heteroscedastic" else (15, 120))
        u = units(name, t, rng)
        standardise = bool(rng.random() < 0.75)
        label = f"learned {i}: {name} n={len(t.y)} standardise={standardise} {u}"
        yield Case(label, partial(learned_case, t, u, standardise=standardise))
    for i in range(24):
        method = ("vecchia", "low_rank", "svgp")[i % 3]
        name = ("gaussian", "gamma", "student_t", "laplace")[i // 6] if method == "svgp" else "gaussian"
        t = table(name, 3000 + i, rows=(60, 120))
        u = units(name, t, rng)
        gram: Any = {"vecchia": Vecchia(10), "low_rank": LowRank(15), "svgp": LowRank(10)}[method]
        options = {"inference": SVGP(steps=30)} if method == "svgp" else {}
        yield Case(f"approximate {i}: {name} {method} {u}", partial(approximate_case, t, u, method=gram, **options))
