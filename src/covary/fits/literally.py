"""Literal dollar signs in user-defined names shown in figures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.artist import Artist

FORMULA = re.compile(r"\$[^$]*[\\^_][^$]*\$")  # text between two dollar signs that may be a formula


def literally(artist: Artist) -> None:
    """Show dollar signs in the texts of a figure literally, except around formulas that matplotlib can parse."""
    from matplotlib.mathtext import MathTextParser
    from matplotlib.text import Text

    for text in artist.findobj(Text):
        words = text.get_text()
        if "$" not in words:
            continue
        try:
            formula = bool(FORMULA.search(words)) and bool(MathTextParser("path").parse(words))
        except ValueError:
            formula = False
        text.set_parse_math(formula)
