"""Mauna Loa carbon dioxide, as in the book (R&W, section 5.4.3, eqs. 5.15 to 5.19, figures 5.6 and 5.7).

545 monthly means from March 1958 to December 2003 (Keeling and Whorf). Published: a log evidence of −108.5, eleven
hyperparameters, and a 95 % region 16 ppm wide twenty years ahead. The period is fixed at one year.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from covary import GP, Data, Model, condition, learn, log_evidence
from covary.kernels import Periodic, RationalQuadratic, SquaredExponential, fixed
from covary.likelihoods import Gaussian
from covary.parameters import parameters
from covary.selection.learn import Learned
from covary.selection.starts import starting_values

# path, is it a variance, the book's number (an amplitude for variances), the unit it is printed in, the optimum in digits
TABLE = [
    ("kernel.0.variance", True, "66", 1.0, 65.8),
    ("kernel.0.lengthscale", False, "67", 1.0, 66.9),
    ("kernel.1.variance", True, "2.4", 1.0, 2.398),
    ("kernel.1.0.lengthscale", False, "90", 1.0, 90.2),
    ("kernel.1.1.lengthscale", False, "1.3", 1.0, 1.337),
    ("kernel.2.variance", True, "0.66", 1.0, 0.664),
    ("kernel.2.lengthscale", False, "1.2", 1.0, 1.165),
    ("kernel.2.alpha", False, "0.78", 1.0, 0.782),
    ("kernel.3.variance", True, "0.18", 1.0, 0.183),
    ("kernel.3.lengthscale", False, "1.6", 1 / 12, 1.58),
    ("likelihood.variance", True, "0.19", 1.0, 0.188),
]
MODEL = Model(
    GP(
        66.0**2 * SquaredExponential(67.0)
        + 2.4**2 * (SquaredExponential(90.0) * Periodic(1.3, period=fixed(1.0)))
        + 0.66**2 * RationalQuadratic(1.2, alpha=0.78)
        + 0.18**2 * SquaredExponential(1.6 / 12)
    ),
    likelihood=Gaussian(0.19**2),
)


def printed(model: Model) -> dict[str, float]:
    """The eleven numbers as the book prints them: amplitudes, years, and months for the last length-scale."""
    found = parameters(model)
    return {path: float(found[path].value) ** (0.5 if squared else 1.0) / unit for path, squared, _, unit, _ in TABLE}


@pytest.fixture(scope="module")
def data(shared_data: Path) -> Data:
    table = pd.read_csv(shared_data / "timeseries" / "mauna_loa_1958_2004.csv.gz")
    table = table[table["year"] <= 2003]
    x, y = (table["year"] + (table["month"] - 0.5) / 12).to_numpy(), table["co2_ppm"].to_numpy()
    assert len(table) == 545
    assert y.mean() == pytest.approx(341.387, abs=1e-3)
    return Data(x[:, None], y - y.mean())


@pytest.fixture(scope="module")
def learned(data: Data) -> Callable[[], Learned]:
    """Learns once, in the first test that calls it."""
    return cache(lambda: learn(MODEL, data))


def test_evidence_at_the_published_values(data: Data) -> None:
    assert log_evidence(MODEL, data) == pytest.approx(-108.63, abs=0.01)


def test_learning_from_the_published_values_reaches_the_published_evidence(learned: Callable[[], Learned]) -> None:
    assert learned().status == "converged"
    assert learned().value == pytest.approx(-108.50, abs=0.1)


@pytest.mark.parametrize(
    ("path", "number", "optimum"), [(row[0], row[2], row[4]) for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_learned_values_agree_with_the_book_to_the_printed_digits(
    learned: Callable[[], Learned], path: str, number: str, optimum: float
) -> None:
    got = printed(learned().model)[path]
    decimals = len(number.partition(".")[2])
    assert f"{got:.{decimals}f}" == number
    assert got == pytest.approx(optimum, rel=0.02)


def test_the_period_stays_fixed(learned: Callable[[], Learned]) -> None:
    assert float(parameters(learned().model)["kernel.1.1.period"].value) == 1.0


def test_the_forecast_twenty_years_ahead_is_sixteen_ppm_wide(learned: Callable[[], Learned], data: Data) -> None:
    """Two standard deviations to either side, of the function and of a new observation alike."""
    prediction = condition(learned(), data).predict(data.X.x[-1:] + 20.0)
    assert 4 * prediction.f.std[0] == pytest.approx(16.0, abs=1.0)
    assert 4 * prediction.y.std[0] == pytest.approx(16.0, abs=1.0)
    assert prediction.f.std[0] < prediction.y.std[0]


def test_learning_from_its_own_starting_values_finds_the_same_optimum(data: Data, learned: Callable[[], Learned]) -> None:
    start = starting_values(MODEL, data)
    assert log_evidence(start, data) < -300.0  # the published numbers are not in it
    own = learn(start, data, n_restarts=2, key=0)
    assert len(own.restarts) == 3
    assert own.value >= -109.0
    assert np.log(list(printed(own.model).values())) == pytest.approx(np.log(list(printed(learned().model).values())), abs=0.05)
