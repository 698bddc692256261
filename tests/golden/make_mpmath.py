"""Evidence, its gradient and predictions of exact Gaussian-process regression, restated in 50 digits.

Written from the formulas alone (Rasmussen & Williams, 2006: kernels of chapter 4, evidence eq. 2.30, predictions
eqs. 2.25, 2.26 and 2.38), with mpmath and nothing of covary; derivatives are mpmath's, of the evidence itself. Run it to
write ``exact_mpmath.json`` again::

    python tests/golden/make_mpmath.py

Every number of the file is a decimal string. Parameters have the names they have in covary.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mpmath import mp, mpf

DIGITS, PRINTED = 50, 30
FILE = Path(__file__).with_name("exact_mpmath.json")

X = [
    ["-1.375", "0.5"],
    ["-0.8", "-1.1"],
    ["-0.25", "1.9"],
    ["0.1", "0.2"],
    ["0.65", "-0.7"],
    ["1.2", "1.05"],
    ["1.75", "-1.6"],
    ["2.6", "0.35"],
]
Y = ["-0.61", "0.42", "1.37", "0.18", "-0.95", "0.73", "1.88", "-0.27"]
X_NEW = [["-0.5", "0.3"], ["0.1", "0.2"], ["2.0", "-0.45"], ["6.5", "-5.0"]]  # between, on a row, between, far away

Point = list[Any]
Values = dict[str, Any]


def scaled_square(x: Point, z: Point, lengthscale: list[Any]) -> Any:
    """r² = Σ (x_k − z_k)² / ℓ_k²."""
    return sum(((a - b) / l) ** 2 for a, b, l in zip(x, z, lengthscale, strict=True))


def three_terms(x: Point, z: Point, v: Values) -> Any:
    """A Matérn-5/2 (eq. 4.17), a periodic (eq. 4.31) on the first column, and a rational quadratic (eq. 4.19) kernel."""
    r = mp.sqrt(5 * scaled_square(x, z, [v["0.lengthscale[0]"], v["0.lengthscale[1]"]]))
    matern = (1 + r + r**2 / 3) * mp.exp(-r)
    wave = mp.sin(mp.pi * (x[0] - z[0]) / v["1.period"]) ** 2
    periodic = mp.exp(-2 * wave / v["1.lengthscale"] ** 2)
    s = scaled_square(x, z, [v["2.lengthscale"]] * 2)
    rational = (1 + s / (2 * v["2.alpha"])) ** (-v["2.alpha"])
    return v["0.variance"] * matern + v["1.variance"] * periodic + v["2.variance"] * rational


def squared_exponential(x: Point, z: Point, v: Values) -> Any:
    """Eq. 4.9 with one length-scale per column."""
    return v["variance"] * mp.exp(-scaled_square(x, z, [v["lengthscale[0]"], v["lengthscale[1]"]]) / 2)


def neural_network(x: Point, z: Point, v: Values) -> Any:
    """Eq. 4.29 with Σ = diag(b, ℓ⁻²)."""

    def inner(p: Point, q: Point) -> Any:
        return 2 * (v["bias"] + sum(a * b for a, b in zip(p, q, strict=True)) / v["lengthscale"] ** 2)

    return v["variance"] * 2 / mp.pi * mp.asin(inner(x, z) / mp.sqrt((1 + inner(x, x)) * (1 + inner(z, z))))


CASES: dict[str, tuple[str, Callable[[Point, Point, Values], Any], dict[str, str]]] = {
    "three terms": (
        "1.7 * Matern52(lengthscale=[0.8, 1.9]) + 0.4 * Columns(Periodic(lengthscale=1.1, period=2.3), columns=[0])"
        " + 0.2 * RationalQuadratic(lengthscale=0.6, alpha=0.9)",
        three_terms,
        {
            "0.variance": "1.7",
            "0.lengthscale[0]": "0.8",
            "0.lengthscale[1]": "1.9",
            "1.variance": "0.4",
            "1.lengthscale": "1.1",
            "1.period": "2.3",
            "2.variance": "0.2",
            "2.lengthscale": "0.6",
            "2.alpha": "0.9",
        },
    ),
    "squared exponential": (
        "1.3 * SquaredExponential(lengthscale=[0.7, 2.1])",
        squared_exponential,
        {"variance": "1.3", "lengthscale[0]": "0.7", "lengthscale[1]": "2.1"},
    ),
    "neural network": (
        "2.4 * NeuralNetwork(lengthscale=0.45, bias=1.6)",
        neural_network,
        {"variance": "2.4", "lengthscale": "0.45", "bias": "1.6"},
    ),
}


def numbers(table: list[list[str]]) -> list[Point]:
    """A table of decimal strings as numbers."""
    return [[mpf(entry) for entry in row] for row in table]


def covariance(k: Callable[..., Any], v: Values, rows: list[Point], noise: Any) -> Any:
    """K + σ² I."""
    A = mp.matrix(len(rows))
    for i, x in enumerate(rows):
        for j, z in enumerate(rows):
            A[i, j] = k(x, z, v) + (noise if i == j else 0)
    return A


def log_evidence(k: Callable[..., Any], v: Values, mean: Any, noise: Any) -> Any:
    """Eq. 2.30, with the determinant and the quadratic form from one Cholesky factor."""
    L = mp.cholesky(covariance(k, v, numbers(X), noise))
    half = mp.lu_solve(L, mp.matrix([mpf(y) - mean for y in Y]))
    n = len(Y)
    return -(half.T * half)[0] / 2 - sum(mp.log(L[i, i]) for i in range(n)) - n * mp.log(2 * mp.pi) / 2


def gradient(k: Callable[..., Any], v: Values, mean: Any, noise: Any) -> Values:
    """The derivative of the evidence over every parameter, by mpmath's differentiation."""
    out = {f"kernel.{name}": mp.diff(lambda t, name=name: log_evidence(k, v | {name: t}, mean, noise), v[name]) for name in v}
    out["mean.value"] = mp.diff(lambda t: log_evidence(k, v, t, noise), mean)
    out["likelihood.variance"] = mp.diff(lambda t: log_evidence(k, v, mean, t), noise)
    return out


def predictions(k: Callable[..., Any], v: Values, mean: Any, noise: Any) -> dict[str, list[Any]]:
    """Eqs. 2.38 (a fixed mean), 2.25 and 2.26, through the inverse; the joint covariance row by row."""
    rows, new = numbers(X), numbers(X_NEW)
    inverse = covariance(k, v, rows, noise) ** -1
    residual = mp.matrix([mpf(y) - mean for y in Y])
    cross = [mp.matrix([k(x, z, v) for x in rows]) for z in new]
    joint = [
        [k(a, b, v) - (p.T * inverse * q)[0] for b, q in zip(new, cross, strict=True)] for a, p in zip(new, cross, strict=True)
    ]
    variance = [joint[i][i] for i in range(len(new))]
    return {
        "mean": [mean + (q.T * inverse * residual)[0] for q in cross],
        "f_variance": variance,
        "y_variance": [s + noise for s in variance],
        "f_covariance": joint,
    }


def text(value: Any) -> Any:
    """Numbers as decimal strings, inside lists and dictionaries too."""
    if isinstance(value, dict):
        return {name: text(item) for name, item in value.items()}
    return [text(item) for item in value] if isinstance(value, list) else mp.nstr(value, PRINTED)


def case(name: str, mean: str = "0.3", noise: str = "0.04") -> dict[str, Any]:
    """Everything about one kernel."""
    kernel, k, given = CASES[name]
    with mp.workdps(DIGITS):
        v = {path: mpf(value) for path, value in given.items()}
        m, s = mpf(mean), mpf(noise)
        return {
            "kernel": kernel,
            "mean": mean,
            "noise": noise,
            "log_evidence": text(log_evidence(k, v, m, s)),
            "gradient": text(gradient(k, v, m, s)),
            "predictions": text(predictions(k, v, m, s)),
        }


def main() -> None:
    """Write the file."""
    table = {"X": X, "y": Y, "X_new": X_NEW, "cases": {name: case(name) for name in CASES}}
    FILE.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
