"""Plots of a fit with its error bars, for one or two input columns, under any likelihood for numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from covary._checks import fail
from covary.likelihoods.base import AbstractLikelihood
from covary.likelihoods.bernoulli import Bernoulli
from covary.likelihoods.binomial import Binomial
from covary.likelihoods.gaussian import Gaussian
from covary.likelihoods.ordinal import Ordinal
from covary.plots.columns import snapped
from covary.plots.source import Drawable, Source
from covary.plots.style import BLUE, INK, ORANGE, Given, column_name, ink, names_shown, one, point_size, spaced
from covary.posterior import AbstractPosterior
from covary.prediction import Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIDE = 80  # points along each side of a map
NODES = 1000  # latent values of equal probability, for links that are not monotone


@names_shown
def plot_fit(
    posterior: Drawable,
    ax: Given = None,
    *,
    names: Sequence[str] | None = None,
    samples: int = 0,
    key: int = 0,
    points: int = 400,
    margin: float = 0.05,
    size: float | None = None,
) -> Axes | np.ndarray:
    """Plot the mean, 95 % bands of the function and of new observations, and the data; for two inputs, maps of mean and std.

    If the latent function is not on the scale of y (counts, shares, positive amounts, ordered levels), the inner band is
    that of the rate or mean of y instead.

    Parameters
    ----------
    posterior
        A posterior over one output, or a fitted regressor.
    ax
        The axes to draw on (for two inputs, a pair of axes); created if None.
    names
        Names of the input columns.
    samples
        Number of sampled functions to add (one input only).
    key
        Seed of the samples.
    points
        Points along the curve.
    margin
        How far the plot extends beyond the data, as a share of their range.
    size
        Trials or exposure of the new observations, if the likelihood has them; by default the median of the data.
        The plot shows y over size.
    """
    source = Source.of("plots.plot_fit", posterior)
    names, x = source.names(names), np.asarray(source.inputs.x)
    if x.shape[1] == 1:
        grid = snapped(spaced(x[:, 0], points, margin)[:, None], x, source.coded)
        return plot_series(posterior, grid, ax=ax, name=column_name(names, 0), samples=samples, key=key, size=size)
    if x.shape[1] == 2:
        return _maps(source, ax, names, margin, size)
    raise fail("plots.plot_fit", f"the model has {x.shape[1]} input columns", "plot models with one or two, or fix the others")


@names_shown
def plot_series(
    posterior: Drawable,
    grid: ArrayLike,
    ax: Given = None,
    *,
    name: str = "x",
    samples: int = 0,
    key: int = 0,
    data: bool = True,
    size: float | None = None,
) -> Axes:
    """Plot the mean and 95 % bands along one input; see :func:`plot_fit`."""
    source = Source.of("plots.plot_series", posterior)
    grid = np.asarray(grid, np.float64).ravel()
    shown = _shown(source, grid[:, None], size)
    draws = _draws(source.first, grid[:, None], samples, key, shown.what) if samples else None
    ax = one(ax, (8, 4.5))
    step = "mid" if shown.whole else None
    ax.fill_between(grid, *shown.interval(), step=step, color=BLUE, alpha=0.15, lw=0, label=f"95 % of {shown.new}")
    if shown.band is not None:
        ax.fill_between(grid, *shown.band, color=BLUE, alpha=0.35, lw=0, label=f"95 % of the {shown.what}")
    ax.plot(grid, shown.mean, color=BLUE, lw=1.8, label="mean")
    if draws is not None:
        ax.plot(grid, draws.T, color=ORANGE, lw=0.8, alpha=0.8, label=["draws", *[None] * (samples - 1)])
    if data:
        x, y = np.asarray(source.inputs.x)[:, 0], shown.data
        ax.scatter(x, y, s=point_size(len(x)), color=ink(), zorder=3, linewidths=0, label=f"data ({len(x)})")
    ax.set_xlabel(name)
    ax.set_ylabel(shown.axis)
    if source.posteriors and isinstance(source.model.likelihood, Ordinal):
        ax.set_yticks(np.arange(source.model.likelihood.levels))
    ax.margins(x=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=9)
    return ax


class _Shown(NamedTuple):
    """The plotted predictions, on the scale of the data."""

    mean: np.ndarray
    std: np.ndarray
    spread: str  # the quantity std refers to
    band: tuple[np.ndarray, np.ndarray] | None  # 95 % band of ``what``
    what: str
    interval: Callable[[], tuple[np.ndarray, np.ndarray]]  # 95 % interval of a new observation
    new: str  # its label
    whole: bool  # whether it is an integer
    data: np.ndarray
    axis: str


def _shown(source: Source, X: np.ndarray, size: float | None) -> _Shown:
    return _of_posterior(source.first, X, size) if source.posteriors else _of_fit(source, X, size)


def _of_fit(source: Source, X: np.ndarray, size: float | None) -> _Shown:
    """Return the predictions of a family without posteriors."""
    if source.of_classes:
        raise fail("plots.plot_fit", "the model is a classifier", "use covary.plots.plot_classes")
    if size is not None:
        raise fail("plots.plot_fit", "size is given but the observations have no size", "leave it out", argument="size")
    mean, std, low, high = (source.predicted(X, part) for part in ("mean", "std", "lower", "upper"))
    if mean.shape[1] > 1:
        raise fail("plots.plot_fit", f"the model has {mean.shape[1]} targets", "use a model with one target")
    new = "new observations"
    ends = low[:, 0], high[:, 0]
    y = source.training.y[:, 0]
    return _Shown(mean[:, 0], std[:, 0], new, None, "function", lambda: ends, new, False, y, source.target)


def _of_posterior(posterior: AbstractPosterior, X: np.ndarray, size: float | None) -> _Shown:
    likelihood, y = posterior.model.likelihood, np.asarray(posterior.data.y)
    if isinstance(likelihood, Gaussian):
        prediction = posterior.predict(X, size=size)
        f, new = prediction.f, "new observations"
        ends = prediction.y.interval
        return _Shown(f.mean, f.std, "the function", f.interval(), "function", ends, new, False, y, "y")
    axis, new = "level" if isinstance(likelihood, Ordinal) else "y", "new observations"
    if y.ndim == 2 and likelihood.sized:
        size = float(np.sort(y[:, 1])[len(y) // 2]) if size is None else size
        y = y[:, 0] / y[:, 1]
    if isinstance(likelihood, Bernoulli):
        y = (y > 0).astype(np.float64)
    if size is not None and size != 1:
        axis, new = "y / size", f"new observations of size {size:g}"
    prediction = posterior.predict(X, size=size)
    f, unit = prediction.f, 1.0 if size is None else float(size)
    if prediction.y.mean.ndim > 1:
        raise fail("plots.plot_fit", "the model is a classifier", "use covary.plots.plot_classes")
    mean, std, spread = prediction.y.mean / unit, prediction.y.std / unit, new
    own = f.mean if f.mean.ndim == 1 else f.mean[:, 0]  # the function itself, if further latent functions model the noise
    what = "function"
    if likelihood.support != "real" or not np.allclose(likelihood.moments(f.mean).mean, own):
        chance = isinstance(likelihood, Bernoulli | Binomial)
        what = "probability" if chance else "rate" if likelihood.support == "counts" else "mean"
    elif not np.isfinite(std).all():  # the tails are so heavy that y has no variance
        std, spread = (f.std if f.mean.ndim == 1 else f.std[:, 0]), "the function"
    whole = likelihood.support in ("counts", "labels")

    def interval() -> tuple[np.ndarray, np.ndarray]:
        low, high = prediction.y.interval()
        return low / unit, high / unit

    return _Shown(mean, std, spread, _band(likelihood, f, what), what, interval, new, whole, y, axis)


def _band(likelihood: AbstractLikelihood, f: Spread, what: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the 95 % band of the function or of the mean of y; None if that mean depends on several functions."""
    low, high = f.interval()
    if what == "function":
        return (low, high) if low.ndim == 1 else (low[:, 0], high[:, 0])
    if f.mean.ndim > 1:
        return None
    if getattr(likelihood, "link", "") == "square":  # f and −f are equivalent
        levels = (np.arange(NODES) + 0.5) / NODES
        rates = np.stack([likelihood.moments(f.quantile(p)).mean for p in levels])
        low, high = np.quantile(rates, [0.025, 0.975], axis=0)
        return low, high
    return likelihood.moments(low).mean, likelihood.moments(high).mean


def _draws(posterior: AbstractPosterior, X: np.ndarray, samples: int, key: int, what: str) -> np.ndarray:
    f = posterior.sample(X, samples, key=key)
    return f if what == "function" else posterior.model.likelihood.moments(f.ravel()).mean.reshape(f.shape)


def _maps(source: Source, ax: Given, names: list[str], margin: float, size: float | None) -> np.ndarray:
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MaxNLocator

    if ax is not None and np.size(np.asarray(ax, dtype=object)) != 2:
        count = np.size(np.asarray(ax, dtype=object))
        raise fail("plots.plot_fit", f"got {count} axes", "give a pair: one for the mean, one for the standard deviation")
    x = np.asarray(source.inputs.x)
    u, v = (spaced(x[:, i], SIDE, margin) for i in range(2))
    mesh = np.stack(np.meshgrid(u, v), axis=-1).reshape(-1, 2)
    shown = _shown(source, snapped(mesh, x, source.coded), size)
    y = shown.data
    if not source.posteriors or not isinstance(source.model.likelihood, Gaussian):
        y = np.clip(y, *np.quantile(y, [0.025, 0.975]))  # so that outliers do not stretch the colour range
    span = drawn_range(shown.mean, y)
    made = ax
    if ax is None:
        _, made = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained", sharex=True, sharey=True)
    axes = np.ravel(np.asarray(made, dtype=object))
    for axis, values, title, colours, (least, most) in (
        (axes[0], shown.mean, "mean" if shown.axis == "y" else f"mean of {shown.axis}", "viridis", span),
        (axes[1], shown.std, f"standard deviation of {shown.spread}", "cividis", drawn_range(shown.std)),
    ):
        drawn = axis.contourf(u, v, values.reshape(SIDE, SIDE), levels=np.linspace(least, most, 25), cmap=colours)
        drawn.set_rasterized(True)  # in vector graphics the outlines of a rough surface take megabytes
        axis.figure.colorbar(drawn, ax=axis, ticks=MaxNLocator(7))
        axis.set_title(title, fontsize=10)
        axis.set_xlabel(column_name(names, 0))
        axis.set_ylabel(column_name(names, 1))
    axes[0].scatter(x[:, 0], x[:, 1], c=y, cmap="viridis", vmin=span[0], vmax=span[1], s=18, edgecolors="white", linewidths=0.6)
    axes[1].scatter(x[:, 0], x[:, 1], s=8, color="white", edgecolors=INK, linewidths=0.4)
    return axes if ax is None else ax  # type: ignore[return-value]


def drawn_range(*values: np.ndarray) -> tuple[float, float]:
    """Return a common colour range for a map and the data on it, never of width zero."""
    least, most = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    return (least, most) if most > least else (least - 0.5, most + 0.5)
