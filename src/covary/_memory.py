"""Checks of memory: an error with the memory needed and the memory free is raised before anything is allocated."""

from __future__ import annotations

from pathlib import Path

from covary._checks import NotEnoughMemory

GIB = 2**30


def free_memory(root: Path = Path("/")) -> int:
    """Return how many more bytes this process may allocate: the minimum over the machine, control groups and process limits.

    psutil reports the memory of the machine and the process on every system, but not the limits of control groups, in which
    containers and cluster jobs run. These are read here. The limits of a process (``ulimit -v``, ``ulimit -d``) apply to
    address space, of which JAX and BLAS reserve more than they use, so memory that is already mapped counts as used.
    """
    import psutil

    found = [psutil.virtual_memory().available]
    for folder in _groups(root):
        found += _left(folder, "memory.max", "memory.current", ("inactive_file", "active_file"))
        found += _left(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file"))
    return max(0, min([*found, *_own_limits()]))


def _groups(root: Path) -> list[Path]:
    """Return the folders of this process's control groups and of their parents, for versions 1 and 2."""
    out = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers and "memory" not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / ("memory" if controllers else "")
        place = Path(path.lstrip("/"))
        out += [top / part for part in (place, *place.parents)]
    return out or [root / "sys/fs/cgroup", root / "sys/fs/cgroup/memory"]


def _left(folder: Path, limit: str, used: str, cached: tuple[str, ...]) -> list[int]:
    """Return the free memory of a group, counting its file cache as free because the system reclaims it on demand."""
    try:
        most, now = int(_text(folder / limit)), int(_text(folder / used))
    except ValueError:  # no limit, or "max"
        return []
    known = dict(line.split() for line in _text(folder / "memory.stat").splitlines() if len(line.split()) == 2)
    return [most - now + sum(int(known.get(name, 0)) for name in cached)]


def _own_limits() -> list[int]:
    """Return what remains of this process's limits on address space and data, which only Linux reports."""
    import psutil

    own = psutil.Process()
    if not hasattr(own, "rlimit"):
        return []
    taken = own.memory_info()
    out = []
    for limit, used in ((psutil.RLIMIT_AS, taken.vms), (psutil.RLIMIT_DATA, taken.data)):
        most = own.rlimit(limit)[0]
        if most != psutil.RLIM_INFINITY:
            out.append(most - used)
    return out


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def check_draws(who: str, draws: int, numbers: int) -> None:
    """Raise an error if ``draws`` of this many numbers each do not fit in memory, with three copies at a time."""
    check_memory(who, min(3 * 8 * draws * numbers, 2**80), "use fewer draws at a time")


def check_memory(who: str, needed: int, do: str) -> None:
    """Raise an error with the memory needed and free, in GiB, if the computation does not fit."""
    free = free_memory()
    if needed > free:
        raise NotEnoughMemory(who, f"this needs {needed / GIB:,.1f} GiB and {free / GIB:,.1f} GiB are free", do)
