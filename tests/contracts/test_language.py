"""Plain English: phrases to avoid in documentation, docstrings and messages, with better alternatives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

INSTEAD = {
    r"foret(?:ell|ells|elling|old)": "predict; leave-one-out predictions",
    r"part(?:s|ed|ing)? (?:among|into experts|the rows)|parted": "split across",
    r"go(?:es)? on from (?:there|here|where)": "resumes",
    r"mend(?:s|ed|ing)?": "fix",
    r"soon done": "fast",
    r"speaks? against": "no numerical problems",
    r"bears? a wrong model": "more robust to misspecification",
    r"(?:you|was|were|is|are|be) asked (?:for|about)": "as requested",
    r"asked for it": "as requested",
    r"as people have (?:it|them)": "real-world tables",
    r"three witnesses|witness(?:es)?": "checked three ways",
    r"trunk": "core API",
    r"front(?:-| )(?:doors?|hall)|(?:at|behind) the doors?": "estimators; public functions",
    r"of the house|house rules?": "rules of the project",
    r"(?:these|those|the) walls?(?! time)|upper rooms?|ground floor": "interfaces, packages",
    r"(?:a|an|its|each|every|this) rooms?(?! for)": "package",
    r"tells? what a model file": "describe a model file",
    r"whoever|whomever|whatsoever|thereof|wherein|hitherto|anew|afresh": "modern words",
    r"(?:in|with|by) (?:a|one|its own|the same) sentence": "raises an error",
    r"(?:is|are) said to be": "a note says",
    r"broken off": "interrupted",
    r"of one's own": "your own",
    r"least, middle,? (?:and )?most": "Min, Median, Max",
    r"whole or not at all": "completely or not at all",
    r"(?:is|are|was|were) to be had": "is available",
    r"what becomes of|in the course of|of which it is known": "modern words",
    r"found out": "detected, determined",
    r"at hand": "available",
    r"who has which": "rows assigned to each expert",
    r"(?:is|are|was|were) told(?! apart)": "gets an argument",
}
SPACE = r"[\s#]+"  # a phrase may continue on the next line, also in a comment
PATTERN = re.compile("|".join(rf"\b(?:{pattern})\b" for pattern in INSTEAD).replace(" ", SPACE), re.I)


def faults(path: Path) -> list[str]:
    """Return the phrases to avoid in a file, with their lines."""
    text = path.read_text("utf-8")
    return [
        f"{path.relative_to(ROOT)}:{text[: found.start()].count(chr(10)) + 1}: {' '.join(found[0].split())}"
        for found in PATTERN.finditer(text)
    ]


def pages() -> list[Path]:
    """Return the files that users read: documentation, examples, source and Makefile."""
    return [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "docs").rglob("*.py"),
        *(ROOT / "examples").rglob("*.py"),
        *(ROOT / "src" / "covary").rglob("*.py"),
        ROOT / "Makefile",
    ]


def test_documentation_and_source_are_in_plain_english() -> None:
    found = [fault for path in pages() for fault in faults(path)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "phrase",
    [
        "Every row was foretold by the others.",
        "rows parted\namong experts",
        "The trunk",
        "nothing is mended",
        "# written whole or\n    # not at all",
        "the rules of\n    the house",
        "the front-door packages",
    ],
)
def test_the_phrases_are_recognised(phrase: str) -> None:
    assert PATTERN.search(phrase)
