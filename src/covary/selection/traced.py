"""The log evidence under the JAX transformations ``jax.grad``, ``jax.jit`` and ``jax.vmap``."""

from __future__ import annotations

from contextlib import suppress

import jax
import numpy as np

from covary._checks import fail, is_traced
from covary._errors import Option, Phrase
from covary.data import Data
from covary.gram.base import AbstractGram
from covary.gram.dense import Dense
from covary.gram.traced import evidence
from covary.inference.base import AbstractInference
from covary.inference.exact import Exact
from covary.inference.plan import AbstractPlan
from covary.likelihoods.gaussian import Gaussian
from covary.model import Model

WHO = "log_evidence"
INSTEAD = "use log_evidence_and_grad outside of them"


def traced_log_evidence(model: Model, data: Data, inference: AbstractInference, gram: AbstractGram | AbstractPlan) -> jax.Array:
    """Compute the log evidence of a model or data with tracers; raise an error for unsupported combinations."""
    check_combination(model, inference, gram)
    check_precision(data)
    check_shapes(model, data)
    assert isinstance(gram, Dense)
    return evidence(model, data, gram.jitter)


def check_combination(model: Model, inference: AbstractInference, gram: AbstractGram | AbstractPlan) -> None:
    """Raise an error unless it is exact inference with the dense gram under Gaussian noise, which can be traced."""
    if not isinstance(model.likelihood, Gaussian):
        name = type(model.likelihood).__name__
        raise fail(WHO, _cannot("likelihood", f"{name}(...)"), f"trace a model with Gaussian noise, or {INSTEAD}")
    if not isinstance(inference, Exact):
        what = _cannot("inference", f"{type(inference).__name__}()")
        raise fail(WHO, what, "use " + Option("inference", "Exact()") + f", or {INSTEAD}")
    if not isinstance(gram, Dense):
        raise fail(WHO, _cannot("gram", f"{type(gram).__name__}(...)"), "use " + Option("gram", "Dense()") + f", or {INSTEAD}")


def _cannot(argument: str, value: str) -> Phrase:
    return "jax.grad, jit and vmap do not work with " + Option(argument, value)


def check_precision(data: Data) -> None:
    """Raise an error in 32-bit mode unless the data are float32: JAX then converts all traced values to float32."""
    if jax.dtypes.canonicalize_dtype(np.float64) != np.float32:
        return
    if is_traced(data.X.x) or data.dtype != np.float32:
        what = "JAX computes in 32 bit here, which is too coarse for a covariance matrix"
        raise fail(WHO, what, "trace it inside `with jax.enable_x64(True):`, where data of type float32 stay float32")


def check_shapes(model: Model, data: Data) -> None:
    """Run the checks of kernel and mean as far as possible without the values of tracers."""
    for part in (*model.prior.kernels, model.prior.mean):
        with suppress(jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
            part.check(data.X)
