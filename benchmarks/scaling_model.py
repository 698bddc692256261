"""A model of a committee on many workers: the time of a pass over a billion rows, from costs measured on two workers.

A pass is one ``map`` over batches of experts. Every worker has one batch running and one waiting; the client distributes
batches and takes results one at a time. :func:`passed` simulates this event by event. The model only uses measured costs:
seconds of an expert by its number of rows, seconds that the client and the scheduler spend on a batch, and seconds per byte.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = 9  # numbers of a row: eight inputs and a target
LATENCY = 1e-3  # seconds of a message between machines
EACH = 1000  # rows of an expert
TESTED = 1000  # new inputs of a prediction
GROUP = 1_000_000  # rows of a row group
PER_WORKER = 1_000_000  # rows, in weak scaling
LARGEST = 10**9
WORKERS = tuple(2**k for k in range(15))


@dataclass(frozen=True)
class Costs:
    """Measured costs, in seconds.

    Parameters
    ----------
    rows
        Sizes of an expert at which it was measured.
    evidence, condition, predict
        For each: evidence and gradient, conditioning, and prediction of :data:`TESTED` new inputs.
    task
        The client's and the scheduler's time for one batch.
    byte
        The client's time for each byte of a result.
    result
        The bytes of a prediction's result.
    read
        A worker's time for one row, from Parquet to sorted rows on disk.
    collect
        A worker's time for one row when a batch collects its rows from disk.
    file
        A worker's time for each file that it opens.
    """

    rows: tuple[int, ...]
    evidence: tuple[float, ...]
    condition: tuple[float, ...]
    predict: tuple[float, ...]
    task: float
    byte: float
    result: int
    read: float = 0.0
    collect: float = 0.0
    file: float = 0.0

    def of(self, what: str, rows: Any) -> Any:
        """Return the seconds of one expert with ``rows`` rows, by a power law between and beyond the measured sizes."""
        x, y = np.log(self.rows), np.log(getattr(self, what))
        at = np.log(np.asarray(rows, float))
        slope = np.diff(y) / np.diff(x)
        k = np.clip(np.searchsorted(x, at) - 1, 0, len(slope) - 1)
        return np.exp(y[k] + slope[k] * (at - x[k]))

    def record(self) -> dict[str, Any]:
        """Create from JSON."""
        return asdict(self)


def passed(batches: Sequence[float] | np.ndarray, workers: int, task: float, latency: float = 0.0) -> float:
    """Return the wall time of one pass, simulated event by event.

    Parameters
    ----------
    batches
        Seconds of every batch on a worker, in the order of distribution.
    workers
        Number of workers.
    task
        Seconds of the client for each batch, to send it and to receive its result.
    latency
        Seconds of a message.
    """
    left = iter(np.asarray(batches, float).tolist())
    client = 0.0
    waits: list[tuple[float, float] | None] = [None] * workers  # arrival and seconds of the batch that waits
    idle = [True] * workers
    busy: list[tuple[float, int]] = []

    def give(worker: int) -> None:
        nonlocal client
        took = next(left, None)
        if took is None:
            return
        client += task / 2
        if idle[worker]:
            idle[worker] = False
            heapq.heappush(busy, (client + latency + took, worker))
        else:
            waits[worker] = client + latency, took

    for worker in (*range(workers), *range(workers)):
        give(worker)
    while busy:
        now, worker = heapq.heappop(busy)
        waiting, waits[worker] = waits[worker], None
        if waiting is None:
            idle[worker] = True
        else:
            heapq.heappush(busy, (max(now, waiting[0]) + waiting[1], worker))
        client = max(client, now + latency) + task / 2
        give(worker)
    return client


@dataclass(frozen=True)
class Plan:
    """A committee with a number of rows and workers, and the number of rows per batch."""

    costs: Costs
    rows: int
    workers: int
    together: int = 4000

    @staticmethod
    def of(costs: Costs, rows: int, workers: int, fixed: int | None = None) -> Plan:
        """Create with the batch size that covary chooses, or with a fixed one."""
        from covary.committee.experts import together

        return Plan(costs, rows, workers, together(rows) if fixed is None else fixed)

    def _pass(self, each: float, extra: float = 0.0, size: int = 0) -> float:
        """Return the time of a pass over all experts: ``each`` s per expert, ``extra`` s per batch, ``size`` bytes a result."""
        experts = self.rows / EACH
        many = max(1, self.together // EACH)
        count = max(1, round(experts / many))
        return passed(np.full(count, many * each + extra), self.workers, self.costs.task + self.costs.byte * size, LATENCY)

    def deal(self) -> float:
        """Return the time to read every row once and sort it by expert."""
        count = max(1, self.rows // GROUP)
        each = self.costs.read * min(GROUP, self.rows)
        return passed(np.full(count, each), self.workers, self.costs.task, LATENCY)

    def evaluate(self) -> float:
        """Return the time of one sum of all evidences and its gradient (``learning="full"``)."""
        return self._pass(float(self.costs.of("evidence", EACH)))

    def condition(self) -> float:
        """Return the time to collect the rows and to condition every expert on them and on the shared rows."""
        files = max(1, self.rows // GROUP)
        return self._pass(
            float(self.costs.of("condition", 2 * EACH)), self.together * self.costs.collect + files * self.costs.file
        )

    def predict(self) -> float:
        """Return the time to condition every expert and predict."""
        each = float(self.costs.of("condition", 2 * EACH) + self.costs.of("predict", 2 * EACH))
        return self._pass(each, 0.0, self.costs.result)


def weak(costs: Costs, learning: float, fixed: int | None = None) -> list[dict[str, float]]:
    """Weak scaling: a million rows per worker."""
    return [point(costs, learning, PER_WORKER * W, W, fixed) for W in WORKERS if PER_WORKER * W <= 1.1 * LARGEST]


def strong(costs: Costs, learning: float, fixed: int | None = None) -> list[dict[str, float]]:
    """Strong scaling: a billion rows on an increasing number of workers."""
    return [point(costs, learning, LARGEST, W, fixed) for W in WORKERS if W >= 16]


@cache
def point(costs: Costs, learning: float, rows: int, workers: int, fixed: int | None = None) -> dict[str, float]:
    """Return the seconds of every phase for a number of rows and workers."""
    plan = Plan.of(costs, rows, workers, fixed)
    parts = {"deal": plan.deal(), "condition": plan.condition(), "predict": plan.predict(), "evaluate": plan.evaluate()}
    held = rows * COLUMNS * 8 / workers / 2**30
    return {"workers": workers, "rows": rows, "fit": parts["deal"] + learning + parts["condition"], "held": held, **parts}


def picture(path: Path, costs: Costs, learning: float, small: int) -> None:
    """Plot weak and strong scaling."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    blue, orange = "#0072B2", "#D55E00"
    fig, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.9))
    for together, style in ((small, (0, (4, 1.6))), (None, "-")):
        grown, fixed = weak(costs, learning, together), strong(costs, learning, together)
        for what, colour in (("fit", blue), ("predict", orange)):
            word = "fit" if what == "fit" else f"predict {TESTED:,} rows"
            label = word if together is None else f"{word}, in batches of {together:,} rows"
            left.plot([p["workers"] for p in grown], [p[what] / 60 for p in grown], color=colour, ls=style, label=label)
            right.plot([p["workers"] for p in fixed], [p[what] / 3600 for p in fixed], color=colour, ls=style)
    first = fixed[0]
    ideal = [first["fit"] / 3600 * first["workers"] / p["workers"] for p in fixed]
    right.plot([p["workers"] for p in fixed], ideal, color="#8A8A8A", lw=1, ls=":", label="fit, ideal")
    left.set(title="weak: a million rows per worker", ylabel="minutes", xlabel="workers = millions of rows")
    right.set(title="strong: a billion rows", ylabel="hours", xlabel="workers")
    for ax in (left, right):
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter("{x:g}")
        ax.grid(alpha=0.3, which="both")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(fontsize=8, frameon=False)
    left.set_ylim(bottom=1)
    marks = [p["workers"] for p in grown][::2]
    left.set_xticks(marks, [f"{w:,}" for w in marks])
    marks = [p["workers"] for p in fixed][::2]
    right.set_xticks(marks, [f"{w:,}" for w in marks])
    fig.tight_layout()
    fig.savefig(path, dpi=130)
    plt.close(fig)
