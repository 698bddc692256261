"""Plot of the log evidence over two hyperparameters, with the others fixed; evaluated on a grid without fitting."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from covary import fits
from covary._checks import NotPositiveDefinite, fail
from covary.gram.base import AbstractGram
from covary.gram.dense import Dense
from covary.inference.base import AbstractInference
from covary.inference.exact import Exact
from covary.inference.plan import AbstractPlan
from covary.likelihoods.gaussian import Gaussian
from covary.model import Model
from covary.parameters import POSITIVE, UNIT, Parameter, parameters, select, set_values
from covary.plots.source import Drawable, Source
from covary.plots.style import ORANGE, UNCERTAIN, Given, names_shown, one, title
from covary.posterior import Posterior
from covary.selection.objectives import log_evidence

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVELS = np.array([0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])  # nats below the highest


@names_shown
def plot_evidence(
    model: Drawable,
    paths: tuple[str, str],
    ax: Given = None,
    *,
    spans: Sequence[tuple[float, float]] | None = None,
    points: int = 25,
    inference: AbstractInference | None = None,
    gram: AbstractGram | AbstractPlan | None = None,
) -> Axes:
    """Plot contours of the log evidence over two hyperparameters, in nats below the highest; a cross marks the model.

    Several peaks are several explanations of the data (R&W, figure 5.5); along a ridge the data do not determine the
    hyperparameters. The plot takes ``points**2`` evaluations of the evidence.

    Parameters
    ----------
    model
        A posterior, or a fitted estimator.
    paths
        Two parameters, horizontal and vertical: ``("kernel.lengthscale", "likelihood.variance")``; one entry of an array is
        ``"kernel.lengthscale[0]"``, or by column ``"kernel.lengthscale[area]"``.
    ax
        The axes to draw on, created if None.
    spans
        (low, high) for each of the two; by default a factor of ten in both directions for positive parameters.
    points
        Points along each side.
    inference, gram
        As in :func:`covary.condition`; by default those of the estimator, else exact and dense.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from covary import GP, Data, Model, condition
    >>> x = np.linspace(0.0, 6.0, 20)[:, None]
    >>> post = condition(Model(GP("1.0 * Matern52()")), Data(x, np.sin(x[:, 0])))
    >>> ax = plot_evidence(post, ("kernel.lengthscale", "likelihood.variance"), points=5)
    >>> ax.get_xlabel(), ax.get_xscale()
    ('kernel.lengthscale', 'log')
    >>> plt.close()
    """
    who = "plots.plot_evidence"
    source = Source.of(who, model)
    post = source.first
    if len(source.posteriors) > 1:
        raise fail(who, "the model is a one-vs-rest classifier", "give one of its estimators_")
    if len(paths) != 2 or isinstance(paths, str):
        raise fail(who, f"paths is {paths!r}", "give the paths of two parameters", argument="paths")
    part = None if source.fit is None else fits.family_of(source.fit).processes(source.fit)[0]
    if inference is None and part is not None:
        inference = part.inference
    if inference is None:
        if not isinstance(post.model.likelihood, Gaussian):
            raise fail(who, "the noise is not Gaussian", "give inference, the method that computed the posterior")
        inference = Exact()
    used: AbstractGram | AbstractPlan = Dense()
    if gram is not None:
        used = gram
    elif part is not None:
        used = part.gram
    elif isinstance(post, Posterior):
        used = getattr(post.bound, "gram", used)
    names = source.names()
    chosen = [_Chosen(who, post.model, path, names) for path in paths]
    if chosen[0].path == chosen[1].path and chosen[0].place == chosen[1].place:
        raise fail(who, f"both paths are {paths[0]!r}", "give two different ones")
    spread = float(np.std(post.data.y)) or 1.0
    grids = [c.grid(who, points, None if spans is None else spans[i], spread) for i, c in enumerate(chosen)]
    values = np.full((points, points), np.nan)
    for i, across in enumerate(grids[0]):
        for j, up in enumerate(grids[1]):
            try:
                there = chosen[1].put(chosen[0].put(post.model, across), up)
                values[j, i] = log_evidence(there, post.data, inference=inference, gram=used)
            except NotPositiveDefinite:
                continue
    return _draw(who, ax, chosen, grids, values)


def _draw(who: str, ax: Given, chosen: list[_Chosen], grids: list[np.ndarray], values: np.ndarray) -> Axes:
    import matplotlib as mpl
    from matplotlib.colors import BoundaryNorm

    if not np.isfinite(values).any():
        raise fail(who, "the evidence is not finite anywhere on the grid", "give narrower spans")
    below = np.where(np.isfinite(values), np.nanmax(values) - values, LEVELS[-1] * 2)
    ax = one(ax, (5.4, 4.2))
    colours = mpl.colormaps[f"{UNCERTAIN}_r"]
    norm = BoundaryNorm(LEVELS, colours.N, extend="max")  # equal colour steps between the levels
    drawn = ax.contourf(*grids, below, levels=LEVELS, cmap=colours, norm=norm, extend="max")
    ax.contour(*grids, below, levels=LEVELS[1:], colors="white", linewidths=0.5, alpha=0.7)
    bar = ax.figure.colorbar(drawn, ax=ax, ticks=LEVELS)
    bar.ax.set_yticklabels([f"{v:g}" for v in LEVELS])
    bar.ax.invert_yaxis()
    bar.set_label("nats below the highest")
    bar.outline.set_visible(False)
    here = [c.value for c in chosen]
    ax.plot(*here, "X", color=ORANGE, mec="white", mew=0.8, ms=12)
    for c, scale, label in zip(chosen, (ax.set_xscale, ax.set_yscale), (ax.set_xlabel, ax.set_ylabel), strict=True):
        if c.positive:
            scale("log")
        label(c.label)
    for grid, limits in zip(grids, (ax.set_xlim, ax.set_ylim), strict=True):
        limits(grid[0], grid[-1])
    title(ax, f"log evidence, at most {np.nanmax(values):.2f}; cross: the model".replace("-", "−"))
    return ax


class _Chosen:
    """One number of a model: a parameter, or an entry of a parameter."""

    def __init__(self, who: str, model: Model, text: str, names: list[str]) -> None:
        known = parameters(model)
        inside = re.fullmatch(r"(.+)\[(.+)\]", str(text))
        path = select(who, inside[1] if inside else text, known)
        if len(path) > 1:
            raise fail(who, f"{text!r} matches several parameters", f"choose one of {', '.join(path)}")
        self.path, self.label = path[0], str(text)
        self.parameter: Parameter = known[self.path]
        size = int(np.size(self.parameter.value))
        self.place: int | None = None
        if inside:
            by_name = names if len(names) == size else []
            index = inside[2]
            place = by_name.index(index) if index in by_name else int(index) if index.isdigit() else -1
            if not 0 <= place < size:
                choice = ", ".join(by_name) if by_name else f"0 to {size - 1}"
                raise fail(who, f"{self.path} has no entry {index!r}", f"choose from {choice}")
            self.place = place
        elif size > 1:
            raise fail(who, f"{self.path} has {size} entries", f"choose one, such as {self.path}[0]")
        self.positive = self.parameter.space is POSITIVE

    @property
    def value(self) -> float:
        """The value in the model."""
        return float(np.ravel(self.parameter.value)[self.place or 0])

    def grid(self, who: str, points: int, span: tuple[float, float] | None, spread: float) -> np.ndarray:
        """Return the grid of values."""
        if span is None:
            here = self.value
            if self.positive:
                span = (here / 10, here * 10)
            else:
                span = (0.02, 0.98) if self.parameter.space is UNIT else (here - 2 * spread, here + 2 * spread)
        low, high = (float(v) for v in span)
        if not (np.isfinite([low, high]).all() and low < high) or (self.positive and low <= 0):
            raise fail(who, f"the span of {self.label} is {low:g} to {high:g}", "give (low, high) inside its range")
        return np.geomspace(low, high, points) if self.positive else np.linspace(low, high, points)

    def put(self, model: Model, value: float) -> Model:
        """Return the model with this number set to ``value``."""
        now = np.array(parameters(model)[self.path].value, np.float64)
        now.reshape(-1)[self.place or 0] = value
        return set_values(model, {self.path: now})
