"""Export of a fitted model as one Python file that needs only NumPy, for machines without JAX or covary."""

from __future__ import annotations

import os

from covary import fits
from covary.export.copied import MODULES as MODULES
from covary.export.copied import copies as copies
from covary.export.kernels import WHO


def export_model(
    model: fits.Model, path: str | os.PathLike[str], *, std: bool = True, tolerance: float = 1e-10
) -> dict[str, float]:
    r"""Write a fitted estimator as one Python file that makes the same predictions with NumPy alone.

    The file defines ``predict(X, return_std=False, latent=False)``; for classes, ``predict_proba(X)`` and ``predict(X)``. It
    accepts arrays, tables with column names or dicts of columns, and also runs as a command: ``python predictor.py new.csv
    predictions.csv``. When it is written, its predictions are compared with those of the model.

    Parameters
    ----------
    model
        A fit, a fitted :class:`~covary.GPRegressor` with Gaussian noise, or a :class:`~covary.GPClassifier` (two classes, or
        several by the softmax or one-vs-rest); with any method except ``"markov"``. Kernels and means that contain
        user-defined functions raise an error.
    path
        The file to write, for example ``predictor.py``.
    std
        Whether to include error bars. For an exact model they take 4 n² bytes, and a third more as text; without them the
        file predicts only the mean.
    tolerance
        The largest allowed deviation from the predictions of the model, relative to the scale of y (absolute for
        probabilities); if it is exceeded, no file is written.

    Returns
    -------
    The largest deviation of ``"mean"`` and ``"std"``, or of ``"probability"``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from covary import GPRegressor
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> model = GPRegressor().fit(X, np.sin(X[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     off = export_model(model, f"{folder}/predictor.py")
    ...     space = {"__name__": "predictor"}
    ...     exec(Path(f"{folder}/predictor.py").read_text(), space)
    >>> bool(abs(space["predict"]([[1.0]]) - model.predict([[1.0]])) < 1e-10), off["mean"] < 1e-10
    (True, True)
    """
    fit = fits.of(model, WHO)
    return fits.family_of(fit).export(fit, path, std=std, tolerance=tolerance)
