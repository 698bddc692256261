"""Figures of Rasmussen & Williams (2006), chapters 2, 4 and 5, drawn by covary: ``python docs/gallery/make_book.py``.

If the data of the book are not printed, they are generated from the same distribution. Each figure is one function that
returns the matplotlib figure and its caption.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from covary import GP, Data, Model, condition, learn, log_evidence
from covary import kernels as ks
from covary.likelihoods import Gaussian
from covary.parameters import fixed

HERE = Path(__file__).resolve().parent
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
GREY = "#999999"
FIGURES: dict[str, tuple[str, Callable[[], tuple[Any, str]]]] = {}


def shown(name: str, title: str) -> Callable[[Any], Any]:
    """Add a figure to the page."""

    def keep(function: Any) -> Any:
        FIGURES[name] = (title, function)
        return function

    return keep


def panels(count: int, width: float = 8.0, height: float = 2.5) -> Any:
    """Return axes in a row."""
    fig, axes = plt.subplots(1, count, figsize=(width, height), layout="constrained", squeeze=False)
    for ax in axes[0]:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
    return fig, axes[0]


def drawn(kernel: Any, X: np.ndarray, count: int, seed: int = 0) -> np.ndarray:
    """Return samples of the prior, one per column."""
    values, vectors = np.linalg.eigh(kernel.gram(X))
    z = np.random.default_rng(seed).normal(size=(len(X), count))
    return vectors @ (np.sqrt(np.maximum(values, 0))[:, None] * z)


def band(ax: Any, x: np.ndarray, mean: np.ndarray, std: np.ndarray) -> None:
    """Plot the mean and two standard deviations."""
    ax.fill_between(x, mean - 2 * std, mean + 2 * std, color=GREY, alpha=0.25, lw=0)
    ax.plot(x, mean, color="black", lw=1.2)


def noisy(n: int = 20, seed: int = 9) -> tuple[np.ndarray, np.ndarray]:
    """Return rows from a squared exponential with length-scale 1, variance 1 and noise of standard deviation 0.1."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-7.5, 7.5, n))[:, None]
    return x, drawn(ks.SquaredExponential(), x, 1, seed)[:, 0] + 0.1 * rng.normal(size=n)


def model_of(lengthscale: float, variance: float, noise: float) -> Model:
    """Return a squared exponential model with noise."""
    return Model(GP(variance * ks.SquaredExponential(lengthscale=lengthscale)), likelihood=Gaussian(noise))


@shown("fig2_2", "Figure 2.2: prior and posterior")
def prior_and_posterior() -> tuple[Any, str]:
    x = np.linspace(-5, 5, 201)[:, None]
    X, y = np.array([[-4.0], [-3.0], [-1.0], [0.0], [2.0]]), np.array([-2.0, 0.0, 1.0, 2.0, -1.0])
    fig, (left, right) = panels(2)
    band(left, x[:, 0], np.zeros(201), np.ones(201))
    for sample, colour in zip(drawn(ks.SquaredExponential(), x, 3, 3).T, COLOURS, strict=False):
        left.plot(x[:, 0], sample, color=colour, lw=1.2)
    posterior = condition(model_of(1.0, 1.0, 1e-8), Data(X, y))
    f = posterior.predict(x).f
    band(right, x[:, 0], f.mean, np.sqrt(f.variance))
    for sample, colour in zip(posterior.sample(x, 3, key=1), COLOURS, strict=False):
        right.plot(x[:, 0], sample, color=colour, lw=1.2)
    right.plot(X[:, 0], y, "+", color="black", ms=9, mew=1.5)
    for ax in (left, right):
        ax.set_xlabel("input x")
        ax.set_ylabel("output f(x)")
    return (
        fig,
        "Three functions from the prior, three from the posterior given five values without noise; grey: two deviations.",
    )


@shown("fig2_5", "Figure 2.5: what the length-scale does")
def hyperparameters() -> tuple[Any, str]:
    X, y = noisy()
    x = np.linspace(-8, 8, 201)[:, None]
    fig, axes = panels(3, 9.0)
    found = []
    for ax, length in zip(axes, (1.0, 0.3, 3.0), strict=True):
        start = Model(
            GP(1.0 * ks.SquaredExponential(lengthscale=fixed(length))), likelihood=Gaussian(0.01 if length < 2 else 0.5)
        )
        fit = learn(start, Data(X, y))
        f = condition(fit.model, Data(X, y)).predict(x).f
        band(ax, x[:, 0], f.mean, np.sqrt(f.variance))
        ax.plot(X[:, 0], y, "+", color=COLOURS[0], ms=7)
        sigma = float(np.sqrt(fit.kernel.variance)), float(np.sqrt(fit.likelihood.variance))
        ax.set_title(f"ℓ = {length:g}: σ = {sigma[0]:.2f}, noise {sigma[1]:.2g}", fontsize=9)
        ax.set_ylim(-3.2, 3.2)
        ax.set_xlabel("input x")
        found.append(f"{fit.value:.1f}")
    text = f"Log evidence {found[0]}, {found[1]} and {found[2]}: "
    text += "a short length-scale explains all scatter, a long one treats it as noise."
    return fig, text


@shown("fig2_6", "Figure 2.6: weight functions")
def weights() -> tuple[Any, str]:
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 1, 50))[:, None]
    fig, axes = panels(4, 10.0, 2.3)
    kernel = ks.SquaredExponential(lengthscale=0.004**0.5)
    grid = np.linspace(0, 1, 201)[:, None]
    for ax, at, noise in zip(axes, (0.5, 0.05, 0.5), (0.1, 0.1, 10.0), strict=False):
        h = np.linalg.solve(kernel.gram(X) + noise * np.eye(50), kernel.cross(X, np.array([[at]])))[:, 0]
        ax.plot(X[:, 0], h, ".", color=COLOURS[0], ms=4)
        own = kernel.cross(grid, np.array([[at]]))[:, 0]
        ax.plot(grid[:, 0], own * h.max(), color=GREY, lw=1)
        spread = noise * len(grid) / 50
        row = np.linalg.solve(kernel.gram(grid) + spread * np.eye(len(grid)), kernel.cross(grid, np.array([[at]])))[:, 0]
        ax.plot(grid[:, 0], row * len(grid) / 50, color=COLOURS[1], lw=1.2)
        ax.set_title(f"x = {at:g}, noise {noise:g}", fontsize=9)
    for n, colour in ((10, COLOURS[0]), (250, COLOURS[1])):
        spread = 0.1 * len(grid) / n
        row = np.linalg.solve(kernel.gram(grid) + spread * np.eye(len(grid)), kernel.cross(grid, np.array([[0.5]])))[:, 0]
        axes[3].plot(grid[:, 0], row / row.max(), color=colour, lw=1.2, label=f"n = {n}")
    axes[3].legend(fontsize=8, frameon=False)
    axes[3].set_title("equivalent kernels", fontsize=9)
    return (
        fig,
        "Dots: weights of 50 observations at x; grey: the kernel; orange: the equivalent kernel of many rows.",
    )


@shown("fig4_1", "Figures 4.1 to 4.3: smoothness")
def smoothness() -> tuple[Any, str]:
    x = np.linspace(-5, 5, 1001)[:, None]
    r = np.linspace(0, 3, 151)[:, None]
    fig, axes = plt.subplots(2, 3, figsize=(9.0, 4.4), layout="constrained")
    columns = {
        "Matérn": [
            ("ν = ½", ks.Matern12()),
            ("ν = 2", ks.Matern(lengthscale=1.0, nu=2.0)),
            ("ν → ∞", ks.SquaredExponential()),
        ],
        "γ-exponential": [(f"γ = {g:g}", ks.GammaExponential(lengthscale=1.0, gamma=g)) for g in (0.5, 1.0, 1.5, 2.0)],
        "rational quadratic": [(f"α = {a:g}", ks.RationalQuadratic(alpha=a)) for a in (0.5, 2.0, 50.0)],
    }
    for (title, members), top, bottom in zip(columns.items(), *axes, strict=True):
        for (label, kernel), colour in zip(members, COLOURS, strict=False):
            top.plot(r[:, 0], kernel.cross(r, np.zeros((1, 1)))[:, 0], color=colour, lw=1.4, label=label)
            bottom.plot(x[:, 0], drawn(kernel, x, 1, 7)[:, 0], color=colour, lw=0.9)
        top.set_title(title, fontsize=10)
        top.legend(fontsize=8, frameon=False)
        top.set_xlabel("distance")
        bottom.set_xlabel("input x")
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
    return fig, "Covariance against distance, and one sample each from the same random numbers."


@shown("fig4_4", "Figure 4.4: compact support")
def compact() -> tuple[Any, str]:
    r = np.linspace(0, 1.2, 121)[:, None]
    x = np.linspace(-2, 2, 401)[:, None]
    fig, (left, right) = panels(2)
    for q, colour in zip((0, 1, 2, 3), COLOURS, strict=True):
        kernel = ks.PiecewisePolynomial(q)
        left.plot(r[:, 0], kernel.cross(r, np.zeros((1, 1)))[:, 0], color=colour, lw=1.4, label=f"q = {q}")
        right.plot(x[:, 0], drawn(kernel, x, 1, 5)[:, 0], color=colour, lw=1.0)
    left.legend(fontsize=8, frameon=False)
    left.set_xlabel("distance")
    right.set_xlabel("input x")
    return fig, "Piecewise polynomials are exactly zero beyond distance one; q is the number of derivatives of a sample."


@shown("fig4_5", "Figure 4.5: infinite networks")
def network() -> tuple[Any, str]:
    x = np.linspace(-4, 4, 161)[:, None]
    fig, (left, right) = panels(2)
    K = ks.NeuralNetwork(lengthscale=0.1, bias=100.0).gram(x)
    mesh = left.pcolormesh(x[:, 0], x[:, 0], K, cmap="cividis", shading="nearest", rasterized=True)
    fig.colorbar(mesh, ax=left)
    left.set_xlabel("x")
    left.set_ylabel("x'")
    for sigma, colour in zip((10.0, 3.0, 1.0), COLOURS, strict=False):
        kernel = ks.NeuralNetwork(lengthscale=1 / sigma, bias=4.0)
        right.plot(x[:, 0], drawn(kernel, x, 1, 11)[:, 0], color=colour, lw=1.2, label=f"σ = {sigma:g}")
    right.legend(fontsize=8, frameon=False)
    right.set_xlabel("input x")
    return (
        fig,
        "The covariance of an infinitely wide network (σ₀ = σ = 10), and samples (σ₀ = 2), which saturate.",
    )


@shown("fig4_6", "Figure 4.6: a length-scale that varies")
def varying() -> tuple[Any, str]:
    x = np.linspace(0, 4, 321)[:, None]
    field = ks.GaussianField([2.0], beta=[-2.3], width=0.6)
    kernel = ks.VaryingLengthscale(field, lengthscale=1.0)
    fig, (left, right) = panels(2)
    left.plot(x[:, 0], np.exp(-2.3 * np.exp(-0.5 * ((x[:, 0] - 2.0) / 0.6) ** 2)), color="black")
    left.set_ylabel("length-scale r(x)")
    for sample, colour in zip(drawn(kernel, x, 3, 2).T, COLOURS, strict=False):
        right.plot(x[:, 0], sample, color=colour, lw=1.2)
    for ax in (left, right):
        ax.set_xlabel("input x")
    return fig, "Gibbs' kernel: three samples, smooth at both ends and rapidly varying in the middle, with unit variance."


@shown("fig4_7", "Figure 4.7: eigenfunctions")
def eigenfunctions() -> tuple[Any, str]:
    x = np.linspace(-1.6, 1.6, 161)
    fig, (left, right) = panels(2)
    system = ks.squared_exponential_eigensystem(lengthscale=(1 / 6) ** 0.5, spread=0.5, count=8)
    rng = np.random.default_rng(0)
    numeric = ks.eigenfunctions(ks.SquaredExponential(lengthscale=(1 / 6) ** 0.5), 0.5 * rng.normal(size=(1000, 1)), 8)
    exact, by_rows = system(x[:, None]), numeric(x[:, None])
    for i, colour in zip((0, 1, 2), COLOURS, strict=False):
        left.plot(x, exact[:, i], color=colour, lw=1.4, label=f"{i} crossings")
        left.plot(x, by_rows[:, i] * np.sign(by_rows[:, i] @ exact[:, i]), color=colour, lw=1, ls="--")
    left.set_xlabel("input x")
    left.legend(fontsize=8, frameon=False)
    right.semilogy(np.arange(8), system.eigenvalues, "o", color=COLOURS[0], label="exact")
    right.semilogy(np.arange(8), numeric.eigenvalues, "+", color=COLOURS[1], ms=9, label="from 1,000 rows")
    right.set_xlabel("number")
    right.set_ylabel("eigenvalue")
    right.legend(fontsize=8, frameon=False)
    return fig, "The squared exponential under a Gaussian density: exact eigenfunctions (solid) and Nyström's (dashed)."


@shown("fig5_1", "Figure 5.1: distances")
def distances() -> tuple[Any, str]:
    side = np.linspace(-2, 2, 45)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), -1).reshape(-1, 2)
    members = {
        "ℓ = 1": ks.SquaredExponential(),
        "ℓ = (1, 3)": ks.SquaredExponential(lengthscale=[1.0, 3.0]),
        "Λ = (1, −1), ℓ = (6, 6)": ks.FactorMetric(ks.SquaredExponential(), loadings=[[1.0], [-1.0]], lengthscale=[6.0, 6.0]),
    }
    fig, axes = panels(3, 9.0, 2.9)
    for ax, (title, kernel) in zip(axes, members.items(), strict=True):
        z = drawn(kernel, grid, 1, 6)[:, 0].reshape(45, 45)
        ax.pcolormesh(side, side, z.T, cmap="cividis", shading="nearest", rasterized=True)
        ax.set_title(title, fontsize=9)
        ax.set_aspect("equal")
        ax.set_xlabel("x₁")
        ax.set_ylabel("x₂")
    return fig, "One sample each: isotropic, slower along one column, and varying along one direction only."


@shown("fig5_2", "Figure 5.2: Occam's razor")
def razor() -> tuple[Any, str]:
    X = np.array([[0.0], [1.0]])
    side = np.linspace(-4, 4, 121)
    fig, axes = panels(3, 9.0, 2.9)
    for ax, (title, length, variance) in zip(
        axes, (("simple", 10.0, 1.0), ("between", 1.0, 1.0), ("flexible", 0.1, 4.0)), strict=True
    ):
        C = model_of(length, variance, 0.05).kernel.gram(X) + 0.05 * np.eye(2)
        z = np.stack(np.meshgrid(side, side, indexing="ij"), -1)
        density = np.exp(-0.5 * np.einsum("ijk,kl,ijl->ij", z, np.linalg.inv(C), z)) / (2 * np.pi * np.linalg.det(C) ** 0.5)
        ax.pcolormesh(side, side, density.T, cmap="cividis", shading="nearest", rasterized=True)
        ax.set_title(f"{title}: at (1, −1) {density[75, 45]:.3f}", fontsize=9)
        ax.plot([1], [-1], "+", color="white", ms=9, mew=1.6)
        ax.set_aspect("equal")
        ax.set_xlabel("y(0)")
        ax.set_ylabel("y(1)")
    return (
        fig,
        "The evidence of three models for every data set of two values; each integrates to one.",
    )


@shown("fig5_3", "Figures 5.3 and 5.4: fit and complexity")
def fit_and_complexity() -> tuple[Any, str]:
    X, y = noisy()
    scales = np.geomspace(0.1, 10, 60)
    fig, (left, right) = panels(2, 8.5, 2.9)
    K = [model_of(s, 1.0, 0.01).kernel.gram(X) + 0.01 * np.eye(len(X)) for s in scales]
    data_fit = np.array([-0.5 * y @ np.linalg.solve(k, y) for k in K])
    penalty = np.array([-0.5 * np.linalg.slogdet(k)[1] for k in K])
    total = data_fit + penalty - len(X) / 2 * np.log(2 * np.pi)
    for values, label, colour in (
        (data_fit, "data fit", COLOURS[0]),
        (penalty, "minus complexity", COLOURS[1]),
        (total, "log evidence", "black"),
    ):
        left.semilogx(scales, values, color=colour, label=label)
    left.set_ylim(-100, 60)
    left.legend(fontsize=8, frameon=False)
    left.set_xlabel("length-scale")
    noises = np.geomspace(0.03, 3, 45)
    some = np.geomspace(0.1, 30, 50)
    surface = np.array([[log_evidence(model_of(a, 1.0, b**2), Data(X, y)) for a in some] for b in noises])
    top = surface.max()
    right.contour(some, noises, surface, levels=top - np.arange(0.5, 40, 2)[::-1], cmap="cividis", linewidths=0.9)
    i, j = np.unravel_index(surface.argmax(), surface.shape)
    right.plot(some[j], noises[i], "+", color=COLOURS[1], ms=10, mew=1.6)
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel("length-scale")
    right.set_ylabel("noise deviation")
    return (
        fig,
        "The evidence is fit minus complexity; contours two nats apart, with a ridge of short scales and one of much noise.",
    )


@shown("fig5_5", "Figure 5.5: two optima")
def two_optima() -> tuple[Any, str]:
    x = np.linspace(-6, 6, 201)[:, None]
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X = np.sort(rng.uniform(-5, 5, 7))[:, None]
        y = drawn(ks.SquaredExponential(), X, 1, seed)[:, 0] + 0.1**0.5 * rng.normal(size=7)
        ends = []
        for length, noise in ((1.0, 0.05), (8.0, 0.8)):
            start = Model(GP(fixed(1.0) * ks.SquaredExponential(lengthscale=length)), likelihood=Gaussian(noise))
            ends.append(learn(start, Data(X, y), coarse=False))
        a, b = (float(e.kernel.kernel.lengthscale) for e in ends)
        if b > 3 * a and 0.2 < ends[0].value - ends[1].value < 1.0 and b < 40 and a > 0.4:
            break
    fig, axes = panels(2)
    for ax, end in zip(axes, ends, strict=True):
        f = condition(end.model, Data(X, y)).predict(x).f
        band(ax, x[:, 0], f.mean, np.sqrt(f.variance))
        ax.plot(X[:, 0], y, "+", color=COLOURS[0], ms=9, mew=1.5)
        length, noise = float(end.kernel.kernel.lengthscale), float(end.likelihood.variance)
        ax.set_title(f"ℓ = {length:.2g}, noise variance {noise:.2g}: {end.value:.2f}", fontsize=9)
        ax.set_xlabel("input x")
    return (
        fig,
        "Two explanations of seven values: a rapidly varying function with little noise, and a slow one with much noise.",
    )


@shown("fig5_9", "Figures 5.9 and 5.10: a step")
def step() -> tuple[Any, str]:
    X, y = step_data()
    x = np.linspace(-1.3, 1.3, 261)[:, None]
    fig, axes = panels(3, 9.5, 2.6)
    text = []
    for ax, (title, model) in zip(axes, step_models().items(), strict=True):
        fit = learn(model, Data(X, y), n_restarts=4)
        f = condition(fit.model, Data(X, y)).predict(x).f
        band(ax, x[:, 0], f.mean, np.sqrt(f.variance))
        ax.plot(X[:, 0], y, "+", color=COLOURS[0], ms=4)
        ax.set_title(f"{title}: {fit.value:.1f}", fontsize=9)
        ax.set_xlabel("input x")
        text.append(fit.value)
    return fig, "A step with noise under three kernels, with their log evidences (data of the book: −37.7, −26.1 and 50.2)."


def step_data(seed: int = 0, n: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Return a step of height two with noise of standard deviation 0.1."""
    x = np.linspace(-1, 1, n)[:, None]
    return x, np.sign(x[:, 0]) + 0.1 * np.random.default_rng(seed).normal(size=n)


def step_models() -> dict[str, Model]:
    """Return fits of one and two squared exponentials, and of the network kernel with bounded steepness."""
    from covary.parameters import bounded

    one = 1.0 * ks.SquaredExponential(lengthscale=1.0)
    two = 1.0 * ks.SquaredExponential(lengthscale=1.0) + 0.5 * ks.SquaredExponential(lengthscale=0.1)
    net = 1.0 * ks.NeuralNetwork(lengthscale=bounded(0.1, 1e-4, 100.0), bias=1.0)
    return {
        name: Model(GP(kernel), likelihood=Gaussian(0.1))
        for name, kernel in (("squared exponential", one), ("two of them", two), ("neural network", net))
    }


def main() -> None:
    """Draw all figures and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--only", action="append", default=[], help="draw only this figure, such as fig2_5 (the page is not written)"
    )
    options = parser.parse_args()
    lines = [
        "# Figures of the book",
        "",
        "Rasmussen & Williams (2006), chapters 2, 4 and 5, drawn by covary: `python docs/gallery/make_book.py`. If the",
        "book does not print the data, they are generated from the same distribution: numbers differ, but shapes do not.",
    ]
    for name, (title, function) in FIGURES.items():
        if options.only and name not in options.only:
            continue
        fig, text = function()
        fig.savefig(HERE / f"{name}.png", dpi=90)
        plt.close(fig)
        lines += ["", f"## {title}", "", f"![{title}]({name}.png)", "", text]
    if not options.only:
        (HERE / "book.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
