"""The fit with its error bars, for one or two input columns, under any likelihood of numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from covary._checks import fail
from covary.likelihoods.bernoulli import Bernoulli
from covary.likelihoods.binomial import Binomial
from covary.likelihoods.gaussian import Gaussian
from covary.likelihoods.ordinal import Ordinal
from covary.plots.columns import coded_columns, snapped
from covary.plots.style import BLUE, INK, ORANGE, column_name, ink, names_shown, point_size, spaced

SIDE = 80  # points along either side of a map
NODES = 1000  # latent values of equal probability, where a link is not monotone


@names_shown
def plot_fit(
    posterior: Any,
    ax: Any = None,
    *,
    names: Any = None,
    samples: int = 0,
    key: int = 0,
    points: int = 400,
    margin: float = 0.05,
    size: float | None = None,
) -> Any:
    """Mean, 95 % bands of the function and of new observations, and the data; a map of mean and spread for two inputs.

    Where the latent function is not on the scale of y (counts, shares, positive amounts, ordered levels), the inner band is
    that of the rate or mean of y instead.

    Parameters
    ----------
    posterior
        A posterior over one output.
    ax
        The axes to draw on (for two inputs, a pair of axes); made if None.
    names
        Names of the input columns.
    samples
        Draws of the function to add (one input only).
    key
        Seed of the draws.
    points
        Points along the curve.
    margin
        How far the picture reaches beyond the data, as a share of their range.
    size
        Trials or exposure of the new observations, where the likelihood has them: a middle one of the data by default.
        The picture shows y over size.
    """
    x = np.asarray(posterior.data.X.x)
    if x.shape[1] == 1:
        grid = snapped(spaced(x[:, 0], points, margin)[:, None], x, coded_columns(posterior.model.kernel, (0,)))
        return plot_series(posterior, grid, ax=ax, name=column_name(names, 0), samples=samples, key=key, size=size)
    if x.shape[1] == 2:
        return _maps(posterior, ax, names, margin, size)
    raise fail("plots.plot_fit", f"the model has {x.shape[1]} input columns", "plot models with one or two, or fix the others")


@names_shown
def plot_series(
    posterior: Any,
    grid: Any,
    ax: Any = None,
    *,
    name: str = "x",
    samples: int = 0,
    key: int = 0,
    data: bool = True,
    size: float | None = None,
) -> Any:
    """Mean and 95 % bands along one input; see :func:`plot_fit`."""
    import matplotlib.pyplot as plt

    grid = np.asarray(grid, np.float64).ravel()
    shown = _shown(posterior, grid[:, None], size)
    low_y, high_y = (edge / shown.unit for edge in shown.y.interval())
    draws = _draws(posterior, grid[:, None], samples, key, shown.what) if samples else None
    if ax is None:
        _, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
    step = "mid" if shown.whole else None
    ax.fill_between(grid, low_y, high_y, step=step, color=BLUE, alpha=0.15, lw=0, label=f"95 % of {shown.new}")
    if shown.band is not None:
        ax.fill_between(grid, *shown.band, color=BLUE, alpha=0.35, lw=0, label=f"95 % of the {shown.what}")
    ax.plot(grid, shown.mean, color=BLUE, lw=1.8, label="mean")
    if draws is not None:
        ax.plot(grid, draws.T, color=ORANGE, lw=0.8, alpha=0.8, label=["draws", *[None] * (samples - 1)])
    if data:
        x, y = np.asarray(posterior.data.X.x)[:, 0], shown.data
        ax.scatter(x, y, s=point_size(len(x)), color=ink(), zorder=3, linewidths=0, label=f"data ({len(x)})")
    ax.set_xlabel(name)
    ax.set_ylabel(shown.axis)
    if isinstance(posterior.model.likelihood, Ordinal):
        ax.set_yticks(np.arange(posterior.model.likelihood.levels))
    ax.margins(x=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=9)
    return ax


class _Shown(NamedTuple):
    """What a picture shows, on the scale of the data."""

    mean: np.ndarray
    std: np.ndarray
    spread: str  # what std is of
    band: tuple[np.ndarray, np.ndarray] | None  # 95 % of what
    what: str
    y: Any  # a new observation
    unit: float  # its size, by which it is divided
    new: str  # what it is called
    whole: bool  # whether it is a whole number
    data: np.ndarray
    axis: str


def _shown(posterior: Any, X: np.ndarray, size: float | None) -> _Shown:
    likelihood, y = posterior.model.likelihood, np.asarray(posterior.data.y)
    if isinstance(likelihood, Gaussian):
        prediction = posterior.predict(X, size=size)
        f, new = prediction.f, "new observations"
        return _Shown(f.mean, f.std, "the function", f.interval(), "function", prediction.y, 1.0, new, False, y, "y")
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
        raise fail("plots.plot_fit", "the model is one of several classes", "use covary.plots.plot_classes")
    mean, std, spread = prediction.y.mean / unit, prediction.y.std / unit, new
    own = f.mean if f.mean.ndim == 1 else f.mean[:, 0]  # the function itself, where others shape the noise
    what = "function"
    if likelihood.support != "real" or not np.allclose(likelihood.moments(f.mean).mean, own):
        chance = isinstance(likelihood, Bernoulli | Binomial)
        what = "probability" if chance else "rate" if likelihood.support == "counts" else "mean"
    elif not np.isfinite(std).all():  # tails so heavy that y has no variance
        std, spread = (f.std if f.mean.ndim == 1 else f.std[:, 0]), "the function"
    whole = likelihood.support in ("counts", "labels")
    return _Shown(mean, std, spread, _band(likelihood, f, what), what, prediction.y, unit, new, whole, y, axis)


def _band(likelihood: Any, f: Any, what: str) -> tuple[np.ndarray, np.ndarray] | None:
    """95 % of the function, or of the mean of y that it stands for; None where several functions share in that mean."""
    low, high = f.interval()
    if what == "function":
        return (low, high) if low.ndim == 1 else (low[:, 0], high[:, 0])
    if f.mean.ndim > 1:
        return None
    if getattr(likelihood, "link", "") == "square":  # f and −f say the same
        levels = (np.arange(NODES) + 0.5) / NODES
        rates = np.stack([likelihood.moments(f.quantile(p)).mean for p in levels])
        low, high = np.quantile(rates, [0.025, 0.975], axis=0)
        return low, high
    return likelihood.moments(low).mean, likelihood.moments(high).mean


def _draws(posterior: Any, X: np.ndarray, samples: int, key: int, what: str) -> np.ndarray:
    f = posterior.sample(X, samples, key=key)
    return f if what == "function" else posterior.model.likelihood.moments(f.ravel()).mean.reshape(f.shape)


def _maps(posterior: Any, ax: Any, names: Any, margin: float, size: float | None) -> Any:
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MaxNLocator

    if ax is not None and np.size(np.asarray(ax, dtype=object)) != 2:
        count = np.size(np.asarray(ax, dtype=object))
        raise fail("plots.plot_fit", f"got {count} axes", "give a pair: one for the mean, one for the spread")
    x = np.asarray(posterior.data.X.x)
    u, v = (spaced(x[:, i], SIDE, margin) for i in range(2))
    mesh = np.stack(np.meshgrid(u, v), axis=-1).reshape(-1, 2)
    shown = _shown(posterior, snapped(mesh, x, coded_columns(posterior.model.kernel, (0, 1))), size)
    y = shown.data
    if not isinstance(posterior.model.likelihood, Gaussian):
        y = np.clip(y, *np.quantile(y, [0.025, 0.975]))  # a few wild observations leave the colours to the rest
    span = drawn_range(shown.mean, y)
    if ax is None:
        _, ax = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained", sharex=True, sharey=True)
    axes = np.ravel(np.asarray(ax, dtype=object))
    for one, values, title, colours, (least, most) in (
        (axes[0], shown.mean, "mean" if shown.axis == "y" else f"mean of {shown.axis}", "viridis", span),
        (axes[1], shown.std, f"standard deviation of {shown.spread}", "cividis", drawn_range(shown.std)),
    ):
        drawn = one.contourf(u, v, values.reshape(SIDE, SIDE), levels=np.linspace(least, most, 25), cmap=colours)
        drawn.set_rasterized(True)  # in a vector picture the outlines of a rough surface would fill megabytes
        one.figure.colorbar(drawn, ax=one, ticks=MaxNLocator(7))
        one.set_title(title, fontsize=10)
        one.set_xlabel(column_name(names, 0))
        one.set_ylabel(column_name(names, 1))
    axes[0].scatter(x[:, 0], x[:, 1], c=y, cmap="viridis", vmin=span[0], vmax=span[1], s=18, edgecolors="white", linewidths=0.6)
    axes[1].scatter(x[:, 0], x[:, 1], s=8, color="white", edgecolors=INK, linewidths=0.4)
    return ax


def drawn_range(*values: np.ndarray) -> tuple[float, float]:
    """One colour range for a map and the data on it; never of width zero."""
    least, most = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    return (least, most) if most > least else (least - 0.5, most + 0.5)
