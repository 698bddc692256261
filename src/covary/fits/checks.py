"""Results of a diagnosis: checks with a value, threshold, verdict, explanation, advice and plot."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from covary._checks import fail
from covary._words import counted
from covary.fits.literally import literally
from covary.fits.training import Judged

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

OK, NOTE, WARNING, MISSING = "ok", "note", "warning", "not available"

FALSE_ALARM = 0.01  # the probability that any of the tests below warns about a correct model
TESTS = 7  # tests that share it: two of coverage, the PIT, structure, varying noise, tails, stated noise
LEVEL = FALSE_ALARM / TESTS
FEWEST = 20  # rows required for a test


@dataclass(frozen=True)
class Check:
    """The result of one check of a fit.

    ``value`` is compared with ``threshold`` as described by ``rule`` (``"at most 0.02"``); ``verdict`` is
    ``"ok"``, ``"note"`` (worth knowing, but not a problem), ``"warning"`` or ``"not available"``; ``sentence`` describes the
    result and ``advice`` what to do about it. ``finding`` is the sentence without its interpretation, if there is one.
    """

    name: str
    title: str
    value: float | None
    threshold: float | None
    rule: str
    verdict: str
    sentence: str
    advice: str = ""
    draw: Callable[[Axes], None] | None = field(default=None, repr=False, compare=False)
    finding: str = field(default="", repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether this check found no problem."""
        return self.verdict != WARNING

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot this check.

        Parameters
        ----------
        ax
            The axes to draw on; created if None.
        """
        if self.draw is None:
            raise fail("Check.plot", f"there is no plot of {self.name!r}", "read its sentence attribute instead")
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(figsize=(4.8, 3.4), layout="constrained")[1]
        self.draw(ax)
        literally(ax)
        return ax


def missing(name: str, title: str, why: str) -> Check:
    """Return a check that could not be carried out, with the reason."""
    return Check(name, title, None, None, "", MISSING, why)


@dataclass(frozen=True)
class Diagnosis:
    """The results of all checks of a fit; warnings are printed first.

    ``checks`` holds all checks, ``warnings`` those that found a problem; ``diagnosis["coverage"]`` returns one by name.
    ``judged`` holds the predictions and the observed values of each row. If new rows were given, ``queries`` is the ratio of
    posterior to prior variance at each (None if the family has no prior), and ``extrapolates`` marks those outside the data.
    """

    checks: tuple[Check, ...]
    judged: Judged | None = field(default=None, repr=False)
    queries: np.ndarray | None = field(default=None, repr=False)
    extrapolates: np.ndarray | None = field(default=None, repr=False)

    @property
    def warnings(self) -> tuple[Check, ...]:
        """The checks that found a problem."""
        return tuple(check for check in self.checks if check.verdict == WARNING)

    @property
    def ok(self) -> bool:
        """Whether no check found a problem."""
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

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with one row per check."""
        import pandas as pd

        names, texts = ("name", "value", "rule", "verdict"), ("sentence", "advice")
        rows = [{k: getattr(c, k) for k in names} | {k: str(getattr(c, k)) for k in texts} for c in self.checks]
        return pd.DataFrame(rows)

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
