"""Plots of the calibration of error bars and probabilities: PIT histogram, coverage curve, reliability curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom, kstwo

from covary._checks import as_numbers, fail
from covary._errors import Option
from covary.metrics.curves import reliability_curve
from covary.plots.held_out import left_out_classes, with_error_bars
from covary.plots.source import Drawable, Label, Source
from covary.plots.style import BLUE, GREY, MARKS, Given, bare, ink, legend, look, names_shown, one, several, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_calibration(model: Drawable | None = None, ax: Given = None, *, pit: ArrayLike | None = None) -> np.ndarray:
    """Plot the PIT histogram and the coverage curve; for classes, the reliability curve and the true-class probabilities.

    Parameters
    ----------
    model
        A fitted estimator or a posterior, whose leave-one-out predictions are assessed.
    ax
        A pair of axes, created if None.
    pit
        PIT values instead of a model; see :func:`plot_pit`.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> left, right = plot_calibration(pit=np.random.default_rng(0).uniform(size=200))
    >>> right.get_title("left")
    '95 % intervals contain 93.0 %'
    >>> plt.close()
    """
    who = "plots.plot_calibration"
    if (model is None) == (pit is None):
        raise fail(who, "a model and pit are both given" if pit is not None else "nothing is given", "give one of them")
    if model is not None and Source.of(who, model).of_classes:
        codes, p, labels = left_out_classes(model)
        axes = several(who, ax, 2, panel=(4.2, 3.3))
        truth = np.asarray(labels)[codes]
        plot_reliability(truth, p, axes[0], classes=labels)
        own_probabilities(axes[1], p[np.arange(len(p)), codes], len(labels))
        return axes
    values = _checked(who, with_error_bars(who, model).pit if model is not None else pit)  # type: ignore[arg-type]
    axes = several(who, ax, 2, panel=(4.2, 3.3))
    plot_pit(values, axes[0])
    plot_coverage(values, axes[1])
    return axes


def plot_pit(pit: ArrayLike, ax: Given = None, *, bins: int | None = None) -> Axes:
    """Plot the histogram of the probability integral transform (PIT): flat if the predictions are calibrated.

    Peaks at both ends: the error bars are too narrow; in the middle: too wide; at one end: the predictions are biased. With
    probability 95 %, a bin of a calibrated model lies inside the band.

    Parameters
    ----------
    pit
        P(Y ≤ y) of every observation (n,); for integers the pair P(Y < y), P(Y ≤ y), (n, 2), with the histogram of
        Czado, Gneiting & Held (2009).
    ax
        The axes to draw on, created if None.
    bins
        The number of bins; by default one per 20 rows, between 5 and 20.
    """
    values = _checked("plots.plot_pit", pit)
    rows = len(values)
    bins = int(np.clip(rows // 20, 5, 20)) if bins is None else bins
    ax = one(ax, (4.2, 3.3))
    edges = np.linspace(0.0, 1.0, bins + 1)
    height = np.diff(_below(values, edges[1:]), prepend=0.0) * bins
    low, high = (binom.ppf(q, rows, 1 / bins) / rows * bins for q in (0.025, 0.975))
    ax.fill_between([0, 1], low, high, color=GREY, alpha=0.3, lw=0, zorder=0.5, label="95 % of bins if calibrated")
    ax.bar(edges[:-1], height, 1 / bins, align="edge", color=BLUE, alpha=0.75, lw=0)
    ax.hlines([low, high], 0, 1, color=ink(), lw=0.7, ls=":")
    ax.axhline(1.0, color=ink(), lw=0.9, ls="--")
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1.2 * max(float(high), float(height.max())))
    ax.set_xlabel("probability below the observation (PIT)")
    ax.set_ylabel("density")
    legend(ax, loc="upper left")
    bare(ax)
    return ax


def plot_coverage(pit: ArrayLike, ax: Given = None) -> Axes:
    """Plot the coverage of central intervals at every level: the diagonal if the predictions are calibrated.

    Above it the error bars are too wide, below it too narrow. With probability 95 %, the entire curve of a calibrated model
    stays inside the band (Kolmogorov and Smirnov).

    Parameters
    ----------
    pit
        As in :func:`plot_pit`.
    ax
        The axes to draw on, created if None.
    """
    values = _checked("plots.plot_coverage", pit)
    ax = one(ax, (4.2, 3.3))
    level = np.linspace(0.0, 1.0, 201)
    held = _below(values, 0.5 + level / 2) - _below(values, 0.5 - level / 2, open=True)
    band = float(kstwo.ppf(0.95, len(values)))
    ax.fill_between(
        level,
        np.maximum(level - band, 0),
        np.minimum(level + band, 1),
        color=GREY,
        alpha=0.25,
        lw=0,
        label="95 % if calibrated",
    )
    ax.plot([0, 1], [0, 1], color=ink(), lw=0.9, ls="--")
    ax.plot(level, held, color=BLUE, lw=1.8, label="observed")
    at = int(np.searchsorted(level, 0.95 - 1e-9))
    ax.plot(level[at], held[at], "o", color=BLUE, ms=5)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_xlabel("nominal coverage")
    ax.set_ylabel("observed coverage")
    title(ax, f"95 % intervals contain {100 * held[at]:.1f} %")
    legend(ax, loc="upper left")
    bare(ax)
    return ax


@names_shown
def plot_reliability(
    y: ArrayLike, p: ArrayLike, ax: Given = None, *, classes: Sequence[Label] | None = None, bins: int = 8
) -> Axes:
    """Plot observed class frequencies against predicted probabilities: the diagonal if the probabilities are calibrated.

    With two classes, the curve of the second is drawn; with more, one for each class. Bins contain about equally many rows,
    with 95 % Wilson intervals as bars. See :func:`covary.metrics.reliability_curve`.

    Parameters
    ----------
    y
        Labels (n,).
    p
        Probabilities (n, C), or (n,) of the second of two classes.
    ax
        The axes to draw on, created if None.
    classes
        The labels of the columns of p; by default the sorted labels in y.
    bins
        The maximum number of bins of a curve; each contains at least 10 rows.
    """
    p = as_numbers("plots.plot_reliability", "p", p, "give probabilities").astype(np.float64)
    labels = sorted(set(np.asarray(y).tolist())) if classes is None else list(classes)
    two = p.ndim == 1 or p.shape[1] == 2
    if two and len(labels) != 2:
        what = Option("y") + f" contains {len(labels)} classes but p is for two"
        raise fail("plots.plot_reliability", what, "give classes, the two labels")
    bins = int(np.clip(len(p) // 10, 2, bins))
    ax = one(ax, (4.2, 3.3))
    ax.plot([0, 1], [0, 1], color=ink(), lw=0.9, ls="--")
    for i, label in enumerate(labels[1:] if two else labels):
        found = reliability_curve(y, p, classes=labels, of=label, bins=bins, strategy="count")
        line = look(i)
        bars = np.stack([found.observed - found.low, found.high - found.observed])
        drawn = ax.errorbar(
            found.predicted,
            found.observed,
            np.maximum(bars, 0.0),
            color=line["color"],
            ls=line["ls"],
            marker=MARKS[i % len(MARKS)],
            ms=4,
            lw=1.5,
            elinewidth=0.9,
            capsize=2,
            label=f"{label}" if not two else None,
        )
        if len(labels) > 3:  # many bars would hide the curves
            for part in (*drawn[1], *drawn[2]):
                part.set_alpha(0.4)
    ax.set_xlim(0, 1)
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlabel(f"P({labels[1]})" if two else "predicted probability")
    ax.set_ylabel(f"observed share of {labels[1]}" if two else "observed share")
    legend(ax, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncol=3, borderaxespad=0.1, columnspacing=1.2, fontsize=8)
    bare(ax)
    return ax


# parts ----------------------------------------------------------------------------------------------------------


def own_probabilities(ax: Axes, own: np.ndarray, classes: int) -> None:
    """Plot a histogram of the probabilities assigned to the true classes."""
    ax.hist(own, np.linspace(0, 1, 21).tolist(), color=BLUE, alpha=0.65, lw=0)
    ax.axvline(1 / classes, color=ink(), lw=0.9, ls="--", label="uniform guess")
    ax.set_xlim(0, 1)
    ax.set_xlabel("probability of the true class")
    ax.set_ylabel("rows")
    title(ax, f"mean log probability {np.log(np.maximum(own, 1e-300)).mean():.3f}".replace("-", "−"))
    legend(ax, loc="upper left" if classes == 2 else "best")
    bare(ax)


def _checked(who: str, pit: ArrayLike) -> np.ndarray:
    values = as_numbers(who, "pit", pit, "give probabilities").astype(np.float64)
    if values.ndim not in (1, 2) or (values.ndim == 2 and values.shape[1] != 2) or not len(values):
        raise fail(who, f"pit has shape {values.shape}", "give one number per row, or a pair for integers", argument="pit")
    if not ((values >= 0) & (values <= 1)).all():
        raise fail(who, "pit has values outside 0 to 1", "give probabilities, such as those of covary.metrics.pit")
    if values.ndim == 2 and (values[:, 0] > values[:, 1]).any():
        raise fail(who, "the pairs of pit decrease", "give P(Y < y) first, then P(Y ≤ y)")
    return values


def _below(pit: np.ndarray, at: np.ndarray, open: bool = False) -> np.ndarray:
    """Return the share of PITs at or below each number (below it if ``open``); intervals count in proportion."""
    if pit.ndim == 1:
        return np.searchsorted(np.sort(pit), at, side="left" if open else "right") / len(pit)
    low, high = pit[:, :1], pit[:, 1:]
    part = (at[None] - low) / np.where(high > low, high - low, 1.0)
    return np.where(high > low, np.clip(part, 0.0, 1.0), at[None] >= high).mean(0)
