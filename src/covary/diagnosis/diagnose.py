"""All checks of one fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from covary._checks import CovaryError
from covary.diagnosis.classes import check_classes
from covary.diagnosis.errors import check_errors
from covary.diagnosis.fitting import check_bounds, check_data, check_fit, check_priors
from covary.diagnosis.foretold import Foretold, foretell
from covary.diagnosis.queries import check_queries
from covary.diagnosis.record import WARNING, Check, Diagnosis, missing
from covary.diagnosis.subject import Subject

QUICK = 2000  # rows up to which everything is done in a second or two


def quick_warnings(subject: Subject) -> list[str]:
    """One sentence and its advice for every warning there is; of many rows only those that cost nothing.

    The digits of the numbers are left out: whoever asks this looks at them anyway.
    """
    many = subject.post.data.rows > QUICK
    checks = [check_priors(subject), check_bounds(subject)] if many else diagnose(subject)
    return [f"{check.sentence} {check.advice}" for check in checks if check.verdict == WARNING and check.name != "conditioning"]


def diagnose(subject: Subject, X: Any = None, y: Any = None) -> Diagnosis:
    """Every check of a fit; see :class:`Diagnosis`.

    Parameters
    ----------
    subject
        The fit.
    X
        New rows (m, d), to be told which of them lie beyond the data.
    y
        What was seen there, in the user's units (codes of classes): the error bars are then held against these rows, instead
        of against every training row left out in turn.
    """
    seen: Foretold | None = None
    try:
        seen = foretell(subject) if y is None else foretell(subject, X, y)
        checks = check_errors(subject, seen) if subject.classes is None else check_classes(subject, seen)
    except (CovaryError, np.linalg.LinAlgError) as error:
        why = f"There are no leave-one-out predictions here: {error}"
        checks: list[Check] = [missing("errors", "Error bars", why)]
    tested = len(seen) if seen is not None and seen.kind == "new rows" else 0
    checks = [*check_data(subject, tested), *checks, *check_fit(subject)]
    if X is None:
        return Diagnosis(tuple(checks), seen)
    known = seen.share if seen is not None and seen.kind != "new rows" else None
    check, share, flagged = check_queries(subject, X, known)
    return Diagnosis((*checks, check), seen, share, flagged)
