"""Write the kernel gallery: ``python docs/gallery/make_kernels.py`` writes kernels.md and its pictures.

``--text`` prints the page without drawing; a test compares it with the file.
"""

from __future__ import annotations

import argparse
import inspect
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from covary import kernels as ks
from covary._module import STATIC

HERE = Path(__file__).resolve().parent
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#999999"  # Okabe & Ito: distinguishable by colour-blind readers


@dataclass(frozen=True)
class Entry:
    """A kernel of the page: an instance, the range of the plot, and the points x' of its left panel."""

    kernel: Any
    low: float = 0.0
    high: float = 6.0
    places: tuple[float, ...] = (3.0,)
    drawn: str = "line"  # a curve; "map": two columns, a sample as a picture; "codes": levels of a category
    note: str = ""

    @property
    def name(self) -> str:
        """Name of the class."""
        return type(self.kernel).__name__


@dataclass(frozen=True)
class Family:
    """A section of the page with several kernels."""

    title: str
    text: str
    entries: tuple[Entry, ...]


CHOICE = [
    ("measurements without special structure", "`Matern52`", "one length-scale per column, as `GPRegressor()` does"),
    ("a very smooth function without noise", "`SquaredExponential`, `RationalQuadratic`", "the latter mixes length-scales"),
    (
        "rough series: prices, turbulence",
        "`Matern12`, `Matern32`, `Matern`, `GammaExponential`",
        "`Matern` can learn the roughness",
    ),
    ("periodic data", "`Periodic`, `Periodic() * Matern52()`", "in the product, the pattern may change slowly"),
    ("several unknown periods", "`SpectralMixture`, `Cosine`", "start the means at peaks of a periodogram"),
    ("a continuing trend", "`Linear`, `Polynomial`, `IntegratedWiener`", "or a mean function, or basis functions"),
    ("a random walk", "`Wiener`, `BrownianBridge`, `FractionalBrownian`", "fixed at the start, or at both ends"),
    ("smoothness that varies", "`VaryingLengthscale`, `Warped`, `PaciorekSchervish`", "see also `VaryingAmplitude`"),
    ("a change of regime", "`ChangePoint`", "learns the time and the rate"),
    ("steps and plateaus", "`NeuralNetwork`, `TanhNetwork`, `ArcCosine`", "infinitely wide networks"),
    ("many columns with additive effects", "`Additive`", "sums over columns, pairs, ...; or `k.on(0) + k.on(1)`"),
    ("combinations of columns", "`FactorMetric`", "learns directions"),
    ("categories", "`Hamming`, `Exchangeable`, `Categories`", "on the column of codes: `.on(2)`"),
    ("positions on the globe", "`GreatCircle`, `OnSphere`", "latitude and longitude in degrees"),
    ("known symmetries", "`Invariant`", "averages over the group"),
    ("no correlation beyond some distance", "`PiecewisePolynomial`", "sparse matrices"),
]


def short(x: Any) -> Any:
    """Return a length-scale that is short in the middle; used by two entries."""
    return 0.25 + jnp.abs(x[:, 0] - 3.0) / 2


def waves(frequency: Any) -> Any:
    """Return a spectral density with a band of frequencies."""
    return jnp.exp(-0.5 * ((frequency - 0.6) / 0.15) ** 2) / (0.15 * (2 * jnp.pi) ** 0.5)


def hinges(x: Any) -> Any:
    """Return three basis functions."""
    return jnp.stack([jnp.ones_like(x[:, 0]), x[:, 0] - 3.0, jnp.maximum(x[:, 0] - 3.0, 0.0)], axis=1)


def fold(x: Any) -> Any:
    """Map the inputs."""
    return jnp.log1p(x)


def families() -> tuple[Family, ...]:
    """Return every kernel of the catalogue; kernels without a group come last."""
    grouped = {entry.name for family in groups() for entry in family.entries}
    others = tuple(Entry(kernel()) for name, kernel in ks.CATALOGUE.items() if name not in grouped)
    return (*groups(), Family("Further kernels", "Kernels at their default parameters.", others)) if others else groups()


def groups() -> tuple[Family, ...]:
    """Return all groups of kernels, at parameters that show their properties."""
    return (stationary(), periodic(), trends(), varying(), networks(), several_columns(), other_inputs())


def stationary() -> Family:
    """Return the group of stationary kernels."""
    return Family(
        "Stationary: smooth and rough",
        "Functions of the distance between two points.",
        (
            Entry(ks.SquaredExponential()),
            Entry(ks.Matern52()),
            Entry(ks.Matern32()),
            Entry(ks.Matern12(), note="Also called `OrnsteinUhlenbeck`."),
            Entry(ks.MaternHalfInteger(3)),
            Entry(ks.Matern(nu=0.9)),
            Entry(ks.RationalQuadratic(alpha=0.3)),
            Entry(ks.GammaExponential(gamma=1.5)),
            Entry(ks.SquaredExponentialMixture((0.2, 2.0), weights=(0.3, 0.7))),
            Entry(ks.PiecewisePolynomial(2, lengthscale=2.0)),
            Entry(ks.Bessel(lengthscale=0.3, order=0.5)),
        ),
    )


def periodic() -> Family:
    """Return the group of periodic kernels, and kernels given by their spectrum."""
    return Family(
        "Periods and spectra",
        "Periodic functions, and functions described by their spectrum.",
        (
            Entry(ks.Periodic(period=2.0)),
            Entry(ks.Cosine(period=2.0)),
            Entry(ks.Periodised(ks.Matern32(lengthscale=0.3), period=2.0)),
            Entry(ks.SpectralMixture(weights=(0.6, 0.4), means=(0.4, 1.2), scales=(0.05, 0.1))),
            Entry(ks.Spectral(waves, highest=1.5)),
        ),
    )


def trends() -> Family:
    """Return the group of trends and random walks."""
    return Family(
        "Trends and random walks",
        "Non-stationary kernels.",
        (
            Entry(ks.Constant()),
            Entry(ks.Linear(), low=-3.0, high=3.0, places=(1.5,)),
            Entry(ks.Polynomial(3, bias=0.5), low=-1.5, high=1.5, places=(1.0,)),
            Entry(ks.Wiener(), places=(2.0, 4.0)),
            Entry(ks.IntegratedWiener(), places=(2.0, 4.0)),
            Entry(ks.BrownianBridge(), low=0.0, high=1.0, places=(0.3, 0.7)),
            Entry(ks.FractionalBrownian(0.8), places=(2.0, 4.0)),
        ),
    )


def varying() -> Family:
    """Return the group of kernels whose properties vary over the inputs."""
    middle = ks.GaussianField([3.0], beta=[-1.8], width=0.8)
    return Family(
        "Varying over the inputs",
        "Stationary kernels made to vary over the input space.",
        (
            Entry(ks.VaryingLengthscale(middle), places=(1.0, 3.0)),
            Entry(ks.PaciorekSchervish(ks.Matern32(), middle), places=(1.0, 3.0)),
            Entry(ks.VaryingAmplitude(ks.Matern52(), ks.GaussianField([3.0], beta=[1.2], width=1.0)), places=(1.0, 3.0)),
            Entry(ks.ModulatedSquaredExponential(0.5, spread=1.0), low=-4.0, high=4.0, places=(0.0, 2.0)),
            Entry(
                ks.ChangePoint(ks.Matern12(lengthscale=0.5), ks.Matern52(lengthscale=2.0), at=3.0, width=0.2),
                places=(2.0, 4.0),
            ),
            Entry(ks.Warped(ks.Matern52(), centres=[1.0, 3.0, 5.0], width=0.8, beta=[-1.0, 1.5, -1.0]), places=(1.0, 3.0)),
            Entry(ks.Mapped(ks.SquaredExponential(lengthscale=0.3), fold), places=(0.5, 4.0)),
        ),
    )


def networks() -> Family:
    """Return the group of networks and basis functions."""
    return Family(
        "Networks and basis functions",
        "Infinitely wide networks, and finitely many functions with Gaussian weights.",
        (
            Entry(ks.NeuralNetwork(lengthscale=0.3), low=-3.0, high=3.0, places=(0.5,)),
            Entry(ks.TanhNetwork(lengthscale=0.3), low=-3.0, high=3.0, places=(0.5,)),
            Entry(ks.ArcCosine(1), low=-3.0, high=3.0, places=(1.0,)),
            Entry(ks.GaussianBasis(np.linspace(0.0, 6.0, 7), width=0.6), places=(3.0,)),
            Entry(ks.BasisFunctions(hinges), places=(4.0,)),
        ),
    )


def several_columns() -> Family:
    """Return the group of kernels of several columns."""
    mirror = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]]
    return Family(
        "Several columns",
        "Interactions of columns.",
        (
            Entry(
                ks.FactorMetric(ks.SquaredExponential(), loadings=[[1.5], [-1.5]], lengthscale=[6.0, 6.0]),
                low=-2.0,
                high=2.0,
                places=(0.0,),
                drawn="map",
            ),
            Entry(ks.Additive(ks.SquaredExponential(), orders=1), low=-2.0, high=2.0, places=(0.0,), drawn="map"),
            Entry(
                ks.Invariant(ks.SquaredExponential(lengthscale=0.7), group=mirror),
                low=-2.0,
                high=2.0,
                places=(1.0, -1.0),
                drawn="map",
                note="This example is invariant under the exchange of the two columns.",
            ),
            Entry(
                ks.Columns(ks.Matern52(), columns=[0]),
                low=-2.0,
                high=2.0,
                places=(0.0,),
                drawn="map",
                note="Written `Matern52().on(0)`.",
            ),
        ),
    )


def other_inputs() -> Family:
    """Return the group of kernels of categories, of positions on the globe, and the rest."""
    return Family(
        "Categories, the globe, and the rest",
        "Codes 0, 1, 2, ...; latitude and longitude in degrees.",
        (
            Entry(ks.Hamming(), low=0, high=5, drawn="codes"),
            Entry(ks.Exchangeable(0.4), low=0, high=5, drawn="codes"),
            Entry(
                ks.Categories(6, rank=2, factor=[[1.0, 0.0], [0.9, 0.2], [0.8, 0.4], [0.0, 1.0], [-0.2, 0.9], [-0.9, 0.1]]),
                low=0,
                high=5,
                drawn="codes",
            ),
            Entry(ks.GreatCircle(), low=-85.0, high=85.0, places=(40.0, 0.0), drawn="map"),
            Entry(ks.SinePower(0.7), low=-85.0, high=85.0, places=(40.0, 0.0), drawn="map"),
            Entry(ks.OnSphere(ks.Matern52(lengthscale=0.4)), low=-85.0, high=85.0, places=(40.0, 0.0), drawn="map"),
            Entry(ks.Normalised(ks.Linear() + 1.0), low=-3.0, high=3.0, places=(1.5,)),
        ),
    )


# text ---------------------------------------------------------------------------------------------------------------------


def summary(kernel: Any) -> tuple[str, list[str]]:
    """Return the first line of the docstring, and its formulas."""
    text = inspect.getdoc(type(kernel)) or ""
    first = re.sub(r":math:`([^`]*)`", r"$\1$", text.split("\n", 1)[0])
    body = text.split("Parameters\n---")[0].split("References\n---")[0]
    formulas, lines, i = [], body.split("\n"), 0
    while i < len(lines):
        if lines[i].strip().startswith(".. math::"):
            part = [lines[i].split(".. math::", 1)[1]]
            i += 1
            while i < len(lines) and (not lines[i].strip() or lines[i].startswith(" ")):
                part.append(lines[i])
                i += 1
            formulas.append(re.sub(r"\s+", " ", " ".join(part)).strip())
        else:
            i += 1
    return first, [f for f in formulas if f]


def parameters_of(kernel: Any) -> str:
    """Return the names of the learned parameters."""
    names = [f.name for f in fields(kernel) if f.metadata.get("set") is not None and not f.metadata.get(STATIC)]
    return ", ".join(f"`{name}`" for name in names) or "none"


def smoothness(value: float) -> str:
    """Describe the number of derivatives of the process."""
    return "any number" if value == np.inf else {0: "none", 1: "one", 2: "two", 3: "three"}.get(value, f"{value:g}")


def page() -> str:
    """Return the text of the page."""
    lines = [
        "# Gallery of kernels",
        "",
        "Kernels are prior covariances of the function. The left panel of every picture shows k(x, x') against x for",
        "the marked x'; the right panel shows samples. Kernels have unit variance; multiply a kernel by a",
        "number to scale it. Kernels can be added, multiplied, and restricted to columns, as in `2.0 * Matern52().on(0) +",
        "Periodic(period=1.0).on(1)`, in Python and as text in the command.",
        "This page is generated by `docs/gallery/make_kernels.py`.",
        "",
        "## Choosing a kernel",
        "",
        "| data | kernels | |",
        "|---|---|---|",
        *(f"| {a} | {b} | {c} |" for a, b, c in CHOICE),
        "",
        "## Properties",
        "",
        "*Derivatives*: number of mean-square derivatives of the process. *Columns*: maximum number of columns. *Isotropic*:",
        "with a single length-scale.",
        "",
        "| kernel | stationary | isotropic | derivatives | columns | learns |",
        "|---|---|---|---|---|---|",
    ]
    for family in families():
        for entry in family.entries:
            t = entry.kernel.traits
            cells = ["yes" if t.stationary else "", "yes" if t.isotropic else "", smoothness(t.smoothness)]
            most = "any" if t.max_columns is None else str(t.max_columns)
            learned = parameters_of(entry.kernel)
            lines.append(f"| [{entry.name}](#{entry.name.lower()}) | " + " | ".join([*cells, most, learned]) + " |")
    for family in families():
        lines += ["", f"## {family.title}", "", family.text]
        for entry in family.entries:
            first, formulas = summary(entry.kernel)
            shown = repr(entry.kernel)
            lines += ["", f"### {entry.name}", "", first, ""]
            for formula in formulas[:1]:
                lines += [f"$${formula}$$", ""]
            lines += [f"![{entry.name}: covariance and samples]({entry.name}.png)"]
            if len(shown) < 110:
                lines += ["", f"`{shown}`"]
            if entry.note:
                lines += ["", entry.note]
    return "\n".join(lines) + "\n"


# pictures -----------------------------------------------------------------------------------------------------------------


def samples(kernel: Any, X: np.ndarray, count: int, seed: int = 4) -> np.ndarray:
    """Return samples at the rows of X, computed from the eigenvectors of K, which needs no jitter."""
    values, vectors = np.linalg.eigh(kernel.gram(X))
    z = np.random.default_rng(seed).normal(size=(len(X), count))
    return vectors @ (np.sqrt(np.maximum(values, 0))[:, None] * z)


def draw(entry: Entry, path: Path) -> None:
    """Draw one picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(7.0, 1.9), width_ratios=(2, 3), layout="constrained")
    if entry.drawn == "line":
        x = np.linspace(entry.low, entry.high, 241)[:, None]
        for place, colour in zip(entry.places, (BLUE, ORANGE, GREEN), strict=False):
            left.plot(x[:, 0], entry.kernel.cross(x, np.array([[place]]))[:, 0], color=colour, lw=1.6)
            left.axvline(place, color=GREY, lw=0.6, ls=":")
        for sample, colour in zip(samples(entry.kernel, x, 3).T, (BLUE, ORANGE, GREEN), strict=True):
            right.plot(x[:, 0], sample, color=colour, lw=1.2)
        left.axhline(0, color=GREY, lw=0.5)
        left.set_xlabel("x")
        left.set_ylabel("k(x, x')")
        right.set_xlabel("x")
        right.set_ylabel("samples")
    elif entry.drawn == "map":
        side = 41
        a, b = (np.linspace(entry.low, entry.high, side) for _ in range(2))
        grid = np.stack(np.meshgrid(a, b, indexing="ij"), -1).reshape(-1, 2)
        centre = np.array([entry.places[:2] if len(entry.places) > 1 else (entry.places[0],) * 2])
        for ax, z in ((left, entry.kernel.cross(grid, centre)[:, 0]), (right, samples(entry.kernel, grid, 1)[:, 0])):
            drawn = ax.pcolormesh(a, b, z.reshape(side, side).T, cmap="cividis", shading="nearest", rasterized=True)
            fig.colorbar(drawn, ax=ax, shrink=0.9)
            ax.set_xlabel("column 0")
            ax.set_ylabel("column 1")
        left.set_title("k(x, x')", fontsize=9)
        right.set_title("a sample", fontsize=9)
    else:
        codes = np.arange(entry.low, entry.high + 1)[:, None]
        drawn = left.imshow(entry.kernel.gram(codes), cmap="cividis")
        fig.colorbar(drawn, ax=left)
        left.set_xlabel("level")
        left.set_ylabel("level")
        for sample, colour, marker in zip(samples(entry.kernel, codes, 3).T, (BLUE, ORANGE, GREEN), "os^", strict=True):
            right.plot(codes[:, 0], sample, marker, color=colour, ms=5)
        right.set_xlabel("level")
        right.set_ylabel("samples")
    for ax in (left, right):
        ax.tick_params(labelsize=8)
        if entry.drawn != "map":
            ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(path, dpi=90)
    plt.close(fig)


def main() -> None:
    """Write the page and the pictures, or print the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--text", action="store_true", help="print the page, draw nothing")
    parser.add_argument("--only", action="append", default=[], help="draw only this kernel")
    options = parser.parse_args()
    if options.text:
        print(page(), end="")
        return
    for family in families():
        for entry in family.entries:
            if not options.only or entry.name in options.only:
                draw(entry, HERE / f"{entry.name}.png")
    (HERE / "kernels.md").write_text(page())


if __name__ == "__main__":
    main()
