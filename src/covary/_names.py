"""Names that a module does not have, and what to write instead."""

from __future__ import annotations

import sys

IMPORTING = ("importlib._bootstrap", "_frozen_importlib")


def missing(module: str, name: str, hint: str = "") -> Exception:
    """The error for a name that a module lacks, to be raised by its ``__getattr__``.

    ``from module import name`` replaces every AttributeError by a sentence of its own, without the hint; an ImportError passes.
    """
    imported = hint and sys._getframe(2).f_globals.get("__name__") in IMPORTING
    kind = ImportError if imported else AttributeError
    return kind(f"module {module!r} has no attribute {name!r}{f'; {hint}.' if hint else ''}")
