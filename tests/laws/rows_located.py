"""Rows of the table of kernels: non-stationary, network, structured, categorical and spherical kernels.

``ROWS`` holds (name, columns, kernel, reference, smoothness, stationary, inputs); inputs is None if the default rows are
valid for the kernel, otherwise a function of the number of rows and a seed that returns valid rows.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from covary import kernels as ks
from covary.kernels import categorical, networks, processes, sphere, structure, varying, warped
from laws import reference as ref
from laws import reference_located as own


def _closed(x: np.ndarray) -> np.ndarray:
    """Return the rows with the last one replaced by the first."""
    x[-1] = x[0]
    return x


def unit_rows(n: int = 12, seed: int = 0) -> np.ndarray:
    """Rows inside [0, 1] without its ends, where the variance of a bridge is zero."""
    return _closed(np.random.default_rng(seed).uniform(0.05, 0.95, (n, 1)))


def moving_rows(n: int = 12, seed: int = 0) -> np.ndarray:
    """Rows of three columns of either sign, none at zero."""
    return _closed(np.random.default_rng(seed).uniform(-2.0, 2.0, (n, 3)))


def codes(levels: int, columns: int) -> Any:
    """Rows of codes."""

    def rows(n: int = 12, seed: int = 0) -> np.ndarray:
        return _closed(np.random.default_rng(seed).integers(0, levels, (n, columns)).astype(float))

    return rows


def places(n: int = 12, seed: int = 0) -> np.ndarray:
    """Latitudes and longitudes: with a pole, a pair of antipodes, and places on both sides of the date line."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.rad2deg(np.arcsin(rng.uniform(-0.95, 0.95, n))), rng.uniform(-180.0, 180.0, n)])
    x[1], x[2], x[3], x[4] = (89.5, 10.0), (-30.0, 40.0), (30.0, -140.0), (12.0, 179.5)
    return _closed(x)


# user-defined functions, for both jax.numpy and NumPy


def swinging(x: Any, slope: Any) -> Any:
    """A field with one number per row."""
    return jnp.exp(slope * jnp.sin(x[:, 0]))


def sheared(x: Any, turn: Any) -> Any:
    """A field of full matrices: two length-scales and an angle that changes over the plane."""
    c, s = jnp.cos(turn * x[:, 0]), jnp.sin(turn * x[:, 0])
    long, short = 1.5 + 0.2 * jnp.sin(x[:, 1]), 0.3 * jnp.ones_like(c)
    rows = [[c * c * long + s * s * short, c * s * (long - short)], [c * s * (long - short), s * s * long + c * c * short]]
    return jnp.stack([jnp.stack(row, axis=1) for row in rows], axis=1)


def circle(x: Any, frequency: Any) -> Any:
    """A map that adds columns."""
    return jnp.concatenate([jnp.cos(frequency * x), jnp.sin(frequency * x)], axis=1)


def hinges(x: Any, knot: Any) -> Any:
    """Three basis functions."""
    return jnp.stack([jnp.ones_like(x[:, 0]), x[:, 0], jnp.sin(knot * x[:, 0])], axis=1)


def _sheared(x: np.ndarray, turn: float) -> np.ndarray:
    """The same matrices from rotations."""
    out = []
    for row in x:
        c, s = np.cos(turn * row[0]), np.sin(turn * row[0])
        R = np.array([[c, -s], [s, c]])
        out.append(R @ np.diag([1.5 + 0.2 * np.sin(row[1]), 0.3]) @ R.T)
    return np.array(out)


SQUARE = [[[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, -1, 0], [1, 0, 0], [0, 0, 1]], [[-1, 0, 0], [0, -1, 0], [0, 0, 1]]]
SQUARE = [*SQUARE, [[0, 1, 0], [-1, 0, 0], [0, 0, 1]]]  # quarter turns about the third axis
SHEARS = [np.eye(3), [[-1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]  # a group that is not orthogonal
TURNED = [np.eye(2), [[-0.5, -(0.75**0.5)], [0.75**0.5, -0.5]], [[-0.5, 0.75**0.5], [-(0.75**0.5), -0.5]]]


def _se(lengthscale: Any) -> Any:
    return lambda X, Z: ref.squared_exponential(X, Z, lengthscale)


def _networks() -> list[Any]:
    ell = np.array([1.6, 2.7, 1.9])
    rows: list[Any] = []
    for d, scale in ((1, 1.2), (3, ell)):
        rows.append(
            (
                "TanhNetwork",
                d,
                networks.TanhNetwork(scale, bias=0.4, terms=22),
                lambda X, Z, s=scale: own.tanh_network(X, Z, s, 0.4),
                np.inf,
                False,
                None,
            )
        )
        for order in (0, 1, 2):
            rows.append(
                (
                    f"ArcCosine-{order}",
                    d,
                    networks.ArcCosine(order, lengthscale=scale, bias=0.7),
                    lambda X, Z, s=scale, p=order: own.arc_cosine(X, Z, p, s, 0.7),
                    order,
                    False,
                    None,
                )
            )
    return rows


CENTRES = np.random.default_rng(5).uniform(0, 2.5, (4, 3))
ONE = {"centres": [[0.2], [1.1], [2.0]], "width": 0.7, "beta": [0.4, -0.8, 0.3]}
SHARED = {"centres": CENTRES, "width": [1.0, 1.4, 0.9], "beta": [0.4, -0.8, 0.3, 0.2]}
EACH = {"centres": CENTRES, "width": 1.2, "beta": np.random.default_rng(6).normal(size=(3, 4)) / 2}
SLOPE = {"slope": 0.4}


def _one(X: Any) -> Any:
    return own.field(X, **ONE)


def _shared(X: Any) -> Any:
    return own.field(X, **SHARED)


def _each(X: Any) -> Any:
    return own.field(X, **EACH)


def _varying() -> list[Any]:
    rows = [*_varying_lengthscales(), *_paciorek_schervish(), *_modulated(), *_varying_amplitudes(), *_change_points()]
    return [(*row, False, None) for row in rows]


def _varying_lengthscales() -> list[Any]:
    line, ell = varying.GaussianField(**ONE), np.array([0.9, 1.7, 1.2])
    return [
        ("VaryingLengthscale", 1, varying.VaryingLengthscale(line), lambda X, Z: own.gibbs(X, Z, _one), np.inf),
        (
            "VaryingLengthscale",
            3,
            varying.VaryingLengthscale(varying.GaussianField(**SHARED), lengthscale=ell),
            lambda X, Z: own.gibbs(X, Z, lambda V: ell * _shared(V)),
            np.inf,
        ),
        (
            "VaryingLengthscale-ard",
            3,
            varying.VaryingLengthscale(varying.GaussianField(**EACH), lengthscale=1.1),
            lambda X, Z: own.gibbs(X, Z, lambda V: 1.1 * _each(V)),
            np.inf,
        ),
        (
            "VaryingLengthscale-function",
            1,
            varying.VaryingLengthscale(varying.FunctionField(swinging, parameters=SLOPE, smoothness=2), lengthscale=0.5),
            lambda X, Z: own.gibbs(X, Z, lambda V: 0.5 * np.exp(0.4 * np.sin(V))),
            2,
        ),
    ]


def _paciorek_schervish() -> list[Any]:
    def squares(scales: Any) -> Any:
        return lambda X: np.array([np.diag(r**2) for r in scales(X)])

    def matern32(r: Any) -> Any:
        return (1 + np.sqrt(3) * r / 1.3) * np.exp(-np.sqrt(3) * r / 1.3)

    def mixed(r: Any) -> Any:
        return 0.7 * np.exp(-r / 0.9) + np.exp(-(r**2) / 2) ** 2

    matern, line = ks.Matern32(lengthscale=1.3), varying.GaussianField(**ONE)
    mixture = 0.7 * ks.Matern12(lengthscale=0.9) + ks.SquaredExponential() ** 2
    return [
        (
            "PaciorekSchervish",
            1,
            varying.PaciorekSchervish(matern, line),
            lambda X, Z: own.paciorek_schervish(X, Z, matern32, squares(_one)),
            1,
        ),
        (
            "PaciorekSchervish-shared",
            3,
            varying.PaciorekSchervish(mixture, varying.GaussianField(**SHARED)),
            lambda X, Z: own.paciorek_schervish(X, Z, mixed, squares(_shared)),
            0,
        ),
        (
            "PaciorekSchervish-ard",
            3,
            varying.PaciorekSchervish(matern, varying.GaussianField(**EACH)),
            lambda X, Z: own.paciorek_schervish(X, Z, matern32, squares(_each)),
            1,
        ),
        (
            "PaciorekSchervish-full",
            2,
            varying.PaciorekSchervish(matern, varying.FunctionField(sheared, parameters={"turn": 0.7})),
            lambda X, Z: own.paciorek_schervish(X, Z, matern32, lambda V: _sheared(V, 0.7)),
            1,
        ),
    ]


def _modulated() -> list[Any]:
    return [
        (
            "ModulatedSquaredExponential",
            d,
            varying.ModulatedSquaredExponential(0.8, spread=spread),
            lambda X, Z, s=spread: own.modulated_squared_exponential(X, Z, 0.8, s),
            np.inf,
        )
        for d, spread in ((1, 1.5), (3, np.array([1.5, 2.5, 4.0])))
    ]


def _varying_amplitudes() -> list[Any]:
    return [
        (
            "VaryingAmplitude",
            3,
            varying.VaryingAmplitude(ks.Matern52(lengthscale=0.7), varying.GaussianField(**SHARED)),
            lambda X, Z: np.outer(_shared(X)[:, 0], _shared(Z)[:, 0]) * ref.matern(X, Z, 2.5, 0.7),
            2,
        ),
        (
            "VaryingAmplitude-function",
            1,
            varying.VaryingAmplitude(ks.SquaredExponential(), varying.FunctionField(swinging, parameters=SLOPE)),
            lambda X, Z: np.exp(0.4 * np.add.outer(np.sin(X[:, 0]), np.sin(Z[:, 0]))) * _se(1.0)(X, Z),
            np.inf,
        ),
    ]


def _change_points() -> list[Any]:
    return [
        (
            "ChangePoint",
            d,
            varying.ChangePoint(1.5 * ks.Matern32(lengthscale=0.6), ks.SquaredExponential(), at=1.2, width=0.3, column=d - 1),
            lambda X, Z, c=d - 1: own.change_point(X, Z, lambda A, B: 1.5 * ref.matern(A, B, 1.5, 0.6), _se(1.0), 1.2, 0.3, c),
            1,
        )
        for d in (1, 3)
    ]


def _warped() -> list[Any]:
    centres, beta = [0.0, 0.8, 1.6, 2.4], [0.3, -0.5, 0.4, 0.1]
    many = np.random.default_rng(8).normal(size=(3, 4)) / 2
    places_of = np.sort(np.random.default_rng(9).uniform(0, 2.5, (3, 4)))
    width = [0.8, 1.0, 0.7]
    rows = [
        (
            "Warped",
            1,
            warped.Warped(ks.SquaredExponential(), centres=centres, width=0.8, beta=beta),
            lambda X, Z: _se(1.0)(own.warp(X, centres, 0.8, beta), own.warp(Z, centres, 0.8, beta)),
            np.inf,
        ),
        (
            "Warped",
            3,
            warped.Warped(ks.Matern52(lengthscale=[1.0, 1.5, 2.0]), centres=places_of, width=width, beta=many),
            lambda X, Z: ref.matern(
                own.warp(X, places_of, width, many), own.warp(Z, places_of, width, many), 2.5, [1.0, 1.5, 2.0]
            ),
            2,
        ),
        (
            "Warped-shared",
            3,
            warped.Warped(ks.Matern12(), centres=centres, beta=beta),
            lambda X, Z: ref.matern(own.warp(X, centres, 1.0, beta), own.warp(Z, centres, 1.0, beta), 0.5, 1.0),
            0,
        ),
        (
            "Mapped",
            1,
            warped.Mapped(ks.SquaredExponential(lengthscale=0.8), circle, parameters={"frequency": 1.7}),
            lambda X, Z: ref.periodic(X, Z, 0.8, 2 * np.pi / 1.7),
            np.inf,
        ),
        (
            "Mapped",
            3,
            warped.Mapped(ks.Matern32(lengthscale=0.8), circle, parameters={"frequency": 0.6}),
            lambda X, Z: ref.matern(*(np.concatenate([np.cos(0.6 * V), np.sin(0.6 * V)], axis=1) for V in (X, Z)), 1.5, 0.8),
            1,
        ),
    ]
    return [(*row, False, None) for row in rows]


def _structured() -> list[Any]:
    return [*_invariant(), *_of_basis_functions(), *_additive()]


def _invariant() -> list[Any]:
    ell = np.array([0.9, 1.7, 1.2])
    return [
        (
            "Invariant",
            3,
            structure.Invariant(ks.Matern52(lengthscale=0.8), group=SQUARE),
            lambda X, Z: own.invariant(X, Z, lambda A, B: ref.matern(A, B, 2.5, 0.8), SQUARE),
            2,
            False,
            moving_rows,
        ),
        (
            "Invariant-ard",
            3,
            structure.Invariant(ks.SquaredExponential(lengthscale=ell), group=SQUARE),
            lambda X, Z: own.invariant(X, Z, _se(ell), SQUARE),
            np.inf,
            False,
            moving_rows,
        ),
        (
            "Invariant-shears",
            3,
            structure.Invariant(ks.SquaredExponential() + ks.Linear(), group=SHEARS),
            lambda X, Z: own.invariant(X, Z, lambda A, B: _se(1.0)(A, B) + A @ B.T, SHEARS),
            np.inf,
            False,
            moving_rows,
        ),
        (
            "Invariant-even",
            1,
            structure.Invariant(ks.Matern12(lengthscale=0.8), group=[[[1.0]], [[-1.0]]]),
            lambda X, Z: own.invariant(X, Z, lambda A, B: ref.matern(A, B, 0.5, 0.8), [[[1.0]], [[-1.0]]]),
            0,
            False,
            None,
        ),
        (
            "Invariant-printed",
            2,
            structure.Invariant(ks.SquaredExponential(lengthscale=2.0), group=TURNED, form="printed"),
            lambda X, Z: own.printed_symmetry(X, Z, TURNED, 2.0),
            np.inf,
            False,
            None,
        ),
    ]


def _of_basis_functions() -> list[Any]:
    ell, centres = np.array([0.9, 1.7, 1.2]), np.random.default_rng(7).uniform(0, 2.5, (6, 3))
    weight = np.array([0.5, 1.2, 0.3, 0.9, 2.0, 0.7])

    def basis(X: Any, Z: Any) -> Any:
        phi, psi = (np.column_stack([np.ones(len(V)), V[:, 0], np.sin(1.3 * V[:, 0])]) for V in (X, Z))
        return phi @ np.diag([0.5, 1.5, 2.0]) @ psi.T

    return [
        (
            "BasisFunctions",
            1,
            structure.BasisFunctions(hinges, weight=[0.5, 1.5, 2.0], parameters={"knot": 1.3}),
            basis,
            np.inf,
            False,
            None,
        ),
        (
            "GaussianBasis",
            1,
            structure.GaussianBasis([0.0, 1.0, 2.0], width=0.8),
            lambda X, Z: own.gaussian_basis(X, Z, [[0.0], [1.0], [2.0]], 0.8, 1.0),
            np.inf,
            False,
            None,
        ),
        (
            "GaussianBasis-ard",
            3,
            structure.GaussianBasis(centres, width=ell, weight=weight),
            lambda X, Z: own.gaussian_basis(X, Z, centres, ell, weight),
            np.inf,
            False,
            None,
        ),
    ]


def _additive() -> list[Any]:
    ell = np.array([0.9, 1.7, 1.2])

    def column(k: int, x: Any, z: Any) -> Any:
        return ref.squared_exponential(x, z, ell[k])

    def same(k: int, x: Any, z: Any) -> Any:
        return ref.matern(x, z, 1.5, 0.8)

    return [
        (
            "Additive",
            3,
            structure.Additive(ks.SquaredExponential(lengthscale=ell), orders=3, weight=[0.5, 1.5, 0.8]),
            lambda X, Z: own.additive(X, Z, column, (1, 2, 3), (0.5, 1.5, 0.8)),
            np.inf,
            True,
            None,
        ),
        (
            "Additive-shared",
            3,
            structure.Additive(ks.Matern32(lengthscale=0.8), orders=[2], weight=0.6),
            lambda X, Z: own.additive(X, Z, same, (2,), (0.6,)),
            1,
            True,
            None,
        ),
        (
            "Normalised",
            3,
            structure.Normalised(ks.Polynomial(2, bias=0.7) + ks.SquaredExponential()),
            lambda X, Z: own.normalised(X, Z, lambda A, B: ref.polynomial(A, B, 2, 0.7, 1.0) + _se(1.0)(A, B)),
            np.inf,
            False,
            None,
        ),
    ]


def _processes() -> list[Any]:
    rows = [("BrownianBridge", 1, processes.BrownianBridge(), own.brownian_bridge, 0, False, unit_rows)]
    for d, hurst in ((1, 0.3), (3, 0.7)):
        reference = lambda X, Z, h=hurst: own.fractional_brownian(X, Z, h)  # noqa: E731
        rows.append(("FractionalBrownian", d, processes.FractionalBrownian(hurst), reference, 0, False, None))
    return rows


def _categorical() -> list[Any]:
    factor = np.random.default_rng(4).normal(size=(5, 2))
    waves = np.cos(np.pi * np.outer(np.arange(4) + 0.5, np.arange(2)) / 4)  # the starting value if a single number is given
    rows = [
        ("Hamming", 1, categorical.Hamming(1.7), lambda X, Z: own.hamming(X, Z, 1.7), codes(4, 1)),
        (
            "Hamming-ard",
            3,
            categorical.Hamming([0.8, 1.7, 5.0]),
            lambda X, Z: own.hamming(X, Z, [0.8, 1.7, 5.0]),
            codes(3, 3),
        ),
        (
            "Exchangeable",
            1,
            categorical.Exchangeable(0.35, levels=4),
            lambda X, Z: own.exchangeable(X, Z, 0.35),
            codes(4, 1),
        ),
        (
            "Categories",
            1,
            categorical.Categories(5, rank=2, factor=factor),
            lambda X, Z: own.categories(X, Z, factor),
            codes(5, 1),
        ),
        (
            "Categories-start",
            1,
            categorical.Categories(4, rank=2),
            lambda X, Z: own.categories(X, Z, waves),
            codes(4, 1),
        ),
    ]
    return [(name, d, kernel, reference, 0, False, inputs) for name, d, kernel, reference, inputs in rows]


def _spherical() -> list[Any]:
    def wendland(X: Any, Z: Any) -> Any:
        t = own.great_circle(X, Z) / 2.4
        return (1 + 4 * t) * np.clip(1 - t, 0, None) ** 4

    rows = [
        ("GreatCircle", sphere.GreatCircle(0.8), lambda X, Z: np.exp(-own.great_circle(X, Z) / 0.8), 0),
        ("GreatCircle-wendland", sphere.GreatCircle(2.4, family="wendland"), wendland, 1),
        ("SinePower", sphere.SinePower(0.4), lambda X, Z: 1 - np.sin(own.great_circle(X, Z) / 2) ** 0.8, 0),
        (
            "OnSphere",
            sphere.OnSphere(ks.Matern52(lengthscale=0.7)),
            lambda X, Z: ref.matern(own.on_sphere(X), own.on_sphere(Z), 2.5, 0.7),
            2,
        ),
    ]
    return [(name, 2, kernel, reference, smoothness, False, places) for name, kernel, reference, smoothness in rows]


ROWS = [*_networks(), *_varying(), *_warped(), *_structured(), *_processes(), *_categorical(), *_spherical()]
