"""Model files as the command writes them: the model, its columns, and how it was made."""

from __future__ import annotations

import json
import os
import zipfile
from contextlib import suppress
from typing import Any

from covary._checks import CovaryError
from covary.cli.doors import BadModel, BadUsage, sentence
from covary.cli.tables import table_suffix

MADE = "made"


def save_model(estimator: Any, path: str, made: dict[str, Any]) -> None:
    """Write the model, whole or not at all, with a note of how it was made beside it."""
    from covary import files

    record, arrays = estimator._to_file(None)
    try:
        files.write(path, type(estimator).__name__, {**record, MADE: made}, arrays)
    except MemoryError:
        raise
    except CovaryError as error:
        raise BadUsage(sentence(error)) from None


def load_model(path: str) -> tuple[Any, dict[str, Any]]:
    """The model in a file and how it was made (empty if a program wrote the file)."""
    from covary import files

    if path == "-":
        raise BadModel("a model cannot come through stdin; give the name of a file.")
    if not os.path.exists(path):
        raise BadModel(f"there is no file {path!r}; check the name, or make a model with covary fit.")
    try:
        estimator = files.load(path)
    except files.NeedsFunctions as error:
        what = str(error).removeprefix("load: ").partition(";")[0]
        raise BadModel(f"{what}, which the command does not have; load it in Python, where functions can be given.") from None
    except files.BadFile:
        if table_suffix(path):
            raise BadModel(f"{path!r} is damaged or no model file but a table; give the model first, then the table.") from None
        raise
    made: Any = None
    with suppress(OSError, ValueError, KeyError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        page = json.loads(archive.read(files.PAGE))
        made = {**page.get(MADE, {}), "covary": page.get("covary")} if isinstance(page.get(MADE, {}), dict) else None
    return estimator, {name: value for name, value in (made or {}).items() if _sound(name, value)}


def _sound(name: str, value: Any) -> bool:
    """Whether a note is of the type that is written: names of columns are text, whoever wrote the file."""
    if name == "ignored":
        return isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    return not name.endswith(" column") or value is None or isinstance(value, str)


def versions() -> dict[str, str]:
    """What this was computed with."""
    import platform

    import jax
    import numpy
    import pandas
    import scipy
    import sklearn

    from covary import __version__

    return {
        "covary": __version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "pandas": pandas.__version__,
    }
