"""Progress bar with the remaining time on stderr, shown after two seconds and on a terminal only."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from covary._words import clock, counted
from covary.cli.output import console

PATIENCE = 2.0  # seconds before anything is shown


class Bar:
    """Line that appears after two seconds, with the current operation, its progress and the remaining time."""

    def __init__(self, show: bool, quiet: bool = False) -> None:
        self.quiet = quiet
        self.task: Any = None
        self.progress: Any = None
        self.timer: threading.Timer | None = None
        self.lock, self.over = threading.Lock(), False
        if show:
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

            self.progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=16),
                TextColumn("{task.fields[share]}", markup=False),
                TextColumn("{task.fields[left]}", markup=False),
                console=console(stderr=True),
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self.task = self.progress.add_task("", total=None, share="", left="")
            self.timer = threading.Timer(PATIENCE, self._appear)
            self.timer.daemon = True
            self.timer.start()

    def _appear(self) -> None:
        with self.lock:
            if not self.over:
                self.progress.start()

    def stage(self, text: str) -> None:
        """Show an operation of unknown duration."""
        if self.progress is not None:
            self.progress.update(self.task, description=text, total=None, completed=0, share="", left="")

    def at(self, text: str, fraction: float, seconds: float) -> None:
        """Show the fraction of the work that is done, and the remaining time estimated from the seconds so far."""
        if self.progress is not None:
            left = seconds * (1 - fraction) / fraction if fraction > 0 else 0.0
            shown = f"{clock(left)} left" if seconds > PATIENCE and fraction > 0.02 else ""
            self.progress.update(
                self.task, description=text, total=1.0, completed=fraction, share=f"{100 * fraction:.0f} %", left=shown
            )

    def say(self, text: str) -> None:
        """Print a permanent line on stderr, above the bar."""
        if not self.quiet:
            out = console(stderr=True) if self.progress is None else self.progress.console
            out.print(text, soft_wrap=True)

    def close(self) -> None:
        """Remove the line."""
        if self.timer is not None:
            self.timer.cancel()
        with self.lock:
            self.over = True
            if self.progress is not None:
                self.progress.stop()


@contextmanager
def bar(*, quiet: bool = False) -> Iterator[Bar]:
    """Yield a bar, visible if stderr is a terminal and not ``quiet``."""
    made = Bar(not quiet and sys.stderr.isatty(), quiet)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def learning(shown: Bar) -> Iterator[None]:
    """Show the progress of learning on the bar within a block."""
    from covary.selection.state import watching

    last: dict[str, Any] = {"text": "learning", "fraction": 0.0, "step": 0.0, "began": time.monotonic()}

    def tell(now: Any) -> None:
        rows = f" {now.rows:,}/{now.levels[-1]:,} rows" if len(now.levels) > 1 else f" {counted(now.rows, 'row')}"
        start = f", start {now.start + 1}/{now.starts}" if now.starts > 1 and now.level == 0 else ""
        text, step = f"learning{rows}{start}", max(0.0, now.fraction - last["fraction"])
        last.update(text=text, fraction=now.fraction, step=step, began=time.monotonic() - now.seconds)
        shown.at(text, now.fraction, now.seconds)

    def pieces(what: str, done: int, total: int) -> None:
        if what != "learning":
            shown.at(f"{what} {done:,}/{total:,}", done / total, 0.0)
        elif total > 1:  # within an evaluation, assume the same step as the last one
            fraction = min(0.99, last["fraction"] + last["step"] * done / total)
            shown.at(f"{last['text']}, {done:,}/{total:,} groups of experts", fraction, time.monotonic() - last["began"])

    shown.stage("learning")
    with watching(tell, pieces):
        yield
