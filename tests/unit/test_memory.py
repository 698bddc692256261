"""Free memory: of the machine, of control groups, and by process limits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from covary._memory import GIB, free_memory


def machine(root: Path, **files: str) -> Path:
    """The root of a machine with these files, ``__`` for every slash."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


V2 = "sys__fs__cgroup__"
V1 = "sys__fs__cgroup__memory__"


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, 100 * GIB),
        ({f"{V2}memory_dot_max": "max\n", f"{V2}memory_dot_current": "5\n"}, 100 * GIB),
        ({f"{V2}memory_dot_max": f"{3 * GIB}\n", f"{V2}memory_dot_current": f"{GIB}\n"}, 2 * GIB),
        (
            {
                f"{V2}memory_dot_max": f"{3 * GIB}",
                f"{V2}memory_dot_current": f"{3 * GIB}",
                f"{V2}memory_dot_stat": f"anon 7\ninactive_file {GIB}\nactive_file 1\n",
            },
            GIB + 1,
        ),
        ({f"{V1}memory_dot_limit_in_bytes": f"{4 * GIB}", f"{V1}memory_dot_usage_in_bytes": f"{GIB}"}, 3 * GIB),
        ({f"{V1}memory_dot_limit_in_bytes": "9223372036854771712", f"{V1}memory_dot_usage_in_bytes": "1"}, 100 * GIB),
        (  # a limit on the group of a group
            {
                "proc__self__cgroup": "0::/slice/unit\n",
                f"{V2}slice__memory_dot_max": f"{2 * GIB}",
                f"{V2}slice__memory_dot_current": "0",
                f"{V2}slice__unit__memory_dot_max": "max",
                f"{V2}slice__unit__memory_dot_current": "0",
            },
            2 * GIB,
        ),
        (
            {
                "proc__self__cgroup": "5:cpu,cpuacct:/a\n7:memory:/job\n",
                f"{V1}job__memory_dot_limit_in_bytes": f"{GIB}",
                f"{V1}job__memory_dot_usage_in_bytes": "0",
            },
            GIB,
        ),
        ({f"{V2}memory_dot_max": "5", f"{V2}memory_dot_current": "9"}, 0),
    ],
)
def test_the_least_of_what_is_left_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], free: int
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=100 * GIB))
    monkeypatch.setattr(psutil.Process, "rlimit", lambda *_: (-1, -1))
    assert free_memory(machine(tmp_path, **files)) == free


@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_limits_of_the_process_leave_what_is_not_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=100 * GIB))
    monkeypatch.setattr(psutil.Process, "memory_info", lambda _: SimpleNamespace(vms=3 * GIB, data=4 * GIB))
    held = getattr(psutil, limit)
    monkeypatch.setattr(psutil.Process, "rlimit", lambda _, which: (10 * GIB, -1) if which == held else (-1, -1))
    assert free_memory(tmp_path) == (7 if limit == "RLIMIT_AS" else 6) * GIB


def test_systems_without_limits_of_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS and Windows: psutil has no ``rlimit`` there, and nobody has control groups."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=5 * GIB))
    monkeypatch.delattr(psutil.Process, "rlimit")
    assert free_memory(tmp_path) == 5 * GIB


def test_ulimit_is_seen() -> None:
    code = "import resource\nfrom covary._memory import GIB, check_memory, free_memory\n"
    code += "size = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
    code += "resource.setrlimit(resource.RLIMIT_AS, (size + GIB, -1))\nassert free_memory() <= GIB, free_memory()\n"
    code += "try:\n    check_memory('fit', 2 * GIB, 'use fewer rows')\nexcept MemoryError as error:\n    print(error)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("fit: this needs 2.0 GiB and "), done.stderr
