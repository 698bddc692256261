"""Plots of the hyperparameter search: the objective by evaluation, and the results of the restarts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from covary import fits
from covary._checks import fail
from covary._words import counted
from covary.model import Model
from covary.optimise.base import CONVERGED, JOINED, of_kind
from covary.plots.style import COLOURS, GREEN, GREY, ORANGE, Given, bare, ink, legend, one, title
from covary.posterior.components import term_names, terms
from covary.selection.learn import Learned, Restart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST = 1e-3  # nats: smaller differences are drawn as this value
FAR = 1e4  # nats: larger differences are drawn as this value


def plot_history(learned: Learned | fits.Model, ax: Given = None) -> Axes:
    """Plot how far each evaluation of the objective was below the best of its level, in nats, on a logarithmic scale.

    A level is the number of rows used by the search, and has its own colour. The line is the best value so far; dotted lines
    mark where each further start begins.

    Parameters
    ----------
    learned
        The result of :func:`covary.learn`, or a fitted estimator.
    ax
        The axes to draw on, created if None.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from covary import GP, Data, Model, learn
    >>> x = np.linspace(0.0, 6.0, 30)[:, None]
    >>> fit = learn(Model(GP("1.0 * Matern52()")), Data(x, np.sin(x[:, 0])))
    >>> plot_history(fit).get_xlabel()
    'evaluation'
    >>> plt.close()
    """
    learned = _learned("plots.plot_history", learned)
    rows = np.array([r for r, _ in learned.history])
    value = np.array([v for _, v in learned.history], np.float64)
    ax = one(ax, (5.6, 3.4))
    number = np.arange(1, len(rows) + 1)
    for i, level in enumerate(dict.fromkeys(rows.tolist())):
        on = rows == level
        top = value[on & np.isfinite(value)].max() if np.isfinite(value[on]).any() else 0.0
        gap = np.clip(np.where(np.isfinite(value[on]), top - value[on], FAR), LEAST, FAR)
        colour = COLOURS[i % len(COLOURS)]
        ax.plot(number[on], gap, "o", color=colour, ms=4, alpha=0.8, mew=0)
        ax.plot(
            number[on], np.minimum.accumulate(gap), color=colour, lw=1.4, drawstyle="steps-post", label=counted(level, "row")
        )
    first = int((rows == rows[0]).sum()) if len(rows) else 0
    begun = np.cumsum([start.steps for start in learned.restarts])[:-1]
    for at in begun[begun < first]:
        ax.axvline(at + 0.5, color=GREY, lw=0.8, ls=":", zorder=0.5)
    ax.set_yscale("log")
    ax.set_xlabel("evaluation")
    ax.set_ylabel("nats below the best")
    title(ax, f"{counted(len(rows), 'evaluation')}, {learned.status}")
    if len(set(rows.tolist())) > 1:
        legend(ax)
    bare(ax)
    return ax


def plot_restarts(learned: Learned | fits.Model, ax: Given = None) -> Axes:
    """Plot how far the result of each start of the search is below the best one, in nats, on the coarsest level.

    Results of different height are different explanations of the data, or starts that were stopped early because they were
    converging to a known optimum.

    Parameters
    ----------
    learned
        The result of :func:`covary.learn`, or a fitted estimator.
    ax
        The axes to draw on, created if None.
    """
    learned = _learned("plots.plot_restarts", learned)
    found = learned.restarts
    values = np.array([start.value for start in found], np.float64)
    finite = np.isfinite(values)
    ax = one(ax, (5.6, 0.9 + 0.34 * max(len(found), 3)))
    top = values[finite].max() if finite.any() else 0.0
    gap = np.clip(np.where(finite, top - values, FAR), 0.0, FAR)
    at = np.arange(len(found))
    for y, x, start in zip(at.tolist(), gap.tolist(), found, strict=True):
        joined = of_kind(start.status, JOINED)
        colour = GREEN if x < 0.1 or joined else ORANGE
        ax.plot([0, x], [y, y], color=GREY, lw=0.8, zorder=1)
        ax.plot(x, y, "D" if colour == ORANGE else "o", color=colour, ms=6, zorder=2)
        said = counted(start.steps, "evaluation") if start.status == CONVERGED else f"{start.steps}, {start.status}"
        ax.text(1.02, y, said, transform=ax.get_yaxis_transform(), va="center", fontsize=8)
    ax.axvline(0.0, color=ink(), lw=0.9)
    ax.set_xscale("symlog", linthresh=1.0)
    far = max(float(gap.max(initial=0.0)), 1.0)
    ax.set_xlim(-0.15, far * 1.6)
    ax.set_yticks(at, _labels(found))
    ax.set_ylim(len(found) - 0.5, -0.5)
    ax.set_xlabel("nats below the best result")
    bare(ax)
    return ax


def _labels(found: Sequence[Restart]) -> list[str]:
    """Return the labels: start 1, 2, ..., or the kernels that a rival model adds."""
    first, out = _kernel_name(found[0].model), []
    for i, start in enumerate(found):
        name = _kernel_name(start.model)
        new = [word for word in re.findall(r"[A-Z]\w*", name) if word not in re.findall(r"[A-Z]\w*", first)]
        rival = ", ".join(dict.fromkeys(new)) or name
        out.append(f"start {i + 1}" if name == first else rival if len(rival) <= 20 else f"{rival[:19]}…")
    return out


def _kernel_name(model: Model) -> str:
    return " + ".join(term_names(terms(model.kernel))) if not isinstance(model.kernel, tuple) else ""


def _learned(who: str, value: Learned | fits.Model) -> Learned:
    """Return the learning record of a fit."""
    if isinstance(value, Learned):
        found = value
    elif fits.is_fitted(value):
        fit = fits.of(value, who)
        parts = fits.family_of(fit).processes(fit)
        if not parts:
            raise fail(who, f"the model is of the family {fit.family!r}", "give a Gaussian process")
        if len(parts) > 1:
            raise fail(who, "the model is a one-vs-rest classifier", "give one of its estimators_")
        found = parts[0].learned
    else:
        raise fail(who, f"got {type(value).__name__}", "give the result of covary.learn, or a fitted estimator")
    if found is None:
        raise fail(who, "nothing was learned", "fit with free parameters")
    if not found.history:
        raise fail(who, "the history is empty", "fit again: models loaded from files do not include it")
    return found
