"""Plots of class probabilities with the data: a map for two input columns, curves for one, one panel per input for more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.interpolate import RectBivariateSpline

from covary import fits
from covary._checks import fail
from covary.data import Inputs
from covary.plots.columns import snapped, typical
from covary.plots.source import Source
from covary.plots.style import COLOURS, INK, MARKS, Given, Option, ink, literally, look, names_shown, one, spaced
from covary.posterior import class_probabilities

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

MANY = (*COLOURS, "#777777", "#C4B7A6")  # regions of a map are told apart by colour only
SOFT = 0.62  # strength of the colours of a map, so that points remain visible
RANKED = 25  # points along each input when the inputs are ranked
FINER = 8  # refinement of the grid for drawing a map of several classes


@names_shown
def plot_classes(
    estimator: fits.Model,
    ax: Given = None,
    *,
    names: Sequence[str] | None = None,
    points: int | None = None,
    margin: float = 0.05,
    panels: int = 9,
) -> Axes | np.ndarray:
    """Plot class probabilities and the data.

    Two input columns: a map of the probability of the second of two classes, with contours at 0.1, 0.5 and 0.9, or of the
    most probable of several classes, paler where it is less probable. One column: the probability of each class along it. More
    columns: one panel for each, ordered by their effect on the probabilities, with the other columns at their medians. For
    two classes, a band shows the 95 % interval of the probability due to the uncertainty of the latent function.

    Parameters
    ----------
    estimator
        A fitted :class:`~covary.GPClassifier`.
    ax
        The axes to draw on, created if None. For three columns or more an array of axes, one for each panel.
    names
        Names of the input columns; by default those seen in ``fit``.
    points
        Points along a curve or along each side of a map: by default 200 and 100 for two classes, 100 and 40 for more.
    margin
        How far the plot extends beyond the data, as a share of their range.
    panels
        The maximum number of panels.
    """
    if points is not None and points < 4:
        raise fail("plots.plot_classes", f"points is {points}", "give four or more", argument="points")
    source = Source.of("plots.plot_classes", estimator)
    if not source.classes:
        raise fail("plots.plot_classes", "the model is not a classifier", "use covary.plots.plot_fit")
    shown = _Shown.of(source, names)
    columns = shown.x.shape[1]
    if columns > 2:
        return _panels(shown, ax, points, margin, panels)
    if ax is not None and np.size(np.asarray(ax, dtype=object)) != 1:
        count = np.size(np.asarray(ax, dtype=object))
        raise fail("plots.plot_classes", f"got {count} axes for one or two input columns", "give a single one")
    axes, given = one(ax, (6.6, 5)), ax is not None
    if columns == 2:
        (_map if shown.two else _regions)(shown, axes, points, margin, given)
    else:
        _curve(shown, axes, points, margin, given)
    return axes if ax is None else ax  # type: ignore[return-value]


class _Shown(NamedTuple):
    """A classifier and its data, prepared for plotting."""

    source: Source
    x: np.ndarray
    codes: np.ndarray  # the class code of each row
    labels: list[str]
    names: list[str]
    colours: tuple[str, ...]
    coded: set[int]  # the columns that contain codes of categories

    @staticmethod
    def of(source: Source, names: Sequence[str] | None) -> _Shown:
        if source.posteriors:
            each = [np.asarray(post.data.y) for post in source.posteriors]  # one-vs-rest: all have the same rows
            codes = each[0].astype(int) if len(each) == 1 else np.argmax(each, axis=0)
        else:
            codes = source.training.y[:, 0].astype(int)
        x, coded = np.asarray(source.inputs.x, np.float64), source.coded
        colours = tuple(MANY[c % len(MANY)] for c in range(len(source.classes)))
        return _Shown(source, x, codes, source.classes, source.names(names), colours, coded)

    @property
    def two(self) -> bool:
        """Whether there are two classes."""
        return len(self.labels) == 2

    @property
    def banded(self) -> bool:
        """Whether there is one latent function, so that the probability has an interval."""
        return self.two and bool(self.source.posteriors)

    def rows(self, X: np.ndarray) -> Inputs:
        """Return the inputs of the kernels for rows X, with codes moved to existing categories."""
        return Inputs(snapped(X, self.x, self.coded))

    def probabilities(self, X: np.ndarray) -> np.ndarray:
        """Return the averaged class probabilities (m, C)."""
        rows = self.rows(X)
        if not self.source.posteriors:
            return self.source.predicted(np.asarray(rows.x))
        return class_probabilities(self.source.posteriors, [post.predict(rows).f for post in self.source.posteriors])

    def interval(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the 95 % interval of the probability of the second of two classes."""
        post = self.source.first
        low, high = post.predict(self.rows(X)).f.interval()
        return post.model.likelihood.moments(low).mean, post.model.likelihood.moments(high).mean


# two inputs ------------------------------------------------------------------------------------------------------


def _map(shown: _Shown, ax: Axes, points: int | None, margin: float, given: bool) -> None:
    """Draw a map of the probability of the second class."""
    from matplotlib.colors import LinearSegmentedColormap

    u, v, mesh = _mesh(shown, points or 100, margin)
    p = shown.probabilities(mesh)[:, 1].reshape(len(v), len(u))
    ends = [_paler(colour, SOFT) for colour in shown.colours]
    diverging = LinearSegmentedColormap.from_list("classes", [ends[0], "#F7F7F7", ends[1]])
    drawn = _image(ax, u, v, p, cmap=diverging, vmin=0, vmax=1, interpolation="bilinear")
    bar = ax.figure.colorbar(drawn, ax=ax, ticks=[0, 0.1, 0.5, 0.9, 1])
    bar.ax.set_title(f"P({shown.labels[1]})", fontsize=10)
    literally(bar.ax)
    bar.outline.set_visible(False)
    for level, width in ((0.1, 0.8), (0.5, 2.2), (0.9, 0.8)):
        bar.ax.axhline(level, color=INK, lw=width)
        if p.min() < level < p.max():
            ax.contour(u, v, p, levels=[level], colors=INK, linewidths=width)
    _dots(shown, ax, given)


def _regions(shown: _Shown, ax: Axes, points: int | None, margin: float, given: bool) -> None:
    """Draw the most probable class, paler where it is less probable, and the class boundaries."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    u, v, mesh = _mesh(shown, points or 40, margin)
    p = shown.probabilities(mesh).reshape(len(v), len(u), -1)
    u, v, p = _finer(u, v, p)
    classes = p.shape[2]
    least = 1 / classes
    top, best = p.max(2), p.argmax(2)
    strength = SOFT * (top - least) / (1 - least)
    full = np.array([_paler(colour, 1.0) for colour in shown.colours])
    _image(ax, u, v, 1 - strength[..., None] * (1 - full[best]), interpolation="nearest")
    for c in np.unique(best):
        lead = p[..., c] - np.delete(p, c, axis=2).max(2)
        if lead.min() < 0 < lead.max():
            ax.contour(u, v, lead, levels=[0.0], colors=INK, linewidths=1.2)
    greys = LinearSegmentedColormap.from_list("strength", ["white", _paler(INK, SOFT)])
    bar = ax.figure.colorbar(ScalarMappable(Normalize(least, 1), greys), ax=ax)
    bar.ax.set_title("P(class)", fontsize=10)
    _dots(shown, ax, given)


def _mesh(shown: _Shown, points: int, margin: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    u, v = (spaced(shown.x[:, i], points, margin) for i in range(2))
    return u, v, np.stack(np.meshgrid(u, v), axis=-1).reshape(-1, 2)


def _finer(u: np.ndarray, v: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the probabilities on a refined grid, by spline interpolation of log p, which is smooth."""
    logs = np.log(np.maximum(p, 1e-9))
    a, b = (np.linspace(w[0], w[-1], FINER * (len(w) - 1) + 1) for w in (u, v))
    fine = np.exp(np.stack([RectBivariateSpline(v, u, logs[..., c])(b, a) for c in range(p.shape[2])], axis=2))
    return a, b, fine / fine.sum(2, keepdims=True)


def _image(ax: Axes, u: np.ndarray, v: np.ndarray, values: np.ndarray, **options: str | float | Colormap) -> AxesImage:
    """Draw an image whose pixels are centred on the grid."""
    a, b = (u[1] - u[0]) / 2, (v[1] - v[0]) / 2
    edges = (u[0] - a, u[-1] + a, v[0] - b, v[-1] + b)
    drawn = ax.imshow(values, extent=edges, origin="lower", aspect="auto", **options)  # type: ignore[arg-type]
    ax.set_xlim(u[0], u[-1])
    ax.set_ylim(v[0], v[-1])
    return drawn


def _dots(shown: _Shown, ax: Axes, inside: bool) -> None:
    """Draw the data by colour and marker, the axis labels and the legend."""
    size = float(np.clip(6000 / len(shown.x), 9, 42))
    for c, label in enumerate(shown.labels):
        x = shown.x[shown.codes == c]
        ax.scatter(
            x[:, 0],
            x[:, 1],
            s=size,
            color=shown.colours[c],
            marker=MARKS[c % len(MARKS)],
            edgecolors="white" if shown.two else [_darker(shown.colours[c])],
            linewidths=0.6,
            label=label,
            zorder=3,
        )
    ax.set_xlabel(shown.names[0])
    ax.set_ylabel(shown.names[1])
    ax.legend(**_place(shown.labels, inside), markerscale=(42 / size) ** 0.5)  # type: ignore[arg-type]


def _place(labels: list[str], inside: bool) -> dict[str, Option]:
    """Return the options of a map's legend: inside axes that were given, else above them."""
    if inside:
        return {"loc": "best", "framealpha": 0.85, "edgecolor": "none", "fontsize": 8}
    return {"loc": "lower left", "bbox_to_anchor": (0, 1.0), **_in_rows(labels, 64)[1]}


def _in_rows(labels: list[str], room: float) -> tuple[int, dict[str, Option]]:
    """Return the number of rows, of about ``room`` characters, that a legend needs, and its options."""
    fit = max(1, int(room / (max(len(label) for label in labels) + 7)))
    rows = -(-len(labels) // fit)
    close = {"handletextpad": 0.4, "columnspacing": 1.2, "frameon": False, "fontsize": 9}
    return rows, {"ncols": -(-len(labels) // rows), **close}


def _paler(colour: str, strength: float) -> tuple[float, float, float]:
    """Return a colour mixed with white."""
    from matplotlib.colors import to_rgb

    r, g, b = (1 - strength * (1 - part) for part in to_rgb(colour))
    return r, g, b


def _darker(colour: str) -> tuple[float, float, float]:
    r, g, b = (0.55 * part for part in _paler(colour, 1.0))
    return r, g, b


# one input, and one at a time --------------------------------------------------------------------------------------


def _curve(shown: _Shown, ax: Axes, points: int | None, margin: float, given: bool) -> None:
    """Draw the probabilities along the only input."""
    X = spaced(shown.x[:, 0], _along(shown, points), margin)[:, None]
    curves = _Curves(X, 0, shown.probabilities(X), shown.interval(X) if shown.banded else None)
    _draw(shown, ax, curves)
    ax.set_ylabel(_axis_name(shown))
    _legend(ax, given)


class _Curves(NamedTuple):
    """Probabilities along one input."""

    X: np.ndarray
    column: int
    p: np.ndarray
    band: tuple[np.ndarray, np.ndarray] | None


def _panels(shown: _Shown, ax: Given, points: int | None, margin: float, panels: int) -> np.ndarray:
    """Draw one panel per input, with the other inputs at their medians."""
    import matplotlib.pyplot as plt

    if panels < 1:
        raise fail("plots.plot_classes", f"panels is {panels}", "give one or more", argument="panels")
    axes = None if ax is None else np.ravel(np.asarray(ax, dtype=object))
    order = _ranked(shown, margin)[: panels if axes is None else min(panels, len(axes))]
    drawn = []
    for column in order:
        X = _varied(shown, column, _along(shown, points), margin)
        drawn.append(_Curves(X, column, shown.probabilities(X), shown.interval(X) if shown.banded else None))
    wide = 1 if len(drawn) == 1 else 2 if len(drawn) in (2, 4) else 3
    figure = None
    if axes is None:
        tall = -(-len(drawn) // wide)
        size = (max(3.4 * wide, 5.0), 2.5 * tall + 0.9)
        figure, made = plt.subplots(tall, wide, figsize=size, layout="constrained", sharey=True, squeeze=False)
        axes = made.ravel()
        for spare in axes[len(drawn) :]:
            spare.remove()
        axes = axes[: len(drawn)]
    for i, (axis, curves) in enumerate(zip(axes, drawn, strict=False)):
        _draw(shown, axis, curves)
        if figure is None or i % wide == 0:
            axis.set_ylabel(_axis_name(shown))
    _legend(axes[0], figure is None, figure, 40 * wide)
    if figure is None:
        for axis in axes[1 : len(drawn)]:
            axis.set_ylim(axes[0].get_ylim())
        return axes if ax is None else ax  # type: ignore[return-value]
    figure.supxlabel("one input at a time, the others at their medians", fontsize=9)
    return axes


def _ranked(shown: _Shown, margin: float) -> list[int]:
    """Return the inputs ordered by how much the probabilities change along them; constant ones only if all are constant."""
    varying = [i for i in range(shown.x.shape[1]) if np.ptp(shown.x[:, i]) > 0] or list(range(shown.x.shape[1]))
    rows = np.concatenate([_varied(shown, i, RANKED, margin) for i in varying])
    p = shown.probabilities(rows).reshape(len(varying), RANKED, -1)
    return [varying[i] for i in np.argsort(-np.ptp(p, axis=1).max(1), kind="stable")]


def _varied(shown: _Shown, column: int, points: int, margin: float) -> np.ndarray:
    """Return rows where one input runs over its range and the others stay at their medians."""
    X = np.tile(typical(shown.x, shown.coded), (points, 1))
    X[:, column] = spaced(shown.x[:, column], points, margin)
    return X


def _along(shown: _Shown, points: int | None) -> int:
    return points or (200 if shown.two else 100)


def _axis_name(shown: _Shown) -> str:
    return f"P({shown.labels[1]})" if shown.banded else "probability"


def _draw(shown: _Shown, ax: Axes, curves: _Curves) -> None:
    """Draw the curves of one input, and the data as tick marks: below, or above for the second of two classes."""
    x, p = curves.X[:, curves.column], curves.p
    if curves.band is not None:
        ax.fill_between(x, *curves.band, color="#777777", alpha=0.3, lw=0, label="95 % interval")
        ax.plot(x, p[:, 1], color=ink(), lw=1.8, label="mean")
        ax.axhline(0.5, color="#999999", lw=0.8, ls=":", zorder=0.5)
        places = [-0.06, 1.06]
        ax.set_ylim(-0.1, 1.1)
    else:
        step = min(0.055, 0.4 / p.shape[1])
        places = -0.02 - step * (np.arange(p.shape[1]) + 0.5)
        for c, label in enumerate(shown.labels):
            ax.plot(x, p[:, c], **{**look(c, len(x)), "color": shown.colours[c]}, lw=1.8, label=label)
        ax.set_ylim(places[-1] - step, 1.03)
    for c, label in enumerate(shown.labels):
        seen = shown.x[shown.codes == c, curves.column]
        ax.scatter(
            seen,
            np.full(len(seen), places[c]),
            s=30 if shown.banded else 18,
            marker="|",
            color=shown.colours[c],
            linewidths=1.0,
            alpha=float(np.clip(60 / max(len(seen), 1), 0.25, 0.9)),
            label=f"{label} ({len(seen)})" if shown.banded else None,
        )
    ax.set_yticks([0, 0.5, 1])
    ax.set_xlabel(shown.names[curves.column])
    ax.margins(x=0)
    ax.spines[["top", "right"]].set_visible(False)


def _legend(ax: Axes, inside: bool, figure: Figure | None = None, room: float = 80) -> None:
    """Draw the legend: above the axes, at the top of a new figure, or in a strip at the top of axes that were given."""
    from matplotlib.collections import PathCollection
    from matplotlib.lines import Line2D

    handles, labels = ax.get_legend_handles_labels()
    for i, handle in enumerate(handles):
        if isinstance(handle, PathCollection):  # a longer mark than along the axis
            edge = np.asarray(handle.get_edgecolor())
            handles[i] = Line2D([], [], ls="", marker="|", ms=10, mew=2, color=edge[0][:3])
    if figure is not None:
        figure.legend(handles, labels, loc="outside upper left", handlelength=2.6, **_in_rows(labels, room)[1])
    elif not inside:
        ax.legend(handles, labels, loc="lower left", bbox_to_anchor=(0, 1.0), handlelength=2.6, **_in_rows(labels, room)[1])
    else:
        box = ax.get_window_extent()
        width, height = (72 / ax.figure.dpi * side for side in (box.width, box.height))  # in points
        rows, options = _in_rows(labels, width / 5.5)
        share = min(0.5, 18 * rows / height)
        low, high = ax.get_ylim()
        ax.set_ylim(low, (high - share * low) / (1 - share))
        ax.legend(handles, labels, loc="upper left", borderaxespad=0.0, handlelength=2.6, **options)
