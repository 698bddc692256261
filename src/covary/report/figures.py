"""The figures of every report: predictions against observations, calibration, errors, relevance, and those of warnings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from covary._words import counted
from covary.diagnosis.figures import by_number
from covary.fits import Diagnosis, Figure, Findings, Judged, Relevance
from covary.plots.calibration import own_probabilities, plot_coverage, plot_pit, plot_reliability
from covary.plots.columns import Scales
from covary.plots.predicted import plot_predicted, plot_residuals
from covary.plots.relevance import plot_relevance
from covary.plots.style import ink, legend, title
from covary.report.pictures import MOST_OUTPUTS, Pictures, attempt

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def prediction_figures(pictures: Pictures, found: Findings, seen: Judged) -> list[Figure]:
    """Return the figures of predicted against observed values."""
    each = [attempt(partial(_prediction_figure, pictures, found, seen, j)) for j in range(len(found.targets[:MOST_OUTPUTS]))]
    return [figure for figures in each for figure in figures]


def _prediction_figure(pictures: Pictures, found: Findings, seen: Judged, j: int) -> list[Figure]:
    name, y, mean, std, bars = found.targets[j], seen.y[:, j], seen.mean[:, j], None, ""
    alt = f"Predicted against observed {name}: {counted(len(y), 'row')}."
    if seen.has_error_bars:
        std, bars = seen.std[:, j], ", with its 95 % interval"
        inside = 100 * float((np.abs(seen.pit[:, j] - 0.5) <= 0.475).mean())
        share = f"{inside:.0f} % of {counted(len(y), 'row')}"
        alt = f"Predicted against observed {name}: {share} lie inside their 95 % intervals."
    caption = f"{name}: each row predicted {_how(seen)}{bars}. On the dashed line the prediction is exact."
    if found.training.whole:
        caption += " Intervals for integers contain at least 95 %; points are jittered horizontally."
    ends = None if seen.ends is None else (seen.ends[0][:, j], seen.ends[1][:, j])
    return pictures.one(lambda ax: plot_predicted(y, mean, std, ax, name=name, interval=ends), alt, caption, size=(4.2, 3.9))


def calibration_figures(pictures: Pictures, labels: Sequence[str], seen: Judged) -> list[Figure]:
    """Return the PIT histogram and the coverage curve, or the reliability curves of classes."""
    if seen.p is not None:
        labels = list(labels)
        codes = seen.y[:, 0].astype(int)
        right = 100 * float((seen.p.argmax(1) == codes).mean())
        few = labels if len(labels) <= 6 else [labels[i] for i in np.argsort(-np.bincount(codes, minlength=len(labels)))[:6]]
        truth = np.asarray(labels)[codes]
        p = seen.p
        alt = f"Observed share of each class against its predicted probability; accuracy {right:.0f} %."
        said = "Observed frequency of each class against its predicted probability; the dashed line marks perfect calibration."
        out = attempt(lambda: pictures.one(lambda ax: plot_reliability(truth, p, ax, classes=labels), alt, said) if few else [])
        own = p[np.arange(len(codes)), codes]
        alt = f"Histogram of the probability of the true class; the mean is {own.mean():.2f}."
        said = "Predicted probability of the true class; higher is better."
        return out + pictures.one(lambda ax: _own(ax, own, len(labels)), alt, said)
    pit = seen.pit.ravel()
    inside = 100 * float((np.abs(pit - 0.5) <= 0.475).mean())
    alts = [
        "Histogram of the predicted probability below each observation; flat if the predictions are calibrated.",
        f"Observed against nominal coverage; 95 % intervals contain {inside:.1f} %.",
    ]
    captions = [
        "Flat within the grey band: calibrated. Peaks at both ends: error bars too narrow; peak in the middle: too wide.",
        "Fraction of rows inside intervals of each level: within the grey band if calibrated, below the line if too narrow.",
    ]

    def draw(axes: list[Axes]) -> None:
        plot_pit(pit, axes[0])
        plot_coverage(pit, axes[1])

    return attempt(lambda: pictures.many(2, draw, alts, captions))


def _own(ax: Axes, own: np.ndarray, classes: int) -> None:
    own_probabilities(ax, own, classes)
    title(ax, "")
    legend(ax, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.0)


def residual_figures(pictures: Pictures, found: Findings, seen: Judged, scales: Scales) -> list[Figure]:
    """Return plots of the residuals against the predictions and against the most relevant inputs."""
    out = []
    for j, name in enumerate(found.targets[:MOST_OUTPUTS]):
        rows = np.isfinite(seen.z[:, j])
        z, left = seen.z[rows, j], int((~rows).sum())
        places: list[tuple[np.ndarray, str, int | None]] = [(seen.mean[rows, j], f"predicted {name}", None)]
        if j == 0:
            places += [(seen.x[rows, i], found.names[i], i) for i in found.important[:2]]
        for at, label, column in places if rows.any() else []:
            alt = f"Standardised residuals of {name} against {label}; {int((np.abs(z) > 1.96).sum())} of {len(z)} beyond ±1.96."
            caption = f"Residuals against {label}. If the model is correct, there is no trend and 95 % lie between the lines."
            caption += f" {counted(left, 'row')} with an error bar of 0 left out." if left else ""
            out += pictures.one(
                lambda ax, z=z, at=at, label=label, column=column: _residuals(ax, z, at, label, column, scales),
                alt,
                caption,
            )
    return out


def _residuals(ax: Axes, z: np.ndarray, at: np.ndarray, label: str, column: int | None, scales: Scales) -> None:
    """Plot residuals against numbers or dates; for categories, one column of points each, with its mean."""
    if column is None or not scales.levels(column):
        plot_residuals(z, 0 * z, np.ones(len(z)), ax, against=at, name=label)
        if column is not None:
            scales.tick(ax, column)
        return
    jitter = np.random.default_rng(0).uniform(-0.22, 0.22, len(at))
    plot_residuals(z, 0 * z, np.ones(len(z)), ax, against=at + jitter, name=label, running=False)
    kinds = [kind for kind in np.unique(at) if (at == kind).sum() > 1]
    mean, error = (np.array([f(z[at == kind]) for kind in kinds]) for f in (np.mean, _error))
    ax.errorbar(kinds, mean, error, fmt="_", color=ink(), ms=14, lw=1.6, capsize=2, zorder=4, label="mean, ±95 %")
    legend(ax, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.0)
    scales.tick(ax, column)


def _error(z: np.ndarray) -> float:
    return float(1.96 * z.std(ddof=1) / np.sqrt(len(z)))


def relevance_figure(pictures: Pictures, found: Relevance) -> list[Figure]:
    """Return the plot of the relevance of the inputs."""
    first = ", ".join(f"{name} {100 * value:.0f} %" for name, value in zip(found.names[:5], found.values[:5], strict=True))
    caption = "Fraction of the function's variance that involves each input (Sobol's total index)"
    caption += (
        ", with 95 % error bars." if found.errors is not None else ", computed from the mean prediction, without error bars."
    )
    count = min(len(found.names), 20)

    def draw(ax: Axes) -> None:
        plot_relevance(found.names, found.values, found.errors, ax)
        ax.set_xlabel("share of the variation")

    return pictures.one(
        draw,
        f"Relevance of the inputs: {first}.",
        caption,
        size=(4.6, 1.0 + 0.32 * count),
    )


def warning_figures(pictures: Pictures, diagnosis: Diagnosis, names: tuple[str, ...], scales: Scales) -> dict[str, Figure]:
    """Return the plot of every warning that has one."""
    out = {}
    for check in diagnosis.warnings:
        drawing = check.draw
        if drawing is not None:
            alt = f"{check.title}: {check.sentence}"
            named = _named(drawing, list(names), scales)
            found = attempt(lambda d=named, a=alt, c=check.title: pictures.one(d, a, c))
            if found:
                out[check.name] = found[0]
    return out


def _named(drawing: Callable[[Axes], None], names: list[str], scales: Scales) -> Callable[[Axes], None]:
    """Return the plot of a check with dates and categories on its axis instead of their numbers."""

    numbered = {by_number(name): name for name in names}

    def draw(ax: Axes) -> None:
        drawing(ax)
        label = ax.get_xlabel()
        name = numbered.get(label, label)
        if name not in names:
            return
        levels = scales.levels(names.index(name))
        if levels and label != name:
            codes = [int(float(text.get_text())) for text in ax.get_xticklabels()]
            ax.set_xticks(range(len(codes)), [levels[code][:16] for code in codes], rotation=25, ha="right")
            ax.set_xlabel(name)
        elif not levels:
            scales.tick(ax, names.index(name))

    return draw


def _how(seen: Judged) -> str:
    return {
        "leave-one-out": "from all others (leave-one-out)",
        "new rows": "by a model that was not fitted to it",
        "in-sample": "from all rows, including itself",
    }.get(seen.kind, f"({seen.kind})")
