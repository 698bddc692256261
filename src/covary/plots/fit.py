"""The fit with its error bars, for one or two input columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from covary._checks import fail

BLUE, ORANGE, INK = "#0072B2", "#D55E00", "#222222"  # Okabe–Ito: safe for colour-blind readers


def plot_fit(
    posterior: Any,
    ax: Any = None,
    *,
    names: Any = None,
    samples: int = 0,
    key: int = 0,
    points: int = 400,
    margin: float = 0.05,
) -> Any:
    """Mean, 95 % bands of the function and of new observations, and the data; a map of mean and spread for two inputs.

    Parameters
    ----------
    posterior
        A posterior over one output.
    ax
        The axes to draw on (for two inputs, a pair of axes); made if None.
    names
        Names of the input columns.
    samples
        Draws of the function to add (one input only).
    key
        Seed of the draws.
    points
        Points along the curve.
    margin
        How far the picture reaches beyond the data, as a share of their range.
    """
    x = np.asarray(posterior.data.X.x)
    if x.shape[1] == 1:
        low, high = x.min(), x.max()
        pad = margin * (high - low or 1.0)
        grid = np.linspace(low - pad, high + pad, points)
        return plot_series(posterior, grid, ax=ax, name=_name(names, 0), samples=samples, key=key)
    if x.shape[1] == 2:
        return _maps(posterior, ax, names, margin)
    raise fail("plots.plot_fit", f"the model has {x.shape[1]} input columns", "plot models with one or two, or fix the others")


def _name(names: Any, i: int) -> str:
    return str(names[i]) if names is not None else f"x{i}"


def plot_series(
    posterior: Any, grid: Any, ax: Any = None, *, name: str = "x", samples: int = 0, key: int = 0, data: bool = True
) -> Any:
    """Mean and 95 % bands along one input."""
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
    grid = np.asarray(grid, np.float64).ravel()
    prediction = posterior.predict(grid[:, None])
    low_y, high_y = prediction.y.interval()
    low_f, high_f = prediction.f.interval()
    ax.fill_between(grid, low_y, high_y, color=BLUE, alpha=0.15, lw=0, label="95 % of new observations")
    ax.fill_between(grid, low_f, high_f, color=BLUE, alpha=0.35, lw=0, label="95 % of the function")
    ax.plot(grid, prediction.f.mean, color=BLUE, lw=1.8, label="mean")
    if samples:
        draws = posterior.sample(grid[:, None], samples, key=key)
        ax.plot(grid, draws.T, color=ORANGE, lw=0.8, alpha=0.8, label=["draws", *[None] * (samples - 1)])
    if data:
        x, y = np.asarray(posterior.data.X.x)[:, 0], np.asarray(posterior.data.y)
        size = float(np.clip(400 / len(x), 3, 26))
        ax.scatter(x, y, s=size, color=INK, zorder=3, linewidths=0, label=f"data ({len(x)})")
    ax.set_xlabel(name)
    ax.set_ylabel("y")
    ax.margins(x=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=9)
    return ax


def _maps(posterior: Any, ax: Any, names: Any, margin: float) -> Any:
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained", sharex=True, sharey=True)
    axes = np.ravel(np.asarray(ax, dtype=object))
    if len(axes) != 2:
        raise fail("plots.plot_fit", f"got {len(axes)} axes", "give a pair: one for the mean, one for the spread")
    x, y = np.asarray(posterior.data.X.x), np.asarray(posterior.data.y)
    low, high = x.min(0), x.max(0)
    pad = margin * np.where(high > low, high - low, 1.0)
    u, v = (np.linspace(low[i] - pad[i], high[i] + pad[i], 80) for i in range(2))
    mesh = np.stack(np.meshgrid(u, v), axis=-1).reshape(-1, 2)
    prediction = posterior.predict(mesh)
    span = drawn_range(prediction.f.mean, y)
    for one, values, title, colours, (least, most) in (
        (axes[0], prediction.f.mean, "mean", "viridis", span),
        (axes[1], prediction.f.std, "standard deviation of the function", "cividis", drawn_range(prediction.f.std)),
    ):
        drawn = one.contourf(u, v, values.reshape(80, 80), levels=np.linspace(least, most, 25), cmap=colours)
        one.figure.colorbar(drawn, ax=one)
        one.set_title(title, fontsize=10)
        one.set_xlabel(_name(names, 0))
        one.set_ylabel(_name(names, 1))
    axes[0].scatter(x[:, 0], x[:, 1], c=y, cmap="viridis", vmin=span[0], vmax=span[1], s=18, edgecolors="white", linewidths=0.6)
    axes[1].scatter(x[:, 0], x[:, 1], s=8, color="white", edgecolors=INK, linewidths=0.4)
    return ax


def drawn_range(*values: np.ndarray) -> tuple[float, float]:
    """One colour range for a map and the data on it; never of width zero."""
    least, most = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    return (least, most) if most > least else (least - 0.5, most + 0.5)
