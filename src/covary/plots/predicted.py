"""Predicted against observed values, and residuals: both from leave-one-out predictions or from arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from covary._checks import as_numbers, check_finite, check_positive, fail
from covary._errors import Option
from covary._words import counted
from covary.plots.held_out import HALF, left_out_for, with_error_bars
from covary.plots.source import Drawable
from covary.plots.style import BLUE, GREY, ORANGE, RASTER, Given, bare, dot_size, ink, legend, names_shown, one, thinned, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST = 12  # rows for each point of a running mean
KINDS = 30  # integers with at most this many distinct values are jittered


@names_shown
def plot_predicted(
    model: Drawable | ArrayLike,
    mean: ArrayLike | None = None,
    std: ArrayLike | None = None,
    ax: Given = None,
    *,
    name: str = "y",
    interval: tuple[ArrayLike, ArrayLike] | None = None,
) -> Axes:
    """Plot predicted against observed values, with 95 % error bars; those that miss the observation are orange.

    Parameters
    ----------
    model
        A fitted regressor or a posterior, whose leave-one-out predictions are shown; or the observations y (n,).
    mean, std
        With y: the predictions, and the standard deviation of a new observation; without ``std`` there are no error bars.
    ax
        The axes to draw on, created if None.
    name
        The name of the predicted quantity.
    interval
        With y: the ends of the 95 % intervals, a pair of (n,), if they are not mean ± 1.96 std.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> ax = plot_predicted([0.0, 1.0, 2.0], [0.1, 0.9, 3.0], [0.2, 0.2, 0.2])
    >>> ax.get_title("left")
    'R² 0.490, 95 % intervals contain 66.7 %'
    >>> plt.close()
    """
    who, ends = "plots.plot_predicted", None
    if mean is None:
        found = left_out_for(who, model)  # type: ignore[arg-type]
        y, mean, how = found.y, found.mean, ", leave-one-out"
        ends = None if np.isnan(found.low).all() else (found.low, found.high)
    else:
        (y, mean, std), how = _arrays(who, model, mean, std, zero=True), ""
        ends = None if std is None else (mean - HALF * std, mean + HALF * std)
        if interval is not None:
            ends = (_arrays(who, y, interval[0], None)[1], _arrays(who, y, interval[1], None)[1])
    ax = one(ax, (4.8, 4.4))
    at = _apart(y)
    miss = np.zeros(len(y), bool) if ends is None else (y < ends[0]) | (y > ends[1])
    shown = thinned(len(y))
    for what, colour, mark, label in ((~miss, BLUE, "o", "95 % interval contains y"), (miss, ORANGE, "D", "it does not")):
        rows = shown[what[shown]]
        if not len(rows):
            continue
        raster, faint = len(y) > RASTER, float(np.clip(60 / len(rows), 0.12, 0.55))
        if ends is not None:
            ax.vlines(at[rows], ends[0][rows], ends[1][rows], color=colour, lw=0.9, alpha=faint, rasterized=raster)
        size = dot_size(len(y)) * (0.8 if mark == "D" else 1.0)
        named = f"{label} ({int(what.sum())})" if ends is not None else "_"
        ax.scatter(at[rows], mean[rows], s=size, color=colour, marker=mark, lw=0, zorder=3, rasterized=raster, label=named)
    ax.axline((y[0], y[0]), slope=1.0, color=ink(), lw=0.9, ls="--", zorder=2)
    ax.set_xlabel(f"{name}, observed")
    ax.set_ylabel(f"{name}, predicted{how}")
    total = ((y - y.mean()) ** 2).sum()
    said = [f"R² {r_squared(1 - ((y - mean) ** 2).sum() / total)}"] if total > 0 else []
    said += [] if ends is None else [f"95 % intervals contain {100 * (1 - miss.mean()):.1f} %"]
    title(ax, ", ".join(said))
    ax.set_title(ax.get_title("left"), fontsize=9.5, loc="left", pad=22 if ends is not None else None)
    size = (18 / dot_size(len(y))) ** 0.5
    legend(
        ax,
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncol=2,
        borderaxespad=0.1,
        columnspacing=1.0,
        handlelength=1.0,
        markerscale=size,
    )
    bare(ax)
    return ax


def _apart(y: np.ndarray) -> np.ndarray:
    """Return the positions of rows: integers with few distinct values are jittered, so that they do not hide each other."""
    kinds = np.unique(y)
    if len(kinds) > KINDS or not (kinds == np.round(kinds)).all():
        return y
    return y + np.random.default_rng(0).uniform(-0.3, 0.3, len(y))


def r_squared(value: float) -> str:
    """Format R² with three decimals, and with more if it would otherwise round to 1.

    Examples
    --------
    >>> r_squared(0.8091), r_squared(-0.25), r_squared(0.99961), r_squared(1.0)
    ('0.809', '−0.250', '0.9996', '1.000')
    """
    rest = 1 - value
    places = 3 if not 0 < rest < 1e-2 else min(7, int(np.floor(-np.log10(rest))) + 1)
    return f"{value:.{places}f}".replace("-", "−")


@names_shown
def plot_residuals(
    model: Drawable | ArrayLike,
    mean: ArrayLike | None = None,
    std: ArrayLike | None = None,
    ax: Given = None,
    *,
    against: ArrayLike | None = None,
    name: str = "predicted",
    running: bool = True,
) -> Axes:
    """Plot standardised residuals, (y − mean)/std, against the predictions or other values, with their running mean.

    If the model is correct, 95 % of them lie between the dashed lines, without a trend. A running mean whose error bars exclude
    zero indicates a trend that the model misses; a growing spread indicates growing noise. For noise that is not Gaussian,
    the normal quantiles of the PIT are shown.

    Parameters
    ----------
    model
        A fitted regressor or a posterior, whose leave-one-out residuals are shown; or the observations y (n,).
    mean, std
        With y: the predictions, and the standard deviation of a new observation.
    ax
        The axes to draw on, created if None.
    against
        Values (n,) for the horizontal axis: a column of X, a time, the row index; by default the predictions.
    name
        The label of the horizontal axis.
    running
        Whether to draw the running mean.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> ax = plot_residuals([0.0, 1.0, 2.0], [0.1, 0.9, 3.0], [0.2, 0.2, 0.2])
    >>> ax.collections[0].get_offsets().data[:, 1].round(1).tolist()
    [-0.5, 0.5, -5.0]
    >>> plt.close()
    """
    who = "plots.plot_residuals"
    if mean is None:
        found = with_error_bars(who, model)  # type: ignore[arg-type]
        middle = found.pit if found.pit.ndim == 1 else found.pit.mean(1)
        centre, z = found.mean, ndtri(np.clip(middle, 1e-15, 1 - 1e-15))
        with np.errstate(divide="ignore", invalid="ignore"):
            exact = (found.y - found.mean) / found.std
        far = (np.abs(z) > 7) & np.isfinite(exact) & (found.pit.ndim == 1)  # there the PIT has no significant digits
        z = np.where(far, exact, z)
    else:
        y, centre, std = _arrays(who, model, mean, std)
        if std is None:
            raise fail(who, "std is missing", "give the standard deviation of each prediction")
        z = (y - centre) / std
    at = centre if against is None else as_numbers(who, "against", against).astype(np.float64)
    if at.shape != z.shape:
        what = f"against has shape {at.shape} for {counted(len(z), 'row')}"
        raise fail(who, what, "give one number per row", argument="against")
    ax = one(ax, (5.6, 3.6))
    shown = thinned(len(z))
    colours = np.where(np.abs(z[shown]) > HALF, ORANGE, BLUE)
    raster = len(z) > RASTER
    ax.scatter(at[shown], z[shown], s=dot_size(len(z)), c=colours, alpha=0.75, lw=0, zorder=2, rasterized=raster)
    ax.axhline(0.0, color=GREY, lw=0.8, zorder=1)
    for edge in (-HALF, HALF):
        ax.axhline(edge, color=GREY, lw=0.8, ls="--", zorder=1)
    groups = min(10, len(z) // FEWEST)
    if running and groups > 1 and np.ptp(at) > 0:
        parts = np.array_split(np.argsort(at, kind="stable"), groups)
        x, level = (np.array([values[part].mean() for part in parts]) for values in (at, z))
        error = np.array([HALF * z[part].std(ddof=1) / np.sqrt(len(part)) for part in parts])
        ax.errorbar(x, level, error, color=ink(), lw=1.4, elinewidth=1.1, capsize=2, zorder=4, label="running mean, ±95 %")
        legend(ax, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.0)
    most = max(3.2, float(np.abs(z).max()) * 1.08)
    ax.set_ylim(-most, most)
    ax.set_xlabel(name)
    ax.set_ylabel("residual / std")
    bare(ax)
    return ax


def _arrays(
    who: str, y: Drawable | ArrayLike, mean: ArrayLike, std: ArrayLike | None, *, zero: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return observations, predictions and standard deviations as arrays, after checking them."""
    y, mean = (as_numbers(who, label, v).astype(np.float64) for label, v in (("y", y), ("mean", mean)))  # type: ignore[arg-type]
    if y.ndim != 1 or mean.shape != y.shape or not len(y):
        raise fail(who, Option("y") + f" has shape {y.shape} and mean {mean.shape}", "give one number per row in both")
    for label, array in (("y", y), ("mean", mean)):
        check_finite(who, label, array)
    if std is not None:
        std = np.broadcast_to(as_numbers(who, "std", std).astype(np.float64), y.shape)
        check_positive(who, "std", std, zero=zero)
    return y, mean, std
