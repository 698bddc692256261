"""Run the robustness tests and print the table of docs/trust.md: ``python tests/robustness/table.py [name ...]``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from robustness.record import classes, count


def main(names: list[str]) -> int:
    """Print the table and return the number of failures."""
    print("| input | script | cases | failed |\n|---|---|---|---|")
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names or classes():
            title, tried, failed = count(name, Path(folder) / name)
            print(f"| {title} | `{name}` | {tried} | {len(failed)} |", flush=True)
            failures += [f"{name}/{line}" for line in failed]
    print(*failures, sep="\n", file=sys.stderr)
    return len(failures)


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 100))
