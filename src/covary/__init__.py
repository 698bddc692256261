"""covary: Gaussian processes for regression, classification and counts, with calibrated error bars.

Estimators::

    from covary import GPRegressor
    model = GPRegressor().fit(X, y)
    mean, std = model.predict(X_new, return_std=True)

Core API::

    from covary import GP, Data, Model, condition, learn
    model = learn(Model(GP("1.0 * Matern52()")), Data(X, y))
    post = condition(model, Data(X, y))
"""

import importlib

from covary import _moved as _moved
from covary._version import __version__ as __version__

TYPE_CHECKING = False  # no import of typing or __future__: "python -m covary" would search the current folder for them first
if TYPE_CHECKING:
    from typing import Any

    from covary.data import Data as Data
    from covary.data import Inputs as Inputs
    from covary.estimators.classifier import GPClassifier as GPClassifier
    from covary.estimators.regressor import GPRegressor as GPRegressor
    from covary.files import load as load
    from covary.files import save as save
    from covary.inference.condition import condition as condition
    from covary.model import GP as GP
    from covary.model import Model as Model
    from covary.posterior import sample_prior as sample_prior
    from covary.selection.learn import learn as learn
    from covary.selection.objectives import log_evidence as log_evidence
    from covary.selection.objectives import log_evidence_and_grad as log_evidence_and_grad

# imported on first use: the command's --help does not import JAX, and the core API does not import scikit-learn
_WHERE = {
    "GP": "model",
    "Data": "data",
    "GPClassifier": "estimators.classifier",
    "GPRegressor": "estimators.regressor",
    "Inputs": "data",
    "Model": "model",
    "condition": "inference.condition",
    "learn": "selection.learn",
    "load": "files",
    "log_evidence": "selection.objectives",
    "log_evidence_and_grad": "selection.objectives",
    "sample_prior": "posterior",
    "save": "files",
}

__all__ = [
    "GP",
    "Data",
    "GPClassifier",
    "GPRegressor",
    "Inputs",
    "Model",
    "condition",
    "enable_cache",
    "learn",
    "load",
    "log_evidence",
    "log_evidence_and_grad",
    "sample_prior",
    "save",
]


_KERNELS = (
    "Matern52",
    "Matern32",
    "Matern12",
    "Matern",
    "SquaredExponential",
    "RBF",
    "Periodic",
    "RationalQuadratic",
    "Linear",
)
_ELSEWHERE = {
    "GaussianProcessRegressor": "write GPRegressor",
    "GaussianProcessClassifier": "write GPClassifier",
    "GPRegression": "write GPRegressor",
    "GPClassification": "write GPClassifier",
    **{kernel: f"write from covary.kernels import {kernel}" for kernel in _KERNELS},
}


def __getattr__(name: str) -> "Any":
    if name in _WHERE:
        value = getattr(importlib.import_module(f"covary.{_WHERE[name]}"), name)
        globals()[name] = value
        return value
    try:
        return importlib.import_module(f"covary.{name}")  # covary.kernels, covary.metrics, ...
    except ModuleNotFoundError as error:
        if error.name != f"covary.{name}":
            raise
    from covary._names import missing

    raise missing("covary", name, _ELSEWHERE.get(name, ""))


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])


def enable_cache(directory: str | None = None) -> str:
    """Cache compiled code on disk, so that a new process need not compile it again. Sets JAX's global flags.

    Parameters
    ----------
    directory
        The cache directory; by default ``~/.cache/covary``.
    """
    import os

    import jax

    from covary._write import make_folder

    directory = directory or os.path.join(os.path.expanduser("~"), ".cache", "covary")
    make_folder(directory, "enable_cache")
    jax.config.update("jax_compilation_cache_dir", directory)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return directory
