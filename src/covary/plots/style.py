"""Shared parts of all plots: colours that are safe for colour-blind readers, axes, column names, and SVG output."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ParamSpec, TypeAlias, TypedDict, TypeVar

import numpy as np

from covary._checks import fail
from covary.fits.literally import literally as literally

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Any two differ by at least 20 in CIE-Lab (nine just noticeable differences), also for readers with red or green blindness,
# and so does each from a white and from a dark page. Found by a search that started from Okabe and Ito's blue and orange.
BLUE, ORANGE, GREEN, PINK, GOLD, VIOLET, WINE, SKY = COLOURS = (
    *("#0072B2", "#D55E00", "#1FA460", "#A8527C"),
    *("#F2A100", "#4431B5", "#921429", "#4CC2E0"),
)
ON_DARK = dict(
    zip(COLOURS, (*("#4AA8E0", "#E8833A", "#45E08F", "#B5749B"), *("#F7DC3A", "#7A66F2", "#DB4A50", "#C5EAF4")), strict=True)
)
DASHES = ("-", (0, (5, 1.6)), (0, (6, 1.5, 1.2, 1.5)), (0, (1.3, 1.3)))
MARKS = "o^sDvPX<>p*"
INK, GREY = "#222222", "#8A8A8A"  # the grey is visible on white and on black
SEQUENTIAL, UNCERTAIN, DIVERGING = "viridis", "cividis", "PuOr"  # for means, for standard deviations, for signed values
PANEL = (3.2, 2.3)  # inches
MOST = 4000  # maximum number of points drawn; more are thinned
RASTER = 1500  # points beyond which they are rasterised in vector graphics
CURRENT = "#1b1c1d"  # the colour that :func:`svg` replaces by the text colour of the page

Arguments = ParamSpec("Arguments")
Drawn = TypeVar("Drawn")
Given: TypeAlias = "Axes | Sequence[Axes] | np.ndarray | None"
"""Axes to draw on: one, several, or None to create them."""
Option = str | float | bool | None | tuple[float, float]  # an option of a matplotlib function


def ink() -> str:
    """Return the colour of text and points: matplotlib's text colour, which :func:`theme` sets."""
    import matplotlib as mpl
    from matplotlib.colors import to_hex

    found = to_hex(mpl.rcParams["text.color"])
    return INK if found == "#000000" else found


def theme(ink: str = "#6F6F6F", size: float = 9.0) -> AbstractContextManager[None]:
    """Return a context in which plots have no background, and one colour for text and axes that suits light and dark pages.

    Parameters
    ----------
    ink
        The colour of text, axes and points.
    size
        The size of the text, in points.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> with theme():
    ...     _, ax = plt.subplots()
    >>> ax.xaxis.label.get_color()
    '#6F6F6F'
    >>> plt.close()
    """
    import matplotlib as mpl

    named: tuple[str, ...] = (
        "text.color",
        "axes.labelcolor",
        "axes.edgecolor",
        "axes.titlecolor",
        "xtick.color",
        "ytick.color",
    )
    clear: tuple[str, ...] = ("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor")
    values: dict[str, str | float] = {}
    for names, value in ((named, ink), (clear, "none")):
        values |= dict.fromkeys(names, value)
    values |= {"font.size": size, "axes.titlesize": size + 1, "axes.labelsize": size, "legend.fontsize": size - 0.5}
    return mpl.rc_context(values)  # type: ignore[arg-type]


def svg(figure: Figure, *, title: str, prefix: str = "") -> str:
    """Return a figure drawn inside ``theme(CURRENT)`` as reproducible SVG text for a page, in the page's text colour.

    Parameters
    ----------
    figure
        The figure.
    title
        A description of the figure, for screen readers.
    prefix
        A prefix of every id, so that several figures can be placed on one page.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> with theme(CURRENT):
    ...     figure, ax = plt.subplots()
    ...     text = svg(figure, title="empty axes", prefix="a-")
    >>> plt.close(figure)
    >>> 'aria-label="empty axes"' in text, "currentColor" in text, CURRENT in text
    (True, True, False)
    """
    import html

    import matplotlib as mpl

    literally(figure)
    out = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "covary"}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL).replace(CURRENT, "currentColor")
    text = re.sub(
        r'(<path id="m\w+" d="[^"]*" style=")stroke: [^;"]+(?:; )?', r"\1", text
    )  # markers take the colour of the element that uses them
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}", text)
    label = html.escape(title, quote=True)
    return text.replace("<svg", f'<svg role="img" aria-label="{label}"', 1).strip()


class Line(TypedDict):
    """The style of a line, as keyword arguments of matplotlib's ``plot``."""

    color: str
    ls: str | tuple[float, tuple[float, ...]]
    marker: str | None
    ms: float
    markevery: tuple[int, int]


def look(i: int, points: int = 0) -> Line:
    """Return the style of the i-th of several lines: colour, dashes, and from the fifth on markers at about six of the points.

    Examples
    --------
    >>> look(1)["color"], look(1)["ls"] == look(5)["ls"], look(1)["marker"], look(5)["marker"]
    ('#D55E00', True, None, '^')
    """
    every = max(1, points // 6)
    mark = None if i < len(DASHES) else MARKS[(i - len(DASHES)) % len(MARKS)]
    dash, colour = DASHES[i % len(DASHES)], COLOURS[i % len(COLOURS)]
    return Line(color=colour, ls=dash, marker=mark, ms=4.5, markevery=((i * every) // 4 % every, every))


# axes -----------------------------------------------------------------------------------------------------------


def one(ax: Given, size: tuple[float, float] = (5.6, 3.8)) -> Axes:
    """Return the axes to draw on, created if None."""
    import matplotlib.pyplot as plt

    if ax is None:
        return plt.subplots(figsize=size, layout="constrained")[1]
    return np.ravel(np.asarray(ax, dtype=object))[0]


def several(
    who: str,
    ax: Given,
    count: int,
    *,
    panel: tuple[float, float] = PANEL,
    wide: int | None = None,
    sharex: bool = False,
    sharey: bool = False,
) -> np.ndarray:
    """Return ``count`` axes as a flat array: the first of those given, or new ones arranged in rows."""
    import matplotlib.pyplot as plt

    if ax is not None:
        given = np.ravel(np.asarray(ax, dtype=object))
        if len(given) < count:
            raise fail(who, f"got {len(given)} axes", f"give {count}, or none")
        return given[:count]
    wide = wide or (count if count < 4 else 2 if count == 4 else 3)
    tall = -(-count // wide)
    size = (max(panel[0] * wide, 4.4), max(panel[1] * tall, 2.6))
    made = plt.subplots(tall, wide, figsize=size, layout="constrained", squeeze=False, sharex=sharex, sharey=sharey)[1].ravel()
    for spare in made[count:]:
        spare.remove()
    return made[:count]


def bare(ax: Axes) -> None:
    """Remove the frame at the top and the right."""
    ax.spines[["top", "right"]].set_visible(False)


def legend(ax: Axes, **options: Option) -> None:
    """Draw a legend without a frame, if there are labels."""
    if ax.get_legend_handles_labels()[1]:
        ax.legend(**{"frameon": False, "fontsize": 8.5, "handlelength": 2.6} | options)


def title(ax: Axes, text: str) -> None:
    """Set a short title on the left."""
    ax.set_title(text, fontsize=9.5, loc="left")


# points and names -----------------------------------------------------------------------------------------------


def names_shown(draw: Callable[Arguments, Drawn]) -> Callable[Arguments, Drawn]:
    """Decorate a function that returns its axes so that names given by the user, such as ``price [$/A$]``, are shown literally.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> @names_shown
    ... def plot_nothing(name):
    ...     ax = plt.subplots()[1]
    ...     ax.set_xlabel(name)
    ...     return ax
    >>> [plot_nothing(name).xaxis.label.get_parse_math() for name in ("a$_$b", r"$\\alpha$")]
    [False, True]
    >>> plt.close("all")
    """

    @functools.wraps(draw)
    def drawn(*args: Arguments.args, **options: Arguments.kwargs) -> Drawn:
        out = draw(*args, **options)
        for ax in np.ravel(np.asarray(out, dtype=object)):
            literally(ax)
        return out

    return drawn


def point_size(rows: int) -> float:
    """Return the area of a data point: smaller if there are many."""
    return float(np.clip(900 / rows, 3.5, 26))


def dot_size(rows: int) -> float:
    """Return the area of a point in a scatter plot of rows."""
    return float(np.clip(1800 / rows, 4, 18))


def thinned(rows: int, key: int = 0) -> np.ndarray:
    """Return the rows to draw: all, or a random choice of :data:`MOST`."""
    if rows <= MOST:
        return np.arange(rows)
    return np.sort(np.random.default_rng(key).choice(rows, MOST, replace=False))


def column_name(names: Sequence[str] | None, i: int) -> str:
    """Return the name of the i-th input."""
    return str(names[i]) if names is not None else f"x{i}"


def spaced(values: np.ndarray, points: int, margin: float) -> np.ndarray:
    """Return equally spaced points over the range of the values, extended by ``margin`` times that range on both sides."""
    low, high = float(values.min()), float(values.max())
    pad = margin * (high - low or 1.0)
    return np.linspace(low - pad, high + pad, points)
