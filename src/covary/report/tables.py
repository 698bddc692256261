"""The tables of every report: columns of the data, classes, the largest errors, versions."""

from __future__ import annotations

import numpy as np

from covary._version import versions as installed
from covary.fits import AnyFit, Cell, Findings, Heading, Judged, Section, Summary, Table, Training
from covary.plots.columns import Scales
from covary.report.words import beside, number

MOST_ROWS = 8


def data_rows(fit: AnyFit, training: Training, scales: Scales) -> list[dict[str, str]]:
    """Return range, median, spread and distinct values of inputs and targets; empty if the family does not keep the rows."""
    if not training.rows:
        return []
    out = [_input(name, training.x[:, i], i, scales) for i, name in enumerate(fit.columns.names)]
    if fit.classes is not None:
        return out
    out += [_column(name, values, "target") for name, values in zip(fit.target, training.y.T, strict=False)]
    return out if training.size is None else [*out, _column("size", training.size, "trials or exposure")]


def _input(name: str, values: np.ndarray, j: int, scales: Scales) -> dict[str, str]:
    """Return a row of the table of columns, with dates as dates; for categories only the most frequent."""
    out = _column(name, values, "input")
    if scales.levels(j):
        kinds, counts = np.unique(values, return_counts=True)
        most = scales.text(j, float(kinds[counts.argmax()]))
        return out | {"role": "input, categories", "low": "", "middle": f"most frequent: {most}", "high": "", "spread": ""}
    if scales.dated(j):
        low, middle, high = (scales.text(j, float(np.quantile(values, q))) for q in (0.0, 0.5, 1.0))
        out |= {"low": low, "middle": middle, "high": high, "spread": f"{out['spread']} {scales.each[j].unit}"}
    return out


def _column(name: str, values: np.ndarray, role: str) -> dict[str, str]:
    low, middle, high = (float(np.quantile(values, q)) for q in (0.0, 0.5, 1.0))
    return {
        "name": name,
        "role": role,
        "low": number(low),
        "middle": number(middle),
        "high": number(high),
        "spread": number(float(values.std())),
        "different": f"{len(np.unique(values)):,}",
    }


def class_rows(fit: AnyFit) -> list[dict[str, str]]:
    """Return the number of rows of each class."""
    if fit.classes is None:
        return []
    total = float(np.sum(fit.classes.counts))
    return [
        {"name": str(c), "count": f"{float(n):,.0f}", "share": f"{100 * float(n) / total:.1f} %"}
        for c, n in zip(fit.classes.values, fit.classes.counts, strict=True)
    ]


def largest_errors(fit: AnyFit, found: Findings, seen: Judged, scales: Scales) -> list[dict[str, str]]:
    """Return the rows with the largest errors, with their values of the most relevant input."""
    at = places(found)
    if seen.p is not None and fit.classes is not None:
        codes = seen.y[:, 0].astype(int)
        own = seen.p[np.arange(len(codes)), codes]
        order = np.argsort(own)[:MOST_ROWS]
        return [
            {
                "row": f"{seen.rows[i]}",
                "place": _where(seen, int(i), at, scales),
                "seen": str(fit.classes.values[codes[i]]),
                "said": str(fit.classes.values[int(seen.p[i].argmax())]),
                "size": f"{100 * own[i]:.1f} %",
            }
            for i in order
        ]
    errors = seen.z[:, 0] if seen.has_error_bars else seen.y[:, 0] - seen.mean[:, 0]
    order = np.argsort(-np.abs(errors))[:MOST_ROWS]
    return [
        {
            "row": f"{seen.rows[i]}",
            "place": _where(seen, int(i), at, scales),
            "seen": number(float(seen.y[i, 0])),
            "said": _said(found.training, seen, int(i)),
            "size": _error(float(errors[i])) if seen.has_error_bars else number(float(errors[i])),
        }
        for i in order
    ]


def places(found: Findings) -> list[int]:
    """Return the columns that locate a row: both of two, else the most relevant one."""
    return [0, 1] if len(found.names) == 2 else list(found.important[:1])


def _where(seen: Judged, i: int, columns: list[int], scales: Scales) -> str:
    return ", ".join(scales.text(j, float(seen.x[i, j])) or number(float(seen.x[i, j])) for j in columns)


def _said(training: Training, seen: Judged, i: int) -> str:
    """Format the mean and the 95 % interval of a row: the half-width, or both ends if it is not symmetric."""
    mean = float(seen.mean[i, 0])
    if not seen.has_error_bars:
        return number(mean)
    if seen.ends is None:
        return beside(mean, float(1.96 * seen.std[i, 0]))
    low, high = (float(edge[i, 0]) for edge in seen.ends)
    if training.noise:
        return beside(mean, (high - low) / 2)
    return f"{number(mean, 2)} ({number(low, 3)} to {number(high, 3)})"


def _error(z: float) -> str:
    return f"{z:+.1f}".replace("-", "−").replace("inf", "∞")


def parameters(summary: Summary) -> Section:
    """Return the section with the parameters of a summary."""
    texts = [text.capitalize() for text in summary.head]
    used = [i for i in range(len(texts)) if any((row.name, row.value, row.error, row.note)[i] for row in summary.rows)]
    head = tuple(Heading(texts[i], "n" if i in (1, 2) else "") for i in used)
    cells = [(Cell(row.name, code=True), Cell(row.value), Cell(row.error), Cell(row.note)) for row in summary.rows]
    rows = tuple(tuple(each[i] for i in used) for each in cells)
    return Section("parameters", "Parameters", "Parameters", [Table("Parameters", head, rows)] if rows else [])


def versions(fit: AnyFit) -> list[tuple[str, str]]:
    """Return the versions of the software, and the seed."""
    arguments, made = fit.origin.arguments, fit.origin.made or {}
    seed = arguments.get("random_state", made.get("seed"))
    words = "none given" if seed is None else str(seed) if isinstance(seed, int | np.integer) else "a generator"
    found = installed("jax", "numpy", "scipy", "scikit-learn", "matplotlib")
    return [
        *((name.replace("python", "Python"), text) for name, text in found.items()),
        *([("Seed", words)] if "random_state" in arguments or "seed" in made else []),
    ]
