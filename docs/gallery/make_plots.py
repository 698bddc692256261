"""Write the plot gallery: ``python docs/gallery/make_plots.py`` runs the code of the page and writes plots.md.

``--text`` prints the page without running the code; a test compares it with the file.
"""

from __future__ import annotations

import argparse
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Entry:
    """A picture: its file, heading, description, and the code that ends with its axes."""

    name: str
    title: str
    text: str
    code: str


START = """\
import numpy as np
from covary import GPClassifier, GPRegressor, datasets, plots
"""

MODELS = {
    "co2": """\
co2 = datasets.load_co2()
trend = "2500 * SquaredExponential(lengthscale=50.0)"
season = "4 * SquaredExponential(lengthscale=100.0) * Periodic(lengthscale=1.0, period=fixed(1.0))"
wiggles = "0.5 * RationalQuadratic(lengthscale=1.0, alpha=1.0)"
air = GPRegressor(f"{trend} + {season} + {wiggles}", n_restarts=0, random_state=0)
air.fit(co2[["decimal_year"]][::2], co2["co2_ppm"][::2])
""",
    "friedman": """\
friedman = datasets.make_friedman(n=150)
surface = GPRegressor(random_state=0).fit(friedman.drop(columns="y"), friedman["y"])
""",
    "iris": """\
iris = datasets.load_iris()
flowers = GPClassifier(random_state=0).fit(iris[["petal_length", "petal_width"]], iris["species"])
""",
    "cancer": """\
cells = datasets.load_breast_cancer().sample(200, random_state=0)
tumours = GPClassifier(random_state=0).fit(cells[["radius", "texture", "smoothness"]], cells["diagnosis"])
""",
    "hills": """\
fault = datasets.load_jacksboro().head(250)
terrain = GPRegressor(random_state=0).fit(fault[["longitude", "latitude"]], fault["elevation"])
""",
    "coal": """\
coal = datasets.load_coal()
mines = GPRegressor(likelihood="poisson", random_state=0).fit(coal[["year"]], coal["disasters"])
""",
    "optima": """\
few = datasets.make_two_optima()
doubt = GPRegressor("1.0 * SquaredExponential(lengthscale=1.0)", mean="zero", random_state=0).fit(few[["x"]], few["y"])
""",
}


@dataclass(frozen=True)
class Part:
    """A section of the page with several pictures."""

    title: str
    text: str
    entries: tuple[Entry, ...]


PARTS = (
    Part(
        "The fit",
        "Predictions of the function and of new observations.",
        (
            Entry(
                "plot_fit",
                "One input",
                "Mean, 95 % bands of the function and of new observations, draws, and the data. In this "
                "example, counts, the inner band is that of the rate.",
                'ax = plots.plot_fit(mines.posterior_, names=["year"], samples=3)',
            ),
            Entry(
                "plot_maps",
                "Two inputs",
                "A map of the mean and one of the standard deviation.",
                'ax = plots.plot_fit(terrain.posterior_, names=["longitude", "latitude"])',
            ),
            Entry(
                "plot_classes",
                "Classes",
                "The most probable class, in paler colours where it is less probable; for two classes, the "
                "probability with contours.",
                "ax = plots.plot_classes(flowers)",
            ),
            Entry(
                "plot_components",
                "Components",
                "Each additive term of the kernel minus its mean, with its fraction of the variance.",
                'ax = plots.plot_components(air, names=["year"])',
            ),
        ),
    ),
    Part(
        "Relevance and effects",
        "Ten inputs, of which five are relevant: y = 10 sin(π x1 x2) + 20 (x3 − ½)² + 10 x4 + 5 x5 + noise (Friedman 1991).",
        (
            Entry(
                "plot_relevance",
                "Relevance of inputs",
                "The fraction of the function's variation that involves each column (Sobol's total index), for any kernel. The "
                "error bars are posterior standard deviations, from joint draws of the function.",
                "ax = plots.plot_relevance(surface)",
            ),
            Entry(
                "plot_dependence",
                "Partial dependence",
                "The function along one column, averaged over the rows of the data. The band accounts for the covariances "
                "between all rows.",
                'ax = plots.plot_dependence(surface, ["x1", "x2", "x3", "x4", "x5", "x6"])',
            ),
            Entry(
                "plot_dependence_classes",
                "Partial dependence of a probability",
                "For two classes, the probability of the second class; for more classes, the probability of each.",
                "ax = plots.plot_dependence(tumours)",
            ),
        ),
    ),
    Part(
        "Should I trust it?",
        "Uses leave-one-out predictions, without refitting, or your own arrays: `plots.plot_predicted(y, mean, std)`, "
        "`plots.plot_residuals(y, mean, std)`, `plots.plot_calibration(pit=...)`, `plots.plot_reliability(y, p)`.",
        (
            Entry(
                "plot_predicted",
                "Predicted against observed values",
                "The error bars are 95 % intervals; those that do not contain the observation are orange.",
                "ax = plots.plot_predicted(surface)",
            ),
            Entry(
                "plot_residuals",
                "Residuals",
                "Plotted against the predictions, a column, or any other values. The running mean shows structure that the "
                "model has missed.",
                'ax = plots.plot_residuals(surface, against=friedman["x4"], name="x4")',
            ),
            Entry(
                "plot_calibration",
                "Calibration",
                "For a calibrated model the PIT histogram is flat and the coverage curve is the diagonal; grey is the range of "
                "sampling variation. `plot_pit` and `plot_coverage` draw the panels separately.",
                "ax = plots.plot_calibration(surface)",
            ),
            Entry(
                "plot_reliability",
                "Calibration of classes",
                "Observed frequency against predicted probability of a class (`plot_reliability`), and the "
                "probabilities of the "
                "true classes.",
                "ax = plots.plot_calibration(tumours)",
            ),
        ),
    ),
    Part(
        "Learning",
        "The search and its objective.",
        (
            Entry(
                "plot_history",
                "History",
                "Difference of every evaluation from the best of its level; dotted lines are further starts.",
                "ax = plots.plot_history(surface)",
            ),
            Entry(
                "plot_restarts",
                "Restarts",
                "The optimum found from every start, and the alternative model.",
                "ax = plots.plot_restarts(surface)",
            ),
            Entry(
                "plot_evidence",
                "Evidence over two hyperparameters",
                "Two explanations of twenty noisy observations: a rapidly varying function with little "
                "noise, or a slowly varying one with "
                "much noise.",
                'ax = plots.plot_evidence(doubt, ("kernel.lengthscale", "likelihood.variance"), '
                "spans=((0.05, 20), (0.01, 1)), points=31)",
            ),
        ),
    ),
    Part(
        "Kernels",
        "Prior samples and covariances. [All kernels](kernels.md).",
        (
            Entry(
                "plot_prior",
                "Prior samples",
                "Functions drawn from a kernel, with a 95 % band.",
                'ax = plots.plot_prior("SquaredExponential(lengthscale=20.0) * Periodic(period=4.0)", over=(0, 20))',
            ),
            Entry(
                "plot_kernel",
                "Kernel and spectrum",
                "Covariance against distance, and the spectral density (`plot_spectrum` draws it alone).",
                'ax = plots.plot_kernel("SpectralMixture(weights=[0.6, 0.4], means=[0.4, 1.2], scales=[0.05, 0.1])", over=12)',
            ),
            Entry(
                "plot_gram",
                "Covariance matrix",
                "Between the rows of a table; for a posterior, the posterior covariance.",
                "rows = np.linspace(0, 10, 120)[:, None]\n"
                'ax = plots.plot_gram("SquaredExponential(lengthscale=5.0) * Periodic(period=2.0)", rows)',
            ),
        ),
    ),
)


def entries() -> list[Entry]:
    """Return all pictures, in the order of the page."""
    return [entry for part in PARTS for entry in part.entries]


def page() -> str:
    """Return the text of the page."""
    lines = [
        "# Gallery of plots",
        "",
        "The functions take a fitted estimator or a posterior: `plots.plot_...(model, ax=None)` draws on the given axes, or on",
        "new ones, and returns them; none of them fits a model. Colours are distinguishable by colour-blind readers. Inside",
        "`plots.theme()` plots have a transparent background for light and dark pages; "
        "`plots.svg(figure, title=...)` returns SVG.",
        "This page is generated by `docs/gallery/make_plots.py`, which runs the code shown.",
        "",
        "```python",
        START.rstrip(),
        *(f"\n{code.rstrip()}" for code in MODELS.values()),
        "```",
    ]
    for part in PARTS:
        lines += ["", f"## {part.title}", "", part.text]
        for entry in part.entries:
            shown = f"![{entry.title}]({entry.name}.png)"
            lines += ["", f"### {entry.title}", "", entry.text, "", "```python", entry.code, "```", "", shown]
    return "\n".join(lines) + "\n"


def namespace(codes: Any = None) -> dict[str, Any]:
    """Fit the models, and return the names that the code of the page uses."""
    space: dict[str, Any] = {}
    exec(START, space)
    for code in MODELS.values() if codes is None else codes:
        exec(code, space)
    return space


def draw(entry: Entry, space: dict[str, Any]) -> Any:
    """Run the code of one entry and return its figure."""
    import numpy as np

    exec(entry.code, space)
    return np.ravel(np.asarray(space["ax"], dtype=object))[0].figure


def write(figure: Any, path: Path) -> None:
    """Save a small PNG with 256 colours."""
    from PIL import Image

    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=90)
    Image.open(out).convert("RGB").quantize(256, kmeans=2, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> None:
    """Write the page and the pictures, or print the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--text", action="store_true", help="print the page, draw nothing")
    parser.add_argument("--only", action="append", default=[], help="draw only this picture (the page is not written)")
    options = parser.parse_args()
    if options.text:
        print(page(), end="")
        return
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    space = namespace()
    for entry in entries():
        if not options.only or entry.name in options.only:
            figure = draw(entry, space)
            write(figure, HERE / f"{entry.name}.png")
            plt.close(figure)
    if not options.only:
        (HERE / "plots.md").write_text(page())


if __name__ == "__main__":
    main()
