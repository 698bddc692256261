"""Tables for people: what was fitted, what a file holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from covary._words import counted
from covary.cli.output import console

if TYPE_CHECKING:
    from rich.table import Table

MOST_LINES = 30


def facts_table(facts: Sequence[tuple[str, str]]) -> Table:
    """Names beside what is said about them."""
    table = _table(show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(_plain(name), _plain(value))
    return table


def parameters_table(rows: Sequence[Any]) -> Table:
    """Parameters with error bars, of a Summary's rows."""
    table = _table()
    table.add_column("parameter", overflow="fold")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("±", justify="right", no_wrap=True)
    table.add_column("prior, state", style="dim", overflow="fold")
    for row in rows[:MOST_LINES]:
        table.add_row(_plain(row.name), row.value, row.error, _plain(row.note))
    return table


def relevance_table(shares: dict[str, float]) -> Table:
    """Input columns with a bar for each."""
    table = _table()
    table.add_column("input", overflow="fold")
    table.add_column("relevance", justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for name, share in list(shares.items())[:MOST_LINES]:
        table.add_row(_plain(name), f"{100 * share:.1f} %", "█" * round(20 * share))
    return table


def simple_table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> Table:
    """A table of words; the columns numbered in ``right`` are numbers."""
    table = _table()
    for i, title in enumerate(titles):
        table.add_column(title, justify="right" if i in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_plain(cell) for cell in row))
    return table


def show_model(
    summary: Any, shares: dict[str, float], inputs: int, *, extra: Sequence[tuple[str, str]] = (), note: str = ""
) -> None:
    """Facts, parameters, relevance."""
    out = console()
    out.print(summary.title, style="bold")
    out.print(facts_table([*extra, *(fact for fact in summary.facts if fact[0] != "classes")]))  # the target's line has them
    out.print()
    out.print(parameters_table(summary.rows))
    _more(out, len(summary.rows))
    if note:
        out.print(note, style="dim")
    if len(shares) > 1:
        out.print()
        out.print(relevance_table(shares))
        _more(out, len(shares))
        out.print("relevance: the share of the function's variation that involves the column", style="dim")
        if inputs > len(shares):
            out.print(
                f"told of the {len(shares)} of {counted(inputs, 'column')} along which predictions move most", style="dim"
            )


def _more(out: Any, count: int) -> None:
    if count > MOST_LINES:
        out.print(f"  and {count - MOST_LINES} more: --json lists all", style="dim")


def _table(*, show_header: bool = True) -> Table:
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD if show_header else None, show_header=show_header, pad_edge=True, padding=(0, 1))


def _plain(text: str) -> Any:
    """Text as it is: brackets of column names are no markup."""
    from rich.text import Text

    return Text("".join(c if c.isprintable() else " " for c in str(text)))
