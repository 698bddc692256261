"""``covary demo``: forecast atmospheric CO2 twenty years ahead, with error bars.

The kernel is the one of Rasmussen & Williams (2006), section 5.4.3: a smooth trend, a yearly season that may drift,
medium-term irregularities, and correlated noise. The period is fixed at one year; everything else is learned.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from covary._write import make_folder
from covary.cli.output import table_bytes, write_bytes
from covary.cli.progress import bar, learning
from covary.cli.shown import in_words

KERNEL = (
    "2500.0 * SquaredExponential(lengthscale=50.0)"
    " + 4.0 * SquaredExponential(lengthscale=100.0) * Periodic(lengthscale=1.0, period=fixed(1.0))"
    " + 0.25 * RationalQuadratic(lengthscale=1.0, alpha=1.0)"
    " + 0.01 * SquaredExponential(lengthscale=0.1)"
)
AHEAD = 20  # years


def run_demo(out: Path, *, say: Callable[[str], Any] = print, quiet: bool = False) -> list[Path]:
    """Fit, forecast, and write co2.csv, co2.covary, predictions.csv and forecast.png; return their paths."""
    import pandas as pd

    from covary._version import versions
    from covary.cli.output import save_model
    from covary.datasets import load_co2
    from covary.estimators.regressor import GPRegressor

    make_folder(out, "covary", argument="out")
    co2 = load_co2()
    began = time.perf_counter()
    with bar(quiet=quiet) as shown:
        model: Any = GPRegressor(KERNEL, noise=0.01, n_restarts=0, random_state=0)
        with learning(shown):
            model.fit(co2[["decimal_year"]], co2["co2_ppm"])
        model.target_names_ = ["co2_ppm"]
        shown.stage("computing error bars")
        summary = in_words(model.summary())
    say(str(summary))
    say(f"\nfitted to {len(co2)} months in {time.perf_counter() - began:.1f} s")

    last = float(co2["decimal_year"].iloc[-1])
    future = pd.DataFrame({"decimal_year": np.arange(last, last + AHEAD + 1 / 24, 1 / 12).round(4)})
    mean, std = model.predict(future, return_std=True)
    low, high = model.predict_interval(future)
    table = future.assign(co2_ppm=mean, std=std, lower95=low, upper95=high).round(3)
    row = table.iloc[-1]
    say(
        f"in {row.decimal_year:.0f}: {row.co2_ppm:.1f} ppm, 95 % between {row.lower95:.1f} and {row.upper95:.1f} "
        f"(a width of {row.upper95 - row.lower95:.1f} ppm)"
    )
    paths = [out / name for name in ("predictions.csv", "forecast.png", "co2.csv", "co2.covary")]
    write_bytes(paths[0], table_bytes(table, str(paths[0])))
    write_bytes(paths[1], picture(model, last))
    write_bytes(paths[2], table_bytes(co2, str(paths[2])))
    made = {"command": "demo", "data": "co2.csv", "rows": len(co2), "kernel": KERNEL, "seed": 0, "restarts": 0}
    save_model(model, str(paths[3]), {**made, "versions": versions()})
    say(f"wrote {paths[0]}, {paths[1]}, {paths[2]} and {paths[3]}")
    return paths


def picture(model: Any, last: float) -> bytes:
    """Return a PNG of the record and the forecast, with an enlarged view of the transition."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from covary.plots import plot_series

    figure = Figure(figsize=(12, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=[1.6, 1])
    plot_series(model.posterior_, np.linspace(1958, last + AHEAD, 1400), ax=left, name="year")
    left.axvline(last, color="#888888", lw=0.8, ls=":")
    left.set_title("Atmospheric CO₂ at Mauna Loa, and twenty years ahead", fontsize=11)
    plot_series(model.posterior_, np.linspace(last - 4, last + 6, 700), ax=right, name="year")
    right.axvline(last, color="#888888", lw=0.8, ls=":")
    right.set_xlim(last - 4, last + 6)
    right.set_ylim(360, 395)
    right.set_title("the last years of data, the first of forecast", fontsize=11)
    right.get_legend().remove()
    for ax in (left, right):
        ax.set_ylabel("CO₂ (ppm)")
    stream = io.BytesIO()
    figure.savefig(stream, dpi=130, format="png")
    return stream.getvalue()
