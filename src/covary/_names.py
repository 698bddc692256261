"""Errors for names that a module does not have, with suggestions."""

from __future__ import annotations

import sys

IMPORTING = ("importlib._bootstrap", "_frozen_importlib")


def missing(module: str, name: str, hint: str = "") -> Exception:
    """Return the error for a name that a module does not have, to be raised by its ``__getattr__``.

    ``from module import name`` replaces any AttributeError with a message that lacks the hint, but passes an ImportError on.
    """
    imported = hint and sys._getframe(2).f_globals.get("__name__") in IMPORTING
    kind = ImportError if imported else AttributeError
    return kind(f"module {module!r} has no attribute {name!r}{f'; {hint}.' if hint else ''}")
