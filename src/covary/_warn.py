"""Warnings that point at the line of the user's that brought them about, however many of the library's own lie between."""

from __future__ import annotations

import sys
import warnings

PASSED = ("covary", "sklearn", "joblib")  # packages whose lines are nobody's own: scikit-learn's verbs call those of covary


def warn(text: str) -> None:
    """A ``UserWarning`` at the innermost line outside these packages; at the outermost line where there is none."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in PASSED:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, UserWarning, stacklevel=level)
