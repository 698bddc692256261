"""Measurements: alternating repeats, fresh processes with a time limit, peak memory."""

from __future__ import annotations

import importlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MARK = "benchmark-result: "
QUIET = 0.15  # cores that other processes may use during a measurement
patience = 0.0  # seconds to wait for a quiet machine before every fresh process; set by benchmarks.run


@dataclass(frozen=True)
class Outcome:
    """Result of a fresh process: a value or the reason for its failure, and the cores that other processes used."""

    value: Any = None
    failure: str = ""
    others: float = 0.0


def spent() -> float:
    """Return the processor seconds that all processes have used since the machine started; zero if unknown."""
    try:
        fields = [float(v) for v in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")  # everything except idle and waiting
    except (OSError, ValueError, IndexError):
        return 0.0


def settle() -> float:
    """Wait until the machine is quiet or the time is over, and return the number of cores that others use."""
    until = time.monotonic() + patience
    while True:
        began, before = time.perf_counter(), spent()
        time.sleep(0.5)
        load = (spent() - before) / (time.perf_counter() - began)
        if load <= QUIET or time.monotonic() > until:
            return load
        time.sleep(1.5)


class Others:
    """Number of cores that other processes use while a block runs, excluding this process and its children."""

    def __enter__(self) -> Others:
        self.began, self.before, self.own = time.perf_counter(), spent(), self._own()
        self.cores = 0.0
        return self

    def __exit__(self, *_: object) -> None:
        used = spent() - self.before - (self._own() - self.own)
        self.cores = max(0.0, used / (time.perf_counter() - self.began))

    @staticmethod
    def _own() -> float:
        both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(usage.ru_utime + usage.ru_stime for usage in both)


def say(text: str) -> None:
    """Print a line of progress, so that results of a long run that fails are not lost."""
    print(text, file=sys.stderr, flush=True)


def seconds(function: Callable[[], Any]) -> float:
    """Return the seconds that one call takes."""
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def interleaved(
    functions: Mapping[str, Callable[[], Any]],
    repeats: int,
    *,
    prepare: Mapping[str, Callable[[], Any]] | None = None,
    warm: int = 1,
    budget: float = 60.0,
) -> dict[str, float]:
    """Return the best time of each function over rounds in which all take turns, so that load affects all equally.

    ``prepare[name]`` is called before each call and is not timed. ``warm`` rounds are not counted. After three rounds no new
    one begins once ``budget`` seconds are spent.
    """
    best = dict.fromkeys(functions, float("inf"))
    until = time.monotonic() + budget
    for turn in range(warm + repeats):
        if turn >= warm + 3 and time.monotonic() > until:
            break
        for name, function in functions.items():
            if prepare and name in prepare:
                prepare[name]()
            took = seconds(function)
            if turn >= warm:
                best[name] = min(best[name], took)
    return best


def environment() -> dict[str, str]:
    """Return the environment of a fresh process: this one, on the CPU, with the benchmarks and covary importable."""
    import covary

    source = str(Path(covary.__file__).resolve().parent.parent)
    paths = [str(ROOT), source, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {"JAX_PLATFORMS": "cpu"} | dict(os.environ) | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def fresh(target: str, *, limit: float = 900.0, **arguments: Any) -> Outcome:
    """Call ``module:function`` with these arguments in a fresh process and return its value, which must fit in JSON."""
    command = [sys.executable, "-m", "benchmarks.measure", target, json.dumps(arguments)]
    if patience:
        settle()
    with Others() as others:
        try:
            done = subprocess.run(
                command, env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            return Outcome(failure=f"stopped after {limit:.0f} s")
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(MARK):
            return Outcome(json.loads(line[len(MARK) :]), others=others.cores)
    lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return Outcome(failure=lines[-1][:200])


def process_seconds(code: str, *arguments: str, repeats: int = 1, limit: float = 300.0) -> float:
    """Return the best wall time of a fresh process that runs this code, from its start to its end."""
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        command = [sys.executable, "-c", code, *arguments]
        subprocess.run(command, env=environment(), cwd=ROOT, check=True, capture_output=True, text=True, timeout=limit)
        best = min(best, time.perf_counter() - began)
    return best


def peak_bytes() -> int:
    """Return the peak resident size of this process.

    Read from ``/proc`` if it exists, because ``ru_maxrss`` of a child includes the memory of its parent at the start.
    """
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def resident_bytes() -> int:
    """Return the current resident size of this process."""
    return _status("VmRSS") or peak_bytes()


def _status(name: str) -> int:
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def reset_peak() -> bool:
    """Reset the peak (Linux only), and return whether that worked."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def main() -> None:
    """Run one target in this process and print its value."""
    module, name = sys.argv[1].split(":")
    value = getattr(importlib.import_module(module), name)(**json.loads(sys.argv[2]))
    print(f"\n{MARK}{json.dumps(value)}", flush=True)


if __name__ == "__main__":
    main()
