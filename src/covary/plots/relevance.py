r"""How much each input column matters, under any kernel: Sobol's total index of the function, with its uncertainty.

For a function f and rows x_i of the data, shuffle column j among the rows to get x'_i. Then

.. math:: S_j = \frac{\frac1m\sum_i (f(x'_i) - f(x_i))^2}{2\,\mathrm{var}_i f(x_i)}

is Jansen's (1999) estimate of the share of the variance of f that involves column j: 0 if f does not depend on it, 1 if it
depends on nothing else. Columns that act together are each given what they share, so the shares may add to more than one.
Being a function of f, S_j has a posterior: it is evaluated for joint draws of f.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from covary._checks import CovaryError, fail
from covary.gram.dense import DenseBound
from covary.likelihoods.softmax import Softmax
from covary.plots.columns import names_of
from covary.plots.style import BLUE, bare, ink, one, posteriors

WORK = 2e10  # products spent on joint draws: columns × n² × rows
BATCH = 4000  # rows predicted in one go


class Relevance(NamedTuple):
    """Columns from the most relevant to the least: names, shares, and what is to be taken off and added for 95 %, (2, d).

    ``errors`` is None where the posterior has no joint draws, or only slow ones (several latent functions, neighbours): then
    the shares are those of the posterior mean.
    """

    names: list[str]
    values: np.ndarray
    errors: np.ndarray | None


def relevance(
    model: Any, names: Sequence[str] | None = None, *, rows: int = 200, draws: int = 200, most: int = 30, key: int = 0
) -> Relevance:
    """The share of the function's variation that involves each column: posterior median and 95 % interval.

    Parameters
    ----------
    model
        A fitted estimator or a posterior.
    names
        Names of the input columns; those seen in ``fit`` by default.
    rows
        The most rows of the data that are looked at; fewer of large problems.
    draws
        Draws of the function.
    most
        Of more columns, those are looked at along which the posterior mean moves most.
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
    rng = np.random.default_rng(key)
    cheap = _rows_of(inputs, rows, rng)
    shares = _of_means(model, parts, cheap, rng)
    chosen = np.argsort(-shares, kind="stable")[:most]
    values, errors = shares[chosen], None
    one_function = len(parts) == 1 and parts[0].model.likelihood.latents == 1
    if one_function and quick_joint(parts[0]):  # a few dozen rows would not do
        width = parts[0].bound.width
        few = int(np.clip(WORK / (len(chosen) * max(width, 100) ** 2), 40, rows))
        try:
            found = _of_draws(parts[0], _rows_of(inputs, few, rng), chosen, draws, rng)
        except CovaryError:  # a gram without joint covariances
            found = None
        if found is not None:
            low, values, high = np.quantile(found, [0.025, 0.5, 0.975], axis=0)
            errors = np.stack([values - low, high - values])
    order = np.argsort(-values, kind="stable")
    errors = None if errors is None else errors[:, order]
    return Relevance([labels[chosen[i]] for i in order], values[order], errors)


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
        raise fail("plots.plot_relevance", f"got {len(names)} names and values of shape {values.shape}", "give one for each")
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


def _shuffled(inputs: Any, column: int, rng: np.random.Generator) -> np.ndarray:
    x = np.array(inputs.x, np.float64)
    x[:, column] = rng.permutation(x[:, column])
    return x


def _index(base: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """Jansen's index, for values (..., m, k): one number for every leading entry, averaged over outputs."""
    change, whole = np.square(moved - base).mean(-2), base.var(-2)
    share = np.divide(change, 2 * whole, out=np.zeros_like(change), where=whole > 0)
    return np.clip(share.mean(-1), 0.0, 1.0)


def _of_means(model: Any, parts: list[Any], inputs: Any, rng: np.random.Generator) -> np.ndarray:
    """The index of the posterior mean, (d,)."""
    m, d = inputs.x.shape
    base, out = _means(model, parts, inputs), np.empty(d)
    together = max(1, BATCH // m)
    for start in range(0, d, together):
        part = range(start, min(d, start + together))
        x = np.concatenate([_shuffled(inputs, j, rng) for j in part])
        many = inputs.take(np.tile(np.arange(m), len(part))).with_x(x)
        moved = _means(model, parts, many).reshape(len(part), m, -1)
        if moved.shape[2] > 1 and isinstance(parts[0].model.likelihood, Softmax):  # a rare class counts for less
            change, whole = np.square(moved - base).mean(1).sum(1), base.var(0).sum()
            out[list(part)] = np.clip(change / (2 * whole) if whole > 0 else 0.0 * change, 0.0, 1.0)
        else:
            out[list(part)] = _index(base, moved)
    return out


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
    """The index of joint draws, (draws, len(columns))."""
    m = inputs.rows
    twice = inputs.take(np.tile(np.arange(m), 2))
    out = np.empty((draws, len(columns)))
    for i, j in enumerate(columns):
        x = np.concatenate([np.asarray(inputs.x, np.float64), _shuffled(inputs, int(j), rng)])
        f = post.sample(twice.with_x(x), draws, key=rng).reshape(draws, 2 * m, -1)
        out[:, i] = _index(f[:, :m], f[:, m:])
    return out
