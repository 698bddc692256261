r"""How much each input column matters, under any kernel: Sobol's total index of the function, with its uncertainty.

For a function f and rows x_i of the data, shuffle column j among the rows, several times, to get x_i^{(r)}. Then

.. math:: S_j = \frac{\frac1m\sum_i \mathrm{var}_r f(x_i^{(r)})}{\mathrm{var}_i f(x_i)}

with the row itself among the r (Jansen 1999, who shuffles once) is the share of the variance of f that involves column j: 0 if
f does not depend on it, 1 if it depends on nothing else. Columns that act together are each given what they share, so the
shares may add to more than one. Being a function of f, S_j has a posterior: it is evaluated for joint draws of f.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from covary._checks import CovaryError, fail
from covary._words import counted
from covary.gram.dense import DenseBound
from covary.likelihoods.softmax import Softmax
from covary.parameters import parameters
from covary.plots.columns import names_of
from covary.plots.style import BLUE, bare, ink, names_shown, one, posteriors
from covary.posterior import square_root

WORK = 2e10  # products spent on joint draws: columns × n² × rows
EVALUATIONS, LOOKED = 3e8, 1000  # numbers compared for the posterior mean: columns × n × d × rows; the most rows
SHUFFLES, JOINT = 8, 400  # the most of one column, and the most rows drawn jointly beside their own
BATCH = 4000  # rows predicted in one go
MOST_COLUMNS = 60  # of more, those with the shortest length-scales are looked at


class Relevance(NamedTuple):
    """Columns from the most relevant to the least: names, shares, and what is to be taken off and added for 95 %, (2, d).

    ``errors`` is None where the posterior has no joint draws, or only slow ones (several latent functions, neighbours): then
    the shares are those of the posterior mean. A report and the command show these numbers.
    """

    names: list[str]
    values: np.ndarray
    errors: np.ndarray | None


def relevance(
    model: Any,
    names: Sequence[str] | None = None,
    *,
    rows: int | None = None,
    draws: int | None = None,
    most: int = 30,
    key: int = 0,
) -> Relevance:
    """The share of the function's variation that involves each column: posterior median and 95 % interval.

    Parameters
    ----------
    model
        A fitted estimator or a posterior.
    names
        Names of the input columns; those seen in ``fit`` by default.
    rows
        The most rows of the data that draws are looked at; fewer of large problems. By default 200, of more than 15 columns
        100. The posterior mean, which is cheaper, is looked at in up to 1,000.
    draws
        Draws of the function: by default 100, of more than 5,000 rows 50.
    most
        Of more columns, those are told along which the posterior mean moves most.
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
    parts = posteriors("plots.relevance", model)
    inputs = parts[0].data.X
    labels = names_of(model, inputs.columns, names)
    if inputs.columns == 1:  # all there is
        return Relevance(labels, np.ones(1), np.zeros((2, 1)))
    rows = (200 if inputs.columns <= 15 else 100) if rows is None else rows
    draws = (100 if inputs.rows <= 5000 else 50) if draws is None else draws
    rng = np.random.default_rng(key)
    likely = _likely(parts, inputs)
    cheap = int(np.clip(EVALUATIONS / (2 * len(likely) * inputs.columns * inputs.rows), rows, max(rows, LOOKED)))
    shares = _of_means(model, parts, _rows_of(inputs, cheap, rng), rng, likely)
    chosen = np.argsort(-shares, kind="stable")[: min(most, len(likely))]
    values, errors = shares[chosen], None
    one_function = len(parts) == 1 and parts[0].model.likelihood.latents == 1
    if one_function and values.any() and quick_joint(parts[0]):  # a few dozen rows would not do
        width = parts[0].bound.width
        few = int(np.clip(0.5 * WORK / (len(chosen) * max(width, 100) ** 2), 40, rows))
        try:
            found = _of_draws(parts[0], _rows_of(inputs, few, rng), chosen, draws, rng)
        except (CovaryError, np.linalg.LinAlgError):  # a gram without joint covariances
            found = None
        if found is not None:  # how far draws are from the mean, of some rows, beside the mean of many
            low, values, high = np.quantile(np.clip(values + found, 0.0, 1.0), [0.025, 0.5, 0.975], axis=0)
            errors = np.stack([values - low, high - values])
    order = np.argsort(-values, kind="stable")
    errors = None if errors is None else errors[:, order]
    return Relevance([labels[chosen[i]] for i in order], values[order], errors)


@names_shown
def plot_relevance(
    names: Any, values: Any = None, errors: Any = None, ax: Any = None, *, most: int = 20, **options: Any
) -> Any:
    """The relevance of every column as bars, with 95 % error bars: how much of the function's variation involves it.

    Parameters
    ----------
    names
        A fitted estimator or a posterior, whose :func:`relevance` is shown; or the names of the columns.
    values
        With names: the relevance of each, from 0 to 1.
    errors
        What to take off and to add, (2, d), one number for both, (d,), or None.
    ax
        The axes to draw on, made if None.
    most
        The most columns to draw.
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
        names, values, errors = relevance(names, **options)
    values = np.asarray(values, np.float64)
    if values.shape != (len(names),):
        raise fail(
            "plots.plot_relevance", f"got {counted(len(names), 'name')} and values of shape {values.shape}", "give one for each"
        )
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
    ax.set_xlabel("share of the function's variation that involves the column")
    ax.tick_params(axis="y", length=0)
    bare(ax)
    return ax


# parts ----------------------------------------------------------------------------------------------------------


def quick_joint(post: Any) -> bool:
    """Whether joint covariances are matrix products; neighbours and state-space models build them row by row."""
    return isinstance(post.bound, DenseBound) or hasattr(post.bound, "inducing_posterior")


def _rows_of(inputs: Any, count: int, rng: np.random.Generator) -> Any:
    if inputs.rows <= count:
        return inputs
    return inputs.take(np.sort(rng.choice(inputs.rows, count, replace=False)))


def _shuffled(inputs: Any, column: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """The rows with one column shuffled, so many times: (count × rows, d)."""
    x = np.tile(np.asarray(inputs.x, np.float64), (count, 1))
    x[:, column] = np.concatenate([rng.permutation(inputs.x[:, column]) for _ in range(count)])
    return x


def _index(values: np.ndarray, together: bool = False) -> np.ndarray:
    """The share of values (..., 1 + shuffles, m, k), the rows themselves first: one for every leading entry.

    Averaged over the k outputs, or of all of them together.
    """
    change, whole = values.var(-3, ddof=1).mean(-2), values[..., 0, :, :].var(-2)
    if together:  # a rare class counts for less
        change, whole = change.sum(-1, keepdims=True), whole.sum(-1, keepdims=True)
    share = np.divide(change, whole, out=np.zeros_like(change), where=whole > 0)
    return np.clip(share.mean(-1), 0.0, 1.0)


def _likely(parts: list[Any], inputs: Any) -> np.ndarray:
    """The columns worth a look: all of a few; of many those of the largest spread over length-scale."""
    if inputs.columns <= MOST_COLUMNS:
        return np.arange(inputs.columns)
    x, size = np.asarray(inputs.x, np.float64), np.zeros(inputs.columns)
    for kernel in (kernel for part in parts for kernel in part.model.prior.kernels):
        for path, parameter in parameters(kernel).items():
            if path.endswith("lengthscale") and np.shape(parameter.value) in ((), size.shape):
                size = np.maximum(size, x.std(0) / np.asarray(parameter.value))
    return np.sort(np.argsort(-size, kind="stable")[:MOST_COLUMNS])


def _of_means(
    model: Any, parts: list[Any], inputs: Any, rng: np.random.Generator, columns: np.ndarray | None = None
) -> np.ndarray:
    """The index of the posterior mean, (d,): of some columns, 0 elsewhere."""
    m, d = inputs.x.shape
    columns = np.arange(d) if columns is None else columns
    rows = EVALUATIONS / (len(columns) * d * parts[0].data.rows)
    count = int(np.clip(rows // m, 1, SHUFFLES))
    base, out = _means(model, parts, inputs), np.zeros(d)
    together = max(1, BATCH // (m * count))
    for start in range(0, len(columns), together):
        part = columns[start : start + together]
        x = np.concatenate([_shuffled(inputs, j, count, rng) for j in part])
        many = inputs.take(np.tile(np.arange(m), len(part) * count)).with_x(x)
        moved = _means(model, parts, many).reshape(len(part), count, m, -1)
        values = np.concatenate([np.broadcast_to(base, (len(part), 1, *base.shape)), moved], axis=1)
        out[part] = _index(values, isinstance(parts[0].model.likelihood, Softmax))
    return np.where(np.ptp(inputs.x, axis=0) == 0, 0.0, out)  # nothing to shuffle


def _means(model: Any, parts: list[Any], inputs: Any) -> np.ndarray:
    """What is looked at, (m, k): the latent mean; of three classes and more, their probabilities at the latent mean."""
    from scipy.special import softmax

    if len(parts) > 1:
        each = np.stack([p.model.likelihood.moments(np.asarray(p.mean(inputs))).mean for p in parts], axis=1)
        return each / np.maximum(each.sum(1, keepdims=True), np.finfo(float).tiny)
    mean = np.asarray(parts[0].mean(inputs), np.float64).reshape(inputs.rows, -1)
    likelihood = parts[0].model.likelihood
    if isinstance(likelihood, Softmax):
        return softmax(mean, axis=1)
    return mean if likelihood.latents == 1 else mean[:, :1]  # of noise that varies, the function


def _of_draws(post: Any, inputs: Any, columns: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
    """The index of joint draws less that of the mean at the same rows, (draws, len(columns))."""
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
