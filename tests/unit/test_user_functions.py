"""User-defined functions in model files: stored by name, supplied again to ``load``, rejected by ``save`` without a name."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from covary import GPClassifier, GPRegressor, load
from covary._checks import CovaryError
from covary.distributions import LogNormal, Normal
from covary.files import BadFile, NeedsFunctions
from covary.files.pages import functions_of
from covary.inference import Laplace
from covary.kernels import BasisFunctions, Function, FunctionField, Mapped, Matern52, Spectral, VaryingLengthscale
from covary.means import Function as MeanFunction
from covary.means.basis import BasisMean
from covary.models import FeatureKernel
from covary.parameters import bounded, fixed

RNG = np.random.default_rng(3)
X, NEW = RNG.normal(size=(30, 2)), RNG.normal(size=(9, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=30)
FAST = {"n_restarts": 0, "random_state": 0}


def warp(x, z, strength):
    return strength * (x * z).sum()


def test_a_user_s_function_is_given_again(tmp_path: Path) -> None:
    kernel = 2.0 * Function(warp, parameters={"strength": 0.3}) + Matern52()
    model = GPRegressor(kernel, **FAST).fit(X, Y)
    model.save(tmp_path / "m.covary")
    with pytest.raises(BadFile, match=r"uses the function 'warp' of the program that saved it; pass functions={'warp': warp}"):
        load(tmp_path / "m.covary")
    with pytest.raises(CovaryError, match="is not a dict of functions by name"):
        load(tmp_path / "m.covary", functions={"warp": 3.0})  # type: ignore[dict-item]
    np.testing.assert_array_equal(load(tmp_path / "m.covary", functions={"warp": warp}).predict(NEW), model.predict(NEW))
    with pytest.raises(BadFile, match="is inconsistent about the predictions"):
        load(tmp_path / "m.covary", functions={"warp": lambda x, z, strength: strength * (x * z).sum() ** 2})


def slope(x):
    return 0.5 * x[0]


def bent(x, power):
    return jnp.abs(x).sum() ** power


def table_of(x):
    return np.column_stack([np.ones(len(x)), x[:, 0]])


def stretched(x, by):
    return x * by


def wide(x, grows):
    return jnp.exp(grows * x[:, 0])


def falling(s, width):
    return 1 / (1 + (s / width) ** 2)


OWN = {
    "a plain mean": lambda: GPRegressor("Matern52()", mean=slope, fixed="*", **FAST),
    "a mean with parameters": lambda: GPRegressor(
        "Matern52()", mean=MeanFunction(bent, parameters={"power": fixed(1.5)}), fixed="*", **FAST
    ),
    "basis functions": lambda: GPRegressor(
        "Matern52()", mean=BasisMean(table_of, weights=bounded([1.0, 2.0], -9.0, np.inf)), fixed="*", **FAST
    ),
    "a map": lambda: GPRegressor(Mapped(Matern52(), stretched, parameters={"by": 2.0}), fixed="*", **FAST),
    "a field": lambda: GPRegressor(VaryingLengthscale(FunctionField(wide, parameters={"grows": 0.1})), fixed="*", **FAST),
    "a density": lambda: GPRegressor(Spectral(falling, highest=2.0, nodes=16, parameters={"width": 0.3}), fixed="*", **FAST),
    "features": lambda: GPRegressor(BasisFunctions(stretched, parameters={"by": 1.0}), mean=slope, fixed="*", **FAST),
    "classes": lambda: GPClassifier(
        Mapped(Matern52(), stretched, parameters={"by": 2.0}), mean=slope, fixed="*", random_state=0
    ),
}


@pytest.mark.parametrize("name", OWN)
def test_functions_are_stored_by_name(name: str, tmp_path: Path) -> None:
    model = OWN[name]().fit(X, Y > 0 if name == "classes" else Y)
    model.save(tmp_path / "m.covary")
    with pytest.raises(NeedsFunctions, match="of the program that saved it; pass functions="):
        load(tmp_path / "m.covary")
    given = {f.__name__: f for f in (slope, bent, table_of, stretched, wide, falling)}
    again = load(tmp_path / "m.covary", functions=given)
    ask = (lambda m: m.predict_proba(NEW)) if name == "classes" else (lambda m: m.predict(NEW, return_cov=True))
    for got, expected in zip(ask(again), ask(model), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert again.model_ == model.model_
    again.save(tmp_path / "twice.covary")
    assert (tmp_path / "twice.covary").read_bytes() == (tmp_path / "m.covary").read_bytes()


def test_functions_without_a_name_of_their_own_are_refused_by_save(tmp_path: Path) -> None:
    def slope(x):  # another function of the same name
        return x[1]

    class Callable:
        def __call__(self, x):
            return x[0]

    path = tmp_path / "m.covary"
    for mean, message in [
        (lambda x: x.sum(), "the model uses a lambda as a function; write it with def"),
        (Callable(), "a Callable without a name"),
        (functools.partial(bent, power=2.0), "a partial without a name"),
    ]:
        with pytest.raises(CovaryError, match=message):
            GPRegressor("Matern52()", mean=mean, fixed="*", **FAST).fit(X, Y).save(path)
    with pytest.raises(CovaryError, match="functions written with def"):
        GPRegressor(Mapped(Matern52(), lambda x: 2 * x), fixed="*", **FAST).fit(X, Y).save(path)
    with pytest.raises(CovaryError, match="two functions named 'slope'; give them different names"):
        functions_of(Matern52() + BasisFunctions(OTHER_SLOPE), MeanFunction(slope))
    with pytest.raises(CovaryError, match=r"save: the kernel contains FeatureKernel, which cannot be stored in a model file"):
        GPRegressor(FeatureKernel(stretched_twice), fixed="*", **FAST).fit(X, Y).save(path)
    assert not path.exists()


class OwnPrior(LogNormal):
    pass


class Gamma(Normal):  # covary has another one of this name
    pass


class OwnLaplace(Laplace):
    pass


def test_classes_of_a_user_s_own_are_refused_by_save(tmp_path: Path) -> None:
    path = tmp_path / "m.covary"
    for prior in (OwnPrior(), Gamma(1.0), [OwnPrior()]):
        model: Any = GPRegressor("Matern52()", priors={"kernel.lengthscale": prior}, **FAST).fit(X, Y)
        with pytest.raises(
            CovaryError, match=r"the prior (OwnPrior|Gamma) is a user's own class; use one of covary.distributions"
        ):
            model.save(path)
    model = GPClassifier("Matern52()", inference=OwnLaplace(), fixed="*").fit(X, Y > 0)
    with pytest.raises(CovaryError, match="the inference OwnLaplace is a user's own class; use one of"):
        model.save(path)
    assert not path.exists()


OTHER_SLOPE = slope


def stretched_twice(x):
    return 2 * x
