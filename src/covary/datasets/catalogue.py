"""Catalogue of all data sets by name."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from covary._checks import fail
from covary._errors import Option, Remedy, joined, phrase
from covary._words import meant
from covary.datasets import classes, clouds, curves, series, shipped, surfaces

if TYPE_CHECKING:
    import pandas as pd

LOADERS: dict[str, Callable[..., pd.DataFrame]] = {
    name.removeprefix("load_"): function for name, function in sorted(vars(shipped).items()) if name.startswith("load_")
}
GENERATORS: dict[str, tuple[str, Callable[..., pd.DataFrame]]] = {  # name: kind, function
    "line": ("regression", curves.make_line),
    "step": ("regression", curves.make_step),
    "cubic": ("regression", curves.make_cubic),
    "sine": ("regression", curves.make_sine),
    "chirp": ("regression", curves.make_chirp),
    "two_optima": ("regression", curves.make_two_optima),
    "gap": ("regression", curves.make_gap),
    "spike": ("regression", curves.make_spike),
    "neal": ("regression", curves.make_neal),
    "outliers": ("regression", curves.make_outliers),
    "sinc": ("regression", curves.make_sinc),
    "uneven": ("regression", curves.make_uneven),
    "gp": ("regression", surfaces.make_gp),
    "product": ("regression", surfaces.make_product),
    "decades": ("regression", surfaces.make_decades),
    "hills": ("regression", surfaces.make_hills),
    "potential": ("regression", surfaces.make_potential),
    "robot_arm": ("regression", surfaces.make_robot_arm),
    "friedman": ("regression", surfaces.make_friedman),
    "four_points": ("regression", surfaces.make_four_points),
    "three_clusters": ("two classes", classes.make_three_clusters),
    "lone_points": ("two classes", classes.make_lone_points),
    "logistic": ("two classes", classes.make_logistic),
    "squashed": ("two classes", classes.make_squashed),
    "switch": ("two classes", classes.make_switch),
    "neal_binary": ("two classes", classes.make_neal_binary),
    "rings": ("two classes", classes.make_rings),
    "separable": ("two classes", classes.make_separable),
    "few_labels": ("two classes", classes.make_few_labels),
    "probability_maps": ("three classes", classes.make_probability_maps),
    "neal_classes": ("three classes", classes.make_neal_classes),
    "autoregression": ("time series", series.make_autoregression),
    "mackey_glass": ("time series", series.make_mackey_glass),
    "hidden_markov": ("hidden states", series.make_hidden_markov),
    "mixture": ("hidden states", series.make_mixture),
    "bands": ("hidden states", series.make_bands),
    "lighthouse": ("sample", series.make_lighthouse),
    "coin": ("sample", series.make_coin),
    "spacings": ("sample", series.make_spacings),
    "sensors": ("latent positions", clouds.make_sensors),
    **{shape: ("cloud", partial(clouds.make_cloud, shape=shape)) for shape in clouds.SHAPES},
}
GENERATED = "generated"


def names() -> list[str]:
    """Return all names that :func:`load` accepts: measured data sets, then generated ones."""
    return [*LOADERS, *GENERATORS]


def available() -> pd.DataFrame:
    """Return a table of the data sets, one per row, measured ones first.

    Columns ``name``, ``kind``, ``rows``, ``columns``, ``target`` (several separated by commas, empty if there is none),
    ``licence`` ("generated" for toy problems, which have no licence) and ``source``. For generated data sets, the number of
    rows is the default.

    Examples
    --------
    >>> available().set_index("name").loc["iris", ["kind", "target", "licence"]].tolist()
    ['three classes', 'species', 'CC BY 4.0']
    """
    import pandas as pd

    found: list[tuple[Any, ...]] = [
        (r["name"], r["kind"], int(r["rows"]), int(r["columns"]), r["target"], r["licence"], r["origin"])
        for r in sorted(shipped.rows(), key=lambda r: r["name"])
    ]
    for name, (kind, function) in GENERATORS.items():
        table = function()
        found.append((name, kind, *table.shape, ",".join(table.attrs["targets"]), GENERATED, table.attrs["source"]))
    return pd.DataFrame(found, columns=["name", "kind", "rows", "columns", "target", "licence", "source"])


def load(name: str, n: int | None = None, **options: Any) -> pd.DataFrame:
    """Load or generate a data set by name.

    Parameters
    ----------
    name
        A name listed by :func:`available`.
    n
        The number of rows, for generated or sampled data sets; their default if None.
    options
        ``noise``, ``random_state`` and other arguments of the generator.

    Examples
    --------
    >>> load("iris").shape, load("step", 10, noise=0.0)["y"].tolist()[4:6]
    ((150, 5), [-1.0, 1.0])
    """
    who = "datasets.load"
    if name not in LOADERS and name not in GENERATORS:
        near = difflib.get_close_matches(str(name), names(), 3, 0.5)
        do = meant(*map(repr, near)) if near else Remedy("catalogue", "covary.datasets.available() lists them")
        raise fail(who, f"there is no data set {name!r}", do)
    function: Any = LOADERS[name] if name in LOADERS else GENERATORS[name][1]
    given = options if n is None else {"n": n, **options}
    known = inspect.signature(function).parameters
    strange = next((option for option in given if option not in known), None)
    if strange is not None:
        can = joined(map(Option, known)) if known else phrase("nothing, because the data are measured")
        raise fail(who, f"{name!r} takes no " + Option(strange), "it takes " + can, argument=strange)
    return function(**given)
