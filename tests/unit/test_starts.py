"""Starting values: every kernel of the catalogue starts at the scales of the data, in any units."""

from __future__ import annotations

import numpy as np
import pytest

from covary import GP, Data, Model, learn
from covary.likelihoods import Gaussian
from covary.parameters import parameters
from covary.selection.objectives import log_evidence
from covary.selection.starts import ordering, starting_values

KERNELS = [
    "2*Matern52()",
    "2*PiecewisePolynomial(columns=1)",
    "2*Normalised(Matern52())",
    "2*Periodised(Matern52(lengthscale=0.3))",
    "2*ChangePoint(Matern52(), Matern32(), at=0.0, width=1.0)",
    "2*Additive(SquaredExponential())",
    "2*FactorMetric(SquaredExponential(), loadings=[[1.0]], lengthscale=1.0)",
    "2*SquaredExponentialMixture()",
    "2*SpectralMixture([1.0, 1.0], means=[0.1, 1.0], scales=[1.0, 1.0])",
    "2*TanhNetwork()",
    "2*ArcCosine()",
    "2*Normalised(Matern52() * Periodic())",
]


def drawn(unit: float, origin: float = 0.0) -> Data:
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 10, 60))
    return Data((origin + unit * t)[:, None], 5 * np.sin(2 * t) + 0.3 * rng.normal(size=60))


def started(text: str, data: Data) -> Model:
    return starting_values(Model(GP(text), likelihood=Gaussian(1.0)), data)


@pytest.mark.parametrize("text", KERNELS)
def test_units_change_nothing(text: str) -> None:
    """In units a million times smaller the same model starts, so the evidence is the same number."""
    small, large = drawn(1.0), drawn(1e6)
    a, b = (log_evidence(started(text, d), d) for d in (small, large))
    assert a == pytest.approx(b, abs=1e-5)
    if "Tanh" not in text and "ArcCosine" not in text:  # those have an origin
        far = drawn(1.0, origin=500.0)
        assert log_evidence(started(text, far), far) == pytest.approx(a, abs=1e-4)


SEARCHED = [k for k in KERNELS if not any(name in k for name in ("Tanh", "ArcCosine", "Periodised"))]  # a period must be known


@pytest.mark.parametrize("text", SEARCHED)
def test_a_search_from_there_finds_the_wave(text: str) -> None:
    """Three periods of a sine under little noise: no kernel gets stuck in calling it noise."""
    data = drawn(1e6)
    alone = -0.5 * data.rows * (np.log(2 * np.pi * data.y.var()) + 1)
    assert learn(started(text, data), data).value > alone + 30


def test_a_change_point_begins_in_the_middle_of_its_own_column() -> None:
    x = np.stack([np.linspace(0, 1, 30), np.linspace(100, 300, 30)], axis=1)
    kernel = "ChangePoint(Matern52(), Linear(), at=0.0, width=1.0, column=1)"
    found = parameters(starting_values(Model(GP(kernel)), Data(x, np.arange(30.0))).kernel)
    assert float(found["at"].value) == 200.0
    assert float(found["width"].value) == 10.0


def test_fixed_numbers_inside_stay() -> None:
    data = drawn(1e3)
    model = started("2*Normalised(Matern52(lengthscale=fixed(7.0)))", data)
    assert float(parameters(model.kernel)["lengthscale"].value) == 7.0


# rows in the order of a column ----------------------------------------------------------------------------------------
def series(rows: int = 240, columns: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A season round a trend along the last column, the others noise; rows in no order."""
    rng = np.random.default_rng(seed)
    t = np.arange(rows) / 12
    y = 0.3 * t + np.sin(2 * np.pi * t) + 0.2 * rng.normal(size=rows)
    shuffled = rng.permutation(rows)
    return np.column_stack([rng.normal(size=(rows, columns - 1)), t])[shuffled], y[shuffled]


@pytest.mark.parametrize(("unit", "origin"), [(1.0, 1958.0), (1e6, 0.0), (-1.0, 0.0)])
def test_a_time_is_found_among_other_columns(unit: float, origin: float) -> None:
    X, y = series()
    model = Model(GP("Matern52()"))
    assert ordering(model, Data(X * [1, 1, unit] + [0, 0, origin], 5 * y)) == [2]
    assert ordering(model, Data(X, np.stack([y, -y], axis=1))) == [2]


def test_tables_have_no_order() -> None:
    """Smooth functions of several inputs, noise, constants, few values, few rows, and one column alone."""
    model, rng = Model(GP("Matern52()")), np.random.default_rng(1)
    for rows in (40, 300):
        x = rng.uniform(size=(rows, 3))
        for y in (np.sin(6 * x[:, 0]) + x[:, 1] ** 2, np.sin(6 * x[:, 0]) * x[:, 2], rng.normal(size=rows), np.ones(rows)):
            assert ordering(model, Data(x, y)) == []
    X, y = series()
    assert ordering(model, Data(np.floor(X), y)) == []
    assert ordering(model, Data(X[:15], y[:15])) == []
    assert ordering(model, Data(X[:, 2:], y)) == []
