"""The additive terms of a kernel, each with its error bars: a trend and a season apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from covary._checks import fail
from covary._precision import precision
from covary._threads import blas_threads
from covary.components import Reader
from covary.data import Inputs
from covary.kernels import tiles
from covary.plots.columns import coded_columns, columns_of, names_of, snapped, typical
from covary.plots.fit import drawn_range
from covary.plots.style import BLUE, GREY, INK, SEQUENTIAL, bare, names_shown, posteriors, several, spaced, title
from covary.prediction import Spread

SIDE = 40  # points along either side of a map
MOST_ROWS = 300  # rows over which a term is centred


@names_shown
def plot_components(
    model: Any,
    ax: Any = None,
    *,
    names: Sequence[str] | None = None,
    points: int = 600,
    margin: float = 0.0,
    most: int = 9,
) -> np.ndarray:
    """One panel for each additive term of the kernel: its mean, the 95 % band, and its share of the fit's variance.

    Terms are shown less their mean over the rows of the data: a constant can go from one to the other, and what the data do
    not say about it would widen every band. A term that acts on one column is drawn along it, on two as a map of its mean,
    on more as its values at the rows of the data, sorted. The shares add to one; see :meth:`covary.Components.share`.

    Parameters
    ----------
    model
        A posterior with one latent function, or a fitted estimator.
    ax
        An array of axes, as many as there are terms; made if None.
    names
        Names of the input columns; those seen in ``fit`` by default.
    points
        Points along a curve.
    margin
        How far a curve reaches beyond the data, as a share of their range.
    most
        The most panels: those of the largest shares, in the order of the kernel.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from covary import GP, Data, Model, condition
    >>> x = np.linspace(0.0, 6.0, 60)[:, None]
    >>> model = Model(GP("Linear() + Periodic(period=1.0)"))
    >>> axes = plot_components(condition(model, Data(x, 0.5 * x[:, 0] + np.sin(2 * np.pi * x[:, 0]))))
    >>> [ax.get_title("left").split(":")[0] for ax in axes]
    ['Linear', 'Periodic']
    >>> plt.close()
    """
    who = "plots.plot_components"
    post = posteriors(who, model)[0]
    inputs = post.data.X
    x, labels = np.asarray(inputs.x, np.float64), names_of(model, inputs.columns, names)
    there = post.components(inputs)
    if there.mean.ndim > 2:
        raise fail(who, "the model has several outputs", "plot components of one output")
    share = np.array(list(there.share().values())) if np.ptp(there.mean.sum(0)) > 0 else np.zeros(len(there))
    chosen = np.sort(np.argsort(-np.abs(share), kind="stable")[:most])
    single = x.shape[1] == 1
    size = (7.0, 1.9) if single else (3.4, 2.6)
    axes = several(who, ax, len(chosen), panel=size, wide=1 if single else None, sharex=single)
    rows = inputs.take(np.unique(np.linspace(0, inputs.rows - 1, min(inputs.rows, MOST_ROWS)).astype(int)))
    reader, coded = Reader(who, post), coded_columns(post.model.kernel, range(inputs.columns))
    middle = typical(x, coded)
    for one, j in zip(axes, chosen, strict=True):
        acts = columns_of(there.kernels[j], x.shape[1])
        if len(acts) == 1:
            at = spaced(x[:, acts[0]], points, margin)
            grid = np.tile(middle, (points, 1))
            grid[:, acts[0]] = at
            grid = snapped(grid, x, coded)
            _curve(one, at, _centred(post, reader, there.kernels[j], grid, rows))
            if not single or ax is not None or one is axes[-1]:
                one.set_xlabel(labels[acts[0]])
        elif len(acts) == 2:
            u, v = (spaced(x[:, c], SIDE, 0.02) for c in acts)
            grid = np.tile(middle, (SIDE * SIDE, 1))
            grid[:, list(acts)] = np.stack(np.meshgrid(u, v), axis=-1).reshape(-1, 2)
            grid = snapped(grid, x, coded)
            _map(one, u, v, _centred(post, reader, there.kernels[j], grid, rows).mean, x[:, list(acts)])
            one.set_xlabel(labels[acts[0]])
            one.set_ylabel(labels[acts[1]])
        else:
            found = _centred(post, reader, there.kernels[j], rows.x, rows)
            order = np.argsort(found.mean, kind="stable")
            _curve(one, np.arange(1, rows.rows + 1), Spread(found.mean[order], found.variance[order]))
            one.set_xlabel("rows, sorted")
        digits = 0 if abs(share[j]) >= 0.1 else 1
        title(one, f"{there.names[j]}: {100 * share[j]:.{digits}f} % of the variance".replace("-", "−"))
    return axes if ax is None else ax


def _centred(post: Any, reader: Reader, kernel: Any, grid: np.ndarray, rows: Any) -> Spread:
    """A term less its mean over some rows; ``kernel`` is None for explicit basis functions."""
    X = Inputs(np.asarray(grid, post.data.dtype), {name: np.resize(tag, len(grid)) for name, tag in rows.tags.items()})
    with precision(post.data.dtype), blas_threads(post.data.rows):
        if kernel is None:
            H = post.basis_at(X) - post.basis_at(rows).mean(0)
            C, prior = np.zeros((reader.support.rows, X.rows), post.data.dtype, order="F"), np.zeros(X.rows)
        else:
            C = tiles.cross(kernel, reader.support, X) - tiles.cross(kernel, reader.support, rows).mean(1)[:, None]
            C = np.asfortranarray(C)
            H = None if reader.beta is None else np.zeros((X.rows, len(reader.beta)), post.data.dtype)
            across = tiles.cross(kernel, X, rows).mean(1)
            prior = tiles.diag(kernel, X) - 2 * across + tiles.cross(kernel, rows, rows).mean()
        rest = reader.rest(C, H)
        return Spread(reader.mean(C, H), np.maximum(prior - reader.reduction(C, C, rest, rest), 0.0))


def _curve(ax: Any, at: np.ndarray, found: Spread) -> None:
    low, high = found.interval()
    ax.fill_between(at, low, high, color=BLUE, alpha=0.25, lw=0)
    ax.plot(at, found.mean, color=BLUE, lw=1.6)
    ax.axhline(0.0, color=GREY, lw=0.6, zorder=0.5)
    ax.margins(x=0)
    bare(ax)


def _map(ax: Any, u: np.ndarray, v: np.ndarray, mean: np.ndarray, x: np.ndarray) -> None:
    from matplotlib.ticker import MaxNLocator

    drawn = ax.contourf(u, v, mean.reshape(len(v), len(u)), levels=np.linspace(*drawn_range(mean), 21), cmap=SEQUENTIAL)
    ax.figure.colorbar(drawn, ax=ax, ticks=MaxNLocator(5)).outline.set_visible(False)
    ax.scatter(*x.T, s=4, color="white", edgecolors=INK, linewidths=0.3)
