"""Kernels as NumPy source: the call of :mod:`covary.export.formulas` that gives the same numbers.

One function per kernel class; what is not registered here cannot be exported and is refused by name.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import jax
import numpy as np

from covary import kernels as ks
from covary._checks import fail
from covary._precision import precision
from covary.kernels.isotropic import _bessel_pieces
from covary.kernels.matern import LOG_U, NODES, NOTHING, PER_OCTAVE, SMOOTH, _polynomial, _series, _split
from covary.kernels.networks import slopes

WHO = "export"


def text(value: Any) -> str:
    """Numbers as source that reads back exactly."""
    return repr(np.asarray(value, np.float64).tolist())


def call(name: str, *arguments: Any) -> str:
    """A call in source."""
    return f"{name}({', '.join(str(a) for a in arguments)})"


@singledispatch
def source(kernel: Any, x: str = "x", z: str = "z", columns: int = 1) -> str:
    """The expression for k(x, z), in terms of two names (or expressions) of stacks of points with so many columns."""
    what = f"the kernel {type(kernel).__name__} is not among those that can be written with NumPy alone"
    raise fail(WHO, what, "fit it with another kernel, or save the model with model.save(...) instead")


def inner(kernel: Any, columns: int) -> str:
    """A kernel as a function in source."""
    return f"lambda x, z: {source(kernel, 'x', 'z', columns)}"


# sums, products, columns ----------------------------------------------------------------------------------------------
@source.register
def _(k: ks.Sum, x: str, z: str, d: int) -> str:
    return "(" + " + ".join(source(t, x, z, d) for t in k.terms) + ")"


@source.register
def _(k: ks.Product, x: str, z: str, d: int) -> str:
    return " * ".join(source(t, x, z, d) for t in k.factors)


@source.register
def _(k: ks.Scaled, x: str, z: str, d: int) -> str:
    return f"{text(k.variance)} * {source(k.kernel, x, z, d)}"


@source.register
def _(k: ks.Power, x: str, z: str, d: int) -> str:
    return f"({source(k.kernel, x, z, d)}) ** {int(k.exponent)}"


@source.register
def _(k: ks.Columns, x: str, z: str, d: int) -> str:
    some = list(k.columns)
    return source(k.kernel, f"{x}[..., {some}]", f"{z}[..., {some}]", len(some))


# functions of distance ------------------------------------------------------------------------------------------------
NAMES = {
    ks.SquaredExponential: "squared_exponential",
    ks.Matern12: "matern12",
    ks.Matern32: "matern32",
    ks.Matern52: "matern52",
    ks.Linear: "linear",
    ks.Hamming: "hamming",
}


@source.register(ks.SquaredExponential)
@source.register(ks.Matern12)
@source.register(ks.Matern32)
@source.register(ks.Matern52)
@source.register(ks.Linear)
@source.register(ks.Hamming)
def _(k: Any, x: str, z: str, d: int) -> str:
    return call(NAMES[type(k)], x, z, text(k.lengthscale))


@source.register
def _(k: ks.MaternHalfInteger, x: str, z: str, d: int) -> str:
    return call("matern_half_integer", x, z, text(_polynomial(int(k.order))), text(k.lengthscale))


@source.register
def _(k: ks.Matern, x: str, z: str, d: int) -> str:
    near, nodes = matern_numbers(float(k.nu))
    return call("matern", x, z, text(k.nu), near, text(nodes), text(k.lengthscale))


def matern_numbers(nu: float) -> tuple[str, np.ndarray]:
    """The series below 1 (as source, or None) and the weights and rates of the mixture of exponentials."""
    from scipy.special import gammaln

    if nu < SMOOTH:
        with precision(np.float64):
            R, S = np.asarray(_series(jax.numpy.asarray(nu)))
            rest = float(_split(jax.numpy.asarray(nu))[1])
        weights = np.log(2) / PER_OCTAVE * np.exp(nu * LOG_U - np.exp(LOG_U) - gammaln(nu))
        return f"({text(R)}, {text(S)}, {rest!r})", np.stack([weights, np.exp(-LOG_U)], axis=1)
    level = NOTHING - gammaln(nu)
    ends = np.array([-level / nu, np.log(nu + NOTHING + np.sqrt(2 * NOTHING * nu))])
    for _ in range(6):
        ends = ends - (nu * ends - np.exp(ends) + level) / (nu - np.exp(ends))
    v = ends[0] + (ends[1] - ends[0]) * np.linspace(0, 1, NODES)
    weights = np.exp(nu * v - np.exp(v) - (nu * v - np.exp(v)).max())
    return "None", np.stack([weights / weights.sum(), np.exp(-v)], axis=1)


@source.register
def _(k: ks.RationalQuadratic, x: str, z: str, d: int) -> str:
    return call("rational_quadratic", x, z, text(k.lengthscale), text(k.alpha))


@source.register
def _(k: ks.GammaExponential, x: str, z: str, d: int) -> str:
    return call("gamma_exponential", x, z, text(k.lengthscale), text(k.gamma))


@source.register
def _(k: ks.SquaredExponentialMixture, x: str, z: str, d: int) -> str:
    return call("squared_exponential_mixture", x, z, text(k.lengthscales), text(k.weights))


@source.register
def _(k: ks.PiecewisePolynomial, x: str, z: str, d: int) -> str:
    power, coefficients = k._shape(d)
    return call("piecewise_polynomial", x, z, power, text(coefficients), text(k.lengthscale))


@source.register
def _(k: ks.Bessel, x: str, z: str, d: int) -> str:
    end, series, hankel = _bessel_pieces(k.order)
    return call("bessel", x, z, k.order, end, text(series), text(hankel), text(k.lengthscale))


# waves ------------------------------------------------------------------------------------------------------------------
@source.register
def _(k: ks.Periodic, x: str, z: str, d: int) -> str:
    return call("periodic", x, z, text(k.lengthscale), text(k.period))


@source.register
def _(k: ks.Cosine, x: str, z: str, d: int) -> str:
    return call("cosine", x, z, text(k.period))


@source.register
def _(k: ks.SpectralMixture, x: str, z: str, d: int) -> str:
    means, scales = (np.reshape(np.asarray(v), (-1, d)) for v in (k.means, k.scales))
    return call("spectral_mixture", x, z, text(k.weights), text(means), text(scales))


@source.register
def _(k: ks.Spectral, x: str, z: str, d: int) -> str:
    with precision(np.float64):
        frequencies, power = (np.asarray(v) for v in k.power())
    return call("spectral", x, z, text(frequencies), text(power))


@source.register
def _(k: ks.Periodised, x: str, z: str, d: int) -> str:
    return call("periodised", x, z, inner(k.kernel, d), text(k.period), k.terms)


# products, networks, processes, categories, the sphere --------------------------------------------------------------------
@source.register
def _(k: ks.Constant, x: str, z: str, d: int) -> str:
    return call("constant", x, z)


@source.register
def _(k: ks.Polynomial, x: str, z: str, d: int) -> str:
    return call("polynomial", x, z, int(k.degree), text(k.bias), text(k.lengthscale))


@source.register
def _(k: ks.NeuralNetwork, x: str, z: str, d: int) -> str:
    return call("neural_network", x, z, text(k.lengthscale), text(k.bias))


@source.register
def _(k: ks.TanhNetwork, x: str, z: str, d: int) -> str:
    scales, weights = slopes(k.terms)
    return call("tanh_network", x, z, text(k.lengthscale), text(k.bias), text(scales), text(weights))


@source.register
def _(k: ks.ArcCosine, x: str, z: str, d: int) -> str:
    return call("arc_cosine", x, z, k.order, text(k.lengthscale), text(k.bias))


@source.register(ks.Wiener)
@source.register(ks.IntegratedWiener)
@source.register(ks.BrownianBridge)
def _(k: Any, x: str, z: str, d: int) -> str:
    names = {ks.Wiener: "wiener", ks.IntegratedWiener: "integrated_wiener", ks.BrownianBridge: "brownian_bridge"}
    return call(names[type(k)], x, z)


@source.register
def _(k: ks.FractionalBrownian, x: str, z: str, d: int) -> str:
    return call("fractional_brownian", x, z, text(k.hurst))


@source.register
def _(k: ks.Exchangeable, x: str, z: str, d: int) -> str:
    return call("exchangeable", x, z, text(k.correlation), k.levels)


@source.register
def _(k: ks.Categories, x: str, z: str, d: int) -> str:
    return call("categories", x, z, text(k.factor))


@source.register
def _(k: ks.GreatCircle, x: str, z: str, d: int) -> str:
    return call("great_circle", x, z, text(k.lengthscale), repr(k.family))


@source.register
def _(k: ks.SinePower, x: str, z: str, d: int) -> str:
    return call("sine_power", x, z, text(k.hurst))


@source.register
def _(k: ks.OnSphere, x: str, z: str, d: int) -> str:
    return call("on", inner(k.kernel, 3), call("on_sphere", x), call("on_sphere", z))


# kernels made of kernels ----------------------------------------------------------------------------------------------
@source.register
def _(k: ks.FactorMetric, x: str, z: str, d: int) -> str:
    loadings = np.asarray(k.loadings)
    long = np.all(np.asarray(k.lengthscale) == np.inf)  # no source for infinity: a length-scale that leaves nothing
    both = [call("factor_map", v, text(loadings), "np.inf" if long else text(k.lengthscale)) for v in (x, z)]
    return call("on", inner(k.kernel, d + loadings.shape[1]), *both)


@source.register
def _(k: ks.Additive, x: str, z: str, d: int) -> str:
    parts = [source(k._column(j), f"{x}[..., [{j}]]", f"{z}[..., [{j}]]", 1) for j in range(d)]
    return call("additive", f"[{', '.join(parts)}]", list(k.orders), text(k.weight))


@source.register
def _(k: ks.Normalised, x: str, z: str, d: int) -> str:
    return call("normalised", x, z, inner(k.kernel, d))


@source.register
def _(k: ks.Invariant, x: str, z: str, d: int) -> str:
    if k.form != "orbit":
        raise fail(WHO, f"the kernel Invariant has form={k.form!r}", "use form='orbit', or save the model instead")
    return call("invariant", x, z, inner(k.kernel, d), text(k.group), k._one_sided)


@source.register
def _(k: ks.GaussianBasis, x: str, z: str, d: int) -> str:
    return call("gaussian_basis", x, z, text(k.centres), text(k.width), text(k.weight))


@source.register
def _(k: ks.ModulatedSquaredExponential, x: str, z: str, d: int) -> str:
    return call("modulated_squared_exponential", x, z, text(k.width), text(k.spread))


def field(value: Any, x: str) -> str:
    """A field at x; those of a user's own function have no source."""
    if not isinstance(value, ks.GaussianField):
        what = f"a {type(value).__name__} holds a function of your own"
        raise fail(WHO, what, "use a GaussianField, or save the model with model.save(...) instead")
    return call("gaussian_field", x, text(value.centres), text(value.width), text(value.beta))


@source.register
def _(k: ks.VaryingLengthscale, x: str, z: str, d: int) -> str:
    return call("varying_lengthscale", x, z, field(k.field, x), field(k.field, z), text(k.lengthscale))


@source.register
def _(k: ks.PaciorekSchervish, x: str, z: str, d: int) -> str:
    return call("paciorek_schervish", x, z, inner(k.kernel, 1), field(k.field, x), field(k.field, z))


@source.register
def _(k: ks.VaryingAmplitude, x: str, z: str, d: int) -> str:
    return call("varying_amplitude", source(k.kernel, x, z, d), field(k.field, x), field(k.field, z))


@source.register
def _(k: ks.ChangePoint, x: str, z: str, d: int) -> str:
    sides = [source(side, x, z, d) for side in (k.before, k.after)]
    return call("change_point", x, z, *sides, text(k.at), text(k.width), k.column)


@source.register
def _(k: ks.Warped, x: str, z: str, d: int) -> str:
    both = [call("warp", v, text(k.centres), text(k.width), text(k.beta)) for v in (x, z)]
    return call("on", inner(k.kernel, d), *both)
