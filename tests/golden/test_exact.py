"""Exact regression compared with an independent computation in 50 digits (``make_mpmath.py``)."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from covary import GP, Data, Model, condition, log_evidence, log_evidence_and_grad
from covary.likelihoods import Gaussian
from covary.means import Constant
from covary.parameters import parameters

FILE = Path(__file__).with_name("exact_mpmath.json")
GOLDEN = json.loads(FILE.read_text())
DATA = Data(np.array(GOLDEN["X"], float), np.array(GOLDEN["y"], float))
X_NEW = np.array(GOLDEN["X_new"], float)
CLOSE = {"rtol": 1e-10, "atol": 0.0}
every_case = pytest.mark.parametrize("name", GOLDEN["cases"])


def model_of(case: dict[str, Any]) -> Model:
    prior = GP(case["kernel"], mean=Constant(float(case["mean"])))
    return Model(prior, likelihood=Gaussian(float(case["noise"])))


@every_case
def test_log_evidence_has_ten_digits(name: str) -> None:
    case = GOLDEN["cases"][name]
    assert log_evidence(model_of(case), DATA) == pytest.approx(float(case["log_evidence"]), rel=1e-10, abs=0.0)


@every_case
def test_every_derivative_of_the_evidence_has_ten_digits(name: str) -> None:
    case = GOLDEN["cases"][name]
    value, gradient = log_evidence_and_grad(model_of(case), DATA)
    got = {}
    for path, parameter in parameters(gradient).items():
        many = np.ndim(parameter.value) > 0
        got |= {f"{path}[{i}]" if many else path: float(v) for i, v in enumerate(np.ravel(parameter.value))}
    assert value == pytest.approx(float(case["log_evidence"]), rel=1e-10, abs=0.0)
    assert got == pytest.approx({path: float(v) for path, v in case["gradient"].items()}, rel=1e-10, abs=0.0)


@every_case
def test_predictions_of_f_and_y_have_ten_digits(name: str) -> None:
    case = GOLDEN["cases"][name]
    expected = {key: np.array(value, float) for key, value in case["predictions"].items()}
    got = condition(model_of(case), DATA).predict(X_NEW, covariance=True)
    np.testing.assert_allclose(got.f.mean, expected["mean"], **CLOSE)
    np.testing.assert_allclose(got.y.mean, expected["mean"], **CLOSE)
    np.testing.assert_allclose(got.f.variance, expected["f_variance"], **CLOSE)
    np.testing.assert_allclose(got.y.variance, expected["y_variance"], **CLOSE)
    # entries of the joint covariance may cancel to nearly nothing: ten digits of the diagonal
    scale = np.sqrt(np.outer(expected["f_variance"], expected["f_variance"]))
    np.testing.assert_allclose(got.f.covariance / scale, expected["f_covariance"] / scale, rtol=0.0, atol=1e-10)


def test_the_file_is_what_the_script_writes() -> None:
    spec = importlib.util.spec_from_file_location("make_mpmath", FILE.with_name("make_mpmath.py"))
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert (GOLDEN["X"], GOLDEN["y"], GOLDEN["X_new"]) == (script.X, script.Y, script.X_NEW)
    assert list(script.CASES) == list(GOLDEN["cases"])
    assert {name: script.case(name) for name in script.CASES} == GOLDEN["cases"]
