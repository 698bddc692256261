"""Error bars that are wider than needed round errors that are tiny: worth a note, not a warning.

A smooth function seen without noise is foretold far better by its neighbours than a Matérn kernel believes it can be: every
error lies deep inside its error bar, and what pattern the errors have (larger at the edges, alike in neighbours) is nothing
that anyone would be misled by.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from covary.diagnosis.foretold import Foretold
from covary.diagnosis.record import NOTE, WARNING, Check
from covary.diagnosis.subject import Subject

TINY = 0.03  # of the spread of the observations: a typical error, R² above 0.999
INSIDE = 0.7  # a typical error over its error bar; of a right model 1, and with 80 rows never so little by chance
FAR = 4.0  # error bars that no error may exceed
SAFE = "The error bars can be relied on as they are"


def eased(subject: Subject, seen: Foretold, checks: list[Check]) -> list[Check]:
    """The checks of error bars, with notes instead of warnings where the error bars are merely cautious."""
    if not cautious(subject, seen):
        return checks
    most = 100 * float((np.abs(seen.y - seen.mean) / seen.y.std(0)).max())
    spread, rough = f"{most:.2g} % of the spread of the observations", "Matern" in repr(subject.post.model.kernel)
    return [_noted(check, spread, rough) if _mild(check) else check for check in checks]


def cautious(subject: Subject, seen: Foretold) -> bool:
    """Whether errors are tiny, all of them deep inside error bars that were learned."""
    if not subject.gaussian or subject.likelihood.mark_of("variance").fixed or not len(seen):
        return False
    tiny = np.sqrt(np.square(seen.y - seen.mean).mean(0)) <= TINY * seen.y.std(0)
    inside = np.sqrt(np.square(seen.z).mean(0)) < INSIDE
    return bool(tiny.all() and inside.all() and np.abs(seen.z).max() <= FAR)


def too_wide(seen: Foretold) -> float:
    """How many times as wide as needed the error bars are: 1.96 over the 95 % quantile of |z|."""
    return float(1.959964 / max(np.quantile(np.abs(seen.z), 0.95), 1e-12))


def _mild(check: Check) -> bool:
    if check.verdict != WARNING:
        return False
    if check.name in ("coverage", "coverage50"):
        return bool(check.value is not None and check.threshold is not None and check.value > check.threshold)
    return check.name in ("pit", "structure", "heteroscedastic", "outliers")


def _noted(check: Check, most: str, rough: bool) -> Check:
    found = check.sentence.partition(":")[0].rstrip(".")
    said = {
        "structure": f"{found}, but they are at most {most}.",
        "heteroscedastic": f"The errors differ in size from place to place, but they are at most {most}.",
        "outliers": f"A few errors are much larger than most (excess kurtosis {check.value:.1f}), but they are at most {most}.",
    }.get(check.name, f"{found}: the error bars are wider than needed, since errors are at most {most}.")
    advice = f"{SAFE}; a smoother kernel such as SquaredExponential may fit better." if rough else f"{SAFE}."
    advice = advice if check.name in ("coverage", "coverage50", "pit") else "Nothing need be done."
    return replace(check, verdict=NOTE, sentence=said, advice=advice)
