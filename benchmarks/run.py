"""Run the benchmarks: ``python -m benchmarks.run [--smoke] [--only NAME] [--out DIR] [--wait SECONDS]``."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
import traceback
from pathlib import Path

from benchmarks import measure
from benchmarks.report import machine, versions, write

SCRIPTS = ("evidence", "grams", "memory", "cold", "fit")
LONG = (
    "defaults",
    "classes",
    "classes_speed",
    "approximations",
    "automatic",
    "markov",
    "svgp",
    "vecchia",
    "experts",
    "committee_tables",
    "scaling",
    "versions",
)  # run separately: they need data files or take many minutes


def main() -> int:
    """Run the selected scripts; the exit status is the number of scripts that failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="run every script at n = 200, without the other libraries")
    parser.add_argument("--only", action="append", choices=(*SCRIPTS, *LONG), help="run only this script (may be repeated)")
    parser.add_argument("--out", type=Path, help="write one page per script and a README to this folder")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds to wait for a quiet machine before each measurement")
    options = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    measure.patience = options.wait
    print(f"{machine()}\n{versions()}\n")
    failed = 0
    for name in options.only or (*SCRIPTS, *(LONG if options.smoke else ())):
        if options.wait:
            measure.settle()
        began = time.perf_counter()
        try:
            with measure.Others() as others:
                report = importlib.import_module(f"benchmarks.{name}").run(smoke=options.smoke)
        except Exception:
            traceback.print_exc()
            failed += 1
            continue
        print(report.markdown(), f"\n({name}: {time.perf_counter() - began:.0f} s)\n", flush=True)
        if options.out and not options.smoke:
            write(options.out, name, report, others.cores)
    return failed


if __name__ == "__main__":
    sys.exit(main())
