"""The cost of every kernel's matrix and of its arithmetic: ``python -m benchmarks.kernel_costs --out docs/benchmarks``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Others, interleaved
from benchmarks.report import Bar, Report, Table, write

LIMIT = 3.0
TEXT = """\
For every kernel, the function evaluations that its formula needs for one entry of the matrix are counted by hand. The time of
one evaluation is measured in the same run and the same tiles, with test kernels that evaluate one function nine times or once
(the difference, divided by eight). The distance is the test kernel without any function. *predicted* is the sum of these
times. *measured* is the time to compute the lower triangle of the matrix in a buffer, as inside a fit. The criterion refers to
their ratio. There is one input column unless the kernel needs two; times are the best of several repeats."""

Counts = dict[str, float]


def cases() -> list[tuple[str, Any, int, Counts]]:
    """Return name, kernel, number of columns, and operations per entry."""
    import jax.numpy as jnp

    from covary import kernels as ks
    from covary.kernels.isotropic import _bessel_pieces
    from covary.kernels.matern import NODES, OCTAVES, PER_OCTAVE, SERIES

    def waves(w: Any) -> Any:
        return jnp.exp(-0.5 * (w / 0.5) ** 2)

    def fold(x: Any) -> Any:
        return jnp.abs(x - 3.0)

    def hinges(x: Any) -> Any:
        return jnp.maximum(x - jnp.arange(6.0)[None, :], 0.0)

    middle = ks.GaussianField([3.0], beta=[-1.2], width=1.0)
    mirror = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]]
    _, series, hankel = _bessel_pieces(0.5)
    exp, matern, both = {"exp": 1.0}, {"sqrt": 1.0, "exp": 1.0}, {"sqrt": 2.0, "exp": 2.0, "fma": 6.0}
    general = {"log": 1, "exp": PER_OCTAVE + 2, "fma": 2 * OCTAVES * PER_OCTAVE + 2 * SERIES}
    bessel = {"fma": 2 * len(series) + len(hankel), "sqrt": 1, "sin": 2, "log": 1, "exp": 1}
    return [
        ("Constant", ks.Constant(), 1, {}),
        ("Linear", ks.Linear(), 1, {}),
        ("Polynomial, degree 3", ks.Polynomial(3, bias=0.5), 1, {"fma": 3}),
        ("SquaredExponential", ks.SquaredExponential(), 1, exp),
        ("Matern12", ks.Matern12(), 1, matern),
        ("Matern32", ks.Matern32(), 1, {**matern, "fma": 1}),
        ("Matern52", ks.Matern52(), 1, {**matern, "fma": 2}),
        ("MaternHalfInteger, order 3", ks.MaternHalfInteger(3), 1, {**matern, "fma": 3}),
        ("Matern, ν = 0.9", ks.Matern(nu=0.9), 1, general),
        ("Matern, ν = 12", ks.Matern(nu=12.0), 1, {"exp": NODES, "fma": NODES}),
        ("RationalQuadratic", ks.RationalQuadratic(alpha=0.3), 1, {"log": 1, "exp": 1}),
        ("GammaExponential", ks.GammaExponential(gamma=1.5), 1, {"log": 1, "exp": 2}),
        ("SquaredExponentialMixture, two", ks.SquaredExponentialMixture(), 1, {"exp": 2, "fma": 2}),
        ("PiecewisePolynomial, q = 2", ks.PiecewisePolynomial(2, lengthscale=3.0), 1, {"sqrt": 1, "fma": 8}),
        ("Bessel, order 1/2", ks.Bessel(lengthscale=0.3, order=0.5), 1, bessel),
        ("Periodic", ks.Periodic(period=2.0), 1, {"exp": 1}),
        ("Cosine", ks.Cosine(period=2.0), 1, {}),
        ("Periodised Matern32, 17 images", ks.Periodised(ks.Matern32(0.3), period=2.0), 1, {"sqrt": 17, "exp": 17, "fma": 34}),
        ("SpectralMixture, two", ks.SpectralMixture((0.6, 0.4), means=(0.4, 1.2), scales=(0.05, 0.1)), 1, {"exp": 2, "fma": 6}),
        ("Spectral, 64 nodes", ks.Spectral(waves, highest=1.5), 1, {"fma": 128}),
        ("NeuralNetwork", ks.NeuralNetwork(), 1, {"arcsin": 1, "fma": 2}),
        ("TanhNetwork, 36 arcsines", ks.TanhNetwork(), 1, {"arcsin": 36, "fma": 72}),
        ("ArcCosine, order 1", ks.ArcCosine(1), 1, {"arcsin": 1, "sqrt": 2, "fma": 4}),
        ("Wiener", ks.Wiener(), 1, {"fma": 2}),
        ("IntegratedWiener", ks.IntegratedWiener(), 1, {"fma": 6}),
        ("BrownianBridge", ks.BrownianBridge(), 1, {"fma": 3}),
        ("FractionalBrownian", ks.FractionalBrownian(0.8), 1, {"log": 1, "exp": 1}),
        ("VaryingLengthscale", ks.VaryingLengthscale(middle), 1, {"sqrt": 1, "exp": 1, "divide": 2}),
        ("PaciorekSchervish Matern32", ks.PaciorekSchervish(ks.Matern32(), middle), 1, {"sqrt": 2, "exp": 1, "divide": 2}),
        ("ModulatedSquaredExponential", ks.ModulatedSquaredExponential(0.5, spread=1.0), 1, exp),
        ("VaryingAmplitude Matern52", ks.VaryingAmplitude(ks.Matern52(), middle), 1, {**matern, "fma": 4}),
        ("ChangePoint of two", ks.ChangePoint(ks.Matern12(), ks.Matern52(), at=0.5, width=0.2), 1, both),
        ("Warped Matern52", ks.Warped(ks.Matern52(), centres=[1.0, 3.0], width=0.8, beta=[-1.0, 1.5]), 1, {**matern, "fma": 2}),
        ("Mapped SquaredExponential", ks.Mapped(ks.SquaredExponential(), fold), 1, exp),
        ("FactorMetric SquaredExponential", ks.FactorMetric(loadings=[[1.5], [-1.5]], lengthscale=6.0), 2, {**exp, "fma": 1}),
        ("Additive SquaredExponential, order 2", ks.Additive(ks.SquaredExponential(), orders=2), 2, {"exp": 2, "fma": 4}),
        ("Invariant SquaredExponential, two", ks.Invariant(ks.SquaredExponential(), group=mirror), 2, {"exp": 2, "fma": 3}),
        ("BasisFunctions, six", ks.BasisFunctions(hinges), 1, {"fma": 6}),
        ("GaussianBasis, seven", ks.GaussianBasis(np.linspace(0.0, 6.0, 7), width=0.6), 1, {"fma": 7}),
        ("Normalised Linear + 1", ks.Normalised(ks.Linear() + 1.0), 1, {"fma": 3}),
        ("Hamming", ks.Hamming(), 1, exp),
        ("Exchangeable", ks.Exchangeable(0.4), 1, {"fma": 1}),
        ("Categories, six", ks.Categories(6, rank=2), 1, {"fma": 6}),
        ("GreatCircle", ks.GreatCircle(), 2, {"arcsin": 1, "sqrt": 1, "exp": 1, "fma": 3}),
        ("SinePower", ks.SinePower(0.7), 2, {"log": 1, "exp": 1, "fma": 3}),
        ("OnSphere Matern52", ks.OnSphere(ks.Matern52(0.4)), 2, {**matern, "fma": 5}),
    ]  # fmt: skip


def probes() -> dict[str, Callable[[int], Any]]:
    """Kernels that apply one function to the squared distance a given number of times."""
    import jax.numpy as jnp

    from covary.kernels.base import AbstractKernel, Traits
    from covary.kernels.distance import scaled_square
    from covary.kernels.series import arcsine

    functions: dict[str, Callable[[Any], Any]] = {
        "exp": lambda s: jnp.exp(-s),
        "log": lambda s: jnp.log(s + 1.5),
        "sqrt": lambda s: jnp.sqrt(s + 0.5),
        "sin": jnp.sin,
        "arcsin": lambda s: arcsine(0.9 * s),
        "divide": lambda s: 1.0 / (s + 1.5),
        "fma": lambda s: 0.7 * s * s + 0.1,
    }

    def probe(function: Callable[[Any], Any], times: int) -> Any:
        class Probe(AbstractKernel):
            @property
            def traits(self) -> Traits:
                return Traits()

            def block(self, X: Any, Z: Any) -> Any:
                s = jnp.minimum(scaled_square(X.x, Z.x, 1.0), 1.0)
                return sum((function((0.5 + 0.05 * i) * s) for i in range(times)), s)  # side by side, as in a formula

            def block_diag(self, X: Any) -> Any:
                return jnp.zeros(X.rows, X.x.dtype)

        return Probe()

    return {name: (lambda times, f=f: probe(f, times)) for name, f in functions.items()}


def run(smoke: bool = False) -> Report:
    """Measure the operations first, then every kernel."""
    from covary.data import as_inputs
    from covary.kernels.tiles import gram_lower

    n, repeats = (128, 1) if smoke else (2048, 7)
    rng = np.random.default_rng(0)
    X = rng.uniform(0.02, 0.98, (n, 2))
    codes = np.floor(6 * X)
    out = np.empty((n, n), order="F")

    def timed(kernels: dict[str, tuple[Any, np.ndarray]]) -> dict[str, float]:
        jobs = {name: (lambda k=k, x=as_inputs(x): gram_lower(k, x, out=out)) for name, (k, x) in kernels.items()}
        return interleaved(jobs, repeats)

    made = probes()
    few, many = 1, 9
    built = {f"{name} {times}": (p(times), X[:, :1]) for name, p in made.items() for times in (few, many)}
    seconds = timed(built | {"none": (made["fma"](0), X[:, :1])})
    unit = {name: max((seconds[f"{name} {many}"] - seconds[f"{name} {few}"]) / (many - few), 0.0) for name in made}
    listed = cases()
    listed = listed[::6] if smoke else listed
    found = timed({name: (k, (codes if _coded(name) else X)[:, :columns]) for name, k, columns, _ in listed})
    rows, worst, where = [], 0.0, ""
    for name, _, _, counts in listed:
        honest = seconds["none"] + sum(unit[f] * c for f, c in counts.items())
        ratio = found[name] / honest
        worst, where = max((worst, where), (ratio, name))
        needs = ", ".join(f"{c:g} {f}" for f, c in counts.items()) or "inner product only"
        rows.append([name, needs, f"{1e3 * honest:.1f}", f"{1e3 * found[name]:.1f}", f"{ratio:.2f}"])
    per = 1e9 * 2 / n**2
    units = [["distance", f"{per * seconds['none']:.2f}"], *([name, f"{per * u:.2f}"] for name, u in unit.items())]
    tables = [
        Table(f"Every kernel, n = {n}", ("kernel", "operations per entry", "predicted, ms", "measured, ms", "ratio"), rows),
        Table("Time of one operation", ("function", "nanoseconds per entry"), units),
    ]
    bars = [] if smoke else [Bar(f"largest measured / predicted time ({where})", worst, LIMIT)]
    return Report("Kernel matrices and their arithmetic", TEXT, tables, bars)


def _coded(name: str) -> bool:
    return name.split(",")[0] in ("Hamming", "Exchangeable", "Categories")


def main() -> int:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernel_costs", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder to write the page to; if omitted, the page is only printed")
    options = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    with Others() as others:
        report = run()
    print(report.markdown())
    if options.out:
        write(options.out, "kernel_costs", report, others.cores)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
