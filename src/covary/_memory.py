"""Memory: what is free, what a verb would need, and a refusal with both numbers before anything is allocated."""

from __future__ import annotations

from pathlib import Path

from covary._checks import NotEnoughMemory

GIB = 2**30


def free_memory() -> int:
    """Bytes this process may still take, from the kernel's count and the control group's limit."""
    free = 8 * GIB
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        if limit != "max":
            used = int(Path("/sys/fs/cgroup/memory.current").read_text())
            stat = dict(line.split() for line in Path("/sys/fs/cgroup/memory.stat").read_text().splitlines())
            cached = int(stat.get("inactive_file", 0)) + int(stat.get("active_file", 0))  # given back when asked for
            free = min(free, int(limit) - used + cached)
    except (OSError, ValueError):
        pass
    return free


def check_memory(who: str, needed: int, do: str) -> None:
    """Refuse, with the number of GiB, what cannot fit."""
    free = free_memory()
    if needed > free:
        raise NotEnoughMemory(f"{who}: this needs {needed / GIB:,.1f} GiB and {free / GIB:,.1f} GiB are free; {do}.")
