"""Sixty labelled points in the plane, and one fit of every kind of classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from covary import GPClassifier

RNG = np.random.default_rng(7)
QUICK: dict[str, Any] = {"random_state": 0}
HELD = "2.0*Matern52(lengthscale=[1.5, 3.0]) + 1.0*Constant()"


def hill(x: np.ndarray) -> np.ndarray:
    return 2.0 * np.sin(1.5 * x[:, 0]) + 0.5 * x[:, 1]


X = RNG.uniform(-3.0, 3.0, (60, 2))
NEW = RNG.uniform(-3.0, 3.0, (40, 2))
UP = RNG.random(60) < expit(2 * hill(X))
TWO = np.where(UP, "yes", "no")
THREE = np.array(["low", "middle", "top"])[np.digitize(hill(X) + 0.5 * RNG.normal(size=60), [-0.7, 0.7])]
KINDS: dict[str, tuple[dict[str, Any], np.ndarray]] = {
    "two": ({}, TWO),
    "probit": ({"link": "probit"}, TWO),
    "EP": ({"inference": "ep"}, TWO),
    "shared": ({"class_kernels": "shared"}, THREE),
    "separate": ({"class_kernels": "separate"}, THREE),
    "one against the rest": ({"multi_class": "one_vs_rest"}, THREE),
    "one against the rest, EP": ({"multi_class": "one_vs_rest", "inference": "ep"}, THREE),
}
FITTED: dict[str, GPClassifier] = {}


def fitted(name: str) -> GPClassifier:
    """One fit of every kind, made when it is first asked for."""
    if name not in FITTED:
        options, y = KINDS[name]
        FITTED[name] = GPClassifier(**options, **QUICK).fit(X, y)
    return FITTED[name]


def same(a: Any, b: Any, X: Any = NEW) -> None:
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))
