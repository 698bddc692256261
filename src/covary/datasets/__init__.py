"""Small data sets that ship with the package."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def load_co2() -> pd.DataFrame:
    """Monthly means of atmospheric CO2 at Mauna Loa, March 1958 to December 2001, in parts per million.

    Columns ``decimal_year`` (middle of the month), ``year``, ``month``, ``co2_ppm``. Averaged from the weekly flask
    record of Keeling and Whorf (Scripps Institution of Oceanography), in the public domain, as distributed with
    statsmodels.

    Examples
    --------
    >>> load_co2().shape
    (521, 4)
    """
    import pandas as pd

    with resources.files("covary.datasets").joinpath("mauna_loa_co2.csv").open() as file:
        return pd.read_csv(file)
