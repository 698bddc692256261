"""Plots of a kernel before conditioning on data: samples, covariance against distance, spectrum, and covariance matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from covary._checks import CovaryError, fail
from covary._errors import Option
from covary._words import counted
from covary.data import Inputs, as_inputs
from covary.kernels.base import AbstractKernel
from covary.kernels.spectrum import spectral_density
from covary.kernels.text import parse
from covary.model import GP
from covary.plots.source import Drawable, Source
from covary.plots.style import (
    BLUE,
    COLOURS,
    DIVERGING,
    GREY,
    UNCERTAIN,
    Given,
    bare,
    column_name,
    legend,
    names_shown,
    one,
    several,
    title,
)
from covary.posterior import sample_prior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_COLUMNS = 64  # maximum number of columns tried for a kernel
SIDE = 48  # points along each side of a map
MOST_ROWS = 400  # maximum number of rows of a matrix that are drawn


def plot_prior(
    prior: GP | AbstractKernel | str,
    ax: Given = None,
    *,
    samples: int = 4,
    key: int = 0,
    over: tuple[float, float] | None = None,
    points: int = 300,
    columns: int | None = None,
) -> Axes:
    """Plot functions drawn from a prior, with the band that contains 95 % of them; for two columns, a map of one function.

    Parameters
    ----------
    prior
        A kernel, its text, or a :class:`covary.GP`.
    ax
        The axes to draw on, created if None.
    samples
        The number of functions.
    key
        Seed of the draws.
    over
        The range of the input; by default from 0 to ten times the distance at which the correlation falls to one half.
    points
        Points along a curve.
    columns
        Number of input columns, one or two; by default the smallest number the kernel accepts.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> ax = plot_prior("2.0 * Matern52(lengthscale=3.0)", samples=3)
    >>> len(ax.lines)
    3
    >>> plt.close()
    """
    who = "plots.plot_prior"
    prior = prior if isinstance(prior, GP) else GP(_kernel(who, prior))
    kernel = prior.kernels[0]
    columns = columns or fewest_columns(who, kernel)
    if columns > 2:
        raise fail(who, f"the kernel has {columns} input columns", "plot kernels with one or two")
    low, high = reach(kernel, columns) if over is None else over
    if columns == 2:
        return _sampled_map(ax, prior, low, high, key)
    x = np.linspace(low, high, points)
    drawn = sample_prior(prior, x[:, None], samples, key=key)
    centre, std = prior.mean.evaluate(Inputs(x[:, None])), np.sqrt(kernel.diag(x[:, None]))
    ax = one(ax, (5.6, 3.2))
    ax.fill_between(x, centre - 1.96 * std, centre + 1.96 * std, color=GREY, alpha=0.25, lw=0, label="95 %")
    for i, f in enumerate(drawn):
        ax.plot(x, f, color=COLOURS[i % len(COLOURS)], lw=1.3)
    ax.set_xlabel("x")
    ax.set_ylabel("f(x)")
    ax.margins(x=0)
    legend(ax, loc="upper right")
    bare(ax)
    return ax


def plot_kernel(
    kernel: AbstractKernel | str,
    ax: Given = None,
    *,
    over: float | tuple[float, float] | None = None,
    at: ArrayLike | None = None,
    along: int = 0,
    columns: int | None = None,
) -> Axes | np.ndarray:
    """Plot covariance against distance and, if it is available in closed form, the spectral density next to it.

    A nonstationary kernel is drawn as k(x, x') against x for some x'.

    Parameters
    ----------
    kernel
        A kernel, or its text.
    ax
        One or two axes, the second for the spectrum; created if None.
    over
        The largest distance, or (low, high) for a nonstationary kernel.
    at
        The points x' for a nonstationary kernel; by default three inside the range.
    along
        The column along which points differ.
    columns
        Number of input columns; by default the smallest number the kernel accepts.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> left, right = plot_kernel("Matern32()")
    >>> left.get_xlabel(), right.get_xlabel()
    ('distance', 'frequency')
    >>> plt.close()
    """
    who = "plots.plot_kernel"
    kernel = _kernel(who, kernel)
    columns = columns or fewest_columns(who, kernel)
    if not 0 <= along < columns:
        what = f"along is {along} and the kernel has {counted(columns, 'column')}"
        raise fail(who, what, "give one of them", argument="along")
    stationary = kernel.traits.stationary
    low, high = reach(kernel, columns, along)
    if over is not None:
        low, high = (low if stationary else 0.0, float(over)) if np.ndim(over) == 0 else tuple(over)  # type: ignore[misc,arg-type]
    spectrum = stationary and _has_spectrum(kernel, columns)
    wanted = spectrum if ax is None else np.size(np.asarray(ax, dtype=object)) > 1
    if wanted and not spectrum:
        raise fail(who, f"{kernel!r} has no spectral density in closed form", "give a single axes")
    axes = several(who, ax, 2 if wanted else 1, panel=(4.0, 2.9))
    x = np.linspace(0.0 if stationary else low, high, 400)
    places = [0.0] if stationary else np.atleast_1d(at) if at is not None else low + (high - low) * np.array([0.25, 0.5, 0.75])
    for i, place in enumerate(places):
        values = kernel.cross(_along(x, columns, along), _along(np.array([place]), columns, along))[:, 0]
        axes[0].plot(x, values, color=COLOURS[i % len(COLOURS)], lw=1.7, label=None if stationary else f"x' = {place:.3g}")
    axes[0].axhline(0.0, color=GREY, lw=0.6, zorder=0.5)
    axes[0].set_xlabel("distance" if stationary else "x")
    axes[0].set_ylabel("k" if stationary else "k(x, x')")
    axes[0].margins(x=0)
    legend(axes[0])
    bare(axes[0])
    if wanted:
        plot_spectrum(kernel, axes[1], along=along, columns=columns)
    return axes if ax is None and wanted else axes[0] if ax is None else ax  # type: ignore[return-value]


def plot_spectrum(
    kernel: AbstractKernel | str, ax: Given = None, *, highest: float | None = None, along: int = 0, columns: int | None = None
) -> Axes:
    """Plot the spectral density of a stationary kernel against frequency, in cycles per unit of input.

    Parameters
    ----------
    kernel
        A kernel that :func:`covary.kernels.spectral_density` supports, or its text.
    ax
        The axes to draw on, created if None.
    highest
        The highest frequency; by default where the density has fallen to a thousandth of its maximum.
    along
        The column whose frequency varies; those of the others are zero.
    columns
        Number of input columns; by default the smallest number the kernel accepts.
    """
    who = "plots.plot_spectrum"
    kernel = _kernel(who, kernel)
    columns = columns or fewest_columns(who, kernel)

    def density(s: np.ndarray) -> np.ndarray:
        return spectral_density(kernel, _along(s, columns, along), columns)

    if highest is None:
        scan = np.geomspace(1e-6, 1e6, 1200) / reach(kernel, columns, along)[1]
        found = density(scan)
        above = np.flatnonzero(found > 1e-3 * found.max())
        highest = float(scan[above[-1]])
    s = np.linspace(0.0, highest, 400)
    values = density(s)
    ax = one(ax, (4.4, 3.0))
    ax.semilogy(s, np.where(values > 0, values, np.nan), color=BLUE, lw=1.7)
    ax.set_xlabel("frequency")
    ax.set_ylabel("spectral density")
    ax.set_ylim(bottom=max(float(values[values > 0].min()) * 0.7, 1e-5 * float(values.max())))
    ax.margins(x=0)
    bare(ax)
    return ax


@names_shown
def plot_gram(
    model: Drawable | AbstractKernel | str,
    X: ArrayLike | Inputs | None = None,
    ax: Given = None,
    *,
    sort: int | None = None,
    names: Sequence[str] | None = None,
) -> Axes:
    """Plot the covariance matrix of a kernel or a posterior at the rows of X as a heat map.

    Blocks are groups of similar rows; a bright diagonal on a dark background means that the rows are nearly independent.

    Parameters
    ----------
    model
        A kernel or its text, with X; or a posterior or a fitted estimator, for the covariance between rows given the data
        (by default at the rows of the data).
    X
        Rows (n, d); at most 400 are drawn, equally spaced in order.
    ax
        The axes to draw on, created if None.
    sort
        The column by which rows are sorted; a single column is always used.
    names
        Names of the columns.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> ax = plot_gram("Matern52()", np.linspace(0.0, 5.0, 30)[:, None])
    >>> ax.images[0].get_array().shape
    (30, 30)
    >>> plt.close()
    """
    who = "plots.plot_gram"
    kernel = _kernel(who, model) if isinstance(model, AbstractKernel | str) else None
    post = None if isinstance(model, AbstractKernel | str) else Source.of(who, model).first
    if X is None and post is None:
        raise fail(who, "X is missing", "give rows, or a posterior, which has its own")
    inputs = post.data.X if X is None and post is not None else as_inputs(X, who)  # type: ignore[arg-type]
    if sort is None and inputs.columns == 1:
        sort = 0
    if sort is not None and not 0 <= sort < inputs.columns:
        what = f"sort is {sort} and " + Option("X") + f" has {counted(inputs.columns, 'column')}"
        raise fail(who, what, "give the index of a column", argument="sort")
    order = np.arange(inputs.rows) if sort is None else np.argsort(np.asarray(inputs.x)[:, sort], kind="stable")
    order = order[:: max(1, -(-len(order) // MOST_ROWS))]
    rows = inputs.take(order)
    K = np.asarray(kernel.gram(rows) if kernel is not None else post.covariance(rows))  # type: ignore[union-attr]
    least, most = float(K.min()), float(K.max())
    mixed = least < -0.05 * most
    end = max(most, -least) if mixed else None
    ax = one(ax, (4.8, 4.0))
    drawn = ax.imshow(
        K, interpolation="nearest", cmap=DIVERGING if mixed else UNCERTAIN, vmin=None if end is None else -end, vmax=end
    )
    bar = ax.figure.colorbar(drawn, ax=ax)
    bar.outline.set_visible(False)
    text = "rows" if sort is None else f"rows, by {column_name(names, sort)}"
    ax.set_xlabel(text)
    ax.set_ylabel(text)
    title(ax, "covariance given the data" if kernel is None else "covariance")
    return ax


# parts ----------------------------------------------------------------------------------------------------------


def fewest_columns(who: str, kernel: AbstractKernel) -> int:
    """Return the smallest number of input columns a kernel accepts."""
    for columns in range(1, MOST_COLUMNS + 1):
        try:
            kernel.check(Inputs(np.zeros((1, columns))))
        except CovaryError:
            continue
        return columns
    raise fail(who, f"{kernel!r} accepts no number of columns up to {MOST_COLUMNS}", "give columns")


def reach(kernel: AbstractKernel, columns: int = 1, along: int = 0) -> tuple[float, float]:
    """Return a range for plots: 0 to ten times the distance at which the correlation is one half; 0 to 5 if there is none."""
    if not kernel.traits.stationary:
        return 0.0, 5.0
    r = np.geomspace(1e-6, 1e6, 1200)
    k = kernel.cross(_along(r, columns, along), np.zeros((1, columns)))[:, 0]
    half = np.flatnonzero(k < 0.5 * float(kernel.diag(np.zeros((1, columns)))[0]))
    return 0.0, float(10 * r[half[0]]) if len(half) else 5.0


def _kernel(who: str, value: AbstractKernel | str) -> AbstractKernel:
    value = parse(value) if isinstance(value, str) else value
    if not isinstance(value, AbstractKernel):
        raise fail(who, f"got {type(value).__name__}", "give a kernel from covary.kernels, or its text")
    return value


def _along(values: np.ndarray, columns: int, along: int) -> np.ndarray:
    x = np.zeros((len(values), columns))
    x[:, along] = values
    return x


def _has_spectrum(kernel: AbstractKernel, columns: int) -> bool:
    try:
        spectral_density(kernel, np.zeros((1, columns)), columns)
    except CovaryError:
        return False
    return True


def _sampled_map(ax: Given, prior: GP, low: float, high: float, key: int) -> Axes:
    u = np.linspace(low, high, SIDE)
    grid = np.stack(np.meshgrid(u, u), axis=-1).reshape(-1, 2)
    f = sample_prior(prior, grid, 1, key=key)[0].reshape(SIDE, SIDE)
    most = float(np.abs(f).max()) or 1.0
    ax = one(ax, (4.8, 4.0))
    edge = (u[1] - u[0]) / 2
    ends = (low - edge, high + edge) * 2
    drawn = ax.imshow(f, extent=ends, origin="lower", cmap=DIVERGING, vmin=-most, vmax=most, interpolation="bilinear")
    ax.figure.colorbar(drawn, ax=ax).outline.set_visible(False)
    ax.set_xlabel("x0")
    ax.set_ylabel("x1")
    title(ax, "one function")
    return ax
