"""Summary of a fit as text, and as HTML for notebooks."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One parameter: name, value, error bar, and note (prior, state)."""

    name: str
    value: str
    error: str
    note: str


@dataclass(frozen=True)
class Summary:
    """Summary of a fit: print it, or display it in a notebook.

    Error bars come from the curvature of the evidence at the optimum: multiplicative for positive parameters (×/÷ the
    exponential of the standard error of the logarithm), additive for real ones.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]

    def warned(self, warnings: Iterable[str]) -> Summary:
        """Return a copy with warnings appended to the facts."""
        return dataclasses.replace(self, facts=(*self.facts, *(("warning", text) for text in warnings)))

    @property
    def head(self) -> tuple[str, ...]:
        """The headings of the table of parameters; the last one is empty if no parameter has a prior or a state."""
        return ("parameter", "value", "±", "prior, state" if any(row.note for row in self.rows) else "")

    def __str__(self) -> str:
        wide = max((len(k) for k, _ in self.facts), default=0)
        lines = [self.title, ""] + [f"  {k:<{wide}}  {v}" for k, v in self.facts] + [""] * bool(self.rows)
        table = [self.head, *((r.name, r.value, r.error, r.note) for r in self.rows)] if self.rows else []
        sizes = [max((len(line[i]) for line in table), default=0) for i in range(4)]
        for i, line in enumerate(table):
            cells = [f"{line[0]:<{sizes[0]}}", f"{line[1]:>{sizes[1]}}", f"{line[2]:>{sizes[2]}}", line[3]]
            lines.append(("  " + "  ".join(cells)).rstrip())
            if i == 0:
                lines.append("  " + "  ".join("─" * s for s in sizes if s))
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        facts = "".join(
            f"<tr><th style='text-align:left'>{_e(k)}</th><td style='text-align:left'>{_e(v)}</td></tr>" for k, v in self.facts
        )
        head = "".join(f"<th>{h}</th>" for h in self.head)
        body = "".join(
            f"<tr><td style='text-align:left'>{_e(r.name)}</td><td>{_e(r.value)}</td><td>{_e(r.error)}</td>"
            f"<td style='text-align:left'>{_e(r.note)}</td></tr>"
            for r in self.rows
        )
        table = f"<table><tr>{head}</tr>{body}</table>" if self.rows else ""
        return f"<div><b>{_e(self.title)}</b><table>{facts}</table>{table}</div>"


def _e(text: str) -> str:
    return html.escape(text)
