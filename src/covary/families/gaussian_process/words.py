"""Descriptions of kernels in plain words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from covary._checks import CovaryError
from covary.families.gaussian_process.checks import functions_of
from covary.families.gaussian_process.processes import Processes
from covary.fits import Fit
from covary.kernels.base import AbstractKernel, Power, Product, Scaled, Sum
from covary.kernels.combine import Columns
from covary.kernels.periodic import Periodic
from covary.parameters import parameters
from covary.plots.columns import columns_of
from covary.posterior import with_matrix
from covary.posterior.components import term_names, terms
from covary.report.words import listed, number

SMOOTH = {
    "SquaredExponential": "a very smooth function",
    "Matern52": "a smooth function",
    "Matern32": "a fairly smooth function",
    "Matern12": "a rough function",
    "Matern": "a function whose smoothness was learned",
    "GammaExponential": "a function whose smoothness was learned",
    "RationalQuadratic": "a smooth function with variation at many scales",
    "Hamming": "differences between categories",
    "Exchangeable": "differences between categories",
    "Linear": "a linear trend",
    "Polynomial": "a polynomial trend",
    "Constant": "a constant offset",
    "Periodic": "a pattern that repeats",
    "Cosine": "a pure wave",
    "SpectralMixture": "repeating patterns of several periods",
    "Wiener": "a random walk",
    "IntegratedWiener": "a smooth random walk",
    "NeuralNetwork": "a function with steps that level off",
    "ArcCosine": "a function like that of a neural network",
}
LIKELIHOODS = {
    "Gaussian": "Gaussian noise of constant variance",
    "StudentT": "Student-t noise, which is robust to outliers",
    "DoubleExponential": "Laplace noise, which is robust to outliers",
    "HeteroscedasticGaussian": "Gaussian noise whose variance depends on the inputs",
    "Poisson": "Poisson counts",
    "NegativeBinomial": "overdispersed counts",
    "Binomial": "numbers of successes in trials",
    "Gamma": "positive observations with constant relative scatter",
    "Ordinal": "ordered levels",
    "Bernoulli": "two classes",
    "Softmax": "several classes",
}


class Term(NamedTuple):
    """A term of the kernel: its name, description, and share of the fit's variance if known."""

    name: str
    words: str
    share: float | None


def kernel_terms(fit: Fit[Processes]) -> list[Term]:
    """Return the terms of the kernel, or of all kernels."""
    post, columns = fit.state.first.posterior, fit.columns.names
    kernels = post.model.prior.kernels if isinstance(post.model.kernel, tuple) else (post.model.kernel,)
    if len(kernels) > 1 or len(fit.state.parts) > 1:
        labels = functions_of(fit) or [part.label for part in fit.state.parts]
        if len(fit.state.parts) > 1:
            kernels = tuple(part.model.kernel for part in fit.state.parts)
        return [
            Term(f"{labels[i] if i < len(labels) else i}: {name}", kernel_words(term, columns), None)
            for i, kernel in enumerate(kernels)
            for name, term in zip(term_names(terms(kernel)), terms(kernel), strict=True)
        ]
    parts = terms(next(iter(kernels)))
    shares: dict[str, float] = {}
    if len(parts) == 1:
        shares = {term_names(parts)[0]: 1.0}
    else:
        try:
            x = post.data.X
            some = x if x.rows <= 1000 else x.take(np.sort(np.random.default_rng(0).choice(x.rows, 1000, replace=False)))
            shares = with_matrix("report", post).components(some).share()
        except CovaryError:
            shares = {}
    return [
        Term(name, kernel_words(term, columns), shares.get(name)) for name, term in zip(term_names(parts), parts, strict=True)
    ]


def kernel_words(kernel: AbstractKernel, columns: Sequence[str]) -> str:
    """Describe the functions that a term of a kernel models.

    Examples
    --------
    >>> from covary.kernels import Matern52
    >>> kernel_words(2.0 * Matern52(lengthscale=[3.0, 40.0]), ("age", "dose"))
    'a smooth function of age and dose, varying over about 3 in age and 40 in dose'
    """
    d = len(columns)
    seen = columns_of(kernel, d)
    names = [columns[i] for i in seen]
    inner = _inner(kernel)
    if isinstance(inner, Product) and not isinstance(_unscaled(kernel), Columns):
        return ", times ".join(kernel_words(factor, columns) for factor in inner.factors)
    if isinstance(inner, Product) and [type(_inner(f)).__name__ for f in inner.factors].count("Periodic") == 1:
        return _season(inner, names)
    if isinstance(inner, Product):
        each = [_inner(factor) for factor in inner.factors]
        words = [_base(part) for part in each]
        return f"{' times '.join(words)} of {listed(names)}" + "".join(_scale(p, f, columns) for p, f in _pairs(inner, each))
    if isinstance(inner, Sum):
        return f"a sum of {len(inner.terms)} functions of {listed(names)}"
    kind = type(inner).__name__
    if kind == "Constant":
        return _base(inner)
    way = "between categories of" if kind in ("Hamming", "Exchangeable") else "of" if "function" in _base(inner) else "in"
    if kind in ("Hamming", "Exchangeable"):
        return f"differences {way} {listed(names)}"
    return f"{_base(inner)} {way} {listed(names)}{_scale(inner, kernel, columns)}"


def field_of(kernel: AbstractKernel, name: str) -> np.ndarray | None:
    """Return a parameter of a kernel by name; None if it does not exist."""
    return None if name not in parameters(kernel) else np.asarray(parameters(kernel)[name].value, np.float64)


def _season(product: Product, names: list[str]) -> str:
    """Describe a repeating pattern that changes slowly."""
    each = [_inner(factor) for factor in product.factors]
    wave = next(part for part in each if isinstance(part, Periodic))
    lengths = [np.ravel(found) for part in each if part is not wave and (found := field_of(part, "lengthscale")) is not None]
    slow = [float(v[0]) for v in lengths if v.size == 1]
    out = f"a pattern in {listed(names)} that repeats every {_measured(float(wave.period), names)}"
    return out + (f" and changes over about {_measured(min(slow), names, 3)}" if slow else "")


def _measured(value: float, names: list[str], digits: int = 4) -> str:
    """Format a number with the unit of the column, if there is one column whose name ends with a unit: 4.8 years, 1 year."""
    unit = re.fullmatch(r".*\((years|days|hours|seconds)\)", names[0]) if len(names) == 1 else None
    text = number(value, digits)
    return text if unit is None else f"{text} {unit[1].removesuffix('s') if text == '1' else unit[1]}"


def _pairs(product: Product, inner: list[AbstractKernel]) -> Iterator[tuple[AbstractKernel, AbstractKernel]]:
    return zip(inner, product.factors, strict=True)


def _unscaled(kernel: AbstractKernel) -> AbstractKernel:
    while isinstance(kernel, Scaled):
        kernel = kernel.kernel
    return kernel


def _inner(kernel: AbstractKernel) -> AbstractKernel:
    while isinstance(kernel, Scaled | Columns | Power):
        kernel = kernel.kernel
    return kernel


def _base(kernel: AbstractKernel) -> str:
    return SMOOTH.get(type(kernel).__name__, f"a {type(kernel).__name__} function")


def _scale(inner: AbstractKernel, kernel: AbstractKernel, columns: Sequence[str]) -> str:
    """Describe the length-scale or the period."""
    kind, d = type(inner).__name__, len(columns)
    period = field_of(inner, "period")
    if period is not None and np.ndim(period) == 0:
        return f", every {_measured(float(period), [columns[i] for i in columns_of(kernel, d)])}"
    length = field_of(inner, "lengthscale")
    if length is None or kind in ("Linear", "Periodic", "Hamming", "Exchangeable", "Polynomial"):
        return ""
    names = [columns[i] for i in columns_of(kernel, d)]
    values = np.atleast_1d(np.asarray(length, np.float64))
    if len(values) == 1:
        return f", varying over about {_measured(float(values[0]), names, 3)}"
    if len(values) != len(names):
        return ""
    order = np.argsort(values)
    some = [f"{number(float(values[i]), 3)} in {names[i]}" for i in order[:4]]
    return f", varying over about {listed(some)}"
