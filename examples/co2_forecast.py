"""Forecast atmospheric CO2 twenty years ahead, with error bars: what ``make demo`` runs.

The kernel is the one of Rasmussen & Williams (2006), section 5.4.3: a smooth trend, a yearly season that may drift,
medium-term wiggles, and correlated noise. Only the period, one year, is given; everything else is learned.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd

from covary import GPRegressor, enable_cache
from covary.datasets import load_co2
from covary.kernels import Periodic, RationalQuadratic, SquaredExponential, fixed

KERNEL = (
    50.0**2 * SquaredExponential(lengthscale=50.0)
    + 2.0**2 * SquaredExponential(lengthscale=100.0) * Periodic(lengthscale=1.0, period=fixed(1.0))
    + 0.5**2 * RationalQuadratic(lengthscale=1.0, alpha=1.0)
    + 0.1**2 * SquaredExponential(lengthscale=0.1)
)


def main(out: Path) -> None:
    """Fit, forecast, and write predictions.csv and forecast.png."""
    out.mkdir(parents=True, exist_ok=True)
    enable_cache(str(out / "cache"))
    co2 = load_co2()
    began = time.perf_counter()
    model = GPRegressor(KERNEL, noise=0.01, n_restarts=0, random_state=0)
    model.fit(co2[["decimal_year"]], co2["co2_ppm"])
    print(model.summary())
    print(f"\nlearned from {len(co2)} months in {time.perf_counter() - began:.1f} s")

    last = co2["decimal_year"].iloc[-1]
    future = pd.DataFrame({"decimal_year": np.arange(last, last + 20 + 1 / 24, 1 / 12).round(4)})
    mean, std = model.predict(future, return_std=True)
    low, high = model.predict_interval(future)
    table = future.assign(co2_ppm=mean, std=std, lower95=low, upper95=high).round(3)
    table.to_csv(out / "predictions.csv", index=False)
    row = table.iloc[-1]
    print(
        f"in {row.decimal_year:.0f}: {row.co2_ppm:.1f} ppm, 95 % between {row.lower95:.1f} and {row.upper95:.1f} "
        f"(a width of {row.upper95 - row.lower95:.1f} ppm)"
    )
    picture(model, out / "forecast.png", last)
    print(f"wrote {out / 'predictions.csv'} and {out / 'forecast.png'}")


def picture(model: GPRegressor, path: Path, last: float) -> None:
    """The record, the forecast, and a close look at where one becomes the other."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from covary.plots import plot_series

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained", width_ratios=[1.6, 1])
    plot_series(model.posterior_, np.linspace(1958, last + 20, 1400), ax=left, name="year")
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
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder to write to")
    main(parser.parse_args().out)
