"""Warnings that point to the line of user code that caused them."""

from __future__ import annotations

import sys
import warnings

from covary._errors import CovaryError, Text

PASSED = ("covary", "sklearn", "joblib")  # packages that are not user code: scikit-learn's functions call those of covary


def warn(text: Text | CovaryError) -> None:
    """Issue a ``UserWarning`` at the innermost line outside these packages, or at the outermost line if there is none."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in PASSED:
        level, frame = level + 1, frame.f_back
    warnings.warn(str(text), UserWarning, stacklevel=level)
