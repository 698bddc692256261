"""Forecast atmospheric CO2 twenty years ahead, with error bars; run by ``make demo`` and ``covary demo``.

The kernel is that of Rasmussen & Williams (2006), section 5.4.3; see :mod:`covary.cli.demo` for every step.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from covary import enable_cache
from covary.cli.demo import run_demo


def main(out: Path) -> None:
    """Fit, forecast, and write predictions.csv, forecast.png, co2.csv and co2.covary.

    Compiled code is cached in the same folder.
    """
    out.mkdir(parents=True, exist_ok=True)
    enable_cache(str(out / "cache"))
    run_demo(out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder to write to")
    main(parser.parse_args().out)
