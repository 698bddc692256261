"""Peak memory of a fit and of a large prediction, and the time of the prediction compared with scikit-learn."""

from __future__ import annotations

import importlib.util
import time
from typing import Any

import numpy as np

from benchmarks.measure import fresh, interleaved, peak_bytes, reset_peak, resident_bytes
from benchmarks.problem import co2_model, model, series, table
from benchmarks.report import Bar, Report, Table

BUFFERS = 4.0  # n × n float64 matrices above the import
FASTER = 1.25
MIB = 2**20
OPTIMUM = (2.8, 37.0, 38.0, 34.0, 1200.0, 4e5, 4e5, 4e5)  # length-scales near the optimum, so that no fit is needed


def fit_memory(kind: str, n: int, max_time: float) -> dict[str, Any]:
    """Learn and condition in this process, and return the bytes used in addition to the import."""
    from covary import Data, condition, learn

    before = resident_bytes()
    start, data = (co2_model(), Data(*series(n))) if kind == "CO2" else (model(), Data(*table(n)))
    began = time.perf_counter()
    learned = learn(start, data, coarse=kind != "CO2", max_time=max_time)
    learning = peak_bytes() - before
    condition(learned, data)
    full = sum(rows == n for rows, _ in learned.history)
    return {"learn": learning, "all": peak_bytes() - before, "seconds": time.perf_counter() - began, "full": full}


def _posterior(n: int) -> Any:
    from covary import Data, condition

    return condition(model(9e4, OPTIMUM, 0.0098), Data(*table(n)))


def predict_memory(n: int, points: int) -> dict[str, Any]:
    """Predict mean and std at many points in this process; return seconds, and bytes in addition to those of the posterior."""
    posterior = _posterior(n)
    new = table(points, seed=1)[0]
    posterior.predict(new[:600])
    reset = reset_peak()
    before = resident_bytes()
    began = time.perf_counter()
    out = posterior.predict(new)
    took = time.perf_counter() - began
    assert out.y.variance.shape == (points,)
    return {"bytes": peak_bytes() - before, "seconds": took, "reset": reset}


def predict_race(n: int, points: int, share: int, repeats: int) -> dict[str, float]:
    """Predict with covary at all points and with scikit-learn at a fraction of them, alternately."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    posterior = _posterior(n)
    X, y = table(n)
    new = table(points, seed=1)[0]
    kernel = ConstantKernel(9e4) * RBF(np.asarray(OPTIMUM)) + WhiteKernel(0.0098)
    peer = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y)
    apart = np.abs(np.sqrt(posterior.predict(new[:200]).y.variance) - peer.predict(new[:200], return_std=True)[1]).max()
    best = interleaved(
        {
            "covary": lambda: np.sqrt(posterior.predict(new).y.variance),
            "sklearn": lambda: peer.predict(new[:share], return_std=True),
            "covary, share": lambda: np.sqrt(posterior.predict(new[:share]).y.variance),
        },
        repeats,
    )
    return best | {"apart": float(apart)}


def _value(target: str, **arguments: Any) -> Any:
    outcome = fresh(f"benchmarks.memory:{target}", limit=600, **arguments)
    if outcome.failure:
        raise RuntimeError(f"{target}({arguments}) failed: {outcome.failure}")
    return outcome.value


def run(smoke: bool = False) -> Report:
    """Measure, and compare with the targets."""
    n, bars, rows = (200 if smoke else 4000), [], []
    buffer = n * n * 8
    for kind in ("SE", "CO2"):
        got = _value("fit_memory", kind=kind, n=n, max_time=1 if smoke else 20 if kind == "CO2" else 90)
        share = got["all"] / buffer
        sizes = (f"{got['learn'] / MIB:.0f}", f"{got['all'] / MIB:.0f}", f"{share:.2f}")
        rows.append([kind, *sizes, f"{got['seconds']:.1f}", str(got["full"])])
        if not smoke:
            bars.append(
                Bar(f"peak memory of a fit above that of the import, {kind}, n = {n}", share, BUFFERS, unit="n × n buffers")
            )
    fits = Table(
        f"A fit at n = {n}; one n × n buffer is {buffer / MIB:.0f} MiB",
        ("kernel", "learn, MiB", "learn + condition, MiB", "buffers", "seconds", "evaluations at n"),
        rows,
        (
            "Peak resident size of a fresh process above its size after the import, including the memory that XLA needs to "
            "compile.",
            "SE: a complete fit with ARD on eight columns. CO2: eqs. 5.15 to 5.19 of the book on a series with one column, "
            "with every evaluation at full n, stopped after 20 s.",
        ),
    )
    learned, points = (200, 2000) if smoke else (2000, 100_000)
    held = _value("predict_memory", n=learned, points=points)
    columns = ("library", "points", "seconds", "µs per point", "peak, MiB")
    mine = [f"{held['bytes'] / MIB:.0f}"]
    notes = [
        "peak: memory in addition to that of the posterior; a matrix of points × n in float64 would take "
        + f"{8 * learned * points / MIB:.0f} MiB."
    ]
    if smoke or importlib.util.find_spec("sklearn") is None:
        lines = [["covary", str(points), f"{held['seconds']:.2f}", f"{1e6 * held['seconds'] / points:.1f}", *mine]]
        notes.append("scikit-learn is omitted in this run.")
    else:
        part = points // 5
        best = _value("predict_race", n=learned, points=points, share=part, repeats=3)
        lines = [
            ["covary", str(points), f"{best['covary']:.2f}", f"{1e6 * best['covary'] / points:.1f}", *mine],
            ["covary", str(part), f"{best['covary, share']:.2f}", f"{1e6 * best['covary, share'] / part:.1f}", ""],
            ["scikit-learn", str(part), f"{best['sklearn']:.2f}", f"{1e6 * best['sklearn'] / part:.1f}", ""],
        ]
        ratio = best["sklearn"] * points / part / best["covary"]
        notes.append(
            f"scikit-learn is measured on {part} points and scaled by {points // part}, because it stores whole matrices "
            "of points × n."
        )
        notes.append(f"Same hyperparameters; the standard deviations agree to {best['apart']:.0e}.")
        bars.append(
            Bar(f"time of mean and std at {points} points, n = {learned}: scikit-learn / covary", ratio, FASTER, least=True)
        )
    predictions = Table(f"Mean and std at {points} points, n = {learned}", columns, lines, notes)
    return Report(
        "Memory and large predictions",
        "The memory of fits and predictions, which is bounded for every kernel.",
        [fits, predictions],
        bars,
    )
