"""The record of a diagnosis: checks, each a number with its threshold, a verdict, a sentence, advice and a picture."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from covary._checks import fail
from covary._words import counted
from covary.diagnosis.foretold import Foretold
from covary.plots.style import literally

OK, NOTE, WARNING, MISSING = "ok", "note", "warning", "not available"

FALSE_ALARM = 0.01  # the chance that any one of the tests below warns about a model that is right
TESTS = 7  # how many share it: two of coverage, the PIT, structure, varying noise, tails, stated noise
LEVEL = FALSE_ALARM / TESTS
FEWEST = 20  # rows below which nothing is tested


@dataclass(frozen=True)
class Check:
    """One question asked of a fit.

    ``value`` is the number found and ``threshold`` what it is held against, ``rule`` how (``"at most 0.02"``); ``verdict`` is
    ``"ok"``, ``"note"`` (worth knowing, nothing against the fit), ``"warning"`` or ``"not available"``; ``sentence`` says what
    was found and ``advice`` what to do about it.
    """

    name: str
    title: str
    value: float | None
    threshold: float | None
    rule: str
    verdict: str
    sentence: str
    advice: str = ""
    draw: Callable[[Any], None] | None = field(default=None, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against the fit here."""
        return self.verdict != WARNING

    def plot(self, ax: Any = None) -> Any:
        """The picture of this check.

        Parameters
        ----------
        ax
            The axes to draw on, made if None.
        """
        if self.draw is None:
            raise fail("Check.plot", f"there is no picture of {self.name!r}", "read its sentence")
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(figsize=(4.8, 3.4), layout="constrained")[1]
        self.draw(ax)
        literally(ax)
        return ax


def missing(name: str, title: str, why: str) -> Check:
    """A check that could not be made, and why."""
    return Check(name, title, None, None, "", MISSING, why)


@dataclass(frozen=True)
class Diagnosis:
    """Should I trust it? Every check of a fit, the warnings among them first in print.

    ``checks`` are all of them, ``warnings`` those that speak against the fit; ``diagnosis["coverage"]`` is one. ``foretold``
    holds the predictions that were held against the truth, row by row. Where new rows were given, ``queries`` says of each
    what share of the prior's variance the data have left, and ``extrapolates`` which of them lie beyond the data.
    """

    checks: tuple[Check, ...]
    foretold: Foretold | None = field(default=None, repr=False)
    queries: np.ndarray | None = field(default=None, repr=False)
    extrapolates: np.ndarray | None = field(default=None, repr=False)

    @property
    def warnings(self) -> tuple[Check, ...]:
        """The checks that speak against the fit."""
        return tuple(check for check in self.checks if check.verdict == WARNING)

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against the fit."""
        return not self.warnings

    def __getitem__(self, name: str) -> Check:
        for check in self.checks:
            if check.name == name:
                return check
        raise fail("Diagnosis", f"there is no check {name!r}", f"choose one of {', '.join(c.name for c in self.checks)}")

    def __iter__(self) -> Iterator[Check]:
        return iter(self.checks)

    def __len__(self) -> int:
        return len(self.checks)

    def to_frame(self) -> Any:
        """A pandas table, one row per check."""
        import pandas as pd

        names = ("name", "value", "rule", "verdict", "sentence", "advice")
        return pd.DataFrame([{name: getattr(check, name) for name in names} for check in self.checks])

    def __str__(self) -> str:
        count = len(self.warnings)
        made = sum(check.verdict != MISSING for check in self.checks)
        lines = [f"{counted(count, 'warning') if count else 'No warning'} from {counted(made, 'check')}", ""]
        for check in sorted(self.checks, key=lambda c: (WARNING, NOTE, OK, MISSING).index(c.verdict)):
            mark = {OK: "ok", NOTE: "note", WARNING: "WARNING", MISSING: "-"}[check.verdict]
            lines.append(f"  {mark:<8} {check.title}: {check.sentence}")
            if check.verdict in (WARNING, NOTE) and check.advice:
                lines.append(f"           → {check.advice}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"
