"""Whether error bars and probabilities mean what they say: PIT histogram, coverage curve, reliability curve."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import binom, kstwo

from covary._checks import as_numbers, fail
from covary.metrics.curves import reliability_curve
from covary.plots.held_out import left_out, left_out_classes
from covary.plots.style import BLUE, GREY, MARKS, bare, ink, legend, look, names_shown, one, several, title


def plot_calibration(model: Any = None, ax: Any = None, *, pit: Any = None) -> np.ndarray:
    """The PIT histogram and the coverage curve; for classes the reliability curve and the probabilities of the truth.

    Parameters
    ----------
    model
        A fitted estimator or a posterior, of which the leave-one-out predictions are judged.
    ax
        A pair of axes, made if None.
    pit
        Instead of a model: see :func:`plot_pit`.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> left, right = plot_calibration(pit=np.random.default_rng(0).uniform(size=200))
    >>> right.get_title("left")
    '95 % intervals hold 93.0 %'
    >>> plt.close()
    """
    who = "plots.plot_calibration"
    if (model is None) == (pit is None):
        raise fail(who, "a model and pit are both given" if pit is not None else "nothing is given", "give one of them")
    if pit is None and _of_classes(model):
        codes, p, labels = left_out_classes(model)
        axes = several(who, ax, 2, panel=(4.2, 3.3))
        truth = np.asarray(labels)[codes]
        plot_reliability(truth, p, axes[0], classes=labels)
        _probabilities(axes[1], p[np.arange(len(p)), codes], len(labels))
        return axes
    values = _checked(who, left_out(model).pit if pit is None else pit)
    axes = several(who, ax, 2, panel=(4.2, 3.3))
    plot_pit(values, axes[0])
    plot_coverage(values, axes[1])
    return axes


def plot_pit(pit: Any, ax: Any = None, *, bins: int | None = None) -> Any:
    """The histogram of the probability integral transforms: level if the predictions are calibrated.

    Heaped at both ends: the error bars are too narrow; in the middle: too wide; at one end: predictions are biased. The band
    holds a bin of a calibrated model with 95 %.

    Parameters
    ----------
    pit
        P(Y ≤ y) of every observation (n,); for whole numbers the pair P(Y < y), P(Y ≤ y), (n, 2), whose histogram is that of
        Czado, Gneiting & Held (2009).
    ax
        The axes to draw on, made if None.
    bins
        The number of bins; by default one for 20 rows, from 5 to 20.
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
    ax.set_ylim(0, 1.2 * max(high, height.max()))
    ax.set_xlabel("probability below the observation (PIT)")
    ax.set_ylabel("density")
    legend(ax, loc="upper left")
    bare(ax)
    return ax


def plot_coverage(pit: Any, ax: Any = None) -> Any:
    """How many observations central intervals of every level hold: the diagonal if the predictions are calibrated.

    Above it the error bars are too wide, below it too narrow. The whole curve of a calibrated model stays inside the band
    with 95 % (Kolmogorov and Smirnov).

    Parameters
    ----------
    pit
        As in :func:`plot_pit`.
    ax
        The axes to draw on, made if None.
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
    title(ax, f"95 % intervals hold {100 * held[at]:.1f} %")
    legend(ax, loc="upper left")
    bare(ax)
    return ax


@names_shown
def plot_reliability(y: Any, p: Any, ax: Any = None, *, classes: Any = None, bins: int = 8) -> Any:
    """How often a class was seen where it was given a probability: the diagonal if the probabilities are calibrated.

    Of two classes the curve of the second, of more one for each; bins hold about equally many rows, their bars are Wilson
    intervals of 95 %. See :func:`covary.metrics.reliability_curve`.

    Parameters
    ----------
    y
        Labels (n,).
    p
        Probabilities (n, C), or (n,) of the second of two classes.
    ax
        The axes to draw on, made if None.
    classes
        The labels of the columns of p, sorted by default.
    bins
        The most bins of a curve; at least 10 rows go into each.
    """
    p = as_numbers("plots.plot_reliability", "p", p, "give probabilities").astype(np.float64)
    labels = sorted(set(np.asarray(y).tolist())) if classes is None else list(classes)
    two = p.ndim == 1 or p.shape[1] == 2
    if two and len(labels) != 2:
        raise fail("plots.plot_reliability", f"y holds {len(labels)} classes but p is of two", "give classes, the two labels")
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


def _of_classes(model: Any) -> bool:
    if hasattr(model, "classes_"):
        return True
    inner = getattr(getattr(model, "posterior_", model), "model", None)
    return type(getattr(inner, "likelihood", None)).__name__ in ("Bernoulli", "Softmax")


def _probabilities(ax: Any, own: np.ndarray, classes: int) -> None:
    """The probabilities that were given to what was seen."""
    ax.hist(own, np.linspace(0, 1, 21), color=BLUE, alpha=0.65, lw=0)
    ax.axvline(1 / classes, color=ink(), lw=0.9, ls="--", label="ignorance")
    ax.set_xlim(0, 1)
    ax.set_xlabel("probability of the true class")
    ax.set_ylabel("rows")
    title(ax, f"mean log probability {np.log(np.maximum(own, 1e-300)).mean():.3f}".replace("-", "−"))
    legend(ax, loc="upper left" if classes == 2 else "best")
    bare(ax)


def _checked(who: str, pit: Any) -> np.ndarray:
    values = as_numbers(who, "pit", pit, "give probabilities").astype(np.float64)
    if values.ndim not in (1, 2) or (values.ndim == 2 and values.shape[1] != 2) or not len(values):
        raise fail(who, f"pit has shape {values.shape}", "give one number per row, or a pair for whole numbers")
    if not ((values >= 0) & (values <= 1)).all():
        raise fail(who, "pit leaves the range from 0 to 1", "give probabilities, such as those of covary.metrics.pit")
    if values.ndim == 2 and (values[:, 0] > values[:, 1]).any():
        raise fail(who, "the pairs of pit fall", "give P(Y < y) first, then P(Y ≤ y)")
    return values


def _below(pit: np.ndarray, at: np.ndarray, open: bool = False) -> np.ndarray:
    """The share of PITs at or below each number (below it if ``open``); intervals count by the part that is."""
    if pit.ndim == 1:
        return np.searchsorted(np.sort(pit), at, side="left" if open else "right") / len(pit)
    low, high = pit[:, :1], pit[:, 1:]
    part = (at[None] - low) / np.where(high > low, high - low, 1.0)
    return np.where(high > low, np.clip(part, 0.0, 1.0), at[None] >= high).mean(0)
