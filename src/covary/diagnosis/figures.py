"""Plots of checks: each function returns a function that draws on given axes, and computes nothing before that is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from covary.plots.style import BLUE, GREY, ORANGE, bare, dot_size, ink, legend, thinned, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Draw = Callable[["Axes"], None]


def pit(values: np.ndarray) -> Draw:
    """Return a plot of the histogram of the PIT."""

    def draw(ax: Axes) -> None:
        from covary.plots.calibration import plot_pit

        plot_pit(values.ravel(), ax)

    return draw


def coverage(values: np.ndarray, level: float) -> Draw:
    """Return a plot of the coverage curve, with one level marked."""

    def draw(ax: Axes) -> None:
        from covary.plots.calibration import plot_coverage

        plot_coverage(values.ravel(), ax)
        held = float((np.abs(values - 0.5) <= level / 2).mean())
        ax.plot([level, level], [level, held], color=ORANGE, lw=1.6)
        ax.plot(level, held, "D", color=ORANGE, ms=6)
        title(ax, f"{100 * level:g} % intervals contain {100 * held:.1f} %")

    return draw


def reliability(codes: np.ndarray, p: np.ndarray, labels: list[str]) -> Draw:
    """Return a plot of the reliability curves of classes."""

    def draw(ax: Axes) -> None:
        from covary.plots.calibration import plot_reliability

        plot_reliability(np.asarray(labels)[codes], p, ax, classes=labels)

    return draw


def sharpness(std: np.ndarray, spread: float) -> Draw:
    """Return a histogram of the error bars, with the spread of the observations."""

    def draw(ax: Axes) -> None:
        ax.hist(std, 25, color=BLUE, alpha=0.65, lw=0)
        ax.axvline(spread, color=ORANGE, lw=1.6, label="spread of the observations")
        ax.set_xlim(left=0)
        ax.set_xlabel("standard deviation of a prediction")
        ax.set_ylabel("rows")
        legend(ax)
        bare(ax)

    return draw


def against(x: np.ndarray, y: np.ndarray, name: str, what: str) -> Draw:
    """Return a plot of errors against other values, with running medians."""

    def draw(ax: Axes) -> None:
        rows = thinned(len(x))
        ax.scatter(x[rows], y[rows], s=dot_size(len(x)), color=BLUE, alpha=0.6, lw=0, rasterized=len(x) > 1500)
        parts = [part for part in np.array_split(np.argsort(x, kind="stable"), min(10, max(2, len(x) // 12))) if len(part)]
        at, middle = ([float(np.median(v[part])) for part in parts] for v in (x, y))
        ax.plot(at, middle, color=ORANGE, lw=1.8, label="running median")
        ax.set_xlabel(name)
        ax.set_ylabel(what)
        legend(ax, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.0)
        bare(ax)

    return draw


def by_number(name: str) -> str:
    """The label of an axis of categories whose names are unknown."""
    return f"code of the category of {name}"


def grouped(codes: np.ndarray, y: np.ndarray, name: str, what: str) -> Draw:
    """Return a plot of the errors of each category, with their medians."""

    def draw(ax: Axes) -> None:
        rows, kinds = thinned(len(y)), np.unique(codes)
        place = np.searchsorted(kinds, codes)
        jitter = np.random.default_rng(0).uniform(-0.2, 0.2, len(rows))
        ax.scatter(place[rows] + jitter, y[rows], s=dot_size(len(y)), color=BLUE, alpha=0.6, lw=0, rasterized=len(y) > 1500)
        middle = [float(np.median(y[place == i])) for i in range(len(kinds))]
        ax.plot(np.arange(len(kinds)), middle, "D", color=ORANGE, ms=6, label="median")
        ax.set_xticks(np.arange(len(kinds)), [f"{kind:g}" for kind in kinds])
        ax.set_xlabel(by_number(name))
        ax.set_ylabel(what)
        legend(ax, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.0)
        bare(ax)

    return draw


def normal(z: np.ndarray) -> Draw:
    """Return a normal quantile plot of the errors."""

    def draw(ax: Axes) -> None:
        expected = ndtri((np.arange(len(z)) + 0.5) / len(z))
        found = np.sort(z)
        rows = thinned(len(z))
        ax.axline((0.0, 0.0), slope=1.0, color=ink(), lw=0.9, ls="--")
        colours = np.where(np.abs(found[rows]) > 4, ORANGE, BLUE)
        ax.scatter(expected[rows], found[rows], s=14, c=colours, lw=0, rasterized=len(z) > 1500)
        ax.set_xlabel("standard normal quantile")
        ax.set_ylabel("standardised error")
        bare(ax)

    return draw


def bars(names: list[str], values: np.ndarray, limit: float | None, what: str) -> Draw:
    """Return a plot of horizontal bars, with a threshold."""

    def draw(ax: Axes) -> None:
        place = np.arange(len(names))[::-1]
        far = np.zeros(len(names), bool) if limit is None else np.abs(values) > limit
        ax.barh(place, values, color=np.where(far, ORANGE, BLUE), height=0.6)
        if limit is not None:
            ax.axvline(limit, color=GREY, lw=1.0, ls="--")
            if (values < 0).any():
                ax.axvline(-limit, color=GREY, lw=1.0, ls="--")
        ax.set_yticks(place, [name if len(name) <= 34 else f"{name[:33]}…" for name in names])
        ax.set_xlabel(what)
        bare(ax)

    return draw


def queries(share: np.ndarray, flagged: np.ndarray, trained: np.ndarray) -> Draw:
    """Return a plot of the remaining share of the prior variance at new rows and at training rows."""

    def draw(ax: Axes) -> None:
        for values, where, colour in ((trained, 1, GREY), (share[~flagged], 0, BLUE), (share[flagged], 0, ORANGE)):
            rows = thinned(len(values))
            jitter = np.random.default_rng(0).uniform(-0.25, 0.25, len(rows))
            ax.scatter(values[rows], where + jitter, s=10, color=colour, alpha=0.6, lw=0)
        ax.set_yticks([0, 1], ["new rows", "training rows,\nleft out"])
        ax.set_xlabel("remaining share of the prior variance")
        bare(ax)

    return draw
