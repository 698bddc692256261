"""Memory: what is free, what a verb would need, and a refusal with both numbers before anything is allocated."""

from __future__ import annotations

from pathlib import Path

from covary._checks import NotEnoughMemory

GIB = 2**30


def free_memory(root: Path = Path("/")) -> int:
    """Bytes this process may still take: the least of what the machine, its control groups and its own limits leave.

    The limits of a process (``ulimit -v``, ``ulimit -d``) are on addresses, of which JAX and BLAS reserve more than they
    use: what is mapped already counts as taken.
    """
    found = [8 * GIB if (free := _available(root)) is None else free]
    for folder in _groups(root):
        found += _left(folder, "memory.max", "memory.current", ("inactive_file", "active_file"))
        found += _left(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file"))
    return max(0, min([*found, *_own_limits(root)]))


def _available(root: Path) -> int | None:
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _groups(root: Path) -> list[Path]:
    """The folders of the control groups that hold this process, and of those that hold them; version 2 and version 1."""
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
    """What a group leaves; of files in its cache the system gives memory back when asked."""
    try:
        most, now = int(_text(folder / limit)), int(_text(folder / used))
    except ValueError:  # none, or "max"
        return []
    known = dict(line.split() for line in _text(folder / "memory.stat").splitlines() if len(line.split()) == 2)
    return [most - now + sum(int(known.get(name, 0)) for name in cached)]


def _own_limits(root: Path) -> list[int]:
    """What the limits of this process leave of addresses and of data."""
    try:
        import resource
    except ImportError:  # not on this system
        return []
    sizes = dict(line.split(":", 1) for line in _text(root / "proc/self/status").splitlines() if line.startswith("Vm"))
    out = []
    for limit, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        most = resource.getrlimit(limit)[0]
        if most != resource.RLIM_INFINITY:
            out.append(most - int(sizes.get(name, "0 kB").split()[0]) * 1024)
    return out


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def check_draws(who: str, draws: int, numbers: int) -> None:
    """Refuse more draws, each of so many numbers, than memory holds; three copies live at a time."""
    check_memory(who, min(3 * 8 * draws * numbers, 2**80), "ask for fewer draws at a time")


def check_memory(who: str, needed: int, do: str) -> None:
    """Refuse, with the number of GiB, what cannot fit."""
    free = free_memory()
    if needed > free:
        raise NotEnoughMemory(f"{who}: this needs {needed / GIB:,.1f} GiB and {free / GIB:,.1f} GiB are free; {do}.")
