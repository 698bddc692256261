"""What a kernel says before any data are seen: samples, covariance against distance, spectrum, and its matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from covary._checks import CovaryError, fail
from covary._words import counted
from covary.data import Inputs, as_inputs
from covary.kernels.base import AbstractKernel
from covary.kernels.spectrum import spectral_density
from covary.kernels.text import parse
from covary.model import GP
from covary.plots.style import (
    BLUE,
    COLOURS,
    DIVERGING,
    GREY,
    UNCERTAIN,
    bare,
    column_name,
    legend,
    names_shown,
    one,
    several,
    title,
)
from covary.posterior import sample_prior

MOST_COLUMNS = 64  # looked through for the number of columns a kernel fits
SIDE = 48  # points along either side of a map
MOST_ROWS = 400  # rows of a matrix that are drawn


def plot_prior(
    prior: Any,
    ax: Any = None,
    *,
    samples: int = 4,
    key: int = 0,
    over: tuple[float, float] | None = None,
    points: int = 300,
    columns: int | None = None,
) -> Any:
    """Functions drawn from a prior with the band that holds 95 % of them; one of them as a map for two columns.

    Parameters
    ----------
    prior
        A kernel, its text, or a :class:`covary.GP`.
    ax
        The axes to draw on, made if None.
    samples
        The number of functions.
    key
        Seed of the draws.
    over
        The range of the input; by default from 0 to ten times the distance over which the correlation halves.
    points
        Points along a curve.
    columns
        Input columns, one or two; by default the fewest the kernel fits.

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
        raise fail(who, f"the kernel has {columns} input columns", "draw kernels of one or two")
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
    kernel: Any,
    ax: Any = None,
    *,
    over: float | tuple[float, float] | None = None,
    at: Any = None,
    along: int = 0,
    columns: int | None = None,
) -> Any:
    """Covariance against distance, and the spectral density beside it where there is one in closed form.

    A kernel that is not stationary is drawn as k(x, x') against x for some x'.

    Parameters
    ----------
    kernel
        A kernel, or its text.
    ax
        One of two axes, the second for the spectrum; made if None.
    over
        The largest distance, or (low, high) for a kernel that is not stationary.
    at
        The points x' of a kernel that is not stationary; three inside the range by default.
    along
        The column along which points differ.
    columns
        Input columns; by default the fewest the kernel fits.

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
        raise fail(who, f"along is {along} and the kernel has {counted(columns, 'column')}", "give one of them")
    stationary = kernel.traits.stationary
    low, high = reach(kernel, columns, along)
    if over is not None:
        low, high = (low if stationary else 0.0, float(over)) if np.ndim(over) == 0 else tuple(over)  # type: ignore[misc,arg-type]
    spectrum = stationary and _has_spectrum(kernel, columns)
    wanted = spectrum if ax is None else np.size(np.asarray(ax, dtype=object)) > 1
    if wanted and not spectrum:
        raise fail(who, f"{kernel!r} has no spectral density in closed form", "give one of axes")
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
    return axes if ax is None and wanted else axes[0] if ax is None else ax


def plot_spectrum(
    kernel: Any, ax: Any = None, *, highest: float | None = None, along: int = 0, columns: int | None = None
) -> Any:
    """The spectral density of a stationary kernel against frequency, in cycles per unit of input.

    Parameters
    ----------
    kernel
        A kernel that :func:`covary.kernels.spectral_density` knows, or its text.
    ax
        The axes to draw on, made if None.
    highest
        The highest frequency; by default where the density has fallen to a thousandth.
    along
        The column whose frequency varies; those of the others are zero.
    columns
        Input columns; by default the fewest the kernel fits.
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
def plot_gram(model: Any, X: Any = None, ax: Any = None, *, sort: int | None = None, names: Any = None) -> Any:
    """The covariance matrix of a kernel at the rows of X as a heat map, or that of a posterior.

    Blocks are groups of rows that are alike, a bright diagonal on dark ground is a kernel that sees nothing in common.

    Parameters
    ----------
    model
        A kernel or its text, with X; or a posterior or a fitted estimator, of which the covariance between the rows (of its
        own data without X) after the data is shown.
    X
        Rows (n, d); of more than 400 every so-manieth is drawn.
    ax
        The axes to draw on, made if None.
    sort
        The column by which rows are sorted; with one column that one.
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
    post = getattr(model, "posterior_", model)
    kernel = None if hasattr(post, "solved") else _kernel(who, model)
    if X is None and kernel is not None:
        raise fail(who, "there is no X", "give rows, or a posterior with its own")
    inputs = post.data.X if X is None else as_inputs(X, who)
    if sort is None and inputs.columns == 1:
        sort = 0
    if sort is not None and not 0 <= sort < inputs.columns:
        raise fail(who, f"sort is {sort} and X has {counted(inputs.columns, 'column')}", "give the number of a column")
    order = np.arange(inputs.rows) if sort is None else np.argsort(np.asarray(inputs.x)[:, sort], kind="stable")
    order = order[:: max(1, -(-len(order) // MOST_ROWS))]
    rows = inputs.take(order)
    K = np.asarray(post.covariance(rows) if kernel is None else kernel.gram(rows))
    least, most = float(K.min()), float(K.max())
    mixed = least < -0.05 * most
    options = {"cmap": DIVERGING, "vmin": -max(most, -least), "vmax": max(most, -least)} if mixed else {"cmap": UNCERTAIN}
    ax = one(ax, (4.8, 4.0))
    drawn = ax.imshow(K, interpolation="nearest", **options)
    bar = ax.figure.colorbar(drawn, ax=ax)
    bar.outline.set_visible(False)
    text = "rows" if sort is None else f"rows, by {column_name(names, sort)}"
    ax.set_xlabel(text)
    ax.set_ylabel(text)
    title(ax, "covariance given the data" if kernel is None else "covariance")
    return ax


# parts ----------------------------------------------------------------------------------------------------------


def fewest_columns(who: str, kernel: AbstractKernel) -> int:
    """The fewest input columns a kernel fits."""
    for columns in range(1, MOST_COLUMNS + 1):
        try:
            kernel.check(Inputs(np.zeros((1, columns))))
        except CovaryError:
            continue
        return columns
    raise fail(who, f"{kernel!r} fits no number of columns up to {MOST_COLUMNS}", "give columns")


def reach(kernel: AbstractKernel, columns: int = 1, along: int = 0) -> tuple[float, float]:
    """A range that shows a kernel: 0 to ten times the distance over which the correlation halves; 0 to 5 if none does."""
    if not kernel.traits.stationary:
        return 0.0, 5.0
    r = np.geomspace(1e-6, 1e6, 1200)
    k = kernel.cross(_along(r, columns, along), np.zeros((1, columns)))[:, 0]
    half = np.flatnonzero(k < 0.5 * float(kernel.diag(np.zeros((1, columns)))[0]))
    return 0.0, float(10 * r[half[0]]) if len(half) else 5.0


def _kernel(who: str, value: Any) -> AbstractKernel:
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


def _sampled_map(ax: Any, prior: Any, low: float, high: float, key: int) -> Any:
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
