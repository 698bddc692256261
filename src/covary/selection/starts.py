"""Starting values from the scales of the data, so that every search starts at a reasonable point.

Each parameter has a natural scale: that of its columns for a length-scale, that of y for a variance, a fraction of the range
for a period. Later terms of a sum start smaller and shorter, so that equal summands never start at equal values and each
can explain a different part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from covary._module import Mark
from covary.data import Data
from covary.kernels.base import AbstractKernel, Power, Product, Scaled, Sum, inner_kernels
from covary.kernels.combine import Columns
from covary.kernels.dot_product import Linear, Polynomial
from covary.kernels.isotropic import PiecewisePolynomial, SquaredExponentialMixture
from covary.kernels.metric import FactorMetric
from covary.kernels.networks import ArcCosine, TanhNetwork
from covary.kernels.nonstationary import NeuralNetwork
from covary.kernels.periodic import Cosine, Periodic
from covary.kernels.spectral import Periodised, SpectralMixture
from covary.kernels.sphere import OnSphere
from covary.kernels.stationary import AbstractStationary
from covary.kernels.varying import ChangePoint, ModulatedSquaredExponential
from covary.kernels.warped import Mapped, Warped
from covary.likelihoods.gaussian import Gaussian
from covary.model import Model
from covary.parameters import children, parameters, rebuild

Kernel: TypeAlias = AbstractKernel | tuple[AbstractKernel, ...]

FEW_ROWS = 5  # shortest length-scale tried on one input, in rows
ASIDE = 10.0  # factor on the length-scales of the other columns then: rows are neighbours in time, whatever their other values
ALIKE, APART, SMOOTHED, MOST = 0.6, 0.5, 10, 20_000  # criteria for a column that orders the rows: see :func:`ordering`
SHRINK = 4.0  # factor by which each further term of a sum starts shorter and smaller
ELSEWHERE = (Mapped, Warped, OnSphere, FactorMetric, Periodised)  # kernels inside which the scales of the columns do not apply


class Column(NamedTuple):
    """The standard deviations, ranges and midpoints of columns."""

    scale: np.ndarray
    span: np.ndarray
    middle: np.ndarray

    @staticmethod
    def of(data: Data) -> Column:
        """Return those of the inputs of the data."""
        x = np.asarray(data.X.x, np.float64)
        return Column(column_scales(data), np.ptp(x, axis=0), (x.min(0) + x.max(0)) / 2)

    def take(self, columns: np.ndarray) -> Column:
        """Select columns."""
        return Column(*(each[columns] for each in self))


def column_scales(data: Data) -> np.ndarray:
    """Return the standard deviation of every column, or one for constant columns."""
    x = np.asarray(data.X.x, np.float64)
    spread = np.sqrt(_average((x - x[0] - _average(x - x[0], data)) ** 2, data))
    return np.where((np.ptp(x, 0) > 0) & (spread > 0), spread, 1.0)


def target_scale(data: Data) -> float:
    """Return the standard deviation of y (root mean square over outputs); its magnitude if constant, or one if zero."""
    y = np.asarray(data.y, np.float64).reshape(data.rows, -1)
    squares = ((y - target_mean(data)) ** 2).sum(1) + (0.0 if data.scatter is None else _per_row(data))
    spread = float(np.sqrt(_average(squares, data) / y.shape[1]))
    varies = np.ptp(y, 0).any() or (data.scatter is not None and data.scatter.any())
    size = float(np.abs(y).max())
    return spread if varies and spread > 0 else size if size > 0 else 1.0


def target_mean(data: Data) -> np.ndarray:
    """Return the mean of every output."""
    y = np.asarray(data.y, np.float64).reshape(data.rows, -1)
    return y[0] + _average(y - y[0], data)  # differences, so that the mean of a constant is exact


def working(model: Model, data: Data) -> Data:
    """Return the data on the scale of the latent function: unchanged for Gaussian noise, else a guess by the likelihood."""
    if isinstance(model.likelihood, Gaussian):
        return data
    return Data(data.X, model.likelihood.latent_values(data.y), None, data.weight)


def _average(values: np.ndarray, data: Data) -> np.ndarray:
    """Return the weighted mean over rows."""
    return values.mean(0) if data.weight is None else np.average(values, axis=0, weights=data.weight)


def _per_row(data: Data) -> np.ndarray:
    assert data.scatter is not None
    return data.scatter if data.weight is None else data.scatter / data.weight


def lengthscale_paths(kernel: Kernel, columns: int) -> dict[str, np.ndarray]:
    """Return the paths (from the model) of stationary length-scales, with the columns each applies to."""
    found: dict[str, np.ndarray] = {}
    for path, owner, seen in inner_kernels(kernel, columns, closed=ELSEWHERE):
        if isinstance(owner, AbstractStationary):
            found[f"{path}.lengthscale"] = seen
    return found


def brief(model: Model, data: Data, dates: Collection[int] = ()) -> list[Model]:
    """Return the model with a length-scale of a few rows along the only column of a stationary kernel, or along ``dates``.

    From a long length-scale, a search finds a trend and treats the seasonal variation around it as noise. The list is empty
    if the length-scale would be no shorter than usual.
    """
    kernels = model.kernel if isinstance(model.kernel, tuple) else (model.kernel,)
    found = lengthscale_paths(model.kernel, data.X.columns)
    if len(found) != len(kernels) or (len(kernels) > 1 and not model.likelihood.log_concave):
        return []  # there are several scales already, or a second latent function of a different kind
    columns = Column.of(data)

    def change(path: str, value: np.ndarray, mark: Mark) -> tuple[np.ndarray, Mark]:
        seen = found.get(path, np.empty(0, int))
        if mark.fixed or len(seen) != np.size(value):
            return value, mark
        short = FEW_ROWS * columns.span[seen] / data.rows
        wanted = (short > 0) & (short < columns.scale[seen]) & ((len(seen) == 1) | np.isin(seen, list(dates)))
        rest = np.ravel(value) * (ASIDE if wanted.any() else 1.0)
        new = np.where(wanted, short, rest)
        new = new if mark.bounds is None else np.clip(new, *mark.bounds)
        return new.reshape(np.shape(value)), mark

    out = rebuild(model, change)
    after = parameters(out)
    return [] if all(np.array_equal(p.value, after[path].value) for path, p in parameters(model).items()) else [out]


def ordering(model: Model, data: Data) -> list[int]:
    """Find the column, if any, in whose order successive rows have similar targets: a time stored as a number.

    The residuals of a linear regression of y on all columns are sorted by each column, a running mean over a tenth of the
    rows is subtracted, and the correlation of neighbours is computed. It is 0.7 to 0.9 in seasonal series and rarely above
    0.3 in tables, whose rows differ in all other columns too. Columns with mostly repeated values and data with very many
    rows are not examined. At most one column is returned.
    """
    n, d = np.shape(data.X.x)
    if d < 2 or not 2 * SMOOTHED <= n <= MOST or model.likelihood.latents > 1:
        return []
    x, y = np.asarray(data.X.x, np.float64), np.asarray(working(model, data).y, np.float64).reshape(n, -1)
    line = np.column_stack([np.ones(n), (x - x.mean(0)) / column_scales(data)])
    left = y - line @ np.linalg.lstsq(line, y, rcond=None)[0]
    found = {}
    for j in range(d):
        if len(np.unique(x[:, j])) >= APART * n:
            rough = left[np.argsort(x[:, j], kind="stable")]
            rough = rough - _running_mean(rough, n // SMOOTHED)
            size = float((rough**2).sum())
            found[j] = float((rough[1:] * rough[:-1]).sum()) / size if size > 0 else 0.0
    best = max(found, key=lambda j: found[j], default=None)
    return [best] if best is not None and found[best] > max(ALIKE, 4 / np.sqrt(n)) else []


def _running_mean(values: np.ndarray, width: int) -> np.ndarray:
    """Return the centred running mean over ``width`` rows, or fewer at both ends."""
    sums = np.concatenate([np.zeros((1, *values.shape[1:])), values.cumsum(0)])
    rows = np.arange(len(values))
    low, high = np.maximum(rows - width // 2, 0), np.minimum(rows + width // 2 + 1, len(values))
    return (sums[high] - sums[low]) / (high - low)[:, None]


def starting_values(model: Model, data: Data, *, calm: bool = False) -> Model:
    """Return the model with every free parameter at its natural scale for these data; fixed ones keep their values.

    With ``calm``, the start is chosen such that a posterior mode exists for any data.
    """
    seen = working(model, data)
    y_scale, columns = target_scale(seen), Column.of(data)
    values: dict[str, ArrayLike] = {}
    kernels = model.prior.kernel if isinstance(model.prior.kernel, tuple) else (model.prior.kernel,)
    levels = (model.likelihood.calm_levels if calm else model.likelihood.latent_levels)(y_scale)
    for which, kernel in enumerate(kernels):
        root = "kernel" if len(kernels) == 1 else f"kernel.{which}"
        terms = kernel.terms if isinstance(kernel, Sum) else (kernel,)
        for rank, term in enumerate(terms):
            path = root if len(terms) == 1 else f"{root}.{rank}"
            shrink = SHRINK**-rank
            for at, owner, seen_by in inner_kernels(term, data.X.columns, path, closed=ELSEWHERE):
                values |= {f"{at}.{name}": v for name, v in _natural(owner, columns.take(seen_by), shrink).items()}
            for name, parameter in parameters(term, path).items():
                if name.endswith("variance"):
                    values[name] = levels[which] ** 2 * shrink * np.ones_like(parameter.value)
    if isinstance(model.likelihood, Gaussian):
        values["likelihood.variance"] = 0.05 * y_scale**2
    else:
        values |= {f"likelihood.{name}": value for name, value in model.likelihood.starting(data.y).items()}
    values["mean.value"] = float(target_mean(seen)[0]) if seen.y.ndim == 1 else 0.0

    def change(path: str, value: np.ndarray, mark: Mark) -> tuple[np.ndarray, Mark]:
        if mark.fixed or path not in values:
            return value, mark
        new = np.broadcast_to(np.asarray(values[path], np.float64), np.shape(value)).copy()
        if mark.bounds is not None:
            new = np.clip(new, *mark.bounds)
        return new, mark

    return rebuild(model, change)


def _natural(kernel: AbstractKernel, x: Column, shrink: float) -> dict[str, ArrayLike]:
    """Return natural values for the parameters of one kernel, without those of kernels inside it."""
    many, span = np.sqrt(len(x.scale)), np.where(x.span > 0, x.span, 1.0)

    def fit(value: np.ndarray, like: ArrayLike) -> np.ndarray | float:
        return value if np.ndim(like) else float(np.exp(np.mean(np.log(value))))

    match kernel:
        case PiecewisePolynomial():  # zero beyond its length-scale
            return {"lengthscale": fit(3 * x.scale * many * shrink, kernel.lengthscale)}
        case AbstractStationary():
            return {"lengthscale": fit(x.scale * many * shrink, kernel.lengthscale), "alpha": 1.0}
        case Periodic():
            return {"lengthscale": many, "period": fit(span / 4 * shrink**0.5, kernel.period)}
        case Cosine():
            return {"period": fit(span / 4 * shrink**0.5, kernel.period)}
        case Periodised():  # the kernel inside begins at a quarter of the period
            period = fit(span / 4 * shrink**0.5, kernel.period)
            return {"period": period, "lengthscale": period / 4}
        case Linear() | Polynomial() | NeuralNetwork() | TanhNetwork() | ArcCosine():
            return {"lengthscale": fit(x.scale * many, kernel.lengthscale), "bias": 1.0}
        case FactorMetric():  # the factors contribute as much as the columns
            own = kernel.loadings / np.maximum(np.linalg.norm(kernel.loadings, axis=0), 1e-300)
            return {"lengthscale": fit(x.scale * many, kernel.lengthscale), "loadings": own / (x.scale * many)[:, None]}
        case ModulatedSquaredExponential():
            return {"width": fit(x.scale * many, kernel.width), "spread": fit(3 * x.scale * many, kernel.spread)}
        case SquaredExponentialMixture():
            ranks = np.arange(len(kernel.lengthscales))
            return {"lengthscales": fit(x.scale, 0.0) * many * shrink * SHRINK**-ranks}
        case SpectralMixture():  # a slow wave, then ones of two, four, ... periods over the data
            ranks = np.arange(len(kernel.weights)).reshape(-1, *[1] * (np.ndim(kernel.means) - 1))
            return {"means": ranks * 2 / span, "scales": np.ones_like(kernel.scales) / (2 * np.pi * x.scale * many * shrink)}
        case ChangePoint():
            return {"at": x.middle[kernel.column], "width": span[kernel.column] / 20}
    return {}


def _sums(kernel: Kernel, path: str) -> Iterator[tuple[str, Sum]]:
    """Yield every sum inside a kernel with the path of its terms."""
    if isinstance(kernel, tuple):
        for i, part in enumerate(kernel):
            yield from _sums(part, f"{path}.{i}")
    elif isinstance(kernel, Sum | Product | Scaled | Power | Columns):
        if isinstance(kernel, Sum):
            yield path, kernel
        for _, below, value in children(kernel, path):
            if isinstance(value, AbstractKernel | tuple):
                yield from _sums(value, below)


def spread_equal(model: Model) -> Model:
    """Separate the free parameters of summands with equal starting values, which would be a symmetric saddle point."""
    factors: dict[str, float] = {}
    for at, total in _sums(model.prior.kernel, "kernel"):
        seen: dict[str, int] = {}
        for rank, term in enumerate(total.terms):
            copies = seen[repr(term)] = seen.get(repr(term), -1) + 1
            if copies:
                factors |= dict.fromkeys(parameters(term, f"{at}.{rank}"), SHRINK ** (-copies))

    def change(path: str, value: np.ndarray, mark: Mark) -> tuple[np.ndarray, Mark]:
        if path not in factors or mark.fixed:
            return value, mark
        new = np.asarray(value) * factors[path]
        return (np.clip(new, *mark.bounds) if mark.bounds is not None else new), mark

    return rebuild(model, change)
