"""Training rows of a fit, and predictions together with observed values, for checks and reports of any family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import ndtr


@dataclass(frozen=True)
class Advice:
    """Advice on the findings of checks; families may replace the general texts by more specific ones.

    ``free``: error bars that are too narrow or too wide; ``heavy``: a few outliers that widen all error bars; ``several``:
    outputs that cannot share one model; ``shape``: predictive distributions of the wrong shape; ``more``: structure in
    the residuals; ``inputs``: uninformative inputs; ``varying``: errors of varying size; ``outliers``: outliers;
    ``cautious``: underconfident class probabilities; ``smoother``: error bars wider than needed; ``beyond``: new rows beyond
    the data.
    """

    free: str = "Try another model"
    heavy: str = "transform y."
    several: str = "The outputs share one model: fit them one at a time."
    shape: str = "Inspect the histogram; try another model, or transform y."
    more: str = "Try a more flexible model, or an additional input."
    inputs: str = "Use other inputs or more rows; a constant predicts just as well."
    varying: str = "Try a model whose noise varies, or transform y (its logarithm, say)."
    outliers: str = "Inspect these rows; if they are correct, try a model with longer tails."
    cautious: str = "The most probable class is correct more often than its probability suggests; recalibrate on other rows."
    smoother: str = ""
    beyond: str = "Collect rows there, or do not rely on these predictions."


@dataclass(frozen=True)
class Training:
    """The training rows of a fit.

    Parameters
    ----------
    x
        Inputs as numbers (n, d).
    y
        Observations in the user's units (n, p); class codes (n, 1).
    size
        Number of trials or exposure of each row, if any.
    count
        Number of rows (by weight) before rows with equal inputs were merged; by default that of ``x``.
    merged
        Whether rows with equal inputs were merged.
    lengths
        Characteristic length of each column (d,).
    coded
        Columns that hold category codes, which have no order.
    learned
        Whether parameters were learned from these rows, so that they may be too few.
    still
        Targets with constant observations.
    noise
        Whether the Gaussian noise was ``"learned"`` or ``"fixed"``; empty under other noise.
    whole
        Whether observations are integers.
    widths
        Variances of the prior and of the noise, to convert a share of the prior variance into the width of an error bar.
    how
        How the fit was computed, as a clause; empty for the exact method.
    unfinished
        Note for learning that did not finish; empty otherwise.
    advice
        Advice on findings.
    """

    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    size: np.ndarray | None = field(default=None, repr=False)
    count: float = 0.0
    merged: bool = False
    lengths: np.ndarray = field(default_factory=lambda: np.ones(1), repr=False)
    coded: frozenset[int] = frozenset()
    learned: bool = True
    still: tuple[str, ...] = ()
    noise: str = ""
    whole: bool = False
    widths: tuple[float, float] = (1.0, 0.0)
    how: str = ""
    unfinished: str = ""
    advice: Advice = field(default_factory=Advice)

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", self.count or float(len(self.x)))

    @property
    def rows(self) -> int:
        """The number of rows, after merging."""
        return len(self.x)


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Predictions and observed values of m rows: arrays (m, p) for p outputs, (m, C) for C classes.

    :meth:`of_numbers` and :meth:`of_classes` create it from predictions. ``kind`` is ``"leave-one-out"``, ``"new rows"`` or
    ``"in-sample"``, and ``how`` describes the computation; ``rows`` are the indices of the m rows among the ``total`` rows
    given; ``share`` is the ratio of posterior to prior variance, if there is one. ``pit`` is the predictive probability of a
    value below the observed one, uniform for correct predictions (randomised for integer observations); ``z`` is its standard
    normal quantile. For classes, ``y`` holds the codes (m, 1) and ``p`` the probabilities; mean, std, pit and z are empty.
    Without error bars, std, pit and z are empty. ``ends`` are the ends of the 95 % intervals, (m, 1) each, if they are not
    1.96 standard deviations from the mean; under non-Gaussian noise ``with_ends`` computes them.
    """

    kind: str
    how: str
    rows: np.ndarray = field(repr=False)
    total: int
    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    share: np.ndarray | None = field(default=None, repr=False)
    mean: np.ndarray = field(repr=False)
    std: np.ndarray = field(repr=False)
    pit: np.ndarray = field(repr=False)
    z: np.ndarray = field(repr=False)
    p: np.ndarray | None = field(default=None, repr=False)
    ends: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)
    find_ends: Callable[[], tuple[np.ndarray, np.ndarray]] | None = field(default=None, repr=False, compare=False)

    @staticmethod
    def of_numbers(
        kind: str, how: str, x: np.ndarray, y: np.ndarray, mean: np.ndarray, std: np.ndarray | None = None
    ) -> Judged:
        """Compare predicted with observed numbers, (m,) or (m, p), at all rows x; errors are normal with deviation ``std``.

        Without ``std``, the predictions have no error bars.

        Examples
        --------
        >>> Judged.of_numbers("new rows", "", np.zeros((3, 1)), np.arange(3.0), np.ones(3), np.full(3, 0.5)).z[:, 0]
        array([-2.,  0.,  2.])
        """
        seen, middle, none = _columns(y), _columns(mean), np.empty((len(x), 0))
        rows = np.arange(len(x))
        bare = Judged(kind=kind, how=how, rows=rows, total=len(x), x=x, y=seen, mean=middle, std=none, pit=none, z=none)
        if std is None:
            return bare
        width = _columns(std)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(seen == middle, 0.0, (seen - middle) / width)
        return replace(bare, std=width, pit=ndtr(z), z=z)

    @staticmethod
    def of_classes(kind: str, how: str, x: np.ndarray, codes: np.ndarray, p: np.ndarray) -> Judged:
        """Compare probabilities (m, C) of classes with the codes (m,) of the observed ones, at all rows x."""
        rows, none, y = np.arange(len(x)), np.empty((len(x), 0)), _columns(codes)
        return Judged(kind=kind, how=how, rows=rows, total=len(x), x=x, y=y, mean=none, std=none, pit=none, z=none, p=p)

    @property
    def has_error_bars(self) -> bool:
        """Whether the predictions are numbers with error bars."""
        return self.std.shape[1] > 0

    def with_ends(self) -> Judged:
        """Return a copy with the ends of the intervals, which take a second or two under non-Gaussian noise."""
        return self if self.ends is not None or self.find_ends is None else replace(self, ends=self.find_ends())

    def __len__(self) -> int:
        return len(self.rows)


def _columns(values: np.ndarray) -> np.ndarray:
    """Return numbers as (m, p)."""
    values = np.asarray(values, np.float64)
    return values[:, None] if values.ndim == 1 else values
