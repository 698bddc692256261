"""Building blocks of messages: numbers with their nouns, suggestions of similar names, durations and sizes."""

from __future__ import annotations

from collections.abc import Sequence

# text that means a missing value in a cell of a text table or a spreadsheet
GAPS = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "null", "NULL", "None", "<NA>", "#N/A", "#NA")


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number followed by its noun in the singular or plural.

    Examples
    --------
    >>> counted(1, "row"), counted(1200, "row"), counted(0, "such entry", "such entries")
    ('1 row', '1,200 rows', '0 such entries')
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def some(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first names of a list and the number of the others.

    Examples
    --------
    >>> some(["a", "b"], 2), some(list("abcde"), 2)
    ('a, b', 'a, b and 3 more')
    """
    more = len(names) - most
    return separator.join(names[:most]) + (f" and {more} more" if more > 0 else "")


def meant(*names: str) -> str:
    """Return the question that suggests similar names, already quoted, in place of an unknown one.

    Examples
    --------
    >>> meant("'a'"), meant("'a'", "'b'", "'c'")
    ("did you mean 'a'?", "did you mean 'a', 'b' or 'c'?")
    """
    return f"did you mean {' or '.join([', '.join(names[:-1]), names[-1]] if names[1:] else names)}?"


def clock(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours.

    Examples
    --------
    >>> clock(4.2), clock(80), clock(4000)
    ('5 s', '1 min 20 s', '1 h 7 min')
    """
    whole = max(1, int(seconds + 0.999))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {round(whole % 3600 / 60)} min"


def size(count: int) -> str:
    """Format a number of bytes in the largest suitable unit.

    Examples
    --------
    >>> size(900), size(2_500_000)
    ('900 bytes', '2.5 MB')
    """
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return counted(count, "byte")
