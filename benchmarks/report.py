"""Results of a benchmark, and the pages written from them."""

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
    """A criterion: what is measured, the value, and the target. With ``least`` the target is a lower limit."""

    what: str
    measured: float
    limit: float
    unit: str = "×"
    least: bool = False

    @property
    def met(self) -> bool:
        """Whether the target is met."""
        return self.measured >= self.limit if self.least else self.measured <= self.limit

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """The criterion as a row of a table."""
        sign = "≥" if self.least else "≤"
        unit = self.unit if self.unit == "×" else f" {self.unit}"
        return self.what, f"{figure(self.measured)}{unit}", f"{sign} {self.limit:g}{unit}", "yes" if self.met else "**no**"


@dataclass(frozen=True)
class Table:
    """A table with a heading, and notes below it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        wrong = [row for row in self.rows if len(row) != len(self.columns)]
        if wrong:
            raise ValueError(f"{self.title}: a row has {len(wrong[0])} cells but there are {len(self.columns)} columns")

    def markdown(self) -> str:
        """Return the table in Markdown, with columns aligned in the plain text."""
        lines = grid(self.columns, self.rows)
        if self.notes:
            lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(["", f"## {self.title}", "", *lines, ""])


@dataclass(frozen=True)
class Report:
    """Result of one script: its tables and criteria."""

    title: str
    text: str
    tables: Sequence[Table]
    bars: Sequence[Bar] = field(default_factory=tuple)

    def markdown(self) -> str:
        """Return the whole report in Markdown."""
        parts = [f"# {self.title}", "", self.text, ""]
        if self.bars:
            parts += [*grid(("criterion", "measured", "target", "met"), [bar.cells for bar in self.bars]), ""]
        return "\n".join(parts) + "".join(table.markdown() for table in self.tables)


def grid(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Return the lines of a Markdown table; all columns except the first ``left`` ones are right-aligned."""
    widths = [max(3, *(len(str(cell)) for cell in column)) for column in zip(columns, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = [str(c).ljust(w) if k < left else str(c).rjust(w) for k, (c, w) in enumerate(zip(cells, widths, strict=True))]
        return "| " + " | ".join(padded) + " |"

    rule = "| " + " | ".join("-" * w if k < left else "-" * (w - 1) + ":" for k, w in enumerate(widths)) + " |"
    return [line(columns), rule, *(line(row) for row in rows)]


def figure(value: float) -> str:
    """Format a number with three significant digits, without an exponent."""
    size = abs(value)
    return (
        f"{value:.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.1 else f"{value:.4f}"
    )


def machine() -> str:
    """Describe the processor, its cores and the memory."""
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
    """Return the versions of Python, covary and the installed packages that are used."""
    import covary

    found = [f"Python {platform.python_version()}", f"covary {covary.__version__}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def write(folder: Path, name: str, report: Report, others: float) -> None:
    """Write the page of one report, and a README with the criteria of this script and of the last runs of the others."""
    folder.mkdir(parents=True, exist_ok=True)
    held = folder / RESULTS
    results = json.loads(held.read_text()) if held.exists() else {}
    stamp = {"date": time.strftime("%Y-%m-%d"), "machine": machine(), "versions": versions()}
    load = f"background load (cores used by other processes, mean over the run): {others:.1f}"
    foot = f"\n---\n{stamp['date']} · {stamp['machine']} · {stamp['versions']} · {load}\n"
    (folder / f"{name}.md").write_text(report.markdown() + foot)
    results[name] = stamp | {"title": report.title, "others": round(others, 2), "bars": [asdict(bar) for bar in report.bars]}
    held.write_text(json.dumps(results, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    (folder / "README.md").write_text(summary(results))


def summary(results: dict[str, dict]) -> str:
    """Return the README of the folder: all criteria, machines, versions, dates, and how to run the scripts."""
    rows = []
    for name, result in sorted(results.items()):
        for bar in result["bars"]:
            date = result["date"].replace("-", "\u2011")  # a hyphen at which a narrow column does not break the line
            rows.append((f"[{name}]({name}.md)", *Bar(**bar).cells, f"{result['others']:.1f}", date))
    lines = [
        "# Benchmarks",
        "",
        "Targets for speed, memory and accuracy, and what was measured. Ratios compare figures of the same run; cases in",
        "which covary is slower are included. Times are the best of several alternating repeats. *Background load* is the",
        "mean number of cores that other processes used during the run; figures measured under load are less reliable.",
        "",
        *grid(("page", "criterion", "measured", "target", "met", "background load", "date"), rows, left=2),
        "",
        "Pages: " + ", ".join(f"[{result['title']}]({name}.md)" for name, result in sorted(results.items())) + ".",
        "",
    ]
    for field_ in ("machine", "versions"):
        lines.append(f"{field_.capitalize()}: " + "; ".join(sorted({result[field_] for result in results.values()})) + ".")
        lines.append("")
    lines += [
        "To run the benchmarks again, use `make bench` (creates a separate environment with the other libraries, about 25",
        "minutes on two cores). `python -m benchmarks.run --only fit --out docs/benchmarks` runs one script, and",
        "`make bench-smoke` all of them at n = 200 without the other libraries, in less than a minute.",
        "",
        "```{toctree}",
        ":hidden:",
        ":glob:",
        "",
        "[a-z]*",
        "```",
        "",
    ]
    return "\n".join(lines)
