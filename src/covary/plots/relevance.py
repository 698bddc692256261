r"""Relevance of each input column under any kernel: Sobol's total index of the function, with its uncertainty.

For a function f and rows x_i of the data, shuffle column j among the rows several times to obtain x_i^{(r)}. Then

.. math:: S_j = \frac{\frac1m\sum_i \mathrm{var}_r f(x_i^{(r)})}{\mathrm{var}_i f(x_i)}

with the row itself among the r (Jansen 1999 shuffles once) is the share of the variance of f that involves column j: 0 if
f does not depend on it, 1 if it depends on nothing else. The contribution of an interaction counts for each of its columns, so
the shares may add up to more than one. As a function of f, S_j has a posterior: it is evaluated for joint draws of f.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from covary import fits
from covary._checks import CovaryError, fail
from covary._words import counted
from covary.data import Inputs
from covary.fits import Relevance as Relevance
from covary.gram.base import HasInducing
from covary.likelihoods.softmax import Softmax
from covary.parameters import parameters
from covary.plots.source import Drawable, Source
from covary.plots.style import BLUE, Given, bare, ink, names_shown, one
from covary.posterior import AbstractPosterior, Posterior, square_root

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WORK = 2e10  # multiplications for joint draws: columns × n² × rows
EVALUATIONS, LOOKED = 3e8, 1000  # operations for the posterior mean: columns × n × d × rows; maximum number of rows
SHUFFLES, JOINT = 8, 400  # maximum number of shuffles of one column, and of shuffled rows drawn jointly
BATCH = 4000  # rows predicted per call
MOST_COLUMNS = 60  # of more columns, those with the shortest length-scales are examined


def relevance(
    model: Drawable,
    names: Sequence[str] | None = None,
    *,
    rows: int | None = None,
    draws: int | None = None,
    most: int = 30,
    key: int = 0,
) -> Relevance:
    """Estimate the share of the function's variation that involves each column: posterior median and 95 % interval.

    Parameters
    ----------
    model
        A fitted estimator or a posterior.
    names
        Names of the input columns; by default those seen in ``fit``.
    rows
        The maximum number of rows at which draws are evaluated; fewer for large problems. By default 200, or 100 with more
        than 15 columns. The posterior mean, which is cheaper, is evaluated at up to 1,000 rows.
    draws
        Number of draws of the function: by default 100, or 50 with more than 5,000 rows.
    most
        The maximum number of columns in the result: those along which the posterior mean varies most.
    key
        Seed of rows, shuffles and draws.

    Examples
    --------
    >>> import numpy as np
    >>> from covary import GP, Data, Model, condition
    >>> x = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    >>> model = Model(GP("SquaredExponential(lengthscale=[1.0, 9.0])"))
    >>> found = relevance(condition(model, Data(x, np.sin(3 * x[:, 0]))))
    >>> found.names, bool(found.values[0] > 0.9 > 0.1 > found.values[1])
    (['x0', 'x1'], True)
    """
    source = Source.of("plots.relevance", model)
    parts, labels, inputs = source.posteriors, source.names(names), source.inputs
    if source.fit is not None:
        own = fits.family_of(source.fit).relevance(source.fit)
        if own is not None:
            return own
    if inputs.columns == 1:  # the only column explains everything
        return Relevance(labels, np.ones(1), np.zeros((2, 1)))
    rows = (200 if inputs.columns <= 15 else 100) if rows is None else rows
    draws = (100 if inputs.rows <= 5000 else 50) if draws is None else draws
    rng = np.random.default_rng(key)
    likely = _likely(parts, inputs)
    cheap = int(np.clip(EVALUATIONS / (2 * len(likely) * inputs.columns * inputs.rows), rows, max(rows, LOOKED)))
    shares = _of_means(source, _rows_of(inputs, cheap, rng), rng, likely)
    chosen = np.argsort(-shares, kind="stable")[: min(most, len(likely))]
    values, errors = shares[chosen], None
    one_function = len(parts) == 1 and parts[0].model.likelihood.latents == 1
    if (
        one_function and values.any() and quick_joint(parts[0])
    ):  # otherwise only a few dozen rows would be affordable, which is too few
        width = parts[0].width
        few = int(np.clip(0.5 * WORK / (len(chosen) * max(width, 100) ** 2), 40, rows))
        try:
            found = _of_draws(parts[0], _rows_of(inputs, few, rng), chosen, draws, rng)
        except (CovaryError, np.linalg.LinAlgError):  # a gram without joint covariances
            found = None
        if found is not None:  # deviations of draws from the mean at few rows, added to the mean at many
            low, values, high = np.quantile(np.clip(values + found, 0.0, 1.0), [0.025, 0.5, 0.975], axis=0)
            errors = np.stack([values - low, high - values])
    order = np.argsort(-values, kind="stable")
    errors = None if errors is None else errors[:, order]
    return Relevance([labels[chosen[i]] for i in order], values[order], errors)


@names_shown
def plot_relevance(
    names: Drawable | Sequence[str],
    values: ArrayLike | None = None,
    errors: ArrayLike | None = None,
    ax: Given = None,
    *,
    most: int = 20,
    **options: Sequence[str] | int,
) -> Axes:
    """Plot the relevance of every column, its share of the function's variation, as bars with 95 % error bars.

    Parameters
    ----------
    names
        A fitted estimator or a posterior, whose :func:`relevance` is shown; or the names of the columns.
    values
        With names: the relevance of each, from 0 to 1.
    errors
        The lengths of the error bars below and above, (2, d), or of both, (d,); or None.
    ax
        The axes to draw on, created if None.
    most
        The maximum number of columns to draw.
    **options
        As in :func:`relevance`.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> ax = plot_relevance(["age", "dose"], [0.2, 0.9], [0.1, 0.05])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['dose', 'age']
    >>> plt.close()
    """
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    if values is None:
        Source.of("plots.plot_relevance", names)  # type: ignore[arg-type]  # raises an error in its own name
        names, values, errors = relevance(names, **options)  # type: ignore[arg-type]
    names = list(names)  # type: ignore[arg-type]
    values = np.asarray(values, np.float64)
    if values.shape != (len(names),):
        what = f"got {counted(len(names), 'name')} and values of shape {values.shape}"
        raise fail("plots.plot_relevance", what, "give one for each")
    order = np.argsort(-values, kind="stable")[:most]
    label = [str(names[i]) for i in order]
    bars = values[order]
    ax = one(ax, (5.6, 0.9 + 0.32 * len(order)))
    at = np.arange(len(order))
    ax.barh(at, bars, 0.62, color=BLUE, alpha=0.7, lw=0)
    ends = bars
    if errors is not None:
        errors = np.asarray(errors, np.float64)
        spread = np.broadcast_to(errors, (2, len(names)))[:, order]
        spread = np.stack([np.clip(spread[0], 0.0, bars), np.maximum(spread[1], 0.0)])
        ax.errorbar(bars, at, xerr=spread, fmt="none", ecolor=ink(), elinewidth=1.2, capsize=3)
        ends = bars + spread[1]
    for y, end, value in zip(at, ends, bars, strict=True):
        shown = f"{100 * value:.0f} %" if value >= 0.1 else f"{100 * value:.1f} %"
        ax.annotate(shown, (end, y), (5, 0), textcoords="offset points", va="center", fontsize=8.5)
    ax.set_yticks(at, label)
    ax.invert_yaxis()
    ax.set_xlim(0, max(0.05, float(ends.max())) * 1.15)
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    ax.set_xlabel("fraction of the variance that involves the column")
    ax.tick_params(axis="y", length=0)
    bare(ax)
    return ax


# parts ----------------------------------------------------------------------------------------------------------


def quick_joint(post: AbstractPosterior) -> bool:
    """Return whether joint covariances are matrix products; neighbour and state-space models build them row by row."""
    if not isinstance(post, Posterior):
        return False
    return post.bound.dense or isinstance(post.bound, HasInducing)


def _rows_of(inputs: Inputs, count: int, rng: np.random.Generator) -> Inputs:
    if inputs.rows <= count:
        return inputs
    return inputs.take(np.sort(rng.choice(inputs.rows, count, replace=False)))


def _shuffled(inputs: Inputs, column: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return the rows with one column shuffled, ``count`` times: (count × rows, d)."""
    x = np.tile(np.asarray(inputs.x, np.float64), (count, 1))
    x[:, column] = np.concatenate([rng.permutation(inputs.x[:, column]) for _ in range(count)])
    return x


def _index(values: np.ndarray, together: bool = False) -> np.ndarray:
    """Return the index from values (..., 1 + shuffles, m, k), the unshuffled rows first: one for every leading entry.

    It is averaged over the k outputs, or computed for all of them together.
    """
    own = values[..., 0, :, :]
    change, whole = values.var(-3, ddof=1).mean(-2), own.var(-2)
    rounding = np.square(4 * np.finfo(np.float64).eps * np.abs(own).max(-2))  # the variance of a constant
    if together:  # a rare class counts for less
        change, whole, rounding = (part.sum(-1, keepdims=True) for part in (change, whole, rounding))
    share = np.divide(change, whole, out=np.zeros_like(change), where=whole > rounding)
    return np.clip(share.mean(-1), 0.0, 1.0)


def _likely(parts: Sequence[AbstractPosterior], inputs: Inputs) -> np.ndarray:
    """Return the columns to examine: all if there are few, else those with the largest ratio of spread to length-scale."""
    if inputs.columns <= MOST_COLUMNS:
        return np.arange(inputs.columns)
    x, size = np.asarray(inputs.x, np.float64), np.zeros(inputs.columns)
    for kernel in (kernel for part in parts for kernel in part.model.prior.kernels):
        for path, parameter in parameters(kernel).items():
            if path.endswith("lengthscale") and np.shape(parameter.value) in ((), size.shape):
                size = np.maximum(size, x.std(0) / np.asarray(parameter.value))
    return np.sort(np.argsort(-size, kind="stable")[:MOST_COLUMNS])


def _of_means(source: Source, inputs: Inputs, rng: np.random.Generator, columns: np.ndarray | None = None) -> np.ndarray:
    """Return the index of the posterior mean, (d,), for the given columns, and 0 for the others."""
    m, d = inputs.x.shape
    columns = np.arange(d) if columns is None else columns
    rows = EVALUATIONS / (len(columns) * d * source.inputs.rows)
    count = int(np.clip(rows // m, 1, SHUFFLES))
    base, out = _means(source, inputs), np.zeros(d)
    together = max(1, BATCH // (m * count))
    for start in range(0, len(columns), together):
        part = columns[start : start + together]
        x = np.concatenate([_shuffled(inputs, j, count, rng) for j in part])
        many = inputs.take(np.tile(np.arange(m), len(part) * count)).with_x(x)
        moved = _means(source, many).reshape(len(part), count, m, -1)
        values = np.concatenate([np.broadcast_to(base, (len(part), 1, *base.shape)), moved], axis=1)
        out[part] = _index(values, _joint_classes(source))
    return np.where(np.ptp(inputs.x, axis=0) == 0, 0.0, out)  # nothing to shuffle


def _joint_classes(source: Source) -> bool:
    """Return whether the outputs are class probabilities that one model predicts jointly."""
    return isinstance(source.model.likelihood, Softmax) if source.posteriors else source.of_classes


def _means(source: Source, inputs: Inputs) -> np.ndarray:
    """Return the outputs (m, k) whose variation is measured: the latent mean; for three or more classes, their probabilities
    at the latent mean; for a family without latent functions, its predictions."""
    from scipy.special import softmax

    parts = source.posteriors
    if not parts:
        return source.predicted(np.asarray(inputs.x, np.float64))
    first = parts[0]
    if len(parts) > 1:
        each = np.stack([p.model.likelihood.moments(np.asarray(p.mean(inputs))).mean for p in parts], axis=1)
        return each / np.maximum(each.sum(1, keepdims=True), np.finfo(float).tiny)
    mean = np.asarray(first.mean(inputs), np.float64).reshape(inputs.rows, -1)
    likelihood = first.model.likelihood
    if isinstance(likelihood, Softmax):
        return softmax(mean, axis=1)
    return mean if likelihood.latents == 1 else mean[:, :1]  # with varying noise, the function only


def _of_draws(post: AbstractPosterior, inputs: Inputs, columns: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Return the index of joint draws minus that of the mean at the same rows, (draws, len(columns))."""
    m = inputs.rows
    count = int(np.clip(JOINT // m, 1, SHUFFLES))
    every = inputs.take(np.tile(np.arange(m), 1 + count))
    out = np.empty((draws, len(columns)))
    for i, j in enumerate(columns):
        if np.ptp(inputs.x[:, j]) == 0:  # nothing to shuffle
            out[:, i] = 0.0
            continue
        x = np.concatenate([np.asarray(inputs.x, np.float64), _shuffled(inputs, int(j), count, rng)])
        X = every.with_x(x)
        mean, root = np.asarray(post.mean(X)).reshape(X.rows, -1).T, square_root(post.covariance(X))
        f = mean + rng.standard_normal((draws, *mean.shape)) @ root.T  # (draws, outputs, rows)
        each = np.concatenate([f, mean[None]]).reshape(draws + 1, len(mean), 1 + count, m)
        found = _index(np.moveaxis(each, 1, -1))
        out[:, i] = found[:-1] - found[-1]
    return out
