"""Building blocks of reports: sections of figures, tables and notes, shared by all families."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from covary.fits.summary import Summary
from covary.fits.training import Judged, Training


class Relevance(NamedTuple):
    """Relevance of columns, in decreasing order: names, shares, and the distances to the ends of 95 % intervals, (2, d).

    ``errors`` is None if joint draws are unavailable or too slow (several latent functions, neighbours); the
    shares are then those of the posterior mean. Reports and the command show these numbers.
    """

    names: list[str]
    values: np.ndarray
    errors: np.ndarray | None


@dataclass(frozen=True)
class Figure:
    """A figure: its SVG, caption, and the CSS classes of its element.

    ``"wide"`` may take the full width; ``"map"`` has colours that encode numbers, unchanged on a dark page;
    ``"paper"`` has a white background, also on a dark page.
    """

    svg: str
    caption: str
    classes: str = ""


@dataclass(frozen=True)
class Cell:
    """A table cell: its text, whether to set it as code, the length of a bar, and a remark in small print."""

    text: str
    code: bool = False
    bar: float = 0.0
    remark: str = ""


class Heading(NamedTuple):
    """A column heading of a table; columns of numbers are right-aligned, those of words may wrap."""

    text: str
    kind: str = ""  # "n" for numbers, "words" for sentences


@dataclass(frozen=True)
class Table:
    """A table in which the first cell of each row is its heading; ``label`` describes the content."""

    label: str
    head: tuple[Heading, ...]
    rows: tuple[tuple[Cell, ...], ...]
    classes: str = ""


@dataclass(frozen=True)
class Figures:
    """Figures side by side, followed by an optional table, with its label as a heading, and an optional note."""

    figures: tuple[Figure, ...]
    classes: str = ""
    table: Table | None = None
    note: str = ""


@dataclass(frozen=True)
class Facts:
    """Names and values."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Note:
    """A line of text."""

    text: str


@dataclass(frozen=True)
class Title:
    """A heading inside a section."""

    text: str


Leaf = Figures | Table | Facts | Note | Title


@dataclass(frozen=True)
class Beside:
    """Parts shown side by side on a wide page."""

    parts: tuple[tuple[Leaf, ...], ...]


Block = Leaf | Beside


@dataclass(frozen=True)
class Findings:
    """Results that a report passes to a family for its sections.

    ``names`` and ``targets`` are the names of inputs and targets, shortened to fit next to a figure; ``important`` holds the
    important columns, the most relevant first.
    """

    names: tuple[str, ...]
    targets: tuple[str, ...]
    training: Training
    judged: Judged | None
    relevance: Relevance | None
    important: tuple[int, ...]
    summary: Summary


@dataclass(frozen=True)
class Section:
    """A section of a report: its anchor, navigation label, heading, and blocks.

    ``before`` names the general section that follows it: ``"predictions"``, ``"calibration"``, ``"residuals"``, ``"data"`` or
    ``"again"``. A section without blocks is omitted.
    """

    name: str
    label: str
    title: str
    blocks: Sequence[Block] = field(default=())
    before: str = "data"
