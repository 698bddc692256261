"""Kernels as NumPy source: calls of :mod:`covary.export.formulas` that return the same numbers.

There is one function per kernel class, which is not used for its subclasses. A stationary kernel without one is exported if its
``profile`` is a single expression in ``jax.numpy``; all other kernels raise an error.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from functools import singledispatch

import jax
import numpy as np
from numpy.typing import ArrayLike

from covary import kernels as ks
from covary._checks import fail
from covary._errors import CovaryError, Remedy
from covary._module import Module
from covary._precision import precision
from covary.kernels.base import AbstractKernel
from covary.kernels.isotropic import _bessel_pieces
from covary.kernels.matern import LOG_U, NODES, NOTHING, PER_OCTAVE, SMOOTH, _polynomial, _series, _split
from covary.kernels.networks import slopes
from covary.kernels.stationary import AbstractStationary

WHO = "export"
SAVE = Remedy("save instead", "save the model with model.save(...) instead")


def text(value: ArrayLike) -> str:
    """Return numbers as source text that evaluates to exactly the same numbers."""
    return repr(np.asarray(value, np.float64).tolist())


def call(name: str, *arguments: str | float | list[int] | None) -> str:
    """Return the source of a function call."""
    return f"{name}({', '.join(str(a) for a in arguments)})"


def source(kernel: AbstractKernel, x: str = "x", z: str = "z", columns: int = 1) -> str:
    """Return the expression for k(x, z), given two names (or expressions) for stacks of points and their number of columns."""
    if type(kernel) in formula.registry:  # exactly: a subclass may have another formula
        return formula.registry[type(kernel)](kernel, x, z, columns)
    if isinstance(kernel, AbstractStationary):
        return call("profiled", x, z, profile(kernel), text(kernel.lengthscale))
    raise without_formula(kernel)


@singledispatch
def formula(kernel: AbstractKernel, x: str, z: str, columns: int) -> str:
    """Return the expression for k(x, z) of one class of kernels."""
    raise without_formula(kernel)


def without_formula(kernel: AbstractKernel) -> CovaryError:
    """Return the error for a kernel that has no NumPy formula."""
    what = f"the kernel {type(kernel).__name__} cannot be written with NumPy alone"
    return fail(WHO, what, "fit the model with another kernel, or " + SAVE)


def inner(kernel: AbstractKernel, columns: int) -> str:
    """Return a kernel as the source of a lambda."""
    return f"lambda x, z: {source(kernel, 'x', 'z', columns)}"


# sums, products, columns ----------------------------------------------------------------------------------------------
@formula.register
def _(k: ks.Sum, x: str, z: str, d: int) -> str:
    return "(" + " + ".join(source(t, x, z, d) for t in k.terms) + ")"


@formula.register
def _(k: ks.Product, x: str, z: str, d: int) -> str:
    return " * ".join(source(t, x, z, d) for t in k.factors)


@formula.register
def _(k: ks.Scaled, x: str, z: str, d: int) -> str:
    return f"{text(k.variance)} * {source(k.kernel, x, z, d)}"


@formula.register
def _(k: ks.Power, x: str, z: str, d: int) -> str:
    return f"({source(k.kernel, x, z, d)}) ** {int(k.exponent)}"


@formula.register
def _(k: ks.Columns, x: str, z: str, d: int) -> str:
    some = list(k.columns)
    return source(k.kernel, f"{x}[..., {some}]", f"{z}[..., {some}]", len(some))


# functions of distance ------------------------------------------------------------------------------------------------
PLAIN: dict[type[AbstractKernel], tuple[str, ...]] = {  # the formula, and the fields that it takes after the points
    ks.SquaredExponential: ("squared_exponential", "lengthscale"),
    ks.Matern12: ("matern12", "lengthscale"),
    ks.Matern32: ("matern32", "lengthscale"),
    ks.Matern52: ("matern52", "lengthscale"),
    ks.RationalQuadratic: ("rational_quadratic", "lengthscale", "alpha"),
    ks.GammaExponential: ("gamma_exponential", "lengthscale", "gamma"),
    ks.SquaredExponentialMixture: ("squared_exponential_mixture", "lengthscales", "weights"),
    ks.ModulatedSquaredExponential: ("modulated_squared_exponential", "width", "spread"),
    ks.Periodic: ("periodic", "lengthscale", "period"),
    ks.Cosine: ("cosine", "period"),
    ks.Constant: ("constant",),
    ks.Linear: ("linear", "lengthscale"),
    ks.NeuralNetwork: ("neural_network", "lengthscale", "bias"),
    ks.Wiener: ("wiener",),
    ks.IntegratedWiener: ("integrated_wiener",),
    ks.BrownianBridge: ("brownian_bridge",),
    ks.FractionalBrownian: ("fractional_brownian", "hurst"),
    ks.Hamming: ("hamming", "lengthscale"),
    ks.Categories: ("categories", "factor"),
    ks.SinePower: ("sine_power", "hurst"),
    ks.GaussianBasis: ("gaussian_basis", "centres", "width", "weight"),
}


def plain(k: AbstractKernel, x: str, z: str, d: int) -> str:
    """Return the expression for a kernel of the table."""
    name, *fields = PLAIN[type(k)]
    return call(name, x, z, *(text(getattr(k, field)) for field in fields))


for kind in PLAIN:
    formula.register(kind, plain)


class InNumPy(ast.NodeTransformer):
    """The expression of a ``profile``, with NumPy in place of ``jax.numpy`` and the values of fields."""

    def __init__(self, kernel: AbstractStationary, argument: str) -> None:
        self.kernel, self.argument = kernel, argument

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        owner = node.value.id if isinstance(node.value, ast.Name) else ""
        if owner == "jnp" and hasattr(np, node.attr):
            return ast.Attribute(ast.Name("np"), node.attr)
        value = vars(self.kernel).get(node.attr) if owner == "self" else None
        if isinstance(value, int | float | np.number | np.ndarray) and np.ndim(value) == 0:
            return ast.parse(text(value), mode="eval").body
        raise without_formula(self.kernel)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id != self.argument:
            raise without_formula(self.kernel)
        return ast.Name("s")


def profile(kernel: AbstractStationary) -> str:
    """Return the ``profile`` of a stationary kernel as the source of a function."""
    if type(kernel).block is not AbstractStationary.block:
        raise without_formula(kernel)
    try:
        parsed = ast.parse(textwrap.dedent(inspect.getsource(type(kernel).profile)))
    except (OSError, SyntaxError):
        raise without_formula(kernel) from None
    match parsed.body:
        case [ast.FunctionDef(args=ast.arguments(args=[_, argument]), body=[*before, ast.Return(ast.expr() as value)])]:
            if all(isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) for line in before):  # a docstring
                return f"lambda s: {ast.unparse(InNumPy(kernel, argument.arg).visit(value))}"
    raise without_formula(kernel)


@formula.register
def _(k: ks.MaternHalfInteger, x: str, z: str, d: int) -> str:
    return call("matern_half_integer", x, z, text(_polynomial(int(k.order))), text(k.lengthscale))


@formula.register
def _(k: ks.Matern, x: str, z: str, d: int) -> str:
    near, nodes = matern_numbers(float(k.nu))
    return call("matern", x, z, text(k.nu), near, text(nodes), text(k.lengthscale))


def matern_numbers(nu: float) -> tuple[str, np.ndarray]:
    """Return the series below 1 (as source, or ``"None"``) and the weights and rates of the mixture of exponentials."""
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


@formula.register
def _(k: ks.PiecewisePolynomial, x: str, z: str, d: int) -> str:
    power, coefficients = k._shape(d)
    return call("piecewise_polynomial", x, z, power, text(coefficients), text(k.lengthscale))


@formula.register
def _(k: ks.Bessel, x: str, z: str, d: int) -> str:
    end, series, hankel = _bessel_pieces(k.order)
    return call("bessel", x, z, k.order, end, text(series), text(hankel), text(k.lengthscale))


# waves ------------------------------------------------------------------------------------------------------------------
@formula.register
def _(k: ks.SpectralMixture, x: str, z: str, d: int) -> str:
    means, scales = (np.reshape(np.asarray(v), (-1, d)) for v in (k.means, k.scales))
    return call("spectral_mixture", x, z, text(k.weights), text(means), text(scales))


@formula.register
def _(k: ks.Spectral, x: str, z: str, d: int) -> str:
    with precision(np.float64):
        frequencies, power = (np.asarray(v) for v in k.power())
    return call("spectral", x, z, text(frequencies), text(power))


@formula.register
def _(k: ks.Periodised, x: str, z: str, d: int) -> str:
    return call("periodised", x, z, inner(k.kernel, d), text(k.period), k.terms)


# products, networks, processes, categories, the sphere --------------------------------------------------------------------
@formula.register
def _(k: ks.Polynomial, x: str, z: str, d: int) -> str:
    return call("polynomial", x, z, int(k.degree), text(k.bias), text(k.lengthscale))


@formula.register
def _(k: ks.TanhNetwork, x: str, z: str, d: int) -> str:
    scales, weights = slopes(k.terms)
    return call("tanh_network", x, z, text(k.lengthscale), text(k.bias), text(scales), text(weights))


@formula.register
def _(k: ks.ArcCosine, x: str, z: str, d: int) -> str:
    return call("arc_cosine", x, z, k.order, text(k.lengthscale), text(k.bias))


@formula.register
def _(k: ks.Exchangeable, x: str, z: str, d: int) -> str:
    return call("exchangeable", x, z, text(k.correlation), k.levels)


@formula.register
def _(k: ks.GreatCircle, x: str, z: str, d: int) -> str:
    return call("great_circle", x, z, text(k.lengthscale), repr(k.family))


@formula.register
def _(k: ks.OnSphere, x: str, z: str, d: int) -> str:
    return call("on", inner(k.kernel, 3), call("on_sphere", x), call("on_sphere", z))


# kernels made of kernels ----------------------------------------------------------------------------------------------
@formula.register
def _(k: ks.FactorMetric, x: str, z: str, d: int) -> str:
    loadings = np.asarray(k.loadings)
    long = np.all(np.asarray(k.lengthscale) == np.inf)  # repr(inf) is not valid source; an infinite length-scale removes x
    both = [call("factor_map", v, text(loadings), "np.inf" if long else text(k.lengthscale)) for v in (x, z)]
    return call("on", inner(k.kernel, d + loadings.shape[1]), *both)


@formula.register
def _(k: ks.Additive, x: str, z: str, d: int) -> str:
    parts = [source(k._column(j), f"{x}[..., [{j}]]", f"{z}[..., [{j}]]", 1) for j in range(d)]
    return call("additive", f"[{', '.join(parts)}]", list(k.orders), text(k.weight))


@formula.register
def _(k: ks.Normalised, x: str, z: str, d: int) -> str:
    return call("normalised", x, z, inner(k.kernel, d))


@formula.register
def _(k: ks.Invariant, x: str, z: str, d: int) -> str:
    if k.form != "orbit":
        raise fail(WHO, f"the kernel Invariant has form={k.form!r}", "use form='orbit', or " + SAVE)
    return call("invariant", x, z, inner(k.kernel, d), text(k.group), k._one_sided)


def field(value: Module | Callable[..., ArrayLike] | None, x: str) -> str:
    """Return the source of a field at x; raise an error for a user-defined function."""
    if not isinstance(value, ks.GaussianField):
        what = f"a {type(value).__name__} contains a function of your own"
        raise fail(WHO, what, "use a GaussianField, or " + SAVE)
    return call("gaussian_field", x, text(value.centres), text(value.width), text(value.beta))


@formula.register
def _(k: ks.VaryingLengthscale, x: str, z: str, d: int) -> str:
    return call("varying_lengthscale", x, z, field(k.field, x), field(k.field, z), text(k.lengthscale))


@formula.register
def _(k: ks.PaciorekSchervish, x: str, z: str, d: int) -> str:
    return call("paciorek_schervish", x, z, inner(k.kernel, 1), field(k.field, x), field(k.field, z))


@formula.register
def _(k: ks.VaryingAmplitude, x: str, z: str, d: int) -> str:
    return call("varying_amplitude", source(k.kernel, x, z, d), field(k.field, x), field(k.field, z))


@formula.register
def _(k: ks.ChangePoint, x: str, z: str, d: int) -> str:
    sides = [source(side, x, z, d) for side in (k.before, k.after)]
    return call("change_point", x, z, *sides, text(k.at), text(k.width), k.column)


@formula.register
def _(k: ks.Warped, x: str, z: str, d: int) -> str:
    both = [call("warp", v, text(k.centres), text(k.width), text(k.beta)) for v in (x, z)]
    return call("on", inner(k.kernel, d), *both)
