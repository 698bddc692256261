"""How generated tables are put together: columns, the noise-free truth beside them, a seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from covary._checks import fail

if TYPE_CHECKING:
    import pandas as pd


def frame(
    columns: Mapping[str, Any], *, source: str, truth: Any = None, noise: float | None = None, targets: int = 1
) -> pd.DataFrame:
    """The columns as a frame, targets last; ``attrs`` hold source, targets, noise and truth as plain lists and numbers.

    ``truth`` has one entry per row: the noise-free target, or the probability of the last class (of every class, a row
    each, where there are more than two).
    """
    import pandas as pd

    table = pd.DataFrame(dict(columns))
    table.attrs["source"] = source
    table.attrs["targets"] = [str(name) for name in table.columns[table.shape[1] - targets :]]
    if noise is not None:
        table.attrs["noise"] = float(noise)
    if truth is not None:
        table.attrs["truth"] = np.asarray(truth).tolist()
    return table


def generator(random_state: Any) -> np.random.Generator:
    """A generator from a seed, a generator or None."""
    return np.random.default_rng(random_state)


def check(who: str, n: Any, noise: Any = 0.0, *, least: int = 1) -> int:
    """The number of rows, and that the noise is a standard deviation."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < least:
        raise fail(f"datasets.{who}", f"n is {n!r}", f"give a whole number of rows, {least} or more")
    if not (np.ndim(noise) == 0 and np.isfinite(noise) and noise >= 0):
        raise fail(f"datasets.{who}", f"noise is {noise!r}", "give a standard deviation, zero or more")
    return int(n)


def one_of(who: str, name: str, value: Any, known: Any) -> None:
    """Refuse a word that is not one of those known."""
    if value not in known:
        raise fail(f"datasets.{who}", f"{name} is {value!r}", f"choose one of {', '.join(map(repr, known))}")
