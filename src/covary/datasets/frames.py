"""Construction of generated tables, and checks of their arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from covary._checks import fail
from covary._errors import Option
from covary._types import ArrayLike, Seed

if TYPE_CHECKING:
    import pandas as pd


def frame(
    columns: Mapping[str, ArrayLike],
    *,
    source: str,
    truth: ArrayLike | None = None,
    noise: float | None = None,
    targets: int = 1,
) -> pd.DataFrame:
    """Return a DataFrame with the targets last; ``attrs`` has source, targets, noise and truth as plain lists and numbers.

    ``truth`` has one entry per row: the noise-free target, or the probability of the second of two classes (of all classes,
    if there are more).
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


def generator(random_state: Seed) -> np.random.Generator:
    """Return a generator from a seed, a generator or None."""
    return np.random.default_rng(random_state)


def check(who: str, n: int, noise: float = 0.0, *, least: int = 1) -> int:
    """Return the number of rows, after checking it and the standard deviation of the noise."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < least:
        raise fail(f"datasets.{who}", Option("n") + f" is {n!r}", f"give an integer of at least {least}")
    if not (np.ndim(noise) == 0 and np.isfinite(noise) and noise >= 0):
        raise fail(f"datasets.{who}", f"noise is {noise!r}", "give a standard deviation, zero or more", argument="noise")
    return int(n)


def one_of(who: str, name: str, value: str, known: Iterable[str]) -> None:
    """Raise an error if a value is not one of those known."""
    if value not in known:
        raise fail(f"datasets.{who}", f"{name} is {value!r}", f"choose one of {', '.join(map(repr, known))}", argument=name)
