"""Finished parts of a long benchmark in a file, from which an interrupted run resumes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import fresh, say

QUIET = ("groups", "off")  # too long to print


class Kept:
    """Results of fresh processes, by key.

    Parameters
    ----------
    path
        JSON file; None stores nothing.
    limit
        Seconds allowed per process.
    """

    def __init__(self, path: Path | None, limit: float) -> None:
        self.path, self.limit = path, limit
        self.held: dict[str, Any] = json.loads(path.read_text()) if path is not None and path.exists() else {}

    def of(self, key: str, target: str, *, limit: float | None = None, **arguments: Any) -> dict[str, Any]:
        """Return the result of a target, from the file or a fresh process; ``failure`` contains the reason if there is none."""
        if key not in self.held:
            began = time.perf_counter()
            outcome = fresh(target, limit=limit or self.limit, **arguments)
            took = time.perf_counter() - began
            value: dict[str, Any] = {"failure": outcome.failure} if outcome.failure else outcome.value | {"failure": ""}
            others = max(0.0, outcome.others - value.get("hidden", 0.0) / took)  # workers are ours
            say(f"{key}: { ({k: v for k, v in value.items() if k not in QUIET}) }, others {others:.1f}")
            if outcome.failure:
                return value
            self.held[key] = value | {"others": others}
            self.write()
        return self.held[key]

    def write(self) -> None:
        """Write the file."""
        if self.path is not None:
            self.path.write_text(json.dumps(self.held))
