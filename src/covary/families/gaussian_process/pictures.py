"""Report figures specific to Gaussian processes: the function, partial dependence, terms of the kernel, learning."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from covary._words import counted
from covary.families.gaussian_process.processes import Processes
from covary.families.gaussian_process.words import Term
from covary.fits import Figure, Findings, Fit
from covary.plots.classes import plot_classes
from covary.plots.columns import Scales
from covary.plots.components import plot_components
from covary.plots.dependence import plot_dependence
from covary.plots.fit import plot_fit
from covary.plots.history import plot_history, plot_restarts
from covary.plots.style import title
from covary.posterior import AbstractPosterior, Combination
from covary.report.pictures import MOST_OUTPUTS, Pictures, attempt
from covary.selection.learn import Learned

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FINE = 2000  # largest number of rows for finely drawn dependence curves
DRAWN = 1500  # rows drawn in a figure of the function
MOST_TERMS, MOST_COLUMNS = 6, 6


def fit_figures(pictures: Pictures, fit: Fit[Processes], found: Findings, scales: Scales) -> list[Figure]:
    """Return figures of the function for one or two inputs."""
    names, d, total = list(found.names), len(found.names), fit.state.first.posterior.data.rows
    if d > 2 or len(fit.state.parts) > 1:
        return []
    if fit.classes is not None:
        if d == 1:
            return []
        alt = f"Map of class probabilities over {names[0]} and {names[1]}, with the training rows."
        return attempt(
            lambda: pictures.own(
                lambda: plot_classes(fit),
                alt,
                "Class probabilities, with the training rows.",
                classes="wide paper",
            )
        )
    out: list[Figure] = []
    for j, post in enumerate(singles(fit)[:MOST_OUTPUTS]):
        target = f"{found.targets[j]}{_standardised(fit)}"
        if d == 1:
            alt = f"{target} against {names[0]}: mean, 95 % bands and {counted(post.data.rows, 'training row')}."
            said = f"{target}: mean with its 95 % band (dark), 95 % of new observations (light), and the training rows."
            out += attempt(
                lambda post=post, alt=alt, said=said, target=target: pictures.one(
                    lambda ax: _series(ax, post, names, target, scales, total),
                    alt,
                    said,
                    size=(5.8, 3.4),
                    classes="wide",
                )
            )
        else:
            place = f"over {names[0]} and {names[1]}"
            alts = [f"Map of the mean of {target} {place}.", f"Map of the standard deviation of {target} {place}."]
            said = [f"Mean of {target}, with the training rows.", "Standard deviation."]
            out += attempt(
                lambda post=post, alts=alts, said=said: pictures.many(
                    2, lambda axes: plot_fit(post, axes, names=names), alts, said, size=(4.4, 3.4), classes="map"
                )
            )
    return out


def _series(ax: Axes, post: AbstractPosterior, names: list[str], target: str, scales: Scales, total: int) -> None:
    """Plot the fit along one input with its own labels and the number of rows drawn."""
    plot_fit(post, ax, names=names)
    if ax.get_ylabel() == "y":
        ax.set_ylabel(target)
    if post.data.rows < total:
        found = ax.get_legend()
        for text in [] if found is None else found.get_texts():
            if text.get_text().startswith("data ("):
                text.set_text(f"data ({post.data.rows:,} of {total:,})")
    scales.tick(ax, 0)


def few_rows(post: AbstractPosterior) -> AbstractPosterior:
    """Return the posterior with at most ``DRAWN`` of its rows, for drawing; its predictions are unchanged."""
    rows = post.data.rows
    if rows <= DRAWN:
        return post
    return replace(post, data=post.data.take(np.sort(np.random.default_rng(0).choice(rows, DRAWN, replace=False))))  # type: ignore[type-var]


def singles(fit: Fit[Processes]) -> list[AbstractPosterior]:
    """Return one posterior per output (still standardised), with the rows to draw."""
    return [few_rows(post) for post in _singles(fit)]


def _singles(fit: Fit[Processes]) -> list[AbstractPosterior]:
    post = fit.state.first.posterior
    if not (fit.state.first.model.is_gaussian and post.data.y.ndim == 2):
        return [post]
    return [post.single(j) for j in range(post.data.y.shape[1])]


def _standardised(fit: Fit[Processes]) -> str:
    """Return a remark if outputs are drawn in units of their standard deviation."""
    return " (standardised)" if fit.scale.scale.ndim and not np.all(fit.scale.scale == 1) else ""


def banded(fit: Fit[Processes]) -> bool:
    """Return whether dependence curves have a band: one function with a joint posterior at several inputs."""
    post = fit.state.first.posterior
    if len(fit.state.parts) > 1 or post.model.likelihood.latents > 1:
        return False
    return not isinstance(post, Combination) or post.has_joint


def dependence_figures(pictures: Pictures, fit: Fit[Processes], found: Findings, scales: Scales) -> list[Figure]:
    """Return figures of partial dependence on the most important inputs."""
    columns, names, out = list(found.important[:MOST_COLUMNS]), list(found.names), []
    if not columns:
        return []
    several, classes = len(found.targets) > 1, 0 if fit.classes is None else len(fit.classes.values)
    models = singles(fit)[:MOST_OUTPUTS] if several else [fit]
    for j, model in enumerate(models):
        whose = f"{found.targets[j]}{_standardised(fit)}" if several else ""
        points = 25 if found.training.rows > FINE or classes else 60
        band = ", one curve for each class." if classes > 2 else ", with a 95 % band." if banded(fit) else "."
        alts = [f"Partial dependence of {whose or 'the prediction'} on {names[i]}{band}" for i in columns]
        captions = [f"{found.targets[j] if several else 'Dependence'} on {names[i]}, other inputs averaged." for i in columns]

        def draw(
            axes: list[Axes], model: AbstractPosterior | Fit[Processes] = model, whose: str = whose, points: int = points
        ) -> None:
            plot_dependence(model, columns, axes, names=names, points=points, rows=100)
            for ax, i in zip(axes, columns, strict=True):
                if whose or ax.get_ylabel() == "y, averaged":
                    ax.set_ylabel(whose or f"{found.targets[0]}, averaged")
                if not scales.levels(i):
                    scales.tick(ax, i)

        out += attempt(
            lambda draw=draw, alts=alts, captions=captions: pictures.many(len(columns), draw, alts, captions, size=(3.6, 2.6))
        )
    return out


def component_figures(
    pictures: Pictures, fit: Fit[Processes], names: list[str], rows: list[Term], scales: Scales
) -> list[Figure]:
    """Return figures of the additive kernel terms that contribute to the variance."""
    size = np.array([abs(row.share or 0.0) for row in rows])
    count = int((size > 0.005).sum())
    if count < 2 or len(fit.state.parts) > 1:
        return []
    shown = min(count, MOST_TERMS)
    chosen = [rows[i] for i in np.sort(np.argsort(-size, kind="stable")[:shown])]
    captions = [f"{100 * (row.share or 0.0):.0f} % of the variance: {row.words}.".replace("-", "−") for row in chosen]
    alts = [f"{row.name}, a term of the kernel, with its 95 % band; {said}" for row, said in zip(chosen, captions, strict=True)]

    def draw(axes: list[Axes]) -> None:
        plot_components(singles(fit)[0], axes, names=names, most=shown)
        for ax, row in zip(axes, chosen, strict=True):
            name = row.name
            title(ax, name if len(name) <= 44 else f"{name[:43]}…")
            if ax.get_xlabel() in names:
                scales.tick(ax, names.index(ax.get_xlabel()))

    return attempt(lambda: pictures.many(shown, draw, alts, captions, size=(4.2, 2.7)))


def learning_figures(pictures: Pictures, learned: Learned | None) -> list[Figure]:
    """Return figures of the hyperparameter search."""
    if learned is None:
        return []
    out = attempt(
        lambda: pictures.one(
            lambda ax: plot_history(learned, ax),
            f"Objective by evaluation: {counted(len(learned.history), 'evaluation')}, {learned.status}.",
            "Distance of each evaluation below the best, in nats"
            + (", for each number of rows used." if len(learned.levels) > 1 else "."),
        )
    )
    if len(learned.restarts) > 1:
        out += attempt(
            lambda: pictures.one(
                lambda ax: plot_restarts(learned, ax),
                f"End points of {len(learned.restarts)} starts of the search.",
                "The optimum reached from each start, in nats below the best; distinct optima are different models.",
                size=(4.2, 1.0 + 0.34 * max(len(learned.restarts), 3)),
            )
        )
    return out
