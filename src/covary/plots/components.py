"""Plots of the additive terms of a kernel, such as trend and season, each with its error bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from covary._checks import fail
from covary._precision import precision
from covary._threads import blas_threads
from covary.data import Inputs
from covary.kernels import tiles
from covary.kernels.base import AbstractKernel
from covary.plots.columns import columns_of, snapped, typical
from covary.plots.fit import drawn_range
from covary.plots.source import Drawable, Source, coded_columns
from covary.plots.style import BLUE, GREY, INK, SEQUENTIAL, Given, bare, names_shown, several, spaced, title
from covary.posterior import Posterior, with_matrix
from covary.posterior.components import Reader
from covary.prediction import Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIDE = 40  # points along either side of a map
MOST_ROWS = 300  # rows over which a term is centred


@names_shown
def plot_components(
    model: Drawable,
    ax: Given = None,
    *,
    names: Sequence[str] | None = None,
    points: int = 600,
    margin: float = 0.0,
    most: int = 9,
) -> np.ndarray:
    """Plot each additive term of the kernel in its own panel: its mean, the 95 % band, and its share of the fit's variance.

    Each term is centred over the rows of the data, because a constant can be moved between terms, and its uncertainty would
    widen every band. A term that acts on one column is drawn along it, on two as a map of its mean, and on more as its
    sorted values at the rows of the data. The shares add up to one; see
    :meth:`~covary.posterior.components.Components.share`.

    Parameters
    ----------
    model
        A posterior with one latent function, or a fitted estimator.
    ax
        An array of axes, one per term; created if None.
    names
        Names of the input columns; by default those seen in ``fit``.
    points
        Points along a curve.
    margin
        How far a curve extends beyond the data, as a share of their range.
    most
        The maximum number of panels; the terms with the largest shares are kept, in the order of the kernel.

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
    source = Source.of(who, model)
    post, labels = with_matrix(who, source.first), source.names(names)
    inputs = post.data.X
    x = np.asarray(inputs.x, np.float64)
    there = post.components(inputs)
    if there.mean.ndim > 2:
        raise fail(who, "the model has several outputs", "plot the components of one output")
    share = np.array(list(there.share().values())) if np.ptp(there.mean.sum(0)) > 0 else np.zeros(len(there))
    chosen = np.sort(np.argsort(-np.abs(share), kind="stable")[:most])
    single = x.shape[1] == 1
    size = (7.0, 1.9) if single else (3.4, 2.6)
    axes = several(who, ax, len(chosen), panel=size, wide=1 if single else None, sharex=single)
    rows = inputs.take(np.unique(np.linspace(0, inputs.rows - 1, min(inputs.rows, MOST_ROWS)).astype(int)))
    reader, coded = Reader(who, post), coded_columns(post.model.kernel, inputs.columns)
    for one, j in zip(axes, chosen, strict=True):
        term = _Term(post, reader, there.kernels[j], rows, x, coded)
        _panel(one, term, labels, points, margin)
        if single and ax is None and one is not axes[-1]:
            one.set_xlabel("")
        digits = 0 if abs(share[j]) >= 0.1 else 1
        title(one, f"{there.names[j]}: {100 * share[j]:.{digits}f} % of the variance".replace("-", "−"))
    return axes if ax is None else ax  # type: ignore[return-value]


class _Term(NamedTuple):
    """One term of the kernel, and the rows over which it is centred; ``kernel`` is None for explicit basis functions."""

    post: Posterior
    reader: Reader
    kernel: AbstractKernel | None
    rows: Inputs
    x: np.ndarray
    coded: set[int]

    def along(self, columns: Sequence[int], values: np.ndarray) -> Spread:
        """Return the term at typical rows with some columns set to values (m, columns)."""
        grid = np.tile(typical(self.x, self.coded), (len(values), 1))
        grid[:, list(columns)] = values
        return _centred(self.post, self.reader, self.kernel, snapped(grid, self.x, self.coded), self.rows)


def _panel(ax: Axes, term: _Term, labels: list[str], points: int, margin: float) -> None:
    """Draw a term along its column, as a map over two columns, or at the rows of the data."""
    acts = columns_of(term.kernel, term.x.shape[1])
    if len(acts) == 1:
        at = spaced(term.x[:, acts[0]], points, margin)
        _curve(ax, at, term.along(acts, at[:, None]))
        ax.set_xlabel(labels[acts[0]])
    elif len(acts) == 2:
        u, v = (spaced(term.x[:, c], SIDE, 0.02) for c in acts)
        mesh = np.stack(np.meshgrid(u, v), axis=-1).reshape(-1, 2)
        _map(ax, u, v, term.along(acts, mesh).mean, term.x[:, list(acts)])
        ax.set_xlabel(labels[acts[0]])
        ax.set_ylabel(labels[acts[1]])
    else:
        found = _centred(term.post, term.reader, term.kernel, term.rows.x, term.rows)
        order = np.argsort(found.mean, kind="stable")
        _curve(ax, np.arange(1, term.rows.rows + 1), Spread(found.mean[order], found.variance[order]))
        ax.set_xlabel("rows, sorted")


def _centred(post: Posterior, reader: Reader, kernel: AbstractKernel | None, grid: np.ndarray, rows: Inputs) -> Spread:
    """Return a term minus its mean over the given rows."""
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


def _curve(ax: Axes, at: np.ndarray, found: Spread) -> None:
    low, high = found.interval()
    ax.fill_between(at, low, high, color=BLUE, alpha=0.25, lw=0)
    ax.plot(at, found.mean, color=BLUE, lw=1.6)
    ax.axhline(0.0, color=GREY, lw=0.6, zorder=0.5)
    ax.margins(x=0)
    bare(ax)


def _map(ax: Axes, u: np.ndarray, v: np.ndarray, mean: np.ndarray, x: np.ndarray) -> None:
    from matplotlib.ticker import MaxNLocator

    drawn = ax.contourf(u, v, mean.reshape(len(v), len(u)), levels=np.linspace(*drawn_range(mean), 21), cmap=SEQUENTIAL)
    ax.figure.colorbar(drawn, ax=ax, ticks=MaxNLocator(5)).outline.set_visible(False)
    ax.scatter(*x.T, s=4, color="white", edgecolors=INK, linewidths=0.3)
