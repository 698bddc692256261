"""Words that sentences share: numbers with their nouns, names like the one that was given."""

from __future__ import annotations

# what a cell of a text table or of a sheet says where nothing was measured
GAPS = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "null", "NULL", "None", "<NA>", "#N/A", "#NA")


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number and what it counts.

    Examples
    --------
    >>> counted(1, "row"), counted(1200, "row"), counted(0, "such entry", "such entries")
    ('1 row', '1,200 rows', '0 such entries')
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def meant(*names: str) -> str:
    """The question after a name that nothing has: names like it, quoted already. It ends a sentence by itself.

    Examples
    --------
    >>> meant("'a'"), meant("'a'", "'b'", "'c'")
    ("did you mean 'a'?", "did you mean 'a', 'b' or 'c'?")
    """
    return f"did you mean {' or '.join([', '.join(names[:-1]), names[-1]] if names[1:] else names)}?"
