"""The table of kernels that the tests in this folder use: a new kernel is one new row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from covary import kernels as ks
from laws import reference as ref
from laws import rows_located, rows_stationary


@dataclass(frozen=True)
class KernelRow:
    """A kernel on ``columns`` input columns, and the same covariance in plain NumPy."""

    name: str
    columns: int
    kernel: Any
    reference: Callable[[np.ndarray, np.ndarray], np.ndarray]
    told: tuple[float, bool] | None = None  # smoothness and stationarity, if given by the row
    rows: Callable[[int, int], np.ndarray] | None = None  # inputs on which the kernel is valid

    @property
    def smoothness(self) -> float:
        """Number of mean-square derivatives of the process, from the book (section 4.2.1), not from the kernel."""
        if self.told is not None:
            return self.told[0]
        finite = {"Matern12": 0, "Matern32": 1, "Matern52": 2, "Wiener": 0, "Columns-Wiener": 0, "Sum-rough": 0}
        finite |= {"Function": 0, "tensor": 2, "IntegratedWiener": 1}
        return finite.get(self.name.removesuffix("-ard"), np.inf)

    @property
    def stationary(self) -> bool:
        """Whether k depends on x - x' only, from the book (table 4.1); False for plain functions."""
        if self.told is not None:
            return self.told[1]
        located = ("Linear", "Polynomial", "NeuralNetwork", "Wiener", "IntegratedWiener", "Columns-Wiener", "Function")
        return self.name != "Sum" and not self.name.startswith(located)

    @property
    def id(self) -> str:
        """The name shown by pytest."""
        return f"{self.name}-d{self.columns}"

    def inputs(self, n: int = 12, seed: int = 0) -> np.ndarray:
        """Return rows on which the kernel is valid (non-negative), the last one equal to the first and one at zero."""
        if self.rows is not None:
            return self.rows(n, seed)
        x = np.random.default_rng(seed).uniform(0.05, 2.5, (n, self.columns))
        x[1], x[-1] = 0.0, x[0]
        return x


def laplacian(x: Any, z: Any, scale: Any) -> Any:
    """The function in the Function rows."""
    return jnp.exp(-jnp.abs(x - z).sum() / scale)


def dot(x: Any, z: Any) -> Any:
    """A smooth function of two points without parameters."""
    return x @ z + (x @ z) ** 2


def _leaves(d: int) -> list[tuple[str, Any, Callable[[Any, Any], Any]]]:
    ell = np.array([0.6, 1.7, 0.9])[:d]
    period = np.array([1.3, 2.9, 4.1])[:d]
    rows = [
        ("Constant", ks.Constant(), ref.constant),
        ("Linear", ks.Linear(lengthscale=1.4), lambda X, Z: ref.linear(X, Z, 1.4)),
        ("Linear-ard", ks.Linear(lengthscale=ell), lambda X, Z: ref.linear(X, Z, ell)),
        ("Polynomial-2", ks.Polynomial(2, bias=0.3), lambda X, Z: ref.polynomial(X, Z, 2, 0.3, 1.0)),
        ("Polynomial-3", ks.Polynomial(3, bias=0.7, lengthscale=ell), lambda X, Z: ref.polynomial(X, Z, 3, 0.7, ell)),
        ("SquaredExponential", ks.SquaredExponential(lengthscale=0.8), lambda X, Z: ref.squared_exponential(X, Z, 0.8)),
        ("SquaredExponential-ard", ks.SquaredExponential(lengthscale=ell), lambda X, Z: ref.squared_exponential(X, Z, ell)),
        ("Matern12", ks.Matern12(lengthscale=0.8), lambda X, Z: ref.matern(X, Z, 0.5, 0.8)),
        ("Matern12-ard", ks.Matern12(lengthscale=ell), lambda X, Z: ref.matern(X, Z, 0.5, ell)),
        ("Matern32", ks.Matern32(lengthscale=0.8), lambda X, Z: ref.matern(X, Z, 1.5, 0.8)),
        ("Matern32-ard", ks.Matern32(lengthscale=ell), lambda X, Z: ref.matern(X, Z, 1.5, ell)),
        ("Matern52", ks.Matern52(lengthscale=0.8), lambda X, Z: ref.matern(X, Z, 2.5, 0.8)),
        ("Matern52-ard", ks.Matern52(lengthscale=ell), lambda X, Z: ref.matern(X, Z, 2.5, ell)),
        (
            "RationalQuadratic",
            ks.RationalQuadratic(lengthscale=0.8, alpha=0.6),
            lambda X, Z: ref.rational_quadratic(X, Z, 0.6, 0.8),
        ),
        (
            "RationalQuadratic-ard",
            ks.RationalQuadratic(lengthscale=ell, alpha=2.5),
            lambda X, Z: ref.rational_quadratic(X, Z, 2.5, ell),
        ),
        ("Periodic", ks.Periodic(lengthscale=1.2, period=1.7), lambda X, Z: ref.periodic(X, Z, 1.2, 1.7)),
        ("Periodic-ard", ks.Periodic(lengthscale=ell, period=period), lambda X, Z: ref.periodic(X, Z, ell, period)),
        ("Cosine", ks.Cosine(period=2.3), lambda X, Z: ref.cosine(X, Z, 2.3)),
        ("Cosine-ard", ks.Cosine(period=period), lambda X, Z: ref.cosine(X, Z, period)),
        ("NeuralNetwork", ks.NeuralNetwork(lengthscale=0.8, bias=0.4), lambda X, Z: ref.neural_network(X, Z, 0.8, 0.4)),
        ("NeuralNetwork-ard", ks.NeuralNetwork(lengthscale=ell, bias=1.6), lambda X, Z: ref.neural_network(X, Z, ell, 1.6)),
    ]
    if d > 1:
        return rows
    scalar = [row for row in rows if not row[0].endswith("-ard") or row[0] == "Matern12-ard"]  # one such list is enough
    return [*scalar, ("Wiener", ks.Wiener(), ref.wiener), ("IntegratedWiener", ks.IntegratedWiener(), ref.integrated_wiener)]


def _combinations(d: int) -> list[tuple[str, Any, Callable[[Any, Any], Any]]]:
    se, rough = ks.SquaredExponential(lengthscale=0.9), ks.Matern12(lengthscale=1.1)
    last = d - 1

    def se_of(X: Any, Z: Any) -> Any:
        return ref.squared_exponential(X, Z, 0.9)

    def rough_of(X: Any, Z: Any) -> Any:
        return ref.matern(X, Z, 0.5, 1.1)

    return [
        ("Scaled", 2.5 * se, lambda X, Z: 2.5 * se_of(X, Z)),
        ("Power", se**3, lambda X, Z: se_of(X, Z) ** 3),
        ("Sum", 0.5 * se + ks.Linear() + 2.0, lambda X, Z: 0.5 * se_of(X, Z) + ref.linear(X, Z, 1.0) + 2.0),
        ("Sum-rough", se + rough, lambda X, Z: se_of(X, Z) + rough_of(X, Z)),
        (
            "Product",
            1.5 * se * ks.Periodic(lengthscale=0.9, period=1.9),
            lambda X, Z: 1.5 * se_of(X, Z) * ref.periodic(X, Z, 0.9, 1.9),
        ),
        ("Columns", se.on(last), lambda X, Z: se_of(X[:, [last]], Z[:, [last]])),
        ("Columns-Wiener", ks.Wiener().on(last), lambda X, Z: ref.wiener(X[:, [last]], Z[:, [last]])),
        (
            "tensor",
            ks.tensor((se, 0), (ks.Matern52(lengthscale=0.7), list(range(d)))),
            lambda X, Z: se_of(X[:, [0]], Z[:, [0]]) * ref.matern(X, Z, 2.5, 0.7),
        ),
        (
            "Function",
            ks.Function(laplacian, parameters={"scale": 1.3}),
            lambda X, Z: ref.laplacian(X, Z, 1.3),
        ),
        ("Function-smooth", ks.Function(dot, smoothness=np.inf), lambda X, Z: X @ Z.T + (X @ Z.T) ** 2),
    ]


def _told(rows: list[Any]) -> tuple[KernelRow, ...]:
    full = [(*row, *(None,) * (7 - len(row))) for row in rows]
    return tuple(
        KernelRow(name, d, kernel, same, (smooth, still), where) for name, d, kernel, same, smooth, still, where in full
    )


BOOK = tuple(KernelRow(name, d, kernel, same) for d in (1, 3) for name, kernel, same in _leaves(d) + _combinations(d))
STATIONARY, LOCATED = _told(rows_stationary.ROWS), _told(rows_located.ROWS)
EVERY_KERNEL = (*BOOK, *STATIONARY, *LOCATED)
