r"""Partial dependence: the function along one column, averaged over the rows of the data.

.. math:: g(v) = \frac1m \sum_i f(x_i \text{ with column } j \text{ set to } v)

is linear in f, so its posterior is Gaussian. Its mean is the average of the means; its variance is not the average of the
variances, but includes the covariances between all rows: :math:`\mathrm{var}\,g = \overline{k} - c^\top R\,c` with c the mean
over rows of :math:`k(X, x_i)`. Probabilities and rates are averaged over joint draws of f instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from covary._checks import CovaryError, fail
from covary._precision import precision
from covary._threads import blas_threads
from covary.data import Inputs
from covary.kernels import tiles
from covary.likelihoods.base import AbstractLikelihood
from covary.likelihoods.bernoulli import Bernoulli
from covary.likelihoods.binomial import Binomial
from covary.likelihoods.softmax import Softmax
from covary.plots.columns import CROWDED
from covary.plots.relevance import _of_means, _rows_of, quick_joint
from covary.plots.source import Drawable, Source
from covary.plots.style import BLUE, GREY, MARKS, Given, bare, legend, look, names_shown, one, several
from covary.posterior import AbstractPosterior, class_probabilities, with_matrix
from covary.posterior.components import Reader

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELLS = 2**23  # covariances in memory at a time
WORK = 2e10  # multiplications for joint draws along one column: values × n² × rows
DRAWS = 200
BY_ROWS = (15, 40)  # values and rows if joint covariances are built row by row
ANSWERS = 1500  # rows of class probabilities along one column, each an integral over all classes
LEVELS = 10  # integers with at most this many distinct values are drawn one by one
HALF = 1.959963984540054


class Dependence(NamedTuple):
    """The dependence on one column: mean at every value x, (g,) or (g, C) for C classes, and the ends of the 95 % band.

    ``low`` and ``high`` are None if there are several latent functions. If ``levels``, x are discrete values, not a scale.
    """

    name: str
    x: np.ndarray
    mean: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None
    levels: bool


def dependence(
    model: Drawable,
    column: int | str,
    *,
    names: Sequence[str] | None = None,
    points: int = 40,
    rows: int = 200,
    key: int = 0,
) -> Dependence:
    """Compute the partial dependence on one column, with 95 % bands of the averaged function.

    Parameters
    ----------
    model
        A posterior, or a fitted estimator.
    column
        The column's index or name.
    names
        Names of the input columns; by default those seen in ``fit``.
    points
        Number of values of the column, over the central 98 % of the data; if they are at most ten integers, all are used.
    rows
        The maximum number of rows to average over; fewer if joint covariances or class probabilities are expensive.
    key
        Seed of the choice of rows and of the draws.

    Examples
    --------
    >>> import numpy as np
    >>> from covary import GP, Data, Model, condition
    >>> x = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    >>> found = dependence(condition(Model(GP("SquaredExponential()")), Data(x, x[:, 0] ** 2)), 1)
    >>> bool(np.ptp(found.mean) < 0.1)
    True
    """
    who = "plots.dependence"
    source = Source.of(who, model)
    parts, labels, inputs = source.posteriors, source.names(names), source.inputs
    j = source.column_number(who, column, labels)
    seen = np.asarray(inputs.x, np.float64)[:, j]
    kinds = np.unique(seen)
    levels = j in source.coded or (len(kinds) <= LEVELS and bool((kinds == np.round(kinds)).all()))
    ends = [float(q) for q in np.quantile(seen, [0.01, 0.99])]
    at = kinds if levels else np.linspace(ends[0], ends[1], points)
    alone = inputs.columns == 1 and not inputs.tags  # then all rows are the same
    some = inputs.take(slice(0, 1)) if alone else _rows_of(inputs, rows, np.random.default_rng(key))
    if not parts:
        mean = source.predicted(np.asarray(_at(some, j, at).x, np.float64)).reshape(len(at), some.rows, -1).mean(1)
        if mean.shape[1] > 1 and not source.of_classes:
            raise fail(who, "the model has several outputs", "use a model with one output")
        return Dependence(labels[j], at, mean if source.of_classes else mean[:, 0], None, None, levels)
    first = source.first
    likelihood = first.model.likelihood
    if len(parts) > 1 or isinstance(likelihood, Softmax):
        at = at if levels or len(at) <= 30 else np.linspace(at[0], at[-1], 30)
        some = _rows_of(some, max(20, ANSWERS // len(at)), np.random.default_rng(key))
        return Dependence(labels[j], at, _classes(parts, some, j, at), None, None, levels)
    if first.outputs > 1:
        raise fail(who, "the model has several outputs", "use a model with one output")
    if likelihood.latents > 1:
        return Dependence(labels[j], at, _observed(first, some, j, at), None, None, levels)
    slow = not quick_joint(first)
    if slow and not levels and len(at) > BY_ROWS[0]:
        at = np.linspace(at[0], at[-1], BY_ROWS[0])
    if slow:
        some = _rows_of(some, BY_ROWS[1], np.random.default_rng(key))
    if _linked(likelihood):
        some = _few(first, some, len(at), key)
        band = _drawn(first, some, j, at, key)
        return Dependence(labels[j], at, _observed(first, some, j, at), *band, levels)
    mean, std = _linear(first, some, j, at)
    if std is None:
        return Dependence(labels[j], at, mean, None, None, levels)
    return Dependence(labels[j], at, mean, mean - HALF * std, mean + HALF * std, levels)


@names_shown
def plot_dependence(
    model: Drawable,
    columns: int | str | Iterable[int | str] | None = None,
    ax: Given = None,
    *,
    names: Sequence[str] | None = None,
    points: int = 40,
    rows: int = 200,
    most: int = 6,
    key: int = 0,
) -> Axes | np.ndarray:
    """Plot how the function depends on each column, averaged over the rows of the data, with 95 % bands.

    On the scale of y: the function under Gaussian noise, the rate of counts, the probability of the second of two classes or
    of each of several. Tick marks at the bottom are the deciles of the data. All panels share one vertical scale.

    Parameters
    ----------
    model
        A posterior, or a fitted estimator.
    columns
        A column, by index or name, or several; by default those along which the mean varies most.
    ax
        The axes to draw on, an array for several columns; created if None.
    names, points, rows, key
        As in :func:`dependence`.
    most
        The maximum number of columns to draw if none are named.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from covary import GP, Data, Model, condition
    >>> x = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    >>> post = condition(Model(GP("SquaredExponential()")), Data(x, x[:, 0] ** 2))
    >>> [ax.get_xlabel() for ax in plot_dependence(post)]
    ['x0', 'x1']
    >>> plt.close()
    """
    who = "plots.plot_dependence"
    source = Source.of(who, model)
    inputs, classes = source.inputs, source.classes
    single = isinstance(columns, str | int | np.integer)
    if columns is None:
        rng = np.random.default_rng(key)
        chosen = np.argsort(-_of_means(source, _rows_of(inputs, rows, rng), rng), kind="stable")[:most].tolist()
    elif isinstance(columns, str | int | np.integer):
        chosen = [columns]
    elif not isinstance(columns, Iterable) or not (chosen := list(columns)):
        raise fail(who, f"columns is {columns!r}", "give column indices or names", argument="columns")
    found = [dependence(model, c, names=names, points=points, rows=rows, key=key) for c in chosen]
    axes = np.array([one(ax)]) if single else several(who, ax, len(found), panel=(3.1, 2.4), sharey=ax is None)
    labels = source.names(names)
    for each, curve in zip(axes, found, strict=True):
        j = labels.index(curve.name)
        _draw(each, curve, np.asarray(inputs.x, np.float64)[:, j], classes)
        if curve.levels and (kinds := source.level_names(j)):
            some = [kinds[int(code)] for code in curve.x]
            tilt = 90 if len(some) > 6 else 25 if sum(map(len, some)) > CROWDED else 0
            each.set_xticks(curve.x, some, rotation=tilt, ha="right" if tilt == 25 else "center")
    ends = [axis.get_ylim() for axis in axes]
    for i, each in enumerate(axes):
        each.set_ylim(min(e[0] for e in ends), max(e[1] for e in ends))
        if i == 0 or ax is not None or each.get_subplotspec().is_first_col():
            each.set_ylabel(_axis(source))
    if found[0].mean.ndim == 2:
        for each in axes if ax is not None else axes[:1]:
            legend(each, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncol=3, borderaxespad=0.1, columnspacing=1.2, fontsize=8)
    return axes[0] if single else axes if ax is None else ax  # type: ignore[return-value]


# drawing --------------------------------------------------------------------------------------------------------


def _draw(ax: Axes, found: Dependence, seen: np.ndarray, classes: list[str]) -> None:
    curves = found.mean[:, None] if found.mean.ndim == 1 else found.mean
    for c, mean in enumerate(curves.T):
        line = look(c, len(found.x))
        label = classes[c] if curves.shape[1] > 1 and c < len(classes) else None
        if found.levels:
            ends = None
            if found.low is not None and found.high is not None:
                ends = np.maximum(np.stack([mean - found.low, found.high - mean]), 0.0)
            ax.errorbar(
                found.x, mean, ends, fmt=MARKS[c % len(MARKS)], color=line["color"], ms=5, capsize=3, lw=1.4, label=label
            )
            ax.set_xticks(found.x)
            continue
        if found.low is not None and found.high is not None:
            ax.fill_between(found.x, found.low, found.high, color=BLUE, alpha=0.25, lw=0)
        ax.plot(found.x, mean, **line, lw=1.7, label=label)
    if not found.levels:
        tenths = np.quantile(seen, np.arange(1, 10) / 10)
        inside = tenths[(tenths >= found.x[0]) & (tenths <= found.x[-1])]
        low = np.full(len(inside), 0.03)
        ax.plot(inside, low, "|", color=GREY, ms=6, mew=1.2, transform=ax.get_xaxis_transform(), zorder=0.5)
        ax.margins(x=0.02)
    ax.set_xlabel(found.name)
    bare(ax)


def _axis(source: Source) -> str:
    if not source.posteriors:
        return "probability" if source.of_classes else f"{source.target}, averaged"
    likelihood, classes = source.model.likelihood, source.classes
    if isinstance(likelihood, Softmax) or len(classes) > 2:
        return "probability"
    if isinstance(likelihood, Bernoulli):
        return f"P({classes[1]})" if len(classes) == 2 else "probability"
    if isinstance(likelihood, Binomial):
        return "probability"
    return "rate" if likelihood.support == "counts" else f"{source.target}, averaged"


# computing ------------------------------------------------------------------------------------------------------


def _at(inputs: Inputs, column: int, values: np.ndarray) -> Inputs:
    """Return values × rows inputs: all rows, once for each value of the column."""
    many = inputs.take(np.tile(np.arange(inputs.rows), len(values)))
    x = np.array(many.x, np.float64)
    x[:, column] = np.repeat(values, inputs.rows)
    return many.with_x(x)


def _linked(likelihood: AbstractLikelihood) -> bool:
    """Return whether the latent function is on another scale than y."""
    probe = np.array([-1.0, 0.5, 2.0])
    return likelihood.support != "real" or not np.allclose(likelihood.moments(probe).mean, probe)


def _linear(post: AbstractPosterior, some: Inputs, j: int, at: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return mean and standard deviation of the average of f, from its covariances with the support."""
    who = "plots.dependence"
    try:
        reader = Reader(who, with_matrix(who, post))
    except CovaryError:  # a gram that supports predictions only
        return _by_rows(post, some, j, at)
    m, prior, stationary = some.rows, post.model.prior, reader.kernel.traits.stationary
    step = max(1, CELLS // (max(reader.support.rows, m) * m))
    means, variances, own = [], [], None
    with precision(post.data.dtype), blas_threads(post.data.rows):
        for start in range(0, len(at), step):
            values = at[start : start + step]
            X = _at(some, j, values)
            X = X.with_x(X.x.astype(post.data.dtype))
            g = len(values)
            C = tiles.cross(reader.kernel, reader.support, X).reshape(reader.support.rows, g, m).mean(2)
            C = np.asfortranarray(C)
            H = None if reader.beta is None else with_matrix(who, post).basis_at(X).reshape(g, m, -1).mean(1)
            rest = reader.rest(C, H)
            if own is None or not stationary:  # a stationary kernel does not depend on the common value of the column
                blocks = [X.take(slice(i * m, (i + 1) * m)) for i in range(1 if stationary else g)]
                own = np.array([tiles.cross(reader.kernel, b, b).mean() for b in blocks])
            means.append(reader.mean(C, H) + prior.mean.evaluate(X).reshape(g, m).mean(1))
            variances.append(own - reader.reduction(C, C, rest, rest))
    return np.concatenate(means), np.sqrt(np.maximum(np.concatenate(variances), 0.0))


def _by_rows(post: AbstractPosterior, some: Inputs, j: int, at: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the same from joint covariances of the rows; without std if they are not available."""
    mean = np.asarray(post.mean(_at(some, j, at))).reshape(len(at), some.rows).mean(1)
    try:
        spread = [float(post.covariance(_at(some, j, at[i : i + 1])).mean()) for i in range(len(at))]
    except CovaryError:
        return mean, None
    return mean, np.sqrt(np.maximum(spread, 0.0))


def _few(post: AbstractPosterior, some: Inputs, values: int, key: int) -> Inputs:
    """Return a random subset of rows, small enough for joint covariances."""
    count = int(np.clip(WORK / (values * max(post.width, 100) ** 2), 20, 100))
    return _rows_of(some, count, np.random.default_rng(key))


def _observed(post: AbstractPosterior, some: Inputs, j: int, at: np.ndarray) -> np.ndarray:
    """Return the mean of a new observation, averaged over rows."""
    return np.asarray(post.predict(_at(some, j, at)).y.mean).reshape(len(at), some.rows).mean(1)


def _drawn(
    post: AbstractPosterior, some: Inputs, j: int, at: np.ndarray, key: int
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the 95 % band of the averaged probability or rate from joint draws, with common random numbers."""
    likelihood, ends = post.model.likelihood, []
    try:
        for i in range(len(at)):
            f = post.sample(_at(some, j, at[i : i + 1]), DRAWS, key=key)
            each = likelihood.moments(f.ravel()).mean.reshape(f.shape).mean(1)
            ends.append(np.quantile(each, [0.025, 0.975]))
    except CovaryError:
        return None, None
    low, high = np.array(ends).T
    return low, high


def _classes(parts: Sequence[AbstractPosterior], some: Inputs, j: int, at: np.ndarray) -> np.ndarray:
    """Return the probabilities of all classes, averaged over rows: (g, C)."""
    X = _at(some, j, at)
    p = class_probabilities(parts, [post.predict(X).f for post in parts])
    return p.reshape(len(at), some.rows, -1).mean(1)
