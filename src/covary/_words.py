"""Words that sentences share: numbers with their nouns."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number and what it counts.

    Examples
    --------
    >>> counted(1, "row"), counted(1200, "row"), counted(0, "such entry", "such entries")
    ('1 row', '1,200 rows', '0 such entries')
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"
