"""Figures of a report: each drawn separately as SVG in the colours of the page, with alternative text."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from covary._checks import CovaryError
from covary.fits import Figure
from covary.plots.style import CURRENT, svg, theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL = (4.2, 3.2)
MOST_OUTPUTS = 3


class Pictures:
    """A drawing context in which every figure gets unique ids, which begin with ``prefix``."""

    def __init__(self, prefix: str = "f") -> None:
        self.prefix, self.count = prefix, 0

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """Use the style of the report, without opening windows or leaving figures open."""
        import matplotlib as mpl
        import matplotlib.pyplot as plt

        before = plt.get_fignums()
        with (
            warnings.catch_warnings(),
            mpl.rc_context({"savefig.dpi": 130, "figure.max_open_warning": 0}),
            theme(CURRENT, 9.5),
        ):
            warnings.simplefilter("ignore", UserWarning)  # about glyphs missing from matplotlib's fonts: the browser has them
            try:
                yield
            finally:
                for number in plt.get_fignums():
                    if number not in before:
                        plt.close(number)

    def many(
        self,
        count: int,
        draw: Callable[[list[Axes]], object],
        alts: list[str],
        captions: list[str],
        *,
        size: tuple[float, float] = PANEL,
        classes: str = "",
    ) -> list[Figure]:
        """Draw ``count`` figures with one axes each, in one call with all axes."""
        with self._quiet():
            import matplotlib.pyplot as plt

            axes = [plt.subplots(figsize=size, layout="constrained")[1] for _ in range(count)]
            draw(axes)
            return [self._taken(ax, alt, text, classes) for ax, alt, text in zip(axes, alts, captions, strict=True)]

    def own(self, draw: Callable[[], Axes | np.ndarray], alt: str, caption: str, *, classes: str = "") -> list[Figure]:
        """Return one figure that the drawing function creates itself."""
        with self._quiet():
            return [self._taken(np.ravel(np.asarray(draw(), dtype=object))[0], alt, caption, classes)]

    def one(
        self,
        draw: Callable[[Axes], object],
        alt: str,
        caption: str,
        *,
        size: tuple[float, float] = PANEL,
        classes: str = "",
    ) -> list[Figure]:
        """Draw one figure, and return it in a list."""
        return self.many(1, lambda axes: draw(axes[0]), [alt], [caption], size=size, classes=classes)

    def _taken(self, ax: Axes, alt: str, caption: str, classes: str) -> Figure:
        self.count += 1
        return Figure(svg(ax.figure, title=alt, prefix=f"{self.prefix}{self.count}-"), caption, classes)  # type: ignore[arg-type]


def attempt(make: Callable[[], list[Figure]]) -> list[Figure]:
    """Return the figures, or an empty list if they cannot be drawn for a model."""
    try:
        return make()
    except (CovaryError, np.linalg.LinAlgError):
        return []
