"""What all pictures share: colours that everyone can tell apart, axes, names of columns, and pictures for a page."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from covary._checks import fail

# Any two are at least 20 apart in CIE-Lab (nine just noticeable differences), also to readers who see no red or no green; so
# are all of them from a white page and from a dark one. Searched for from Okabe and Ito's blue and orange.
BLUE, ORANGE, GREEN, PINK, GOLD, VIOLET, WINE, SKY = COLOURS = (
    *("#0072B2", "#D55E00", "#1FA460", "#A8527C"),
    *("#F2A100", "#4431B5", "#921429", "#4CC2E0"),
)
ON_DARK = dict(
    zip(COLOURS, (*("#4AA8E0", "#E8833A", "#45E08F", "#B5749B"), *("#F7DC3A", "#7A66F2", "#DB4A50", "#C5EAF4")), strict=True)
)
DASHES = ("-", (0, (5, 1.6)), (0, (6, 1.5, 1.2, 1.5)), (0, (1.3, 1.3)))
MARKS = "o^sDvPX<>p*"
INK, GREY = "#222222", "#8A8A8A"  # grey: seen on white and on black
SEQUENTIAL, UNCERTAIN, DIVERGING = "viridis", "cividis", "PuOr"  # of means, of spreads, of what has a middle
PANEL = (3.2, 2.3)  # inches
MOST = 4000  # points drawn; more are thinned, and the picture says so
RASTER = 1500  # points beyond which they are pixels in a vector picture
CURRENT = "#1b1c1d"  # the ink that :func:`svg` hands over to the page
FORMULA = re.compile(r"\$[^$]*[\\^_][^$]*\$")  # what lies between two dollar signs, if it may be one

Draws = TypeVar("Draws", bound=Callable[..., Any])


def ink() -> str:
    """The colour of text and points: matplotlib's own colour of text, so that :func:`theme` governs it."""
    import matplotlib as mpl
    from matplotlib.colors import to_hex

    found = to_hex(mpl.rcParams["text.color"])
    return INK if found == "#000000" else found


def theme(ink: str = "#6F6F6F", size: float = 9.0) -> Any:
    """A context in which pictures have no background, and text and axes one colour that suits a light page and a dark one.

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
    values: dict[Any, Any] = {}
    for names, value in ((named, ink), (clear, "none")):
        values |= dict.fromkeys(names, value)
    values |= {"font.size": size, "axes.titlesize": size + 1, "axes.labelsize": size, "legend.fontsize": size - 0.5}
    return mpl.rc_context(values)


def svg(figure: Any, *, title: str, prefix: str = "") -> str:
    """A figure drawn inside ``theme(CURRENT)`` as SVG text for a page, in the page's own text colour; the same every time.

    Parameters
    ----------
    figure
        The figure.
    title
        What it shows, for readers who do not see it.
    prefix
        Put before every id, so that several pictures can stand on one page.

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
    )  # marks take the colour of their use
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}", text)
    label = html.escape(title, quote=True)
    return text.replace("<svg", f'<svg role="img" aria-label="{label}"', 1).strip()


def look(i: int, points: int = 0) -> dict[str, Any]:
    """The i-th line of several: a colour, dashes, and from the fifth on marks, at about six of so many points.

    Examples
    --------
    >>> look(1)["color"], look(1)["ls"] == look(5)["ls"], look(1)["marker"], look(5)["marker"]
    ('#D55E00', True, None, '^')
    """
    every = max(1, points // 6)
    mark = None if i < len(DASHES) else MARKS[(i - len(DASHES)) % len(MARKS)]
    dash, colour = DASHES[i % len(DASHES)], COLOURS[i % len(COLOURS)]
    return {"color": colour, "ls": dash, "marker": mark, "ms": 4.5, "markevery": ((i * every) // 4 % every, every)}


# axes -----------------------------------------------------------------------------------------------------------


def one(ax: Any, size: tuple[float, float] = (5.6, 3.8)) -> Any:
    """The axes to draw on, made if None."""
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def several(
    who: str, ax: Any, count: int, *, panel: tuple[float, float] = PANEL, wide: int | None = None, **options: Any
) -> np.ndarray:
    """So many axes as a flat array: those that are given (as many at least), or new ones in rows."""
    import matplotlib.pyplot as plt

    if ax is not None:
        given = np.ravel(np.asarray(ax, dtype=object))
        if len(given) < count:
            raise fail(who, f"got {len(given)} axes", f"give {count}, or none")
        return given[:count]
    wide = wide or (count if count < 4 else 2 if count == 4 else 3)
    tall = -(-count // wide)
    size = (max(panel[0] * wide, 4.4), max(panel[1] * tall, 2.6))
    made = plt.subplots(tall, wide, figsize=size, layout="constrained", squeeze=False, **options)[1].ravel()
    for spare in made[count:]:
        spare.remove()
    return made[:count]


def bare(ax: Any) -> None:
    """No frame at the top and the right."""
    ax.spines[["top", "right"]].set_visible(False)


def legend(ax: Any, **options: Any) -> None:
    """A legend without a frame, where there is something to name."""
    if ax.get_legend_handles_labels()[1]:
        ax.legend(**{"frameon": False, "fontsize": 8.5, "handlelength": 2.6} | options)


def title(ax: Any, text: str) -> None:
    """A short title at the left."""
    ax.set_title(text, fontsize=9.5, loc="left")


# points and names -----------------------------------------------------------------------------------------------


def literally(artist: Any) -> None:
    """Let dollar signs in names be dollar signs, unless there is a formula between them that matplotlib can read."""
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


def names_shown(draw: Draws) -> Draws:
    """For a function that draws names of the user's and gives back its axes: names such as ``price [$/A$]`` stay as they are.

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
    def drawn(*args: Any, **options: Any) -> Any:
        out = draw(*args, **options)
        for ax in np.ravel(np.asarray(out, dtype=object)):
            literally(ax)
        return out

    return cast(Draws, drawn)


def point_size(rows: int) -> float:
    """The area of a data point: smaller where there are many."""
    return float(np.clip(900 / rows, 3.5, 26))


def dot_size(rows: int) -> float:
    """The area of a point in a cloud of rows."""
    return float(np.clip(1800 / rows, 4, 18))


def thinned(rows: int, key: int = 0) -> np.ndarray:
    """Which rows to draw: all, or so many by chance."""
    if rows <= MOST:
        return np.arange(rows)
    return np.sort(np.random.default_rng(key).choice(rows, MOST, replace=False))


def column_name(names: Any, i: int) -> str:
    """What the i-th input is called."""
    return str(names[i]) if names is not None else f"x{i}"


def spaced(values: np.ndarray, points: int, margin: float) -> np.ndarray:
    """So many points over the range of the values, and a share of it further on either side."""
    low, high = float(values.min()), float(values.max())
    pad = margin * (high - low or 1.0)
    return np.linspace(low - pad, high + pad, points)


def posteriors(who: str, model: Any) -> list[Any]:
    """The posteriors inside: of a posterior itself, of an estimator, of each class against the rest."""
    if hasattr(model, "estimators_"):
        return [part.posterior_ for part in model.estimators_]
    found = getattr(model, "posterior_", model)
    if not (hasattr(found, "solved") and hasattr(found, "data")):
        raise fail(who, f"got {type(model).__name__}", "give a fitted estimator or a posterior")
    return [found]
