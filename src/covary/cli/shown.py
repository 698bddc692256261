"""Descriptions of models, and tables for text output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from covary import plots
from covary._checks import CovaryError
from covary._words import clock, counted
from covary.cli.output import console
from covary.cli.progress import Bar
from covary.cli.rendering import rendered
from covary.diagnosis import quick_warnings
from covary.fits import AbstractFamily, AnyFit, Json, Summary, family_of
from covary.tables.described import column_facts

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

MOST_LINES = 30
QUICK_ROWS = 50_000  # most rows on disk for which relevance is computed, which reads them several times
A_MINUTE = 60.0  # seconds that error bars may take unless they are requested


@dataclass(frozen=True)
class Told:
    """Description of a fit: summary, with or without error bars, relevance of each column, and notes on omissions."""

    fit: AnyFit
    summary: Summary
    error_bars: bool
    shares: dict[str, float]
    notes: tuple[str, ...] = ()

    @staticmethod
    def of(fit: AnyFit, error_bars: bool | None, max_time: float | None, progress: Bar) -> Told:
        """Describe a fit; error bars as requested, or by default if they take less than a minute or ``max_time``."""
        bars, note = worth_error_bars(fit, error_bars, max_time)
        progress.stage("computing error bars")
        summary = summary_of(fit, error_bars=bars)
        progress.stage("computing relevance")
        shares, unsaid = relevance(fit)
        return Told(fit, in_words(summary), bars, shares, tuple(text for text in (note, unsaid) if text))

    @property
    def family(self) -> AbstractFamily[object]:
        """The family of the fit."""
        return family_of(self.fit)

    def json(self) -> dict[str, Json]:
        """Return the description as JSON."""
        return {
            "columns": column_facts(self.fit.columns),
            **self.family.facts(self.fit),
            "parameters": self.family.parameters(self.fit, self.summary, error_bars=self.error_bars),
            "relevance": self.shares,
        }

    def show(self, extra: Sequence[tuple[str, str]]) -> None:
        """Print facts, parameters and relevance."""
        out, inputs = console(), len(self.fit.columns.keys)
        out.print(self.summary.title, style="bold")
        facts = [(name, str(text)) for name, text in self.summary.facts]
        out.print(facts_table([*extra, *(fact for fact in facts if fact[0] != "classes")]))  # shown in the line of the target
        if self.summary.rows:
            out.print()
            out.print(parameters_table(self.summary))
            _more(out, len(self.summary.rows))
        if self.notes:
            out.print("; ".join(self.notes), style="dim")
        if len(self.shares) > 1:
            out.print()
            out.print(relevance_table(self.shares))
            _more(out, len(self.shares))
            out.print("relevance: the share of the function's variation that involves the column", style="dim")
            if inputs > len(self.shares):
                what = f"shown for the {len(self.shares)} of {counted(inputs, 'column')} along which predictions vary most"
                out.print(what, style="dim")


def worth_error_bars(fit: AnyFit, asked: bool | None, max_time: float | None) -> tuple[bool, str]:
    """Return whether to compute error bars, and the note if they are omitted."""
    if asked is not None:
        return asked, ""
    needed = family_of(fit).price(fit)
    if needed <= (A_MINUTE if max_time is None else max(1.0, max_time)):
        return True, ""
    return False, f"no error bars: they would take about {clock(needed)}; compute them with --error-bars yes"


def summary_of(fit: AnyFit, *, error_bars: bool) -> Summary:
    """Return the summary of a fit and its warnings, with or without error bars."""
    found = family_of(fit).summary(fit if error_bars else family_of(fit).without_error_bars(fit))
    if not error_bars:
        found = replace(found, rows=tuple(replace(row, error="") for row in found.rows))
    return found.warned(quick_warnings(fit))


def in_words(summary: Summary) -> Summary:
    """Return the summary in terms of the command: options instead of arguments."""
    return replace(summary, facts=tuple((name, rendered(text)) for name, text in summary.facts))


def relevance(fit: AnyFit) -> tuple[dict[str, float], str]:
    """Return the relevance of each column, or the reason for omitting it."""
    rows, on_disk = family_of(fit).rows(fit)
    if on_disk and rows is not None and rows > QUICK_ROWS:
        return {}, f"no relevance: it would read the {counted(rows, 'row')} on disk several times"
    keys = dict(zip(fit.columns.names, fit.columns.keys, strict=True))
    try:
        found = plots.relevance(fit)
    except CovaryError:  # a family without training rows
        return {}, ""
    return {keys.get(name, name): share for name, share in zip(found.names, found.values.tolist(), strict=True)}, ""


# tables -----------------------------------------------------------------------------------------------------------
def facts_table(facts: Sequence[tuple[str, str]]) -> Table:
    """Return a table of names and values."""
    table = _table(show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(_plain(name), _plain(value))
    return table


def parameters_table(summary: Summary) -> Table:
    """Return the table of parameters of a summary, with error bars."""
    table, (name, value, error, note) = _table(), summary.head
    table.add_column(name, overflow="fold")
    table.add_column(value, justify="right", no_wrap=True)
    table.add_column(error, justify="right", no_wrap=True)
    table.add_column(note, style="dim", overflow="fold")
    for row in summary.rows[:MOST_LINES]:
        table.add_row(_plain(row.name), row.value, row.error, _plain(row.note))
    return table


def relevance_table(shares: dict[str, float]) -> Table:
    """Return a table of input columns, with a bar for each relevance."""
    table = _table()
    table.add_column("input", overflow="fold")
    table.add_column("relevance", justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for name, share in list(shares.items())[:MOST_LINES]:
        table.add_row(_plain(name), f"{100 * share:.1f} %", "█" * round(20 * share))
    return table


def simple_table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> Table:
    """Return a table of text; the columns whose numbers are in ``right`` are aligned to the right."""
    table = _table()
    for i, title in enumerate(titles):
        table.add_column(title, justify="right" if i in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_plain(cell) for cell in row))
    return table


def _more(out: Console, count: int) -> None:
    if count > MOST_LINES:
        out.print(f"  and {count - MOST_LINES} more: --json lists all", style="dim")


def _table(*, show_header: bool = True) -> Table:
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD if show_header else None, show_header=show_header, pad_edge=True, padding=(0, 1))


def _plain(text: str) -> Text:
    """Return text without markup: brackets in column names are literal."""
    from rich.text import Text

    return Text("".join(c if c.isprintable() else " " for c in str(text)))
