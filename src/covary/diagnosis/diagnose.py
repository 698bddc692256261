"""All checks of one fit."""

from __future__ import annotations

import numpy as np

from covary import fits
from covary._checks import CovaryError
from covary._errors import joined
from covary._words import counted
from covary.diagnosis.classes import check_classes
from covary.diagnosis.errors import check_errors
from covary.diagnosis.queries import check_queries
from covary.fits import AnyFit, Check, Diagnosis, Training
from covary.fits.checks import FEWEST, WARNING, missing

QUICK = 2000  # rows up to which all checks take a second or two


def quick_warnings(fit: AnyFit) -> list[str]:
    """Return the sentence and advice of every warning; with many rows, only of the checks that are fast to compute.

    Numerical problems are left out because every summary reports them.
    """
    family = fits.family_of(fit)
    many = family.training(fit).rows > QUICK
    checks = family.checks(fit, None, quick=True) if many else diagnose(fit)
    wanted = [check for check in checks if check.verdict == WARNING and check.name != "conditioning"]
    return [joined([check.sentence, check.advice], " ") for check in wanted]


def diagnose(model: fits.Model, x: np.ndarray | None = None, y: np.ndarray | None = None) -> Diagnosis:
    """Run every check of a fitted model; see :class:`Diagnosis`.

    Checks of the predictions are the same for every family; :meth:`covary.fits.AbstractFamily.checks` adds its own.

    Parameters
    ----------
    model
        A fit, or a fitted estimator.
    x
        New rows (m, d), as numbers, which are checked for extrapolation beyond the data.
    y
        The observations at x, in the user's units (codes of classes): the error bars are then checked on these rows instead
        of by leave-one-out on the training rows.
    """
    fit = fits.of(model, "diagnose")
    family = fits.family_of(fit)
    training, judged = family.training(fit), None
    try:
        judged = family.judged(fit) if y is None else family.judged(fit, x, y)
        made = check_errors if fit.kind == "regression" else check_classes
        checks = made(fit, training, judged)
    except (CovaryError, np.linalg.LinAlgError) as error:
        what = "leave-one-out predictions" if y is None else "predictions to compare with the observations"
        checks = [missing("errors", "Error bars", f"There are no {what}: {error}")]
    tested = len(judged) if judged is not None and judged.kind == "new rows" else 0
    checks = [*check_data(fit, training, tested), *checks, *family.checks(fit, judged)]
    if x is None or not training.rows:  # not every family keeps the training rows
        return Diagnosis(tuple(checks), judged)
    known = judged.share if judged is not None and judged.kind != "new rows" else None
    check, share, flagged = check_queries(fit, x, training, known)
    return Diagnosis((*checks, check), judged, share, flagged)


def check_data(fit: AnyFit, training: Training, tested: int) -> list[Check]:
    """Return a warning if there are too few rows to learn from or the observations do not vary, else nothing.

    ``tested`` is the number of new rows on which the error bars were checked; many of them compensate for few training rows.
    """
    name, title, rows = "data", "Amount of data", training.rows
    rule = f"{FEWEST} rows or more, and observations that vary"
    if rows < FEWEST and tested < FEWEST and training.learned:
        count = counted(rows, "different row" if training.merged else "row")
        what, more, until = "probabilities are right", "", ""
        if fit.kind == "regression":
            what, more = "error bars are right", "; with so few rows they are often too narrow"
            until = "; until then treat the error bars as a lower limit"
        said = f"{count} {'are' if rows > 1 else 'is'} too few to tell whether the {what}{more}."
        return [Check(name, title, float(rows), float(FEWEST), rule, WARNING, said, f"Use {FEWEST} rows or more{until}.")]
    if not training.still:
        return []
    which = ", ".join(training.still)
    said = f"The observations of {which} do not vary: there is nothing to learn, and the error bars are not informative."
    return [Check(name, title, float(rows), float(FEWEST), rule, WARNING, said, "Check that this is the right column.")]
