"""What a benchmark returns, and how it is written down."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path

PEERS = ("torch", "gpytorch", "botorch", "GPy", "gpjax", "celerite2", "gpboost")
PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "scikit-learn", *PEERS)
RESULTS = "results.json"


@dataclass(frozen=True)
class Bar:
    """A promise, what was measured, and whether it was kept. ``least`` promises are kept by larger numbers."""

    what: str
    measured: float
    limit: float
    unit: str = "×"
    least: bool = False

    @property
    def met(self) -> bool:
        """Whether the promise was kept."""
        return self.measured >= self.limit if self.least else self.measured <= self.limit

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """The bar as a row of a table."""
        sign = "≥" if self.least else "≤"
        unit = self.unit if self.unit == "×" else f" {self.unit}"
        return self.what, f"{figure(self.measured)}{unit}", f"{sign} {self.limit:g}{unit}", "yes" if self.met else "**no**"


@dataclass(frozen=True)
class Table:
    """A table with a heading and remarks below it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        wrong = [row for row in self.rows if len(row) != len(self.columns)]
        if wrong:
            raise ValueError(f"{self.title}: a row has {len(wrong[0])} cells but there are {len(self.columns)} columns")

    def markdown(self) -> str:
        """The table in Markdown, its columns aligned so that the plain text can be read too."""
        lines = grid(self.columns, self.rows)
        if self.notes:
            lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(["", f"## {self.title}", "", *lines, ""])


@dataclass(frozen=True)
class Report:
    """One script's outcome: its tables and the bars it judges."""

    title: str
    text: str
    tables: Sequence[Table]
    bars: Sequence[Bar] = field(default_factory=tuple)

    def markdown(self) -> str:
        """The whole report in Markdown."""
        parts = [f"# {self.title}", "", self.text, ""]
        if self.bars:
            parts += [*grid(("bar", "measured", "asked", "met"), [bar.cells for bar in self.bars]), ""]
        return "\n".join(parts) + "".join(table.markdown() for table in self.tables)


def grid(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table; all but the first column to the right."""
    widths = [max(3, *(len(str(cell)) for cell in column)) for column in zip(columns, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        first, *rest = (str(cell) for cell in cells)
        return "| " + " | ".join([first.ljust(widths[0]), *(c.rjust(w) for c, w in zip(rest, widths[1:], strict=True))]) + " |"

    rule = "| " + " | ".join(["-" * widths[0], *("-" * (w - 1) + ":" for w in widths[1:])]) + " |"
    return [line(columns), rule, *(line(row) for row in rows)]


def figure(value: float) -> str:
    """A number with three significant digits, without an exponent."""
    size = abs(value)
    return (
        f"{value:.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.1 else f"{value:.4f}"
    )


def machine() -> str:
    """The processor, its cores and the memory, in words."""
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = ""
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = f", {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    return f"{model}, {cores} cores{memory}, {platform.system()}"


def versions() -> str:
    """Python, covary and every package that takes part and is installed."""
    import covary

    found = [f"Python {platform.python_version()}", f"covary {covary.__version__}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def write(folder: Path, name: str, report: Report, others: float) -> None:
    """Write the page of one report, and a README that sums up every bar, also those of the other scripts' last runs."""
    folder.mkdir(parents=True, exist_ok=True)
    held = folder / RESULTS
    results = json.loads(held.read_text()) if held.exists() else {}
    stamp = {"date": time.strftime("%Y-%m-%d"), "machine": machine(), "versions": versions()}
    load = f"other processes used {others:.1f} cores on average during the run"
    foot = f"\n---\n{stamp['date']} · {stamp['machine']} · {stamp['versions']} · {load}\n"
    (folder / f"{name}.md").write_text(report.markdown() + foot)
    results[name] = stamp | {"title": report.title, "others": round(others, 2), "bars": [asdict(bar) for bar in report.bars]}
    held.write_text(json.dumps(results, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    (folder / "README.md").write_text(summary(results))


def summary(results: dict[str, dict]) -> str:
    """The README of the folder: every bar, the machine, the versions, the date, how to run it again."""
    rows = []
    for name, result in sorted(results.items()):
        for bar in result["bars"]:
            rows.append((f"[{name}]({name}.md)", *Bar(**bar).cells, f"{result['others']:.1f}", result["date"]))
    lines = [
        "# Benchmarks",
        "",
        "What covary promises about speed and memory, and what was measured. Ratios are between figures of the same run;",
        "cases that covary loses are left in. Times are the best of several repeats that take turns. *others* is how many",
        "cores other processes used meanwhile: the more, the less the figures are worth.",
        "",
        *grid(("script", "bar", "measured", "asked", "met", "others", "date"), rows),
        "",
        "Pages: " + ", ".join(f"[{result['title']}]({name}.md)" for name, result in sorted(results.items())) + ".",
        "",
    ]
    for field_ in ("machine", "versions"):
        lines.append(f"{field_.capitalize()}: " + "; ".join(sorted({result[field_] for result in results.values()})) + ".")
        lines.append("")
    lines += [
        "Run them again with `make bench` (an environment of its own with the peers, about 25 minutes on two cores), one",
        "script with `python -m benchmarks.run --only fit --out docs/benchmarks`, and all of them at n = 200 without the",
        "peers, in less than a minute, with `make bench-smoke`.",
        "",
    ]
    return "\n".join(lines)
