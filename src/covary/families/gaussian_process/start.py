"""The initial model for learning, with the user's parameter values if given and values from the scales of the data otherwise.

By default, numeric columns share one Matérn kernel with a length-scale each. It is multiplied by a Hamming kernel over
categories, so that each category has its own function, correlated with the others as far as the data suggest. Seasonal terms
are added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from covary._checks import check_object, check_positive, fail, shown
from covary._errors import Option
from covary._module import Mark, Marked
from covary.data import Data
from covary.distributions import LogNormal
from covary.families.gaussian_process.settings import Context, check_bounds, check_categories, read_kernel
from covary.inference.base import AbstractInference
from covary.inference.ep import EP
from covary.inference.exact import Exact
from covary.inference.laplace import Laplace
from covary.inference.svgp import SVGP
from covary.kernels.base import AbstractKernel, Product, Scaled, Sum, inner_kernels
from covary.kernels.categorical import Hamming
from covary.kernels.combine import Columns as On
from covary.kernels.dot_product import Constant as ConstantKernel
from covary.kernels.periodic import Periodic
from covary.kernels.stationary import Matern32, Matern52, SquaredExponential
from covary.likelihoods.base import AbstractLikelihood
from covary.likelihoods.gaussian import Gaussian
from covary.means.functions import AbstractMean, Constant, Function, Linear, Zero
from covary.model import GP, Model
from covary.parameters import Packing, bound, fixed, freeze, parameters, rebuild
from covary.selection.starts import ELSEWHERE, starting_values
from covary.tables.cells import BOOLEAN, CATEGORY, DATE, DURATION, NUMBER
from covary.tables.column import PERIODS
from covary.tables.columns import Columns

INFERENCES: dict[str, Callable[[], AbstractInference]] = {"exact": Exact, "laplace": Laplace, "ep": EP, "svgp": SVGP}
MOST_PARAMETERS = 100  # largest number, over all classes, for class_kernels="auto" to learn one kernel per class
ALIKE = 2.0  # prior median of a category's length-scale: rows that differ in one column have correlation exp(−1/2)
CATEGORY_SPREAD = 1.5  # log standard deviation of its prior
Kernels = AbstractKernel | tuple[AbstractKernel, ...]


def inference_of(context: Context, likelihood: AbstractLikelihood) -> AbstractInference:
    """Return the inference for a likelihood."""
    who, given = context.who, context.settings.inference
    check_object(who, "inference", given)
    if isinstance(given, AbstractInference):
        return given
    if given == "auto":
        return Exact() if isinstance(likelihood, Gaussian) else Laplace() if likelihood.smooth else EP()
    if not isinstance(given, str) or given not in INFERENCES:
        known = "'auto', 'exact', 'laplace', 'ep'" if context.classes is None else "'laplace', 'ep'"
        raise fail(who, Option("inference") + f" is {given!r}", f"choose {known}, or give an inference object")
    return INFERENCES[given]()


def regression_start(context: Context, data: Data, likelihood: AbstractLikelihood) -> Model:
    """Return the initial model of a regression."""
    settings, columns, latents = context.settings, data.X.columns, likelihood.latents
    kernel, given = _kernels(context, _default(context, columns), latents)
    if latents > 1 and not isinstance(kernel, tuple):
        kernel = (kernel,) * latents
    GP(kernel).check(data.X)
    if isinstance(likelihood, Gaussian) and settings.likelihood == "gaussian" and settings.noise is not None:
        likelihood = Gaussian(settings.noise)
        if not isinstance(settings.noise, Marked):
            check_positive(context.who, "noise", settings.noise)
    model = Model(GP(kernel, mean=_mean(context, columns)), likelihood=likelihood)
    natural = _lasting(context, starting_values(model, data), data) if settings.standardise else model
    if settings.noise is None and isinstance(settings.likelihood, str):
        model = model.replace(likelihood=natural.likelihood)
    return _held(context, _own_numbers(context, model, natural, given))


def classes_start(context: Context, data: Data, likelihood: AbstractLikelihood) -> Model:
    """Return the initial model of a classification."""
    columns, latents = data.X.columns, likelihood.latents
    kernel, given = _kernels(context, _default(context, columns) + 1.0 * ConstantKernel(), latents)
    if latents > 1 and not isinstance(kernel, tuple) and _separate(context, kernel, latents):
        kernel = (kernel,) * latents
    GP(kernel).check(data.X)
    model = Model(GP(kernel, mean=_mean(context, columns)), likelihood=likelihood)
    return _held(context, _own_numbers(context, model, _lasting(context, starting_values(model, data), data), given))


def rivals(context: Context, start: Model) -> list[Model]:
    """Return the initial model with a rougher kernel, if the kernel is the default."""
    if context.settings.kernel is not None:
        return []
    rough = rougher(start.kernel)
    return [] if repr(rough) == repr(start.kernel) else [start.replace(prior=start.prior.replace(kernel=rough))]


def _own_numbers(context: Context, model: Model, natural: Model, given: bool) -> Model:
    """Return the model with initial values from the data, except in a kernel or mean given by the user."""
    if not given:
        model = model.replace(prior=model.prior.replace(kernel=natural.kernel))
    if isinstance(context.settings.mean, str):
        model = model.replace(prior=model.prior.replace(mean=natural.mean))
    return model


def _kernels(context: Context, default: AbstractKernel, latents: int) -> tuple[Kernels, bool]:
    """Return the kernel (a tuple if each latent function has its own) and whether the user gave it."""
    who, asked, columns = context.who, context.settings.kernel, context.columns
    if asked is None:
        return default, False
    kernel = read_kernel(who, asked, columns.keys if columns.named else None)
    if isinstance(kernel, tuple) and len(kernel) != latents:
        do = "give one kernel" + (f", or one for each of {latents} functions" if latents > 1 else ", or their sum")
        raise fail(who, Option("kernel") + f" is a list of {len(kernel)}", do)
    kernel = kernel[0] if isinstance(kernel, tuple) and latents == 1 else kernel
    check_categories(who, kernel, asked, columns)
    return kernel, True


def _default(context: Context, width: int) -> AbstractKernel:
    """Return the default kernel of a table: Matérn for numbers, Hamming for categories, and the requested seasons."""
    settings = context.settings
    seasons = seasons_of(context.who, settings.seasonality, context.columns)
    if seasons and settings.kernel is not None:
        what = Option("seasonality") + " is given together with a kernel"
        raise fail(context.who, what, "write the seasons into the kernel, as summary() of a fit without one shows")
    return default_kernel(context.columns, width, seasons)


def _lasting(context: Context, model: Model, data: Data) -> Model:
    """Return the model whose seasonal terms initially persist over the range of the data."""
    settings = context.settings
    return lasting(model, np.asarray(data.X.x), () if settings.kernel is not None else settings.seasonality or ())


def _mean(context: Context, columns: int) -> AbstractMean:
    who, mean = context.who, context.settings.mean
    check_object(who, "mean", mean)
    linear = isinstance(mean, Linear) or (isinstance(mean, str) and mean == "linear")
    if linear and context.columns.places(CATEGORY):
        what = Option("mean") + f" is {shown(mean)} but some columns of " + Option("X")
        raise fail(who, what + " are categories, whose codes have no order", "use another mean, or leave them out")
    if isinstance(mean, AbstractMean):
        return mean
    if callable(mean):
        return Function(mean)
    known = {"zero": Zero(), "constant": Constant(), "linear": Linear(weight=np.zeros(columns))}
    if not isinstance(mean, str) or mean not in known:
        raise fail(who, Option("mean") + f" is {mean!r}", "choose 'zero', 'constant', 'linear', or give a function")
    return known[mean]


def _held(context: Context, model: Model) -> Model:
    """Return the model with the user's fixed parameters and bounds."""
    who, settings = context.who, context.settings
    check_bounds(who, settings.bounds or {}, model)
    if settings.fixed:
        model = freeze(model, settings.fixed, who=f"{who}: fixed", argument="fixed")
    return bound(model, settings.bounds, who=f"{who}: bounds") if settings.bounds else model


def _separate(context: Context, kernel: AbstractKernel, latents: int) -> bool:
    """Return whether each class gets its own kernel."""
    if context.settings.class_kernels == "auto":
        return latents * Packing(kernel).size <= MOST_PARAMETERS
    return context.settings.class_kernels == "separate"


def seasons_of(who: str, given: str | Sequence[str] | None, columns: Columns) -> list[str]:
    """Return the requested seasons, checked against the table."""
    names = [given] if isinstance(given, str) else list(given or ())
    if not all(isinstance(s, str) and s in PERIODS for s in names):
        raise fail(who, Option("seasonality") + f" is {shown(given)}", f"choose from {', '.join(map(repr, PERIODS))}")
    if names and not columns.places(DATE):
        what = Option("seasonality", repr(given)) + " is given but no column of " + Option("X") + " contains dates"
        raise fail(who, what, "give dates, or write a Periodic kernel", argument="seasonality")
    return list(dict.fromkeys(names))


def default_kernel(columns: Columns | None, width: int, seasons: Sequence[str] = ()) -> AbstractKernel:
    """Return the default kernel of a table with ``width`` columns, scaled.

    Examples
    --------
    >>> default_kernel(None, 2)
    1.0 * Matern52(lengthscale=[1.0, 1.0])
    """
    categories = [] if columns is None else columns.places(CATEGORY)
    if columns is None or not (categories or seasons):
        return 1.0 * Matern52(lengthscale=np.ones(width))
    numbers = columns.places(NUMBER, BOOLEAN, DATE, DURATION)
    kernel: AbstractKernel | None = None
    if numbers:
        smooth = Matern52(lengthscale=np.ones(len(numbers)))
        kernel = smooth.on(*numbers) if categories else smooth
    if categories:
        alike = Hamming(lengthscale=np.full(len(categories), ALIKE)).on(*categories)
        kernel = alike if kernel is None else kernel * alike
    assert kernel is not None
    kernel = 1.0 * kernel
    when = columns.places(DATE)[:1]
    for season in seasons:
        period = columns.each[when[0]].period(season)
        kernel = kernel + 1.0 * (SquaredExponential() * Periodic(period=fixed(period))).on(*when)
    return kernel


def lasting(model: Model, X: np.ndarray, seasons: Sequence[str]) -> Model:
    """Return the model whose seasonal terms start with a length-scale equal to the range of the dates."""
    if not seasons:
        return model
    span = dict(_seasons(model.prior.kernel, X))

    def change(path: str, value: np.ndarray, mark: Mark) -> tuple[np.ndarray, Mark]:
        return (np.asarray(span[path]), mark) if path in span and not mark.fixed else (value, mark)

    return rebuild(model, change)


def _seasons(kernel: Kernels, X: np.ndarray) -> list[tuple[str, float]]:
    """Return the path of the decay length-scale of each seasonal term, with the range of its dates."""
    found = inner_kernels(kernel, X.shape[1], closed=ELSEWHERE)
    out = []
    for (path, first, seen), (_, second, _) in pairwise(found):
        if isinstance(first, SquaredExponential) and isinstance(second, Periodic):
            span = float(np.ptp(X[:, seen[0]]))
            out.append((f"{path}.lengthscale", span if span > 0 else 1.0))
    return out


def own_priors(model: Model, width: int, scale: float) -> dict[str, LogNormal | list[LogNormal]]:
    """Return weak priors for parts of the default kernel not covered by the general rule: categories, terms of a sum."""
    out: dict[str, LogNormal | list[LogNormal]] = {}
    for path, kernel, seen in inner_kernels(model.prior.kernel, width, closed=ELSEWHERE):
        if isinstance(kernel, Hamming):
            centre = np.log(ALIKE) + 0.5 * np.log(len(seen))
            out[f"{path}.lengthscale"] = [LogNormal(float(centre), scale=CATEGORY_SPREAD)] * len(seen)
        elif isinstance(kernel, Periodic):
            out[f"{path}.lengthscale"] = LogNormal(0.0, scale=1.0)
    if isinstance(model.prior.kernel, Sum) and isinstance(model.likelihood, Gaussian):
        for path in parameters(model):
            if path.startswith("kernel.") and path.endswith(".variance"):
                out[path] = LogNormal(float(2 * np.log(scale)), scale=2.0)
    return out


def rougher(kernel: AbstractKernel) -> AbstractKernel:
    """Return the kernel with every Matérn-5/2 replaced by Matérn-3/2."""
    if isinstance(kernel, Matern52):
        rough: AbstractKernel = Matern32(lengthscale=kernel.lengthscale)
        for name, mark in kernel._marks:
            rough = rough.with_mark(name, mark)
        return rough
    if isinstance(kernel, Sum):
        return kernel.replace(terms=tuple(rougher(k) for k in kernel.terms))
    if isinstance(kernel, Product):
        return kernel.replace(factors=tuple(rougher(k) for k in kernel.factors))
    return kernel.replace(kernel=rougher(kernel.kernel)) if isinstance(kernel, Scaled | On) else kernel
